"""Nestings of transformations, three and four deep, compared with loops over plain reverse mode.

A letter is a transformation that maps a function of a vector to another function of a vector, so that every word over
the letters is a program. The reference computes each letter with `autograd.grad` alone: no batch, no forward mode.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.func import grad, jacfwd, jacrev, jvp, linearize, vjp, vmap

Function = Callable[[Any], Any]

X = gc.tensor([0.7, -0.4, 1.1], dtype=gc.float64)
V = gc.tensor([0.9, 0.6, -0.8], dtype=gc.float64)
W = gc.tensor([-0.5, 1.2, 0.7], dtype=gc.float64)
#: A cotangent or a tangent for each sample of a batch, and the weight of its result in the sum of all.
ROWS = gc.tensor([[1.0, -0.6, 0.3], [0.2, 0.8, -1.1], [-0.7, 0.4, 0.9]], dtype=gc.float64)
WEIGHTS = gc.tensor([0.8, -1.3, 0.6], dtype=gc.float64)


# -- functions to transform: each composes nonlinear operations -------------------------------------------------------


def polynomial(x: Any) -> Any:
    return (x * x) * (x.flip(0) * x) + x


def written_in_place(x: Any) -> Any:
    y = x * x
    y[1:].mul_(x[:-1])
    y.add_(y.flip(0).sin())
    return y * x


def views_of_a_base(x: Any) -> Any:
    base = x.new_zeros(3, 2)
    base[:, 0] = x * x
    base.t()[1] = x.cos()
    base.select(0, 1).mul_(x[2])
    return base.prod(1) + base.T[0].exp()


def memory_outside_of_the_batch(x: Any) -> Any:
    base = gc.zeros(3, dtype=x.dtype)
    base[:] = x * x
    base[1:].mul_(x[0])
    base[gc.tensor([0, 2])] = x[:2].sin()
    return base * x


def general_formulas(x: Any) -> Any:
    return gc.softmax(x * x, 0).cumprod(0) * gc.logsumexp(x.sin(), 0)


def matrices(x: Any) -> Any:
    m = x.outer(x.sin()) + 3 * gc.eye(3, dtype=x.dtype)
    return gc.linalg.solve(m, x * x) @ m


def mixed_dtypes(x: Any) -> Any:
    y = (x * x).to(gc.float32)
    return (y * x).to(gc.float32) * y + x


PROGRAMS = (
    polynomial,
    written_in_place,
    views_of_a_base,
    memory_outside_of_the_batch,
    general_formulas,
    matrices,
    mixed_dtypes,
)


# -- letters: what gradcore computes, and the reference ---------------------------------------------------------------


def pull_of(f: Function, x: Any) -> Function:
    pull = vjp(f, x)[1]
    return lambda c: pull(c)[0]


def derivative_of_pull(f: Function, x: Any) -> Any:
    """Compute the gradient, by the cotangent, of the squared norm of the pull-back's result."""
    pull = pull_of(f, x)
    return grad(lambda c: pull(c).square().sum())(V)


def combined(rows: Any, size: int) -> Any:
    return WEIGHTS[:size] @ rows


def pulled(f: Function, x: Any, cotangent: Any) -> Any:
    """Compute the product of a cotangent and the Jacobian, with a history."""
    return pull_all(f, x, [cotangent])[0]


def pull_all(f: Function, x: Any, cotangents: Iterable[Any]) -> list[Any]:
    """Compute the product of each cotangent and the Jacobian, with a history, by one call of `f`."""
    x = x if x.requires_grad else x.detach().requires_grad_()
    out = f(x)
    if not out.requires_grad:
        return [gc.zeros_like(x) for _ in cotangents]
    found = [gc.autograd.grad(out, x, c.to(out.dtype), create_graph=True, allow_unused=True)[0] for c in cotangents]
    return [gc.zeros_like(x) if each is None else each for each in found]


def pushed(f: Function, x: Any, tangent: Any) -> Any:
    """Compute the product of the Jacobian and a tangent, row by row."""
    return gc.stack([row @ tangent for row in pull_all(f, x, gc.eye(3, dtype=gc.float64))])


#: By letter: the transformation of `f` for a batch of some size, and the same in plain reverse mode.
LETTERS: dict[str, tuple[Callable[[Function, int], Function], Callable[[Function, int], Function]]] = {
    "grad": (
        lambda f, n: lambda x: grad(lambda x: f(x) @ W)(x),
        lambda f, n: lambda x: pulled(f, x, W),
    ),
    "jvp": (
        lambda f, n: lambda x: jvp(f, (x,), (V,))[1],
        lambda f, n: lambda x: pushed(f, x, V),
    ),
    "vjp": (
        lambda f, n: lambda x: pull_of(f, x)(V),
        lambda f, n: lambda x: pulled(f, x, V),
    ),
    "jacrev": (
        lambda f, n: lambda x: jacrev(f)(x) @ W,
        lambda f, n: lambda x: pushed(f, x, W),
    ),
    "jacfwd": (
        lambda f, n: lambda x: V @ jacfwd(f)(x),
        lambda f, n: lambda x: pulled(f, x, V),
    ),
    "vmap": (
        lambda f, n: lambda x: combined(vmap(f)(x * ROWS[:n]), n),
        lambda f, n: lambda x: sum(w * f(x * row) for w, row in zip(WEIGHTS[:n], ROWS, strict=False)),
    ),
    "vmap of columns": (
        lambda f, n: lambda x: vmap(f, in_dims=1, out_dims=1)((x * ROWS[:n]).T) @ WEIGHTS[:n],
        lambda f, n: lambda x: sum(w * f(x * row) for w, row in zip(WEIGHTS[:n], ROWS, strict=False)),
    ),
    "vmap of a pull-back": (
        lambda f, n: lambda x: combined(vmap(pull_of(f, x))(ROWS[:n]), n),
        lambda f, n: lambda x: pulled(f, x, combined(ROWS[:n], n)),
    ),
    "pull-back in vmap": (
        lambda f, n: lambda x: combined(vmap(lambda c: pull_of(f, x)(c))(ROWS[:n]), n),
        lambda f, n: lambda x: pulled(f, x, combined(ROWS[:n], n)),
    ),
    "vmap of a push-forward": (
        lambda f, n: lambda x: combined(vmap(linearize(f, x)[1])(ROWS[:n]), n),
        lambda f, n: lambda x: pushed(f, x, combined(ROWS[:n], n)),
    ),
    "vmap of a pull-back of samples": (
        lambda f, n: lambda x: combined(vmap(lambda x: pull_of(f, x)(V))(x * ROWS[:n]), n),
        lambda f, n: lambda x: sum(w * pulled(f, x * row, V) for w, row in zip(WEIGHTS[:n], ROWS, strict=False)),
    ),
    "grad of a pull-back": (
        lambda f, n: lambda x: derivative_of_pull(f, x),
        lambda f, n: lambda x: pushed(f, x, 2 * pulled(f, x, V)),
    ),
    "jvp of a pull-back": (
        lambda f, n: lambda x: jvp(pull_of(f, x), (V,), (W,))[1],
        lambda f, n: lambda x: pulled(f, x, W),
    ),
    "transposed push-forward": (
        lambda f, n: lambda x: pull_of(linearize(f, x)[1], V)(W),
        lambda f, n: lambda x: pulled(f, x, W),
    ),
}


# -- steps between two letters: views and writes in place -------------------------------------------------------------


def write_into_new_memory(r: Any, x: Any) -> Any:
    out = r.new_zeros(2, 3)
    out[1] = r
    out[0] = r * r
    return out[1] + 0.1 * out[0]


def write_over_the_result(r: Any, x: Any) -> Any:
    out = r.clone()
    out[1:].mul_(x[:-1])
    return out.add_(x.sin())


def write_to_a_view(r: Any, x: Any) -> Any:
    base = (r * x).expand(2, 3).clone()
    base.T[1].mul_(r[0])
    return base.reshape(3, 2)[:, 1] + r


#: By name: a step between two letters. Each is a nonlinear function of the result and of its argument.
STEPS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda r, x: r,
    write_into_new_memory,
    write_over_the_result,
    write_to_a_view,
)


def words(start: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the words of three and four letters with that beginning, outermost transformation first."""
    for length in (3, 4):
        for rest in itertools.product(LETTERS, repeat=length - len(start)):
            yield (*start, *rest)


def then(f: Function, step: Callable[[Any, Any], Any]) -> Function:
    return lambda x: step(f(x), x)


def compare(word: tuple[str, ...], f: Function, size: int, step: Callable[[Any, Any], Any] = STEPS[0]) -> None:
    if f is memory_outside_of_the_batch and not {
        "vmap",
        "vmap of columns",
        "vmap of a pull-back of samples",
    }.isdisjoint(word):
        return  # samples that differ cannot be written there
    found, expected = f, f
    for letter in reversed(word):
        transform, reference = LETTERS[letter]
        found, expected = transform(then(found, step), size), reference(then(expected, step), size)
    value, right = found(X), expected(X).detach()
    assert not value.requires_grad
    tolerance = 1e-4 if f is mixed_dtypes else 1e-9
    scale = max(1.0, float(abs(right).max()))
    np.testing.assert_allclose(value.numpy(), right.numpy(), tolerance, tolerance * scale, err_msg=" of ".join(word))


def is_sampled(word: tuple[str, ...], f: Function, share: int) -> bool:
    return zlib.crc32(f"{word} {f.__name__}".encode()) % share == 0


@pytest.mark.sampled(24)
@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("first", LETTERS)
def test_words(first: str, f: Any) -> None:
    for number, word in enumerate(words((first,))):
        if is_sampled(word, f, 150 if len(word) == 3 else 7000):
            compare(word, f, 2 + number % 2, STEPS[number // 2 % len(STEPS)])


@pytest.mark.parametrize(
    ("word", "f", "step"),
    [
        # Saved values that were broadcast to the batch, in a node that keeps duals.
        (("grad", "jvp", "grad", "vmap of a pull-back"), polynomial, STEPS[0]),
        # Writes to memory outside of the batch, and gradients with fewer batches than what was written.
        (("grad", "pull-back in vmap"), memory_outside_of_the_batch, STEPS[0]),
        (("grad", "jacfwd", "pull-back in vmap"), memory_outside_of_the_batch, STEPS[0]),
        (("grad", "jacrev", "pull-back in vmap"), written_in_place, STEPS[0]),
        # Tangents that are in the batch already when their primals are broadcast to it.
        (("vmap of a push-forward", "jacfwd", "jvp"), general_formulas, STEPS[0]),
        # Views of a tangent that moved to memory of its own for each sample.
        (("vmap", "jvp of a pull-back"), written_in_place, write_to_a_view),
        # Views that have a tangent at a level where nobody had asked for it.
        (("jvp", "jvp", "grad"), polynomial, write_to_a_view),
    ],
)
def test_words_with_their_own_path(word: tuple[str, ...], f: Any, step: Callable[[Any, Any], Any]) -> None:
    compare(word, f, 2, step)
