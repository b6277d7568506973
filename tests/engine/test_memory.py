"""Memory goes when the last name goes: with the garbage collector off, nothing is kept by a cycle."""

import gc as collector
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

import gradcore as gc


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    collector.collect()
    collector.disable()
    yield
    collector.enable()


class Double(gc.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, x * 2)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        ctx.saved_tensors  # noqa: B018
        return grad * 2

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 2


class Failing(Double):
    @staticmethod
    def backward(ctx, grad):
        raise ZeroDivisionError


def raises_in_hook(t):
    t.register_hook(lambda g: 1 / 0)
    return t


PROGRAMS = {
    "elementwise": lambda x: (x * x + x.exp()).tanh().sum(),
    "matmul": lambda x: (x.reshape(2, 2) @ x.reshape(2, 2).T).relu().sum(),
    "softmax": lambda x: x.log_softmax(0)[1],
    "views": lambda x: x[1:].unsqueeze(0).expand(2, 3).sum(),
    "in place": lambda x: (x * 2).mul_(x).add_(1).sum(),
    "in place through a view": lambda x: _written(x).sum(),
    "several outputs": lambda x: sum(p.sum() for p in x.split(2)) + x.sort().values[0],
    "Function": lambda x: Double.apply(x).sum(),
    "norms": lambda x: gc.nn.functional.layer_norm(x, (4,)).square().sum(),
    "convolution": lambda x: gc.nn.functional.conv1d(x.reshape(1, 1, 4), x[:2].reshape(1, 1, 2)).sum(),
    "reshaped in place": lambda x: _turned(x).sum(),
    "hooks": lambda x: _watched(x),
    "node hooks": lambda x: _hooked(x * x).sum(),
    "retained": lambda x: _retaining(x * 2).exp().sum(),
    "saved tensors hooks": lambda x: _packed(x),
    "written by a Function": lambda x: Writing.apply(x * 1).sum(),
    "vmap": lambda x: gc.vmap(lambda v: (v * x).exp().sum())(x.reshape(2, 2)[:, :, None]).sum(),
    "vmap of gradients": lambda x: gc.vmap(gc.func.grad(lambda v: (v * v.exp()).sum()))(x.reshape(2, 2)).sum(),
    "linalg": lambda x: gc.linalg.det(x.reshape(2, 2) + 3 * gc.eye(2, dtype=gc.float64)),
}


class Writing(gc.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

    @staticmethod
    def jvp(ctx, tangent):
        return tangent.mul_(2)


def _turned(x):
    y = (x * 2).reshape(2, 2).clone()
    row = y[0]
    y.t_()
    row.mul_(3)
    return y


def _watched(x):
    y, z = x * 2, x.sin()
    if y.requires_grad:
        gc.autograd.graph.register_multi_grad_hook((y, z), lambda grads: None)
        y.register_hook(lambda grad: grad * 2)
    return (y * z).sum()


def _hooked(y):
    if y.requires_grad:
        y.grad_fn.register_hook(lambda inputs, outputs: None)
        y.grad_fn.register_prehook(lambda outputs: None)
    return y


def _retaining(y):
    if y.requires_grad:
        y.retain_grad()
    return y


def _packed(x):
    with gc.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True), gc.tensor):
        return (x.exp() * x).sum()


def _written(x):
    y = x * 2
    y[1:].mul_(3)
    return y


def references(x, y):
    """Weak references to a result, its node and the nodes before it."""
    found = [weakref.ref(y), weakref.ref(y.grad_fn)]
    found += [weakref.ref(node) for node, _ in y.grad_fn.next_functions if node is not None]
    return found


def leaf():
    return gc.tensor([0.5, -1.0, 2.0, 0.25], dtype=gc.float64, requires_grad=True)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
class TestFreed:
    def test_after_forward(self, program):
        x = leaf()
        y = program(x)
        kept = references(x, y)
        del y
        assert [r() for r in kept] == [None] * len(kept)

    def test_after_backward(self, program):
        x = leaf()
        y = program(x)
        kept = references(x, y)
        y.backward()
        del y
        assert [r() for r in kept] == [None] * len(kept)

    def test_after_double_backward(self, program):
        x = leaf()
        y = program(x)
        kept = references(x, y)
        (slope,) = gc.autograd.grad(y, x, create_graph=True)
        if slope.requires_grad:
            kept += references(x, slope)
            slope.square().sum().backward()
        del y, slope
        x.grad = None
        assert [r() for r in kept] == [None] * len(kept)

    def test_under_anomaly_detection(self, program):
        x = leaf()
        with gc.autograd.set_detect_anomaly(True):
            y = program(x)
            kept = references(x, y)
            y.backward()
        del y
        assert [r() for r in kept] == [None] * len(kept)

    def test_after_a_backward_in_a_hook(self, program):
        x = leaf()

        def inner(grad):
            with gc.enable_grad():
                program(leaf()).backward()

        y = x * 1
        y.register_hook(inner)
        y = program(y)
        kept = references(x, y)
        y.backward()
        del y
        assert [r() for r in kept] == [None] * len(kept)

    def test_after_an_exception_in_a_hook(self, program):
        x = leaf()
        y = program(raises_in_hook(x * 1))
        kept = references(x, y)
        with pytest.raises(ZeroDivisionError):
            y.backward()
        del y
        assert [r() for r in kept] == [None] * len(kept)

    def test_after_an_exception_in_a_function(self, program):
        x = leaf()
        y = program(Failing.apply(x))
        kept = references(x, y)
        with pytest.raises(ZeroDivisionError):
            y.backward()
        del y
        assert [r() for r in kept] == [None] * len(kept)

    def test_forward_mode(self, program):
        x = leaf().detach()
        out, tangent = gc.func.jvp(program, (x,), (gc.ones_like(x),))
        kept = [weakref.ref(out), weakref.ref(tangent)]
        del out, tangent
        assert [r() for r in kept] == [None] * len(kept)


def test_saved_arrays_go_during_backward():
    """What a node saved is released when the node has run, not at the end."""
    x = gc.ones(1000, requires_grad=True)
    hidden = x.exp()
    memory = weakref.ref(hidden._array) if hasattr(hidden._array, "__weakref__") else None
    alive = []
    y = (x * 1).exp()
    array = weakref.ref(y._array)
    (x * 1).register_hook(lambda g: None)
    start = x * 1
    z = start.exp()
    array = weakref.ref(z._array)
    start.register_hook(lambda g: alive.append(array() is not None))
    total = z.sum()
    del z
    total.backward()
    assert alive == [False]
    assert memory is None or memory() is not None


def test_a_partner_that_needs_no_gradient_is_not_kept():
    """Of ``x * w`` only `w` is needed for the gradient of `x`."""
    w = gc.tensor(np.ones(4))
    x = gc.ones(4, dtype=gc.float64, requires_grad=True) * 1
    saved = weakref.ref(x._array)
    y = x * w
    del x
    assert saved() is None
    y.sum().backward()


def test_results_of_a_call_that_a_saved_tensors_hook_ended_are_not_kept():
    made = []

    class Saving(gc.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.clone()
            ctx.save_for_backward(y)
            made.append(weakref.ref(y))
            return y

    with gc.autograd.graph.saved_tensors_hooks(lambda t: 1 / 0, lambda t: t), pytest.raises(ZeroDivisionError):
        Saving.apply(gc.ones(2, requires_grad=True))
    assert made[0]() is None


#: Calls of a matrix that fail: in a kernel, in a body of other operations, before either, and in backward.
FAILING = {
    "cholesky": lambda x: gc.linalg.cholesky(-x),
    "cross_entropy": lambda x: gc.nn.functional.cross_entropy(x, gc.full((3,), 7)),
    "elementwise": lambda x: x + gc.ones(5),
    "gather": lambda x: x.gather(0, gc.full((3, 3), 7)),
    "in place": lambda x: x.add_(gc.ones(5)),
    "index": lambda x: x[gc.tensor([7])],
    "linear": lambda x: gc.nn.functional.linear(x, gc.ones(5, 5)),
    "matmul": lambda x: x @ gc.ones(5, 5),
    "no kernel": lambda x: gc.linalg.inv(x.bool()),
    "no memory": lambda x: x.new_zeros(1).expand(1 << 46) * 2,
    "norm": lambda x: gc.linalg.vector_norm(x.long()),
    "vmap": lambda x: gc.vmap(gc.linalg.cholesky)(-x[None]),
    "backward": lambda x: Failing.apply(x).sum().backward(),
}


@pytest.mark.parametrize("traceback", ["short", "full"])
@pytest.mark.parametrize("name", FAILING)
def test_errors_keep_nothing_alive(name, traceback):
    before = gc.get_traceback()
    gc.set_traceback(traceback)
    x = gc.eye(3).requires_grad_(name == "backward")
    alive = weakref.ref(x)
    failed = False
    try:
        FAILING[name](x)
    except Exception:
        failed = True
    finally:
        gc.set_traceback(before)
    del x
    assert failed
    assert alive() is None
