"""The same script with PyTorch's gloo and with gradcore: the same losses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gradcore.distributed.rendezvous import find_free_port
from tests.distributed.processes import environment, needs_mpi, start

PROGRAM = str(Path(__file__).with_name("trained.py"))
TUTORIALS = str(Path(__file__).with_name("tutorials.py"))


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


#: How much the losses may differ, in relation to those of PyTorch: float32, or gathered and computed in bfloat16.
BOUNDS = {
    "ddp_example": 1e-5, "multigpu": 1e-5, "multigpu_torchrun": 1e-5, "fsdp2": 1e-5, "fsdp2_prefetch": 1e-5,
    "fsdp2_mixed_precision": 0.03, "fsdp2_distributed_tensors": 1e-5,
}  # fmt: skip


@needs_mpi
@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDS)
def test_tutorials_have_the_losses_that_they_have_with_gloo(name, tmp_path):
    pytest.importorskip("torch")
    files = [tmp_path / library / "losses.json" for library in ("torch", "gradcore")]
    for file in files:
        file.parent.mkdir()
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_free_port("127.0.0.1"))}
    if name == "multigpu":  # it starts its processes itself
        ranks, command = [{}], [sys.executable, "-m", "gradcore.as_torch", TUTORIALS, name, str(files[1])]
    else:
        ranks = [{"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)} for rank in range(2)]
        run = [sys.executable, "-m", "gradcore.distributed.run", "--nproc-per-node", "2", "-m", "gradcore.as_torch"]
        command = [*run, TUTORIALS, name, str(files[1])]
    children = [
        subprocess.Popen(
            [sys.executable, TUTORIALS, name, str(files[0])], env=environment(**variables, **rank),
            stderr=subprocess.PIPE, text=True,
        )
        for rank in ranks
    ]  # fmt: skip
    errors = [child.communicate(timeout=200)[1] for child in children]
    assert not any(child.returncode for child in children), errors
    variables["MASTER_PORT"] = str(find_free_port("127.0.0.1"))
    done = subprocess.run(
        command, env=environment(**variables), capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    (theirs, wanted), (ours, found) = (json.loads(file.read_text()) for file in files)
    assert "gradcore" in ours
    assert "gradcore" not in theirs
    assert found == pytest.approx(wanted, rel=BOUNDS[name])


@needs_mpi
@pytest.mark.slow
def test_offloading_changes_nothing_on_the_host(tmp_path):
    """PyTorch refuses it without an accelerator, so both results are gradcore's."""
    losses = []
    for name in ("fsdp2", "fsdp2_offload"):
        done = start(2, "-m", "gradcore.as_torch", TUTORIALS, name, str(tmp_path / name))
        assert done.returncode == 0, done.stderr
        losses.append(json.loads((tmp_path / name).read_text())[1])
    assert losses[0] == losses[1]
