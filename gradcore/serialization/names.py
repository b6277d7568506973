"""Globals that files may name without permission. Their calls are checked: exact types, and sizes before use."""

from __future__ import annotations

import math
import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from gradcore import functional
from gradcore.core import dtypes
from gradcore.core.device import device
from gradcore.core.size import Size, contiguous_strides
from gradcore.functions import return_types
from gradcore.nn.lazy_parameter import UninitializedBuffer, UninitializedParameter
from gradcore.nn.parameter import Buffer, Parameter
from gradcore.serialization.interpreter import check_names
from gradcore.tensor import Tensor, layouts
from gradcore.tensor.arrays import arrays_of, as_class, tensor_of
from gradcore.tensor.creation import empty_strided
from gradcore.tensor.storage import TypedStorage, UntypedStorage, typed_storage

__all__ = ["CALLS", "KNOWN", "Kind", "Memory"]

#: The most dims that arrays have.
MOST_DIMS = 64


def make_error(text: str) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(text)


def require_type(value: Any, *kinds: type) -> Any:
    """Return the value, or raise an error if its class is not one of `kinds`. Subclasses are refused.

    Raises
    ------
    pickle.UnpicklingError
        If the value has another class.
    """
    if type(value) not in kinds:
        raise make_error(f"the file has {type(value).__name__} instead of {kinds[0].__name__}")
    return value


class Kind:
    """Class of a storage, which determines the dtype of its elements."""

    def __init__(self, dtype: dtypes.dtype, name: str) -> None:
        self.dtype, self.name = dtype, name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


class Memory:
    """Memory from the file, as one flat tensor on the requested device."""

    def __init__(self, data: Tensor, swap: bool, typed: bool) -> None:
        self.data, self._swap = data, swap
        #: The storage that calls in the file get as an argument for this memory.
        self.storage = typed_storage(data) if typed else data.untyped_storage()
        self.storage.__dict__["_memory"] = self
        self._read: dict[tuple[dtypes.dtype, bool, bool], Tensor] = {(data.dtype, False, False): data}

    def read_as(self, dtype: dtypes.dtype, conj: bool = False, neg: bool = False) -> Tensor:
        """Return a copy of all elements in a dtype, conjugated or negated as PyTorch marks it in views."""
        result = self._read.get((dtype, conj, neg))
        if result is None:
            if conj or neg:
                plain = self.read_as(dtype)
                result = functional.conj_physical(plain) if conj else plain
                result = functional.neg(result) if neg else result
            else:
                result = self._view_as(dtype)
            self._read[dtype, conj, neg] = result
        return result

    def _view_as(self, dtype: dtypes.dtype) -> Tensor:
        """Return the memory with its bytes viewed as a dtype, for files that give no dtype."""
        if self.data.dtype is not dtypes.uint8 or dtype is dtypes.bool_:
            raise make_error(f"a memory of {self.data.dtype} in the file is read as {dtype}")
        (array,) = arrays_of((self.data,))
        array = array[: self.data.numel() // dtype.itemsize * dtype.itemsize].view(dtype.numpy)
        return tensor_of(array.byteswap() if self._swap else array, self.data.device, dtype)  # type: ignore[no-any-return]

    def part(self, dtype: dtypes.dtype, offset: Any, shape: Any, stride: Any, metadata: Any) -> Tensor:
        """Return a tensor in this memory, with the given dtype, offset, shape and strides."""
        shape, stride = checked_geometry(shape, stride)
        if require_type(offset, int) < 0:
            raise make_error("a tensor in the file begins before its memory")
        flags = {} if metadata is None else require_type(metadata, dict)
        if any(name not in ("conj", "neg") for name in flags):
            raise make_error(f"a tensor in the file has metadata that are unknown: {list(flags)!r:.200}")
        conj, neg = require_type(flags.get("conj", False), bool), require_type(flags.get("neg", False), bool)
        flat = self.read_as(dtype, conj, neg)
        room = sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) + 1 if all(shape) else 0
        if offset + room > flat.numel():
            raise make_error("a tensor in the file reaches beyond its memory")
        (array,) = arrays_of((flat,))
        if not offset and room == flat.numel() and stride == contiguous_strides(shape):
            view = array.reshape(shape)
        else:
            view = flat.device.backend.view_memory(array, shape, stride, offset)
        return tensor_of(view, flat.device, dtype)  # type: ignore[no-any-return]


def checked_geometry(shape: Any, stride: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes and strides of a tensor as Python ints, which do not overflow."""
    for numbers in (shape, stride):
        for n in require_type(numbers, tuple, Size):
            if require_type(n, int) < 0:
                raise make_error("a tensor in the file reaches beyond its memory: it has a negative size or stride")
    if len(shape) != len(stride) or len(shape) > MOST_DIMS:
        raise make_error(f"a tensor in the file has {len(shape)} sizes and {len(stride)} strides")
    if math.prod(n for n in shape if n) >= 2**59:
        raise make_error("a tensor in the file has more elements than any tensor can have")
    return tuple(shape), tuple(stride)


# -- calls -------------------------------------------------------------------------------------------------------------


def _memory_in(storage: Any) -> Memory:
    result = require_type(storage, TypedStorage, UntypedStorage).__dict__.get("_memory")
    return require_type(result, Memory)  # type: ignore[no-any-return]


def _rebuild(storage: Any, offset: Any, shape: Any, stride: Any, grad: Any, hooks: Any, metadata: Any = None) -> Tensor:
    memory = _memory_in(storage)
    out = memory.part(memory.data.dtype, offset, shape, stride, metadata)
    return out.requires_grad_(require_type(grad, bool))


def _rebuild_typed(
    storage: Any, offset: Any, shape: Any, stride: Any, grad: Any, hooks: Any, dtype: Any, metadata: Any = None
) -> Tensor:
    out = _memory_in(storage).part(require_type(dtype, dtypes.dtype), offset, shape, stride, metadata)
    return out.requires_grad_(require_type(grad, bool))


def _rebuild_meta(dtype: Any, shape: Any, stride: Any, grad: Any) -> Tensor:
    shape, stride = checked_geometry(shape, stride)
    out = empty_strided(shape, stride, dtype=require_type(dtype, dtypes.dtype), device="meta")
    return out.requires_grad_(require_type(grad, bool))


def _rebuild_parameter(data: Any, grad: Any, hooks: Any, state: Any = None) -> Parameter:
    return _with_attributes(Parameter(_a_tensor(data), require_type(grad, bool)), state)  # type: ignore[no-any-return]


def _rebuild_from_type(function: Any, cls: Any, args: Any, state: Any) -> Tensor:
    if not any(function is allowed for allowed in (_rebuild, _rebuild_typed, _rebuild_parameter, _rebuild_meta)):
        raise make_error(f"the file makes a tensor by {function!r}")
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise make_error(f"the file makes a tensor of {cls!r}, which is not a class of tensors")
    out = function(*require_type(args, tuple))
    state = _attributes(state)
    if type(state) in (dict, OrderedDict) and state.get("_is_buffer") is True:
        persistent = require_type(state.get("persistent", True), bool)
        attributes = {name: value for name, value in state.items() if name not in ("_is_buffer", "persistent")}
        return _with_attributes(Buffer(out, persistent=persistent), attributes)  # type: ignore[no-any-return]
    if cls not in (Tensor, Parameter, Buffer):
        out = as_class(out, cls)
        if cls.__setstate__ is not Tensor.__setstate__:
            out.__setstate__(state)
            return out  # type: ignore[no-any-return]
    return _with_attributes(out, state)  # type: ignore[no-any-return]


def _rebuild_sparse(layout: Any, parts: Any) -> Any:
    """Return a sparse tensor with checked indices, and with values that may require grad."""
    from gradcore.sparse import making

    if layout not in LAYOUTS.values() or layout is layouts.strided:
        raise make_error(f"the file has a sparse tensor of the layout {layout!r:.100}")
    parts = require_type(parts, tuple)
    dims = 1 if layout is layouts.sparse_coo else 2
    if not dims + 2 <= len(parts) <= dims + 2 + (dims == 1):
        raise make_error("the file has a sparse tensor with a wrong number of parts")
    *index, values = (_a_tensor(part) for part in parts[: dims + 1])
    size = tuple(require_type(n, int) for n in require_type(parts[dims + 1], Size, tuple, list))
    try:
        if dims == 1:
            in_order = require_type((*parts, False)[3], bool, type(None))
            result = making.sparse_coo_tensor(
                index[0], values.detach(), size, check_invariants=True, is_coalesced=in_order
            )
        else:
            result = making.sparse_compressed_tensor(
                index[0], index[1], values.detach(), size, layout=layout, check_invariants=True
            )
    except MemoryError:
        raise
    except RuntimeError as error:
        raise make_error(f"the file has an invalid sparse tensor: {error}") from None
    return result.requires_grad_() if values.requires_grad else result


def _a_tensor(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise make_error(f"the file has {type(value).__name__} instead of Tensor")
    return value


def _attributes(state: Any) -> Any:
    """Return the attributes in the state of a tensor.

    The state may be a pair whose second item, the slots, is empty.
    """
    return state[0] if type(state) is tuple and len(state) == 2 and not state[1] else state


def _with_attributes(t: Any, state: Any) -> Any:
    """Set the attributes in `state` on the tensor and return it. They must not hide attributes of tensors."""
    for name, value in check_names(_attributes(state) or {}, type(t).__name__).items():
        if hasattr(type(t), name):
            raise make_error(f"the file gives {type(t).__name__} the attribute {name!r}, which tensors have themselves")
        t.__dict__[name] = value
    return t


def _lazy(cls: Any) -> Callable[..., Any]:
    def make(requires_grad: Any) -> Any:
        return cls(require_type(requires_grad, bool))

    return make


def _as_device(kind: Any, index: Any = None) -> device:
    if index is None:
        return device(require_type(kind, str))
    if not 0 <= require_type(index, int) < 128:
        raise make_error(f"the file has a device of the index {index}")
    return device(f"{require_type(kind, str)}:{index}")


def _as_layout(name: Any) -> Any:
    result = LAYOUTS.get(require_type(name, str))
    if result is None:
        raise make_error(f"the file has the unknown layout {name!r:.100}")
    return result


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise make_error(f"bytes in the file have the unknown encoding {encoding!r:.100}")
    return require_type(text, str).encode("latin1")  # type: ignore[no-any-return]


def _as_bytearray(content: Any = b"", encoding: Any = None) -> bytearray:
    return bytearray(require_type(content, bytes) if encoding is None else _encode(content, encoding))


def _as_complex(real: Any, imag: Any = 0.0) -> complex:
    return complex(require_type(real, float, int), require_type(imag, float, int))


def _as_slice(*bounds: Any) -> slice:
    return slice(*(require_type(b, int, type(None)) for b in bounds))


def _as_size(numbers: Any = ()) -> Size:
    return Size(require_type(n, int) for n in require_type(numbers, tuple, list))


def _as_fields(cls: Any) -> Callable[..., Any]:
    def make(values: Any, named: Any = None) -> Any:
        if named:
            raise make_error(f"the file has fields of {cls.__name__} that are unknown: {list(named)!r:.200}")
        return cls(*require_type(values, tuple))

    return make


# -- names -------------------------------------------------------------------------------------------------------------

LAYOUTS = {
    f"torch.{name}": getattr(layouts, name)
    for name in ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
}
FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d", "strided")
CLASSES: tuple[Any, ...] = (set, frozenset, complex, bytearray, slice)

#: The objects that a file may name, by full name.
KNOWN: dict[str, Any] = {
    "torch._utils._rebuild_tensor_v2": _rebuild,
    "torch._utils._rebuild_tensor_v3": _rebuild_typed,
    "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
    "torch._utils._rebuild_sparse_tensor": _rebuild_sparse,
    "torch.Tensor": Tensor,
    "torch.Size": Size,
    "torch.device": _as_device,
    "torch.serialization._get_layout": _as_layout,
    "torch.storage.UntypedStorage": Kind(dtypes.uint8, "UntypedStorage"),
    "torch.nn.parameter.Parameter": Parameter,
    "torch.nn.parameter.UninitializedParameter": UninitializedParameter,
    "torch.nn.parameter.UninitializedBuffer": UninitializedBuffer,
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "_codecs.encode": _encode,
    **{f"{module}.{c.__name__}": c for module in ("builtins", "__builtin__") for c in CLASSES},
    **{f"torch.{name}": dtype for name, dtype in dtypes.DTYPES.items()},
    **{f"torch.{name}": getattr(layouts, name) for name in FORMATS},
    **{f"torch.{d.scalar_name}Storage": Kind(d, f"{d.scalar_name}Storage") for d in dtypes.DTYPES.values()},
    **{f"torch.return_types.{name}": getattr(return_types, name) for name in dir(return_types)},
}

#: The functions that call such an object with checked arguments, by the id of the object.
CALLS: dict[int, Callable[..., Any]] = {
    **{
        id(function): function
        for function in (
            _rebuild, _rebuild_typed, _rebuild_meta, _rebuild_parameter, _rebuild_from_type, _rebuild_sparse,
            _as_device, _as_layout, _encode,
        )
    },
    id(Size): _as_size,
    id(complex): _as_complex,
    id(bytearray): _as_bytearray,
    id(slice): _as_slice,
    id(UninitializedParameter): _lazy(UninitializedParameter),
    id(UninitializedBuffer): _lazy(UninitializedBuffer),
    **{id(cls): _as_fields(cls) for cls in (getattr(return_types, name) for name in dir(return_types))},
}  # fmt: skip
