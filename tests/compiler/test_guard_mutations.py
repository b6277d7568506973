"""Mutations of guards: each condition is taken out in turn, and some case then has a wrong result."""

from __future__ import annotations

import abc
import ast
import builtins
import functools
import importlib
import itertools
import linecache
import math
import re
import sys
import types
import warnings
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import gradcore as gc
from gradcore import nn
from gradcore.compiler.capture import guards, library_guards, tensor_guards
from gradcore.compiler.capture.guards import Guards
from gradcore.compiler.function import CompiledFunction
from gradcore.nn import functional
from gradcore.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from gradcore.utils.checkpoint import checkpoint, set_checkpoint_early_stop

SCALE = 2.0


@dataclass
class Case:
    """A function, its arguments, what changes after it is recorded, and the arguments then."""

    function: Callable[..., Any]
    before: Callable[[], tuple[Any, ...]] = lambda: (gc.ones(3),)
    change: Callable[[ExitStack], Any] = lambda stack: None
    after: Callable[[], tuple[Any, ...]] | None = None
    #: What the function leaves behind.
    state: Callable[[], Any] = lambda: None
    named: dict[str, Any] = field(default_factory=dict)
    #: As `named`, for each call another.
    changing: Callable[[], dict[str, Any]] = dict
    #: Makes the call after the change, and its arguments by name.
    within: Callable[[Callable[[], Any]], Any] = lambda call: call()
    named_after: dict[str, Any] = field(default_factory=dict)


class Box:
    """An object with attributes."""

    kind = 1.0

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


class Other(Box):
    kind = 5.0


class Slotted:
    """An object without a dict."""

    __slots__ = ("late",)

    late: float


def setting(owner: Any, name: str, value: Any) -> Callable[[ExitStack], Any]:
    """Set an attribute for the time of a case."""

    def change(stack: ExitStack) -> None:
        if owner in (Box, sys.modules[__name__]):  # others are made anew for each run
            here = name in vars(owner)
            stack.callback(setattr, owner, name, getattr(owner, name)) if here else stack.callback(delattr, owner, name)
        setattr(owner, name, value)

    return change


def entering(context: Callable[[], AbstractContextManager[Any]]) -> Callable[[ExitStack], Any]:
    return lambda stack: stack.enter_context(context())


def restored(change: Callable[[Any], Any], value: Any, before: Any) -> Callable[[ExitStack], Any]:
    """Call a setter, and at the end with the value that was."""

    def run(stack: ExitStack) -> None:
        stack.callback(change, before)
        change(value)

    return run


def double(x: gc.Tensor) -> gc.Tensor:
    return x * 2


def leaf() -> tuple[gc.Tensor, ...]:
    return (gc.ones(3, requires_grad=True),)


def computed() -> tuple[gc.Tensor, ...]:
    return (gc.ones(3, requires_grad=True) * 1,)


def frozen() -> tuple[gc.Tensor, ...]:
    return (nn.Parameter(gc.ones(3), requires_grad=False),)


def was_leaf() -> tuple[gc.Tensor, ...]:
    return (gc.ones(3).requires_grad_().requires_grad_(False),)


def inference() -> tuple[gc.Tensor, ...]:
    with gc.inference_mode():
        return (gc.ones(3),)


def retained() -> tuple[gc.Tensor, ...]:
    (x,) = computed()
    x.retain_grad()
    return (x.detach_(),)


def retaining() -> tuple[gc.Tensor, ...]:
    (x,) = computed()
    x.retain_grad()
    return (x,)


def with_a_gradient() -> tuple[gc.Tensor, ...]:
    (x,) = computed()
    x.grad = gc.ones(3)
    return (x,)


def with_its_gradient() -> tuple[gc.Tensor, ...]:
    (x,) = retaining()
    x.sum().backward(retain_graph=True)
    return (x,)


def view_of_what_was_written() -> tuple[gc.Tensor, ...]:
    base = gc.ones(6)
    view = base[:3]
    base.mul_(gc.ones(6, requires_grad=True))
    return (view,)


def readonly() -> tuple[gc.Tensor, ...]:
    x = gc.ones(3)
    x._array.flags.writeable = False
    return (x,)


def pair() -> tuple[gc.Tensor, ...]:
    return (gc.ones(3), gc.ones(3))


def twice() -> tuple[gc.Tensor, ...]:
    return (gc.ones(3),) * 2


def shared() -> tuple[gc.Tensor, ...]:
    x = gc.ones(3)
    return (x, x.detach())


def both(x: gc.Tensor, y: gc.Tensor) -> Any:
    return x is y, x.add_(1) * y


#: Cases with arguments alone.
ARGUMENTS: list[Callable[[], Case]] = [
    lambda: Case(lambda x: (x * 2).reshape(-1) + x.shape[0], lambda: (gc.ones(2, 3),), after=lambda: (gc.ones(4, 3),)),
    lambda: Case(lambda x: (x * 2, x.stride()), lambda: (gc.ones(3, 3),), after=lambda: (gc.ones(3, 3).t().clone(),)),
    lambda: Case(double, after=lambda: (gc.ones(3, dtype=gc.float64),)),
    lambda: Case(
        lambda x: (x * 2, str(x.dtype)), lambda: (gc.ones(3, dtype=gc.int64),), after=lambda: (gc.ones(3).double(),)
    ),
    lambda: Case(lambda x: x.add_(1) + 0, after=readonly),
    lambda: Case(double, after=leaf),
    lambda: Case(double, after=computed),
    lambda: Case(double, leaf, after=computed),
    lambda: Case(double, computed, after=leaf),
    lambda: Case(double, computed, after=lambda: (gc.ones(3),)),
    lambda: Case(double, leaf, after=frozen),
    lambda: Case(double, was_leaf, after=lambda: (was_leaf()[0].mul_(leaf()[0]),)),
    lambda: Case(lambda x: (x * 2, x._is_view()), computed, after=lambda: (computed()[0][:],)),
    lambda: Case(lambda x: (x * 2, x._is_view()), was_leaf, after=lambda: (gc.ones(6)[:3],)),
    lambda: Case(lambda x: (x * 2, x.is_inference()), was_leaf, after=inference),
    lambda: Case(lambda x: (x * 2, x.retains_grad), was_leaf, after=retained),
    lambda: Case(lambda x: (x * 2, x._is_view()), lambda: (gc.ones(6)[:3],), after=was_leaf),
    lambda: Case(double, lambda: (gc.ones(6)[:3],), after=view_of_what_was_written),
    lambda: Case(lambda x: (x * 2, x.retains_grad), computed, after=retaining),
    lambda: Case(lambda x: (x * 2, x.grad), computed, after=with_its_gradient),
    lambda: Case(lambda x: (x * 2, x.grad), computed, after=with_a_gradient),
    lambda: Case(lambda x: x * (1 + x._version), after=lambda: (gc.ones(3).add_(0),)),
    lambda: Case(
        lambda x, y: x * (1 + y._version), lambda: (gc.ones(3), gc.ones(3)), after=lambda: (*inference(), gc.ones(3))
    ),
    lambda: Case(lambda x: x * (1 + x.storage_offset()), lambda: (gc.ones(7)[:3],), after=lambda: (gc.ones(7)[4:],)),
    lambda: Case(double, frozen, after=leaf),
    lambda: Case(lambda x: type(x).__name__ + str(x.shape), after=frozen),
    lambda: Case(both, pair, after=twice),
    lambda: Case(both, twice, after=pair),
    lambda: Case(lambda x, y: x.add_(1) * y, shared, after=pair),
    lambda: Case(lambda x, y=2.0: x * y, after=lambda: (gc.ones(3), 5.0)),
    lambda: Case(lambda x, y=2.0: x * y, named_after={"y": 5.0}),
    lambda: Case(lambda x, **named: (x * 2, sorted(named)), named={"y": 5.0}, named_after={"z": 5.0}),
]
#: Values of Python, before and after.
VALUES: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
    (lambda: 1.0, lambda: 2.0), (lambda: 1.0, lambda: 1), (lambda: 0.0, lambda: -0.0), (lambda: True, lambda: False),
    (lambda: gc.float32, lambda: gc.float64), (lambda: (1.0, 2.0), lambda: (1.0, 3.0)), (lambda: [1.0], lambda: (1.0,)),
    (lambda: [1.0], lambda: [1.0, 2.0]), (lambda: {"a": 1}, lambda: {"a": 1, "b": 2}), (lambda: {1}, lambda: {1, 2}),
    (lambda: {"a": 1, "b": 2}, lambda: {"b": 2, "a": 1}), (lambda: slice(1, 2), lambda: slice(1, 3)), (dict, list),
    (dict, lambda: {"a": 1}), (lambda: None, lambda: 1.0), (lambda: gc.sin, lambda: gc.cos),
    (lambda: Box(a=1.0), lambda: Other(a=2.0)), (lambda: gc.ones(3), lambda: gc.zeros(3)),
    (lambda: {1}, lambda: {1.0}), (lambda: {1}, lambda: frozenset([1])), (lambda: {8, 0}, lambda: {0, 8}),
    (lambda: {1: 2.0}, lambda: {1.0: 2.0}), (lambda: {1: 2.0}, lambda: {1: 2.0, 2: 3.0}),
    (lambda: {0.0: 1.0}, lambda: {-0.0: 1.0}), (lambda: range(2), lambda: range(3)),
    (lambda: slice(1, 2, 1), lambda: range(1, 2)), (lambda: range(1, 2), lambda: slice(1, 2, 1)),
    (lambda: deque([1.0]), lambda: deque([1.0, 2.0])), (lambda: deque([1.0]), lambda: [1.0]),
    (lambda: deque([1.0], 2), lambda: deque([1.0], 3)), (lambda: deque([1.0]), lambda: deque([1.0], 3)),
    (lambda: defaultdict(int), lambda: defaultdict(float)),
]  # fmt: skip


def held(first: Callable[[], Any], second: Callable[[], Any]) -> Case:
    box = Box(value=first())
    shown = lambda x: (x * 2, repr(box.value))  # noqa: E731
    if isinstance(box.value, gc.Tensor):
        shown = lambda x: x * box.value  # noqa: E731
    elif isinstance(box.value, Box):
        shown = lambda x: x * box.value.a  # noqa: E731
    return Case(shown, change=setting(box, "value", second()))


def code_cases() -> list[Case]:
    """Objects, classes, functions, globals."""
    box, here = Box(scale=2.0), sys.modules[__name__]
    empty, filled = Slotted(), Slotted()
    filled.late = 2.0

    def first(x: gc.Tensor) -> gc.Tensor:
        return x * 2

    def second(x: gc.Tensor) -> gc.Tensor:
        return x * 3

    class Base:
        def factor(self) -> float:
            return 2.0

    class Left(Base):
        pass

    class Right(Base):
        def factor(self) -> float:
            return 9.0

    left = Left()
    swapped, tagged, module = Box(unused=1.0), gc.ones(3), types.ModuleType("made")

    def swap(stack: ExitStack) -> None:
        del swapped.unused  # type: ignore[attr-defined]
        swapped.kind = 7.0

    def late(x: gc.Tensor) -> gc.Tensor:
        try:
            return x * LATE  # type: ignore[name-defined]
        except NameError:
            return x

    def noted(x: gc.Tensor) -> gc.Tensor:
        return x * getattr(noted, "scale", 2.0)

    return [
        Case(lambda x: x * (box.kind + box.scale), change=setting(box, "kind", 3.0)),
        Case(lambda x: x * swapped.kind, change=swap),
        Case(late, change=setting(here, "LATE", 3.0)),
        Case(noted, change=setting(noted, "scale", 3.0)),
        Case(lambda x: x * hasattr(module, "late"), change=setting(module, "late", 3.0)),
        Case(lambda x: x * hasattr(tagged, "late"), change=setting(tagged, "late", 3.0)),
        Case(lambda x: x * left.factor(), change=setting(Left, "factor", lambda self: 5.0)),
        Case(lambda x: x * box.kind, change=setting(box, "kind", 3.0)),
        Case(lambda x: x * box.kind, change=setting(Box, "kind", 4.0)),
        Case(lambda x: x * box.kind, change=setting(box, "__class__", Other)),
        Case(lambda x: x * SCALE, change=setting(here, "SCALE", 3.0)),
        Case(lambda x: x * abs(-2.0), change=setting(here, "abs", lambda v: 7.0)),
        Case(
            lambda x: (lambda t: t * divmod(7, 2)[0])(x),
            change=setting(here, "__builtins__", {**vars(builtins), "divmod": lambda a, b: (5.0, 0.0)}),
        ),
        Case(lambda x: first(x), change=setting(first, "__code__", second.__code__)),
        Case(lambda x: x * left.factor(), change=lambda stack: setattr(Left, "__bases__", (Right,))),
        Case(lambda x: x * hasattr(empty, "late"), change=setting(empty, "late", 3.0)),
        Case(lambda x: x * filled.late, change=setting(filled, "late", 3.0)),
        Case(lambda x: x * filled.late, change=lambda stack: delattr(filled, "late")),
    ]


def with_gradient(model: nn.Module) -> Case:
    def function(x: gc.Tensor) -> Any:
        out = model(x)
        return out, gc.autograd.grad(out.sum(), x)[0]

    return Case(function, lambda: (gc.ones(2, 3, requires_grad=True),))


HOOKS: dict[str, Callable[..., Any]] = {
    "forward_hook": lambda module, args, out: out * 2,
    "forward_pre_hook": lambda module, args: (args[0] * 2,),
    "full_backward_hook": lambda module, grads, given: (grads[0] * 2,),
    "full_backward_pre_hook": lambda module, given: (given[0] * 2,),
}


def hook_case(name: str, everywhere: bool) -> Case:
    model = nn.Linear(3, 3)
    case = with_gradient(model)
    owner, prefix = (nn.modules.module, "register_module_") if everywhere else (model, "register_")
    case.change = entering(lambda: getattr(owner, prefix + name)(HOOKS[name]))
    return case


def module_cases() -> list[Case]:
    """Attributes and tables of modules."""
    cases = []

    def show(m: nn.Module) -> list[str]:
        return [name for name, _ in (*m.named_parameters(), *m.named_buffers(), *m.named_children())]

    changes: list[Callable[[Any], Any]] = [
        lambda m: m.register_parameter("w", nn.Parameter(gc.ones(1))),
        lambda m: m.register_buffer("b", gc.ones(1)),
        lambda m: m.add_module("c", nn.Tanh()),
        lambda m: setattr(m, "inplace", True),
        lambda m: m.eval(),
    ]
    for change in changes:
        m = nn.ReLU()
        cases.append(Case(lambda x, m=m: (m(x * 1), show(m), m.training), change=lambda stack, c=change, m=m: c(m)))
    layer = nn.Linear(3, 3)
    cases.append(Case(lambda x: layer(x), change=setting(layer, "weight", nn.Parameter(gc.zeros(3, 3)))))
    other = nn.Linear(3, 3)
    cases.append(Case(lambda x: other(x), change=setting(other, "__class__", nn.Identity)))
    children = nn.Sequential(nn.Linear(3, 3))
    cases.append(Case(lambda x: children(x), change=lambda stack: children.append(nn.Tanh())))
    several = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    cases.append(Case(lambda x: several(x), change=lambda stack: several.append(nn.Tanh())))
    return cases


def leaf_case(function: Callable[[Any], Any], change: Callable[[Any], Any], grad: Any = None) -> Case:
    """Return a case about a leaf that the function reads."""
    w = gc.ones(3, requires_grad=True)
    w.grad = grad

    def run(x: gc.Tensor) -> Any:
        return function(w)

    return Case(run, change=lambda stack: change(w), state=lambda: (w.grad, w))


def accumulate(w: gc.Tensor) -> None:
    (w * 2).sum().backward()


def set_gradient(w: gc.Tensor) -> Any:
    found = w.grad is None
    w.grad = None
    (w * 2).sum().backward()
    return found


def view_of_itself(w: gc.Tensor) -> None:
    base = gc.ones(3, requires_grad=True) * 2
    w.detach_().copy_(base)


#: Leaves: what the function does, and what happens to the leaf then.
LEAVES: list[Callable[[], Case]] = [
    lambda: leaf_case(accumulate, lambda w: setattr(w, "grad", None)),
    lambda: leaf_case(lambda w: w.grad * 2, lambda w: setattr(w, "grad", computed()[0]), gc.ones(3)),
    lambda: leaf_case(lambda w: w.grad * 2, lambda w: setattr(w, "grad", leaf()[0]), gc.ones(3)),
    lambda: leaf_case(lambda w: type(w.grad).__name__, lambda w: setattr(w, "grad", frozen()[0]), gc.ones(3)),
    lambda: leaf_case(set_gradient, lambda w: setattr(w, "grad", None)),
    lambda: leaf_case(lambda w: w.grad is None, lambda w: setattr(w, "grad", gc.ones(3))),
    lambda: leaf_case(accumulate, lambda w: w.register_hook(lambda g: g * 3)),
    lambda: leaf_case(lambda w: w * 2, lambda w: w.requires_grad_(False)),
    lambda: leaf_case(lambda w: w.detach() * 2, lambda w: setattr(w, "data", gc.ones(2))),
    lambda: leaf_case(lambda w: w.detach() + 1, lambda w: setattr(w, "data", gc.ones(3, dtype=gc.float64))),
]


def optimizer_case(change: Callable[[Any, Any], Any]) -> Case:
    w, v = gc.ones(3, requires_grad=True), gc.ones(3, requires_grad=True)
    own = gc.optim.SGD([w], lr=0.5)

    def step(x: gc.Tensor) -> None:
        own.zero_grad()
        (w * x + v * x).sum().backward()

    def to_one() -> None:
        v.grad = gc.ones(3)

    def changed(stack: ExitStack) -> None:
        change(own, v)
        to_one()

    return Case(step, change=changed, state=lambda: (w.grad, v.grad))


def inside_grad() -> Case:
    w = gc.ones(3, requires_grad=True)
    return Case(lambda: w * 2, tuple, within=lambda call: gc.func.grad(lambda v: (v * call()).sum())(gc.ones(3)))


def hooked_step(register: Callable[..., Any] | None = None) -> Case:
    w, scale = gc.ones(1, requires_grad=True), [1.0]
    own = gc.optim.SGD([w], lr=0.5)

    def step(x: gc.Tensor) -> gc.Tensor:
        own.step()
        return x * scale[0]

    def change(stack: ExitStack) -> None:
        hook = (register or own.register_step_post_hook)(lambda *args: scale.append(scale.pop() + 1))
        stack.callback(hook.remove)

    return Case(step, change=change)


def validating() -> Case:
    distribution = gc.distributions.Distribution
    distribution.set_default_validate_args(False)
    return Case(
        lambda x: gc.distributions.Normal(x, -x).mean * 2, lambda: (gc.ones(2),),
        lambda stack: distribution.set_default_validate_args(True),
    )  # fmt: skip


def checkpointing() -> Case:
    w, mean, variance = gc.ones(3, requires_grad=True), gc.zeros(3), gc.ones(3)

    def step(x: gc.Tensor) -> gc.Tensor:
        w.grad = None
        y = checkpoint(lambda v: functional.batch_norm(v, mean, variance, training=True), x * w, use_reentrant=False)
        y.square().sum().backward()
        return x * 2

    def change(stack: ExitStack) -> None:
        mean.zero_()
        stack.enter_context(set_checkpoint_early_stop(False))  # The repetition updates the statistics as well.

    return Case(step, lambda: (gc.arange(6.0).view(2, 3),), change, state=lambda: mean)


#: Optimisers whose parameters change; modes of the thread and of the process.
def abstract_case() -> Case:
    abstract, concrete = abc.ABCMeta("Abstract", (), {}), type("Concrete", (), {})
    box = Box(value=concrete())

    def register(stack: ExitStack) -> None:
        abstract.register(concrete)

    return Case(lambda x: x * (2 if isinstance(box.value, abstract) else 3), change=register)


def replace_relu(stack: ExitStack) -> None:
    stack.callback(setattr, gc, "relu", gc.relu)
    gc.relu = gc.tanh


def scaled(x: Any, s: Any) -> Any:
    return x * s


def float_case(by_name: bool) -> Case:
    """Return a case in which an argument is another float in each call, and then an integer."""
    numbers, x = itertools.count(1), gc.ones(3).long()
    if by_name:
        changing = lambda: {"s": next(numbers) / 4}  # noqa: E731
        return Case(scaled, lambda: (x,), changing=changing, named_after={"s": 2})
    return Case(scaled, lambda: (x, next(numbers) / 4), after=lambda: (x, 2))


STATES: list[Callable[[], Case]] = [
    abstract_case,
    lambda: Case(lambda x: gc.relu(x - 2), change=replace_relu),
    lambda: float_case(False),
    lambda: float_case(True),
    lambda: optimizer_case(lambda own, v: own.add_param_group({"params": [v]})),
    lambda: optimizer_case(lambda own, v: own.param_groups[0]["params"].append(v)),
    lambda: optimizer_case(lambda own, v: own.param_groups[0]["params"].__setitem__(0, v)),
    lambda: Case(double, leaf, entering(gc.no_grad)),
    lambda: Case(lambda: gc.zeros(2), tuple, restored(gc.set_default_dtype, gc.float64, gc.float32)),
    lambda: Case(lambda: gc.zeros(2), tuple, entering(lambda: gc.device("meta"))),
    lambda: Case(
        lambda x: (x * 2, gc.are_deterministic_algorithms_enabled()),
        change=restored(gc.use_deterministic_algorithms, True, False),
    ),
    lambda: Case(
        lambda x: (x * 2, gc.get_float32_matmul_precision()),
        change=restored(gc.set_float32_matmul_precision, "high", "highest"),
    ),
    lambda: Case(
        lambda: gc.rand(3), tuple, within=lambda call: gc.vmap(lambda v: call(), 0, 0, "different")(gc.ones(2))
    ),
    lambda: Case(lambda x: (x * 2, gc.get_num_threads()), change=restored(gc.set_num_threads, 3, gc.get_num_threads())),
    inside_grad,
    hooked_step,
    lambda: hooked_step(register_optimizer_step_pre_hook),
    lambda: hooked_step(register_optimizer_step_post_hook),
    checkpointing,
    validating,
]


class Elements(list[Any]):
    """A list of a class of one's own."""


class Doubled(set[Any]):
    """A set whose elements are others."""

    def __iter__(self) -> Any:
        return (2 * each for each in super().__iter__())


class Chosen(set[Any]):
    """A set of a class of one's own, which says that it is empty."""

    def __len__(self) -> int:
        return 0


def cached_case() -> Case:
    factor = [2.0]

    @functools.lru_cache
    def found() -> float:
        return factor[0]

    def change(stack: ExitStack) -> None:
        factor[0] = 3.0
        found.cache_clear()

    found()
    return Case(lambda x: x * found(), change=change)


def compiled_case() -> Case:
    inner = gc.compile(lambda x: x * 2)

    def outer(x: gc.Tensor) -> Any:
        return inner(x) * inner.label if hasattr(inner, "label") else inner(x)  # type: ignore[attr-defined]

    return Case(outer, change=lambda stack: setattr(inner, "label", 3.0))


def same_objects_case() -> Case:
    box = Box(a=[1.0], b=[1.0])
    return Case(lambda x: x * (2.0 if box.a is box.b else 3.0), change=lambda stack: setattr(box, "b", box.a))


def elements_case(values: Any, change: Callable[[Any], Any], read: Callable[[Any], Any]) -> Case:
    return Case(lambda x: x * read(values), change=lambda stack: change(values))


def replaced_case(owner: Any, name: str, function: Callable[[Any], Any], value: Any = None, **named: Any) -> Case:
    """Return a case in which an attribute of trusted code is replaced or added, by default a function."""
    new = (lambda *args: gc.mul(args[-1], 7)) if value is None else value

    def change(stack: ExitStack) -> None:
        saved = vars(owner).get(name)
        stack.callback(lambda: delattr(owner, name) if saved is None else setattr(owner, name, saved))
        setattr(owner, name, new)

    return Case(function, change=change, **named)


def parameter() -> tuple[gc.Tensor, ...]:
    return (nn.Parameter(gc.ones(3)),)


def late_of_math(x: gc.Tensor) -> gc.Tensor:
    try:
        return x * math.late  # type: ignore[attr-defined]
    except AttributeError:
        return x


def late_of_tensors(x: gc.Tensor) -> gc.Tensor:
    try:
        return x * x.late
    except AttributeError:
        return x


def module_name_case() -> Case:
    """Return a case in which the name of a library's class changes."""

    def change(stack: ExitStack) -> None:
        stack.callback(setattr, nn.Tanh, "__name__", "Tanh")
        nn.Tanh.__name__ = "Renamed"

    layer = nn.Tanh()
    return Case(lambda x: x * len(type(layer).__name__), change=change)


def importing(x: gc.Tensor) -> gc.Tensor:
    import cmath

    return x * cmath.pi


def importing_other(name: str, *args: Any) -> Any:
    return types.SimpleNamespace(pi=3.0) if name == "cmath" else importlib.__import__(name, *args)


def replace_module(stack: ExitStack, name: str, module: Any) -> None:
    stack.callback(sys.modules.__setitem__, name, sys.modules[name])
    sys.modules[name] = module


def making(x: gc.Tensor) -> gc.Tensor:
    class Made:
        scale = 2.0

    return x * Made.scale


def renamed_case(name: str, of_class: bool, read: Callable[[Any], str]) -> Case:
    """Return a case in which a name of a class or function changes."""
    made: Any = type("Made", (), {}) if of_class else (lambda: None)
    return Case(lambda x: x * len(read(made)), change=lambda stack: setattr(made, name, "a name of another length"))


NAMES_OF_CLASSES = "name", "qualname", "module"
LATE_NAME, SHAPE, RELU = "late", "shap", "rel"
#: Names of classes and functions, attributes of trusted code, and what statements look up.
NAMES: list[Callable[[], Case]] = [
    *((lambda n=n: renamed_case(f"__{n}__", True, lambda made: made.__name__ + repr(made))) for n in NAMES_OF_CLASSES),
    lambda: renamed_case("__qualname__", False, repr),
    *(
        (lambda n=n: renamed_case(f"__{n}__", False, lambda made: str(getattr(made, f"__{n}__"))))
        for n in ("doc", "module", "name")
    ),
    module_name_case,
    lambda: replaced_case(gc.Tensor, "shape", lambda x: x * x.shape[0], property(lambda self: (7,))),
    lambda: replaced_case(gc.Tensor, "shape", lambda x: x * getattr(x, SHAPE + "e")[0], property(lambda self: (7,))),
    lambda: replaced_case(gc.Tensor, LATE_NAME, lambda x: x * hasattr(x, "late"), 3.0),
    lambda: replaced_case(gc.Tensor, LATE_NAME, late_of_tensors, 3.0),
    lambda: replaced_case(gc.Tensor, "__iter__", lambda x: sum(x), lambda self: iter((self,))),
    lambda: replaced_case(gc.Tensor.__mro__[1], LATE_NAME, lambda x: x * hasattr(x, LATE_NAME), 3.0),
    lambda: replaced_case(
        nn.Parameter, "shape", lambda x: x.detach() * x.shape[0], property(lambda self: (7,)), before=parameter
    ),
    lambda: replaced_case(math, LATE_NAME, late_of_math, 3.0),
    lambda: replaced_case(math, LATE_NAME, lambda x: x * hasattr(math, LATE_NAME[:1] + "ate"), 3.0),
    lambda: replaced_case(gc, "relu", lambda x: getattr(gc, RELU + "u")(x - 2)),
    lambda: replaced_case(builtins, "__import__", importing, importing_other),
    lambda: Case(importing, change=lambda stack: replace_module(stack, "cmath", types.SimpleNamespace(pi=3.0))),
    lambda: replaced_case(
        builtins, "__build_class__", making, lambda *args: types.SimpleNamespace(scale=3.0)
    ),
]  # fmt: skip


def shadowing_case() -> Case:
    base = type("Base", (), {"kind": 2.0})
    derived: Any = type("Derived", (base,), {"unread": 1.0})

    def change(stack: ExitStack) -> None:
        del derived.unread
        derived.kind = 3.0

    return Case(lambda x: x * derived.kind, change=change)


def autocast_case(device: str) -> Case:
    """Return a case in which the default dtype of autocasting changes."""
    before = gc.get_autocast_dtype(device)

    def function(x: gc.Tensor) -> gc.Tensor:
        return x * gc.get_autocast_dtype(device).itemsize * (2.0 if gc.get_autocast_dtype(device) is before else 3.0)

    def change(stack: ExitStack) -> None:
        stack.callback(gc.set_autocast_dtype, device, before)
        gc.set_autocast_dtype(device, gc.float16 if before is gc.bfloat16 else gc.bfloat16)

    return Case(function, change=change)


def optimizer_class_case() -> Case:
    own = type("Own", (gc.optim.SGD,), {"__module__": "gradcore.optim.sgd"})
    w = gc.ones(3, requires_grad=True)
    optimizer = own([w], lr=0.5)

    def step(x: gc.Tensor) -> None:
        optimizer.zero_grad()
        (w * x).sum().backward()

    def change(stack: ExitStack) -> None:
        own.zero_grad = lambda self: None  # type: ignore[attr-defined]

    return Case(step, change=change, state=lambda: w.grad)


def outside_case(of_gradient: bool) -> Case:
    """Return a case in which an argument becomes a tensor from outside, or its gradient."""
    w = with_grad()
    if of_gradient:
        return Case(lambda x: x * (2.0 if x is w.grad else 3.0), after=lambda: (w.grad,))
    return Case(lambda x: x * (2.0 if x is w else 3.0), lambda: (gc.ones(3, requires_grad=True),), after=lambda: (w,))


def with_grad() -> gc.Tensor:
    w = gc.ones(3, requires_grad=True)
    w.grad = gc.ones(3)
    return w


#: Containers that are compared by identity, given twice, or of classes of one's own; results that are kept.
CONTAINERS: list[Callable[[], Case]] = [
    cached_case,
    compiled_case,
    lambda: outside_case(False),
    lambda: outside_case(True),
    lambda: Case(
        lambda x, y: x * (2.0 if x is y.grad else 3.0), lambda: (gc.ones(3), with_grad()),
        after=lambda: ((y := with_grad()).grad, y),
    ),
    same_objects_case,
    shadowing_case,
    *((lambda device=device: autocast_case(device)) for device in ("cpu", "cuda")),
    optimizer_class_case,
    lambda: optimizer_case(lambda own, v: setattr(own, "zero_grad", lambda: None)),
    lambda: replaced_case(nn.Tanh, "forward", nn.Tanh()),
    lambda: (lambda m: replaced_case(nn.Module, "__call__", lambda x: m(x)))(nn.Tanh()),
    lambda: replaced_case(gc.Tensor, "exp", lambda x: x.exp()),
    lambda: Case(
        lambda x, a, b: (x * 2, sum(b)), lambda: (gc.ones(1), a := [1.0], a), after=lambda: (gc.ones(1), [1.0], [2.0])
    ),
    lambda: Case(
        lambda x, a, b: x * (2.0 if a is b else 3.0), lambda: (gc.ones(1), [1.0], [1.0]),
        after=lambda: (gc.ones(1), a := [1.0], a),
    ),
    lambda: Case(
        lambda x, a, b: x * (2.0 if a is b else 3.0), lambda: (gc.ones(1), a := float("1.5"), a),
        after=lambda: (gc.ones(1), float("1.5"), float("1.5")),
    ),
    lambda: elements_case(Elements([2.0]), lambda v: v.__setitem__(0, 3.0), lambda v: v[0]),
    lambda: elements_case(Elements([2.0]), lambda v: v.append(3.0), sum),
    lambda: elements_case(Chosen([2.0]), lambda v: (v.clear(), v.add(3.0)), sum),
    lambda: elements_case(Chosen([2.0]), lambda v: v.add(3.0), sum),
    lambda: elements_case(Box(a={2.0}), lambda v: setattr(v, "a", Doubled([2.0])), lambda v: sum(v.a)),
]  # fmt: skip
TABLE: list[Callable[[], Case]] = [
    *ARGUMENTS,
    *((lambda i=i: held(*VALUES[i])) for i in range(len(VALUES))),
    *((lambda i=i: code_cases()[i]) for i in range(18)),
    *((lambda n=n, e=e: hook_case(n, e)) for n in HOOKS for e in (False, True)),
    *((lambda i=i: module_cases()[i]) for i in range(9)),
    *LEAVES,
    *STATES,
    *CONTAINERS,
    *NAMES,
]


#: Conditions that other ones imply, or that are for speed.
UNMISSED = {
    "x.tangents",  # of a level that is open: `state.mode` says so
    "x._device is CPU", "type(x) is ndarray",  # two ways to say the same
    "x.flags.num & 0 == 0",  # unaligned memory is computed with as well, and what cannot be written to raises
    "x() == (0, 0, 0, 0, 0)",  # what chooses kernels of CUDA
    "state.task is None",  # within a backward, nothing is recorded, unless it is differentiated itself
}  # fmt: skip


# -- conditions ------------------------------------------------------------------------------------------------------


def conditions(line: str) -> list[tuple[str, str]]:
    """Each condition in the line of a guard, and the line without it."""
    tree: Any = ast.parse(line)
    found: list[tuple[str, str]] = []

    def visit(node: Any, parent: Any, key: Any, joined: type) -> None:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and isinstance(node.operand, ast.BoolOp):
            other = ast.Or if joined is ast.And else ast.And
            return visit(node.operand, node, "operand", other)
        if isinstance(node, ast.BoolOp):
            if isinstance(node.op, joined):
                for i, each in enumerate(list(node.values)):
                    visit(each, node.values, i, joined)
                return None
            if "()" in ast.unparse(node.values[0]):  # the array is that of the last call, or ...
                return visit(node.values[1], node.values, 1, joined)
        text, constant = ast.unparse(node), ast.Constant(joined is ast.And)
        parent.__setitem__(key, constant) if isinstance(parent, list) else setattr(parent, key, constant)
        found.append((text, ast.unparse(tree).replace("\n    ", " ")))
        parent.__setitem__(key, node) if isinstance(parent, list) else setattr(parent, key, node)
        return None

    test = tree.body[0].test
    visit(test.operand, test, "operand", ast.And)
    return found


def form(condition: str) -> str:
    """Return a condition with its names and values replaced by placeholders."""
    part = r"(\.__\w+__|\.cell_contents|\.get\([^)]*\)|\[[^]]*\])"
    condition = re.sub(rf"\b(args|named|[okat]\d+){part}*(?=\W|$)", "x", condition)
    condition = re.sub(r"\([-\d., ]*\)", "()", condition)
    return re.sub(r"\b\d+\b|'[^']*'|True|False", "0", condition)


def described(value: Any) -> Any:
    """Return the comparable facts of a result."""
    if isinstance(value, gc.Tensor):
        facts = type(value).__name__, value.dtype, value.device, tuple(value.shape), value.stride(), value.requires_grad
        return *facts, value.is_leaf, None if value.device.type == "meta" else value.detach().numpy().tobytes()
    return [described(each) for each in value] if isinstance(value, (list, tuple)) else repr(value)


def outcome(case: Case, call: Callable[..., Any]) -> Any:
    """Return the result of a call after the change, and the state that it leaves."""
    args = (case.after or case.before)()
    gc.manual_seed(0)
    try:
        result = described(case.within(lambda: call(args, case.named_after)))
    except Exception as error:
        result = type(error).__name__
    return result, described(case.state()), described(args)


def recorded(make: Callable[[], Case]) -> tuple[Case, Any]:
    case = make()
    compiled = CompiledFunction(case.function)
    for _ in range(4):
        compiled(*case.before(), **case.named, **case.changing())
    assert compiled._specializations, compiled._left
    return case, compiled._specializations[0]


class Mutations:
    """Which conditions there are, by where they are written and by their form, and which are missed."""

    def __init__(self) -> None:
        self.seen: set[tuple[tuple[str, int], str]] = set()
        self.missed: set[tuple[tuple[str, int], str]] = set()

    def run(self, make: Callable[[], Case]) -> None:
        case, entry = recorded(make)
        lines = [line for line in entry.guards.lines if line.startswith("if not")]
        keys = {}
        for line in lines:
            for condition, without in conditions(line):
                keys[line, without] = entry.guards.sites[int(line.rpartition(" ")[2])], form(condition)
        self.seen |= set(keys.values())
        with ExitStack() as stack:
            expected = self._expected(make)
            case.change(stack)
            args = (case.after or case.before)()
            check = self._failing(case, entry, args)
            failing = [line for line in lines if line.endswith(f": return {check}")]
        for line, without in [pair for pair in keys if pair[0] in failing and keys[pair] not in self.missed]:
            case, entry = recorded(make)
            scope = {**entry.run.__globals__}
            exec("".join(linecache.getlines(entry.run.__code__.co_filename)).replace(line, without), scope)
            with ExitStack() as stack:
                case.change(stack)

                def call(args: Any, named: Any, run: Any = scope["run"]) -> Any:
                    found = run(args, named)
                    return Missed if type(found) is int else found[0]

                found = outcome(case, call)
            if found[0] != repr(Missed) and found != expected:
                self.missed.add(keys[line, without])

    def _failing(self, case: Case, entry: Any, args: Any) -> Any:
        found: list[Any] = []

        def call() -> Any:
            found.append(entry.guards.function_of()(args, case.named_after))
            return gc.zeros(3)

        case.within(call)
        return found[0]

    def _expected(self, make: Callable[[], Case]) -> Any:
        case, _ = recorded(make)
        with ExitStack() as stack:
            case.change(stack)
            return outcome(case, lambda args, named: case.function(*args, **named))


class Missed:
    """In the place of a result, where a guard has failed."""


REQUIRING = ("require", "require_unchanged")
#: The files and lines in which guards are made.
REQUIRED = [
    (file.__file__, range(node.lineno, (node.end_lineno or 0) + 1))
    for file in (guards, library_guards, tensor_guards)
    for node in ast.walk(ast.parse(Path(file.__file__).read_text(encoding="utf-8")))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in REQUIRING
]


class Cuda:
    """What guards ask the backend of CUDA."""

    array_type = type(gc.ones(1)._array)
    supports_fusion = True

    @staticmethod
    def current_index() -> int:
        return 0


@pytest.fixture
def sites(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards note the line of their code that has made each of their lines."""
    plain = Guards.require

    def require(self: Any, condition: str, text: str, passing: bool = False) -> None:
        frame: Any = sys._getframe(1)
        while frame.f_code.co_name in REQUIRING:
            frame = frame.f_back
        vars(self).setdefault("sites", []).append((frame.f_code.co_filename, frame.f_lineno))
        plain(self, condition, text, passing)

    monkeypatch.setattr(Guards, "require", require)
    for file in (library_guards, tensor_guards):
        monkeypatch.setattr(file, "find_cupy_backends", lambda: [Cuda])


@pytest.mark.slow
@pytest.mark.unverified("programs are wrong on purpose")
def test_every_condition_is_missed_by_some_case(sites: None) -> None:
    mutations = Mutations()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for make in TABLE:
            mutations.run(make)
    seen = {site for site, _ in mutations.seen}
    unseen = [(file, lines) for file, lines in REQUIRED if seen.isdisjoint((file, line) for line in lines)]
    assert not unseen, "no case comes to these lines"
    left = {condition for _, condition in mutations.seen - mutations.missed}
    assert left <= UNMISSED, f"nothing is wrong without {left - UNMISSED}: a case is missing, or they are needless"
