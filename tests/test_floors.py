"""Imports go down only, as docs/design.md says, and importing gradcore is cheap."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (\d) \| (.+?) \|", re.MULTILINE)
DESIGN = (ROOT / "docs/design.md").read_text(encoding="utf-8")
FLOORS = {name: int(floor) for floor, cell in ROW.findall(DESIGN) for name in re.findall(r"`(.+?)`", cell)}
#: A tool that is run by hand.
TOOLS = {"stubs"}


def modules() -> Iterator[Path]:
    """Every module but the interfaces, relative to the package."""
    for path in sorted((ROOT / "gradcore").rglob("*.py")):
        relative = path.relative_to(ROOT / "gradcore")
        if relative.name != "__init__.py" and relative.stem not in TOOLS:
            yield relative


def floor_of(module: str) -> int | None:
    """The floor of a module (``autograd/engine``), by the longest part of its path that has one."""
    while module and module not in FLOORS:
        module = module.rpartition("/")[0]
    return FLOORS.get(module)


def imported(path: Path) -> Iterator[str]:
    """What a module imports when it is imported itself, as paths; other libraries by their names."""
    for node in ast.parse((ROOT / "gradcore" / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = ["gradcore", *path.parts[: -node.level]] if node.level else []
            parts = [*above, *(node.module or "").split(".")] if node.module else above
            if parts[0] != "gradcore":
                yield parts[0]
                continue
            for alias in node.names:
                inner = "/".join([*parts[1:], alias.name])
                yield inner if (ROOT / "gradcore" / f"{inner}.py").exists() or inner in FLOORS else "/".join(parts[1:])


def test_every_module_has_a_floor() -> None:
    missing = [str(path) for path in modules() if floor_of(str(path.with_suffix(""))) is None]
    assert not missing, f"not in the table of floors in docs/design.md: {missing}"


@pytest.mark.parametrize("path", list(modules()), ids=str)
def test_imports_go_down(path: Path) -> None:
    own = floor_of(str(path.with_suffix("")))
    if own is None:
        pytest.skip("has no floor")
    for name in imported(path):
        floor = floor_of(name)
        assert floor is None or floor <= own, f"{path} (floor {own}) imports {name} (floor {floor})"


@pytest.mark.parametrize("path", [p for p in modules() if p.parts[0] == "ops"], ids=str)
def test_declarations_know_no_array_library(path: Path) -> None:
    assert not {"numpy", "cupy", "scipy"} & set(imported(path))


def test_import_loads_numpy_and_nothing_else() -> None:
    code = "import gradcore, sys; print(*sorted({'cupy', 'cupyx', 'ml_dtypes', 'scipy', 'torch'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
