"""Steps of Runge-Kutta methods on tensors: explicit methods, whose step sizes are chosen as in SciPy, and Radau."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.autograd.grad_mode import no_grad
from gradcore.core.typing import AnyArray, AnyTensor
from gradcore.scipy.closures import capture
from gradcore.scipy.implicit import root_at
from gradcore.scipy.integrate.dense import Segment
from gradcore.scipy.required import scipy_module

__all__ = ["EXPLICIT", "Counts", "Settings", "StepTooSmallError", "explicit_steps", "radau_steps", "solver_of"]

EXPLICIT = ("RK23", "RK45", "DOP853")
Field = Callable[[AnyTensor, AnyTensor], AnyTensor]


class StepTooSmallError(Exception):
    """Raised when the tolerance requires a step that is shorter than the spacing between numbers."""


@dataclass(frozen=True)
class Settings:
    """The method and options of a solver, with SciPy's names and defaults."""

    method: str = "RK45"
    rtol: float = 1e-3
    atol: Any = 1e-6
    max_step: float = np.inf
    first_step: float | None = None
    min_step: float = 0.0

    def options(self) -> dict[str, Any]:
        """Return the arguments of SciPy's solver classes."""
        results = {"rtol": self.rtol, "atol": self.atol, "max_step": self.max_step, "first_step": self.first_step}
        return {**results, "min_step": self.min_step} if self.method == "LSODA" else results


@dataclass
class Counts:
    """Numbers of evaluations of the right side and of its Jacobian, and number of LU factorizations."""

    nfev: int = 0
    njev: int = 0
    nlu: int = 0


@dataclass(frozen=True)
class _Tableau:
    """The coefficients of a Runge-Kutta method and of its interpolant, a polynomial in ``(t - t_old) / h``."""

    A: AnyArray
    B: AnyArray
    C: AnyArray
    errors: tuple[AnyArray, ...]
    P: AnyArray
    order: int
    further: tuple[tuple[AnyArray, float], ...] = field(default=())


@functools.cache
def _tableau(method: str) -> _Tableau:
    solver = getattr(scipy_module("integrate"), method)
    if method != "DOP853":
        return _Tableau(solver.A, solver.B, solver.C, (solver.E,), solver.P, solver.error_estimator_order)
    n, last = solver.n_stages, solver.n_stages + len(solver.C_EXTRA) + 1
    change, first, final = np.zeros(last), np.eye(last)[0], np.eye(last)[n]
    change[:n] = solver.B
    terms = np.vstack([change, first - change, 2 * change - first - final, solver.D])
    powers = np.zeros((len(terms), len(terms)))  # of terms, by power: each is multiplied by x, 1 - x, x ...
    for j in range(len(terms)):
        polynomial = np.ones(1)
        for i in range(j, -1, -1):
            polynomial = np.convolve(polynomial, [0.0, 1.0] if i % 2 == 0 else [1.0, -1.0])
        powers[j, : len(polynomial) - 1] = polynomial[1:]
    further = tuple(
        (a[:s], float(c)) for s, (a, c) in enumerate(zip(solver.A_EXTRA, solver.C_EXTRA, strict=True), n + 1)
    )
    return _Tableau(solver.A, solver.B, solver.C, (solver.E5, solver.E3), terms.T @ powers, 7, further)


def _combine_slopes(start: AnyTensor | None, weights: Any, slopes: list[AnyTensor], h: float) -> AnyTensor:
    """Return ``start + h * sum(weights * slopes)``; the recorded nodes save no tensors."""
    for weight, slope in zip(weights, slopes, strict=False):
        if weight:
            start = slope * float(h * weight) if start is None else F.add(start, slope, alpha=float(h * weight))
    return F.zeros_like(slopes[0]) if start is None else start


def _norm(x: AnyTensor) -> float:
    """Return the root mean square of the elements."""
    return F.linalg_vector_norm(x.detach()).item() / max(x.numel(), 1) ** 0.5  # type: ignore[no-any-return]


def _first_length(f: Field, t0: float, y0: AnyTensor, f0: AnyTensor, bound: float, order: int, scale: Any) -> float:
    """Estimate the length of the first step from the sizes of the state and of its first and second derivatives."""
    interval, direction = abs(bound - t0), np.sign(bound - t0)
    d0, d1 = _norm(y0 / scale), _norm(f0 / scale)
    h0 = min(1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1, interval)
    f1 = f(_time(t0 + h0 * direction, y0), F.add(y0, f0, alpha=float(h0 * direction)))
    d2 = _norm((f1 - f0) / scale) / h0
    h1 = max(1e-6, h0 * 1e-3) if max(d1, d2) <= 1e-15 else (0.01 / max(d1, d2)) ** (1 / (order + 1))
    return float(min(100 * h0, h1, interval))


def _time(t: float, y: AnyTensor) -> AnyTensor:
    return F.full((), t, dtype=y.dtype.to_real(), device=y.device)


def _error(table: _Tableau, slopes: list[AnyTensor], h: float, scale: AnyTensor) -> float:
    """Return the norm of the estimated error divided by `scale`; above 1 the step is rejected."""
    if len(table.errors) == 1:
        return _norm(_combine_slopes(None, table.errors[0], slopes, h) / scale)
    fifth, third = (_norm(_combine_slopes(None, e, slopes, 1.0) / scale) ** 2 for e in table.errors)
    return 0.0 if fifth == third == 0 else float(abs(h) * fifth / np.sqrt(fifth + 0.01 * third))


def explicit_steps(
    f: Field, t: float, y: AnyTensor, bound: float, settings: Settings, counts: Counts, dense: bool
) -> Iterator[tuple[float, AnyTensor, Segment | None]]:
    """Yield ``(time, state, segment)`` after each step; step sizes are constants in the derivatives.

    ``segment`` is the interpolant, or None unless `dense`.
    """
    table, atol = _tableau(settings.method), _tolerance(settings, y)
    direction, exponent = (1.0 if bound >= t else -1.0), -1 / (table.order + 1)
    slope = f(_time(t, y), y)
    counts.nfev += 1
    if settings.first_step is not None:
        length = float(settings.first_step)
    elif bound != t:
        with no_grad():
            size = F.abs(y.detach()) * settings.rtol + atol
            length = _first_length(f, t, y.detach(), slope.detach(), bound, table.order, size)
        counts.nfev += 1
    while direction * (bound - t) > 0:
        shortest = 10 * abs(np.nextafter(t, direction * np.inf) - t)
        length, rejected = max(min(length, settings.max_step), shortest), False
        while True:
            if length < shortest:
                raise StepTooSmallError
            t_new = t + direction * length
            t_new = bound if direction * (t_new - bound) > 0 else t_new
            h = t_new - t
            slopes, y_new = _stages(f, table, t, y, slope, h)
            counts.nfev += len(table.B)
            with no_grad():
                stages = [k.detach() for k in slopes]
                scale = F.maximum(F.abs(y.detach()), F.abs(y_new.detach())) * settings.rtol + atol
                error = _error(table, stages, h, scale)
            length = abs(h)
            factor = 10.0 if error == 0 else min(10.0, 0.9 * error**exponent)
            if error < 1:
                length *= min(1.0, factor) if rejected else factor
                break
            if not np.isfinite(error):
                factor = 0.2
            length *= max(0.2, factor)
            rejected = True
        segment = None
        if dense:
            slopes = slopes[:]
            for weights, c in table.further:
                slopes.append(f(_time(t + c * h, y), _combine_slopes(y, weights, slopes, h)))
            counts.nfev += len(table.further)
            segment = Segment(t, t_new, y, F.stack([_combine_slopes(None, p, slopes, h) for p in table.P.T]))
        slope = slopes[len(table.B)]
        t, y = t_new, y_new
        yield t, y, segment


def _stages(
    f: Field, table: _Tableau, t: float, y: AnyTensor, slope: AnyTensor, h: float
) -> tuple[list[AnyTensor], AnyTensor]:
    slopes = [slope]
    for row, c in zip(table.A[1:], table.C[1:], strict=True):
        slopes.append(f(_time(t + c * h, y), _combine_slopes(y, row, slopes, h)))
    y_new = _combine_slopes(y, table.B, slopes, h)
    return [*slopes, f(_time(t + h, y), y_new)], y_new


def _tolerance(settings: Settings, y: AnyTensor) -> Any:
    atol = settings.atol
    return atol if np.ndim(atol) == 0 else F.to(F.as_tensor(np.asarray(atol), device=y.device), y.dtype.to_real())


def solver_of(f: Field, t: float, y: AnyTensor, bound: float, settings: Settings) -> Any:
    """Return the SciPy solver of the method, with a right side that calls `f` on tensors and returns arrays."""
    host = y.detach().host()

    def right_side(t: float, values: AnyArray) -> AnyArray:
        with no_grad():
            state = F.to(F.as_tensor(values, device=y.device), y.dtype)
            return f(_time(t, y), state).detach().host()

    return getattr(scipy_module("integrate"), settings.method)(right_side, t, host, bound, **settings.options())


@functools.cache
def _radau() -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return Radau's nodes, its stage coefficients, and the matrix from stages to its interpolant's coefficients."""
    C = np.array([(4 - 6**0.5) / 10, (4 + 6**0.5) / 10, 1.0])
    powers = np.arange(3)
    A = np.linalg.solve(np.vander(C, increasing=True).T, (C[:, None] ** (powers + 1) / (powers + 1)).T).T
    return C, A, np.linalg.inv(C[:, None] ** (powers + 1))


def radau_steps(
    f: Field, t: float, y: AnyTensor, bound: float, settings: Settings, counts: Counts, dense: bool
) -> Iterator[tuple[float, AnyTensor, Segment | None]]:
    """Yield ``(time, state, segment)`` after each step of Radau's implicit method, as `explicit_steps` does.

    SciPy solves for the stages; they are differentiated as the root of their equation.
    """
    C, A, P = _radau()
    solver, n = solver_of(f, t, y, bound, settings), y.shape[0]
    call, parameters = capture(f, _time(t, y), y.detach())
    like = {"device": y.device, "dtype": y.dtype}
    weights, interpolant = (F.to(F.as_tensor(m, device=y.device), y.dtype) for m in (A, P))
    while solver.status == "running":
        solver.step()
        if solver.status == "failed":
            raise StepTooSmallError
        t_old, h, sol = float(solver.t_old), float(solver.t - solver.t_old), solver.dense_output()
        value = F.tensor((sol(t_old + C * h) - sol(t_old)[:, None]).T.reshape(-1), **like)

        def residual(values: Any, z: AnyTensor, t_old: float = t_old, h: float = h) -> AnyTensor:
            start, *parameters = values
            stages = F.reshape(z, (3, n))
            slopes = F.stack(
                [call(parameters, _time(t_old + c * h, z), start + s) for c, s in zip(C, stages, strict=True)]
            )
            return z - h * F.reshape(F.matmul(weights, slopes), (-1,))

        stages = F.reshape(root_at(residual, value, y, *parameters), (3, n))
        segment = Segment(t_old, float(solver.t), y, F.matmul(interpolant, stages)) if dense else None
        y = y + stages[-1]
        counts.nfev, counts.njev, counts.nlu = solver.nfev, solver.njev, solver.nlu
        yield float(solver.t), y, segment
