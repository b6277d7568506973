"""Operations on lists of gradients on CUDA: one kernel for all arrays of a dtype, without waiting for the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcore.backends.cupy.kernels import NULL, CudaKernels, type_name
from gradcore.backends.cupy.multi_tensor import launches
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.foreach import Arrays, Lists

__all__ = ["CudaLists"]

_BLOCK = (256,)
#: Numbers that stand for the orders of norms in the kernels.
_ORDERS = {float("inf"): 0, 1.0: 1, 2.0: 2}


def _takes_order(backend: Any, arrays: Arrays, order: float) -> bool:
    return order in _ORDERS and (order != float("inf") or all(a.size for a in arrays))


class CudaLists(CudaKernels, Lists):
    """Kernels of lists of arrays. They take dense arrays, with dims in any order."""

    address: Callable[[Any], int]

    def unscale_list(self, arrays: Arrays, factor: Any, found: Any) -> list[int]:
        factor = NULL if factor is None else factor
        return self._launch_by_dtype("unscale", arrays, (factor, found))

    def adapt_scale(self, scale: Any, steps: Any, found: Any, growth: float, backoff: float, interval: int) -> bool:
        if self.uses("lists"):
            numbers = np.float32(growth), np.float32(backoff), np.int32(interval)
            self.cuda_kernel("lists", "adapt_scale", type="float")((1,), (1,), (scale, steps, found, *numbers))
        return self.uses("lists")

    @kernel_for(_takes_order)
    def norm_list(self, arrays: Arrays, order: float) -> tuple[list[Any], list[int]]:
        groups, remaining = self._group_by_dtype(arrays, complex_numbers=order == 2)
        return [self._norm(dtype, group, np.int32(_ORDERS[order])) for dtype, group in groups.items()], remaining

    def _norm(self, dtype: Any, arrays: list[Any], order: Any) -> Any:
        out = self.allocate((), dtype)
        launches = list(self._launches(dtype, arrays))
        counts = [launch.blocks for launch in launches]
        partial = self.allocate(sum(counts), _compute_dtype(dtype))
        kernel, start = self._list_kernel("partial_norms", dtype), 0
        for launch in launches:
            kernel((launch.blocks,), _BLOCK, (launch.parts, partial[start : start + launch.blocks], order))
            start += launch.blocks
        self._list_kernel("total_norm", dtype)((1,), (1024,), (partial, out, np.int64(sum(counts)), order))
        return out

    def clip_list(self, arrays: Arrays, norm: Any, most: float) -> list[int]:
        return self._launch_by_dtype(
            "clip_norm", arrays, lambda dtype: (norm.astype(_compute_dtype(dtype), copy=False), np.float64(most))
        )

    def clamp_list(self, arrays: Arrays, bound: float) -> list[int]:
        return self._launch_by_dtype("clip_values", arrays, (np.float64(bound),), complex_numbers=False)

    # -- launching -------------------------------------------------------------------------------------------------

    def _launch_by_dtype(self, name: str, arrays: Arrays, rest: Any, complex_numbers: bool = True) -> list[int]:
        """Launch the kernel `name` for the arrays of each dtype. Return the positions of unsupported arrays."""
        groups, remaining = self._group_by_dtype(arrays, complex_numbers)
        for dtype, group in groups.items():
            kernel, arguments = self._list_kernel(name, dtype), rest(dtype) if callable(rest) else rest
            for launch in self._launches(dtype, group):
                kernel((launch.blocks,), _BLOCK, (launch.parts, *arguments))
        return remaining

    def _launches(self, dtype: Any, arrays: list[Any]) -> Iterator[Any]:
        return launches([a.nbytes // dtype.itemsize for a in arrays], [self.address(a) for a in arrays])

    def _list_kernel(self, name: str, dtype: Any) -> Any:
        return self.cuda_kernel("lists", name, type=type_name(dtype))

    def _group_by_dtype(self, arrays: Arrays, complex_numbers: bool) -> tuple[dict[Any, list[Any]], list[int]]:
        """Return lists of the supported arrays by dtype, and the positions of the others.

        Complex arrays count as real ones of their parts.
        """
        groups: dict[Any, list[Any]] = {}
        remaining = []
        for position, array in enumerate(arrays):
            dtype, flags = array.dtype, array.flags
            if complex_numbers and dtype.kind == "c":
                dtype = np.dtype(f"float{dtype.itemsize * 4}")
            if self.uses("lists") and type_name(dtype) and (flags.c_contiguous or flags.f_contiguous):
                groups.setdefault(dtype, []).append(array)
            else:
                remaining.append(position)
        return groups, remaining


def _compute_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype in which kernels compute for arrays of `dtype`: float32 for 2-byte dtypes."""
    return np.dtype("float32") if dtype.itemsize == 2 else dtype
