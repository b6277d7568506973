"""Schedulers, by the rates that their definitions give."""

from __future__ import annotations

import math
from typing import Any

import pytest

import gradcore
from gradcore.optim import SGD, Adam
from gradcore.optim import lr_scheduler as schedulers


def optimizer_at(lr: float, **options: Any) -> Any:
    return SGD([gradcore.zeros(1, requires_grad=True)], lr=lr, **options)


def rates(scheduler: Any, steps: int) -> list[float]:
    found = []
    for _ in range(steps):
        found += scheduler.get_last_lr()
        scheduler.optimizer.step()
        scheduler.step()
    return found


COURSES = {
    "StepLR": ({"step_size": 2, "gamma": 0.5}, lambda k: 0.5 ** (k // 2)),
    "MultiStepLR": ({"milestones": [2, 4, 4], "gamma": 0.5}, lambda k: 0.5 ** ((k >= 2) + 2 * (k >= 4))),
    "ConstantLR": ({"factor": 0.5, "total_iters": 3}, lambda k: 0.5 if k < 3 else 1),
    "LinearLR": ({"start_factor": 0.2, "total_iters": 4}, lambda k: min(1, 0.2 + 0.2 * k)),
    "ExponentialLR": ({"gamma": 0.9}, lambda k: 0.9**k),
    "PolynomialLR": ({"total_iters": 5, "power": 2}, lambda k: (1 - min(k, 5) / 5) ** 2),
    "LambdaLR": ({"lr_lambda": lambda k: 1 / (1 + k)}, lambda k: 1 / (1 + k)),
    "MultiplicativeLR": ({"lr_lambda": lambda k: k / 10}, lambda k: math.factorial(k) / 10**k),
    "CosineAnnealingLR": ({"T_max": 4}, lambda k: (1 + math.cos(math.pi * k / 4)) / 2),
    "CosineAnnealingWarmRestarts": ({"T_0": 3}, lambda k: (1 + math.cos(math.pi * (k % 3) / 3)) / 2),
}


@pytest.mark.parametrize("name", COURSES)
def test_courses(name: str) -> None:
    options, expected = COURSES[name]
    scheduler = getattr(schedulers, name)(optimizer_at(2.0), **options)
    assert rates(scheduler, 10) == pytest.approx([2 * expected(k) for k in range(10)], abs=1e-15)


def test_one_cycle_moves_rate_and_momentum_against_each_other() -> None:
    optimizer = Adam([gradcore.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = schedulers.OneCycleLR(optimizer, max_lr=1.0, total_steps=11, pct_start=6 / 11, anneal_strategy="linear")
    seen = []
    for _ in range(11):
        seen.append((optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["betas"][0]))
        optimizer.step()
        if len(seen) < 11:
            scheduler.step()
    learning, momenta = zip(*seen, strict=True)
    assert learning[0] == pytest.approx(1 / 25)
    assert learning[5] == pytest.approx(1)
    assert learning[-1] == pytest.approx(1 / 25 / 1e4)
    assert [momenta[0], momenta[5], momenta[-1]] == pytest.approx([0.95, 0.85, 0.95])
    scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 12 times"):
        scheduler.step()


def test_cycles_go_up_and_down() -> None:
    optimizer = optimizer_at(1.0)
    scheduler = schedulers.CyclicLR(optimizer, 1.0, 3.0, step_size_up=2, mode="triangular2", cycle_momentum=False)
    assert rates(scheduler, 9) == pytest.approx([1, 2, 3, 2, 1, 1.5, 2, 1.5, 1])


def test_momentum_needs_an_optimiser_that_has_it() -> None:
    optimizer = gradcore.optim.Adagrad([gradcore.zeros(1, requires_grad=True)])
    with pytest.raises(ValueError, match="must support momentum or beta1"):
        schedulers.CyclicLR(optimizer, 0.1, 1.0)


def test_going_on_after_a_restart() -> None:
    """The state dicts of both, in new objects."""
    optimizer = optimizer_at(1.0)
    scheduler = schedulers.CosineAnnealingLR(optimizer, T_max=8)
    rates(scheduler, 3)
    saved = optimizer.state_dict(), scheduler.state_dict()
    expected = rates(scheduler, 4)
    again = optimizer_at(5.0)
    other = schedulers.CosineAnnealingLR(again, T_max=2)
    again.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    assert rates(other, 4) == expected


def test_a_closed_form_and_its_deprecation() -> None:
    scheduler = schedulers.StepLR(optimizer_at(1.0), step_size=2, gamma=0.5)
    scheduler.optimizer.step()
    with pytest.warns(UserWarning, match="epoch parameter"):
        scheduler.step(5)
    assert scheduler.get_last_lr() == [0.25]


def test_the_scheduler_steps_after_the_optimiser() -> None:
    scheduler = schedulers.StepLR(optimizer_at(1.0), step_size=2)
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        scheduler.step()


def test_lower_bounds_on_plateaus() -> None:
    optimizer = optimizer_at(1.0)
    scheduler = schedulers.ReduceLROnPlateau(optimizer, factor=0.1, patience=0, min_lr=0.05)
    seen = []
    for _ in range(5):
        scheduler.step(1.0)
        seen += scheduler.get_last_lr()
    assert seen == pytest.approx([1, 0.1, 0.05, 0.05, 0.05])
    optimizer.add_param_group({"params": [gradcore.zeros(1, requires_grad=True)], "lr": 1.0})
    scheduler.step(1.0)
    assert scheduler.get_last_lr() == pytest.approx([0.05, 0.1])
