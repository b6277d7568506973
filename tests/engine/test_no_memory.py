"""No memory left: every call raises `OutOfMemoryError`, whatever the array library raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gradcore as gc

#: More elements than any machine has memory for. A view with stride 0 has as many in memory of one.
MANY = 1 << 46


def many() -> Any:
    return gc.zeros(1).expand(MANY)


def differentiate(run: Callable[[Any, Any], Any]) -> Any:
    """Call `run` with an element of a large view, whose gradient has as many elements, and with the leaf."""
    leaf = gc.zeros(1, requires_grad=True)
    return run(leaf.expand(MANY)[3], leaf)


def step(optimizer: str, **settings: Any) -> None:
    param = many().detach().requires_grad_()
    param.grad = many()
    getattr(gc.optim, optimizer)([param], lr=0.1, **settings).step()


CALLS: dict[str, Callable[[], Any]] = {
    "backward": lambda: differentiate(lambda x, leaf: x.backward()),
    "grad": lambda: differentiate(gc.autograd.grad),
    "jacrev": lambda: gc.func.jacrev(lambda x: x)(gc.zeros(1 << 23)),
    "SGD": lambda: step("SGD", momentum=0.9),
    "Adam": lambda: step("Adam"),
    "to": lambda: many().to(gc.float64),
    "half": lambda: many().half(),
    "clone": lambda: many().clone(),
    "mul": lambda: many() * 2,
    "rand": lambda: gc.rand(MANY),
    "rand_like": lambda: gc.rand_like(many()),
    "randint": lambda: gc.randint(2, (MANY,)),
    "randperm": lambda: gc.randperm(MANY),
    "dropout": lambda: gc.nn.functional.dropout(many()),
    "sample": lambda: gc.distributions.Normal(0.0, 1.0).sample((MANY,)),
    "arange": lambda: gc.arange(MANY),
    "zeros": lambda: gc.zeros(MANY),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_call_raises_one_error(name: str) -> None:
    with pytest.raises(gc.OutOfMemoryError, match=r"not enough memory|out of memory"):
        CALLS[name]()
