"""Creation of modules without initialization of their parameters."""

from __future__ import annotations

import inspect
from typing import Any

from gradcore.nn.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """Create a module without initializing its parameters.

    Parameters
    ----------
    module_cls : type
        Takes `device`, and makes all its parameters and buffers there.
    *args, **kwargs
        The arguments of the constructor.

    Returns
    -------
    Module

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.utils.skip_init(gc.nn.Linear, 2, 3).weight.shape
    torch.Size([3, 2])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    return module_cls(*args, **{**kwargs, "device": "meta"}).to_empty(device=kwargs.get("device", "cpu"))
