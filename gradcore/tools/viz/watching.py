"""Detection of loops that keep the graph of every iteration alive."""

from __future__ import annotations

import warnings
import weakref
from collections import defaultdict
from operator import methodcaller
from typing import Any, NamedTuple, Self

from gradcore.tensor import Tensor
from gradcore.tools.inspection import edges_of, gradient_edge, saved_values, storage
from gradcore.tools.viz.memory import bytes_text
from gradcore.tools.viz.source_lines import SourceLine, here
from gradcore.torch_names.overrides import TorchFunctionMode
from gradcore.utils._pytree import tree_leaves

__all__ = ["KeptGraphs", "watch_graphs"]


class KeptGraphs(NamedTuple):
    """Graphs that a loop keeps alive.

    Attributes
    ----------
    line : SourceLine
        The line at which they were recorded.
    grows : bool
        True if results are added up, so that the graphs form one growing graph; False if each graph is referenced.
    graphs : int
        The number of graphs, one for each iteration, that are alive.
    saved : int
        The bytes that the graphs keep for backward.
    """

    line: SourceLine
    grows: bool
    graphs: int
    saved: int

    def __str__(self) -> str:
        where = f"{self.line} ({self.line.text or self.line.function})"
        advice = (
            "use `loss.item()`, or `loss.detach()`, which have no graph, or compute under `gradcore.no_grad()`. If all "
            "of this is to be differentiated together, give watch_graphs a larger limit."
        )
        memory = f"keeping {bytes_text(self.saved)} for backward"
        if self.grows:
            return (
                f"{where}: what is added up here holds the graphs of {self.graphs} rounds, {memory}. Adding a loss "
                f"that requires grad to a total keeps its whole graph alive; {advice}"
            )
        return (
            f"{where}: {self.graphs} separate graphs that were recorded here are alive, {memory}. Something holds a "
            f"result of each round, as in `losses.append(loss)`; {advice}"
        )


class watch_graphs(TorchFunctionMode):
    """Context that warns about loops which keep the graphs of all iterations alive, with the line.

    It reports many separate graphs of the same leaves that come from one line and are alive at the same time, and a sum
    to which one line adds such a graph in each round. It does not report a sum over different leaves, nor the steps of
    one computation, such as a recurrent network or an inner optimization, because these depend on each other.

    Outside it costs nothing. Inside, every operation takes some tens of microseconds more.

    Parameters
    ----------
    limit : int
        The number of graphs at which a line is reported. Losses of single samples that are summed before
        backward are separate graphs too: choose a limit above their number.
    warn : bool
        Whether to warn, in addition to filling `found`.

    Attributes
    ----------
    found : list of KeptGraphs
        The reports, one for each line.

    Examples
    --------
    >>> import gradcore
    >>> weight, losses = gradcore.ones(3, requires_grad=True), []
    >>> with gradcore.viz.watch_graphs(limit=10, warn=False) as watch:
    ...     for _ in range(20):
    ...         loss = (weight * gradcore.rand(3)).sum()
    ...         losses.append(loss)  # keeps the graph; loss.item() would not
    >>> watch.found[0].graphs
    10
    """

    def __init__(self, limit: int = 50, warn: bool = True) -> None:
        if limit < 2:
            raise ValueError(f"limit must be at least 2, but got {limit}")
        self.limit, self.warn = limit, warn
        self.found: list[KeptGraphs] = []
        self._nodes: dict[SourceLine, list[weakref.ref[Any]]] = defaultdict(list)
        #: At how many entries a line is looked at again.
        self._next: dict[SourceLine, int] = {}

    def __enter__(self) -> Self:
        return super().__enter__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for t in (result,) if isinstance(result, Tensor) else tree_leaves(result):
            edge = gradient_edge(t) if isinstance(t, Tensor) else None
            if edge is not None and not edge[0].is_accumulator:
                self._add(here(), edge[0])
        return result

    def _add(self, line: SourceLine, node: Any) -> None:
        """Add a node that was recorded at a line; look for kept graphs when the line has enough living nodes."""
        nodes = self._nodes[line]
        nodes.append(weakref.ref(node))
        if len(nodes) < self._next.get(line, self.limit):
            return
        alive = list(dict.fromkeys(n for reference in nodes if (n := reference()) is not None))
        self._nodes[line] = [weakref.ref(n) for n in alive]
        self._next[line] = max(self.limit, 2 * len(alive))
        if len(alive) >= self.limit:
            self._look(line, alive)
            # The graph doubles before the next check, so that all checks together cost at most twice the last one.
            if not any(graphs.line == line for graphs in self.found):
                self._next[line] = max(self.limit, min(2 * len(alive), len(alive) + self.limit))

    def _look(self, line: SourceLine, alive: list[Any]) -> None:
        """Report a line whose nodes belong to at least `limit` graphs that are alive."""
        if any(graphs.line == line for graphs in self.found):
            return
        grows = True
        count, nodes = _added_up(alive)
        if count < self.limit:
            grows = False
            all_nodes = [n for nodes in self._nodes.values() for r in nodes if (n := r()) is not None]
            count, nodes = _separate(alive, all_nodes)
        if count >= self.limit:
            graphs = KeptGraphs(line, grows, count, _bytes(nodes))
            self.found.append(graphs)
            if self.warn:
                warnings.warn(str(graphs), stacklevel=5)


def _split_inputs(node: Any, first: int) -> tuple[list[Any], list[Any]]:
    """Return the input nodes of a node in two lists: nodes of the same iteration, and nodes that iterations may share.

    Shared nodes are leaves and nodes that are older than `first`.
    """
    own_nodes: list[Any] = []
    shared_nodes: list[Any] = []
    for source, _ in edges_of(node):
        is_shared = source.is_accumulator or source._sequence_nr() < first
        (shared_nodes if is_shared else own_nodes).append(source)
    return own_nodes, shared_nodes


def _separate(alive: list[Any], everything: list[Any]) -> tuple[int, list[Any]]:
    """Count the connected graphs that nodes belong to, and collect the nodes of all of them.

    Iterations of a loop share leaves, or nodes from before the first iteration. Graphs that share nothing with another
    graph are not counted. Nodes that are inputs of other nodes are not counted either, since those nodes are alive.
    """
    first = min(node._sequence_nr() for node in alive)
    group: dict[Any, int] = {}
    parent: list[int] = []

    def top(i: int) -> int:
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]
        return i

    inner_nodes: set[Any] = set()
    borders: dict[Any, set[int]] = defaultdict(set)
    for start in everything:
        if start in group or start._sequence_nr() < first:
            continue
        number = len(parent)
        parent.append(number)
        stack = [start]
        while stack:
            node = stack.pop()
            if node in group:
                parent[top(group[node])] = top(number)
                continue
            group[node] = number
            own_nodes, shared_nodes = _split_inputs(node, first)
            inner_nodes.update(own_nodes)
            stack.extend(own_nodes)
            for border in shared_nodes:
                borders[border].add(number)
    connected: set[int] = set()
    for numbers in borders.values():
        roots = {top(i) for i in numbers}
        connected |= roots if len(roots) > 1 else set()
    return len({top(group[node]) for node in alive if node not in inner_nodes} & connected), list(group)


def _added_up(alive: list[Any]) -> tuple[int, list[Any]]:
    """Count the graphs that a chain of additions joins, one in each step, and collect their nodes.

    Steps are nodes of one type. A step is counted if one of its inputs is another step, and its other inputs lead to no
    step, but to a leaf that the inputs of an earlier step have reached too.
    """
    kinds: dict[type, list[Any]] = defaultdict(list)
    for node in alive:
        kinds[type(node)].append(node)
    return max((_steps(nodes) for nodes in kinds.values()), key=lambda counted: counted[0])


def _steps(nodes: list[Any]) -> tuple[int, list[Any]]:
    steps = set(nodes)
    first = min(node._sequence_nr() for node in nodes)
    count = 0
    seen: set[Any] = set()
    borders: set[Any] = set()
    for node in sorted(nodes, key=methodcaller("_sequence_nr")):
        own_nodes, shared_nodes = _split_inputs(node, first)
        stack = [n for n in own_nodes if n not in steps]
        if len(stack) == len(own_nodes) or not (stack or shared_nodes):
            continue
        is_separate = True
        reached_nodes = set(shared_nodes)
        while stack:
            n = stack.pop()
            if n in steps:
                is_separate = False
            elif n not in seen:
                seen.add(n)
                own_nodes, shared_nodes = _split_inputs(n, first)
                stack.extend(own_nodes)
                reached_nodes.update(shared_nodes)
        count += is_separate and not borders.isdisjoint(reached_nodes)
        borders |= reached_nodes
    return count, [*nodes, *seen]


def _bytes(nodes: list[Any]) -> int:
    arrays: dict[int, Any] = {}
    total = 0
    for node in nodes:
        for value in saved_values(node):
            key, size = storage(value.array)
            if key not in arrays and value.leaf is None:
                arrays[key] = value.array
                total += size
    return total
