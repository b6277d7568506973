"""Programs on the strict device with kernels that are compiled for the host."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from gradcore.backends import registry, streams
from gradcore.backends.cupy.memory import Peaks
from gradcore.core.device import device
from tests.cuda import fake_runtime
from tests.cuda.fake_runtime import LOG, FakeCudaBackend, Runtime
from tests.cuda.host import Batch, launched, needs_compiler
from tests.cuda.ordering import Order
from tests.strict import watching


class Comparison(NamedTuple):
    """A test that compares kernels with plain formulas."""

    test: str
    kernels: tuple[str, ...]
    #: With which of its parameters it does so.
    given: tuple[tuple[str, Any], ...] = ()


COMPARED = [
    Comparison("test_softmax_of_rows_of_any_length", ("softmax_rows", "softmax_columns")),
    Comparison("test_softmax_backward", ("softmax_backward_rows", "softmax_backward_columns")),
    Comparison("test_attention_in_blocks", ("attention_weights", "attention_gradients")),
    Comparison("test_fused_attention", ("flash_attention", "flash_attention_queries", "flash_attention_keys")),
    Comparison("test_layer_norm", ("normalize_rows", "normalize_rows_backward")),
    Comparison("test_layer_norm", ("layer_parameters",), (("affine", True),)),
    Comparison("test_rms_norm", ("scale_rows", "scale_rows_backward")),
    Comparison("test_rms_norm", ("scale_parameters",), (("affine", True),)),
    Comparison("test_biases", ("repeat_row", "sum_columns")),
    Comparison("test_batch_norm", ("channel_moments", "channel_products")),
    Comparison("test_cross_entropy", ("cross_entropy", "cross_entropy_backward")),
    Comparison("test_negative_log_likelihood", ("nll", "nll_backward")),
    Comparison("test_cross_entropy", ("reduce_losses",), (("reduction", "mean"),)),
    Comparison("test_pooling", ("max_pool", "avg_pool", "avg_pool_backward")),
    Comparison("test_resizing", ("resample",)),
    Comparison("test_gradients_of_maxima", ("max_pool_backward",)),
    Comparison(
        "test_adaptive_pooling",
        ("adaptive_max_pool", "adaptive_avg_pool", "adaptive_avg_pool_backward", "adaptive_max_pool_backward"),
    ),
    Comparison("test_columns", ("im2col", "col2im")),
    Comparison("test_sums_of_rows_by_index", ("sum_segments", "sum_few")),
    Comparison("test_reductions_by_index", ("prod_segments", "amax_segments", "amin_segments")),
    Comparison("test_random_decisions_are_those_of_the_cpu", ("bernoulli_float32",), (("dtype", "float32"),)),
    Comparison("test_random_decisions_are_those_of_the_cpu", ("bernoulli_float64",), (("dtype", "float64"),)),
    Comparison("test_dropout_decides_as_the_cpu", ("dropout",)),
    Comparison("test_products_by_the_own_kernel", ("product",)),
    Comparison("test_gradients_are_unscaled_by_one_launch", ("unscale",)),
    Comparison("test_the_scale_is_adapted_as_on_the_cpu", ("adapt_scale",)),
    Comparison("test_norms", ("partial_norms", "total_norm")),
    Comparison("test_clipping_by_the_norm", ("clip_norm",)),
    Comparison("test_clipping_values", ("clip_values",)),
]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    """Check that a test that declares to compare a kernel has launched it."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    wanted = [
        kernel
        for test, kernels, given in COMPARED
        if test == getattr(item, "originalname", "") and all(parameters[name] == value for name, value in given)
        for kernel in kernels
    ]
    with launched() if wanted else contextlib.nullcontext({}) as counts:
        yield
    assert counts.keys() >= set(wanted), f"{item.name} is said to compare {wanted}, and launches {sorted(counts)}"


class Fused:
    """Runs programs on the strict device with generated kernels.

    A program is run twice: once to collect its kernels, which then write zeros, and, when these have been compiled
    together, once for its results.
    """

    def __init__(self, backend: Any, batch: Batch) -> None:
        self.backend, self.batch = backend, batch

    @property
    def counts(self) -> Any:
        """How many kernels were traced, compiled and launched."""
        return self.backend.fusion.counts

    def __call__(self, program: Callable[[], Any]) -> Any:
        with np.errstate(all="ignore"):
            program()
        self.batch.build(1)
        self.counts.clear()
        return program()


@pytest.fixture
def fused(strict: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fused]:
    """Return the strict device with generated kernels, as a function that runs a program."""
    needs_compiler()
    pytest.importorskip("cupy")
    backend = registry.find("strict")
    batch = Batch()
    for name in ("supports_fusion", "has_fused_gradients"):
        monkeypatch.setattr(type(backend), name, True)
    monkeypatch.setattr(backend, "compile_kernel", batch.compile, raising=False)
    for cache in ("fusion", "_optimizer_kernels"):  # without kernels of before
        monkeypatch.setitem(backend.__dict__, cache, getattr(type(backend), cache).func(backend))
    backend.kernels.clear()
    yield Fused(backend, batch)
    backend.kernels.clear()


@pytest.fixture
def order(cuda: Runtime) -> Iterator[Order]:
    """Watch that accesses to memory are ordered, and fail the test if some are not."""
    found = Order(cuda.place)
    found.current = cuda.place  # type: ignore[method-assign]
    cuda.order = found
    watching.watched_by(found)
    yield found
    watching.watched_by(watching.NOBODY)
    assert not found.violations, "\n".join(dict.fromkeys(found.violations))


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """Simulate a machine with two CUDA devices."""
    runtime = Runtime()
    monkeypatch.setattr(fake_runtime, "RUNTIME", runtime)
    monkeypatch.setitem(registry._backends, "cuda", FakeCudaBackend())
    monkeypatch.setattr(streams.STREAMS, "used", False)
    monkeypatch.setattr(streams.STREAMS, "_chosen", {})
    monkeypatch.setattr(Peaks, "watched", {})
    LOG.clear()
    yield runtime
    for index in range(2):
        place = device("cuda", index)
        if hasattr(place, "backend"):
            del place.backend, place.kernels
