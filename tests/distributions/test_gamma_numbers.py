"""How gamma numbers move with their shape, against the inverse of their distribution function."""

import numpy as np
import pytest
from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv

import gradcore as gc
from gradcore import functional

SHAPES = [0.05, 0.4, 0.95, 1.5, 4.0, 30.0, 800.0]
SHARES = [1e-3, 0.1, 0.5, 0.9, 0.9999]


def _moved(shape, share):
    """Return the logarithm of a quantile of the gamma distribution."""
    return np.log(gammaincinv(shape, share) if share < 0.5 else gammainccinv(shape, 1 - share))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("shape", SHAPES)
def test_slopes(shape, share):
    drawn = _moved(shape, share)
    own = gammainc(shape, np.exp(drawn)) if share < 0.5 else 1 - gammaincc(shape, np.exp(drawn))
    assert own == pytest.approx(share, rel=1e-9)
    h = shape * 1e-4
    around = [_moved(shape + k * h, share) for k in (-2, -1, 1, 2)]
    expected = (around[0] - 8 * around[1] + 8 * around[2] - around[3]) / (12 * h)
    a = gc.tensor(shape, dtype=gc.float64, requires_grad=True)
    y = functional.log_gamma_drawn(a, gc.tensor(drawn, dtype=gc.float64))
    (slope,) = gc.autograd.grad(y, a)
    assert slope.item() == pytest.approx(expected, rel=1e-6)


def test_slopes_are_continuous_where_their_formula_changes():
    a = gc.linspace(0.1, 5, 50, dtype=gc.float64).requires_grad_()
    slopes = [gc.autograd.grad(functional.log_gamma_drawn(a, gc.full_like(a, y)).sum(), a)[0] for y in (-1e-12, 1e-12)]
    assert gc.allclose(*slopes, rtol=1e-9)


def test_slopes_in_forward_mode_and_in_float32():
    a = gc.tensor([0.3, 2.0, 40.0])
    drawn = functional.log_standard_gamma(a)
    _, tangent = gc.func.jvp(lambda a: functional.log_gamma_drawn(a, drawn), (a,), (gc.ones(3),))
    wide = a.double().requires_grad_()
    (slope,) = gc.autograd.grad(functional.log_gamma_drawn(wide, drawn.double()).sum(), wide)
    assert gc.allclose(tangent.double(), slope, rtol=1e-4)


def test_slopes_can_be_differentiated_again():
    a = gc.tensor([0.3, 2.0, 40.0], dtype=gc.float64, requires_grad=True)
    drawn = functional.log_standard_gamma(a.detach())

    def slope(a):
        return gc.autograd.grad(functional.log_gamma_drawn(a, drawn).sum(), a, create_graph=True)[0]

    assert gc.autograd.gradcheck(slope, a)


def test_small_shapes_have_numbers_that_are_not_zero():
    gc.manual_seed(0)
    x = gc.distributions.Gamma(gc.full((1000,), 1e-3), 1.0).rsample()
    assert (x > 0).all()
    shares = gc.distributions.Dirichlet(gc.full((1000, 3), 1e-3)).rsample()
    assert gc.allclose(shares.sum(-1), gc.ones(1000))


def test_equal_seeds_give_equal_numbers():
    numbers = [functional.log_standard_gamma(gc.full((50,), 0.4), gc.Generator().manual_seed(3)) for _ in range(2)]
    assert gc.equal(*numbers)


def test_each_sample_of_a_batch_has_numbers_of_its_own():
    shapes = gc.full((3, 200), 2.0)
    found = gc.vmap(functional.log_standard_gamma, randomness="different")(shapes)
    assert len(set(found[:, 0].tolist())) == 3
    same = gc.vmap(functional.log_standard_gamma, randomness="same")(shapes)
    assert gc.equal(same[0], same[1])
