"""`Variable`, the base class of tensors with their autograd state, version counters, and accumulation of gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from operator import iadd
from typing import TYPE_CHECKING, Any, ClassVar

from gradcore import functional
from gradcore.autograd.modes import GRAD, INFERENCE, local
from gradcore.backends.numpy import malloc
from gradcore.backends.streams import STREAMS
from gradcore.backends.vmap import BatchedArray
from gradcore.core import dtypes
from gradcore.core.errors import warn
from gradcore.core.locks import process_lock
from gradcore.core.typing import AnyArray, AnyTensor, NamedTuple

if TYPE_CHECKING:
    from gradcore.autograd.node import AccumulateGrad, Node

__all__ = [
    "INFERENCE_COUNTER",
    "INFERENCE_WRITTEN",
    "OWN",
    "PLAIN_TYPES",
    "AutogradMeta",
    "Edge",
    "TensorMeta",
    "Variable",
    "VersionCounter",
    "accumulate_grad",
    "accumulate_new_grads",
    "add_to_grad",
    "alias",
    "as_class",
    "bump",
    "bump_all",
    "match_array_layout",
    "new",
    "new_leaf_meta",
    "on_device",
    "repeats",
    "shape_of",
    "sum_of_tensors",
    "sum_to_shape",
    "tick",
    "type_name",
    "version_counter",
    "wrap",
]

new = object.__new__
new_tuple = tuple.__new__
#: Draws the numbers by which nodes, in-place writes and choices of CUDA streams are ordered in time.
tick = itertools.count(1).__next__
STREAMS.clock = tick

INFERENCE_WRITTEN = (
    "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a normal "
    "tensor before doing inplace update."
)

#: A node and the number of one of its outputs.
Edge = tuple["Node", int]


class VersionCounter:
    """The number of in-place writes to memory that is shared by several tensors (a base, its views, `detach()`)."""

    version = 0
    #: The time of the last write, on the clock of `tick`, and the times of the last 32.
    written = 0
    times: tuple[int, ...] | list[int] = ()

    def count(self, now: int) -> None:
        """Increment the version for a write at time `now`."""
        self.version += 1
        self.written = now
        if self.times:
            self.times.append(now)  # type: ignore[union-attr]
            if not self.version & 31:
                del self.times[:-32]  # type: ignore[union-attr]
        else:
            self.times = [now]

    def snapshot(self) -> tuple[Any, ...]:
        """Return the present state, as an argument for `restore`."""
        return self.version, self.written, list(self.times)

    def restore(self, before: tuple[Any, ...]) -> None:
        """Reset the counter to the state `before`, which `snapshot` returned."""
        self.version, self.written, self.times = before

    def at(self, time: int) -> int:
        """Return the version at `time`, assuming at most 32 writes since then."""
        return self.version - sum(t > time for t in self.times)


class Untracked(VersionCounter):
    """The version counter of inference tensors. It counts no writes, and raises for writes outside inference mode."""

    def count(self, now: int) -> None:
        if not local.state.mode & INFERENCE:
            raise RuntimeError(INFERENCE_WRITTEN)


# -- state of the process (read and assigned as attributes of this module) ---------------------------------------------

#: The time of the last in-place write to any tensor. Younger nodes need not check their saved tensors.
last_write = 0
#: Whether inference mode has ever been entered. If not, new tensors need not check the mode.
inference_used = False
#: Whether the time at which leaves are updated matters, because of hooks or of large ``.grad`` tensors.
leaf_order_matters = False
#: Whether there is a tensor subclass that overrides ``__torch_function__``.
subclasses_used = False
#: Functions of the layer above: find the arguments that override ``__torch_function__``, and call their overrides.
overloaded_args: Any = None
handle_torch_function: Any = None

#: The version counter of all tensors made in inference mode.
INFERENCE_COUNTER = Untracked()
#: Tensor classes that do not override ``__torch_function__``: `Tensor` and some of its subclasses.
PLAIN_TYPES: set[Any] = set()


#: The value of `AutogradMeta.grad_dtype` that stands for the dtype of the tensor itself.
OWN: Any = object()


class AutogradMeta:
    """Autograd metadata, allocated only for leaves, views and duals. Defaults stand on the class."""

    requires_grad = False
    #: The accumulated gradient: a tensor, or None.
    grad: Any = None
    #: The dtype of the gradient; None for any.
    grad_dtype: Any = OWN
    #: Weak reference to the leaf's AccumulateGrad, which holds the leaf.
    accumulator: Any = None
    hooks: Any = None
    post_accumulate_hooks: Any = None
    #: Whether backward must check a leaf for hooks and `grad_dtype`, because one of them has been set.
    observed = False
    retains_grad = False
    #: For views: the tensor whose memory this views, and the view operations that lead from it to this tensor, as
    #: ``(operations before, (operation, settings))``.
    base: Any = None
    chain: tuple[Any, ...] = ()
    #: The version at which a view's edge was made; the edge is stale when the counter has moved on.
    edge_version = 0
    #: Why a view must not be written to in place: "", "multi", "no_grad", "custom", "inference".
    creation = ""
    #: The number of in-place changes of the tensor's shape; for a view, that of its base when the view was created.
    reshaped = 0
    inference = False
    #: Forward mode: tangents by level.
    tangents: Any = None


def new_leaf_meta() -> AutogradMeta:
    """Return the metadata of a new leaf.

    The attributes that guards of compiled functions read in each call are set, as Python reads attributes of an object
    faster than those of its class.
    """
    meta = AutogradMeta()
    meta.tangents = meta.base = None
    meta.inference = meta.retains_grad = meta.observed = False
    return meta


class Variable:
    """Base class of tensors, with their data and autograd state; `gradcore.Tensor` adds the methods.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.autograd.Variable(gc.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """

    __slots__ = ("__dict__", "__weakref__", "_array", "_autograd", "_device", "_dtype", "_edge", "_vc")

    _array: Any
    _device: Any
    _dtype: dtypes.dtype
    #: For the result of an operation: its node, and the number of the output of that node.
    _edge: Edge | None
    _autograd: AutogradMeta | None
    _vc: VersionCounter | None
    #: Whether the elements are those of `_array`; a sparse tensor has none.
    _strided: ClassVar[bool] = True
    _execution_engine: ClassVar[Any]

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: Any = None) -> Any:
        """Return a leaf tensor that shares the memory of the tensor `data` (PyTorch's old ``Variable(tensor)``)."""
        if volatile is not None:
            warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.")
        if not isinstance(data, Variable):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)  # type: ignore[attr-defined]


class TensorMeta(NamedTuple):
    """The shape, dtype and device of a tensor, which its gradient must have as well."""

    shape: tuple[int, ...]
    dtype: dtypes.dtype
    device: Any

    @classmethod
    def of(cls, t: AnyTensor) -> TensorMeta:
        """Return the metadata of a tensor."""
        return new_tuple(cls, (t._array.shape, t._dtype, t._device))


#: The class of new tensors, set by the layer above.
tensor_class: Any = Variable


def wrap(array: Any, device: Any, dtype: Any = None, edge: Edge | None = None) -> Any:
    """Return a tensor with the data of `array`, which is converted to the device's array type if needed."""
    t = new(tensor_class)
    if array.__class__ is not device.backend.array_type:
        array = device.backend.asarray(array)
    if malloc.waiting and array.size >= malloc.LARGE and device.type == "cpu":
        malloc.begin()
    t._array = array
    t._device = device
    t._dtype = dtypes.from_numpy(array.dtype) if dtype is None else dtype
    t._edge = edge
    t._autograd = None
    t._vc = None
    if inference_used and local.state.mode & INFERENCE:
        t._autograd = AutogradMeta()
        t._autograd.inference = True
        t._vc = INFERENCE_COUNTER
    return t


def as_class(t: AnyTensor, cls: type) -> Any:
    """Return a tensor of class `cls` with the same memory, history and autograd metadata as `t`."""
    copy: Any = new(cls)
    copy._array, copy._device, copy._dtype = t._array, t._device, t._dtype
    copy._edge, copy._autograd, copy._vc = t._edge, t._autograd, t._vc
    return copy


def alias(t: AnyTensor, edge: Edge | None) -> Any:
    """Return a new tensor that shares memory and version counter with `t` and has the history `edge`."""
    copy = new(tensor_class)
    copy._array, copy._device, copy._dtype = t._array, t._device, t._dtype
    copy._edge, copy._autograd = edge, None
    copy._vc = version_counter(t)
    return copy


def version_counter(t: AnyTensor) -> VersionCounter:
    """Return the version counter of `t`, and create it on first use."""
    vc: VersionCounter | None = t._vc
    if vc is None:
        vc = t._vc = VersionCounter()
    return vc


def bump(t: AnyTensor) -> None:
    """Increment the version of the memory of `t` after an in-place write."""
    vc = t._vc
    if vc is None:
        vc = version_counter(t)
    global last_write
    now = last_write = tick()
    vc.count(now)


def bump_all(tensors: Iterable[Any]) -> None:
    """Increment the versions of several tensors after one in-place write to each."""
    global last_write
    now = last_write = tick()
    for t in tensors:
        vc = t._vc
        if vc is None:
            vc = version_counter(t)
        vc.count(now)


def on_device(t: AnyTensor, device: Any) -> Any:
    """Return the array of `t` for use on `device`; a 0-dim CPU tensor becomes a scalar of the device's backend."""
    if t._device is device or t._device.real is device.real:
        return t._array
    return device.backend.scalar(t._array[()], t._array.dtype)


def repeats(array: Any) -> bool:
    """Return whether several elements of an array share one memory location, as in a result of `expand`."""
    return (
        0 in getattr(array, "strides", ())
        and bool(array.size)
        and any(n > 1 and s == 0 for n, s in zip(array.shape, array.strides, strict=True))
    )


def type_name(t: AnyTensor) -> str:
    """Return the name of a tensor's type in error messages, for example ``torch.FloatTensor``."""
    dtype: dtypes.dtype = t._dtype
    kind = {"cpu": "torch", "cuda": "torch.cuda"}.get(t._device.type, f"torch.{t._device.type}")
    return f"{kind}.{dtype.scalar_name}Tensor"


# -- the gradient of a leaf --------------------------------------------------------------------------------------------

#: Held while a leaf's gradient is updated: backward may run in several threads that share leaves.
_summing = process_lock()
#: Gradients with more elements than this are summed as soon as possible, so that the summands can be freed.
_LARGE = 1 << 12


def accumulate_grad(
    node: AccumulateGrad,
    grad: Any,
    own: bool = False,
    batched: bool = False,
    run: Callable[..., Any] | None = None,
) -> Any:
    """Add `grad` to ``.grad`` of the leaf of an AccumulateGrad, and call the leaf's post-accumulate hooks.

    Parameters
    ----------
    node : AccumulateGrad
    grad : array or Tensor or None
        The gradient; a tensor if backward is recorded.
    own : bool
        Whether the engine allocated the array, so that the leaf may keep it without a copy.
    batched : bool
        Whether the gradient may have batch dims of `vmap`.
    run : callable, optional
        The function that calls a kernel; by default `State.run`.

    Returns
    -------
    array or Tensor or None
        The gradient that was added: `grad`, or the copy of it that the leaf keeps.

    Raises
    ------
    RuntimeError
        If the leaf has become the result of an operation.
    """
    leaf = node.variable
    meta: AutogradMeta = leaf._autograd
    if grad is not None and meta.requires_grad:
        recorded = isinstance(grad, Variable)
        if batched and (not recorded or grad._strided):
            _check_unbatched(grad._array if recorded else grad, leaf)
        if grad.shape != leaf._array.shape:
            t = sum_to_shape(grad if recorded else wrap(grad, leaf._device), leaf._array.shape, node)
            grad = t if recorded else t._array
        with _summing:
            if not recorded:
                grad = _add_array(leaf, meta, grad, own, run or local.state.run)
            elif meta.grad is None:
                meta.grad = functional.clone(grad)
            elif not grad._strided and not local.state.mode & GRAD:
                meta.grad.add_(grad)
            else:
                meta.grad = sum_of_tensors(meta.grad, grad)
    elif grad is not None and leaf._edge is not None:
        raise RuntimeError("leaf variable has been moved into the graph interior")
    if meta.post_accumulate_hooks:
        for hook in list(meta.post_accumulate_hooks.values()):
            result = hook(leaf)
            if result is not None and result is not leaf:
                raise RuntimeError("Tensor post accumulate grad hooks should return None.")
    return grad


def accumulate_new_grads(node: Node, gradients: Iterable[AnyArray | None]) -> bool:
    """Make new arrays, computed for the edges of `node`, the gradients of leaves that have none.

    Returns False, and changes nothing, if an edge leads to a node of another kind, to a leaf that has a gradient or
    hooks, or to one that cannot keep the array.
    """
    leaves = []
    device = node._device
    array_type = device.backend.array_type
    with _summing:
        for edge, gradient in zip(node._edges, gradients, strict=True):
            if edge is None or gradient is None:
                continue
            end = edge[0]
            if not end.is_accumulator or end._hooks is not None or gradient.__class__ is not array_type:
                return False
            leaf = end.variable  # type: ignore[attr-defined]
            meta, array = leaf._autograd, leaf._array
            if (
                meta.grad is not None
                or meta.post_accumulate_hooks
                or not meta.requires_grad
                or leaf._device is not device
                or gradient.base is not None
                or gradient.dtype is not array.dtype
                or gradient.strides != array.strides
                or gradient.shape != array.shape
            ):
                return False
            leaves.append((meta, gradient, leaf._dtype))
        for meta, gradient, dtype in leaves:
            meta.grad = wrap(gradient, device, dtype)
    return True


def _add_array(leaf: AnyTensor, meta: AutogradMeta, grad: Any, own: bool, run: Callable[..., Any]) -> Any:
    """Add `grad` to the leaf's gradient in place; `own` says whether a first gradient may be kept without a copy."""
    global leaf_order_matters
    old = meta.grad
    if old is not None and not old._strided:
        meta.grad = sum_of_tensors(old, wrap(grad, leaf._device))
        return grad
    if old is not None:
        try:
            old._array = run(iadd, old._array, grad)
        except ValueError as error:  # the leaf has another shape than when it got its gradient
            raise RuntimeError(
                f"a gradient of size {list(grad.shape)} cannot be added to .grad, which has size "
                f"{list(old._array.shape)}; set .grad to None first"
            ) from error
        bump(old)
        if old._array.size > _LARGE:
            leaf_order_matters = True
        return grad
    if grad.__class__ is not leaf._device.backend.array_type:
        grad = leaf._device.backend.asarray(grad)
    elif not own:
        grad = grad.copy() if grad.size < _LARGE else leaf._device.backend.copy_elements(grad, "C")
    if grad.ndim > 1 and grad.strides != leaf._array.strides:
        grad = match_array_layout(leaf._array, grad)
    meta.grad = wrap(grad, leaf._device, leaf._dtype if grad.dtype is leaf._array.dtype else None)
    return grad


def shape_of(t: AnyTensor) -> tuple[int, ...]:
    """Return the shape of a tensor that may be sparse."""
    return t._array.shape if t._strided else t.sizes  # type: ignore[no-any-return]


def sum_of_tensors(a: AnyTensor, b: AnyTensor) -> Any:
    """Return the sum of two gradients, dense or sparse, with the dense one as the left operand of ``+``."""
    return a + b if a._strided or not b._strided else b + a


def _check_unbatched(grad: Any, leaf: AnyTensor) -> None:
    """Raise if `grad` has batch dims of `vmap` that the leaf does not have, so it cannot be kept as its gradient."""
    levels = set()
    while grad.__class__ is BatchedArray:
        levels.add(grad.level)
        grad = grad.array
    if not levels <= set(leaf._device.levels):
        raise RuntimeError(
            "vmap: backward() would accumulate the gradients of single samples in .grad of a tensor from outside of "
            "vmap. Use autograd.grad() or func.grad(), and return the gradients."
        )


def add_to_grad(tensor: AnyTensor, grad: Any) -> None:
    """Add a copy of `grad` to ``.grad`` of a non-leaf tensor that retains its gradient."""
    if tensor._autograd is None:
        tensor._autograd = AutogradMeta()
    before = tensor._autograd.grad
    tensor._autograd.grad = functional.clone(grad) if before is None else before + grad


def sum_to_shape(grad: Any, shape: tuple[int, ...], node: Any) -> Any:
    """Return the gradient `grad` of an output of `node`, summed to the shape that the output had when it was recorded.

    Raises
    ------
    RuntimeError
        If `grad` cannot be summed to `shape`.
    """
    if grad is None or grad._array.shape == shape:
        return grad
    grad_shape = grad._array.shape
    if len(grad_shape) < len(shape) or any(
        n not in (1, m) for n, m in zip(shape[::-1], grad_shape[::-1], strict=False)
    ):
        raise RuntimeError(
            f"Function {node.name()} got an invalid gradient at index 0 - got {list(grad_shape)} but expected shape "
            f"compatible with {list(shape)}: the tensor got another shape after it was recorded"
        )
    return functional.sum_to_size(grad, shape)


def match_array_layout(like: AnyTensor, array: Any) -> Any:
    """Return `array` with its elements in the memory order of `like`, or C-contiguous if `like` has gaps."""
    order = sorted(range(like.ndim), key=lambda d: -like.strides[d])
    if not like.transpose(order).flags.c_contiguous:
        order = list(range(like.ndim))
    if array.shape != like.shape or array.transpose(order).flags.c_contiguous:
        return array
    inverse_order = sorted(range(like.ndim), key=order.__getitem__)
    return array.transpose(order).copy(order="C").transpose(inverse_order)
