"""Connectionist temporal classification of float32 and float64 by kernels of the compiled library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradcore.backends.compiled.calls import CompiledCalls
from gradcore.backends.numpy import threads

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["CompiledCtc"]


class CompiledCtc(CompiledCalls):
    """CTC losses and their gradients."""

    def _run_sequences(self, name: str, log_probs: Array, labels: Array, blank: int, *arrays: Array) -> None:
        sizes = *log_probs.shape, labels.shape[1], blank
        self._function(name, log_probs.dtype.char)(*sizes, threads.available(), *arrays)

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
        self._run_sequences("gradcore_ctc", log_probs, labels, blank, *arrays)

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
        self._run_sequences("gradcore_ctc_back", log_probs, labels, blank, *arrays)
