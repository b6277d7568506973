"""Products of matrices as the CUDA backend has cuBLAS and its own kernel compute them, against NumPy's.

In the place of cuBLAS is `tests.strict.blas`, which does on the host what it is told: with the wrong operation, leading
dimension or step of a batch the numbers are others.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy import gemm
from tests.cuda.host import needs_compiler
from tests.strict import blas
from tests.strict.blas import CALLS, SIGNATURES, installed_signatures
from tests.strict.device import StrictArray

FLOATS = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
TOLERANCES = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "complex64": 1e-5}
WIDE = {"float16": "float64", "bfloat16": "float64", "float32": "float64", "complex64": "complex128"}

SHAPES = [
    ((2, 3), (3, 4)), ((5,), (5, 3)), ((4, 5), (5,)), ((1, 5), (5, 1)), ((70, 33), (33, 129)),
    ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((3, 4), (2, 4, 5)), ((2, 3, 4), (4,)), ((3,), (4, 3, 2)),
    ((4, 1, 2, 3), (5, 3, 2)), ((7, 3, 2, 5), (7, 3, 5, 4)), ((6, 2, 3, 2, 5), (3, 5, 4)), ((3, 1, 5), (3, 5, 1)),
    ((2, 1, 2, 1, 3, 4), (1, 2, 1, 2, 4, 3)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 2, 0), (2, 0, 3)),
]  # fmt: skip


@pytest.fixture
def backend(strict: str) -> Iterator[Any]:
    CALLS.clear()
    backend = gc.zeros(1, device=strict).device.backend
    yield backend
    backend.capture.on, backend.capture.cublas = False, None


def drawn(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, shape) + (1j * rng.uniform(-2, 2, shape) if dtype.startswith("complex") else 0)
    if dtype in INTEGERS:
        return rng.integers(-100, 100, shape).astype(dtype)  # unsigned ones of a size that wraps
    return x.astype(getattr(gc, dtype).numpy)


def in_columns(x: Any) -> Any:
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) if x.ndim > 1 else x


def in_steps(x: Any) -> Any:
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def batches_inside(x: Any) -> Any:
    """Return a copy whose batch dims lie between the dims of the matrices in memory, as in attention."""
    return np.ascontiguousarray(x.swapaxes(0, -2)).swapaxes(0, -2) if x.ndim > 2 else x


def in_a_wider_matrix(x: Any) -> Any:
    wide = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
    wide[..., 1:-2] = x
    return wide[..., 1:-2]


def upside_down(x: Any) -> Any:
    return x[..., ::-1].copy()[..., ::-1]


LAYOUTS = [np.array, in_columns, in_steps, batches_inside, in_a_wider_matrix, upside_down]


def check(backend: Any, dtype: str, first: Any, second: Any) -> None:
    expected = np.matmul(first.astype(WIDE.get(dtype, dtype)), second.astype(WIDE.get(dtype, dtype)))
    found = backend.matmul(StrictArray(first, 0), StrictArray(second, 0))
    assert found.dtype == first.dtype
    assert found.shape == expected.shape
    tolerance = TOLERANCES.get(dtype, 1e-12)
    np.testing.assert_allclose(found._a.astype(expected.dtype), expected, rtol=tolerance, atol=tolerance * 10)


def test_signatures_are_those_of_the_installed_cupy() -> None:
    found = installed_signatures()
    if found is None:
        pytest.skip("CuPy is not installed")
    assert found == SIGNATURES


@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_products_by_cublas(backend: Any, dtype: str, a: Any, b: Any) -> None:
    for of_a, of_b in itertools.product(LAYOUTS, repeat=2):
        check(backend, dtype, of_a(drawn(dtype, a)), of_b(drawn(dtype, b, 1)))
    if 0 not in (*a, *b):
        assert CALLS["gemmEx"] + CALLS["gemmStridedBatchedEx"] >= len(LAYOUTS) ** 2


def limit(monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    """Another largest size for cuBLAS, and plans of their own for it."""
    monkeypatch.setattr(gemm, "LARGEST", largest)
    monkeypatch.setattr(gemm, "plan", functools.lru_cache(gemm.plan.__wrapped__))


@pytest.mark.parametrize(("dtype", "largest"), [("float32", 1), ("float16", 2), ("complex64", 3)])
def test_products_that_are_too_large_for_one_call(
    backend: Any, monkeypatch: pytest.MonkeyPatch, dtype: str, largest: int
) -> None:
    """As if integers had fewer bits: sizes, steps between rows and numbers of matrices."""
    limit(monkeypatch, largest)
    monkeypatch.setattr(blas, "TOO_LARGE", largest + 1)
    for a, b in SHAPES:
        if math.prod(a) * math.prod(b) < 1000:
            for of_a, of_b in zip(LAYOUTS, [in_columns, np.array, upside_down, in_steps, *LAYOUTS], strict=False):
                check(backend, dtype, of_a(drawn(dtype, a)), of_b(drawn(dtype, b, 1)))
    assert CALLS["gemmEx"] > 300


@pytest.mark.sampled(16)
@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_factors_and_sums_of_parts(backend: Any, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    limit(monkeypatch, 3)
    monkeypatch.setattr(blas, "TOO_LARGE", 4)
    summand, a, b = (drawn(dtype, shape, seed) for seed, shape in enumerate([(2, 5, 4), (2, 5, 7), (2, 7, 4)]))
    wide = [x.astype(WIDE[dtype]) for x in (summand, a, b)]
    tolerance = TOLERANCES[dtype]
    for beta in (0, 0.5):
        found = backend.baddbmm(*(StrictArray(x, 0) for x in (summand, a, b)), beta, -1.5)
        expected = beta * wide[0] - 1.5 * (wide[1] @ wide[2])
        np.testing.assert_allclose(found._a.astype(WIDE[dtype]), expected, rtol=tolerance, atol=tolerance * 4)
    ones = np.ones((2, 2100), "float16")  # in halves, sums would stay at 2048
    assert backend.matmul(StrictArray(ones, 0), StrictArray(ones.T, 0))._a[0, 0] == 2100
    assert backend.matmul(StrictArray(ones[0], 0), StrictArray(ones[0], 0))._a == 2100
    assert backend.sum_rows(StrictArray(ones.T, 0))._a.tolist() == [2100] * 2


@pytest.mark.parametrize(
    ("a", "b", "calls"),
    [
        (((2**31 + 5, 2), (2, 1)), ((2, 3), (3, 1)), 2),
        (((3, 2), (2, 1)), ((2, 2**31 + 5), (2**31 + 5, 1)), 12),
        (((1, 2**31 + 5), (2**31 + 5, 1)), ((2**31 + 5, 3), (3, 1)), 2),
        (((2, 2**31 + 5), (2**31 + 5, 1)), ((2**31 + 5, 3), (1, 2**31 + 5)), 12),
        (((3, 4), (2**31 + 5, 1)), ((4, 5), (2**33, 1)), 12),
        (((3, 4), (1, 2**31 + 5)), ((4, 5), (1, 2**31 + 5)), 20),
        (((2**31 + 5, 3, 2), (6, 2, 1)), ((2**31 + 5, 2, 3), (6, 3, 1)), 2),
        (((2**20, 2**11, 2), (2**12, 2, 1)), ((2, 3), (3, 1)), 2),
        (((2, 2**31, 3), (2**33, 3, 1)), ((2, 3, 2), (6, 2, 1)), 2),
    ],
    ids=str,
)
def test_calls_for_large_matrices_cover_them(
    backend: Any, monkeypatch: pytest.MonkeyPatch, a: Any, b: Any, calls: int
) -> None:
    """What is multiplied is not looked at: every call is within the matrices, and together they are the product."""
    base = np.lib.stride_tricks.as_strided(np.zeros(1, "float16"), (1,), (2,))
    arrays = [
        StrictArray(np.lib.stride_tricks.as_strided(base, shape, tuple(2 * s for s in steps)), 0)
        for shape, steps in (a, b)
    ]
    made: list[dict[str, int]] = []
    record = SimpleNamespace(
        **{
            name: functools.partial(lambda name, *args: made.append(blas.bound(name, args)), name)
            for name in SIGNATURES
        }
    )
    monkeypatch.setattr(backend, "cublas", record, raising=False)
    places = {id(arrays[0]): 0, id(arrays[1]): 1 << 50}
    monkeypatch.setattr(backend, "address", lambda x: places.get(id(x), 1 << 60), raising=False)
    shape = (*np.broadcast_shapes(arrays[0].shape[:-2], arrays[1].shape[:-2]), arrays[0].shape[-2], arrays[1].shape[-1])
    out = StrictArray(np.broadcast_to(np.zeros((), "float32"), shape), 0)
    backend._multiply(*arrays, out, exact=True)
    assert len(made) == calls
    total, first = 0, 0
    for call in made:
        call = {"strideA": 0, "strideB": 0, "strideC": 0, "batchCount": 1, **call}
        m, n, k, count = (call[name] for name in ("m", "n", "k", "batchCount"))
        total += m * n * k * count
        stored = {"A": (m, k)[:: 1 if call["transa"] == 0 else -1], "B": (k, n)[:: 1 if call["transb"] == 0 else -1]}
        for name, array in (("B", arrays[0]), ("A", arrays[1])):
            rows, columns = stored[name]
            assert call[f"ld{name.lower()}"] >= rows
            extent = (columns - 1) * call[f"ld{name.lower()}"] + rows + (count - 1) * call[f"stride{name}"]
            start = (call[name] - places[id(array)]) // 2
            reach = sum((d - 1) * s // 2 for d, s in zip(array.shape, array.strides, strict=True)) + 1
            assert start >= 0
            assert start + extent <= reach
        start = (call["C"] - (1 << 60)) // 4
        first += start == 0
        assert start + (n - 1) * call["ldc"] + m + (count - 1) * call["strideC"] <= math.prod(shape)
    assert total == math.prod(shape) * arrays[0].shape[-1]
    assert first >= 1


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_products_by_the_own_kernel(backend: Any, dtype: str) -> None:
    """Integers, and all numbers while a graph is captured."""
    needs_compiler()
    if dtype.startswith("complex"):
        pytest.importorskip("cupy")
    backend.capture.on = True
    for a, b in SHAPES:
        for of_a, of_b in zip(LAYOUTS, [in_columns, np.array, upside_down, in_steps, *LAYOUTS], strict=False):
            check(backend, dtype, of_a(drawn(dtype, a)), of_b(drawn(dtype, b, 1)))
    assert not CALLS


def test_integers_wrap(backend: Any) -> None:
    needs_compiler()
    first, second = np.full((2, 300), 120, np.int8), np.full((300, 2), 100, np.int8)
    check(backend, "int8", first, second)
    large = np.full((2, 4), 2**62 + 3, np.int64)
    with np.errstate(over="ignore"):
        check(backend, "int64", large, large.T)


def test_bools_are_refused_as_pytorch_does(backend: Any) -> None:
    with pytest.raises(RuntimeError, match="not implemented for 'Bool'"):
        backend.matmul(StrictArray(np.ones((2, 2), bool), 0), StrictArray(np.ones((2, 2), bool), 0))


@pytest.mark.parametrize(
    ("a", "b", "calls"),
    [
        ("in_columns", "in_columns", 1), ("in_a_wider_matrix", "in_columns", 1), ("in_columns", "array", 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("shape", "other"), SHAPES[:10], ids=str)
def test_what_cublas_can_read_is_one_call_without_a_copy(
    backend: Any, monkeypatch: pytest.MonkeyPatch, a: str, b: str, calls: int, shape: Any, other: Any
) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("an operand is copied")

    monkeypatch.setattr(backend, "_copy_batches", refuse, raising=False)
    monkeypatch.setattr(backend.xp, "ascontiguousarray", refuse, raising=False)
    layouts = {layout.__name__: layout for layout in LAYOUTS}
    check(backend, "float16", layouts[a](drawn("float16", shape)), layouts[b](drawn("float16", other, 1)))
    assert CALLS["gemmEx"] + CALLS["gemmStridedBatchedEx"] == calls


def test_heads_that_lie_inside_rows_are_not_copied_for_few_batches(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "_copy_batches", None, raising=False)
    x = drawn("float32", (2, 10, 4, 8)).swapaxes(1, 2)  # batch, heads, positions, width
    check(backend, "float32", x, x.swapaxes(-1, -2))
    assert CALLS["gemmStridedBatchedEx"] == 2
    assert CALLS["matrices"] == 8


def test_batches_that_share_a_matrix_are_rows(backend: Any) -> None:
    check(backend, "float32", drawn("float32", (6, 5, 3)), drawn("float32", (1, 3, 4)))
    check(backend, "float32", drawn("float32", (6, 5, 3)), drawn("float32", (3, 4)))
    assert CALLS["gemmEx"] == 2


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_adjoints_are_read_in_place(backend: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = drawn(dtype, (4, 3, 5)), drawn(dtype, (4, 2, 5), 1)
    plain = backend.hermitian
    monkeypatch.setattr(backend, "hermitian", None, raising=False)
    cases = [
        (backend.times_adjoint, a, b, np.matmul(a, b.conj().swapaxes(-1, -2))),
        (backend.adjoint_times, a, a, np.matmul(a.conj().swapaxes(-1, -2), a)),
        (backend.adjoint_times, a[0], b[0][0, :3], a[0].conj().T @ b[0][0, :3]),
        (backend.times_adjoint, in_columns(a), b, np.matmul(a, b.conj().swapaxes(-1, -2))),
        (backend.times_adjoint, a, in_columns(b), np.matmul(a, b.conj().swapaxes(-1, -2))),
        (backend.times_adjoint, b[0], in_steps(a), np.matmul(b[0], a.conj().swapaxes(-1, -2))),
    ]
    for kernel, first, second, expected in cases:
        found = kernel(StrictArray(first, 0), StrictArray(second, 0))._a
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert plain is not None


# -- operations --------------------------------------------------------------------------------------------------------

PROGRAMS = {
    "mm": lambda a, b, c: gc.mm(a[0], b[0]),
    "matmul": lambda a, b, c: a @ b,
    "shared": lambda a, b, c: a @ b[0],
    "mv": lambda a, b, c: a[0] @ b[0, :, 0],
    "dot": lambda a, b, c: gc.dot(a[0, 0], b[0, :, 0]),
    "linear": lambda a, b, c: gc.nn.functional.linear(a, b[0].transpose(0, 1), c),
    "addmm": lambda a, b, c: gc.addmm(c, a[0], b[0], beta=0.5, alpha=2),
    "baddbmm": lambda a, b, c: gc.baddbmm(c, a, b, beta=0.5, alpha=-1.5),
    "addbmm": lambda a, b, c: gc.addbmm(c, a, b),
    "einsum": lambda a, b, c: gc.einsum("bij,bjk->ik", a, b),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_operations_and_their_gradients(strict: str, name: str, dtype: str) -> None:
    """Results and gradients of the CPU, where halves are computed in float32, and second derivatives."""
    arrays = [drawn(dtype, shape, seed) for seed, shape in enumerate([(3, 4, 5), (3, 5, 6), (6,)])]
    results = []
    for device in ("cpu", strict):
        tensors = [gc.tensor(x.astype(WIDE.get(dtype, dtype)) if device == "cpu" else x) for x in arrays]
        tensors = [t.to(device).requires_grad_() for t in tensors]
        out = PROGRAMS[name](*tensors)
        used = [t for t in tensors if name not in ("mm", "matmul", "shared", "mv", "dot", "einsum") or t.ndim == 3]
        weight = gc.ones_like(out) * (1 + 2j if out.is_complex() else 1.5)
        first = gc.autograd.grad(out, used, weight, create_graph=True)
        second = gc.autograd.grad([g.abs().square().sum() for g in first if g.requires_grad], used, allow_unused=True)
        results.append(
            [out, *first, *(gc.zeros_like(t) if g is None else g for g, t in zip(second, used, strict=True))]
        )
    for expected, found in zip(*results, strict=True):
        tolerance = TOLERANCES.get(dtype, 1e-11) * 4
        scale = float(expected.detach().abs().max()) + 1
        assert found.device == strict
        difference = (expected - found.detach().cpu().to(expected.dtype)).abs().max().item()
        assert difference <= tolerance * scale


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_halves_are_in_float32(strict: str, dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    ones = gc.ones(2, 3000, dtype=getattr(gc, dtype), device=strict, requires_grad=True)
    product = ones @ ones.detach().mT
    assert product.tolist() == [[3008.0] * 2] * 2 if dtype == "bfloat16" else [[3000.0] * 2] * 2
    bias = gc.zeros(1, dtype=ones.dtype, device=strict, requires_grad=True)
    gc.nn.functional.linear(ones.detach().mT, gc.ones(1, 2, dtype=ones.dtype, device=strict), bias).sum().backward()
    assert bias.grad.item() == (3008 if dtype == "bfloat16" else 3000)
    assert CALLS["compute", 68]


def test_a_factor_of_zero_hides_what_is_not_finite(strict: str) -> None:
    summand = gc.full((2, 2), float("nan"), device=strict)
    assert gc.addmm(summand, *[gc.ones(2, 2, device=strict)] * 2, beta=0).tolist() == [[2.0, 2.0], [2.0, 2.0]]


@pytest.mark.parametrize(("precision", "compute"), [("highest", 68), ("high", 77), ("medium", 77)])
def test_precision_of_float32(strict: str, precision: Any, compute: int) -> None:
    """TensorFloat32 rounds operands of products; sums of many rows of gradients do not, nor does float64."""
    x = gc.full((2, 64), 1 + 2**-12, device=strict)
    rows = gc.full((2048, 8), 1 + 2**-12, device=strict)
    gc.set_float32_matmul_precision(precision)
    try:
        CALLS.clear()
        product = (x @ x.mT)[0, 0].item()
        assert CALLS["compute", compute] == 1
        total = x.device.backend.sum_rows(rows._array)
        x.double() @ x.double().mT
    finally:
        gc.set_float32_matmul_precision("highest")
    assert product == (64.0 if compute == 77 else pytest.approx(64 * (1 + 2**-12) ** 2))
    assert CALLS["compute", 68] == (2 if compute == 68 else 1)
    assert CALLS["compute", 70] == 1
    assert float(total[0]) == 2048 * (1 + 2**-12)
