"""Freed memory is kept for new arrays, is given back when asked for, and does not grow."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd.modes import local
from gradcore.backends.numpy import malloc

pytestmark = pytest.mark.skipif(not gc.memory_stats(), reason="the C library does not tell")

FAULTS = """
import resource
import gradcore as gc

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step():
    x = gc.ones(400_000, requires_grad=True)
    (x * x).tanh().sum().backward()

step()
before = faults()
for _ in range(20):
    step()
print(faults() - before)
"""


def page_faults(**environment: str) -> int:
    run = subprocess.run(
        [sys.executable, "-c", FAULTS], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return int(run.stdout)


def test_freed_memory_is_kept() -> None:
    """Twenty steps of 8 MB touch 40,000 pages; kept ones were touched before."""
    assert page_faults(GRADCORE_KEEP_MEMORY="1") < 2_000


def test_unless_the_environment_says_no() -> None:
    assert page_faults(GRADCORE_KEEP_MEMORY="0") > 10_000


@pytest.mark.slow
def test_results_are_the_same() -> None:
    code = (
        "import hashlib, gradcore as gc; x = gc.linspace(-3, 3, 100_000, requires_grad=True); "
        "(gc.nn.functional.gelu(x) * x.sigmoid()).sum().backward(); print(hashlib.sha256(x.grad.numpy()).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "GRADCORE_KEEP_MEMORY": keep, "OMP_NUM_THREADS": number},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for keep in "01"
        for number in "12"
    }
    assert len(found) == 1


def test_what_others_hold_stays() -> None:
    """A view, NumPy's array of a tensor, and the memory that `empty_cache` gives back."""
    view = gc.arange(1_000_000.0)[10:20]
    array = gc.arange(1_000_000.0).numpy()[::1000]
    gc.empty_cache()
    others = [gc.full((1_000_000,), 7.0) for _ in range(4)]
    assert view.tolist() == list(range(10, 20))
    np.testing.assert_array_equal(array, np.arange(0, 1_000_000, 1000))
    assert len(others) == 4


def test_stats() -> None:
    before = gc.memory_stats()["used"]
    x = gc.zeros(2_000_000)
    held = gc.memory_stats()["used"]
    del x
    assert held - before >= 8_000_000
    assert gc.memory_stats()["used"] <= held - 8_000_000


@pytest.mark.slow  # these tests run with the compiled kernels
@pytest.mark.skipif(malloc._set_handler is None, reason="only the compiled library has aligned memory")
class TestAlignedMemory:
    def test_results_begin_at_lines_of_the_cache(self) -> None:
        x = gc.rand(1000, requires_grad=True)
        held = []
        for n in range(520, 560):
            y = (x[:n] * 2).exp()
            (gradient,) = gc.autograd.grad(y.sum(), x)
            held += [y.detach(), gradient, y.detach().numpy()[:400].sum(keepdims=True)]
        assert not any(t.data_ptr() % 64 for t in held[::3] + held[1::3])

    def test_the_arrays_of_others_stay_as_they_are(self) -> None:
        (gc.ones(3) + 1).numpy()
        assert np._core.multiarray.get_handler_name() == "default_allocator"  # type: ignore[attr-defined]
        assert np._core.multiarray.get_handler_name(np.empty(1000)) == "default_allocator"  # type: ignore[attr-defined]

    @pytest.mark.parametrize("size", [0, 1, 60, 129, 100_000])
    def test_numpy_allocates_zeros_and_other_sizes(self, size: int) -> None:
        def use() -> None:
            zeros = np.zeros(size, np.float32)
            assert np._core.multiarray.get_handler_name(zeros) == "gradcore"  # type: ignore[attr-defined]
            assert not zeros.any()
            zeros += 1
            for new_size in (2 * size + 3, size // 2, 70_000):
                before = zeros.copy()
                zeros.resize(new_size, refcheck=False)
                common = min(new_size, before.size)
                np.testing.assert_array_equal(zeros[:common], before[:common])
                assert not zeros[common:].any()
            with pytest.raises(MemoryError):
                np.empty(2**62, np.int8)

        local.state.run(use)


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malloc, "_c_library", lambda: None)
    assert not malloc.keep_freed()
    assert gc.memory_stats() == {}
    gc.empty_cache()


@pytest.mark.slow
def test_no_growth() -> None:
    """Ten thousand steps with arrays of changing sizes."""
    code = """
import resource
import gradcore as gc

def step(i):
    x = gc.ones(1000 + 37 * i % 60_000, requires_grad=True)
    (x * 2).tanh().sum().backward()

for i in range(2_000):
    step(i)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for i in range(10_000):
    step(i)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 2_000  # kilobytes
