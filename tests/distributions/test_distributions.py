"""Every family: moments of samples, densities, gradients, shapes, checks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import gradcore as gc
from gradcore import distributions
from tests.distributions.families import EACH, FAMILIES, IDS, made, tensors

each = pytest.mark.parametrize(("name", "parameters"), EACH, ids=IDS)


def _or_none(call):
    try:
        return call()
    except NotImplementedError:
        return None


@each
def test_samples_have_the_mean_and_the_variance(name, parameters):
    n = 20000
    d = made(gc, name, parameters)
    x = d.sample((n,))
    assert x.shape == (n, *d.batch_shape, *d.event_shape)
    assert d.support.check(x).all()
    assert not x.requires_grad
    mean, variance = _or_none(lambda: d.mean), _or_none(lambda: d.variance)
    if name == "VonMises" or mean is None or not mean.isfinite().all():
        return
    spread = variance.sqrt()
    assert ((x.mean(0) - mean).abs() <= 5 * spread / math.sqrt(n) + 1e-9).all()
    fourth = ((x - mean) ** 4).mean(0)  # for the variance of the squares
    assert ((x.var(0) - variance).abs() <= 6 * (fourth / n).sqrt() + 1e-9).all()
    assert gc.allclose(d.stddev, spread)


RANDOMLY_DIFFERENTIABLE = [
    (name, parameters) for name, parameters in EACH if name not in ("Cauchy", "HalfCauchy", "LogisticNormal")
]


@pytest.mark.parametrize(
    ("name", "parameters"),
    RANDOMLY_DIFFERENTIABLE,
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_gradients_of_samples_are_those_of_the_mean(name, parameters):
    n = 20000
    given = tensors(gc, {k: v.astype(float) if isinstance(v, np.ndarray) else v for k, v in parameters.items()}, True)
    d = getattr(distributions, name)(**given)
    if not d.has_rsample:
        with pytest.raises(NotImplementedError):
            d.rsample()
        return
    names = [key for key, value in given.items() if isinstance(value, gc.Tensor)]
    leaves = [given[key] for key in names]
    mean = _or_none(lambda: d.mean)
    weights = gc.randn(*d.batch_shape, *d.event_shape, dtype=gc.float64)
    if mean is None:  # the relaxed ones: there, the sample is a formula of the parameters
        x = d.rsample((4,))
        assert all(g.isfinite().all() for g in gc.autograd.grad((x * weights).sum(), leaves))
        return
    parts = [(d.rsample((n // 20,)).mean(0) * weights).sum() for _ in range(20)]
    settings = {"allow_unused": True, "materialize_grads": True}
    each = [gc.autograd.grad(part, leaves, retain_graph=True, **settings) for part in parts]
    found = [gc.stack(gradients) for gradients in zip(*each, strict=True)]
    expected = gc.autograd.grad((mean * weights).sum(), leaves, **settings)
    for key, some, wanted in zip(names, found, expected, strict=True):
        if key in ("covariance_matrix", "precision_matrix"):  # of which only the symmetric part counts
            some, wanted = some + some.mT, wanted + wanted.mT
        assert ((some.mean(0) - wanted).abs() <= 6 * some.std(0) / math.sqrt(20) + 1e-6).all()


@each
def test_densities_are_derivatives_of_distribution_functions(name, parameters):
    d = made(gc, name, parameters)
    if name == "Categorical":
        return  # whose values are integers
    x = d.sample((5,)).requires_grad_()
    cdf = _or_none(lambda: d.cdf(x))
    if cdf is None:
        return
    (slope,) = gc.autograd.grad(cdf.sum(), x)
    assert gc.allclose(slope.log(), d.log_prob(x), atol=1e-5)
    again = _or_none(lambda: d.icdf(cdf.detach()))
    assert again is None or gc.allclose(again, x, atol=1e-6)


@each
def test_probabilities_of_all_values_sum_to_one(name, parameters):
    d = made(gc, name, parameters)
    if not d.has_enumerate_support:
        with pytest.raises(NotImplementedError):
            d.enumerate_support()
        return
    values = d.enumerate_support()
    assert gc.allclose(d.log_prob(values).exp().sum(0), gc.ones(d.batch_shape, dtype=gc.float64))
    few = d.enumerate_support(expand=False)
    assert gc.equal(few.expand_as(values), values)
    entropy = -(d.log_prob(values).exp() * d.log_prob(values)).sum(0)
    assert gc.allclose(d.entropy(), entropy)
    assert gc.allclose(d.perplexity(), entropy.exp())


@each
def test_entropies_are_means_of_densities(name, parameters):
    d = made(gc, name, parameters)
    entropy = _or_none(d.entropy)
    if entropy is None:
        return
    logs = d.log_prob(d.sample((20000,)))
    assert ((entropy + logs.mean(0)).abs() <= 6 * logs.std(0) / math.sqrt(20000) + 1e-9).all()


@each
def test_parameters_get_gradients_of_densities(name, parameters):
    x = made(gc, name, parameters).sample()
    given = tensors(gc, parameters)
    if name == "GeneralizedPareto":
        given["concentration"] += 0.3  # the slope at zero is tested below
    symmetric = ("covariance_matrix", "precision_matrix")  # which finite differences would not keep
    names = [key for key, value in given.items() if isinstance(value, gc.Tensor) and key not in symmetric]

    def density(*values):
        own = given | dict(zip(names, values, strict=True))
        return getattr(distributions, name)(**own, validate_args=False).log_prob(x)

    assert gc.autograd.gradcheck(density, [given[n].clone().requires_grad_() for n in names])


@each
def test_expanded_distributions_are_the_same(name, parameters):
    d = made(gc, name, parameters)
    x = d.sample((3,))
    d.log_prob(x)  # computes what is computed when first asked for
    wide = d.expand((3, *d.batch_shape))
    assert type(wide) is type(d)
    assert wide.batch_shape == (3, *d.batch_shape)
    assert wide.event_shape == d.event_shape
    assert gc.allclose(wide.log_prob(x), d.log_prob(x))
    assert wide.sample((2,)).shape == (2, 3, *d.batch_shape, *d.event_shape)
    assert d.batch_shape == made(gc, name, parameters).batch_shape


@each
def test_parameters_can_be_read(name, parameters):
    d = made(gc, name, parameters)
    x = d.sample((3,))
    again = getattr(distributions, name)(**{key: getattr(d, key) for key in parameters})
    assert gc.allclose(again.log_prob(x), d.log_prob(x))
    if "probs" in parameters or "logits" in parameters:
        other = "logits" if "probs" in parameters else "probs"
        rest = {key: getattr(d, key) for key in parameters if key not in ("probs", "logits")}
        turned = getattr(distributions, name)(**rest, **{other: getattr(d, other)})
        assert gc.allclose(turned.log_prob(x), d.log_prob(x))


@each
def test_no_value_is_denser_than_the_mode(name, parameters):
    d = made(gc, name, parameters, validate_args=False)
    mode = _or_none(lambda: d.mode)
    if mode is None:
        return
    assert mode.shape == d.batch_shape + d.event_shape
    highest = d.log_prob(mode)
    known = highest.isfinite()  # else there is none, or the density has no bound there
    assert known.any() or name in ("Uniform", "Dirichlet")
    assert (d.log_prob(d.sample((1000,)))[:, known] <= highest[known] + 1e-9).all()


@pytest.mark.parametrize("given", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_matrices_of_a_covariance_belong_together(given):
    (low_rank,) = FAMILIES["LowRankMultivariateNormal"]
    low = made(gc, "LowRankMultivariateNormal", low_rank)
    normal = distributions.MultivariateNormal(low.loc, **{given: getattr(low, given)})
    wishart = distributions.Wishart(4.0, **{given: getattr(low, given)})
    for name in ("covariance_matrix", "precision_matrix", "scale_tril"):
        assert gc.allclose(getattr(normal, name), getattr(low, name))
        assert gc.allclose(getattr(wishart, name), getattr(low, name))
    assert gc.allclose(low.covariance_matrix @ low.precision_matrix, gc.eye(3, dtype=gc.float64).expand(2, 3, 3))


@each
def test_representation_names_the_family(name, parameters):
    assert repr(made(gc, name, parameters)).startswith(f"{name}(")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.Normal(gc.zeros(2), gc.tensor([1.0, -1.0])), r"Expected parameter scale .* GreaterThan\("),
        (lambda d: d.Normal("a", 1.0), "must all be instances of Number"),
        (lambda d: d.Bernoulli(0.5, logits=0.0), "Either `probs` or `logits` must be specified, but not both"),
        (lambda d: d.Bernoulli(), "Either `probs` or `logits` must be specified, but not both"),
        (lambda d: d.Bernoulli(gc.tensor(1.5)), "Expected parameter probs"),
        (lambda d: d.Categorical(gc.tensor(0.5)), "must be at least one-dimensional"),
        (lambda d: d.Uniform(1.0, 0.0), "Expected parameter low"),
        (lambda d: d.Normal(0.0, 1.0).log_prob(1.0), "must be a Tensor"),
        (lambda d: d.Exponential(1.0).log_prob(gc.tensor(-1.0)), r"to be within the support \(GreaterThanEq"),
        (lambda d: d.Normal(gc.zeros(2), 1.0).log_prob(gc.zeros(3)), "not broadcastable with batch_shape"),
        (lambda d: d.Dirichlet(gc.ones(3)).log_prob(gc.ones(2) / 2), "right-most size of value must match event_shape"),
        (lambda d: d.Categorical(gc.ones(3)).log_prob(gc.tensor(3)), "IntegerInterval"),
        (lambda d: d.MultivariateNormal(gc.zeros(2)), "Exactly one of covariance_matrix"),
        (lambda d: d.MultivariateNormal(gc.zeros(2), gc.ones(2, 2)), "PositiveDefinite"),
        (lambda d: d.Independent(d.Normal(0.0, 1.0), 1), "Expected reinterpreted_batch_ndims <="),
        (lambda d: d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(gc.zeros(2), 1.0)), "Mixture distribution needs"),
        (lambda d: d.MixtureSameFamily(d.Categorical(gc.ones(3)), d.Normal(gc.zeros(2), 1.0)), "does not equal"),
        (lambda d: d.TransformedDistribution(d.Normal(0.0, 1.0), [1]), "transforms must be a Transform or list"),
        (lambda d: d.LKJCholesky(1), "greater than or equal to 2"),
        (lambda d: d.Geometric(gc.tensor(0.0)), r"Expected parameter probs .* to be positive but found"),
        (lambda d: d.Dirichlet(gc.tensor(1.0)), "`concentration` parameter must be at least one-dimensional"),
        (lambda d: d.MultivariateNormal(gc.tensor(0.0), gc.eye(1)), "loc must be at least one-dimensional"),
        (lambda d: d.MultivariateNormal(gc.zeros(2), precision_matrix=gc.ones(2)), "precision_matrix must be at least"),
        (lambda d: d.MultivariateNormal(gc.zeros(2), gc.eye(2), gc.eye(2)), "Exactly one of covariance_matrix"),
        (lambda d: d.LowRankMultivariateNormal(gc.tensor(0.0), gc.ones(1, 1), gc.ones(1)), "loc must be at least one"),
        (lambda d: d.LowRankMultivariateNormal(gc.zeros(2), gc.ones(2), gc.ones(2)), "cov_factor must be at least two"),
        (lambda d: d.LowRankMultivariateNormal(gc.zeros(2), gc.ones(3, 1), gc.ones(2)), "matrices with shape 2 x m"),
        (lambda d: d.LowRankMultivariateNormal(gc.zeros(2), gc.ones(2, 1), gc.ones(3)), "vectors with shape 2"),
        (lambda d: d.Wishart(3.0), "Exactly one of covariance_matrix"),
        (lambda d: d.Wishart(3.0, gc.ones(2)), "scale_tril must be at least two-dimensional"),
        (lambda d: d.Wishart(0.5, gc.eye(2)), r"Expected parameter df .* GreaterThan\(lower_bound=1\)"),
        (lambda d: d.MixtureSameFamily(d.Categorical(gc.ones(2)), 3), "Component distribution need to be an instance"),
        (
            lambda d: d.MixtureSameFamily(d.Categorical(gc.ones(3, 2)), d.Normal(gc.zeros(4, 2), 1.0)),
            r"`mixture_distribution.batch_shape` \(torch.Size\(\[3\]\)\) is not compatible",
        ),
    ],
)  # fmt: skip
def test_misuse(call, message):
    with pytest.raises(ValueError, match=message):
        call(distributions)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.Multinomial(gc.tensor(3.0), gc.ones(2)), "inhomogeneous total_count is not supported"),
        (lambda d: d.Binomial(gc.tensor([1.0, 2.0]), gc.tensor(0.5)).entropy(), "not supported by `entropy`"),
        (lambda d: d.Binomial(gc.tensor([1.0, 2.0]), gc.tensor(0.5)).enumerate_support(), "by `enumerate_support`"),
        (lambda d: d.LKJCholesky(2).mode, "does not implement mode"),
    ],
)
def test_what_there_is_not(call, message):
    with pytest.raises(NotImplementedError, match=message):
        call(distributions)


def test_the_former_way_to_draw_several_samples():
    with pytest.warns(UserWarning, match="sample_n"):
        assert distributions.Normal(gc.zeros(2), 1.0).sample_n(3).shape == (3, 2)


def test_distributions_of_users():
    class Shifted(distributions.Normal):
        def __init__(self, loc):
            super().__init__(loc, 1.0)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Shifted, _instance)
            return super().expand(batch_shape, _instance=new)

    class Further(Shifted):
        def __init__(self):
            super().__init__(3.0)

    wide = Shifted(2.0).expand((4,))
    assert type(wide) is Shifted
    assert wide.loc.tolist() == [2.0] * 4
    with pytest.raises(NotImplementedError, match=r"Subclass Further of Shifted that defines a custom __init__"):
        Further().expand((2,))


def test_checks_can_be_left_out():
    with pytest.raises(ValueError, match=r"^$"):
        distributions.Distribution.set_default_validate_args(3)
    assert distributions.Normal(0.0, -1.0, validate_args=False).log_prob(gc.tensor(0.0)).isnan()
    distributions.Distribution.set_default_validate_args(False)
    try:
        distributions.Normal(0.0, -1.0)
    finally:
        distributions.Distribution.set_default_validate_args(True)


def test_every_family_of_the_table_is_public():
    others = {"Distribution", "ExponentialFamily", "Independent", "MixtureSameFamily", "TransformedDistribution"}
    public = {name: getattr(distributions, name) for name in distributions.__all__}
    base = distributions.Distribution
    assert {n for n, cls in public.items() if isinstance(cls, type) and issubclass(cls, base)} - others == set(FAMILIES)


def test_batches_of_samples_with_vmap():
    def loss(loc, scale):
        return distributions.Normal(loc, scale).rsample((5,)).sum()

    locs, scales = gc.arange(3.0), gc.arange(1.0, 4.0)
    by_loc = gc.vmap(gc.func.grad(loss), randomness="different")(locs, scales)
    assert by_loc.tolist() == [5.0, 5.0, 5.0]
    with pytest.raises(ValueError, match="Expected parameter scale"):
        gc.vmap(loss, randomness="different")(locs, scales - 2)


@pytest.mark.parametrize("name", ["Gamma", "MultivariateNormal", "Categorical", "Dirichlet"])
def test_densities_with_vmap(name):
    parameters = FAMILIES[name][0]
    d = made(gc, name, parameters)
    x = d.sample()
    own = {key: value for key, value in parameters.items() if value.shape[0] == 2}

    def density(x, *values):
        return getattr(distributions, name)(**tensors(gc, parameters) | dict(zip(own, values, strict=True))).log_prob(x)

    found = gc.vmap(density)(x, *(gc.tensor(value) for value in own.values()))
    assert gc.allclose(found, d.log_prob(x))


@pytest.mark.parametrize(
    ("name", "parameters", "law"),
    [
        ("Beta", (0.3, 2.0), stats.beta(0.3, 2.0)),
        ("Chi2", (3.0,), stats.chi2(3.0)),
        ("FisherSnedecor", (4.0, 7.0), stats.f(4, 7)),
        ("Gamma", (0.2, 2.0), stats.gamma(0.2, scale=0.5)),
        ("Gamma", (30.0, 1.0), stats.gamma(30)),
        ("Laplace", (1.0, 2.0), stats.laplace(1, 2)),
        ("StudentT", (3.0,), stats.t(3)),
        ("VonMises", (0.5, 2.0), stats.vonmises(2.0, loc=0.5)),
        ("Weibull", (2.0, 1.5), stats.weibull_min(1.5, scale=2)),
    ],
)  # fmt: skip
def test_samples_have_the_distribution_function(name, parameters, law):
    d = getattr(distributions, name)(*(gc.tensor(p, dtype=gc.float64) for p in parameters))
    assert stats.kstest(d.sample((20000,)).numpy(), law.cdf).pvalue > 1e-4


@pytest.mark.parametrize(("n", "p"), [(1, 0.3), (10, 0.2), (1000, 0.7), (7, 0.0), (7, 1.0), (0, 0.5)])
def test_binomial_numbers(n, p):
    x = gc.binomial(gc.full((20000,), float(n)), gc.tensor(p))
    counts = np.bincount(x.long().numpy(), minlength=n + 1)
    expected = 20000 * stats.binom(n, p).pmf(np.arange(n + 1))
    common = expected > 20
    deviation = (counts - expected)[common] / np.sqrt(np.maximum(expected * (1 - expected / 20000), 1))[common]
    assert np.abs(deviation).max() < 5
    assert x.max() <= n


def test_straight_through_samples_pass_gradients_on():
    logits = gc.tensor([0.1, 0.5, -0.3], requires_grad=True)
    d = distributions.OneHotCategoricalStraightThrough(logits=logits)
    x = d.rsample()
    assert gc.allclose(x.sort().values, gc.tensor([0.0, 0.0, 1.0]), atol=1e-6)
    (x * gc.tensor([1.0, 2.0, 3.0])).sum().backward()
    (wanted,) = gc.autograd.grad((logits.softmax(0) * gc.tensor([1.0, 2.0, 3.0])).sum(), logits)
    assert gc.allclose(logits.grad, wanted)


def test_generalized_pareto_at_and_near_an_exponential_tail():
    x = gc.tensor(0.7, dtype=gc.float64)

    def values(k):
        d = distributions.GeneralizedPareto(gc.tensor(0.0, dtype=gc.float64), 1.5, k, validate_args=False)
        return gc.stack([d.log_prob(x), d.cdf(x), d.icdf(x)])

    zero = gc.tensor(0.0, dtype=gc.float64, requires_grad=True)
    assert gc.allclose(values(zero), values(zero + 1e-7), atol=1e-6)
    slopes = gc.func.jacrev(values)(zero)
    assert gc.allclose(slopes, (values(zero + 1e-4) - values(zero - 1e-4)) / 2e-4, atol=1e-6)
