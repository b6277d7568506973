"""Samples, densities and moments, and their gradients, for extreme parameters and at the edges of formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.distributions import (
    ContinuousBernoulli,
    FisherSnedecor,
    GeneralizedPareto,
    Geometric,
    InverseGamma,
    LogNormal,
    StudentT,
    VonMises,
    Weibull,
)


@pytest.mark.parametrize("concentration", [1e-320, 1e-10, 1.0, 9e7, 1e8, 1.1e8, 1e12, 1e30, 1e300, math.inf])
def test_angles_spread_as_the_concentration_says(concentration: float) -> None:
    gc.manual_seed(3)
    k = gc.tensor(concentration, dtype=gc.float64)
    found = VonMises(gc.zeros((), dtype=gc.float64), k).sample((4000,))
    assert found.isfinite().all()
    if concentration > 1e6:
        assert float(found.std()) == pytest.approx(concentration**-0.5, rel=0.05)
    elif concentration < 1e-3:
        assert float(found.std()) == pytest.approx(math.pi / math.sqrt(3), rel=0.05)


@pytest.mark.parametrize("concentration", [math.nan, -1.0, -math.inf])
def test_angles_of_no_distribution_are_nan(concentration: float) -> None:
    k = gc.tensor([concentration, 2.0])
    found = VonMises(gc.zeros(2), k, validate_args=False).sample((5,))
    assert found[:, 0].isnan().all()
    assert found[:, 1].isfinite().all()


def test_angles_of_moderate_concentrations_stay_the_same_beside_extreme_ones() -> None:
    both = VonMises(gc.zeros(2), gc.tensor([2.0, 1e30])).sample((2000,))
    assert float(both[:, 0].cos().mean()) == pytest.approx(0.698, abs=0.05)  # I1(2) / I0(2)
    assert float(both[:, 1].abs().max()) < 1e-13


@pytest.mark.parametrize("dtype", [gc.float32, gc.float64], ids=str)
def test_counts_of_large_rates(dtype: gc.dtype) -> None:
    rates = gc.tensor([0.0, 5.0, 50.0, 1e15, 1e30, math.inf], dtype=dtype)
    found = gc.poisson(rates)
    assert float(found[0]) == 0
    assert float(found[-1]) == math.inf
    assert abs(found[3:5] / rates[3:5] - 1).max() < 1e-6
    assert found[:5].isfinite().all()


def derivatives(function: Callable[[gc.Tensor], gc.Tensor], parameter: float, dtype: gc.dtype) -> list[float]:
    """Return the value of a function of a parameter and its derivative, at the float32 number next to `parameter`."""
    t = gc.tensor(parameter, dtype=gc.float32).to(dtype).requires_grad_()
    value = function(t)
    return [value.item(), gc.autograd.grad(value, t)[0].item()]


def continuous_bernoulli(p: gc.Tensor) -> gc.Tensor:
    d, x = ContinuousBernoulli(p), p.new_tensor(0.25)
    return gc.stack([d.mean, d.variance, d.log_prob(x), d.cdf(x), d.icdf(x), d.entropy()])


def generalized_pareto(k: gc.Tensor) -> gc.Tensor:
    d = GeneralizedPareto(k.new_zeros(()), k.new_ones(()), k)
    return gc.stack([d.log_prob(k.new_tensor(3.0)), d.cdf(k.new_tensor(3.0)), d.icdf(k.new_tensor(0.75))])


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (continuous_bernoulli, [0.5, 0.4999999, 0.5003, 0.499, 0.501, 0.51, 0.56, 0.45, 0.3, 0.1]),
        (generalized_pareto, [0.0, 1e-9, -1e-8, 1e-7, -1e-5, 1e-3, 0.02, 0.1, -0.1, 2.0]),
        (lambda x: Geometric(logits=x).entropy()[None], [-20.0, -3.0, -0.1, 0.0, 2.0, 20.0, 100.0]),
    ],
    ids=["ContinuousBernoulli", "GeneralizedPareto", "Geometric"],
)
def test_terms_that_nearly_cancel(function: Any, parameters: list[float]) -> None:
    """float32 gives what float64 gives, and float64 what finite differences give."""
    for parameter in parameters:
        for i in range(len(function(gc.tensor(parameter)))):
            single, double = (
                derivatives(lambda t, i=i: function(t)[i], parameter, dtype) for dtype in (gc.float32, gc.float64)
            )
            assert single == pytest.approx(double, rel=1e-4, abs=1e-5)
            h = 1e-3
            a, b, c, d = (
                function(gc.tensor(float(np.float32(parameter)) + s * h, dtype=gc.float64))[i].item()
                for s in (-2, -1, 1, 2)
            )
            assert double[1] == pytest.approx((a - 8 * b + 8 * c - d) / (12 * h), rel=1e-4, abs=1e-8)


def test_entropies_fall_where_success_becomes_certain() -> None:
    value, slope = derivatives(lambda p: Geometric(p).entropy(), 1.0, gc.float32)
    assert value == pytest.approx(0, abs=1e-6)
    assert slope < -15  # minus infinity, but for the clamp of the probability


def test_bounds_of_an_exponential_tail() -> None:
    for k in (0.0, 1e-9, 0.5):
        d = GeneralizedPareto(gc.zeros(()), gc.ones(()), gc.tensor(k), validate_args=False)
        bound = gc.tensor(math.inf)
        assert [d.icdf(gc.ones(())).item(), d.log_prob(bound).item(), d.cdf(bound).item()] == [math.inf, -math.inf, 1]


@pytest.mark.parametrize(
    ("make", "parameter", "moment"),
    [
        (lambda t: FisherSnedecor(t.new_ones(()), t), 2.0, "mean"),
        (lambda t: FisherSnedecor(t.new_ones(()), t), 4.0, "variance"),
        (lambda t: StudentT(t), 2.0, "variance"),
        (lambda t: InverseGamma(t, t.new_ones(())), 1.0, "mean"),
        (lambda t: InverseGamma(t, t.new_ones(())), 2.0, "variance"),
    ],
)
def test_moments_that_do_not_exist_have_no_gradient(make: Any, parameter: float, moment: str) -> None:
    t = gc.tensor([parameter, 5.0], requires_grad=True)
    value = getattr(make(t), moment)
    (slope,) = gc.autograd.grad(value[0], t, retain_graph=True)
    assert not value[0].isfinite()
    assert slope.tolist() == [0, 0]
    assert gc.autograd.grad(value[1], t)[0][1] < 0


@pytest.mark.parametrize("d", [LogNormal(0.0, 1.0), Weibull(1.0, 2.0), InverseGamma(2.0, 1.0)], ids=repr)
def test_no_values_lie_below_an_open_bound(d: Any) -> None:
    assert d.cdf(gc.tensor([0.0])).item() == 0
    for call, value in ((d.cdf, -1.0), (d.cdf, -math.inf), (d.log_prob, 0.0)):
        with pytest.raises(ValueError, match="within the support"):
            call(gc.tensor([value]))
