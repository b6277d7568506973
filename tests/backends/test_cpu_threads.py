"""Large work on the CPU is spread over threads, whatever the program does with threads and processes of its own."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.numpy import threads
from gradcore.nn.functional import gelu

SIZE = 1_500_000


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = gc.get_num_threads()
    gc.set_num_threads(2)
    yield
    gc.set_num_threads(before)


def gradient() -> np.ndarray:
    x = gc.linspace(-3, 3, SIZE, requires_grad=True)
    gelu(x, approximate="tanh").sum().backward()
    return x.grad.numpy()


class TestNumber:
    @pytest.mark.sampled(2)
    @pytest.mark.parametrize(("variable", "expected"), [("3", 3), ("2,1", 2)])
    def test_environment(self, variable: str, expected: int) -> None:
        code = "import gradcore; print(gradcore.get_num_threads())"
        run = subprocess.run(
            [sys.executable, "-c", code], env={"OMP_NUM_THREADS": variable}, capture_output=True, text=True, check=True
        )
        assert int(run.stdout) == expected

    def test_default_is_the_cores(self) -> None:
        code = "import os, gradcore; print(gradcore.get_num_threads() == len(os.sched_getaffinity(0)))"
        if sys.platform != "linux":
            pytest.skip("counted otherwise")
        run = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, text=True, check=True)
        assert run.stdout == "True\n"

    def test_set(self) -> None:
        gc.set_num_threads(3)
        assert gc.get_num_threads() == 3

    def test_errors(self) -> None:
        with pytest.raises(RuntimeError, match="set_num_threads expects a positive integer"):
            gc.set_num_threads(0)
        with pytest.raises(TypeError, match="set_num_threads expects an int, but got float"):
            gc.set_num_threads(1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [1, 2, 5])
class TestSpread:
    def test_every_part_once(self, number: int) -> None:
        gc.set_num_threads(number)
        done: list[int] = []
        threads.spread(lambda start, stop: done.extend(range(start, stop)), 10, 10)
        assert sorted(done) == list(range(10))

    def test_errors_arrive_after_all_is_done(self, number: int) -> None:
        gc.set_num_threads(number)
        done: list[int] = []

        def work(start: int, stop: int) -> None:
            done.extend(range(start, stop))
            if stop == 8:
                raise KeyError("last")

        with pytest.raises(KeyError, match="last"):
            threads.spread(work, 8, 8)
        assert sorted(done) == list(range(8))

    def test_parts_within_parts(self, number: int) -> None:
        gc.set_num_threads(number)
        done: list[int] = []

        def outer(start: int, stop: int) -> None:
            for _ in range(start, stop):
                threads.spread(lambda first, last: done.extend(range(first, last)), 5, 5)

        threads.spread(outer, 6, 6)
        assert sorted(done) == sorted(6 * list(range(5)))


@pytest.mark.parametrize(("count", "most", "parts"), [(8, 0, 1), (8, 1, 1), (8, 2, 2), (8, 99, 2), (1, 2, 1)])
def test_no_more_parts_than_are_worth_it(count: int, most: int, parts: int) -> None:
    found: list[tuple[int, int]] = []
    threads.spread(lambda start, stop: found.append((start, stop)), count, most)
    assert len(found) == parts


def test_two_threads_take_part() -> None:
    meeting = threading.Barrier(2, timeout=120)  # nobody passes alone
    threads.spread(lambda start, stop: meeting.wait() and None, 2, 2)


def test_the_callers_own_threads() -> None:
    expected = gradient()
    with ThreadPoolExecutor(4) as pool:
        found = [future.result() for future in [pool.submit(gradient) for _ in range(8)]]
    assert all(np.array_equal(each, expected) for each in found)


def _compare(expected: np.ndarray) -> None:
    sys.exit(0 if np.array_equal(gradient(), expected) else 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_child_processes(method: str) -> None:
    """The threads are running when the child is made, and it has none of them."""
    process = multiprocessing.get_context(method).Process(target=_compare, args=(gradient(),))
    process.start()
    process.join(60)
    assert process.exitcode == 0


def test_at_the_interpreters_end() -> None:
    code = (
        "import atexit, gradcore as gc; gc.set_num_threads(2); x = gc.ones(3_000_000)\n"
        "step = lambda: print(gc.nn.functional.mish(x).min().item() > 0.8)\n"
        "step(); atexit.register(step)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "True\nTrue\n"
