"""Calls of custom operations inside `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gradcore.autograd.batch_dims import add_batch_dim, broadcast_to_batch, remove_batch_dim
from gradcore.autograd.variables import Variable, wrap
from gradcore.autograd.views import all_tangents, requires_grad
from gradcore.backends.vmap import BatchedArray, batched_device, unbatched_device

__all__ = ["VmapInfo", "batched_call", "broadcast_to_batches"]


class VmapInfo(NamedTuple):
    """Description of the batch for a custom operation's `vmap`.

    Attributes
    ----------
    batch_size : int
        The number of samples.
    randomness : str
        What random numbers are to them: ``"error"``, ``"different"`` or ``"same"``.
    """

    batch_size: int
    randomness: str


def batched_call(cls: Any, args: tuple[Any, ...], has_rule: bool) -> Callable[[], Any] | None:
    """Return the call of a custom operation's own batching rule, or None where the operation runs as it is.

    Parameters
    ----------
    cls : subclass of Function
    args : tuple
        The arguments of ``apply``.
    has_rule : bool
        Whether the class has a `vmap` of its own.

    Raises
    ------
    RuntimeError
        If the class says nothing of batches, or two things.
    """
    levels = _levels(args)
    if not levels:
        return None
    if has_rule and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap "
            "staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid "
            "ambiguity."
        )
    if cls.generate_vmap_rule:
        return None
    if not has_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement "
            "the vmap staticmethod or set generate_vmap_rule=True."
        )
    level = max(levels, key=lambda level: level.order)
    return lambda: _by_rule(cls, args, level)


def _levels(args: Any) -> set[Any]:
    """Return the batches that tensors among some values, or in containers among them, are in."""
    result = set()
    for a in args:
        if isinstance(a, Variable):
            result.update(a._device.levels)
        elif a.__class__ in _CONTAINERS:
            result |= _levels(a.values() if a.__class__ is dict else a)
    return result


_CONTAINERS = (tuple, list, dict)


def _by_rule(cls: Any, args: tuple[Any, ...], level: Any) -> Any:
    whole, dims = _outside(args, level)
    found = cls.vmap(VmapInfo(level.size, level.randomness), dims, *whole)
    if not isinstance(found, tuple) or len(found) != 2:
        got = f"{len(found)} returns" if isinstance(found, tuple) else f"a {type(found)}"
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure "
            f"compatible with the output. Got {got} instead"
        )
    try:
        return _inside(*found, level)
    except _StructuresDifferError:
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
            f"out_dims={found[1]} to be compatible with the structure of `output`: {type(found[0])}"
        ) from None


def _outside(a: Any, level: Any) -> tuple[Any, Any]:
    """Return an argument without its batch `level`, and the dim of the samples in it; for a container, containers."""
    kind = a.__class__
    if kind is dict:
        pairs = {key: _outside(value, level) for key, value in a.items()}
        return {key: pair[0] for key, pair in pairs.items()}, {key: pair[1] for key, pair in pairs.items()}
    if kind in _CONTAINERS:
        found = [_outside(value, level) for value in a]
        return kind([value for value, _ in found]), kind([dim for _, dim in found])
    return (remove_batch_dim(a, level, 0), 0) if _has_samples(a, level) else (_leave_batch(a, level), None)


class _StructuresDifferError(Exception):
    """There is no dim for each result."""


def _inside(out: Any, dim: Any, level: Any) -> Any:
    """Return a result as samples; `dim` is where they lie, for all that is in a container or for each."""
    kind = out.__class__
    if kind not in _CONTAINERS:
        if dim.__class__ in _CONTAINERS:
            raise _StructuresDifferError
        return out if dim is None or not isinstance(out, Variable) else add_batch_dim(out, level, dim % out._array.ndim)
    if dim.__class__ not in _CONTAINERS:
        dim = dict.fromkeys(out, dim) if kind is dict else kind([dim]) * len(out)
    if dim.__class__ is not kind or len(dim) != len(out):
        raise _StructuresDifferError
    if kind is dict:
        return {key: _inside(value, dim[key], level) for key, value in out.items()}
    return kind([_inside(value, d, level) for value, d in zip(out, dim, strict=True)])


def _has_samples(a: Any, level: Any) -> bool:
    """Return whether an argument, or what is its derivative, may differ between the samples of the latest level."""
    if not isinstance(a, Variable) or level not in a._device.levels:
        return False
    varies = a._array.__class__ is BatchedArray and a._array.level is level
    return varies or requires_grad(a) or bool(all_tangents(a))


def _leave_batch(a: Any, level: Any) -> Any:
    """Return `a`, which is the same for all samples, outside of the batch `level`."""
    if not isinstance(a, Variable) or level not in a._device.levels:
        return a
    return wrap(a._array, unbatched_device(a._device, level), a._dtype)


def broadcast_to_batches(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with every tensor in all batches that any of them is in."""
    levels = tuple({level for a in args if isinstance(a, Variable) for level in a._device.levels})
    if not levels:
        return args
    return tuple(
        [broadcast_to_batch(a, batched_device(levels, a._device)) if isinstance(a, Variable) else a for a in args]
    )
