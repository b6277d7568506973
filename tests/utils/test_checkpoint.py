"""Checkpointing: the same gradients, computed from less memory."""

import pytest

import gradcore as gc
from gradcore.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *args, **named):
        self.calls += 1
        return self.function(*args, **named)


def deep(x, y=None):
    z = (x * x).exp().tanh()
    return z if y is None else z * y


def leaf(*values):
    return gc.tensor(values, requires_grad=True)


def gradients(program, *inputs):
    program(*inputs).sum().backward()
    found = [t.grad for t in inputs]
    for t in inputs:
        t.grad = None
    return found


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_gradients_are_the_same_and_forward_runs_twice(use_reentrant):
    function, x, y = Counted(deep), leaf(0.1, 0.2), leaf(3.0, 4.0)
    found = gradients(lambda x, y: checkpoint(function, x, y, use_reentrant=use_reentrant), x, y)
    assert function.calls == 2
    for a, b in zip(found, gradients(deep, x, y), strict=True):
        assert gc.allclose(a, b)


def test_less_is_kept():
    kept = []

    def size():
        with gc.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
            return checkpoint(deep, leaf(*[0.1] * 50), use_reentrant=False)

    size()
    assert sum(kept) == 50  # the argument, and nothing of what deep computes


def test_keyword_arguments_retained_graphs_and_second_derivatives():
    function, x = Counted(deep), leaf(0.1, 0.2)
    z = checkpoint(function, x, y=gc.ones(2) * 2, use_reentrant=False)
    z.sum().backward(retain_graph=True)
    z.sum().backward()
    assert function.calls == 3
    found, x.grad = x.grad, None
    assert gc.allclose(found, 2 * gradients(lambda x: deep(x, 2), x)[0])
    (first,) = gc.autograd.grad(checkpoint(deep, x, use_reentrant=False).sum(), x, create_graph=True)
    (second,) = gc.autograd.grad(first.sum(), x)
    (plain,) = gc.autograd.grad(deep(x).sum(), x, create_graph=True)
    assert gc.allclose(second, gc.autograd.grad(plain.sum(), x)[0])


def test_checkpoints_nest():
    inner, x = Counted(deep), leaf(0.1, 0.2)

    def outer(x):
        y = checkpoint(inner, x, use_reentrant=False)
        return checkpoint(inner, y, use_reentrant=False) * x

    (found,) = gradients(lambda x: checkpoint(outer, x, use_reentrant=False), x)
    assert gc.allclose(found, gradients(lambda x: deep(deep(x)) * x, x)[0])


def test_the_second_run_ends_early():
    steps = []

    def function(x):
        y = x.exp()
        steps.append("saved all")
        return y + 1

    x = leaf(0.1)
    checkpoint(function, x, use_reentrant=False).backward()
    assert steps == ["saved all"]
    with set_checkpoint_early_stop(False):
        checkpoint(function, x, use_reentrant=False).backward()
    checkpoint(function, x, use_reentrant=False, early_stop=False).backward()
    assert steps == ["saved all"] * 5


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_the_same_random_numbers_are_drawn(use_reentrant):
    gc.manual_seed(0)
    x = gc.ones(20, requires_grad=True)
    z = checkpoint(lambda x: x * x * gc.rand(20), x, use_reentrant=use_reentrant)
    after = gc.rand(1)
    z.sum().backward()
    assert gc.allclose(x.grad, 2 * z.detach())
    gc.manual_seed(0)
    gc.rand(20)
    assert gc.equal(gc.rand(1), after)


def test_what_is_not_computed_again_in_the_same_way_is_an_error():
    calls = Counted(lambda x: x.exp() if calls.calls > 1 else x.exp() * x)
    with pytest.raises(CheckpointError, match="A different number of tensors was saved"):
        checkpoint(calls, leaf(0.1), use_reentrant=False, early_stop=False).backward()
    shapes = Counted(lambda x: (x[:1] if shapes.calls > 1 else x).exp().sum())
    with pytest.raises(CheckpointError, match=r"different metadata .*\ntensor at position 0:"):
        checkpoint(shapes, leaf(0.1, 0.2), use_reentrant=False).backward()


def test_arguments_must_not_be_overwritten():
    x = leaf(0.1, 0.2)
    y = x * 1
    z = checkpoint(deep, y, use_reentrant=False)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_contexts_around_both_runs():
    entered = []

    class Noting:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            entered.append(self.name)

        def __exit__(self, *exc):
            pass

    z = checkpoint(deep, leaf(0.1), use_reentrant=False, context_fn=lambda: (Noting("first"), Noting("second")))
    assert entered == ["first"]
    z.backward()
    assert entered == ["first", "second"]


def test_without_recording_it_is_a_call():
    with gc.no_grad():
        assert not checkpoint(deep, leaf(0.1), use_reentrant=False).requires_grad


def test_limits_of_the_reentrant_kind():
    x = leaf(0.1)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        assert checkpoint(deep, x).grad_fn.name() == "CheckpointFunctionBackward"
    with pytest.raises(ValueError, match="Unexpected keyword arguments: y"):
        checkpoint(deep, x, y=3, use_reentrant=True)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(deep, x, debug=True, use_reentrant=True)
    with pytest.raises(RuntimeError, match=r"incompatible with .grad\(\)"):
        gc.autograd.grad(checkpoint(deep, x, use_reentrant=True), x)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        assert not checkpoint(deep, gc.ones(1), use_reentrant=True).requires_grad
    y = checkpoint(lambda x: x.detach() * 2, x, use_reentrant=True)
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True"):
        y.backward()


def test_sequences_are_checkpointed_in_segments():
    first, last = Counted(gc.exp), Counted(gc.sum)
    x = leaf(0.1, 0.2)
    program = [first, gc.tanh, gc.exp, last]
    (found,) = gradients(lambda x: checkpoint_sequential(program, 2, x, use_reentrant=False), x)
    assert (first.calls, last.calls) == (2, 1)
    assert gc.allclose(found, gradients(lambda x: x.exp().tanh().exp(), x)[0])
