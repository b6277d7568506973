"""Special functions and their first and second derivatives against mpmath, where formulas cancel or are singular."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest

import gradcore as gc
from gradcore.scipy import special

mpmath = pytest.importorskip("mpmath")
pytest.importorskip("scipy", minversion="1.17")

from tests.scipy_functions.exact import TABLE, Exact  # noqa: E402

DEGREES = (0.0, 1.0, 2.0, 3.0, 0.5, -0.5, 1.5, 2.7)
INSIDE = (-0.7, 0.1, 0.4, 0.95)
POSITIVE = (0.1, 0.4, 3.0)
PARAMETERS = (0.0, 1e-14, -1e-14, 1e-8, 1e-3, 0.1, 0.3, 0.499, 0.51, 0.7, 0.95, 0.999, -0.3, -0.51, -3.0, -50.0)
ANGLES = (1e-8, 1e-3, 0.1, 0.7, 1.2, 1.5, -1.2, 2.0, 4.0, -7.0)
INCOMPLETE = [*itertools.product(ANGLES, PARAMETERS), *itertools.product(ANGLES[:5], (1.0, 1 - 1e-10))][::9]


def with_degrees(*rest: tuple[float, ...]) -> list[tuple[float, ...]]:
    return list(itertools.product(DEGREES, *rest))


#: By name: the function of mpmath, points, the argument to differentiate by, and bounds of the relative errors of the
#: value, the first and the second derivative.
FUNCTIONS: dict[str, tuple[Callable[..., Any], list[tuple[float, ...]], int, tuple[float, float, float]]] = {
    "eval_legendre": (lambda n, x: mpmath.legendre(n, x), with_degrees(INSIDE), 1, (1e-13, 1e-13, 1e-12)),
    "eval_chebyt": (lambda n, x: mpmath.chebyt(n, x), with_degrees(INSIDE), 1, (1e-12, 1e-12, 1e-12)),
    "eval_chebyu": (lambda n, x: mpmath.chebyu(n, x), with_degrees(INSIDE), 1, (1e-12, 1e-12, 1e-12)),
    "eval_chebyc": (lambda n, x: 2 * mpmath.chebyt(n, x / 2), with_degrees(INSIDE), 1, (1e-12, 1e-12, 1e-12)),
    "eval_chebys": (lambda n, x: mpmath.chebyu(n, x / 2), with_degrees(INSIDE), 1, (1e-12, 1e-12, 1e-12)),
    "eval_sh_legendre": (lambda n, x: mpmath.legendre(n, 2 * x - 1), with_degrees(INSIDE[1:]), 1, (1e-12,) * 3),
    "eval_sh_chebyt": (lambda n, x: mpmath.chebyt(n, 2 * x - 1), with_degrees(INSIDE[1:]), 1, (1e-11,) * 3),
    "eval_sh_chebyu": (lambda n, x: mpmath.chebyu(n, 2 * x - 1), with_degrees(INSIDE[1:]), 1, (1e-11,) * 3),
    "eval_laguerre": (lambda n, x: mpmath.laguerre(n, 0, x), with_degrees(POSITIVE[:2]), 1, (1e-12,) * 3),
    "eval_genlaguerre": (mpmath.laguerre, with_degrees((0.7,), POSITIVE), 2, (1e-11,) * 3),
    "eval_gegenbauer": (mpmath.gegenbauer, with_degrees((2.3,), INSIDE), 2, (1e-11,) * 3),
    "eval_jacobi": (mpmath.jacobi, with_degrees((0.3,), (1.2,), INSIDE), 3, (1e-11,) * 3),
    "expn": (
        lambda n, x: mpmath.expint(int(n), x),
        list(itertools.product((0.0, 0.5, 1.0, 1.5, 2.0, 3.0), (*POSITIVE, 20.0))),
        1,
        (1e-14, 1e-14, 1e-14),
    ),
    "exp1": (mpmath.e1, [(0.1,), (0.4,), (20.0,)], 0, (1e-14, 1e-14, 1e-14)),
    "ellipk": (mpmath.ellipk, [(m,) for m in PARAMETERS], 0, (1e-14, 1e-14, 1e-13)),
    "ellipe": (mpmath.ellipe, [(m,) for m in PARAMETERS], 0, (1e-14, 1e-14, 1e-13)),
    "ellipkm1": (lambda p: mpmath.ellipk(1 - p), [(p,) for p in (1e-3, 0.3, 0.499, 0.51, 1.0, 1.2)], 0, (1e-13,) * 3),
    "ellipkinc": (mpmath.ellipf, INCOMPLETE, 1, (1e-14, 1e-13, 1e-13)),
    "ellipeinc": (mpmath.ellipe, INCOMPLETE, 1, (1e-14, 1e-13, 1e-13)),
    "dawsn": (
        lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x),
        [(x,) for x in (0.3, 3.0, 14.9, 15.1, 20.0)],
        0,
        (1e-14, 1e-12, 1e-10),
    ),
    "erfcx": (
        lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
        [(x,) for x in (-3.0, 0.0, 0.3, 3.0, 14.9, 15.1, 100.0, 1e5, 1e8)],
        0,
        (1e-14, 1e-12, 1e-10),
    ),
    "rgamma": (
        mpmath.rgamma,
        [(x,) for x in (-10.0, -1.0, 0.0, -2.5, -3 + 1e-9, 0.3, 0.5, 2.0, 10.0, 50.0)],
        0,
        (1e-14, 1e-13, 1e-12),
    ),
}


#: Functions, the argument to differentiate by, and one of every three points.
CASES = [
    pytest.param(name, Exact(function, points, (position,), bounds), position, id=name)
    for name, (function, points, position, bounds) in FUNCTIONS.items()
] + [
    pytest.param(name, exact._replace(points=exact.points[start::3]), position, id=f"{name}-{position}-{start}")
    for name, exact in TABLE.items()
    for position in exact.positions
    for start in range(min(3, len(exact.points)))
]


def evaluate(name: str, args: list[Any]) -> Any:
    """Return a real result of `scipy.special`; ``"airy:1"`` is the second of several."""
    path, _, number = name.partition(":")
    found = getattr(special, path)(*args)
    found = found[int(number)] if number else found
    return found.real if found.is_complex() else found


@pytest.mark.filterwarnings("ignore:floating point number truncated")
@pytest.mark.parametrize(("name", "exact", "position"), CASES)
def test_values_and_derivatives(name: str, exact: Exact, position: int) -> None:
    with mpmath.workdps(40):
        for point in exact.points:
            args = [gc.tensor(a, dtype=gc.float64) for a in point]
            x = args[position].requires_grad_()
            y = evaluate(name, args)
            (slope,) = gc.autograd.grad(y, x, create_graph=True)
            (curvature,) = gc.autograd.grad(slope, x) if slope.requires_grad else (gc.tensor(0.0),)
            _, pushed = gc.func.jvp(
                lambda t, args=args: evaluate(name, [*args[:position], t, *args[position + 1 :]]),
                (x.detach(),),
                (gc.ones((), dtype=gc.float64),),
            )
            numbers = [mpmath.mpf(a) for a in point]

            def function(t: Any, numbers: Any = numbers) -> Any:
                return exact.function(*numbers[:position], t, *numbers[position + 1 :])

            found, bounds = [y, slope, curvature, pushed], exact.bounds
            for order, bound, value in zip((0, 1, 2, 1), (*bounds, bounds[1]), found, strict=True):
                right = mpmath.re(
                    mpmath.diff(function, numbers[position], order)
                    if order
                    else function(*numbers[position : position + 1])
                )
                error = abs(mpmath.mpf(value.item()) - right) if math.isfinite(value.item()) else mpmath.inf
                assert error <= bound * max(abs(right), mpmath.mpf(10) ** -30), (point, order, value, float(right))


def test_incomplete_beta_functions_at_their_ends() -> None:
    x = gc.tensor([0.0, 1.0], dtype=gc.float64)
    for name in ("betainc", "betaincc"):
        a, b = (gc.tensor(value, dtype=gc.float64, requires_grad=True) for value in (2.0, 0.7))
        assert gc.autograd.grad(getattr(special, name)(a, b, x).sum(), (a, b)) == (0.0, 0.0)
