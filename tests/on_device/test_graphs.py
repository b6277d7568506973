"""Steps of training as graphs: what is replayed is what would have run."""

from __future__ import annotations

import gc as garbage
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore import nn


def perceptron() -> tuple[Any, Any]:
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 4)), gc.randn(5, 6)


def convolutional() -> tuple[Any, Any]:
    layers = nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)
    more = nn.Conv2d(4, 4, 3, stride=2, groups=2), nn.ConvTranspose2d(4, 2, 2, stride=2), nn.Flatten()
    return nn.Sequential(*layers, *more), gc.randn(3, 2, 8, 8)


def transformer() -> tuple[Any, Any]:
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True), gc.randn(2, 5, 8)


class Sorted(nn.Module):
    """Sorting, choice and transforms between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        x = self.first(x).sort(-1).values
        x = gc.fft.irfft(gc.fft.rfft(x) * 2, 6)
        return self.last(x.topk(3).values)


def sorting() -> tuple[Any, Any]:
    return Sorted(), gc.randn(4, 6)


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "perceptron": perceptron, "convolutional": convolutional, "transformer": transformer, "sorting": sorting,
}  # fmt: skip
OPTIMIZERS = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adadelta", "RMSprop", "Rprop", "ASGD")


def stepping(made: Callable[[], tuple[Any, Any]], optimizer: str, **settings: Any) -> tuple[Any, Any, Any]:
    """Return a training step, its input, and the model."""
    gc.manual_seed(0)
    model, x = made()
    rule = getattr(gc.optim, optimizer)(model.parameters(), lr=0.01, capturable=True, **settings)

    def step(x: Any) -> Any:
        rule.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        rule.step()
        return loss

    return step, x, model


def trained(made: Callable[[], tuple[Any, Any]], optimizer: str, recorded: bool, **settings: Any) -> list[Any]:
    """Losses of some steps, by a graph or without, and the parameters after them."""
    step, x, model = stepping(made, optimizer, **settings)
    gc.manual_seed(1)
    if recorded:
        step = gc.cuda.graph(step, warmup=2)
        losses = [step(x).item() for _ in range(3)]  # two steps warm it up
    else:
        losses = [step(x).item() for _ in range(5)][2:]
    return [np.array(losses), *(p.detach().cpu().numpy() for p in model.parameters())]


@pytest.mark.parametrize("model", MODELS)
def test_models(model: str) -> None:
    """The gradient by the bias of attention's keys is zero but for rounding, which a small `eps` would blow up.

    Graphs round products differently, as they have a kernel of the package for them.
    """
    found = (trained(MODELS[model], "Adam", recorded, eps=1e-6) for recorded in (True, False))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers(optimizer: str) -> None:
    for a, b in zip(*(trained(perceptron, optimizer, recorded) for recorded in (True, False)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_two_graphs_side_by_side() -> None:
    """Each has its own memory: replays of one between those of the other change nothing."""
    alone = [trained(made, "Adam", True)[0] for made in (perceptron, convolutional)]
    steps = []
    for made in (perceptron, convolutional):
        step, x, _ = stepping(made, "Adam")
        steps.append((gc.cuda.graph(step, warmup=2), x))
    found = [[step(x).item() for step, x in steps] for _ in range(3)]
    np.testing.assert_allclose(np.array(found).T, alone, rtol=1e-5)


def test_memory_that_runs_out_while_work_is_recorded() -> None:
    """What is recorded keeps its memory, though nothing is left and everything free is given back."""
    gc.cuda.empty_cache()
    free = gc.cuda.mem_get_info()[0]
    x, g, failed = gc.ones(1 << 20), gc.cuda.CUDAGraph(), 0
    with gc.cuda.graph(g):
        y = (x * 2).exp()  # of which the inner result is free when the memory is asked for
        z = (y + x).sqrt()
        for _ in range(3):
            try:
                gc.empty(free, dtype=gc.uint8)
            except gc.cuda.OutOfMemoryError:
                failed += 1
        out = (z - y) * x
    assert failed == 3
    held = [gc.full((1 << 20,), float("nan")) for _ in range(8)]  # would be where the graph works
    g.replay()
    expected = np.sqrt(np.exp(2.0) + 1) - np.exp(2.0)
    np.testing.assert_allclose(out.cpu().numpy(), np.full(1 << 20, expected), rtol=1e-5)
    assert all(bool(h.isnan().all()) for h in held)


def test_memory_of_a_graph_goes_back_when_the_next_pool_is_made() -> None:
    """Not when the graph is collected: to free memory waits for the device, which no finalizer should do."""

    def record() -> tuple[Any, Any]:
        g = gc.cuda.CUDAGraph()
        with gc.cuda.graph(g):
            out = gc.ones(1 << 20) * 2
        return g, out

    record()  # The first recording allocates other memory, too, which stays.
    garbage.collect()
    gc.cuda.graph_pool_handle()
    free = gc.cuda.mem_get_info()[0]
    g, out = record()
    held = free - gc.cuda.mem_get_info()[0]
    assert held >= 4 << 20
    del g, out
    garbage.collect()
    assert free - gc.cuda.mem_get_info()[0] == held
    gc.cuda.graph_pool_handle()
    assert gc.cuda.mem_get_info()[0] == free


def test_a_graph_keeps_the_plans_of_its_transforms() -> None:
    """CuPy's cache drops plans. Their work areas, which each replay uses, must not become memory of other arrays."""
    cupy = pytest.importorskip("cupy")
    cache = cupy.fft.config.get_plan_cache()

    def addresses() -> set[int]:
        """Return where arrays of the size of a work area come to lie."""
        garbage.collect()
        arrays = [gc.empty(4) for _ in range(200)]
        return {a.data_ptr() for a in arrays}

    cache.clear()
    x = gc.randn(8, 16)
    gc.fft.rfft(x)  # makes the plan, in the memory of all arrays
    (area,) = [node.plan.work_area.ptr for _, node in cache]
    settings = cache.get_size(), cache.get_memsize()
    g = gc.cuda.CUDAGraph()
    with gc.cuda.graph(g):
        y = gc.fft.rfft(x)
    assert (cache.get_size(), cache.get_memsize()) == settings
    cache.clear()
    assert area not in addresses()
    x.normal_()
    g.replay()
    np.testing.assert_allclose(y.numpy(), np.fft.rfft(x.numpy()), rtol=1e-4, atol=1e-4)
    g.reset()
    assert area in addresses()


def test_an_error_of_memory_during_a_capture_keeps_its_class() -> None:
    x, graph = gc.ones(3), gc.cuda.CUDAGraph()
    with pytest.raises(gc.OutOfMemoryError, match="out of memory"), gc.cuda.graph(graph):
        gc.empty(1 << 40)
    graph = gc.cuda.CUDAGraph()
    with gc.cuda.graph(graph):
        y = x + 1
    graph.replay()
    assert y.tolist() == [2, 2, 2]
