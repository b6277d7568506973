"""Tests of the library in a process of their own, which something watches."""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from gradcore.backends.compiled import library
from gradcore.compiled import loops

__all__ = ["COMPARED", "ROOT", "WATCHED", "WHOLE", "digest_sources", "run", "store_library", "write_compiler"]

ROOT = Path(__file__).parents[2]
_PYTEST = "-m", "pytest", "-p", "tests.compiled.guard_pages", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-x"
#: The tests that compare the library with NumPy: its kernels, its loops, and products in its threads.
_COMPARING = {
    path.stem: str(path.relative_to(ROOT))
    for path in sorted(Path(__file__).parent.glob("test_*.py"))
    if path.stem not in ("test_use", "test_guard_pages", "test_sanitizers", "test_failing_memory")
}
#: The arguments of Python for one of some of them, as the variable ``EVERY`` says.
COMPARED = *_PYTEST, *_COMPARING.values()
#: Those for tests of which each function of the library has to be run by one.
WATCHED = *_PYTEST, "-p", "tests.compiled.entries"
#: The tests that do so: the others run functions that these run too, or have threads wait for each other.
WHOLE = [path for name, path in _COMPARING.items() if name not in ("test_every_op", "test_pool", "test_programs")]


@functools.cache
def digest_sources() -> str:
    """Return a digest of all that the library is compiled from, by which tests keep it.

    The library's own digest leaves out the loops, of which the formulas are anywhere in the package.
    """
    return sha256(repr((library.compute_digest(), sorted(loops.sources()))).encode()).hexdigest()[:16]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, *arguments], env=variables, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900
    )


def write_compiler(options: str, compiler: str) -> Path:
    """Write a C++ compiler that calls another one with further options, and return its path.

    Its place depends on nothing but its content, so that what it compiles is kept for all runs of the tests.
    """
    text = f'#!/bin/sh\nexec {shlex.quote(compiler)} "$@" {options}\n'
    folder = Path(os.environ["GRADCORE_TEST_CACHE"], f"compiler-{sha256(text.encode()).hexdigest()[:24]}")
    compiler = folder / "c++"
    if not compiler.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"c++.{os.getpid()}"
        partial.write_text(text)
        partial.chmod(0o755)
        partial.rename(compiler)
    return compiler


def store_library(content: bytes, folder: Path) -> Path:
    """Write a library to a new folder, as the command would leave it there in this environment; return its path."""
    folder.mkdir(mode=0o755)
    path = folder / library.name_of(content)
    path.write_bytes(content)
    path.chmod(0o755)
    return path
