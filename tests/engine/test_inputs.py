"""Backward for certain inputs: what it runs, what it leaves alone, and what it finds."""

import re
import warnings

import pytest

import gradcore as gc
from gradcore.autograd import Function
from gradcore.autograd.graph import get_gradient_edge


def leaf(*values):
    return gc.tensor(values or (1.0, 2.0), requires_grad=True)


class Refusing(Function):
    """The identity, without a backward."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise AssertionError("this node leads to none of the inputs")


def note_hooks(t, seen):
    """Hooks of all kinds on a result and its node that note their names."""
    t.register_hook(lambda grad: seen.append("tensor"))
    t.grad_fn.register_prehook(lambda grads: seen.append("pre"))
    t.grad_fn.register_hook(lambda inputs, outputs: seen.append("post"))


def test_backward_runs_the_nodes_of_inputs_that_are_results():
    x, seen = leaf(), []
    y = x * 2
    note_hooks(y, seen)
    (y * 3).sum().backward(inputs=[y], retain_graph=True)
    assert (seen, x.grad, y.grad.tolist()) == (["tensor", "pre", "post"], None, [3.0, 3.0])


def test_grad_does_not_run_the_nodes_of_its_inputs():
    y, seen = leaf() * 2, []
    note_hooks(y, seen)
    gc.autograd.grad((y * 3).sum(), y)
    assert seen == ["tensor"]


def test_inputs_that_are_results_retain_their_gradients():
    y = leaf() * 2
    loss = (y * 3).sum()
    loss.backward(inputs=[y], retain_graph=True)
    assert y.retains_grad
    loss.backward(retain_graph=True)
    loss.backward(inputs=[get_gradient_edge(y)])
    assert y.grad.tolist() == [9.0, 9.0]


def test_edges_as_inputs_do_not_retain():
    y = leaf() * 2
    (y * 3).sum().backward(inputs=[get_gradient_edge(y)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (y.retains_grad, y.grad) == (False, None)


def test_roots_that_lead_to_no_input_are_left_alone():
    x, y = leaf(), leaf()
    apart = Refusing.apply(x * 2).sum()
    assert gc.autograd.grad(apart, y, allow_unused=True) == (None,)
    assert gc.autograd.grad([apart, (y * 2).sum()], y)[0].tolist() == [2.0, 2.0]
    gc.autograd.backward(apart, inputs=[y])
    assert (x.grad, y.grad) == (None, None)


@pytest.mark.parametrize("recorded", [False, True])
def test_zeros_for_unused_inputs_can_be_differentiated_like_the_others(recorded):
    x, unused = leaf(), leaf()
    found = gc.autograd.grad((x * x).sum(), (x, unused), create_graph=recorded, materialize_grads=True)
    assert [g.requires_grad for g in found] == [recorded] * 2
    if recorded:
        assert gc.autograd.grad(found[1].sum(), x, materialize_grads=True)[0].tolist() == [0.0, 0.0]


def test_outputs_are_looked_at_before_inputs():
    constant = gc.ones(2)
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        gc.autograd.grad(constant.sum(), constant)


@pytest.mark.parametrize(("shape", "output"), [((3, 3), "[2]"), ((3, 1), "[]")])
def test_batches_of_gradients_that_do_not_fit(shape, output):
    x = leaf()
    out = x * 2 if output == "[2]" else x.sum()
    message = re.escape(f"has a shape of torch.Size([{shape[1]}]) and output[0] has a shape of torch.Size({output}).")
    with pytest.raises(RuntimeError, match=f"(?s)If `is_grads_batched=True`, we interpret.*{message}"):
        gc.autograd.grad(out, x, gc.ones(*shape), is_grads_batched=True)
