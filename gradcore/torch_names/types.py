"""Types for annotations, as in ``torch.types``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import IO, TypeAlias

from gradcore.core.device import device as _device
from gradcore.core.size import Size as _Size
from gradcore.tensor import Tensor
from gradcore.tensor.storage import TypedStorage, UntypedStorage
from gradcore.torch_names import paths

__all__ = ["Device", "FileLike", "Number", "Storage"]

Number: TypeAlias = int | float | bool
Device: TypeAlias = _device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
Storage: TypeAlias = TypedStorage | UntypedStorage
MAP_LOCATION: TypeAlias = Device | Callable[[UntypedStorage, str], UntypedStorage] | dict[str, str]

_size: TypeAlias = _Size | list[int] | tuple[int, ...]
_symsize: TypeAlias = _Size | Sequence[int]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors: TypeAlias = Tensor | Sequence[Tensor | None]
_dispatchkey: TypeAlias = str

paths.show_public(__name__)
