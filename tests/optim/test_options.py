"""Options of optimisers: signatures, docstrings and checkpoints agree; a plan notices what changed between steps."""

from __future__ import annotations

import inspect
import itertools
import re
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

import gradcore
from gradcore import optim
from gradcore.optim.elementwise import ElementwiseOptimizer
from gradcore.optim.options import OPTIONS, Option, checked, with_options

NAMES = [name for name in optim.__all__ if name not in ("Optimizer", "lr_scheduler", "swa_utils")]
every_name = pytest.mark.parametrize("name", NAMES)


def made(name: str, **options: Any) -> tuple[Any, Any]:
    p = gradcore.ones(2, 2, requires_grad=True)
    p.grad = gradcore.ones(2, 2)
    return p, getattr(optim, name)([p], **options)


@every_name
def test_docstrings_describe_the_signature(name: str) -> None:
    cls = getattr(optim, name)
    section = inspect.getdoc(cls).partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    described = re.findall(r"^(\w+) : (.+)\n    (\S.*)$", section, re.MULTILINE)
    parameters = inspect.signature(cls).parameters
    assert [name for name, _, _ in described] == list(parameters)
    for (option, kind, _), parameter in zip(described, parameters.values(), strict=True):
        assert option == "params" or kind.endswith(f", default {parameter.default!r}")
        assert parameter.annotation is not parameter.empty


@every_name
def test_groups_hold_what_the_signature_says(name: str) -> None:
    (group,) = made(name)[1].param_groups
    given = {n: p.default for n, p in inspect.signature(getattr(optim, name)).parameters.items() if n != "params"}
    given |= {"AdamW": {"decoupled_weight_decay": True}, "LBFGS": {"max_eval": 25}}.get(name, {})
    assert {key: value for key, value in group.items() if key != "params"} == given


@pytest.mark.oracle
@every_name
def test_groups_have_the_order_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = getattr(torch.optim, name)([torch.zeros(2, 2, requires_grad=True)])
    (mine,), (expected,) = (o.state_dict()["param_groups"] for o in (made(name)[1], theirs))
    assert list(mine) == list(expected)


def test_an_optimiser_of_ones_own() -> None:
    def own(F: Any, p: Any, g: Any, *, lr: float, scale: float) -> None:
        p -= g * (lr * scale)

    def check(scale: float) -> None:
        if scale == 0:
            raise ValueError("no scale")

    @with_options("scale lr", scale=Option("Factor of the learning rate.", check))
    class Own(ElementwiseOptimizer):
        """Gradient descent."""

        formula = staticmethod(own)

        def __init__(self, params: Any, lr: float = 0.5, scale: float = 2.0, differentiable: bool = False) -> None:
            super().__init__(params, checked(locals()))

    class Derived(Own):
        """A subclass without options of its own."""

    assert "scale : float, default 2.0\n    Factor of the learning rate." in (Own.__doc__ or "")
    assert Derived.__doc__ == "A subclass without options of its own."
    assert "scale" not in OPTIONS
    for cls in (Own, Derived):
        p = gradcore.ones(2, requires_grad=True)
        p.grad = gradcore.ones(2)
        optimizer = cls([p])
        optimizer.step()
        assert list(optimizer.param_groups[0]) == ["params", "scale", "lr", "differentiable"]
        assert p.tolist() == [0.0, 0.0]
        with pytest.raises(ValueError, match="no scale"):
            cls([p], scale=0.0)
        with pytest.raises(ValueError, match="Invalid learning rate"):
            cls([p], lr=-1.0)


# -- the plan of a step -----------------------------------------------------------------------------------------------


def test_counts_that_numpy_wrote_are_noticed() -> None:
    x, y = (gradcore.ones(2, requires_grad=True) for _ in range(2))
    optimizer = optim.Adam([x, y])
    for p in (x, y):
        p.grad = gradcore.ones(2)
    optimizer.step()
    optimizer.state[y]["step"].numpy()[...] = 9.0
    optimizer.step()
    optimizer.step()
    assert [optimizer.state[p]["step"].item() for p in (x, y)] == [3.0, 11.0]


@pytest.mark.parametrize("what", ["one state", "all of an entry", "an entry", "memory", "an option", "a tensor option"])
def test_what_changed_between_steps_is_noticed(what: str) -> None:
    """As a fresh optimiser sees it that gets the same states."""
    p, optimizer = made("Adam", lr=gradcore.tensor(0.1) if what == "a tensor option" else 0.1)
    optimizer.step()
    optimizer.step()
    entry = optimizer.state[p]
    if what == "one state":
        entry["exp_avg"] = gradcore.full((2, 2), 3.0)
    elif what == "all of an entry":
        entry.clear()
    elif what == "an entry":
        optimizer.state[p] = {name: value.clone() + 1 for name, value in entry.items()}
    elif what == "memory":
        p.data = gradcore.full((2, 2), 5.0)
    elif what == "an option":
        optimizer.param_groups[0]["amsgrad"] = True
    else:
        optimizer.param_groups[0]["lr"].fill_(0.5)
    other = p.detach().clone().requires_grad_()
    other.grad = p.grad.clone()
    fresh = optim.Adam([other])
    fresh.load_state_dict(optimizer.state_dict())
    fresh.state[other] = {name: value.clone() for name, value in fresh.state[other].items()}
    for _ in range(2):
        optimizer.step()
        fresh.step()
        assert np.array_equal(p.detach(), other.detach())
    assert list(optimizer.state[p]) == list(fresh.state[other])


def test_a_step_is_few_calls() -> None:
    """The guard of a plan costs less than the step."""
    params = [gradcore.ones(4, requires_grad=True) for _ in range(3)]
    optimizer = optim.Adam(params)
    for p in params:
        p.grad = gradcore.ones(4)
    for _ in range(3):
        optimizer.step()
    files: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and "gradcore" in frame.f_code.co_filename:
            files.append(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        optimizer.step()
    finally:
        sys.setprofile(None)
    changes = sum(a != b for a, b in itertools.pairwise(files))
    assert len(files) <= 45
    assert changes <= 16


#: What means nothing, by the annotation of an option or of a scheduler's argument.
MEANINGLESS = {
    "int": ["a", 1.5, None, [], 1j, 2**70, object()],
    "float": ["a", None, [], 1j, object()],
    "float | Tensor": ["a", None, [], 1j, object()],
    "bool": ["a", None, [], 1.5, 2, object()],
    "bool | None": ["a", [], 1.5, 2, object()],
    "str": [None, 1, [], object()],
}
SCHEDULERS = {
    "StepLR": {"step_size": 2}, "MultiStepLR": {"milestones": [1]}, "ConstantLR": {}, "LinearLR": {},
    "ExponentialLR": {"gamma": 0.5}, "PolynomialLR": {}, "CosineAnnealingLR": {"T_max": 5},
    "CyclicLR": {"base_lr": 0.1, "max_lr": 0.2}, "ReduceLROnPlateau": {},
}  # fmt: skip


def refused(make: Any, given: dict[str, Any]) -> None:
    """Every argument refuses what its annotation does not allow, and says which argument it is."""
    asked = 0
    for name, parameter in inspect.signature(make).parameters.items():
        for value in MEANINGLESS.get(str(parameter.annotation), ()):
            asked += 1
            with pytest.raises((TypeError, ValueError), match=f"'{name}'|Overflow"):
                make(**{**given, name: value})
    assert asked > 5


@every_name
def test_options_that_mean_nothing(name: str) -> None:
    refused(getattr(optim, name), {"params": [gradcore.ones(2, 2, requires_grad=True)]})


@pytest.mark.parametrize("name", SCHEDULERS)
def test_arguments_of_schedulers_that_mean_nothing(name: str) -> None:
    optimizer = optim.SGD([gradcore.ones(2, requires_grad=True)], lr=0.1, momentum=0.9)
    refused(getattr(optim.lr_scheduler, name), {"optimizer": optimizer, **SCHEDULERS[name]})


def test_numbers_of_other_kinds() -> None:
    p = [gradcore.ones(2, requires_grad=True)]
    group = optim.Adam(p, lr=np.float64(0.5), amsgrad=1, betas=[0.9, np.float64(0.5)], eps=gradcore.tensor(1e-3))
    assert (group.param_groups[0]["lr"], group.param_groups[0]["amsgrad"]) == (0.5, True)
    with pytest.raises(ValueError, match="momentum"):
        optim.SGD(p, momentum=float("inf"))
    with pytest.raises(TypeError, match="tuple of 2 numbers"):
        optim.Adam(p, betas=(0.9,))
    with pytest.raises(ValueError, match="history_size"):
        optim.LBFGS(p, history_size=0)
