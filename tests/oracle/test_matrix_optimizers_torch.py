"""Adafactor and Muon step as PyTorch's do: trajectories, states, checkpoints, printing, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

MATRICES = ((4, 5), (5, 3), (1, 6), (16, 16))
SHAPES = {"Adafactor": ((), (3,), (2, 3, 4), *MATRICES), "Muon": MATRICES}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "Adafactor": [
        {}, {"lr": 0.5, "weight_decay": 0.1}, {"beta2_decay": -0.3, "d": 2.0}, {"eps": (1e-2, 0.1)},
        {"maximize": True, "lr": 0.1}, {"lr": "tensor"},
    ],
    "Muon": [
        {}, {"lr": 0.05, "weight_decay": 0.5}, {"nesterov": False, "momentum": 0.5},
        {"adjust_lr_fn": "match_rms_adamw"},
        {"ns_steps": 2, "ns_coefficients": (2.0, -1.5, 0.5), "eps": 1e-3}, {"lr": "tensor"},
    ],
}  # fmt: skip
CASES = [(name, options) for name, every in OPTIONS.items() for options in every]


def train(T: Any, name: str, options: dict[str, Any], dtype: str, steps: int) -> tuple[Any, Any]:
    random = np.random.default_rng(1)
    params = [T.tensor(np.asarray(random.standard_normal(s)).astype(dtype), requires_grad=True) for s in SHAPES[name]]
    targets = [T.tensor(np.asarray(random.standard_normal(s)).astype(dtype)) for s in SHAPES[name]]
    options = {k: T.tensor(0.02) if v == "tensor" else v for k, v in options.items()}
    optimizer = getattr(T.optim, name)(params, **options)
    for step in range(steps):
        optimizer.zero_grad()
        pairs = list(enumerate(zip(params, targets, strict=True)))
        sum(((p - t) ** 2).sum() * (i + 1) for i, (p, t) in pairs if i != 2 or step % 3).backward()
        optimizer.step()
    return params, optimizer


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_trajectories_and_states(name: str, options: dict[str, Any], dtype: str) -> None:
    steps = 20
    (mine, my), (theirs, their) = (train(T, name, options, dtype, steps) for T in (gradcore, torch))
    lr = 0.02 if options.get("lr") == "tensor" else options.get("lr", 1e-3)
    # Muon computes in bfloat16, in which sums depend on their order.
    tolerance = 0.05 * lr * steps if name == "Muon" else 2e-5 if dtype == "float32" else 1e-6
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)
    found, expected = my.state_dict(), their.state_dict()
    assert str(found["param_groups"]) == str(expected["param_groups"])
    for i, state in expected["state"].items():
        assert list(found["state"][i]) == list(state)
        for key, value in state.items():
            mine_value = found["state"][i][key]
            assert (tuple(mine_value.shape), str(mine_value.dtype)) == (tuple(value.shape), str(value.dtype))
            np.testing.assert_allclose(mine_value.numpy(), value.numpy(), rtol=1e-2, atol=tolerance * 10)


@pytest.mark.parametrize("name", OPTIONS)
def test_checkpoints_of_pytorch_go_on(name: str) -> None:
    _, their = train(torch, name, {}, "float64", 5)
    params, my = train(gradcore, name, {}, "float64", 1)
    state = their.state_dict()
    state["state"] = {i: {k: gradcore.tensor(v.numpy()) for k, v in s.items()} for i, s in state["state"].items()}
    my.load_state_dict(state)
    for p in params:
        p.grad = gradcore.ones_like(p)
    my.step()
    key = "step" if name == "Adafactor" else "momentum_buffer"
    assert all(key in s for s in my.state.values())
    if name == "Adafactor":
        assert float(my.state[params[0]]["step"]) == 6.0


@pytest.mark.parametrize("name", OPTIONS)
def test_printing(name: str) -> None:
    assert repr(train(gradcore, name, {}, "float32", 0)[1]) == repr(train(torch, name, {}, "float32", 0)[1])


ERRORS = [
    ("Adafactor", {"lr": -1.0}), ("Adafactor", {"beta2_decay": 0.1}), ("Adafactor", {"eps": (-1.0, 1e-3)}),
    ("Adafactor", {"eps": (None, -1.0)}), ("Adafactor", {"d": 0.5}), ("Adafactor", {"weight_decay": -1.0}),
    ("Muon", {"lr": -1.0}), ("Muon", {"momentum": -1.0}), ("Muon", {"weight_decay": -1.0}),
    ("Muon", {"adjust_lr_fn": "other"}), ("Muon", {"ns_steps": 100}), ("Muon", {"ns_coefficients": (1.0, 2.0)}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "options"), [*ERRORS, ("Muon", "vector"), ("Muon", "complex"), ("Adafactor", "complex")]
)
def test_errors(name: str, options: Any) -> None:
    def message(T: Any) -> tuple[str, str]:
        p = T.ones(3, requires_grad=True) if options == "vector" else T.ones(2, 2, requires_grad=True)
        if options == "complex":
            p = T.ones(2, 2, dtype=T.complex64, requires_grad=True)
        p.grad = T.ones_like(p)
        with pytest.raises((ValueError, RuntimeError)) as raised:
            getattr(T.optim, name)([p], **(options if isinstance(options, dict) else {})).step()
        return type(raised.value).__name__, str(raised.value)

    assert message(gradcore) == message(torch)
