"""What holds for the graphs of all operations: what they keep, what they lead to, what their gradients are like."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd.op_node import OpNode
from gradcore.autograd.saved import SavedTensor
from gradcore.autograd.variables import Variable
from gradcore.ops.declare.table import OPS
from tests.ops.cases import DIFFERENTIABLE, cases

CONNECTED = [c for op in OPS.values() if op.connected for c in cases(op)]


def with_grad(case, chosen):
    return [gc.tensor(a, requires_grad=i in chosen) for i, a in enumerate(case.arrays())]


def differentiable(case, tensors):
    return [t for t in case.outputs(tensors) if t.requires_grad]


def ones_like(outs):
    return [gc.ones_like(t) for t in outs]


def nodes_of(outs):
    """All nodes of operations behind tensors."""
    seen, stack = set(), [t.grad_fn for t in outs]
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen.add(node)
            stack += [following for following, _ in node.next_functions]
    return [node for node in seen if isinstance(node, OpNode)]


def keeps_tensors(node):
    """Whether a node keeps a tensor that is no number, or a result."""
    saved = [v for i in node.holders for v in (node.saved[i] if type(node.saved[i]) is tuple else (node.saved[i],))]
    return any(isinstance(t, Variable | SavedTensor) for t in saved)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in DIFFERENTIABLE[::3]])
def test_a_second_backward_is_refused_where_something_was_kept(case):
    places = case.differentiable()
    for chosen in [places, *([i] for i in places if len(places) > 1)]:
        outs = differentiable(case, with_grad(case, set(chosen)))
        if not outs or any(not isinstance(t.grad_fn, OpNode) for t in outs):
            continue
        kept = any(keeps_tensors(node) and node.holds_tensors for node in nodes_of(outs))
        gc.autograd.backward(outs, ones_like(outs))
        if kept:
            with pytest.raises(RuntimeError, match="second time"):
                gc.autograd.backward(outs, ones_like(outs))
        else:
            gc.autograd.backward(outs, ones_like(outs))


@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in DIFFERENTIABLE[1::3]])
def test_gradients_can_be_written_to(case):
    tensors = with_grad(case, set(case.differentiable()))
    outs = differentiable(case, tensors)
    ins = [t for t in tensors if t.requires_grad]
    if not outs:
        return
    for outs_of, hook in (
        (outs, False),
        (differentiable(case, [t * 1 if t.requires_grad else t for t in tensors]), True),
    ):
        if hook and not outs_of:
            continue
        handles = [t.register_hook(lambda g: g.mul_(2)) for t in ins] if hook else []
        found = gc.autograd.grad(outs_of, ins, ones_like(outs_of), allow_unused=True)
        for handle in handles:
            handle.remove()
        for g in found:
            if g is not None and g.numel():
                expected = g.numpy().copy()
                g.mul_(2)
                np.testing.assert_array_equal(g.numpy(), 2 * expected)
                g.reshape(-1)[0] = 7
                assert (g.numpy().reshape(-1)[1:] == 2 * expected.reshape(-1)[1:]).all() or np.isnan(expected).any()


@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in CONNECTED])
def test_gradients_that_do_not_vary_with_an_input_lead_to_it(case):
    names = [case.op.names[p] for p in case.op.tensors]
    places = case.differentiable()
    for i in places:
        name = names[i] if i < len(names) else None
        tensors = with_grad(case, {i})
        outs = differentiable(case, tensors)
        if name not in case.op.connected or not outs:
            continue
        node = outs[0].grad_fn
        kept = list(node.saved)
        plain = gc.autograd.grad(outs, tensors[i], ones_like(outs), retain_graph=True)[0]
        assert not plain.requires_grad
        (first,) = gc.autograd.grad(outs, tensors[i], ones_like(outs), create_graph=True)
        assert first.requires_grad
        np.testing.assert_array_equal(first.detach().numpy(), plain.numpy())
        (second,) = gc.autograd.grad(first, tensors[i], gc.ones_like(first))
        assert second.shape == tensors[i].shape
        assert second.dtype is tensors[i].dtype
        assert not second.count_nonzero()
        formula = (case.op.vjps or case.op.differentials).get(name)
        reads = set() if formula is None else set(formula.names)
        if isinstance(node, OpNode) and node.op is case.op and name not in reads:  # connecting keeps no tensor
            assert name not in node.number_of or kept[node.number_of[name]] is None


#: Contexts in which the engine runs each node by itself, instead of by the plan of its class.
SLOW_PATHS = {
    "hooks on saved tensors": lambda: gc.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    "anomaly detection": lambda: gc.autograd.set_detect_anomaly(True),
}


@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in CONNECTED])
@pytest.mark.parametrize("context", SLOW_PATHS.values(), ids=SLOW_PATHS)
def test_both_paths_of_the_engine_build_the_same_graphs_of_gradients(case, context):
    for i in case.differentiable():
        graphs = []
        for use in (contextlib.nullcontext, context):
            with use():
                tensors = with_grad(case, {i})
                outs = differentiable(case, tensors)
                if not outs:
                    break
                order = [*gc.autograd.grad(outs, tensors[i], ones_like(outs), create_graph=True, allow_unused=True)]
                if order[0] is not None and order[0].requires_grad:
                    ones = gc.ones_like(order[0])
                    order += gc.autograd.grad(order[0], tensors[i], ones, create_graph=True, allow_unused=True)
            graphs.append([t is not None and t.requires_grad for t in order])
        assert all(graph == graphs[0] for graph in graphs)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in CONNECTED])
@pytest.mark.parametrize("outer", ["jacrev", "backward", "vmap"])
def test_gradients_of_samples_lead_to_the_input_that_they_share(case, outer):
    """`jacrev` computes a batch of gradients. The input and the result of the operation are in no batch."""
    names = [case.op.names[p] for p in case.op.tensors]
    for i in case.differentiable():

        def f(x, i=i):
            tensors = [x if j == i else gc.tensor(a) for j, a in enumerate(case.arrays())]
            return case.outputs(tensors)[0].abs() * x.sum()

        x = gc.tensor(case.arrays()[i], requires_grad=True)
        out = f(x)
        if names[min(i, len(names) - 1)] not in case.op.connected or not 0 < out.numel() * x.numel() ** 2 <= 1000:
            continue
        loops = jacobian_by_loops(out, x)
        if outer == "backward":
            found, expected = (gc.autograd.grad(j.sum(), x)[0] for j in (gc.func.jacrev(f)(x), loops))
        elif outer == "jacrev":
            found, expected = gc.func.jacrev(gc.func.jacrev(f))(x), jacobian_by_loops(loops, x)
        else:
            found, expected = gc.func.vmap(gc.func.jacrev(f))(gc.stack([x, x]))[1], loops
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in CONNECTED])
@pytest.mark.parametrize("create_graph", [False, True])
def test_connected_gradients_pass_derivatives_on_to_the_upstream_gradient(case, create_graph):
    """The derivative of ``upstream @ J`` by `upstream` is a product with `J`, which forward mode computes too."""
    names = [case.op.names[p] for p in case.op.tensors]
    for i in case.differentiable():

        def f(x, i=i):
            tensors = [x if j == i else gc.tensor(a) for j, a in enumerate(case.arrays())]
            return case.outputs(tensors)[0].abs()

        x = gc.tensor(case.arrays()[i], requires_grad=True)
        if names[min(i, len(names) - 1)] not in case.op.connected or not x.numel():
            continue
        out = f(x)
        upstream = gc.ones_like(out, requires_grad=True)
        (first,) = gc.autograd.grad(out, x, upstream, create_graph=True)
        direction = gc.cos(gc.arange(x.numel(), dtype=x.dtype)).reshape(x.shape)
        (found,) = gc.autograd.grad(first, upstream, direction, create_graph=create_graph)
        expected = gc.func.jvp(f, (x.detach(),), (direction,))[1]
        np.testing.assert_allclose(found.detach().numpy(), expected.numpy(), rtol=1e-6, atol=1e-9)


def jacobian_by_loops(out, x):
    """Compute the derivatives of `out` with respect to `x`, one element of `out` at a time."""
    units = gc.eye(out.numel(), dtype=out.dtype)
    rows = [gc.autograd.grad(out, x, e.reshape(out.shape), create_graph=True)[0] for e in units]
    return gc.stack(rows).reshape(out.shape + x.shape)


F = gc.nn.functional
#: Operations with `joint` gradients, the number of an argument in which they are linear, and the shapes of all.
JOINT = [
    (F.conv2d, 0, (1, 2, 4, 4), (3, 2, 2, 2), (3,)),
    (F.conv2d, 1, (1, 2, 4, 4), (3, 2, 2, 2), (3,)),
    (F.conv_transpose1d, 0, (1, 2, 4), (2, 3, 2), (3,)),
    (lambda x, weight, bias: F.layer_norm(x, (4,), weight, bias), 2, (3, 4), (4,), (4,)),
    (lambda x, grid: F.grid_sample(x, grid, align_corners=False), 0, (1, 1, 4, 4), (1, 2, 2, 2)),
]


@pytest.mark.parametrize(("function", "number", "shapes"), [(f, n, shapes) for f, n, *shapes in JOINT])
def test_constant_gradients_lead_to_what_pytorch_computes_them_from(function, number, shapes):
    tensors = [gc.rand(*shape, requires_grad=i == number) for i, shape in enumerate(shapes)]
    out = function(*tensors).sum()
    assert not gc.autograd.grad(out, tensors[number], retain_graph=True)[0].requires_grad
    (first,) = gc.autograd.grad(out, tensors[number], create_graph=True)
    assert first.requires_grad
    assert gc.autograd.grad(first.sum(), tensors[number], allow_unused=True) == (None,)


def test_slopes_stay_connected():
    """The gradient of a gradient of `relu` by the upstream gradient leads to the input, as in PyTorch."""
    x, upstream = gc.tensor([-1.0, 2.0], requires_grad=True), gc.ones(2, requires_grad=True)
    (first,) = gc.autograd.grad(x.relu(), x, upstream, create_graph=True)
    (second,) = gc.autograd.grad(first, upstream, gc.ones(2), create_graph=True)
    assert second.requires_grad
    assert gc.autograd.grad(second.sum(), x)[0].tolist() == [0, 0]


LAYERS = {
    "relu": lambda x: x.relu(),
    "leaky_relu": gc.nn.functional.leaky_relu,
    "hardtanh": gc.nn.functional.hardtanh,
    "max_pool1d": lambda x: gc.nn.functional.max_pool1d(x[None], 2)[0],
    "threshold": lambda x: gc.nn.functional.threshold(x, 0.1, 0.0),
    "remainder": lambda x: gc.remainder(1.3, x + 3),
    "softshrink": gc.nn.functional.softshrink,
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("mode", ["grad", "backward", "jacobian", "func"])
def test_laplacians_of_piecewise_linear_networks_are_zero(layer, mode):
    gc.manual_seed(0)
    first, second = gc.randn(4, 6, dtype=gc.float64), gc.randn(6, 4, dtype=gc.float64)
    x = gc.randn(3, 4, dtype=gc.float64, requires_grad=True)

    def net(x):
        return layer(layer(x @ first) @ second[: layer(x @ first).shape[-1]]).sum()

    if mode == "grad":
        (g,) = gc.autograd.grad(net(x), x, create_graph=True)
        (found,) = gc.autograd.grad(g.sum(), x)
    elif mode == "backward":
        (g,) = gc.autograd.grad(net(x), x, create_graph=True)
        g.sum().backward()
        found = x.grad
    elif mode == "jacobian":
        found = gc.autograd.functional.hessian(net, x)
    else:
        found = gc.func.hessian(net)(x.detach())
    if layer is not LAYERS["remainder"]:
        assert found.shape[-2:] == (3, 4)
        assert not found.count_nonzero()


def test_operations_of_all_families_are_connected():
    names = {c.op.name for c in CONNECTED}
    assert {"relu", "threshold", "prelu_kernel", "polar"} <= names
    assert len(names) > 8


@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in DIFFERENTIABLE])
def test_a_write_to_a_result_is_noticed_or_differentiated(case):
    """What a composite saves of its own steps may share the result's memory: then it shares its version too."""
    tensors = with_grad(case, set(case.differentiable()))
    ins = [t for t in tensors if t.requires_grad]
    outs = differentiable(case, tensors)
    if not outs:
        return
    expected = gc.autograd.grad(outs, ins, [2 * t for t in ones_like(outs)], allow_unused=True)
    try:
        outs = [t.mul_(2) for t in differentiable(case, tensors)]
        found = gc.autograd.grad(outs, ins, ones_like(outs), allow_unused=True)
    except RuntimeError as error:
        if "inplace operation" in str(error) or "in-place" in str(error) or "modified inplace" in str(error):
            return
        raise
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        assert a is None or gc.allclose(a, b, equal_nan=True)
