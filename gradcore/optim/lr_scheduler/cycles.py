"""Cyclical schedulers: cosine annealing, one-cycle and cyclic learning rates."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from gradcore.dispatch.settings import constructor
from gradcore.optim.lr_scheduler.base import (
    LRScheduler,
    Rate,
    check_optimizer,
    complete_docstring,
    current,
    expand_to_groups,
    put,
)
from gradcore.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


def _anneal(scheduler: Any, height: float) -> list[Rate]:
    """Return learning rates between `eta_min` (height 0) and the initial rates (height 2)."""
    least = scheduler.eta_min
    return [least + (base - least) * height / 2 for base in scheduler.base_lrs]


@complete_docstring(
    "CosineAnnealingLR(optimizer, T_max=4) -> [1.0, 0.854, 0.5, 0.146]",
    T_max="Number of steps from the initial rate to `eta_min`.",
    eta_min="Least learning rate.",
)
class CosineAnnealingLR(LRScheduler):
    """Scheduler that anneals the learning rate along half a cosine in `T_max` steps, and back."""

    @constructor
    def __init__(self, optimizer: Optimizer, T_max: float, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _height(self, epoch: int) -> float:
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def get_lr(self) -> list[Rate]:
        self._check_call()
        epoch, rates = self.last_epoch, current(self.optimizer)
        if self._is_initial:
            return rates
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the last rate is `eta_min`, so it has no factor
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [lr + (base - self.eta_min) * rise for base, lr in zip(self.base_lrs, rates, strict=True)]
        factor = self._height(epoch) / self._height(epoch - 1)
        return [factor * (lr - self.eta_min) + self.eta_min for lr in rates]

    def _get_closed_form_lr(self) -> list[Rate]:
        return _anneal(self, self._height(self.last_epoch))


@complete_docstring(
    "CosineAnnealingWarmRestarts(optimizer, T_0=2) -> [1.0, 0.5, 1.0, 0.5]",
    T_0="Number of steps until the first restart.",
    T_mult="Factor of the period after each restart.",
    eta_min="Least learning rate.",
)
class CosineAnnealingWarmRestarts(LRScheduler):
    """Scheduler that anneals the learning rate along half a cosine, with restarts."""

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        self._check_call()
        return _anneal(self, 1 + math.cos(math.pi * self.T_cur / self.T_i))

    def step(self, epoch: float | None = None) -> None:
        """Set the next learning rates, or those of `epoch`, which may lie between two steps."""
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur % self.T_i, self.T_i * self.T_mult
        else:
            self._go_to(epoch or 0)
        self.last_epoch = math.floor(epoch or 0)
        self._set(self.get_lr)

    def _go_to(self, epoch: float) -> None:
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            falls = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**falls - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**falls


class MomentumCycle(LRScheduler):
    """Base class of schedulers that also change the momentum, opposite to the learning rate."""

    def _start_momentum(self, base_momentum: Any, max_momentum: Any, last_epoch: int) -> None:
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults
        self.base_momentums = expand_to_groups("base_momentum", self.optimizer, base_momentum)
        self.max_momentums = expand_to_groups("max_momentum", self.optimizer, max_momentum)
        if last_epoch == -1:
            for low, high, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True
            ):
                self._put_momentum(group, high)
                group["max_momentum"], group["base_momentum"] = high, low

    def _put_momentum(self, group: dict[str, Any], value: Rate) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


def _cosine(start: Rate, end: Rate, share: float) -> Rate:
    return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)


def _line(start: Rate, end: Rate, share: float) -> Rate:
    return (end - start) * share + start


@complete_docstring(
    "OneCycleLR(optimizer, max_lr=1.0, total_steps=4, cycle_momentum=False) -> [0.04, 0.812, 0.283, 0.0]",
    max_lr="Largest learning rate, for all groups or for each.",
    total_steps="Number of steps; by default ``epochs * steps_per_epoch``.",
    epochs="Number of epochs, if `total_steps` is not given.",
    steps_per_epoch="Number of steps in an epoch, if `total_steps` is not given.",
    pct_start="Share of the steps in which the learning rate increases.",
    anneal_strategy='Shape of the annealing: "cos" or "linear".',
    cycle_momentum="Cycle the momentum inversely to the learning rate.",
    base_momentum="Least momentum, for all groups or for each.",
    max_momentum="Largest momentum, for all groups or for each.",
    div_factor="`max_lr` divided by the initial learning rate.",
    final_div_factor="The initial learning rate divided by the last one.",
    three_phase="Decrease to the initial learning rate as fast as it increased, and then further.",
)
class OneCycleLR(MomentumCycle):
    """Scheduler that increases the learning rate to `max_lr`, then decreases it far below the initial one."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _steps(total_steps, epochs, steps_per_epoch)
        share: Any = pct_start
        if not isinstance(share, float) or not 0 <= share <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        rates = expand_to_groups("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for rate, group in zip(rates, optimizer.param_groups, strict=True):
                group["initial_lr"], group["max_lr"] = rate / div_factor, rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        self._check_call()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        start = 0.0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if step <= end or phase is self._schedule_phases[-1]:
                break
            start = end
        share = (step - start) / (end - start)
        between = _cosine if self._anneal_func_type == "cos" else _line
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for g in groups:
                self._put_momentum(g, between(g[phase["start_momentum"]], g[phase["end_momentum"]], share))
        return [between(g[phase["start_lr"]], g[phase["end_lr"]], share) for g in groups]


def _steps(total: Any, epochs: Any, each: Any) -> int:
    """Return the total number of steps, given directly or as epochs and steps per epoch."""
    if total is None and (epochs is None or each is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    counts = {"epochs": epochs, "steps_per_epoch": each} if total is None else {"total_steps": total}
    for name, value in counts.items():
        if value <= 0 or not isinstance(value, int):
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return math.prod(counts.values())


def _phases(steps: int, share: float, three: bool) -> list[dict[str, Any]]:
    """Return, for each phase, its end and the group options from which and to which it anneals."""
    ends = [share * steps - 1, *([2 * share * steps - 2] if three else []), steps - 1]
    rates = ["initial_lr", "max_lr", *(["initial_lr"] if three else []), "min_lr"]
    momenta = ["max_momentum", "base_momentum", "max_momentum", "max_momentum"]
    return [
        {
            "end_step": end, "start_lr": rates[i], "end_lr": rates[i + 1], "start_momentum": momenta[i],
            "end_momentum": momenta[i + 1],
        }
        for i, end in enumerate(ends)
    ]  # fmt: skip


@complete_docstring(
    "CyclicLR(optimizer, 0.0, 1.0, step_size_up=2, cycle_momentum=False) -> [0.0, 0.5, 1.0, 0.5]",
    base_lr="Least learning rate, for all groups or for each.",
    max_lr="Largest learning rate, for all groups or for each.",
    step_size_up="Number of steps in which the rate increases.",
    step_size_down="Number of steps in which it decreases; by default as many.",
    mode=(
        'Amplitude of the cycles: "triangular" (constant), "triangular2" (halved each cycle) or "exp_range" (times '
        "`gamma` each step)."
    ),
    gamma='Factor of "exp_range".',
    scale_fn="Function for the amplitude, which replaces `mode`.",
    scale_mode='Argument of `scale_fn`: the number of the "cycle" or of "iterations".',
    cycle_momentum="Cycle the momentum inversely to the learning rate.",
    base_momentum="Least momentum, for all groups or for each.",
    max_momentum="Largest momentum, for all groups or for each.",
)
class CyclicLR(MomentumCycle):
    """Scheduler that cycles the learning rate linearly between two bounds."""

    @constructor
    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: float = 2000,
        step_size_down: float | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.optimizer, self.mode, self.gamma, self._scale_fn_custom = optimizer, mode, gamma, scale_fn
        lowest = expand_to_groups("base_lr", optimizer, base_lr)
        self.max_lrs = expand_to_groups("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for rate, group in zip(lowest, optimizer.param_groups, strict=True):
                put(group, "lr", rate)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up) + float(down)
        self.step_ratio = step_size_up / self.total_size
        fixed = "iterations" if mode == "exp_range" else "cycle"
        self.scale_mode = scale_mode if scale_fn is not None else fixed
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lowest

    def scale_fn(self, x: float) -> float:
        """Return the height of the cycle (or step) `x`."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return float(2.0 ** (1 - x))
        return float(self.gamma**x) if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Rate]:
        self._check_call()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for low, high, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True
            ):
                self._put_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return the state, without the optimiser.

        If `scale_fn` is an object, its attributes are included; a function is not.
        """
        state, function = super().state_dict(), self._scale_fn_custom
        plain = function is None or isinstance(function, types.FunctionType)
        return {**state, "_scale_fn_custom": None if plain else function.__dict__.copy()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that `state_dict` returned."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if state_dict["_scale_fn_custom"] is not None:
            self._scale_fn_custom.__dict__.update(state_dict["_scale_fn_custom"])
