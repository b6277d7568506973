"""Docstrings of operations in numpydoc style, generated from their declarations.

A declaration describes its operation in a sentence. Types, defaults, results and errors follow from its signature and
options. Settings that mean the same in all operations are described here once.

The docstrings are generated when functions and methods are first looked up.
"""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import Any

from gradcore.ops.declare.examples import EXAMPLES

__all__ = ["docstring"]

#: Descriptions of annotations for users.
TYPES = {
    "Any": "object", "Arrays": "sequence of Tensor", "DType": "dtype", "Dims": "int or tuple of int",
    "Indices": "tuple of Tensor", "Ints": "int or sequence of int", "Number": "number", "Order": "int, float or str",
    "Pairs": "int, Tensor or pair of sequences of int",
    "Spacing": "float, sequence of float or of Tensor",
    "OutputSizes": "int or sequence of int", "Scalar": "float",
    "Sizes": "sequence of int", "Steps": "int or sequence of int", "Sequence[int]": "sequence of int",
    "Sequence[float]": "sequence of float",
}  # fmt: skip

_EACH = "One number, or one for each spatial dim."
_DEPRECATED = "Deprecated: use `reduction`."

#: Descriptions of settings that mean the same in all operations, by name, or by name and annotation.
SETTINGS = {
    "accumulate": "Whether values are added to what is there, instead of replacing it.",
    "align_corners": "Whether the centers of the corner elements stay in place.",
    "alpha: Number": "A factor.",
    "beta: Number": "A factor.",
    "atol": "Absolute tolerance.",
    "ceil_mode": "Whether sizes are rounded up, so that the last window may be cut off.",
    "check_errors": "Whether to raise an error where the computation fails.",
    "descending": "Whether the largest comes first.",
    "dilation": f"Step between the elements of a window. {_EACH}",
    "dim: Any": "The dims; negative numbers count from the end.",
    "dim: Dims": "The dims; negative numbers count from the end. All if None.",
    "dim: int": "The dim; negative numbers count from the end.",
    "dim: int | None": "The dim; negative numbers count from the end.",
    "dim0": "A dim; negative numbers count from the end.",
    "dim1": "A dim; negative numbers count from the end.",
    "dim2": "A dim; negative numbers count from the end.",
    "dims": "The dims; negative numbers count from the end.",
    "dtype": "The dtype to which the input is converted first.",
    "eps: float": "A small number that keeps denominators from zero.",
    "equal_nan": "Whether NaN equals NaN.",
    "groups": "Into how many groups, independent of each other, the channels are split.",
    "hermitian": "Whether matrices are taken to be symmetric, or Hermitian.",
    "ignore_index": "A target that does not count.",
    "include_self": "Whether the elements of the input take part in the reduction.",
    "inplace": "Whether to write the result into the input.",
    "is_causal": "Whether each position sees only itself and those before it.",
    "keepdim": "Whether reduced dims stay, with size 1.",
    "kernel_size": f"Size of the window. {_EACH}",
    "label_smoothing": "The share of the probability that is spread evenly over all classes.",
    "left": "Whether the matrix stands on the left of the unknown.",
    "n: int | None": "Size of the dim: it is cut or padded with zeros.",
    "norm: str | None": "``'backward'`` (None), ``'ortho'`` or ``'forward'``: which direction is divided by the size.",
    "output_size": f"Size of the result. {_EACH}",
    "padding": f"What is added on both sides. {_EACH}",
    "reduce: bool | None": _DEPRECATED,
    "reduction": "``'none'``, ``'mean'`` or ``'sum'``: what is returned of the losses of all elements.",
    "return_indices": "Whether to return the indices of the extrema as well.",
    "rtol": "Relative tolerance.",
    "s: Any": "Sizes of the dims: they are cut or padded with zeros.",
    "size_average": _DEPRECATED,
    "stride": f"Step from window to window. {_EACH}",
    "training": "Whether the module is in training mode.",
    "upper": "Whether matrices are upper triangular.",
}

#: Descriptions of the result, by the first word of the rule for its dtype.
RESULTS = {
    "float": "integers and bools become the default floating-point dtype",
    "compare": "of dtype bool",
    "complex": "complex",
    "divide": "integers and bools become the default floating-point dtype",
}
#: Descriptions of the dtypes that a rule refuses.
REFUSED = {"-bool": "bools", "-integer": "integers", "-float": "floating-point numbers", "-complex": "complex numbers"}

_OUT = "out : Tensor, optional\n    A tensor for the result."
_SECTION = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)
_ORDER = ("Parameters", "Returns", "Raises", "Notes", "Examples")


def docstring(op: Any, method: bool = False, inplace: bool = False) -> str:
    """Return the docstring of an operation's function or method.

    Sections in the declaration's own docstring replace the generated ones.

    Parameters
    ----------
    op : Op
    method : bool
        Whether the docstring is for the method instead of the function.
    inplace : bool
        Whether the docstring is for the in-place method, which writes the result into its tensor.
    """
    head, declared = op.doc, {}
    if "\n" in head:
        head, *rest = _SECTION.split(inspect.cleandoc(head))
        declared = dict(zip(rest[::2], rest[1::2], strict=True))
    generated = {
        "Parameters": _parameters(op, method),
        "Returns": _describe_result(op),
        "Raises": _describe_errors(op.promotion),
    }
    shape, session = EXAMPLES.get(op.path, ("", ""))
    if session:
        generated["Examples"] = session
    if shape:
        generated["Returns"] = f"{'tuple of Tensor' if shape.startswith('Two') else 'Tensor'}\n    {shape}"
    generated.update(declared)
    if inplace:
        head = f"Compute `{op.path.rpartition('.')[2]}` in place: the result is written into the tensor."
        generated["Returns"], generated["Examples"] = "Tensor\n    The tensor itself.", ""
    sections = [f"{name}\n{'-' * len(name)}\n{generated[name].strip()}" for name in _ORDER if generated.get(name)]
    return "\n\n".join([head.strip(), *sections]) + "\n"


def _parameters(op: Any, method: bool) -> str:
    tensors = op.tensors[1:] if op.sequences else op.tensors
    lines = []
    for i, parameter in enumerate(op.parameters):
        if (method and i == 0) or parameter.name[0] == "_":
            continue
        if i not in tensors:
            default = parameter.default
            shown = None if default is parameter.empty or parameter.kind is parameter.VAR_POSITIONAL else repr(default)
            name = f"*{parameter.name}" if parameter.kind is parameter.VAR_POSITIONAL else parameter.name
            lines.append(_setting(name, str(parameter.annotation), shown))
            continue
        name = "input" if parameter.name == "self" else parameter.name
        kind = "Tensor or number" if op.kind == "elementwise" and i in op.accepts_scalars else "Tensor"
        lines.append(f"{name} : {kind}, optional" if parameter.default is None else f"{name} : {kind}")
    if not method and not op.view and not op.path.startswith("nn."):
        lines.append(_OUT)
    return "\n".join(lines)


@cache
def _setting(name: str, annotation: str, default: str | None) -> str:
    """Return the lines that document a setting: its type in words, its default, and its meaning if known."""
    kinds = [TYPES.get(kind, kind) for kind in annotation.split(" | ") if kind != "None"]
    line = f"{name} : {' or '.join(dict.fromkeys(kinds))}"
    if default is not None:
        line += ", optional" if default == "None" else f", default {default}"
    note = SETTINGS.get(f"{name}: {annotation}") or SETTINGS.get(name)
    return f"{line}\n    {note}" if note else line


def _describe_result(op: Any) -> str:
    if op.variadic:
        return "tuple of Tensor" + ("\n    Views." if op.view else "")
    if op.fields or len(op.outputs) > 1:
        return "\n".join([f"{name} : Tensor" for name in op.fields.split() or op.outputs])
    if op.view:
        return (
            "Tensor\n    A view." if op.copy_node is None else "Tensor\n    A view where that is possible, else a copy."
        )
    if op.kind == "elementwise":
        return _describe_elementwise(len(op.tensors) > 1, op.promotion.partition(" ")[0])
    return "" if op.kind == "composite" else "Tensor"


@cache
def _describe_elementwise(several: bool, rule: str) -> str:
    shape = "Result of the broadcast shape of the tensors" if several else "Result of the shape of the input"
    return "Tensor\n    " + "; ".join(filter(None, (shape, RESULTS.get(rule)))) + "."


@cache
def _describe_errors(promotion: str) -> str:
    kinds = [REFUSED[word] for word in promotion.split()[1:]]
    return (
        f"NotImplementedError\n    For {', '.join(kinds[:-1])}{' and ' if kinds[1:] else ''}{kinds[-1]}."
        if kinds
        else ""
    )
