"""Functions that make tensors: the keywords that they share, as signatures show them and as calls take them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import gradcore as gc

#: Calls of functions that share their keywords, without these.
CALLS: dict[str, tuple[Any, ...]] = {
    "arange": (3,), "eye": (2,), "full": ((2,), 3.0), "linspace": (0, 1, 3), "logspace": (0, 1, 3), "range": (0, 2),
    "empty_strided": ((2,), (1,)), "scalar_tensor": (2.0,),
}  # fmt: skip
SHARED = ["dtype", "device", "requires_grad", "layout", "pin_memory"]
HAVE_OUT = [name for name in CALLS if name not in ("empty_strided", "scalar_tensor")]
every_call = pytest.mark.parametrize("name", CALLS)


@every_call
def test_signatures_show_every_keyword(name: str) -> None:
    parameters = inspect.signature(getattr(gc, name)).parameters
    keywords = {n: p for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
    assert list(keywords) == [*SHARED, *(["out"] if name in HAVE_OUT else [])]
    assert all(p.kind is not p.VAR_KEYWORD for p in parameters.values())
    assert {n: p.default for n, p in keywords.items() if p.default is not None} == {
        "requires_grad": False,
        "pin_memory": False,
    }


@every_call
def test_keywords_do_what_they_say(name: str) -> None:
    function, args = getattr(gc, name), CALLS[name]
    made = function(*args, dtype=gc.float64, device="cpu", requires_grad=True, layout=gc.strided, pin_memory=False)
    assert made.dtype is gc.float64
    assert made.requires_grad
    assert made.is_leaf
    assert not function(*args).requires_grad
    assert function(*args, device="meta").is_meta
    if name in HAVE_OUT:
        out = gc.empty(0, dtype=gc.float64)
        assert function(*args, out=out) is out
        np.testing.assert_allclose(out, function(*args), rtol=1e-6)


@every_call
def test_unknown_keywords_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'shape'"):
        getattr(gc, name)(*CALLS[name], shape=3)
    if name not in HAVE_OUT:
        with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
            getattr(gc, name)(*CALLS[name], out=gc.zeros(2))


@every_call
def test_modes_see_the_call(name: str) -> None:
    seen = []

    class Mode(gc.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append((func, args, kwargs))
            return func(*args, **(kwargs or {}))

    with Mode():
        made = getattr(gc, name)(*CALLS[name], dtype=gc.float64, device=None)
    assert seen[0] == (getattr(gc, name), CALLS[name], {"dtype": gc.float64})
    assert made.dtype is gc.float64


def test_a_spacing_that_is_differentiated_takes_the_keywords() -> None:
    start, out = gc.tensor(1.0, requires_grad=True), gc.empty(3)
    assert gc.linspace(start, 2, 3, out=out) is out
    (grad,) = gc.autograd.grad(gc.logspace(start, 2, 3, dtype=gc.float32).sum(), start)
    assert grad.item() == pytest.approx(np.log(10) * (10 + 10**1.5 / 2), rel=1e-5)
