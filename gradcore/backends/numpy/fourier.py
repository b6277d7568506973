"""Fourier transforms by SciPy, with threads for large arrays."""

from __future__ import annotations

from typing import Any

from gradcore.backends.numpy import threads
from gradcore.backends.portable.fourier import Fourier

__all__ = ["NumpyFourier"]

#: Number of elements times transformed dims from which SciPy uses threads.
_MANY = 1 << 18


class NumpyFourier(Fourier):
    """Fourier transforms of NumPy arrays."""

    @property
    def transforms(self) -> Any:
        """The module `scipy.fft`, much faster than `numpy.fft` in single precision and over several dims."""
        import scipy.fft

        return scipy.fft

    def transform(self, name: str, x: Any, dims: tuple[int, ...], norm: str, **sizes: Any) -> Any:
        """Apply the transform called `name`. Large arrays use SciPy's threads."""
        workers = None
        if x.size * len(dims) >= _MANY and threads.available() > 1:
            workers = threads.available()
            threads.hush()
        return self._apply_transform(name, x, dims, norm, workers, **sizes)

    def _apply_transform(
        self, name: str, x: Any, dims: tuple[int, ...], norm: str, workers: int | None, s: tuple[int, ...] | None = None
    ) -> Any:
        """Call SciPy's transform over several dims, or the one over a single dim, whose call costs half as much."""
        if len(dims) > 1:
            return getattr(self.transforms, name)(x, s, dims, norm, workers=workers)
        return getattr(self.transforms, name[:-1])(x, None if s is None else s[0], dims[0], norm, workers=workers)
