"""The tests that concern changed files: ``pytest --changed``, or ``pytest --changed=BRANCH``.

A changed test file runs whole, without the tests marked slow. For a changed module of the package these run: the test
files and the modules that import it (of the latter the docstrings), and `MOST_BESIDE` of the other tests in the folders
with the names of its packages. The latter also run for sources in C++ and CUDA, and for deleted modules. For a module
that declares operations the generated cases and the docstrings of these operations run, too. The rest is left to
complete runs.
"""

from __future__ import annotations

import functools
import re
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.imports import ROOT, imported_names, module_of

#: How many tests run of files that concern a changed module only by their folder; more take more than half a minute.
MOST_BESIDE = 150


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


def _import_any(modules: set[str], path: Path, known: set[str]) -> bool:
    """Return whether a file imports one of the modules.

    Files without the last part of the name of any of them are not parsed: all together this takes seconds. Only those
    in a package can import it without its name.
    """
    text, module = path.read_bytes(), module_of(path)
    names = "|".join(re.escape(name.rpartition(".")[2]) for name in modules)
    may_import = re.search(rf"\b(?:{names})\b".encode(), text) or any(f"{module}.".startswith(f"{m}.") for m in modules)
    return bool(may_import) and not modules.isdisjoint(_modules_of(path, known))


class Selection:
    """The tests that ``--changed`` runs.

    Attributes
    ----------
    whole : set of Path
        Test files that were changed, of which everything runs.
    sampled : set of Path
        Files that concern changed modules, of which the sample runs.
    beside : set of Path
        Other files in their folders of tests, of which a part of the sample runs.
    operations : set of str
        Names of operations that changed modules declare.
    documented : set of Path
        Modules of which only the docstrings of these operations run.
    """

    def __init__(self, base: str) -> None:
        differing = list_changed(base)
        changed = {path for path in differing if path.suffix == ".py" and path.exists()}
        tests = set((ROOT / "tests").rglob("*.py"))
        self.whole = {path for path in changed & tests if path.name.startswith("test_")}
        modules = {module_of(path) for path in changed if path.is_relative_to(ROOT / "gradcore") or path in tests}
        self.sampled = {path for path in changed if path.is_relative_to(ROOT / "gradcore")}
        if modules:
            package = set((ROOT / "gradcore").rglob("*.py"))
            known = {module_of(path) for path in tests | package}
            self.sampled |= {path for path in tests | package if _import_any(modules, path, known)}
        # Sources in C++ and CUDA have no imports, and deleted modules have none any more.
        parts = {part for path in differing - self.whole for part in path.relative_to(ROOT).parts[:-1]}
        folders = {ROOT / "tests" / ("cuda" if part == "cupy" else part) for part in parts}
        self.beside = {path for folder in folders for path in folder.rglob("test_*.py")} - self.sampled - self.whole
        self.operations = _operations_of(modules)
        self.documented: set[Path] = set()
        if self.operations:
            self.sampled |= set((ROOT / "tests" / "ops").glob("test_every_op*.py"))
            self.beside -= self.sampled
            names = "gradcore/__init__.py", "gradcore/nn/functional.py"
            self.documented = {ROOT / name for name in names} - self.sampled

    def is_left_out(self, path: Path) -> bool:
        """Return whether a file holds nothing that runs."""
        return path.is_file() and not any(
            path in files for files in (self.whole, self.sampled, self.beside, self.documented)
        )

    def list_left_out(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Return the items that do not run: docstrings of other operations, and all but some of the files beside."""
        docstrings = [item for item in items if self.is_other_docstring(item)]
        beside = [item for item in items if item.path in self.beside]
        beside.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))  # the same ones in every run
        return docstrings + beside[MOST_BESIDE:]

    def is_other_docstring(self, item: pytest.Item) -> bool:
        """Return whether an item is the docstring of something else than a changed operation."""
        return item.path in self.documented and item.name.rpartition(".")[2] not in self.operations

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
