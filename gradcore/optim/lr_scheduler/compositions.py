"""Schedulers that combine other schedulers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from gradcore.dispatch.settings import constructor
from gradcore.optim.lr_scheduler.base import LRScheduler, complete_docstring, current, put
from gradcore.optim.lr_scheduler.plateau import ReduceLROnPlateau
from gradcore.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


class Composition(LRScheduler):
    """Base class of schedulers that contain others."""

    _schedulers: Sequence[LRScheduler]

    def _check(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None, purpose: str) -> Optimizer:
        cls_name = type(self).__name__
        if not schedulers:
            raise ValueError(f"{cls_name} expects at least one scheduler{purpose}, but got no scheduler.")
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{cls_name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{cls_name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                    f"specified when calling `step`, but got one at index {i} in the given schedulers sequence."
                )
            optimizer = optimizer or scheduler.optimizer
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{cls_name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(scheduler).__name__} at index {i} has {scheduler.optimizer}, which is different from "
                    f"{type(optimizer).__name__}."
                )
        assert optimizer is not None
        return optimizer

    def state_dict(self) -> dict[str, Any]:
        """Return the state, including that of the contained schedulers, without the optimiser."""
        return {**super().state_dict(), "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that `state_dict` returned."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


@complete_docstring(schedulers="Schedulers in their order.", milestones="Steps at which the next scheduler takes over.")
class SequentialLR(Composition):
    """Scheduler that runs several schedulers one after another.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.optim.lr_scheduler import ExponentialLR, LinearLR, SequentialLR
    >>> optimizer = gradcore.optim.SGD([gradcore.zeros(1, requires_grad=True)], lr=1.0)
    >>> warm_up = LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> scheduler = SequentialLR(optimizer, [warm_up, ExponentialLR(optimizer, gamma=0.9)], milestones=[2])
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += [round(rate, 3) for rate in scheduler.get_last_lr()]
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.5, 0.75, 1.0, 0.9, 0.81]
    """

    @constructor
    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        self.optimizer = self._check(schedulers, optimizer, "")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._schedulers, self._milestones = schedulers, milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:  # each of the schedulers has set its first rate by now
            put(group, "lr", group["initial_lr"])
        _step_back(self)
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Set the next learning rates."""
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[number]
        if number and self._milestones[number - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _step_back(scheduler: Any) -> None:
    """Undo the first steps that schedulers took when they were created."""
    inner = getattr(scheduler, "_schedulers", None)
    if inner is None:
        scheduler.last_epoch -= 1
    else:
        for s in inner:
            _step_back(s)


@complete_docstring(schedulers="Schedulers that all step, in this order.", optimizer="Optimizer of the schedulers.")
class ChainedScheduler(Composition):
    """Scheduler that runs several schedulers at once.

    Examples
    --------
    >>> import gradcore as gc
    >>> S = gc.optim.lr_scheduler
    >>> optimizer = gc.optim.SGD([gc.nn.Parameter(gc.ones(1))], lr=1.0)
    >>> scheduler = S.ChainedScheduler(
    ...     [S.ExponentialLR(optimizer, 0.5), S.ConstantLR(optimizer, 0.1, total_iters=1)]
    ... )
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    @constructor
    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self.optimizer = self._check(schedulers, optimizer, " to be chained")
        self._schedulers = schedulers
        self._last_lr = current(self.optimizer)

    def step(self) -> None:  # type: ignore[override]
        """Set the next learning rates."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = current(self.optimizer)
