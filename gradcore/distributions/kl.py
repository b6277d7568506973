"""Kullback-Leibler divergences of pairs of distributions, by their classes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from gradcore import functional
from gradcore.distributions.categorical import Categorical, OneHotCategorical
from gradcore.distributions.circular import ContinuousBernoulli
from gradcore.distributions.composites import Independent
from gradcore.distributions.continuous import Cauchy, Exponential, Laplace, Normal, Uniform
from gradcore.distributions.discrete import Bernoulli, Binomial, Geometric, Poisson
from gradcore.distributions.distribution import LOG_2PI, Distribution, ExponentialFamily, log_beta
from gradcore.distributions.gammas import Beta, Dirichlet, Gamma
from gradcore.distributions.matrices import Wishart
from gradcore.distributions.multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_det,
    mahalanobis,
)
from gradcore.distributions.positive import EULER, Gumbel, HalfNormal, Pareto
from gradcore.distributions.transform import sum_rightmost
from gradcore.distributions.transformed import TransformedDistribution
from gradcore.functions.linalg import solve_triangular
from gradcore.nn import functional as F
from gradcore.tensor import Tensor
from gradcore.tensor.creation import arange, full_like

__all__ = ["kl_divergence", "register_kl"]

_FORMULAS: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Return a decorator that registers a function as the divergence of two classes and their subclasses.

    Parameters
    ----------
    type_p, type_q : type
        Classes of distributions, or base classes of them. The most specific registration is used.

    Returns
    -------
    callable

    Examples
    --------
    >>> import gradcore as gc
    >>> class Mine(gc.distributions.Normal):
    ...     pass
    >>> @gc.distributions.register_kl(Mine, Mine)
    ... def divergence(p, q):
    ...     return gc.zeros(())
    >>> gc.distributions.kl_divergence(Mine(0.0, 1.0), Mine(1.0, 1.0))
    tensor(0.)
    """
    types: dict[str, Any] = {"type_p": type_p, "type_q": type_q}
    for name, cls in types.items():
        if not isinstance(cls, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {cls}")

    def register(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        _FORMULAS[type_p, type_q] = function
        _find.cache_clear()
        return function

    return register


@functools.cache
def _find(type_p: Any, type_q: Any) -> Callable[[Any, Any], Tensor] | None:
    """Return the divergence registered for the nearest base classes, first those nearest to `type_p`."""
    matches = [pair for pair in _FORMULAS if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not matches:
        return None
    order = type_p.__mro__, type_q.__mro__
    return _FORMULAS[min(matches, key=lambda pair: (order[0].index(pair[0]), order[1].index(pair[1])))]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the Kullback-Leibler divergence: the mean of ``p.log_prob - q.log_prob`` over values of `p`.

    Parameters
    ----------
    p, q : Distribution

    Returns
    -------
    Tensor
        The divergences, in the batch shape.

    Raises
    ------
    NotImplementedError
        If there is no formula for these families.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    families: tuple[Any, Any] = type(p), type(q)
    formula = _find(*families)
    if formula is None:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
                                  f"{type(q).__name__}")  # fmt: skip
    return formula(p, q)


def _infinite_unless(condition: Tensor, value: Tensor) -> Tensor:
    return functional.where(condition, value, math.inf)  # type: ignore[no-any-return]


# -- of one family ----------------------------------------------------------------------------------------------------


@register_kl(ExponentialFamily, ExponentialFamily)
def _family_divergence(p: Any, q: Any) -> Tensor:
    """Return the divergence within an exponential family, as the Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    natural, normalizer, slopes = p._normalizer_and_slopes()
    result = q._log_normalizer(*q._natural_params) - normalizer
    for theta_p, theta_q, slope in zip(natural, q._natural_params, slopes, strict=True):
        result = result - sum_rightmost((theta_q - theta_p) * slope, len(q.event_shape))
    return result  # type: ignore[no-any-return]


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    term_of_one = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    zero = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    term_of_one = functional.where(q.probs == 0, math.inf, term_of_one)
    term_of_one = functional.where(p.probs == 0, 0.0, term_of_one)
    zero = functional.where(q.probs == 1, math.inf, zero)
    return term_of_one + functional.where(p.probs == 1, 0.0, zero)  # type: ignore[no-any-return]


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    normalizers = log_beta(c, d) - log_beta(a, b)
    return normalizers + (a - c) * a.digamma() + (b - d) * b.digamma() + (c + d - a - b) * (a + b).digamma()


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    odds = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return _infinite_unless((p.total_count <= q.total_count) & (odds == odds), odds)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t = functional.where((q.probs == 0).expand(t.shape), math.inf, t)
    return functional.where((p.probs == 0).expand(t.shape), 0.0, t).sum(-1)  # type: ignore[no-any-return]


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    log_norm_p = p._log_norm() + (-p.probs).log1p()
    log_norm_q = q._log_norm() + (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + log_norm_p - log_norm_q  # type: ignore[no-any-return]


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    means = a.digamma() - a.sum(-1).digamma().unsqueeze(-1)
    return q._log_normalizer(b) - p._log_normalizer(a) + ((a - b) * means).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    return b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + a * (q.rate / p.rate - 1)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, distance = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return -ratio.log() - distance + ratio * EULER + (distance + (1 + ratio).lgamma()).exp() - (1 + EULER)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits  # type: ignore[no-any-return]


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    value = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _infinite_unless(p.scale >= q.scale, value)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    value = ((q.high - q.low) / (p.high - p.low)).log()
    return _infinite_unless((q.low <= p.low) & (p.high <= q.high), value)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    log_sum = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return log_sum - (4 * p.scale * q.scale).log()


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_of_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    extra_dims = len(p.event_shape) - len(p.base_dist.event_shape)
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), extra_dims)  # type: ignore[no-any-return]


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)  # type: ignore[no-any-return]


# -- of normal vectors ------------------------------------------------------------------------------------------------


def _spread(p: Any) -> Tensor:
    """Return a factor of the covariance of `p`, which is square or wider than high."""
    if isinstance(p, MultivariateNormal):
        return p._unbroadcasted_scale_tril
    return functional.cat([p.cov_factor, p.cov_diag.sqrt().diag_embed()], -1)  # type: ignore[no-any-return]


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    n, spread = p.event_shape[0], _spread(p)
    factor = q.scale_tril.expand(*p.batch_shape, n, n) if not q.batch_shape else q.scale_tril
    traces = solve_triangular(factor, spread.expand(*factor.shape[:-2], *spread.shape[-2:]), upper=False)
    trace = traces.pow(2).sum((-2, -1))
    dets = half_log_det(q.scale_tril) - half_log_det(p.scale_tril)
    return dets + 0.5 * (trace + mahalanobis(q.scale_tril, q.loc - p.loc) - n)  # type: ignore[no-any-return]


@register_kl(Wishart, Wishart)
def _wishart(p: Wishart, q: Wishart) -> Tensor:
    n = p.event_shape[-1]
    dets = half_log_det(q.scale_tril) - half_log_det(p.scale_tril)
    trace = solve_triangular(q.scale_tril, p.scale_tril, upper=False).pow(2).sum((-2, -1))
    a, b = p.df / 2, q.df / 2
    steps = arange(n, dtype=a.dtype, device=a.device) / 2
    digamma = (a.unsqueeze(-1) - steps).digamma().sum(-1)
    return q.df * dets + a * (trace - n) + b.mvlgamma(n) - a.mvlgamma(n) + (a - b) * digamma  # type: ignore[no-any-return]


# -- of different families --------------------------------------------------------------------------------------------


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)  # type: ignore[no-any-return]


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    return _infinite_unless((p.low >= 0) & (p.high <= 1), _to_continuous_bernoulli(p, q))


@register_kl(Beta, ContinuousBernoulli)
def _to_continuous_bernoulli(p: Distribution, q: ContinuousBernoulli) -> Tensor:
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_norm()  # type: ignore[no-any-return]


@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
@register_kl(Beta, Exponential)
def _to_exponential(p: Distribution, q: Exponential) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Gamma)
def _beta_gamma(p: Beta, q: Gamma) -> Tensor:
    a = p.concentration1
    mean_log = a.digamma() - (a + p.concentration0).digamma()
    return (
        -p.entropy()
        + q.concentration.lgamma()
        - q.concentration * q.rate.log()
        - (q.concentration - 1) * mean_log
        + q.rate * p.mean
    )


@register_kl(Beta, Normal)
def _beta_normal(p: Beta, q: Normal) -> Tensor:
    return -p.entropy() + _cross_entropy_normal(p.mean, p.variance, q)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _to_uniform(p: Distribution, q: Uniform) -> Tensor:
    """Return the divergence of a distribution on [0, 1] from a uniform distribution."""
    return _infinite_unless((q.low <= 0) & (q.high >= 1), -p.entropy() + (q.high - q.low).log())


def _cross_entropy_normal(mean: Tensor, variance: Tensor, q: Normal) -> Tensor:
    """Return the mean of ``-q.log_prob`` over values with this mean and variance."""
    return q.scale.log() + 0.5 * LOG_2PI + 0.5 * (variance + (mean - q.loc).pow(2)) / q.scale.pow(2)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    ratio = q.rate / p.rate
    return -q.concentration * ratio.log() + ratio + q.concentration.lgamma() + q.concentration * EULER - (1 + EULER)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    product, start = p.rate * q.scale, q.loc / q.scale
    return product.log() - 1 + start.exp() * product / (product + 1) - start + product.reciprocal()


@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
@register_kl(ContinuousBernoulli, Normal)
def _to_normal(p: Distribution, q: Normal) -> Tensor:
    return -p.entropy() + _cross_entropy_normal(p.mean, p.variance, q)


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    product, start = p.rate * q.scale, q.loc / q.scale
    entropy_terms = (p.concentration - 1) * p.concentration.digamma() - p.concentration.lgamma() - p.concentration
    return (
        entropy_terms
        + product.log()
        + p.concentration / product
        - start
        + start.exp() * (1 + product.reciprocal()).pow(-p.concentration)
    )


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    mean = (p.loc - q.loc) / q.scale
    half_square = 0.5 * (p.scale / q.scale).pow(2)
    return -(p.scale / q.scale).log() + mean + (half_square - mean).exp() - 0.5 * (1 + LOG_2PI)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    distance, ratio = p.loc - q.loc, (p.loc - q.loc) / p.scale
    mean = math.sqrt(2 / math.pi) * p.scale * (-0.5 * ratio.pow(2)).exp() + distance * (ratio / math.sqrt(2)).erf()
    return -p.entropy() + (2 * q.scale).log() + mean / q.scale


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    product = p.scale * q.rate
    value = (p.alpha / product).log() - p.alpha.reciprocal() + p.alpha * product / (p.alpha - 1) - 1
    return _infinite_unless(p.alpha > 1, value)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    mean_log = p.scale.log() + p.alpha.reciprocal()
    value = (
        p.alpha.log() - p.scale.log() - (1 + p.alpha.reciprocal())
        + q.concentration.lgamma() - q.concentration * q.rate.log()
        + (1 - q.concentration) * mean_log + q.rate * p.alpha * p.scale / (p.alpha - 1)
    )  # fmt: skip
    return _infinite_unless(p.alpha > 1, value)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Pareto, q: Normal) -> Tensor:
    value = -p.entropy() + _cross_entropy_normal(p.mean, p.variance, q)
    return _infinite_unless(p.alpha > 2, value)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1 - 1, q.concentration0 - 1
    width = p.high - p.low
    below = (functional.xlogy(p.high, p.high) - functional.xlogy(p.low, p.low)) / width - 1
    mean_log_complement = (
        functional.xlogy(1 - p.low, 1 - p.low) - functional.xlogy(1 - p.high, 1 - p.high)
    ) / width - 1
    value = log_beta(q.concentration1, q.concentration0) - width.log() - a * below - b * mean_log_complement
    return _infinite_unless((p.low >= 0) & (p.high <= 1), value)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    return _infinite_unless(p.low >= 0, q.rate * p.mean - ((p.high - p.low) * q.rate).log())


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    width = p.high - p.low
    mean_log = (functional.xlogy(p.high, p.high) - functional.xlogy(p.low, p.low)) / width - 1
    k = q.concentration
    value = -width.log() + k.lgamma() - k * q.rate.log() + (1 - k) * mean_log + q.rate * p.mean
    return _infinite_unless(p.low >= 0, value)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    width, low, high = q.scale / (p.high - p.low), (p.low - q.loc) / q.scale, (p.high - q.loc) / q.scale
    return width.log() + 0.5 * (low + high) - width * ((-high).exp() - (-low).exp())


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    width = p.high - p.low
    mean_log = (functional.xlogy(p.high, p.high) - functional.xlogy(p.low, p.low)) / width - 1
    value = mean_log * (q.alpha + 1) - q.alpha.log() - q.alpha * q.scale.log() - width.log()
    return _infinite_unless(p.low >= q.scale, value)


def _infinite(p: Any, q: Any) -> Tensor:
    """Return infinity, as `p` has values that `q` cannot have."""
    return full_like(p.mean, math.inf)


#: Pairs of which the first has values that the second cannot have.
for _mine, _theirs in (
    (Beta, (Pareto,)),
    (Exponential, (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gamma, (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gumbel, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Laplace, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Normal, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Pareto, (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, (Bernoulli, Binomial)),
    (ContinuousBernoulli, (Pareto,)),
):
    for _each in _theirs:
        register_kl(_mine, _each)(_infinite)
