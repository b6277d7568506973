"""Formulas and generated functions show in tracebacks and in `inspect`, by names of their own and with their source."""

from __future__ import annotations

import inspect
import linecache
import traceback
from typing import Any

import pytest

import gradcore as gc
from gradcore.autograd.derivatives import PLANS, UNCHANGED
from gradcore.autograd.record import recorder
from gradcore.core.config import set_traceback
from gradcore.dispatch.fast_path import fast_path, has_fast_path
from gradcore.dispatch.general import apply
from gradcore.ops.declare.table import OPS

FORMULAS = [
    (op, formula) for op in OPS.values() for table in (op.vjps, op.differentials, op.jvps) for formula in table.values()
]


def test_formulas_have_names() -> None:
    assert len(FORMULAS) > 500
    nameless = [op.name for op, f in FORMULAS if f.function.__code__.co_name in ("<lambda>", "_", "formula")]
    assert not nameless
    assert OPS["mul"].differentials["other"].function.__name__ == "mul_jvp_other"
    assert OPS["sum"].vjps["self"].function.__name__ == "sum_vjp_self"


def frames(call: Any) -> list[traceback.FrameSummary]:
    before = gc.config.get_traceback()
    set_traceback("full")
    try:
        with pytest.raises(Exception) as caught:
            call()
        return list(traceback.extract_tb(caught.value.__traceback__))
    finally:
        set_traceback(before)


def test_the_traceback_of_a_failing_formula_says_which() -> None:
    x = gc.rand(3, requires_grad=True)
    y = x * gc.rand(3)
    node = y.grad_fn
    node.saved = (None, gc.rand(2))  # fits no gradient of this node
    found = frames(lambda: y.backward(gc.ones(3)))
    assert found[-1].name == "mul_jvp_self"
    assert found[-1].line
    assert all(frame.name not in ("<lambda>", "_") or frame.line for frame in found)


@pytest.mark.parametrize("name", ["mul", "exp", "cat", "select", "addmm", "max_dim"])
def test_generated_functions_have_their_source(name: str) -> None:
    op = OPS[name]
    text = inspect.getsource(recorder(op))
    assert text.startswith(f"def record_{name}(")
    assert "node.saved = " in text
    if has_fast_path(op):
        assert "node.saved = " in inspect.getsource(fast_path(op, apply))


def test_methods_have_their_source() -> None:
    x = gc.rand(3, requires_grad=True)
    x.mul(x)  # from the second call on, the function is its own
    assert "node.saved = " in inspect.getsource(type(x).mul)


def test_calls_of_formulas_have_their_source() -> None:
    y = gc.rand(3, requires_grad=True).sin()
    calls = PLANS["arrays"][type(y.grad_fn)][0]
    assert calls[0] is not UNCHANGED
    assert "function(F, grad, node.saved[0]._array)" in linecache.getline(calls[0].__code__.co_filename, 1)
