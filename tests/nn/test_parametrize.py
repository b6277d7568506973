"""Parametrizations of users' own: what may be stored, and what is refused."""

import pickle
import re

import pytest

import gradcore as gc
from gradcore import nn
from gradcore.nn.utils import parametrize


def _by(forward, right_inverse=None):
    """Return a parametrization with these two functions."""
    body = {"forward": lambda self, *x: forward(*x)}
    if right_inverse is not None:
        body["right_inverse"] = lambda self, x: right_inverse(x)
    return type("Parametrization", (nn.Module,), body)()


def _same(x):
    return x


def _halves(x):
    return x / 2, x / 2


def _parametrized(*functions, **settings):
    layer = nn.Linear(2, 3)
    for function in functions:
        parametrize.register_parametrization(layer, "weight", function, **settings)
    return layer


def test_a_tensor_made_of_two_others():
    layer = nn.Linear(2, 3)
    weight = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", _by(gc.add, _halves))
    assert sorted(layer.state_dict()) == [
        "bias", "parametrizations.weight.original0", "parametrizations.weight.original1"
    ]  # fmt: skip
    assert gc.equal(layer.weight, weight)
    layer.weight = gc.ones(3, 2)
    assert layer.parametrizations.weight.original1.unique().tolist() == [0.5]
    layer.weight.sum().backward()
    assert layer.parametrizations.weight.original0.grad.unique().tolist() == [1.0]
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert isinstance(layer.weight, nn.Parameter)
    assert layer.weight.unique().tolist() == [1.0]


def test_inside_cached_a_tensor_is_computed_once():
    calls = []
    layer = _parametrized(_by(lambda x: calls.append(0) or x))
    calls.clear()
    with parametrize.cached():
        first = layer.weight
        with parametrize.cached():
            assert layer.weight is first
    assert len(calls) == 1
    assert layer.weight is layer.parametrizations.weight.original
    assert len(calls) == 2


@pytest.mark.parametrize("functions", [(gc.neg, gc.neg), (gc.add, _halves)])
def test_transferred_parametrizations_share_what_is_stored(functions):
    source, target = _parametrized(_by(*functions)), nn.Linear(2, 3)
    parametrize.transfer_parametrizations_and_params(source, target)
    assert gc.equal(source.weight, target.weight)
    stored = [name for name in source.state_dict() if name != "bias"]
    assert all(source.get_parameter(name) is target.get_parameter(name) for name in stored)
    plain = nn.Linear(2, 3)
    assert parametrize.transfer_parametrizations_and_params(plain, target) is target


CHANGED = "Registering a parametrization may not change the {} of the tensor, unless {} flag is enabled."


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ([_by(gc.Tensor.double)], CHANGED.format("dtype", "`unsafe`") + "\nunparametrized dtype: torch.float32\n"),
        ([_by(lambda x: x[0])], CHANGED.format("shape", "`unsafe`") + "\nunparametrized shape: torch.Size([3, 2])\n"),
        ([_by(_same, gc.Tensor.double)], "may not change the dtype.\noriginal.dtype: torch.float32\nright_inverse("),
        ([_by(_same, lambda x: 3)], "'right_inverse' must return a Tensor or a Sequence of tensors"),
        ([_by(_same, lambda x: [3])], "Got element 0 of the sequence with type int."),
        ([_by(lambda x: 3)], "A parametrization must return a tensor. Got int."),
        ([_by(_same), _by(gc.Tensor.double)], CHANGED.format("dtype", "the `unsafe`") + "\nmodule.weight.dtype: torch"),
        ([_by(_same), _by(lambda x: x[0])], "\nparametrization(module.weight).shape: torch.Size([2])"),
        ([_by(_same), _by(_same, lambda x: x[0])], "right_inverse must have the same shape as module.weight, unless"),
        ([_by(_same), _by(_same, lambda x: 3)], "parametrization.right_inverse must return a tensor. Got: int"),
    ],
)  # fmt: skip
def test_changes_are_refused(functions, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        _parametrized(*functions)


def test_unsafe_parametrizations_may_change_everything():
    layer = _parametrized(_by(lambda x: x[0].double()), _by(lambda x: x[0]), unsafe=True)
    assert layer.weight.shape == ()
    assert layer.weight.dtype is gc.float64


@pytest.mark.parametrize(
    ("before", "after", "error", "message"),
    [
        (_same, gc.Tensor.double, ValueError, "has dtype torch.float64 while `original` has dtype torch.float32"),
        (_same, lambda x: 3, ValueError, "`right_inverse` should return a tensor. Got int"),
        (_halves, lambda x: [x], ValueError, "a sequence of tensors of length 2. Got a sequence of length 1."),
        (None, None, RuntimeError, "parametrization Parametrization does not implement right_inverse."),
    ],
)
def test_values_that_cannot_be_stored(before, after, error, message):
    inverse = [before]
    function = _by(lambda *x: sum(x), before and (lambda x: inverse[0](x)))
    layer = _parametrized(function)
    inverse[0] = after
    with pytest.raises(error, match=re.escape(message)):
        layer.weight = gc.zeros(3, 2)


def test_misuse():
    with pytest.raises(ValueError, match="requires one or more modules"):
        parametrize.ParametrizationList([], gc.zeros(2))
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(nn.Linear(2, 3), "weight")
    layer = _parametrized(_by(gc.add, _halves))
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(layer)
