"""LDL factors and what is solved with them, against PyTorch."""

import numpy as np
import pytest

import gradcore as gc

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle


def _matrices(shape, dtype, hermitian):
    rng = np.random.default_rng(0)
    a = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype == "complex128" else 0)
    a = a + (a.conj() if hermitian else a).swapaxes(-1, -2)
    a[..., :1, :1] = 0  # so that a block of two rows is needed
    return a.astype(dtype)


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(5, 5), (2, 3, 4, 4), (1, 1), (0, 0), (2, 0, 0), (0, 3, 3)])
def test_factors_and_solutions(shape, dtype, hermitian):
    a = _matrices(shape, dtype, hermitian)
    if shape == (1, 1):
        a += 1
    b = np.random.default_rng(1).normal(size=(*shape[:-1], 2)).astype(dtype)
    found = []
    for lib in (gc, torch):
        factors = lib.linalg.ldl_factor_ex(lib.tensor(a), hermitian=hermitian)
        found.append((*factors, lib.linalg.ldl_solve(factors[0], factors[1], lib.tensor(b), hermitian=hermitian)))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-10)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.linalg.ldl_factor(t.ones(3)),
        lambda t: t.linalg.ldl_factor(t.ones(3, 2)),
        lambda t: t.linalg.ldl_factor(t.ones(3, 3, dtype=t.int64)),
        lambda t: t.linalg.ldl_solve(t.eye(3), t.tensor([1, 2], dtype=t.int32), t.ones(3, 2)),
        lambda t: t.linalg.ldl_solve(t.eye(3), t.tensor([1, 2, 3], dtype=t.int32), t.ones(2, 2)),
    ],
)
def test_misuse(call):
    messages = []
    for lib in (gc, torch):
        with pytest.raises(RuntimeError) as caught:
            call(lib)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
