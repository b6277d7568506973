"""`scipy.spatial` on tensors: distances between points. Trees, hulls and rotations are left to SciPy."""

from __future__ import annotations

from typing import Any

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.scipy.conversion import promote_arguments
from gradcore.scipy.spatial import distance

__all__ = ["distance", "distance_matrix", "minkowski_distance", "minkowski_distance_p"]


def minkowski_distance_p(x: Any, y: Any, p: float = 2.0) -> AnyTensor:
    """Return the p-th power of `minkowski_distance`, as `scipy.spatial.minkowski_distance_p`.

    Examples
    --------
    >>> from gradcore.scipy import spatial
    >>> spatial.minkowski_distance_p(gc.tensor([[0.0, 0.0]]), gc.tensor([[3.0, 4.0]]))
    tensor([25.])
    """
    x, y = promote_arguments(x, y)
    gap = F.abs(y - x)
    if p == float("inf"):
        return F.amax(gap, (-1,))
    return F.sum(gap if p == 1 else gap**p, (-1,))


def minkowski_distance(x: Any, y: Any, p: float = 2.0) -> AnyTensor:
    """Compute the p-norm distances between corresponding rows, as `scipy.spatial.minkowski_distance`.

    Examples
    --------
    >>> from gradcore.scipy import spatial
    >>> spatial.minkowski_distance(gc.tensor([[0.0, 0.0]]), gc.tensor([[3.0, 4.0]]))
    tensor([5.])
    """
    x, y = promote_arguments(x, y)
    return F.linalg_vector_norm(y - x, p, -1)


def distance_matrix(x: Any, y: Any, p: float = 2.0, threshold: int = 1000000) -> AnyTensor:
    """Compute the p-norm distances of all rows of `x` to all rows of `y`, as `scipy.spatial.distance_matrix`.

    Examples
    --------
    >>> from gradcore.scipy import spatial
    >>> spatial.distance_matrix(gc.tensor([[0.0, 0.0]]), gc.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    x, y = promote_arguments(x, y)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"x contains {x.shape[-1]}-dimensional vectors but y contains {y.shape[-1]}-dimensional vectors"
        )
    return minkowski_distance(F.unsqueeze(x, 1), F.unsqueeze(y, 0), p)
