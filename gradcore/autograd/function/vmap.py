"""Calls of custom operations inside `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore.autograd.batch_dims import add_batch_dim, broadcast_to_batch, remove_batch_dim
from gradcore.autograd.variables import Variable, wrap
from gradcore.autograd.views import all_tangents, requires_grad
from gradcore.backends.vmap import BatchedArray, batched_device, unbatched_device
from gradcore.core.typing import NamedTuple

__all__ = ["VmapInfo", "batched_call", "broadcast_to_batches"]


class VmapInfo(NamedTuple):
    """Description of the batch, passed to the `vmap` method of a custom function.

    Attributes
    ----------
    batch_size : int
        The number of samples.
    randomness : str
        Whether random numbers are an error, or differ between samples: ``"error"``, ``"different"`` or ``"same"``.
    """

    batch_size: int
    randomness: str


def batched_call(cls: Any, args: tuple[Any, ...], has_rule: bool) -> Callable[[], Any] | None:
    """Return a function that calls the batching rule of `cls`, or None if `forward` can run on batches unchanged.

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
        If the class has neither a `vmap` method nor `generate_vmap_rule`, or both.
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
    # A level at which all samples share every argument is no batch for the rule.
    level = max(levels, key=lambda level: (_has_samples(args, level), level.order))
    return lambda: _by_rule(cls, args, level)


def _levels(args: Any) -> set[Any]:
    """Return the set of batch levels of all tensors in `args`, which may be nested in containers."""
    result = set()
    for a in args:
        if isinstance(a, Variable):
            result.update(a._device.levels)
        elif a.__class__ in _CONTAINERS:
            result |= _levels(a.values() if a.__class__ is dict else a)
    return result


_CONTAINERS = (tuple, list, dict)


def _by_rule(cls: Any, args: tuple[Any, ...], level: Any) -> Any:
    values, dims = _outside(args, level)
    if not _has_samples(args, level):
        return cls.apply(*values)
    result = cls.vmap(VmapInfo(level.size, level.randomness), dims, *values)
    if not isinstance(result, tuple) or len(result) != 2:
        description = f"{len(result)} returns" if isinstance(result, tuple) else f"a {type(result)}"
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure "
            f"compatible with the output. Got {description} instead"
        )
    try:
        return _inside(*result, level)
    except _StructuresDifferError:
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
            f"out_dims={result[1]} to be compatible with the structure of `output`: {type(result[0])}"
        ) from None


def _outside(a: Any, level: Any) -> tuple[Any, Any]:
    """Return ``(value, dim)``: `a` without batch `level`, and the dim of its samples. Containers give containers."""
    kind = a.__class__
    if kind is dict:
        pairs = {key: _outside(value, level) for key, value in a.items()}
        return {key: pair[0] for key, pair in pairs.items()}, {key: pair[1] for key, pair in pairs.items()}
    if kind in _CONTAINERS:
        results = [_outside(value, level) for value in a]
        return kind([value for value, _ in results]), kind([dim for _, dim in results])
    return (remove_batch_dim(a, level, 0), 0) if _has_samples(a, level) else (_leave_batch(a, level), None)


class _StructuresDifferError(Exception):
    """Raised if the structure of ``out_dims`` does not match that of the results."""


def _inside(out: Any, dim: Any, level: Any) -> Any:
    """Return a result batched over `level`; `dim` has the sample dim of each tensor, or one for a whole container."""
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
    """Return whether a tensor in `a`, or one of its derivatives, may differ between the samples of `level`."""
    if a.__class__ in _CONTAINERS:
        return any(_has_samples(value, level) for value in (a.values() if a.__class__ is dict else a))
    if not isinstance(a, Variable) or level not in a._device.levels:
        return False
    varies = a._array.__class__ is BatchedArray and a._array.level is level
    return varies or requires_grad(a) or bool(all_tangents(a))


def _leave_batch(a: Any, level: Any) -> Any:
    """Return `a`, which all samples share, as a value outside of the batch `level`."""
    if not isinstance(a, Variable) or level not in a._device.levels:
        return a
    return wrap(a._array, unbatched_device(a._device, level), a._dtype)


def broadcast_to_batches(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with every tensor broadcast to all batches in which any of them is."""
    levels = tuple({level for a in args if isinstance(a, Variable) for level in a._device.levels})
    if not levels:
        return args
    return tuple(
        [broadcast_to_batch(a, batched_device(levels, a._device)) if isinstance(a, Variable) else a for a in args]
    )
