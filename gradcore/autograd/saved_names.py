"""What nodes show of what they saved: attributes ``_saved_<name>`` with PyTorch's names and values."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from gradcore.autograd.messages import FREED
from gradcore.autograd.op_node import HOLDING, OpNode
from gradcore.autograd.saved import SavedTensor
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
    for name, value in _names(cls, names).items():
        setattr(cls, f"_saved_{name}", _attribute(value))
        number = cls.number_of.get(value) if isinstance(value, str) else None
        if number is not None and cls.slots[number].kind in HOLDING:
            setattr(cls, f"_raw_saved_{name}", property(partial(OpNode.handle, number=number)))


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
    if name.endswith("_shape"):
        return _shape(node, name.removesuffix("_shape"))
    number = node.number_of[name]
    slot = node.slots[number]
    if slot.kind == "setting":
        value = _remaining(node)[number]
        return value if as_given else _as_setting(value, node.op.parameters[slot.position])
    node.check()
    value = node.unpack(number)
    return value.clone() if getattr(value, "_constant", False) else value


def _remaining(node: OpNode) -> Any:
    """The values of the slots, settings and shapes also of a node that has been freed."""
    if node.saved is not None:
        return node.saved
    outline = getattr(node, "outline", None)
    if outline is None:
        raise RuntimeError(FREED)
    return outline


def _as_setting(value: Any, parameter: Any) -> Any:
    """A setting as PyTorch's nodes keep it: where there can be several dims, a tuple."""
    if parameter.name == "reduction":
        return _REDUCTIONS.get(value, value)
    several = parameter.annotation == "Dims" or parameter.name in ("dims", "shifts")
    return (value,) if several and type(value) is int else value


def _shape(node: OpNode, name: str) -> Any:
    """The shape of an input, as far as the node knows it."""
    values = _remaining(node)
    for key in (f"{name}_shape", name):
        value = values[node.number_of[key]] if key in node.number_of else None
        if isinstance(value, SavedTensor):
            value = value.open(node)
        if value is not None:
            return value._array.shape if isinstance(value, Variable) else value
    return None
