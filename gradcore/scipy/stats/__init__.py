"""`scipy.stats` on tensors: densities with SciPy's parameters, and descriptive statistics.

Distributions have `logpdf`, `pdf`, `cdf`, `sf`, `logcdf` and `logsf` (`logpmf` and `pmf` if they are discrete), which
are differentiable with respect to the number, the shapes, `loc` and `scale`. `rvs` draws SciPy's samples, which have no
derivative; for samples that are differentiable with respect to the parameters, use `gradcore.distributions`.

Examples
--------
>>> from gradcore.scipy import stats
>>> scale = gc.tensor(2.0, dtype=gc.float64, requires_grad=True)
>>> stats.gamma.logpdf([1.0, 3.0], 2.5, scale=scale).sum().backward()
>>> scale.grad
tensor(-1.5000, dtype=torch.float64)
"""

# ruff: noqa: F401, F403

from __future__ import annotations

from typing import Any

from gradcore.scipy.stats.descriptive import *
from gradcore.scipy.stats.descriptive import __all__ as _descriptive
from gradcore.scipy.stats.distributions import CONTINUOUS as _CONTINUOUS
from gradcore.scipy.stats.distributions import DISCRETE as _DISCRETE
from gradcore.scipy.stats.distributions import dirichlet, multivariate_normal

_found: dict[str, Any] = {**_CONTINUOUS, **_DISCRETE}
globals().update(_found)

__all__ = sorted([*_descriptive, *_found, "dirichlet", "multivariate_normal"])


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}: tests, ranks and fits are SciPy's, on tensor.numpy(); "
        "see gradcore.distributions for distributions that are drawn from"
    )


def __dir__() -> list[str]:
    return [*__all__]
