"""Result types of operations for type checkers, from declarations or from the operation's samples."""

from __future__ import annotations

import functools
import re
import warnings
from typing import Any

from gradcore.cuda.cases import cases
from gradcore.ops.declare.table import Op
from gradcore.tensor import Tensor
from gradcore.tensor.creation import tensor

__all__ = ["overloads", "result"]

PAIR, TENSORS = "builtins.tuple[Tensor, Tensor]", "builtins.tuple[Tensor, ...]"

_BUILTIN = re.compile(r"\b(bool|int|float|tuple)\b")


def _qualify_builtins(text: str) -> str:
    """Return a type with ``builtins.`` before names that operations have, too."""
    return _BUILTIN.sub(r"builtins.\1", text)


@functools.cache
def result(op: Op) -> str:
    """Return the type of an operation's result; Any where it depends on the call."""
    if op.returns:
        return _qualify_builtins(op.returns)
    if op.fields:
        return f"return_types.{op.output_name}"
    if op.kind != "composite":
        return TENSORS if op.variadic or len(op.outputs) > 1 else "Tensor"
    if "return_indices" in op.names:
        return "Any"
    with warnings.catch_warnings():
        # Warnings, for example of deprecated names, are for users of the operation.
        warnings.simplefilter("ignore")
        results = {_kind(case.call([tensor(array) for array in case.arrays()])) for case in cases(op)}
    if len(results) == 1:
        return results.pop()
    return TENSORS if results and all(kind.startswith("builtins.tuple[Tensor") for kind in results) else "Any"


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return "Tensor"
    if isinstance(value, (tuple, list)) and all(isinstance(each, Tensor) for each in value):
        return f"builtins.{type(value).__name__}[{', '.join(['Tensor'] * len(value))}]"
    return f"builtins.{type(value).__name__}" if isinstance(value, (bool, int, float)) else "Any"


def overloads(op: Op, signature: list[str], method: bool) -> list[tuple[list[str], str]]:
    """Return the overloads of an operation, the general one last: parameters and result.

    The list is empty if one signature is enough.
    """
    general = signature, result(op)
    if op.overloads:
        forms = [([each for each in names.split(", ") if each], annotation) for names, annotation in op.overloads]
        return [
            *(([signature[0], *map(_qualify_builtins, names)], _qualify_builtins(output)) for names, output in forms),
            general,
        ]
    flag = next((i for i, each in enumerate(signature) if each.startswith("return_indices:")), None)
    if flag is None:
        return []
    other_parameters = [*signature[:flag], *signature[flag + 1 :]]
    return [
        (other_parameters, "Tensor"),
        (_with_keyword(other_parameters, "return_indices: Literal[True]"), PAIR),
        general,
    ]


def _with_keyword(parameters: list[str], keyword: str) -> list[str]:
    """Return the parameters with a further keyword-only one."""
    if "*" not in parameters:
        return [*parameters, "*", keyword]
    position = parameters.index("*") + 1
    return [*parameters[:position], keyword, *parameters[position:]]
