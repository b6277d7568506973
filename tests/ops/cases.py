"""Calls of every operation, drawn from the declarations."""

from __future__ import annotations

from gradcore.cuda.cases import ELEMENTWISE_SHAPES, Case, Constant, Drawn, Symmetric, cases
from gradcore.ops.declare.table import OPS

__all__ = ["ALL", "DIFFERENTIABLE", "ELEMENTWISE_SHAPES", "Case", "Constant", "Drawn", "Symmetric", "cases"]

ALL = [case for op in OPS.values() if op.function or op.method or op.samples for case in cases(op)]
DIFFERENTIABLE = [
    case
    for case in ALL
    if not case.op.random
    and case.differentiable()
    and (case.op.vjps or case.op.differentials or case.op.kind == "composite")
]
