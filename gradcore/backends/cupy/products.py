"""Matrix products on CUDA: operands are not copied if cuBLAS can read them, and most products are one launch.

`cupy.matmul` copies transposed batches, does not loop over an operand in place, and computes only a part of half
precision. So cuBLAS is called directly, with CuPy's handle and stream. cuBLAS does not multiply integers; a kernel of
this package does. During a graph capture CuPy refuses to call cuBLAS, so it is called through ctypes.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.cupy import gemm
from gradcore.backends.cupy.capture import Capture, captured_cublas, collect_fft_plans
from gradcore.backends.cupy.cublas_library import CublasLibrary, load_cublas
from gradcore.backends.cupy.kernels import (
    C_NAMES,
    COMPLEX_NAMES,
    CudaKernels,
    accumulation_dtype,
    dense,
    elements,
    type_name,
)
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.products import Labels, Products, mismatch, plan_of
from gradcore.core import config
from gradcore.core.determinism import alert_products

__all__ = ["REAL_NAMES", "CudaProducts"]

#: The names of the types of the package's kernel, without the complex ones.
REAL_NAMES = {**C_NAMES, **{f"{kind}nt{bits}": f"{kind[0]}{bits}" for kind in ("i", "ui") for bits in (8, 16, 32, 64)}}
#: Constant that lets cuBLAS choose the algorithm.
_ANY_ALGORITHM = -1

#: Number of rows that a block sums, 32 by each thread.
_FEW_ROWS = 1024

#: Rows and columns of the result that a block of the package's kernel computes.
_TILE = 64

Ints = tuple[int, ...]


class CudaProducts(CudaKernels, Products):
    """Matrix products of CuPy arrays."""

    address: Any
    current_index: Any
    _watch: Any

    # -- cuBLAS ----------------------------------------------------------------------------------------------

    @functools.cached_property
    def cublas(self) -> Any:
        """CuPy's cuBLAS module."""
        from cupy_backends.cuda.libs import cublas

        return cublas

    @functools.cached_property
    def cublas_library(self) -> CublasLibrary | None:
        """The cuBLAS functions that CuPy does not offer, or None if the libraries are not found."""
        return load_cublas(self.cublas)

    @functools.cached_property
    def cublas_handle(self) -> Callable[[], int]:
        """Function that returns CuPy's cuBLAS handle of the current device and thread."""
        from cupy.cuda import device

        handles: set[int] = set()

        def handle() -> int:
            result: int = device.get_cublas_handle()
            if result not in handles:
                self.cublas.setMathMode(result, gemm.SUMS_IN_FLOAT)
                handles.add(result)
            return result

        return handle

    @functools.cached_property
    def capture(self) -> Capture:
        """State of the graph capture of each thread."""
        return Capture()

    @contextlib.contextmanager
    def capturing(self) -> Iterator[list[object]]:
        """Return a context in which products and index checks can be captured.

        It yields the list to which `collect_fft_plans` adds plans, which the graph has to keep.
        """
        capture, index = self.capture, self.current_index()
        if index not in capture.known:
            capture.known[index] = captured_cublas(self)
        cublas = capture.known[index]
        # The memory of index checks must be allocated before the capture, so that it does not belong to the graph.
        self._watch()
        capture.on, capture.cublas, capture.differs = True, cublas, False
        try:
            with collect_fft_plans(self.xp) as plans:
                yield plans
        finally:
            capture.on, capture.cublas = False, None
            if cublas is not None:
                cublas.forget()

    def is_capturing(self) -> bool:
        """Return whether this thread is capturing a graph, so that its work is recorded and not run."""
        return self.capture.on

    # -- products --------------------------------------------------------------------------------------------

    def _product(self, a: Any, b: Any) -> Any:
        if a.dtype.kind == "b":
            raise NotImplementedError("\"addmm_cuda\" not implemented for 'Bool'")
        return self._vectors(a, b) if a.ndim == 1 == b.ndim else self._multiply(a, b)

    def _vectors(self, a: Any, b: Any) -> Any:
        """Return the product of two vectors, computed as a sum without cuBLAS."""
        if a.shape != b.shape:
            raise mismatch(a.shape, b.shape)
        if a.size > gemm.LARGEST:
            return self._multiply(a[None], b[:, None])[0, 0]
        if a.dtype.itemsize == 2 and a.dtype.kind not in "iu":
            return self.xp.dot(a.astype("float32"), b.astype("float32")).astype(a.dtype)
        return self.xp.dot(a, b)

    @kernel_for(lambda self, a, b: b.dtype.kind == "c" and a.dtype == b.dtype and b.ndim >= 2)
    def times_adjoint(self, a: Any, b: Any) -> Any:
        return self._multiply(a, b.swapaxes(-1, -2), conjugate=(False, True))

    @kernel_for(lambda self, a, b: a.dtype.kind == "c" and a.dtype == b.dtype and a.ndim >= 2)
    def adjoint_times(self, a: Any, b: Any) -> Any:
        return self._multiply(a.swapaxes(-1, -2), b, conjugate=(True, False))

    def linear(self, x: Any, weight: Any, bias: Any = None) -> Any:
        """Return ``x @ weight.T + bias``. The bias is added in the precision in which the product is summed."""
        if bias is None or weight.ndim != 2 or bias.ndim != 1 or x.ndim < 2 or not _have_gemm_dtype(x, weight, bias):
            return super().linear(x, weight, bias)
        if weight.shape[1] != x.shape[-1] or bias.shape[0] not in (1, weight.shape[0]):
            return super().linear(x, weight, bias)  # This call raises the error.
        out = self.allocate((*x.shape[:-1], weight.shape[0]), x.dtype)
        if bias.shape[0] == weight.shape[0] and self.takes("biases", bias) and out.size:
            kernel = self.cuda_kernel("biases", "repeat_row", type=type_name(bias.dtype))
            kernel(*elements(out.size), (dense(self.xp, bias), out, *self.int64s(out.size, bias.size)))
        else:
            out[...] = bias
        return self._multiply(x, weight.T, out, (1, 1))

    def addmm(self, summand: Any, a: Any, b: Any, beta: complex = 1, alpha: complex = 1) -> Any:
        return self._add_scaled_product(self.mm, summand, a, b, beta, alpha)

    def baddbmm(self, summand: Any, a: Any, b: Any, beta: complex = 1, alpha: complex = 1) -> Any:
        return self._add_scaled_product(self.bmm, summand, a, b, beta, alpha)

    def _add_scaled_product(
        self, product: Callable[..., Any], summand: Any, a: Any, b: Any, beta: complex, alpha: complex
    ) -> Any:
        """Return ``beta * summand + alpha * a @ b``, computed by one cuBLAS product if shapes and dtypes fit.

        Otherwise `product` computes it, or raises the error.
        """
        shape = (*a.shape[:-1], b.shape[-1])
        fits = a.ndim == b.ndim > 1 and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2]
        if not fits or not _have_gemm_dtype(summand, a, b) or not _can_expand(summand.shape, shape):
            return self.add_product(summand, product(a, b), beta, alpha)
        out = self.allocate(shape, a.dtype)
        if beta != 0:  # If `beta` is 0, cuBLAS does not read `out`.
            out[...] = summand
        return self._multiply(a, b, out, (alpha, beta))

    def wide_product(self, a: Any, b: Any, alpha: float = 1) -> Any:
        """Return ``alpha * a @ b`` of batches of matrices, in float32 for float16 and bfloat16."""
        batch = gemm.common_batch(a.shape, b.shape)
        out = self.allocate((*batch, a.shape[-2], b.shape[-1]), accumulation_dtype(a))
        return self._multiply(a, b, out, (alpha, 0))

    @kernel_for(lambda self, x: x.dtype.char in gemm.SUPPORTED and x.size > 0)
    def sum_rows(self, x: Any) -> Any:
        """Return the sums of the columns of `x`, by a kernel or, for many rows, a product with ones.

        Sums are in float32 at least, never in TensorFloat32.
        """
        rows = x.reshape(prod(x.shape[:-1]), x.shape[-1])
        if rows.shape[0] <= _FEW_ROWS and self.takes("biases", rows):
            count, width = rows.shape
            out = self.allocate(width, rows.dtype)
            kernel = self.cuda_kernel("biases", "sum_columns", type=type_name(rows.dtype))
            kernel((-(-width // 32),), (32, 32), (dense(self.xp, rows), out, *self.int64s(count, width)))
            return out
        return self._multiply(self.xp.ones(rows.shape[0], x.dtype), rows, exact=True)

    def _multiply(
        self,
        a: Any,
        b: Any,
        out: Any = None,
        factors: tuple[complex, complex] = (1, 0),
        conjugate: tuple[bool, bool] = (False, False),
        exact: bool = False,
    ) -> Any:
        """Return ``alpha * a @ b + beta * out``, where `factors` is ``(alpha, beta)``.

        It is written to `out`, which is dense, or to new memory if None.
        """
        kind = a.dtype
        if b.dtype != kind:  # as statistics of halves and halves in a second derivative
            kind = np.result_type(kind, b.dtype)
            a, b = a.astype(kind, copy=False), b.astype(kind, copy=False)
        kind_out = kind if out is None else out.dtype
        plan = gemm.plan(a.shape, a.strides, b.shape, b.strides, kind, kind_out, factors, conjugate)
        capture = self.capture
        cublas = capture.cublas if capture.on else self.cublas
        if plan is None or cublas is None:
            return self._multiply_copies(a, b, out, factors, conjugate, exact)
        if out is None:
            out = self.allocate(plan.shape, kind)
        if plan.adds and out.itemsize == 2:  # parts are added up in float32
            float32_out = out.astype(np.float32) if factors[1] != 0 else self.allocate(out.shape, np.float32)
            out[...] = self._multiply(a, b, float32_out, factors, conjugate, exact)
            return out
        if not capture.on:  # A graph has its own workspace.
            alert_products()
        handle = cublas.handle if capture.on else self.cublas_handle()
        compute = plan.compute[0 if exact or config.get_float32_matmul_precision() == "highest" else 1]
        self._call(plan, cublas, handle, compute, (self.address(a), self.address(b), self.address(out)))
        return out

    def _call(self, plan: gemm.Plan, cublas: Any, handle: int, compute: int, addresses: tuple[int, int, int]) -> None:
        at_a, at_b, at_out = addresses
        kind, kind_out = plan.kinds
        for head, (a, b, out), (lead_a, lead_b, lead_out), (step_a, step_b, step_out), count, before in plan.calls:
            of_b, of_a, of_out = (at_b + b, kind, lead_b), (at_a + a, kind, lead_a), (at_out + out, kind_out, lead_out)
            if count == 1:
                cublas.gemmEx(handle, *head, plan.alpha, *of_b, *of_a, before, *of_out, compute, _ANY_ALGORITHM)
            else:
                cublas.gemmStridedBatchedEx(
                    handle, *head, plan.alpha, *of_b, step_b, *of_a, step_a, before, *of_out, step_out, count,
                    compute, _ANY_ALGORITHM,
                )  # fmt: skip

    def _multiply_copies(
        self, a: Any, b: Any, out: Any, factors: tuple[complex, complex], conjugate: tuple[bool, bool], exact: bool
    ) -> Any:
        """Return a product that is empty, has operands that cuBLAS cannot read in place, or cannot use cuBLAS."""
        batch = gemm.common_batch(a.shape, b.shape)
        if out is None:
            out = self.allocate((*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ())), a.dtype)
        if not out.size:
            return out
        if not a.shape[-1]:
            out[...] = out * factors[1] if factors[1] != 0 else 0
            return out
        matrices = a[None] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
        if a.dtype.char in gemm.SUPPORTED and (not self.capture.on or self.capture.cublas is not None):
            copies = [self._copy_if_unreadable(x, c) for x, c in zip(matrices, conjugate, strict=True)]
            if all(x is y for (x, _), y in zip(copies, matrices, strict=True)):  # too many calls for the batches
                copies = [(self._copy_batches(x, batch), c) for x, c in copies]
            (first, conjugate_a), (second, conjugate_b) = copies
            shape = (*batch, first.shape[-2], second.shape[-1])
            self._multiply(first, second, out.reshape(shape), factors, (conjugate_a, conjugate_b), exact)
        elif out.dtype != a.dtype:
            self._multiply(a.astype(out.dtype), b.astype(out.dtype), out, factors, conjugate)
        elif factors[0] == 1 and factors[1] == 0:
            self._launch_own_kernel(matrices, out, batch, conjugate)
        else:
            product = self._multiply(a, b, conjugate=conjugate)
            out[...] = product * factors[0] + (out * factors[1] if factors[1] != 0 else 0)
        return out

    def _copy_if_unreadable(self, x: Any, conjugate: bool) -> tuple[Any, bool]:
        """Return `x`, or a copy that cuBLAS can read, and whether cuBLAS has to conjugate it."""
        if gemm.layout_of(x, conjugate) is not None:
            return x, conjugate
        return self.xp.ascontiguousarray(x.conj() if conjugate else x), False

    def _copy_batches(self, x: Any, batch: Ints) -> Any:
        """Return a copy of all batches of `x`, one after the other. Each matrix stays row-major or column-major."""
        x = self.xp.broadcast_to(x, (*batch, *x.shape[-2:]))
        if x.strides[-1] <= x.strides[-2]:
            return self.xp.ascontiguousarray(x)
        return self.xp.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)

    def contract(self, a: Any, b: Any, of_a: Labels, of_b: Labels, out: Labels) -> Any:
        """Contract `a` and `b` as the portable method does, without steps that change nothing.

        Each step costs as much as a launch.
        """
        form = _contraction(a.shape, b.shape, of_a, of_b, out)
        if form is None:
            return super().contract(a, b, of_a, of_b, out)
        matrices = []
        for x, (order, shape, is_swapped) in ((a, form.a), (b, form.b)):
            x = (x if order is None else x.transpose(order)).reshape(shape)
            matrices.append(x.swapaxes(-1, -2) if is_swapped else x)
        result = self.matmul(*matrices)
        if result.shape != form.shape:
            result = result.reshape(form.shape)
        return result if form.order is None else result.transpose(form.order)

    # -- by a kernel of the package --------------------------------------------------------------------------

    def _launch_own_kernel(
        self, matrices: tuple[Any, Any], out: Any, batch: Ints, conjugate: tuple[bool, bool]
    ) -> None:
        """Multiply matrices by this package's kernel, and write the result to `out`."""
        joint = gemm.joint_batches(batch, *map(_strides_in_elements, matrices))
        if len(joint.sizes) > 3:
            matrices = (self._copy_batches(matrices[0], batch), self._copy_batches(matrices[1], batch))
            joint = gemm.joint_batches(batch, *map(_strides_in_elements, matrices))
        self.capture.differs |= self.capture.on and out.dtype.char in gemm.SUPPORTED
        (m, k), n, name = matrices[0].shape[-2:], matrices[1].shape[-1], out.dtype.name
        macros = {"type": COMPLEX_NAMES[name], "complex": "1"} if name in COMPLEX_NAMES else {"type": REAL_NAMES[name]}
        missing = 3 - len(joint.sizes)
        numbers = [m, n, k, *(s // x.itemsize for x in matrices for s in x.strides[-2:])]
        batches = [*(1,) * missing, *joint.sizes, *(0,) * missing, *joint.steps_a, *(0,) * missing, *joint.steps_b]
        grid = -(-m // _TILE) * -(-n // _TILE), min(prod(joint.sizes), 65535)
        arguments = (*self.int64s(*numbers), *map(np.bool_, conjugate), *self.int64s(*batches))
        self.cuda_kernel("products", "product", **macros)(grid, (16, 16), (*matrices, out, *arguments))


class _Contraction(NamedTuple):
    """Steps that turn operands into matrices, and the product into the result.

    An order of dims is None if nothing changes.

    Attributes
    ----------
    a, b : tuple
        The order of dims, the shape of matrices that they become, and whether these are transposed.
    shape, order : tuple of int
        The shape of the result, and the order of its dims.
    """

    a: tuple[Any, Ints, bool]
    b: tuple[Any, Ints, bool]
    shape: Ints
    order: Any


@functools.lru_cache(1024)
def _contraction(a: Ints, b: Ints, of_a: Labels, of_b: Labels, out: Labels) -> _Contraction | None:
    """Return the steps of a contraction, or None if it sums over no label."""
    plan = plan_of(of_a, of_b, out)
    if not plan.inner:
        return None
    size_a, size_b = dict(zip(of_a, a, strict=True)), dict(zip(of_b, b, strict=True))
    batch, left_sizes = (tuple(size_a[label] for label in labels) for labels in (plan.batch, plan.left))
    right, inner = tuple(size_b[label] for label in plan.right), prod(size_a[label] for label in plan.inner)
    rows, columns = prod(left_sizes), prod(right)
    return _Contraction(
        (
            _order_unless_identity(plan.order_a),
            (*batch, *((inner, rows) if plan.swap_a else (rows, inner))),
            plan.swap_a,
        ),
        (
            _order_unless_identity(plan.order_b),
            (*batch, *((columns, inner) if plan.swap_b else (inner, columns))),
            plan.swap_b,
        ),
        (*batch, *left_sizes, *right),
        _order_unless_identity(plan.order_out),
    )


def _order_unless_identity(order: Ints) -> Ints | None:
    """Return `order`, or None if it is ``(0, 1, 2, ...)``."""
    return None if order == tuple(range(len(order))) else tuple(order)


def _have_gemm_dtype(*arrays: Any) -> bool:
    """Return whether all arrays share one dtype that cuBLAS multiplies."""
    return arrays[0].dtype.char in gemm.SUPPORTED and all(a.dtype == arrays[0].dtype for a in arrays)


def _can_expand(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Return whether an array of shape `shape` can be expanded to `target`."""
    try:
        return np.broadcast_shapes(shape, target) == tuple(target)
    except ValueError:
        return False


def _strides_in_elements(x: Any) -> gemm.Matrices:
    return gemm.Matrices(x.shape, tuple(s // x.itemsize for s in x.strides))
