"""Distributions of covariance matrices, and of Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradcore import functional
from gradcore.autograd.grad_mode import no_grad
from gradcore.core.dtypes import finfo
from gradcore.distributions import constraints
from gradcore.distributions.distribution import Distribution, ExponentialFamily, Parameter, broadcast_all
from gradcore.distributions.gammas import Beta, log_gammas
from gradcore.distributions.multivariate import OfCovariance, check_matrix, half_log_det, single_factor
from gradcore.functions.linalg import slogdet
from gradcore.tensor import Tensor
from gradcore.tensor.creation import arange
from gradcore.tensor.predicates import broadcast_shapes

__all__ = ["LKJCholesky", "Wishart"]


class LKJCholesky(Distribution):
    """Distribution of Cholesky factors of correlation matrices whose density is a power of the determinant.

    Parameters
    ----------
    dim : int
        The size of the matrices.
    concentration : float or Tensor
        At 1 all correlation matrices are equally likely; above, those near the unit matrix are likelier.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.LKJCholesky(3, 1.0).sample().shape
    torch.Size([3, 3])
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Parameter = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw factors row by row: first the length of the part beside the diagonal, then its direction."""
        with no_grad():
            like = self.concentration
            # The number of elements before the diagonal, for each row.
            positions = arange(self.dim, dtype=like.dtype, device=like.device)
            rows = Beta(positions[1:] / 2, like.unsqueeze(-1) + (self.dim - 1 - positions[1:]) / 2, validate_args=False)
            squares = rows.sample(sample_shape)
            shape = self._extended_shape(sample_shape)
            direction = functional.randn(*shape, dtype=like.dtype, device=like.device).tril(-1)[..., 1:, :]
            direction = direction / direction.norm(dim=-1, keepdim=True)
            below = squares.sqrt().unsqueeze(-1) * direction
            factor = functional.zeros(shape, dtype=like.dtype, device=like.device)
            factor[..., 1:, :] = below
            diagonal = (1 - factor.square().sum(-1)).clamp(min=finfo(like.dtype).tiny).sqrt()
            return factor + diagonal.diag_embed()  # type: ignore[no-any-return]

    def log_prob(self, value: Tensor) -> Tensor:
        diagonal = self._check_sample(value).diagonal(0, -2, -1)[..., 1:]
        n, k = self.dim, self.concentration
        order = arange(2, n + 1, dtype=k.dtype, device=k.device)
        powers = 2 * (k - 1).unsqueeze(-1) + n - order
        alpha = k + 0.5 * (n - 1)
        normalizer = 0.5 * (n - 1) * math.log(math.pi) + (alpha - 0.5).mvlgamma(n - 1) - alpha.lgamma() * (n - 1)
        return (powers * diagonal.log()).sum(-1) - normalizer


class Wishart(OfCovariance, ExponentialFamily):
    """The Wishart distribution, of the sum of outer products of normal vectors.

    Parameters
    ----------
    df : float or Tensor
        The number of vectors; need not be an integer, but must be greater than their size minus 1.
    covariance_matrix, precision_matrix, scale_tril : Tensor, optional
        The covariance of the vectors, its inverse, or its Cholesky factor; one must be given.
    validate_args : bool, optional
        Whether parameters and values are checked.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.Wishart(gc.tensor(3.0), gc.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {**OfCovariance.arg_constraints, "df": constraints.greater_than(self._event_shape[-1] - 1)}

    def __init__(
        self,
        df: Parameter,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = single_factor(covariance_matrix, precision_matrix, scale_tril)
        check_matrix("scale_tril", matrix)  # PyTorch uses this name for all three matrices
        df = df if isinstance(df, Tensor) else functional.as_tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch = broadcast_shapes(matrix.shape[:-2], df.shape)
        self.df = df.expand(batch)
        self._event_shape = matrix.shape[-2:]
        self._init_covariance(name, matrix, batch, self._event_shape, validate_args)

    @property
    def _scaled_df(self) -> Tensor:
        return self.df[..., None, None]  # type: ignore[no-any-return]

    @property
    def mean(self) -> Tensor:
        return self._scaled_df * self.covariance_matrix  # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        factor = self._scaled_df - self._event_shape[-1] - 1
        return factor.masked_fill(factor <= 0, math.nan) * self.covariance_matrix  # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(0, -2, -1)
        return self._scaled_df * (v.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))  # type: ignore[no-any-return]

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw by Bartlett's decomposition: normal numbers below a diagonal of roots of chi-squared numbers."""
        n = self._event_shape[-1]
        shape = self._extended_shape(sample_shape)
        degrees = self.df.unsqueeze(-1) - arange(n, dtype=self.df.dtype, device=self.df.device)
        diagonal = (0.5 * (log_gammas(degrees / 2, shape[:-1]) + math.log(2))).exp()
        normal = functional.randn(*shape, dtype=diagonal.dtype, device=diagonal.device)
        factor = self._unbroadcasted_scale_tril @ (normal.tril(-1) + diagonal.diag_embed())
        return factor @ factor.mT  # type: ignore[no-any-return]

    def log_prob(self, value: Tensor) -> Tensor:
        n, half = self._event_shape[-1], self.df / 2
        self._check_sample(value)
        normalizer = self.df * (0.5 * n * math.log(2) + half_log_det(self._unbroadcasted_scale_tril)) + half.mvlgamma(n)
        trace = functional.cholesky_solve(value, self._unbroadcasted_scale_tril).diagonal(0, -2, -1).sum(-1)
        return (half - (n + 1) / 2) * slogdet(value).logabsdet - 0.5 * trace - normalizer  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        n, half = self._event_shape[-1], self.df / 2
        steps = arange(n, dtype=half.dtype, device=half.device) / 2
        expected = (half.unsqueeze(-1) - steps).digamma().sum(-1)
        log_scale = (n + 1) * (0.5 * n * math.log(2) + half_log_det(self._unbroadcasted_scale_tril))
        return log_scale + half.mvlgamma(n) - (half - (n + 1) / 2) * expected + half * n  # type: ignore[no-any-return]

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        n = self._event_shape[-1]
        half = y + (n + 1) / 2  # half of the degrees of freedom
        return half.mvlgamma(n) - half * slogdet(-x).logabsdet  # type: ignore[no-any-return]
