"""A program that only imports gradcore stays as it was: its collector, warnings, threads, memory and all the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gradcore as gc
from gradcore.core import config

PROGRAM = Path(__file__).parent / "programs" / "host_process.py"


def output(*command: str, **environment: str) -> str:
    """Run a Python program, and return its output."""
    run = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return run.stdout


@pytest.mark.parametrize("compiled", ["0", "auto"])
def test_import_changes_nothing(compiled: str) -> None:
    assert output(str(PROGRAM), GRADCORE_COMPILED=compiled) == ""


@pytest.mark.slow
@pytest.mark.skipif(not gc.memory_stats() or not config.KEEP_MEMORY, reason="freed memory is not kept here")
def test_memory_is_kept_from_the_first_large_computation_on() -> None:
    """So the look at memory sees what it is to see."""
    found = output(str(PROGRAM), "large", OMP_NUM_THREADS="1")
    assert "memory" in found
    assert "memory" not in output(str(PROGRAM), "large", OMP_NUM_THREADS="1", GRADCORE_KEEP_MEMORY="0")
