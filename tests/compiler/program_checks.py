"""A verifier of programs: what must hold for a program after each pass, and for its memory plan."""

from __future__ import annotations

import itertools

from gradcore.compiler.program.memory import MemoryPlan
from gradcore.compiler.program.program import Literal, Program, Value, map_leaves

__all__ = ["check_pass", "check_plan", "check_program"]


def check_program(program: Program) -> None:
    """Check that each value is defined before it is used, and that its type fits to what is known of it."""
    defined = {*program.inputs, *program.symbols}
    assert len(set(program.inputs)) == len(program.inputs), "an input is given twice"
    for position, call in enumerate(program.calls):
        where = f"call {position}, {call!r}"
        assert defined.issuperset(call.read), f"{where} reads {set(call.read) - defined} before it is computed"

        def check_leaf(leaf: object, where: str = where) -> None:
            if isinstance(leaf, Literal):
                assert 0 <= leaf.number < len(program.literals), f"{where} reads {leaf}, which does not exist"

        map_leaves(check_leaf, (call.args, call.named))
        defined.update(call.outputs)
        for n in call.outputs:
            kind = program.types.get(n)
            if kind is not None:
                assert len(kind.strides) == len(kind.shape), f"{where}: v{n} has strides {kind.strides}"
                if call.name in ("fused", "listed"):
                    assert kind.memory == n, f"{where}: v{n} is a view"
    assert defined.issuperset(program.outputs), f"outputs {set(program.outputs) - defined} are not computed"
    unlike = [n for n in program.scalars if n in program.types and program.types[n].shape]
    assert not unlike, f"{unlike} are no scalars"


def check_pass(before: Program, after: Program) -> None:
    """Check a program after a pass: callers give it the same inputs and get as many outputs of the same types."""
    check_program(after)
    assert after.inputs == before.inputs
    assert len(after.outputs) == len(before.outputs)
    for old, new in zip(before.outputs, after.outputs, strict=True):
        kinds = [None if kind is None else kind[:2] for kind in (before.types.get(old), after.types.get(new))]
        assert kinds[0] == kinds[1], f"output v{old} of type {kinds[0]} has become v{new} of type {kinds[1]}"
    assert after.symbols == before.symbols
    assert after.backend is before.backend


def check_plan(program: Program, plan: MemoryPlan) -> None:
    """Check that values that are needed at the same time have memory of their own, inside of the arena."""
    last_use: dict[int, int] = {}
    for position, call in enumerate(program.calls):
        for n in (*call.read, *call.outputs):
            memory = program.types[n].memory if n in program.types else n
            last_use[memory] = position
    ends = {n: offset + program.types[n].nbytes for n, offset in plan.offsets.items()}
    for n, offset in plan.offsets.items():
        assert 0 <= offset <= ends[n] <= plan.size, f"v{n} is not inside of the arena"
        assert n not in program.outputs, f"output v{n} is in the arena"
        assert plan.lifetimes[n][1] >= last_use[n], f"v{n} is read after its memory is given away"
    for a, b in itertools.combinations(plan.offsets, 2):
        if plan.offsets[a] < ends[b] and plan.offsets[b] < ends[a]:
            first, second = sorted((a, b), key=lambda n: plan.lifetimes[n])
            # A call may write over an argument that it reads for the last time, element by element.
            assert plan.lifetimes[first][1] <= plan.lifetimes[second][0], f"v{first} and v{second} share memory"
            if plan.lifetimes[first][1] == plan.lifetimes[second][0]:
                reading = program.calls[plan.lifetimes[second][0]]
                assert Value(first) in reading.args, f"v{second} is written over v{first} by {reading!r}"
                assert plan.offsets[first] == plan.offsets[second], f"v{second} is written over parts of v{first}"
