"""Numbers that a program computes: elements that a function reads from tensors, and arithmetic with them.

``loss.item()`` is a different number in each call. If the function only returns it, compares it, or combines it with
numbers and tensors, the program can do the same: the function then receives a `RecordedFloat` or `RecordedInteger`,
which records these operations. Each outcome of a comparison has its own program. A float that becomes an operand of a
tensor is passed to the next segment of the program. The source of the function is analysed to exclude other uses,
because functions written in C see only a plain float.
"""

from __future__ import annotations

import ast
import operator
import types
from collections.abc import Sequence
from typing import Any

from gradcore.autograd.variables import Variable
from gradcore.compiler.capture.sources import SCOPES, tree_of
from gradcore.core.operators import Form, Method, Operator, define_operators, names_of
from gradcore.nn.parameter import Parameter
from gradcore.ops.declare.table import OPS
from gradcore.tensor import Tensor

__all__ = ["OF_TENSORS", "RecordedFloat", "RecordedInteger", "float_arguments", "is_followed", "plain_numbers",
           "recorded_number"]  # fmt: skip

#: The operators on numbers that programs support.
_OPERATORS = [name for name in names_of("arithmetic", "comparison") if name != "pow"]
#: The operators between tensors and computed numbers that programs support.
OF_TENSORS = frozenset("+-*/")
_CONTAINERS = (ast.Tuple, ast.List, ast.Dict)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_NESTED = (*SCOPES, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class RecordedFloat(float):
    """Float that each run of a program computes anew.

    Attributes
    ----------
    expression : str
        The source expression of the number.
    run : ReadNumbers
        The numbers of the capture that it belongs to.
    """

    #: NumPy's scalars leave operators to this class.
    __array_ufunc__ = None
    expression: str
    run: Any


class RecordedInteger(int):
    """Integer that each run of a program computes anew; see `RecordedFloat`."""

    expression: str
    run: Any


_KINDS: dict[type, Any] = {float: RecordedFloat, int: RecordedInteger}
_PLAIN: dict[type, type] = {kind: plain for plain, kind in _KINDS.items()}


def recorded_number(value: float, expression: str, run: Any) -> Any:
    """Return an int or float as a recorded number, and values of other types unchanged."""
    kind = _KINDS.get(type(value))
    if kind is None:
        return value
    result = kind(value)
    result.expression, result.run = expression, run
    return result


def plain_numbers(value: Any) -> Any:
    """Return `value` with the recorded numbers in it replaced by plain ones."""
    kind = type(value)
    if kind in _PLAIN:
        return _PLAIN[kind](value)
    if kind in (tuple, list):
        results = [plain_numbers(each) for each in value]
        return value if all(map(operator.is_, results, value)) else kind(results)
    if kind is dict:
        plain_dict = {key: plain_numbers(each) for key, each in value.items()}
        return value if all(map(operator.is_, plain_dict.values(), value.values())) else plain_dict
    return value


def _make_operator(operator: Operator, form: Form) -> Method | None:
    function, symbol = operator.function, operator.symbol

    def compute(self: Any, other: object) -> Any:
        if isinstance(other, Variable) and symbol in OF_TENSORS and type(self) is RecordedFloat:
            return NotImplemented  # The tensor's own operator handles the number.
        pair = (other, self) if form == "right" else (self, other)
        return self.run.compute(function(*map(plain_numbers, pair)), symbol, *pair)

    return None if form == "in place" else compute


for _kind, _plain in _PLAIN.items():
    define_operators(_kind, _make_operator, _OPERATORS)
    _class: Any = _kind
    _class.__neg__ = lambda self: self.run.compute(-plain_numbers(self), "-", self)
    _class.__bool__ = lambda self: self.run.compute(bool(plain_numbers(self)), "!=", self, 0)
    _class.__hash__ = _plain.__hash__


# -- how the source uses a number ----------------------------------------------------------------------------------


def is_followed(frame: types.FrameType, is_last: bool) -> bool:
    """Return whether the caller of ``item()`` uses the number only in ways that recorded numbers track.

    Parameters
    ----------
    frame : frame
    is_last : bool
        Whether the compiled function returns the result of this frame.
    """
    tree = tree_of(frame.f_code)
    if tree is None:
        return False
    positions = [*frame.f_code.co_positions()][frame.f_lasti // 2]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _position(node) == positions:
            item = isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args
            return bool(item and not node.keywords and _Uses(tree, is_last, frame.f_locals).allows(node))
    return False


def float_arguments(
    code: types.CodeType, args: Sequence[object], named: dict[str, object], bound: int
) -> dict[int | str, float]:
    """Return the float arguments that the function uses only in ways that recorded numbers track.

    Parameters
    ----------
    code : code
        The code of the called function.
    args, named
        The arguments of the call.
    bound : int
        The number of leading parameters that the call does not pass, such as ``self``.

    Returns
    -------
    dict
        The float arguments by position or name.
    """
    names = code.co_varnames[bound : code.co_argcount]
    arguments: dict[int | str, tuple[str, object]] = dict(enumerate(zip(names, args, strict=False)))
    arguments |= {name: (name, value) for name, value in named.items()}
    floats = {key: value for key, (_, value) in arguments.items() if type(value) is float}
    tree = tree_of(code) if floats else None
    if tree is None:
        return {}
    values = dict(arguments.values())
    return {key: value for key, value in floats.items() if _Uses(tree, True, values).allows_name(arguments[key][0])}


def _position(node: Any) -> tuple[Any, ...]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _is_number(node: Any) -> bool:
    """Return whether a node is a numeric literal."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _binds(node: Any, name: str) -> bool:
    """Return whether a node may rebind a name, by itself or in a nested scope."""
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    return isinstance(node, (*_NESTED, ast.Import, ast.ImportFrom, ast.ExceptHandler, ast.MatchAs, ast.MatchStar))


class _Uses:
    """Analysis of how a function uses certain values.

    Parameters
    ----------
    tree : ast node
        The function.
    is_last : bool
        See `is_followed`.
    values : dict
        The values of its variables at the point where the number is read.
    """

    def __init__(self, tree: Any, is_last: bool, values: dict[str, Any]) -> None:
        self.tree, self.is_last, self.values = tree, is_last, values
        self.parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self.seen: set[str] = set()
        #: Names that only ever hold tensors.
        self.tensors: set[str] = set()

    def allows(self, node: Any) -> bool:
        """Return whether the value of a node, and of names bound to it, is only returned, compared or computed with."""
        parent = self.parents[node]
        if isinstance(parent, ast.Return) or (isinstance(parent, ast.Lambda) and node is parent.body):
            return self.is_last
        if isinstance(parent, _CONTAINERS) and node not in getattr(parent, "keys", ()):
            return self._is_returned(parent)
        if isinstance(parent, ast.Compare):
            by_value = all(isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)) for op in parent.ops)
            return by_value and len(parent.ops) == 1 and (node is parent.left or _is_number(parent.left))
        if isinstance(parent, (ast.If, ast.While, ast.IfExp)):
            return node is parent.test
        if isinstance(parent, ast.UnaryOp):
            return isinstance(parent.op, ast.Not) or (isinstance(parent.op, ast.USub) and self.allows(parent))
        if isinstance(parent, ast.BinOp):
            is_supported = isinstance(parent.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod))
            operand = parent.right if node is parent.left else parent.left
            if isinstance(parent.op, _ARITHMETIC) and self._is_tensor(operand):
                return True
            return is_supported and (node is parent.left or _is_number(parent.left)) and self.allows(parent)
        if isinstance(parent, ast.Assign):
            return all(isinstance(t, ast.Name) and self.allows_name(t.id) for t in parent.targets)
        return isinstance(parent, ast.Expr)

    def _is_tensor(self, node: ast.AST) -> bool:
        """Return whether a node is certainly a tensor: arithmetic or an elementwise method on a tensor."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
            sides = [(node.left, node.right), (node.right, node.left)]
            return any(self._is_tensor(a) and (self._is_number(b) or self._is_tensor(b)) for a, b in sides)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._is_tensor(node.operand)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not (node.args or node.keywords):
            op = OPS.get(node.func.attr)
            return op is not None and op.kind == "elementwise" and self._is_tensor(node.func.value)
        return isinstance(node, ast.Name) and self._is_name_of_tensor(node.id)

    def _is_number(self, node: ast.AST) -> bool:
        return _is_number(node) or (isinstance(node, ast.Name) and node.id in self.seen)

    def _is_name_of_tensor(self, name: str) -> bool:
        """Return whether a local name only ever holds tensors."""
        if name in self.tensors:
            return True
        parameters = self.tree.args
        nodes = [each for each in ast.walk(self.tree) if each is not self.tree]
        if any(isinstance(each, (ast.Global, ast.Nonlocal)) and name in each.names for each in nodes):
            return False
        is_given = any(name == each.arg for each in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs))
        if is_given and type(self.values.get(name)) not in (Tensor, Parameter):
            return False
        # Assume it while the assignments are checked, because these may read the name itself.
        self.tensors.add(name)
        binding = [each for each in nodes if _binds(each, name)]
        assigned = [self.parents[each] for each in binding if isinstance(each, ast.Name)]
        is_bound = len(assigned) == len(binding) and (is_given or assigned)
        plain = [each for each in assigned if isinstance(each, ast.Assign) and len(each.targets) == 1]
        if not is_bound or len(plain) < len(assigned) or not all(self._is_tensor(each.value) for each in plain):
            self.tensors.discard(name)
        return name in self.tensors

    def _is_returned(self, node: Any) -> bool:
        """Return whether a list, tuple or dict display is part of the returned value."""
        parent = self.parents[node]
        if isinstance(parent, _CONTAINERS):
            return node not in getattr(parent, "keys", ()) and self._is_returned(parent)
        return self.is_last and (isinstance(parent, ast.Return) or node is getattr(self.tree, "body", None))

    def allows_name(self, name: str) -> bool:
        """Return whether all uses of a local name are allowed."""
        if name in self.seen:
            return True
        self.seen.add(name)
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names:
                return False
            is_nested = isinstance(node, _NESTED) and node is not self.tree
            if is_nested and any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node)):
                return False
            if isinstance(node, ast.Name) and node.id == name:
                if isinstance(self.parents[node], ast.AugAssign):
                    return False
                if isinstance(node.ctx, ast.Load) and not self.allows(node):
                    return False
        return True
