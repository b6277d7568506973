"""Activations as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradcore.core.errors import warn
from gradcore.nn import functional as F
from gradcore.nn.module import Module, count_dims
from gradcore.nn.module_factory import ModuleEntry, make, settings
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor
from gradcore.tensor.creation import full

__all__ = ["PReLU", "Softmax2d"]

S, IN_PLACE = settings, settings(inplace=False)


def _hardtanh(chosen: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of `Hardtanh` with the bounds under their present names."""
    for old, new in (("min_value", "min_val"), ("max_value", "max_val")):
        value = chosen.pop(old)
        if value is not None:
            warn(f"keyword argument `{old}` is deprecated and renamed to `{new}`", FutureWarning)
            chosen[new] = value
    if chosen["max_val"] <= chosen["min_val"]:
        raise AssertionError(f"max_val ({chosen['max_val']}) must be greater than min_val ({chosen['min_val']})")
    return chosen


def _lambd(module: Any) -> str:
    return str(module.lambd)


TABLE = {
    "CELU": ModuleEntry("celu", S(alpha=1.0, inplace=False)),
    "ELU": ModuleEntry("elu", S(alpha=1.0, inplace=False)),
    "GELU": ModuleEntry("gelu", S(approximate="none")),
    "GLU": ModuleEntry("glu", S(dim=-1)),
    "Hardshrink": ModuleEntry("hardshrink", S(lambd=0.5), _lambd),
    "Hardsigmoid": ModuleEntry("hardsigmoid", IN_PLACE, ()),
    "Hardswish": ModuleEntry("hardswish", IN_PLACE, ()),
    "Hardtanh": ModuleEntry(
        "hardtanh", S(min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None),
        ("min_val", "max_val", "inplace"), _hardtanh,
    ),
    "LeakyReLU": ModuleEntry("leaky_relu", S(negative_slope=0.01, inplace=False)),
    "LogSigmoid": ModuleEntry("logsigmoid", S()),
    "LogSoftmax": ModuleEntry("log_softmax", S(dim=None)),
    "Mish": ModuleEntry("mish", IN_PLACE),
    "RReLU": ModuleEntry("rrelu", S(lower=1 / 8, upper=1 / 3, inplace=False), training=True),
    "ReLU": ModuleEntry("relu", IN_PLACE),
    "ReLU6": ModuleEntry("relu6", IN_PLACE),
    "SELU": ModuleEntry("selu", IN_PLACE),
    "SiLU": ModuleEntry("silu", IN_PLACE),
    "Sigmoid": ModuleEntry("sigmoid", S()),
    "Softmax": ModuleEntry("softmax", S(dim=None)),
    "Softmin": ModuleEntry("softmin", S(dim=None)),
    "Softplus": ModuleEntry("softplus", S(beta=1.0, threshold=20.0)),
    "Softshrink": ModuleEntry("softshrink", S(lambd=0.5), _lambd),
    "Softsign": ModuleEntry("softsign", S()),
    "Tanh": ModuleEntry("tanh", S()),
    "Tanhshrink": ModuleEntry("tanhshrink", S()),
    "Threshold": ModuleEntry("threshold", S("threshold", "value", inplace=False)),
}  # fmt: skip


class PReLU(Module):
    """`gradcore.nn.functional.prelu` with learned slopes.

    Parameters
    ----------
    num_parameters : int
        The number of slopes: 1, or the number of channels.
    init : float
        The initial value of the slopes.
    device, dtype
        The device and dtype of the slopes.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.PReLU()(gc.tensor([-1.0, 2.0]))
    tensor([-0.2500,  2.0000], grad_fn=<PreluKernelBackward0>)
    """

    weight: Tensor

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(full((num_parameters,), init, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set the slopes to their initial value."""
        self.weight.data.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with its negative elements multiplied by the slopes."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return the number of slopes."""
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    """Softmax over the channels of images.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.Softmax2d()(gc.ones(1, 2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the softmax over the channels, the third dim from the end."""
        if count_dims(self, "input", input) not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)


MADE = {name: make(name, made, "gradcore.nn") for name, made in TABLE.items()}
globals().update(MADE)
__all__ += sorted(MADE)

if TYPE_CHECKING:  # the classes of the table

    def __getattr__(name: str) -> Any: ...
