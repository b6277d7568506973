"""Views of tensors without dims, and of their parts: gradients of parts are added where there is memory to add to."""

import itertools

import numpy as np
import pytest

import gradcore as gc

VIEWS = {
    "ellipsis": lambda t: t[...],
    "empty key": lambda t: t[()],
    "new dim behind": lambda t: t[..., None],
    "new dim in front": lambda t: t[None, ...],
    "new dim": lambda t: t[None],
    "narrowed": lambda t: t[None].narrow(0, 0, 1),
    "selected": lambda t: t[None].select(0, 0),
    "sliced": lambda t: t[None][0:1],
    "unbound": lambda t: t[None].unbind(0)[0],
    "reshaped": lambda t: t.reshape(1),
    "expanded": lambda t: t.expand(3),
    "flat": lambda t: t.flatten(),
}
USES = {"exp": lambda t: t.exp(), "itself": lambda t: t, "square": lambda t: t * t, "twice": lambda t: t * 2}


@pytest.mark.parametrize("scalar", [True, False], ids=["0-dim", "one element"])
@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(VIEWS, 2)))
def test_gradients_of_a_number_and_of_its_views_are_added(first, second, scalar):
    def function(x):
        x = x if scalar else x.sum()
        a, b = VIEWS[first](x), VIEWS[second](x)
        result = x.exp()
        for (_, use), t in zip(USES.items(), (a, b, a, x), strict=True):
            result = result * use(t).sum()
        return result

    x = gc.tensor(0.5 if scalar else [0.5], dtype=gc.float64, requires_grad=True)
    function(x).backward()
    step = 1e-6
    with gc.no_grad():
        expected = (function(x + step) - function(x - step)) / (2 * step)
    np.testing.assert_allclose(x.grad.numpy().reshape(()), expected.numpy(), rtol=1e-7)


@pytest.mark.parametrize("op", ["std_mean", "var_mean"])
@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0], [1.0, float("inf")], [2.0, 2.0]])
@pytest.mark.parametrize("correction", [0, 1, 3])
@pytest.mark.parametrize("which", [0, 1])
def test_moments_have_the_gradients_that_they_have_alone(op, values, correction, which):
    x = gc.tensor(values, dtype=gc.float64, requires_grad=True)
    both = getattr(gc, op)(x, correction=correction)
    alone = (getattr(gc, op[:3])(x, correction=correction), x.mean())
    (found,) = gc.autograd.grad(both[which], x, create_graph=True)
    (expected,) = gc.autograd.grad(alone[which], x, create_graph=True)
    np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())
    assert found.requires_grad is expected.requires_grad


@pytest.mark.parametrize("dtype", [gc.complex64, gc.complex128])
@pytest.mark.parametrize("use", [lambda z: z.expand(2), lambda z: z * gc.tensor([1j, 2.0]), lambda z: gc.stack([z, z])])
def test_gradients_of_pairs_taken_for_one_complex_number(dtype, use):
    pair = gc.tensor([1.0, 2.0], dtype=gc.view_as_real(gc.zeros(1, dtype=dtype)).dtype, requires_grad=True)
    upstream = gc.tensor([1 + 3j, 2 - 5j], dtype=dtype)
    z = gc.view_as_complex(pair)
    alone = z.detach().requires_grad_()
    (expected,) = gc.autograd.grad(use(alone), alone, upstream)
    for _ in range(5):
        (found,) = gc.autograd.grad(use(gc.view_as_complex(pair)), pair, upstream)
        assert found.tolist() == [expected.real.item(), expected.imag.item()]
    _, tangent = gc.func.jvp(gc.view_as_real, (alone.detach(),), (upstream[0],))
    assert tangent.tolist() == [1.0, 3.0]
