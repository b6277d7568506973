"""``solve_ivp``: initial value problems, with gradients through the steps or by the adjoint equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.autograd.grad_mode import no_grad
from gradcore.core.typing import AnyArray, AnyTensor
from gradcore.numpy.conversion import inexact, tensor_of
from gradcore.scipy.closures import capture
from gradcore.scipy.implicit import solution
from gradcore.scipy.integrate.adjoint import states_at, trajectory
from gradcore.scipy.integrate.dense import OdeSolution, Segment
from gradcore.scipy.integrate.steps import (
    EXPLICIT,
    Counts,
    Settings,
    StepTooSmallError,
    explicit_steps,
    radau_steps,
    solver_of,
)
from gradcore.scipy.required import scipy_module
from gradcore.tensor import Tensor, is_differentiated

__all__ = ["odeint", "solve_ivp"]

_METHODS = (*EXPLICIT, "Radau", "BDF", "LSODA")
_MESSAGES = {
    0: "The solver successfully reached the end of the integration interval.",
    1: "A termination event occurred.",
    -1: "Required step size is less than spacing between numbers.",
}


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: str = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = None,
    *,
    adjoint: bool = False,
    **options: Any,
) -> Any:
    """Solve an initial value problem ``dy/dt = fun(t, y)``.

    The solution is differentiable with respect to the initial state, the time limits, `args`, and the tensors that
    `fun` closes over, such as the parameters of a module. Without `adjoint`, backward goes through the steps of the
    solver, whose lengths are constants. These derivatives are exact for the returned numbers, and the stages of all
    steps are saved. With `adjoint`, derivatives come from further initial value problems of the same tolerance, and
    memory does not grow with the number of steps.

    Parameters
    ----------
    fun : callable
        Takes the time, a 0-dim tensor, and the state, a vector; returns the time derivative of the state.
    t_span : pair of float
        The initial and the final time. Tensors are differentiable.
    y0 : array_like
        The initial state, a vector. It may be complex for methods other than LSODA.
    method : {"RK45", "RK23", "DOP853", "Radau", "BDF", "LSODA"}
        ``"BDF"`` and ``"LSODA"`` run in SciPy and are differentiable with `adjoint` only.
    t_eval : array_like, optional
        The times at which to return the solution, by default the times of the steps.
    dense_output : bool
        Whether to return the solution as a function ``sol`` too.
    events : callable or list of callable, optional
        Functions of time and state whose zeros are located. Their attributes ``terminal`` and ``direction`` mean the
        same as in SciPy. The times and states of events are differentiable.
    args : tuple, optional
        Further arguments of `fun` and of events.
    adjoint : bool
        Whether derivatives come from the adjoint equation instead of the solver's steps.
    **options
        ``rtol``, ``atol``, ``first_step``, ``max_step``, and LSODA's ``min_step``.

    Returns
    -------
    OptimizeResult
        With SciPy's fields ``t, y, sol, t_events, y_events, nfev, njev, nlu, status, message, success``.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy import integrate
    >>> rate = gc.tensor(0.5, dtype=gc.float64, requires_grad=True)
    >>> found = integrate.solve_ivp(lambda t, y: -rate * y, (0, 2), [1.0], rtol=1e-8, atol=1e-8)
    >>> found.y[0, -1].detach()
    tensor(0.3679, dtype=torch.float64)
    >>> gc.autograd.grad(found.y[0, -1], rate)[0]
    tensor(-0.7358, dtype=torch.float64)
    """
    if method not in _METHODS:
        raise ValueError(f"`method` must be one of {list(_METHODS)}.")
    if vectorized or set(options) - {"rtol", "atol", "first_step", "max_step", "min_step"}:
        raise TypeError("solve_ivp() of tensors takes rtol, atol, first_step, max_step, min_step (Jacobians are exact)")
    extra_args = () if args is None else tuple(args)
    state = inexact(tensor_of(y0))
    if state.ndim != 1:
        raise ValueError("`y0` must be 1-dimensional.")
    field, span, scaling = _scale_problem(lambda t, y: inexact(tensor_of(fun(t, y, *extra_args))), t_span, options)
    settings = Settings(method, **options)
    if adjoint:
        if events is not None or dense_output:
            raise TypeError("solve_ivp(adjoint=True) computes the solution at t_eval only: no events, no dense_output")
        return _solve_by_adjoint(field, span, state, t_eval, settings, scaling)
    return _solve_by_steps(field, span, state, t_eval, dense_output, _events(events, extra_args), settings, scaling)


class _Scaling:
    """Affine map between the solver's times in [0, 1] and the user's times, whose limits may be differentiable.

    Without `length` it is the identity.
    """

    def __init__(self, start: Any = None, length: Any = None) -> None:
        self.start, self.length = start, length

    def outer(self, t: Any) -> Any:
        if self.length is None:
            return t
        return self.start + self.length * (t if isinstance(t, Tensor) else F.as_tensor(t, device=self.start.device))

    def inner(self, t: Any) -> Any:
        return t if self.length is None else (inexact(tensor_of(t)) - self.start) / self.length


def _scale_problem(f: Any, t_span: Any, options: dict[str, Any]) -> tuple[Any, tuple[float, float], _Scaling]:
    """Return the problem with plain numbers as time limits.

    Limits that are differentiated become a factor of the right side, and the time of the solver runs from 0 to 1.
    """
    t0, t1 = t_span
    if not any(isinstance(t, Tensor) and is_differentiated(t) for t in (t0, t1)):
        return f, (float(t0), float(t1)), _Scaling()
    start = inexact(tensor_of(t0))
    scaling = _Scaling(start, inexact(tensor_of(t1)) - start)
    size = abs(scaling.length.item())
    for name in ("first_step", "max_step", "min_step"):
        if options.get(name) is not None:
            options[name] = options[name] / size
    return lambda s, y: scaling.length * f(scaling.outer(s), y), (0.0, 1.0), scaling


def _times(t_eval: Any, span: tuple[float, float]) -> AnyArray:
    """Check `t_eval`, and return it as an array."""
    times = np.asarray(t_eval.detach().host() if isinstance(t_eval, Tensor) else t_eval, float)
    low, high = min(span), max(span)
    if times.ndim != 1:
        raise ValueError("`t_eval` must be 1-dimensional.")
    close = 1e-12 * (high - low)
    if np.any(times < low - close) or np.any(times > high + close):
        raise ValueError("Values in `t_eval` are not within `t_span`.")
    steps = np.diff(times)
    if np.any(steps <= 0) if span[1] > span[0] else np.any(steps >= 0):
        raise ValueError("Values in `t_eval` are not properly sorted.")
    return times


def _result(counts: Counts, status: int, **fields: Any) -> Any:
    fields = {"sol": None, "t_events": None, "y_events": None, **fields}
    return scipy_module("optimize").OptimizeResult(
        **fields, nfev=counts.nfev, njev=counts.njev, nlu=counts.nlu, status=status, message=_MESSAGES[status],
        success=status >= 0,
    )  # fmt: skip


# -- through the steps ------------------------------------------------------------------------------------------------


def _steps_of(f: Any, span: tuple[float, float], y: AnyTensor, settings: Settings, counts: Counts, dense: bool) -> Any:
    """Return an iterator over the steps of the method; steps of a solver that runs in SciPy have no history."""
    if settings.method in EXPLICIT:
        return explicit_steps(f, span[0], y, span[1], settings, counts, dense)
    if is_differentiated(y) or capture(f, F.full((), span[0], dtype=y.dtype.to_real(), device=y.device), y)[1]:
        if settings.method != "Radau":
            raise RuntimeError(
                f"solve_ivp(method={settings.method!r}) has no derivatives through its steps; pass adjoint=True or use "
                "method='Radau'"
            )
        if F.is_complex(y):
            raise RuntimeError("solve_ivp(method='Radau') has no derivatives of complex states; use DOP853")
        return radau_steps(f, span[0], y, span[1], settings, counts, dense)
    return _foreign_steps(f, span, y, settings, counts)


class _ForeignSegment:
    """Step of a SciPy solver, with the interface of `Segment`."""

    def __init__(self, dense: Any, like: AnyTensor) -> None:
        self.dense, self.like, self.t_old, self.t = dense, like, dense.t_old, dense.t

    def __call__(self, t: Any) -> AnyTensor:
        values = self.dense(t.detach().host() if isinstance(t, Tensor) else t)
        return F.tensor(values, dtype=self.like.dtype, device=self.like.device)


class _ForeignSolution:
    """The solution of a SciPy solver as a function of time, with the interface of `OdeSolution`."""

    def __init__(self, segments: list[_ForeignSegment]) -> None:
        times = [segments[0].t_old, *(s.t for s in segments)]
        solution = scipy_module("integrate").OdeSolution(times, [s.dense for s in segments])
        self.like, self.own = segments[0].like, solution

    def __call__(self, t: Any) -> AnyTensor:
        if isinstance(t, Tensor) and is_differentiated(t):
            raise RuntimeError("the solution of this method is not differentiable in time; use RK45, DOP853 or Radau")
        values = self.own(np.asarray(t.host() if isinstance(t, Tensor) else t, float))
        return F.tensor(values, dtype=self.like.dtype, device=self.like.device)


def _foreign_steps(f: Any, span: tuple[float, float], y: AnyTensor, settings: Settings, counts: Counts) -> Any:
    solver = solver_of(f, span[0], y, span[1], settings)
    while solver.status == "running":
        solver.step()
        if solver.status == "failed":
            raise StepTooSmallError
        counts.nfev, counts.njev, counts.nlu = solver.nfev, solver.njev, solver.nlu
        state = F.tensor(solver.y, dtype=y.dtype, device=y.device)
        yield float(solver.t), state, _ForeignSegment(solver.dense_output(), y)


def _solve_by_steps(
    f: Any, span: tuple[float, float], y: AnyTensor, t_eval: Any, dense: bool, events: list[Any] | None,
    settings: Settings, scaling: _Scaling,
) -> Any:  # fmt: skip
    counts, status = Counts(), 0
    output_times = None if t_eval is None else scaling.inner(t_eval)
    numbers = None if output_times is None else _times(output_times, span)
    times: list[Any] = [span[0]]
    states, segments = [y], []
    event_zeros = None if events is None else _Events(events, scaling, span[0], y)
    try:
        steps = _steps_of(f, span, y, settings, counts, dense or events is not None or numbers is not None)
        for t, state, segment in steps:
            segments.append(segment)
            end: Any = t
            if event_zeros is not None and event_zeros.look(segment, t, state):
                end, state, status = *event_zeros.last, 1
            times.append(end)
            states.append(state)
            if status:
                break
    except StepTooSmallError:
        status = -1
    solution_of = OdeSolution if segments and isinstance(segments[0], Segment) else _ForeignSolution
    whole = solution_of(segments) if segments and segments[0] is not None else None
    if output_times is not None:
        last_time = times[-1].item() if isinstance(times[-1], Tensor) else times[-1]
        inside = np.abs(numbers - span[0]) <= abs(last_time - span[0]) * (1 + 1e-12)  # type: ignore[operator]
        output_times = output_times[F.as_tensor(inside)] if isinstance(output_times, Tensor) else numbers[inside]  # type: ignore[index]
        result_times, y_all = (
            output_times,
            (F.stack([y], 1)[:, :0] if whole is None or not inside.any() else whole(output_times)),
        )
    else:
        result_times = np.array(times) if not isinstance(times[-1], Tensor) else F.stack([*map(_as(y), times)])
        y_all = F.stack(states, 1)
    fields = {} if event_zeros is None else {"t_events": event_zeros.times(y), "y_events": event_zeros.states(y)}
    t_all = _as(y)(scaling.outer(result_times))
    if scaling.length is not None and whole is not None and dense:
        inner = whole
        whole = lambda t: inner(scaling.inner(t))  # type: ignore[assignment]  # noqa: E731
    return _result(counts, status, t=t_all, y=y_all, sol=whole if dense else None, **fields)


def _as(y: AnyTensor) -> Callable[[Any], AnyTensor]:
    """Return a function that converts times to tensors with the dtype and device of the state `y`."""
    dtype = y.dtype.to_real()
    return lambda t: F.to(t if isinstance(t, Tensor) else F.as_tensor(np.asarray(t), device=y.device), dtype)


# -- events -----------------------------------------------------------------------------------------------------------


def _events(events: Any, extra: tuple[Any, ...]) -> list[Any] | None:
    """Return ``(wrapped, original)`` pairs for the events.

    ``wrapped(t, y)`` returns a tensor; ``original`` has the attributes ``terminal`` and ``direction``.
    """
    if events is None:
        return None
    originals = (events,) if callable(events) else tuple(events)
    return [(lambda t, y, event=event: tensor_of(event(t, y, *extra)), event) for event in originals]


class _Events:
    """Detector of the events of a solution: the zeros of functions along it."""

    def __init__(self, events: list[Any], scaling: _Scaling, t: float, y: AnyTensor) -> None:
        self.events = [(lambda t, y, f=f: f(scaling.outer(t), y), original) for f, original in events]
        self.scaling, self.like = scaling, y
        self.before = self._values(t, y)
        self.found: list[list[tuple[Any, AnyTensor]]] = [[] for _ in events]
        self.last: tuple[Any, AnyTensor] = (t, y)

    def _values(self, t: float, y: AnyTensor) -> list[float]:
        with no_grad():
            return [f(_as(y)(t), y.detach()).item() for f, _ in self.events]  # type: ignore[no-untyped-call]

    def look(self, segment: Any, t: float, y: AnyTensor) -> bool:
        """Record the zeros within a step, and return whether one is terminal; `last` is its time and state."""
        after, new = self._values(t, y), []
        for i, (a, b) in enumerate(zip(self.before, after, strict=True)):
            direction = getattr(self.events[i][1], "direction", 0)
            if (a <= 0 <= b and direction >= 0) or (a >= 0 >= b and direction <= 0):
                new.append((self._zero(i, segment, t), i))
        self.before = after
        forward = 1 if t >= segment.t_old else -1
        for value, i in sorted(new, key=lambda each: forward * each[0]):
            time = self._time(i, segment, value)
            self.last = (time, segment(time))
            self.found[i].append(self.last)
            terminal = getattr(self.events[i][1], "terminal", None)
            if terminal and len(self.found[i]) >= int(terminal):
                return True
        return False

    def _zero(self, i: int, segment: Any, t: float) -> float:
        def value(at: float) -> float:
            with no_grad():
                time = _as(self.like)(at)
                return self.events[i][0](time, segment(time)).item()  # type: ignore[no-any-return]

        a, b = value(segment.t_old), value(t)
        if a == 0 or b == 0 or a * b > 0:
            return segment.t_old if a == 0 else t
        eps = 4 * float(np.finfo(float).eps)
        return float(scipy_module("optimize").brentq(value, segment.t_old, t, xtol=eps, rtol=eps))

    def _time(self, i: int, segment: Any, value: float) -> AnyTensor:
        """Return the time of a zero as a tensor that is differentiable in all that the event depends on."""
        if isinstance(segment, _ForeignSegment):
            return _as(self.like)(value)
        start = F.reshape(_as(self.like)(value), (1,))
        return solution(lambda t: F.reshape(self.events[i][0](t[0], segment(t[0])), (1,)), start)[0]

    def times(self, y: AnyTensor) -> list[AnyTensor]:
        empty = F.zeros(0, dtype=y.dtype.to_real(), device=y.device)
        return [F.stack([self.scaling.outer(t) for t, _ in each]) if each else empty for each in self.found]

    def states(self, y: AnyTensor) -> list[AnyTensor]:
        return [F.stack([s for _, s in each]) if each else F.zeros_like(y[:0]) for each in self.found]


# -- by the adjoint equation ------------------------------------------------------------------------------------------


def _solve_by_adjoint(
    f: Any, span: tuple[float, float], y: AnyTensor, t_eval: Any, settings: Settings, scaling: _Scaling
) -> Any:
    if F.is_complex(y):
        raise RuntimeError("solve_ivp(adjoint=True) takes real states; use view_as_real, or adjoint=False")
    counts = Counts()
    output_times = np.array(span) if t_eval is None else scaling.inner(t_eval)
    if isinstance(output_times, Tensor) and is_differentiated(output_times):
        raise RuntimeError(
            "solve_ivp(adjoint=True) has no derivatives by t_eval, or by t_span if t_eval is given; use adjoint=False"
        )
    numbers = _times(output_times, span)
    times = np.unique(np.append(numbers, span[0]))[:: 1 if span[1] >= span[0] else -1]
    if not len(numbers) or len(times) == 1:
        states = F.stack([y] * len(numbers)) if len(numbers) else y[None][:0]
        return _result(counts, 0, t=_as(y)(scaling.outer(numbers)), y=F.movedim(states, 0, -1))
    try:
        values = states_at(f, times, y, settings, counts)
    except StepTooSmallError:
        return _result(counts, -1, t=_as(y)(numbers[:0]), y=F.movedim(y[None][:0], 0, -1))
    call, parameters = capture(f, _as(y)(span[0]), y.detach())
    if is_differentiated(y) or parameters:
        values = trajectory(call, times, y, parameters, settings, values)
    rows = values if len(numbers) == len(times) else values[1:]
    return _result(counts, 0, t=_as(y)(scaling.outer(numbers)), y=F.movedim(rows, 0, -1))


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: tuple[Any, ...] = (),
    *,
    tfirst: bool = False,
    rtol: float = 1.49012e-8,
    atol: float = 1.49012e-8,
    method: str = "DOP853",
    **options: Any,
) -> Any:
    """Solve ``dy/dt = func(y, t, *args)`` at the times `t`, as `scipy.integrate.odeint`.

    Parameters
    ----------
    func : callable
        Takes the state and the time, or the time and the state if `tfirst`.
    y0 : array_like
        The state at the first time.
    t : array_like
        Increasing or decreasing times.
    args : tuple
        Further arguments of `func`. Tensors are differentiable.
    method : str
        The method, see `solve_ivp`; use ``"Radau"`` for stiff problems. ``"LSODA"`` is differentiable only with
        ``adjoint=True``.
    **options
        Further options of `solve_ivp`.

    Returns
    -------
    Tensor
        One row for each time.

    Examples
    --------
    >>> from gradcore.scipy.integrate import odeint
    >>> odeint(lambda y, t: -y, [1.0], [0.0, 1.0])
    tensor([[1.0000],
            [0.3679]], dtype=torch.float64)
    """
    times = tensor_of(t)

    def state_last(time: Any, state: Any, *further: Any) -> Any:
        return func(time, state, *further) if tfirst else func(state, time, *further)

    solution = solve_ivp(
        state_last, (times[0], times[-1]), y0, method, times, args=args or None, rtol=rtol, atol=atol, **options
    )
    if not solution.success:
        raise RuntimeError(f"odeint: {solution.message}")
    return solution.y.T
