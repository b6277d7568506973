"""Shapes that result from views and rearrangements, with PyTorch's errors."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from operator import index
from typing import Any

from gradcore.ops.declare.shapes import wrap_dim

__all__ = [
    "broadcast_shape",
    "distinct",
    "each",
    "expand_shape",
    "inverse",
    "inverse_of_distinct",
    "permutation_of_movedim",
    "reshape_error",
    "unflatten_shape",
]


def each(value: Any) -> tuple[int, ...]:
    """Return a number, or a sequence of numbers, as a tuple of ints."""
    if value.__class__ is int:
        return (value,)
    if value.__class__ is not tuple and hasattr(value, "__index__"):
        return (index(value),)
    return tuple([n if n.__class__ is int else index(n) for n in value])


def distinct(dims: Any, ndim: int, error: str = "dim {} appears multiple times in the list of dims") -> tuple[int, ...]:
    """Return `dims` counted from the front, after checking that they are different.

    Raises
    ------
    IndexError
        If a dim is out of range.
    RuntimeError
        If a dim appears twice.
    """
    result = tuple([wrap_dim(d, ndim) for d in each(dims)])
    if len(result) > 1 and len(set(result)) != len(result):
        raise RuntimeError(error.format(max(result, key=result.count)))
    return result


def expand_shape(shape: Sequence[int], size: Any) -> tuple[int, ...]:
    """Return the shape of a tensor of `shape` after expansion to `size`, in which -1 keeps a dim.

    Raises
    ------
    RuntimeError
        If `shape` does not broadcast to `size`.
    """
    size = each(size)
    lead = len(size) - len(shape)
    if lead >= 0 and size[lead:] == shape and min(size, default=0) >= 0:  # nothing but further dims in front
        return tuple(size)
    if lead < 0:
        raise RuntimeError(
            f"expand(tensor of shape {list(shape)}, size={list(size)}): the number of sizes provided ({len(size)}) "
            f"must be greater or equal to the number of dimensions in the tensor ({len(shape)})"
        )
    results = []
    for i, n in enumerate(size):
        if i < lead:
            if n < 0:
                raise RuntimeError(
                    f"The expanded size of the tensor ({n}) isn't allowed in a leading, non-existing dimension {i}"
                )
            results.append(n)
            continue
        old = shape[i - lead]
        if n != old and n != -1 and (old != 1 or n < 0):
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({old}) at non-singleton "
                f"dimension {i}.  Target sizes: {list(size)}.  Tensor sizes: {list(shape)}"
            )
        results.append(old if n == -1 else n)
    return tuple(results)


def reshape_error(shape: Sequence[int], size: Any) -> RuntimeError:
    """Return the error that says why a tensor of `shape` cannot have the shape `size`."""
    size = list(each(size))
    known_count = math.prod(n for n in size if n != -1)
    for i, n in enumerate(size):
        if n < -1:
            return RuntimeError(f"invalid shape dimension {n} at index {i} of shape {size}")
    if size.count(-1) > 1:
        return RuntimeError("only one dimension can be inferred")
    if -1 in size and not known_count and not math.prod(shape):
        return RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {size} because the unspecified dimension size -1 can be "
            "any value and is ambiguous"
        )
    return RuntimeError(f"shape '{size}' is invalid for input of size {math.prod(shape)}")


def unflatten_shape(shape: Sequence[int], dim: int, sizes: Any) -> tuple[int, ...]:
    """Return `shape` with one dim split into `sizes`, one of which may be -1."""
    dim, sizes = wrap_dim(dim, len(shape)), list(each(sizes))
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    known_count = math.prod(n for n in sizes if n != -1)
    if sizes.count(-1) == 1 and known_count and shape[dim] % known_count == 0:
        sizes[sizes.index(-1)] = shape[dim] // known_count
    if math.prod(sizes) != shape[dim] or min(sizes) < 0:
        raise RuntimeError(
            f"unflatten: Provided sizes {sizes} don't multiply up to the size of dim {dim} ({shape[dim]}) in the input "
            "tensor"
        )
    return (*shape[:dim], *sizes, *shape[dim + 1 :])


def inverse(dims: Sequence[int]) -> tuple[int, ...]:
    """Return the inverse of the permutation `dims`."""
    result = [0] * len(dims)
    for i, d in enumerate(dims):
        result[d] = i
    return tuple(result)


@functools.lru_cache(256)
def inverse_of_distinct(dims: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """Return the inverse of the permutation `dims`, which may count from the back, of `ndim` dims."""
    return inverse(distinct(dims, ndim))


def permutation_of_movedim(ndim: int, source: Any, destination: Any) -> tuple[int, ...]:
    """Return the permutation that moves the dims `source` to the positions `destination`.

    The other dims keep their order.
    """
    source, destination = each(source), each(destination)
    if len(source) != len(destination):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(source)} dims) should contain the same number "
            f"of dims as destination ({list(destination)} dims)"
        )
    sources = distinct(source, ndim, f"movedim: repeated dim in `source` ({list(source)})")
    positions = distinct(destination, ndim, f"movedim: repeated dim in `destination` ({list(destination)})")
    if not ndim:
        return ()
    order = [d for d in range(ndim) if d not in sources]
    for position, d in sorted(zip(positions, sources, strict=True)):
        order.insert(position, d)
    return tuple(order)


def broadcast_shape(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the shape to which tensors of these shapes broadcast.

    Raises
    ------
    RuntimeError
        If the shapes do not broadcast.
    """
    result: list[int] = []
    for shape in shapes:
        result = [1] * (len(shape) - len(result)) + result
        for from_end in range(1, len(shape) + 1):
            a, b = result[-from_end], shape[-from_end]
            if a == 1:
                result[-from_end] = b
            elif b not in (1, a):
                raise RuntimeError(
                    f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension "
                    f"{len(result) - from_end}"
                )
    return tuple(result)
