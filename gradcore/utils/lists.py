"""Lists of tensors for kernels that treat all of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradcore import dtypes, functional
from gradcore.autograd.grad_mode import no_grad
from gradcore.autograd.variables import bump_all
from gradcore.tensor import Tensor

__all__ = ["changed_together", "divide", "lists_by_device", "multiplied", "reciprocal"]


def lists_by_device(tensors: Iterable[Tensor]) -> tuple[dict[Any, list[Tensor]], list[Tensor]]:
    """The tensors by their devices, and those of subclasses, whose operations are their own."""
    lists: dict[Any, list[Tensor]] = {}
    others = []
    for t in tensors:
        if t.__class__ is Tensor:
            lists.setdefault(t.device, []).append(t)
        else:
            others.append(t)
    return lists, others


def changed_together(kernel: str, device: Any, tensors: list[Tensor], *args: Any) -> list[Tensor]:
    """Let a kernel of lists change tensors of one device in place; the tensors that it left as they were."""
    places = device.kernels[kernel]([t._array for t in tensors], *args)
    left = set(places)
    bump_all(t for place, t in enumerate(tensors) if place not in left)
    return [tensors[place] for place in places]


@no_grad()
def multiplied(grads: list[Tensor], factor: Tensor | None) -> dict[Any, Tensor]:
    """Multiply gradients by a factor, if any, in place; per device 1 where one was infinite or nan, else 0."""
    devices = dict.fromkeys(grad.device for grad in grads)
    found = {device: functional.zeros((), dtype=dtypes.float32, device=device) for device in devices}
    factors: dict[Any, Any] = {device: None if factor is None else factor.to(device) for device in devices}
    lists, left = lists_by_device(grads)
    for device, own in lists.items():
        times = None if factor is None else factors[device]._array
        left += changed_together("unscale_list", device, own, times, found[device]._array)
    for grad in left:
        device = grad.device
        bad = functional.logical_not(functional.all(functional.isfinite(grad)))
        found[device] = functional.maximum(found[device], bad.float())
        if factor is not None:
            grad.mul_(factors[device])
    return found


@no_grad()
def reciprocal(scale: Tensor) -> Tensor:
    """What divides by a scale: rounded once."""
    factor: Tensor = functional.reciprocal(scale.double()).float()
    return factor


def divide(grads: Iterable[Tensor | None], scale: Tensor) -> None:
    """Divide gradients by a scale, in place."""
    multiplied([grad for grad in grads if grad is not None], reciprocal(scale))
