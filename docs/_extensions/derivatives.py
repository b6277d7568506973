"""The page of all derivative formulas: one list, sorted by the names of operations."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from formulas import formulas

from gradcore.ops.declare.table import OPS, Formula, Op

__all__ = ["page"]

TITLE = "All derivatives"
ABOUT = """Every operation with a derivative, in one list: its kind, and the formula for each input, as its declaration
has it. ``F`` is the namespace of operations, ``grad`` the upstream gradient, ``t`` the tangent in forward mode and the
cotangent in reverse mode, ``result`` the output. A formula of several statements is shown by the name of its function
and the file that has it. Operations that are composed of others have no formula of their own and are not listed."""


def page() -> list[str]:
    """Return the lines of the page, in reStructuredText."""
    lines = [TITLE, "=" * len(TITLE), "", *ABOUT.splitlines(), "", ".. list-table::", "   :header-rows: 1"]
    lines += ["   :widths: 22 12 18 48", "", "   * - operation", "     - kind", "     - input", "     - derivative"]
    for op in sorted(OPS.values(), key=lambda op: (op.path.lower(), op.name)):
        for number, (name, text) in enumerate(entries(op) if op.module.startswith("gradcore.ops.") else ()):
            lines += [f"   * - {'' if number else f'``{op.path}``'}", f"     - {'' if number else op.kind}"]
            lines += [f"     - ``{name}``", f"     - ``{text}``"]
    return lines


def entries(op: Op) -> Iterator[tuple[str, str]]:
    """Yield the inputs of an operation that have derivatives, each with its formula."""
    written = dict(formulas(op))
    for key, formula in (op.differentials or op.vjps).items():
        name = key if isinstance(key, str) else ", ".join(key)
        yield name, written.get(name) or _place(formula)


def _place(formula: Formula) -> str:
    """Return the name of a formula's function, and where it is."""
    code = inspect.unwrap(formula.function).__code__
    file = code.co_filename.rpartition("gradcore/")[2]
    return f"{code.co_name}: gradcore/{file}, line {code.co_firstlineno}"
