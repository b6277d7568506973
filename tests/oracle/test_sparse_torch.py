"""Sparse tensors: values, gradients, texts and errors are PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import gradcore as gc

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore:Sparse:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*sparse:UserWarning"),
]

INDEX, VALUES = [[0, 3, 1, 1, 2, 0], [2, 0, 0, 2, 1, 2]], [1.5, -2.0, 0.5, 3.0, -1.0, 0.25]


def dense(lib: Any, *shape: int) -> Any:
    numbers = [((i * 37) % 11 - 5) / 4 for i in range(lib.Size(shape).numel())]
    return lib.tensor(numbers, dtype=lib.float64).reshape(shape).requires_grad_()


#: Functions of a library, a COO matrix (4, 3), and dense tensors of the shapes behind.
CALLS: dict[str, tuple[Any, ...]] = {
    "mm": (lambda lib, s, d: lib.sparse.mm(s, d), (3, 2)),
    "mv": (lambda lib, s, d: s @ d, (3,)),
    "batch": (lambda lib, s, d: s @ d, (2, 3, 2)),
    "from the right": (lambda lib, s, d: d @ s, (2, 4)),
    "addmm": (lambda lib, s, d, e: lib.sparse.addmm(d, s, e, beta=0.5, alpha=2), (4, 2), (3, 2)),
    "to_dense": (lambda lib, s: s.to_dense(),),
    "csr": (lambda lib, s, d: s.coalesce().to_sparse_csr() @ d, (3, 2)),
    "csc": (lambda lib, s: s.coalesce().to_sparse_csc().to_dense(),),
    "bsr": (lambda lib, s: s.coalesce().to_sparse_csr().to_sparse_bsr((2, 3)).to_dense(),),
    "t": (lambda lib, s, d: lib.sparse.mm(s.t(), d), (4, 2)),
    "sum": (lambda lib, s: lib.sparse.sum(s),),
    "sum 0": (lambda lib, s: lib.sparse.sum(s, 0),),
    "sum 1": (lambda lib, s: lib.sparse.sum(s, dim=1),),
    "softmax": (lambda lib, s: lib.sparse.softmax(s, 1),),
    "log_softmax": (lambda lib, s: lib.sparse.log_softmax(s, 0),),
    "dense + sparse": (lambda lib, s, d: d + s, (4, 3)),
    "dense - 2 sparse": (lambda lib, s, d: lib.sub(d, s, alpha=2), (4, 3)),
    "sparse + sparse": (lambda lib, s: s.coalesce() + (s * 2).coalesce(),),
    "sparse * dense": (lambda lib, s, d: s.coalesce() * d, (4, 3)),
    "sparse * sparse": (lambda lib, s: s.coalesce() * (s * 2).coalesce(),),
    "sparse @ sparse": (lambda lib, s: lib.sparse.mm(s.coalesce(), s.t().coalesce()),),
    "scaled": (lambda lib, s: s * 3 / 2,),
    "sin": (lambda lib, s: lib.sin(s.coalesce()),),
    "tanh": (lambda lib, s: s.coalesce().tanh(),),
    "square": (lambda lib, s: s.coalesce() ** 2,),
    "neg": (lambda lib, s: -s,),
    "values": (lambda lib, s: s.coalesce().values(),),
    "mask": (lambda lib, s, d: d.sparse_mask(s.detach().coalesce()), (4, 3)),
    "index_select": (lambda lib, s: s.coalesce().index_select(0, lib.tensor([1, 0, 1])),),
    "select": (lambda lib, s: s.coalesce()[1],),
    "cat": (lambda lib, s: lib.cat([s.coalesce(), s.coalesce()], 1),),
    "unsqueeze": (lambda lib, s: s.coalesce().unsqueeze(1),),
    "linear": (lambda lib, s, d: lib.nn.functional.linear(s, d), (2, 3)),
}


#: What PyTorch computes, but does not differentiate.
VALUES_ALONE = {"bsr", "sin", "tanh", "index_select", "select", "cat", "unsqueeze"}


def outcome(lib: Any, call: Any, shapes: Any, backward: bool) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        v = lib.tensor(VALUES, dtype=lib.float64, requires_grad=True)
        tensors = [dense(lib, *shape) for shape in shapes]
        out = call(lib, lib.sparse_coo_tensor(lib.tensor(INDEX), v, (4, 3)), *tensors)
        described = (str(out.layout), tuple(out.shape))
        whole = out if out.layout is lib.strided else out.to_dense()
        if backward:
            ((whole * whole).sum() + whole.sum()).backward()
        grads = [None if t.grad is None else t.grad.to_dense().tolist() for t in (v, *tensors)]
        return described, whole.tolist(), grads


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients(name: str) -> None:
    call, *shapes = CALLS[name]
    ours, theirs = (outcome(lib, call, shapes, name not in VALUES_ALONE) for lib in (gc, torch))
    assert ours[0] == theirs[0]
    assert gc.allclose(gc.tensor(ours[1]), gc.tensor(theirs[1]))
    for mine, other in zip(ours[2], theirs[2], strict=True):
        if mine is None or other is None:
            assert mine is other
        else:
            assert gc.allclose(gc.tensor(mine), gc.tensor(other))


TEXTS = {
    "coo": lambda lib: lib.sparse_coo_tensor(INDEX, VALUES, (4, 3)),
    "coo leaf": lambda lib: lib.sparse_coo_tensor(INDEX, VALUES, (4, 3), requires_grad=True),
    "double": lambda lib: lib.sparse_coo_tensor(INDEX, VALUES, (4, 3), dtype=lib.float64),
    "hybrid": lambda lib: lib.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 2)),
    "empty": lambda lib: lib.sparse_coo_tensor((2, 3)),
    "int": lambda lib: lib.sparse_coo_tensor([[1]], [7], (3,)),
    "bool": lambda lib: lib.sparse_coo_tensor([[1]], [True], (3,)),
    "csr": lambda lib: lib.eye(3).to_sparse_csr(),
    "csc": lambda lib: lib.eye(3).to_sparse_csc(),
    "bsr": lambda lib: lib.eye(4).to_sparse_bsr((2, 2)),
    "long": lambda lib: lib.eye(30).to_sparse(),
    "summed": lambda lib: lib.eye(1100).to_sparse(),
    "history": lambda lib: lib.sparse_coo_tensor([[1]], [1.0], (3,), requires_grad=True).coalesce() * 2,
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name: str) -> None:
    assert repr(TEXTS[name](gc)) == repr(TEXTS[name](torch))


ERRORS = {
    "nnz": lambda lib, s: lib.sparse_coo_tensor(INDEX, VALUES[:2]),
    "dims": lambda lib, s: lib.sparse_coo_tensor(INDEX[0], VALUES),
    "size": lambda lib, s: lib.sparse_coo_tensor(INDEX, VALUES, (4,)),
    "bounds": lambda lib, s: lib.sparse_coo_tensor(INDEX, VALUES, (4, 2), check_invariants=True),
    "crow": lambda lib, s: lib.sparse_csr_tensor([1, 1, 3], [2, 0, 2], VALUES[:3], (2, 3), check_invariants=True),
    "col": lambda lib, s: lib.sparse_csr_tensor([0, 1, 3], [3, 0, 2], VALUES[:3], (2, 3), check_invariants=True),
    "order": lambda lib, s: lib.sparse_csr_tensor([0, 1, 3], [2, 2, 0], VALUES[:3], (2, 3), check_invariants=True),
    "values": lambda lib, s: s.values(),
    "indices": lambda lib, s: s.indices(),
    "crow of coo": lambda lib, s: s.crow_indices(),
    "indices of strided": lambda lib, s: lib.ones(2).indices(),
    "crow of strided": lambda lib, s: lib.ones(2).crow_indices(),
    "plus number": lambda lib, s: s + 1,
    "sizes of a sum": lambda lib, s: s + lib.sparse_coo_tensor((2, 2)),
    "dense sizes of a sum": lambda lib, s: lib.ones(2, 2) + s,
    "over dense": lambda lib, s: s / lib.ones(4, 3),
    "power": lambda lib, s: s**0,
    "reshape": lambda lib, s: s.reshape(12),
    "expand": lambda lib, s: s.expand(2, 4, 3),
    "numpy": lambda lib, s: s.numpy(),
    "bool": lambda lib, s: bool(s),
    "item": lambda lib, s: s.item(),
    "dtypes": lambda lib, s: lib.sparse.mm(s, lib.ones(3, 2, dtype=lib.float64)),
    "mv": lambda lib, s: s @ lib.ones(2),
    "dense gradient": lambda lib, s: setattr(s.requires_grad_(), "grad", lib.ones(4, 3)),
    "backward": lambda lib, s: s.requires_grad_().backward(),
    "leaf": lambda lib, s: s.coalesce().requires_grad_().mul_(2),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    said = []
    for lib in (gc, torch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            s = lib.sparse_coo_tensor(INDEX, VALUES, (4, 3))
            with pytest.raises((RuntimeError, TypeError, NotImplementedError)) as caught:
                ERRORS[name](lib, s)
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]


@pytest.mark.parametrize(
    "name", ["exp", "cos", "log", "sigmoid", "max", "min", "prod", "std", "sort", "argmax", "flip"]
)
def test_what_neither_has(name: str) -> None:
    for lib in (gc, torch):
        s = lib.sparse_coo_tensor(INDEX, VALUES, (4, 3))
        with pytest.raises(
            NotImplementedError, match=f"Could not run 'aten::{name}.* with arguments from the 'SparseCPU"
        ):
            getattr(s, name)(0) if name == "flip" else getattr(s, name)()


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
def test_files_are_exchanged(layout: str, tmp_path: Any) -> None:
    for first, second in ((gc, torch), (torch, gc)):
        s = first.eye(3).to_sparse(layout=getattr(first, layout))
        first.save({"a": s}, tmp_path / "file")
        found = second.load(tmp_path / "file")["a"]
        assert repr(found) == repr(s)
