"""Orthogonal polynomials, of a degree for every element; PyTorch does not differentiate them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore.ops.samples import case, floats, ints
from gradcore.ops.table import elementwise


def _declare(
    name: str, described: str, first: Callable[..., Any], following: Callable[..., Any], shifted: bool = False
) -> None:
    """Declare the polynomials that begin with 1 and ``first(x)``, and their derivatives of any order.

    ``following(x, k, p, q)``, linear in `x`, `p` and `q`, is the one of degree k + 1, after `p` and `q` of degrees
    k and k - 1. Shifted ones are polynomials of ``2 * x - 1``.
    """
    inner = 2 if shifted else 1
    slope = first(1) - first(0)

    def derivative(F, input, n, order: int):
        x = 2 * input - 1 if shifted else input
        degree = F.trunc(n)
        zeros = F.zeros_like(x)
        last = [F.ones_like(x), *[zeros] * order]  # by the order of the derivative
        current = [first(x), slope + zeros, *[zeros] * order][: order + 1]
        result = F.where(degree == 0, last[-1], F.where(degree == 1, current[-1], F.zeros_like(x + n)))
        for k in F.degrees_up_to(degree):
            by_x = following(1, k, 1, 0) - following(0, k, 1, 0)
            above = [following(x, k, p, q) for p, q in zip(current, last, strict=True)]
            for i in range(order):
                above[i + 1] = above[i + 1] + (i + 1) * by_x * current[i]
            last, current = current, above
            result = F.where(degree == k + 1, current[-1], result)
        return inner**order * result

    def polynomial(F, input, n):
        return derivative(F, input, n, 0)

    polynomial.__doc__ = f"The {described} of `input` of degree `n` (0 for negative degrees)."
    derivative.__doc__ = f"A derivative of the {described}."
    options = {
        "promotion": "float -complex",
        "inplace": False,
        "numbers": ("input", "n"),
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


def _chebyshev(x, k, p, q):
    return 2 * x * p - q


for _kind, _first in {
    "first": lambda x: x,
    "second": lambda x: 2 * x,
    "third": lambda x: 2 * x - 1,
    "fourth": lambda x: 2 * x + 1,
}.items():
    _letter = {"first": "t", "second": "u", "third": "v", "fourth": "w"}[_kind]
    _described = f"Chebyshev polynomial of the {_kind} kind"
    _declare(f"chebyshev_polynomial_{_letter}", _described, _first, _chebyshev)
    _declare(f"shifted_chebyshev_polynomial_{_letter}", f"shifted {_described}", _first, _chebyshev, shifted=True)

_declare(
    "hermite_polynomial_h",
    "physicist's Hermite polynomial",
    lambda x: 2 * x,
    lambda x, k, p, q: 2 * (x * p - k * q),
)
_declare("hermite_polynomial_he", "probabilist's Hermite polynomial", lambda x: x, lambda x, k, p, q: x * p - k * q)
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
