"""Who requires gradients, who is a leaf, and what may be changed about it."""

import itertools

import pytest

import gradcore as gc

ONLY_FLOATS = "(?i)only tensors of floating point (and complex )?dtype can require gradients"
ONLY_LEAVES = (
    "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
    "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
)


@pytest.mark.parametrize(
    "make",
    [
        lambda: gc.ones(2, 2),
        lambda: gc.zeros(3, 4),
        lambda: gc.rand(5, 5),
        lambda: gc.randn(3),
        lambda: gc.eye(4, 5),
        lambda: gc.arange(3.0),
        lambda: gc.tensor([0.1, 1.0]),
        lambda: gc.Tensor([1, 2, 3]),
    ],
)
def test_a_new_tensor_is_a_leaf_without_gradients(make):
    x = make()
    assert x.requires_grad is False
    assert x.is_leaf is True
    assert x.grad_fn is None
    assert x.grad is None
    assert x.requires_grad_() is x
    assert x.requires_grad is True
    assert x.is_leaf is True


def test_three_ways_to_require_gradients():
    by_argument = gc.randn(3, 4, requires_grad=True)
    by_method = gc.randn(3, 4).requires_grad_()
    by_attribute = gc.randn(3, 4)
    by_attribute.requires_grad = True
    for x in (by_argument, by_method, by_attribute):
        assert x.requires_grad
        assert x.is_leaf


def test_the_flag_can_be_given_and_taken_in_place():
    x = gc.randn(2, 2)
    x = (x * 3) / (x - 1)
    assert x.requires_grad is False
    assert x.requires_grad_(True) is x
    assert x.requires_grad is True
    assert x.requires_grad_(False).requires_grad is False


def test_sizes_may_be_a_tuple():
    x = gc.rand((5, 4), requires_grad=True)
    assert x.shape == gc.rand(5, 4).shape == (5, 4)
    assert x.requires_grad


def test_tensor_keeps_the_dtype_that_the_class_makes_float():
    assert gc.tensor([1, 2]).dtype is gc.int64
    assert gc.tensor([0.1, 1.0], dtype=gc.float).dtype is gc.float32
    assert gc.Tensor([1, 2]).dtype is gc.float32
    assert gc.FloatTensor([1, 2]).dtype is gc.float32
    assert gc.Tensor([1, 2]).tolist() == gc.FloatTensor([1, 2]).tolist() == [1.0, 2.0]


def test_the_old_variable_is_a_tensor():
    x = gc.autograd.Variable(gc.ones(2), requires_grad=True)
    assert type(x) is gc.Tensor
    assert repr(x) == "tensor([1., 1.], requires_grad=True)"


@pytest.mark.parametrize("operation", [gc.add, gc.mul, gc.matmul], ids=lambda operation: operation.__name__)
@pytest.mark.parametrize(("left", "right"), list(itertools.product([False, True], repeat=2)))
def test_a_result_requires_gradients_if_any_input_does(operation, left, right):
    x = gc.rand(5, 5, requires_grad=left)
    y = gc.rand(5, 5, requires_grad=right)
    result = operation(x, y)
    assert result.requires_grad is (left or right)
    assert result.is_leaf is not result.requires_grad
    assert (result.grad_fn is None) is result.is_leaf


def test_a_chain_hands_the_flag_on():
    x = gc.ones(1)
    b = gc.rand(1, requires_grad=True)
    w = gc.rand(1, requires_grad=True)
    y = w * x
    z = y + b
    assert [t.requires_grad for t in (x, b, w, y, z)] == [False, True, True, True, True]
    assert [t.is_leaf for t in (x, b, w, y, z)] == [True, True, True, False, False]
    assert (w.grad_fn, x.grad_fn) == (None, None)


@pytest.mark.parametrize("dtype", [gc.int64, gc.int32, gc.uint8, gc.bool], ids=str)
def test_integers_and_booleans_cannot_require_gradients(dtype):
    with pytest.raises(RuntimeError, match=ONLY_FLOATS):
        gc.ones(3, dtype=dtype, requires_grad=True)
    with pytest.raises(RuntimeError, match=ONLY_FLOATS):
        gc.tensor([0, 1], dtype=dtype, requires_grad=True)
    x = gc.ones(3, dtype=dtype)
    with pytest.raises(RuntimeError, match=ONLY_FLOATS):
        x.requires_grad_()
    with pytest.raises(RuntimeError, match=ONLY_FLOATS):
        x.requires_grad = True
    assert x.requires_grad is False
    assert x.requires_grad_(False) is x


def test_whole_number_ranges_cannot_require_gradients():
    with pytest.raises(RuntimeError, match=ONLY_FLOATS):
        gc.arange(0, 3, requires_grad=True)
    x = gc.arange(0, 3, dtype=gc.float32, requires_grad=True)
    assert x.tolist() == [0.0, 1.0, 2.0]
    assert x.requires_grad


@pytest.mark.parametrize("dtype", [gc.float32, gc.float64, gc.complex64, gc.complex128], ids=str)
def test_floating_and_complex_tensors_can_require_gradients(dtype):
    assert gc.ones(3, dtype=dtype, requires_grad=True).requires_grad
    assert gc.ones(3, dtype=dtype).requires_grad_().requires_grad


def test_the_flag_of_a_computed_tensor_is_not_ours_to_clear():
    y = gc.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError) as by_attribute:
        y.requires_grad = False
    with pytest.raises(RuntimeError) as by_method:
        y.requires_grad_(False)
    assert str(by_attribute.value).startswith(ONLY_LEAVES)
    assert str(by_method.value).startswith(ONLY_LEAVES)
    assert y.requires_grad_() is y  # changes nothing, so it is allowed
    assert y.requires_grad
    assert not y.is_leaf


def test_a_frozen_weight_gets_no_gradient():
    frozen = gc.ones(3, requires_grad=True)
    trained = gc.ones(3, requires_grad=True)
    frozen.requires_grad = False
    assert (frozen * 2).requires_grad is False
    (frozen * trained).sum().backward()
    assert frozen.grad is None
    assert trained.grad.tolist() == [1.0, 1.0, 1.0]


def test_the_gradient_of_a_computed_tensor_is_not_kept():
    x = gc.ones(3, requires_grad=True)
    y = x * 2
    y.sum().backward()
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert y.grad is None
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    assert type(x.grad) is gc.Tensor
    assert x.grad.requires_grad is False
    assert x.grad.is_leaf


def test_a_negated_leaf_is_no_leaf():
    x = -1 * gc.ones(1, requires_grad=True)
    assert not x.is_leaf
    (-x).backward()
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert x.grad is None
