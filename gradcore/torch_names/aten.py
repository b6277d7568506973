"""PyTorch's operations by the names that its library ATen has for them: ``torch.ops.aten.mm.default``.

Programs use these names above all in policies of selective checkpointing. A name compares equal to the function of
gradcore that replaces the operation, and calling the name calls that function.

Examples
--------
>>> import gradcore
>>> gradcore.ops.aten.mm.default == gradcore.matmul
True
>>> gradcore.matmul in [gradcore.ops.aten.addmm.default, gradcore.ops.aten.mm.default]
True
>>> gradcore.ops.aten.add.Tensor(gradcore.ones(2), 1)
tensor([2., 2.])
"""

from __future__ import annotations

from functools import cache
from typing import Any

from gradcore import functional
from gradcore.ops.declare.table import OPS
from gradcore.tensor import Tensor

__all__ = ["Overload", "Packet", "operators"]

#: Functions that compute an operation of ATen under another name.
_FUNCTIONS = {
    "_log_softmax": "log_softmax",
    "_softmax": "softmax",
    "_to_copy": "to",
    "addmm": "addmm linear",
    "bmm": "bmm matmul",
    "convolution": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "max_pool2d_with_indices": "max_pool2d",
    "mm": "mm matmul linear",
    "mv": "mv matmul",
    "native_batch_norm": "batch_norm",
    "native_dropout": "dropout",
    "native_group_norm": "group_norm",
    "native_layer_norm": "layer_norm",
}


@cache
def _names(packet: str) -> frozenset[str]:
    """Return the names of the functions of gradcore that replace an operation of ATen."""
    if packet.startswith("_scaled_dot_product"):
        return frozenset({"scaled_dot_product_attention"})
    return frozenset({packet, *_FUNCTIONS.get(packet, "").split()})


class Overload:
    """An operation of ATen for certain types of arguments, or for any.

    Parameters
    ----------
    packet : str
        The name of the operation.
    overload : str
        The name of the overload, for example ``"default"`` or ``"Tensor"``.
    """

    def __init__(self, packet: str, overload: str) -> None:
        self._packet, self._overload = packet, overload
        self.__name__ = f"{packet}.{overload}"

    def name(self) -> str:
        """Return the full name."""
        return f"aten::{self._packet}" + ("" if self._overload == "default" else f".{self._overload}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _call(self._packet, args, kwargs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Overload):
            return self.__name__ == other.__name__
        name = getattr(other, "__name__", "")
        return callable(other) and (name in _names(self._packet) or name.strip("_") in _names(self._packet))

    def __hash__(self) -> int:
        return hash(_function(self._packet) or self.__name__)

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self._packet}', overload='{self._overload}')>"


class Packet:
    """An operation of ATen, for any arguments; its attributes are its overloads.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _call(self.__name__, args, kwargs)

    def __getattr__(self, name: str) -> Overload:
        if name.startswith("__"):
            raise AttributeError(name)
        result = self.__dict__[name] = Overload(self.__name__, name)
        return result

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"


class _Operators:
    """The operations by name."""

    def __getattr__(self, name: str) -> Packet:
        if name.startswith("__"):
            raise AttributeError(name)
        result = self.__dict__[name] = Packet(name)
        return result


operators = _Operators()


def _function(packet: str) -> Any:
    """Return the first function of gradcore that replaces an operation, or None if there is none."""
    for name in (packet, *sorted(_names(packet) - {packet})):
        if name.rstrip("_") in OPS:
            return getattr(functional, name)
        if hasattr(Tensor, name):
            return getattr(Tensor, name)
    return None


def _call(packet: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    function = _function(packet)
    if function is None:
        raise NotImplementedError(
            f"torch.ops.aten.{packet}: there is no function of this name; call the public function that uses it"
        )
    return function(*args, **named)
