"""Every module that declares operations is imported with gradcore."""

import subprocess
import sys
from pathlib import Path

import gradcore.ops
from gradcore.ops.table import OPS


def test_families_are_the_modules_that_declare_operations() -> None:
    """Importing any further module of the folder adds no operation."""
    names = [path.stem for path in Path(gradcore.ops.__file__).parent.glob("*.py") if path.stem != "__init__"]
    others = sorted(set(names) - set(gradcore.ops.FAMILIES))
    code = (
        "import importlib, gradcore\n"
        "from gradcore.ops.table import OPS\n"
        "before = set(OPS)\n"
        f"for name in {others!r}: importlib.import_module('gradcore.ops.' + name)\n"
        "assert set(OPS) == before, set(OPS) - before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_family_declares_something() -> None:
    declared = (op.module for op in OPS.values())  # some by other tests
    homes = {module.removeprefix("gradcore.ops.") for module in declared if module.startswith("gradcore.ops.")}
    assert homes == set(gradcore.ops.FAMILIES)
