"""Threads of OpenBLAS: one inside the context, and as many as before behind it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcore.backends.numpy import lapack, openblas
from gradcore.backends.numpy.openblas import OneThread
from gradcore.backends.registry import CPU

BACKEND = CPU.backend


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of thread counts that SciPy's context sets, in order."""
    found = [4]
    context = OneThread("scipy")
    context.library = openblas.Library(lambda: found[-1], found.append, ctypes.CDLL(None), "", "")
    monkeypatch.setattr(lapack, "SCIPY", context)
    return found


@pytest.fixture
def seen(counts: list[int], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of thread counts with which SciPy's routines are called."""
    found: list[int] = []
    original = lapack._routine

    def routine(*names: str) -> Any:
        called = original(*names)
        return lambda *args, **settings: found.append(counts[-1]) or called(*args, **settings)

    monkeypatch.setattr(lapack, "_routine", routine)
    return found


def matrices(n: int) -> Any:
    """Two positive definite matrices."""
    return np.stack([np.eye(n, dtype="float32") * scale for scale in (2, 4)])


CALLS: dict[str, Callable[[Any], Any]] = {
    "lu": BACKEND.factor_lu,
    "solve": lambda a: BACKEND.solve_lu(a, np.tile(np.arange(1, a.shape[-1] + 1, dtype="int32"), (2, 1)), a),
    "triangle": lambda a: BACKEND.solve_triangle(a, a, True),
    "eigh": BACKEND.factor_eigh,
    "eigenvalues": BACKEND.eigenvalues_hermitian,
    "svd": BACKEND.factor_svd,
    "singular values": BACKEND.singular_values,
    "cholesky": lambda a: BACKEND.factor_cholesky(-a),
}


@pytest.mark.parametrize("name", CALLS)
def test_small_matrices_on_one_thread(name: str, counts: list[int], seen: list[int]) -> None:
    CALLS[name](matrices(16))
    assert seen == [1, 1]
    assert counts == [4, 1, 4], "once for the whole batch"


@pytest.mark.parametrize("name", CALLS)
def test_large_matrices_on_all(name: str, counts: list[int], seen: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lapack, "LARGE", 16)
    CALLS[name](matrices(16))
    assert seen == [4, 4]
    assert counts == [4]


def test_one_matrix_and_its_right_hand_sides(counts: list[int], seen: list[int]) -> None:
    triangle = np.eye(16)
    assert (BACKEND.solve_triangle(triangle, np.ones((16, 3)), True) == 1).all()
    assert seen == [1]
    BACKEND.solve_triangle(triangle, np.ones((16, lapack.LARGE)), True)
    assert seen == [1, 4]


def test_threads_come_back_after_an_error(counts: list[int]) -> None:
    with pytest.raises(ValueError, match="no"), lapack._threads_for(np.ones((2, 2))):
        raise ValueError("no")
    assert counts == [4, 1, 4]


def test_threads_come_back_with_the_last_that_leaves() -> None:
    found, inside, leave = [4], threading.Event(), threading.Event()
    context = OneThread("numpy")
    context.library = openblas.Library(lambda: found[-1], found.append, ctypes.CDLL(None), "", "")

    def other() -> None:
        with context.alone():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with context.alone():
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
    with context.alone():
        assert context.library[0]() == 1
    assert context.library[0]() == before >= 1
