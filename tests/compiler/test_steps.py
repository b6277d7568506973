"""Whole training steps in one compiled function: they leave behind what eager execution leaves, to the bit."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import gradcore as gc
from gradcore import nn
from gradcore.backends.compiled.building import BuildError, find_compiler
from gradcore.backends.registry import CPU
from gradcore.compiler.autograd.optimizer_steps import PlannedStep
from gradcore.compiler.function import CompiledFunction
from gradcore.compiler.targets import native
from gradcore.compiler.targets.native.segments import NativeProgram
from gradcore.compiler.targets.python import emitter
from gradcore.core import config
from gradcore.optim.elementwise import ElementwiseOptimizer
from tests.compiler.conftest import has_compiler

F = nn.functional
L = gc.optim.lr_scheduler
STEPS = 20


class Net(nn.Module):
    """Something of everything: dropout, running statistics, attention, a recurrent layer."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        if kind == "mlp":
            layers: list[nn.Module] = [nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, 2)]
        elif kind == "cnn":
            layers = [nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 2)]
        elif kind == "transformer":
            layers = [
                nn.Unflatten(1, (2, 2)),
                nn.TransformerEncoderLayer(2, 1, 4, 0.2, batch_first=True),
                nn.Flatten(),
                nn.Linear(4, 2),
            ]
        else:
            layers = [nn.Unflatten(1, (2, 2))]
            self.lstm, self.last = nn.LSTM(2, 3, batch_first=True), nn.Linear(3, 2)
        self.layers = nn.Sequential(*layers)

    def forward(self, x: gc.Tensor) -> gc.Tensor:
        x = self.layers(x)
        return x if self.kind != "lstm" else self.last(self.lstm(x)[0][:, -1])


def state_of(model: nn.Module, optimizer: Any) -> list[Any]:
    """Everything that a step leaves behind."""
    params = list(model.parameters())
    grads = [p.grad for p in params]
    return [
        [t.detach().numpy().tobytes() for t in model.state_dict().values()],
        [t._version for t in (*params, *model.buffers())],
        [None if g is None else (g.numpy().tobytes(), g._version, g.requires_grad) for g in grads],
        repr(optimizer.state_dict()),
        gc.get_rng_state().numpy().tobytes(),
    ]


def outcome(make: Callable[[nn.Module], Any], kind: str, compiles: bool, steps: int = STEPS) -> Any:
    """Return the state after each step: results, parameters, gradients and the optimizer's state."""
    gc.manual_seed(0)
    model = Net(kind)
    made = make(model)
    optimizer, step = made[:2]
    run = CompiledFunction(step, fullgraph=True) if compiles else step
    gc.manual_seed(1)
    found = []
    for _ in range(steps):
        result = run(gc.randn(5, 4), gc.randint(0, 2, (5,)))
        found.append((result.detach().numpy().tobytes(), result.requires_grad, *state_of(model, optimizer), *made[2:]))
    return found, run


def compare(make: Callable[[nn.Module], Any], kind: str = "mlp", most: int = 2, steps: int = STEPS) -> CompiledFunction:
    """Train as it is, and compiled."""
    expected, _ = outcome(make, kind, False, steps)
    found, run = outcome(make, kind, True, steps)
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a == b, f"step {i}"
    assert 1 <= len(run._specializations) <= most, run._left
    compiled: CompiledFunction = run
    return compiled


def loss_of(model: nn.Module, x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
    return F.cross_entropy(model(x), y)


def stepping(optimizer: Callable[[Any], Any], **settings: Any) -> Callable[[nn.Module], Any]:
    """Return a factory of training steps with an optimizer, and optionally clipping and a scheduler."""
    clip, none = settings.get("clip"), settings.get("none", True)
    schedule = settings.get("schedule")

    def make(model: nn.Module) -> Any:
        own = optimizer(model.parameters())
        scheduler = None if schedule is None else schedule(own)

        def step(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
            own.zero_grad(set_to_none=none)
            loss = loss_of(model, x, y)
            loss.backward()
            if clip == "norm":
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            elif clip == "value":
                nn.utils.clip_grad_value_(model.parameters(), 0.01)
            own.step()
            if scheduler is not None:
                scheduler.step()
            return loss

        return own, step

    return make


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    **{
        name: getattr(gc.optim, name)
        for name in gc.optim.__all__
        if isinstance(getattr(gc.optim, name), type) and name not in ("Optimizer", "LBFGS", "Muon", "SparseAdam", "SGD")
    },
    "SGD": lambda params: gc.optim.SGD(params, lr=0.1),
    "momentum": lambda params: gc.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "amsgrad": lambda params: gc.optim.Adam(params, lr=0.1, amsgrad=True),
    "maximize": lambda params: gc.optim.RMSprop(params, lr=0.01, momentum=0.5, centered=True, maximize=True),
    "fused": lambda params: gc.optim.Adam(params, fused=True),
    "rate in a tensor": lambda params: gc.optim.AdamW(params, lr=gc.tensor(0.1)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    compare(stepping(OPTIMIZERS[name]))


def test_muon_and_groups() -> None:
    def two_groups(params: Any) -> gc.optim.Optimizer:
        params = list(params)
        return gc.optim.SGD([{"params": params[:2]}, {"params": params[2:], "lr": 0.01}], lr=0.1)

    compare(stepping(two_groups))
    compare(stepping(lambda params: gc.optim.Muon([p for p in params if p.ndim == 2])))


KINDS = ("cnn", "transformer", "lstm")
SETTINGS: dict[str, dict[str, Any]] = {
    "clip the norm": {"clip": "norm"},
    "clip values": {"clip": "value"},
    "zeros": {"none": False, "clip": "norm"},
    "StepLR": {"schedule": lambda own: L.StepLR(own, 3)},
    "OneCycleLR": {"schedule": lambda own: L.OneCycleLR(own, 0.1, total_steps=30)},
    "LambdaLR": {"schedule": lambda own: L.LambdaLR(own, lambda epoch: 0.9**epoch)},
    "SequentialLR": {
        "schedule": lambda own: L.SequentialLR(own, [L.ConstantLR(own), L.ExponentialLR(own, 0.9)], milestones=[4])
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_models(kind: str) -> None:
    compare(stepping(lambda params: gc.optim.AdamW(params, lr=0.01), clip="norm"), kind)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SETTINGS)
def test_clipping_zeros_and_schedulers(name: str) -> None:
    compare(stepping(lambda params: gc.optim.Adam(params, lr=0.05), **SETTINGS[name]))


def test_plateau_is_given_the_loss() -> None:
    def make(model: nn.Module) -> Any:
        own = gc.optim.SGD(model.parameters(), lr=0.5)
        scheduler = L.ReduceLROnPlateau(own, patience=1)

        def step(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
            own.zero_grad()
            loss = loss_of(model, x, y)
            loss.backward()
            own.step()
            scheduler.step(loss.detach())
            return loss

        return own, step

    compare(make)


def test_a_scaler_leaves_out_the_steps_of_infinite_gradients() -> None:
    def make(model: nn.Module) -> Any:
        own = gc.optim.Adam(model.parameters(), lr=0.1)
        scaler = gc.amp.GradScaler("cpu", init_scale=2.0**126, growth_interval=3)
        scales: list[float] = []

        def step(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
            own.zero_grad()
            loss = loss_of(model, x, y) * 16
            scaler.scale(loss).backward()
            scaler.unscale_(own)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(own)
            scaler.update()
            return loss

        own.register_step_post_hook(lambda *args: scales.append(scaler.get_scale()))
        return own, step, scales

    compare(make)


def test_two_optimizers_take_turns() -> None:
    """What comes between two steps is computed with what the first has left."""

    def make(model: nn.Module) -> Any:
        first = gc.optim.SGD(model.layers[0].parameters(), lr=0.1, momentum=0.5)
        own = gc.optim.Adam(model.layers[4].parameters())

        def step(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
            model.zero_grad()
            noise = gc.randn(5, 4)
            loss_of(model, x + noise, y).backward()
            first.step()
            loss = loss_of(model, x, y) + (model.layers[0].weight ** 2).sum()
            loss.backward()
            own.step()
            first.zero_grad(set_to_none=False)
            return loss + noise.sum()

        return own, step

    compare(make)


def test_a_step_without_gradients_and_the_step_alone() -> None:
    def make(model: nn.Module) -> Any:
        own = gc.optim.Adam(model.parameters())
        update = gc.compile(own.step, fullgraph=True)

        def step(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
            loss = loss_of(model, x, y)
            loss.backward()
            with gc.no_grad():
                own.step()
            own.zero_grad()
            return loss

        for _ in range(4):
            loss_of(model, gc.ones(5, 4), gc.zeros(5, dtype=gc.long)).backward()
            update()
        assert update._specializations
        return own, step

    compare(make)


def test_hooks_and_classes_of_ones_own() -> None:
    class Own(gc.optim.Optimizer):
        def step(self, closure: Any = None) -> None:
            with gc.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p -= group["lr"] * p.grad
                        self.state[p]["steps"] = self.state[p].get("steps", 0) + 1

    class Falling(L.LRScheduler):
        def get_lr(self) -> list[Any]:
            return [0.1 / (1 + self.last_epoch) for _ in self.base_lrs]

    calls: list[str] = []

    def make(model: nn.Module) -> Any:
        own = Own(model.parameters(), {"lr": 0.1})
        scheduler = Falling(own)
        own.register_step_pre_hook(lambda optimizer, args, named: calls.append("before"))

        def clamp(optimizer: Any, args: Any, named: Any) -> None:
            with gc.no_grad():
                for p in model.parameters():
                    p.clamp_(-0.4, 0.4)

        own.register_step_post_hook(clamp)

        def step(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
            own.zero_grad()
            loss = loss_of(model, x, y)
            loss.backward()
            own.step()
            scheduler.step()
            return loss

        return own, step

    compare(make)
    assert len(calls) == 2 * STEPS


#: What a step cannot have inside, with what the warning says.
REFUSED: dict[str, Any] = {
    "options": (lambda own, sched, loss: own.param_groups[0]["lr"], "param_groups of SGD is used"),
    "state": (lambda own, sched, loss: len(own.state), "state of SGD is used"),
    "rates": (lambda own, sched, loss: sched.get_last_lr()[0], "get_last_lr of StepLR is used"),
    "set": (lambda own, sched, loss: setattr(own, "mark", 1), "mark of SGD is set"),
    "closure": (lambda own, sched, loss: own.step(lambda: loss.detach() * 2), "is given a function"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_program_does_not_see_is_no_part_of_it(name: str) -> None:
    read, message = REFUSED[name]

    def make() -> Any:
        w = gc.ones(3, requires_grad=True)
        own = gc.optim.SGD([w], lr=0.1)
        scheduler = L.StepLR(own, 2)

        def step(x: gc.Tensor) -> Any:
            own.zero_grad()
            loss = (w * x).sum()
            loss.backward()
            own.step()
            scheduler.step()
            return loss.detach(), read(own, scheduler, loss)

        return w, step

    w, step = make()
    expected = [(step(gc.full((3,), float(i))), w.tolist()) for i in range(6)]
    w, step = make()
    compiled = gc.compile(step)
    found = [(compiled(gc.full((3,), float(i))), w.tolist()) for i in range(6)]
    assert repr(found) == repr(expected)
    assert message in compiled.explain(gc.ones(3)).splitlines()[0]
    refused = gc.compile(make()[1], fullgraph=True)
    refused(gc.ones(3))
    with pytest.raises(RuntimeError, match=message):
        refused(gc.ones(3))


def test_methods_that_were_bound_before_are_seen() -> None:
    w = gc.ones(3, requires_grad=True)
    own = gc.optim.SGD([w], lr=1.0)
    scheduler = L.ExponentialLR(own, 0.5)
    advance = scheduler.step

    def step(x: gc.Tensor) -> gc.Tensor:
        own.zero_grad()
        (w * x).sum().backward()
        own.step()
        advance()
        return x * 2

    compiled = gc.compile(step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(5):
            compiled(gc.ones(3))
    assert own.param_groups[0]["lr"] == 0.5**5


def test_hooks_may_change_what_comes_after_them() -> None:
    w, scale = gc.ones(1, requires_grad=True), [1.0]
    own = gc.optim.SGD([w], lr=0.0)
    own.register_step_post_hook(lambda *args: scale.__setitem__(0, scale[0] + (scale[0] > 2)))

    def step(x: gc.Tensor) -> Any:
        (w * x).sum().backward()
        own.step()
        return x * scale[0]

    compiled = gc.compile(step)
    assert [compiled(gc.ones(1)).item() for _ in range(6)] == [1.0] * 6
    scale[0] = 3.0
    assert [compiled(gc.ones(1)).item() for _ in range(3)] == [4.0, 5.0, 6.0]
    assert "after which something is computed" in compiled.explain(gc.ones(1)).splitlines()[0]


def test_parameters_of_the_optimizer_are_guarded() -> None:
    w, v = gc.ones(2, requires_grad=True), gc.ones(2, requires_grad=True)
    own = gc.optim.SGD([w], lr=0.5)

    def step(x: gc.Tensor) -> gc.Tensor:
        own.zero_grad()
        loss = (w * x + v * x).sum()
        loss.backward()
        own.step()
        return loss

    compiled = CompiledFunction(step, fullgraph=True)
    for _ in range(4):
        v.grad = None
        compiled(gc.ones(2))
    own.add_param_group({"params": [v]})
    before = v.tolist()
    for _ in range(4):
        compiled(gc.ones(2))
    assert v.tolist() == [value - 4 * 0.5 for value in before]
    assert v.grad.tolist() == [1.0, 1.0]


#: What may be done to the parameters ``p`` and ``q`` of an optimizer between steps.
CHANGES_OF_PARAMETERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "gradient": lambda own, p, q: setattr(p, "grad", gc.full((3,), 7.0)),
    "no gradient": lambda own, p, q: setattr(p, "grad", None),
    "no requires_grad": lambda own, p, q: p.requires_grad_(False),
    "data": lambda own, p, q: setattr(p, "data", gc.full((3,), 5.0)),
    "strides": lambda own, p, q: setattr(p, "data", gc.full((3, 2), 5.0)[:, 0]),
    "shared data": lambda own, p, q: setattr(p, "data", q.data),
    "hook": lambda own, p, q: p.register_post_accumulate_grad_hook(lambda _: None),
    "group": lambda own, p, q: own.add_param_group({"params": [q], "lr": 0.3}),
    "other parameter": lambda own, p, q: own.param_groups[0]["params"].__setitem__(0, q),
    "fewer parameters": lambda own, p, q: own.param_groups[0]["params"].pop(),
    "no group": lambda own, p, q: own.param_groups.clear(),
}


def _step_of(name: str, shown: bool, compiles: bool) -> list[Any]:
    """Return the values of all parameters after each call of a compiled step."""
    values = [gc.nn.Parameter(gc.full((3,), i + 1.0)) for i in range(4)]
    q = values.pop()
    for i, p in enumerate([*values, q]):
        p.grad = gc.full((3,), i + 0.5)
    own = gc.optim.SGD(values, lr=0.5, momentum=0.9)

    def step(x: gc.Tensor) -> gc.Tensor:
        own.step()
        return x * 2

    def step_and_show(x: gc.Tensor) -> gc.Tensor:
        own.step()
        return values[0].detach() * 2

    run: Any = step_and_show if shown else step
    run, found = CompiledFunction(run, fullgraph=True) if compiles else run, []
    for i in range(9):
        if i == 5:
            CHANGES_OF_PARAMETERS[name](own, values[0], q)
        found.append([run(gc.ones(2)).tolist(), *(p.tolist() for p in (*values, q))])
    assert not compiles or run._specializations, run._left
    return found


@pytest.mark.parametrize(
    ("name", "shown"),
    [(name, shown) for name in CHANGES_OF_PARAMETERS for shown in (False, True) if name != "hook" or not shown],
)
def test_changes_of_parameters_that_only_a_step_reads(name: str, shown: bool) -> None:
    assert _step_of(name, shown, True) == _step_of(name, shown, False)


@pytest.mark.parametrize("name", ["gradient", "no gradient", "group", "other parameter", "fewer parameters"])
@pytest.mark.parametrize("none", [False, True])
def test_changes_of_parameters_whose_gradients_are_reset(name: str, none: bool) -> None:
    """`zero_grad` is captured, and so its program depends on the parameters and their gradients."""
    outcomes = []
    for compiles in (False, True):
        p, q = (gc.nn.Parameter(gc.full((3,), i + 1.0)) for i in range(2))
        own = gc.optim.SGD([p], lr=0.5)

        def step(own: Any = own) -> None:
            own.step()
            own.zero_grad(set_to_none=none)

        run: Any = CompiledFunction(step) if compiles else step
        for i in range(9):
            if i == 5:
                q.grad = gc.ones(3)
                CHANGES_OF_PARAMETERS[name](own, p, q)
            run()
        outcomes.append([(each.tolist(), each.grad is None or each.grad.tolist()) for each in (p, q)])
    assert outcomes[0] == outcomes[1]


def test_guards_of_a_step_alone_do_not_grow_with_its_parameters() -> None:
    sizes = []
    for count in (2, 50):
        params = [gc.nn.Parameter(gc.ones(3)) for _ in range(count)]
        for p in params:
            p.grad = gc.ones(3)
        own = gc.optim.SGD(params, lr=0.5)

        def step(t0: Any = own) -> None:  # a name that guards use, too
            t0.step()

        run = CompiledFunction(step, cpp="0")
        for _ in range(3):
            run()
        sizes.append(len(run._specializations[0].run.__code__.co_code))
    assert sizes[0] == sizes[1]


def test_a_closure_compiled_by_itself() -> None:
    """LBFGS calls the closure as often as it likes."""
    outcomes = []
    for compiles in (False, True):
        x = gc.tensor([-1.0, 2.0], requires_grad=True)
        own = gc.optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=5)

        def closure(x: gc.Tensor = x, own: Any = own) -> gc.Tensor:
            own.zero_grad()
            loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
            loss.backward()
            return loss

        evaluate = CompiledFunction(closure, fullgraph=True) if compiles else closure
        outcomes.append([own.step(evaluate).item() for _ in range(3)] + x.tolist())
        assert not compiles or evaluate._specializations
    assert outcomes[0] == outcomes[1]


def test_a_result_whose_graph_is_freed_says_so() -> None:
    w = gc.ones(3, requires_grad=True)

    def step(x: gc.Tensor) -> Any:
        w.grad = None
        loss = (w * w * x).sum()
        loss.backward()
        return loss, w.grad, (w * x).sum()

    compiled = CompiledFunction(step, fullgraph=True)
    for _ in range(4):
        loss, grad, other = compiled(gc.ones(3))
        assert grad is w.grad
        assert loss.requires_grad
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        other.backward()
        assert w.grad.tolist() == [3.0, 3.0, 3.0]
    assert compiled._specializations


def test_backward_inside_reaches_what_comes_before() -> None:
    w = gc.ones(3, requires_grad=True)
    compiled = gc.compile(lambda x: x.sum().backward())
    grads = []

    def call() -> None:
        compiled(w * 2)
        grads.append(w.grad.tolist())

    with pytest.warns(UserWarning, match="has a history, through which"):
        [call() for _ in range(4)]
    assert grads == [[2.0 * i] * 3 for i in range(1, 5)]


def test_updates_that_are_written_out() -> None:
    """Plain parameters, velocities and a sum of losses that are written in place, as in the digits example."""
    outcomes = []
    for compiles in (False, True):
        gc.manual_seed(0)
        parameters = [gc.randn(8, 6), gc.zeros(6), gc.randn(6, 3), gc.zeros(3)]
        w1, b1, w2, b2 = (p.requires_grad_() for p in parameters)
        velocities, total = [gc.zeros_like(p) for p in parameters], gc.zeros(())

        def step(x: gc.Tensor, y: gc.Tensor, own: Any = (w1, b1, w2, b2), held: Any = (velocities, total)) -> None:
            x = x + 0.2 * gc.randn(len(x), 8)
            loss = F.cross_entropy(gc.relu(x @ own[0] + own[1]) @ own[2] + own[3], y, reduction="sum")
            (loss / len(x)).backward()
            with gc.no_grad():
                held[1].add_(loss)
                for p, velocity in zip(own, held[0], strict=True):
                    velocity.mul_(0.9).add_(p.grad)
                    p -= 0.05 * velocity
                    p.grad = None

        run: Any = CompiledFunction(step, fullgraph=True) if compiles else step
        for _ in range(STEPS):
            run(gc.randn(5, 8), gc.randint(0, 3, (5,)))
        kept = [*parameters, *velocities, total]
        outcomes.append([(t.detach().numpy().tobytes(), t._version) for t in kept])
        assert not compiles or len(run._specializations) == 1
    assert outcomes[0] == outcomes[1]


# -- steps of optimisers as parts of programs -------------------------------------------------------------------------


@pytest.fixture
def by_formulas(monkeypatch: pytest.MonkeyPatch) -> list[PlannedStep]:
    """Keep optimizer steps in programs and lower native calls to NumPy's, and collect the steps that run."""
    taken: list[PlannedStep] = []
    take = PlannedStep.take

    def runnable(program: Any, cpp: Any = None) -> Any:
        return emitter.function_of(program.native or program)

    def noted(self: PlannedStep, *arrays: Any) -> None:
        taken.append(self)
        take(self, *arrays)

    monkeypatch.setattr(native, "runnable", runnable)
    monkeypatch.setattr(config, "COMPILE_CPP", "background")
    monkeypatch.setattr(PlannedStep, "take", noted)
    return taken


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_formulas_of_optimizers(name: str, by_formulas: list[PlannedStep]) -> None:
    compare(stepping(OPTIMIZERS[name]), steps=8)
    assert len(by_formulas) == {"Adafactor": 0, "RAdam": 3}.get(name, 6)


class _Fault(Exception):
    pass


def _states_after_a_fault(name: str, compiles: bool, fail: Callable[[Any], None], mend: Callable[[], None]) -> Any:
    """Return parameters, versions and states of each step, of which the fourth fails."""
    gc.manual_seed(0)
    params = [gc.nn.Parameter(gc.randn(3, dtype=dtype)) for dtype in (gc.float32, gc.float64)]
    own, found = OPTIMIZERS[name](params), []

    def step() -> None:
        own.zero_grad()
        for p in params:
            p.sin().sum().backward()
        own.step()

    run: Any = CompiledFunction(step, fullgraph=True, verify=0) if compiles else step
    for i in range(7):
        if i == 3:
            fail(run)
        with pytest.raises(_Fault) if i == 3 else contextlib.nullcontext():
            run()
        mend()
        states = [{key: gc.as_tensor(value).tolist() for key, value in own.state[p].items()} for p in params]
        found.append([*((p.tolist(), p._version) for p in params), states])
    assert not compiles or len(run._specializations) == 1
    return found


ELEMENTWISE = [name for name in OPTIMIZERS if isinstance(OPTIMIZERS[name]([gc.ones(2)]), ElementwiseOptimizer)]


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_step_that_fails_counts_only_batches_that_were_updated(
    name: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels, step, calls = CPU.kernels, CPU.kernels["optimizer_step"], list[Any]()

    def failing(*args: Any) -> None:
        calls.append(args)
        if len(calls) == batch + 1:
            raise _Fault
        step(*args)

    def fail(run: Any) -> None:
        calls.clear()
        monkeypatch.setitem(kernels, "optimizer_step", failing)

    def mend() -> None:
        monkeypatch.setitem(kernels, "optimizer_step", step)

    monkeypatch.setattr(native, "runnable", lambda program, cpp=None: emitter.function_of(program))
    monkeypatch.setattr(config, "COMPILE_CPP", "background")
    eager, compiled = (_states_after_a_fault(name, compiles, fail, mend) for compiles in (False, True))
    assert eager == compiled
    assert calls
    (*_, before), (*_, after) = eager[2:4]
    for i in range(2):
        assert (after[i].get("step") == before[i].get("step")) == ("step" not in before[i] or i >= batch)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_native_step_that_fails_is_not_counted(name: str, by_formulas: list[PlannedStep]) -> None:
    """The program updates all batches in one call, which is made to fail before it changes anything."""
    runs = {}

    def raise_fault(*args: Any) -> None:
        raise _Fault

    def fail(run: Any) -> None:
        if run.__class__ is CompiledFunction:
            step = by_formulas[-1]
            runs[step], step.run = step.run, raise_fault

    def mend() -> None:
        for step, run in runs.items():
            step.run = run

    found = _states_after_a_fault(name, True, fail, mend)
    assert runs
    assert found[2][2] == found[3][2]


@pytest.mark.parametrize("name", [name for name in SETTINGS if name.endswith("LR")])
def test_rates_change_without_another_program(name: str, by_formulas: list[PlannedStep]) -> None:
    compare(stepping(lambda params: gc.optim.SGD(params, lr=0.05, momentum=0.9), **SETTINGS[name]), most=1)
    assert len(by_formulas) == STEPS - 2


def test_a_scaler_and_groups_by_formulas(by_formulas: list[PlannedStep]) -> None:
    test_muon_and_groups()
    test_a_scaler_leaves_out_the_steps_of_infinite_gradients()
    test_two_optimizers_take_turns()


@pytest.mark.parametrize("has_kernels", [False, True])
@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_step_before_which_nothing_is_computed_is_the_optimizers_own(
    name: str, has_kernels: bool, by_formulas: list[PlannedStep], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Call the optimizer's own step with compiled kernels: it is as fast as C++, and looks at its parameters itself."""
    if has_kernels:
        monkeypatch.setattr(CPU.backend, "library", None, raising=False)
    else:
        monkeypatch.delattr(CPU.backend, "library", raising=False)
    outcomes = []
    for compiles in (False, True):
        params = [nn.Parameter(gc.arange(3.0) + i) for i in range(5)]
        own = getattr(gc.optim, name)(params, lr=0.1)
        for p in params:
            p.grad = p.detach() * 2

        def step(own: Any = own, params: list[Any] = params) -> list[Any]:
            own.step()
            return params

        run = CompiledFunction(step, fullgraph=True) if compiles else step
        for _ in range(STEPS):
            results = run()
        assert all(a is b for a, b in zip(results, params, strict=True))
        params[0].data = gc.zeros(6)[::2]  # The step itself sees that the memory is another.
        run()
        outcomes.append([p.tolist() for p in params])
        if compiles:
            texts = run._specializations[0].guards.checked_texts()
            assert any("shape" in text for text in texts) is bool(by_formulas) is not has_kernels
            assert len(run._specializations) == 2 - has_kernels
    assert outcomes[0] == outcomes[1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_a_step_is_one_loop_for_each_shape(name: str) -> None:
    """Arrays are read and written once, in loops of their own, however many parameters there are."""
    params = [gc.ones(*shape, requires_grad=True) for shape in [(70, 50)] * 40 + [(50,)] * 40]
    groups = [{"params": params[:60], "lr": 0.3}, {"params": params[60:], "lr": 0.2}]
    optimizer = getattr(gc.optim, name)(groups, lr=0.1, weight_decay=0.1)
    for p in params:
        p.grad = gc.ones_like(p)
    optimizer.step()
    program = PlannedStep(optimizer, "0").program.native
    assert program is not None
    made = NativeProgram(program, blas=True)
    assert made.refused == []
    assert [part.plan.scratch for part in made.parts] == [0]
    assert len(made.loops) == 2


#: What may be done to an optimiser between steps, and whether its step is still that of the program then.
CHANGES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "rate": (lambda own: own.param_groups[0].update(lr=0.3), True),
    "betas": (lambda own: own.param_groups[0].update(betas=(0.5, 0.7)), True),
    "decay": (lambda own: own.param_groups[0].update(weight_decay=0.1), False),
    "maximize": (lambda own: own.param_groups[0].update(maximize=True), False),
    "amsgrad": (lambda own: own.param_groups[0].update(amsgrad=True), False),
    "state dict": (lambda own: own.load_state_dict(copy.deepcopy(own.state_dict())), True),
    "state": (lambda own: own.state.clear(), True),
    "one state": (lambda own: own.state[own.param_groups[0]["params"][0]].clear(), False),
    "count": (lambda own: own.state[own.param_groups[0]["params"][0]]["step"].fill_(7), False),
    "moment": (lambda own: own.state[own.param_groups[0]["params"][1]].update(exp_avg=gc.ones(6)), False),
    "found_inf": (lambda own: setattr(own, "found_inf", gc.ones(1)), False),
    "hook": (lambda own: own.register_step_pre_hook(lambda *args: None), False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_in_an_optimizer(name: str, by_formulas: list[PlannedStep]) -> None:
    change, stays = CHANGES[name]
    outcomes = []
    for compiles in (False, True):
        gc.manual_seed(0)
        model = Net("mlp")
        own, step = stepping(lambda params: gc.optim.Adam(params, lr=0.01))(model)
        run = CompiledFunction(step) if compiles else step
        found = []
        for i in range(10):
            if i == 5:
                change(own)
                by_formulas.clear()
            run(gc.randn(5, 4), gc.randint(0, 2, (5,)))
            found.append(state_of(model, own))
        outcomes.append(found)
    for i, (a, b) in enumerate(zip(*outcomes, strict=True)):
        assert a == b, f"step {i}"
    assert len(by_formulas) == 5 * stays


@pytest.mark.slow
def test_steps_in_cpp() -> None:
    """Within rounding; other tests compare the formulas to the bit."""
    try:
        find_compiler()
    except BuildError:
        pytest.skip("there is no C++ compiler")
    outcomes = []
    for compiles in (False, True):
        gc.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
        own = gc.optim.AdamW(model.parameters(), lr=0.01, amsgrad=True)
        scheduler = L.StepLR(own, 3)

        def step(x: gc.Tensor, model: Any = model, own: Any = own, scheduler: Any = scheduler) -> gc.Tensor:
            own.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            own.step()
            scheduler.step()
            return loss

        run = CompiledFunction(step, fullgraph=True, cpp="wait") if compiles else step
        for _ in range(STEPS):
            loss = run(gc.randn(5, 4))
        outcomes.append([loss, *model.parameters(), *[t for s in own.state.values() for t in s.values()]])
        if compiles:
            (entry,) = run._specializations
            assert "functions" in entry.functions[entry.names.index("step of AdamW")].state
    for a, b in zip(*outcomes, strict=True):
        assert gc.allclose(a, b, rtol=1e-4, atol=1e-6)


def test_each_value_of_a_formula_has_a_number(by_formulas: list[PlannedStep]) -> None:
    """Also where several groups, and parameters of two dtypes, have batches of their own."""
    params = [gc.ones(3, requires_grad=True), gc.ones(2, 2, dtype=gc.float64, requires_grad=True)]
    own = gc.optim.Adam([{"params": [p], "lr": 0.1 * (1 + i), "weight_decay": 0.1} for i, p in enumerate(params)])
    for p in params:
        p.grad = gc.ones_like(p)
    own.step()
    program = PlannedStep(own, "background").program.native
    assert program is not None
    made = [n for call in program.calls for n in call.outputs if n not in program.inputs]
    written = {n for call in program.calls if call.name.startswith("operator.i") for n in call.outputs}
    assert len(set(made)) == len([n for n in made if n not in written]) + len(written & {*made})
    assert program.types.keys() >= {*made, *program.inputs}


@pytest.mark.parametrize("kind", ["sgd", "adam", "own", "scheduler", "scaler"])
def test_host_objects_have_their_class_while_functions_are_recorded(kind: str) -> None:
    """A function that asks for the class, in whichever way, goes the same way in each call."""

    class Own(gc.optim.SGD):
        pass

    params = [nn.Parameter(gc.ones(2))]
    host: Any = {
        "sgd": lambda: gc.optim.SGD(params, lr=0.1),
        "adam": lambda: gc.optim.Adam(params, lr=0.1),
        "own": lambda: Own(params, lr=0.1),
        "scheduler": lambda: L.StepLR(gc.optim.SGD(params, lr=0.1), 2),
        "scaler": lambda: gc.amp.GradScaler("cpu"),
    }[kind]()
    cls = type(host)
    ways: list[Callable[[], bool]] = [
        lambda: type(host) is cls,
        lambda: host.__class__ is cls,
        lambda: isinstance(host, cls) and type(host).__mro__[0] is cls,
        lambda: type(host) in {cls: 1},
    ]
    for way in ways:
        compiled = gc.compile(lambda x, way=way: x * (2.0 if way() else 5.0))
        assert [compiled(gc.ones(1)).item() for _ in range(4)] == [2.0] * 4
    for base in (gc.optim.Optimizer, gc.amp.GradScaler, type(host)):
        assert base.__getattribute__ is object.__getattribute__


@pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")
@pytest.mark.usefixtures("quick_builds")
def test_a_step_that_replaces_that_of_the_optimizer_is_called() -> None:
    w, calls = gc.ones(3, requires_grad=True), list[int]()
    optimizer = gc.optim.SGD([w], lr=0.1)

    def step(x: gc.Tensor) -> gc.Tensor:
        y = (x * w).sum()
        y.backward()
        optimizer.step()
        return y

    compiled = gc.compile(step, options={"cpp": "wait"})
    for _ in range(4):
        compiled(gc.ones(3))
    assert compiled._specializations
    optimizer.step = lambda: calls.append(1)  # type: ignore[assignment,method-assign]
    before = w.detach().clone()
    compiled(gc.ones(3))
    assert calls == [1]
    assert gc.equal(w, before)
