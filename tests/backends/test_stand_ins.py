"""Stand-ins for arrays have NumPy's functions, methods and operators: shape, dtype and, where there are any, values."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import gradcore.backends.vmap.functions  # noqa: F401  # registers the rules
from gradcore.backends.codegen.expr import Expr, ExprGraph, NotFusible
from gradcore.backends.meta import MetaArray
from gradcore.backends.meta.array import RULES as META_RULES
from gradcore.backends.stand_ins import METHODS, SIZED_BY_VALUES
from gradcore.backends.vmap import BatchedArray
from gradcore.backends.vmap.array import RULES as BATCH_RULES
from gradcore.backends.vmap.array import apply
from gradcore.backends.vmap.devices import VmapLevel
from gradcore.compiler.capture.arrays import RecordedArray
from gradcore.core.operators import OPERATORS, Operator
from tests.numpy_calls import CALLS, drawn, lines
from tests.references import IS_NEWEST

SAMPLES = 3
LETTERS = drawn()
#: Functions whose dtype NumPy chooses by the values that it finds.
BY_VALUES = {"linalg.eig", "linalg.eigvals"}
#: What a stand-in says of calls that it cannot do: PyTorch's errors, or that there is no rule.
REFUSED = (NotImplementedError, RuntimeError)
#: The functions of which a stand-in does no call of `CALLS`, as their results depend on elements in kind.
DYNAMIC = {
    "allclose", "argwhere", "array_equal", "array_equiv", "bincount", "compress", "extract", "flatnonzero", "histogram",
    "nonzero", "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values",
}  # fmt: skip
NEVER_WITHOUT_DATA = DYNAMIC | {
    "histogram2d", "histogramdd", "intersect1d", "real_if_close", "setdiff1d", "setxor1d", "union1d",
}  # fmt: skip
NEVER_IN_BATCHES = DYNAMIC | {"matvec", "searchsorted", "vecmat"}


def function_of(name: str) -> Any:
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def names_in(rules: Any) -> list[str]:
    """Return the functions that have rules and calls; the universal functions need no rule."""
    functions = {name: function_of(name) for name in lines(CALLS)}
    return [name for name, function in functions.items() if function in rules or isinstance(function, np.ufunc)]


def evaluate(name: str, call: str, wrapped: Callable[[np.ndarray], Any] = np.asarray) -> Any:
    """Return the result of a call with wrapped arrays."""
    letters = {
        letter: wrapped(x) if isinstance(x, np.ndarray) and letter != "A0" else x for letter, x in LETTERS.items()
    }
    function = function_of(name)
    if isinstance(function, np.ufunc):  # batches take no part in the protocol of these
        function = partial(apply, function, "__call__")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(f"call({call})", {"np": np, "call": function, **letters})


def without_data(x: np.ndarray) -> MetaArray:
    return MetaArray(x.shape, x.dtype, x.strides)


def in_batch(level: VmapLevel) -> Callable[[np.ndarray], BatchedArray]:
    return lambda x: BatchedArray(np.stack([x] * SAMPLES), level)


def recorded(x: np.ndarray) -> RecordedArray:
    """Return a stand-in of a program; nothing records it, so that it computes."""
    return RecordedArray(x, 0)


def described(result: Any) -> Any:
    """Return the shape and dtype of each array."""
    if isinstance(result, (tuple, list)):
        return [*map(described, result)]
    return (tuple(result.shape), result.dtype) if hasattr(result, "dtype") else type(result)


def samples_of(result: Any) -> Iterator[np.ndarray]:
    """Yield each array of a result; of a batch, the last sample."""
    if isinstance(result, (tuple, list)):
        for each in result:
            yield from samples_of(each)
    else:
        yield np.asarray(result.array[-1] if isinstance(result, BatchedArray) else result)


def compare(name: str, wrapped: Callable[[np.ndarray], Any], never: set[str]) -> None:
    """Compare the calls of a function with NumPy's; at least one of them is not refused."""
    done = 0
    for call in lines(CALLS)[name]:
        try:
            expected = evaluate(name, call)
            assert IS_NEWEST or not isinstance(expected, int)
        except (AssertionError, TypeError):  # NumPy 2.0 lacks parameters, and gives some results as ints
            if IS_NEWEST:
                raise
            continue
        try:
            found = evaluate(name, call, wrapped)
        except REFUSED:
            continue
        done += 1
        assert described(found) == described(expected), call
        if wrapped is not without_data and "where=M" not in call:  # elements without a value
            for a, b in zip(samples_of(found), samples_of(expected), strict=True):
                np.testing.assert_allclose(
                    a, b, rtol=1e-5 if a.dtype.itemsize == 4 else 1e-11, atol=1e-14, err_msg=call
                )
    assert bool(done) is (name not in never)


@pytest.mark.parametrize("name", [name for name in names_in(META_RULES) if name not in BY_VALUES])
def test_functions_without_data(name: str) -> None:
    compare(name, without_data, NEVER_WITHOUT_DATA)


@pytest.mark.parametrize("name", names_in(BATCH_RULES))
def test_functions_in_batches(name: str) -> None:
    compare(name, in_batch(VmapLevel(SAMPLES)), NEVER_IN_BATCHES)


#: Arguments of methods that need some.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "argpartition": (1,), "clip": (0.5, 1.5), "compress": ([True, False, True],), "dot": (LETTERS["W"],),
    "repeat": (2,), "searchsorted": (0.5,), "swapaxes": (0, 1), "take": ([0, 2],),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    x, args = LETTERS["V"] if name == "searchsorted" else LETTERS["A"], ARGUMENTS.get(name, ())
    expected = getattr(x, name)(*args)
    for wrapped in (without_data, in_batch(VmapLevel(SAMPLES)), recorded):
        if wrapped is not recorded and (
            name in SIZED_BY_VALUES or (name == "searchsorted" and wrapped is not without_data)
        ):
            with pytest.raises(REFUSED):
                getattr(wrapped(x), name)(*args)
        else:
            assert described(getattr(wrapped(x), name)(*args)) == described(expected)
    with pytest.raises(NotFusible):
        getattr(ExprGraph().input(0, x.dtype), name)(*args)


@pytest.mark.parametrize("each", OPERATORS.values(), ids=list(OPERATORS))
def test_operators(each: Operator) -> None:
    """In each form, with an array and with a number of Python at the other side."""
    letter = "I" if each.kind == "bits" or each.name == "invert" else "S" if each.kind == "product" else "A"
    for wrapped in (without_data, in_batch(VmapLevel(SAMPLES)), recorded, as_expression):
        if wrapped is as_expression and each.kind == "product":
            continue  # not of single elements
        for other in (LETTERS[letter],) if each.kind == "product" else (LETTERS[letter], 2):
            for form, _ in each.methods:
                x, y = LETTERS[letter].copy(), other
                a, b = wrapped(x), wrapped(y) if isinstance(y, np.ndarray) else y
                if form == "unary":
                    found, expected = each.function(a), each.function(x)
                elif form == "left":
                    found, expected = each.function(a, b), each.function(x, y)
                elif form == "right":
                    found, expected = each.function(b, a), each.function(y, x)
                elif wrapped is as_expression:
                    continue  # expressions are values
                else:
                    assert each.in_place is not None
                    found, expected = each.in_place(a, b), each.in_place(x, y)
                if wrapped is as_expression:
                    assert found.dtype == expected.dtype
                else:
                    assert described(found) == described(expected)


_GRAPH = ExprGraph()


def as_expression(x: np.ndarray) -> Expr:
    return _GRAPH.input(0, x.dtype)


@pytest.mark.parametrize(
    "convert", [bool, int, float, complex, operator.index, np.asarray, len, iter, lambda x: x.item()]
)
def test_no_elements(convert: Callable[[Any], Any]) -> None:
    """Nothing that reads an element, or counts them, goes on with a wrong one."""
    number = np.array(1.0)
    for wrapped in (without_data, in_batch(VmapLevel(SAMPLES)), as_expression):
        with pytest.raises((*REFUSED, NotFusible, TypeError)):
            convert(wrapped(number))
