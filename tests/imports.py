"""The imports of Python files, read from their source: which modules need which, in functions too."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "gradcore"


def module_of(path: Path) -> str:
    """Return the dotted name of a Python file of this repository."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


#: The modules of gradcore, as ``autograd.engine``, with their files. The package itself is ``""``.
PATHS = {module_of(path).partition(".")[2]: path for path in sorted(PACKAGE.rglob("*.py"))}


def imported_names(path: Path, *, functions: bool = True, types: bool = False) -> Iterator[str]:
    """Yield the dotted names that a file imports: ``a.b`` of ``import a.b``, and of ``from a import b``.

    Parameters
    ----------
    path : Path
    functions : bool
        Include imports inside functions.
    types : bool
        Include imports for type checkers only.
    """
    module = module_of(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in _statements(ast.parse(path.read_bytes()).body, functions, types):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _statements(body: list[ast.stmt], functions: bool, types: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the import statements among some statements, and in those that they contain."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from _statements([*(node.body if types else []), *node.orelse], functions, types)
        elif functions or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = (getattr(node, part, []) for part in ("body", "orelse", "finalbody"))
            parts = [*getattr(node, "handlers", []), *getattr(node, "cases", [])]
            inside = [statement for statements in (*inner, *(part.body for part in parts)) for statement in statements]
            yield from _statements(inside, functions, types)


def find_module(name: str) -> str | None:
    """Return the module of gradcore that an imported name is, or is in; None if it is in none."""
    top, _, inner = name.partition(".")
    if top != "gradcore":
        return None
    while inner and inner not in PATHS:
        inner = inner.rpartition(".")[0]
    return inner


@functools.cache
def imported_modules(module: str, *, functions: bool = True) -> frozenset[str]:
    """Return the modules of gradcore that one of them imports, itself and the package ``""`` left out."""
    found = {find_module(name) for name in imported_names(PATHS[module], functions=functions)}
    return frozenset(name for name in found if name and name != module)
