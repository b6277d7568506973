"""What PyTorch refuses, gradcore refuses with the same kind of error, in the same words."""

import importlib
import io
import re

import numpy as np
import pytest

import gradcore as gc

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle

NUMBERS = [
    "xp.tensor(300, dtype=xp.uint8)",
    "xp.tensor([-300], dtype=xp.uint8)",
    "xp.tensor([-1.0], dtype=xp.uint8)",
    "xp.tensor([[1, 2**40]], dtype=xp.int16)",
    "xp.tensor([float('nan')], dtype=xp.int64)",
    "xp.tensor(1e20, dtype=xp.int64)",
    "xp.tensor(2**70)",
    "xp.tensor([np.int64(300)], dtype=xp.uint8)",
    "xp.as_tensor([300], dtype=xp.uint8)",
    "xp.ones(2, dtype=xp.uint8).new_tensor([300])",
    "xp.tensor(np.array(['a']))",
    "xp.tensor([1, 'a'])",
    "xp.full((2,), 300, dtype=xp.uint8)",
    "xp.full((2,), -256, dtype=xp.uint8)",
    "xp.full((2,), float('nan'), dtype=xp.int64)",
    "xp.full((2,), 1e300, dtype=xp.float32)",
    "xp.full_like(xp.ones(2, dtype=xp.int8), 300)",
    "xp.ones(2, dtype=xp.uint8).fill_(300)",
    "xp.ones(2).half().fill_(1e6)",
    "xp.ones(2, dtype=xp.uint8).masked_fill(xp.ones(2) > 0, 300)",
    "xp.ones(2, dtype=xp.uint8).scatter(0, xp.tensor([0]), 300)",
    "xp.ones(2, dtype=xp.uint8).index_fill(0, xp.tensor([0]), 300)",
    "xp.ones(2, dtype=xp.uint8).__setitem__(0, 300)",
    "xp.ones(2, dtype=xp.uint8).__setitem__(xp.tensor([0]), 300)",
    "xp.ones(2).long().__setitem__(xp.tensor([0]), float('nan'))",
    "xp.randint(0, 300, (3,), dtype=xp.uint8)",
    "xp.randint(-5, 5, (3,), dtype=xp.uint8)",
    "xp.randint(0, 5, (3,), dtype=xp.bool)",
    "xp.ones(2, dtype=xp.int8).random_(300)",
    "xp.randperm(300, dtype=xp.uint8)",
]

INTEGERS = [
    "F.batch_norm(xp.arange(6).reshape(2, 3), None, None, training=True)",
    "F.group_norm(xp.arange(8).reshape(2, 4), 2)",
    "F.layer_norm(xp.arange(6).reshape(2, 3), (3,))",
    "F.mse_loss(xp.arange(3), xp.arange(3))",
    "F.smooth_l1_loss(xp.arange(3), xp.arange(3))",
    "F.huber_loss(xp.arange(3), xp.arange(3))",
    "xp.poisson(xp.tensor([1]))",
    "xp.bernoulli(xp.tensor([1]))",
]

OTHERS = [
    "D.HalfNormal(xp.tensor([-1.0]))",
    "D.HalfCauchy(xp.tensor([-1.0]))",
    "D.Chi2(xp.tensor([-1.0]))",
    "nn.RNNCell(2, 3)(xp.ones(1, 2), xp.ones(2, 3))",
    "nn.RNNCell(2, 3)(xp.ones(1, 3))",
    "nn.GRUCell(2, 3)(xp.ones(2, 2), xp.ones(1, 3))",
    "nn.GRUCell(2, 3)(xp.ones(2, 2), xp.ones(2, 4))",
    "nn.LSTMCell(2, 3)(xp.ones(2, 2), (xp.ones(2, 3), xp.ones(1, 3)))",
    "xp.normal(xp.ones(2), xp.ones(3))",
    "xp.ones(2).geometric_()",
    "xp.ones(2).index_put_((xp.tensor([0]),), 3)",
    "xp.ones(2).index_put_(xp.tensor([0]), xp.ones(1))",
    *(f"xp.func.vmap(xp.sin, in_dims={dims})(xp.ones(2, 2))" for dims in ("True", "False", "(True,)")),
    "xp.load('/nonexistent/file')",
    "xp.save(xp.ones(2), '/nonexistent/file')",
    "xp.save(xp.ones(2), 3)",
]


def error(xp, expression):
    names = {"xp": xp, "nn": xp.nn, "F": xp.nn.functional, "np": np}
    with pytest.raises(Exception) as raised:
        eval(expression, names | {"D": importlib.import_module(f"{xp.__name__}.distributions")})
    return raised


@pytest.mark.parametrize("expression", [*NUMBERS, *INTEGERS, *OTHERS])
def test_misuse_is_refused_in_the_same_words(expression):
    theirs, ours = error(torch, expression), error(gc, expression)
    assert issubclass(ours.type, theirs.type)
    assert re.sub(r"\s+", " ", str(ours.value)) == re.sub(r"\s+", " ", str(theirs.value))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_integers_are_not_interpolated(mode):
    for xp in (torch, gc):
        with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
            xp.nn.functional.interpolate(xp.arange(4).reshape(1, 1, 2, 2), size=4, mode=mode)


@pytest.mark.parametrize(
    "expression",
    [
        "xp.tensor([-1, -255], dtype=xp.uint8)",
        "xp.tensor(np.array([300]), dtype=xp.uint8)",
        "xp.tensor([1.7], dtype=xp.int64)",
        "xp.full((2,), -1, dtype=xp.uint8)",
        "xp.full((2,), 1 + 0j, dtype=xp.float32)",
        "xp.full((2,), float('inf'), dtype=xp.float16)",
        "xp.ones(2).half().fill_(float('inf'))",
        "xp.ones(2).masked_fill(xp.ones(2) > 0, -float('inf'))",
    ],
)
def test_numbers_that_fit_are_written(expression):
    theirs, ours = (eval(expression, {"xp": xp, "np": np}) for xp in (torch, gc))
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("file", [3, b"abc"])
def test_load_wants_a_path_or_a_file(file):
    for xp in (torch, gc):
        with pytest.raises(AttributeError, match="object has no attribute 'seek'"):
            xp.load(file)


def test_an_empty_file_is_told_apart():
    for xp in (torch, gc):
        with pytest.raises(EOFError):
            xp.load(io.BytesIO())
