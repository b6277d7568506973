"""What sparse tensors are: made, converted, printed, saved, moved, and what they refuse."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

import gradcore as gc

INDEX, VALUES = [[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0]
DENSE = [[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]]
LAYOUTS = ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"]


def made(layout: str = "sparse_coo", **named: Any) -> Any:
    s = gc.sparse_coo_tensor(INDEX, VALUES, (2, 3), **named)
    return s.to_sparse(layout=getattr(gc, layout), blocksize=(1, 3) if "bs" in layout else None)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("other", LAYOUTS)
def test_layouts_are_made_of_each_other(layout: str, other: str) -> None:
    s = made(layout)
    t = s.to_sparse(layout=getattr(gc, other), blocksize=(2, 1) if "bs" in other else None)
    assert t.layout is getattr(gc, other)
    assert t.to_dense().tolist() == DENSE
    assert t.t().to_dense().tolist() == np.transpose(DENSE).tolist()
    assert gc.tensor(DENSE).to_sparse(layout=t.layout, blocksize=(2, 3)).to_dense().tolist() == DENSE


@pytest.mark.parametrize(
    "sizes",
    [(3000, 40), (40, 3000), (700, 800), (60000, 7), (1, 9), (100, 1), (10, 10**12), (10**12, 10), (2**31, 2**31)],
)
def test_many_indices_are_sorted_as_by_a_stable_sort(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    index = np.stack([rng.integers(0, size, 5000) for size in sizes])
    index[:, 2500:2600] = index[:, :100]
    values = gc.tensor(rng.standard_normal(5000), requires_grad=True)
    weight = rng.standard_normal(5000)
    for dims in ((0, 1), (1, 0)):
        s = gc.sparse_coo_tensor(index[list(dims)], values, [sizes[d] for d in dims]).coalesce()
        distinct, groups = np.unique(index[list(dims)], axis=1, return_inverse=True)
        groups = groups.reshape(-1)
        assert s.indices().tolist() == distinct.tolist()
        sums = np.zeros(distinct.shape[1])
        np.add.at(sums, groups, values.detach().numpy())
        assert np.allclose(s.values().detach().numpy(), sums, rtol=0, atol=1e-12)
        weights = weight[: sums.size]
        (gradient,) = gc.autograd.grad((s.values() * gc.tensor(weights)).sum(), values)
        assert gradient.tolist() == weights[groups].tolist()
        if max(sizes) < 10**6:  # the ends of all rows have to fit into memory
            t = gc.sparse_coo_tensor(index, values, sizes)
            t = t.to_sparse_csr() if dims == (0, 1) else t.to_sparse_csc()
            ends, inner = (t.crow_indices(), t.col_indices()) if dims == (0, 1) else (t.ccol_indices(), t.row_indices())
            assert np.repeat(np.arange(sizes[dims[0]]), np.diff(ends.numpy())).tolist() == distinct[0].tolist()
            assert inner.tolist() == distinct[1].tolist()
            assert t.values().tolist() == s.values().tolist()
            (gradient,) = gc.autograd.grad((t.values() * gc.tensor(weights)).sum(), values)
            assert gradient.tolist() == weights[groups].tolist()


def test_positions_that_no_integer_can_count_are_refused() -> None:
    s = gc.sparse_coo_tensor([[0, 1 << 24, 0], [0, 0, 0]], [1.0, 2.0, 3.0], (2**40, 2**40))
    with pytest.raises(RuntimeError, match="numel: integer multiplication overflow"):
        s.coalesce()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_attributes(layout: str) -> None:
    s = made(layout)
    assert (s.shape, s.size(0), s.dim(), s.numel(), len(s)) == ((2, 3), 2, 2, 6, 2)
    assert s.is_sparse == (layout == "sparse_coo")
    assert s.is_sparse_csr == (layout == "sparse_csr")
    assert (s.sparse_dim(), s.dense_dim(), s.dtype, s.element_size()) == (2, 0, gc.float32, 4)
    assert isinstance(s, gc.Tensor)
    assert gc.is_tensor(s)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_and_files(layout: str) -> None:
    s = made(layout).requires_grad_()

    def saved(t: Any) -> Any:
        file = io.BytesIO()
        gc.save({"a": t}, file)
        file.seek(0)
        return gc.load(file)["a"]

    for copied in (copy.deepcopy(s), pickle.loads(pickle.dumps(s)), saved(s), copy.copy(s), s.clone()):
        assert copied.layout is s.layout
        assert copied.requires_grad
        assert gc.equal(copied.to_dense(), s.to_dense())
    fresh = copy.deepcopy(s)
    with gc.no_grad():
        fresh.mul_(2)
    assert s.to_dense().tolist() == DENSE


def test_dtypes_and_devices() -> None:
    s = made("sparse_csr")
    assert s.double().dtype is gc.float64
    assert s.to(gc.complex64).to_dense().dtype is gc.complex64
    assert s.to("cpu") is s or s.to("cpu").device == gc.device("cpu")
    assert (s.to("meta") @ gc.ones(3, 4, device="meta")).shape == (2, 4)
    half = s.bfloat16() @ gc.ones(3, dtype=gc.bfloat16)
    assert half.dtype is gc.bfloat16
    assert half.tolist() == [3.0, 9.0]


def test_duplicates_are_added() -> None:
    s = gc.sparse_coo_tensor([[1, 0, 1], [2, 0, 2]], [1.0, 2.0, 10.0], (2, 3))
    assert not s.is_coalesced()
    t = s.coalesce()
    assert t.indices().tolist() == [[0, 1], [0, 2]]
    assert t.values().tolist() == [2.0, 11.0]
    assert (s**2).to_dense().tolist() == [[4, 0, 0], [0, 0, 121]]
    assert (s * s).to_dense().tolist() == [[4, 0, 0], [0, 0, 121]]
    assert (s @ gc.ones(3)).tolist() == [2.0, 11.0]
    with pytest.raises(RuntimeError, match="Cannot get values on an uncoalesced tensor"):
        s.values()


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
def test_nothing_stored(layout: str) -> None:
    s = gc.zeros(3, 4).to_sparse(layout=getattr(gc, layout)).requires_grad_()
    d = gc.ones(4, 2, requires_grad=True)
    y = (s @ d).sum() + s.sum() + (s * 2).to_dense().sum() + gc.sin(s).to_dense().sum()
    y.backward()
    assert y == 0
    assert s.grad._nnz() == 0
    assert not d.grad.any()
    for made_of in (s + s, s * s, s.t(), gc.sparse.softmax(s, 1), s.sum(1, keepdim=True), s @ s.t(), gc.cat([s, s])):
        assert made_of._nnz() == 0
    assert gc.zeros(0, 3).to_sparse().to_dense().shape == (0, 3)
    assert (gc.zeros(2, 0).to_sparse() @ gc.zeros(0, 3)).tolist() == [[0.0] * 3] * 2


def test_text() -> None:
    assert repr(made(requires_grad=True, device="cpu")) == (
        "tensor(indices=tensor([[0, 1, 1],\n                       [2, 0, 2]]),\n"
        "       values=tensor([3., 4., 5.]),\n"
        "       size=(2, 3), nnz=3, layout=torch.sparse_coo, requires_grad=True)"
    )
    assert repr(made("sparse_csr", device="cpu").double()) == (
        "tensor(crow_indices=tensor([0, 1, 3]),\n       col_indices=tensor([2, 0, 2]),\n"
        "       values=tensor([3., 4., 5.]), size=(2, 3), nnz=3, dtype=torch.float64,\n"
        "       layout=torch.sparse_csr)"
    )
    assert "indices=tensor([], size=(2, 0))" in repr(gc.sparse_coo_tensor((2, 3)))
    assert "device='meta'" in repr(made().to("meta"))


#: Calls that raise, the kind of the error and some of its words.
REFUSED = {
    "exp": (lambda s: s.exp(), NotImplementedError, "Could not run 'aten::exp'"),
    "cos": (gc.cos, NotImplementedError, "'SparseCPU' backend"),
    "max": (lambda s: s.max(), NotImplementedError, "aten::max"),
    "in a sum with numbers": (lambda s: s + 1, RuntimeError, "add(sparse, dense) is not supported"),
    "quotient": (lambda s: s / gc.ones(2, 3), RuntimeError, "Sparse division requires a scalar or zero-dim"),
    "view": (lambda s: s.view(6), NotImplementedError, "aten::view"),
    "reshape": (lambda s: s.reshape(6), RuntimeError, "reshape is not implemented for sparse tensors"),
    "numpy": (lambda s: s.numpy(), TypeError, "can't convert Sparse layout tensor to numpy"),
    "asarray": (np.asarray, TypeError, "can't convert Sparse layout tensor to numpy"),
    "ufunc": (np.exp, NotImplementedError, "aten::exp"),
    "bool": (bool, RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
    "item": (lambda s: s.item(), RuntimeError, "a Tensor with 6 elements cannot be converted to Scalar"),
    "power zero": (lambda s: s**0, RuntimeError, "cannot raise to zeroth power"),
    "comparison": (lambda s: s > 0, NotImplementedError, "aten::gt"),
    "written element": (lambda s: s.__setitem__(0, 1.0), NotImplementedError, "aten::__setitem__"),
    "mixed dtypes": (lambda s: s @ gc.ones(3, dtype=gc.float64), RuntimeError, "expected scalar type Float but found"),
    "sizes": (lambda s: s @ gc.ones(2, 2), RuntimeError, "shapes cannot be multiplied (2x3 and 2x2)"),
    "sum of sizes": (lambda s: gc.ones(2, 2) + s, RuntimeError, "expected 'self' and 'other' to have same size"),
    "a loss": (lambda s: gc.nn.functional.mse_loss(s, s), NotImplementedError, "mse_loss"),
    "memory": (lambda s: s.data_ptr(), RuntimeError, "Cannot access data pointer"),
    "vmap": (gc.vmap(lambda s: s.to_dense()), RuntimeError, "a sparse tensor has no batch dim"),
    "rows": (lambda s: s.crow_indices(), RuntimeError, "expected sparse row compressed tensor layout but got Sparse"),
    "dense gradient": (lambda s: setattr(s, "grad", gc.ones(2, 3)), RuntimeError, "data of a different type"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    call, error, words = REFUSED[name]
    with pytest.raises(error) as caught:
        call(made())
    assert words in str(caught.value)


def test_every_operation_is_known_or_refused() -> None:
    """No operation computes with a sparse tensor as if it were an array."""
    from gradcore.ops.declare.table import OPS
    from gradcore.sparse.tensor import FUNCTIONS

    s = made(requires_grad=True)
    for op in OPS.values():
        if not op.function or op.name in FUNCTIONS or op.path.rpartition(".")[2] in FUNCTIONS or not op.tensors:
            continue
        args = [[s] if p in op.sequences else s if p in op.tensors else 1 for p in range(len(op.parameters))]
        while len(args) > 1 and op.parameters[len(args) - 1].default is not op.parameters[0].empty:
            args.pop()
        with pytest.raises((NotImplementedError, RuntimeError, TypeError, ValueError)):
            op.call(*args)


BAD = {
    "bounds": (lambda: gc.sparse_coo_tensor(INDEX, VALUES, (2, 2)), "size is inconsistent with indices: for dim 1"),
    "negative": (lambda: gc.sparse_coo_tensor([[-1], [0]], [1.0], (2, 2)), "found negative index -1 for dim 0"),
    "nnz": (lambda: gc.sparse_coo_tensor(INDEX, [1.0]), "indices and values must have same nnz"),
    "dims": (lambda: gc.sparse_coo_tensor([0, 1], [1.0, 2.0]), "indices must be sparse_dim x nnz"),
    "size": (lambda: gc.sparse_coo_tensor(INDEX, VALUES, (2,)), "'len(size) == sparse_dim + dense_dim'"),
    "last": (lambda: gc.sparse_csr_tensor([0, 1, 4], [2, 0, 2], VALUES, (2, 3)), "`crow_indices[..., -1] == nnz`"),
    "first": (lambda: gc.sparse_csc_tensor([1, 1, 3], [2, 0, 2], VALUES, (3, 2)), "`ccol_indices[..., 0] == 0`"),
    "columns": (lambda: gc.sparse_csr_tensor([0, 1, 3], [3, 0, 2], VALUES, (2, 3)), "`0 <= col_indices < ncols`"),
    "sorted": (
        lambda: gc.sparse_csr_tensor([0, 1, 3], [2, 2, 0], VALUES, (2, 3), check_invariants=True),
        "are sorted and distinct",
    ),
    "coalesced": (
        lambda: gc.sparse_coo_tensor([[0, 0]], [1.0, 2.0], is_coalesced=True, check_invariants=True),
        "cannot set is_coalesced to true",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_indices_are_checked(name: str) -> None:
    call, words = BAD[name]
    with pytest.raises(RuntimeError) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc"])
def test_dense_dims_of_matrices_are_refused(name: str) -> None:
    blocksize = ((1, 1),) if name.startswith("to_sparse_bs") else ()
    with pytest.raises(NotImplementedError, match=f"{name}: dense_dim is not supported"):
        getattr(gc.ones(2, 2, 3), name)(*blocksize, 1)
    with pytest.raises(NotImplementedError, match=f"{name}: dense_dim is not supported"):
        getattr(gc.ones(2, 2, 3), name)(*blocksize, dense_dim=1)


def test_strided_tensors_have_no_indices() -> None:
    for name, words in (
        ("indices", "sparse coordinate"),
        ("crow_indices", "sparse row compressed"),
        ("values", "sparse"),
    ):
        with pytest.raises(RuntimeError, match=f"{name} expected {words} tensor layout but got Strided"):
            getattr(gc.ones(2), name)()


def test_scipy_matrices() -> None:
    import scipy.sparse

    for form in ("coo", "csr", "csc", "bsr", "dia", "lil"):
        matrix = scipy.sparse.coo_array(np.array(DENSE)).asformat(form)
        s = gc.sparse.from_scipy(matrix)
        assert s.to_dense().tolist() == DENSE
        if not s.is_cuda:
            assert gc.sparse.to_scipy(s).toarray().tolist() == DENSE
    d = gc.ones(2, 2, dtype=gc.float64, requires_grad=True)
    (d @ matrix).sum().backward()
    assert d.grad.tolist() == [[3.0, 9.0]] * 2
    assert gc.sparse.mm(matrix.T, d).requires_grad
    with pytest.raises(RuntimeError, match="requires grad"):
        matrix.T.tocsr() @ d
    with pytest.raises(RuntimeError, match="requires grad"):
        gc.sparse.to_scipy(made(requires_grad=True))


def test_modules_with_sparse_buffers() -> None:
    class Graph(gc.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("adjacency", made("sparse_csr"))
            self.layer = gc.nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.adjacency @ self.layer(x)

    module, other = Graph(), Graph()
    with gc.no_grad():
        other.adjacency.mul_(3)
    module.load_state_dict(other.state_dict())
    assert gc.allclose(module.adjacency.to_dense(), 3 * gc.tensor(DENSE))
    module.double()
    assert module(gc.ones(3, 4, dtype=gc.float64)).dtype is gc.float64
    module(gc.ones(3, 4, dtype=gc.float64)).sum().backward()
    assert module.layer.weight.grad is not None


def test_a_graph_convolution_learns() -> None:
    """Two groups of nodes, joined by few edges: two nodes with a label are enough."""
    rng = np.random.default_rng(0)
    n = 40
    group = np.arange(n) % 2
    edges = [(i, j) for i in range(n) for j in range(i) if rng.random() < (0.4 if group[i] == group[j] else 0.02)]
    rows, cols = np.array(edges + [e[::-1] for e in edges] + [(i, i) for i in range(n)]).T
    degree = np.bincount(rows) ** -0.5
    index = gc.tensor(np.stack([rows, cols]))
    adjacency = gc.sparse_coo_tensor(index, gc.tensor(degree[rows] * degree[cols], dtype=gc.float32), (n, n))
    adjacency = adjacency.to_sparse_csr()
    gc.manual_seed(0)
    first, second = gc.nn.Linear(n, 8), gc.nn.Linear(8, 2)
    optimizer = gc.optim.Adam([*first.parameters(), *second.parameters()], lr=0.05)
    labels = gc.tensor(group)
    for _ in range(60):
        hidden = gc.relu(adjacency @ first(gc.eye(n)))
        scores = adjacency @ second(hidden)
        loss = gc.nn.functional.cross_entropy(scores[:2], labels[:2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (scores.argmax(1) == labels).float().mean() > 0.9


def test_numpy_and_cupy_arrays_take_part() -> None:
    s = made()
    assert (s @ np.ones(3, np.float32)).tolist() == [3.0, 9.0]
    assert np.sin(s).layout is gc.sparse_coo
    assert (s * np.float32(2)).to_dense().tolist() == (2 * gc.tensor(DENSE)).tolist()


LAYOUTS = {"coo": {}, "csr": {}, "csc": {}, "bsr": {"blocksize": (2, 3)}, "bsc": {"blocksize": (2, 3)}}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_combinations_of_layouts(layout):
    """Compute with every layout what PyTorch computes with some only: dense operands, means, parts of blocks."""
    rng = np.random.default_rng(0)
    dense = gc.tensor(rng.standard_normal((4, 6)) * (rng.random((4, 6)) < 0.5), requires_grad=True)
    other = gc.tensor(rng.standard_normal((4, 6)))
    s = getattr(dense, f"to_sparse_{layout}")(*LAYOUTS[layout].values())
    pairs = {
        "right": (s + other, dense + other),
        "left": (other + s, other + dense),
        "minus": (s - other, dense - other),
        "alpha": (gc.add(s, other, alpha=3), gc.add(dense, other, alpha=3)),
        "mean": (s.mean(), dense.mean()),
        "mean of rows": (s.mean(1), dense.mean(1)),
        "cat": (gc.cat([s, s], 0), gc.cat([dense, dense], 0)),
        "index_select": (s.index_select(0, gc.tensor([2, 3])), dense[2:]),
    }
    mask = dense.detach() != 0
    for name, (found, expected) in pairs.items():
        found = found.to_dense() if found.layout is not gc.strided else found
        np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-12, atol=1e-14, err_msg=name)
        (mine,), (theirs,) = (gc.autograd.grad(y.square().sum(), dense, retain_graph=True) for y in (found, expected))
        np.testing.assert_allclose(
            (mine * mask).detach(), (theirs * mask).detach(), rtol=1e-12, atol=1e-14, err_msg=name
        )


@pytest.mark.parametrize("span", [10, 2**20, 2**33, 2**40, 2**55, 2**62])
def test_orders_of_wide_integers_are_stable(span):
    """Of places in large matrices: the sort by digits gives what NumPy's stable one does."""
    rng = np.random.default_rng(0)
    for shape in ((5000,), (40, 300), (300, 40), (2**18 + 5,)):
        values = rng.integers(-span // 2, span // 2, shape)
        values.reshape(-1)[::3] = values.reshape(-1)[0]
        for dim in range(len(shape)):
            for x, descending in ((values, False), (~values, True)):
                order = values.argsort(axis=dim, kind="stable")
                found = gc.tensor(x).sort(dim, stable=True, descending=descending)
                np.testing.assert_array_equal(found.indices, order)
                np.testing.assert_array_equal(found.values, np.take_along_axis(x, order, dim))
                found = gc.tensor(x).argsort(dim, stable=True, descending=descending)
                np.testing.assert_array_equal(found, order)


DTYPES = ["bool", "uint8", "int8", "float16", "complex64"]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "add_", "sub_", "mul_"])
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_dtypes_are_those_of_dense_tensors(layout: str, name: str) -> None:
    """Every pair of dtypes gives the numbers or the error of dense tensors: with equal indices, others, and dense."""

    def result(call: Any) -> Any:
        try:
            found = call()
        except RuntimeError as error:
            return str(error)
        return found.dtype, found.to_dense().tolist()

    settings = {} if "mul" in name else {"alpha": 2}
    for first in DTYPES:
        for second in DTYPES:
            x, same, other = (
                gc.tensor(values).to(getattr(gc, dtype))
                for values, dtype in (([[1, 0], [2, 3]], first), ([[4, 0], [1, 7]], second), ([[4, 1], [0, 7]], second))
            )
            for y in (same, other):
                for make in ("s", "d"):
                    sparse = [t.to_sparse(layout=getattr(gc, layout)) for t in (x, y)]
                    left = sparse[0] if make == "s" else x.clone()
                    found = result(lambda left=left, right=sparse[1]: getattr(left, name)(right, **settings))
                    expected = result(lambda x=x, y=y: getattr(x.clone(), name)(y, **settings))
                    assert found == expected, (first, second, make, y.tolist())
