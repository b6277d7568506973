"""Passes over recorded programs: what goes, what stays, and that results stay what they are."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends import kernel_rules
from gradcore.backends.cupy.backend import CupyBackend
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.compiler.capture.arrays import RecordedArray
from gradcore.compiler.capture.recorder import Recorder
from gradcore.compiler.function import CompiledFunction
from gradcore.compiler.program import effects, passes
from gradcore.compiler.program.effects import written_values
from gradcore.compiler.program.program import Call, Program, Value, map_leaves
from tests.compiler.test_operations import CHOSEN, compare


def program_of(function: Callable[..., Any], *args: gc.Tensor) -> Program:
    """Return the program of a function before any pass."""
    compiled = CompiledFunction(function, fullgraph=True)
    for _ in range(2):
        compiled(*args)
    return compiled._specializations[0].programs[0]


def names(program: Program) -> list[str]:
    return [call.name.partition(".")[2] for call in program.calls]


def run(program: Program, arrays: list[Any]) -> list[Any]:
    """Run a program call by call, and return its outputs."""
    values = dict(zip(program.inputs, arrays, strict=True))

    def argument(leaf: Any) -> Any:
        if type(leaf) is Value:
            return values[leaf.number]
        return program.literals[leaf.number] if type(leaf).__name__ == "Literal" else leaf

    def keep(target: Any, result: Any) -> None:
        if type(target) is Value:
            values[target.number] = np.asarray(result) if target.number in program.scalars else result
        elif target is not None:
            for each, part in zip(target, result, strict=True):
                keep(each, part)

    for call in program.calls:
        keep(call.results, call.function(*map_leaves(argument, call.args), **map_leaves(argument, call.named)))
    return [values[n] for n in program.outputs]


def shortened(function: Callable[..., Any], *args: gc.Tensor) -> list[str]:
    """Return the names of the calls after all passes but fusion, after checking that each pass keeps every bit."""
    program = program_of(function, *args)
    expected = run(program, [t.numpy().copy() for t in args])
    for name, found in passes.run_passes(program):
        outputs = run(found, [t.numpy().copy() for t in args])
        assert [a.tobytes() for a in map(np.asarray, outputs)] == [a.tobytes() for a in map(np.asarray, expected)], name
        program = found
    return names(program)


x = gc.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, -0.0]])


def test_copies_that_nobody_can_tell_apart_go() -> None:
    assert shortened(lambda x: x.clone().contiguous().reshape(2, 3) ** 1 * 2 + x.conj(), x) == ["mul", "add"]


def test_a_copy_that_is_returned_or_written_to_stays() -> None:
    assert "clone" in shortened(lambda x: (x * 2).clone(), x)
    assert "clone" in shortened(lambda x: x.clone().mul_(2) + x, x)
    assert "clone" in shortened(lambda x: x.add_(1).clone() + x.add_(1), x.clone())


def test_repeats_go_but_not_across_writes() -> None:
    assert shortened(lambda x: x.exp() + x.exp() * x.exp(), x) == ["exp", "mul", "add"]
    assert shortened(lambda x: x.exp() + x.mul_(2).exp(), x.clone()).count("exp") == 2


def test_calls_of_the_same_values_with_other_settings_are_no_repeats() -> None:
    """The third call repeats the first, though another one of the same value is between them."""
    function = lambda x: x.sum(0).sum() + x.sum(1).amax() + x.sum(0).amin()  # noqa: E731
    assert shortened(function, gc.rand(3, 3)).count("sum") == 3
    function = lambda x: (x * 0.0).sum() + (x * -0.0).amin().copysign(x[0]) + (x * 0.0).amax()  # noqa: E731
    assert shortened(function, gc.rand(3)).count("mul") == 2


def test_repeats_that_are_returned_stay_apart() -> None:
    first, second = gc.compile(lambda x: (x.exp(), x.exp())), None
    for _ in range(4):
        first_result, second = first(x)
    assert first_result._array is not second._array


def test_constants_are_computed_once() -> None:
    def function(x: gc.Tensor) -> gc.Tensor:
        return x + gc.ones(3) * 2 - gc.arange(3.0).exp()

    assert shortened(function, x) == ["add", "sub"]


def test_constants_are_made_once_also_by_writing() -> None:
    def function(x: gc.Tensor) -> gc.Tensor:
        table = gc.zeros(3)
        table[1] = 2
        return x * table.add_(1)

    assert shortened(function, x) == ["mul"]


def test_what_is_written_after_it_is_read_is_no_constant() -> None:
    def function(x: gc.Tensor) -> gc.Tensor:
        table = gc.zeros(3)
        first = x * table
        table[1] = 2
        return first + x * table

    assert "setitem" in "".join(shortened(function, x))


def test_writes_that_nobody_reads_go() -> None:
    def function(x: gc.Tensor) -> gc.Tensor:
        other = x.clone()
        other[0] = x[1]
        return x * 2

    assert shortened(function, x) == ["mul"]


def test_products_with_one_go_and_sums_with_zero_stay() -> None:
    assert shortened(lambda x: (x * 1) / 1 + gc.zeros(2, 3), x) == ["add"]


def test_dead_calls_go_unless_they_may_raise() -> None:
    assert shortened(lambda x: (x.exp(), x * 2)[1], x) == ["mul"]
    index = gc.tensor([0, 1])
    assert len(shortened(lambda x, index: (x[index], x * 2)[1], x, index)) == 2


def test_in_place_arithmetic_on_what_the_program_made_becomes_plain() -> None:
    def derivative(x: gc.Tensor) -> gc.Tensor:
        return gc.func.grad(lambda x: (x * x.sin() + x * x).sum())(x)

    assert "iadd" in names(program_of(derivative, x))
    assert "iadd" not in shortened(derivative, x)


def test_sums_of_gradients_that_are_sums_become_plain() -> None:
    def derivative(x: gc.Tensor) -> gc.Tensor:
        return gc.func.grad(sums_of_sums)(x)

    assert names(program_of(derivative, x)).count("iadd") > 2
    assert "iadd" not in shortened(derivative, x)


def sums_of_sums(x: gc.Tensor) -> gc.Tensor:
    a = x * 2
    c = a.tanh()
    b = a + x.cos()
    return (c * a.sin() * a.cos() * a.exp() * b.sin() * b.cos() * b.exp()).sum()


def test_what_others_see_is_written_in_place() -> None:
    target = gc.zeros(2, 3)
    compiled = gc.compile(lambda x, target: (target.add_(x), (x * 2).sum())[1])
    for i in range(4):
        compiled(x, target)
        assert gc.equal(target, x * (i + 1))


def test_scalars_are_not_made_arrays_where_nobody_minds() -> None:
    def function(x: gc.Tensor) -> gc.Tensor:
        return x.sum() * 2 + x.mean() / 3

    program = program_of(function, x)
    assert len(passes.optimize(program).scalars) < len(program.scalars)


def test_effects_are_analysed_once_for_each_program(monkeypatch: pytest.MonkeyPatch) -> None:
    analysed: list[Program] = []

    class Counted(passes.Effects):
        def __init__(self, program: Program) -> None:
            analysed.append(program)
            super().__init__(program)

    monkeypatch.setattr(passes, "Effects", Counted)
    program = program_of(lambda x: ((x.sin() * 2).sum(), (x.sin() * 3).mean()), x)
    analysed.clear()
    after = [program, *(each for _, each in passes.run_passes(program))]
    assert len(analysed) == len({*map(id, analysed)}) < len(passes.PASSES) - 2
    assert {*map(id, analysed)} <= {*map(id, after)}


@pytest.mark.parametrize("of", range(12))
def test_calls_write_to_nothing_but_what_is_declared(of: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The arguments of every call of the operations' samples, before and after it."""
    wrong: list[str] = []
    plain = Recorder.call

    def call(self: Recorder, name: str, function: Any, args: Any, named: Any, on_cpu: bool = True) -> Any:
        arrays: list[Any] = []

        def numbered(leaf: Any) -> Any:
            if isinstance(leaf, RecordedArray):
                arrays.append(leaf.array)
                return Value(len(arrays) - 1)
            return leaf

        shown = Call(name, function, map_leaves(numbered, args), map_leaves(numbered, named), None)
        before = [array.tobytes() for array in arrays]
        result = plain(self, name, function, args, named, on_cpu)
        declared = written_values(shown)
        for i, array in enumerate(arrays):
            if array.tobytes() != before[i] and declared is not None and i not in declared:
                wrong.append(f"{name} writes to its argument {i}")
        return result

    monkeypatch.setattr(Recorder, "call", call)
    for case in CHOSEN[of::12]:
        compare(case)
    assert not wrong


def test_what_is_written_is_known_by_names() -> None:
    v, w = Value(0), Value(1)
    known = {
        ("operator.iadd", (v, w)): [0],
        ("operator.setitem", (v, (0,), w)): [0],
        ("operator.invert", (v,)): [],
        ("kernels.copy_into", (v, w)): [0],
        ("kernels.add", (v, w)): [],
        ("backend.index_into", (v, w, (w,))): [0],
        ("kernels.clip_list", ((v, w), None, 1.0)): [0, 1],
        ("kernels.all_reduce_sum", (v,)): None,
        ("kernels.fill_number_", (v, 1)): None,
        ("outside", (v,)): None,
    }
    found = {(name, args): written_values(Call(name, print, args, {}, None)) for name, args in known}
    assert found == known


def test_formulas_write_to_nothing_on_any_device() -> None:
    """So programs of the CPU need no class of CuPy's backend, whose import takes some 10 ms."""
    declared = {name for cls in (NumpyBackend, CupyBackend) for name in kernel_rules.written_arguments(cls)}
    assert "copy_into" in declared
    assert not [name for name in declared if effects._is_formula(name)]
    script = """
import sys
import gradcore as gc
norm, x = gc.nn.BatchNorm2d(2), gc.rand(3, 2, 4, 4)
train = gc.compile(lambda: norm(x).square().sum(), options={"cpp": False})
for _ in range(3):
    train()
print(len(train._specializations), "gradcore.backends.cupy.backend" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.split() == ["1", "False"]


def test_errors_and_warnings_of_constants_are_those_of_each_run() -> None:
    compiled = CompiledFunction(lambda x: x + gc.zeros(2, dtype=gc.int64) // gc.zeros(2, dtype=gc.int64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                compiled(gc.zeros(2))
