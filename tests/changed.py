"""The tests that concern changed files: ``pytest --changed``, or ``pytest --changed=BRANCH``.

A changed test file runs whole, without the tests marked slow. For a changed module of the package these run: the test
files and the modules that import it (of the latter the docstrings), and the folder of tests with the name of its
package. For a module that declares operations the generated cases of these operations run, too.
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.imports import ROOT, imported_names, module_of


def list_changed(base: str) -> set[Path]:
    """Return the files that differ from the merge base with a commit, those that git does not track included."""
    ask = functools.partial(subprocess.run, cwd=ROOT, capture_output=True, text=True, check=True)
    start = ask(["git", "merge-base", "HEAD", base]).stdout.strip()
    found = ask(["git", "diff", "--name-only", start]).stdout.splitlines()
    found += ask(["git", "ls-files", "--others", "--exclude-standard"]).stdout.splitlines()
    return {ROOT / name for name in found}


def _modules_of(path: Path, known: set[str]) -> Iterator[str]:
    """Yield the modules that a file imports, for type checkers too."""
    for name in imported_names(path, types=True):
        while name and name not in known:
            name = name.rpartition(".")[0]
        yield name


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
            known = {module_of(path) for path in tests | package}
            self.sampled |= {path for path in tests | package if not modules.isdisjoint(_modules_of(path, known))}
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
    from gradcore.ops.declare.table import OPS

    return {name for name, op in OPS.items() if op.module in modules}


SELECTION = pytest.StashKey[Selection]()
