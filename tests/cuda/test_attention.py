"""Attention in blocks of scores on CUDA, for wide heads, executed on the host, against attention that keeps weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy import attention as cupy_attention
from gradcore.backends.cupy import flash_attention
from tests.cuda.host import needs_compiler
from tests.strict.blas import CALLS
from tests.strict.device import COUNTS

F = gc.nn.functional
TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-12}

CASES = {
    "plain": ([(2, 3, 20, 4), (2, 3, 30, 4), (2, 3, 30, 2)], {}),
    "causal": ([(2, 3, 20, 4), (2, 3, 30, 4), (2, 3, 30, 2)], {"is_causal": True}),
    "causal, fewer keys": ([(3, 30, 4), (3, 20, 4), (3, 20, 5)], {"is_causal": True}),
    "long rows": ([(3, 4), (600, 4), (600, 2)], {"scale": 3.0}),
    "shared keys": ([(2, 1, 20, 4), (1, 3, 30, 4), (30, 2)], {}),
    "one mask": ([(2, 3, 20, 4), (2, 3, 30, 4), (2, 3, 30, 2), (20, 30)], {}),
    "masks of keys": ([(2, 3, 20, 4), (2, 3, 30, 4), (2, 3, 30, 2), (2, 1, 1, 30)], {}),
    "masks of heads": ([(2, 3, 20, 4), (2, 3, 30, 4), (2, 3, 30, 2), (3, 20, 30)], {}),
}


@pytest.fixture(autouse=True)
def _many_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    needs_compiler()
    monkeypatch.setattr(flash_attention, "_WIDEST", 0)
    monkeypatch.setattr(cupy_attention, "_SCORES", 512)
    monkeypatch.setattr(cupy_attention, "_QUERIES", 8)
    CALLS.clear()
    yield
    gc.backends.cuda.enable_flash_sdp(True)


@pytest.fixture
def backend(strict: str) -> Iterator[Any]:
    backend = gc.zeros(1, device=strict).device.backend
    yield backend
    backend.capture.on = False


def drawn(dtype: str, shapes: Any) -> list[Any]:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(getattr(gc, dtype).numpy) for shape in shapes]


def gradients(device: Any, arrays: Any, settings: Any, inputs: int = 3) -> list[Any]:
    tensors = [gc.tensor(a).to(device).requires_grad_() for a in arrays]
    out = F.scaled_dot_product_attention(*tensors, **settings)
    weight = gc.arange(out.numel(), dtype=out.dtype, device=device).reshape(out.shape) / out.numel()
    return [out, *gc.autograd.grad(out, tensors[:inputs], weight, retain_graph=True)]


def agree(found: Any, expected: Any, tolerance: float) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        one, other = (t.detach().cpu().double() for t in (one, other))
        assert (one - other).abs().max().item() <= tolerance * (1 + other.abs().max().item())


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", CASES)
def test_attention_in_blocks(strict: str, name: str, dtype: str) -> None:
    shapes, settings = CASES[name]
    arrays = drawn(dtype, shapes)
    expected = gradients("cpu", [a.astype("float64") for a in arrays], settings)
    COUNTS.clear()
    found = gradients(strict, arrays, settings)
    assert not COUNTS["sync"] + COUNTS["to host"]
    assert hasattr(found[0].grad_fn, "_saved_logsumexp")
    agree(found, expected, TOLERANCES[dtype])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["causal", "masks of heads"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_without_cublas(strict: str, backend: Any, name: str, dtype: str) -> None:
    """While a graph is captured, with the package's own products."""
    shapes, settings = CASES[name]
    arrays = drawn(dtype, shapes)
    backend.capture.on = True
    found = gradients(strict, arrays, settings)
    assert not CALLS
    agree(found, gradients("cpu", [a.astype("float64") for a in arrays], settings), TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_logarithms_and_scores_of_halves_are_float32(strict: str, dtype: str) -> None:
    """Scores of about 100 that differ by less than their rounding in half precision."""
    query, key, value = drawn(dtype, [(1, 40), (9, 40), (9, 3)])
    query[:], key[:] = 1.0, 2.5
    key[:, 0] += np.linspace(0, 0.5, 9).astype(key.dtype)
    found = gradients(strict, (query, key, value), {"scale": 1.0})
    assert found[0].grad_fn._saved_logsumexp.dtype is gc.float32
    wide = [a.astype("float64") for a in (query, key, value)]
    agree(found, gradients("cpu", wide, {"scale": 1.0}), TOLERANCES[dtype])


def test_gradients_of_masks_and_second_derivatives(strict: str) -> None:
    shapes, _ = CASES["masks of heads"]
    arrays = drawn("float64", shapes)
    agree(gradients(strict, arrays, {}, 4), gradients("cpu", arrays, {}, 4), 1e-12)

    def second(device: str) -> list[Any]:
        tensors = [gc.tensor(a).to(device).requires_grad_() for a in arrays]
        out = F.scaled_dot_product_attention(*tensors)
        first = gc.autograd.grad(out.square().sum(), tensors, create_graph=True)
        return list(gc.autograd.grad(sum(g.square().sum() for g in first), tensors))

    agree(second(strict), second("cpu"), 1e-11)


def test_hidden_rows_infinities_and_not_numbers(strict: str) -> None:
    arrays = drawn("float32", [(2, 9, 4), (2, 9, 4), (2, 9, 4)])
    mask = np.where(np.tri(9, k=-1, dtype=bool), np.float32(0), np.float32(-np.inf))
    for scale in (0.5, 300.0):
        found, expected = (gradients(d, [*arrays, mask], {"scale": scale}) for d in (strict, "cpu"))
        agree(found, expected, 2e-4)
        assert found[0][:, 0].eq(0).all()
        assert found[1][:, 0].eq(0).all()
    arrays[0][0, 3, 0] = np.nan
    out = gradients(strict, arrays, {})[0]
    assert out[0, 3].isnan().all()
    assert out.isnan().sum() == 4


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_batches(strict: str, dtype: str) -> None:
    """``vmap`` of gradients; halves keep weights in it."""
    arrays = drawn(dtype, [(3, *shape) for shape in CASES["causal"][0]])

    def program(device: str) -> Any:
        def loss(query: Any, key: Any, value: Any) -> Any:
            return F.scaled_dot_product_attention(query, key, value, is_causal=True).square().sum()

        tensors = [gc.tensor(a).to(device) for a in arrays]
        return gc.vmap(gc.func.grad(loss, (0, 1, 2)), in_dims=(0, 0, None))(*tensors[:2], tensors[2][0])

    agree(program(strict), program("cpu"), TOLERANCES[dtype])


def test_a_switch_keeps_weights(strict: str) -> None:
    arrays = drawn("float32", CASES["plain"][0])
    gc.backends.cuda.enable_flash_sdp(False)
    kept = gradients(strict, arrays, {})
    assert kept[0].grad_fn._saved_weights.shape == (2, 3, 20, 30)
    gc.backends.cuda.enable_flash_sdp(True)
    agree(gradients(strict, arrays, {}), kept, 2e-5)


def test_calls_of_a_block(strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits into one block is two products forward and five backward, and keys that no query sees are left out."""
    arrays = drawn("float32", [(2, 64, 4)] * 3)
    monkeypatch.setattr(cupy_attention, "_SCORES", 1 << 20)
    gradients(strict, arrays, {})
    assert CALLS["gemmStridedBatchedEx"] == 7
    launched = []
    plain = cupy_attention.CudaAttention._rows

    def noted(self: Any, name: str, of: Any, block: Any, *rest: Any) -> None:
        launched.append(block.seen.stop)
        plain(self, name, of, block, *rest)

    monkeypatch.setattr(cupy_attention.CudaAttention, "_rows", noted)
    gradients(strict, arrays, {"is_causal": True})
    assert launched == [*range(8, 65, 8)] * 2
