"""Memory of saved tensors, by operation and by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gradcore.tools.inspection import is_freed, reachable, roots, saved_values, storage
from gradcore.tools.viz.markup import escape
from gradcore.tools.viz.source_lines import SourceLine, line_of_node

__all__ = ["MemoryReport", "MemoryRow", "bytes_text", "memory"]


class MemoryRow(NamedTuple):
    """The nodes of one kind that were recorded at one line."""

    operation: str
    line: SourceLine | None
    nodes: int
    #: Bytes of tensors that only the graph needs; each piece of memory is counted once, where it was saved first.
    saved: int
    #: Bytes of leaves (parameters) that the nodes refer to, which are there without the graph as well.
    leaves: int


def bytes_text(number: float) -> str:
    """Return a number of bytes with a unit: ``'1.5 MiB'``."""
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


class MemoryReport:
    """Result of `memory`; prints as a table.

    Attributes
    ----------
    rows : list of MemoryRow
        The largest first.
    nodes : int
        All nodes of the graph.
    freed : int
        The number of nodes whose saved tensors have been freed.
    total : int
        Bytes that the graph keeps alive, without leaves.
    leaves : int
        Bytes of leaves.
    """

    def __init__(self, rows: list[MemoryRow], freed: int) -> None:
        self.rows, self.freed = rows, freed
        self.nodes = sum(row.nodes for row in rows)
        self.total = sum(row.saved for row in rows)
        self.leaves = sum(row.leaves for row in rows)

    @property
    def summary(self) -> str:
        """Return a summary in one line."""
        text = f"{self.nodes} nodes keep {bytes_text(self.total)} for backward"
        if self.leaves:
            text += f", and refer to {bytes_text(self.leaves)} of leaves"
        return text + (f"; {self.freed} nodes have been freed" if self.freed else "")

    def _cells(self) -> Iterator[tuple[str, ...]]:
        yield "operation", "nodes", "saved", "of leaves", "line"
        for row in self.rows:
            line = "" if row.line is None else f"{row.line}  {row.line.text}"
            yield row.operation, str(row.nodes), bytes_text(row.saved), bytes_text(row.leaves), line

    def __str__(self) -> str:
        table = list(self._cells())
        widths = [max(len(cells[i]) for cells in table) for i in range(4)]
        lines = [
            "  ".join([first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(rest, widths[1:], strict=True)), line])
            for first, *rest, line in table
        ]
        return "\n".join([self.summary, "", *(line.rstrip() for line in lines)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *body = (list(map(escape, cells)) for cells in self._cells())
        rows = "".join(f"<tr><td>{'</td><td>'.join(cells)}</td></tr>" for cells in body)
        return f"<p>{escape(self.summary)}</p><table><tr><th>{'</th><th>'.join(head)}</th></tr>{rows}</table>"


def memory(tensors: Any, *, limit: int | None = 30) -> MemoryReport:
    """Return the memory that the graph of tensors keeps alive until backward has run.

    Parameters
    ----------
    tensors : Tensor, GradientEdge or nested container of them
        The results.
    limit : int or None
        The maximal number of rows; the remaining rows are added up in one.

    Returns
    -------
    MemoryReport
        Prints as a table. Lines of source are shown where they were noted, see `record`.

    Raises
    ------
    RuntimeError
        If none of the tensors requires grad.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.ones(1000, requires_grad=True)
    >>> print(gradcore.viz.memory((x.exp() * x).sum()))
    4 nodes keep 3.9 KiB for backward, and refer to 3.9 KiB of leaves
    <BLANKLINE>
    operation       nodes    saved  of leaves  line
    ExpBackward0        1  3.9 KiB        0 B
    MulBackward0        1      0 B    3.9 KiB
    AccumulateGrad      1      0 B        0 B
    SumBackward0        1      0 B        0 B
    """
    arrays: dict[int, Any] = {}  # the arrays themselves, so that none is freed while its address is a key
    groups: dict[tuple[str, SourceLine | None], list[int]] = {}
    freed_count = 0
    for node in reversed(reachable(roots(tensors))):
        counts = groups.setdefault((type(node).__name__, line_of_node(node)), [0, 0, 0])
        counts[0] += 1
        freed_count += is_freed(node)
        for value in saved_values(node):
            key, size = storage(value.array)
            if key not in arrays:
                arrays[key] = value.array
                counts[1 if value.leaf is None else 2] += size
    rows = [MemoryRow(name, line, *counts) for (name, line), counts in groups.items()]
    rows.sort(key=lambda row: (-row.saved, -row.leaves, row.operation, str(row.line)))
    if limit is not None and len(rows) > limit:
        rest = rows[limit - 1 :]
        sums = [sum(sizes) for sizes in zip(*(row[2:] for row in rest), strict=True)]
        remainder = MemoryRow(f"{len(rest)} more", None, *sums)
        rows = [*rows[: limit - 1], remainder]
    return MemoryReport(rows, freed_count)
