"""References of operations that move, join, split and look up elements."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any


def flatten(x: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    if x.ndim == 0:
        return x.reshape(1)
    end = end_dim % x.ndim + 1
    return x.reshape(*x.shape[:start_dim], -1, *x.shape[end:])


def squeeze(x: Array, dim: Any = None) -> Array:
    if dim is None:
        return np.squeeze(x)
    return np.squeeze(x, tuple(d for d in np.atleast_1d(dim) if x.shape[d] == 1))


def expand(x: Array, size: Any) -> Array:
    own = [None] * (len(size) - x.ndim) + list(x.shape)
    return np.broadcast_to(x, [o if n == -1 else n for n, o in zip(size, own, strict=True)])


def sum_to_size(x: Array, size: Any) -> Array:
    x = x.sum(tuple(range(x.ndim - len(size))))
    return x.sum(tuple(i for i, n in enumerate(size) if n == 1), keepdims=True)


def unfold(x: Array, dim: int, size: int, step: int) -> Array:
    if x.ndim == 0:
        return x.reshape(1)[:size]
    starts = range(0, x.shape[dim] - size + 1, step)
    return np.stack([np.moveaxis(x, dim, -1)[..., s : s + size] for s in starts], dim if dim >= 0 else dim - 1)


def as_strided(x: Array, size: Any, stride: Any, storage_offset: int = 0) -> Array:
    index = storage_offset + sum(
        (
            np.arange(n).reshape(-1, *[1] * (len(size) - i - 1)) * s
            for i, (n, s) in enumerate(zip(size, stride, strict=True))
        ),
        start=np.zeros(size, int),
    )
    return x.ravel()[index]


def written(view: Callable[..., Array]) -> Callable[..., Array]:
    """``x`` with ``src`` in the place of the elements that a view selects, found by their numbers."""

    def write(x: Array, src: Array, *args: Any, **settings: Any) -> Array:
        out = x.copy().ravel()
        out[view(np.arange(x.size).reshape(x.shape), *args, **settings)] = src
        return out.reshape(x.shape)

    return write


def select(x: Array, dim: int, index: int) -> Array:
    return x.take(index, dim)


def sliced(x: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Array:
    return np.moveaxis(np.moveaxis(x, dim, 0)[start:end:step], 0, dim)


def narrow(x: Array, dim: int, start: int, length: int) -> Array:
    return x.take(start % x.shape[dim] + np.arange(length), dim) if length else sliced(x, dim, 0, 0)


def diag_embed(x: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    n = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], n, n), x.dtype)
    i = np.arange(x.shape[-1])
    out[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def sections(x: Array, size: Any, dim: int = 0) -> list[Array]:
    """Pieces of that size (the last one may be shorter), or of these sizes."""
    n = x.shape[dim]
    sizes = [size] * max(-(-n // size), 1) if isinstance(size, int) else size
    return np.split(x, np.cumsum(sizes)[:-1], dim)


def chunk(x: Array, chunks: int, dim: int = 0) -> list[Array]:
    return sections(x, -(-x.shape[dim] // chunks), dim)


def pieces(split: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's splitting, whose list of positions may not be a tuple of negative ones."""
    return lambda x, indices_or_sections, dim=None: split(
        x, indices_or_sections if isinstance(indices_or_sections, int) else list(indices_or_sections),
        *([] if dim is None else [dim]),
    )  # fmt: skip


def block_diag(tensors: Any) -> Array:
    blocks = [np.atleast_2d(t) for t in tensors]
    out = np.zeros(np.sum([b.shape for b in blocks], 0))
    row = column = 0
    for b in blocks:
        out[row : row + b.shape[0], column : column + b.shape[1]] = b
        row, column = row + b.shape[0], column + b.shape[1]
    return out


def each(function: Callable[..., Array]) -> Callable[..., Any]:
    return lambda tensors: [function(t) for t in tensors] if isinstance(tensors, (list, tuple)) else function(tensors)


def atleast_3d(x: Array) -> Array:
    return x[..., None] if x.ndim == 2 else np.atleast_3d(x)


def cartesian_prod(tensors: Any) -> Array:
    return np.array(list(itertools.product(*tensors))) if len(tensors) > 1 else tensors[0]


def combinations(x: Array, r: int = 2, with_replacement: bool = False) -> Array:
    return np.array(
        list((itertools.combinations_with_replacement if with_replacement else itertools.combinations)(x, r))
    )


def pixel_shuffle(x: Array, r: int) -> Array:
    *batch, c, h, w = x.shape
    x = x.reshape(*batch, c // r**2, r, r, h, w)
    return np.moveaxis(x, (-4, -3), (-3, -1)).reshape(*batch, c // r**2, h * r, w * r)


def pixel_unshuffle(x: Array, r: int) -> Array:
    *batch, c, h, w = x.shape
    x = x.reshape(*batch, c, h // r, r, w // r, r)
    return np.moveaxis(x, (-3, -1), (-4, -3)).reshape(*batch, c * r**2, h // r, w // r)


def channel_shuffle(x: Array, groups: int) -> Array:
    n, c, *rest = x.shape
    return x.reshape(n, groups, c // groups, *rest).swapaxes(1, 2).reshape(x.shape)


def repeat_interleave(x: Array, repeats: Any = None, dim: int | None = None) -> Array:
    return np.repeat(x, repeats, dim)


MOVEMENT: dict[str, Callable[..., Any]] = {
    "reshape": np.reshape,
    "view": np.reshape,
    "view_as": lambda x, other: x.reshape(other.shape),
    "reshape_as": lambda x, other: x.reshape(other.shape),
    "flatten": flatten,
    "unflatten": lambda x, dim, sizes: x.reshape(*x.shape[:dim], *sizes, *x.shape[dim + 1 :]),
    "ravel": np.ravel,
    "squeeze": squeeze,
    "unsqueeze": lambda x, dim: np.expand_dims(x, dim),
    "expand": expand,
    "expand_as": lambda x, other: np.broadcast_to(x, other.shape),
    "broadcast_to": np.broadcast_to,
    "sum_to_size": sum_to_size,
    "repeat": np.tile,
    "tile": np.tile,
    "transpose": lambda x, a, b: x.swapaxes(a, b) if x.ndim else x,
    "swapaxes": np.swapaxes,
    "swapdims": np.swapaxes,
    "t": np.transpose,
    "permute": np.transpose,
    "movedim": np.moveaxis,
    "adjoint": lambda x: x.swapaxes(-1, -2).conj() if x.ndim else x,
    "flip": lambda x, dims: np.flip(x, dims) if x.ndim else x,
    "fliplr": np.fliplr,
    "flipud": np.flipud,
    "roll": lambda x, shifts, dims=(): np.roll(x, shifts, None if dims == () else dims),
    "rot90": lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims),
    "clone": np.copy,
    "contiguous": np.copy,
    "type_as": lambda x, other: x.astype(other.dtype),
    "select": select,
    "narrow": narrow,
    "narrow_copy": narrow,
    "unfold_dim": unfold,
    "as_strided": as_strided,
    "as_strided_scatter": written(as_strided),
    "select_scatter": written(select),
    "slice_scatter": written(sliced),
    "diagonal_scatter": written(lambda x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2)),
    "diagonal": lambda x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2),
    "linalg_diagonal": lambda x, offset=0, dim1=-2, dim2=-1: np.diagonal(x, offset, dim1, dim2),
    "diag_embed": diag_embed,
    "diag": np.diag,
    "diagflat": np.diagflat,
    "tril": np.tril,
    "triu": np.triu,
    "view_as_real": lambda x: np.stack([x.real, x.imag], -1),
    "view_as_complex": lambda x: x[..., 0] + 1j * x[..., 1],
    "pixel_shuffle": pixel_shuffle,
    "pixel_unshuffle": pixel_unshuffle,
    "channel_shuffle": channel_shuffle,
    "fill": lambda x, value: np.full_like(x, value),
    "fft_fftshift": lambda x, dim=None: np.fft.fftshift(x, dim),
    "fft_ifftshift": lambda x, dim=None: np.fft.ifftshift(x, dim),
    # joining and splitting
    "cat": lambda tensors, dim=0: np.concatenate([t for t in tensors if t.shape != (0,)], dim),
    "stack": lambda tensors, dim=0: np.stack(tensors, dim),
    "hstack": np.hstack,
    "vstack": np.vstack,
    "dstack": np.dstack,
    "column_stack": np.column_stack,
    "block_diag": block_diag,
    **dict.fromkeys(["split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes"], sections),
    **dict.fromkeys(["chunk", "unsafe_chunk"], chunk),
    "unbind": lambda x, dim=0: list(np.moveaxis(x, dim, 0)),
    "tensor_split": pieces(np.array_split),
    "hsplit": pieces(np.hsplit),
    "vsplit": pieces(np.vsplit),
    "dsplit": pieces(np.dsplit),
    "atleast_1d": each(np.atleast_1d),
    "atleast_2d": each(np.atleast_2d),
    "atleast_3d": each(atleast_3d),
    "broadcast_tensors": lambda tensors: np.broadcast_arrays(*tensors),
    "meshgrid": lambda tensors, indexing="ij": np.meshgrid(*tensors, indexing=indexing),
    "cartesian_prod": cartesian_prod,
    "combinations": combinations,
    "repeat_interleave": repeat_interleave,
}
