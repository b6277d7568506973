"""Indices, pivots, sizes and matrices that nothing can be computed with end in an error; nothing to do gives zeros."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradcore as gc
from gradcore.ops.special import polynomials

F = gc.nn.functional
#: Integers at and beyond the ends of every range.
WILD = st.one_of(
    st.integers(-8, 8),
    st.sampled_from([sign * 2**n + d for n in (7, 30, 31, 62) for sign in (1, -1) for d in (-1, 0)]),
)


def refusal(call: Callable[[], Any]) -> str:
    """Return the message of a refused call, or an empty string."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


@settings(deadline=None, max_examples=200)
@given(st.lists(WILD, min_size=3, max_size=3), st.booleans())
def test_pivots_are_checked_before_they_reach_lapack(rows: list[int], adjoint: bool) -> None:
    rows = [max(-(2**31), min(2**31 - 1, r)) for r in rows]
    LU, _ = gc.linalg.lu_factor(gc.eye(3, dtype=gc.float64) + 0.1)
    pivots, b = gc.tensor(rows, dtype=gc.int32), gc.ones(3, 2, dtype=gc.float64)
    calls: list[Callable[[], Any]] = [
        lambda: gc.linalg.lu_solve(LU, pivots, b, adjoint=adjoint),
        lambda: gc.lu_solve(b, LU, pivots),
        lambda: gc.lu_unpack(LU, pivots),
        lambda: gc.linalg.lu_solve(LU.expand(2, 3, 3), pivots.expand(2, 3), b),
    ]
    for call in calls:
        if all(1 <= r <= 3 for r in rows):
            call()
            continue
        with pytest.raises(RuntimeError, match="Did you properly pass the result of lu_factor"):
            call()
    if any(not 1 <= abs(r) <= 3 for r in rows):
        with pytest.raises(RuntimeError, match="Did you properly pass the result of ldl_factor"):
            gc.linalg.ldl_solve(LU, pivots, b)


@settings(deadline=None, max_examples=300)
@given(st.lists(WILD, min_size=2, max_size=2), st.sampled_from([(3, 4), (2, 2, 3), (1, 5)]), st.booleans())
def test_accumulating_writes_check_each_dim(place: list[int], shape: tuple[int, ...], in_place: bool) -> None:
    target = gc.zeros(shape)
    indices = tuple(gc.tensor([p]) for p in place)
    inside = all(-n <= p < n for p, n in zip(place, shape, strict=False))
    write = target.index_put_ if in_place else target.index_put
    values = gc.ones((1, *shape[2:]))
    if inside:
        expected = np.zeros(shape)
        expected[tuple(place)] += 1
        np.testing.assert_array_equal(write(indices, values, accumulate=True), expected)
        return
    with pytest.raises(IndexError, match="out of bounds for dimension"):
        write(indices, values, accumulate=True)
    assert not target.any()


#: What has no value at a matrix that is not finite.
FACTORS: dict[str, Callable[[Any], Any]] = {
    "svd": gc.linalg.svd, "svdvals": gc.linalg.svdvals, "pinv": gc.linalg.pinv, "torch.svd": gc.svd,
    "matrix_rank": gc.linalg.matrix_rank, "cond": gc.linalg.cond, "nuclear": lambda a: gc.linalg.matrix_norm(a, "nuc"),
    "lstsq": lambda a: gc.linalg.lstsq(a, a), "cholesky": gc.linalg.cholesky, "eig": gc.linalg.eig,
    "eigvals": gc.linalg.eigvals, "eigh": gc.linalg.eigh, "eigvalsh": gc.linalg.eigvalsh,
}  # fmt: skip


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 17, 20, 40])
def test_matrices_that_are_not_finite_end(name: str, n: int) -> None:
    """On some of them LAPACK would never return."""
    rng = np.random.default_rng(n)
    for value in (np.nan, np.inf, -np.inf):
        for batch in ((), (2,)):
            for dtype in ("float32", "float64", "complex128"):
                a = rng.random((*batch, n, n)).astype(dtype)
                a[..., n // 2, n // 3] = value
                said = refusal(lambda a=a: FACTORS[name](gc.tensor(a)))  # type: ignore[misc]
                if said:
                    assert re.search("finite|positive-definite|infs or NaNs", said), said
                else:  # eigh and cholesky read one triangle
                    assert name.startswith(("eigh", "eigvalsh", "cholesky")) or n == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16", "complex64"])
@pytest.mark.parametrize("width", range(1, 17))
def test_negation_in_place_of_columns(dtype: str, width: int) -> None:
    """Steps of any number of elements, which some versions of NumPy misread."""
    values = np.arange(9 * width).reshape(9, width).astype(dtype)
    for column in range(0, width, 3):
        for write in (lambda c: c.neg_(), lambda c: gc.neg(c, out=c), lambda c: gc.negative(c.clone(), out=c)):
            x = gc.tensor(values)
            write(x[:, column])
            expected = values.copy()
            expected[:, column] = -expected[:, column]
            np.testing.assert_array_equal(x.numpy(), expected)


NAMES = [name for name in dir(gc.special) if "polynomial" in name]


@pytest.mark.parametrize("name", NAMES)
def test_degrees_of_polynomials_that_are_high(name: str) -> None:
    function = getattr(gc.special, name)
    for n in (2**20, 2**40, 2**62, gc.tensor([1, 2**62]), 1e30):
        if "laguerre" in name or "legendre" in name:
            with pytest.raises(RuntimeError, match="up to the degree"):
                function(gc.tensor([0.5, 1.0]), n)
        else:
            assert function(gc.tensor([0.5, 1.0]), n).isnan().all() == ("hermite" in name and not gc.is_tensor(n))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert function(gc.tensor([0.5]), gc.tensor([float("nan")])).shape == (1,)


@pytest.mark.parametrize("name", [name for name in NAMES if "chebyshev" in name])
@pytest.mark.parametrize("order", range(4))
def test_high_degrees_continue_the_recurrence(name: str, order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(order)
    x = np.concatenate(
        [rng.uniform(-0.95, 0.95, 40), rng.uniform(1.0, 1.01, 5), -rng.uniform(1.0, 1.01, 5), [1, -1, 0]]
    )
    x = gc.tensor((x + 1) / 2 if "shifted" in name else x, requires_grad=True)
    n = gc.tensor(rng.integers(65, 200, len(x)))
    found = []
    for highest in (1 << 17, 64):
        monkeypatch.setattr(polynomials, "HIGHEST", highest)
        y = getattr(gc.special, name)(x, n)
        for _ in range(order):
            (y,) = gc.autograd.grad(y.sum(), x, create_graph=True)
        found.append(y.detach().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-9 * 200 ** (2 * order))


def test_nothing_to_work_on() -> None:
    x = gc.ones(3, 4, requires_grad=True)
    nothing = gc.zeros(3, 4, dtype=gc.bool)
    for source in (gc.ones(0, requires_grad=True), gc.ones(5, requires_grad=True)):
        x.masked_scatter(nothing, source).sum().backward()
        assert source.grad is not None
        assert not source.grad.any()
        assert source.grad.shape == source.shape
    (grad,) = gc.autograd.grad((x.masked_select(nothing) ** 2).sum(), x, create_graph=True)
    assert not gc.autograd.grad(grad.sum(), x)[0].any()
    for dim in (0, -1):
        assert gc.movedim(gc.tensor(2.0), dim, -1 - dim) == gc.moveaxis(gc.tensor(2.0), dim, 0) == 2
    q, k, v = (gc.ones(2, n, 4, requires_grad=True) for n in (3, 0, 0))
    out = F.scaled_dot_product_attention(q, k, v)
    out.sum().backward()
    assert out.shape == (2, 3, 4)
    assert not out.any()
    assert not q.grad.any()
    assert k.grad.shape == (2, 0, 4)


def test_bags_of_minus_infinity() -> None:
    lowest = -float("inf")
    weight = gc.tensor([[lowest, 1.0], [lowest, lowest], [5.0, 5.0]])
    bags = F.embedding_bag(gc.tensor([0, 1, 1]), weight, gc.tensor([0, 2, 3]), mode="max")
    assert bags.tolist() == [[lowest, 1.0], [lowest, lowest], [0.0, 0.0]]
    padded = F.embedding_bag(gc.tensor([2, 2, 0]), weight, gc.tensor([0, 2]), mode="max", padding_idx=2)
    assert padded.tolist() == [[0.0, 0.0], [lowest, 1.0]]


#: Results that no memory holds.
HUGE: dict[str, Callable[[], Any]] = {
    "zeros": lambda: gc.zeros(2**62),
    "one_hot": lambda: F.one_hot(gc.tensor([1]), 2**62),
    "repeat": lambda: gc.ones(2).repeat(2**62),
    "repeat_interleave": lambda: gc.ones(2).repeat_interleave(2**62),
    "repeats": lambda: gc.ones(2).repeat_interleave(gc.tensor([2**62, 2**62])),
    "pad": lambda: F.pad(gc.ones(2), (2**62, 1)),
    "bincount": lambda: gc.bincount(gc.tensor([2**62])),
    "interpolate": lambda: F.interpolate(gc.ones(1, 1, 3), 2**62),
    "full": lambda: gc.full((2**50,), 1.0),
    "sum of views": lambda: gc.ones(2**24, 1).expand(2**24, 2**24) + 1,
    "outer": lambda: gc.outer(gc.ones(2**24), gc.ones(2**24)),
}


@pytest.mark.parametrize("name", HUGE)
def test_what_no_memory_holds_is_a_runtime_error(name: str) -> None:
    with pytest.raises(RuntimeError):
        HUGE[name]()


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from(["uint8", "int8", "int16", "uint16"]),
    st.sampled_from(["clamp", "addcmul", "add", "sub", "masked_fill", "eq", "lt", "pow"]),
    st.integers(-70_000, 70_000),
)
def test_numbers_beyond_small_integers(dtype: str, name: str, number: int) -> None:
    """They wrap once, or are refused: Python's OverflowError is nobody's."""
    x = gc.tensor([0, 1, 2], dtype=getattr(gc, dtype))
    calls: dict[str, Callable[[], Any]] = {
        "clamp": lambda: x.clamp(number, 100), "addcmul": lambda: gc.addcmul(x, x, x, value=number),
        "add": lambda: x + number, "sub": lambda: gc.sub(x, x, alpha=number), "eq": lambda: x == number,
        "masked_fill": lambda: x.masked_fill(x > 0, number), "lt": lambda: x < number, "pow": lambda: x**number,
    }  # fmt: skip
    said = refusal(calls[name])
    assert not said or re.search("overflow|negative integer powers", said), said


@settings(deadline=None, max_examples=100)
@given(st.floats(-1e6, 1e6), st.sampled_from(["float64", "complex128"]))
def test_numbers_keep_their_digits(number: float, dtype: str) -> None:
    """A number beside a tensor in double precision is one in double precision."""
    x = gc.tensor([3.0], dtype=getattr(gc, dtype))
    assert gc.zeros_like(x).copy_(number).item() == number
    assert gc.zeros_like(x).fill_(number).item() == number
    assert (number + gc.zeros_like(x)).item() == number
    if dtype == "float64":
        assert (number % x).item() == number % 3.0
        assert (number // x).item() == number // 3.0
        assert gc.isin(gc.tensor([number], dtype=gc.float64), number).item()
        assert gc.isin(number, gc.tensor([number], dtype=gc.float64)).item()
        assert gc.maximum(gc.tensor([-1e9], dtype=gc.float64), number).item() == number


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("position", range(6))
def test_differences_with_one_spacing_read_two_neighbours(bad: float, position: int) -> None:
    """The element itself does not enter its central difference, so it cannot spoil it."""
    x = gc.arange(6.0)
    x[position] = bad
    (found,) = gc.gradient(x, spacing=0.5)
    pairs = zip([x[0], *x[:-1]], [*x[1:], x[-1]], strict=True)
    expected = gc.stack([(b - a) * (1 if 0 < i < 5 else 2) for i, (a, b) in enumerate(pairs)])
    assert gc.equal(found.isfinite(), expected.isfinite())
    assert gc.equal(found[found.isfinite()], expected[found.isfinite()])


@pytest.mark.parametrize("call", ["gradient(x, spacing=2.0)[0]", "gradient(x, spacing=2.0, edge_order=2)[0]",
                                  "trapezoid(x, dx=0.5)", "cumulative_trapezoid(x, dx=0.5)", "trapz(x)"])  # fmt: skip
def test_numbers_as_spacing_are_not_saved(call: str) -> None:
    """So backward can run a second time."""
    x = gc.arange(5.0, requires_grad=True)
    out = eval(f"gc.{call}", {"gc": gc, "x": x}).sum()
    first = gc.autograd.grad(out, x, allow_unused=True)[0]
    assert gc.equal(gc.autograd.grad(out, x)[0], first)
