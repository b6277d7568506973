"""Divergences, against means over samples."""

import math

import pytest

import gradcore as gc
from gradcore.distributions import distribution as base
from gradcore.distributions import kl, kl_divergence, register_kl
from tests.distributions.families import EACH, FAMILIES, IDS, OTHER, PROBS, made

#: Families with a divergence to others, whose second distribution contains the values of the first.
PAIRS = sorted(
    (p.__name__, q.__name__)
    for p, q in kl._FORMULAS
    if p.__name__ in FAMILIES and q.__name__ in FAMILIES and p is not q and kl._FORMULAS[p, q] is not kl._infinite
)
IMPOSSIBLE = sorted((p.__name__, q.__name__) for p, q in kl._FORMULAS if kl._FORMULAS[p, q] is kl._infinite)
INSIDE = {"Uniform": {"low": PROBS / 2, "high": PROBS / 2 + 0.4}, "Pareto": {"scale": OTHER / 10, "alpha": OTHER + 4}}
WIDE = {"Uniform": {"low": -PROBS, "high": 1 + PROBS}, "Pareto": {"scale": OTHER / 100, "alpha": OTHER + 4}}


def _check(p, q):
    gc.manual_seed(0)
    n = 40000
    x = p.sample((n,))
    difference = p.log_prob(x) - q.log_prob(x)
    found = kl_divergence(p, q)
    assert found.shape == p.batch_shape
    assert ((found - difference.mean(0)).abs() <= 6 * difference.std(0) / math.sqrt(n) + 1e-9).all()


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_between_families(first, second):
    p = made(gc, first, INSIDE.get(first, FAMILIES[first][0]))
    q = made(gc, second, WIDE.get(second, FAMILIES[second][:2][-1]), validate_args=False)
    if second == "Pareto" and first == "Uniform":
        p = made(gc, first, {"low": PROBS / 2, "high": PROBS / 2 + 0.4})
    _check(p, q)


@pytest.mark.parametrize(("name", "parameters"), EACH, ids=IDS)
def test_within_families(name, parameters):
    p = made(gc, name, parameters)
    try:
        assert gc.allclose(kl_divergence(p, p), gc.zeros(p.batch_shape, dtype=gc.float64), atol=1e-9)
    except NotImplementedError:
        return
    if len(FAMILIES[name]) > 1 and name not in ("Multinomial", "Binomial", "ContinuousBernoulli"):
        _check(p, made(gc, name, FAMILIES[name][0]))


@pytest.mark.parametrize(("first", "second"), IMPOSSIBLE)
def test_impossible_values_make_it_infinite(first, second):
    p, q = (made(gc, name, FAMILIES[name][0]) for name in (first, second))
    assert kl_divergence(p, q).isinf().all()


def test_values_outside_make_it_infinite():
    uniform = gc.distributions.Uniform
    assert kl_divergence(uniform(0.0, 2.0), uniform(0.5, 3.0)).isinf()
    assert kl_divergence(uniform(0.0, 2.0), uniform(-0.5, 3.0)).item() == pytest.approx(math.log(3.5 / 2))


def test_of_several_values_together_and_of_transformed_ones():
    normal = gc.distributions.Normal(gc.zeros(2, 3), 1.0), gc.distributions.Normal(gc.ones(2, 3), 2.0)
    together = kl_divergence(*(gc.distributions.Independent(d, 1) for d in normal))
    assert gc.allclose(together, kl_divergence(*normal).sum(-1))
    logs = kl_divergence(gc.distributions.LogNormal(0.0, 1.0), gc.distributions.LogNormal(1.0, 2.0))
    assert logs == kl_divergence(normal[0], normal[1])[0, 0]


def test_by_the_normalizers_of_exponential_families():
    p, q = (gc.distributions.Gamma(gc.tensor(a, dtype=gc.float64), b) for a, b in ((2.0, 1.0), (3.0, 0.5)))
    assert gc.allclose(kl._family_divergence(p, q), kl_divergence(p, q))


@pytest.mark.parametrize("name", ["Normal", "Exponential", "Dirichlet", "ContinuousBernoulli", "Wishart"])
def test_entropies_by_the_normalizer(name):
    """Of those families whose carrier measure is constant, or known."""
    d = made(gc, name, FAMILIES[name][0])
    carrier = 0.0
    if name == "Dirichlet":  # with the concentrations as natural parameters, the carrier is that of 1 / product
        total = d.concentration.sum(-1, True)
        carrier = -(d.concentration.digamma() - total.digamma()).sum(-1)
    family = type("Known", (type(d),), {"_mean_carrier_measure": carrier})
    d.__class__ = family
    assert gc.allclose(
        base.ExponentialFamily.entropy(d).detach(), made(gc, name, FAMILIES[name][0]).entropy(), atol=1e-6
    )


def test_gradients():
    mean = gc.tensor([0.3, -1.0], dtype=gc.float64, requires_grad=True)
    scale = gc.tensor([0.5, 2.0], dtype=gc.float64, requires_grad=True)
    prior = gc.distributions.Normal(gc.tensor(0.0, dtype=gc.float64), 1.0)
    assert gc.autograd.gradcheck(lambda m, s: kl_divergence(gc.distributions.Normal(m, s), prior), (mean, scale))


def test_registering_and_what_is_missing():
    class Mine(gc.distributions.Normal):
        pass

    mine, normal = Mine(0.0, 1.0), gc.distributions.Normal(2.0, 1.0)
    assert kl_divergence(mine, normal).item() == 2.0  # that of its base class

    @register_kl(Mine, gc.distributions.Normal)
    def _(p, q):
        return gc.tensor(7.0)

    assert kl_divergence(mine, normal).item() == 7.0
    assert kl_divergence(normal, mine).item() == 2.0
    with pytest.raises(NotImplementedError, match="is implemented for p type Normal and q type StudentT"):
        kl_divergence(normal, gc.distributions.StudentT(1.0))
    with pytest.raises(TypeError, match="Expected type_p to be a Distribution subclass"):
        register_kl(1, Mine)
    with pytest.raises(NotImplementedError, match="cross KL-divergence"):
        kl._family_divergence(normal, gc.distributions.Exponential(1.0))
