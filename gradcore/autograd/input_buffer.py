"""Gradients on their way through the graph: what can be done with them, and their sums at the nodes that wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from heapq import heapify, heappush
from operator import add, iadd
from typing import TYPE_CHECKING, Any

from gradcore import functional
from gradcore.autograd import variables
from gradcore.autograd.modes import TORCH_FUNCTION_MODE, TORCH_FUNCTION_OFF, local
from gradcore.autograd.variables import TensorMeta, Variable, repeats, sum_of_tensors, wrap
from gradcore.backends.vmap import batched_device
from gradcore.backends.vmap.array import BatchedArray, levels_of
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor

if TYPE_CHECKING:
    from gradcore.autograd.node import Node

__all__ = [
    "TENSOR_GRADS",
    "InputBuffer",
    "PerDevice",
    "RawGrads",
    "TensorGrads",
    "cast_halves",
    "count_leaves",
    "in_own_memory",
]

#: Elements from which the CPU's kernel, which may have threads, adds gradients.
_LARGE = 1 << 16


# -- arrays or tensors ------------------------------------------------------------------------------------------------


class RawGrads:
    """Gradients that are arrays of one device: backward is not recorded. Those of a leaf may be sparse tensors.

    Attributes
    ----------
    F : Backend
        The namespace of formulas.
    """

    recorded = False
    __slots__ = ("F", "device")

    def __init__(self, device: Any) -> None:
        self.device, self.F = device, device.backend

    def as_tensor(self, grad: Any) -> Any:
        """Return a gradient, or None, for those who see tensors."""
        return grad if grad is None or isinstance(grad, Variable) else wrap(grad, self.device)

    def from_tensor(self, t: AnyTensor) -> Any:
        """Return the inverse of `as_tensor`."""
        return t._array if t is not None and t._strided else t

    def as_array(self, grad: Any) -> Any:
        """Return a gradient, or None, as an array of the device: NumPy computes scalars."""
        return grad if grad is None or grad.__class__ is self.F.array_type else self.F.asarray(grad)

    def owns_memory(self, grad: Any) -> bool:
        """Return whether a gradient is an array, not a view of one."""
        return grad is not None and grad.base is None

    def sum_to(self, grad: Any, shape: tuple[int, ...]) -> Any:
        """Return the sum of a gradient over the dims that were broadcast from `shape`."""
        return grad if grad.shape == shape else self.F.sum_to_size(grad, shape)

    def cast(self, grad: Any, dtype: Any) -> Any:
        """Return a gradient in a dtype: the real part where that is real."""
        if isinstance(grad, Variable):
            return TENSOR_GRADS.cast(grad, dtype)
        if grad.dtype == dtype.numpy:
            return grad
        return local.state.run(self.F.astype, grad, dtype.numpy)

    def validate_grad(self, grad: Any, meta: TensorMeta) -> Any:
        """Return a gradient with the shape and the dtype of its input."""
        return self.cast(self.sum_to(grad, meta[0]), meta[1])

    def zeros(self, meta: TensorMeta) -> Any:
        """Return zeros for a missing gradient of an output with the metadata `meta`."""
        shape, dtype, device = meta
        with self.F.use_index(device.index):
            return self.F.xp.zeros(shape, dtype.numpy)

    def zeros_like(self, grad: Any) -> Any:
        """Return zeros like `grad`."""
        with self.F.use_index(self.device.index):
            return self.F.xp.zeros(grad.shape, grad.dtype)

    def widening(self, node: Any, grads: Any) -> Any:
        """Return the conversion of what a node's formulas read to float32, where halves are computed so; else None."""
        op, F = node.op, self.F
        if node.metas is None or not op.computes_half_in_float or not F.upcasts:
            return None
        several = grads if isinstance(grads, list) else [grads]
        dtype = dtypes.from_numpy(next(g for g in several if g is not None).dtype)
        widen = dtype.is_reduced and not F.computes_half_in_float(op.name, several, True)
        return partial(_upcast, F) if widen else None

    def evaluate(self, op: Any, function: Any, grads: Any, values: list[Any]) -> Any:
        """Return the value of a formula; a differential is conjugated before and after for complex numbers."""
        F, run = self.F, local.state.run
        if op.kind != "elementwise" or op.vjps:
            return run(function, F, grads, *values)
        if grads.dtype.kind == "c":
            return F.conj(function(F, F.conj(grads), *values))
        if any(getattr(getattr(v, "dtype", None), "kind", "") == "c" for v in values):
            return F.conj(function(F, grads, *values))
        if grads.size >= F.LARGE:
            return run(F.evaluate_tiled, function, grads, *values)
        return run(function, F, grads, *values)


class TensorGrads:
    """Gradients that are tensors: backward is recorded, or carries tangents. Its methods are those of `RawGrads`."""

    recorded = True
    F: Any = functional
    device = None
    __slots__ = ()

    def as_tensor(self, grad: Any) -> Any:
        return grad

    from_tensor = as_array = as_tensor

    def owns_memory(self, grad: Any) -> bool:
        return False

    def sum_to(self, grad: Any, shape: tuple[int, ...]) -> Any:
        return grad if grad._array.shape == shape else functional.sum_to_size(grad, shape)

    def cast(self, grad: Any, dtype: Any) -> Any:
        if grad._dtype is dtype:
            return grad
        if grad._dtype.is_complex and not dtype.is_complex:
            grad = functional.real(grad)
        return functional.to(grad, dtype)

    def validate_grad(self, grad: Any, meta: TensorMeta) -> Any:
        return self.cast(self.sum_to(grad, meta[0]), meta[1])

    def zeros(self, meta: TensorMeta) -> Any:
        shape, dtype, device = meta
        return functional.zeros(shape, dtype=dtype, device=device)

    def zeros_like(self, grad: Any) -> Any:
        return grad.new_zeros(grad._array.shape)

    def widening(self, node: Any, grads: Any) -> Any:
        return cast_halves if node.op.wide else None

    def evaluate(self, op: Any, function: Any, grads: Any, values: list[Any]) -> Any:
        if op.kind == "elementwise" and not op.vjps and (grads._dtype.is_complex or _any_complex(values)):
            grad_input = function(functional, functional.conj(grads), *values)
            return functional.conj(grad_input) if grad_input._dtype.is_complex else grad_input
        if variables.subclasses_used:
            return _call_formula(function, grads, values)
        return function(functional, grads, *values)


TENSOR_GRADS = TensorGrads()


def cast_halves(value: Any) -> Any:
    """Return `value` with its float16 and bfloat16 tensors in float32.

    Some formulas read sums that a half-precision number cannot hold.
    """
    if isinstance(value, (list, tuple)):
        return type(value)(cast_halves(v) for v in value)
    is_half = isinstance(value, Variable) and value._dtype.is_reduced
    return functional.to(value, dtypes.float32) if is_half else value


def _upcast(F: Any, value: Any) -> Any:
    """Return `value` with its half-precision arrays in float32."""
    if isinstance(value, (list, tuple)):
        return type(value)(_upcast(F, v) for v in value)
    dtype = getattr(value, "dtype", None)
    if dtype is None or not hasattr(value, "astype"):
        return value
    known = dtypes.FROM_NUMPY.get(dtype)
    return F.astype(value, dtypes.float32.numpy) if known is not None and known.is_reduced else value


def _any_complex(values: list[Any]) -> bool:
    return any(getattr(getattr(v, "_dtype", None), "is_complex", False) for v in values)


def _call_formula(function: Any, grads: Any, values: list[Any]) -> Any:
    """Call a formula on tensors, treating subclasses as plain tensors."""
    state = local.state
    watched = any(getattr(mode, "sees_formulas", False) for mode in state.functions)
    before, state.mode = state.mode, (state.mode | TORCH_FUNCTION_OFF) & ~(0 if watched else TORCH_FUNCTION_MODE)
    try:
        return function(functional, grads, *values)
    finally:
        state.mode = before


def in_own_memory(t: AnyTensor) -> Any:
    """Return a gradient, a tensor or None, for those who may write to it: no two elements share memory."""
    if t is None or not t._strided:
        return t
    writable = getattr(getattr(t._array, "flags", None), "writeable", True)
    return t if writable and not repeats(t._array) else functional.clone(t, memory_format="contiguous")


# -- sums -------------------------------------------------------------------------------------------------------------


class PerDevice(dict[Any, Any]):
    """Partial sums of one gradient by the device on which its contributions arose."""


#: The arithmetic of devices that are in no batches: they live as long as the process.
_UNBATCHED: dict[int, RawGrads] = {}


class InputBuffer:
    """The gradients that wait for their nodes in one backward call, and the order in which these run.

    Parameters
    ----------
    recorded : bool
        Whether gradients are tensors; else they are arrays.
    batches : tuple
        The levels of ``vmap`` that gradients may be in.
    run : callable
        ``run(kernel, *args)`` calls a kernel, see `State.run`.
    """

    __slots__ = (
        "batches", "complete", "expected", "heap", "known", "owned", "pending", "recorded", "run", "sparse", "special",
    )  # fmt: skip

    def __init__(self, recorded: bool, batches: tuple[Any, ...], run: Callable[..., Any]) -> None:
        self.recorded, self.batches, self.run = recorded, batches, run
        #: The arithmetic of the devices that were met, by their identity.
        self.known: dict[int, RawGrads] = {} if batches else _UNBATCHED
        #: A gradient for each node that waits, or a list of them for nodes with several outputs.
        self.pending: dict[Node, Any] = {}
        #: Nodes whose pending gradient is an array that the engine made and may write into.
        self.owned: set[Node] = set()
        #: Nodes that do not run the short way: their gradients are captured, or lie on several devices.
        self.special: set[Node] = set()
        #: The nodes that wait, by creation number, negative: the youngest first.
        self.heap: list[tuple[int, Node]] = []
        #: Gradients that each leaf has yet to receive, where they are counted, and the number of leaves that have all.
        self.expected: dict[Node, int] | None = None
        self.complete = 0
        #: Whether a leaf's gradient may be a sparse tensor among arrays.
        self.sparse = False

    def arithmetic(self, device: Any) -> RawGrads | TensorGrads:
        """Return the arithmetic for gradients of nodes on `device`, in the batches of this backward."""
        if self.recorded:
            return TENSOR_GRADS
        result = self.known.get(id(device))
        if result is None or result.F is not result.device.backend:  # as while a program is recorded
            result = RawGrads(batched_device(self.batches, device) if self.batches else device)
            if self.batches or not device.levels:
                self.known[id(device)] = result
        return result

    def add(self, node: Node, number: int, grad: Any, device: Any, own: bool = False) -> None:
        """Add a contribution that arose on `device` to the gradient of a node's output.

        `own` says whether nobody else has `grad`: so a leaf may keep it, if it is an array and not a view of one.
        """
        pending = self.pending
        if node._n_outputs != 1:
            slots = pending.get(node)
            if slots is None:
                slots = pending[node] = [None] * node._n_outputs
                heappush(self.heap, (-node._seq, node))
            slots[number] = self.plus(slots[number], grad, device, node, False)
            return
        counted = self.expected is not None and node.is_accumulator
        if node in pending:
            pending[node] = self.plus(pending[node], grad, device, node)
        else:
            if own and node.is_accumulator and device is node._device and self.arithmetic(device).owns_memory(grad):
                self.owned.add(node)
            pending[node] = grad if device is node._device else self.plus(None, grad, device, node)
            if not counted:
                heappush(self.heap, (-node._seq, node))
        if counted:
            self.count_arrival(node)

    def plus(self, total: Any, grad: Any, device: Any, node: Node, may_own: bool = True) -> Any:
        """Return ``total + grad``; add in place only if the engine made `total` itself."""
        if grad is None:
            return total
        if (
            node in self.owned
            and total.__class__ is grad.__class__
            and total.shape == grad.shape
            and total.dtype is grad.dtype
            and device is node._device
            and may_own
            and (total.__class__ is not BatchedArray or _holds(total, grad))
        ):
            return self.run(*_in_threads(total, grad, device, True) or (iadd, total, grad))
        if total.__class__ in _NUMBERS and total.__class__ is grad.__class__ and device is node._device:
            return self.run(add, total, grad)
        if device is not node._device or type(total) is PerDevice:
            self.owned.discard(node)
            self.special.add(node)
            return _plus_apart(total, grad, device, node)
        if total is None:
            return grad
        if self.recorded or (self.sparse and (isinstance(total, Variable) or isinstance(grad, Variable))):
            return self.plus_tensors(total, grad, node)
        if total.shape != grad.shape:
            _check_same_shape(total, grad, node)
        if may_own:
            self.owned.add(node)
        result = self.run(*_in_threads(total, grad, device, False) or (add, total, grad))
        return result if result.__class__ is total.__class__ else self.arithmetic(node._device).as_array(result)

    def plus_tensors(self, total: Any, grad: Any, node: Node) -> Any:
        """Return `plus` of tensors, for a recorded backward and for sparse gradients."""
        arithmetic = self.arithmetic(node._device)
        a, b = arithmetic.as_tensor(total), arithmetic.as_tensor(grad)
        if a._strided and b._strided:
            _check_same_shape(a._array, b._array, node)
        return arithmetic.from_tensor(sum_of_tensors(a, b))

    def add_part(self, node: Any, grad: Any) -> bool:
        """Add the gradient of a part to the sum for the whole where it exists and may be written into.

        So a loop over ``x[i]`` takes time in proportion to `x`, not to its square.
        """
        edge = node._edges[0]
        if edge is None or edge[0] not in self.owned or edge[0]._device is not node._device:
            return False
        total = self.pending.get(edge[0])
        if total is None or total.dtype != grad.dtype or (grad.__class__ is BatchedArray and not _holds(total, grad)):
            return False
        if total.__class__ is not self.arithmetic(node._device).F.array_type:  # a number, which has no parts
            return False
        self.run(iadd, total[node.view_key(*node.saved)], grad)
        if self.expected is not None and edge[0] in self.expected:
            self.count_arrival(edge[0])
        return True

    def gather_on_device(self, grad: Any, device: Any) -> Any:
        """Return the gradient of a node, or of all its outputs, on `device`; each partial sum is moved once."""
        if type(grad) is list:
            return [self.gather_on_device(g, device) for g in grad] if PerDevice in map(type, grad) else grad
        if type(grad) is not PerDevice:
            return grad
        total, own = None, self.arithmetic(device)
        for source, part in grad.items():
            if part is None:
                continue
            if source is not device:
                part = own.from_tensor(functional.to(self.arithmetic(source).as_tensor(part), device))
            total = part if total is None else total + part
        return total

    # -- leaves ---------------------------------------------------------------------------------------------------

    def expect_leaves(self, needed: set[Node] | None = None) -> None:
        """Count the gradients that leaves will receive from the nodes that wait, so that each runs after its last.

        Parameters
        ----------
        needed : set of Node, optional
            The nodes that run; all if None.
        """
        counts = self.expected = count_leaves(self.pending, needed)
        waiting = [entry for entry in self.heap if not entry[1].is_accumulator]
        if len(waiting) < len(self.heap):  # roots that are leaves
            leaves = [node for _, node in sorted(self.heap, reverse=True) if node.is_accumulator]
            self.heap[:] = waiting
            heapify(self.heap)
            for leaf in leaves:
                counts[leaf] = counts.get(leaf, 0) + 1
                self.count_arrival(leaf)

    def count_arrival(self, leaf: Node) -> None:
        """Count a gradient that a leaf has received; after the last one, put the leaf before all other nodes."""
        counts: Any = self.expected
        counts[leaf] -= 1
        if not counts[leaf]:
            self.complete += 1
            heappush(self.heap, (self.complete - _FIRST, leaf))


#: Leaves run before all other nodes: creation numbers stay below this.
_FIRST = 1 << 62


#: The classes of gradients without dims that are computed as numbers: their shapes and dtypes take long to look up.
_NUMBERS = frozenset(each.numpy.type for each in (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128))


def _in_threads(total: Any, grad: Any, device: Any, in_place: bool) -> tuple[Any, ...] | None:
    """Return the kernel and its arguments that add large arrays on the CPU; None for others."""
    if device.type != "cpu" or total.__class__ is not device.backend.array_type or total.size < _LARGE:
        return None
    kernel = device.kernels["add"]
    if not hasattr(kernel, "nout"):  # as while a program is recorded
        return None
    return (partial(kernel, out=total) if in_place else kernel, total, grad)


def _plus_apart(total: Any, grad: Any, device: Any, node: Node) -> Any:
    """Add a gradient that arose on another device: return a partial sum for each device."""
    if type(total) is not PerDevice:
        total = PerDevice({} if total is None else {node._device: total})
    part = total.get(device)
    total[device] = grad if part is None else part + grad
    return total


def _check_same_shape(total: Any, grad: Any, node: Node) -> None:
    """Check that gradients of a node are of one shape: a leaf may have been reshaped in place between two uses."""
    if total.shape != grad.shape:
        raise RuntimeError(
            f"{node.name()} received gradients of the shapes {list(total.shape)} and {list(grad.shape)}: the tensor "
            "was reshaped in place, without being recorded, between its uses"
        )


def count_leaves(nodes: Iterable[Node], needed: set[Node] | None = None) -> dict[Node, int]:
    """Count the edges that lead to each leaf from `nodes` and the nodes behind them, within `needed` if given."""
    counts: dict[Node, int] = {}
    seen = set(nodes)
    stack = [node._edges for node in seen]
    while stack:
        for edge in stack.pop():
            if edge is None:
                continue
            node = edge[0]
            if needed is not None and node not in needed:
                continue
            if node.is_accumulator:
                counts[node] = counts.get(node, 0) + 1
            elif node not in seen:
                seen.add(node)
                stack.append(node._edges)
    return counts


def _holds(total: Any, grad: Any) -> bool:
    """Return whether `total` is batched over every level of ``vmap`` that `grad` is batched over."""
    return set(levels_of(grad)) <= set(levels_of(total))
