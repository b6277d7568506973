"""The recorded graph as Python sees it: nodes, their edges, and what they saved."""

import pytest

import gradcore as gc

COMMON_NAMES = {
    "__call__",
    "_register_hook_dict",
    "metadata",
    "name",
    "next_functions",
    "register_hook",
    "requires_grad",
}


@pytest.fixture
def powers():
    """Two leaves and ``left**2 + right**3``."""
    left = gc.rand(5, 5, requires_grad=True)
    right = gc.rand(5, 5, requires_grad=True)
    return left, right, left**2 + right**3


def test_edges_of_a_linear_function(text_of):
    x = gc.ones(1)
    w = gc.rand(1, requires_grad=True)
    b = gc.rand(1, requires_grad=True)
    y = w * x
    z = y + b
    assert text_of(z.grad_fn) == "<AddBackward0 object at 0x>"
    assert text_of(y.grad_fn) == "<MulBackward0 object at 0x>"
    assert text_of(z.grad_fn.next_functions) == (
        "((<MulBackward0 object at 0x>, 0), (<AccumulateGrad object at 0x>, 0))"
    )
    assert text_of(y.grad_fn.next_functions) == "((<AccumulateGrad object at 0x>, 0), (None, 0))"
    assert z.grad_fn.next_functions[0][0] is y.grad_fn


def test_an_input_without_gradients_is_an_edge_to_none():
    x = gc.ones(2)
    w = gc.ones(2, requires_grad=True)
    assert (x * w).grad_fn.next_functions[0] == (None, 0)
    assert (w + 2).grad_fn.next_functions[1] == (None, 0)
    assert (2 * w).grad_fn.next_functions[1] == (None, 0)
    assert (w + w).grad_fn.next_functions[0] == (w + w).grad_fn.next_functions[1]


def test_edges_of_a_sum_of_powers(powers, text_of):
    left, right, total = powers
    edges = total.grad_fn.next_functions
    assert text_of(edges) == "((<PowBackward0 object at 0x>, 0), (<PowBackward0 object at 0x>, 0))"
    assert isinstance(edges, tuple)
    assert all(isinstance(edge, tuple) for edge in edges)
    assert edges[0][0].next_functions[0][0].variable is left
    assert edges[1][0].next_functions[0][0].variable is right


def test_a_node_lists_what_it_offers(powers):
    _, _, total = powers
    addition = total.grad_fn
    power = addition.next_functions[0][0]
    accumulation = power.next_functions[0][0]
    assert COMMON_NAMES | {"_saved_alpha"} <= set(dir(addition))
    assert COMMON_NAMES | {"_saved_exponent", "_saved_self"} <= set(dir(power))
    assert COMMON_NAMES | {"variable"} <= set(dir(accumulation))
    assert not {"_saved_self", "_saved_exponent"} & set(dir(addition))
    assert "_saved_alpha" not in dir(power)


def test_names_and_properties_of_nodes(powers):
    _, _, total = powers
    addition = total.grad_fn
    power = addition.next_functions[0][0]
    assert addition.name() == "AddBackward0"
    assert power.name() == "PowBackward0"
    assert addition.requires_grad is True
    assert power.requires_grad is True
    assert repr(type(addition)) == "<class 'AddBackward0'>"
    assert type(power).__name__ == "PowBackward0"
    assert isinstance(power, gc.autograd.graph.Node)


def test_metadata_belongs_to_its_node(powers):
    _, _, total = powers
    assert total.grad_fn.metadata == {}
    total.grad_fn.metadata["seen"] = True
    assert total.grad_fn.metadata == {"seen": True}
    assert total.grad_fn.next_functions[0][0].metadata == {}


def test_the_graph_ends_in_accumulation(powers, text_of):
    left, _, total = powers
    accumulation = total.grad_fn.next_functions[0][0].next_functions[0][0]
    assert repr(type(accumulation)) == "<class 'AccumulateGrad'>"
    assert type(accumulation).__name__ == "AccumulateGrad"
    assert text_of(accumulation) == "<AccumulateGrad object at 0x>"
    assert accumulation.name().endswith("AccumulateGrad")
    assert accumulation.next_functions == ()
    assert accumulation.requires_grad is True
    assert accumulation.variable is left
    assert id(accumulation.variable) == id(left)
    assert repr(accumulation.variable) == repr(left)


def test_a_leaf_has_one_accumulation_node():
    x = gc.ones(2, requires_grad=True)
    first, second = x * 2, x + 1
    assert first.grad_fn.next_functions[0][0] is second.grad_fn.next_functions[0][0]


def test_nodes_are_not_made_anew_on_every_look(powers):
    _, _, total = powers
    assert total.grad_fn is total.grad_fn
    assert total.grad_fn.next_functions[0][0] is total.grad_fn.next_functions[0][0]


def test_a_power_saves_its_base_and_exponent():
    x = gc.rand(3, requires_grad=True)
    node = (x**3).grad_fn
    assert node._saved_exponent == 3
    assert node._saved_self is x


def test_a_sum_saves_the_factor_of_its_second_term():
    x = gc.ones(2, requires_grad=True)
    assert (x + x).grad_fn._saved_alpha == 1
    assert gc.add(x, x, alpha=3).grad_fn._saved_alpha == 3
    assert (x - x).grad_fn._saved_alpha == 1


def test_a_product_saves_its_two_factors():
    x = gc.rand(3, requires_grad=True)
    w = gc.rand(3, requires_grad=True)
    node = (x * w).grad_fn
    assert node._saved_self is x
    assert node._saved_other is w


def test_a_product_saves_only_what_its_gradients_need():
    x = gc.rand(3)
    w = gc.rand(3, requires_grad=True)
    node = (x * w).grad_fn
    assert node._saved_self.tolist() == x.tolist()
    assert node._saved_other is None


def test_an_exponential_saves_its_result():
    x = gc.rand(3, requires_grad=True)
    y = x.exp()
    saved = y.grad_fn._saved_result
    assert saved.tolist() == y.tolist()
    assert saved.grad_fn is y.grad_fn


def test_a_node_has_no_attributes_of_other_operations():
    node = (gc.ones(2, requires_grad=True) + 1).grad_fn
    with pytest.raises(AttributeError, match="'AddBackward0' object has no attribute '_saved_self'"):
        node._saved_self  # noqa: B018


def test_saved_tensors_are_freed_and_saved_numbers_are_not():
    x = gc.rand(3, requires_grad=True)
    y = x**2
    y.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.grad_fn._saved_self  # noqa: B018
    assert y.grad_fn._saved_exponent == 2


def test_a_node_can_be_called_with_the_gradient_of_its_result():
    x = gc.tensor([1.0, 2.0, 3.0], requires_grad=True)
    node = (x**2).grad_fn
    assert node(gc.ones(3)).tolist() == [2.0, 4.0, 6.0]
    assert x.grad is None


def test_hooks_of_a_node_see_both_sides():
    x = gc.tensor([1.0, 2.0], requires_grad=True)
    y = x**2
    seen = []
    handle = y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[0].tolist(), outputs[0].tolist())))
    y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()
    assert seen == [([2.0, 4.0], [1.0, 1.0])]


def test_backward_can_be_followed_by_hand():
    """Walking the edges from the result reaches exactly the leaves that get a gradient."""
    x, y, unused = (gc.rand(2, requires_grad=True) for _ in range(3))
    total = ((x * y).exp() + x).sum()
    waiting, leaves = [total.grad_fn], []
    while waiting:
        node = waiting.pop()
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        waiting.extend(following for following, _ in node.next_functions if following is not None)
    total.backward()
    assert {id(leaf) for leaf in leaves} == {id(x), id(y)}
    assert x.grad is not None
    assert y.grad is not None
    assert unused.grad is None


def test_outputs_of_one_operation_are_numbered():
    first, second = gc.ones(2, 3, requires_grad=True).unbind()
    assert (first.output_nr, second.output_nr) == (0, 1)
    assert first.grad_fn is second.grad_fn
    assert (second * 2).grad_fn.next_functions[0] == (second.grad_fn, 1)
    assert gc.ones(2, requires_grad=True).output_nr == 0
