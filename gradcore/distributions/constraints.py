"""Constraints: sets to which values and parameters of distributions belong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradcore import functional
from gradcore.core import dtypes
from gradcore.functions.linalg import cholesky_ex
from gradcore.tensor import Tensor

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of values.

    Attributes
    ----------
    is_discrete : bool
        Whether the set is discrete.
    event_dim : int
        The number of last dims that form one value.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.constraints.positive.check(gc.tensor([1.0, -1.0]))
    tensor([ True, False])
    """

    is_discrete: bool = False
    event_dim: int = 0

    def check(self, value: Tensor) -> Tensor:
        """Return whether each value belongs to the set: bools without the event dims."""
        raise NotImplementedError

    def __repr__(self) -> str:
        name = type(self).__name__.lstrip("_")
        return f"{name[0].upper()}{name[1:]}()"


class _Dependent(Constraint):
    """A set that depends on other parameters, so that values cannot be checked on their own."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether the set is discrete, if that is known."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete  # type: ignore[no-any-return]

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """Number of event dims, if that is known."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim  # type: ignore[no-any-return]

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """Return a copy with the given properties."""
        was_discrete = self._is_discrete if is_discrete is NotImplemented else is_discrete
        dims = self._event_dim if event_dim is NotImplemented else event_dim
        return type(self)(is_discrete=was_discrete, event_dim=dims)

    def check(self, x: Tensor) -> Tensor:
        """Raise an error, since the set is unknown."""
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Return whether a constraint depends on other parameters.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.constraints.is_dependent(gc.distributions.constraints.positive)
    False
    """
    return isinstance(constraint, _Dependent)


class dependent_property(property, _Dependent):
    """A property that is a constraint on instances, and a dependent constraint on the class.

    Parameters
    ----------
    fn : callable, optional
        Returns the constraint.
    is_discrete, event_dim : optional
        Properties of the constraint that are known without an instance.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Uniform(0.0, 1.0).support.check(gc.tensor([0.5, 2.0]))
    tensor([ True, False])
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Callable[..., Any]) -> dependent_property:  # type: ignore[override]
        """Return the property for a function, when used as a decorator with settings."""
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _Independent(Constraint):
    """A set of values with more dims, whose parts all belong to a base set.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.constraints.independent(
    ...     gc.distributions.constraints.positive, 1).check(gc.tensor([1.0, -1.0])
    ... )
    tensor(False)
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether the set is discrete."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The number of event dims."""
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        """Return whether all parts belong to the set."""
        result = self.base_constraint.check(value)
        if result.ndim < self.reinterpreted_batch_ndims:
            raise ValueError(
                f"Expected value.dim() >= {self.base_constraint.event_dim + self.reinterpreted_batch_ndims} but got "
                f"{value.ndim}"
            )
        return result.reshape(*result.shape[: result.ndim - self.reinterpreted_batch_ndims], -1).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The set of values of a mixture: the set of its components.

    Parameters
    ----------
    base_constraint : Constraint
        Constraint of the components.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.constraints.MixtureSameFamilyConstraint(
    ...     gc.distributions.constraints.positive).check(gc.tensor([[1.0], [-1.0]])
    ... )
    tensor([[ True],
            [False]])
    """

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether the set is discrete."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The number of event dims."""
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        """Return whether the values belong to the set of every component."""
        dim = -1 - self.event_dim
        belongs = self.base_constraint.check(value.unsqueeze(dim))
        return belongs.reshape(*belongs.shape[: value.ndim - self.event_dim], -1).all(-1)


class _Elementwise(Constraint):
    """A set of numbers, given by bounds."""

    def __repr__(self) -> str:
        bounds = ", ".join(f"{key}={value}" for key, value in vars(self).items())
        return f"{type(self).__name__.removeprefix('_')}({bounds})"


def _whole(x: Tensor) -> Tensor:
    return x % 1 == 0


class _Real(_Elementwise):
    """The real numbers."""

    def check(self, value: Tensor) -> Tensor:
        """Return whether each number is not NaN."""
        return value == value


class _Boolean(_Elementwise):
    """Zero and one."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        """Return whether each number is zero or one."""
        return (value == 0) | (value == 1)


class _From(_Elementwise):
    """Base class of sets of numbers with a lower bound."""

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _GreaterThan(_From):
    """The numbers above a bound.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.constraints.greater_than(1).check(gc.tensor([1.0, 2.0]))
    tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        """Return whether each number lies above the bound."""
        return self.lower_bound < value  # type: ignore[no-any-return]


class _GreaterThanEq(_From):
    """The numbers greater than or equal to a bound.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.constraints.greater_than_eq(1).check(gc.tensor([1.0, 0.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        """Return whether each number lies above the bound or on it."""
        return self.lower_bound <= value  # type: ignore[no-any-return]


class _IntegerGreaterThan(_From):
    """The integers greater than or equal to a bound."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        """Return whether each number is whole, and lies above the bound or on it."""
        return _whole(value) & (value >= self.lower_bound)  # type: ignore[no-any-return]


class _LessThan(_Elementwise):
    """The numbers below a bound.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.constraints.less_than(1).check(gc.tensor([0.5, 2.0]))
    tensor([ True, False])
    """

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        """Return whether each number lies below the bound."""
        return value < self.upper_bound  # type: ignore[no-any-return]


class _Between(_Elementwise):
    """Base class of sets of numbers between two bounds."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _Interval(_Between):
    """The numbers between two bounds, including both.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.constraints.interval(0, 1).check(gc.tensor([0.5, 2.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        """Return whether each number lies between the bounds or on them."""
        return (self.lower_bound <= value) & (value <= self.upper_bound)  # type: ignore[no-any-return]


class _HalfOpenInterval(_Between):
    """The numbers between two bounds, including the lower one.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.constraints.half_open_interval(0, 1).check(gc.tensor([0.0, 1.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        """Return whether each number lies between the bounds or on the lower one."""
        return (self.lower_bound <= value) & (value < self.upper_bound)  # type: ignore[no-any-return]


class _IntegerInterval(_Between):
    """The integers between two bounds, including both.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.constraints.integer_interval(0, 3).check(gc.tensor([1.0, 1.5]))
    tensor([ True, False])
    """

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        """Return whether each number is whole, and lies between the bounds or on them."""
        return _whole(value) & (self.lower_bound <= value) & (value <= self.upper_bound)  # type: ignore[no-any-return]


class multinomial(Constraint):
    """Vectors of nonnegative integers whose sum is at most a given number.

    Parameters
    ----------
    upper_bound : int
        The sum.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.constraints.multinomial(3).check(gc.tensor([1.0, 2.0]))
    tensor(True)
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Tensor) -> Tensor:
        """Return whether each vector belongs to the set."""
        return (x >= 0).all(dim=-1) & (x.sum(dim=-1) <= self.upper_bound)  # type: ignore[no-any-return]


def _vectors(name: str, event_dim: int, belongs: Callable[[Tensor], Tensor], discrete: bool = False) -> Any:
    """Return a class for a set of vectors or matrices, given a function that tests whether values belong to it."""
    body = {"event_dim": event_dim, "is_discrete": discrete, "__module__": __name__}
    body["check"] = lambda self, value: belongs(value)
    body["__repr__"] = lambda self: f"{type(self).__name__.removeprefix('_')}()"
    return type(f"_{name}", (Constraint,), body)


def _all_equal(a: Tensor, b: Tensor) -> Tensor:
    return (a == b).flatten(-2).all(-1)


def _is_lower_cholesky(x: Tensor) -> Tensor:
    return _all_equal(x.tril(), x) & (x.diagonal(0, -2, -1) > 0).all(-1)


def _is_corr_cholesky(x: Tensor) -> Tensor:
    tolerance = dtypes.finfo(x.dtype).eps * x.shape[-1] * 10  # from the sum of squares
    has_unit_rows = ((x.square().sum(-1) - 1).abs() <= tolerance).all(-1)
    return has_unit_rows & _is_lower_cholesky(x)  # type: ignore[no-any-return]


def _is_square(x: Tensor) -> Tensor:
    return functional.full(x.shape[:-2], x.shape[-2] == x.shape[-1], dtype=dtypes.bool_, device=x.device)  # type: ignore[no-any-return]


def _is_symmetric(x: Tensor) -> Tensor:
    square = _is_square(x)
    return functional.isclose(x, x.mT, atol=1e-6).flatten(-2).all(-1) if square.all() else square


def _is_positive_semidefinite(x: Tensor) -> Tensor:
    symmetric = _is_symmetric(x)
    return symmetric if functional.holds_anywhere(~symmetric) else functional.linalg_eigvalsh(x).ge(0).all(-1)


def _is_positive_definite(x: Tensor) -> Tensor:
    symmetric = _is_symmetric(x)
    return symmetric if functional.holds_anywhere(~symmetric) else cholesky_ex(x).info.eq(0)


def _is_one_hot(x: Tensor) -> Tensor:
    return ((x == 0) | (x == 1)).all(-1) & x.sum(-1).eq(1)


def _is_on_simplex(x: Tensor) -> Tensor:
    return (x >= 0).all(dim=-1) & ((x.sum(-1) - 1).abs() < 1e-6)


class _Parts(Constraint):
    """Base class of sets of tensors whose parts along a dim belong to several sets."""

    def __init__(self, parts: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(parts), dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether any of the sets is discrete."""
        return any(c.is_discrete for c in self.cseq)


class cat(_Parts):
    """Tensors whose consecutive parts along a dim, of given lengths, belong to several sets.

    Parameters
    ----------
    cseq : sequence of Constraint
    dim : int
    lengths : sequence of int, optional
        The lengths of the parts, by default 1 each.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.constraints.cat(
    ...
    ...     [gc.distributions.constraints.positive, gc.distributions.constraints.real]).check(gc.tensor([1.0, -1.0])
    ... )
    tensor([True, True])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """Largest number of event dims of the sets."""
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        """Return whether each part belongs to its set."""
        parts = value.split(self.lengths, self.dim)
        return functional.cat([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)  # type: ignore[no-any-return]


class stack(_Parts):
    """Tensors whose slices along a dim belong to several sets.

    Parameters
    ----------
    cseq : sequence of Constraint
    dim : int

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.constraints.stack(
    ...
    ...     [gc.distributions.constraints.positive, gc.distributions.constraints.real]).check(gc.tensor([1.0, -1.0])
    ... )
    tensor([True, True])
    """

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """Largest number of event dims of the sets, plus one if the slices are among them."""
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        """Return whether each slice belongs to its set."""
        slices = value.unbind(self.dim)
        return functional.stack([c.check(part) for c, part in zip(self.cseq, slices, strict=True)], self.dim)  # type: ignore[no-any-return]


_Simplex = _vectors("Simplex", 1, _is_on_simplex)
_OneHot = _vectors("OneHot", 1, _is_one_hot, True)
_Square = _vectors("Square", 2, _is_square)
_Symmetric = _vectors("Symmetric", 2, _is_symmetric)
_LowerTriangular = _vectors("LowerTriangular", 2, lambda x: _all_equal(x.tril(), x))
_LowerCholesky = _vectors("LowerCholesky", 2, _is_lower_cholesky)
_CorrCholesky = _vectors("CorrCholesky", 2, _is_corr_cholesky)
_PositiveSemidefinite = _vectors("PositiveSemidefinite", 2, _is_positive_semidefinite)
_PositiveDefinite = _vectors("PositiveDefinite", 2, _is_positive_definite)

greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
independent = _Independent

dependent = _Dependent()
boolean, real = _Boolean(), _Real()
real_vector = _Independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
positive_integer = _IntegerGreaterThan(1)
nonnegative_integer = _IntegerGreaterThan(0)
unit_interval = interval(0.0, 1.0)
simplex, one_hot = _Simplex(), _OneHot()
square, symmetric = _Square(), _Symmetric()
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()
