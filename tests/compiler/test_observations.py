"""What a function can see of its arguments: each of it is as in eager execution, guarded, or ends the recording."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import gradcore as gc
from gradcore.compiler.function import CompiledFunction

W = gc.ones(3, requires_grad=True)
Function = Callable[[Any], Any]


def leaf() -> gc.Tensor:
    return gc.ones(3, requires_grad=True)


def computed() -> gc.Tensor:
    return leaf() * 2


def retaining() -> gc.Tensor:
    y = computed()
    y.retain_grad()
    return y


def with_gradient() -> gc.Tensor:
    y = retaining()
    (y * 2).sum().backward(retain_graph=True)
    return y


def hooked() -> gc.Tensor:
    y = computed()
    y.register_hook(lambda g: g * 5)
    return y


def written() -> gc.Tensor:
    return gc.ones(3).add_(0).add_(0)


def second_output() -> gc.Tensor:
    return gc.stack([leaf() * 2, leaf() * 3]).max(0)[0]


#: Arguments of one shape that differ in all else.
KINDS: dict[str, Callable[[], Any]] = {
    "plain": lambda: gc.ones(3), "leaf": leaf, "computed": computed, "retaining": retaining, "hooked": hooked,
    "with gradient": with_gradient, "written": written, "written leaf": lambda: written().requires_grad_(),
    "by exp": lambda: leaf().exp(), "of a parameter": lambda: W + 1, "second output": second_output,
    "start": lambda: gc.ones(7)[:3], "end": lambda: gc.ones(7)[4:],
}  # fmt: skip


def tried(call: Function) -> Function:
    """Return a function that takes another branch if a call raises an error."""

    def function(y: Any) -> Any:
        try:
            call(y)
        except RuntimeError:
            return y.detach() * 10
        return y * 3

    return function


def without_grad(y: Any) -> Any:
    with gc.no_grad():
        y[:1].mul_(2)
    return tried(lambda y: y.mul_(2))(y)


def with_gradients(*inputs: Function) -> Function:
    def function(y: Any) -> Any:
        if not y.requires_grad:
            return y * 1
        wanted = [each(y) for each in inputs]
        found = gc.autograd.grad((y * y).sum() + (W * 3).sum(), wanted, allow_unused=True)
        return y * sum((g.detach() for g in found if g is not None), gc.zeros(3))

    return function


def then(call: Function) -> Function:
    return lambda y: (call(y), y * 3)[1]


#: What is done only with what has a history.
def if_recorded(call: Function) -> Function:
    return lambda y: (call(y) if y.grad_fn is not None else None, y * 3)[1]


CASES: dict[str, Function] = {
    **{f"try {name}": tried(call) for name, call in {
        "mul_": lambda y: y.mul_(2), "setitem": lambda y: y.__setitem__(0, 5.0), "a view": lambda y: y[:1].mul_(2),
        "detach_": lambda y: y.detach_(), "requires_grad_": lambda y: y.requires_grad_(False),
        "copy_": lambda y: y.copy_(gc.zeros(3)), "t_": lambda y: y.t_(), "out": lambda y: gc.add(y, 1, out=y),
        "retain_grad": lambda y: y.retain_grad(), "hook": lambda y: y.register_hook(lambda g: g * 7),
        "leaf's hook": lambda y: y.register_post_accumulate_grad_hook(lambda t: None),
        "grad": lambda y: setattr(y, "grad", gc.ones(3)), "data": lambda y: setattr(y, "data", gc.zeros(3)),
        "backward twice": lambda y: [loss.backward() for loss in [(y.detach() * W).sum()] for _ in range(2)],
    }.items()},
    "is_leaf": lambda y: y * (2 if y.is_leaf else 3),
    "grad_fn": lambda y: y * (2 if y.grad_fn is None else 3),
    "name": lambda y: y * (1 if y.grad_fn is None else len(y.grad_fn.name())),
    "next": lambda y: y * len(str(next(iter((y * W).grad_fn.next_functions))[0].name())),
    "edge": lambda y: y * (len(gc.autograd.graph.get_gradient_edge(y).node.name()) if y.requires_grad else 1),
    "requires_grad": lambda y: y * (2 if y.requires_grad else 3),
    "retains_grad": lambda y: y * (2 if y.retains_grad else 3),
    "version": lambda y: y * (1 + y._version),
    "version by name": lambda y: y * (1 + getattr(y, "_ver" + "sion")),
    "version of a detached": lambda y: y * (1 + y.detach()._version),
    "version after": lambda y: (y.detach().add_(1), y * (1 + y._version))[1],
    "output_nr": lambda y: y * (1 + y.output_nr),
    "offset": lambda y: y * (1 + y.storage_offset()),
    "base": lambda y: y * (1 if y._base is None else y._base.shape[0]),
    "is_view": lambda y: y * (2 if y._is_view() else 3),
    "hooks": lambda y: y * (2 if y._backward_hooks else 3),
    "grad": lambda y: y * (2 if y.grad is None else y.grad),
    "class": lambda y: y * len(y.__class__.__name__),
    "weakref": lambda y: y * (2 if weakref.ref(y)() is y else 3),
    "repr": lambda y: y * len(repr(y)),
    "attribute": then(lambda y: setattr(y, "mark", 1)),
    "attribute of a result": lambda y: next(setattr(r, "mark", 1) or r for r in [y * 3]),
    "prehook of its node": if_recorded(lambda y: y.grad_fn.register_prehook(lambda g: (g[0] * 7,))),
    "hook of its node": if_recorded(lambda y: y.grad_fn.register_hook(lambda a, b: None)),
    "hook": then(lambda y: y.requires_grad and y.register_hook(lambda g: g * 7)),
    "without grad": without_grad,
    "gradient": with_gradients(lambda y: y),
    "gradient of a parameter": with_gradients(lambda y: W),
    "gradients": with_gradients(lambda y: y, lambda y: W),
    "func.grad": lambda y: gc.func.grad(lambda t: (t * t * y).sum())(y),
    "returned": lambda y: (y, y * 3)[1],
}  # fmt: skip


def described(value: Any) -> Any:
    if not isinstance(value, gc.Tensor):
        return repr(value)
    return value.tolist(), value.requires_grad, value.is_leaf, value._version, str(value.dtype), dict(vars(value))


def outcome(function: Function, kind: str) -> list[Any]:
    """Return the result or error of a call, and the state of the argument and the gradients after a backward."""
    W.grad = None
    y = KINDS[kind]()
    try:
        result = function(y)
    except Exception as error:
        result = repr(error)
    found = [described(result)]
    if isinstance(result, gc.Tensor) and result.requires_grad:
        try:
            (result.sum() + y.sum()).backward()
        except RuntimeError as error:
            found.append(str(error))
    retained = y.grad if y.is_leaf or y.retains_grad else None
    return [*found, described(y), described(retained), described(W.grad)]


@pytest.mark.sampled(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_observations(name: str) -> None:
    """A program is recorded for one kind of argument, and called with another."""
    function, kinds = CASES[name], [*KINDS]
    expected = {kind: outcome(function, kind) for kind in kinds}
    for step in (1, 5):
        for i, kind in enumerate(kinds):
            other = kinds[(i + step) % len(kinds)]
            compiled = CompiledFunction(function, cpp="0")
            for each in (kind, kind, other, other, kind):
                assert outcome(compiled, each) == expected[each], (kind, other, each)


def caught(x: gc.Tensor, index: gc.Tensor) -> gc.Tensor:
    try:
        return x[index] * 2
    except IndexError:
        return x[:1] * 100


def test_errors_that_are_caught() -> None:
    """An index that is out of bounds while a function is recorded says nothing of the next."""
    good, bad = gc.tensor([1]), gc.tensor([9])
    for order in ((bad, bad, good, bad), (good, good, bad, good)):
        compiled = CompiledFunction(caught, cpp="0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [compiled(gc.arange(4.0), index).tolist() for index in order]
        assert found == [caught(gc.arange(4.0), index).tolist() for index in order]


def test_derivatives_of_derivatives_end_at_arguments() -> None:
    """An argument that was computed from a parameter which the function uses too."""

    def function(y: gc.Tensor) -> gc.Tensor:
        return y * y * W

    def hessian(function: Any) -> Any:
        out = function(W * 2)
        (first,) = gc.autograd.grad(out.sum(), W, create_graph=True)
        return first.tolist(), gc.autograd.grad(first.sum(), W)[0].tolist()

    compiled = CompiledFunction(function, cpp="0")
    assert [hessian(compiled) for _ in range(4)] == [hessian(function)] * 4
    assert compiled._specializations
