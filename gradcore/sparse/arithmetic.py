"""Elementwise functions, sums, products and quotients of sparse tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore import functional
from gradcore.autograd.variables import wrap
from gradcore.backends.sparsity import flat_places
from gradcore.core import dtypes
from gradcore.sparse.conversion import coalesce, places, sparse_dim, to_dense, to_sparse
from gradcore.sparse.indices import raw
from gradcore.sparse.tensor import BLOCKED, COO, SparseTensor, in_place, on, refuse, sparse
from gradcore.tensor import Tensor

__all__ = ["distinct"]

#: Elementwise functions that are zero at zero, so that they keep the indices.
UNARY = (
    "abs asin asinh atan atanh ceil conj conj_physical deg2rad erf erfinv expm1 floor frac isinf isnan isneginf "
    "isposinf log1p nan_to_num neg positive rad2deg relu round sgn sign signbit sin sinh sqrt square tan tanh trunc "
    "fix real imag"
)
#: Functions that keep the indices and are linear in the values or change their dtype.
KEEPING = (
    "to double float half bfloat16 int long short char byte bool cfloat cdouble cpu cuda type clone detach type_as "
    "detach_"
)
#: Queries about the dtype, the device and the state of the values.
ASKED = "is_floating_point is_complex is_signed element_size get_device is_inference is_conj is_neg has_names"


def distinct(t: SparseTensor) -> SparseTensor:
    """Return the tensor with each element stored once; nonlinear functions need the sums of repeated indices."""
    return coalesce(t) if t.layout is COO else t


def _elementwise(name: str) -> None:
    def call(t: SparseTensor, *args: Any, **kwargs: Any) -> Any:
        t = distinct(t)
        return t.like(getattr(functional, name)(t.stored, *args, **kwargs))

    on(name)(call)


def _keeping(name: str) -> None:
    def call(t: SparseTensor, *args: Any, **kwargs: Any) -> Any:
        args = tuple(x.stored if isinstance(x, SparseTensor) else x for x in args)
        result = getattr(t.stored, name)(*args, **kwargs)
        if not isinstance(result, Tensor):
            return result
        if result is t.stored:
            return t
        if result.device == t.device:
            index = tuple(x.clone() for x in t.index) if name == "clone" else t.index
            return sparse(t.layout, t.sizes, index, result, t.in_order) if name == "clone" else t.like(result)
        index = tuple(x.to(result.device) for x in t.index)
        return sparse(t.layout, t.sizes, index, result, t.in_order)

    on(name)(call)


for _name in UNARY.split():
    if hasattr(functional, _name):
        _elementwise(_name)
for _name in KEEPING.split():
    _keeping(_name)
for _name in ASKED.split():
    _keeping(_name)


@on("pow __pow__")
def power(t: Any, exponent: Any) -> Any:
    """Raise each element to a power, which must be a positive number, so that zeros stay zero."""
    if isinstance(exponent, Tensor) or not isinstance(t, SparseTensor):
        raise refuse("pow.Tensor_Tensor", COO)
    if exponent == 0:
        raise RuntimeError("pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense")
    if isinstance(exponent, complex) or exponent < 0:
        raise RuntimeError("pow: a negative power of a sparse tensor would be infinite where nothing is stored")
    t = distinct(t)
    return t.like(t.stored**exponent)


def _nothing(t: SparseTensor, values: Tensor) -> SparseTensor:
    """Return a tensor with the layout and sizes of `t` that stores no element."""
    first = (sparse_dim(t), 0) if t.layout is COO else t.index[0].shape
    index = [functional.zeros(shape, dtype=dtypes.int64, device=values.device) for shape in (first, (0,))]
    return sparse(t.layout, t.sizes, index[:1] if t.layout is COO else index, values)


@on("zeros_like empty_like")
def zeros_like(t: SparseTensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Return a sparse tensor of the same layout and sizes that stores no element."""
    out = _nothing(t, functional.zeros((0, *t.stored.shape[1:]), dtype=dtype or t.dtype, device=device or t.device))
    return out.requires_grad_() if requires_grad else out


@on("zero")
def zero(t: SparseTensor) -> Any:
    """Return a tensor with the shape of `t` that stores no element, with the history of `t`."""
    return _nothing(t, t.stored[:0])


# -- sums ------------------------------------------------------------------------------------------------------------


def _scale(t: Tensor, alpha: Any, like: Tensor) -> Tensor:
    """Return `alpha * t` in the dtype of ``like + t``, so that the negative of a uint8 number does not wrap around."""
    dtype = dtypes.promote_types(like.dtype, t.dtype)
    return t if alpha == 1 else (t.to(dtype) * alpha).to(dtype)


def _check_dtypes(name: str, self: Tensor, other: object, alpha: object) -> None:
    """Raise the errors of dense addition for dtypes and factors that it refuses."""
    if isinstance(other, Tensor):
        getattr(functional, name)(*(functional.empty(0, dtype=t.dtype) for t in (self, other)), alpha=alpha)


@on("add __add__ __radd__")
def add(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return ``self + alpha * other``."""
    _check_dtypes("add", self, other, alpha)
    if not isinstance(self, SparseTensor):
        if not isinstance(self, Tensor):
            return add(other, self)
        return _onto_dense(self, other, alpha)
    if not isinstance(other, SparseTensor):
        if not isinstance(other, Tensor) or not other.ndim:
            raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
        return _onto_dense(_scale(other, alpha, self.stored), self, 1)
    if self.sizes != other.sizes:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(self.sizes)} != {list(other.sizes)}"
        )
    if self.layout is not other.layout:
        raise RuntimeError(f"add: the layouts {self.layout} and {other.layout} differ; use to_sparse(layout=...)")
    if self.index is other.index or all(a is b for a, b in zip(self.index, other.index, strict=True)):
        return self.like(functional.add(self.stored, other.stored, alpha=alpha))
    return _merge(self, other, alpha)


def _merge(self: SparseTensor, other: SparseTensor, alpha: Any) -> Any:
    """Return ``self + alpha * other`` for two sparse tensors with different indices."""
    if self.layout is not COO:
        block = {"blocksize": tuple(self.stored.shape[1:])} if self.layout in BLOCKED else {}
        return to_sparse(_merge(to_sparse(self), to_sparse(other), alpha), self.layout, **block)
    xp = self.xp
    index = wrap(xp.concatenate([raw(self.index[0]), raw(other.index[0])], 1), self.home)
    values = functional.cat([self.stored, _scale(other.stored, alpha, self.stored)])
    result = sparse(COO, self.sizes, (index,), values, False)
    return coalesce(result) if self.in_order and other.in_order else result


def _check_sizes(dense: Tensor, t: SparseTensor) -> None:
    if tuple(dense.shape) != t.sizes:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {list(dense.shape)} while other "
            f"has size {list(t.sizes)} (FYI: dense-sparse addition does not currently support broadcasting)"
        )


def _onto_dense(dense: Tensor, t: SparseTensor, alpha: Any) -> Tensor:
    """Return ``dense + alpha * t`` as a dense tensor."""
    _check_sizes(dense, t)
    return functional.add(dense, to_dense(t), alpha=alpha)  # type: ignore[no-any-return]


@on("add_ __iadd__")
def add_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Add ``alpha * other`` in place; only the elements that a sparse `other` stores are changed in a dense `self`."""
    if isinstance(self, SparseTensor):
        return in_place("add", (self, other), {"alpha": alpha})
    _check_dtypes("add", self, other, alpha)
    _check_sizes(self, other)
    values = _scale(other.stored, alpha, self)
    if values.dtype.category > self.dtype.category:
        raise RuntimeError(
            f"result type {values.dtype.scalar_name} can't be cast to the desired output type {self.dtype.scalar_name}"
        )
    values = values.to(self.dtype)
    indices = places(other)
    if len(indices) == 1:
        return self.index_add_(0, indices[0], values)
    return self.index_put_(indices, values.reshape(-1) if other.layout in BLOCKED else values, accumulate=True)


@on("sub_ subtract_ __isub__")
def subtract_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Subtract ``alpha * other`` in place."""
    _check_dtypes("sub", self, other, alpha)
    return add_(self, other, alpha=-alpha)


@on("sub subtract __sub__")
def subtract(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return ``self - alpha * other``."""
    _check_dtypes("sub", self, other, alpha)
    return add(self, other, alpha=-alpha)


@on("rsub __rsub__")
def subtract_reflected(self: Any, other: Any) -> Any:
    """Return ``other - self``."""
    if isinstance(other, Tensor):
        return subtract(other, self)
    raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")


# -- products --------------------------------------------------------------------------------------------------------


@on("mul multiply __mul__ __rmul__")
def multiply(self: Any, other: Any) -> Any:
    """Return the elementwise product, which stores the elements that all sparse factors store."""
    if not isinstance(self, SparseTensor):
        self, other = other, self
    if not isinstance(other, Tensor) or (not isinstance(other, SparseTensor) and not other.ndim):
        return self.like(self.stored * other)
    if isinstance(other, SparseTensor):
        return _common(self, other)
    return self.like(self.stored * _take_at_indices(self, other))


def _take_at_indices(t: SparseTensor, dense: Tensor) -> Tensor:
    """Broadcast a dense tensor to the shape of `t`, and return its elements at the indices of `t`."""
    if functional.broadcast_shapes(dense.shape, t.sizes) != t.sizes:
        raise RuntimeError(
            f"mul: the dense factor {list(dense.shape)} would need more elements than the sparse tensor "
            f"{list(t.sizes)} has"
        )
    result = dense.expand(t.sizes)[places(t)]
    return result.reshape(t.stored.shape) if t.layout in BLOCKED else result


def _common(self: SparseTensor, other: SparseTensor) -> Any:
    """Return the elementwise product of two sparse tensors, at the indices that they have in common."""
    if self.sizes != other.sizes:
        raise RuntimeError(
            f"mul: expected sizes of 'self' and 'other' to match, but {list(self.sizes)} != {list(other.sizes)}"
        )
    if self.layout is not COO or other.layout is not COO:
        block = {"blocksize": tuple(self.stored.shape[1:])} if self.layout in BLOCKED else {}
        return to_sparse(_common(to_sparse(self), to_sparse(other)), self.layout, **block)
    self, other = coalesce(self), coalesce(other)
    if self.index[0] is other.index[0]:
        return self.like(self.stored * other.stored)
    xp, device, dims = self.xp, self.home, sparse_dim(self)
    self_places, other_places = (flat_places(raw(t.index[0]), t.sizes[:dims]) for t in (self, other))
    if not other_places.size:
        return zeros_like(self)
    matches = xp.minimum(xp.searchsorted(other_places, self_places), other_places.size - 1)
    is_common = other_places[matches] == self_places
    own_positions, other_positions = is_common.nonzero()[0], matches[is_common]
    index = wrap(raw(self.index[0])[:, own_positions], device)
    values = self.stored[wrap(own_positions, device)] * other.stored[wrap(other_positions, device)]
    return sparse(COO, self.sizes, (index,), values, True)


@on("div divide true_divide __truediv__")
def divide(self: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """Divide by a number."""
    if not isinstance(self, SparseTensor):
        raise refuse("reciprocal", COO)
    if isinstance(other, Tensor) and other.ndim:
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {list(other.shape)} for "
            "divisor)"
        )
    if rounding_mode is not None:
        self = distinct(self)
    return self.like(functional.div(self.stored, other, rounding_mode=rounding_mode))


@on("floor_divide __floordiv__")
def floor_divide(self: Any, other: Any) -> Any:
    """Divide by a number, and round down."""
    return divide(self, other, rounding_mode="floor")


# -- reductions to a number --------------------------------------------------------------------------------------------


def _reduce_stored(name: str) -> Callable[..., Any]:
    def call(t: SparseTensor, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            raise refuse(name, t.layout)
        return getattr(functional, name)(distinct(t).stored)

    return on(name)(call)


_reduce_stored("norm")
_reduce_stored("any")


@on("vector_norm")
def vector_norm(t: SparseTensor, ord: float = 2, *args: Any, **kwargs: Any) -> Any:
    """Return the norm of all elements, for a positive order, to which zeros do not contribute."""
    if args or kwargs or not ord > 0:
        raise refuse("vector_norm", t.layout)
    return functional.linalg_vector_norm(distinct(t).stored, ord)


@on("is_contiguous is_pinned is_shared")
def _never(t: SparseTensor, *args: Any, **kwargs: Any) -> bool:
    return False


@on("allclose equal")
def _incomparable(self: Any, *args: Any, **kwargs: Any) -> Any:
    layout = self.layout if isinstance(self, SparseTensor) else COO
    raise refuse("eq.Tensor", layout)
