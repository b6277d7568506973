"""Parameters for every family of distributions, as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

_RNG = np.random.default_rng(0)
POSITIVE, OTHER = _RNG.uniform(0.5, 2.5, (2, 2, 3))
REAL, LOGITS = _RNG.normal(size=(2, 2, 3))
PROBS, WEIGHTS = _RNG.uniform(0.1, 0.9, (2, 2, 3))
_SQUARE = _RNG.normal(size=(3, 3))
COVARIANCE = _SQUARE @ _SQUARE.T + 3 * np.eye(3)
FACTOR = _RNG.normal(size=(2, 3, 1))
WARM = np.array(0.7)

Parameters = dict[str, Any]

#: Families, each with the parameters of some distributions.
FAMILIES: dict[str, list[Parameters]] = {
    "Bernoulli": [{"probs": PROBS}, {"logits": LOGITS}],
    "Beta": [{"concentration1": POSITIVE, "concentration0": OTHER}],
    "Binomial": [{"total_count": 5, "probs": PROBS}, {"total_count": 4, "logits": LOGITS}],
    "Categorical": [{"probs": WEIGHTS}, {"logits": LOGITS}],
    "Cauchy": [{"loc": REAL, "scale": POSITIVE}],
    "Chi2": [{"df": 3 * POSITIVE}],
    "ContinuousBernoulli": [{"probs": PROBS}, {"logits": LOGITS}, {"probs": np.array([0.4995, 0.2])}],
    "Dirichlet": [{"concentration": POSITIVE + 1}, {"concentration": POSITIVE}],
    "Exponential": [{"rate": POSITIVE}],
    "FisherSnedecor": [{"df1": 3 * POSITIVE, "df2": 5 * OTHER + 8}],
    "Gamma": [{"concentration": POSITIVE, "rate": OTHER}],
    "GeneralizedPareto": [{"loc": REAL, "scale": POSITIVE, "concentration": np.array([-0.2, 0.0, 0.1])}],
    "Geometric": [{"probs": PROBS}, {"logits": LOGITS}],
    "Gumbel": [{"loc": REAL, "scale": POSITIVE}],
    "HalfCauchy": [{"scale": POSITIVE}],
    "HalfNormal": [{"scale": POSITIVE}],
    "InverseGamma": [{"concentration": POSITIVE + 5, "rate": OTHER}],
    "Kumaraswamy": [{"concentration1": POSITIVE, "concentration0": OTHER}],
    "LKJCholesky": [{"dim": 3, "concentration": POSITIVE[0]}],
    "Laplace": [{"loc": REAL, "scale": POSITIVE}],
    "LogNormal": [{"loc": REAL, "scale": POSITIVE / 4}],
    "LogisticNormal": [{"loc": REAL, "scale": POSITIVE}],
    "LowRankMultivariateNormal": [{"loc": REAL, "cov_factor": FACTOR, "cov_diag": POSITIVE}],
    "Multinomial": [{"total_count": 4, "probs": WEIGHTS}, {"total_count": 3, "logits": LOGITS}],
    "MultivariateNormal": [
        {"loc": REAL, "covariance_matrix": COVARIANCE},
        {"loc": REAL, "precision_matrix": COVARIANCE},
        {"loc": REAL, "scale_tril": np.linalg.cholesky(COVARIANCE)},
    ],
    "NegativeBinomial": [{"total_count": POSITIVE, "probs": PROBS}, {"total_count": 3.0, "logits": LOGITS}],
    "Normal": [{"loc": REAL, "scale": POSITIVE}],
    "OneHotCategorical": [{"probs": WEIGHTS}, {"logits": LOGITS}],
    "OneHotCategoricalStraightThrough": [{"probs": WEIGHTS}],
    "Pareto": [{"scale": POSITIVE, "alpha": OTHER + 8}],
    "Poisson": [{"rate": 5 * POSITIVE}],
    "RelaxedBernoulli": [{"temperature": WARM, "probs": PROBS}, {"temperature": WARM, "logits": LOGITS}],
    "RelaxedOneHotCategorical": [{"temperature": WARM, "probs": WEIGHTS}, {"temperature": WARM, "logits": LOGITS}],
    "StudentT": [{"df": 2 * POSITIVE + 8, "loc": REAL, "scale": POSITIVE}],
    "Uniform": [{"low": REAL, "high": REAL + POSITIVE}],
    "VonMises": [{"loc": REAL, "concentration": POSITIVE}],
    "Weibull": [{"scale": POSITIVE, "concentration": OTHER + 0.5}],
    "Wishart": [
        {"df": np.array([3.5, 6.0]), "covariance_matrix": COVARIANCE},
        {"df": np.array([5.0, 4.0]), "scale_tril": np.linalg.cholesky(COVARIANCE)},
    ],
}

#: One line for each distribution: the family and its parameters.
EACH = [(name, parameters) for name, some in FAMILIES.items() for parameters in some]
IDS = [f"{name}-{'-'.join(parameters)}" for name, parameters in EACH]


def made(lib: Any, name: str, parameters: Parameters, requires_grad: bool = False, **settings: Any) -> Any:
    """Return a distribution of a library."""
    return getattr(lib.distributions, name)(**tensors(lib, parameters, requires_grad), **settings)


def tensors(lib: Any, parameters: Parameters, requires_grad: bool = False) -> Parameters:
    """Parameters with tensors of a library in the place of arrays."""
    return {
        key: lib.tensor(value, requires_grad=requires_grad) if isinstance(value, np.ndarray) else value
        for key, value in parameters.items()
    }
