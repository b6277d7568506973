"""Selective checkpointing: what is kept is not computed again; and errors that list what was computed."""

from functools import partial

import pytest

import gradcore as gc
from gradcore.backends.base import Kernels
from gradcore.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
)

#: The kernels whose calls are noted.
NOTED = {"tanh", "exp", "sin"}


@pytest.fixture
def called(monkeypatch):
    """Return a list that collects the names of the kernels that run on the CPU."""
    names = []
    kernels = gc.device("cpu").kernels

    def noted(name):
        return lambda *args, **kwargs: names.append(name) or kernels[name](*args, **kwargs)

    monkeypatch.setattr(
        gc.device("cpu"), "kernels", Kernels(lambda name: noted(name) if name in NOTED else kernels[name])
    )
    return names


def leaf(*values):
    return gc.tensor(values, requires_grad=True)


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ([], ["tanh", "exp", "sin", "exp"]),
        ([gc.tanh], ["exp", "sin", "exp"]),
        ([gc.tanh, gc.exp], ["sin"]),
        ([gc.sin], ["tanh", "exp", "exp"]),
        ([gc.tanh, gc.exp, gc.sin], []),
    ],
)
def test_kept_results_are_not_computed_again(called, kept, expected):
    x = gc.ones(2, requires_grad=True)
    y = checkpoint(
        lambda x: x.tanh().exp().sin().exp(),
        x,
        use_reentrant=False,
        context_fn=partial(create_selective_checkpoint_contexts, kept),
        early_stop=False,
    ).sum()
    called.clear()
    node = y.grad_fn.next_functions[0][0]
    assert node.name() == "ExpBackward0"
    _ = node._saved_result  # asks for it, as backward does
    assert called == expected


def test_policies_are_asked_for_every_call_of_the_function(called):
    asked = []

    def policy(ctx, op, *args, **kwargs):
        assert ctx.op_output.shape == (2,)
        asked.append((op, ctx.is_recompute))
        return CheckpointPolicy.PREFER_SAVE if op is gc.exp else CheckpointPolicy.MUST_RECOMPUTE

    x = leaf(0.1, 0.2)
    contexts = partial(create_selective_checkpoint_contexts, policy)
    y = checkpoint(lambda x: x.exp().sin() * 2, x, use_reentrant=False, context_fn=contexts)
    assert asked == [(gc.exp, False), (gc.sin, False), (gc.mul, False)]
    y.sum().backward()
    assert gc.allclose(x.grad, 2 * gc.cos(x.exp()) * x.exp())


def test_several_results_and_further_uses_of_a_kept_result():
    x = leaf(3.0, 1.0, 2.0)
    contexts = partial(create_selective_checkpoint_contexts, [gc.sort])

    def function(x):
        values, order = (x * x).sort()
        return values * values[order] + values.sum()

    checkpoint(function, x, use_reentrant=False, context_fn=contexts).sum().backward()
    found, x.grad = x.grad, None
    function(x).sum().backward()
    assert gc.allclose(found, x.grad)


def test_a_list_of_something_else_is_refused():
    with pytest.raises(ValueError, match="Expected op in `op_list` to be a function but got: 3"):
        create_selective_checkpoint_contexts([3])


def test_another_number_of_calls_is_an_error():
    calls = []

    def function(x):
        calls.append(1)
        return x.exp() if len(calls) == 1 else x.exp().exp()

    contexts = partial(create_selective_checkpoint_contexts, [gc.exp])
    y = checkpoint(function, leaf(0.1), use_reentrant=False, context_fn=contexts, early_stop=False)
    with pytest.raises(RuntimeError, match="invocation index 1 encountered during backward but not found in storage"):
        y.backward()


@pytest.mark.parametrize("everywhere", [False, True])
def test_debug_lists_the_operations_of_both_computations(everywhere):
    calls = []

    def function(x):
        calls.append(1)
        y = x.exp()
        return y.sin() if len(calls) == 1 else y[:1]

    x = leaf(0.1, 0.2)
    with set_checkpoint_debug_enabled(True if everywhere else None):
        y = checkpoint(function, x, use_reentrant=False, debug=not everywhere)
        with pytest.raises(CheckpointError) as caught:
            y.sum().backward()
    text = str(caught.value)
    assert "0. exp(torch.float32[2]) -> torch.float32[2]   " in text
    assert "1. sin(torch.float32[2])" in text
    assert f"{__file__}:{function.__code__.co_firstlineno + 2}:function" in text
    assert "They are the same up to number 1." in text
