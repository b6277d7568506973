"""No memory left: every call raises `OutOfMemoryError`, whatever the array library raises."""

from __future__ import annotations

import sys
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


def raise_out_of_memory(*args: Any, **settings: Any) -> Any:
    raise gc.OutOfMemoryError("out of memory")


def test_files_are_not_called_damaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    gc.save(gc.eye(2).to_sparse(), tmp_path / "x")
    monkeypatch.setattr("gradcore.sparse.making.sparse_coo_tensor", raise_out_of_memory)
    with pytest.raises(gc.OutOfMemoryError, match=r"^out of memory$"):
        gc.load(tmp_path / "x")


@pytest.mark.parametrize("settings", [{"check_batched_grad": True}, {"check_undefined_grad": True}])
def test_gradients_are_not_called_wrong(monkeypatch: pytest.MonkeyPatch, settings: dict[str, bool]) -> None:
    def grad(*args: Any, **options: Any) -> Any:
        is_last = options.get("is_grads_batched") or (len(args) == 3 and options == {"allow_unused": True})
        return raise_out_of_memory() if is_last else gc.autograd.grad(*args, **options)

    monkeypatch.setattr(sys.modules["gradcore.autograd.gradcheck"], "grad", grad)
    x = gc.ones(2, dtype=gc.float64, requires_grad=True)
    with pytest.raises(gc.OutOfMemoryError, match=r"^out of memory$"):
        gc.autograd.gradcheck(lambda x: x * x, x, **settings)


def test_composites_raise_it_for_memory_that_they_allocate_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = type(gc.zeros(1)._device.backend)
    monkeypatch.setattr(backend, "has_dropout_factors", True)  # as with the compiled library
    for function in (gc.nn.functional.dropout, gc.dropout):
        with pytest.raises(gc.OutOfMemoryError, match=r"^(nn\.functional\.)?dropout\(\): not enough memory"):
            function(many(), 0.5, True)


class CustomError(MemoryError):
    """Error of a user's program, which catches this class."""


def fail(*args: Any) -> Any:
    raise CustomError("of the user")


class FailingBackward(gc.autograd.Function):
    """Identity whose backward raises an error."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return fail()


def run_hook(register: Callable[[Any, Any], Any]) -> None:
    leaf = gc.ones(2, requires_grad=True)
    x = leaf * 2
    register(leaf, x)
    x.sum().backward()


def unpack() -> None:
    with gc.autograd.graph.saved_tensors_hooks(lambda x: x, fail):
        x = gc.ones(2, requires_grad=True).sin()
    x.sum().backward()


USER_CODE: dict[str, Callable[[], Any]] = {
    "hook": lambda: run_hook(lambda leaf, x: x.register_hook(fail)),
    "hook of a node": lambda: run_hook(lambda leaf, x: x.grad_fn.register_hook(fail)),
    "hook after accumulation": lambda: run_hook(lambda leaf, x: leaf.register_post_accumulate_grad_hook(fail)),
    "backward": lambda: FailingBackward.apply(gc.ones(2, requires_grad=True)).sum().backward(),
    "unpack": unpack,
    "closure": lambda: gc.optim.SGD([gc.ones(2, requires_grad=True)], lr=0.1).step(fail),
    "closure of LBFGS": lambda: gc.optim.LBFGS([gc.ones(2, requires_grad=True)]).step(fail),
}


@pytest.mark.parametrize("traceback", ["short", "full"])
@pytest.mark.parametrize("name", USER_CODE)
def test_errors_of_user_code_stay_as_they_are(name: str, traceback: Any) -> None:
    before = gc.get_traceback()
    gc.set_traceback(traceback)
    try:
        with pytest.raises(CustomError, match=r"^of the user$") as raised:
            USER_CODE[name]()
    finally:
        gc.set_traceback(before)
    assert raised.type is CustomError
    assert raised.value.__cause__ is None
