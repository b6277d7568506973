"""The scheduler that reduces the learning rate when a metric stops improving."""

from __future__ import annotations

import math
import warnings
from typing import Any, SupportsFloat

from gradcore.dispatch.settings import constructor
from gradcore.optim.lr_scheduler.base import (
    EPOCH_WARNING,
    LRScheduler,
    check_optimizer,
    complete_docstring,
    current,
    put,
)
from gradcore.optim.optimizer import Optimizer

__all__ = ["ReduceLROnPlateau"]


@complete_docstring(
    mode='Whether the metric is better when smaller ("min") or larger ("max").',
    factor="Factor of the reduction, below 1.",
    patience="Number of steps without improvement before a reduction.",
    threshold="Least change that is an improvement.",
    threshold_mode='Whether `threshold` is relative ("rel") or absolute ("abs").',
    cooldown="Number of steps after a reduction before the next ones count.",
    min_lr="Lower bound of the learning rate, for all groups or for each.",
    eps="Least change of a learning rate that is made.",
)
class ReduceLROnPlateau(LRScheduler):
    """Scheduler that reduces the learning rate when a metric has stopped improving.

    Examples
    --------
    >>> import gradcore
    >>> optimizer = gradcore.optim.SGD([gradcore.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = gradcore.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.1]
    """

    @constructor
    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        check_optimizer(optimizer)
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        count = len(optimizer.param_groups)
        several = isinstance(min_lr, (list, tuple))
        if several and len(min_lr) != count:  # type: ignore[arg-type]
            raise ValueError(f"expected {count} min_lrs, got {len(min_lr)}")  # type: ignore[arg-type]
        self.default_min_lr = None if several else min_lr
        self.min_lrs: list[Any] = list(min_lr) if several else [min_lr] * count  # type: ignore[arg-type]
        self.optimizer, self.factor, self.patience, self.cooldown, self.eps = optimizer, factor, patience, cooldown, eps
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.last_epoch = 0
        self._last_lr = current(optimizer)
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self._reset()

    def _reset(self) -> None:
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    @property
    def in_cooldown(self) -> bool:
        """Whether the scheduler is in its cooldown, in which steps without improvement do not count."""
        return self.cooldown_counter > 0

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]
        """Record a new value of the metric, and reduce the learning rates if it has stopped improving.

        Parameters
        ----------
        metrics : float
            The value.
        epoch : int, optional
            Deprecated: the number of the step.
        """
        if epoch is not None:
            warnings.warn(EPOCH_WARNING, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        value = float(metrics)
        if self._is_better(value, self.best):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = current(self.optimizer)

    def _is_better(self, value: float, best: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        bar = best * (1 + sign * self.threshold) if self.threshold_mode == "rel" else best + sign * self.threshold
        return value > bar if self.mode == "max" else value < bar

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group "
                    "being added to the optimizer. Please modify the `min_lrs` field to match the length of the "
                    "`optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for least, group in zip(self.min_lrs, groups, strict=True):
            rate = float(group["lr"])
            reduced = max(rate * self.factor, least)
            if rate - reduced > self.eps:
                put(group, "lr", reduced)
