"""Programs that become C++ call the library's kernels."""

from __future__ import annotations

import pytest

from tests.compiled.apart import run


@pytest.mark.slow
def test_programs_agree_with_eager_execution(library_variables: dict[str, str]) -> None:
    arguments = "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "tests/compiler/test_native.py"
    done = run("-m", "pytest", *arguments, "-k", "convolutions", **library_variables)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
