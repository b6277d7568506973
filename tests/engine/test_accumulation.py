"""Gradients are summed where nobody else can see it."""

import numpy as np
import pytest

import gradcore as gc


def shares(a, b):
    return np.shares_memory(a.detach().numpy(), b.detach().numpy())


@pytest.mark.parametrize(
    "program",
    [
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a + b + a,
        lambda a, b: (a.reshape(4) + b.reshape(4)).reshape(2, 2),
        lambda a, b: a.T + b,
        lambda a, b: gc.cat([a, b]),
        lambda a, b: gc.stack([a, b])[0] + b,
        lambda a, b: gc.where(gc.ones(2, 2).bool(), a, b),
        lambda a, b: gc.maximum(a, b),
        lambda a, b: a.clone() + b.expand(2, 2),
    ],
)
def test_gradients_of_two_leaves_share_nothing(program):
    a, b = (gc.randn(2, 2, requires_grad=True) for _ in range(2))
    y = program(a, b)
    upstream = gc.ones_like(y)
    y.backward(upstream)
    assert not shares(a.grad, b.grad)
    for t in (a, b):
        assert not shares(t.grad, upstream)
        assert not shares(t.grad, t)


def test_a_second_backward_adds_in_place():
    x = gc.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    grad = x.grad
    (x * 3).sum().backward()
    assert x.grad is grad
    assert grad.tolist() == [5.0, 5.0, 5.0]


def test_upstream_gradient_is_left_alone():
    x = gc.ones(3, requires_grad=True)
    upstream = gc.ones(3)
    (x + x + x.clone()).backward(upstream)
    assert upstream.tolist() == [1.0, 1.0, 1.0]
    assert x.grad.tolist() == [3.0, 3.0, 3.0]


def test_a_gradient_seen_by_a_hook_is_not_written_to():
    seen = []
    x = gc.ones(3, requires_grad=True)
    y = x * 1
    y.register_hook(seen.append)
    (y * 2).sum().backward()
    (x * 5).sum().backward()
    assert seen[0].tolist() == [2.0, 2.0, 2.0]
    x.register_hook(seen.append)
    (x * 7).sum().backward()
    (x * 7).sum().backward()
    assert seen[1].tolist() == [7.0, 7.0, 7.0]


def test_saved_values_are_not_gradients():
    x = gc.tensor([3.0], requires_grad=True)
    s = gc.tensor([2.0])
    (x * s).backward()
    x.grad.mul_(100)
    assert s.tolist() == [2.0]


def test_exceptions_leave_gradients_and_modes_as_they_were():
    x = gc.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()
    assert gc.is_grad_enabled()
    assert x.grad is None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_what_a_hook_returns_stays_the_users():
    mine = gc.tensor([1.0, 2.0])
    hooks = {
        "tensor": lambda x, y: x.register_hook(lambda grad: mine),
        "node": lambda x, y: y.grad_fn.register_hook(lambda inputs, outputs: (mine, *inputs[1:])),
        "before": lambda x, y: y.grad_fn.register_prehook(lambda grads: (mine,)),
        "leaf": lambda x, y: y.grad_fn.next_functions[0][0].register_prehook(lambda grads: (mine,)),
    }
    for register in hooks.values():
        x = gc.ones(2, requires_grad=True)
        y = x + 0
        register(x, y)
        for _ in range(2):
            y.sum().backward(retain_graph=True)
        assert x.grad.tolist() == [2.0, 4.0]
        assert mine.tolist() == [1.0, 2.0]


def test_a_retained_gradient_has_its_own_memory():
    upstream = gc.ones(2)
    x = gc.ones(2, requires_grad=True)
    y = x * 1
    y.retain_grad()
    y.backward(upstream, retain_graph=True)
    assert not shares(y.grad, upstream)
    y = x * 1
    y.backward(upstream, inputs=[y], create_graph=True)
    assert not shares(y.grad, upstream)
    x.backward(upstream, create_graph=True)
    assert not shares(x.grad, upstream)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0,), (2, 3)])
@pytest.mark.parametrize("dtype", [gc.float32, gc.float64, gc.complex64])
def test_contributions_of_every_kind_add_up(shape, dtype):
    x = gc.full(shape, 2.0, dtype=dtype, requires_grad=True)
    y = x * 1
    total = y * y + y + 3 * y + y.expand(2, *shape).sum(0) + y.reshape(-1).reshape(shape) + y.clone()
    total.backward(gc.ones_like(total))
    assert x.grad.dtype is dtype
    assert gc.equal(x.grad, gc.full(shape, 4 + 1 + 3 + 2 + 1 + 1, dtype=dtype))


def test_contributions_of_leaves_and_captured_gradients_add_up_once():
    x, w = gc.tensor(3.0, requires_grad=True), gc.tensor([2.0, 4.0], requires_grad=True)
    y = x * w
    for _ in range(3):
        y = y + x * w
    first = gc.autograd.grad(y.sum(), (x, w), retain_graph=True)
    y.sum().backward()
    assert [g.tolist() for g in first] == [x.grad.tolist(), w.grad.tolist()] == [24.0, [12.0, 12.0]]


def test_an_unchanged_gradient_reaches_leaves_as_copies():
    x, y = (gc.ones(3, requires_grad=True) for _ in range(2))
    upstream = gc.ones(3)
    (x + y).backward(upstream)
    x.grad.mul_(5)
    assert y.grad.tolist() == upstream.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("reshape", [lambda x: x.t_(), lambda x: x.unsqueeze_(0), lambda x: x.unsqueeze_(-1)])
@pytest.mark.parametrize("shape", [(1, 3), (2, 3), (3, 1)])
@pytest.mark.parametrize("recorded", [False, True])
def test_gradients_of_two_shapes_are_not_added(shape, reshape, recorded):
    """A leaf that is reshaped in place between two uses would sum gradients that broadcast."""
    x = gc.ones(*shape, requires_grad=True)
    first = (x * 2).sum()
    with gc.no_grad():
        reshape(x)
    with pytest.raises(RuntimeError, match="received gradients of the shapes"):
        gc.autograd.grad(first + (x * 3).sum(), x, create_graph=recorded)
