"""Connectionist temporal classification of float32 and float64 by kernels of the compiled library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from gradcore.backends.numpy import threads
from gradcore.backends.numpy.backend import NumpyBackend

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["CompiledCtc"]


class _Problem(ctypes.Structure):
    """Arguments of the kernels of `ctc.cpp`, apart from arrays."""

    _fields_ = tuple((name, ctypes.c_int64) for name in ("steps", "batch", "classes", "positions", "blank", "threads"))


class CompiledCtc(NumpyBackend):
    """CTC losses and their gradients."""

    library: ctypes.CDLL

    @cached_property
    def _ctc(self) -> dict[str, Callable[..., None]]:
        results: dict[str, Callable[..., None]] = {}
        for name, arrays in (("ctc", 6), ("ctc_back", 8)):
            make = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.py_object] * arrays)
            results.update({name + char: make((f"gradcore_{name}_{char}", self.library)) for char in "fd"})
        return results

    def _run_sequences(self, name: str, log_probs: Array, labels: Array, blank: int, *arrays: Array) -> None:
        steps, batch, classes = log_probs.shape
        problem = _Problem(steps, batch, classes, labels.shape[1], blank, threads.available())
        self._ctc[name + log_probs.dtype.char](ctypes.byref(problem), *arrays)

    def run_ctc(
        self,
        log_probs: Array,
        labels: Array,
        ends: Array,
        counts: Array,
        blank: int,
        losses: Array,
        alphas: Array,
    ) -> None:
        arrays = log_probs, labels, ends, counts, losses, alphas
        self._run_sequences("ctc", log_probs, labels, blank, *arrays)

    def run_ctc_back(
        self,
        grad: Array,
        log_probs: Array,
        labels: Array,
        ends: Array,
        counts: Array,
        losses: Array,
        alphas: Array,
        blank: int,
        out: Array,
    ) -> None:
        arrays = grad, log_probs, labels, ends, counts, losses, alphas, out
        self._run_sequences("ctc_back", log_probs, labels, blank, *arrays)
