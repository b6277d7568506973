"""The launches, waits and peaks of memory in the table of slow places of docs/cuda-performance.md are as counted."""

from __future__ import annotations

import gc as garbage
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradcore as gc
from tests.on_device.test_launches import launches

F = gc.nn.functional
DOCUMENT = Path(__file__).parents[2] / "docs" / "cuda-performance.md"


def filled(*shape: int, dtype: gc.dtype = gc.float32) -> Any:
    return (gc.arange(gc.Size(shape).numel(), device="cuda") * 0.37).sin().reshape(shape).to(dtype).requires_grad_()


def with_gradients(function: Callable[..., Any], *inputs: Any) -> Callable[[], Any]:
    """Return a call that computes a function, the sum of its results, and the gradients by all inputs."""
    return lambda: gc.autograd.grad(function(*inputs).float().sum(), inputs)


def loss_of_sequences() -> Callable[[], Any]:
    targets, counts = gc.arange(20, device="cuda").reshape(4, 5) + 1, gc.full((4,), 5, device="cuda")
    steps = gc.full((4,), 40, device="cuda")
    return with_gradients(lambda x: F.ctc_loss(x.log_softmax(-1), targets, steps, counts), filled(40, 4, 30))


def product_in_a_graph() -> Callable[[], Any]:
    a, b, graph = filled(64, 32).detach(), filled(32, 48).detach(), gc.cuda.CUDAGraph()
    product = a @ b
    gc.cuda.synchronize()
    with gc.cuda.graph(graph):
        product.copy_(a @ b)
    return graph.replay


def convolution(dtype: gc.dtype) -> Callable[[], Any]:
    x, weight = filled(8, 16, 32, 32, dtype=dtype), filled(16, 16, 3, 3, dtype=dtype)
    return with_gradients(lambda x, weight: F.conv2d(x, weight, padding=1), x, weight)


def attention(dropout: float) -> Callable[[], Any]:
    heads = [filled(1, 4, 256, 16) for _ in range(3)]
    return with_gradients(lambda *heads: F.scaled_dot_product_attention(*heads, dropout_p=dropout), *heads)


def loss_of_halves() -> Callable[[], Any]:
    targets = gc.arange(64, device="cuda") * 70
    return with_gradients(lambda x: F.cross_entropy(x, targets), filled(64, 5000, dtype=gc.bfloat16))


def of_matrices(function: Callable[[Any], Any]) -> Callable[[], Any]:
    matrices = filled(32, 3, 3).detach()
    return lambda: function(matrices)


def of_rows(function: Callable[[Any], Any]) -> Callable[[], Any]:
    rows = filled(64, 5000).detach()
    return lambda: function(rows)


#: The calls of the table, by their names there.
CALLS: dict[str, Callable[[], Callable[[], Any]]] = {
    "`ctc_loss`, 40 steps, with gradients": loss_of_sequences,
    "a product in a CUDA graph": product_in_a_graph,
    "`topk(50)` of 64 x 5,000": lambda: of_rows(lambda x: gc.topk(x, 50)),
    "`median` of 64 x 5,000": lambda: of_rows(lambda x: gc.median(x, 1)),
    "`linalg.lu_factor` of 32 x 3 x 3": lambda: of_matrices(gc.linalg.lu_factor),
    "`matrix_exp` of 32 x 3 x 3": lambda: of_matrices(gc.matrix_exp),
    "`conv2d`, bfloat16, with gradients": lambda: convolution(gc.bfloat16),
    "`conv2d`, float32, with gradients": lambda: convolution(gc.float32),
    "attention with dropout, with gradients": lambda: attention(0.1),
    "attention, with gradients": lambda: attention(0.0),
    "`cross_entropy` of 64 x 5,000, bfloat16, with gradients": loss_of_halves,
    "`linear` with a bias, 64 x 256": lambda: (lambda x, w, b: lambda: F.linear(x, w, b))(
        filled(64, 256).detach(), filled(256, 256).detach(), filled(256).detach()
    ),
    "`interpolate`, bicubic, with gradients": lambda: with_gradients(
        lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), filled(4, 8, 16, 16)
    ),
}


def documented() -> dict[str, tuple[int, int, int]]:
    """Return the present launches, waits and KiB of each call in the table."""
    found = {}
    for line in DOCUMENT.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in CALLS:
            found[cells[0]] = tuple(int(number.replace(",", "")) for number in cells[-1].split(" / "))
    return found  # type: ignore[return-value]


def peak(call: Callable[[], Any]) -> int:
    """Return how many bytes a call takes at most, beyond those that are allocated before."""
    garbage.collect()
    gc.cuda.reset_peak_memory_stats()
    before = gc.cuda.memory_allocated()
    call()
    return gc.cuda.max_memory_allocated() - before


def test_each_call_is_documented() -> None:
    assert documented().keys() == CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_counts(device: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Once a graph with checks of indices has been captured, the host reads these at each wait: in other tests.
    monkeypatch.setitem(vars(gc.ones(1, device=device)._device.backend), "_watches", {})
    call = CALLS[name]()
    count = launches(call)
    rig = sys.modules["cupy_host"]
    before = rig.waits()
    call()
    assert (count, rig.waits() - before, -(-peak(call) // 1024)) == documented()[name]
