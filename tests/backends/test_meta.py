"""The meta device: what NumPy would give, without data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcore.backends.meta import MetaArray, MetaBackend, layouts

XP = MetaBackend().xp


def as_meta(value: Any) -> Any:
    """Replace arrays, also in lists, tuples and arguments, by meta arrays of the same layout."""
    if isinstance(value, np.ndarray):
        return MetaArray(value.shape, value.dtype, value.strides)
    return type(value)(map(as_meta, value)) if isinstance(value, (list, tuple)) else value


def described(value: Any, strides: bool) -> Any:
    """Describe a result: kind, shapes, dtypes, and strides of dims with more than one element."""
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(described(v, strides) for v in value)]
    if isinstance(value, (np.ndarray, np.generic, MetaArray)):
        steps = tuple(s for n, s in zip(value.shape, value.strides, strict=True) if n > 1)
        return value.shape, np.dtype(value.dtype), steps if strides and value.size else None
    return value


def same(call: Callable[..., Any], *arrays: Any, strides: bool = False) -> None:
    with np.errstate(all="ignore"):
        expected = call(np, *arrays)
    assert described(call(XP, *map(as_meta, arrays)), strides) == described(expected, strides)


X = np.ones((2, 3, 4))
H = np.ones((2, 3, 4), "f4")
I = np.zeros((2, 3), "i8")
V = np.ones(3)
M = np.ones((5, 3, 3)) + 3 * np.eye(3)
C = np.ones((2, 4), "c8")
B = np.ones((2, 3, 4), bool)

#: Everything whose strides are NumPy's own: views, and results of universal functions.
VIEWS: list[Callable[..., Any]] = [
    lambda xp, x: x.reshape(6, 4), lambda xp, x: x.reshape((3, -1)), lambda xp, x: x.reshape(-1),
    lambda xp, x: x.transpose(2, 0, 1).reshape(8, 3), lambda xp, x: x.swapaxes(0, 1).reshape(3, 2, 2, 2),
    lambda xp, x: x.T, lambda xp, x: x.mT, lambda xp, x: x.transpose(1, 0, 2), lambda xp, x: x.transpose((2, 1, 0)),
    lambda xp, x: xp.transpose(x), lambda xp, x: xp.moveaxis(x, 0, -1), lambda xp, x: xp.swapaxes(x, 0, 2),
    lambda xp, x: xp.rollaxis(x, 2), lambda xp, x: xp.moveaxis(x, (0, 1), (-1, 0)),
    lambda xp, x: x[0], lambda xp, x: x[-1, 1:], lambda xp, x: x[..., ::2], lambda xp, x: x[:, None, ::-1],
    lambda xp, x: x[1, 2, 3, ...], lambda xp, x: x[:, 5:], lambda xp, x: x[None], lambda xp, x: x[...],
    lambda xp, x: x[..., 1:3, None], lambda xp, x: x[1:, ::2, ::-2],
    lambda xp, x: xp.flip(x), lambda xp, x: xp.flip(x, 1), lambda xp, x: xp.flip(x, (0, 2)),
    lambda xp, x: xp.fliplr(x), lambda xp, x: xp.flipud(x), lambda xp, x: xp.squeeze(x[:, :1]),
    lambda xp, x: xp.squeeze(x[:1, :, :1], 0), lambda xp, x: x[:, :1].squeeze(axis=1), lambda xp, x: xp.ravel(x),
    lambda xp, x: xp.expand_dims(x, 1), lambda xp, x: xp.expand_dims(x, (0, -1)),
    lambda xp, x: xp.broadcast_to(x, (5, 2, 3, 4)), lambda xp, x: xp.broadcast_to(x[:, :1], (2, 7, 4)),
    lambda xp, x: xp.broadcast_to(x[0, 0, 0, ...], (3,)), lambda xp, x: xp.atleast_1d(x[0, 0, 0, ...]),
    lambda xp, x: xp.atleast_2d(x[0, 0]), lambda xp, x: xp.diagonal(x), lambda xp, x: x.diagonal(1, 2, 0),
    lambda xp, x: xp.diagonal(x, -1, 1, 2), lambda xp, x: xp.diagonal(x, 9), lambda xp, x: xp.split(x, 2),
    lambda xp, x: xp.split(x, [1, 3], axis=2), lambda xp, x: xp.array_split(x, 3, axis=-1),
    lambda xp, x: xp.lib.stride_tricks.sliding_window_view(x, 2, axis=1),
    lambda xp, x: xp.lib.stride_tricks.sliding_window_view(x, (2, 3), axis=(1, 2)),
    lambda xp, x: xp.lib.stride_tricks.as_strided(x, (2, 2), (8, 16)), lambda xp, x: x.view("i8"),
    lambda xp, x: x.view(np.int64), lambda xp, x: x.real,
    *(lambda xp, x, k=k: xp.rot90(x, k, (1, 2)) for k in range(-1, 5)),
    lambda xp, x: x + 1, lambda xp, x: 1 / x, lambda xp, x: x.T * 2, lambda xp, x: xp.exp(x.transpose(1, 2, 0)),
    lambda xp, x: x.T + x.T[:, :, :1], lambda xp, x: x.swapaxes(0, 1) - x.swapaxes(0, 1)[:, :1],
    lambda xp, x: x.T[:, 1:] * x[0, :2, 0], lambda xp, x: x[::-1] ** 2, lambda xp, x: -x, lambda xp, x: abs(x),
    lambda xp, x: x == x, lambda xp, x: x.T < 3, lambda xp, x: xp.frexp(x.T), lambda xp, x: divmod(x, 2),
    lambda xp, x: x.T.astype("f4"), lambda xp, x: x.T.copy(), lambda xp, x: xp.zeros_like(x.T),
    lambda xp, x: xp.ones_like(x, dtype="f4"), lambda xp, x: xp.full_like(x.T, 2, "c8"),
    lambda xp, x: xp.empty_like(x, shape=(3, 2)), lambda xp, x: xp.copy(x.T), lambda xp, x: x.T.flatten(),
    lambda xp, x: xp.where(x.T > 0, x.T, 0), lambda xp, x: xp.ascontiguousarray(x.T),
]  # fmt: skip

#: Functions whose results are new arrays in C order, with what they are called with.
FUNCTIONS: list[tuple[Any, ...]] = [
    *((lambda xp, x, n=n: getattr(xp, n)(x), X) for n in ("sum", "prod", "max", "min", "mean", "var", "std", "all")),
    *((lambda xp, x, n=n: getattr(xp, n)(x, axis=1), H) for n in ("sum", "amax", "any", "mean", "argmax", "median")),
    *((lambda xp, x, n=n: getattr(xp, n)(x, axis=(0, 2), keepdims=True), H) for n in ("sum", "nanmax", "std", "any")),
    *((lambda xp, x, n=n: getattr(x, n)(axis=-1), H) for n in ("sum", "max", "min", "all", "argmin", "cumsum", "var")),
    (lambda xp, x: xp.sum(x), I), (lambda xp, x: xp.sum(x, 0, "f4"), I), (lambda xp, x: xp.prod(x > 0), I),
    (lambda xp, x: xp.mean(x), I), (lambda xp, x: xp.count_nonzero(x, axis=1), X),
    (lambda xp, x: xp.quantile(x, [0.1, 0.5], axis=1), X), (lambda xp, x: xp.add.reduce(x, axis=(0, 1)), H),
    (lambda xp, x: xp.add.reduce(x, axis=None, dtype="f8", keepdims=True), H), (lambda xp, x: xp.ptp(x, 0), X),
    (lambda xp, x: xp.maximum.accumulate(x, axis=1), X), (lambda xp, x: xp.multiply.outer(x, x), V),
    (lambda xp, x: xp.add.reduceat(x, [0, 2], axis=2), X), (lambda xp, x: xp.logical_and.reduce(x, axis=0), X),
    (lambda xp, x: xp.cumsum(x), X), (lambda xp, x: xp.cumprod(x, axis=1, dtype="f8"), H),
    (lambda xp, x: xp.sort(x, axis=1), X), (lambda xp, x: x.argsort(axis=0, kind="stable"), X),
    (lambda xp, x: xp.argsort(x, axis=None), X), (lambda xp, x: xp.roll(x, 1, axis=0), X),
    (lambda xp, x: xp.tril(x), M), (lambda xp, x: xp.clip(x, 0, 1), I), (lambda xp, x: x.clip(0.5, None), I),
    (lambda xp, x, y: xp.where(x > 0, x, y), H, X), (lambda xp, x: xp.where(x > 0, 1, 0), X),
    (lambda xp, x: xp.nan_to_num(x), H), (lambda xp, x: xp.round(x, 2), H), (lambda xp, x: xp.angle(x), C),
    (lambda xp, x: xp.isclose(x, 1), H), (lambda xp, x: xp.real(x), C), (lambda xp, x: xp.sinc(x), H),
    (lambda xp, x, y: xp.concatenate([x, y]), X, H), (lambda xp, x, y: xp.concatenate([x, y], axis=-1), H, B),
    (lambda xp, x: xp.concatenate([x, x], axis=None), X), (lambda xp, x, y: xp.stack([x, y], axis=1), X, H),
    (lambda xp, x: xp.stack((x, x), axis=-1), V), (lambda xp, x: xp.pad(x, ((1, 2), (0, 0), (3, 0))), X),
    (lambda xp, x: xp.pad(x, 2), I), (lambda xp, x: xp.tile(x, (2, 1, 3)), X), (lambda xp, x: xp.tile(x, 2), X),
    (lambda xp, x: xp.repeat(x, 3), X), (lambda xp, x: xp.repeat(x, [1, 2], axis=0), X),
    (lambda xp, x: x.repeat(2, 1), X),
    (lambda xp, x: xp.diag(x), V), (lambda xp, x: xp.diag(x, 1), M[0]), (lambda xp, x: x.trace(), M),
    (lambda xp, x: xp.trace(x, 0, 1, 2), M), (lambda xp, x: xp.broadcast_arrays(x, x[0]), X),
    (lambda xp, x, i: xp.take(x, i, axis=1), X, I), (lambda xp, x, i: x.take(i), X, I),
    (lambda xp, x, i: xp.take_along_axis(x, i, axis=1), X[..., 0], I),
    (lambda xp, x, i: xp.take_along_axis(x, i[:1], 1), X[..., 0], I),
    (lambda xp, x, v: xp.searchsorted(x, v), V, I), (lambda xp, x: xp.lexsort((x, x)), V),
    *((lambda xp, x, i, f=f: f(x, i), X, I) for f in (
        lambda x, i: x[i], lambda x, i: x[:, i], lambda x, i: x[i, i], lambda x, i: x[:, i, i], lambda x, i: x[0, i],
        lambda x, i: x[0, :, i], lambda x, i: x[i, :, i], lambda x, i: x[None, i], lambda x, i: x[..., i],
        lambda x, i: x[i[:1], None, 1:], lambda x, i: x[:, [0, 1, 1]], lambda x, i: x[i[0, 0, ...]],
        lambda x, i: x[1, ..., i], lambda x, i: x[:, np.array([True, False, True])],
        lambda x, i: x[np.ones((2, 3), bool)], lambda x, i: x[:, 1, np.array([0, 1])],
    )),
    (lambda xp, x, v: x @ v, M, V), (lambda xp, x, v: v @ x, M, V), (lambda xp, v: v @ v, V),
    (lambda xp, x, y: xp.matmul(x, y), M, M[0]),
    (lambda xp, x, y: xp.matmul(x[:, None], y), M, np.ones((4, 3, 2), "f4")),
    (lambda xp, x, y: xp.dot(x, y), M, np.ones((4, 3, 2))), (lambda xp, v: xp.dot(v, v), V),
    (lambda xp, v: xp.vdot(v, v), V),
    (lambda xp, x, v: xp.dot(x, v), M, V), (lambda xp, v: xp.inner(v, v), V), (lambda xp, v: xp.outer(v, v), V),
    (lambda xp, x, y: xp.inner(x, y), M, M[0]), (lambda xp, x: xp.kron(x, x), I), (lambda xp, x: xp.cross(x, x), M),
    (lambda xp, x, y: xp.tensordot(x, y, axes=([1, 2], [0, 1])), M, M[0]), (lambda xp, x: xp.tensordot(x, x[0], 1), M),
    *((lambda xp, m, n=n: getattr(xp.linalg, n)(m), M) for n in (
        "cholesky", "inv", "det", "slogdet", "eigvalsh", "eigh", "svd", "qr", "pinv", "matrix_rank", "norm", "cond")),
    (lambda xp, x: xp.linalg.svd(x, full_matrices=False), H), (lambda xp, x: xp.linalg.svd(x, compute_uv=False), H),
    (lambda xp, x: xp.linalg.qr(x, "complete"), X.swapaxes(1, 2)), (lambda xp, x: xp.linalg.qr(x, "r"), H),
    (lambda xp, m, v: xp.linalg.solve(m, v), M, V), (lambda xp, m: xp.linalg.solve(m, m[0, :, :2]), M),
    (lambda xp, m: xp.linalg.matrix_power(m, 3), M), (lambda xp, m: xp.linalg.norm(m, axis=(1, 2), keepdims=True), M),
    (lambda xp, x: xp.linalg.norm(x, 1, axis=1), H),
    *((lambda xp, x, n=n: getattr(xp.fft, n)(x), H) for n in (
        "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn",
        "irfftn")),
    (lambda xp, x: xp.fft.fft(x, 7, 1), X), (lambda xp, x: xp.fft.irfft(x, n=5, axis=0), H),
    (lambda xp, x: xp.fft.rfftn(x, (2, 6), (2, 1)), X), (lambda xp, x: xp.fft.fftn(x, axes=(0,)), I),
    (lambda xp, x: xp.fft.irfftn(x, s=(4,), axes=(1,)), X), (lambda xp, x: xp.fft.fftshift(x, axes=0), X),
    (lambda xp: xp.zeros((2, 3), "f4"),), (lambda xp: xp.ones(3),), (lambda xp: xp.empty((), bool),),
    (lambda xp: xp.full((2,), 1j),), (lambda xp: xp.full((2,), 1, dtype="u1"),), (lambda xp: xp.arange(5),),
    (lambda xp: xp.arange(1, 4, 0.5),), (lambda xp: xp.arange(5, 0, -2, dtype="f4"),),
    (lambda xp: xp.eye(3, 4, dtype="f4"),),
    (lambda xp: xp.identity(3),), (lambda xp: xp.linspace(0, 1, 7),), (lambda xp: xp.asarray([[1, 2], [3, 4]]),),
    (lambda xp: xp.array(2.5),), (lambda xp: xp.asarray([1, 2], "f4"),), (lambda xp: xp.fft.fftfreq(6),),
    (lambda xp: xp.fft.rfftfreq(6),), (lambda xp, x: xp.asarray(x, "f4"), X), (lambda xp, v: xp.asarray([v, v]), V),
    (lambda xp, x: (xp.shape(x), xp.ndim(x), xp.size(x), x.size, x.ndim, len(x), x.nbytes, x.itemsize), H),
    (lambda xp, x: xp.result_type(x, np.float32), I), (lambda xp, x: xp.iscomplexobj(x), C),
]  # fmt: skip


@pytest.mark.parametrize("call", VIEWS)
@pytest.mark.parametrize("order", ["C", "F", "reversed"])
def test_views_and_ufuncs_are_numpys(call: Callable[..., Any], order: str) -> None:
    """Shape, dtype and strides."""
    x = X[:, ::-1] if order == "reversed" else np.array(X, order=order)  # type: ignore[call-overload]
    same(call, x, strides=True)


def test_views_in_other_dtypes_are_numpys() -> None:
    for dtype in ("f4", "i2", "c16"):
        same(lambda xp, x, dtype=dtype: x.view(dtype), X, strides=True)
    same(lambda xp, x: x.view("c16").imag, X, strides=True)


@pytest.mark.parametrize("call", FUNCTIONS)
def test_functions_are_numpys(call: tuple[Any, ...]) -> None:
    """Shape, dtype, and the kind of tuple."""
    same(*call)


@pytest.mark.parametrize(
    "function", [np.add, np.power, np.true_divide, np.left_shift, np.hypot, np.logical_and, np.equal]
)
@pytest.mark.parametrize("first", ["?", "u1", "i4", "i8", "f2", "f4", "f8", "c8"])
@pytest.mark.parametrize("second", ["?", "i8", "f4", "c16", 1, 2.0, 1j, np.float32(3)])
def test_promotion_is_numpys(function: Any, first: str, second: Any) -> None:
    x = np.ones(3, first)
    y = np.ones((2, 1), second) if isinstance(second, str) else second
    try:
        expected = function(x, y).dtype
    except TypeError:
        with pytest.raises(TypeError):
            function(as_meta(x), as_meta(y))
        return
    assert function(as_meta(x), as_meta(y)).dtype == expected


def test_special_functions() -> None:
    import scipy.special

    special = MetaBackend().special
    x = np.ones((2, 3), "f4")
    for call in (
        lambda s, x: s.erf(x), lambda s, x: s.gammaln(x), lambda s, x: s.polygamma(1, x), lambda s, x: s.zeta(x, x[0]),
        lambda s, x: s.xlogy(x.T, 2.0), lambda s, x: s.multigammaln(x + 3, 2), lambda s, x: s.i0(x),
    ):  # fmt: skip
        expected = call(scipy.special, x)
        assert described(call(special, as_meta(x)), True) == described(expected, True)


# -- layouts -----------------------------------------------------------------------------------------------------------

SIZES = st.lists(st.integers(1, 4), min_size=0, max_size=4).map(tuple)


@st.composite
def arrays(draw: Any) -> np.ndarray[Any, Any]:
    """Strided arrays: permuted, sliced, reversed, broadcast."""
    shape = draw(SIZES)
    a = np.zeros(shape).transpose(draw(st.permutations(range(len(shape)))))
    a = a[(*(slice(None, None, draw(st.sampled_from([1, 2, -1]))) for _ in shape), ...)]
    return np.broadcast_to(a, (2, *a.shape)) if draw(st.booleans()) else a


@st.composite
def factorisations(draw: Any, size: int) -> tuple[int, ...]:
    """Shapes of so many elements."""
    shape = []
    while size > 1:
        n = draw(st.sampled_from([n for n in range(2, size + 1) if size % n == 0]))
        shape.append(n)
        size //= n
    for _ in range(draw(st.integers(0, 2))):
        shape.insert(draw(st.integers(0, len(shape))), 1)
    return tuple(shape)


@given(st.data())
def test_reshape_is_a_view_where_numpys_is(data: Any) -> None:
    a = data.draw(arrays())
    shape = data.draw(factorisations(a.size))
    out = a.reshape(shape)
    found = layouts.reshape_strides(a.shape, a.strides, a.itemsize, shape)
    assert (found is not None) == np.shares_memory(out, a)
    if found is not None:
        assert [s for n, s in zip(shape, found, strict=True) if n > 1] == [
            s for n, s in zip(shape, out.strides, strict=True) if n > 1
        ]


@given(arrays(), arrays())
def test_results_of_ufuncs_lie_as_numpys(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> None:
    try:
        out = a + b
    except ValueError:
        with pytest.raises(ValueError, match="shape mismatch"):
            as_meta(a) + as_meta(b)
        return
    assert described(as_meta(a) + as_meta(b), True) == described(out, True)


@given(arrays())
def test_contiguity_is_numpys(a: np.ndarray[Any, Any]) -> None:
    flags = as_meta(a).flags
    assert (flags.c_contiguous, flags.f_contiguous) == (a.flags.c_contiguous, a.flags.f_contiguous)


@given(st.data())
def test_basic_indices_are_numpys(data: Any) -> None:
    a = data.draw(arrays().filter(lambda a: a.ndim))
    entry = st.one_of(st.integers(-4, 3), st.slices(4), st.none())
    index = tuple(data.draw(st.lists(entry, max_size=a.ndim)))
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(index)))
        index = (*index[:place], ..., *index[place:])
    else:
        index = (*index, ...)  # otherwise NumPy gives scalars
    try:
        expected = a[index]
    except IndexError:
        with pytest.raises(IndexError):
            as_meta(a)[index]
        return
    assert described(as_meta(a)[index], True) == described(expected, True)


def test_offsets_and_bases() -> None:
    x = MetaArray((4, 5), "f8")
    part = x[1:, ::-1].T[2]
    assert part.base is x
    assert part.offset == np.zeros((4, 5))[1:, ::-1].T[2].__array_interface__["data"][0] * 0 + 5 * 8 + 2 * 8
    assert x.reshape(20).base is x
    assert x.T.reshape(20).base is None
    assert (x + 1).base is None


# -- what cannot be ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x: xp.nonzero(x), lambda xp, x: x.nonzero(), lambda xp, x: xp.unique(x), lambda xp, x: x[x > 0],
        lambda xp, x: xp.where(x), lambda xp, x: xp.flatnonzero(x), lambda xp, x: xp.bincount(x),
        lambda xp, x: xp.repeat(x, x),
    ],
)  # fmt: skip
def test_shapes_that_depend_on_data(call: Callable[..., Any]) -> None:
    with pytest.raises(NotImplementedError, match="depends on data, which meta tensors lack"):
        call(XP, MetaArray((3,), "i8"))


@pytest.mark.parametrize("convert", [float, int, complex, bool, lambda x: x.item(), lambda x: np.allclose(x, x)])
def test_numbers_that_depend_on_data(convert: Any) -> None:
    with pytest.raises(RuntimeError, match=r"Tensor\.item\(\) cannot be called on meta tensors"):
        convert(MetaArray((), "i8"))


@pytest.mark.parametrize("convert", [np.asarray, np.array, lambda x: x.tolist()])
def test_data_cannot_be_read(convert: Any) -> None:
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        convert(MetaArray((2,), "f8"))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda xp, x: x + x[:, :2], ValueError),
        (lambda xp, x: x @ x, ValueError),
        (lambda xp, x: xp.matmul(x, xp.zeros(())), ValueError),
        (lambda xp, x: x.reshape(7), ValueError),
        (lambda xp, x: x.reshape(-1, 5), ValueError),
        (lambda xp, x: x[2], IndexError),
        (lambda xp, x: x[0, 0, 0], IndexError),
        (lambda xp, x: x.transpose(0, 0), ValueError),
        (lambda xp, x: x.transpose(0), ValueError),
        (lambda xp, x: xp.broadcast_to(x, (2, 4)), ValueError),
        (lambda xp, x: xp.squeeze(x, 0), ValueError),
        (lambda xp, x: xp.concatenate([x, x.T]), ValueError),
        (lambda xp, x: xp.stack([x, x.T]), ValueError),
        (lambda xp, x: xp.sum(x, axis=2), IndexError),
        (lambda xp, x: x.__setitem__(0, x), ValueError),
        (lambda xp, x: x.__iadd__(1j), TypeError),
        (lambda xp, x: x.__iadd__(xp.zeros((4, 2, 3))), ValueError),
        (lambda xp, x: xp.dot(x, x), ValueError),
        (lambda xp, x: iter(x[0, 0, ...]).__next__(), TypeError),
    ],
)
def test_errors_are_numpys(call: Any, error: Any) -> None:
    for xp, x in ((np, np.zeros((2, 3))), (XP, MetaArray((2, 3), "f8"))):
        with pytest.raises(error):
            call(xp, x)


def test_a_function_without_a_rule() -> None:
    with pytest.raises(NotImplementedError, match=r"numpy\.gradient is not supported on the meta device"):
        np.gradient(MetaArray((3,), "f8"))
