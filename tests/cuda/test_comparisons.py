"""Every kernel of the package is executed on the host and compared with the plain formula, in every dtype it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy.kernels import C_NAMES, INCLUDE
from tests.cuda import test_attention, test_flash_attention, test_lists, test_own_kernels, test_products
from tests.cuda.conftest import COMPARED
from tests.cuda.host import KERNEL, needs_compiler

#: Compared bit for bit, with another translation, in tests/test_philox_devices.py.
ELSEWHERE = {Path("philox.cu")}
#: Compared with CuPy's wheel in tests/on_device: test_launches.py, test_convolution.py, test_implicit_convolution.py,
#: test_sparse.py, test_ctc.py, test_selection.py, test_rows.py, test_counts.py, test_scans.py.
ON_DEVICE = {
    "add_parts", "add_weights", "amax_joined", "amin_joined", "channel_gradients", "channel_scales",
    "channel_statistics", "channel_variances", "columns", "convolve_gradients", "convolve_images", "count_digits",
    "count_in_bins", "count_numbers", "cross_entropy_backward_rows", "cross_entropy_points", "cross_entropy_rows",
    "ctc_backward", "ctc_forward", "depthwise", "depthwise_input", "depthwise_weight", "find_chosen", "find_range",
    "grid_sampler", "grid_sampler_backward", "images", "kth_of_rows", "mode_rows", "move_statistics",
    "order_keys", "order_keys_by_row", "prod_joined", "scan_columns", "scan_rows", "search_rows", "sort_rows",
    "sparse_rows", "sparse_samples", "sum_joined", "take_chosen", "take_order", "topk_rows",
}  # fmt: skip


def kernels() -> set[str]:
    paths = [path for path in INCLUDE.glob("*.cu") if Path(path.name) not in ELSEWHERE]
    return {name for path in paths for name in KERNEL.findall(path.read_text())}


def test_every_kernel_is_compared() -> None:
    """`pytest_runtest_call` in conftest fails a test that does not launch what it is said to compare."""
    assert {name for comparison in COMPARED for name in comparison.kernels} == kernels() - ON_DEVICE


def _dtypes(test: Any) -> set[str] | None:
    """Return the dtypes that a test is parametrized with, or None if it has no such parameter."""
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize" and mark.args[0] == "dtype"]
    return set(marks[0].args[1]) if marks else None


@pytest.mark.parametrize("comparison", COMPARED, ids=lambda c: c.test)
def test_in_every_dtype(comparison: Any) -> None:
    """Batch norm is given float32 in the place of half precision; scales are float32."""
    modules = (test_own_kernels, test_lists, test_products, test_attention, test_flash_attention)
    (test,) = (vars(module)[comparison.test] for module in modules if comparison.test in vars(module))
    wanted = {"float32", "float64"} if comparison.test == "test_batch_norm" else set(C_NAMES)
    if comparison.test == "test_gradients_are_unscaled_by_one_launch":
        wanted -= {"float16"}  # which are refused; steps unscale them: test_what_is_not_finite_is_found
    found = _dtypes(test)
    assert found is None if comparison.test == "test_the_scale_is_adapted_as_on_the_cpu" else found is not None
    assert found is None or found >= wanted


def test_places_beyond_32_bits(strict: str) -> None:
    """Of four gigabytes, of which three pages are written."""
    needs_compiler()
    backend, height = gc.zeros(1, device=strict).device.backend, 2**31 + 5
    places = np.array([height - 1, 3, height - 1, 2**31])
    rows = np.array([[1.5], [2.5], [3.5], [4.5]], np.float16)
    try:
        found = backend.sum_into_rows(height, backend.from_host(places), backend.from_host(rows))
    except MemoryError:
        pytest.skip("the system does not promise four gigabytes")
    assert found._a[places, 0].tolist() == [5.0, 2.5, 5.0, 4.5]
