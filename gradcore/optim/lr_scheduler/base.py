"""What every scheduler is: it sets the learning rates of an optimiser's groups, once for each of its steps."""

from __future__ import annotations

import warnings
from typing import Any

from gradcore.optim.flat_state import value_of
from gradcore.optim.optimizer import Optimizer
from gradcore.tensor import Tensor

__all__ = ["LRScheduler"]

Rate = Any  # a float, or a tensor of one element

EPOCH_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form is used instead of the new chainable form, where available."
)
ORDER_WARNING = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call "
    "them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will result in "
    "PyTorch skipping the first value of the learning rate schedule. See more details at "
    "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
)


def check_optimizer(optimizer: Any) -> None:
    """Refuse what is not an optimiser."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def current(optimizer: Optimizer, key: str = "lr") -> list[Rate]:
    """An option of all groups, as it is now."""
    return [g[key].clone() if isinstance(g[key], Tensor) else g[key] for g in optimizer.param_groups]


def put(group: dict[str, Any], key: str, value: Rate) -> None:
    """Set an option; a tensor stays the same tensor."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value_of(value))
    else:
        group[key] = value


def for_each_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A setting for every group, which was given once for all or as a list."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        value = [value] * count
    elif len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, param_groups "
            f"has {count}."
        )
    return [v.clone() if isinstance(v, Tensor) else v for v in value]


class LRScheduler:
    """The base of all schedulers: subclass it and define `get_lr`.

    Parameters
    ----------
    optimizer : Optimizer
        Whose learning rates are set.
    last_epoch : int
        The number of steps that were taken before; -1 to begin.

    Raises
    ------
    TypeError
        If it is given something else than an optimiser.
    KeyError
        If it is to go on, and the groups do not say where they began.

    Examples
    --------
    >>> import gradcore
    >>> class Halving(gradcore.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [lr * 0.5**self.last_epoch for lr in self.base_lrs]
    >>> optimizer = gradcore.optim.SGD([gradcore.zeros(1, requires_grad=True)], lr=0.8)
    >>> scheduler = Halving(optimizer)
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.1]
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", current(optimizer)[i])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with last_epoch "
                    ">= 0.\nThis typically happens when:\n1. You're trying to resume training from a checkpoint but "
                    "haven't properly loaded the optimizer state\n2. You're using last_epoch >= 0 for a fresh training "
                    "run (not recommended)"
                )
        self.base_lrs = current(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        optimizer._watch_steps()
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Rate]:
        """The learning rates that were set last, one a group."""
        return self._last_lr

    def get_lr(self) -> list[Rate]:
        """The learning rates of step `last_epoch`, one a group; called by `step`."""
        raise NotImplementedError

    def _check_call(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", stacklevel=4
            )

    def step(self, epoch: int | None = None) -> None:
        """Set the next learning rates; call it after the optimiser's step.

        Parameters
        ----------
        epoch : int, optional
            Deprecated: the step whose rates are set.
        """
        if self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn(ORDER_WARNING, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_WARNING, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        closed = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(closed or self.get_lr)

    def _set(self, rates: Any) -> None:
        """Set the learning rates that a method of this scheduler returns."""
        self._get_lr_called_within_step = True
        try:
            values = rates()
        finally:
            self._get_lr_called_within_step = False
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            put(group, "lr", value)
        self._last_lr = current(self.optimizer)
