"""Random programs of operations, views and writes in place, against a reference interpreter without any graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradcore as gc
from tests.autograd.interpreter import BINARY, UNARY, fresh

SHAPES = [(2, 3), (3, 2), (4,), (2, 2), (1, 3), (2, 1, 2)]


class Doubling(gc.autograd.Function):
    """Twice its argument, written in place."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Cubing(gc.autograd.Function):
    """The third power, with a formula that reads the result."""

    @staticmethod
    def forward(ctx, x):
        result = x * x * x
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx, grad):
        x, result = ctx.saved_tensors
        return grad * 3 * x * x + (result - x * x * x)


COMPUTE = {
    **{name: (lambda a, b, name=name: getattr(a, name)()) for name in ("sin", "tanh", "square", "neg")},
    "exp": lambda a, b: a.clamp(max=2).exp(),
    "mul": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "div": lambda a, b: a / (b * b + 1),
}
#: Views: of a tensor, and of the places of a slot.
VIEWS = {
    "select": lambda a, k: a[k % a.shape[0]],
    "slice": lambda a, k: a[k % 2 :],
    "steps": lambda a, k: a[::2],
    "column": lambda a, k: a[..., k % a.shape[-1]],
    "flat": lambda a, k: a.reshape(-1) if isinstance(a, np.ndarray) else a.view(-1),
    "front": lambda a, k: a[None],
    "turned": lambda a, k: a.swapaxes(0, -1),
    "expanded": lambda a, k: np.broadcast_to(a, (2, *a.shape)) if isinstance(a, np.ndarray) else a.expand(2, *a.shape),
    "diagonal": lambda a, k: a.diagonal(),
    "unbound": lambda a, k: a[k % a.shape[0]] if isinstance(a, np.ndarray) else a.unbind(0)[k % a.shape[0]],
    "piece": lambda a, k: a[k % a.shape[0]][None] if isinstance(a, np.ndarray) else a.split(1)[k % a.shape[0]],
    "narrowed": lambda a, k: a[:1] if isinstance(a, np.ndarray) else a.narrow(0, 0, 1),
}
#: Changes of a tensor's own shape.
TURNS = {
    "t_": lambda places: places.T,
    "transpose_": lambda places: places.swapaxes(0, -1),
    "unsqueeze_": lambda places: places[None],
    "squeeze_": lambda places: places.squeeze(),
}
WRITES = ["mul", "add", "sub", "sin", "tanh", "square", "neg", "copy", "zero", "item", "rows", "function", "div"]
KINDS = ["compute", "compute", "view", "view", "view", "write", "write", "write", "turn", "other"]
OTHER = ["detach", "clone", "cat", "rows", "cube", "sum", "where"]

STEP = st.tuples(
    st.sampled_from(KINDS), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.booleans() | st.just(False)
)
PROGRAM = st.tuples(st.lists(st.tuples(st.sampled_from(SHAPES), st.booleans()), min_size=1, max_size=3), st.lists(STEP))


class Run:
    """A program in gradcore and in the interpreter, step by step.

    Steps that gradcore refuses are left out; they must leave everything as it was.
    """

    def __init__(self, program, shift=0.0, everything=True):
        leaves, self.program = program
        #: Whether values may depend on leaves in ways that are not recorded.
        self.everything = everything
        random = np.random.default_rng(len(leaves))
        self.tensors, self.slots, self.leaves, self.directions = [], [], [], []
        for shape, on in leaves:
            start = random.uniform(0.5, 1.5, shape)
            direction, second = random.uniform(-1, 1, shape), random.uniform(-1, 1, shape)
            if on:
                start = start + shift * second
            leaf = gc.tensor(start, requires_grad=on)
            if on:
                self.leaves.append(leaf)
                self.directions.append((direction, second))
            self.tensors += [leaf, leaf * 1]
            self.slots += [fresh(start, direction if on else 0.0) for _ in range(2)]

    def run(self):
        for step in self.program:
            try:
                self.step(*step)
            except (RuntimeError, IndexError, ZeroDivisionError):
                continue
            finally:
                self.compare()
        return self

    def step(self, kind, i, j, k, off):
        off = off and self.everything
        n = len(self.tensors)
        a, b = self.tensors[i % n], self.tensors[j % n]
        p, q = self.slots[i % n], self.slots[j % n]
        getattr(self, kind)(a, b, p, q, k, off)

    def keep(self, t, slot):
        self.tensors.append(t)
        self.slots.append(slot)

    def compute(self, a, b, p, q, k, off):
        name = list(COMPUTE)[k % len(COMPUTE)]
        if name in BINARY and a.shape != b.shape:
            b, q = a, p
        with gc.set_grad_enabled(not off):
            t = COMPUTE[name](a, b)
        value, slope = BINARY[name](p, q) if name in BINARY else UNARY[name](p)
        self.keep(t, fresh(value, slope * (not off)))

    def view(self, a, b, p, q, k, off):
        change = list(VIEWS.values())[k % len(VIEWS)]
        t = change(a, k // len(VIEWS))
        self.keep(t, p.view(lambda places: change(places, k // len(VIEWS))))

    def turn(self, a, b, p, q, k, off):
        name = list(TURNS)[k % len(TURNS)]
        getattr(a, name)(*{"transpose_": (0, -1), "unsqueeze_": (0,)}.get(name, ()))
        p.where = TURNS[name](p.where)

    def write(self, a, b, p, q, k, off):
        name = WRITES[k % len(WRITES)]
        with gc.set_grad_enabled(not off):
            written, value, slope = self.written(name, a, b, p, q, k // len(WRITES), off)
        written.write(value, slope, recorded=not off)

    def written(self, name, a, b, p, q, k, off):
        """Write in gradcore; returns the slot that was written to and what was written."""
        if name in UNARY:
            getattr(a, f"{name}_")()
            return p, *UNARY[name](p)
        if name == "zero":
            a.zero_()
            return p, 0.0, 0.0
        if name == "item":
            a[0] = 0.75
            return p.view(lambda places: places[0]), 0.75, 0.0
        if name == "function":
            if off or a.is_leaf or a._is_view():  # what is refused only after it was written to
                raise RuntimeError("no program of its own")
            Doubling.apply(a)
            return p, 2 * p.value, 2 * p.slope
        if name == "rows":
            a[[k % a.shape[0]]] = b.reshape(-1)[0]
            return p.view(lambda places: places[[k % p.shape[0]]]), q.value.reshape(-1)[0], q.slope.reshape(-1)[0]
        if a.shape != b.shape:
            b, q = b.reshape(-1)[0], q.view(lambda places: places.reshape(-1)[0])
        elif q.values is p.values:
            b = b.clone()  # what overlaps is undefined
        if name == "copy":
            a.copy_(b)
            return p, q.value, q.slope
        if name == "div":
            a.div_(b * b + 1)
        else:
            getattr(a, f"{name}_")(b)
        return p, *BINARY[name](p, q)

    def other(self, a, b, p, q, k, off):
        name = OTHER[k % len(OTHER)] if self.everything else OTHER[1:][k % (len(OTHER) - 1)]
        if name == "detach":
            self.keep(a.detach(), p.detached())
        elif name == "clone":
            self.keep(a.clone(), fresh(p.value, p.slope))
        elif name == "cat":
            ends = [np.concatenate([x.reshape(-1), y.reshape(-1)]) for x, y in ((p.value, q.value), (p.slope, q.slope))]
            self.keep(gc.cat([a.reshape(-1), b.reshape(-1)]), fresh(*ends))
        elif name == "rows":
            rows = [0, a.shape[0] - 1, 0]
            self.keep(a[rows], fresh(p.value[rows], p.slope[rows]))
        elif name == "cube":
            self.keep(Cubing.apply(a), fresh(p.value**3, 3 * p.value**2 * p.slope))
        elif name == "sum":
            self.keep(a.sum(), fresh(p.value.sum(), p.slope.sum()))
        else:
            chosen = p.value > 1
            self.keep(gc.where(a > 1, a, 3 * a), fresh(*(np.where(chosen, x, 3 * x) for x in (p.value, p.slope))))

    def compare(self):
        for t, slot in zip(self.tensors, self.slots, strict=True):
            assert tuple(t.shape) == slot.shape
            np.testing.assert_allclose(t.detach().numpy(), slot.value, rtol=1e-9, atol=1e-12)

    def loss(self):
        """A number that all tensors enter, and its derivative along the direction."""
        total, slope = gc.zeros((), dtype=gc.float64), 0.0
        for n, (t, slot) in enumerate(zip(self.tensors, self.slots, strict=True)):
            total = total + (t * t).sum() * (1 + n % 3)
            slope += 2 * (slot.value * slot.slope).sum() * (1 + n % 3)
        return total, slope


def along(gradients, directions):
    return sum(0.0 if g is None else (g.detach().numpy() * d).sum() for g, d in zip(gradients, directions, strict=True))


def excused(error):
    """Nothing, if what was saved was overwritten, or a view has lost its history; else it is a failure."""
    if "inplace" not in str(error):
        raise error


def gradients_of(program, everything=True):
    """The derivative of a program's loss along a direction, twice: by backward and by the interpreter; and the rest."""
    run = Run(program, 0.0, everything).run()
    try:
        total, slope = run.loss()
        if not run.leaves or not total.requires_grad:
            return None
        found = gc.autograd.grad(total, run.leaves, create_graph=True, allow_unused=True)
    except RuntimeError as error:
        return excused(error)
    return along(found, [first for first, _ in run.directions]), slope, run.leaves, found, run.directions


@given(PROGRAM)
def test_gradients_are_those_of_the_interpreter(program):
    result = gradients_of(program)
    if result is not None:
        np.testing.assert_allclose(result[0], result[1], rtol=1e-8, atol=1e-8)


@given(PROGRAM)
def test_second_derivatives_are_differences_of_the_interpreters(program):
    result = gradients_of(program, everything=False)
    if result is None:
        return
    _, _, leaves, found, pairs = result
    product = sum((g * gc.tensor(first)).sum() for g, (first, _) in zip(found, pairs, strict=True) if g is not None)
    if not isinstance(product, gc.Tensor) or not product.requires_grad:
        return
    try:
        second = gc.autograd.grad(product, leaves, allow_unused=True)
    except RuntimeError as error:
        excused(error)
        return
    step = 1e-5
    up, down = (Run(program, shift, False).run().loss()[1] for shift in (step, -step))
    expected = (up - down) / (2 * step)
    assert along(second, [d for _, d in pairs]) == pytest.approx(expected, rel=1e-4, abs=1e-4)
