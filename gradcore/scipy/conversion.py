"""Arguments and results of SciPy's functions as tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import cast, dtype_of, inexact, promote, tensor_of, write_out
from gradcore.tensor import Tensor

__all__ = ["beside", "floating", "is_number", "like", "module_getattr", "on_device", "together", "write_output"]


def floating(x: Any) -> AnyTensor:
    """Return a tensor of floating-point or complex numbers: float64 of integers and bools."""
    return inexact(tensor_of(x))


def like(value: Any, x: Tensor) -> AnyTensor:
    """Return numbers, an array or a tensor on the device and in the dtype of `x`; complex if `value` is."""
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
    """Return whether a value is one number without history."""
    return not isinstance(value, Tensor) and np.ndim(value) == 0


def write_output(result: Tensor, output: Any, dtype: dtypes.dtype) -> AnyTensor:
    """Return the result in the dtype `output` (default `dtype`), or write it into `output`, a tensor or an array."""
    if output is None:
        return cast(result, dtype)
    if isinstance(output, (Tensor, np.ndarray)):
        if tuple(output.shape) != tuple(result.shape):
            raise RuntimeError("output shape not correct")
        return write_out(result, output, "unsafe")
    return cast(result, dtype_of(output))


def module_getattr(module: str, left_out: dict[str, str]) -> Any:
    """Return a ``__getattr__`` for a module of SciPy's functions, which says why one is missing."""

    def __getattr__(name: str) -> Any:
        why = f": {left_out[name]}" if name in left_out else ""
        raise AttributeError(f"module {module!r} has no attribute {name!r}{why}")

    return __getattr__


def beside(value: Any, x: Tensor) -> AnyTensor:
    """Return numbers, an array or a tensor as a tensor on the device of `x`, in the dtype that NumPy gives them."""
    return tensor_of(value) if isinstance(value, Tensor) else on_device(np.asarray(value), x)


def together(x: Any, *values: Any) -> list[AnyTensor]:
    """Return the arguments as tensors on one device, in the dtype that NumPy promotes them to."""
    first = next((v for v in (x, *values) if isinstance(v, Tensor)), None)
    tensors = [tensor_of(v) if first is None else beside(v, first) for v in (x, *values)]
    return promote(*tensors)
