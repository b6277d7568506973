"""Elementwise operations on float16 and bfloat16, computed in float32 and converted a few elements at a time."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gradcore.backends.compiled.conversions import character
from gradcore.backends.compiled.elementwise import CompiledElementwise, Forward, Loop
from gradcore.backends.compiled.library import builtin
from gradcore.backends.numpy import threads
from gradcore.core.typing import AnyArray

__all__ = ["CompiledHalves"]

#: Largest number of arrays of a loop, including the result; number of each dtype's format in `halves.cpp`.
_MOST_ARRAYS, _KINDS = 6, {"f": 0, "e": 2, "E": 3}
#: One element of float32 for all.
_REPEATED = 1
_FLOAT = np.empty((), np.float32)


class _Call(ctypes.Structure):
    """The structure that `gradcore_run_halves` reads."""

    _fields_ = (
        ("loop", ctypes.c_void_p), ("parameters", ctypes.c_void_p), ("grain", ctypes.c_int64), ("size", ctypes.c_int64),
        ("arrays", ctypes.c_int64), ("kinds", ctypes.c_int64 * _MOST_ARRAYS), ("data", ctypes.c_void_p * _MOST_ARRAYS),
    )  # fmt: skip


class CompiledHalves(CompiledElementwise):
    """Loops of float32 applied to arrays of halves."""

    converts_operands = True

    @cached_property
    def _forwards(self) -> dict[str, Forward]:
        return {}

    def fused_forward(self, name: str, args: Sequence[Any], compute: Sequence[Any], stored: Any) -> Any:
        """Return the result of an elementwise operation as halves, or None if there is no loop for the operands.

        Parameters
        ----------
        name : str
            The kernel's name in the table.
        args : sequence
            Arrays and settings.
        compute : sequence of dtype or None
            The dtypes that they are converted to first.
        stored : dtype
            The dtype of the result.
        """
        arrays = [x for x in args if isinstance(x, np.ndarray) and x.size >= self.LARGE]
        if stored is None or not arrays:
            return None
        shape = max(arrays, key=np.size).shape
        if not all(_is_fit(x, dtype, shape) for x, dtype in zip(args, compute, strict=True)):
            return None
        loop = self._loop_of_floats(name, args)
        if loop is None or len(loop.used) >= _MOST_ARRAYS or loop.dtype != np.float32:
            return None
        out = np.empty(shape, stored)
        operands = [args[i] if args[i].ndim else args[i].astype(np.float32) for i in loop.used]
        self._run_on_halves(loop, [*operands, out])
        return out

    def _loop_of_floats(self, name: str, args: Sequence[Any]) -> Loop | None:
        formula: Any = self._forwards.setdefault(name, Forward(name))
        floats = [_FLOAT if isinstance(x, np.ndarray) else x for x in args]
        key = formula, *[_FLOAT.dtype if x is _FLOAT else repr(x) for x in floats]
        try:
            return self._loops[key]
        except KeyError:
            return self._looked_up(key, formula, tuple(floats))

    def _run_on_halves(self, loop: Loop, arrays: list[AnyArray]) -> None:
        count, out = len(arrays), arrays[-1]
        call = _Call(loop.function, ctypes.addressof(loop.parameters), loop.grain, out.size, count)
        for k, x in enumerate(arrays):
            call.kinds[k] = _KINDS[character(x.dtype)] if x.ndim else _REPEATED
            call.data[k] = x.ctypes.data
        builtin(self.library, "gradcore_run_halves")(ctypes.addressof(call), threads.available())


def _is_fit(x: Any, dtype: Any, shape: Sequence[int]) -> bool:
    """Return whether `gradcore_run_halves` can read an operand.

    It can be an array of the result's shape or of a single element, or a setting.
    """
    if not isinstance(x, np.ndarray):
        return x is not None and dtype is None
    is_supported = dtype == np.float32 and character(x.dtype) in _KINDS
    return is_supported and (not x.ndim or (x.shape == shape and x.flags.c_contiguous and x.flags.aligned))
