"""A tensor that requires grad passes its gradient on, or a conversion that would lose its history raises or warns."""

from __future__ import annotations

import array
import math
import re
import struct
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc


@pytest.fixture(autouse=True)
def _policy() -> Iterator[None]:
    gc.set_history_loss("default")
    yield
    gc.set_history_loss("default")


def _element(target: Any, index: Any = 0) -> Callable[[Any], Any]:
    def write(t: Any) -> Any:
        target[index] = t

    return write


def _added(t: Any) -> None:
    target = np.zeros(3)
    target[1] += t


#: Conversions of which PyTorch only warns: what is converted, and whether that is an error by default.
CONVERSIONS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "float": (float, False),
    "complex": (complex, False),
    "percent": (lambda t: f"{float(t):.3f}", False),
    "math.sin": (math.sin, False),
    "math.hypot": (lambda t: math.hypot(t, 1), False),
    "array.fill": (lambda t: np.zeros(2).fill(t), False),
    "numpy.float64": (np.float64, False),
    "struct": (lambda t: struct.pack("d", t), False),
    "array.array": (lambda t: array.array("d", [t]), False),
    "element": (_element(np.zeros(3)), True),
    "element of two dims": (_element(np.zeros((3, 3)), (1, 2)), True),
    "element by a NumPy index": (_element(np.zeros(3), np.int64(1)), True),
    "element, added to": (_added, True),
    "complex element": (_element(np.zeros(3, complex)), True),
    "float16 element": (_element(np.zeros(3, np.float16)), True),
    "element of array.array": (_element(array.array("d", [0.0])), True),
    "tensor": (gc.tensor, False),
    "new_tensor": (lambda t: gc.ones(1).new_tensor(t), False),
    "tensor of a list": (lambda t: gc.tensor([t, t]), True),
    "tensor of a nested list": (lambda t: gc.tensor([[t], [t]]), True),
    "tensor of a tuple": (lambda t: gc.tensor((t,)), True),
    "as_tensor of a list": (lambda t: gc.as_tensor([t, t]), True),
    "asarray of a list": (lambda t: gc.asarray([t, t]), True),
    "new_tensor of a list": (lambda t: gc.ones(1).new_tensor([t]), True),
    "FloatTensor of a list": (lambda t: gc.FloatTensor([t, t]), True),
}

#: What always raises, whatever the policy: there is no such conversion in PyTorch either.
REFUSED: dict[str, Callable[[Any], Any]] = {
    "numpy()": lambda t: t.numpy(),
    "numpy.array": np.array,
    "numpy.asarray of a list": lambda t: np.asarray([t, t]),
    "slice": _element(np.zeros(3), slice(0, 2)),
    "mask": _element(np.zeros(3), np.ones(3, bool)),
    "numpy.full": lambda t: np.full(3, t),
    "dlpack": lambda t: np.from_dlpack(t),
    "full": lambda t: gc.full((2,), t),
    "full_like": lambda t: gc.full_like(gc.ones(2), t),
    "new_full": lambda t: gc.ones(2).new_full((2,), t),
    "arange": lambda t: gc.arange(0, t),
    "scalar_tensor": gc.scalar_tensor,
}

#: What says what it does, and is never concerned.
EXPLICIT: dict[str, Callable[[Any], Any]] = {
    "item": lambda t: t.item(),
    "tolist": lambda t: t.tolist(),
    "int": int,
    "bool": bool,
    "format": lambda t: f"{t:.3f}",
    "repr": repr,
    "str": str,
    "detach": lambda t: float(t.detach()),
    "data": lambda t: gc.tensor(t.data),
    "numpy(force=True)": lambda t: t.numpy(force=True),
}


def tensors() -> list[Any]:
    leaf = gc.tensor(1.5, requires_grad=True)
    return [leaf, leaf * 2, (leaf * gc.ones(3))[1]]


def _raised(convert: Callable[[Any], Any], t: Any) -> BaseException:
    """Return the root cause of a conversion's error, which NumPy may wrap in another."""
    with pytest.raises((RuntimeError, ValueError, struct.error)) as caught:
        convert(t)
    error: BaseException = caught.value
    while error.__cause__ is not None:
        error = error.__cause__
    return error


@pytest.mark.parametrize("policy", ["default", "error", "warn"])
@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions_raise_or_warn(name: str, policy: Any) -> None:
    convert, raises = CONVERSIONS[name]
    gc.set_history_loss(policy)
    for t in tensors():
        if policy == "error" or (policy == "default" and raises):
            if name == "struct":
                with pytest.raises(struct.error):
                    convert(t)
            else:
                error = _raised(convert, t)
                assert isinstance(error, RuntimeError), error
                assert re.search("requires[_ ]grad", str(error))
            continue
        with pytest.warns(UserWarning, match="requires_grad=True") as caught:
            convert(t)
        assert all(warning.filename == __file__ for warning in caught)


@pytest.mark.parametrize("name", CONVERSIONS)
def test_nothing_is_lost_of_what_has_no_history(name: str) -> None:
    convert, _ = CONVERSIONS[name]
    gc.set_history_loss("error")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "To copy construct")
        convert(gc.tensor(1.5))
        with gc.no_grad():
            convert(gc.tensor(1.5, requires_grad=True))
        convert(gc.tensor(1.5, requires_grad=True).detach())


@pytest.mark.parametrize("policy", ["default", "error", "warn"])
@pytest.mark.parametrize("name", REFUSED)
def test_other_libraries_and_numbers_are_refused(name: str, policy: Any) -> None:
    gc.set_history_loss(policy)
    for t in tensors():
        with pytest.raises((RuntimeError, TypeError, BufferError), match=r"requires? grad|must be Number"):
            REFUSED[name](t)


@pytest.mark.parametrize("name", EXPLICIT)
def test_what_says_what_it_does_is_silent(name: str) -> None:
    gc.set_history_loss("error")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "To copy construct")
        for t in tensors():
            EXPLICIT[name](t)


@pytest.mark.parametrize("name", ["float", "math.sin", "element", "tensor", "tensor of a list"])
@pytest.mark.parametrize("transform", ["jvp", "grad", "vjp"])
def test_tangents_and_transformations_are_histories_too(name: str, transform: str) -> None:
    gc.set_history_loss("error")
    convert, _ = CONVERSIONS[name]

    def f(x: Any) -> Any:
        convert(x)
        return x * 2

    x = gc.tensor(1.5)
    calls = {
        "jvp": lambda: gc.func.jvp(f, (x,), (x,)),
        "grad": lambda: gc.func.grad(f)(x),
        "vjp": lambda: gc.func.vjp(f, x),
    }
    error = _raised(lambda _: calls[transform](), x)
    assert "requires_grad=True" in str(error)


def test_tangents_are_not_lost_in_numpy() -> None:
    with pytest.raises(RuntimeError, match="requires grad"):
        gc.func.jvp(lambda x: gc.from_numpy(np.sin(x.numpy())), (gc.ones(2),), (gc.ones(2),))


@pytest.mark.parametrize("settings", [{}, {"copy": True}, {"dtype": gc.float64}, {"requires_grad": True}])
def test_asarray_keeps_the_graph(settings: dict[str, Any]) -> None:
    x = gc.ones(2, requires_grad=True)
    for t in (x, x * 2):
        found = gc.asarray(t, **settings)
        assert found.requires_grad
        (grad,) = gc.autograd.grad(found.sum(), x)
        assert grad.tolist() == ([1.0, 1.0] if t is x else [2.0, 2.0])
    assert gc.asarray(x) is x
    assert gc.Tensor(x * 2).requires_grad
    assert not gc.asarray(x * 2, requires_grad=False).requires_grad
    assert gc.asarray(np.ones(2), requires_grad=True).requires_grad
    assert not gc.asarray(np.ones(2)).requires_grad


@pytest.mark.parametrize("make", [gc.linspace, gc.logspace])
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_spaced_numbers_move_with_their_bounds(make: Any, steps: int) -> None:
    bounds = [gc.tensor(v, dtype=gc.float64, requires_grad=True) for v in (0.5, 1.25)]
    assert gc.autograd.gradcheck(lambda a, b: make(a, b, steps, dtype=gc.float64), bounds, check_forward_ad=True)
    assert gc.autograd.gradcheck(lambda b: make(-1, b, steps, dtype=gc.float64), bounds[1:])
    plain = make(*[b.detach() for b in bounds], steps, dtype=gc.float64)
    np.testing.assert_allclose(make(*bounds, steps, dtype=gc.float64).detach().numpy(), plain.numpy(), rtol=1e-14)


def test_the_policy_is_one_of_three() -> None:
    assert gc.history_loss() == "default"
    with pytest.raises(ValueError, match="'default', 'error', 'warn'"):
        gc.set_history_loss("silent")  # type: ignore[arg-type]
