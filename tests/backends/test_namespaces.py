"""What a formula or a body calls exists wherever it runs: on every backend, and on tensors."""

from __future__ import annotations

import dis
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gradcore import functional
from gradcore.backends import find
from gradcore.ops.declare.table import OPS, Op

BACKENDS = ["cpu", "meta", "strict"]
SINGLE = [op for op in OPS.values() if op.kind != "composite"]


def by_name(ops: list[Op]) -> Any:
    return pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in ops])


def called(function: Callable[..., Any], seen: set[Any] | None = None) -> Iterator[str]:
    """Return the names ``F.name`` that a function uses, also through functions that it passes `F` to."""
    seen = set() if seen is None else seen
    if function in seen:
        return
    seen.add(function)
    code = function.__code__
    first = code.co_varnames[0] if code.co_argcount else None
    before = None
    for instruction in dis.get_instructions(code):
        if before == first and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            yield instruction.argval
        value = instruction.argval
        before = (value[-1] if isinstance(value, tuple) else value) if "FAST" in instruction.opname else None
    for name in code.co_names:
        helper = function.__globals__.get(name)
        if isinstance(helper, types.FunctionType) and helper.__code__.co_varnames[:1] in (("F",), ("K",)):
            yield from called(helper, seen)


def has(backend: Any, name: str) -> bool:
    return hasattr(find(backend), name)


@pytest.fixture(autouse=True)
def _strict_device(strict: str) -> None:
    """Register the backend of the strict device."""


@by_name(SINGLE)
def test_every_operation_has_a_kernel(op: Op) -> None:
    """Also one that takes all of the operation's arguments, in their order."""
    for backend in BACKENDS:
        kernel = getattr(find(backend), op.kernel)
        if inspect.ismethod(kernel):
            inspect.signature(kernel).bind(*[None] * len(op.parameters))


@by_name(list(OPS.values()))
def test_every_operation_is_in_the_tensor_namespace(op: Op) -> None:
    assert callable(getattr(functional, op.name))


@by_name(SINGLE)
def test_formulas_run_on_arrays_and_on_tensors(op: Op) -> None:
    formulas = [f.function for table in (op.vjps, op.differentials, op.jvps) for f in table.values()]
    names = {name for formula in formulas for name in called(formula)}
    missing = {name: [b for b in BACKENDS if not has(b, name)] for name in names}
    assert {name: where for name, where in missing.items() if where} == {}
    assert [name for name in names if not hasattr(functional, name)] == []


@by_name([op for op in SINGLE if op.body is not None])
def test_bodies_run_on_every_backend(op: Op) -> None:
    assert op.body is not None
    names = set(called(op.body)) - {"xp"}
    missing = {name: [b for b in BACKENDS if not has(b, name)] for name in names}
    assert {name: where for name, where in missing.items() if where} == {}


@by_name([op for op in OPS.values() if op.kind == "composite"])
def test_bodies_of_composites_run_on_tensors(op: Op) -> None:
    assert op.body is not None
    assert [name for name in set(called(op.body)) if not hasattr(functional, name)] == []


def test_the_reader_of_code_sees_names() -> None:
    found = set(called(helped)) | set(called(lambda F, t, x: F.mul(t, F.conj(x))))
    assert found == {"exp", "log", "mul", "conj"}


def helped(F: Any, x: Any) -> Any:
    return F.exp(helper(F, x)) + x.real


def helper(F: Any, x: Any) -> Any:
    return F.log(x)
