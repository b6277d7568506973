"""The safetensors format: ``save_file`` and ``load_file`` for dicts of tensors, without the package `safetensors`.

Every tensor is written separately in the order of its indices, including strided tensors, bfloat16, and tensors that
share memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from gradcore import functional
from gradcore.autograd.variables import wrap
from gradcore.backends.registry import CPU
from gradcore.core import dtypes
from gradcore.tensor import Tensor, layouts
from gradcore.torch_names import paths

__all__ = ["load", "load_file", "save", "save_file"]

#: The dtypes of files, by their names there.
_DTYPES = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "I16": dtypes.int16,
    "U16": dtypes.uint16, "I32": dtypes.int32, "U32": dtypes.uint32, "I64": dtypes.int64,
    "U64": dtypes.uint64, "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32,
    "F64": dtypes.float64, "C64": dtypes.complex64,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
#: The longest header that is read, in bytes.
_LONGEST = 100_000_000


def _serialize_parts(tensors: Any, metadata: Mapping[str, str] | None) -> Iterator[bytes]:
    """Yield the parts of a file: the length of the header, the header, and the elements of each tensor."""
    if not isinstance(tensors, Mapping):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for name, t in tensors.items():
        if not isinstance(name, str) or not isinstance(t, Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(t)}")
        if t.layout is not layouts.strided:
            raise ValueError(f"Key `{name}` is a sparse tensor: files of safetensors have dense ones; use to_dense()")
        if t.dtype not in _NAMES:
            raise ValueError(f"Key `{name}` has the dtype {t.dtype}, which files of safetensors do not have")
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))  # so each is aligned
    end = 0
    for name in order:
        t, begin = tensors[name], end
        end += t.nbytes
        header[name] = {"dtype": _NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        host = np.ascontiguousarray(tensors[name].detach().host())
        yield host.astype(host.dtype.newbyteorder("<"), copy=False).tobytes()


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the content of a safetensors file with these tensors and text metadata.

    Parameters
    ----------
    tensors : dict of Tensor
        The tensors by name, on any device.
    metadata : dict of str, optional
    """
    return b"".join(_serialize_parts(tensors, metadata))


def save_file(tensors: Mapping[str, Tensor], filename: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file with these tensors and text metadata.

    Parameters
    ----------
    tensors : dict of Tensor
        The tensors by name, on any device.
    filename : path
    metadata : dict of str, optional
    """
    parts = _serialize_parts(tensors, metadata)
    first = next(parts)  # raises for tensors that cannot be written, before the file is opened
    with open(filename, "wb") as file:
        file.write(first)
        file.writelines(parts)


def load(data: bytes, device: Any = "cpu") -> dict[str, Tensor]:
    """Return the tensors in the content of a file by name, each as a copy.

    Parameters
    ----------
    data : bytes
    device : device, optional
        The device of the tensors.

    Raises
    ------
    ValueError
        If the content is no file of safetensors.
    """
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(_LONGEST, len(data) - 8):
        raise ValueError("no file of safetensors: its header is incomplete")
    try:
        text = data[8 : 8 + length].decode()  # raises for bytes that encode lone surrogates
        header = json.loads(text, object_pairs_hook=_read_object)
        metadata = header.pop("__metadata__", None) or {}
        entries = {name: (_DTYPES[e["dtype"]], tuple(e["shape"]), *e["data_offsets"]) for name, e in header.items()}
        texts = [*entries, *metadata, *metadata.values()]
        if not all(type(t) is str and t.encode() is not None for t in texts):
            raise TypeError("metadata must map strings to strings")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no file of safetensors, or one with unknown dtypes: {error!r:.200}") from None
    content, result, places = memoryview(data)[8 + length :], {}, []
    for name, (dtype, shape, begin, end) in entries.items():
        numbers = (*shape, begin, end)
        if not all(type(n) is int and n >= 0 for n in numbers) or len(shape) > 64:
            raise ValueError(f"no file of safetensors: {name!r:.100} has an invalid shape or position")
        places.append((begin, end))
        if begin > end or end > len(content) or prod(shape) * dtype.itemsize != end - begin:
            raise ValueError(f"no file of safetensors: the elements of {name!r:.100} are not there")
        array = np.frombuffer(content[begin:end], dtype.numpy).reshape(shape).copy()
        if dtype is dtypes.bool_:
            array = array.view("u1") != 0  # any nonzero byte means True
        result[name] = functional.to(wrap(array, CPU, dtype), device=device)
    _check_places(places, len(content))
    return result


def _read_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object as a dict. Raise ValueError if it has ``__metadata__`` twice, as readers would differ."""
    if sum(name == "__metadata__" for name, _ in pairs) > 1:
        raise ValueError("the header has __metadata__ twice")
    return dict(pairs)


def _check_places(places: list[tuple[int, int]], length: int) -> None:
    """Raise ValueError if tensors overlap, or if bytes belong to no tensor. Such a file could be read in two ways."""
    last = 0
    for begin, end in sorted(places):
        if begin != last:
            raise ValueError(
                f"no file of safetensors: {'tensors overlap' if begin < last else 'bytes belong to no tensor'} from "
                f"byte {min(begin, last)} of its content"
            )
        last = end
    if last != length:
        raise ValueError(f"no file of safetensors: {length - last} bytes follow the last tensor")


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Tensor]:
    """Return the tensors in a file by name.

    Parameters
    ----------
    filename : path
    device : device, optional
        The device of the tensors.
    """
    return load(Path(filename).read_bytes(), device)


paths.show_public(__name__)
