"""Arithmetic on gradients (raw arrays or tensors), and the buffer that sums them at the nodes that are still to run."""

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
    "copy_if_shared",
    "count_leaves",
]

#: The number of elements from which gradients on the CPU are added by a kernel that may use threads.
_LARGE = 1 << 16


# -- arrays or tensors ------------------------------------------------------------------------------------------------


class RawGrads:
    """Arithmetic on gradients that are arrays of one device, for a backward that is not recorded.

    Attributes
    ----------
    F : Backend
        The namespace of formulas.
    """

    recorded = False
    __slots__ = ("F", "device", "own_device")

    def __init__(self, device: Any, batches: tuple[Any, ...] = ()) -> None:
        self.own_device, self.device = device, batched_device(batches, device) if batches else device
        self.F = self.device.backend

    def as_tensor(self, grad: Any) -> Any:
        """Return a gradient (or None) as a tensor, for hooks and users."""
        if grad is None or isinstance(grad, Variable):
            return grad
        if self.own_device is self.device:
            return wrap(grad, self.device)
        # Samples that share a gradient are no batch for its node, even if the samples of others in this backward are.
        return wrap(grad, batched_device(tuple(levels_of(grad)), self.own_device))

    def from_tensor(self, t: AnyTensor) -> Any:
        """Return the array of a tensor (or None); the inverse of `as_tensor`."""
        return t._array if t is not None and t._strided else t

    def as_array(self, grad: Any) -> Any:
        """Return a gradient (or None) as an array of the device. NumPy functions may have returned a scalar."""
        return grad if grad is None or grad.__class__ is self.F.array_type else self.F.asarray(grad)

    def owns_memory(self, grad: Any) -> bool:
        """Return whether a gradient is an array, not a view of one."""
        return grad is not None and grad.base is None

    def sum_to(self, grad: Any, shape: tuple[int, ...]) -> Any:
        """Return the sum of a gradient over the dims that were broadcast from `shape`."""
        return grad if grad.shape == shape else self.F.sum_to_size(grad, shape)

    def cast(self, grad: Any, dtype: Any) -> Any:
        """Return `grad` converted to `dtype`; the real part of a complex gradient if `dtype` is real."""
        if isinstance(grad, Variable):
            return TENSOR_GRADS.cast(grad, dtype)
        if grad.dtype == dtype.numpy:
            return grad
        return local.state.run(self.F.astype, grad, dtype.numpy)

    def validate_grad(self, grad: Any, meta: TensorMeta) -> Any:
        """Return `grad` summed to the shape and converted to the dtype in `meta`, the metadata of the input."""
        return self.cast(self.sum_to(grad, meta[0]), meta[1])

    def zeros(self, meta: TensorMeta) -> Any:
        """Return zeros with the metadata `meta`, for a missing gradient."""
        shape, dtype, device = meta
        with device.backend.use_index(device.index):
            return device.backend.xp.zeros(shape, dtype.numpy)

    def widening(self, node: Any, grads: Any) -> Any:
        """Return a function that converts half-precision arrays to float32, or None if formulas need none."""
        op, F = node.op, self.F
        if node.metas is None or not op.computes_half_in_float or not F.upcasts:
            return None
        grad_list = grads if isinstance(grads, list) else [grads]
        dtype = dtypes.from_numpy(next(g for g in grad_list if g is not None).dtype)
        if dtype.is_complex:  # There are no complex halves: eigenvalues of half-precision matrices are complex64.
            return partial(_upcast, F) if any(meta and meta[1].is_reduced for meta in node.metas) else None
        if not dtype.is_reduced:
            return None
        return None if F.computes_half_in_float(op.name, grad_list, True) else partial(_upcast, F)

    def evaluate(self, op: Any, function: Any, grads: Any, values: list[Any]) -> Any:
        """Return the value of a formula. For complex differentials, `grads` and the result are conjugated."""
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
    """Arithmetic on gradients that are tensors, for a backward that is recorded or carries tangents, see `RawGrads`."""

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

    Some formulas read sums that overflow in half precision.
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
    known_dtype = dtypes.FROM_NUMPY.get(dtype)
    return F.astype(value, dtypes.float32.numpy) if known_dtype is not None and known_dtype.is_reduced else value


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


def copy_if_shared(t: AnyTensor) -> Any:
    """Return a gradient (a tensor or None), copied if it is read-only or if elements share memory, for hooks."""
    if t is None or not t._strided:
        return t
    writable = getattr(getattr(t._array, "flags", None), "writeable", True)
    return t if writable and not repeats(t._array) else functional.clone(t, memory_format="contiguous")


# -- sums -------------------------------------------------------------------------------------------------------------


class PerDevice(dict[Any, Any]):
    """The partial sums of one gradient, by the device on which the summands were computed."""


#: Arithmetic by device, for devices without batch levels. These exist as long as the process.
_UNBATCHED: dict[int, RawGrads] = {}


class InputBuffer:
    """The pending gradients of one backward call by node, and the heap that orders the nodes.

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
        #: The arithmetic of each device in use, by the identity of the device.
        self.known: dict[int, RawGrads] = {} if batches else _UNBATCHED
        #: The gradient of each pending node, or a list of gradients for a node with several outputs.
        self.pending: dict[Node, Any] = {}
        #: Nodes whose pending gradient is an array that the engine allocated and may modify in place.
        self.owned: set[Node] = set()
        #: Nodes that need `run_node`, because their gradients are captured or lie on several devices.
        self.special: set[Node] = set()
        #: The pending nodes with their negative creation numbers, so that the youngest node comes first.
        self.heap: list[tuple[int, Node]] = []
        #: The number of gradients missing for each leaf, if they are counted, and the number of complete leaves.
        self.expected: dict[Node, int] | None = None
        self.complete = 0
        #: Whether the gradient of a leaf may be a sparse tensor although backward is not recorded.
        self.sparse = False

    def arithmetic(self, device: Any) -> RawGrads | TensorGrads:
        """Return the arithmetic for gradients of nodes on `device`, batched over the levels of this backward."""
        if self.recorded:
            return TENSOR_GRADS
        result = self.known.get(id(device))
        if result is None or result.F is not result.device.backend:  # as while a program is recorded
            result = RawGrads(device, self.batches)
            if self.batches or not device.levels:
                self.known[id(device)] = result
        return result

    def add(self, node: Node, number: int, grad: Any, device: Any, own: bool = False) -> None:
        """Add `grad`, which was computed on `device`, to the pending gradient of output `number` of `node`.

        `own` says whether there is no other reference to `grad`, so that a leaf may keep it without a copy.
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
        """Return ``total + grad``, computed in place only if `node` is in `owned`."""
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
            return self.run(*_plan_threaded_sum(total, grad, device, True) or (iadd, total, grad))
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
        result = self.run(*_plan_threaded_sum(total, grad, device, False) or (add, total, grad))
        return result if result.__class__ is total.__class__ else self.arithmetic(node._device).as_array(result)

    def plus_tensors(self, total: Any, grad: Any, node: Node) -> Any:
        """Return the sum as `plus` does, for tensors in a recorded backward and for sparse gradients."""
        arithmetic = self.arithmetic(node._device)
        a, b = arithmetic.as_tensor(total), arithmetic.as_tensor(grad)
        if a._strided and b._strided:
            _check_same_shape(a._array, b._array, node)
        return arithmetic.from_tensor(sum_of_tensors(a, b))

    def add_part(self, node: Any, grad: Any) -> bool:
        """Add the gradient of a view directly to the matching part of the base's pending gradient, if that is owned.

        Return whether this was done. It makes the backward of a loop over ``x[i]`` linear in the size of `x` instead of
        quadratic.
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
        """Return the gradient (or list of gradients) of a node on `device`, with partial sums moved there and added."""
        if type(grad) is list:
            return [self.gather_on_device(g, device) for g in grad] if PerDevice in map(type, grad) else grad
        if type(grad) is not PerDevice:
            return grad
        total, arithmetic = None, self.arithmetic(device)
        for source, part in grad.items():
            if part is None:
                continue
            if source is not device:
                part = arithmetic.from_tensor(functional.to(self.arithmetic(source).as_tensor(part), device))
            total = part if total is None else total + part
        return total

    # -- leaves ---------------------------------------------------------------------------------------------------

    def expect_leaves(self, needed: set[Node] | None = None) -> None:
        """Count the gradients that each leaf will receive, so that it can run immediately after the last of them.

        Parameters
        ----------
        needed : set of Node, optional
            The nodes that run; all if None.
        """
        counts = self.expected = count_leaves(self.pending, needed)
        entries = [entry for entry in self.heap if not entry[1].is_accumulator]
        if len(entries) < len(self.heap):
            # Some roots are leaves.
            leaves = [node for _, node in sorted(self.heap, reverse=True) if node.is_accumulator]
            self.heap[:] = entries
            heapify(self.heap)
            for leaf in leaves:
                counts[leaf] = counts.get(leaf, 0) + 1
                self.count_arrival(leaf)

    def count_arrival(self, leaf: Node) -> None:
        """Count one gradient received by a leaf. After the last one, push the leaf to the front of the heap."""
        counts: Any = self.expected
        counts[leaf] -= 1
        if not counts[leaf]:
            self.complete += 1
            heappush(self.heap, (self.complete - _FIRST, leaf))


#: Larger than every creation number, so that complete leaves come before all other nodes in the heap.
_FIRST = 1 << 62


#: The classes of 0-dim gradients that are NumPy scalars. They get a short path, as their attributes are slow to read.
_NUMBERS = frozenset(each.numpy.type for each in (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128))


def _plan_threaded_sum(total: Any, grad: Any, device: Any, in_place: bool) -> tuple[Any, ...] | None:
    """Return ``(kernel, *args)`` for the threaded addition of large arrays on the CPU, or None for other arrays."""
    if device.type != "cpu" or total.__class__ is not device.backend.array_type or total.size < _LARGE:
        return None
    kernel = device.kernels["add"]
    if not hasattr(kernel, "nout"):  # as while a program is recorded
        return None
    return (partial(kernel, out=total) if in_place else kernel, total, grad)


def _plus_apart(total: Any, grad: Any, device: Any, node: Node) -> Any:
    """Return the partial sums per device after adding `grad`, which was computed on another device than `node`'s."""
    if type(total) is not PerDevice:
        total = PerDevice({} if total is None else {node._device: total})
    part = total.get(device)
    total[device] = grad if part is None else part + grad
    return total


def _check_same_shape(total: Any, grad: Any, node: Node) -> None:
    """Raise if two gradients of a node differ in shape, as for a leaf that was reshaped in place between two uses."""
    if total.shape != grad.shape:
        raise RuntimeError(
            f"{node.name()} received gradients of the shapes {list(total.shape)} and {list(grad.shape)}: the tensor "
            "was reshaped in place, without being recorded, between its uses"
        )


def count_leaves(nodes: Iterable[Node], needed: set[Node] | None = None) -> dict[Node, int]:
    """Return the number of edges to each leaf from nodes reachable from `nodes`, restricted to `needed` if not None."""
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
    """Return whether `total` is batched over every ``vmap`` level over which `grad` is batched."""
    return set(levels_of(grad)) <= set(levels_of(total))
