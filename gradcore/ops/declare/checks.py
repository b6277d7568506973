"""Argument checks of operations, with PyTorch's error messages."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import inf
from typing import Any

from gradcore.core import dtypes
from gradcore.core.errors import warn
from gradcore.core.tracebacks import generated_file
from gradcore.core.typing import Function
from gradcore.ops.declare.parameters import Parameter, parameters_of
from gradcore.ops.declare.shapes import all_dims

__all__ = [
    "check_castable",
    "check_fits",
    "check_implemented",
    "check_reducible",
    "check_reduction",
    "cpp_type",
    "dtype_of",
    "no_kernel",
    "overflow",
    "with_older_reductions",
]


def dtype_of(operand: Any) -> dtypes.dtype:
    """Return the dtype of a tensor or an array."""
    dtype = operand.dtype
    return dtype if isinstance(dtype, dtypes.dtype) else dtypes.from_numpy(dtype)


def no_kernel(kernel: str, dtype: dtypes.dtype) -> NotImplementedError:
    """Return PyTorch's error for a kernel that does not exist for `dtype`."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{dtype.scalar_name}'")


def check_implemented(kernel: str, operand: Any, without: str) -> None:
    """Raise if PyTorch does not implement `kernel` for the dtype category of `operand`.

    Parameters
    ----------
    kernel : str
        The name of the kernel in PyTorch's message.
    operand : Tensor or array
        The operand whose dtype is checked.
    without : str
        Letters of the categories: ``"b"`` bools, ``"i"`` integers, ``"f"`` real and ``"c"`` complex numbers.
    """
    dtype = operand.dtype
    if not isinstance(dtype, dtypes.dtype):
        dtype = dtypes.FROM_NUMPY.get(dtype) or dtypes.from_numpy(dtype)
    if "bifc"[dtype.category] in without:
        raise no_kernel(kernel, dtype)


def check_reducible(
    name: str, shape: Sequence[int], dim: int | Sequence[int] | None, error: type = RuntimeError
) -> None:
    """Raise if a reduction without identity, such as a maximum, would run over no elements.

    Raises
    ------
    RuntimeError
        If all dims are to be reduced and there is no element (another error where `error` says so).
    IndexError
        If a reduced dim has size 0.
    """
    if 0 not in shape:
        return
    if dim is None or dim == ():
        raise error(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
            "the 'dim' argument."
        )
    for i in all_dims(dim, len(shape)):
        if shape[i] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {i} to have non-zero size.")


def check_castable(result: dtypes.dtype, output: dtypes.dtype) -> None:
    """Raise if the dtype `result` cannot be cast to `output`, which is of a lower category."""
    if not dtypes.can_cast(result, output):
        raise RuntimeError(
            f"result type {result.scalar_name} can't be cast to the desired output type {output.scalar_name}"
        )


#: The names of C++ types in PyTorch's error messages, by dtype.
_CPP_TYPES = {
    "bool": "bool", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip
_CPP_INTEGERS = {
    "uint8": "unsigned char", "int8": "signed char", "int16": "short int", "int32": "int", "int64": "long int",
    "uint16": "short unsigned int", "uint32": "unsigned int", "uint64": "long unsigned int",
}  # fmt: skip

#: The largest finite numbers that are not rounded to infinity, by dtype.
_LARGEST = {
    "float16": 65519.0,
    "bfloat16": 3.4028235677973366e38,
    "float32": 3.4028235677973366e38,
    "float64": 1.7976931348623157e308,
}


def cpp_type(dtype: dtypes.dtype) -> str:
    """Return the name of the C++ type of `dtype`, as it stands in PyTorch's messages."""
    return _CPP_TYPES.get(dtype.name) or _CPP_INTEGERS[dtype.name]


def overflow(dtype: dtypes.dtype) -> RuntimeError:
    """Return PyTorch's error for a number that is outside of the range of `dtype`."""
    kind = "int" if dtype is dtypes.int32 else _CPP_TYPES.get(dtype.name, f"{dtype.name}_t")
    return RuntimeError(f"value cannot be converted to type {kind} without overflow")


_limits = functools.cache(dtypes.iinfo)


def check_fits(value: Any, dtype: dtypes.dtype) -> Any:
    """Convert a Python number to one that can be written into a tensor of `dtype`, or raise if it does not fit.

    Raises
    ------
    RuntimeError
        If the number is outside of the dtype's range. Infinities and NaN fit all floating-point dtypes, and negative
        integers wrap around once in unsigned dtypes.
    """
    if not isinstance(value, (int, float, complex)):
        return value
    if dtype.category == 0:
        return value != 0
    if isinstance(value, complex):
        if not dtype.is_complex and value.imag:
            raise overflow(dtype)
        real = dtype.to_real() if dtype.is_complex else dtype
        check_fits(value.real, real)
        check_fits(value.imag, real)
        return value if dtype.is_complex else value.real
    if dtype.is_differentiable:
        real = dtype.to_real() if dtype.is_complex else dtype
        if _LARGEST.get(real.name, inf) < abs(value) < inf:
            raise overflow(dtype)
        return value
    limits = _limits(dtype)
    if limits.min <= value <= limits.max:
        return value
    if limits.min == 0 and isinstance(value, int) and -limits.max <= value < 0:
        return value + limits.max + 1
    raise overflow(dtype)


_REDUCTIONS = frozenset(["none", "mean", "sum"])


def check_reduction(
    reduction: str, size_average: bool | None = None, reduce: bool | None = None, *, also: tuple[str, ...] = ()
) -> str:
    """Return the reduction of a loss; the older arguments `size_average` and `reduce` override `reduction`.

    Raises
    ------
    ValueError
        If the reduction is unknown.
    """
    if size_average is None is reduce and reduction in _REDUCTIONS:
        return reduction
    if size_average is not None or reduce is not None:
        mean = size_average is None or size_average
        reduction = ("mean" if mean else "sum") if reduce is None or reduce else "none"
        warn(f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.")
    if reduction not in _REDUCTIONS and reduction not in also:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def with_older_reductions(loss: Function | None = None, *, first_before: str = "reduction") -> Function:
    """Give a loss with a parameter `reduction` PyTorch's older parameters `size_average` and `reduce`.

    The body gets the reduction that the three arguments say.

    Parameters
    ----------
    loss : function, optional
        The body. Without it, a decorator is returned.
    first_before : str
        The parameter before which `size_average` stands. `reduce` stands before `reduction`.
    """
    if loss is None:
        return functools.partial(with_older_reductions, first_before=first_before)
    parameters = parameters_of(loss)
    names = [each.name for each in parameters]
    order = list(parameters)
    order.insert(names.index("reduction"), Parameter("reduce", None, "bool | None"))
    order.insert(names.index(first_before), Parameter("size_average", None, "bool | None"))
    # With the names of the parameters, a call takes half the time of one with ``*arguments``.
    given = ", ".join("check(reduction, size_average, reduce)" if name == "reduction" else name for name in names)
    text = f"lambda {', '.join(each.name for each in order)}: loss({given})"
    code = compile(text, generated_file(__name__, text), "eval")
    body = functools.wraps(loss)(eval(code, {"loss": loss, "check": check_reduction}))
    body.__signature__ = order  # type: ignore[attr-defined]
    return body
