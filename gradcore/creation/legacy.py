"""What the class of tensors makes when it is called, as in PyTorch."""

from __future__ import annotations

from typing import Any

from gradcore import dtypes
from gradcore.autograd.messages import history_lost
from gradcore.autograd.variables import new
from gradcore.creation.data import tensor
from gradcore.creation.filled import empty
from gradcore.tensor import Tensor, is_differentiated

__all__ = ["legacy_tensor"]


def legacy_tensor(cls: Any, *args: Any, device: Any = None, dtype: Any = None, **named: Any) -> Any:
    """What ``Tensor(...)`` makes: of sizes an uninitialised tensor, of data a copy in the default dtype."""
    wanted = dtypes.get_default_dtype() if dtype is None else dtype
    if "size" in named:
        args = named.pop("size")
    if len(args) == 1 and not hasattr(args[0], "__index__"):
        made = tensor(args[0], dtype=wanted, device=device)
    elif len(args) == 1 and isinstance(args[0], Tensor):
        if is_differentiated(args[0]):
            history_lost("copy")
        made = args[0].detach().to(wanted)
    else:
        made = empty(*(args or (0,)), dtype=wanted, device=device)
    if cls is not Tensor:
        out = new(cls)
        out._array, out._device, out._dtype = made._array, made._device, made._dtype
        out._edge = out._meta = out._vc = None
        return out
    return made
