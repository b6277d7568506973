"""`vmap`: dims, nesting with the other transformations, custom functions, errors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

X = np.arange(12.0).reshape(4, 3) / 7
W = np.array([[1.0, -2.0], [0.5, 1.5], [2.0, 0.25]])


def equal(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-12, 1e-13)


def x() -> gc.Tensor:
    return gc.tensor(X)


def w() -> gc.Tensor:
    return gc.tensor(W)


# -- dims -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_dim", [0, 1, -1])
@pytest.mark.parametrize("out_dim", [0, 1, -1])
def test_dims_of_inputs_and_outputs(in_dim: int, out_dim: int) -> None:
    found = vmap(lambda v: v * v + 1, in_dim, out_dim)(x())
    rows = [v * v + 1 for v in x().unbind(in_dim)]
    equal(found, gc.stack(rows, out_dim))


def test_containers() -> None:
    def f(pair: Any, table: Any) -> Any:
        return {"sum": pair[0] + pair[1] + table["w"], "pair": (pair[0], [pair[1]])}

    found = vmap(f, in_dims=((0, None), {"w": 0}), out_dims={"sum": 0, "pair": (1, [None])})(
        (x(), gc.ones(3, dtype=gc.float64)), {"w": x()}
    )
    equal(found["sum"], 2 * x() + 1)
    equal(found["pair"][0], x().T)
    equal(found["pair"][1][0], gc.ones(3, dtype=gc.float64))


def test_one_number_stands_for_a_container() -> None:
    equal(vmap(lambda pair: pair[0] * pair[1])((x(), x())), x() * x())


def test_other_arguments_pass_through() -> None:
    equal(vmap(lambda v, n, *, scale: v**n * scale, in_dims=(0, None))(x(), 2, scale=3.0), x() ** 2 * 3)


def test_an_output_that_all_samples_share_is_repeated() -> None:
    found = vmap(lambda v: gc.ones(2))(x())
    assert found.shape == (4, 2)


@pytest.mark.parametrize("chunk_size", [1, 3, 4, 9])
def test_chunks(chunk_size: int) -> None:
    seen = []

    def f(v: Any) -> Any:
        seen.append(1)
        return v.sin(), v.sum()

    found = vmap(f, out_dims=(1, 0), chunk_size=chunk_size)(x())
    equal(found[0], x().sin().T)
    equal(found[1], x().sum(1))
    assert len(seen) == -(-4 // chunk_size)


def test_chunks_share_the_same_random_numbers() -> None:
    found = vmap(lambda v: gc.rand(3), randomness="same", chunk_size=2)(x())
    assert bool((found == found[0]).all())


def test_out_dims_of_the_only_output_may_be_in_a_tuple() -> None:
    for chunk_size in (None, 3):
        equal(vmap(gc.sin, out_dims=(1,), chunk_size=chunk_size)(x()), x().sin().T)


def test_no_loop() -> None:
    calls = []
    vmap(lambda v: calls.append(v.shape) or v)(x())
    assert calls == [(3,)]


# -- nesting ----------------------------------------------------------------------------------------------------------


def test_nested_batches() -> None:
    outer = vmap(vmap(lambda a, b: a * b, (0, None)), (None, 0))
    equal(outer(x()[:, 0], x()[:, 1]), x()[:, 1:2] * x()[:, 0])


def f(v: Any) -> Any:
    return (v @ w()).tanh().prod() * v.sum()


def test_gradients_of_samples() -> None:
    equal(vmap(grad(f))(x()), gc.stack([grad(f)(v) for v in x()]))


def test_gradients_of_samples_with_shared_parameters() -> None:
    def loss(p: Any, v: Any) -> Any:
        return ((v @ p["w"]).sin() + p["b"]).sum() ** 2

    p = {"w": w(), "b": gc.tensor([0.5, -1.0], dtype=gc.float64)}
    found = vmap(grad(loss), (None, 0))(p, x())
    for name in p:
        equal(found[name], gc.stack([grad(loss)(p, v)[name] for v in x()]))


def test_the_sum_reaches_what_samples_share() -> None:
    def total(p: Any) -> Any:
        return vmap(lambda v: ((v @ p).tanh() * p.sum()).sum())(x()).pow(2).sum()

    def plain(p: Any) -> Any:
        return ((x() @ p).tanh() * p.sum()).sum(1).pow(2).sum()

    equal(grad(total)(w()), grad(plain)(w()))
    equal(grad(lambda p: grad(total)(p).pow(2).sum())(w()), grad(lambda p: grad(plain)(p).pow(2).sum())(w()))


def test_backward_of_leaves_outside() -> None:
    p = w().requires_grad_()
    vmap(lambda v: (v @ p).sum())(x()).sum().backward()
    equal(p.grad, x().sum(0)[:, None].expand(3, 2))


def test_gradient_of_a_leaf_made_inside() -> None:
    def g(v: Any) -> Any:
        p = gc.ones(3, dtype=gc.float64, requires_grad=True)
        return gc.autograd.grad((p * p * v).sum(), p)[0]

    equal(vmap(g)(x()), 2 * x())


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobians_of_samples_and_through_them(jacobian: Any) -> None:
    def g(v: Any) -> Any:
        return (v.sin() * v.sum()).cumsum(0)

    equal(vmap(jacobian(g))(x()), gc.stack([jacrev(g)(v) for v in x()]))
    whole = jacobian(vmap(g))(x())
    for i in range(4):
        equal(whole[i, :, i], jacrev(g)(x()[i]))


def test_hessians_of_samples() -> None:
    equal(vmap(hessian(f))(x()), gc.stack([hessian(f)(v) for v in x()]))


def test_tangents() -> None:
    v = gc.ones(3, dtype=gc.float64)
    equal(vmap(lambda a: jvp(f, (a,), (v,))[1])(x()), vmap(grad(f))(x()) @ v)
    equal(jvp(vmap(f), (x(),), (x(),))[1], (vmap(grad(f))(x()) * x()).sum(1))


def test_many_cotangents_and_chunks_of_rows() -> None:
    pull = vjp(lambda v: v.sin() * v.sum(), x()[0])[1]
    rows = vmap(pull)(gc.eye(3, dtype=gc.float64))[0]
    equal(rows, jacrev(lambda v: v.sin() * v.sum())(x()[0]))
    equal(rows, jacrev(lambda v: v.sin() * v.sum(), chunk_size=2)(x()[0]))


def test_batched_gradients_of_autograd() -> None:
    v = x()[0].requires_grad_()
    (rows,) = gc.autograd.grad(v.sin() * v.sum(), v, gc.eye(3, dtype=gc.float64), is_grads_batched=True)
    equal(rows, jacrev(lambda v: v.sin() * v.sum())(x()[0]))


@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize("create_graph", [False, True])
def test_functional_jacobian(vectorize: bool, create_graph: bool) -> None:
    v = x()[1].requires_grad_()
    found = gc.autograd.functional.jacobian(lambda a: a.sin() * a.sum(), v, create_graph, vectorize=vectorize)
    equal(found, jacrev(lambda a: a.sin() * a.sum())(x()[1]))
    if create_graph:
        (second,) = gc.autograd.grad(found.pow(2).sum(), v)
        equal(second, grad(lambda u: jacrev(lambda a: a.sin() * a.sum())(u).pow(2).sum())(x()[1]))


def test_hooks_see_the_rows_one_by_one() -> None:
    shapes = []

    def g(a: Any) -> Any:
        b = a * 2
        b.register_hook(lambda t: shapes.append(t._array.__class__) or None)
        return b.sin()

    gc.autograd.functional.jacobian(g, x()[0])
    assert shapes == [type(x()[0]._array)] * 3


# -- writes, indices, views -------------------------------------------------------------------------------------------


def test_writes_into_what_is_made_inside() -> None:
    def g(v: Any) -> Any:
        out = gc.zeros_like(v)
        out[0] = v[2]
        out[1:].mul_(3).add_(v[0])
        return out.t()

    equal(vmap(g)(x()), gc.stack([x()[:, 2], x()[:, 0], x()[:, 0]], 1))
    equal(vmap(grad(lambda v: (g(v) * v).sum()))(x()), gc.stack([grad(lambda v: (g(v) * v).sum())(v) for v in x()]))


def test_a_write_reaches_the_argument() -> None:
    t = x()
    vmap(lambda v: v.mul_(2))(t)
    equal(t, 2 * x())


def test_indices_that_differ_between_samples() -> None:
    index = gc.tensor([[0, 2], [1, 1], [2, 0], [0, 1]])
    equal(vmap(lambda v, i: v[i])(x(), index), x().gather(1, index))
    equal(vmap(lambda i: x()[0][i])(index), x()[0][index])
    equal(vmap(lambda v, i: v[i])(x(), index[:, 0]), x()[gc.arange(4), index[:, 0]])

    def g(v: Any, i: Any) -> Any:
        out = v.clone()
        out[i] = 5.0
        return out

    equal(vmap(g)(x(), index[:, 1]), x().scatter(1, index[:, 1:], 5.0))


def test_masks_with_one_value() -> None:
    def g(v: Any) -> Any:
        out = v.clone()
        out[v > 0.5] = 9.0
        return out

    equal(vmap(g)(x()), gc.where(x() > 0.5, 9.0, x()))


def test_printing() -> None:
    seen = []
    vmap(lambda v: seen.append(repr(v)) or v)(gc.ones(2, 3))
    assert seen == ["BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[1., 1., 1.],\n            [1., 1., 1.]])\n)"]


# -- custom functions -------------------------------------------------------------------------------------------------


class Cube(gc.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(t: Any) -> Any:
        return t**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (t,) = ctx.saved_tensors
        return 3 * t**2 * g

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        (t,) = ctx.saved_tensors
        return 3 * t**2 * tangent


class Scale(gc.autograd.Function):
    @staticmethod
    def forward(a: Any, b: Any) -> Any:
        return a * b

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return b * g, a * g

    @staticmethod
    def vmap(info: Any, in_dims: Any, a: Any, b: Any) -> Any:
        assert (info.batch_size, info.randomness) == (4, "error")
        a = a.movedim(in_dims[0], 0) if in_dims[0] is not None else a.unsqueeze(0)
        b = b.movedim(in_dims[1], 0) if in_dims[1] is not None else b.unsqueeze(0)
        return Scale.apply(a, b), 0


def test_functions_that_run_on_batches() -> None:
    equal(vmap(Cube.apply)(x()), x() ** 3)
    equal(vmap(grad(lambda v: Cube.apply(v).sum()))(x()), 3 * x() ** 2)
    equal(grad(lambda v: vmap(Cube.apply)(v).sum())(x()), 3 * x() ** 2)
    equal(vmap(lambda v: jvp(Cube.apply, (v,), (v,))[1])(x()), 3 * x() ** 3)
    equal(jacrev(lambda v: Cube.apply(v))(x()[0]), gc.diag(3 * x()[0] ** 2))


def test_functions_with_a_rule_of_their_own() -> None:
    b = gc.tensor([1.0, 2.0, 3.0], dtype=gc.float64)
    equal(vmap(Scale.apply, (0, None))(x(), b), x() * b)
    equal(vmap(grad(lambda v, c: Scale.apply(v, c).sin().sum(), 1), (0, None))(x(), b), (x() * b).cos() * x())
    equal(grad(lambda c: vmap(Scale.apply, (0, None))(x(), c).sin().sum())(b), ((x() * b).cos() * x()).sum(0))


class Select(gc.autograd.Function):
    """The first element, whose backward calls another function with a rule, and creates a tensor like its gradient."""

    @staticmethod
    def forward(t: Any) -> Any:
        return t[0].clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.shape = inputs[0].shape

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        result = g.new_zeros(ctx.shape)
        result[0] = Identity.apply(g)
        return result

    @staticmethod
    def vmap(info: Any, in_dims: Any, t: Any) -> Any:
        assert in_dims == (0,)
        return Select.apply(t.movedim(0, -1)), 0


class Identity(Select):
    @staticmethod
    def forward(t: Any) -> Any:
        return t.clone()

    @staticmethod
    def vmap(info: Any, in_dims: Any, t: Any) -> Any:
        assert in_dims == (0,)
        return Identity.apply(t), 0


def test_backward_of_functions_with_a_rule_of_their_own() -> None:
    # Their backward is outside of the batch, and so are the functions and factories that it calls.
    expected = gc.zeros_like(x())
    expected[:, 0] = x()[:, 0].cos()
    equal(vmap(grad(lambda v: Select.apply(v).sin()))(x()), expected)


def test_hooks_in_rules() -> None:
    class Watched(Identity):
        @staticmethod
        def vmap(info: Any, in_dims: Any, t: Any) -> Any:
            t.register_hook(lambda g: 2 * g + g.new_zeros(g.shape))
            return t.clone(), 0

    equal(vmap(grad(lambda v: Watched.apply(v * 1).sin().sum()))(x()), 2 * x().cos())


def test_rules_are_not_called_for_arguments_that_all_samples_share() -> None:
    class Pair(Cube):
        @staticmethod
        def forward(a: Any, b: Any) -> Any:
            return a.clone(), b * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

    b = gc.arange(3, dtype=gc.float64)
    equal(vmap(lambda v: v + Identity.apply(Pair.apply(v, b)[1]))(x()), x() + 2 * b)


def test_functions_that_say_nothing_of_batches() -> None:
    class Plain(gc.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: Any) -> Any:
            return t * 2

    with pytest.raises(RuntimeError, match="You tried to vmap over Plain, but it does not have vmap support"):
        vmap(Plain.apply)(x())


def test_functions_that_say_two_things() -> None:
    class Both(Scale):
        generate_vmap_rule = True

    with pytest.raises(RuntimeError, match="both generate_vmap_rule=True and an overridden vmap"):
        vmap(Both.apply)(x(), x())


def test_rules_take_and_give_containers() -> None:
    seen = []

    class Total(gc.autograd.Function):
        @staticmethod
        def forward(terms: Any, factors: Any) -> Any:
            raise AssertionError

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

        @staticmethod
        def vmap(info: Any, in_dims: Any, terms: Any, factors: Any) -> Any:
            seen.append(in_dims)
            a, b = terms
            return [a + b, {"first": factors["a"] * a.T, "second": factors["b"]}], [0, {"first": 1, "second": None}]

    factor = gc.tensor(2.0, dtype=gc.float64)
    both, (total, found) = vmap(lambda v: (v, Total.apply((v, v.sin()), {"a": 3, "b": factor})))(x())
    equal(both, x())
    equal(total, x() + x().sin())
    equal(found["first"], 3 * x())
    equal(found["second"], factor.expand(4))
    assert seen == [((0, 0), {"a": None, "b": None})]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda t: t, "to have two returns, .* Got a <class 'gradcore.tensor.Tensor'> instead"),
        (lambda t: (t, t, 0, 0), "Got 4 returns instead"),
        (lambda t: (t, (0,)), "returned an incompatible .* Expected out_dims=.0,."),
        (lambda t: ([t], (0,)), "returned an incompatible"),
        (lambda t: ((t, t), (0, 0, 0)), "returned an incompatible"),
    ],
)
def test_what_rules_return(result: Any, message: str) -> None:
    class Wrong(Cube):
        generate_vmap_rule = False

        @staticmethod
        def vmap(info: Any, in_dims: Any, t: Any) -> Any:
            return result(t)

    with pytest.raises(RuntimeError, match=message):
        vmap(Wrong.apply)(x())


# -- errors -----------------------------------------------------------------------------------------------------------

ERRORS = [
    (lambda: vmap(lambda: 1)(), ValueError, "got no inputs"),
    (lambda: vmap(gc.sin, "0")(x()), ValueError, "expected `in_dims` to be int"),
    (lambda: vmap(gc.sin, (0, 0))(x()), ValueError, "in_dims is not compatible with the structure"),
    (lambda: vmap(gc.sin, 0.5)(x()), ValueError, "expected `in_dims` to be int"),
    (lambda: vmap(gc.sin, ("a",))(x()), ValueError, "in_dim must be either an integer dimension or None"),
    (lambda: vmap(gc.mul)(x(), 2), ValueError, "We cannot vmap over non-Tensor arguments"),
    (lambda: vmap(gc.sin, 2)(x()), ValueError, "expected in_dim to satisfy -2 <= in_dim < 2"),
    (lambda: vmap(gc.sin)(gc.tensor(1.0)), ValueError, "Tensor of dimensionality 0"),
    (lambda: vmap(gc.sin, None)(x()), ValueError, "expected `in_dims` to be int"),
    (lambda: vmap(gc.sin, (None,))(x()), ValueError, "Expected at least one Tensor to vmap over"),
    (lambda: vmap(gc.mul)(x(), w()), ValueError, r"got sizes \[4, 3\] for the mapped dimension"),
    (lambda: vmap(lambda v: 3)(x()), ValueError, "must only return Tensors, got type <class 'int'>"),
    (lambda: vmap(gc.sin, out_dims=None)(x()), ValueError, "can not return a BatchedTensor when out_dim is None"),
    (lambda: vmap(gc.sin, out_dims=(0, 0))(x()), ValueError, "out_dims is not compatible with the structure"),
    (lambda: vmap(gc.sin, out_dims="a")(x()), ValueError, "`out_dims` must be an int, None or a python collection"),
    (lambda: vmap(gc.sin, out_dims=("a",))(x()), ValueError, "`out_dims` must be an int, None or a python collection"),
    (lambda: vmap(partial(gc.mul, 2), 5)(x()), ValueError, r"vmap\(functools.partial\(mul, ...\), in_dims=5"),
    (lambda: vmap(gc.sin, out_dims=2)(x()), IndexError, "Dimension out of range"),
    (lambda: vmap(gc.sin, randomness="some"), RuntimeError, "Only allowed values for randomness"),
    (lambda: vmap(gc.sin, chunk_size=0), ValueError, "chunk_size should be None or greater than 0"),
    (lambda: vmap(lambda v: v.sum().item())(x()), RuntimeError, "calling .item\\(\\) on a Tensor"),
    (lambda: vmap(lambda v: v if v.sum() > 0 else -v)(x()), RuntimeError, "Tensor in some data-dependent control flow"),
    (lambda: vmap(lambda v: v[v > 1])(x()), RuntimeError, "output dynamic shape"),
    (lambda: vmap(gc.nonzero)(x()), RuntimeError, "output dynamic shape"),
    (lambda: vmap(lambda v: gc.zeros(3).add_(v))(x()), RuntimeError, "inplace arithmetic"),
    (lambda: vmap(lambda v: v.numpy())(x()), RuntimeError, "vmap"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        call()


def test_an_error_leaves_no_batch_behind() -> None:
    with pytest.raises(ZeroDivisionError):
        vmap(lambda v: 1 / 0)(x())
    assert gc.rand(2).shape == (2,)


def test_backward_into_leaves_outside_from_inside_is_refused() -> None:
    p = w().requires_grad_()
    with pytest.raises(RuntimeError, match="backward\\(\\) would accumulate the gradients of single samples"):
        vmap(lambda v: (v @ p).sum().backward())(x())


# -- reduced precision, complex numbers, empty batches ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16, gc.float32, gc.complex128])
def test_dtypes(dtype: gc.dtype) -> None:
    t = x().to(dtype)
    found = vmap(lambda v: (v * v).sum())(t)
    assert found.dtype is dtype
    assert bool((found == (t * t).sum(1)).all())


def test_no_samples() -> None:
    assert vmap(lambda v: (v.sin(), v.sum()))(gc.zeros(0, 3))[0].shape == (0, 3)


def test_promotion_is_that_of_samples() -> None:
    """Tensors without dims do not decide the dtype, whatever the batch dim."""
    found = vmap(lambda a, b: a + b)(gc.ones(2, 3), gc.ones(2, dtype=gc.float64))
    assert found.dtype is gc.float32


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("batched", ["values", "indices"])
def test_a_batch_is_not_written_by_index_into_a_tensor_for_all_samples(accumulate: bool, batched: str) -> None:
    def write(v: gc.Tensor) -> gc.Tensor:
        index, values = (v.long(), gc.ones(1)) if batched == "indices" else (gc.tensor([0]), v)
        return gc.zeros(3).index_put_((index,), values, accumulate=accumulate)

    with pytest.raises(RuntimeError, match="inplace arithmetic"):
        gc.func.vmap(write)(gc.ones(2, 1))


@pytest.mark.parametrize("join", [gc.cat, gc.stack])
def test_joins_of_batches_of_two_levels_on_a_device(strict: str, join: Any) -> None:
    """One sample of the inner batch is an array of the device, the other a batch of the outer level."""
    x, y = (gc.tensor(np.random.default_rng(i).normal(size=(3 + i, 2)), device=strict) for i in range(2))
    for pair in (lambda a, b: [a, b], lambda a, b: [b, a], lambda a, b: [a * b, b]):
        joined = lambda a, b, pair=pair: join(pair(a, b))  # noqa: E731
        found = gc.func.vmap(gc.func.vmap(joined, (None, 0)), (0, None))(x, y)
        wanted = gc.stack([gc.stack([join(pair(a, b)) for b in y]) for a in x])
        assert gc.equal(found.cpu(), wanted.cpu())


@pytest.mark.parametrize("shape", [(100, 3), (700, 7), (50, 2), (70, 1)])
def test_short_rows_that_are_repeated(shape: tuple[int, ...]) -> None:
    x = gc.rand(shape, dtype=gc.float64, requires_grad=True)
    y = gc.rand(shape, dtype=gc.float64)
    found = vmap(lambda a: vmap(lambda b: (a - b) * (b < a))(x))(y)
    expected = (y[:, None] - x) * (x < y[:, None])
    assert gc.equal(found, expected)
    gradients = [gc.autograd.grad((t * t).sum(), x)[0] for t in (found, expected)]
    gc.testing.assert_close(*gradients)
