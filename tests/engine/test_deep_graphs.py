"""Graphs that are deep, wide or shared: no recursion, linear time."""

import gc as collector
import operator
import sys

import pytest

import gradcore as gc
from gradcore.autograd import input_buffer

DEPTH = 200_000


def chain(x, n):
    for _ in range(n):
        x = x * 1.0
    return x


@pytest.fixture
def shallow_stack():
    """Limit the stack to much less than recursion along the chain would need."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    yield
    sys.setrecursionlimit(before)


def test_backward_and_deletion(shallow_stack):
    x = gc.tensor(2.0, requires_grad=True)
    y = chain(x, DEPTH)
    y.backward()
    assert x.grad.item() == 1.0
    collector.disable()
    try:
        del y
    finally:
        collector.enable()


@pytest.mark.slow
def test_deletion_without_backward(shallow_stack):
    y = chain(gc.tensor(2.0, requires_grad=True), DEPTH)
    del y


@pytest.mark.slow
def test_double_backward(shallow_stack):
    x = gc.tensor(1.0, dtype=gc.float64, requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y * x
    (first,) = gc.autograd.grad(y, x, create_graph=True)
    (second,) = gc.autograd.grad(first, x)
    assert first.item() == 20_001
    assert second.item() == 20_001 * 20_000


@pytest.mark.slow
def test_printing_of_a_deep_result(shallow_stack):
    assert repr(chain(gc.tensor(2.0, requires_grad=True), DEPTH)) == "tensor(2., grad_fn=<MulBackward0>)"


@pytest.mark.slow
def test_fan_out_and_fan_in():
    x = gc.tensor(1.0, dtype=gc.float64, requires_grad=True)
    parts = [x * float(k) for k in range(10_000)]
    gc.stack(parts).sum().backward()
    assert x.grad.item() == sum(range(10_000))


def test_diamonds_are_visited_once():
    """2**60 paths, 60 nodes."""
    x = gc.tensor(1.0, dtype=gc.float64, requires_grad=True)
    y = x
    for _ in range(60):
        y = y + y
    y.backward()
    assert x.grad.item() == 2.0**60


def test_only_what_leads_to_the_inputs_is_computed():
    calls = []

    class Noted(gc.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            calls.append(1)
            return grad

    a, b = (gc.ones(2, requires_grad=True) for _ in range(2))
    y = (a * Noted.apply(b)).sum()
    (grad,) = gc.autograd.grad(y, a)
    assert grad.tolist() == [1.0, 1.0]
    assert calls == []
    assert b.grad is None


def hooked(x):
    x.register_hook(lambda grad: None)
    return x


FANS = {
    "uses of one tensor": lambda x: sum([x[:1].sum() for _ in range(len(x))]),
    "elements in a loop": lambda x: sum([x[i] * x[i] for i in range(len(x))]),
    "a stack of elements": lambda x: gc.stack([x[i] for i in range(len(x))]).sum(),
    "elements by iteration": lambda x: gc.stack([part * part for part in x]).sum(),
    "elements with hooks": lambda x: sum(hooked(x[i]) for i in range(len(x))),
}


@pytest.mark.parametrize("fan", FANS.values(), ids=FANS)
def test_gradients_of_parts_are_added_in_linear_time(fan, monkeypatch):
    def elements_that_are_added(n):
        count = 0

        def counted(function):
            def run(a, b):
                nonlocal count
                count += b.size
                return function(a, b)

            return run

        x = gc.ones(n, requires_grad=True)
        result = fan(x)
        with monkeypatch.context() as patch:
            for name in ("add", "iadd"):
                patch.setattr(input_buffer, name, counted(getattr(operator, name)))
            result.backward()
        return count

    assert elements_that_are_added(1000) <= 2.5 * elements_that_are_added(500) + 2000
