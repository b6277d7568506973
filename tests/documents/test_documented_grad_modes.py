"""Turning recording off: ``no_grad``, ``set_grad_enabled``, ``detach`` and ``data``."""

import re

import pytest

import gradcore as gc


@pytest.fixture
def recording_again():
    """Turn recording on again after a test that turned it off by a function call."""
    yield
    gc.set_grad_enabled(True)


def test_nothing_is_recorded_inside_no_grad():
    x = gc.rand(3, requires_grad=True)
    assert (x**2).requires_grad is True
    with gc.no_grad():
        y = x**2
        assert gc.is_grad_enabled() is False
    assert gc.is_grad_enabled() is True
    assert x.requires_grad is True
    assert y.requires_grad is False
    assert y.grad_fn is None
    assert y.is_leaf is True


def test_leaves_made_inside_no_grad_keep_their_flag():
    with gc.no_grad():
        x = gc.ones(1)
        w = gc.rand(1, requires_grad=True)
        y = x * w
    assert [t.requires_grad for t in (x, w, y)] == [False, True, False]
    (x * w).backward()
    assert w.grad.tolist() == [1.0]


def test_no_grad_covers_matrix_products():
    w = gc.randn(5, 3, requires_grad=True)
    b = gc.randn(3, requires_grad=True)
    assert (gc.matmul(gc.ones(5), w) + b).requires_grad
    with gc.no_grad():
        assert not (gc.matmul(gc.ones(5), w) + b).requires_grad


def test_modes_nest():
    x = gc.ones(1, requires_grad=True)
    with gc.no_grad():
        with gc.no_grad():
            assert not (x * 1).requires_grad
        assert not (x * 1).requires_grad
        with gc.enable_grad():
            assert (x * 1).requires_grad
        assert not (x * 1).requires_grad
    assert (x * 1).requires_grad


def test_recording_resumes_after_an_error():
    with pytest.raises(ZeroDivisionError), gc.no_grad():
        raise ZeroDivisionError
    assert gc.is_grad_enabled()


def test_no_grad_is_a_decorator_too():
    @gc.no_grad()
    def double(x):
        return x * 2

    assert double(gc.ones(1, requires_grad=True)).requires_grad is False
    assert gc.is_grad_enabled()


@pytest.mark.usefixtures("recording_again")
def test_recording_can_be_set_by_a_call():
    gc.set_grad_enabled(False)
    x = gc.ones(1)
    w = gc.rand(1, requires_grad=True)
    y = x * w
    assert [t.requires_grad for t in (x, w, y)] == [False, True, False]
    gc.set_grad_enabled(True)
    assert (x * w).requires_grad is True


@pytest.mark.usefixtures("recording_again")
@pytest.mark.parametrize("mode", [True, False])
def test_the_call_returns_its_guard(mode):
    guard = gc.set_grad_enabled(mode)
    assert re.fullmatch(rf"\w+\.autograd\.grad_mode\.set_grad_enabled\(mode={mode}\)", repr(guard))


@pytest.mark.usefixtures("recording_again")
def test_the_guard_restores_what_was_before():
    with gc.set_grad_enabled(False):
        assert not gc.is_grad_enabled()
        with gc.set_grad_enabled(True):
            assert gc.is_grad_enabled()
        assert not gc.is_grad_enabled()
    assert gc.is_grad_enabled()


def test_detach_leaves_the_history_behind():
    x = gc.randn(3, requires_grad=True)
    y = x.detach()
    assert (x.requires_grad, y.requires_grad) == (True, False)
    assert y.is_leaf
    assert y.grad_fn is None
    assert repr(x.eq(y).all()) == "tensor(True)"
    assert (y * 2).requires_grad is False


def test_detach_cuts_the_path_of_the_gradient():
    x = gc.tensor([2.0], requires_grad=True)
    (x * (x * 5).detach()).backward()
    assert x.grad.tolist() == [10.0]


def test_statistics_of_a_detached_tensor_are_not_recorded():
    x = gc.tensor([1.0, 2.0, 6.0], requires_grad=True)
    values = x.detach()
    mean, std, largest = values.mean(), values.std(), values.max()
    assert repr((mean, std, largest)) == "(tensor(3.), tensor(2.6458), tensor(6.))"
    assert not any(t.requires_grad for t in (mean, std, largest))


def test_detached_values_and_version_are_shared():
    a = gc.rand(3, 4, requires_grad=True)
    b = gc.rand(3, 4, requires_grad=True)
    product = a * b
    values = a.detach()
    values[0] = 1
    assert a[0].tolist() == [1.0] * 4
    assert (a._version, values._version) == (1, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_data_shares_values_without_history():
    x = gc.tensor([1.0, -1.0], requires_grad=True)
    assert x.data.requires_grad is False
    assert x.data.grad_fn is None
    assert repr(x.data) == "tensor([ 1., -1.])"
    changed = x.data.sigmoid_()
    assert changed.requires_grad is False
    assert x.tolist() == pytest.approx([0.7310586, 0.2689414])
    assert x.requires_grad is True
    assert x.is_leaf


def test_writes_through_data_are_not_noticed():
    """The escape hatch with its danger: the gradient uses the new values and nothing complains."""
    a = gc.ones(3, requires_grad=True)
    b = gc.ones(3, requires_grad=True)
    total = (a * b).sum()
    a.data.fill_(7)
    assert a._version == 0
    total.backward()
    assert b.grad.tolist() == [7.0, 7.0, 7.0]


def test_data_can_be_replaced():
    x = gc.ones(2, requires_grad=True)
    x.data = gc.tensor([5.0, 6.0])
    assert repr(x) == "tensor([5., 6.], requires_grad=True)"


def test_data_steers_control_flow():
    x = gc.ones(1, requires_grad=True)
    assert x.data[0] > 0
    assert not (x.data[0] < 0)
    assert x.data.norm() < 1000
