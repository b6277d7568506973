"""Functions that are cut where no program can go on: what is before and after is compiled, and all is as it was."""

from __future__ import annotations

import dis
import functools
import itertools
import linecache
import random
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.compiler.capture.sources import statements_of, tree_of
from gradcore.compiler.capture.split import cut

pytestmark = pytest.mark.filterwarnings("error")

# -- how functions are cut, whatever they compute ----------------------------------------------------------------------

NAMES = "abcde"
_files = itertools.count()


class Writer:
    """Random functions of numbers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.on_one_line = self.random.random() < 0.3

    def number(self, depth: int = 0) -> str:
        pick = self.random.randrange(12 if depth < 2 else 5)
        name = self.random.choice(NAMES)
        if pick < 3:
            return name
        if pick < 5:
            return str(self.random.randrange(4))
        one, two = self.number(depth + 1), self.number(depth + 1)
        if pick < 8:
            return f"({one} {self.random.choice('+-*')} {two})"
        return {
            8: f"{self.random.choice(['note', 'note', 'fail'])}({one})",
            9: f"sum({name} * {self.number(2)} for {name} in range(3))",
            10: f"(lambda {name}: {name} + {one})({two})",
            11: f"({one} if {two} > 2 else ({name} := {one}))",
        }[pick]

    def statement(self, indent: str, depth: int, in_loop: bool) -> None:
        name, pick = self.random.choice(NAMES), self.random.randrange(20 if depth < 2 else 11)
        put = self.lines.append
        if pick < 5:
            put(f"{indent}{name} = {self.number()}")
        elif pick < 7:
            put(f"{indent}{name} += {self.number()}")
        elif pick < 8:
            put(f"{indent}note({self.number()})")
        elif pick < 9:
            put(f"{indent}{name}, g = {self.number()}, {self.number()}")
        elif pick < 10:
            put(f"{indent}seen.append({self.number()})")
        elif pick < 11:
            put(f"{indent}{self.random.choice(['break', 'continue']) if in_loop else 'pass'}")
        elif pick < 14:
            put(f"{indent}if {self.number()} > 1:")
            self.block(indent + "    ", depth + 1, in_loop)
            if self.random.random() < 0.5:
                put(f"{indent}else:")
                self.block(indent + "    ", depth + 1, in_loop)
        elif pick < 17:
            if self.random.random() < 0.3:
                put(f"{indent}while len(seen) < {self.random.randrange(9)} and note({self.number()}):")
            else:
                put(f"{indent}for {name} in range({self.random.randrange(4)}):")
            self.block(indent + "    ", depth + 1, True)
            if self.random.random() < 0.3:
                put(f"{indent}else:")
                self.block(indent + "    ", depth + 1, in_loop)
        elif pick < 18:
            put(f"{indent}try:")
            self.block(indent + "    ", depth + 1, in_loop)
            kind = self.random.randrange(3)
            if kind != 1:
                put(f"{indent}except NameError as {name}:")
                self.block(indent + "    ", depth + 1, in_loop)
            if kind:
                put(f"{indent}finally:")
                self.block(indent + "    ", depth + 1, in_loop)
        elif pick < 19:
            kind = self.random.choice(["context", "context", "swallowing", "gc.enable_grad"])
            value = "" if kind == "gc.enable_grad" else self.number()
            put(f"{indent}with {kind}({value}) as {name}:")
            self.block(indent + "    ", depth + 1, in_loop)
        else:
            put(f"{indent}return {self.number()}, {self.number()}")

    def block(self, indent: str, depth: int, in_loop: bool) -> None:
        for _ in range(self.random.randrange(1, 4)):
            self.statement(indent, depth, in_loop)

    def joined(self) -> list[str]:
        """Return the lines, some of which have been put on one with the line before, after a semicolon."""
        found: list[str] = []
        for line in self.lines:
            word = line.split()[0]
            indent = len(line) - len(line.lstrip())
            last = found[-1] if found else ":"
            simple = not last.endswith(":") and word not in (
                "if",
                "for",
                "while",
                "try:",
                "finally:",
                "except",
                "with",
                "else:",
                "def",
            )
            if self.on_one_line and simple and indent == len(last) - len(last.lstrip()):
                found[-1] += "; " + line.strip()
            else:
                found.append(line)
        return found

    def function(self) -> tuple[Callable[..., Any], list[Any]]:
        self.lines = ["def function(a, b=2, *, c=3):"]
        if self.random.random() < 0.3:
            self.lines.append("    global g")
        for _ in range(self.random.randrange(2, 6)):
            self.statement("    ", 0, False)
        self.lines.append("    return a, b, c")
        path = f"<random function {next(_files)}>"
        text = "\n".join(self.joined()) + "\n"
        linecache.cache[path] = len(text), None, text.splitlines(True), path
        noted: list[Any] = []
        names = {"note": _note(noted), "fail": _fail, "seen": noted, "context": _Context, "swallowing": _Swallowing}
        scope: dict[str, Any] = {**names, "gc": gc}
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):  # Python 3.14: `continue` in `finally`
            exec(compile(text, path, "exec", dont_inherit=True), scope)
        return scope["function"], noted


def _note(noted: list[Any]) -> Callable[[Any], Any]:
    def note(value: Any) -> Any:
        noted.append(value)
        return value

    return note


def _fail(value: Any) -> Any:
    if value > 2:
        raise NameError(str(value))
    return value


class _Context:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __enter__(self) -> Any:
        return self.value

    def __exit__(self, *error: object) -> None: ...


class _Swallowing(_Context):
    def __exit__(self, *error: object) -> bool:  # type: ignore[override]
        return True


def outcome(function: Any, noted: list[Any], a: int) -> str:
    """Return what a call returns or raises, and notes, as text, so that exceptions are compared by their arguments."""
    noted.clear()
    function.__globals__.pop("g", None)
    try:
        result: Any = function(a)
    except (NameError, TypeError) as error:
        result = type(error)
    return repr((result, noted, function.__globals__.get("g")))


def places_in(function: Any) -> list[int]:
    """Return for each statement of a function the offset of an instruction of it."""
    found = statements_of(function.__code__, tree_of(function.__code__))
    first = {id(each): 2 * i for i, each in reversed([*enumerate(found)]) if each is not None}
    return [*first.values()]


def cut_again(function: Any, chance: random.Random, depth: int) -> Any:
    """Cut a part at some of its statements, and the parts of it in turn."""
    places = places_in(function)
    if not depth or not places:
        return function
    found = cut(function, chance.choice(places), lambda part: cut_again(part, chance, depth - 1))
    return function if found is None else found


@pytest.mark.sampled(64)
@pytest.mark.parametrize("seed", range(8))
def test_random_functions_do_the_same_wherever_they_are_cut(seed: int) -> None:
    parts = 0
    for each in range(8):
        function, noted = Writer(1000 * seed + each).function()
        wanted = [outcome(function, noted, a) for a in range(3)]
        for depth, place in itertools.product((0, 1, 3), places_in(function)):
            again = functools.partial(cut_again, chance=random.Random(place), depth=depth)
            found = cut(function, place, again)
            if found is not None:
                parts += 1
                assert [outcome(found, noted, a) for a in range(3)] == wanted, (
                    "".join(linecache.getlines(function.__code__.co_filename)), place, depth, 1000 * seed + each,
                )  # fmt: skip
    assert parts > 5


def _suppresses(a: int) -> Any:
    b = c = 2
    with _Swallowing(c) as c:
        if a > 1:
            b, c = sum(range(3)), _fail(3)
        else:
            b = a + 5
    b = b
    return a, b + c


def _binds_in_suppressing(a: int) -> Any:
    c = a + 1
    with _Swallowing(c):
        c, d = _fail(a) + 2, a * 3
        e = d + _fail(a + 1)
    if a == 0:
        return c, d, e
    return c + 1


def _leaves_a_loop(a: int) -> Any:
    b, i = a * 2, 0
    for i in range(4):
        if i == a:
            break
        b = i * 10
    else:
        b = 7 + i
    return b + i


def _runs_at_the_end(a: int) -> Any:
    b, c = a + 1, a * 2
    try:
        try:
            b = _fail(a + 1) + 1
        finally:
            c = b + 1
    except NameError:
        c = c * 5
    return b, c + 1


def _reads_an_earlier_iteration(a: int) -> Any:
    b = 0
    for i in range(a + 1):
        if i > 0:
            b += c * 2  # noqa: F821 (an earlier iteration has bound it)
        c = b + a
    while b < 50:
        try:
            d = d + b  # noqa: F821 (an earlier iteration may have bound it)
        except UnboundLocalError:
            d = a * 3
        b = b + d + 20
    return b, c, d


def _make_closure() -> Any:
    """Return a function whose variable `gc`, of the enclosing function, hides the global module."""
    gc = types.SimpleNamespace(no_grad=_Swallowing)

    def _suppresses_by_a_closure_variable(a: int) -> Any:
        b = a * 2
        with gc.no_grad(a):
            b, a = sum(range(3)), _fail(a)
        return a, b

    return _suppresses_by_a_closure_variable


def _unbinds_a_parameter(a: Any) -> Any:
    global g
    b = a
    try:
        b = _fail(a + 1)
    except NameError as a:
        b = 5
    finally:
        b = b + 1
    g = b * 2  # It is bound before the error of the next statement.
    return a, g


def _unbinds_before_a_break(a: Any) -> Any:
    global g
    b = 5
    for _ in range(2):
        try:
            _fail(a + 1)
        except NameError as a:
            b = 3
        break
    g = max(4, b)
    return a, g


def _unbinds_in_a_suppressing_context(a: Any) -> Any:
    global g
    with _Swallowing(0):
        try:
            _fail(a + 1)
        except NameError as a:
            g = 3
        _fail(3)
    g = max(4, 6)
    return a, g


def _unbinds_in_an_iteration(a: Any) -> Any:
    global g
    g, b = 0, a
    for i in range(2):
        g = g + 1 + b
        b = a + i
        try:
            _fail(b + 1)
        except NameError as a:
            g = g * 2
    return b


_LEAVING = [
    _suppresses, _make_closure(), _binds_in_suppressing, _leaves_a_loop, _runs_at_the_end, _reads_an_earlier_iteration,
    _unbinds_a_parameter, _unbinds_before_a_break, _unbinds_in_a_suppressing_context, _unbinds_in_an_iteration,
]  # fmt: skip


@pytest.mark.parametrize("function", _LEAVING)
def test_names_that_an_error_a_break_or_an_iteration_leaves_as_they_are(function: Any) -> None:
    wanted = [outcome(function, [], a) for a in range(4)]
    parts: list[Any] = []
    for depth, place in itertools.product((0, 1, 3), places_in(function)):
        found = cut(function, place, functools.partial(cut_again, chance=random.Random(place), depth=depth))
        if found is not None:
            parts.append(found)
            assert [outcome(found, [], a) for a in range(4)] == wanted, (place, depth)
    assert parts


def test_what_a_suppressing_context_contains_is_compiled() -> None:
    names: list[str] = []

    def note(part: Any) -> Any:
        names.extend(part.__code__.co_varnames)
        return part

    def function(x: Any, context: Any) -> Any:
        with context:
            logits, loss = x * 2, x * 3
        float(loss)
        return logits + loss

    offsets = [i.offset for i in dis.get_instructions(function) if i.argval == "float"]
    assert cut(function, offsets[0], note) is not None
    assert names == ["x", "logits", "loss", "logits", "loss"]


# -- what cut functions compute ----------------------------------------------------------------------------------------


class Everything:
    """A model, its optimiser and the things that training steps do beside."""

    def __init__(self) -> None:
        gc.manual_seed(3)
        layers = gc.nn.Linear(4, 8), gc.nn.BatchNorm1d(8), gc.nn.Dropout(0.2), gc.nn.Linear(8, 2)
        self.model = gc.nn.Sequential(*layers)
        self.optimizer = gc.optim.Adam(self.model.parameters(), lr=0.05)
        self.scheduler = gc.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)
        self.log: list[Any] = []
        self.steps = 0

    def state(self) -> Any:
        tensors = [*self.model.state_dict().values(), *(p.grad for p in self.model.parameters())]
        moments = [v for each in self.optimizer.state.values() for v in each.values()]
        return (
            [each if each is None else each.tolist() for each in tensors],
            [str(m) for m in moments],
            self.log,
            self.steps,
        )


def reads_at_the_end(self: Everything, x: Any) -> Any:
    self.optimizer.zero_grad()
    loss = self.model(x).square().mean()
    loss.backward()
    self.optimizer.step()
    self.scheduler.step()
    self.log.append(f"{loss.item():.6f}")
    return loss


def reads_in_the_middle(self: Everything, x: Any) -> Any:
    self.optimizer.zero_grad()
    out = self.model(x)
    loss = out.square().mean()
    self.log.append(loss.item())
    loss.backward()
    gc.nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
    self.optimizer.step()
    return out.detach() * 2, {"loss": loss.detach() + 0}


def prints_in_a_loop(self: Everything, x: Any) -> Any:
    total = gc.zeros(())
    for i in range(4):
        h = self.model(x * i)
        loss = (h - 1).abs().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        if i == 2:
            print(end=f"{loss.item()}"[:0])
        total = total + loss.detach() * 0.5
    return total.sqrt()


def counts(self: Everything, x: Any) -> Any:
    h = self.model(x).relu()
    y = h.sum(0)
    self.steps += 1
    return (h * y).mean() + self.steps


def missing_gradients(self: Everything, x: Any) -> Any:
    self.optimizer.zero_grad()
    h = self.model[0](x)
    out = self.model[1](h).exp().sum()
    print(end="")
    out.backward()
    self.optimizer.step()
    return h.detach() - h.detach().mean(0)  # whatever the bias, whose gradient is zero


def keeps(self: Everything, x: Any) -> Any:
    h = self.model(x).relu()
    y = h.sum(0) * 2
    self.log.append(y.detach().tolist() if x is None else 3)
    z = (y + 1).sqrt()
    self.hidden = z.detach()
    return (h * y).exp().mean() * z


def returns_a_view(self: Everything, x: Any) -> Any:
    h = self.model(x).relu() + 1
    y = h.log().sum(0) * 2
    return x[0], y.exp(), h


def selects_by_a_mask(self: Everything, x: Any) -> Any:
    h = self.model(x)
    k = h.exp() + 1
    chosen = h[h > 0]
    z = (chosen * 2).sum()
    return (k.sum() * z).tanh()


def under_no_grad(self: Everything, x: Any) -> Any:
    with gc.no_grad():
        h = self.model(x)
        scale = float(h.abs().max())
        y = h / 2
    return y.exp() * scale + self.model(x)


def draws(self: Everything, x: Any) -> Any:
    noise = gc.randn(5, 4) * 0.1
    h = self.model(x + noise)
    self.log.append(h.detach().numpy().tolist())
    more = gc.rand(5, 2)
    return (h * more).sum(1)


def leaves_early(self: Everything, x: Any) -> Any:
    h = self.model(x)
    if float(h.detach().sum()) > 100:
        return None
    g = h * 3
    return g.exp()


def has_functions_inside(self: Everything, x: Any) -> Any:
    scale = 2.0

    def half(t: Any) -> Any:
        return t / scale

    h = half(self.model(x))
    self.log.append(str(h.mean().item()))
    grads = gc.func.grad(lambda t: (t * scale).square().sum())(h.detach())
    return half(grads)


FUNCTIONS = [
    reads_at_the_end, reads_in_the_middle, missing_gradients, keeps, returns_a_view, prints_in_a_loop, counts,
    selects_by_a_mask, under_no_grad, draws, leaves_early, has_functions_inside,
]  # fmt: skip


def plain(result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return [plain(each) for each in result]
    if isinstance(result, dict):
        return {name: plain(each) for name, each in result.items()}
    return (result.tolist(), result.requires_grad, str(result.dtype)) if isinstance(result, gc.Tensor) else result


def numbers_in(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(each)
    elif isinstance(value, (int, float)):
        yield value


@pytest.mark.slow
@pytest.mark.parametrize("cpp", [False, "wait"])
@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore:Converting a tensor")
def test_parts_do_what_the_function_does(function: Any, cpp: Any) -> None:
    eager, other = Everything(), Everything()
    compiled = gc.compile(function, options={"cpp": cpp})
    for i in range(7):
        results = []
        for run, these in ((function, eager), (compiled, other)):
            gc.manual_seed(i)
            result = run(these, gc.randn(5, 4))
            results.append((plain(result), gc.rand(1).item()))
            if isinstance(result, gc.Tensor) and result.requires_grad and function is not reads_at_the_end:
                result.sum().backward()
        if cpp:
            one, other_one = (np.hstack([*numbers_in(each)]) for each in results)
            assert np.allclose(one, other_one, rtol=1e-3, atol=1e-4)
        else:
            assert results[0] == results[1]
            assert eager.state() == other.state()
    assert any(entries(part) for part in compiled._parts), compiled._left


def entries(compiled: Any) -> int:
    """How many programs a function and its parts have."""
    return len(compiled._specializations) + sum(map(entries, compiled._parts))


class Net(gc.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        gc.manual_seed(5)
        self.first, self.second = gc.nn.Linear(4, 8), gc.nn.Linear(8, 4)
        self.sums: list[float] = []

    def forward(self, x: gc.Tensor, scale: float = 2.0) -> gc.Tensor:
        h = self.first(x).relu() * scale
        self.sums.append(h.sum().item())
        return self.second(h).tanh()


def test_forward_of_modules_is_cut_and_hooks_are_called() -> None:
    nets, x = (Net(), Net(), Net()), gc.randn(3, 4)
    compiled = gc.compile(nets[0])
    nets[1].compile()
    for _ in range(6):
        found = [gc.equal(run(x, scale=3.0), nets[2](x, scale=3.0)) for run in (compiled, nets[1])]
        assert found == [True, True]
    assert entries(compiled._compiled_call_impl) == 2 == entries(nets[1]._compiled_call_impl)
    for net in nets[:2]:
        net.register_forward_hook(lambda module, args, out: out + 1)
    assert gc.equal(compiled(x), nets[2](x) + 1)
    assert gc.equal(nets[1](x), nets[2](x) + 1)
    assert nets[0].sums[:6] == nets[1].sums[:6]


def test_a_forward_that_is_replaced_is_called() -> None:
    net, x = Net(), gc.randn(3, 4)
    net.compile()
    for _ in range(5):
        net(x)
    net.forward = lambda x: x * 5  # type: ignore[method-assign, assignment]
    assert gc.equal(net(x), x * 5)


TOTAL = 0.0


def test_names_of_all_kinds() -> None:
    inside = [1.0]
    runs = 0

    class Worker:
        factor = 3.0

        @gc.compile
        def work(self, x: gc.Tensor, *more: gc.Tensor, power: float = 2.0, **named: gc.Tensor) -> Any:
            """Return a docstring."""
            global TOTAL
            nonlocal runs
            y = (x * self.factor) ** power + sum(each.sum() for each in more)
            inside[0] += y.sum().item()
            TOTAL += 1.0
            runs += 1
            z = y + named.get("other", x) * 2
            for i, each in enumerate(more):
                z = z - each.mean() / (i + 1)
            return z, list(named)

    worker, x = Worker(), gc.arange(3.0)
    for i in range(7):
        given = [gc.full((2,), float(i + k)) for k in range(2)]
        z, names = worker.work(x, *given, other=x + i)
        wanted = (x * 3.0) ** 2.0 + sum(each.sum() for each in given) + (x + i) * 2
        wanted = wanted - given[0].mean() - given[1].mean() / 2
        assert gc.allclose(z, wanted)
        assert names == ["other"]
    assert runs == 7 == TOTAL
    assert entries(Worker.__dict__["work"]) > 0


def calls_itself(x: gc.Tensor, n: int = 2) -> gc.Tensor:
    y = x * 2 + n
    print(end="")
    if n:
        y = y + calls_itself(x, n - 1)
    return y.exp().sum() / 2


def test_a_function_that_calls_itself() -> None:
    compiled = gc.compile(calls_itself)
    for i in range(6):
        x = gc.randn(3) + i
        assert gc.equal(compiled(x), calls_itself(x))
    assert entries(compiled) == 2


def test_what_is_asked_to_stay_outside_is_a_cut() -> None:
    @gc.compiler.disable
    def logged(x: gc.Tensor) -> None:
        seen.append(x.tolist())

    def function(x: gc.Tensor) -> gc.Tensor:
        y = x.exp() * 2
        logged(y)
        z = y.log() + 1
        gc.compiler.graph_break()
        return z.sin() * 3

    seen: list[Any] = []
    compiled = gc.compile(function)
    for i in range(8):
        x = gc.full((2,), float(i))
        assert gc.equal(compiled(x), function(x))
    assert len(seen) == 16
    assert entries(compiled) == 3
    text = compiled.explain(gc.ones(2))
    assert text.startswith("cut: logged is not to be compiled")
    assert text.count("program, as it is recorded") == 3


def test_warnings_of_a_source_are_not_repeated() -> None:
    text = "def function(x):\n    y = x * 2\n    note(y.tolist() is 5)\n    return y * y\n"
    linecache.cache["<source with a warning>"] = len(text), None, text.splitlines(True), "<source with a warning>"
    noted: list[Any] = []
    scope: dict[str, Any] = {"note": _note(noted)}
    with pytest.warns(SyntaxWarning, match='"is" with'):
        exec(compile(text, "<source with a warning>", "exec", dont_inherit=True), scope)
    compiled = gc.compile(scope["function"])
    for _ in range(3):
        assert compiled(gc.ones(2)).tolist() == [4.0, 4.0]
    assert noted == [False] * 3
    assert len(compiled._parts) == 2


def test_an_error_is_raised_where_it_is() -> None:
    def function(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
        z = x * 2 + 1
        print(end="")
        w = z @ y
        return w.exp()

    compiled = gc.compile(function)
    for _ in range(6):
        compiled(gc.ones(2, 3), gc.ones(3, 2))
    with pytest.raises(RuntimeError) as caught:
        compiled(gc.ones(2, 3), gc.ones(2, 3))
    with pytest.raises(RuntimeError) as wanted:
        function(gc.ones(2, 3), gc.ones(2, 3))
    assert str(caught.value) == str(wanted.value)
    lines = {each.lineno + 1 for each in caught.traceback if str(each.path) == __file__}
    assert {each.lineno + 1 for each in wanted.traceback if each.name == "function"} <= lines


def call(function: Any, times: int = 4) -> None:
    for _ in range(times):
        function(gc.ones(1))


def test_functions_that_are_not_cut() -> None:
    def looks_at_locals(x: gc.Tensor) -> gc.Tensor:
        y = x * 2
        print(end=str(len(locals()))[:0])
        return y.exp()

    def resumes(x: gc.Tensor) -> Any:
        y = x * 2
        yield y.item()
        yield y.exp()

    for function in (looks_at_locals, lambda x: (x * 2, print(end=""))[0], lambda x: [*resumes(x)]):
        with pytest.warns(UserWarning, match="runs as it is"):
            call(gc.compile(function))
        with pytest.raises(RuntimeError):
            call(gc.compile(function, fullgraph=True))


def test_parts_without_arrays_are_left_alone() -> None:
    losses: list[float] = []

    def step(x: gc.Tensor, i: int) -> gc.Tensor:
        y = (x * 2).exp().sum()
        losses.append(y.item())
        if i % 5 == 0:
            print(end=f"{i}"[:0])
        if len(losses) > 3:
            losses.clear()
        return y

    compiled = gc.compile(step)
    for i in range(20):
        x = gc.full((2,), i / 10)
        assert gc.equal(compiled(x, i), (x * 2).exp().sum())
    assert entries(compiled) == 1


def test_with_fullgraph_nothing_is_cut() -> None:
    def function(x: gc.Tensor) -> gc.Tensor:
        y = x * 2
        print(end="")
        return y.exp()

    with pytest.raises(RuntimeError, match=r"print is called \(.*test_cutting.py"):
        call(gc.compile(function, fullgraph=True))


FACTOR = 2.0


def _source(cell: list[float]) -> Any:
    factor = cell[0]

    def function(self: Any, x: gc.Tensor, s: float = 2.0, *, k: float = 1.0) -> gc.Tensor:
        y = x * s * factor
        seen = float(y.sum())
        if y.sum() > 1e6:  # a decision, in a part
            y = y * 2
        return (y + s + k).exp() * FACTOR * (seen > -1e9)

    return function


def _other_source(factor: float) -> Any:
    def function(self: Any, x: gc.Tensor, s: float = 2.0, *, k: float = 1.0) -> gc.Tensor:
        y = x * s - factor
        float(y.sum())
        return (y - s + k).exp()

    return function


def _set_cell(function: Any) -> None:
    function.__closure__[0].cell_contents = 5.0


#: What may change of a function after it has been split.
CHANGES: dict[str, Callable[[Any], None]] = {
    "code": lambda f: setattr(f, "__code__", _other_source(1.0).__code__),
    "defaults": lambda f: setattr(f, "__defaults__", (3.0,)),
    "no defaults": lambda f: setattr(f, "__defaults__", None),
    "keyword defaults": lambda f: setattr(f, "__kwdefaults__", {"k": 3.0}),
    "a keyword default": lambda f: f.__kwdefaults__.update(k=4.0),
    "closure": _set_cell,
    "global": lambda f: f.__globals__.update(FACTOR=7.0),
}


class _Holder(gc.nn.Module):
    def forward(self, x: gc.Tensor) -> gc.Tensor:
        raise NotImplementedError


@pytest.mark.parametrize("kind", ["function", "method", "module"])
@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_a_function_that_has_been_split(change: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    source = _source([1.5])
    holder = _Holder()
    eager = types.MethodType(source, holder)
    monkeypatch.setattr(_Holder, "forward", source)
    whole = gc.compile(source)
    compiled = {
        "function": functools.partial(whole, holder),
        "method": gc.compile(eager),
        "module": gc.compile(holder),
    }[kind]
    for i in range(10):
        if i == 5:
            CHANGES[change](source)
        x = gc.full((2,), 0.1 * i)
        if change == "no defaults" and i >= 5:
            with pytest.raises(TypeError, match="missing 1 required positional argument"):
                compiled(x)
        else:
            assert compiled(x).tolist() == eager(x).tolist()
