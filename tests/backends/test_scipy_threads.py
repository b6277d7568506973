"""SciPy's threads stay out of the way of NumPy's for small matrices, and are left as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcore.backends import scipy_threads
from gradcore.backends.scipy_threads import LARGE, on_one_thread


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A count of threads (the last of the list, after those there were) in the place of SciPy's."""
    counts = [4]
    monkeypatch.setattr(scipy_threads, "_threads", lambda: (lambda: counts[-1], counts.append))
    return counts


def test_small_matrices_on_one_thread(threads: list[int]) -> None:
    seen: list[int] = []
    call = on_one_thread(lambda a, scale=1: seen.append(threads[-1]) or a * scale)
    assert (call(np.ones((3, 3)), scale=2) == 2).all()
    assert seen == [1]
    assert threads == [4, 1, 4]


def test_large_matrices_on_all(threads: list[int]) -> None:
    seen: list[int] = []
    on_one_thread(lambda number, a: seen.append(threads[-1]))(1, np.empty((2, LARGE)))
    assert seen == [4]
    assert threads == [4]


def test_threads_come_back_after_an_error(threads: list[int]) -> None:
    def fails(a: Any) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        on_one_thread(fails)(np.ones((2, 2)))
    assert threads[-1] == 4


def test_one_thread_stays_one(threads: list[int]) -> None:
    threads.append(1)
    on_one_thread(lambda a: None)(np.ones((2, 2)))
    assert threads == [4, 1]


def test_scipys_own_library() -> None:
    found = scipy_threads._threads()
    if found is None:
        pytest.skip("SciPy has no OpenBLAS of its own here")
    get, put = found
    before = get()
    put(1)
    assert get() == 1
    put(before)
    assert get() == before >= 1
