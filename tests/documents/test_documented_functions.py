"""Operations with a derivative of one's own: subclasses of ``Function``."""

import pytest

import gradcore as gc
from gradcore.autograd.function import Function


class Scale(Function):
    """Multiply by a number that is kept on the context."""

    @staticmethod
    def forward(ctx, tensor, factor):
        ctx.factor = factor
        return tensor * factor

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.factor, None


class PassThrough(Scale):
    """Multiply, and pretend in backward that nothing happened."""

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None


class Exponential(Function):
    """The exponential, whose derivative is its saved result."""

    @staticmethod
    def forward(ctx, exponent):
        result = exponent.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        (result,) = ctx.saved_tensors
        return grad_output * result


class Cubic(Function):
    """The third Legendre polynomial, whose derivative needs the saved input."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * (5 * x**3 - 3 * x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * x**2 - 1)


def test_there_is_one_function_class():
    assert gc.autograd.Function is gc.autograd.function.Function is Function


def test_the_result_is_a_tensor_of_the_graph(text_of):
    a = gc.tensor([[0.5, 0.25], [1.0, 0.125]], requires_grad=True)
    b = Scale.apply(a, 5)
    assert "scaled:" + str(b) == (
        "scaled:tensor([[2.5000, 1.2500],\n        [5.0000, 0.6250]], grad_fn=<ScaleBackward>)"
    )
    assert text_of(b.grad_fn).endswith("ScaleBackward object at 0x>")
    assert b.grad_fn.name() == "ScaleBackward"
    assert b.grad_fn.next_functions[0][0].variable is a
    assert b.requires_grad
    assert not b.is_leaf


def test_backward_uses_what_forward_put_on_the_context():
    a = gc.rand(3, 3, requires_grad=True)
    Scale.apply(a, 5).backward(gc.ones_like(a))
    assert a.grad.tolist() == [[5.0] * 3] * 3


def test_backward_is_believed_whatever_it_returns():
    a = gc.rand(3, 3, requires_grad=True)
    b = PassThrough.apply(a, 5)
    assert repr(b).endswith("grad_fn=<PassThroughBackward>)")
    assert gc.equal(b, 5 * a)
    b.backward(gc.ones_like(a))
    assert a.grad.tolist() == [[1.0] * 3] * 3


def test_saved_tensors_come_back():
    x = gc.tensor([0.0, 1.0, -1.0], requires_grad=True)
    y = Exponential.apply(x)
    y.sum().backward()
    assert gc.equal(x.grad, y)
    assert repr(y) == "tensor([1.0000, 2.7183, 0.3679], grad_fn=<ExponentialBackward>)"


def test_saved_tensors_are_freed_with_the_graph():
    y = Exponential.apply(gc.ones(2, requires_grad=True)).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_a_saved_tensor_must_not_be_overwritten():
    x = gc.ones(2, requires_grad=True)
    y = Exponential.apply(x)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_custom_and_built_in_operations_mix():
    x = gc.linspace(-1, 1, 5).requires_grad_()
    (custom,) = gc.autograd.grad((Cubic.apply(x * 2) ** 2).sum(), x)
    u = x * 2
    (built_in,) = gc.autograd.grad((((5 * u**3 - 3 * u) / 2) ** 2).sum(), x)
    assert gc.allclose(custom, built_in)


def test_a_polynomial_is_fitted_through_a_custom_operation():
    x = gc.linspace(-1, 1, 50)
    target = Cubic.apply(0.5 + x)
    shift = gc.zeros((), requires_grad=True)
    losses = []
    for _ in range(200):
        loss = (Cubic.apply(shift + x) - target).pow(2).mean()
        losses.append(loss.item())
        loss.backward()
        with gc.no_grad():
            shift -= 0.02 * shift.grad
            shift.grad = None
    assert losses[-1] < 1e-6 < losses[0]
    assert shift.item() == pytest.approx(0.5, abs=1e-3)


def test_the_derivative_can_itself_be_differentiated():
    x = gc.tensor([0.5], requires_grad=True)
    (first,) = gc.autograd.grad(Cubic.apply(x), x, create_graph=True)
    (second,) = gc.autograd.grad(first, x)
    assert first.item() == pytest.approx(1.5 * (5 * 0.25 - 1))
    assert second.item() == pytest.approx(15 * 0.5)


def test_backward_gets_one_gradient_for_each_result():
    received = []

    class ShiftAndDouble(Function):
        @staticmethod
        def forward(ctx, x):
            return x + 1, x * 2

        @staticmethod
        def backward(ctx, grad_shifted, grad_doubled):
            received.append((grad_shifted.tolist(), grad_doubled.tolist()))
            return grad_shifted + 2 * grad_doubled

    x = gc.ones(2, requires_grad=True)
    shifted, doubled = ShiftAndDouble.apply(x)
    assert (shifted.output_nr, doubled.output_nr) == (0, 1)
    assert shifted.grad_fn is doubled.grad_fn
    (shifted + 10 * doubled).sum().backward(retain_graph=True)
    shifted.sum().backward()
    assert received == [([1.0, 1.0], [10.0, 10.0]), ([1.0, 1.0], [0.0, 0.0])]
    assert x.grad.tolist() == [22.0, 22.0]


def test_backward_returns_one_gradient_for_each_argument():
    class Forgetful(Scale):
        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.factor

    y = Forgetful.apply(gc.ones(2, requires_grad=True), 5)
    with pytest.raises(
        RuntimeError,
        match=r"function ForgetfulBackward returned an incorrect number of gradients \(expected 2, got 1\)",
    ):
        y.sum().backward()


def test_the_gradient_of_a_constant_is_none():
    class Generous(Scale):
        @staticmethod
        def backward(ctx, grad_output):
            return grad_output, grad_output

    y = Generous.apply(gc.ones(2, requires_grad=True), 5)
    with pytest.raises(
        RuntimeError, match="function GenerousBackward returned a gradient different than None at position 2"
    ):
        y.sum().backward()


def test_nothing_is_recorded_for_inputs_without_gradients():
    assert Scale.apply(gc.ones(2), 5).requires_grad is False
    with gc.no_grad():
        assert Scale.apply(gc.ones(2, requires_grad=True), 5).grad_fn is None


def test_a_function_is_applied_not_instantiated():
    with (
        pytest.warns(DeprecationWarning, match="should not be instantiated"),
        pytest.raises(RuntimeError, match="Legacy autograd function with non-static forward method is deprecated"),
    ):
        Scale()(gc.ones(2, requires_grad=True), 5)
