"""``gradcore.scipy.integrate`` against SciPy, and its derivatives against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd import gradcheck, gradgradcheck
from gradcore.scipy import integrate

scipy_integrate = pytest.importorskip("scipy.integrate")

RANDOM = np.random.default_rng(3)
Y9, Y8, Y2 = (np.random.default_rng(n).normal(size=(2, n)) for n in (9, 8, 2))
X9, X8 = np.cumsum(RANDOM.uniform(0.5, 1.5, 9)), np.cumsum(RANDOM.uniform(0.5, 1.5, (2, 8)), 1)
SAMPLES = {
    "trapezoid": [(Y9, {}), (Y9, {"x": X9}), (Y9.T, {"dx": 0.3, "axis": 0}), (Y9 + 1j, {"x": X9})],
    "cumulative_trapezoid": [(Y9, {"x": X9}), (Y8, {"x": X8, "initial": 0}), (Y8, {"axis": 0, "dx": 2.0})],
    "simpson": [(Y9, {"x": X9}), (Y8, {"x": X8}), (Y8, {}), (Y2, {}), (Y8.T, {"dx": 0.2, "axis": 0})],
    "cumulative_simpson": [(Y9, {"x": X9}), (Y8, {"x": X8, "initial": 0.5}), (Y2, {}), (Y8.T, {"axis": 0})],
    "romb": [(Y9, {}), (Y9.T, {"axis": 0, "dx": 0.1})],
}


@pytest.mark.parametrize(("name", "y", "settings"), [(k, *call) for k, calls in SAMPLES.items() for call in calls])
def test_integrals_of_samples(name: str, y: Any, settings: dict[str, Any]) -> None:
    ours, theirs = getattr(integrate, name), getattr(scipy_integrate, name)
    strided = gc.tensor(np.repeat(y, 2, -1))[..., ::2]
    np.testing.assert_allclose(ours(strided, **settings).numpy(), theirs(y, **settings), rtol=1e-12)
    leaves = [gc.tensor(y, requires_grad=True)]
    x = settings.get("x")
    if x is not None:
        leaves.append(gc.tensor(x, requires_grad=True))

    def call(y: Any, *x: Any) -> Any:
        return ours(y, **({**settings, "x": x[0]} if x else settings))

    assert gradcheck(call, leaves, fast_mode=True, check_forward_ad=True)
    assert gradgradcheck(call, leaves, fast_mode=True, atol=1e-4)


@pytest.mark.slow
def test_integrals_of_functions() -> None:
    a = gc.tensor([0.3, 1.2, 0.7], dtype=gc.float64, requires_grad=True)
    fixed = integrate.fixed_quad(lambda x: gc.sin(a[2] * x), a[0], a[1], n=4)[0]
    numbers = a.detach().numpy()
    want = scipy_integrate.fixed_quad(lambda x: np.sin(0.7 * x), 0.3, 1.2, n=4)[0]
    assert fixed.item() == pytest.approx(want)
    quads = {
        "finite": lambda a: integrate.quad(lambda x: gc.exp(-a[2] * x * x), a[0], a[1])[0],
        "infinite": lambda a: integrate.quad(lambda x, c: gc.exp(-c * x), a[0], np.inf, args=(a[2],))[0],
        "whole": lambda a: integrate.quad(lambda x: gc.exp(-a[2] * x * x), -np.inf, np.inf)[0],
        "vector": lambda a: integrate.quad_vec(lambda x: gc.sin(a * x), 0, a[1])[0],
    }
    for f in quads.values():
        assert gradcheck(f, a, fast_mode=True, check_forward_ad=True)
    assert gradgradcheck(quads["finite"], a, fast_mode=True, atol=1e-4)
    want = scipy_integrate.quad(lambda x: np.exp(-numbers[2] * x * x), 0.3, 1.2)[0]
    assert quads["finite"](a).item() == pytest.approx(want, rel=1e-12)
    assert quads["whole"](a).item() == pytest.approx(np.sqrt(np.pi / 0.7), rel=1e-9)
    kink = integrate.quad(lambda x: gc.abs(x - 0.3), 0, 1, points=[0.3])
    assert kink[0].item() == pytest.approx(0.29, rel=1e-13)
    assert kink[1] < 1e-12
    assert integrate.quad(lambda x: gc.exp(x), 0, -np.inf)[0].item() == pytest.approx(-1)
    assert integrate.dblquad(lambda y, x: x * y, 0, 1, lambda x: x, 2)[0].item() == pytest.approx(0.875)
    with pytest.raises(TypeError, match="weight"):
        integrate.quad(gc.sin, 0, 1, weight="cos", wvar=1)


def pendulum(t: Any, y: Any, a: Any) -> Any:
    xp = gc if isinstance(y, gc.Tensor) else np
    return xp.stack([y[1], -a * xp.sin(y[0]) + 0.1 * xp.cos(xp.asarray(t) * 1.0)])


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA"])
def test_solutions_are_those_of_scipy(method: str) -> None:
    for settings in ({}, {"t_eval": np.linspace(0, 2, 5)}, {"dense_output": True, "max_step": 0.5}):
        ours = integrate.solve_ivp(pendulum, (0, 2), [1.0, 0.2], method, args=(1.3,), **settings)
        theirs = scipy_integrate.solve_ivp(pendulum, (0, 2), [1.0, 0.2], method, args=(1.3,), **settings)
        np.testing.assert_allclose(ours.t.numpy(), theirs.t, rtol=1e-6)
        np.testing.assert_allclose(ours.y.numpy(), theirs.y, rtol=1e-6)
        assert (ours.nfev, ours.status, ours.message) == (theirs.nfev, theirs.status, theirs.message)
        if ours.sol is not None:
            np.testing.assert_allclose(ours.sol(0.7).numpy(), theirs.sol(0.7), rtol=1e-6)
            np.testing.assert_allclose(ours.sol(gc.tensor([0.1, 1.9])).numpy(), theirs.sol([0.1, 1.9]), rtol=1e-5)


A = gc.tensor(1.3, dtype=gc.float64, requires_grad=True)
START = gc.tensor([1.0, 0.2], dtype=gc.float64, requires_grad=True)
TIGHT = {"rtol": 1e-6, "atol": 1e-7, "t_eval": [0.1, 0.2]}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF"])
@pytest.mark.parametrize("adjoint", [False, True])
def test_gradients(method: str, adjoint: bool) -> None:
    def solve(y0: Any, a: Any) -> Any:
        return integrate.solve_ivp(pendulum, (0, 0.2), y0, method, args=(a,), adjoint=adjoint, **TIGHT).y

    if method == "BDF" and not adjoint:
        with pytest.raises(RuntimeError, match="adjoint=True"):
            solve(START, A)
        return
    assert gradcheck(solve, (START, A), fast_mode=True, eps=1e-4, atol=1e-4, rtol=1e-3, check_forward_ad=True)
    if method == "RK45":
        check = {"eps": 1e-3, "atol": 1e-3, "rtol": 1e-2, "check_fwd_over_rev": True}
        assert gradgradcheck(solve, (START, A), fast_mode=True, **check)


def test_time_and_closures() -> None:
    """Derivatives by the limits of time, by t_eval, of a module's parameters, backwards in time."""
    layer = gc.nn.Linear(2, 2).double()

    def end(t0: Any, t1: Any) -> Any:
        found = integrate.solve_ivp(lambda t, y: gc.tanh(layer(y)) * (1 + t), (t0, t1), START.detach(), rtol=1e-6)
        return found.y[:, -1]

    limits = [gc.tensor(t, dtype=gc.float64, requires_grad=True) for t in (0.5, 0.1)]
    assert gradcheck(end, limits, fast_mode=True, atol=1e-4)
    by_steps, by_adjoint = (
        gc.autograd.grad(
            integrate.solve_ivp(
                lambda t, y: gc.tanh(layer(y)), (1, 0), START, adjoint=adjoint, rtol=1e-8, atol=1e-8
            ).y[:, -1].sum(),
            [*layer.parameters(), START],
        )
        for adjoint in (False, True)
    )  # fmt: skip
    for a, b in zip(by_steps, by_adjoint, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
        assert a.abs().max() > 1e-3
    at = gc.tensor([0.2, 0.4], dtype=gc.float64, requires_grad=True)
    moved = integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0], t_eval=at, rtol=1e-9, atol=1e-9).y
    (slope,) = gc.autograd.grad(moved.sum(), at)
    np.testing.assert_allclose(slope.numpy(), -np.exp([-0.2, -0.4]), rtol=1e-5)
    with pytest.raises(RuntimeError, match="t_eval"):
        integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0], t_eval=at, adjoint=True)


def test_complex_states() -> None:
    w = gc.tensor(2.0, dtype=gc.float64, requires_grad=True)

    def solve(w: Any) -> Any:
        return gc.view_as_real(integrate.solve_ivp(lambda t, y: 1j * w * y, (0, 1), [1 + 0j], rtol=1e-6).y[:, -1])

    assert gradcheck(solve, w, fast_mode=True, atol=1e-5)
    with pytest.raises(RuntimeError, match="real states"):
        integrate.solve_ivp(lambda t, y: 1j * w * y, (0, 1), [1 + 0j], adjoint=True)


def test_events() -> None:
    """A ball is thrown; it lands after 2 v / g at the speed -v."""
    v = gc.tensor(3.0, dtype=gc.float64, requires_grad=True)

    def lands(t: Any, y: Any) -> Any:
        return y[0]

    lands.terminal, lands.direction = True, -1  # type: ignore[attr-defined]

    def thrown(v: Any) -> Any:
        start = gc.stack([gc.zeros_like(v), v])
        return integrate.solve_ivp(
            lambda t, y: gc.stack([y[1], -9.81 + 0 * y[0]]), (0, 10), start, events=[lands, lambda t, y: y[1]]
        )

    found = thrown(v)
    assert (found.status, found.message) == (1, "A termination event occurred.")
    assert found.t_events[0].item() == pytest.approx(6 / 9.81)
    assert found.t[-1].item() == pytest.approx(6 / 9.81)
    assert found.t_events[1].item() == pytest.approx(3 / 9.81)
    (by_v,) = gc.autograd.grad(found.t_events[0].sum(), v, retain_graph=True)
    assert by_v.item() == pytest.approx(2 / 9.81)
    assert gc.autograd.grad(found.y_events[1][0, 0], v)[0].item() == pytest.approx(3 / 9.81)
    with pytest.raises(TypeError, match="no events"):
        integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0], events=lands, adjoint=True)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="within `t_span`"):
        integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0], t_eval=[2.0])
    with pytest.raises(TypeError, match="Jacobians are exact"):
        integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0], "Radau", jac=None)
    failed = integrate.solve_ivp(lambda t, y: y**2, (0, 2), [1.0])  # is infinite at 1
    assert (failed.status, failed.success) == (-1, False)


def test_functions_that_read_tensors_unseen_are_refused() -> None:
    """A tensor that no operation reads cannot be found, so it is an error and no lost gradient."""

    class Twice(gc.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    w = gc.tensor([1.0], dtype=gc.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="args="):
        integrate.solve_ivp(lambda t, y: y * Twice.apply(w), (0, 1), [1.0], adjoint=True)


@pytest.mark.parametrize("tfirst", [False, True])
def test_odeint_is_scipys_with_derivatives(tfirst: bool) -> None:
    def oscillator(y: Any, t: Any, a: Any, b: float) -> Any:
        parts = [y[1], -a * y[0] - b * y[1]]
        return gc.stack(parts) if isinstance(y, gc.Tensor) else parts

    field = (lambda t, y, *args: oscillator(y, t, *args)) if tfirst else oscillator
    times = np.linspace(0, 2, 4)
    y0 = gc.tensor([1.0, 0.5], dtype=gc.float64, requires_grad=True)
    a = gc.tensor(2.0, dtype=gc.float64, requires_grad=True)
    found = integrate.odeint(field, y0, times, (a, 0.3), tfirst=tfirst)
    expected = scipy_integrate.odeint(field, [1.0, 0.5], times, (2.0, 0.3), tfirst=tfirst)
    np.testing.assert_allclose(found.detach(), expected, atol=1e-6)
    if not tfirst:
        times = gc.tensor(times, requires_grad=True)
        assert gradcheck(lambda y, t, a: integrate.odeint(field, y, t, (a, 0.3)), (y0, times, a), atol=1e-5)


def test_intervals_without_width_and_points_in_no_order() -> None:
    y, x = np.array([1.0, 4.0, 16.0, 64.0]), np.array([1.0, 1.0, 2.0, 2.0])
    for points in (np.full(4, 3.0), x, x[::-1].copy()):
        wanted = scipy_integrate.simpson(y, x=points)
        np.testing.assert_allclose(integrate.simpson(gc.tensor(y), x=points).item(), wanted)
    assert integrate.cumulative_simpson(gc.tensor(y), dx=0.0).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="Input x must be strictly increasing"):
        integrate.cumulative_simpson(gc.tensor(y), x=x)
