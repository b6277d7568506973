"""Programs in words: each pass, groups of fused calls and why others are none, the memory plan, and the source."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, NamedTuple

from gradcore.compiler.program.memory import memory_plan
from gradcore.compiler.program.passes import optimized, stages
from gradcore.compiler.program.program import Program
from gradcore.compiler.targets.cuda.groups import grouped
from gradcore.compiler.targets.python.call_lists import listed
from gradcore.compiler.targets.python.emitter import source_of
from gradcore.compiler.targets.python.numpy_calls import specialized
from gradcore.compiler.targets.python.tiles import fused

__all__ = ["Explanation", "GraphBreak", "explained", "final"]


def final(program: Program) -> Program:
    """The program that the writer of Python writes, groups included, but for lists of calls that the library makes."""
    return _with_groups(optimized(program), [])


def _with_groups(program: Program, refused: list[str]) -> Program:
    return (fused if program.backend is None else grouped)(program, refused)


class GraphBreak(NamedTuple):
    """A statement that cannot be captured.

    Attributes
    ----------
    reason : str
    file : str
    line : int
        That of the statement, or of the function if it is not known.
    remedy : str or None
    """

    reason: str
    file: str
    line: int
    remedy: str | None


class Explanation(NamedTuple):
    """The outcome of `gradcore.compiler.explain`, in the words of PyTorch.

    Attributes
    ----------
    graph_count : int
        The number of programs.
    break_reasons : list of GraphBreak
    """

    graph_count: int
    break_reasons: list[GraphBreak]

    @property
    def graph_break_count(self) -> int:
        """The number of statements that cannot be captured."""
        return len(self.break_reasons)

    def __str__(self) -> str:
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}"]
        for reason, file, line, remedy in self.break_reasons:
            lines += [f"  {file}:{line}: {reason}{f'; {remedy}' if remedy else ''}"]
        return "\n".join(lines)


def explained(name: str, program: Program) -> Iterator[str]:
    """Describe what becomes of a program, line by line.

    Parameters
    ----------
    name : str
        What it is called: the program, a part, backward.
    program : Program
        As it was recorded.
    """
    yield f"{name}, as it is recorded ({len(program.calls)} calls):"
    yield from _indented(repr(program))
    for stage, after in stages(program):
        yield from _changes(stage, program, after)
        program = after
    refused: list[str] = []
    whole = _with_groups(program, refused)
    yield from _changes("fused", program, whole)
    if program.backend is None:
        for stage, write in (("specialized", specialized), ("listed", listed)):
            before, whole = whole, write(whole)
            yield from _changes(stage, before, whole)
    groups: list[Any] = [call.function for call in whole.calls if call.name in ("fused", "listed")]
    for number, group in enumerate(groups):
        yield f"group {number} of the {name} ({group.described}):"
        yield from (f"  {each!r}" for each in group.calls)
    if refused:
        yield f"not fused in the {name}:"
        yield from (f"  {each}" for each in refused)
    if program.backend is None:
        yield f"memory of the {name}:"
        yield from _indented(str(memory_plan(whole)))
    yield f"source of the {name}:"
    yield from _indented(source_of(whole)[0])


def _changes(stage: str, before: Program, after: Program) -> Iterator[str]:
    """Yield the lines that a pass removes and adds."""
    lines = [*difflib.unified_diff(_lines(before), _lines(after), n=0, lineterm="")][2:]  # below the heading
    changed = [f"{line[0]} {line[1:]}" for line in lines if line[0] in "+-"]
    if changed:
        yield f"{stage} ({len(after.calls)} calls):"
        yield from (f"  {line}" for line in changed)


def _lines(program: Program) -> list[str]:
    scalars = ", ".join(f"v{n}" for n in sorted(program.scalars))
    return [*repr(program).splitlines(), *([f"made arrays of scalars: {scalars}"] if scalars else [])]


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}" for line in text.splitlines())
