"""Orthogonal polynomials, of a degree for every element; PyTorch does not differentiate them."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any, NamedTuple

from gradcore.ops.declare.samples import case, floats, ints
from gradcore.ops.declare.table import elementwise

#: Up to this degree polynomials are computed by their recurrences, with a step for each degree.
HIGHEST = 1 << 17


def _declare(
    name: str,
    described: str,
    first: Callable[..., Any],
    following: Callable[..., Any],
    shifted: bool = False,
    high: Callable[..., Any] | None = None,
) -> None:
    """Declare the polynomials that begin with 1 and ``first(x)``, and their derivatives of any order.

    ``following(x, k, p, q)``, linear in `x`, `p` and `q`, returns the polynomial of degree k + 1, given `p` and `q` of
    degrees k and k - 1. Shifted polynomials are evaluated at ``2 * x - 1``. ``high(F, x, n, order)`` returns the
    derivatives of degrees above `HIGHEST`, which raise an error without it.
    """
    inner = 2 if shifted else 1
    slope = first(1) - first(0)

    def derivative(K, input, n, order: int):
        x = 2 * input - 1 if shifted else input
        degree = K.trunc(n)
        zeros = K.zeros_like(x)
        last = [K.ones_like(x), *[zeros] * order]  # by the order of the derivative
        current = [first(x), slope + zeros, *[zeros] * order][: order + 1]
        result = K.where(degree == 0, last[-1], K.where(degree == 1, current[-1], K.zeros_like(x + n)))
        steps, above_all = K.degrees_up_to(degree), None
        if steps.stop > HIGHEST:
            if high is None:
                raise RuntimeError(
                    f"{name} is computed by a recurrence with a step for each degree, up to the degree {HIGHEST}, but "
                    f"got the degree {steps.stop}"
                )
            above_all = (degree > HIGHEST) & (degree < inf)
            steps = K.degrees_up_to(K.where(above_all, 0, degree))
        for k in steps:
            by_x = following(1, k, 1, 0) - following(0, k, 1, 0)
            above = [following(x, k, p, q) for p, q in zip(current, last, strict=True)]
            for i in range(order):
                above[i + 1] = above[i + 1] + (i + 1) * by_x * current[i]
            last, current = current, above
            result = K.where(degree == k + 1, current[-1], result)
        if above_all is not None and high is not None:
            result = K.where(above_all, high(K, x, degree, order), result)
        return inner**order * result

    def polynomial(K, input, n):
        return derivative(K, input, n, 0)

    polynomial.__doc__ = f"Evaluate the {described} of degree `n` at `input`. It is 0 for negative degrees."
    derivative.__doc__ = f"Evaluate a derivative of the {described}."
    options = {
        "promotion": "float -complex",
        "inplace": False,
        "accepts_scalars": ("input", "n"),
        "constant": {"n": "degrees are whole numbers: the fraction is cut off"},
    }
    elementwise(
        lambda F, t, input, n, order: t * getattr(F, f"{name}_derivative")(input, n, order + 1),
        name=f"{name}_derivative",
        function=False,
        method=False,
        **options,
    )(derivative)
    elementwise(
        lambda F, t, input, n: t * getattr(F, f"{name}_derivative")(input, n, 1),
        name=name,
        path=f"special.{name}",
        samples=lambda: [
            case(floats(3, 4), ints(4)), case(floats(), ints(2)), case(floats(0, 2), ints(2)),
            case(floats(3, 1), ints(1, 4, low=2, high=7)),
        ],
        **options,
    )(polynomial)  # fmt: skip


# -- Chebyshev polynomials --------------------------------------------------------------------------------------------


def _chebyshev(x, k, p, q):
    return 2 * x * p - q


class _Kind(NamedTuple):
    """A kind of Chebyshev polynomials: with ``x = cos(angle)``, ``wave((n + shift) * angle) / envelope(angle)``.

    They solve ``(1 - x**2) y'' + (b - a x) y' + n (n + a - 1) y = 0``.
    """

    letter: str
    first: Callable[..., Any]
    wave: str
    shift: float
    envelope: Callable[..., Any]  # and its derivative
    a: int
    b: int
    at_one: Callable[..., Any]
    at_minus_one: Callable[..., Any]  # without the sign of degrees that are odd


def _one(n):
    return 1 + 0 * n


_KINDS = {
    "first": _Kind("t", lambda x: x, "cos", 0, lambda F, angle: (1, 0), 1, 0, _one, _one),
    "second": _Kind(
        "u", lambda x: 2 * x, "sin", 1, lambda F, angle: (F.sin(angle), F.cos(angle)), 3, 0,
        lambda n: n + 1, lambda n: n + 1,
    ),
    "third": _Kind(
        "v", lambda x: 2 * x - 1, "cos", 0.5, lambda F, angle: (F.cos(angle / 2), -F.sin(angle / 2) / 2), 2, 1,
        _one, lambda n: 2 * n + 1,
    ),
    "fourth": _Kind(
        "w", lambda x: 2 * x + 1, "sin", 0.5, lambda F, angle: (F.sin(angle / 2), F.cos(angle / 2) / 2), 2, -1,
        lambda n: 2 * n + 1, _one,
    ),
}  # fmt: skip


def _high_chebyshev(kind: _Kind) -> Callable[..., Any]:
    """Return the derivatives of high degrees by angles, which are complex where `x` is beyond 1.

    Overflow gives NaN.
    """

    def inside(K, x, n, order):
        angle = K.acos(K.complex(x, K.zeros_like(x)))
        waves = K.cos((n + kind.shift) * angle), K.sin((n + kind.shift) * angle)
        wave, slope = (waves[0], -waves[1]) if kind.wave == "cos" else (waves[1], waves[0])
        envelope, change = kind.envelope(K, angle)
        value = wave / envelope
        values = [value, (value * change - (n + kind.shift) * slope) / (envelope * K.sin(angle))]
        for m in range(order - 1):
            of_slope, of_value = (kind.a + 2 * m) * x - kind.b, n * (n + kind.a - 1) - m * (m - 1 + kind.a)
            values.append((of_slope * values[m + 1] - of_value * values[m]) / K.sin(angle) ** 2)
        return K.real(values[order])

    def evaluate_ends(K, x, n, order):
        sign = 1 - 2 * (n - 2 * K.floor(n / 2))
        value = K.where(x > 0, kind.at_one(n), sign * kind.at_minus_one(n))
        for m in range(order):
            value = value * (n * (n + kind.a - 1) - m * (m - 1 + kind.a)) / ((kind.a + 2 * m) * x - kind.b)
        return value

    def high(K, x, n, order):
        dtype = (x + n).dtype
        x, n = K.astype(x, "float64"), K.astype(n, "float64")
        ends = K.abs(x) == 1
        values = K.where(ends, evaluate_ends(K, K.where(ends, x, 1.0), n, order), inside(K, x, n, order))
        values = K.astype(values, dtype)
        return K.where(K.abs(values) < inf, values, nan)

    return high


for _name, _kind in _KINDS.items():
    _described, _high = f"Chebyshev polynomial of the {_name} kind", _high_chebyshev(_kind)
    _letter, _first = _kind.letter, _kind.first
    _declare(f"chebyshev_polynomial_{_letter}", _described, _first, _chebyshev, high=_high)
    _declare(
        f"shifted_chebyshev_polynomial_{_letter}", f"shifted {_described}", _first, _chebyshev, shifted=True, high=_high
    )


# -- other families ---------------------------------------------------------------------------------------------------


def _beyond_all_numbers(F, x, n, order):
    return F.zeros_like(x + n) + nan


_declare(
    "hermite_polynomial_h",
    "physicist's Hermite polynomial",
    lambda x: 2 * x,
    lambda x, k, p, q: 2 * (x * p - k * q),
    high=_beyond_all_numbers,
)
_declare(
    "hermite_polynomial_he",
    "probabilist's Hermite polynomial",
    lambda x: x,
    lambda x, k, p, q: x * p - k * q,
    high=_beyond_all_numbers,
)
_declare(
    "laguerre_polynomial_l",
    "Laguerre polynomial",
    lambda x: 1 - x,
    lambda x, k, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1),
)
_declare(
    "legendre_polynomial_p",
    "Legendre polynomial",
    lambda x: x,
    lambda x, k, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1),
)
