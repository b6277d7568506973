"""Compiled kernels of recurrent layers give what the portable ones give, in one thread and in several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gradcore import get_num_threads, set_num_threads
from gradcore.backends.compiled import recurrent
from tests.backends.recurrent_calls import KINDS, SHAPES, Shape, compare


@pytest.fixture(autouse=True)
def _threaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On two threads, for two samples and more."""
    monkeypatch.setattr(recurrent, "_SAMPLES", 1)
    monkeypatch.setattr(recurrent, "_WORTH_A_THREAD", 1)
    before = get_num_threads()
    set_num_threads(2)
    yield
    set_num_threads(before)


@pytest.fixture
def ran(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the names of the kernels that run."""
    names: list[str] = []
    run = recurrent.CompiledRecurrent._run_steps

    def noting(self: Any, name: str, *rest: Any, **more: Any) -> None:
        names.append(name)
        run(self, name, *rest, **more)

    monkeypatch.setattr(recurrent.CompiledRecurrent, "_run_steps", noting)
    return names


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_results_and_gradients(compiled: Any, ran: list[str], kind: str, dtype: str, shape: Shape) -> None:
    compare(compiled, kind, shape, dtype)
    assert ran == [ran[0], f"{ran[0]}_back"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("used", ["result", "states"])
def test_gradients_of_some_outputs(compiled: Any, kind: str, used: str) -> None:
    compare(compiled, kind, SHAPES[7], "float32", used)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_may_have_any_layout(compiled: Any, kind: str) -> None:
    """A hook for saved tensors may return copies with other strides."""
    compare(compiled, kind, SHAPES[4], "float64", order="F")


@pytest.mark.parametrize("kind", KINDS)
def test_gates_that_are_open_or_closed(compiled: Any, kind: str) -> None:
    compare(compiled, kind, SHAPES[3], "float32", scale=30.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", range(1, 14))
def test_tiles_of_all_heights(compiled: Any, kind: str, rows: int) -> None:
    compare(compiled, kind, Shape(rows, 19, 2), "float32")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_numbers(compiled: Any, value: float) -> None:
    inflow, h = np.zeros((3, 2, 8), "float32"), np.zeros((2, 2), "float32")
    inflow[1, 0, :] = value
    found = compiled.lstm_sequence(inflow, h, h, np.ones((8, 2), "float32"))[0]
    assert np.isfinite(found[:, 1]).all()
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1, 0]).all() == np.isnan(value)
