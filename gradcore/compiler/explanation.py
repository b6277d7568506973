"""The text of `explain`: each pass, fused kernels, calls that are not fused, the memory plan, and the source."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, NamedTuple

from gradcore.compiler.capture.reasons import Reason
from gradcore.compiler.program.memory import memory_plan
from gradcore.compiler.program.passes import optimize, run_passes
from gradcore.compiler.program.program import Program
from gradcore.compiler.targets.cuda.groups import fuse_on_cuda
from gradcore.compiler.targets.python.call_lists import list_calls
from gradcore.compiler.targets.python.emitter import source_of
from gradcore.compiler.targets.python.numpy_calls import use_numpy
from gradcore.compiler.targets.python.tiles import fuse_calls

__all__ = ["Explanation", "explain_program", "optimize_and_fuse"]


def optimize_and_fuse(program: Program) -> Program:
    """Return the program that the Python target emits, fused kernels included, call lists excepted."""
    return _fuse(optimize(program), [])


def _fuse(program: Program, refused: list[str]) -> Program:
    return (fuse_calls if program.backend is None else fuse_on_cuda)(program, refused)


class Explanation(NamedTuple):
    """The result of `gradcore.compiler.explain`, with PyTorch's field names.

    Attributes
    ----------
    graph_count : int
        The number of programs.
    break_reasons : list of Reason
    """

    graph_count: int
    break_reasons: list[Reason]

    @property
    def graph_break_count(self) -> int:
        """The number of statements that cannot be captured."""
        return len(self.break_reasons)

    def __str__(self) -> str:
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}"]
        lines += [f"  {each.file}:{each.line}: {each.advice}" for each in self.break_reasons]
        return "\n".join(lines)


def explain_program(name: str, program: Program) -> Iterator[str]:
    """Yield the description of a program and its passes, line by line.

    Parameters
    ----------
    name : str
        The name of the program for readers: "program", "part 1", "backward".
    program : Program
        The program as captured, before any pass.
    """
    yield f"{name}, as it is recorded ({len(program.calls)} calls):"
    yield from _indent(repr(program))
    for stage, next_program in run_passes(program):
        yield from _changes(stage, program, next_program)
        program = next_program
    refused: list[str] = []
    result = _fuse(program, refused)
    yield from _changes("fused", program, result)
    if program.backend is None:
        for stage, write in (("specialized", use_numpy), ("listed", list_calls)):
            previous, result = result, write(result)
            yield from _changes(stage, previous, result)
    groups: list[Any] = [call.function for call in result.calls if call.name in ("fused", "listed")]
    for number, group in enumerate(groups):
        yield f"group {number} of the {name} ({group.summary}):"
        yield from (f"  {each!r}" for each in group.calls)
    if refused:
        yield f"not fused in the {name}:"
        yield from (f"  {each}" for each in refused)
    if program.backend is None:
        yield f"memory of the {name}:"
        yield from _indent(str(memory_plan(result)))
    yield f"source of the {name}:"
    yield from _indent("\n    ".join(source_of(result)[0]))


def _changes(stage: str, before: Program, after: Program) -> Iterator[str]:
    """Yield the lines that a pass removes and adds."""
    lines = [*difflib.unified_diff(_lines(before), _lines(after), n=0, lineterm="")][2:]  # without the header
    changed_lines = [f"{line[0]} {line[1:]}" for line in lines if line[0] in "+-"]
    if changed_lines:
        yield f"{stage} ({len(after.calls)} calls):"
        yield from (f"  {line}" for line in changed_lines)


def _lines(program: Program) -> list[str]:
    scalars = ", ".join(f"v{n}" for n in sorted(program.scalars))
    return [*repr(program).splitlines(), *([f"made arrays of scalars: {scalars}"] if scalars else [])]


def _indent(text: str) -> Iterator[str]:
    return (f"  {line}" for line in text.splitlines())
