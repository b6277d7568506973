"""Masked reductions where masks select nothing, or what they hide is not finite."""

from __future__ import annotations

import math
from typing import Any

import pytest

import gradcore as gc

NOTHING = {
    "sum": 0, "prod": 1, "mean": math.nan, "amax": -math.inf, "amin": math.inf, "var": math.nan, "std": math.nan,
    "median": math.nan, "logsumexp": -math.inf,
}  # fmt: skip


def rows() -> tuple[Any, Any]:
    """Two rows, of which the mask selects a part of the first and nothing of the second."""
    x = gc.tensor([[1.0, 4.0, math.nan], [math.inf, 5.0, 6.0]], dtype=gc.float64, requires_grad=True)
    return x, gc.tensor([[True, True, False], [False, False, False]])


@pytest.mark.parametrize("name", NOTHING)
def test_rows_of_which_nothing_is_selected(name: str) -> None:
    x, mask = rows()
    result = getattr(gc.masked, name)(x, 1, mask=mask)
    expected = getattr(gc.masked, name)(x[:1, :2], 1)
    assert gc.allclose(result, gc.cat([expected, gc.tensor([NOTHING[name]])]), equal_nan=True)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "amax", "amin", "var", "median", "logsumexp", "norm"])
def test_gradients_of_what_is_hidden(name: str) -> None:
    x, mask = rows()
    arguments = (2.0, 1) if name == "norm" else (1,)
    getattr(gc.masked, name)(x, *arguments, mask=mask)[0].backward()
    assert x.grad.isfinite().all()
    assert (x.grad[~mask] == 0).all()
    assert x.grad[0].any()


@pytest.mark.parametrize("name", ["softmax", "softmin", "log_softmax"])
def test_normalization_of_what_is_selected(name: str) -> None:
    x, mask = rows()
    result = getattr(gc.masked, name)(x, 1, mask=mask)
    assert gc.allclose(result[0, :2], getattr(gc.nn.functional, name)(x[0, :2], 0))
    assert result[0, 2] == (-math.inf if name == "log_softmax" else 0)
    assert result[1].isnan().all()


def test_whole_numbers() -> None:
    x, mask = gc.tensor([[3, 1, 2]]), gc.tensor([[False, True, True]])
    assert gc.masked.amax(x, 1, mask=mask).tolist() == [2]
    assert gc.masked.argmin(x, 1, mask=mask).tolist() == [1]
    assert gc.masked.median(x, 1, mask=mask).tolist() == [1]
    assert gc.masked.mean(x, 1, dtype=gc.float32, mask=mask).tolist() == [1.5]
    with pytest.raises(ValueError, match="no fully masked out rows"):
        gc.masked.median(x, 1, mask=~mask & mask)


def test_a_mask_of_more_dims() -> None:
    with pytest.raises(IndexError, match="broadcastable mask"):
        gc.masked.sum(gc.ones(3), mask=gc.ones(2, 3, dtype=gc.bool))


def test_dims_given_twice() -> None:
    with pytest.raises(RuntimeError, match="dim=1 appears multiple times"):
        gc.masked.sum(gc.ones(2, 3), (1, -1))


def test_logarithms_of_sums_of_very_different_numbers() -> None:
    x = gc.tensor([1.0, -math.inf, 2000.0], requires_grad=True)
    y = gc.tensor([-math.inf, 1.0, 0.0], requires_grad=True)
    for function in gc.logaddexp, gc.logaddexp2:
        first = gc.autograd.grad(function(x, y).sum(), (x, y), create_graph=True)
        assert [g.tolist() for g in first] == [[1, 0, 1], [0, 1, 0]]
        second = gc.autograd.grad(first[0].sum() + 3 * first[1].sum(), (x, y))
        assert [g.tolist() for g in second] == [[0, 0, 0]] * 2
