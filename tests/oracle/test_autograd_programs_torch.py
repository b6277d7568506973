"""Random programs of operations, views, writes in place, hooks and modes: PyTorch and gradcore, step by step."""

from __future__ import annotations

import contextlib
import random

import numpy as np
import pytest

import gradcore

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

LIBRARIES = (torch, gradcore)
SHAPES = [(2, 3), (3, 2), (4,), (2, 2), (3,)]

COMPUTE = {
    "mul": lambda T, a, b: a * b,
    "add": lambda T, a, b: a + b,
    "sub": lambda T, a, b: a - b,
    "div": lambda T, a, b: a / (b * b + 2),
    "sin": lambda T, a, b: a.sin(),
    "exp": lambda T, a, b: (a * 0.1).exp(),
    "tanh": lambda T, a, b: a.tanh(),
    "cube": lambda T, a, b: (a * 0.3) ** 3,
    "sum": lambda T, a, b: a.sum(),
    "clone": lambda T, a, b: a.clone(),
    "detach": lambda T, a, b: a.detach(),
    "data": lambda T, a, b: a.data,
    "cat": lambda T, a, b: T.cat([a.reshape(-1), b.reshape(-1)]),
    "where": lambda T, a, b: T.where(a > 1, a, a * 3),
}
VIEW = {
    "flat": lambda a, i: a.view(-1),
    "unsqueeze": lambda a, i: a.unsqueeze(0),
    "reshape": lambda a, i: a.reshape(-1),
    "expand": lambda a, i: a.expand(2, *a.shape),
    "select": lambda a, i: a[i],
    "slice": lambda a, i: a[i:],
    "steps": lambda a, i: a[::2],
    "last": lambda a, i: a.select(-1, 0),
    "narrow": lambda a, i: a.narrow(0, i, 1),
    "unbind": lambda a, i: a.unbind(0)[i],
    "split": lambda a, i: a.split(1)[i],
    "transpose": lambda a, i: a.transpose(0, -1),
    "diagonal": lambda a, i: a.diagonal(),
    "column": lambda a, i: a[:, 0],
    "detached": lambda a, i: a.detach().view(-1),
}
WRITE = {
    "scale": lambda a, b, c: a.mul_(c),
    "shift": lambda a, b, c: a.add_(c),
    "fill": lambda a, b, c: a.fill_(c),
    "element": lambda a, b, c: a.__setitem__(0, c),
    "zero": lambda a, b, c: a.zero_(),
    "sin": lambda a, b, c: a.sin_(),
    "tanh": lambda a, b, c: a.tanh_(),
    "exp": lambda a, b, c: a.exp_(),
    "add": lambda a, b, c: a.add_(b.clone()),
    "mul": lambda a, b, c: a.mul_(b.clone()),
    "copy": lambda a, b, c: a.copy_(b.clone()),
    "put": lambda a, b, c: a.__setitem__(0, b.reshape(-1)[0] * 1),
    "t": lambda a, b, c: a.t_(),
    "turn": lambda a, b, c: a.transpose_(0, -1),
    "front": lambda a, b, c: a.unsqueeze_(0),
    "squeeze": lambda a, b, c: a.squeeze_(),
    "rows": lambda a, b, c: a.__setitem__([0], b.reshape(-1)[0] * 1),
    "masked": lambda a, b, c: a.__setitem__(a > 1, c),
}


def values(t):
    return t.detach().numpy().copy()


def close(a, b):
    return np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)


#: Writes that change a tensor's own shape. Unrecorded, they leave a history of another shape.
TURNS = ("t", "turn", "front", "squeeze")


class Undefined(Exception):
    """PyTorch has stopped at an assertion about its own state."""


class Programs:
    """One random program in both libraries."""

    def __init__(self, seed, dual):
        self.random = random.Random(seed)
        self.dual = dual
        self.tensors = ([], [])
        self.log = []

    def both(self, what, step, keep=True):
        """Run one step in both; whether it succeeded, which must be the same."""
        self.log.append(what)
        results, errors = [], []
        for T, tensors in zip(LIBRARIES, self.tensors, strict=True):
            try:
                results.append(step(T, tensors))
            except (RuntimeError, IndexError) as error:
                errors.append(str(error))
        if any("INTERNAL ASSERT" in error for error in errors):
            raise Undefined
        assert len(errors) in (0, 2), self.say(f"only one library raised: {errors}")
        if errors:
            return False
        for result, tensors in zip(results, self.tensors, strict=True):
            if keep:
                tensors.append(result)
        return True

    def say(self, why):
        return "\n".join([why, *self.log])

    def leaf(self):
        shape = self.random.choice(SHAPES)
        data = [self.random.uniform(0.5, 1.5) for _ in range(int(np.prod(shape)))]
        on = self.random.random() < 0.8

        def make(T, tensors):
            t = T.tensor(data).reshape(shape).clone()
            if self.dual:
                forward_ad = T.autograd.forward_ad
                return forward_ad.make_dual(t, t.flip(0).clone()) if on else t
            return t.requires_grad_(on)

        self.both(f"leaf {shape} {on}", make)
        if self.random.random() < 0.7:
            self.both("* 1", lambda T, tensors: tensors[-1] * 1)

    def step(self):
        draw = self.random
        i, j = draw.randrange(len(self.tensors[0])), draw.randrange(len(self.tensors[0]))
        number, constant, kind = draw.randrange(2), draw.uniform(0.5, 1.5), draw.random()
        off = draw.random() < 0.12
        mode = (lambda T: T.no_grad()) if off else (lambda T: contextlib.nullcontext())
        if kind < 0.25:
            name = draw.choice(list(COMPUTE))

            def run(T, tensors):
                with mode(T):
                    return COMPUTE[name](T, tensors[i], tensors[j])

            self.both(f"{name}({i}, {j}) {off=}", run)
        elif kind < 0.6:  # not under no_grad: PyTorch says of such views that they require grad
            name = draw.choice(list(VIEW))
            if self.tensors[0][i].is_contiguous() != self.tensors[1][i].is_contiguous():
                return  # results of tensors of two layouts have one or the other: reshaping may copy, or not
            self.both(f"view {name}({i}, {number})", lambda T, tensors: VIEW[name](tensors[i], number))
        elif kind < 0.92 or self.dual or self.tensors[0][i]._is_view():
            name = draw.choice(list(WRITE))
            if name in ("fill", "zero", "element", "masked", "rows") and 0 in self.tensors[0][i].stride():
                return

            if name in TURNS and off:
                return

            def write(T, tensors):
                with mode(T):
                    WRITE[name](tensors[i], tensors[j], constant)

            self.both(f"{name}_({i}, {j}) {off=}", write, keep=False)
        elif kind < 0.96:
            self.both(f"retain_grad({i})", lambda T, tensors: tensors[i].retain_grad(), keep=False)
        else:
            scale = lambda grad: None if grad is None else grad * constant  # noqa: E731
            self.both(f"hook({i})", lambda T, tensors: tensors[i].register_hook(scale), keep=False)

    def compare(self):
        for k, (a, b) in enumerate(zip(*self.tensors, strict=True)):
            with contextlib.suppress(RuntimeError):
                a.grad_fn  # noqa: B018  (until then PyTorch takes a view of what was written to for a leaf)
            assert a.shape == tuple(b.shape), self.say(f"shape of {k}")
            assert close(values(a), values(b)), self.say(f"value of {k}:\n{a}\n{b}")
            assert a._version == b._version, self.say(f"version of {k}: {a._version}, {b._version}")
            assert a.requires_grad == b.requires_grad, self.say(f"requires_grad of {k}")
            if self.dual:
                found = [T.autograd.forward_ad.unpack_dual(t).tangent for T, t in zip(LIBRARIES, (a, b), strict=True)]
                found = [np.zeros(a.shape) if t is None else values(t) for t in found]
                assert close(*found), self.say(f"tangent of {k}: {found}")

    def differentiate(self):
        chosen = [(k, self.random.uniform(0.5, 2)) for k in range(len(self.tensors[0])) if self.random.random() < 0.6]

        def loss(T, tensors):
            return sum([(tensors[k] * tensors[k]).sum() * w for k, w in chosen], T.zeros(()))

        if not self.both("loss", loss) or not self.tensors[0][-1].requires_grad:
            return

        def twice(T, tensors):
            leaves = [t for t in tensors[:4] if t.requires_grad and t.is_leaf and not t._is_view()]
            gradients = T.autograd.grad(tensors[-1], leaves, create_graph=True, allow_unused=True)
            recorded = [(g * g).sum() for g in gradients if g is not None and g.requires_grad]
            if recorded:
                sum(recorded, T.zeros(())).backward()

        if self.random.random() < 0.5:
            done = self.both("backward", lambda T, tensors: tensors[-1].backward(), keep=False)
        else:
            done = self.both("double backward", twice, keep=False)
        for k, (a, b) in enumerate(zip(*self.tensors, strict=True)):
            kept = False
            with contextlib.suppress(RuntimeError):  # views that have lost their history
                kept = a.is_leaf or a.retains_grad
            if done and kept:
                assert (a.grad is None) == (b.grad is None), self.say(f"gradient of {k}:\n{a.grad}\n{b.grad}")
                assert a.grad is None or close(values(a.grad), values(b.grad)), self.say(
                    f"gradient of {k}:\n{a.grad}\n{b.grad}"
                )


def run(seed, dual=False):
    program = Programs(seed, dual)
    program.leaf()
    program.leaf()
    with contextlib.suppress(Undefined):
        for _ in range(program.random.randrange(4, 14)):
            program.step()
            program.compare()
        if not dual:
            program.differentiate()


@pytest.mark.parametrize("block", range(8))
def test_gradients_of_random_programs(block):
    for seed in range(3000 + block * 600, 3000 + block * 600 + 600):
        run(seed)


@pytest.mark.parametrize("block", range(4))
def test_tangents_of_random_programs(block):
    for seed in range(3000 + block * 600, 3000 + block * 600 + 600):
        with torch.autograd.forward_ad.dual_level(), gradcore.autograd.forward_ad.dual_level():
            run(seed, dual=True)
