"""Each declaration of a kernel of rows agrees with the portable kernel, with the operations, and with the library."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest

from gradcore.backends.compiled.rows import ROW_KERNELS
from gradcore.backends.kernel_rules import OPERATIONS, RowCall, RowKernel, width_of_rows
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.core.dtypes import float32, float64


@pytest.mark.parametrize("name", ROW_KERNELS)
def test_declarations_match_signatures(name: str) -> None:
    kernel = ROW_KERNELS[name]
    method = inspect.getattr_static(NumpyBackend, name)
    parameters = list(inspect.signature(getattr(method, "method", method)).parameters)[1:]
    for call, names in [(kernel.call, parameters), *_operations(name)]:
        positions = {field: getattr(call, field) for field in ("dim", "dims", "number", "dtype")}
        settings = names[len(kernel.reads) :]
        assert len(settings) == sum(position >= 0 for position in positions.values())
        for field, known in (
            ("dim", {"dim"}),
            ("dims", {"ndims"}),
            ("dtype", {"dtype"}),
            ("number", {"reverse", "eps"}),
        ):
            assert positions[field] < 0 or settings[positions[field]] in known


def _operations(name: str) -> list[tuple[RowCall, list[str]]]:
    found = []
    for operation, call in ROW_KERNELS[name].operations.items():
        assert operation in OPERATIONS
        found.append((call, [parameter.name for parameter in OPERATIONS[operation].parameters]))
    return found


def test_calls_are_parsed() -> None:
    call = RowCall.parse("dim number dtype")
    assert (call.dim, call.number, call.dtype, call.dims) == (0, 1, 2, -1)
    assert RowCall.parse("dim number=1").number_of([0]) == 1
    assert RowCall.parse("dim", 2).number_of([0]) == 2


def _width(kernel: RowKernel, call: RowCall) -> Callable[..., int]:
    width_of = width_of_rows(kernel, call)
    return lambda x, *rest: width_of(x, rest)


def test_rows_lie_along_the_last_dims() -> None:
    width = _width(ROW_KERNELS["softmax_along"], RowCall.parse("dim dtype"))
    x = np.zeros((2, 3, 5), "f4")
    assert [width(x, dim) for dim in (-1, 2, 1, 0, -3)] == [5, 5, 0, 0, 0]
    assert [width(x, 2, dtype) for dtype in (None, float32, float64)] == [5, 5, 0]
    assert [width(a, -1) for a in (np.float32(1), x.astype("f8"), x.astype("f2"), x.astype("i4"))] == [0, 5, 0, 0]
    width = _width(ROW_KERNELS["native_layer_norm"], RowCall.parse("dims number"))
    column, bias = np.zeros((3, 5), "f4"), np.zeros(15, "f4")
    assert width(x, column, bias, 2, 1e-5) == width(x, None, None, 2, 1e-5) == 15
    assert width(x, column, bias, 1, 1e-5) == width(x, column.astype("f8"), None, 2, 1e-5) == 0
    width = _width(ROW_KERNELS["scan_along"], RowCall.parse("dim number"))
    assert [width(x, other, -1, False) for other in (x, x[:1], x.astype("f8"))] == [5, 0, 0]
