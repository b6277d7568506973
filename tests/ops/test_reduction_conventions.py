"""What reductions, sorting and cumulative operations do where it is not obvious: ties, NaN, no elements, no dims."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import gradcore as gc

nan, inf = math.nan, math.inf
TIED = [1.0, 3.0, 3.0, 2.0]


def leaf(values: Any) -> gc.Tensor:
    return gc.tensor(values, dtype=gc.float64, requires_grad=True)


def gradient(function: Any, values: Any) -> Any:
    """Return the gradient of the sum of the first result."""
    x = leaf(values)
    out = function(x)
    (out[0] if isinstance(out, tuple) else out).sum().backward()
    return x.grad.tolist()


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.array(found), np.array(expected))


# -- ties and NaN -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.max(), [0, 0.5, 0.5, 0]),
        (lambda x: x.amax(), [0, 0.5, 0.5, 0]),
        (lambda x: (-x).min(), [0, -0.5, -0.5, 0]),
        (lambda x: (-x).amin(0), [0, -0.5, -0.5, 0]),
        (lambda x: x.max(0), [0, 1, 0, 0]),
        (lambda x: x.median(), [0, 0, 0, 1]),
        (lambda x: x.mode(), [0, 0, 1, 0]),
        (lambda x: x.kthvalue(3), [0, 1, 0, 0]),
        (lambda x: x.cummax(0), [1, 1, 2, 0]),
        (lambda x: x.topk(2), [0, 1, 1, 0]),
    ],
)
def test_gradients_at_ties(function: Any, expected: Any) -> None:
    same(gradient(function, TIED), expected)


def test_gradients_of_aminmax_add_up() -> None:
    same(gradient(lambda x: sum(x.aminmax()), TIED), [1, 0.5, 0.5, 0])


def test_nan_is_the_extremum() -> None:
    x = [1.0, nan, 3.0, nan]
    for name in ("max", "min"):
        values, index = getattr(leaf(x), name)(0)
        assert math.isnan(values.item())
        assert index.item() == 1
        same(gradient(lambda x, name=name: getattr(x, name)(), x), [0, 0.5, 0, 0.5])
    assert leaf(x).argmax().item() == 1
    assert np.isnan(gradient(lambda x: x.amax(), x)).all()


def test_nan_counts_as_the_greatest_in_order() -> None:
    x = leaf([2.0, nan, 1.0, -inf, inf])
    same(x.sort().indices.tolist(), [3, 2, 0, 4, 1])
    same(x.sort(descending=True).indices.tolist(), [1, 4, 0, 2, 3])
    same(x.topk(2).indices.tolist(), [1, 4])
    same(x.topk(2, largest=False).indices.tolist(), [3, 2])
    assert math.isnan(x.median().item())
    assert x.median(0).indices.item() == 1
    assert x.nanmedian().item() == 1.0
    assert math.isnan(x.quantile(0.1).item())
    assert leaf([1.0, nan, 3.0]).nanquantile(0.5).item() == 2.0


@pytest.mark.parametrize("how", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("dtype", [gc.float32, gc.float64], ids=str)
def test_quantiles_at_a_number_and_at_a_tensor_are_equal(dtype: gc.dtype, how: str) -> None:
    """Compare all bits of values and gradients, with NaN and infinities, for ranks that are whole numbers and not."""
    x = gc.tensor(np.random.default_rng(0).standard_normal((4, 31)), dtype=dtype)
    x[1, 7], x[2, 3], x[2, 4], x[3, 0] = nan, inf, -inf, inf
    for q in (0.0, 1.0, 0.5, 0.3, 1 / 3, 0.999, 1):
        for dim, keepdim in ((None, False), (None, True), (0, False), (1, True), (-1, False)):
            found = []
            for point in (q, gc.tensor(q, dtype=dtype)):
                t = x.clone().requires_grad_()
                out = gc.quantile(t, point, dim, keepdim, interpolation=how)
                found.append([out.detach(), *gc.autograd.grad(out, t, gc.ones_like(out))])
            for at_number, at_tensor in zip(*found, strict=True):
                assert at_number.shape == at_tensor.shape
                same(at_number.numpy(), at_tensor.numpy())


def test_running_extrema_keep_nan_and_take_the_last_of_equals() -> None:
    values, index = gc.cummax(leaf([1.0, 1.0, nan, 3.0, nan]), 0)
    same(values.tolist(), [1, 1, nan, nan, nan])
    same(index.tolist(), [0, 1, 2, 2, 4])


def test_sums_and_means_that_ignore_nan() -> None:
    x = leaf([1.0, nan, 3.0])
    assert x.nansum().item() == 4
    assert x.nanmean().item() == 2
    same(gradient(lambda x: x.nanmean(), [1.0, nan, 3.0]), [0.5, 0, 0.5])


@pytest.mark.parametrize("n", [5, 4000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
@pytest.mark.parametrize("descending", [False, True])
def test_sorting_is_stable(n: int, dtype: str, descending: bool) -> None:
    values = np.random.default_rng(n).integers(0, 5, n).astype(dtype)
    values, index = gc.tensor(values).sort(descending=descending), values
    key = -index.astype(int) if descending else index
    same(values.indices.tolist(), np.argsort(key, kind="stable"))


@pytest.mark.parametrize("n", [4096, 5000])
@pytest.mark.parametrize(("low", "high"), [(-5, 5), (0, 2**40), (0, 2**52), (-(2**62), 2**62), (-(2**63), 2**63 - 1)])
@pytest.mark.parametrize("kind", ["random", "repeated", "high bits equal", "close"])
def test_integers_of_every_range_are_sorted(
    n: int, low: int, high: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradcore.backends.numpy.sorting.LARGE", 2048)
    rng = np.random.default_rng(n)
    x = rng.integers(low, high, n, endpoint=True)
    if kind == "repeated":
        x = np.where(rng.random(n) < 0.3, x[0], x)
    elif kind == "high bits equal":
        x = (x[rng.integers(0, n // 64, n)] >> 4 << 4) | rng.integers(0, 16, n)
    elif kind == "close":
        x[::20] = x[1::20] ^ 1
    for numbers, dim in ((x, 0), (x[:, None], 0), (np.stack([x, x[::-1]]), 1), (np.stack([x, x[::-1]], 1), 0)):
        for descending in (False, True):
            expected = np.argsort(~numbers if descending else numbers, axis=dim, kind="stable")
            values, indices = gc.tensor(numbers).sort(dim=dim, descending=descending, stable=True)
            assert indices.tolist() == expected.tolist()
            assert values.tolist() == np.take_along_axis(numbers, expected, dim).tolist()
            assert gc.tensor(numbers).argsort(dim=dim, descending=descending).tolist() == expected.tolist()


def test_zeros_of_both_signs_are_equal_in_order() -> None:
    x = gc.tensor([0.0, -0.0] * 2000)
    same(x.sort().indices.tolist(), np.arange(4000))


# -- no elements, one element, no dims --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: x.max(), RuntimeError, r"max\(\): Expected reduction dim to be specified for input.numel\(\) == 0"),
        (lambda x: x.amin(), RuntimeError, r"amin\(\): Expected reduction dim to be specified"),
        (lambda x: x.argmax(), IndexError, r"argmax\(\): Expected reduction dim to be specified"),
        (lambda x: x.max(0), IndexError, r"max\(\): Expected reduction dim 0 to have non-zero size"),
        (lambda x: x.mode(), IndexError, "non-zero size"),
        (lambda x: x.aminmax(), RuntimeError, "no identity"),
        (lambda x: x.quantile(0.5), RuntimeError, "must be non-empty"),
        (lambda x: x.topk(1), RuntimeError, "selected index k out of range"),
    ],
)
def test_nothing_has_no_extremum(function: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        function(gc.zeros(0))


def test_what_nothing_gives() -> None:
    x = gc.zeros(0)
    assert (x.sum().item(), x.prod().item(), x.all().item(), x.any().item()) == (0, 1, True, False)
    assert all(math.isnan(t.item()) for t in (x.mean(), x.var(), x.std(), x.median(), x.nanmean()))
    assert x.logsumexp(0).item() == -inf
    assert [t.shape for t in (x.sort()[0], x.cumsum(0), x.softmax(0), x.cummax(0)[1], x.unique())] == [(0,)] * 5
    values, index = gc.zeros(2, 0).max(0)
    assert values.shape == index.shape == (0,)


def test_variance_of_one_element() -> None:
    x = leaf([5.0])
    x.var().backward()
    assert math.isnan(x.var().item())
    assert math.isnan(x.grad.item())
    assert leaf([5.0]).var(correction=0).item() == 0


def test_gradient_of_std_is_zero_where_it_is_zero() -> None:
    same(gradient(lambda x: x.std(), [2.0, 2.0]), [0, 0])
    half = math.sqrt(0.5)
    np.testing.assert_allclose(gradient(lambda x: x.std(0), [[1.0, 2.0], [1.0, 3.0]]), [[0, -half], [0, half]])


def test_tensors_without_dims() -> None:
    x = leaf(2.0)
    for out in (
        x.sum(0), x.mean(-1), x.prod(0), x.max(0).values, x.sort().values, x.topk(1).values, x.cumsum(0), x.cumprod(0),
        x.median(0).values, x.logsumexp(0), x.amax(0), x.kthvalue(1).values, x.cummax(0).values, x.quantile(0.5, 0),
    ):  # fmt: skip
        assert out.shape == ()
        assert out.item() == 2
        (found,) = gc.autograd.grad(out, x)
        assert found.item() == 1
    assert x.softmax(0).item() == 1
    with pytest.raises(IndexError, match=r"expected to be in range of \[-1, 0\], but got 1"):
        x.sum(1)


# -- zeros in products ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[2.0, 0.0, 3.0], [0.0, 0.0, 3.0], [2.0, 5.0, 3.0]])
def test_products_with_zeros_up_to_the_third_order(values: list[float]) -> None:
    a, b, c = values
    x = leaf(values)
    (first,) = gc.autograd.grad(x.prod(), x, create_graph=True)
    same(first.tolist(), [b * c, a * c, a * b])
    rows = [gc.autograd.grad(f, x, create_graph=True)[0] for f in first]
    same([r.tolist() for r in rows], [[0, c, b], [c, 0, a], [b, a, 0]])
    (third,) = gc.autograd.grad(rows[0][1], x)
    same(third.tolist(), [0, 0, 1])


def test_cumulative_products_with_zeros() -> None:
    same(gradient(lambda x: x.cumprod(0), [2.0, 0.0, 3.0]), [1, 8, 0])
    same(gradient(lambda x: x.cumprod(0), [0.0, 0.0, 3.0]), [1, 0, 0])


# -- numbers out of range ---------------------------------------------------------------------------------------------


def test_exponentials_do_not_overflow() -> None:
    x = leaf([1000.0, 999.0])
    np.testing.assert_allclose(x.logsumexp(0).item(), 1000 + math.log1p(math.exp(-1)))
    np.testing.assert_allclose(x.softmax(0).tolist(), [1 / (1 + math.exp(-1)), 1 / (1 + math.e)])
    np.testing.assert_allclose(x.log_softmax(0).tolist(), [-math.log1p(math.exp(-1)), -math.log1p(math.e)])
    assert leaf([-inf, -inf]).logsumexp(0).item() == -inf
    assert leaf([inf, 1.0]).logsumexp(0).item() == inf
    same(leaf([-inf, 1.0]).softmax(0).tolist(), [0, 1])
    same(leaf([-inf, 1.0]).log_softmax(0).tolist(), [-inf, 0])
    same(leaf([-inf, 1.0, 2000.0]).logcumsumexp(0).tolist(), [-inf, 1, 2000])


def test_softmax_of_many_rows_is_that_of_each() -> None:
    """The fast path without a shift holds for moderate numbers only."""
    rows = np.random.default_rng(0).standard_normal((40, 300)) * 3
    for scale, offset in ((1, 0), (30, 0), (1, 500), (1, -500)):
        x = rows * scale + offset
        exact = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(gc.tensor(x).softmax(1).numpy(), exact / exact.sum(1, keepdims=True), rtol=1e-12)


def test_std_of_large_numbers_in_float32() -> None:
    x = gc.tensor([1e25, -1e25, 3e25])
    np.testing.assert_allclose(x.std().item(), np.std([1e25, -1e25, 3e25], ddof=1), rtol=1e-6)
    assert x.var().item() == inf


def test_half_precision_is_accumulated_in_float32() -> None:
    x = gc.ones(5000, dtype=gc.float16)
    assert x.sum().item() == 5000
    assert x.cumsum(0)[-1].item() == 5000
    assert x.float().sum(dtype=gc.float16).item() == 5000
    assert x.sum().dtype is gc.float16
    assert x.softmax(0).dtype is gc.float16


# -- overloads --------------------------------------------------------------------------------------------------------


def test_overloads_of_variances() -> None:
    x = gc.tensor([[1.0, 2.0, 4.0], [3.0, 9.0, 5.0]])
    a = x.numpy()
    np.testing.assert_allclose(x.var(unbiased=False).item(), a.var(), rtol=1e-6)
    np.testing.assert_allclose(x.std(False).item(), a.std(), rtol=1e-6)
    np.testing.assert_allclose(x.var(1, False, True).numpy(), a.var(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(x.std(0, correction=0).numpy(), a.std(0), rtol=1e-6)
    var, mean = gc.var_mean(x, (0, 1), keepdim=True)
    assert var.shape == mean.shape == (1, 1)
    np.testing.assert_allclose([var.item(), mean.item()], [a.var(ddof=1), a.mean()], rtol=1e-6)
    with pytest.raises(TypeError, match="either 'unbiased' or 'correction'"):
        x.var(0, False, correction=1)


def test_overloads_of_extrema() -> None:
    x, y = gc.tensor([1.0, 5.0]), gc.tensor([4.0, 2.0])
    same(gc.max(x, y).tolist(), [4, 5])
    same(x.min(other=y).tolist(), [1, 2])
    values, index = gc.empty(0), gc.empty(0, dtype=gc.int64)
    gc.max(x, 0, out=(values, index))
    assert (values.item(), index.item()) == (5, 1)


def test_names_as_in_numpy() -> None:
    x = gc.arange(6.0).reshape(2, 3)
    same(x.sum(axis=0, keepdims=True).tolist(), [[3, 5, 7]])
    same(gc.softmax(x, axis=1).shape, (2, 3))
    same(x.max(axis=1).indices.tolist(), [2, 2])
    with pytest.raises(TypeError, match=r"softmax\(\) missing required argument: 'dim'"):
        x.softmax()
    with pytest.raises(TypeError, match=r"sum\(\) got an unexpected keyword argument 'axes'"):
        x.sum(axes=0)


def test_nodes_have_their_names() -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    names = {
        "SumBackward0": x.sum(), "SumBackward1": x.sum(0), "MeanBackward1": x.mean(1), "ProdBackward0": x.prod(),
        "MaxBackward0": x.max(0).values, "MaxBackward1": x.max(), "AmaxBackward0": x.amax(0), "VarBackward0": x.var(),
        "StdMeanBackward0": gc.std_mean(x)[1], "SoftmaxBackward0": gc.nn.functional.softmax(x, 1),
        "LogSoftmaxBackward0": x.log_softmax(0), "SortBackward0": x.sort()[0], "SortBackward1": x.sort(stable=True)[0],
        "MedianBackward0": x.median(), "MedianBackward1": x.median(0).values, "CumsumBackward0": x.cumsum(0),
    }  # fmt: skip
    assert {name: out.grad_fn.name() for name, out in names.items()} == {name: name for name in names}
    assert x.max(0).indices.grad_fn is None


def test_named_tuples_print_as_in_pytorch() -> None:
    found = gc.tensor([1.0, 3.0]).max(0)
    assert repr(found) == "torch.return_types.max(\nvalues=tensor(3.),\nindices=tensor(1))"
    assert found._fields == ("values", "indices")
    assert type(found) is gc.return_types.max


def test_implicit_dim_of_softmax_warns() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = gc.nn.functional.softmax(gc.zeros(2, 4))
    assert out[0, 0].item() == 0.25
    assert "Implicit dimension choice for softmax" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_dtypes_of_results() -> None:
    i, b = gc.tensor([1, 2], dtype=gc.int32), gc.tensor([True, False])
    assert [t.dtype for t in (i.sum(), i.prod(), b.sum(), i.cumsum(0), b.cumprod(0), i.argmax())] == [gc.int64] * 6
    assert (i.max().dtype, b.max(0).values.dtype) == (gc.int32, gc.bool)
    assert (i.byte().any().dtype, i.all().dtype) == (gc.uint8, gc.bool)
    assert i.logsumexp(0).dtype is gc.float32
    with pytest.raises(RuntimeError, match="could not infer output dtype"):
        i.mean()
    with pytest.raises(RuntimeError, match="only support floating point and complex"):
        i.var()


# -- against NumPy ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles(how: str) -> None:
    x = np.random.default_rng(1).standard_normal((5, 8))
    q = [0.0, 0.3, 0.77, 1.0]
    found = gc.tensor(x).quantile(gc.tensor(q, dtype=gc.float64), 1, True, interpolation=how)
    np.testing.assert_allclose(found.numpy(), np.quantile(x, q, axis=1, keepdims=True, method=how))


def test_covariances() -> None:
    rng = np.random.default_rng(2)
    x, often, weight = rng.standard_normal((3, 6)), rng.integers(1, 4, 6), rng.uniform(0.5, 2, 6)
    t = gc.tensor(x)
    np.testing.assert_allclose(t.cov().numpy(), np.cov(x))
    np.testing.assert_allclose(t.corrcoef().numpy(), np.corrcoef(x))
    weights = {"fweights": often, "aweights": weight}
    found = t.cov(correction=0, **{name: gc.tensor(w) for name, w in weights.items()})
    np.testing.assert_allclose(found.numpy(), np.cov(x, ddof=0, **weights))
    with pytest.raises(RuntimeError, match="fweights to have integral dtype"):
        t.cov(fweights=gc.tensor(weight))


def test_distinct_elements() -> None:
    x = np.array([[2, 1, 2], [2, 2, 1]])
    values, inverse, counts = gc.unique(gc.tensor(x), return_inverse=True, return_counts=True)
    same(values.tolist(), [1, 2])
    same(values.numpy()[inverse.numpy()], x)
    same(counts.tolist(), [2, 4])
    values, counts = gc.unique_consecutive(gc.tensor(x), return_counts=True)
    same(values.tolist(), [2, 1, 2, 1])
    same(counts.tolist(), [1, 1, 3, 1])
    same(gc.tensor([[1, 1, 2], [0, 0, 3]]).unique(dim=1).tolist(), [[1, 2], [0, 3]])
    assert gc.tensor([nan, nan]).unique().shape == (2,)
    with pytest.raises(NotImplementedError, match="the derivative for '_unique2' is not implemented"):
        leaf(TIED).unique().sum().backward()


def test_places_in_sorted_sequences() -> None:
    edges = gc.tensor([1.0, 3.0, 5.0])
    same(gc.searchsorted(edges, gc.tensor([0.0, 3.0, 9.0])).tolist(), [0, 1, 3])
    same(gc.searchsorted(edges, 3.0, side="right").tolist(), 2)
    same(gc.bucketize(gc.tensor([1.0, 2.0, nan]), edges, right=True).tolist(), [1, 1, 3])
    rows = gc.tensor([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]])
    same(gc.searchsorted(rows, gc.tensor([[3.0, 6.0], [3.0, 6.0]])).tolist(), [[1, 3], [1, 2]])
    shuffled = gc.tensor([5.0, 1.0, 3.0])
    same(gc.searchsorted(shuffled, gc.tensor([2.0]), sorter=gc.tensor([1, 2, 0])).tolist(), [1])
    for sorter in ([-1, 0, 1], [0, 1, 3]):
        with pytest.raises(IndexError, match="out of bounds"):
            gc.searchsorted(shuffled, gc.tensor([2.0]), sorter=gc.tensor(sorter))
    same(gc.isin(gc.tensor([1, 2, 3]), gc.tensor([3, 1])).tolist(), [True, False, True])
    same(gc.isin(gc.tensor([nan, 1.0]), gc.tensor([nan])).tolist(), [False, False])


def test_counts() -> None:
    same(gc.bincount(gc.tensor([1, 1, 3]), minlength=5).tolist(), [0, 2, 0, 1, 0])
    same(gc.bincount(gc.tensor([1, 1, 0]), gc.tensor([0.5, 1.0, 2.0])).tolist(), [2, 1.5])
    same(gc.histc(gc.tensor([0.0, 1.0, 1.9, 2.0, 7.0, nan]), 2, 0, 2).tolist(), [1, 3])
    same(gc.tensor([2.0, 2.0]).histc(3).tolist(), [0, 2, 0])
    same(gc.histc(gc.tensor([15.0], dtype=gc.float64), 22, 0, 22).tolist(), [0] * 15 + [1] + [0] * 6)
    same(gc.tensor([0.0, 1e38, 2e38]).histc(8).tolist(), [1, 0, 0, 0, 1, 0, 0, 1])  # 8 * 2e38 is infinite
    same(gc.tensor([-3e38, 3e38]).histc(2).tolist(), [1, 0])  # the width is infinite


@pytest.mark.parametrize("dtype", [gc.float32, gc.float16, gc.int64], ids=str)
def test_sums_to_sizes_that_do_not_fit(dtype: gc.dtype) -> None:
    x = gc.ones(2, 3, dtype=dtype)
    for size in [(-3,), (2, -1), (2,), (0,), (1, 2, 3), (3, 3)]:
        with pytest.raises(RuntimeError, match=r"size \{\[.*\]\} is not expandable to size \{\[2, 3\]\}"):
            x.sum_to_size(size)
    assert x.sum_to_size(3).tolist() == [2, 2, 2]


def test_differences_and_integrals() -> None:
    x = gc.tensor([1.0, 4.0, 9.0])
    same(x.diff().tolist(), [3, 5])
    same(x.diff(n=2, prepend=gc.tensor([0.0])).tolist(), [2, 2])
    same(gc.tensor([True, False, False]).diff().tolist(), [True, False])
    assert gc.trapz(x, dx=2).item() == 18
    assert gc.trapezoid(x, gc.tensor([0.0, 1.0, 3.0])).item() == 15.5
    same(gc.cumulative_trapezoid(x).tolist(), [2.5, 9])
    for numbers in ([200, 100, 255], [True, True, False]):  # two neighbours do not fit into the dtype
        y = gc.tensor(numbers, dtype=gc.uint8 if numbers[0] == 200 else gc.bool)
        for function in (gc.trapezoid, gc.cumulative_trapezoid):
            same(function(y).tolist(), function(y.float()).tolist())
            same(function(y, dx=2.0).tolist(), function(y.float(), dx=2.0).tolist())


def test_gradients_of_logcumsumexp_before_an_infinity() -> None:
    for function in (gc.logcumsumexp, gc.compile(gc.logcumsumexp)):
        x = leaf([1.0, 2.0, inf, 3.0])
        (grad,) = gc.autograd.grad(function(x, 0), x, gc.tensor([1.0, 2.0, 3.0, 4.0], dtype=x.dtype))
        share = 1 / (1 + math.exp(-1))  # of the second element in the second sum
        np.testing.assert_allclose(grad.numpy(), [1 + 2 * (1 - share), 2 * share, nan, 0])


def test_complex_logcumsumexp_of_elements_that_add_nothing() -> None:
    x = gc.tensor([-inf, complex(-inf, inf), 1.0, 2j, complex(inf, 0), complex(inf, 0)], dtype=gc.complex128)
    found = x.logcumsumexp(0)
    expected = [-inf, -inf, 1.0, np.log(np.exp(1) + np.exp(2j)), inf, inf]
    np.testing.assert_allclose(found.real.numpy(), np.real(expected))
    assert found[:3].imag.nan_to_num(0.0).abs().max().item() == 0
    undefined = gc.tensor([1.0, complex(0, np.nan), 1.0], dtype=gc.complex128).logcumsumexp(0)
    assert undefined.isnan().tolist() == [False, True, True]


@pytest.mark.parametrize("exponent", [0.14, 1.0, 2.0])
def test_derivative_of_the_derivative_of_a_power_of_zero(exponent: float) -> None:
    y, one = gc.tensor(exponent, dtype=gc.float64), gc.tensor(1.0, dtype=gc.float64)
    _, pull = gc.func.vjp(lambda y, v: gc.func.jvp(lambda y: gc.pow(0.0, y), (y,), (v,))[1], y, one)
    assert [t.item() for t in pull(one)] == [0.0, 0.0]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("correction", [-2, 0, 1])
@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_the_variance_of_nothing_is_nan(name: str, correction: int) -> None:
    found = getattr(gc, name)(gc.ones(0, 2), 0, correction=correction)
    for each in found if isinstance(found, tuple) else (found,):
        assert each.isnan().tolist() == [True, True]
