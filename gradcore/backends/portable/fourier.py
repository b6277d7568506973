"""Kernels of Fourier transforms."""

from __future__ import annotations

from typing import Any

__all__ = ["Fourier"]


class Fourier:
    """Transforms along dims that are counted from the front; sizes are those of the array, but for `last`."""

    xp: Any

    @property
    def transforms(self) -> Any:
        """The module with ``fftn``, ``rfftn`` and their inverses."""
        return self.xp.fft

    def fft_c2c(self, x: Any, dims: tuple[int, ...], norm: str, forward: bool) -> Any:
        run = self.transforms.fftn if forward else self.transforms.ifftn
        return run(x, axes=dims, norm=norm)

    def fft_r2c(self, x: Any, dims: tuple[int, ...], norm: str, onesided: bool) -> Any:
        run = self.transforms.rfftn if onesided else self.transforms.fftn
        return run(x, axes=dims, norm=norm)

    def fft_c2r(self, x: Any, dims: tuple[int, ...], norm: str, last: int) -> Any:
        sizes = (*(x.shape[d] for d in dims[:-1]), last)
        return self.transforms.irfftn(x, s=sizes, axes=dims, norm=norm)

    def half_weighted(self, x: Any, dim: int, n: int, weight: float) -> Any:
        """The body of that name, in one copy."""
        out = x.copy()
        out[(slice(None),) * dim + (slice(1, (n - 1) // 2 + 1),)] *= weight
        return out
