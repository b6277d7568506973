"""Products, contractions and distances: values, derivatives, routes by shape and dtype, errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradcore as gc
from tests.ops.directions import check_derivatives, random

SHAPES = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((5, 2, 3), (3,)), ((3,), (5, 3, 4)), ((2, 1), (1, 3)),
    ((5, 2, 1), (5, 1, 3)), ((1,), (1, 3)), ((2, 0), (0, 3)), ((0, 3), (3, 2)), ((2, 3), (3, 0)), ((0, 2, 3), (3, 2)),
]  # fmt: skip


def draw(*shape: int, dtype: str = "float64", seed: int = 0) -> Any:
    return random(np.random.default_rng(seed), shape, dtype)


# -- matmul -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(("first", "second"), SHAPES)
def test_matmul(first: tuple[int, ...], second: tuple[int, ...], dtype: str) -> None:
    a, b = draw(*first, dtype=dtype), draw(*second, dtype=dtype, seed=1)
    np.testing.assert_allclose((gc.tensor(a) @ gc.tensor(b)).numpy(), a @ b, rtol=1e-12)
    check_derivatives(gc.matmul, a, b)


def test_every_layout_of_operands() -> None:
    """Transposed, strided, reversed and expanded operands take other routes to BLAS."""
    wide = draw(80, 80)
    views = [
        lambda x: x,
        lambda x: x.T,
        lambda x: x[::2, ::2],
        lambda x: x[::-1],
        lambda x: np.broadcast_to(x[:1, :1], (40, 40)),
    ]
    for f, g in itertools.product(views, views):
        a, b = f(wide)[:40, :40], g(wide)[:40, :40]
        found = _wrapped(a) @ _wrapped(b)
        np.testing.assert_allclose(found.numpy(), a @ b, rtol=1e-12, atol=1e-12)


def _wrapped(array: Any) -> gc.Tensor:
    """Return a tensor of this very array, whatever its strides."""
    from gradcore.autograd.variables import wrap
    from gradcore.backends.registry import CPU

    return wrap(array, CPU)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_integers_are_multiplied_exactly(dtype: str) -> None:
    rng = np.random.default_rng(0)
    high = np.iinfo(dtype).max
    for limit in (10, high):  # small products go through float64, large ones wrap around
        a, b = (rng.integers(0, limit, (40, 40)).astype(dtype) for _ in range(2))
        np.testing.assert_array_equal((gc.tensor(a) @ gc.tensor(b)).numpy(), a @ b)


def test_half_precision_is_rounded_once() -> None:
    a = gc.tensor(draw(50, 50), dtype=gc.float16)
    found = a @ a
    assert found.dtype is gc.float16
    expected = (a.numpy().astype("float32") @ a.numpy().astype("float32")).astype("float16")
    np.testing.assert_array_equal(found.numpy(), expected)


def test_nodes_have_pytorchs_names() -> None:
    v, m, b = gc.ones(2, requires_grad=True), gc.ones(2, 2, requires_grad=True), gc.ones(3, 2, 2, requires_grad=True)
    linear = gc.nn.functional.linear
    names = {
        "DotBackward0": v @ v, "MvBackward0": m @ v, "MmBackward0": m @ m, "BmmBackward0": gc.bmm(b, b),
        "UnsafeViewBackward0": b @ m, "SqueezeBackward4": v @ m, "AddmmBackward0": linear(m, m, v),
        "VdotBackward0": gc.vdot(v, v),
        "ViewBackward0": linear(b, m, v), "MulBackward0": gc.outer(v, v), "AddrBackward0": gc.addr(m, v, v),
        "BaddbmmBackward0": gc.baddbmm(b, b, b),
        "LinalgCrossBackward0": gc.cross(gc.ones(3, requires_grad=True), gc.ones(3), dim=0),
        "CdistBackward0": gc.cdist(m, m),
    }  # fmt: skip
    for name, out in names.items():
        assert out.grad_fn.name() == name
    assert linear(m, m).grad_fn.name() == "MmBackward0"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gc.ones(2, 3) @ gc.ones(4, 5), r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)"),
        (lambda: gc.ones(7, 2, 3) @ gc.ones(4, 5), r"mat1 and mat2 shapes cannot be multiplied \(14x3 and 4x5\)"),
        (
            lambda: gc.ones(3) @ gc.ones(4),
            r"inconsistent tensor size, expected tensor \[3\] and src \[4\] to have the same",
        ),
        (lambda: gc.ones(2, 3) @ gc.ones(4), r"size mismatch, got input \(2\), mat \(2x3\), vec \(4\)"),
        (
            lambda: gc.ones(2, 2) @ gc.tensor(1.0),
            "both arguments to matmul need to be at least 1D, but they are 2D and 0D",
        ),
        (
            lambda: gc.ones(2, 2) @ gc.ones(2, 2).double(),
            "expected m1 and m2 to have the same dtype, but got: float != double",
        ),
        (lambda: gc.bmm(gc.ones(2, 2, 3), gc.ones(2, 4, 5)), r"batch2 tensor to be: \[2, 3\] but got: \[2, 4\]"),
        (lambda: gc.mm(gc.ones(3), gc.ones(3, 3)), "self must be a matrix"),
        (lambda: gc.nn.functional.linear(gc.ones(2, 3), gc.ones(5, 4)), r"\(2x3 and 4x5\)"),
        (
            lambda: gc.nn.functional.linear(gc.ones(2, 3), gc.ones(5, 3), gc.ones(4)),
            r"The expanded size of the tensor \(5\)",
        ),
        (
            lambda: gc.linalg.multi_dot([gc.ones(2, 3), gc.ones(4, 5)]),
            r"tensors 0 and 1 with shapes \[2, 3\] and \[4, 5\]",
        ),
        (
            lambda: gc.tensordot(gc.ones(2, 3), gc.ones(4, 5), 1),
            "first has size 3 in dim -1 and second has size 4 in dim 0",
        ),
        (lambda: gc.cross(gc.ones(2, 2), gc.ones(2, 2), dim=0), "inputs dimension 0 must have length 3. Got 2 and 2"),
        (
            lambda: gc.einsum("ij,jk->ik", gc.ones(2, 3), gc.ones(4, 5)),
            "subscript j has size 4 for operand 1 which does not",
        ),
        (lambda: gc.einsum("ij,jk->il", gc.ones(2, 3), gc.ones(3, 5)), "output subscript l does not appear"),
        (lambda: gc.einsum("i!", gc.ones(2, 3)), "invalid subscript given at index 1"),
        (lambda: gc.einsum("ijk", gc.ones(2, 3)), r"the number of subscripts in the equation \(3\) does not match"),
        (
            lambda: gc.einsum("ii", gc.ones(2, 3)),
            "subscript i is repeated for operand 0 but the sizes don't match, 3 != 2",
        ),
    ],
)
def test_messages(call: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        gc.matmul(gc.ones(2, 2), 3)


def note_calls(monkeypatch: pytest.MonkeyPatch, name: str, note: Any) -> None:
    """Call `note` with what a kernel of the CPU is called with."""
    from gradcore.backends.base import Kernels
    from gradcore.backends.registry import CPU

    plain = CPU.kernels

    def noting(*args: Any) -> Any:
        note(*args)
        return plain[name](*args)

    monkeypatch.setattr(CPU, "kernels", Kernels(lambda each: noting if each == name else plain[each]))


# -- chains, sums, layers ---------------------------------------------------------------------------------------------


def test_chains_are_multiplied_in_the_cheapest_order(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    note_calls(monkeypatch, "mm", lambda a, b: sizes.append((*a.shape, b.shape[1])))
    a, b, c = gc.ones(2, 100), gc.ones(100, 100), gc.ones(100, 2)
    assert gc.linalg.multi_dot([a, b, c]).shape == (2, 2)
    assert sum(m * k * n for m, k, n in sizes) == 2 * 100 * 100 + 2 * 100 * 2
    assert gc.linalg.multi_dot([gc.ones(100), b, gc.ones(100)]).shape == ()


def test_products_are_added_in_place() -> None:
    x = gc.ones(2, 2, requires_grad=True)
    y = x * 1
    y.addmm_(gc.full((2, 3), 2.0), gc.ones(3, 2), beta=0.5, alpha=2)
    assert y.tolist() == [[12.5, 12.5], [12.5, 12.5]]
    y.sum().backward()
    assert x.grad.tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_a_summand_without_weight_is_not_read() -> None:
    nan = gc.full((2, 2), float("nan"))
    assert gc.addmm(nan, gc.ones(2, 2), gc.ones(2, 2), beta=0).tolist() == [[2, 2], [2, 2]]


def test_bias_gradients_of_large_batches() -> None:
    x, w, b = (
        gc.tensor(draw(*shape, seed=i), requires_grad=True) for i, shape in enumerate([(300, 7), (40, 7), (40,)])
    )
    g = gc.tensor(draw(300, 40, seed=9))
    gc.nn.functional.linear(x, w, b).backward(g)
    np.testing.assert_allclose(b.grad.numpy(), g.numpy().sum(0), rtol=1e-12)
    np.testing.assert_allclose(w.grad.numpy(), g.numpy().T @ x.detach().numpy(), rtol=1e-12)


# -- einsum -----------------------------------------------------------------------------------------------------------


@st.composite
def equations(draw_: Any) -> tuple[str, list[tuple[int, ...]]]:
    """Draw an equation with up to three operands and repeated letters."""
    sizes = dict(zip("abcde", draw_(st.permutations([1, 2, 3, 2, 4])), strict=True))
    operands = draw_(st.lists(st.lists(st.sampled_from("abcde"), max_size=4), min_size=1, max_size=3))
    letters = sorted({letter for labels in operands for letter in labels})
    output = draw_(st.lists(st.sampled_from(letters), unique=True)) if letters else []
    return f"{','.join(map(''.join, operands))}->{''.join(output)}", [
        tuple(sizes[x] for x in labels) for labels in operands
    ]


@given(equations())
def test_einsum(case: tuple[str, list[tuple[int, ...]]]) -> None:
    equation, shapes = case
    arrays = [draw(*shape, seed=i) for i, shape in enumerate(shapes)]
    found = gc.einsum(equation, *map(gc.tensor, arrays))
    np.testing.assert_allclose(found.numpy(), np.einsum(equation, *arrays), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bij,bkj->bik", [(2, 3, 4), (2, 5, 4)]),
        ("ij,ij->", [(2, 3), (2, 3)]),
        ("ii,i->i", [(3, 3), (3,)]),
        ("...i,...i->...", [(2, 1, 3), (4, 3)]),
        ("ab,bc,cd,da->", [(2, 3), (3, 4), (4, 2), (2, 2)]),
        ("abcd,cdeb->ae", [(2, 3, 4, 2), (4, 2, 3, 3)]),
        ("ij,kl->ljki", [(2, 3), (3, 2)]),
        ("ij,jk", [(2, 1), (3, 4)]),
    ],
)
def test_derivatives_of_einsum(equation: str, shapes: list[tuple[int, ...]], dtype: str) -> None:
    arrays = [draw(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]
    check_derivatives(lambda *x: gc.einsum(equation, *x), *arrays)


def test_einsum_takes_lists_of_dims() -> None:
    a, b = gc.tensor(draw(2, 3)), gc.tensor(draw(4, 3))
    expected = gc.einsum("ij,kj->ik", a, b)
    assert gc.equal(gc.einsum(a, [0, 1], b, [2, 1], [0, 2]), expected)
    assert gc.equal(gc.einsum(a, [..., 1], b, [2, 1]), expected)
    assert gc.equal(gc.einsum("ij,kj->ik", [a, b]), expected)


def test_einsum_contracts_small_things_first(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    note_calls(monkeypatch, "contract", lambda a, b, *of: shapes.append((a.shape, b.shape)))
    gc.einsum("ij,jk,k->i", gc.ones(50, 60), gc.ones(60, 70), gc.ones(70))
    assert shapes[0] == ((60, 70), (70,))


# -- distances --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("points", [4, 40])
def test_distances(points: int, p: float) -> None:
    a, b = draw(points, 3), draw(2, 5, 3, seed=1)
    found = gc.cdist(gc.tensor(a), gc.tensor(b), p)
    expected = (
        np.linalg.norm(a[:, None] - b[:, None], ord=p, axis=-1)
        if p != 0.5
        else (abs(a[:, None] - b[:, None]) ** p).sum(-1) ** 2
    )
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-7)
    check_derivatives(lambda a, b: gc.cdist(a, b, p), a, b, second=p in (2.0, 3.0))


def test_equal_points_have_no_direction() -> None:
    x = gc.ones(3, 2, requires_grad=True)
    gc.cdist(x, x.detach()).sum().backward()
    assert x.grad.tolist() == [[0, 0]] * 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gc.matmul([1.0], gc.ones(2)), r"matmul\(\): argument 'input' \(position 1\) must be Tensor, not list"),
        (
            lambda: gc.cross([1.0], gc.ones(3), dim=0),
            r"cross\(\): argument 'input' \(position 1\) must be Tensor, not list",
        ),
        (lambda: gc.flatten([1.0]), r"flatten\(\): argument 'input' \(position 1\) must be Tensor, not list"),
        (lambda: gc.pow([1.0], gc.ones(2)), r"pow\(\): argument 'input' \(position 1\) must be Tensor, not list"),
    ],
)
def test_what_is_no_tensor_is_named(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_empty_lists_of_tensors():
    with pytest.raises(ValueError, match=r"torch.cat\(\): expected a non-empty list of Tensors"):
        gc.cat([])
    with pytest.raises(RuntimeError, match="stack expects a non-empty TensorList"):
        gc.stack([])


def test_indices_out_of_bounds_are_errors_of_both_kinds():
    for error in (IndexError, RuntimeError):
        with pytest.raises(error, match="index 5 is out of bounds for dimension 0 with size 2"):
            gc.ones(2).gather(0, gc.tensor([5]))


def test_tensordot_of_integers_keeps_their_dtype() -> None:
    a, b = gc.ones(1, 2, dtype=gc.uint8), gc.full((3, 2), 100, dtype=gc.uint8)
    result = gc.tensordot(a, b, dims=([0, 1], [0, 1]))  # The dim of one element is that of a sum of `b`.
    assert result.dtype is gc.uint8
    assert result.item() == 600 % 256


@pytest.mark.parametrize("name", ["addmm", "addmv", "addr", "addbmm", "baddbmm"])
def test_factors_of_unsigned_products_wrap_around_in_each_call(name: str) -> None:
    shapes = {"addmv": [(2,), (2, 2), (2,)], "addr": [(2, 2), (2,), (2,)], "addbmm": [(2, 2), (1, 2, 2), (1, 2, 2)]}
    usual = [(2, 2)] * 3 if name == "addmm" else [(1, 2, 2)] * 3
    operands = [gc.ones(*shape, dtype=gc.uint8) for shape in shapes.get(name, usual)]
    inner = 1 if name == "addr" else 2
    for _ in range(3):
        function = getattr(gc, name)
        assert function(*operands, alpha=-1).unique().tolist() == [(1 - inner) % 256]
        assert function(*operands, beta=-1).unique().tolist() == [(inner - 1) % 256]
        with pytest.raises(RuntimeError, match="value cannot be converted to type uint8_t without overflow"):
            function(*operands, alpha=256)
