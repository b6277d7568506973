"""The suite on CUDA tensors: ``pytest --device cuda``, on a GPU or, where there is none, in the rig of `cupy_host`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

#: What runs with tensors made on the device: the groups of tests that say what tensors do, whatever they lie on.
GROUPS = (
    "amp", "autograd", "compiler", "distributions", "documents", "engine", "nn", "on_device", "optim",
    "scipy_functions", "sparse",
)  # fmt: skip

#: Where the node ids of tests begin that compare a device with the CPU.
ON_DEVICE = "tests/on_device/"

#: Tests of these groups that are about the CPU, by the beginning of their names, and why.
ON_CPU = {
    **dict.fromkeys(
        (
            "autograd/test_function_errors.py::test_saved_inputs_must_not_be_overwritten",
            "autograd/test_function_errors.py::test_wrong_gradients_are_refused[<lambda>-expected device cpu",
            "autograd/test_views_and_writes.py::test_hooks_return_a_gradient_of_the_same_kind",
            "documents/test_documented_tensor_names.py::test_an_ordinary_tensor_describes_itself",
            "documents/test_documented_tensor_names.py::test_an_ordinary_tensor_is_none_of_these[is_cuda]",
            "engine/test_messages.py::test_message[changed]", "engine/test_versions.py::test_dtypes_have_the_names",
            "engine/test_versions.py::test_indices_and_masks_are_saved", "engine/test_versions.py::test_versions_of_",
            "nn/test_module.py::test_printing",
            *(f"nn/test_programs.py::test_as_recorded[{name}]" for name in (
                "no parameter", "not a leaf", "parameter containers", "set parameter",
            )),
        ),
        "names the types of the CPU",
    ),
    **dict.fromkeys(
        (
            "amp/test_autocast.py", "amp/test_grad_scaler.py::test_setting_the_factor",
            "nn/test_packing.py::test_packed_sequences_are_converted",
            "optim/test_optimizers.py::test_a_kernel_takes_the_place_of_the_formula",
            "optim/test_options.py::test_a_step_is_few_calls",
        ),
        "is about autocast, scaling, copies or kernels of the CPU",
    ),
    **dict.fromkeys(
        ("distributions/test_devices.py", "engine/test_messages.py::test_mixed_devices", "nn/test_devices.py"),
        "has devices of its own",
    ),
    **dict.fromkeys(
        (
            "compiler/test_fusion.py", "compiler/test_memory.py", "compiler/test_native.py", "compiler/test_passes.py",
            "compiler/test_explanation.py", "compiler/test_guard_mutations.py", "compiler/test_native_kernels.py",
            "compiler/test_sizes.py", "compiler/test_specialized.py",
            "compiler/test_numbers.py::test_floats_that_are_operands_of_tensors",
            "compiler/test_rolling.py::test_gradients_of_wide_layers",
            "compiler/test_rolling.py::test_loops_compute_what_the_calls_do",
            "compiler/test_rolling.py::test_the_source_does_not_grow_with_the_steps",
            "compiler/test_checkpoint.py::test_programs_of_many_sizes_repeat_the_random_numbers",
            "compiler/test_float_arguments.py::test_floats_that_change",
            "compiler/test_guards.py::test_dynamic_sizes_have_one_program",
            "compiler/test_steps.py::test_a_native_step_that_fails_is_not_counted",
            "compiler/test_steps.py::test_a_step_is_one_loop_for_each_shape",
            "compiler/test_steps.py::test_a_step_before_which_nothing_is_computed_is_the_optimizers_own",
            "compiler/test_steps.py::test_a_step_that_fails_counts_only_batches_that_were_updated",
            "compiler/test_steps.py::test_each_value_of_a_formula_has_a_number",
            "compiler/test_steps.py::test_formulas_of_optimizers",
            "compiler/test_steps.py::test_rates_change_without_another_program",
            "compiler/test_steps.py::test_steps_in_cpp",
            "compiler/test_steps.py::test_what_changes_in_an_optimizer",
            "compiler/test_programs.py::test_functions_are_captured_while_another_thread_imports",
            "compiler/test_programs.py::test_what_stops_a_recording_happens_once",
        ),
        "is about the programs of the CPU",
    ),
    **dict.fromkeys(
        (
            "compiler/test_refusals.py::test_checks[array]",
            "compiler/test_numbers.py::test_each_decision_has_a_program",
            "compiler/test_numbers.py::test_decisions_after_effects_run_as_they_are[updated]",
        ),
        "compares printed lines, or what `devices.py` changes",
    ),
    "compiler/test_training.py::test_ten_thousand_steps_do_not_grow": (
        "counts bytes, of which the caches of CuPy's pool take some more in each of the first thousand steps"
    ),
    **dict.fromkeys(
        (
            "compiler/test_numbers.py::test_errors_after_a_decision_are_those_of_the_function",
            "compiler/test_observations.py::test_errors_that_are_caught",
            "compiler/test_programs.py::test_errors_are_those_of_eager_execution",
        ),
        "indices are checked later on CUDA",
    ),
}  # fmt: skip

RIG = Path(
    os.environ.get("CUPY_HOST_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cupy-host"
)


def in_rig(config: pytest.Config) -> int | None:
    """Run the same command in the rig and return its exit code, or None if this Python has CUDA or there is no rig."""
    python = RIG / "venv" / "bin" / "python"
    if "CUPY_HOST" in os.environ or why_not() is None or not (RIG / "lib" / "libcupyhost.so").exists():
        return None
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.suspend_global_capture(in_=True)
    print(f"no CUDA device: in the rig at {RIG}", flush=True)
    environment = {"CUPY_HOST_OPTIMIZE": "-O0", **os.environ, "CUPY_HOST": "1", "CUPY_HOST_NO_SIGNALS": "1"}
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", *config.invocation_params.args]
    return subprocess.call(command, cwd=config.invocation_params.dir, env=environment)


def why_not() -> str | None:
    """Why there is no CUDA device for tensors; None if there is."""
    from gradcore.backends import registry

    return registry.unavailable("cuda")


def is_left_out(path: Path) -> bool:
    """Whether a file or folder holds no tests of tensors on a device."""
    tests = Path(__file__).parent
    if not path.is_relative_to(tests):
        return path.is_relative_to(tests.parent / "gradcore")
    return path != tests and path.relative_to(tests).parts[0] not in (*GROUPS, "cuda", "cupy_host")


def is_drawn(function: pytest.Item, nodeid: str) -> bool:
    """Return whether a case of a function is in the sample that was asked for, given its node id.

    Of a function of `ON_DEVICE` marked `sampled(n)`, that is one case in `n` at least.
    """
    every, seed = function.config.getoption("sample"), function.config.getoption("seed")
    mark = function.get_closest_marker("sampled") if nodeid.startswith(ON_DEVICE) else None
    if mark is not None:
        every = min(every, *mark.args)
    return bool((zlib.crc32(nodeid.encode()) - seed) % every == 0)


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of the device that are in the sample, and skip those that say nothing about it.

    Docstrings, which print tensors of the CPU, are left out.
    """
    reason = why_not()
    items[:] = [item for item in items if item.nodeid.startswith("tests/") and is_drawn(item, item.nodeid)]
    for item in items:
        why = f"no CUDA device: {reason}; tests/cupy_host/build.sh makes one" if reason else _not_on_device(item)
        if why:
            item.add_marker(pytest.mark.skip(reason=why))


def _not_on_device(item: pytest.Item) -> str | None:
    if item.get_closest_marker("cuda"):
        return None
    name = item.nodeid.removeprefix("tests/")
    if name.partition("/")[0] not in GROUPS:
        return "has a device of its own"
    return next((why for beginning, why in ON_CPU.items() if name.startswith(beginning)), None)


def collecting(collector: pytest.Collector) -> contextlib.AbstractContextManager[None]:
    """Return the context in which a test module is imported, so that the tensors it creates are on the device."""
    name = collector.nodeid.removeprefix("tests/").partition("/")[0]
    if isinstance(collector, pytest.Module) and name in GROUPS and why_not() is None:
        return tensors_on("cuda")
    return contextlib.nullcontext()


@contextlib.contextmanager
def tensors_on(device: str) -> Iterator[None]:
    """Return a context in which tensors are created on a device, also from arrays. `numpy` copies them to the host.

    They are printed as those of the CPU are.
    """
    import gradcore as gc
    from gradcore.tensor import printing

    before, plain, from_numpy = gc.get_default_device(), gc.Tensor.numpy, gc.from_numpy
    kind = device.partition(":")[0]
    suffixes, printed = printing._all_suffixes, f"{kind}:0"

    def numpy(self: Any, *args: Any, **named: Any) -> Any:
        return plain(self.cpu() if self.device.type == kind else self, *args, **named)

    gc.set_default_device(device)
    gc.Tensor.numpy = numpy  # type: ignore[method-assign]
    gc.from_numpy = lambda array: from_numpy(array).to(device)
    printing._all_suffixes = lambda d, *more: suffixes(None if d == printed else d, *more)
    try:
        yield
        if kind == "cuda":
            gc.cuda.synchronize()
    finally:
        gc.set_default_device(before)
        gc.Tensor.numpy, gc.from_numpy = plain, from_numpy  # type: ignore[method-assign]
        printing._all_suffixes = suffixes
