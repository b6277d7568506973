"""The base class of transforms, their composition and their inverse."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

from gradcore import functional
from gradcore.core.size import Size
from gradcore.core.tracebacks import ShortErrors
from gradcore.distributions import constraints
from gradcore.distributions.constraints import Constraint
from gradcore.tensor import Tensor

__all__ = [
    "ComposeTransform",
    "IndependentTransform",
    "ReshapeTransform",
    "Transform",
    "identity_transform",
    "sum_rightmost",
    "with_dims",
]


def sum_rightmost(value: Any, dims: int) -> Any:
    """Return the sum over the last `dims` dims."""
    if not dims:
        return value
    return value.reshape(*value.shape[: value.ndim - dims], -1).sum(-1)


class Transform(ShortErrors):
    """A map with an inverse and a Jacobian determinant if it is `bijective`.

    Subclasses define `_call`, and if possible `_inverse` and `log_abs_det_jacobian`.

    Parameters
    ----------
    cache_size : int
        0 or 1: whether the last input and output are remembered, so that the inverse of an output is its very input.

    Attributes
    ----------
    domain, codomain : Constraint
        The sets of inputs and of outputs.
    bijective : bool
        Whether there is an inverse.
    sign : int or Tensor
        1 or -1 of bijections of numbers that rise or fall.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.ExpTransform().inv(gc.tensor(1.0))
    tensor(0.)
    """

    bijective: Any = False
    domain: Any
    codomain: Any
    _cached: ClassVar[tuple[Any, Any]] = (None, None)

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None

    @property
    def event_dim(self) -> int:
        """Number of dims of one value, if it is the same for inputs and outputs."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim  # type: ignore[no-any-return]

    @property
    def inv(self) -> Transform:
        """Inverse of the transform. Its own `inv` is the transform."""
        result = None if self._inv is None else self._inv()
        if result is None:
            result = _InverseTransform(self)
            self._inv = weakref.ref(result)
        return result

    @property
    def sign(self) -> Any:
        """Sign of the derivative of a bijection of numbers: 1 if it increases, -1 if it decreases."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with another cache size."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        """Return the image of `x`."""
        if not self._cache_size:
            return self._call(x)
        before, after = self._cached
        if x is before:
            return after  # type: ignore[no-any-return]
        y = self._call(x)
        self._cached = x, y  # type: ignore[misc]
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if not self._cache_size:
            return self._inverse(y)
        before, after = self._cached
        if y is after:
            return before  # type: ignore[no-any-return]
        x = self._inverse(y)
        self._cached = x, y  # type: ignore[misc]
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``log |det dy/dx|``, given an input and its output."""
        raise NotImplementedError

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Return the shape of the output for an input of shape `shape`."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Return the shape of the input for an output of shape `shape`."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    @property
    def inv(self) -> Transform:
        return self._inv  # type: ignore[no-any-return]

    @property
    def domain(self) -> Constraint:
        return self._inv.codomain  # type: ignore[no-any-return]

    @property
    def codomain(self) -> Constraint:
        return self._inv.domain  # type: ignore[no-any-return]

    @property
    def bijective(self) -> bool:
        return self._inv.bijective  # type: ignore[no-any-return]

    @property
    def sign(self) -> Any:
        return self._inv.sign

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)  # type: ignore[no-any-return]

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)  # type: ignore[no-any-return]

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)  # type: ignore[no-any-return]

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._inv.inverse_shape(shape)  # type: ignore[no-any-return]

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._inv.forward_shape(shape)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"


class ComposeTransform(Transform):
    """Composition of several transforms, applied one after the other.

    Parameters
    ----------
    parts : list of Transform
        The first is applied first.
    cache_size : int
        Whether the last input and output are remembered, by each part.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.ComposeTransform(
    ...     [gc.distributions.ExpTransform(), gc.distributions.AffineTransform(1.0, 2.0)])(gc.tensor(0.0)
    ... )
    tensor(3.)
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        super().__init__(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    @property
    def domain(self) -> Constraint:
        if not self.parts:
            return constraints.real
        dims = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dims = max(dims + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return with_dims(self.parts[0].domain, dims)

    @property
    def codomain(self) -> Constraint:
        if not self.parts:
            return constraints.real
        dims = self.parts[0].domain.event_dim
        for part in self.parts:
            dims = max(dims + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return with_dims(self.parts[-1].codomain, dims)

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return math.prod(part.sign for part in self.parts)

    @property
    def inv(self) -> Transform:
        result = None if self._inv is None else self._inv()
        if result is None:
            result = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(result)
            result._inv = lambda: self
        return result

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return functional.zeros_like(x)  # type: ignore[no-any-return]
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        total: Any = 0
        dims = self.domain.event_dim
        for part, before, after in zip(self.parts, points[:-1], points[1:], strict=True):
            total = total + sum_rightmost(part.log_abs_det_jacobian(before, after), dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
        return total  # type: ignore[no-any-return]

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        parts = ",\n    ".join(map(repr, self.parts))
        return f"ComposeTransform(\n    {parts}\n)"


def with_dims(constraint: Constraint, dims: int) -> Constraint:
    """Return a constraint on values with `dims` dims, or as many as `constraint` has if that is more."""
    more = dims - constraint.event_dim
    return constraints.independent(constraint, more) if more else constraint


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform of values with more dims, whose parts it transforms separately.

    Parameters
    ----------
    base_transform : Transform
    reinterpreted_batch_ndims : int
        The number of additional dims.
    cache_size : int
        1 to cache the last input and output, 0 to compute them again.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.IndependentTransform(
    ...     gc.distributions.ExpTransform(), 1).log_abs_det_jacobian(gc.ones(3), gc.ones(3).exp()
    ... )
    tensor(3.)
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    @property
    def domain(self) -> Constraint:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Constraint:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        return self.base_transform.bijective  # type: ignore[no-any-return]

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.ndim < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.ndim < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)  # type: ignore[no-any-return]

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """A transform that reshapes the last dims.

    Parameters
    ----------
    in_shape, out_shape : sequence of int
        The shapes of inputs and outputs, with equally many elements.
    cache_size : int
        1 to cache the last input and output, 0 to compute them again.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.ReshapeTransform((4,), (2, 2))(gc.arange(4.0))
    tensor([[0., 1.],
            [2., 3.]])
    """

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @property
    def domain(self) -> Constraint:
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Constraint:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[: x.ndim - len(self.in_shape)], *self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(*y.shape[: y.ndim - len(self.out_shape)], *self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _replaced_end(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _replaced_end(shape, self.out_shape, self.in_shape)


def _replaced_end(shape: Sequence[int], old: Size, new: Size) -> Size:
    cut = len(shape) - len(old)
    if cut < 0:
        raise ValueError("Too few dimensions on input")
    if tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return Size((*shape[:cut], *new))
