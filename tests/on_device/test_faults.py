"""Calls of CUDA that fail, one after another: the error is told, nothing is half changed, and work goes on after it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gradcore as gc

#: Kinds of calls, as the rig numbers them.
KINDS = {"allocation": 0, "launch": 1, "library": 2}

#: The most calls of a kind that a run makes.
MOST = 400


@pytest.fixture
def fail_at() -> Iterator[Callable[[int, int], None]]:
    process = ctypes.CDLL(None)
    if not hasattr(process, "cupyhost_fail_at"):
        pytest.skip("a GPU's calls do not fail on demand; the rig's do")
    fail: Callable[[int, int], None] = process.cupyhost_fail_at
    yield fail
    for kind in KINDS.values():
        fail(kind, 0)


def training() -> tuple[Callable[[], Any], Callable[[], list[Any]]]:
    """Backward of a small model, and its parameters."""
    gc.manual_seed(0)
    model = gc.nn.Sequential(gc.nn.Linear(5, 7), gc.nn.LayerNorm(7), gc.nn.GELU(), gc.nn.Linear(7, 3)).to("cuda")
    x = gc.randn(4, 5, device="cuda")

    def run() -> Any:
        model.zero_grad()
        loss = gc.nn.functional.cross_entropy(model(x), gc.tensor([0, 1, 2, 0], device="cuda"))
        loss.backward()
        return gc.cat([p.grad.flatten() for p in model.parameters()])

    return run, lambda: list(model.parameters())


def algebra() -> tuple[Callable[[], Any], Callable[[], list[Any]]]:
    """Factorisations of a batch, with gradients."""
    gc.manual_seed(0)
    a = (gc.randn(3, 4, 4, device="cuda") + 5 * gc.eye(4, device="cuda")).requires_grad_()

    def run() -> Any:
        s = a @ a.mT
        found = gc.linalg.inv(a).sum() + gc.linalg.solve(a, s).sum() + gc.linalg.cholesky(s).sum()
        (slope,) = gc.autograd.grad(found + gc.linalg.eigvalsh(s).sum() + gc.linalg.svdvals(a).sum(), a)
        return slope

    return run, lambda: [a]


def in_place() -> tuple[Callable[[], Any], Callable[[], list[Any]]]:
    """Sorting, indexing, sums: of a copy."""
    x = gc.linspace(-1, 1, 60, device="cuda").reshape(6, 10)

    def run() -> Any:
        y = x.sin().sort(-1).values.cumsum(0)
        y[gc.tensor([0, 2], device="cuda")] += 1
        return y.softmax(-1) @ x.mT + x.argmax(-1)

    return run, lambda: [x]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("made", [training, algebra, in_place])
@pytest.mark.filterwarnings("ignore")
def test_each_call_that_fails(fail_at: Callable[[int, int], None], made: Callable[[], Any], kind: str) -> None:
    run, kept = made()
    expected = run().cpu()
    before = [t.detach().cpu() for t in kept()]
    failed = 0
    for n in range(1, MOST):
        if kind == "allocation":
            gc.cuda.empty_cache()
        fail_at(KINDS[kind], n)
        try:
            found: Any = run().cpu()
        except Exception as error:
            found = error
        fail_at(KINDS[kind], 0)
        if not isinstance(found, Exception):
            assert gc.equal(found, expected), f"call {n} failed, and the result is another"
            if kind != "allocation" or n > 30:  # (memory is asked for again once what is unused has been given back)
                break
            continue
        failed += 1
        assert isinstance(found, gc.OutOfMemoryError) == (kind == "allocation"), f"call {n}: {found!r}"
        assert str(found), f"call {n}: {found!r}"
        assert all(gc.equal(t.detach().cpu(), b) for t, b in zip(kept(), before, strict=True))
        assert gc.equal(run().cpu(), expected), f"after a failure of call {n}"
    assert n < MOST - 1
    assert failed or kind == "allocation" or (kind, made) == ("library", in_place)
