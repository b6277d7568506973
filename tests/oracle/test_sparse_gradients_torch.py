"""Sparse gradients of dense leaves, and optimisers that take them, are PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import gradcore as gc

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore::UserWarning")]


def model(lib: Any, **settings: Any) -> Any:
    layer = lib.nn.Embedding(5, 2, sparse=True, dtype=lib.float64, **settings)
    layer.weight.data = lib.arange(10.0, dtype=lib.float64).reshape(5, 2) / 7
    return layer


def bag(lib: Any, **settings: Any) -> Any:
    layer = lib.nn.EmbeddingBag(5, 2, sparse=True, dtype=lib.float64, **settings)
    layer.weight.data = lib.arange(10.0, dtype=lib.float64).reshape(5, 2) / 7
    return layer


def described(grad: Any) -> Any:
    if grad is None or grad.layout in (gc.strided, torch.strided):
        return None if grad is None else grad.tolist()
    rows = sorted(zip(grad._indices().T.tolist(), grad._values().tolist(), strict=True))
    return str(grad.layout), grad.is_coalesced(), rows


def of_gradient(run: Any) -> Any:
    def outcome(lib: Any) -> Any:
        layer = run(lib)
        return described(layer.weight.grad)

    return outcome


def stepped(make: Any, make_model: Any = model, index: Any = (1, 3, 3)) -> Any:
    def outcome(lib: Any) -> Any:
        layer = make_model(lib)
        optimizer = make(lib.optim, layer.parameters())
        for i in range(4):
            optimizer.zero_grad(set_to_none=bool(i % 2))
            (layer(lib.tensor(index)) + i).square().sum().backward()
            optimizer.step()
        state = {k: v.tolist() for k, v in optimizer.state[layer.weight].items()
                 if isinstance(v, lib.Tensor) and v.layout is lib.strided}  # fmt: skip
        return layer.weight.tolist(), state

    return outcome


def backward(layer: Any, lib: Any, *index: int) -> Any:
    (layer(lib.tensor(index)) * lib.arange(1.0, 2 * len(index) + 1, dtype=lib.float64).reshape(-1, 2)).sum().backward()
    return layer


def from_bag(lib: Any, layer: Any, **named: Any) -> Any:
    layer(lib.tensor([4, 1, 4, 0]), lib.tensor([0, 2]), **named).square().sum().backward()
    return layer


def twice_differentiated(lib: Any) -> Any:
    layer = model(lib)
    (g,) = lib.autograd.grad(layer(lib.tensor([1, 1, 2])).pow(3).sum(), layer.weight, create_graph=True)
    g.coalesce().values().sum().backward()
    grad = layer.weight.grad
    return (grad if grad.layout is lib.strided else grad.to_dense()).tolist()


OUTCOMES = {
    "gradient": of_gradient(lambda lib: backward(model(lib), lib, 3, 1, 3)),
    "padding": of_gradient(lambda lib: backward(model(lib, padding_idx=3), lib, 3, 1, 3)),
    "two calls": of_gradient(lambda lib: backward(backward(model(lib), lib, 3, 1), lib, 2)),
    "by frequency": lambda lib: backward(model(lib, scale_grad_by_freq=True), lib, 1),
    "bag sum": of_gradient(lambda lib: from_bag(lib, bag(lib, mode="sum"))),
    "bag mean": of_gradient(lambda lib: from_bag(lib, bag(lib, mode="mean"))),
    "bag max": lambda lib: from_bag(lib, bag(lib, mode="max")),
    "second order": twice_differentiated,
    "SGD": stepped(lambda o, p: o.SGD(p, lr=0.1)),
    "SGD momentum": stepped(lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, dampening=0.2)),
    "SGD nesterov": stepped(lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True)),
    "Adagrad": stepped(lambda o, p: o.Adagrad(p, lr=0.1, lr_decay=0.3, initial_accumulator_value=0.1)),
    "Adagrad decay": stepped(lambda o, p: o.Adagrad(p, lr=0.1, weight_decay=0.1)),
    "SparseAdam": stepped(lambda o, p: o.SparseAdam(p, lr=0.1)),
    "SparseAdam options": stepped(lambda o, p: o.SparseAdam(p, lr=0.1, betas=(0.5, 0.9), eps=0.1, maximize=True)),
    "SparseAdam, none": stepped(lambda o, p: o.SparseAdam(p), index=[]),
    "SparseAdam dense": stepped(lambda o, p: o.SparseAdam(p), lambda lib: lib.nn.Embedding(5, 2)),
    "SparseAdam lr": lambda lib: lib.optim.SparseAdam(model(lib).parameters(), lr=0.0),
    "SparseAdam eps": lambda lib: lib.optim.SparseAdam(model(lib).parameters(), eps=0.0),
    "SparseAdam beta": lambda lib: lib.optim.SparseAdam(model(lib).parameters(), betas=(0.9, 1.0)),
    "SparseAdam sparse": lambda lib: lib.optim.SparseAdam([lib.eye(2).to_sparse()]),
    "stride": lambda lib: (lib.eye(2).to_sparse().stride(), lib.eye(2).to_sparse().stride(1)),
    "stride of csr": lambda lib: lib.eye(2).to_sparse_csr().stride(),
    "stride of bsc": lambda lib: lib.eye(2).to_sparse_bsc((1, 1)).stride(),
    "storage_offset": lambda lib: (
        lib.eye(2).to_sparse().storage_offset(),
        lib.eye(2).to_sparse_csr().storage_offset(),
    ),
    "text of SparseAdam": lambda lib: repr(lib.optim.SparseAdam(model(lib).parameters())),
    "zero": lambda lib: described(lib.eye(2).to_sparse().zero_()),
    "zero of csr": lambda lib: lib.eye(2).to_sparse_csr().zero_().to_dense().tolist(),
    "tensor of sparse": lambda lib: described(lib.tensor(lib.eye(2).to_sparse())),
    "tensor of csr": lambda lib: lib.tensor(lib.eye(2).to_sparse_csr(), dtype=lib.float64).to_dense().tolist(),
    **{
        f"{name} refuses": stepped(lambda o, p, name=name: getattr(o, name)(p))
        for name in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "ASGD", "Adadelta", "Adafactor")
    },
}


def near(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and type(a) is type(b):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(near(a[k], b[k]) for k in a)
    return a == pytest.approx(b, rel=1e-12, abs=1e-12) if isinstance(a, float) else a == b


def outcome(lib: Any, run: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return run(lib)
        except Exception as error:
            return type(error).__name__, str(error)


@pytest.mark.parametrize("name", OUTCOMES)
def test_as_torch(name: str) -> None:
    ours, theirs = (outcome(lib, OUTCOMES[name]) for lib in (gc, torch))
    assert near(ours, theirs), f"{ours}\n{theirs}"


COMPARISONS = {
    "equal": lambda lib: (lib.eye(3).to_sparse(), lib.eye(3).to_sparse()),
    "uncoalesced": lambda lib: (lib.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,)), lib.tensor([3.0, 0]).to_sparse()),
    "values": lambda lib: (lib.eye(3).to_sparse(), (lib.eye(3) * 2).to_sparse()),
    "indices": lambda lib: (lib.eye(3).to_sparse(), lib.eye(3)[[1, 0, 2]].to_sparse()),
    "nnz": lambda lib: (lib.eye(3).to_sparse(), lib.ones(3, 3).to_sparse()),
    "layouts": lambda lib: (lib.eye(3).to_sparse(), lib.eye(3)),
    "layouts of both": lambda lib: (lib.eye(3).to_sparse(), lib.eye(3).to_sparse_csr()),
    "csr": lambda lib: (lib.eye(3).to_sparse_csr(), lib.eye(3).to_sparse_csr()),
    "csr values": lambda lib: (lib.eye(3).to_sparse_csr(), (lib.eye(3) * 2).to_sparse_csr()),
    "csr indices": lambda lib: (lib.eye(3).to_sparse_csr(), lib.eye(3)[[1, 0, 2]].to_sparse_csr()),
    "csc crow": lambda lib: (lib.eye(3)[[1, 1, 2]].to_sparse_csc(), lib.eye(3).to_sparse_csc()),
    "csr nnz": lambda lib: (lib.eye(3).to_sparse_csr(), lib.ones(3, 3).to_sparse_csr()),
    "bsr": lambda lib: (lib.eye(4).to_sparse_bsr((2, 2)), (lib.eye(4) * 3).to_sparse_bsr((2, 2))),
    "dtypes": lambda lib: (lib.eye(3).to_sparse(), lib.eye(3).double().to_sparse()),
    "shapes": lambda lib: (lib.eye(3).to_sparse(), lib.eye(4).to_sparse()),
    "sparse dims": lambda lib: (lib.eye(3).to_sparse(1), lib.eye(3).to_sparse(2)),
}


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("settings", [{}, {"check_layout": False}], ids=["", "any layout"])
def test_assert_close(name: str, settings: Any) -> None:
    ours, theirs = (
        outcome(lib, lambda lib: lib.testing.assert_close(*COMPARISONS[name](lib), **settings)) for lib in (gc, torch)
    )
    assert ours == theirs
