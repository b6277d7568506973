"""Statistics: variances, medians, modes, quantiles and covariances."""

from __future__ import annotations

import math
from math import prod

from gradcore.core import dtypes
from gradcore.core.errors import warn
from gradcore.ops.declare.annotations import Dims, Scalar, Tensor
from gradcore.ops.declare.checks import check_implemented, check_reducible
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.shapes import along, axes, keep_reduced_dims, reduced_size, remove_reduced_dims, wrap_dim
from gradcore.ops.declare.table import composite, general
from gradcore.ops.reductions.minmax import mean_of_equals, selection, shared_by_equals
from gradcore.ops.reductions.sums import spread

# -- variance and standard deviation ----------------------------------------------------------------------------------


def _scaled_distances(F, self, dim, correction):
    """Return the derivative of the variance: twice the distance from the mean over the degrees of freedom."""
    degrees = reduced_size(self.shape, dim) - correction
    return (self - F.mean(self, dim, True)) * (2 / degrees if degrees > 0 else math.inf)


def _var_vjp(F, grad, self, root, dim, correction):
    """Return the gradient of variances or, if `root` is not None, of their roots."""
    degrees, shape = reduced_size(self.shape, dim) - correction, keep_reduced_dims(self.shape, dim)
    root = None if root is None else F.reshape(root, shape)
    factor = 2 / degrees if degrees > 0 else math.inf
    return F.var_backward(F.reshape(grad, shape), self, F.mean(self, dim, True), root, factor)


@composite(function=False, method=False)
def var_backward(F, grad, self, mean, root, factor: float):
    """Return the gradient of variances or, if `root` is not None, of their roots; reduced dims have the size 1."""
    grad = grad if root is None else _divide_by_root(F, grad, root)
    # As `_scaled_distances`, but factors that many elements share are multiplied first.
    return F.mul(F.sub(self, mean), grad * factor)


def _var_jvp(F, t, self, dim, correction, keepdim):
    return F.sum(F.real(t * F.conj(_scaled_distances(F, self, dim, correction))), dim, keepdim)


def _divide_by_root(F, t, root):
    """Compute ``t / (2 * root)``, the differential of a root; zero where the root is zero."""
    return F.where(root == 0, 0, t / (2 * root))


def _mean_vjp(F, grad, self, dim):
    return spread(F, grad / reduced_size(self.shape, dim), self.shape, dim)


def _plus(a, b):
    """Return the sum of two gradients, either of which may be None."""
    return b if a is None else a if b is None else a + b


def _moments(K, name, self, dim, correction, keepdim):
    """Return the variance (or its root) and the mean, in their final shape and dtype."""
    if self.dtype.kind in "biu":
        raise RuntimeError("std and var only support floating point and complex dtypes")
    rest = remove_reduced_dims(self.shape, dim)
    count = prod(self.shape) // max(1, prod(rest))
    if count <= correction:
        warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel)."
        )
    correction = correction if count else max(correction, 0)  # The variance of nothing is NaN.
    var, mean = K.var_mean_over(self, axes(dim, self.ndim), correction, name.startswith("std"))
    shape = keep_reduced_dims(self.shape, dim) if keepdim else rest
    var = var if var.dtype == self.real.dtype else K.astype(var, self.real.dtype)
    return var.reshape(shape), mean.reshape(shape)


def _arguments(dim, unbiased, correction):
    """Return the dims and the correction of a call in any of its overloads.

    They are ``var(unbiased)``, ``var(dim, unbiased)`` and ``var(dim)``.
    """
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 0 if unbiased is False else 1
    elif unbiased is not None:
        raise TypeError("give either 'unbiased' or 'correction', not both")
    return dim, correction


def _moment_samples():
    return [
        case(floats(3, 4)), case(floats(3, 4), 1, False, True), case(floats(3, 4), (0, 1)),
        case(floats(2, 3, 4), (0, 2), correction=2), case(floats(5), False),
    ]  # fmt: skip


_PARAMETERS = """

    Parameters
    ----------
    dim : int or tuple of int, optional
        All dims if None.
    unbiased : bool
        Whether to divide the sum of squares by one less than the number of elements: ``correction=1``, the default.
    keepdim : bool
        Whether the reduced dims stay, with size 1.
    correction : float, optional
        What is taken from the number of elements.
"""


#: The derivatives of the variance, alone and beside the mean: vjp, jvp, vjp, jvp. They do not read the result.
_OF_VARIANCE = (
    lambda F, grad, self, dim, correction: _var_vjp(F, grad, self, None, dim, correction),
    _var_jvp,
    lambda F, grads, self, dim, correction: _plus(
        None if grads[0] is None else _var_vjp(F, grads[0], self, None, dim, correction),
        None if grads[1] is None else _mean_vjp(F, grads[1], self, dim),
    ),
    lambda F, t, self, dim, correction, keepdim: (
        _var_jvp(F, t, self, dim, correction, keepdim), F.mean(t, dim, keepdim),
    ),
)  # fmt: skip

#: The derivatives of the standard deviation, in the same order.
_OF_ROOT = (
    lambda F, grad, self, result, dim, correction: _var_vjp(F, grad, self, result, dim, correction),
    lambda F, t, self, result, dim, correction, keepdim: _divide_by_root(
        F, _var_jvp(F, t, self, dim, correction, keepdim), result
    ),
    lambda F, grads, self, result, dim, correction: _plus(
        None if grads[0] is None else _var_vjp(F, grads[0], self, result, dim, correction),
        None if grads[1] is None else _mean_vjp(F, grads[1], self, dim),
    ),
    lambda F, t, self, result, dim, correction, keepdim: (
        _divide_by_root(F, _var_jvp(F, t, self, dim, correction, keepdim), result), F.mean(t, dim, keepdim),
    ),
)  # fmt: skip


def _declare_moments(name, text, root):
    """Declare ``var`` or ``std``, and the operation that returns it with the mean."""
    node = name.title()
    options = {"path": name, "function": False, "method": False, "half_on_cuda": "reductions forward"}
    vjp, jvp, vjp_of_pair, jvp_of_pair = _OF_ROOT if root else _OF_VARIANCE

    def single(K, self, dim: Dims, correction: Scalar, keepdim: bool = False):
        return _moments(K, name, self, dim, correction, keepdim)[0]

    def pair(K, self, dim: Dims, correction: Scalar, keepdim: bool = False):
        return _moments(K, f"{name}_mean", self, dim, correction, keepdim)

    variant = general(vjp, name=f"{name}_correction", node=f"{node}Backward0", **options)(single)
    variant.jvp("self")(jvp)
    outputs = ("result", "mean")
    options.update(name=f"{name}_mean_correction", node=f"{node}MeanBackward0", outputs=outputs, materialize=False)
    options["saved"] = {"result0": "result"} if root else {}
    two = general(vjp_of_pair, **options)(pair)
    two.jvp("self")(jvp_of_pair)

    def alone(
        F,
        self,
        dim: bool | Dims = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: Scalar | None = None,
    ):
        dim, correction = _arguments(dim, unbiased, correction)
        return getattr(F, f"{name}_correction")(self, dim, correction, keepdim)

    def with_mean(
        F,
        self,
        dim: bool | Dims = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: Scalar | None = None,
    ):
        dim, correction = _arguments(dim, unbiased, correction)
        return getattr(F, f"{name}_mean_correction")(self, dim, correction, keepdim)

    single.__doc__ = f"Return the {text} over `dim`."
    pair.__doc__ = f"Return the {text} and the mean over `dim`."
    alone.__doc__ = f"Return the {text} over `dim`.{_PARAMETERS}"
    with_mean.__doc__ = f"Return the {text} and the mean over `dim`, as a tuple.{_PARAMETERS}"
    of_numpy = {"ddof": "correction"}
    composite(name=name, samples=_moment_samples, also=of_numpy)(alone)
    composite(name=f"{name}_mean", method=False, samples=_moment_samples, also=of_numpy)(with_mean)


_declare_moments("var", "variance", False)
_declare_moments("std", "standard deviation", True)


# -- medians, modes, k-th values --------------------------------------------------------------------------------------


def _median_samples():
    x = floats(3, 4, form="distinct")
    return [case(x), case(x, 1), case(x, 0, True), case(floats()), case(floats(), 0), case(floats(2, 3, 4), -2)]


def _declare_median(name, text, ignore_nan):
    title = name.title()
    options = {"function": False, "method": False, "half_on_cuda": "selection forward"}

    def reduce_all(K, self):
        check_implemented("median_cpu", self, "bc")
        if not self.size:
            return K.new_zeros(self, ()) * math.nan if self.dtype.kind == "f" else K.new_zeros(self, ())
        return K.median_along(self.reshape((-1,)), 0, False, ignore_nan)[0]

    def reduce_dim(K, self, dim: int, keepdim: bool = False):
        check_reducible(name, self.shape, dim)
        check_implemented("median_cpu", self, "bc")
        return along(K.median_along, self, dim, keepdim, ignore_nan)

    def overloads(F, self, dim: int | None = None, keepdim: bool = False):
        if dim is None:
            return getattr(F, f"{name}_all")(self)
        return getattr(F, f"{name}_dim")(self, dim, keepdim)

    reduce_all.__doc__ = f"Return the {text} of all elements."
    reduce_dim.__doc__ = f"Return the {text} along a dim, and its index."
    overloads.__doc__ = f"""Return the {text}. Of an even number of elements, it is the lower one of the middle two.

    Along a dim, the result is a named tuple ``(values, indices)``, and the gradient goes to the element of the index.
    Without a dim it is a tensor, and equal elements share the gradient evenly.
    """
    op = general(shared_by_equals, name=f"{name}_all", path=name, node=f"{title}Backward0", **options)(reduce_all)
    op.jvp("self")(mean_of_equals)
    selection(reduce_dim, name, name=f"{name}_dim", node=f"{title}Backward1", **options)
    forms = ("", "Tensor"), ("dim: int, keepdim: bool = ...", f"return_types.{name}")
    composite(name=name, samples=_median_samples, overloads=forms)(overloads)


_declare_median("median", "median, or NaN if any element is NaN", False)
_declare_median("nanmedian", "median of the elements that are not NaN", True)


def kthvalue(K, self, k: int, dim: int = -1, keepdim: bool = False):
    """Return the k-th smallest element along `dim`, and its index.

    Examples
    --------
    >>> gc.kthvalue(gc.tensor([3, 1, 2]), 2)
    torch.return_types.kthvalue(
    values=tensor(2),
    indices=tensor(2))
    """
    wrapped = wrap_dim(dim, self.ndim)
    check_reducible("kthvalue", self.shape, dim)
    if not 1 <= k <= (self.shape or (1,))[wrapped]:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {wrapped}")
    check_implemented("kthvalue_cpu", self, "bc")
    return along(K.kthvalue_along, self, dim, k, keepdim)


selection(
    kthvalue,
    "kthvalue",
    half_on_cuda="selection forward",
    saved={"k": None},
    samples=lambda: [case(floats(3, 5), 2), case(floats(4, 3), 1, 0, True), case(floats(), 1)],
)


def mode(K, self, dim: int = -1, keepdim: bool = False):
    """Return the most frequent element along `dim`, the smallest of several, and its last index.

    Examples
    --------
    >>> gc.mode(gc.tensor([1, 2, 2, 3]))
    torch.return_types.mode(
    values=tensor(2),
    indices=tensor(2))
    """
    check_reducible("mode", self.shape, dim)
    check_implemented("mode_cpu", self, "c")
    return along(K.mode_along, self, dim, keepdim)


selection(
    mode,
    "mode",
    half_on_cuda="selection forward",
    samples=lambda: [case(floats(3, 5)), case(floats(4, 3), 0, True), case(floats())],
)


# -- quantiles --------------------------------------------------------------------------------------------------------


def _quantile_arguments(F, name, self, q, interpolation):
    """Check the arguments of a quantile."""
    if not self.numel():
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if self.dtype.name not in ("float32", "float64"):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if isinstance(q, (int, float)):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        return
    if q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if q.dtype is not self.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if q.device != self.device:
        raise RuntimeError(f"{name}() q tensor must be on the same device as the input tensor")
    # On a device, the host would have to wait for the check.
    if q.device.type == "cpu" and F.holds_anywhere(~((q >= 0) & (q <= 1))):
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")


def _quantile_at(F, values, q, interpolation):
    """Return the quantile `q`, a number of Python, of sorted rows. It is NaN where the last element is NaN."""
    number = values.dtype.numpy.type
    rank = number(q) * number(values.shape[-1] - 1)  # rounded as a product of tensors is
    if interpolation == "nearest":
        rank = round(rank)
    below, last = (math.ceil if interpolation == "higher" else math.floor)(rank), values[..., -1:]
    quantiles = values[..., below : below + 1]
    if interpolation in ("linear", "midpoint"):
        above = math.ceil(rank)
        weight = 0.5 if interpolation == "midpoint" else float(rank - below)
        quantiles = F.lerp(quantiles, values[..., above : above + 1], weight)
    return F.where(last == last, quantiles, last)


def _quantiles_at(F, values, points, interpolation, ignore_nan):
    """Return the quantiles `points`, a tensor with one dim, of sorted rows."""
    if ignore_nan:
        ranks = F.clamp(points * (F.sum(values == values, -1, True) - 1), min=0)
    else:  # with a NaN among them, all quantiles are the NaN that was sorted last
        last, largest = values.shape[-1] - 1, values[..., -1:]
        ranks = F.where(largest == largest, points * last, F.full_like(points, last))
    if interpolation in ("lower", "higher", "nearest"):
        ranks = {"lower": F.floor, "higher": F.ceil, "nearest": F.round}[interpolation](ranks)
    below = F.to(ranks.detach(), dtypes.int64)
    quantiles = F.gather(values, -1, below)
    if interpolation in ("linear", "midpoint"):
        above = F.gather(values, -1, F.to(F.ceil(ranks.detach()), dtypes.int64))
        quantiles = F.lerp(quantiles, above, F.full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - below)
    return quantiles


def _quantile(F, name, self, q, dim, keepdim, interpolation, ignore_nan):
    _quantile_arguments(F, name, self, q, interpolation)
    if dim is None:
        moved = F.reshape(self, (-1,))
    else:
        dim = wrap_dim(dim, self.ndim)
        moved = F.movedim(self, dim, -1) if self.ndim else F.reshape(self, (1,))
    values = F.sort(moved, -1)[0]
    if isinstance(q, (int, float)) and not ignore_nan:
        quantiles, is_single = _quantile_at(F, values, q, interpolation), True
    else:
        q = F.full((), q, dtype=self.dtype, device=self.device) if isinstance(q, (int, float)) else q
        quantiles, is_single = _quantiles_at(F, values, F.reshape(q, (-1,)), interpolation, ignore_nan), not q.ndim
    if not self.ndim:
        quantiles = F.reshape(quantiles, (-1,))
    elif keepdim:
        quantiles = (
            F.reshape(quantiles, (1,) * self.ndim + quantiles.shape) if dim is None else F.unsqueeze(quantiles, dim)
        )
    return F.unsafe_view(F.squeeze(quantiles, -1) if is_single else F.movedim(quantiles, -1, 0))


_QUANTILE = """

    Parameters
    ----------
    q : float or Tensor
        Numbers between 0 and 1; a 1-D tensor of them adds a leading dim to the result.
    dim : int, optional
        All elements are taken together if None.
    keepdim : bool
        Whether the reduced dim stays, with size 1.
    interpolation : {"linear", "lower", "higher", "midpoint", "nearest"}
        What to take where the quantile lies between two elements.
"""


def _quantile_samples():
    x = floats(3, 4, form="distinct")
    return [
        case(x, 0.3), case(x, 0.6, 1, True), case(x, floats(3, low=0.1, high=0.9), 0), case(floats(), 0.5),
        *(case(x, 0.4, 1, interpolation=how) for how in ("lower", "higher", "midpoint", "nearest")),
    ]  # fmt: skip


def _declare_quantile(name, text, ignore_nan):
    def function(
        F, self, q: float | Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
    ):
        return _quantile(F, name, self, q, dim, keepdim, interpolation, ignore_nan)

    function.__doc__ = text + _QUANTILE
    composite(name=name, samples=_quantile_samples, autocast="float32:cpu")(function)


_declare_quantile("quantile", "Return quantiles along a dim. They are NaN where any element is NaN.", False)
_declare_quantile("nanquantile", "Return quantiles along a dim, ignoring NaN.", True)


# -- covariances ------------------------------------------------------------------------------------------------------


def _check_weights(F, name, weights, observations, kind, wanted):
    """Raise if weights of observations have a wrong shape or dtype, or if one is negative."""
    if weights.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} dimensions"
        )
    if not wanted(weights.dtype):
        raise RuntimeError(
            f"cov(): expected {name} to have {kind} dtype but got {name} with {weights.dtype.scalar_name} dtype"
        )
    if weights.numel() != observations:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{weights.numel()} != {observations}"
        )
    if F.holds_anywhere(weights < 0):
        raise RuntimeError(f"cov(): {name} cannot be negative")


def _two_dims(F, name, self):
    if self.ndim > 2:
        raise RuntimeError(
            f"{name}(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions"
        )
    return self if self.ndim == 2 else F.reshape(self, (1, -1))


@composite(samples=lambda: [case(floats(3, 5)), case(floats(6), correction=0)])
def cov(F, self, *, correction: int = 1, fweights=None, aweights=None):
    """Return the covariance matrix of variables (rows) from observations (columns).

    Parameters
    ----------
    correction : int
        The number that is subtracted from the number of observations in the divisor.
    fweights : Tensor, optional
        The number of times that each observation was made, as integers.
    aweights : Tensor, optional
        The weight of each observation.

    Returns
    -------
    Tensor
        Result of shape ``(variables, variables)``.

    Examples
    --------
    >>> gc.cov(gc.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    rows = _two_dims(F, "cov", self)
    observations = rows.shape[1]
    weights = None
    if fweights is not None:
        _check_weights(F, "fweights", fweights, observations, "integral", lambda d: d.category == 1)
        weights = fweights
    if aweights is not None:
        _check_weights(F, "aweights", aweights, observations, "floating point", lambda d: d.is_floating_point)
        weights = aweights if weights is None else weights * aweights
    if weights is None:
        total = observations
        if total <= correction:
            warn(
                "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations."
            )
        divisor = max(total - correction, 0)
        away = rows - F.sum(rows, 1, True) / total
        products = F.matmul(away, F.conj(F.transpose(away, 0, 1)))
    else:
        total = F.sum(weights)
        if F.holds_anywhere(total == 0):
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        subtracted = correction if aweights is None else correction * F.sum(weights * aweights) / total
        divisor = F.clamp(total - subtracted, min=0)
        away = rows - F.sum(rows * weights, 1, True) / total
        products = F.matmul(away, F.conj(F.transpose(away * weights, 0, 1)))
    return F.squeeze(products / divisor)


@composite(samples=lambda: [case(floats(3, 5)), case(floats(2, 4))])
def corrcoef(F, self):
    """Return the correlation coefficients of variables (rows) from observations (columns).

    Returns
    -------
    Tensor
        Result of shape ``(variables, variables)``.

    Examples
    --------
    >>> gc.corrcoef(gc.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    _two_dims(F, "corrcoef", self)
    products = F.cov(self)
    if not products.ndim:
        return products / products
    variances = F.diagonal(products)
    spreads = F.sqrt(F.real(variances))
    ratios = products / F.unsqueeze(spreads, 1) / F.unsqueeze(spreads, 0)
    if not ratios.dtype.is_complex:
        return F.clamp(ratios, -1, 1)
    return F.complex(F.clamp(F.real(ratios), -1, 1), F.clamp(F.imag(ratios), -1, 1))
