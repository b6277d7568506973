"""Backward inside backward, what is called at its end, errors in the middle, several threads."""

import sys
import threading

import pytest

import gradcore as gc
from gradcore.autograd import Function, Variable
from gradcore.autograd.modes import local, run_in_new_thread

engine = Variable._execution_engine


def leaf(*values):
    return gc.tensor(values or (1.0, 2.0), requires_grad=True)


class Nested(Function):
    """The identity; its backward runs another one of its own, `depth` deep."""

    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if ctx.depth:
            with gc.enable_grad():
                inner = leaf(1.0)
                (Nested.apply(inner, ctx.depth - 1) * 3).sum().backward()
            assert inner.grad.tolist() == [3.0]
        return grad, None


def test_backward_in_a_hook():
    x, other = leaf(), leaf()

    def hook(grad):
        with gc.enable_grad():
            (other * other).sum().backward()
        return grad * 2

    y = x * 3
    y.register_hook(hook)
    y.sum().backward()
    assert (x.grad.tolist(), other.grad.tolist()) == ([6.0, 6.0], [2.0, 4.0])


def test_backward_in_a_hook_may_add_to_the_same_leaf():
    x = leaf()

    def hook(grad):
        with gc.enable_grad():
            (x * 5).sum().backward()

    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


@pytest.mark.parametrize("depth", [0, 3, 1000])
def test_depth(depth):
    limit = sys.getrecursionlimit()
    x = leaf(1.0)
    Nested.apply(x, depth).sum().backward()
    assert (x.grad.tolist(), sys.getrecursionlimit()) == ([1.0], limit)
    assert threading.active_count() == 1 or not any(t.name == "backward" for t in threading.enumerate())


def test_what_runs_in_another_thread_has_the_modes_of_this_one():
    seen = {}

    def look():
        seen.update(grad=gc.is_grad_enabled(), anomaly=gc.is_anomaly_enabled(), thread=threading.current_thread())
        raise KeyError("passes")

    with (
        gc.no_grad(),
        gc.autograd.set_detect_anomaly(True),
        pytest.raises(KeyError, match="passes"),
    ):
        run_in_new_thread(look)
    assert (seen["grad"], seen["anomaly"]) == (False, True)
    assert seen["thread"] is not threading.current_thread()
    assert gc.is_grad_enabled()


def test_callbacks_run_at_the_end_of_their_backward():
    log = []
    x = leaf()

    def hook(grad):
        engine.queue_callback(lambda: log.append(("outer", x.grad.tolist())))
        with gc.enable_grad():
            z = leaf()
            z.register_hook(lambda grad: engine.queue_callback(lambda: log.append("inner")))
            z.sum().backward()
        log.append("hook ends")

    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    assert log == ["inner", "hook ends", ("outer", [2.0, 2.0])]


def test_callbacks_may_ask_for_callbacks():
    log = []

    def first():
        log.append(1)
        engine.queue_callback(lambda: log.append(2))

    x = leaf()
    x.register_hook(lambda grad: engine.queue_callback(first))
    x.sum().backward()
    assert log == [1, 2]
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
        engine.queue_callback(first)


def test_an_error_leaves_everything_usable():
    x = leaf()
    calls = []

    def fails_once(grad):
        calls.append(grad)
        if len(calls) == 1:
            raise ValueError("once")

    y = x * 2
    y.register_hook(fails_once)
    total = y.sum()
    with pytest.raises(ValueError, match="once"):
        total.backward()
    assert (x.grad, gc.is_grad_enabled(), local_task()) == (None, True, None)
    total.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_an_error_in_an_inner_backward_passes_through_the_outer():
    x = leaf()

    def hook(grad):
        gc.ones(2).sum().backward()

    y = x * 2
    y.register_hook(hook)
    with pytest.raises(RuntimeError, match="does not require grad"):
        y.sum().backward()
    assert local_task() is None


def local_task():
    from gradcore.autograd.modes import local

    return local.state.task


def test_threads_share_graphs_and_leaves():
    x = leaf(1.0, 2.0, 3.0)
    shared = (x * x).exp().log()  # backward of this part runs in every thread
    errors = []

    def work(factor):
        try:
            for _ in range(50):
                (shared * factor).sum().backward(retain_graph=True)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert gc.allclose(x.grad, 2 * x.detach() * 50 * 10, rtol=1e-4)


def test_multithreading_can_be_asked_for_and_changes_nothing():
    assert gc.autograd.is_multithreading_enabled()
    with gc.autograd.set_multithreading_enabled(False):
        assert not gc.autograd.is_multithreading_enabled()
        x = leaf()
        x.sum().backward()
    assert gc.autograd.is_multithreading_enabled()

    @gc.autograd.set_multithreading_enabled(False)
    def inside():
        return gc.autograd.is_multithreading_enabled()

    assert (inside(), gc.autograd.is_multithreading_enabled()) == (False, True)


# -- what hooks switch on or off -------------------------------------------------------------------------------------


def test_modes_that_a_hook_leaves_on_end_with_its_node():
    x, seen = leaf(), []
    y = x * 2
    y.register_hook(lambda grad: gc.set_grad_enabled(True) and None)
    x.register_hook(lambda grad: seen.append((gc.is_grad_enabled(), grad.requires_grad)))
    (y * 3).sum().backward()
    assert (seen, gc.is_grad_enabled()) == ([(False, False)], True)


def test_hooks_on_saved_tensors_that_backward_enters_or_leaves_are_as_before_at_its_end():
    def unpack(t):
        outer.__exit__(None, None, None)
        inner.__enter__()
        return t

    outer = gc.autograd.graph.saved_tensors_hooks(lambda t: t, unpack)
    inner = gc.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with outer:
        loss = leaf().sin().sum()
        loss.backward()
        assert local.state.pack_hooks == ((outer.pack_hook, outer.unpack_hook),)
    assert local.state.pack_hooks == ()


def test_two_backwards_at_once_of_what_was_not_retained():
    """Each ends well or with the error for a second backward, and never with one about the engine's own values."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            x = gc.ones(8, requires_grad=True)
            y = x
            for _ in range(20):
                y = (y * 1.01).sin() * y.exp()
            loss, start, outcomes = y.sum(), threading.Barrier(2), []

            def go(loss=loss, start=start, outcomes=outcomes):
                start.wait()
                try:
                    loss.backward()
                except Exception as error:
                    outcomes.append(f"{type(error).__name__}: {error}")

            threads = [threading.Thread(target=go) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert all(
                o.startswith("RuntimeError: Trying to backward through the graph a second time") for o in outcomes
            )
    finally:
        sys.setswitchinterval(before)
