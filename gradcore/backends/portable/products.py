"""Kernels of matrix products and of contractions over labelled dims, which are computed as one matrix product."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from gradcore.backends.kernel_rules import along, native_body, reduces, writes
from gradcore.core.typing import NamedTuple

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["Labels", "Products", "check_batches", "expansion_error", "mismatch", "plan_of"]

Labels = tuple[int, ...]


class Products:
    """Products of matrices. All of them call `matmul`, which alone chooses an algorithm by shape and dtype."""

    xp: Namespace
    array_type: type
    #: Whether reading a 0-dim array costs nothing (no device to wait for).
    host_scalars: bool
    evaluate_step: Callable[..., Sequence[Array]]

    def matmul(self, a: Array, b: Array) -> Array:
        """Return the matrix product, with broadcast batch dims and with vectors, as `numpy.matmul`."""
        ndim, other_ndim = a.ndim, b.ndim
        if not ndim or not other_ndim:
            raise RuntimeError(
                f"both arguments to matmul need to be at least 1D, but they are {ndim}D and {other_ndim}D"
            )
        # 15 times faster than a product with inner size 1
        if other_ndim > 1 and a.shape[-1] == 1 == b.shape[-2] and a.dtype.kind != "b":
            return a * b if ndim > 1 else (a * b)[..., 0, :]
        return self._product(a, b)

    def _product(self, a: Array, b: Array) -> Array:
        """Return the product of matrices whose inner dim has more than one element."""
        if a.ndim > 2 >= b.ndim:  # one product instead of one for every batch element
            rows = a.reshape(prod(a.shape[:-1]), a.shape[-1])
            return self._product(rows, b).reshape(*a.shape[:-1], *b.shape[1:])
        if a.dtype.kind in "biu":
            return self._integer_product(a, b)
        try:
            return self.xp.matmul(a, b)
        except ValueError:
            raise mismatch(a.shape, b.shape) from None

    def _integer_product(self, a: Array, b: Array) -> Array:
        """Multiply integer matrices, in float64 where the sums stay below 2**53: BLAS has no integers."""
        if a.dtype.kind == "b":
            raise NotImplementedError("\"addmm_impl_cpu_\" not implemented for 'Bool'")
        if self.host_scalars and a.size and b.size and a.size * b.shape[-1] > 10_000:
            largest = [max(-int(x.min()), int(x.max())) for x in (a, b)]
            if largest[0] * largest[1] * a.shape[-1] < 2**53:
                return self._product(a.astype("float64"), b.astype("float64")).astype(a.dtype)
        try:
            return self.xp.matmul(a, b)
        except ValueError:
            raise mismatch(a.shape, b.shape) from None

    batched_matmul = matmul

    @native_body
    def times_adjoint(self, a: Array, b: Array) -> Array:
        """Return ``a @ b.mH``."""
        b = b.swapaxes(-1, -2)
        return self.matmul(a, b.conj() if b.dtype.kind == "c" else b)

    @native_body
    def adjoint_times(self, a: Array, b: Array) -> Array:
        """Return ``a.mH @ b``."""
        a = a.swapaxes(-1, -2)
        return self.matmul(a.conj() if a.dtype.kind == "c" else a, b)

    @native_body
    def mm(self, a: Array, b: Array) -> Array:
        if a.ndim != 2 or b.ndim != 2:
            raise RuntimeError(f"{'self' if a.ndim != 2 else 'mat2'} must be a matrix")
        return self.matmul(a, b)

    @native_body
    def bmm(self, a: Array, b: Array) -> Array:
        check_batches(a.shape, b.shape)
        return self.matmul(a, b)

    def sum_of_products(self, a: Array, b: Array) -> Array:
        """Return the sum over a batch of the matrix products ``a[i] @ b[i]``, computed as one product."""
        check_batches(a.shape, b.shape)
        return self.contract(a, b, (0, 1, 2), (0, 2, 3), (1, 3))

    @native_body
    def mv(self, a: Array, b: Array) -> Array:
        if a.ndim != 2 or b.ndim != 1:
            raise RuntimeError(f"vector + matrix @ vector expected, got 1, {a.ndim}, {b.ndim}")
        return self.matmul(a, b)

    @native_body
    def dot(self, a: Any, b: Any) -> Any:
        if a.ndim != 1 or b.ndim != 1:
            raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
        return self._product(a, b)

    def vdot(self, a: Array, b: Array) -> Array:
        result: Array = self.dot(a.conj() if a.dtype.kind == "c" else a, b)
        return result

    @native_body
    def outer(self, a: Array, b: Array) -> Array:
        for name, x in (("self", a), ("vec2", b)):
            if x.ndim != 1:
                raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {x.ndim}-D")
        return a[:, None] * b

    @native_body
    def linear(self, x: Array, weight: Array, bias: Array | None = None) -> Array:
        """Return ``x @ weight.T + bias``."""
        if weight.ndim > 2:
            raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {weight.ndim}D")
        single = x.ndim == 1 and weight.ndim == 2
        out = self.matmul(x[None], weight.T)[0] if single else self.matmul(x, weight.T)
        if bias is None:
            return out
        try:
            if out.ndim and out.dtype == bias.dtype:
                out += bias  # the product is a fresh array
                return out
            return out + bias
        except ValueError:
            raise expansion_error(out.shape, bias.shape) from None

    @native_body
    @writes("product")
    def add_product(self, summand: Any, product: Array, beta: complex, alpha: complex) -> Array:
        """Return ``beta * summand + alpha * product``, computed in the memory of the new array `product`."""
        if product.dtype.kind in "iu":
            beta, alpha = _integer(beta, "beta", product), _integer(alpha, "alpha", product)
        if alpha != 1:
            product *= alpha
        if not _expands(summand.shape, product.shape):
            raise expansion_error(product.shape, summand.shape)
        if beta != 0:
            product += summand if beta == 1 else summand * beta
        return product

    @along(2)
    def cross_product(self, a: Array, b: Array, axis: int) -> Array:
        """Return the cross products of the vectors along an axis of size 3."""
        lead = (slice(None),) * axis
        components = [x[(*lead, i)] for x in (a, b) for i in range(3)]
        return self.xp.stack(self.evaluate_step(_cross_product, *components), axis=axis)

    def hermitian(self, x: Array) -> Array:
        """Return the conjugate transpose of the last two dims."""
        x = x.swapaxes(-1, -2)
        return x.conj() if x.dtype.kind == "c" else x

    @reduces("sum")
    def sum_rows(self, x: Array) -> Array:
        """Sum over all dims but the last. For large arrays a product with ones is three times faster."""
        rows = x.reshape(prod(x.shape[:-1]), x.shape[-1])
        if rows.size < 4096 or rows.dtype.kind not in "fc":
            total: Array = self.xp.add.reduce(rows, axis=0, dtype=rows.dtype)
            return total
        return self.xp.matmul(self.xp.ones(rows.shape[0], rows.dtype), rows)

    def new_eye(self, x: Array, n: int, m: int) -> Array:
        """Return the identity of `n` rows and `m` columns in the dtype of `x`."""
        return self.xp.eye(n, m, dtype=x.dtype)

    # -- labelled dims ------------------------------------------------------------------------------------------

    @native_body
    @writes("out")
    def contract(self, a: Array, b: Array, of_a: Labels, of_b: Labels, out: Labels) -> Array:
        """Return the sum of products over the labels that `out` lacks; see `gradcore.ops.products.matmul.contract`."""
        plan = plan_of(of_a, of_b, out)
        shape, other_shape = a.shape, b.shape
        batch = tuple(shape[of_a.index(label)] for label in plan.batch)
        left = tuple(shape[of_a.index(label)] for label in plan.left)
        right = tuple(other_shape[of_b.index(label)] for label in plan.right)
        inner = prod(shape[of_a.index(label)] for label in plan.inner)
        rows, columns = prod(left), prod(right)
        a = a.transpose(plan.order_a).reshape(*batch, *((inner, rows) if plan.swap_a else (rows, inner)))
        b = b.transpose(plan.order_b).reshape(*batch, *((columns, inner) if plan.swap_b else (inner, columns)))
        a = a.swapaxes(-1, -2) if plan.swap_a else a
        b = b.swapaxes(-1, -2) if plan.swap_b else b
        result = self.matmul(a, b) if plan.inner else a * b
        return result.reshape((*batch, *left, *right)).transpose(plan.order_out)


class Plan(NamedTuple):
    """Plan of a contraction as a batched matrix product: (left x inner) @ (inner x right)."""

    batch: Labels
    left: Labels
    right: Labels
    inner: Labels
    order_a: tuple[int, ...]
    order_b: tuple[int, ...]
    swap_a: bool
    swap_b: bool
    order_out: tuple[int, ...]


@functools.lru_cache(maxsize=1024)
def plan_of(of_a: Labels, of_b: Labels, out: Labels) -> Plan:
    """Return the plan of a contraction as a product of matrices."""
    batch = tuple(label for label in out if label in of_a and label in of_b)
    left = tuple(label for label in of_a if label in out and label not in of_b)
    right = tuple(label for label in of_b if label in out and label not in of_a)
    inner = tuple(label for label in of_a if label in of_b and label not in out)
    # The group that comes first in memory stays first, so that merging its dims copies nothing.
    swap_a = _first(of_a, inner) < _first(of_a, left)
    swap_b = _first(of_b, right) < _first(of_b, inner)
    order_a = (*batch, *((*inner, *left) if swap_a else (*left, *inner)))
    order_b = (*batch, *((*right, *inner) if swap_b else (*inner, *right)))
    product = (*batch, *left, *right)
    return Plan(
        batch, left, right, inner,
        tuple(map(of_a.index, order_a)), tuple(map(of_b.index, order_b)), swap_a, swap_b,
        tuple(map(product.index, out)),
    )  # fmt: skip


def _first(labels: Labels, group: Labels) -> int:
    return min(map(labels.index, group), default=len(labels))


# -- PyTorch's errors -----------------------------------------------------------------------------------------------


def mismatch(a: Sequence[int], b: Sequence[int]) -> RuntimeError:
    """Return the exception for a product of `a` and `b`, whose shapes do not match."""
    if len(a) == 1 == len(b):
        return RuntimeError(
            f"inconsistent tensor size, expected tensor [{a[0]}] and src [{b[0]}] to have the same number of elements, "
            f"but got {a[0]} and {b[0]} elements respectively"
        )
    if len(b) == 1:
        rows = prod(a[:-1])
        return RuntimeError(f"size mismatch, got input ({rows}), mat ({rows}x{a[-1]}), vec ({b[0]})")
    if len(b) == 2:
        return RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({prod(a[:-1])}x{a[-1]} and {b[0]}x{b[1]})")
    for offset in range(3, min(len(a), len(b)) + 1):
        if a[-offset] != b[-offset] and 1 not in (a[-offset], b[-offset]):
            return RuntimeError(
                f"The size of tensor a ({a[-offset]}) must match the size of tensor b ({b[-offset]}) at non-singleton "
                f"dimension {max(len(a), len(b)) - offset}"
            )
    batch = prod(a[:-2] if len(a) > len(b) else b[:-2])
    return RuntimeError(
        f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {a[-1]}] but got: "
        f"[{batch}, {b[-2]}]."
    )


def check_batches(a: Sequence[int], b: Sequence[int]) -> None:
    """Raise unless `a` and `b` are 3-dim batches of matrices that can be multiplied."""
    for name, shape in (("batch1", a), ("batch2", b)):
        if len(shape) != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if a[0] != b[0] or a[2] != b[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a[0]}, {a[2]}] but got: "
            f"[{b[0]}, {b[1]}]."
        )


def _integer(factor: object, name: str, like: Array) -> int:
    """Return a factor of integers as a number of their dtype; negative ones wrap around in unsigned dtypes."""
    dtype = like.dtype
    if not isinstance(factor, int):
        raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
    bits = 8 * dtype.itemsize
    least, end = (-(1 << bits - 1), 1 << bits - 1) if dtype.kind == "i" else (1 - (1 << bits), 1 << bits)
    if not least <= factor < end:
        kind = "int" if dtype.name == "int32" else f"{dtype.name}_t"
        raise RuntimeError(f"value cannot be converted to type {kind} without overflow")
    return factor if dtype.kind == "i" else factor % end


def _expands(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Return whether a tensor of that shape can be expanded to `target`."""
    return len(shape) <= len(target) and all(
        n in (1, m) for n, m in zip(reversed(shape), reversed(target), strict=False)
    )


def expansion_error(target: Sequence[int], shape: Sequence[int]) -> RuntimeError:
    """Return the exception for a summand that does not expand to the shape of a product."""
    for offset in range(1, len(shape) + 1):
        if offset > len(target) or (shape[-offset] != target[-offset] and shape[-offset] != 1):
            break
    if offset > len(target):
        return RuntimeError(
            f"expand({list(shape)}, size={list(target)}): the number of sizes provided ({len(target)}) must be greater "
            f"or equal to the number of dimensions in the tensor ({len(shape)})"
        )
    return RuntimeError(
        f"The expanded size of the tensor ({target[-offset]}) must match the existing size ({shape[-offset]}) at "
        f"non-singleton dimension {len(target) - offset}.  Target sizes: {list(target)}.  Tensor sizes: {list(shape)}"
    )


def _cross_product(F: object, a0: Array, a1: Array, a2: Array, b0: Array, b1: Array, b2: Array) -> list[Array]:
    return [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0]
