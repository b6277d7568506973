"""What `explain`, pictures and the profiler show of compiled functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.registry import CPU
from gradcore.compiler.capture.reasons import Code

of_numpy = pytest.mark.skipif(
    CPU.backend.__class__ is not NumpyBackend, reason="the compiled library has its own loops"
)
N = 40_000


def function(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
    for _ in range(3):
        x = ((x * y + x).tanh() * 0.5 - y).clone()
    return (x.cumsum(0) * x - y) * x


def arguments() -> tuple[gc.Tensor, gc.Tensor]:
    return gc.randn(N), gc.randn(N)


@of_numpy
def test_explain_shows_passes_groups_memory_and_reasons() -> None:
    lines = gc.compile(function).explain(*arguments()).splitlines()
    assert "program, as it is recorded (22 calls):" in lines
    assert "without copies (19 calls):" in lines
    assert "group 0 of the program (15 passes over each tile):" in lines
    assert any("cumsum" in line and line.endswith("it is not elementwise") for line in lines)
    assert any("an arena of" in line for line in lines)
    assert any("fused(" in line and line.startswith("  + ") for line in lines)


def test_explain_shows_backward() -> None:
    x, y = (t.requires_grad_() for t in arguments())
    text = gc.compile(lambda x, y: function(x, y).sum()).explain(x, y)
    assert "source of the program:" in text
    assert "source of the backward:" in text


def test_a_picture_has_a_card_for_each_call() -> None:
    picture = gc.viz.program(gc.compile(lambda x, w: ((x @ w).relu(), x.sum())), gc.ones(2, 3), gc.ones(3, 2))
    titles = [vertex.title for vertex in picture.vertices]
    assert titles == ["result", "result 2", "sum", "relu", "mm", "input 1", "input 2"]
    assert sorted((titles[a], titles[b]) for a, b, *_ in picture._description.edges) == [
        ("input 1", "mm"), ("input 1", "sum"), ("input 2", "mm"), ("mm", "relu"), ("relu", "result"),
        ("sum", "result 2"),
    ]  # fmt: skip
    assert picture.svg.startswith("<svg")


@of_numpy
def test_a_picture_has_one_card_for_a_group() -> None:
    picture = gc.viz.program(gc.compile(function), *arguments())
    (group,) = [vertex for vertex in picture.vertices if vertex.kind == "fused"]
    assert group.title == "15 fused calls"


def test_a_large_program_is_drawn_in_groups() -> None:
    def chain(x: gc.Tensor) -> gc.Tensor:
        for i in range(100):
            x = x * i + 1
        return x

    picture = gc.viz.program(gc.compile(chain), gc.ones(3), max_nodes=20)
    assert sorted((vertex.title, vertex.count) for vertex in picture.vertices) == [
        ("add", 100), ("input", 1), ("mul", 99), ("result", 1),
    ]  # fmt: skip


def test_what_has_no_program_has_no_picture() -> None:
    compiled = gc.compile(lambda x: x * float(x.sum()))
    with pytest.warns(UserWarning, match="runs as it is"), pytest.raises(RuntimeError, match="there is no program"):
        gc.viz.program(compiled, gc.ones(2))


def named(events: Any) -> list[str]:
    return [event.name for event in events]


@of_numpy
def test_the_profiler_shows_a_program_as_a_range_with_its_groups() -> None:
    compiled, args = gc.compile(function), arguments()
    expected, _, _ = (compiled(*args) for _ in range(3))
    with gc.autograd.profiler.profile() as prof:
        found = compiled(*args)
        found.sum()
    outer, group, last = prof.function_events
    assert named([outer, last]) == ["compiled function", "aten::sum"]
    assert group.name.startswith("fused mul add tanh mul sub")
    assert group.cpu_parent is outer
    assert gc.equal(found, expected)
    assert gc.equal(compiled(*args), expected)


def test_the_profiler_shows_operations_where_there_is_no_program_yet() -> None:
    compiled = gc.compile(lambda x: x.exp() * 2)
    with gc.autograd.profiler.profile() as prof:
        compiled(gc.ones(3))
    assert named(prof.function_events)[1:] == ["aten::exp", "aten::mul"]
    with gc.autograd.profiler.profile() as prof, pytest.raises(RuntimeError, match="must match"):
        gc.compile(lambda x: x + gc.ones(5))(gc.ones(3))


def test_all_graph_breaks_are_listed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    def step(x: gc.Tensor) -> gc.Tensor:
        y = x * 2
        print("first")
        y = y + 1
        values = y.tolist()
        return y * len(values)

    found = gc.compiler.explain(step)(gc.ones(2))
    start = step.__code__.co_firstlineno
    assert [(each.file, each.line - start) for each in found.break_reasons] == [(__file__, 2), (__file__, 4)]
    assert [each.code for each in found.break_reasons] == [Code.CALL, Code.ELEMENTS]
    assert found.break_reasons[0].reason.startswith("print is called")
    assert found.break_reasons[0].remedy == "move the call out of the function"
    assert (found.graph_break_count, found.graph_count) == (2, 3)
    lines = str(found).splitlines()
    assert lines[:2] == ["Graph Count: 3", "Graph Break Count: 2"]
    assert f"{__file__}:{start + 2}: print is called" in lines[2]
    assert capsys.readouterr().out.startswith("first\n")


def test_explain_takes_modules_and_compiled_functions() -> None:
    net = gc.nn.Linear(2, 1)
    for given in (net, gc.compile(net), gc.compile(lambda x: x * 2), lambda x: x * 2):
        found = gc.compiler.explain(given)(gc.ones(1, 2))
        assert (found.graph_count, found.break_reasons) == (1, [])
    assert str(gc.compiler.explain(lambda x: x * 2, gc.ones(1))) == "Graph Count: 1\nGraph Break Count: 0"


def test_compiling_is_the_same_in_every_call() -> None:
    def function(x: gc.Tensor) -> gc.Tensor:
        return x * (2 if gc.compiler.is_compiling() else 3)

    for verify in (0, 1):
        compiled = gc.compile(function, verify=verify)
        assert [compiled(gc.ones(1)).item() for _ in range(4)] == [2.0] * 4
        assert compiled._specializations
    w = gc.ones(1, requires_grad=True)
    twice = gc.compile(lambda x: function(x * w).exp())
    for _ in range(4):  # the function is called once more for its second derivative
        (grad,) = gc.autograd.grad(twice(gc.ones(1)), w, create_graph=True)
        assert gc.autograd.grad(grad, w)[0].item() == pytest.approx(4 * math.exp(2), 1e-4)
    assert not gc.compiler.is_compiling()
    with gc.compiler.set_stance("force_eager"):
        assert compiled(gc.ones(1)).item() == 3.0
    broken = gc.compile(lambda x: (function(x), x.numpy())[0])
    with pytest.warns(UserWarning, match="runs as it is"):
        assert [broken(gc.ones(1)).item() for _ in range(4)] == [2.0] * 4


def reads_product(x: gc.Tensor) -> gc.Tensor:
    return x * (x @ WEIGHT).sum().item()


#: Statements that cannot be part of a program, and what errors say of them.
WITHOUT_PROGRAM: dict[str, tuple[Any, str]] = {
    "argument": (lambda x: x * float(x.sum()), "elements of a tensor are read"),
    "global": (lambda x: x * WEIGHT.sum().item(), "elements of a tensor are read"),
    "global of a function": (reads_product, "elements of a tensor are read"),
    "decision": (lambda x: x * 2 if x.sum() > 0 else x, "elements of a tensor are read"),
    "mask": (lambda x: x[x > 0] * 2, "a mask selects elements, so that sizes depend on values"),
    "options": (lambda x: x * OPTIMIZER.param_groups[0]["lr"], "param_groups of SGD is used"),
    "print": (lambda x: (print(end=""), x * 2)[1], "print is called"),
}
WEIGHT = gc.ones(1, requires_grad=True)
OPTIMIZER = gc.optim.SGD([WEIGHT], lr=0.1)


@pytest.mark.parametrize(("function", "text"), WITHOUT_PROGRAM.values(), ids=WITHOUT_PROGRAM)
def test_what_cannot_be_a_whole_has_its_effects_once(function: Any, text: str) -> None:
    """Raise, with ``fullgraph=True``, in the first call, and then before the function is called."""
    seen: list[str] = []

    def step(x: gc.Tensor) -> gc.Tensor:
        seen.append(text)
        return function(x)

    compiled = gc.compile(step, fullgraph=True)
    for _ in range(4):
        with pytest.raises(RuntimeError, match=rf"{text} \(.*test_explanation.py:\d+, in .*leave fullgraph out"):
            compiled(gc.ones(1))
    assert seen == [text]


def test_a_function_cannot_catch_the_error_of_fullgraph() -> None:
    """The result of its handler would be another one than that of eager execution."""

    def step(x: gc.Tensor) -> gc.Tensor:
        try:
            return x * x.sum().item()
        except RuntimeError:
            return x * 0

    compiled = gc.compile(step, fullgraph=True)
    for _ in range(4):
        with pytest.raises(RuntimeError, match="elements of a tensor are read"):
            compiled(gc.ones(1))


def take_step(optimizer: Any) -> None:
    optimizer.step()


def test_first_calls_with_fullgraph_know_not_all_tensors() -> None:
    """Gradients are added to existing ones, and a step is taken, of tensors that only the call itself finds."""

    def make() -> Any:
        gc.manual_seed(0)
        model = gc.nn.Sequential(gc.nn.Linear(2, 3), gc.nn.BatchNorm1d(3))
        optimizer, scaler = gc.optim.Adam(model.parameters()), gc.amp.GradScaler("cpu", init_scale=4.0)
        held = [model, optimizer, scaler]

        def find(number: int) -> Any:
            return held[number]

        def step(x: gc.Tensor) -> gc.Tensor:
            loss = find(0)(x).exp().mean()
            find(2).scale(loss).backward()
            take_step(find(1))
            return loss.detach()

        return step, model

    (step, model), (other, same_model) = make(), make()
    compiled, x = gc.compile(step, fullgraph=True), gc.randn(5, 2)
    for _ in range(5):
        assert gc.equal(compiled(x), other(x))
    pairs = zip(model.state_dict().values(), same_model.state_dict().values(), strict=True)
    assert all(gc.equal(a, b) for a, b in pairs)
    assert all(type(p.grad._array) is np.ndarray for p in model.parameters())


def test_a_refused_call_does_not_refuse_others() -> None:
    """Raise, with ``fullgraph=True``, for each call that cannot be captured, and capture the others."""

    def function(x: gc.Tensor, item: bool) -> gc.Tensor:
        if item:
            print(end="")
        return x * 2

    compiled = gc.compile(function, fullgraph=True)
    for item in (True, False, False, True, False, True, False):
        if item:
            with pytest.raises(RuntimeError, match="fullgraph"):
                compiled(gc.ones(1), item)
        else:
            assert compiled(gc.ones(1), item).item() == 2.0
    assert compiled.count_programs() == 1
