"""Implementations of the protocols by which NumPy and CuPy functions are called on tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.core.operators import BY_UFUNC
from gradcore.nn.parameter import Parameter
from gradcore.numpy.conversion import refuse_history, tensor_of
from gradcore.numpy.table import BY_FUNCTION, ON_ARRAYS, REFUSED
from gradcore.numpy.ufuncs import UFUNCS, find_ufunc, is_scipys, known
from gradcore.tensor import Tensor

__all__ = ["array_function", "cupy_kernel", "ufunc"]


#: Python's operators by the universal function of NumPy that they call.
_OPERATORS = {each.ufunc: each.function for each in BY_UFUNC.values() if each.kind != "unary"} | {np.divmod: divmod}
#: Comparisons: NumPy converts its scalars to 0-dim arrays before it compares them, so these arrays are scalars here.
_COMPARISONS = {each.ufunc for each in BY_UFUNC.values() if each.kind == "comparison"}

#: Types of operands that are certainly no NumPy scalars; most calls have only these.
_NEVER_SCALARS = frozenset((Tensor, Parameter, bool, int, float, complex))


def ufunc(function: Any, method: str, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Call a NumPy universal function, or one of its methods, on tensors (``__array_ufunc__``).

    ``np.float64(2) * tensor`` arrives here as ``np.multiply(np.float64(2), tensor)``. The result is that of the
    tensor's own operator, so that its dtype does not depend on the side on which the scalar stands.
    """
    if (
        method == "__call__"
        and not named
        and function in _OPERATORS
        and not _NEVER_SCALARS.issuperset(map(type, inputs))
        and any(map(_is_scalar, inputs))
    ):
        weak = _number_of if function in _COMPARISONS else _weak_operand
        return _OPERATORS[function](*(weak(x) if _is_scalar(x) else x for x in inputs))
    implementation = UFUNCS.get(function) or known(function)
    if implementation is None:
        path = f"{'scipy.special' if is_scipys(function) else 'numpy'}.{function.__name__}"
        return _call_on_arrays(path, getattr(function, method), inputs, named, as_tensors=True)
    if named and isinstance(named.get("out"), tuple) and len(named["out"]) == 1:
        named["out"] = named["out"][0]
    return (implementation if method == "__call__" else getattr(implementation, method))(*inputs, **named)


def _is_scalar(value: Any) -> bool:
    """Return whether `value` is a NumPy scalar or a 0-dim array."""
    return isinstance(value, (np.number, np.bool_)) or (
        isinstance(value, np.ndarray) and not value.ndim and value.dtype.kind in "biufc"
    )


def _weak_operand(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number, and an array to a tensor, so that a scalar does not set the dtype."""
    return tensor_of(value) if isinstance(value, np.ndarray) else _number_of(value)


def _number_of(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number."""
    number = value.item()
    return float(number) if isinstance(number, np.floating) else number  # `item` of a longdouble returns a longdouble


def array_function(function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Call gradcore's version of a NumPy function on tensors (``__array_function__``).

    Raises
    ------
    TypeError
        If the function cannot take tensors.
    RuntimeError
        If a tensor requires grad and gradcore has no version of the function: the gradient would be lost.
    """
    implementation = BY_FUNCTION.get(function)
    if implementation is not None:
        return implementation(*args, **named)
    name = function.__name__
    path = f"{function.__module__}.{name}"
    if name in REFUSED:
        raise TypeError(f"{path}() does not take tensors: {REFUSED[name]}")
    if name in ON_ARRAYS:
        return function(*_arrays(args, True), **_arrays(named, True))
    return _call_on_arrays(path, function, args, named)


def _call_on_arrays(path: str, function: Any, args: Any, named: Any, as_tensors: bool = False) -> Any:
    """Call NumPy's function on the tensors' arrays; raise if a tensor requires grad."""
    refuse_history((args, named), f"{path}()")
    result = function(*_arrays(args), **_arrays(named))
    if not as_tensors or named.get("out") is not None or result is None:
        return result
    return tuple(map(tensor_of, result)) if isinstance(result, tuple) else tensor_of(result)


def _arrays(value: Any, anyway: bool = False) -> Any:
    """Replace tensors in nested containers by NumPy arrays; with `anyway`, also tensors that are not on the CPU."""
    if isinstance(value, Tensor):
        return value.detach().numpy() if not anyway else value.numpy(force=True)
    if isinstance(value, (list, tuple)):
        results = [_arrays(each, anyway) for each in value]
        return type(value)(*results) if hasattr(value, "_fields") else type(value)(results)
    return {key: _arrays(each, anyway) for key, each in value.items()} if isinstance(value, dict) else value


#: CuPy's universal functions whose names are not NumPy's.
_CUPY_NAMES = {"clip": None, "conj": "conjugate", "mod": "remainder", "abs": "absolute"}


def cupy_kernel(kernel: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Call a CuPy ufunc on tensors, or a user's kernel on their arrays if no tensor requires grad."""
    name = getattr(kernel, "name", type(kernel).__name__)
    short = name.removeprefix("cupy_")
    implementation = find_ufunc(_CUPY_NAMES.get(short, short) or "")
    if implementation is not None and type(kernel).__name__ == "ufunc":
        return implementation(*args, **named)
    refuse_history((args, named), f"{name}()")
    return kernel(*(_cupy(x) for x in args), **{key: _cupy(x) for key, x in named.items()})


def _cupy(value: Any) -> Any:
    """Return the CuPy array of a tensor on CUDA."""
    if not isinstance(value, Tensor):
        return value
    if value._device.type != "cuda":
        raise TypeError(f"CuPy functions take tensors on CUDA, but got one on {value._device}: use tensor.cuda()")
    return value._array
