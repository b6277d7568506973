"""Memory that processes share, and tensors that change places."""

import gc as collector
import subprocess
import sys
import weakref

import pytest

import gradcore as gc
from gradcore import multiprocessing as mp

PROGRAM = """
import gradcore as gc
from gradcore import multiprocessing as mp

def work(rank, model, counts, own):
    with gc.no_grad():
        model.weight.add_(rank + 1)
        counts[rank] += 1
        own.add_(1)

if __name__ == "__main__":
    model = gc.nn.Linear(2, 1, bias=False)
    with gc.no_grad():
        model.weight.zero_()
    model.share_memory()
    counts, own = gc.zeros(2, dtype=gc.int64).share_memory_(), gc.zeros(1)
    assert model.weight.is_shared() and not own.is_shared()
    mp.start_processes(work, (model, counts, own), nprocs=2, start_method={method!r})
    print(model.weight.tolist(), counts.tolist(), own.tolist())
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_write_to_the_same_memory(tmp_path, method):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace("{method!r}", repr(method)))
    root = gc.__file__.rpartition("/gradcore/")[0]
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, env={"PYTHONPATH": root}
    )
    assert done.stdout == "[[3.0, 3.0]] [1, 1] [0.0]\n", done.stderr


PLAIN = """
import multiprocessing
import gradcore as gc

def work(shared, weight):
    with gc.no_grad():
        shared.add_(1)
        weight.add_(2)

if __name__ == "__main__":
    shared, weight = gc.zeros(3).share_memory_(), gc.nn.Parameter(gc.zeros(1)).share_memory_()
    process = multiprocessing.get_context("spawn").Process(target=work, args=(shared, weight))
    process.start()
    process.join()
    print(shared.tolist(), weight.tolist())
"""


@pytest.mark.slow
def test_pythons_own_processes_write_to_it_too(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PLAIN)
    root = gc.__file__.rpartition("/gradcore/")[0]
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, env={"PYTHONPATH": root}
    )
    assert done.stdout == "[1.0, 1.0, 1.0] [2.0]\n", done.stderr


def test_sharing_keeps_values_and_refuses_views():
    x = gc.arange(6.0).reshape(2, 3).requires_grad_()
    assert x.detach().clone().share_memory_().tolist() == x.tolist()
    leaf = gc.arange(3.0).requires_grad_()
    (leaf.share_memory_() * 2).sum().backward()
    assert leaf.is_shared()
    assert leaf.grad.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="share the base"):
        gc.ones(3)[1:].share_memory_()
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()


def test_swapped_tensors_are_each_other():
    a, b = gc.nn.Parameter(gc.ones(2)), gc.zeros(3, dtype=gc.float64)
    a.note = "mine"
    (a * 2).sum().backward()
    collector.collect()
    gc.utils.swap_tensors(a, b)
    assert type(a) is gc.Tensor
    assert type(b) is gc.nn.Parameter
    assert (b.note, b.grad.tolist(), a.dtype, b.requires_grad) == ("mine", [2, 2], gc.float64, True)
    assert not hasattr(a, "note")
    (b * 3).sum().backward()
    assert b.grad.tolist() == [5, 5]


def test_what_cannot_be_swapped_is_left_as_it_was():
    a, b = gc.ones(2, requires_grad=True), gc.zeros(2)
    kept = (a * 2).sum()
    with pytest.raises(RuntimeError, match="a graph ends at it"):
        gc.utils.swap_tensors(a, b)
    kept.backward()
    assert a.grad.tolist() == [2, 2]
    reference = weakref.ref(b)
    with pytest.raises(RuntimeError, match="weakref"):
        gc.utils.swap_tensors(gc.ones(1), b)
    assert reference() is b
    with pytest.raises(RuntimeError, match="a view"):
        gc.utils.swap_tensors(gc.ones(3)[1:], gc.ones(2))
