"""Dual tensors by hand, and custom operations in forward mode."""

import pytest

import gradcore as gc
from gradcore.autograd import Function, forward_ad
from gradcore.autograd.forward_ad import dual_level, make_dual, unpack_dual


class Square(Function):
    """With derivatives in both modes."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_forward(x)
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 2 * x * tangent


@pytest.fixture
def level():
    """Enter a forward-mode level."""
    with dual_level() as number:
        yield number


def dual(value, tangent):
    return make_dual(gc.tensor(value), gc.tensor(tangent))


def tangent(t):
    found = unpack_dual(t).tangent
    return None if found is None else found.tolist()


def test_a_dual_is_a_view_with_the_given_tangent(level):
    x, v = gc.ones(2), gc.tensor([1.0, 2.0])
    d = make_dual(x, v)
    assert d._base is x
    assert unpack_dual(d).tangent is v
    value, nothing = unpack_dual(x)
    assert value._base is x
    assert nothing is None
    assert repr(d) == "tensor([1., 1.], tangent=tensor([1., 2.]))"


def test_the_value_of_a_dual_is_a_view(level):
    x, factor = gc.ones(2), gc.full((2,), 3.0, requires_grad=True)
    d = make_dual(x, gc.ones(2)) * 1
    value, moving = unpack_dual(d)
    assert value._base is d
    assert repr(value) == "tensor([1., 1.])"
    assert unpack_dual(value).tangent is None
    value.mul_(factor)
    assert d.tolist() == [3.0, 3.0]
    assert moving.tolist() == tangent(d) == [1.0, 1.0]
    assert gc.autograd.grad(d.sum(), factor)[0].tolist() == [1.0, 1.0]
    value.copy_(dual([5.0, 5.0], [7.0, 7.0]))
    assert (tangent(value), tangent(d)) == ([7.0, 7.0], [1.0, 1.0])


def test_tangents_end_with_their_level():
    with dual_level():
        d = dual([1.0], [2.0])
        y = d * 3
        assert tangent(y) == [6.0]
    assert unpack_dual(y).tangent is None
    assert repr(y) == "tensor([3.])"


def test_levels_by_number():
    outer = forward_ad.enter_dual_level()
    x = make_dual(gc.tensor(2.0), gc.tensor(1.0))
    inner = forward_ad.enter_dual_level()
    y = make_dual(x, gc.tensor(10.0)) ** 2
    first, second = unpack_dual(y, level=inner), unpack_dual(y, level=outer)
    assert first.tangent.tolist() == 40.0
    assert unpack_dual(first.tangent, level=outer).tangent.tolist() == 20.0
    assert second.tangent.tolist() == 4.0
    with pytest.raises(RuntimeError, match="not the last one that was created"):
        forward_ad.exit_dual_level(level=outer)
    forward_ad.exit_dual_level()
    forward_ad.exit_dual_level(level=outer)
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.exit_dual_level()


def test_what_cannot_be_a_dual(level):
    x, whole = gc.ones(2), gc.tensor([1, 2])
    with pytest.raises(RuntimeError, match="forward gradient that has a different size"):
        make_dual(x, gc.ones(3))
    with pytest.raises(ValueError, match=r"Expected primal to be floating point or complex, but got: torch\.int64"):
        make_dual(whole, x)
    with pytest.raises(ValueError, match="Expected tangent to be floating point"):
        make_dual(x, whole)
    with pytest.raises(TypeError, match="the tangent must be a Tensor, not int"):
        make_dual(x, 3)
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        unpack_dual(3)
    with pytest.raises(RuntimeError, match="already has a forward gradient at the same level"):
        make_dual(make_dual(x, x), x)
    with pytest.raises(RuntimeError, match="itself has a forward gradient at the same level"):
        make_dual(x, make_dual(x, x))


def test_without_a_level_there_are_no_duals():
    with pytest.raises(RuntimeError, match="no level exists, make sure to enter_dual_level"):
        make_dual(gc.ones(1), gc.ones(1))


def test_tangents_do_not_depend_on_recording(level):
    d = dual([3.0], [1.0])
    with gc.no_grad():
        assert tangent(d * d) == [6.0]
    assert tangent(d.detach()) is None
    assert tangent(d.clone()) == [1.0]


@pytest.mark.parametrize(
    ("write", "values", "tangents"),
    [
        (lambda x, d: x.mul_(d), [2.0, 3.0], [1.0, 1.0]),
        (lambda x, d: x.copy_(d), [2.0, 3.0], [1.0, 1.0]),
        (lambda x, d: x[:1].copy_(d[1:]), [3.0, 1.0], [1.0, 0.0]),
        (lambda x, d: x.__setitem__(1, d[0]), [1.0, 2.0], [0.0, 1.0]),
        (lambda x, d: x.view(2, 1)[0].add_(d[0]), [3.0, 1.0], [1.0, 0.0]),
    ],
)
def test_a_write_of_a_dual_makes_duals_of_a_tensor_and_its_views(level, write, values, tangents):
    x = gc.ones(2)
    early = x.view(2)
    write(x, dual([2.0, 3.0], [1.0, 1.0]))
    for t in (x, early, x.view(2)):
        assert t.tolist() == values
        assert tangent(t) == tangents


@pytest.mark.parametrize("write", ["add_", "mul_", "sub_", "copy_", "pow_"])
@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16, gc.float32, gc.float64, gc.complex64, gc.complex128])
def test_a_tangent_that_is_written_has_the_dtype_of_its_tensor(level, dtype, write):
    """Else views of the tensor would write to a copy of its tangent."""
    y, x = gc.ones(3, dtype=dtype), make_dual(gc.full((3,), 2.0).double(), gc.ones(3).double())
    getattr(y, write)(x)
    assert unpack_dual(y).tangent.dtype is dtype
    y[0] = 0.75
    y[1:2].zero_()
    assert [bool(t) for t in unpack_dual(y).tangent] == [False, False, write != "pow_"]


def test_a_write_to_a_dual_changes_its_tangent(level):
    d = dual([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    part = d[:2]
    part.mul_(5)
    assert tangent(d) == [5.0, 5.0, 1.0]
    d.mul_(2)
    assert tangent(part) == [10.0, 10.0]
    d.zero_()
    assert tangent(part) == [0.0, 0.0]
    assert tangent(d) == [0.0, 0.0, 0.0]


def test_results_do_not_share_tangents(level):
    d = dual([1.0, 2.0], [1.0, 1.0])
    others = [d + 1, d + gc.ones(2), d - 3, d.clone(), d.reshape(1, 2).expand(3, 2).clone()]
    d.mul_(7)
    assert [t.sum().item() for t in (unpack_dual(o).tangent for o in others)] == [2.0, 2.0, 2.0, 2.0, 6.0]


def test_tangents_are_laid_out_like_their_primals(level):
    x = gc.arange(6.0).reshape(2, 3).t()
    d = make_dual(x, gc.ones(3, 2))
    flat = d.t().view(6)
    flat.mul_(2)
    assert tangent(d) == [[2.0, 2.0]] * 3


def test_reverse_over_forward_and_forward_over_reverse(level):
    x = gc.tensor([1.0, 2.0], requires_grad=True)
    d = make_dual(x, gc.tensor([1.0, 10.0]))
    for cube in (lambda t: t**3, lambda t: t * t * t, lambda t: Square.apply(t) * t):
        y = cube(d).sum()
        (of_tangent,) = gc.autograd.grad(unpack_dual(y).tangent, x, retain_graph=True)
        assert of_tangent.tolist() == [6.0, 120.0]
        (gradient,) = gc.autograd.grad(y, x)
        assert gradient.tolist() == [3.0, 12.0]
        assert tangent(gradient) == [6.0, 120.0]


def test_forward_over_reverse_through_saved_results(level):
    x = gc.tensor(0.5, requires_grad=True)
    (gradient,) = gc.autograd.grad(make_dual(x, gc.tensor(2.0)).exp(), x)
    assert unpack_dual(gradient).tangent.item() == pytest.approx(2 * 1.6487213)


# -- custom operations ------------------------------------------------------------------------------------------------


def test_jvp_gets_tangents_and_what_was_saved(level):
    y = Square.apply(dual([3.0], [2.0]))
    assert unpack_dual(y).primal.tolist() == [9.0]
    assert tangent(y) == [12.0]
    assert gc.func.jvp(lambda x: gc.func.jvp(Square.apply, (x,), (gc.ones(1),))[1], (gc.ones(1),), (gc.ones(1),))[
        1
    ].tolist() == [2.0]


@pytest.mark.parametrize(("materialize", "expected"), [(True, [0.0]), (False, None)])
def test_missing_tangents_are_zeros_or_none(level, materialize, expected):
    seen = []

    class Product(Function):
        @staticmethod
        def forward(ctx, x, y, factor):
            ctx.set_materialize_grads(materialize)
            return x * y * factor

        @staticmethod
        def jvp(ctx, first, second, factor):
            seen.append((second if second is None else second.tolist(), factor))
            return first

    Product.apply(dual([1.0], [2.0]), gc.ones(1), 3)
    assert seen == [(expected, None)]


def jvp_returning(value, forward=lambda x: x * 2):
    class Returning(Function):
        @staticmethod
        def jvp(ctx, tangent):
            return value(tangent)

    Returning.forward = staticmethod(lambda ctx, x: forward(x))
    return Returning


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (jvp_returning(lambda t: (t, t)), r"invalid number of forward gradients \(expected 1 but got 2\)"),
        (jvp_returning(lambda t: gc.ones(3)), "forward gradient that has a different size"),
        (jvp_returning(lambda t: 3), r"expected Variable or None \(got int\) for grad output 0"),
        (
            jvp_returning(lambda t: (t, t), lambda x: (x * 2, 5)),
            "returned a gradient at position 1, but the corresponding forward output is not a differentiable Tensor",
        ),
        (
            jvp_returning(lambda t: t * 2, lambda x: x.view(1, 1)),
            "forward gradient that has a different size|not returning a view",
        ),
        (jvp_returning(lambda t: t, lambda x: x), "is returning a view .* but the jvp is not returning a view"),
    ],
)
def test_wrong_tangents_are_refused(level, function, message):
    with pytest.raises(RuntimeError, match=message):
        function.apply(dual([1.0], [1.0]))


def test_a_missing_tangent_is_not_taken_for_zeros(level):
    two = jvp_returning(lambda t: (t, None), lambda x: (x * 1, x * 2))
    with pytest.raises(RuntimeError, match="returned None at position 1, but the corresponding forward output is"):
        two.apply(dual([1.0], [1.0]))
    y, z = jvp_returning(lambda t: (t, None), lambda x: (x * 1, x > 0)).apply(dual([1.0], [1.0]))
    assert (tangent(y), tangent(z)) == ([1.0], None)


def test_a_write_in_place_writes_to_the_tangent_in_place(level):
    class Doubling(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def jvp(ctx, tangent):
            return tangent.mul_(2)

    class Wrong(Doubling):
        @staticmethod
        def jvp(ctx, tangent):
            return tangent * 2

    class Forgetful(Doubling):
        @staticmethod
        def jvp(ctx, tangent):
            return tangent

    d = dual([1.0, 1.0], [1.0, 3.0])
    assert Doubling.apply(d) is d
    assert tangent(d) == [2.0, 6.0]
    for function in (Wrong, Forgetful):
        with pytest.raises(RuntimeError, match="not modifying the forward mode gradients inplace"):
            function.apply(d)


@pytest.mark.parametrize(
    ("argument", "whose"), [(lambda x: x, "the given grad"), (lambda x: x.view(2), "the same base as the given grad")]
)
def test_the_tangent_of_a_view_is_a_view_of_the_tangent(level, argument, whose):
    class Part(Function):
        @staticmethod
        def forward(ctx, x, copied):
            ctx.copied = copied
            return x[:1]

        @staticmethod
        def jvp(ctx, tangent, _):
            return tangent.clone()[:1] if ctx.copied else tangent[:1]

    x = argument(dual([1.0, 1.0], [1.0, 3.0]))
    assert tangent(Part.apply(x, False)) == [1.0]
    with pytest.raises(RuntimeError, match=f"jvp is not returning a view of {whose} input"):
        Part.apply(x, True)


def test_jvp_does_not_get_what_was_saved_for_backward(level):
    class Saving(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def jvp(ctx, tangent):
            assert ctx.saved_tensors == ()
            return tangent * 2

    assert tangent(Saving.apply(dual([1.0], [3.0]))) == [6.0]


def test_out_takes_no_duals(level):
    x = dual([2.0], [3.0])
    for call in (lambda: gc.mul(x, 4, out=gc.empty(0)), lambda: gc.mul(gc.ones(1), 4, out=x)):
        with pytest.raises(RuntimeError, match="Trying to use forward AD with mul_out that does not support it"):
            call()


def test_detaching_in_place_ends_tangents(level):
    assert tangent((dual([2.0], [3.0]) * 2).detach_()) is None


def test_both_modes_of_a_custom_operation_pass_the_check():
    x = gc.tensor([0.3, -0.7], dtype=gc.float64, requires_grad=True)
    assert gc.autograd.gradcheck(Square.apply, x, check_forward_ad=True)
    assert gc.autograd.gradgradcheck(Square.apply, x, check_fwd_over_rev=True)


def _twice_with_itself(y, x):
    y.mul_(x)
    return y


def _to_a_part(y, x):
    y[0].mul_(3)
    return y


def _to_a_part_of_a_part(y, x):
    y[0][1].mul_(x[0, 0])
    return y


def _with_its_result(y, x):
    y[:, 0].exp_()
    return y


def _from_elsewhere(y, x):
    y[0] = x[1]
    return y


def _with_its_input(y, x):
    y.add_(1)
    y.pow_(3)
    return y


def _through_a_view_from_before(y, x):
    view = y[0]
    y.mul_(x)
    return y + view


WRITES_TO_DUALS = [
    _twice_with_itself,
    _to_a_part,
    _to_a_part_of_a_part,
    _with_its_result,
    _from_elsewhere,
    _with_its_input,
    _through_a_view_from_before,
]


@pytest.mark.parametrize("write", WRITES_TO_DUALS, ids=lambda f: f.__name__.strip("_"))
def test_writes_where_both_modes_meet(write):
    def f(x):
        return (write(x * 2, x) * x).square().sum()

    x, t = (
        gc.tensor([[0.5, -1.0], [1.5, 2.0]], dtype=gc.float64),
        gc.tensor([[1.0, 2.0], [-1.0, 0.5]], dtype=gc.float64),
    )
    gradient, change = gc.func.jvp(gc.func.grad(f), (x,), (t,))
    step = 1e-6
    numerical = (gc.func.grad(f)(x + step * t) - gc.func.grad(f)(x - step * t)) / (2 * step)
    assert gradient.allclose(gc.func.grad(f)(x))
    assert change.allclose(numerical, rtol=1e-5, atol=1e-5)
    assert gc.func.grad(lambda x: gc.func.jvp(f, (x,), (t,))[1])(x).allclose(change)


def test_transposed_matrices_have_tangents() -> None:
    """`x.T` of a matrix is recorded without a call of the operation, but not in forward mode."""
    x, t = gc.arange(6.0).reshape(2, 3), gc.arange(6.0, 12.0).reshape(2, 3)
    value, tangent = gc.func.jvp(lambda x: x.T * 2, (x,), (t,))
    assert gc.equal(value, 2 * x.t())
    assert gc.equal(tangent, 2 * t.t())
