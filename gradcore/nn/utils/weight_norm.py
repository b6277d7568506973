"""Weight normalization by a forward pre-hook, the older form of `parametrizations.weight_norm`."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

from gradcore import functional
from gradcore.nn.module import Module
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor

__all__ = ["lengths", "remove_weight_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


def lengths(t: Tensor, dim: int) -> Tensor:
    """Return the norms over all dims except `dim`, or over all dims if it is -1, in a shape that broadcasts."""
    if dim == -1:
        return functional.linalg_vector_norm(t)  # type: ignore[no-any-return]
    reduced_dims = tuple(d for d in range(t.ndim) if d != dim % t.ndim)
    return functional.linalg_vector_norm(t, 2, reduced_dims, True)  # type: ignore[no-any-return]


class WeightNorm:
    """Forward pre-hook that computes one weight."""

    def __init__(self, name: str, dim: int) -> None:
        self.name, self.dim = name, dim

    def compute_weight(self, module: Module) -> Any:
        """Return the weight, computed from the module's lengths and directions."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / lengths(v, self.dim))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Train a weight as its lengths (``weight_g``) and directions (``weight_v``).

    Parameters
    ----------
    module : Module
    name : str
        The name of the weight.
    dim : int or None
        The dim with a length for each index; None for one length.

    Returns
    -------
    Module
        The module.

    Raises
    ------
    RuntimeError
        If the weight has such a hook already.
    """
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    if any(isinstance(h.call, WeightNorm) and h.call.name == name for h in module._forward_pre_hooks.values()):
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, -1 if dim is None else dim)
    weight = getattr(module, name)
    del module._parameters[name]
    module.register_parameter(f"{name}_g", Parameter(lengths(weight, hook.dim).detach()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Turn a normalized weight back into an ordinary parameter.

    Parameters
    ----------
    module : Module
    name : str
        The name of the weight.

    Returns
    -------
    Module
        The module.

    Raises
    ------
    ValueError
        If the weight has no hook of `weight_norm`.

    Examples
    --------
    >>> import gradcore as gc
    >>> import warnings
    >>> warnings.simplefilter("ignore", FutureWarning)
    >>> layer = gc.nn.utils.weight_norm(gc.nn.Linear(2, 3))
    >>> [name for name, _ in gc.nn.utils.remove_weight_norm(layer).named_parameters()]
    ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook.call, WeightNorm) and hook.call.name == name:
            weight = hook.call.compute_weight(module)
            delattr(module, name)
            del module._parameters[f"{name}_g"], module._parameters[f"{name}_v"]
            setattr(module, name, Parameter(weight.detach()))
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
