"""Optimisers step as PyTorch's do: trajectories, states, checkpoints, printing, errors."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import gradcore

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

STEPS = 50
SHAPES = ((), (3,), (4, 5), (0,), (9000,), (2, 3, 2))
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "SGD": [
        {}, {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.3}, {"momentum": 0.8, "nesterov": True},
        {"weight_decay": 0.1}, {"maximize": True, "momentum": 0.5}, {"foreach": True},
    ],
    "Adam": [
        {}, {"amsgrad": True}, {"weight_decay": 0.1}, {"maximize": True}, {"betas": (0.5, 0.7), "eps": 1e-3},
        {"weight_decay": 0.1, "decoupled_weight_decay": True}, {"foreach": True, "amsgrad": True},
    ],
    "AdamW": [{}, {"amsgrad": True, "weight_decay": 0.3}, {"maximize": True}],
    "Adagrad": [{}, {"lr_decay": 0.1, "weight_decay": 0.1}, {"initial_accumulator_value": 0.5}, {"maximize": True}],
    "RMSprop": [
        {}, {"momentum": 0.9}, {"centered": True, "eps": 1e-4}, {"momentum": 0.5, "centered": True, "eps": 1e-4},
        {"weight_decay": 0.1, "maximize": True},
    ],
    "Adadelta": [{}, {"rho": 0.5, "weight_decay": 0.1}, {"maximize": True}],
    "Adamax": [{}, {"weight_decay": 0.1}, {"maximize": True}],
    "NAdam": [
        {}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled_weight_decay": True}, {"momentum_decay": 0.1},
    ],
    "RAdam": [{}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled_weight_decay": True}, {"maximize": True}],
    "Rprop": [{}, {"etas": (0.3, 1.5), "step_sizes": (1e-3, 0.1)}, {"maximize": True}],
    "ASGD": [{}, {"lambd": 0.1, "alpha": 0.5}, {"t0": 5}, {"weight_decay": 0.1}],
}  # fmt: skip
CASES = [pytest.param(name, options, id=f"{name}-{options}") for name, every in OPTIONS.items() for options in every]


def values(dtype: str) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [np.asarray(random.standard_normal(shape)).astype(dtype) for shape in SHAPES]


def loss_of(params: list[Any], step: int) -> Any:
    """Smooth and gentle, so that rounding errors stay small; the third parameter has no gradient at times."""
    used = [(i, p) for i, p in enumerate(params) if i != 2 or step % 3]
    return sum((p * (0.3 * p + (i + step) % 3 - 1)).sum() for i, p in used)


def train(T: Any, name: str, options: dict[str, Any], dtype: str = "float32", steps: int = STEPS) -> tuple[Any, Any]:
    params = [T.tensor(v, requires_grad=True) for v in values(dtype)]
    optimizer = getattr(T.optim, name)(params, lr=0.01, **options)
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(params, step).backward()
        optimizer.step()
    return params, optimizer


def assert_close(mine: Any, theirs: Any, dtype: str) -> None:
    tolerance = 1e-11 if dtype == "float64" else 2e-4
    np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_trajectories_and_states(name: str, options: dict[str, Any], dtype: str) -> None:
    if name == "Rprop":
        dtype = "float64"  # a sign that rounds to the other side is another step
    (theirs, their), (mine, my) = (train(T, name, options, dtype) for T in (torch, gradcore))
    for a, b in zip(mine, theirs, strict=True):
        assert_close(a, b, dtype)
    expected, found = their.state_dict(), my.state_dict()
    assert found["param_groups"] == expected["param_groups"]
    assert {i: list(s) for i, s in found["state"].items()} == {i: list(s) for i, s in expected["state"].items()}
    for i, state in expected["state"].items():
        for key, value in state.items():
            assert str(found["state"][i][key].dtype) == str(value.dtype)
            loose = "float32" if value.dtype == torch.float32 else dtype
            assert_close(found["state"][i][key], value, loose)


@pytest.mark.parametrize("name", OPTIONS)
def test_complex_parameters(name: str) -> None:
    start = np.array([1 + 2j, -0.5j, 0.3, 2 - 1j])
    ends = []
    for T in (torch, gradcore):
        p = T.tensor(start, requires_grad=True)
        optimizer = getattr(T.optim, name)([p], lr=0.01)
        for _ in range(10):
            optimizer.zero_grad()
            (p * p.conj() * (1 + p.real)).real.sum().backward()
            optimizer.step()
        ends.append(p)
    assert_close(ends[1], ends[0], "float64")


@pytest.mark.parametrize("name", OPTIONS)
def test_printing(name: str) -> None:
    (_, their), (_, my) = (train(T, name, OPTIONS[name][-1], steps=1) for T in (torch, gradcore))
    their.add_param_group({"params": [torch.zeros(1, requires_grad=True)], "lr": 0.5})
    my.add_param_group({"params": [gradcore.zeros(1, requires_grad=True)], "lr": 0.5})
    assert repr(my) == repr(their)


@pytest.mark.parametrize(("name", "options"), [("SGD", {"momentum": 0.9}), ("Adam", {"amsgrad": True}), ("NAdam", {})])
def test_a_checkpoint_of_pytorch_goes_on(name: str, options: dict[str, Any]) -> None:
    params, their = train(torch, name, options, "float64", 7)
    saved = copy.deepcopy(their.state_dict())
    for state in saved["state"].values():
        state.update((key, gradcore.tensor(value.numpy())) for key, value in state.items())
    mine = [gradcore.tensor(p.detach().numpy().copy(), requires_grad=True) for p in params]
    my = getattr(gradcore.optim, name)(mine, lr=3.0)
    my.load_state_dict(saved)
    for step in range(5):
        for ps, optimizer in ((params, their), (mine, my)):
            optimizer.zero_grad()
            loss_of(ps, step).backward()
            optimizer.step()
    for a, b in zip(mine, params, strict=True):
        assert_close(a, b, "float64")


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_as_close_as_pytorch(name: str, dtype: str) -> None:
    """To the trajectory of float32, on which both round."""
    ends = {}
    for T, kind in ((torch, dtype), (gradcore, dtype), (gradcore, "float32")):
        p = T.tensor(np.linspace(0.5, 2, 40), dtype=getattr(T, kind), requires_grad=True)
        optimizer = getattr(T.optim, name)([p], lr=0.05)
        for _ in range(10):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
        assert str(p.dtype) == f"torch.{kind}"
        ends[T.__name__, kind] = p.detach().float().numpy()
    right = ends["gradcore", "float32"]
    mine, theirs = (np.abs(ends[name, dtype] - right).max() for name in ("gradcore", "torch"))
    assert mine <= 1.5 * theirs + 1e-3


@pytest.mark.parametrize("name", OPTIONS)
def test_gradients_flow_through_a_step(name: str) -> None:
    """Of the parameters after two steps, with respect to where they and the gradients started."""
    found = []
    for T in (torch, gradcore):
        start, grad = (T.tensor(v, dtype=T.float64, requires_grad=True) for v in ([0.5, -1.0], [0.3, 0.2]))
        p = start.clone()
        options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
        optimizer = getattr(T.optim, name)([p], lr=0.1, differentiable=True, **options)
        p.grad = grad * 2
        optimizer.step()
        (p * p).sum().backward()
        found.append((p, start.grad, grad.grad))
    for mine, theirs in zip(*reversed(found), strict=True):
        if theirs is not None:
            assert_close(mine, theirs, "float32")  # the count of steps is float32


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": -1.0}), ("SGD", {"momentum": -1}), ("SGD", {"weight_decay": -1.0}), ("SGD", {"nesterov": True}),
        ("SGD", {"fused": True, "foreach": True}), ("SGD", {"fused": True, "differentiable": True}),
        ("Adam", {"lr": float("nan")}), ("Adam", {"betas": (1.0, 0.9)}), ("Adam", {"betas": (0.9, -1.0)}),
        ("Adam", {"betas": (0, 0.9)}), ("Adam", {"eps": -1.0}), ("AdamW", {"weight_decay": -0.1}),
        ("Adagrad", {"lr_decay": -1}), ("Adagrad", {"initial_accumulator_value": -1}), ("RMSprop", {"alpha": -1.0}),
        ("Adadelta", {"rho": 2.0}), ("NAdam", {"momentum_decay": -1.0}), ("Rprop", {"etas": (1.0, 2.0)}),
        ("ASGD", {"lr": -1}), ("Adamax", {"betas": (2.0, 0.1)}), ("RAdam", {"eps": -1}),
    ],
)  # fmt: skip
def test_errors_of_options(name: str, options: dict[str, Any]) -> None:
    caught = []
    for T in (torch, gradcore):
        with pytest.raises(Exception) as info:
            getattr(T.optim, name)([T.zeros(1, requires_grad=True)], **options)
        caught.append((type(info.value), str(info.value)))
    assert caught[0] == caught[1]


def _leaf(T: Any) -> Any:
    return T.zeros(1, requires_grad=True)


def _tensor_lr(T: Any) -> Any:
    return T.optim.SGD([_leaf(T)], lr=T.tensor([1.0, 2.0]))


def _mismatch(T: Any) -> None:
    state = T.optim.SGD([_leaf(T), _leaf(T)], lr=1).state_dict()
    T.optim.SGD([_leaf(T)], lr=1).load_state_dict(state)


def _groups(T: Any) -> None:
    state = T.optim.SGD([{"params": [_leaf(T)]}, {"params": [_leaf(T)]}], lr=1).state_dict()
    T.optim.SGD([_leaf(T)], lr=1).load_state_dict(state)


def _twice(T: Any) -> None:
    x = _leaf(T)
    T.optim.SGD([{"params": [x]}, {"params": [x]}], lr=1)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda T: T.optim.SGD([]), lambda T: T.optim.SGD(T.zeros(2)), lambda T: T.optim.SGD([3]),
        lambda T: T.optim.SGD(["x"]), lambda T: T.optim.SGD([_leaf(T) * 2]),
        lambda T: T.optim.SGD([{"params": {_leaf(T)}}]),
        lambda T: T.optim.SGD([_leaf(T)]).add_param_group([_leaf(T)]), _tensor_lr, _mismatch, _groups, _twice,
        lambda T: T.optim.SGD([("a", _leaf(T)), _leaf(T)]),
        lambda T: T.optim.SGD([("a", _leaf(T))]).add_param_group({"params": [_leaf(T)]}),
        lambda T: T.optim.Optimizer([_leaf(T)], {}).step(),
        lambda T: T.optim.Adam([_leaf(T)], lr=T.tensor(0.1), foreach=True),
    ],
)  # fmt: skip
def test_errors_of_use(wrong: Any) -> None:
    caught = []
    for T in (torch, gradcore):
        with pytest.raises(Exception) as info:
            wrong(T)
        caught.append((type(info.value), str(info.value)))
    assert caught[0] == caught[1]
