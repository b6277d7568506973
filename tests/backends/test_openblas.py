"""Threads of OpenBLAS: one inside the context, and as many as before behind it."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from gradcore.backends import lapack, openblas
from gradcore.backends.openblas import OneThread


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of threads that there were, one after the other; the context of SciPy sets these."""
    found = [4]
    context = OneThread("scipy")
    context.library = (lambda: found[-1], found.append)
    monkeypatch.setattr(lapack, "SCIPY", context)
    return found


def test_small_matrices_on_one_thread(counts: list[int]) -> None:
    seen: list[int] = []
    call = lapack._on_one_thread(lambda number, a, scale=1: seen.append(counts[-1]) or a * scale)
    assert (call(1, np.ones((3, 3)), scale=2) == 2).all()
    assert seen == [1]
    assert counts == [4, 1, 4]


def test_large_matrices_on_all(counts: list[int]) -> None:
    seen: list[int] = []
    lapack._on_one_thread(lambda number, a: seen.append(counts[-1]))(1, np.empty((2, lapack.LARGE)))
    assert seen == [4]


def test_threads_come_back_after_an_error(counts: list[int]) -> None:
    def fails(a: Any) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        lapack._on_one_thread(fails)(np.ones((2, 2)))
    assert counts == [4, 1, 4]


def test_threads_come_back_with_the_last_that_leaves() -> None:
    found, inside, leave = [4], threading.Event(), threading.Event()
    context = OneThread("numpy")
    context.library = (lambda: found[-1], found.append)

    def other() -> None:
        with context:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with context:
        thread.start()
        inside.wait()
    assert found == [4, 1]
    leave.set()
    thread.join()
    assert found == [4, 1, 4]


@pytest.mark.parametrize("context", [openblas.NUMPY, openblas.SCIPY])
def test_the_packages_own_libraries(context: OneThread) -> None:
    if context.library is None:
        pytest.skip(f"{context.package} has no OpenBLAS of its own here")
    before = context.library[0]()
    with context:
        assert context.library[0]() == 1
    assert context.library[0]() == before >= 1
