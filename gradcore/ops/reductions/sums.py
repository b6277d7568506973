"""Reductions: sums, means, products and tests over dims."""

from __future__ import annotations

import math

from gradcore.core import dtypes
from gradcore.core.errors import warn_once
from gradcore.ops.declare.annotations import Dims, DType
from gradcore.ops.declare.checks import dtype_of
from gradcore.ops.declare.samples import bools, case, floats, ints
from gradcore.ops.declare.shapes import along, axes, keep_reduced_dims, reduced_size
from gradcore.ops.declare.table import composite, constant, general, linear


def spread(F, grad, shape, dim):
    """Expand the gradient of a reduction to the shape that was reduced."""
    if not grad.ndim:
        return F.expand(grad, shape)
    return F.expand(F.reshape(grad, keep_reduced_dims(shape, dim)), shape)


REAL_PARTS = "Casting complex values to real discards the imaginary part"


def run_accumulating(K, kernel, self, dtype):
    """Call ``kernel(array, dtype)``; compute results of half precision in float32, and round once."""
    if dtype is None or not dtype.is_reduced or not K.upcasts:
        return kernel(self, dtype)
    return K.to(kernel(K.to(K.to(self, dtype), dtypes.float32), None), dtype)


def _reduce(K, kernel, self, dim, keepdim, dtype):
    dims = None if dim is None else axes(dim, self.ndim)
    if dtype is None:
        return kernel(self, dims, keepdim)
    if self.dtype.kind == "c" and dtype.category in (1, 2):
        warn_once(REAL_PARTS)
        self = K.real(self)
    return run_accumulating(K, lambda x, wanted: kernel(x, dims, keepdim, wanted), self, dtype)


def _name_by_dim(name):
    """Return a function of `dim` that gives the node's name: number 0 for all dims, else 1."""
    all_dims, along_dims = f"{name}Backward0", f"{name}Backward1"
    return lambda dim: all_dims if dim is None else along_dims


def _hide_dims(node):
    """Return the saved settings that a node does not show: `dim` and `keepdim` if it reduced all dims."""
    return {"dim": None, "keepdim": None} if node.endswith("0") else {}


def _sum_samples():
    x = floats(3, 4, 2)
    return [
        case(x), case(x, dim=1), case(x, dim=(0, 2), keepdim=True), case(x, dim=()), case(x, dim=-1),
        case(floats(), dim=0), case(floats(40, 60), dim=0),
    ]  # fmt: skip


# -- sums and means ---------------------------------------------------------------------------------------------------


@linear(
    lambda F, grad, self_shape, dim: spread(F, grad, self_shape, dim),
    node=_name_by_dim("Sum"),
    samples=lambda: [*_sum_samples(), case(floats(0, 3), dim=0)],
    autocast="float32:cuda",
    saved=_hide_dims,
    half_on_cuda="reductions",
)
def sum(K, self, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None):
    """Return the sum over `dim` (all dims if None); integers and bools are summed in int64.

    Examples
    --------
    >>> gc.sum(gc.tensor([[1, 2], [3, 4]]))
    tensor(10)
    >>> gc.sum(gc.tensor([[1, 2], [3, 4]]), dim=0, keepdim=True)
    tensor([[4, 6]])
    """
    return _reduce(K, K.sum_over, self, dim, keepdim, dtype)


@general(
    lambda F, grad, self, dim: spread(F, grad, self.shape, dim) * (self == self), node="NansumBackward0",
    samples=_sum_samples, half_on_cuda="reductions",)  # fmt: skip
def nansum(K, self, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None):
    """Return the sum over `dim` in which NaN counts as zero.

    Examples
    --------
    >>> gc.nansum(gc.tensor([1.0, gc.nan, 2.0]))
    tensor(3.)
    """
    if self.dtype.kind == "c":
        raise RuntimeError("nansum on CPU does not support complex inputs")
    return _reduce(K, K.nansum_over, self, dim, keepdim, dtype)


@nansum.jvp("self")
def _(F, t, self, dim, keepdim):
    return F.sum(t * (self == self), dim, keepdim)


@linear(
    lambda F, grad, self_shape, dim: spread(F, grad / reduced_size(self_shape, dim), self_shape, dim),
    node=_name_by_dim("Mean"),
    samples=_sum_samples,
    saved=lambda node: {"self_sym_numel": lambda self_shape: math.prod(self_shape)} | _hide_dims(node),
    half_on_cuda="reductions",
)
def mean(K, self, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None):
    """Return the arithmetic mean over `dim` (all dims if None).

    Examples
    --------
    >>> gc.mean(gc.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
    tensor([1.5000, 3.5000])
    """
    if (self.dtype.kind in "biu") if dtype is None else not dtype.is_differentiable:
        which, name = ("Input", dtype_of(self).scalar_name) if dtype is None else ("Optional", dtype.scalar_name)
        raise RuntimeError(
            f"mean(): could not infer output dtype. {which} dtype must be either a floating point or complex dtype. "
            f"Got: {name}"
        )
    return _reduce(K, K.mean_over, self, dim, keepdim, dtype)


@composite(samples=_sum_samples)
def nanmean(F, self, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None):
    """Return the arithmetic mean over `dim` of the elements that are not NaN.

    Examples
    --------
    >>> gc.nanmean(gc.tensor([1.0, gc.nan, 2.0]))
    tensor(1.5000)
    """
    if not self.dtype.is_differentiable:
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got " + self.dtype.scalar_name
        )
    return F.nansum(self, dim, keepdim, dtype=dtype) / F.sum(self == self, dim, keepdim)


# -- products ---------------------------------------------------------------------------------------------------------


def _others(F, self, dim):
    """Return, for each element, the product of the other elements in a reduction over `dim` (None: all)."""
    if dim is not None and self.shape:
        return F.prod_others(self, dim)
    return F.reshape(F.prod_others(F.reshape(self, (-1,)), 0), self.shape)


def _prod_samples():
    zeros = floats(3, 4, form="zeros")
    return [
        case(floats(3, 4)), case(floats(3, 4), dim=1), case(floats(3, 4), dim=0, keepdim=True), case(zeros, dim=0),
        case(zeros), case(floats(), dim=0), case(floats(0, 2), dim=0), case(floats(2, 7), dim=-1),
    ]  # fmt: skip


@general(
    lambda F, grad, self, dim: F.reshape(grad, keep_reduced_dims(self.shape, dim)) * F.conj(_others(F, self, dim)),
    node=_name_by_dim("Prod"),
    samples=_prod_samples,
    autocast="float32",
    saved=_hide_dims,
    half_on_cuda="reductions forward",
)
def prod(K, self, dim: int | None = None, keepdim: bool = False, *, dtype: DType = None):
    """Return the product over `dim` (all dims if None); integers and bools are multiplied in int64.

    Examples
    --------
    >>> gc.prod(gc.tensor([[1, 2], [3, 4]]), dim=1)
    tensor([ 2, 12])
    """
    return _reduce(K, K.prod_over, self, dim, keepdim, dtype)


@prod.jvp("self")
def _(F, t, self, dim, keepdim):
    return F.sum(t * _others(F, self, dim), dim, keepdim)


def _products_without(F, t, self, dim):
    """Compute ``out[j] = sum over i != j of t[i] * (product of all but the elements i and j)``, without division."""
    before = F.shift(F.cumprod(self, dim), dim, 1, 1)
    after = F.shift(F.flip(F.cumprod(F.flip(self, (dim,)), dim), (dim,)), dim, -1, 1)
    change_before = F.shift(F.scan(self, t * before, dim), dim, 1)
    change_after = F.shift(F.scan(self, t * after, dim, True), dim, -1)
    return change_before * after + before * change_after


@general(
    lambda F, grad, self, dim: _products_without(F, grad, F.conj(self), dim),
    function=False,
    method=False,
    samples=lambda: [case(floats(4, 3), 0), case(floats(4, 3, form="zeros"), 0), case(floats(2, 5), -1)],
)
def prod_others(K, self, dim: int):
    """Return, for each element, the product of all others along `dim`, without division."""
    return along(K.prod_others_along, self, dim)


@prod_others.jvp("self")
def _(F, t, self, dim):
    return _products_without(F, t, self, dim)


# -- tests ------------------------------------------------------------------------------------------------------------


def _test_samples():
    x = bools(3, 4)
    return [
        case(x),
        case(x, dim=1),
        case(x, dim=(0, 1), keepdim=True),
        case(ints(2, 3), dim=0),
        case(bools(0, 2), dim=0),
    ]


def _tested_axes(dim, ndim):
    """Return `dim` as `axes` does, but an empty sequence means no dims, as in PyTorch."""
    return () if dim == () else axes(dim, ndim)


def _as_test_result(K, result, self):
    """Return the result of a test as bool, or as uint8 for an input of uint8."""
    return K.astype(result, "uint8") if self.dtype == "uint8" else result


@constant(constant="results are bools", samples=_test_samples)
def any(K, self, dim: Dims = None, keepdim: bool = False):
    """Return whether any element over `dim` is not zero.

    Examples
    --------
    >>> gc.any(gc.tensor([[True, False], [False, False]]), dim=1)
    tensor([ True, False])
    """
    return _as_test_result(K, K.any_over(self, _tested_axes(dim, self.ndim), keepdim), self)


@constant(constant="results are bools", samples=_test_samples)
def all(K, self, dim: Dims = None, keepdim: bool = False):
    """Return whether no element over `dim` is zero.

    Examples
    --------
    >>> gc.all(gc.tensor([[True, True], [True, False]]), dim=1)
    tensor([ True, False])
    """
    return _as_test_result(K, K.all_over(self, _tested_axes(dim, self.ndim), keepdim), self)


@constant(
    constant="results are counts",
    samples=lambda: [case(ints(3, 4, high=2)), case(ints(3, 4, high=2), dim=(0, 1)), case(floats(2, 0), dim=1)],
)
def count_nonzero(K, self, dim: Dims = None):
    """Return the number of elements over `dim` that are not zero.

    Examples
    --------
    >>> gc.count_nonzero(gc.tensor([0, 1, 2]))
    tensor(2)
    """
    return K.count_over(self != 0, axes(dim, self.ndim))


@composite(
    data_dependent=True,
    samples=lambda: [case(floats(2, 3), floats(2, 3)), case(floats(2), floats(3)), case(ints(0), ints(0))],
)
def equal(F, self, other):
    """Return whether two tensors have the same shape and equal elements, as a bool.

    Returns
    -------
    bool

    Examples
    --------
    >>> gc.equal(gc.tensor([1, 2]), gc.tensor([1, 2]))
    True
    """
    return self.shape == other.shape and bool(F.all(self == other))


@composite(data_dependent=True, samples=lambda: [case(floats(2, 3), floats(2, 3)), case(floats(2, 3), floats(3), 10.0)])
def allclose(F, self, other, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False):
    """Return whether ``abs(self - other) <= atol + rtol * abs(other)`` everywhere, as a bool.

    Returns
    -------
    bool

    Examples
    --------
    >>> gc.allclose(gc.tensor([1.0, 2.0]), gc.tensor([1.0, 2.0 + 1e-7]))
    True
    """
    return bool(F.all(F.isclose(self, other, rtol, atol, equal_nan)))
