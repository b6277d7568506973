"""Connectionist temporal classification on a device: one kernel for all time steps forward, and one backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from tests.on_device.comparing import agree
from tests.on_device.test_launches import DTYPES, launches, with_gradients

F = gc.nn.functional

#: No other test runs these kernels, of which each sample on a device runs some.
pytestmark = pytest.mark.sampled(6)

#: Steps, classes, lengths of inputs and of targets; and the blank.
PROBLEMS = [
    (1, 3, (1,), (1,), 0), (1, 2, (1, 1), (0, 1), 1), (7, 4, (7, 5, 0), (3, 2, 0), 0), (12, 3, (12, 9), (5, 4), 2),
    (5, 3, (5, 5), (4, 5), 0), (90, 30, (90, 77, 3, 51), (33, 16, 2, 40), 7), (3, 4, (3, 3), (0, 0), 1),
]  # fmt: skip


def drawn(problem: Any, dtype: Any, seed: int = 0) -> tuple[Any, list[list[int]]]:
    """Logarithms of probabilities, and targets in which labels are often repeated."""
    steps, classes, inputs, lengths, blank = problem
    rng = np.random.default_rng(seed)
    log_probs = gc.tensor(rng.standard_normal((steps, len(inputs), classes))).log_softmax(-1).to(dtype)
    labels = [label for label in range(classes) if label != blank]
    return log_probs, [[int(rng.choice(labels)) for _ in range(n)] for n in lengths]


def padded(rows: list[list[int]]) -> Any:
    longest = max(map(len, rows))
    return gc.tensor([row + [0] * (longest - len(row)) for row in rows]).reshape(len(rows), longest)


def run_on(where: str, log_probs: Any, settings: Any, second: bool) -> list[Any]:
    """Compute the loss and its gradients on a device."""
    targets, *rest = settings
    at = targets.to(where)
    return with_gradients(lambda x: F.ctc_loss(x, at, *rest), log_probs.to(where), second=second)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_losses_and_gradients(device: str, problem: Any) -> None:
    _, _, inputs, lengths, blank = problem
    for dtype in DTYPES:
        log_probs, rows = drawn(problem, dtype)
        joined = gc.tensor([label for row in rows for label in row], dtype=gc.int64)
        for targets in (padded(rows), joined):
            for reduction, zero in (("none", False), ("mean", True), ("sum", True)):
                settings = targets, inputs, lengths, blank, reduction, zero
                second = dtype is gc.float64 and zero
                found = [run_on(where, log_probs, settings, second) for where in (device, "cpu")]
                agree(*found, f"{dtype} {reduction} {zero}")


def test_layouts(device: str) -> None:
    problem = PROBLEMS[2]
    log_probs, rows = drawn(problem, gc.float64)
    targets = padded(rows)
    layouts = {
        "classes first": log_probs.permute(2, 0, 1).contiguous().permute(1, 2, 0),
        "every second": gc.stack([log_probs, log_probs], -1)[..., 0],
        "offset": gc.cat([log_probs.flatten()[:1], log_probs.flatten()])[1:].view(log_probs.shape),
        "expanded": log_probs[:1].expand(log_probs.shape),
        "one sequence": log_probs[:, 0],
    }
    for name, x in layouts.items():
        lengths = problem[2:4] if x.ndim == 3 else ((7,), (3,))

        def run(where: str, x: Any = x, lengths: Any = lengths) -> list[Any]:
            at = (targets if x.ndim == 3 else targets[0]).to(where)
            return with_gradients(lambda x: F.ctc_loss(x, at, *lengths, reduction="none"), x.to(where))

        agree(run(device), run("cpu"), name)


@pytest.mark.parametrize("value", [float("-inf"), float("nan"), -1e4, -1e30, 0.0])
def test_extreme_values(device: str, value: float) -> None:
    problem = PROBLEMS[2]
    log_probs, rows = drawn(problem, gc.float64)
    log_probs[2, 0, 1] = log_probs[3, 1] = value

    def run(where: str) -> list[Any]:
        loss = lambda x: F.ctc_loss(x, padded(rows).to(where), *problem[2:4], reduction="none")  # noqa: E731
        return with_gradients(loss, log_probs.to(where))

    agree(run(device), run("cpu"), str(value))


def test_sequences_longer_than_shared_memory(device: str) -> None:
    problem = (1300, 5, (1300, 1200), (600, 513), 0)
    log_probs, rows = drawn(problem, gc.float64)

    def run(where: str) -> list[Any]:
        loss = lambda x: F.ctc_loss(x, padded(rows).to(where), *problem[2:4])  # noqa: E731
        return with_gradients(loss, log_probs.to(where))

    agree(run(device), run("cpu"))


def test_labels_that_are_no_class(device: str) -> None:
    log_probs, _ = drawn(PROBLEMS[2], gc.float32)
    with pytest.raises(IndexError, match="index 9 is out of bounds for dimension 2 with size 4"):
        F.ctc_loss(log_probs.to(device), gc.tensor([[1, 9, 2]] * 3, device=device), (7, 5, 4), (3, 2, 0)).item()


@pytest.mark.parametrize("steps", [10, 40])
def test_launches(device: str, steps: int) -> None:
    """Count the launches: one for the losses and one for the gradient, whatever the number of time steps."""
    from gradcore.backends import registry

    backend: Any = registry.find("cuda")
    log_probs, rows = drawn((steps, 5, (steps, steps), (3, 2), 0), gc.float32)
    labels = gc.tensor([[0, *(v for label in (row * 3)[:3] for v in (label, 0))] for row in rows], device=device)
    ends = gc.tensor([[False] * 5 + [True] * 2] * 2, device=device)
    counts = gc.tensor([[steps]] * 2, device=device)
    arrays = [t._array for t in (log_probs.to(device), labels, ends, counts)]
    assert launches(lambda: backend.ctc_losses(*arrays, 0)) == 1
    losses, alphas = backend.ctc_losses(*arrays, 0)
    assert launches(lambda: backend.ctc_losses_backward(losses, None, *arrays, losses, alphas, 0)) == 1
