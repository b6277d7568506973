"""Schedulers in chainable form, which multiply the last learning rate by a factor and can be combined."""

from __future__ import annotations

import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from gradcore.dispatch.settings import constructor, setting
from gradcore.optim.lr_scheduler.base import LRScheduler, Rate, complete_docstring, current
from gradcore.optim.optimizer import Optimizer

__all__ = [
    "ConstantLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "StepLR",
]


#: An element of `milestones`.
MILESTONE = setting("MultiStepLR", "milestones", "float")


class Factors(LRScheduler):
    """Base class of schedulers with the same factor for all groups."""

    def step_factor(self, epoch: int) -> float:
        """Return the factor by which the last learning rate is multiplied."""
        raise NotImplementedError

    def factor_so_far(self, epoch: int) -> float:
        """Return the factor by which the initial learning rate is multiplied."""
        raise NotImplementedError

    def get_lr(self) -> list[Rate]:
        self._check_call()
        factor = self.step_factor(self.last_epoch)
        return [lr * factor for lr in current(self.optimizer)] if factor != 1 else current(self.optimizer)

    def _get_closed_form_lr(self) -> list[Rate]:
        factor = self.factor_so_far(self.last_epoch)
        return [lr * factor for lr in self.base_lrs]


@complete_docstring(
    "StepLR(optimizer, step_size=2, gamma=0.5) -> [1.0, 1.0, 0.5, 0.5]",
    step_size="Period of the decay, in steps.",
    gamma="Factor of the decay.",
)
class StepLR(Factors):
    """Scheduler that decays the learning rate by `gamma` every `step_size` steps."""

    @constructor
    def __init__(self, optimizer: Optimizer, step_size: float, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def step_factor(self, epoch: int) -> float:
        return self.gamma if epoch and epoch % self.step_size == 0 else 1

    def factor_so_far(self, epoch: int) -> float:
        return float(self.gamma ** (epoch // self.step_size))


@complete_docstring(
    "MultiStepLR(optimizer, milestones=[1, 3]) -> [1.0, 0.1, 0.1, 0.01]",
    milestones="Steps at which the rate decays; one that is given twice counts twice.",
    gamma="Factor of the decay.",
)
class MultiStepLR(Factors):
    """Scheduler that decays the learning rate by `gamma` at given steps."""

    @constructor
    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(map(MILESTONE.take, milestones)), gamma
        super().__init__(optimizer, last_epoch)

    def step_factor(self, epoch: int) -> float:
        return self.gamma ** self.milestones[epoch]

    def factor_so_far(self, epoch: int) -> float:
        return self.gamma ** bisect_right(sorted(self.milestones.elements()), epoch)


@complete_docstring(
    "ConstantLR(optimizer, factor=0.5, total_iters=2) -> [0.5, 0.5, 1.0, 1.0]",
    factor="Factor of the learning rate until `total_iters`, between 0 and 1.",
    total_iters="Number of steps with the factor.",
)
class ConstantLR(Factors):
    """Scheduler that multiplies the learning rate by a constant for the first steps."""

    @constructor
    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: float = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1.0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def step_factor(self, epoch: int) -> float:
        if epoch == 0:
            return self.factor
        return 1.0 / self.factor if epoch == self.total_iters else 1

    def factor_so_far(self, epoch: int) -> float:
        return 1 if epoch >= self.total_iters else self.factor


@complete_docstring(
    "LinearLR(optimizer, start_factor=0.5, total_iters=2) -> [0.5, 0.75, 1.0, 1.0]",
    start_factor="Factor of the learning rate at the first step.",
    end_factor="Factor of the learning rate at the last step.",
    total_iters="Number of steps from one factor to the other.",
)
class LinearLR(Factors):
    """Scheduler that changes the factor of the learning rate linearly."""

    @constructor
    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: float = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def step_factor(self, epoch: int) -> float:
        if epoch == 0:
            return self.start_factor
        if self._is_initial or epoch > self.total_iters:
            return 1
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (epoch - 1) * rise)

    def factor_so_far(self, epoch: int) -> float:
        rise = self.end_factor - self.start_factor
        return self.start_factor + rise * min(self.total_iters, epoch) / self.total_iters


@complete_docstring("ExponentialLR(optimizer, gamma=0.5) -> [1.0, 0.5, 0.25, 0.125]", gamma="Factor of the decay.")
class ExponentialLR(Factors):
    """Scheduler that decays the learning rate by `gamma` every step."""

    @constructor
    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def step_factor(self, epoch: int) -> float:
        return 1 if self._is_initial else self.gamma

    def factor_so_far(self, epoch: int) -> float:
        return self.gamma**epoch


@complete_docstring(
    "PolynomialLR(optimizer, total_iters=4) -> [1.0, 0.75, 0.5, 0.25]",
    total_iters="Number of steps until the rate is 0.",
    power="Exponent of the polynomial.",
)
class PolynomialLR(Factors):
    """Scheduler that decays the learning rate to 0 by a polynomial."""

    @constructor
    def __init__(self, optimizer: Optimizer, total_iters: float = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def step_factor(self, epoch: int) -> float:
        if self._is_initial or epoch > self.total_iters:
            return 1
        remaining, before = (1.0 - n / self.total_iters for n in (epoch, epoch - 1))
        return float((remaining / before) ** self.power)

    def factor_so_far(self, epoch: int) -> float:
        return float((1.0 - min(self.total_iters, epoch) / self.total_iters) ** self.power)


class Lambdas(LRScheduler):
    """Base class of schedulers with a user-defined function for each group."""

    @constructor
    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(optimizer.param_groups)
        if not isinstance(lr_lambda, (list, tuple)):
            lr_lambda = [lr_lambda] * count
        elif len(lr_lambda) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
        self.lr_lambdas = list(lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the state, without the optimiser. Attributes of callable objects are included; functions are not."""
        attributes = [None if isinstance(f, types.FunctionType) else f.__dict__.copy() for f in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": attributes}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that `state_dict` returned."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if attributes is not None:
                function.__dict__.update(attributes)


@complete_docstring(
    "LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch)) -> [1.0, 0.5, 0.333, 0.25]",
    lr_lambda="Function from the number of steps to the factor: one for all groups, or a list.",
)
class LambdaLR(Lambdas):
    """Scheduler that multiplies the initial learning rate by a function of the number of steps."""

    def get_lr(self) -> list[Rate]:
        self._check_call()
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, self.base_lrs, strict=True)]


@complete_docstring(
    "MultiplicativeLR(optimizer, lambda epoch: 0.5) -> [1.0, 0.5, 0.25, 0.125]",
    lr_lambda="Function from the number of steps to the factor: one for all groups, or a list.",
)
class MultiplicativeLR(Lambdas):
    """Scheduler that multiplies the last learning rate by a function of the number of steps."""

    @constructor
    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        for function in lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda]:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Rate]:
        self._check_call()
        rates = current(self.optimizer)
        return rates if self._is_initial else [
            lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, rates, strict=True)
        ]  # fmt: skip
