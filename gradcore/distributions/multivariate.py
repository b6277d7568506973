"""Multivariate normal distributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradcore import functional
from gradcore.core.size import Size
from gradcore.distributions import constraints
from gradcore.distributions.continuous import random
from gradcore.distributions.distribution import LOG_2PI, Distribution, lazy_property
from gradcore.functions.linalg import cholesky, solve_triangular
from gradcore.tensor import Tensor
from gradcore.tensor.creation import eye
from gradcore.tensor.predicates import broadcast_shapes

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal", "mahalanobis"]


def mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """Return the squared Mahalanobis lengths of vectors, given the Cholesky factor of the covariance."""
    batch = broadcast_shapes(factor.shape[:-2], x.shape[:-1])
    n = x.shape[-1]
    z = solve_triangular(factor.expand(*batch, n, n), x.expand(*batch, n).unsqueeze(-1), upper=False)
    return z.squeeze(-1).pow(2).sum(-1)


def half_log_det(factor: Tensor) -> Tensor:
    """Return half the logarithm of a covariance's determinant, given its Cholesky factor."""
    return factor.diagonal(0, -2, -1).log().sum(-1)


def inverse_of_factor(factor: Tensor) -> Tensor:
    """Return the inverse of a matrix, given its Cholesky factor."""
    n = factor.shape[-1]
    inverse = solve_triangular(factor, eye(n, dtype=factor.dtype, device=factor.device), upper=False)
    return inverse.mT @ inverse


def factor_of_inverse(matrix: Tensor) -> Tensor:
    """Return the Cholesky factor of the inverse of a matrix."""
    flipped = cholesky(matrix.flip(-2, -1))
    lower = flipped.flip(-2, -1).mT  # the inverse is lower triangular, too
    return solve_triangular(lower, eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device), upper=False)


#: Functions that compute the Cholesky factor of the covariance, by the parameter that is given.
_FACTORS: dict[str, Callable[[Tensor], Tensor]] = {
    "covariance_matrix": cholesky,
    "precision_matrix": factor_of_inverse,
    "scale_tril": lambda factor: factor,
}


def single_factor(*matrices: Tensor | None) -> tuple[str, Tensor]:
    """Return the name and value of the one matrix that is not None. Raise an error if there is not exactly one."""
    named_matrices = [(name, matrix) for name, matrix in zip(_FACTORS, matrices, strict=True) if matrix is not None]
    if len(named_matrices) != 1:
        raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    return named_matrices[0]


def check_matrix(name: str, value: Tensor) -> None:
    """Raise an error unless the tensor has at least two dims."""
    if value.ndim < 2:
        raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")


class OfCovariance(Distribution):
    """Base class of distributions given by a covariance, its inverse or its Cholesky factor.

    The others are computed.
    """

    arg_constraints: Any = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    _event_dims = {"covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2, "_unbroadcasted_scale_tril": 2}
    has_rsample = True

    def _init_covariance(
        self, name: str, matrix: Tensor, batch: Sequence[int], event: Sequence[int], validate_args: bool | None
    ) -> None:
        """Initialize with one of the three matrices, whose name is `name`."""
        setattr(self, name, matrix.expand(*batch, -1, -1))
        super().__init__(batch, event, validate_args=validate_args)
        self._unbroadcasted_scale_tril = _FACTORS[name](matrix)

    def _whole(self, matrix: Tensor) -> Tensor:
        """Return `matrix` expanded to the batch of distributions."""
        n = self._event_shape[-1]
        return matrix.expand(*self._batch_shape, n, n)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariance matrix."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Covariance matrix."""
        return self._whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance matrix."""
        return self._whole(inverse_of_factor(self._unbroadcasted_scale_tril))


class MultivariateNormal(OfCovariance):
    """The normal distribution of vectors.

    Parameters
    ----------
    loc : Tensor
        The mean.
    covariance_matrix, precision_matrix, scale_tril : Tensor, optional
        The covariance, its inverse, or its Cholesky factor, which is the fastest; one must be given.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore
    >>> normal = gradcore.distributions.MultivariateNormal(gradcore.zeros(2), gradcore.eye(2))
    >>> normal.log_prob(gradcore.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {"loc": constraints.real_vector, **OfCovariance.arg_constraints}
    _event_dims = {**OfCovariance._event_dims, "loc": 1}
    support = constraints.real_vector

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = single_factor(covariance_matrix, precision_matrix, scale_tril)
        check_matrix(name, matrix)
        batch = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(*batch, -1)
        self._init_covariance(name, matrix, batch, loc.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(*self._batch_shape, *self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        z = random("randn", self, sample_shape, self.loc)
        return self.loc + (self._unbroadcasted_scale_tril @ z.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        distance = mahalanobis(self._unbroadcasted_scale_tril, self._check_sample(value) - self.loc)
        return -0.5 * (self._event_shape[0] * LOG_2PI + distance) - half_log_det(self._unbroadcasted_scale_tril)  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        entropy = 0.5 * self._event_shape[0] * (1.0 + LOG_2PI) + half_log_det(self._unbroadcasted_scale_tril)
        return entropy.expand(self._batch_shape)  # type: ignore[no-any-return]


class LowRankMultivariateNormal(Distribution):
    """The multivariate normal distribution with covariance ``cov_factor @ cov_factor.mT + diag(cov_diag)``.

    Parameters
    ----------
    loc : Tensor
        The mean.
    cov_factor : Tensor
        A matrix with as many rows as the mean has elements, and fewer columns.
    cov_diag : Tensor
        The diagonal matrix that is added, as a vector.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.LowRankMultivariateNormal(gc.zeros(2), gc.ones(2, 1), gc.ones(2)).covariance_matrix
    tensor([[2., 1.],
            [1., 2.]])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    _event_dims = {
        "loc": 1, "cov_factor": 2, "cov_diag": 1, "_capacitance_tril": 2,
        "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2, "variance": 1,
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1]
        check_matrix("cov_factor", cov_factor)
        if cov_factor.shape[-2] != n:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {n} x m")
        if cov_diag.shape[-1] != n:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {n}")
        batch = broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc, self.cov_diag = loc.expand(*batch, -1), cov_diag.expand(*batch, -1)
        self.cov_factor = cov_factor.expand(*batch, -1, -1)
        super().__init__(batch, Size((n,)), validate_args=validate_args)
        identity = eye(cov_factor.shape[-1], dtype=cov_factor.dtype, device=cov_factor.device)
        self._capacitance_tril = cholesky(identity + self._scale_factor @ self.cov_factor)

    @property
    def _scale_factor(self) -> Tensor:
        """Return the transposed factor with its columns divided by the diagonal."""
        return self.cov_factor.mT / self.cov_diag.unsqueeze(-2)

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @lazy_property
    def variance(self) -> Tensor:
        """Variance of each element."""
        return self.cov_factor.pow(2).sum(-1) + self.cov_diag

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Covariance matrix."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariance matrix."""
        return cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance matrix."""
        solved = solve_triangular(self._capacitance_tril, self._scale_factor, upper=False)
        return self.cov_diag.reciprocal().diag_embed() - solved.mT @ solved

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        rank = self.cov_factor.shape[-1]
        shape = (*sample_shape, *self._batch_shape, rank, 1)
        shared = functional.randn(*shape, dtype=self.loc.dtype, device=self.loc.device)
        diagonal_noise = random("randn", self, sample_shape, self.loc)
        return self.loc + (self.cov_factor @ shared).squeeze(-1) + self.cov_diag.sqrt() * diagonal_noise  # type: ignore[no-any-return]

    def log_prob(self, value: Tensor) -> Tensor:
        difference = self._check_sample(value) - self.loc
        within = difference.pow(2) / self.cov_diag
        projected = (self._scale_factor @ difference.unsqueeze(-1)).squeeze(-1)
        distance = within.sum(-1) - mahalanobis(self._capacitance_tril, projected)
        return -0.5 * (self._event_shape[0] * LOG_2PI + self._log_det + distance)  # type: ignore[no-any-return]

    @property
    def _log_det(self) -> Tensor:
        return 2 * half_log_det(self._capacitance_tril) + self.cov_diag.log().sum(-1)

    def entropy(self) -> Tensor:
        entropy = 0.5 * (self._event_shape[0] * (1.0 + LOG_2PI) + self._log_det)
        return entropy.expand(self._batch_shape)  # type: ignore[no-any-return]
