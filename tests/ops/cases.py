"""Calls of every operation, drawn from the declarations."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from gradcore.cuda.cases import ELEMENTWISE_SHAPES, Case, Constant, Drawn, Symmetric, cases
from gradcore.ops.declare.table import OPS

__all__ = [
    "ALL",
    "DIFFERENTIABLE",
    "ELEMENTWISE_SHAPES",
    "Case",
    "Constant",
    "Drawn",
    "Symmetric",
    "cases",
    "names_of_operations",
]

ALL = [case for op in OPS.values() if op.function or op.method or op.samples for case in cases(op)]
DIFFERENTIABLE = [
    case
    for case in ALL
    if not case.op.random
    and case.differentiable()
    and (case.op.vjps or case.op.differentials or case.op.kind == "composite")
]


#: Operations whose derivatives of second order take seconds where each call of a kernel is watched.
SLOW = {"matrix_log"}


def names_of_operations(without: Collection[str] = ()) -> list[Any]:
    """Return the names of the operations that have cases, as parameters: those in `SLOW` are marked slow."""
    names = sorted({case.op.name for case in ALL} - {*without})
    return [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in names]
