"""Products of matrices on CUDA: what cuBLAS can read where it lies is not copied, and everything is one launch.

`cupy.matmul` copies transposed batches, loops over no operand in place, and computes half precision only in part;
so cuBLAS is called directly, with CuPy's handle and stream. Integers, which it does not multiply, are multiplied by a
kernel of the package, and so is everything while a graph is captured, unless nvmath-python calls cuBLAS then.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from math import prod
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from gradcore import config
from gradcore.backends.cupy.capture import Capture, captured_cublas
from gradcore.backends.cupy.kernels import C_NAMES, CudaKernels
from gradcore.backends.portable.products import Products, mismatch
from gradcore.determinism import alert_products

__all__ = ["LARGEST", "CudaProducts", "layout_of"]

#: What cuBLAS calls the dtypes of matrices (`cudaDataType`), what it computes them in (`cublasComputeType_t`), and the
#: dtype of factors.
_TYPES = {
    "float16": (2, 68, "float32"),
    "bfloat16": (14, 68, "float32"),
    "float32": (0, 68, "float32"),
    "float64": (1, 70, "float64"),
    "complex64": (4, 68, "complex64"),
    "complex128": (5, 70, "complex128"),
}
#: Sums in float32 of products of TensorFloat32 numbers.
_TENSOR_FLOAT = 77
#: `cublasOperation_t`, and cuBLAS's own choice of an algorithm.
_AS_IT_IS, _TRANSPOSED, _ADJOINT, _ANY_ALGORITHM = 0, 1, 2, -1

#: The types of the package's kernel that are not among those of the other kernels.
_NAMES = {**C_NAMES, "int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32", "int64": "i64"}
_COMPLEX = {"complex64": "complex<float>", "complex128": "complex<double>"}

#: Rows and columns of the result that a block of the package's kernel computes.
_TILE = 64
#: The largest size, or step from row to row, that cuBLAS takes: its interface has integers of 32 bits.
LARGEST = 2**31 - 1
#: Calls of cuBLAS that are cheaper than to copy an operand whose batches lie in irregular steps.
_CALLS = 4


Ints = tuple[int, ...]
Matrices = tuple[Any, Any]


class Operand(NamedTuple):
    """Matrices for cuBLAS: where they are, the operation on what it reads as columns, and the leading dimension."""

    array: Any
    operation: int
    leading: int


class Batches(NamedTuple):
    """Dims of batches that both operands step through regularly: sizes, and steps in elements."""

    sizes: Ints
    steps_a: Ints
    steps_b: Ints


class Part(NamedTuple):
    """Of a product of batches of matrices what one call computes.

    Attributes
    ----------
    sizes : tuple of int
        Rows and columns of the result, the inner size, and how many matrices.
    starts : tuple of int
        Where the part begins in both operands and in the result, in elements.
    leading : tuple of int
        Their leading dimensions.
    is_first : bool
        Whether the result is not yet that of another part, which this one is added to.
    """

    sizes: Ints
    starts: Ints
    leading: Ints
    is_first: bool


class CudaProducts(CudaKernels, Products):
    """Products of CuPy arrays."""

    address: Any
    current_index: Any
    _watch: Any

    # -- cuBLAS ----------------------------------------------------------------------------------------------

    @functools.cached_property
    def cublas(self) -> Any:
        """CuPy's functions of cuBLAS."""
        from cupy_backends.cuda.libs import cublas

        return cublas

    def cublas_handle(self) -> int:
        """The handle of the current device."""
        from cupy.cuda import device

        return device.get_cublas_handle()  # type: ignore[no-any-return]

    @functools.cached_property
    def capture(self) -> Capture:
        """What a graph is captured with."""
        return Capture()

    @contextlib.contextmanager
    def capturing(self) -> Iterator[None]:
        """A context in which products, and checks of indices, can be captured."""
        capture, index = self.capture, self.current_index()
        if index not in capture.known:
            capture.known[index] = captured_cublas(self)
        cublas = capture.known[index]
        self._watch()  # made before: its memory is not the graph's
        capture.on, capture.cublas = True, cublas
        try:
            yield
        finally:
            capture.on, capture.cublas = False, None
            if cublas is not None:
                cublas.forget()

    def is_capturing(self) -> bool:
        """Whether this thread's work is recorded for a graph, and not run."""
        return self.capture.on

    # -- products --------------------------------------------------------------------------------------------

    def _product(self, a: Any, b: Any) -> Any:
        if a.dtype.kind == "b":
            raise RuntimeError("\"addmm_cuda\" not implemented for 'Bool'")
        return self._vectors(a, b) if a.ndim == 1 == b.ndim else self._multiplied(a, b)

    def _vectors(self, a: Any, b: Any) -> Any:
        """The product of two vectors: a sum, without cuBLAS."""
        if a.shape != b.shape:
            raise mismatch(a.shape, b.shape)
        if a.size > LARGEST:
            return self._multiplied(a[None], b[:, None])[0, 0]
        if a.dtype.itemsize == 2 and a.dtype.kind not in "iu":
            return self.xp.dot(a.astype("float32"), b.astype("float32")).astype(a.dtype)
        return self.xp.dot(a, b)

    def times_adjoint(self, a: Any, b: Any) -> Any:
        if b.dtype.kind != "c" or a.dtype != b.dtype or b.ndim < 2:
            return super().times_adjoint(a, b)
        return self._multiplied(a, b.swapaxes(-1, -2), conjugate=(False, True))

    def adjoint_times(self, a: Any, b: Any) -> Any:
        if a.dtype.kind != "c" or a.dtype != b.dtype or a.ndim < 2:
            return super().adjoint_times(a, b)
        return self._multiplied(a.swapaxes(-1, -2), b, conjugate=(True, False))

    def linear(self, x: Any, weight: Any, bias: Any = None) -> Any:
        """With a bias, the product is added to it in the precision of its sums."""
        if bias is None or weight.ndim != 2 or bias.ndim != 1 or x.ndim < 2 or not _alike(x, weight, bias):
            return super().linear(x, weight, bias)
        if weight.shape[1] != x.shape[-1] or bias.shape[0] not in (1, weight.shape[0]):
            return super().linear(x, weight, bias)  # which says what is wrong
        out = self.xp.empty((*x.shape[:-1], weight.shape[0]), x.dtype)
        out[...] = bias
        return self._multiplied(x, weight.T, out, (1, 1))

    def addmm(self, summand: Any, a: Any, b: Any, beta: complex = 1, alpha: complex = 1) -> Any:
        return self._added(self.mm, summand, a, b, beta, alpha)

    def baddbmm(self, summand: Any, a: Any, b: Any, beta: complex = 1, alpha: complex = 1) -> Any:
        return self._added(self.bmm, summand, a, b, beta, alpha)

    def _added(self, product: Callable[..., Any], summand: Any, a: Any, b: Any, beta: complex, alpha: complex) -> Any:
        """``beta * summand + alpha * a @ b`` by one product; what does not fit together goes the way of errors."""
        shape = (*a.shape[:-1], b.shape[-1])
        fits = a.ndim == b.ndim > 1 and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2]
        if not fits or not _alike(summand, a, b) or not _expands(summand.shape, shape):
            return self.add_product(summand, product(a, b), beta, alpha)
        out = self.xp.empty(shape, a.dtype)
        if beta != 0:  # else what it holds is not read
            out[...] = summand
        return self._multiplied(a, b, out, (alpha, beta))

    def wide_product(self, a: Any, b: Any, alpha: float = 1) -> Any:
        """``alpha * a @ b`` of batches of matrices in the dtype of its sums, float32 for float16 and bfloat16."""
        batch = _common_batch(a.shape, b.shape)
        dtype = np.float32 if a.dtype.itemsize == 2 else a.dtype
        out = self.xp.empty((*batch, a.shape[-2], b.shape[-1]), dtype)
        return self._multiplied(a, b, out, (alpha, 0))

    def sum_rows(self, x: Any) -> Any:
        """A product with ones: sums are in float32 at least, and nothing is rounded to TensorFloat32."""
        if x.dtype.name not in _TYPES or not x.size:
            return super().sum_rows(x)
        rows = x.reshape(prod(x.shape[:-1]), x.shape[-1])
        return self._multiplied(self.xp.ones(rows.shape[0], x.dtype), rows, exact=True)

    def _multiplied(
        self,
        a: Any,
        b: Any,
        out: Any = None,
        factors: tuple[complex, complex] = (1, 0),
        conjugate: tuple[bool, bool] = (False, False),
        exact: bool = False,
    ) -> Any:
        """``alpha * a @ b + beta * out`` in the memory of `out`, which is dense, or in new memory."""
        batch = _common_batch(a.shape, b.shape)
        if out is None:
            out = self.xp.empty((*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ())), a.dtype)
        if not out.size:
            return out
        if not a.shape[-1]:
            out[...] = out * factors[1] if factors[1] != 0 else 0
            return out
        matrices = a[None] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
        by_cublas = a.dtype.name in _TYPES and (not self.capture.on or self.capture.cublas is not None)
        if out.dtype != a.dtype and not by_cublas:
            return self._multiplied(a.astype(out.dtype), b.astype(out.dtype), out, factors, conjugate)
        if by_cublas:
            precision = "highest" if exact else config.get_float32_matmul_precision()
            self._by_cublas(matrices, out, batch, factors, conjugate, precision)
        elif factors[0] == 1 and factors[1] == 0:
            self._by_own_kernel(matrices, out, batch, conjugate)
        else:
            product = self._multiplied(a, b, conjugate=conjugate)
            out[...] = product * factors[0] + (out * factors[1] if factors[1] != 0 else 0)
        return out

    # -- by cuBLAS -------------------------------------------------------------------------------------------

    def _by_cublas(
        self,
        matrices: Matrices,
        out: Any,
        batch: Ints,
        factors: tuple[complex, complex],
        conjugate: tuple[bool, bool],
        precision: str,
    ) -> None:
        if not self.capture.on:  # a graph has a workspace of its own
            alert_products()
        a, b, joint = self._readable(matrices, batch, conjugate)
        k, n = matrices[1].shape[-2:]
        m, a, joint = _as_rows(matrices[0].shape[-2], a, joint)
        dtype = a.array.dtype
        parts = _parts(m, n, k, a, b, joint)
        if out.itemsize == 2 and not all(part.is_first for part in parts):  # these are added up in float32
            wide = self.xp.empty(out.shape, np.float32)
            if factors[1] != 0:
                wide[...] = out
            self._by_cublas(matrices, wide, batch, factors, conjugate, precision)
            out[...] = wide
            return
        kind, compute, factor = _TYPES[dtype.name]
        if dtype.char in "fF" and precision != "highest":
            compute = _TENSOR_FLOAT
        held = np.array((*factors, 1), factor)
        alpha, beta, one = (held.ctypes.data + i * held.itemsize for i in range(3))
        kind_out, items = _TYPES[out.dtype.name][0], (dtype.itemsize, dtype.itemsize, out.itemsize)
        # Memory of rows, read as columns, is the transpose: out.T = b.T @ a.T.
        cublas = self.capture.cublas if self.capture.on else self.cublas
        handle = cublas.handle if self.capture.on else self.cublas_handle()
        all_of_last = m * n * (joint.sizes[-1] if joint.sizes else 1)
        starts = [self.address(x) for x in (a.array, b.array, out)]
        tail = compute, _ANY_ALGORITHM
        for place, where in enumerate(np.ndindex(*joint.sizes[:-1])):
            steps = *(sum(map(mul, where, each)) for each in (joint.steps_a, joint.steps_b)), place * all_of_last
            for (rows, columns, inner, count), offsets, leading, is_first in parts:
                at_a, at_b, at_out = (
                    x + item * (s + o) for x, item, s, o in zip(starts, items, steps, offsets, strict=True)
                )
                head = (handle, b.operation, a.operation, columns, rows, inner, alpha)
                of_a, of_b, of_out = (at_a, kind, leading[0]), (at_b, kind, leading[1]), (at_out, kind_out, leading[2])
                before = beta if is_first else one
                if count == 1:
                    cublas.gemmEx(*head, *of_b, *of_a, before, *of_out, *tail)
                    continue
                step_a, step_b = joint.steps_a[-1], joint.steps_b[-1]
                cublas.gemmStridedBatchedEx(*head, *of_b, step_b, *of_a, step_a, before, *of_out, m * n, count, *tail)

    def _readable(
        self, matrices: Matrices, batch: Ints, conjugate: tuple[bool, bool]
    ) -> tuple[Operand, Operand, Batches]:
        """Both operands as cuBLAS reads them, in place if it can, and the batch dims that are left."""
        a, b = (self._operand(x, c) for x, c in zip(matrices, conjugate, strict=True))
        joint = _joint_batches(batch, a.array, b.array)
        if prod(joint.sizes[:-1]) <= _CALLS:
            return a, b, joint
        a, b = (self._operand(self._regular(x.array, batch), x.operation == _ADJOINT) for x in (a, b))
        return a, b, _joint_batches(batch, a.array, b.array)

    def _operand(self, x: Any, conjugate: bool) -> Operand:
        """Matrices, or their conjugates, as cuBLAS reads them: in place or copied."""
        found = layout_of(x, conjugate)
        if found is not None:
            return Operand(x, *found)
        x = self.xp.ascontiguousarray(x.conj() if conjugate else x)
        return Operand(x, _AS_IT_IS, x.shape[-1])

    def _regular(self, x: Any, batch: Ints) -> Any:
        """The matrices of all batches one after the other, each in rows or in columns as it is."""
        x = self.xp.broadcast_to(x, (*batch, *x.shape[-2:]))
        if x.strides[-1] <= x.strides[-2]:
            return self.xp.ascontiguousarray(x)
        return self.xp.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)

    # -- by a kernel of the package --------------------------------------------------------------------------

    def _by_own_kernel(self, matrices: Matrices, out: Any, batch: Ints, conjugate: tuple[bool, bool]) -> None:
        joint = _joint_batches(batch, *matrices)
        if len(joint.sizes) > 3:
            matrices = (self._regular(matrices[0], batch), self._regular(matrices[1], batch))
            joint = _joint_batches(batch, *matrices)
        (m, k), n, name = matrices[0].shape[-2:], matrices[1].shape[-1], out.dtype.name
        named = {"type": _COMPLEX[name], "complex": "1"} if name in _COMPLEX else {"type": _NAMES[name]}
        missing = 3 - len(joint.sizes)
        numbers = [m, n, k, *(s // x.itemsize for x in matrices for s in x.strides[-2:])]
        batches = [*(1,) * missing, *joint.sizes, *(0,) * missing, *joint.steps_a, *(0,) * missing, *joint.steps_b]
        grid = -(-m // _TILE) * -(-n // _TILE), min(prod(joint.sizes), 65535)
        arguments = (*map(np.int64, numbers), *map(np.bool_, conjugate), *map(np.int64, batches))
        self.cuda_kernel("products", "product", **named)(grid, (16, 16), (*matrices, out, *arguments))


def _alike(*arrays: Any) -> bool:
    """Whether all are of one dtype that cuBLAS multiplies."""
    return arrays[0].dtype.name in _TYPES and all(a.dtype == arrays[0].dtype for a in arrays)


def _expands(shape: Sequence[int], target: Sequence[int]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == tuple(target)
    except ValueError:
        return False


def _common_batch(a: Sequence[int], b: Sequence[int]) -> Ints:
    """The batch dims of a product; the error of PyTorch where there is none."""
    if a[-1] == b[-2:][0]:
        try:
            return np.broadcast_shapes(a[:-2], b[:-2])
        except ValueError:
            pass
    raise mismatch(a, b)


def layout_of(x: Any, conjugate: bool) -> tuple[int, int] | None:
    """The operation and the leading dimension by which cuBLAS reads the last two dims; None if it cannot."""
    (rows, columns), item = x.shape[-2:], x.itemsize
    down, along = (s // item for s in x.strides[-2:])
    if any(s < 0 for s in x.strides):
        return None
    if not conjugate and (along == 1 or columns == 1) and (rows == 1 or down >= columns):
        return _AS_IT_IS, down if rows > 1 else columns
    if (down == 1 or rows == 1) and (columns == 1 or along >= rows):
        return _ADJOINT if conjugate else _TRANSPOSED, along if columns > 1 else rows
    return None


def _joint_batches(batch: Ints, a: Any, b: Any) -> Batches:
    """Batch dims with their steps in both operands, those merged that can be one."""
    merged: list[list[int]] = []
    steps = (_steps(x, len(batch)) for x in (a, b))
    for n, of_a, of_b in zip(batch, *steps, strict=True):
        if n == 1:
            continue
        if merged and merged[-1][1] == of_a * n and merged[-1][2] == of_b * n:
            merged[-1] = [merged[-1][0] * n, of_a, of_b]
        else:
            merged.append([n, of_a, of_b])
    sizes, steps_a, steps_b = (tuple(each[i] for each in merged) for i in range(3))
    return Batches(sizes, steps_a, steps_b)


def _steps(x: Any, count: int) -> list[int]:
    """The steps of `count` batch dims in elements: zero where an operand is repeated."""
    own = [0 if n == 1 else s // x.itemsize for n, s in zip(x.shape[:-2], x.strides[:-2], strict=True)]
    return [0] * (count - len(own)) + own


def _as_rows(m: int, a: Operand, joint: Batches) -> tuple[int, Operand, Batches]:
    """Batches that share the second matrix, and follow each other as rows of the first, are one matrix of more rows."""
    if not joint.sizes or joint.steps_b[-1] != 0 or a.operation != _AS_IT_IS:
        return m, a, joint
    step = joint.steps_a[-1]
    if step != m * a.leading and not (m == 1 and step >= a.leading):
        return m, a, joint
    return m * joint.sizes[-1], a._replace(leading=step // m), Batches(*(each[:-1] for each in joint))


def _parts(m: int, n: int, k: int, a: Operand, b: Operand, joint: Batches) -> list[Part]:
    """The calls for a product, of which there is one unless something is too large for it.

    Where a leading dimension is, a part has one row, or one column, and needs none.
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
        most = (rows, columns, inner, LARGEST)
        sizes = tuple(min(size, whole - at) for size, whole, at in zip(most, (m, n, k, count), first, strict=True))
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
