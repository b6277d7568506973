"""What generated sources look like: a sample, compared with the files in `expected`.

``python -m tests.cuda.test_sources`` renews the files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.base import Backend
from gradcore.backends.codegen.emit_cuda import CudaTracer, emit_optimizer, with_identifiers
from gradcore.backends.codegen.expr import ExprGraph, NotFusible
from gradcore.backends.codegen.optimizer import trace_optimizer
from gradcore.backends.codegen.scalars import ScalarParameter
from gradcore.backends.codegen.schedule import Input, Kernel
from gradcore.backends.codegen.trace import trace
from gradcore.backends.cupy.backend import CupyBackend
from gradcore.ops.declare.table import OPS

EXPECTED = Path(__file__).with_name("expected")


class _Writing(CupyBackend):
    """The CUDA backend on NumPy arrays; kernels are kept as source."""

    def __init__(self) -> None:
        Backend.__init__(self, SimpleNamespace(empty=np.empty), np.ndarray)
        self.sources: list[str] = []

    def compile_kernel(self, source: str, name: str) -> Callable[..., None]:
        self.sources.append(source)
        return lambda *launch: None

    def address(self, x: Any) -> int:
        return 0


def _forward(name: str, *args: Any, compute: Any = None) -> str:
    backend = _Writing()
    stored = None if compute is None else args[0].dtype
    compute = None if compute is None else [compute if isinstance(a, np.ndarray) else None for a in args]
    backend.fused_forward(name, args, compute, stored)
    return backend.sources[0]


def _backward(name: str, grad: Any, **values: Any) -> str:
    backend, op = _Writing(), OPS[name]
    formulas = list((op.vjps or op.differentials).values())
    read = {n: values[n] for f in formulas for n in f.names}
    backend.fused_gradients(name, formulas, grad, read, not op.vjps, [grad.dtype] * len(formulas))
    return backend.sources[0]


def _adam() -> str:
    settings = {"beta1": 0.9, "beta2": 0.999, "step_size": 0.1, "eps": 1e-8, "weight_decay": 0, "decay_factor": None}
    tracer, half = CudaTracer(CupyBackend.bodies), np.dtype("float16")
    optimizer = trace_optimizer(gc.optim.Adam.formula, half, 2, settings | {"maximize": False}, tracer)
    return emit_optimizer(optimizer, half)


def x(dtype: str, *shape: int) -> Any:
    return np.ones(shape, dtype)


SAMPLES: dict[str, Callable[[], str]] = {
    "silu_float16": lambda: _forward("silu", x("f2", 8), compute=np.dtype("f4")),
    "lerp_of_a_number": lambda: _forward("lerp", x("f8", 3, 4), x("f8", 4), np.float64(0.25)),
    "gelu_backward": lambda: _backward("gelu", x("f4", 8), self=x("f4", 8), approximate="none"),
    "atan2_backward_broadcast": lambda: _backward("atan2", x("f4", 5, 4, 3), self=x("f4", 4, 1), other=x("f4", 3)),
    "softplus_backward": lambda: _backward("softplus", x("f4", 8), self=x("f4", 8), beta=2.0, threshold=20.0),
    "div_backward_complex": lambda: _backward("div", x("c8", 8), self=x("c8", 8), other=x("c8", 8), rounding_mode=None),
    "adam_float16": _adam,
}


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name: str) -> None:
    assert SAMPLES[name]() == (EXPECTED / f"{name}.cu").read_text(), "renew it: python -m tests.cuda.test_sources"


def test_every_expected_source_is_compared() -> None:
    assert {path.stem for path in EXPECTED.glob("*.cu")} == set(SAMPLES)


# -- tracing ---------------------------------------------------------------------------------------------------


def _traced(formula: Callable[..., Any], *operands: Any) -> Kernel:
    named = [(f"x{i}", Input(np.dtype(o)) if isinstance(o, str) else o) for i, o in enumerate(operands)]
    return trace("test", lambda F, *args: [formula(F, *args)], named, CudaTracer(CupyBackend.bodies))


def test_equal_expressions_are_computed_once() -> None:
    found = _traced(lambda F, x: F.exp(x * 2) + F.exp(x * 2), "f4")
    assert len(found.computed) == 3  # a product, an exponential, a sum


@pytest.mark.parametrize(
    ("formula", "operands", "dtype"),
    [
        (lambda F, x: x * 2, ["f4"], "float32"),
        (lambda F, x: x + 1.5, ["i4"], "float64"),
        (lambda F, x, y: x * y, ["f4", "f8"], "float64"),
        (lambda F, x, y: x * y, ["f4", "c16"], "complex128"),
        (lambda F, x: x > 0, ["f2"], "bool"),
        (lambda F, x: F.abs(x), ["c8"], "float32"),
        (lambda F, x, y: F.where(x > 0, y, 0), ["f4", "i8"], "int64"),
        (lambda F, x: x * 2j, ["f4"], "complex64"),
    ],
)
def test_dtypes_are_those_of_numpy(formula: Any, operands: list[str], dtype: str) -> None:
    assert _traced(formula, *operands).outputs[0][1] == np.dtype(dtype)


def test_settings_are_parameters_and_may_be_compared() -> None:
    found = _traced(lambda F, x, a: x * (a * 2) if a > 0 else x, "f4", 0.5)
    assert [(p.scalar, p.dtype) for p in found.parameters] == [(1.0, np.dtype("f4"))]
    assert not _traced(lambda F, x, a: x * (a * 2) if a > 0 else x, "f4", -0.5).outputs
    assert isinstance(abs(2 / -ScalarParameter(4.0)), ScalarParameter)


@pytest.mark.parametrize(
    "formula",
    [
        lambda F, x: F.sum(x, 0),
        lambda F, x: x if x else -x,
        lambda F, x: x.reshape((-1,)),
        lambda F, x: F.zeta(x, x),
        lambda F, x: x.view("int32"),
        lambda F, x: F.new_zeros(x, (3,)),
        lambda F, x: np.matmul(x, x),
    ],
)
def test_what_is_not_elementwise_is_refused(formula: Any) -> None:
    with pytest.raises((NotFusible, TypeError)):
        _traced(formula, "f4")


def test_names_that_kernels_use_themselves() -> None:
    names = ["i", "size", "v1", "p0", "n2", "exp", "float", "self", "x1"]
    operands = [(name, Input(np.dtype("f4"))) for name in names]
    found = trace("test", lambda F, *args: [sum(args)], operands, CudaTracer(CupyBackend.bodies))
    assert [i.name for i in with_identifiers(found).inputs] == [*(f"{name}_" for name in names[:7]), "self", "x1"]


def test_the_tracer_has_the_kernels_of_elementwise_operations() -> None:
    F = CudaTracer(CupyBackend.bodies)
    assert isinstance(F.graph, ExprGraph)
    with pytest.raises(NotFusible, match="sum_over is not elementwise"):
        _ = F.sum_over


if __name__ == "__main__":
    for _name, _make in SAMPLES.items():
        (EXPECTED / f"{_name}.cu").write_text(_make())
