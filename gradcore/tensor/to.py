"""Moves of tensors between devices and dtypes; data changes its device only here."""

from __future__ import annotations

from typing import Any

from gradcore import functional
from gradcore.autograd import anomaly_mode, forward
from gradcore.autograd.batch_dims import broadcast_to_batch
from gradcore.autograd.graph import Node
from gradcore.autograd.modes import ANOMALY, DUAL, GRAD, PROFILE, State, local
from gradcore.autograd.variables import Variable, wrap
from gradcore.autograd.views import gradient_edge
from gradcore.backends.registry import resolve
from gradcore.backends.vmap import BatchedArray, batched_device
from gradcore.core import dtypes
from gradcore.core.device import device as Device
from gradcore.core.errors import raise_if_out_of_memory, warn_once
from gradcore.core.tracebacks import shorten
from gradcore.core.typing import AnyArray, AnyTensor
from gradcore.ops.reductions.sums import REAL_PARTS

__all__ = ["astype", "copy", "move_array", "parse_to", "to", "to_copy"]


def move_array(array: AnyArray, source: Any, target: Any, non_blocking: bool = False) -> Any:
    """Return `array`, which lies on device `source`, on device `target`.

    With `non_blocking`, the host does not wait for a copy out of page-locked memory.
    """
    if source.real is target.real:
        return array
    if array.__class__ is BatchedArray:
        return BatchedArray(move_array(array.array, source.real, target.real), array.level)
    if source.type == "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    source, target = source.real, target.real
    backend = target.backend
    with backend.use_index(target.index):
        if source.backend is backend:
            return backend.move_between(array, target.index)
        if non_blocking and source.backend.is_pinned(array):
            return backend.from_pinned(array)
        return backend.from_host(source.backend.to_host(array))


class ToCopyBackward0(Node):
    """Backward of a move between devices or dtypes.

    The engine moves gradients to the device of their node, once per device.
    """

    __slots__ = ("dtype",)

    dtype: dtypes.dtype

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> Any:
        return [None if grads is None else arithmetic.cast(grads, self.dtype)]


ToCopyBackward0.__module__ = "builtins"


def warn_of_real_parts(dtype: dtypes.dtype) -> None:
    """Warn that a cast of complex numbers discards the imaginary part."""
    if dtype.category in (1, 2):
        # A cast to bool uses both parts, so it does not warn.
        warn_once(REAL_PARTS)


def to_copy(t: AnyTensor, device: Any, dtype: dtypes.dtype, non_blocking: bool = False) -> Any:
    """Return a recorded copy of `t` on another device or in another dtype; see `move_array`."""
    state = local.state
    if state.mode & PROFILE:
        return state.profiler.call("_to_copy", (t,), _to_copy, t, device, dtype, non_blocking, state)
    return _to_copy(t, device, dtype, non_blocking, state)


def _to_copy(t: AnyTensor, device: Any, dtype: dtypes.dtype, non_blocking: bool, state: State) -> Any:
    if state.mode & DUAL:
        level = next((lv for lv in reversed(state.levels) if forward.tangent_of(t, lv) is not None), None)
        if level is not None:
            out = to_copy(forward.primal(t, level), device, dtype)
            if dtype.is_differentiable:
                tangent = forward.tangent_of(t, level)
                forward.attach(out, level, to_copy(tangent, batched_device(tangent._device.levels, device), dtype))
            return out
    array = t._array
    if dtype is not t._dtype:
        if t._dtype.is_complex:
            warn_of_real_parts(dtype)
        if t._dtype is dtypes.bool_ and dtype is dtypes.bfloat16:
            # The cast to bfloat16 would read bytes of bools other than 0 and 1 as numbers.
            array = state.run(t._device.kernels["astype"], array, dtypes.float32.numpy)
        array = state.run(t._device.kernels["astype"], array, dtype.numpy)
    elif device is t._device:
        array = array.copy()
    if device is not t._device:
        array = move_array(array, t._device, device, non_blocking)
    out = wrap(array, device, dtype)
    if state.mode & GRAD and dtype.is_differentiable:
        edge = gradient_edge(t)
        if edge is not None:
            node = ToCopyBackward0.make(device, (edge,), out)
            node.dtype = t._dtype
            out._edge = (node, 0)
            if state.mode & ANOMALY:
                anomaly_mode.note(node, (t,), (out,))
    return out


def parse_to(t: AnyTensor, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dtypes.dtype, bool, bool]:
    """Return the device, dtype, `copy` and `non_blocking` of a call ``t.to(...)`` in any of its forms."""
    if len(args) == 1 and not named and args[0].__class__ is dtypes.dtype:
        return t._device, args[0], False, False
    rest = list(args)
    device, dtype = named.pop("device", None), named.pop("dtype", None)
    other, invalid = named.pop("other", None), False
    if rest and isinstance(rest[0], Variable):
        other = rest.pop(0)
    elif rest and (isinstance(rest[0], (dtypes.dtype, type))):
        dtype = rest.pop(0)
    elif rest and (rest[0] is None or isinstance(rest[0], (str, int, Device))):
        device = rest.pop(0)
        if rest:
            dtype = rest.pop(0)
            invalid = not (dtype is None or isinstance(dtype, (dtypes.dtype, type)))
    non_blocking = named.pop("non_blocking") if "non_blocking" in named else rest.pop(0) if rest else False
    copy = named.pop("copy") if "copy" in named else rest.pop(0) if rest else False
    named.pop("memory_format", None)
    if invalid or rest or named or not (isinstance(copy, bool) and isinstance(non_blocking, bool)):
        signature = ", ".join([type(a).__name__ for a in args] + [f"{n}={type(v).__name__}" for n, v in named.items()])
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({signature}), but expected a device, a dtype, a "
            "device and a dtype, or a Tensor, and then the flags non_blocking and copy"
        )
    if other is not None:
        device, dtype = other._device, other._dtype
    target = t._device if device is None else batched_device(t._device.levels, resolve(device))
    if dtype.__class__ is not dtypes.dtype:
        dtype = t._dtype if dtype is None else dtypes.as_dtype(dtype)
    return target, dtype, copy, non_blocking


def to(self: AnyTensor, *args: Any, **kwargs: Any) -> AnyTensor:
    """Return the tensor with another device or dtype: ``to(device)``, ``to(dtype)``, ``to(other)``.

    Parameters
    ----------
    device, dtype, other
        The wanted device, dtype, or a tensor to take both from.
    non_blocking : bool
        Whether the host may go on before a copy to a device is done.
    copy : bool
        Copy also where nothing changes.

    Returns
    -------
    Tensor
        This tensor where nothing changes, else a copy, through which gradients flow back.
    """
    try:
        device, dtype, copy, non_blocking = parse_to(self, args, kwargs)
        if device is self._device and dtype is self._dtype and not copy:
            return self
        if device.levels and not set(device.levels) <= set(self._device.levels):
            self = broadcast_to_batch(self, device)
        return to_copy(self, device, dtype, non_blocking)
    except BaseException as error:
        shorten(error)
        raise_if_out_of_memory(error, "to")
        raise


def astype(self: AnyTensor, dtype: Any, *, copy: bool = True) -> Any:
    """Return the tensor in another dtype, always as a copy unless ``copy=False``.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.tensor([1, 2]).astype("float64")
    tensor([1., 2.], dtype=torch.float64)
    """
    out_dtype = dtypes.as_dtype(dtype)
    return functional.clone(self) if copy and out_dtype is self._dtype else to(self, out_dtype)


def copy(self: AnyTensor) -> Any:
    """Return a copy with the tensor's history: `clone` under NumPy's name.

    Examples
    --------
    >>> import gradcore as gc
    >>> x = gc.ones(2, requires_grad=True)
    >>> x.copy().requires_grad
    True
    """
    return functional.clone(self)
