"""Products with a bias and an activation by cuBLASLt, which `tests.strict.cublas_lt` stands in for.

`tests/on_device/test_cublas.py` calls the functions themselves, through ctypes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy import epilogues
from tests.cuda.test_products import LAYOUTS, TOLERANCES, drawn, in_a_wider_matrix, in_columns
from tests.strict.cublas_lt import CALLS, FakeLibrary, gelu
from tests.strict.device import StrictArray

DTYPES = ["float16", "bfloat16", "float32", "float64"]
NAMES = {"BIAS": "addmm", "RELU_BIAS": "addmm_relu", "GELU_AUX_BIAS": "addmm_gelu"}
ACTIVATIONS = {"BIAS": lambda x: x, "RELU_BIAS": lambda x: np.maximum(x, 0), "GELU_AUX_BIAS": gelu}


@pytest.fixture
def backend(strict: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    backend = gc.zeros(1, device=strict).device.backend
    monkeypatch.setattr(type(backend), "cublas_library", FakeLibrary())
    monkeypatch.setattr(epilogues, "workspace_size", lambda xp: 4 << 20)
    for name in ("_plans", "_lt_handles"):
        backend.__dict__.pop(name, None)
    backend.kernels.clear()
    CALLS.clear()
    yield backend
    backend.__dict__.pop("_plans", None)
    backend.capture.on = False
    backend.kernels.clear()


def aligned(x: Any, offset: int = 0) -> Any:
    """Return a copy with the strides of `x`, `offset` bytes after a multiple of 256."""
    extent = sum((n - 1) * s for n, s in zip(x.shape, x.strides, strict=True)) + x.itemsize
    memory = np.zeros(extent + 512, np.uint8)
    start = -memory.ctypes.data % 256 + offset
    copy = np.lib.stride_tricks.as_strided(memory[start : start + extent].view(x.dtype), x.shape, x.strides)
    copy[...] = x
    return copy


def operands(dtype: str, m: int = 6, k: int = 5, n: int = 9) -> list[Any]:
    return [aligned(drawn(dtype, shape, seed)) for seed, shape in enumerate([(n,), (m, k), (k, n)])]


def on_device(*arrays: Any) -> list[Any]:
    return [StrictArray(x, 0) for x in arrays]


# -- results -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("epilogue", NAMES)
def test_products_with_epilogues(backend: Any, epilogue: str, dtype: str) -> None:
    """In rows, with the matrices in rows, in columns or parts of others, none of them copied."""
    bias, a, b = operands(dtype)
    for of_a in (np.array, in_columns, in_a_wider_matrix):
        for of_b in (np.array, in_columns, in_a_wider_matrix):
            placed = [bias, aligned(of_a(a)), aligned(of_b(b))]
            found = getattr(backend, NAMES[epilogue])(*on_device(*placed), 1, 0.5)
            inner = 0.5 * (a.astype("float64") @ b.astype("float64")) + bias.astype("float64")
            tolerance = TOLERANCES.get(dtype, 1e-12)
            results = found if isinstance(found, tuple) else (found,)
            for result, expected in zip(results, (ACTIVATIONS[epilogue](inner), inner), strict=False):
                assert result.dtype == a.dtype
                assert result._a.strides[-1] == a.itemsize
                np.testing.assert_allclose(result._a.astype("float64"), expected, rtol=tolerance, atol=tolerance * 4)
    assert CALLS["run", epilogue] == 9
    assert CALLS["compute", 70 if dtype == "float64" else 68] == CALLS["planned"] <= 9
    assert CALLS["handles"] == 1


@pytest.mark.parametrize("shape", [(6, 5), (2, 3, 5), (2, 1, 3, 5)])
def test_linear(backend: Any, shape: tuple[int, ...]) -> None:
    bias, x, weight = (aligned(drawn("float32", s, i)) for i, s in enumerate([(9,), shape, (9, 5)]))
    found = backend.linear(*on_device(x, weight, bias))
    np.testing.assert_allclose(found._a, x @ weight.T + bias, rtol=1e-5, atol=1e-5)
    assert CALLS["run", "BIAS"] == 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["linear", "addmm", "relu", "gelu"])
def test_operations_and_their_gradients(backend: Any, strict: str, name: str, dtype: str) -> None:
    """As on the CPU, to second order."""
    programs = {
        "linear": lambda c, a, b: gc.nn.functional.linear(a, b.mT, c),
        "addmm": lambda c, a, b: gc.addmm(c, a, b, alpha=2),
        "relu": lambda c, a, b: gc._addmm_activation(c, a, b, alpha=2),
        "gelu": lambda c, a, b: gc._addmm_activation(c, a, b, alpha=2, use_gelu=True),
    }
    arrays, results = operands(dtype), []
    for device in ("cpu", strict):
        tensors = [gc.tensor(x.astype("float64") if device == "cpu" else x).to(device) for x in arrays]
        tensors = [t.requires_grad_() for t in tensors]
        out = programs[name](*tensors)
        plain = gc.autograd.grad(out, tensors, gc.ones_like(out), retain_graph=True)
        first = gc.autograd.grad(out, tensors, gc.ones_like(out), create_graph=True)
        second = gc.autograd.grad([g.square().sum() for g in first if g.requires_grad], tensors, allow_unused=True)
        results.append([out, *plain, *first, *(g for g in second if g is not None)])
    for expected, found in zip(*results, strict=True):
        scale = float(expected.detach().abs().max()) + 1
        difference = (expected - found.detach().cpu().double()).abs().max().item()
        assert difference <= TOLERANCES.get(dtype, 1e-11) * 4 * scale
    assert sum(n for key, n in CALLS.items() if key[0] == "run" and "BIAS" in key[1])
    assert CALLS["run", "BGRADA"] == {"relu": 1, "gelu": 2}.get(name, 0)  # also of what `gelu` was taken of


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("use_gelu", [False, True])
def test_activations_without_epilogues_are_one_kernel(fused: Any, strict: str, use_gelu: bool, dtype: str) -> None:
    arrays = [drawn(dtype, shape, seed) for seed, shape in enumerate([(9,), (6, 5), (5, 9)])]

    def program() -> Any:
        tensors = [gc.tensor(x).to(strict).requires_grad_() for x in arrays]
        out = gc._addmm_activation(*tensors, use_gelu=use_gelu)
        return out, *gc.autograd.grad(out, tensors, gc.ones_like(out))

    found = fused(program)
    assert fused.counts["launched"] == 1 + use_gelu  # `relu` in forward is one function of CuPy's
    tensors = [gc.tensor(x.astype("float64")).requires_grad_() for x in arrays]
    out = gc._addmm_activation(*tensors, use_gelu=use_gelu)
    for expected, result in zip((out, *gc.autograd.grad(out, tensors, gc.ones_like(out))), found, strict=True):
        difference = (expected - result.detach().cpu().double()).abs().max().item()
        assert difference <= TOLERANCES[dtype] * 4 * (float(expected.detach().abs().max()) + 1)


@pytest.mark.parametrize("precision", ["highest", "high"])
def test_tensor_float(backend: Any, precision: Any) -> None:
    """Operands are rounded if that is asked for; gradients of a bias are sums of what is not."""
    ones = np.full((4, 64), 1 + 2**-12, "float32")
    a, b, bias = on_device(aligned(ones), aligned(ones.T.copy()), aligned(np.zeros(4, "float32")))
    gc.set_float32_matmul_precision(precision)
    try:
        found = backend.addmm(bias, a, b)
        product, total = backend.product_and_sum(a, a)
    finally:
        gc.set_float32_matmul_precision("highest")
    assert CALLS["compute", 77 if precision == "high" else 68] == CALLS["planned"] == (1 if precision == "high" else 2)
    assert float(found[0, 0]) == (64.0 if precision == "high" else pytest.approx(64 * (1 + 2**-12) ** 2))
    assert float(total[0]) == 4 * (1 + 2**-12)
    assert product.shape == (64, 64)


# -- when ----------------------------------------------------------------------------------------------------------


def does(backend: Any, *arrays: Any, **factors: Any) -> bool:
    """Whether `addmm` of these is an epilogue; its values are right either way."""
    before = CALLS["run", "BIAS"]
    found = backend.addmm(*on_device(*arrays), **factors)._a
    summand, a, b = (x.astype("complex128" if x.dtype.kind == "c" else "float64") for x in arrays)
    expected = factors.get("beta", 1) * summand + factors.get("alpha", 1) * (a @ b)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    return CALLS["run", "BIAS"] > before


def test_what_does_not_fit_takes_the_other_way(backend: Any) -> None:
    bias, a, b = operands("float32")
    assert does(backend, bias, a, b)
    assert not does(backend, bias, a, b, beta=0.5)
    assert not does(backend, bias[None], a, b)
    assert not does(backend, np.broadcast_to(bias, (6, 9)), a, b)
    assert not does(backend, bias[:1], a, b)
    assert not does(backend, aligned(np.repeat(bias, 2)[::2]), a, b)
    for layout in LAYOUTS:
        if layout.__name__ in ("in_steps", "upside_down"):
            assert not does(backend, bias, layout(a), b)
            assert not does(backend, bias, a, layout(b))
    assert not does(backend, bias, np.broadcast_to(a[:1], a.shape), b)
    assert not does(backend, bias, a, np.broadcast_to(b[:, :1], b.shape))
    for place in range(3):
        moved = [aligned(x, 4 * (i == place)) for i, x in enumerate((bias, a, b))]
        assert not does(backend, *moved)
    assert not does(backend, *operands("float32", m=1))
    assert not does(backend, *operands("float32", k=1))
    assert not does(backend, *operands("complex64"))


@pytest.mark.parametrize("state", ["deterministic", "without", "refused"])
def test_the_other_way_is_taken_where_it_must_be(backend: Any, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    arrays = operands("float64")
    if state == "refused":
        monkeypatch.setattr(type(backend), "cublas_library", FakeLibrary(frozenset(NAMES)))
        assert not does(backend, *arrays)
        assert not does(backend, *arrays)
        assert CALLS["planned"] == 1  # it is not asked again
        return
    if state == "deterministic":
        gc.use_deterministic_algorithms(True)
    else:
        monkeypatch.setattr(type(backend), "cublas_library", None)
    try:
        assert not does(backend, *arrays)
    finally:
        gc.use_deterministic_algorithms(False)
    assert not CALLS["planned"]


def test_wrong_shapes_have_the_errors_of_without(backend: Any) -> None:
    bias, a, b = on_device(*operands("float32"))
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(6x5 and 6x5\)"):
        backend.addmm(bias, a, a)
    with pytest.raises(RuntimeError, match="must match the existing size"):
        backend.addmm(bias[:8], a, b)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        backend.linear(a, a.T, bias)


# -- plans ---------------------------------------------------------------------------------------------------------


def test_plans_are_used_again_for_equal_operands(backend: Any) -> None:
    first, second = operands("float32"), operands("float32")
    assert does(backend, *first)
    assert does(backend, *second, alpha=3)
    assert CALLS["planned"] == 1
    assert does(backend, first[0], aligned(first[1], 16), first[2])  # planned for what is less aligned
    assert does(backend, first[0], aligned(in_columns(first[1])), first[2])
    assert does(backend, *operands("float32", m=7))
    backend.addmm_relu(*on_device(*first))
    assert CALLS["planned"] == 5


def test_plans_are_let_go_when_there_are_many(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epilogues, "_KEPT", 2)
    for m in (2, 3, 2, 4, 2, 3):  # 4 takes the place of 3, which then is planned again in that of 4
        assert does(backend, *operands("float32", m=m))
    assert CALLS["planned"] == 4
    assert len(backend._plans.by_key) == 2


def test_threads_have_plans_of_their_own(backend: Any) -> None:
    """As a plan holds the addresses of one call; the handle is that of all."""
    arrays = operands("float32")
    assert does(backend, *arrays)
    thread = threading.Thread(target=lambda: [does(backend, *arrays), does(backend, *operands("float32", m=7))])
    thread.start()
    thread.join()
    assert CALLS["planned"] == CALLS["run", "BIAS"] == 3
    assert CALLS["handles"] == 1
    assert does(backend, *arrays)
    assert CALLS["planned"] == 3
