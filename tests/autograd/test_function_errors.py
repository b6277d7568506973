"""What custom operations are told when they do something wrong."""

import pytest

import gradcore as gc
from gradcore.autograd import Function
from gradcore.autograd.function import once_differentiable


def returning(value):
    """Return a function whose backward returns `value`."""

    class Returning(Function):
        @staticmethod
        def forward(ctx, x, factor):
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return value

    return Returning


def leaf(*values):
    return gc.tensor(values, requires_grad=True)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            lambda: gc.ones(2),
            r"function ReturningBackward returned an incorrect number of gradients \(expected 2, got 1\)",
        ),
        (
            lambda: (gc.ones(3), None, gc.ones(3)),
            r"function ReturningBackward returned an incorrect number of gradients \(expected 2, got 3\)",
        ),
        (
            lambda: (gc.ones(3), gc.ones(3)),
            "function ReturningBackward returned a gradient different than None at position 2, but the corresponding "
            "forward input was not a Variable",
        ),
        (
            lambda: (gc.ones(2), None),
            r"Function ReturningBackward returned an invalid gradient at index 0 - got \[2\] but expected shape "
            r"compatible with \[3\]",
        ),
        (
            lambda: (gc.ones(()), None),
            r"Function ReturningBackward returned an invalid gradient at index 0 - got \[\] but expected shape",
        ),
        (lambda: (gc.ones(3, dtype=gc.complex64), None), "expected a float32 gradient but got complex64"),
        (lambda: (gc.ones(3, device="meta"), None), "expected device cpu but got meta"),
        (lambda: (3.0, None), r"expected Variable or None \(got float\)"),
        (lambda: [gc.ones(3), None], r"incorrect number of gradients \(expected 2, got 1\)"),
    ],
)
def test_wrong_gradients_are_refused(value, message):
    y = returning(value()).apply(leaf(1.0, 2.0, 3.0), 2)
    with pytest.raises(RuntimeError, match=message):
        y.sum().backward()


def test_what_is_not_implemented_is_named():
    class Empty(Function):
        pass

    class OnlyForward(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    class Both(OnlyForward):
        @staticmethod
        def backward(ctx, grad):
            return grad

        @staticmethod
        def vjp(ctx, grad):
            return grad

    x = leaf(1.0)
    with pytest.raises(NotImplementedError, match="You must implement the forward function for custom"):
        Empty.apply(x)
    with pytest.raises(NotImplementedError, match="You must implement either the backward or vjp method"):
        OnlyForward.apply(x).backward()
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Both.apply(x).backward()
    with gc.autograd.forward_ad.dual_level():
        dual = gc.autograd.forward_ad.make_dual(x, gc.ones(1))
        with pytest.raises(NotImplementedError, match="You must implement the jvp function"):
            OnlyForward.apply(dual)


def test_errors_of_the_users_code_pass_through_and_modes_are_restored():
    class Failing(Function):
        @staticmethod
        def forward(ctx, x, when):
            ctx.when = when
            if when == "forward":
                raise KeyError("in forward")
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("in backward")

    x = leaf(1.0)
    with pytest.raises(KeyError, match="in forward"):
        Failing.apply(x, "forward")
    assert gc.is_grad_enabled()
    y = Failing.apply(x, "backward")
    with pytest.raises(KeyError, match="in backward"):
        y.backward()
    assert gc.is_grad_enabled()
    assert x.grad is None


def test_backward_after_the_graph_was_freed():
    class Saving(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x

    class Constant(Saving):
        @staticmethod
        def backward(ctx, grad):
            return grad

    x = leaf(1.0)
    y = Saving.apply(x)
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()
    y = Constant.apply(x)
    y.backward()
    y.backward()
    assert x.grad.item() == 3.0


def test_saved_inputs_must_not_be_overwritten():
    class Saving(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    z = leaf(1.0, 2.0) * 1
    y = Saving.apply(z)
    z.mul_(2)
    message = r"\[torch.FloatTensor \[2\]\], which is output 0 of Mul, is at version 1; expected version 0 instead"
    with pytest.raises(RuntimeError, match=message):
        y.sum().backward()


def test_an_input_returned_as_is_cannot_be_saved_by_setup_context():
    class Confused(Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(RuntimeError, match="An input that has been returned as-is as output is being saved"):
        Confused.apply(leaf(1.0))


def test_keyword_only_arguments_have_no_gradients():
    class Named(Function):
        @staticmethod
        def forward(ctx, x, *, factor):
            return x * factor

    with pytest.raises(TypeError, match="keyword-only arguments of forward are not supported"):
        Named.apply(leaf(1.0), factor=2)


def test_once_differentiable_functions_refuse_a_second_derivative():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            assert not gc.is_grad_enabled()
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    x, upstream = leaf(3.0), leaf(1.0)
    Once.apply(x).backward()
    assert x.grad.item() == 6.0
    (gradient,) = gc.autograd.grad(Once.apply(x), x, upstream, create_graph=True)
    with pytest.raises(RuntimeError, match="trying to differentiate twice a function that was marked with @once_diff"):
        gradient.backward()


def test_the_class_itself_has_no_forward():
    with pytest.raises(NotImplementedError, match="You must implement the forward function"):
        Function.apply(gc.ones(1, requires_grad=True))


def test_only_tensors_are_saved_for_forward_mode():
    class Keeping(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(5)
            return x * 1

    with pytest.raises(AssertionError, match="save_for_forward expects all arguments to be tensors"):
        Keeping.apply(gc.ones(1))


def test_the_former_name_of_saved_tensors_warns():
    class Keeping(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

    x = gc.ones(1, requires_grad=True)
    with pytest.warns(DeprecationWarning, match="'saved_variables' is deprecated; use 'saved_tensors'"):
        assert Keeping.apply(x).grad_fn.saved_variables[0] is x


def test_instances_are_refused():
    class Plain(Function):
        @staticmethod
        def forward(ctx, x):
            return x

    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        instance = Plain()
    with pytest.raises(RuntimeError, match="Legacy autograd function with non-static forward method is deprecated"):
        instance(leaf(1.0))
