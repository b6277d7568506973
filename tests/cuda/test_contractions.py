"""Contractions by cuTENSOR: which are left to it, and that it is told what they are.

In its place is NumPy's `einsum`, with the signature of the installed CuPy's function and its demands on memory.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy import einsum as cupy_contractions
from gradcore.backends.cupy.einsum import merges
from tests.strict.device import StrictArray

CALLS: list[tuple[Any, ...]] = []


class FakeCutensor:
    """`cupyx.cutensor`."""

    @staticmethod
    def contraction(
        alpha: Any, A: Any, mode_A: Any, B: Any, mode_B: Any, beta: Any, C: Any, mode_C: Any, **others: Any
    ) -> Any:
        arrays = A, B, C
        assert (alpha, beta, others) == (1.0, 0.0, {})
        assert all(isinstance(x, StrictArray) and x.flags.c_contiguous for x in arrays)
        assert A.dtype == B.dtype == C.dtype
        assert A.dtype.char in "fdFD"
        for x, mode in zip(arrays, (mode_A, mode_B, mode_C), strict=True):
            assert len(mode) == x.ndim == len(set(mode))
        C._a[...] = np.einsum(A._a, list(mode_A), B._a, list(mode_B), list(mode_C))
        CALLS.append((mode_A, mode_B, mode_C))
        return C


@pytest.fixture
def backend(strict: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    backend = gc.zeros(1, device=strict).device.backend
    monkeypatch.setattr(backend, "cutensor", FakeCutensor(), raising=False)
    monkeypatch.setattr(cupy_contractions, "_MANY", 1)
    CALLS.clear()
    yield backend
    backend.capture.on = False


def test_the_signature_is_that_of_the_installed_cupy() -> None:
    spec = importlib.util.find_spec("cupyx")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("CuPy is not installed")
    (library,) = Path(spec.submodule_search_locations[0]).glob("_cutensor.*.so")
    found = re.search(r"\bcontraction\((alpha, [^)]*)\)", library.read_bytes().decode("latin-1"))
    assert found is not None
    names = [part.partition("=")[0].split()[-1] for part in found[1].split(", ")]
    known = list(inspect.signature(FakeCutensor.contraction).parameters)[:-1]
    assert names[: len(known)] == known
    assert all("=" in part for part in found[1].split(", ")[len(known) :])


#: Equations, and whether an operand (or its gradient) would have to be permuted.
EQUATIONS = {
    "ij,jk->ik": False, "bij,bjk->bik": False, "ijk,kl->ijl": False, "kij,kl->ijl": False,
    "ikj,kl->ijl": True, "iajb,akbl->ijkl": True, "aibj,bkal->ikjl": True, "ijkl,jl->ik": True,
}  # fmt: skip


def drawn(equation: str, dtype: str) -> list[Any]:
    rng = np.random.default_rng(0)
    sizes = dict(zip("abijkl", (2, 3, 4, 5, 6, 7), strict=True))
    arrays = []
    for labels in equation.partition("->")[0].split(","):
        shape = [sizes[label] for label in labels]
        x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype.startswith("complex") else 0)
        arrays.append(x.astype(dtype))
    return arrays


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum_and_its_gradients(backend: Any, strict: str, equation: str, dtype: str) -> None:
    arrays = drawn(equation, dtype)
    results = []
    for device in ("cpu", strict):
        tensors = [gc.tensor(x).to(device).requires_grad_() for x in arrays]
        out = gc.einsum(equation, *tensors)
        if device == strict:
            assert bool(CALLS) == EQUATIONS[equation]
        results.append([out, *gc.autograd.grad(out.abs().square().sum(), tensors)])
    tolerance = 1e-4 if dtype in ("float32", "complex64") else 1e-11
    for expected, found in zip(*results, strict=True):
        assert found.shape == expected.shape
        difference = (found.detach().cpu() - expected.detach()).abs().max().item()
        assert difference <= tolerance * (1 + expected.detach().abs().max().item())


@pytest.mark.parametrize("why", ["tf32", "captured", "steps", "small", "not installed"])
def test_what_is_left_to_products_of_matrices(
    backend: Any, strict: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = drawn("iajb,akbl->ijkl", "float32")
    expected = np.einsum("iajb,akbl->ijkl", *(a.astype("float64") for a in arrays))
    tensors = [gc.tensor(x).to(strict) for x in arrays]
    if why == "captured":
        pytest.importorskip("cupy")
        if not backend.own_kernels:
            pytest.skip("g++ is not installed")
        backend.capture.on = True
    elif why == "steps":
        tensors[0] = gc.stack([tensors[0]] * 2, -1)[..., 0]
    elif why == "small":
        monkeypatch.setattr(cupy_contractions, "_MANY", 1 << 12)
    elif why == "not installed":
        monkeypatch.setattr(backend, "cutensor", None, raising=False)
    gc.set_float32_matmul_precision("high" if why == "tf32" else "highest")
    try:
        found = gc.einsum("iajb,akbl->ijkl", *tensors)
    finally:
        gc.set_float32_matmul_precision("highest")
    assert not CALLS
    np.testing.assert_allclose(found.cpu().double().numpy(), expected, atol=1e-2 if why == "tf32" else 1e-4)


def test_which_dims_merge() -> None:
    x = np.zeros((2, 3, 1, 5))
    for dims, expected in (((0, 1), True), ((1, 0), False), ((0, 1, 2, 3), True), ((0, 3), False), ((2, 1), True)):
        assert merges(x, dims) == expected
