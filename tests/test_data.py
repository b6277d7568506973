"""What `tensor` makes of numbers, nested sequences, arrays and tensors: dtypes, shapes, errors. PyTorch's: oracle/."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradcore as gc
from gradcore.core import dtypes

#: Dtypes that are promoted with each other.
PROMOTED = [d for d in dtypes.DTYPES.values() if d.name not in ("uint16", "uint32", "uint64", "bfloat16")]


@st.composite
def leaves(draw: Any) -> tuple[Any, dtypes.dtype]:
    """Draw a number in one of its forms, with the dtype that promotion gives it."""
    kind = draw(st.sampled_from(["python", "numpy", "tensor", "single"]))
    if kind == "python":
        value = draw(st.sampled_from([True, 3, 1.5, 2j]))
        return value, dtypes.scalar_dtype(value)
    dtype = draw(st.sampled_from(PROMOTED))
    value = np.ones((), dtype.numpy)[()]
    if kind == "numpy":
        return value, dtype
    shape = draw(st.sampled_from([(), (1,), (1, 1)])) if kind == "single" else ()
    return gc.ones(shape, dtype=dtype), dtype


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(st.lists(leaves(), min_size=1, max_size=4), st.booleans(), st.integers(0, 2))
def test_lists_have_the_promoted_dtype_of_their_elements(drawn: Any, as_tuple: bool, depth: int) -> None:
    expected = drawn[0][1]
    for _, dtype in drawn[1:]:
        expected = gc.promote_types(expected, dtype)
    data: Any = [value for value, _ in drawn]
    data = tuple(data) if as_tuple else data
    for _ in range(depth):
        data = [data]
    for made in (gc.tensor(data), gc.as_tensor(data)):
        assert made.dtype is expected
        assert made.shape == (1,) * depth + (len(drawn),)


def test_arrays_and_tensors_in_lists() -> None:
    assert gc.tensor([np.ones(2), [1.0, 2.0]]).dtype is gc.float64
    assert gc.tensor([[1.0, 2.0], np.ones(2, "float32")]).dtype is gc.float32
    assert gc.tensor([range(2), range(2)]).tolist() == [[0, 1], [0, 1]]
    for several in (gc.ones(2), gc.ones(0)):
        with pytest.raises(ValueError, match="only one element tensors can be converted"):
            gc.tensor([several])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_pandas_keeps_its_dtype(dtype: str) -> None:
    pd = pytest.importorskip("pandas")
    for made in (pd.Series([1, 0], dtype=dtype), pd.Series([1, 0], index=[5, 7], dtype=dtype)):
        assert gc.tensor(made).dtype is gc.as_tensor(made).dtype is dtypes.DTYPES[dtype]
        assert gc.tensor(made).tolist() == [1, 0]
    assert gc.tensor(pd.DataFrame({"a": [1, 0]}, dtype=dtype)).shape == (2, 1)
    with pytest.raises(TypeError, match="can't convert"):
        gc.tensor(pd.Series(["a"]))


def test_sequences_of_other_kinds_are_lists() -> None:
    assert gc.tensor(array.array("d", [1.5])).dtype is gc.float32
    assert gc.tensor(bytearray(b"ab")).tolist() == [97, 98]
    assert gc.tensor(memoryview(np.ones(2))).tolist() == [1, 1]


def test_lists_in_themselves() -> None:
    first: list[Any] = []
    first.append(first)
    later: list[Any] = [1]
    later.append(later)
    pair: list[Any] = []
    pair += [pair, pair]
    through: list[Any] = [[1.0]]
    through[0].append(through)
    for data in (first, later, pair, through, (first,), [later, later]):
        with pytest.raises((TypeError, ValueError), match=r"self-referential|too many dimensions"):
            gc.tensor(data)
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    with pytest.raises(ValueError, match="too many dimensions 'list'"):
        gc.tensor(deep)


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        ([1, 2**64 - 1], ValueError, "Overflow when unpacking long long"),
        (2**63, ValueError, "Overflow when unpacking long long"),
        ([[1, 2], [3]], ValueError, "expected sequence of length 2 at dim 1"),
        ("text", TypeError, "invalid data type 'str'"),
        ([b"text"], TypeError, "invalid data type 'bytes'"),
        ([None], RuntimeError, "Could not infer dtype of NoneType"),
        ({1: 2}, RuntimeError, "Could not infer dtype of dict"),
        (object(), RuntimeError, "Could not infer dtype of object"),
    ],
)
def test_errors(data: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        gc.tensor(data)


# -- unsigned integers of 16, 32 and 64 bit ---------------------------------------------------------------------------

UNSIGNED = ["uint16", "uint32", "uint64"]


@pytest.mark.parametrize("name", UNSIGNED)
def test_unsigned_integers(name: str) -> None:
    dtype, largest = dtypes.DTYPES[name], gc.iinfo(dtypes.DTYPES[name]).max
    x = gc.tensor([1, largest, 0], dtype=dtype)
    assert x.tolist() == [1, largest, 0]
    assert x[1].item() == largest
    assert (x + 1).tolist() == [2, 0, 1]
    assert (x == largest).tolist() == [False, True, False]
    assert (x > 0).tolist() == [True, True, False]
    assert x.max().item() == largest
    assert x.sort().values.tolist() == [0, 1, largest]
    assert repr(x).endswith(f"dtype=torch.{name})")
    assert x.numpy().dtype == name
    assert gc.from_numpy(x.numpy()).dtype is dtype
    assert (x.dtype, x[:1].sum().dtype, (x / 2).dtype, (x + 0.5).dtype) == (dtype, gc.int64, gc.float32, gc.float32)
    assert gc.full((1,), -1, dtype=dtype).item() == largest
    assert gc.where(gc.tensor([True, False, True]), x, x).dtype is dtype
    assert x.type() == f"torch.UInt{name[4:]}Tensor"
    for made in (gc.zeros(2, dtype=dtype), gc.ones_like(x), gc.cat([x, x]), gc.stack([x, x]), x.clone(), x.to(dtype)):
        assert made.dtype is dtype


@pytest.mark.parametrize("name", UNSIGNED)
def test_what_unsigned_integers_are_not(name: str) -> None:
    x = gc.tensor([0, 1], dtype=dtypes.DTYPES[name])
    with pytest.raises(IndexError, match="tensors used as indices must be long, int, byte or bool tensors"):
        gc.arange(3)[x]
    assert gc.arange(3)[x[1]] == 1  # a number
    with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types is not supported"):
        x + gc.tensor([1, 2])
    with pytest.raises(RuntimeError, match=r"floating point and complex dtype|can require gradients"):
        x.requires_grad_()
