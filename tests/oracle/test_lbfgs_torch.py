"""LBFGS takes PyTorch's steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]


def rosenbrock(T: Any, x: Any, y: Any) -> Any:
    z = T.cat([x, y.reshape(-1)])
    return (100 * (z[1:] - z[:-1] ** 2) ** 2 + (1 - z[:-1]) ** 2).sum()


def quartic(T: Any, x: Any, y: Any) -> Any:
    return ((x - 1) ** 4).sum() + (x.sum() - y.sum()) ** 2 + (y * y).sum()


def train(T: Any, function: Any, steps: int, **options: Any) -> Any:
    x = T.tensor([-1.2, 1.0, 0.5], dtype=T.float64, requires_grad=True)
    y = T.tensor([[0.3, -0.4], [1.0, 0.7]], dtype=T.float64, requires_grad=True)
    optimizer = T.optim.LBFGS([x, y], **options)
    losses = []

    def closure() -> Any:
        optimizer.zero_grad()
        loss = function(T, x, y)
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return optimizer, losses, [x, y]


@pytest.mark.parametrize("function", [rosenbrock, quartic])
@pytest.mark.parametrize(
    "options",
    [
        {"line_search_fn": "strong_wolfe"}, {"line_search_fn": "strong_wolfe", "history_size": 3, "lr": 0.3},
        {"line_search_fn": "strong_wolfe", "max_iter": 4, "lr": 5.0}, {"lr": 1e-3}, {"lr": 1e-3, "max_eval": 7},
        {"line_search_fn": "strong_wolfe", "max_eval": 6}, {"lr": 1e-3, "history_size": 2, "max_iter": 5},
    ],
)  # fmt: skip
def test_every_evaluation(function: Any, options: dict[str, Any]) -> None:
    (their, expected, theirs), (my, found, mine) = (train(T, function, 3, **options) for T in (torch, gradcore))
    assert len(found) == len(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-7)
    states = [next(iter(o.state_dict()["state"].values())) for o in (their, my)]
    assert states[0]["n_iter"] == states[1]["n_iter"]
    assert states[0]["func_evals"] == states[1]["func_evals"] == len(expected)
    assert states[0].keys() - {"al"} == states[1].keys()


def test_complex_parameters() -> None:
    def end(T: Any) -> Any:
        z = T.tensor([1 + 2j, -0.5j], requires_grad=True)
        optimizer = T.optim.LBFGS([z], line_search_fn="strong_wolfe")

        def closure() -> Any:
            optimizer.zero_grad()
            loss = ((z - 1j).abs() ** 2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        return z.detach().numpy()

    np.testing.assert_allclose(end(gradcore), end(torch), atol=1e-5)
    np.testing.assert_allclose(end(gradcore), [1j, 1j], atol=1e-5)


def test_errors() -> None:
    for T in (torch, gradcore):
        x, y = (T.zeros(1, requires_grad=True) for _ in range(2))
        with pytest.raises(ValueError, match="doesn't support per-parameter options"):
            T.optim.LBFGS([{"params": [x]}, {"params": [y]}])
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'closure'"):
            T.optim.LBFGS([x]).step()
        optimizer = T.optim.LBFGS([x], line_search_fn="other")

        def closure(x: Any = x) -> Any:
            loss = ((x - 1) ** 2).sum()
            loss.backward()
            return loss

        with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
            optimizer.step(closure)
