"""Distributions made of others."""

import pytest

import gradcore as gc
from gradcore.distributions import (
    Categorical,
    Independent,
    MixtureSameFamily,
    Normal,
    TransformedDistribution,
)
from gradcore.distributions.transforms import AffineTransform, ExpTransform, SigmoidTransform, StickBreakingTransform


def test_several_values_together():
    normal = Normal(gc.zeros(4, 3), gc.ones(3))
    both = Independent(normal, 1)
    x = both.rsample((5,))
    assert (both.batch_shape, both.event_shape, x.shape) == ((4,), (3,), (5, 4, 3))
    assert gc.equal(both.log_prob(x), normal.log_prob(x).sum(-1))
    assert gc.equal(both.entropy(), normal.entropy().sum(-1))
    assert both.support.event_dim == 1
    assert both.has_rsample
    assert not both.has_enumerate_support
    assert all(gc.equal(getattr(both, what), getattr(normal, what)) for what in ("mean", "mode", "variance"))
    assert both.expand((2, 4)).sample().shape == (2, 4, 3)
    assert repr(both) == f"Independent({normal!r}, 1)"
    with pytest.raises(NotImplementedError, match="cartesian product"):
        Independent(Categorical(gc.ones(2, 3)), 1).enumerate_support()
    apart = Independent(Categorical(gc.ones(2, 3)), 0)
    assert apart.has_enumerate_support
    assert apart.enumerate_support().tolist() == [[0, 0], [1, 1], [2, 2]]


def test_mixtures():
    gc.manual_seed(0)
    weights = gc.tensor([0.3, 0.7], dtype=gc.float64, requires_grad=True)
    mixture = MixtureSameFamily(Categorical(weights), Normal(gc.tensor([-2.0, 1.0], dtype=gc.float64), 0.5))
    x = mixture.sample((20000,))
    assert abs(x.mean() - mixture.mean) < 0.05
    assert abs(x.var() - mixture.variance) < 0.1
    assert abs((x < 0.3).double().mean() - mixture.cdf(gc.tensor(0.3, dtype=gc.float64))) < 0.02
    point = gc.tensor(0.1, dtype=gc.float64, requires_grad=True)
    (slope,) = gc.autograd.grad(mixture.cdf(point), point)
    assert gc.allclose(slope.log(), mixture.log_prob(point))
    (gradient,) = gc.autograd.grad(mixture.log_prob(point), weights)
    assert gradient.abs().sum() > 0
    assert not mixture.has_rsample


def test_mixtures_of_vectors():
    components = Independent(Normal(gc.randn(5, 3, 2), 1.0), 1)
    mixture = MixtureSameFamily(Categorical(gc.ones(5, 3)), components)
    assert (mixture.batch_shape, mixture.event_shape) == ((5,), (2,))
    x = mixture.sample((7,))
    assert x.shape == (7, 5, 2)
    expected = (components.log_prob(x.unsqueeze(-2)) - gc.tensor(3.0).log()).logsumexp(-1)
    assert gc.allclose(mixture.log_prob(x), expected)
    wide = mixture.expand((4, 5))
    assert wide.sample().shape == (4, 5, 2)
    assert wide.mixture_distribution.batch_shape == (4, 5)
    assert wide.component_distribution.batch_shape == (4, 5, 3)
    assert gc.allclose(wide.log_prob(x[:, None]), mixture.log_prob(x)[:, None])
    assert repr(mixture) == f"MixtureSameFamily(\n  {mixture.mixture_distribution},\n  {components})"


def test_transformed_densities_and_distribution_functions():
    loc = gc.tensor(0.3, dtype=gc.float64, requires_grad=True)
    d = TransformedDistribution(Normal(loc, 1.0), [SigmoidTransform(), AffineTransform(1.0, -2.0)])  # falls
    x = d.sample((6,)).requires_grad_()
    (slope,) = gc.autograd.grad(d.cdf(x).sum(), x)
    assert gc.allclose(slope.log(), d.log_prob(x))
    assert gc.allclose(d.icdf(d.cdf(x)), x)
    d.rsample((3,)).sum().backward()
    assert loc.grad < 0


def test_transforms_of_more_dims_than_the_base():
    d = TransformedDistribution(Normal(gc.zeros(5, 3), 1.0), StickBreakingTransform())
    assert (d.batch_shape, d.event_shape) == ((5,), (4,))
    assert d.log_prob(d.sample((2,))).shape == (2, 5)
    assert d.expand((6, 5)).sample().shape == (6, 5, 4)
    with pytest.raises(ValueError, match="needs to have shape with size at least 1"):
        TransformedDistribution(Normal(0.0, 1.0), StickBreakingTransform())
    assert TransformedDistribution(Normal(0.0, 1.0), []).log_prob(gc.tensor(0.0)) == Normal(0.0, 1.0).log_prob(
        gc.tensor(0.0)
    )
    assert TransformedDistribution(Normal(gc.zeros(1), 1.0), AffineTransform(gc.zeros(3), 1.0)).batch_shape == (3,)
    assert TransformedDistribution(Normal(0.0, 1.0), ExpTransform()).support == ExpTransform().codomain
