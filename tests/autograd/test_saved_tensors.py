"""Hooks on tensors that are saved for backward."""

import weakref

import pytest

import gradcore as gc
from gradcore.autograd import Function, SavedTensor
from gradcore.autograd.graph import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)

PROGRAMS = {
    "input": lambda x: x * x,
    "result": lambda x: x.exp(),
    "both": lambda x: (x / (x + 3)) ** 3,
    "sequence": lambda x: gc.stack([x, x * x]).prod(0),
    "indices": lambda x: x.max(0).values,
    "matrix": lambda x: x.view(1, 2) @ x.view(2, 1),
    "mixed dtypes": lambda x: x * x.double(),
    "in place": lambda x: (x * 1).exp_(),
    "view": lambda x: (x.view(2, 1) * 2).view(2)[0].exp(),
}


def identity(t):
    return t


def leaf(*values):
    return gc.tensor(values, requires_grad=True)


PACKS = {"same": (identity, identity), "copy": (gc.clone, identity), "list": (lambda t: t.tolist(), gc.tensor)}


@pytest.mark.parametrize(
    ("program", "hooks"),
    # A list forgets the dtype.
    [(p, h) for p in PROGRAMS for h in PACKS if h != "list" or p not in ("mixed dtypes", "indices")],
)
def test_gradients_are_those_without_hooks(program, hooks):
    x = leaf(0.5, -2.0)
    with saved_tensors_hooks(*PACKS[hooks]):
        y = PROGRAMS[program](x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    (expected,) = gc.autograd.grad(PROGRAMS[program](x).sum(), x)
    assert gc.allclose(x.grad, 2 * expected)


def test_each_saved_tensor_is_packed_and_unpacked_once():
    calls = []

    def pack(t):
        calls.append("pack")
        assert not gc.is_grad_enabled()
        return t

    def unpack(t):
        calls.append("unpack")
        return t

    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with saved_tensors_hooks(pack, unpack):
        z = (x / y).sum()
    assert calls == ["pack", "pack"]
    z.backward()
    assert sorted(calls[2:]) == ["unpack", "unpack"]


def test_hooks_see_tensors_with_their_history():
    seen = []
    x = leaf(1.0)
    with saved_tensors_hooks(lambda t: seen.append(t) or t, identity):
        y = x * x
        z = (y * 2).exp()
    assert seen[0] is x
    assert seen[-1].grad_fn is z.grad_fn
    assert seen[-1].requires_grad


def test_unpacked_tensors_have_their_history():
    x = leaf(0.5)
    with saved_tensors_hooks(gc.clone, identity):
        y = x * 1
        z = (y * y).exp()
        (first,) = gc.autograd.grad(z, x, create_graph=True)
    assert z.grad_fn._saved_result.grad_fn is z.grad_fn
    assert z.grad_fn.next_functions[0][0]._saved_self.grad_fn is y.grad_fn
    (second,) = gc.autograd.grad(first, x)
    assert second.item() == pytest.approx((2 + 4 * 0.25) * 1.2840254)


def test_the_innermost_pair_is_used():
    calls = []

    def noting(name):
        return saved_tensors_hooks(lambda t: calls.append(name) or t, identity)

    x = leaf(1.0)
    with noting("outer"):
        with noting("inner"):
            x.exp()
        x.exp()
    x.exp()
    assert calls == ["inner", "outer"]


def test_writes_are_the_hooks_responsibility():
    x = leaf(1.0)
    with saved_tensors_hooks(gc.clone, identity):
        y = x.exp()
    y.mul_(3)
    y.backward()
    assert x.grad.item() == pytest.approx(3 * 2.7182818)


def test_custom_functions_are_included():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x * 2)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            _, doubled = ctx.saved_tensors
            return grad * doubled

    x = leaf(1.0, 2.0)
    with saved_tensors_hooks(lambda t: t.detach() * 10, identity):
        y = Square.apply(x)
    assert y.grad_fn.saved_tensors[0].requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 40.0]


def test_misuse():
    x = leaf(1.0)
    with pytest.raises(TypeError, match="needs two functions, got int"), saved_tensors_hooks(1, 2):
        pass
    with saved_tensors_hooks(identity, lambda t: 3):
        y = x.exp()
    with pytest.raises(TypeError, match="Output of saved tensor unpack_hook expected to be a Tensor but got result of"):
        y.backward()
    with (
        pytest.raises(RuntimeError, match="A saved tensor pack hook is modifying its input in place"),
        saved_tensors_hooks(lambda t: t.mul_(2), identity),
    ):
        (x * 1).exp()
    with pytest.raises(ZeroDivisionError), saved_tensors_hooks(lambda t: 1 / 0, identity):
        x.exp()
    assert x.exp().grad_fn._saved_result is not None


def test_hooks_can_be_forbidden():
    x = leaf(1.0)
    with disable_saved_tensors_hooks("not here"):
        x.exp().backward()
        with pytest.raises(RuntimeError, match="not here"), saved_tensors_hooks(identity, identity):
            pass
    with (
        saved_tensors_hooks(identity, identity),
        pytest.raises(RuntimeError, match="nor here"),
        disable_saved_tensors_hooks("nor here"),
    ):
        pass
    with saved_tensors_hooks(identity, identity):
        x.exp()


def test_one_saved_tensor_can_have_hooks():
    calls = []
    x = leaf(1.0)
    for y, name in ((x.exp(), "result"), (x * x, "self")):
        saved = getattr(y.grad_fn, f"_raw_saved_{name}")
        saved.register_hooks(lambda t: calls.append("pack") or t, lambda t: calls.append("unpack") or t)
        with pytest.raises(RuntimeError, match="hooks have already been set"):
            saved.register_hooks(identity, identity)
        y.backward()
        with pytest.raises(RuntimeError, match="after it has been freed"):
            saved.register_hooks(identity, identity)
    assert calls == ["pack", "unpack"] * 2


@pytest.mark.parametrize(
    "make",
    [lambda x: x[gc.tensor([0])], lambda x: (x * 1).index_put((gc.tensor([0]),), gc.ones(1)), lambda x: x[x > 0]],
    ids=["index", "index_put", "mask"],
)
def test_indices_are_freed(make):
    y = make(leaf(1.0, 2.0))
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()
    for name in ("_saved_indices", "_raw_saved_indices"):
        with pytest.raises(RuntimeError, match="have already been freed"):
            getattr(y.grad_fn, name)


def test_hooks_can_be_forbidden_in_a_function():
    @disable_saved_tensors_hooks("not here")
    def function(depth):
        if depth:
            function(depth - 1)
        with saved_tensors_hooks(lambda t: t, lambda t: t):
            pass

    for depth in (0, 2):
        with pytest.raises(RuntimeError, match="not here"):
            function(depth)
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        pass


@pytest.mark.parametrize("pin_memory", [False, True])
def test_save_on_cpu_and_allow_mutation(pin_memory):
    x = leaf(1.0, 2.0)
    with save_on_cpu(pin_memory=pin_memory):
        y = x.exp() * x
    y.sum().backward()
    assert gc.allclose(x.grad, x.exp() * (1 + x))
    x.grad = None
    with allow_mutation_on_saved_tensors():
        y = x * 1
        z = (y * y).sum()
        y.zero_()
    z.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_what_is_kept_can_be_looked_at():
    a = leaf(2.0)
    with saved_tensors_hooks(identity, gc.clone):
        b = a**2
    c = b.exp()
    packed, result, plain = b.grad_fn._raw_saved_self, c.grad_fn._raw_saved_result, (c**2).grad_fn._raw_saved_self
    assert packed.data is a
    assert packed.unpack_hook is gc.clone
    assert plain.data is c
    assert plain.unpack_hook is None
    assert result.data.item() == c.item()
    assert not result.data.requires_grad
    for saved in (packed, result, plain):
        assert isinstance(saved, SavedTensor)
        assert saved.unpack().requires_grad
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python is forbidden"):
        SavedTensor()


def test_indices_are_saved_tensors_too():
    calls = []

    def pack(t):
        calls.append(t.dtype)
        return t

    x, rows = gc.ones(2, 3, requires_grad=True), gc.tensor([1, 1])
    with saved_tensors_hooks(pack, identity):
        y = x[:, rows]
    assert calls == [gc.int64]
    y = x[:, rows]
    absent, index = y.grad_fn._raw_saved_indices
    index.register_hooks(lambda t: t * 2, lambda t: t // 2)
    assert y.grad_fn._saved_indices[0] is None
    assert y.grad_fn._saved_indices[1].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="value None is forbidden"):
        absent.register_hooks(identity, identity)
    y.sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0, 0.0]] * 2
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        y.grad_fn._saved_indices  # noqa: B018


class Keeping(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, None)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        x, none = ctx.saved_tensors
        assert none is None
        return grad * x


def test_hooks_of_one_tensor_that_a_function_saves():
    x = leaf(3.0)
    y = Keeping.apply(x)
    kept, none = y.grad_fn._raw_saved_tensors
    assert kept.data is x
    assert none.data is None
    with pytest.raises(TypeError, match="incompatible function arguments"):
        kept.register_hooks(1, identity)
    with pytest.raises(RuntimeError, match="value None is forbidden"):
        none.register_hooks(identity, identity)
    kept.register_hooks(lambda t: t.detach() * 5, identity)
    with pytest.raises(RuntimeError, match="hooks have already been set"):
        kept.register_hooks(identity, identity)
    y.backward(gc.ones(1))
    assert x.grad.tolist() == [15.0]
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        y.grad_fn._raw_saved_tensors  # noqa: B018


def test_saved_tensors_can_go_as_soon_as_they_are_asked_for():
    alive = []

    class Once(Keeping):
        clear_saved_tensors_on_access = True

        @staticmethod
        def backward(ctx, grad):
            reference = weakref.ref(ctx.saved_tensors[0])
            alive.append(reference() is not None)
            return grad

    x = leaf(1.0)
    y = Once.apply(x * 1)
    y.backward(gc.ones(1), retain_graph=True)
    assert alive == [False]
    with pytest.raises(
        RuntimeError, match="saved_tensors can only be accessed once when clear_saved_tensors_on_access"
    ):
        y.backward(gc.ones(1))


class KeepsAll(gc.autograd.Function):
    """Saves what it is given, and shows in backward what comes back."""

    @staticmethod
    def forward(ctx, seen, x, *tensors):
        ctx.save_for_backward(x, *tensors)
        ctx.seen = seen
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        saved = ctx.saved_tensors
        ctx.seen += saved
        return None, grad, *(None for _ in saved[1:])


class Tagged(gc.Tensor):
    """A tensor of a class of its own."""


@pytest.mark.parametrize("early_stop", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_checkpoints_give_back_what_does_not_require_grad_as_it_is(nested, early_stop):
    from gradcore.utils.checkpoint import checkpoint

    plain, own = gc.ones(2), gc.ones(2).as_subclass(Tagged)
    plain.tag, own.tag = "plain", "own"
    seen = []

    def inner(x):
        return KeepsAll.apply(seen, x * 2, plain, own)

    def outer(x):
        return checkpoint(inner, x.sin(), use_reentrant=False, early_stop=early_stop) if nested else inner(x)

    x = gc.ones(2, requires_grad=True)
    checkpoint(outer, x, use_reentrant=False, early_stop=early_stop).sum().backward()
    assert seen[1] is plain
    assert seen[2] is own
    assert seen[2].tag == "own"


@pytest.mark.parametrize("dtype", [gc.float64, gc.bfloat16, gc.int64])
def test_unpacked_tensors_are_converted_to_the_dtype_that_was_saved(dtype: gc.dtype) -> None:
    """Kernels read saved tensors by that dtype."""
    x, weight = gc.arange(16.0).reshape(1, 2, 8) % 5, gc.arange(12.0).reshape(2, 2, 3) - 6
    for function in (gc.nn.functional.conv1d, lambda x, w: gc.softmax(x, -1) * w.sum(), lambda x, w: x[..., :3] @ w.mT):
        gradients = []
        for unpack in (lambda t: t, lambda t: t.to(dtype)):
            a, b = x.clone().requires_grad_(), weight.clone().requires_grad_()
            with gc.autograd.graph.saved_tensors_hooks(lambda t: t.round() if dtype is gc.int64 else t, unpack):
                out = function(a, b)
            out.sum().backward()
            gradients.append((a.grad, b.grad))
        for found, expected in zip(gradients[1], gradients[0], strict=True):
            assert found.dtype is gc.float32
            assert gc.allclose(found, expected, rtol=0.02, atol=0.02)


def test_unpacked_tensors_have_the_shape_that_was_saved() -> None:
    x = gc.ones(1, 2, 8, requires_grad=True)
    with gc.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t[..., :-1]):
        out = gc.nn.functional.conv1d(x, gc.ones(2, 2, 3))
    with pytest.raises(RuntimeError, match=r"shape \[2, 2, 3\] of the tensor that was saved but got \[2, 2, 2\]"):
        out.sum().backward()
    assert x.grad is None
