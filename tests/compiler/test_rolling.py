"""Calls that repeat become loops: which ones, where their memory is, and how large the source is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.compiler.function import CompiledFunction
from gradcore.compiler.program.passes import optimize
from gradcore.compiler.targets import native
from gradcore.compiler.targets.native.rolling import Invocation, Repeat, roll_repeats
from gradcore.compiler.targets.native.segment_source import PartSource
from gradcore.compiler.targets.native.segments import NativeProgram, source_of
from gradcore.compiler.targets.native.steps import View
from tests.compiler.test_native import arrays_of, check, close, pytestmark, writer  # noqa: F401
from tests.compiler.test_native import libraries as libraries


def view(memory: int, offset: int = 0) -> View:
    return View(memory, offset, (4,), (8,), np.dtype("f8"))


def calls(text: str) -> list[Invocation]:
    return [Invocation(f"{letter}({{0}})", (view(i),)) for i, letter in enumerate(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc", ["a({0})", "b({0})", "c({0})"]),
        ("xababababy", ["x({0})", "4 times 2 calls", "y({0})"]),
        ("aaaaaaa", ["7 times 1 calls"]),
        ("abcabc", ["a({0})", "b({0})", "c({0})"] * 2),  # twice is no loop
        ("x" + "aab" * 4 + "cd" * 5, ["x({0})", "4 times 3 calls", "5 times 2 calls"]),
    ],
)
def test_which_calls_repeat(text: str, expected: list[str]) -> None:
    found = roll_repeats(calls(text), lambda memory: True)
    assert [*map(str, found)] == expected
    flat = [
        each for item in found for each in ([c for t in item.turns for c in t] if isinstance(item, Repeat) else [item])
    ]
    assert flat == calls(text)


def test_what_is_given_and_what_is_private_is_not_one_loop() -> None:
    found = roll_repeats(calls("aaaaaaaaaa"), lambda memory: memory > 1)
    assert [*map(str, found)] == ["a({0})", "a({0})", "8 times 1 calls"]


def test_addresses_are_arithmetic_where_values_follow_each_other() -> None:
    """A chain of values that all stay alive: each is read by the call after, and at the end in reverse."""
    n = 9
    forward = [Invocation("f({0}, {1})", (view(k + 1), view(k))) for k in range(n)]
    backward = [Invocation("g({0})", (view(k),)) for k in reversed(range(n))]
    given = [Invocation("h({0})", (view(100, 32 * k),)) for k in range(n)]
    source = PartSource([*forward, *backward, *given], lambda memory: memory < 100, view)
    text = source.text(in_threads=False)
    assert [*map(str, source.repeats)] == [f"{n} times 1 calls"] * 3
    assert "t0" not in text
    assert "m100 + 0 + turn * 32" in text
    slots = [source.slots[k] for k in range(n + 1)]
    assert slots == [("arena", 64 * k) for k in range(n + 1)]


def test_values_of_one_turn_share_a_place() -> None:
    turns = [[Invocation("f({0})", (view(k),)), Invocation("g({0})", (view(k),))] for k in range(2000)]
    source = PartSource([c for turn in turns for c in turn], lambda memory: True, view)
    assert set(source.slots.values()) == {("arena", 0)}
    assert source.scratch == 0


def large(memory: int) -> View:
    return View(memory, 0, (1 << 13,), (8,), np.dtype("f8"))


def test_what_a_loop_writes_is_where_it_has_read_for_the_last_time() -> None:
    loops = [Invocation("f({0}, {1})", (large(k), large(k + 1)), shared=((k, k + 1),)) for k in range(3)]
    source = PartSource(loops, lambda memory: True, large)
    assert {*source.slots.values()} == {("arena", 0)}
    assert source.scratch == 1 << 16
    again = Invocation("g({0})", (large(1),))  # which is read once more
    source = PartSource([*loops, again], lambda memory: True, large)
    assert source.slots[0] == source.slots[1] != source.slots[2] == source.slots[3]
    kernels = [call._replace(shared=()) for call in loops]
    source = PartSource(kernels, lambda memory: True, large)
    assert all(source.slots[k] != source.slots[k + 1] for k in range(3))


def test_large_memories_are_where_results_will_be() -> None:
    calls = [Invocation("f({0})", (large(0),)), Invocation("g({0}, {1})", (large(0), large(1)))]
    last = Invocation("h({0}, {1})", (large(1), large(9)))
    source = PartSource([*calls, last], lambda memory: memory < 9, large, lambda memory: memory == 9)
    assert source.slots == {0: ("m9", 0), 1: ("arena", 0)}  # the last call reads one and writes the result
    assert "(double*)(m9)" in source.text(False)
    source = PartSource([*calls, last], lambda memory: memory < 9, large)
    assert {name for name, _ in source.slots.values()} == {"arena"}


def test_gradients_of_wide_layers() -> None:
    def step(x: gc.Tensor, *weights: gc.Tensor) -> Any:
        y = x
        for w in weights:
            y = (y @ w + 1).relu() * 0.5
        loss = (y * y).mean()
        return loss.detach(), *gc.autograd.grad(loss, weights)

    weights = [gc.randn(*s, requires_grad=True) for s in ((100, 90), (90, 80), (80, 70))]
    check(step, gc.randn(60, 100), *weights)
    (program,) = programs_of(step, gc.randn(60, 100), *weights)
    (part,) = program.parts
    assert part.plan.scratch < 0.5 * sum(program.owner(memory).extent[1] for memory in program.private)


def test_other_addresses_are_looked_up() -> None:
    order = [3, 1, 4, 0, 2]
    source = PartSource(
        [Invocation("f({0})", (view(9, 8 * k),)) for k in order], lambda memory: False, lambda m: view(m)
    )
    assert "t0[] = {24, 8, 32, 0, 16}" in source.text(False)
    source = PartSource([Invocation("f({0})", (view(k),)) for k in order], lambda memory: False, lambda m: view(m))
    assert "char* const t0[] = {m3 + 0, m1 + 0," in source.text(False)


def recurrent(w: gc.Tensor, u: gc.Tensor, b: gc.Tensor, xs: gc.Tensor) -> Any:
    h = gc.zeros(3, 5)
    for x in xs:
        h = (x @ w + h @ u + b).tanh()
    return gc.autograd.grad((h * h).sum(), [w, u, b])


def layers(x: gc.Tensor, *weights: gc.Tensor) -> gc.Tensor:
    for w in weights:
        x = (x @ w).relu() + x
    return x


def programs_of(function: Any, *arguments: Any) -> list[Any]:
    compiled = CompiledFunction(function, fullgraph=True, cpp="0")
    for _ in range(3):
        compiled(*arguments)
    return [NativeProgram(optimize(program), blas=True) for program in compiled._specializations[0].programs]


def test_the_source_does_not_grow_with_the_steps() -> None:
    def arguments(n: int) -> Any:
        return [gc.randn(*s, requires_grad=True) for s in ((4, 5), (5, 5), (5,))] + [gc.randn(n, 3, 4)]

    sizes = []
    for n in (40, 80):
        programs = programs_of(recurrent, *arguments(n))
        sizes.append(len(source_of(programs)))
        assert any(line.startswith((str(n - 2), str(n - 1))) for line in programs[0].rolled)
    assert sizes[1] < sizes[0] * 1.3


@pytest.mark.parametrize("case", ["recurrent", "layers", "chain"])
def test_loops_compute_what_the_calls_do(case: str) -> None:
    gc.manual_seed(0)
    if case == "recurrent":
        function = recurrent
        arguments = [gc.randn(*s, requires_grad=True) for s in ((4, 5), (5, 5), (5,))] + [gc.randn(12, 3, 4)]
    elif case == "layers":
        function, arguments = layers, [gc.randn(6, 6), *(gc.randn(6, 6) * 0.1 for _ in range(9))]
    else:
        function, arguments = lambda x: chain_with_sums(x), [gc.rand(5, 4)]
    compiled = CompiledFunction(function, fullgraph=True)
    for _ in range(4):
        assert close(arrays_of(compiled(*arguments)), arrays_of(function(*arguments)))
    described = [line for run in compiled._specializations[0].functions for line in native.describe(run)]
    assert any("times" in line for line in described)
    assert "in a loop: " in compiled.explain(*arguments)


def chain_with_sums(x: gc.Tensor) -> gc.Tensor:
    for _ in range(15):
        x = x - x.mean(0) + (x * x).sum(1, keepdim=True).sqrt()
    return x
