"""Devices: value objects, equal to their strings."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from gradcore.backends.base import Backend

__all__ = ["DeviceLike", "default_to", "device", "get_default_device"]

#: The indices in device strings: as in PyTorch, without zeros before them, and in ASCII.
_INDEX = re.compile("0|[1-9][0-9]*")


class device:  # PyTorch's name for the class
    """Device on which a tensor's data lies and its operations run.

    There is one object per (type, index), so that devices can be compared by identity; a device also equals
    its string.

    Parameters
    ----------
    type : str, int or device
        ``'cpu'``, ``'cuda'``, ``'cuda:1'``, ``'meta'`` or the name of a registered backend; an integer is a CUDA index.
    index : int, optional
        The index, if it is not part of `type`. None means the current device of that type.

    Raises
    ------
    RuntimeError
        If the string does not describe a device.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.device("cuda:1")
    device(type='cuda', index=1)
    >>> gradcore.device("cuda", 1) == "cuda:1"
    True
    """

    __slots__ = ("_name", "backend", "guarded", "index", "kernels", "type")

    _name: str
    type: str
    index: int | None
    #: The backend and its kernels by name, which the registry sets for every device that can hold tensors.
    backend: Backend
    kernels: dict[str, Any]
    #: Whether kernels must run with this device current (several devices of one type).
    guarded: bool
    #: The batches (``vmap``) that tensors on this device are in, the outermost first.
    levels: ClassVar[tuple[Any, ...]] = ()

    _interned: ClassVar[dict[tuple[str, int | None], device]] = {}
    #: The same devices by their strings, which nearly all calls give.
    _by_name: ClassVar[dict[str, device]] = {}

    def __new__(cls, type: DeviceLike, index: int | None = None) -> device:
        if type.__class__ is str and index is None:
            known = cls._by_name.get(type)
            if known is not None:
                return known
        if isinstance(type, device):
            if index is not None:
                raise RuntimeError("an index cannot be given together with a device")
            return type
        if isinstance(type, bool) or not isinstance(type, (str, int)):
            raise TypeError(f"device(): argument 'type' must be a string, an int or a device, not {type!r}")
        if isinstance(type, int):
            name, index = "cuda", type
        else:
            name, colon, number = type.partition(":")
            if not name.isidentifier() or (colon and not _INDEX.fullmatch(number)):
                raise RuntimeError(f"Invalid device string: '{type}'")
            if colon:
                if index is not None:
                    raise RuntimeError(f"type (string) must not include an index because index was passed: {type}")
                index = int(number)
        if index is not None and index < 0:
            raise RuntimeError(f"Device index must not be negative, got {index}")
        interned = cls._interned.get((name, index))
        if interned is None:
            interned = object.__new__(cls)
            interned.type, interned.index, interned.guarded = name, index, False
            interned._name = name if index is None else f"{name}:{index}"
            interned = cls._interned.setdefault((name, index), interned)
            cls._by_name[interned._name] = interned
        return interned

    @property
    def real(self) -> device:
        """The device without batch levels of `vmap`: the underlying device of a batched one, else the device itself."""
        return self

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __str__(self) -> str:
        return self._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        return self is other or self._name == other

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self._name,)

    def __copy__(self) -> device:
        return self

    def __deepcopy__(self, memo: Any) -> device:
        return self

    def __enter__(self) -> device:
        _defaults.stack = (*_defaults.stack, self)
        return self

    def __exit__(self, *exc: object) -> None:
        _defaults.stack = _defaults.stack[:-1]


DeviceLike = str | int | device


class _Defaults(threading.local):
    """The thread's stack of ``with device(...)`` contexts, innermost last, which hide the permanent default device."""

    stack: tuple[device, ...] = ()


_defaults = _Defaults()
_default_device = device("cpu")


def get_default_device() -> device:
    """Return the device on which tensors are created when none is named.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.get_default_device()
    device(type='cpu')
    """
    return _defaults.stack[-1] if _defaults.stack else _default_device


def default_to(default: device) -> None:
    """Set the device on which tensors are created when none is named."""
    global _default_device
    _default_device = default
