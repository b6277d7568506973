"""`set_flush_denormal`: subnormal numbers are zeros in the thread that asks for it and in those that work for it."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd.modes import run_in_new_thread
from gradcore.backends.numpy import thread_state, threads

#: A function for `gradcore_share`.
WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
#: Seconds after which a thread that nobody joins stops waiting: a pool that rests lets the caller work alone.
PATIENCE = 2.0


@pytest.fixture(autouse=True)
def _restore(compiled: Any) -> Iterator[None]:
    number = gc.get_num_threads()
    yield
    gc.set_num_threads(number)
    gc.set_flush_denormal(False)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("where", ["cpu", "compiled"])
def test_operands_and_results(where: str, dtype: str) -> None:
    info = np.finfo(dtype)
    small, tiny = info.smallest_normal, info.smallest_subnormal
    # Enough elements for a loop of the library, and for loops of whole registers with a rest.
    least, subnormal = (gc.tensor(np.full(300_001, x, dtype)).to(where) for x in (small, tiny * 3))
    for flushes in (True, False, True, False):
        assert gc.set_flush_denormal(flushes)
        assert thread_state.is_flushing() == flushes
        for result in (least * 0.5, subnormal * 2.0, gc.nn.functional.silu(subnormal) * 4.0):
            assert np.all((result.cpu().numpy().view(f"i{info.bits // 8}") == 0) == flushes)


def test_gradients() -> None:
    """Of a chain of factors, the last of which are subnormal."""
    x = gc.tensor([1.0], requires_grad=True)
    for flushes in (True, False):
        gc.set_flush_denormal(flushes)
        (grad,) = gc.autograd.grad(x * 1e-20 * 1e-20, x)
        assert (grad.item() == 0) == flushes


def test_subnormal_numbers_do_not_stay_zero() -> None:
    """Check that a number that became a zero operand while the setting was on is converted again."""
    large = gc.full((3,), 1e30)
    for flushes in (True, False):
        gc.set_flush_denormal(flushes)
        assert (large * 1.23e-40).eq(0).all().item() == flushes


def _in_threads_of_library(library: Any, read: Callable[[], Any]) -> list[Any]:
    """Return what `read` returns in the caller and in one thread of the library."""
    results: list[Any] = []

    def work(_: Any, number: int) -> None:
        results.append((threading.get_ident(), read()))
        barrier.wait(PATIENCE)

    function = WORK(_without_errors(work))
    while True:
        results.clear()
        barrier = threading.Barrier(2)
        library.gradcore_share(ctypes.c_int64(2), ctypes.c_int64(2), function, None)
        if len({thread for thread, _ in results}) == 2:
            return [result for _, result in results]


def _in_threads_of_python(read: Callable[[], Any]) -> list[Any]:
    """Return what `read` returns in the caller and in one of the threads that share work in Python."""
    results: list[Any] = []

    def work(numbers: Iterator[int]) -> None:
        for _ in numbers:
            results.append((threading.get_ident(), read()))
            wait()

    wait = _without_errors(lambda: barrier.wait(PATIENCE))
    while True:
        results.clear()
        barrier = threading.Barrier(2)
        threads.share(work, 2)
        if len({thread for thread, _ in results}) == 2:
            return [result for _, result in results]


def _without_errors(work: Callable[..., Any]) -> Callable[..., None]:
    def call(*arguments: Any) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            work(*arguments)

    return call


@pytest.mark.parametrize("pool", ["library", "Python"])
def test_threads_that_share_work(compiled: Any, pool: str) -> None:
    """They have the setting of each caller, whichever one they had before."""
    gc.set_num_threads(2)
    numbers = np.array([1e-20], "f4")

    def read() -> tuple[bool, bool]:
        return thread_state.is_flushing(), (numbers * np.float32(1e-22)).item() == 0

    for flushes in (False, True, False, True):
        gc.set_flush_denormal(flushes)
        results = _in_threads_of_library(compiled.library, read) if pool == "library" else _in_threads_of_python(read)
        assert results == [(flushes, flushes)] * 2


def test_thread_of_a_nested_backward() -> None:
    for flushes in (False, True):
        gc.set_flush_denormal(flushes)
        assert run_in_new_thread(thread_state.is_flushing) == flushes


def test_other_threads_keep_their_setting() -> None:
    begin, results = threading.Barrier(2), []

    def work() -> None:
        begin.wait()
        begin.wait()
        results.append(thread_state.is_flushing())

    other = threading.Thread(target=work)
    other.start()
    begin.wait()
    gc.set_flush_denormal(True)
    begin.wait()
    other.join()
    assert results == [False]


def test_halves_are_exact() -> None:
    """Subnormal halves are normal numbers of float32, in which halves are computed."""
    halves = np.arange(1 << 16, dtype="u2").view("f2")
    expected = halves.astype("f4")
    gc.set_flush_denormal(True)
    for where in ("cpu", "compiled"):
        result = gc.tensor(halves).to(where).float().cpu().numpy()
        assert np.array_equal(result.view("i4")[~np.isnan(expected)], expected.view("i4")[~np.isnan(expected)])


def test_number_ranges_do_not_change() -> None:
    expected = repr(gc.finfo(gc.float32))
    gc.set_flush_denormal(True)
    assert repr(gc.finfo(gc.float32)) == expected


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_state, "_flush", thread_state._FlushFunctions())
    assert gc.set_flush_denormal(True) is False
    assert gc.tensor(1e-20).mul(1e-22).item() != 0


@pytest.mark.parametrize(("mode", "kind"), [(1, "int"), (None, "NoneType"), ("on", "str")])
def test_errors_are_those_of_torch(mode: Any, kind: str) -> None:
    with pytest.raises(RuntimeError, match=f"^flush_denormal expects a bool, but got {kind}$"):
        gc.set_flush_denormal(mode)


@pytest.mark.parametrize("numbers", [(1e-30, 1e-10), (1e-40, 1e30)], ids=["result", "operand"])
@pytest.mark.parametrize("first", [True, False])
def test_constants_that_flushing_changes_are_not_folded(first: bool, numbers: tuple[float, float]) -> None:
    """`set_flush_denormal` decides in each call whether they are zeros."""

    def scale(x: gc.Tensor) -> gc.Tensor:
        return x * (gc.full((4,), numbers[0]) * gc.full((4,), numbers[1])) * 1e15

    compiled_scale, x = gc.compile(scale), gc.ones(4)
    for flushes in (first, first, not first, first):
        assert gc.set_flush_denormal(flushes)
        assert compiled_scale(x).tolist() == scale(x).tolist()
        assert (scale(x)[0].item() == 0) == flushes
