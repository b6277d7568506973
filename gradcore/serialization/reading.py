"""Reading of files, by default restricted to content that is known to be harmless."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from gradcore.backends.registry import CPU
from gradcore.core import dtypes
from gradcore.core.device import device
from gradcore.serialization.archive import Archive
from gradcore.serialization.interpreter import Interpreter
from gradcore.serialization.names import CALLS, KNOWN, Kind, Memory
from gradcore.serialization.safety import find_allowed, is_allowed
from gradcore.tensor import Tensor
from gradcore.tensor.arrays import tensor_of

__all__ = ["load"]

Locations = Callable[[Tensor, str], Any] | Mapping[str, Any] | str | Any


REFUSAL = (
    "Weights only load failed. The file names `{name}`, which is not among what can be loaded without running code "
    "that the file chooses. If you trust it, allow the class or function with "
    "`gradcore.serialization.add_safe_globals([...])`, or load everything with `weights_only=False`."
)


class _Memories:
    """Memories of a file, each of which is read once."""

    def __init__(self, archive: Archive, locations: Locations, swap: bool, mapped: bool) -> None:
        self.archive, self.locations, self.swap, self.mapped = archive, locations, swap, mapped
        self.found: dict[str, tuple[Any, Any]] = {}

    def __call__(self, reference: Any) -> Any:
        if type(reference) is not tuple or len(reference) != 5:
            raise pickle.UnpicklingError("the file refers to something unknown")
        tag, kind, key, location, numel = reference
        if tag != "storage" or type(kind) is not Kind or type(key) is not str or type(location) is not str:
            raise pickle.UnpicklingError(f"the file refers to something unknown: {tag!r:.100}")
        stated = kind.dtype, location, numel
        if key not in self.found:
            self.found[key] = stated, self._read(key, kind, location, numel).storage
        if self.found[key][0] != stated:
            raise pickle.UnpicklingError(f"the file describes the memory {key} in two ways")
        return self.found[key][1]

    def _read(self, key: str, kind: Kind, location: str, numel: Any) -> Memory:
        dtype, size = kind.dtype, self.archive.nbytes(f"data/{key}")
        if type(numel) is not int or size != numel * dtype.itemsize:
            raise pickle.UnpicklingError(
                f"the memory {key} in the file has {size} bytes, which is not the size of its elements"
            )
        # Bools are checked, and foreign numbers converted, so they are read in any case.
        mapped = self.mapped and not self.swap and dtype is not dtypes.bool_
        raw = self.archive.map(f"data/{key}") if mapped else self.archive.read(f"data/{key}")
        if dtype is dtypes.bool_:
            np.minimum(raw, 1, out=raw)  # bytes other than 0 and 1 would give wrong sums
        array = raw.view(np.bool_ if dtype is dtypes.bool_ else dtype.numpy)
        if self.swap:
            array = array.byteswap()
        return Memory(
            _move_to_location(tensor_of(array, CPU, dtype), location, self.locations),
            self.swap,
            kind.name != "UntypedStorage",
        )


class _Unpickler(pickle.Unpickler):
    """Unpickler of trusted files, which imports every module and calls every function that the file names."""

    def __init__(self, file: Any, memories: _Memories) -> None:
        super().__init__(file)
        self.persistent_load = memories  # type: ignore[method-assign]

    def find_class(self, module: str, name: str) -> Any:
        value = KNOWN.get(f"{module}.{name}") or find_allowed(f"{module}.{name}")
        return super().find_class(module, name) if value is None else value


def _find(name: str) -> Any:
    """Return the global that an untrusted file may refer to by `name`."""
    result = KNOWN.get(name)
    if result is None:
        result = find_allowed(name)
    if result is None:
        raise pickle.UnpicklingError(REFUSAL.format(name=name[:200]))
    return result


def _move_to_location(t: Tensor, location: str, locations: Locations) -> Tensor:
    """Return a tensor from the file on its original device, or on the one that `locations` gives."""
    if isinstance(locations, Mapping):
        return t.to(device(locations.get(location, location)))
    if locations is None or isinstance(locations, (str, int, device)):
        return t.to(device(location if locations is None else locations))
    result = locations(t, location)
    if isinstance(result, Tensor):
        return result
    return t.to(device(location if result is None else result))


def _check_locations(locations: Any) -> None:
    if locations is None or callable(locations) or isinstance(locations, Mapping):
        return
    device(locations)  # raises an error that explains the problem


@contextlib.contextmanager
def _open_file(f: Any) -> Iterator[Any]:
    """Return the file, opened at its start."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            yield file
    elif hasattr(f, "seek") and hasattr(f, "read"):
        yield f
    else:
        raise AttributeError(
            f"{type(f).__name__!r} object has no attribute 'seek'. You can only gradcore.load from a file that is "
            "seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
        )


def load(
    f: Any,
    map_location: Locations = None,
    pickle_module: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
) -> Any:
    """Load an object from a file that `save` or PyTorch's ``torch.save`` has written.

    Parameters
    ----------
    f : path or file
        The file to read. An open file must be readable in binary mode, and seekable.
    map_location : device, str, dict or callable, optional
        The device of the tensors: one device for all, a dict from saved devices to new ones, or a function
        ``map_location(tensor, location)`` that returns a tensor or a device. By default the device in the file.
    pickle_module : module, optional
        Accepted for compatibility.
    weights_only : bool
        True: tensors, containers, numbers, strings and globals of `add_safe_globals`; anything else is an error.
        False: everything, which lets a file run any code. Only for files that you have written yourself.
    mmap : bool, optional
        Whether tensors are views of the file, which is read where they are used; writing to them does not change it.
        Only for paths. Checksums are not compared then.

    Returns
    -------
    object

    Raises
    ------
    pickle.UnpicklingError
        If the file contains objects that are not allowed.
    EOFError
        If the file is empty.
    FileNotFoundError
        If the file does not exist.

    Examples
    --------
    >>> import gradcore as gc
    >>> import io
    >>> file = io.BytesIO()
    >>> gc.save({"weight": gc.ones(2)}, file)
    >>> size = file.seek(0)
    >>> gc.load(file)
    {'weight': tensor([1., 1.])}
    """
    _check_locations(map_location)
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    with _open_file(f) as file:
        archive = Archive(file)
        order = archive.read("byteorder").tobytes() if "byteorder" in archive else b"little"
        if order not in (b"little", b"big"):
            raise pickle.UnpicklingError(f"the file has numbers in the unknown order {order!r:.100}")
        memories = _Memories(archive, map_location, order.decode() != sys.byteorder, bool(mmap))
        structure = archive.read("data.pkl").tobytes()
        if not weights_only:
            return _Unpickler(io.BytesIO(structure), memories).load()
        return Interpreter(
            structure, archive.size, _find, lambda found: CALLS.get(id(found)), is_allowed, memories
        ).run()
