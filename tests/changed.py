"""The tests that concern changed files: ``pytest --changed``, or ``pytest --changed=BRANCH``.

A changed test file runs whole, without the tests marked slow. For a changed module of the package these run: the test
files and the modules that import it (of the latter the docstrings), and the folder of tests with the name of its
package. For a module that declares operations the generated cases of these operations run, too.
"""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def list_changed(base: str) -> set[Path]:
    """Return the files that differ from the merge base with a commit, those that git does not track included."""
    ask = functools.partial(subprocess.run, cwd=ROOT, capture_output=True, text=True, check=True)
    start = ask(["git", "merge-base", "HEAD", base]).stdout.strip()
    found = ask(["git", "diff", "--name-only", start]).stdout.splitlines()
    found += ask(["git", "ls-files", "--others", "--exclude-standard"]).stdout.splitlines()
    return {ROOT / name for name in found}


def module_of(path: Path) -> str:
    """Return the dotted name of a Python file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(path: Path) -> Iterator[str]:
    """Yield the names of the modules that a file may import, in functions too, and what it imports from them."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


class Selection:
    """The tests that ``--changed`` runs.

    Attributes
    ----------
    whole : set of Path
        Test files that were changed, of which everything runs.
    sampled : set of Path
        Files that concern changed modules, of which the sample runs.
    operations : set of str
        Names of operations that changed modules declare.
    """

    def __init__(self, base: str) -> None:
        changed = {path for path in list_changed(base) if path.suffix == ".py" and path.exists()}
        tests = set((ROOT / "tests").rglob("*.py"))
        self.whole = {path for path in changed & tests if path.name.startswith("test_")}
        modules = {module_of(path) for path in changed if path.is_relative_to(ROOT / "gradcore") or path in tests}
        self.sampled = {path for path in changed if path.is_relative_to(ROOT / "gradcore")}
        if modules:
            package = set((ROOT / "gradcore").rglob("*.py"))
            self.sampled |= {path for path in tests | package if not modules.isdisjoint(imported_by(path))}
        for module in modules:
            package_name = module.split(".")[1] if "." in module else ""
            self.sampled |= set((ROOT / "tests" / package_name).rglob("test_*.py")) if package_name else set()
        self.operations = _operations_of(modules)
        if self.operations:
            self.sampled |= set((ROOT / "tests" / "ops").glob("test_every_op*.py"))

    def is_left_out(self, path: Path) -> bool:
        """Return whether a file holds nothing that runs."""
        return path.is_file() and path not in self.whole and path not in self.sampled

    def is_wanted(self, path: Path, case: str) -> bool | None:
        """Return whether a generated case runs; None if the sample decides."""
        if path in self.whole:
            return True
        if self.operations and path.parent.name == "ops":
            return case.partition("-")[0] in self.operations
        return None


def _operations_of(modules: set[str]) -> set[str]:
    """Return the names of the operations that modules declare."""
    if not any(module.startswith("gradcore.ops.") for module in modules):
        return set()
    from gradcore.ops.table import OPS

    return {name for name, op in OPS.items() if op.module in modules}


SELECTION = pytest.StashKey[Selection]()
