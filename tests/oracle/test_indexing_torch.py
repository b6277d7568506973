"""Indexing, views and in-place writes against PyTorch: values, gradients, names of nodes, versions, errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import gradcore as gc
from tests.ops import test_indexing as indexing
from tests.ops import test_views as views
from tests.ops.test_indexing import calls

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle


def of(library: Any, key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(library.tensor(k) if isinstance(k, np.ndarray) else k for k in key)


def described(t: Any) -> Any:
    node = None if t.grad_fn is None else type(t.grad_fn).__name__.replace("FillBackward3", "FillBackward2")
    return tuple(t.shape), node, t._is_view(), t._version, t.detach().tolist()


def outcome(run: Any) -> Any:
    """Return the result of `run`, or its error's type and message without dims, which PyTorch counts differently."""
    try:
        return run()
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        return type(error).__name__, re.sub("dimension [0-9]+ with", "dimension # with", str(error))


@given(calls(), st.integers(0, 3))
def test_reading(call: tuple[Any, Any], extra: int) -> None:
    values, key = call
    assume(not any(isinstance(k, slice) and (k.step or 1) < 0 for k in key))
    key = (*key, *[0] * extra)  # may be too many, or out of bounds

    def run(library: Any) -> Any:
        x = library.tensor(values, requires_grad=True)
        y = (x * 1)[of(library, key)]
        y.backward(library.ones_like(y))
        return described(y), y.is_contiguous(), x.grad.tolist()

    assert outcome(lambda: run(gc)) == outcome(lambda: run(torch))


@given(calls(), st.booleans())
def test_writing(call: tuple[Any, Any], number: bool) -> None:
    values, key = call
    assume(key and not all(k is Ellipsis for k in key))  # there PyTorch names the node after its own route
    assume(not any(isinstance(k, slice) and ((k.step or 1) < 0 or k.start or k.stop) for k in key))

    def run(library: Any) -> Any:
        x = library.tensor(values, requires_grad=True)
        v = library.tensor([2.0], dtype=library.float64, requires_grad=True)
        y = x * 1
        y[of(library, key)] = 2.5 if number else v
        weights = library.tensor(np.arange(1.0, 1.0 + values.size).reshape(values.shape))
        (y * weights).sum().backward()
        return described(y), x.grad.tolist(), None if v.grad is None else v.grad.tolist()

    assert outcome(lambda: run(gc)) == outcome(lambda: run(torch))


@pytest.mark.parametrize("name", [n for n in views.VIEWS if n != "x[::-2]"])
def test_views(name: str) -> None:
    make = views.VIEWS[name][0]

    def run(library: Any, what: str) -> Any:
        base = library.tensor(views.X, requires_grad=True) * 1
        view = make(base)
        if what == "write":
            view.mul_(2)
        elif what == "base":
            base.mul_(2)
        seen = [type(t.grad_fn).__name__ for t in (base, view)]
        steps = [step for n, step in zip(view.shape, view.stride(), strict=True) if n > 1]
        return described(base)[2:], described(view)[2:], steps, view.storage_offset(), seen[what == "read" :]

    for what in ("read", "write", "base"):
        found, wanted = outcome(lambda what=what: run(gc, what)), outcome(lambda what=what: run(torch, what))
        if what != "read" and len(wanted) > 2:  # PyTorch's new histories of views are as_strided's
            found, wanted = found[:4], wanted[:4]
        assert found == wanted


OWN = [call for call, *_ in (*indexing.ERRORS, *views.ERRORS) if "gc" not in call.__code__.co_names]


@pytest.mark.parametrize("number", range(len(OWN)))
def test_errors(number: int) -> None:
    """What is refused here is refused by PyTorch, with an error of the same type."""
    found = outcome(lambda: OWN[number](gc.tensor(views.X)))
    wanted = outcome(lambda: OWN[number](torch.tensor(views.X)))
    assert isinstance(wanted, tuple)
    assert found[0] == wanted[0]
