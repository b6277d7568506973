"""Attention on CUDA by kernels that keep no scores, executed on the host, against attention that keeps weights.

What tensor cores multiply is computed from their definition: the layouts are those of a device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy.flash_attention import defines
from tests.cuda.host import launched, needs_compiler
from tests.cuda.test_attention import CASES, TOLERANCES, agree, drawn, gradients
from tests.strict.device import COUNTS

F = gc.nn.functional
#: Digits of TensorFloat32.
TENSOR_FLOAT = 4e-3
FORWARD, BACKWARD = {"flash_attention": 1}, {"flash_attention_queries": 1, "flash_attention_keys": 1}


@pytest.fixture(autouse=True)
def _compiler() -> None:
    needs_compiler()


@pytest.fixture
def backend(strict: str) -> Any:
    return gc.zeros(1, device=strict).device.backend


@pytest.fixture
def tensor_float() -> Iterator[None]:
    gc.set_float32_matmul_precision("high")
    yield
    gc.set_float32_matmul_precision("highest")


def compare(device: str, arrays: Any, settings: Any, tolerance: float) -> None:
    COUNTS.clear()
    with launched() as counts:
        found = gradients(device, arrays, settings)
    assert not COUNTS["sync"] + COUNTS["to host"]
    is_wide = max(a.shape[-1] for a in arrays[:3]) > 128  # each gradient is computed by a kernel of its own
    assert counts == FORWARD | BACKWARD | ({"flash_attention_keys": 2} if is_wide else {})
    agree(found, gradients("cpu", [a.astype("float64") for a in arrays], settings), tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", CASES)
def test_fused_attention(strict: str, name: str, dtype: str) -> None:
    shapes, settings = CASES[name]
    compare(strict, drawn(dtype, shapes), settings, TOLERANCES[dtype])


#: Rows that end inside of tiles, at their ends, and after several of them, for every width that kernels are made for.
SIZES: dict[int, Any] = {
    16: ([(1, 130, 16), (1, 97, 16), (1, 97, 12)], {"is_causal": True}),
    32: ([(2, 64, 32), (2, 64, 32), (2, 64, 32), (1, 64, 64)], {}),
    64: ([(65, 64), (129, 64), (129, 40)], {"is_causal": True}),
    128: ([(33, 100), (70, 100), (70, 128)], {"scale": 0.05}),
    256: ([(2, 33, 200), (1, 50, 200), (1, 50, 256), (33, 50)], {"scale": 0.05}),
}
#: Of those the ones that are compiled for, in turn with and without tensor cores.
COMPILED = [
    ("float16", 90, 32), ("bfloat16", 90, 64), ("float16", 90, 128), ("bfloat16", 90, 256), ("float16", 75, 64),
    ("bfloat16", 75, 16), ("float32", 75, 64), ("float32", 75, 128), ("float16", 75, 256), ("float64", 75, 32),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "capability", "width"), COMPILED)
def test_widths_and_lengths(
    strict: str, backend: Any, monkeypatch: pytest.MonkeyPatch, dtype: str, capability: int, width: int
) -> None:
    monkeypatch.setattr(backend, "compute_capability", lambda: capability)
    shapes, settings = SIZES[width]
    compare(strict, drawn(dtype, shapes), settings, TOLERANCES[dtype])


@pytest.mark.slow
@pytest.mark.usefixtures("tensor_float")
@pytest.mark.parametrize("width", [16, 64])
def test_tensor_float(strict: str, width: int) -> None:
    shapes, settings = SIZES[width]
    arrays = drawn("float32", shapes)
    compare(strict, arrays, settings, TENSOR_FLOAT)
    precise, rounded = gradients("cpu", arrays, settings), gradients(strict, arrays, settings)
    assert (precise[0] - rounded[0].cpu()).abs().max().item() > 1e-6


def in_heads(x: Any) -> Any:
    """Heads that lie in rows of ``(length, batch, heads, width)``."""
    return x.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "heads in rows": in_heads,
    "every other row": lambda x: gc.stack([x, x], -2).flatten(-3, -2)[..., ::2, :],
    "columns": lambda x: x.mT.contiguous().mT,
    "not aligned": lambda x: gc.cat([x[..., :1], x], -1)[..., 1:],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_operands_are_read_where_they_lie(strict: str, layout: str, dtype: str) -> None:
    arrays = drawn(dtype, [(2, 3, 20, 16), (2, 3, 30, 16), (2, 3, 30, 16)])

    def run(device: str) -> list[Any]:
        tensors = [LAYOUTS[layout](gc.tensor(a).to(device)).requires_grad_() for a in arrays]
        out = F.scaled_dot_product_attention(*tensors)
        return [out, *gc.autograd.grad(out, tensors, LAYOUTS[layout](out.detach()))]

    with launched() as counts:
        found = run(strict)
    assert counts == FORWARD | BACKWARD
    agree(found, run("cpu"), TOLERANCES[dtype])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("shape", [None, (20, 30), (2, 1, 20, 30), (2, 6, 1, 30)])
def test_heads_that_share_keys(strict: str, dtype: str, shape: Any) -> None:
    """Keys and values are not repeated, and their gradients come as they are."""
    arrays = drawn(dtype, [(2, 6, 20, 8), (2, 2, 30, 8), (2, 2, 30, 8), *([shape] if shape else [])])
    compare(strict, arrays, {"enable_gqa": True}, TOLERANCES[dtype])
    tensors = [gc.tensor(a).to(strict).requires_grad_() for a in arrays[:3]]
    out = F.scaled_dot_product_attention(*tensors, enable_gqa=True)
    node = out.grad_fn.next_functions[0][0]
    found = node(gc.ones(2, 2, 3, 20, 8, dtype=out.dtype, device=strict))
    assert [t.shape for t in found[1:3]] == [(2, 2, 1, 30, 8)] * 2


def test_many_batch_dims(strict: str) -> None:
    """Which cannot be stepped through by three of them: operands are expanded in memory."""
    shapes = [(2, 1, 3, 1, 2, 5, 4), (1, 2, 1, 3, 1, 6, 4), (2, 1, 1, 3, 1, 6, 4), (2, 1, 1, 1, 2, 5, 6)]
    compare(strict, drawn("float64", shapes), {}, 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_logarithms_and_scores_of_halves_are_float32(strict: str, dtype: str) -> None:
    """Scores of about 100 that differ by less than their rounding in half precision."""
    query, key, value = drawn(dtype, [(1, 30), (9, 30), (9, 3)])
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


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_gradients_of_some_operands(strict: str, missing: int) -> None:
    arrays = drawn("float32", CASES["plain"][0])

    def run(device: str) -> list[Any]:
        tensors = [gc.tensor(a).to(device).requires_grad_(i != missing) for i, a in enumerate(arrays)]
        out = F.scaled_dot_product_attention(*tensors)
        return list(gc.autograd.grad(out.square().sum(), [t for t in tensors if t.requires_grad]))

    agree(run(strict), run("cpu"), 2e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_hidden_rows_infinities_and_not_numbers(strict: str, dtype: str) -> None:
    arrays = drawn(dtype, [(2, 9, 4), (2, 9, 4), (2, 9, 4)])
    mask = np.where(np.tri(9, k=-1, dtype=bool), arrays[0].dtype.type(0), arrays[0].dtype.type(-np.inf))
    for scale in (0.5, 300.0):
        found = gradients(strict, [*arrays, mask], {"scale": scale})
        wide = [a.astype("float64") for a in (*arrays, mask)]
        agree(found, gradients("cpu", wide, {"scale": scale}), 2e-2 if dtype == "float16" else 2e-4)
        assert found[0][:, 0].eq(0).all()
        assert found[1][:, 0].eq(0).all()
    hidden = gc.zeros(9, 9, dtype=gc.bool, device=strict)
    tensors = [gc.tensor(a).to(strict) for a in arrays]
    assert F.scaled_dot_product_attention(*tensors, hidden).eq(0).all()
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


@pytest.mark.parametrize("name", TOLERANCES)
@pytest.mark.parametrize("tensor", [False, True])
@pytest.mark.parametrize("backward", [False, True])
def test_tiles_fit_into_shared_memory(name: str, tensor: bool, backward: bool) -> None:
    itemsize = {"float64": 8, "float32": 4}.get(name, 2)
    for width in (n for n in (16, 32, 64, 128, 256) if n * itemsize <= 512):
        macros = defines(name, width, tensor, backward)
        rows, columns = int(macros["rows"]), int(macros["columns"])
        tiles = (2 * (rows + columns) if backward else rows + 2 * columns) * (width * itemsize + 16)
        stage = 0 if tensor else rows * (columns + 4) * max(itemsize, 4)
        assert tiles + stage <= 48 << 10
        assert rows % 16 == columns % 16 == 0
