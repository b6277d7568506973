"""Every operation on the second device while the first is current: nothing runs on the wrong one, nothing is copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd import forward_ad
from tests.ops.cases import ALL, Drawn, names_of_operations
from tests.strict.device import COUNTS, current, use

#: Results that are not one only: signs of vectors, or random numbers.
UNLIKE = {op for op in {case.op.name for case in ALL} if "lowrank" in op}


def results(case: Drawn, device: str) -> list[Any]:
    """Values, gradients, gradients of these, and tangents."""
    which = case.differentiable()
    inputs = [gc.tensor(np.asarray(a), device=device) for a in case.arrays()]
    variables = [t.detach().clone().requires_grad_() if i in which else t for i, t in enumerate(inputs)]
    gc.manual_seed(0)
    outs = case.outputs(variables)
    found, outs = list(outs), [o for o in outs if o.requires_grad]
    wanted = [variables[i] for i in which]
    if outs:
        upstream = [gc.ones_like(o).requires_grad_() for o in outs]
        slopes = gc.autograd.grad(outs, wanted, upstream, create_graph=True, allow_unused=True)
        again = [s for s in slopes if s is not None and s.requires_grad]
        ones = [gc.ones_like(s) for s in again]
        found += [s for s in slopes if s is not None]
        if again:
            found += gc.autograd.grad(again, [*wanted, *upstream], ones, allow_unused=True)
        gc.manual_seed(0)
        with forward_ad.dual_level():
            dual = [forward_ad.make_dual(t, gc.ones_like(t)) if i in which else t for i, t in enumerate(inputs)]
            found += [forward_ad.unpack_dual(o).tangent for o in case.outputs(dual)]
    return [t for t in found if t is not None]


@pytest.mark.sampled(96)
@pytest.mark.parametrize("name", names_of_operations(without=UNLIKE))
@pytest.mark.filterwarnings("ignore")
def test_on_the_second_device(strict: str, name: str) -> None:
    for case in (case for case in ALL if case.op.name == name):
        with np.errstate(all="ignore"):
            here = results(case, "strict:0")
            COUNTS.clear()
            with use(0):
                there = results(case, "strict:1")
                assert current() == 0
            assert not COUNTS["between devices"]
        assert {str(t.device) for t in there} <= {"strict:1"}
        for a, b in zip(here, there, strict=True):
            np.testing.assert_array_equal(
                b.detach().resolve_conj().cpu().numpy(), a.detach().resolve_conj().cpu().numpy()
            )


CALLS: dict[str, Callable[[Any], Any]] = {
    "in float32": lambda x: x.softmax(0),
    "to another dtype": lambda x: x * x.double(),
    "with a number of the host": lambda x: x + gc.tensor(2.0),
    "by the dtype of a setting": lambda x: x.sum(dtype=gc.float64),
    "in place": lambda x: x.clone().mul_(x.float()),
    "to a given tensor": lambda x: gc.exp(x, out=gc.empty(0, dtype=x.dtype, device=x.device)),
    "assigned": lambda x: x.clone().index_put_((x.argsort(),), x.new_zeros(())),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_conversions_on_the_second_device(strict: str, name: str, dtype: str) -> None:
    found = []
    for device in ("strict:0", "strict:1"):
        x = gc.tensor([0.5, -1.0, 2.0], dtype=getattr(gc, dtype), device=device, requires_grad=True)
        out = CALLS[name](x if name != "to a given tensor" else x.detach())
        if out.requires_grad:
            out.sum().backward()
        found.append([t.detach().cpu().numpy() for t in (out, x.grad) if t is not None])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
