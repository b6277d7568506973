"""`scipy.spatial.distance` on tensors: distances between vectors, and between all pairs of rows.

Distances are differentiable with respect to the vectors and the weights. The gradient of a norm is zero at zero.

Examples
--------
>>> from gradcore.scipy.spatial import distance
>>> points = gc.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]], requires_grad=True)
>>> distance.pdist(points).sum().backward()
>>> points.grad
tensor([[-0.6000, -1.8000],
        [ 1.3071,  1.5071],
        [-0.7071,  0.2929]])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import inexact, tensor_of
from gradcore.scipy.conversion import floating, logarithm, module_getattr, on_device, promote_arguments, to_device_of

__all__ = [
    "braycurtis", "canberra", "cdist", "chebyshev", "cityblock", "correlation", "cosine", "euclidean", "jensenshannon",
    "mahalanobis", "minkowski", "num_obs_dm", "num_obs_y", "pdist", "seuclidean", "sqeuclidean", "squareform",
]  # fmt: skip

_LAST = (-1,)


def _weighted_sum(x: AnyTensor, w: Any) -> AnyTensor:
    return F.sum(x if w is None else x * w, _LAST)


def _norm(x: AnyTensor, p: Any = 2) -> AnyTensor:
    return F.linalg_vector_norm(x, p, -1)


# -- distances of the last dim: (u, v, weights, further settings) ----------------------------------------------------


def _sqeuclidean(u: Any, v: Any, w: Any) -> AnyTensor:
    gap = u - v
    return _weighted_sum(gap * gap, w)


def _euclidean(u: Any, v: Any, w: Any) -> AnyTensor:
    return _norm(u - v if w is None else (u - v) * F.sqrt(w))


def _minkowski(u: Any, v: Any, w: Any, p: float = 2) -> AnyTensor:
    if p <= 0:
        raise ValueError("p must be greater than 0")
    if w is None or p == math.inf:
        gap = u - v if w is None else F.where(w != 0, u - v, 0.0)
        return _norm(gap, p)
    return _norm((u - v) * w ** (1 / p), p)


def _cityblock(u: Any, v: Any, w: Any) -> AnyTensor:
    return _weighted_sum(F.abs(u - v), w)


def _chebyshev(u: Any, v: Any, w: Any) -> AnyTensor:
    gap = F.abs(u - v)
    return F.amax(gap if w is None else F.where(w > 0, gap, 0.0), _LAST)


def _cosine(u: Any, v: Any, w: Any) -> AnyTensor:
    return 1 - _weighted_sum(u * v, w) / F.sqrt(_weighted_sum(u * u, w) * _weighted_sum(v * v, w))


def _correlation(u: Any, v: Any, w: Any, centered: bool = True) -> AnyTensor:
    if centered:
        total = u.shape[-1] if w is None else F.sum(w)
        u, v = (t - F.unsqueeze(_weighted_sum(t, w), -1) / total for t in (u, v))
    return _cosine(u, v, w)


def _canberra(u: Any, v: Any, w: Any) -> AnyTensor:
    size = F.abs(u) + F.abs(v)
    return _weighted_sum(F.where(size == 0, 0.0, F.abs(u - v) / F.where(size == 0, 1.0, size)), w)


def _braycurtis(u: Any, v: Any, w: Any) -> AnyTensor:
    return _weighted_sum(F.abs(u - v), w) / _weighted_sum(F.abs(u + v), w)


def _jensenshannon(u: Any, v: Any, w: Any, base: Any = None) -> AnyTensor:
    p, q = (t / F.sum(t, _LAST, True) for t in (u, v))
    return _compare_distributions(p, q, base)


def _compare_distributions(u: AnyTensor, v: AnyTensor, base: float | None) -> AnyTensor:
    """Return the Jensen-Shannon distance between normalized probabilities along the last dim."""
    middle = (u + v) / 2
    divergence = F.sum(F.special_of_two(u, middle, "rel_entr") + F.special_of_two(v, middle, "rel_entr"), _LAST) / 2
    divergence = F.clamp(divergence, 0, None)
    return F.sqrt(divergence if base is None else divergence / logarithm(base))


def _seuclidean(u: Any, v: Any, w: Any, V: Any) -> AnyTensor:
    return _norm((u - v) / F.sqrt(V))


def _mahalanobis(u: Any, v: Any, w: Any, VI: Any) -> AnyTensor:
    gap = u - v
    return F.sqrt(F.sum(F.matmul(gap, VI) * gap, _LAST))


_Metric = Callable[..., AnyTensor]
_METRICS: dict[str, _Metric] = {
    "braycurtis": _braycurtis,
    "canberra": _canberra,
    "chebyshev": _chebyshev,
    "cityblock": _cityblock,
    "correlation": _correlation,
    "cosine": _cosine,
    "euclidean": _euclidean,
    "jensenshannon": _jensenshannon,
    "mahalanobis": _mahalanobis,
    "minkowski": _minkowski,
    "seuclidean": _seuclidean,
    "sqeuclidean": _sqeuclidean,
}
_SHORT = {
    "cheby": "chebyshev", "cheb": "chebyshev", "ch": "chebyshev", "cblock": "cityblock", "cb": "cityblock",
    "c": "cityblock", "co": "correlation", "cos": "cosine", "euclid": "euclidean", "eu": "euclidean", "e": "euclidean",
    "js": "jensenshannon", "mahal": "mahalanobis", "mah": "mahalanobis", "mi": "minkowski", "m": "minkowski",
    "pnorm": "minkowski", "se": "seuclidean", "s": "seuclidean", "sqe": "sqeuclidean",
    "sqeuclid": "sqeuclidean",
}  # fmt: skip


# -- of two vectors --------------------------------------------------------------------------------------------------


def _vectors(*values: Any) -> list[AnyTensor]:
    tensors = [inexact(t) for t in promote_arguments(*(v for v in values if v is not None))]
    _check_vectors(*tensors[:2])
    return [*tensors, *([None] * (len(values) - len(tensors)))]


def _check_vectors(*vectors: AnyTensor) -> None:
    if any(vector.ndim != 1 for vector in vectors):
        raise ValueError("Input vector should be 1-D.")


def _apply_to_vectors(metric: _Metric, u: Any, v: Any, w: Any = None, **settings: Any) -> AnyTensor:
    u, v, w = _vectors(u, v, w)
    if w is not None:
        _check_vectors(w)
        _check_weights(w)
    return metric(u, v, w, **settings)


def _check_weights(w: AnyTensor) -> None:
    if F.holds_anywhere(w.detach() < 0):
        raise ValueError("Input weights should be all non-negative")


def euclidean(u: Any, v: Any, w: Any = None) -> AnyTensor:
    """Compute the distance `scipy.spatial.distance.euclidean`.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.euclidean(gc.tensor([0.0, 0.0]), gc.tensor([3.0, 4.0]))
    tensor(5.)
    """
    return _apply_to_vectors(_euclidean, u, v, w)


def sqeuclidean(u: Any, v: Any, w: Any = None) -> AnyTensor:
    """Compute the distance `scipy.spatial.distance.sqeuclidean`.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.sqeuclidean(gc.tensor([1.0, 2.0]), gc.tensor([4.0, 6.0]))
    tensor(25.)
    """
    return _apply_to_vectors(_sqeuclidean, u, v, w)


def minkowski(u: Any, v: Any, p: float = 2, w: Any = None) -> AnyTensor:
    """Compute the distance `scipy.spatial.distance.minkowski`.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.minkowski(gc.tensor([1.0, 2.0]), gc.tensor([4.0, 6.0]), 3)
    tensor(4.4979)
    """
    return _apply_to_vectors(_minkowski, u, v, w, p=p)


def cityblock(u: Any, v: Any, w: Any = None) -> AnyTensor:
    """Compute the distance `scipy.spatial.distance.cityblock`.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.cityblock(gc.tensor([1.0, 2.0]), gc.tensor([4.0, 6.0]))
    tensor(7.)
    """
    return _apply_to_vectors(_cityblock, u, v, w)


def chebyshev(u: Any, v: Any, w: Any = None) -> AnyTensor:
    """Compute the distance `scipy.spatial.distance.chebyshev`.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.chebyshev(gc.tensor([1.0, 2.0]), gc.tensor([4.0, 6.0]))
    tensor(4.)
    """
    return _apply_to_vectors(_chebyshev, u, v, w)


def cosine(u: Any, v: Any, w: Any = None) -> AnyTensor:
    """Compute the distance `scipy.spatial.distance.cosine`.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.cosine(gc.tensor([1.0, 0.0]), gc.tensor([3.0, 4.0]))
    tensor(0.4000)
    """
    return _apply_to_vectors(_cosine, u, v, w)


def correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> AnyTensor:
    """Compute the distance `scipy.spatial.distance.correlation`.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.correlation(gc.tensor([1.0, 2.0, 3.0]), gc.tensor([3.0, 2.0, 4.0]))
    tensor(0.5000)
    """
    return _apply_to_vectors(_correlation, u, v, w, centered=centered)


def canberra(u: Any, v: Any, w: Any = None) -> AnyTensor:
    """Compute the distance `scipy.spatial.distance.canberra`.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.canberra(gc.tensor([1.0, 2.0]), gc.tensor([3.0, 2.0]))
    tensor(0.5000)
    """
    return _apply_to_vectors(_canberra, u, v, w)


def braycurtis(u: Any, v: Any, w: Any = None) -> AnyTensor:
    """Compute the distance `scipy.spatial.distance.braycurtis`.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.braycurtis(gc.tensor([1.0, 2.0]), gc.tensor([3.0, 2.0]))
    tensor(0.2500)
    """
    return _apply_to_vectors(_braycurtis, u, v, w)


def seuclidean(u: Any, v: Any, V: Any) -> AnyTensor:
    """Compute the distance `scipy.spatial.distance.seuclidean`; differentiable with respect to the variances, too.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.seuclidean(gc.tensor([1.0, 2.0]), gc.tensor([4.0, 6.0]), gc.tensor([9.0, 16.0]))
    tensor(1.4142)
    """
    u, v, V = _vectors(u, v, V)
    return _seuclidean(u, v, None, V)


def mahalanobis(u: Any, v: Any, VI: Any) -> AnyTensor:
    """Compute the distance `scipy.spatial.distance.mahalanobis`; differentiable with respect to the matrix, too.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.mahalanobis(gc.tensor([1.0, 0.0]), gc.tensor([0.0, 1.0]), gc.eye(2))
    tensor(1.4142)
    """
    u, v, VI = _vectors(u, v, VI)
    return _mahalanobis(u, v, None, VI)


def jensenshannon(p: Any, q: Any, base: float | None = None, *, axis: int = 0, keepdims: bool = False) -> AnyTensor:
    """Compute the distance `scipy.spatial.distance.jensenshannon`.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.jensenshannon(gc.tensor([0.5, 0.5]), gc.tensor([0.25, 0.75]))
    tensor(0.1839)
    """
    p, q = (t / F.sum(t, axis, True) for t in map(inexact, promote_arguments(p, q)))
    p, q = F.broadcast_tensors(p, q)
    result = _compare_distributions(F.movedim(p, axis, -1), F.movedim(q, axis, -1), base)
    return F.unsqueeze(result, axis) if keepdims else result


# -- of all pairs ----------------------------------------------------------------------------------------------------


def _metric_of(metric: Any, points: AnyTensor, settings: dict[str, Any]) -> tuple[_Metric, Any, dict[str, Any]]:
    """Return a metric's function, weights and settings; missing settings are computed from the points."""
    if callable(metric) and not isinstance(metric, str):
        return _apply_to_pairs(metric, settings), None, {}
    name = metric.lower()
    name = _SHORT.get(name, name)
    if name not in _METRICS:
        raise ValueError(f"Unknown Distance Metric: {metric}")
    w = settings.pop("w", None)
    settings = {
        key: to_device_of(v, points) if key in ("V", "VI") and v is not None else v for key, v in settings.items()
    }
    settings = {key: v for key, v in settings.items() if v is not None}
    if name == "seuclidean" and "V" not in settings:
        settings["V"] = F.var(points, (0,))
    if name == "mahalanobis" and "VI" not in settings:
        settings["VI"] = F.transpose(F.linalg_inv(F.cov(F.transpose(points, 0, 1))), 0, 1)
    w = None if w is None else inexact(to_device_of(w, points))
    if w is not None and tuple(w.shape) != (points.shape[1],):
        raise ValueError(f"Weights must be a vector of {points.shape[1]} numbers, but their shape is {tuple(w.shape)}")
    if w is not None:
        _check_weights(w)
    return _METRICS[name], w, settings


def _apply_to_pairs(metric: Callable[..., Any], settings: dict[str, Any]) -> _Metric:
    """Convert a function of two vectors to a function of batches of pairs, with the batch dims first."""

    def apply(u: AnyTensor, v: AnyTensor, w: Any) -> AnyTensor:
        u, v = F.broadcast_tensors(u, v)
        rows = zip(F.reshape(u, (-1, u.shape[-1])), F.reshape(v, (-1, v.shape[-1])), strict=True)
        return F.reshape(F.stack([tensor_of(metric(a, b, **settings)) for a, b in rows], 0), u.shape[:-1])

    return apply


def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> AnyTensor:
    """Compute the distances of every row of one matrix to every row of another, as `scipy.spatial.distance.cdist`.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.cdist(gc.tensor([[0.0, 0.0]]), gc.tensor([[3.0, 4.0], [1.0, 1.0]]), "cityblock")
    tensor([[7., 2.]])
    """
    a, b = (inexact(t) for t in promote_arguments(XA, XB))
    for name, t in (("XA", a), ("XB", b)):
        if t.ndim != 2:
            raise ValueError(f"{name} must be a 2-dimensional array.")
    if a.shape[1] != b.shape[1]:
        raise ValueError("XA and XB must have the same number of columns (i.e. feature dimension.)")
    if out is not None:
        raise NotImplementedError("out= of distances; they are new tensors")
    if isinstance(metric, str) and _SHORT.get(metric, metric) == "euclidean" and kwargs.get("w") is None:
        return F.cdist(a, b, 2.0, "donot_use_mm_for_euclid_dist")
    function, w, settings = _metric_of(metric, F.cat([a, b], 0), dict(kwargs))
    return function(F.unsqueeze(a, 1), F.unsqueeze(b, 0), w, **settings)


def pdist(X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> AnyTensor:
    """Compute the distances of all pairs of rows as a condensed vector, as `scipy.spatial.distance.pdist`.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.pdist(gc.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    x = floating(X)
    if x.ndim != 2:
        raise ValueError("A 2-dimensional array must be passed.")
    if out is not None:
        raise NotImplementedError("out= of distances; they are new tensors")
    function, w, settings = _metric_of(metric, x, dict(kwargs))
    first, second = (on_device(i, x) for i in np.triu_indices(x.shape[0], 1))
    if not first.shape[0]:
        return F.new_zeros(x, (0,))
    return function(F.index_select(x, 0, first), F.index_select(x, 0, second), w, **settings)


def num_obs_dm(d: Any) -> int:
    """Return the number of points of a square matrix of distances, as `scipy.spatial.distance.num_obs_dm`.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.num_obs_dm(gc.zeros(4, 4))
    4
    """
    return int(tensor_of(d).shape[0])


def num_obs_y(Y: Any) -> int:
    """Return the number of points of a condensed distance vector, as `scipy.spatial.distance.num_obs_y`.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.num_obs_y(gc.zeros(6))
    4
    """
    k = int(tensor_of(Y).shape[0])
    if k == 0:
        raise ValueError("The number of observations cannot be determined on an empty distance matrix.")
    n = math.ceil(math.sqrt(k * 2))
    if n * (n - 1) // 2 != k:
        raise ValueError(
            "Incompatible vector size. It must be a binomial coefficient n choose 2 for some integer n >= 2."
        )
    return n


def squareform(X: Any, force: str = "no", checks: bool = True) -> AnyTensor:
    """Convert a condensed distance vector to a square matrix or back, as `scipy.spatial.distance.squareform`.

    Examples
    --------
    >>> from gradcore.scipy.spatial import distance
    >>> distance.squareform(gc.tensor([1.0, 2.0, 3.0]))
    tensor([[0., 1., 2.],
            [1., 0., 3.],
            [2., 3., 0.]])
    """
    x = tensor_of(X)
    if force.lower() == "tomatrix" and x.ndim != 1:
        raise ValueError("Forcing 'tomatrix' but input X is not a distance vector.")
    if force.lower() == "tovector" and x.ndim != 2:
        raise ValueError("Forcing 'tovector' but input X is not a distance matrix.")
    if x.ndim == 1:
        n = num_obs_y(x) if x.shape[0] else 1
        places = np.zeros((n, n), int)
        rows, columns = np.triu_indices(n, 1)
        places[rows, columns] = places[columns, rows] = np.arange(1, x.shape[0] + 1)
        with_zero = F.cat([F.new_zeros(x, (1,)), x], 0)
        return F.reshape(F.index_select(with_zero, 0, on_device(places.reshape(-1), x)), (n, n))
    if x.ndim != 2:
        raise ValueError(
            f"The first argument must be one or two dimensional array. A {x.ndim}-dimensional array is not permitted"
        )
    if x.shape[0] != x.shape[1]:
        raise ValueError("The matrix argument must be square.")
    if checks:
        fixed = x.detach()
        if not bool(F.allclose(fixed, F.transpose(fixed, 0, 1), 1e-5, 1e-8)):
            raise ValueError("Distance matrix 'X' must be symmetric.")
        if not bool((F.diagonal(fixed) == 0).all()):
            raise ValueError("Distance matrix 'X' diagonal must be zero.")
    rows, columns = np.triu_indices(x.shape[0], 1)
    return F.index_select(F.reshape(x, (-1,)), 0, on_device(rows * x.shape[0] + columns, x))


#: Functions of SciPy that are missing, with the reason.
LEFT_OUT = {
    **dict.fromkeys(
        ("dice", "hamming", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule"),
        "it counts elements, and has no derivative; give SciPy tensor.numpy()",
    ),
    "directed_hausdorff": "the largest of the smallest distances: cdist(u, v).amin(1).amax()",
    **dict.fromkeys(("is_valid_dm", "is_valid_y"), "a check; squareform checks what it gets"),
}


def __dir__() -> list[str]:
    return [*__all__]


__getattr__ = module_getattr(__name__, LEFT_OUT)
