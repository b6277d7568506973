"""What nodes say of the gradients that arrive at them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from tests.ops.cases import ALL, Case

#: Where tensors are made.
HERE = str(gc.zeros(()).device)


def described(node: Any) -> list[tuple[list[int], Any, str]]:
    return [(m.shape, m.dtype, str(m.device)) for m in node._input_metadata]


def like(t: gc.Tensor) -> tuple[list[int], Any, str]:
    return list(t.shape), t.dtype, str(t.device)


@pytest.mark.parametrize("case", [c for c in ALL if c.op.differentiable], ids=lambda c: c.label)
def test_nodes_know_what_their_outputs_are_like(case: Case) -> None:
    inputs = [gc.tensor(a, requires_grad=a.dtype.kind in "fc") for a in case.arrays()]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        outputs = [out for out in case.outputs(inputs) if out._edge is not None]
        for out in outputs:
            node, number = out._edge  # `grad_fn` would note it
            assert described(node)[number] == like(out)


def test_each_result_of_several() -> None:
    x = gc.rand(3, 4, requires_grad=True)
    assert described(x.unbind(1)[0].grad_fn) == [([3], gc.float32, HERE)] * 4
    values, _ = x.max(0)
    assert described(values.grad_fn)[0] == ([4], gc.float32, HERE)


def test_leaves_views_written_to_copies_and_functions() -> None:
    class Twice(gc.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: gc.Tensor) -> Any:
            return x * 2, 3, x.sum().double()

        @staticmethod
        def backward(ctx: Any, a: gc.Tensor, _: Any, b: gc.Tensor) -> Any:
            return a * 2 + b.float()

    x = gc.rand(3, 4, requires_grad=True)
    assert described(gc.autograd.graph.get_gradient_edge(x).node) == [([3, 4], gc.float32, HERE)]
    y = gc.zeros(5, 4)
    y[1:4] = x
    assert described(y._edge[0]) == [([5, 4], gc.float32, HERE)]
    assert described(x.double()._edge[0]) == [([3, 4], gc.float64, HERE)]
    assert described((x * 2).t().t_()._edge[0]) == [([3, 4], gc.float32, HERE)]
    first, _, last = Twice.apply(x)
    assert first._edge[0] is last._edge[0]
    assert described(first._edge[0]) == [like(first), ([], gc.float32, HERE), like(last)]


def test_a_deep_graph_without_recursion() -> None:
    y = gc.rand(3, requires_grad=True)
    for _ in range(5000):
        y = y.flip(0)
    assert described(y._edge[0]) == [([3], gc.float32, HERE)]


def test_what_has_been_freed_is_known() -> None:
    x = gc.rand(3, 4, requires_grad=True)
    y = (x * 2).sum(0)
    node = y.grad_fn
    y.sum().backward()
    assert described(node) == [([4], gc.float32, HERE)]
    y = x @ gc.rand(4, 2)
    y.sum().backward()
    assert described(y._edge[0]) == [([3, 2], gc.float32, HERE)]


def test_samples_of_a_batch() -> None:
    def f(x: gc.Tensor) -> gc.Tensor:
        y = x.sin().sum()
        assert described(y._edge[0]) == [([], gc.float32, HERE)]
        return y

    gc.vmap(f)(gc.rand(3, 4, requires_grad=True))
