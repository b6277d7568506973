"""Pictures of compiled programs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from gradcore.compiler.explanation import optimize_and_fuse
from gradcore.compiler.program.program import ArrayType, Call, Program, values_in
from gradcore.tools.viz.description import Description, Vertex, shape_text
from gradcore.tools.viz.memory import bytes_text
from gradcore.tools.viz.picture import Picture

__all__ = ["program"]


def program(compiled: Any, *args: Any, max_nodes: int = 150, engine: str | None = None, **kwargs: Any) -> Picture:
    """Return a picture of the program of a compiled function: its calls, after all passes.

    Inputs are at the top and results at the bottom. A group of fused calls is one card that lists them.

    Parameters
    ----------
    compiled : function
        A function that `gradcore.compile` has returned.
    *args, **kwargs
        Arguments; the function is called with them until there is a program.
    max_nodes : int
        Of larger programs, calls with the same name and type of result are one card.
    engine : {"dot", "own"}, optional
        As for `graph`.

    Returns
    -------
    Picture

    Raises
    ------
    RuntimeError
        If there is no program for these arguments.

    Examples
    --------
    >>> import gradcore as gc
    >>> compiled = gc.compile(lambda x: (x * 2).tanh().sum())
    >>> picture = gc.viz.program(compiled, gc.ones(3))
    >>> picture
    <Picture: 3 calls · 28 B of values>
    >>> [vertex.title for vertex in picture.vertices]
    ['result', 'sum', 'tanh', 'mul', 'input']
    """
    if engine not in (None, "dot", "own"):
        raise ValueError(f"engine must be 'dot' or 'own', but got {engine!r}")
    entry = compiled._specialize(args, kwargs)
    if entry is None:
        raise RuntimeError(f"there is no program for these arguments: {compiled._left}")
    drawing = _Drawing(max_nodes)
    parts = [optimize_and_fuse(each) for each in entry.programs]
    for name, part in zip(entry.names, parts, strict=True):
        drawing.add(part, "" if len(parts) == 1 else f"{name}: ")
    return Picture(drawing.description(parts), engine)


class _Drawing:
    """The cards and lines of programs."""

    def __init__(self, max_nodes: int) -> None:
        self.max_nodes = max_nodes
        self.vertices: list[Vertex] = []
        self.edges: Counter[tuple[int, int]] = Counter()
        self.grouped = False

    def add(self, part: Program, prefix: str) -> None:
        """Add a program; results first, inputs last."""
        grouped = len(part.calls) > self.max_nodes
        self.grouped |= grouped
        numbers: dict[Any, int] = {}
        reads: list[tuple[int, int]] = []
        for position, n in enumerate(part.outputs):
            title = "result" if not position else f"result {position + 1}"
            reads.append((n, self._vertex(Vertex("result", prefix + title, _facts(part.types.get(n))))))
        for call in reversed(part.calls):
            results = [*values_in(call.results)] or [*values_in(call.args)][:1]
            facts = _facts(part.types.get(results[0])) if results else []
            key: Any = (call.name, *facts) if grouped else id(call)
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = self._vertex(_card(call, part, facts))
            else:
                self.vertices[number].count += 1
            # The result of a write counts as its first argument, so that later reads depend on the write.
            for n in results:
                for read in [each for each in reads if each[0] == n]:
                    reads.remove(read)
                    self.edges[number, read[1]] += 1
            reads += [(n, number) for n in {*values_in(call.args), *values_in(call.named)}]
        for position, n in enumerate(part.inputs):
            title = "input" if len(part.inputs) == 1 else f"input {position + 1}"
            number = self._vertex(Vertex("input", prefix + title, _facts(part.types.get(n))))
            self.edges.update((number, reader) for read, reader in reads if read == n)

    def _vertex(self, vertex: Vertex) -> int:
        self.vertices.append(vertex)
        return len(self.vertices) - 1

    def description(self, parts: list[Program]) -> Description:
        """Return the description of the drawing."""
        calls = sum(len(part.calls) for part in parts)
        types = {
            n: part.types[n]
            for part in parts
            for call in part.calls
            for n in values_in(call.results)
            if n in part.types
        }
        size = sum(value_type.nbytes for n, value_type in types.items() if value_type.memory == n)
        summary = f"{calls:,} call{'s' if calls != 1 else ''} · {bytes_text(size)} of values"
        edges = [(a, b, count, "") for (a, b), count in self.edges.items() if a != b]
        return Description(self.vertices, edges, summary, self.grouped)


def _facts(known: ArrayType | None) -> list[str]:
    return [] if known is None else [shape_text(known.shape, str(known.dtype))]


def _card(call: Call, part: Program, facts: list[str]) -> Vertex:
    """Return the card of a call."""
    if call.name == "fused":
        group: Any = call.function
        titles = [each.name.partition(".")[2] for each in group.calls]
        lines = [" ".join(titles[i : i + 4]) for i in range(0, min(len(titles), 24), 4)]
        more = [f"and {len(titles) - 24} more"] if len(titles) > 24 else []
        return Vertex("fused", f"{len(titles)} fused calls", [*facts, *lines, *more])
    results = [part.types[n] for n in values_in(call.results) if n in part.types]
    is_view = not results or any(
        result_type.memory != n for n, result_type in zip(values_in(call.results), results, strict=False)
    )
    settings = {"call": repr(call)}
    return Vertex("view" if is_view else "operation", call.name.rpartition(".")[2], facts, [], settings)
