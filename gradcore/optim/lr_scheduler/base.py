"""The base class of learning-rate schedulers, which set the learning rates of parameter groups at each step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from gradcore.dispatch.settings import constructor
from gradcore.optim.flat_state import value_of
from gradcore.optim.optimizer import Optimizer
from gradcore.optim.options import with_sections
from gradcore.tensor import Tensor

__all__ = ["LRScheduler", "complete_docstring"]

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


S = TypeVar("S", bound=type)
_DESCRIPTIONS = {
    "optimizer": "Optimizer whose learning rates are set.",
    "last_epoch": "Number of steps taken before; -1 to begin.",
}
_EXAMPLE = """Examples
--------
>>> import gradcore as gc
>>> optimizer = gc.optim.SGD([gc.nn.Parameter(gc.ones(1))], lr=1.0)
>>> scheduler = gc.optim.lr_scheduler.{call}
>>> rates = []
>>> for _ in range(4):
...     rates.append(round(optimizer.param_groups[0]["lr"], 3))
...     optimizer.step()
...     scheduler.step()
>>> rates
{rates}"""


def complete_docstring(example: str = "", **descriptions: str) -> Callable[[S], S]:
    """Add the parameters and an example to a scheduler's docstring (class decorator).

    `example` is ``"call -> rates of four steps"``.
    """

    def complete(cls: Any) -> Any:
        if cls.__doc__ is not None:  # python -OO removes docstrings
            call, _, rates = example.partition(" -> ")
            sections = [_EXAMPLE.format(call=call, rates=rates)] if example else []
            cls.__doc__ = with_sections(cls, {**_DESCRIPTIONS, **descriptions}, *sections)
        return cls

    return complete


def check_optimizer(optimizer: Any) -> None:
    """Raise an error unless `optimizer` is an optimiser."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def current(optimizer: Optimizer, key: str = "lr") -> list[Rate]:
    """Return the present value of an option in each parameter group."""
    return [g[key].clone() if isinstance(g[key], Tensor) else g[key] for g in optimizer.param_groups]


def put(group: dict[str, Any], key: str, value: Rate) -> None:
    """Set an option of a group. A tensor is filled in place."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value_of(value))
    else:
        group[key] = value


def expand_to_groups(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """Return a list with one value for each group, given one value for all of them or a list."""
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
    """Base class of all schedulers. A subclass defines `get_lr`.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose learning rates are set.
    last_epoch : int
        Number of steps taken before; -1 to begin.

    Raises
    ------
    TypeError
        If `optimizer` is not an optimiser.
    KeyError
        If `last_epoch` is given, and the groups have no ``initial_lr``.

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

    @constructor
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
        """Return the state of the scheduler, without the optimiser."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that `state_dict` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Rate]:
        """Return the current learning rate of each group."""
        return self._last_lr

    def get_lr(self) -> list[Rate]:
        """Return the learning rate of each group at step `last_epoch`. `step` calls this method."""
        raise NotImplementedError

    def _check_call(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", stacklevel=4
            )

    def step(self, epoch: int | None = None) -> None:
        """Set the next learning rates. Call this after the optimiser's step.

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
        """Set the learning rates that `rates` returns."""
        self._get_lr_called_within_step = True
        try:
            values = rates()
        finally:
            self._get_lr_called_within_step = False
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            put(group, "lr", value)
        self._last_lr = current(self.optimizer)
