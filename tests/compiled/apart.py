"""Tests of the library in a process of their own, which something watches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["COMPARED", "LOOPS", "ROOT", "run"]

ROOT = Path(__file__).parents[2]
_PYTEST = "-m", "pytest", "-p", "tests.compiled.guard_pages", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-x"
#: The arguments of Python for one of some tests, as the variable ``EVERY`` says, that compare the library with NumPy:
#: its kernels, its loops, and products in its threads.
COMPARED = (
    *_PYTEST,
    *(
        str(path.relative_to(ROOT))
        for path in sorted(Path(__file__).parent.glob("test_*.py"))
        if path.stem not in ("test_use", "test_guard_pages", "test_sanitizers")
    ),
)
#: Those of the tests that run every loop of the library, which is checked.
LOOPS = *_PYTEST, "-p", "tests.compiled.entries", "tests/compiled/test_every_loop.py"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, *arguments], env=variables, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900
    )
