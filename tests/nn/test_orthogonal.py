"""Weights that stay orthogonal."""

import pytest

import gradcore as gc
from gradcore import nn
from gradcore.nn.utils.parametrizations import orthogonal

MAPS = ["matrix_exp", "cayley", "householder"]


def _is_orthogonal(weight):
    small = weight @ weight.mH if weight.shape[-2] < weight.shape[-1] else weight.mH @ weight
    return gc.allclose(small, gc.eye(small.shape[-1], dtype=small.dtype), atol=1e-5)


@pytest.mark.parametrize("trivialized", [True, False])
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_weights_stay_orthogonal_in_training(shape, name, trivialized):
    gc.manual_seed(0)
    layer = orthogonal(nn.Linear(*shape, bias=False), orthogonal_map=name, use_trivialization=trivialized)
    before = layer.weight.detach()
    assert _is_orthogonal(before)
    layer(gc.randn(7, shape[0])).sin().sum().backward()
    gc.optim.SGD(layer.parameters(), lr=0.5).step()
    assert _is_orthogonal(layer.weight)
    assert not gc.allclose(layer.weight, before)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (2, 4, 3)])
def test_orthogonal_matrices_can_be_assigned(shape, name):
    layer = nn.Module()
    layer.weight = nn.Parameter(gc.randn(*shape))
    orthogonal(layer, orthogonal_map=name)
    wanted = gc.linalg.svd(gc.randn(*shape), full_matrices=False)
    wanted = wanted.U @ wanted.Vh
    layer.weight = wanted
    assert gc.allclose(layer.weight, wanted, atol=1e-5)


@pytest.mark.parametrize("name", MAPS[:2])
def test_complex_matrices_are_unitary(name):
    layer = orthogonal(nn.Linear(4, 3, dtype=gc.complex128), orthogonal_map=name)
    assert _is_orthogonal(layer.weight)


@pytest.mark.parametrize("name", MAPS)
def test_derivatives(name):
    layer = nn.Module()
    layer.weight = nn.Parameter(gc.randn(4, 2, dtype=gc.float64))
    orthogonal(layer, orthogonal_map=name)
    free = layer.parametrizations.weight
    point = (gc.randn(4, 2, dtype=gc.float64) + free.original.detach()).requires_grad_()
    if name == "householder":  # whose diagonal has signs, as integers
        point = (point.detach().tril(-1) - gc.eye(4, 2, dtype=gc.float64)).requires_grad_()
        assert gc.autograd.gradcheck(lambda x: free[0](x.tril(-1) - gc.eye(4, 2, dtype=gc.float64)), point)
    else:
        assert gc.autograd.gradcheck(free[0], point)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: orthogonal(nn.Linear(2, 2), "bias"), ValueError, "Got a tensor of 1 dimensions"),
        (lambda: orthogonal(nn.Linear(2, 2), "b"), ValueError, "has no parameter or buffer with name 'b'"),
        (lambda: orthogonal(nn.Linear(2, 2), orthogonal_map="x"), ValueError, "Got: x"),
        (
            lambda: orthogonal(nn.Linear(2, 2, dtype=gc.complex64), orthogonal_map="householder"),
            ValueError,
            "does not support complex",
        ),
        (
            lambda: setattr(orthogonal(nn.Linear(2, 2), use_trivialization=False), "weight", gc.eye(2)),
            NotImplementedError,
            "not possible to assign",
        ),
        (lambda: setattr(orthogonal(nn.Linear(2, 2)), "weight", gc.eye(3)), ValueError, "Expected a matrix or batch"),
    ],
)
def test_misuse(call, error, message):
    with pytest.raises(error, match=message):
        call()
