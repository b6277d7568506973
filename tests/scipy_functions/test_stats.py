"""`gradcore.scipy.stats` against SciPy, and its derivatives."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.scipy import stats
from gradcore.scipy.stats.distributions import CONTINUOUS, DISCRETE
from tests.scipy_functions.comparing import check_derivatives, check_values, expressions

pytest.importorskip("scipy", minversion="1.17")
import scipy.integrate
import scipy.stats


def arrays() -> dict[str, Any]:
    u = np.random.default_rng(6).uniform
    return {
        "A": u(0.2, 2, (6, 4)),
        "B": u(0.2, 2, (6, 4)),
        "W": u(0.2, 1, 6),
        "X": u(0.1, 3, 7),
        "F": u(0.2, 2, 9).astype(np.float32),
        "P": np.array([0.2, 0.3, 0.5]),
        "M": np.array([0.3, -0.2]),
        "C": np.array([[1.4, 0.3], [0.3, 0.8]]),
        "Y": u(-1, 1, (5, 2)),
        "L": np.array(0.15),
        "S": np.array(1.3),
        "Q": np.array(1.7),
        "R": np.array(2.3),
        "K": np.arange(5),
        "H": np.array(0.35),
    }


CALLS = """
zscore: A; A, axis=1, ddof=1; A, axis=None; F
zmap: A, B; A[:2], B, 0, 1
gzscore: A
skew: A; A, 1, bias=False; A, axis=None; A, keepdims=True; F
kurtosis: A; A, 1, bias=False; A, fisher=False; A, axis=None
moment: A, 3; A, 2, 1; A, 2, center=0.5
variation: A; A, ddof=1
sem: A; A, axis=1, ddof=0
gmean: A; A, 1; A, weights=W[:, None] + 0 * A; A, axis=None
hmean: A; A, 1
pmean: A, 3; A, 0.5, axis=1; A, 0
gstd: A
entropy: A; A, B; A, base=2.0, axis=1
pearsonr: A[:, 0], B[:, 0]
describe: A; A, 1, 0
multivariate_normal.logpdf: Y, M, (C + C.T) / 2; Y[0], M, (C + C.T) / 2; X, 0.5, 2.0
multivariate_normal.pdf: Y, M, (C + C.T) / 2
multivariate_normal.entropy: [0.3, -0.2], (C + C.T) / 2
dirichlet.logpdf: P, [1.5, 2.0, 0.7]; P[:2], P + 1
dirichlet.pdf: P, P + 1
"""
PROBABILITIES = ("cdf", "sf", "logcdf", "logsf")
SHAPES = {0: "", 1: ", Q", 2: ", Q, R"}


def _densities() -> list[str]:
    found = []
    for name, each in CONTINUOUS.items():
        first = (
            "X + 1.2"
            if name == "pareto"
            else "X / 3.2 + 0.13"
            if name in ("beta", "uniform", "powerlaw")
            else "X + 0.16"
        )
        for method in ("logpdf", "pdf", *(PROBABILITIES if each._cumulative else ())):
            if "beta" in name and method in PROBABILITIES:
                first = "X / 5 + 0.16"
            found.append(f"{name}.{method}({first}{SHAPES[len(each.shapes)]}, loc=L, scale=S)")
    shapes = {"poisson": "Q", "bernoulli": "H", "binom": "6, H", "geom": "H", "nbinom": "R, H"}
    numbers = {"bernoulli": "K[:2]", "geom": "K + 1"}
    for name in DISCRETE:
        for method in ("logpmf", "pmf", *PROBABILITIES):
            certain = name == "bernoulli" and method in PROBABILITIES
            found.append(f"{name}.{method}({'K[:1]' if certain else numbers.get(name, 'K')}, {shapes[name]})")
    return found


@pytest.mark.parametrize("name", [name for name, each in {**CONTINUOUS, **DISCRETE}.items() if each.shapes])
def test_shapes_that_are_not_valid(name: str) -> None:
    """Compare all methods with SciPy for one valid shape parameter beside two that are out of range, which give NaN."""
    mine, theirs = {**CONTINUOUS, **DISCRETE}[name], getattr(scipy.stats, name)
    methods = ("logpdf", "pdf") if name in CONTINUOUS else ("logpmf", "pmf")
    if mine._cumulative is not None:
        methods += PROBABILITIES
    x = 1.1 if name in CONTINUOUS else 0.0 if name in ("bernoulli", "poisson") else 1.0
    for position, changed in enumerate(mine.shapes):
        shapes = [np.array(0.35 if each == "p" else 3.0) for each in mine.shapes]
        shapes[position] = np.append(shapes[position], [1.4, -0.2] if changed == "p" else [-1.7, 0.0])
        for method in methods:
            if (name, method) == ("binom", "logcdf"):
                continue  # SciPy returns 0 for a negative number of trials
            with np.errstate(all="ignore"):
                expected = getattr(theirs, method)(x, *shapes)
            found = getattr(mine, method)(x, *map(gc.tensor, shapes)).numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=method)


@pytest.mark.parametrize("name", DISCRETE)
def test_probability_of_nan_is_nan(name: str) -> None:
    shapes = {"binom": (3, 0.35), "nbinom": (3, 0.35)}.get(name, (0.35,))
    for method in ("pmf", "logpmf", "cdf", "sf"):
        found = getattr(getattr(stats, name), method)(gc.tensor([1.0, math.nan], dtype=gc.float64), *shapes)
        assert found.isnan().tolist() == [False, True], method


def test_moments_of_equal_numbers_are_nan() -> None:
    x, y = gc.ones(5, dtype=gc.float64), gc.arange(5, dtype=gc.float64)
    for result in (stats.skew(x), stats.kurtosis(x), stats.pearsonr(x, y).statistic, stats.hmean(y - 2)):
        assert result.isnan()
    assert stats.dirichlet.logpdf([0.5, 0.5], gc.tensor([1.0, 0.0])).isnan()


@pytest.mark.parametrize("expression", [*expressions(CALLS), *_densities()])
def test_values(expression: str) -> None:
    check_values(expression, "stats", arrays(), 1e-9)


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("expression", [*(f"{name}.logpdf" for name in CONTINUOUS), "expon.cdf", "beta.cdf"])
def test_outside_of_the_support(expression: str) -> None:
    name = expression.partition(".")[0]
    shapes = (1.7, 2.3)[: len(CONTINUOUS[name].shapes)]
    x = gc.tensor([-2.0, -0.5, 1.5, 7.0], dtype=gc.float64, requires_grad=True)
    method = expression.partition(".")[2]
    found = getattr(getattr(stats, name), method)(x, *shapes)
    wanted = getattr(getattr(scipy.stats, name), method)(x.detach().numpy(), *shapes)
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-9)
    finite = gc.where(gc.isfinite(found), found, 0.0).sum()
    (grad,) = gc.autograd.grad(finite, x)
    assert gc.isfinite(grad).all()


@pytest.mark.sampled(100)
@pytest.mark.parametrize("expression", [*expressions(CALLS), *_densities()])
def test_derivatives(expression: str) -> None:
    if "F" in expression:
        return
    given = arrays()
    if "cdf" in expression or ".sf" in expression:
        given["L"], given["S"] = np.float64(0.15), np.float64(1.3)
    check_derivatives(expression, "stats", given, second="describe" not in expression)


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("name", [*(name for name, each in CONTINUOUS.items() if each._cumulative), *DISCRETE])
def test_tails(name: str) -> None:
    """Probabilities that SciPy computes without cancellation, between integers, at infinity and of NaN."""
    shapes = {**dict.fromkeys(CONTINUOUS, (1.7, 2.3)), "poisson": (1.7,), "binom": (6, 0.35), "nbinom": (2.3, 0.35)}
    count = len((CONTINUOUS | DISCRETE)[name].shapes)
    x = np.array([-40, -2, -1.0, -1e-9, 0, 0.3, 1, 2.5, 6, 30, -np.inf, np.inf, np.nan])
    for method in PROBABILITIES:
        if name in DISCRETE and method == "logcdf":  # SciPy's own formulas cancel
            continue
        found, wanted = (
            getattr(getattr(each, name), method)(x, *shapes.get(name, (0.35,))[:count]) for each in (stats, scipy.stats)
        )
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-8, err_msg=method)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CONTINUOUS)
def test_ends_of_the_support(name: str) -> None:
    """Densities and probabilities at zero, one and infinity are limits, and do not make other gradients NaN."""
    shapes = (1.7, 2.3)[: len(CONTINUOUS[name].shapes)]
    x = gc.tensor([0.6, 0.0, 1.0, np.inf, -np.inf], dtype=gc.float64, requires_grad=True)
    for method in ("pdf", *(PROBABILITIES if CONTINUOUS[name]._cumulative else ())):
        found = getattr(getattr(stats, name), method)(x, *shapes)
        assert not found.isnan().any(), method
        if "log" not in method:
            wanted = getattr(getattr(scipy.stats, name), method)(x.detach().numpy(), *shapes)
            same = np.isnan(wanted) | np.isclose(found.detach().numpy(), wanted, rtol=1e-8)  # SciPy's may be NaN
            assert same.all(), (method, found, wanted)


@pytest.mark.parametrize(("x", "a"), [(-2.2, 14.0), (-5.9, 5.7), (-1.1, 2.5)])
def test_short_tail_of_skewed_normal_distributions(x: float, a: float) -> None:
    """It is the integral of the density, where the difference of SciPy's formula has no digit left."""
    norm, step = scipy.stats.norm, abs(x) * (1 + a * a)
    density = norm.logpdf(x) + norm.logcdf(a * x)

    def ratio(s: float) -> float:
        t = x - s / step
        return float(np.exp(norm.logpdf(t) + norm.logcdf(a * t) - density))

    integral, _ = scipy.integrate.quad(ratio, 0, 60, epsabs=0, epsrel=1e-12, limit=200)
    wanted = density + np.log(2 * integral / step)
    np.testing.assert_allclose(float(stats.skewnorm.logcdf(x, a)), wanted, rtol=1e-11)
    np.testing.assert_allclose(float(stats.skewnorm.logsf(-x, -a)), wanted, rtol=1e-11)


def test_covariances_that_are_singular() -> None:
    C = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    m, x = np.array([0.3, -0.2, 0.5]), np.array([[1.0, 0.0, 0.5], [-1.0, 2.0, 0.5], [0.0, 0.0, 0.4]])
    found, wanted = (each.multivariate_normal.logpdf(x, m, C, allow_singular=True) for each in (stats, scipy.stats))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
    inputs = [gc.tensor(a, requires_grad=True) for a in (x[:2], m, C)]
    grads = gc.autograd.grad(stats.multivariate_normal.logpdf(*inputs, allow_singular=True).sum(), inputs)
    within = [gc.tensor(a, requires_grad=True) for a in (x[:2, :2], m[:2], C[:2, :2])]
    expected = gc.autograd.grad(stats.multivariate_normal.logpdf(*within).sum(), within)
    for found, wanted in zip(grads, expected, strict=True):
        padded = np.zeros(found.shape)
        padded[tuple(slice(n) for n in wanted.shape)] = wanted
        np.testing.assert_allclose(found, padded, atol=1e-12)
    with pytest.raises(ValueError, match="positive semidefinite"):
        stats.multivariate_normal.logpdf(m, m, -C, allow_singular=True)


def test_samples_are_those_of_scipy() -> None:
    calls = {"norm": (0.3,), "gamma": (1.5, 0.1, 2.0), "poisson": (3.0,), "dirichlet": ([1.0, 2.0],)}
    for name, args in calls.items():
        found, wanted = (getattr(each, name).rvs(*args, size=4, random_state=3) for each in (stats, scipy.stats))
        assert found.tolist() == wanted.tolist()
    with pytest.raises(RuntimeError, match="Use samples by rsample"):
        stats.norm.rvs(gc.tensor(0.3, requires_grad=True))


@pytest.mark.parametrize("name", [*DISCRETE])
def test_what_does_not_occur(name: str) -> None:
    shapes = {"poisson": (1.7,), "binom": (6, 0.35), "nbinom": (2.3, 0.35)}.get(name, (0.35,))
    k = np.array([-1.0, 0.0, 0.5, 1.0, 9.0])
    np.testing.assert_allclose(getattr(stats, name).logpmf(k, *shapes).numpy(),
                               getattr(scipy.stats, name).logpmf(k, *shapes), rtol=1e-9)  # fmt: skip


TWO_ARRAYS = {
    "entropy": lambda m, x, y: m.entropy(x, y), "entropy of rows": lambda m, x, y: m.entropy(x, y, axis=-1),
    "zmap": lambda m, x, y: m.zmap(x, y), "gmean": lambda m, x, y: m.gmean(x, weights=y),
    "hmean": lambda m, x, y: m.hmean(x, weights=y), "pmean": lambda m, x, y: m.pmean(x, 2, weights=y),
    "pearsonr": lambda m, x, y: m.pearsonr(x, y).statistic,
    "pearsonr of rows": lambda m, x, y: m.pearsonr(x, y, axis=-1).statistic,
    "pearsonr of all": lambda m, x, y: m.pearsonr(x, y, axis=None).statistic,
    "dirichlet": lambda m, x, y: m.dirichlet.logpdf(x / x.sum(0) if x.ndim else x, y + 1),
    "means of normal vectors": lambda m, x, y: m.multivariate_normal.logpdf(x, y),
    "covariances": lambda m, x, y: m.multivariate_normal.logpdf(x, None, y + 9 * np.eye(3) if y.shape == (3, 3) else y),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TWO_ARRAYS)
def test_shapes_of_two_arrays_match_as_in_scipy(name: str) -> None:
    shapes, random = [(), (1,), (3,), (2,), (3, 1), (1, 3), (2, 3), (3, 2), (3, 3)], np.random.default_rng(0)
    answered = 0
    for x, y in ((random.random(a) + 0.1, random.random(b) + 0.1) for a in shapes for b in shapes):
        y = (y + y.T) / 2 if y.shape == (3, 3) else y
        try:
            wanted = TWO_ARRAYS[name](scipy.stats, x, y)
        except (ValueError, IndexError):
            with pytest.raises((ValueError, RuntimeError)):
                TWO_ARRAYS[name](stats, gc.tensor(x), gc.tensor(y))
        else:
            found = TWO_ARRAYS[name](stats, gc.tensor(x), gc.tensor(y))
            assert tuple(found.shape) == np.shape(wanted)
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-9)
            answered += 1
    assert answered > 5


@pytest.mark.parametrize("scales", [(1e90, 1e90), (1e-200, 1e-180), (1e300, 1e-300)])
def test_correlation_of_large_and_of_small_samples(scales: tuple[float, float]) -> None:
    random = np.random.default_rng(1)
    x, y = (random.normal(size=7) * scale for scale in scales)
    found, wanted = stats.pearsonr(gc.tensor(x), gc.tensor(y)), scipy.stats.pearsonr(x, y)
    np.testing.assert_allclose([found.statistic.item(), found.pvalue.item()], [wanted.statistic, wanted.pvalue])


@pytest.mark.filterwarnings("ignore")
def test_few_and_complex_samples() -> None:
    for name, sample, settings in (
        ("zscore", [-0.087, -0.087, -0.087], {}), ("zmap", np.array([1j, 1.0, -1.0, 0.3]), {}), ("sem", [], {}),
        ("gstd", [1.0, 2.0], {"ddof": 2}), ("variation", np.ones((2, 0)), {"axis": 1}),
    ):  # fmt: skip
        arguments = ([0.5, 2.0], sample) if name == "zmap" else (sample,)
        wanted = getattr(scipy.stats, name)(*arguments, **settings)
        np.testing.assert_allclose(getattr(stats, name)(*arguments, **settings).numpy(), wanted, rtol=1e-9)
    for call in (lambda m: m.moment([1.0, 2.0], 1.2), lambda m: m.pmean([1.0, 2.0], np.array([0]))):
        for module in (stats, scipy.stats):
            with pytest.raises(ValueError, match=r"integral|only defined"):
                call(module)


def test_distributions_with_parameters() -> None:
    loc = gc.tensor(0.3, dtype=gc.float64, requires_grad=True)
    normal = stats.norm(loc, scale=2.0)
    gradients = [
        gc.autograd.grad(density(0.7), loc)[0] for density in (normal.pdf, lambda x: stats.norm.pdf(x, loc, 2.0))
    ]
    assert gradients[0] == gradients[1]
    vectors = {"mean": [0.3, -0.2], "cov": [[1.4, 0.3], [0.3, 0.8]]}
    for name, args, method in (
        ("gamma", (1.7, 0.1), "sf"), ("poisson", (2.3,), "logpmf"), ("binom", (6, 0.35), "cdf"),
        ("dirichlet", ([1.5, 2.0],), "pdf"),
    ):  # fmt: skip
        x = [0.4, 0.6] if name == "dirichlet" else 2.0
        ours, theirs = (getattr(each, name)(*args) for each in (stats, scipy.stats))
        np.testing.assert_allclose(getattr(ours, method)(x).numpy(), getattr(theirs, method)(x), rtol=1e-9)
        assert ours.rvs(3, random_state=1).tolist() == theirs.rvs(3, random_state=1).tolist()
    np.testing.assert_allclose(
        stats.multivariate_normal(**vectors).entropy().item(), scipy.stats.multivariate_normal(**vectors).entropy()
    )
    assert pickle.loads(pickle.dumps(stats.beta(2.0, 3.0))).pdf(0.4) == stats.beta.pdf(0.4, 2.0, 3.0)
    assert repr(stats.norm(1.0, scale=2.0)) == "<gradcore.scipy.stats.norm(1.0, scale=2.0)>"
    with pytest.raises(AttributeError, match="have no method 'pfd'"):
        normal.pfd  # noqa: B018


def test_arguments_by_name_and_what_is_wrong_with_them() -> None:
    assert gc.allclose(stats.gamma.pdf(1.0, a=2.0), stats.gamma.pdf(1.0, 2.0))
    for call in (
        lambda: stats.gamma.pdf(1.0),
        lambda: stats.gamma.pdf(1.0, 2.0, 0.0, 1.0, 3.0),
        lambda: stats.norm.pdf(1.0, a=2.0),
        lambda: stats.norm.pdf(1.0, 0.0, loc=2.0),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(AttributeError, match="tests, ranks and fits are SciPy's"):
        stats.ttest_ind  # noqa: B018
    assert set(stats.__all__) <= set(scipy.stats.__all__)
