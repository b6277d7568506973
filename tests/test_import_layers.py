"""Modules import only their own layer and those below it, as the table in docs/design.md says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (\d) \| (.+?) \|", re.MULTILINE)
DESIGN = (ROOT / "docs/design.md").read_text(encoding="utf-8")
LAYERS = {name: int(layer) for layer, cell in ROW.findall(DESIGN) for name in re.findall(r"`(.+?)`", cell)}
#: Tools that are run by hand.
TOOLS = {"stub_results", "stubs"}


def modules() -> Iterator[Path]:
    """Every module but the interfaces, relative to the package."""
    for path in sorted((ROOT / "gradcore").rglob("*.py")):
        relative = path.relative_to(ROOT / "gradcore")
        if relative.name != "__init__.py" and relative.stem not in TOOLS:
            yield relative


def layer_of(module: str) -> int | None:
    """The layer of a module (``autograd/engine``), by the longest part of its path that has one."""
    while module and module not in LAYERS:
        module = module.rpartition("/")[0]
    return LAYERS.get(module)


def imported(path: Path) -> Iterator[str]:
    """What a module imports of the package when it is imported itself, as paths."""
    for node in ast.parse((ROOT / "gradcore" / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            above = ["gradcore", *path.parts[: -node.level]] if node.level else []
            parts = [*above, *(node.module or "").split(".")] if node.module else above
            if parts[0] != "gradcore":
                continue
            for alias in node.names:
                inner = "/".join([*parts[1:], alias.name])
                yield inner if (ROOT / "gradcore" / f"{inner}.py").exists() or inner in LAYERS else "/".join(parts[1:])


def test_every_module_has_a_layer() -> None:
    missing = [str(path) for path in modules() if layer_of(str(path.with_suffix(""))) is None]
    assert not missing, f"not in the table of layers in docs/design.md: {missing}"


@pytest.mark.parametrize("path", list(modules()), ids=str)
def test_imports_stay_within_the_layers_below(path: Path) -> None:
    own = layer_of(str(path.with_suffix("")))
    if own is None:
        pytest.skip("has no layer")
    for name in imported(path):
        layer = layer_of(name)
        assert layer is None or layer <= own, f"{path} (layer {own}) imports {name} (layer {layer})"
