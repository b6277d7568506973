"""Probability distributions, as ``torch.distributions`` has them: samples with gradients, densities, divergences.

Samples of `rsample` are differentiable functions of the parameters, so that gradients of means can be estimated;
gamma numbers, and what is made of them (beta, Dirichlet, Student's t), move so that their distribution function stays
what it is. Where there is no `rsample`, ``log_prob`` times a reward has the gradient.

Examples
--------
>>> import gradcore
>>> from gradcore.distributions import Categorical, Normal
>>> scale = gradcore.tensor(2.0, requires_grad=True)
>>> Normal(0.0, scale).rsample((4000,)).square().mean().backward()  # the variance, whose derivative is 2 * scale
>>> bool((scale.grad - 4).abs() < 0.5)
True
>>> logits = gradcore.zeros(3, requires_grad=True)
>>> policy = Categorical(logits=logits)
>>> action = policy.sample()
>>> (-policy.log_prob(action) * 1.0).backward()
>>> bool(logits.grad.argmin() == action)  # a step would make it likelier
True
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
