"""Arguments and results of SciPy's functions as tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import cast, dtype_of, inexact, numpy_dtype, promote, tensor_of, write_out
from gradcore.tensor import Tensor

__all__ = [
    "floating",
    "is_number",
    "like",
    "module_getattr",
    "on_device",
    "promote_arguments",
    "to_device_of",
    "write_output",
]


def floating(x: Any) -> AnyTensor:
    """Convert `x` to a floating-point or complex tensor; integers and bools become float64."""
    return inexact(tensor_of(x))


def like(value: Any, x: Tensor) -> AnyTensor:
    """Convert `value` to a tensor with the device and dtype of `x`, or the complex dtype if `value` is complex."""
    if isinstance(value, Tensor):
        result: AnyTensor = value
    else:
        result = F.as_tensor(np.array(value), device=x.device)
    dtype = x._dtype
    if result._dtype.is_complex and not dtype.is_complex:
        dtype = dtype.to_complex()
    return cast(result, dtype)


def on_device(array: Any, x: Tensor) -> AnyTensor:
    """Return a NumPy array as a tensor on the device of `x`."""
    return F.as_tensor(np.asarray(array, order="C"), device=x.device)


def logarithm(base: Any) -> Any:
    """Return the natural logarithm of a number, or of a tensor, which may require grad."""
    return F.log(base) if isinstance(base, Tensor) else math.log(base)


def is_number(value: Any) -> bool:
    """Return whether `value` is a number or a 0-dim array, not a tensor."""
    return not isinstance(value, Tensor) and np.ndim(value) == 0


def write_output(result: Tensor, output: Any, dtype: dtypes.dtype) -> AnyTensor:
    """Write `result` into `output` if that is an array or a tensor, else cast it to the dtype `output` or `dtype`.

    The dtype of complex results is made complex, as in SciPy.
    """
    if output is None:
        return cast(result, dtype)
    if isinstance(output, (Tensor, np.ndarray)):
        if tuple(output.shape) != tuple(result.shape):
            raise RuntimeError("output shape not correct")
        if result._dtype.is_complex and not np.issubdtype(numpy_dtype(output.dtype), np.complexfloating):
            raise RuntimeError("output must have complex dtype")
        return write_out(result, output, "unsafe")
    wanted = dtype_of(output)
    if result._dtype.is_complex and not wanted.is_complex:
        wanted = dtypes.complex128 if wanted.itemsize == 8 else dtypes.complex64
    return cast(result, wanted)


def module_getattr(module: str, left_out: dict[str, str]) -> Any:
    """Return a module's ``__getattr__``, whose AttributeError says why a function of SciPy is missing."""

    def __getattr__(name: str) -> Any:
        why = f": {left_out[name]}" if name in left_out else ""
        raise AttributeError(f"module {module!r} has no attribute {name!r}{why}")

    return __getattr__


def to_device_of(value: Any, x: Tensor) -> AnyTensor:
    """Convert `value` to a tensor on the device of `x`; numbers and sequences have the dtype that NumPy gives them."""
    return tensor_of(value) if isinstance(value, Tensor) else on_device(np.asarray(value), x)


def promote_arguments(x: Any, *values: Any) -> list[AnyTensor]:
    """Convert the arguments to tensors on the device of the first tensor, in the dtype that NumPy promotes them to."""
    first_tensor = next((v for v in (x, *values) if isinstance(v, Tensor)), None)
    tensors = [tensor_of(v) if first_tensor is None else to_device_of(v, first_tensor) for v in (x, *values)]
    return promote(*tensors)
