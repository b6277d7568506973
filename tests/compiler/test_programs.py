"""Compiled programs: models, training, transformations, in-place writes, random numbers, errors, memory."""

from __future__ import annotations

import copy
import cProfile
import gc as collector
import pickle
import sys
import types
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradcore as gc
from gradcore import nn
from gradcore.compiler.capture.arrays import RecordedArray
from gradcore.compiler.capture.recorder import Recorder
from gradcore.compiler.function import CompiledFunction
from gradcore.compiler.targets.native.plans import are_apart

F = nn.functional


def leaves(value: Any) -> list[gc.Tensor]:
    return [t for each in value for t in leaves(each)] if isinstance(value, (tuple, list)) else [value]


def equal(a: Any, b: Any) -> bool:
    return all(x.dtype is y.dtype and gc.equal(x, y) for x, y in zip(leaves(a), leaves(b), strict=True))


def compiled_as(function: Any, make: Any, calls: int = 5, programs: int = 1) -> CompiledFunction:
    """Compile a function, and compare some calls with eager ones."""
    compiled = CompiledFunction(function, fullgraph=True)
    for seed in range(calls):
        args = make()
        gc.manual_seed(seed)
        found = compiled(*args)
        drawn = gc.get_rng_state()
        gc.manual_seed(seed)
        assert equal(found, function(*args))
        assert gc.equal(drawn, gc.get_rng_state())
    assert len(compiled._specializations) == programs
    return compiled


def rows() -> tuple[gc.Tensor, ...]:
    return (gc.randn(5, 4),)


def vector() -> tuple[gc.Tensor, ...]:
    return (gc.randn(6),)


def chain(x: gc.Tensor) -> gc.Tensor:
    for _ in range(20):
        x = x * 1.01 + 0.1
    return x


def loss_of(x: gc.Tensor) -> gc.Tensor:
    return (x**3).sin().sum()


PURE = {
    "chain": (chain, rows),
    "random": (lambda x: F.dropout(x, 0.3) + gc.randn(4) + gc.rand(5, 1), rows),
    "scalars": (lambda x: (x.sum() * 2, x.mean(), x.var()), rows),
    "in place": (lambda x: gc.zeros(5, 4).index_copy_(0, gc.tensor([1, 2]), x[1:3]).add_(1), rows),
    "grad": (lambda x: gc.func.grad(loss_of)(x), vector),
    "hessian": (lambda x: gc.func.hessian(loss_of)(x), vector),
    "jacrev": (lambda x: gc.func.jacrev(lambda x: x.tanh() * x)(x), vector),
    "transform": (gc.func.hessian(loss_of), vector),
    "transforms": (gc.vmap(gc.func.grad(loss_of)), rows),
    "decorated": (gc.no_grad()(chain), rows),
    "hvp": (lambda x: gc.func.jvp(gc.func.grad(loss_of), (x,), (x * 2,))[1], vector),
    "vmap": (lambda x: gc.vmap(lambda row: (row * row).sum() * row)(x), rows),
    "vmap of hessian": (lambda x: gc.vmap(gc.func.hessian(loss_of))(x), rows),
    "autograd.grad": (lambda x: gc.autograd.grad(loss_of(y := x.detach().requires_grad_()), y)[0], rows),
    "hessian of a product": (
        lambda x: gc.func.hessian(lambda w: ((x @ w).tanh().sum(1) ** 2).mean())(gc.ones(4, 3)),
        rows,
    ),
    "gradients of samples": (
        lambda x: gc.vmap(gc.func.grad(lambda w, row: (row @ w).tanh().sum()), (None, 0))(gc.ones(4, 3), x),
        rows,
    ),
    "double": (lambda x: gc.func.grad(lambda x: gc.func.grad(loss_of)(x).sum())(x), vector),
}


@pytest.mark.parametrize("name", PURE)
def test_functions_of_tensors(name: str) -> None:
    compiled_as(*PURE[name])


#: Writes to a copy of a vector. The tangent of the copy is written to, too.
WRITES: dict[str, Any] = {
    "all elements": lambda y, x: y.__setitem__(..., x * 2),
    "an element": lambda y, x: y.__setitem__(0, x[1] * 2),
    "a number": lambda y, x: y.__setitem__(0, 3.0),
    "at a mask": lambda y, x: y.__setitem__(gc.tensor([True, False] * 3), x[0]),
    "at indices": lambda y, x: y.__setitem__(gc.tensor([0, 1]), x[1:3]),
    "a copy": lambda y, x: y.copy_(x.exp()),
    "a copy to a view": lambda y, x: y[:2].copy_(x[0]),
    "a product with a view": lambda y, x: y[0].mul_(x[1]),
    "a sum": lambda y, x: y.add_(x),
    "zeros": lambda y, x: y[1:].zero_(),
    "index_copy_": lambda y, x: y.index_copy_(0, gc.tensor([0]), x[1:2]),
    "scatter_": lambda y, x: y.scatter_(0, gc.tensor([0]), x[1:2]),
}


@pytest.mark.parametrize("scale", ["constant", "argument"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_tangents_of_writes(write: Any, scale: str) -> None:
    def tangent_of(x: gc.Tensor) -> gc.Tensor:
        def function(x: gc.Tensor) -> gc.Tensor:
            y = x.clone()
            write(y, x)
            return y * 1

        return gc.func.jvp(function, (x,), (gc.ones_like(x) * 0.5 if scale == "constant" else x.cos(),))[1]

    compiled_as(tangent_of, vector)


MODELS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)), (5, 4)),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2)
        ),
        (5, 1, 8, 8),
    ),
    "transformer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (3, 5, 8)),
    "rnn": (lambda: First(nn.LSTM(4, 8)), (7, 3, 4)),
}


class First(nn.Module):
    """The first result of a module."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: gc.Tensor) -> gc.Tensor:
        return self.module(x)[0]


@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
@pytest.mark.parametrize("name", MODELS)
def test_training_is_that_of_eager_execution(name: str, inside: bool) -> None:
    """Losses, parameters and buffers, to the bit."""
    make, shape = MODELS[name]
    gc.manual_seed(0)
    model = make()
    outcomes = []
    for compiles in (False, True):
        own = copy.deepcopy(model)
        optimizer = gc.optim.Adam(own.parameters(), lr=1e-2)

        def forward(x: gc.Tensor, own: nn.Module = own) -> gc.Tensor:
            return own(x).square().mean()

        def forward_and_backward(x: gc.Tensor, own: nn.Module = own) -> gc.Tensor:
            loss = own(x).square().mean()
            loss.backward()
            return loss.detach()

        step: Any = forward_and_backward if inside else forward
        if compiles:
            step = CompiledFunction(step, fullgraph=True)
        gc.manual_seed(1)
        losses = []
        for _ in range(6):
            optimizer.zero_grad()
            loss = step(gc.randn(shape))
            if not inside:
                loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        outcomes.append([losses, [t.detach() for t in own.state_dict().values()]])
        if compiles:
            assert step._specializations
            assert step._left is None
    assert equal(*outcomes)


def test_a_compiled_module_shares_everything_with_the_module() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    compiled = gc.compile(model)
    assert isinstance(compiled, nn.Sequential)
    assert list(compiled.state_dict()) == list(model.state_dict())
    compiled.eval()
    assert not model.training
    x = gc.randn(4, 3)
    for _ in range(4):
        assert equal(compiled(x), model(x))
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert equal(other(x), model(x))
        assert other[0].weight is not model[0].weight
    model[0] = nn.Linear(3, 5)
    assert compiled(x).shape == (4, 5)


def test_gradients_reach_what_comes_before_and_after() -> None:
    w = gc.randn(4, requires_grad=True)
    compiled = CompiledFunction(lambda x: (x * w).tanh(), fullgraph=True)
    for _ in range(4):
        x = gc.randn(4, requires_grad=True)
        found = gc.autograd.grad((compiled(x.exp()) * 2).sum(), (x, w))
        expected = gc.autograd.grad(((x.exp() * w).tanh() * 2).sum(), (x, w))
        assert equal(found, expected)
    assert compiled._specializations


def test_derivatives_of_derivatives_are_those_of_the_function_as_it_is() -> None:
    compiled = CompiledFunction(lambda x: (x**3).sin(), fullgraph=True)
    x = gc.randn(4, requires_grad=True)
    for _ in range(4):
        (slope,) = gc.autograd.grad(compiled(x).sum(), x, create_graph=True)
        (expected,) = gc.autograd.grad((x**3).sin().sum(), x, create_graph=True)
        assert equal(slope, expected)
        assert equal(gc.autograd.grad(slope.sum(), x), gc.autograd.grad(expected.sum(), x))


def test_nodes_that_the_engine_runs_in_its_loop() -> None:
    """A single result: some inputs only, gradients in batches, graphs that are kept, hooks."""
    compiled = CompiledFunction(lambda x, y, z: ((x * y).sin() * z).sum(0), fullgraph=True)
    plain = compiled._function
    for _ in range(4):
        x, y = gc.randn(2, 3, requires_grad=True), gc.randn(3, requires_grad=True)
        z = gc.randn(2, 3)
        found, expected = compiled(x, y, z), plain(x, y, z)
        upstream = gc.randn(3)
        for inputs in ((x,), (y,), (y, x)):
            a = gc.autograd.grad(found, inputs, upstream, retain_graph=True)
            assert equal(a, gc.autograd.grad(expected, inputs, upstream, retain_graph=True))
        batch = gc.randn(4, 3)
        a = gc.autograd.grad(found, (x, y), batch, is_grads_batched=True, retain_graph=True)
        assert equal(a, gc.autograd.grad(expected, (x, y), batch, is_grads_batched=True, retain_graph=True))
        first = gc.autograd.grad(found, (x, y), upstream, retain_graph=True)
        kept = [t.clone() for t in first]
        upstream.mul_(2)
        assert equal(gc.autograd.grad(found, (x, y), upstream, retain_graph=True), [t * 2 for t in kept])
        assert equal(first, kept)
        found.backward(upstream)
        assert equal((x.grad, y.grad), [t * 2 for t in kept])
        with pytest.raises(RuntimeError, match="second time"):
            found.backward(upstream)
    assert found.grad_fn.name() == "CompiledFunctionBackward"
    assert compiled._specializations
    seen: list[gc.Tensor] = []
    out = compiled(x, y, z)
    out.register_hook(lambda g: seen.append(g) or g * 2)
    (a,) = gc.autograd.grad(out, y, upstream)
    assert equal(a, gc.autograd.grad(plain(x, y, z), y, upstream * 2)[0])
    assert equal(seen[0], upstream)


def test_a_result_whose_graph_the_function_frees_leads_to_leaves() -> None:
    """The edges to leaves are created when somebody looks at them, and backward raises the usual error."""

    def step(x: gc.Tensor) -> gc.Tensor:
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        return loss

    w, other = gc.ones(3, requires_grad=True), gc.ones(1, requires_grad=True)
    compiled = CompiledFunction(step, fullgraph=True, verify=0)  # eager execution would look at the edges
    scaled = CompiledFunction(lambda x: x * other, verify=0)
    for _ in range(2):
        scaled(compiled(gc.ones(3)))
    for _ in range(2):
        loss = compiled(gc.ones(3))
        scaled(loss)
        node = loss.grad_fn
        assert node.name() == type(node).__qualname__ == "CompiledFunctionBackward"
        assert w._autograd.accumulator() is None
        assert [(each.variable is w, number) for each, number in node.next_functions] == [(True, 0)]
        assert not hasattr(node, "another")
        with pytest.raises(RuntimeError, match="second time"):
            (loss * 2).backward()
        with pytest.raises(RuntimeError, match="second time"):
            gc.autograd.grad(loss, w)
    assert compiled._specializations


def test_results_without_a_gradient_take_no_part() -> None:
    """The gradient of the square root at zero is infinite, and zero times that no number."""
    compiled = CompiledFunction(lambda x, y: (x.sqrt(), (x * y).sum()), fullgraph=True)
    for _ in range(4):
        x, y = gc.zeros(3, requires_grad=True), gc.ones(3, requires_grad=True)
        compiled(x, y)[1].backward()
        assert equal(x.grad, gc.ones(3))
        y.grad = None
        compiled(x, y)[0].sum().backward()
        assert y.grad is None


def test_what_was_saved_is_checked_and_freed() -> None:
    compiled = CompiledFunction(lambda x: x * x, fullgraph=True)
    x = gc.ones(3, requires_grad=True)
    for _ in range(3):
        y = compiled(x)
    with gc.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = compiled(x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    exponential = CompiledFunction(lambda x: x.exp(), fullgraph=True)
    for _ in range(3):
        y = exponential(x)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_in_place_writes_to_arguments_are_counted() -> None:
    compiled = CompiledFunction(lambda x: x.mul_(2).sum(), fullgraph=True)
    for _ in range(4):
        x = gc.ones(3)
        saved = gc.ones(3, requires_grad=True) * x
        before = x._version
        assert compiled(x) == 6
        assert gc.equal(x, gc.full((3,), 2.0))
        assert x._version == before + 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            saved.sum().backward()
    assert compiled._specializations


def test_arguments_that_share_memory() -> None:
    compiled = CompiledFunction(lambda x, y: y + x.add_(1), fullgraph=True)
    for _ in range(3):
        assert gc.equal(compiled(gc.ones(3), gc.ones(3)), gc.full((3,), 3.0))
    both = gc.ones(4)
    assert gc.equal(compiled(both[:3], both[:3]), gc.full((3,), 4.0))
    assert gc.equal(compiled(both[:3], both[1:]), both[:3] + both[1:])


def test_errors_are_those_of_eager_execution() -> None:
    table = gc.randn(4, 2)
    compiled = CompiledFunction(lambda i: F.dropout(table[i], 0.5), fullgraph=True)
    for _ in range(3):
        compiled(gc.tensor([0, 3]))
    gc.manual_seed(0)
    before = gc.get_rng_state()
    with pytest.raises(IndexError, match=r"out of (range|bounds)"):
        compiled(gc.tensor([0, 4]))
    assert gc.equal(before, gc.get_rng_state())


UNRECORDABLE = {
    "item": lambda x: x * x.sum().item() ** 2,
    "float": lambda x: x * float(x.sum()),
    "numpy": lambda x: gc.from_numpy(x.numpy() * 2),
    "mask": lambda x: x[x > 0],
    "print": lambda x: (print(end=""), x * 2)[1],
    "numpy.random": lambda x: x * float(np.random.rand()),
    "view": lambda x: x[0],
}


@pytest.mark.parametrize("name", UNRECORDABLE)
def test_what_cannot_be_recorded_runs_as_it_is_with_one_warning(name: str) -> None:
    function = UNRECORDABLE[name]
    compiled = gc.compile(function)

    def call(compiled: Any) -> None:
        for _ in range(4):
            x = gc.randn(3)
            found = compiled(x)
            assert name == "numpy.random" or equal(found, function(x))

    with pytest.warns(UserWarning, match="runs as it is") as warned:
        call(compiled)
    assert len(warned) == 1
    assert not compiled._specializations
    with pytest.raises(RuntimeError, match=r"cannot record|runs as it is"):
        call(gc.compile(function, fullgraph=True))


def test_what_stops_a_recording_happens_once() -> None:
    x, total, calls = gc.ones(2), gc.zeros(2), []

    def step(x: gc.Tensor) -> float:
        total.add_(x)
        calls.append(1)
        return float(total.sum().item())

    compiled = gc.compile(step)
    found = [compiled(x) for _ in range(4)]
    assert found == [2.0, 4.0, 6.0, 8.0]
    assert len(calls) == 4
    assert not compiled._specializations
    assert type(total._array) is np.ndarray


def test_tensors_that_a_function_keeps_are_plain() -> None:
    kept: dict[str, gc.Tensor] = {}

    def step(x: gc.Tensor) -> gc.Tensor:
        kept["last"] = x * 2
        return kept["last"] + 1

    compiled = gc.compile(step)

    def call() -> None:
        for i in range(4):
            compiled(gc.full((2,), float(i)))
            assert gc.equal(kept["last"], gc.full((2,), 2.0 * i))
            assert type(kept["last"]._array) is type(gc.ones(2)._array)

    call()
    assert "keeps a tensor" in compiled.explain(x=gc.ones(2))


def test_tensors_in_a_reference_cycle_are_not_kept() -> None:
    def step(x: gc.Tensor) -> gc.Tensor:
        values: list[Any] = [x * 2]
        values.append(values)
        return (values[0] + 1).sum()

    compiled = CompiledFunction(step, fullgraph=True)
    for i in range(3):
        assert compiled(gc.full((2,), float(i))).item() == 4 * i + 2
    assert compiled.count_programs() == 1


def test_a_thousand_steps_keep_no_memory() -> None:
    model = nn.Linear(4, 4)
    compiled = CompiledFunction(lambda x: model(x).square().mean(), fullgraph=True)
    x = gc.randn(2, 4)
    for _ in range(5):
        compiled(x).backward()
    collector.collect()
    before = len(collector.get_objects())
    for _ in range(1000):
        compiled(x).backward()
    collector.collect()
    assert len(collector.get_objects()) - before < 50
    out = compiled(x)
    reference = weakref.ref(out)
    del out
    assert reference() is None


def test_the_first_calls_values_are_not_kept() -> None:
    compiled = CompiledFunction(lambda x: (x + 1).exp(), fullgraph=True)
    x = gc.ones(1000)
    compiled(x), compiled(x)
    reference = weakref.ref(x)
    del x
    collector.collect()
    assert reference() is None


def test_explain_shows_guards_and_calls() -> None:
    text = gc.compile(lambda x: (x * 2).sum()).explain(gc.ones(3))
    assert "shape [3]" in text
    assert "kernels.mul" in text
    assert "kernels.sum" in text
    assert "def program(" in text


UNARY = ("exp", "sin", "tanh", "sigmoid", "square", "abs", "relu", "neg", "cos")
BINARY = ("add", "mul", "sub", "maximum")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([*UNARY, *BINARY, "sum", "t", "cat", "add_", "slice"]), st.integers(0, 9)),
        max_size=12,
    )
)
def test_random_programs(steps: list[tuple[str, int]]) -> None:
    def run(x: gc.Tensor, w: gc.Tensor) -> Any:
        values = [x * 0.5, w.sigmoid()]
        for name, n in steps:
            a, b = values[n % len(values)], values[(n // 2) % len(values)]
            if name in UNARY:
                a = getattr(a, name)()
            elif name in BINARY:
                a = getattr(a, name)(b)
            elif name == "sum":
                a = a.sum(n % 2, keepdim=True).expand(3, 3)
            elif name == "t":
                a = a.t()
            elif name == "cat":
                a = gc.cat([a, b])[1:4]
            elif name == "add_":
                a = a.clone().add_(b)
            else:
                a = a.clone()
                a[n % 3] = b[0]
            values.append(a.clamp(-3, 3))
        return sum(values).mean()

    compiled = CompiledFunction(run, fullgraph=True)
    for _ in range(4):
        x, w = gc.randn(3, 3, requires_grad=True), gc.randn(3, 3, requires_grad=True)
        found, expected = compiled(x, w), run(x, w)
        assert equal(found.detach(), expected.detach())
        for a, b in zip(gc.autograd.grad(found, (x, w)), gc.autograd.grad(expected, (x, w)), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    assert compiled._specializations


@pytest.mark.filterwarnings("ignore:compile:UserWarning")
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_batches_of_values_that_are_saved(where):
    """What a node of `vmap` has saved holds arrays within arrays, which the recording leaves behind."""

    def f(x):
        y = gc.vmap(lambda v: v.sin() @ v)(x)
        return gc.autograd.grad(y.sum(), x)[0] if where == "inside" else y

    compiled = gc.compile(f)
    for seed in range(4):
        gc.manual_seed(seed)
        x = gc.randn(4, 3, requires_grad=True)
        found, wanted = compiled(x), f(x)
        if where == "outside":
            found, wanted = (gc.autograd.grad(y.sum(), x)[0] for y in (found, wanted))
        assert gc.equal(found, wanted)


def test_arrays_of_a_recording_are_arrays_to_numpy():
    """Whatever NumPy's functions are given of them after a recording, or beside it, is the array inside."""
    inside = np.arange(1.0, 5.0)
    kept = RecordedArray(inside, 0)
    for ufunc in (np.multiply, np.add, np.matmul, np.less, np.power, np.arctan2):
        np.testing.assert_array_equal(ufunc(kept, inside), ufunc(inside, inside))
        np.testing.assert_array_equal(ufunc(inside, kept), ufunc(inside, inside))
    np.testing.assert_array_equal(np.exp(kept), np.exp(inside))
    np.testing.assert_array_equal(np.add.reduce(kept), inside.sum())
    np.testing.assert_array_equal(np.concatenate([kept, inside]), np.tile(inside, 2))
    out = np.empty(4)
    assert np.sqrt(kept, out=out) is out
    inside *= kept
    np.testing.assert_array_equal(inside, np.arange(1.0, 5.0) ** 2)


def test_backward_before_and_while_a_function_is_recorded() -> None:
    """What the engine keeps of a device is not what another backend has put there."""
    gc.ones(3, requires_grad=True).sum().backward()
    compiled = CompiledFunction(lambda x: gc.func.grad(lambda t: (t * t).sum())(x), fullgraph=True)
    x = gc.arange(3.0)
    assert [compiled(x).tolist() for _ in range(4)] == [[0.0, 2.0, 4.0]] * 4
    y = gc.ones(3, requires_grad=True)
    y.sum().backward()
    assert y.grad is not None
    assert type(y.grad._array) is np.ndarray


@pytest.mark.parametrize("dtype", [gc.float32, gc.float64, gc.float16])
def test_numbers_are_computed_with_as_arrays_are(dtype: Any) -> None:
    """Chains of numbers without dims: inputs and constants become scalars of NumPy, bit for bit."""

    def function(x: gc.Tensor, w: gc.Tensor) -> Any:
        first = x
        for k in range(6):
            x = x * w + (0.1 + k) - first / 3
        return x, x / 0, (x * 0) / 0, -x * w, first < w

    compiled = CompiledFunction(function, fullgraph=True, cpp="0")
    for k in range(5):
        x, w = gc.tensor(0.3 * k - 1, dtype=dtype), gc.tensor(1.7 - k, dtype=dtype)
        for found, expected in zip(compiled(x, w), function(x, w), strict=True):
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            assert found.numpy().tobytes() == expected.numpy().tobytes()


def test_a_number_that_is_written_to_is_read_anew() -> None:
    def function(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
        z = y * 2 + y
        x.mul_(3)
        return z * y * y

    compiled = CompiledFunction(function, fullgraph=True, cpp="0")
    for k in range(5):
        x = gc.tensor(1.0 + k)
        assert compiled(x, x).item() == 9 * (1.0 + k) ** 3 * 3
        assert x.item() == 3 * (1.0 + k)


class Refusing(gc.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: gc.Tensor) -> gc.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: gc.Tensor) -> gc.Tensor:
        raise ValueError("no gradient")


def test_errors_of_gradients_come_when_these_are_asked_for() -> None:
    compiled = gc.compile(lambda x: Refusing.apply(x) + 1)
    x = gc.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            out = compiled(x)
            assert out.tolist() == [3.0, 3.0]
            with pytest.raises(ValueError, match="no gradient"):
                out.sum().backward()


@pytest.mark.parametrize("last", [lambda y: y.sigmoid_(), lambda y: y.add_(1)])
def test_results_that_were_written_in_place_have_their_versions(last: Any) -> None:
    compiled = gc.compile(lambda x: (last((x * 2).add_(1)), x * 3))
    for _ in range(4):
        x = gc.ones(2, requires_grad=True)
        out, other = compiled(x)
        assert (out._version, other._version) == (2, 0)
        (out.sum() + other.sum()).backward()
        assert x.grad is not None


def test_an_interrupt_leaves_plain_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    w = gc.ones(2, requires_grad=True)
    for when in range(2):
        compiled = CompiledFunction(lambda x: x * w)
        compiled(gc.ones(2))
        plain, calls = Recorder.add_input, iter(range(9))

        def interrupted(self: Any, array: Any, plain: Any = plain, calls: Any = calls, when: int = when) -> Any:
            if next(calls) == when:
                raise KeyboardInterrupt
            return plain(self, array)

        with monkeypatch.context() as patch:
            patch.setattr(Recorder, "add_input", interrupted)
            with pytest.raises(KeyboardInterrupt):
                compiled(gc.ones(2))
        assert type(w._array).__name__ == "ndarray"
        assert compiled(gc.ones(2)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dynamic", [False, True])
def test_functions_are_compiled_under_cprofile(dynamic: bool) -> None:
    """Capture a function while `cProfile` is on, which goes on seeing calls."""
    compiled = gc.compile(lambda x: (x * 2).sum() + 1, options={"cpp": False}, dynamic=dynamic)
    profile = cProfile.Profile()
    with profile:
        for n in (2, 2, 2, 3, 3, 4):
            assert compiled(gc.ones(n)).item() == 2 * n + 1
        len_of_calls = [compiled(gc.ones(2)) for _ in range(3)]
    assert len(len_of_calls) == 3
    assert compiled._specializations
    seen = {entry.code.co_name for entry in profile.getstats() if not isinstance(entry.code, str)}
    assert {"__call__", "_next"} <= seen


@gc.compile
def doubled(x: Any) -> Any:
    return x * 2


class Methods(nn.Module):
    """A module with compiled functions: a method, a layer and a function that another module may define."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.body = gc.compile(self.compute, options={"cpp": False})
        self.twice, self.compiled_layer = doubled, gc.compile(self.layer, options={"cpp": False})

    def compute(self, x: Any) -> Any:
        return self.layer(x) * 2

    def forward(self, x: Any) -> Any:
        return self.twice(self.body(x)) + self.compiled_layer(x)


@pytest.mark.parametrize("copies", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_models_with_compiled_functions_are_copied(copies: Any) -> None:
    model, x = Methods(), gc.randn(2, 3)
    for _ in range(3):
        expected = model(x)
    other = copies(model)
    assert [*other.state_dict()] == [*model.state_dict()]
    with gc.no_grad():
        other.layer.weight.mul_(3)
        other.layer.bias.mul_(3)
    for _ in range(3):
        assert gc.allclose(other(x), 3 * expected)
    assert gc.equal(model(x), expected)
    assert other.body is not model.body
    assert other.body._specializations
    assert other.twice is doubled


def test_copies_of_compiled_functions_have_programs_of_their_own() -> None:
    compiled = gc.compile(lambda x: x * 2, options={"cpp": False}, dynamic=True)
    for _ in range(3):
        compiled(gc.ones(2))
    for other in (copy.copy(compiled), copy.deepcopy(compiled)):
        assert other is not compiled
        assert other.settings == compiled.settings
        assert not other._specializations
        assert other(gc.ones(2)).tolist() == [2, 2]


def test_functions_are_captured_while_another_thread_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules have no contents yet where another thread is importing them."""
    for name in ("gradcore.backends.cupy.backend", "ml_dtypes"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    compiled = gc.compile(lambda x: (x.long() * 2).float(), options={"cpp": False})
    for _ in range(3):
        assert compiled(gc.ones(2000)).sum() == 4000
    assert compiled._specializations


@pytest.mark.parametrize("dtype", [gc.float32, gc.complex64])
def test_only_complex_arrays_are_conjugated(dtype: gc.dtype) -> None:
    weight = gc.ones(3, 3, dtype=dtype, requires_grad=True)
    compiled = CompiledFunction(lambda x: nn.functional.linear(x, weight).abs().sum())
    for _ in range(3):
        compiled(gc.randn(2, 3, dtype=dtype)).backward()
    names = {call.name for program in compiled._specializations[0].programs for call in program.calls}
    assert ("backend.conj" in names) is dtype.is_complex


def test_addresses_of_inputs_and_views_are_those_of_memory() -> None:
    rows = gc.randn(4, 3)

    def function(x: gc.Tensor) -> gc.Tensor:
        y = x * 2
        return (y[1:] + y[:-1]).exp() + rows[2] + rows[3]

    compiled = CompiledFunction(function)
    x = gc.randn(4, 3, requires_grad=True)
    for _ in range(3):
        compiled(x).sum().backward()
    forward, backward = compiled._specializations[0].programs
    types, views = forward.types, [call for call in forward.calls if call.name == "operator.getitem"]
    starts = [types[n].address - types[types[n].memory].address for call in views for n in call.outputs]
    assert starts == [12, 0, 24, 36]
    assert len(forward.inputs) == 2
    assert all(types[n].address for n in forward.inputs)
    assert are_apart(forward)
    assert are_apart(backward)
