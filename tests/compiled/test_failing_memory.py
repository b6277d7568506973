"""Kernels of the library that lack memory raise MemoryError, in one thread and in several."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compiled.apart import run


@pytest.mark.slow
def test_failed_allocations_are_memory_errors(tmp_path: Path, library_variables: dict[str, str]) -> None:
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if sys.platform != "linux" or compiler is None:
        pytest.skip("there is no C++ compiler, or not Linux, where a library's memory comes from the one loaded first")
    source, library = Path(__file__).with_name("failing_memory.cpp"), tmp_path / "failing_memory.so"
    subprocess.run([compiler, "-std=c++17", "-O1", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    done = run("-m", "tests.compiled.failing_memory", str(library), **library_variables)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    failures = {name: int(number) for name, number in re.findall(r"(.+): (\d+)", done.stdout)}
    in_one_thread = [number for name, number in failures.items() if name.endswith(", 1")]
    assert len(in_one_thread) > 10
    assert min(in_one_thread) > 0, failures
    assert failures["convolution, 2"] > 0
