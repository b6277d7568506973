"""What the modules of PyTorch's ``backends`` are made of: attributes of a module that are checked when they are set."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from gradcore import config

__all__ = ["Precision", "ProductPrecision", "Switch", "Switches", "TensorFloat", "install"]


class Switch:
    """An attribute of a fixed type that is kept, and changes nothing.

    Parameters
    ----------
    default : object
        Its value until it is set.
    *others : type
        Types that it may have, besides that of `default`.
    """

    def __init__(self, default: Any, *others: type) -> None:
        self.default, self.types = default, (type(default), *others)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, holder: Any, owner: Any = None) -> Any:
        return self if holder is None else holder.__dict__.get(self.name, self.default)

    def __set__(self, holder: Any, value: Any) -> None:
        if type(value) not in self.types:
            raise RuntimeError(f"{self.name} expects a {self.types[0].__name__}, but got {type(value).__name__}")
        self.put(holder, value)

    def put(self, holder: Any, value: Any) -> None:
        """Keep a value of the right type."""
        holder.__dict__[self.name] = value


class Precision(Switch):
    """``fp32_precision``: ``'ieee'``, ``'tf32'``, or ``'none'`` for what holds elsewhere."""

    def __init__(self) -> None:
        super().__init__("none")

    def put(self, holder: Any, value: Any) -> None:
        if value not in ("none", "ieee", "tf32"):
            raise RuntimeError(f"backend 'cuda' does not support precision {value!r}")
        super().put(holder, value)


class ProductPrecision(Precision):
    """The same of products of float32 matrices, another name of `gradcore.set_float32_matmul_precision`."""

    def __get__(self, holder: Any, owner: Any = None) -> Any:
        if holder is None:
            return self
        if config.get_float32_matmul_precision() != "highest":
            return "tf32"
        return "none" if holder.__dict__.get(self.name) is None else "ieee"

    def put(self, holder: Any, value: Any) -> None:
        super().put(holder, value)
        config.set_float32_matmul_precision("high" if value == "tf32" else "highest")


class TensorFloat(Switch):
    """``allow_tf32``, another name of `gradcore.set_float32_matmul_precision`."""

    def __init__(self) -> None:
        super().__init__(False)

    def __get__(self, holder: Any, owner: Any = None) -> Any:
        return self if holder is None else config.get_float32_matmul_precision() != "highest"

    def put(self, holder: Any, value: Any) -> None:
        holder.fp32_precision = "tf32" if value else "ieee"


class Switches(ModuleType):
    """A module with switches, or an object like one."""

    @contextlib.contextmanager
    def set_to(self, **values: Any) -> Iterator[None]:
        """A context in which these switches are set so."""
        before = {name: getattr(self, name) for name in values}
        try:
            for name, value in values.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


def install(name: str, switches: type[Switches]) -> None:
    """Give a module these switches."""
    sys.modules[name].__class__ = switches
