"""Programs on the strict device with kernels that are compiled for the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gradcore.backends import registry, streams
from gradcore.backends.cupy_memory import Peaks
from gradcore.cuda import memory
from gradcore.device import device
from tests.cuda import fake_runtime
from tests.cuda.fake_runtime import LOG, FakeCudaBackend, Runtime
from tests.cuda.host import Batch, needs_compiler


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
    """The strict device with generated kernels: call it with a program."""
    needs_compiler()
    pytest.importorskip("cupy")
    backend = registry.find("strict")
    batch = Batch()
    monkeypatch.setattr(type(backend), "fuses", True)
    monkeypatch.setattr(backend, "compile_kernel", batch.compile, raising=False)
    monkeypatch.setitem(backend.__dict__, "fusion", type(backend).fusion.func(backend))  # without kernels of before
    monkeypatch.setitem(backend.__dict__, "_steps", {})
    backend.kernels.clear()
    yield Fused(backend, batch)
    backend.kernels.clear()


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """A machine with two CUDA devices."""
    runtime = Runtime()
    monkeypatch.setattr(fake_runtime, "RUNTIME", runtime)
    monkeypatch.setitem(registry._backends, "cuda", FakeCudaBackend())
    monkeypatch.setattr(streams.STREAMS, "used", False)
    monkeypatch.setattr(streams.STREAMS, "_times", [])
    monkeypatch.setattr(streams.STREAMS, "_streams", [])
    monkeypatch.setattr(Peaks, "_peaks", {})
    monkeypatch.setattr(Peaks, "_hook", None)
    monkeypatch.setattr(memory, "_reserved", {})
    LOG.clear()
    yield runtime
    for index in range(2):
        place = device("cuda", index)
        if hasattr(place, "backend"):
            del place.backend, place.kernels
