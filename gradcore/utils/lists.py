"""Lists of tensors for kernels that treat all of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradcore.autograd.variables import bump_all
from gradcore.tensor import Tensor

__all__ = ["changed_together", "lists_by_device"]


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
