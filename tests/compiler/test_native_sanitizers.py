"""GCC's sanitizers see nothing wrong in native programs: no address, no undefined behaviour."""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from tests.compiled.apart import run
from tests.compiled.test_sanitizers import runtime

#: Tests that compare native programs with eager execution: layouts, rows in threads, pooling, attention, tables, loops.
TESTS = (
    "test_native.py::test_a_chain_of_rows_columns_and_numbers",
    "test_native.py::test_large_rows[2]",
    "test_native.py::test_pooling[settings3]",
    "test_native.py::test_attention[True]",
    "test_native.py::test_tables_and_their_gradients",
    "test_rolling.py::test_loops_compute_what_the_calls_do[recurrent]",
)


@pytest.fixture
def watching_compiler() -> Path:
    """Return the path of a compiler whose programs sanitizers watch.

    Its place does not depend on the run, so that each program is compiled once for all runs of the tests.
    """
    command = shutil.which("g++")
    text = f'#!/bin/sh\nexec {command} "$@" -g1 -fsanitize=address,undefined -fno-sanitize-recover=all\n'
    folder = Path(os.environ["GRADCORE_TEST_CACHE"], f"watched-{sha256(text.encode()).hexdigest()[:24]}")
    compiler = folder / "c++"
    if not compiler.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"c++.{os.getpid()}"
        partial.write_text(text)
        partial.chmod(0o755)
        partial.rename(compiler)
    return compiler


@pytest.mark.slow
def test_programs_are_clean(watching_compiler: Path) -> None:
    environment = runtime("address,undefined")
    tests = [f"tests/compiler/{name}" for name in TESTS]
    plugins = "-p", "no:cacheprovider", "-p", "no:xdist"
    done = run("-m", "pytest", "-q", "-x", *plugins, *tests, CXX=str(watching_compiler), **environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
