"""Nodes of random numbers have PyTorch's names."""

import pytest

import gradcore as gc
from tests.autograd.test_random_numbers import DRAWN, WRITTEN

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("draw", [lambda t, p: t.bernoulli(p), lambda t, p: t.normal(p, p), lambda t, p: t.poisson(p)])
def test_drawn(draw):
    names = [draw(lib, lib.tensor([0.5], requires_grad=True)).grad_fn.name() for lib in (gc, torch)]
    assert names[0] == names[1]
    assert names[0] in DRAWN


@pytest.mark.parametrize("name", WRITTEN)
def test_written(name):
    x, p = torch.ones(2, requires_grad=True) * 1, torch.tensor([0.2, 0.7], requires_grad=True)
    assert WRITTEN[name](x, p).grad_fn.name() == name
