"""Each declaration of a kernel of rows agrees with the portable kernel, with the operations, and with the library."""

from __future__ import annotations

import inspect

import pytest

from gradcore.backends.compiled.rows import ROW_KERNELS
from gradcore.backends.kernel_rules import OPERATIONS, RowCall
from gradcore.backends.numpy.backend import NumpyBackend


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
    assert [call.row_dims(3, [dim]) for dim in (-1, 2, 1, 0, -3)] == [1, 1, 0, 0, 0]
    assert call.row_dims(0, [0]) == 0
