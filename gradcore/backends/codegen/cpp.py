"""C++ expressions, shared by CUDA kernels and the CPU's loops."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.codegen.expr import Expr
from gradcore.backends.codegen.schedule import Kernel
from gradcore.core.operators import BASIC, OPERATORS, names_of

__all__ = ["C_TYPES", "Dialect", "statements", "to_cpp"]

#: By the name of a dtype: its type in memory.
C_TYPES = {
    "bool": "bool", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32",
    "int64": "i64", "uint64": "u64", "float16": "float16", "bfloat16": "bfloat16", "float32": "float",
    "float64": "double", "complex64": "complex<float>", "complex128": "complex<double>",
}  # fmt: skip

#: By the name of NumPy's function: its operator in C++.
_INFIX = {
    OPERATORS[name].ufunc.__name__: OPERATORS[name].symbol
    for name in (*BASIC, *names_of("comparison"), "and", "or", "xor")
}

_TEMPLATES = {
    "positive": "{0}", "negative": "-{0}", "square": "{0} * {0}", "reciprocal": "{T}(1) / {0}",
    "real": "{0}.real()", "imag": "{0}.imag()", "complex": "{T}({0}, {1})",
    "deg2rad": f"{{0}} * {{T}}({math.pi / 180!r})", "rad2deg": f"{{0}} * {{T}}({180 / math.pi!r})",
    "logical_and": "truth({0}) && truth({1})", "logical_or": "truth({0}) || truth({1})",
    "logical_xor": "truth({0}) != truth({1})", "logical_not": "!truth({0})", "cast": "cast<{T}>({0})",
    "round_to_float16": "load(store<float16>({0}))", "round_to_bfloat16": "load(store<bfloat16>({0}))",
}  # fmt: skip

_SYNTAX = frozenset({*_INFIX, *_TEMPLATES, "where", "invert"})


class Dialect(NamedTuple):
    """The C++ of a target: its functions and syntax.

    Attributes
    ----------
    real, complex : dict
        The C++ functions of real and of complex numbers, by their names in the graph. `complex` is None if complex
        numbers are not supported.
    where : str
        The template of a selection.
    """

    real: dict[str, str]
    complex: dict[str, str] | None
    where: str

    def supports(self, expr: Expr) -> bool:
        """Return whether this dialect has a C++ expression for `expr`."""
        if self.complex is None and any(e.dtype.kind == "c" for e in (expr, *expr.operands)):
            return False
        return expr.function in _SYNTAX or self.function(expr) is not None

    def function(self, expr: Expr) -> str | None:
        """Return the C++ function of an expression, or None."""
        table = self.complex if expr.operands[0].dtype.kind == "c" else self.real
        return None if table is None else table.get(expr.function)


def to_cpp(expr: Expr, operands: list[str], dialect: Dialect) -> str:
    """Return the C++ text of a supported expression, given the texts of its operands."""
    name = expr.function
    if name == "constant":
        return _literal(expr.value, expr.dtype)
    if name == "where":
        return dialect.where.format(*operands)
    if name == "invert":
        return f"{'!' if expr.dtype.kind == 'b' else '~'}{operands[0]}"
    if (function := dialect.function(expr)) is not None:
        return f"{function}({', '.join(operands)})"
    if name in _INFIX:
        return f"{operands[0]} {_INFIX[name]} {operands[1]}"
    return _TEMPLATES[name].format(*operands, T=C_TYPES[expr.dtype.name])


def statements(kernel: Kernel, dialect: Dialect) -> tuple[list[str], list[str]]:
    """Return the statements that compute one element, and the names of the outputs.

    Inputs are read by their names, parameters as ``p0``, ``p1``, ...
    """
    inputs = {i.position: i.name for i in kernel.inputs}
    parameters = {p.position: f"p{n}" for n, p in enumerate(kernel.parameters)}
    names: dict[int, str] = {}
    lines: list[str] = []
    for expr in kernel.nodes:
        if expr.function == "input":
            name = inputs[expr.value]
        elif expr.function == "parameter":
            name = parameters[expr.value]
        else:
            name = to_cpp(expr, [names[id(o)] for o in expr.operands], dialect)
            if expr.operands:
                lines.append(f"const {C_TYPES[expr.dtype.name]} v{len(lines) + 1} = {name};")
                name = f"v{len(lines)}"
            elif name[0] == "-":
                name = f"({name})"
        names[id(expr)] = name
    return lines, [names[id(expr)] for expr, _ in kernel.outputs]


def _literal(value: Any, dtype: np.dtype[Any]) -> str:
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        if dtype.itemsize == 8:
            return f"{C_TYPES[dtype.name]}({value}ll)" if value > -(2**63) and value < 2**63 else f"{value % 2**64}ull"
        return f"{C_TYPES[dtype.name]}({value})"
    if dtype.kind == "c":
        part = np.dtype("float32" if dtype.itemsize == 8 else "float64")
        return f"{C_TYPES[dtype.name]}({_literal(value.real, part)}, {_literal(value.imag, part)})"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}infinity<{C_TYPES[dtype.name]}>()"
    if math.isnan(value):
        return f"not_a_number<{C_TYPES[dtype.name]}>()"
    digits = repr(value) if dtype.itemsize == 8 else str(dtype.type(value))
    digits = digits if any(c in digits for c in ".e") else digits + ".0"
    return digits if dtype.itemsize == 8 else digits + "f"
