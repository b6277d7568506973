"""Counts and histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradcore.ops.declare.annotations import Scalar
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.samples import case, floats, ints
from gradcore.ops.declare.table import composite, constant, linear


@linear(
    weights=lambda F, grad, self: F.take(grad, self),
    node="BincountBackward0",
    data_dependent=True,
    computes_half_in_float=False,
    samples=lambda: [case(ints(6)), case(ints(5), floats(5)), case(ints(4), minlength=8), case(ints(0))],
)
def bincount(K, self, weights=None, minlength: int = 0):
    """Return how often each of the numbers 0, 1, 2, ... occurs, or the sum of its weights.

    Returns
    -------
    Tensor
        Result of shape ``(max(input.max() + 1, minlength),)``.

    Examples
    --------
    >>> gc.bincount(gc.tensor([0, 1, 1, 3]))
    tensor([1, 2, 0, 1])
    """
    check_implemented("bincount_cpu", self, "bfc")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if self.ndim != 1:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != self.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if weights is not None:
        check_implemented("bincount_cpu", weights, "c")
        if weights.dtype != "float32":
            weights = weights.astype("float64")
    return K.bincount_of(self, weights, minlength)


@constant(
    constant="counts change in steps",
    data_dependent=True,
    samples=lambda: [case(floats(20)), case(floats(4, 5), 7, -1, 1), case(floats(3, low=1, high=1), 4)],
)
def histc(K, self, bins: int = 100, min: Scalar = 0, max: Scalar = 0):
    """Return the counts of the elements in equally wide bins between `min` and `max`.

    If both are equal, the minimum and maximum of the data are used.

    Returns
    -------
    Tensor
        Result of shape ``(bins,)``.

    Examples
    --------
    >>> gc.histc(gc.tensor([1.0, 2.0, 1.5, 3.0]), bins=2, min=1, max=3)
    tensor([2., 2.])
    """
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if not (math.isfinite(min) and math.isfinite(max)):
        raise RuntimeError(f"torch.histc: range of [{min}, {max}] is not finite")
    if max < min:
        raise RuntimeError("torch.histc: max must be larger than min")
    check_implemented("histogram_cpu", self, "bic")
    return K.histogram_of(self, bins, min, max)


# -- intervals of several dims ----------------------------------------------------------------------------------------


@constant(constant="only the dtype of `self` is read", function=False, method=False)
def places_until(K, self, n: int):
    """Return ``0, 1, ... n - 1`` in the dtype of `self`."""
    return K.xp.arange(n, dtype=self.dtype)


def _type(x) -> str:
    return str(x.dtype.scalar_name).lower()


def _edges(F, x, dim: int, bins: Any, low: Any, high: Any):
    """Return the edges of the intervals into which a dim is divided."""
    if not isinstance(bins, int):
        if bins.dtype is not x.dtype:
            raise RuntimeError(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with "
                f"dtype {_type(x)} and bins for dimension {dim} with dtype {_type(bins)}"
            )
        if bins.ndim != 1:
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have one dimension, but got {bins.ndim} dimensions in the bins "
                f"tensor for dimension {dim}"
            )
        if not bins.shape[0]:
            raise RuntimeError(f"torch.histogramdd: bins tensor for dimension {dim} should have at least one element")
        return bins
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension {dim}")
    if low is None and x.shape[0]:
        first, last = F.amin(x[:, dim]), F.amax(x[:, dim])
        if F.holds_anywhere(~F.isfinite(last - first)):
            raise RuntimeError(f"torch.histogramdd: dimension {dim}'s range [{first}, {last}] is not finite")
    else:
        first, last = (0.0, 1.0) if low is None else (low, high)
        if not (math.isfinite(first) and math.isfinite(last)):
            raise RuntimeError(f"torch.histogramdd: dimension {dim}'s range [{first:g}, {last:g}] is not finite")
        if first > last:
            raise RuntimeError(
                f"torch.histogramdd: min should not exceed max, but got min {first:g} max {last:g} for dimension {dim}"
            )
        first, last = (F.fill(F.new_zeros(x, ()), bound) for bound in (first, last))
    alone = first == last
    first, last = F.where(alone, first - 0.5, first), F.where(alone, last + 0.5, last)
    k = F.places_until(x, bins + 1)
    return F.where(k < bins, first + k * ((last - first) / bins), last)


def _counts(F, x, edges, weight, density: bool):
    """Return the sum of the weights of the rows of `x` in each cell between edges.

    The last edge of a dim belongs to the last cell.
    """
    sizes = [edge.shape[0] - 1 for edge in edges]
    cells, cell = math.prod(sizes), 0
    inside: Any = True
    for column, edge, size in zip(F.unbind(x, 1), edges, sizes, strict=True):
        at = F.searchsorted(edge, F.contiguous(column), right=True) - 1
        at = F.where((at == size) & (column == edge[-1]), size - 1, at)
        inside = (at >= 0) & (at < size) & inside
        cell = cell * size + at
    cell = F.where(inside, cell, cells)
    weight = F.ones_like(x[:, 0]) if weight is None else weight
    counts = F.index_add(F.new_zeros(x, (cells + 1,)), 0, cell, weight)[:cells].reshape(sizes)
    if density:
        counts = counts / F.sum(counts)
        for dim, edge in enumerate(edges):
            counts = counts / (edge[1:] - edge[:-1]).reshape([-1] + [1] * (len(sizes) - 1 - dim))
    return counts


def _check_histogram(input, weight):
    check_implemented("histogramdd", input, "bic")
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    if weight is None:
        return
    if weight.dtype is not input.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same "
            f"dtype, but got input({_type(input)}), and weight({_type(weight)})"
        )
    if weight.shape != input.shape[:-1]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
            f"excluding its innermost dimension, but got input with shape {list(input.shape)} and weight with shape "
            f"{list(weight.shape)}"
        )


@composite(
    fields="hist bin_edges", method=False,
    samples=lambda: [
        case(floats(9, 2), [2, 3]), case(floats(2, 5, 2), 3, density=True), case(floats(9, 2), 2, range=[-1, 1, 0, 1]),
        case(floats(4, 3), [2, 1, 2]),
    ],
)  # fmt: skip
def histogramdd(
    F, input, bins, range: Sequence[float] | None = None, weight=None, density: bool = False
):  # fmt: skip
    """Return the counts of the points in each cell of a grid, as a named tuple ``(hist, bin_edges)``.

    Parameters
    ----------
    input : Tensor
        Points, of which the last dim holds the coordinates.
    bins : int or sequence of int or sequence of Tensor
        The number of intervals of each coordinate, or the edges of the intervals.
    range : sequence of float, optional
        The least and the largest number of the intervals, of one coordinate after the other; by default those of the
        data.
    weight : Tensor, optional
        The weight of each point, in the shape of `input` without its last dim; by default 1.
    density : bool
        Whether to divide by the sum of all weights and by the cells' volumes.

    Examples
    --------
    >>> gc.histogramdd(gc.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), bins=[2, 2]).hist
    tensor([[0., 1.],
            [1., 1.]])
    """
    _check_histogram(input, weight)
    x = F.reshape(input, (-1, input.shape[-1]))
    n = x.shape[1]
    bins = [bins] * n if isinstance(bins, int) else list(bins)
    if len(bins) != n:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    if range is not None and len(range) != 2 * n:
        raise RuntimeError(
            f"torch.histogramdd: for a {n}-dimensional histogram range should have {2 * n} elements, but got "
            f"{len(range)}"
        )
    bounds = [None] * (2 * n) if range is None else range
    edges = tuple(_edges(F, x, d, each, *bounds[2 * d : 2 * d + 2]) for d, each in enumerate(bins))
    return _counts(F, x, edges, None if weight is None else F.reshape(weight, (-1,)), density), edges


@composite(
    fields="hist bin_edges",
    samples=lambda: [case(floats(9), 3), case(floats(3, 4), 4, range=(-0.5, 1.0), density=True), case(floats(0), 2)],
)  # fmt: skip
def histogram(
    F, input, bins=100, *, range: Sequence[float] | None = None, weight=None, density: bool = False
):  # fmt: skip
    """Return the counts of the elements in each interval, as a named tuple ``(hist, bin_edges)``.

    Parameters
    ----------
    input : Tensor
        The tensor whose elements are counted.
    bins : int or Tensor
        The number of intervals, or the edges of the intervals.
    range : (float, float), optional
        The least and the largest number of the intervals; by default those of the data.
    weight : Tensor, optional
        The weight of each element, in the shape of `input`; by default 1.
    density : bool
        Whether to divide by the sum of all weights and by the widths of the intervals.

    Examples
    --------
    >>> gc.histogram(gc.tensor([1.0, 2.0, 1.5, 3.0]), bins=2)
    torch.return_types.histogram(
    hist=tensor([2., 2.]),
    bin_edges=tensor([1., 2., 3.]))
    """
    points = F.reshape(input, (*(input.shape or (1,)), 1))
    weight = weight if weight is None or weight.ndim else F.reshape(weight, (1,))
    counts, edges = F.histogramdd(points, [bins], range, weight, density)
    return counts, edges[0]
