"""Every module that declares operations is imported with gradcore."""

import subprocess
import sys
from pathlib import Path

import gradcore.ops
from gradcore.ops.declare.table import OPS


def test_families_are_the_modules_that_declare_operations() -> None:
    """Importing any further module of the folders adds no operation."""
    root = Path(gradcore.ops.__file__).parent
    found = (path.relative_to(root).with_suffix("") for path in root.rglob("*.py") if path.stem != "__init__")
    names = [".".join(path.parts) for path in found]
    assert len(names) > len(gradcore.ops.FAMILIES)
    others = sorted(set(names) - set(gradcore.ops.FAMILIES))
    code = (
        "import importlib, gradcore\n"
        "from gradcore.ops.declare.table import OPS\n"
        "before = set(OPS)\n"
        f"for name in {others!r}: importlib.import_module('gradcore.ops.' + name)\n"
        "assert set(OPS) == before, set(OPS) - before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_family_declares_something() -> None:
    declared = (op.module for op in OPS.values())  # some by other tests
    homes = {module.removeprefix("gradcore.ops.") for module in declared if module.startswith("gradcore.ops.")}
    assert homes == set(gradcore.ops.FAMILIES)


def test_no_room_is_crowded() -> None:
    """A folder of which a reader sees all at once: at most twelve modules or rooms beside its interface."""
    root = Path(gradcore.ops.__file__).parent
    for folder in (root, *(path for path in root.iterdir() if (path / "__init__.py").exists())):
        entries = {path.stem for path in folder.iterdir() if path.stem[0] != "_"}
        assert len(entries) <= 12, (folder, sorted(entries))
