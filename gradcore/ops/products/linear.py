"""Linear layers, and products with a summand: BLAS's ``beta * self + alpha * product``."""

from __future__ import annotations

from functools import reduce
from math import prod

from gradcore.backends.kernel_rules import native_body
from gradcore.core.dtypes import promote_types
from gradcore.ops.declare.annotations import Number
from gradcore.ops.declare.promotion import same_dtypes
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import general, same


def _sum_to_shape(F, grad, shape):
    """Return the gradient of a summand of `shape` that was expanded to the shape of `grad`."""
    shape, full_shape = tuple(shape), tuple(grad.shape)
    if full_shape == shape:
        return grad
    return F.sum_rows(grad) if shape == full_shape[-1:] else F.sum_to_size(grad, shape)


def scale(t, number):
    """Return ``t * number``, or `t` itself if the number is 1."""
    return t if number == 1 else t * number


# -- linear layers ----------------------------------------------------------------------------------------------------


def _linear_node(input_shape, bias):
    """Return the name of the last node that PyTorch records for a linear layer."""
    ndim = len(input_shape)
    if bias is not None:
        return "AddmmBackward0" if ndim == 2 else "ViewBackward0"
    return "MmBackward0" if ndim == 2 else "SqueezeBackward4" if ndim == 1 else "UnsafeViewBackward0"


def _saved_by_linear(node):
    """Return PyTorch's names for the saved factors; the second factor is saved as the transposed weight."""
    if node not in ("AddmmBackward0", "MmBackward0"):
        return {}
    matrix_name = "mat1" if node == "AddmmBackward0" else "self"
    factors = {"alpha": 1, "beta": 1} if node == "AddmmBackward0" else {}
    transposed = lambda weight: None if weight is None else weight.t()  # noqa: E731
    hidden = dict.fromkeys(("weight", "weight_sym_sizes", "bias_sym_sizes"))
    return {matrix_name: "input", "mat2": transposed, **factors, **hidden}


def _weight_gradient(F, grad, input, shape):
    input = F.conj(input)
    ndim = input.ndim
    if len(shape) == 2 and ndim > 1:
        if ndim > 2:
            # One matrix of all rows: unlike the result of `contract`, the product is no view, which a leaf would copy.
            rows = prod(input.shape[:-1])
            grad, input = F.reshape(grad, (rows, shape[0])), F.reshape(input, (rows, shape[1]))
        return F.matmul(F.transpose(grad, 0, 1), input)
    batch = tuple(range(2, 1 + ndim))
    if len(shape) == 1:
        return F.contract(grad, input, batch, (*batch, 1), (1,))
    return F.contract(grad, input, (*batch, 0), (*batch, 1), (0, 1))


@general(
    input=lambda F, grad, weight: (
        F.matmul(grad, F.conj(weight)) if weight.ndim == 2 else F.unsqueeze(grad, -1) * F.conj(weight)
    ),
    weight=lambda F, grad, input, weight_shape: _weight_gradient(F, grad, input, weight_shape),
    bias=lambda F, grad, bias_shape: _sum_to_shape(F, grad, bias_shape),
    path="nn.functional.linear",
    node=_linear_node,
    mixed=same_dtypes(
        "expected m1 and m2 to have the same dtype, but got: {input.cpp} != {weight.cpp}",
        "self and mat2 must have the same dtype, but got {bias} and {weight}",
    ),
    samples=lambda: [
        case(floats(2, 3), floats(4, 3), floats(4)), case(floats(2, 3), floats(4, 3)),
        case(floats(3), floats(4, 3), floats(4)),
        case(floats(5, 2, 3), floats(4, 3), floats(4)), case(floats(0, 3), floats(4, 3), floats(4)),
        case(floats(2, 1), floats(4, 1), floats(4)), case(floats(2, 3), floats(3), floats()),
    ],
    autocast="lower",
    saved=_saved_by_linear,
    edges={
        **dict.fromkeys(("AddmmBackward0", "ViewBackward0"), ("bias", "input", "weight")),
        **dict.fromkeys(("MmBackward0", "SqueezeBackward4", "UnsafeViewBackward0"), ("input", "weight")),
    }, half_on_cuda="products",)  # fmt: skip
def linear(input, weight, bias=None):
    """Compute ``input @ weight.T + bias``: a linear layer, with the weight as (out features, in features).

    Returns
    -------
    Tensor
        Result of shape ``(*, out_features)``.

    Examples
    --------
    >>> weight = gc.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> gc.nn.functional.linear(gc.tensor([2.0, 3.0]), weight, bias=gc.tensor([0.0, 0.0, 1.0]))
    tensor([2., 3., 6.])
    """


linear.jvp("input")(lambda F, t, weight: F.linear(t, weight))
linear.jvp("weight")(lambda F, t, input: F.linear(input, t))
linear.jvp("bias")(same)


# -- beta * self + alpha * product ------------------------------------------------------------------------------------


def _samples(self, *operands):
    """Return samples with the full summand, with an expanded one and other factors, and without one."""

    def cases():
        products = [floats(*shape) for shape in operands]
        return [
            case(floats(*self), *products),
            case(floats(1), *products, beta=0.5, alpha=-2.0),
            case(floats(), *products, beta=0),
        ]

    return cases


def gradient_of_summand(F, grad, self_shape, beta):
    """Return the gradient of a summand of `self_shape` that was multiplied by `beta`."""
    return _sum_to_shape(F, scale(grad, beta.conjugate()), self_shape)


def _times_second(F, grad, second, alpha):
    return scale(F.times_adjoint(grad, second), alpha.conjugate())


def _times_first(F, grad, first, alpha):
    return scale(F.adjoint_times(first, grad), alpha.conjugate())


@general(
    self=gradient_of_summand,
    mat1=lambda F, grad, mat2, alpha: _times_second(F, grad, mat2, alpha),
    mat2=lambda F, grad, mat1, alpha: _times_first(F, grad, mat1, alpha),
    inplace=True,
    mixed=same_dtypes(
        "mat1 and mat2 must have the same dtype, but got {mat1} and {mat2}",
        "self and mat2 must have the same dtype, but got {self} and {mat2}",
    ),
    samples=_samples((2, 4), (2, 3), (3, 4)),
    autocast="lower",
    saved={"self_sym_sizes": None},
    numbers_first=True,
    half_on_cuda="products",
)
@native_body
def addmm(K, self, mat1, mat2, *, beta: Number = 1, alpha: Number = 1):
    """Compute ``beta * self + alpha * (mat1 @ mat2)`` of matrices.

    Returns
    -------
    Tensor
        Result of shape ``(n, p)``.

    Examples
    --------
    >>> gc.addmm(gc.tensor([1.0, 2.0]), gc.eye(2), gc.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 4.],
            [4., 6.]])
    """
    return K.add_product(self, K.mm(mat1, mat2), beta, alpha)


@general(
    self=gradient_of_summand,
    batch1=lambda F, grad, batch2, alpha: _times_second(F, grad, batch2, alpha),
    batch2=lambda F, grad, batch1, alpha: _times_first(F, grad, batch1, alpha),
    inplace=True,
    mixed=same_dtypes(
        "Input dtypes must be the same, got: input {self.cpp}, batch1: {batch1.cpp}, batch2: {batch2.cpp}"
    ),
    samples=_samples((2, 2, 4), (2, 2, 3), (2, 3, 4)),
    autocast="lower",
    saved={"self_sym_sizes": None},
    numbers_first=True,
    half_on_cuda="products",
)
def baddbmm(K, self, batch1, batch2, *, beta: Number = 1, alpha: Number = 1):
    """Compute ``beta * self + alpha * (batch1 @ batch2)`` of batches of matrices.

    Returns
    -------
    Tensor
        Result of shape ``(b, n, p)``.

    Examples
    --------
    >>> gc.baddbmm(gc.ones(1, 2, 2), gc.ones(1, 2, 3), gc.ones(1, 3, 2), alpha=2)
    tensor([[[7., 7.],
             [7., 7.]]])
    """
    return K.add_product(self, K.bmm(batch1, batch2), beta, alpha)


@general(
    self=gradient_of_summand,
    batch1=lambda F, grad, batch2, alpha: _times_second(F, grad, batch2, alpha),
    batch2=lambda F, grad, batch1, alpha: _times_first(F, grad, batch1, alpha),
    inplace=True,
    mixed=same_dtypes(
        "mat1 and mat2 must have the same dtype, but got {batch1} and {batch2}",
        "self and mat2 must have the same dtype, but got {self} and {batch2}",
    ),
    samples=_samples((2, 4), (5, 2, 3), (5, 3, 4)),
    autocast="lower",
    saved={
        "batch1_sym_argsize_0": lambda batch1_shape: batch1_shape and batch1_shape[0],
        "batch1_sym_argsize_1": lambda batch1_shape: batch1_shape and batch1_shape[1],
        "batch2_sym_argsize_2": lambda batch2_shape: batch2_shape and batch2_shape[2],
        "self_sym_sizes": None,
    },
    numbers_first=True,
)
def addbmm(K, self, batch1, batch2, *, beta: Number = 1, alpha: Number = 1):
    """Compute ``beta * self + alpha * sum(batch1 @ batch2)``, where the products of a batch are summed.

    Returns
    -------
    Tensor
        Result of shape ``(n, p)``.

    Examples
    --------
    >>> gc.addbmm(gc.zeros(2, 2), gc.ones(4, 2, 3), gc.ones(4, 3, 2))
    tensor([[12., 12.],
            [12., 12.]])
    """
    return K.add_product(self, K.sum_of_products(batch1, batch2), beta, alpha)


@general(
    self=gradient_of_summand,
    mat=lambda F, grad, vec, alpha: scale(F.outer(grad, F.conj(vec)), alpha.conjugate()),
    vec=lambda F, grad, mat, alpha: _times_first(F, grad, mat, alpha),
    inplace="function",
    mixed=same_dtypes("addmv input tensors must have the same dtype, but got {self}, {mat}, and {vec}"),
    samples=_samples((2,), (2, 3), (3,)),
    autocast="lower:cuda",
    saved={"self_sym_sizes": None},
    numbers_first=True,
)
def addmv(K, self, mat, vec, *, beta: Number = 1, alpha: Number = 1):
    """Compute ``beta * self + alpha * (mat @ vec)``.

    Returns
    -------
    Tensor
        Result of shape ``(n,)``.

    Examples
    --------
    >>> gc.addmv(gc.tensor([1.0, 1.0]), gc.tensor([[1.0, 2.0], [3.0, 4.0]]), gc.tensor([1.0, 1.0]))
    tensor([4., 8.])
    """
    return K.add_product(self, K.mv(mat, vec), beta, alpha)


@general(
    self=gradient_of_summand,
    vec1=lambda F, grad, vec2, alpha: scale(F.matmul(grad, F.conj(vec2)), alpha.conjugate()),
    vec2=lambda F, grad, vec1, alpha: scale(F.matmul(F.transpose(grad, 0, 1), F.conj(vec1)), alpha.conjugate()),
    inplace=True,
    mixed=lambda op, args: reduce(promote_types, (t.dtype for t in args[:3])),
    samples=_samples((2, 3), (2,), (3,)),
    autocast="lower:cuda",
    saved={"self_sym_sizes": None},
    numbers_first=True,
)
def addr(K, self, vec1, vec2, *, beta: Number = 1, alpha: Number = 1):
    """Compute ``beta * self + alpha * outer(vec1, vec2)``.

    Returns
    -------
    Tensor
        Result of shape ``(n, m)``.

    Examples
    --------
    >>> gc.addr(gc.zeros(2, 3), gc.tensor([1.0, 2.0]), gc.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 2., 3.],
            [2., 4., 6.]])
    """
    return K.add_product(self, K.outer(vec1, vec2), beta, alpha)


for _op in (addmm, baddbmm, addbmm, addmv, addr):
    _op.jvp("self")(lambda F, t, beta: scale(t, beta))

addmm.jvp("mat1")(lambda F, t, mat2, alpha: scale(F.mm(t, mat2), alpha))
addmm.jvp("mat2")(lambda F, t, mat1, alpha: scale(F.mm(mat1, t), alpha))
baddbmm.jvp("batch1")(lambda F, t, batch2, alpha: scale(F.bmm(t, batch2), alpha))
baddbmm.jvp("batch2")(lambda F, t, batch1, alpha: scale(F.bmm(batch1, t), alpha))
addbmm.jvp("batch1")(lambda F, t, batch2, alpha: scale(F.sum_of_products(t, batch2), alpha))
addbmm.jvp("batch2")(lambda F, t, batch1, alpha: scale(F.sum_of_products(batch1, t), alpha))
addmv.jvp("mat")(lambda F, t, vec, alpha: scale(F.mv(t, vec), alpha))
addmv.jvp("vec")(lambda F, t, mat, alpha: scale(F.mv(mat, t), alpha))
addr.jvp("vec1")(lambda F, t, vec2, alpha: scale(F.outer(t, vec2), alpha))
addr.jvp("vec2")(lambda F, t, vec1, alpha: scale(F.outer(vec1, t), alpha))
