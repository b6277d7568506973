"""Weak references and dictionaries with tensors as keys."""

import copy
import gc as collector

import pytest

import gradcore as gc
from gradcore.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakIdRef, WeakTensorKeyDictionary


def test_keys_are_found_by_identity():
    tensors = [gc.ones(2), gc.ones(2), gc.ones(3), gc.tensor(1.0)]
    names = WeakTensorKeyDictionary({t: n for n, t in enumerate(tensors)})
    assert len(names) == 4
    assert [names[t] for t in tensors] == [0, 1, 2, 3]
    assert gc.ones(2) not in names
    assert 1 not in names
    with pytest.raises(KeyError):
        names[gc.ones(2)]
    names[tensors[0]] = 7
    assert names.pop(tensors[0]) == 7
    assert names.get(tensors[0]) is None
    assert len(names) == 3


def test_entries_go_with_their_keys():
    x, y = gc.ones(2), gc.ones(2)
    names = WeakIdKeyDictionary({x: 1, y: 2})
    same = copy.copy(names)
    del x
    collector.collect()
    assert list(names.values()) == [2]
    assert [key() for key in names.keyrefs()] == [y]
    assert len(same) == 1
    for key in names:
        del y, key
        collector.collect()
    assert not names


def test_references_to_deleted_objects_differ():
    x = gc.ones(2)
    first, second, tensor = WeakIdRef(x), WeakIdRef(x), TensorWeakRef(x)
    assert first == second
    assert hash(first) == hash(second)
    assert tensor() is x
    del x
    collector.collect()
    assert tensor() is None
    assert first() is None
    assert first == first
    assert first != second
    with pytest.raises(TypeError, match="must be Tensor"):
        TensorWeakRef(1)
