"""The function written for an operation does what the general call does, and does it itself."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd import forward_ad
from gradcore.dispatch import inplace
from gradcore.ops.declare.table import OPS, Op
from tests.ops.cases import ALL, Drawn
from tests.ops.test_every_op import by_label, cotangents, floating, tensors


def history(out: gc.Tensor) -> object:
    """Return the name of the node and those of the nodes that its edges lead to."""
    if out.grad_fn is None:
        return None
    return out.grad_fn.name(), [node is not None and node.name() for node, _ in out.grad_fn.next_functions]


@by_label([case for case in ALL if not case.op.random])
def test_the_fast_path_does_what_the_general_call_does(case: Drawn) -> None:
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


def outcome(op: Op, args: list[Any]) -> object:
    """Return the dtype, node, elements and memory layout of a call's result, or its error."""
    positional = [a for a, p in zip(args, op.parameters, strict=True) if p.kind is not p.KEYWORD_ONLY]
    named = {p.name: a for a, p in zip(args, op.parameters, strict=True) if p.kind is p.KEYWORD_ONLY}
    try:
        out = op.call(*positional, **named)
    except Exception as error:
        return type(error), str(error)
    return out.dtype, history(out), out.detach().numpy().tobytes(), out.stride()


def draw_arguments(op: Op, dtype: gc.dtype) -> Iterator[list[Any]]:
    """Yield arguments of calls: tensors of `dtype` with several settings, and numbers or tensors of another dtype."""
    args: list[Any] = [1 if p.default is p.empty else p.default for p in op.parameters]
    for i, p in enumerate(op.tensors):
        numbers = (gc.arange(6).reshape(2, 3) * 5 + i) % 7
        args[p] = numbers > 2 if dtype is gc.bool or p in op.keeps_dtype else numbers.to(dtype)
        args[p].requires_grad_(args[p].is_complex())
    yield args
    for i in op.numeric_settings:
        yield from ([*args[:i], value, *args[i + 1 :]] for value in (2, 2.5, -1, True, 200))
    if len(op.tensors) > 1:
        p, other = op.tensors[-1], args[op.tensors[-1]]
        yield from (
            [*args[:p], value, *args[p + 1 :]] for value in (3, 2.5, True, 300, 2j, 0, other[0], gc.ones(2, 3).double())
        )


ELEMENTWISE = [op for op in OPS.values() if op.kind == "elementwise" and op.results_of_dtypes]


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_the_fast_path_computes_all_dtypes_as_the_general_call_does(op: Op) -> None:
    for dtype in (gc.float32, gc.bool, gc.uint8, gc.int8, gc.int64, gc.complex64):
        for args in draw_arguments(op, dtype):
            outcome(op, args)  # a function's first call is general
            found = outcome(op, args)
            with forward_ad.dual_level():
                assert found == outcome(op, args), args


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("add", gc.int64), ("eq", gc.int8), ("neg", gc.uint8), ("bitwise_and", gc.bool)],
)
def test_tensors_of_one_dtype_take_the_fast_path(name: str, dtype: gc.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = [gc.ones(3, dtype=dtype)] * len(OPS[name].tensors)
    function = getattr(gc, name)
    expected = function(*tensors)
    monkeypatch.setitem(function.__globals__, "general", None)
    assert gc.equal(function(*tensors), expected)


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


# -- writes into memory where nothing is recorded ---------------------------------------------------------------------

WRITES = {
    "add_": lambda x, y: x.add_(y),
    "mul_number": lambda x, y: x.mul_(2.5),
    "isub": lambda x, y: operator.isub(x, y),
    "div_row": lambda x, y: x.div_(y[0]),
    "exp_": lambda x, y: x.exp_(),
    "add_alpha": lambda x, y: x.add_(y, alpha=3),
    "add_half": lambda x, y: x.add_(y.half()),
    "columns": lambda x, y: x[:, 1].add_(x[:, 0]),
}


@pytest.mark.parametrize("name", WRITES)
def test_unrecorded_writes_stay_in_their_memory(name: str) -> None:
    x, y = gc.arange(6.0).reshape(3, 2) + 1, gc.arange(6.0).reshape(3, 2) - 7
    source = x.clone()
    place, version = x.data_ptr(), x._version
    with forward_ad.dual_level():
        expected = source.clone()
        WRITES[name](expected, y)
    WRITES[name](x, y)
    assert (x.data_ptr(), x._version) == (place, version + 1)
    assert x.tolist() == expected.tolist() != source.tolist()


@pytest.mark.parametrize("name", ["add_", "mul_", "div_", "exp_"])
def test_writes_with_default_settings_compute_in_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, operands = gc.ones(3), [gc.ones(3) + 1] * (name != "exp_")
    expected = getattr(gc.Tensor, name)(x.clone(), *operands)
    monkeypatch.setattr(inplace, "fast_path", None)
    assert gc.equal(getattr(x, name)(*operands), expected)


def test_zeros_of_both_signs_are_different_numbers() -> None:
    x = gc.ones(1)
    for _ in range(2):
        assert [str((x * zero).item()) for zero in (0.0, -0.0, 0)] == ["0.0", "-0.0", "0.0"]


def test_parameters_are_written_without_history() -> None:
    x = gc.ones(3, requires_grad=True)
    (x * x).sum().backward()
    with gc.no_grad():
        x -= 0.25 * x.grad
    assert x.is_leaf
    assert x.requires_grad
    assert x.tolist() == [0.5, 0.5, 0.5]


def test_what_backward_needs_is_still_guarded() -> None:
    x, y = gc.ones(3, requires_grad=True), gc.ones(3)
    z = (x * y).sum()
    y.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda: gc.ones(2, 1).add_(gc.ones(2, 3)), r"output with shape \[2, 1\] doesn't match the broadcast shape"),
        (lambda: gc.ones(2).add_(gc.ones(3)), r"The size of tensor a \(2\) must match the size of tensor b \(3\)"),
        (lambda: gc.ones(1).expand(3).add_(1.0), "refers to a single memory location"),
        (lambda: gc.ones(2, requires_grad=True).add_(1.0), "a leaf Variable that requires grad"),
    ],
)
def test_refused_writes(write: Any, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        write()
