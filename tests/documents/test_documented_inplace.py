"""Writes in place: versions, views, and the errors that keep gradients right."""

import pytest

import gradcore as gc

MODIFIED = "one of the variables needed for gradient computation has been modified by an inplace operation"


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x.sub_(1),
        lambda x: x.mul_(2),
        lambda x: x.sigmoid_(),
        lambda x: x.zero_(),
        lambda x: x.fill_(3),
        lambda x: x.copy_(gc.ones(3)),
        lambda x: x.__iadd__(1),
    ],
)
def test_a_leaf_that_requires_gradients_is_not_written_to(write):
    x = gc.ones(3, requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"^a leaf Variable that requires grad is being used in an in-place operation"
    ):
        write(x)
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert x._version == 0


@pytest.mark.parametrize(
    "write", [lambda x: x.view(3, 1).mul_(2), lambda x: x[0].zero_(), lambda x: x.__setitem__(0, 5)]
)
def test_nor_is_a_view_of_it(write):
    x = gc.ones(3, requires_grad=True)
    with pytest.raises(
        RuntimeError,
        match="a view of a leaf Variable that requires grad is being used in an in-place operation",
    ):
        write(x)
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_without_recording_a_leaf_may_be_updated():
    y = gc.full((5, 5), 2.0, requires_grad=True)
    (y * y).sum().backward()
    with gc.no_grad():
        same = y.view(5, 5)
        same.sub_(y.grad * 0.1)
        assert y.sub_(0.1 * y.grad) is y
    assert y.tolist() == [[pytest.approx(1.2)] * 5] * 5
    assert same.tolist() == y.tolist()
    assert y._version == same._version == 2
    assert y.requires_grad
    assert y.is_leaf


def test_overwriting_what_backward_needs_is_an_error():
    x = gc.ones(3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED) as error:
        y.sum().backward()
    assert "which is output 0 of Exp" in str(error.value)
    assert "is at version 1; expected version 0 instead" in str(error.value)
    assert x.grad is None


def test_overwriting_what_backward_does_not_need_is_fine():
    x = gc.ones(3, requires_grad=True)
    y = x * 2
    y.add_(1)
    assert y.tolist() == [3.0, 3.0, 3.0]
    assert y.grad_fn.name() == "AddBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_every_write_counts_as_a_version():
    x = gc.zeros(3)
    assert x._version == 0
    x.add_(1)
    x[0] = 5
    x.zero_()
    assert x._version == 3
    assert (x + 1)._version == 0
    assert x.clone()._version == 0


def test_a_view_knows_its_base():
    y = gc.ones(2, 2, requires_grad=True) * 1
    view = y.view(4)
    assert view._is_view() is True
    assert view._base is y
    assert view[0]._base is y
    assert y.t()._base is y
    assert y._is_view() is False
    assert y._base is None
    assert y.clone()._is_view() is False
    assert (y + 1)._base is None


def test_a_view_shares_values_and_version():
    y = gc.zeros(2, 2)
    view = y.view(4)
    view[3] = 9
    assert y.tolist() == [[0.0, 0.0], [0.0, 9.0]]
    assert y._version == view._version == 1


def test_a_write_through_a_view_is_part_of_the_history_of_its_base(text_of):
    x = gc.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    y = x * 1
    half = y.view(2, 2)[0]
    half.mul_(10)
    assert y.tolist() == [10.0, 20.0, 3.0, 4.0]
    assert text_of(y.grad_fn) == "<CopySlices object at 0x>"
    y.sum().backward()
    assert x.grad.tolist() == [10.0, 10.0, 1.0, 1.0]


def test_assignment_to_elements_is_recorded():
    x = gc.ones(3, requires_grad=True)
    y = x * 2
    y[0] = 7
    y.sum().backward()
    assert y.tolist() == [7.0, 2.0, 2.0]
    assert x.grad.tolist() == [0.0, 2.0, 2.0]


def test_gradients_can_be_reset_by_hand():
    x = gc.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    x.grad.zero_()
    assert x.grad.tolist() == [0.0, 0.0]
    x.grad = None
    assert x.grad is None
    x.grad = gc.tensor([1.0, 2.0])
    (x * 3).sum().backward()
    assert x.grad.tolist() == [4.0, 5.0]


def test_a_gradient_has_the_shape_of_its_tensor():
    x = gc.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="attempting to assign a gradient of size"):
        x.grad = gc.ones(3)
    with pytest.raises(TypeError, match="assigned grad expected to be a Tensor or None but got grad of type"):
        x.grad = 1
