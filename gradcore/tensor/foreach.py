"""Operations on lists of tensors, which run as one kernel per device where the backend has one."""

from __future__ import annotations

from collections.abc import Iterable

from gradcore import functional
from gradcore.autograd.grad_mode import no_grad
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.variables import bump_all, wrap
from gradcore.backends.portable.optimizers import Batch
from gradcore.core import dtypes
from gradcore.core.typing import AnyArray, Device
from gradcore.tensor import Tensor

__all__ = ["Batch", "clamp_", "clip_", "divide_", "move_statistics_", "norms", "reciprocal", "unscale_"]


def _group_by_device(tensors: Iterable[Tensor]) -> tuple[dict[Device, list[Tensor]], list[Tensor]]:
    """Return the plain tensors grouped by device, and a list of the tensors that belong to subclasses."""
    lists: dict[Device, list[Tensor]] = {}
    overriding = []
    for t in tensors:
        if t.__class__ is Tensor:
            lists.setdefault(t.device, []).append(t)
        else:
            overriding.append(t)
    return lists, overriding


def _apply_in_place(kernel: str, device: Device, tensors: list[Tensor], *args: AnyArray | float) -> list[Tensor]:
    """Change the tensors of one device by a kernel of lists, and return the tensors it does not take."""
    positions = device.kernels[kernel]([t._array for t in tensors], *args)
    left = set(positions)
    bump_all(t for i, t in enumerate(tensors) if i not in left)
    return [tensors[i] for i in positions]


def norms(tensors: Iterable[Tensor], order: float) -> dict[Device, list[Tensor]]:
    """Return partial norms, as lists by device. The norm of all partial norms is the total norm of `tensors`."""
    lists, remaining = _group_by_device(tensors)
    results: dict[Device, list[Tensor]] = {}
    for device, on_device in lists.items():
        device_norms, left = device.kernels["norm_list"]([t._array for t in on_device], order)
        if device_norms:
            results[device] = [wrap(norm, device) for norm in device_norms]
        remaining += [on_device[i] for i in left]
    for t in remaining:
        results.setdefault(t.device, []).append(functional.linalg_vector_norm(t, order))
    return results


def clip_(tensors: Iterable[Tensor], total_norm: Tensor, max_norm: float) -> None:
    """Scale tensors, whose total norm is `total_norm`, so that it becomes at most `max_norm`."""
    lists, left = _group_by_device(tensors)
    for device, on_device in lists.items():
        left += _apply_in_place("clip_list", device, on_device, total_norm.detach().to(device)._array, max_norm)
    if not left:
        return
    factor = functional.clamp(max_norm / (total_norm + 1e-6), max=1.0)
    factors = {total_norm.device: factor}
    for t in left:
        if t.device not in factors:
            factors[t.device] = factor.to(t.device)
        t.mul_(factors[t.device])


def clamp_(tensors: Iterable[Tensor], bound: float) -> None:
    """Clamp every element to ``[-bound, bound]``."""
    lists, left = _group_by_device(tensors)
    for device, on_device in lists.items():
        left += _apply_in_place("clamp_list", device, on_device, bound)
    for t in left:
        t.clamp_(min=-bound, max=bound)


@no_grad()
def unscale_(grads: list[Tensor], factor: Tensor | None) -> dict[Device, Tensor]:
    """Multiply gradients by `factor` if it is not None.

    Return, by device, 1 if a gradient was infinite or NaN, else 0.
    """
    devices = dict.fromkeys(grad.device for grad in grads)
    results = {device: functional.zeros((), dtype=dtypes.float32, device=device) for device in devices}
    factors = {device: None if factor is None else factor.to(device) for device in devices}
    lists, left = _group_by_device(grads)
    for device, on_device in lists.items():
        scale = factors[device]
        array = None if scale is None else scale._array
        left += _apply_in_place("unscale_list", device, on_device, array, results[device]._array)
    for grad in left:
        grad = grad if grad._strided else grad.stored  # type: ignore[attr-defined]  # of a sparse one its values
        device = grad.device
        has_infinite = functional.logical_not(functional.all(functional.isfinite(grad)))
        results[device] = functional.maximum(results[device], has_infinite.float())
        scale = factors[device]
        if scale is not None:
            grad.mul_(scale)
    return results


@no_grad()
def reciprocal(scale: Tensor) -> Tensor:
    """Return the reciprocal of `scale`, rounded once."""
    factor: Tensor = functional.reciprocal(scale.double()).float()
    return factor


def move_statistics_(
    running: tuple[Tensor | None, Tensor | None], new: tuple[Tensor, Tensor], keep: float, shares: tuple[float, float]
) -> bool:
    """Update running statistics to ``keep * running + share * new`` if one kernel can do it.

    Return whether the update was done.
    """
    state, (mean, _) = local.state, new
    if state.batches or state.mode > GRAD or not mean._device.backend.moves_statistics:
        return False
    arrays = []
    for t in running:
        if t is None or t.__class__ is not Tensor or t._device is not mean._device:
            return False
        if mean._dtype is not (dtypes.float32 if t._dtype.is_reduced else t._dtype):
            return False
        if t.requires_grad or t._is_view() or t.is_inference() or not t.is_contiguous():
            return False
        arrays.append(t._array)
    if arrays[0].dtype != arrays[1].dtype:
        return False
    with mean._device.backend.use_index(mean._device.index):
        mean._device.backend.move_statistics(arrays, [t._array for t in new], keep, shares)
    for _ in range(2):
        # The kernel replaces a multiplication and an addition, which would count as two writes.
        bump_all(running)
    return True


def divide_(grads: Iterable[Tensor | None], scale: Tensor) -> None:
    """Divide gradients by a scale."""
    unscale_([grad for grad in grads if grad is not None], reciprocal(scale))
