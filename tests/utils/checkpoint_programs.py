"""Programs with checkpoints: what they compute, in which order, and their errors. Each takes the library."""

from __future__ import annotations

import contextlib
import functools
import re

import numpy as np


class Counted:
    """A function that notes when it is called."""

    def __init__(self, function, seen, name):
        self.function, self.seen, self.name = function, seen, name

    def __call__(self, *args, **kwargs):
        self.seen.append(self.name)
        result = self.function(*args, **kwargs)
        self.seen.append(f"{self.name} done")
        return result


def leaf(T, *values):
    return T.tensor(values, requires_grad=True)


def point(T, function, *args, **kwargs):
    return T.utils.checkpoint.checkpoint(function, *args, **{"use_reentrant": False, **kwargs})


def plain(T, **settings):
    seen, x = [], leaf(T, 0.1, 0.2)
    f = Counted(lambda x: (x * x).exp().tanh(), seen, "f")
    point(T, f, x, **settings).sum().backward()
    return seen, x.grad


def nested(T, depth, stop=True):
    seen, x = [], leaf(T, 0.3, 0.2)

    def level(n):
        def run(x):
            y = x.exp() if n == depth else point(T, Counted(level(n + 1), seen, str(n + 1)), x.sin(), early_stop=stop)
            seen.append(f"middle {n}")
            return (y * x).tanh()

        return run

    point(T, Counted(level(0), seen, "0"), x, early_stop=stop).sum().backward()
    return seen, x.grad


def two_inside(T, stop):
    seen, x = [], leaf(T, 0.3, 0.2)

    def outer(x):
        y = point(T, Counted(lambda x: (x * x).exp(), seen, "first"), x)
        return point(T, Counted(lambda y: (y * y).sin(), seen, "second"), y) * x

    with T.utils.checkpoint.set_checkpoint_early_stop(stop):
        point(T, Counted(outer, seen, "outer"), x).sum().backward()
    return seen, x.grad


def mixed_stops(T):
    seen, x = [], leaf(T, 0.3, 0.2)

    def outer(x):
        y = point(T, Counted(lambda x: ((x * x).exp() * x).sin(), seen, "inner"), x, early_stop=False)
        return y.exp()

    point(T, Counted(outer, seen, "outer"), x, early_stop=True).sum().backward()
    return seen, x.grad


def twice(T):
    seen, x = [], leaf(T, 0.1)
    y = point(T, Counted(lambda x: x.exp().sin(), seen, "f"), x)
    y.backward(retain_graph=True)
    y.backward()
    try:
        y.backward()
    except RuntimeError as error:
        seen.append(str(error).partition(" (")[0])
    return seen, x.grad


def double(T):
    x = leaf(T, 0.1, 0.2)
    (g,) = T.autograd.grad(point(T, lambda x: x.exp().sin().sum(), x), x, create_graph=True)
    return g, T.autograd.grad(g.sum(), x)


def in_chunks(T):
    seen, x = [], leaf(T, 0.1, 0.2)
    f = Counted(lambda x: (x.exp(), x.sin().cos()), seen, "f")
    a, b = point(T, f, x)
    a.sum().backward()
    b.sum().backward()
    return seen, x.grad


def containers(T):
    x, y = leaf(T, 0.1), leaf(T, 0.2)
    out = point(T, lambda d, k, n=1: {"a": (d["x"] * k[0]).exp() * n}, {"x": x}, [y], n=3)
    out["a"].sum().backward()
    return x.grad, y.grad


def no_inputs(T):
    w = leaf(T, 0.1, 0.2)
    point(T, lambda: (w * w).exp().sum()).backward()
    return w.grad


def changing(T, first, second, **settings):
    calls, x = [], leaf(T, 0.1, 0.2)

    def f(x):
        calls.append(1)
        return (second if len(calls) > 1 else first)(x)

    point(T, f, x, **settings).sum().backward()


def one_more(T, **settings):
    return changing(T, lambda x: x.exp(), lambda x: x.exp().sin(), **settings)


def one_less(T, **settings):
    return changing(T, lambda x: x.exp().sin(), lambda x: x.exp(), **settings)


def another_shape(T, **settings):
    return changing(T, lambda x: x.exp().sin().sum(), lambda x: x[:1].exp().sin().sum(), **settings)


def another_dtype(T, **settings):
    return changing(T, lambda x: x.exp().sum(), lambda x: x.double().exp().sum(), **settings)


def around(T, seen, name):
    @contextlib.contextmanager
    def context():
        seen.append(f"{name} in")
        yield
        seen.append(f"{name} out")

    return context()


def contexts(T, grad=True):
    seen, x = [], leaf(T, 0.1)
    with T.set_grad_enabled(grad):
        y = point(T, lambda x: x.exp(), x, context_fn=lambda: (around(T, seen, "first"), around(T, seen, "second")))
    if grad:
        y.backward()
    return seen, y.requires_grad


def suppressing(T):
    def fail(x):
        raise ValueError("inside")

    point(T, fail, leaf(T, 0.1), context_fn=lambda: (contextlib.suppress(ValueError), contextlib.nullcontext()))


def failing(T):
    def fail(x):
        raise ValueError("inside")

    point(T, fail, leaf(T, 0.1))


def written(T):
    x = leaf(T, 0.1) * 1
    y = point(T, lambda x: x.exp().sin(), x)
    x.mul_(2)
    y.sum().backward()


def dropout(T, reentrant):
    T.manual_seed(0)
    x = T.ones(50, requires_grad=True)
    y = point(T, lambda x: T.nn.functional.dropout(x * x, 0.5), x, use_reentrant=reentrant)
    y.sum().backward()
    return bool((x.grad == 2 * y.detach()).all())


def casting(T):
    seen, x, w = [], T.ones(2, 2, requires_grad=True), T.ones(2, 2)

    def f(x):
        y = x @ w
        seen.append(str(y.dtype))
        return (y * y).float()

    with T.autocast("cpu", dtype=T.bfloat16):
        y = point(T, f, x)
    y.sum().backward()
    return seen, x.grad


def sequence(T, segments=2, **settings):
    seen, x = [], leaf(T, 0.1, 0.2)
    steps = [Counted(f, seen, str(i)) for i, f in enumerate((T.exp, T.sin, T.tanh, T.cos, T.exp))]
    T.utils.checkpoint.checkpoint_sequential(steps, segments, x, use_reentrant=False, **settings).sum().backward()
    return seen, x.grad


def layers(T):
    T.manual_seed(0)
    net = T.nn.Sequential(T.nn.Linear(2, 2), T.nn.Tanh(), T.nn.Linear(2, 1))
    for p in net.parameters():
        T.nn.init.constant_(p, 0.5)
    x = T.ones(1, 2, requires_grad=True)
    T.utils.checkpoint.checkpoint_sequential(net, 2, x, use_reentrant=True).sum().backward()
    return [p.grad for p in net.parameters()], x.grad


def reentrant(T, *, grad=False, kwargs=None, x=None, function=None):
    seen = []
    x = leaf(T, 0.1) if x is None else x(T)
    f = Counted(function or (lambda x: x.exp().sin()), seen, "f")
    y = T.utils.checkpoint.checkpoint(f, x, use_reentrant=True, **(kwargs or {}))
    if grad:
        return T.autograd.grad(y, x)
    y.backward()
    return seen, x.grad


def selective(T, policy, function=None, backwards=1, **settings):
    """Run a checkpointed function with a policy, and return its result, gradients and calls."""
    seen, x, w = [], T.ones(2, 2, requires_grad=True), T.full((2, 2), 0.5)
    create = T.utils.checkpoint.create_selective_checkpoint_contexts

    def f(x):
        seen.append("f")
        y = x @ w
        return ((y * y).sin() @ w).exp()

    y = point(T, function or f, x, context_fn=functools.partial(create, policy(T), **settings), early_stop=False).sum()
    for _ in range(backwards):
        y.backward(retain_graph=True)
    return seen, x.grad


def products(T):
    return [T.matmul] if T.__name__ == "gradcore" else [T.ops.aten.mm.default]


def by_name(wanted):
    def policy(T):
        P = T.utils.checkpoint.CheckpointPolicy

        def choose(ctx, op, *args, **kwargs):
            assert not ctx.is_recompute
            name = op.__name__.partition(".")[0]
            return P.MUST_SAVE if {"mm": "matmul"}.get(name, name) in wanted else P.PREFER_RECOMPUTE

        return choose

    return policy


def written_after(T, **settings):
    w = T.full((2, 2), 0.5)
    return selective(T, products, lambda x: (x @ w).mul_(2).exp(), **settings)


def views(T):
    w = T.full((2, 2), 0.5)
    return selective(T, by_name({"matmul", "exp", "sin"}), lambda x: (x @ w).exp().t().sin()[0].exp())


def in_place(T):
    w = T.full((2, 2), 0.5)

    def f(x):
        y = (x @ w).exp()
        z = y.sin()
        z.add_(1.0)
        return z.cos() * y

    return selective(T, by_name({"matmul", "exp"}), f)


PROGRAMS = {
    "plain": plain, "no early stop": lambda T: plain(T, early_stop=False),
    "no comparison": lambda T: plain(T, determinism_check="none"), "debug": lambda T: plain(T, debug=True),
    "unknown comparison": lambda T: plain(T, determinism_check="all"),
    "reentrant": lambda T: plain(T, use_reentrant=True),
    "nested once": lambda T: nested(T, 1), "nested three times": lambda T: nested(T, 3),
    "nested without early stop": lambda T: nested(T, 2, False), "two inside": lambda T: two_inside(T, True),
    "two inside without early stop": lambda T: two_inside(T, False), "early stop outside only": mixed_stops,
    "twice": twice, "second derivatives": double, "outputs one by one": in_chunks, "containers": containers,
    "no inputs": no_inputs, "one more tensor": one_more, "one less tensor": one_less, "another shape": another_shape,
    "another dtype": another_dtype, "one more without early stop": lambda T: one_more(T, early_stop=False),
    "one less without early stop": lambda T: one_less(T, early_stop=False),
    "another shape unchecked": lambda T: another_shape(T, determinism_check="none"),
    "contexts": contexts, "contexts without recording": lambda T: contexts(T, False), "suppressing": suppressing,
    "failing": failing, "written": written, "dropout": lambda T: dropout(T, False),
    "dropout, reentrant": lambda T: dropout(T, True), "autocast": casting, "sequence": sequence,
    "sequence of three": lambda T: sequence(T, 3), "sequence with more": lambda T: sequence(T, x=3), "layers": layers,
    "reentrant kwargs": lambda T: reentrant(T, kwargs={"n": 1}),
    "reentrant context": lambda T: reentrant(T, kwargs={"context_fn": lambda: None}),
    "reentrant grad": lambda T: reentrant(T, grad=True),
    "reentrant without gradients": lambda T: reentrant(T, x=lambda T: T.ones(1)),
    "reentrant detached": lambda T: reentrant(T, function=lambda x: x.detach() * 1),
    "debug and contexts": lambda T: point(T, T.exp, leaf(T, 1.0), debug=True, context_fn=lambda: (1, 2)),
    "detach": lambda T: T.utils.checkpoint.detach_variable((leaf(T, 1.0) * 2, 3)),
    "detach a list": lambda T: T.utils.checkpoint.detach_variable([1]),
    "selective": lambda T: selective(T, products), "selective by function": lambda T: selective(T, by_name({"sin"})),
    "selective of all": lambda T: selective(T, by_name({"matmul", "mul", "sin", "exp"})),
    "selective of nothing": lambda T: selective(T, by_name(())),
    "selective of True": lambda T: selective(T, lambda T: lambda ctx, op, *args, **kwargs: True),
    "selective twice": lambda T: selective(T, products, backwards=2),
    "selective with views": views, "selective in place": in_place,
    "selective and written": written_after,
    "selective and allowed": lambda T: written_after(T, allow_cache_entry_mutation=True),
    "selective of no functions": lambda T: selective(T, lambda T: 3),
}  # fmt: skip


def described(value):
    if hasattr(value, "grad_fn"):
        return tuple(value.shape), bool(value.requires_grad), np.asarray(value.detach().tolist()).round(4).tolist()
    if isinstance(value, (list, tuple)):
        return [described(v) for v in value]
    return value


def outcome(program, library):
    """Return the result of a program, or its error."""
    try:
        return described(program(library))
    except Exception as error:
        text = re.split(r"\s*\n\s*Tip:|, with torch|: \[| Hint:", str(error))[0]
        return type(error).__name__, text.rstrip(". ")
