"""Reading and writing by index: NumPy's results, PyTorch's rules, and gradients that add up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradcore as gc
from tests.ops.test_views import X, agree, leaf

# -- against NumPy ------------------------------------------------------------------------------------------------

sizes = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)


@st.composite
def keys(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Draw a key of any items for a tensor of `shape`. Index arrays broadcast to one shape."""
    common = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    key: list[Any] = []
    dim, dots = 0, False
    while len(key) < 6:
        kinds = ["none"] if dots else ["none", "dots"]
        if dim < len(shape):
            kinds += ["slice", "slice", "mask"]
            kinds += ["int", "array", "array"] if shape[dim] else []
        kind = draw(st.sampled_from([*kinds, "end", "end"]))
        if kind == "end":
            break
        if kind == "none":
            key.append(None)
            continue
        if kind == "dots":
            key.append(Ellipsis)
            dots = True
            break
        n = shape[dim]
        if kind == "int":
            key.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            ends = st.one_of(st.none(), st.integers(-n - 1, n + 1))
            key.append(slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 2, -1, -2]))))
        elif kind == "array":
            own = tuple(draw(st.sampled_from([m, 1])) for m in common)
            flat = draw(st.lists(st.integers(-n, n - 1), min_size=int(np.prod(own)), max_size=int(np.prod(own))))
            key.append(np.array(flat, dtype=np.int64).reshape(own))
        elif kind == "mask":
            if any(isinstance(k, np.ndarray) for k in key):  # together with arrays, counts would have to fit
                continue
            mask = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=bool)
            key.append(mask)
            common = [int(mask.sum())]
        dim += 1
    return tuple(key)


@st.composite
def calls(draw: Any) -> tuple[np.ndarray[Any, Any], tuple[Any, ...]]:
    shape = draw(sizes)
    values = np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)
    return values, draw(keys(shape))


def in_two_steps(key: tuple[Any, ...], ndim: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Split a key into ints, slices and None, and the index arrays for their result, by PyTorch's rules."""
    used = sum(k is not None and k is not Ellipsis for k in key)
    first: list[Any] = []
    second: list[Any] = []
    for k in key:
        if isinstance(k, np.ndarray):
            first.append(slice(None))
            second.append(k)
        elif isinstance(k, int):
            first.append(k)
        elif k is Ellipsis:
            first += [slice(None)] * (ndim - used)
            second += [slice(None)] * (ndim - used)
        else:
            first.append(k)
            second.append(slice(None))
    return tuple(first), tuple(second)


def as_tensors(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(gc.tensor(k) if isinstance(k, np.ndarray) else k for k in key)


@given(calls())
def test_reading(call: tuple[Any, Any]) -> None:
    values, key = call
    first, second = in_two_steps(key, values.ndim)
    x = gc.tensor(values, requires_grad=True)
    if any(isinstance(k, np.ndarray) for k in key):
        expected = values[first][second]
        assert x[as_tensors(key)].is_contiguous()
        assert not x[as_tensors(key)]._is_view()
    else:
        expected = values[key]
    for each in (as_tensors(key), key):
        found = x[each]
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found.detach().numpy(), expected)
    upstream = np.cos(np.arange(expected.size)).reshape(expected.shape)
    (found * gc.tensor(upstream)).sum().backward()
    scattered = np.zeros_like(values)
    places = np.arange(values.size).reshape(values.shape)[first][second]
    np.add.at(scattered.reshape(-1), places.reshape(-1), upstream.reshape(-1))
    np.testing.assert_allclose(x.grad.numpy(), scattered, atol=1e-12)


@given(calls(), st.sampled_from(["number", "tensor", "broadcast"]))
def test_writing(call: tuple[Any, Any], what: str) -> None:
    values, key = call
    first, second = in_two_steps(key, values.ndim)
    places = np.arange(values.size).reshape(values.shape)[first][second]
    new = np.sin(np.arange(places.size)).reshape(places.shape)
    if what == "number":
        new = np.full(places.shape, -3.0)
    elif what == "broadcast" and new.ndim:
        new = np.broadcast_to(new[:1], new.shape)
    # Of a place that is named twice the last value stays; equal ones make that certain.
    distinct = places.size == len(np.unique(places))
    if not distinct:
        new = np.full(places.shape, 2.5)
    x = gc.tensor(values, requires_grad=True)
    v = gc.tensor(new[:1] if what == "broadcast" and new.ndim and distinct else new, requires_grad=True)
    target = x * 1
    target[as_tensors(key)] = -3.0 if what == "number" and distinct else v
    expected = values.copy()
    expected.reshape(-1)[places.reshape(-1)] = new.reshape(-1)
    np.testing.assert_array_equal(target.detach().numpy(), expected)
    weights = np.arange(1.0, 1.0 + values.size).reshape(values.shape)
    if not target.requires_grad:
        return
    (target * gc.tensor(weights)).sum().backward()
    kept = np.array(weights)
    kept.reshape(-1)[places.reshape(-1)] = 0
    np.testing.assert_array_equal(x.grad.numpy(), kept)
    if v.grad is not None and distinct:
        upstream = weights.reshape(-1)[places]
        np.testing.assert_allclose(v.grad.numpy().sum(), upstream.sum())
        if v.shape == upstream.shape:
            np.testing.assert_array_equal(v.grad.numpy(), upstream)


# -- PyTorch's rules ----------------------------------------------------------------------------------------------


def test_ints_are_taken_before_arrays() -> None:
    x = gc.zeros(2, 3, 4)
    assert x[0, :, [0, 1]].shape == (3, 2)  # NumPy: (2, 3)
    assert x[[0, 1], :, [0, 1]].shape == (2, 3)
    assert x[:, [0, 1], [0, 1]].shape == (2, 2)
    assert x[[[0], [1]], ..., [0, 1]].shape == (2, 2, 3)


def test_lists_of_sequences_are_tuples() -> None:
    x = gc.arange(12).reshape(3, 4)
    assert x[[0, 2]].shape == (2, 4)
    for key, wanted in (
        ([[0, 2], [1, 3]], [1, 11]),
        ([slice(0, 1), 2], [2]),
        ([gc.tensor(1), gc.tensor(2)], 6),
    ):
        with pytest.warns(UserWarning, match="a list that holds sequences is taken as a tuple of indices"):
            assert x[key].tolist() == wanted
    assert x[range(2)].shape == (2, 4)


def test_bools_and_bytes() -> None:
    x = gc.arange(3)
    assert x[True].tolist() == [[0, 1, 2]]
    assert x[False].shape == (0, 3)
    assert x[gc.tensor(True)].shape == (1, 3)
    assert x[x > 0].tolist() == [1, 2]
    assert x[[True, False, True]].tolist() == [0, 2]
    with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated"):
        assert x[gc.tensor([1, 0, 1], dtype=gc.uint8)].tolist() == [0, 2]  # bytes are masks
    assert x[np.array([False, False, True])].tolist() == [2]
    x[True] = 7
    x[False] = 8
    assert x.tolist() == [7, 7, 7]


def test_integers_of_every_kind() -> None:
    x = leaf()
    for one in (1, np.int64(1), np.array(1), gc.tensor(1), gc.tensor(1, dtype=gc.int16)[None].sum()):
        view = x[one]
        assert view.tolist() == X[1].tolist()
        assert view.grad_fn.name() == "SelectBackward0"
    assert x[gc.tensor([0, 2], dtype=gc.int32)].shape == (2, 4)
    assert x[gc.tensor(1) : gc.tensor(3)].shape == (2, 4)
    assert x[:, gc.tensor(2)].tolist() == X[:, 2].tolist()


def test_nodes() -> None:
    x = leaf()
    assert x[[0, 1]].grad_fn.name() == "IndexBackward0"
    assert x[0, [0, 1]].grad_fn.next_functions[0][0].name() == "SelectBackward0"
    y = x * 1
    y[[0, 1]] = 1.0
    assert y.grad_fn.name() == "IndexPutBackward0"
    y[0, [0, 1]] = 1.0
    assert type(y.grad_fn).__name__ == "CopySlices"
    y[:] = 1.0
    assert y.grad_fn.name() == "FillBackward2"
    node = x[-1].grad_fn
    assert (node._saved_dim, node._saved_index, node._saved_self_sym_sizes) == (0, -1, (3, 4))
    node = x[1:3].grad_fn
    assert (node._saved_dim, node._saved_start, node._saved_end, node._saved_step) == (0, 1, 3, 1)


ERRORS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda x: x[5], IndexError, "^index 5 is out of bounds for dimension 0 with size 3$"),
    (lambda x: x[-4], IndexError, "^index -4 is out of bounds for dimension 0 with size 3$"),
    (lambda x: x[0, 4], IndexError, "^index 4 is out of bounds for dimension 1 with size 4$"),
    (lambda x: x[[0, 5]], IndexError, "^index 5 is out of bounds for dimension 0 with size 3$"),
    (lambda x: x[:, [0, -5]], IndexError, "^index -5 is out of bounds for dimension 1 with size 4$"),
    (lambda x: x[[0, 1], [0, 7]], IndexError, "^index 7 is out of bounds for dimension 1 with size 4$"),
    (lambda x: x[:, :0][:, [0, 1]], IndexError, "^index is out of bounds for dimension with size 0$"),
    (lambda x: x[:0, :0][:, [0]], IndexError, "^index is out of bounds for dimension with size 0$"),
    (lambda x: x[:0][[0, 1], [0, 1]], IndexError, "^index is out of bounds for dimension with size 0$"),
    (lambda x: x[:0].__setitem__([1], 0.0), IndexError, "^index is out of bounds for dimension with size 0$"),
    (lambda x: x[0, 0, 0], IndexError, "^too many indices for tensor of dimension 2$"),
    (lambda x: x[:, :, None, :], IndexError, "^too many indices for tensor of dimension 2$"),
    (lambda x: x[[0], [0], [0]], IndexError, "^too many indices for tensor of dimension 2$"),
    (lambda x: x[0, 0][0], IndexError, "^invalid index of a 0-dim tensor. Use `tensor.item"),
    (lambda x: x[0, 0][:1], IndexError, r"^slice\(\) cannot be applied to a 0-dim tensor"),
    (lambda x: x[1.0], IndexError, r"^only integers, slices .* are valid indices \(got float\)$"),
    (lambda x: x["a"], TypeError, r"are valid indices \(got str\)$"),
    (lambda x: x[gc.tensor(1.0)], IndexError, "^tensors used as indices must be long, int, byte or bool tensors$"),
    (
        lambda x: x[gc.tensor([1], dtype=gc.int16)],
        IndexError,
        "^tensors used as indices must be long, int, byte or bool",
    ),
    (lambda x: x[[0, 1], [0, 1, 2]], IndexError, r"could not be broadcast together with shapes \[2\], \[3\]$"),
    (
        lambda x: x[[True, False]],
        IndexError,
        r"^The shape of the mask \[2\] at index 0 does not match the shape of the",
    ),
    (
        lambda x: x[x.T > 0],
        IndexError,
        r"mask \[4, 3\] at index 0 does not match the shape of the indexed tensor \[3, 4\]",
    ),
    (lambda x: x[::0], ValueError, "slice step cannot be zero"),
    (lambda x: x.__setitem__(0, [1.0, 2.0]), TypeError, "^can't assign a list to a torch.DoubleTensor$"),
    (lambda x: x.__setitem__(0, 1j), RuntimeError, "value cannot be converted to type double without overflow"),
    (
        lambda x: x.__setitem__(0, gc.zeros(3)),
        RuntimeError,
        r"expanded size of the tensor \(4\) must match .* size \(3\)",
    ),
    (
        lambda x: x.__setitem__([0, 1], gc.zeros(3, dtype=gc.float64)),
        RuntimeError,
        r"value tensor of shape \[3\] cannot",
    ),
    (
        lambda x: x.__setitem__([0], gc.zeros(4)),
        RuntimeError,
        "source and destination dtypes match, got Double for the",
    ),
    (lambda x: x.gather(0, gc.tensor([[3]])), IndexError, "^index 3 is out of bounds for dimension 0 with size 3$"),
    (lambda x: x.gather(0, gc.tensor([[-1]])), IndexError, "^index -1 is out of bounds for dimension 0 with size 3$"),
    (lambda x: x.gather(0, gc.tensor([0])), RuntimeError, "must have the same number of dimensions as input tensor"),
    (
        lambda x: x.gather(0, gc.zeros(1, 5, dtype=gc.int64)),
        RuntimeError,
        r"expected index \[1, 5\] to be no larger than",
    ),
    (
        lambda x: x.scatter(0, gc.tensor([[3]]), 1.0),
        IndexError,
        "^index 3 is out of bounds for dimension 0 with size 3$",
    ),
    (lambda x: x.scatter_add(0, gc.tensor([[0]]), gc.zeros(1, 1)), RuntimeError, "self.dtype to be equal to src.dtype"),
    (lambda x: x.index_select(0, gc.tensor([3])), IndexError, "^index 3 is out of bounds for dimension 0 with size 3$"),
    (lambda x: x.index_select(0, gc.tensor([[0]])), IndexError, "Index is supposed to be a vector"),
    (
        lambda x: x.index_add(0, gc.tensor([0]), x),
        IndexError,
        r"indices \(1\) should be equal to source.size\(dim\): \(3\)",
    ),
    (lambda x: x.take(gc.tensor([12])), IndexError, "tried to access index 12 on a tensor of 12 elements"),
    (lambda x: x.masked_fill(x, 0.0), RuntimeError, "only supports boolean masks, but got mask with dtype float64"),
    (lambda x: x.masked_scatter(x > 0, x[0]), RuntimeError, "Number of elements of source < number of ones in mask"),
    (lambda x: x.masked_select(x), RuntimeError, "expected BoolTensor for mask"),
    (
        lambda x: x.repeat_interleave(gc.tensor([1, 2]), 0),
        RuntimeError,
        r"repeats.size\(0\) = 2 and input.size\(0\) = 3",
    ),
    (
        lambda x: x.index_reduce(0, gc.tensor([0]), x[:1], "sum"),
        RuntimeError,
        "one of prod, mean, amax or amin but got",
    ),
    (
        lambda x: x.fill_(x),
        RuntimeError,
        "fill_ only supports 0-dimension value tensor but got tensor with 2 dimensions",
    ),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number: int) -> None:
    call, error, text = ERRORS[number]
    with pytest.raises(error, match=text):
        call(gc.tensor(X))


BOUNDS = [
    lambda x, i: x[i],
    lambda x, i: x.index_select(0, i),
    lambda x, i: x.gather(0, i.reshape(1, 1)),
    lambda x, i: x.scatter(0, i.reshape(1, 1), 1.0),
    lambda x, i: x.index_put((i,), x[0]),
    lambda x, i: x.index_add(0, i, x[:1]),
    lambda x, i: x.index_fill(0, i, 1.0),
]


@pytest.mark.parametrize("number", range(len(BOUNDS)))
def test_bounds_where_the_library_does_not_check(number: int, strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy takes an index beyond the end for one from the start."""
    monkeypatch.setattr(gc.config, "_index_checks", "now")
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        BOUNDS[number](gc.tensor(X, device=strict), gc.tensor([3], device=strict))


# -- gradients ----------------------------------------------------------------------------------------------------


def test_repeated_indices_add_up() -> None:
    x = leaf([1.0, 2.0, 3.0])
    (x[[0, 0, -1, 0]] * gc.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    assert x.grad.tolist() == [1011.0, 0.0, 100.0]


@pytest.mark.parametrize("through", ["leaf", "node"])
def test_many_parts_of_one_tensor(through: str) -> None:
    """The gradients of parts are added up in one array, in which nobody else's gradients may turn up."""

    def run(x: Any) -> Any:
        whole = x if through == "leaf" else x * 1
        total = whole.sum() * 3 + (whole * whole).sum()
        for i in range(3):
            for j in range(4):
                total = total + whole[i, j] * float(i - j)
            total = total + (whole[i] ** 2).sum() * float(i) + whole[i:].sum()
        for column in (whole[:, 1], whole[..., -1], whole[None, :, 2], whole.select(1, 0), whole.narrow(1, 1, 2)):
            total = total + (column**3).sum()
        return total + whole[::-2, ::-1][1, 0] * 7 + whole[[0, 1]].sum()

    agree(run, X)
    elements = leaf([1.0, 2.0, 3.0])
    other = elements * 1
    values = other if through == "node" else elements
    sum((values[i] * float(10**i) for i in range(3)), values[0] + values[2]).backward()
    assert elements.grad.tolist() == [2.0, 10.0, 101.0]


def test_gradient_given_to_a_hook_stays_as_it_was() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    seen: list[gc.Tensor] = []
    y.register_hook(lambda grad: seen.append(grad))
    (y[0] + y[1] * 2 + y[0] * 3).backward(retain_graph=True)
    assert seen[0].tolist() == x.grad.tolist() == [4.0, 2.0]
    given = gc.tensor([1.0, 1.0], dtype=gc.float64)
    gc.autograd.backward([y, y[0], y[1]], [given, gc.tensor(5.0), gc.tensor(6.0)])
    assert given.tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [10.0, 9.0]


@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16])
@pytest.mark.parametrize(
    "read",
    [
        lambda x, i: x[i],
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.take(i),
        lambda x, i: x.gather(0, i),
        lambda x, i: x[:, None][i],
        lambda x, i: x[None][0, i],
    ],
)
def test_half_precision_adds_up_in_single(dtype: Any, read: Callable[[Any, Any], Any]) -> None:
    """3000 ones are 3000: added up in half precision they would stop at 2048, in bfloat16 at 256."""
    x = gc.zeros(2, dtype=dtype, requires_grad=True)
    out = read(x, gc.ones(3000, dtype=gc.int64))
    assert out.dtype is dtype
    out.backward(gc.ones_like(out))
    assert x.grad.dtype is dtype
    assert x.grad.tolist() == [0.0, gc.tensor(3000.0, dtype=dtype).item()]


@pytest.mark.parametrize("width", [1, 3, 64])
def test_many_repeated_rows(width: int) -> None:
    """However large, the sum over repeated rows is that of `numpy.add.at`."""
    rng = np.random.default_rng(0)
    index, upstream = rng.integers(-50, 50, 2000), rng.standard_normal((2000, width))
    x = gc.zeros(50, width, dtype=gc.float64, requires_grad=True)
    x[gc.tensor(index)].backward(gc.tensor(upstream))
    expected = np.zeros((50, width))
    np.add.at(expected, index, upstream)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-10)


def test_complex_and_bool() -> None:
    z = gc.tensor([1 + 1j, 2 - 1j], requires_grad=True)
    (z[[0, 0, 1]] * gc.tensor([1j, 1.0, 2.0])).sum().abs().backward()
    norm = abs((1 + 1j) * (1 + 1j) + 2 * (2 - 1j))
    direction = ((1 + 1j) * (1 + 1j) + 2 * (2 - 1j)) / norm
    np.testing.assert_allclose(z.grad.numpy(), [direction * (1 - 1j), direction * 2], rtol=1e-6)
    flags = gc.tensor([True, False])
    flags[1:] = True
    flags[[0]] = gc.tensor([False])
    assert flags.tolist() == [False, True]


def test_chains_of_reads_and_writes() -> None:
    def run(x: Any, y: Any) -> Any:
        t = x * 1
        t[[0, 2], 1:3] = y[:2].unsqueeze(1)
        t[t > 9] *= y[2]
        t[:, ::-1][1] += y
        t[1, [2, 0, 3]] = t[0, :3].clone() * y[0]
        return (t**2 * gc.tensor(np.arange(12.0).reshape(3, 4))).sum()

    agree(run, X, np.array([0.5, 1.5, -1.0, 2.0]))


def test_adding_in_place_to_what_an_index_names() -> None:
    x = leaf()
    y = x * 1
    y[1] += 10.0
    assert y[1].tolist() == (X[1] + 10).tolist()
    y[:, 0] *= 2.0
    y.sum().backward()
    expected = np.ones((3, 4))
    expected[:, 0] = 2
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_second_order_through_indices() -> None:
    x = leaf([1.0, 2.0, 3.0])
    y = x[[0, 1, 1]] ** 3
    (first,) = gc.autograd.grad(y.sum(), x, create_graph=True)
    np.testing.assert_allclose(first.detach().numpy(), [3.0, 24.0, 0.0])
    (second,) = gc.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), [6.0, 24.0, 0.0])


def test_index_changed_after_use() -> None:
    x, index = leaf([1.0, 2.0]), gc.tensor([0, 1])
    y = x[index]
    index[0] = 1
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation: \[torch.LongTensor \[2\]\]"):
        y.sum().backward()


def test_value_of_an_assignment() -> None:
    """What is assigned may be broadcast, of another dtype, or have leading dims of size 1."""
    x = gc.zeros(2, 3)
    x[0] = gc.tensor([[1.0, 2.0, 3.0]], dtype=gc.float64)
    x[1] = gc.tensor(4)
    assert x.tolist() == [[1.0, 2.0, 3.0], [4.0, 4.0, 4.0]]
    x[[0, 1]] = gc.tensor([[[5.0], [6.0]]])
    assert x.tolist() == [[5.0] * 3, [6.0] * 3]
    x[:, 1] = np.array([7.0, 8.0])
    assert x[:, 1].tolist() == [7.0, 8.0]
    whole = gc.zeros(2, dtype=gc.int64)
    whole[0] = 1.9
    assert whole.tolist() == [1, 0]


@pytest.mark.parametrize("shape", [(2, 3), (3, 4, 2)])
def test_index_put_accumulates_at_negative_indices_of_several_dims(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    indices = [rng.integers(-n, n, 20) for n in shape]
    expected, values = np.zeros(shape), rng.integers(1, 9, 20).astype("float64")
    np.add.at(expected, tuple(indices), values)
    result = gc.zeros(shape, dtype=gc.float64).index_put([*map(gc.tensor, indices)], gc.tensor(values), accumulate=True)
    assert result.tolist() == expected.tolist()


def test_index_put_accumulates() -> None:
    x, v = leaf([0.0, 0.0]), leaf([1.0, 2.0, 4.0])
    y = x.index_put((gc.tensor([1, 1, 0]),), v, accumulate=True)
    assert y.tolist() == [4.0, 3.0]
    (y * gc.tensor([10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [10.0, 100.0]
    assert v.grad.tolist() == [100.0, 100.0, 10.0]
    half = gc.zeros(2, 1, dtype=gc.float16).index_put(
        (gc.zeros(3000, dtype=gc.int64),), gc.ones((), dtype=gc.float16), True
    )
    assert half.tolist() == [[3000.0], [0.0]]
    z = gc.zeros(2, 2)
    z.index_put_((gc.tensor([0, 0]), gc.tensor([1, 1])), gc.tensor(1.0), accumulate=True)
    assert z.tolist() == [[0.0, 2.0], [0.0, 0.0]]


# -- conventions --------------------------------------------------------------------------------------------------


def test_scatter_reductions_by_hand() -> None:
    x = gc.tensor([1.0, 2.0, 3.0])
    index, src = gc.tensor([0, 0, 2]), gc.tensor([5.0, -1.0, 3.0])
    found = {
        (reduce, include): x.scatter_reduce(0, index, src, reduce, include_self=include).tolist()
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include in (True, False)
    }
    assert found == {
        ("sum", True): [5.0, 2.0, 6.0],
        ("sum", False): [4.0, 2.0, 3.0],
        ("prod", True): [-5.0, 2.0, 9.0],
        ("prod", False): [-5.0, 2.0, 3.0],
        ("mean", True): [pytest.approx(5 / 3), 2.0, 3.0],
        ("mean", False): [2.0, 2.0, 3.0],
        ("amax", True): [5.0, 2.0, 3.0],
        ("amax", False): [5.0, 2.0, 3.0],
        ("amin", True): [-1.0, 2.0, 3.0],
        ("amin", False): [-1.0, 2.0, 3.0],
    }
    counts = gc.tensor([7, 0]).scatter_reduce(0, gc.tensor([0, 0]), gc.tensor([1, 1]), "mean")
    assert counts.tolist() == [3, 0]  # integers are divided as integers


def test_ties_share_and_zeros_have_the_product_of_the_others() -> None:
    x, src = leaf([3.0, 0.0]), leaf([3.0, 1.0, 3.0, 4.0])
    index = gc.tensor([0, 0, 0, 1])
    x.scatter_reduce(0, index, src, "amax").sum().backward()
    assert x.grad.tolist() == [pytest.approx(1 / 3), 0.0]
    assert src.grad.tolist() == [pytest.approx(1 / 3), 0.0, pytest.approx(1 / 3), 1.0]
    x.grad = src.grad = None
    src = leaf([0.0, 2.0, 5.0, 4.0])
    x.scatter_reduce(0, index, src, "prod").sum().backward()
    assert x.grad.tolist() == [0.0, 4.0]
    assert src.grad.tolist() == [30.0, 0.0, 0.0, 0.0]


def test_two_zeros_in_a_product_have_a_second_derivative() -> None:
    src = leaf([0.0, 0.0, 5.0])
    y = gc.full((1,), 3.0).scatter_reduce(0, gc.tensor([0, 0, 0]), src, "prod")
    (slopes,) = gc.autograd.grad(y.sum(), src, create_graph=True)
    assert slopes.tolist() == [0.0, 0.0, 0.0]
    rows = [gc.autograd.grad(s, src, retain_graph=True)[0].tolist() for s in slopes[:2]]
    assert rows == [[0.0, 15.0, 0.0], [15.0, 0.0, 0.0]]


def test_gradient_of_what_is_filled_counts_each_place_once() -> None:
    value = leaf(2.0)
    gc.zeros(3, dtype=gc.float64).index_fill(0, gc.tensor([1, 1]), value).sum().backward()
    assert value.grad.item() == 1.0


def test_places_that_are_not_zero() -> None:
    x = gc.tensor([[0.0, 2.0], [3.0, 0.0]])
    assert x.nonzero().tolist() == x.argwhere().tolist() == [[0, 1], [1, 0]]
    assert [t.tolist() for t in gc.nonzero(x, as_tuple=True)] == [[0, 1], [1, 0]]
    assert gc.tensor(5.0).nonzero().shape == (1, 0)
    assert [t.tolist() for t in gc.where(x > 0)] == [[0, 1], [1, 0]]


def test_repeated_elements() -> None:
    x = leaf([1.0, 2.0, 3.0])
    assert x.repeat_interleave(2).tolist() == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    assert gc.repeat_interleave(gc.tensor([2, 0, 1])).tolist() == [0, 0, 2]
    x.repeat_interleave(gc.tensor([2, 0, 1])).sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 1.0]


@pytest.mark.parametrize("dtype", [gc.float16, gc.float32, gc.float64], ids=str)
def test_adding_nothing_keeps_the_signs_of_zeros(dtype: gc.dtype) -> None:
    x = gc.full((2, 9), -0.0, dtype=dtype)
    index = gc.zeros(0, dtype=gc.int64)
    for result in (x.index_add(1, index, x[:, :0]), x.index_put((index,), x[:0], accumulate=True)):
        assert np.signbit(result.numpy()).all()


@pytest.mark.parametrize("dtype", [gc.bool, gc.uint8], ids=str)
@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
def test_masks_of_other_sizes_are_refused(dtype: gc.dtype) -> None:
    x = gc.arange(25.0).reshape(5, 5)
    for mask, message in [
        ([1, 1], r"The shape of the mask \[2\] at index 0 does not match the shape of the indexed tensor \[5, 5\]"),
        ([1, 0, 1, 1, 0, 1], r"The shape of the mask \[6\] at index 0"),
        ([[1, 0]], r"The shape of the mask \[1, 2\] at index 0"),
        ([[[1] * 5] * 5] * 5, "too many indices for tensor of dimension 2"),
    ]:
        given = gc.tensor(mask, dtype=dtype)
        for accumulate in (False, True):
            with pytest.raises(IndexError, match=message):
                x.index_put((given,), gc.tensor(1.0), accumulate)
            with pytest.raises(IndexError, match=message):
                x.index_put_((given,), gc.tensor(1.0), accumulate)
    with pytest.raises(IndexError, match=r"at index 0 does not match .* at index 1"):
        x.index_put((gc.tensor([0]), gc.tensor([1, 1], dtype=dtype)), gc.tensor(1.0))
    assert x.sum() == 300


def test_a_number_at_a_mask_is_converted() -> None:
    """PyTorch writes a single number at a single mask by `masked_fill`, which converts it."""
    mask = gc.tensor([False, True, True])
    value = gc.tensor(2.5, dtype=gc.float32, requires_grad=True)
    for key, expected in ((mask, [0, 2.5, 2.5]), ((None, mask), [0, 2.5, 2.5]), ([False, True, False], [0, 2.5, 0])):
        x = gc.zeros(3, dtype=gc.float64)
        x[key] = value
        assert x.dtype is gc.float64
        assert x.tolist() == expected
        assert gc.autograd.grad(x.sum(), value)[0] == np.count_nonzero(expected)
    x = gc.zeros(3, dtype=gc.int64)
    x[mask] = gc.tensor([3.7])
    assert x.tolist() == gc.index_put(gc.zeros(3, dtype=gc.int64), (mask,), gc.tensor(3.7)).tolist() == [0, 3, 3]
    for indices, values, accumulate in [
        ((mask,), gc.ones(2), False),
        ((mask,), gc.tensor(1.0), True),
        ((gc.tensor([1, 2]),), gc.tensor(1.0), False),
        ((mask,), gc.tensor(1j), False),
    ]:
        with pytest.raises(RuntimeError, match="source and destination dtypes match"):
            gc.zeros(3, dtype=gc.float64).index_put_(indices, values, accumulate)
