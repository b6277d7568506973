"""Floats among the arguments that change between calls: inputs of one program, where the source allows it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import gradcore as gc


def descend(x: Any, lr: float) -> Any:
    for _ in range(3):
        x = x - lr * x.tanh()
    return x


def momentum(x: Any, lr: float) -> Any:
    v = x * 0
    for _ in range(3):
        v = 0.9 * v + lr * x.sin()
        x = x - v
    return x


def returned(x: Any, lr: float) -> Any:
    return x / lr, lr, lr * 2


def decided(x: Any, lr: float) -> Any:
    return x * lr if lr > 0.05 else x / lr


def given_to_c(x: Any, lr: float) -> Any:
    return x * math.sqrt(abs(lr))


def of_complex(x: Any, lr: float) -> Any:
    unit = 2j
    return x + (unit * lr).imag


def rebound(x: Any, lr: float) -> Any:
    rate = lr
    lr = 2.0
    return x * rate + lr


def nested(x: Any, lr: float) -> Any:
    def doubled() -> float:
        return lr * 2

    return x * doubled()


class Scaled(gc.nn.Module):
    """A module that takes a float."""

    def forward(self, x: Any, beta: float) -> Any:
        return x.exp() * beta


#: Functions of a tensor and a float, and how many programs they need at most; None where each value needs one.
FUNCTIONS: dict[str, tuple[Callable[..., Any], int | None]] = {
    "descend": (descend, 2), "momentum": (momentum, 2), "returned": (returned, 2), "decided": (decided, 3),
    "module": (Scaled(), 2), "given_to_c": (given_to_c, None), "of_complex": (of_complex, None),
    "rebound": (rebound, 2), "nested": (nested, None),
}  # fmt: skip
VALUES = (0.5, 0.5, 0.25, 0.125, 2.0, math.inf, 1e-3, 0.0625, 3.0, -1.0, 0.75, 1.5, -0.0, 0.5)


def outcome(function: Any, *args: Any, **named: Any) -> Any:
    x = gc.linspace(-1, 1, 5).requires_grad_()
    result = function(x, *args, **named)
    tensor, *others = result if isinstance(result, tuple) else (result,)
    tensor.sum().backward()
    return repr((tensor.tolist(), x.grad.tolist(), others))


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_floats_that_change(name: str, by_name: bool) -> None:
    function, most = FUNCTIONS[name]
    compiled = gc.compile(function, options={"cpp": False})
    key = "beta" if name == "module" else "lr"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if most is None else "error", UserWarning)
        for value in VALUES:
            args, named = ((), {key: value}) if by_name else ((value,), {})
            assert outcome(compiled, *args, **named) == outcome(function, *args, **named), value
    made = getattr(compiled, "_compiled_call_impl", compiled)._specializations
    assert len(made) <= most if most is not None else len(made) > 3


named = {"lr": 2.0}


def test_float_in_a_dict_of_the_same_name_and_key_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = gc.compile(lambda x, lr=1.0: x * lr * named["lr"])
    x = gc.ones(2)
    for factor in (2.0, 5.0):
        monkeypatch.setitem(named, "lr", factor)
        for lr in (1.0, 2.0, 3.0, 4.0):
            assert compiled(x, lr=lr).tolist() == [lr * factor] * 2
