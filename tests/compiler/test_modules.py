"""`Module.compile`: a module's calls are compiled in place."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import gradcore as gc
from gradcore import nn
from gradcore.compiler.function import CompiledFunction


class Net(nn.Module):
    """Has an option, dropout and a submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)), nn.Linear(4, 2)

    def forward(self, x: gc.Tensor, *, scale: float = 1.0) -> gc.Tensor:
        return self.last(self.first(x).relu()) * scale


def entries(module: nn.Module) -> int:
    compiled: CompiledFunction = module._compiled_call_impl
    assert compiled._left is None
    return len(compiled._specializations)


def outcomes(model: nn.Module, scale: float = 1.0) -> list[Any]:
    """Results, gradients and random numbers of some calls, in both modes."""
    found = []
    for seed in range(8):
        gc.manual_seed(seed)
        model.train(seed % 2 == 0)
        x = gc.randn(5, 3, requires_grad=True)
        out = model(x, scale=scale)
        out.square().sum().backward()
        found += [out.tolist(), x.grad.tolist(), [p.grad.tolist() for p in model.parameters()]]
        model.zero_grad()
    return found


def test_calls_are_compiled_in_place() -> None:
    gc.manual_seed(0)
    plain = Net()
    model = copy.deepcopy(plain)
    kept = model.compile(fullgraph=True)
    assert kept is None
    assert type(model) is Net
    assert list(model.state_dict()) == list(plain.state_dict())
    assert [name for name, _ in model.named_modules()] == [name for name, _ in plain.named_modules()]
    assert repr(model) == repr(plain)
    assert outcomes(model) == outcomes(plain)
    assert entries(model) == 2
    assert outcomes(model, 2.0) == outcomes(plain, 2.0)
    assert entries(model) == 4
    model.load_state_dict({name: t * 2 for name, t in plain.state_dict().items()})
    plain.load_state_dict(model.state_dict())
    assert outcomes(model) == outcomes(plain)
    assert entries(model) == 4


def test_copies_and_pickles_are_not_compiled() -> None:
    model = Net()
    model.compile()
    outcomes(model)
    for other in (copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model))):
        assert other._compiled_call_impl is None
        assert type(other) is Net
        assert outcomes(other) == outcomes(model)


def test_hooks_are_inside() -> None:
    plain, model = Net(), Net()
    model.load_state_dict(plain.state_dict())
    model.compile()
    outcomes(model)
    for each in (plain, model):
        each.register_forward_hook(lambda module, args, out: out * 3)
        each.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        each.first.register_forward_hook(lambda module, args, out: out - 1)
        each.register_full_backward_hook(lambda module, grads, given: (grads[0] * 2,))
    assert outcomes(model) == outcomes(plain)
    assert entries(model) == 4


def test_submodules_are_compiled_by_themselves_and_within_others() -> None:
    plain, model = Net(), Net()
    model.load_state_dict(plain.state_dict())
    model.first.compile(options={"cpp": False})
    model.last.compile(fullgraph=True)
    assert outcomes(model) == outcomes(plain)
    assert entries(model.first) == entries(model.last) == 2
    whole = gc.compile(model, fullgraph=True)
    assert outcomes(whole) == outcomes(plain)
    model.compile(fullgraph=True)
    assert outcomes(model) == outcomes(plain)
    assert entries(model) == 2
    assert entries(model.first) == 2


def test_settings_are_those_of_compile() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast"):
        model.compile(mode="fast")
    assert model._compiled_call_impl is None
    model.compile(disable=True)
    assert model(gc.ones(1, 2)).shape == (1, 2)

    class Reading(nn.Module):
        def forward(self, x: gc.Tensor) -> gc.Tensor:
            return x * x.tolist()[0]

    reading = Reading()
    reading.compile()
    with pytest.warns(UserWarning, match=r"compile: .*Reading \(.*test_modules.py:\d+\) runs as it is: elements"):
        assert [reading(gc.full((1,), 2.0)).item() for _ in range(3)] == [4.0] * 3


def test_stances() -> None:
    compiled, stance = gc.compile(lambda x: x * 2), gc.compiler.set_stance
    for _ in range(3):
        compiled(gc.ones(2))
    with stance("fail_on_recompile"):
        assert gc.equal(compiled(gc.ones(2)), gc.full((2,), 2.0))
        with pytest.raises(RuntimeError, match=r"Detected recompile .*<lambda> \(.*test_modules.py:\d+\)"):
            compiled(gc.ones(2, 2))
        with stance("eager_on_recompile"):
            assert gc.equal(compiled(gc.ones(2, 2)), gc.full((2, 2), 2.0))
        with pytest.raises(RuntimeError, match="Detected recompile"):
            compiled(gc.ones(2, 2))
    assert len(compiled._specializations) == 1
    entry = compiled._specializations[0]

    @stance("force_eager")
    def run() -> int:
        compiled._specializations = []
        for _ in range(3):
            compiled(gc.ones(2))
        return len(compiled._specializations)

    assert run() == 0
    compiled._specializations = [entry]
    stance("force_eager")
    gc.compiler.reset()
    compiled(gc.ones(2))
    assert compiled._specializations == [entry]  # not looked at
    stance("default")
    for _ in range(3):
        compiled(gc.ones(2))
    assert len(compiled._specializations) == 1
    assert compiled._specializations[0] is not entry
    for wrong in ({"stance": "eager"}, {"stance": "force_eager", "force_backend": "inductor"}):
        with pytest.raises(RuntimeError, match="stance"):
            stance(**wrong)
