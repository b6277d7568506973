"""Jobs that start again with another number of processes, and the machines that the launcher chooses."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gradcore.distributed import machines, run
from gradcore.distributed.machines import Machines
from gradcore.utils.data import DistributedSampler
from tests.distributed.elastic import BATCH, EPOCHS, SAMPLES
from tests.distributed.processes import environment, needs_mpi

PROGRAM = str(Path(__file__).with_name("elastic.py"))


@needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize(("how", "sizes"), [("killed", {3, 2}), ("grows", {2, 3})])
def test_a_job_goes_on_with_another_number_of_processes(how: str, sizes: set[int], tmp_path: Path) -> None:
    options = ["--nnodes", "2:3", "--max-restarts", "1" if how == "killed" else "0"]
    if how == "grows":
        (tmp_path / "machines").write_text("one\ntwo\n")
        options += ["--hostfile", "machines", "--mpiexec-args", "-launcher fork"]
    command = [sys.executable, "-m", "gradcore.distributed.run", *options, PROGRAM, how]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert ("restart 1 of 1" if how == "killed" else "the machines have changed: restart") in done.stderr
    if how == "killed":
        assert "rank 2 (pid" in done.stderr
        assert "was killed, or ended without an error of Python" in done.stderr
    notes = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("used-*.json"))]
    assert {note["size"] for note in notes} == sizes
    for epoch in range(EPOCHS):
        used = [x for note in notes if note["epoch"] == epoch for x in note["samples"]]
        assert len(used) <= SAMPLES + BATCH * max(sizes)  # the last batches may repeat some
        assert set(used) == set(range(SAMPLES))
        assert len(used) - SAMPLES < BATCH * max(sizes)
    assert (tmp_path / "result.json").exists()


@pytest.mark.parametrize("first", [1, 2, 3])
@pytest.mark.parametrize("then", [1, 2, 4])
def test_the_rest_of_an_epoch_is_shared_out(first: int, then: int) -> None:
    for samples in (7, 12, 13, 40):
        for shuffle in (False, True):
            for steps in range(samples // first + 1):
                before = [DistributedSampler(range(samples), first, rank, shuffle, seed=3) for rank in range(first)]
                after = [DistributedSampler(range(samples), then, rank, shuffle, seed=3) for rank in range(then)]
                for sampler in before:
                    sampler.set_epoch(5)
                for sampler in after:
                    sampler.set_epoch(5, start=steps * first)
                used = {i for sampler in before for i in list(sampler)[:steps]}
                rest = [list(sampler) for sampler in after]
                assert used.isdisjoint(itertools.chain(*rest))
                assert used.union(*rest) == set(range(samples))
                assert {len(part) for part in rest} == {len(after[0])}
    with pytest.raises(ValueError, match="start must be a number of samples"):
        after[0].set_epoch(0, start=-1)
    after[0].set_epoch(6)
    assert after[0].start == 0


def test_machines_of_each_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Machines(2, 4)
    assert plain.choose(0) == ["0", "1", "2", "3"]
    plain.lose(1)
    assert plain.choose(0) == ["0", "2", "3"]
    plain.lose(2)
    assert plain.choose(0) == ["0", "2"]
    plain.lose(0)  # there are too few without it
    assert plain.choose(0) == ["2", "0"]
    assert not plain.have_changed()
    path = tmp_path / "hosts"
    path.write_text("# names\na\nb  # the second\n\na\nc\nd\n")
    named = Machines(2, 3, path)
    assert named.choose(0) == ["a", "b", "c"]
    assert not named.have_changed()
    path.write_text("a\nb\nc\ne\n")
    assert not named.have_changed()  # enough are in use
    path.write_text("a\nc\n")
    assert named.have_changed()
    assert named.choose(0) == ["a", "c"]
    path.write_text("a\n")
    assert not named.have_changed()  # too few: the job goes on as long as it can
    with pytest.raises(RuntimeError, match="names 1 machines, and --nnodes asks for 2"):
        named.choose(0)
    path.write_text("a\nb\nc\n")
    monkeypatch.setattr(machines, "_answers", lambda mpiexec, name: name != "b")
    assert named.choose(0) == ["a", "b", "c"]
    named.lose_silent(["mpiexec"])
    assert named.choose(0) == ["a", "c"]
    path.unlink()  # while it is replaced
    assert named.choose(0) == ["a", "c"]


@pytest.mark.parametrize("text", ["0", "3:2", "a", "1:", ":2", "-1:2", "1:2:3"])
def test_numbers_of_machines_that_are_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="--nnodes must be a number of machines or MIN:MAX"):
        machines.parse_range(text)
    with pytest.raises(SystemExit):
        run.main([f"--nnodes={text}", "x.py"])
    assert "MIN:MAX" in capsys.readouterr().err
