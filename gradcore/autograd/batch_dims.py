"""Linear maps that add and remove vmap's batch dims of tensors, differentiable in reverse and forward mode.

A tensor inside ``vmap`` lies on a `BatchedDevice` and has the shape of one sample. Its batch dim is hidden. The maps:

- `add_batch_dim` hides a dim of a tensor as its batch dim;
- `remove_batch_dim` turns the batch dim into an ordinary dim;
- `broadcast_to_batch` moves a tensor that all samples share to the device of the batch. Its adjoint sums over the
  samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gradcore.autograd import anomaly_mode, forward
from gradcore.autograd.modes import ANOMALY, DUAL, GRAD, local
from gradcore.autograd.node import Node
from gradcore.autograd.variables import version_counter, wrap
from gradcore.autograd.views import gradient_edge
from gradcore.backends.vmap import VmapLevel, batched_device, unbatched_device, unwrap_batch, wrap_batch
from gradcore.backends.vmap.array import BatchedArray, levels_of
from gradcore.core.errors import raise_if_out_of_memory
from gradcore.core.typing import AnyTensor

__all__ = [
    "BatchBackward0",
    "add_batch_dim",
    "basis",
    "batch_scope",
    "broadcast_to_batch",
    "map_samples",
    "remove_batch_dim",
    "repeat_per_sample",
    "take_common_sample",
]

Array = Any
Map = Callable[[Array], Array]


class BatchBackward0(Node):
    """Node of a map that adds or removes batch dims. Its backward is the adjoint map."""

    __slots__ = ("_input_devices", "adjoint", "forward")

    _input_devices: Any
    forward: Map
    adjoint: Map

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> Any:
        if grads is None:
            return [None]
        if not arithmetic.recorded:
            return [self.adjoint(grads)]
        adjoint, forward = self.adjoint, self.forward
        # Inside the `vmap` of a level, gradients are those of single samples, and stay in the batch.
        levels = adjoint.levels if isinstance(adjoint, _SampleMap) else ()
        inside = tuple(level for level in levels if level in local.state.batches)
        grads = broadcast_to_batch(grads, batched_device((*self._device.levels, *inside), grads._device))
        if inside:
            adjoint, forward = adjoint.remove_levels(inside), forward.remove_levels(inside)  # type: ignore[attr-defined]
        extra = tuple(level for level in grads._device.levels if level in inside or level not in self._device.levels)
        return [_apply_map(grads, batched_device(extra, self._input_devices[0]), adjoint, forward)]


BatchBackward0.__module__ = "builtins"


def _apply_map(t: AnyTensor, device: Any, map: Map, adjoint: Map) -> Any:
    """Apply the linear `map` of raw arrays to `t`, and record it with its `adjoint`; return a tensor on `device`.

    The device of the result is `device`, extended by the batch levels over which its array is still batched.
    """
    state = local.state
    dual = _map_dual(t, lambda part: _apply_map(part, device, map, adjoint))
    if dual is not None:
        return dual
    array = map(t._array)
    device = batched_device(tuple(levels_of(array)), device)
    out = wrap(array, device, t._dtype)
    if state.mode & GRAD and t._dtype.is_differentiable:
        edge = gradient_edge(t)
        if edge is not None:
            node = BatchBackward0.make(device, (edge,), out)
            node._input_devices, node.forward, node.adjoint = (t._device,), map, adjoint
            if state.mode & ANOMALY:
                anomaly_mode.note(node)
            out._edge = (node, 0)
    return out


def _map_dual(t: AnyTensor, function: Callable[[Any], Any]) -> Any:
    """Return `function`, which is linear, of a dual tensor: a dual of its values for primal and tangent.

    Return None if `t` is no dual. Primal and tangent may be in different batches, so `function` is called for each.
    """
    state = local.state
    if state.mode & DUAL:
        level = next((lv for lv in reversed(state.levels) if forward.tangent_of(t, lv) is not None), None)
        if level is not None:
            out = function(forward.primal(t, level))
            return forward.attach(out, level, function(forward.tangent_of(t, level)))
    return None


def add_batch_dim(t: AnyTensor, level: Any, dim: int) -> Any:
    """Return `t` with `dim` hidden as the batch dim of `level`; the result shares memory with `t`."""
    device = batched_device((level,), t._device)
    out = _apply_map(t, device, lambda a: wrap_batch(a, level, dim), lambda a: unwrap_batch(a, level, dim))
    out._vc = version_counter(t)
    return out


def remove_batch_dim(t: AnyTensor, level: Any, dim: int) -> Any:
    """Return `t` with its batch dim of `level` as an ordinary `dim`. If all samples share `t`, it is expanded."""
    t = broadcast_to_batch(t, batched_device((level,), t._device))
    return _apply_map(
        t,
        unbatched_device(t._device, level),
        lambda a: unwrap_batch(a, level, dim),
        lambda a: wrap_batch(a, level, dim),
    )


def broadcast_to_batch(t: AnyTensor, device: Any) -> Any:
    """Return `t`, which all samples share, as a tensor on the batched device `device`."""
    levels = tuple(level for level in device.levels if level not in t._device.levels)
    if not levels:
        return t
    dual = _map_dual(t, lambda part: broadcast_to_batch(part, device))
    if dual is not None:
        dual._vc = version_counter(t)
        return dual
    out = _apply_map(t, batched_device(levels, t._device), _SampleMap(levels), _SampleSum(levels))
    out._vc = version_counter(t)
    return out


def repeat_per_sample(t: AnyTensor, device: Any) -> Any:
    """Return `t` as a tensor on the batched device `device`, with separate memory for every sample."""
    return wrap(device.backend.xp.zeros(t._array.shape, t._array.dtype), device, t._dtype) + t


def has_batches_of(t: AnyTensor, other: Any) -> bool:
    """Return whether `t` is batched over every level of `other`."""
    return set(other._device.levels) <= set(t._device.levels)


@contextmanager
def batch_scope(level: VmapLevel) -> Iterator[None]:
    """Make `level` the innermost batch level inside the ``with`` block."""
    state = local.state
    before, state.batches = state.batches, (*state.batches, level)
    try:
        yield
    finally:
        state.batches = before


def map_samples(
    func: Callable[..., Iterable[Any]], inputs: Sequence[Any], size: int, randomness: str = "same"
) -> list[Any]:
    """Map `func` over the samples of its inputs, by one call for all samples as in `vmap`.

    Parameters
    ----------
    func : callable
        Takes one sample of each input, and returns tensors or None.
    inputs : sequence of Tensor or None
        The samples, along the first dim.
    size : int
        The number of samples.
    randomness : {"same", "different", "error"}
        Whether the samples share random numbers, have different ones, or drawing them is an error.

    Returns
    -------
    list of Tensor or None
        The results of `func`, with the samples along the first dim.
    """
    level = VmapLevel(size, randomness)
    with batch_scope(level):
        results = func(*[None if t is None else add_batch_dim(t, level, 0) for t in inputs])
        return [None if r is None else remove_batch_dim(r, level, 0) for r in results]


def basis(like: AnyTensor, start: int, stop: int) -> Any:
    """Return the unit tensors with the shape of `like` for the elements from `start` to `stop`, stacked along dim 0."""
    device = like._device.real
    with device.backend.use_index(device.index):
        xp = device.backend.xp
        try:
            flat = xp.zeros((stop - start, like._array.size), like._array.dtype)
            flat[xp.arange(stop - start), xp.arange(start, stop)] = 1
        except MemoryError as error:
            raise_if_out_of_memory(error, "jacobian")
            raise
    return wrap(flat.reshape(stop - start, *like._array.shape), device, like._dtype)


def take_common_sample(t: AnyTensor, device: Any) -> Any:
    """Return a batched tensor whose samples share memory as an ordinary tensor on `device`.

    The result is recorded as the mean of the samples, so its gradient is divided among them. A tensor whose samples
    differ stays in the batch.
    """
    separate = tuple(levels_of(t._array))
    levels = tuple(level for level in t._device.levels if level not in device.levels and level not in separate)
    if not levels:
        return t
    dual = _map_dual(t, lambda part: take_common_sample(part, device))
    if dual is not None:
        return dual
    remaining = tuple(level for level in t._device.levels if level not in levels)
    return _apply_map(t, batched_device(remaining, t._device.real), _SampleMean(levels), _SampleShare(levels))


class _SampleMap:
    """A linear map of raw arrays over the samples of `levels`, by default the identity. Active levels are left out."""

    __slots__ = ("levels",)

    def __init__(self, levels: tuple[Any, ...]) -> None:
        self.levels = levels

    def __call__(self, a: Any) -> Any:
        active = local.state.batches
        for level in reversed(self.levels):
            if level not in active:
                a = self.at(a, level)
        return a

    def at(self, a: Any, level: Any) -> Any:
        """Return the map of `a` over the samples of one level."""
        return a

    def remove_levels(self, levels: tuple[Any, ...]) -> _SampleMap:
        """Return the same map without `levels`."""
        return type(self)(tuple(level for level in self.levels if level not in levels))


class _SampleSum(_SampleMap):
    """The sum over samples: the adjoint of broadcasting to them."""

    __slots__ = ()

    def at(self, a: Any, level: Any) -> Any:
        return _sum_over(a, level)


class _SampleMean(_SampleMap):
    """The mean of samples."""

    __slots__ = ()

    def at(self, a: Any, level: Any) -> Any:
        return _sum_over(a, level) / level.size if level in levels_of(a) else a


class _SampleShare(_SampleMap):
    """The share of each sample in a gradient: the adjoint of the mean."""

    __slots__ = ()

    def at(self, a: Any, level: Any) -> Any:
        return a / level.size


def _sum_over(a: Any, level: Any) -> Any:
    if a.__class__ is BatchedArray and a.level is level:
        return a.array.sum(0)
    if a.__class__ is BatchedArray and a.level.order > level.order:
        inner = a.array
        # The dim to sum lies one level further in.
        return BatchedArray(_sum_over(inner, level), a.level)
    return a * level.size
