"""Kernels whose threads share memory, in other orders: without a barrier that is needed, results change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy import flash_attention
from tests.cuda import test_attention, test_flash_attention, test_lists, test_own_kernels, test_products
from tests.cuda.host import HostLibrary, launched, needs_compiler
from tests.strict.blas import CALLS


def attend_in_blocks() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flash_attention, "_WIDEST", 0)
        test_attention.test_attention_in_blocks("strict:0", "causal", "float32")


#: The comparisons of kernels in which threads exchange numbers, by the kernels that they launch.
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "softmax_rows": lambda b: test_own_kernels.test_softmax_of_rows_of_any_length(b, "softmax_along", "float32"),
    "softmax_backward_rows": lambda b: test_own_kernels.test_softmax_backward(b, "softmax_product", "float32"),
    "normalize_rows": lambda b: test_own_kernels.test_layer_norm(b, "float32", True),
    "scale_rows": lambda b: test_own_kernels.test_rms_norm(b, "float32", True),
    "normalize_rows_backward": lambda b: test_own_kernels.test_group_norm(b, "float32", True),
    "channel_moments": lambda b: test_own_kernels.test_batch_norm(b, "float32", True),
    "cross_entropy": lambda b: test_own_kernels.test_cross_entropy(b, "float32", "mean", True),
    "reduce_losses": lambda b: test_own_kernels.test_cross_entropy(b, "float32", "sum", False),
    "attention_weights": lambda b: attend_in_blocks(),
    "flash_attention": lambda b: test_flash_attention.test_fused_attention("strict:0", "causal", "float32"),
    "partial_norms": lambda b: test_lists.test_norms("strict:0", "float32"),
    "product": lambda b: test_products.test_products_by_the_own_kernel(b, "float32"),
}


@pytest.fixture(params=["-1", "1", "2"])
def order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Backwards, and seeds of random orders."""
    needs_compiler()
    monkeypatch.setenv("GRADCORE_TEST_ORDER", request.param)
    return str(request.param)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", PROGRAMS)
def test_results_do_not_depend_on_the_order_of_threads(strict: str, order: str, kernel: str) -> None:
    CALLS.clear()
    backend: Any = gc.zeros(1, device=strict).device.backend
    try:
        with launched() as counts:
            PROGRAMS[kernel](backend)
    finally:
        backend.capture.on = False
    assert counts[kernel]


SOURCE = """
extern "C" __global__ void neighbours(const float* x, float* y, const bool written, const bool read) {
    __shared__ float shared[64];
    const int i = threadIdx.x;
    for (int round = 0; round < 2; ++round) {
        if (read) __syncthreads();
        shared[i] = x[i] + round;
        if (written) __syncthreads();
        y[i] = shared[i ^ 1];
        if (round == 0) y[64 + i] = shared[63 - i];
    }
}
"""


@pytest.mark.parametrize("missing", ["none", "after writing", "after reading"])
def test_a_missing_barrier_is_seen(order: str, missing: str) -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(128, np.float32)
    HostLibrary([SOURCE])["neighbours"](
        (1,), (64,), (x, y, np.bool_(missing != "after writing"), np.bool_(missing != "after reading"))
    )
    right = np.array_equal(y, np.concatenate([x.reshape(-1, 2)[:, ::-1].reshape(-1) + 1, x[::-1]]))
    assert right == (missing == "none")
