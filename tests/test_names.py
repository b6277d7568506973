"""Names beyond operations that programs for PyTorch look up: constants, flags, where modules are found."""

import importlib
import math

import numpy as np
import pytest

import gradcore as gc


def test_constants():
    assert (gc.pi, gc.e, gc.inf) == (math.pi, math.e, math.inf)
    assert math.isnan(gc.nan)
    assert gc.ones(3)[:, gc.newaxis].shape == (3, 1)


def test_conjugates_and_negatives_are_computed_at_once():
    z = gc.tensor([1 + 2j])
    assert not gc.is_conj(z.conj())
    assert not z.conj().imag.is_neg()
    assert gc.conj_physical_(z).item() == 1 - 2j


def test_memory_formats_are_accepted():
    x = gc.ones(1, 2, 3, 4, 5)
    assert x.contiguous(memory_format=gc.channels_last_3d).stride() == x.stride()


def test_handles_of_hooks_have_a_module():
    calls = {}
    handle = gc.utils.hooks.RemovableHandle(calls)
    assert calls == {}
    calls[handle.id] = "hook"
    handle.remove()
    assert calls == {}
    assert isinstance(gc.ones(1, requires_grad=True).register_hook(print), gc.utils.hooks.RemovableHandle)


def test_memory_is_exchanged_as_capsules():
    x = gc.arange(3.0)
    assert type(gc.utils.dlpack.to_dlpack(x)).__name__ == "PyCapsule"
    shared = gc.utils.dlpack.from_dlpack(np.arange(3))
    assert shared.tolist() == [0, 1, 2]


def test_the_scaler_of_mixed_precision_is_at_the_top():
    assert gc.GradScaler is gc.amp.GradScaler


@pytest.mark.parametrize(
    ("call", "plain"),
    [
        (lambda x: gc.sum(x, axis=0, keepdims=True), lambda x: gc.sum(x, 0, True)),
        (lambda x: x.split(split_size=1), lambda x: x.split(1)),
        (lambda x: gc.hsplit(x, sections=2), lambda x: gc.hsplit(x, 2)),
        (lambda x: gc.tensor_split(x, indices=(1,)), lambda x: gc.tensor_split(x, (1,))),
        (lambda x: gc.where(x > 0, input=x, other=-x), lambda x: gc.where(x > 0, x, -x)),
        (lambda x: gc.isin(x, test_element=1.0), lambda x: gc.isin(x, 1.0)),
        (lambda x: gc.linalg.det(input=x), lambda x: gc.linalg.det(A=x)),
        (lambda x: gc.linalg.lstsq(input=x, b=x)[0], lambda x: gc.linalg.lstsq(x, x)[0]),
        (lambda x: gc.linalg.tensorsolve(input=x, other=x[0]), lambda x: gc.linalg.tensorsolve(A=x, B=x[0])),
        (lambda x: x.view(dtype=gc.int32), lambda x: x.view(gc.int32)),
        (lambda x: gc.histogram(x)[0], lambda x: gc.histogram(x, 100)[0]),
        (lambda x: x.clone().uniform_(**{"from": 2.0, "to": 2.0}), lambda x: gc.full_like(x, 2.0)),
    ],
)
def test_parameters_have_pytorchs_other_names(call, plain):
    x = gc.tensor([[2.0, 1.0], [-1.0, 3.0]])
    found, expected = call(x), plain(x)
    for a, b in zip(*((v if isinstance(v, tuple) else (v,)) for v in (found, expected)), strict=True):
        assert gc.equal(a, b)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: gc.linalg.det(), r"det\(\) missing required argument: 'A'"),
        (lambda x: gc.linalg.det(x, other=x), r"det\(\) got an unexpected keyword argument 'other'"),
        (lambda x: x.view(shape=4), "unexpected keyword argument 'shape'"),
        (lambda x: x.split(), "missing"),
    ],
)
def test_parameters_of_no_known_name_are_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call(gc.ones(2, 2))


@pytest.mark.parametrize(
    ("module", "name", "cls"),
    [
        ("activation", "ReLU", gc.nn.ReLU),
        ("batchnorm", "BatchNorm2d", gc.nn.BatchNorm2d),
        ("container", "Sequential", gc.nn.Sequential),
        ("conv", "Conv2d", gc.nn.Conv2d),
        ("dropout", "Dropout", gc.nn.Dropout),
        ("instancenorm", "InstanceNorm1d", gc.nn.InstanceNorm1d),
        ("linear", "Linear", gc.nn.Linear),
        ("loss", "MSELoss", gc.nn.MSELoss),
        ("module", "Module", gc.nn.Module),
        ("normalization", "LayerNorm", gc.nn.LayerNorm),
        ("padding", "ZeroPad2d", gc.nn.ZeroPad2d),
        ("pooling", "MaxPool2d", gc.nn.MaxPool2d),
        ("rnn", "LSTM", gc.nn.LSTM),
        ("sparse", "Embedding", gc.nn.Embedding),
        ("transformer", "Transformer", gc.nn.Transformer),
        ("upsampling", "Upsample", gc.nn.Upsample),
    ],
)
def test_modules_are_found_where_pytorch_has_them(module, name, cls):
    assert getattr(importlib.import_module(f"gradcore.nn.modules.{module}"), name) is cls
    assert getattr(gc.nn.modules, name) is cls


def test_all_modules_are_in_one_module():
    assert gc.nn.modules.Conv1d is gc.nn.Conv1d
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchModule'"):
        gc.nn.modules.NoSuchModule  # noqa: B018
