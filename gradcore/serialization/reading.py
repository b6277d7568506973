"""Reading files, and nothing but what is known to be harmless in them."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradcore import dtypes
from gradcore.autograd.formulas import TENSORS
from gradcore.autograd.variables import wrap
from gradcore.backends.registry import resolve
from gradcore.device import device
from gradcore.nn.parameter import Buffer, Parameter
from gradcore.serialization.safety import allowed
from gradcore.size import Size
from gradcore.tensor import Tensor

__all__ = ["load"]

Locations = Callable[[Tensor, str], Any] | Mapping[str, Any] | str | Any


class _Memory:
    """Memory from the file, as one flat tensor on the device where it is wanted."""

    def __init__(self, data: Tensor) -> None:
        self.data = data

    def part(self, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], dtype: Any = None) -> Tensor:
        flat = self.data if dtype is None else wrap(self.data._array.view(dtype.numpy), self.data._device, dtype)
        room = sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) + 1 if all(shape) else 0
        if offset < 0 or min(stride, default=0) < 0 or offset + room > flat.numel():
            raise pickle.UnpicklingError("a tensor in the file reaches beyond its memory")
        view = TENSORS.as_strided(flat, tuple(shape), tuple(stride), offset)
        return wrap(view._array, flat._device, flat._dtype)  # type: ignore[no-any-return]


class _Kind:
    """The type of a memory's elements."""

    def __init__(self, dtype: dtypes.dtype) -> None:
        self.dtype = dtype


def _rebuild(memory: _Memory, offset: int, shape: Any, stride: Any, grad: bool, hooks: Any, more: Any = None) -> Tensor:
    return memory.part(offset, shape, stride).requires_grad_(grad)


def _rebuild_typed(
    memory: _Memory, offset: int, shape: Any, stride: Any, grad: bool, hooks: Any, dtype: Any, more: Any = None
) -> Tensor:
    return memory.part(offset, shape, stride, dtype).requires_grad_(grad)


def _rebuild_parameter(data: Tensor, grad: bool, hooks: Any, state: Any = None) -> Parameter:
    out = Parameter(data, grad)
    out.__dict__.update(state or {})
    return out


def _rebuild_subclass(function: Callable[..., Tensor], cls: type, args: Any, state: dict[str, Any]) -> Tensor:
    out = function(*args)
    if state.pop("_is_buffer", False):
        out = Buffer(out, persistent=state.get("persistent", True))
    out.__dict__.update(state)
    return out


def _as_device(kind: str, index: int | None = None) -> Any:
    return device(kind if index is None else f"{kind}:{index}")


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes in the file have the unknown encoding {encoding!r}")
    return text.encode("latin1")


#: What a file may name.
KNOWN: dict[str, Any] = {
    "torch._utils._rebuild_tensor_v2": _rebuild,
    "torch._utils._rebuild_tensor_v3": _rebuild_typed,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
    "torch._tensor._rebuild_from_type_v2": _rebuild_subclass,
    "torch.Tensor": Tensor,
    "torch.Size": Size,
    "torch.device": _as_device,
    "torch.storage.UntypedStorage": _Kind(dtypes.uint8),
    "torch.nn.parameter.Parameter": Parameter,
    "collections.OrderedDict": OrderedDict,
    "_codecs.encode": _encode,
    **{
        f"{m}.{c.__name__}": c for m in ("builtins", "__builtin__") for c in (set, complex, bytearray, frozenset, slice)
    },
    **{f"torch.{name}": dtype for name, dtype in dtypes.DTYPES.items()},
    **{f"torch.{dtype.scalar_name}Storage": _Kind(dtype) for dtype in dtypes.DTYPES.values()},
}

REFUSAL = (
    "Weights only load failed. The file names `{name}`, which is not among what can be loaded without running code "
    "that the file chooses. If you trust it, allow the class or function with "
    "`gradcore.serialization.add_safe_globals([...])`, or load everything with `weights_only=False`."
)


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, file: Any, archive: Any, prefix: str, locations: Locations, restricted: bool, swap: bool
    ) -> None:
        super().__init__(file)
        self.archive, self.prefix, self.locations = archive, prefix, locations
        self.restricted, self.swap = restricted, swap
        self.memories: dict[str, _Memory] = {}

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        found = KNOWN.get(full)
        if found is None:
            found = allowed(full)
        if found is None and not self.restricted:
            return super().find_class(module, name)
        if found is None:
            raise pickle.UnpicklingError(REFUSAL.format(name=full))
        return found

    def persistent_load(self, pid: Any) -> Any:
        kind, storage, key, location, numel = pid
        if kind != "storage" or not isinstance(storage, _Kind):
            raise pickle.UnpicklingError(f"the file refers to something unknown: {kind!r}")
        if key not in self.memories:
            self.memories[key] = self._read(str(key), storage.dtype, str(location), int(numel))
        return self.memories[key]

    def _read(self, key: str, dtype: dtypes.dtype, location: str, numel: int) -> _Memory:
        raw = np.frombuffer(self.archive.read(f"{self.prefix}data/{key}"), np.uint8).copy()
        if raw.size != numel * dtype.itemsize:
            raise pickle.UnpicklingError(f"the memory {key} in the file has {raw.size} bytes instead of what it should")
        array = raw.view(np.bool_ if dtype is dtypes.bool_ else dtype.numpy)
        if self.swap:
            array = array.byteswap()
        return _Memory(_placed(wrap(array, resolve("cpu"), dtype), location, self.locations))


def _placed(t: Tensor, location: str, locations: Locations) -> Tensor:
    """A tensor from the file on the device where it was, or where `locations` sends it."""
    if callable(locations) and not isinstance(locations, (str, device)):
        found = locations(t, location)
        if isinstance(found, Tensor):
            return found
        return t.to(location if found is None else found)
    if isinstance(locations, Mapping):
        return t.to(locations.get(location, location))
    return t.to(location if locations is None else locations)


def _check_readable(f: Any) -> None:
    """Refuse what is neither a path nor a file, and files that are not there or empty."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            some = file.read(1)
    elif not hasattr(f, "seek"):
        raise AttributeError(
            f"{type(f).__name__!r} object has no attribute 'seek'. You can only gradcore.load from a file that is "
            "seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
        )
    else:
        f.seek(0)
        some = f.read(1)
    if not some:
        raise EOFError("Ran out of input: the file is empty")


def load(
    f: Any,
    map_location: Locations = None,
    pickle_module: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
) -> Any:
    """Read what `save`, or PyTorch's ``torch.save``, has written.

    Parameters
    ----------
    f : path or file
        What to read. Files must be open for reading in binary mode, and be seekable.
    map_location : device, str, dict or callable, optional
        Where tensors go: to one device, from devices to devices, or to what ``map_location(tensor, location)`` returns
        (a tensor or a device). By default to where they were saved.
    pickle_module : module, optional
        Accepted for compatibility.
    weights_only : bool
        True: tensors, containers, numbers, strings, and what `add_safe_globals` has allowed; anything else is an error.
        False: everything, which lets a file run any code. Only for files that you have written yourself.
    mmap : bool, optional
        Accepted for compatibility.

    Returns
    -------
    object

    Raises
    ------
    pickle.UnpicklingError
        If the file has something else in it.
    EOFError
        If it is empty.
    FileNotFoundError
        If it is not there.
    """
    import sys
    import zipfile

    _check_readable(f)
    if not zipfile.is_zipfile(f):
        raise RuntimeError(
            "the file is not a zip archive as torch.save writes it (since PyTorch 1.6). Load and save it again with "
            "PyTorch."
        )
    if hasattr(f, "seek"):
        f.seek(0)
    with zipfile.ZipFile(f) as archive:
        names = archive.namelist()
        main = next((name for name in names if name.rpartition("/")[2] == "data.pkl"), None)
        if main is None:
            raise RuntimeError("the file has no data.pkl: it was not written by save (or is a scripted program)")
        prefix = main.removesuffix("data.pkl")
        order = archive.read(prefix + "byteorder").decode() if prefix + "byteorder" in names else "little"
        with archive.open(main) as structure:
            swap = order != sys.byteorder
            return _Unpickler(structure, archive, prefix, map_location, weights_only, swap).load()
