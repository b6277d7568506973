"""Lowering of matrix products."""

from __future__ import annotations

import math

import numpy as np

from gradcore.backends.codegen.cpp import C_TYPES
from gradcore.compiler.program.program import Call
from gradcore.compiler.targets.native.steps import Kernel, Rules, Step, Unsupported, View

__all__ = ["LARGE_PRODUCT", "Products"]

#: The C++ function of products by BLAS.
LARGE_PRODUCT = "large_product"

#: The largest number of multiplications for which a generated product is at least as fast as BLAS.
_SMALL_PRODUCT = 1 << 15
#: The largest number of products of a batch, which become a loop.
_MOST_PRODUCTS = 1 << 10


class Products(Rules):
    """Lowering rules for matrix products."""

    def _product(self, out: View, a: View, b: View) -> list[Step]:
        """Return the steps of a product of vectors, matrices or batches of matrices, broadcast as in `matmul`."""
        if not (a.dtype == b.dtype == out.dtype and a.dtype.char in "fd"):
            raise Unsupported("the dtype")
        if len(a.shape) == 1:
            a = a._replace(shape=(1, *a.shape), strides=(a.dtype.itemsize * a.shape[0], *a.strides))
            shape, strides = ((*each[:-1], n, *each[-1:]) for each, n in ((out.shape, 1), (out.strides, 0)))
            out = out._replace(shape=shape, strides=strides)
        if len(b.shape) == 1:
            b = b._replace(shape=(*b.shape, 1), strides=(*b.strides, b.dtype.itemsize))
            out = out._replace(shape=(*out.shape, 1), strides=(*out.strides, out.dtype.itemsize))
        if len(a.shape) > 2 and len(b.shape) == 2 and a.is_contiguous and out.is_contiguous:
            a = a.reshape((math.prod(a.shape[:-1]), a.shape[-1]))
            out = out.reshape((a.shape[0], out.shape[-1]))
        if len(a.shape) > 2 or len(b.shape) > 2:
            batch = out.shape[:-2]
            if math.prod(batch) > _MOST_PRODUCTS:
                raise Unsupported("many products")
            a, b = a.broadcast((*batch, *a.shape[-2:])), b.broadcast((*batch, *b.shape[-2:]))
            steps: list[Step] = []
            if not any(b.strides[:-2]) and b.size and b.strides[-1] != b.dtype.itemsize and b.shape[-1] > 1:
                rows = self.temporary_view(b.shape[-2:], b.dtype)  # Convert the shared factor to rows once.
                steps, b = [self._convert(rows, b.select((0,) * len(batch)))], rows.broadcast(b.shape)
            for i in np.ndindex(batch):
                steps += self._product(out.select(i), a.select(i), b.select(i))
            return steps
        (height, inner), width, size = a.shape, b.shape[1], out.dtype.itemsize
        if any(s % size for v in (a, b, out) for s in v.strides) or out.shape != (height, width):
            raise Unsupported("the strides")
        if width != 1 and out.strides[1] != size:
            raise Unsupported("the strides of a product")
        if not out.size or not inner:
            return list(self._fill(out, 0))
        (a0, a1), (b0, b1), o0 = _steps(a), _steps(b), out.strides[0] // size
        kind = C_TYPES[out.dtype.name]
        if width == 1:  # A single column can be read as a row.
            b1 = 1 if inner == 1 or b0 == 1 else b1
        is_small = height * inner * width <= _SMALL_PRODUCT and inner * width * size <= 1 << 15
        sizes = f"{height}, {inner}, {width}"
        if is_small:
            text = f"small_product<{kind}, {sizes}, {a0}, {a1}, {b0}, {b1}, {o0}>({{0}}, {{1}}, {{2}})"
            return [Kernel(text, [out], [a, b])]
        if not self.blas:
            raise Unsupported("there is no BLAS")
        (transpose_a, lead_a), (transpose_b, lead_b) = _blas(a), _blas(b)
        if height > 1 and o0 < width:
            raise Unsupported("the strides of a product")
        arrays = f"{{0}}, {{1}}, {lead_a}, {{2}}, {lead_b}, {max(o0, width)}"
        text = f"{LARGE_PRODUCT}<{kind}>({transpose_a}, {transpose_b}, {sizes}, {arrays}, threads)"
        return [Kernel(text, [out], [a, b], lasting=True)]

    def _lower_matmul(self, call: Call, results: list[View]) -> list[Step]:
        return self._product(results[0], *map(self._view, call.args))

    _lower_batched_matmul = _lower_matmul


def _steps(matrix: View) -> tuple[int, ...]:
    """Return the strides of a matrix in elements: from row to row, and from column to column."""
    size, is_one = matrix.dtype.itemsize, [n == 1 for n in matrix.shape]
    steps = [s // size for s in matrix.strides]
    if is_one[1]:
        steps[1] = 1
    if is_one[0] and not is_one[1]:
        steps[0] = max(matrix.shape[1], 1)
    return tuple(steps)


def _blas(matrix: View) -> tuple[str, int]:
    """Return whether BLAS must transpose a matrix, and its leading dimension."""
    (height, width), (row, column) = matrix.shape, _steps(matrix)
    if (column == 1 or width == 1) and (row >= width or height == 1):
        return "false", max(row, width)
    if (row == 1 or height == 1) and (column >= height or width == 1):
        return "true", max(column, height)
    raise Unsupported("the strides of a product")
