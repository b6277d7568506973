"""Tensors on the meta device: graphs and gradients without data."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import gradcore as gc

F = gc.nn.functional


def meta(*shape: int, **named: Any) -> gc.Tensor:
    return gc.empty(*shape, device="meta", **named)


def test_printing() -> None:
    assert repr(meta(2, 3)) == "tensor(..., device='meta', size=(2, 3))"
    assert repr(meta(2, requires_grad=True)) == "tensor(..., device='meta', size=(2,), requires_grad=True)"
    assert repr(meta(dtype=gc.int64) * 1) == "tensor(..., device='meta', size=(), dtype=torch.int64)"


def test_gradients_have_shapes() -> None:
    a, b = meta(4, 1, 3, requires_grad=True), meta(2, 3, requires_grad=True, dtype=gc.float64)
    out = ((a * b).tanh() + a.sum()).sum()
    assert (out.device, out.dtype, out.requires_grad) == ("meta", gc.float64, True)
    out.backward()
    for leaf in (a, b):
        assert leaf.grad is not None
        assert (leaf.grad.shape, leaf.grad.dtype, leaf.grad.device) == (leaf.shape, leaf.dtype, leaf.device)
    (second,) = gc.autograd.grad((a * a * a).sum(), a, create_graph=True)
    second.sum().backward()
    assert a.grad.shape == (4, 1, 3)


def test_views_and_writes_in_place() -> None:
    x = meta(3, 4, requires_grad=True) * 1
    view = x.transpose(0, 1)
    assert view._base is x
    assert (view.stride(), view.is_contiguous()) == ((1, 4), False)
    view.mul_(2)
    assert x.grad_fn is not None
    assert (type(x.grad_fn).__name__, x._version) == ("CopySlices", 1)
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        meta(1, 3).expand(2, 3).add_(1)
    assert meta(3, 4).exp().stride() == (4, 1)
    assert meta(3, 4).transpose(0, 1).exp().stride() == (1, 4)


def test_moves() -> None:
    here = gc.ones(2, 3, requires_grad=True)
    there = here.to("meta")
    assert (there.is_meta, there.shape) == (True, (2, 3))
    for leave in (lambda: there.to("cpu"), lambda: there.cpu(), lambda: there.tolist()):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            leave()
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        there.detach().numpy()
    for convert in (float, bool, int, gc.Tensor.item):
        with pytest.raises(RuntimeError, match=r"Tensor\.item\(\) cannot be called on meta tensors"):
            convert(there.detach().sum())
    assert there.data_ptr() == 0
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        there + here
    assert (there + gc.ones(())).is_meta


def test_half_precision() -> None:
    for dtype in (gc.float16, gc.bfloat16):
        x = meta(2, 3, dtype=dtype, requires_grad=True)
        (x * 2).exp().sum().backward()
        assert x.grad is not None
        assert x.grad.dtype is dtype


def peak(call: Callable[[], Any]) -> int:
    """Bytes in use at most, above what there was."""
    call()  # imports, caches
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


N = 1_000_000


def large(*shape: int) -> gc.Tensor:
    return meta(*shape, requires_grad=True)


def index(*shape: int) -> gc.Tensor:
    return meta(*shape, dtype=gc.int64)


LARGE: dict[str, Callable[[], gc.Tensor]] = {
    "matmul": lambda: large(N, N) @ large(N, N),
    "conv2d": lambda: F.conv2d(large(N, 64, 2000, 2000), large(256, 64, 3, 3), padding=1),
    "conv_transpose2d": lambda: F.conv_transpose2d(large(N, 8, N, N), large(8, 8, 3, 3), stride=2),
    "max_pool2d": lambda: F.max_pool2d(large(N, 3, N, N), 3, 2, 1),
    "avg_pool2d": lambda: F.avg_pool2d(large(N, 3, N, N), 3, 2, 1),
    "adaptive_max_pool2d": lambda: F.adaptive_max_pool2d(large(N, 3, N, N), (7, 7)),
    "interpolate": lambda: F.interpolate(large(N, 3, 2000, 2000), scale_factor=2.0, mode="bilinear"),
    "reflect": lambda: F.pad(large(N, 3, N), (5, 5), mode="reflect"),
    "unfold": lambda: F.unfold(large(N, 8, 500, 500), 3),
    "softmax": lambda: F.softmax(large(N, N), -1),
    "layer_norm": lambda: F.layer_norm(large(N, N), (N,), large(N), large(N)),
    "batch_norm": lambda: F.batch_norm(large(N, 64, N), None, None, training=True),
    "cross_entropy": lambda: F.cross_entropy(large(N, N), index(N)),
    "attention": lambda: F.scaled_dot_product_attention(large(N, 8, N, 64), large(N, 8, N, 64), large(N, 8, N, 64)),
    "embedding": lambda: F.embedding(index(N, N), large(N, N)),
    "gather": lambda: large(N, N).gather(1, index(N, N)),
    "scatter_reduce": lambda: large(N, N).scatter_reduce(1, index(N, N), large(N, N), "amax"),
    "index": lambda: large(N, N)[index(N)],
    "sort": lambda: large(N, N).sort(1)[0],
    "median": lambda: large(N, N).median(1)[0],
    "cumprod": lambda: large(N, N).cumprod(1),
    "logcumsumexp": lambda: large(N, N).logcumsumexp(1),
    "einsum": lambda: gc.einsum("bij,bjk->bik", large(N, N, 8), large(N, 8, N)),
    "solve": lambda: gc.linalg.solve(large(N, 50, 50), large(N, 50, 3)),
    "svd": lambda: gc.linalg.svd(large(N, 50, 40), full_matrices=False)[1],
    "lu": lambda: gc.linalg.lu(large(N, 2000, 2000))[2],
    "fft2": lambda: gc.fft.fft2(large(N, N)).real,
    "cat": lambda: gc.cat([large(N, N)] * 3),
    "arange": lambda: gc.arange(float(N * N), device="meta", requires_grad=True),
    "linspace": lambda: gc.linspace(0, 1, N * N, device="meta", requires_grad=True),
    "eye": lambda: gc.eye(N, device="meta", requires_grad=True),
    "randn": lambda: gc.randn(N, N, device="meta", requires_grad=True),
    "dropout": lambda: F.dropout(large(N, N)),
}


@pytest.mark.parametrize("name", LARGE)
def test_size_costs_nothing(name: str) -> None:
    """Neither memory nor time: forward and backward of what would fill thousands of machines."""

    def run() -> None:
        LARGE[name]().sum().backward()

    assert peak(run) < 200_000


def test_shapes_of_large_results() -> None:
    x, weight = large(N, 64, 2000, 2000), large(256, 64, 3, 3)
    out = F.conv2d(x, weight, padding=1)
    assert out.shape == (N, 256, 2000, 2000)
    F.max_pool2d(out, 2).sum().backward()
    assert x.grad is not None
    assert weight.grad is not None
    assert (x.grad.shape, weight.grad.shape) == (x.shape, weight.shape)


@pytest.mark.parametrize(("row", "col", "offset"), [(3, 4, 0), (4, 3, 1), (5, 2, -2), (3, 3, 5), (0, 3, 0)])
def test_triangles(row: int, col: int, offset: int) -> None:
    for function in (gc.tril_indices, gc.triu_indices):
        assert function(row, col, offset, device="meta").shape == function(row, col, offset).shape
