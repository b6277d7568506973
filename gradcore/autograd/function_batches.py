"""Calls of custom operations inside `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gradcore.autograd.batching import enter, leave, lift
from gradcore.autograd.nodes import requires_grad
from gradcore.autograd.variables import Variable, wrap
from gradcore.backends.batching import Batched, over, under

__all__ = ["VmapInfo", "batched_call", "lifted"]


class VmapInfo(NamedTuple):
    """What a custom operation's `vmap` learns of the batch.

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
    """How to call a custom operation with batched tensors by its own rule; None where it runs as it is.

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
    levels = {level for a in args if isinstance(a, Variable) for level in a._device.levels}
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


def _by_rule(cls: Any, args: tuple[Any, ...], level: Any) -> Any:
    dims = tuple([0 if _has_samples(a, level) else None for a in args])
    whole = [_shared(a, level) if d is None else leave(a, level, 0) for a, d in zip(args, dims, strict=True)]
    found = cls.vmap(VmapInfo(level.size, level.randomness), dims, *whole)
    if not isinstance(found, tuple) or len(found) != 2:
        raise RuntimeError(
            f"{cls.__name__}.vmap: expected to return two outputs: the output and its out_dims, but got {type(found)}"
        )
    outputs, places = found
    if not isinstance(outputs, tuple):
        return _entered(outputs, places, level)
    places = places if isinstance(places, (tuple, list)) else (places,) * len(outputs)
    return tuple([_entered(out, place, level) for out, place in zip(outputs, places, strict=True)])


def _has_samples(a: Any, level: Any) -> bool:
    """Whether an argument, or what is its derivative, may differ between the samples of the latest level."""
    if not isinstance(a, Variable) or level not in a._device.levels:
        return False
    varies = a._array.__class__ is Batched and a._array.level is level
    return varies or requires_grad(a) or (a._meta is not None and bool(a._meta.tangents))


def _shared(a: Any, level: Any) -> Any:
    """An argument that is the same for all samples, outside of their batch."""
    if not isinstance(a, Variable) or level not in a._device.levels:
        return a
    return wrap(a._array, under(a._device, level), a._dtype)


def _entered(out: Any, place: int | None, level: Any) -> Any:
    return out if place is None or not isinstance(out, Variable) else enter(out, level, place % out._array.ndim)


def lifted(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments with all tensors in the batches that any of them is in."""
    levels = tuple({level for a in args if isinstance(a, Variable) for level in a._device.levels})
    if not levels:
        return args
    return tuple([lift(a, over(levels, a._device)) if isinstance(a, Variable) else a for a in args])
