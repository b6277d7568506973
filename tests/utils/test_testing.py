"""`gradcore.testing`: what is close, what is said of what is not, and random tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.testing import assert_close, make_tensor

t = gc.tensor

CLOSE: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "within the tolerance of float32": (t([1.0, 2.0]), t([1.0, 2.0 + 2e-6]), {}),
    "other dtype": (t([1.0]), t([1.0], dtype=gc.float64), {"check_dtype": False}),
    "nan": (t([math.nan]), t([math.nan]), {"equal_nan": True}),
    "infinities": (t([math.inf, -math.inf]), t([math.inf, -math.inf]), {}),
    "own tolerances": (t([1.0]), t([2.0]), {"rtol": 0, "atol": 1}),
    "containers": ({"a": [1.0, (t([1.0]), None)]}, {"a": (1.0, [t([1.0]), None])}, {}),
    "arrays": (np.ones(2), np.ones(2), {}),
    "no elements": (t([]), t([]), {}),
    "leaf and constant": (t([1.0], requires_grad=True), t([1.0]), {}),
}
DIFFERENT: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "value": (t([1.0, 2.0, 3.0]), t([1.0, 2.0, 4.0]), {}, "1 / 3 (33.3%)\nGreatest absolute difference: 1.0 at"),
    "exactly": (t([1.0]), t([1.0 + 1e-6]), {"rtol": 0, "atol": 0}, "Tensor-likes are not equal!"),
    "whole numbers": (t([1, 2]), t([1, 3]), {}, "Greatest absolute difference: 1 at index (1,)\n"),
    "small whole numbers": (t([0], dtype=gc.uint8), t([255], dtype=gc.uint8), {}, "difference: 255 at"),
    "number": (1.0, 2.0, {}, "Scalars are not close!\n\nExpected 2.0 but got 1.0."),
    "0-dim": (t(1.0), t(2.0), {}, "Expected 2.0 but got 1.0."),
    "kind of number": (1.0, 1, {}, "The (d)types do not match: <class 'float'> != <class 'int'>."),
    "shape": (t([1.0]), t([1.0, 1.0]), {}, "The values for attribute 'shape' do not match"),
    "dtype": (t([1.0]), t([1]), {}, "torch.float32 != torch.int64."),
    "stride": (gc.ones(2), gc.ones(4)[::2], {"check_stride": True}, "attribute 'stride()' do not match: (1,) != (2,)."),
    "device": (t([1.0]), t([1.0], device="meta"), {}, "attribute 'device' do not match: cpu != meta."),
    "nan": (t([math.nan]), t([math.nan]), {}, "Greatest absolute difference: nan at index (0,)"),
    "length": ([1.0], [1.0, 2.0], {}, "The length of the sequences mismatch: 1 != 2"),
    "keys": ({"a": 1}, {"b": 1}, {}, "Missing keys in the actual mapping: ['b']"),
    "nested": ({"a": [0.0, t([1.0])]}, {"a": [0.0, t([3.0])]}, {}, "The failure occurred for item ['a'][1]"),
    "none": (None, 1.0, {}, "None mismatch: None is not 1.0"),
    "message": (t([1.0]), t([2.0]), {"msg": "different"}, "different"),
    "made message": (t([1.0]), t([2.0]), {"msg": lambda text: f"Oh. {text}"}, "Oh. Tensor-likes are not close!"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSE)
def test_close(name: str) -> None:
    actual, expected, settings = CLOSE[name]
    assert_close(actual, expected, **settings)


@pytest.mark.parametrize("name", DIFFERENT)
def test_different(name: str) -> None:
    actual, expected, settings, message = DIFFERENT[name]
    with pytest.raises(AssertionError) as error:
        assert_close(actual, expected, **settings)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("actual", "expected"), [(t([1.0]), 1.0), ("a", "a"), (t([1.0]), np.ones(1)), ([1.0], t([1.0]))]
)
def test_what_cannot_be_compared(actual: Any, expected: Any) -> None:
    with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
        assert_close(actual, expected)


def test_one_tolerance() -> None:
    with pytest.raises(ValueError, match="'rtol' and 'atol' must be either specified or omitted, but got no atol"):
        assert_close(t([1.0]), t([1.0]), rtol=1.0)


def test_subclasses() -> None:
    parameter = gc.nn.Parameter(t([1.0]))
    assert_close(parameter, t([1.0]))
    with pytest.raises(TypeError):
        assert_close(parameter, t([1.0]), allow_subclasses=False)


@pytest.mark.parametrize("dtype", [gc.bool, gc.uint8, gc.int32, gc.float16, gc.bfloat16, gc.float64, gc.complex64])
@pytest.mark.parametrize("noncontiguous", [False, True])
def test_made_tensors(dtype: Any, noncontiguous: bool) -> None:
    x = make_tensor((40, 50), dtype=dtype, device="cpu", noncontiguous=noncontiguous, exclude_zero=True)
    assert (x.dtype, tuple(x.shape), x.is_contiguous()) == (dtype, (40, 50), not noncontiguous)
    assert (x != 0).all()
    if dtype not in (gc.bool, gc.uint8):
        parts = gc.view_as_real(x) if dtype.is_complex else x
        assert -9 <= parts.min() < -8
        assert 8 <= parts.max() <= 9


def test_bounds_of_made_tensors() -> None:
    x = make_tensor(1000, dtype=gc.float32, device="cpu", low=2, high=3, requires_grad=True)
    assert x.requires_grad
    assert x.is_leaf
    assert ((x >= 2) & (x < 3)).all()
    with pytest.raises(ValueError, match="`low` must be less than `high`"):
        make_tensor(2, dtype=gc.float32, device="cpu", low=3, high=2)
    with pytest.raises(ValueError, match="not supported for boolean and integral dtypes"):
        make_tensor(2, dtype=gc.int64, device="cpu", requires_grad=True)
