"""Systems of equations with banded matrices, which are stored by diagonals."""

from __future__ import annotations

from gradcore.ops.declare.promotion import common_dtype
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import general
from gradcore.ops.linalg.matrix_checks import check_floating

_PRIVATE = {"function": False, "method": False}


def _cases():
    positive = {"low": 0.5, "high": 1.5}
    return [
        case(floats(2, 4, **positive), floats(4, 2), 1, 0), case(floats(3, 4, **positive), floats(4, 1), 0, 2),  # type: ignore[arg-type]
        case(floats(2, 2, 3, **positive), floats(2, 3, 2), 0, 1),  # type: ignore[arg-type]
    ]  # fmt: skip


def _up(F, x, k):
    """Shift rows up by `k`, or down for a negative `k`, and fill with zeros."""
    return F.pad(x, (0, 0, -k, k)) if k else x


def _adjoint(F, ab, l, u):
    """Return the conjugate transpose of a banded matrix, with `u` diagonals below the main one and `l` above it."""
    rows = [F.pad(ab[..., u + k, :], (k, -k)) for k in range(l, -u - 1, -1)]
    return F.conj(F.stack(rows, -2))


def _times(F, ab, x, l, u):
    """Return the product of a banded matrix and columns."""
    return sum(_up(F, F.unsqueeze(ab[..., u - k, :], -1) * x, k) for k in range(-l, u + 1))


@general(samples=_cases, mixed=common_dtype, broadcasts=True, **_PRIVATE)
def banded_solved(K, ab, b, l: int, u: int):
    """Return the solution of ``A @ x = b``, with ``A[i, j]`` in ``ab[u + i - j, j]``.

    `A` has `l` diagonals below the main one and `u` above it, and is zero elsewhere.
    """
    check_floating("solve_banded", ab)
    return K.solve_banded(ab, b, l, u)


@banded_solved.vjp("ab", "b")
def _(F, grad, ab, result, l, u):
    by_b = F.banded_solved(_adjoint(F, ab, l, u), grad, u, l)
    conjugate = F.conj(result)
    rows = [-F.sum(_up(F, by_b, -k) * conjugate, -1) for k in range(u, -l - 1, -1)]
    return F.stack(rows, -2), by_b


@banded_solved.jvp("ab")
def _(F, t, ab, result, l, u):
    return -F.banded_solved(ab, _times(F, t, result, l, u), l, u)


@banded_solved.jvp("b")
def _(F, t, ab, l, u):
    return F.banded_solved(ab, t, l, u)
