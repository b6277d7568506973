"""Places in the graph by name, hooks on several tensors, versions."""

import pytest

import gradcore as gc
from gradcore.autograd.graph import (
    GradientEdge,
    get_gradient_edge,
    increment_version,
    register_multi_grad_hook,
)


def leaf(*values):
    return gc.tensor(values, requires_grad=True)


def test_an_edge_stands_for_its_tensor():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = (y * y).sum()
    edge = get_gradient_edge(y)
    assert edge == GradientEdge(y.grad_fn, 0)
    assert get_gradient_edge(x).node.variable is x
    del y
    (gradient,) = gc.autograd.grad(z, edge, retain_graph=True)
    assert gradient.tolist() == [4.0, 8.0]
    gc.autograd.backward(edge, gc.ones(2), retain_graph=True)
    assert x.grad.tolist() == [2.0, 2.0]
    z.backward(inputs=[get_gradient_edge(x)])
    assert x.grad.tolist() == [10.0, 18.0]


def test_edges_of_one_node_have_numbers():
    first, second = gc.ones(2, 3, requires_grad=True).unbind()
    assert get_gradient_edge(second) == (first.grad_fn, 1, None)


def test_what_needs_no_gradient_has_no_edge():
    with pytest.raises(RuntimeError, match="does not require gradients"):
        get_gradient_edge(gc.ones(1))


def test_all_gradients_of_a_backward_come_together():
    a, b, c = leaf(1.0), leaf(2.0), leaf(3.0)
    seen = []
    handle = register_multi_grad_hook((a, b, c), lambda grads: seen.append([g and g.item() for g in grads]))
    (a * b).backward()
    (a * b * c).backward()
    gc.autograd.grad(a * b * c, b)
    (a * b * c).backward(inputs=[a, c])
    handle.remove()
    (a * b).backward()
    assert seen == [[2.0, 1.0, None], [6.0, 3.0, 2.0], [None, 3.0, None], [6.0, None, 2.0]]


def test_the_first_gradient_comes_alone():
    a, b = leaf(1.0), leaf(2.0)
    y = a * b
    seen = []
    with register_multi_grad_hook((a, y, b), lambda grad: seen.append(grad.item()), mode="any"):
        (y * 5).backward(retain_graph=True)
        (y * 7).backward(retain_graph=True)
    (y * 9).backward()
    assert seen == [5.0, 7.0]


def test_tensors_that_this_backward_does_not_reach_are_not_waited_for():
    a, b, unused = leaf(1.0), leaf(2.0), leaf(3.0)
    seen = []
    with register_multi_grad_hook((a, b, unused), seen.append):
        (a * b).backward(inputs=[a, b, unused])
    assert [[g and g.item() for g in grads] for grads in seen] == [[2.0, 1.0, None]]


def test_misuse_of_multi_hooks():
    with pytest.raises(ValueError, match=r"Expects mode to be one of \('all', 'any'\) but got both"):
        register_multi_grad_hook((leaf(1.0),), print, mode="both")
    with pytest.raises(RuntimeError, match="does not require gradients"):
        register_multi_grad_hook((gc.ones(1),), print)


def test_versions_can_be_raised_by_hand():
    x = leaf(1.0, 2.0)
    y = x.exp()
    increment_version(y)
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0 instead"):
        y.sum().backward()
    increment_version([y, y.view(2)])
    assert y._version == 3
