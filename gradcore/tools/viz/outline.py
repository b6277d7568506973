"""Modules as outlines in HTML, for notebooks: a line for each, which folds, with its settings and parameters."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradcore.nn import Module

__all__ = ["outline"]

_STYLE = "font-family:monospace;font-size:13px;line-height:1.5"
_INDENT = "margin-left:1.4em"
_QUIET = "opacity:.6"


def outline(module: Module) -> str:
    """Return a module as HTML: a line for each module in it, with settings, and shapes and numbers of parameters.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.viz.outline import outline
    >>> "Linear(in_features=2, out_features=3, bias=True)" in outline(gc.nn.Linear(2, 3))
    True
    """
    return f'<div style="{_STYLE}">{_line("", module, 0)}</div>'


def _line(name: str, module: Any, depth: int) -> str:
    """Return a module and, folded under it, those in it."""
    title = escape(f"{module._get_name()}({' '.join(module.extra_repr().split())})")
    label = f"<b>{escape(name)}</b>: " if name else ""
    text = f'{label}{title} <span style="{_QUIET}">{escape(_parameters(module))}</span>'
    children = [_line(key, child, depth + 1) for key, child in module._modules.items() if child is not None]
    if not children:
        return f'<div style="{_INDENT if depth else ""}">{text}</div>'
    state = " open" if depth < 2 else ""
    return f'<details{state} style="{_INDENT if depth else ""}"><summary>{text}</summary>{"".join(children)}</details>'


def _parameters(module: Any) -> str:
    """Return the shapes of a module's own parameters, and the number of elements including inner modules."""
    parameters = list(module.parameters())
    if any(type(p).__name__ == "UninitializedParameter" for p in parameters):
        return "parameters of sizes that the first call decides"
    own_shapes = [
        f"{name} {' x '.join(map(str, p.shape)) or 'scalar'}" for name, p in module._parameters.items() if p is not None
    ]
    frozen = sum(p.numel() for p in parameters if not p.requires_grad)
    total = sum(p.numel() for p in parameters)
    counts = [f"{total:,} parameters"] if total else []
    return ", ".join(own_shapes + counts + ([f"{frozen:,} frozen"] if frozen else []))
