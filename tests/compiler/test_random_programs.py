"""Random functions, compiled: results, gradients inside, arguments that are written to and random numbers to the bit.

``GRADCORE_RANDOM_PROGRAMS=5000`` in the environment draws so many of them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gradcore as gc
from gradcore.compiler.function import CompiledFunction

F = gc.nn.functional
Step = Callable[[gc.Tensor, gc.Tensor], gc.Tensor]

#: Of two matrices of one shape another one, without NaN.
PLAIN: list[Step] = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / (b.abs() + 1), lambda a, b: a.tanh(),
    lambda a, b: a.sigmoid(), lambda a, b: (a * 0.1).exp(), lambda a, b: a**2, lambda a, b: a**3, lambda a, b: a**1,
    lambda a, b: (a * a + 1).sqrt(), lambda a, b: a.relu(), lambda a, b: gc.where(a > b, a, b * 0.5), lambda a, b: -a,
    lambda a, b: a.clamp(-2, 2), lambda a, b: gc.maximum(a, b), lambda a, b: F.gelu(a), lambda a, b: a * 1,
    lambda a, b: 1 - a, lambda a, b: a.clone(), lambda a, b: a.contiguous(), lambda a, b: a.double().to(a.dtype),
    lambda a, b: a + 0, lambda a, b: a.t().contiguous().t() if a.shape[0] == a.shape[1] else a,
    lambda a, b: a.reshape(-1).view(a.shape), lambda a, b: a.sum(0, keepdim=True) * 0.1 + b,
    lambda a, b: a.mean(1, keepdim=True).expand_as(b), lambda a, b: a.sum() * 0.01 + b, lambda a, b: a - a.mean(),
    lambda a, b: F.softmax(a, 1), lambda a, b: F.layer_norm(a, a.shape[1:]), lambda a, b: a.flip(0),
    lambda a, b: gc.cat([a[1:], b[:1]]), lambda a, b: gc.stack([a, b]).sum(0), lambda a, b: a[0] + b,
    lambda a, b: a[:, :1] * b, lambda a, b: (a @ b.t() @ b * 0.01).tanh(),
    lambda a, b: F.linear(a, b[:, :].t() @ a * 0.1).tanh(), lambda a, b: a.cumsum(1) * 0.1,
    lambda a, b: a.index_select(0, gc.tensor([0] * a.shape[0])), lambda a, b: gc.zeros_like(a) + b,
    lambda a, b: gc.ones(a.shape) * a, lambda a, b: a * gc.full((), 2.0),
    lambda a, b: a.max(1, keepdim=True).values + b, lambda a, b: a.detach() * b,
]  # fmt: skip
#: Those that write to memory, or draw random numbers.
OTHERS: list[Step] = [
    lambda a, b: a.clone().add_(b), lambda a, b: a.clone().mul_(0.5), lambda a, b: F.dropout(a, 0.3),
    lambda a, b: a + gc.randn(a.shape), lambda a, b: _assigned(a.clone(), b), lambda a, b: gc.zeros_like(a).copy_(b),
    lambda a, b: a.clone().t().add_(b.t()).t(), lambda a, b: a.clone().zero_() + b,
    lambda a, b: a.clone().clamp_(-1, 1), lambda a, b: gc.rand_like(a) * b,
]  # fmt: skip
STEPS = [*PLAIN, *OTHERS]


def _assigned(a: gc.Tensor, b: gc.Tensor) -> gc.Tensor:
    a[0] = b[-1]
    return a


chosen = st.lists(
    st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 11), st.integers(0, 11)), min_size=1, max_size=14
)
shapes = st.sampled_from([(3, 3), (3, 3), (2, 5), (1, 4), (1, 1), (190, 190)])
modes = st.sampled_from(["values", "values", "gradient", "func", "vmap", "writes"])


def function_of(steps: list[tuple[int, int, int]], mode: str) -> Callable[..., Any]:
    def body(x: gc.Tensor, w: gc.Tensor) -> tuple[gc.Tensor, ...]:
        values = [x * 0.5, w.sigmoid()]
        for step, i, j in steps:
            values.append(STEPS[step](values[i % len(values)], values[j % len(values)]).clamp(-5, 5))
        return values[-1].clone(), values[len(values) // 2] * 1, values[-1].mean()

    def gradient(x: gc.Tensor, w: gc.Tensor) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        results = body(x, w)
        return tuple(r.detach() for r in results), gc.autograd.grad(sum(r.sum() for r in results), (x, w))

    def with_func(x: gc.Tensor, w: gc.Tensor) -> Any:
        return gc.func.grad(lambda x: sum(r.sum() for r in body(x, w)))(x)

    def in_batch(x: gc.Tensor, w: gc.Tensor) -> Any:
        return gc.vmap(lambda x: body(x, w)[0], randomness="different")(gc.stack([x, x * 2]))

    def writing(x: gc.Tensor, w: gc.Tensor) -> Any:
        first = body(x, w)
        x.add_(first[0]).mul_(0.5)
        second = body(x, w)
        w[0] = second[0][0]
        return second, body(x, w)

    return {"values": body, "gradient": gradient, "func": with_func, "vmap": in_batch, "writes": writing}[mode]


def arrays_of(value: Any) -> list[bytes]:
    if isinstance(value, tuple):
        return [each for part in value for each in arrays_of(part)]
    array = value.detach().numpy()
    return [f"{array.dtype}{array.shape}".encode() + array.tobytes()]


def check(steps: list[tuple[int, int, int]], shape: tuple[int, int], mode: str) -> bool:
    """Compare four calls; returns whether there is a program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _check(function_of(steps, mode), shape)


def _check(function: Callable[..., Any], shape: tuple[int, int]) -> bool:
    compiled = CompiledFunction(function)
    for seed in range(4):
        gc.manual_seed(seed)
        given = gc.randn(shape), gc.randn(shape)
        outcomes = []
        for call in (function, compiled):
            args = tuple(t.clone() for t in given)
            gc.manual_seed(seed)
            try:
                outcomes.append(([*arrays_of(call(*args)), *arrays_of(args)], gc.get_rng_state().tolist()))
            except Exception as error:
                outcomes.append((type(error), str(error)))
        assert outcomes[0] == outcomes[1], f"call {seed}"
    return bool(compiled._specializations)


@given(chosen, shapes, modes)
@settings(
    max_examples=int(os.environ.get("GRADCORE_RANDOM_PROGRAMS", "40")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_random_functions_are_those_of_eager_execution(steps: Any, shape: Any, mode: str) -> None:
    check(steps, shape, mode)


def test_nearly_all_have_programs() -> None:
    found = [check([(step, 1, 0)], (3, 3), "values") for step in range(0, len(STEPS), 3)]
    assert all(found)
