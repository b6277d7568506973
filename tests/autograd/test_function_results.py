"""Results of custom operations that are arguments, views, written in place, or without derivative."""

import pytest

import gradcore as gc
from gradcore.autograd import Function


class Doubling(Function):
    """Writes to its first argument."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Identity(Function):
    """Returns its argument as it is, and pretends that it had tripled it."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


class Flattened(Function):
    """Returns a view of its argument."""

    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad.view(2, 2) * 3


def leaf(*shape):
    return gc.ones(*shape, requires_grad=True)


def test_an_argument_that_is_returned_becomes_a_view_with_the_functions_history():
    x = leaf(3)
    y = Identity.apply(x)
    assert y is not x
    assert y._base is x
    y.sum().backward()
    assert x.grad.tolist() == [3.0] * 3


def test_without_gradients_an_argument_that_is_returned_is_a_view_too():
    x = gc.ones(3)
    y = Identity.apply(x)
    assert y is not x
    assert y._base is x
    with gc.no_grad():
        assert not Identity.apply(leaf(3)).requires_grad


def test_an_argument_that_is_returned_keeps_its_class():
    class Named(gc.Tensor):
        pass

    for x in (gc.ones(3), leaf(3)):
        assert type(Identity.apply(x.as_subclass(Named))) is Named


@pytest.mark.parametrize("function", [Identity, Flattened])
def test_views_made_by_a_function_must_not_be_written_to(function):
    x = leaf(2, 2) * 1
    y = function.apply(x)
    with pytest.raises(RuntimeError, match=r"This view was created inside a custom Function \(or because an input"):
        y.mul_(2)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        y * 1
    assert repr(y).endswith("grad_fn=<Invalid>)")


def test_views_that_a_function_made_without_recording_must_not_be_written_to():
    with gc.no_grad():
        y = Flattened.apply(leaf(2, 2))
    with pytest.raises(RuntimeError, match=r"A view was created in no_grad mode .* inside a custom Function"):
        y.mul_(2)


def test_a_written_argument_gets_the_functions_history():
    x = leaf(3)
    z = x * 1
    y = Doubling.apply(z)
    assert y is z
    assert z._version == 2
    assert z.grad_fn.name() == "DoublingBackward"
    z.sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_a_write_through_a_view_reaches_the_base():
    x = leaf(4)
    base = x * 1
    Doubling.apply(base.view(2, 2)[0])
    assert base.tolist() == [2.0, 2.0, 1.0, 1.0]
    assert base.grad_fn.name() == "torch::autograd::CopySlices"
    (base * base).sum().backward()
    assert x.grad.tolist() == [8.0, 8.0, 2.0, 2.0]


def test_the_written_argument_need_not_be_the_first():
    class Scale(Function):
        @staticmethod
        def forward(ctx, factor, x):
            ctx.save_for_backward(factor)
            ctx.before = x.clone()
            x.mul_(factor)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            (factor,) = ctx.saved_tensors
            return (grad * ctx.before).sum(), grad * factor

    x, factor = leaf(4), gc.tensor(5.0, requires_grad=True)
    base = x * 1
    Scale.apply(factor, base[1:3])
    base.sum().backward()
    assert x.grad.tolist() == [1.0, 5.0, 5.0, 1.0]
    assert factor.grad.item() == 2.0


def test_saved_results_that_were_written_in_place_are_the_new_version():
    class Saving(Doubling):
        @staticmethod
        def forward(ctx, x):
            x = Doubling.forward(ctx, x)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x

    x = leaf(2)
    y = Saving.apply(x * 1)
    (y * 1).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    y = Saving.apply(x * 1)
    y.add_(1)
    with pytest.raises(RuntimeError, match="which is output 0 of Saving, is at version 3; expected version 2"):
        y.sum().backward()


def test_misuse_of_mark_dirty():
    class Unreturned(Doubling):
        @staticmethod
        def forward(ctx, x):
            return Doubling.forward(ctx, x) + 1

    class Foreign(Doubling):
        @staticmethod
        def forward(ctx, x):
            return Doubling.forward(ctx, x * 1)

    class Pair(Doubling):
        @staticmethod
        def forward(ctx, x):
            x = Doubling.forward(ctx, x)
            return x, x + 1

    class NoTensor(Doubling):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(3)
            return x * 1

    class ForeignView(Doubling):
        @staticmethod
        def forward(ctx, x):
            return Doubling.forward(ctx, (x * 1).view(2))

    x = leaf(2)
    with pytest.raises(RuntimeError, match="received a tensor that was not an input"):
        ForeignView.apply(x)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        Doubling.apply(x)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        Doubling.apply(x[:1])
    with pytest.raises(RuntimeError, match="Some elements marked as dirty during the forward method were not returned"):
        Unreturned.apply(x * 1)
    with pytest.warns(UserWarning, match="received a tensor that was not an input"):
        assert Foreign.apply(x * 1).requires_grad
    with pytest.raises(RuntimeError, match="your Function cannot return more than one Tensor"):
        Pair.apply((x * 1)[:1])
    with pytest.raises(RuntimeError, match="mark_dirty can only accept variables, but argument 0 is of type int"):
        NoTensor.apply(x)


def test_results_without_derivative():
    class Split(Function):
        @staticmethod
        def forward(ctx, x):
            sign = x.sign()
            ctx.mark_non_differentiable(sign)
            ctx.save_for_backward(sign)
            return x.abs(), sign

        @staticmethod
        def backward(ctx, grad, no_grad):
            assert no_grad.tolist() == [0.0, 0.0]
            (sign,) = ctx.saved_tensors
            return grad * sign

    x = gc.tensor([-1.0, 2.0], requires_grad=True)
    size, sign = Split.apply(x)
    assert size.requires_grad
    assert not sign.requires_grad
    assert sign.is_leaf
    size.sum().backward()
    assert x.grad.tolist() == [-1.0, 1.0]


def test_an_argument_returned_without_derivative_is_detached():
    class Stop(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            raise AssertionError("never called")

    z = leaf(2) * 1
    y = Stop.apply(z)
    assert y is not z
    assert (z.requires_grad, y.requires_grad) == (True, False)


def test_two_results_of_one_memory():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            return y, y.view(2, 1)

        @staticmethod
        def backward(ctx, grad, column):
            return grad + column.view(2)

    x = leaf(2)
    first, second = Both.apply(x)
    assert second._base is first
    (first + 3 * second.view(2)).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]
    with pytest.raises(RuntimeError, match="output of a function that returns multiple views"):
        second.mul_(2)


def test_the_same_result_twice_is_the_last_one():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            return y, y

        @staticmethod
        def backward(ctx, first, second):
            assert first.tolist() == [0.0]
            return second

    x = leaf(1)
    first, second = Same.apply(x)
    assert first is second
    assert first.output_nr == 1
    (first + 3 * second).backward()
    assert x.grad.tolist() == [4.0]


def test_a_result_that_was_recorded_inside_loses_that_history():
    class Inside(Function):
        @staticmethod
        def forward(ctx, x):
            with gc.enable_grad():
                return x.detach().requires_grad_() ** 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 7

    x = leaf(2)
    y = Inside.apply(x)
    assert y.grad_fn.name() == "InsideBackward"
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]
