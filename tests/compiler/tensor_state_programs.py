"""Random programs by kinds of tensor state: arguments, tensors and modules from outside, modes, and what changes them.

A program is a function of two tensors and a sequence of calls. It is executed twice, in eager mode and compiled, call
by call, and everything that a caller can see is compared: results, gradients, state, shared memory, errors.

``python -m tests.compiler.tensor_state_programs --count 5000`` draws programs and prints differences.
"""

# ruff: noqa: E501 (tables of sources, one statement to a line)

from __future__ import annotations

import collections
import contextlib
import linecache
import random
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import gradcore as gc
from gradcore.utils.checkpoint import checkpoint
from tests.compiler.state_programs import parse_options

__all__ = ["check", "draw"]

#: State that functions find outside of their arguments.
PRELUDE = """
class Factor:
  k = 2.0
  def __call__(self, y): return y * self.k
factor = Factor()
gc.manual_seed(0)
G = gc.tensor([.5, -.3, 1.2], requires_grad={requires_grad})
w = nn.Parameter(gc.tensor([[.1, .2, .3], [.4, .5, .6], [-.7, .8, .9]]))
m = nn.Linear(3, 3); bn = nn.BatchNorm1d(3)
L = [gc.tensor([1., 2., 3.]), gc.tensor([.5, .5, .5])]; H = gc.arange(8.)
B = gc.tensor(.5)
"""
#: Statements of functions of `x` and `q`, which compute `y`.
STATEMENTS = [
    "y = y * G", "y = m(y)", "y = y + L[0]", "y = y + L[1]", "y = y.sin()", "y = y[..., :2].sum() * y", "y = y + q", "y = y * q.detach()",
    "y = y if G.requires_grad else y * 2", "y = y * (1 + G.is_leaf)", "y = y * (1.0 if G.grad is None else G.grad.clone())",
    "y = y.view(-1).view(y.shape)", "y = y.detach() * y", "y = (y.t() + 1).t() if y.ndim == 2 else y", "y = y * (1 + x._version)",
    "y = y * (2 if x.is_contiguous() else 3)", "y = y * (2 if gc.is_grad_enabled() else 3)", "y = y * (2 if x.requires_grad else 3)",
    "y = y.clone().mul_(2)", "y = y * 1; y += G", "y.mul_(1.5)", "x.mul_(1.5)", "G.add_(1)", "q.mul_(1.5)", "q.add_(y.detach())", "x.add_(q)", "x.copy_(q)",
    "with gc.no_grad():\n    G.mul_(1.1)", "with gc.no_grad():\n    z = y * 2\n  y = y + z", "with gc.enable_grad():\n    z = y * 2\n  y = y + z",
    "y = y * G.data", "y = y * G.detach().cos()", "y = y * (2 if x is G else 3)", "y = y * (2 if x is q else 3)", "y = y * (2 if q is G else 3)", "y = y * len({x, q, G})",
    "y = y * (2 if x.dtype is gc.float32 else 3)", "y = y + y.new_zeros(y.shape)", "y = y + gc.ones(y.shape)", "y = y + gc.full((1,), 2.5)", "y = y + 1.5", "y = y * 2",
    "y = y * (2 if y.grad_fn is None else 3)", "y = y * (3 if y.is_leaf else 2)", "y = y * (3 if q.requires_grad else 2)",
    "h = y * 1; h.register_hook(lambda g: g * 2) if h.requires_grad else None; y = h",
    "z = gc.autograd.grad((y * y).sum(), y, create_graph=True)[0] if y.requires_grad else y\n  y = y + z",
    "z = checkpoint(lambda v: (v * G).tanh(), y, use_reentrant=False); y = y + z",
    "z = checkpoint(lambda v: F.dropout(m(v), 0.5, m.training), y, use_reentrant=False); y = y + z",
    "y = gc.where(y > 0, y, G)", "y = y.to(gc.float64)", "y = y.float()", "y = F.softmax(y, -1)", "y = F.layer_norm(y, y.shape[-1:])", "y = F.gelu(y)",
    "z, i = y.max(-1, keepdim=True); y = y + z", "y = y.cumsum(-1)", "y = gc.cat([y, y], -1)[..., :y.shape[-1]]", "y = y.expand(2, *y.shape)[0]", "y = y.flip(-1)",
    "B.add_(y.detach().mean()) if y.numel() else None", "y = y * B", "y = y + F.dropout(y, 0.5, m.training)", "y = y + gc.rand(y.shape)", "L[1] = y.detach()",
    "y[..., 0] = 0", "y = y.clone(); y[..., 0] = G[0]", "y = y.contiguous()", "y = y.abs().sqrt()", "y = gc.stack([y, G.expand(y.shape)]).sum(0)",
    "y = (y.unsqueeze(-1) * G).sum(-1)", "y = bn(y) if y.ndim == 2 else y", "a = y.chunk(3, -1); y = gc.cat(a[::-1], -1)", "y = y.masked_fill(y > 1, 0.5)",
    "y = y * w.sum()", "w.grad = None", "y = y * (1 if w.grad is None else w.grad.sum().item())", "q.grad = None", "x.data = q.data", "q = q.clone()", "x = x.clone()", "y, q = q, y",
    "y.sum().backward() if y.grad_fn is not None else None; y = y.detach()", "y = gc.func.grad(lambda v: (v * G.detach()).sin().sum())(y)", "y = gc.vmap(lambda r: r * 2)(y)",
    "with gc.autocast('cpu', dtype=gc.bfloat16):\n    z = y @ y.t() if y.ndim == 2 else y\n  y = y + z.float().mean()",
    "y = y.requires_grad_() if y.is_leaf and y.is_floating_point() else y", "y = y.data", "y = factor(y)", "y = y + q.as_strided((2,), (1,), 0).sum() if q.ndim == 1 else y",
    "y = y + q.untyped_storage().nbytes()", "try:\n    y = y / len(y)\n  finally:\n    B.add_(y.ndim)", "y = y @ q.t() if q.ndim == 2 and y.ndim == 2 else y",
]  # fmt: skip
RESULTS = [
    "y",
    "y",
    "y",
    "(y, x)",
    "(y, y * 2)",
    "(y.sum(), y)",
    "{'a': y}",
    "(y, G)",
    "(y, y.detach())",
    "y.sum()",
    "(y, y.view(-1))",
]
#: Tensors that are passed as `x`, and as `q`.
ARGUMENTS = [
    "gc.tensor([[.5, -1., 2.], [1., .3, -.2]])", "gc.tensor([[.5, -1., 2.], [1., .3, -.2]]).requires_grad_()", "gc.tensor([[.5, -1., 2.], [1., .3, -.2]], dtype=gc.float64)",
    "gc.tensor([[.5, -1., 2.], [1., .3, -.2]], dtype=gc.float64, requires_grad=True)", "gc.tensor([1., 2., -3.])", "gc.tensor([1., 2., -3.], requires_grad=True)",
    "gc.tensor([[1., 2.], [3., 4.], [5., 6.]]).t()", "gc.tensor([[1.], [2.]]).expand(2, 3)", "G", "G[None]", "G.detach()", "G.grad", "w", "w.t()", "L[0]", "L[1]", "B",
    "gc.ones(4, 3)", "gc.ones(4, 3, requires_grad=True)", "gc.ones(0, 3)", "gc.arange(6).view(2, 3)", "gc.tensor([[True, False, True]])", "gc.ones(2, 3, dtype=gc.bfloat16)",
    "gc.ones(2, 3, requires_grad=True) * 2", "nn.Parameter(gc.ones(2, 3))", "gc.tensor([[float('nan'), 1., -0.], [0., float('inf'), 1e-40]])", "gc.ones(2, 6)[:, ::2]",
    "gc.ones(3, 2).t().requires_grad_()", "gc.tensor(2.) * gc.ones(3)", "H[1:4]", "H[4:7]", "H[:3]",
]  # fmt: skip
SECOND = [
    "x",
    "x.detach()",
    "x.view(-1)[:3]",
    "x[0]",
    "x[:1]",
    "x.t()",
    "x.clone()",
    "x.data",
    "x * 1",
    "x.flip(-1)",
    *ARGUMENTS,
]
#: What happens between two calls.
CHANGES = [
    *["pass"] * 6, "G.requires_grad_(not G.requires_grad)", "G = gc.tensor([1., 2., 3.], requires_grad=True)", "G = gc.tensor([1., 2., 3.])", "G = w[0]", "G.data = G.data * 2",
    "G.data = G.data.double()", "G.data = G.data.float()", "G.grad = gc.ones_like(G)", "G.grad = None", "m.requires_grad_(False)", "m.requires_grad_(True)", "m.eval()", "m.train()",
    "m.weight = nn.Parameter(gc.eye(3))", "m.double()", "m.float()", "m.bias = None", "m.register_forward_hook(lambda s, i, o: o * 2)", "m._forward_hooks.clear()",
    "w.register_hook(lambda g: g * 3) if w.requires_grad else None", "w = nn.Parameter(gc.eye(3))", "w.data.mul_(.5)", "L[0] = gc.tensor([3., 2., 1.])", "L[0] = G", "L[1] = L[0]",
    "bn.eval()", "bn.momentum = .5", "bn.reset_running_stats()", "B.zero_()", "B = G.detach()", "B = gc.tensor(2.)", "w.requires_grad_(not w.requires_grad)", "w.grad = None",
    "factor = gc.sin", "factor = Factor()", "Factor.k = 3.0", "m.to(gc.float64)", "w.retain_grad() if w.requires_grad else None", "gc.set_default_dtype(gc.float64)",
    "gc.set_default_dtype(gc.float32)",
]  # fmt: skip
MODES = [
    *["nullcontext()"] * 8, "gc.no_grad()", "gc.inference_mode()", "gc.enable_grad()", "gc.autocast('cpu', dtype=gc.bfloat16)", "gc.autograd.detect_anomaly(check_nan=False)",
    "gc.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t * 1)", "gc.autograd.graph.save_on_cpu()",
]  # fmt: skip
CALLS = [
    *["f(x, q)"] * 9,
    "f(x, q=q)",
    "gc.func.grad(lambda v: f(v, q).sum())(x)",
    "gc.vmap(f)(x, q)",
    "gc.func.vjp(f, x, q)[0]",
]


class Call(NamedTuple):
    """A call of the function: what changes before, its arguments, its mode, and what follows."""

    change: str
    x: str
    q: str
    mode: str
    call: str
    backward: bool
    seed: int


class Program(NamedTuple):
    """The source of a module with a function `f`, the options of `compile`, and the calls."""

    source: str
    options: dict[str, Any]
    calls: list[Call]


def draw(seed: int) -> Program:
    """Draw a function, options and ten calls."""
    chance = random.Random(seed)
    body = "".join(f"  {chance.choice(STATEMENTS)}\n" for _ in range(chance.randint(1, 6)))
    source = PRELUDE.format(requires_grad=chance.random() < 0.5)
    source += f"def f(x, q):\n  y = x * 1\n{body}  return {chance.choice(RESULTS)}\n"
    options = chance.choice([{}, {}, {}, {"dynamic": True}, {"verify": 1}])
    usual = [(chance.choice(ARGUMENTS), chance.choice(SECOND)) for _ in range(2)]
    calls = []
    for i in range(10):
        x, q = chance.choice(usual) if chance.random() < 0.8 else (chance.choice(ARGUMENTS), chance.choice(SECOND))
        change, mode, call = map(chance.choice, (CHANGES, MODES, CALLS)) if i > 1 else ("pass", MODES[0], CALLS[0])
        calls.append(Call(change, x, q, mode, call, chance.random() < 0.6, chance.randint(0, 9)))
    return Program(source, options, calls)


def check(program: Program, cpp: Any = False) -> str:
    """Compare a program, compiled, with itself; return a description of the first difference, or an empty text."""
    default = gc.get_default_dtype()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _compare(program, cpp)
    finally:
        gc.set_default_dtype(default)


def _compare(program: Program, cpp: Any) -> str:
    eager, compiled = _load(program.source), _load(program.source)
    compiled["f"] = gc.compile(compiled["f"], options={"cpp": cpp}, **program.options)
    for number, call in enumerate(program.calls):
        before = gc.get_default_dtype()
        expected = _make(eager, call)
        after = gc.get_default_dtype()
        gc.set_default_dtype(before)
        found = _make(compiled, call)
        if gc.get_default_dtype() is not after or len(found) != len(expected):
            return f"call {number}, {call}: {found[:3]} instead of {expected[:3]}"
        allowed = 5e-2 if "bfloat16" in f"{program.source}{call}" else 2e-4
        for a, b in zip(expected, found, strict=True):
            if not _is_equal(a, b, allowed):
                return f"call {number}, {call}: {b} instead of {a}"
    return ""


def _load(source: str) -> dict[str, Any]:
    """Execute a module, and return its namespace."""
    namespace: dict[str, Any] = {
        "gc": gc, "nn": gc.nn, "F": gc.nn.functional, "checkpoint": checkpoint, "nullcontext": contextlib.nullcontext,
        "__name__": "tensor_state_program",
    }  # fmt: skip
    file = f"<tensor state program {id(namespace)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), namespace)
    return namespace


def _make(namespace: dict[str, Any], call: Call) -> list[Any]:
    """Make a call, and return everything that a caller can see afterwards."""
    seen: list[Any] = []
    results: list[Any] = []
    try:
        exec(call.change, namespace)
        namespace["x"] = eval(call.x, namespace)
        namespace["q"] = eval(call.q, namespace)
        gc.manual_seed(call.seed)
        with eval(call.mode, namespace):
            results = [*_leaves(eval(call.call, namespace))]
            seen += map(_describe, results)
            differentiable = [t for t in results if isinstance(t, gc.Tensor) and t.requires_grad]
            if call.backward and differentiable:
                sum((t.float() * t.float()).sum() for t in differentiable).backward()  # type: ignore[union-attr]
    except Exception as error:
        seen.append(type(error).__name__)  # Which of several errors comes first may differ.
    outside = [namespace.get(name) for name in ("x", "q", "G", "w", "B")]
    modules = [namespace["m"], namespace["bn"]]
    tensors = [*outside, *namespace["L"], *(t for each in modules for t in (*each.parameters(), *each.buffers()))]
    for t in tensors:
        seen.append(_describe(t))
        if isinstance(t, gc.Tensor) and t.is_leaf:
            seen.append(_describe(t.grad))
    arrays = [_array_of(t) for t in (*results, *tensors)]
    seen.append([np.may_share_memory(a, b) for a in arrays for b in arrays if a is not None and b is not None])
    return seen


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)
    else:
        yield value


def _array_of(t: Any) -> Any:
    """Return the elements of a tensor, or None if it has none of its own, as inside of a transform."""
    if not isinstance(t, gc.Tensor) or t.dtype is gc.bfloat16:
        return None
    try:
        return t.detach().numpy()
    except RuntimeError:
        return None


def _describe(t: Any) -> Any:
    """Return what can be compared of a result."""
    if not isinstance(t, gc.Tensor):
        return repr(t)
    kind = f"{t.dtype} {tuple(t.shape)} {t.requires_grad} {t.is_leaf}"
    array = _array_of(t.float() if t.dtype is gc.bfloat16 else t)
    return kind if array is None else (kind, array.astype("f8"))


def _is_equal(a: Any, b: Any, allowed: float) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return a[0] == b[0] and np.allclose(a[1], b[1], rtol=allowed, atol=allowed, equal_nan=True)
    return type(a) is type(b) and a == b


def main() -> None:
    """Draw programs and print the differences."""
    options = parse_options()
    outcomes = collections.Counter[str]()
    for seed in range(options.first, options.first + options.count):
        program = draw(seed)
        difference = check(program, "wait" if options.wait else False)
        outcomes["different" if difference else "equal"] += 1
        if difference:
            print(seed, program.source.rpartition("def f")[2], program.options, difference, sep="\n   ", flush=True)
    print(outcomes)


if __name__ == "__main__":
    main()
