"""What operations refuse, in PyTorch's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore import dtypes
from gradcore.ops.shapes import all_dims

__all__ = ["check_implemented", "check_reducible", "scalar_name"]


def scalar_name(array: Any) -> str:
    """The name of an array's dtype in PyTorch's messages."""
    return dtypes.from_numpy(array.dtype).scalar_name


def check_implemented(kernel: str, array: Any, kinds: str) -> None:
    """Raise for an array whose dtype's kind (``"b"``, ``"i"``, ``"f"``, ``"c"``) is among those without the kernel."""
    if array.dtype.kind in kinds:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name(array)}'")


def check_reducible(
    name: str, shape: Sequence[int], dim: int | Sequence[int] | None, error: type = RuntimeError
) -> None:
    """Refuse a reduction without identity, as a maximum, over no elements.

    Raises
    ------
    RuntimeError
        If all dims are to be reduced and there is no element (another error where `error` says so).
    IndexError
        If a reduced dim has size 0.
    """
    if 0 not in shape:
        return
    if dim is None or dim == ():
        raise error(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
            "the 'dim' argument."
        )
    for i in all_dims(dim, len(shape)):
        if shape[i] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {i} to have non-zero size.")
