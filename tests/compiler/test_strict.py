"""Programs of a backend that is neither NumPy's nor CuPy's own: the strict device, which calls nothing CuPy lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gradcore as gc
from gradcore.backends import registry
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.compiler.function import CompiledFunction
from tests.compiler import test_operations, test_programs, test_steps
from tests.devices import tensors_on
from tests.ops.cases import Drawn
from tests.ops.test_every_op import by_label


@pytest.fixture
def on_strict(strict: str) -> Iterator[None]:
    """Tensors are made on the strict device."""
    with tensors_on("strict"):
        yield


@pytest.mark.sampled(32)
@by_label(test_operations.CHOSEN)
def test_compiled_samples_are_those_of_eager_execution(case: Drawn, strict: str) -> None:
    test_operations.compare(case, strict)


NETS = [(kind,) for kind in test_steps.KINDS]
#: Tests of programs that say the same on every device, and what they are given.
PROGRAMS: list[tuple[Callable[..., None], list[tuple[Any, ...]]]] = [
    (test_programs.test_functions_of_tensors, [(name,) for name in test_programs.PURE]),
    (test_programs.test_training_is_that_of_eager_execution, [
        (name, inside) for name in test_programs.MODELS for inside in (False, True)
    ]),
    (test_programs.test_gradients_reach_what_comes_before_and_after, [()]),
    (test_programs.test_derivatives_of_derivatives_are_those_of_the_function_as_it_is, [()]),
    (test_programs.test_what_was_saved_is_checked_and_freed, [()]),
    (test_programs.test_in_place_writes_to_arguments_are_counted, [()]),
    (test_programs.test_arguments_that_share_memory, [()]),
    (test_programs.test_tensors_that_a_function_keeps_are_plain, [()]),
    (test_steps.test_models, NETS),
    (test_steps.test_optimizers, [(name,) for name in [*test_steps.OPTIMIZERS][::6]]),
    (test_steps.test_clipping_zeros_and_schedulers, [(name,) for name in [*test_steps.SETTINGS][::4]]),
]  # fmt: skip


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    ("test", "args"),
    [pytest.param(test, args, id="-".join([test.__name__, *map(str, args)])) for test, all in PROGRAMS for args in all],
)
def test_programs_are_those_of_eager_execution(test: Callable[..., None], args: Any, on_strict: None) -> None:
    test(*args)


def test_a_program_of_the_device_is_recorded(strict: str) -> None:
    def function(x: gc.Tensor) -> gc.Tensor:
        return (x * 2 + gc.ones(3, device=strict)).tanh().sum()

    compiled = CompiledFunction(function, fullgraph=True)
    for _ in range(3):
        x = gc.randn(3, device=strict)
        assert gc.equal(compiled(x), function(x))
    (program,) = compiled._specializations[0].programs
    assert program.backend is x.device.backend
    assert "CUDA graph: the device has none" in compiled.explain(x)


def test_a_change_of_the_current_device_is_part_of_a_program(strict: str) -> None:
    def across(x: gc.Tensor) -> gc.Tensor:
        return ((x * 2).to("strict:1") + 1).to("strict:0") * x

    compiled = CompiledFunction(across, fullgraph=True)
    for _ in range(4):
        x = gc.randn(3, device=strict)
        assert gc.equal(compiled(x), across(x))


def test_functions_of_other_backends_run_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of the CPU under another name: nothing tells their calls from the CPU's."""

    class Other(NumpyBackend):
        type = "other"

    monkeypatch.setitem(registry._backends, "other", Other())
    compiled = CompiledFunction(lambda x: x.tanh() * 2)
    x = gc.ones(3, device="other")
    with pytest.warns(UserWarning, match="runs as it is"):
        found = [compiled(x) for _ in range(3)]
    assert all(gc.equal(each, x.tanh() * 2) for each in found)
