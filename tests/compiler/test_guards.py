"""Guards: each change after which a program would be wrong leads to another one, or to the function as it is."""

from __future__ import annotations

import enum
import functools
import gc as collector
import importlib.util
import itertools
import operator
import re
import sys
import types
import warnings
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import gradcore as gc
from gradcore import nn
from gradcore.compiler.function import CompiledFunction
from gradcore.core import config
from gradcore.dispatch.signatures import make_function
from gradcore.ops.declare.table import OPS

SCALE = 2.0
TABLE = {"scale": 3.0, "more": [1.0, 2.0]}


def helper(x: gc.Tensor) -> gc.Tensor:
    return x * SCALE


def other_helper(x: gc.Tensor) -> gc.Tensor:
    return x * SCALE + 1


class Config:
    kind = "twice"

    def __init__(self) -> None:
        self.scale = 1.0
        self.inner = types.SimpleNamespace(shift=0.5)

    def factor(self) -> float:
        return 2.0 if self.kind == "twice" else 3.0


class Computed:
    """Has attributes that only its `__getattr__` knows, which fails in its own way."""

    table: ClassVar = {"scale": 2.0}

    def __getattr__(self, name: str) -> Any:
        return self.table[name]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("shift", gc.zeros(3))
        self.depth = 1

    def forward(self, x: gc.Tensor) -> gc.Tensor:
        for _ in range(self.depth):
            x = self.drop(self.linear(x)) + self.shift
        return x


def check(function: Any, change: Any, make: Any = lambda: gc.randn(2, 3), programs: int | None = 2) -> CompiledFunction:
    """Call a function before and after a change; `programs` is how many it has then."""
    compiled = CompiledFunction(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for changes in (False, True):
            if changes:
                assert compiled._specializations, compiled._left
                change()
            for seed in range(3):
                x = make()
                gc.manual_seed(seed)
                found = compiled(x)
                gc.manual_seed(seed)
                expected = function(x)
                assert gc.equal(found, expected)
                assert found.requires_grad is expected.requires_grad
                assert found.dtype is expected.dtype
    assert programs is None or len(compiled._specializations) == programs
    return compiled


def test_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[__name__]
    check(lambda x: x * SCALE, lambda: monkeypatch.setattr(module, "SCALE", 5.0))
    check(helper, lambda: monkeypatch.setattr(module, "SCALE", 6.0))
    check(lambda x: helper(x), lambda: monkeypatch.setattr(module, "SCALE", 7.0))
    check(lambda x: helper(x), lambda: monkeypatch.setattr(module, "helper", other_helper))
    check(lambda x: x * TABLE["scale"], lambda: monkeypatch.setitem(TABLE, "scale", 8.0))
    check(lambda x: x * sum(TABLE["more"]), lambda: TABLE["more"].append(4.0))
    check(lambda x: x * abs(-2.0), lambda: monkeypatch.setattr(module, "abs", lambda v: v, raising=False))


def test_closures_defaults_and_code() -> None:
    scale, items = 2.0, [1.0]

    def change() -> None:
        nonlocal scale
        scale = 3.0

    check(lambda x: x * scale, change)
    check(lambda x: x * len(items), lambda: items.append(2.0))
    check(lambda x: x * items[0], lambda: items.__setitem__(0, 5.0))

    def with_default(x: gc.Tensor, factor: float = 2.0) -> gc.Tensor:
        return x * factor

    check(with_default, lambda: setattr(with_default, "__defaults__", (4.0,)))

    def first(x: gc.Tensor) -> gc.Tensor:
        return x * 2

    def second(x: gc.Tensor) -> gc.Tensor:
        return x * 3

    check(lambda x: first(x), lambda: setattr(first, "__code__", second.__code__))
    check(gc.func.grad(lambda x: (x * x * items[0]).sum()), lambda: items.__setitem__(0, 7.0))
    signed = [0.0]
    check(lambda x: x / signed[0], lambda: signed.__setitem__(0, -0.0))
    typed: list[Any] = [1]
    check(lambda x: x.long() * typed[0], lambda: typed.__setitem__(0, 1.0))


@pytest.mark.parametrize(
    ("before", "after", "programs"),
    [
        ((1, 2.0), (True, 2.0), 2), ((0.0,), (-0.0,), 2), (((1,), "a"), ((1.0,), "a"), 2), ((1, 2), (1, 2, 3), 2),
        ((None,), (0,), 2), ((1,), [1], 2), ((1, ("a", None)), (int("1"), ("".join("a"), None)), 1),
    ],
)  # fmt: skip
def test_tuples_of_constants_are_compared_by_type_and_value(before: Any, after: Any, programs: int) -> None:
    state = types.SimpleNamespace(value=before)
    check(lambda x: x * len(state.value), lambda: setattr(state, "value", after), programs=programs)


def test_classes_of_code_without_a_module() -> None:
    """Classes that code defines in a namespace without a name count as classes of `builtins`."""
    scope: dict[str, Any] = {}
    exec("class Scale:\n    factor = 2.0\n    def get(self): return self.factor\nscale = Scale()", scope)
    scale = scope["scale"]
    assert scope["Scale"].__module__ == "builtins"
    check(lambda x: x * scale.factor, lambda: setattr(scope["Scale"], "factor", 3.0))
    check(lambda x: x * scale.get(), lambda: setattr(scope["Scale"], "get", lambda self: 5.0))


def test_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config()
    check(lambda x: x * config.scale, lambda: setattr(config, "scale", 2.0))
    check(lambda x: x * config.inner.shift, lambda: setattr(config.inner, "shift", 2.0))
    check(lambda x: x * config.factor(), lambda: monkeypatch.setattr(Config, "kind", "thrice"))
    check(lambda x: x * config.factor(), lambda: setattr(config, "kind", "twice"))
    computed = Computed()
    check(lambda x: x * computed.scale, lambda: monkeypatch.setitem(Computed.table, "scale", 4.0))
    name = "scale"
    check(lambda x: x * getattr(config, name), lambda: setattr(config, "scale", 9.0))
    check(lambda x: x * config.factor(), lambda: monkeypatch.setattr(Config, "factor", lambda self: 7.0))
    partial = functools.partial(lambda factor, x: x * factor, 2.0)
    check(partial, lambda: partial.__setstate__((partial.func, (3.0,), {}, {})), programs=None)


MODULE_CHANGES = {
    "training": lambda m: m.eval(),
    "p": lambda m: setattr(m.drop, "p", 0.1),
    "depth": lambda m: setattr(m, "depth", 2),
    "parameter": lambda m: setattr(m.linear, "weight", nn.Parameter(gc.randn(3, 3))),
    "bias": lambda m: setattr(m.linear, "bias", None),
    "buffer": lambda m: setattr(m, "shift", gc.ones(3)),
    "child": lambda m: setattr(m, "drop", nn.Tanh()),
    "requires_grad": lambda m: m.requires_grad_(False),
    "hook": lambda m: m.linear.register_forward_hook(lambda module, args, out: out * 2),
    "data": lambda m: setattr(m.linear.weight, "data", gc.randn(3, 3)),
    "values": lambda m: gc.no_grad()(lambda: m.linear.weight.mul_(2))(),
    "dtype": lambda m: m.double(),
}


@pytest.mark.parametrize("name", MODULE_CHANGES)
def test_modules(name: str) -> None:
    model = Model()
    same_program = name in ("data", "values")
    make = lambda: gc.randn(2, 3, dtype=model.linear.weight.dtype)  # noqa: E731
    check(model, lambda: MODULE_CHANGES[name](model), make, programs=1 if same_program else None)


def test_hooks_of_all_modules_and_of_parameters() -> None:
    model = Model()
    compiled = CompiledFunction(model)
    x = gc.randn(2, 3)
    for _ in range(3):
        compiled(x)
    seen: list[int] = []
    hook = nn.modules.module.register_module_forward_hook(lambda *a: seen.append(1))
    with hook, pytest.warns(UserWarning, match="hooks of all modules"):
        compiled(x)
    assert len(seen) == 3
    model = Model()
    compiled = CompiledFunction(lambda x: model(x).sum())
    for _ in range(3):
        compiled(x).backward()
    seen.clear()
    model.linear.weight.register_hook(lambda g: seen.append(2))
    with pytest.warns(UserWarning, match="hooks"):
        compiled(x).backward()
    assert seen == [2]


ARGUMENTS = {
    "shape": (lambda: gc.randn(2, 3), lambda: gc.randn(4, 3)),
    "dims": (lambda: gc.randn(3), lambda: gc.randn(1, 3)),
    "strides": (lambda: gc.randn(3, 3), lambda: gc.randn(3, 3).t()),
    "dtype": (lambda: gc.randn(3), lambda: gc.randn(3, dtype=gc.float64)),
    "requires_grad": (lambda: gc.randn(3), lambda: gc.randn(3, requires_grad=True)),
    "history": (lambda: gc.randn(3, requires_grad=True), lambda: gc.randn(3, requires_grad=True) * 2),
    "parameter": (lambda: gc.randn(3), lambda: nn.Parameter(gc.randn(3), requires_grad=False)),
    "view": (lambda: gc.randn(3), lambda: gc.randn(6)[:3]),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_tensors(name: str) -> None:
    before, after = ARGUMENTS[name]
    makers = [before]
    check(lambda x: (x * 2).reshape(-1) + x.shape[-1], lambda: makers.append(after), lambda: makers[-1]())


def test_arguments_of_other_kinds() -> None:
    def function(x: gc.Tensor, *rest: Any, factor: Any = 1.0) -> gc.Tensor:
        for each in rest:
            x = (
                x + each[0]
                if isinstance(each, (list, tuple))
                else x * each["a"]
                if isinstance(each, dict)
                else x - each
            )
        return x * factor

    compiled = CompiledFunction(function)
    x = gc.randn(3)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}), ((1,), {}), ((1.0,), {}), (([x],), {}), (({"a": x},), {}), (((2.0, 3),), {}), ((), {"factor": 2}),
    ]  # fmt: skip
    for args, named in calls * 3:
        assert gc.equal(compiled(x, *args, **named), function(x, *args, **named))
    assert len(compiled._specializations) == len(calls)


def test_one_tensor_twice_is_not_two() -> None:
    compiled = CompiledFunction(lambda x, y: (x * y).sum())
    x, y = gc.ones(3, requires_grad=True), gc.full((3,), 2.0, requires_grad=True)
    for _ in range(3):
        assert gc.equal(gc.autograd.grad(compiled(x, x), x)[0], gc.full((3,), 2.0))
    for _ in range(3):
        assert gc.equal(gc.autograd.grad(compiled(x, y), x)[0], y)
    for _ in range(3):
        assert gc.equal(gc.autograd.grad(compiled(x, x), x)[0], gc.full((3,), 2.0))


def test_modes() -> None:
    x = gc.randn(3, requires_grad=True)
    compiled = CompiledFunction(lambda x: x * 2.5 + gc.zeros(3))
    for _ in range(3):
        assert compiled(x).requires_grad
        with gc.no_grad():
            assert not compiled(x).requires_grad
        with gc.inference_mode():
            assert compiled(x).is_inference()
        with gc.autocast("cpu"):
            assert gc.equal(compiled(x), x * 2.5)
    out, tangent = gc.func.jvp(compiled, (x.detach(),), (gc.ones(3),))
    assert gc.equal(tangent, gc.full((3,), 2.5))
    assert gc.equal(gc.vmap(compiled)(x.detach()[None]), out[None])
    gc.set_default_dtype(gc.float64)
    try:
        y = x.detach().double()
        for _ in range(3):
            assert compiled(y).dtype is gc.float64
    finally:
        gc.set_default_dtype(gc.float32)
    assert compiled(y).dtype is gc.float64


def test_state_that_the_function_changes() -> None:
    class Counter:
        def __init__(self) -> None:
            self.calls = 0

    counter, items = Counter(), [0]

    def counted(x: gc.Tensor) -> gc.Tensor:
        counter.calls += 1
        return x * counter.calls

    def appended(x: gc.Tensor) -> gc.Tensor:
        items.append(1)
        return x * len(items)

    for function in (counted, appended):
        compiled = gc.compile(function)
        found = [float(compiled(gc.ones(1)).item()) for _ in range(5)]
        assert found == [found[0] + i for i in range(5)]
        assert "cut: the function changes what it depends on" in compiled.explain(gc.ones(1))


class Stepping:
    """Has its compiled method as an attribute whose name the method reads, of another object."""

    def __init__(self, scale: float) -> None:
        self.scale, self.scheduler = scale, types.SimpleNamespace(step=lambda: None)
        self.step = CompiledFunction(self.scaled, fullgraph=True)

    def scaled(self, x: gc.Tensor) -> gc.Tensor:
        self.scheduler.step()
        return x * self.scale


def test_compiled_functions_are_the_functions_that_they_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they call themselves, are called by others or only in sight: calls change nothing that is guarded."""
    owner = Stepping(2.0)
    for scale in (2.0, 3.0):
        owner.scale = scale
        for _ in range(4):
            assert gc.equal(owner.step(gc.ones(3)), gc.full((3,), scale))
    assert len(owner.step._specializations) == 2
    for warm in (False, True):
        inner = CompiledFunction(helper)
        for _ in range(4 * warm):
            inner(gc.ones(2, 3))
        monkeypatch.setattr(sys.modules[__name__], "SCALE", 2.0)
        table = [inner]
        check(lambda x, table=table: table[0](x), lambda: monkeypatch.setattr(sys.modules[__name__], "SCALE", 5.0))
        check(lambda x, table=table: table[0](x), lambda table=table: table.__setitem__(0, gc.compile(other_helper)))
        check(
            lambda x, inner=inner: x * inner.label if hasattr(inner, "label") else inner(x),
            lambda inner=inner: setattr(inner, "label", 3.0),
            programs=None,
        )


def test_a_value_that_keeps_changing_ends_with_a_warning() -> None:
    compiled = CompiledFunction(lambda x, factor: x * abs(factor))
    x = gc.ones(2)

    def call_with_many() -> None:
        for i in range(2 * config.COMPILE_LIMIT):
            assert gc.equal(compiled(x, float(i)), x * float(i))

    with pytest.warns(UserWarning, match=r"keeps failing: args\[1\]") as warned:
        call_with_many()
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert len(compiled._specializations) == config.COMPILE_LIMIT
    gc.compiler.reset()
    assert gc.equal(compiled(x, 2.0), x * 2)
    assert not compiled._specializations


def test_dynamic_sizes_have_one_program() -> None:
    compiled = gc.compile(lambda x: x * 2, dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(1, 2 * config.COMPILE_LIMIT):
            assert gc.equal(compiled(gc.ones(n)), gc.full((n,), 2.0))
    assert len(compiled._specializations) == 2  # that of 2, and one for all others


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "mode": ({"mode": "fast"}, RuntimeError, "Unrecognized mode=fast, should be one of: default, lite"),
    "both": ({"mode": "default", "options": {}}, RuntimeError, "Either mode or options can be specified, but both"),
    "backend": ({"backend": "llvm"}, RuntimeError, "Invalid backend: 'llvm'"),
    "function": ({"backend": lambda graph, inputs: graph}, RuntimeError, "but got a function"),
    "option": ({"options": {"speed": 1}}, RuntimeError, "Unexpected optimization option speed, known options are"),
    "type": ({"options": {"max_autotune": 3}}, RuntimeError, "type of attr max_autotune, got int should be bool"),
    "dynamic": ({"dynamic": "yes"}, AssertionError, "to be a bool, got <class 'str'>"),
}


@pytest.mark.parametrize("name", WRONG)
def test_settings_that_there_are_not(name: str) -> None:
    settings, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        gc.compile(lambda x: x, **settings)
    with pytest.raises(error, match=message):
        gc.compile(**settings)(lambda x: x)


def test_settings_that_there_are() -> None:
    for settings in ({"mode": "reduce-overhead"}, {"backend": "inductor"}, {"options": {"epilogue_fusion": True}}):
        assert gc.equal(gc.compile(lambda x: x * 2, **settings)(gc.ones(2)), gc.full((2,), 2.0))
    assert "inductor" in gc.compiler.list_backends()


def test_settings_of_all_compiled_functions() -> None:
    from gradcore._dynamo import config as dynamo

    def make() -> CompiledFunction:
        """Return a function that has a program for one factor."""
        compiled = CompiledFunction(lambda x, factor: x * abs(factor), cpp="0", dynamic=None)
        for _ in range(3):
            compiled(gc.ones(2), 1)
        return compiled

    compiled = make()
    with dynamo.patch(recompile_limit=2), pytest.warns(UserWarning, match="there are 2 programs"):
        [compiled(gc.ones(2), factor) for factor in (2, 3)]
    compiled = make()
    with dynamo.patch({"cache_size_limit": 1, "fail_on_recompile_limit_hit": True}):
        for factor in (2, 3):
            with pytest.raises(RuntimeError, match=r"limit of programs is reached: .*: there are 1 programs"):
                compiled(gc.ones(2), factor)
        assert gc.equal(compiled(gc.ones(2), 1), gc.ones(2))
    with dynamo.patch("error_on_recompile", True):
        compiled = make()
        with pytest.raises(RuntimeError, match="Detected recompile when error_on_recompile is True"):
            compiled(gc.ones(2), 2)
    for automatic, has_symbols in ((True, True), (False, False)):
        with dynamo.patch(automatic_dynamic_shapes=automatic):
            compiled = make()
            for n in (3, 4):
                compiled(gc.ones(n), 1)
            assert any(entry.sizes is not None for entry in compiled._specializations) is has_symbols
    dynamo.suppress_errors = dynamo.suppress_errors
    assert (dynamo.recompile_limit, dynamo.cache_size_limit, dynamo.error_on_recompile) == (8, 8, False)
    for change in ("capture_everything", "specialize_int"):
        with pytest.raises(
            AttributeError, match=rf"config\.{change} does not exist: .* Leave it out\. The settings are"
        ):
            setattr(dynamo, change, True)
    with pytest.raises(TypeError, match="recompile_limit must be of type int, not str"):
        dynamo.recompile_limit = "8"


def test_errors_and_warnings_name_the_line_and_a_remedy() -> None:
    kept: list[Any] = []
    cases: list[tuple[Any, str]] = [
        (
            lambda x: x if float(x.sum()) > 0 else -x,
            r"elements of a tensor are read \(.*test_guards.py:\d+, in <lambda>\)",
        ),
        (lambda x: x * x.tolist()[0], r"elements of a tensor are read \(.*test_guards.py:\d+, in <lambda>\)"),
        (lambda x: x[x > 0], r"sizes depend on values \(.*test_guards.py:\d+, in <lambda>\)"),
        (lambda x: x[0], r"<lambda> \(.*test_guards.py:\d+\).*: .*shares memory.*; return a clone"),
        (lambda x: kept.append(x * 2), r"test_guards.py:\d+\).*: .*; "),
    ]
    for function, message in cases:
        compiled, strict = gc.compile(function), gc.compile(function, fullgraph=True)
        with pytest.warns(UserWarning, match=message) as warned:
            [compiled(gc.ones(3)) for _ in range(4)]
        assert len(warned) == 1
        with pytest.raises(RuntimeError, match=message):
            [strict(gc.ones(3)) for _ in range(2)]


def test_seeds() -> None:
    compiled = CompiledFunction(lambda x: x + gc.randn(3))
    x = gc.zeros(3)
    for _ in range(4):
        gc.manual_seed(5)
        found = compiled(x), compiled(x)
        gc.manual_seed(5)
        assert gc.equal(found[0], gc.randn(3))
        assert gc.equal(found[1], gc.randn(3))


def test_compiling_is_seen_and_stopped() -> None:
    seen: list[bool] = []

    @gc.compiler.disable
    def apart(x: gc.Tensor) -> gc.Tensor:
        seen.append(gc.compiler.is_compiling())
        return x * 2

    compiled = gc.compile(lambda x: apart(x) + 1)
    with pytest.warns(UserWarning, match="is not to be compiled"):
        assert all([gc.equal(compiled(gc.ones(2)), gc.full((2,), 3.0)) for _ in range(3)])  # noqa: C419
    assert seen == [False] * 3
    assert gc.compile(apart, disable=True) is apart
    with pytest.raises(TypeError, match="must be a module or a function"):
        gc.compile(3)


def test_what_is_deleted_is_missed_as_it_always_is() -> None:
    config, table, items = Config(), {"a": 1.0}, [1.0]

    cases: list[tuple[Any, Any, type[Exception]]] = [
        (lambda x: x * config.scale, lambda: delattr(config, "scale"), AttributeError),
        (lambda x: x * table["a"], lambda: table.clear(), KeyError),
        (lambda x: x * items[0], lambda: items.clear(), IndexError),
    ]
    for function, delete, error in cases:
        compiled = CompiledFunction(function)
        for _ in range(3):
            compiled(gc.ones(2))
        assert compiled._specializations
        delete()
        with pytest.raises(error):
            compiled(gc.ones(2))


class Table(dict[str, float]):
    """A dict with attributes."""

    shift = 1.0


class Pair(NamedTuple):
    a: float


class Marked(Pair):
    """A named tuple with attributes."""


class Kind(enum.Enum):
    FIRST = 1


class Base:
    scale = 2.0

    def apply(self, x: gc.Tensor) -> gc.Tensor:
        return x * self.scale


class Derived(Base):
    pass


class Marks:
    v_a = v_b = 0


def test_what_containers_functions_and_members_have_beside_their_elements() -> None:
    table, pair, noted, derived = Table(a=2.0), Marked(2.0), {"scale": 2.0}, Derived()
    table.scale = pair.scale = Kind.FIRST.scale = 2.0  # type: ignore[attr-defined]
    get = noted.get

    def own(x: gc.Tensor) -> gc.Tensor:
        return x * own.scale  # type: ignore[attr-defined]

    own.scale = 2.0  # type: ignore[attr-defined]
    check(lambda x: x * table.scale, lambda: setattr(table, "scale", 3.0))  # type: ignore[attr-defined]
    check(lambda x: x * table["a"] + table.shift, lambda: setattr(Table, "shift", 3.0))
    check(lambda x: x * pair.scale, lambda: setattr(pair, "scale", 3.0))  # type: ignore[attr-defined]
    check(lambda x: x * Kind.FIRST.scale, lambda: setattr(Kind.FIRST, "scale", 3.0))  # type: ignore[attr-defined]
    check(own, lambda: setattr(own, "scale", 3.0))
    check(lambda x: own(x) + 1, lambda: setattr(own, "scale", 4.0))
    check(lambda x: x * get("scale"), lambda: noted.update(scale=3.0))
    check(lambda x: derived.apply(x), lambda: setattr(Derived, "scale", 3.0))
    check(lambda x: derived.apply(x), lambda: setattr(Derived, "apply", lambda self, x: x + 1))


@pytest.mark.parametrize("kind", ["defaultdict", "subclass", "Counter"])
def test_guards_of_dicts_read_no_missing_keys(kind: str) -> None:
    """Reading a missing key could add it, call code of the user, or return a value that is equal by chance."""

    class Missing(dict[str, float]):
        def __missing__(self, key: str) -> float:
            calls.append(key)
            return 2.0

    calls: list[str] = []
    make: dict[str, Callable[..., Any]] = {
        "defaultdict": lambda key: defaultdict(lambda: 2.0, {key: 2.0}),
        "subclass": lambda key: Missing({key: 2.0}),
        "Counter": lambda key: Counter({key: 0}),
    }
    table = make[kind]("a")

    def function(x: gc.Tensor) -> gc.Tensor:
        return x * len([*table][0])  # noqa: RUF015 (`next` is not compiled)

    compiled = CompiledFunction(function)
    for _ in range(3):
        compiled(gc.ones(1))
    assert compiled._specializations
    table["long"] = table.pop("a")
    for _ in range(3):
        assert compiled(gc.ones(1)).item() == 4
    assert [*table] == ["long"]
    assert not calls


class Finalized:
    """An object that notes in a list when it ceases to exist."""

    def __init__(self, log: list[int]) -> None:
        self.log = log

    def __del__(self) -> None:
        self.log.append(1)


@pytest.mark.parametrize("place", ["list", "variable", "argument"])
def test_objects_are_finalized_when_the_function_drops_them(place: str) -> None:
    """Neither guards nor the search for the statement that changes them keep objects alive."""
    results = []
    for compiles in (False, True):
        log: list[int] = []
        objects = [Finalized(log)]

        def of_list(x: gc.Tensor, log: list[int] = log, objects: list[Finalized] = objects) -> gc.Tensor:
            objects.append(Finalized(log))
            del objects[0]
            return x * len(log)

        def of_variable(x: gc.Tensor, log: list[int] = log) -> gc.Tensor:
            kept = Finalized(log)
            return x * len(kept.log)

        def of_argument(x: gc.Tensor, each: list[Finalized], log: list[int] = log) -> gc.Tensor:
            each.clear()
            return x * len(log)

        function: Any = {"list": of_list, "variable": of_variable, "argument": of_argument}[place]
        run = CompiledFunction(function, cpp="0") if compiles else function
        values = []
        collector.disable()  # Objects are to be freed without it.
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for _ in range(6):
                    arguments = [[Finalized(log)]] if place == "argument" else []
                    values.append(run(gc.ones(1), *arguments).item())
        finally:
            collector.enable()
        results.append((values, len(log)))
    assert results[0] == results[1]
    assert results[0][1] in (5, 6)


@pytest.mark.parametrize("base", [list, dict, set, tuple, deque])
def test_containers_are_finalized_when_the_function_drops_them(base: Any) -> None:
    results = []
    for compiles in (False, True):
        log: list[int] = []

        def finalize(self: Any, log: list[int] = log) -> None:
            log.append(1)

        derived = type("Derived", (base,), {"__del__": finalize})
        objects = [derived()]

        def function(
            x: gc.Tensor, log: list[int] = log, objects: list[Any] = objects, derived: Any = derived
        ) -> gc.Tensor:
            objects.append(derived())
            del objects[0]
            return x * len(log)

        run = CompiledFunction(function, cpp="0") if compiles else function
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append([run(gc.ones(1)).item() for _ in range(4)])
        objects.clear()
    assert results == [[1, 2, 3, 4]] * 2


@pytest.mark.parametrize("base", [functools.partial, property, type, gc.optim.SGD])
def test_objects_of_all_kinds_are_finalized_when_they_are_dropped(base: Any) -> None:
    """Objects that are written in C, classes and optimizers may have finalizers, too."""
    log: list[int] = []

    class Derived(base):  # type: ignore[misc]
        def __del__(self) -> None:
            log.append(1)

    arguments: dict[Any, tuple[Any, ...]] = {
        functools.partial: (abs,), type: ("Named", (), {}), gc.optim.SGD: ([gc.ones(1, requires_grad=True)], 0.1),
    }  # fmt: skip
    table: dict[str, Any] = {}

    def function(x: gc.Tensor) -> gc.Tensor:
        return x * (table["object"] is not None)

    compiled = CompiledFunction(function, cpp="0")
    counts = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            table["object"] = None
            collector.collect()  # Classes are in reference cycles.
            counts.append(len(log))
            table["object"] = Derived(*arguments.get(base, ()))
            compiled(gc.ones(1))
    assert counts == [0, 1, 2, 3]


def test_functions_that_are_not_compiled_run_while_no_exception_is_handled() -> None:
    state: Any = np.ones(1)
    raises = False

    def function(x: gc.Tensor) -> gc.Tensor:
        if raises:
            raise ValueError("of the user")
        return x * float(state[0])

    compiled = CompiledFunction(function)
    compiled(gc.ones(1))
    raises = True
    with pytest.warns(UserWarning, match="runs as it is"), pytest.raises(ValueError, match="of the user") as caught:
        compiled(gc.ones(1))
    assert caught.value.__context__ is None


def test_modules_that_a_function_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("settings_of_this_test")
    module.scale = 2.0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def imports(x: gc.Tensor) -> gc.Tensor:
        import settings_of_this_test  # type: ignore[import-not-found]

        return x * settings_of_this_test.scale  # type: ignore[no-any-return]

    def imports_from(x: gc.Tensor) -> gc.Tensor:
        from settings_of_this_test import scale

        return x * scale  # type: ignore[no-any-return]

    for function in (imports, imports_from):
        check(function, lambda: monkeypatch.setattr(module, "scale", module.scale + 1))


def test_attributes_that_are_set_by_computed_names() -> None:
    marks = Marks()

    def sets(x: gc.Tensor) -> gc.Tensor:
        for name in ("a", "b"):
            setattr(marks, f"v_{name}", 1)
        return x * 2

    compiled = gc.compile(sets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            marks.v_a = 0
            compiled(gc.ones(2))
            assert marks.v_a == 1


def test_lists_and_dicts_of_arguments_stay_what_they_are() -> None:
    def replaces(items: list[gc.Tensor]) -> gc.Tensor:
        items[0] = items[0] * 2
        return items[0]

    given = gc.compile(lambda items: (items, items[0] * 2))
    replacing = gc.compile(replaces)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            items = [gc.ones(2)]
            assert given(items)[0] is items
            assert replacing(items) is items[0]
            assert items[0].tolist() == [2.0, 2.0]


def changing_later() -> list[tuple[Any, Any]]:
    """Functions of a dict, and what changes before their gradients are differentiated."""
    box, layer = types.SimpleNamespace(scale=2.0), nn.Linear(3, 3)

    def weight() -> None:
        layer.weight.data = gc.zeros(3, 3)

    return [
        (lambda d: d["x"] ** 2 * box.scale, lambda d: setattr(box, "scale", 3.0)),
        (lambda d: d["x"] ** 2 * d["y"], lambda d: d.update(y=gc.zeros(3))),
        (lambda d: nn.functional.dropout(d["x"] ** 2, 0.5, layer.training), lambda d: layer.eval()),
        (lambda d: layer(d["x"]) ** 2, lambda d: weight()),
    ]


@pytest.mark.parametrize("number", range(4))
def test_derivatives_of_derivatives_after_changes(number: int) -> None:
    function, change = changing_later()[number]
    compiled = gc.compile(function)
    for _ in range(3):
        given = {"x": gc.ones(3, requires_grad=True), "y": gc.ones(3)}
        out = compiled(given).sum()
        assert gc.autograd.grad(out, given["x"], create_graph=True)[0].requires_grad
    given = {"x": gc.ones(3, requires_grad=True), "y": gc.ones(3)}
    expected = gc.autograd.grad(function(given).sum(), given["x"])[0] if number != 2 else None
    outs = compiled(given).sum(), compiled(given).sum()
    given["x"].register_hook(lambda g: g)
    change(given)
    found = gc.autograd.grad(outs[0], given["x"])[0]
    assert expected is None or gc.equal(found, expected)
    with pytest.raises(RuntimeError, match="once something that it depends on has changed: "):
        gc.autograd.grad(outs[1], given["x"], create_graph=True)


def test_files_with_names_of_the_standard_library(tmp_path: Path) -> None:
    path = tmp_path / "antigravity.py"
    path.write_text("scale = 2.0\n\ndef scaled(x):\n    return x * scale\n")
    spec = importlib.util.spec_from_file_location("antigravity", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    compiled = gc.compile(module.scaled)
    for module.scale in (2.0, 2.0, 2.0, 3.0):
        assert gc.equal(compiled(gc.ones(2)), gc.full((2,), module.scale))


def test_functions_of_namespaces_without_a_name_are_the_users() -> None:
    """Guard what a function reads that was made by `eval` in a dict."""
    config = types.SimpleNamespace(scale=2.0)
    function = eval("lambda x: x * float('{0.scale}'.format(config))", {"config": config})
    compiled = gc.compile(function)
    for _ in range(4):
        assert compiled(gc.ones(1)).item() == 2.0
    config.scale = 3.0
    assert compiled(gc.ones(1)).item() == 3.0


_known = gc.tensor([1.0, 2.0, 3.0], requires_grad=True)
_known.grad = gc.tensor([4.0, 4.0, 4.0])
_known_in = {"set": {_known}, "dict": {_known: 2.0}}


def _note_first(x: gc.Tensor) -> bool:
    noted = {x: 1}
    return _known in noted


#: How functions may find out whether an argument is a tensor that they find elsewhere.
COMPARISONS: dict[str, Callable[[gc.Tensor], bool]] = {
    "is": lambda x: x is _known,
    "is not": lambda x: x is not _known,
    "operator": lambda x: operator.is_(x, _known),
    "set": lambda x: x in _known_in["set"],
    "dict": lambda x: x in _known_in["dict"],
    "number of elements": lambda x: len({x, _known}) == 1,
    "key": _note_first,
    "id": lambda x: id(x) == id(_known),
    "generator": lambda x: any(x is each for each in [_known]),
    "gradient": lambda x: x is _known.grad,
    "gradients": lambda x: _known.grad in {x: 1},
}


@pytest.mark.filterwarnings("ignore:compile")  # sets and dicts of tensors, and `id`, are refused
@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_an_argument_may_become_a_tensor_that_the_function_finds_elsewhere(name: str, dynamic: bool | None) -> None:
    compares = COMPARISONS[name]

    def function(x: gc.Tensor) -> gc.Tensor:
        return x * (2 if compares(x) else 3)

    grad = _known.grad
    assert grad is not None
    for first, second in itertools.permutations((gc.ones(3), _known.detach(), _known, grad), 2):
        compiled = gc.compile(function, dynamic=dynamic)
        for x in (first, first, first, second, second, first):
            assert gc.equal(compiled(x), function(x))


def test_regular_expressions_are_constants_by_identity() -> None:
    """Make programs of functions that refer to regular expressions, one for each expression."""
    config = types.SimpleNamespace(pattern=re.compile("(a+)b"))

    def function(x: gc.Tensor, text: str) -> gc.Tensor:
        found = config.pattern.match(text)
        return x * (0.0 if found is None else float(len(found.group(1))))

    compiled = gc.compile(function, fullgraph=True)
    for text, times in (("aab", 2.0), ("aab", 2.0), ("aab", 2.0), ("aaab", 3.0), ("c", 0.0), ("aab", 2.0)):
        assert compiled(gc.ones(1), text).item() == times
    assert compiled.count_programs() == 3
    config.pattern = re.compile("(a)ab")
    assert [compiled(gc.ones(1), "aab").item() for _ in range(3)] == [1.0] * 3


class _Doubling(gc.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = gc.nn.Sequential(gc.nn.Tanh(), gc.nn.ReLU())

    def forward(self, x: gc.Tensor) -> gc.Tensor:
        return self.inner(x) * 2


def _replacement(*args: Any, **named: Any) -> Any:
    return gc.Tensor.mul(next(each for each in args if isinstance(each, gc.Tensor)), 7)


@pytest.mark.parametrize(
    ("owner", "name"),
    [(gc.nn.Tanh, "forward"), (gc.nn.Module, "__call__"), (gc.nn.functional, "relu"), (gc.Tensor, "exp"),
     (gc.Tensor, "__add__"), (gc.Tensor, "__rsub__"), (gc.Tensor, "__iadd__"), (gc.Tensor, "__neg__"),
     (gc.Tensor, "__pos__"), (gc.Tensor, "__lt__"), (gc.Tensor, "__getitem__")],
)  # fmt: skip
def test_replaced_functions_of_the_library_are_seen(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = _Doubling()

    def function(x: gc.Tensor) -> gc.Tensor:
        y = module(x).exp() + 1
        y += 1 - x[:1] + (y < 2)
        return -(+y)

    compiled, x = CompiledFunction(function, cpp="0"), gc.tensor([0.5, 1.0, 3.0])
    for _ in range(3):
        before = compiled(x).tolist()
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, _replacement)
        for _ in range(4):
            assert compiled(x).tolist() == function(x).tolist() != before
            assert vars(owner)[name] is _replacement, "a capture has taken the replacement back"
    assert compiled(x).tolist() == function(x).tolist() == before


def test_replaced_operators_of_another_branch_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls that guards are derived from may not have run the operators of the captured call."""
    branches = [True]

    def function(x: gc.Tensor) -> gc.Tensor:
        return x + 1 if branches[0] else x / 4 - x

    compiled, x = gc.compile(function, options={"cpp": False}), gc.ones(3)
    compiled(x)
    branches[0] = False
    for _ in range(4):
        compiled(x)
    assert compiled._specializations
    monkeypatch.setattr(gc.Tensor, "__truediv__", lambda self, other: self * other)
    assert gc.equal(compiled(x), function(x))


def test_the_dtype_of_autocasting_is_seen() -> None:
    def function(x: gc.Tensor) -> gc.Tensor:
        with gc.autocast("cpu"):
            return x @ x

    compiled, x, before = CompiledFunction(function, cpp="0"), gc.ones(2, 2), gc.get_autocast_dtype("cpu")
    for _ in range(3):
        assert compiled(x).dtype is gc.bfloat16
    gc.set_autocast_dtype("cpu", gc.float16)
    try:
        assert compiled(x).dtype is gc.float16
    finally:
        gc.set_autocast_dtype("cpu", before)
    assert compiled(x).dtype is gc.bfloat16


def test_replaced_functions_are_seen_that_were_called_for_the_first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc.nn.functional, "relu", make_function(OPS["functional_relu"], method=False))
    module, x = gc.nn.ReLU(), gc.tensor([-1.0, 2.0])
    compiled = CompiledFunction(lambda x: module(x) * 3, cpp="0")
    for _ in range(3):
        assert compiled(x).tolist() == [0.0, 6.0]
    monkeypatch.setattr(gc.nn.functional, "relu", lambda x, inplace=False: x * 7)
    with pytest.warns(UserWarning, match="runs as it is"):
        assert [compiled(x).tolist() for _ in range(4)] == [[-7.0 * 3, 14.0 * 3]] * 4


def test_replaced_methods_of_optimizers_are_seen() -> None:
    p = gc.nn.Parameter(gc.ones(2))
    optimizer = gc.optim.SGD([p], lr=0.5)

    def step(x: gc.Tensor) -> None:
        optimizer.zero_grad()
        (p * x).sum().backward()

    compiled = CompiledFunction(step, cpp="0")
    for _ in range(3):
        compiled(gc.ones(2))
    assert p.grad is not None
    assert p.grad.tolist() == [1, 1]
    optimizer.zero_grad = lambda: None  # type: ignore[assignment]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            compiled(gc.ones(2))
    assert p.grad.tolist() == [4, 4]


@pytest.mark.parametrize("reads", [False, True])
def test_gradients_are_guarded_if_they_are_read(reads: bool) -> None:
    """A function that only computes has one program, whether or not its parameters have gradients."""
    w = gc.randn(3, requires_grad=True)

    computes = lambda x: (x * w).sum()  # noqa: E731
    looks = lambda x: (x * w).sum() * (1 if w.grad is None else 2)  # noqa: E731
    function = looks if reads else computes
    compiled = CompiledFunction(function, cpp="0")
    x = gc.randn(3)
    for i in range(8):
        expected = gc.autograd.grad(function(x), w)[0] + (0 if w.grad is None else w.grad)
        compiled(x).backward()
        assert gc.equal(w.grad, expected)
        if i % 4 == 3:
            w.grad = None
    assert len(compiled._specializations) == 1 + reads


#: Functions that reach the storage of a tensor beyond its own elements.
OF_STORAGES: dict[str, Callable[[gc.Tensor], gc.Tensor]] = {
    "number of bytes": lambda x: x + x.untyped_storage().nbytes(),
    "number of elements": lambda x: x + len(x.storage()),
    "view by strides": lambda x: x.as_strided((2,), (1,), 0) * 1,
    "view beyond the elements": lambda x: x.as_strided((2,), (2,), 3) * 1,
    "view by strides of a view": lambda x: x[1:].as_strided((2,), (1,), 0) * 1,
    "view of the storage": lambda x: x + gc.empty(0).set_(x.untyped_storage())[-4:-3],
    "shared memory": lambda x: x * (2 if x.is_shared() else 1),
    "shared storage": lambda x: x * (2 if x.untyped_storage().is_shared() else 1),
}


@pytest.mark.parametrize("cpp", [False, "wait"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", OF_STORAGES)
def test_places_in_storages(kind: str, dynamic: bool, cpp: Any) -> None:
    """The shape and strides of a view do not tell which elements of its storage are around it."""
    function = OF_STORAGES[kind]
    compiled = gc.compile(function, dynamic=dynamic, options={"cpp": cpp})
    storage, shared = gc.arange(12.0), gc.arange(9.0).share_memory_()
    views = [storage[:3]] * 3 + [storage[5:8], gc.arange(9.0)[1:4], shared[:3], storage[4:8], storage[2:7]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in views:
            assert gc.equal(compiled(x), function(x))
