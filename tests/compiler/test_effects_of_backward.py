"""A capture computes gradients before any backward: user code in backward has its effects as often as in eager mode."""

from __future__ import annotations

import functools
import inspect
import io
import itertools
import operator
import random
import signal
import subprocess
import sys
import threading
import traceback
import types
import warnings
import weakref
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.compiler.function import CompiledFunction

CALLS = 6


class State:
    """Everything that the effects change."""

    def __init__(self) -> None:
        self.list, self.dict, self.set, self.deque = [0], {"n": 0}, {0}, deque([0])
        self.number, self.buffer, self.other = 0, gc.zeros(2), gc.ones(3, requires_grad=True)
        self.generator, self.counter = gc.Generator(), itertools.count()
        self.generator.manual_seed(3)
        self.rows = (i for i in range(1000))
        self.model = gc.nn.BatchNorm1d(3)
        self.optimizer = gc.optim.SGD([self.other], lr=0.1)
        self.scheduler = gc.optim.lr_scheduler.StepLR(self.optimizer, 1, 0.5)
        self.array, self.tally, self.file, self.layers = np.zeros(2), Counter(), io.BytesIO(), gc.nn.ModuleList()
        self.lazy = gc.nn.LazyBatchNorm1d().eval()
        self.append, self.memo = functools.partial(self.list.append, 1), functools.lru_cache(self.list.append)

    def shown(self) -> list[Any]:
        """Return what the effects have changed so far."""
        tensors = [self.buffer, self.other.detach(), self.other.grad, self.model.running_mean]
        drawn = gc.rand(1).item(), gc.rand(1, generator=self.generator).item()
        values = [[*self.list], {**self.dict}, {*self.set}, [*self.deque], self.number, next(self.counter)]
        values += [
            self.array.tolist(),
            {**self.tally},
            len(self.file.getvalue()),
            len(self.layers),
            self.model.training,
            self.lazy.num_features,
        ]
        values += [self.optimizer.param_groups[0]["lr"], self.buffer.shape]
        return [*values, next(self.rows), drawn, *(t if t is None else [t.tolist(), t._version] for t in tensors)]


def _add_to_number(s: State, g: Any) -> None:
    s.number += 1


def _add_in_dict(s: State, g: Any) -> None:
    s.dict["n"] += 1


def _add_to_buffer(s: State, g: Any) -> None:
    s.buffer += 1


def _write_slice(s: State, g: Any) -> None:
    s.buffer[0] = s.buffer[0] + 1


def _backward(s: State, g: Any) -> None:
    with gc.enable_grad():
        (s.other * 2).sum().backward()


def _extend(s: State, g: Any) -> None:
    found = s.list
    found += [1]


def _unite(s: State, g: Any) -> None:
    found = s.set
    found |= {len(found)}


def _add_to_array(s: State, g: Any) -> None:
    found = s.array
    found += 1


def _loop(s: State, g: Any) -> None:
    for _ in s.counter:
        break


def _handle(s: State, g: Any) -> None:
    try:
        s.list.append(1)
    finally:
        s.list.append(2)


def _append(s: State) -> None:
    s.list.append(1)


def _swallow(s: State, g: Any) -> None:
    try:
        _append(s)
    except BaseException:
        _append(s)


#: `_swallow` with a handler whose name is that of another error.
_SHADOWED: dict[str, Any] = {"_append": _append, "ValueError": BaseException}
_TEXT = inspect.getsource(_swallow).replace("except BaseException", "except ValueError")
exec(compile(_TEXT, __file__, "exec", annotations.compiler_flag), _SHADOWED)

#: Statements that change something.
EFFECTS: dict[str, Callable[[Any, Any], Any]] = {
    "append": lambda s, g: s.list.append(1), "unbound append": lambda s, g: list.append(s.list, 1),
    "pop": lambda s, g: s.deque.append(s.deque.popleft() + 1), "set": lambda s, g: s.set.add(len(s.set)),
    "update": lambda s, g: s.dict.update(n=s.dict["n"] + 1), "item": _add_in_dict, "attribute": _add_to_number,
    "setattr": lambda s, g: setattr(s, "number", s.number + 1), "next": lambda s, g: next(s.counter),
    "generator": lambda s, g: s.rows.send(None), "print": lambda s, g: print("seen"),
    "add_": lambda s, g: s.buffer.add_(1), "+=": _add_to_buffer, "slice": _write_slice,
    "out": lambda s, g: gc.add(s.buffer, 1, out=s.buffer), "copy_": lambda s, g: s.buffer.copy_(s.buffer + 1),
    "rand": lambda s, g: gc.rand(2), "rand of a generator": lambda s, g: gc.rand(2, generator=s.generator),
    "seed": lambda s, g: gc.manual_seed(len(s.list) + s.buffer.numel()), "backward": _backward,
    "step": lambda s, g: s.optimizer.step(), "statistics": lambda s, g: s.model(gc.ones(2, 3)),
    "list +=": _extend, "set |=": _unite, "array +=": _add_to_array, "for": _loop, "finally": _handle,
    "except": _swallow, "shadowed except": _SHADOWED["_swallow"], "lazy": lambda s, g: s.lazy(g),
    "np.add": lambda s, g: np.add(s.array, 1, out=s.array),
    "unpack": lambda s, g: [*zip(range(1), s.counter, strict=False)],
    "setitem": lambda s, g: operator.setitem(s.list, 0, s.list[0] + 1), "iadd": lambda s, g: s.list.__iadd__([1]),
    "set attribute": lambda s, g: object.__setattr__(s, "number", s.number + 1),
    "map": lambda s, g: [*map(s.list.append, [1])], "partial": lambda s, g: s.append(),
    "cache": lambda s, g: s.memo(len(s.list)), "count": lambda s, g: s.tally.update("a"),
    "save": lambda s, g: gc.save(1, s.file), "schedule": lambda s, g: s.scheduler.step(),
    "train": lambda s, g: s.model.train(not s.model.training), "layers": lambda s, g: s.layers.append(gc.nn.ReLU()),
    "group": lambda s, g: s.optimizer.add_param_group({"params": [gc.nn.Parameter(gc.ones(1))]}),
    "resize": lambda s, g: s.buffer.resize_(s.buffer.numel() + 1).zero_(),
    "nested": lambda s, g: EFFECTS["append"](s, g),
}  # fmt: skip


def _write_to_own(s: Any, g: Any) -> Any:
    import math

    found, parts = {"g": g.clone()}, []
    found["g"][g > math.inf] = 0
    for k in range(2):
        parts.append(found["g"] * (k + 1))  # noqa: PERF401
    return parts[0]


def _catch(s: Any, g: Any) -> Any:
    try:
        if g.shape[-1] > 99:
            raise ValueError
        return g * 2
    except (TypeError, KeyError) as error:
        return g * len(error.args)
    except ValueError:
        return g


LAYER = gc.nn.Linear(3, 3)

#: Code without effects.
PURE: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda s, g: None, "clamp": lambda s, g: g.clamp(-1, 1), "scaled": lambda s, g: g * s.list[0],
    "norm": lambda s, g: g / (g.norm() + 1), "where": lambda s, g: gc.where(g > 0, g, g * 0.5),
    "own": lambda s, g: g.clone().mul_(3), "own items": _write_to_own, "try": _catch,
    "module": lambda s, g: LAYER(g).detach(), "parameter": lambda s, g: g * LAYER.bias.detach(),
    "softmax": lambda s, g: gc.nn.functional.softmax(g, -1),
}  # fmt: skip


class Fixed:
    """State that does not change, and that guards can compare."""

    def __init__(self) -> None:
        self.list = [2]

    def shown(self) -> None:
        return None


def _custom(act: Callable[[Any], Any]) -> Any:
    class Doubled(gc.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            act(g)
            return g * 2 + x * 0

    return Doubled


def _with_module(register: str) -> Callable[[Any, Callable[[Any], Any]], Callable[[Any], Any]]:
    def place(s: Any, act: Callable[[Any], Any]) -> Callable[[Any], Any]:
        layer = gc.nn.Linear(3, 3)
        getattr(layer, register)(lambda module, *grads: (act(grads[0][0]), None)[1])
        return layer

    return place


def _with_hook(register: Callable[[Any, Any], Any]) -> Callable[[Any, Callable[[Any], Any]], Callable[[Any], Any]]:
    def place(s: Any, act: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def apply(y: Any) -> Any:
            y = y * 2
            register(y, act)
            return y

        return apply

    return place


#: Places of user code that backward calls: ``(state, code) -> function of a tensor``.
PLACES: dict[str, Callable[[Any, Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "hook": _with_hook(lambda y, act: y.register_hook(act)),
    "hook of the node": _with_hook(lambda y, act: y.grad_fn.register_hook(lambda new, old: (act(old[0]), None)[1])),
    "prehook of the node": _with_hook(lambda y, act: y.grad_fn.register_prehook(lambda old: (act(old[0]), None)[1])),
    "backward of a function": lambda s, act: _custom(act).apply,
    "hook of a module": _with_module("register_full_backward_hook"),
    "prehook of a module": _with_module("register_full_backward_pre_hook"),
}


def _run(place: str, code: Callable[[Any, Any], Any], compiles: bool, skipped: int = CALLS) -> tuple[list[Any], Any]:
    """Return the state after each call and each backward, of which some calls have none."""
    gc.manual_seed(0)
    state, w = Fixed() if code in PURE.values() else State(), gc.full((3,), 0.5, requires_grad=True)
    given = None if code is _write_to_own else state
    apply = PLACES[place](given, lambda g: code(given, g))

    def function(x: gc.Tensor) -> gc.Tensor:
        return (apply(x * w) * 3).sum()

    run: Any = CompiledFunction(function) if compiles else function
    found: list[Any] = []
    for i in range(CALLS):
        loss = run(gc.arange(3.0).reshape(1, 3) + i)
        found.append([loss.item(), state.shown()])
        if i != skipped:
            loss.backward()
        found.append([None if w.grad is None else w.grad.tolist(), state.shown()])
    return found, run


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("effect", EFFECTS)
def test_effects_of_code_in_backward(place: str, effect: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, skipped = EFFECTS[effect], random.Random(f"{place} {effect}").randrange(CALLS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, printed = _run(place, lambda s, g: (code(s, g), None)[1], False, skipped)[0], capsys.readouterr()
        assert _run(place, lambda s, g: (code(s, g), None)[1], True, skipped)[0] == expected
    assert capsys.readouterr() == printed


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("code", PURE)
def test_code_in_backward_without_effects_is_compiled(place: str, code: str) -> None:
    expected = _run(place, PURE[code], False)[0]
    found, run = _run(place, PURE[code], True)
    assert found == expected
    assert run._specializations


_RECORD, _TENSOR = np.zeros(1, [("n", "f8")])[0], gc.zeros(1)


def _count_in_record(g: Any) -> Any:
    _RECORD["n"] += 1
    return g


def _count_in_memory(g: Any) -> Any:
    _TENSOR.numpy()[0] += 1
    return g


@pytest.mark.parametrize("hook", [_count_in_record, _count_in_memory])
def test_hooks_that_write_by_numpy(hook: Any) -> None:
    w, counts = gc.ones(3, requires_grad=True), []

    def function(x: gc.Tensor) -> gc.Tensor:
        y = w * x
        y.register_hook(hook)
        return y.sum()

    for run in (function, CompiledFunction(function)):
        _RECORD["n"] = 0
        _TENSOR.zero_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(6):
                run(gc.ones(3)).backward()
        counts.append(_RECORD["n"] + _TENSOR.item())
    assert counts == [6, 6]


def test_hooks_written_in_c() -> None:
    outcomes = []
    for compiles in (False, True):
        seen: list[Any] = []
        w = gc.ones(3, requires_grad=True)

        def function(x: gc.Tensor, seen: list[Any] = seen, w: Any = w) -> gc.Tensor:
            y = x * w
            y.register_hook(seen.append)
            return y.sum()

        run: Any = CompiledFunction(function) if compiles else function
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(CALLS):
                run(gc.ones(3)).backward()
                seen.append(0)
        outcomes.append([type(each) for each in seen])
    assert outcomes[0] == outcomes[1]


class _Finalized:
    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def __del__(self) -> None:
        self.seen.append("finalizer")


def _hide_effects() -> tuple[dict[str, Callable[[Any], Any]], Callable[[], list[Any]]]:
    """Return functions with effects on objects that look unchangeable, and a view of the effects."""
    log, hooks, error, count = [0], dict[Any, Any](), ValueError(), itertools.count()
    tensor, layer, hooked = gc.ones(3, requires_grad=True), gc.nn.Linear(3, 3), gc.nn.Sequential(gc.nn.ReLU())
    call: Any = functools.partial(log.append, 1)
    function: Any = lambda: None  # noqa: E731
    node: Any = (tensor * 2).grad_fn
    tensor.grad, dtype = gc.ones(3), np.dtype("f4", metadata={"log": log})  # type: ignore[call-overload]
    for each in (tensor, tensor.grad, layer.weight, function):
        each.log, each.n = log, 0  # type: ignore[union-attr]
    slots: Any = type("Slots", (), {"__slots__": ("call",)})()
    slots.call, calls, constant = call, deque([call]), types.MappingProxyType({0: call})
    of_class = staticmethod(call)  # Python 3.14 would bind it to the object
    base: Any = type("Base", (), {"call": of_class, "__neg__": count.__next__})
    derived: Any = type("Derived", (base,), {})()
    meta: Any = type("Meta", (type,), {"call": of_class})("OfMeta", (), {})
    hooked[0].register_forward_pre_hook(hooks.__setitem__)

    def add_to_metadata(g: Any) -> None:
        node.metadata["n"] = node.metadata.get("n", 0) + 1

    def raise_again(g: Any) -> None:
        try:
            raise error
        except ValueError:
            pass

    def shown() -> list[Any]:
        seen = [[*log], len(hooks), next(count), {**node.metadata}, getattr(error, "__notes__", [])[:], function.n]
        hooks.clear()
        return [*seen, tensor.n, len(traceback.extract_tb(error.__traceback__))]  # type: ignore[attr-defined]

    effects: dict[str, Callable[[Any], Any]] = {
        "setattr": lambda g: setattr(function, "n", function.n + 1), "raise": raise_again,
        "__setattr__": lambda g: tensor.__setattr__("n", tensor.n + 1),  # type: ignore[attr-defined]
        "__dict__": lambda g: function.__dict__["log"].append(1), "vars": lambda g: vars(tensor)["log"].append(1),
        "getattr": lambda g: getattr(function, "log").append(1), "metadata": add_to_metadata,  # noqa: B009
        "parameter": lambda g: layer.weight.log.append(1),  # type: ignore[operator, union-attr]
        "gradient": lambda g: tensor.grad.log.append(1), "slot": lambda g: slots.call(),  # type: ignore[union-attr]
        "base class": lambda g: derived.call(), "metaclass": lambda g: meta.call(), "operator": lambda g: -derived,
        "deque": lambda g: calls[0](), "mapping": lambda g: constant[0](), "note": lambda g: error.add_note("seen"),
        "hook in C": lambda g: hooked(g), "finalizer": lambda g: _Finalized(log) and None,
        "dtype": lambda g: dtype.metadata["log"].append(1),  # type: ignore[index]
    }  # fmt: skip
    return effects, shown


@pytest.mark.parametrize("effect", _hide_effects()[0])
@pytest.mark.parametrize("place", ["hook", "backward of a function"])
def test_hidden_effects_of_code_in_backward(place: str, effect: str) -> None:
    outcomes = []
    for compiles in (False, True):
        effects, shown = _hide_effects()
        apply = PLACES[place](None, lambda g, act=effects[effect]: (act(g), None)[1])

        def function(x: Any, apply: Any = apply) -> Any:
            return apply(x).sum()

        run: Any = CompiledFunction(function) if compiles else function
        outcomes.append([])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(CALLS):
                loss = run(gc.ones(3, requires_grad=True) * 1)
                outcomes[-1].append(shown())
                loss.backward()
                outcomes[-1].append(shown())
    assert outcomes[0] == outcomes[1]


def test_saved_tensors_that_are_freed_by_the_first_access() -> None:
    class Once(gc.autograd.Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 2 + x

    run, x = CompiledFunction(lambda x: Once.apply(x).sum()), gc.ones(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(CALLS):
            run(x).backward()
            assert x.grad is not None
            assert x.grad.tolist() == [3.0 * (k + 1)] * 3


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers that send signals")
def test_asynchronous_code_runs_completely() -> None:
    """Signal handlers, finalizers and callbacks of weak references may run at any time, and change anything."""
    seen: list[str] = []
    made = [_Finalized(seen) for _ in range(CALLS)]
    refs = [weakref.ref(each, lambda _: seen.append("callback")) for each in made]

    def handle(*_: Any) -> None:
        if made:
            del made[-1]
        seen.append("handler")
        handled.set()

    class Slow(gc.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            for _ in range(300):
                g = g * 1.0
            return g * 2

    @gc.no_grad()
    def double(x: Any) -> Any:
        return x * 2

    handled = threading.Event()
    outer = signal.signal(signal.SIGALRM, gc.no_grad()(handle))
    try:
        for k in range(CALLS):
            run: Any = CompiledFunction(lambda x, k=k: Slow.apply(x + double(x)).sum() * k)
            run(gc.ones(3, requires_grad=True)).backward()
            handled.clear()
            signal.setitimer(signal.ITIMER_REAL, 0.002 * (k + 1))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run(gc.ones(3, requires_grad=True)).backward()
            assert handled.wait(10)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, outer)
    assert len(refs) == CALLS
    assert [seen.count(each) for each in ("handler", "callback", "finalizer")] == [CALLS] * 3


def test_other_threads_draw_during_a_capture() -> None:
    seen: list[Any] = []
    is_over = threading.Event()

    def draw() -> None:
        while not is_over.is_set():
            seen.append(tuple(gc.rand(2).tolist()))

    def hook(g: Any) -> Any:
        for _ in range(100):
            g = g * 1.0
        return g

    thread = threading.Thread(target=draw)
    thread.start()
    for k in range(3):

        def function(x: Any, k: int = k) -> Any:
            y = x * k
            y.register_hook(hook)
            return y.sum()

        run = CompiledFunction(function)
        for _ in range(3):
            run(gc.ones(3, requires_grad=True)).backward()
    is_over.set()
    thread.join()
    assert len({*seen}) == len(seen)


#: A program whose second call imports an operation in backward, beside another package's finder of modules.
IMPORTING = """
import sys, warnings

class Finder:
    def find_spec(self, name, path=None, target=None):
        seen.append(name)

seen = []
import gradcore as gc
sys.meta_path.insert(0, Finder())
model = gc.nn.Sequential(gc.nn.Linear(4, 8), gc.nn.BatchNorm1d(8)).eval()
compiled = gc.compile(lambda x: model(x), options={"cpp": False})
warnings.simplefilter("error")
x = gc.ones(5, 4, requires_grad=True)
compiled(x)
del seen[:]
compiled(x)
assert "gradcore.ops.elementwise.exponential" in seen, seen
assert compiled.count_programs() == 1, compiled.breaks()
"""


def test_operations_are_imported_in_backward() -> None:
    """The finders of other packages are not code of the function."""
    done = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def exp_and_detached(w: gc.Tensor, v: gc.Tensor, x: gc.Tensor) -> Any:
    h = (w * x).exp()
    return h.sum(), h.detach()


def gradient_as_factor(w: gc.Tensor, v: gc.Tensor, x: gc.Tensor) -> Any:
    w.grad = None
    ((w * x) ** 2).sum().backward()
    return (w.exp() * w.grad).sum(), w.grad


def gradient_that_is_set(w: gc.Tensor, v: gc.Tensor, x: gc.Tensor) -> Any:
    w.grad = x * 2
    return (w * w * w.grad).sum()


def two_results(w: gc.Tensor, v: gc.Tensor, x: gc.Tensor) -> Any:
    return (w * v).sum(), (w * v * x).sum()


def branch_on_gradient(w: gc.Tensor, v: gc.Tensor, x: gc.Tensor) -> Any:
    return ((w**2 * w.grad).sum() if w.grad is not None else (w**3 * x).sum()), x * 2


def freed_and_other(w: gc.Tensor, v: gc.Tensor, x: gc.Tensor) -> Any:
    loss = (w * x).exp().sum()
    loss.backward()
    return loss, (w * v).sum()


def sum_alone(w: gc.Tensor, v: gc.Tensor, x: gc.Tensor) -> Any:
    return w.sum(), x * 2


def inner_gradient(w: gc.Tensor, v: gc.Tensor, x: gc.Tensor) -> Any:
    (g,) = gc.autograd.grad(((w * x) ** 3).sum(), w, create_graph=True)
    return (g * v).sum(), x * 2


def constant_gradient(w: gc.Tensor, v: gc.Tensor, x: gc.Tensor) -> Any:
    (g,) = gc.autograd.grad(((w * x) ** 3).sum(), w)
    return (g * v.exp()).sum(), x * 2


def second_gradient(w: gc.Tensor, v: gc.Tensor, result: Any) -> Any:
    given = gc.autograd.grad(result, [w, v], create_graph=True, allow_unused=True)
    found = [g.square().sum() for g in given if g is not None and g.requires_grad]
    return gc.autograd.grad(sum(found), [w, v], allow_unused=True)


def doubled(g: gc.Tensor) -> gc.Tensor:
    return g * 2


#: Functions, and what happens to their results, their arguments and gradients afterwards.
AFTERWARDS: list[tuple[Any, Any]] = [
    (exp_and_detached, lambda w, v, x, out: (out[1].mul_(2), out[0].backward())),
    (exp_and_detached, lambda w, v, x, out: (out[1].detach().mul_(2), out[0].backward())),
    (exp_and_detached, lambda w, v, x, out: (out[0].backward(retain_graph=True), out[1].add_(1), out[0].backward())),
    (gradient_as_factor, lambda w, v, x, out: (out[1].mul_(2), out[0].backward())),
    (gradient_as_factor, lambda w, v, x, out: (out[0].backward(retain_graph=True), out[0].backward())),
    (gradient_that_is_set, lambda w, v, x, out: (out[0].backward(retain_graph=True), out[0].backward())),
    (gradient_that_is_set, lambda w, v, x, out: (w.grad.detach().mul_(2), out[0].backward())),
    (two_results, lambda w, v, x, out: (x.add_(1), out[0].backward())),
    (two_results, lambda w, v, x, out: (x.add_(1), out[1].backward())),
    (two_results, lambda w, v, x, out: (out[0].register_hook(doubled), out[1].backward())),
    (two_results, lambda w, v, x, out: (out[0].register_hook(doubled), out[0].backward(), out[1].backward())),
    (two_results, lambda w, v, x, out: (w.register_hook(doubled), out[1].backward(create_graph=True))),
    (branch_on_gradient, lambda w, v, x, out: (out[0].backward(retain_graph=True), second_gradient(w, v, out[0]))),
    (freed_and_other, lambda w, v, x, out: gc.autograd.grad(out[0], [w, v], allow_unused=True)),
    (freed_and_other, lambda w, v, x, out: gc.autograd.grad(out[1], [w, v], allow_unused=True)),
    (sum_alone, lambda w, v, x, out: (out[0].backward(), out[0].backward())),
    (inner_gradient, lambda w, v, x, out: (w.register_hook(doubled), second_gradient(w, v, out[0]))),
    (constant_gradient, lambda w, v, x, out: (w.register_hook(doubled), second_gradient(w, v, out[0]))),
]


def outcome_afterwards(function: Any, after: Any, compiles: bool) -> Any:
    """Return what happens after a call, the gradients of the leaves, and the kind of the error that is raised."""
    w, v = (gc.tensor(each, requires_grad=True) for each in ([0.5, 0.75], [0.25, 1.5]))
    call = gc.compile(lambda x: function(w, v, x), options={"cpp": False}) if compiles else lambda x: function(w, v, x)
    for _ in range(4):
        w.grad = None
        out = call(x := gc.tensor([1.0, -0.5]))
    assert not compiles or call._specializations, call._left
    try:
        found = after(w, v, x, out if isinstance(out, tuple) else (out,))
        parts = [part for each in found for part in (each if isinstance(each, tuple) else (each,))]
        shown = [each.tolist() if isinstance(each, gc.Tensor) else None for each in parts]
    except RuntimeError as error:
        shown = [str(error)[:50]]
    return shown, [None if t.grad is None else t.grad.tolist() for t in (w, v)]


@pytest.mark.parametrize("number", range(len(AFTERWARDS)))
def test_what_happens_between_call_and_backward_counts_as_in_eager_execution(number: int) -> None:
    function, after = AFTERWARDS[number]
    assert outcome_afterwards(function, after, True) == outcome_afterwards(function, after, False)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True to a scalar")
def test_a_loss_whose_graph_is_freed_can_be_given_to_a_scheduler() -> None:
    def train(compiles: bool) -> list[float]:
        w = gc.ones(3, requires_grad=True)
        optimizer = gc.optim.SGD([w], lr=0.125)
        scheduler = gc.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)

        def step(x: gc.Tensor) -> gc.Tensor:
            optimizer.zero_grad()
            loss = (w * x).square().sum()
            loss.backward()
            optimizer.step()
            scheduler.step(loss)
            return loss

        call = gc.compile(step, options={"cpp": False}) if compiles else step
        return [call(gc.ones(3)).item() for _ in range(5)]

    assert train(True) == train(False)
