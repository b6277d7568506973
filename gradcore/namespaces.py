"""Puts the operations of the table where users and formulas find them: as methods, functions and names in ``F``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from gradcore import creation, dispatch, functional, indexing, ops, paths, predicates, random, setitem, tensor, to
from gradcore.autograd import batch_dims
from gradcore.creation.filled import new_zeros, number_as_tensor
from gradcore.dispatch.torch_function import hand_over, overloaded, takes_over
from gradcore.ops.table import OPS, Op
from gradcore.random.drawing import drawn_like
from gradcore.random.functions import bernoulli_mask, log_standard_gamma
from gradcore.tensor import Tensor

__all__ = ["OPERATORS", "functions", "install", "looked_up", "operand", "register_op"]

#: Python's operators: method name, operation, reflected method name.
OPERATORS = (
    ("__add__", "add", "__radd__"), ("__sub__", "sub", "__rsub__"), ("__mul__", "mul", "__rmul__"),
    ("__truediv__", "div", "__rtruediv__"), ("__floordiv__", "floor_divide", "__rfloordiv__"),
    ("__mod__", "remainder", "__rmod__"), ("__pow__", "pow", "__rpow__"), ("__matmul__", "matmul", "__rmatmul__"),
    ("__and__", "bitwise_and", "__rand__"), ("__or__", "bitwise_or", "__ror__"), ("__xor__", "bitwise_xor", "__rxor__"),
    ("__lshift__", "bitwise_left_shift", "__rlshift__"), ("__rshift__", "bitwise_right_shift", "__rrshift__"),
    ("__lt__", "lt", None), ("__le__", "le", None), ("__gt__", "gt", None), ("__ge__", "ge", None),
    ("__eq__", "eq", None), ("__ne__", "ne", None), ("__neg__", "neg", None), ("__pos__", "positive", None),
    ("__abs__", "abs", None), ("__invert__", "bitwise_not", None),
)  # fmt: skip

#: What formulas, composites and modules call besides the operations.
BESIDES = (
    batch_dims.has_batches_of, batch_dims.repeated, creation.as_tensor, creation.empty, creation.empty_like,
    creation.full, creation.full_like, number_as_tensor, creation.ones, creation.ones_like, creation.tensor,
    creation.zeros, creation.zeros_like, indexing.index_tensor, predicates.broadcast_shapes, predicates.holds_anywhere,
    predicates.is_tensor, bernoulli_mask, drawn_like, log_standard_gamma, random.rand,
    random.randn, setitem.copy_, setitem.fill_, setitem.zero_, tensor.is_differentiated, Tensor.detach, to.to,
)  # fmt: skip


def _load_declarations() -> None:
    """Import every module of declarations."""
    for module in ops.FAMILIES:
        importlib.import_module(f"{ops.__name__}.{module}")


def install() -> None:
    """Give tensors and formulas the operations of all declarations."""
    vars(functional).update({function.__name__: function for function in BESIDES})
    functional.new_zeros = lambda input, size: new_zeros(input, tuple(size))
    _load_declarations()
    for op in OPS.values():
        _register(op)
    _install_operators()
    importlib.import_module("gradcore.inplace_views").install(Tensor)


def register_op(op: Op) -> Callable[..., Any]:
    """Make the function and the methods of an operation that was declared with `gradcore.ops.table`.

    Those of gradcore itself are registered at import; what is declared later is registered by hand.

    Parameters
    ----------
    op : Op
        What a decorator of `gradcore.ops.table` returned, with all of its formulas.

    Returns
    -------
    callable
        The function. The methods are attributes of `gradcore.Tensor` from here on, and formulas find it in ``F``.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.ops.table import elementwise
    >>> @gradcore.register_op
    ... @elementwise(lambda F, t, self: t * (3 * self * self), method=False)
    ... def cube_doctest(F, self):
    ...     return self * self * self
    >>> x = gradcore.tensor(2.0, requires_grad=True)
    >>> cube_doctest(x).backward()
    >>> x.grad
    tensor(12.)
    """
    _register(op)
    return op.call


def _register(op: Op) -> None:
    """Say how the function and the methods are made; that is done when they are first looked up."""
    op.make = partial(_function, op)
    functional.makers[op.name] = lambda: op.call
    if op.inplace:
        functional.makers[op.name + "_"] = partial(dispatch.make_inplace, op)
    if op.attribute:
        method = dispatch.make_function(op, method=True)
        setattr(Tensor, op.name, property(method, _copy_into(method)))
    if op.method:
        name = op.method if isinstance(op.method, str) else op.name
        aliases = [alias for alias in op.aliases if "." not in alias] if op.method is True else ()
        make = cache(partial(dispatch.make_function, op, method=True))
        for each in (name, *aliases):
            _Later(each, make)
            if op.inplace and "." not in op.path:
                _Later(each + "_", partial(getattr, functional, op.name + "_"))
    elif op.inplace and "." not in op.path:
        _Later(op.name + "_", partial(getattr, functional, op.name + "_"))


def _function(op: Op) -> Callable[..., Any]:
    function = dispatch.make_function(op, method=False)
    return dispatch.named(dispatch.spread(function, op), op, op.name, False) if op.varargs else function


class _Later:
    """A method of tensors that is made when it is first looked up, and then takes this object's place.

    There are a thousand of them, of which a program uses few.

    Parameters
    ----------
    name : str
    make : callable
        Returns the method.
    """

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self.name, self.make = name, make
        setattr(Tensor, name, self)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        method = self.make()
        setattr(Tensor, self.name, method)
        return method if instance is None else method.__get__(instance, owner)


def _copy_into(method: Callable[..., Any]) -> Callable[[Any, Any], None]:
    """The setter of an attribute that is a view."""

    def assign(self: Any, value: Any) -> None:
        functional.copy_(method(self), value)

    return assign


def _install_operators() -> None:
    for name, op_name, reflected in OPERATORS:
        op = OPS.get(op_name)
        if op is None:
            continue
        method = getattr(Tensor, op_name)
        unary = reflected is None and name in ("__neg__", "__pos__", "__abs__", "__invert__")
        setattr(Tensor, name, method if unary else _operator(op, name))
        if reflected is not None:
            setattr(Tensor, reflected, _reflected_operator(op_name, method, reflected))
            inplace = getattr(Tensor, op_name + "_", None)
            if inplace is not None:
                setattr(Tensor, f"__i{name[2:]}", inplace)


_COMMUTES = {"add", "mul", "bitwise_and", "bitwise_or", "bitwise_xor"}


def _operator(op: Any, name: str) -> Callable[..., Any]:
    """The operator's method: what is neither tensor nor number is left to its own reflected method."""
    general = dispatch.call_composite if op.kind == "composite" else dispatch.apply

    def foreign(op: Any, args: tuple[Any, ...]) -> Any:
        other = operand(args[1], args[0])
        if other is None:
            return _handed_over(op.name, args[:2])  # without defaults
        return general(op, (args[0], other, *args[2:]))

    call = dispatch.make_function(op, method=True, general=foreign)
    call.__name__, call.__qualname__ = name, f"Tensor.{name}"
    return call


def _handed_over(name: str, args: tuple[Any, ...]) -> Any:
    """What an operand that is neither tensor nor number makes of the method, if it takes calls over."""
    found = overloaded(args)
    return hand_over(getattr(Tensor, name), found, args, {}) if found else NotImplemented


def _reflected_operator(op_name: str, method: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(self: Any, other: Any) -> Any:
        value, other = other, operand(other, self)
        if other is None:
            return _handed_over(op_name if op_name in _COMMUTES else name, (self, value))
        if op_name in _COMMUTES:
            return method(self, other)
        if not isinstance(other, Tensor):
            reverse = getattr(functional, f"r{op_name}", None)
            if reverse is not None:
                return reverse(self, other)
            other = functional.number_as_tensor(other, self)
        return method(other, self)

    call.__name__, call.__qualname__ = name, f"Tensor.{name}"
    return call


_NUMBERS = frozenset((int, float, bool, complex))


def operand(value: Any, like: Any = None) -> Any:
    """A number or tensor out of what stands beside a tensor in an expression; None if it is neither."""
    if isinstance(value, Tensor) or value.__class__ in _NUMBERS:
        return value
    if isinstance(value, dispatch.Number):  # NumPy scalars, fractions
        return value.item() if hasattr(value, "item") else value
    if takes_over(type(value)):
        return None
    if hasattr(value, "__array__") or hasattr(value, "__cuda_array_interface__"):
        return functional.as_tensor(value)
    return None


#: Methods that are functions too.
METHODS = (
    "as_strided_", "detach", "detach_", "get_device", "index_put_", "is_distributed", "is_same_size", "resize_as_",
    "zero_",
)  # fmt: skip


def functions(path: str) -> dict[str, Callable[[], Callable[..., Any]]]:
    """What makes the functions of one namespace (``""``, ``"nn.functional"``, ``"linalg"`` ...), by name.

    An alias without a dot stands beside the function; one with a dot is a path of its own (``".conv2d"`` on top).
    """
    found: dict[str, Callable[[], Callable[..., Any]]] = {}
    if not path:
        found.update((name, partial(getattr, Tensor, name)) for name in METHODS)
    for op in OPS.values():
        if op.function:
            home = op.path.rpartition(".")[0]
            for each in (op.path, *op.aliases):
                where, dot, name = each.rpartition(".")
                if (where if dot else home) == path:
                    found[name] = partial(getattr, functional, op.name)
                    alone = op.kind == "elementwise" and len(op.names) == 1
                    if path in ("", "nn.functional") and op.inplace and (alone or op.inplace == "function"):
                        found[name + "_"] = partial(getattr, functional, op.name + "_")
    return found


def looked_up(
    makers: dict[str, Callable[[], Any]], scope: dict[str, Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module whose functions are made when they are first looked up.

    Parameters
    ----------
    makers : dict
        As `functions` returns them.
    scope : dict
        The globals of the module, where functions that were made stay.
    """
    others = paths.further(scope["__name__"])

    def module_getattr(name: str) -> Any:
        if name not in makers:
            return others(name)
        return scope.setdefault(name, makers[name]())

    return module_getattr, lambda: sorted(scope["__all__"])
