"""Writing of files: a zip archive with a pickled structure in PyTorch's format, and the memory of the tensors."""

from __future__ import annotations

import contextlib
import io
import pickle
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np

from gradcore.core import dtypes
from gradcore.core.device import device
from gradcore.core.size import Size
from gradcore.functions import return_types
from gradcore.nn.lazy_parameter import Uninitialized
from gradcore.nn.parameter import Buffer, Parameter
from gradcore.serialization.files import open_for_writing
from gradcore.serialization.packing import Layout
from gradcore.tensor import Tensor, layouts
from gradcore.tensor.arrays import arrays_of
from gradcore.tensor.storage import TypedStorage, UntypedStorage

__all__ = ["save"]


class _Name(NamedTuple):
    """A class or function that the file refers to by name."""

    module: str
    name: str

    def __call__(self) -> Any:
        """Do nothing. It exists because pickling requires a callable."""


class _Storage(NamedTuple):
    """Memory stored next to the structure, which several tensors may share."""

    kind: _Name
    key: str
    location: str
    numel: int
    nbytes: int


REBUILD = _Name("torch._utils", "_rebuild_tensor_v2")
UNTYPED = _Name("torch.storage", "UntypedStorage")
REBUILD_TYPED = _Name("torch._utils", "_rebuild_tensor_v3")
REBUILD_META = _Name("torch._utils", "_rebuild_meta_tensor_no_storage")
REBUILD_PARAMETER = _Name("torch._utils", "_rebuild_parameter")
REBUILD_WITH_STATE = _Name("torch._utils", "_rebuild_parameter_with_state")
REBUILD_SPARSE = _Name("torch._utils", "_rebuild_sparse_tensor")
REBUILD_SUBCLASS = _Name("torch._tensor", "_rebuild_from_type_v2")


#: The dtypes that came to PyTorch after the classes of storages: their memories are bytes.
WITHOUT_STORAGES = (dtypes.uint16, dtypes.uint32, dtypes.uint64)


# Only the pickler that is written in Python can be changed to write other names.
_Base: Any = pickle._Pickler


class _Pickler(_Base):  # type: ignore[misc]
    #: The functions that write objects, by the type of the object.
    dispatch: ClassVar[dict[Any, Any]] = dict(_Base.dispatch)

    def __init__(self, file: Any, protocol: int) -> None:
        super().__init__(file, protocol)
        self.memories: dict[int, tuple[_Storage, Any, Layout]] = {}

    def _write_name(self, name: _Name) -> None:
        self.write(pickle.GLOBAL + f"{name.module}\n{name.name}\n".encode())

    dispatch[_Name] = _write_name
    dispatch[layouts.memory_format] = lambda self, obj: self._write_name(_Name("torch", repr(obj)[6:]))
    for _kind in {type(dtype) for dtype in dtypes.DTYPES.values()}:
        dispatch[_kind] = lambda self, obj: self._write_name(_Name("torch", obj.name))

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, (TypedStorage, UntypedStorage)):
            flat = obj._flat
            stored, offset, _ = self._memory(flat)
            if offset or stored.nbytes != flat.nbytes:
                raise RuntimeError("a part of a storage cannot be saved; clone it")
            obj = stored if isinstance(obj, TypedStorage) else stored._replace(kind=UNTYPED, numel=stored.nbytes)
        return ("storage", *obj[:4]) if isinstance(obj, _Storage) else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Uninitialized):
            return _Name("torch.nn.parameter", type(obj).__name__), (obj.requires_grad,)
        if isinstance(obj, Tensor):
            # For a tensor that is distributed over processes, the part of this process is saved.
            return self._tensor(obj.to_local() if hasattr(obj, "to_local") else obj)
        if isinstance(obj, Size):
            return _Name("torch", "Size"), (tuple(obj),)
        if isinstance(obj, device):
            return _Name("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        if type(obj) is layouts.layout:
            return _Name("torch.serialization", "_get_layout"), (repr(obj),)
        if type(obj) is getattr(return_types, type(obj).__name__, None):
            return _Name("torch.return_types", type(obj).__name__), (tuple(obj), {})
        return NotImplemented

    def _tensor(self, t: Any) -> Any:
        if t.layout is not layouts.strided:
            parts = (*t.index, t.stored.detach().requires_grad_(t.requires_grad), Size(t.sizes))
            return REBUILD_SPARSE, (t.layout, (*parts, t.in_order) if t.layout is layouts.sparse_coo else parts)
        function, parts = self._parts(t, bool(t.requires_grad))
        state = dict(t.__dict__)
        if isinstance(t, Buffer):
            return REBUILD_SUBCLASS, (function, _Name("torch", "Tensor"), parts, {**state, "_is_buffer": True})
        if type(t) is Parameter:
            data = _Call(*self._parts(t, False))
            if state:
                return REBUILD_WITH_STATE, (data, bool(t.requires_grad), OrderedDict(), state)
            return REBUILD_PARAMETER, (data, bool(t.requires_grad), OrderedDict())
        if state or type(t) is not Tensor:
            cls = _Name("torch", "Tensor") if type(t) is Tensor else type(t)
            return REBUILD_SUBCLASS, (function, cls, parts, state)
        return function, parts

    def _parts(self, t: Tensor, grad: bool) -> tuple[_Name, tuple[Any, ...]]:
        """Return the function that recreates the tensor from the file, and its arguments."""
        if t.is_meta:
            return REBUILD_META, (t.dtype, tuple(t.shape), t.stride(), grad)
        storage, offset, stride = self._memory(t)
        parts: tuple[Any, ...] = storage, offset, tuple(t.shape), stride, grad, OrderedDict()
        return (REBUILD_TYPED, (*parts, t.dtype)) if t.dtype in WITHOUT_STORAGES else (REBUILD, parts)

    def _memory(self, t: Tensor) -> tuple[_Storage, int, tuple[int, ...]]:
        """Return the memory that a tensor shares with its views, the offset of its first element, and its strides.

        Only elements that belong to tensors are written; gaps between the elements of a NumPy array are removed.
        """
        (array,), backend = arrays_of((t,)), t.device.backend
        owner = backend.owner_of(array)
        layout = Layout.of(owner) if owner.dtype == array.dtype else None
        position = None if layout is None else layout.place_of(array, backend.address(array) - backend.address(owner))
        if layout is None or position is None:
            array = array.copy(order="C")
            owner, position = array.reshape(-1), (0, tuple(s // array.itemsize for s in array.strides))
            layout = Layout((1,), (array.size,), (0,), 0)
        if id(owner) not in self.memories:
            typed = t.dtype not in WITHOUT_STORAGES
            kind, size = _Name("torch", f"{t.dtype.scalar_name}Storage") if typed else UNTYPED, owner.itemsize
            numel = layout.numel * (1 if typed else size)
            storage = _Storage(kind, str(len(self.memories)), str(t.device), numel, layout.numel * size)
            # The entry keeps the owner alive, so that no other object gets its id.
            self.memories[id(owner)] = storage, (backend, owner), layout
        return self.memories[id(owner)][0], *position


class _Call:
    """A call that is made when the file is loaded."""

    def __init__(self, function: _Name, args: tuple[Any, ...]) -> None:
        self.parts = function, args

    def __reduce__(self) -> Any:
        return self.parts


@contextlib.contextmanager
def _open_archive(file: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive that is completed only if the block ends without an exception.

    `ZipFile` as a context manager completes it after an exception, too. That fails while an entry is open, and its
    error would replace the KeyboardInterrupt of the user.
    """
    archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
    try:
        yield archive
    except BaseException:
        archive.fp = None  # closed, for `ZipFile.close` and its finalizer
        raise
    archive.close()


def save(obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 2) -> None:
    """Save an object to a file, which `load` and PyTorch's ``torch.load`` can read.

    An existing file is replaced only when the new one is complete and on the disk. Until then it stays unchanged,
    whatever happens. The file holds no time, so equal objects make equal files.

    Parameters
    ----------
    obj : object
        Tensors, parameters, numbers, strings and containers of them, as `Module.state_dict` returns. Other objects are
        pickled; `load` refuses them unless their classes are allowed.
    f : path or file
        A path, or a file that is open for writing in binary mode.
    pickle_module : module, optional
        Accepted for compatibility.
    pickle_protocol : int
        The pickle protocol of the structure.

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
    structure = io.BytesIO()
    pickler = _Pickler(structure, pickle_protocol)
    try:
        pickler.dump(obj)  # before the file is opened, so that an object that cannot be saved does not change the file
    except RecursionError:
        raise RecursionError(
            "what is to be saved is nested too deeply (more than about 300 levels), or is an attribute of itself"
        ) from None
    with open_for_writing(f) as file, _open_archive(file) as archive:
        archive.writestr(zipfile.ZipInfo("archive/data.pkl"), structure.getvalue())
        archive.writestr(zipfile.ZipInfo("archive/byteorder"), sys.byteorder)
        for storage, (backend, owner), layout in pickler.memories.values():
            host = backend.to_host(layout.remove_gaps(owner))
            with archive.open(f"archive/data/{storage.key}", "w", force_zip64=host.nbytes >= 2**31) as entry:
                entry.write(np.ascontiguousarray(host).reshape(-1).view(np.uint8).data)
        archive.writestr(zipfile.ZipInfo("archive/version"), "3\n")
