"""Nodes as the user sees them: names, edges, hooks, calls by hand."""

import pytest

import gradcore as gc
from gradcore.autograd.graph import get_gradient_edge


def leaf(*shape):
    return gc.ones(shape or (3,)).requires_grad_()


def index(*numbers):
    return gc.tensor(numbers)


#: Operations of a leaf, and their edges: True where one leads to the leaf, None where it leads nowhere.
EDGES = {
    "indices": (lambda x: x[index(0, 1)], [True]),
    "index_select": (lambda x: x.index_select(0, index(0)), [True]),
    "gather": (lambda x: x.gather(0, index(0)), [True]),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 0.0), [True]),
    "where": (lambda x: gc.where(x > 0, x, gc.zeros(3)), [True, None]),
    "scatter": (lambda x: x.scatter(0, index(0), gc.ones(1)), [True, None]),
    "index_add": (lambda x: x.index_add(0, index(0), gc.ones(1)), [True, None]),
    "embedding": (lambda x: gc.nn.functional.embedding(index(0), leaf(2, 2)), [True]),
    "constant factor": (lambda x: x * gc.ones(3), [True, None]),
    "number": (lambda x: x * 2, [True, None]),
    "from a number": (lambda x: 2 - x, [True]),
    "power of a number": (lambda x: 2**x, [True]),
    "weight of lerp": (lambda x: gc.lerp(x, gc.ones(3), 0.5), [True, None]),
    "several": (lambda x: gc.cat([gc.ones(1), x]), [None, True]),
}


@pytest.mark.parametrize(("make", "expected"), EDGES.values(), ids=EDGES)
def test_edges_are_those_of_inputs_that_can_have_gradients(make, expected):
    y = make(leaf())
    edges = y.grad_fn.next_functions
    assert [None if node is None else True for node, _ in edges] == expected
    assert [number for _, number in edges] == [0] * len(expected)
    seen = []
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((len(inputs), len(outputs))))
    y.sum().backward()
    assert seen == [(len(expected), 1)]
    y = make(leaf())
    found = y.grad_fn(gc.ones_like(y))
    assert (len(found) if isinstance(found, tuple) else 1) == len(expected)


def test_indices_among_results_are_not_seen_by_hooks():
    seen = []
    node = leaf().max(0).values.grad_fn
    node.register_prehook(lambda grads: seen.append(len(grads)))
    node.register_hook(lambda inputs, outputs: seen.append((len(inputs), len(outputs))))
    node(gc.ones(()))
    x = leaf()
    values = x.max(0).values
    values.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    values.backward()
    assert x.grad.sum() == 2
    with pytest.raises(TypeError, match="expected 1 arguments, got 2 instead"):
        node(gc.ones(()), None)


def test_hooks_of_nodes_with_indices_can_replace_gradients():
    x = leaf()
    y = x.gather(0, index(1))
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 5,))
    y.backward(gc.ones(1))
    assert x.grad.tolist() == [0.0, 5.0, 0.0]


@pytest.mark.parametrize("value", [5, [None, None], gc.ones(3)], ids=["number", "list", "tensor"])
def test_hooks_of_nodes_return_tuples(value):
    for register in ("register_hook", "register_prehook"):
        y = leaf() * 3
        getattr(y.grad_fn, register)(lambda *grads: value)
        with pytest.raises(TypeError, match=f"expected tuple, but hook returned '{type(value).__name__}'"):
            y.sum().backward()


def test_names():
    x = leaf()
    b = x * 1
    b[0] = 2.0
    assert (x * 1).grad_fn.name() == "MulBackward0"
    assert (x * 1).grad_fn.next_functions[0][0].name() == "torch::autograd::AccumulateGrad"
    assert b.grad_fn.name() == "torch::autograd::CopySlices"
    assert repr(b) == "tensor([2., 1., 1.], grad_fn=<CopySlices>)"


def test_a_leafs_node_adds_by_hand():
    x = leaf()
    node = get_gradient_edge(x).node
    assert (node(gc.ones(3)), node(gc.ones(3)), node(None)) == ((), (), ())
    assert (x.grad.tolist(), node.variable is x, node.next_functions) == ([2.0] * 3, True, ())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((), "expected 1 arguments, got 0"), ((1,), "argument 0 is not a Variable")],
)
def test_calls_by_hand_check_their_arguments(arguments, message):
    with pytest.raises(TypeError, match=message):
        (leaf() * 2).grad_fn(*arguments)


SETTINGS = {
    "sum": (lambda x: x.sum(0, keepdim=True), {"dim": (0,), "keepdim": True}),
    "power": (lambda x: x**3, {"exponent": 3}),
    "square": (lambda x: x.square(), {"exponent": 2}),
    "unsqueeze": (lambda x: x.unsqueeze(0), {"dim": 0}),
    "slice": (lambda x: x[1:], {"dim": 0, "start": 1, "step": 1}),
    "sum of products": (lambda x: gc.addcmul(x, x, x, value=2.0), {"value": 2.0}),
    "std": (lambda x: x.std(0, keepdim=True), {"keepdim": True}),
}


@pytest.mark.parametrize(("make", "expected"), SETTINGS.values(), ids=SETTINGS)
def test_settings_can_be_read(make, expected):
    node = make(leaf()).grad_fn
    assert {name: getattr(node, f"_saved_{name}") for name in expected} == expected
    with pytest.raises(AttributeError, match="has no attribute '_saved_nothing'"):
        node._saved_nothing  # noqa: B018


F = gc.nn.functional
SHOWN = {
    "convolution": (
        lambda: gc.nn.Conv2d(1, 2, 3)(gc.ones(1, 1, 3, 3, requires_grad=True)),
        {"bias_sym_sizes_opt": (2,), "transposed": False, "groups": 1},
    ),
    "convolution without bias": (
        lambda: gc.nn.Conv2d(1, 2, 3, bias=False)(gc.ones(1, 1, 3, 3, requires_grad=True)),
        {"bias_sym_sizes_opt": (0,)},
    ),
    "linear": (lambda: gc.nn.Linear(3, 2)(gc.ones(1, 3)), {"alpha": 1, "beta": 1}),
    "sums of products": (
        lambda: gc.addbmm(gc.ones(3, 4), gc.ones(1, 3, 2, requires_grad=True), gc.ones(1, 2, 4, requires_grad=True)),
        {"batch1_sym_argsize_0": 1, "batch1_sym_argsize_1": 3, "batch2_sym_argsize_2": 4},
    ),
    "mean": (lambda: gc.ones(2, 3, requires_grad=True).mean(), {"self_sym_sizes": (2, 3), "self_sym_numel": 6}),
    "pooling": (lambda: F.max_pool2d(gc.ones(1, 1, 4, 4, requires_grad=True), 2), {"kernel_size": (2, 2)}),
    "sizes": (
        lambda: F.interpolate(gc.ones(1, 1, 2, requires_grad=True), 4, mode="linear"),
        {"output_size": (4,), "align_corners": False, "scales": None},
    ),
    "scales": (
        lambda: F.interpolate(gc.ones(1, 1, 2, 2, requires_grad=True), scale_factor=(2.0, 3.0), mode="bilinear"),
        {"scales_h": 2.0, "scales_w": 3.0},
    ),
    "windows": (
        lambda: F.unfold(gc.ones(1, 1, 3, 4, requires_grad=True), 2),
        {"self_sym_argsize_minus_1": 4, "self_sym_argsize_minus_2": 3, "kernel_size": (2, 2)},
    ),
    "strides": (lambda: gc.ones(2, 2, requires_grad=True).as_strided((3,), (1,), 1), {"storage_offset": 1}),
    "parts": (lambda: gc.ones(4, requires_grad=True).split(2)[0], {"split_size": 2}),
    "one dim of several": (lambda: gc.ones(2, 2, requires_grad=True).amax(1), {"dim": (1,)}),
    "the only dim": (lambda: gc.ones(1, 2, requires_grad=True).squeeze(0), {"dim": 0}),
    "reduction": (lambda: F.mse_loss(leaf(), leaf()), {"reduction": 1}),
}


@pytest.mark.parametrize(("make", "expected"), SHOWN.values(), ids=SHOWN)
def test_nodes_show_what_they_saved_as_pytorch_does(make, expected):
    node = make().grad_fn
    assert {name: getattr(node, f"_saved_{name}", "missing") for name in expected} == expected


def test_only_what_pytorch_shows_is_shown():
    x = gc.ones(2, 2, requires_grad=True)
    found = {t.grad_fn.name(): t.grad_fn for t in (x.sum(), x.softmax(0), x.view(4), x @ x, gc.cat([x, x]))}
    assert {name: [a for a in dir(node) if a.startswith("_saved")] for name, node in found.items()} == {
        "SumBackward0": ["_saved_self_sym_sizes"],
        "SoftmaxBackward0": ["_saved_dim", "_saved_result"],
        "ViewBackward0": ["_saved_self_sym_sizes"],
        "MmBackward0": ["_saved_mat2", "_saved_self"],
        "CatBackward0": ["_saved_dim"],
    }


def test_a_linear_layer_is_a_product_with_the_transposed_weight():
    layer = gc.nn.Linear(3, 2)
    x = gc.ones(1, 3, requires_grad=True)
    node = layer(x).grad_fn
    assert node._saved_mat1 is x
    assert node._saved_mat2.shape == (3, 2)
    assert node._saved_mat2.grad_fn.name() == "TBackward0"


LAYERS = {
    "with a bias": (True, (2, 3), ["bias", "input", "weight"]),
    "without": (False, (2, 3), ["input", "weight"]),
    "of samples in rows": (True, (4, 2, 3), ["bias", "input", "weight"]),
}


@pytest.mark.parametrize(("bias", "shape", "expected"), LAYERS.values(), ids=LAYERS)
def test_edges_of_a_linear_layer_are_in_the_order_of_addmm(bias, shape, expected):
    layer, x = gc.nn.Linear(3, 2, bias=bias), gc.ones(*shape, requires_grad=True)
    names = {id(x): "input", id(layer.weight): "weight", id(layer.bias): "bias"}
    node = layer(x).grad_fn
    assert [names[id(following.variable)] for following, _ in node.next_functions] == expected
    seen = {}
    node.register_hook(lambda inputs, outputs: seen.update(zip(expected, inputs, strict=True)))
    gc.autograd.backward(gc.autograd.graph.GradientEdge(node, 0), gc.ones(*shape[:-1], 2))
    assert gc.equal(seen["input"], x.grad)
    assert gc.equal(seen["weight"], layer.weight.grad)


def test_shapes_stay_when_tensors_are_freed():
    y = gc.ones(2, 3, requires_grad=True)[:, gc.tensor([0])]
    y.sum().backward()
    assert y.grad_fn._saved_self_sym_sizes == (2, 3)


def test_numbers_grow_with_time():
    x = leaf()
    first, second = (x * 2).grad_fn, (x * 2).grad_fn
    assert first._sequence_nr() < second._sequence_nr()
    assert isinstance(first, gc.autograd.graph.Node)
    first.metadata["note"] = 1
    assert (first.metadata, second.metadata) == ({"note": 1}, {})


def test_a_gradient_edge_knows_what_its_gradient_is_like():
    x = leaf()
    total = get_gradient_edge((x * 2).sum())
    assert gc.autograd.grad(total, x)[0].tolist() == [2.0] * 3
    edge = get_gradient_edge(x * 2)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        gc.autograd.grad(edge, x)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        gc.autograd.grad(edge, x, gc.ones(2))
    assert gc.autograd.grad(edge, x, gc.ones(3, dtype=gc.float64))[0].dtype is gc.float32
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input is a GradientEdge"):
        gc.autograd.grad(x.sum(), get_gradient_edge(leaf()), materialize_grads=True)


def test_inputs_by_name():
    x, y = leaf(), leaf()
    found = gc.autograd.grad((x * y).sum(), {"x": x, "y": y})
    assert {name: g.tolist() for name, g in found.items()} == {"x": [1.0] * 3, "y": [1.0] * 3}
    gc.autograd.backward((x * y).sum(), inputs={"x": x})
    assert (x.grad is None, y.grad is None) == (False, True)


CALLS = {
    "no tensor": (lambda x: gc.autograd.grad(x.sum(), 5), TypeError, "not iterable"),
    "none": (lambda x: gc.autograd.grad(x.sum(), [None]), RuntimeError, "Tensors or GradientEdges, but got NoneType"),
    "constant": (lambda x: x.sum().backward(inputs=[gc.ones(1)]), RuntimeError, "can't retain_grad on Tensor that has"),
    "both names": (
        lambda x: gc.autograd.backward(x.sum(), gc.ones(()), grad_variables=gc.ones(())),
        RuntimeError,
        "Please only use",
    ),
}


@pytest.mark.filterwarnings("ignore:`grad_variables` is deprecated:FutureWarning")
@pytest.mark.parametrize(("call", "error", "message"), CALLS.values(), ids=CALLS)
def test_misuse_of_backward_and_grad(call, error, message):
    with pytest.raises(error, match=message):
        call(leaf())


def test_deprecated_arguments_warn():
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        gc.autograd.grad(leaf().sum(), leaf(), only_inputs=False, allow_unused=True)
    with pytest.warns(FutureWarning, match="`grad_variables` is deprecated"):
        gc.autograd.backward(leaf().sum(), grad_variables=gc.ones(()))
