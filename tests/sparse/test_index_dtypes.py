"""Sparse tensors made of narrow indices, whose positions exceed the dtype of the indices: the results of int64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc

#: Sizes with more elements than the dtype can count, though it holds each index.
SIZES = {
    "int32": [(70000, 70000), (2, 2**31 - 2), (2**31 - 2, 3), (2000, 1500, 1300)],
    "int16": [(300, 400), (32766, 6), (2, 32766), (60, 50, 40)],
    "uint8": [(250, 254), (254, 2), (2, 254), (40, 30, 20)],
    "int8": [(120, 120), (126, 2), (20, 30, 10)],
}
CASES = [(dtype, sizes) for dtype, each in SIZES.items() for sizes in each]
MATRICES = [(dtype, sizes) for dtype, sizes in CASES if len(sizes) == 2 and max(sizes) < 10**6]


def _stored(result: Any) -> Any:
    """Return what a result stores, as lists: indices and values, or the elements of a dense tensor."""
    if result.layout is gc.strided:
        return result.tolist()
    if result.layout is gc.sparse_coo:
        assert result._indices().dtype is gc.int64
        return tuple(result.shape), result._indices().tolist(), result._values().tolist()
    by_rows = result.layout in (gc.sparse_csr, gc.sparse_bsr)
    parts = (result.crow_indices(), result.col_indices()) if by_rows else (result.ccol_indices(), result.row_indices())
    return tuple(result.shape), *(x.tolist() for x in parts), result.values().tolist()


def _indices(rng: np.random.Generator, sizes: tuple[int, ...], count: int = 9) -> Any:
    """Draw indices with large ones, repeated ones, and several that differ in one dim."""
    index = np.stack([rng.integers(0, n, count) for n in sizes])
    index[:, 0] = [n - 1 for n in sizes]
    index[:, 1] = index[:, 0]
    index[:, 2] = [n // 2 for n in sizes]
    index[:-1, 3], index[1:, 4] = index[:-1, 0], index[1:, 0]
    return index[:, rng.permutation(count)]


def _gradient(s: Any) -> Any:
    leaf = s.detach().clone().requires_grad_()
    (leaf * leaf).to_sparse().sum().backward()
    return leaf.grad


#: Functions of two sparse tensors of the same sizes.
OF_ALL: dict[str, Callable[[Any, Any], Any]] = {
    "coalesce": lambda s, t: s.coalesce(),
    "add": lambda s, t: s + t,
    "add coalesced": lambda s, t: s.coalesce() + t.coalesce(),
    "sub": lambda s, t: s - t,
    "mul": lambda s, t: s * t,
    "square": lambda s, t: s**2,
    "broadcast": lambda s, t: s * gc.full((1,), 3.0),
    "mask": lambda s, t: gc.full((1,) * s.ndim, 3.0).expand(s.shape).sparse_mask(s),
    "sum": lambda s, t: s.sum(0),
    "sum over the last": lambda s, t: s.sum(-1),
    "sum with keepdim": lambda s, t: gc.sum(s, 1, keepdim=True),
    "mean": lambda s, t: s.mean(1),
    "transpose": lambda s, t: s.transpose(0, 1).coalesce(),
    "softmax": lambda s, t: gc.sparse.softmax(s, 1),
    "log_softmax": lambda s, t: gc.sparse.log_softmax(s, 0),
    "cat": lambda s, t: gc.cat([s, t]).coalesce(),
    "cat along the last": lambda s, t: gc.cat([s, t], -1).coalesce(),
    "stack": lambda s, t: gc.stack([s, t], 1).coalesce() if s.numel() < 2**61 else s,
    "select": lambda s, t: s[-1].coalesce(),
    "index_select": lambda s, t: s.index_select(1, gc.tensor([s.shape[1] - 1, 0, s.shape[1] // 2])).coalesce(),
    "narrow": lambda s, t: s[1:].coalesce(),
    "unsqueeze": lambda s, t: s.unsqueeze(1).coalesce(),
    "gradient": lambda s, t: _gradient(s),
}
#: Functions of two sparse matrices, whose sides fit into memory.
OF_MATRICES: dict[str, Callable[[Any, Any], Any]] = {
    "csr": lambda s, t: s.to_sparse_csr(),
    "csc": lambda s, t: s.to_sparse_csc(),
    "bsr": lambda s, t: s.to_sparse_bsr((2, 1)),
    "bsc": lambda s, t: s.to_sparse_bsc((2, 2)),
    "coo": lambda s, t: s.to_sparse(),
    "matrix by vector": lambda s, t: (s @ gc.arange(s.shape[1], dtype=gc.float64)).nonzero(),
    "vector by matrix": lambda s, t: gc.arange(s.shape[0], dtype=gc.float64) @ s,
    "matrix by matrix": lambda s, t: s @ t.t(),
    "mm with amax": lambda s, t: gc.sparse.mm(s, gc.ones(s.shape[1], 1, dtype=gc.float64), "amax").sum(),
    "sampled_addmm": lambda s, t: gc.sparse.sampled_addmm(
        s, gc.arange(s.shape[0], dtype=gc.float64)[:, None], gc.arange(s.shape[1], dtype=gc.float64)[None]
    ),
    "smm": lambda s, t: gc.smm(s, gc.ones(s.shape[1], 2, dtype=gc.float64)),
}


def _pairs(dtype: str, sizes: tuple[int, ...], seed: int) -> Iterator[tuple[Any, Any]]:
    """Yield two COO tensors, of indices of `dtype` and then of int64."""
    for each in (dtype, "int64"):
        rng = np.random.default_rng(seed)
        yield tuple(
            gc.sparse_coo_tensor(
                gc.tensor(_indices(rng, sizes)).to(getattr(gc, each)), gc.tensor(rng.integers(1, 9, 9) / 4), sizes
            )
            for _ in range(2)
        )  # type: ignore[misc]


@pytest.mark.parametrize(("dtype", "sizes"), CASES)
def test_coo_tensors_of_narrow_indices(dtype: str, sizes: tuple[int, ...]) -> None:
    functions = {**OF_ALL, **(OF_MATRICES if (dtype, sizes) in MATRICES else {})}
    for seed in range(2):
        narrow, wide = _pairs(dtype, sizes, seed)
        for name, function in functions.items():
            assert _stored(function(*narrow)) == _stored(function(*wide)), name
        if narrow[0].numel() < 10**6:
            assert _stored(narrow[0].to_dense()) == _stored(wide[0].to_dense())


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
@pytest.mark.parametrize(("dtype", "sizes"), MATRICES)
def test_compressed_matrices_of_narrow_indices(layout: str, dtype: str, sizes: tuple[int, int]) -> None:
    block = (2, 1) if layout == "bsr" else (2, 2)
    kept = gc.int32 if dtype == "int32" else gc.int64
    *_, pair = _pairs(dtype, sizes, 0)
    settings = {"layout": getattr(gc, f"sparse_{layout}"), "blocksize": block if "bs" in layout else None}
    wide = [coo.to_sparse(**settings) for coo in pair]
    narrow = []
    for t in wide:
        ends, inner = (
            (t.crow_indices(), t.col_indices()) if layout.endswith("sr") else (t.ccol_indices(), t.row_indices())
        )
        parts = ends.to(getattr(gc, dtype)), inner.to(getattr(gc, dtype))
        narrow.append(getattr(gc, f"sparse_{layout}_tensor")(*parts, t.values(), sizes))
        assert (narrow[-1].crow_indices() if layout.endswith("sr") else narrow[-1].ccol_indices()).dtype is kept
    functions = {name: OF_ALL[name] for name in ("add", "mul", "square", "sum", "transpose", "softmax", "select")}
    functions["transpose"] = lambda s, t: s.transpose(0, 1).to_sparse()
    functions |= {name: f for name, f in OF_MATRICES.items() if "bs" not in name and name != "mm with amax"}
    functions["mask"] = OF_ALL["mask"]
    functions["coo"] = lambda s, t: s.to_sparse()
    functions["gradient"] = lambda s, t: s.requires_grad_().to_sparse().sum(1)
    for name, function in functions.items():
        assert _stored(function(*narrow)) == _stored(function(*wide)), name
    if narrow[0].numel() < 10**6:
        assert _stored(narrow[0].to_dense()) == _stored(wide[0].to_dense())


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_rows_of_tables_with_more_elements_than_int32_counts(dtype: str) -> None:
    """The table is of zeros that no memory is needed for, except for the rows that are added to."""
    height, width = 2**21 + 8, 1024
    backend = gc.zeros(1, device="cpu")._device.backend
    index = np.array([height - 1, 0, height - 1, 2**20], dtype)
    table = backend.sum_into_rows(height, index, np.full((4, width), 3, "int8"))
    rows = [0, 1, 2**20, height - 2, height - 1]
    assert table[rows].tolist() == [[n] * width for n in (3, 0, 3, 0, 6)]


@pytest.mark.parametrize("dense", [(), (2,), (2, 3)])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_tensors_without_sparse_dims(dense: tuple[int, ...], count: int) -> None:
    """They are the sum of their values."""
    values = gc.randn(count, *dense, dtype=gc.float64, requires_grad=True)
    s = gc.sparse_coo_tensor(gc.zeros(0, count, dtype=gc.int64), values, dense)
    t = s.coalesce()
    assert (t.sparse_dim(), t._nnz(), t.indices().shape) == (0, min(count, 1), (0, min(count, 1)))
    total = values.sum(0)
    for result in (s.to_dense(), t.to_dense(), (s + s).to_dense() / 2, s.sum() if not dense else s.to_dense()):
        assert gc.allclose(result, total)
    weight = gc.randn(dense, dtype=gc.float64)
    (gradient,) = gc.autograd.grad((t.to_dense() * weight).sum(), values)
    assert gc.equal(gradient, weight.expand(count, *dense))
    assert "nnz" in repr(t)


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize("target", ["csr", "csc", "bsr", "bsc"])
@pytest.mark.parametrize("source", ["csr", "csc"])
def test_compressed_layouts_keep_the_dtype_of_indices(source: str, target: str, index_dtype: str) -> None:
    dense = gc.tensor([[1.0, 0.0], [2.0, 3.0]])
    parts = getattr(dense, f"to_sparse_{source}")()
    names = ("crow_indices", "col_indices") if source == "csr" else ("ccol_indices", "row_indices")
    index = [getattr(parts, name)().to(getattr(gc, index_dtype)) for name in names]
    matrix = getattr(gc, f"sparse_{source}_tensor")(*index, parts.values(), (2, 2))
    result = getattr(matrix, f"to_sparse_{target}")(*(((1, 1),) if target[0] == "b" else ()))
    names = ("crow_indices", "col_indices") if target.endswith("r") else ("ccol_indices", "row_indices")
    assert [getattr(result, name)().dtype for name in names] == [getattr(gc, index_dtype)] * 2
    assert result.to_dense().tolist() == dense.tolist()
