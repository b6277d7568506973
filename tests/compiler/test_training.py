"""Small trainings: compiled, they have the losses of eager execution, and nothing grows."""

from __future__ import annotations

import gc as collector
import runpy
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradcore as gc
from gradcore import nn
from gradcore.compiler.function import CompiledFunction

F = nn.functional
TEXT = "the quick brown fox jumps over the lazy dog and runs away from the lazy dog again. " * 3
LETTERS = sorted(set(TEXT))
CODES = gc.tensor([LETTERS.index(c) for c in TEXT])
CONTEXT = 8


class Transformer(nn.Module):
    """Guesses the next character."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(len(LETTERS), 8), nn.Embedding(CONTEXT, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True)
        self.last = nn.Linear(8, len(LETTERS))

    def forward(self, x: gc.Tensor) -> gc.Tensor:
        h = self.letters(x) + self.places(gc.arange(x.shape[1]))
        return self.last(
            self.block(h, is_causal=True, src_mask=nn.Transformer.generate_square_subsequent_mask(CONTEXT))
        )


class Recurrent(nn.Module):
    """Guesses the next character by an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.lstm = nn.Embedding(len(LETTERS), 6), nn.LSTM(6, 10, 2, batch_first=True)
        self.last = nn.Linear(10, len(LETTERS))

    def forward(self, x: gc.Tensor) -> gc.Tensor:
        return self.last(self.lstm(self.letters(x))[0])


class Digits(nn.Module):
    """Classifies pictures with noise."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x: gc.Tensor) -> gc.Tensor:
        return self.last(gc.relu(self.first(x + 0.2 * gc.randn(len(x), 64))))


def windows() -> tuple[gc.Tensor, gc.Tensor]:
    starts = gc.randint(0, len(TEXT) - CONTEXT - 1, (6,)).tolist()
    return tuple(gc.stack([CODES[s + k : s + k + CONTEXT] for s in starts]) for k in (0, 1))  # type: ignore[return-value]


def pictures() -> tuple[gc.Tensor, gc.Tensor]:
    labels = gc.randint(0, 10, (12,))
    return gc.eye(10).repeat(1, 7)[:, :64][labels], labels


MODELS: dict[type[nn.Module], tuple[Callable[[], Any], float]] = {
    Transformer: (windows, 2.9), Recurrent: (windows, 3.1), Digits: (pictures, 0.9),
}  # fmt: skip


def train(cls: type[nn.Module], compiles: str, steps: int = 60) -> list[float]:
    gc.manual_seed(0)
    model = cls()
    optimizer = gc.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = gc.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    if compiles == "module":
        model.compile(fullgraph=True)

    def step(x: gc.Tensor, y: gc.Tensor) -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        return loss.item()  # type: ignore[return-value]

    run: Any = CompiledFunction(step) if compiles == "step" else step
    losses = [run(*MODELS[cls][0]()) for _ in range(steps)]
    assert compiles != "step" or (run._left is None and len(run._specializations) == 1)
    assert compiles != "module" or len(model._compiled_call_impl._specializations) == 1
    return losses


@pytest.mark.sampled(16)
@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_losses_are_those_of_eager_execution(cls: type[nn.Module]) -> None:
    losses = train(cls, "not")
    assert losses[-1] < MODELS[cls][1] < losses[0] * 1.2
    assert train(cls, "step") == losses
    for a, b in zip(train(cls, "module"), losses, strict=True):  # gradients of results are made contiguous
        assert a == pytest.approx(b, rel=1e-4)


def test_digits_example() -> None:
    """A step of ``docs/examples/digits.py`` in its own words, on its data: whole, and with the last, smaller batch."""
    for name in ("matplotlib", "tqdm"):
        pytest.importorskip(name)
    pixels, digits = pytest.importorskip("sklearn.datasets").load_digits(return_X_y=True)
    example = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "examples" / "digits.py"))
    del example["__builtins__"]

    def losses(compiles: bool) -> list[float]:
        gc.manual_seed(3)
        parameters = example["initial_parameters"]("cpu")
        velocities = [gc.zeros_like(p) for p in parameters]
        order = gc.randperm(len(digits))
        images, labels = gc.tensor(pixels / 16, dtype=gc.float32)[order], gc.tensor(digits)[order]

        def step(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
            x = x + example["NOISE"] * gc.randn(len(x), example["LAYERS"][0])
            loss = F.cross_entropy(example["scores"](parameters, x), y, reduction="sum")
            (loss / len(x)).backward()
            with gc.no_grad():
                for p, velocity in zip(parameters, velocities, strict=True):
                    velocity.mul_(example["MOMENTUM"]).add_(p.grad)
                    p -= example["LEARNING_RATE"] * velocity
                    p.grad = None
            return loss.detach().clone()

        run: Any = CompiledFunction(step, cpp="0") if compiles else step
        batches = [slice(i, i + example["BATCH"]) for i in range(0, len(digits), example["BATCH"])]
        found = [run(images[rows], labels[rows]).item() for rows in batches]
        assert not compiles or (run._left is None and run._specializations)
        return found

    eager = losses(False)
    assert losses(True) == eager
    assert eager[-2] < eager[0] / 2


@pytest.mark.slow
@pytest.mark.unverified("eager execution needs memory")
def test_ten_thousand_steps_do_not_grow() -> None:
    model = nn.Linear(3, 2)
    optimizer = gc.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    @gc.compile
    def step(x: gc.Tensor) -> float:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        if loss > 1e6:
            return 0.0
        optimizer.step()
        return loss.item()  # type: ignore[return-value]

    def run(times: int) -> int:
        for _ in range(times):
            step(x)
        collector.collect()
        return tracemalloc.get_traced_memory()[0]

    x = gc.randn(4, 3)
    run(200)
    tracemalloc.start()
    try:
        before = run(100)
        assert run(200) - before < 4096
    finally:
        tracemalloc.stop()
    objects = len(collector.get_objects())
    run(10_000)
    assert len(collector.get_objects()) - objects < 100
    assert len(step._specializations) == 1
