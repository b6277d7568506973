"""The programs in docs/examples do what they promise; they need the extra ``examples``."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.processes import environment, needs_mpi

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"


def run(name, *options):
    """Run an example as a user does, and return what it prints."""
    command = [sys.executable, EXAMPLES / f"{name}.py", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@needs_mpi
def test_digits_in_two_processes(tmp_path):
    """Two processes, each with half of every batch, make the steps of one, up to the order of sums."""
    for needed in ("sklearn", "matplotlib", "tqdm"):
        pytest.importorskip(needed)
    program = [EXAMPLES / "digits.py", "--seed", "3", "--epochs", "2", "--out", tmp_path]
    accuracies, losses = [], []
    for start in ([], ["-m", "gradcore.distributed.run", "--nproc-per-node", "2"]):
        command = [sys.executable, *map(str, [*start, *program])]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
        assert done.returncode == 0, done.stderr
        (found,) = re.findall(r"test accuracy ([\d.]+)%", done.stdout)  # one process speaks
        accuracies.append(float(found))
        losses.append(float(re.findall(r"loss=([\d.]+)", done.stderr)[-1]))
    assert accuracies[1] == pytest.approx(accuracies[0], abs=1)
    assert losses[1] == pytest.approx(losses[0], abs=2e-3)


@pytest.mark.slow
def test_digits(tmp_path):
    """The classifier reads 97 % of the held-out digits, leaves its pictures, and repeats itself exactly."""
    for needed in ("sklearn", "matplotlib", "tqdm"):
        pytest.importorskip(needed)
    first, second = tmp_path / "first", tmp_path / "second"
    text = run("digits", "--device", "cpu", "--seed", 3, "--epochs", 30, "--out", first)
    assert "Ran on cpu" in text
    assert float(re.search(r"test accuracy ([\d.]+)%", text)[1]) >= 97

    again = run("digits", "--seed", 3, "--epochs", 30, "--out", second)
    assert again == text.replace(str(first), str(second))
    for picture in ("loss.png", "misread.png"):
        assert (first / picture).read_bytes() == (second / picture).read_bytes()
