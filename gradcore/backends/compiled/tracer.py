"""``F`` while a formula is traced for the CPU."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gradcore.backends.codegen.expressions import Unfusable, Value
from gradcore.backends.codegen.tracer import Tracer
from gradcore.backends.portable import approximations

__all__ = ["LoopTracer"]


class LoopTracer(Tracer):
    """The CPU's formulas: special functions by `gradcore.backends.portable.approximations`."""

    def __getattr__(self, name: str) -> Any:
        if name not in approximations.DTYPES:
            return super().__getattr__(name)
        return functools.partial(self._approximated, getattr(approximations, name), approximations.DTYPES[name])

    def _approximated(self, formula: Any, dtypes: str, x: Value) -> Any:
        if x.dtype.char not in dtypes:
            raise Unfusable("SciPy's function")
        if formula is approximations.erf and x.dtype == np.float32:  # `elements.h` has a shorter formula
            return self.trace.call_in("erf", x.dtype, x.dtype, x)
        return formula(self, x)

    def relu(self, x: Any) -> Any:
        return self.where(x < 0, 0, x)

    def reciprocal(self, x: Any) -> Any:
        return 1 / x
