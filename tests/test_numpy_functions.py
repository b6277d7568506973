"""NumPy's and SciPy's functions of tensors: results are differentiated or carry no derivative, or it is refused."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view as windows
from numpy.testing.overrides import get_overridable_numpy_array_functions, get_overridable_numpy_ufuncs

import gradcore as gc

special = pytest.importorskip("scipy.special")

STEP = 1e-6
A = np.array([[0.4, 0.7], [0.2, 0.9]])


def b() -> Any:
    """Another array, which functions may write to."""
    return np.array([[0.6, 0.3], [0.8, 0.5]])


#: Ways to call functions, of which many fit none.
CALLS = {
    "x": lambda f, x: f(x),
    "x, x": lambda f, x: f(x, x),
    "x, array": lambda f, x: f(x, b()),
    "array, x": lambda f, x: f(b(), x),
    "x, axis": lambda f, x: f(x, axis=0),
    "x, 1": lambda f, x: f(x, 1),
    "x, 0, 1": lambda f, x: f(x, 0, 1),
    "list": lambda f, x: f([x, x]),
    "list with an array": lambda f, x: f([x, b()]),
    "condition": lambda f, x: f(b() > 0.4, x, 0.0),
    "vector": lambda f, x: f(x[0]),
    "vectors": lambda f, x: f(x[0], x[1]),
    "vectors and bounds": lambda f, x: f(x[0], b()[0], b()[1]),
    "array first, vectors": lambda f, x: f(b()[0], x[0], x[1]),
    "equation": lambda f, x: f("ij,jk->ik", x, x),
}

#: Of functions of Hermitian matrices, whose gradient is Hermitian too.
HERMITIAN = {"product": lambda f, x: f(x @ x.mT)}

FUNCTIONS = sorted(
    (
        f
        for f in get_overridable_numpy_array_functions()
        if f.__name__ not in ("empty_like", "save", "savez", "savez_compressed", "savetxt")
    ),
    key=lambda f: (f.__module__, f.__name__),
)
#: Those of strings are private, and crash when they are given numbers.
UFUNCS = sorted((f for f in get_overridable_numpy_ufuncs() if f.__name__[0] != "_"), key=lambda f: f.__name__)
SPECIAL = [f for name, f in sorted(vars(special).items()) if isinstance(f, np.ufunc)]


def _path(function: Any) -> str:
    return f"{getattr(function, '__module__', 'numpy')}.{function.__name__}"


def _numbers(value: Any) -> Iterator[Any]:
    """Arrays of floating-point numbers in a result."""
    if isinstance(value, gc.Tensor):
        value = value.detach().resolve_conj().numpy()
    if isinstance(value, (np.ndarray, np.generic, float, complex)):
        array = np.asarray(value)
        if array.dtype.kind in "fc":
            yield array
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _numbers(each)


def _tensors(value: Any) -> Iterator[gc.Tensor]:
    if isinstance(value, gc.Tensor):
        if value.dtype.is_differentiable:
            yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(each)


def _nothing_is_lost(compute: Any) -> str:
    """Classify a call with a tensor that requires grad: ``"refused"``, ``"constant"`` or ``"differentiated"``."""
    leaf = gc.tensor(A, requires_grad=True)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            plain = list(_numbers(compute(gc.tensor(A))))
        except Exception:
            return "no such call"
        try:
            result = compute(leaf)
        except Exception:
            return "refused"
        found = list(_numbers(result))
        rng = np.random.default_rng(0)
        direction, weights = rng.standard_normal(A.shape), [rng.standard_normal(a.shape) for a in found]
        assert [a.shape for a in plain] == [a.shape for a in found]
        for a, b in zip(plain, found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-12)
        sides = [
            sum(
                float((w * a).real.sum())
                for w, a in zip(weights, _numbers(compute(gc.tensor(A + s * STEP * direction))), strict=True)
            )
            for s in (1, -1)
        ]
        expected = (sides[0] - sides[1]) / (2 * STEP)
        tracked = [(t, w) for t, w in zip(_tensors(result), weights, strict=False) if t.requires_grad]
        value = 0.0
        if tracked:
            grads = [gc.tensor(w, dtype=t.dtype) for t, w in tracked]
            (grad,) = gc.autograd.grad([t for t, _ in tracked], leaf, grads)
            value = float((grad.numpy() * direction).sum())
        if abs(expected) < 1e4:  # and no step
            np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)
    return "differentiated" if tracked else "constant"


@pytest.mark.parametrize("function", FUNCTIONS, ids=_path)
def test_functions(function: Any) -> None:
    calls = HERMITIAN if function in (np.linalg.cholesky, np.linalg.eigh, np.linalg.eigvalsh) else CALLS
    outcomes = {name: _nothing_is_lost(lambda x, call=call: call(function, x)) for name, call in calls.items()}
    if set(outcomes.values()) == {"no such call"}:
        pytest.skip("takes other arguments")


@pytest.mark.parametrize("function", [*UFUNCS, *SPECIAL], ids=lambda f: f.__name__)
def test_universal_functions(function: Any) -> None:
    if function.nin > 3:
        pytest.skip("takes many arguments")
    for position in range(function.nin):

        def compute(x: Any, position: int = position) -> Any:
            values: list[Any] = [0.5, 0.25, 0.75][: function.nin]
            values[position] = x
            return function(*values)

        _nothing_is_lost(compute)
    if function.nin == 2:
        _nothing_is_lost(lambda x: function(x, b()))
        _nothing_is_lost(lambda x: function(b(), x))
        if function is not np.nextafter:  # constant at equal numbers, by convention
            _nothing_is_lost(lambda x: function(x, x))
        for method in ("reduce", "accumulate"):
            _nothing_is_lost(lambda x, method=method: getattr(function, method)(x))
            _nothing_is_lost(lambda x, method=method: getattr(function, method)(x, axis=1))
        _nothing_is_lost(lambda x: function.outer(x, b()))
        _nothing_is_lost(lambda x: function.outer(b(), x))
    _nothing_is_lost(lambda x: function(*[x] * function.nin, out=(np.zeros((2, 2)),) * function.nout))


@pytest.mark.parametrize("call", [lambda x: special.jv(1, x), lambda x: windows(x, 2, 0)])
def test_a_refusal_says_what_to_use(call: Any) -> None:
    with pytest.raises(RuntimeError, match=r"requires grad.*functions of gradcore.*detach"):
        call(gc.tensor(A, requires_grad=True))
    assert call(gc.tensor(A)) is not None


def test_comparisons_of_arrays_see_values() -> None:
    t = gc.tensor(A, requires_grad=True)
    assert np.array_equal(t, t)
    assert not np.array_equal(t, b())
    assert np.allclose(t, A)
    assert np.size(t) == 4
    assert np.shape(t) == (2, 2)
    assert np.ndim(t * 2) == 2
    assert np.argmax(t) == 3


def test_arrays_and_tensors_multiply() -> None:
    t = gc.tensor(A, requires_grad=True)
    for product in (b() @ t, t @ b(), np.matmul(b(), t), np.matmul(t, t)):
        assert product.requires_grad
    np.testing.assert_allclose((b() @ t).detach().numpy(), b() @ A)


def test_tangents_are_not_lost() -> None:
    assert inspect.isfunction(gc.func.jvp)
    with pytest.raises(RuntimeError, match="requires grad"):
        gc.func.jvp(lambda x: gc.as_tensor(windows(x, 2)), (gc.ones(2),), (gc.ones(2),))
    _, tangent = gc.func.jvp(lambda x: np.sin(x), (gc.zeros(2),), (gc.ones(2),))
    assert tangent.tolist() == [1.0, 1.0]
