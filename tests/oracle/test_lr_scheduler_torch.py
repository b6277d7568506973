"""Schedulers set the learning rates that PyTorch's set, and keep the same state."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

import gradcore

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

SCHEDULERS: list[tuple[str, dict[str, Any]]] = [
    ("StepLR", {"step_size": 3}),
    ("MultiStepLR", {"milestones": [2, 5, 5, 9], "gamma": 0.5}),
    ("ConstantLR", {"total_iters": 4}),
    ("ConstantLR", {"factor": 0.2, "total_iters": 0}),
    ("LinearLR", {"start_factor": 0.1, "end_factor": 0.7, "total_iters": 8}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("PolynomialLR", {"total_iters": 7, "power": 2.0}),
    ("LambdaLR", {"lr_lambda": lambda k: 1 / (k + 1)}),
    ("LambdaLR", {"lr_lambda": [lambda k: 0.5**k, lambda k: k / 10]}),
    ("MultiplicativeLR", {"lr_lambda": lambda k: 0.95}),
    ("CosineAnnealingLR", {"T_max": 6}),
    ("CosineAnnealingLR", {"T_max": 5, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 4}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.02}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 25}),
    ("OneCycleLR", {"max_lr": [0.5, 1.0], "epochs": 5, "steps_per_epoch": 5}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 30, "three_phase": True, "anneal_strategy": "linear"}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 25, "cycle_momentum": False, "pct_start": 0.5}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 4}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "step_size_down": 5, "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "mode": "exp_range", "gamma": 0.9}),
    (
        "CyclicLR",
        {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "scale_fn": lambda k: 1 / k, "cycle_momentum": False},
    ),
]
cases = pytest.mark.parametrize(("name", "options"), SCHEDULERS, ids=[f"{n}-{list(o)}" for n, o in SCHEDULERS])


def optimizer_of(T: Any, kind: str = "SGD", **options: Any) -> Any:
    groups = [{"params": [T.zeros(1, requires_grad=True)]}, {"params": [T.ones(2, requires_grad=True)], "lr": 0.3}]
    options.setdefault("lr", 0.1)
    if kind == "SGD":
        options["momentum"] = 0.9
    return getattr(T.optim, kind)(groups, **options)


def course(optimizer: Any, scheduler: Any, steps: int = 24) -> list[Any]:
    seen = []
    for _ in range(steps):
        seen.append([(g["lr"], g.get("momentum"), g.get("betas")) for g in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    return seen


def flat(value: Any) -> list[float]:
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in flat(v)]
    return [math.nan if value is None else float(value)]


@cases
@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_learning_rates(kind: str, name: str, options: dict[str, Any]) -> None:
    courses = []
    for T in (torch, gradcore):
        optimizer = optimizer_of(T, kind)
        courses.append(course(optimizer, getattr(T.optim.lr_scheduler, name)(optimizer, **options)))
    assert flat(courses[1]) == pytest.approx(flat(courses[0]), rel=1e-12, abs=1e-15, nan_ok=True)


@cases
def test_states(name: str, options: dict[str, Any]) -> None:
    states = []
    for T in (torch, gradcore):
        optimizer = optimizer_of(T)
        scheduler = getattr(T.optim.lr_scheduler, name)(optimizer, **options)
        course(optimizer, scheduler, 3)
        states.append(scheduler.state_dict())
    theirs, mine = states
    unused = {"_scale_fn_ref", "base_momentums", "max_momentums"}  # kept by one and not by the other
    assert theirs.keys() - unused == mine.keys() - unused
    for key in theirs.keys() & mine.keys():
        if isinstance(theirs[key], (int, float)) or key in ("base_lrs", "_last_lr"):
            assert flat(mine[key]) == pytest.approx(flat(theirs[key]), rel=1e-12), key
        elif "lambda" not in key:
            assert mine[key] == theirs[key], key


@cases
def test_a_checkpoint_goes_on(name: str, options: dict[str, Any]) -> None:
    make = getattr(gradcore.optim.lr_scheduler, name)
    optimizer = optimizer_of(gradcore)
    scheduler = make(optimizer, **options)
    course(optimizer, scheduler, 5)
    other = optimizer_of(gradcore)
    again = make(other, **options)
    other.load_state_dict(optimizer.state_dict())
    again.load_state_dict(scheduler.state_dict())
    assert flat(course(other, again, 10)) == flat(course(optimizer, scheduler, 10))


@pytest.mark.parametrize(
    ("name", "options"), [case for case in SCHEDULERS if case[0] not in ("MultiplicativeLR", "OneCycleLR", "CyclicLR")]
)
def test_a_step_to_an_epoch(name: str, options: dict[str, Any]) -> None:
    rates = []
    for T in (torch, gradcore):
        optimizer = optimizer_of(T)
        scheduler = getattr(T.optim.lr_scheduler, name)(optimizer, **options)
        optimizer.step()
        scheduler.step(7)
        rates.append(scheduler.get_last_lr())
    assert rates[1] == pytest.approx(rates[0], rel=1e-12, abs=1e-15)


def _sequence(T: Any, optimizer: Any) -> Any:
    S = T.optim.lr_scheduler
    parts = [
        S.LinearLR(optimizer, 0.1, total_iters=4),
        S.CosineAnnealingLR(optimizer, 10),
        S.ExponentialLR(optimizer, 0.9),
    ]
    return S.SequentialLR(optimizer, parts, [4, 12])


def _nested(T: Any, optimizer: Any) -> Any:
    S = T.optim.lr_scheduler
    inner = S.SequentialLR(optimizer, [S.ConstantLR(optimizer, 0.1, 2), S.StepLR(optimizer, 2, 0.5)], [3])
    return S.SequentialLR(optimizer, [inner, S.ExponentialLR(optimizer, 0.9)], [8])


def _chain(T: Any, optimizer: Any) -> Any:
    S = T.optim.lr_scheduler
    return S.ChainedScheduler([S.ConstantLR(optimizer, 0.1, 5), S.ExponentialLR(optimizer, 0.9)])


@pytest.mark.parametrize("make", [_sequence, _nested, _chain])
def test_compositions(make: Any) -> None:
    courses, states = [], []
    for T in (torch, gradcore):
        optimizer = optimizer_of(T)
        scheduler = make(T, optimizer)
        courses.append(course(optimizer, scheduler))
        states.append(scheduler.state_dict())
    assert flat(courses[1]) == pytest.approx(flat(courses[0]), rel=1e-12, nan_ok=True)
    assert states[0].keys() == states[1].keys()


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 2}, {"patience": 0, "mode": "max", "factor": 0.5}, {"patience": 1, "cooldown": 3},
        {"patience": 1, "threshold_mode": "abs", "threshold": 0.3}, {"patience": 0, "min_lr": [0.01, 0.2]},
        {"patience": 0, "mode": "max", "threshold_mode": "abs"}, {"patience": 0, "eps": 0.05},
    ],
)  # fmt: skip
def test_reductions_on_plateaus(options: dict[str, Any]) -> None:
    courses, states = [], []
    for T in (torch, gradcore):
        optimizer = optimizer_of(T)
        scheduler = T.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        seen = []
        for k in range(30):
            scheduler.step(T.tensor(math.sin(k / 3) + 1 / (k + 1)))
            seen.append(scheduler.get_last_lr())
        courses.append(seen)
        states.append(scheduler.state_dict())
    assert flat(courses[1]) == pytest.approx(flat(courses[0]), rel=1e-12)
    assert states[1] == states[0]


def test_a_learning_rate_in_a_tensor() -> None:
    rates = []
    for T in (torch, gradcore):
        lr = T.tensor(0.5)
        optimizer = T.optim.SGD([T.zeros(1, requires_grad=True)], lr=lr)
        scheduler = T.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        optimizer.step()
        scheduler.step()
        assert optimizer.param_groups[0]["lr"] is lr
        rates.append((lr.item(), scheduler.base_lrs[0].item()))
    assert rates[0] == rates[1] == (0.25, 0.5)


@pytest.mark.parametrize("early", [True, False])
def test_the_order_of_steps_is_checked(early: bool) -> None:
    found = []
    for T in (torch, gradcore):
        optimizer = optimizer_of(T)
        scheduler = T.optim.lr_scheduler.StepLR(optimizer, 2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if not early:
                optimizer.step()
            scheduler.step()
            scheduler.get_lr()
        found.append([str(w.message) for w in caught])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda S, o: S.StepLR(3, 1),
        lambda S, o: S.ConstantLR(o, 2.0),
        lambda S, o: S.LinearLR(o, 0.0),
        lambda S, o: S.LinearLR(o, end_factor=2),
        lambda S, o: S.LambdaLR(o, [len]),
        lambda S, o: S.MultiplicativeLR(o, 3),
        lambda S, o: S.StepLR(o, 3, last_epoch=4),
        lambda S, o: S.OneCycleLR(o, 1.0),
        lambda S, o: S.OneCycleLR(o, 1.0, -1),
        lambda S, o: S.OneCycleLR(o, 1.0, epochs=0, steps_per_epoch=2),
        lambda S, o: S.OneCycleLR(o, 1.0, 5, pct_start=2.0),
        lambda S, o: S.OneCycleLR(o, 1.0, 5, anneal_strategy="x"),
        lambda S, o: S.OneCycleLR(o, [1.0], 5),
        lambda S, o: S.CyclicLR(o, 0.1, 1.0, mode="x"),
        lambda S, o: S.CosineAnnealingWarmRestarts(o, 0),
        lambda S, o: S.CosineAnnealingWarmRestarts(o, 2, 0),
        lambda S, o: S.CosineAnnealingWarmRestarts(o, 2).step(-1),
        lambda S, o: S.ReduceLROnPlateau(o, factor=1.0),
        lambda S, o: S.ReduceLROnPlateau(o, "x"),
        lambda S, o: S.ReduceLROnPlateau(o, threshold_mode="x"),
        lambda S, o: S.ReduceLROnPlateau(o, min_lr=[1]),
        lambda S, o: S.SequentialLR(o, [], []),
        lambda S, o: S.SequentialLR(o, [S.StepLR(o, 1)], [1]),
        lambda S, o: S.SequentialLR(o, [S.ReduceLROnPlateau(o)], []),
        lambda S, o: S.ChainedScheduler([]),
        lambda S, o: S.SequentialLR(o, [3], []),
        lambda S, o: S.LRScheduler(o),
    ],
)
def test_errors(wrong: Any) -> None:
    caught = []
    for T in (torch, gradcore):
        with pytest.raises(Exception) as info:
            wrong(T.optim.lr_scheduler, optimizer_of(T))
        caught.append((type(info.value), str(info.value)))
    assert caught[0] == caught[1]
