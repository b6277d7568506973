"""`gradcore.scipy.spatial` against SciPy, and its derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.scipy import spatial
from gradcore.scipy.spatial import distance
from tests.scipy_functions.comparing import check_derivatives, check_values, expressions

pytest.importorskip("scipy", minversion="1.17")
import scipy.spatial
import scipy.spatial.distance


def arrays() -> dict[str, Any]:
    u = np.random.default_rng(4).uniform
    points = u(-1, 1, (7, 3))
    return {
        "X": points,
        "Y": u(-1, 1, (5, 3)),
        "U": u(-1, 1, 3),
        "V": u(-1, 1, 3),
        "P": u(0.1, 1, (4, 3)),
        "Q": u(0.1, 1, (2, 3)),
        "W": u(0.2, 1, 3),
        "M": np.eye(3) + 0.1,
        "F": u(-1, 1, (4, 3)).astype(np.float32),
        "D": u(0, 1, 10),
        "S": np.add.outer(np.arange(4.0), np.arange(4.0)) * (1 - np.eye(4)),
    }


METRICS = ("braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "euclidean", "sqeuclidean")
CALLS = """
distance.cdist: X, Y, "minkowski", p=3; X, Y, "minkowski", p=1.5, w=W; X, Y, "seuclidean"; X, Y, "mahalanobis"
distance.cdist: X, Y, "seuclidean", V=W; X, Y, "mahalanobis", VI=M; P, Q, "jensenshannon"; X, Y, w=W; X, Y, "cb"
distance.cdist: X, Y, lambda u, v: ((u - v) ** 2).sum()
distance.pdist: X; X, "minkowski", p=4; X, "seuclidean"; X, "mahalanobis"; P, "jensenshannon"; X, "cosine", w=W
distance.squareform: D; S; S, "tovector"
distance.euclidean: U, V; U, V, W
distance.sqeuclidean: U, V; U, V, W
distance.minkowski: U, V, 3; U, V, 3, W; U, V, 1
distance.cityblock: U, V; U, V, W
distance.chebyshev: U, V; U, V, W
distance.cosine: U, V; U, V, W
distance.correlation: U, V; U, V, W; U, V, None, False
distance.canberra: U, V; U, V, W
distance.braycurtis: U, V; U, V, W
distance.seuclidean: U, V, W
distance.mahalanobis: U, V, M
distance.jensenshannon: P, P[0]; P, P[:1]; P[:, :1], P, axis=1
distance.jensenshannon: W, P[0]; P, P[::-1], 2.0, axis=1; P, P[::-1], axis=1, keepdims=True
distance_matrix: X, Y; X, Y, 1
minkowski_distance: X, Y[:1]; X, Y[:1], 3
minkowski_distance_p: X, Y[:1]; X, Y[:1], 3
"""


@pytest.mark.filterwarnings("ignore:.*is deprecated in favor of `scipy:DeprecationWarning")  # SciPy 1.18
@pytest.mark.parametrize("expression", [*expressions(CALLS), *(f"distance.cdist(X, Y, {m!r})" for m in METRICS)])
def test_values(expression: str) -> None:
    check_values(expression, "spatial", arrays())


@pytest.mark.parametrize("expression", [*expressions(CALLS), *(f"distance.pdist(X, {m!r})" for m in METRICS)])
def test_derivatives(expression: str) -> None:
    given = arrays()
    if expression in ("distance.chebyshev(U, V, W)", "distance.squareform(S)", 'distance.squareform(S, "tovector")'):
        return  # weights that only choose; differences would make the matrix unsymmetric
    check_derivatives(expression, "spatial", given)


def test_equal_points_have_the_gradient_zero() -> None:
    x = gc.ones(3, 2, requires_grad=True)
    for metric in ("euclidean", "minkowski", "seuclidean"):
        settings = {"V": np.ones(2)} if metric == "seuclidean" else {}
        (grad,) = gc.autograd.grad(distance.pdist(x, metric, **settings).sum(), x)
        assert grad.abs().sum() == 0


def test_every_function_is_there_or_left_out() -> None:
    assert set(distance.__all__) | set(distance.LEFT_OUT) == set(scipy.spatial.distance.__all__)
    assert set(spatial.__all__) <= set(scipy.spatial.__all__)


@pytest.mark.parametrize(
    "expression",
    ["cdist(U, X)", "cdist(X, P[:, :2])", "cdist(X, Y, 'no')", "pdist(U)", "squareform(D[:4])", "squareform(X)",
     "squareform(M)", "cityblock(X, Y)", "minkowski(U, V, -1)", "cdist(X, Y, w=-U)", "pdist(X, 'cosine', w=-U)"],
)  # fmt: skip
def test_errors_are_scipys(expression: str) -> None:
    with pytest.raises(ValueError) as theirs:
        eval(f"f.{expression}", {"f": scipy.spatial.distance, **arrays()})
    with pytest.raises(ValueError) as ours:
        eval(f"f.{expression}", {"f": distance, **arrays()})
    assert str(theirs.value)[:12] == str(ours.value)[:12]
