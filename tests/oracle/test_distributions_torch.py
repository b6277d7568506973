"""Distributions, transforms, constraints and divergences against PyTorch."""

import numpy as np
import pytest

import gradcore as gc
from tests.distributions.families import EACH, FAMILIES, IDS, LOGITS, OTHER, POSITIVE, PROBS, REAL, made, tensors
from tests.distributions.test_transforms import TRANSFORMS

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle

#: PyTorch computes these by short polynomials, or shows fewer parameters, or finds another place.
LOOSE = {"VonMises": 1e-6}
OTHERS = {
    ("Kumaraswamy", "mode"),
    ("Dirichlet", "mode"),
    ("ContinuousBernoulli", "cdf"),
    ("ContinuousBernoulli", "icdf"),
}
each = pytest.mark.parametrize(("name", "parameters"), EACH, ids=IDS)


@pytest.fixture(autouse=True)
def _in_double_precision():
    for lib in (gc, torch):
        lib.set_default_dtype(lib.float64)
    yield
    for lib in (gc, torch):
        lib.set_default_dtype(lib.float32)


def _outcome(call):
    try:
        return np.asarray(call().detach().numpy())
    except NotImplementedError:
        return "not implemented"


def _agree(name, what, call, **tolerance):
    ours, theirs = (_outcome(lambda lib=lib: call(lib)) for lib in (gc, torch))
    if isinstance(theirs, str) or isinstance(ours, str):
        assert str(ours) == str(theirs), what
        return
    assert ours.dtype == theirs.dtype, what
    rtol = LOOSE.get(name, 1e-8)
    np.testing.assert_allclose(ours, theirs, **{"rtol": rtol, "atol": 1e-9, **tolerance}, err_msg=what)


def _bases(lib, name):
    return [cls.__name__ for cls in getattr(lib.distributions, name).__mro__]


@pytest.mark.parametrize(
    "name", [n for n in torch.distributions.__all__ if isinstance(getattr(gc.distributions, n), type)]
)
def test_classes_have_the_same_bases_in_the_same_order(name):
    wanted = [base for base in _bases(torch, name) if base != "Generic"]
    assert [base for base in _bases(gc, name) if base in wanted] == wanted


@each
def test_properties_and_densities(name, parameters):
    gc.manual_seed(0)
    x = made(gc, name, parameters).sample((4,)).numpy()
    for attribute in ("mean", "mode", "variance", "stddev"):
        if (name, attribute) not in OTHERS:
            _agree(name, attribute, lambda lib, a=attribute: getattr(made(lib, name, parameters), a))
    for method in ("entropy", "perplexity", "enumerate_support"):
        _agree(name, method, lambda lib, m=method: getattr(made(lib, name, parameters), m)())
    for method in ("log_prob", "cdf"):
        if (name, method) not in OTHERS:
            _agree(name, method, lambda lib, m=method: getattr(made(lib, name, parameters), m)(lib.tensor(x)))
    if (name, "icdf") not in OTHERS:
        _agree(
            name, "icdf", lambda lib: made(lib, name, parameters).icdf(lib.tensor([[0.1], [0.8]], dtype=lib.float64))
        )
    ours, theirs = (made(lib, name, parameters) for lib in (gc, torch))
    for attribute in ("batch_shape", "event_shape", "has_rsample", "has_enumerate_support"):
        assert getattr(ours, attribute) == getattr(theirs, attribute)
    assert repr(ours.support) == repr(theirs.support)
    wide = (3, *theirs.batch_shape)
    _agree(name, "expand", lambda lib: made(lib, name, parameters).expand(wide).log_prob(lib.tensor(x[:1])))


@each
def test_gradients_of_densities(name, parameters):
    if name == "GeneralizedPareto":
        parameters = {**parameters, "concentration": np.array([-0.2, 0.1, 0.3])}  # 0 is a corner in PyTorch
    gc.manual_seed(0)
    x = made(gc, name, parameters).sample((4,)).numpy()

    def gradients(lib):
        given = tensors(lib, parameters, True)
        getattr(lib.distributions, name)(**given).log_prob(lib.tensor(x)).sum().backward()
        found = [v.grad for key, v in given.items() if isinstance(v, lib.Tensor) and v.grad is not None]
        return lib.cat([(g.tril() if name == "Wishart" and g.ndim > 1 else g).flatten() for g in found])

    _agree(name, "gradients", gradients)


SECOND = {
    "Uniform": {"low": -PROBS, "high": 2 + PROBS}, "Pareto": {"scale": OTHER / 100, "alpha": POSITIVE + 4},
    "Binomial": {"total_count": 5, "probs": PROBS[::-1].copy()}, "Normal": {"loc": REAL + 1, "scale": OTHER},
    "Laplace": {"loc": REAL + 1, "scale": OTHER}, "Gumbel": {"loc": REAL + 1, "scale": OTHER},
    "Gamma": {"concentration": OTHER, "rate": POSITIVE}, "Beta": {"concentration1": OTHER, "concentration0": POSITIVE},
    "Cauchy": {"loc": LOGITS, "scale": OTHER}, "Exponential": {"rate": OTHER}, "Poisson": {"rate": OTHER},
}  # fmt: skip
FIRST = {"Uniform": {"low": PROBS / 2, "high": PROBS / 2 + 0.4}}


@pytest.mark.parametrize("first", sorted({*FAMILIES} - {"Wishart"}))  # whose divergence is negative in PyTorch
def test_divergences(first):
    for second in FAMILIES:
        if (first, second) == ("ContinuousBernoulli", "Uniform"):
            continue  # whose values PyTorch takes for impossible where the bounds are those of the unit interval
        p, q = FIRST.get(first, FAMILIES[first][0]), SECOND.get(second, FAMILIES[second][:2][-1])

        def divergence(lib, second=second, p=p, q=q):
            return lib.distributions.kl_divergence(made(lib, first, p), made(lib, second, q))

        _agree(first, second, divergence)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name, monkeypatch):
    make, value = TRANSFORMS[name]

    def results(lib):
        with monkeypatch.context() as patch:  # the same program with the other library's names
            patch.setitem(make.__globals__, "gc", lib)
            patch.setitem(make.__globals__, "t", lib.distributions.transforms)
            patch.setitem(make.__globals__, "POWER", lib.tensor([0.5, 1.0, 2.0], dtype=lib.float64))
            transform = make()
        x = lib.tensor(value)
        y = transform(x)
        return transform, [y, transform.inv(y), transform.log_abs_det_jacobian(x, y)]

    (ours, mine), (theirs, others) = results(gc), results(torch)
    for a, b in zip(mine, others, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-10)
    assert repr(ours) == repr(theirs)
    assert ours.bijective == theirs.bijective
    assert (repr(ours.domain), repr(ours.codomain)) == (repr(theirs.domain), repr(theirs.codomain))


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize(
    "name", ["real", "positive", "nonnegative", "unit_interval", "simplex", "corr_cholesky", "real_vector"]
)
def test_transforms_to_constraints(name, registry):
    x = np.random.default_rng(0).normal(size=(4, 3))

    def transformed(lib):
        d = lib.distributions
        return getattr(d, registry)(getattr(d.constraints, name))(lib.tensor(x))

    _agree(name, registry, transformed)
