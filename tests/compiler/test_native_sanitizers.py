"""GCC's sanitizers see nothing wrong in native programs: no address, no undefined behaviour."""

from __future__ import annotations

import pytest

from tests.compiled.apart import run, write_compiler
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


@pytest.mark.slow
def test_programs_are_clean() -> None:
    environment = runtime("address,undefined")
    compiler = write_compiler("-g1 -fsanitize=address,undefined -fno-sanitize-recover=all", "g++")
    tests = [f"tests/compiler/{name}" for name in TESTS]
    plugins = "-p", "no:cacheprovider", "-p", "no:xdist"
    done = run("-m", "pytest", "-q", "-x", *plugins, *tests, CXX=str(compiler), **environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
