"""Conversions from and to float16 and bfloat16, which NumPy does one element at a time."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls, Work
from gradcore.backends.kernel_methods import kernel_for
from gradcore.core.typing import AnyArray

__all__ = ["CompiledConversions", "character"]

#: Elements from which the kernel is faster.
_LARGE = 1 << 10
#: Pairs of dtypes for which there are kernels, by NumPy's characters (E for bfloat16). There is none from float64 to
#: float16, because it would round twice.
_PAIRS = {"ef", "ed", "eE", "fe", "fE", "dE", "Ef", "Ed", "Ee"}


def character(dtype: Any) -> str:
    """Return the character of a dtype that has conversions ("E" for bfloat16), or an empty string."""
    if dtype.char in "efd":
        return str(dtype.char)
    # Another thread may be importing the package. Then its types are missing, and no array has one of them.
    bfloat16 = getattr(sys.modules.get("ml_dtypes"), "bfloat16", None)
    return "E" if bfloat16 is not None and dtype == bfloat16 else ""


def _has_kernel(backend: Any, x: AnyArray, dtype: Any) -> bool:
    if x.size < _LARGE or not (x.flags.forc and x.flags.aligned):
        return False
    return character(x.dtype) + character(np.dtype(dtype)) in _PAIRS


class CompiledConversions(CompiledCalls):
    """Conversions of dense arrays."""

    @kernel_for(_has_kernel)
    def astype(self, x: AnyArray, dtype: Any) -> AnyArray:
        out = np.empty_like(x, dtype)  # in the order of `x`
        pair = character(x.dtype) + character(out.dtype)
        self.run_kernel("converted", pair, Work(x.size), x.size, x.ravel("K"), out.ravel("K"))
        return out
