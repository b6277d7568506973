"""NumPy's functions of tensors: recorded, or refused, never computed behind the graph's back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcore import functional
from gradcore.backends.portable.elementwise import RENAMED, SPECIAL
from gradcore.ops.table import OPS
from gradcore.predicates import result_type
from gradcore.tensor import Tensor, is_differentiated

__all__ = ["array_function", "ufunc"]

#: Operations by the name of NumPy's or SciPy's universal function.
_OPERATIONS = {numpy_name: name for name, numpy_name in (SPECIAL | RENAMED).items()} | {
    "degrees": "rad2deg", "entr": "entr", "expit": "sigmoid", "fabs": "abs", "float_power": "float_power",
    "invert": "bitwise_not", "log_expit": "logsigmoid", "logit": "logit", "matmul": "matmul", "ndtr": "ndtr",
    "psi": "digamma", "radians": "deg2rad", "vecdot": "linalg_vecdot",
}  # fmt: skip

#: Operations for the methods of universal functions, with NumPy's default for the dim.
_METHODS = {
    ("add", "reduce"): "sum", ("multiply", "reduce"): "prod", ("maximum", "reduce"): "amax",
    ("minimum", "reduce"): "amin", ("add", "accumulate"): "cumsum", ("multiply", "accumulate"): "cumprod",
}  # fmt: skip

#: NumPy's functions that gradcore has with the same arguments.
_SAME = frozenset((
    "broadcast_to", "clip", "concatenate", "dstack", "einsum", "hstack", "kron", "mean", "moveaxis", "prod", "roll",
    "stack", "sum", "swapaxes", "tril", "triu", "vstack", "where", "linalg.det", "linalg.inv", "linalg.solve",
    "fft.fft", "fft.ifft", "fft.rfft", "fft.irfft", "fft.fft2", "fft.ifft2", "fft.fftn", "fft.ifftn",
))  # fmt: skip

#: NumPy's functions whose results carry no derivative.
_CONSTANT = frozenset((
    "all", "allclose", "any", "argmax", "argmin", "argpartition", "argsort", "argwhere", "array2string", "array_equal",
    "array_equiv", "array_repr", "array_str", "can_cast", "count_nonzero", "digitize", "empty_like", "flatnonzero",
    "iscomplex", "iscomplexobj", "isclose", "isin", "isneginf", "isposinf", "isreal", "isrealobj", "lexsort",
    "may_share_memory", "min_scalar_type", "ndim", "nonzero", "ones_like", "result_type", "searchsorted", "shape",
    "shares_memory", "size", "zeros_like",
))  # fmt: skip

#: What to use for NumPy's functions that gradcore has under another name.
_OTHER_NAMES = {
    "append": "cat", "around": "round", "array_split": "tensor_split", "convolve": "nn.functional.conv1d",
    "correlate": "nn.functional.conv1d", "expand_dims": "unsqueeze",
    "pad": "nn.functional.pad", "percentile": "quantile", "repeat": "repeat_interleave", "rollaxis": "moveaxis",
    "select": "where", "trapz": "trapezoid",
}  # fmt: skip


def ufunc(function: Any, method: str, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The operation that a universal function stands for; NumPy's own where nothing is differentiated."""
    name = function.__name__
    if not named and method in ("__call__", "outer"):
        if name == "divmod":
            return ufunc(np.floor_divide, method, inputs, {}), ufunc(np.remainder, method, inputs, {})
        if name == "modf":
            return functional.frac(*inputs), functional.trunc(*inputs)
        if _OPERATIONS.get(name):
            op = OPS[_OPERATIONS[name]]
            operands = _operands(op, inputs if method == "__call__" else _outer(*inputs))
            return op.call(*operands)
    if (name, method) in _METHODS and named.keys() <= {"axis", "keepdims"} and isinstance(inputs[0], Tensor):
        return getattr(functional, _METHODS[name, method])(
            *inputs, **{"axis": 0, **named} if len(inputs) < 2 else named
        )
    _refuse_history(function, (inputs, named), "numpy." + name)
    result = getattr(function, method)(*_arrays(inputs), **_arrays(named))
    if "out" in named or result is None:
        return result
    return tuple(map(functional.as_tensor, result)) if isinstance(result, tuple) else functional.as_tensor(result)


def _operands(op: Any, values: tuple[Any, ...]) -> list[Any]:
    """Tensors, and numbers where the operation takes them."""
    like = next(x for x in values if isinstance(x, Tensor))
    operands: list[Any] = []
    for i, x in enumerate(values):
        if isinstance(x, Tensor):
            operands.append(x)
        elif getattr(x, "ndim", 0) or not np.isscalar(x):
            operands.append(functional.as_tensor(x))
        else:
            number = x.item() if isinstance(x, np.generic) else x
            taken = i in op.accepts_scalars
            operands.append(number if taken else functional.full((), number, dtype=result_type(like, number)))
    return operands


def _outer(a: Any, b: Any) -> tuple[Any, Any]:
    """Operands of which each element of the first meets each of the second."""
    a, b = (x if isinstance(x, Tensor) else functional.as_tensor(np.asarray(x)) for x in (a, b))
    return a.reshape(*a.shape, *(1,) * b.ndim), b


def array_function(function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Call a function of NumPy on tensors: the result is an array, unless something is differentiated.

    Raises
    ------
    RuntimeError
        If a tensor requires grad and the function's result would move with it; the message names gradcore's function.
    """
    path = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
    if any(is_differentiated(t) for t in _tensors((args, named))):
        if path in _SAME:
            with contextlib.suppress(TypeError):  # arguments that gradcore's function does not have
                return _found(path)(*_as_tensors(args), **_as_tensors(named))
        if path not in _CONSTANT:
            _refuse_history(function, (args, named), "numpy." + path)
    return function(*_arrays(args), **_arrays(named))


def _found(path: str) -> Callable[..., Any]:
    """A function of gradcore by its path; AttributeError if there is none."""
    import gradcore

    found: Any = gradcore
    for part in path.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def _refuse_history(function: Any, values: Any, name: str) -> None:
    """Raise if a tensor among `values` is differentiated."""
    if not any(is_differentiated(t) for t in _tensors(values)):
        return
    path = _OTHER_NAMES.get(name.removeprefix("numpy."), name.removeprefix("numpy."))
    try:
        _found(path)
        instead = f"gradcore.{path}, which is differentiated"
    except AttributeError:
        instead = "functions of gradcore, which are differentiated"
    raise RuntimeError(
        f"Can't call {name}() on Tensor that requires grad: the result would have no history. Use {instead}, or "
        "tensor.detach() if no gradient is wanted."
    )


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in nested containers."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        yield from _tensors(tuple(value.values()))


def _as_tensors(value: Any) -> Any:
    """Nested containers with arrays replaced by tensors."""
    if isinstance(value, np.ndarray):
        return functional.as_tensor(value)
    if isinstance(value, (list, tuple)):
        return type(value)([_as_tensors(each) for each in value])
    return {key: _as_tensors(each) for key, each in value.items()} if isinstance(value, dict) else value


def _arrays(value: Any) -> Any:
    """Nested containers with tensors replaced by arrays."""
    if isinstance(value, Tensor):
        return value.detach().numpy()
    if isinstance(value, (list, tuple)):
        made = [_arrays(each) for each in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return {key: _arrays(each) for key, each in value.items()} if isinstance(value, dict) else value
