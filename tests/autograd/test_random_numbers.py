"""Numbers that are drawn depend on the parameters of their distribution, and on what they overwrite, with zeros."""

import pytest

import gradcore as gc

DRAWN = {
    "BernoulliBackward0": lambda p: gc.bernoulli(p),
    "NormalBackward1": lambda p: gc.normal(p, 2.0),
    "NormalBackward2": lambda p: gc.normal(1.0, p),
    "NormalBackward3": lambda p: gc.normal(p, p),
    "PoissonBackward0": lambda p: gc.poisson(p),
}
WRITTEN = {
    "BernoulliBackward1": lambda x, p: x.bernoulli_(p),
    "BernoulliBackward2": lambda x, p: x.bernoulli_(0.3),
    "CauchyBackward0": lambda x, p: x.cauchy_(),
    "ExponentialBackward0": lambda x, p: x.exponential_(),
    "GeometricBackward0": lambda x, p: x.geometric_(0.5),
    "LogNormalBackward0": lambda x, p: x.log_normal_(),
    "NormalBackward0": lambda x, p: x.normal_(),
    "RandomBackward0": lambda x, p: x.random_(1, 5),
    "RandomBackward1": lambda x, p: x.random_(5),
    "RandomBackward2": lambda x, p: x.random_(),
    "UniformBackward0": lambda x, p: x.uniform_(),
}


@pytest.mark.parametrize(("name", "draw"), DRAWN.items(), ids=list(DRAWN))
def test_parameters_get_zeros(name, draw):
    p = gc.tensor([0.2, 0.7], requires_grad=True)
    drawn = draw(p)
    assert drawn.grad_fn.name() == name
    drawn.sum().backward()
    assert p.grad.tolist() == [0.0, 0.0]
    assert not draw(p.detach()).requires_grad
    with gc.no_grad():
        assert not draw(p).requires_grad


@pytest.mark.parametrize(("name", "fill"), WRITTEN.items(), ids=list(WRITTEN))
def test_what_is_overwritten_gets_zeros(name, fill):
    p = gc.tensor([0.2, 0.7], requires_grad=True)
    x = gc.ones(2, requires_grad=True)
    y = x * 2
    fill(y, p)
    assert y.grad_fn.name() == name
    (y * x).sum().backward()
    assert x.grad.tolist() == y.tolist()
    assert p.grad is None or p.grad.tolist() == [0.0, 0.0]


def test_numbers_of_two_parameters_lead_to_both():
    mean, std = gc.zeros(3, requires_grad=True), gc.ones(1, requires_grad=True)
    gc.normal(mean, std).sum().backward()
    assert mean.grad.tolist() == [0.0, 0.0, 0.0]
    assert std.grad.tolist() == [0.0]


def test_a_written_view_gives_zeros_to_its_part():
    x = gc.ones(2, 2, requires_grad=True)
    y = x * 3
    y[0].uniform_()
    y.sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0], [3.0, 3.0]]


def test_tangents_are_zero():
    _, tangent = gc.func.jvp(gc.bernoulli, (gc.tensor([0.2, 0.7]),), (gc.ones(2),))
    assert tangent.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (lambda x: x.log_normal_(0.0, 0.0), "log_normal_ expects std > 0.0, but found std=0"),
        (lambda x: x.cauchy_(0.0, -1.0), "cauchy_ expects sigma > 0.0, but found sigma=-1"),
        (lambda x: x.exponential_(0.0), "exponential_ expects lambda > 0.0, but found lambda=0"),
        (lambda x: x.geometric_(1.0), r"geometric_ expects p to be in \(0, 1\), but got p=1"),
        (lambda x: x.uniform_(1.0, 0.0), "but found from=1.0 > to=0"),
        (lambda x: x.normal_(0.0, -1.0), "normal expects std >= 0.0, but found std -1"),
    ],
)
def test_parameters_that_no_distribution_has(fill, message):
    with pytest.raises(RuntimeError, match=message):
        fill(gc.ones(2))
