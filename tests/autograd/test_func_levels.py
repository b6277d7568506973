"""Transformations beside and inside each other: whose input a tensor is, and what a returned function still knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from gradcore.utils.checkpoint import checkpoint

X = gc.tensor([0.5, 1.0, 2.0])
V = gc.tensor([1.0, -1.0, 0.5])


def close(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        for a, b in zip(found, expected, strict=True):
            close(a, b)
        return
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), 1e-5, 1e-6)


def sine(x: Any) -> Any:
    return x.sin() * x


#: The derivative of `sine`.
SLOPE = X.cos() * X + X.sin()


# -- functions that a transformation has returned ---------------------------------------------------------------------


def pulled() -> Callable[[Any], Any]:
    _, pull = vjp(sine, X)
    return lambda c: pull(c)[0]


def pushed() -> Callable[[Any], Any]:
    return linearize(sine, X)[1]  # type: ignore[no-any-return]


@pytest.mark.parametrize("make", [pulled, pushed])
@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (lambda f: grad(lambda c: (f(c) ** 2).sum())(V), 2 * SLOPE**2 * V),
        (lambda f: grad(lambda c: grad(lambda d: (f(d) ** 3).sum())(c * c).sum())(V), 12 * SLOPE**3 * V**3),
        (lambda f: vjp(f, V)[1](X)[0], SLOPE * X),
        (lambda f: jvp(f, (V,), (X,))[1], SLOPE * X),
        (lambda f: jacrev(f)(V), SLOPE.diag()),
        (lambda f: jacfwd(f)(V), SLOPE.diag()),
        (lambda f: hessian(lambda c: (f(c) ** 2).sum())(V), (2 * SLOPE**2).diag()),
        (lambda f: vmap(grad(lambda c: (f(c) ** 2).sum()))(V.expand(2, 3))[1], 2 * SLOPE**2 * V),
        (lambda f: linearize(f, V)[1](X), SLOPE * X),
    ],
)
def test_a_returned_function_is_differentiated_later(make: Any, transform: Any, expected: Any) -> None:
    found = transform(make())
    close(found, expected)
    assert not found.requires_grad


def test_a_returned_function_inside_the_transformation_of_its_argument() -> None:
    def outer(x: Any) -> Any:
        _, pull = vjp(sine, x)
        return grad(lambda c: (pull(c)[0] ** 2).sum())(V).sum()

    expected = 4 * V * SLOPE * (2 * X.cos() - X * X.sin())
    close(grad(outer)(X), expected)
    close(jacfwd(outer)(X), expected)
    close(vmap(grad(outer))(X.expand(2, 3)), expected.expand(2, 3))


def test_a_returned_function_remembers_the_callers_graph() -> None:
    x = X.clone().requires_grad_()
    with gc.no_grad():
        output, pull = vjp(sine, x)
    assert not output.requires_grad
    (pulled,) = pull(gc.ones(3))
    close(gc.autograd.grad(pulled.sum(), x)[0], 2 * X.cos() - X * X.sin())


# -- inputs are leaves ------------------------------------------------------------------------------------------------


def test_an_input_is_a_leaf() -> None:
    seen = []

    def function(x: Any) -> Any:
        x.requires_grad = True
        seen.append((x.is_leaf, x.grad_fn, x.grad, x.requires_grad, "requires_grad=True" in repr(x)))
        return x.sum()

    grad(function)(X * 2)
    grad(lambda x: grad(function)(x * x).sum())(X)
    assert seen == [(True, None, None, True, True)] * 2


WRITES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "whole": (lambda x: x.mul_(2), "a leaf Variable that requires grad is being used"),
    "part": (lambda x: x[0].mul_(2), "a view of a leaf Variable that requires grad is being used"),
    "item": (lambda x: x.__setitem__(0, 1.0), "a view of a leaf Variable that requires grad is being used"),
}


@pytest.mark.parametrize("transform", [grad, jacrev, lambda f: grad(grad(f)), lambda f: vmap(grad(f))])
@pytest.mark.parametrize("name", WRITES)
def test_an_input_is_not_written_to(name: str, transform: Any) -> None:
    write, message = WRITES[name]

    def function(x: Any) -> Any:
        write(x)
        return x.sin().sum()

    with pytest.raises(RuntimeError, match=message):
        transform(function)(gc.ones(2, 3))


def test_a_copy_of_an_input_is_written_to() -> None:
    def function(x: Any) -> Any:
        x = x.clone()
        x[0].mul_(3)
        return (x * x).sum()

    close(grad(function)(X), gc.tensor([9.0, 2.0, 4.0]))


# -- what has no derivative is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["jacobian", "hessian", "vjp"])
@pytest.mark.parametrize("transform", [jacrev, jacfwd, lambda f: lambda x: jvp(f, (x,), (x,))])
def test_functional_without_a_graph_is_refused(name: str, transform: Any) -> None:
    call = getattr(gc.autograd.functional, name)
    with pytest.raises(RuntimeError, match=r"autograd\.functional.*inside of a function being transformed"):
        transform(lambda x: call(lambda y: y.sin().sum(), x))(X)


def test_functional_with_a_graph() -> None:
    found = jacrev(lambda x: gc.autograd.functional.jacobian(lambda y: y.sin().sum(), x, create_graph=True))(X)
    close(found, (-X.sin()).diag())


@pytest.mark.parametrize("transform", [grad, jacrev, grad_and_value, lambda f: vmap(grad(f))])
def test_backward_inside_is_refused(transform: Any) -> None:
    def function(x: Any) -> Any:
        (x * x).sum().backward()
        return x.sum()

    with pytest.raises(RuntimeError, match=r"backward\(\) called inside a functorch transform"):
        transform(function)(gc.ones(2, 3))


# -- inference mode ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (lambda f: grad(lambda x: f(x).sum())(X), 3 * X**2),
        (lambda f: hessian(lambda x: f(x).sum())(X), (6 * X).diag()),
        (lambda f: jacrev(f)(X), (3 * X**2).diag()),
        (lambda f: jacfwd(f)(X), (3 * X**2).diag()),
        (lambda f: linearize(f, X)[1](V), 3 * X**2 * V),
        (lambda f: vmap(grad(f))(X), 3 * X**2),
        (lambda f: grad(lambda x: f(x).sum())(gc.tensor([0.5, 1.0, 2.0])), 3 * X**2),
    ],
)
def test_inference_mode_outside(transform: Any, expected: Any) -> None:
    with gc.inference_mode():
        one = gc.tensor(1.0)
        found = transform(lambda x: x**3 * one)
    close(found, expected)


# -- what nodes keep --------------------------------------------------------------------------------------------------


class Exponential(gc.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs, output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, result = ctx.saved_tensors
        return g * (x.exp() + result) / 2

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        (result,) = ctx.saved_tensors
        return tangent * result


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "operations": lambda x: (x.exp() * x.sin() * gc.stack([x, x]).prod(0)).sum(),
    "custom": lambda x: Exponential.apply(x).sin().sum(),
    "half": lambda x: (x.double() * x).sum(),
}
hooks = gc.autograd.graph.saved_tensors_hooks
KEEPING: dict[str, Callable[[Any, Any], Any]] = {
    "hooks": lambda f, x: _with(hooks(lambda t: t, lambda t: t), f, x),
    "detached": lambda f, x: _with(hooks(lambda t: t.detach(), lambda t: t.clone()), f, x),
    "on the CPU": lambda f, x: _with(gc.autograd.graph.save_on_cpu(), f, x),
    "checkpoint": lambda f, x: checkpoint(f, x, use_reentrant=False),
}


def _with(context: Any, function: Any, x: Any) -> Any:
    with context:
        return function(x)


@pytest.mark.parametrize("keeping", KEEPING)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_through_hooks_on_saved_tensors(name: str, keeping: str) -> None:
    function = FUNCTIONS[name]
    expected = hessian(function)(X)
    kept = lambda x: KEEPING[keeping](function, x)  # noqa: E731
    close(hessian(kept)(X), expected)
    close(jacrev(jacrev(kept))(X), expected)
    close(jvp(grad(kept), (X,), (V,))[1].double(), (expected @ V.to(expected)).double())
    close(vmap(grad(kept))(X.expand(2, 3))[1], grad(function)(X))


def test_checkpoints_inside() -> None:
    kept = lambda x: checkpoint(sine, x, use_reentrant=False)  # noqa: E731
    close(vmap(kept)(X.expand(2, 3)), sine(X).expand(2, 3))
    close(jvp(kept, (X,), (V,)), (sine(X), SLOPE * V))
    close(vmap(jacrev(kept))(X.expand(2, 3))[0], SLOPE.diag())


# -- Jacobians --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [gc.float64, gc.float16, gc.complex64])
def test_dtypes_change_under_forward_mode(dtype: Any) -> None:
    found = jacfwd(lambda x: x.to(dtype).real.float() * 2 if dtype.is_complex else x.to(dtype) * 2)(X)
    close(found.float(), 2 * gc.eye(3))
    assert found.dtype is (gc.float32 if dtype.is_complex else dtype)


def test_single_rows_are_no_batch() -> None:
    seen = []

    def function(x: Any) -> Any:
        y = sine(x)
        y.register_hook(lambda g: seen.append(g.tolist()))
        return y

    close(jacrev(function, chunk_size=1)(X), SLOPE.diag())
    assert seen == gc.eye(3).tolist()
    close(vmap(jacrev(sine, chunk_size=1))(X.expand(2, 3))[1], SLOPE.diag())


def test_arrays_of_inputs_where_nothing_is_recorded() -> None:
    x = X.clone().requires_grad_()
    with gc.no_grad():
        assert x.numpy().tolist() == X.tolist()
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        x.numpy()


# -- hooks belong to the transformation in which their tensor is ------------------------------------------------------


def hooked(x: Any) -> Any:
    """``x**3`` with the gradient 5 x**2, since a hook doubles what reaches ``x * x``."""
    y = x * x
    y.register_hook(lambda g: 2 * g)
    return (y * x).sum()


@pytest.mark.parametrize(
    "second",
    [grad(lambda x: grad(hooked)(x).sum()), lambda x: jvp(grad(hooked), (x,), (gc.ones(3),))[1]],
    ids=["reverse", "forward"],
)
def test_second_derivatives_differentiate_what_hooks_made(second: Any) -> None:
    close(grad(hooked)(X), 5 * X * X)
    close(second(X), 10 * X)
    close(vmap(second)(X.expand(2, 3)), (10 * X).expand(2, 3))


@pytest.mark.parametrize("second", [hessian(hooked), jacrev(jacrev(hooked))], ids=["hessian", "jacrev"])
def test_hessians_of_functions_with_hooks(second: Any) -> None:
    close(second(X), (10 * X).diag())


def test_an_outer_backward_does_not_call_the_hooks_of_a_transformation() -> None:
    x = X.clone().requires_grad_()
    y = grad(hooked)(x)
    close(gc.autograd.grad(y.sum(), x)[0], 10 * X)


def test_hooks_of_tensors_of_an_outer_transformation() -> None:
    calls = []

    def outer(x: Any) -> Any:
        y = x * x

        def inner(z: Any) -> Any:
            y.register_hook(lambda g: calls.append(len(calls)) or 2 * g)
            return (z * z * y).sum()

        return grad(inner)(x).sum()

    close(grad(outer)(X), 10 * X * X)
    assert calls == [0]


def test_hooks_of_leaves_inside_a_transformation() -> None:
    weight = gc.ones(3, requires_grad=True)

    def function(x: Any) -> Any:
        scaled = weight * 2
        scaled.register_hook(lambda g: 3 * g)
        return (x * scaled).sum()

    close(gc.autograd.grad(grad(function)(X).sum(), weight)[0], gc.full((3,), 6.0))
