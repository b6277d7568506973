"""Small training steps: a linear layer by hand, weights that freeze, and modules."""

import itertools
import math

import pytest

import gradcore as gc


def test_gradients_of_a_fully_connected_layer(text_of):
    x = gc.ones(5)
    target = gc.zeros(3)
    w = gc.zeros(5, 3, requires_grad=True)
    b = gc.tensor([0.0, math.log(3), -math.log(3)], requires_grad=True)
    z = gc.matmul(x, w) + b
    loss = gc.nn.functional.binary_cross_entropy_with_logits(z, target)
    assert text_of(f"Gradient function for z = {z.grad_fn}") == (
        "Gradient function for z = <AddBackward0 object at 0x>"
    )
    assert text_of(loss.grad_fn) == "<BinaryCrossEntropyWithLogitsBackward0 object at 0x>"
    assert loss.item() == pytest.approx((math.log(2) + math.log(4) + math.log(4 / 3)) / 3)
    loss.backward()
    expected = pytest.approx([0.5 / 3, 0.75 / 3, 0.25 / 3])
    assert b.grad.tolist() == expected
    assert w.grad.tolist() == [expected] * 5
    assert x.grad is None


def test_a_step_by_an_operation_makes_the_weight_an_intermediate():
    """After ``y = y - step`` the name stands for a result, which must be asked to keep its gradient."""
    x = gc.tensor([0.1, 0.9, 0.3, 0.7, 0.5])
    b = gc.tensor([0.2, 0.0, 0.6, 0.4, 0.8])
    y = gc.linspace(0, 1, 25).view(5, 5).requires_grad_()
    label = gc.Tensor([0, 0, 1, 0, 0])
    losses, leaves = [], []
    for _ in range(20):
        y.retain_grad()
        leaves.append(y.is_leaf)
        loss = (gc.sigmoid(gc.matmul(y, x) + b) - label).var()
        loss.backward()
        losses.append(loss.item())
        y = y - 0.1 * y.grad
    assert leaves == [True] + [False] * 19
    assert all(after < before for before, after in itertools.pairwise(losses))


def test_a_step_without_recording_keeps_the_weight_a_leaf():
    x = gc.tensor([1.0, 2.0, 3.0])
    w = gc.zeros(3, requires_grad=True)
    losses = []
    for _ in range(50):
        loss = (gc.dot(x, w) - 1) ** 2
        loss.backward()
        losses.append(loss.item())
        with gc.no_grad():
            w -= 0.01 * w.grad
        w.grad.zero_()
    assert w.is_leaf
    assert w._version == 50
    assert losses[-1] < 1e-4 * losses[0]


def test_weights_of_a_module_are_leaves():
    model = gc.nn.Linear(5, 3)
    for parameter in model.parameters():
        assert parameter.is_leaf
        assert parameter.requires_grad
        assert parameter.grad is None
    assert repr(model.weight).startswith("Parameter containing:\ntensor([[")


def test_a_module_forgets_its_gradients_on_request():
    model = gc.nn.Linear(5, 3)
    data = gc.ones(2, 5)
    activation = model(data)
    activation.sum().backward()
    assert model.weight.grad.tolist() == [[2.0] * 5] * 3
    assert model.bias.grad.tolist() == [2.0] * 3
    assert not activation.is_leaf
    model.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_frozen_module_is_not_trained():
    frozen, trained = gc.nn.Linear(4, 3), gc.nn.Linear(3, 2)
    for parameter in frozen.parameters():
        parameter.requires_grad = False
    hidden = frozen(gc.ones(1, 4))
    assert hidden.requires_grad is False
    trained(hidden).sum().backward()
    assert all(parameter.grad is None for parameter in frozen.parameters())
    assert all(parameter.grad is not None for parameter in trained.parameters())


def test_evaluation_records_nothing():
    model = gc.nn.Linear(4, 3)
    with gc.no_grad():
        scores = model(gc.ones(2, 4))
    assert scores.requires_grad is False
    assert scores.grad_fn is None
