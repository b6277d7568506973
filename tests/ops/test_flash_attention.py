"""Attention that keeps no weights: against attention that keeps them, in all modes of differentiation."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd import forward_ad
from gradcore.backends.numpy import flash_attention as numpy_flash_attention
from gradcore.backends.portable.attention import blocks

F = gc.nn.functional

CASES = {
    "plain": ([(2, 3, 20, 4), (2, 3, 30, 4), (2, 3, 30, 2)], {}),
    "causal": ([(2, 3, 20, 4), (2, 3, 30, 4), (2, 3, 30, 2)], {"is_causal": True}),
    "causal, fewer keys": ([(3, 30, 4), (3, 20, 4), (3, 20, 5)], {"is_causal": True}),
    "one head": ([(20, 4), (30, 4), (30, 2)], {"scale": 3.0}),
    "shared keys": ([(2, 1, 20, 4), (1, 3, 30, 4), (30, 2)], {}),
    "shared weights": ([(20, 4), (1, 30, 4), (2, 3, 30, 2)], {}),
    "shared queries and keys": ([(2, 1, 20, 4), (2, 1, 30, 4), (2, 3, 30, 2)], {"is_causal": True}),
    "groups of heads": ([(1, 4, 9, 2), (1, 2, 11, 2), (1, 2, 11, 2)], {"enable_gqa": True}),
    "one mask": ([(2, 3, 20, 4), (2, 3, 30, 4), (2, 3, 30, 2), (20, 30)], {}),
    "masks of keys": ([(2, 3, 20, 4), (2, 3, 30, 4), (2, 3, 30, 2), (2, 1, 1, 30)], {}),
    "masks of heads": ([(2, 3, 20, 4), (2, 3, 30, 4), (2, 3, 30, 2), (3, 20, 30)], {}),
}


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small attention is taken for large, in many blocks."""
    for name, value in {"_MANY": 1, "_SCORES": 512, "_QUERIES": 8}.items():
        monkeypatch.setattr(numpy_flash_attention, name, value)
    yield
    gc.backends.cuda.enable_flash_sdp(True)


def drawn(*shapes: tuple[int, ...], dtype: Any = gc.float64) -> list[Any]:
    rng = np.random.default_rng(0)
    return [gc.tensor(rng.standard_normal(shape), dtype=dtype) for shape in shapes]


def agree(found: Any, expected: Any, tolerance: float = 1e-12) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=tolerance, atol=tolerance)


def both(program: Any) -> tuple[Any, Any]:
    """Run a program with the fused attention kernels and without, and return both results."""
    results = []
    for enabled in (True, False):
        gc.backends.cuda.enable_flash_sdp(enabled)
        results.append(program())
    gc.backends.cuda.enable_flash_sdp(True)
    return results[0], results[1]


@pytest.mark.parametrize("name", CASES)
def test_results_and_derivatives_of_both_orders_and_modes(name: str) -> None:
    shapes, settings = CASES[name]
    tensors = [t.requires_grad_() for t in drawn(*shapes)]
    inputs = tensors[:3]

    def program() -> list[Any]:
        def attention() -> Any:
            return F.scaled_dot_product_attention(*tensors, **settings)

        out = attention()
        grads = [gc.autograd.grad(out.square().sum(), inputs)]
        for chosen in (inputs, tensors, tensors[:1], tensors[1:2], tensors[2:3]):
            first = gc.autograd.grad(attention().square().sum(), chosen, create_graph=True)
            grads += [first, gc.autograd.grad(sum(g.square().sum() for g in first), tensors)]
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(t, t.detach().cos()) for t in tensors]
            dual = F.scaled_dot_product_attention(*duals, **settings)
            tangent = forward_ad.unpack_dual(dual).tangent
            grads.append(gc.autograd.grad(tangent.square().sum(), tensors))
        return [out, *(g for group in grads for g in group), tangent]

    agree(*both(program))


@pytest.mark.parametrize("name", ["plain", "causal", "one mask", "masks of heads", "shared keys"])
def test_batches(name: str) -> None:
    """``vmap`` of gradients, where all inputs or only queries are of a batch, against a loop."""
    shapes, settings = CASES[name]
    tensors = drawn(*((3, *shape) for shape in shapes))

    def gradients(*inputs: Any) -> Any:
        def loss(query: Any, key: Any, value: Any) -> Any:
            return F.scaled_dot_product_attention(query, key, value, *inputs[3:], **settings).square().sum()

        return gc.func.grad(loss, (0, 1, 2))(*inputs[:3])

    found = gc.vmap(gradients)(*tensors)
    shared = [t[0] for t in tensors[1:]]
    of_queries = gc.vmap(gradients, in_dims=(0, *(None,) * len(shared)))(tensors[0], *shared)
    for i in range(3):
        agree([g[i] for g in found], gradients(*(t[i] for t in tensors)))
        agree([g[i] for g in of_queries], gradients(tensors[0][i], *shared))


@pytest.mark.parametrize("name", ["plain", "causal", "masks of heads", "shared keys"])
def test_batches_of_gradients(name: str) -> None:
    """Gradients of a batch for results that are none, and the other way round."""
    shapes, settings = CASES[name]
    tensors = [t.requires_grad_() for t in drawn(*shapes)]
    out = F.scaled_dot_product_attention(*tensors, **settings)
    (weights,) = drawn((3, *out.shape))
    found = gc.autograd.grad(out, tensors[:3], weights, is_grads_batched=True, retain_graph=True)
    for i in range(3):
        agree([g[i] for g in found], gc.autograd.grad(out, tensors[:3], weights[i], retain_graph=True))

    def total(query: Any) -> Any:
        return (F.scaled_dot_product_attention(query, *tensors[1:], **settings) * weights[0]).sum()

    (queries,) = drawn((3, *shapes[0]))
    agree(gc.vmap(gc.func.grad(total))(queries), [gc.func.grad(total)(query) for query in queries])


def test_hidden_rows_and_infinities() -> None:
    query, key, value = (t.requires_grad_() for t in drawn((2, 9, 4), (2, 9, 4), (2, 9, 4)))
    mask = gc.ones(9, 9, dtype=gc.bool).tril(-1)

    def program(scale: float) -> list[Any]:
        out = F.scaled_dot_product_attention(query, key, value, mask, scale=scale)
        return [out, *gc.autograd.grad(out.square().sum(), (query, key, value))]

    for scale in (0.5, 300.0):
        found, expected = both(lambda scale=scale: program(scale))
        agree(found, expected, 1e-9)
        assert found[0][:, 0].eq(0).all()
        assert found[1][:, 0].eq(0).all()


def test_what_is_saved() -> None:
    inputs = [t.requires_grad_() for t in drawn((2, 40, 4), (2, 50, 4), (2, 50, 3))]
    out = F.scaled_dot_product_attention(*inputs)
    node = out.grad_fn
    assert node.name() == "ScaledDotProductFlashAttentionForCpuBackward0"
    assert node._saved_logsumexp.shape == (2, 40, 1)
    scores = inputs[0] @ inputs[1].mT / 2
    agree([node._saved_logsumexp], [scores.logsumexp(-1, True)])
    gc.backends.cuda.enable_flash_sdp(False)
    assert F.scaled_dot_product_attention(*inputs).grad_fn._saved_weights.shape == (2, 40, 50)


@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16])
def test_halves_keep_weights(dtype: Any) -> None:
    """They are computed in float32, and the logarithms of sums would be rounded."""
    if dtype is gc.bfloat16:
        pytest.importorskip("ml_dtypes")
    (query,) = drawn((2, 40, 4), dtype=dtype)
    query.requires_grad_()
    assert hasattr(F.scaled_dot_product_attention(query, query, query).grad_fn, "_saved_weights")


def test_multi_head_attention_without_weights() -> None:
    layer = gc.nn.MultiheadAttention(8, 2, batch_first=True).double()
    (x,) = drawn((2, 20, 8))
    padding = gc.arange(20).expand(2, 20) >= 15

    def program() -> list[Any]:
        out, weights = layer(x, x, x, key_padding_mask=padding, need_weights=False)
        assert weights is None
        return [out, *gc.autograd.grad(out.square().sum(), list(layer.parameters()))]

    agree(*both(program), 1e-11)
    out, weights = layer(x, x, x, key_padding_mask=padding)
    agree([out], [program()[0]])
    assert weights.shape == (2, 20, 20)


def test_memory_is_less_than_that_of_all_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_flash_attention, "_SCORES", 1 << 16)
    inputs = [t.requires_grad_() for t in drawn(*[(4, 1024, 8)] * 3, dtype=gc.float32)]
    tracemalloc.start()
    try:
        F.scaled_dot_product_attention(*inputs).sum().backward()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * 1024 * 1024  # a quarter of all weights


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 20, 30), (7, 30, 20), (5, 8, 8), (2, 100, 1000)])
def test_blocks_cover_what_is_seen_once(shape: tuple[int, int, int], causal: bool) -> None:
    covered = np.zeros(shape, int)
    for group in blocks(shape, 512, 8, causal):
        assert len({(block.heads.start, block.heads.stop) for block in group}) == 1
        for block in group:
            part = covered[block.heads, block.rows, block.seen]
            part += 1
            assert part.size <= 512 or part.shape[:2] == (1, 1)
    assert covered.max() == 1
    assert (covered[:, np.tri(*shape[1:], dtype=bool)] if causal else covered).all()
