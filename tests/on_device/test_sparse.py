"""Products with sparse matrices on a device against the CPU: all layouts and dtypes, rows of all lengths; launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from tests.on_device.comparing import agree
from tests.on_device.test_launches import DTYPES, launches

LAYOUTS = (gc.sparse_coo, gc.sparse_csr, gc.sparse_csc, gc.sparse_bsr)
#: How many elements rows and columns have: a few, none, and some that are summed in pieces.
SHAPES = {
    "few": (12, 8, 30),
    "most are empty": (40, 36, 10),
    "one long row": (4, 900, 1500),
    "long columns": (700, 2, 900),
}


def drawn(rng: np.random.Generator, dtype: Any, *shape: int) -> gc.Tensor:
    """Multiples of a power of two, whose products and sums are exact in every order."""
    real, imaginary = (gc.tensor(rng.integers(-3, 4, shape) / 4) for _ in range(2))
    return (gc.complex(real, imaginary) if dtype.is_complex else real).to(dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_products(device: str, layout: Any, shape: str) -> None:
    """With vectors, matrices from both sides and in both orders in memory; gradients of both factors, and tangents."""
    height, width, count = SHAPES[shape]
    rng = np.random.default_rng(0)
    index = np.stack([rng.integers(0, height, count), rng.integers(0, width, count)])  # some are named twice
    if shape == "one long row":
        index[0, :1200] = 2
    for dtype in (*DTYPES, gc.complex64, gc.complex128):
        values = drawn(rng, dtype, count)
        for columns in (None, 1, 3, 40):
            sizes = () if columns is None else (columns,)
            right, left = drawn(rng, dtype, width, *sizes), drawn(rng, dtype, *sizes, height)

            def run(where: str, values: Any = values, right: Any = right, left: Any = left) -> list[Any]:
                leaves = [t.to(where).detach().requires_grad_() for t in (values, right, left)]
                at = gc.tensor(index, device=where)
                matrix = gc.sparse_coo_tensor(at, leaves[0], (height, width)).to_sparse(
                    layout=layout, blocksize=(2, 1) if layout is gc.sparse_bsr else None
                )
                turned = leaves[1].mT.contiguous().mT if leaves[1].ndim > 1 else leaves[1]
                found = [matrix @ leaves[1], matrix @ turned, leaves[2] @ matrix, matrix.t() @ leaves[2].t()]
                weights = [gc.arange(t.numel(), device=where).reshape(t.shape).fmod(3).to(t.dtype) for t in found]
                return [*found, *gc.autograd.grad(found, leaves, weights)]

            agree(run(device), run("cpu"), f"{dtype}, {columns}")


@pytest.mark.parametrize("columns", [0, 1, 5, 64, 100])
def test_sampled_products(device: str, columns: int) -> None:
    rng = np.random.default_rng(1)
    index = np.stack([rng.integers(0, 9, 40), rng.integers(0, 13, 40)])
    for dtype in DTYPES[:2]:
        left, right = drawn(rng, dtype, 9, columns), drawn(rng, dtype, columns, 13)

        def run(where: str, dtype: Any = dtype, left: Any = left, right: Any = right) -> list[Any]:
            pattern = gc.sparse_coo_tensor(gc.tensor(index), gc.ones(40, dtype=dtype), (9, 13)).to(where)
            leaves = [t.to(where).detach().requires_grad_() for t in (left, right)]
            found = gc.sparse.sampled_addmm(pattern.to_sparse_csr(), *leaves, beta=0.5).to_dense()
            return [found, *gc.autograd.grad(found.square().sum(), leaves)]

        agree(run(device), run("cpu"), str(dtype))


def test_equal_products_have_equal_bits_and_are_one_launch(device: str) -> None:
    rng = np.random.default_rng(2)
    index = gc.tensor(rng.integers(0, 50, (2, 400)), device=device)
    matrix = gc.sparse_coo_tensor(index, gc.tensor(rng.standard_normal(400), device=device), (50, 50)).coalesce()
    x = gc.tensor(rng.standard_normal((50, 7)), device=device)
    assert gc.equal(matrix @ x, matrix @ x)
    assert launches(lambda: matrix @ x) == 1
    assert launches(lambda: x.mT @ matrix) == 1


def test_in_a_graph(device: str) -> None:
    matrix = gc.eye(6, device=device).to_sparse_csr() * 3
    step = gc.cuda.graph(lambda x: matrix @ x + (x.mT @ matrix).mT, warmup=1)
    for start in (0.0, 5.0):
        x = gc.arange(12.0, device=device).reshape(6, 2) + start
        assert gc.equal(step(x), 6 * x)
