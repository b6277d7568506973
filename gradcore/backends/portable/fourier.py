"""Kernels of Fourier transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["Fourier"]


class Fourier:
    """Fourier transforms along dims that are counted from the front.

    `last` is the size of the last dim of the result, if it differs from that of the operand.
    """

    xp: Namespace

    @property
    def transforms(self) -> Any:
        """The module with ``fftn``, ``rfftn`` and their inverses."""
        return self.xp.fft

    def transform(self, name: str, x: Array, dims: tuple[int, ...], norm: str, **settings: Any) -> Array:
        """Apply the transform called `name` along `dims`."""
        result: Array = getattr(self.transforms, name)(x, axes=dims, norm=norm, **settings)
        return result

    def fft_c2c(self, x: Array, dims: tuple[int, ...], norm: str, forward: bool) -> Array:
        return self.transform("fftn" if forward else "ifftn", x, dims, norm)

    def fft_r2c(self, x: Array, dims: tuple[int, ...], norm: str, onesided: bool) -> Array:
        return self.transform("rfftn" if onesided else "fftn", x, dims, norm)

    def fft_c2r(self, x: Array, dims: tuple[int, ...], norm: str, last: int) -> Array:
        sizes = (*(x.shape[d] for d in dims[:-1]), last)
        return self.transform("irfftn", x, dims, norm, s=sizes)

    def fft_doubled(self, x: Array, dims: tuple[int, ...], norm: str) -> Array:
        return self._weight_inner(self.fft_r2c(x, dims, norm, True), dims[-1], x.shape[dims[-1]], 2.0)

    def fft_mirrored(self, x: Array, dims: tuple[int, ...], norm: str, last: int) -> Array:
        return self.fft_c2r(self._weight_inner(x, dims[-1], last, 0.5), dims, norm, last)

    def _weight_inner(self, x: Array, dim: int, n: int, weight: float) -> Array:
        """Return a copy of a half spectrum of `n` numbers, with all elements weighted that have a mirror image."""
        out = x.copy()
        out[(slice(None),) * dim + (slice(1, (n - 1) // 2 + 1),)] *= weight
        return out
