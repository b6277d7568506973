"""Probability distributions, as in ``torch.distributions``: differentiable samples, densities and divergences.

Samples from `rsample` are differentiable functions of the parameters, so that gradients of expectations can be
estimated. Samples based on gamma numbers (gamma, beta, Dirichlet, Student's t) are differentiated implicitly: a sample
moves so that its distribution function stays constant. Without `rsample`, use the gradient of ``log_prob`` times a
reward.
"""

from gradcore.distributions import constraints, transforms
from gradcore.distributions.categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from gradcore.distributions.circular import ContinuousBernoulli, VonMises
from gradcore.distributions.composites import Independent, MixtureSameFamily
from gradcore.distributions.constraint_registry import biject_to, transform_to
from gradcore.distributions.continuous import Cauchy, Exponential, GeneralizedPareto, Laplace, Normal, Uniform
from gradcore.distributions.discrete import Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson
from gradcore.distributions.distribution import Distribution, ExponentialFamily
from gradcore.distributions.gammas import Beta, Chi2, Dirichlet, FisherSnedecor, Gamma, StudentT
from gradcore.distributions.kl import kl_divergence, register_kl
from gradcore.distributions.matrices import LKJCholesky, Wishart
from gradcore.distributions.multivariate import LowRankMultivariateNormal, MultivariateNormal
from gradcore.distributions.positive import (
    Gumbel,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Kumaraswamy,
    LogisticNormal,
    LogNormal,
    Pareto,
    Weibull,
)
from gradcore.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from gradcore.distributions.transformed import TransformedDistribution
from gradcore.distributions.transforms import *  # noqa: F403
from gradcore.torch_names import paths

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "constraints",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
    *transforms.__all__,
]

__getattr__ = paths.further(__name__)
paths.show_public(__name__)
