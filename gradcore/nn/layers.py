"""Layers: linear maps, and the activations and losses of `gradcore.nn.functional` as modules."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

from gradcore.creation import empty
from gradcore.nn import functional as F
from gradcore.nn.module import Module
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor

__all__ = ["Flatten", "Identity", "Linear"]


class Identity(Module):
    """A module that returns its input, whatever it is made with."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The input."""
        return input


class Linear(Module):
    """``input @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
        Size of the last dim of inputs and outputs.
    bias : bool
        Whether there is a bias.
    device, dtype
        Of the parameters. Their first values are uniform between plus and minus ``1 / sqrt(in_features)``.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.nn.Linear(2, 3)(gradcore.ones(5, 2)).shape
    torch.Size([5, 3])
    """

    bias: Tensor | None
    weight: Tensor

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        for parameter in self.parameters():
            parameter.data.uniform_(-bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """The map applied to the last dim."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes and whether there is a bias."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Flatten(Module):
    """Join the dims from `start_dim` to `end_dim`."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """The flattened input."""
        return input.flatten(self.start_dim, self.end_dim)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """The dims."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


#: Modules by class name: the function, and the settings that the class takes with their defaults.
ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "ReLU": ("relu", {"inplace": False}), "ReLU6": ("relu6", {"inplace": False}), "Sigmoid": ("sigmoid", {}),
    "Tanh": ("tanh", {}), "GELU": ("gelu", {"approximate": "none"}), "SiLU": ("silu", {"inplace": False}),
    "Mish": ("mish", {"inplace": False}), "ELU": ("elu", {"alpha": 1.0, "inplace": False}),
    "SELU": ("selu", {"inplace": False}), "CELU": ("celu", {"alpha": 1.0, "inplace": False}),
    "LeakyReLU": ("leaky_relu", {"negative_slope": 0.01, "inplace": False}),
    "Softplus": ("softplus", {"beta": 1.0, "threshold": 20.0}), "Softsign": ("softsign", {}),
    "Tanhshrink": ("tanhshrink", {}), "Hardtanh": ("hardtanh", {"min_val": -1.0, "max_val": 1.0, "inplace": False}),
    "Hardsigmoid": ("hardsigmoid", {"inplace": False}), "Hardswish": ("hardswish", {"inplace": False}),
    "Hardshrink": ("hardshrink", {"lambd": 0.5}), "Softshrink": ("softshrink", {"lambd": 0.5}),
    "LogSigmoid": ("logsigmoid", {}), "GLU": ("glu", {"dim": -1}), "Softmax": ("softmax", {"dim": None}),
    "LogSoftmax": ("log_softmax", {"dim": None}), "Softmin": ("softmin", {"dim": None}),
    "Threshold": (
        "threshold", {"threshold": inspect.Parameter.empty, "value": inspect.Parameter.empty, "inplace": False}
    ),
}  # fmt: skip
LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    "MSELoss": ("mse_loss", {}), "L1Loss": ("l1_loss", {}), "SmoothL1Loss": ("smooth_l1_loss", {"beta": 1.0}),
    "HuberLoss": ("huber_loss", {"delta": 1.0}),
    "CrossEntropyLoss": ("cross_entropy", {"weight": None, "ignore_index": -100, "label_smoothing": 0.0}),
    "NLLLoss": ("nll_loss", {"weight": None, "ignore_index": -100}),
    "BCELoss": ("binary_cross_entropy", {"weight": None}),
    "BCEWithLogitsLoss": ("binary_cross_entropy_with_logits", {"weight": None, "pos_weight": None}),
    "KLDivLoss": ("kl_div", {"log_target": False}),
}  # fmt: skip


def _make(name: str, function: str, settings: dict[str, Any], loss: bool) -> type[Module]:
    if loss:
        settings = {**settings, "reduction": "mean"}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(n, kind, default=d) for n, d in settings.items()])

    def __init__(self: Module, *args: Any, **named: Any) -> None:
        Module.__init__(self)
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        for key, value in bound.arguments.items():
            if isinstance(value, Tensor):
                self.register_buffer(key, value)
            else:
                setattr(self, key, value)

    def forward(self: Module, *inputs: Any) -> Any:
        return getattr(F, function)(*inputs, **{key: getattr(self, key) for key in settings})

    def extra_repr(self: Module) -> str:
        shown = {key: getattr(self, key) for key in settings if not (key == "inplace" and not self.inplace)}
        return "" if loss else ", ".join(f"{k}={v!r}" if k != "inplace" else "inplace=True" for k, v in shown.items())

    body = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__module__": "gradcore.nn"}
    return type(
        name,
        (Module,),
        {**body, "__doc__": f"`gradcore.nn.functional.{function}` as a module.", "__signature__": signature},
    )


if TYPE_CHECKING:  # the classes of the tables

    def __getattr__(name: str) -> Any: ...


MADE = {
    name: _make(name, function, settings, table is LOSSES)
    for table in (ACTIVATIONS, LOSSES)
    for name, (function, settings) in table.items()
}
globals().update(MADE)
__all__ += sorted(MADE)
