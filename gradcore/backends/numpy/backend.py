"""Backend of the CPU, made of NumPy's functions and the kernels of this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from gradcore.backends.base import Backend
from gradcore.backends.numpy import threads, tiled
from gradcore.backends.numpy.attention import NumpyAttention
from gradcore.backends.numpy.convolution import NumpyConvolution
from gradcore.backends.numpy.ctc import NumpyCtc
from gradcore.backends.numpy.elementwise import NumpyElementwise
from gradcore.backends.numpy.flash_attention import NumpyFlashAttention
from gradcore.backends.numpy.fourier import NumpyFourier
from gradcore.backends.numpy.lapack import Lapack
from gradcore.backends.numpy.masks import NumpyMasks
from gradcore.backends.numpy.matmul import NumpyProducts
from gradcore.backends.numpy.normalization import NumpyNormalization
from gradcore.backends.numpy.pooling import NumpyPooling
from gradcore.backends.numpy.recurrent import NumpyRecurrent
from gradcore.backends.numpy.reductions import NumpyReductions
from gradcore.backends.numpy.row_blocks import copy_rows
from gradcore.backends.numpy.softmax import NumpySoftmax
from gradcore.backends.numpy.sorting import NumpySorting
from gradcore.backends.numpy.sparse import NumpySparse
from gradcore.backends.numpy.targets import NumpyTargets
from gradcore.backends.numpy.threaded_ufuncs import in_threads
from gradcore.backends.pinned import is_pinned
from gradcore.backends.portable.elementwise import Elementwise
from gradcore.backends.portable.filters import Filters
from gradcore.backends.random import philox
from gradcore.core.typing import AnyArray

__all__ = ["NumpyBackend"]


#: Kernels of several steps that are not the body of an operation.
_SEVERAL_STEPS = {name: getattr(Elementwise, name) for name in ("logaddexp", "logaddexp2", "sigmoid")}
#: Methods that spend their time in one slow function of NumPy or SciPy.
_SLOW_METHODS = {"lgamma", "log1p"}


class NumpyBackend(
    NumpyElementwise,
    NumpyMasks,
    NumpySoftmax,
    NumpyReductions,
    NumpySorting,
    NumpyTargets,
    NumpyNormalization,
    NumpyAttention,
    NumpyFlashAttention,
    NumpyConvolution,
    NumpyPooling,
    NumpyRecurrent,
    NumpyCtc,
    NumpyFourier,
    NumpySparse,
    NumpyProducts,
    Lapack,
    Filters,
    Backend,
):
    """Backend for NumPy arrays on the CPU."""

    type: ClassVar[str] = "cpu"
    scipy_name = "scipy"
    in_threads = staticmethod(threads.spread)
    #: Whether a class evaluates formulas tile by tile. Subclasses do not inherit it, because they may have kernels of
    #: their own, which formulas then have to call.
    in_tiles: ClassVar[bool] = True
    #: Function that wraps a universal function so that threads share each call of it, or None.
    pooled: Any = None

    def __init__(self) -> None:
        super().__init__(np, np.ndarray)
        self.asarray = np.asarray  # type: ignore[assignment, method-assign]

    def item(self, array: Any) -> Any:
        return array.item()

    def is_pinned(self, array: Any) -> bool:
        return is_pinned(array)

    @property
    def _tiles(self) -> bool:
        return "in_tiles" in vars(type(self))

    def kernel_of(self, name: str) -> Callable[..., Any]:
        """Return the kernel of an operation.

        For large arrays, the kernel runs elementwise formulas of several steps in tiles, and shares slow functions of
        NumPy among threads.
        """
        plain = super().kernel_of(name)
        formula = _SEVERAL_STEPS.get(name) or getattr(plain, "func", None)  # of a body, without this backend
        if name in self.slow and (isinstance(plain, np.ufunc) or name in _SLOW_METHODS) and self._tiles:
            return in_threads(plain)
        if name not in self.elementwise or formula is None or not self._tiles:
            return plain

        def kernel(x: Any, *rest: Any) -> Any:
            return plain(x, *rest) if x.size < self.LARGE else tiled.evaluate(formula, self, (x, *rest))

        return kernel

    def small_kernel_of(self, name: str) -> Callable[..., Any]:
        """Return the kernel for small arrays, without the tiles, threads and loops that only pay for large ones."""
        return super().kernel_of(name)

    def evaluate_tiled(self, formula: Callable[..., Any], *operands: Any) -> Any:
        return tiled.evaluate(formula, self, operands) if self._tiles else formula(self, *operands)

    @property
    def special(self) -> Any:
        """The module `scipy.special`, imported when first used."""
        import scipy.special

        return scipy.special

    def from_host(self, array: Any) -> Any:
        return array

    def scalar(self, value: complex, dtype: Any) -> Any:
        try:
            return np.asarray(value, dtype)
        except OverflowError:  # integers wrap, as in PyTorch
            return np.asarray(value).astype(dtype)

    def copy_elements(self, x: AnyArray, order: str = "K") -> AnyArray:
        return copy_rows(x) if order == "C" else super().copy_elements(x, order)

    def expand(self, x: Any, size: Any) -> Any:
        """Expand `x` as the general kernel does, but faster for a single number, as in the gradient of a sum."""
        if x.__class__ is np.ndarray and not x.ndim and size.__class__ is tuple and x.dtype.kind in "fc":
            try:
                return np.ndarray(size, x.dtype, x, 0, (0,) * len(size))
            except ValueError:  # negative sizes
                pass
        return self.bodies["expand"](self, x, size)

    def broadcast_view(self, x: Any, shape: Any) -> Any:
        """Return `x` broadcast to `shape`, in a fifth of the time of `numpy.broadcast_to`; writable if `x` is."""
        lead = len(shape) - x.ndim
        dims = zip(x.shape, x.strides, shape[lead:], strict=True)
        try:
            return np.ndarray(shape, x.dtype, x, 0, (0,) * lead + tuple([s if n == m else 0 for n, s, m in dims]))
        except ValueError:  # `x` is not contiguous, is empty, or has no buffer.
            out = np.broadcast_to(x, shape)
            if x.flags.writeable:
                out.flags.writeable = True
            return out

    def sum_into_rows(self, height: int, index: Any, rows: Any) -> Any:
        """Sum rows by index. A large sum is a product with a sparse matrix, twice as fast as `numpy.add.at`."""
        n, width = rows.shape
        if width < 8 or rows.size < 16384 or rows.dtype.char not in "fdFD":
            return super().sum_into_rows(height, index, rows)
        from scipy.sparse import csc_array

        index = np.where(index < 0, index + height, index)
        return csc_array((np.ones(n, rows.dtype), index, np.arange(n + 1)), shape=(height, n)) @ rows

    def random_words(self, n: int, key: int, counter: int) -> philox.WordStream:
        return philox.WordStream(n, key, counter)  # computed in tiles that stay in cache
