"""Backward from some of the results of a compiled function: gradients as in eager execution, at once, and no leaks."""

from __future__ import annotations

import gc as collector
import itertools
import random
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import gradcore as gc
from gradcore.compiler.autograd import node as node_module

pytestmark = pytest.mark.filterwarnings("error")


class Model(gc.nn.Module):
    """Layers that results share, or have for themselves, and values that change between forward and backward."""

    def __init__(self, seed: int, results: int) -> None:
        super().__init__()
        gc.manual_seed(seed)
        self.first = gc.nn.Linear(4, 3)
        self.last = gc.nn.ModuleList([gc.nn.Linear(3, 2) for _ in range(results)])
        self.norm, self.drop = gc.nn.BatchNorm1d(3), gc.nn.Dropout(0.3)
        self.scale = {"s": 2.0}
        chance = random.Random(seed)
        #: For each result: whether it goes through the shared layers, is reduced, or is computed from the one before.
        self.kinds = [(chance.random() < 0.8, chance.random() < 0.5, chance.random() < 0.4) for _ in range(results)]
        self.normalized = chance.random() < 0.3

    def forward(self, x: gc.Tensor) -> Any:
        h = self.drop(self.first(x).tanh()) * self.scale["s"]
        if self.normalized:
            h = self.norm(h)
        outs: list[gc.Tensor] = []
        for (shared, reduced, chained), layer in zip(self.kinds, self.last, strict=True):
            out = layer(h if shared else x[:, :3])
            if chained and outs:
                out = out * outs[-1].sum()
            outs.append(out.square().mean() if reduced else out)
        return tuple(outs)


def gradients(run: Any, model: Model, steps: list[tuple[tuple[int, ...], str]]) -> list[Any]:
    """Return the gradients after backward from some results of each call, with a change in between."""
    found = []
    gc.manual_seed(1)
    for chosen, change in steps:
        model.zero_grad()
        model.train()
        x = gc.randn(5, 4)
        outs = run(x)
        if change == "eval":
            model.eval()
        elif change == "number":
            model.scale["s"] = 3.0 - model.scale["s"]
        elif change == "batch":
            x = gc.zeros(5, 4)
        gc.autograd.backward([outs[i] for i in chosen], [gc.ones_like(outs[i]) for i in chosen])
        found.append([None if p.grad is None else p.grad.tolist() for p in model.parameters()])
    return found


@pytest.mark.parametrize("seed", range(24))
def test_gradients_of_some_results_are_those_of_eager_execution(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    results = 2 + seed % 3
    subsets = [s for n in range(1, results + 1) for s in itertools.combinations(range(results), n)]
    steps = [*itertools.product(subsets, ("", "eval", "number", "batch"))]
    random.Random(seed).shuffle(steps)
    steps = [((0,), "")] * 4 + steps[:12]
    wanted = gradients(eager := Model(seed, results), eager, steps)
    model = Model(seed, results)
    compiled = gc.compile(model, options={"cpp": False})
    monkeypatch.setattr(node_module, "_again", None)  # which calls the function once more
    for one, other in zip(gradients(compiled, model, steps), wanted, strict=True):
        assert [g is None for g in one] == [g is None for g in other]
        for a, b in zip(one, other, strict=True):
            assert a is None or gc.allclose(gc.tensor(a), gc.tensor(b), rtol=1e-5, atol=1e-7)
    assert compiled._compiled_call_impl._specializations


def test_arguments_of_parts_that_the_function_writes_to() -> None:
    def function(a: gc.Tensor, b: gc.Tensor) -> gc.Tensor:
        w = gc.atan2(a / 3, b)
        c = gc.copysign(b[0], a)
        a[:] = c
        u = w.positive()
        print(end="")
        return c.clone() + 0 * u.detach()

    compiled, b = gc.compile(function), gc.tensor([[2.0, 3.0], [4.0, 5.0]], requires_grad=True)
    for i in range(8):
        found = []
        for run in (function, compiled):
            b.grad = None
            a = gc.full((2,), i - 3.5)
            run(a, b).sum().backward()
            found.append((a.tolist(), b.grad.tolist()))
        assert found[0] == found[1]


@pytest.mark.parametrize("results", [1, 2, 3])
@pytest.mark.parametrize("how", ["backward", "grad", "twice"])
def test_a_result_that_is_kept_keeps_nothing_alive_after_backward(results: int, how: str) -> None:
    w = gc.ones(3, requires_grad=True)
    # Objects that a function compares by `is` are guarded together.
    compiled = gc.compile(
        lambda x, y: tuple((x * w).exp().sum() * (i + y[0].sum()) for i in range(results) if x is not y)
    )
    kept, inputs = [], []
    for i in range(8):
        x, y = gc.randn(3), [gc.randn(2)]
        outs = compiled(x, y)
        loss = sum(outs)
        assert isinstance(loss, gc.Tensor)
        if how == "twice":
            loss.backward(retain_graph=True)
        if how == "grad":
            gc.autograd.grad(loss, w)
        else:
            loss.backward()
        kept.append((loss, outs))
        inputs += [weakref.ref(x), weakref.ref(y[0])]
        del x, y, outs, loss
        if i < 4:  # what a recording leaves behind are cycles
            collector.collect()
        assert not any(reference() is not None for reference in inputs)
    with pytest.raises(RuntimeError, match="second time"):
        kept[-1][0].backward()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cpp", [False, "wait"])
@pytest.mark.usefixtures("quick_builds")
def test_a_loss_that_is_returned_with_others_has_a_backward_of_its_own(
    cpp: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients are those of eager execution to the bit, without zeros for the others; nothing is called again."""
    gc.manual_seed(0)
    net, y, calls = gc.nn.Sequential(gc.nn.Linear(3, 4), gc.nn.Tanh(), gc.nn.Linear(4, 2)), gc.randn(5, 2), list[str]()
    compute = node_module.CompiledFunctionBackward.compute_gradients

    def compute_gradients(*args: Any) -> Any:
        gradients = compute(*args)
        calls.append("general" if gradients is None else "alone")
        return gradients

    monkeypatch.setattr(node_module, "_again", lambda *args: calls.append("again"))
    monkeypatch.setattr(node_module.CompiledFunctionBackward, "compute_gradients", compute_gradients)

    def both(x: gc.Tensor) -> tuple[gc.Tensor, gc.Tensor]:
        out = net(x)
        return out, (out / (out - out.detach() + 1) - y).square().mean()

    compiled = gc.compile(both, options={"cpp": cpp}, verify=0)
    for i in range(6):
        x = gc.randn(5, 3)
        found = gc.autograd.grad(compiled(x)[1], [*net.parameters()], retain_graph=bool(i % 2))
        expected = gc.autograd.grad(both(x)[1], [*net.parameters()])
        for one, other in zip(found, expected, strict=True):
            assert gc.equal(one, other) if not cpp else gc.allclose(one, other, atol=1e-6)
    assert compiled._specializations
    assert len(calls) >= 3
    assert {*calls} == {"general" if x.is_cuda else "alone"}  # On CUDA, results have no programs of their own.
    out, loss = compiled(x)
    loss.backward(retain_graph=True)
    parameters: list[Any] = [*net.parameters()]
    first = [p.grad.clone() for p in parameters]
    (out.sum() + loss).backward()  # both at once: the other program
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()
    for p, grad in zip(parameters, first, strict=True):
        (own,) = gc.autograd.grad(both(x)[0].sum() + both(x)[1], [p])
        assert gc.allclose(p.grad, grad + own, atol=1e-5)
    assert len({id(p.grad._array) for p in parameters}) == len(parameters)


def test_infinite_derivatives_of_other_results_do_not_matter() -> None:
    w = gc.zeros(2, requires_grad=True)
    compiled = gc.compile(lambda x: (w.sqrt() * x, (w * x).sum()))
    for _ in range(4):
        (found,) = gc.autograd.grad(compiled(gc.ones(2))[1], w)
        assert found.tolist() == [1.0, 1.0]


def _set_other_layout(p: gc.Tensor) -> None:
    p.data = p.data.t().contiguous().t() if p.ndim > 1 else p.data


_BETWEEN: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda p: None,
    "a gradient": lambda p: setattr(p, "grad", gc.ones_like(p)),
    "a hook": lambda p: p.register_hook(lambda g: g * 2),
    "a hook after accumulation": lambda p: p.register_post_accumulate_grad_hook(
        lambda p: setattr(p, "grad", p.grad * 3)
    ),
    "a hook of the node": lambda p: p.expand_as(p).grad_fn.next_functions[0][0].register_prehook(lambda g: (g[0] + 1,)),
    "no gradient wanted": lambda p: p.requires_grad_(False),
    "another layout": _set_other_layout,
    "another dtype of gradients": lambda p: setattr(p, "grad_dtype", gc.float64),
}


@pytest.mark.parametrize("which", [0, 3])
@pytest.mark.parametrize("between", [*_BETWEEN])
def test_leaves_that_change_between_forward_and_backward_get_the_eager_gradients(between: str, which: int) -> None:
    def train(call: Callable[..., Any], net: Any, start: Callable[[Any], Any]) -> list[Any]:
        grads: list[Any] = []
        for i in range(5):
            parameters: list[Any] = [*net.parameters()]
            for p in parameters:
                p.grad = None
            results = call(gc.arange(15.0).reshape(5, 3) / 7 + i, net)
            loss = start((results, parameters))
            if i == 4:
                _BETWEEN[between](parameters[which])
            loss.backward()
            grads += [None if p.grad is None else (p.grad.clone(), p.grad.stride(), p.grad.dtype) for p in parameters]
        return grads

    starts: list[Callable[[Any], Any]] = [
        lambda each: each[0][1],
        lambda each: each[0][0].sum() + each[0][1],
        lambda each: each[0][1] + (each[1][0] * each[1][0]).sum() + each[1][which].sum(),
    ]

    def both(x: gc.Tensor, net: Any) -> tuple[gc.Tensor, gc.Tensor]:
        out = net(x)
        return out, out.square().mean()

    for start in starts:
        gc.manual_seed(0)
        nets = [gc.nn.Sequential(gc.nn.Linear(3, 4), gc.nn.Tanh(), gc.nn.Linear(4, 2)) for _ in range(2)]
        nets[1].load_state_dict(nets[0].state_dict())
        compiled = gc.compile(both, options={"cpp": False})
        found, expected = train(compiled, nets[0], start), train(both, nets[1], start)
        assert compiled._specializations
        for one, other in zip(found, expected, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert gc.equal(one[0], other[0])
                assert one[1:] == other[1:]


def test_a_capture_leaves_no_gradient_in_a_tensor_that_retains_it() -> None:
    def function(x: gc.Tensor) -> tuple[gc.Tensor, gc.Tensor]:
        y = x * 2
        y.retain_grad()
        return y, (y * y).sum()

    compiled = gc.compile(function)
    for _ in range(6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it runs as it is
            y, z = compiled(gc.ones(2, requires_grad=True))
        assert y.grad is None
        z.backward()
        assert gc.equal(y.grad, gc.full((2,), 4.0))


def backward_runs(run: Any, model: Model, seed: int) -> list[Any]:
    """Return gradients or errors of backward from one result after another, which may be written to in between."""
    found: list[Any] = []
    chance = random.Random(seed)
    gc.manual_seed(1)
    for _ in range(8):
        model.zero_grad()
        outs = run(gc.randn(5, 4))
        for _ in range(5):
            i, retain, write = chance.randrange(len(outs)), chance.random() < 0.3, chance.random() < 0.1
            try:
                if write:
                    with gc.no_grad():
                        outs[i].add_(1)
                else:
                    outs[i].sum().backward(retain_graph=retain)
            except RuntimeError as error:
                found.append(str(error).partition(":")[0].partition("(")[0])
                model.zero_grad()  # Eager execution may have computed some gradients before the error.
            found.append([None if p.grad is None else p.grad.tolist() for p in model.parameters()])
    return found


@pytest.mark.parametrize("seed", range(24))
def test_a_backward_frees_only_what_it_reaches(seed: int) -> None:
    """Other results keep their graph, as in eager execution, unless they share a part of it.

    Up to four results have backward programs of their own, but not with symbolic sizes.
    """
    results = 2 + seed % 5
    wanted = backward_runs(eager := Model(seed, results), eager, seed)
    model = Model(seed, results)
    compiled = gc.compile(model, options={"cpp": False}, dynamic=seed % 4 == 3)
    assert backward_runs(compiled, model, seed) == wanted
    assert compiled._compiled_call_impl._specializations


def _features_and_loss(x: Any, w: Any) -> tuple[Any, Any]:
    features = (w * x).exp()
    return features, (features * w).sum()


def _observe(how: str, features: Any) -> Any:
    if how == "hook":
        return features.register_hook(lambda grad: grad * 3)
    return features.retain_grad() if how == "retain_grad" else None


@pytest.mark.parametrize("how", ["hook", "retain_grad", "grad"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_by_a_result_that_another_one_is_computed_from_are_refused(how: str, create_graph: bool) -> None:
    """The part that flows from one result to the other is inside of the program."""
    compiled = gc.compile(_features_and_loss)
    x, w = gc.tensor([0.7, 1.1]), gc.tensor([0.3, 0.5], requires_grad=True)
    for _ in range(4):
        features, loss = compiled(x, w)
    _observe(how, features)
    with pytest.raises(RuntimeError, match="is computed from it inside"):
        gc.autograd.grad(loss, features if how == "grad" else w, create_graph=create_graph)
    # Backward from this result alone is as in eager execution.
    found = []
    for function in (compiled, _features_and_loss):
        features, _ = function(x, w)
        _observe(how, features)
        found.append([t.tolist() for t in gc.autograd.grad(features.sum(), [features, w] if how == "grad" else [w])])
    assert found[0] == found[1]


def _second_derivatives(function: Any, observe: str, w: gc.Tensor, x: gc.Tensor) -> list[Any]:
    result = function(w, x)
    handle = result.register_hook(lambda grad: grad.clamp(max=1.2)) if "hook" in observe else None
    (first,) = gc.autograd.grad(result.sum(), w, create_graph=True)
    if observe == "removed hook":
        assert handle is not None
        handle.remove()
    elif observe == "late hook":
        result.register_hook(lambda grad: grad * 3)
    elif observe == "retain_grad":
        result.retain_grad()
    sources = [w, result] if observe == "grad" else [w]
    penalty = first.square().sum() + result.sum()
    found = list(gc.autograd.grad(penalty, sources, create_graph=True))
    retained = [result.grad] if observe == "retain_grad" else []
    return [*found, *retained, *gc.autograd.grad(found[0].sin().sum(), sources)]


@pytest.mark.parametrize("observe", ["hook", "removed hook", "late hook", "retain_grad", "grad"])
def test_results_are_observed_in_second_derivatives(observe: str) -> None:
    """The derivative of the exponential is its result, so what flows back through it is added to its gradient."""
    w = gc.tensor([0.3, 0.5], dtype=gc.float64, requires_grad=True)
    x = gc.tensor([0.7, 1.1], dtype=gc.float64)
    compiled = gc.compile(lambda w, x: (w * x).exp())
    for _ in range(4):
        found, expected = (
            [t.tolist() for t in _second_derivatives(function, observe, w, x)]
            for function in (compiled, lambda w, x: (w * x).exp())
        )
        assert found == [pytest.approx(t) for t in expected]
    assert compiled._specializations


def test_hooks_of_results_run_in_third_derivatives() -> None:
    """Derivatives of singular values compute with all factors, so they go through the node of the result again."""

    def third_derivative(function: Any) -> list[float]:
        w = gc.tensor([[2.0, 0.5], [0.3, 1.0]], dtype=gc.float64, requires_grad=True)
        result = function(w)
        result.register_hook(lambda grad: grad * 3)
        derivative = result.sin().sum()
        for _ in range(3):
            (gradient,) = gc.autograd.grad(derivative, w, create_graph=True)
            derivative = gradient.square().sum()
        return gradient.flatten().tolist()  # type: ignore[no-any-return]

    compiled = gc.compile(lambda w: gc.linalg.svd(w * w)[1])
    for _ in range(4):
        assert third_derivative(compiled) == pytest.approx(third_derivative(lambda w: gc.linalg.svd(w * w)[1]))
    assert compiled._specializations


def test_results_that_others_only_share_a_node_with_can_be_observed() -> None:
    """Read the gradient of one part of a split tensor while backward comes from a loss of the other part."""

    def split(w: gc.Tensor) -> tuple[gc.Tensor, gc.Tensor]:
        first, second = w.exp().split([1, 2])
        return first, second.square().sum()

    compiled = gc.compile(split)
    w = gc.tensor([0.3, 0.5, 0.7], requires_grad=True)
    for _ in range(4):
        part, loss = compiled(w)
        part.retain_grad()
        loss.backward()
        assert part.grad is None
    assert compiled._specializations
