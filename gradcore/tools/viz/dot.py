"""Graphs in the language of Graphviz, and layouts computed by Graphviz."""

from __future__ import annotations

from collections.abc import Sequence

from gradcore.tools.viz.description import Description
from gradcore.tools.viz.drawing import COLOURS
from gradcore.tools.viz.layout import Layout

__all__ = ["dot", "lay_out_with_dot"]

POINTS = 72.0


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def dot(description: Description) -> str:
    """Return the graph in the language of Graphviz; edges lead in the direction of the computation."""
    lines = ["digraph gradcore {", f"  label={_quote(description.summary)};"]
    lines.append('  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=11];')
    for number, vertex in enumerate(description.vertices):
        head, body = COLOURS[vertex.kind]
        title = vertex.title + (f" x {vertex.count}" if vertex.count > 1 else "")
        text = "\n".join([title, *vertex.facts, *(f"saved: {saved}" for saved in vertex.saved)])
        lines.append(f'  n{number} [label={_quote(text)}, color="{head}", fillcolor="{body}"];')
    for a, b, count, label in description.edges:
        texts = ([f"x {count}"] if count > 1 else []) + ([label] if label else [])
        lines.append(f"  n{a} -> n{b}" + (f" [label={_quote(', '.join(texts))}]" if texts else "") + ";")
    return "\n".join([*lines, "}", ""])


def lay_out_with_dot(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Layout | None:
    """Return the positions found by Graphviz's program ``dot``, or None if it is not installed or fails."""
    import shutil
    import subprocess

    program = shutil.which("dot")
    if program is None:
        return None
    lines = ["digraph {", "node [shape=box, fixedsize=true]; nodesep=0.35; ranksep=0.55; splines=true;"]
    for i, (w, h) in enumerate(sizes):
        lines.append(f"n{i} [width={w / POINTS:.4f}, height={h / POINTS:.4f}];")
    # The program returns edges in an order of its own: each one carries its number.
    lines += [f'n{a} -> n{b} [label="{number}"];' for number, (a, b) in enumerate(edges) if a != b]
    try:
        process = subprocess.run(
            [program, "-Tplain"], input="\n".join([*lines, "}"]), capture_output=True, text=True, timeout=60, check=True
        )
        return _read(process.stdout, len(sizes), edges)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _read(text: str, n: int, edges: Sequence[tuple[int, int]]) -> Layout:
    """Read Graphviz's format ``plain``."""
    import shlex

    width = height = 0.0
    centres = [(0.0, 0.0)] * n
    routes: list[list[tuple[float, float]]] = [[] for _ in edges]

    def point(x: str, y: str) -> tuple[float, float]:
        return float(x) * POINTS, height - float(y) * POINTS

    for line in text.splitlines():
        kind, *words = shlex.split(line) or [""]
        if kind == "graph":
            width, height = float(words[1]) * POINTS, float(words[2]) * POINTS
        elif kind == "node":
            centres[int(words[0][1:])] = point(words[1], words[2])
        elif kind == "edge":
            count = int(words[2])
            control = [point(words[3 + 2 * i], words[4 + 2 * i]) for i in range(count)]
            routes[int(words[3 + 2 * count])] = control[::3]  # the points where cubic pieces meet
    return Layout(centres, routes, width, height)
