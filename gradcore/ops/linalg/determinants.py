"""Determinants, their derivative the adjugate, and traces."""

from __future__ import annotations

from gradcore.backends.kernel_rules import all_samples, leading
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite, constant, general, linear
from gradcore.ops.linalg.matrix_checks import check_square

_PRIVATE = {"function": False, "method": False}


def _cases():
    return [case(floats(3, 3)), case(floats(2, 4, 4)), case(floats(1, 1)), case(floats(2, 2, 2, 2)), case(floats(0, 0))]


def _regular_cases():
    return [
        case(floats(3, 3, form="well-conditioned")),
        case(floats(2, 2, 2, form="well-conditioned")),
        case(floats(0, 0)),
    ]


def _append_matrix_dims(F, x):
    """Append two dims to `x`, which has a number for each matrix, so that it broadcasts with the matrices."""
    return F.unsqueeze(F.unsqueeze(x, -1), -1)


def _sum_of_diagonal(F, x):
    return F.sum(F.diagonal(x, 0, -2, -1), -1)


# -- determinants and adjugates ---------------------------------------------------------------------------------------


@general(
    lambda F, grad, A: F.hermitian(F.adjugate(A)) * _append_matrix_dims(F, grad),
    path="linalg.det",
    method=False,
    samples=_cases,
)
def linalg_det(K, A):
    """Return the determinants of square matrices.

    The derivative is the adjugate, also at singular matrices.

    Returns
    -------
    Tensor
        Result of shape ``(*)``, without the two last dims.

    Examples
    --------
    >>> gc.linalg.det(gc.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(-2.)
    """
    check_square("linalg.det", A)
    return K.determinant(A)


linalg_det.jvp("A")(lambda F, t, A: _sum_of_diagonal(F, F.matmul(F.adjugate(A), t)))


@composite(samples=_cases)
def det(F, self):
    """Return the determinants of square matrices; see `gradcore.linalg.det`.

    Returns
    -------
    Tensor
        Result of shape ``(*)``, without the two last dims.

    Examples
    --------
    >>> gc.det(gc.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(-2.)
    """
    return F.linalg_det(self)


@general(
    lambda F, grad, self: F.hermitian(F.adjugate_change(self, F.hermitian(grad))),
    **_PRIVATE,
    batch=leading(2),
    shaped=lambda a: a,
)
def adjugate(self):
    """Return the adjugate, the transposed cofactors, of square matrices.

    Its elements are polynomials, so it exists at singular matrices.
    """


adjugate.jvp("self")(lambda F, t, self: F.adjugate_change(self, t))


@constant(constant="results are bools", **_PRIVATE, batch=all_samples, shaped=lambda a: True)
def is_regular(self):
    """Return whether all matrices of a batch are far enough from singular ones for their inverses to be accurate."""


@composite(**_PRIVATE)
def adjugate_change(F, self, t):
    """Return the tangent of the adjugate for the tangent `t` of the matrix.

    As a map of `t` and its result it is symmetric, so it also serves reverse mode.
    """
    if F.is_regular(self):
        inverse = F.invert_with_info(self)[0]
        product = F.matmul(inverse, t)
        change = inverse * _append_matrix_dims(F, _sum_of_diagonal(F, product)) - F.matmul(product, inverse)
        return change * _append_matrix_dims(F, F.linalg_det(self))
    # In the bases of the singular vectors the matrix is diagonal, and its cofactors are products of singular values.
    U, S, Vh = F.linalg_svd(self, full_matrices=True)
    t = F.matmul(F.matmul(F.hermitian(U), t), F.hermitian(Vh))
    products = _products_without_pairs(F, S)
    on_diagonal = F.sum(products * F.unsqueeze(F.diagonal(t, 0, -2, -1), -2), -1)
    change = F.matmul(F.matmul(F.hermitian(Vh), F.diag_embed(on_diagonal) - t * products), F.hermitian(U))
    return change * _append_matrix_dims(F, F.linalg_det(U) * F.linalg_det(Vh))


def _products_without_pairs(F, values):
    """Return, for each pair of elements of the last dim, the product of all others, or 0 for equal positions."""
    n = values.shape[-1]
    eye = F.new_eye(values, n, n)
    pair = F.unsqueeze(eye, 1) + F.unsqueeze(eye, 0)  # [i, j, k]: 1 where k is i or j
    each = F.unsqueeze(F.unsqueeze(values, -2), -2)
    return F.prod(each * (1 - pair) + pair, -1) * (1 - eye)


# -- logarithms -------------------------------------------------------------------------------------------------------


@general(
    path="linalg.slogdet",
    method=False,
    fields="sign logabsdet",
    samples=_regular_cases,
)
def linalg_slogdet(K, A):
    """Return the signs (directions of complex numbers) and the logarithms of the sizes of determinants.

    Examples
    --------
    >>> gc.linalg.slogdet(gc.tensor([[0.0, 2.0], [4.0, 0.0]]))
    torch.return_types.linalg_slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(2.0794))
    """
    check_square("linalg.slogdet", A)
    return K.log_determinant(A)


@linalg_slogdet.vjp("A")
def _(F, grads, A, sign):
    of_sign, of_log = grads
    turn = F.conj(of_sign) * sign
    factor = of_log - (turn - F.conj(turn)) / 2  # the imaginary part: only a complex sign turns
    return F.hermitian(F.invert_with_info(A)[0]) * _append_matrix_dims(F, factor)


@linalg_slogdet.jvp("A")
def _(F, t, A, sign):
    change = _sum_of_diagonal(F, F.matmul(F.invert_with_info(A)[0], t))
    return sign * ((change - F.conj(change)) / 2), F.real(change)


@composite(fields="sign logabsdet", samples=_regular_cases)
def slogdet(F, self):
    """Return the sign and the logarithm of the size of determinants; see `gradcore.linalg.slogdet`.

    Examples
    --------
    >>> gc.slogdet(gc.tensor([[0.0, 2.0], [4.0, 0.0]])).logabsdet
    tensor(2.0794)
    """
    return F.linalg_slogdet(self)


@composite(samples=_regular_cases)
def logdet(F, self):
    """Return the logarithms of the determinants of square matrices; NaN for negative determinants of real matrices.

    Returns
    -------
    Tensor
        Result of shape ``(*)``, without the two last dims.

    Examples
    --------
    >>> gc.logdet(gc.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(2.0794)
    """
    check_square("logdet", self)
    sign, logabsdet = F.linalg_slogdet(self)
    if self.is_complex():
        return F.log(sign) + logabsdet
    return F.where(sign == -1, float("nan"), logabsdet)


# -- traces -----------------------------------------------------------------------------------------------------------


@linear(
    lambda F, grad, self_shape: grad * F.new_eye(grad, *self_shape),
    samples=lambda: [case(floats(3, 3)), case(floats(2, 4)), case(floats(4, 2)), case(floats(0, 2))],
    autocast="float32:cpu",
)
def trace(K, self):
    """Return the sum of the diagonal of a matrix.

    Returns
    -------
    Tensor
        A scalar.

    Examples
    --------
    >>> gc.trace(gc.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    if self.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {self.ndim}")
    return K.sum_over(K.diagonal_of(self, 0, 0, 1), None, False, None)


@constant(constant="only the dtype of `self` is read", **_PRIVATE)
def new_eye(self, rows: int, columns: int):
    """Return the identity matrix of a given size in the dtype of `self`."""
