"""A parser for elementwise CUDA kernels that consist of expressions.

Statements such as ``y = x > 0 ? x : a * expm1(x)`` are parsed to nested tuples:

=============================  ==========================================
``("number", value)``          a literal
``("name", name)``             a parameter or a variable
``("call", name, *operands)``  a function of C++
``("unary", sign, operand)``   ``-``, ``+`` or ``!``
``("binary", sign, a, b)``     arithmetic, comparisons, ``&&``, ``||``
``("select", c, a, b)``        ``c ? a : b``
=============================  ==========================================
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

__all__ = ["Program", "Unparsable", "parse"]

Tree = tuple[Any, ...]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fFlLuU]*)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>&&|\|\||[<>=!]=|[-+*/%<>!?:(),=]))"
)

#: Precedence of binary operators; a larger number binds more strongly.
_BINDING = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 4,
    ">": 4,
    "<=": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
}

_TYPES = {"T", "float", "double", "auto", "bool", "int", "const"}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class Unparsable(ValueError):
    """Raised for source that contains more than expressions."""


class Program(NamedTuple):
    """A parsed kernel: variables in the order of assignment, and parameters in the order of first use."""

    assignments: tuple[tuple[str, Tree], ...]
    reads: tuple[str, ...]


def parse(text: str) -> Program:
    """Parse statements, or a single expression, which is assigned to the variable ``""``.

    Raises
    ------
    Unparsable
        If `text` contains anything other than assignments of expressions. The message has the position.

    Examples
    --------
    >>> parse("y = a * x").assignments
    (('y', ('binary', '*', ('name', 'a'), ('name', 'x'))),)
    """
    text = _COMMENT.sub(" ", text)
    assignments: list[tuple[str, Tree]] = []
    reads: list[str] = []
    for statement in text.split(";"):
        if statement.strip():
            reader = _Reader(statement)
            assignments.append(reader.assignment())
            known = {name for name, _ in assignments[:-1]}
            reads += [name for name in dict.fromkeys(reader.names) if name not in known and name not in reads]
    if not assignments:
        raise Unparsable("there is no expression")
    return Program(tuple(assignments), tuple(reads))


class _Reader:
    """Parser of one statement."""

    def __init__(self, text: str) -> None:
        self.text, self.names = text.strip(), list[str]()
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(self.text):
            match = _TOKEN.match(self.text, position)
            if match is None or match.end() == position:
                raise Unparsable(f"cannot read {self.text[position : position + 20]!r} in {self.text!r}")
            self.tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            position = match.end()
            while position < len(self.text) and self.text[position].isspace():
                position += 1
        self.position = 0

    # -- tokens

    def peek(self) -> str:
        return self.tokens[self.position][1] if self.position < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise Unparsable(f"expected {expected or 'more'!r} but found {token!r} in {self.text!r}")
        self.position += 1
        return token

    # -- grammar

    def assignment(self) -> tuple[str, Tree]:
        while (
            self.peek() in _TYPES
            and self.tokens[self.position + 1 : self.position + 2]
            and (self.tokens[self.position + 1][0] == "name")
        ):
            self.take()
        name = ""
        if [t for _, t in self.tokens[self.position + 1 : self.position + 2]] == ["="]:
            name = self.take()
            self.take("=")
        tree = self.expression()
        if self.peek():
            raise Unparsable(f"cannot read {self.peek()!r} in {self.text!r}")
        return name, tree

    def expression(self) -> Tree:
        condition = self.operation(1)
        if self.peek() != "?":
            return condition
        self.take("?")
        first = self.expression()
        self.take(":")
        return ("select", condition, first, self.expression())

    def operation(self, least: int) -> Tree:
        left = self.operand()
        while _BINDING.get(self.peek(), 0) >= least:
            sign = self.take()
            left = ("binary", sign, left, self.operation(_BINDING[sign] + 1))
        return left

    def operand(self) -> Tree:
        kind = self.tokens[self.position][0] if self.position < len(self.tokens) else ""
        token = self.take()
        if token in ("-", "+", "!"):
            return ("unary", token, self.operand())
        if token == "(":
            tree = self.expression()
            self.take(")")
            return tree
        if kind == "number":
            digits = token.rstrip("fFlLuU")
            return ("number", float(digits) if set(digits) & set(".eE") else int(digits))
        if kind != "name":
            raise Unparsable(f"cannot read {token!r} in {self.text!r}")
        if self.peek() == "(":
            return self.call(token)
        self.names.append(token)
        return ("name", token)

    def call(self, name: str) -> Tree:
        self.take("(")
        operands = []
        while self.peek() != ")":
            operands.append(self.expression())
            if self.peek() == ",":
                self.take(",")
        self.take(")")
        if name in _TYPES:  # T(2) is 2
            return operands[0]
        return ("call", name, *operands)
