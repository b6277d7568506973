"""Recurrent layers: the steps of a sequence for one layer in one direction, and their gradients.

The inputs of all steps, multiplied by their weights, are the rows of one array (the inflow). Formulas are written
against a namespace ``F`` of operations on arrays or tensors, and against a function `run`, which evaluates the
elementwise formula of a step, so that a backend can compile it to one kernel. The formulas of gradients are linear in
the gradient of the state, and their coefficients are computed for all steps at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from gradcore.backends.kernel_methods import packed
from gradcore.core.typing import AnyArray, NamedTuple

__all__ = [
    "GruGradients",
    "LstmGradients",
    "Recurrent",
    "RnnGradients",
    "Steps",
    "direct_run",
    "gru_gradients",
    "lstm_gradients",
    "rnn_gradients",
]

#: Function that evaluates an elementwise formula ``formula(F, *operands)`` with several results.
Run = Callable[..., Any]


class LstmGradients(NamedTuple):
    """Arguments of the gradients of `lstm_sequence`; gradients of unused outputs are None."""

    grad: AnyArray
    grad_h: AnyArray
    grad_c: AnyArray
    grad_gates: AnyArray
    grad_cells: AnyArray
    h0: AnyArray
    c0: AnyArray
    weight: AnyArray
    projection: AnyArray
    result: AnyArray
    gates: AnyArray
    cells: AnyArray
    sizes: tuple[int, ...] | None
    reverse: bool
    needs: tuple[bool, ...]


class GruGradients(NamedTuple):
    """Arguments of the gradients of `gru_sequence`."""

    grad: AnyArray
    grad_h: AnyArray
    grad_gates: AnyArray
    h0: AnyArray
    weight: AnyArray
    result: AnyArray
    gates: AnyArray
    sizes: tuple[int, ...] | None
    reverse: bool
    needs: tuple[bool, ...]


class RnnGradients(NamedTuple):
    """Arguments of the gradients of `rnn_sequence`."""

    grad: AnyArray
    grad_h: AnyArray
    h0: AnyArray
    weight: AnyArray
    result: AnyArray
    relu: bool
    sizes: tuple[int, ...] | None
    reverse: bool
    needs: tuple[bool, ...]


class Steps:
    """Layout of the steps in an array: ``(steps, batch, width)``, ``(batch, width)`` (one step) or packed.

    Parameters
    ----------
    shape : tuple of int
        Shape of the array.
    sizes : tuple of int, optional
        Number of rows of each step, if sequences of different lengths are packed.
    reverse : bool
        Whether the steps are computed from the last to the first.
    """

    def __init__(self, shape: Sequence[int], sizes: Sequence[int] | None, reverse: bool) -> None:
        self.lead = tuple(shape[:-1])
        if sizes is None:
            steps, batch = (1, *self.lead) if len(shape) == 2 else self.lead
            sizes = [batch] * steps
        self.sizes: list[int] = list(sizes)
        self.rows = sum(self.sizes)
        if not self.sizes:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        numbers = range(len(self.sizes))
        #: The numbers of the steps, in the order in which they are computed.
        self.order = numbers[::-1] if reverse else numbers
        self.reverse = reverse

    def starts(self) -> list[int]:
        """Return the first row of each step."""
        return [0, *accumulate(self.sizes)][:-1]

    def table(self, F: Any, x: Any) -> Any:
        """Return `x` as a matrix with a row for each step of each sample."""
        return F.reshape(x, (self.rows, x.shape[-1]))

    def split(self, F: Any, x: Any) -> Any:
        """Return the rows of a table as one array per step."""
        return F.split(x, tuple(self.sizes), 0)

    def join(self, F: Any, steps: Any) -> Any:
        """Join the arrays of all steps into a table (the inverse of `split`)."""
        return F.cat(list(steps), 0) if len(self.sizes) > 1 else steps[0]

    def restore_shape(self, F: Any, x: Any) -> Any:
        """Return a table in the original shape (the inverse of `table`)."""
        return F.reshape(x, (*self.lead, x.shape[-1]))

    def before(self, F: Any, states: Any, first: Any) -> Any:
        """Return the state before each step, as rows, from the states after each step and the initial state."""
        sizes = self.sizes
        if len(sizes) == 1:
            return first
        if len(set(sizes)) == 1:
            later = F.narrow(states, 0, sizes[0] if self.reverse else 0, self.rows - sizes[0])
            return F.cat([later, first] if self.reverse else [first, later], 0)
        parts, pieces = self.split(F, states), []
        for t, n in enumerate(sizes):
            source = t + 1 if self.reverse else t - 1
            rows_before = min(n, sizes[source]) if 0 <= source < len(sizes) else 0
            pieces += [F.narrow(parts[source], 0, 0, rows_before)] if rows_before else []
            pieces += [F.narrow(first, 0, rows_before, n - rows_before)] if rows_before < n else []
        return F.cat(pieces, 0)


class _State:
    """State of the samples that have the current step, and the final states of samples that have ended."""

    def __init__(self, F: Any, first: Any, n: int) -> None:
        self.F, self.first = F, first
        self.now = F.narrow(first, 0, 0, n) if n < first.shape[0] else first
        self.ended: list[Any] = []

    def of(self, n: int) -> Any:
        """Return the state of the first `n` samples. Those beyond `n` have ended; new ones get the initial state."""
        count, F = self.now.shape[0], self.F
        if n < count:
            self.ended.append(F.narrow(self.now, 0, n, count - n))
            self.now = F.narrow(self.now, 0, 0, n)
        elif n > count:
            self.now = F.cat([self.now, F.narrow(self.first, 0, count, n - count)], 0)
        return self.now

    def all(self) -> Any:
        """Return the final state of all samples."""
        return self.F.cat([self.now, *reversed(self.ended)], 0) if self.ended else self.now


def direct_run(F: Any) -> Run:
    """Return a `Run` that calls formulas directly with `F`."""
    return lambda formula, *operands: formula(F, *operands)


def _flat(F: Any, x: Any) -> Any:
    """Reshape gates ``(n, gates, hidden)`` to ``(n, gates * hidden)``."""
    return F.reshape(x, (x.shape[0], x.shape[1] * x.shape[2]))


def _one(F: Any, x: Any) -> Any:
    """Add a dim of gates to rows: ``(n, hidden)`` becomes ``(n, 1, hidden)``, which broadcasts."""
    return F.unsqueeze(x, 1)


def _or_zeros(F: Any, grad: Any, like: Any) -> Any:
    return F.zeros_like(like) if grad is None else grad


def _upstream(F: Any, steps: Steps, grad: Any, result: Any) -> Any:
    """Return the upstream gradient of the result at each step, with zeros for None."""
    return steps.split(F, F.zeros_like(result) if grad is None else steps.table(F, grad))


# -- long short-term memory: the saved gates are input, forget, output and cell --------------------------------------


def _lstm_step(F: Any, cell: Any, *terms: Any) -> tuple[Any, ...]:
    let_in, forget, new, let_out = (x + h for x, h in zip(terms[:4], terms[4:], strict=True))
    let_in, forget, let_out, new = F.sigmoid(let_in), F.sigmoid(forget), F.sigmoid(let_out), F.tanh(new)
    cell = forget * cell + let_in * new
    return let_in, forget, let_out, new, cell, let_out * F.tanh(cell)


def _lstm(
    F: Any, run: Run, inflow: Any, h0: Any, c0: Any, weight: Any, projection: Any, sizes: Any, reverse: bool
) -> tuple[Any, ...]:
    steps, width = Steps(inflow.shape, sizes, reverse), c0.shape[1]
    terms, transposed = steps.split(F, steps.table(F, inflow)), F.transpose(weight, 0, 1)
    hidden, cell = (_State(F, x, steps.sizes[steps.order[0]]) for x in (h0, c0))
    outputs: list[Any] = [None] * len(steps.sizes)
    for t in steps.order:
        n = steps.sizes[t]
        recurrent = F.matmul(hidden.of(n), transposed)
        *gates, new, h = run(_lstm_step, cell.of(n), *F.split(terms[t], width, 1), *F.split(recurrent, width, 1))
        if projection is not None:
            h = F.matmul(h, F.transpose(projection, 0, 1))
        cell.now, hidden.now = new, h
        outputs[t] = (*gates, new, h)
    *gates, cells, result = (steps.join(F, each) for each in zip(*outputs, strict=True))
    return steps.restore_shape(F, result), hidden.all(), cell.all(), F.cat(gates, 1), cells


def _lstm_factors(
    F: AnyArray, let_in: AnyArray, forget: AnyArray, let_out: AnyArray, new: AnyArray, cells: AnyArray, before: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray, AnyArray]:
    """Return the derivatives of the hidden state by the cell, of the cell by three gates, and of the state by the last.

    The gates are input, forget, cell and output, without their activations; `before` are the cells before each step.
    """
    tanh_cells = F.tanh(cells)
    return (
        let_out * (1 - tanh_cells * tanh_cells),
        let_in * (1 - let_in) * new,
        forget * (1 - forget) * before,
        (1 - new * new) * let_in,
        let_out * (1 - let_out) * tanh_cells,
    )


def _lstm_step_back(
    F: AnyArray,
    of_h: AnyArray,
    of_c: AnyArray,
    along: AnyArray,
    forget: AnyArray,
    by_cell: AnyArray,
    by_hidden: AnyArray,
) -> tuple[AnyArray, AnyArray]:
    """Return the gradients by the cell state before the step, and by the inputs of the gates."""
    of_c = of_c + of_h * along
    return of_c * forget, by_cell * of_c + by_hidden * of_h


def _lstm_sum_back(F: AnyArray, grad: AnyArray, of_h: AnyArray, *others: AnyArray) -> tuple[AnyArray, AnyArray]:
    return _lstm_step_back(F, grad + of_h, *others)


def lstm_gradients(F: Any, run: Run, arguments: LstmGradients) -> tuple[Any, ...]:
    """Return the gradients of `lstm_sequence` by inflow, states, weight and projection."""
    grad, grad_h, grad_c, grad_gates, grad_cells, h0, c0, weight, projection, result, gates, cells, *_ = arguments
    steps, width, needs = Steps(result.shape, arguments.sizes, arguments.reverse), c0.shape[1], arguments.needs
    h0, c0, weight, result = F.conj(h0), F.conj(c0), F.conj(weight), F.conj(steps.table(F, result))
    let_in, forget, let_out, new = F.split(F.conj(gates), width, 1)
    cells = F.conj(cells)
    nothing, before = F.zeros_like(cells), steps.before(F, cells, c0)
    along, *factors, of_output = run(_lstm_factors, let_in, forget, let_out, new, cells, before)
    by_cell, by_hidden = F.stack([*factors, nothing], 1), F.stack([nothing, nothing, nothing, of_output], 1)
    pieces = [steps.split(F, x) for x in (along, forget, by_cell, by_hidden)]
    upstream, of_cells, of_gates = _upstream(F, steps, grad, result), None, None
    if grad_cells is not None:
        of_cells = steps.split(F, grad_cells)
    if grad_gates is not None:
        of_in, of_forget, of_out, of_new = F.split(grad_gates, width, 1)
        slopes = let_in * (1 - let_in), forget * (1 - forget), 1 - new * new, let_out * (1 - let_out)
        each = zip((of_in, of_forget, of_new, of_out), slopes, strict=True)
        of_gates = steps.split(F, F.stack([t * slope for t, slope in each], 1))
    last = steps.sizes[steps.order[-1]]
    hidden, cell = (_State(F, _or_zeros(F, t, x), last) for t, x in ((grad_h, h0), (grad_c, c0)))
    gradients: list[Any] = [None] * len(steps.sizes)
    sources: list[Any] = [None] * len(steps.sizes)
    for t in reversed(steps.order):
        n = steps.sizes[t]
        formula: Callable[..., Any] = _lstm_sum_back
        grads_of_h, of_c = [upstream[t], hidden.of(n)], cell.of(n)
        if projection is not None:
            formula, sources[t] = _lstm_step_back, grads_of_h[0] + grads_of_h[1]
            grads_of_h = [F.matmul(sources[t], F.conj(projection))]
        if of_cells is not None:
            of_c = of_c + of_cells[t]
        along, forget = pieces[0][t], pieces[1][t]
        of_c, inner = run(
            formula, *(_one(F, x) for x in (*grads_of_h, of_c, along, forget)), pieces[2][t], pieces[3][t]
        )
        gradients[t] = _flat(F, inner if of_gates is None else inner + of_gates[t])
        cell.now = F.reshape(F.narrow(of_c, 1, 0, 1), (n, width))
        hidden.now = F.matmul(gradients[t], weight)
    of_inflow = steps.join(F, gradients)
    of_projection = None
    if needs[4]:
        of_projection = F.matmul(F.transpose(steps.join(F, sources), 0, 1), let_out * F.tanh(cells))
    return (
        steps.restore_shape(F, of_inflow),
        hidden.all(),
        cell.all(),
        _weight_gradient(F, steps, of_inflow, result, h0) if needs[3] else None,
        of_projection,
    )


def _weight_gradient(F: Any, steps: Steps, of_recurrent: Any, result: Any, h0: Any) -> Any:
    return F.matmul(F.transpose(of_recurrent, 0, 1), steps.before(F, result, h0))


# -- gated recurrent units: saved are the reset gate, update gate, new state, and the state's contribution to it ------


def _gru_step(F: Any, h: Any, *terms: Any) -> tuple[Any, ...]:
    reset_in, keep_in, new_in, reset_h, keep_h, new_h = terms
    reset, keep = F.sigmoid(reset_in + reset_h), F.sigmoid(keep_in + keep_h)
    new = F.tanh(new_in + reset * new_h)
    return reset, keep, new, new_h + 0, new + keep * (h - new)


def _gru(
    F: Any, run: Run, inflow: Any, h0: Any, weight: Any, bias: Any, sizes: Any, reverse: bool
) -> tuple[Any, Any, Any]:
    steps, width = Steps(inflow.shape, sizes, reverse), h0.shape[1]
    terms, transposed = steps.split(F, steps.table(F, inflow)), F.transpose(weight, 0, 1)
    hidden = _State(F, h0, steps.sizes[steps.order[0]])
    outputs: list[Any] = [None] * len(steps.sizes)
    for t in steps.order:
        h = hidden.of(steps.sizes[t])
        recurrent = F.matmul(h, transposed)
        recurrent = recurrent if bias is None else recurrent + bias
        outputs[t] = run(_gru_step, h, *F.split(terms[t], width, 1), *F.split(recurrent, width, 1))
        hidden.now = outputs[t][4]
    *gates, result = (steps.join(F, each) for each in zip(*outputs, strict=True))
    return steps.restore_shape(F, result), hidden.all(), F.cat(gates, 1)


def _gru_factors(
    F: AnyArray, reset: AnyArray, keep: AnyArray, new: AnyArray, new_h: AnyArray, before: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    """Return the derivatives of the state by new state, gates and the state's contribution to the new state.

    The order is new, reset, keep, new_h, so that the last three are the gradient of the recurrent products.
    """
    of_new = (1 - keep) * (1 - new * new)
    of_reset, of_keep = new_h * reset * (1 - reset), keep * (1 - keep)
    return of_new, of_new * of_reset, (before - new) * of_keep, of_new * reset


def _gru_step_back(F: Any, grad: Any, of_h: Any, keep: Any, factors: Any) -> tuple[Any, Any]:
    """Return the part of the gradient that bypasses the gates, and the gradients by the gates' inputs."""
    of_h = grad + of_h
    return of_h * keep, factors * of_h


def gru_gradients(F: Any, run: Run, arguments: GruGradients) -> tuple[Any, ...]:
    """Return the gradients of `gru_sequence` by inflow, state, weight and bias."""
    grad, grad_h, grad_gates, h0, weight, result, gates, sizes, reverse, needs = arguments
    steps, width = Steps(result.shape, sizes, reverse), h0.shape[1]
    h0, weight, result = F.conj(h0), F.conj(weight), F.conj(steps.table(F, result))
    reset, keep, new, new_h = F.split(F.conj(gates), width, 1)
    before = steps.before(F, result, h0)
    factors = F.stack(list(run(_gru_factors, reset, keep, new, new_h, before)), 1)
    of_gates = None
    if grad_gates is not None:
        to_reset, to_keep, to_new, to_new_h = F.split(grad_gates, width, 1)
        to_new = to_new * (1 - new * new)
        to_reset = to_reset * reset * (1 - reset) + to_new * (new_h * reset * (1 - reset))
        to_keep = to_keep * (keep * (1 - keep))
        of_gates = steps.split(F, F.stack([to_new, to_reset, to_keep, to_new * reset + to_new_h], 1))
    upstream, keeps, factors = _upstream(F, steps, grad, result), steps.split(F, keep), steps.split(F, factors)
    hidden = _State(F, _or_zeros(F, grad_h, h0), steps.sizes[steps.order[-1]])
    gradients: list[Any] = [None] * len(steps.sizes)
    for t in reversed(steps.order):
        n = steps.sizes[t]
        operands = (_one(F, x) for x in (upstream[t], hidden.of(n), keeps[t]))
        direct, inner = run(_gru_step_back, *operands, factors[t])
        gradients[t] = _flat(F, inner if of_gates is None else inner + of_gates[t])
        direct = F.reshape(F.narrow(direct, 1, 0, 1), (n, width))
        hidden.now = direct + F.matmul(F.narrow(gradients[t], 1, width, 3 * width), weight)
    of_all = steps.join(F, gradients)
    of_recurrent = F.narrow(of_all, 1, width, 3 * width)
    of_inflow = F.cat([F.narrow(of_all, 1, width, 2 * width), F.narrow(of_all, 1, 0, width)], 1)
    return (
        steps.restore_shape(F, of_inflow),
        hidden.all(),
        F.matmul(F.transpose(of_recurrent, 0, 1), before) if needs[2] else None,
        F.sum(of_recurrent, 0) if needs[3] else None,
    )


# -- plain recurrent networks ---------------------------------------------------------------------------------------


def _tanh_step(F: Any, x: Any, h: Any) -> tuple[Any]:
    return (F.tanh(x + h),)


def _relu_step(F: Any, x: Any, h: Any) -> tuple[Any]:
    return (F.relu(x + h),)


def _rnn(F: Any, run: Run, inflow: Any, h0: Any, weight: Any, relu: bool, sizes: Any, reverse: bool) -> tuple[Any, Any]:
    steps, formula = Steps(inflow.shape, sizes, reverse), _relu_step if relu else _tanh_step
    terms, transposed = steps.split(F, steps.table(F, inflow)), F.transpose(weight, 0, 1)
    hidden = _State(F, h0, steps.sizes[steps.order[0]])
    outputs: list[Any] = [None] * len(steps.sizes)
    for t in steps.order:
        (outputs[t],) = run(formula, terms[t], F.matmul(hidden.of(steps.sizes[t]), transposed))
        hidden.now = outputs[t]
    return steps.restore_shape(F, steps.join(F, outputs)), hidden.all()


def _tanh_slope(F: AnyArray, result: AnyArray) -> tuple[AnyArray]:
    return (1 - result * result,)


def _relu_slope(F: AnyArray, result: AnyArray) -> tuple[AnyArray]:
    return (F.where(result <= 0, 0, F.ones_like(result)),)


def _rnn_step_back(F: Any, grad: Any, of_h: Any, slope: Any) -> tuple[Any]:
    return ((grad + of_h) * slope,)


def rnn_gradients(F: Any, run: Run, arguments: RnnGradients) -> tuple[Any, ...]:
    """Return the gradients of `rnn_sequence` by inflow, state and weight."""
    grad, grad_h, h0, weight, result, relu, sizes, reverse, needs = arguments
    steps = Steps(result.shape, sizes, reverse)
    h0, weight, result = F.conj(h0), F.conj(weight), F.conj(steps.table(F, result))
    (slopes,) = run(_relu_slope if relu else _tanh_slope, result)
    upstream, slopes = _upstream(F, steps, grad, result), steps.split(F, slopes)
    hidden = _State(F, _or_zeros(F, grad_h, h0), steps.sizes[steps.order[-1]])
    gradients: list[Any] = [None] * len(steps.sizes)
    for t in reversed(steps.order):
        (gradients[t],) = run(_rnn_step_back, upstream[t], hidden.of(steps.sizes[t]), slopes[t])
        hidden.now = F.matmul(gradients[t], weight)
    of_inflow = steps.join(F, gradients)
    of_weight = _weight_gradient(F, steps, of_inflow, result, h0) if needs[2] else None
    return steps.restore_shape(F, of_inflow), hidden.all(), of_weight


class Recurrent:
    """Recurrent layers on arrays; see the operations of `gradcore.ops.nn.recurrent`."""

    evaluate_step: Callable[..., Any]

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
        """Return an LSTM's hidden states at all steps, the last states, and gates and cells for backward."""
        return _lstm(self, self.evaluate_step, inflow, h0, c0, weight, projection, sizes, reverse)

    @packed(LstmGradients)
    def lstm_backward(self, arguments: LstmGradients) -> tuple[AnyArray, ...]:
        """Return the gradients of `lstm_sequence`."""
        return lstm_gradients(self, self.evaluate_step, arguments)

    def gru_sequence(
        self,
        inflow: AnyArray,
        h0: AnyArray,
        weight: AnyArray,
        bias: AnyArray = None,
        sizes: tuple[int, ...] | None = None,
        reverse: bool = False,
    ) -> tuple[AnyArray, ...]:
        """Return a GRU's states at all steps, the last one, and the gates for backward."""
        return _gru(self, self.evaluate_step, inflow, h0, weight, bias, sizes, reverse)

    @packed(GruGradients)
    def gru_backward(self, arguments: GruGradients) -> tuple[AnyArray, ...]:
        """Return the gradients of `gru_sequence`."""
        return gru_gradients(self, self.evaluate_step, arguments)

    def rnn_sequence(
        self,
        inflow: AnyArray,
        h0: AnyArray,
        weight: AnyArray,
        relu: bool = False,
        sizes: tuple[int, ...] | None = None,
        reverse: bool = False,
    ) -> tuple[AnyArray, ...]:
        """Return the states of a plain recurrent network at all steps, and the last one."""
        return _rnn(self, self.evaluate_step, inflow, h0, weight, relu, sizes, reverse)

    @packed(RnnGradients)
    def rnn_backward(self, arguments: RnnGradients) -> tuple[AnyArray, ...]:
        """Return the gradients of `rnn_sequence`."""
        return rnn_gradients(self, self.evaluate_step, arguments)
