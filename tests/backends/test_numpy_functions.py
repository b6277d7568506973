"""Slow functions of large arrays are shared among threads, and give what NumPy gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore import compiled
from gradcore.backends.numpy import threaded_ufuncs, threads
from gradcore.backends.registry import CPU


@pytest.fixture(autouse=True)
def _two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(threaded_ufuncs, "_PART", 100)
    monkeypatch.setattr(threaded_ufuncs, "_WORTH_A_THREAD", 250)
    before = gc.get_num_threads()
    gc.set_num_threads(2)
    yield
    gc.set_num_threads(before)


def draw(dtype: str) -> Any:
    return np.random.default_rng(0).uniform(0.1, 0.9, (30, 41)).astype(dtype)


@pytest.mark.parametrize("name", sorted(CPU.backend.slow))
def test_every_function(name: str) -> None:
    if not hasattr(CPU.backend, name):
        pytest.fail(f"there is no {name}")
    x, function = draw("float64"), getattr(CPU.backend, name)
    with np.errstate(invalid="ignore"):
        found, expected = threaded_ufuncs.in_threads(function)(x), function(x)
    assert np.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
@pytest.mark.parametrize("layout", ["C", "F", "every second", "reversed", "expanded"])
def test_layouts(layout: str, dtype: str) -> None:
    x = draw("float64").astype(dtype)
    x = {"C": x, "F": np.asfortranarray(x), "every second": x[:, ::2], "reversed": x[::-1]}.get(layout, x)
    if layout == "expanded":
        x = np.broadcast_to(x, (3, *x.shape))
    found, expected = threaded_ufuncs.in_threads(np.exp)(x), np.exp(x)
    assert np.array_equal(found, expected)
    assert found.dtype == expected.dtype
    assert found.strides == expected.strides


@pytest.mark.parametrize("order", ["CC", "CF", "FF"])
def test_into_memory(order: str) -> None:
    x, out = np.array(draw("float32"), order=order[0]), np.empty((30, 41), "float32", order[1])  # type: ignore[call-overload]
    assert threaded_ufuncs.in_threads(np.exp)(x, out=out) is out
    assert np.array_equal(out, np.exp(x))


def test_they_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    share = threads.share
    monkeypatch.setattr(threads, "share", lambda *given: (calls.append(given[1:]), share(*given)))
    x = gc.tensor(draw("float32"))
    kernel = threaded_ufuncs.in_threads(np.tanh)
    kernel(x.numpy())
    assert calls == [(14, 2)]  # 1230 elements
    kernel(x.numpy()[:5])  # too few elements
    assert len(calls) == 1


def test_operations_in_place() -> None:
    x = gc.tensor(np.random.default_rng(0).uniform(0, 1, 1_200_000).astype("float32"))
    expected = np.exp(x.numpy())
    address = x.data_ptr()
    found = x.exp().numpy()
    assert np.array_equal(found, expected) or compiled.is_used()  # compiled kernels round otherwise
    assert np.array_equal(x.exp_().numpy(), found)
    assert x.data_ptr() == address
