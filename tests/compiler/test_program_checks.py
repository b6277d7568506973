"""The verifier of programs finds programs that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gradcore as gc
from gradcore.compiler.function import CompiledFunction
from gradcore.compiler.program.memory import MemoryPlan, memory_plan
from gradcore.compiler.program.passes import optimize
from gradcore.compiler.program.program import Literal, Program, Value
from tests.compiler.program_checks import check_pass, check_plan, check_program


def a_program() -> Program:
    """Return a program with large values, a literal and buffers."""
    compiled = CompiledFunction(lambda x: ((x + gc.ones(1 << 15)).exp() * x).sin() * 2 + x, cpp="0")
    for _ in range(3):
        compiled(gc.ones(1 << 15))
    return optimize(compiled._specializations[0].programs[0])


def _reorder(program: Program) -> None:
    program.calls[0], program.calls[1] = program.calls[1], program.calls[0]


def _use_no_literal(program: Program) -> None:
    program.calls[1] = program.calls[1]._replace(args=(Literal(99),))


#: Faults that a pass may have.
FAULTS: dict[str, Callable[[Program], Any]] = {
    "order": _reorder,
    "missing call": lambda program: program.calls.pop(1),
    "missing last call": lambda program: program.calls.pop(),
    "literal": _use_no_literal,
    "output": lambda program: program.outputs.__setitem__(0, 999),
    "scalar": lambda program: program.scalars.add(program.outputs[0]),
    "strides": lambda program: program.types.update(
        {program.outputs[0]: program.types[program.outputs[0]]._replace(strides=())}
    ),
    "input": lambda program: program.inputs.append(program.inputs[0]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_passes_are_found(name: str) -> None:
    program = a_program()
    check_program(program)
    FAULTS[name](program)
    with pytest.raises(AssertionError):
        check_program(program)


@pytest.mark.parametrize("fault", ["inputs", "outputs", "types"])
def test_a_pass_keeps_what_callers_see(fault: str) -> None:
    program = a_program()
    other = program.copy(program.calls)
    check_pass(program, other)
    if fault == "types":
        n = other.outputs[0]
        other.types[n] = other.types[n]._replace(shape=(2, *other.types[n].shape), strides=(4, *other.types[n].strides))
    elif fault == "inputs":
        other.inputs.insert(0, 500)
    else:
        other.outputs.append(other.outputs[0])
    with pytest.raises(AssertionError):
        check_pass(program, other)


#: Faults of memory plans.
PLANS: dict[str, Callable[[Program, MemoryPlan], MemoryPlan]] = {
    "small": lambda program, plan: plan._replace(size=1),
    "early": lambda program, plan: plan._replace(lifetimes={n: (i, i) for n, (i, _) in plan.lifetimes.items()}),
    "output": lambda program, plan: plan._replace(
        offsets={**plan.offsets, program.outputs[0]: 0}, lifetimes={**plan.lifetimes, program.outputs[0]: (9, 9)}
    ),
    "shared": lambda program, plan: plan._replace(offsets=dict.fromkeys(plan.offsets, 0)),
    "moved": lambda program, plan: plan._replace(offsets={n: 64 * (n == 3) for n in plan.offsets}),
}


@pytest.mark.parametrize("name", PLANS)
def test_faults_of_memory_plans_are_found(name: str) -> None:
    program = Program()
    kind = a_program().types[a_program().outputs[0]]
    program.inputs, program.outputs = [0], [4]
    program.types = {n: kind._replace(memory=n) for n in range(5)}
    calls = a_program().calls
    add = next(call for call in calls if call.last_name == "add")
    operands = {1: (0, 0), 2: (0, 1), 3: (1, 2), 4: (3, 2)}
    program.calls = [add._replace(args=(Value(a), Value(b)), results=Value(n)) for n, (a, b) in operands.items()]
    plan = memory_plan(program)
    assert plan.offsets
    check_plan(program, plan)
    with pytest.raises(AssertionError):
        check_plan(program, PLANS[name](program, plan))
