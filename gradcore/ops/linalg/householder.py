"""Products of Householder reflections, as QR factorisations store orthogonal matrices."""

from __future__ import annotations

from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.promotion import same_dtypes
from gradcore.ops.declare.samples import case, constants, floats
from gradcore.ops.declare.table import composite, general, not_implemented
from gradcore.ops.linalg.matrix_checks import check_matrix


def _reflections(F, input):
    """Return the vectors of the Householder reflections stored below the diagonal, as columns."""
    m, n = input.shape[-2:]
    return F.tril(input, -1) + F.new_eye(input, m, n)


def _reflect(F, v, tau, x):
    """Compute ``x - tau * v @ v^H @ x`` for columns `v` and numbers `tau`, both with two dims."""
    return x - F.matmul(tau * v, F.matmul(F.hermitian(v), x))


def _householder_cases():
    return [case(floats(4, 3), floats(3)), case(floats(2, 3, 3), floats(2, 2)), case(floats(3, 0), floats(0))]


@general(
    path="linalg.householder_product",
    method=False,
    node="LinalgHouseholderProductBackward0",
    mixed=same_dtypes("torch.linalg.householder_product: tau dtype {tau} does not match input dtype {input}"),
    samples=_householder_cases,
    autocast="float32:cpu",
)
def linalg_householder_product(K, input, tau):
    """Return the first columns of a product of Householder reflections, as QR stores them.

    Returns
    -------
    Tensor
        Result of shape ``(*, m, n)``.

    Examples
    --------
    >>> h, tau = gc.geqrf(gc.ones(3, 2))
    >>> gc.linalg.householder_product(h, tau).shape
    torch.Size([3, 2])
    """
    name = "torch.linalg.householder_product"
    check_implemented("orgqr_cpu", input, "bi")
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if input.shape[-2] < input.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if input.shape[-1] < tau.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    _check_batch(name, input, "tau", tau, input.ndim - 1, "one dimension less than")
    return _products(K, input, tau)[0]


def _check_batch(function, input, name, x, ndim, which):
    """Raise an error if `x` has not `ndim` dims, or not the batch dims of `input`."""
    if x.ndim != ndim:
        raise RuntimeError(
            f"{function}: Expected {name} to have {which} input, but got {name}.ndim equal to {x.ndim} and input.ndim "
            f"is equal to {input.ndim}"
        )
    batch = input.shape[:-2]
    if x.shape[: len(batch)] != batch:
        raise RuntimeError(
            f"{function}: Expected batch dimensions of {name} to be equal to input.shape[:-2], but got "
            f"{list(x.shape[: len(batch)])}"
        )


def _columns(F, x, i):
    return F.narrow(x, -1, i, 1)


def _products(F, input, tau):
    """Return a list of products of reflections: item `i` is the product of reflection `i` and all later ones.

    The last item is the identity.
    """
    vectors = _reflections(F, input)
    products = [F.expand(F.new_eye(input, *input.shape[-2:]), tuple(input.shape))]
    for i in reversed(range(tau.shape[-1])):
        products.append(_reflect(F, _columns(F, vectors, i), F.unsqueeze(_columns(F, tau, i), -1), products[-1]))
    return products[::-1]


@linalg_householder_product.vjp("input", "tau")
def _(F, grad, input, tau):
    vectors, products = _reflections(F, input), _products(F, input, tau)
    by_vectors, by_tau = [], []
    for i in range(tau.shape[-1]):
        v, t = _columns(F, vectors, i), F.unsqueeze(_columns(F, tau, i), -1)
        rest = products[i + 1]  # the product of the later reflections; `grad` already includes the earlier ones
        across = F.matmul(grad, F.matmul(F.hermitian(rest), v))
        back = F.matmul(rest, F.matmul(F.hermitian(grad), v))
        by_tau.append(-F.squeeze(F.matmul(F.hermitian(v), across), -1))
        by_vectors.append(-F.conj(t) * across - t * back)
        grad = _reflect(F, v, F.conj(t), grad)
    columns = input.shape[-1] - tau.shape[-1]
    by_vectors.append(F.zeros_like(F.narrow(input, -1, 0, columns)))
    return F.tril(F.cat(by_vectors, -1), -1), F.cat(by_tau, -1) if by_tau else F.zeros_like(tau)


@general(
    not_implemented("geqrf"),
    fields="a tau",
    samples=lambda: [case(constants(4, 3)), case(constants(2, 2, 3))],
    autocast="float32:cpu",
)
def geqrf(K, self):
    """Return a QR factorisation as LAPACK stores it: R, with the reflections below its diagonal, and their factors.

    Examples
    --------
    >>> h, tau = gc.geqrf(gc.ones(3, 2))
    >>> h.shape, tau.shape
    (torch.Size([3, 2]), torch.Size([2]))
    """
    check_matrix("torch.geqrf", self, "input")
    check_implemented("geqrf_cpu", self, "bi")
    return K.raw_qr(self)


@composite(samples=_householder_cases, autocast="float32:cpu")
def orgqr(F, self, input2):
    """Return the first columns of a product of reflections; see `gradcore.linalg.householder_product`.

    Returns
    -------
    Tensor
        Result of shape ``(*, m, n)``.

    Examples
    --------
    >>> h, tau = gc.geqrf(gc.ones(3, 2))
    >>> gc.orgqr(h, tau).shape
    torch.Size([3, 2])
    """
    return F.linalg_householder_product(self, input2)


@composite(samples=lambda: [
    case(floats(4, 3), floats(3), floats(4, 2)),
    case(floats(2, 3), floats(2), floats(2, 2), left=False, transpose=True),
], autocast="float32:cpu")  # fmt: skip
def ormqr(F, input, tau, other, left: bool = True, transpose: bool = False):
    """Multiply a matrix by the full orthogonal matrix of reflections, or by its conjugate transpose.

    Returns
    -------
    Tensor
        Result of the shape of `other`.

    Examples
    --------
    >>> h, tau = gc.geqrf(gc.ones(3, 3))
    >>> gc.ormqr(h, tau, gc.eye(3)).shape
    torch.Size([3, 3])
    """
    if tau.shape[-1] != min(input.shape[-2:]):
        raise RuntimeError("torch.ormqr: tau.shape[-1] must be equal to min(other.shape[-2], input.shape[-1])")
    check_implemented("ormqr_cpu", input, "bi")
    for name, t in (("tau", tau), ("other", other)):
        if t.dtype is not input.dtype:
            raise RuntimeError(
                f"torch.ormqr: Expected input and {name} to have the same dtype, but input has dtype "
                f"{input.dtype.scalar_name} and {name} has dtype {t.dtype.scalar_name}"
            )
    side, end = ("other.shape[-2]", -2) if left else ("other.shape[-1]", -1)
    if other.shape[end] != input.shape[-2]:
        raise RuntimeError(f"torch.ormqr: {side} must be equal to input.shape[-2]")
    _check_batch("torch.ormqr", input, "tau", tau, input.ndim - 1, "one dimension less than")
    _check_batch("torch.ormqr", input, "other", other, input.ndim, "the same number of dimensions as")
    m, n = input.shape[-2:]
    padded = F.cat([input, F.new_zeros(input, (*input.shape[:-1], m - n))], -1) if m > n else F.narrow(input, -1, 0, m)
    Q = F.linalg_householder_product(padded, tau)
    Q = F.hermitian(Q) if transpose else Q
    return F.matmul(Q, other) if left else F.matmul(other, Q)
