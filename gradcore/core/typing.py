"""Type aliases for internal signatures: arrays of any library, tensors of any class, devices."""

from __future__ import annotations

from typing import Any, TypeAlias

from gradcore.core.device import device

__all__ = ["AnyTensor", "Array", "Device"]

#: An array of a backend's library (``backend.array_type``), or one that stands for it: of ``meta``, of ``vmap``.
Array: TypeAlias = Any
#: A `Tensor`, or an instance of a subclass, with its slots (``_array``, ``_device`` ...) and all methods.
AnyTensor: TypeAlias = Any
#: The device of a tensor: the object itself, never its string.
Device: TypeAlias = device
