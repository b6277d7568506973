"""Writing files: a pickled structure in PyTorch's words, and the memory of the tensors beside it, in a zip archive."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from typing import Any, NamedTuple

from gradcore import dtypes
from gradcore.device import device
from gradcore.nn.parameter import Buffer, Parameter
from gradcore.size import Size
from gradcore.tensor import Tensor

__all__ = ["save"]


class _Name(NamedTuple):
    """A class or function that the file refers to by name."""

    module: str
    name: str

    def __call__(self) -> Any:
        """Nothing: pickling only asks whether it could be called."""


class _Storage(NamedTuple):
    """Memory that the file has beside the structure, and that tensors may share."""

    kind: _Name
    key: str
    location: str
    numel: int


REBUILD = _Name("torch._utils", "_rebuild_tensor_v2")
REBUILD_PARAMETER = _Name("torch._utils", "_rebuild_parameter")
REBUILD_WITH_STATE = _Name("torch._utils", "_rebuild_parameter_with_state")
REBUILD_SUBCLASS = _Name("torch._tensor", "_rebuild_from_type_v2")


# The pickler that is written in Python is the one whose way of writing names can be changed.
_Base: Any = pickle._Pickler


class _Pickler(_Base):  # type: ignore[misc]
    def __init__(self, file: Any, protocol: int) -> None:
        super().__init__(file, protocol)
        self.memories: dict[int, tuple[_Storage, Any]] = {}

    def persistent_id(self, obj: Any) -> Any:
        return ("storage", *obj) if isinstance(obj, _Storage) else None

    def save(self, obj: Any, save_persistent_id: bool = True) -> Any:
        if isinstance(obj, _Name):
            self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
            return None
        if isinstance(obj, dtypes.dtype):
            return self.save(_Name("torch", obj.name))
        return super().save(obj, save_persistent_id)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return self._tensor(obj)
        if isinstance(obj, Size):
            return _Name("torch", "Size"), (tuple(obj),)
        if isinstance(obj, device):
            return _Name("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def _tensor(self, t: Tensor) -> Any:
        storage, offset, stride = self._memory(t)
        grad = bool(t.requires_grad)
        parts: tuple[Any, ...] = (storage, offset, tuple(t.shape), stride, grad, OrderedDict())
        state = dict(t.__dict__)
        if isinstance(t, Parameter):
            data = _Call(REBUILD, (*parts[:4], False, OrderedDict()))
            if state:
                return REBUILD_WITH_STATE, (data, grad, OrderedDict(), state)
            return REBUILD_PARAMETER, (data, grad, OrderedDict())
        if isinstance(t, Buffer):
            return REBUILD_SUBCLASS, (REBUILD, _Name("torch", "Tensor"), parts, {**state, "_is_buffer": True})
        return REBUILD, parts

    def _memory(self, t: Tensor) -> tuple[_Storage, int, tuple[int, ...]]:
        """The memory that a tensor shares with its views, the place of its first element there, and its steps."""
        array = t._array
        if t.is_meta:
            raise RuntimeError("a tensor on the device meta has no data to save")
        root = array
        while getattr(root, "base", None) is not None and hasattr(root.base, "nbytes") and hasattr(root.base, "flags"):
            root = root.base
        backend = t._device.backend
        whole = root.dtype == array.dtype and (root.flags.c_contiguous or root.flags.f_contiguous)
        if not whole or array.size == 0:
            root = array = array.copy(order="C")
        offset = (backend.address(array) - backend.address(root)) // array.itemsize if array.size else 0
        stride = tuple(s // array.itemsize for s in array.strides)
        if id(root) not in self.memories:
            kind = _Name("torch", f"{t.dtype.scalar_name}Storage")
            storage = _Storage(kind, str(len(self.memories)), str(t.device), int(root.size))
            host = backend.to_host(root)
            self.memories[id(root)] = storage, (host, root)
        return self.memories[id(root)][0], int(offset), stride


class _Call:
    """A call that the file is to make when it is loaded."""

    def __init__(self, function: _Name, args: tuple[Any, ...]) -> None:
        self.parts = function, args

    def __reduce__(self) -> Any:
        return self.parts


def save(obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 2) -> None:
    """Write an object to a file, which `load` and PyTorch's ``torch.load`` read.

    Parameters
    ----------
    obj : object
        Tensors, parameters, numbers, strings and containers of them, as `Module.state_dict` returns. Other objects are
        pickled; `load` refuses them unless their classes are allowed.
    f : path or file
        Where to write. Files are opened for writing in binary mode.
    pickle_module : module, optional
        Accepted for compatibility.
    pickle_protocol : int
        Of the structure.

    Examples
    --------
    >>> import io
    >>> import gradcore
    >>> file = io.BytesIO()
    >>> gradcore.save({"weights": gradcore.ones(2), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> gradcore.load(file)
    {'weights': tensor([1., 1.]), 'epoch': 3}
    """
    import io
    import sys
    import zipfile

    if isinstance(f, (str, os.PathLike)):
        folder = os.path.dirname(os.fspath(f))
        if folder and not os.path.isdir(folder):
            raise RuntimeError(f"Parent directory {os.fsdecode(folder)} does not exist.")
    elif not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    structure = io.BytesIO()
    pickler = _Pickler(structure, pickle_protocol)
    pickler.dump(obj)
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", structure.getvalue())
        archive.writestr("archive/byteorder", sys.byteorder)
        for storage, (host, _) in pickler.memories.values():
            order = "C" if host.flags.c_contiguous else "F"
            archive.writestr(f"archive/data/{storage.key}", host.tobytes(order))
        archive.writestr("archive/version", "3\n")
