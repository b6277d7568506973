"""Views share memory, know their base, and keep gradients right when one or the other is written in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc

X = np.arange(1.0, 13.0).reshape(3, 4)

VIEWS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "x[1]": (lambda x: x[1], "SelectBackward0"),
    "x[-1]": (lambda x: x[-1], "SelectBackward0"),
    "x[1:]": (lambda x: x[1:], "SliceBackward0"),
    "x[::-2]": (lambda x: x[::-2], "SliceBackward0"),
    "x[...]": (lambda x: x[...], "AliasBackward0"),
    "x[()]": (lambda x: x[()], "AliasBackward0"),
    "x[None]": (lambda x: x[None], "UnsqueezeBackward0"),
    "x[:, 1]": (lambda x: x[:, 1], "SelectBackward0"),
    "x[1, 1:]": (lambda x: x[1, 1:], "SliceBackward0"),
    "x[1, 2]": (lambda x: x[1, 2], "SelectBackward0"),
    "x[1, None]": (lambda x: x[1, None], "UnsqueezeBackward0"),
    "x[..., 0]": (lambda x: x[..., 0], "SelectBackward0"),
    "x[0:3, 2]": (lambda x: x[0:3, 2], "SelectBackward0"),
    "view": (lambda x: x.view(2, 6), "ViewBackward0"),
    "view(-1)": (lambda x: x.view(-1), "ViewBackward0"),
    "reshape": (lambda x: x.reshape(4, 3), "ViewBackward0"),
    "flatten": (lambda x: x.flatten(), "ViewBackward0"),
    "unflatten": (lambda x: x.unflatten(1, (2, 2)), "ViewBackward0"),
    "t": (lambda x: x.t(), "TBackward0"),
    "T": (lambda x: x.T, "PermuteBackward0"),
    "mT": (lambda x: x.mT, "TransposeBackward0"),
    "transpose": (lambda x: x.transpose(0, 1), "TransposeBackward0"),
    "swapaxes": (lambda x: x.swapaxes(0, 1), "TransposeBackward0"),
    "permute": (lambda x: x.permute(1, 0), "PermuteBackward0"),
    "movedim": (lambda x: x.movedim(0, 1), "PermuteBackward0"),
    "unsqueeze": (lambda x: x.unsqueeze(1), "UnsqueezeBackward0"),
    "squeeze": (lambda x: x.squeeze(), "SqueezeBackward0"),
    "squeeze(0)": (lambda x: x.squeeze(0), "SqueezeBackward1"),
    "squeeze((0, 1))": (lambda x: x.squeeze((0, 1)), "SqueezeBackward2"),
    "expand": (lambda x: x.expand(3, 4), "ExpandBackward0"),
    "narrow": (lambda x: x.narrow(1, 1, 2), "SliceBackward0"),
    "select": (lambda x: x.select(1, 2), "SelectBackward0"),
    "diagonal": (lambda x: x.diagonal(1), "DiagonalBackward0"),
    "unfold": (lambda x: x.unfold(1, 2, 2), "UnfoldBackward0"),
    "as_strided": (lambda x: x.as_strided((2, 2), (4, 2), 1), "AsStridedBackward0"),
    "tensor_split": (lambda x: x.tensor_split(2)[1], "SliceBackward0"),
    "split": (lambda x: x.split(2)[0], "SplitBackward0"),
    "split sizes": (lambda x: x.split((1, 2))[1], "SplitWithSizesBackward0"),
    "chunk": (lambda x: x.chunk(2, 1)[1], "SplitBackward0"),
    "unbind": (lambda x: x.unbind(1)[3], "UnbindBackward0"),
    "iteration": (lambda x: list(x)[2], "UnbindBackward0"),
}
SEVERAL = {"split", "split sizes", "chunk", "unbind", "iteration"}
views = pytest.mark.parametrize("name", VIEWS)
writable = pytest.mark.parametrize("name", [name for name in VIEWS if name not in SEVERAL])


def leaf(values: Any = X) -> gc.Tensor:
    return gc.tensor(values, requires_grad=True)


def numeric(function: Callable[[Any], Any], *inputs: np.ndarray[Any, Any], step: float = 1e-6) -> list[Any]:
    """Central differences of a number computed by `function` on tensors."""
    grads = []
    for k, array in enumerate(inputs):
        grad = np.zeros_like(array)
        for i in np.ndindex(array.shape):
            sides = []
            for sign in (1, -1):
                moved = [a.copy() for a in inputs]
                moved[k][i] += sign * step
                sides.append(function(*[gc.tensor(m) for m in moved]).item())
            grad[i] = (sides[0] - sides[1]) / (2 * step)
        grads.append(grad)
    return grads


def agree(function: Callable[..., Any], *inputs: np.ndarray[Any, Any]) -> None:
    """Check that the gradients of `function`, with and without a graph, are the numeric ones."""
    expected = numeric(function, *inputs)
    for create_graph in (False, True):
        tensors = [leaf(a) for a in inputs]
        found = gc.autograd.grad(function(*tensors), tensors, create_graph=create_graph, materialize_grads=True)
        for f, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(f.detach().numpy(), e, rtol=1e-6, atol=1e-6)


# -- what a view is -----------------------------------------------------------------------------------------------


@views
def test_shares_memory_and_knows_its_base(name: str) -> None:
    make, node = VIEWS[name]
    x = leaf()
    base = x * 1
    view = make(base)
    assert np.shares_memory(view.detach().numpy(), base.detach().numpy())
    assert view._is_view()
    assert view._base is base
    assert view.grad_fn.name() == node
    assert view[...]._base is base  # of a view, the same base
    with gc.no_grad():
        base.mul_(2)
        assert view._version == base._version == 1


@views
def test_gradient_of_a_view(name: str) -> None:
    make, _ = VIEWS[name]
    agree(lambda x: (make(x) ** 2).sum(), X)


@views
def test_view_without_history(name: str) -> None:
    make, _ = VIEWS[name]
    x = gc.tensor(X)
    view = make(x)
    view.fill_(7.0)
    assert (x == 7).any()
    assert x._version == 1
    assert view.grad_fn is None


def test_copies_are_no_views() -> None:
    x = leaf()
    for copy in (
        x.t().reshape(12),
        x.t().flatten(),
        x[[0, 1]],
        x.clone(),
        x.flip(0),
        x.repeat(1, 1),
        x.t().contiguous(),
    ):
        assert not copy._is_view()
        assert not np.shares_memory(copy.detach().numpy(), x.detach().numpy())
    assert x.t().reshape(12).grad_fn.name() == "UnsafeViewBackward0"
    assert x.contiguous() is x
    assert x.flatten(0, 0) is x


def test_detached_tensor_is_no_view_but_counts_versions() -> None:
    x = leaf()
    y = x * 1
    d = y.detach()
    d.zero_()
    assert not d._is_view()
    assert y._version == 1


def test_strides_are_those_of_pytorch() -> None:
    x = gc.zeros(3, 4, 5)
    assert x.unsqueeze(0).stride() == (60, 20, 5, 1)
    assert x.unsqueeze(-1).stride() == (20, 5, 1, 1)
    assert x.permute(2, 0, 1).stride() == (1, 20, 5)
    assert x[:, 1].stride() == (20, 1)
    assert x[1:].storage_offset() == 20
    assert x[:, [0, 1]].is_contiguous()
    assert x.permute(2, 0, 1).clone().stride() == (1, 20, 5)
    assert x.permute(2, 0, 1).contiguous().stride() == (12, 4, 1)


def test_view_as_another_dtype() -> None:
    x = gc.tensor([1.0, -2.0])
    bits = x.view(gc.int32)
    assert bits.tolist() == [0x3F800000, -0x40000000]
    bits[0] = 0
    assert x.tolist() == [0.0, -2.0]
    assert x.view(gc.int16).shape == (4,)
    assert x.view(gc.float64).shape == (1,)
    assert x.view(gc.complex64).tolist() == [-2j]
    assert not gc.tensor([1.0], requires_grad=True).view(gc.int32).requires_grad
    with pytest.raises(RuntimeError, match=r"self.size\(-1\) must be divisible by 2 to view Float as Double"):
        gc.zeros(3).view(gc.float64)
    with pytest.raises(RuntimeError, match=r"self.stride\(-1\) must be 1 to view Float as Double"):
        gc.zeros(4, 4)[:, ::2].view(gc.float64)
    with pytest.raises(RuntimeError, match=r"self.dim\(\) cannot be 0 to view Float as Short"):
        gc.tensor(1.0).view(gc.int16)


# -- writing in place ---------------------------------------------------------------------------------------------


@writable
def test_write_through_a_view(name: str) -> None:
    """The base's gradient where the view was multiplied in place by another tensor."""
    make, _ = VIEWS[name]
    weight = np.linspace(0.5, 2.0, 12).reshape(3, 4)

    def run(x: Any, y: Any) -> Any:
        base = x * 1
        view = make(base)
        view.mul_(make(y))
        return (base * base * gc.tensor(weight)).sum()

    agree(run, X, np.linspace(1.0, 2.0, 12).reshape(3, 4))


@writable
def test_write_to_the_base_gives_views_a_new_history(name: str) -> None:
    make, _ = VIEWS[name]

    def run(x: Any, y: Any) -> Any:
        base = x * 1
        view = make(base)
        base.mul_(y)
        return (view * view).sum()

    agree(run, X, np.linspace(1.0, 2.0, 12).reshape(3, 4))


def test_history_after_a_write_by_hand() -> None:
    x = leaf([1.0, 2.0, 3.0])
    y = leaf(5.0)
    base = x * 2
    base[1].mul_(y)  # [2, 20, 6]
    assert base.grad_fn.name() == "torch::autograd::CopySlices"
    names = [edge[0].name() for edge in base.grad_fn.next_functions]
    assert names == ["MulBackward0", "torch::autograd::AccumulateGrad"]
    (base * gc.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [2.0, 100.0, 200.0]
    assert y.grad.item() == 40.0


def test_two_views_written_in_turn() -> None:
    def run(x: Any, y: Any) -> Any:
        base = x * 1
        row, column = base[1], base[:, 2]
        row.mul_(y)
        column.add_(row.sum() * y[0])
        base[0] = y
        return (base**2).sum() + row.sum() * column.sum()

    agree(run, X, np.array([0.5, -1.0, 2.0, 1.5]))


def test_view_of_a_view() -> None:
    def run(x: Any, y: Any) -> Any:
        base = x * 1
        base.t()[1:, ::2].unsqueeze(0)[0, 1].mul_(y)
        return (base**2).sum()

    agree(run, X, np.array([3.0, -2.0]))


def test_leaf_without_grad_joins_the_graph() -> None:
    """A tensor without history takes one up through a write to one of its views."""
    base = gc.zeros(3)
    y = leaf([1.0, 2.0])
    base[1:].copy_(y)
    assert base.requires_grad
    (base * gc.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert y.grad.tolist() == [2.0, 3.0]


@pytest.mark.parametrize("order", ["transposed", "permuted", "user's array"])
def test_bases_in_another_order_of_memory(order: str) -> None:
    """A base whose elements do not lie in the order of its indices, and a view that exists only because of that."""

    def based(x: Any) -> tuple[Any, Any]:
        if order == "transposed":
            base = x.t() * 1
            assert not base.is_contiguous()
            return base, base.t().view(12)
        if order == "permuted":
            base = x.reshape(3, 2, 2).permute(2, 0, 1) * 1
            return base, base.permute(1, 2, 0).view(12)
        base = x.t().clone()
        return base, base.as_strided((12,), (1,))

    def run(x: Any, y: Any) -> Any:
        base, flat = based(x)
        flat[2:7].mul_(y)
        return (base**2 * gc.tensor(np.arange(12.0).reshape(tuple(base.shape)))).sum()

    agree(run, X, np.linspace(0.5, 1.5, 5))


def test_zero_fill_and_copy() -> None:
    def run(x: Any, y: Any) -> Any:
        base = x * 1
        base[0].zero_()
        base[1, :2].fill_(y[0])
        base[:, 3].copy_(y)
        base[2, 1:3] = 1.0
        return (base**2).sum()

    agree(run, X, np.array([1.0, 2.0, 3.0]))


@pytest.mark.parametrize(
    ("write", "node"),
    [
        (lambda t: t.fill_(1.0), "FillBackward2"),
        (lambda t: t.fill_(gc.tensor(1.0)), "FillBackward3"),
        (lambda t: t.zero_(), "ZeroBackward0"),
        (lambda t: t.copy_(gc.ones(4)), "CopyBackwards"),
        (lambda t: t.fill_diagonal_(1.0), "CopySlices"),
        (lambda t: t.squeeze_(), "SqueezeBackward3"),
        (lambda t: t.squeeze_(0), "SqueezeBackward4"),
        (lambda t: t.unsqueeze_(0), "UnsqueezeBackward1"),
        (lambda t: t.transpose_(0, 1), "TransposeBackward1"),
        (lambda t: t.swapaxes_(0, 1), "TransposeBackward1"),
        (lambda t: t.t_(), "TBackward1"),
        (lambda t: t.tril_(), "TrilBackward0"),
    ],
)
def test_nodes_of_writes(write: Callable[[Any], Any], node: str) -> None:
    t = leaf() * 1
    assert write(t) is t
    assert type(t.grad_fn).__name__ == node
    assert t._version == 1


def test_filled_tensor_passes_no_gradient_on() -> None:
    x = leaf([1.0, 2.0])
    y = x * 3
    y.zero_()
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_copy_converts_and_moves() -> None:
    x = gc.zeros(2, dtype=gc.float64)
    y = gc.tensor([1.5, 2.5], dtype=gc.float32, requires_grad=True)
    x.copy_(y)
    x.sum().backward()
    assert x.dtype is gc.float64
    assert y.grad.dtype is gc.float32
    integers = gc.zeros(2, dtype=gc.int64)
    assert integers.copy_(y).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match=r"expanded size of the tensor \(2\) must match the existing size \(3\)"):
        integers.copy_(gc.zeros(3))


def test_shape_in_place() -> None:
    x = leaf()
    y = x * 2
    y.t_()
    assert y.shape == (4, 3)
    assert not y._is_view()
    y[0] = 0.0
    (y**2).sum().backward()
    expected = 8 * X
    expected[:, 0] = 0
    np.testing.assert_allclose(x.grad.numpy(), expected)
    row = (leaf() * 1)[0]
    row.unsqueeze_(0)
    assert row.shape == (1, 4)
    row.zero_()
    assert row._base.tolist()[0] == [0.0] * 4


def test_tangents_of_writes() -> None:
    """Forward mode through views and writes in place, against central differences."""

    def run(x: Any) -> Any:
        y = x * 1
        y[0] = x[1] * 2
        y[[1, 2]] = x[:2] * y[0].sum()
        y[:, 1:3].fill_(x[0, 0])
        y[2, 3:].zero_()
        y.t_()
        y[0].mul_(x[:, 1])
        y.unsqueeze_(0)
        y.copy_(y * y)
        return y

    direction = np.cos(X)
    out, tangent = gc.func.jvp(run, (gc.tensor(X),), (gc.tensor(direction),))
    sides = [run(gc.tensor(X + sign * 1e-6 * direction)).numpy() for sign in (1, -1)]
    assert tangent.shape == out.shape == (1, 4, 3)
    np.testing.assert_allclose(tangent.numpy(), (sides[0] - sides[1]) / 2e-6, rtol=1e-6, atol=1e-6)


# -- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(SEVERAL))
def test_one_of_several_views_is_not_written(name: str) -> None:
    make, node = VIEWS[name]
    view = make(leaf() * 1)
    with pytest.raises(RuntimeError, match=f"of {node.removesuffix('Backward0')} is a view and is being"):
        view.zero_()


def test_leaves_are_not_written() -> None:
    x = leaf()
    with pytest.raises(
        RuntimeError, match=r"^a leaf Variable that requires grad is being used in an in-place operation"
    ):
        x.zero_()
    with pytest.raises(RuntimeError, match=r"^a view of a leaf Variable that requires grad is being used"):
        x[0] = 1.0
    with pytest.raises(RuntimeError, match=r"^a view of a leaf Variable that requires grad is being used"):
        x.view(12).mul_(2)
    with pytest.raises(RuntimeError, match=r"^a leaf Variable that requires grad is being used"):
        x.t_()
    with gc.no_grad():
        x[0] = 1.0
    assert x.tolist()[0] == [1.0] * 4


def test_view_from_no_grad_mode() -> None:
    base = leaf() * 1
    with gc.no_grad():
        view = base[0]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and is being modified inplace"):
        view.mul_(2)


def test_expanded_memory_is_not_written() -> None:
    x = gc.zeros(1)
    for write in (lambda t: t.copy_(gc.ones(3)), lambda t: t.add_(1.0), lambda t: t.fill_(gc.tensor(1.0))):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single"):
            write(x.expand(3))
    x.expand(3).fill_(1.0)  # one number may be written to one place three times
    assert x.item() == 1.0
    x = gc.zeros(2, 3)
    x.expand(2, 3).fill_(1.0)  # nothing is repeated
    assert x.tolist() == [[1.0] * 3] * 2


def test_saved_value_overwritten_through_a_view() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y * y
    y[0] = 5.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


ERRORS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda x: x.reshape(5, 5), RuntimeError, r"shape '\[5, 5\]' is invalid for input of size 12"),
    (lambda x: x.reshape(-1, 5), RuntimeError, r"shape '\[-1, 5\]' is invalid for input of size 12"),
    (lambda x: x.reshape(-1, -1), RuntimeError, "only one dimension can be inferred"),
    (lambda x: x.reshape(-2, 3), RuntimeError, r"invalid shape dimension -2 at index 0 of shape \[-2, 3\]"),
    (lambda x: x[:0].reshape(-1, 0), RuntimeError, r"cannot reshape tensor of 0 elements into shape \[-1, 0\] because"),
    (lambda x: x.t().view(12), RuntimeError, r"view size is not compatible .*Use .reshape\(...\) instead"),
    (
        lambda x: x.expand(2, 4),
        RuntimeError,
        r"expanded size of the tensor \(2\) must match the existing size \(3\) at",
    ),
    (lambda x: x.expand(4), RuntimeError, r"number of sizes provided \(1\) must be greater or equal to the number of"),
    (lambda x: x.expand(-1, 3, 4), RuntimeError, r"expanded size of the tensor \(-1\) isn't allowed in a leading"),
    (lambda x: x.permute(0), RuntimeError, r"input.dim\(\) = 2 is not equal to len\(dims\) = 1"),
    (lambda x: x.permute(0, 0), RuntimeError, r"permute\(\): duplicate dims are not allowed"),
    (lambda x: x.permute(0, 2), IndexError, r"expected to be in range of \[-2, 1\], but got 2"),
    (lambda x: x.transpose(0, 2), IndexError, r"expected to be in range of \[-2, 1\], but got 2"),
    (lambda x: x[None].t(), RuntimeError, r"t\(\) expects a tensor with <= 2 dimensions, but self is 3D"),
    (lambda x: x[0].mT, RuntimeError, "tensor.mT is only supported on matrices or batches of matrices. Got 1-D"),
    (lambda x: x[None].H, RuntimeError, r"tensor.H is only supported on matrices \(2-D tensors\). Got 3-D tensor"),
    (lambda x: x.squeeze(2), IndexError, r"expected to be in range of \[-2, 1\], but got 2"),
    (lambda x: x.squeeze((0, 0)), RuntimeError, "dim 0 appears multiple times"),
    (lambda x: x.unsqueeze(3), IndexError, r"expected to be in range of \[-3, 2\], but got 3"),
    (lambda x: x.flatten(1, 0), RuntimeError, "start_dim cannot come after end_dim"),
    (lambda x: x.unflatten(1, (3, 2)), RuntimeError, r"\[3, 2\] don't multiply up to the size of dim 1 \(4\)"),
    (lambda x: x.movedim((0, 1), (0, 0)), RuntimeError, r"movedim: repeated dim in `destination` \(\[0, 0\]\)"),
    (lambda x: x.narrow(0, 2, 2), RuntimeError, r"start \(2\) \+ length \(2\) exceeds dimension size \(3\)"),
    (lambda x: x.select(0, 3), IndexError, r"index 3 out of range for tensor of size \[3, 4\] at dimension 0"),
    (lambda x: x.diagonal(0, 1, 1), RuntimeError, "diagonal dimensions cannot be identical 1, 1"),
    (lambda x: x.unfold(0, 4, 1), RuntimeError, "maximum size for tensor at dimension 0 is 3 but size is 4"),
    (lambda x: x.unfold(0, 1, 0), RuntimeError, "step is 0 but must be > 0"),
    (
        lambda x: x.as_strided((4, 4), (4, 1)),
        RuntimeError,
        "requiring a storage size of 128 are out of bounds for storage of size 96",
    ),
    (
        lambda x: x.split(0),
        RuntimeError,
        "split_size can only be 0 if dimension size is 0, but got dimension size of 3",
    ),
    (lambda x: x.split((1, 1)), RuntimeError, r"sum exactly to 3 .* but got split_sizes=\[1, 1\]"),
    (lambda x: x.chunk(0), RuntimeError, "chunk expects `chunks` to be greater than 0, got: 0"),
    (lambda x: gc.cat([x, x[0]]), RuntimeError, "Tensors must have same number of dimensions: got 2 and 1"),
    (lambda x: gc.cat([x, x[:, :2]]), RuntimeError, "Expected size 4 but got size 2 for tensor number 1 in the list"),
    (lambda x: gc.cat([x[0, 0], x[0, 0]]), RuntimeError, r"zero-dimensional tensor \(at position 0\) cannot be"),
    (
        lambda x: gc.stack([x, x[0]]),
        RuntimeError,
        r"each tensor to be equal size, but got \[3, 4\] at entry 0 and \[4\]",
    ),
    (lambda x: x.flip((0, 0)), RuntimeError, "dim 0 appears multiple times in the list of dims"),
    (lambda x: x.repeat(2), RuntimeError, "Number of dimensions of repeat dims can not be smaller"),
    (lambda x: x.roll((1, 2), 0), RuntimeError, "shifts and dimensions must align. shifts: 2, dims:1"),
    (lambda x: x[0].tril(), RuntimeError, "tril: input tensor must have at least 2 dimensions"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number: int) -> None:
    call, error, text = ERRORS[number]
    with pytest.raises(error, match=text):
        call(gc.tensor(X))


# -- joins and splits ---------------------------------------------------------------------------------------------


def test_cat_skips_empty_vectors_and_promotes() -> None:
    x = leaf()
    out = gc.cat([gc.zeros(0), x, gc.ones(1, 4, dtype=gc.int64)])
    assert out.shape == (4, 4)
    assert out.dtype is gc.float64
    out.sum().backward()
    assert x.grad.tolist() == np.ones((3, 4)).tolist()
    assert gc.cat([gc.zeros(2, dtype=gc.int32), gc.zeros(2, dtype=gc.bool)]).dtype is gc.int32


def test_split_in_three_and_use_one() -> None:
    x = leaf()
    _, middle, _ = x.split((1, 1, 1))
    (middle * 2).sum().backward()
    assert x.grad.tolist() == [[0.0] * 4, [2.0] * 4, [0.0] * 4]


def test_iteration_over_rows() -> None:
    agree(lambda x: sum(((i + 1) * row.sum() ** 2 for i, row in enumerate(x)), gc.tensor(0.0)), X)


def test_meshgrid_and_products() -> None:
    a, b = gc.tensor([1, 2]), gc.tensor([3, 4, 5])
    first, second = gc.meshgrid(a, b, indexing="xy")
    assert first.tolist() == [[1, 2]] * 3
    assert second.tolist() == [[3, 3], [4, 4], [5, 5]]
    assert gc.cartesian_prod(a, b).tolist() == [[1, 3], [1, 4], [1, 5], [2, 3], [2, 4], [2, 5]]
    assert gc.combinations(b).tolist() == [[3, 4], [3, 5], [4, 5]]
    assert gc.combinations(b, 2, with_replacement=True).shape == (6, 2)
    assert gc.block_diag(a, gc.tensor([[7], [8]])).tolist() == [[1, 2, 0], [0, 0, 7], [0, 0, 8]]
    assert [t.shape for t in gc.broadcast_tensors(gc.zeros(2, 1), gc.zeros(3))] == [(2, 3), (2, 3)]
    assert gc.atleast_3d(a).shape == (1, 2, 1)
    assert [t.shape for t in gc.atleast_2d(gc.tensor(1.0), a)] == [(1, 1), (1, 2)]


def test_adjoints_of_complex_matrices() -> None:
    z = gc.tensor([[1 + 2j, 3j], [4.0, 5 - 1j]])
    assert z.mH.tolist() == z.H.tolist() == z.adjoint().tolist() == [[1 - 2j, 4], [-3j, 5 + 1j]]
    assert z.mT.tolist() == z.T.tolist()


def test_unsafe_pieces_may_be_written_to() -> None:
    x = gc.ones(4, requires_grad=True)
    for pieces in (x.unsafe_split(2), x.unsafe_chunk(2), gc.unsafe_split_with_sizes(x * 1, (2, 2))):
        assert not any(piece._is_view() for piece in pieces)
        pieces[0].mul_(3)
        (grad,) = gc.autograd.grad(gc.cat(pieces).sum(), x)
        assert grad.tolist() == [3.0, 3.0, 1.0, 1.0]
    assert gc.ones(2, requires_grad=True).unsafe_split(1)[0].grad_fn.name() == "UnsafeSplitBackward0"


def test_memory_of_any_order() -> None:
    x = gc.empty_strided((2, 3), (1, 2), dtype=gc.float64, requires_grad=True)
    assert (x.shape, x.stride(), x.dtype, x.is_leaf, x._is_view()) == ((2, 3), (1, 2), gc.float64, True, False)
    assert gc.empty_strided((0, 3), (3, 1)).shape == (0, 3)
    assert gc.ones(2).double().new_empty_strided((2, 2), (1, 2)).dtype is gc.float64
    with pytest.raises(RuntimeError, match=r"dimensionality of sizes \(2\) must match dimensionality of strides \(1\)"):
        gc.empty_strided((2, 3), (1,))


# -- other devices ------------------------------------------------------------------------------------------------


@views
def test_views_on_a_strict_device(name: str, strict: str) -> None:
    make, node = VIEWS[name]
    x = gc.tensor(X, device=strict, requires_grad=True)
    view = make(x * 1)
    assert view.grad_fn.name() == node
    assert view._is_view()
    view.sum().backward()
    here = leaf()
    make(here).sum().backward()
    assert x.grad.tolist() == here.grad.tolist()


@views
def test_views_on_the_meta_device(name: str) -> None:
    make, node = VIEWS[name]
    view = make(gc.tensor(X, device="meta", requires_grad=True) * 1)
    real = make(leaf() * 1)
    assert view.shape == real.shape
    assert view.stride() == real.stride()
    assert view.grad_fn.name() == node
    assert view._is_view()


@pytest.mark.parametrize("copy", [gc.clone, gc.Tensor.double, gc.Tensor.half, lambda x: x.to(gc.complex64)])
@pytest.mark.parametrize("sizes", [(1, 4), (4,), (2, 1, 3), (1, 2, 1), (3, 1)])
def test_copies_of_expanded_tensors_can_be_viewed_flat(copy: Callable[[Any], Any], sizes: tuple[int, ...]) -> None:
    """An expanded dim of a copy lies where row-major order has it, as in PyTorch, not innermost, as in NumPy's."""
    target = tuple(5 if n == 1 else n for n in ((1,) * (4 - len(sizes)) + sizes))
    x = gc.arange(float(np.prod(sizes))).reshape(sizes).expand(target)
    assert copy(x).view(-1).tolist() == x.reshape(-1).tolist()
    turned = gc.ones(2, 1, 4).expand(2, 3, 4).transpose(0, 2)
    assert copy(turned).stride() == (1, 4, 12)  # PyTorch's
