"""Calls that write their result into an existing tensor: in-place operations and ``out=``."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator
from typing import Any

from gradcore import functional
from gradcore.autograd import forward, variables, views
from gradcore.autograd.batch_dims import take_common_sample
from gradcore.autograd.modes import AUTOCAST, DUAL, GRAD, INFERENCE, PROFILE, TORCH_FUNCTION_MODE, State, local
from gradcore.autograd.op_node import OpNode
from gradcore.autograd.variables import INFERENCE_WRITTEN, Variable, alias, bump, repeats
from gradcore.autograd.views import gradient_edge, requires_grad
from gradcore.backends.base import SMALL
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.dispatch.fast_path import fast_path, has_fast_path
from gradcore.dispatch.general import PLAIN, apply, call_composite
from gradcore.dispatch.operands import NUMBERS, constant, type_error
from gradcore.dispatch.torch_function import is_overridden, overriding_arguments, route_call, takes_over
from gradcore.ops.declare.promotion import keeps_floats
from gradcore.ops.declare.table import Op

__all__ = [
    "apply_inplace", "check_inplace", "check_own_memory", "copy_to_out", "out_of", "write",
]  # fmt: skip

NO_DUALS = "Trying to use forward AD with {}_out that does not support it because it is an out= function"


def check_inplace(self: Any, state: State) -> None:
    """Raise if an in-place write to `self` would make gradients wrong."""
    meta = self._autograd
    if meta is None:
        return
    if meta.inference and not state.mode & INFERENCE:
        raise RuntimeError(INFERENCE_WRITTEN)
    if state.mode & GRAD:
        views.check_writable(self)


def write(self: Any, result: Any, state: State | None = None, fills: bool = False) -> Any:
    """Copy `result` into `self` and make its history the history of `self`: the last step of every in-place operation.

    Parameters
    ----------
    self, result : Tensor
    state : State, optional
        State of the current thread.
    fills : bool
        Whether all elements of the result are equal. Only then may elements of `self` share memory, as in expanded
        tensors.
    """
    state = state or local.state
    computed = result
    if result._device is not self._device:
        result = take_common_sample(computed, self._device)
    if not dtypes.can_cast(result._dtype, self._dtype):
        raise RuntimeError(
            f"result type {result._dtype.scalar_name} can't be cast to the desired output type "
            f"{self._dtype.scalar_name}"
        )
    if result._array.shape != self._array.shape:
        raise RuntimeError(
            f"output with shape {list(self._array.shape)} doesn't match the broadcast shape {list(result._array.shape)}"
        )
    if not fills:
        check_own_memory(self)
    recorded = result._edge is not None and self._dtype.is_differentiable
    if recorded:
        views.check_recordable(self)
    converted = result._dtype is not self._dtype or result is not computed
    if (recorded and converted and self._is_view()) or (not recorded and state.mode & GRAD and requires_grad(self)):
        return functional.copy_(self, result)
    self._device.kernels["copy_into"](self._array, result._array)
    edge = result._edge if recorded else None
    bump(self)
    if edge is not None:
        node = edge[0]
        if isinstance(node, OpNode) and result._dtype is self._dtype:
            node.move_output(self)
        if result._dtype is not self._dtype:
            edge = functional.to(result, self._dtype)._edge
        views.rebase_history(self, edge)
    if state.mode & DUAL:
        forward.write_tangents(self, result)
    return self


def check_own_memory(t: AnyTensor) -> None:
    """Raise if elements of a tensor that will be written to share memory, as in expanded tensors."""
    if repeats(t._array):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )


def apply_inplace(op: Op, args: tuple[Any, ...]) -> Any:
    """Call an operation and write its result into the tensor that is its first argument."""
    self = args[0]
    if not isinstance(self, Variable):
        raise type_error(op, 0, self)
    state = local.state
    if state.mode > GRAD or variables.subclasses_used or (len(args) > 1 and takes_over(args[1].__class__)):
        return _call_intercepted(op, args, state)
    return _write_result(op, args, state)


def _call_intercepted(op: Op, args: tuple[Any, ...], state: State) -> Any:
    """Make an in-place call in a mode that intercepts operations, or with arguments that override them."""
    if state.mode & TORCH_FUNCTION_MODE or overriding_arguments(args):
        # Operations with a number and with a tensor (`fill_number_`, `fill_tensor_`) are one function for users.
        name = op.name.removesuffix("_").removesuffix("_number").removesuffix("_tensor")
        return route_call(op, args, getattr(functional, f"{name}_"))
    with _suspend_autocast(state):
        if state.mode & PROFILE:
            return state.profiler.call(f"{op.name}_", args, _write_result, op, args, state)
        return _write_result(op, args, state)


@contextlib.contextmanager
def _suspend_autocast(state: State) -> Iterator[None]:
    """Suspend autocasting inside of the context, because the tensor that is written to determines the dtype."""
    casting = state.mode & AUTOCAST
    state.mode &= ~AUTOCAST
    try:
        yield
    finally:
        state.mode |= casting


def _write_result(op: Op, args: tuple[Any, ...], state: State) -> Any:
    self = args[0]
    check_inplace(self, state)
    dual = state.mode & DUAL
    if state.mode & GRAD and (dual or any([isinstance(a, Variable) and _is_recorded(a) for a in args])):  # noqa: C419
        if dual or _reads_input(op):
            args = (_copy_before_write(self), *args[1:])
    elif _write_directly(op, args, state):
        return self
    general = call_composite if op.kind == "composite" else apply
    result = fast_path(op, general)(*args) if has_fast_path(op) else general(op, args)
    return write(self, result, state, op.fills)


def _is_recorded(t: AnyTensor) -> bool:
    return t._edge is not None or (t._autograd is not None and requires_grad(t))


def _write_directly(op: Op, args: tuple[Any, ...], state: State) -> bool:
    """Compute directly into the memory of the first argument if nothing is recorded and the kernel takes ``out=``.

    Return True if the result has been computed, and False if the caller must compute it.
    """
    self, (name, defaults) = args[0], _kernel_of_floats(op)
    dtype, device, n = self._dtype, self._device, len(op.tensors)
    if (
        name is None
        or not dtype.is_floating_point
        or dtype.is_reduced
        or state.mode > GRAD
        or self.__class__ not in PLAIN
    ):
        return False
    kernels = device.kernels if self._array.size >= SMALL else device.kernels.small
    kernel = kernels[name]
    if not (hasattr(kernel, "nout") or hasattr(kernel, "takes_out")):
        return False
    settings, factor = args[n:], None
    is_default = len(settings) == 1 and settings[0] is defaults[0]
    if settings and not is_default and (settings[0].__class__ not in NUMBERS or settings != defaults):
        if not op.kernel.endswith("_scaled") or settings[0].__class__ is not float or args[1].__class__ not in PLAIN:
            return False
        factor = settings[0]
    arrays = [self._array]
    operand: Any
    for operand in args[1:n]:
        if operand.__class__ is float or operand.__class__ is int:
            operand = constant(operand, dtype, device)
        elif operand.__class__ not in PLAIN or operand._dtype is not dtype or operand._device is not device:
            return False
        arrays.append(operand._array)
    if name == "neg" and not arrays[0].flags.c_contiguous:
        return False  # NumPy 2.1 and later compute wrong results for strides of four elements when negating in place
    if 0 in arrays[0].strides:
        check_own_memory(self)
    if factor is not None:
        arrays[1] = state.run(kernels["mul"], arrays[1], constant(factor, dtype, device)._array)
    try:
        state.enter(kernel, *arrays, out=arrays[0])
    except ValueError:  # the general path raises the error with PyTorch's message
        return False
    except RuntimeError as error:
        state.reenter(error)(kernel, *arrays, out=arrays[0])
    bump(self)
    return True


@functools.cache
def _kernel_of_floats(op: Op) -> tuple[str | None, tuple[object, ...]]:
    """Return the name of the kernel whose operands and result all have one floating-point dtype, or None.

    Elementwise operations of one or two tensors have such a kernel if their promotion rule keeps such dtypes. The
    second result contains the defaults of the settings: with these, the kernel is called without settings.
    """
    n = len(op.tensors)
    defaults = tuple([p.default for p in op.parameters[n:]])
    if op.kind != "elementwise" or op.tensors != tuple(range(n)) or n > 2 or op.keeps_dtype:
        return None, defaults
    if not keeps_floats(op.promotion):
        return None, defaults
    name = op.kernel if n == len(op.names) else op.name if op.kernel != op.name and n == 2 else None
    return name, defaults


def _reads_input(op: Op) -> bool:
    """Return whether a gradient formula reads the input that an in-place call overwrites."""
    return op.kind == "composite" or any(op.names[0] in f.names for f in (op.vjps or op.differentials).values())


def _copy_before_write(self: Any) -> Any:
    """Return a copy of a tensor that will be overwritten, with the same gradient edge and copies of its tangents."""
    out = alias(self, gradient_edge(self))
    out._array, out._vc = self._device.kernels["clone"](self._array), None
    for level in local.state.levels:  # tangents are overwritten too
        tangent = forward.tangent_of(self, level)
        if tangent is not None:
            forward.attach(out, level, functional.clone(tangent))
    return out


def out_of(op: Op, args: tuple[Any, ...], out: Any) -> Any:
    """Call an operation and write its results into the tensors given as ``out=``."""
    state = local.state
    if is_overridden((*args, out), state.mode):
        return route_call(op, args, out=out)
    with _suspend_autocast(state) if state.mode & AUTOCAST else contextlib.nullcontext():
        results = call_composite(op, args) if op.kind == "composite" else apply(op, args)
    has_several = isinstance(results, tuple)
    for target, result in zip(out if has_several else (out,), results if has_several else (results,), strict=True):
        if not isinstance(target, Variable):
            raise TypeError(f"{op.path}(): argument 'out' must be Tensor, not {type(target).__name__}")
        if result._edge is not None or (requires_grad(target) and local.state.mode & GRAD):
            raise RuntimeError(
                f"{op.path}(): functions with out=... arguments don't support automatic differentiation, but one of "
                "the arguments requires grad."
            )
        for t in (target, result):
            forward.refuse_dual(t, NO_DUALS.format(op.name), NotImplementedError)
        if op.sequences and any(t is target for t in args[0]):
            raise RuntimeError(
                "unsupported operation: the input tensors cannot refer to any of the output memory locations"
            )
        if (has_several or not (op.computes_half_in_float or op.sequences)) and target._dtype is not result._dtype:
            raise RuntimeError(
                f"Expected out tensor to have dtype {result._dtype.name}, but got {target._dtype.name} instead"
            )
        if target._array.shape != result._array.shape:
            _resize(target, result)
        write(target, result)
    return out


def copy_to_out(out: Any, result: Any, keeps_shape: bool = False) -> Any:
    """Write a new tensor into the tensor given as ``out=``, and return the latter.

    Parameters
    ----------
    out : Tensor
        Tensor to write to. It is resized if its shape is different.
    made : Tensor
        Values to write.
    keeps_shape : bool
        Whether `out` keeps a different shape if it has as many elements as `result`. The elements are then written in
        order.
    """
    if not isinstance(out, Variable):
        raise TypeError(f"argument 'out' must be Tensor, not {type(out).__name__}")
    if keeps_shape and out._array.size == result._array.size:
        result = functional.reshape(result, out._array.shape)
    elif out._array.shape != result._array.shape:
        _resize(out, result, warns=False)
    return functional.copy_(out, result)


def _resize(target: Any, result: Any, warns: bool = True) -> None:
    """Resize `target` to the shape of `result`, reusing its memory if that is contiguous and large enough."""
    shape, memory = result._array.shape, target._array
    if memory.size and warns:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(memory.shape)}, which does not "
            f"match the required output shape {list(shape)}. This behavior is deprecated: give an empty tensor, or one "
            "of that shape.",
            stacklevel=4,
        )
    if result._array.size <= memory.size and memory.flags.c_contiguous:
        target._array = memory.reshape(-1)[: result._array.size].reshape(shape)
    else:
        target._array = target._device.kernels["astype"](result._array, target._dtype.numpy)
