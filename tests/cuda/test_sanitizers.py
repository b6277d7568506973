"""GCC's sanitizers see what kernels do wrong, and nothing wrong in generated ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cuda.host import sanitized

ROOT = Path(__file__).parents[2]
#: Operations of all kinds: functions of CUDA's and of the package, several operands, integers, conditions.
OPERATIONS = "add or pow or erfinv or logaddexp or bitwise_left_shift or remainder or gelu or where or lerp or sigmoid"

LAUNCH = """
import sys
import numpy as np
from tests.cuda.host import HostLibrary
(name, source), count = sys.argv[1:3], int(sys.argv[3])
x = np.full(count, 2**31 - 4, np.int32)
kernel = HostLibrary([f'extern "C" __global__ void {name}(int* x, const int n) {{ {source} }}'])[name]
kernel((1,), (8,), (x, np.int32(8)))
print("done")
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **sanitized()}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "count", "report"),
    [
        ("if (threadIdx.x < n) x[threadIdx.x] = 1;", 8, ""),
        ("if (threadIdx.x < n) x[threadIdx.x] = 1;", 7, "heap-buffer-overflow"),
        ("if (x[static_cast<int>(threadIdx.x) - 1] == 5) x[0] = 1;", 8, "heap-buffer-overflow"),
        ("x[threadIdx.x] += threadIdx.x % 8 == 7 ? n : 0;", 8, "signed integer overflow"),
        ("x[threadIdx.x] <<= 4 * n;", 8, "shift exponent"),
    ],
    ids=["nothing", "beyond", "before", "overflow", "shift"],
)
def test_what_is_reported(source: str, count: int, report: str) -> None:
    done = run("-c", LAUNCH, "small", source, str(count))
    assert report in done.stderr
    assert (done.returncode == 0, "done" in done.stdout) == (not report, not report), done.stderr


@pytest.mark.slow
def test_generated_kernels() -> None:
    pytest.importorskip("cupy")
    options = ("-q", "-s", "-p", "no:cacheprovider", "-k", OPERATIONS)
    done = run("-m", "pytest", *options, "tests/cuda/test_fused_kernels.py")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
