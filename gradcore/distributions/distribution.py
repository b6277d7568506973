"""Base classes of distributions."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from gradcore import functional
from gradcore.autograd.grad_mode import enable_grad, no_grad
from gradcore.autograd.gradients import grad
from gradcore.core import dtypes
from gradcore.core.dtypes import finfo
from gradcore.core.size import Size
from gradcore.core.tracebacks import ShortErrors
from gradcore.distributions import constraints
from gradcore.distributions.constraints import Constraint
from gradcore.tensor import Tensor
from gradcore.tensor.creation import tensor

__all__ = ["Distribution", "ExponentialFamily", "broadcast_all", "lazy_property"]

Parameter = Any  # a number or a tensor


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Return numbers and tensors as tensors with a common shape. Numbers get the dtype of the first tensor."""
    if not all(isinstance(v, (Tensor, int, float)) for v in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                         "__torch_function__.")  # fmt: skip
    first = next((v for v in values if isinstance(v, Tensor)), None)
    options = {"dtype": dtypes.get_default_dtype()} if first is None else {"dtype": first.dtype, "device": first.device}
    tensors = [v if isinstance(v, Tensor) else tensor(v, **options) for v in values]
    return tuple(functional.broadcast_tensors(*tensors))


class lazy_property(functools.cached_property):  # type: ignore[type-arg]
    """An attribute that is computed on first access, with gradients."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            return super().__get__(instance, owner)


class Distribution(ShortErrors):
    """Base class of distributions of tensors.

    A sample has the shape ``sample_shape + batch_shape + event_shape``: the shape of the draws, the shape of the batch
    of distributions, and the shape of one value.

    Parameters
    ----------
    batch_shape : sequence of int
        The shape of the batch of distributions, which may have different parameters.
    event_shape : sequence of int
        The shape of one value.
    validate_args : bool, optional
        Whether parameters and values are checked; by default they are, unless Python runs with ``-O``.

    Raises
    ------
    ValueError
        If a parameter is not in the set of its constraint.

    Examples
    --------
    >>> import gradcore as gc
    >>> normal = gc.distributions.Normal(gc.zeros(3), 1.0)
    >>> normal.batch_shape, normal.sample((5,)).shape, normal.log_prob(gc.zeros(3))
    (torch.Size([3]), torch.Size([5, 3]), tensor([-0.9189, -0.9189, -0.9189]))
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    #: The names of the parameters, in the order of the constructor, with their constraints.
    arg_constraints: Any = {}
    #: Parameters whose last dims are those of a value, with the number of these.
    _event_dims: ClassVar[dict[str, int]] = {}
    #: Parameters that all distributions of a batch share, whatever its shape.
    _shared: ClassVar[tuple[str, ...]] = ()
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether parameters and values are checked by default."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            computed = name not in self.__dict__ and not isinstance(getattr(type(self), name, None), property)
            if constraints.is_dependent(constraint) or computed:
                continue  # the set depends on other parameters, or the value is computed from them
            value = getattr(self, name)
            if isinstance(value, Tensor) and functional.holds_anywhere(~constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value!r}"
                )

    # -- shapes ----------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Size:
        """Shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Shape of one value."""
        return self._event_shape

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """Return the distribution with parameters expanded to another batch shape.

        Parameters
        ----------
        batch_shape : sequence of int
            The new shape, to which the batch shape can be expanded.

        Returns
        -------
        Distribution
        """
        expanded = object.__new__(type(self)) if _instance is None else _instance
        batch = Size(batch_shape)
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor) and name not in self._shared:
                event = self._event_dims.get(name, 0)
                value = value.expand(*batch, *value.shape[value.ndim - event :])
            elif isinstance(value, Distribution):
                value = value.expand(self._batch_shape_of(name, batch))
            expanded.__dict__[name] = value
        expanded._batch_shape = batch
        return expanded

    def _batch_shape_of(self, name: str, batch: Size) -> Sequence[int]:
        """Return the batch shape that the component distribution `name` needs, given the batch shape of this one."""
        return batch

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """Return an empty instance, for subclasses that implement `expand` themselves."""
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return object.__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        """Return the shape of a sample."""
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    # -- methods that subclasses define ----------------------------------------------------------------------

    @property
    def support(self) -> Constraint | None:
        """Set of the values."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """Value with the largest density."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw values without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw values that are differentiable with respect to the parameters, which requires `has_rsample`.

        `has_rsample` tells whether this is possible.
        """
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """Draw `n` values; deprecated: use ``sample((n,))``."""
        warnings.warn("sample_n(n) will be deprecated. Use .sample((n,)) instead.", UserWarning, stacklevel=2)
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density, or of the probability, at `value`."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to `value`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values of a discrete distribution, along a new first dim."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy."""
        return functional.exp(self.entropy())  # type: ignore[no-any-return]

    # -- checks ----------------------------------------------------------------------------------------------

    def _validate_sample(self, value: Any, closed: bool = False) -> None:
        """Raise an error unless `value` belongs to the support of the distribution, or is its bound if `closed`."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event = len(self._event_shape)
        if value.shape[value.ndim - event :] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        for i, j in zip(reversed(value.shape), reversed(self._batch_shape + self._event_shape), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{value.shape} vs {self._batch_shape + self._event_shape}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=2,
            )
            return
        if closed and isinstance(support, constraints.greater_than):
            support = constraints.greater_than_eq(support.lower_bound)
        if support is not None and functional.holds_anywhere(~support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value!r}"
            )

    def _check_sample(self, value: Tensor) -> Tensor:
        """Return `value`, after validating it if samples are validated."""
        if self._validate_args:
            self._validate_sample(value)
        return value

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        parameters = (
            f"{name}: {value.size() if value.numel() != 1 or functional.is_batched(value) else value}"
            for name, value in ((name, self.__dict__[name]) for name in names)
            if isinstance(value, Tensor)
        )
        return f"{self.__class__.__name__}({', '.join(parameters)})"


class ExponentialFamily(Distribution):
    """A distribution with density ``exp(<t(x), theta> - F(theta) + k(x))``, whose entropy is computed from F.

    Examples
    --------
    >>> import gradcore as gc
    >>> class Exponential(gc.distributions.ExponentialFamily):
    ...     _mean_carrier_measure = 0
    ...     _natural_params = property(lambda self: (-self.rate,))
    ...
    ...     def __init__(self, rate):
    ...         super().__init__(validate_args=False)
    ...         self.rate = rate
    ...
    ...     def _log_normalizer(self, x):
    ...         return -(-x).log()
    >>> Exponential(gc.tensor(2.0)).entropy().detach()
    tensor(0.3069)
    """

    @property
    def _mean_carrier_measure(self) -> Any:
        """Mean of k."""
        raise NotImplementedError

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """Natural parameters theta."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """Return the logarithm F of the normalizer."""
        raise NotImplementedError

    def _normalizer_and_slopes(self) -> tuple[list[Tensor], Tensor, tuple[Tensor, ...]]:
        """Return the natural parameters, F, and the derivatives of F with respect to them."""
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        with enable_grad():
            normalizer = self._log_normalizer(*natural)
            return natural, normalizer, grad(normalizer.sum(), natural, create_graph=True)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats, computed from the derivatives of F."""
        natural, normalizer, slopes = self._normalizer_and_slopes()
        result = normalizer - self._mean_carrier_measure
        for parameter, slope in zip(natural, slopes, strict=True):
            product = parameter * slope
            result = result - product.reshape(*self._batch_shape, -1).sum(-1)
        return result  # type: ignore[no-any-return]


def log_beta(*concentrations: Tensor) -> Tensor:
    """Return the logarithm of the beta function of two or more numbers."""
    return sum(functional.lgamma(c) for c in concentrations) - functional.lgamma(sum(concentrations))  # type: ignore[no-any-return]


LOG_2PI = math.log(2 * math.pi)


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Return the sum of ``coefficients[i] * x**i``."""
    result = functional.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result  # type: ignore[no-any-return]


def divide_log1p(z: Tensor, k: Tensor) -> Tensor:
    """Return ``log1p(k * z) / k``, and its limit `z` for ``k = 0``, with accurate derivatives for all `k`."""
    return _divide(functional.log1p, [(-1) ** i / (i + 1) for i in range(8)], z, k)


def divide_expm1(z: Tensor, k: Tensor) -> Tensor:
    """Return ``expm1(k * z) / k``, and its limit `z` for ``k = 0``, with accurate derivatives for all `k`."""
    return _divide(functional.expm1, [1 / math.factorial(i + 1) for i in range(8)], z, k)


def _divide(function: Any, coefficients: Sequence[float], z: Tensor, k: Tensor) -> Tensor:
    """Return ``function(k * z) / k``, by a series where the terms of its derivatives cancel."""
    z, k = broadcast_all(z, k)
    x = k * functional.where((k == 0) & z.isinf(), 0.0, z)
    near = x.abs() < finfo(x.dtype).eps ** (1 / len(coefficients))
    series = z * polynomial(functional.where(near, x, 0.0), coefficients)
    quotient = function(functional.where(near, 1.0, x)) / functional.where(near, 1.0, k)
    return functional.where(near, series, quotient)  # type: ignore[no-any-return]
