"""Sparse gradients of dense leaves: how they are summed, seen by hooks, and used by optimisers."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.nn import functional as F

WEIGHT = np.arange(12.0).reshape(6, 2) / 7
INDEX = [[4, 1, 1], [0, 4, 3]]


def table() -> Any:
    return gc.tensor(WEIGHT, requires_grad=True)


def loss(weight: Any, sparse: bool = True, **settings: Any) -> Any:
    found = F.embedding(gc.tensor(INDEX), weight, sparse=sparse, **settings)
    return (found * gc.arange(12.0, dtype=gc.float64).reshape(2, 3, 2)).square().sum()


def same(found: Any, wanted: Any) -> None:
    gc.testing.assert_close(found if found.layout is gc.strided else found.to_dense(), wanted)


@pytest.mark.parametrize("settings", [{}, {"padding_idx": 1}, {"padding_idx": -2}], ids=str)
def test_gradient(settings: Any) -> None:
    ours, theirs = table(), table()
    loss(ours, **settings).backward()
    loss(theirs, sparse=False, **settings).backward()
    assert ours.grad.layout is gc.sparse_coo
    assert not ours.grad.is_coalesced()
    assert not ours.grad.requires_grad
    same(ours.grad, theirs.grad)
    assert loss(ours).grad_fn.next_functions  # a second graph of the same leaf


def test_sums() -> None:
    """Sparse gradients stay sparse; with a dense one the sum is dense, in either order."""
    for terms in (["s", "s"], ["s", "d"], ["d", "s"], ["d", "s", "d", "s"], ["s", "s", "s"]):
        w, wanted = table(), table()
        gc.stack([loss(w, sparse=t == "s") for t in terms]).sum().backward()
        gc.stack([loss(wanted, sparse=False) for _ in terms]).sum().backward()
        assert (w.grad.layout is gc.strided) == ("d" in terms), terms
        same(w.grad, wanted.grad)


def test_accumulation_over_calls() -> None:
    for terms in ("ss", "sd", "ds", "sds", "dsd"):
        w, wanted = table(), table()
        kept = None
        for t in terms:
            loss(w, sparse=t == "s").backward()
            loss(wanted, sparse=False).backward()
            if terms == "ss" or terms == "ds":
                kept = w.grad if kept is None else kept
                assert w.grad is kept  # in place, as PyTorch
        assert (w.grad.layout is gc.strided) == ("d" in terms), terms
        same(w.grad, wanted.grad)


def test_the_gradient_is_its_own() -> None:
    """Neither the upstream gradient nor the indices are shared with ``.grad``."""
    w, index = table(), gc.tensor([1, 2])
    upstream = gc.ones(2, 2, dtype=gc.float64)
    F.embedding(index, w, sparse=True).backward(upstream)
    upstream.fill_(5)
    index.fill_(0)
    same(w.grad, gc.tensor([[0.0] * 2, [1.0] * 2, [1.0] * 2] + [[0.0] * 2] * 3, dtype=gc.float64))


def test_hooks_and_retained_gradients() -> None:
    w, seen = table(), []
    w.register_hook(lambda g: seen.append(g.layout) or g * 2)
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.layout))
    loss(w).backward()
    assert seen == [gc.sparse_coo, gc.sparse_coo]
    wanted = table()
    loss(wanted, sparse=False).backward()
    same(w.grad, wanted.grad * 2)
    w = table()
    w.register_hook(lambda g: g.to_dense())
    loss(w).backward()
    same(w.grad, wanted.grad)


def test_of_results() -> None:
    """A table that was computed gets a dense gradient: formulas know strided arrays alone."""
    for of in (lambda w: w * 2, lambda w: w.t().contiguous().t(), lambda w: w[1:], gc.sin, lambda w: w.view(6, 2)):
        w, wanted = table(), table()
        seen: list[Any] = []
        middle = of(w)
        middle.retain_grad()
        middle.register_hook(lambda g: seen.append(g.layout))  # noqa: B023
        loss(middle).backward()
        loss(of(wanted), sparse=False).backward()
        assert seen == [gc.strided]
        assert middle.grad.layout is w.grad.layout is gc.strided
        same(w.grad, wanted.grad)


def test_grad_function_and_second_order() -> None:
    w = table()
    (found,) = gc.autograd.grad(loss(w), w)
    assert found.layout is gc.sparse_coo
    assert w.grad is None
    (found,) = gc.autograd.grad(loss(w), w, create_graph=True)
    assert found.layout is gc.sparse_coo
    assert found.requires_grad
    (second,) = gc.autograd.grad(found.coalesce().values().square().sum(), w)
    (plain,) = gc.autograd.grad(loss(w, sparse=False), w, create_graph=True)
    (wanted,) = gc.autograd.grad(plain.square().sum(), w)
    same(second, wanted)
    total = sum(loss(w, sparse=s) for s in (True, False, True))
    (found,) = gc.autograd.grad(total, w, create_graph=True)
    same(found, 3 * plain)
    assert found.requires_grad
    w = table()
    loss(w).backward(create_graph=True)
    loss(w).backward(create_graph=True)
    same(w.grad, 2 * plain)


def test_transformations() -> None:
    w = table().detach()
    wanted = gc.func.grad(lambda w: loss(w, sparse=False))(w)
    same(gc.func.grad(loss)(w), wanted)
    _, change = gc.func.jvp(loss, (w,), (gc.ones_like(w),))
    same(change, wanted.sum())
    index = gc.tensor([[0, 1], [1, 5], [2, 2]])
    of_samples = [lambda w, i, s=s: F.embedding(i, w, sparse=s).square().sum() for s in (True, False)]
    per_sample = [gc.func.vmap(gc.func.grad(f), (None, 0))(w, index) for f in of_samples]
    same(*per_sample)
    leaf = w.requires_grad_()
    rows = F.embedding(gc.tensor([1, 1]), leaf, sparse=True)
    upstream = gc.eye(4, dtype=gc.float64).reshape(4, 2, 2)
    (found,) = gc.autograd.grad(rows, leaf, upstream, is_grads_batched=True)
    assert found.shape == (4, 6, 2)
    same(found.sum(0)[1], gc.full((2,), 2.0, dtype=gc.float64))
    same(gc.func.functional_call(gc.nn.Embedding(6, 2, sparse=True).double(), {"weight": leaf}, (gc.tensor([3]),)),
         leaf.detach()[3:4])  # fmt: skip


def test_checkpointed_and_watched() -> None:
    from gradcore.utils.checkpoint import checkpoint

    wanted = table()
    loss(wanted, sparse=False).backward()
    w = table()
    checkpoint(loss, w, use_reentrant=False).backward()
    same(w.grad, wanted.grad)
    w = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that anomalies are looked for, and what was found
        with gc.autograd.detect_anomaly():
            loss(w).backward()
        same(w.grad, wanted.grad)
        rows = F.embedding(gc.tensor([0]), table(), sparse=True)
        with gc.autograd.detect_anomaly(), pytest.raises(RuntimeError, match=r"EmbeddingBackward0.*nan"):
            rows.backward(gc.full((1, 2), float("nan"), dtype=gc.float64))


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
def test_bags(mode: str, weighted: bool) -> None:
    if weighted and mode == "mean":
        return
    found = []
    for sparse in (True, False):
        bag = gc.nn.EmbeddingBag(6, 2, mode=mode, sparse=sparse, padding_idx=1).double()
        bag.load_state_dict({"weight": gc.tensor(WEIGHT)})
        factors = gc.tensor([0.5, 2.0, 1.0, -1.0], dtype=gc.float64, requires_grad=True) if weighted else None
        bag(gc.tensor([4, 1, 4, 0]), gc.tensor([0, 2, 2]), factors).square().sum().backward()
        found.append((bag.weight.grad, None if factors is None else factors.grad))
    assert found[0][0].layout is gc.sparse_coo
    same(found[0][0], found[1][0])
    if weighted:
        same(found[0][1], found[1][1])


def test_zeroed_copied_and_pickled() -> None:
    layer = gc.nn.Embedding(6, 2, sparse=True)
    layer(gc.tensor([1, 1])).sum().backward()
    w = table()
    loss(w).backward()
    twin = copy.deepcopy(w)
    assert twin.grad.layout is gc.sparse_coo
    assert twin.grad is not w.grad
    same(twin.grad, w.grad.to_dense())
    assert pickle.loads(pickle.dumps(layer)).weight.grad is None
    optimizer = gc.optim.SGD(layer.parameters(), lr=0.1)
    optimizer.zero_grad(set_to_none=False)
    assert layer.weight.grad.layout is gc.sparse_coo
    assert layer.weight.grad._nnz() == 0
    layer(gc.tensor([2])).sum().backward()
    assert layer.weight.grad.to_dense().sum() == 2
    optimizer.zero_grad()
    assert layer.weight.grad is None
    layer.weight.grad = gc.sparse_coo_tensor([[1]], [[1.0, 2.0]], (6, 2))
    assert layer.weight.grad.layout is gc.sparse_coo
    with pytest.raises(RuntimeError, match="size"):
        layer.weight.grad = gc.sparse_coo_tensor([[1]], [[1.0, 2.0]], (5, 2))


def test_clipping_and_scaling() -> None:
    norms = []
    for sparse in (True, False):
        w, bias = table(), gc.ones(2, dtype=gc.float64, requires_grad=True)
        (loss(w, sparse=sparse) + (bias * 3).sum()).backward()
        norms.append(gc.nn.utils.clip_grad_norm_([w, bias], 0.5))
        norms.append(w.grad.to_dense() if sparse else w.grad)
    same(norms[0], norms[2])
    same(norms[1], norms[3])


def quadratic_steps(optimizer: Any, sparse: bool, rows: Any, steps: int = 4) -> Any:
    layer = gc.nn.Embedding(6, 2, sparse=sparse).double()
    layer.load_state_dict({"weight": gc.tensor(WEIGHT)})
    stepping = optimizer(layer.parameters())
    for _ in range(steps):
        stepping.zero_grad()
        layer(gc.tensor(rows)).square().sum().backward()
        stepping.step()
    return layer.weight.detach()


ALL = [0, 1, 2, 3, 4, 5, 5, 2]
#: Optimisers that take sparse gradients, and those that do the same with dense ones where all rows are in use.
SPARSE = {
    "SGD": (lambda p: gc.optim.SGD(p, lr=0.1),) * 2,
    "SGD maximize": (lambda p: gc.optim.SGD(p, lr=0.1, maximize=True),) * 2,
    "SGD momentum": (lambda p: gc.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),) * 2,
    "SGD nesterov": (lambda p: gc.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),) * 2,
    "Adagrad": (lambda p: gc.optim.Adagrad(p, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.2),) * 2,
    "SparseAdam": (lambda p: gc.optim.SparseAdam(p, lr=0.1), lambda p: gc.optim.Adam(p, lr=0.1)),
}


@pytest.mark.parametrize("name", SPARSE)
def test_optimizers(name: str) -> None:
    sparse, dense = SPARSE[name]
    tolerance = {"rtol": 1e-6, "atol": 1e-6}
    gc.testing.assert_close(quadratic_steps(sparse, True, ALL), quadratic_steps(dense, False, ALL), **tolerance)
    some = quadratic_steps(sparse, True, [1, 4, 4])
    kept = [0, 2, 3, 5]
    assert gc.equal(some[kept], gc.tensor(WEIGHT)[kept])
    assert not gc.equal(some, gc.tensor(WEIGHT))


def test_a_group_with_both_kinds() -> None:
    layer, other = gc.nn.Embedding(4, 2, sparse=True), gc.nn.Parameter(gc.ones(2))
    before = layer.weight.detach().clone()
    optimizer = gc.optim.SGD([layer.weight, other], lr=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        (layer(gc.tensor([3])).sum() + other.sum()).backward()
        optimizer.step()
    same(other.detach(), gc.zeros(2))
    same(layer.weight.detach()[3], before[3] - 1)
    same(layer.weight.detach()[:3], before[:3])


def test_state_dict_of_sparse_adam() -> None:
    layer = gc.nn.Embedding(4, 2, sparse=True)
    twin = copy.deepcopy(layer)
    one, two = (gc.optim.SparseAdam(m.parameters(), lr=0.1) for m in (layer, twin))
    for optimizer, module in ((one, layer), (two, twin)):
        module(gc.tensor([1, 2])).sum().backward()
        optimizer.step()
    again = gc.optim.SparseAdam(twin.parameters(), lr=0.3)
    again.load_state_dict(two.state_dict())
    for optimizer, module in ((one, layer), (again, twin)):
        optimizer.zero_grad()
        module(gc.tensor([2, 3])).sum().backward()
        optimizer.step()
    assert gc.equal(layer.weight, twin.weight)


def test_in_place_sums() -> None:
    s = gc.sparse_coo_tensor([[0, 2, 0]], [[1.0], [2.0], [3.0]], (3, 1))
    d = gc.ones(3, 1)
    d += s
    d.sub_(s, alpha=0.5)
    assert d.tolist() == [[3.0], [1.0], [2.0]]
    m = gc.zeros(2, 3, dtype=gc.float64)
    m.add_(gc.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)), alpha=2)
    m.add_(gc.eye(3)[:2].to_sparse_csr())
    assert m.tolist() == [[1.0, 0.0, 6.0], [8.0, 1.0, 0.0]]
    with pytest.raises(RuntimeError, match="can't be cast"):
        gc.ones(3, 1).add_(s * 1j)
    with pytest.raises(RuntimeError, match="same size"):
        gc.ones(3, 3).add_(s)
    v = gc.tensor([1.0, 2.0], requires_grad=True)
    made = gc.sparse_coo_tensor([[0, 1]], v, (2,))
    out = gc.ones(2) * 3
    out.add_(made)
    (out * gc.tensor([1.0, 10.0])).sum().backward()
    assert v.grad.tolist() == [1.0, 10.0]
    zeroed = (made * 2).zero_()
    assert zeroed.requires_grad
    assert zeroed.to_dense().tolist() == [0.0, 0.0]


def test_compiled() -> None:
    """A function of which a gradient is sparse runs as it is, and says so."""
    layer = gc.nn.Embedding(6, 2, sparse=True)
    optimizer = gc.optim.SGD(layer.parameters(), lr=0.5)

    def step(index: Any) -> Any:
        optimizer.zero_grad()
        found = layer(index).sum()
        found.backward()
        optimizer.step()
        return found

    for compiled in (gc.compile(lambda index: layer(index).sum()), gc.compile(step)):
        layer.weight.grad = None
        before = layer.weight.detach().clone()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(3):
                found = compiled(gc.tensor([1, 3]))
                if layer.weight.grad is None or not gc.equal(layer.weight.grad.to_dense()[1], gc.ones(2)):
                    found.backward()
                assert layer.weight.grad.layout is gc.sparse_coo
                layer.weight.grad = None
        assert gc.equal(before[[0, 2, 4, 5]], layer.weight.detach()[[0, 2, 4, 5]])
    gc.testing.assert_close(layer.weight.detach()[[1, 3]], before[[1, 3]] - 1.5)
