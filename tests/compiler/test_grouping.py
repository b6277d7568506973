"""The schedule of fusion passes: reordered calls compute the same values, and errors leave the same inputs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcore.compiler.program.program import ArrayType, Call, Program, Value
from gradcore.compiler.targets.grouping import Grouping, Leaf
from tests.compiler.program_checks import check_pass
from tests.compiler.test_passes import run

KIND = ArrayType((4,), np.dtype("f8"), (8,), -1)


class _OfSums(Grouping):
    """A pass that groups additions, at most five."""

    def key(self, call: Call) -> bool | None:
        return True if call.name == "operator.add" else None

    def joins(self, group: Any, call: Call) -> bool:
        return len(group) < 5

    def fuse(self, calls: list[Call], inputs: list[Leaf], outputs: list[int]) -> tuple[Callable[..., Any], list[Leaf]]:
        group = Program()
        group.inputs, group.calls, group.outputs = [leaf.number for leaf in inputs], calls, outputs
        return lambda *arrays: tuple(run(group, [*arrays])), inputs


def drawn(seed: int) -> tuple[Program, list[int], set[int]]:
    """Return a program of sums, copies, views and writes, the numbers of its copies, and the set of failing ones."""
    random, program, copies, failing = np.random.default_rng(seed), Program(), list[int](), set[int]()
    program.inputs = [program.new_value(KIND).number for _ in range(3)]
    values = [*program.inputs]

    def copy(array: Any, number: int) -> Any:
        if number in failing:
            raise IndexError
        return array.copy()

    for i in range(40):
        a, b = (Value(int(n)) for n in random.choice(values[-8:], 2))
        target = Value(int(random.integers(3))) if random.random() < 0.7 else a
        chance = random.random()
        if chance < 0.2:
            call = Call("operator.iadd", operator.iadd, (target, b), {}, target)
        elif chance < 0.25:
            call = Call("operator.setitem", operator.setitem, (target, slice(2), 0.5), {}, None)
        elif chance < 0.65:
            call = Call("operator.add", operator.add, (a, b), {}, program.new_value(KIND))
        elif chance < 0.9:
            copies.append(i)
            call = Call("operator.getitem", copy, (a, i), {}, program.new_value(KIND))
        else:
            view = program.new_value(KIND)
            program.types[view.number] = KIND._replace(strides=(-8,), memory=program.types[a.number].memory)
            call = Call("operator.getitem", operator.getitem, (a, slice(None, None, -1)), {}, view)
        program.calls.append(call)
        values += call.outputs
    program.outputs = values[-4:]
    return program, copies, failing


@pytest.mark.parametrize("waits", [False, True])
def test_schedules_keep_values_and_what_errors_leave(waits: bool) -> None:
    arrays = np.random.default_rng(0).standard_normal((3, 4))
    fused = 0
    for seed in range(25):
        program, copies, failing = drawn(seed)
        after = _OfSums(program, [], waits).run()
        check_pass(program, after)
        fused += sum(call.name == "fused" for call in after.calls)
        outcomes = []
        for each in (program, after):
            inputs = [*arrays.copy()]
            outcomes.append([each.tobytes() for each in (*run(each, inputs), *inputs)])
        assert outcomes[0] == outcomes[1]
        for number in copies:
            failing.add(number)
            left = []
            for each in (program, after):
                inputs = [*arrays.copy()]
                with pytest.raises(IndexError):
                    run(each, inputs)
                left.append([array.tobytes() for array in inputs])
            assert left[0] == left[1], f"seed {seed}: an error of call {number}"
            failing.clear()
    assert fused > 25
