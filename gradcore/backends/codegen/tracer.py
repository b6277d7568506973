"""``F`` while a formula is traced: the elementwise kernels of every backend, on expressions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.backends.codegen.expressions import Trace, Unfusable, Value
from gradcore.backends.codegen.functions import SPECIAL_FUNCTIONS
from gradcore.backends.portable.elementwise import RENAMED, SPECIAL, Elementwise

__all__ = ["Tracer"]


class _Functions:
    """NumPy's namespace, as far as elementwise kernels use it, on expressions."""

    inf, nan, pi = np.inf, np.nan, np.pi

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __getattr__(self, name: str) -> Callable[..., Value]:
        def function(*operands: Any, out: Any = None) -> Value:
            return self._trace.call(name, *operands)

        return function

    def dtype(self, dtype: Any) -> np.dtype[Any]:
        return np.dtype(dtype)  # type: ignore[no-any-return]

    def where(self, condition: Value, x: Any, y: Any) -> Value:
        return self._trace.where(condition, x, y)

    def zeros_like(self, x: Value) -> Value:
        return self._trace.number(0, x.dtype)

    def ones_like(self, x: Value) -> Value:
        return self._trace.number(1, x.dtype)

    def real(self, x: Value) -> Value:
        return x.real

    def imag(self, x: Value) -> Value:
        return x.imag


class _Special:
    """scipy.special, as far as CUDA has its functions, on expressions."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __getattr__(self, name: str) -> Callable[..., Value]:
        if name not in SPECIAL_FUNCTIONS:
            raise Unfusable(f"there is no {name} in CUDA")

        def function(*operands: Any) -> Value:
            dtype = np.result_type(np.float32, *(o.dtype if isinstance(o, Value) else o for o in operands))
            return self._trace.call_in(name, dtype, dtype, *operands)

        return function


class Tracer(Elementwise):
    """A namespace for formulas in which arrays are expressions.

    Parameters
    ----------
    bodies : dict
        The operations' bodies by name.
    trace : Trace, optional
        Where expressions are kept; by default a new one.
    """

    host_scalars = False
    upcasts = False

    def __init__(self, bodies: dict[str, Callable[..., Any]], trace: Trace | None = None) -> None:
        self.trace = trace or Trace()
        self.xp, self.special = _Functions(self.trace), _Special(self.trace)
        self._bodies = bodies

    def __getattr__(self, name: str) -> Any:
        if name in RENAMED:
            return getattr(self.xp, RENAMED[name])
        if name in SPECIAL:
            return getattr(self.special, SPECIAL[name])
        if name in self._bodies:
            return functools.partial(self._bodies[name], self)
        raise Unfusable(f"{name} is not elementwise")

    def complex(self, real: Any, imag: Any) -> Value:
        """``real + 1j * imag``."""
        dtype = real.dtype if isinstance(real, Value) else imag.dtype
        result = np.dtype("complex64" if dtype == "float32" else "complex128")
        return self.trace.call_in("complex", np.dtype(f"float{result.itemsize * 4}"), result, real, imag)

    def nan_to_num(self, x: Any, *numbers: Any) -> Any:
        if self.trace.widened:
            raise Unfusable("the limits are those of a dtype that is not computed in")
        return super().nan_to_num(x, *numbers)

    def new_zeros(self, x: Any, shape: Any) -> Any:
        raise Unfusable("the formula makes an array of another shape")
