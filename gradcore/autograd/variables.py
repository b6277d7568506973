"""Variables: what tensors are to the graph, the versions of their memory, and the gradient that a leaf accumulates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from operator import iadd
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from gradcore import functional
from gradcore.autograd.modes import GRAD, INFERENCE, local
from gradcore.backends.numpy import malloc
from gradcore.backends.streams import STREAMS
from gradcore.backends.vmap import BatchedArray
from gradcore.core import dtypes
from gradcore.core.errors import warn
from gradcore.core.locks import process_lock
from gradcore.core.typing import AnyTensor

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
    "add_to_grad",
    "alias",
    "as_class",
    "bump",
    "bump_all",
    "match_array_layout",
    "new",
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
    """Counts the in-place writes to memory that several tensors (a base, its views, `detach()`) share."""

    version = 0
    #: When the last write happened, on the clock of `tick`, and when the last few did.
    written = 0
    times: tuple[int, ...] | list[int] = ()

    def count(self, now: int) -> None:
        """Note a write."""
        self.version += 1
        self.written = now
        if self.times:
            self.times.append(now)  # type: ignore[union-attr]
            if not self.version & 31:
                del self.times[:-32]  # type: ignore[union-attr]
        else:
            self.times = [now]

    def snapshot(self) -> tuple[Any, ...]:
        """Return the state for `restore`."""
        return self.version, self.written, list(self.times)

    def restore(self, before: tuple[Any, ...]) -> None:
        """Forget the writes since a `snapshot`."""
        self.version, self.written, self.times = before

    def at(self, time: int) -> int:
        """Return the version at some time, if there were at most 32 writes since."""
        return self.version - sum(t > time for t in self.times)


class Untracked(VersionCounter):
    """The counter of all tensors made in inference mode: writes are not counted there, and forbidden elsewhere."""

    def count(self, now: int) -> None:
        if not local.state.mode & INFERENCE:
            raise RuntimeError(INFERENCE_WRITTEN)


# -- state of the process (read and assigned as attributes of this module) ---------------------------------------------

#: When memory was last written in place, anywhere: a node that is younger need not check what it saved.
last_write = 0
#: Whether inference mode has ever been entered: else new tensors need not look at the mode.
inference_used = False
#: Whether anything may depend on when leaves are updated: there are hooks, or ``.grad`` that take much memory.
leaf_order_matters = False
#: Whether there is a subclass of tensors that takes operations over.
subclasses_used = False
#: The arguments that take a call over, and how they are asked to; set by the layer above.
overloaded_args: Any = None
handle_torch_function: Any = None

#: The version counter of all tensors made in inference mode.
INFERENCE_COUNTER = Untracked()
#: The classes whose instances operations take as they are: tensors, and subclasses that do not override operations.
PLAIN_TYPES: set[Any] = set()


#: As `AutogradMeta.grad_dtype`: the tensor's own.
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
    #: Whether backward looks for these at a leaf: it has had hooks, or its `grad_dtype` has been set.
    observed = False
    retains_grad = False
    #: For views: the tensor whose memory this is a view of, and the operations that lead there from the base, as
    #: ``(operations before, (operation, settings))``.
    base: Any = None
    chain: tuple[Any, ...] = ()
    #: The version at which a view's edge was made; the edge is stale when the counter has moved on.
    edge_version = 0
    #: Why a view must not be written to in place: "", "multi", "no_grad", "custom", "inference".
    creation = ""
    #: How often the tensor's own shape was changed in place; of a view, how often its base's had been when it was made.
    reshaped = 0
    inference = False
    #: Forward mode: tangents by level.
    tangents: Any = None


class Variable:
    """The slots of a tensor; `gradcore.Tensor` adds the methods.

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
    #: Of a result: the node that computed it, and which of its outputs it is.
    _edge: Edge | None
    _autograd: AutogradMeta | None
    _vc: VersionCounter | None
    #: Whether the elements are those of `_array`; a sparse tensor has none.
    _strided: ClassVar[bool] = True
    _execution_engine: ClassVar[Any]

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: Any = None) -> Any:
        """Return ``Variable(tensor)``, from before tensors were variables: the same data as a leaf."""
        if volatile is not None:
            warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.")
        if not isinstance(data, Variable):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)  # type: ignore[attr-defined]


class TensorMeta(NamedTuple):
    """The shape, dtype and device of a tensor, which its gradient has, too."""

    shape: tuple[int, ...]
    dtype: dtypes.dtype
    device: Any

    @classmethod
    def of(cls, t: AnyTensor) -> TensorMeta:
        """Return the metadata of a tensor."""
        return cls(t._array.shape, t._dtype, t._device)


#: The class of new tensors, set by the layer above.
tensor_class: Any = Variable


def wrap(array: Any, device: Any, dtype: Any = None, edge: Edge | None = None) -> Any:
    """Return a tensor of an array (of its device's array type)."""
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
    """Return the same tensor as an instance of another class."""
    other: Any = new(cls)
    other._array, other._device, other._dtype = t._array, t._device, t._dtype
    other._edge, other._autograd, other._vc = t._edge, t._autograd, t._vc
    return other


def alias(t: AnyTensor, edge: Edge | None) -> Any:
    """Return another tensor of the same memory, with the given history and no other."""
    other = new(tensor_class)
    other._array, other._device, other._dtype = t._array, t._device, t._dtype
    other._edge, other._autograd = edge, None
    other._vc = version_counter(t)
    return other


def version_counter(t: AnyTensor) -> VersionCounter:
    """Return the tensor's version counter, made when first asked for."""
    vc: VersionCounter | None = t._vc
    if vc is None:
        vc = t._vc = VersionCounter()
    return vc


def bump(t: AnyTensor) -> None:
    """Note an in-place write to the memory of `t`."""
    vc = t._vc
    if vc is None:
        vc = version_counter(t)
    global last_write
    now = last_write = tick()
    vc.count(now)


def bump_all(tensors: Iterable[Any]) -> None:
    """Note one in-place write to the memory of each of several tensors."""
    global last_write
    now = last_write = tick()
    for t in tensors:
        vc = t._vc
        if vc is None:
            vc = version_counter(t)
        vc.count(now)


def on_device(t: AnyTensor, device: Any) -> Any:
    """Return the array of a tensor on `device`: itself, or the scalar of a 0-dim CPU tensor."""
    if t._device is device or t._device.real is device.real:
        return t._array
    return device.backend.scalar(t._array[()], t._array.dtype)


def repeats(array: Any) -> bool:
    """Return whether several elements of an array are one place in memory, as what `expand` gives."""
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
#: Sums of more elements than this are done as soon as they can be, so that what is added can go.
_LARGE = 1 << 12


def accumulate_grad(
    node: AccumulateGrad,
    grad: Any,
    own: bool = False,
    batched: bool = False,
    run: Callable[..., Any] | None = None,
) -> Any:
    """Add to ``.grad`` of the leaf of an AccumulateGrad, and call its hooks.

    Parameters
    ----------
    node : AccumulateGrad
    grad : array or Tensor or None
        A tensor if this is recorded.
    own : bool
        Whether the engine made the array, so that the leaf may keep it.
    batched : bool
        Whether the gradient may be a batch.
    run : callable, optional
        Calls a kernel, where that is not to be `State.run`.

    Returns
    -------
    array or Tensor or None
        What was added: `grad`, or what the leaf keeps of it.

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
            if hook(leaf) is not None:
                raise RuntimeError("Tensor post accumulate grad hooks should return None.")
    return grad


def _add_array(leaf: AnyTensor, meta: AutogradMeta, grad: Any, own: bool, run: Callable[..., Any]) -> Any:
    """Add `grad` to the leaf's gradient in place; the first one is kept without a copy if the engine made it."""
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
    """Return the sum of two gradients, which may be sparse: a dense tensor takes a sparse one, not the reverse."""
    return a + b if a._strided or not b._strided else b + a


def _check_unbatched(grad: Any, leaf: AnyTensor) -> None:
    """Refuse to keep the gradients of single samples where one gradient is kept."""
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
    """Add a gradient to ``.grad`` of a tensor that is no leaf, in memory of its own."""
    if tensor._autograd is None:
        tensor._autograd = AutogradMeta()
    before = tensor._autograd.grad
    tensor._autograd.grad = functional.clone(grad) if before is None else before + grad


def sum_to_shape(grad: Any, shape: tuple[int, ...], node: Any) -> Any:
    """Return the gradient, a tensor, of a result of `node` that had this shape when it was recorded.

    Raises
    ------
    RuntimeError
        If it cannot be summed to that shape.
    """
    if grad is None or grad._array.shape == shape:
        return grad
    given = grad._array.shape
    if len(given) < len(shape) or any(n not in (1, m) for n, m in zip(shape[::-1], given[::-1], strict=False)):
        raise RuntimeError(
            f"Function {node.name()} got an invalid gradient at index 0 - got {list(given)} but expected shape "
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
    back = sorted(range(like.ndim), key=order.__getitem__)
    return array.transpose(order).copy(order="C").transpose(back)
