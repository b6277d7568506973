"""Norms of vectors and matrices, and distances."""

from __future__ import annotations

from math import inf

from gradcore.backends.portable.host_tables import list_combinations
from gradcore.ops.declare.annotations import Dims, DType, Order, Scalar
from gradcore.ops.declare.checks import check_implemented, dtype_of
from gradcore.ops.declare.promotion import same_dtypes
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.shapes import all_dims, axes, keep_reduced_dims, wrap_dim
from gradcore.ops.declare.table import composite, general
from gradcore.ops.linalg.matrix_checks import check_floating, check_matrix

# -- norms of vectors -------------------------------------------------------------------------------------------------


def _vector_cases():
    x = floats(3, 4)
    return [
        case(x), case(x, 1, dim=1), case(x, 3.5, dim=0, keepdim=True), case(x, inf, dim=1), case(x, -inf),
        case(x, 0.5, dim=1),
        case(x, 0), case(x, -2, dim=0), case(floats()), case(floats(0, 3), dim=0), case(x, 1.5, dim=(0, 1)),
    ]  # fmt: skip


def _check_empty(x, ord, dim):
    """Raise for a norm over no elements whose order has no identity: infinite or negative."""
    if ord < 0 or ord == inf:
        reduced = all_dims(dim, x.ndim)
        if (dim is None and not x.size) or any(x.shape[d] == 0 for d in reduced):
            name = "inf" if ord == inf else f"{ord:g}"
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {name} norm on an empty tensor because the operation does not "
                "have an identity"
            )


@general(
    path="linalg.vector_norm",
    method=False,
    samples=_vector_cases,
    autocast="float32:cuda",
    half_on_cuda="reductions forward",
)
def linalg_vector_norm(K, self, ord: Scalar = 2, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None):
    """Compute ``sum(abs(self) ** ord) ** (1 / ord)`` over `dim` (all dims if None).

    It is the largest size for inf, and the number of nonzero elements for 0.

    Examples
    --------
    >>> gc.linalg.vector_norm(gc.tensor([3.0, 4.0]))
    tensor(5.)
    """
    check_floating("linalg.vector_norm", self)
    if dtype is not None:
        _check_dtype(self, dtype)
        self = K.to(self, dtype)
    _check_empty(self, ord, dim)
    return K.vector_norm(self, ord, axes(dim, self.ndim), keepdim)


def _check_dtype(x, dtype):
    if not dtype.is_differentiable:
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be floating point or complex, but got {dtype.scalar_name}"
        )
    if (x.dtype.kind == "c") != dtype.is_complex:
        kind = "complex" if x.dtype.kind == "c" else "real"
        raise RuntimeError(f"linalg.vector_norm: dtype should be {kind} for {kind} inputs, but got {dtype.scalar_name}")


def _direction(F, x, norm, ord):
    """Return the derivative of a norm with respect to each element, with PyTorch's conventions where there is none."""
    if ord == 0:
        return F.zeros_like(x)
    if ord == 1:
        return F.sgn(x)
    if ord == 2:
        size = F.where(norm == 0, inf, norm)
        return F.div(x, size)
    size = F.abs(x)
    if ord in (inf, -inf):
        return F.sgn(x) * ((size == norm) | ((size != size) & (norm != norm)))
    if ord < 1:
        power = F.where(size == 0, 0, F.pow(F.where(size == 0, 1, size), ord - 1))
        return F.sgn(x) * power * F.pow(norm, 1 - ord)
    return F.sgn(x) * F.pow(size / F.where(norm == 0, inf, norm), ord - 1)


def _shared_direction(F, x, norm, ord, dim):
    """Return `_direction`, shared by equally large elements for a norm of order inf or -inf."""
    direction = _direction(F, x, norm, ord)
    if ord not in (inf, -inf):
        return direction
    return F.div(direction, F.sum(F.ones_like(norm) * ((F.abs(x) == norm) | (norm != norm)), dim, True))


@linalg_vector_norm.vjp("self")
def _(F, grad, self, result, ord, dim):
    if ord == 0:
        return F.zeros_like(self)  # also where `grad` is not finite
    shape = keep_reduced_dims(self.shape, dim)
    grad, norm = F.reshape(grad, shape), F.reshape(result, shape)
    if ord in (inf, -inf):
        return _shared_direction(F, self, norm, ord, dim) * grad
    return F.vector_norm_backward(grad, self, norm, ord)


@composite(function=False, method=False)
def vector_norm_backward(F, grad, self, norm, ord: Scalar):
    """Return the gradient of norms of finite order; reduced dims have the size 1 in `grad` and `norm`."""
    return _direction(F, self, norm, ord) * grad


@linalg_vector_norm.jvp("self")
def _(F, t, self, result, ord, dim, keepdim):
    direction = _shared_direction(F, self, F.reshape(result, keep_reduced_dims(self.shape, dim)), ord, dim)
    return F.sum(F.real(F.conj(direction) * t), dim, keepdim)


# -- slices of a bounded norm -----------------------------------------------------------------------------------------


def _scales_to_bound(F, self, p, dim, maxnorm):
    """Return the reduced dims of `renorm`, the norms, whether they exceed the bound, and the factors of the slices."""
    reduced_dims = tuple(d for d in range(self.ndim) if d != wrap_dim(dim, self.ndim))
    norm = F.linalg_vector_norm(self, p, reduced_dims, True)
    over = norm > maxnorm
    return reduced_dims, norm, over, F.where(over, maxnorm / (norm + 1e-7), 1)


@general(
    inplace=True,
    samples=lambda: [
        case(floats(3, 4), 2, 0, 1.0), case(floats(3, 4), 1, -1, 2.0), case(floats(2, 3, 4), 3, 1, 1.5),
        case(floats(2, 3), 2, 0, 9.0)
    ],
    autocast="float32:cuda",
)  # fmt: skip
def renorm(K, self, p: Scalar, dim: int, maxnorm: Scalar):
    """Scale down every slice along `dim` whose `p`-norm is greater than `maxnorm`.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.renorm(gc.tensor([[3.0, 4.0], [0.3, 0.4]]), p=2, dim=0, maxnorm=1)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if self.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {self.ndim} dimensions")
    return self * _scales_to_bound(K, self, p, dim, maxnorm)[3]


@renorm.vjp("self")
def _(F, grad, self, p, dim, maxnorm):
    reduced_dims, norm, over, scale = _scales_to_bound(F, self, p, dim, maxnorm)
    change = F.sum(F.real(grad * F.conj(self)), reduced_dims, True) * (-scale / (norm + 1e-7))
    # a slice within the bound, or with a norm that is NaN, is not scaled
    return grad * scale + F.where(over, _shared_direction(F, self, norm, p, reduced_dims) * change, 0)


@renorm.jvp("self")
def _(F, t, self, p, dim, maxnorm):
    reduced_dims, norm, over, scale = _scales_to_bound(F, self, p, dim, maxnorm)
    direction = _shared_direction(F, self, norm, p, reduced_dims)
    change = F.sum(F.real(F.conj(direction) * t), reduced_dims, True) * (-scale / (norm + 1e-7))
    return t * scale + F.where(over, self * change, 0)


# -- norms of matrices ------------------------------------------------------------------------------------------------


def _matrix_cases():
    x = floats(3, 4)
    return [
        case(x),
        *(case(x, ord) for ord in ("nuc", 1, -1, 2, -2, inf, -inf)),
        case(floats(2, 3, 4), 2, dim=(0, 2), keepdim=True),
    ]


@composite(path="linalg.matrix_norm", method=False, samples=_matrix_cases, autocast="float32:cuda")
def linalg_matrix_norm(F, A, ord: Order = "fro", dim: Dims = (-2, -1), keepdim: bool = False, *, dtype: DType = None):
    """Return a norm of the matrices in two dims.

    Parameters
    ----------
    ord : {"fro", "nuc", 1, -1, 2, -2, inf, -inf}
        The square root of the sum of squares; the sum of the singular values; the largest (negative: smallest) sum of a
        column, singular value, sum of a row.

    Examples
    --------
    >>> gc.linalg.matrix_norm(gc.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    check_matrix("linalg.matrix_norm", A)
    check_floating("linalg.matrix_norm", A)
    if ord not in ("fro", "nuc", 1, -1, 2, -2, inf, -inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    dim = (dim,) if isinstance(dim, int) else tuple(dim or ())
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {list(dim)}")
    rows, columns = (wrap_dim(d, A.ndim) for d in dim)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return F.linalg_vector_norm(A, 2, (rows, columns), keepdim, dtype=dtype)
    A = A if dtype is None else F.to(A, dtype)
    if ord in ("nuc", 2, -2):
        sizes = F.linalg_svdvals(F.movedim(A, (rows, columns), (-2, -1)))
        result = F.sum(sizes, -1) if ord == "nuc" else _largest(F, sizes, -1) if ord == 2 else F.amin(sizes, -1)
        return F.reshape(result, keep_reduced_dims(A.shape, (rows, columns))) if keepdim else result
    if ord in (inf, -inf):
        rows, columns = columns, rows
    sums = F.linalg_vector_norm(A, 1, rows, keepdim)
    columns -= not keepdim and columns > rows
    return _largest(F, sums, columns, keepdim) if ord in (1, inf) else F.amin(sums, columns, keepdim)


def _largest(F, x, dim, keepdim=False):
    """Return the maxima of norms along a dim: zeros if it is empty."""
    return F.amax(x, dim, keepdim) if x.shape[dim] else F.sum(x, dim, keepdim)


@composite(path="linalg.norm", method=False, samples=lambda: [
    case(floats(3, 4)), case(floats(4), 3), case(floats(3, 4), 2), case(floats(3, 4), 1, dim=1),
    case(floats(2, 3, 4), "nuc", dim=(0, 2)),
    case(floats(2, 3), dim=0, keepdim=True), case(floats()),
])  # fmt: skip
def linalg_norm(F, self, ord: Order = None, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None):
    """Return a norm of vectors (one dim) or of matrices (two dims).

    Without `ord`, it is the square root of the sum of all squares.

    Examples
    --------
    >>> gc.linalg.norm(gc.tensor([3.0, 4.0]))
    tensor(5.)
    """
    dims = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if dims is not None and len(dims) not in (1, 2) and ord is not None:
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    if ord is None:
        return F.linalg_vector_norm(self, 2, dims, keepdim, dtype=dtype)
    if dims is None:
        if self.ndim not in (1, 2) and not isinstance(ord, str):
            raise RuntimeError(
                f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {self.ndim}D."
            )
        dims = (0,) if self.ndim == 1 and not isinstance(ord, str) else (-2, -1)
    if len(dims) == 1 and not isinstance(ord, str):
        return F.linalg_vector_norm(self, ord, dims, keepdim, dtype=dtype)
    return F.linalg_matrix_norm(self, ord, dims, keepdim, dtype=dtype)


@composite(
    samples=lambda: [
        case(floats(3, 4)),
        case(floats(3, 4), 1, dim=1),
        case(floats(3, 4), "nuc"),
        case(floats(4), inf, dim=0, keepdim=True),
    ],
    autocast="float32:cuda",
)
def norm(F, self, p: Order = "fro", dim: Dims = None, keepdim: bool = False, dtype: DType = None):
    """Return a norm of all elements, or over `dim`.

    ``"nuc"`` is the sum of the singular values of matrices.

    Examples
    --------
    >>> gc.norm(gc.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if p == "nuc":
        return F.linalg_matrix_norm(self, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return F.linalg_vector_norm(self, 2 if p is None or p == "fro" else p, dim, keepdim, dtype=dtype)


@composite(
    method=False,
    samples=lambda: [case(floats(3, 4)), case(floats(2, 3, 4), dim=(0, 2), keepdim=True)],
    autocast="float32:cuda",
)
def nuclear_norm(F, self, dim: Dims = (-2, -1), keepdim: bool = False):
    """Return the sum of the singular values of matrices.

    Examples
    --------
    >>> gc.nuclear_norm(gc.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(7.)
    """
    return F.linalg_matrix_norm(self, "nuc", dim, keepdim)


# -- distances --------------------------------------------------------------------------------------------------------


@composite(
    samples=lambda: [
        case(floats(3, 4), floats(3, 4)),
        case(floats(3), floats(2, 3), 1),
        case(floats(3), floats(3), inf),
    ],
    autocast="float32:cuda",
)
def dist(F, self, other, p: Scalar = 2):
    """Return the norm of all elements of ``self - other``.

    Returns
    -------
    Tensor
        A scalar.

    Examples
    --------
    >>> gc.dist(gc.tensor([0.0, 0.0]), gc.tensor([3.0, 4.0]))
    tensor(5.)
    """
    return F.linalg_vector_norm(self - other, p)


@composite(
    path="nn.functional.pdist",
    aliases=(".pdist",),
    samples=lambda: [case(floats(4, 3)), case(floats(3, 2), 1.5), case(floats(1, 3))],
    autocast="float32:cuda",
)
def pdist(F, input, p: float = 2.0):
    """Return the distances of all pairs of rows in the norm of order `p`.

    The pairs are in the order ``(0, 1), (0, 2), ..., (n - 2, n - 1)``.

    Returns
    -------
    Tensor
        Result of shape ``(n * (n - 1) / 2,)``.

    Examples
    --------
    >>> gc.nn.functional.pdist(gc.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    check_implemented("pdist", input, "c")
    n = input.shape[0]
    pairs = list_combinations(n, 2, False, n * (n - 1) // 2)
    left, right = (F.index_select(input, 0, F.index_tensor(pairs[:, k], input)) for k in (0, 1))
    return F.linalg_vector_norm(left - right, p, -1) if p else _count_differences(F, left - right)


def _differences(F, x1, x2):
    return F.unsqueeze(x1, -2) - F.unsqueeze(x2, -3)


def _count_differences(F, differences):
    """Return the number of differences that are not zero, or NaN if one is NaN: the distance of order 0."""
    return F.sum(F.ceil(F.clamp(F.abs(differences), None, 1)), -1)


def _points_gradient(F, grad, x1, x2, result, p):
    """Return the gradient of distances with respect to the first points."""
    if p == 2 and max(x1.shape[-2], x2.shape[-2]) > MANY:
        weights = F.div(grad, F.where(result == 0, inf, result))
        return x1 * F.sum(weights, -1, True) - F.matmul(weights, x2)
    direction = _direction(F, _differences(F, x1, x2), F.unsqueeze(result, -1), p)
    return F.sum(direction * F.unsqueeze(grad, -1), -2)


#: The number of points above which PyTorch and gradcore compute distances by a matrix product.
MANY = 25


def _cdist_cases():
    return [
        case(floats(4, 3), floats(2, 3)), case(floats(4, 3), floats(2, 3), p=1.0),
        case(floats(2, 4, 3), floats(3, 3), p=3.0),
        case(floats(4, 3), floats(2, 3), p=inf), case(floats(30, 3), floats(4, 3)), case(floats(3, 0), floats(2, 0)),
    ]  # fmt: skip


@general(
    x1=lambda F, grad, x1, x2, result, p: _points_gradient(F, grad, x1, x2, result, p),
    x2=lambda F, grad, x1, x2, result, p: _points_gradient(
        F, F.transpose(grad, -1, -2), x2, x1, F.transpose(result, -1, -2), p
    ),
    method=False,
    broadcasts=True,
    mixed=same_dtypes("expected scalar type {x1} but found {x2}"),
    samples=_cdist_cases,
    autocast="float32",
    saved={"compute_mode": None},
)
def cdist(K, x1, x2, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary"):
    """Return the distances of all pairs of rows of `x1` and `x2` in the norm of order `p`.

    Returns
    -------
    Tensor
        Result of shape ``(*, p, r)``.

    Examples
    --------
    >>> gc.cdist(gc.tensor([[0.0, 0.0]]), gc.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
        if not (dtype := dtype_of(x)).is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {dtype.scalar_name}")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    product = compute_mode == "use_mm_for_euclid_dist" or (
        compute_mode != "donot_use_mm_for_euclid_dist" and max(x1.shape[-2], x2.shape[-2]) > MANY
    )
    if p == 2 and product:
        squares = [K.sum_over(x * x, (x.ndim - 1,), True) for x in (x1, x2)]
        sums = K.add(squares[0], squares[1].swapaxes(-1, -2))
        squared_distances = sums - K.matmul(x1, 2 * x2.swapaxes(-1, -2))
        return K.xp.sqrt(K.xp.maximum(squared_distances, 0))
    if not x1.shape[-1]:
        return K.vector_norm(_differences(K, x1, x2), 2, (-1,), False)
    differences = _differences(K, x1, x2)
    return K.vector_norm(differences, p, (-1,), False) if p else _count_differences(K, differences)
