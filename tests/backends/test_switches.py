"""The switches of PyTorch's ``backends``: what scripts set and ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import gradcore as gc
from gradcore import backends


def _reset() -> None:
    gc.set_float32_matmul_precision("highest")
    backends.cudnn.__dict__.pop("benchmark", None)
    backends.cuda.matmul.__dict__.pop("fp32_precision", None)


@pytest.fixture(autouse=True)
def _as_at_import() -> Iterator[None]:
    """Programs that other tests run may have set them."""
    _reset()
    yield
    _reset()


def test_tf32_has_three_names() -> None:
    matmul = gc.backends.cuda.matmul
    assert (matmul.allow_tf32, matmul.fp32_precision) == (False, "none")
    matmul.allow_tf32 = True
    assert (gc.get_float32_matmul_precision(), matmul.fp32_precision) == ("high", "tf32")
    matmul.allow_tf32 = False
    assert (gc.get_float32_matmul_precision(), matmul.fp32_precision) == ("highest", "ieee")
    gc.set_float32_matmul_precision("medium")
    assert matmul.allow_tf32
    assert matmul.fp32_precision == "tf32"
    matmul.fp32_precision = "ieee"
    assert not matmul.allow_tf32
    gc.backends.fp32_precision = "tf32"
    assert matmul.allow_tf32


def test_wrong_values_are_refused() -> None:
    matmul = gc.backends.cuda.matmul
    with pytest.raises(RuntimeError, match="backend 'cuda' does not support precision 'bf16'"):
        matmul.fp32_precision = "bf16"
    with pytest.raises(RuntimeError, match="allow_tf32 expects a bool, but got int"):
        matmul.allow_tf32 = 1
    with pytest.raises(AttributeError, match="Unknown attribute allow_tf23"):
        matmul.allow_tf23 = True
    with pytest.raises(RuntimeError, match="benchmark expects a bool, but got int"):
        backends.cudnn.benchmark = 3
    assert gc.get_float32_matmul_precision() == "highest"


def test_switches_of_cudnn_are_kept() -> None:
    import gradcore.backends.cudnn as cudnn

    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32) == (True, False, False, True)
    cudnn.benchmark = True
    assert gc.backends.cudnn.benchmark
    with cudnn.flags(enabled=False, deterministic=True, benchmark_limit=None):
        assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.benchmark_limit) == (
            False, False, True, None,
        )  # fmt: skip
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.benchmark_limit) == (True, True, False, 10)
    assert not cudnn.is_available()
    assert cudnn.version() is None


def test_what_is_there() -> None:
    import importlib.util

    assert gc.backends.cuda.is_built() == (importlib.util.find_spec("cupy") is not None)
    others = (backends.mps, backends.mkl, backends.mkldnn, backends.openmp)
    assert not any(each.is_available() for each in others)
    assert backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")


@pytest.mark.parametrize("kind", ["flash", "mem_efficient", "math", "cudnn"])
def test_kinds_of_attention(kind: str) -> None:
    enabled, enable = (getattr(backends.cuda, name) for name in (f"{kind}_sdp_enabled", f"enable_{kind}_sdp"))
    assert enabled()
    enable(False)
    assert not enabled()
    enable(True)
