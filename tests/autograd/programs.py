"""Random programs of operations, views and writes in place, run by gradcore, by the interpreter and by PyTorch.

``python -m tests.autograd.programs --count 1000 --seed 1 --torch`` draws and runs some, each in one of the `MODES`.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import traceback
import warnings

import numpy as np

import gradcore as gc
from tests.autograd.interpreter import BINARY, UNARY, Memory, Slot, along_difference, fresh, linear

SHAPES = [(2, 3), (3, 2), (4,), (2, 2), (1, 3), (2, 1, 2), (), (3, 8), (1,), (3, 4), (2,), (3, 8)]
DTYPES = ["float64", "float64", "float64", "float64", "float32"]


class Unfit(Exception):
    """A step that these operands are not for."""


def need(condition):
    if not condition:
        raise Unfit


def distinct(a):
    """Whether the values of a slot are far enough from each other to be in one order only."""
    flat = np.sort(a.value.reshape(-1))
    return not a.is_complex and bool((np.diff(flat) > 1e-5).all())


# -- operations: on tensors of a library `T`, and on slots ------------------------------------------------------------

ELEMENTWISE = {
    **{name: (lambda T, a, b, name=name: getattr(a, name)()) for name in ("sin", "tanh", "square", "neg", "relu")},
    "exp": lambda T, a, b: a.clamp(max=2).exp(),
    "leaky_relu": lambda T, a, b: T.nn.functional.leaky_relu(a),
    "hardtanh": lambda T, a, b: T.nn.functional.hardtanh(a),
    "threshold": lambda T, a, b: T.nn.functional.threshold(a, 0.6, 0.2),
    "softshrink": lambda T, a, b: T.nn.functional.softshrink(a),
    "modulus": lambda T, a, b: T.remainder(a, 0.7),
    "rmod": lambda T, a, b: 0.7 % (a * a + 1),
    "mul": lambda T, a, b: a * b,
    "add": lambda T, a, b: a + b,
    "sub": lambda T, a, b: a - b,
    "div": lambda T, a, b: a / (b * b + 1),
    "lerp": lambda T, a, b: T.lerp(a, b.to(a.dtype), 0.3),
    "fmod": lambda T, a, b: T.fmod(a, b * b + 0.5),
    "addcmul": lambda T, a, b: T.addcmul(a, b, b, value=0.5),
    "prelu": lambda T, a, b: T.nn.functional.prelu(a, b.reshape(-1)[:1].to(a.dtype)),
}
#: What complex numbers have, too.
HOLOMORPHIC = ("mul", "add", "sub", "neg", "square")


def rows_added(a, b):
    result = a.copy()
    result[0] += b.sum(0)
    return result


def normalized(x, axis):
    centred = x - x.mean(axis, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis, keepdims=True) + 0.1)


def cross_entropy(x, w):
    scores = np.log(np.exp(x) / np.exp(x).sum(1, keepdims=True))
    weights = w.reshape(-1)[: x.shape[1]] ** 2 + 0.5
    target = np.arange(len(x)) % x.shape[1]
    own = -(scores[np.arange(len(x)), target] * weights[target]).sum()
    smooth = -(scores * weights).sum() / x.shape[1]
    return (0.9 * own + 0.1 * smooth) / weights[target].sum()


def tensor_cross_entropy(T, a, b):
    weights = b.reshape(-1)[: a.shape[1]].to(a.dtype) ** 2 + 0.5
    target = T.arange(a.shape[0]) % a.shape[1]
    return T.nn.functional.cross_entropy(a, target, weights, label_smoothing=0.1)


def weights_for(a, b):
    return b.reshape(-1)[: a.shape[1]].to(a.dtype) ** 2 + 0.5


def weighted_bce(x, w):
    return (w**2 * (0.7 * x + (1 + 0.3 * (w + 1)) * np.log1p(np.exp(-x)))).mean()


def margins(x, w):
    weight, excess = w.reshape(-1)[0] ** 2 + 0.5, np.maximum(0, 9 - x[:, :1] + x)[:, 1:]
    return weight * excess.sum() / x.size


def normalized_by(x, w):
    mean, variance = w.reshape(-1)[: x.shape[1]], w.reshape(-1)[: x.shape[1]] ** 2 + 0.5
    return (x - mean) / np.sqrt(variance + 1e-5)


def attention_without_keys(T, a, b):
    return T.nn.functional.scaled_dot_product_attention(a[None], a[None, :0], b.to(a.dtype)[None, :0])[0]


def masked(limit):
    """Elements of `b` in the places of those of `a` beyond a limit; with a high limit there is none."""

    def reference(p, q):
        need(p.shape == q.shape)
        mask = p.value > limit
        value, slope = np.array(p.value), np.array(p.slope)
        value[mask], slope[mask] = (x.reshape(-1)[: mask.sum()] for x in (q.value, q.slope))
        return value, slope

    return lambda T, a, b: a.masked_scatter(a > limit, b.to(a.dtype)), reference


def chosen(limit):
    def reference(p, q):
        need(p.where.ndim and (p.value > limit).any() == (limit < 100))
        return p.value[p.value > limit], p.slope[p.value > limit]

    return lambda T, a, b: a.masked_select(a > limit), reference


def kth(p, number):
    need(p.where.ndim and p.shape[0] > 1 and distinct(p))
    order = np.argsort(p.value, 0)[number]
    return tuple(
        np.take_along_axis(x, order[None] if order.ndim < p.where.ndim else order, 0) for x in (p.value, p.slope)
    )


def matrix(p):
    need(p.where.ndim == 2 and not p.is_complex and 0 not in p.shape)
    return p


def pooled(function):
    def reference(p, q):
        need(matrix(p).shape[1] >= 2 and distinct(p))
        n = p.shape[1] // 2 * 2
        value, slope = (x[:, :n].reshape(len(x), -1, 2) for x in (p.value, p.slope))
        if function == "max":
            best = value.argmax(2)[..., None]
            return tuple(np.take_along_axis(x, best, 2)[..., 0] for x in (value, slope))
        return value.mean(2), slope.mean(2)

    return reference


def of_matrices(reference, also=lambda p, q: True):
    def checked(p, q):
        need(also(matrix(p), q))
        return reference(p, q)

    return checked


def enough_weights(p, q):
    return not q.is_complex and q.where.size >= p.shape[1]


def same_shape(reference):
    def checked(p, q):
        need(p.shape == q.shape and p.where.ndim and 0 not in p.shape)
        return reference(p, q)

    return checked


def mean_of(axis):
    def reference(p, q):
        need(0 not in p.shape and (axis is None or p.where.ndim))
        return p.value.mean(axis), p.slope.mean(axis)

    return reference


#: Operations whose result has another shape, or that need certain ones.
SHAPED = {
    "mean": (lambda T, a, b: a.mean(), mean_of(None)),
    "mean of rows": (lambda T, a, b: a.mean(0), mean_of(0)),
    "std_mean": (lambda T, a, b: T.std_mean(a)[1], mean_of(None)),
    "var_mean": (lambda T, a, b: T.var_mean(a, correction=9)[1], mean_of(None)),
    "scatter_add": (
        lambda T, a, b: a.scatter_add(0, T.zeros(tuple(b.shape), dtype=T.int64), b.to(a.dtype)),
        same_shape(linear(rows_added)),
    ),
    "index_add": (
        lambda T, a, b: a.index_add(0, T.zeros(b.shape[0], dtype=T.int64), b.to(a.dtype)),
        same_shape(linear(rows_added)),
    ),
    "slice_scatter": (
        lambda T, a, b: a.slice_scatter(b[:1].to(a.dtype), 0, 0, 1),
        same_shape(linear(lambda x, y: np.concatenate([y[:1], x[1:]]))),
    ),
    "addmm": (
        lambda T, a, b: T.addmm(a, b.to(a.dtype), b.to(a.dtype).mT @ b.to(a.dtype)),
        of_matrices(along_difference(lambda x, y: x + y @ (y.T @ y)), lambda p, q: p.shape == q.shape),
    ),
    "masked_scatter": masked(0.8),
    "nothing scattered": masked(100),
    "masked_select": chosen(0.8),
    "nothing selected": chosen(100),
    "topk": (lambda T, a, b: a.topk(2, 0, largest=False)[0], lambda p, q: kth(p, slice(2))),
    "kthvalue": (lambda T, a, b: a.kthvalue(2, 0)[0], lambda p, q: tuple(x[0] for x in kth(p, slice(1, 2)))),
    "max_pool1d": (lambda T, a, b: T.nn.functional.max_pool1d(a[None], 2)[0], pooled("max")),
    "avg_pool1d": (lambda T, a, b: T.nn.functional.avg_pool1d(a[None], 2)[0], pooled("mean")),
    "pad": (
        lambda T, a, b: T.nn.functional.pad(a[None], (1, 1), "reflect")[0],
        of_matrices(linear(lambda x, y: np.pad(x, ((0, 0), (1, 1)), "reflect")), lambda p, q: p.shape[1] >= 2),
    ),
    "kron": (
        lambda T, a, b: T.kron(a, b),
        of_matrices(
            along_difference(np.kron),
            lambda p, q: q.where.ndim == 2 and not q.is_complex and p.where.size * q.where.size < 40,
        ),
    ),
    "layer_norm": (
        lambda T, a, b: T.nn.functional.layer_norm(a, a.shape[-1:], eps=0.1),
        of_matrices(along_difference(lambda x, y: normalized(x, 1))),
    ),
    "batch_norm": (
        lambda T, a, b: T.nn.functional.batch_norm(a, None, None, training=True, eps=0.1),
        of_matrices(along_difference(lambda x, y: normalized(x, 0)), lambda p, q: p.shape[0] > 1),
    ),
    "cross_entropy": (tensor_cross_entropy, of_matrices(along_difference(cross_entropy), enough_weights)),
    "bce": (
        lambda T, a, b: T.nn.functional.binary_cross_entropy_with_logits(
            a, T.full_like(a, 0.3), b.to(a.dtype) ** 2, pos_weight=b.to(a.dtype) + 2
        ),
        same_shape(along_difference(weighted_bce)),
    ),
    "nll": (
        lambda T, a, b: T.nn.functional.nll_loss(a, T.zeros(a.shape[0], dtype=T.int64), weights_for(a, b)),
        of_matrices(along_difference(lambda x, w: -x[:, 0].mean()), enough_weights),
    ),
    "margins": (
        lambda T, a, b: T.nn.functional.multi_margin_loss(
            a, T.zeros(a.shape[0], dtype=T.int64), margin=9.0, weight=weights_for(a, b)
        ),
        of_matrices(along_difference(margins), enough_weights),
    ),
    "batch_norm given": (
        lambda T, a, b: T.nn.functional.batch_norm(a, b.reshape(-1)[: a.shape[1]].to(a.dtype), weights_for(a, b)),
        of_matrices(along_difference(normalized_by), enough_weights),
    ),
    "bilinear": (
        lambda T, a, b: T.nn.functional.bilinear(a, a, T.stack([b.to(a.dtype)] * 2)),
        of_matrices(
            along_difference(lambda x, y: np.repeat(np.einsum("ij,jk,ik->i", x, y, x)[:, None], 2, 1)),
            lambda p, q: q.shape == (p.shape[1], p.shape[1]),
        ),
    ),
    "solve": (
        lambda T, a, b: T.linalg.solve_triangular(2 * T.eye(a.shape[0], dtype=a.dtype), a, upper=False),
        of_matrices(linear(lambda x, y: x / 2)),
    ),
    "gradient": (
        lambda T, a, b: T.gradient(a, spacing=2.0, dim=0)[0],
        of_matrices(linear(lambda x, y: np.gradient(x, 2.0, axis=0)), lambda p, q: p.shape[0] > 1),
    ),
    "trapezoid": (
        lambda T, a, b: T.trapezoid(a, dx=0.5, dim=0),
        of_matrices(linear(lambda x, y: (x[1:] + x[:-1]).sum(0) / 4)),
    ),
    "no keys": (
        attention_without_keys,
        of_matrices(lambda p, q: (0 * p.value, 0 * p.slope), lambda p, q: p.shape == q.shape),
    ),
}
#: Operations whose nodes see one upstream gradient.
ONE_OUTPUT = ("layer_norm", "batch_norm", "no keys", "cross_entropy")
#: Operations made of elementwise ones, whose results lie in memory as their operands do.
FORMULAS = ("batch_norm given", "kron")
#: Operations called with one dim more, or that reshape their result: what is kept is a view of it.
VIEWED = ("max_pool1d", "avg_pool1d", "pad", "no keys", "bilinear")

#: Views: of a tensor, and of the places of a slot.
VIEWS = {
    "select": lambda a, k: a[k % a.shape[0]],
    "slice": lambda a, k: a[k % 2 :],
    "steps": lambda a, k: a[::2],
    "column": lambda a, k: a[..., k % a.shape[-1]],
    "last column": lambda a, k: a[..., -1],
    "all": lambda a, k: a[...],
    "flat": lambda a, k: a.reshape(-1) if isinstance(a, np.ndarray) else a.view(-1),
    "flattened": lambda a, k: a.reshape(-1) if isinstance(a, np.ndarray) else a.flatten(),
    "front": lambda a, k: a[None],
    "behind": lambda a, k: a[..., None],
    "turned": lambda a, k: a.swapaxes(0, -1),
    "moved": lambda a, k: (
        np.moveaxis(np.atleast_1d(a), 0, -1).reshape(a.shape[1:] + a.shape[:1])
        if isinstance(a, np.ndarray)
        else a.movedim(0, -1)
    ),
    "expanded": lambda a, k: np.broadcast_to(a, (2, *a.shape)) if isinstance(a, np.ndarray) else a.expand(2, *a.shape),
    "diagonal": lambda a, k: a.diagonal(),
    "unbound": lambda a, k: a[k % a.shape[0]] if isinstance(a, np.ndarray) else a.unbind(0)[k % a.shape[0]],
    "piece": lambda a, k: a[k % a.shape[0]][None] if isinstance(a, np.ndarray) else a.split(1)[k % a.shape[0]],
    "narrowed": lambda a, k: a[:1] if isinstance(a, np.ndarray) else a.narrow(0, 0, 1),
}
#: Those that tensors without dims have.
WITHOUT_DIMS = ("all", "flat", "flattened", "front", "behind", "turned", "moved", "expanded")
#: Views of complex numbers as real ones, and back.
PARTS = {
    "as complex": (
        lambda T, a: T.view_as_complex(a),
        lambda where: need(where.dtype.kind != "c" and where.shape[-1:] == (2,)) or where[..., 0] + 1j * where[..., 1],
    ),
    "as real": (lambda T, a: T.view_as_real(a), lambda where: np.stack([real(where), where.imag.astype(int)], -1)),
    "real": (lambda T, a: a.real, lambda where: real(where)),
    "imag": (lambda T, a: a.imag, lambda where: real(where) * 0 + where.imag.astype(int)),
    "complex": (lambda T, a: T.complex(a, a * 0.5), None),
    "one complex": (
        lambda T, a: T.view_as_complex(a[(0,) * (a.ndim - 1)]).expand(3),
        lambda where: (
            need(where.dtype.kind != "c" and where.shape[-1:] == (2,))
            or np.broadcast_to(where[(0,) * (where.ndim - 1)] @ np.array([1, 1j]), (3,))
        ),
    ),
}


def real(where):
    need(where.dtype.kind == "c")
    return where.real.astype(int)


#: Changes of a tensor's own shape.
TURNS = {
    "t_": lambda places: places.T,
    "transpose_": lambda places: places.swapaxes(0, -1),
    "unsqueeze_": lambda places: places[None],
    "squeeze_": lambda places: places.squeeze(),
}
WRITES = [
    "mul", "add", "sub", "sin", "tanh", "square", "neg", "copy", "zero", "item", "rows", "function", "div", "relu",
    "number", "own part", "strided", "fill", "unrecorded part", "lerp",
    "negated column",
]  # fmt: skip
KINDS = [
    *["compute"] * 4, *["shaped"] * 3, *["view"] * 6, *["part"] * 2, *["write"] * 8, *["turn"] * 2, *["other"] * 4,
    "cast", "detach",
]  # fmt: skip
OTHER = ["detached", "clone", "cat", "rows", "cube", "sum", "where", "grad", "hook", "module"]

#: What may be refused, in the words of either library.
REFUSED = re.compile(
    "leaf Variable|single memory location|view was created in|multiple views|is a view and|modified inplace|"
    "not compatible|can't be cast|last dimension|stride|storage_offset|Can't detach views|dimension|out of range|"
    "shape|size|inplace|invalid index|does not require grad|not implemented for|doesn't require grad|not supported"
)


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


def draw(seed):
    """Return the program for a seed."""
    chance = random.Random(seed)
    shapes = [
        (chance.randrange(len(SHAPES)), chance.randrange(len(DTYPES)), chance.random() < 0.7)
        for _ in range(chance.randint(1, 3))
    ]
    if chance.random() < 0.5:  # half of the programs are about few tensors, which then meet often
        shapes = shapes[:1]
    if chance.random() < 0.3:  # and some about two of one shape and different dtypes
        shapes.append((shapes[0][0], len(DTYPES) - 1 - shapes[0][1], True))
    steps = [
        (chance.choice(KINDS), *(chance.randrange(100) for _ in range(3)), chance.random() < 0.15)
        for _ in range(chance.randint(1, 14))
    ]
    return shapes, steps


class Run:
    """A program in a library and in the interpreter, step by step.

    Steps that the library refuses are left out; they must leave everything as it was.

    Parameters
    ----------
    program : tuple
        The leaves, and the steps.
    shift : float
        By how much leaves differ along a second direction.
    everything : bool
        Whether values may depend on leaves in ways that are not recorded.
    T : module
        The library.
    leaves : sequence of Tensor, optional
        What to use in the place of the leaves that require grad.
    skipped : set of int
        Steps to leave out.
    """

    def __init__(self, program, shift=0.0, everything=True, T=gc, leaves=None, skipped=()):
        kinds, self.program = program
        self.everything, self.T, self.skipped = everything, T, set(skipped)
        chance = np.random.default_rng(len(kinds))
        self.tensors, self.slots, self.leaves, self.directions, self.starts = [], [], [], [], []
        #: Results of operations, that are no views and may be detached.
        self.results = set()
        self.counted = self.reshaped = False
        #: The names of the operations of `SHAPED` that have been called.
        self.used = set()
        for shape, dtype, on in kinds:
            shape, dtype = SHAPES[shape], DTYPES[dtype]
            start = chance.uniform(0.5, 1.5, shape)
            direction, second = chance.uniform(-1, 1, shape), chance.uniform(-1, 1, shape)
            if on:
                start = start + shift * second
                self.directions.append((direction, second))
            start = np.asarray(start).astype(dtype)
            if on and leaves is not None:
                leaf = leaves[len(self.leaves)]
            else:
                leaf = T.tensor(start, requires_grad=on and leaves is None)
            if on:
                self.leaves.append(leaf)
                self.starts.append(start)
            self.tensors.append(leaf)
            self.slots.append(fresh(start, direction if on else 0.0, dtype))
        #: What an earlier iteration keeps alive: with it the leaves' nodes, which are older than those of the program.
        self.earlier = [leaf.sum() for leaf in self.leaves]
        for leaf, slot in list(zip(self.tensors, self.slots, strict=True)):
            self.tensors.append(leaf * 1)
            self.slots.append(fresh(slot.value, slot.slope, str(leaf.dtype).rpartition(".")[2]))
        self.rough = any(DTYPES[dtype] == "float32" for _, dtype, _ in kinds)
        self.compares = True
        #: Whether anything may be refused, as in batches what depends on values.
        self.lenient = self.fills = False
        #: The memory that the last step was about.
        self.memory = self.slots[-1].values
        #: Whether custom functions may be in the program, which have only a backward.
        self.plain = T is gc and leaves is None

    def run(self):
        for number, step in enumerate(self.program):
            if number not in self.skipped and not self.attempt(step):
                self.skipped.add(number)
            if self.compares:
                self.compare()
        self.read_gradients()
        return self

    def read_gradients(self):
        """Check that reading `.grad` gives None and has no other effect, also for a view without a history."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for t in self.tensors:
                assert t.grad is None

    def attempt(self, step):
        """Make a step; whether it was made."""
        try:
            self.step(*step)
        except (Unfit, ZeroDivisionError):
            return False
        except (RuntimeError, IndexError, NotImplementedError) as error:
            self.check_refusal(step[0], error)
            return False
        return True

    def check_refusal(self, kind, error):
        """Check that an error is one that may occur here, with the right message."""
        if "single memory location" in str(error) and self.fills:
            raise AssertionError("a number may be written to one place repeatedly") from error
        if self.lenient:
            return
        if not REFUSED.search(str(error)):
            raise error
        stale = "inplace" in str(error)
        if not stale and kind in ("compute", "shaped"):
            raise error

    def step(self, kind, i, j, k, off):
        off = off and self.everything
        self.fills = False
        i, j = self.operand(i), self.operand(j)
        memory = self.slots[i].values
        other = getattr(self, kind)(self.tensors[i], self.tensors[j], self.slots[i], self.slots[j], k, off)
        self.memory = other or memory

    def operand(self, number):
        """Return the index of a tensor: any, a recent one, or one that shares memory with the previous step's."""
        related = [n for n, slot in enumerate(self.slots) if slot.values is self.memory]
        among = (range(len(self.slots)), related, related, range(len(self.slots))[-2:])[number % 4]
        return among[number // 4 % len(among)]

    def keep(self, t, slot):
        need(all(t is not other for other in self.tensors))
        self.tensors.append(t)
        self.slots.append(slot)

    def keep_fresh(self, t, value, slope, ordered=False):
        need(self.T is not gc or tuple(t.shape) == np.shape(value) or self.fails(t, value))
        self.results.add(len(self.tensors))
        self.keep(t, fresh(value, slope, str(t.dtype).rpartition(".")[2]))
        self.slots[-1].values.ordered = ordered

    def fails(self, t, value):
        raise AssertionError(f"shape {tuple(t.shape)} for {np.shape(value)}")

    # -- steps --------------------------------------------------------------------------------------------------------

    def compute(self, a, b, p, q, k, off):
        name = list(ELEMENTWISE)[k % len(ELEMENTWISE)]
        if name in BINARY and a.shape != b.shape and name != "prelu":
            b, q = a, p
        need(name in HOLOMORPHIC or not (p.is_complex or q.is_complex))
        need(name != "prelu" or q.where.size)
        value, slope = (BINARY[name] if name in BINARY else UNARY[name])(p, q)
        with self.T.set_grad_enabled(not off):
            t = ELEMENTWISE[name](self.T, a, b)
        self.keep_fresh(t, value, slope * (not off))

    def shaped(self, a, b, p, q, k, off):
        names = list(SHAPED)
        call, reference = SHAPED[names[k % len(names)]]
        self.used.add(names[k % len(names)])
        need(self.compares or names[k % len(names)] != "no keys")  # PyTorch's float32 gradient there is a constant
        need(not p.is_complex and not q.is_complex and p.where.size and abs(p.value).max() < 8 and q.where.size)
        value, slope = reference(p, q)
        with self.T.set_grad_enabled(not off):
            t = call(self.T, a, b)
        if names[k % len(names)] in ONE_OUTPUT and t.grad_fn is not None and self.compares:
            t.grad_fn.register_prehook(lambda grads: self.sees_one(grads))
        ordered = names[k % len(names)] not in FORMULAS
        assert t.is_contiguous() or not ordered or self.T is not gc
        self.keep_fresh(t, value, slope * (not off), ordered)
        if names[k % len(names)] in VIEWED:
            self.results.discard(len(self.tensors) - 1)

    def sees_one(self, grads):
        assert len(grads) == 1, f"{len(grads)} upstream gradients"

    def view(self, a, b, p, q, k, off):
        name = list(VIEWS)[k % len(VIEWS)]
        change = VIEWS[name]
        need(name != "flattened" or p.is_contiguous)
        need(p.where.ndim > (name == "diagonal") or name in WITHOUT_DIMS)
        need(name != "narrowed" or p.shape[0])
        slot = p.view(lambda places: change(places, k // len(VIEWS)))
        try:
            with self.T.set_grad_enabled(not off):
                t = change(a, k // len(VIEWS))
        except RuntimeError as error:
            if "inplace" not in str(error) and (name != "flat" or p.is_contiguous):
                raise AssertionError(f"refused: {name}") from error
            raise
        if off:  # its history is what it was made with: none
            slot = slot.detached()
        self.keep(t, slot)

    def part(self, a, b, p, q, k, off):
        names = ("as real", "real", "imag") if p.is_complex else ("as complex", "complex", "one complex")
        change, places = PARTS[names[k % len(names)]]
        if places is not None:
            slot = p.view(places)
            self.keep(change(self.T, a), slot)
            return
        need(not p.is_complex)
        self.keep_fresh(change(self.T, a), p.value * (1 + 0.5j), p.slope * (1 + 0.5j))

    def turn(self, a, b, p, q, k, off):
        name = list(TURNS)[k % len(TURNS)]
        after = TURNS[name](p.where)
        with self.T.set_grad_enabled(not off):
            getattr(a, name)(*{"transpose_": (0, -1), "unsqueeze_": (0,)}.get(name, ()))
        p.where = after
        p.values.writes += 1  # other views have not noticed it
        self.results.discard(next(n for n, slot in enumerate(self.slots) if slot is p))
        self.reshaped = self.reshaped or off
        self.settle(p.values)

    def write(self, a, b, p, q, k, off):
        name = WRITES[k % len(WRITES)]
        self.fills = name in ("zero", "fill")
        protected = a.is_leaf and a.requires_grad and not off
        need(not p.is_complex or name in ("mul", "add", "sub", "neg", "square", "copy", "zero", "own part"))
        pending = any(slot.values is p.values and slot.slopes.later is not None for slot in self.slots)
        need(
            not pending or name not in ("own part", "unrecorded part", "negated column")
        )  # what is written already is no write
        old = p.slopes
        if pending:  # the operand has the history that it had; what is written to has that of its base
            q = Slot(q.values, Memory(q.slopes.numbers.copy()), q.where)
            p.slopes = p.slopes.later or p.slopes
        try:
            with self.T.set_grad_enabled(not off):
                written, value, slope = self.written(name, a, b, p, q, k // len(WRITES), off)
        except BaseException:
            p.slopes = old
            raise
        assert not protected, f"{name} writes to a leaf"
        self.settle(p.values)
        written.write(value, slope, recorded=not off)

    def settle(self, values):
        """After a write, views of what was detached have the derivatives of their base."""
        for slot in self.slots:
            if slot.values is values and slot.slopes.later is not None:
                slot.slopes = slot.slopes.later

    def written(self, name, a, b, p, q, k, off):
        """Write in the library; returns the slot that was written to and what was written."""
        if name in UNARY:
            getattr(a, f"{name}_")()
            return p, *UNARY[name](p)
        if name == "zero":
            a.zero_()
            return p, 0.0, 0.0
        if name == "number":
            a.copy_(0.7 if self.T is gc else self.T.tensor(0.7, dtype=self.T.float64))
            return p, 0.7, 0.0
        if name == "fill":
            a.fill_(0.3)
            return p, 0.3, 0.0
        if name == "item":
            a[0] = 0.75
            return p.view(lambda places: places[0]), 0.75, 0.0
        if name == "strided":
            need(p.is_contiguous and p.where.size >= 3 and p.where.ndim)
            a.as_strided((2,), (2,), a.storage_offset()).mul_(2.0)
            part = p.view(lambda places: places.reshape(-1)[[0, 2]])
            return part, part.value * 2, part.slope * 2
        if name == "negated column":
            need(self.everything and p.where.ndim and p.where.size and not (a.is_leaf and a.requires_grad))
            with self.T.no_grad():
                a[..., 0].neg_()
            part = p.view(lambda places: places[..., 0])
            return part, -part.value, part.slope
        if name in ("own part", "unrecorded part"):
            need(p.where.ndim and (self.everything or name == "own part"))
            with self.T.set_grad_enabled(name == "own part" and not off):
                part = a[1:]
            a[1:] = part
            part = p.view(lambda places: places[1:])
            return part, part.value, part.slope * (name == "own part")
        if name == "function":
            need(self.plain and not off and not a.is_leaf and not a._is_view())  # refused only after it was written to
            Doubling.apply(a)
            return p, 2 * p.value, 2 * p.slope
        need(not q.is_complex or p.is_complex)
        if name == "rows":
            need(p.where.ndim and q.where.size and np.unique(p.where).size == p.where.size)  # PyTorch warns only
            a[[k % a.shape[0]]] = b.reshape(-1)[0].to(a.dtype)
            return p.view(lambda places: places[[k % p.shape[0]]]), q.value.reshape(-1)[0], q.slope.reshape(-1)[0]
        if a.shape != b.shape:
            need(q.where.size)
            b, q = b.reshape(-1)[0], q.view(lambda places: places.reshape(-1)[0])
        if q.values is p.values and (a.shape == b.shape or not self.compares):
            b = b.clone()  # what overlaps is undefined
        if name == "copy":
            a.copy_(b)
            return p, q.value, q.slope
        if name == "div":
            a.div_(b * b + 1)
        elif name == "lerp":
            a.lerp_(b.to(a.dtype).expand(a.shape), 0.3)
        else:
            getattr(a, f"{name}_")(b)
        return p, *BINARY[name](p, q)

    def other(self, a, b, p, q, k, off):
        names = OTHER if self.everything else [name for name in OTHER if name != "detached"]
        name = names[k % len(names)]
        need(not p.is_complex or name in ("detached", "clone", "grad"))
        if name == "detached":
            self.keep(a.detach(), p.detached())
        elif name == "clone":
            self.keep_fresh(a.clone(), p.value, p.slope)
        elif name == "cat":
            need(not q.is_complex)
            ends = [np.concatenate([x.reshape(-1), y.reshape(-1)]) for x, y in ((p.value, q.value), (p.slope, q.slope))]
            self.keep_fresh(self.T.cat([a.reshape(-1), b.reshape(-1)]), *ends)
        elif name == "rows":
            need(p.where.ndim and p.shape[0])
            rows = [0, a.shape[0] - 1, 0]
            self.keep_fresh(a[rows], p.value[rows], p.slope[rows])
        elif name == "cube":
            need(self.plain)
            self.keep_fresh(Cubing.apply(a), p.value**3, 3 * p.value**2 * p.slope)
        elif name == "sum":
            self.keep_fresh(a.sum(), p.value.sum(), p.slope.sum())
        elif name == "grad":
            self.read_gradients()
        elif name == "hook":
            need(self.T is gc and a.requires_grad and self.compares)
            a.register_hook(lambda g: g.mul_(1) * 1)
        elif name == "module":
            self.normalize()
        else:
            mask = p.value > 1
            t = self.T.where(a > 1, a, 3 * a)
            self.keep_fresh(t, *(np.where(mask, x, 3 * x) for x in (p.value, p.slope)))

    def cast(self, a, b, p, q, k, off):
        """Convert a tensor to the other precision."""
        need(not p.is_complex)
        with self.T.set_grad_enabled(not off):
            t = a.double() if a.dtype == self.T.float32 else a.float()
        self.rough = True
        self.keep_fresh(t, p.value, p.slope * (not off))

    def detach(self, a, b, p, q, k, off):
        """Detach a result in place: one that has views if there is one."""
        shared = [slot.slopes for slot in self.slots]
        bases = sorted(self.results, key=lambda n: (shared.count(self.slots[n].slopes), n))
        need(bases)
        number = bases[-1]
        a, p = self.tensors[number], self.slots[number]
        before = p.slopes
        need(
            self.plain
            and self.everything
            and not any(a is leaf for leaf in self.leaves)
            and not any(s.slopes is before and s is not p and s.slopes.later for s in self.slots)
            # a view that had not noticed a write loses its history at once
            and all(s is p or s.made == p.values.writes for s in self.slots if s.values is p.values)
        )
        try:
            a.detach_()
        except RuntimeError as error:
            if number in self.results:
                raise AssertionError("a result is no view") from error
            raise
        before.later = Memory(np.zeros_like(before.numbers))
        p.slopes = before.later
        return p.values

    def normalize(self):
        """Run a layer that collects statistics for some batches and not for others."""
        T = self.T
        if self.counted:
            return
        self.counted = True
        layer, x = T.nn.BatchNorm1d(2, momentum=None), T.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
        layer(x)
        layer.track_running_stats = False
        layer(x + 5)
        assert int(layer.num_batches_tracked) == 1

    # -- what comes out -----------------------------------------------------------------------------------------------

    def tolerance(self):
        return {"rtol": 1e-4, "atol": 1e-4} if self.rough else {"rtol": 1e-9, "atol": 1e-12}

    def compare(self):
        for t, slot in zip(self.tensors, self.slots, strict=True):
            assert tuple(t.shape) == slot.shape
            np.testing.assert_allclose(t.detach().resolve_conj().numpy(), slot.value, **self.tolerance())

    def loss(self):
        """Return a number that depends on all tensors, and its derivative along the direction."""
        total, slope = self.T.zeros((), dtype=self.T.float64), 0.0
        for n, (t, slot) in enumerate(zip(self.tensors, self.slots, strict=True)):
            square = (t * t.conj()).real if slot.is_complex else t * t
            total = total + square.sum() * (1 + n % 3)
            slope += 2 * (np.conj(slot.value) * slot.slope).real.sum() * (1 + n % 3)
        return total, slope

    def expected(self):
        """Whether derivatives are those of the interpreter: not where a shape has been changed without a record."""
        return not self.reshaped


def along(gradients, directions):
    return sum(0.0 if g is None else (g.detach().numpy() * d).sum() for g, d in zip(gradients, directions, strict=True))


def excused(error):
    """Nothing, if what was saved was overwritten, or a view has lost its history; else it is a failure."""
    if "inplace" not in str(error):
        raise error


def close(found, expected, run, rtol=1e-6):
    rough = run.rough
    scale = max(1.0, abs(expected))
    assert abs(found - expected) <= (2e-3 if rough else rtol) * scale or not np.isfinite(expected), (found, expected)


def gradients_of(program, everything=True):
    """Return the run and the differentiable gradients of its loss, or None if there is nothing to compare."""
    run = Run(program, 0.0, everything).run()
    try:
        total, slope = run.loss()
        if not run.leaves or not total.requires_grad:
            return None
        found = gc.autograd.grad(total, run.leaves, create_graph=True, allow_unused=True)
    except RuntimeError as error:
        if run.reshaped:  # a leaf that got gradients of two shapes, say: refused
            return None
        return excused(error)
    for g, start, leaf in zip(found, run.starts, run.leaves, strict=True):  # a leaf itself may have got another shape
        assert g is None or tuple(g.shape) in (start.shape, tuple(leaf.shape))
    return (run, slope, found) if run.expected() else None


def check_gradients(program):
    """Reverse mode against the interpreter; gradients can be written to."""
    result = gradients_of(program)
    if result is None:
        return False
    run, slope, found = result
    close(along(found, [first for first, _ in run.directions]), slope, run)
    plain = gc.autograd.grad(run.loss()[0], run.leaves, allow_unused=True)
    for g, h in zip(plain, found, strict=True):
        if g is not None:
            np.testing.assert_allclose(
                g.numpy(), h.detach().numpy(), rtol=1e-3 if run.rough else 1e-9, atol=1e-4 if run.rough else 1e-10
            )
            g.mul_(2)
    return True


def check_last(program):
    """Check the gradient of the last result alone, with a scalar or expanded upstream gradient."""
    run = Run(program).run()
    n = len(run.tensors) - 1
    t, slot = run.tensors[n], run.slots[n]
    if slot.is_complex or not t.requires_grad or not run.expected() or not slot.where.size:
        return False
    try:
        found = gc.autograd.grad(t.mean(), run.leaves, allow_unused=True)
    except RuntimeError as error:
        excused(error)
        return False
    close(along(found, [first for first, _ in run.directions]), slot.slope.mean(), run)
    for g in found:
        if g is not None:
            g.mul_(2)
    return True


def check_second(program):
    """Second derivatives against differences of the interpreter's first ones."""
    result = gradients_of(program, everything=False)
    if result is None or result[0].rough:
        return False
    run, _, found = result
    product = sum(
        (g * gc.tensor(first)).sum() for g, (first, _) in zip(found, run.directions, strict=True) if g is not None
    )
    if not isinstance(product, gc.Tensor) or not product.requires_grad:
        return False
    try:
        second = gc.autograd.grad(product, run.leaves, allow_unused=True)
    except RuntimeError as error:
        excused(error)
        return False
    step = 1e-5
    up, down = (Run(program, shift, False, skipped=run.skipped).run() for shift in (step, -step))
    if up.skipped != down.skipped or up.skipped != run.skipped:
        return False
    expected = (up.loss()[1] - down.loss()[1]) / (2 * step)
    found = along(second, [d for _, d in run.directions])
    assert abs(found - expected) <= 1e-3 * max(1.0, abs(expected)) or not smooth(run, up, down), (found, expected)
    return True


def smooth(*runs):
    """Whether no value of the runs is at a corner of a function."""
    corners = (0.0, 1.0, -1.0, 0.6, 0.5, -0.5, 0.8, 2.0)
    values = np.concatenate([slot.value.reshape(-1).real for run in runs for slot in run.slots] or [np.zeros(0)])
    return all((abs(values - c) > 1e-3).all() for c in corners) and (abs(values) < 1e3).all()


def check_tangents(program):
    """Forward mode against the interpreter."""
    kept = []

    def function(*leaves):
        run = Run(program, 0.0, False, leaves=leaves)
        kept[:] = [run.run()]
        return tuple(t * 1 for t in run.tensors)

    plain = Run(program, 0.0, False)
    if not plain.leaves:
        return False
    primals = tuple(gc.tensor(s) for s in plain.starts)
    tangents = tuple(
        gc.tensor(np.asarray(d).astype(s.dtype)) for (d, _), s in zip(plain.directions, plain.starts, strict=True)
    )
    _, found = gc.func.jvp(function, primals, tangents)
    run = kept[0]
    for t, slot in zip(found, run.slots, strict=True):
        scale = 1 + abs(slot.slope).max(initial=0.0)
        tolerance = 2e-3 if run.rough else 1e-6
        assert (abs(t.numpy() - slot.slope) <= tolerance * scale).all() or not np.isfinite(scale), (t, slot.slope)
    return True


def check_batches(program):
    """All samples at once against one after the other."""
    first, second = Run(program, 0.0, False), Run(program, 0.3, False)
    if not first.leaves:
        return False
    skipped = set()

    def function(*leaves):
        run = Run(program, 0.0, False, leaves=leaves)
        run.compares, run.lenient = False, True
        skipped.update(run.run().skipped)
        return tuple(t * 1 for t in run.tensors)

    batches = [gc.stack([gc.tensor(a), gc.tensor(b)]) for a, b in zip(first.starts, second.starts, strict=True)]
    found = gc.func.vmap(function)(*batches)
    runs = [Run(program, shift, False, skipped=skipped).run() for shift in (0.0, 0.3)]
    if any(run.skipped != skipped for run in runs):
        return False
    for n, t in enumerate(found):
        for row, run in zip(t, runs, strict=True):
            np.testing.assert_allclose(
                row.numpy(),
                run.tensors[n].detach().numpy(),
                rtol=1e-4 if run.rough else 1e-9,
                atol=1e-4 if run.rough else 1e-10,
            )
    return True


def check_captured(program):
    """Check the gradient by a transformation of `func`, and that it restores a tensor that the function writes to."""
    plain, seen, kept = Run(program, 0.0, False), gc.zeros((), dtype=gc.float64), []
    if not plain.leaves:
        return False

    def function(*leaves):
        run = Run(program, 0.0, False, leaves=leaves)
        run.compares = False
        total, slope = run.run().loss()
        seen.add_(total)
        kept[:] = [run, slope, float(total.detach())]
        return total

    try:
        found = gc.func.grad(function, argnums=tuple(range(len(plain.leaves))))(*(gc.tensor(s) for s in plain.starts))
    except RuntimeError as error:
        excused(error)
        return False
    run, slope, value = kept
    close(along(found, [first for first, _ in run.directions]), slope, run)
    assert not seen.requires_grad
    assert seen.grad_fn is None
    close(float(seen), value, run)
    return True


def check_order(program):
    """Check that a leaf gets its gradient right after the last node that leads to it, however old its own node is."""
    run, log = Run(program).run(), []
    try:
        total, _ = run.loss()
    except RuntimeError as error:
        excused(error)
        return False
    if total.grad_fn is None:
        return False
    nodes, before = [total.grad_fn], {}
    for node in nodes:  # it grows
        for following, _ in node.next_functions:
            if following is not None:
                before.setdefault(following, []).append(node)
                if len(before[following]) == 1:
                    nodes.append(following)
    leaves = {node: node.variable for node in nodes if hasattr(node, "variable")}
    for node in nodes:
        if node in leaves:
            leaves[node].register_post_accumulate_grad_hook(lambda t, node=node: log.append(node))
        else:
            node.register_hook(lambda grads, outputs, node=node: log.append(node))
    try:
        total.backward()
    except RuntimeError as error:
        if not run.reshaped:
            excused(error)
        return False
    for node in leaves:
        if node in log:
            last = max(log.index(earlier) for earlier in before[node] if earlier in log)
            between = log[last + 1 : log.index(node)]
            assert all(other in leaves for other in between), f"{len(between)} nodes ran before a leaf"
    return True


def check_peer(program):
    """PyTorch's results, errors, gradients and what they require, for the same program."""
    import torch

    runs = [Run(program, 0.0, False, T=T) for T in (gc, torch)]
    events = [[], []]
    first = [sum((leaf * 2).sum() for leaf in run.leaves) for run in runs]  # keeps the leaves' nodes
    for run, seen in zip(runs, events, strict=True):
        run.compares = False
        for n, leaf in enumerate(run.leaves):
            leaf.register_post_accumulate_grad_hook(lambda t, n=n, seen=seen: seen.append(("leaf", n)))
    for step in program[1]:
        outcomes = []
        for run, seen in zip(runs, events, strict=True):
            before = len(run.tensors)
            try:
                run.step(*step)
                outcomes.append(None)
            except Unfit:
                outcomes.append("unfit")
            except Exception as error:
                outcomes.append(error)
            if len(run.tensors) > before and step[0] in ("compute", "shaped") and run.tensors[-1].requires_grad:
                run.tensors[-1].register_hook(lambda g, n=before, seen=seen: seen.append(("result", n)))
        ours, theirs = outcomes
        if isinstance(theirs, Exception):
            return False
        assert theirs is ours or not isinstance(ours, Exception) or "inplace" in str(ours), f"{step}: {ours!r}"
        if ours is not theirs:
            return False
    del first
    return compare_with_peer(runs, events)


def compare_with_peer(runs, events):
    n = len(runs[0].tensors) - 1
    if runs[0].slots[n].is_complex or not runs[1].tensors[n].requires_grad:
        return False
    outcomes = [derivatives(run, n, seen) for run, seen in zip(runs, events, strict=True)]
    ours, theirs = outcomes
    if "error" in theirs[0]:
        return False
    if ours[0][0] == "inplace" and "kron" in runs[0].used:  # PyTorch does not notice writes to its operands
        return False
    if theirs[0][-1] in ("second time", "inplace"):  # PyTorch keeps more: the inputs of avg_pool1d and pad, say
        ours[0][len(theirs[0]) - 1 :] = theirs[0][-1:]
    assert ours[0] == theirs[0], f"{ours[0]} for {theirs[0]}"
    tolerance = 2e-3 if runs[0].rough else 1e-6
    for a, b in zip(ours[1], theirs[1], strict=False):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * 10)
    return True


def derivatives(run, n, seen):
    """Return what can be compared exactly of a result's derivatives, and numbers to compare within a tolerance."""
    T, t, facts, numbers = run.T, run.tensors[n], [], []
    try:
        grads = T.autograd.grad(t.sum(), run.leaves, create_graph=True, allow_unused=True)
        for order in range(2):
            facts.append([g if g is None else g.requires_grad for g in grads])
            numbers += [g.detach().numpy() for g in grads if g is not None]
            rest = [g.sum() for g in grads if g is not None and g.requires_grad]
            if order or not rest:
                break
            grads = T.autograd.grad(sum(rest), run.leaves, retain_graph=True, allow_unused=True)
        seen.clear()
        t.sum().backward()
        facts.append(before_leaves(seen))
        t.sum().backward()
        facts.append("again")
    except RuntimeError as error:
        facts.append(
            "second time" if "second time" in str(error) else "inplace" if "inplace" in str(error) else "error"
        )
    return facts, numbers


def before_leaves(seen):
    """For each leaf, the results whose gradients came before its own."""
    return sorted(
        (n, sorted(e for e in seen[:i] if e[0] == "result")) for i, (kind, n) in enumerate(seen) if kind == "leaf"
    )


MODES = {
    "gradients": check_gradients,
    "second": check_second,
    "tangents": check_tangents,
    "last": check_last,
    "batches": check_batches,
    "captured": check_captured,
    "order": check_order,
}


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--torch", action="store_true", help="compare with PyTorch as well")
    parser.add_argument("--stop", action="store_true", help="stop at the first that differs")
    options = parser.parse_args(arguments)
    modes = {**MODES, "peer": check_peer} if options.torch else MODES
    warnings.simplefilter("ignore")
    compared, differ = dict.fromkeys(modes, 0), {}
    for n in range(options.count):
        seed = options.seed + n
        name = list(modes)[n % len(modes)]
        try:
            compared[name] += modes[name](draw(seed))
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            if len(differ) < 100:
                print(
                    seed,
                    name,
                    type(error).__name__,
                    where.name,
                    str(error).strip()[:150].replace("\n", " "),
                    flush=True,
                )
            differ.setdefault((name, type(error).__name__, where.name), []).append(
                (seed, str(error).strip()[:100].replace("\n", " "))
            )
            if options.stop:
                break
        if n % 10000 == 9999:
            print(n + 1, "drawn;", sum(map(len, differ.values())), "differ", flush=True)
    print(n + 1, "drawn, of which compared to the end:", compared)
    for kind, found in sorted(differ.items(), key=lambda item: -len(item[1])):
        print(len(found), *kind, found[:3])
    return len(differ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
