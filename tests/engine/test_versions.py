"""Versions: what the error says about a saved value that was overwritten."""

import re

import pytest

import gradcore as gc


def result(*shape):
    return gc.ones(shape or (2,)).requires_grad_() * 1


def said(y):
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        y.sum().backward()
    text = str(caught.value)
    return re.search(r"operation: (.*) is at version (\d+); expected version (\d+) instead", text).groups()


def written(t, times):
    for _ in range(times):
        t.add_(1)


@pytest.mark.parametrize("before", [0, 1, 5, 100])
@pytest.mark.parametrize("after", [1, 2, 20])
def test_versions_of_inputs_are_exact(before, after):
    weights = gc.ones(2)
    written(weights, before)
    y = result() * weights
    written(weights, after)
    assert said(y) == ("[torch.FloatTensor [2]]", str(before + after), str(before))


@pytest.mark.parametrize("after", [1, 3])
def test_versions_of_outputs_are_exact(after):
    y = result(2, 3).exp()
    written(y, after)
    assert said(y) == ("[torch.FloatTensor [2, 3]], which is output 0 of Exp,", str(after), "0")


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (gc.float16, "torch.HalfTensor"),
        (gc.float64, "torch.DoubleTensor"),
        (gc.bfloat16, "CPUBFloat16Type"),
        (gc.complex64, "CPUComplexFloatType"),
        (gc.complex128, "CPUComplexDoubleType"),
    ],
)
def test_dtypes_have_the_names_that_pytorch_gives_them(dtype, name):
    y = gc.ones(2, dtype=dtype, requires_grad=True) * 1
    z = y * y
    with gc.no_grad():
        written(y, 1)
    with pytest.raises(RuntimeError, match=re.escape(f"[{name} [2]]")):
        z.backward(gc.ones_like(z))


SOURCES = {
    "Mul": lambda: result(),
    "Sum1": lambda: result(2, 2).sum(0),
    "Softmax": lambda: result().softmax(0),
    "Max": lambda: result(2, 2).max(0).values,
}


@pytest.mark.parametrize(("name", "make"), SOURCES.items(), ids=SOURCES)
def test_the_operation_that_made_the_value_is_named(name, make):
    t = make()
    y = t.sin()
    with gc.no_grad():
        written(t, 1)
    assert said(y)[0].endswith(f", which is output 0 of {name},")


def test_indices_and_masks_are_saved_values_too():
    rows = gc.tensor([0, 1])
    y = result()[rows]
    rows.sub_(1)
    assert said(y) == ("[torch.LongTensor [2]]", "1", "0")


@pytest.mark.filterwarnings("ignore:Error detected in")
def test_the_hint_depends_on_anomaly_detection():
    y = result().exp()
    written(y, 1)
    with pytest.raises(RuntimeError, match="Hint: enable anomaly detection to find the operation that failed"):
        y.sum().backward()
    with gc.autograd.set_detect_anomaly(True):
        y = result().exp()
        written(y, 1)
        with pytest.raises(RuntimeError, match=r"Hint: the backtrace further above shows the operation(.*)Good luck!"):
            y.sum().backward()


def test_versions_can_be_kept_and_raised():
    x = gc.ones(2)
    written(x, 2)
    with gc.autograd._unsafe_preserve_version_counter(x):
        written(x, 3)
    assert x._version == 2
    with gc.autograd._unsafe_preserve_version_counter((x, gc.ones(1))):
        x.zero_()
    assert x._version == 2
    gc.autograd.graph.increment_version([x, x])
    assert x._version == 4
    with pytest.raises(RuntimeError, match="expect a Iterable"):
        gc.autograd.graph.increment_version(5)
    with pytest.raises(RuntimeError, match="each element of the iterable to be a tensor"):
        gc.autograd.graph.increment_version([x, 5])


def test_a_hidden_write_is_not_noticed():
    x = result()
    y = x * x
    with gc.autograd._unsafe_preserve_version_counter(x), gc.no_grad():
        x.mul_(1)
    y.sum().backward()
