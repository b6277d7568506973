"""Python's operators as methods of tensors, and their operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gradcore import dispatch, functional
from gradcore.core.operators import OPERATORS
from gradcore.core.typing import AnyTensor
from gradcore.dispatch.torch_function import hand_over, overriding_arguments, takes_over
from gradcore.ops.declare.table import OPS, Op
from gradcore.tensor import Tensor
from gradcore.tensor.namespaces import Function

__all__ = ["as_operand", "operator_methods"]


def operator_methods() -> Iterator[tuple[str, Callable[[Any], Function], object]]:
    """Yield the names of operator methods, and functions with an argument that make the methods."""
    for each in OPERATORS.values():
        for form, name in each.methods:
            if form == "unary":
                yield name, _method, each.operation
            elif form == "left":
                yield name, _operator, (each.operation, name)
            elif form == "right":
                yield name, _reflected_operator, (each.operation, name)
            elif f"{each.operation}_" in vars(Tensor):
                yield name, _method, f"{each.operation}_"


def _method(name: str) -> Function:
    method: Function = getattr(Tensor, name)
    return method


def _operator(names: tuple[str, str]) -> Function:
    """Return the method of an operator, given the names of the operation and of the method.

    It returns NotImplemented if the other operand is neither tensor nor number.
    """
    op, name = OPS[names[0]], names[1]
    general = dispatch.call_composite if op.kind == "composite" else dispatch.apply

    def call_with_operand(op: Op, args: tuple[Any, ...]) -> Any:
        other = as_operand(args[1])
        if other is None:
            return _hand_over_or_decline(op.name, args[:2])  # without defaults
        return general(op, (args[0], other, *args[2:]))

    call: Any = dispatch.make_function(op, method=True, general=call_with_operand)
    call.__name__, call.__qualname__ = name, f"Tensor.{name}"
    call.__code__ = call.__code__.replace(co_name=name, co_qualname=call.__qualname__)
    return call  # type: ignore[no-any-return]


def _reflected_operator(names: tuple[str, str]) -> Function:
    op_name, name = names
    method, commutative = getattr(Tensor, op_name), OPS[op_name].commutative

    def call(self: AnyTensor, other: Any) -> Any:
        value, other = other, as_operand(other)
        if other is None:
            return _hand_over_or_decline(op_name if commutative else name, (self, value))
        if commutative:
            return method(self, other)
        if not isinstance(other, Tensor):
            reverse = getattr(functional, f"r{op_name}", None)
            if reverse is not None:
                return reverse(self, other)
            other = functional.number_as_tensor(other, self)
        return method(other, self)

    call.__name__, call.__qualname__ = name, f"Tensor.{name}"
    return call


def _hand_over_or_decline(name: str, args: tuple[Any, ...]) -> Any:
    """Return the result of the other operand's ``__torch_function__``, or NotImplemented if it has none."""
    result = overriding_arguments(args)
    return hand_over(getattr(Tensor, name), result, args, {}) if result else NotImplemented


_NUMBERS = frozenset((int, float, bool, complex))


def as_operand(value: Any) -> Any:
    """Return the other operand of an expression as a number or tensor, or None if it is neither."""
    if isinstance(value, Tensor) or value.__class__ in _NUMBERS:
        return value
    if isinstance(value, dispatch.Number):  # NumPy scalars, fractions
        return value.item() if hasattr(value, "item") else value
    if takes_over(type(value)):
        return None
    if type(value).__module__.startswith("scipy.sparse"):
        return functional.from_scipy(value)
    if hasattr(value, "__array__") or hasattr(value, "__cuda_array_interface__"):
        return functional.as_tensor(value)
    return None
