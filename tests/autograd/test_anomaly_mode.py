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
