"""Errors are about what the user gave: no names of internals, no Python or NumPy errors of lines that nobody wrote."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.cuda.cases import Drawn, Symmetric, cases
from gradcore.ops.declare.table import OPS, Op

DTYPES = ("bool", "int64", "complex64", "float16", "uint8", "float32")
SETTINGS: list[Any] = ["a", -100, None, 2.5, (7, 8), [None]]
RAW = re.compile(
    r"<lambda>|'\w+' object (has no|is not)|object of type|unsupported operand|'[<>]=?' not supported|tuple index|"
    r"(not enough|too many) values to unpack|could not be broadcast together|ufunc|numpy|_array\b|unhashable|"
    r"must be real number|truth value of an array|setting an array|only integer scalar|only length-1|"
    r"(min|max)\(\) (arg|iterable)|zip\(\) arg|object is not (iterable|callable)|cannot be interpreted as|"
    r"not enough values|cannot reshape array|operands could not|axis \d|shapes \(.*\) not aligned|zero-size array"
)
#: The name of the function that was given something else than a tensor.
CALLED = re.compile(r"(\w+)\(\): argument .* must be Tensor, not")
#: Calls whose arguments are read one by one, before anybody knows what they should have been.
READ = {"chain_matmul", "convolution", "ctc_loss", "index_put"}


def public(op: Op) -> bool:
    found: Any = gc
    for part in op.path.split("."):
        found = getattr(found, part, None)
    return found is not None and bool(op.function or op.method)


PUBLIC = {op.path.rpartition(".")[2] for op in OPS.values() if public(op)}
#: Names that only gradcore itself knows; those of one word are words of English, too. PyTorch says some, too.
INTERNAL = (
    {name for name in OPS if "_" in name} - PUBLIC - {"as_strided", "max_all", "min_all", "_unique2", "grid_sampler"}
)


def wrong(t: gc.Tensor) -> Iterator[Any]:
    """Yield values that a caller may pass by mistake in the place of a tensor."""
    for dtype in DTYPES:
        if not t.is_complex() or dtype.startswith("complex"):
            yield t.to(getattr(gc, dtype))
    yield from (t[None], "a", None, 2.5, [1, "a"])
    if t.ndim:
        yield from (t[:0], t[..., :0], gc.cat([t, t[:1]]), gc.cat([t, t[..., :1]], -1), t.reshape(-1)[:1].sum())
        yield t.sum(0)


def calls(case: Drawn) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield the call with one argument changed at a time."""
    tensors = [gc.tensor(np.asarray(a)) for a in case.arrays()]

    def given(changed: list[Any], value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(given(changed, v) for v in value)
        return changed.pop(0) if isinstance(value, np.ndarray) else value

    def call(changed: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return given(changed, case.args), {name: given(changed, value) for name, value in case.settings.items()}

    for i, t in enumerate(tensors):
        for other in wrong(t):
            yield call([*tensors[:i], other, *tensors[i + 1 :]])
    args, settings = call(list(tensors))
    for i, value in enumerate(case.args):
        if not isinstance(value, (np.ndarray, list, tuple)):
            yield from (((*args[:i], other, *args[i + 1 :]), settings) for other in SETTINGS)
    for name, value in case.settings.items():
        if not isinstance(value, np.ndarray):
            yield from ((args, {**settings, name: other}) for other in SETTINGS)


@pytest.mark.parametrize("op", [op for op in OPS.values() if public(op)], ids=lambda op: op.path)
def test_errors_are_about_the_call(op: Op) -> None:
    names = {op.path.rpartition(".")[2], *op.aliases}
    drawn = [case for case in cases(op)[:3] if not any(isinstance(a, Symmetric) for a in case.arrays())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in drawn:
            for args, settings in calls(case):
                try:
                    op.call(*args, **settings)
                except Exception as error:
                    message = str(error)
                    assert not INTERNAL.intersection(re.findall(r"\w+", message)), message
                    called = CALLED.match(message)
                    assert called is None or called[1] in names, (args, settings, message)
                    assert not RAW.search(message) or op.path.rpartition(".")[2] in READ, (args, settings, message)
