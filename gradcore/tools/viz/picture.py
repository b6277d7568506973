"""Pictures of graphs."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from gradcore.tools.viz.description import Description, Vertex, describe
from gradcore.tools.viz.dot import dot, lay_out_with_dot
from gradcore.tools.viz.drawing import sizes, svg
from gradcore.tools.viz.layout import lay_out
from gradcore.tools.viz.page import page

__all__ = ["Picture", "graph"]


class Picture:
    """A graph to look at; shows itself in notebooks.

    Attributes
    ----------
    vertices : list of Vertex
        The vertices of the drawing: results first, inputs after their consumers.
    summary : str
        A line on the whole graph.
    """

    def __init__(self, description: Description, engine: str | None) -> None:
        self._description, self._engine = description, engine

    @property
    def vertices(self) -> list[Vertex]:
        """The drawing's items: results first, inputs after their consumers."""
        return self._description.vertices

    @property
    def summary(self) -> str:
        """A one-line summary of the whole graph."""
        return self._description.summary

    @cached_property
    def dot(self) -> str:
        """The graph in the language of Graphviz."""
        return dot(self._description)

    @cached_property
    def svg(self) -> str:
        """The drawing as an SVG document."""
        edges = [(a, b) for a, b, *_ in self._description.edges]
        boxes = sizes(self.vertices)
        positions = lay_out_with_dot(boxes, edges) if self._engine != "own" else None
        if positions is None:
            if self._engine == "dot":
                raise RuntimeError("Graphviz's program `dot` cannot be run; leave out engine='dot' to do without it")
            positions = lay_out(boxes, edges)
        return svg(self._description, positions)

    @cached_property
    def html(self) -> str:
        """The drawing as a self-contained page, with zoom and details of every vertex."""
        return page(self.svg, self.summary)

    def save(self, path: Any) -> None:
        """Write the picture to a file; its suffix determines the format: ``.svg``, ``.html`` or ``.dot``.

        Parameters
        ----------
        path : str or Path
        """
        path = Path(path)
        kind = {".svg": "svg", ".html": "html", ".htm": "html", ".dot": "dot", ".gv": "dot"}.get(path.suffix.lower())
        if kind is None:
            raise ValueError(f"the suffix must be .svg, .html or .dot, but the path is {path}")
        path.write_text(getattr(self, kind), encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Picture: {self.summary}>"


def graph(tensors: Any, params: Any = None, *, max_nodes: int = 150, engine: str | None = None) -> Picture:
    """Return a picture of the graph that computed tensors.

    Inputs are at the top and results at the bottom. Cards show what nodes save for backward; inside `record`, also the
    lines of source and the shapes of all results.

    Parameters
    ----------
    tensors : Tensor, GradientEdge or nested container of them
        The results.
    params : dict or Module, optional
        Names of leaves: tensors by name, or a module whose parameters have names. Names of results are used as well.
    max_nodes : int
        Larger graphs are drawn in groups: one card for all nodes of an operation that were recorded at the same line.
    engine : {"dot", "own"}, optional
        Layout engine: Graphviz's program ``dot``, or gradcore; by default the former where it is installed.

    Returns
    -------
    Picture
        With ``.svg``, ``.html``, ``.dot`` and ``.save(path)``.

    Raises
    ------
    RuntimeError
        If none of the tensors requires grad.

    Examples
    --------
    >>> import gradcore
    >>> w, x = gradcore.ones(2, 3, requires_grad=True), gradcore.ones(3)
    >>> picture = gradcore.viz.graph((w @ x).relu().sum(), params={"w": w})
    >>> picture
    <Picture: 4 nodes · 20 B kept for backward>
    >>> [vertex.title for vertex in picture.vertices]
    ['result', 'sum', 'relu', 'mv', 'w']
    """
    if engine not in (None, "dot", "own"):
        raise ValueError(f"engine must be 'dot' or 'own', but got {engine!r}")
    return Picture(describe(tensors, params, max_nodes), engine)
