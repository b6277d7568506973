"""Calls of SciPy's functions, written as text, on tensors: values and dtypes against SciPy, derivatives."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gradcore as gc
from gradcore.autograd import gradcheck, gradgradcheck
from tests.references import reference_call

__all__ = ["called", "check_derivatives", "check_values", "expressions", "lines"]


def lines(text: str) -> dict[str, list[str]]:
    """Parse lines ``name: arguments; arguments`` to the calls of each function."""
    found: dict[str, list[str]] = {}
    for line in filter(None, text.splitlines()):
        name, _, calls = line.partition(": ")
        found.setdefault(name, []).extend(call.strip() for call in calls.split(";"))
    return found


def expressions(text: str) -> list[str]:
    return [f"{name}({call})" for name, calls in lines(text).items() for call in calls]


def called(expression: str) -> str:
    return expression[: expression.index("(")]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _read(expression: str, arrays: dict[str, Any]) -> list[str]:
    """Return the names of the arrays that an expression reads."""
    return [name for name in arrays if re.search(rf"(?<![\w.'\"]){name}(?![\w'\"(]|=[^=])", expression)]


def _strided(array: Any) -> Any:
    """Return a tensor that consists of every second element in memory."""
    return gc.tensor(np.repeat(array, 2, -1))[..., ::2] if isinstance(array, np.ndarray) and array.ndim else array


def _evaluated(expression: str, module: Any, values: dict[str, Any]) -> Any:
    head, _, rest = expression.partition("(")
    function: Any = module
    for part in head.split("."):
        function = getattr(function, part)
    return eval(f"function({rest}", {"np": np, "function": function, **values})


def _host(x: Any) -> Any:
    return x.detach().cpu().resolve_conj().numpy() if isinstance(x, gc.Tensor) else np.asarray(x)


def check_values(
    expression: str,
    module: str,
    arrays: dict[str, Any],
    tolerance: float = 1e-9,
    convert: Callable[..., Any] = _strided,
) -> None:
    """Compare ``gradcore.scipy`` with SciPy: numbers, shapes and dtypes, of strided tensors."""
    theirs = importlib.import_module(f"scipy.{module}")
    ours = importlib.import_module(f"gradcore.scipy.{module}")
    with reference_call():
        wanted = list(_leaves(_evaluated(expression, theirs, arrays)))
    found = list(_leaves(_evaluated(expression, ours, {name: convert(a) for name, a in arrays.items()})))
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        if isinstance(a, int):
            assert a == b
            continue
        if isinstance(b, (np.ndarray, np.generic)):
            assert isinstance(a, gc.Tensor), type(a)
        a, b = _host(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        bound = 2e-5 if b.dtype.char in "fF" else tolerance
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound)


def check_derivatives(expression: str, module: str, arrays: dict[str, Any], second: bool = True) -> None:
    """First and second derivatives, in both modes, by every array of floating-point numbers that is read."""
    ours = importlib.import_module(f"gradcore.scipy.{module}")
    values = {name: gc.tensor(a) if isinstance(a, np.ndarray) else a for name, a in arrays.items()}
    names = [n for n in _read(expression, arrays) if isinstance(arrays[n], np.ndarray) and arrays[n].dtype.char in "dD"]
    kept: list[int] = []
    leaves = [values[name].clone().requires_grad_() for name in names]

    def call(*given: gc.Tensor) -> Any:
        found = _evaluated(expression, ours, {**values, **dict(zip(names, given, strict=True))})
        results = [t for t in _leaves(found) if isinstance(t, gc.Tensor)]
        if not kept:
            kept.extend(i for i, t in enumerate(results) if t.requires_grad)
        return tuple(results[i] for i in kept)

    found = call(*leaves)
    assert found, "no result has a history"
    reached = gc.autograd.grad(sum(abs(t).sum() for t in found), leaves, allow_unused=True)
    assert not [name for name, grad in zip(names, reached, strict=True) if grad is None], "not connected"
    settings = {"fast_mode": True, "check_undefined_grad": False, "atol": 1e-4}
    assert gradcheck(call, leaves, check_forward_ad=True, **settings)
    if second:
        assert gradgradcheck(call, leaves, rtol=1e-2, **settings)
