"""Transforms: inverses, Jacobian determinants, shapes, caches; constraints and the transforms that lead to them."""

import numpy as np
import pytest

import gradcore as gc
from gradcore.distributions import biject_to, constraints, transform_to
from gradcore.distributions import transforms as t

_RNG = np.random.default_rng(0)
VECTOR = _RNG.normal(size=3)
POWER = gc.tensor([0.5, 1.0, 2.0], dtype=gc.float64)

#: Transforms, with an input that is one value.
TRANSFORMS = {
    "affine": (lambda: t.AffineTransform(1.0, gc.tensor([2.0, -3.0, 0.5], dtype=gc.float64), event_dim=1), VECTOR),
    "cat": (lambda: t.CatTransform([t.ExpTransform(), t.TanhTransform()], dim=-1, lengths=[1, 2]), VECTOR),
    "compose": (lambda: t.ComposeTransform([t.AffineTransform(0.5, 2.0), t.StickBreakingTransform()]), VECTOR),
    "correlation": (lambda: t.CorrCholeskyTransform(), VECTOR),
    "cumulative": (lambda: t.CumulativeDistributionTransform(gc.distributions.Normal(0.0, 1.0)), VECTOR),
    "exp": (lambda: t.ExpTransform(), VECTOR),
    "independent": (lambda: t.IndependentTransform(t.SigmoidTransform(), 1), VECTOR),
    "inverse": (lambda: t.ExpTransform().inv, np.abs(VECTOR)),
    "power": (lambda: t.PowerTransform(POWER), np.abs(VECTOR)),
    "reshape": (lambda: t.ReshapeTransform((3,), (3, 1)), VECTOR),
    "sigmoid": (lambda: t.SigmoidTransform(), VECTOR),
    "softplus": (lambda: t.SoftplusTransform(), VECTOR),
    "stack": (lambda: t.StackTransform([t.ExpTransform(), t.SigmoidTransform(), t.TanhTransform()], dim=-1), VECTOR),
    "stick breaking": (lambda: t.StickBreakingTransform(), VECTOR),
    "tanh": (lambda: t.TanhTransform(), VECTOR),
}
each = pytest.mark.parametrize(("make", "value"), TRANSFORMS.values(), ids=list(TRANSFORMS))


@each
def test_the_inverse_undoes_the_transform(make, value):
    transform, x = make(), gc.tensor(value)
    assert transform.bijective
    y = transform(x)
    assert gc.allclose(transform.inv(y), x, atol=1e-7)
    assert transform.inv.inv is transform or transform.inv.inv == transform
    assert tuple(transform.forward_shape((5, 3))) == (5, *y.shape)
    assert tuple(transform.inverse_shape((5, *y.shape))) == (5, 3)


@each
def test_the_determinant_is_that_of_the_jacobian(make, value):
    transform, x = make(), gc.tensor(value)
    y = transform(x)
    logs = transform.log_abs_det_jacobian(x, y).sum()
    jacobian = gc.func.jacrev(transform)(x).reshape(-1, 3)
    if y.numel() > 3:  # onto a simplex, or a factor: what is determined by the rest is left out
        rows = gc.tensor([3, 6, 7]) if y.numel() == 9 else gc.arange(3)
        jacobian = jacobian[rows]
    assert gc.allclose(gc.linalg.slogdet(jacobian).logabsdet, logs)
    assert gc.allclose(transform.inv.log_abs_det_jacobian(y, x).sum(), -logs)


@each
def test_inputs_and_outputs_belong_to_their_sets(make, value):
    transform, x = make(), gc.tensor(value)
    assert transform.domain.check(x).all()
    assert transform.codomain.check(transform(x)).all()


@pytest.mark.parametrize("make", [t.AbsTransform, t.SoftmaxTransform])
def test_maps_that_are_no_bijections(make):
    transform, x = make(), gc.tensor(VECTOR)
    assert not transform.bijective
    y = transform(x)
    assert gc.allclose(transform(transform.inv(y)), y)
    with pytest.raises(NotImplementedError):
        transform.log_abs_det_jacobian(x, y)


@pytest.mark.parametrize("make", [t.LowerCholeskyTransform, t.PositiveDefiniteTransform])
def test_matrices(make):
    transform, x = make(), gc.tensor(_RNG.normal(size=(2, 3, 3)))
    y = transform(x)
    assert transform.codomain.check(y).all()
    assert gc.allclose(transform.inv(y), x.tril(), atol=1e-9)


def test_the_cache_keeps_the_very_input():
    x = gc.tensor(VECTOR)
    cached = t.ExpTransform(cache_size=1)
    assert cached.inv(cached(x)) is x
    assert cached(x) is cached(x)
    assert t.ExpTransform().inv(t.ExpTransform()(x)) is not x
    assert t.ExpTransform().with_cache().inv._cache_size == 1
    assert t.ComposeTransform([t.ExpTransform()], cache_size=1).parts[0]._cache_size == 1
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        t.ExpTransform(cache_size=2)


@each
def test_transforms_with_a_cache_are_the_same_otherwise(make, value):
    transform, x = make(), gc.tensor(value)
    cached = transform.with_cache()
    assert type(cached) is type(transform)
    assert cached.with_cache() is cached
    assert transform.with_cache(0) is transform
    y = cached(x)
    assert gc.equal(y, transform(x))
    assert cached.inv(y) is x
    assert gc.equal(cached.log_abs_det_jacobian(x, y), transform.log_abs_det_jacobian(x, y))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: t.StickBreakingTransform().forward_shape(()), "Too few dimensions on input"),
        (lambda: t.IndependentTransform(t.ExpTransform(), 1)(gc.tensor(1.0)), "Too few dimensions on input"),
        (lambda: t.ReshapeTransform((2,), (2, 1)).forward_shape(()), "Too few dimensions on input"),
        (lambda: t.ReshapeTransform((2,), (2, 1)).forward_shape((3,)), r"Shape mismatch: expected \(3,\) but got"),
        (lambda: t.ReshapeTransform((2,), (3,)), "have different numbers of elements"),
        (lambda: t.CorrCholeskyTransform().forward_shape((4,)), "not a flattened lower-diagonal number"),
        (lambda: t.CorrCholeskyTransform().inverse_shape((4, 3)), "Input is not square"),
        (lambda: t.CorrCholeskyTransform().event_dim, "Please use either .domain.event_dim or .codomain.event_dim"),
    ],
)
def test_misuse(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_equal_transforms():
    assert t.ExpTransform() == t.ExpTransform(cache_size=1)
    assert t.ExpTransform() != t.TanhTransform()
    assert t.AffineTransform(1.0, gc.tensor(2.0)) == t.AffineTransform(1.0, gc.tensor(2.0))
    assert t.AffineTransform(1.0, 2.0) != t.AffineTransform(1.0, 3.0)
    assert t.PowerTransform(2.0) == t.PowerTransform(2.0)
    assert t.ComposeTransform([t.ExpTransform()]) == t.ComposeTransform([t.ExpTransform()])
    assert t.ExpTransform().inv == t.ExpTransform().inv


@pytest.mark.parametrize(("make", "sign"), [(lambda: t.AffineTransform(0.0, -2.0), -1), (t.ExpTransform, 1)])
def test_signs_say_whether_a_transform_rises(make, sign):
    assert make().sign == make().inv.sign == sign
    assert t.ComposeTransform([make(), t.AffineTransform(0.0, -1.0)]).sign == -sign


#: Sets that parameters are optimised in.
SETS = {
    "real": (constraints.real, 3), "positive": (constraints.positive, 3), "nonnegative": (constraints.nonnegative, 3),
    "above": (constraints.greater_than(2.0), 3), "below": (constraints.less_than(-1.0), 3),
    "interval": (constraints.interval(-1.0, 3.0), 3), "unit interval": (constraints.unit_interval, 3),
    "half open": (constraints.half_open_interval(0.0, 2.0), 3), "simplex": (constraints.simplex, 3),
    "correlation": (constraints.corr_cholesky, 3), "vectors": (constraints.independent(constraints.positive, 1), 3),
    "cat": (constraints.cat([constraints.positive, constraints.real], -1, [1, 2]), 3),
    "stack": (constraints.stack([constraints.positive, constraints.real, constraints.unit_interval], -1), 3),
}  # fmt: skip


@pytest.mark.parametrize("registry", [biject_to, transform_to], ids=["bijection", "transform"])
@pytest.mark.parametrize(("constraint", "n"), SETS.values(), ids=list(SETS))
def test_transforms_lead_to_constraints(constraint, n, registry):
    transform = registry(constraint)
    x = gc.tensor(_RNG.normal(size=(4, n)), requires_grad=True)
    y = transform(x)
    assert constraint.check(y).all()
    assert gc.autograd.grad(y.square().sum(), x)[0].isfinite().all()
    if registry is biject_to:
        assert transform.bijective
        assert gc.allclose(transform.inv(y), x, atol=1e-7)


@pytest.mark.parametrize("constraint", [constraints.lower_cholesky, constraints.positive_definite])
def test_transforms_lead_to_matrices(constraint):
    assert constraint.check(transform_to(constraint)(gc.randn(2, 3, 3))).all()


def test_registering_a_constraint():
    class Doubled(constraints.Constraint):
        def check(self, value):
            return value == value

    with pytest.raises(NotImplementedError, match="Cannot transform Doubled constraints"):
        transform_to(Doubled())

    @transform_to.register(Doubled)
    def _(constraint):
        return t.AffineTransform(0.0, 2.0)

    assert transform_to(Doubled())(gc.tensor(1.5)).item() == 3.0
    with pytest.raises(TypeError, match="Expected constraint to be either a Constraint subclass or instance"):
        transform_to.register(3, None or t.ExpTransform)


@pytest.mark.parametrize(
    ("constraint", "inside", "outside"),
    [
        (constraints.boolean, [0.0, 1.0], [0.5]),
        (constraints.real, [3.0], [float("nan")]),
        (constraints.positive_integer, [1.0, 7.0], [0.0, 1.5]),
        (constraints.integer_interval(1, 3), [1.0, 3.0], [0.0, 2.5, 4.0]),
        (constraints.half_open_interval(0.0, 1.0), [0.0, 0.5], [1.0]),
        (constraints.greater_than_eq(1.0), [1.0], [0.5]),
        (constraints.simplex, [[0.2, 0.8]], [[0.5, 0.6], [1.5, -0.5]]),
        (constraints.one_hot, [[0.0, 1.0]], [[1.0, 1.0], [0.5, 0.5]]),
        (constraints.multinomial(3), [[1.0, 2.0]], [[2.0, 2.0], [-1.0, 0.0]]),
        (constraints.lower_triangular, [[[1.0, 0.0], [2.0, -3.0]]], [[[1.0, 2.0], [0.0, 1.0]]]),
        (constraints.lower_cholesky, [[[1.0, 0.0], [2.0, 3.0]]], [[[1.0, 0.0], [2.0, -3.0]]]),
        (constraints.symmetric, [[[1.0, 2.0], [2.0, 1.0]]], [[[1.0, 2.0], [0.0, 1.0]]]),
        (constraints.positive_semidefinite, [[[1.0, 1.0], [1.0, 1.0]]], [[[1.0, 2.0], [2.0, 1.0]]]),
        (constraints.positive_definite, [[[2.0, 1.0], [1.0, 2.0]]], [[[1.0, 2.0], [2.0, 1.0]]]),
    ],
    ids=repr,
)  # fmt: skip
def test_constraints(constraint, inside, outside):
    assert constraint.check(gc.tensor(inside)).all()
    assert not constraint.check(gc.tensor(outside)).any()


def test_dependent_constraints_cannot_be_checked():
    support = gc.distributions.Uniform.support
    assert constraints.is_dependent(support)
    assert not constraints.is_dependent(constraints.real)
    assert support.event_dim == 0
    assert not support.is_discrete
    with pytest.raises(ValueError, match="Cannot determine validity"):
        constraints.dependent.check(gc.zeros(1))
    with pytest.raises(NotImplementedError, match="cannot be determined statically"):
        constraints.dependent.event_dim  # noqa: B018
    assert constraints.dependent(is_discrete=True).is_discrete
