"""Training steps on CUDA as one graph: the step of the optimiser is in it, and takes its numbers from memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import gradcore as gc
from gradcore import nn
from gradcore.backends import registry
from gradcore.compiler.function import CompiledFunction
from gradcore.optim import lr_scheduler
from tests.compiler.test_programs import equal

pytestmark = pytest.mark.cuda
if registry.unavailable("cuda"):
    pytest.skip(f"no CUDA device: {registry.unavailable('cuda')}", allow_module_level=True)
optim = gc.optim
MAKERS: dict[str, Callable[..., Any]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "sgd with all": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01, maximize=True),
    "adam": lambda p: optim.Adam(p, lr=0.01, weight_decay=0.1, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "adamw, fused": lambda p: optim.AdamW(p, lr=0.01, fused=True),
    "adam, capturable": lambda p: optim.Adam(p, lr=gc.tensor(0.01, device="cuda"), capturable=True),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.05, lr_decay=0.1),
    "nadam": lambda p: optim.NAdam(p),
    "radam": lambda p: optim.RAdam(p),
    "adamax": lambda p: optim.Adamax(p),
    "rprop": lambda p: optim.Rprop(p),
    "asgd": lambda p: optim.ASGD(p),
    "adadelta": lambda p: optim.Adadelta(p),
}


class Layers(nn.Module):
    """Without products of matrices: inside of a graph these are those of another kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(gc.randn(5, 4)), nn.Parameter(gc.randn(4))
        self.unused, self.frozen = nn.Parameter(gc.randn(3)), nn.Parameter(gc.randn(4), requires_grad=False)

    def forward(self, x: gc.Tensor) -> gc.Tensor:
        return ((x * self.a).tanh() + self.b * self.frozen).sum(0).sigmoid()


class Training:
    """A model, its optimiser, and a step: eager, or compiled."""

    def __init__(self, make: Callable[..., Any], compiles: bool, groups: bool = False, schedule: Any = None) -> None:
        gc.manual_seed(0)
        self.model = Layers().to("cuda")
        given = [{"params": [p]} for p in self.model.parameters()] if groups else self.model.parameters()
        self.optimizer = make(given)
        self.scheduler = schedule and schedule(self.optimizer)
        self.step = self.taken
        if compiles:
            self.step = CompiledFunction(self.taken, fullgraph=True)

    def taken(self, x: gc.Tensor) -> gc.Tensor:
        self.optimizer.zero_grad()
        loss = (self.model(x) - 0.3).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()

    def state(self) -> Any:
        """All that a step changes."""
        states = [self.optimizer.state.get(p, {}) for p in self.model.parameters()]
        grads = [gc.zeros(()) if p.grad is None else p.grad for p in self.model.parameters()]
        values = [[state[name] for name in sorted(state)] for state in states]
        return [*self.model.parameters()], grads, values

    def graphs(self) -> list[str]:
        return [run.state for entry in self.step._specializations for run in entry.functions]  # type: ignore[attr-defined]


def agree(one: Training, other: Training, inputs: list[gc.Tensor]) -> None:
    """Both take the same steps, to the bit, from the same state on."""
    for x in inputs:
        assert equal(one.step(x), other.step(x))
        assert equal(one.state(), other.state())
        if one.scheduler is not None:
            one.scheduler.step()
            other.scheduler.step()
    versions = [[p._version for p in each.model.parameters()] for each in (one, other)]
    assert versions[0] == versions[1]


def inputs(n: int) -> list[gc.Tensor]:
    gc.manual_seed(1)
    return [gc.randn(5, 4, device="cuda") for _ in range(n)]


def pair(make: Callable[..., Any], **settings: Any) -> tuple[Training, Training]:
    return Training(make, True, **settings), Training(make, False, **settings)


@pytest.mark.parametrize("name", MAKERS)
def test_steps_in_graphs_are_eager_ones(name: str) -> None:
    compiled, eager = pair(MAKERS[name], schedule=lambda each: lr_scheduler.StepLR(each, 3))
    agree(compiled, eager, inputs(9))
    assert "captured, " in compiled.graphs()[0]


@pytest.mark.parametrize("name", ["sgd with all", "adamw"])
def test_a_training_step_is_one_launch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = sys.modules.get("cupy_host")
    if rig is None:
        pytest.skip("launches are counted by the rig")
    compiled = Training(MAKERS[name], True, groups=True)
    for x in inputs(8):
        compiled.step(x)
    within: list[int] = []
    plain = gc.cuda.CUDAGraph.replay

    def replay(graph: gc.cuda.CUDAGraph) -> None:
        before = rig.launches()
        plain(graph)
        within.append(rig.launches() - before)

    monkeypatch.setattr(gc.cuda.CUDAGraph, "replay", replay)
    (x,), before = inputs(1), rig.launches()
    compiled.step(x)
    assert rig.launches() - before == sum(within)
    assert len(within) == 1


def test_numbers_that_change() -> None:
    """Other values need no other graph; other flags do, and other kernels."""
    compiled, eager = pair(MAKERS["adamw"], groups=True)
    agree(compiled, eager, inputs(8))
    (run,) = compiled.step._specializations[0].functions  # type: ignore[attr-defined]
    captures = run._captures
    for changed in ({"lr": 0.3}, {"betas": (0.5, 0.6)}, {"eps": 1e-3}, {"weight_decay": 0.2}):
        for each in (compiled, eager):
            each.optimizer.param_groups[0].update(changed)
        agree(compiled, eager, inputs(2))
    assert run._captures == captures
    for changed in ({"weight_decay": 0.0}, {"maximize": True}, {"weight_decay": 0.1}, {"amsgrad": True}):
        for each in (compiled, eager):
            each.optimizer.param_groups[0].update(changed)
        agree(compiled, eager, inputs(4))
    assert captures < run._captures


def test_states_and_parameters_that_move() -> None:
    compiled, eager = pair(MAKERS["adamw"])
    agree(compiled, eager, inputs(5))
    for each in (compiled, eager):
        each.optimizer.load_state_dict(each.optimizer.state_dict())
    agree(compiled, eager, inputs(4))
    for each in (compiled, eager):
        each.model.b.data = each.model.b.data.clone() * 2
    agree(compiled, eager, inputs(4))
    for each in (compiled, eager):
        each.optimizer.state[each.model.a]["step"].fill_(3)
    agree(compiled, eager, inputs(4))
    for each in (compiled, eager):
        each.optimizer.add_param_group({"params": [nn.Parameter(gc.ones(2, device="cuda"))], "lr": 1.0})
    agree(compiled, eager, inputs(5))
    seen: list[Any] = []
    for each in (compiled, eager):
        each.optimizer.register_step_post_hook(lambda *given: seen.append(given))
    for x in inputs(4):
        compiled.step._function(x)  # type: ignore[attr-defined]
        eager.step(x)
    assert equal(compiled.state(), eager.state())
    assert len(seen) == 8


def test_options_of_a_device_that_counts_its_steps() -> None:
    """They are constants of a graph: where they keep changing, the step is outside of it."""
    compiled, eager = pair(MAKERS["adamw, fused"], schedule=lambda each: lr_scheduler.ExponentialLR(each, 0.9))
    agree(compiled, eager, inputs(16))
    assert len(compiled.step._specializations) == 2  # type: ignore[attr-defined]
    assert "captured, " in compiled.graphs()[0]


def test_several_steps_in_one_program() -> None:
    def twice(self: Training, x: gc.Tensor) -> None:
        for _ in range(2):
            self.taken(x)
            self.scheduler.step()

    both = pair(MAKERS["adamw"], schedule=lambda each: lr_scheduler.ExponentialLR(each, 0.9))
    compiled = CompiledFunction(lambda x: twice(both[0], x), fullgraph=True)
    for x in inputs(6):
        compiled(x)
        twice(both[1], x)
        assert equal(both[0].state(), both[1].state())
    states = [run.state for entry in compiled._specializations for run in entry.functions]
    assert states
    assert all("captured, " in state for state in states), states


def test_errors_before_and_in_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, eager = pair(MAKERS["adamw"])
    agree(compiled, eager, inputs(5))
    (run,) = compiled.step._specializations[0].functions  # type: ignore[attr-defined]
    before = compiled.state()[0][0].clone()
    with monkeypatch.context() as changed:  # the function is called instead
        changed.setattr(type(run), "__call__", lambda self, *arrays: 1 / 0)
        agree(compiled, eager, inputs(1))
    assert not equal(compiled.state()[0][0], before)
    agree(compiled, eager, inputs(3))

    def fails(*given: Any) -> None:
        raise MemoryError("of the step")

    with monkeypatch.context() as changed:  # something may have been changed
        changed.setattr(run, "_waiting", False)
        changed.setitem(compiled.model.a.device.kernels, "optimizer_step", fails)
        for each in (compiled, eager):
            with pytest.raises(MemoryError, match="of the step"):
                each.step(inputs(1)[0])
    assert run._waiting
    compiled.step(inputs(1)[0])


def test_memory_of_training_does_not_grow() -> None:
    compiled = Training(MAKERS["adamw"], True, schedule=lambda each: lr_scheduler.ExponentialLR(each, 0.999))
    sizes = []
    for x in inputs(3) * 40:
        compiled.step(x)
        compiled.scheduler.step()
        sizes.append(gc.cuda.memory_allocated())
    assert max(sizes[60:]) <= max(sizes[20:60])
