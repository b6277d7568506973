"""Anomaly detection: nan and errors in backward are traced to the line that recorded the operation."""

import warnings

import pytest

import gradcore as gc
from gradcore.autograd import Function, detect_anomaly, set_detect_anomaly


@pytest.fixture
def anomaly():
    """Anomaly detection, switched on without its warning."""
    with set_detect_anomaly(True):
        yield


class Failing(Function):
    """Fails in backward."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("on purpose")


def root_of(x):
    return x.sqrt()


def test_it_says_that_it_costs_time():
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"), detect_anomaly(check_nan=False):
        assert (gc.is_anomaly_enabled(), gc.is_anomaly_check_nan_enabled()) == (True, False)
    assert (gc.is_anomaly_enabled(), gc.is_anomaly_check_nan_enabled()) == (False, True)


def test_it_can_be_switched_by_a_call():
    set_detect_anomaly(True)
    try:
        with set_detect_anomaly(False):
            assert not gc.is_anomaly_enabled()
        assert gc.is_anomaly_enabled()
    finally:
        set_detect_anomaly(False)


def test_nan_is_an_error_that_names_the_operation_and_its_line(anomaly):
    x = gc.tensor([1.0, 0.0], requires_grad=True)
    y = root_of(x) * 0
    with (
        pytest.warns(UserWarning, match="Error detected in SqrtBackward0") as warned,
        pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"),
    ):
        y.sum().backward()
    text = str(warned[0].message)
    assert "Traceback of forward call that caused the error" in text
    assert "return x.sqrt()" in text
    assert "in root_of" in text
    assert text.rstrip().endswith("return x.sqrt()")


def notes_of(function):
    with pytest.warns(UserWarning, match="Error detected"), pytest.raises(RuntimeError, match="nan values") as caught:
        function()
    return "\n".join(caught.value.__notes__)


def test_the_error_explains_a_derivative_that_is_not_finite(anomaly):
    x = gc.tensor([1.0, 0.0, 0.0], requires_grad=True)
    y = (root_of(x) * 0).sum()
    text = notes_of(y.backward)
    assert text.startswith(f"SqrtBackward0, recorded at {__file__}:")
    assert " in root_of\n    return x.sqrt()\n  (float32[3]) -> (float32[3])\n" in text
    assert "The gradient for input 0 is nan at index (1,), and 1 more elements are not finite." in text
    assert "The gradient that arrived was finite: the derivative itself is not, at these inputs." in text
    assert "All values that were recorded before were finite." in text


def test_the_error_explains_which_value_was_not_finite_first(anomaly):
    x = gc.tensor([1.0, 0.0], requires_grad=True)
    y = x.log()
    z = (root_of(y * 2) + 1).sum()
    text = notes_of(z.backward)
    assert "The first value that was not finite is the result of\nLogBackward0, recorded at" in text
    assert "    y = x.log()\n" in text
    assert text.endswith("whose inputs were finite.")


def test_the_error_explains_which_gradient_was_not_finite_first(anomaly):
    x = gc.tensor([0.0, 1.0], requires_grad=True)
    y = root_of(x * 0)  # its gradient is infinite, and times 0 nan
    text = notes_of(y.sum().backward)
    assert text.startswith("MulBackward0")
    assert "The gradient that arrived was not finite either: inf at index (0,)" in text
    assert "The first gradient that was not finite is that for input 0 of\nSqrtBackward0, recorded at" in text


def test_explain_names_the_first_value_that_was_not_finite(anomaly):
    x = gc.tensor([2.0, 0.0], requires_grad=True)
    h = x / gc.tensor([1.0, 0.0])
    loss = (h * 2).sum() + x.sum()
    text = gc.autograd.explain(loss)
    assert text.startswith("The first value that was not finite is the result of\nDivBackward0, recorded at ")
    assert "h = x / gc.tensor([1.0, 0.0])" in text
    assert "(float32[2], float32[2]) -> (float32[2])" in text
    assert "All results that were recorded under anomaly detection were finite." in gc.autograd.explain(x.sum())
    assert "Nothing was recorded" in gc.autograd.explain(x)


@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16, gc.float32, gc.float64, gc.complex64])
def test_explain_tells_inputs_that_were_not_finite_already(dtype, anomaly):
    x = gc.tensor([1.0, float("inf")]).to(dtype).requires_grad_()
    assert "whose input 0 was not finite: it was made before, or is not recorded." in gc.autograd.explain(x * 2)
    large = gc.full((4,), 60000.0).to(dtype).requires_grad_()  # their sum is too large for float16, they are not
    assert "were finite" in gc.autograd.explain(large * 1)


def test_custom_functions_and_mixed_dtypes_are_explained(anomaly):
    class Logarithm(Function):
        @staticmethod
        def forward(ctx, x):
            return x.log()

    x = gc.zeros(2, requires_grad=True)
    assert "LogarithmBackward, recorded at" in gc.autograd.explain(Logarithm.apply(x).double() * 2)
    y = gc.zeros(2, dtype=gc.float64, requires_grad=True)
    z = x + y
    assert "traceback_" in z.grad_fn.metadata


def test_the_traceback_of_a_node_is_a_sequence_of_lines(anomaly):
    y = gc.ones(2, requires_grad=True).sqrt()
    trace = y.grad_fn.metadata["traceback_"]
    assert len(trace) == len(list(trace))
    assert trace[-1].endswith("y = gc.ones(2, requires_grad=True).sqrt()\n")
    assert trace[-1] in trace
    assert trace == list(trace)
    assert repr(trace) == repr(list(trace))


def test_nan_passes_where_it_is_not_checked():
    with set_detect_anomaly(True, check_nan=False):
        x = gc.zeros(1, requires_grad=True)
        (x.sqrt() * 0).backward()
    assert x.grad.isnan().all()


def test_errors_of_custom_operations_are_traced(anomaly):
    y = Failing.apply(gc.ones(1, requires_grad=True))
    with (
        pytest.warns(UserWarning, match=r"Error detected in FailingBackward(?s:.*)y = Failing.apply"),
        pytest.raises(ValueError, match="on purpose"),
    ):
        y.backward()


def test_forward_outside_leaves_no_trace():
    y = Failing.apply(gc.ones(1, requires_grad=True))
    assert y.grad_fn.metadata == {}
    with (
        set_detect_anomaly(True),
        pytest.warns(UserWarning, match="No forward pass information available"),
        pytest.raises(ValueError, match="on purpose"),
    ):
        y.backward()


def test_an_operation_recorded_in_backward_names_what_led_to_it(anomaly):
    x = gc.zeros(1, requires_grad=True)
    y = (x.abs() ** 1.5).sum()
    (gradient,) = gc.autograd.grad(y, x, create_graph=True)
    total = (gradient * 0).sum()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError, match="returned nan values"):
            total.backward()
    text = "".join(str(w.message) for w in warned)
    assert "Previous calculation was induced by" in text
    assert "y = (x.abs() ** 1.5).sum()" in text


def test_saved_hooks_and_moves_are_traced_too(anomaly):
    x = gc.zeros(1, requires_grad=True)
    with gc.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x.sqrt()
    assert "".join(y.grad_fn.metadata["traceback_"]).rstrip().endswith("y = x.sqrt()")
    assert "traceback_" in x.double().grad_fn.metadata


FAILURES = {
    "nan": lambda x: (x.sqrt() * 0).sum(),
    "written": lambda x: ((y := x.exp()).add_(1), y.sum())[1],
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_the_error_comes_also_where_warnings_are_errors(failure):
    x = gc.zeros(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with gc.autograd.detect_anomaly():
            loss = failure(x)
        warnings.simplefilter("error")
        message = r"nan values|modified by an inplace operation"
        with gc.autograd.set_detect_anomaly(True), pytest.raises(RuntimeError, match=message) as caught:
            loss.backward()
    assert any("Traceback of forward call" in note for note in caught.value.__notes__)
