"""Operations on small tensors, with all of their work given to compiled kernels, against NumPy's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.compiled import conversions, elementwise, indexing, narrow, reductions, rows, sorting
from tests.compiled.conftest import with_new_kernels
from tests.ops.cases import ALL, Drawn

CASES = [case for case in ALL if not case.op.random and any(a.dtype == "f8" for a in case.arrays())]


@pytest.fixture(autouse=True, scope="module")
def _everything(compiled: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, with_new_kernels(compiled):
        patch.setattr(compiled, "LARGE", 1)  # not of the class: the kernels of the CPU keep theirs
        patch.setattr(elementwise, "_NARROW", 1)
        for module in (conversions, indexing, rows, sorting):
            patch.setattr(module, "_LARGE", 1)
        patch.setattr(sorting, "_LENGTH", 1)
        patch.setattr(reductions, "_LARGE_ROWS", 1)
        patch.setattr(reductions, "_WIDTH", 1)
        for name in ("_LEAST", "_LEAST_INDICES", "_LEAST_LOGSUMEXP"):
            patch.setattr(narrow, name, 1)
        yield


def values(case: Drawn, device: str) -> list[Any]:
    """Return the results of a call and the gradients of their sums."""
    chosen = set(case.differentiable())
    ins = [gc.tensor(a, device=device, requires_grad=i in chosen) for i, a in enumerate(case.arrays())]
    outs = case.outputs(ins)
    recorded = [out for out in outs if out.requires_grad]
    if recorded:
        wanted = [t for t in ins if t.requires_grad]
        upstream = [gc.ones_like(out) * 0.7 for out in recorded]
        outs += gc.autograd.grad(recorded, wanted, upstream, materialize_grads=True)
    return [np.array(out.detach().cpu().numpy()) for out in outs]


def rearrange(t: Any) -> Any:
    """Return a copy of `t` with its dims in the opposite order in memory, and gaps between elements."""
    x = gc.empty(tuple(2 * n for n in reversed(t.shape)), dtype=t.dtype, device=t.device)
    view = x[(slice(None, None, 2),) * t.ndim].permute(*reversed(range(t.ndim)))
    return view.copy_(t.detach())


@pytest.mark.sampled(16)
@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in CASES if c.differentiable()])
def test_saved_tensors_may_have_any_layout(compiled: Any, case: Drawn) -> None:
    """A hook may return copies of saved tensors with other strides."""
    expected = values(case, "compiled")
    with gc.autograd.graph.saved_tensors_hooks(rearrange, lambda t: t):
        found = values(case, "compiled")
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in CASES])
def test_operations_agree(compiled: Any, case: Drawn) -> None:
    for found, expected in zip(values(case, "compiled"), values(case, "cpu"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
