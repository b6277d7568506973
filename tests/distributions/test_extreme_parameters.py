"""Sampling ends, and gives what the limit of the family is, whatever the parameters."""

from __future__ import annotations

import math

import pytest

import gradcore as gc
from gradcore.distributions import VonMises


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
