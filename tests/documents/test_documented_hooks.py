"""Gradients of intermediate tensors: hooks that watch or change them, and ``retain_grad``."""

import pytest

import gradcore as gc


@pytest.fixture
def product():
    """Two leaves and their product, which is no leaf."""
    x = gc.ones(3, requires_grad=True)
    w = gc.tensor([2.0, 3.0, 4.0], requires_grad=True)
    return x, w, x * w


def test_a_hook_prints_the_gradient_that_passes(product, capsys):
    _, _, y = product
    handle = y.register_hook(lambda grad: print("passing:", grad))
    y.sum().backward()
    handle.remove()
    assert capsys.readouterr().out == "passing: tensor([1., 1., 1.])\n"


def test_a_removed_hook_is_silent(product):
    _, _, y = product
    seen = []
    handle = y.register_hook(seen.append)
    y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()
    assert len(seen) == 1
    assert seen[0].tolist() == [1.0, 1.0, 1.0]


def test_what_a_hook_returns_replaces_the_gradient(product):
    x, w, y = product

    def shrink(grad):
        return 0.5 * grad

    y.register_hook(shrink)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.5, 2.0]
    assert w.grad.tolist() == [0.5, 0.5, 0.5]


def test_a_hook_that_returns_nothing_changes_nothing(product):
    x, _, y = product
    seen = []
    y.register_hook(lambda grad: seen.append(grad.tolist()))
    y.backward(gc.tensor([1.0, 2.0, 3.0]))
    assert seen == [[1.0, 2.0, 3.0]]
    assert x.grad.tolist() == [2.0, 6.0, 12.0]


def test_hooks_run_in_the_order_of_their_registration(product):
    _, _, y = product
    seen = []
    y.register_hook(lambda grad: grad * 10)
    y.register_hook(lambda grad: seen.append(grad.tolist()))
    y.sum().backward()
    assert seen == [[10.0, 10.0, 10.0]]


def test_a_leaf_takes_hooks():
    a = gc.Tensor([1, 2, 3]).requires_grad_()
    seen = []
    a.register_hook(seen.append)
    b = a.mul(gc.tensor([4.0, 5.0, 6.0]))
    b.backward(gc.ones_like(b))
    assert repr(seen) == "[tensor([4., 5., 6.])]"
    assert a.grad.tolist() == [4.0, 5.0, 6.0]


def test_a_hook_of_a_leaf_decides_what_is_stored():
    x = gc.ones(2, requires_grad=True)
    x.register_hook(lambda grad: grad.clamp(max=1.0))
    (x * gc.tensor([0.5, 50.0])).sum().backward()
    assert x.grad.tolist() == [0.5, 1.0]


def test_hooks_need_a_tensor_that_requires_gradients():
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        gc.Tensor([1, 2, 3]).register_hook(print)


def test_a_misspelt_method_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'registerhook'"):
        gc.ones(1).registerhook(print)


def test_registered_hooks_can_be_seen(product):
    x, _, y = product
    assert x._backward_hooks is None
    y.register_hook(print)
    assert list(y._backward_hooks.values()) == [print]


def test_an_intermediate_gradient_is_kept_on_request(product):
    _, _, y = product
    assert y.retains_grad is False
    y.retain_grad()
    assert y.retains_grad is True
    (y * y).sum().backward()
    assert y.grad.tolist() == [4.0, 6.0, 8.0]


def test_kept_gradients_accumulate_like_others(product):
    _, _, y = product
    y.retain_grad()
    y.retain_grad()  # asking twice is asking once
    total = y.sum()
    total.backward(retain_graph=True)
    total.backward()
    assert y.grad.tolist() == [2.0, 2.0, 2.0]


def test_leaves_keep_their_gradient_anyway():
    x = gc.ones(2, requires_grad=True)
    x.retain_grad()
    assert x.retains_grad is False
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_there_is_no_gradient_to_keep_without_requires_grad():
    with pytest.raises(RuntimeError, match=r"can't retain_grad on Tensor that has requires_grad=False"):
        gc.ones(2).retain_grad()
