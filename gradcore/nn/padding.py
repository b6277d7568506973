"""Padding layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradcore.nn import functional as F
from gradcore.nn.docstrings import Docstring
from gradcore.nn.module import Module
from gradcore.nn.module_factory import ntuple
from gradcore.tensor import Tensor

__all__: list[str] = []


class _Pad(Module):
    """Base class of padding layers.

    Parameters
    ----------
    padding : int or tuple of int
        Elements before and after the last dim, then before and after the one before it, and so on.
    """

    n: int
    mode: str

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        self.padding = ntuple(padding, 2 * self.n)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        """Return the widths."""
        return str(self.padding)


class _CircularPad(_Pad):
    """Padding with the elements of the other side.

    Parameters
    ----------
    padding : int or tuple of int
        Elements before and after the last dim, then before and after the one before it, and so on.
    """

    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        if input.dim() not in (self.n + 1, self.n + 2):
            raise ValueError(f"expected {self.n + 1}D or {self.n + 2}D input (got {input.dim()}D input)")
        return super().forward(input)


class _ConstantPad(_Pad):
    """Padding with a constant value.

    Parameters
    ----------
    padding : int or tuple of int
        Elements before and after the last dim, then before and after the one before it, and so on.
    value : float
        The value of these elements.
    """

    mode = "constant"

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Return the widths and the value."""
        return f"padding={self.padding}, value={self.value}"


KINDS = {
    "CircularPad": (_CircularPad, "circular", "from the other side"),
    "ConstantPad": (_ConstantPad, "constant", "with one value"),
    "ReflectionPad": (_Pad, "reflect", "with the mirror image"),
    "ReplicationPad": (_Pad, "replicate", "with the outermost elements"),
    "ZeroPad": (_Pad, "constant", "with zeros"),
}
MADE = {
    f"{name}{n}d": type(
        f"{name}{n}d",
        (base,),
        {"n": n, "mode": mode, "__module__": "gradcore.nn", "__doc__": Docstring(f"Pad the last {n} dims {what}.")},
    )
    for name, (base, mode, what) in KINDS.items()
    for n in (1, 2, 3)
}
globals().update(MADE)
__all__ += sorted(MADE)

if TYPE_CHECKING:  # the classes of the table

    def __getattr__(name: str) -> Any: ...
