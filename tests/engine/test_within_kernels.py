"""Calls from within a kernel's call: by signal handlers, by finalizers, by what kernels call."""

import itertools
import signal
import sys
import threading

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd.modes import local


def _program():
    """Run fast and general calls, a creation and a write forward and backward, and raise an error if one is wrong."""
    x = gc.ones(3, requires_grad=True)
    y = (x * x + 0.5 * x.double()).sum() + gc.stack([x, x]).mean()
    y.backward()
    assert gc.allclose(x.grad, gc.full((3,), 2.5 + 1 / 3))
    z = gc.zeros(2)
    z[0] = 1
    assert gc.log(z).tolist() == [0.0, -float("inf")]


def test_a_kernel_whose_call_calls_operations():
    class Finalized:
        def __init__(self, done):
            self.done = done

        def __del__(self):
            _program()
            self.done.append(True)

    def kernel(depth, done):
        Finalized(done)
        if depth:
            local.state.run(kernel, depth - 1, done)
        _program()

    done = []
    with np.errstate(all="raise"):
        local.state.run(kernel, 5, done)
        assert np.geterr()["divide"] == "raise"
        _program()
    assert done == [True] * 6


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals need the main thread")
def test_a_signal_handler_may_interrupt_a_kernel():
    """The signal comes between two lines of the program or of gradcore, at places spread over all of them."""
    within, errors = [], []

    def handler(*_):
        before = local.state.enter
        try:
            with gc.enable_grad():  # the interrupted call may be part of a backward
                _program()
        except Exception as error:
            errors.append(error)
        within.append(local.state.enter is not before)

    def count_lines(interrupted=()):
        """Run the program, with a signal before each of these lines; return the number of lines."""
        lines = itertools.count()

        def trace(*_):
            if next(lines) in interrupted:
                signal.raise_signal(signal.SIGINT)
            return trace

        tracer = sys.gettrace()
        sys.settrace(trace)
        try:
            _program()
        finally:
            sys.settrace(tracer)
        return next(lines)

    former = signal.signal(signal.SIGINT, handler)
    try:
        count_lines()  # what is created on first use
        total = count_lines()
        # Some two hundred places, ten of them in a run: those of one run are far from each other.
        places = range(0, total, total // 200)
        for first in range(20):
            count_lines(places[first::20])
    finally:
        signal.signal(signal.SIGINT, former)
    assert not errors
    assert any(within)
    assert not all(within)


def test_a_kernels_own_error_is_raised_once():
    calls = []

    def kernel():
        calls.append(None)
        raise RuntimeError("cannot enter context: the kernel's own words")

    with pytest.raises(RuntimeError, match="own words"):
        local.state.run(kernel)
    assert len(calls) == 1
