"""Steps after a parameter or its gradient has got data of another dtype or shape."""

from __future__ import annotations

from typing import Any

import pytest

import gradcore as gc

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {}), ("RMSprop", {}), ("Adagrad", {}),
]  # fmt: skip


def trained(name: str, options: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Return an optimizer after one step, and its three parameters of four elements."""
    params = [gc.linspace(i, i + 1, 4).requires_grad_() for i in range(3)]
    optimizer = getattr(gc.optim, name)(params, lr=0.1, **options)
    step(optimizer, params)
    return optimizer, params


def step(optimizer: Any, params: list[Any]) -> None:
    optimizer.zero_grad()
    sum(p.double().square().sum() for p in params).backward()
    optimizer.step()


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_another_dtype(name: str, options: dict[str, Any], is_compiled: bool) -> None:
    optimizer, params = trained(name, options)
    expected_optimizer, expected = trained(name, options)
    run = gc.compile(step, options={"cpp": False}) if is_compiled else step
    for i in (1, 0):
        params[i].data = params[i].data.double()
        for _ in range(4):
            run(optimizer, params)
            step(expected_optimizer, expected)
        for p, q in zip(params, expected, strict=True):
            assert gc.allclose(p.detach().float(), q.detach(), rtol=1e-5, atol=1e-6)
    assert [p.dtype for p in params] == [gc.float64, gc.float64, gc.float32]


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_gradient_of_the_former_dtype(name: str, options: dict[str, Any]) -> None:
    optimizer, params = trained(name, options)
    expected_optimizer, expected = trained(name, options)
    params[1].data = params[1].data.double()
    params[2].grad.data = params[2].grad.double()
    for _ in range(3):
        optimizer.step()
        expected_optimizer.step()
    for p, q in zip(params, expected, strict=True):
        assert gc.allclose(p.detach().float(), q.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(7,), (2,), (2, 2), (1,), ()])
@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_another_shape(name: str, options: dict[str, Any], shape: tuple[int, ...]) -> None:
    optimizer, params = trained(name, options)
    params[0].data = gc.ones(*shape) if shape else gc.tensor(1.0)
    with pytest.raises(RuntimeError, match=r"a parameter of shape .* has"):
        optimizer.step()
    optimizer, params = trained(name, options)
    params[0].grad.data = gc.ones(*shape) if shape else gc.tensor(1.0)
    with pytest.raises(RuntimeError, match=r"a parameter of shape .* has a gradient of shape"):
        optimizer.step()
    optimizer, params = trained(name, options)
    params[0].data = gc.ones(*shape) if shape else gc.tensor(1.0)
    if name == "SGD" and not options:
        step(optimizer, params)
        assert params[0].shape == shape
        assert gc.allclose(params[0].detach(), gc.tensor(0.8))
    else:
        with pytest.raises(RuntimeError, match=r"a parameter of shape .* has the state"):
            step(optimizer, params)


@pytest.mark.parametrize("part", [slice(None), slice(2), slice(1, 4), slice(None, None, 2)])
@pytest.mark.parametrize(("name", "options"), [*OPTIONS, ("AdamW", {}), ("NAdam", {}), ("Rprop", {}), ("ASGD", {})])
def test_parameters_that_share_memory_take_their_steps_one_after_the_other(
    name: str, options: dict[str, Any], part: slice
) -> None:
    """They do what optimizers of their own do, in the order of the parameters."""
    found = []
    for alone in (False, True):
        params = [gc.linspace(i, i + 1, 4).requires_grad_() for i in range(4)]
        groups = [[p] for p in params] if alone else [params]
        optimizers = [getattr(gc.optim, name)(group, lr=0.1, **options) for group in groups]
        for k in range(6):
            if k == 2:
                params[0].data = params[2].data[part]
                params[3].data = params[1].data[part]
            for i, p in enumerate(params):
                p.grad = gc.full_like(p, i - 1.5 + k)
            for optimizer in optimizers:
                if k == 2:
                    optimizer.state.clear()
                optimizer.step()
        found.append([p.tolist() for p in params])
    assert found[0] == [pytest.approx(values, rel=1e-5, abs=1e-6) for values in found[1]]


def test_parameters_without_memory_take_a_step() -> None:
    layer = gc.nn.Linear(3, 2, device="meta")
    optimizer = gc.optim.Adam(layer.parameters())
    for p in layer.parameters():
        p.grad = gc.empty_like(p)
    optimizer.step()
    assert optimizer.state[layer.weight]["exp_avg"].device.type == "meta"
