"""GCC's sanitizers see nothing wrong in native programs: no address, no undefined behaviour."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.compiled.apart import run
from tests.compiled.test_sanitizers import runtime

#: Tests that compare native programs with eager execution: layouts, threads, aliases, errors, and some operations.
TESTS = ("tests/compiler/test_native.py", "tests/compiler/test_rolling.py")
CHOSEN = (
    "test_programs or rows_columns or integers or gradients or threads or products or writes or views or errors_are "
    "or loops or samples_of_operations and (1-0 or 5- or 9-) or large_rows"
)


@pytest.mark.slow
def test_programs_are_clean(tmp_path: Path) -> None:
    environment = runtime("address,undefined")
    compiler = tmp_path / "c++"
    options = "-g1 -fsanitize=address,undefined -fno-sanitize-recover=all"
    compiler.write_text(f'#!/bin/sh\nexec {shutil.which("g++")} "$@" {options}\n')
    compiler.chmod(0o755)
    done = run("-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *TESTS, "-k", CHOSEN,
               CXX=str(compiler), **environment)  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
