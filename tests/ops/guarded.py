"""Calls of every operation with operands that end where memory is protected: to read or write beyond one ends the run.

``python -m tests.ops.guarded FIRST STEP`` runs every STEP-th operation and says which call is next, so that the last
line names the one that a fault has ended.
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import gradcore as gc
from gradcore.ops.declare.table import OPS
from tests.ops.cases import Drawn, cases

PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None, use_errno=True)
#: Calls of an operation that are made, and the dtypes of their floating-point operands.
CALLS = 3
DTYPES = {"f": ("float64", "float32"), "c": ("complex128", "complex64")}


def guarded(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy of an array that ends at an inaccessible page."""
    pages = -(-array.nbytes // PAGE) + 1
    memory = mmap.mmap(-1, pages * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if LIBC.mprotect(ctypes.c_void_p(start + (pages - 1) * PAGE), ctypes.c_size_t(PAGE), 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    out = np.frombuffer(memory, array.dtype, array.size, (pages - 1) * PAGE - array.nbytes).reshape(array.shape)
    out[...] = array
    return out


def transposed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy with the last dim outermost in memory, ending at an inaccessible page."""
    return np.moveaxis(guarded(np.ascontiguousarray(np.moveaxis(array, -1, 0))), 0, -1) if array.ndim > 1 else array


def run(case: Drawn, lay: Callable[[Any], Any], kind: int) -> None:
    """One call with its derivatives; what is refused is refused."""
    arrays = [np.asarray(a) for a in case.arrays()]
    arrays = [a.astype(DTYPES[a.dtype.kind][kind]) if a.dtype.kind in DTYPES else a for a in arrays]
    tensors = [gc.from_numpy(lay(a)) for a in arrays]
    for i in case.differentiable():
        tensors[i].requires_grad_()
    try:
        outs = [t for t in case.outputs(tensors) if t.requires_grad]
        gc.autograd.backward(outs, [gc.ones_like(t) for t in outs])
    except (RuntimeError, TypeError, ValueError, IndexError):
        pass


def main(first: int, step: int) -> None:
    """Run every `step`-th operation."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    count = 0
    for op in [op for op in OPS.values() if not op.random][first::step]:
        for case in cases(op)[:CALLS]:
            for lay in (guarded, transposed):
                for kind in (0, 1):
                    print(case.label, lay.__name__, kind, flush=True)
                    run(case, lay, kind)
                    count += 1
    print("calls:", count)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
