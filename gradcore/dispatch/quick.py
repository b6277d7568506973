"""Functions of elementwise operations: the plain case first, everything else through the general call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore import dtypes
from gradcore.autograd.formulas import node_class
from gradcore.autograd.graph import (
    VersionCounter,
    gradient_edge,
    new,
    tensor_type,
    tick,
)
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.variables import Subclasses
from gradcore.dispatch.calls import apply, elementwise
from gradcore.dispatch.operands import constant, shape_error
from gradcore.ops.promotion import keeps_floats
from gradcore.ops.table import Op

__all__ = ["binary", "plain_or", "unary"]

PLAIN = Subclasses.plain


def unary(op: Op) -> Callable[[Any], Any]:
    """The function of an elementwise operation of one tensor: the plain case first, everything else generally."""
    saves_self, saves_result = _reads(op, op.names[0]), _reads(op, "result")
    cls = None
    exact = keeps_floats(op.promotion) and bool(op.vjps or op.differentials)
    key = op.kernel

    def call(self: Any) -> Any:
        nonlocal cls
        state = local.state
        if self.__class__ not in PLAIN or state.mode > GRAD or not exact:
            return apply(op, (self,))
        dtype = self._dtype
        if dtype.category != 2 or dtype.is_reduced:
            return elementwise(op, (self,), state)
        device = self._device
        a = self._array
        array = state.run(device.kernels[key], a)
        if array.__class__ is not a.__class__:
            array = device.backend.asarray(array)
        out = new(tensor_type.cls)
        out._array, out._device, out._dtype, out._meta, out._vc = array, device, dtype, None, None
        edge = self._edge if self._meta is None else gradient_edge(self)
        if edge is None or not state.mode:
            out._edge = None
            return out
        if cls is None:
            cls = node_class(op, str(op.node_name))
        node = new(cls)
        node._device, node._edges, node._hooks, node.metas, node._seq = device, (edge,), None, None, tick()
        node.saved = (self,) if saves_self else _NOTHING
        if saves_result:
            vc = out._vc = VersionCounter()
            node.results = ((array, vc, 0, None),)
        else:
            node.results = None
        out._edge = (node, 0)
        return out

    return call


_NOTHING = (None, None)


def _reads(op: Op, name: str, of: str | None = None) -> bool:
    table = op.vjps or op.differentials
    return any(
        name in f.names for key, f in table.items() if of is None or of in (key if isinstance(key, tuple) else (key,))
    )


def _comparison(op: Op, foreign: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """`binary` for comparisons, which record nothing."""
    key = op.kernel
    takes_numbers = 1 in op.numbers

    def call(self: Any, other: Any) -> Any:
        state = local.state
        if state.mode > GRAD or self.__class__ not in PLAIN:
            return foreign(op, (self, other))
        dtype, device = self._dtype, self._device
        if other.__class__ in PLAIN:
            b, like = other._array, other._dtype is dtype and other._device is device
        else:
            b, like = other, takes_numbers and (other.__class__ is float or other.__class__ is int)
        if not like or dtype.category != 2 or dtype.is_reduced:
            return foreign(op, (self, other))
        try:
            array = state.run(device.kernels[key], self._array, b)
        except ValueError as error:
            raise shape_error((self, other)) or error from None
        if array.__class__ is not self._array.__class__:
            array = device.backend.asarray(array)
        out = new(tensor_type.cls)
        out._array, out._device, out._dtype, out._edge, out._meta, out._vc = (
            array,
            device,
            dtypes.bool_,
            None,
            None,
            None,
        )
        return out

    return call


def binary(op: Op, foreign: Callable[..., Any] = apply) -> Callable[[Any, Any], Any]:
    """The function of an elementwise operation of two tensors (or a tensor and a number).

    `foreign` is called as `apply` with a second argument that is neither.
    """
    if op.promotion.startswith("compare"):
        return _comparison(op, foreign)
    first, second = op.names[:2]
    settings = tuple(p.default for p in op.parameters[2:])
    # What is kept, by whether the first and the second input require grad.
    kept = tuple(
        tuple(
            tuple(
                (a and _reads(op, name, first)) or (b and _reads(op, name, second))
                for name in (first, second, "result")
            )
            for b in (False, True)
        )
        for a in (False, True)
    )
    cls = None
    # The kernel of the plain call, without settings if it has a name of its own.
    key, extra = (op.name, ()) if settings and op.kernel != op.name else (op.kernel, settings)
    exact = keeps_floats(op.promotion) and bool(op.vjps or op.differentials)
    takes_numbers = 1 in op.numbers
    classes: dict[bool, Any] = {}

    def named_class(self: Any, other: Any) -> Any:
        """The class of the node, remembered where its name depends on nothing but whether `other` is a number."""
        nonlocal cls
        if isinstance(op.node_name, str):
            cls = node_class(op, op.node_name)
            return cls
        number = getattr(other, "_constant", False)
        if number not in classes:
            classes[number] = node_class(op, op.node_name(self, other, *settings))
        return classes[number]

    def call(self: Any, other: Any) -> Any:
        state = local.state
        if state.mode > GRAD or not exact or self.__class__ not in PLAIN:
            return foreign(op, (self, other, *settings))
        dtype = self._dtype
        device = self._device
        if other.__class__ not in PLAIN:
            if not takes_numbers or (other.__class__ is not float and other.__class__ is not int):
                return foreign(op, (self, other, *settings))
            if dtype.category != 2 or dtype.is_reduced:
                return apply(op, (self, other, *settings))
            other = constant(other, dtype, device)
        elif other._dtype is not dtype or other._device is not device or dtype.category != 2 or dtype.is_reduced:
            return apply(op, (self, other, *settings))
        a, b = self._array, other._array
        try:
            array = state.run(device.kernels[key], a, b, *extra)
        except ValueError as error:
            raise shape_error((self, other)) or error from None
        if array.__class__ is not a.__class__:
            array = device.backend.asarray(array)
        out = new(tensor_type.cls)
        out._array, out._device, out._dtype, out._meta, out._vc = array, device, dtype, None, None
        edge = self._edge if self._meta is None else gradient_edge(self)
        other_edge = other._edge if other._meta is None else gradient_edge(other)
        if (edge is None and other_edge is None) or not state.mode:
            out._edge = None
            return out
        node = new(cls or named_class(self, other))
        node._device, node._edges, node._hooks, node._seq = device, (edge, other_edge), None, tick()
        keeps_self, keeps_other, keeps_result = kept[edge is not None][other_edge is not None]
        node.saved = (self if keeps_self else None, other if keeps_other else None, *settings)
        if keeps_result:
            vc = out._vc = VersionCounter()
            node.results = ((array, vc, 0, None),)
        else:
            node.results = None
        if a.shape == b.shape or (other_edge is None and a.shape == array.shape):
            node.metas = None
        else:
            np_dtype = dtype.numpy
            node.metas = ((a.shape, np_dtype), (b.shape, np_dtype))
        out._edge = (node, 0)
        return out

    return call


def plain_or(fast: Callable[..., Any], op: Op) -> Callable[..., Any]:
    """What runs a call of a binary operation with settings: the fast function where they have their defaults."""
    defaults = tuple(p.default for p in op.parameters[2:])

    def run(op: Op, args: tuple[Any, ...]) -> Any:
        return fast(args[0], args[1]) if args[2:] == defaults else apply(op, args)

    return run
