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
    """What a program of Python's prints."""
    run = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return run.stdout


@pytest.mark.parametrize("compiled", ["0", "auto"])
def test_import_changes_nothing(compiled: str) -> None:
    assert output(str(PROGRAM), GRADCORE_COMPILED=compiled) == ""


@pytest.mark.skipif(not gc.memory_stats() or not config.KEEP_MEMORY, reason="freed memory is not kept here")
def test_memory_is_kept_from_the_first_large_computation_on() -> None:
    """So the look at memory sees what it is to see."""
    found = output(str(PROGRAM), "large", OMP_NUM_THREADS="1")
    assert "memory" in found
    assert "memory" not in output(str(PROGRAM), "large", OMP_NUM_THREADS="1", GRADCORE_KEEP_MEMORY="0")


def test_a_failing_import_leaves_the_collector_on() -> None:
    code = "import gc\ntry:\n import gradcore\nexcept ValueError:\n print(gc.isenabled())"
    assert output("-c", code, GRADCORE_FUSION="neither") == "True\n"


@pytest.mark.parametrize("enabled", [True, False])
def test_what_the_program_froze_stays_frozen(enabled: bool) -> None:
    switch = "" if enabled else "gc.disable()\n"
    code = f"import gc\ngc.freeze()\nn = gc.get_freeze_count()\n{switch}import gradcore\n"
    assert output("-c", code + "print(gc.isenabled(), gc.get_freeze_count() > n // 2)") == f"{enabled} True\n"
