"""Autocasting on the CPU against PyTorch: dtypes and values of every operation, training, gradient scaling."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.amp.casting import policy_of
from gradcore.core import dtypes
from gradcore.ops.declare.table import OPS, Op
from tests.ops.cases import Drawn
from tests.oracle.test_dtypes_of_ops_torch import PRECISION, Theirs, numbers, outcome, representatives, their_function

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

OPERATIONS = [
    op for op in OPS.values() if (op.function or op.method) and not op.random and their_function(op) is not None
]
#: Which dtypes the floating-point arguments have: the first, and the others.
ARGUMENTS = {"float32": ("float32",) * 2, "low": ("low",) * 2, "mixed": ("low", "float32"), "float64": ("float64",) * 2}
#: Where PyTorch's own composition shows: a product at the end of a decomposition, pooling by way of a dim more or less.
OTHER = {"linalg_pinv", "local_response_norm-1"}
#: Values that depend on more than rounding: where a decomposition or an order is not unique.
AMBIGUOUS = {
    "geqrf", "linalg_eig", "linalg_eigh", "linalg_qr", "linalg_svd", "lu", "pca_lowrank", "qr", "svd", "svd_lowrank",
}  # fmt: skip


def outcomes(case: Drawn, low: str, first: str, others: str, casting: bool) -> Any:
    """Ours and theirs, with or without autocasting."""
    arrays = case.arrays()
    floating = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
    kinds: list[str | None] = [None] * len(arrays)
    for i in floating:
        name = first if i == floating[0] else others
        kinds[i] = low if name == "low" else name
    drawn = [numbers(a, getattr(dtypes, kind or "float32")) for a, kind in zip(arrays, kinds, strict=True)]
    ours = [gc.tensor(a, dtype=kind and getattr(gc, kind)) for a, kind in zip(drawn, kinds, strict=True)]
    theirs = [
        torch.tensor(a) if kind is None else torch.tensor(a).to(getattr(torch, kind))
        for a, kind in zip(drawn, kinds, strict=True)
    ]
    other = case._replace(op=Theirs(case.op))  # type: ignore[arg-type]
    with gc.autocast("cpu", getattr(gc, low), enabled=casting), torch.autocast("cpu", getattr(torch, low), casting):
        return outcome(lambda: case.call(ours), gc.Tensor), outcome(lambda: other.call(theirs), torch.Tensor)


def has_policy(op: Op) -> bool:
    """Whether the operation has a policy on the CPU, for some calls at least."""
    return callable(op.autocast) or policy_of(op, (), "cpu") is not None


def cases_of(op: Op) -> list[Drawn]:
    return [case for case in representatives(op) if not any(np.iscomplexobj(a) for a in case.arrays())]


@pytest.mark.parametrize("low", ["bfloat16", "float16"])
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_dtypes_and_values_of_every_operation(low: str, arguments: str) -> None:
    wrong, compared = [], 0
    for case in (case for op in OPERATIONS for case in cases_of(op)):
        ours, theirs = outcomes(case, low, *ARGUMENTS[arguments], casting=True)
        if theirs.dtypes is None or {case.label, case.op.name} & OTHER:
            continue
        if ours.dtypes != theirs.dtypes:
            plain = outcomes(case, low, *ARGUMENTS[arguments], casting=False)
            if plain[0].dtypes == plain[1].dtypes:  # else the difference is none of autocasting
                wrong.append(f"{case.label}: {ours.dtypes} {ours.error}, PyTorch's {theirs.dtypes}")
            continue
        compared += 1
        if has_policy(case.op) and case.op.name not in AMBIGUOUS:
            for name, a, b in zip(ours.dtypes, ours.values, theirs.values, strict=True):
                tolerance = 4 * PRECISION[low] if name in (low, "float32") else 1e-2
                if not np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True):
                    wrong.append(f"{case.label}: {a}, PyTorch's {b}")
    assert not wrong
    assert compared > 900


def trained(lib: Any, dtype: str, scaled: bool) -> Any:
    """Losses, weights and dtypes of a few steps of training under autocasting."""
    x = lib.tensor(np.linspace(-1, 1, 60, dtype="float32").reshape(12, 5))
    y = lib.tensor(np.sin(np.arange(24, dtype="float32")).reshape(12, 2))
    first = lib.tensor(np.cos(np.arange(40, dtype="float32")).reshape(8, 5) / 2, requires_grad=True)
    second = lib.tensor(np.cos(np.arange(16, dtype="float32")).reshape(2, 8) / 2, requires_grad=True)
    scaler = lib.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=3, enabled=scaled)
    optimizer = lib.optim.SGD([first, second], lr=0.1)
    history: list[Any] = []
    for _ in range(12):
        optimizer.zero_grad()
        with lib.autocast("cpu", dtype=getattr(lib, dtype)):
            hidden = lib.nn.functional.linear(x, first).tanh()
            out = lib.nn.functional.linear(hidden, second)
            loss = lib.nn.functional.mse_loss(out, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        history.append((loss.item(), scaler.get_scale(), str(hidden.dtype), str(loss.dtype), str(first.grad.dtype)))
    return history, first.detach().tolist(), second.detach().tolist()


@pytest.mark.parametrize(("dtype", "scaled"), [("bfloat16", False), ("bfloat16", True), ("float16", True)])
def test_training(dtype: str, scaled: bool) -> None:
    ours, theirs = trained(gc, dtype, scaled), trained(torch, dtype, scaled)
    assert [step[1:] for step in ours[0]] == [step[1:] for step in theirs[0]]
    tolerance = 2e-3 if dtype == "float16" else 2e-2
    np.testing.assert_allclose([s[0] for s in ours[0]], [s[0] for s in theirs[0]], rtol=tolerance)
    for a, b in zip(ours[1:], theirs[1:], strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance)
    assert ours[0][-1][0] < ours[0][0][0]


def graph(lib: Any) -> list[str]:
    """Return the nodes of a product and whether the weight is converted once."""
    weight = lib.ones(3, 2, requires_grad=True)
    x = lib.ones(4, 3)
    with lib.autocast("cpu"):
        out = (x @ weight) + (x @ weight)
    a, b = (node for node, _ in out.grad_fn.next_functions)
    names = [node.name() for node in (out.grad_fn, a, b, a.next_functions[1][0])]
    return [*names, str(a.next_functions[1][0] is b.next_functions[1][0] or b.next_functions[1][0].name())]


def test_what_is_recorded() -> None:
    ours, theirs = graph(gc), graph(torch)
    assert ours[:4] == theirs[:4]
    assert ours[4] == "True"


def scales(lib: Any, factors: list[float]) -> list[Any]:
    weight = lib.ones(2, requires_grad=True)
    optimizer = lib.optim.SGD([weight], lr=0.5)
    scaler = lib.amp.GradScaler("cpu", init_scale=8.0, growth_factor=3.0, backoff_factor=0.25, growth_interval=2)
    found: list[Any] = []
    for factor in factors:
        optimizer.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        found.append((scaler.get_scale(), weight.tolist(), scaler.state_dict()))
    return found


def test_gradient_scaling() -> None:
    factors = [1.0, 1.0, 1.0, math.inf, 0.5, math.nan, 1.0, 1.0, 1.0]
    assert scales(gc, factors) == scales(torch, factors)


@pytest.mark.parametrize("call", [
    lambda lib: lib.autocast(3),
    lambda lib: lib.autocast("cpu")(3),
    lambda lib: lib.amp.GradScaler("cpu").update(),
    lambda lib: lib.amp.GradScaler("cpu").scale(3),
    lambda lib: lib.amp.GradScaler("cpu", growth_factor=0.5),
    lambda lib: lib.amp.GradScaler("cpu").load_state_dict({}),
])  # fmt: skip
def test_errors(call: Any) -> None:
    found = []
    for lib in (gc, torch):
        with pytest.raises((RuntimeError, ValueError, TypeError, AssertionError)) as error, warnings.catch_warnings():
            call(lib)
        found.append((error.type, str(error.value)))
    assert found[0] == found[1]


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_padding(mode: str, dims: int) -> None:
    found = []
    for lib in (gc, torch):
        with lib.autocast("cpu"):
            x = lib.ones(1, 1, *[4] * dims, dtype=lib.bfloat16)
            found.append(str(lib.nn.functional.pad(x, (1, 1) * dims, mode=mode).dtype))
    assert found[0] == found[1]
