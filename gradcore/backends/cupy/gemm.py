"""Plans of matrix products by cuBLAS: which calls compute a product, given the operands' shapes and strides.

Plans are cached by layout, so a product costs one lookup and its calls.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from math import prod
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.portable.products import mismatch

__all__ = [
    "LARGEST",
    "SUMS_IN_FLOAT",
    "SUPPORTED",
    "Matrices",
    "Plan",
    "common_batch",
    "joint_batches",
    "layout_of",
    "plan",
]

#: For each dtype of matrices: its number in cuBLAS (`cudaDataType`), the number of the type in which cuBLAS computes
#: (`cublasComputeType_t`), and the dtype of the factors alpha and beta.
_TYPES = {
    "float16": (2, 68, "float32"),
    "bfloat16": (14, 68, "float32"),
    "float32": (0, 68, "float32"),
    "float64": (1, 70, "float64"),
    "complex64": (4, 68, "complex64"),
    "complex128": (5, 70, "complex128"),
}
#: The dtypes that cuBLAS multiplies, by NumPy's character (`E` is bfloat16).
SUPPORTED = frozenset("eEfdFD")
#: Compute type for sums in float32 of products of TensorFloat32 numbers.
_TENSOR_FLOAT = 77
#: `CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION`: partial sums are added in float32, too.
SUMS_IN_FLOAT = 16
#: `cublasOperation_t`.
_AS_IT_IS, _TRANSPOSED, _ADJOINT = 0, 1, 2

#: Largest size or leading dimension that cuBLAS accepts, as its interface has 32-bit integers.
LARGEST = 2**31 - 1
#: Number of cuBLAS calls up to which they are cheaper than a copy of an operand with irregular batch strides.
_CALLS = 4

Ints = tuple[int, ...]


class Matrices(NamedTuple):
    """Layout of a batch of matrices: the shape, and strides in elements."""

    shape: Ints
    strides: Ints


class Operand(NamedTuple):
    """A batch of matrices as cuBLAS reads it, column-major: the operation (transpose) and the leading dimension."""

    matrices: Matrices
    operation: int
    leading: int


class Batches(NamedTuple):
    """Batch dims through which both operands step evenly: sizes, and strides in elements."""

    sizes: Ints
    steps_a: Ints
    steps_b: Ints


class Part(NamedTuple):
    """Part of a batched product that one call computes.

    Attributes
    ----------
    sizes : tuple of int
        Rows and columns of the result, the inner size, and how many matrices.
    starts : tuple of int
        Where the part begins in both operands and in the result, in elements.
    leading : tuple of int
        Their leading dimensions.
    is_first : bool
        Whether the call overwrites the result; if False, it adds to the result of another part.
    """

    sizes: Ints
    starts: Ints
    leading: Ints
    is_first: bool


class Call(NamedTuple):
    """Arguments of a cuBLAS call except the addresses.

    cuBLAS is column-major and reads a row-major matrix as its transpose, so `b` is its first operand.

    Attributes
    ----------
    head : tuple of int
        Operations on b and a, columns, rows and inner size.
    offsets : tuple of int
        Bytes from the addresses of a, b and the result.
    leading : tuple of int
        Leading dimensions of a, b and the result.
    steps : tuple of int
        Elements from matrix to matrix of a, b and the result.
    matrices : int
        Number of matrices.
    before : int
        Address of the factor by which the previous content of the result is multiplied.
    """

    head: Ints
    offsets: Ints
    leading: Ints
    steps: Ints
    matrices: int
    before: int


class Plan(NamedTuple):
    """The cuBLAS calls of a product.

    Attributes
    ----------
    shape : tuple of int
        Shape of the result.
    calls : tuple of Call
    kinds : tuple of int
        cuBLAS's names of the dtypes of the operands and of the result.
    compute : tuple of int
        cuBLAS's compute types: for exact products, and if TensorFloat32 is allowed.
    alpha : int
        Address of the product's factor.
    adds : bool
        Whether parts are added to each other.
    factors : ndarray
        The memory of the factors.
    """

    shape: Ints
    calls: tuple[Call, ...]
    kinds: Ints
    compute: Ints
    alpha: int
    adds: bool
    factors: Any


@functools.lru_cache(4096)
def plan(
    a: Ints,
    strides_a: Ints,
    b: Ints,
    strides_b: Ints,
    dtype: Any,
    dtype_out: Any,
    factors: tuple[complex, complex],
    conjugate: tuple[bool, bool],
) -> Plan | None:
    """Return the plan of ``alpha * a @ b + beta * out`` for these shapes and strides in bytes. `out` is dense.

    The plan is None if cuBLAS does not support the dtype, cannot read an operand, or there is nothing to compute.
    """
    batch = common_batch(a, b)
    shape = (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))
    if dtype.char not in SUPPORTED or 0 in shape or not a[-1]:
        return None
    item = dtype.itemsize
    strides_a, strides_b = tuple(s // item for s in strides_a), tuple(s // item for s in strides_b)
    first = Matrices(a, strides_a) if len(a) > 1 else Matrices((1, *a), (0, *strides_a))
    second = Matrices(b, strides_b) if len(b) > 1 else Matrices((*b, 1), (*strides_b, 0))
    of_a, of_b = (_operand(x, c) for x, c in zip((first, second), conjugate, strict=True))
    if of_a is None or of_b is None:
        return None
    joint = joint_batches(batch, first, second)
    if prod(joint.sizes[:-1]) > _CALLS:
        return None
    kind, compute, factor = _TYPES[dtype.name]
    kind_out = _TYPES[dtype_out.name][0]
    factor_memory = np.array((*factors, 1), factor)
    alpha, beta, one = (factor_memory.ctypes.data + i * factor_memory.itemsize for i in range(3))
    calls, adds = _calls(of_a, of_b, joint, (item, item, dtype_out.itemsize), (beta, one))
    fast = _TENSOR_FLOAT if dtype.char in "fF" else compute
    return Plan(shape, calls, (kind, kind_out), (compute, fast), alpha, adds, factor_memory)


def _calls(a: Operand, b: Operand, joint: Batches, items: Ints, before: Ints) -> tuple[tuple[Call, ...], bool]:
    """Return the cuBLAS calls of a product, and whether some add to the result of others."""
    k, n = b.matrices.shape[-2:]
    m, a, joint = _as_rows(a.matrices.shape[-2], a, joint)
    parts = _parts(m, n, k, a, b, joint)
    all_of_last = m * n * (joint.sizes[-1] if joint.sizes else 1)
    last_steps = (joint.steps_a[-1], joint.steps_b[-1], m * n) if joint.sizes else (0, 0, 0)
    calls = []
    for number, index in enumerate(np.ndindex(*joint.sizes[:-1])):
        at = *(sum(map(mul, index, each)) for each in (joint.steps_a, joint.steps_b)), number * all_of_last
        for (rows, columns, inner, count), starts, leading, is_first in parts:
            head = (b.operation, a.operation, columns, rows, inner)
            offsets = tuple(item * (s + o) for item, s, o in zip(items, at, starts, strict=True))
            calls.append(Call(head, offsets, leading, last_steps, count, before[0] if is_first else before[1]))
    return tuple(calls), not all(part.is_first for part in parts)


def common_batch(a: Sequence[int], b: Sequence[int]) -> Ints:
    """Return the broadcast batch dims of a product. Raise PyTorch's error if the shapes do not fit."""
    if a[-1] == b[-2:][0]:
        try:
            return np.broadcast_shapes(a[:-2], b[:-2])
        except ValueError:
            pass
    raise mismatch(a, b)


def layout_of(x: Any, conjugate: bool) -> tuple[int, int] | None:
    """Return the operation and the leading dimension with which cuBLAS reads the last two dims of `x`, or None."""
    return _layout(x.shape, x.strides, x.itemsize, conjugate)


@functools.lru_cache(4096)
def _layout(shape: Ints, strides: Ints, itemsize: int, conjugate: bool) -> tuple[int, int] | None:
    operand = _operand(Matrices(shape, tuple(s // itemsize for s in strides)), conjugate)
    return None if operand is None else operand[1:]


def _operand(x: Matrices, conjugate: bool) -> Operand | None:
    (rows, columns), (down, along) = x.shape[-2:], x.strides[-2:]
    if any(s < 0 for s, n in zip(x.strides, x.shape, strict=True) if n > 1):
        return None
    if not conjugate and (along == 1 or columns == 1) and (rows == 1 or down >= columns):
        return Operand(x, _AS_IT_IS, down if rows > 1 else columns)
    if (down == 1 or rows == 1) and (columns == 1 or along >= rows):
        return Operand(x, _ADJOINT if conjugate else _TRANSPOSED, along if columns > 1 else rows)
    return None


def joint_batches(batch: Ints, a: Matrices, b: Matrices) -> Batches:
    """Return the batch dims with the strides of both operands. Adjacent dims are merged where both step evenly."""
    merged: list[list[int]] = []
    for n, of_a, of_b in zip(batch, _steps(a, len(batch)), _steps(b, len(batch)), strict=True):
        if n == 1:
            continue
        if merged and merged[-1][1] == of_a * n and merged[-1][2] == of_b * n:
            merged[-1] = [merged[-1][0] * n, of_a, of_b]
        else:
            merged.append([n, of_a, of_b])
    sizes, steps_a, steps_b = (tuple(each[i] for each in merged) for i in range(3))
    return Batches(sizes, steps_a, steps_b)


def _steps(x: Matrices, count: int) -> list[int]:
    """Return the strides in elements of `count` batch dims; zero where an operand is broadcast."""
    strides = [0 if n == 1 else s for n, s in zip(x.shape[:-2], x.strides[:-2], strict=True)]
    return [0] * (count - len(strides)) + strides


def _as_rows(m: int, a: Operand, joint: Batches) -> tuple[int, Operand, Batches]:
    """Fold the last batch dim into the rows of `a` if the batches share `b` and follow each other in memory.

    Return the new number of rows, the operand and the remaining batches.
    """
    if not joint.sizes or joint.steps_b[-1] != 0 or a.operation != _AS_IT_IS:
        return m, a, joint
    step = joint.steps_a[-1]
    if step != m * a.leading and not (m == 1 and step >= a.leading):
        return m, a, joint
    return m * joint.sizes[-1], a._replace(leading=step // m), Batches(*(each[:-1] for each in joint))


def _parts(m: int, n: int, k: int, a: Operand, b: Operand, joint: Batches) -> list[Part]:
    """Return the parts of a product, several only if a size is too large for one cuBLAS call.

    If a leading dimension is too large, each part has one row or one column, so that it needs none.
    """
    count = joint.sizes[-1] if joint.sizes else 1
    if max(m, n, k, count, a.leading, b.leading) <= LARGEST:
        return [Part((m, n, k, count), (0, 0, 0), (a.leading, b.leading, n), True)]
    down_a, along_a = (a.leading, 1) if a.operation == _AS_IT_IS else (1, a.leading)
    down_b, along_b = (b.leading, 1) if b.operation == _AS_IT_IS else (1, b.leading)
    step_a, step_b = (joint.steps_a[-1], joint.steps_b[-1]) if joint.sizes else (0, 0)
    rows, columns, inner = (
        1 if step > LARGEST else LARGEST for step in (max(n, down_a), along_b, max(along_a, down_b))
    )
    parts = []
    for first in itertools.product(
        range(0, m, rows), range(0, n, columns), range(0, k, inner), range(0, count, LARGEST)
    ):
        i, j, l, c = first
        part_sizes = (rows, columns, inner, LARGEST)
        sizes = tuple(
            min(size, total - at) for size, total, at in zip(part_sizes, (m, n, k, count), first, strict=True)
        )
        starts = (
            i * down_a + l * along_a + c * step_a,
            l * down_b + j * along_b + c * step_b,
            (c * m + i) * n + j,
        )
        dense = sizes[2 if along_a == 1 else 0], sizes[1 if along_b == 1 else 2], sizes[1]
        leading = tuple(
            own if own <= LARGEST else size for own, size in zip((a.leading, b.leading, n), dense, strict=True)
        )
        parts.append(Part(sizes, starts, leading, l == 0))
    return parts
