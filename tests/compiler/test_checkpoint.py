"""`checkpoint` in compiled functions: the program calls the function again in backward, as eager execution does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import gradcore as gc
from gradcore import nn
from gradcore.backends.random.recording import RepeatedState
from gradcore.tensor.random import generator
from gradcore.utils.checkpoint import CheckpointPolicy, checkpoint, checkpoint_sequential, set_checkpoint_early_stop
from gradcore.utils.checkpoint import create_selective_checkpoint_contexts as selective
from tests.compiler.conftest import has_compiler

call = functools.partial(checkpoint, use_reentrant=False)
contexts = functools.partial(selective, lambda ctx, op, *args, **named: CheckpointPolicy.PREFER_RECOMPUTE)


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 4), nn.LayerNorm(4), nn.Linear(4, 3))


def layers_with_statistics() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))


def write_afterwards(model: nn.Module, x: gc.Tensor) -> gc.Tensor:
    """Write to the weights between the forward and the repetition, which eager execution does not notice either."""
    y = call(model, x * 1)
    with gc.no_grad():
        for weight in model.parameters():
            weight.mul_(1.25)
    return y.sin().sum()


#: Functions of a model and a tensor, and whether they become programs; a model with statistics never does.
CALLS: dict[str, tuple[Callable[[Any, gc.Tensor], gc.Tensor], bool]] = {
    "model": (lambda m, x: call(m, x).sin().sum(), True),
    "by name": (lambda m, x: call(lambda a, *, b: m(a) * b[:, :3], x, b=x).sum(), True),
    "pair": (lambda m, x: sum(t.sin().sum() for t in call(lambda v: (m(v), v * 2), x)), True),  # type: ignore[misc]
    "twice": (lambda m, x: (call(m, x) * call(m, x * 2)).sum(), True),
    "whole": (lambda m, x: call(m, x, early_stop=False).sin().sum(), True),
    "debugged": (lambda m, x: call(m, x, debug=True).sin().sum(), True),
    "sequential": (lambda m, x: checkpoint_sequential(m, 2, x, use_reentrant=False).sin().sum(), True),
    "own memory": (lambda m, x: call(lambda v: m((v * 1).mul_(2)), x).mul_(2).sin().sum(), True),
    "detached": (lambda m, x: call(m, x.detach()).sin().sum() + x.sum(), True),
    "second order": (
        lambda m, x: gc.autograd.grad(call(m, x).sin().sum(), x, create_graph=True)[0].square().sum(),
        True,
    ),
    "written afterwards": (write_afterwards, True),
    "nested": (lambda m, x: call(lambda v: call(m, v * 2).sin(), x).sum(), False),
    "other numbers": (lambda m, x: call(m, x, preserve_rng_state=False).sin().sum(), False),
    "contexts": (lambda m, x: call(m, x, context_fn=contexts).sin().sum(), False),
    "reentrant": (lambda m, x: checkpoint(m, x, use_reentrant=True).sin().sum(), False),
}


def train(name: str, make: Callable[[], nn.Sequential], whole_step: bool, **options: Any) -> tuple[list[Any], Any]:
    """Return losses, gradients, weights and statistics of six steps, and the compiled function, if there is one."""
    gc.manual_seed(3)
    function, model = CALLS[name][0], make()
    optimizer = gc.optim.SGD(model.parameters(), lr=0.1)

    def loss_of(x: gc.Tensor) -> gc.Tensor:
        return function(model, x)

    def step(x: gc.Tensor) -> gc.Tensor:
        optimizer.zero_grad()
        loss = function(model, x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run: Any = step if whole_step else loss_of
    run = gc.compile(run, **options) if options else run
    found: list[Any] = []
    for _ in range(6):
        x = gc.randn(6, 4, requires_grad=True)
        loss = run(x)
        if not whole_step:
            loss.backward()
        found += [loss, x.grad, *model.parameters(), *model.buffers(), *(p.grad for p in model.parameters())]
        found = [t if t is None else t.detach().clone() for t in found]
    return found, run


@pytest.mark.filterwarnings("ignore")  # what is refused
@pytest.mark.parametrize("whole_step", [False, True])
@pytest.mark.parametrize("make", [layers, layers_with_statistics])
@pytest.mark.parametrize("name", CALLS)
def test_checkpointed_functions_do_what_they_do_in_eager_execution(
    name: str, make: Callable[[], nn.Sequential], whole_step: bool
) -> None:
    if name == "reentrant" and whole_step:
        pytest.skip("backward inside of backward")
    expected, _ = train(name, make, whole_step)
    found, compiled = train(name, make, whole_step, options={"cpp": False})
    for a, b in zip(expected, found, strict=True):
        gc.testing.assert_close(b, a)
    if not whole_step and make is layers:
        assert bool(compiled._specializations) is CALLS[name][1]
    if not whole_step and make is layers_with_statistics and name != "detached":
        assert not compiled._specializations  # each backward updates the statistics once more


@pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")
@pytest.mark.usefixtures("quick_builds")
def test_programs_in_cpp_repeat_the_random_numbers() -> None:
    expected, _ = train("model", layers, False)
    found, compiled = train("model", layers, False, options={"cpp": "wait"})
    for a, b in zip(expected, found, strict=True):
        gc.testing.assert_close(b, a)
    assert compiled._specializations


@pytest.mark.filterwarnings("ignore")  # what is refused
@pytest.mark.parametrize("whole_step", [False, True])
def test_whether_checkpoints_stop_early_is_a_guard(whole_step: bool) -> None:
    """Repeat a function to its end if early stop is off, so that it updates the statistics again."""

    def statistics(compiled: bool) -> list[gc.Tensor]:
        mean, variance, found = gc.zeros(3), gc.ones(3), []

        def loss_of(x: gc.Tensor) -> gc.Tensor:
            loss = call(lambda v: nn.functional.batch_norm(v, mean, variance, training=True), x).sin().sum()
            if whole_step:
                loss.backward()
            return loss

        function = gc.compile(loss_of, options={"cpp": False}) if compiled else loss_of
        for i, early in enumerate((True, True, True, False, False, True)):
            with set_checkpoint_early_stop(early):
                loss = function(gc.arange(12.0).view(4, 3).pow(i).requires_grad_())
                if not whole_step:
                    loss.backward()
            found += [mean.clone(), variance.clone()]
        return found

    for a, b in zip(statistics(False), statistics(True), strict=True):
        gc.testing.assert_close(b, a)


@pytest.mark.parametrize("whole_step", [False, True])
def test_programs_of_many_sizes_repeat_the_random_numbers(whole_step: bool) -> None:
    def loss_of(x: gc.Tensor, w: gc.Tensor) -> gc.Tensor:
        loss = call(lambda v: nn.functional.dropout(v @ w, 0.4).sin(), x).sum() + gc.rand(1)
        if whole_step:
            loss.backward()
        return loss

    def gradients(function: Any) -> list[gc.Tensor]:
        gc.manual_seed(3)
        found = []
        for size in (3, 4, 5, 6, 7, 9):
            x, w = gc.ones(size, 3), gc.ones(3, 3, requires_grad=True)
            loss = function(x, w)
            if not whole_step:
                loss.backward()
            assert w.grad is not None
            found += [loss.detach(), w.grad, gc.rand(2)]
        return found

    compiled = gc.compile(loss_of, options={"cpp": False})
    for a, b in zip(gradients(loss_of), gradients(compiled), strict=True):
        gc.testing.assert_close(b, a)
    assert any(each.sizes is not None for each in compiled._specializations)


@pytest.mark.filterwarnings("ignore")
def test_numbers_that_are_no_repeated_ones_are_not_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the repeated draws for others, as if the function drew more when it is called again."""
    monkeypatch.setattr(generator, "current_state", functools.partial(RepeatedState, 12345))
    compiled = gc.compile(lambda x: call(nn.functional.dropout, x).sum())
    for _ in range(3):
        compiled(gc.ones(5, requires_grad=True))
    assert compiled._left is not None
    assert "random numbers are repeated that the function has not drawn" in str(compiled._left)


def test_backward_saves_only_the_arguments() -> None:
    """A program keeps the arguments of a checkpointed function for backward, and not what the function computes."""

    def deep(x: gc.Tensor) -> gc.Tensor:
        for _ in range(20):
            x = (x * 1.01).sin()
        return x

    saved = {}
    for name, function in {"plain": deep, "checkpointed": lambda x: call(deep, x)}.items():
        compiled = gc.compile(function, options={"cpp": False})
        for _ in range(4):
            compiled(gc.ones(5, requires_grad=True)).sum().backward()
        (entry,) = compiled._specializations
        saved[name] = len(entry.programs[-1].inputs)
    assert saved["checkpointed"] <= 2 < 20 <= saved["plain"]
