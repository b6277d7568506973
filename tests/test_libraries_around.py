"""Libraries that tensors meet in programs: safetensors, matplotlib, pandas, tqdm, joblib; NumPy's numbers."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcore as gc

DTYPES = [
    "bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64",
]  # fmt: skip


def several(dtype: str) -> dict[str, gc.Tensor]:
    """Strided, empty, 0-dim, a step of two, expanded, sharing memory."""
    t = gc.arange(6).reshape(2, 3).T.to(getattr(gc, dtype))
    return {"strided": t, "empty": t[:0], "number": t[1, 1], "step": t[::2], "wide": t[:, :1].expand(3, 4), "ä": t}


def assert_same(found: Any, expected: dict[str, gc.Tensor]) -> None:
    assert set(found) == set(expected)
    for name, t in expected.items():
        assert tuple(found[name].shape) == tuple(t.shape)
        assert str(found[name].tolist()) == str(t.tolist())


@pytest.mark.parametrize("dtype", DTYPES)
def test_files_of_safetensors(dtype: str, tmp_path: Path) -> None:
    tensors = several(dtype)
    gc.safetensors.save_file(tensors, tmp_path / "file", {"made by": "a test"})
    found = gc.safetensors.load_file(tmp_path / "file")
    assert_same(found, tensors)
    assert all(t.dtype is tensors[name].dtype for name, t in found.items())
    assert gc.safetensors.save(found, {"made by": "a test"}) == (tmp_path / "file").read_bytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_files_are_those_of_the_package(dtype: str) -> None:
    pytest.importorskip("torch")
    package = pytest.importorskip("safetensors.torch")
    tensors = several(dtype)
    theirs = package.load(gc.safetensors.save(tensors, {"a": "b"}))
    assert_same(theirs, tensors)
    assert_same(gc.safetensors.load(package.save({name: t.contiguous() for name, t in theirs.items()})), tensors)


HEADER = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


def content(header: Any, data: bytes = bytes(8)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    "data",
    [
        b"", bytes(7), (2**63).to_bytes(8, "little") + b"{}", content(b"{"), content(b"[]"), content(b"[" * 100000),
        content(HEADER, bytes(7)), content({"a": {**HEADER["a"], "dtype": "F128"}}), content({"a": 1}),
        content({"a": {**HEADER["a"], "shape": [-2]}}), content({"a": {**HEADER["a"], "shape": [2**70]}}),
        content({"a": {**HEADER["a"], "shape": [True, 2]}}), content({"a": {**HEADER["a"], "data_offsets": [-8, 0]}}),
        content({"a": {**HEADER["a"], "data_offsets": [4, 0]}}), content({"a": {"dtype": "F32"}}),
    ],
)  # fmt: skip
def test_what_is_no_file_of_safetensors(data: bytes) -> None:
    with pytest.raises(ValueError, match="no file of safetensors"):
        gc.safetensors.load(data)
    assert gc.safetensors.load(content(HEADER))["a"].tolist() == [0.0, 0.0]


def test_what_safetensors_do_not_hold(tmp_path: Path) -> None:
    for wrong in (
        {"a": gc.eye(2).to_sparse()},
        {"a": gc.ones(1, dtype=gc.complex128)},
        {"a": np.ones(1)},
        [gc.ones(1)],
    ):
        with pytest.raises(ValueError, match=r"Key `a`|Expected a dict"):
            gc.safetensors.save_file(wrong, tmp_path / "file")  # type: ignore[arg-type]
    assert not (tmp_path / "file").exists()


# -- plots and tables -------------------------------------------------------------------------------------------------


def test_matplotlib_draws_tensors_without_history() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    x, y = gc.arange(3.0), gc.tensor([1.0, 4.0, 9.0])
    (line,) = axes.plot(x, y)
    assert np.asarray(line.get_ydata()).tolist() == [1.0, 4.0, 9.0]
    axes.scatter(x, y, c=y)
    axes.errorbar(x, y, yerr=y / 10)
    axes.fill_between(x, y, y + 1)
    axes.imshow(gc.ones(2, 2))
    axes.hist(y)
    axes.axhline(y[0])
    for draw in (axes.plot, lambda t: axes.imshow(t.expand(2, 3))):
        with pytest.raises((RuntimeError, UserWarning), match=r"Use tensor\.detach\(\)|loses its history"):
            draw(y.clone().requires_grad_())
    plt.close(figure)


def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": gc.arange(3.0), "b": gc.arange(3)})
    assert table.dtypes.tolist() == [np.float32, np.int64]
    assert gc.as_tensor(table).shape == (3, 2)
    assert gc.tensor(table["b"]).tolist() == [0, 1, 2]
    x = gc.ones(3, dtype=gc.float64, requires_grad=True)
    (x * table["a"].astype(float)).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(RuntimeError, match="requires grad"):
        pandas.Series(x)


def test_xarray() -> None:
    xarray = pytest.importorskip("xarray")
    values = xarray.DataArray(gc.arange(3.0).numpy(), dims="x")
    assert gc.as_tensor(values.values).tolist() == [0.0, 1.0, 2.0]


# -- progress and processes -------------------------------------------------------------------------------------------


def test_tqdm() -> None:
    tqdm = pytest.importorskip("tqdm")
    assert [float(row) for row in tqdm.tqdm(gc.arange(3.0), disable=True)] == [0.0, 1.0, 2.0]


def test_joblib(tmp_path: Path) -> None:
    joblib = pytest.importorskip("joblib")
    t = gc.arange(4.0).reshape(2, 2).T
    assert joblib.hash(t) == joblib.hash(t.clone())
    assert joblib.hash(t) != joblib.hash(t + 1)
    joblib.dump({"t": t}, tmp_path / "file")
    assert gc.equal(joblib.load(tmp_path / "file")["t"], t)


def test_pickles_are_small() -> None:
    """A view of a large tensor takes its own elements along, and little more."""
    t = gc.zeros(100, 1000)
    assert len(pickle.dumps(t[3], protocol=5)) < 4000 + 1000
    assert len(pickle.dumps(t, protocol=5)) < t.nbytes + 1000


# -- numbers of NumPy -------------------------------------------------------------------------------------------------

I, F = np.int64, np.float32
WITH_NUMPY_NUMBERS = {
    "reshape": lambda: gc.ones(6).reshape(I(2), I(3)).shape == (2, 3),
    "zeros": lambda: gc.zeros(I(2)).shape == (2,),
    "full": lambda: gc.full((I(2),), F(3)).tolist() == [3.0, 3.0],
    "arange": lambda: gc.arange(I(3)).tolist() == [0, 1, 2],
    "linspace": lambda: gc.linspace(F(0), F(1), I(3)).tolist() == [0.0, 0.5, 1.0],
    "layers": lambda: gc.nn.Conv2d(I(1), I(2), I(3))(gc.ones(1, 1, 3, 3)).shape == (1, 2, 1, 1),
    "linear": lambda: gc.nn.Linear(I(2), I(3))(gc.ones(2)).shape == (3,),
    "rates": lambda: gc.optim.Adam([gc.ones(2, requires_grad=True)], lr=F(0.1)).step() is None,
    "dropout": lambda: gc.nn.Dropout(F(0.5))(gc.ones(3)).shape == (3,),
    "index": lambda: gc.arange(3)[I(1)] == 1,
    "split": lambda: len(gc.ones(4).split(I(2))) == 2,
    "topk": lambda: gc.ones(4).topk(I(2)).values.shape == (2,),
    "clamp": lambda: gc.arange(3.0).clamp(F(0.5), F(1)).tolist() == [0.5, 1.0, 1.0],
    "pow": lambda: (gc.tensor([3.0]) ** I(2)).tolist() == [9.0],
    "seed": lambda: gc.manual_seed(I(3)).initial_seed() == 3,
    "dim": lambda: gc.ones(2, 3).sum(I(1)).tolist() == [3.0, 3.0],
    "loader": lambda: len(gc.utils.data.DataLoader(gc.ones(4, 2), batch_size=I(2))) == 2,
    "interpolate": lambda: gc.nn.functional.interpolate(gc.ones(1, 1, 2), scale_factor=F(2)).shape == (1, 1, 4),
    "sparse": lambda: gc.sparse_coo_tensor([[0]], [1.0], (I(2),)).to_dense().tolist() == [1.0, 0.0],
}


@pytest.mark.parametrize("name", WITH_NUMPY_NUMBERS)
def test_numbers_of_numpy(name: str) -> None:
    assert WITH_NUMPY_NUMBERS[name]()
