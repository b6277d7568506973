"""Description of a drawing: a vertex for each node or group of like nodes, and the edges between them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gradcore.autograd.graph import GradientEdge
from gradcore.tensor import Tensor
from gradcore.tools.inspection import (
    Saved,
    device_of,
    edges_of,
    gradient_edge,
    is_freed,
    operation_of,
    reachable,
    result_shapes,
    roots,
    saved_values,
    storage,
)
from gradcore.tools.viz.memory import bytes_text
from gradcore.tools.viz.source_lines import SourceLine, line_of_node
from gradcore.utils._pytree import tree_leaves

__all__ = ["Description", "Vertex", "describe"]

#: The kinds of vertices, with their texts in the legend.
KINDS = {
    "result": "result",
    "operation": "operation",
    "view": "view or write in place",
    "function": "custom function",
    "fused": "fused calls",
    "leaf": "leaf",
    "input": "input",
}
DTYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "complex64": "c64"} | {
    "complex128": "c128", "int64": "i64", "int32": "i32", "uint8": "u8", "bool": "bool"
}  # fmt: skip


@dataclass
class Vertex:
    """A card of a drawing.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    title : str
        The name of the operation or of the tensor.
    facts : list of str
        Lines below the title: shape, device, source, time.
    saved : list of str
        A short text for each tensor that is kept for backward.
    details : dict
        Further entries of the tooltip.
    count : int
        The number of nodes that the card represents.
    """

    kind: str
    title: str
    facts: list[str] = field(default_factory=list)
    saved: list[str] = field(default_factory=list)
    details: dict[str, str] = field(default_factory=dict)
    count: int = 1


@dataclass
class Description:
    """Vertices and edges: ``(from, to, how many, label)``, in the direction of the computation."""

    vertices: list[Vertex]
    edges: list[tuple[int, int, int, str]]
    #: A line on the whole graph.
    summary: str
    grouped: bool


def describe(tensors: Any, params: Any, max_nodes: int) -> Description:
    """Describe the graph of tensors; graphs of more than `max_nodes` nodes are drawn in groups."""
    names = _names(params)
    nodes = reachable(roots(tensors))
    grouped = len(nodes) > max_nodes
    writer = _Groups(names) if grouped else _Each(names)
    return writer.describe(nodes, tensors)


def _names(params: Any) -> dict[int, str]:
    """Return the names of tensors by their identity; names of non-leaves are used for the results."""
    if params is None:
        return {}
    if hasattr(params, "named_parameters"):
        params = [*params.named_parameters(), *params.named_buffers()]
    pairs: Iterable[tuple[str, Any]] = params.items() if isinstance(params, Mapping) else params
    return {id(t): str(name) for name, t in pairs}


def shape_text(shape: Iterable[int], dtype: str) -> str:
    """Return text such as ``'2 x 3 f32'``, with the sign of multiplication."""
    sizes = " × ".join(map(str, shape)) or "scalar"  # noqa: RUF001
    return f"{sizes}  {DTYPES.get(dtype, dtype)}"


def _describe_tensor(t: Any) -> str:
    return shape_text(t.shape, str(t.dtype).removeprefix("torch."))


def _device(device: Any) -> list[str]:
    return [] if str(device) == "cpu" else [f"on {device}"]


def title_of(node: Any) -> str:
    """Return the operation's name, as users call it."""
    if node._inner is not None:
        return f"CopySlices: {title_of(node._inner)}"
    called = (getattr(node, "_metadata", None) or {}).get("called", "")
    if called and not called.startswith("__"):
        return str(called)
    op = operation_of(node)
    if op is not None:
        # Operations with a number and with a tensor are one function for users.
        return str(op.name).removesuffix("_").removesuffix("_number").removesuffix("_tensor")
    name = type(node).__name__
    return name.removesuffix("Backward") if hasattr(node, "_forward_cls") else re.sub(r"Backward\d+$", "", name)


def kind_of(node: Any) -> str:
    """Return the member of `KINDS` that a node is drawn as."""
    if node.is_accumulator:
        return "leaf"
    if hasattr(node, "_forward_cls"):
        return "function"
    is_write = title_of(node).endswith("_") or node._inner is not None
    op = operation_of(node)
    return "view" if is_write or (op is not None and op.view) else "operation"


def saved_text(value: Saved) -> str:
    """Return a saved tensor in a few characters."""
    return f"{value.name}  {shape_text(value.array.shape, value.dtype)}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.3g} µs"


class _Writer:
    def __init__(self, names: dict[int, str]) -> None:
        self.names = names
        self.vertices: list[Vertex] = []
        self.edges: Counter[tuple[int, int, str]] = Counter()
        self.of: dict[Any, int] = {}
        #: The vertices of the results, with their edges.
        self.results: list[tuple[int, Any]] = []
        self.saved: dict[Any, list[Saved]] = {}

    def add(self, vertex: Vertex) -> int:
        self.vertices.append(vertex)
        return len(self.vertices) - 1

    def describe(self, nodes: list[Any], tensors: Any) -> Description:
        """Return the description of the graph of `tensors`, whose nodes are `nodes`."""
        for value in [tensors] if isinstance(tensors, GradientEdge) else tree_leaves(tensors):
            edge = gradient_edge(value) if isinstance(value, Tensor) else None
            edge = value[:2] if isinstance(value, GradientEdge) else edge
            if edge is not None and not edge[0].is_accumulator:
                self.result(value, edge)
        self.saved = {node: values for node in nodes if (values := saved_values(node))}
        self.fill(nodes)
        edges = [(a, b, count, label) for (a, b, label), count in self.edges.items()]
        arrays: dict[int, Any] = {}
        for values in self.saved.values():
            arrays.update((storage(value.array)[0], value.array) for value in values if value.leaf is None)
        total = sum(storage(array)[1] for array in arrays.values())
        freed_count = sum(map(is_freed, nodes))
        summary = f"{len(nodes):,} nodes · {bytes_text(total)} kept for backward"
        summary += f" · {freed_count:,} freed" if freed_count else ""
        return Description(self.vertices, edges, summary, isinstance(self, _Groups))

    def result(self, value: Any, edge: Any) -> None:
        number = sum(v.kind == "result" for v in self.vertices)
        name = self.names.get(id(value), "result" if not number else f"result {number + 1}")
        facts = [_describe_tensor(value), *_device(value.device)] if isinstance(value, Tensor) else []
        self.results.append((self.add(Vertex("result", name, facts)), edge))

    def fill(self, nodes: list[Any]) -> None:
        raise NotImplementedError


class _Each(_Writer):
    """A vertex for each node."""

    def fill(self, nodes: list[Any]) -> None:
        shapes = result_shapes(nodes)
        for node in nodes:
            self.of[node] = self.add(self.vertex(node, shapes.get(node)))
        for number, (node, output) in self.results:
            self.edges[self.of[node], number, f"output {output}" if output else ""] += 1
        for node in nodes:
            for source, output in edges_of(node):
                label = f"output {output}" if output else ""
                self.edges[self.of[source], self.of[node], label] += 1

    def vertex(self, node: Any, shape: Any) -> Vertex:
        """Return the card of a node."""
        kind = kind_of(node)
        if kind == "leaf":
            t = node.variable
            name = self.names.get(id(t), "leaf")
            details = {"node": node.name(), "bytes": bytes_text(t.nbytes), "device": str(t.device)}
            return Vertex(kind, name, [_describe_tensor(t), *_device(t.device)], [], details)
        facts = [shape_text(*shape)] if shape else []
        facts += _device(device_of(node))
        details = {"node": node.name(), "device": str(device_of(node))}
        line = line_of_node(node)
        if line is not None:
            facts.append(str(line))
            details |= {"line": f"{line} in {line.function}", "source": line.text}
        notes = getattr(node, "_metadata", None) or {}
        facts += ["in backward"] if notes.get("in backward") else []
        times = [f"{n} {_milliseconds(notes[n])}" for n in ("forward", "backward") if n in notes]
        facts += [" · ".join(times)] if times else []
        values = self.saved.get(node, [])
        saved = (
            ["freed"] if is_freed(node) and getattr(node, "holds_tensors", True) else [saved_text(v) for v in values]
        )
        for value in values:
            leaf = "" if value.leaf is None else f" (the leaf {self.names.get(id(value.leaf), '')})".replace(" )", ")")
            details[f"saved {value.name}"] = f"{saved_text(value)}, {bytes_text(value.array.nbytes)}{leaf}"
        return Vertex(kind, title_of(node), facts, saved, details)


class _Groups(_Writer):
    """A vertex for all nodes of one operation that were recorded at one line. Leaves share a few vertices."""

    def fill(self, nodes: list[Any]) -> None:
        groups: dict[Any, int] = {}
        saved: Counter[int] = Counter()
        for node in nodes:
            key = self.key(node)
            number = groups.get(key)
            if number is None:
                number = groups[key] = self.add(self.first(node, key))
            else:
                self.vertices[number].count += 1
            self.of[node] = number
            if node in self.saved:
                saved[number] += sum(v.array.nbytes for v in self.saved[node] if v.leaf is None)
        for number, (node, _) in self.results:
            self.edges[self.of[node], number, ""] += 1
        for node in nodes:
            vertex_number = self.of[node]
            for source, _ in edges_of(node):
                self.edges[self.of[source], vertex_number, ""] += 1
        for number, size in saved.items():
            if size:
                self.vertices[number].saved.append(f"{bytes_text(size)} saved")

    def key(self, node: Any) -> tuple[Any, ...]:
        """Return the key of the group that a node belongs to."""
        if node.is_accumulator:
            return "leaf", self.names.get(id(node.variable))
        return type(node), line_of_node(node)

    def first(self, node: Any, key: tuple[Any, ...]) -> Vertex:
        """Return the card of a group, by its first node."""
        if node.is_accumulator:
            return Vertex("leaf", key[1] or "leaves", [] if key[1] is None else [_describe_tensor(node.variable)])
        line: SourceLine | None = key[1]
        details = {"node": node.name()}
        facts = []
        if line is not None:
            facts.append(str(line))
            details |= {"line": f"{line} in {line.function}", "source": line.text}
        return Vertex(kind_of(node), title_of(node), facts, [], details)
