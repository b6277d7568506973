"""Views and writes in place: which are refused, what happens to retained gradients and hooks, inference mode."""

import numpy as np
import pytest

import gradcore as gc
from gradcore.ops.declare.table import OPS

MULTIPLE = "output of a function that returns multiple views"


def leaf(*values):
    return gc.tensor(values, requires_grad=True)


def weighted(y):
    return (y * gc.tensor([1.0, 10.0, 100.0, 1000.0][: y.numel()])).sum()


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda y: y[1:].mul_(2), [1.0, 20.0, 200.0, 2000.0]),
        (lambda y: y.view(2, 2).t()[1].mul_(2), [1.0, 20.0, 100.0, 2000.0]),
        (lambda y: y[::2].zero_(), [0.0, 10.0, 0.0, 1000.0]),
        (lambda y: y[1:].add_(y[:3].clone()), [11.0, 110.0, 1100.0, 1000.0]),
        (lambda y: y[:2].copy_(y[2:]), [0.0, 0.0, 101.0, 1010.0]),
        (lambda y: y.view(2, 2).diagonal().neg_(), [-1.0, 10.0, 100.0, -1000.0]),
        (lambda y: y.expand(1, 4)[0, 1:2].fill_(7.0), [1.0, 0.0, 100.0, 1000.0]),
        (lambda y: (y[:3].mul_(2), y[2:].mul_(3)), [2.0, 20.0, 600.0, 3000.0]),
    ],
)
def test_gradients_through_writes_to_views(write, expected):
    x = leaf(1.0, 2.0, 3.0, 4.0)
    y = x * 1
    write(y)
    weighted(y).backward()
    assert x.grad.tolist() == expected


def test_views_follow_their_base():
    x = leaf(1.0, 2.0)
    buffer = gc.zeros(4)
    early, part = buffer[2:], buffer[1:3]
    part.copy_(x)
    assert early.requires_grad
    assert buffer.grad_fn.name() == "torch::autograd::CopySlices"
    (early.sum() * 10 + buffer.sum()).backward()
    assert x.grad.tolist() == [1.0, 11.0]


def test_second_derivatives_through_writes_to_views():
    x = leaf(0.3, 0.7)
    y = x * 1
    y[1:].tanh_()
    (first,) = gc.autograd.grad((y * y).sum(), x, create_graph=True)
    (second,) = gc.autograd.grad(first.sum(), x)
    t = gc.tanh(x.detach()[1])
    assert second.tolist() == pytest.approx([2.0, (2 * (1 - t**2) * (1 - 3 * t**2)).item()])


@pytest.mark.slow
def test_many_views_of_views_take_linear_memory_and_time():
    x = gc.ones(4, requires_grad=True)
    y = x * 1
    view = y
    for _ in range(20_000):
        view = view.view(2, 2).view(4)
    view.mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [3.0] * 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda y: y.unbind(0)[0], MULTIPLE),
        (lambda y: y.split(1)[1], MULTIPLE),
        (lambda y: y.chunk(2)[0][0], MULTIPLE),
        (lambda y: gc.no_grad()(lambda: y[:1])(), "A view was created in no_grad mode"),
        (lambda y: gc.inference_mode()(lambda: y[:1])(), "A view was created in inference mode"),
    ],
)
def test_ambiguous_writes_are_refused(make, message):
    y = leaf(1.0, 2.0) * 1
    view = make(y)
    with pytest.raises(RuntimeError, match=f"{message}(?s:.*)|Output . of .* is a view and is being .*{message}"):
        view.mul_(2)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        view * 1
    assert "grad_fn=<Invalid>" in repr(view)
    with gc.no_grad():
        view.mul_(2)
        assert (view * 1).grad_fn is None


def test_a_recorded_write_to_one_of_several_views_is_refused_before_it_happens():
    buffer = gc.zeros(2)
    first, _ = buffer.unbind()
    first.add_(1)
    with pytest.raises(RuntimeError, match=MULTIPLE):
        first.mul_(gc.tensor(3.0, requires_grad=True))
    assert buffer.tolist() == [1.0, 0.0]


def test_retained_gradients_are_those_of_the_newest_value():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    part = y[:2]
    y.retain_grad()
    part.retain_grad()
    part.mul_(5)
    (y * y).sum().backward(retain_graph=True)
    assert y.grad.tolist() == [20.0, 40.0, 12.0]
    part.sum().backward()
    assert part.grad.tolist() == [1.0, 1.0]


def test_hooks_stay_with_the_value_that_they_were_registered_on():
    x, seen = leaf(1.0), []
    y = x * 2
    y.register_hook(lambda grad: seen.append(("before", grad.item())))
    y.mul_(3)
    y.register_hook(lambda grad: seen.append(("after", grad.item())))
    y.backward()
    assert seen == [("after", 1.0), ("before", 3.0)]


def test_hooks_see_missing_gradients_as_none():
    x, seen = gc.ones(2, 3, requires_grad=True), []
    first, second = (x * 1).unbind()
    first.register_hook(lambda grad: seen.append(grad))
    second.register_hook(lambda grad: seen.append(grad))
    first.grad_fn.register_prehook(lambda grads: seen.append(len(grads)))
    first.sum().backward()
    assert seen[0].tolist() == [1.0, 1.0, 1.0]
    assert seen[1:] == [None, 2]


@pytest.mark.parametrize(
    ("hook", "error", "message"),
    [
        (lambda grad: 3, TypeError, "expected Variable, but hook returned 'int'"),
        (lambda grad: gc.ones(3), RuntimeError, "hook '<lambda>' has changed the size of value"),
        (
            lambda grad: grad.double(),
            RuntimeError,
            r"has changed the type of value \(was torch.FloatTensor got torch.DoubleTensor\)",
        ),
    ],
)
def test_hooks_return_a_gradient_of_the_same_kind(hook, error, message):
    for register in (lambda y: y.register_hook(hook), lambda y: y.grad_fn.register_prehook(lambda g: (hook(g[0]),))):
        y = leaf(1.0) * 1
        register(y)
        with pytest.raises(error, match=message):
            y.backward()


def test_node_hooks_return_the_right_number_of_gradients():
    y = leaf(1.0) * 1
    y.grad_fn.register_prehook(lambda grads: grads * 2)
    with pytest.raises(RuntimeError, match=r"incorrect number of values \(got 2, but expected 1\)"):
        y.backward()


def test_the_node_of_a_leaf_has_hooks_too():
    x, seen = leaf(1.0), []
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    x.register_hook(lambda grad: seen.append("tensor"))
    node.register_prehook(lambda grads: seen.append("before"))
    node.register_hook(lambda inputs, outputs: seen.append(("after", inputs, outputs[0].item(), x.grad.item())))
    gc.autograd.grad(y, x, retain_graph=True)
    assert seen == ["tensor"]
    y.backward()
    assert seen[1:] == ["tensor", "before", ("after", (), 2.0, 2.0)]


# -- inference mode ---------------------------------------------------------------------------------------------------


def test_what_is_made_in_inference_mode_stays_apart():
    x = leaf(1.0, 2.0)
    with gc.inference_mode():
        made = [gc.ones(2), gc.rand(2), x * 2, x.clone(), x[x > 1], gc.zeros_like(x), gc.stack([x, x])]
        views = [x[:1], x.view(2), x.detach()]
        with gc.enable_grad():
            assert gc.is_grad_enabled()
            assert not (x * 2).requires_grad
        with gc.inference_mode(False):
            assert (x * 2).requires_grad
    assert all(t.is_inference() and not t.requires_grad for t in made)
    assert not any(t.is_inference() for t in views)
    assert not made[0].clone().is_inference()
    assert made[0].view(2).is_inference()
    assert made[0].detach().is_inference()


def test_what_is_forbidden_outside():
    with gc.inference_mode():
        x = gc.ones(2)
        x.mul_(2)
    for write in (lambda: x.mul_(2), lambda: x[:1].mul_(2), lambda: x.__setitem__(0, 1.0), lambda: x.zero_()):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            write()
        with gc.no_grad(), pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            write()
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        x.requires_grad_()
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        x._version  # noqa: B018
    assert x.tolist() == [2.0, 2.0]


def test_backward_in_inference_mode_makes_ordinary_gradients():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    with gc.inference_mode():
        y.backward()
    assert not x.grad.is_inference()
    x.grad.add_(1)


def test_variables_are_tensors():
    x = gc.ones(2, requires_grad=True)
    y = gc.autograd.Variable(x * 2, requires_grad=True)
    assert isinstance(y, gc.Tensor)
    assert isinstance(y, gc.autograd.Variable)
    assert y.is_leaf
    assert not gc.autograd.Variable(x).requires_grad
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        gc.autograd.Variable([1.0])


def test_a_view_can_be_made_of_another_base():
    base, other = gc.zeros(2, 3), gc.arange(6.0).reshape(2, 3).requires_grad_()
    part = base.t()[1]._view_func(other)
    assert part.tolist() == [1.0, 4.0]
    part.sum().backward()
    assert other.grad.tolist() == [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    assert base[0]._view_func(gc.zeros(3, 3)) is None  # not like its own base
    assert base._view_func(other) is None  # no view


VIEWS = {
    "slice": lambda t: t[1:],
    "element": lambda t: t[1],
    "steps": lambda t: t[::2],
    "shape": lambda t: t.view(2, 2),
    "transposed": lambda t: t.view(2, 2).t()[0],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_of_a_detached_base_lead_nowhere(view):
    x = leaf(1.0, 2.0, 3.0, 4.0)
    base = x * 2
    part = view(base)
    kept = view(base)
    base.detach_()
    assert part.requires_grad  # of what it was computed from
    base.fill_(0.3)
    assert part.requires_grad
    assert gc.autograd.grad(part.sum(), x, allow_unused=True) == (None,)
    base.mul_(leaf(5.0))
    assert gc.autograd.grad((kept * 3).sum(), x, allow_unused=True) == (None,)


KEYS = [slice(1, None), 1, ..., slice(None), (slice(None, None, 2),), (None, slice(1, 3))]


@pytest.mark.parametrize("key", KEYS, ids=map(str, KEYS))
def test_a_part_that_is_written_to_itself_keeps_the_history_of_what_is_written(key):
    weights = gc.tensor([1.0, 10.0, 100.0, 1000.0])

    def gradients(recorded, again):
        x = leaf(1.0, 2.0, 3.0, 4.0)
        y = x * 2
        with gc.set_grad_enabled(recorded):
            part = y[key]
        y[key] = part.clone() if again else part
        return gc.autograd.grad((y * weights).sum(), x)[0].tolist()

    assert gradients(True, False) == gradients(True, True)
    with gc.no_grad():
        mask = gc.zeros(4)
        mask[key] = 1
    assert gradients(False, False) == (2 * weights * (1 - mask)).tolist()


@pytest.mark.parametrize("key", KEYS, ids=map(str, KEYS))
def test_a_part_of_a_leaf_cannot_be_written_to_itself(key):
    x = leaf(1.0, 2.0, 3.0, 4.0)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place operation"):
        x[key] = x[key]


@pytest.mark.parametrize("write", ["add_", "sub_", "mul_", "div_", "copy_", "addcmul_"])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("dtypes", [(gc.float32, gc.float64), (gc.float64, gc.float32), (gc.complex64, gc.float64)])
def test_views_written_with_another_dtype(write, view, dtypes):
    """The gradients are those of the same computation out of place, in the tensor's dtype."""
    own, other = dtypes

    def gradients(inplace):
        x, y = (
            leaf(1.0, 2.0, 3.0, 4.0).to(own).detach().requires_grad_(),
            gc.tensor(3.0, dtype=other, requires_grad=True),
        )
        base = x * 2
        part = view(base)
        args = (y, y * 0.5) if write == "addcmul_" else (y,)
        if inplace:
            getattr(part, write)(*args)
        else:
            new = y.to(own).expand(part.shape) if write == "copy_" else getattr(part, write[:-1])(*args)
            mask = gc.zeros(4, dtype=own)
            view(mask)[...] = 1
            spread = gc.zeros(4, dtype=own)
            with gc.enable_grad():
                view(spread).copy_(new.to(own))
            base = base * (1 - mask) + spread
        loss = (base * base).sum()
        return gc.autograd.grad(loss.real if loss.is_complex() else loss, [x, y])

    for found, expected in zip(gradients(True), gradients(False), strict=True):
        assert found.dtype is expected.dtype
        assert gc.allclose(found, expected)


def test_grad_of_a_stale_view_is_none():
    base = leaf(1.0, 2.0) * 2
    part = base.unbind(0)[0]
    base.mul_(2)
    with pytest.warns(UserWarning, match="that is not a leaf"):
        assert part.grad is None
    with pytest.raises(RuntimeError, match="multiple views"):
        part.grad_fn  # noqa: B018


FILLS = {
    "zero_": lambda t, v: t.zero_(),
    "number": lambda t, v: t.fill_(2.0),
    "item": lambda t, v: t.__setitem__(slice(None), 3.0),
}
REPEATED = {
    "expand": lambda t: t.expand(3, 2),
    "broadcast": lambda t: gc.broadcast_to(t, (3, 2)),
    "part": lambda t: t[:1].expand(2),
}


@pytest.mark.parametrize("repeated", REPEATED.values(), ids=REPEATED)
@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS)
def test_repeated_memory_can_be_filled_under_every_transformation(fill, repeated):
    def function(v):
        t = v * 1
        fill(repeated(t), v)
        return t * v

    v, d = gc.tensor([2.0, 3.0]), gc.tensor([1.0, -1.0])
    value, tangent = gc.func.jvp(function, (v,), (d,))
    assert gc.allclose(value, function(v))
    jacobian = gc.func.jacrev(function)(v)
    assert gc.allclose(tangent, jacobian @ d)
    assert gc.allclose(gc.func.jacfwd(function)(v), jacobian)
    assert gc.allclose(gc.func.vmap(function)(gc.stack([v, d])), gc.stack([function(v), function(d)]))


STRIDED = {
    "cubes": lambda t: t.fill_diagonal_(0.5),
    "fill_": lambda t: t.as_strided((2, 2), (1, 4), 1).fill_(2.0),
    "zero_": lambda t: t.as_strided((3,), (2,)).zero_(),
    "mul_": lambda t: t.as_strided((2, 2), (2, 1), 2).mul_(3.0),
    "copy_": lambda t: t.as_strided((4,), (1,), 3).copy_(t.as_strided((4,), (1,), 0).clone() ** 2),
    "item": lambda t: t.as_strided((2, 2), (1, 4), 1).__setitem__(0, 5.0),
    "of a view": lambda t: t[1:].as_strided((2,), (1,), 1).mul_(2.0),
    "of a turned view": lambda t: t.transpose(0, 2).as_strided((2,), (3,), 1).exp_(),
}


@pytest.mark.parametrize("write", STRIDED.values(), ids=STRIDED)
def test_writes_through_strides_reach_tangents(write):
    def function(v):
        t = v * v
        write(t)
        return t * 2

    gc.manual_seed(1)
    v, d = gc.rand(2, 2, 2, dtype=gc.float64), gc.rand(2, 2, 2, dtype=gc.float64)
    _, tangent = gc.func.jvp(function, (v,), (d,))
    step = 1e-6
    assert gc.allclose(tangent, (function(v + step * d) - function(v - step * d)) / (2 * step), atol=1e-6)


WRITES = [
    op for op in OPS.values()
    if op.inplace and op.function and (op.kind == "elementwise") and len(op.tensors) > 1
]  # fmt: skip


@pytest.mark.parametrize("op", WRITES, ids=lambda op: op.name)
def test_operands_are_read_before_they_are_written_to(op):
    """The result of an elementwise operation in place is that with a copy, whatever memory its operands share."""
    write = getattr(gc.Tensor, f"{op.name}_", None)
    if write is None:
        pytest.skip("has no form in place")
    further = [0.5 if p.default is p.empty else p.default for p in op.parameters[len(op.tensors) :]]
    for dtype in (gc.float64, gc.int64, gc.bool):
        x = gc.arange(1, 6).to(dtype)
        try:
            write(x.clone(), *[x.clone() for _ in op.tensors[1:]], *further)
        except (RuntimeError, TypeError):
            continue  # has no such dtype
        for of_part in (lambda x: x[1:], lambda x: x[:-1], lambda x: x[2], lambda x: x[1:2]):
            ours, expected = x.clone(), x.clone()
            write(ours[1:], *[of_part(ours) for _ in op.tensors[1:]], *further)
            write(expected[1:], *[of_part(x).clone() for _ in op.tensors[1:]], *further)
            np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("dtype", [gc.float64, gc.float32, gc.float16, gc.bfloat16, gc.complex64])
def test_numbers_keep_the_sign_of_zero(dtype: gc.dtype) -> None:
    """-0.0 equals 0.0, but is not memory full of zeros."""

    def signs(t: gc.Tensor) -> list[bool]:
        parts = gc.view_as_real(t) if dtype.is_complex else t
        return gc.signbit(parts.float()).flatten().tolist()  # type: ignore[no-any-return]

    number = complex(-0.0, -0.0) if dtype.is_complex else -0.0
    x, columns = gc.ones(4, dtype=dtype), gc.ones(2, 3, dtype=dtype).t()
    assert all(signs(x.fill_(number)))
    assert not any(signs(x.zero_()))
    x[1] = number
    assert signs(x).count(True) == 1 + dtype.is_complex
    columns[...] = number
    assert all(signs(columns))
    assert dtype.is_complex or signs(gc.nn.functional.pad(columns, (0, 0, 1, 0), value=number)[:1]) == [True, True]
