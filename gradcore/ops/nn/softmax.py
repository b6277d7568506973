"""The softmax family: logarithms of sums of exponentials, and normalised exponentials."""

from __future__ import annotations

import warnings

from gradcore.core import dtypes
from gradcore.core.errors import caller_depth
from gradcore.ops.declare.annotations import Dims, DType
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.shapes import all_dims, along, keep_reduced_dims
from gradcore.ops.declare.table import composite, general
from gradcore.ops.reductions.sums import run_accumulating

# -- logsumexp --------------------------------------------------------------------------------------------------------


def _weights(F, self, result):
    """Return the derivative of logsumexp: softmax, over one or several dims, which have the size 1 in `result`."""
    return F.exp(F.sub(self, result))


@composite(function=False, method=False)
def logsumexp_backward(F, grad, self, result):
    """Return the gradient of `logsumexp`; reduced dims have the size 1 in `grad` and `result`."""
    return F.mul(F.conj(_weights(F, self, result)), grad)


def _logsumexp_vjp(F, grad, self, result, dim):
    shape = keep_reduced_dims(self.shape, dim)
    return F.logsumexp_backward(F.reshape(grad, shape), self, F.reshape(result, shape))


@general(
    _logsumexp_vjp,
    aliases=("special.logsumexp",),
    samples=lambda: [
        case(floats(3, 4), 1), case(floats(3, 4), (0, 1), True), case(floats(), 0), case(floats(2, 1), -2),
        case(floats(3, 4, low=800, high=1200), 0),
    ],
    autocast="float32:cuda",
    half_on_cuda="reductions",
)  # fmt: skip
def logsumexp(K, self, dim: Dims, keepdim: bool = False):
    """Compute ``log(sum(exp(self)))`` over `dim`, without overflow.

    Examples
    --------
    >>> gc.logsumexp(gc.tensor([[0.0, 0.0], [1.0, 1.0]]), dim=1)
    tensor([0.6931, 1.6931])
    """
    if self.dtype.kind in "biu":
        self = K.to(self, dtypes.get_default_dtype())
    return K.logsumexp_over(self, all_dims(dim, self.ndim), keepdim)


@logsumexp.jvp("self")
def _(F, t, self, result, dim, keepdim):
    result = F.reshape(result, keep_reduced_dims(self.shape, dim))
    return F.sum(t * _weights(F, self, result), dim, keepdim)


# -- softmax ----------------------------------------------------------------------------------------------------------


def _softmax_samples():
    return [
        case(floats(3, 4), 1), case(floats(3, 4), 0), case(floats(2, 3, 4), -2), case(floats(), 0),
        case(floats(2, 3, low=800, high=1200), -1), case(floats(0, 3), 1), case(floats(3, 1), 1),
    ]  # fmt: skip


@general(
    lambda F, grad, result, dim: F.softmax_backward(grad, result, dim),
    aliases=("special.softmax",),
    samples=_softmax_samples,
    autocast="float32:cuda",
    half_on_cuda="softmax",
)
def softmax(K, self, dim: int, dtype: DType = None):
    """Return the exponentials along `dim`, divided by their sum: positive numbers that sum to one.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.softmax(gc.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([0.0900, 0.2447, 0.6652])
    """
    return _run_kernel(K, K.softmax_along, "softmax_kernel_impl", self, dim, dtype)


@softmax.jvp("self")
def _(F, t, result, dim):
    return F.softmax_backward(t, result, dim)


@general(
    grad=lambda F, t, y, dim: F.softmax_backward(t, y, dim),
    y=lambda F, t, grad, y, dim: t * (grad - F.sum(grad * y, dim, True)) - grad * F.sum(t * y, dim, True),
    function=False,
    method=False,
    node="SoftmaxBackwardDataBackward0",
    samples=lambda: [case(floats(3, 4), floats(3, 4), 1), case(floats(3, 4), floats(3, 4), 0)],
)
def softmax_backward(K, grad, y, dim: int):
    """Return the gradient or tangent through softmax, given its result `y`.

    Both are the same: the Jacobian matrix is symmetric.
    """
    return _joint(K.softmax_product, grad, y, dim)


@general(
    lambda F, grad, result, dim: F.log_softmax_backward(grad, result, dim),
    aliases=("special.log_softmax",),
    samples=_softmax_samples,
    autocast="float32:cuda",
    half_on_cuda="softmax",
)
def log_softmax(K, self, dim: int, dtype: DType = None):
    """Return the logarithm of softmax, computed without taking the logarithm of small numbers.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.log_softmax(gc.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([-2.4076, -1.4076, -0.4076])
    """
    return _run_kernel(K, K.log_softmax_along, "log_softmax_kernel_impl", self, dim, dtype)


@log_softmax.jvp("self")
def _(F, t, result, dim):
    return t - F.sum(t * F.exp(result), dim, True)


@general(
    grad=lambda F, t, y, dim: t - F.sum(t * F.exp(y), dim, True),
    y=lambda F, t, grad, y, dim: -t * F.exp(y) * F.sum(grad, dim, True),
    function=False,
    method=False,
    node="LogSoftmaxBackwardDataBackward0",
    samples=lambda: [case(floats(3, 4), floats(3, 4), 1), case(floats(3, 4), floats(3, 4), 0)],
)
def log_softmax_backward(K, grad, y, dim: int):
    """Return the gradient through log_softmax, given its result `y`."""
    return _joint(K.log_softmax_transposed, grad, y, dim)


def _run_kernel(K, kernel, kernel_name, self, dim, dtype):
    if dtype is None:
        check_implemented(kernel_name, self, "bic")
        return along(kernel, self, dim)
    return run_accumulating(
        K, lambda x, wanted: along(kernel, x if wanted is None else K.to(x, wanted), dim), self, dtype
    )


def _joint(kernel, grad, y, dim):
    """Run a kernel of a gradient and a result along `dim`."""
    if y.ndim:
        return kernel(grad, y, dim)
    return kernel(grad.reshape((1,)), y.reshape((1,)), 0).reshape(())


# -- under their names in nn.functional -------------------------------------------------------------------------------


def _implicit_dim(name, ndim):
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=caller_depth(),
    )
    return 0 if ndim in (0, 1, 3) else 1


@composite(name="nn_softmax", path="nn.functional.softmax", samples=_softmax_samples)
def _(F, self, dim: int | None = None, _stacklevel: int = 3, dtype: DType = None):
    """Return the exponentials along `dim`, divided by their sum: positive numbers that sum to one.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.nn.functional.softmax(gc.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([0.0900, 0.2447, 0.6652])
    """
    return F.softmax(self, _implicit_dim("softmax", self.ndim) if dim is None else dim, dtype)


@composite(name="nn_log_softmax", path="nn.functional.log_softmax", samples=_softmax_samples)
def _(F, self, dim: int | None = None, _stacklevel: int = 3, dtype: DType = None):
    """Return the logarithm of softmax, computed without taking the logarithm of small numbers.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.nn.functional.log_softmax(gc.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([-2.4076, -1.4076, -0.4076])
    """
    return F.log_softmax(self, _implicit_dim("log_softmax", self.ndim) if dim is None else dim, dtype)


@composite(path="nn.functional.softmin", samples=_softmax_samples)
def softmin(F, self, dim: int | None = None, _stacklevel: int = 3, dtype: DType = None):
    """Compute ``softmax(-self)``.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.nn.functional.softmin(gc.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([0.6652, 0.2447, 0.0900])
    """
    return F.softmax(-self, _implicit_dim("softmin", self.ndim) if dim is None else dim, dtype)
