"""Conversion of the arguments of calls by autocasting."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from gradcore import functional
from gradcore.autograd.modes import AUTOCAST, GRAD, State, local
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.dispatch.interception import Run
from gradcore.ops.declare.table import Op
from gradcore.tensor import Tensor

__all__ = ["LOWER_PRECISION", "Casting", "casting", "policy_of"]


#: The types of devices that have autocasting, with their lower precision by default.
LOWER_PRECISION = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}


@functools.cache
def _parse_policies(policies: str) -> dict[str, str]:
    """Return the policies by type of device, given ``"lower:cpu float32:cuda"``. A policy without a type is for all."""
    results: dict[str, str] = {}
    for word in policies.split():
        policy, _, device_type = word.partition(":")
        results.update(dict.fromkeys((device_type,) if device_type else LOWER_PRECISION, policy))
    return results


def policy_of(op: Op, args: tuple[Any, ...], device_type: str) -> str | None:
    """Return the autocast policy that an operation declares for a call on a type of device (see `Op.autocast`)."""
    policies = op.autocast if isinstance(op.autocast, str) else op.autocast(*args)
    return _parse_policies(policies).get(device_type)


class Casting:
    """Autocast state of a thread: the types of device for which it is on, and their dtypes."""

    def __init__(self) -> None:
        self.enabled = dict.fromkeys(LOWER_PRECISION, False)
        self.dtypes = dict(LOWER_PRECISION)
        self.cache_enabled = True
        #: Parameters in the lower precision, so that each is converted once: by identity, dtype, and whether operations
        #: are recorded; with the parameter and the version that was converted.
        self.cache: dict[Any, tuple[Any, int, Any]] = {}
        #: The settings from before each of the active contexts. The cache is cleared when the last context ends.
        self.before: tuple[tuple[bool, dtypes.dtype, bool], ...] = ()

    def switch(self, device_type: str, on: bool) -> None:
        """Switch autocasting on or off for a type of device, and update the mode of the thread."""
        self.enabled[device_type] = on
        state = local.state
        state.mode = state.mode | AUTOCAST if any(self.enabled.values()) else state.mode & ~AUTOCAST

    def call(self, op: Op, args: tuple[Any, ...], run: Run, state: State) -> Any:
        """Run a call with its arguments in the precision that the operation declares."""
        if not op.autocast:
            return run(op, args, state)
        device_type = _device_type(args)
        policy = policy_of(op, args, device_type) if self.enabled.get(device_type) else None
        position = op.position.get("dtype")
        if policy is None or (position is not None and args[position] is not None):
            return run(op, args, state)
        if policy == "refused":
            raise RuntimeError(_REFUSAL)
        lower = self.dtypes[device_type]
        target = (
            lower if policy == "lower" else dtypes.float32 if policy == "float32" else _widest(args, device_type, lower)
        )
        state.mode &= ~AUTOCAST
        try:
            return run(op, tuple([self.cast(value, device_type, target) for value in args]), state)
        finally:
            state.mode |= AUTOCAST

    def cast(self, value: Any, device_type: str, target: dtypes.dtype) -> Any:
        """Return an argument in another precision, with the tensors in it converted."""
        if value.__class__ in (list, tuple) and any(isinstance(t, Tensor) for t in value):
            return type(value)(self.cast(t, device_type, target) for t in value)
        if not _eligible(value, device_type) or value._dtype is target:
            return value
        if not self.cache_enabled or not _is_parameter(value) or target is not self.dtypes[device_type]:
            return functional.to(value, target)
        key = id(value), target, local.state.mode & GRAD
        version = 0 if value._vc is None else value._vc.version
        cached = self.cache.get(key)
        if cached is None or cached[1] != version:
            cached = self.cache[key] = value, version, functional.to(value, target)
        return cached[2]


_REFUSAL = """\
torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.
Many models use a sigmoid layer right before the binary cross entropy layer.
In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits
or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are
safe to autocast."""


def _tensors(args: tuple[Any, ...]) -> Iterator[Any]:
    for value in args:
        if isinstance(value, Tensor):
            yield value
        elif value.__class__ in (list, tuple):
            yield from (t for t in value if isinstance(t, Tensor))


def _device_type(args: tuple[Any, ...]) -> str:
    types = [t._device.type for t in _tensors(args)]
    return next((each for each in types if each != "cpu"), "cpu")


def _eligible(value: Any, device_type: str) -> bool:
    """Return whether autocasting converts a value: a floating-point tensor that is not in double precision."""
    if not isinstance(value, Tensor) or value._device.type != device_type:
        return False
    return value._dtype.is_floating_point and value._dtype is not dtypes.float64


def _is_parameter(t: AnyTensor) -> bool:
    leaf = t._edge is None and t._autograd is not None and t._autograd.base is None
    return leaf and t._dtype is dtypes.float32 and t._autograd.requires_grad


def _widest(args: tuple[Any, ...], device_type: str, lower: dtypes.dtype) -> dtypes.dtype:
    results = {t._dtype for t in _tensors(args) if _eligible(t, device_type)}
    if not results <= {lower, dtypes.float32}:
        raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return dtypes.float32 if dtypes.float32 in results else lower


def casting() -> Casting:
    """Return the autocast state of this thread."""
    state = local.state
    if state.autocast is None:
        state.autocast = Casting()
    return state.autocast  # type: ignore[no-any-return]
