"""Samples of every operation, compiled: values, gradients, random numbers and errors are those of eager execution."""

from __future__ import annotations

import warnings
import zlib
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.compiler.capture.reasons import Code
from gradcore.compiler.function import CompiledFunction
from gradcore.cuda.cases import _fill_in, _leaves
from tests.ops.cases import ALL, Drawn
from tests.ops.test_every_op import by_label, cotangents, floating

_OF_OP: dict[str, list[Drawn]] = {}
for _case in ALL:
    _OF_OP.setdefault(_case.op.name, []).append(_case)
#: One for each operation.
CHOSEN = [cases[zlib.crc32(name.encode()) % len(cases)] for name, cases in _OF_OP.items()]


def arguments(case: Drawn, arrays: list[Any], device: Any = None) -> Any:
    chosen = set(case.differentiable())
    tensors = [gc.tensor(a, device=device).requires_grad_(i in chosen) for i, a in enumerate(arrays)]
    queue = list(tensors)
    args = _fill_in(case.args, queue)
    return tensors, args, {name: _fill_in(value, queue) for name, value in case.settings.items()}


def others(case: Drawn) -> list[Any]:
    """Arrays of the same shapes, with the elements in another order; matrices stay, which may be of a certain form."""
    return [a if type(a) is not np.ndarray or a.ndim > 1 else np.roll(a, 1) for a in case.arrays()]


def outcome(call: Any, case: Drawn, arrays: list[Any], device: Any = None) -> Any:
    """Values, gradients, and the generator's state; or the error."""
    tensors, args, settings = arguments(case, arrays, device)
    gc.manual_seed(3)
    try:
        results = call(args, settings)
        outs = [t for t in _leaves((results,)) if isinstance(t, gc.Tensor)]
        tracked = floating(outs)
        if tracked:
            gc.autograd.backward(tracked, cotangents(tracked))
    except Exception as error:
        return type(error), str(error)
    found = [None if t is None else t.detach().cpu().numpy() for t in (*outs, *(t.grad for t in tensors))]
    return found, gc.get_rng_state().numpy(), [t.requires_grad for t in outs]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return False
        if a.dtype.kind == "c" and not a.ndim:  # NumPy's functions of complex scalars round otherwise
            return bool(np.isclose(a, b, rtol=1e-13, atol=0, equal_nan=True))
        return a.tobytes() == b.tobytes()
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


def compare(case: Drawn, device: Any = None) -> CompiledFunction:
    call = case.op.call
    function = lambda args, settings: call(*args, **settings)  # noqa: E731
    compiled = CompiledFunction(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for arrays in (case.arrays(), case.arrays(), others(case), case.arrays()):
            expected, found = (outcome(run, case, arrays, device) for run in (function, compiled))
            assert same(found, expected), f"{case.label}: {found} instead of {expected}"
    return compiled


@pytest.mark.sampled(16)
@by_label(CHOSEN)
def test_compiled_samples_are_those_of_eager_execution(case: Drawn) -> None:
    compare(case)


CODES = {Code.SHARED, Code.SIZES, Code.ELEMENTS, Code.KERNEL, Code.GENERATOR}


def test_operations_have_programs_unless_there_is_a_reason() -> None:
    """Views of arguments, sizes that depend on values, numbers that Python reads."""
    for each in (compare(case) for case in CHOSEN[::9]):
        assert each._specializations or (each._left is not None and each._left.code in CODES), each._left
