"""Tensors that a transformed function writes in place: captured ones keep values, not the history of its level."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc

func = gc.func

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "whole": lambda t, x: t.add_(x),
    "view": lambda t, x: t[1:].mul_(2).add_(x[1:]),
    "element": lambda t, x: t.__setitem__(0, x.sum()),
    "slice": lambda t, x: t.__setitem__(slice(0, 2), x[:2]),
    "copied": lambda t, x: t.copy_(x * 3),
    "reshaped": lambda t, x: t.view(3, 1).add_(x[:, None]),
    "scattered": lambda t, x: t.scatter_add_(0, gc.tensor([0, 2]), x[:2]),
    "detached": lambda t, x: t.add_(x.detach()),
}

TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: func.grad(f)(x),
    "grad_and_value": lambda f, x: func.grad_and_value(f)(x)[0],
    "vjp": lambda f, x: func.vjp(f, x)[1](gc.tensor(1.0))[0],
    "jacrev": lambda f, x: func.jacrev(f)(x),
    "jvp": lambda f, x: func.jvp(f, (x,), (gc.ones(3),))[1],
    "linearize": lambda f, x: func.linearize(f, x)[1](gc.ones(3)),
    "jacfwd": lambda f, x: func.jacfwd(f)(x),
    "hessian": lambda f, x: func.hessian(f)(x).sum(0),
}


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_captured_tensor_keeps_values_alone(transform: str, write: str, raises: bool) -> None:
    seen, expected, x = gc.zeros(3), gc.zeros(3), gc.tensor([1.0, 2.0, 3.0])

    def f(x: Any) -> Any:
        WRITES[write](seen, x)
        if raises:
            raise KeyError
        return (x * x).sum()

    for _ in range(3):
        WRITES[write](expected, x)
        if raises:
            with pytest.raises(KeyError):
                TRANSFORMS[transform](f, x)
        else:
            TRANSFORMS[transform](f, x)
        assert not seen.requires_grad
        assert seen.grad_fn is None
        np.testing.assert_array_equal(seen.numpy(), expected.numpy())
        copy.deepcopy(seen)


@pytest.mark.parametrize("write", [name for name in WRITES if name != "detached"])
def test_what_the_caller_differentiates_goes_through(write: str) -> None:
    """The history that leads to the tensors of the caller stays, in the captured tensor and in the gradient."""
    w = gc.tensor([2.0, 3.0, 4.0], dtype=gc.float64, requires_grad=True)

    def program(w: Any) -> Any:
        seen = gc.zeros(3, dtype=gc.float64)

        def f(x: Any) -> Any:
            WRITES[write](seen, x * w)
            return (x * x * w).sum()

        slope = func.grad(f)(gc.ones(3, dtype=gc.float64))
        return (slope * seen).sum()

    assert gc.autograd.gradcheck(program, (w,))
    outer = func.grad(program)(w.detach())
    np.testing.assert_allclose(outer.numpy(), gc.autograd.grad(program(w), w)[0].numpy())


@pytest.mark.parametrize("transform", ["vjp", "linearize", "jacrev"])
def test_a_captured_tensor_may_be_the_output(transform: str) -> None:
    seen, x = gc.zeros(3), gc.tensor([1.0, 2.0, 3.0])

    def f(x: Any) -> Any:
        return seen.copy_(x * x)

    if transform == "jacrev":
        found = func.jacrev(f)(x).sum(0)
    else:
        found = getattr(func, transform)(f, x)[1](gc.ones(3))
        found = found[0] if transform == "vjp" else found
    assert found.tolist() == [2.0, 4.0, 6.0]
    assert not seen.requires_grad


def test_a_local_tensor_that_was_written_is_differentiated_again() -> None:
    """What backward kept of it has the history that it had."""

    def f(x: Any) -> Any:
        local = gc.zeros(3, dtype=x.dtype)
        local[0] = x[0] ** 2
        local[1:] = x[1:] * x[0]
        return (local * local * local).sum()

    x = gc.tensor([1.0, 2.0, 3.0], dtype=gc.float64)
    pull = func.vjp(f, x)[1]
    seed = gc.tensor(1.0, dtype=gc.float64, requires_grad=True)
    (slope,) = pull(seed)
    np.testing.assert_allclose(gc.autograd.grad(slope.sum(), seed)[0].item(), func.grad(f)(x).sum().item())
    hessian = func.jacrev(lambda x: func.vjp(f, x)[1](gc.tensor(1.0, dtype=gc.float64))[0])(x)
    np.testing.assert_allclose(hessian.numpy(), gc.autograd.functional.hessian(f, x).numpy())
