"""Recurrent layers of float32 and float64 by the compiled library, with one call per sequence."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls
from gradcore.backends.numpy import threads
from gradcore.backends.portable.recurrent import Steps
from gradcore.core.typing import AnyArray

__all__ = ["CompiledRecurrent"]

#: Least number of samples of each thread, and number of multiplications from which a thread pays off.
_SAMPLES, _WORTH_A_THREAD = 4, 1 << 18


@lru_cache(maxsize=64)
def _describe_steps(sizes: tuple[int, ...]) -> AnyArray:
    """Return an array of the number of samples of each step, and of the first row of each."""
    return np.array([sizes, [0, *accumulate(sizes)][:-1]], np.int64)


class CompiledRecurrent(CompiledCalls):
    """Recurrent layers whose steps are all computed in one call."""

    def _run_steps(
        self, name: str, steps: Steps, widths: tuple[int, int], *arrays: AnyArray, relu: bool = False
    ) -> None:
        """Run a kernel of `recurrent.cpp` over all steps, on contiguous arrays of one dtype."""
        batch, available = max(steps.sizes), threads.available()
        parts = max(1, min(available, batch // _SAMPLES, steps.rows * widths[0] * widths[1] // _WORTH_A_THREAD))
        sizes = _describe_steps(tuple(steps.sizes))
        function = self._function(f"gradcore_{name}", arrays[-1].dtype.char)
        function(sizes, batch, *widths, steps.reverse, relu, available, parts, *arrays)

    def run_lstm(
        self,
        steps: Steps,
        inflow: AnyArray,
        weight: AnyArray,
        projection: AnyArray,
        h: AnyArray,
        c: AnyArray,
        result: AnyArray,
        gates: AnyArray,
        cells: AnyArray,
    ) -> None:
        arrays = np.ascontiguousarray(inflow), weight, _or_empty(projection, h), h, c, result, gates, cells
        self._run_steps("lstm", steps, (c.shape[1], h.shape[1]), *arrays)

    def run_lstm_back(
        self,
        steps: Steps,
        upstream: AnyArray,
        weight: AnyArray,
        projection: AnyArray,
        before: AnyArray,
        gates: AnyArray,
        cells: AnyArray,
        of_h: AnyArray,
        of_c: AnyArray,
        of_inflow: AnyArray,
        sources: AnyArray,
    ) -> None:
        is_single_step = len(steps.sizes) == 1
        optional = upstream, None if is_single_step else weight, projection
        inputs = (_or_empty(x, of_h) for x in optional)
        arrays = *inputs, before, gates, cells, of_h, of_c, of_inflow, _or_empty(sources, of_h)
        self._run_steps("lstm_back", steps, (of_c.shape[1], of_h.shape[1]), *arrays)
        if is_single_step:
            of_h[:] = self.matmul(of_inflow, weight)

    def run_gru(
        self,
        steps: Steps,
        inflow: AnyArray,
        weight: AnyArray,
        bias: AnyArray,
        h: AnyArray,
        result: AnyArray,
        gates: AnyArray,
    ) -> None:
        arrays = np.ascontiguousarray(inflow), weight, bias, h, result, gates
        self._run_steps("gru", steps, (h.shape[1], h.shape[1]), *arrays)

    def run_gru_back(
        self,
        steps: Steps,
        upstream: AnyArray,
        weight: AnyArray,
        before: AnyArray,
        gates: AnyArray,
        of_h: AnyArray,
        of_all: AnyArray,
    ) -> None:
        is_single_step, width = len(steps.sizes) == 1, of_h.shape[1]
        arrays = (
            _or_empty(upstream, of_h),
            _or_empty(None if is_single_step else weight, of_h),
            before,
            gates,
            of_h,
            of_all,
        )
        self._run_steps("gru_back", steps, (width, width), *arrays)
        if is_single_step:
            of_h += self.matmul(of_all[:, width:], weight)

    def run_rnn(self, steps: Steps, weight: AnyArray, h: AnyArray, result: AnyArray, relu: bool) -> None:
        if len(steps.sizes) == 1:
            result += self.matmul(h, weight.T)
            weight = h[:0]
        self._run_steps("rnn", steps, (h.shape[1], h.shape[1]), weight, h, result, relu=relu)

    def run_rnn_back(
        self,
        steps: Steps,
        upstream: AnyArray,
        weight: AnyArray,
        result: AnyArray,
        of_h: AnyArray,
        of_inflow: AnyArray,
        relu: bool,
    ) -> None:
        is_single_step, width = len(steps.sizes) == 1, of_h.shape[1]
        arrays = _or_empty(upstream, of_h), _or_empty(None if is_single_step else weight, of_h), result, of_h, of_inflow
        self._run_steps("rnn_back", steps, (width, width), *arrays, relu=relu)
        if is_single_step:
            of_h[:] = self.matmul(of_inflow, weight)


def _or_empty(x: AnyArray, like: AnyArray) -> AnyArray:
    """Return `x`, or an empty array for None."""
    return like[:0] if x is None else x
