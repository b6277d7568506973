"""Derivatives of solutions of initial value problems by the adjoint method, independent of the solver.

Reverse mode solves the adjoint equation backwards in time, and saves only the solution at the output times. Forward
mode solves the sensitivity equations together with the problem. Both are initial value problems that this module
solves in turn, so derivatives of every order exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.autograd.function import Function
from gradcore.autograd.grad_mode import no_grad
from gradcore.core.typing import AnyArray, AnyTensor
from gradcore.func import jvp, vjp
from gradcore.scipy.integrate.dense import OdeSolution
from gradcore.scipy.integrate.steps import EXPLICIT, Counts, Settings, StepTooSmallError, explicit_steps, solver_of
from gradcore.tensor import Tensor

__all__ = ["states_at", "trajectory"]


def states_at(f: Any, times: AnyArray, y0: AnyTensor, settings: Settings, counts: Counts) -> AnyTensor:
    """Solve the problem without recording, and return the states at `times`; the first one is `y0`."""
    start, bound, rows = float(times[0]), float(times[-1]), []
    with no_grad():
        y0 = y0.detach()
        direction = 1.0 if bound >= start else -1.0
        remaining_times = list(times[1:])
        if settings.method in EXPLICIT:
            for t, y, segment in explicit_steps(f, start, y0, bound, settings, counts, len(times) > 2):
                while remaining_times and direction * (remaining_times[0] - t) <= 0:
                    at = remaining_times.pop(0)
                    rows.append(y if at == t else OdeSolution([segment])(at))  # type: ignore[list-item]
        else:
            solver = solver_of(f, start, y0, bound, settings)
            while solver.status == "running":
                solver.step()
                if solver.status == "failed":
                    raise StepTooSmallError
                while remaining_times and direction * (remaining_times[0] - solver.t) <= 0:
                    at = remaining_times.pop(0)
                    values = solver.y if at == solver.t else solver.dense_output()(at)
                    rows.append(F.tensor(values, dtype=y0.dtype, device=y0.device))
            counts.nfev, counts.njev, counts.nlu = solver.nfev, solver.njev, solver.nlu
        return F.stack([y0, *rows])


def trajectory(
    field: Callable[..., Any], times: AnyArray, y0: AnyTensor, parameters: Sequence[Tensor], settings: Settings,
    values: AnyTensor | None = None,
) -> AnyTensor:  # fmt: skip
    """Return the states at `times` of ``dy/dt = field(parameters, t, y)``, differentiable in `y0` and `parameters`."""
    if values is None:
        with no_grad():
            fixed = [p.detach() for p in parameters]
            values = states_at(lambda t, y: field(fixed, t, y), times, y0, settings, Counts())
    return _Trajectory.apply(field, times, settings, values.detach(), y0, *parameters)


class _Trajectory(Function):
    """The known states of a solution, as a differentiable function of the initial state and the parameters."""

    @staticmethod
    def forward(field: Any, times: Any, settings: Any, values: Any, y0: Any, *parameters: Any) -> Any:
        return F.clone(values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.field, ctx.times, ctx.settings, _, y0, *parameters = inputs
        ctx.save_for_backward(output, *parameters)
        ctx.save_for_forward(y0, *parameters)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        states, *parameters = ctx.saved_tensors
        n, adjoint = states.shape[1], grad[-1]
        sums = F.cat([F.zeros_like(states[0][:0]), *(F.reshape(F.zeros_like(p), (-1,)) for p in parameters)])

        def compute_slope(values: Any, t: AnyTensor, z: AnyTensor) -> AnyTensor:
            y, a = z[:n], z[n : 2 * n]
            slope, pull = vjp(lambda y, *p: ctx.field(p, t, y), y, *values)
            by_state, *by_parameters = pull(a)
            return F.cat([slope, -by_state, *(-F.reshape(g, (-1,)) for g in by_parameters)])

        for i in range(len(ctx.times) - 1, 0, -1):
            span = np.array([ctx.times[i], ctx.times[i - 1]])
            z = F.cat([states[i], adjoint, sums])
            z = trajectory(compute_slope, span, z, parameters, _as_scalar_tolerance(ctx.settings, n, len(sums)))[-1]
            adjoint, sums = z[n : 2 * n] + grad[i - 1], z[2 * n :]
        pieces = F.split(sums, [p.numel() for p in parameters]) if parameters else ()
        return (
            None, None, None, None, adjoint,
            *(F.to(F.reshape(g, p.shape), p.dtype) for g, p in zip(pieces, parameters, strict=True)),
        )  # fmt: skip

    @staticmethod
    def jvp(ctx: Any, _field: Any, _times: Any, _settings: Any, _values: Any, of_start: Any, *tangents: Any) -> Any:
        y0, *parameters = ctx.saved_tensors
        n, m = y0.shape[0], len(parameters)
        tangents = [F.zeros_like(p) if t is None else t for p, t in zip(parameters, tangents, strict=True)]  # type: ignore[assignment]

        def compute_slope(values: Any, t: AnyTensor, z: AnyTensor) -> AnyTensor:
            moved = jvp(lambda y, *p: ctx.field(p, t, y), (z[:n], *values[:m]), (z[n:], *values[m:]))
            return F.cat(list(moved))  # fmt: skip

        z = F.cat([y0, F.zeros_like(y0) if of_start is None else of_start])
        settings = _as_scalar_tolerance(ctx.settings, n, 0)
        return trajectory(compute_slope, ctx.times, z, [*parameters, *tangents], settings)[:, n:]


def _as_scalar_tolerance(settings: Settings, n: int, further: int) -> Settings:
    """Return the settings for an augmented problem, whose state is the state twice and further numbers."""
    if np.ndim(settings.atol):
        atol = np.asarray(settings.atol, float)
        settings = replace(settings, atol=np.concatenate([atol, atol, np.full(further, atol.min())]))
    return replace(settings, first_step=None)
