"""No family loses a gradient in silence: by each parameter, and by the value, gradients follow finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore import distributions
from tests.distributions.families import EACH, IDS

STEP = 1e-6

#: What is computed of a distribution; `value` is one of its samples.
QUANTITIES: dict[str, Callable[[Any, Any], Any]] = {
    "mean": lambda d, value: d.mean,
    "variance": lambda d, value: d.variance,
    "stddev": lambda d, value: d.stddev,
    "mode": lambda d, value: d.mode,
    "entropy": lambda d, value: d.entropy(),
    "log_prob": lambda d, value: d.log_prob(value),
    "cdf": lambda d, value: d.cdf(value),
    "icdf": lambda d, value: d.icdf(gc.full_like(value, 0.3)),
    "rsample": lambda d, value: d.rsample(),
    "kl to itself": lambda d, value: distributions.kl_divergence(d, d.expand(d.batch_shape)),
}

#: Samples that move with parameters as rejected numbers do: their gradient is exact on average only,
#: and those that pass on an estimate by design.
IMPLICIT = {
    "Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "InverseGamma", "LKJCholesky",
    "OneHotCategoricalStraightThrough", "StudentT", "Wishart",
}  # fmt: skip


def _tensors(parameters: dict[str, Any], moved: str = "", change: Any = 0.0, leaf: Any = None) -> dict[str, Any]:
    made = {}
    for name, value in parameters.items():
        if isinstance(value, np.ndarray):
            array = np.asarray(value, float)
            value = gc.tensor(array + change) if name == moved else gc.tensor(array)
        made[name] = leaf if name == moved and leaf is not None else value
    return made


def _direction(array: Any, name: str) -> Any:
    direction = np.random.default_rng(1).standard_normal(np.shape(array))
    if name in ("covariance_matrix", "precision_matrix"):
        return direction + direction.swapaxes(-1, -2)
    return np.tril(direction) if name == "scale_tril" else direction


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize(("family", "parameters"), EACH, ids=IDS)
def test_by_parameters(family: str, parameters: dict[str, Any], quantity: str) -> None:
    gc.manual_seed(0)
    make = getattr(distributions, family)
    value = make(**_tensors(parameters)).sample()
    arrays = [name for name, array in parameters.items() if isinstance(array, np.ndarray)]
    for name in arrays:
        direction = _direction(parameters[name], name)

        def compute(change: Any = 0.0, leaf: Any = None, name: str = name) -> Any:
            gc.manual_seed(1)
            d = make(**_tensors(parameters, name, change, leaf), validate_args=False)
            return QUANTITIES[quantity](d, value)

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                plain = compute()
        except (NotImplementedError, AttributeError):
            pytest.skip("there is none")
        leaf = gc.tensor(np.asarray(parameters[name], float), requires_grad=True)
        out = compute(leaf=leaf)
        weights = np.random.default_rng(2).standard_normal(tuple(plain.shape))
        grad = None
        if out.requires_grad:
            (grad,) = gc.autograd.grad(out, leaf, gc.tensor(weights, dtype=out.dtype), allow_unused=True)
        found = 0.0 if grad is None else float((grad.numpy() * direction).sum())
        with np.errstate(invalid="ignore"):  # some moments are infinite
            sides = [(compute(sign * STEP * direction).detach().numpy() * weights).sum() for sign in (1, -1)]
            expected = (sides[0] - sides[1]) / (2 * STEP)
        if quantity == "rsample" and family in IMPLICIT:
            assert grad is not None
            assert np.isfinite(found)
        elif np.isfinite(expected):
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("quantity", ["log_prob", "cdf"])
@pytest.mark.parametrize(("family", "parameters"), EACH, ids=IDS)
def test_by_the_value(family: str, parameters: dict[str, Any], quantity: str) -> None:
    gc.manual_seed(0)
    d = getattr(distributions, family)(**_tensors(parameters), validate_args=False)
    value = d.sample()
    if not value.is_floating_point() or d.support.is_discrete or family in ("LKJCholesky", "Wishart"):
        pytest.skip("values are discrete, or matrices of one kind")
    direction = np.random.default_rng(1).standard_normal(tuple(value.shape))
    try:
        out = getattr(d, quantity)(leaf := value.clone().requires_grad_())
    except NotImplementedError:
        pytest.skip("there is none")
    weights = np.random.default_rng(2).standard_normal(tuple(out.shape))
    if not out.requires_grad:
        grad = gc.zeros_like(value)
    else:
        (grad,) = gc.autograd.grad(out, leaf, gc.tensor(weights))
    sides = [
        (getattr(d, quantity)(value + sign * STEP * gc.tensor(direction)).numpy() * weights).sum() for sign in (1, -1)
    ]
    np.testing.assert_allclose(
        (grad.numpy() * direction).sum(), (sides[0] - sides[1]) / (2 * STEP), rtol=2e-4, atol=2e-5
    )
