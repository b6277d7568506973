"""Helpers beside tensors against PyTorch's: nested containers, Sobol's sequence, samplers."""

import importlib
from collections import OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradcore as gc

torch = pytest.importorskip("torch")
ours, theirs = (importlib.import_module(f"{name}.utils._pytree") for name in ("gradcore", "torch"))

Pair = namedtuple("Pair", "first second")
leaves = st.one_of(st.integers(-9, 9), st.none(), st.text("ab", max_size=2))


def containers(inner):
    named = st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        named,
        named.map(OrderedDict),
        named.map(lambda d: defaultdict(list, d)),
        st.lists(inner, max_size=3).map(lambda values: deque(values, maxlen=5)),
        st.tuples(inner, inner).map(lambda values: Pair(*values)),
    )


trees = st.recursive(leaves, containers, max_leaves=12)


@given(trees)
def test_nested_containers(tree):
    mine, spec = ours.tree_flatten(tree)
    other, other_spec = theirs.tree_flatten(tree)
    assert mine == other
    assert (spec.num_leaves, spec.num_nodes, spec.num_children) == (
        other_spec.num_leaves,
        other_spec.num_nodes,
        other_spec.num_children,
    )
    assert repr(spec) == repr(other_spec)
    assert ours.tree_unflatten(mine, spec) == tree
    assert ours.tree_map(str, tree) == theirs.tree_map(str, tree)
    assert ours.tree_map_only(int, lambda x: -x, tree) == theirs.tree_map_only(int, lambda x: -x, tree)
    paths = [(ours.keystr(path), leaf) for path, leaf in ours.tree_flatten_with_path(tree)[0]]
    assert paths == [(theirs.keystr(path), leaf) for path, leaf in theirs.tree_flatten_with_path(tree)[0]]
    if not ours.tree_any(lambda leaf: False, tree) and "namedtuple" not in repr(spec):
        assert ours.treespec_dumps(spec) == theirs.treespec_dumps(other_spec)
        assert ours.treespec_loads(ours.treespec_dumps(spec)) == spec


@pytest.mark.parametrize("dimension", [1, 2, 7, 100])
def test_points_of_sobols_sequence(dimension):
    mine, other = gc.quasirandom.SobolEngine(dimension), torch.quasirandom.SobolEngine(dimension)
    for count in (1, 5, 26):
        assert np.allclose(mine.draw(count).numpy(), other.draw(count).numpy(), atol=1e-7)
    mine.fast_forward(13), other.fast_forward(13)
    assert np.allclose(mine.draw(4, dtype=gc.float64).numpy(), other.draw(4, dtype=torch.float64).numpy())
    assert repr(mine) == repr(other)
    assert np.allclose(mine.reset().draw(3).numpy(), other.reset().draw(3).numpy())


def test_scrambled_points_fill_the_cube():
    points = gc.quasirandom.SobolEngine(3, scramble=True, seed=1).draw(256)
    assert ((points * 4).long().float().mean(0) - 1.5).abs().max() < 0.1
    assert gc.equal(points, gc.quasirandom.SobolEngine(3, scramble=True, seed=1).draw(256))


@given(st.integers(1, 30), st.integers(1, 8), st.booleans(), st.data())
def test_samples_of_several_processes(count, processes, drop_last, data):
    rank = data.draw(st.integers(0, processes - 1))
    made = [
        library.utils.data.DistributedSampler(range(count), processes, rank, shuffle=False, drop_last=drop_last)
        for library in (gc, torch)
    ]
    assert len(made[0]) == len(made[1])
    if len(made[1]):
        assert list(made[0]) == list(made[1])
