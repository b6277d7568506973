"""Jacobians, Hessians and products with vectors."""

import pytest

import gradcore as gc
from gradcore.autograd import functional as F

X = gc.tensor([1.0, 2.0])
Y = gc.tensor([3.0, -1.0, 2.0])
V = gc.tensor([1.0, 0.5])


def cube(x):
    return (x * x * x).sum()


def pair(x, y):
    return x.sum() * y * y, (x * x).sum()


def lists(value):
    return [lists(v) for v in value] if isinstance(value, tuple) else value.tolist()


def test_products_with_the_jacobian():
    outputs, products = F.vjp(pair, (X, Y), (Y, gc.tensor(2.0)))
    assert lists(outputs) == [[27.0, 3.0, 12.0], 5.0]
    assert lists(products) == [[38.0, 42.0], [54.0, 6.0, 24.0]]
    assert F.vjp(cube, X)[1].tolist() == [3.0, 12.0]
    outputs, products = F.jvp(pair, (X, Y), (V, Y))
    assert lists(products) == [[67.5, 7.5, 30.0], 4.0]
    assert F.jvp(cube, X, V)[1].item() == 9.0
    assert F.jvp(lambda x: x**2, gc.tensor([3.0]))[1].tolist() == [6.0]


@pytest.mark.parametrize("product", [F.vhp, F.hvp])
def test_products_with_the_hessian(product):
    value, found = product(cube, X, V)
    assert (value.item(), found.tolist()) == (9.0, [6.0, 6.0])
    _, found = product(lambda x, y: (x.sum() * y * y).sum(), (X, Y), (V, Y))
    assert lists(found) == [[28.0, 28.0], [27.0, -9.0, 18.0]]
    assert product(lambda x: x.sum(), X, V)[1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobians(strategy):
    assert F.jacobian(cube, X, strategy=strategy).tolist() == [3.0, 12.0]
    assert F.jacobian(lambda x: (x * 2,), X, strategy=strategy)[0].tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert F.jacobian(lambda x: x * 2, (X,), strategy=strategy)[0].tolist() == [[2.0, 0.0], [0.0, 2.0]]
    blocks = F.jacobian(pair, (X, Y), vectorize=True, strategy=strategy)
    assert [[b.shape for b in row] for row in blocks] == [[(3, 2), (3, 3)], [(2,), (3,)]]
    assert blocks[0][1].diagonal().tolist() == [18.0, -6.0, 12.0]
    assert blocks[1][1].tolist() == [0.0, 0.0, 0.0]
    assert F.jacobian(lambda x: gc.ones(2), X, strategy=strategy).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert not F.jacobian(cube, X.clone().requires_grad_(), strategy=strategy).requires_grad


@pytest.mark.parametrize("outer", ["reverse-mode", "forward-mode"])
def test_hessians(outer):
    assert F.hessian(cube, X, outer_jacobian_strategy=outer).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    blocks = F.hessian(lambda x, y: (x.sum() * y * y).sum(), (X, Y), outer_jacobian_strategy=outer)
    assert blocks[0][1].tolist() == [[6.0, -2.0, 4.0]] * 2
    assert blocks[1][0].shape == (3, 2)
    assert F.hessian(lambda x: x.sum(), X, outer_jacobian_strategy=outer).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_results_can_be_differentiated_on_request():
    x = X.clone().requires_grad_()
    F.jacobian(lambda x: x * x, x, create_graph=True).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    x.grad = None
    F.hessian(cube, x, create_graph=True).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    x.grad = None
    F.hvp(cube, x, V, create_graph=True)[1].sum().backward()
    assert x.grad.tolist() == [6.0, 3.0]
    assert not F.vjp(cube, x)[1].requires_grad
    with gc.no_grad():
        assert F.jacobian(cube, x).tolist() == [3.0, 12.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: F.vjp(lambda x, y: cube(x), (X, Y), strict=True), "independent of input 1"),
        (lambda: F.jacobian(lambda x, y: cube(x), (X, Y), strict=True), "independent of input 1"),
        (lambda: F.jacobian(lambda x: gc.ones(2), X, strict=True), "Output 0 .* does not require gradients"),
        (lambda: F.jvp(lambda x: gc.ones(2), X, V, strict=True), "Output 0 .* does not require gradients"),
        (lambda: F.hessian(lambda x: x.sum(), X, strict=True), "found that the jacobian .* is independent"),
        (lambda: F.vhp(lambda x: x.sum(), X, V, strict=True), "found that the jacobian .* is independent"),
        (lambda: F.hvp(lambda x: x.sum(), X, V, strict=True), "found that the jacobian .* is independent"),
        (lambda: F.vjp(lambda x: x * 2, X, V, create_graph=True, strict=True), "jacobian .* is independent"),
        (lambda: F.jvp(lambda x: x * 2, X, V, create_graph=True, strict=True), "jacobian .* is independent of input 0"),
        (lambda: F.hvp(lambda x: (x * x).sum(), X, V, create_graph=True, strict=True), "hessian .* of input 0"),
        (lambda: F.hessian(lambda x: x.sum().detach(), X, strict=True), "Output 0 .* does not require gradients"),
    ],
)
def test_independence_is_an_error_in_strict_mode(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.vjp(cube, 3), TypeError, "The inputs given to vjp must be either a Tensor or a tuple of Tensors"),
        (lambda: F.vjp(cube, (X, 3)), TypeError, "the value at index 1 has type <class 'int'>"),
        (lambda: F.vjp(lambda x: 3, X), TypeError, "outputs of the user-provided function given to vjp"),
        (lambda: F.vjp(lambda x: x, X), RuntimeError, "v can only be None if the user-provided function returns"),
        (lambda: F.vjp(lambda x: x, X, Y), RuntimeError, "v has invalid size: should be .* but got"),
        (lambda: F.vjp(lambda x: (x, x), X, (V,)), RuntimeError, "invalid length: should be 2 but got 1"),
        (lambda: F.vjp(lambda x: (x, x), X, (V, Y)), RuntimeError, "Entry 1 in v has invalid size"),
        (lambda: F.vjp(lambda x: x, X, (V, V)), RuntimeError, "should contain a single Tensor"),
        (lambda: F.jvp(cube, X), RuntimeError, "v can only be None if the input to the user-provided function is"),
        (lambda: F.vhp(lambda x: x, X, V), RuntimeError, "should contain a single element"),
        (lambda: F.hvp(lambda x: (x.sum(), x), X, V), RuntimeError, "should return a single Tensor"),
        (lambda: F.hessian(lambda x: (x, x), X), RuntimeError, "should return a single Tensor"),
        (lambda: F.jacobian(cube, X, strategy="sideways"), AssertionError, "Expected strategy to be either"),
        (
            lambda: F.jacobian(cube, X, create_graph=True, strategy="forward-mode"),
            NotImplementedError,
            "not supported together",
        ),
        (lambda: F.jacobian(cube, X, strict=True, strategy="forward-mode"), RuntimeError, "not supported together"),
        (lambda: F.hessian(cube, X, outer_jacobian_strategy="sideways"), AssertionError, "Expected strategy to be"),
    ],
)
def test_misuse(call, error, message):
    with pytest.raises(error, match=message):
        call()


class Skewed(gc.autograd.Function):
    """A function whose derivative is nobody's gradient: its matrix of second derivatives is not symmetric."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sum()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * gc.stack([x[0] * x[1], x[0] ** 3])


@pytest.mark.parametrize("custom", [False, True])
def test_products_with_hessians_from_both_sides(custom):
    x, v = gc.tensor([1.0, 2.0], dtype=gc.float64), gc.tensor([1.0, 10.0], dtype=gc.float64)
    func = Skewed.apply if custom else lambda x: x[0] ** 2 * x[1] ** 3
    matrix = gc.autograd.functional.hessian(func, x)
    assert gc.equal(matrix, matrix.T) is not custom
    assert gc.allclose(gc.autograd.functional.hvp(func, x, v)[1], matrix @ v)
    assert gc.allclose(gc.autograd.functional.vhp(func, x, v)[1], v @ matrix)
