"""Reductions and normalizations of the elements that a mask selects: ``gradcore.masked``.

The other elements are replaced by the identity of the reduction (0 for a sum, 1 for a product, an infinity for an
extremum). This is also the result where no element is selected.
"""

from __future__ import annotations

import math

from gradcore.core import dtypes
from gradcore.ops.declare.annotations import Dims, DType, Scalar
from gradcore.ops.declare.samples import Values, case, floats
from gradcore.ops.declare.shapes import reduced_size, wrap_dim
from gradcore.ops.declare.table import composite


def _mask(F, self, mask):
    """Return the mask expanded to the shape of `self`, as PyTorch does."""
    if mask.ndim > self.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    return F.expand(F.to(mask, dtypes.bool_), self.shape)


def _fill_masked(F, self, mask, value):
    return self if mask is None else F.where(_mask(F, self, mask), self, value)


def _highest(dtype):
    return math.inf if dtype.is_differentiable else dtypes.iinfo(dtype).max


def _lowest(dtype):
    return -math.inf if dtype.is_differentiable else dtypes.iinfo(dtype).min


def _all_dims(dim, ndim):
    """Return the dims sorted and counted from the front; all dims for None and for an empty sequence."""
    dims = () if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    dims_from_front = [wrap_dim(d, ndim) for d in dims]
    for d, wrapped in zip(dims, dims_from_front, strict=True):
        if dims_from_front.count(wrapped) > 1:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
    return tuple(sorted(dims_from_front)) or tuple(range(ndim))


def _cast(F, result, dtype):
    return result if dtype is None or dtype is result.dtype else F.to(result, dtype)


def _count(F, self, dim, keepdim, mask):
    """Return the number of selected elements: a Python number if there is no mask."""
    if mask is None:
        return reduced_size(self.shape, dim)
    return F.sum(_mask(F, self, mask), dim, keepdim)


#: A mask of the samples' shape, and one that broadcasts to it; both select some elements along each dim.
_WHOLE = Values(tuple(tuple(tuple((i + j + k) % 3 > 0 for k in range(2)) for j in range(5)) for i in range(3)), "bool")
_ROWS = Values(((True,), (False,), (True,), (True,), (False,)), "bool")


def _samples(*settings):
    return lambda: [case(floats(3, 5, 2), *settings, mask=mask) for mask in (None, _WHOLE, _ROWS)]


def _reductions():
    x = floats(3, 5, 2)
    return [case(x), case(x, mask=_WHOLE), case(x, 1, mask=_ROWS), case(x, (0, 2), keepdim=True, mask=_WHOLE)]


# -- sums, products, means, variances and norms -----------------------------------------------------------------------


@composite(path="masked.sum", samples=_reductions)
def masked_sum(F, self, dim: Dims = None, *, keepdim: bool = False, dtype: DType = None, mask=None):
    """Return the sum over `dim` of the elements that `mask` selects; 0 where it selects none.

    Examples
    --------
    >>> gc.masked.sum(gc.tensor([1.0, 2.0, 3.0]), mask=gc.tensor([True, False, True]))
    tensor(4.)
    """
    return F.sum(_fill_masked(F, self, mask, 0), _all_dims(dim, self.ndim), keepdim, dtype=dtype)


@composite(path="masked.prod", samples=_reductions)
def masked_prod(F, self, dim: Dims = None, *, keepdim: bool = False, dtype: DType = None, mask=None):
    """Return the product over `dim` of the elements that `mask` selects; 1 where it selects none.

    Examples
    --------
    >>> gc.masked.prod(gc.tensor([2.0, 5.0, 3.0]), mask=gc.tensor([True, False, True]))
    tensor(6.)
    """
    result = _fill_masked(F, self, mask, 1)
    if not self.ndim:
        return F.prod(result, dtype=dtype)
    for d in reversed(_all_dims(dim, self.ndim)):
        result = F.prod(result, d, keepdim, dtype=dtype)
    return _cast(F, result, dtype)


@composite(path="masked.mean", samples=_reductions)
def masked_mean(F, self, dim: Dims = None, *, keepdim: bool = False, dtype: DType = None, mask=None):
    """Return the mean over `dim` of the elements that `mask` selects; NaN where it selects none.

    Examples
    --------
    >>> gc.masked.mean(gc.tensor([1.0, 9.0, 3.0]), mask=gc.tensor([True, False, True]))
    tensor(2.)
    """
    if not (dtype or self.dtype).is_differentiable:
        raise ValueError(
            "mean(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {dtype or self.dtype}"
        )
    dims = _all_dims(dim, self.ndim)
    total = F.sum(_fill_masked(F, self, mask, 0), dims, keepdim, dtype=dtype or self.dtype)
    return total / _count(F, self, dims, keepdim, mask)


def _variance(F, self, dim, unbiased, correction, keepdim, dtype, mask):
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = int(unbiased is None or unbiased)
    result_dtype = dtype or self.dtype
    result_dtype = result_dtype if result_dtype.is_differentiable else dtypes.float32
    dims = _all_dims(dim, self.ndim)
    x = F.to(self, result_dtype)
    count = _count(F, self, dims, True, mask)
    difference = _fill_masked(F, x - F.sum(_fill_masked(F, x, mask, 0), dims, True) / count, mask, 0)
    squares = difference * F.conj(difference) if result_dtype.is_complex else difference * difference
    total = F.sum(F.real(squares) if result_dtype.is_complex else squares, dims, True)
    degrees = max(count - correction, 0) if mask is None else F.clamp(F.to(count, total.dtype) - correction, 0)
    result = F.to(total / degrees if mask is not None or degrees else total * math.nan, result_dtype)
    return result if keepdim else F.unsafe_view(F.squeeze(result, dims))


@composite(path="masked.var", samples=_reductions)
def masked_var(
    F, self, dim: Dims = None, unbiased: bool | None = None, *, correction: int | float | None = None,
    keepdim: bool = False, dtype: DType = None, mask=None,
):  # fmt: skip
    """Return the variance over `dim` of the elements that `mask` selects.

    Examples
    --------
    >>> gc.masked.var(gc.tensor([1.0, 9.0, 3.0]), mask=gc.tensor([True, False, True]))
    tensor(2.)
    """
    return _variance(F, self, dim, unbiased, correction, keepdim, dtype, mask)


@composite(path="masked.std", samples=_reductions)
def masked_std(
    F, self, dim: Dims = None, unbiased: bool | None = None, *, correction: int | float | None = None,
    keepdim: bool = False, dtype: DType = None, mask=None,
):  # fmt: skip
    """Return the standard deviation over `dim` of the elements that `mask` selects.

    Examples
    --------
    >>> gc.masked.std(gc.tensor([1.0, 9.0, 3.0]), mask=gc.tensor([True, False, True]))
    tensor(1.4142)
    """
    return F.sqrt(_variance(F, self, dim, unbiased, correction, keepdim, dtype, mask))


@composite(path="masked.norm", samples=_samples(2.0, 1))
def masked_norm(F, self, ord: Scalar = 2.0, dim: Dims = None, *, keepdim: bool = False, dtype: DType = None, mask=None):
    """Return the vector norm over `dim` of the elements that `mask` selects.

    Examples
    --------
    >>> gc.masked.norm(gc.tensor([3.0, 9.0, 4.0]), mask=gc.tensor([True, False, True]))
    tensor(5.)
    """
    x = _fill_masked(F, self, mask, math.inf if ord == -math.inf else 0)
    return F.linalg_vector_norm(x, ord, _all_dims(dim, self.ndim), keepdim, dtype=dtype)


# -- extrema ----------------------------------------------------------------------------------------------------------


@composite(path="masked.amax", samples=_reductions)
def masked_amax(F, self, dim: Dims = None, *, keepdim: bool = False, dtype: DType = None, mask=None):
    """Return the largest of the elements over `dim` that `mask` selects; the lowest number where it selects none.

    Examples
    --------
    >>> gc.masked.amax(gc.tensor([1.0, 9.0, 3.0]), mask=gc.tensor([True, False, True]))
    tensor(3.)
    """
    x = _fill_masked(F, self, mask, _lowest(self.dtype))
    return _cast(F, F.amax(x, _all_dims(dim, self.ndim), keepdim), dtype)


@composite(path="masked.amin", samples=_reductions)
def masked_amin(F, self, dim: Dims = None, *, keepdim: bool = False, dtype: DType = None, mask=None):
    """Return the smallest of the elements over `dim` that `mask` selects; the highest number where it selects none.

    Examples
    --------
    >>> gc.masked.amin(gc.tensor([1.0, 0.0, 3.0]), mask=gc.tensor([True, False, True]))
    tensor(1.)
    """
    x = _fill_masked(F, self, mask, _highest(self.dtype))
    return _cast(F, F.amin(x, _all_dims(dim, self.ndim), keepdim), dtype)


@composite(path="masked.argmax", samples=_samples(1))
def masked_argmax(F, self, dim: int | None = None, *, keepdim: bool = False, dtype: DType = None, mask=None):
    """Return the index along `dim` of the largest element that `mask` selects, in the input's dtype.

    Examples
    --------
    >>> gc.masked.argmax(gc.tensor([1.0, 9.0, 3.0]), mask=gc.tensor([True, False, True]))
    tensor(2.)
    """
    return _cast(F, F.argmax(_fill_masked(F, self, mask, _lowest(self.dtype)), dim, keepdim), dtype or self.dtype)


@composite(path="masked.argmin", samples=_samples(1))
def masked_argmin(F, self, dim: int | None = None, *, keepdim: bool = False, dtype: DType = None, mask=None):
    """Return the index along `dim` of the smallest element that `mask` selects, in the input's dtype.

    Examples
    --------
    >>> gc.masked.argmin(gc.tensor([1.0, 0.0, 3.0]), mask=gc.tensor([True, False, True]))
    tensor(0.)
    """
    return _cast(F, F.argmin(_fill_masked(F, self, mask, _highest(self.dtype)), dim, keepdim), dtype or self.dtype)


@composite(path="masked.median", samples=_samples(1))
def masked_median(F, self, dim: int = -1, *, keepdim: bool = False, dtype: DType = None, mask=None):
    """Return the lower median over `dim` of the elements that `mask` selects; NaN where it selects none.

    Examples
    --------
    >>> gc.masked.median(gc.tensor([1.0, 9.0, 3.0, 2.0]), mask=gc.tensor([True, False, True, True]))
    tensor(2.)
    """
    is_integer = not self.dtype.is_differentiable
    x = F.to(self, dtypes.float32) if is_integer else self
    result = F.nanmedian(_fill_masked(F, x, mask, math.nan), dim, keepdim)[0]
    if not is_integer:
        return result
    if F.holds_anywhere(F.isnan(result)):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return F.to(result, dtype or self.dtype)


# -- exponentials -----------------------------------------------------------------------------------------------------


@composite(path="masked.logsumexp", samples=_samples(1))
def masked_logsumexp(F, self, dim: Dims = None, *, keepdim: bool = False, dtype: DType = None, mask=None):
    """Return the logarithm of the sum over `dim` of the exponentials of the elements that `mask` selects.

    Examples
    --------
    >>> gc.masked.logsumexp(gc.tensor([0.0, 9.0, 0.0]), mask=gc.tensor([True, False, True]))
    tensor(0.6931)
    """
    x = _fill_masked(F, self, mask, -math.inf if self.dtype.is_differentiable else _lowest(self.dtype))
    return _cast(F, F.logsumexp(x, _all_dims(dim, self.ndim), keepdim), dtype)


@composite(
    path="masked.logaddexp",
    samples=lambda: [
        case(floats(5, 2), floats(5, 2)),
        case(floats(5, 2), floats(5, 2), input_mask=_ROWS, other_mask=Values((True, True), "bool")),
    ],
)
def masked_logaddexp(F, self, other, *, dtype: DType = None, input_mask=None, other_mask=None):
    """Compute ``log(exp(input) + exp(other))`` of the elements that their masks select.

    Examples
    --------
    >>> gc.masked.logaddexp(gc.tensor([0.0, 0.0]), gc.tensor([0.0, 1.0]), other_mask=gc.tensor([True, False]))
    tensor([0.6931, 0.0000])
    """
    x = _fill_masked(F, self, input_mask, _lowest(self.dtype))
    return _cast(F, F.logaddexp(x, _fill_masked(F, other, other_mask, _lowest(other.dtype))), dtype or self.dtype)


@composite(path="masked.softmax", samples=_samples(1))
def masked_softmax(F, self, dim: int, *, dtype: DType = None, mask=None):
    """Return the softmax along `dim` of the elements that `mask` selects; 0 for the others, NaN where it selects none.

    Examples
    --------
    >>> gc.masked.softmax(gc.tensor([1.0, 9.0, 1.0]), 0, mask=gc.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return F.softmax(_fill_masked(F, self, mask, _lowest(self.dtype)), dim, dtype=dtype)


@composite(path="masked.log_softmax", samples=lambda: [case(floats(3, 5), 1)])
def masked_log_softmax(F, self, dim: int, *, dtype: DType = None, mask=None):
    """Return the logarithm of the softmax along `dim` of the elements that `mask` selects.

    Examples
    --------
    >>> gc.masked.log_softmax(gc.tensor([1.0, 1.0]), 0, mask=gc.tensor([True, True]))
    tensor([-0.6931, -0.6931])
    """
    return F.log_softmax(_fill_masked(F, self, mask, _lowest(self.dtype)), dim, dtype=dtype)


@composite(path="masked.softmin", samples=_samples(1))
def masked_softmin(F, self, dim: int, *, dtype: DType = None, mask=None):
    """Return the softmax along `dim` of the negative elements that `mask` selects.

    Examples
    --------
    >>> gc.masked.softmin(gc.tensor([1.0, 9.0, 1.0]), 0, mask=gc.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return F.softmin(_fill_masked(F, self, mask, _highest(self.dtype)), dim, dtype=dtype)


# -- along a dim ------------------------------------------------------------------------------------------------------


@composite(path="masked.cumsum", samples=_samples(1))
def masked_cumsum(F, self, dim: int, *, dtype: DType = None, mask=None):
    """Return the cumulative sums along `dim` of the elements that `mask` selects.

    Examples
    --------
    >>> gc.masked.cumsum(gc.tensor([1.0, 9.0, 3.0]), 0, mask=gc.tensor([True, False, True]))
    tensor([1., 1., 4.])
    """
    return F.cumsum(_fill_masked(F, self, mask, 0), dim, dtype=dtype or (self.dtype if self.dtype.category else None))


@composite(path="masked.cumprod", samples=_samples(1))
def masked_cumprod(F, self, dim: int, *, dtype: DType = None, mask=None):
    """Return the cumulative products along `dim` of the elements that `mask` selects.

    Examples
    --------
    >>> gc.masked.cumprod(gc.tensor([2.0, 9.0, 3.0]), 0, mask=gc.tensor([True, False, True]))
    tensor([2., 2., 6.])
    """
    return F.cumprod(_fill_masked(F, self, mask, 1), dim, dtype=dtype or (self.dtype if self.dtype.category else None))


@composite(path="masked.normalize", samples=_samples(2.0, 1))
def masked_normalize(F, self, ord: Scalar, dim: int, *, eps: Scalar = 1e-12, dtype: DType = None, mask=None):
    """Return the elements that `mask` selects over their norm along `dim`, which counts as `eps` at least.

    Examples
    --------
    >>> gc.masked.normalize(gc.tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=gc.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    norm = F.masked_norm(self, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _fill_masked(F, self, mask, 0) / F.clamp(norm, eps)
