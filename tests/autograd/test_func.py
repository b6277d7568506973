"""Functions from functions: values, nesting, and what the caller's own graph sees of them."""

import numpy as np
import pytest

import gradcore as gc
from gradcore.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp


def cube(x):
    return (x * x * x).sum()


X = gc.tensor([1.0, 2.0, 3.0])
V = gc.tensor([1.0, 0.0, 2.0])


def test_gradients_of_any_order():
    function = lambda x: x**4  # noqa: E731
    for expected in (32.0, 48.0, 48.0, 24.0):
        function = grad(function)
        assert function(gc.tensor(2.0)).item() == expected


def test_gradient_and_value():
    gradient, value = grad_and_value(cube)(X)
    assert gradient.tolist() == [3.0, 12.0, 27.0]
    assert value.item() == 36.0
    gradient, (value, beside) = grad_and_value(lambda x: (cube(x), {"twice": x * 2}), has_aux=True)(X)
    assert beside["twice"].tolist() == [2.0, 4.0, 6.0]
    assert not beside["twice"].requires_grad
    assert grad(lambda x: (cube(x), "note"), has_aux=True)(X)[1] == "note"


def test_arguments_are_chosen_by_position_and_may_be_containers():
    function = lambda p, x, factor=1: (p["w"] * x + p["b"][0]).sum() * factor  # noqa: E731
    parameters = {"w": V, "b": [X]}
    gradient = grad(function)(parameters, X, factor=2)
    assert gradient["w"].tolist() == [2.0, 4.0, 6.0]
    assert gradient["b"][0].tolist() == [2.0, 2.0, 2.0]
    assert grad(function, argnums=1)(parameters, X).tolist() == V.tolist()
    both = grad(function, argnums=(1, 0))(parameters, X)
    assert both[0].tolist() == V.tolist()
    assert both[1]["w"].tolist() == X.tolist()


def test_vector_jacobian_products():
    (product, total), pull = vjp(lambda x, y: (x * y, x.sum()), X, V)
    assert product.tolist() == [1.0, 0.0, 6.0]
    assert total.item() == X.sum().item()
    first, second = pull((gc.ones(3), gc.tensor(2.0)))
    assert first.tolist() == [3.0, 2.0, 4.0]
    assert second.tolist() == X.tolist()
    assert pull((gc.zeros(3), gc.tensor(1.0)))[1].tolist() == [0.0, 0.0, 0.0]
    output, pull, beside = vjp(lambda x: (x * 2, x * 3), X, has_aux=True)
    assert output.tolist() == [2.0, 4.0, 6.0]
    assert beside.tolist() == [3.0, 6.0, 9.0]


def test_jacobian_vector_products():
    output, derivative = jvp(cube, (X,), (V,))
    assert (output.item(), derivative.item()) == (36.0, 57.0)
    (a, b), (da, db), beside = jvp(lambda x, y: ((x * y, x), y * 2), (X, V), (V, X), has_aux=True)
    assert a.tolist() == (X * V).tolist()
    assert b.tolist() == X.tolist()
    assert da.tolist() == [2.0, 4.0, 13.0]
    assert db.tolist() == V.tolist()
    assert beside.tolist() == (V * 2).tolist()
    assert jvp(lambda x: gc.ones(2), (X,), (V,))[1].tolist() == [0.0, 0.0]


def test_a_linearized_function_is_not_run_again():
    runs = []

    def function(x, y):
        runs.append(1)
        return x * y * y, {"sum": x.sum()}

    output, push = linearize(function, X, V)
    for factor in (1.0, -2.0):
        product, rest = push(V * factor, X * factor)
        expected = jvp(function, (X, V), (V * factor, X * factor))[1]
        assert gc.allclose(product, expected[0])
        assert gc.allclose(rest["sum"], expected[1]["sum"])
    assert len(runs) == 3
    assert output[0].tolist() == (X * V * V).tolist()
    with pytest.raises(RuntimeError, match=r"tangent:0 with shape .* doesn't match the shape"):
        push(gc.ones(2), X)
    with pytest.raises(RuntimeError, match=r"tangent:1 with dtype torch\.float64"):
        push(V, X.double())
    with pytest.raises(RuntimeError, match="same argspec"):
        push(V)


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobians(jacobian):
    assert jacobian(lambda x: x * x)(X).tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]
    assert jacobian(lambda x: x.sum(0))(gc.ones(2, 3)).shape == (3, 2, 3)
    found = jacobian(lambda x, y: {"product": x * y, "sum": (x.sum(),)}, argnums=(0, 1))(X, V)
    assert found["product"][0].diagonal().tolist() == V.tolist()
    assert found["sum"][0][0].tolist() == [1.0, 1.0, 1.0]
    assert found["sum"][0][1].tolist() == [0.0, 0.0, 0.0]
    assert jacobian(lambda x: (x * 2, x), has_aux=True)(X)[1].tolist() == X.tolist()
    assert jacobian(lambda x: x * 2)(gc.ones(0)).shape == (0, 0)
    assert jacobian(lambda x: x[:0])(X).shape == (0, 3)
    with pytest.raises(RuntimeError, match="Expected all inputs to be real but received complex tensor"):
        jacobian(lambda x: x)(X * 1j)


@pytest.mark.parametrize(
    "second", [hessian, lambda f: jacrev(jacrev(f)), lambda f: jacfwd(jacfwd(f)), lambda f: jacrev(jacfwd(f))]
)
def test_second_derivatives_by_every_route(second):
    assert second(cube)(X).tolist() == [[6.0, 0.0, 0.0], [0.0, 12.0, 0.0], [0.0, 0.0, 18.0]]
    mixed = second(lambda x: (x[0] * x[1] ** 2).exp() + x[2] * x[0])
    x = gc.tensor([0.5, 0.3, 1.0], dtype=gc.float64)
    assert gc.allclose(mixed(x), gc.autograd.functional.hessian(lambda x: (x[0] * x[1] ** 2).exp() + x[2] * x[0], x))


def test_levels_are_not_confused():
    one = gc.tensor(1.0)
    assert grad(lambda x: x * grad(lambda y: x + y)(one))(one).item() == 1.0
    assert jvp(lambda x: x * jvp(lambda y: x + y, (one,), (one,))[1], (one,), (one,))[1].item() == 1.0
    assert grad(lambda x: x * jvp(lambda y: x * y, (one,), (one,))[1])(one).item() == 2.0
    assert jvp(lambda x: x * grad(lambda y: x * y)(one), (one,), (one,))[1].item() == 2.0


def test_forward_and_reverse_mode_nest_in_any_order():
    assert jvp(grad(cube), (X,), (V,))[1].tolist() == [6.0, 0.0, 36.0]
    assert grad(lambda x: jvp(cube, (x,), (V,))[1])(X).tolist() == [6.0, 0.0, 36.0]
    assert jvp(lambda x: jvp(cube, (x,), (V,))[1], (X,), (V,))[1].item() == 78.0
    assert jvp(lambda x: jvp(grad(cube), (x,), (V,))[1], (X,), (V,))[1].tolist() == [6.0, 0.0, 24.0]


def test_results_do_not_require_gradients_unless_the_callers_do():
    x, w = X.clone().requires_grad_(), gc.ones(3, requires_grad=True)
    assert not grad(cube)(X).requires_grad
    assert not grad(lambda x: w.detach().sum() + cube(x))(X).requires_grad
    gradient, value = grad_and_value(lambda x: w.sum() + cube(x))(X)
    assert (gradient.requires_grad, value.requires_grad) == (False, True)
    grad(lambda x: (w * x * x).sum())(X).sum().backward()
    assert w.grad.tolist() == [2.0, 4.0, 6.0]
    grad(cube)(x).sum().backward()
    assert x.grad.tolist() == [6.0, 12.0, 18.0]
    assert X.grad is None
    with gc.no_grad():
        assert not grad(cube)(x).requires_grad
    x.grad = None
    jvp(cube, (x,), (V,))[1].backward()
    assert x.grad.tolist() == [6.0, 0.0, 36.0]


def test_no_grad_inside_is_respected():
    def function(x):
        with gc.no_grad():
            constant = x * x
        return (x - constant).sum()

    assert grad(function)(X).tolist() == [1.0, 1.0, 1.0]


def test_the_callers_mode_is_restored():
    with gc.no_grad(), pytest.raises(ZeroDivisionError):
        grad(lambda x: 1 / 0)(X)
    assert gc.is_grad_enabled()
    with gc.inference_mode():
        assert grad(cube)(X).tolist() == [3.0, 12.0, 27.0]
        assert gc.is_inference_mode_enabled()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: grad(cube)(3), ValueError, "Thing passed to transform API must be Tensor, got <class 'int'>"),
        (lambda: grad(cube)(gc.tensor([1, 2])), RuntimeError, "can require gradients"),
        (lambda: grad(lambda x: x)(X), RuntimeError, "to return a scalar Tensor, got tensor with 1 dims"),
        (lambda: grad(lambda x: 3)(X), RuntimeError, "to return a Tensor, got <class 'int'>"),
        (lambda: grad(cube, argnums=2)(X), RuntimeError, "Got argnum=2, but only 1 positional inputs"),
        (lambda: grad(cube, argnums=(0, 0))(X), RuntimeError, "argnums elements must be unique"),
        (lambda: grad(cube, argnums=())(X), RuntimeError, "argnums must be non-empty"),
        (lambda: grad(cube, argnums="a")(X), RuntimeError, "argnums must be int or Tuple"),
        (lambda: grad(cube, has_aux=True)(X), RuntimeError, r"should be a tuple: \(output, aux\)"),
        (lambda: jvp(cube, [X], [V]), RuntimeError, "Expected primals to be a tuple"),
        (lambda: jvp(cube, (X,), (V, V)), RuntimeError, "same python structure"),
        (lambda: jvp(cube, (X,), (3,)), RuntimeError, "Expected tangents to only contain Tensors"),
        (lambda: jvp(cube, (), ()), RuntimeError, "Expected primals to contain at least one Tensor"),
        (lambda: jvp(cube, (X,), (gc.ones(2),)), RuntimeError, "different size than that of the original"),
        (lambda: jvp(lambda x: 3, (X,), (V,)), RuntimeError, "to return only tensors, got unsupported type"),
        (lambda: jvp(lambda x: V, (X,), (V,), strict=True), RuntimeError, "independent of the inputs"),
        (lambda: vjp(lambda x: gc.tensor([1]), X), RuntimeError, "must be floating-point or complex Tensors"),
        (lambda: vjp(lambda x: None, X), RuntimeError, "non-empty output"),
        (lambda: vjp(lambda x: x, X)[1]((V, V)), RuntimeError, "Expected pytree structure of cotangents"),
        (lambda: vjp(lambda x: x, X)[1](1.0), TypeError, "gradients can be either Tensors or None, but got float"),
        (lambda: jacrev(cube, chunk_size=0), ValueError, "`chunk_size` should be greater than 0"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


class Doubled(gc.autograd.Function):
    """Twice the input, by a backward of the user."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


def _hooked(x):
    y = x * x
    y.register_hook(lambda g: 3 * g)
    return y.sum()


def _written(x):
    y = x.clone()
    y.mul_(x)
    return (y * y).sum()


def _differentiated_before(x):
    """Compute with a finished transformation whose input is part of the history."""
    value, pull = gc.func.vjp(lambda y: y * x, gc.ones(3))
    return (value * pull(gc.ones(3))[0]).sum()


PROGRAMS = {
    "the input itself": (lambda x: x[0], lambda x: [1, 0, 0]),
    "an input twice": (lambda x: (x * x + x).sum(), lambda x: 2 * x + 1),
    "a backward of the user": (lambda x: Doubled.apply(x * x).sum(), lambda x: 4 * x),
    "a hook": (_hooked, lambda x: 6 * x),
    "a write": (_written, lambda x: 4 * x**3),
    "no use of the input": (lambda x: gc.tensor(1.0), lambda x: 0 * x),
    "a finished transformation": (_differentiated_before, lambda x: 2 * x),
}


@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_and_values_of_programs_on_the_short_way_and_off_it(name, recording):
    function, expected = PROGRAMS[name]
    x = np.array([0.5, -1.0, 2.0])
    with gc.set_grad_enabled(recording):
        gradient, value = gc.func.grad_and_value(function)(gc.tensor(x))
    assert not gradient.requires_grad
    assert not value.requires_grad
    np.testing.assert_allclose(gradient.numpy(), expected(x))
    recorded = gc.tensor(x).requires_grad_() * 1
    gradient, value = gc.func.grad_and_value(function)(recorded)
    assert value.requires_grad is (name != "no use of the input")
    np.testing.assert_allclose(gradient.detach().numpy(), expected(x))
    both = gc.func.grad(lambda x, y: function(x) + (y * y).sum(), argnums=(0, 1))(gc.tensor(x), gc.tensor(x))
    np.testing.assert_allclose(both[0].numpy(), expected(x))
    np.testing.assert_allclose(both[1].numpy(), 2 * x)
