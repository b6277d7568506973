"""The array API standard of 2024.12: names, arguments, dtypes, promotion, gradients; and libraries written for it."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from itertools import product
from typing import Any

import numpy as np
import pytest

import gradcore as gc
import gradcore.array_api as xp

#: Functions of the standard and their arguments: those by position, then those by name.
SIGNATURES = """
arange start / stop step | dtype device
asarray obj / | dtype device copy
empty shape | dtype device
empty_like x / | dtype device
eye n_rows n_cols / | k dtype device
from_dlpack x / | device copy
full shape fill_value | dtype device
full_like x / fill_value | dtype device
linspace start stop / num | dtype device endpoint
meshgrid *arrays | indexing
ones shape | dtype device
ones_like x / | dtype device
tril x / | k
triu x / | k
zeros shape | dtype device
zeros_like x / | dtype device
astype x dtype / | copy device
broadcast_arrays *arrays |
broadcast_to x / shape |
can_cast from_ to / |
isdtype dtype kind |
result_type *arrays_and_dtypes |
clip x / min max |
cumulative_prod x / | axis dtype include_initial
cumulative_sum x / | axis dtype include_initial
max x / | axis keepdims
mean x / | axis keepdims
min x / | axis keepdims
prod x / | axis dtype keepdims
std x / | axis correction keepdims
sum x / | axis dtype keepdims
var x / | axis correction keepdims
take x indices / | axis
take_along_axis x indices / | axis
matmul x1 x2 / |
matrix_transpose x / |
tensordot x1 x2 / | axes
vecdot x1 x2 / | axis
concat arrays / | axis
expand_dims x / | axis
flip x / | axis
moveaxis x source destination / |
permute_dims x / axes |
repeat x repeats / | axis
reshape x / shape | copy
roll x / shift | axis
squeeze x / axis |
stack arrays / | axis
tile x repetitions / |
unstack x / | axis
argmax x / | axis keepdims
argmin x / | axis keepdims
count_nonzero x / | axis keepdims
nonzero x / |
searchsorted x1 x2 / | side sorter
where condition x1 x2 / |
unique_all x / |
unique_counts x / |
unique_inverse x / |
unique_values x / |
argsort x / | axis descending stable
sort x / | axis descending stable
all x / | axis keepdims
any x / | axis keepdims
diff x / | axis n prepend append
linalg.cholesky x / | upper
linalg.cross x1 x2 / | axis
linalg.det x / |
linalg.diagonal x / | offset
linalg.eigh x / |
linalg.eigvalsh x / |
linalg.inv x / |
linalg.matmul x1 x2 / |
linalg.matrix_norm x / | keepdims ord
linalg.matrix_power x n / |
linalg.matrix_rank x / | rtol
linalg.matrix_transpose x / |
linalg.outer x1 x2 / |
linalg.pinv x / | rtol
linalg.qr x / | mode
linalg.slogdet x / |
linalg.solve x1 x2 / |
linalg.svd x / | full_matrices
linalg.svdvals x / |
linalg.tensordot x1 x2 / | axes
linalg.trace x / | offset dtype
linalg.vecdot x1 x2 / | axis
linalg.vector_norm x / | axis keepdims ord
fft.fft x / | n axis norm
fft.fftfreq n / | d dtype device
fft.fftn x / | s axes norm
fft.fftshift x / | axes
fft.hfft x / | n axis norm
fft.ifft x / | n axis norm
fft.ifftn x / | s axes norm
fft.ifftshift x / | axes
fft.ihfft x / | n axis norm
fft.irfft x / | n axis norm
fft.irfftn x / | s axes norm
fft.rfft x / | n axis norm
fft.rfftfreq n / | d dtype device
fft.rfftn x / | s axes norm
"""
UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_invert", "ceil", "conj", "cos", "cosh", "exp",
    "expm1", "floor", "imag", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "logical_not",
    "negative", "positive", "real", "reciprocal", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan",
    "tanh", "trunc",
)  # fmt: skip
BINARY = (
    "add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal", "hypot", "less", "less_equal",
    "logaddexp", "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "nextafter",
    "not_equal", "pow", "remainder", "subtract",
)  # fmt: skip
FLOATS, COMPLEX = ("float32", "float64"), ("complex64", "complex128")
SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")


def _found(path: str) -> Any:
    found: Any = xp
    for part in path.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("line", SIGNATURES.strip().splitlines())
def test_signatures(line: str) -> None:
    (path, *positional), named = (part.split() for part in line.split("|"))
    parameters = list(inspect.signature(_found(path)).parameters.values())
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return  # a universal function, whose arguments are NumPy's
    if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        by_position = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        for name, p in zip([n for n in positional if n != "/"], by_position, strict=False):
            assert "/" in positional or p.name == name
        assert len(by_position) >= len([n for n in positional if n != "/"])
        if "/" in positional:
            for name in positional[positional.index("/") + 1 :]:
                assert name in {p.name for p in parameters}
    assert set(named) <= {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}


def test_names() -> None:
    assert all(callable(getattr(xp, name)) for name in (*UNARY, *BINARY, "broadcast_shapes", "finfo", "iinfo"))
    assert xp.__array_api_version__ == "2024.12"
    assert gc.ones(1).__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match=r"2024\.12"):
        gc.ones(1).__array_namespace__(api_version="1999.12")
    assert (xp.newaxis, xp.e, xp.inf) == (None, np.e, np.inf)
    assert gc.ones(2).to_device("cpu").device == gc.device("cpu")


PAIRS = [*product(SIGNED, SIGNED), *product(UNSIGNED, UNSIGNED), *product(FLOATS + COMPLEX, FLOATS + COMPLEX)]
PAIRS += [(a, b) for a, b in product(SIGNED, UNSIGNED) if "uint64" not in (a, b)]


def test_promotion() -> None:
    for a, b in PAIRS:
        wanted = np.promote_types(a, b).name
        x, y = (xp.ones(2, dtype=getattr(xp, d)) for d in (a, b))
        assert xp.add(x, y).dtype.name == xp.result_type(x, y).name == xp.concat([x, y]).dtype.name == wanted
        assert xp.add(x, xp.ones((), dtype=getattr(xp, b))).dtype.name == wanted  # without dims too
        assert xp.where(x == x, x, y).dtype.name == wanted
    for name in (*SIGNED, *UNSIGNED, *FLOATS, *COMPLEX):
        x = xp.ones(2, dtype=getattr(xp, name))
        assert xp.multiply(x, 2).dtype is x.dtype is (x * 2).dtype
        assert xp.sum(x).dtype.name == np.sum(np.ones(2, name)).dtype.name
        assert xp.equal(x, x).dtype is xp.bool


def test_what_the_namespace_says_of_itself() -> None:
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.default_device() in info.devices()
    assert info.default_dtypes()["real floating"] is xp.asarray([1.0]).dtype is xp.zeros(1).dtype is xp.float64
    assert info.default_dtypes()["indexing"] is xp.argmax(xp.asarray([1, 2])).dtype is xp.int64
    assert set(info.dtypes(kind="real floating")) == set(FLOATS)
    assert set(info.dtypes(kind=("bool", "integral"))) == {"bool", *SIGNED, *UNSIGNED}
    assert len(info.dtypes()) == 13
    assert xp.finfo(xp.complex64).dtype == xp.finfo(xp.float32).dtype
    assert (xp.iinfo(xp.int8).max, xp.finfo(xp.float64).eps) == (127, np.finfo(float).eps)
    assert xp.isdtype(xp.float32, ("real floating", "bool"))
    assert xp.can_cast(xp.int32, xp.int64)


@pytest.mark.parametrize("name", [n for n in UNARY if not n.startswith(("bitwise", "is", "logical", "sign"))])
def test_gradients_of_elementwise_functions(name: str) -> None:
    x = xp.asarray([1.3, 1.7]) if name == "acosh" else xp.asarray([0.3, 0.7])
    assert gc.autograd.gradcheck(getattr(xp, name), x.requires_grad_())


def test_functions_with_arguments_of_their_own() -> None:
    x = xp.asarray([[3.0, 1.0, 2.0]]).requires_grad_()
    assert xp.sort(x, descending=True).tolist() == [[3.0, 2.0, 1.0]]
    assert xp.argsort(x, axis=1, descending=True).tolist() == [[0, 2, 1]]
    assert xp.sort(x).requires_grad
    assert xp.clip(xp.asarray([1, 5], dtype=xp.int8), 2, 3).dtype is xp.int8
    assert xp.expand_dims(x, axis=(0, 3)).shape == (1, 1, 3, 1)
    assert xp.fft.fftfreq(4, d=0.5, dtype=xp.float32).dtype is xp.float32
    assert xp.from_dlpack(np.arange(3.0), copy=True).tolist() == [0.0, 1.0, 2.0]


def test_names_and_arguments_are_those_of_the_strict_library() -> None:
    strict = pytest.importorskip("array_api_strict")
    missing = {n for n in strict.__all__ if not hasattr(xp, n)}
    assert not {n for n in missing if "flags" not in n.lower() and n not in ("Device", "__version__")}


def test_array_api_compat_and_extra() -> None:
    compat, extra = pytest.importorskip("array_api_compat"), pytest.importorskip("array_api_extra")
    x = gc.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=gc.float64, requires_grad=True)
    assert compat.array_namespace(x) is xp
    assert compat.is_array_api_obj(x)
    assert compat.size(x) == 4
    assert compat.device(x) == gc.device("cpu")
    for call in (
        lambda x: extra.cov(x),
        lambda x: extra.atleast_nd(x, ndim=3),
        lambda x: extra.kron(x, x),
        lambda x: extra.sinc(x),
        lambda x: extra.create_diagonal(x[0]),
        lambda x: extra.pad(x, 1),
    ):
        assert gc.autograd.gradcheck(call, x)
    assert extra.nunique(x.detach()) == 4
    assert bool(extra.isclose(x, x).all())


def test_opt_einsum() -> None:
    contract = pytest.importorskip("opt_einsum").contract
    a, b = (gc.tensor(np.arange(6.0).reshape(2, 3) + k, requires_grad=True) for k in (0, 1))
    found = contract("ij,kj,kl->il", a, b, gc.ones(2, 2, dtype=gc.float64))
    np.testing.assert_allclose(found.detach(), a.detach() @ b.detach().mT @ np.ones((2, 2)))
    assert gc.autograd.gradcheck(lambda a, b: contract("ij,kj,kj->i", a, b, b), (a, b))


#: SciPy and scikit-learn read their settings when they are imported.
SCIPY = """
import numpy as np
import gradcore as gc
from scipy import fft, integrate, signal, special, stats
v, w = np.linspace(-1, 2, 16) ** 2, np.array([0.2, 0.5, 0.1, 0.4])
calls = [
    lambda v, w: signal.fftconvolve(v, w), lambda v, w: signal.hilbert(v), lambda v, w: signal.resample(v, 8),
    lambda v, w: stats.zscore(v), lambda v, w: stats.skew(v), lambda v, w: stats.gmean(w), lambda v, w: stats.sem(v),
    lambda v, w: stats.pmean(w, 2), lambda v, w: stats.zmap(v, w), lambda v, w: stats.variation(w),
    lambda v, w: special.expit(v), lambda v, w: special.gammaln(w), lambda v, w: special.logsumexp(v),
    lambda v, w: special.softmax(v), lambda v, w: special.xlogy(w, w), lambda v, w: special.ndtri(w),
    lambda v, w: special.log1p(w), lambda v, w: fft.rfft(v), lambda v, w: fft.fftshift(v),
    lambda v, w: integrate.trapezoid(v),
]
for i, call in enumerate(calls):
    leaves = [gc.tensor(a, requires_grad=True) for a in (v, w)]
    found = call(*leaves)
    np.testing.assert_allclose(found.detach(), call(v, w), rtol=1e-9, atol=1e-12, err_msg=str(i))
    assert gc.autograd.gradcheck(call, leaves, fast_mode=True, atol=1e-4), i
try:
    special.huber(1.0, leaves[0])
except RuntimeError as error:
    assert "requires grad" in str(error)
print("done")
"""
SKLEARN = """
import numpy as np
import gradcore as gc
import sklearn
from sklearn import decomposition, linear_model, metrics, preprocessing
sklearn.set_config(array_api_dispatch=True)
X = np.random.default_rng(0).standard_normal((30, 4))
calls = [
    lambda X: preprocessing.StandardScaler().fit_transform(X), lambda X: preprocessing.MinMaxScaler().fit_transform(X),
    lambda X: abs(decomposition.PCA(2, svd_solver="full").fit_transform(X)),
    lambda X: linear_model.Ridge(solver="svd").fit(X, X[:, 0]).predict(X),
    lambda X: metrics.pairwise.rbf_kernel(X), lambda X: metrics.r2_score(X[:, 0], X[:, 1]),
]
for call in calls:
    found = call(gc.tensor(X))
    assert isinstance(found, (gc.Tensor, float))
    np.testing.assert_allclose(np.asarray(found), call(X), rtol=1e-7, atol=1e-9)
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("library", "program"), [("scipy", SCIPY), ("sklearn", SKLEARN)])
def test_libraries_in_their_array_api_mode(library: str, program: str) -> None:
    pytest.importorskip(library)
    pytest.importorskip("scipy", minversion="1.15")
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout == "done\n", done.stderr


def test_limits_have_the_dtype_itself() -> None:
    for name in (*FLOATS, *COMPLEX):
        dtype = getattr(xp, name)
        assert xp.finfo(dtype).dtype == dtype.to_real()
        assert xp.finfo(dtype).eps == np.finfo(name).eps
    for name in (*SIGNED, *UNSIGNED):
        assert xp.iinfo(getattr(xp, name)).dtype == getattr(xp, name)


def test_shapes_that_only_broadcast() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert xp.linalg.cross(xp.asarray(x), xp.asarray(x[0])).tolist() == np.cross(x, x[0]).tolist()
    assert xp.linalg.cross(xp.ones((0, 3)), xp.ones(3)).shape == (0, 3)
    assert xp.expand_dims(xp.ones(3), 0).shape == xp.expand_dims(xp.ones(3), axis=0).shape == (1, 3)
    with pytest.raises(ValueError, match="0d arrays"):
        xp.nonzero(xp.asarray(1))
    for function in (xp.vecdot, gc.Tensor.__dlpack__):
        assert not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())
