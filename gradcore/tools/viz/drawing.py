"""Drawings as SVG: cards with coloured headings, readable on light and on dark backgrounds."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from gradcore.tools.viz.description import KINDS, Description, Vertex
from gradcore.tools.viz.layout import Layout
from gradcore.tools.viz.markup import escape

__all__ = ["sizes", "svg"]

#: Colours of the kinds of vertices: the heading, and the ground below it.
COLOURS = {
    "result": ("#334155", "#e2e8f0"),
    "operation": ("#2563eb", "#eff4ff"),
    "view": ("#7c3aed", "#f5f0ff"),
    "function": ("#0f766e", "#e9faf7"),
    "fused": ("#0f766e", "#e9faf7"),
    "leaf": ("#15803d", "#ecfbf1"),
    "input": ("#15803d", "#ecfbf1"),
}
SAVED = ("#b45309", "#fef3c7")
LINE = "#8894a8"
FONT = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
TITLE, TEXT = 13.0, 10.5
HEAD, ROW, CHIP, PAD = 24.0, 15.0, 17.0, 10.0
SHOWN = 3
MARGIN = 24.0


class _Card(NamedTuple):
    title: str
    facts: list[str]
    chips: list[str]
    width: float
    height: float


def _text_width(text: str, size: float, mono: bool) -> float:
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return (len(text) + wide) * size * (0.605 if mono else 0.6)


def _card(vertex: Vertex) -> _Card:
    title = vertex.title + (f"  × {vertex.count:,}" if vertex.count > 1 else "")  # noqa: RUF001
    chips = list(vertex.saved)
    if len(chips) > SHOWN:
        chips = [*chips[: SHOWN - 1], f"and {len(chips) - SHOWN + 1} more"]
    width = max(
        _text_width(title, TITLE, False) + 2 * PAD,
        *(_text_width(text, TEXT, True) + 2 * PAD for text in vertex.facts),
        *(_text_width(text, TEXT, True) + 2 * PAD + 12 for text in chips),
        64.0,
    )
    height = HEAD + (6 + ROW * len(vertex.facts) if vertex.facts else 0) + (4 + CHIP * len(chips) if chips else 0)
    return _Card(title, vertex.facts, chips, width, height + (4 if vertex.facts or chips else 0))


def sizes(vertices: Sequence[Vertex]) -> list[tuple[float, float]]:
    """Return the width and height of the cards."""
    return [(card.width, card.height) for card in map(_card, vertices)]


def svg(description: Description, layout: Layout) -> str:
    """Return the drawing, a complete document."""
    width = max(layout.width + 2 * MARGIN, _legend_width(description), 320.0)
    top = MARGIN + 40
    shift = (width - layout.width) / 2
    height = top + layout.height + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.1f} {height:.1f}" role="img" aria-label="Graph: {escape(description.summary)}">',
        _style(),
        *_legend(description),
        f'<g transform="translate({shift:.1f} {top:.1f})">',
    ]
    centres = layout.centres
    ends = {(a, b) for a, b, *_ in description.edges}
    for (a, b, count, label), route in zip(description.edges, layout.routes, strict=True):
        if a == b:
            parts.append(_loop(a, count, label, centres[a], description.vertices[a]))
        else:
            # Edges in both directions between the same vertices stand side by side.
            aside = 0 if (b, a) not in ends else -9 if route[-1][1] > route[0][1] else 9
            parts.append(_edge(a, b, count, label, [(x + aside, y) for x, y in route], aside))
    for number, (vertex, centre) in enumerate(zip(description.vertices, centres, strict=True)):
        parts.append(_drawn(number, vertex, centre))
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _style() -> str:
    kinds = "".join(
        f".{kind} .head{{fill:{head}}}.{kind} .body{{fill:{body};stroke:{head}}}"
        for kind, (head, body) in COLOURS.items()
    )
    return (
        f"<style>text{{font-family:{FONT}}}.title{{font-size:{TITLE}px;font-weight:600;fill:#ffffff}}"
        f".fact{{font-family:{MONO};font-size:{TEXT}px;fill:#334155}}"
        f".saved{{font-family:{MONO};font-size:{TEXT}px;fill:{SAVED[0]}}}.chip{{fill:{SAVED[1]};stroke:#f0c869}}"
        f".edge{{fill:none;stroke:{LINE};stroke-width:1.6}}.arrow{{fill:{LINE};stroke:none}}"
        f".label{{font-size:10px;fill:{LINE}}}.note{{font-size:12px;fill:#7b8698}}.body{{stroke-width:1.2}}{kinds}</style>"
    )


# -- cards ----------------------------------------------------------------------------------------------------------


def _drawn(number: int, vertex: Vertex, centre: tuple[float, float]) -> str:
    card = _card(vertex)
    x, y = centre[0] - card.width / 2, centre[1] - card.height / 2
    w, h = card.width, card.height
    tip = "\n".join([card.title, *vertex.facts, *(f"{key}: {value}" for key, value in vertex.details.items())])
    alone = not (card.facts or card.chips)
    corner = f"M0,{HEAD} V7 Q0,0 7,0 H{w - 7:.1f} Q{w:.1f},0 {w:.1f},7 V{HEAD} Z"
    parts = [
        f'<g class="vertex {vertex.kind}" id="v{number}" transform="translate({x:.1f} {y:.1f})">',
        f"<title>{escape(tip)}</title>",
        f'<rect class="body" width="{w:.1f}" height="{h:.1f}" rx="7"/>',
        f'<rect class="head" width="{w:.1f}" height="{h:.1f}" rx="7"/>'
        if alone
        else f'<path class="head" d="{corner}"/>',
        f'<text class="title" x="{w / 2:.1f}" y="{HEAD / 2 + 4.5}" text-anchor="middle">{escape(card.title)}</text>',
    ]
    line = HEAD + 6
    for text in card.facts:
        line += ROW
        parts.append(
            f'<text class="fact" x="{w / 2:.1f}" y="{line - 4:.1f}" text-anchor="middle">{escape(text)}</text>'
        )
    line += 3 if card.chips else 0
    for text in card.chips:
        chip = _text_width(text, TEXT, True) + 12
        left = (w - chip) / 2
        parts.append(
            f'<rect class="chip" x="{left:.1f}" y="{line:.1f}" width="{chip:.1f}" height="{CHIP - 3}" rx="7"/>'
        )
        line += CHIP
        parts.append(
            f'<text class="saved" x="{w / 2:.1f}" y="{line - 6.4:.1f}" text-anchor="middle">{escape(text)}</text>'
        )
    return "".join([*parts, "</g>"])


# -- edges ----------------------------------------------------------------------------------------------------------


def _link(a: int, b: int, path: str, arrow: str, texts: str, at: tuple[float, float], anchor: str = "start") -> str:
    label = ""
    if texts:
        label = f'<text class="label" x="{at[0]:.1f}" y="{at[1] + 3:.1f}" text-anchor="{anchor}">{escape(texts)}</text>'
    return f'<g class="link" data-from="{a}" data-to="{b}"><path class="edge" d="{path}"/>{arrow}{label}</g>'


def _texts(count: int, label: str) -> str:
    return " · ".join([*([f"× {count:,}"] if count > 1 else []), *([label] if label else [])])  # noqa: RUF001


def _edge(a: int, b: int, count: int, label: str, route: list[tuple[float, float]], aside: float) -> str:
    path, back = _curve(route)
    x, y = _middle(route)
    anchor = "end" if aside < 0 else "start"
    return _link(a, b, path, _arrow(route[-1], back), _texts(count, label), (x + (-5 if aside < 0 else 5), y), anchor)


def _loop(a: int, count: int, label: str, centre: tuple[float, float], vertex: Vertex) -> str:
    x, y = centre[0] + _card(vertex).width / 2, centre[1]
    path = f"M{x:.1f},{y - 7:.1f} c22,-12 22,26 1,15"
    return _link(a, a, path, _arrow((x, y + 7.5), (x + 9, y + 10)), _texts(count, label), (x + 25, y + 1))


def _middle(route: list[tuple[float, float]]) -> tuple[float, float]:
    i = (len(route) - 1) // 2
    (x, y), (u, v) = route[i], route[i + 1]
    return (x + u) / 2, (y + v) / 2


def _curve(route: list[tuple[float, float]]) -> tuple[str, tuple[float, float]]:
    """Return a smooth path through the points, upright at each of them, and the last control point."""
    x, y = route[0]
    path = [f"M{x:.1f},{y:.1f}"]
    back = route[0]
    for u, v in route[1:]:
        bend = (v - y) * 0.5
        path.append(f"C{x:.1f},{y + bend:.1f} {u:.1f},{v - bend:.1f} {u:.1f},{v:.1f}")
        back = (u, v - bend)
        x, y = u, v
    return " ".join(path), back


def _arrow(tip: tuple[float, float], back: tuple[float, float]) -> str:
    dx, dy = tip[0] - back[0], tip[1] - back[1]
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    dx, dy = dx / length, dy / length
    x, y = tip
    points = [(x, y), (x - 8 * dx - 3.6 * dy, y - 8 * dy + 3.6 * dx), (x - 8 * dx + 3.6 * dy, y - 8 * dy - 3.6 * dx)]
    return f'<polygon class="arrow" points="{" ".join(f"{px:.1f},{py:.1f}" for px, py in points)}"/>'


# -- legend ---------------------------------------------------------------------------------------------------------


def _specializations(description: Description) -> list[tuple[str, str, str]]:
    kinds = {vertex.kind for vertex in description.vertices}
    results = [(COLOURS[kind][0], COLOURS[kind][0], text) for kind, text in KINDS.items() if kind in kinds]
    if any(vertex.saved for vertex in description.vertices):
        results.append((SAVED[1], "#f0c869", "kept for backward"))
    return results


def _legend_width(description: Description) -> float:
    entries = sum(22 + _text_width(text, 12, False) + 12 for *_, text in _specializations(description))
    return max(entries, _text_width(_heading(description), 12, False)) + 2 * MARGIN


def _heading(description: Description) -> str:
    return description.summary + (" · like nodes are grouped" if description.grouped else "")


def _legend(description: Description) -> list[str]:
    parts = [f'<text class="note" x="{MARGIN}" y="{MARGIN + 2}">{escape(_heading(description))}</text>']
    x = MARGIN
    for fill, stroke, text in _specializations(description):
        parts.append(
            f'<rect x="{x:.1f}" y="{MARGIN + 12}" width="12" height="12" rx="3" fill="{fill}" stroke="{stroke}"/>'
            f'<text class="note" x="{x + 18:.1f}" y="{MARGIN + 22}">{escape(text)}</text>'
        )
        x += 22 + _text_width(text, 12, False) + 12
    return parts
