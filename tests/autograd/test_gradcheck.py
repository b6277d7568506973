"""The checker itself: it passes what is right, and says what is wrong."""

import pytest

import gradcore as gc
from gradcore.autograd import Function, GradcheckError, gradcheck, gradgradcheck

pytestmark = pytest.mark.parametrize("fast_mode", [False, True], ids=["slow", "fast"])


def real(*values):
    return gc.tensor(values, dtype=gc.float64, requires_grad=True)


def complexes(*values):
    return gc.tensor(values, dtype=gc.complex128, requires_grad=True)


X, Y = real(0.5, 1.5, -2.0), real(2.0, 1.0, 3.0)
Z = complexes(1 + 2j, -0.5j, 2.0)


def function(forward=lambda x: x * x, backward=None, jvp=None, **notes):
    """Return a custom operation of one tensor. Its derivatives get the saved tensor and the gradient or tangent."""

    class Custom(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            ctx.set_materialize_grads(notes.get("materialize", True))
            return forward(x)

    if backward is not None:
        Custom.backward = staticmethod(lambda ctx, grad: backward(ctx.saved_tensors[0], grad))
    if jvp is not None:
        Custom.jvp = staticmethod(lambda ctx, tangent: jvp(ctx.saved_tensors[0], tangent))
    return Custom.apply


@pytest.mark.parametrize(
    ("program", "inputs"),
    [
        (lambda x: x.exp().sum(), X),
        (lambda x, y: (x * y, x.sum(), y.cos()), (X, Y)),
        (lambda x, y: x * y, (X, Y.detach())),
        (lambda x, n: x * n, (X, 3.0)),
        (lambda x: (x * 2, gc.tensor([1, 2])), X),
        (lambda z: z * z * 2j, Z),
        (lambda z: z.abs(), Z),
        (lambda x: x * 2j, X),
        (lambda x, z: x * z.conj(), (X, Z)),
        (lambda x: x * 2, gc.ones(0, dtype=gc.float64, requires_grad=True)),
        (lambda x: x.t() * 2, gc.ones(2, 3, dtype=gc.float64).t().requires_grad_()),
        (lambda x: x.clone().mul_(3), X),
    ],
)
def test_right_derivatives_pass(program, inputs, fast_mode):
    assert gradcheck(program, inputs, fast_mode=fast_mode, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(program, inputs, fast_mode=fast_mode)


def test_second_derivatives_in_both_modes(fast_mode):
    program = lambda x, y: (x * x * y, y.exp())  # noqa: E731
    assert gradgradcheck(program, (X, Y), fast_mode=fast_mode, check_fwd_over_rev=True)
    assert gradgradcheck(program, (X, Y), (gc.ones(3).double(), Y), gen_non_contig_grad_outputs=True)


def test_a_wrong_gradient_is_named(fast_mode):
    wrong = function(backward=lambda x, grad: grad * (2 * x + gc.tensor([0.0, 0.0, 1.0])))
    message = (
        r"(?s)Jacobian mismatch for output 0 with respect to input 1,\nnumerical:tensor\(.*\nanalytical:tensor\(.*"
        r"at entry \(2,\) of the input and entry \(2,\) of the output: numerical -4, analytical -3"
    )
    with pytest.raises(GradcheckError, match=message):
        gradcheck(lambda y, x: wrong(x) * y, (Y.detach().fill_(1.0), X), fast_mode=fast_mode)
    assert not gradcheck(wrong, X, raise_exception=False, fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="While considering the imaginary part of complex outputs only"):
        gradcheck(function(backward=lambda z, grad: grad * 2 * z), Z, fast_mode=fast_mode)


def test_a_wrong_tangent_is_named(fast_mode):
    right, wrong = (lambda x, t: 2 * x.conj() * t), (lambda x, t: 2.1 * x * t)
    program = function(backward=right, jvp=wrong)
    with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch for output 0"):
        gradcheck(program, X, check_forward_ad=True, fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="While considering the imaginary part of complex inputs only"):
        gradcheck(program, Z, check_forward_ad=True, check_backward_ad=False, fast_mode=fast_mode)
    assert gradcheck(program, X, fast_mode=fast_mode)


def test_a_wrong_second_derivative_is_found(fast_mode):
    program = function(lambda x: x**3, lambda x, grad: grad * 3 * (x * x).detach())
    assert gradcheck(program, X, fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(program, X, fast_mode=fast_mode)


def test_backward_must_be_linear_in_the_upstream_gradient(fast_mode):
    constant = function(lambda x: x * 2, lambda x, grad: gc.full((3,), 2.0, dtype=gc.float64) + 0 * grad)
    with pytest.raises(GradcheckError, match=r"Jacobian mismatch|backward not multiplied by grad_output"):
        gradcheck(constant, X, fast_mode=fast_mode)
    affine = function(lambda x: x.sum() * 2, lambda x, grad: (2 * grad).expand(3) + (grad == 0) * 1.0)
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(affine, X, fast_mode=fast_mode)


def test_backward_must_be_deterministic(fast_mode):
    runs = []

    def backward(x, grad):
        runs.append(1)
        return grad * (2 * x + 1e-8 * (len(runs) % 2))

    program = function(backward=backward)
    with pytest.raises(GradcheckError, match="Backward is not reentrant"):
        gradcheck(program, X, fast_mode=fast_mode)
    assert gradcheck(program, X, nondet_tol=1e-6, check_undefined_grad=False, fast_mode=fast_mode) is True


def test_backward_must_take_missing_gradients(fast_mode):
    def backward(x, grad):
        if grad is None:
            raise RuntimeError("no gradient")
        return 2 * x * grad

    program = function(backward=backward, materialize=False)
    with pytest.raises(GradcheckError, match="Expected backward function to handle undefined output grads"):
        gradcheck(program, X, fast_mode=fast_mode)
    assert gradcheck(program, X, check_undefined_grad=False, fast_mode=fast_mode)


def test_outputs_without_history_must_be_constant(fast_mode):
    assert gradcheck(lambda x: gc.ones(3, dtype=gc.float64), X, fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="Numerical gradient for function expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, X, fast_mode=fast_mode)


def test_dtypes_of_gradients_are_checked_on_request(fast_mode):
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision"):
        assert gradcheck(
            lambda x: x.double() * 2,
            gc.ones(2, requires_grad=True),
            eps=1e-2,
            check_grad_dtypes=True,
            fast_mode=fast_mode,
        )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda **o: gradcheck(lambda x: x, gc.ones(2), **o), ValueError, "expects at least one input tensor"),
        (lambda **o: gradcheck(lambda x: x, X, check_backward_ad=False, **o), AssertionError, "at least one of"),
        (
            lambda **o: gradcheck(
                lambda x: x, X, check_batched_grad=True, check_backward_ad=False, check_forward_ad=True, **o
            ),
            AssertionError,
            "check_batched_grad=True requires",
        ),
        (
            lambda **o: gradcheck(lambda x: x, X, check_batched_forward_grad=True, **o),
            AssertionError,
            "check_batched_forward_grad=True requires",
        ),
        (
            lambda **o: gradcheck(lambda x: x, gc.ones(1).double().expand(3).requires_grad_(), **o),
            RuntimeError,
            "has a dimension with stride 0",
        ),
        (lambda **o: gradgradcheck(lambda x: x, X, check_rev_over_rev=False, **o), AssertionError, "at least one of"),
    ],
)
def test_misuse(call, error, message, fast_mode):
    with pytest.raises(error, match=message):
        call(fast_mode=fast_mode)


def test_a_function_without_results_has_no_wrong_derivative(fast_mode):
    x = gc.ones(2, dtype=gc.float64, requires_grad=True)
    assert gc.autograd.gradcheck(lambda x: (), x, fast_mode=fast_mode, check_forward_ad=True)


class ReadsNumbers(gc.autograd.Function):
    """Has a backward that vmap cannot run."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 + 0 * grad.sum().item()


def test_batched_gradients_that_fail_are_an_error_of_the_check(fast_mode):
    x = gc.ones(2, dtype=gc.float64, requires_grad=True)
    options = {"check_batched_grad": True, "fast_mode": fast_mode}
    assert not gc.autograd.gradcheck(ReadsNumbers.apply, x, raise_exception=False, **options)
    with pytest.raises(GradcheckError, match="While computing batched gradients, got: "):
        gc.autograd.gradcheck(ReadsNumbers.apply, x, **options)


@pytest.mark.parametrize("result", [5, None])
def test_a_function_returns_tensors(result, fast_mode):
    x = gc.ones(2, dtype=gc.float64, requires_grad=True)
    with pytest.raises(ValueError, match="a function that returns a tensor"):
        gc.autograd.gradcheck(lambda x: result, x, fast_mode=fast_mode)


def test_inputs_are_left_as_they_were(fast_mode):
    x = real(0.5, 1.5)
    weights = real(1.0, 2.0)
    assert gradcheck(lambda *_: weights * x * x, (x, weights), fast_mode=fast_mode)  # named by the function itself
    assert x.tolist() == [0.5, 1.5]
    assert x.grad is None
    assert x._version == 0
