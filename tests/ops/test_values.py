"""The values of every operation, against what NumPy and SciPy compute from the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.ops.declare.table import OPS
from tests.ops.cases import ALL, Drawn
from tests.ops.references import REFERENCES, WITHOUT

CASES = [case for case in ALL if case.op.name in REFERENCES]


def flat(value: Any) -> Iterator[Any]:
    """Yield the arrays and numbers of a result, with tensors as arrays on the host."""
    if isinstance(value, (tuple, list)):
        for v in value:
            yield from flat(v)
    elif value is not None:
        yield value.cpu().numpy() if isinstance(value, gc.Tensor) else np.asarray(value)


def plain(value: Any) -> Any:
    """Arguments of a reference: base arrays, which it cannot write to."""
    if isinstance(value, np.ndarray):
        value = np.array(value)
        value.flags.writeable = False
        return value
    if isinstance(value, dict):
        return {name: plain(v) for name, v in value.items()}
    return type(value)(plain(v) for v in value) if isinstance(value, (tuple, list)) else value


def test_every_op_has_a_reference_or_a_reason() -> None:
    public = {op.name for op in OPS.values() if op.function or op.method}
    without = [name for names in WITHOUT.values() for name in names]
    assert sorted([*REFERENCES, *without]) == sorted(public)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("device", ["cpu", "strict"])
@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in CASES])
def test_values(case: Drawn, device: str, strict: str) -> None:
    place = strict if device == "strict" else device
    with np.errstate(all="ignore"):
        expected = list(flat(REFERENCES[case.op.name](*plain(case.args), **plain(case.settings))))
    found = list(flat(case.call([gc.tensor(a, device=place) for a in case.arrays()])))
    assert [(f.dtype, f.shape) for f in found] == [(e.dtype, e.shape) for e in expected]
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-10, atol=1e-12)
