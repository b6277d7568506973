"""Layered layout of a graph: ranks from top to bottom, few crossings, straight edges.

The layered drawing of Sugiyama, Tagawa and Toda (1981): a rank for every vertex, orders within ranks by barycenters,
and positions as close to the neighbours' as the sizes allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Layout", "lay_out"]

GAP, RANK_GAP, DUMMY_WIDTH = 26.0, 44.0, 14.0
SWEEPS = 12


class Layout(NamedTuple):
    """Centres of the vertices, the points that the edges pass through, and the size of the drawing."""

    centres: list[tuple[float, float]]
    routes: list[list[tuple[float, float]]]
    width: float
    height: float


def lay_out(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Layout:
    """Place vertices of given sizes so that all edges lead down, except those that close a cycle.

    Parameters
    ----------
    sizes : sequence of (width, height)
        Of the vertices.
    edges : sequence of (from, to)
        Numbers of vertices. Loops from a vertex to itself get no points.

    Returns
    -------
    Layout
    """
    down = [
        (b, a) if flipped else (a, b)
        for (a, b), flipped in zip(edges, _find_back_edges(len(sizes), edges), strict=True)
    ]
    ranks = _ranks(len(sizes), [(a, b) for a, b in down if a != b])
    grid = _Grid(sizes, ranks, down)
    grid.order()
    grid.position_vertices()
    return grid.result(edges)


def _find_back_edges(n: int, edges: Sequence[tuple[int, int]]) -> list[bool]:
    """Return for each edge whether it closes a cycle in a walk from the first vertices on."""
    outgoing: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for number, (a, b) in enumerate(edges):
        outgoing[a].append((b, number))
    back = [False] * len(edges)
    state = [0] * n  # 1: on the path of the walk, 2: done
    targets = {b for _, b in edges}
    for start in [*(v for v in range(n) if v not in targets), *range(n)]:
        if state[start]:
            continue
        state[start] = 1
        path = [(start, iter(outgoing[start]))]
        while path:
            vertex, rest = path[-1]
            for successor, number in rest:
                if state[successor] == 1 and successor != vertex:
                    back[number] = True
                elif not state[successor]:
                    state[successor] = 1
                    path.append((successor, iter(outgoing[successor])))
                    break
            else:
                state[vertex] = 2
                path.pop()
    return back


def _ranks(n: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the rank of each vertex, counted from the top, so that inputs are directly above their consumers."""
    below: list[list[int]] = [[] for _ in range(n)]
    above: list[list[int]] = [[] for _ in range(n)]
    for a, b in edges:
        below[a].append(b)
        above[b].append(a)
    open_consumers = [len(b) for b in below]
    level = [0] * n
    ready = [v for v in range(n) if not open_consumers[v]]
    while ready:
        v = ready.pop()
        for u in above[v]:
            level[u] = max(level[u], level[v] + 1)
            open_consumers[u] -= 1
            if not open_consumers[u]:
                ready.append(u)
    top = max(level, default=0)
    return [top - x for x in level]


class _Grid:
    """Grid of vertices, with an invisible vertex wherever an edge crosses a rank."""

    def __init__(
        self, sizes: Sequence[tuple[float, float]], ranks: list[int], edges: Sequence[tuple[int, int]]
    ) -> None:
        self.sizes, self.rank = list(sizes), list(ranks)
        self.up: list[list[int]] = [[] for _ in sizes]
        self.down: list[list[int]] = [[] for _ in sizes]
        self.paths: list[list[int]] = []
        for a, b in edges:
            path = [a] if a == b else [a, *(self._dummy(r) for r in range(ranks[a] + 1, ranks[b])), b]
            self.paths.append(path)
            for u, v in pairwise(path):
                self.down[u].append(v)
                self.up[v].append(u)
        self.real = len(sizes)
        self.rows: list[list[int]] = [[] for _ in range(max(self.rank, default=-1) + 1)]
        for v in self._walk():
            self.rows[self.rank[v]].append(v)

    def _dummy(self, rank: int) -> int:
        self.sizes.append((DUMMY_WIDTH, 0.0))
        self.rank.append(rank)
        self.up.append([])
        self.down.append([])
        return len(self.sizes) - 1

    def _walk(self) -> list[int]:
        """Return all vertices, depth first from the last ones up, so that connected vertices are neighbours."""
        seen = [False] * len(self.sizes)
        results: list[int] = []
        for start in [v for v in range(len(seen)) if not self.down[v]] + list(range(len(seen))):
            stack = [start]
            while stack:
                v = stack.pop()
                if not seen[v]:
                    seen[v] = True
                    results.append(v)
                    stack.extend(reversed(self.up[v]))
        return results

    # -- orders -----------------------------------------------------------------------------------------------------

    def order(self) -> None:
        """Order each rank by the positions of the neighbours, down and up; keep the order with fewest crossings."""
        best_rows, fewest = [list(row) for row in self.rows], self._crossings()
        for sweep in range(SWEEPS):
            if not fewest:
                break
            rows = self.rows if sweep % 2 else self.rows[::-1]
            neighbours = self.up if sweep % 2 else self.down
            for row in rows:
                self._sort_by_barycenter(row, neighbours)
            crossings = self._crossings()
            if crossings < fewest:
                best_rows, fewest = [list(row) for row in self.rows], crossings
        self.rows = best_rows

    def _sort_by_barycenter(self, row: list[int], neighbours: list[list[int]]) -> None:
        position = {v: i for grid_row in self.rows for i, v in enumerate(grid_row)}
        own_position = {v: i for i, v in enumerate(row)}

        def key(v: int) -> float:
            near = neighbours[v]
            return sum(position[u] for u in near) / len(near) if near else own_position[v]

        row.sort(key=key)

    def _crossings(self) -> int:
        total = 0
        for row, next_row in pairwise(self.rows):
            position = {v: i for i, v in enumerate(next_row)}
            end_positions = [j for v in row for j in sorted(position[u] for u in self.down[v])]
            total += _inversions(end_positions, len(next_row))
        return total

    # -- positions --------------------------------------------------------------------------------------------------

    def position_vertices(self) -> None:
        """Set the positions from left to right: move vertices repeatedly towards the neighbours above or below."""
        self.x = [0.0] * len(self.sizes)
        for row in self.rows:
            self._settle(row, [0.0] * len(row))
        for sweep in range(2 * SWEEPS):
            rows = self.rows if sweep % 2 else self.rows[::-1]
            for row in rows:
                self._settle(row, [self._wish(v, sweep) for v in row])
        left = min((self.x[v] - self.sizes[v][0] / 2 for v in range(len(self.x))), default=0.0)
        self.x = [x - left for x in self.x]

    def _wish(self, v: int, sweep: int) -> float:
        neighbours = (self.up[v] if sweep % 2 else self.down[v]) or self.up[v] or self.down[v]
        if sweep >= SWEEPS:
            neighbours = self.up[v] + self.down[v]
        if not neighbours:
            return self.x[v]
        weights = [self._pull(v, u) for u in neighbours]
        return sum(w * self.x[u] for w, u in zip(weights, neighbours, strict=True)) / sum(weights)

    def _pull(self, v: int, u: int) -> float:
        """Return the priority of aligning `v` with `u`: long edges and chains of operations are drawn straight."""
        if v >= self.real and u >= self.real:
            return 8.0
        return 1.0 if self.up[u] and self.up[v] else 0.1  # A vertex with nothing above it is an input.

    def _settle(self, row: list[int], wishes: list[float]) -> None:
        """Return the positions without overlap that are closest to the wished ones (least squares)."""
        offsets, offset = [], 0.0
        for i, v in enumerate(row):
            if i:
                offset += (self.sizes[row[i - 1]][0] + self.sizes[v][0]) / 2 + GAP
            offsets.append(offset)
        # With the least distances taken off, positions must not decrease: pool those that do.
        pools: list[tuple[float, float, int]] = []  # sum of weighted wishes, sum of weights, count
        for v, wish, shift in zip(row, wishes, offsets, strict=True):
            weight = 8.0 if v >= self.real else 1.0 if self.up[v] else 0.05  # Inputs make room for other vertices.
            pool = (weight * (wish - shift), weight, 1)
            while pools and pools[-1][0] * pool[1] > pool[0] * pools[-1][1]:
                pool = tuple(a + b for a, b in zip(pools.pop(), pool, strict=True))  # type: ignore[assignment]
            pools.append(pool)
        positions = [total / weight for total, weight, count in pools for _ in range(count)]
        for v, position, shift in zip(row, positions, offsets, strict=True):
            self.x[v] = position + shift

    # -- result -----------------------------------------------------------------------------------------------------

    def result(self, edges: Sequence[tuple[int, int]]) -> Layout:
        """Return centres and routes; an edge that was turned is turned back."""
        tops, bottoms, bottom = [], [], 0.0
        for row in self.rows:
            tops.append(bottom)
            bottoms.append(bottom + max(self.sizes[v][1] for v in row))
            bottom = bottoms[-1] + RANK_GAP
        points = [(x, (tops[r] + bottoms[r]) / 2) for x, r in zip(self.x, self.rank, strict=True)]
        routes = []
        for (a, _), path in zip(edges, self.paths, strict=True):
            path = path if path[0] == a else path[::-1]
            route = []
            for v in path:
                # Past a rank an edge goes straight, so that it bends only where no vertices are.
                r = self.rank[v]
                ends = sorted((tops[r], bottoms[r]), reverse=self.rank[path[0]] > self.rank[path[-1]])
                route += [points[v]] if v < self.real else [(self.x[v], y) for y in ends]
            if len(path) > 1:
                for end, other in ((0, 1), (-1, -2)):
                    x, y = route[end]
                    half = self.sizes[path[end]][1] / 2
                    route[end] = x, y + (half if route[other][1] > y else -half)
            routes.append(route)
        width = max((x + size[0] / 2 for x, size in zip(self.x, self.sizes, strict=True)), default=0.0)
        return Layout(points[: self.real], routes, width, max(bottom - RANK_GAP, 0.0))


def _inversions(values: list[int], n: int) -> int:
    """Count the inversions with a binary indexed tree."""
    tree = [0] * (n + 1)
    total = 0
    for count, value in enumerate(values):
        i, smaller = value + 1, 0
        while i:
            smaller += tree[i]
            i &= i - 1
        total += count - smaller
        i = value + 1
        while i <= n:
            tree[i] += 1
            i += i & -i
    return total
