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
    "amp", "autograd", "distributions", "documents", "engine", "nn", "on_device", "optim", "scipy_functions", "sparse",
)  # fmt: skip

#: Tests of these groups that are about the CPU, by the beginning of their names, and why.
ON_CPU = {
    **dict.fromkeys(
        (
            "documents/test_documented_backward.py", "documents/test_documented_functions.py",
            "documents/test_documented_grad_modes.py", "documents/test_documented_hooks.py",
            "documents/test_documented_leaves.py", "documents/test_documented_printing.py",
            "autograd/test_forward_ad.py::test_tangents_end_with_their_level",
            "documents/test_documented_tensor_names.py", "engine/test_messages.py", "engine/test_versions.py",
            "nn/test_programs.py",
        ),
        "the texts and the names of types are those of the CPU",
    ),
    **dict.fromkeys(
        (
            "distributions/test_devices.py", "engine/test_deep_graphs.py::test_printing_of_a_deep_result",
            "nn/test_devices.py",
        ),
        "has devices of its own",
    ),
    **dict.fromkeys(
        (
            "amp/test_grad_scaler.py::test_setting_the_factor",
            "autograd/test_func_levels.py::test_inference_mode_outside",
            "autograd/test_func_levels.py::test_second_derivatives_differentiate_what_hooks_made",
            "autograd/test_inference_mode.py",
            "nn/test_differentiability.py::test_modules",
            "nn/test_transformers.py::test_causal_masks_are_recognised",
        ),
        "its tensors are made when it is collected",
    ),
    "amp/test_autocast.py": "is about autocast of the CPU",
    "nn/test_packing.py::test_packed_sequences_are_converted": "is about the device of the CPU",
    "optim/test_optimizers.py::test_a_kernel_takes_the_place_of_the_formula": "is about the backend of the CPU",
    "autograd/test_views_and_writes.py::test_hooks_return_a_gradient_of_the_same_kind": "names the types of the CPU",
}  # fmt: skip

#: Tests that run on a GPU, but not in the rig, and why.
NOT_IN_RIG = dict.fromkeys(
    (
        "on_device/test_operations.py::test_dtypes_one_after_the_other[special_of_one]",
        "scipy_functions/test_special.py::test_derivatives[lambertw",
        "scipy_functions/test_special.py::test_values[lambertw",
    ),
    "CuPy's complex numbers are those of the headers for NVRTC alone",
)

RIG = Path(
    os.environ.get("CUPY_HOST_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cupy-host"
)


def in_rig(config: pytest.Config) -> int | None:
    """The exit code of the same run in the rig; None where this Python has CUDA or there is no rig."""
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


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tests on the device, leave the sample that was asked for; skip those that say nothing about it.

    Docstrings, which print tensors of the CPU, are left out.
    """
    reason, every, seed = why_not(), config.getoption("sample"), config.getoption("seed")
    items[:] = [
        i for i in items if i.nodeid.startswith("tests/") and (zlib.crc32(i.nodeid.encode()) - seed) % every == 0
    ]
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
    table = {**ON_CPU, **NOT_IN_RIG} if "CUPY_HOST" in os.environ else ON_CPU
    return next((why for beginning, why in table.items() if name.startswith(beginning)), None)


@contextlib.contextmanager
def tensors_on(device: str) -> Iterator[None]:
    """A context in which tensors are made on a device, those of arrays too, and `numpy` copies them to the host."""
    import gradcore as gc

    before, plain, from_numpy = gc.get_default_device(), gc.Tensor.numpy, gc.from_numpy

    def numpy(self: Any, *args: Any, **named: Any) -> Any:
        return plain(self.cpu() if self.device.type == "cuda" else self, *args, **named)

    gc.set_default_device(device)
    gc.Tensor.numpy = numpy  # type: ignore[method-assign]
    gc.from_numpy = lambda array: from_numpy(array).to(device)
    try:
        yield
        gc.cuda.synchronize()
    finally:
        gc.set_default_device(before)
        gc.Tensor.numpy, gc.from_numpy = plain, from_numpy  # type: ignore[method-assign]
