"""``gradcore.scipy.optimize`` against SciPy, and derivatives of solutions against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd import gradcheck, gradgradcheck
from gradcore.scipy import optimize

scipy_optimize = pytest.importorskip("scipy.optimize")

GRADIENTS = ["CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP", "trust-constr"]
PRODUCTS = ["Newton-CG", "trust-ncg", "trust-krylov", "trust-exact", "dogleg"]


@pytest.fixture(name="A")
def minimum_of_a_part() -> gc.Tensor:
    return gc.tensor([1.3, 0.7, -0.4], dtype=gc.float64, requires_grad=True)


def bowl(x: Any, a: Any) -> Any:
    return ((x - a) ** 2).sum() + 0.1 * (x**4).sum() + 0.3 * x[0] * x[1]


def both_orders(f: Any, *leaves: Any, **settings: Any) -> None:
    """Check the derivatives of solutions in both modes and in second order."""
    assert gradcheck(f, leaves, fast_mode=True, eps=1e-4, atol=1e-4, rtol=1e-3, check_forward_ad=True, **settings)
    assert gradgradcheck(f, leaves, fast_mode=True, eps=1e-4, atol=1e-3, rtol=1e-3, check_fwd_over_rev=True)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("method", [*GRADIENTS, *PRODUCTS, "Nelder-Mead", "Powell", "COBYLA", "COBYQA"])
def test_minimize_with_every_method(A: Any, method: str) -> None:
    found = optimize.minimize(bowl, [0.0, 0.0, 0.0], (A,), method, options={} if method == "TNC" else {"maxiter": 2000})
    numbers = A.detach().numpy()
    want = scipy_optimize.minimize(bowl, np.zeros(3), (numbers,), "BFGS", tol=1e-10).x
    rough = method in ("Nelder-Mead", "Powell", "COBYLA", "COBYQA", "TNC", "SLSQP", "trust-constr")
    np.testing.assert_allclose(found.x.detach().numpy(), want, atol=1e-2 if rough else 1e-4)
    assert type(found).__name__ == "OptimizeResult"
    exact = gc.linalg.inv(gc.func.hessian(lambda x: bowl(x, A.detach()))(gc.tensor(want))) * 2
    (grad,) = gc.autograd.grad(found.x.sum(), A, retain_graph=True)
    np.testing.assert_allclose(grad.numpy(), exact.sum(0).numpy(), atol=1e-2)
    (envelope,) = gc.autograd.grad(found.fun, A)
    np.testing.assert_allclose(envelope.numpy(), -2 * (want - numbers), atol=2e-2)


@pytest.mark.slow
def test_derivatives_of_minima(A: Any) -> None:
    both_orders(lambda a: optimize.minimize(bowl, np.zeros(3), (a,), "BFGS", tol=1e-10).x, A)


def test_nested_unknowns_of_modules() -> None:
    """Ridge regression with nested unknowns and captured data has the derivatives of the normal equations."""
    x = gc.tensor(np.random.default_rng(0).normal(size=(6, 2)), requires_grad=True)
    y = gc.tensor(np.random.default_rng(1).normal(size=6), requires_grad=True)
    ridge = gc.tensor(0.5, dtype=gc.float64, requires_grad=True)

    def loss(p: Any) -> Any:
        return ((x @ p["w"] + p["b"][0] - y) ** 2).sum() + ridge * (p["w"] ** 2).sum()

    found = optimize.minimize(loss, {"w": gc.zeros(2, dtype=gc.float64), "b": [np.zeros(())]}, method="trust-exact")
    assert found.x["b"][0].shape == ()
    X = gc.cat([x, gc.ones(6, 1, dtype=gc.float64)], 1)
    wanted = gc.linalg.solve(X.mT @ X + ridge * gc.diag(gc.tensor([1.0, 1.0, 0.0], dtype=gc.float64)), X.mT @ y)
    np.testing.assert_allclose(found.x["w"].detach(), wanted[:2].detach(), rtol=1e-6)
    ours = gc.autograd.grad(found.x["w"].sum() + 2 * found.x["b"][0], (x, y, ridge))
    theirs = gc.autograd.grad(wanted[:2].sum() + 2 * wanted[2], (x, y, ridge))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-8)


@pytest.mark.slow
def test_bounds_and_constraints(A: Any) -> None:
    both_orders(lambda a: optimize.minimize(bowl, np.ones(3), (a,), "L-BFGS-B", bounds=[(0.2, 1)] * 3, tol=1e-9).x, A)
    clipped = optimize.minimize(bowl, np.zeros(3), (A,), bounds=scipy_optimize.Bounds(0.2, 1.0))
    (grad,) = gc.autograd.grad(clipped.x[2], A)
    assert grad.tolist() == [0, 0, 0]

    def circle(x: Any, r: Any) -> Any:
        return (x**2).sum() - r

    r = gc.tensor(0.5, dtype=gc.float64, requires_grad=True)

    def on_circle(a: Any, r: Any) -> Any:
        constraints = {"type": "eq", "fun": circle, "args": (r,)}
        return optimize.minimize(bowl, np.ones(3), (a,), "SLSQP", constraints=constraints, tol=1e-12).x

    assert gradcheck(on_circle, (A, r), fast_mode=True, eps=1e-4, atol=1e-4, check_forward_ad=True)
    theirs = scipy_optimize.minimize(
        bowl, np.ones(3), (A.detach().numpy(),), "SLSQP", constraints={"type": "eq", "fun": circle, "args": (0.5,)}
    )
    np.testing.assert_allclose(on_circle(A, r).detach().numpy(), theirs.x, atol=1e-4)
    inside = scipy_optimize.NonlinearConstraint(lambda x: circle(x, r), -np.inf, 0)
    line = scipy_optimize.LinearConstraint([[1.0, 1.0, 1.0]], -10.0, 10.0)  # not active
    limited = optimize.minimize(bowl, np.ones(3) / 4, (A,), "SLSQP", constraints=[inside, line], tol=1e-12).x
    np.testing.assert_allclose(limited.detach(), on_circle(A, r).detach(), atol=1e-5)
    for a, b in zip(*(gc.autograd.grad(x.sum(), (A, r)) for x in (limited, on_circle(A, r))), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


def system(x: Any, a: Any) -> Any:
    stack = gc.stack if isinstance(x, gc.Tensor) else np.stack
    return stack([x[0] ** 2 + x[1] - a[0] ** 2, x[0] - x[1] * a[1]])


@pytest.mark.parametrize("method", ["hybr", "lm", "broyden1", "krylov"])
def test_root(A: Any, method: str) -> None:
    found = optimize.root(system, [1.0, 1.0], (A,), method)
    wanted = scipy_optimize.root(system, [1.0, 1.0], (A.detach().numpy(),))
    np.testing.assert_allclose(found.x.detach().numpy(), wanted.x, rtol=1e-4)
    if method == "hybr":
        both_orders(lambda a: optimize.root(system, [1.0, 1.0], (a,), tol=1e-13).x, A)


def test_roots_of_numbers() -> None:
    a = gc.tensor(2.0, dtype=gc.float64, requires_grad=True)
    cube = lambda x, a: x**3 - a  # noqa: E731
    finders = {
        "bracket": lambda a: optimize.root_scalar(cube, (a,), bracket=(0, 2), xtol=1e-13).root,
        "newton": lambda a: optimize.root_scalar(cube, (a,), x0=1.0, xtol=1e-13).root,
        "halley": lambda a: optimize.root_scalar(cube, (a,), "halley", x0=1.0, xtol=1e-13).root,
        "secant": lambda a: optimize.newton(cube, 1.0, args=(a,), x1=1.5, tol=1e-13),
        **{name: lambda a, name=name: getattr(optimize, name)(cube, 0, 2, (a,), 1e-13)
           for name in ("bisect", "brenth", "brentq", "ridder", "toms748")},
    }  # fmt: skip
    for find in finders.values():
        assert find(a).item() == pytest.approx(2 ** (1 / 3), rel=1e-10)
        assert gc.autograd.grad(find(a), a)[0].item() == pytest.approx(2 ** (-2 / 3) / 3, rel=1e-9)
    both_orders(finders["newton"], a)
    value, info = optimize.brentq(cube, 0, 2, (a,), full_output=True)
    assert info.converged
    assert value.requires_grad
    assert optimize.newton(cube, 1.0, args=(a,)).item() == pytest.approx(2 ** (1 / 3))


def test_fixed_point_and_scalar_minimum() -> None:
    a = gc.tensor([0.5, 0.8], dtype=gc.float64, requires_grad=True)
    both_orders(lambda a: optimize.fixed_point(lambda x: gc.cos(a * x), [1.0, 1.0], xtol=1e-13), a)
    both_orders(lambda a: optimize.minimize_scalar(lambda x: (x - a[0]) ** 2 + a[1] * x**4, tol=1e-10).x, a)
    bounded = optimize.minimize_scalar(lambda x: (x - a[0]) ** 2, bounds=(0, 2), method="bounded")
    assert gc.autograd.grad(bounded.x, a)[0].tolist() == pytest.approx([1, 0])


@pytest.mark.parametrize(
    "loss",
    ["linear", *(pytest.param(name, marks=pytest.mark.slow) for name in ("soft_l1", "huber", "cauchy", "arctan"))],
)
def test_least_squares(loss: str) -> None:
    t = np.linspace(0, 2, 7)
    y = gc.tensor(2 * np.exp(-t) + 0.1 * np.sin(9 * t), requires_grad=True)

    def residuals(p: Any, y: Any) -> Any:
        xp = gc if isinstance(p, gc.Tensor) else np
        return p[0] * xp.exp(-p[1] * xp.asarray(t)) - y

    def fit(y: Any) -> Any:
        return optimize.least_squares(residuals, [1.0, 0.5], loss=loss, f_scale=0.05, args=(y,), xtol=1e-14, ftol=1e-14,
                                      gtol=1e-14)  # fmt: skip

    theirs = scipy_optimize.least_squares(residuals, [1.0, 0.5], loss=loss, f_scale=0.05, args=(y.detach().numpy(),))
    ours = fit(y)
    np.testing.assert_allclose(ours.x.detach(), theirs.x, rtol=1e-3)
    assert ours.cost.item() == pytest.approx(theirs.cost, rel=1e-4)
    both_orders(lambda y: fit(y).x, y)


def test_curve_fit() -> None:
    x = np.linspace(0, 1, 8)
    y = gc.tensor(2 * np.exp(-1.5 * x) + 0.05 * np.cos(20 * x), requires_grad=True)
    weights = np.linspace(0.5, 1.5, 8)

    def model(x: Any, a: Any, b: Any) -> Any:
        xp = gc if isinstance(a, gc.Tensor) else np
        return a * xp.exp(-b * x)

    for settings in ({}, {"sigma": weights}, {"sigma": weights, "absolute_sigma": True}, {"sigma": np.diag(weights)}):
        ours = optimize.curve_fit(model, gc.tensor(x), y, **settings)
        theirs = scipy_optimize.curve_fit(model, x, y.detach().numpy(), **settings)
        np.testing.assert_allclose(ours[0].detach(), theirs[0], rtol=1e-5)
        np.testing.assert_allclose(ours[1].detach(), theirs[1], rtol=1e-4)
    assert gradcheck(lambda y: optimize.curve_fit(model, gc.tensor(x), y), y, fast_mode=True, eps=1e-4, atol=1e-4)


def test_nnls_and_assignment() -> None:
    rng = np.random.default_rng(2)
    a, b = gc.tensor(rng.normal(size=(5, 3)), requires_grad=True), gc.tensor(rng.normal(size=5), requires_grad=True)
    x, norm = optimize.nnls(a, b)
    want = scipy_optimize.nnls(a.detach().numpy(), b.detach().numpy())
    np.testing.assert_allclose(x.detach(), want[0])
    assert norm.item() == pytest.approx(want[1])
    both_orders(lambda a, b: optimize.nnls(a, b)[0], a, b)
    cost = gc.tensor(rng.normal(size=(4, 5)))
    for maximize in (False, True):
        ours = optimize.linear_sum_assignment(cost, maximize)
        for index, wanted in zip(ours, scipy_optimize.linear_sum_assignment(cost.numpy(), maximize), strict=True):
            assert index.tolist() == wanted.tolist()


def test_what_is_refused(A: Any) -> None:
    with pytest.raises(TypeError, match="exact derivatives"):
        optimize.minimize(bowl, [0.0, 0.0, 0.0], (A,), jac="2-point")
    with pytest.raises(TypeError, match="exact Jacobians"):
        optimize.root(system, [1.0, 1.0], (A,), jac=lambda x: x)
    with pytest.raises(TypeError, match="real numbers"):
        optimize.minimize(bowl, [1j])
    with pytest.raises(ValueError, match="scalar value"):
        optimize.minimize(lambda x: x, [0.0, 1.0])
    with pytest.warns(RuntimeWarning, match="did not converge"):
        optimize.minimize(bowl, [5.0, 5.0, 5.0], (A,), "BFGS", options={"maxiter": 1})


def test_third_order() -> None:
    """The root of x**3 = a is a power of it, whose third derivative is known."""
    root = lambda a: optimize.brentq(lambda x: x**3 - a, 0, 3)  # noqa: E731
    third = gc.func.grad(gc.func.grad(gc.func.grad(root)))(gc.tensor(2.0, dtype=gc.float64))
    assert third.item() == pytest.approx(10 / 27 * 2 ** (-8 / 3), rel=1e-9)


def test_fsolve_returns_the_root() -> None:
    a = gc.tensor([4.0, 9.0], dtype=gc.float64, requires_grad=True)
    assert gradcheck(lambda a: optimize.fsolve(lambda x, b: x**2 - b, [1.0, 1.0], (a,)), a)
    with pytest.raises(RuntimeError, match="fsolve"):
        optimize.fsolve(lambda x: x**2 + 1, [1.0])
