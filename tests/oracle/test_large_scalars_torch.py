"""Python integers of more than 64 bits as settings of operations, in assignments and as values, against PyTorch."""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradcore as gc
from tests.ops.cases import ALL, Drawn

torch = pytest.importorskip("torch")

from tests.oracle.test_dtypes_of_ops_torch import Theirs, their_function, walk  # noqa: E402

pytestmark = pytest.mark.oracle

LARGE = (10**30, -(10**30), 2**63, -(2**63) - 1, 2**64)
DTYPES = ("float32", "float64", "complex64", "int64", "int8", "bool")


class Changed(NamedTuple):
    """A call of an operation in which one of the settings is a large integer."""

    label: str
    case: Drawn


def changed(case: Drawn) -> Iterator[Changed]:
    """Yield the call with each setting that takes real numbers replaced by large numbers."""
    for i, parameter in enumerate(case.op.parameters):
        if parameter.annotation not in ("float", "float | None", "Scalar", "Number", "Number | None"):
            continue
        if f"{case.op.name} {parameter.name}" in DIFFERENT:
            continue
        for number in LARGE[2:]:
            label = f"{case.label} {parameter.name}={number}"
            if i < len(case.args):
                yield Changed(label, case._replace(args=(*case.args[:i], number, *case.args[i + 1 :])))
            else:
                yield Changed(label, case._replace(settings={**case.settings, parameter.name: number}))


#: Settings that differ otherwise: other ranks of rank-deficient systems, and the words of an unsigned number.
DIFFERENT = {"linalg_lstsq rcond", "rrelu upper"}

OPERATIONS = sorted(
    {
        case.op.name
        for case in ALL
        if (case.op.function or case.op.method) and their_function(case.op) is not None and [*changed(case)]
    }
)


def outcome(call: Callable[[], Any], tensor: Any) -> Any:
    """Return the values of a call's results, "overflow" if it refuses the number as too large, or the error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            results = walk(call(), tensor)
        except (ArithmeticError, RuntimeError, ValueError, TypeError, IndexError) as error:
            large = isinstance(error, OverflowError) or "overflow" in str(error).lower()
            return "overflow" if large else f"{type(error).__name__}: {error}"
    return [t.detach().resolve_conj().resolve_neg().numpy() for t in results]


def differ(ours: Any, theirs: Any) -> bool:
    """Return whether the values differ, or one library computes with a number that is too large for the other."""
    if isinstance(ours, str) or isinstance(theirs, str):
        return (ours == "overflow" and not isinstance(theirs, str)) or (
            theirs == "overflow" and not isinstance(ours, str)
        )
    return any(not np.allclose(a, b, rtol=1e-5, equal_nan=True) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("name", OPERATIONS)
def test_settings(name: str) -> None:
    wrong = []
    for case in [case for case in ALL if case.op.name == name and all(a.size for a in case.arrays())][:4]:
        for label, each in changed(case):
            other = each._replace(op=Theirs(each.op))  # type: ignore[arg-type]
            arrays = [np.array(a) for a in each.arrays()]
            mine = outcome(partial(each.call, [*map(gc.tensor, arrays)]), gc.Tensor)
            theirs = outcome(partial(other.call, [*map(torch.tensor, arrays)]), torch.Tensor)
            if differ(mine, theirs):
                wrong.append(f"{label}: {str(mine)[:60]}, PyTorch: {str(theirs)[:60]}")
    assert not wrong, "\n".join(wrong)


def assign(library: Any, dtype: str, key: Callable[[Any], Any], number: int) -> Any:
    x = library.ones(3, dtype=getattr(library, dtype))
    x[key(library)] = number
    return x


@pytest.mark.parametrize("number", LARGE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_assignments(dtype: str, number: int) -> None:
    keys: tuple[Callable[[Any], Any], ...] = (
        *(lambda _, key=key: key for key in (0, slice(None), Ellipsis, slice(1, None), None, True, [0, 2])),
        lambda library: library.tensor([True, False, True]),
        lambda library: library.tensor([1]),
    )
    for key in keys:
        for library in (torch, gc):
            with pytest.raises(ValueError, match="Overflow when unpacking long long"):
                assign(library, dtype, key, number)


FILLS: dict[str, Callable[[Any, Any, int], Any]] = {
    "full": lambda lib, dtype, n: lib.full((2,), n, dtype=dtype),
    "full_like": lambda lib, dtype, n: lib.full_like(lib.ones(2, dtype=dtype), n),
    "fill_": lambda lib, dtype, n: lib.ones(2, dtype=dtype).fill_(n),
    "tensor": lambda lib, dtype, n: lib.tensor([n, 0], dtype=dtype),
    "masked_fill": lambda lib, dtype, n: lib.ones(2, dtype=dtype).masked_fill(lib.tensor([True, False]), n),
    "where": lambda lib, dtype, n: lib.where(lib.tensor([True, False]), lib.ones(2, dtype=dtype), n),
    "where of a number": lambda lib, dtype, n: lib.where(lib.tensor([True, False]), n, lib.ones(2, dtype=dtype)),
    "where as a method": lambda lib, dtype, n: lib.ones(2, dtype=dtype).where(lib.tensor([True, False]), n),
}


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_fills(dtype: str, name: str) -> None:
    for number in (*LARGE, 1000, -1, -300):
        mine, theirs = (
            outcome(partial(FILLS[name], lib, getattr(lib, dtype), number), lib.Tensor) for lib in (gc, torch)
        )
        assert not differ(mine, theirs), f"{number}: {mine}, PyTorch: {theirs}"


@pytest.mark.parametrize("value", [1.5, 2**62, 2**64, 10**30, -(10**30)])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "int64", "bool"])
def test_padding(dtype: str, value: float) -> None:
    mine, theirs = (
        outcome(partial(lib.nn.functional.pad, lib.ones(2, dtype=getattr(lib, dtype)), (1, 1), value=value), lib.Tensor)
        for lib in (gc, torch)
    )
    assert not differ(mine, theirs), f"{mine}, PyTorch: {theirs}"
    for lib in (gc, torch):
        with pytest.raises(TypeError, match="must be float, not complex"):
            lib.nn.functional.pad(lib.ones(2), (1, 1), value=1j)


#: Bounds and steps of sequences: at the ends of dtypes, beyond them, not finite, falsy, and fractions.
BOUNDS = (
    0, 1, -1, 3, 200, -255, -256, 300, 70000, -(2**31), 2**63 - 1, -(2**63), 2**63, 2**64, 10**30, 0.0, -0.0, 0.5, -3.9,
    1e20, 1e300, float("nan"), float("inf"), -float("inf"), True,
)  # fmt: skip
STEPS = (1, 2, 7, 0.5, 0, float("nan"), 10**30, 1e300)
SEQUENCE_DTYPES = ("uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool", None)


def sequences(name: str, dtype: str | None) -> Iterator[tuple[Any, ...]]:
    """Yield arguments for sequences of at most 300 elements, or of more than memory has, without PyTorch's crashes."""
    is_integer = dtype is None or "int" in dtype or dtype == "bool"
    for first, last in itertools.product(BOUNDS, repeat=2):
        if first != last and float(first) == float(last):
            continue  # PyTorch compares bounds as doubles
        if name.endswith("space"):
            # Powers that integers cannot have depend on the CPU, and bfloat16 rounds exponents.
            limit = 18 if name == "logspace" and (is_integer or dtype == "bfloat16") else math.inf
            if not (max(abs(first), abs(last)) > limit):
                yield first, last, 5
            continue
        for step in STEPS:
            length = abs(last - first) / step if step else 0
            is_short = not 300 < length < 1e12 and not 2**60 < length <= 2**64  # where PyTorch's lengths wrap around
            if is_short and (not is_integer or 1 <= step < 2**62):  # PyTorch divides integers by zero
                yield first, last, step


@pytest.mark.parametrize("name", ["arange", "range", "linspace", "logspace"])
@pytest.mark.parametrize("dtype", SEQUENCE_DTYPES)
def test_bounds_of_sequences(name: str, dtype: str | None) -> None:
    def call(library: Any, arguments: tuple[Any, ...]) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return getattr(library, name)(*arguments, dtype=dtype and getattr(library, dtype)).double().numpy()
        except (ArithmeticError, RuntimeError, ValueError, TypeError, MemoryError) as error:
            return error

    wrong, drawn = [], random.Random(f"{name} {dtype}")
    calls = [*sequences(name, dtype)]
    for arguments in drawn.sample(calls, min(len(calls), 120)):
        mine, theirs = call(gc, arguments), call(torch, arguments)
        if isinstance(theirs, Exception):
            same = isinstance(mine, type(theirs))
        else:
            tolerance = {"bfloat16": 0.05, "float16": 5e-3}.get(dtype or "", 1e-5)
            same = isinstance(mine, np.ndarray) and np.allclose(mine, theirs, rtol=tolerance, equal_nan=True)
        if not same:
            wrong.append(f"{name}{arguments}: {str(mine)[:80]}, PyTorch: {str(theirs)[:80]}")
    assert not wrong, "\n".join(wrong)
