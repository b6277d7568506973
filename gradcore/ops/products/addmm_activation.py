"""Matrix products with a summand and an activation, which CUDA computes in one call of cuBLASLt."""

from __future__ import annotations

from gradcore.ops.declare.annotations import Number
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite, general
from gradcore.ops.products.linear import addmm, gradient_of_summand, scale


@general(
    function=False,
    method=False,
    node="AddmmActivationBackward0",
    mixed=addmm.mixed,
    autocast="lower",
    half_on_cuda="products",
)
def addmm_relu(K, self, mat1, mat2, beta: Number = 1, alpha: Number = 1):
    """Compute `relu` of `addmm`."""
    return K.relu(K.addmm(self, mat1, mat2, beta, alpha))


@addmm_relu.vjp("self", "mat1", "mat2")
def _(F, grad, self_shape, mat1, mat2, result, beta, alpha, needs):
    grad = F.activation_backward(grad, result, False)
    return _gradients(F, grad, self_shape, mat1, mat2, beta, alpha, needs)


# The input of the activation is an output with a derivative, so that formulas of any order may read it.


@general(
    outputs=("result", "inner"),
    seen_outputs=(0,),
    function=False,
    method=False,
    node="AddmmActivationBackward0",
    materialize=False,
    mixed=addmm.mixed,
    autocast="lower",
    half_on_cuda="products",
)
def addmm_gelu(K, self, mat1, mat2, beta: Number = 1, alpha: Number = 1):
    """Return `gelu` of `addmm`, approximated by tanh, and the result of `addmm` itself."""
    inner = K.addmm(self, mat1, mat2, beta, alpha)
    return K.gelu(inner, "tanh"), inner


@addmm_gelu.vjp("self", "mat1", "mat2")
def _(F, grads, self_shape, mat1, mat2, inner, beta, alpha, needs):
    grad, of_inner = grads
    if grad is not None:
        grad = F.activation_backward(grad, inner, True)
        of_inner = grad if of_inner is None else grad + of_inner
    return _gradients(F, of_inner, self_shape, mat1, mat2, beta, alpha, needs)


@composite(function=False, method=False)
def activation_backward(F, grad, read, gelu: bool):
    """Return the gradient through the activation.

    `read` is the input of `gelu` or, if not `gelu`, the result of `relu`.
    """
    return grad * F.tanh_gelu_slope(read) if gelu else F.where(read <= 0, 0, grad)


def _gradients(F, grad, shape, mat1, mat2, beta, alpha, needs):
    """Return the gradients of `addmm` for the inputs that need one; the summand has the shape `shape`."""
    to_summand = to_first = to_second = None
    if needs[1]:
        to_first = scale(F.times_adjoint(grad, mat2), alpha)
    if needs[0] and needs[2] and tuple(shape) == tuple(grad.shape[1:]):
        to_second, to_summand = F.product_and_sum(mat1, grad)
        return scale(to_summand, beta), to_first, scale(to_second, alpha)
    if needs[0]:
        to_summand = gradient_of_summand(F, grad, shape, beta)
    if needs[2]:
        to_second = scale(F.adjoint_times(mat1, grad), alpha)
    return to_summand, to_first, to_second


@composite(function=False, method=False)
def product_and_sum(F, self, grad):
    """Return ``self.mH @ grad``, and the sum of the rows of `grad`."""
    return F.adjoint_times(self, grad), F.sum_rows(grad)


def _summand_tangent(F, t, shape, beta):
    return F.expand(scale(t, beta), shape)


@addmm_relu.jvp("self")
def _(F, t, result, beta):
    return F.activation_backward(_summand_tangent(F, t, result.shape, beta), result, False)


@addmm_relu.jvp("mat1")
def _(F, t, mat2, result, alpha):
    return F.activation_backward(scale(F.mm(t, mat2), alpha), result, False)


@addmm_relu.jvp("mat2")
def _(F, t, mat1, result, alpha):
    return F.activation_backward(scale(F.mm(mat1, t), alpha), result, False)


def _through_gelu(F, t, inner):
    return F.activation_backward(t, inner, True), t


@addmm_gelu.jvp("self")
def _(F, t, inner, beta):
    return _through_gelu(F, _summand_tangent(F, t, inner.shape, beta), inner)


@addmm_gelu.jvp("mat1")
def _(F, t, mat2, inner, alpha):
    return _through_gelu(F, scale(F.mm(t, mat2), alpha), inner)


@addmm_gelu.jvp("mat2")
def _(F, t, mat1, inner, alpha):
    return _through_gelu(F, scale(F.mm(mat1, t), alpha), inner)


@composite(path="_addmm_activation", method="_addmm_activation", samples=lambda: [
    case(floats(4), floats(2, 3), floats(3, 4)),
    case(floats(4), floats(2, 3), floats(3, 4), use_gelu=True),
    case(floats(2, 4), floats(2, 3), floats(3, 4), beta=0.5, alpha=-2.0),
    case(floats(1), floats(2, 3), floats(3, 4), beta=0.5, alpha=-2.0, use_gelu=True),
    case(floats(), floats(2, 3), floats(3, 4), beta=0), case(floats(4), floats(0, 3), floats(3, 4), use_gelu=True),
    case(floats(4), floats(2, 0), floats(0, 4)),
])  # fmt: skip
def addmm_activation(F, self, mat1, mat2, *, beta: Number = 1, alpha: Number = 1, use_gelu: bool = False):
    """Compute `relu` of ``beta * self + alpha * (mat1 @ mat2)``, or `gelu` approximated by tanh.

    Examples
    --------
    >>> gc._addmm_activation(gc.tensor([-10.0, 0.0]), gc.ones(1, 2), gc.eye(2))
    tensor([[0., 1.]])
    """
    if use_gelu:
        check_implemented("GeluKernelImpl", mat1, "bic")
    if mat1.is_complex():
        raise NotImplementedError("clamp is not supported for complex types")
    if use_gelu:
        return F.addmm_gelu(self, mat1, mat2, beta, alpha)[0]
    return F.addmm_relu(self, mat1, mat2, beta, alpha)
