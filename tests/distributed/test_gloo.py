"""The same script with PyTorch's gloo and with gradcore: the same losses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.processes import environment, needs_mpi, start

PROGRAM = str(Path(__file__).with_name("trained.py"))


@needs_mpi
@pytest.mark.oracle
@pytest.mark.slow
def test_a_script_has_the_losses_that_it_has_with_gloo(tmp_path):
    pytest.importorskip("torch")
    init = f"file://{tmp_path / 'store'}"
    command = [sys.executable, PROGRAM, str(tmp_path / "torch.json"), init]
    children = [
        subprocess.Popen(command, env=environment(RANK=str(rank), WORLD_SIZE="2"), stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    errors = [child.communicate(timeout=200)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], errors
    done = start(2, "-m", "gradcore.as_torch", PROGRAM, str(tmp_path / "gradcore.json"))
    assert done.returncode == 0, done.stderr
    (_, wanted), (_, found) = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("torch", "gradcore"))
    assert len(found) == 80
    assert found == pytest.approx(wanted, rel=1e-9)
