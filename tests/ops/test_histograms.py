"""Histograms: weights, edges that are given, what is outside, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradcore as gc

x = gc.tensor([1.0, 2.0, 2.0, 3.0])


def test_results_have_names() -> None:
    found = gc.histogram(x, 2)
    assert found.hist.tolist() == [1, 3]
    assert found.bin_edges.tolist() == [1, 2, 3]
    assert "torch.return_types.histogram(\nhist=tensor([1., 3.])" in repr(found)


def test_given_edges() -> None:
    edges = gc.tensor([0.0, 2.0, 2.5, 3.0])
    assert x.histogram(edges).hist.tolist() == [1, 2, 1]
    assert x.histogram(edges).bin_edges.equal(edges)


def test_what_is_outside_is_not_counted() -> None:
    values = gc.tensor([-1.0, 0.0, 0.5, 1.0, 1.5, math.nan, math.inf])
    assert gc.histogram(values, 2, range=(0.0, 1.0)).hist.tolist() == [1, 2]


def test_weights() -> None:
    weight = gc.tensor([1.0, 2.0, 4.0, 8.0], requires_grad=True)
    counts = gc.histogram(x, 2, weight=weight, density=True).hist
    assert counts.tolist() == pytest.approx([1 / 15, 14 / 15])
    counts[1].backward()
    assert weight.grad.tolist() == pytest.approx([-14 / 225, 1 / 225, 1 / 225, 1 / 225])


def test_weights_of_points_in_a_grid() -> None:
    rng = np.random.default_rng(0)
    points, weights = rng.uniform(size=(50, 3)), rng.uniform(size=50)
    expected, edges = np.histogramdd(points, (2, 3, 4), weights=weights, density=True)
    found = gc.histogramdd(gc.tensor(points), (2, 3, 4), weight=gc.tensor(weights), density=True)
    np.testing.assert_allclose(found.hist.numpy(), expected)
    for ours, theirs in zip(found.bin_edges, edges, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs)


def test_equal_and_no_elements() -> None:
    assert [a.tolist() for a in gc.histogram(gc.ones(3), 2)] == [[0, 3], [0.5, 1, 1.5]]
    assert [a.tolist() for a in gc.histogram(gc.ones(0), 2)] == [[0, 0], [0, 0.5, 1]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: gc.histogram(gc.tensor([1.0, math.nan]), 2), RuntimeError, "dimension 0's range"),
        (lambda: gc.histogram(gc.ones(3, dtype=gc.int32), 2), NotImplementedError, "not implemented for 'Int'"),
        (lambda: gc.histogram(x, 0), RuntimeError, "bins must be > 0, but got 0 for dimension 0"),
        (lambda: gc.histogram(x, 2, range=(3.0, 1.0)), RuntimeError, "min should not exceed max"),
        (lambda: gc.histogram(x, gc.ones(2, 2)), RuntimeError, "bins tensor should have one dimension, but got 2"),
        (lambda: gc.histogram(x, gc.ones(2).double()), RuntimeError, "input with dtype float and bins for dimension 0"),
        (lambda: gc.histogram(x, 2, weight=gc.ones(3)), RuntimeError, "should have the same shape as the input"),
        (lambda: gc.histogram(x, 2, weight=gc.ones(4).double()), RuntimeError, "should have the same dtype"),
        (lambda: gc.histogramdd(gc.ones(5, 2), [2]), RuntimeError, "equal to the innermost dimension"),
        (lambda: gc.histogramdd(gc.ones(5, 2), 2, range=[0.0, 1.0]), RuntimeError, "should have 4 elements, but got 2"),
        (lambda: gc.histogramdd(gc.ones(5), 2), RuntimeError, "at least 2 dimensions"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_indices_of_a_fixed_number() -> None:
    matrix = gc.tensor([[1, 0], [3, 4]])
    assert matrix.nonzero_static(size=2).tolist() == [[0, 0], [1, 0]]
    assert matrix.nonzero_static(size=4, fill_value=7).tolist() == [[0, 0], [1, 0], [1, 1], [7, 7]]
    assert gc.func.vmap(lambda row: gc.nonzero_static(row, size=2))(matrix).tolist() == [[[0], [-1]], [[0], [1]]]
    with pytest.raises(RuntimeError, match="'size' must be an non-negative integer"):
        gc.nonzero_static(matrix, size=-1)


def test_indices_of_all_dims() -> None:
    assert [i.tolist() for i in gc.unravel_index(gc.tensor([3, 5]), (2, 3))] == [[1, 1], [0, 2]]
    assert [i.tolist() for i in gc.unravel_index(gc.tensor(5), 6)] == [5]
    (wide,) = gc.unravel_index(gc.tensor([5], dtype=gc.uint8), (1000,))
    assert wide.dtype is gc.int64
    assert wide.tolist() == [5]
    for shape, error in ((2.0, TypeError), ((2, -3), ValueError)):
        with pytest.raises(error, match="'shape'"):
            gc.unravel_index(gc.tensor([1]), shape)
    with pytest.raises(TypeError, match="expected 'indices' to be integer dtype"):
        gc.unravel_index(gc.tensor([1.0]), 6)
