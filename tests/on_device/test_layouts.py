"""Every operation and its gradients by operands of other layouts on the device, against dense ones on the CPU.

An operand that is expanded has a stride of 0 in a dim that is as large as any other: its gradient is as large as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from tests.on_device.comparing import TOLERANCES, agree, outcome
from tests.on_device.test_operations import NAMES
from tests.ops.cases import ALL, Drawn

DTYPES = (gc.float32, gc.bfloat16, gc.complex64)

#: Whose results depend on the layout by what they are for.
OF_MEMORY = {"as_strided", "as_strided_scatter", "view", "view_as", "view_as_complex", "view_shape"}

#: Where repeated numbers leave the result open: matrices are singular then, and deviations zero but for rounding.
OF_INDEPENDENT = {
    "geqrf", "inverse", "invert_with_info", "linalg_cond", "linalg_det", "linalg_eigvals", "linalg_inv_ex",
    "linalg_lstsq", "linalg_matrix_norm", "linalg_norm", "linalg_pinv", "linalg_qr", "linalg_slogdet",
    "linalg_solve_ex", "linalg_svdvals", "linalg_tensorinv", "linalg_tensorsolve", "logdet", "matrix_log",
    "matrix_sqrt", "norm", "nuclear_norm", "pinverse", "polar_factors", "slogdet", "std",
}  # fmt: skip


def expanded(t: Any, dim: int) -> Any:
    return t.narrow(dim, 0, 1).expand(t.shape)


def overlapping(t: Any, dim: int) -> Any:
    """Elements of which each row holds all but one of the row before."""
    return t.flatten().as_strided(t.shape, (1,) * t.ndim)


def reversed_(t: Any, dim: int) -> Any:
    """Return the same values with a negative stride along a dim, as arrays of NumPy and CuPy can have."""
    backwards = (slice(None),) * dim + (slice(None, None, -1),)
    return gc.as_tensor(t.flip(dim).contiguous()._array[backwards])


def offset(t: Any, dim: int) -> Any:
    return gc.cat([t.flatten()[:1], t.flatten()])[1:].view(t.shape)


def fortran(t: Any, dim: int) -> Any:
    order = tuple(range(t.ndim))[::-1]
    return t.permute(order).contiguous().permute(order)


def every_second(t: Any, dim: int) -> Any:
    return gc.stack([t, t], dim + 1).select(dim + 1, 1)


#: For each layout a function of a tensor and a dim; whether it differs from dim to dim; whether numbers are repeated.
LAYOUTS: dict[str, tuple[Callable[[Any, int], Any], bool, bool]] = {
    "expanded": (expanded, True, True),
    "overlapping": (overlapping, False, True),
    "reversed": (reversed_, True, False),
    "offset": (offset, False, False),
    "fortran": (fortran, False, False),
    "every second": (every_second, True, False),
}


def variants(case: Drawn, layout: str) -> Iterator[tuple[int, int]]:
    """Operands and dims of a case that a layout changes."""
    _, by_dim, _ = LAYOUTS[layout]
    for i, array in enumerate(np.asarray(a) for a in case.arrays()):
        for dim in range(array.ndim):
            if array.size > 1 and (array.shape[dim] > 1 or not by_dim):
                yield i, dim
                if not by_dim:
                    break


def computed(case: Drawn, dtype: Any, layout: str, place: int, dim: int, device: str) -> list[Any]:
    """Results, and gradients by all operands, one of which has a layout on the device and is dense on the CPU."""
    inputs = []
    for i, array in enumerate(case.arrays()):
        t = gc.tensor(np.asarray(array), device=device)
        if t.dtype.is_complex if dtype.is_complex else t.dtype.is_floating_point:
            t = t.to(dtype)
        if i == place:
            t = LAYOUTS[layout][0](t, dim)
            t = t.clone(memory_format=gc.contiguous_format) if device == "cpu" else t
        inputs.append(t.detach().requires_grad_(i in case.differentiable() and t.dtype in TOLERANCES))
    gc.manual_seed(0)
    outs = case.outputs(inputs)
    found, outs = list(outs), [o for o in outs if o.requires_grad]
    wanted = [t for t in inputs if t.requires_grad]
    if outs and wanted:
        found += gc.autograd.grad(outs, wanted, [gc.ones_like(o) for o in outs], allow_unused=True)
    return found


def compare(case: Drawn, dtype: Any, layout: str) -> int:
    """Compare all variants of a case; return how many there were."""
    tried = 0
    for place, dim in variants(case, layout):
        here, there = (outcome(computed, case, dtype, layout, place, dim, d) for d in ("cpu", "cuda"))
        agree(there, here, f"{case.label}, {dtype}, operand {place} {layout} in dim {dim}")
        tried += 1
    return tried


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", sorted(set(NAMES) - OF_MEMORY))
@pytest.mark.filterwarnings("ignore")
def test_layouts(name: str, layout: str) -> None:
    if LAYOUTS[layout][2] and name in OF_INDEPENDENT:
        pytest.skip("repeated numbers leave the result open")
    for case in (case for case in ALL if case.op.name == name):
        for dtype in DTYPES:
            compare(case, dtype, layout)


@pytest.mark.parametrize("dims", [(1, 4), (2, 1), (1, 1)], ids=str)
@pytest.mark.parametrize("dtype", [gc.float32, gc.bfloat16], ids=str)
def test_attention_with_heads_that_were_expanded(dims: tuple[int, int], dtype: gc.dtype) -> None:
    """As multi-query attention is written: one head of keys and values for all queries, of a batch too."""

    def run(device: str) -> list[Any]:
        rng = np.random.default_rng(0)
        shapes = (2, 4, 9, 8), (*dims, 7, 8), (*dims, 7, 8)
        query, key, value = (
            gc.tensor(rng.standard_normal(s), dtype=dtype, device=device, requires_grad=True) for s in shapes
        )
        keys, values = key.expand(2, 4, 7, 8), value.expand(2, 4, 7, 8)
        out = gc.nn.functional.scaled_dot_product_attention(query, keys, values)
        return [out, *gc.autograd.grad(out.square().sum(), [query, key, value, keys, values])]

    agree(outcome(run, "cuda"), outcome(run, "cpu"))
