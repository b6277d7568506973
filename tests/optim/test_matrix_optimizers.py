"""Adafactor and Muon: what they keep, that they learn, devices, closures, checkpoints."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import gradcore as gc
from tests.strict.device import COUNTS

KINDS = {"Adafactor": {"lr": 1.0}, "Muon": {"lr": 0.1, "weight_decay": 0.0}}


def trained(name: str, device: str = "cpu", steps: int = 30, dtype: Any = gc.float32) -> tuple[Any, Any, list[float]]:
    """Fit a matrix to a target."""
    target = gc.arange(12.0).reshape(3, 4).cos().to(device, dtype)
    p = gc.zeros(3, 4, device=device, dtype=dtype, requires_grad=True)
    optimizer = getattr(gc.optim, name)([p], **KINDS[name])

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (p - target).square().sum()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(steps)]
    return p, optimizer, losses


@pytest.mark.parametrize("name", KINDS)
def test_losses_fall(name: str) -> None:
    *_, losses = trained(name)
    assert min(losses) < 0.1 * losses[0]


def test_adafactor_keeps_rows_and_columns() -> None:
    p, optimizer, _ = trained("Adafactor", steps=1)
    assert {k: tuple(v.shape) for k, v in optimizer.state[p].items()} == {
        "step": (), "row_var": (3, 1), "col_var": (1, 4),
    }  # fmt: skip
    empty = gc.zeros(0, requires_grad=True)
    optimizer = gc.optim.Adafactor([empty])
    empty.grad = gc.zeros(0)
    optimizer.step()
    assert list(optimizer.state[empty]) == ["step", "variance"]


def test_muon_makes_singular_values_equal() -> None:
    p = gc.zeros(6, 4, requires_grad=True)
    p.grad = gc.eye(6, 4) @ gc.diag(gc.tensor([100.0, 50.0, 20.0, 10.0])) @ gc.linalg.qr(gc.ones(4, 4) + gc.eye(4))[0]
    gc.optim.Muon([p], lr=1.0, weight_decay=0.0).step()
    values = gc.linalg.svdvals(p.detach()) / (6 / 4) ** 0.5
    assert 0.5 < float(values.min()) < float(values.max()) < 1.3


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("dtype", [gc.float64, gc.bfloat16])
def test_dtypes_are_kept(name: str, dtype: Any) -> None:
    p, optimizer, _ = trained(name, steps=2, dtype=dtype)
    assert p.dtype is dtype
    assert {t.dtype for key, t in optimizer.state[p].items() if key != "step"} == {dtype}


@pytest.mark.parametrize("name", KINDS)
def test_on_a_device(name: str, strict: str) -> None:
    p, optimizer, losses = trained(name, strict, steps=3)
    assert losses == pytest.approx(trained(name, steps=3)[2], rel=1e-2)
    COUNTS.clear()
    optimizer.step()
    assert not COUNTS  # neither copies nor waiting
    assert {str(t.device) for key, t in optimizer.state[p].items() if key != "step"} == {strict}


@pytest.mark.parametrize("name", KINDS)
def test_checkpoints(name: str) -> None:
    p, optimizer, _ = trained(name, steps=3)
    q = p.detach().clone().requires_grad_()
    other = getattr(gc.optim, name)([q])
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for each in (p, q):
        each.grad = gc.ones_like(each)
    optimizer.step()
    other.step()
    assert gc.equal(p, q)


@pytest.mark.parametrize("name", KINDS)
def test_parameters_without_gradients_stay(name: str) -> None:
    p = gc.ones(2, 2, requires_grad=True)
    optimizer = getattr(gc.optim, name)([p])
    optimizer.step()
    assert gc.equal(p, gc.ones(2, 2))
    assert not optimizer.state


@pytest.mark.parametrize(("name", "write"), [("Adafactor", "sub_"), ("SparseAdam", "add_"), ("Adagrad", "add_")])
def test_a_step_that_fails_is_not_counted(name: str, write: str, monkeypatch: pytest.MonkeyPatch) -> None:
    p = gc.ones(3, 2, requires_grad=True)
    optimizer = getattr(gc.optim, name)([p])

    def step() -> Any:
        p.grad = None
        is_sparse = name != "Adafactor"
        gc.nn.functional.embedding(gc.tensor([0, 1]), p, sparse=is_sparse).sum().backward()
        optimizer.step()
        return gc.as_tensor(optimizer.state[p]["step"]).item()

    def fail(*args: Any, **kwargs: Any) -> None:
        raise MemoryError

    assert step() == 1
    with monkeypatch.context() as patch:
        patch.setattr(gc.Tensor, write, fail)
        with pytest.raises(MemoryError):
            step()
    assert step() == 2


def test_sparse_adam_refuses_complex_parameters():
    real, imaginary = gc.nn.Parameter(gc.ones(2)), gc.nn.Parameter(gc.ones(2, dtype=gc.complex64))
    with pytest.raises(ValueError, match=r"Complex params at indices \[\[1, 0\]\]: SparseAdam does not"):
        gc.optim.SparseAdam([{"params": [real]}, {"params": [imaginary]}])
