"""Checks of operands (tensors, numbers, devices), with PyTorch's errors."""

from __future__ import annotations

import numbers
import re
from collections.abc import Sequence
from typing import Any

from gradcore import functional
from gradcore.autograd import variables
from gradcore.autograd.modes import local
from gradcore.autograd.variables import Variable, new
from gradcore.backends.registry import CPU
from gradcore.backends.vmap.devices import batched_device
from gradcore.core import dtypes
from gradcore.core.errors import OutOfBoundsError, raise_if_out_of_memory
from gradcore.core.typing import AnyTensor
from gradcore.ops.declare.checks import no_kernel
from gradcore.ops.declare.geometry import broadcast_shape
from gradcore.ops.declare.table import OPS, Op

__all__ = [
    "BODY_ERRORS",
    "KERNEL_ERRORS",
    "NUMBERS",
    "Number",
    "body_error",
    "common_device",
    "constant",
    "index_array",
    "join_batches",
    "kernel_error",
    "no_tensors",
    "shape_error",
    "type_error",
]


Number = numbers.Number


NUMBERS = (bool, int, float, complex)


def type_error(op: Op, position: int, value: Any) -> TypeError:
    """Return PyTorch's error for a `value` at an argument position that takes a tensor."""
    name = op.names[position]
    name = "input" if name == "self" else name
    function = op.path.rpartition(".")[2]
    # For users, the operations for a tensor and for a number, as of `fill_`, are one function.
    function = function.removesuffix("_tensor").removesuffix("_number")
    return TypeError(
        f"{function}(): argument '{name}' (position {position + 1}) must be Tensor, not {type(value).__name__}"
    )


def no_tensors(op: Op) -> Exception:
    """Return PyTorch's error for a call of the operation with an empty list of tensors."""
    return ValueError(op.if_empty) if op.if_empty else RuntimeError(f"{op.path} expects a non-empty TensorList")


def common_device(tensors: Sequence[Any]) -> Any:
    """Return the device on which an operation on these tensors runs; 0-dim CPU tensors may join any device.

    Raises
    ------
    RuntimeError
        If other tensors are on different devices.
    """
    device = tensors[0]._device if tensors else CPU
    if not device.levels and all(t._device is device for t in tensors):
        return device
    batches = {level for t in tensors for level in t._device.levels}
    if batches:
        return batched_device(tuple(batches), common_device([_Placed(t) for t in tensors]))
    result = None
    for t in tensors:
        numbers_only = result is CPU and all(s._device is not CPU or not s._array.ndim for s in tensors)
        if result is None or t._device is result or numbers_only:
            result = t._device
        elif not (t._device is CPU and not t._array.ndim):
            first = next(str(s._device) for s in tensors if s._device is not t._device)
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{first} and {t._device}! Move one of them with .to(device)."
            )
    return result


def join_batches(indices: Sequence[Any], device: Any) -> Any:
    """Return `device` with the `vmap` levels of the index tensors, which may lie on any device."""
    levels = {level for t in indices if isinstance(t, Variable) for level in t._device.levels}
    return batched_device(tuple(levels), device) if levels else device


class _Placed:
    """Array of a tensor and its device without the levels of `vmap`, for the comparison of devices."""

    __slots__ = ("_array", "_device")

    def __init__(self, t: AnyTensor) -> None:
        self._array, self._device = t._array, t._device.real


_constants: dict[Any, Any] = {}
#: The least positive float32 that is not subnormal.
_LEAST_NORMAL = 2.0**-126
#: Upper bound of the cache: a loop may use a new number in each step, and each constant takes 500 bytes.
MOST_CONSTANTS = 4096


def constant(value: Any, dtype: dtypes.dtype, device: Any) -> Any:
    """Return a Python number as a 0-dim tensor of the given dtype; tensors of earlier calls are reused."""
    key = (value or repr(value), dtype, device._name)  # 0.0 equals -0.0
    t = _constants.get(key)
    if t is None:
        if device.levels:
            device = device.real
        if value.__class__ is int and not -(2**63) <= value < 2**64:
            raise OverflowError("int too big to convert")
        t = new(variables.tensor_class)
        t._array = local.state.run(device.backend.scalar, value, dtype.numpy)
        t._device, t._dtype = device, dtype
        t._edge = t._autograd = t._vc = None
        t._constant = True
        # Not nan, which equals no key; and not subnormal numbers, which are zeros in float32 while `set_flush_denormal`
        # is on.
        if abs(value) >= _LEAST_NORMAL or not value:
            if len(_constants) >= MOST_CONSTANTS:
                _constants.clear()
            _constants[key] = t
    return t


def index_array(index: Any, device: Any) -> Any:
    """Return the array of an index tensor on `device`, to which it is copied from the CPU if necessary.

    Raises
    ------
    RuntimeError
        If the index lies on another device.
    """
    if not isinstance(index, Variable):
        return index
    if index._device.real not in (CPU, device.real):
        raise RuntimeError(
            f"indices should be either on cpu or on the same device as the indexed tensor ({device.real})"
        )
    return index._array if index._device.real is device.real else functional.to(index, device)._array


#: Errors of array libraries that lack a loop for a dtype or run out of memory, and of Python for missing dims.
KERNEL_ERRORS = (TypeError, KeyError, MemoryError, ValueError, IndexError)
#: Errors of a composite's body: an argument is not a tensor or has other dims than expected, or memory has run out.
BODY_ERRORS = (AttributeError, TypeError, MemoryError, ValueError, IndexError)
_NO_TENSOR = re.compile(r"'[\w.]+' object |object of type|unsupported operand|bad operand|'[<>]=?' not supported")
_UNFIT_SHAPES = re.compile(
    r"tuple index out|(not enough|too many) values to unpack|operands could not be broadcast|"
    r"(min|max)\(\) (arg|iterable)"
)
#: Errors of a function that was called with an argument of that type where it takes a tensor.
_WRONG_TYPE = re.compile(r"\w+\(\): argument .* must be Tensor, not (\w+)$")
_NAMED = re.compile(r"(\w+)\(\): ")
_NO_LOOP = (
    "ufunc ", "numpy boolean", "The numpy boolean", "Cannot cast", "data type", "cupy boolean", "The cupy boolean",
    "Wrong type (",
)  # fmt: skip

_TOO_LARGE = ("array is too big", "Maximum allowed dimension", "iterator is too large", "negative dimensions")


def kernel_error(op: Op, args: Sequence[Any], error: Exception) -> Exception:
    """Return the error to raise for an `error` of a kernel, which is the cause if another error takes its place.

    Errors of array libraries become those that PyTorch raises; gradcore's own are returned unchanged. A `MemoryError`
    is raised at once, as `OutOfMemoryError`.
    """
    raise_if_out_of_memory(error, op.path)
    replacement = _replace_error(op, args, error)
    if replacement is not error:  # An error that is its own cause would keep its frames, and their arrays, alive.
        replacement.__cause__ = error
    return replacement


def _replace_error(op: Op, args: Sequence[object], error: Exception) -> Exception:
    if _UNFIT_SHAPES.match(str(error)):
        return _unfit_shapes(op, args)
    if str(error).startswith(_TOO_LARGE):
        return RuntimeError(f"Storage size calculation overflowed: {op.path}(): {error}")
    if not isinstance(error, KeyError) and not str(error).startswith(_NO_LOOP):
        return error
    tensors = [t for a in args for t in (a if isinstance(a, (list, tuple)) else (a,)) if isinstance(t, Variable)]
    unsupported = next((t for t in tensors if not t._dtype.is_floating_point), tensors[0])
    return no_kernel(f"{op.name}_{unsupported._device.type}", unsupported._dtype)


def body_error(op: Op, args: Sequence[Any], error: Exception) -> Exception:
    """Return the error to raise for an `error` of a composite's body, in terms of the user's function and arguments.

    A `MemoryError` is raised at once, as `OutOfMemoryError`. The caller keeps the result in no variable: as its
    frame is in the traceback, both would keep each other alive, and the arrays of all frames with them.
    """
    if isinstance(error, MemoryError):
        raise_if_out_of_memory(error, op.path)
        return error
    replacement = _name_arguments(op, args, error)
    if replacement is not error:
        replacement.__suppress_context__ = True
    return replacement


def _name_arguments(op: Op, args: Sequence[Any], error: Exception) -> Exception:
    text = str(error)
    match = _NAMED.match(text)
    inner = OPS.get(match[1]) if match else None
    internal = inner is not None and not inner.function
    wrong_type = _WRONG_TYPE.match(text)
    if internal or wrong_type or _NO_TENSOR.match(text):
        wrong = []
        for p in op.tensors:
            is_left_out = args[p] is None and op.parameters[p].default is None
            if p in op.sequences and isinstance(args[p], (list, tuple)):
                wrong_index = next((i for i, t in enumerate(args[p]) if not isinstance(t, Variable)), None)
                if wrong_index is not None:
                    return _element_error(op, p, args[p], wrong_index)
            elif not (is_left_out or isinstance(args[p], Variable)):
                wrong.append(p)
        # Some functions take a number in the place of a tensor, so an argument of the type in the error comes first.
        named = [p for p in wrong if wrong_type and type(args[p]).__name__ == wrong_type[1]]
        named += [p for p in wrong if not (internal and isinstance(args[p], NUMBERS))]
        if named:
            return type_error(op, named[0], args[named[0]])
    if match and internal:
        return type(error)(text.replace(match[1], op.path.rpartition(".")[2], 1))
    return _unfit_shapes(op, args) if _UNFIT_SHAPES.match(text) else error


def _element_error(op: Op, position: int, values: Sequence[Any], wrong: int) -> TypeError:
    function, kind = op.path.rpartition(".")[2], type(values[wrong]).__name__
    return TypeError(
        f"{function}(): argument '{op.names[position]}' (position {position + 1}) must be tuple of Tensors, but found "
        f"element of type {kind} at pos {wrong}"
    )


def _unfit_shapes(op: Op, args: Sequence[object]) -> Exception:
    shapes = ", ".join(str(list(t._array.shape)) for t in args if isinstance(t, Variable))
    return OutOfBoundsError(f"{op.path.rpartition('.')[2]}(): tensors of shapes {shapes} do not fit")


def shape_error(tensors: Sequence[Any]) -> Exception | None:
    """Return PyTorch's error if the shapes of the tensors cannot be broadcast, else None."""
    try:
        broadcast_shape([t._array.shape for t in tensors if t is not None])
    except RuntimeError as error:
        return error
    return None
