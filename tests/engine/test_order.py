"""When things happen in backward: each leaf is updated right after the last gradient that it receives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradcore as gc
from gradcore.autograd import variables

#: Programs: the number of leaves, and for each operation the two operands, among leaves and earlier results.
PROGRAM = st.tuples(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=12))


def run(leaves, steps, note=None):
    """Return the result of the program, and the indices of the operands of each operation."""
    values, operands = list(leaves), []
    for i, j in steps:
        a, b = i % len(values), j % len(values)
        operands.append((a, b))
        values.append(values[a] * values[b] * 0.5)
        number = len(values) - 1
        if note is not None:
            values[number].register_hook(lambda g, n=number: note(n))
    return values[-1], operands


def expected_order(count, operands):
    """Return the expected order: the youngest waiting result first, a leaf as soon as no more gradients can arrive."""
    order, reached = [], {count + len(operands) - 1}
    for number in range(count + len(operands) - 1, count - 1, -1):
        if number not in reached:
            continue
        order.append(number)
        reached.update(operands[number - count])
        rest = {
            a
            for later in range(count, number)
            if later in behind(number, operands, count, reached)
            for a in operands[later - count]
        }
        order += [leaf for leaf in dict.fromkeys(operands[number - count]) if leaf < count and leaf not in rest]
    return order


def behind(number, operands, count, reached):
    """Return the results older than `number` that gradients will still reach."""
    found = {n for n in reached if count <= n < number}
    for n in range(number - 1, count - 1, -1):
        if n in found:
            found.update(a for a in operands[n - count] if a >= count)
    return found


@pytest.mark.parametrize("kept", ["nothing", "loss", "retained", "other graph", "edge"])
@given(program=PROGRAM)
def test_leaves_come_right_after_their_last_gradient_in_every_iteration(kept, program):
    count, steps = program
    order, holding = [], []
    leaves = [gc.ones(2, requires_grad=True) for _ in range(count)]
    for n, leaf in enumerate(leaves):
        leaf.register_post_accumulate_grad_hook(lambda p, n=n: (order.append(n), setattr(p, "grad", None))[0])
    for _ in range(3):
        order.clear()
        if kept == "other graph":
            holding.append(run(leaves, steps[::-1])[0])
        out, operands = run(leaves, steps, order.append)
        if kept == "edge":
            holding += [gc.autograd.graph.get_gradient_edge(leaf) for leaf in leaves]
        for _ in range(2 if kept == "retained" else 1):
            order.clear()
            out.sum().backward(retain_graph=kept == "retained")
            assert order == (expected_order(count, operands) if steps else [count - 1])
        if kept == "loss":
            holding.append(out)
    assert all(leaf.grad is None for leaf in leaves)


class Failing(gc.autograd.Function):
    """Has a backward that fails."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ArithmeticError


@pytest.mark.parametrize("hooked", [False, True])
@given(program=PROGRAM, place=st.integers(0, 11))
def test_leaves_that_were_complete_are_updated_where_another_node_fails(hooked, program, place):
    count, steps = program
    place %= len(steps) + 1
    leaves = [gc.ones(2, requires_grad=True) for _ in range(count)]
    order = []
    for n, leaf in enumerate(leaves if hooked else ()):
        leaf.register_post_accumulate_grad_hook(lambda p, n=n: order.append(n))
    values, operands = list(leaves), []
    for k, (i, j) in enumerate(steps):
        a, b = i % len(values), j % len(values)
        operands.append((a, b))
        product = values[a] * values[b]
        values.append(Failing.apply(product) if k == place else product)
    if not steps:
        return
    before, variables.leaf_order_matters = variables.leaf_order_matters, hooked
    try:
        values[-1].sum().backward()
    except ArithmeticError:
        whole = expected_order(count, operands)
        done = whole[: whole.index(count + place)]
    else:
        done = expected_order(count, operands)
    finally:
        variables.leaf_order_matters = before
    assert [n for n, leaf in enumerate(leaves) if leaf.grad is not None] == sorted(n for n in done if n < count)
    assert not hooked or order == [n for n in done if n < count]


@given(program=PROGRAM, wanted=st.integers(0, 3))
def test_gradients_of_some_leaves_are_those_of_all(program, wanted):
    count, steps = program
    if not steps:
        return
    leaves = [gc.tensor([1.0, 2.0], requires_grad=True) for _ in range(count)]
    seen = []
    leaves[0].register_hook(lambda g: seen.append(g.clone()))
    whole = gc.autograd.grad(run(leaves, steps)[0].sum(), leaves, allow_unused=True)
    (part,) = gc.autograd.grad(run(leaves, steps)[0].sum(), [leaves[wanted % count]], allow_unused=True)
    if part is None:
        assert whole[wanted % count] is None
    else:
        np.testing.assert_array_equal(part.numpy(), whole[wanted % count].numpy())


def test_large_sums_into_grad_are_done_at_once_from_the_second_backward_on(monkeypatch):
    monkeypatch.setattr(variables, "leaf_order_matters", False)
    leaf = gc.ones(100, 100, requires_grad=True)
    for _ in range(2):
        assert not variables.leaf_order_matters
        leaf.sum().backward()
    assert variables.leaf_order_matters


@pytest.mark.parametrize("several", [False, True])
def test_the_gradient_of_a_single_root_is_seen_wherever_it_leads(several):
    a, b = (gc.ones(2, requires_grad=True) for _ in range(2))
    first, second, seen = a * 2, b * 3, []
    first.retain_grad()
    for name, t in {"first": first, "second": second, "a": a}.items():
        t.register_hook(lambda g, name=name: seen.append(name))
    roots = [first, second] if several else [first]
    gc.autograd.grad(roots, [b], [gc.ones(2)] * len(roots), allow_unused=True)
    assert seen == (["second"] if several else ["first"])
    assert (first.grad is None) is several
    gc.autograd.grad(a, [b], gc.ones(2), allow_unused=True)
    assert seen[-1] == "a"
