"""``F`` while a formula is traced for the CPU."""

from __future__ import annotations

import functools
from typing import Any

from gradcore.backends.fusion.expressions import Unfusable, Value
from gradcore.backends.fusion.tracer import Tracer
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
        return formula(self, x)

    def reciprocal(self, x: Any) -> Any:
        return 1 / x
