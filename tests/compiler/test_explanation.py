"""What `explain`, pictures and the profiler show of compiled functions."""

from __future__ import annotations

from typing import Any

import pytest

import gradcore as gc
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.registry import CPU

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
def test_explain_shows_passes_groups_buffers_and_reasons() -> None:
    lines = gc.compile(function).explain(*arguments()).splitlines()
    assert "program, as it is recorded (22 calls):" in lines
    assert "without copies (19 calls):" in lines
    assert "group 0 of the program (15 passes over each tile):" in lines
    assert any("cumsum" in line and line.endswith("it is not elementwise") for line in lines)
    assert any("buffers of" in line for line in lines)
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
