"""The check that examples in docstrings leave settings as they were knows every setting."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import gradcore as gc

ROOT = Path(__file__).parents[1]

#: What changes a setting, and what sets it back.
CHANGES = {
    "set_default_dtype": ("gc.set_default_dtype(gc.float64)", "gc.set_default_dtype(gc.float32)"),
    "set_default_tensor_type": ("gc.set_default_tensor_type('torch.DoubleTensor')", "gc.set_default_dtype(gc.float32)"),
    "set_default_device": ("gc.set_default_device('meta')", "gc.set_default_device(None)"),
    "set_num_threads": ("gc.set_num_threads(gc.get_num_threads() + 1)", "gc.set_num_threads(gc.get_num_threads() - 1)"),
    "set_printoptions": ("gc.set_printoptions(precision=2)", "gc.set_printoptions(profile='default')"),
    "use_deterministic_algorithms": ("gc.use_deterministic_algorithms(True)", "gc.use_deterministic_algorithms(False)"),
    "set_deterministic_debug_mode": ("gc.set_deterministic_debug_mode(1)", "gc.set_deterministic_debug_mode(0)"),
    "set_float32_matmul_precision": (
        "gc.set_float32_matmul_precision('high')", "gc.set_float32_matmul_precision('highest')"
    ),
    "set_history_loss": ("gc.set_history_loss('warn')", "gc.set_history_loss('default')"),
    "set_cuda_fallback": ("gc.set_cuda_fallback('silent')", "gc.set_cuda_fallback('warn')"),
    "set_traceback": ("gc.set_traceback('full')", "gc.set_traceback('short')"),
    "set_warn_always": ("gc.set_warn_always(True)", "gc.set_warn_always(False)"),
    "set_grad_enabled": ("gc.set_grad_enabled(False)", "gc.set_grad_enabled(True)"),
    "set_autocast_enabled": ("gc.set_autocast_enabled('cpu', True)", "gc.set_autocast_enabled('cpu', False)"),
    "set_autocast_dtype": (
        "gc.set_autocast_dtype('cpu', gc.float16)", "gc.set_autocast_dtype('cpu', gc.bfloat16)"
    ),
    "set_autocast_cache_enabled": ("gc.set_autocast_cache_enabled(False)", "gc.set_autocast_cache_enabled(True)"),
    "cuda.set_index_checks": ("gc.cuda.set_index_checks('now')", "gc.cuda.set_index_checks('later')"),
    "cuda.set_fusion": ("gc.cuda.set_fusion(False)", "gc.cuda.set_fusion(True)"),
    "cuda.set_sync_debug_mode": ("gc.cuda.set_sync_debug_mode(1)", "gc.cuda.set_sync_debug_mode(0)"),
    "backends.cuda.enable_flash_sdp": (
        "gc.backends.cuda.enable_flash_sdp(False)", "gc.backends.cuda.enable_flash_sdp(True)"
    ),
    "backends.cuda.enable_mem_efficient_sdp": (
        "gc.backends.cuda.enable_mem_efficient_sdp(False)", "gc.backends.cuda.enable_mem_efficient_sdp(True)"
    ),
    "backends.cuda.enable_math_sdp": (
        "gc.backends.cuda.enable_math_sdp(False)", "gc.backends.cuda.enable_math_sdp(True)"
    ),
    "backends.cuda.enable_cudnn_sdp": (
        "gc.backends.cuda.enable_cudnn_sdp(False)", "gc.backends.cuda.enable_cudnn_sdp(True)"
    ),
}  # fmt: skip
#: What sets nothing that stays: the state of generators, a device's memory, and what is accepted for compatibility, or
#: that needs the compiled kernels.
OTHERS = [
    "set_rng_state", "set_num_interop_threads", "set_flush_denormal", "cuda.set_rng_state", "cuda.set_rng_state_all",
    "cuda.set_device", "cuda.set_per_process_memory_fraction", "cuda.set_stream", "autograd.set_detect_anomaly",
    "enable_grad", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled", "set_autocast_gpu_dtype", "set_vital",
    "autograd.set_multithreading_enabled", "autograd.set_grad_enabled", "autograd.enable_grad",
]  # fmt: skip


@pytest.fixture(scope="module")
def settings() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("_root_conftest", ROOT / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for read in module.SETTINGS.values():  # what is imported when it is first asked for
        read()
    yield module
    del sys.modules[spec.name]


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(settings: ModuleType, name: str) -> None:
    change, back = CHANGES[name]
    before = {setting: read() for setting, read in settings.SETTINGS.items()}
    try:
        exec(change, {"gc": gc})
        assert any(read() != before[setting] for setting, read in settings.SETTINGS.items())
    finally:
        exec(back, {"gc": gc})
    assert all(read() == before[setting] for setting, read in settings.SETTINGS.items())


def test_every_setter_is_known() -> None:
    spaces = {"": gc, "cuda.": gc.cuda, "backends.cuda.": gc.backends.cuda, "autograd.": gc.autograd}
    found = {
        space + name
        for space, module in spaces.items()
        for name in dir(module)
        if name.startswith(("set_", "enable_", "use_")) and not name.endswith("_")
    }
    assert found - {*CHANGES, *OTHERS} == set()


def test_no_example_is_there_for_form() -> None:
    """An example shows what a call gives, not that a bool is a bool or a class has a base."""
    lines = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (ROOT / "gradcore").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if ">>>" in line
    ]
    idle = (
        "in (True, False)",
        ">>> issubclass(",
        ">>> isinstance(",
        ">>> callable(",
        ">>> hasattr(",
        ">= 0",
        "is not None",
    )
    assert [line for line in lines if line.endswith(idle) or any(part in line for part in idle[:5])] == []
