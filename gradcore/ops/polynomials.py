"""Orthogonal polynomials, of a degree for every element; as in PyTorch, they carry no derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore.ops.samples import case, floats, ints
from gradcore.ops.table import elementwise


def _declare(
    name: str, described: str, first: Callable[..., Any], following: Callable[..., Any], shifted: bool = False
) -> None:
    """Declare the polynomials that begin with 1 and ``first(x)``.

    ``following(x, k, p, q)`` is the one of degree k + 1, after `p` and `q` of degrees k and k - 1. Shifted
    ones are polynomials of ``2 * x - 1``.
    """

    def polynomial(F, input, n):
        x = 2 * input - 1 if shifted else input
        degree = F.trunc(n)
        last, current = F.ones_like(x), first(x)
        result = F.where(degree == 0, 1, F.where(degree == 1, current, F.zeros_like(x + n)))
        for k in F.degrees_up_to(degree):
            last, current = current, following(x, k, current, last)
            result = F.where(degree == k + 1, current, result)
        return result

    polynomial.__doc__ = f"The {described} of `input` of degree `n` (0 for negative degrees)."
    elementwise(
        name=name,
        path=f"special.{name}",
        promotion="float -complex",
        inplace=False,
        numbers=("input", "n"),
        samples=lambda: [case(floats(3, 4), ints(4)), case(floats(), ints(2)), case(floats(0, 2), ints(2))],
    )(polynomial)


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
