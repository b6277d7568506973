"""Products of vectors, matrices and batches of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from gradcore.backends.kernel_rules import leading
from gradcore.backends.portable.host_tables import find_cheapest_order
from gradcore.core.errors import warn_once
from gradcore.ops.declare.annotations import Arrays, Labels, Pairs
from gradcore.ops.declare.checks import cpp_type
from gradcore.ops.declare.promotion import common_dtype, same_dtypes
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.shapes import wrap_dim
from gradcore.ops.declare.table import bilinear, composite, linear
from gradcore.ops.linalg.matrix_checks import check_floating

# -- helpers of formulas ----------------------------------------------------------------------------------------------


@linear(lambda F, grad: F.hermitian(grad), view=True, function=False, method=False, node="TransposeBackward0",
        samples=lambda: [case(floats(2, 3)), case(floats(2, 3, 3))], batch=leading(2))  # fmt: skip
def hermitian(self):
    """Return the conjugate transpose of the last two dims; of real matrices it is a view."""


@composite(function=False, method=False)
def times_adjoint(F, self, other):
    """Compute ``self @ other.mH``.

    A kernel may read the conjugate transpose without a copy.
    """
    return F.matmul(self, F.hermitian(other))


@composite(function=False, method=False)
def adjoint_times(F, self, other):
    """Compute ``self.mH @ other``."""
    return F.matmul(F.hermitian(self), other)


@linear(lambda F, grad, self_shape: F.expand(grad, self_shape), function=False, method=False, node="SumBackward1",
        samples=lambda: [case(floats(5, 3)), case(floats(70, 2, 60)), case(floats(4)),
            case(floats(0, 3))])  # fmt: skip
def sum_rows(self):
    """Return the sum over all dims but the last."""


_refuse_mixed_factors = same_dtypes("expected scalar type {self} but found {other}")


def _mixed_factors(op, args):
    """Return the common dtype of the factors if nothing is summed; otherwise raise if their dtypes differ."""
    _, _, of_self, of_other, out = args
    return common_dtype(op, args) if set(out) >= {*of_self, *of_other} else _refuse_mixed_factors(op, args)


@bilinear(
    self=lambda F, grad, other, of_self, of_other, out: F.contract(grad, F.conj(other), out, of_other, of_self),
    other=lambda F, grad, self, of_self, of_other, out: F.contract(F.conj(self), grad, of_self, out, of_other),
    node=lambda of_self, of_other, out: "MulBackward0" if set(out) >= {*of_self, *of_other} else "ViewBackward0",
    function=False,
    method=False,
    mixed=_mixed_factors,
    contiguous=False,
    samples=lambda: [
        case(floats(2, 3, 4), floats(4, 2, 5), (0, 1, 2), (2, 0, 3), (3, 0, 1)),
        case(floats(2, 3, 4), floats(4, 3, 5), (0, 1, 2), (2, 1, 3), (3, 0)),
        case(floats(3, 2), floats(4, 3), (0, 1), (2, 0), (2, 1)),
        case(floats(3), floats(2), (0,), (1,), (1, 0)),
        case(floats(2, 0), floats(0, 3), (0, 1), (1, 2), (0, 2)),
    ],
    autocast="lower:cpu",
)
def contract(self, other, of_self: Labels, of_other: Labels, out: Labels):
    """Return the sum of products over the labels that `out` lacks.

    Every label of an operand occurs in the other operand or in `out`, and none is repeated. So derivatives are
    contractions, too.
    """


# -- products ---------------------------------------------------------------------------------------------------------


@composite(samples=lambda: [
    case(floats(3), floats(3)), case(floats(2, 3), floats(3)), case(floats(3), floats(3, 2)),
    case(floats(2, 3), floats(3, 4)), case(floats(4, 2, 3), floats(3, 2)), case(floats(2, 3), floats(4, 3, 2)),
    case(floats(4, 1, 2, 3), floats(5, 3, 2)), case(floats(4, 2, 3), floats(3)), case(floats(3), floats(4, 3, 2)),
    case(floats(2, 1), floats(1, 3)), case(floats(0, 3), floats(3, 2)), case(floats(2, 0), floats(0, 3)),
], autocast="lower")  # fmt: skip
def matmul(F, self, other):
    """Return the matrix product.

    Vectors are rows or columns; further dims are batch dims, which broadcast.

    Returns
    -------
    Tensor
        Result of the broadcast batch shape and ``(n, p)``; dims of vectors are left out.

    Examples
    --------
    >>> gc.matmul(gc.tensor([[1, 2], [3, 4]]), gc.tensor([10, 1]))
    tensor([12, 34])
    >>> gc.matmul(gc.ones(5, 1, 2, 3), gc.ones(4, 3, 6)).shape
    torch.Size([5, 4, 2, 6])
    """
    ndim = self.ndim
    try:
        other_ndim = other.ndim
    except AttributeError:
        raise TypeError(f"matmul(): argument 'other' (position 2) must be Tensor, not {type(other).__name__}") from None
    if ndim == 2 and other_ndim == 2:
        return F.mm(self, other)
    if other_ndim == 1 and 1 <= ndim <= 2:
        return F.dot(self, other) if ndim == 1 else F.mv(self, other)
    return F.batched_matmul(self, other)


@composite(path="linalg.matmul", method=False, samples=lambda: [case(floats(2, 3), floats(3, 4))])
def linalg_matmul(F, self, other):
    """Return the matrix product; see `gradcore.matmul`.

    Returns
    -------
    Tensor
        Result of the broadcast batch shape and ``(n, p)``; dims of vectors are left out.

    Examples
    --------
    >>> gc.linalg.matmul(gc.tensor([[1, 2], [3, 4]]), gc.tensor([10, 1]))
    tensor([12, 34])
    """
    return F.matmul(self, other)


@bilinear(
    self=lambda F, grad, mat2: F.times_adjoint(grad, mat2),
    mat2=lambda F, grad, self: F.adjoint_times(self, grad),
    mixed=same_dtypes("expected m1 and m2 to have the same dtype, but got: {self.cpp} != {mat2.cpp}"),
    samples=lambda: [
        case(floats(2, 3), floats(3, 4)),
        case(floats(2, 1), floats(1, 3)),
        case(floats(2, 0), floats(0, 3)),
    ],
    autocast="lower",
    half_on_cuda="products",
)
def mm(self, mat2):
    """Return the product of two matrices.

    Returns
    -------
    Tensor
        Result of shape ``(n, p)``.

    Examples
    --------
    >>> gc.mm(gc.tensor([[1, 2], [3, 4]]), gc.tensor([[10], [1]]))
    tensor([[12],
            [34]])
    """


@bilinear(
    self=lambda F, grad, mat2: F.times_adjoint(grad, mat2),
    mat2=lambda F, grad, self: F.adjoint_times(self, grad),
    mixed=same_dtypes("expected scalar type {self} but found {mat2}"),
    samples=lambda: [case(floats(4, 2, 3), floats(4, 3, 2)), case(floats(0, 2, 3), floats(0, 3, 2))],
    autocast="lower",
    half_on_cuda="products",
)
def bmm(self, mat2):
    """Return the products of the matrices of two batches.

    Returns
    -------
    Tensor
        Result of shape ``(b, n, p)``.

    Examples
    --------
    >>> gc.bmm(gc.ones(5, 2, 3), gc.ones(5, 3, 4)).shape
    torch.Size([5, 2, 4])
    """


@bilinear(
    self=lambda F, grad, mat2: F.times_adjoint(grad, mat2),
    mat2=lambda F, grad, self: F.adjoint_times(self, grad),
    function=False,
    method=False,
    mixed=same_dtypes("expected scalar type {self} but found {mat2}"),
    samples=lambda: [case(floats(4, 2, 3), floats(4, 3, 2)), case(floats(0, 2, 3), floats(0, 3, 2))],
)
def sum_of_products(self, mat2):
    """Return the sum of the products of the matrices of two batches."""


@bilinear(
    self=lambda F, grad, vec: F.outer(grad, F.conj(vec)),
    vec=lambda F, grad, self: F.adjoint_times(self, grad),
    mixed=same_dtypes("addmv input tensors must have the same dtype, but got {vec}, {self}, and {vec}"),
    samples=lambda: [case(floats(2, 3), floats(3)), case(floats(0, 3), floats(3)), case(floats(3, 0), floats(0))],
    autocast="lower:cuda",
    half_on_cuda="products",
)
def mv(self, vec):
    """Return the product of a matrix and a vector.

    Returns
    -------
    Tensor
        Result of shape ``(n,)``.

    Examples
    --------
    >>> gc.mv(gc.tensor([[1, 2], [3, 4]]), gc.tensor([10, 1]))
    tensor([12, 34])
    """


@bilinear(
    self=lambda F, grad, tensor: grad * F.conj(tensor),
    tensor=lambda F, grad, self: grad * F.conj(self),
    mixed=same_dtypes("dot : expected both vectors to have same dtype, but found {self} and {tensor}"),
    samples=lambda: [case(floats(3), floats(3)), case(floats(0), floats(0))],
    autocast="widest:cuda",
)
def dot(self, tensor):
    """Return the sum of the products of the elements of two vectors.

    Returns
    -------
    Tensor
        A scalar.

    Examples
    --------
    >>> gc.dot(gc.tensor([1, 2]), gc.tensor([3, 4]))
    tensor(11)
    """


@bilinear(
    self=lambda F, grad, other: F.conj(grad) * other,
    other=lambda F, grad, self: grad * self,
    mixed=same_dtypes("dot : expected both vectors to have same dtype, but found {self} and {other}"),
    samples=lambda: [case(floats(3), floats(3)), case(floats(0), floats(0))],
    autocast="widest:cuda",
)
def vdot(self, other):
    """Return the inner product of two vectors; the first is conjugated.

    Returns
    -------
    Tensor
        A scalar.

    Examples
    --------
    >>> gc.vdot(gc.tensor([1j, 2j]), gc.tensor([1j, 2j]))
    tensor(5.+0.j)
    """


@bilinear(
    self=lambda F, grad, vec2: F.matmul(grad, F.conj(vec2)),
    vec2=lambda F, grad, self: F.matmul(F.transpose(grad, 0, 1), F.conj(self)),
    node="MulBackward0",
    aliases=("ger",),
    mixed=common_dtype,
    samples=lambda: [case(floats(3), floats(2)), case(floats(0), floats(2))],
)
def outer(self, vec2):
    """Return the products of each element of a vector with each element of another.

    Returns
    -------
    Tensor
        Result of shape ``(n, m)``.

    Examples
    --------
    >>> gc.outer(gc.tensor([1, 2]), gc.tensor([3, 4, 5]))
    tensor([[ 3,  4,  5],
            [ 6,  8, 10]])
    """


def _left_gradient(F, grad, other, shape):
    """Return the gradient of a batched product with respect to its first operand, which has the shape `shape`."""
    other = F.conj(other)
    batch = tuple(range(3, 3 + max(len(shape), other.ndim) - 2))
    if len(shape) == 1:
        return F.contract(grad, other, (*batch, 2), (*batch, 1, 2), (1,))
    if other.ndim == 1:
        return F.unsqueeze(grad, -1) * other
    if len(shape) == 2:
        return F.contract(grad, other, (*batch, 0, 2), (*batch, 1, 2), (0, 1))
    product = F.matmul(grad, F.transpose(other, -2, -1))
    return product if tuple(product.shape) == tuple(shape) else F.sum_to_size(product, shape)


def _right_gradient(F, grad, self, shape):
    """Return the gradient of a batched product with respect to its second operand, which has the shape `shape`."""
    self = F.conj(self)
    batch = tuple(range(3, 3 + max(len(shape), self.ndim) - 2))
    if len(shape) == 1:
        return F.contract(self, grad, (*batch, 0, 1), (*batch, 0), (1,))
    if self.ndim == 1:
        return F.unsqueeze(self, -1) * F.unsqueeze(grad, -2)
    if len(shape) == 2:
        return F.contract(self, grad, (*batch, 0, 1), (*batch, 0, 2), (1, 2))
    product = F.matmul(F.transpose(self, -2, -1), grad)
    return product if tuple(product.shape) == tuple(shape) else F.sum_to_size(product, shape)


@bilinear(
    self=lambda F, grad, other, self_shape: _left_gradient(F, grad, other, self_shape),
    other=lambda F, grad, self, other_shape: _right_gradient(F, grad, self, other_shape),
    node=lambda self_shape, other_shape: (
        "SqueezeBackward4" if 1 in (len(self_shape), len(other_shape)) else "UnsafeViewBackward0"
    ),
    function=False,
    method=False,
    mixed=same_dtypes("expected scalar type {self} but found {other}"),
    samples=lambda: [
        case(floats(4, 2, 3), floats(3, 2)), case(floats(2, 3), floats(4, 3, 2)),
        case(floats(4, 1, 2, 3), floats(5, 3, 2)),
        case(floats(4, 2, 3), floats(3)), case(floats(3), floats(4, 3, 2)),
        case(floats(4, 1, 2, 3), floats(1, 5, 3, 2)),
        case(floats(3), floats(3, 2)), case(floats(2, 0, 3), floats(3, 2)), case(floats(2, 2, 1), floats(2, 1, 3)),
    ], half_on_cuda="products",)  # fmt: skip
def batched_matmul(self, other):
    """Compute `matmul` of operands with batch dims, or of a vector and a matrix."""


@composite(samples=lambda: [case(floats(3), floats(3)), case(floats(2, 3), floats(4, 3)), case(floats(), floats(2))])
def inner(F, self, other):
    """Return the sums of products over the last dims of both tensors.

    Returns
    -------
    Tensor
        Result of the shapes of both without their last dims.

    Examples
    --------
    >>> gc.inner(gc.tensor([[1, 2], [3, 4]]), gc.tensor([1, 1]))
    tensor([3, 7])
    """
    if not self.ndim or not other.ndim:
        return F.mul(self, other)
    if self.dtype is not other.dtype:
        raise RuntimeError("both inputs should have same dtype")
    if self.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(self.shape)} and {list(other.shape)}"
        )
    if self.ndim == 1 == other.ndim:
        return F.dot(self, other)
    return F.tensordot(self, other, ([-1], [-1]))


@composite(method=False, samples=lambda: [
    case(floats(2, 3, 4), floats(3, 4, 2)), case(floats(2, 3), floats(4, 2), dims=([0], [1])),
    case(floats(2, 3), floats(4), dims=0), case(floats(2, 3, 4), floats(4, 2, 3), dims=([2, 0], [0, 1])),
], autocast="widest:cuda", also={"axes": "dims"})  # fmt: skip
def tensordot(F, a, b, dims: Pairs = 2):
    """Return the sums of products over the last `dims` of `a` and the first of `b`, or over a pair of lists of dims.

    Returns
    -------
    Tensor
        Result of the dims of both that are not summed over.

    Examples
    --------
    >>> gc.tensordot(gc.ones(2, 3, 4), gc.ones(3, 4, 5)).shape
    torch.Size([2, 5])
    """
    if F.is_tensor(dims):
        dims = dims.tolist()
    if a.dtype is not b.dtype:
        raise RuntimeError("both inputs should have same dtype")
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims = (range(-dims, 0), range(dims))
    dims_a, dims_b = ([each] if isinstance(each, int) else list(each) for each in dims)
    if len(dims_a) != len(dims_b):
        raise RuntimeError("both dimension lists should have same length")
    labels = list(range(a.ndim, a.ndim + b.ndim))
    of_a = tuple(range(a.ndim))
    for i, j in zip(dims_a, dims_b, strict=True):
        p, q = wrap_dim(i, a.ndim), wrap_dim(j, b.ndim)
        n, m = a.shape[p], b.shape[q]
        if n == 1 != m:
            b = F.sum(b, q, True, dtype=b.dtype)
        elif m == 1 != n:
            a = F.sum(a, p, True, dtype=a.dtype)
        elif n != m:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {n} in dim {i} and second has size {m} in "
                f"dim {j}"
            )
        labels[q] = p
    of_b = tuple(labels)
    out = tuple(label for label in (*of_a, *of_b) if (label in of_a) != (label in of_b))
    return F.contract(a, b, of_a, of_b, out)


@composite(samples=lambda: [case(floats(2, 3), floats(3, 2)), case(floats(2), floats(2, 2)), case(floats(), floats(2))])
def kron(F, self, other):
    """Return the Kronecker product.

    Returns
    -------
    Tensor
        Result of the products of both sizes, dim by dim.

    Examples
    --------
    >>> gc.kron(gc.tensor([1, 10]), gc.tensor([1, 2]))
    tensor([ 1,  2, 10, 20])
    """
    ndim = max(self.ndim, other.ndim)
    sizes = [(1,) * (ndim - len(s)) + tuple(s) for s in (self.shape, other.shape)]
    first = F.reshape(self, [n for size in sizes[0] for n in (size, 1)])
    second = F.reshape(other, [n for size in sizes[1] for n in (1, size)])
    return F.unsafe_view(first * second, [n * m for n, m in zip(*sizes, strict=True)])


@composite(path="linalg.vecdot", method=False, samples=lambda: [
    case(floats(2, 3), floats(2, 3)), case(floats(3), floats(3)), case(floats(2, 3), floats(2, 1), dim=0),
], autocast="lower")  # fmt: skip
def linalg_vecdot(F, x, y, *, dim: int = -1):
    """Return the inner products of vectors along `dim`; those of `x` are conjugated.

    Returns
    -------
    Tensor
        Result of the broadcast shape without `dim`.

    Examples
    --------
    >>> gc.linalg.vecdot(gc.tensor([[1.0, 2.0], [3.0, 4.0]]), gc.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    check_floating("linalg.vecdot", x)
    check_floating("linalg.vecdot", y)
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type {x.dtype.scalar_name} and y "
            f"of type {y.dtype.scalar_name} instead"
        )
    if x.ndim == 1 == y.ndim:
        return F.vdot(x, y)
    return F.sum(F.conj(x) * y, dim)


@bilinear(
    self=lambda F, grad, other, dim: F.linalg_cross(F.conj(other), grad, dim=dim),
    other=lambda F, grad, self, dim: F.linalg_cross(grad, F.conj(self), dim=dim),
    path="linalg.cross",
    broadcasts=True,
    mixed=same_dtypes("expected scalar type {self} but found {other}"),
    samples=lambda: [
        case(floats(2, 3), floats(2, 3)),
        case(floats(3, 2), floats(3, 1), dim=0),
        case(floats(0, 3), floats(1, 3)),
    ],
)
def linalg_cross(K, self, other, *, dim: int = -1):
    """Return the cross products of the vectors of size 3 along `dim`.

    Returns
    -------
    Tensor
        Result of the broadcast shape.

    Examples
    --------
    >>> gc.linalg.cross(gc.tensor([1, 0, 0]), gc.tensor([0, 1, 0]))
    tensor([0, 0, 1])
    """
    if self.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    axis = wrap_dim(dim, self.ndim)
    if self.shape[axis] != 3 or other.shape[axis] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {self.shape[axis]} and {other.shape[axis]}"
        )
    return K.cross_product(self, other, axis)


@composite(
    samples=lambda: [case(floats(2, 3), floats(2, 3), dim=1), case(floats(3, 4), floats(3, 4), dim=0)],
    autocast="widest:cuda",
)
def cross(F, self, other, dim: int | None = None):
    """Return the cross products of the vectors along `dim`, by default the first dim of size 3.

    Returns
    -------
    Tensor
        Result of the broadcast shape.

    Examples
    --------
    >>> gc.cross(gc.tensor([1, 0, 0]), gc.tensor([0, 1, 0]), dim=0)
    tensor([0, 0, 1])
    """
    if dim is None:
        warn_once(
            "Using torch.cross without specifying the dim arg is deprecated. Please either pass the dim explicitly or "
            "simply use torch.linalg.cross, whose dim is the last one unless it is given."
        )
        dim = next((i for i, n in enumerate(self.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return F.linalg_cross(self, other, dim=dim)


# -- chains of products -----------------------------------------------------------------------------------------------


def _check_chain(tensors: Sequence[Any]) -> None:
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    for i, t in enumerate(tensors):
        if i in (0, len(tensors) - 1):
            if t.ndim not in (1, 2):
                place = "last" if i else "first"
                raise RuntimeError(f"multi_dot(): the {place} tensor must be 1D or 2D but got {t.ndim}D")
        elif t.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {t.ndim}D")
    for i, t in enumerate(tensors):
        if t.dtype is not tensors[0].dtype:
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype but tensor 0 is {cpp_type(tensors[0].dtype)} "
                f"and tensor {i} {cpp_type(t.dtype)}"
            )
    for i, (a, b) in enumerate(pairwise(tensors)):
        if a.shape[-1] != b.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(a.shape)} and {list(b.shape)} cannot be "
                "multiplied"
            )


@composite(path="linalg.multi_dot", method=False, samples=lambda: [
    case((floats(2, 3), floats(3, 4), floats(4, 2))), case((floats(3), floats(3, 2), floats(2, 5), floats(5))),
], autocast="lower:cuda")  # fmt: skip
def linalg_multi_dot(F, tensors: Arrays):
    """Return the product of a chain of matrices in the order of least cost.

    The first and the last may be vectors.

    Examples
    --------
    >>> gc.linalg.multi_dot([gc.ones(2, 3), gc.ones(3, 4), gc.ones(4)])
    tensor([12., 12.])
    """
    _check_chain(tensors)
    sizes = [1 if tensors[0].ndim == 1 else tensors[0].shape[0], *(t.shape[0] for t in tensors[1:])]
    sizes.append(1 if tensors[-1].ndim == 1 else tensors[-1].shape[-1])
    split = find_cheapest_order(sizes)

    def product(i: int, j: int) -> Any:
        if i == j:
            return tensors[i]
        k = split[i][j]
        return F.matmul(product(i, k), product(k + 1, j))

    return product(0, len(tensors) - 1)


@composite(
    method=False,
    samples=lambda: [case(floats(2, 3), floats(3, 4), floats(4, 2)), case(floats(2, 3))],
    autocast="lower:cuda",
)
def chain_matmul(F, *matrices):
    """Return the product of a chain of matrices; see `gradcore.linalg.multi_dot`.

    Returns
    -------
    Tensor
        Result of shape ``(rows of the first, columns of the last)``.

    Examples
    --------
    >>> gc.chain_matmul(gc.ones(2, 3), gc.ones(3, 4)).shape
    torch.Size([2, 4])
    """
    warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot, "
        "which takes a list of matrices."
    )
    if len(matrices) == 1:
        if not hasattr(matrices[0], "ndim"):
            raise TypeError(f"chain_matmul(): arguments must be Tensors, not {type(matrices[0]).__name__}")
        return F.clone(matrices[0])
    return F.linalg_multi_dot(matrices)
