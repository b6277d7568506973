"""What nodes show of what they saved: attributes ``_saved_<name>`` with PyTorch's names and values."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from gradcore.autograd.messages import FREED
from gradcore.autograd.op_node import OpNode, Packed
from gradcore.autograd.saved import SavedInput, SavedResult
from gradcore.autograd.variables import Variable
from gradcore.ops.parameters import names_of as parameter_names

__all__ = ["show"]

#: Settings that PyTorch's nodes do not have, whatever the operation.
_UNSHOWN = {"caller", "driver", "dtype", "memory_format", "non_blocking", "of_other", "of_self", "out"}

#: What PyTorch's nodes keep in the place of names.
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def show(cls: type[OpNode], names: Iterable[str]) -> None:
    """Give a class of nodes attributes for what its formulas read, `names`, and for the settings of its operation.

    A tensor ``_saved_<name>`` has a `SavedTensor` beside it, ``_raw_saved_<name>``, for hooks. (These are properties,
    since a `__getattr__` would make every other attribute three times as slow.)
    """
    op = cls.op
    for name, value in _names(cls, names).items():
        setattr(cls, f"_saved_{name}", _attribute(value))
        if value in op.outputs or op.position.get(value) in op.tensor_like:
            setattr(cls, f"_raw_saved_{name}", property(partial(_handle, name=value)))


def _names(cls: type[OpNode], names: Iterable[str]) -> dict[str, Any]:
    """What the class shows, by name: declared names, functions of them, and constants (see `Op.saved`)."""
    op = cls.op
    settings = {name for i, name in enumerate(op.names) if i not in op.tensor_like}
    shown: dict[str, Any] = {n.replace("_shape", "_sym_sizes"): n for n in sorted({*names, *settings} - _UNSHOWN)}
    for name, value in (op.saved(cls.__name__) if callable(op.saved) else op.saved).items():
        if value is None:
            del shown[name]
        else:
            shown[name] = shown.pop(value) if isinstance(value, str) else value
    return shown


# -- values -----------------------------------------------------------------------------------------------------------


def _attribute(value: Any) -> Any:
    """The attribute of a class of nodes that reads a declared name, computes with such, or is a constant."""
    if isinstance(value, str):
        return property(partial(_value, name=value))
    if not callable(value):
        return value
    read = parameter_names(value)
    return property(lambda node: value(*[_value(node, name, as_given=True) for name in read]))


def _value(node: OpNode, name: str, as_given: bool = False) -> Any:
    """What a node saved under a declared name; settings as PyTorch's nodes have them, or as they were given."""
    op, saved = node.op, node.saved
    if name.endswith("_shape"):
        return _shape(node, name.removesuffix("_shape"))
    position = op.position.get(name)
    held = position is None or position in op.tensor_like
    if saved is None:  # freed: settings stay
        if held or node.results is None:
            raise RuntimeError(FREED)
        saved = node.results
    if held:
        node.check()
    if position is None:
        return node.unpack_result(op.outputs.index(name))
    if position >= len(saved):
        return op.parameters[position].default
    if held:
        value = node.unpack_input(position)
        return value.clone() if getattr(value, "_constant", False) else value
    return saved[position] if as_given else _as_setting(saved[position], op.parameters[position])


def _as_setting(value: Any, parameter: Any) -> Any:
    """A setting as PyTorch's nodes keep it: where there can be several dims, a tuple."""
    if parameter.name == "reduction":
        return _REDUCTIONS.get(value, value)
    several = parameter.annotation == "Dims" or parameter.name in ("dims", "shifts")
    return (value,) if several and type(value) is int else value


def _shape(node: OpNode, name: str) -> Any:
    """The shape of an input, as far as the node knows it."""
    saved = node.results if node.saved is None else node.saved
    if saved is None:
        raise RuntimeError(FREED)
    value = saved[node.op.position[name]]
    if value.__class__ is Packed:
        value = value.unpack()
    return value._array.shape if isinstance(value, Variable) else value


# -- hooks of single tensors ------------------------------------------------------------------------------------------


def _handle(node: OpNode, name: str) -> Any:
    op = node.op
    if name in op.outputs:
        return SavedResult(node, op.outputs.index(name))
    position = op.position[name]
    if position not in op.indices and position not in op.sequences:
        return SavedInput(node, position)
    if node.saved is None:
        raise RuntimeError(FREED)
    return tuple(SavedInput(node, position, i) for i in range(len(node.saved[position] or ())))
