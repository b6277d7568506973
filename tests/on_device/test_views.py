"""Whatever shares memory on the CPU shares it on the device: writes through views, their history, and what is saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from tests.on_device.comparing import agree, outcome
from tests.ops.cases import ALL, Drawn

VIEWS = sorted({case.op.name for case in ALL if case.op.view})


def written(case: Drawn, device: str, write: str, twice: bool) -> list[Any]:
    """Return the base after a write through its view, and the gradients by the base's and the written values."""
    arrays = case.arrays()
    leaf = gc.tensor(np.asarray(arrays[0]), device=device)
    leaf.requires_grad_(leaf.is_floating_point() or leaf.is_complex())
    base = leaf * 1 if leaf.requires_grad else leaf.clone()
    product = base * base
    outs = case.outputs([base, *(gc.tensor(np.asarray(a), device=device) for a in arrays[1:])])
    if twice:
        outs = case.outputs([outs[0], *(gc.tensor(np.asarray(a), device=device) for a in arrays[1:])])
    facts = [_facts(o) for o in outs]
    part = outs[-1]
    with gc.no_grad() if case.op.variadic else gc.enable_grad():
        part.zero_() if write == "zero" else part.copy_(part.detach() * 3)
    found = [base, *outs, *facts, gc.tensor(base._version)]
    if leaf.requires_grad and not case.op.variadic:
        found += gc.autograd.grad(base.abs().sum(), leaf, retain_graph=True)
        stale = outcome(lambda: product.abs().sum().backward() or [])
        found.append(gc.tensor(isinstance(stale, RuntimeError) and "modified by an inplace" in str(stale)))
    return found


def _facts(t: Any) -> Any:
    """Where a tensor lies; the stride of a dim with one element is anything."""
    steps = [step for step, size in zip(t.stride(), t.shape, strict=True) if size > 1 and t.numel()]
    return gc.tensor([t._is_view(), t.storage_offset() if t.numel() else 0, *steps])


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("write", ["zero", "copy"])
@pytest.mark.parametrize("name", VIEWS)
def test_writes_through_views(name: str, write: str, twice: bool) -> None:
    for case in (case for case in ALL if case.op.name == name):
        here, there = (outcome(written, case, d, write, twice) for d in ("cpu", "cuda"))
        agree(there, here, case.label)


@pytest.mark.parametrize("seed", range(40))
def test_chains_of_views(seed: int) -> None:
    """Views of views, drawn, among them those of any strides."""

    def run(device: str) -> list[Any]:
        rng = np.random.default_rng(seed)
        leaf = gc.arange(24.0, device=device, requires_grad=True)
        base = leaf * 1
        view = base.view(2, 3, 4)
        for _ in range(rng.integers(1, 5)):
            choice = rng.integers(6)
            if choice == 0:
                view = view.transpose(0, -1)
            elif choice == 1:
                view = view[..., rng.integers(0, 2) :]
            elif choice == 2 and view.ndim and view.shape[0] > 1:
                view = view.unfold(0, 2, int(rng.integers(1, 3)))
            elif choice == 3 and view.ndim > 1:
                view = view.diagonal(0, 0, 1)
            elif choice == 4 and view.numel() > 2:
                view = view.as_strided((2,), (int(rng.integers(1, 4)),), int(rng.integers(0, 12)))
            else:
                view = view.unsqueeze(0).expand(1, *view.shape)
        facts = _facts(view)
        view.mul_(3)
        (slope,) = gc.autograd.grad((base * gc.arange(24.0, device=device)).sum(), leaf)
        return [base, view, facts, slope]

    agree(outcome(run, "cuda"), outcome(run, "cpu"), f"seed {seed}")


def test_gradients_that_are_views_stay_as_they_are_given() -> None:
    """A gradient that is handed in is not summed into, where formulas pass on views of it."""
    x = gc.randn(3, 2, requires_grad=True)
    y = gc.view_as_complex(x)
    given = gc.ones(3, dtype=gc.complex64)
    y.backward(given, retain_graph=True)
    y.backward(given)
    np.testing.assert_array_equal(given.numpy(), np.ones(3))
    np.testing.assert_array_equal(x.grad.numpy(), 2 * gc.view_as_real(given).numpy())
