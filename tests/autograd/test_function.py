"""Custom operations: what `forward`, `setup_context` and `backward` see, and what ``apply`` returns."""

import pytest

import gradcore as gc
from gradcore.autograd import Function


class Exponential(Function):
    """Saves its argument and its result."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        _, y = ctx.saved_tensors
        return grad * y


class Power(Function):
    """With a separate `setup_context` and a default."""

    @staticmethod
    def forward(x, exponent=2):
        return x**exponent

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.exponent = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.exponent * x ** (ctx.exponent - 1), None


def leaf(*values):
    return gc.tensor(values, requires_grad=True)


def test_the_context_is_the_node_and_takes_any_attribute():
    contexts = []

    class Noting(Exponential):
        @staticmethod
        def forward(ctx, x):
            contexts.append(ctx)
            ctx.device = ctx.edges = ctx.hooks = ctx.seq = ctx.saved = ctx.op = ctx.name = "mine"
            return Exponential.forward(ctx, x)

        @staticmethod
        def backward(ctx, grad):
            assert (ctx.device, ctx.edges, ctx.hooks, ctx.name) == ("mine",) * 4
            return Exponential.backward(ctx, grad)

    x = leaf(1.0, 2.0)
    y = Noting.apply(x)
    assert contexts == [y.grad_fn]
    assert y.grad_fn.next_functions[0][0].variable is x
    assert repr(y).endswith("grad_fn=<NotingBackward>)")
    assert repr(y.grad_fn).startswith("<torch.autograd.function.NotingBackward object at 0x")
    assert isinstance(y.grad_fn, gc.autograd.graph.Node)
    assert y.grad_fn.metadata == {}
    y.sum().backward()
    assert gc.equal(x.grad, y)


def test_forward_runs_unrecorded_and_knows_which_gradients_are_needed():
    seen = []

    class Watching(Function):
        @staticmethod
        def forward(ctx, x, y, factor):
            seen.append((ctx.needs_input_grad, gc.is_grad_enabled(), x.requires_grad, (x * 2).requires_grad))
            return x * y * factor

        @staticmethod
        def backward(ctx, grad):
            seen.append((ctx.needs_input_grad, gc.is_grad_enabled()))
            return grad, grad, None

    Watching.apply(leaf(1.0), gc.ones(1), 2).backward()
    with gc.no_grad():
        Watching.apply(leaf(1.0), gc.ones(1), 2)
    assert seen == [
        ((True, False, False), False, True, False),
        ((True, False, False), False),
        ((True, False, False), False, True, False),
    ]


def test_setup_context_fills_the_context_afterwards():
    x = leaf(3.0)
    for y, expected in ((Power.apply(x), 6.0), (Power.apply(x, 3), 27.0), (Power.apply(x, exponent=3), 27.0)):
        (gradient,) = gc.autograd.grad(y, x)
        assert gradient.item() == expected


def test_defaults_of_forward_need_no_gradient():
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x, factor=2):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor

    x = leaf(1.0)
    Scaled.apply(x).backward()
    assert x.grad.item() == 2.0


def test_saved_inputs_and_outputs_have_their_history():
    x = leaf(0.5, -1.0)
    z = x * 1
    y = Exponential.apply(z)
    saved_input, saved_output = y.grad_fn.saved_tensors
    assert saved_input.grad_fn is z.grad_fn
    assert saved_output.grad_fn is y.grad_fn
    assert Exponential.apply(x).grad_fn.saved_tensors[0] is x


def test_a_recorded_backward_can_be_differentiated_again():
    x = leaf(0.5, -1.0)
    y = Exponential.apply(x)
    for _ in range(4):
        (y,) = gc.autograd.grad(y.sum(), x, create_graph=True)
    assert gc.allclose(y, x.exp())


def test_none_can_be_saved_and_nothing_else_but_tensors():
    class Saving(Function):
        @staticmethod
        def forward(ctx, x, kept):
            ctx.save_for_backward(None, kept)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            assert ctx.saved_tensors[0] is None
            return grad, None

    Saving.apply(leaf(1.0), gc.ones(1)).backward()
    with pytest.raises(TypeError, match="save_for_backward can only save variables, but argument 1 is of type int"):
        Saving.apply(leaf(1.0), 3)


def test_saving_again_replaces_what_was_saved():
    class Twice(Exponential):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x, x)
            return Exponential.forward(ctx, x)

    assert len(Twice.apply(leaf(1.0)).grad_fn.saved_tensors) == 2


def test_other_results_than_tensors_are_handed_through():
    class Mixed(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, gc.tensor([1, 2]), 7, None, "text", [x * 2]

        @staticmethod
        def backward(ctx, grad, *others):
            assert others[0].tolist() == [0, 0]
            assert others[1:] == (None, None, None, None)
            return grad

    x = leaf(1.0, 2.0)
    y, integers, number, nothing, text, nested = Mixed.apply(x)
    assert (number, nothing, text) == (7, None, "text")
    assert integers.grad_fn is None
    assert not nested[0].requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_tensors_in_containers_take_no_part():
    class First(Function):
        @staticmethod
        def forward(ctx, tensors):
            return tensors[0] * 2

        @staticmethod
        def backward(ctx, grad):
            raise AssertionError("never recorded")

    for container in ([leaf(1.0)], (leaf(1.0),), {0: leaf(1.0)}):
        with pytest.warns(UserWarning, match="inside a list, tuple or dict"):
            assert not First.apply(container).requires_grad
    with gc.no_grad():
        First.apply([leaf(1.0)])
    First.apply([leaf(1.0).detach()])


@pytest.mark.parametrize(("materialize", "expected"), [(True, [0.0]), (False, None)])
def test_missing_gradients_are_zeros_or_none(materialize, expected):
    seen = []

    class Pair(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, first, second):
            seen.append(second if second is None else second.tolist())
            return first

    Pair.apply(leaf(1.0))[0].backward()
    assert seen == [expected]


def test_a_gradient_is_fitted_to_its_input():
    class Careless(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return gc.ones(2, 3, dtype=gc.float64)

    x = leaf(1.0, 2.0, 3.0)
    Careless.apply(x).sum().backward()
    assert x.grad.dtype == gc.float32
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_further_gradients_that_are_none_are_ignored():
    class Generous(Exponential):
        @staticmethod
        def backward(ctx, grad):
            return Exponential.backward(ctx, grad), None, None

    x = leaf(0.0)
    Generous.apply(x).backward()
    assert x.grad.item() == 1.0


def test_vjp_is_another_name_for_backward():
    class Named(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def vjp(ctx, grad):
            return grad * 5

    x = leaf(1.0)
    Named.apply(x).backward()
    assert x.grad.item() == 5.0


def test_backward_may_run_a_backward_of_its_own():
    class Nested(Function):
        @staticmethod
        def forward(ctx, x):
            with gc.enable_grad():
                ctx.inner = x.detach().requires_grad_()
                ctx.result = ctx.inner**3
            return ctx.result.detach()

        @staticmethod
        def backward(ctx, grad):
            return gc.autograd.grad(ctx.result, ctx.inner, grad)

    x = leaf(2.0)
    Nested.apply(x).backward()
    assert x.grad.item() == 12.0


def test_hooks_of_the_node_and_of_its_result():
    order = []
    x = leaf(0.0)
    y = Exponential.apply(x)
    y.register_hook(lambda grad: order.append("tensor"))
    y.grad_fn.register_prehook(lambda grads: order.append("before"))
    y.grad_fn.register_hook(lambda inputs, outputs: order.append("after"))
    y.backward()
    assert order == ["tensor", "before", "after"]


def test_a_node_can_be_applied_by_hand():
    y = Exponential.apply(leaf(0.0))
    assert y.grad_fn.apply(gc.tensor([3.0])).tolist() == [3.0]
    y.grad_fn.maybe_clear_saved_tensors()
    with pytest.raises(RuntimeError, match="second time"):
        y.grad_fn.saved_tensors  # noqa: B018


def test_gradients_of_functions_pass_the_check():
    x = gc.tensor([0.3, -0.7], dtype=gc.float64, requires_grad=True)
    for function in (Exponential.apply, lambda x: Power.apply(x, 3)):
        assert gc.autograd.gradcheck(function, x)
        assert gc.autograd.gradgradcheck(function, x)


def test_a_bare_context_takes_notes():
    ctx = gc.autograd.function.FunctionCtx()
    ctx.save_for_backward(1, 2)
    ctx.anything = 3
    assert ctx.to_save == (1, 2)
