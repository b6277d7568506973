"""Elements of tensors that a function reads: recorded numbers, and one program for each decision."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore import nn
from gradcore.compiler.function import CompiledFunction
from gradcore.core import config


def branch(x: gc.Tensor) -> gc.Tensor:
    if x.sum() > 0:
        return x * 2
    return x.exp() - 1


def tree(x: gc.Tensor) -> Any:
    if (x > 3).any():
        return x * 10, "large"
    if (x < -3).any() and x.sum() < -5:
        return x * 100, "small"
    noise = gc.randn(3)
    return x + noise, "none"


def counted(x: gc.Tensor) -> gc.Tensor:
    while x.norm() > 1:
        x = x / 2
    return x


def drawn(x: gc.Tensor) -> gc.Tensor:
    noise = gc.randn(3)
    if (noise * x).sum() > 0:
        noise = noise + gc.rand(3)
    return noise * x


def positive(x: gc.Tensor) -> Any:
    n = int((x > 0).sum())
    return x * n


def helper(x: gc.Tensor) -> gc.Tensor:
    return x.sin() if x.mean() > 0 else x.cos()


def nested(x: gc.Tensor) -> gc.Tensor:
    return helper(x) + helper(-x)


def compared(x: gc.Tensor) -> Any:
    total = x.sum().item()
    if total > 1:
        x = x * 3
    elif not x.sum().item() >= -1:
        x = x - 3
    return x, total


def numbers(x: gc.Tensor) -> Any:
    loss = (x * x).sum().item()
    count = (x > 0).sum().item()
    return {"loss": loss, "half": loss / 2 - 1, "count": (count, [count * 2 + 1]), "share": count / 3, "minus": -loss}


#: Functions, and how many programs they have at most for the arguments of `arguments`.
FUNCTIONS: dict[Callable[..., Any], int] = {
    branch: 2, tree: 3, counted: 6, drawn: 2, positive: 4, nested: 3, compared: 3, numbers: 1,
}  # fmt: skip


def arguments(n: int = 24) -> list[gc.Tensor]:
    scales = (1.0, -1.0, 3.0, 0.1)
    return [gc.tensor([1.0, 0.5 - i % 3, -0.25 * (i % 5)]) * scales[i % 4] for i in range(n)]


def outcome(function: Callable[..., Any], x: gc.Tensor) -> tuple[str, ...]:
    x = x.clone().requires_grad_()
    found = function(x)
    tensors = [t for t in (found if isinstance(found, tuple) else (found,)) if isinstance(t, gc.Tensor)]
    grads = gc.autograd.grad(sum(t.sum() for t in tensors), x) if tensors else ()
    return (
        repr(found).replace("CompiledFunctionBackward", "").partition("grad_fn")[0],
        repr(grads),
        str([t.tolist() for t in tensors]),
        repr(gc.get_rng_state().tolist()),
    )


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_each_decision_has_a_program(function: Callable[..., Any]) -> None:
    compiled = CompiledFunction(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i, x in enumerate(arguments()):
            gc.manual_seed(i)
            found = outcome(compiled, x)
            gc.manual_seed(i)
            assert found == outcome(function, x), i
    assert compiled._left is None
    assert 1 <= len(compiled._specializations) <= FUNCTIONS[function]


def test_the_program_of_the_last_call_is_tried_first() -> None:
    compiled, up, down = CompiledFunction(branch), gc.ones(3), -gc.ones(3)
    for x in (up, up, down, up, up):
        compiled(x)
    first = compiled._specializations[0]
    assert first.run((up,), {})[0].tolist() == [2.0] * 3
    assert type(first.run((down,), {})) is int
    compiled(down)
    assert compiled._specializations == [compiled._specializations[0], first]


def test_with_fullgraph_a_decision_is_an_error() -> None:
    for function in (branch, compared, positive):
        compiled = gc.compile(function, fullgraph=True)
        with pytest.raises(RuntimeError, match=r"elements of a tensor are read \(.*test_numbers.py:\d+, in "):
            compiled(gc.ones(3))


@pytest.mark.parametrize("clip", [False, True])
def test_training_steps_return_numbers_and_leave_out_steps(clip: bool) -> None:
    """The loss is a number; gradients that are too large have no step."""

    def make() -> Any:
        gc.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2), nn.Linear(4, 1))
        optimizer = gc.optim.Adam(model.parameters(), lr=0.05)

        def step(x: gc.Tensor) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            if clip:
                norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
                if norm.item() > 2:
                    return loss.item(), norm.item()
            optimizer.step()
            return loss.item(), {"twice": 2 * loss.item()}

        return model, optimizer, step

    found = []
    for compiles in (False, True):
        model, optimizer, step = make()
        run = CompiledFunction(step) if compiles else step
        values = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for i in range(20):
                result = run(gc.randn(5, 3) * (3 if i % 3 else 1))
                assert type(result[0]) is float
                params = [
                    (p.tolist(), p._version, None if p.grad is None else p.grad.tolist()) for p in model.parameters()
                ]
                values.append((result, params, repr(optimizer.state_dict()), gc.get_rng_state().tolist()))
        found.append(values)
    assert found[0] == found[1]
    assert len(run._specializations) == 1 + clip


def adding(x: gc.Tensor) -> gc.Tensor:
    x.add_(1)
    return x * 2 if x.sum() > 0 else x * 3


W = gc.ones(3, requires_grad=True)
OPTIMIZER = gc.optim.SGD([W], lr=0.0)


def updated(x: gc.Tensor) -> Any:
    W.grad = None
    loss = (W * x).sum()
    loss.backward()
    OPTIMIZER.step()
    return loss.detach() * 2 if loss.item() > 0 else loss.detach() * 3


@pytest.mark.parametrize("function", [adding, updated], ids=lambda f: f.__name__)
def test_decisions_after_effects_run_as_they_are(function: Callable[..., Any]) -> None:
    """As a program that another one takes over from must not have changed anything."""
    compiled = CompiledFunction(function)

    def call() -> None:
        for x in arguments(8):
            given, other = x.clone(), x.clone()
            assert gc.equal(compiled(given), function(other))
            assert gc.equal(given, other)

    call()
    assert "cut: elements of a tensor are read, after something was written in place or called" in compiled.explain(
        gc.ones(3)
    )
    assert not compiled._specializations


def keeps(value: float) -> float:
    return value


def given_on(x: gc.Tensor) -> Any:
    return x * keeps(x.sum().item())


def formatted(x: gc.Tensor) -> Any:
    return x * 2, "%.3f" % x.sum().item()  # noqa: UP031


def reassigned(x: gc.Tensor) -> Any:
    total = x.sum().item()
    x = np.float64(2.0)
    return gc.ones(3) * float(x * total)


class Reading:
    def __mul__(self, other: Any) -> Any:
        return float(np.float64(other))


READING = Reading()


def of_an_object(x: gc.Tensor) -> Any:
    return x * (READING * x.sum().item())


def in_a_closure(x: gc.Tensor) -> Any:
    def change() -> None:
        nonlocal x
        x = READING

    total = x.sum().item()
    y = x * 2
    change()
    return y * (x * total)


def inside(x: gc.Tensor) -> Any:
    total = x.sum().item()
    return [x * value for value in (1.0, 2.0) if value > total]


def closed_over(x: gc.Tensor) -> Any:
    total = x.sum().item()
    return (lambda: x * total)()


def of_numpy(x: gc.Tensor) -> Any:
    return x * float(np.float64(x.sum().item()) + 1)


def divided(x: gc.Tensor) -> Any:
    return x * 2, 1 / (x.sum().item() + 100)


def from_a_helper(x: gc.Tensor) -> Any:
    return x * total_of(x)


def total_of(x: gc.Tensor) -> Any:
    return x.sum().item()


def added(x: gc.Tensor) -> Any:
    total = 0.0
    total += x.sum().item()
    return x * total


def in_a_string(x: gc.Tensor) -> Any:
    return x * 2, f"{x.sum().item()}"


def of_a_list(x: gc.Tensor) -> Any:
    both = [x.sum().item(), 2.0]
    return x * both[0]


@pytest.mark.parametrize(
    "function",
    [
        given_on,
        formatted,
        reassigned,
        of_an_object,
        in_a_closure,
        inside,
        closed_over,
        of_numpy,
        divided,
        from_a_helper,
        added,
        in_a_string,
        of_a_list,
    ],
    ids=lambda f: f.__name__,
)
def test_floats_that_go_elsewhere_are_never_constants(function: Callable[..., Any]) -> None:
    compiled = CompiledFunction(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in arguments(12):
            assert repr(compiled(x)) == repr(function(x))
    assert not compiled._specializations


def operand(x: gc.Tensor, w: gc.Tensor) -> Any:
    n = w.norm().item()
    return x / n, n * x, x + n * 2, x - n, n - x, (x - 1) / (n + 1e-6), (x - n) / n * x, -x * (n / 2)


def operand_and_result(x: gc.Tensor, w: gc.Tensor) -> Any:
    n = w.sum().item()
    return (n * w).sum() + x, x - w.mean().item(), n


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cpp", ["0", "wait"])
@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize("function", [operand, operand_and_result])
def test_floats_that_are_operands_of_tensors(function: Callable[..., Any], cpp: str) -> None:
    """The parts before and after are programs; the results are those of eager execution, for all kinds of values."""
    values = (1.5, 2.3, 0.0, float("nan"), float("inf"), -0.0, 7.0, 1e38)
    for dtype, needed in ((gc.float32, True), (gc.float64, False), (gc.float64, True), (gc.int64, False)):
        compiled = CompiledFunction(function, cpp=cpp)

        def outcome(function: Callable[..., Any], value: float, dtype: Any = dtype, needed: bool = needed) -> Any:
            x = (gc.arange(3.0) + 1.3).to(dtype).requires_grad_(needed)
            outs = function(x, gc.full((3,), value))
            tensors = [t for t in outs if isinstance(t, gc.Tensor) and t.requires_grad]
            found = gc.autograd.grad(tensors, x, [gc.ones_like(t) * 2 for t in tensors]) if needed else ()
            return [*outs, *found]

        for value in values:
            for a, b in zip(outcome(compiled, value), outcome(function, value), strict=True):
                if isinstance(a, gc.Tensor):
                    assert a.dtype is b.dtype
                    close = gc.allclose(a, b, rtol=1e-5, equal_nan=True)
                    assert close if cpp == "wait" else repr(a.tolist()) == repr(b.tolist())
                else:
                    assert repr(a) == repr(b)
        assert len(compiled._specializations) == 1, compiled._left
        assert len(compiled._specializations[0].names) >= 2


def test_source_that_has_changed_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "functions.py"
    file.write_text("def f(x):\n    a = x.sum().item()\n    return x * a\n")
    namespace: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    file.write_text("def f(x):\n    a = x.sum().item()\n    return x, a\n")
    compiled = CompiledFunction(namespace["f"])
    with pytest.warns(UserWarning, match="elements of a tensor are read"):
        assert all([gc.equal(compiled(x), x * x.sum()) for x in arguments(6)])  # noqa: C419


def test_too_many_values_end_with_a_warning() -> None:
    compiled = CompiledFunction(positive)
    with pytest.warns(
        UserWarning, match=r"keeps failing: the value \d+ of what is read in .*test_numbers.py:\d+"
    ) as warned:
        assert all([gc.equal(compiled((gc.arange(40) < i).float()), (gc.arange(40) < i) * i) for i in range(30)])  # noqa: C419
    assert len(warned) == 1
    assert len(compiled._specializations) == config.COMPILE_LIMIT


def test_errors_after_a_decision_are_those_of_the_function() -> None:
    def look_up(x: gc.Tensor, index: gc.Tensor) -> gc.Tensor:
        noise = gc.randn(3)
        if x.sum() > 0:
            return x[index] + noise
        return x * noise

    compiled = CompiledFunction(look_up)
    x, good, bad = gc.ones(3), gc.tensor([0, 1, 2]), gc.tensor([0, 1, 7])
    for _ in range(3):
        compiled(x, good)
    assert compiled._specializations
    states = []
    for run in (compiled, look_up):
        gc.manual_seed(0)
        with pytest.raises(IndexError, match="7"):
            run(x, bad)
        states.append(gc.get_rng_state().tolist())
    assert states[0] == states[1]


def test_modules_and_second_derivatives() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.last = nn.BatchNorm1d(3), nn.Linear(3, 1)

        def forward(self, x: gc.Tensor) -> Any:
            if x.std() > 1:
                x = x / x.std()
            x = self.norm(x)
            return self.last(x) ** 3, x.sum().item()

    gc.manual_seed(0)
    plain, model = Net(), Net()
    model.load_state_dict(plain.state_dict())
    compiled = gc.compile(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(12):
            found = []
            for run in (plain, compiled):
                gc.manual_seed(i)
                x = (gc.randn(4, 3) * (1 + i % 2)).requires_grad_()
                out, total = run(x)
                (grad,) = gc.autograd.grad(out.sum(), x)
                found.append((out.tolist(), total, grad.tolist(), [b.tolist() for b in run.buffers()]))
            assert found[0] == found[1]
    assert len(compiled._compiled_call_impl._specializations) == 2


@pytest.mark.parametrize("name", ["normal", "categorical", "beta"])
def test_distributions_check_their_arguments_in_programs(name: str) -> None:
    """Whether arguments are valid is a decision: those that are not raise the error of eager execution."""
    D = gc.distributions
    function: Callable[[gc.Tensor], gc.Tensor] = {
        "normal": lambda x: D.Normal(x, x).log_prob(x), "categorical": lambda x: D.Categorical(x).sample() + x.sum(),
        "beta": lambda x: D.Beta(x, x).log_prob(x / 4),
    }[name]  # fmt: skip
    compiled = gc.compile(function)
    for _ in range(4):
        x = gc.rand(3) + 0.5
        gc.manual_seed(0)
        found = compiled(x)
        gc.manual_seed(0)
        assert gc.equal(found, function(x))
    assert compiled._specializations
    for _ in range(2):
        with pytest.raises(ValueError, match="Expected parameter"):
            compiled(gc.tensor([-1.0, 0.5, 2.0]))
    assert compiled(x).isfinite().all()
