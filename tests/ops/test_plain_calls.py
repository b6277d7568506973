"""The function written for an operation does what the general call does, and does it itself."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd import forward_ad
from tests.ops.cases import ALL, Drawn
from tests.ops.test_every_op import by_label, cotangents, floating, tensors


def history(out: gc.Tensor) -> object:
    """What is recorded: the node's name and which of its edges lead somewhere."""
    if out.grad_fn is None:
        return None
    return out.grad_fn.name(), [node is not None and node.name() for node, _ in out.grad_fn.next_functions]


@by_label([case for case in ALL if not case.op.random])
def test_plain_calls_are_general_calls(case: Drawn) -> None:
    case.outputs(tensors(case, grad=False))  # a function's first call is general
    ins, general_ins = tensors(case), tensors(case)
    outs = case.outputs(ins)
    with forward_ad.dual_level():  # with any mode but recording, calls are general
        general = case.outputs(general_ins)
    assert len(outs) == len(general)
    for out, other in zip(outs, general, strict=True):
        assert (out.dtype, out.device, out._is_view()) == (other.dtype, other.device, other._is_view())
        assert history(out) == history(other)
        np.testing.assert_array_equal(out.detach().numpy(), other.detach().numpy())
    recorded, also = floating(outs), floating(general)
    assert len(recorded) == len(also)
    if recorded:
        gc.autograd.backward(recorded, cotangents(recorded))
        gc.autograd.backward(also, cotangents(also))
    for t, other in zip(ins, general_ins, strict=True):
        assert (t.grad is None) == (other.grad is None)
        if t.grad is not None and other.grad is not None:
            np.testing.assert_array_equal(t.grad.numpy(), other.grad.numpy())


CALLS = {
    "mul": lambda x, y: gc.mul(x, y),
    "mul_number": lambda x, y: gc.mul(x, 2.5),
    "exp": lambda x, y: gc.exp(x),
    "sum": lambda x, y: gc.sum(x, dim=1),
    "cat": lambda x, y: gc.cat([x, y]),
    "sort": lambda x, y: gc.sort(x, dim=1),
    "unbind": lambda x, y: gc.unbind(x),
    "transpose": lambda x, y: gc.transpose(x, 0, 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_second_call_is_the_functions_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = gc.ones(2, 3, requires_grad=True), gc.ones(2, 3)
    CALLS[name](x, y)
    function = getattr(gc, name.partition("_")[0])
    monkeypatch.setitem(function.__globals__, "general", None)
    CALLS[name](x, y)
    with pytest.raises(TypeError), forward_ad.dual_level():  # that one would be general
        CALLS[name](x, y)


def test_calls_leave_signatures_and_names_alone() -> None:
    before = inspect.signature(gc.Tensor.sub), gc.Tensor.sub.__qualname__
    x = gc.ones(2)
    assert x.sub(other=x, alpha=3).tolist() == [-2.0, -2.0]
    assert x.sub(other=x, alpha=3).tolist() == [-2.0, -2.0]
    assert (inspect.signature(gc.Tensor.sub), gc.Tensor.sub.__qualname__) == before


def test_methods_are_made_when_first_looked_up() -> None:
    assert {"logaddexp", "logaddexp_", "erfinv"} <= set(dir(gc.Tensor))
    assert gc.Tensor.logaddexp is gc.Tensor.logaddexp
    assert vars(gc.Tensor)["logaddexp"] is gc.Tensor.logaddexp
    assert gc.zeros(1).logaddexp(gc.zeros(1)).item() == pytest.approx(np.log(2))
