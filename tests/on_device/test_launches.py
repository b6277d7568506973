"""How many kernels a call launches, and what these kernels compute."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.core import config
from gradcore.cuda.check import FAMILIES
from tests.on_device.comparing import agree

F = gc.nn.functional
DTYPES = (gc.float64, gc.float32, gc.float16, gc.bfloat16)


def launches(call: Callable[[], Any]) -> int:
    """How many kernels a call launches, when all are compiled."""
    rig = sys.modules.get("cupy_host")
    if rig is None:
        pytest.skip("launches are counted by the rig")
    call()
    before = rig.launches()
    call()
    return int(rig.launches() - before)


def drawn(rng: np.random.Generator, dtype: Any, *shape: int, device: str = "cpu") -> Any:
    return gc.tensor(rng.uniform(-2, 2, shape)).to(dtype).to(device)


def with_gradients(run: Callable[..., Any], *inputs: Any, second: bool = False) -> list[Any]:
    """Return the result, the gradients, and optionally those of the squared gradients."""
    inputs = tuple(t.detach().requires_grad_() for t in inputs)
    out = run(*inputs)
    weights = gc.arange(out.numel(), dtype=gc.float64, device=out.device).reshape(out.shape).cos().to(out.dtype)
    found = gc.autograd.grad(out, inputs, weights, create_graph=second)
    if not second:
        return [out, *found]
    return [out, *found, *gc.autograd.grad(sum((g * g).sum() for g in found), inputs)]


# -- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [gc.float32, gc.float64])
@pytest.mark.parametrize("name", ["add_", "mul_", "sub_"])
def test_numbers_in_place_take_one_launch(name: str, dtype: Any) -> None:
    x, expected = (gc.ones(4, 6, dtype=dtype, device=d)[:, ::2] for d in ("cuda", "cpu"))
    assert launches(lambda: getattr(x, name)(0.5)) == 1
    for _ in range(2):
        getattr(expected, name)(0.5)
    assert x.cpu().equal(expected)


# -- images at points ---------------------------------------------------------------------------------------------

GRIDS = [
    (sizes, mode, padding, align)
    for sizes, mode, padding, align in itertools.product(
        ((5, 4), (3, 1, 4)),
        ("bilinear", "nearest", "bicubic"),
        ("zeros", "border", "reflection"),
        (False, True),
    )
    if len(sizes) == 2 or mode != "bicubic"
]


@pytest.mark.parametrize(("sizes", "mode", "padding", "align"), GRIDS)
def test_images_at_points(device: str, sizes: tuple[int, ...], mode: str, padding: str, align: bool) -> None:
    rng = np.random.default_rng(0)
    for dtype in DTYPES:
        image = drawn(rng, dtype, 2, 3, *sizes[::-1]).permute(0, 1, *range(len(sizes) + 1, 1, -1))
        points = drawn(rng, dtype, 2, *((3, 7) if len(sizes) == 2 else (2, 3, 4)), len(sizes))
        points.view(-1)[:10] = gc.tensor([1, -1, 0, np.nan, np.inf, -np.inf, 1e4, 3, 1, -1]).to(dtype)

        def run(where: str, image: Any = image, points: Any = points) -> list[Any]:
            return with_gradients(
                lambda x, g: F.grid_sample(x, g, mode, padding, align), image.to(where), points.to(where)
            )

        agree([t.nan_to_num(0, 0, 0) for t in run(device)], [t.nan_to_num(0, 0, 0) for t in run("cpu")], str(dtype))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_second_derivatives_of_images_at_points(device: str, mode: str) -> None:
    rng = np.random.default_rng(0)
    image, points = drawn(rng, gc.float64, 1, 2, 4, 5), drawn(rng, gc.float64, 1, 3, 4, 2) / 2

    def run(where: str) -> list[Any]:
        sample = lambda x, g: F.grid_sample(x, g, mode, "reflection", False)  # noqa: E731
        many = gc.vmap(gc.func.grad(lambda x, g: sample(x[None], g[None]).square().sum(), (0, 1)))
        x, g = image.to(where), points.to(where)
        return [*with_gradients(sample, x, g, second=True), *many(x.repeat(3, 1, 1, 1), g.repeat(3, 1, 1, 1))]

    agree(run(device), run("cpu"))


@pytest.mark.parametrize(("dtype", "backward"), [(gc.float32, 1), (gc.float64, 1), (gc.bfloat16, 2)])
def test_launches_of_images_at_points(device: str, dtype: Any, backward: int) -> None:
    x = gc.ones(2, 3, 5, 4, dtype=dtype, device=device, requires_grad=True)
    grid = gc.zeros(2, 6, 7, 2, dtype=dtype, device=device, requires_grad=True)
    sample: Callable[[], Any] = lambda: F.grid_sample(x, grid, align_corners=False)  # noqa: E731
    assert launches(sample) == 1
    out = sample()
    ones = gc.ones_like(out)
    assert launches(lambda: gc.autograd.grad(out, (x, grid), ones, retain_graph=True)) == backward


def test_every_kind_of_kernels_can_be_left_out() -> None:
    """What the check names as a setting is one."""
    assert set(FAMILIES.values()) <= set(config.cuda_kernels())


# -- attention ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_launches_of_attention(device: str, dtype: Any) -> None:
    """A mask of bools becomes numbers before, of float32 and then of the dtype; heads in rows are not copied."""
    inputs = [gc.ones(20, 2, 4, 32, dtype=dtype, device=device).permute(1, 2, 0, 3).requires_grad_() for _ in range(3)]
    mask = gc.ones(20, 20, device=device).tril()
    masks = {"attn_mask": mask.to(dtype)}, {"attn_mask": mask > 0}
    kinds = ({}, 1), ({"is_causal": True}, 1), (masks[0], 1), (masks[1], 2 if dtype is gc.float32 else 3)
    for given, forward in kinds:
        attend: Callable[[], Any] = lambda given=given: F.scaled_dot_product_attention(*inputs, **given)  # noqa: E731
        assert launches(attend) == forward
        out = attend()
        ones = gc.ones_like(out)
        assert launches(lambda out=out, ones=ones: gc.autograd.grad(out, inputs, ones, retain_graph=True)) == 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_of_long_rows(device: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    inputs = [drawn(rng, dtype, 1, 4, 90, 24), drawn(rng, dtype, 1, 2, 140, 24), drawn(rng, dtype, 1, 2, 140, 24)]
    attend = lambda *x: F.scaled_dot_product_attention(*x, is_causal=True, enable_gqa=True)  # noqa: E731
    agree(with_gradients(attend, *[t.to(device) for t in inputs]), with_gradients(attend, *inputs), str(dtype))


@pytest.mark.parametrize("width", [129, 256, 264])
@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_of_wide_heads(device: str, width: int, dtype: Any) -> None:
    """Compare heads that the kernels support, and wider ones, which are computed in blocks of scores by cuBLAS."""
    rng = np.random.default_rng(0)
    inputs = [drawn(rng, dtype, 2, 3, n, width) / 4 for n in (17, 40, 40)]
    for causal in (False, True):
        attend = lambda *x, causal=causal: F.scaled_dot_product_attention(*x, is_causal=causal)  # noqa: E731
        expected = with_gradients(attend, *[t.to(gc.float64) for t in inputs])
        agree(with_gradients(attend, *[t.to(device) for t in inputs]), [t.to(dtype) for t in expected], str(dtype))


#: Shapes of query, key, value and mask, and settings: rows of 8, of 16, of more than a tile, or odd; one head is wide.
DROPPING: dict[str, tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    "rows of 8": ([(2, 3, 20, 16), (2, 3, 40, 16), (2, 3, 40, 12)], {}),
    "odd rows": ([(2, 3, 70, 16), (2, 3, 37, 16), (2, 3, 37, 12)], {}),
    "causal": ([(2, 50, 64), (2, 45, 64), (2, 45, 64)], {"is_causal": True}),
    "mask": ([(2, 3, 20, 16), (2, 3, 99, 16), (2, 3, 99, 16), (20, 99)], {}),
    "groups of heads": ([(1, 4, 19, 32), (1, 2, 33, 32), (1, 2, 33, 32)], {"enable_gqa": True}),
    "shared keys": ([(2, 1, 20, 16), (1, 3, 40, 16), (40, 16)], {}),
    "results that share weights": ([(20, 16), (40, 16), (3, 40, 16)], {}),
    "wide": ([(20, 100), (50, 100), (50, 128)], {}),
    "wider than the kernels, but of halves": ([(20, 200), (50, 200), (50, 256)], {}),
    "wider than the kernels": ([(20, 200), (50, 200), (50, 264)], {}),
}


@pytest.mark.parametrize("name", DROPPING)
@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_with_dropout(device: str, name: str, dtype: Any) -> None:
    """The weights that are dropped are those that the CPU drops, forward and backward, and as many words are drawn."""
    shapes, settings = DROPPING[name]
    rng = np.random.default_rng(0)
    inputs = [drawn(rng, dtype, *shape) for shape in shapes]

    def run(where: str, kind: Any) -> list[Any]:
        attend = lambda *x: F.scaled_dot_product_attention(*x, *mask, dropout_p=0.3, **settings)  # noqa: E731
        mask = [t.to(where, kind) for t in inputs[3:]]
        gc.manual_seed(3)
        found = with_gradients(attend, *[t.to(where, kind) for t in inputs[:3]])
        return [t.to(dtype) for t in (*found, gc.rand(3, device=where))]

    agree(run(device, dtype), run("cpu", gc.float64), str(dtype))


def test_all_derivatives_of_attention_with_dropout(device: str) -> None:
    """Also of second order, of a mask, along a tangent, of batches of gradients, and of graphs."""
    rng = np.random.default_rng(0)
    inputs = [drawn(rng, gc.float64, *shape) for shape in [(2, 2, 9, 8), (2, 2, 11, 8), (2, 2, 11, 8), (9, 11)]]
    cotangents = drawn(rng, gc.float64, 3, 2, 2, 9, 8)

    def run(where: str) -> list[Any]:
        attend = lambda *x: F.scaled_dot_product_attention(*x, dropout_p=0.3)  # noqa: E731
        moved = [t.to(where) for t in inputs]
        gc.manual_seed(5)
        found = [t for i in (3, 4) for t in with_gradients(attend, *moved[:i], second=True)]
        tracked = [t.detach().requires_grad_() for t in moved[:3]]
        out = attend(*tracked)
        found += gc.autograd.grad(out, tracked, cotangents.to(where), is_grads_batched=True)
        found += gc.func.jvp(attend, tuple(moved), tuple(t.cos() for t in moved))
        found.append(gc.vmap(attend, (0, 0, 0, None), randomness="different")(*moved))
        return found

    agree(run(device), run("cpu"))


def test_a_graph_drops_other_weights_at_each_replay(device: str) -> None:
    rng = np.random.default_rng(0)
    tensors = [drawn(rng, gc.float32, 2, 20, 16, device=device).requires_grad_() for _ in range(3)]

    def step() -> list[Any]:
        out = F.scaled_dot_product_attention(*tensors, dropout_p=0.3)
        return [out, *gc.autograd.grad(out.square().sum(), tensors)]

    gc.manual_seed(1)
    expected = [step() for _ in range(3)]
    gc.manual_seed(1)
    step()
    graph = gc.cuda.CUDAGraph()
    with gc.cuda.graph(graph):
        found = step()
    for wanted in expected[1:]:
        graph.replay()
        assert all(gc.equal(f, w) for f, w in zip(found, wanted, strict=True))


@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_launches_of_attention_of_wide_heads(device: str, dtype: Any, dropout: float) -> None:
    """Backward has a launch for each gradient."""
    inputs = [gc.ones(2, 4, 20, 256, dtype=dtype, device=device, requires_grad=True) for _ in range(3)]
    attend: Callable[[], Any] = lambda: F.scaled_dot_product_attention(*inputs, dropout_p=dropout)  # noqa: E731
    assert launches(attend) == 1
    out = attend()
    ones = gc.ones_like(out)
    assert launches(lambda: gc.autograd.grad(out, inputs, ones, retain_graph=True)) == 3
    assert launches(lambda: gc.autograd.grad(out, inputs[1], ones, retain_graph=True)) == 3 - 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_launches_of_attention_with_dropout(device: str, dtype: Any) -> None:
    """Two launches backward, one forward: as many as without dropout."""
    inputs = [gc.ones(20, 2, 4, 32, dtype=dtype, device=device).permute(1, 2, 0, 3).requires_grad_() for _ in range(3)]
    for given in ({}, {"is_causal": True}):
        attend: Callable[[], Any] = lambda given=given: F.scaled_dot_product_attention(  # noqa: E731
            *inputs, dropout_p=0.1, **given
        )
        assert launches(attend) == 1
        out = attend()
        ones = gc.ones_like(out)
        assert launches(lambda out=out, ones=ones: gc.autograd.grad(out, inputs, ones, retain_graph=True)) == 2


# -- dropout -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5,), (3, 1000), (4, 6, 10)], ids=str)
def test_dropout(device: str, dtype: Any, shape: tuple[int, ...]) -> None:
    x = drawn(np.random.default_rng(0), dtype, *shape[::-1]).permute(*range(len(shape))[::-1])

    def run(where: str) -> list[Any]:
        gc.manual_seed(3)
        found = with_gradients(lambda t: F.dropout(t, 0.3).square(), x.to(where), second=dtype is gc.float64)
        tangent = gc.func.jvp(lambda t: F.dropout(t, 0.3), (x.to(where),), (x.to(where).cos(),))
        many = gc.vmap(lambda t: F.dropout(t, 0.3), randomness="different")(x.to(where).repeat(2, *(1,) * x.ndim))
        return [*found, *tangent, many, gc.rand(3, device=where)]

    agree(run(device), run("cpu"), str(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_launches_of_dropout(device: str, dtype: Any) -> None:
    x = gc.ones(30, 40, dtype=dtype, device=device, requires_grad=True)
    drop: Callable[[], Any] = lambda: F.dropout(x, 0.3)  # noqa: E731
    assert launches(drop) == 1
    out = drop()
    ones = gc.ones_like(out)
    assert launches(lambda: gc.autograd.grad(out, x, ones, retain_graph=True)) == 1


# -- channels -----------------------------------------------------------------------------------------------------

CHANNELS = [
    (2, 3, 4), (9, 33), (5, 1), (3000, 2), (2, 3, 70, 71), (17, 2, 300, 3), (1, 1, 9000), (64, 3, 8, 8),
    (2, 5, 2, 3, 4),
]  # fmt: skip


@pytest.mark.parametrize("shape", CHANNELS, ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_channels(device: str, shape: tuple[int, ...], training: bool) -> None:
    rng = np.random.default_rng(0)
    for dtype in DTYPES:
        inputs = [drawn(rng, dtype, *shape).movedim(0, -1).contiguous().movedim(-1, 0) + 3]
        inputs += [drawn(rng, dtype, shape[1]) for _ in range(2)]

        def run(where: str, dtype: Any = dtype, inputs: Any = inputs) -> list[Any]:
            kept = gc.zeros(shape[1], dtype=dtype, device=where), gc.ones(shape[1], dtype=dtype, device=where)
            norm = lambda x, *rest: F.batch_norm(x, *kept, *rest, training)  # noqa: E731
            second = training and dtype is gc.float64
            return [*with_gradients(norm, *[t.to(where) for t in inputs], second=second), *kept]

        agree(run(device), run("cpu"), str(dtype))


def test_equal_calls_of_channels_give_equal_bits(device: str) -> None:
    x = drawn(np.random.default_rng(0), gc.float32, 40, 3, 31, 33, device=device)
    first, second = (with_gradients(lambda x: F.batch_norm(x, None, None, training=True), x) for _ in range(2))
    assert all((a == b).all().item() for a, b in zip(first, second, strict=True))


def test_running_statistics_are_written_to(device: str) -> None:
    """By one kernel or by several operations, and their versions count."""
    x = drawn(np.random.default_rng(0), gc.float32, 5, 3, 4, device=device)
    moved = x.var((0, 2)) * 0.25 + 0.75
    whole = gc.ones(3, 2, device=device)
    for kept in (gc.ones(3, device=device), whole[:, 0]):
        y = kept * kept.detach().clone().requires_grad_()
        F.batch_norm(x, gc.zeros_like(kept), kept, training=True, momentum=0.25)
        F.batch_norm(x.clone().requires_grad_(), gc.zeros_like(kept), kept, training=True, momentum=0.0)
        assert (kept - moved).abs().max().item() < 1e-6
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
    assert (whole[:, 1] == 1).all()
    mean, var = gc.zeros(3, device=device), gc.ones(3, device=device)
    y = (mean + var).requires_grad_() * var
    F.batch_norm(x, mean, var, training=True, momentum=0.25)
    assert (mean - x.mean((0, 2)) / 4).abs().max().item() < 1e-6
    assert (var - moved).abs().max().item() < 1e-6
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_launches_of_channels(device: str) -> None:
    x = gc.ones(16, 8, 32, 32, device=device, requires_grad=True)
    weight, bias = (gc.ones(8, device=device, requires_grad=True) for _ in range(2))
    kept = gc.zeros(8, device=device), gc.ones(8, device=device)
    norm: Callable[[], Any] = lambda: F.batch_norm(x, None, None, weight, bias, True)  # noqa: E731
    assert launches(norm) == 3
    assert launches(lambda: F.batch_norm(x, *kept, weight, bias, True)) == 4
    assert launches(lambda: F.batch_norm(x, *kept, weight, bias)) == 2
    out = norm()
    ones = gc.ones_like(out)
    assert launches(lambda: gc.autograd.grad(out, (x, weight, bias), ones, retain_graph=True)) == 3


@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16], ids=str)
def test_channels_of_halves(device: str, dtype: Any) -> None:
    """Statistics have the digits of float32; values too large for float16 to square are normalized all the same."""
    rng = np.random.default_rng(0)
    for factor, dim in ((1.0, 4), (500.0, 3)):
        x = (drawn(rng, gc.float32, 6, 3, 5, 4) * factor + factor).to(dtype)[:, :, :, :dim]
        weight, bias = (drawn(rng, dtype, 3) for _ in range(2))
        found = []
        for where in (device, "cpu"):
            kept = gc.zeros(3, dtype=dtype, device=where), gc.ones(3, dtype=dtype, device=where)

            def norm(x: Any, weight: Any, bias: Any, kept: Any = kept) -> Any:
                return F.batch_norm(x, *kept, weight, bias, True)

            found.append([*with_gradients(norm, *(t.to(where) for t in (x, weight, bias))), *kept])
        agree(*found, str(dtype))
    x, weight, bias = (t.to(device) for t in (x, weight, bias))
    assert launches(lambda: F.batch_norm(x, None, None, weight, bias, True)) == 3
    kept = gc.zeros(3, dtype=dtype, device=device), gc.ones(3, dtype=dtype, device=device)
    assert launches(lambda: F.batch_norm(x, *kept, weight, bias, True)) == 4


# -- reductions ---------------------------------------------------------------------------------------------------

REDUCTIONS = ("sum", "mean", "nansum", "prod", "amax", "amin")


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16])
def test_reductions_of_halves(device: str, name: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    reduce = getattr(gc, name)
    for shape, dims in [((5, 7), {"dim": 1}), ((300, 9), {"dim": 0, "keepdim": True}), ((2, 3000), {"dim": (0, 1)})]:
        if name == "prod" and isinstance(dims["dim"], tuple):
            dims = {}
        x = 1 + drawn(rng, dtype, *shape[::-1]).T / 50
        run = lambda where, x=x, dims=dims: with_gradients(lambda t: reduce(t, **dims), x.to(where))  # noqa: E731
        agree(run(device), run("cpu"), f"{shape} {dims}")
    unlucky = gc.tensor([[1.0, np.nan], [np.inf, -np.inf], [70000.0, -1.0]]).to(dtype)
    agree([reduce(unlucky.to(device), 1)], [reduce(unlucky, 1)])
    total = gc.full((4096,), 1.0, dtype=dtype, device=device).sum()  # beyond the numbers that halves can count to
    assert total.item() == 4096
    assert total.dtype is dtype
    if name not in ("amax", "amin"):
        empty = gc.ones(0, 3, dtype=dtype)
        agree([reduce(empty.to(device), 0)], [reduce(empty, 0)])


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16])
def test_launches_of_reductions_of_halves(device: str, name: str, dtype: Any) -> None:
    x = gc.ones(30, 40, dtype=dtype, device=device)
    assert launches(lambda: getattr(gc, name)(x, 1)) == 1


MOMENTS = [
    ((5, 7), 1), ((5, 7), 0), ((3, 40, 70), (0, 2)), ((3, 40, 70), 1), ((2, 3000), None), ((4, 1, 6), (0, 1)),
    ((9, 1), 1), ((70000,), 0), ((), ()), ((2, 3, 4, 50), (1, 3)),
]  # fmt: skip


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
@pytest.mark.parametrize("dtype", [*DTYPES, gc.complex64])
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_moments(device: str, name: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for (shape, dims), correction, keepdim in zip(
        MOMENTS, itertools.cycle((1, 0, 2.5)), itertools.cycle((False, True))
    ):
        real, imag = (drawn(rng, gc.float32, *shape) for _ in range(2))
        x = 100 + (gc.complex(real, imag) if dtype.is_complex else real.to(dtype))
        x = x.transpose(0, -1).contiguous().transpose(0, -1) if x.ndim else x

        def run(where: str, x: Any = x, dims: Any = dims, settings: Any = (correction, keepdim)) -> list[Any]:
            found = getattr(gc, name)(x.to(where), dims, correction=settings[0], keepdim=settings[1])
            return list(found) if isinstance(found, tuple) else [found]

        agree(run(device), run("cpu"), f"{shape} {dims} {correction} {keepdim}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_launches_of_moments(device: str, dtype: Any) -> None:
    x = gc.ones(30, 40, dtype=dtype, device=device)
    for call in (lambda: x.var(1), lambda: x.std(), lambda: gc.std_mean(x, 1), lambda: x[None].var((0, 2))):
        assert launches(call) == 2


#: Reductions whose result and gradient are a few kernels: calls with the dims, and the launches of both.
ROOTS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "norm": (lambda x, dim: gc.linalg.vector_norm(x, 2, dim), 1, 1),
    "norm 1": (lambda x, dim: gc.linalg.vector_norm(x, 1, dim), 1, 1),
    "norm 2.5": (lambda x, dim: gc.linalg.vector_norm(x, 2.5, dim), 3, 1),
    "norm 0.5": (lambda x, dim: gc.linalg.vector_norm(x, 0.5, dim), 3, 1),
    "norm inf": (lambda x, dim: gc.linalg.vector_norm(x, gc.inf, dim), 1, 19),
    "logsumexp": (gc.logsumexp, 1, 1),
    "var": (gc.var, 2, 2),
    "std": (gc.std, 2, 2),
}


@pytest.mark.parametrize("fusion", [True, False])
@pytest.mark.parametrize("name", ROOTS)
def test_roots_and_logarithms_of_sums(device: str, name: str, fusion: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare derivatives for rows of zeros, special numbers and layouts; halves whose squares are infinite."""
    monkeypatch.setattr(config, "fusion", lambda: fusion)
    rng = np.random.default_rng(0)
    for dtype in (*DTYPES, gc.complex128):
        x = drawn(rng, dtype, 6, 5, 8) if not dtype.is_complex else gc.complex(*drawn(rng, gc.float64, 2, 6, 5, 8))
        special = x.clone()
        special[0], special[1, 0, 0], special[2, 0, 0], special[3] = 0, gc.nan, gc.inf, -gc.inf
        layouts = {
            "dense": lambda x: x,
            "strided": lambda x: x.permute(2, 0, 1).contiguous().permute(1, 2, 0)[::2, :, 1::3],
            "repeated": lambda x: x[:, :1].expand(6, 5, 8),
        }
        values = [x, x * 250, *([] if dtype.is_complex else [special])]
        for x, (layout, view), dim in itertools.product(values, layouts.items(), (0, -1, (0, 2), (0, 1, 2))):
            call = lambda x, dim=dim: ROOTS[name][0](x, dim)  # noqa: E731
            second = dtype is gc.float64 and x is values[0]
            agree(*(with_gradients(call, view(x.to(d)), second=second) for d in (device, "cpu")), f"{dtype} {layout}")


@pytest.mark.parametrize("dtype", [gc.float32, gc.float64], ids=str)
@pytest.mark.parametrize("name", ROOTS)
def test_launches_of_roots_and_logarithms_of_sums(device: str, name: str, dtype: Any) -> None:
    call, forward, backward = ROOTS[name]
    x = gc.full((30, 40), 0.5, dtype=dtype, device=device).requires_grad_()
    assert launches(lambda: call(x, 1)) == forward
    out = call(x, 1)
    assert launches(lambda: gc.autograd.grad(out, x, gc.ones_like(out), retain_graph=True)) == backward + 1


# -- resizing -----------------------------------------------------------------------------------------------------

SIZES: dict[tuple[int, ...], list[tuple[int, ...]]] = {
    (7,): [(3,), (7,), (15,), (1,)],
    (5, 8): [(11, 3), (5, 20), (1, 1), (13, 8)],
    (3, 4, 5): [(5, 2, 11), (1, 4, 5)],
}
RESIZED = [
    (shape, sizes, mode, settings)
    for shape, sizes in SIZES.items()
    for mode, settings in [
        ("nearest", {}), ("nearest-exact", {}),
        *itertools.product([{1: "linear", 2: "bilinear", 3: "trilinear"}[len(shape)]], ({}, {"align_corners": True})),
        *(itertools.product(("bilinear", "bicubic", "lanczos"), ({"antialias": True},)) if len(shape) == 2 else ()),
        *(itertools.product(("bicubic",), ({}, {"align_corners": True})) if len(shape) == 2 else ()),
    ]
]  # fmt: skip


@pytest.mark.parametrize(("shape", "sizes", "mode", "settings"), RESIZED)
def test_resizing(device: str, shape: tuple[int, ...], sizes: Any, mode: str, settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    for size, dtype in itertools.product(sizes, DTYPES):
        x = drawn(rng, dtype, *shape[::-1], 3, 2).permute(*range(len(shape) + 1, -1, -1))

        def run(where: str, x: Any = x, size: Any = size) -> list[Any]:
            resize = lambda t: F.interpolate(t, size, mode=mode, **settings)  # noqa: E731
            return [*with_gradients(resize, x.to(where)), gc.func.jvp(resize, (x.to(where),), (x.to(where).cos(),))[1]]

        agree(run(device), run("cpu"), f"{size} {dtype}")


def test_resizing_by_large_factors(device: str) -> None:
    """Outputs, or gradients, of more inputs than one kernel reads go dim by dim."""
    rng = np.random.default_rng(0)
    for size, to, settings in (((90, 100), (2, 2), {"antialias": True}), ((2, 2), (80, 90), {})):
        x = drawn(rng, gc.float64, 1, 2, *size)

        def run(where: str, x: Any = x, to: Any = to, settings: Any = settings) -> list[Any]:
            return with_gradients(
                lambda t: F.interpolate(t, to, mode="bicubic", **settings).sin(), x.to(where), second=True
            )

        agree(run(device), run("cpu"), f"{size} {to}")


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_launches_of_resizing(device: str, mode: str) -> None:
    x = gc.ones(2, 3, 5, 4, device=device, requires_grad=True)
    resize: Callable[[], Any] = lambda: F.interpolate(x, (7, 9), mode=mode)  # noqa: E731
    assert launches(resize) == 1
    out = resize()
    ones = gc.ones_like(out)
    assert launches(lambda: gc.autograd.grad(out, x, ones, retain_graph=True)) == 1


# -- rows by index ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_launches_of_gradients_of_rows(device: str, dtype: Any) -> None:
    """Zeros and the sums; halves are converted besides."""
    most = 2 if dtype.itemsize > 2 else 3
    table = gc.ones(50, 40, dtype=dtype, device=device, requires_grad=True)
    index = gc.arange(60, device=device).reshape(6, 10) % 50
    for look_up in (lambda: F.embedding(index, table), lambda: table[index], lambda: table.index_select(0, index[0])):
        out = look_up()
        ones = gc.ones_like(out)
        assert launches(lambda out=out, ones=ones: gc.autograd.grad(out, table, ones, retain_graph=True)) <= most


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_few_and_of_many_rows(device: str, dtype: Any) -> None:
    """Indices repeat and are negative; rows are narrow and wide, on both sides of where sorting begins."""
    rng = np.random.default_rng(0)
    for height, count, width in ((7, 50, 5), (3000, 40, 33), (5, 1, 300), (40, 2048, 3), (40, 2049, 3)):
        table, index = drawn(rng, dtype, height, width), gc.tensor(rng.integers(-height, height, count))
        weights = drawn(rng, dtype, count, width)

        def run(where: str, inputs: Any = (table, index, weights)) -> list[Any]:
            table, index, weights = (t.to(where) for t in inputs)
            return with_gradients(lambda t: t[index] * weights, table)

        agree(run(device), run("cpu"), f"{height} {count} {width} {dtype}")


#: How often indices come: all equal, in runs around what a thread goes over, by chance, most of them one.
RUNS = {
    "all equal": lambda rng, n: np.full(n, 3),
    "runs": lambda rng, n: np.repeat(np.arange(n), rng.choice([1, 2, 63, 64, 65, 128, 200], n))[:n] % 40,
    "by chance": lambda rng, n: rng.integers(0, 40, n),
    "padding": lambda rng, n: np.where(rng.random(n) < 0.9, 0, rng.integers(0, 40, n)),
}


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("count", [1, 63, 64, 65, 129, 1000, 9001])
def test_rows_by_index(device: str, runs: str, count: int) -> None:
    rng = np.random.default_rng(count)
    index = gc.tensor(RUNS[runs](rng, count))
    for dtype in DTYPES:
        rows = gc.tensor(rng.integers(-3, 4, (count, 3)) / 64).to(dtype)  # sums are exact in any order
        weight, start = gc.zeros(40, 3, dtype=dtype), drawn(rng, dtype, 40)

        def run(where: str, rows: Any = rows, weight: Any = weight, start: Any = start) -> list[Any]:
            table, at = weight.to(where).requires_grad_(), index.to(where)
            found = list(gc.autograd.grad(F.embedding(at, table), table, rows.to(where)))
            column = rows[:, 0].to(where)
            found += [start.to(where).scatter_reduce(0, at, column, name) for name in ("amax", "amin", "sum", "mean")]
            return [*found, start.to(where).scatter_reduce(0, at, 1 + column / 64, "prod", include_self=False)]

        there, here = run(device), run("cpu")
        if count <= 200:  # products of many rounded numbers are rounded differently
            agree(there, here, str(dtype))
        else:
            agree(there[:-1], here[:-1], str(dtype))


def test_launches_of_rows_by_index(device: str) -> None:
    rows = gc.ones(9000, 8, device=device)
    table = gc.ones(40, 8, device=device, requires_grad=True)

    def sums(count: int) -> int:
        at = gc.zeros(count, dtype=gc.int64, device=device)
        out = F.embedding(at, table)
        return launches(lambda: gc.autograd.grad(out, table, rows[:count], retain_graph=True))

    assert sums(64) == sums(2048) == 1  # besides zeros
    assert sums(9000) == sums(2049) > 1  # of sorted indices, and what the parts of a sum become in the end


# -- matrices -----------------------------------------------------------------------------------------------------

OF_MATRICES: dict[str, Callable[[Any], Any]] = {
    "lu_factor": lambda a: gc.linalg.lu_factor(a)[0], "inv": gc.linalg.inv, "det": gc.linalg.det,
    "slogdet": lambda a: gc.linalg.slogdet(a)[1], "solve": lambda a: gc.linalg.solve(a, a.mT),
    "matrix_exp": gc.linalg.matrix_exp, "cholesky": lambda a: gc.linalg.cholesky(a @ a.mT),
    "qr": lambda a: gc.linalg.qr(a)[1], "eigvalsh": lambda a: gc.linalg.eigvalsh(a @ a.mT),
    "svdvals": gc.linalg.svdvals, "solve_triangular": lambda a: gc.linalg.solve_triangular(a, a.mT, upper=True),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_MATRICES)
def test_more_matrices_take_no_more_launches_and_waits(device: str, name: str) -> None:
    """Forward and backward: there is no loop over matrices."""
    rig = sys.modules.get("cupy_host")
    if rig is None:
        pytest.skip("launches and waits are counted by the rig")
    found = []
    for count in (3, 40):
        eye = gc.eye(3, device=device)
        a = (3 * eye + drawn(np.random.default_rng(0), gc.float32, count, 3, 3, device=device) / 4).requires_grad_()

        def run(a: Any = a) -> Any:
            out = OF_MATRICES[name](a)
            return gc.autograd.grad(out, a, gc.ones_like(out))

        waits = rig.waits()
        found.append((launches(run), rig.waits() - waits))
    assert found[0] == found[1]


# -- cross entropy ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 5, 31), (2, 5, 32), (3, 7, 6, 9), (1, 300, 5, 8), (2, 1, 40)], ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_losses_of_classes_at_points(device: str, loss: Any, shape: tuple[int, ...], reduction: str) -> None:
    rng = np.random.default_rng(0)
    targets = rng.integers(0, shape[1], (shape[0], *shape[2:]))
    targets.flat[::5] = -100
    for dtype in DTYPES:
        scores, weight = 30 * drawn(rng, dtype, *shape), drawn(rng, dtype, shape[1]).abs()
        if dtype is gc.float64:
            scores.view(-1)[:3] = gc.tensor([np.inf, -np.inf, np.nan]).to(dtype)

        def run(where: str, scores: Any = scores, weight: Any = weight) -> list[Any]:
            at, factors = gc.tensor(targets, device=where), weight.to(where)
            return with_gradients(lambda x: loss(x, at, factors, reduction=reduction), scores.to(where))

        agree(run(device), run("cpu"), str(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_launches_of_losses_of_classes(device: str, dtype: Any, reduction: str) -> None:
    """Negative log-likelihood is one kernel each way; cross entropy has another one that reduces its losses."""
    x, target = gc.zeros(6, 7, dtype=dtype, device=device, requires_grad=True), gc.arange(6, device=device)
    weight = gc.ones(7, dtype=dtype, device=device)
    for loss, forward in ((F.nll_loss, 1), (F.cross_entropy, 1 if reduction == "none" else 2)):
        call = lambda loss=loss: loss(x, target, weight, reduction=reduction)  # noqa: E731
        out = call()
        ones = gc.ones_like(out)
        rounded = reduction == "none" and dtype.itemsize == 2 and loss is F.cross_entropy
        assert launches(call) == forward + rounded
        assert launches(lambda out=out, ones=ones: gc.autograd.grad(out, x, ones, retain_graph=True)) == 1


def test_negative_log_likelihood_of_layouts(device: str) -> None:
    """Scores in columns, expanded and of one element, in first and second order, and of uint8 targets."""
    rng = np.random.default_rng(0)
    base = drawn(rng, gc.float64, 5, 6)
    kinds = (base.t(), base[:1].expand(5, 6), base[::2, ::2], base[:1, :1], base[0, 0].expand(4, 3))
    for x, kind, reduction in itertools.product(kinds, (gc.int64, gc.uint8), ("mean", "none")):
        target = gc.arange(x.shape[0]).fmod(x.shape[1]).to(kind)

        def run(where: str, x: Any = x, target: Any = target, reduction: str = reduction) -> list[Any]:
            loss = lambda x: F.nll_loss(x.sin(), target.to(where), reduction=reduction)  # noqa: E731
            x = x.to(where)
            each = gc.vmap(lambda x: F.nll_loss(x.sin(), target.to(where)))(gc.stack([x, -x]))
            return [*with_gradients(loss, x, second=True), each, gc.func.jvp(loss, (x,), (x,))[1]]

        agree(run(device), run("cpu"))


def test_negative_log_likelihood_in_a_graph(device: str) -> None:
    """Each replay reads the targets of the time, and finds one that is no class."""
    x, target = gc.ones(3, 4, device=device).cumsum(1).requires_grad_(), gc.tensor([0, 1, 2], device=device)
    gc.autograd.grad(F.nll_loss(x, target), x)
    graph = gc.cuda.CUDAGraph()
    gc.cuda.synchronize()
    with gc.cuda.graph(graph):
        loss = F.nll_loss(x, target)
        (grad,) = gc.autograd.grad(loss, x)
    for targets in ([0, 1, 2], [3, 3, -100]):
        target.copy_(gc.tensor(targets))
        graph.replay()
        there = x.detach().cpu().requires_grad_()
        wanted = F.nll_loss(there, gc.tensor(targets, device="cpu"))
        agree([loss, grad], [wanted, *gc.autograd.grad(wanted, there)])
    target.fill_(4)
    graph.replay()
    with pytest.raises(IndexError, match="Target 4 is out of bounds"):
        gc.cuda.synchronize()


# -- losses of probabilities --------------------------------------------------------------------------------------


def _losses_of_probabilities(x: Any, target: Any, weight: Any, reduction: str) -> list[Any]:
    """Return the losses of scores with and without weights of positive targets, and of their sigmoid."""
    of_scores = F.binary_cross_entropy_with_logits
    return [
        of_scores(x, target, weight, reduction=reduction),
        of_scores(x, target, reduction=reduction, pos_weight=None if weight is None else weight + 1),
        F.binary_cross_entropy(x.sigmoid(), target, weight, reduction=reduction),
    ]


@pytest.mark.parametrize("shape", [(7, 5), (1,), (0, 3), ()], ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("fusion", [True, False])
def test_losses_of_probabilities(
    device: str, shape: tuple[int, ...], reduction: str, fusion: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "fusion", lambda: fusion)
    rng = np.random.default_rng(0)
    for dtype, is_weighted, number in itertools.product(DTYPES, (False, True), range(3)):
        x, target, factors = drawn(rng, dtype, *shape), drawn(rng, dtype, *shape).sigmoid(), drawn(rng, dtype, *shape)
        found = []
        for where in (device, "cpu"):
            weight = factors.square().to(where) if is_weighted else None
            loss = lambda x, t, w=weight, k=number: _losses_of_probabilities(x, t, w, reduction)[k]  # noqa: E731
            found.append(with_gradients(loss, x.to(where), target.to(where), second=dtype.itemsize > 2))
        agree(*found, str(dtype))


@pytest.mark.parametrize("dtype", [gc.float32, gc.float64], ids=str)
def test_launches_of_losses_of_probabilities(device: str, dtype: Any) -> None:
    x = gc.full((6, 7), 0.5, dtype=dtype, device=device).requires_grad_()
    target, weight = x.detach().clone(), gc.ones(7, dtype=dtype, device=device)
    for loss, reduction in itertools.product(
        (F.binary_cross_entropy, F.binary_cross_entropy_with_logits), ("mean", "sum", "none")
    ):
        call = lambda loss=loss, reduction=reduction: loss(x, target, weight, reduction=reduction)  # noqa: E731
        out = call()
        ones = gc.ones_like(out)
        assert launches(call) == 1 + (reduction == "mean")  # and a sum of CUB's
        assert launches(lambda out=out, ones=ones: gc.autograd.grad(out, x, ones, retain_graph=True)) == 1


# -- losses of differences ----------------------------------------------------------------------------------------

LOSSES: dict[str, Callable[..., Any]] = {
    "mse": F.mse_loss,
    "smooth_l1": functools.partial(F.smooth_l1_loss, beta=0.6),
    "huber": functools.partial(F.huber_loss, delta=0.4),
    "soft_margin": F.soft_margin_loss,
}


@pytest.mark.parametrize("shape", [(7, 10), (1, 2), (0, 4), (2,)], ids=str)
@pytest.mark.parametrize("fusion", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_differences(
    device: str, name: str, shape: tuple[int, ...], fusion: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare values and derivatives for every second element of tensors, one of which is transposed in memory."""
    monkeypatch.setattr(config, "fusion", lambda: fusion)
    rng = np.random.default_rng(0)
    for dtype, reduction in itertools.product(DTYPES, ("mean", "sum", "none")):
        x, target = (
            drawn(rng, dtype, *shape)[..., ::2],
            drawn(rng, dtype, *shape[::-1]).permute(-1, *range(len(shape) - 1))[..., ::2],
        )
        if len(shape) == 1:
            x, target = x[0], target[0]
        loss = lambda x, t, r=reduction: LOSSES[name](x, t, reduction=r)  # noqa: E731
        second = dtype.itemsize > 2
        agree(
            *(with_gradients(loss, x.to(d), target.to(d), second=second) for d in (device, "cpu")),
            f"{dtype}, {reduction}",
        )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_launches_of_losses_of_differences(device: str, name: str, dtype: Any) -> None:
    x, target = (gc.full((6, 7), k, dtype=dtype, device=device).requires_grad_() for k in (0.5, 0.25))
    for reduction in ("mean", "sum", "none"):
        call = lambda reduction=reduction: LOSSES[name](x, target, reduction=reduction)  # noqa: E731
        out = call()
        ones, is_rounded = gc.ones_like(out), dtype.itemsize == 2 and reduction != "none"
        assert launches(call) == 1 + (reduction == "mean") + is_rounded  # and a sum of CUB's
        for wanted in ((x,), (x, target)):
            backward = lambda out=out, ones=ones, w=wanted: gc.autograd.grad(out, w, ones, retain_graph=True)  # noqa: E731
            assert launches(backward) == len(wanted)


# -- joins ---------------------------------------------------------------------------------------------------------


#: Layouts of a cube, all of which have 4 x 5 x 6 elements.
OF_CUBES: tuple[Callable[[Any], Any], ...] = (
    lambda x: x[:4, :5, :6].contiguous(),
    lambda x: x[1:5, 2:7, 3:9],
    lambda x: x.permute(2, 1, 0)[:4, :5, :6],
    lambda x: x[1::2, ::2, 3:],
    lambda x: x[:4, :1, :6].expand(4, 5, 6),
)


@pytest.mark.parametrize("dtype", [*DTYPES, gc.bool, gc.int8, gc.int64, gc.complex64, gc.complex128], ids=str)
def test_joins(device: str, dtype: Any) -> None:
    """Compare joins of a few arrays and of many, of all layouts and of 0 to 3 rows, with gradients if there are any."""
    rng = np.random.default_rng(0)
    for count, dim in itertools.product((1, 2, 5, 8, 9), (0, 1, -1)):
        cubes = [drawn(rng, gc.float64, 9, 9, 9).mul(9).to(dtype) for _ in range(count)]

        def run(where: str, of_rows: bool, cubes: Any = cubes, dim: int = dim) -> list[Any]:
            pieces = [OF_CUBES[n % 5](cube.to(where)) for n, cube in enumerate(cubes)]
            if of_rows:
                pieces = [x.narrow(dim, 0, (n + 3) % 4) for n, x in enumerate(pieces)]
            join = lambda *pieces: (gc.cat if of_rows else gc.stack)(pieces, dim)  # noqa: E731
            return with_gradients(join, *pieces) if dtype.is_floating_point else [join(*pieces)]

        for of_rows in (True, False):
            agree(run(device, of_rows), run("cpu", of_rows), f"{count} {dim} {of_rows}")


@pytest.mark.parametrize("dtype", [gc.float32, gc.bfloat16, gc.int64], ids=str)
def test_launches_of_joins(device: str, dtype: Any) -> None:
    x = gc.ones(4, 6, dtype=dtype, device=device)
    for count, dim in itertools.product((2, 3, 8, 9), (0, 1)):
        for pieces in ([x] * count, [x[:, ::2]] * count):
            assert launches(lambda pieces=pieces, dim=dim: gc.cat(pieces, dim)) == 1
            assert launches(lambda pieces=pieces, dim=dim: gc.stack(pieces, dim)) == 1
    for shape in ((4, 5), (4,), (4, 6, 1)):
        with pytest.raises(RuntimeError):
            gc.cat([x, gc.ones(shape, dtype=dtype, device=device)])


@pytest.mark.parametrize(("name", "forward", "backward"), [("LSTMCell", 3, 5), ("GRUCell", 3, 7), ("RNNCell", 2, 3)])
def test_launches_of_recurrent_cells(device: str, name: str, forward: int, backward: int) -> None:
    cell = getattr(gc.nn, name)(8, 6, device=device)
    x, state = (gc.ones(4, n, device=device, requires_grad=True) for n in (8, 6))
    call = lambda: cell(x, (state, state) if name == "LSTMCell" else state)  # noqa: E731
    assert launches(call) == forward
    out = call()[0] if name == "LSTMCell" else call()
    inputs, ones = (x, *cell.parameters()), gc.ones_like(out)
    assert launches(lambda: gc.autograd.grad(out, inputs, ones, retain_graph=True)) == backward


#: Functions of 2 x 4 x 6 x 6 elements that only move them, so that halves are not converted.
MOVES: dict[str, Callable[[Any], Any]] = {
    "flip": lambda x: x.flip((0, 2)),
    "rot90": lambda x: x.rot90(1, (2, 3)),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 3),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MOVES)
def test_launches_of_moves(device: str, name: str, dtype: Any) -> None:
    x = drawn(np.random.default_rng(0), dtype, 2, 4, 6, 6)
    agree(with_gradients(MOVES[name], x.to(device)), with_gradients(MOVES[name], x))
    x = x.to(device).requires_grad_()
    assert launches(lambda: MOVES[name](x)) == 1
    out = MOVES[name](x)
    ones = gc.ones_like(out)
    assert launches(lambda: gc.autograd.grad(out, x, ones, retain_graph=True)) == 1


# -- triangles and exchanges of rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*DTYPES, gc.bool, gc.int8, gc.complex128], ids=str)
def test_triangles(device: str, dtype: Any) -> None:
    x = drawn(np.random.default_rng(0), gc.float64, 3, 5, 6).mul(9).to(dtype)
    views = (lambda x: x, lambda x: x.mT, lambda x: x[:, ::2, 1:], lambda x: x[:1].expand(3, 5, 6), lambda x: x[:, :0])
    for view, diagonal in itertools.product(views, (0, 1, -2, 9, -(2**62))):
        moved = view(x.to(device))
        for function in (gc.tril, gc.triu):
            agree([function(moved, diagonal)], [function(view(x), diagonal)], f"{function} {diagonal}")
            assert launches(lambda f=function, x=moved, d=diagonal: f(x, d)) <= 1


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 5), (40, 40), (7, 4), (4, 7), (3, 0)])
def test_exchanges_of_rows(device: str, rows: int, columns: int) -> None:
    """Permutations that no single exchange undoes; larger matrices take no more launches."""
    x = drawn(np.random.default_rng(0), gc.float64, 2, 3, rows, columns)
    factors = gc.linalg.lu_factor(x)
    there = [t.to(device) for t in factors]
    agree(list(gc.lu_unpack(*there)), list(gc.lu_unpack(*factors)))
    assert launches(lambda: gc.lu_unpack(*there)) <= 11


# -- gates and cross products -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fusion", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gates_and_cross_products(device: str, dtype: Any, fusion: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare them along each dim, for dense, strided and empty tensors; cross products of tensors that broadcast."""
    monkeypatch.setattr(config, "fusion", lambda: fusion)
    rng, second = np.random.default_rng(0), dtype.itemsize > 2

    def compare(function: Callable[..., Any], *inputs: Any) -> None:
        agree(*(with_gradients(function, *[t.to(d) for t in inputs], second=second) for d in (device, "cpu")))

    for shape, dim in (((4, 6), -1), ((4, 6), 0), ((2, 0, 4), 2), ((8,), 0)):
        for x in (drawn(rng, dtype, *shape), drawn(rng, dtype, *shape, 2)[..., 1]):
            compare(lambda x, dim=dim: F.glu(x, dim), x)
    for shapes, dim in ((((5, 3), (5, 3)), -1), (((3, 4), (3, 1)), 0), (((0, 3), (1, 3)), 1), (((3,), (3,)), 0)):
        pair = [drawn(rng, dtype, *shape, 2)[..., 0] for shape in shapes]
        compare(lambda a, b, dim=dim: gc.linalg.cross(a, b, dim=dim), *pair)


def test_launches_of_gates_and_cross_products(device: str) -> None:
    """Halves and components are computed by one kernel; joining them takes a copy of each."""
    for function, shapes, forward, backward in (
        (F.glu, [(5, 8)], 1, 2),
        (gc.linalg.cross, [(5, 3), (5, 3)], 4, 8),
    ):
        inputs = [gc.ones(shape, device=device, requires_grad=True) for shape in shapes]
        out = function(*inputs)
        ones = gc.ones_like(out)
        assert launches(lambda f=function, i=inputs: f(*i)) == forward
        assert launches(lambda o=out, i=inputs, g=ones: gc.autograd.grad(o, i, g, retain_graph=True)) == backward


@pytest.mark.parametrize(
    ("shape", "dim", "message"),
    [
        ((), -1, "glu does not support 0-dimensional tensors"),
        ((2, 3), -1, "Halving dimension must be even, but dimension 1 is size 3"),
        ((2, 4), 2, "Dimension out of range"),
    ],
)
def test_errors_of_gates(device: str, shape: tuple[int, ...], dim: int, message: str) -> None:
    with pytest.raises((RuntimeError, IndexError), match=message):
        F.glu(gc.ones(shape, device=device), dim)


# -- extrema with an index ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_first_of_several_nan_is_the_extremum(device: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for shape, dim in (((7,), 0), ((5, 6), 1), ((5, 6), 0), ((3, 2000), 1), ((2000, 3), 0), ((2, 3, 300), -2)):
        values = rng.integers(-5, 5, shape).astype(float)
        values[rng.random(shape) < 0.1] = np.nan
        here = gc.tensor(values).to(dtype)
        for x in (here, here.flip(0)[..., ::2], -here.abs() * np.inf):
            for name, keepdim in itertools.product(("argmax", "argmin", "max", "min"), (False, True)):
                there, wanted = getattr(x.to(device), name)(dim, keepdim), getattr(x, name)(dim, keepdim)
                pairs = ((there, wanted),) if name.startswith("arg") else zip(there, wanted, strict=True)
                for a, b in pairs:
                    assert a.dtype is b.dtype
                    assert np.array_equal(a.cpu().double().numpy(), b.double().numpy(), equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_launches_of_extrema(device: str, dtype: Any) -> None:
    x = gc.rand(6, 50, device=device).to(dtype)
    for name in ("argmax", "argmin", "max", "min"):
        assert launches(lambda name=name: getattr(x, name)(1)) == 1


# -- projections of attention -------------------------------------------------------------------------------------


def test_self_attention_projects_by_one_product(device: str) -> None:
    counts = []
    for batch_first in (False, True):
        layer = gc.nn.MultiheadAttention(16, 2, batch_first=batch_first, device=device)
        x = gc.rand(5, 5, 16, device=device)
        with gc.no_grad():
            counts.append(launches(lambda x=x, layer=layer: layer(x, x, x, need_weights=False)))
    # The product of rows that lie one after the other adds the bias itself; of others a kernel writes the bias before.
    assert counts == [2, 3]


# -- sequences ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bounds", "most"), [((64,), 1), ((3, 64), 2), ((0, 64, 2), 2), ((3, 64, 2), 3)])
def test_launches_of_numbers_in_steps(device: str, bounds: tuple[int, ...], most: int) -> None:
    assert launches(lambda: gc.arange(*bounds, device=device)) == most
    for dtype in (gc.int64, gc.int32, gc.float32, gc.float64):
        agree([gc.arange(*bounds, dtype=dtype, device=device)], [gc.arange(*bounds, dtype=dtype)])


# -- arithmetic in place --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [gc.float32, gc.float64])
def test_arithmetic_in_place_takes_no_memory(device: str, dtype: Any) -> None:
    """Kernels write to the tensor itself, instead of to new memory that is copied then."""
    x, y = (gc.full((64, 64), value, dtype=dtype, device=device) for value in (0.25, 0.5))
    calls: dict[str, Callable[[], Any]] = {
        "add_": lambda: x.add_(y), "sub_": lambda: x.sub_(y), "mul_": lambda: x.mul_(y), "mul_ by 3": lambda: x.mul_(3),
        "neg_": lambda: x.neg_(), "tanh_": lambda: x.tanh_(), "exp_": lambda: x.exp_(),
    }  # fmt: skip
    for name, call in calls.items():
        assert launches(call) == 1, name
        gc.cuda.reset_peak_memory_stats()
        before = gc.cuda.memory_allocated()
        call()
        assert gc.cuda.max_memory_allocated() == before, name


OVERLAPPING: dict[str, Callable[[Any], Any]] = {
    "later": lambda x: x[1:].mul_(x[:-1]),
    "earlier": lambda x: x[:-1].sub_(x[1:]),
    "transposed": lambda x: x.view(16, 16).mul_(x.view(16, 16).t()),
    "one element": lambda x: x.mul_(x[3]),
    "a row": lambda x: x.view(16, 16).add_(x[16:32]),
    "itself": lambda x: x.mul_(x),
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_operands_in_place_that_overlap(device: str, name: str) -> None:
    def run(where: str) -> list[Any]:
        x = gc.arange(256.0).cos().to(where)
        for _ in range(3):
            OVERLAPPING[name](x)
        return [x]

    agree(run(device), run("cpu"))


@pytest.mark.parametrize("other", [gc.ones(3, 4), gc.ones(5), gc.ones(4, dtype=gc.complex64)], ids=str)
def test_errors_of_arithmetic_in_place_are_those_of_the_cpu(device: str, other: Any) -> None:
    found = []
    for where in (device, "cpu"):
        x = gc.ones(4, device=where)
        for _ in range(2):
            with pytest.raises(RuntimeError) as error:
                x.mul_(other.to(where))
            found.append(str(error.value))
        assert x.tolist() == [1.0] * 4
    assert len(set(found)) == 1
