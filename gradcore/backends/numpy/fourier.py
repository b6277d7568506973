"""Fourier transforms by SciPy, of several arrays in threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.numpy import threads
from gradcore.backends.numpy.thread_pool import works_in_parts
from gradcore.backends.portable.fourier import Fourier

__all__ = ["NumpyFourier"]

#: Elements, for each dim along which they are transformed, from which threads take part.
_MANY = 1 << 18


class NumpyFourier(Fourier):
    """Transforms of NumPy arrays."""

    @property
    def transforms(self) -> Any:
        """scipy.fft, imported when first used: much faster than numpy.fft in single precision and in several dims."""
        import scipy.fft

        return scipy.fft

    def transform(self, name: str, x: Any, dims: tuple[int, ...], norm: str, **sizes: Any) -> Any:
        """A batch is shared among threads; of a single array SciPy's own threads transform rows and columns."""
        number = threads.get_num_threads()
        if x.size * len(dims) < _MANY or number < 2 or works_in_parts():
            return self._transformed(name, x, dims, norm, **sizes)
        batch = next((d for d, n in enumerate(x.shape) if n > 1 and d not in dims), None)
        if batch is None:
            return super().transform(name, x, dims, norm, workers=number, **sizes)
        found: dict[int, Any] = {}
        moved = x.swapaxes(0, batch)

        def some(start: int, stop: int) -> None:
            part = moved[start:stop].swapaxes(0, batch)
            found[start] = self._transformed(name, part, dims, norm, **sizes)

        threads.spread(some, len(moved))
        return np.concatenate([found[start] for start in sorted(found)], axis=batch)

    def _transformed(
        self, name: str, x: Any, dims: tuple[int, ...], norm: str, s: tuple[int, ...] | None = None
    ) -> Any:
        """In this thread; along a single dim by the function for that, whose call costs half as much."""
        if len(dims) > 1:
            return getattr(self.transforms, name)(x, s, dims, norm)
        return getattr(self.transforms, name[:-1])(x, None if s is None else s[0], dims[0], norm)
