"""Registers, spilled bytes and instructions of kernels are not above those in `tests/cuda/resources.json`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cuda import resources

RECORDED = json.loads(resources.RECORD.read_text())


@pytest.mark.slow
def test_kernels_take_no_more_than_is_recorded() -> None:
    """In a process of its own, as NVRTC is itself there and not the rig's."""
    if os.environ.get("CUPY_HOST") != "1" or resources.ptxas() is None:
        pytest.skip("the numbers are those of the compilers that the rig installs")
    environment = {name: value for name, value in os.environ.items() if name != "CUPY_HOST"}
    command = [sys.executable, "-m", "tests.cuda.resources", "--compare", "90"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_what_rises_is_told() -> None:
    kernel, numbers = next(iter(RECORDED.items()))
    registers, spilled, instructions = numbers["90"]
    assert not resources.describe_risen({kernel: [registers, spilled, instructions - 1]}, 90)
    for worse in ([registers + 1, spilled, 1], [1, spilled + 4, 1], [1, spilled, instructions + 1]):
        assert len(resources.describe_risen({kernel: worse}, 90)) == 1
    assert resources.describe_risen({"another": [1, 0, 1]}, 90) == ["another is not recorded"]


def test_the_page_shows_what_is_recorded() -> None:
    text = resources.PAGE.read_text()
    for kernel, of in RECORDED.items():
        cells = " | ".join(f"{r} / {s} / {n} / {resources.warps(r)}" for r, s, n in of.values())
        assert f"| `{kernel}` | {cells} |" in text


def test_warps_by_registers() -> None:
    """As in NVIDIA's table of multiprocessors: registers are given out by 8 of each thread."""
    assert [resources.warps(r) for r in (16, 32, 33, 40, 64, 65, 128, 255)] == [64, 64, 48, 48, 32, 28, 16, 8]
