"""Recurrent layers: one layer in one direction over all steps of a sequence, as one operation.

The inputs of all steps are multiplied by their weights beforehand, in one product, because this needs no state. The
product, `inflow`, has the shape ``(steps, batch, width)``, or ``(batch, width)`` for a single step. If it is packed,
`sizes` are the numbers of rows of the steps. The gates are outputs with derivatives, so that formulas may read them;
they rarely have a gradient.
"""

from __future__ import annotations

from gradcore.backends.portable.recurrent import (
    GruGradients,
    LstmGradients,
    RnnGradients,
    direct_run,
    gru_gradients,
    lstm_gradients,
    rnn_gradients,
)
from gradcore.ops.declare.promotion import same_dtypes
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite, general

Sizes = tuple[int, ...]
Needs = tuple[bool, ...]

_refuse_others = same_dtypes(
    "expected m1 and m2 to have the same dtype, but got: {h0.cpp} != {weight.cpp}",
    "all tensors must have the same dtype",
)


def _samples(gates: int, *others: tuple[int, ...]):
    """Return samples: a batch, sequences of different lengths in both directions, and a single step."""

    def make():
        initial_states = [floats(*shape) for shape in others]
        inputs = floats(3, 2), *(floats(3, 2) for _ in range(gates == 4)), floats(gates * 2, 2), *initial_states
        return [
            case(floats(4, 3, gates * 2), *inputs),
            case(floats(5, gates * 2), *inputs, sizes=(3, 1, 1)),
            case(floats(5, gates * 2), *inputs, sizes=(3, 2), reverse=True),
            case(floats(3, gates * 2), *inputs),
        ]

    return make


@general(
    outputs=("result", "h", "c", "gates", "cells"),
    seen_outputs=(0, 1, 2),
    node="MkldnnRnnLayerBackward0",
    function=False,
    method=False,
    materialize=False,
    autocast="lower",
    mixed=_refuse_others,
    samples=_samples(4),
)
def lstm_sequence(inflow, h0, c0, weight, projection=None, sizes: Sizes | None = None, reverse: bool = False):
    """Run a long short-term memory layer.

    It returns the states at all steps, the last state and cell, and all gates and cells.
    """


@lstm_sequence.vjp("inflow", "h0", "c0", "weight", "projection")
def _(F, grads, h0, c0, weight, projection, result, gates, cells, sizes, reverse, needs):
    return F.lstm_backward(*grads, h0, c0, weight, projection, result, gates, cells, sizes, reverse, needs)


@composite(function=False, method=False)
def lstm_backward(
    F,
    grad,
    grad_h,
    grad_c,
    grad_gates,
    grad_cells,
    h0,
    c0,
    weight,
    projection,
    result,
    gates,
    cells,
    sizes: Sizes | None,
    reverse: bool,
    needs: Needs,
):
    """Return the gradients of `lstm_sequence`."""
    grads = grad, grad_h, grad_c, grad_gates, grad_cells
    operands = LstmGradients(*grads, h0, c0, weight, projection, result, gates, cells, sizes, reverse, needs)
    return lstm_gradients(F, direct_run(F), operands)


@general(
    outputs=("result", "h", "gates"),
    seen_outputs=(0, 1),
    node="GruBackward0",
    function=False,
    method=False,
    materialize=False,
    autocast="lower",
    mixed=_refuse_others,
    samples=_samples(3, (6,)),
)
def gru_sequence(inflow, h0, weight, bias=None, sizes: Sizes | None = None, reverse: bool = False):
    """Run a layer of gated recurrent units.

    It returns the states at all steps, the last state, and all gates.
    """


@gru_sequence.vjp("inflow", "h0", "weight", "bias")
def _(F, grads, h0, weight, result, gates, sizes, reverse, needs):
    return F.gru_backward(*grads, h0, weight, result, gates, sizes, reverse, needs)


@composite(function=False, method=False)
def gru_backward(
    F,
    grad,
    grad_h,
    grad_gates,
    h0,
    weight,
    result,
    gates,
    sizes: Sizes | None,
    reverse: bool,
    needs: Needs,
):
    """Return the gradients of `gru_sequence`."""
    operands = GruGradients(grad, grad_h, grad_gates, h0, weight, result, gates, sizes, reverse, needs)
    return gru_gradients(F, direct_run(F), operands)


@general(
    outputs=("result", "h"),
    node=lambda relu: "RnnReluBackward0" if relu else "RnnTanhBackward0",
    function=False,
    method=False,
    materialize=False,
    autocast="lower",
    mixed=_refuse_others,
    samples=_samples(1),
)
def rnn_sequence(inflow, h0, weight, relu: bool = False, sizes: Sizes | None = None, reverse: bool = False):
    """Run ``h = act(inflow + weight @ h)`` over a sequence.

    It returns the states at all steps, and the last one.
    """


@rnn_sequence.vjp("inflow", "h0", "weight")
def _(F, grads, h0, weight, result, relu, sizes, reverse, needs):
    return F.rnn_backward(*grads, h0, weight, result, relu, sizes, reverse, needs)


@composite(function=False, method=False)
def rnn_backward(F, grad, grad_h, h0, weight, result, relu: bool, sizes: Sizes | None, reverse: bool, needs: Needs):
    """Return the gradients of `rnn_sequence`."""
    operands = RnnGradients(grad, grad_h, h0, weight, result, relu, sizes, reverse, needs)
    return rnn_gradients(F, direct_run(F), operands)
