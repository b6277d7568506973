"""Recurrent layers for NumPy, in which each step is a product and a dozen functions that write into existing memory.

The factors of the gradients of each step are computed for all steps at once. A library of compiled kernels overrides
the methods that loop over the steps (`run_lstm` and others), and shares the code that runs once per sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.kernel_rules import writes
from gradcore.backends.portable.recurrent import GruGradients, LstmGradients, Recurrent, RnnGradients, Steps
from gradcore.core.typing import AnyArray

__all__ = ["NumpyRecurrent"]

matrix = np.ascontiguousarray


def _are_floats(*operands: Any) -> bool:
    """Return whether all arrays are float32, or all are float64."""
    dtype = operands[0].dtype
    return dtype.char in "fd" and all(x.dtype == dtype for x in operands[1:] if isinstance(x, np.ndarray))


def _takes_sequence(backend: Any, *operands: Any) -> bool:
    return _are_floats(*operands)


def _takes_gradients(backend: Any, arguments: Any) -> bool:
    """Return whether the operands are floats and gates and cells have no upstream gradient.

    They only have one in second derivatives.
    """
    fields = arguments._asdict()
    return fields.get("grad_gates") is None is fields.get("grad_cells") and _are_floats(arguments.result, *arguments)


def _state(x: AnyArray, like: AnyArray) -> AnyArray:
    """Return a writable copy of the state `x`, or zeros like `like` if `x` is None."""
    return np.zeros(like.shape, like.dtype) if x is None else np.array(x, order="C")


class NumpyRecurrent(Recurrent):
    """Kernels of recurrent layers for float32 and float64 arrays."""

    matmul: Callable[[AnyArray, AnyArray], AnyArray]

    # -- long short-term memory ------------------------------------------------------------------------------

    @kernel_for(_takes_sequence)
    def lstm_sequence(
        self,
        inflow: AnyArray,
        h0: AnyArray,
        c0: AnyArray,
        weight: AnyArray,
        projection: AnyArray = None,
        sizes: tuple[int, ...] | None = None,
        reverse: bool = False,
    ) -> tuple[AnyArray, ...]:
        steps, width = Steps(inflow.shape, sizes, reverse), c0.shape[1]
        h, c = _state(h0, h0), _state(c0, c0)
        result, gates, cells = (np.empty((steps.rows, n), h.dtype) for n in (h.shape[1], 4 * width, width))
        inflow, projection = steps.table(self, inflow), projection if projection is None else matrix(projection)
        recurrent_weight = matrix(weight)
        if len(steps.sizes) == 1:  # for a single step, reordering the weights does not pay off
            inflow, recurrent_weight = inflow + self.matmul(h0, weight.T), h[:0]
        self.run_lstm(steps, inflow, recurrent_weight, projection, h, c, result, gates, cells)
        return result.reshape(*steps.lead, h.shape[1]), h, c, gates, cells

    @writes()
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
        """Compute the states and gates of all steps, and write them to `result`, `gates` and `cells`.

        `h` and `c` hold the initial states and are overwritten with the final ones. If `weight` is empty, `inflow`
        includes the product of the weight with the initial state.
        """
        width = c.shape[1]
        _reorder_gates(inflow, gates, width)
        transposed = _reorder_gates(weight.T, np.empty(weight.T.shape, weight.dtype), width) if weight.size else None
        to_state = None if projection is None else projection.T
        buffer, spare = np.empty((len(h), 4 * width), h.dtype), np.empty(c.shape, c.dtype)
        views = _views(steps, gates, gates[:, : 3 * width], *_blocks(gates, 4), cells, result)
        for n, each, sigmoids, let_in, forget, let_out, new, cell, state in views:
            if transposed is not None:
                each += np.dot(h[:n], transposed, buffer[:n])
            _logistic(sigmoids)
            np.tanh(new, new)
            np.multiply(forget, c[:n], cell)
            np.multiply(let_in, new, spare[:n])
            np.add(cell, spare[:n], cell)
            np.tanh(cell, spare[:n])
            if to_state is None:
                np.multiply(let_out, spare[:n], state)
            else:
                np.dot(np.multiply(let_out, spare[:n], spare[:n]), to_state, state)
            h[:n], c[:n] = state, cell

    @kernel_for(_takes_gradients, LstmGradients)
    def lstm_backward(self, arguments: LstmGradients) -> tuple[AnyArray, ...]:
        grad, grad_h, grad_c, _, _, h0, c0, weight, projection, result, gates, cells, sizes, reverse, needs = arguments
        steps, weight = Steps(result.shape, sizes, reverse), matrix(weight)
        upstream = None if grad is None else matrix(steps.table(self, grad))
        of_h, of_c, result = _state(grad_h, h0), _state(grad_c, c0), steps.table(self, result)
        gates, cells, of_inflow = matrix(gates), matrix(cells), np.empty(gates.shape, gates.dtype)
        projection = projection if projection is None else matrix(projection)
        sources = None if projection is None else np.empty(result.shape, result.dtype)
        before = matrix(steps.before(self, cells, c0))
        self.run_lstm_back(steps, upstream, weight, projection, before, gates, cells, of_h, of_c, of_inflow, sources)
        of_projection = None
        if needs[4] and sources is not None:
            of_projection = self.matmul(sources.T, _blocks(gates, 4)[2] * np.tanh(cells))
        of_weight = self.matmul(of_inflow.T, steps.before(self, result, h0)) if needs[3] else None
        return steps.restore_shape(self, of_inflow), of_h, of_c, of_weight, of_projection

    @writes()
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
        """Compute the gradients by the inflow of all steps, and write them to `of_inflow`.

        `of_h` and `of_c` hold the gradients by the final states and are overwritten with those by the initial ones.
        `before` holds the cell states before each step. The gradients by the projected states are written to
        `sources`.
        """
        width = cells.shape[1]
        let_in, forget, let_out, new = _blocks(gates, 4)
        by_in, by_forget, by_new, by_out = _blocks(of_inflow, 4)
        tanh_cells = np.tanh(cells)
        _product(by_in, _slope(let_in, by_in), new)
        _product(by_forget, _slope(forget, by_forget), before)
        _product(by_new, _slope_of_tanh(new, by_new), let_in)
        _product(by_out, _slope(let_out, by_out), tanh_cells)
        along = _slope_of_tanh(tanh_cells, tanh_cells)
        along *= let_out
        cubes = of_inflow.reshape(len(cells), 4, width)
        buffer, hidden_room = np.empty(of_h.shape, of_h.dtype), np.empty(of_c.shape, of_c.dtype)
        arrays = forget, along, of_inflow, cubes[:, :3], by_out, upstream, sources
        for n, keep, slope, each, by_cell, by_hidden, arriving, source in _views(steps, *arrays, back=True):
            cell, grad = of_c[:n], of_h[:n]
            if arriving is not None:
                grad = np.add(arriving, grad, buffer[:n] if source is None else source)
            elif source is not None:
                source[:] = grad
            if source is not None:
                grad = np.dot(source, projection, hidden_room[:n])
            cell += np.multiply(grad, slope, slope)
            by_cell *= cell[:, None]
            by_hidden *= grad
            np.dot(each, weight, of_h[:n])
            cell *= keep

    # -- gated recurrent units -------------------------------------------------------------------------------

    @kernel_for(_takes_sequence)
    def gru_sequence(
        self,
        inflow: AnyArray,
        h0: AnyArray,
        weight: AnyArray,
        bias: AnyArray = None,
        sizes: tuple[int, ...] | None = None,
        reverse: bool = False,
    ) -> tuple[AnyArray, ...]:
        steps, width, h = Steps(inflow.shape, sizes, reverse), h0.shape[1], _state(h0, h0)
        result, gates = np.empty((steps.rows, width), h.dtype), np.empty((steps.rows, 4 * width), h.dtype)
        bias = np.zeros(3 * width, h.dtype) if bias is None else matrix(bias)
        self.run_gru(steps, steps.table(self, inflow), matrix(weight), bias, h, result, gates)
        return result.reshape(*steps.lead, width), h, gates

    @writes()
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
        """Compute the states (`result`) and gates of all steps, and replace the initial state `h` by the final one."""
        width = h.shape[1]
        np.negative(inflow[:, : 2 * width] + bias[: 2 * width], gates[:, : 2 * width])
        gates[:, 2 * width : 3 * width] = inflow[:, 2 * width :]
        transposed = weight.T.copy()
        np.negative(transposed[:, : 2 * width], transposed[:, : 2 * width])
        buffer, spare = np.empty((len(h), 3 * width), h.dtype), np.empty(h.shape, h.dtype)
        views = _views(steps, gates[:, : 2 * width], *_blocks(gates, 4), result)
        for n, sigmoids, reset, keep, new, new_h, state in views:
            before, difference = h[:n], spare[:n]
            recurrent = np.dot(before, transposed, buffer[:n])
            sigmoids += recurrent[:, : 2 * width]
            _logistic(sigmoids)
            np.add(recurrent[:, 2 * width :], bias[2 * width :], new_h)
            new += np.multiply(reset, new_h, difference)
            np.tanh(new, new)
            np.subtract(before, new, difference)
            np.multiply(difference, keep, difference)
            before[:] = np.add(new, difference, state)

    @kernel_for(_takes_gradients, GruGradients)
    def gru_backward(self, arguments: GruGradients) -> tuple[AnyArray, ...]:
        grad, grad_h, _, h0, weight, result, gates, sizes, reverse, needs = arguments
        steps, width, weight = Steps(result.shape, sizes, reverse), h0.shape[1], matrix(weight)
        upstream = None if grad is None else matrix(steps.table(self, grad))
        of_h, before = _state(grad_h, h0), matrix(steps.before(self, steps.table(self, result), h0))
        gates, of_all = matrix(gates), np.empty(gates.shape, gates.dtype)
        self.run_gru_back(steps, upstream, weight, before, gates, of_h, of_all)
        of_recurrent = of_all[:, width:]
        of_inflow = np.concatenate([of_all[:, width : 3 * width], of_all[:, :width]], 1)
        of_weight = self.matmul(of_recurrent.T, before) if needs[2] else None
        return steps.restore_shape(self, of_inflow), of_h, of_weight, np.add.reduce(of_recurrent) if needs[3] else None

    @writes()
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
        """Compute the gradients by the inputs of the gates, and write them to `of_all`.

        Their order is: new state, reset gate, update gate, the state's contribution to the new state. `of_h` holds the
        gradient by the final state and is overwritten with that by the initial one.
        """
        width = of_h.shape[1]
        reset, keep, new, new_h = _blocks(gates, 4)
        by_new, by_reset, by_keep, by_new_h = _blocks(of_all, 4)
        _product(by_new, _slope_of_tanh(new, by_new), 1 - keep)
        _product(by_keep, _slope(keep, by_keep), before - new)
        np.multiply(by_new, reset, by_new_h)
        _product(by_reset, _slope(reset, by_reset), by_new, new_h)
        cubes, recurrent = of_all.reshape(len(gates), 4, width), of_all[:, width:]
        buffer, recurrent_grad = np.empty(of_h.shape, of_h.dtype), np.empty(of_h.shape, of_h.dtype)
        for n, keep_gate, each, inner, arriving in _views(steps, keep, cubes, recurrent, upstream, back=True):
            grad = of_h[:n]
            if arriving is not None:
                grad = np.add(arriving, grad, buffer[:n])
            each *= grad[:, None]
            np.dot(inner, weight, recurrent_grad[:n])
            np.multiply(grad, keep_gate, of_h[:n])
            of_h[:n] += recurrent_grad[:n]

    # -- plain recurrent networks ----------------------------------------------------------------------------

    @kernel_for(_takes_sequence)
    def rnn_sequence(
        self,
        inflow: AnyArray,
        h0: AnyArray,
        weight: AnyArray,
        relu: bool = False,
        sizes: tuple[int, ...] | None = None,
        reverse: bool = False,
    ) -> tuple[AnyArray, ...]:
        steps, h = Steps(inflow.shape, sizes, reverse), _state(h0, h0)
        result = np.array(steps.table(self, inflow), order="C")
        self.run_rnn(steps, matrix(weight), h, result, relu)
        return result.reshape(*steps.lead, h.shape[1]), h

    @writes()
    def run_rnn(self, steps: Steps, weight: AnyArray, h: AnyArray, result: AnyArray, relu: bool) -> None:
        """Replace the inflow in `result` by the states of all steps, and the initial state `h` by the final one."""
        transposed, buffer = weight.T, np.empty(h.shape, h.dtype)
        for n, state in _views(steps, result):
            state += np.dot(h[:n], transposed, buffer[:n])
            h[:n] = np.maximum(state, 0, out=state) if relu else np.tanh(state, state)

    @kernel_for(_takes_gradients, RnnGradients)
    def rnn_backward(self, arguments: RnnGradients) -> tuple[AnyArray, ...]:
        grad, grad_h, h0, weight, result, relu, sizes, reverse, needs = arguments
        steps, result = Steps(result.shape, sizes, reverse), result.reshape(-1, h0.shape[1])
        upstream = None if grad is None else matrix(steps.table(self, grad))
        of_h, of_inflow = _state(grad_h, h0), np.empty(result.shape, result.dtype)
        self.run_rnn_back(steps, upstream, matrix(weight), matrix(result), of_h, of_inflow, relu)
        of_weight = self.matmul(of_inflow.T, steps.before(self, result, h0)) if needs[2] else None
        return steps.restore_shape(self, of_inflow), of_h, of_weight

    @writes()
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
        """Compute the gradients by the inflow of all steps, and write them to `of_inflow`.

        `of_h` holds the gradient by the final state and is overwritten with that by the initial one.
        """
        if relu:
            np.logical_not(result <= 0, of_inflow)  # one at NaN, as `relu` has
        else:
            _slope_of_tanh(result, of_inflow)
        for n, each, arriving in _views(steps, of_inflow, upstream, back=True):
            each *= of_h[:n] if arriving is None else np.add(arriving, of_h[:n], of_h[:n])
            np.dot(each, weight, of_h[:n])


def _views(steps: Steps, *arrays: AnyArray, back: bool = False) -> Iterator[tuple[Any, ...]]:
    """Yield the number of rows of each step and its rows of each array, from the last step to the first if `back`."""
    sizes, order = steps.sizes, list(steps.order)[::-1] if back else steps.order
    if len(sizes) == 1:
        return iter([(sizes[0], *arrays)])
    starts = [] if len(set(sizes)) == 1 else steps.starts()
    step_views: list[Any] = []
    for x in arrays:
        if x is None:
            step_views.append([None] * len(sizes))
        elif starts:
            step_views.append([x[start : start + n] for start, n in zip(starts, sizes, strict=True)])
        else:
            step_views.append(list(x.reshape(len(sizes), sizes[0], *x.shape[1:])))
    return zip([sizes[t] for t in order], *([pieces[t] for t in order] for pieces in step_views), strict=True)


def _blocks(x: AnyArray, count: int) -> list[AnyArray]:
    """Split `x` into `count` blocks of columns of the same width."""
    width = x.shape[1] // count
    return [x[:, k * width : (k + 1) * width] for k in range(count)]


def _reorder_gates(x: AnyArray, out: AnyArray, width: int) -> AnyArray:
    """Write the columns of `x` to `out` in the order input, forget, output, cell gate, and return `out`.

    The first three gates are negated, because `_logistic` expects that.
    """
    np.negative(x[:, : 2 * width], out[:, : 2 * width])
    np.negative(x[:, 3 * width :], out[:, 2 * width : 3 * width])
    out[:, 3 * width :] = x[:, 2 * width : 3 * width]
    return out


def _logistic(x: AnyArray) -> None:
    """Compute ``1 / (1 + exp(x))`` in place."""
    np.exp(x, x)
    np.add(x, 1, x)
    np.reciprocal(x, x)


def _slope(gate: AnyArray, out: AnyArray) -> AnyArray:
    """Write the derivative of a sigmoid, computed from its value `gate`, to `out`, and return `out`."""
    np.subtract(1, gate, out)
    return np.multiply(out, gate, out)


def _slope_of_tanh(value: AnyArray, out: AnyArray) -> AnyArray:
    """Write the derivative of a hyperbolic tangent, computed from its value, to `out`, and return `out`."""
    np.multiply(value, value, out)
    return np.subtract(1, out, out)


def _product(out: AnyArray, *factors: AnyArray) -> None:
    """Multiply `out` in place by all factors but the first, which is `out` itself."""
    for factor in factors[1:]:
        np.multiply(out, factor, out)
