"""Variables: what tensors are to the graph, and the versions of their memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from gradcore import dtypes
from gradcore.autograd.modes import INFERENCE, local
from gradcore.backends.streams import STREAMS

if TYPE_CHECKING:
    from gradcore.autograd.node import Node

__all__ = [
    "INFERENCE_WRITTEN",
    "OWN",
    "Clock",
    "Edge",
    "Inference",
    "Meta",
    "Order",
    "Subclasses",
    "TensorMeta",
    "Variable",
    "VersionCounter",
    "alias",
    "bump",
    "bump_all",
    "new",
    "on_device",
    "repeats",
    "retyped",
    "tensor_type",
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
        """What `restore` needs."""
        return self.version, self.written, list(self.times)

    def restore(self, before: tuple[Any, ...]) -> None:
        """Forget the writes since a `snapshot`."""
        self.version, self.written, self.times = before

    def at(self, time: int) -> int:
        """The version at some time, if there were at most 32 writes since."""
        return self.version - sum(t > time for t in self.times)


class Untracked(VersionCounter):
    """The counter of all tensors made in inference mode: writes are not counted there, and forbidden elsewhere."""

    def count(self, now: int) -> None:
        if not local.state.mode & INFERENCE:
            raise RuntimeError(INFERENCE_WRITTEN)


class Clock:
    """When memory was last written in place, anywhere: a node that is younger need not check what it saved."""

    last_write = 0


class Inference:
    """Whether inference mode has ever been entered: else new tensors need not look at the mode."""

    used = False
    #: What these tensors have for a version counter.
    counter = Untracked()


class Order:
    """Whether anything may depend on when leaves are updated: there are hooks, or ``.grad`` that take much memory."""

    matters = False


class Subclasses:
    """Which classes of tensors operations take as they are, and whether any takes operations over."""

    #: Tensors, and the subclasses that do nothing with operations.
    plain: ClassVar[set[Any]] = set()
    #: Whether there is a subclass that does.
    used = False
    #: Which of some values take calls over, and how they are asked to; put here by the layer above.
    overloaded: Any = None
    hand_over: Any = None


#: As `Meta.grad_dtype`: the tensor's own.
OWN: Any = object()


class Meta:
    """What few tensors have: leaves that require grad, views, duals. Defaults stand on the class."""

    requires_grad = False
    #: The accumulated gradient: a tensor, or None.
    grad: Any = None
    #: The dtype of the gradient; None for any.
    grad_dtype: Any = OWN
    #: Weak reference to the leaf's AccumulateGrad, which holds the leaf.
    accumulator: Any = None
    hooks: Any = None
    post_accumulate_hooks: Any = None
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

    __slots__ = ("__dict__", "__weakref__", "_array", "_device", "_dtype", "_edge", "_meta", "_vc")

    _array: Any
    _device: Any
    _dtype: dtypes.dtype
    #: Of a result: the node that computed it, and which of its outputs it is.
    _edge: Edge | None
    _meta: Meta | None
    _vc: VersionCounter | None
    _execution_engine: ClassVar[Any]

    def __new__(cls, data: Any, requires_grad: bool = False) -> Any:
        """``Variable(tensor)``, from before tensors were variables: the same data as a leaf."""
        if not isinstance(data, Variable):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)  # type: ignore[attr-defined]


class TensorMeta(NamedTuple):
    """The shape, dtype and device of a tensor, which its gradient has, too."""

    shape: tuple[int, ...]
    dtype: dtypes.dtype
    device: Any

    @classmethod
    def of(cls, t: Any) -> TensorMeta:
        """Those of a tensor."""
        return cls(t._array.shape, t._dtype, t._device)


class _TensorType:
    """The class of new tensors, put here by the layer above."""

    cls: Any = Variable


tensor_type = _TensorType()


def wrap(array: Any, device: Any, dtype: Any = None, edge: Edge | None = None) -> Any:
    """A tensor of an array (of its device's array type)."""
    t = new(tensor_type.cls)
    if array.__class__ is not device.backend.array_type:
        array = device.backend.asarray(array)
    t._array = array
    t._device = device
    t._dtype = dtypes.from_numpy(array.dtype) if dtype is None else dtype
    t._edge = edge
    t._meta = None
    t._vc = None
    if Inference.used and local.state.mode & INFERENCE:
        t._meta = Meta()
        t._meta.inference = True
        t._vc = Inference.counter
    return t


def retyped(t: Any, cls: type) -> Any:
    """The same tensor as an instance of another class."""
    other: Any = new(cls)
    other._array, other._device, other._dtype = t._array, t._device, t._dtype
    other._edge, other._meta, other._vc = t._edge, t._meta, t._vc
    return other


def alias(t: Any, edge: Edge | None) -> Any:
    """Another tensor of the same memory, with the given history and no other."""
    other = new(tensor_type.cls)
    other._array, other._device, other._dtype = t._array, t._device, t._dtype
    other._edge, other._meta = edge, None
    other._vc = version_counter(t)
    return other


def version_counter(t: Any) -> VersionCounter:
    """The tensor's version counter, made when first asked for."""
    vc: VersionCounter | None = t._vc
    if vc is None:
        vc = t._vc = VersionCounter()
    return vc


def bump(t: Any) -> None:
    """Note an in-place write to the memory of `t`."""
    vc = t._vc
    if vc is None:
        vc = version_counter(t)
    now = Clock.last_write = tick()
    vc.count(now)


def bump_all(tensors: Iterable[Any]) -> None:
    """Note one in-place write to the memory of each of several tensors."""
    now = Clock.last_write = tick()
    for t in tensors:
        vc = t._vc
        if vc is None:
            vc = version_counter(t)
        vc.count(now)


def on_device(t: Any, device: Any) -> Any:
    """The array of a tensor on `device`: itself, or the scalar of a 0-dim CPU tensor."""
    if t._device is device or t._device.real is device.real:
        return t._array
    return device.backend.scalar(t._array[()], t._array.dtype)


def repeats(array: Any) -> bool:
    """Whether several elements of an array are one place in memory, as what `expand` gives."""
    return (
        0 in getattr(array, "strides", ())
        and bool(array.size)
        and any(n > 1 and s == 0 for n, s in zip(array.shape, array.strides, strict=True))
    )


def type_name(t: Any) -> str:
    """The name of a tensor's type in error messages, for example ``torch.FloatTensor``."""
    dtype: dtypes.dtype = t._dtype
    kind = {"cpu": "torch", "cuda": "torch.cuda"}.get(t._device.type, f"torch.{t._device.type}")
    return f"{kind}.{dtype.scalar_name}Tensor"
