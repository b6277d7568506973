"""Threads that are given a piece of work each: all parts are done once, whoever comes late, fails or is interrupted."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from gradcore.backends.numpy import thread_pool as thread_pool
from gradcore.backends.numpy import thread_state
from gradcore.backends.numpy.thread_pool import Helper, Pool, works_in_parts


def numbers_in(pool: Pool, count: int, helpers: int) -> list[int]:
    left, done = iter(range(count)), []

    def piece() -> None:
        for i in left:
            time.sleep(0)  # let others have a turn
            done.append(i)

    pool.run(piece, helpers)
    return done


class TestPool:
    @pytest.mark.parametrize("size", [0, 1, 3])
    def test_every_number_once(self, size: int) -> None:
        pool = Pool(size)
        for _ in range(200):
            assert sorted(numbers_in(pool, 7, size)) == list(range(7))
        assert pool.helper_count == len(pool.free) <= size

    def test_helpers_take_part(self) -> None:
        pool, meeting = Pool(2), threading.Barrier(3, timeout=120)
        pool.run(lambda: meeting.wait() and None, 2)

    def test_no_more_helpers_than_there_are(self) -> None:
        pool = Pool(1)
        first = pool.take("first", 5)
        assert len(first) == 1
        assert pool.take("second", 1) == []
        assert pool.take("first", 1) == first
        pool.give_back("first")
        assert pool.take("second", 1) == first

    def test_several_callers(self) -> None:
        pool, found = Pool(1), []
        callers = [
            threading.Thread(target=lambda: found.extend(sorted(numbers_in(pool, 5, 1)) for _ in range(100)))
            for _ in range(4)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
        assert found == [list(range(5))] * 400

    @pytest.mark.parametrize("fails", ["caller", "helper"])
    def test_errors(self, fails: str) -> None:
        pool, meeting, me = Pool(1), threading.Barrier(2, timeout=120), threading.get_ident()

        def piece() -> None:
            meeting.wait()
            if (threading.get_ident() == me) == (fails == "caller"):
                raise KeyError(fails)

        with pytest.raises(KeyError, match=fails):
            pool.run(piece, 1)
        assert not works_in_parts()
        assert sorted(numbers_in(pool, 3, 1)) == [0, 1, 2]

    def test_an_interrupt_waits_for_the_helper(self) -> None:
        pool, meeting, me, done = Pool(1), threading.Barrier(2, timeout=120), threading.get_ident(), []

        def piece() -> None:
            meeting.wait()
            if threading.get_ident() == me:
                raise KeyboardInterrupt
            time.sleep(0.05)
            done.append(True)

        with pytest.raises(KeyboardInterrupt):
            pool.run(piece, 1)
        assert done == [True]

    def test_a_smaller_pool_ends_threads(self) -> None:
        pool = Pool(3)
        meeting = threading.Barrier(4, timeout=120)
        pool.run(lambda: meeting.wait() and None, 3)
        helpers = pool.helpers
        assert all(helper.native_id for helper in helpers)
        pool.resize(1)
        for _ in range(200):
            if sum(helper.native_id is not None for helper in helpers) == 1:
                break
            time.sleep(0.01)
        assert [helper.native_id is not None for helper in helpers] == [True, False, False]
        assert pool.helpers == helpers[:1]
        assert sorted(numbers_in(pool, 4, 3)) == [0, 1, 2, 3]


class TestHelper:
    @pytest.fixture
    def helper(self) -> Iterator[Helper]:
        helper = Helper()
        yield helper
        helper.give(None)

    def test_what_was_not_begun_is_taken_back(self, helper: Helper) -> None:
        """Whether it had begun is a matter of time, but never is a piece done after `wait`."""
        for _ in range(500):
            done: list[bool] = []
            helper.give(lambda done=done: done.append(True))  # type: ignore[misc]
            assert helper.wait() is None
            number = len(done)
            assert number <= 1
            time.sleep(0)
            assert len(done) == number

    def test_errors_are_told_once(self, helper: Helper) -> None:
        begun = threading.Event()

        def fail() -> None:
            begun.set()
            raise ValueError("here")

        helper.give(fail)
        begun.wait(20)
        assert isinstance(helper.wait(), ValueError)
        helper.give(begun.clear)
        assert helper.wait() is None


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads are placed on Linux only")
class TestCores:
    @pytest.fixture
    def thread(self) -> Iterator[int]:
        """Start a thread that waits, and yield its native id."""
        end = threading.Event()
        thread = threading.Thread(target=end.wait)
        thread.start()
        assert thread.native_id is not None
        yield thread.native_id
        end.set()
        thread.join()

    def test_away_from_the_caller(self, thread: int) -> None:
        mine = os.sched_getaffinity(0)
        core = min(mine)
        thread_state.keep_away(thread, core)
        assert os.sched_getaffinity(thread) == (mine - {core} or mine)
        assert os.sched_getaffinity(0) == mine

    def test_threads_of_the_pool(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """They leave the caller's core to it, wherever it goes."""
        placed: list[set[int]] = []
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
        monkeypatch.setattr(os, "sched_setaffinity", lambda _, where: placed.append(set(where)))
        monkeypatch.setattr(thread_pool, "current_core", iter([2, 2, 1, 1]).__next__)
        pool, meeting = Pool(1), threading.Barrier(2, timeout=120)
        pool.run(lambda: meeting.wait() and None, 1)  # it starts
        for _ in range(3):
            numbers_in(pool, 3, 1)
        assert placed == [{0, 1}, {0, 2}]

    def test_a_caller_with_one_core(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2})
        monkeypatch.setattr(os, "sched_setaffinity", lambda *_: pytest.fail("there is no other core"))
        thread_state.keep_away(0, 2)

    def test_a_thread_that_has_ended(self) -> None:
        thread_state.keep_away(2**22 + 1, min(os.sched_getaffinity(0)))

    @pytest.mark.parametrize(("value", "expected"), [("0", "True"), ("1", "False")])
    def test_switch(self, value: str, expected: str) -> None:
        code = "from gradcore.backends.numpy import thread_state; print(thread_state.current_core() == -1)"
        environment = {**os.environ, "GRADCORE_PLACE_THREADS": value}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert run.stdout.strip() == expected
