"""Recurrent networks: cells, which compute one step, and layers, which compute whole sequences."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

from gradcore import functional
from gradcore.amp.autocasting import is_autocast_enabled
from gradcore.core.errors import caller_depth
from gradcore.nn import functional as F
from gradcore.nn.init import uniform_
from gradcore.nn.module import Module, count_dims
from gradcore.nn.packing import PackedSequence
from gradcore.nn.parameter import Parameter
from gradcore.ops.declare.shapes import check_count
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty, zeros

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

States = tuple[Any, ...]


class Mode(NamedTuple):
    """Properties of a kind of recurrent network.

    Attributes
    ----------
    gates : int
        The number of rows of the weights, in multiples of the hidden size.
    states : int
        The number of tensors of a state.
    """

    gates: int
    states: int


MODES = {"RNN_TANH": Mode(1, 1), "RNN_RELU": Mode(1, 1), "LSTM": Mode(4, 2), "GRU": Mode(3, 1)}


def run_layer(
    mode: str,
    x: Tensor,
    first: States,
    weights: Sequence[Any],
    sizes: tuple[int, ...] | None = None,
    reverse: bool = False,
) -> tuple[Tensor, States]:
    """Compute one layer of a recurrent network over a sequence, in one direction.

    Parameters
    ----------
    mode : str
        A key of `MODES`.
    x : Tensor
        Inputs: all steps, one step without a dim for steps, or packed.
    first : tuple of Tensor
        The state before the first step.
    weights : sequence
        The weights of inputs and of states, both biases or None, and the projection or None.
    sizes : tuple of int, optional
        The number of rows of each step, if steps are packed.
    reverse : bool
        Whether the last step comes first.

    Returns
    -------
    Tensor
        The hidden states at all steps.
    tuple of Tensor
        The last state.
    """
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    if mode == "GRU":
        result, *last, _ = functional.gru_sequence(F.linear(x, w_ih, b_ih), *first, w_hh, b_hh, sizes, reverse)
        return result, tuple(last)
    inflow = F.linear(x, w_ih, b_ih if b_hh is None else b_ih + b_hh)
    if mode == "LSTM":
        result, *last, _, _ = functional.lstm_sequence(inflow, *first, w_hh, w_hr, sizes, reverse)
        return result, tuple(last)
    result, *last = functional.rnn_sequence(inflow, *first, w_hh, mode == "RNN_RELU", sizes, reverse)
    return result, tuple(last)


def run_cell(mode: str, x: Tensor, state: States, weights: Sequence[Any]) -> States:
    """Return the state after one step; the arguments are those of `run_layer`."""
    if mode not in ("LSTM", "GRU"):
        w_ih, w_hh, b_ih, b_hh, _ = weights
        activation = functional.relu if mode == "RNN_RELU" else functional.tanh
        return (activation(F.linear(x, w_ih, b_ih) + F.linear(state[0], w_hh, b_hh)),)
    if x.ndim > 1:
        return run_layer(mode, x, state, weights)[1]
    last = run_layer(mode, x.unsqueeze(0), tuple(h.unsqueeze(0) for h in state), weights)[1]
    return tuple(h.squeeze(0) for h in last)


class _Recurrent(Module):
    """Base class of recurrent cells and layers."""

    hidden_size: int

    def _add(self, shapes: dict[str, tuple[int, ...]], device: Any, dtype: Any) -> None:
        for name, shape in shapes.items():
            self.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters, uniformly between plus and minus ``1 / sqrt(hidden_size)``."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for parameter in self.parameters():
            uniform_(parameter, -bound, bound)


# -- cells ----------------------------------------------------------------------------------------------------------


class RNNCellBase(_Recurrent):
    """Base class of cells, which compute one step of a recurrent network.

    Parameters
    ----------
    input_size, hidden_size : int
        Size of the input and of the state.
    bias : bool
        Whether there are offsets.
    num_chunks : int
        The number of rows of the weights, in multiples of the hidden size.
    device, dtype
        The device and dtype of the parameters.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.RNNCellBase(3, 4, bias=True, num_chunks=1).weight_hh.shape
    torch.Size([4, 4])
    """

    mode: str

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        n = num_chunks * hidden_size
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (n, input_size), "weight_hh": (n, hidden_size)}
        for name in ("bias_ih", "bias_hh"):
            if bias:
                shapes[name] = (n,)
            else:
                self.register_parameter(name, None)
        self._add(shapes, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """Return the next state."""
        name = type(self).__name__
        if count_dims(self, "input", input) not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        count = MODES[self.mode].states
        if hx is None:
            shape = (*input.shape[:-1], self.hidden_size)
            hx = (zeros(shape, dtype=input.dtype, device=input.device),) * count
        state = hx if isinstance(hx, (tuple, list)) else (hx,)
        if len(state) != count:
            raise TypeError(f"{name}: argument 'hx' must be {count} tensors of the state, but got {len(state)}")
        for i, h in enumerate(state):
            if count_dims(self, "hx", h) not in (1, 2):
                which = f"hx[{i}]" if count > 1 else "hidden"
                raise ValueError(f"{name}: Expected {which} to be 1D or 2D, got {h.ndim}D instead")
        self._check(input, state)
        last = run_cell(self.mode, input, tuple(state), self._weights())
        return last if count > 1 else last[0]

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, None

    def _check(self, input: Tensor, state: Sequence[Tensor]) -> None:
        """Raise an error if the sizes of input and state do not match. A batch of one would otherwise be broadcast."""
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.shape[-1]} expected {self.input_size}")
        batch = input.shape[:-1]
        for i, h in enumerate(state):
            if h.shape[-1] != self.hidden_size:
                size = h.shape[-1]
                raise RuntimeError(f"hidden{i} has inconsistent hidden_size: got {size}, expected {self.hidden_size}")
            if h.shape[:-1] != batch:
                sizes = [s[0] if len(s) else "none" for s in (batch, h.shape[:-1])]
                raise RuntimeError(f"Input batch size {sizes[0]} doesn't match hidden{i} batch size {sizes[1]}")

    def extra_repr(self) -> str:
        """Return the sizes, and the settings that differ from their defaults."""
        shown = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return shown + (f", nonlinearity={nonlinearity}" if nonlinearity != "tanh" else "")


class RNNCell(RNNCellBase):
    """Recurrent cell: ``act(weight_ih @ input + bias_ih + weight_hh @ h + bias_hh)``.

    Parameters
    ----------
    input_size, hidden_size : int
        Size of the input and of the state.
    bias : bool
        Whether there are offsets.
    nonlinearity : {"tanh", "relu"}
    device, dtype
        The device and dtype of the parameters.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.RNNCell(3, 4)(gc.ones(1, 3)).shape
    torch.Size([1, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    @property
    def mode(self) -> str:  # type: ignore[override]
        """Name of the step: ``RNN_TANH`` or ``RNN_RELU``."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return f"RNN_{self.nonlinearity.upper()}"


class LSTMCell(RNNCellBase):
    """LSTM cell: computes the next pair of hidden state and cell state from an input and the last pair.

    Parameters
    ----------
    input_size, hidden_size : int
        Size of the input and of the state.
    bias : bool
        Whether there are offsets.
    device, dtype
        The device and dtype of the parameters.

    Examples
    --------
    >>> import gradcore as gc
    >>> h, c = gc.nn.LSTMCell(3, 4)(gc.ones(1, 3))
    >>> h.shape, c.shape
    (torch.Size([1, 4]), torch.Size([1, 4]))
    """

    mode = "LSTM"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)


class GRUCell(RNNCellBase):
    """GRU cell: computes the next hidden state from an input and the last one.

    Parameters
    ----------
    input_size, hidden_size : int
        Size of the input and of the state.
    bias : bool
        Whether there are offsets.
    device, dtype
        The device and dtype of the parameters.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.GRUCell(3, 4)(gc.ones(1, 3), gc.zeros(1, 4)).shape
    torch.Size([1, 4])
    """

    mode = "GRU"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)


# -- layers ---------------------------------------------------------------------------------------------------------


class RNNBase(_Recurrent):
    """Base class of recurrent layers. Subclasses define the step.

    Parameters
    ----------
    mode : str
        The step: ``"RNN_TANH"``, ``"RNN_RELU"``, ``"LSTM"`` or ``"GRU"``.
    input_size, hidden_size : int
        Size of an input and of the state.
    num_layers : int
        The number of stacked layers.
    bias : bool
        Whether there are offsets.
    batch_first : bool
        Whether the first dim of input and output counts samples, else steps.
    dropout : float
        Between layers.
    bidirectional : bool
        Whether each layer also runs from the end to the start.
    proj_size : int
        If not zero, the size to which an LSTM's hidden state is mapped.
    device, dtype
        The device and dtype of the parameters.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.RNNBase("RNN_TANH", 3, 4).weight_ih_l0.shape
    torch.Size([4, 3])
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, dropout
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._check()
        self.dropout = float(dropout)
        self._add(self._shapes(), device, dtype)

    def _check(self) -> None:
        dropout: object = self.dropout
        if isinstance(dropout, bool) or not isinstance(dropout, Real) or not 0 <= float(dropout) <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        kinds = {"input_size": int, "hidden_size": int, "num_layers": int, "bias": bool, "batch_first": bool}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                found = type(getattr(self, name)).__name__
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {found}")
        if self.dropout and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={self.dropout} and num_layers={self.num_layers}",
                stacklevel=caller_depth(),
            )
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero")
        check_count("num_layers", self.num_layers)
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")

    def _names(self, layer: int, direction: int) -> list[str]:
        end = f"l{layer}{'_reverse' if direction else ''}"
        names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if self.bias else [])]
        return [f"{name}_{end}" for name in [*names, *(["weight_hr"] if self.proj_size else [])]]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        out, directions = self.proj_size or self.hidden_size, 2 if self.bidirectional else 1
        n = MODES[self.mode].gates * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {}
        for layer in range(self.num_layers):
            size = out * directions if layer else self.input_size
            layer_shapes: list[tuple[int, ...]] = [(n, size), (n, out), *([(n,), (n,)] if self.bias else [])]
            layer_shapes += [(self.proj_size, self.hidden_size)] if self.proj_size else []
            for direction in range(directions):
                shapes.update(zip(self._names(layer, direction), layer_shapes, strict=True))
        return shapes

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """Parameters of each layer and direction."""
        directions = range(2 if self.bidirectional else 1)
        return [
            [getattr(self, name) for name in self._names(layer, d)]
            for layer in range(self.num_layers)
            for d in directions
        ]

    def flatten_parameters(self) -> None:
        """Do nothing: the layers need no particular memory layout."""

    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> tuple[Any, Any]:
        """Return the states of the last layer at all steps, and the final states of all layers.

        Parameters
        ----------
        input : Tensor or PackedSequence
            Steps, samples and features; without samples, or with samples first if `batch_first`. Or sequences of
            different lengths, packed.
        hx : Tensor or pair of Tensor, optional
            The first states, zeros by default; for an LSTM hidden states and cells.

        Returns
        -------
        output : Tensor or PackedSequence
        h_n : Tensor or pair of Tensor
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if count_dims(self, "input", input) not in (2, 3):
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.ndim}D tensor instead")
        batched = input.ndim == 3
        x = input.unsqueeze(1) if not batched else input.transpose(0, 1) if self.batch_first else input
        self._check_size(x)
        x, ends = self._layers(x, self._first_states(x, x.shape[1], hx, batched), None)
        if not batched:
            x, ends = x.squeeze(1), tuple(h.squeeze(1) for h in ends)
        elif self.batch_first:
            x = x.transpose(0, 1)
        return x, ends if len(ends) > 1 else ends[0]

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        x, batch_sizes, order, unsorted_indices = input
        self._check_size(x)
        sizes = tuple(batch_sizes.tolist())
        first = self._first_states(x, sizes[0], hx, True)
        if hx is not None and order is not None:
            first = tuple(h.index_select(1, order) for h in first)
        x, ends = self._layers(x, first, sizes)
        if unsorted_indices is not None:
            ends = tuple(h.index_select(1, unsorted_indices) for h in ends)
        return PackedSequence(x, batch_sizes, order, unsorted_indices), ends if len(ends) > 1 else ends[0]

    def _check_size(self, x: Tensor) -> None:
        if x.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {x.shape[-1]}"
            )

    def _layers(self, x: Tensor, first: States, sizes: tuple[int, ...] | None) -> tuple[Tensor, States]:
        """Compute all layers over the steps of `x`. For packed steps, `sizes` has the number of samples of each."""
        last: list[States] = []
        weights = self.all_weights
        dtype = weights[0][0].dtype
        if x.dtype is not dtype and not is_autocast_enabled(x.device.type):
            raise ValueError(
                f"RNN input dtype ({x.dtype}) does not match weight dtype ({dtype}). Convert input: "
                f"input.to({dtype}), or convert model: model.to({x.dtype})"
            )
        directions = 2 if self.bidirectional else 1
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = F.dropout(x, self.dropout, self.training)
            runs = []
            for d in range(directions):
                number = layer * directions + d
                states = tuple(s[number] for s in first)
                outputs, state = self._run(x, states, weights[number], d == 1, sizes)
                runs.append(outputs)
                last.append(state)
            x = functional.cat(runs, -1) if directions > 1 else runs[0]
        return x, tuple(functional.stack(states) for states in zip(*last, strict=True))

    def _first_states(self, x: Tensor, batch: int, hx: Any, batched: bool) -> States:
        layers = self.num_layers * (2 if self.bidirectional else 1)
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[: MODES[self.mode].states]
        expected = [(layers, batch, size) for size in sizes]
        if hx is None:
            return tuple(zeros(shape, dtype=x.dtype, device=x.device) for shape in expected)
        initial = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        for h in initial:
            count_dims(self, "hx", h)
        if len(initial) != len(sizes):
            name, number = type(self).__name__, len(initial)
            raise TypeError(f"{name}: argument 'hx' must be {len(sizes)} tensors of the state, but got {number}")
        states = tuple(h if batched else h.unsqueeze(1) for h in initial)
        for shape, h, label in zip(expected, states, ("hidden[0]", "hidden[1]"), strict=False):
            if tuple(h.shape) != shape:
                name = label if len(sizes) > 1 else "hidden"
                raise RuntimeError(f"Expected {name} size {shape}, got {list(h.shape)}")
        return states

    def _run(
        self, x: Tensor, first: States, weights: list[Tensor], backwards: bool, sizes: tuple[int, ...] | None
    ) -> tuple[Tensor, States]:
        """Compute one layer in one direction. Return the states at all steps, and the final state."""
        biases = weights[2:4] if self.bias else (None, None)
        return run_layer(
            self.mode, x, first, (*weights[:2], *biases, weights[-1] if self.proj_size else None), sizes, backwards
        )

    def extra_repr(self) -> str:
        """Return the sizes, and the settings that differ from their defaults."""
        shown = [str(self.input_size), str(self.hidden_size)]
        usual = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0, "bidirectional": False
        }  # fmt: skip
        shown += [f"{name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value]
        return ", ".join(shown)


class RNN(RNNBase):
    """Recurrent layers with the step ``act(weight_ih @ x + bias_ih + weight_hh @ h + bias_hh)``; see `RNNBase`.

    Examples
    --------
    >>> import gradcore
    >>> outputs, last = gradcore.nn.RNN(4, 3, num_layers=2)(gradcore.ones(7, 5, 4))
    >>> outputs.shape, last.shape
    (torch.Size([7, 5, 3]), torch.Size([2, 5, 3]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        object.__setattr__(self, "nonlinearity", nonlinearity)
        more = bias, batch_first, dropout, bidirectional
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, *more, 0, device, dtype)


class LSTM(RNNBase):
    """Long short-term memory layers; see `RNNBase`. A state is a pair of hidden state and cell state.

    Examples
    --------
    >>> import gradcore as gc
    >>> outputs, (h, c) = gc.nn.LSTM(3, 4, bidirectional=True)(gc.ones(7, 1, 3))
    >>> outputs.shape, h.shape, c.shape
    (torch.Size([7, 1, 8]), torch.Size([2, 1, 4]), torch.Size([2, 1, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        more = bias, batch_first, dropout, bidirectional, proj_size
        super().__init__("LSTM", input_size, hidden_size, num_layers, *more, device, dtype)


class GRU(RNNBase):
    """Gated recurrent unit layers; see `RNNBase`.

    Examples
    --------
    >>> import gradcore as gc
    >>> outputs, state = gc.nn.GRU(3, 4, num_layers=2)(gc.ones(7, 1, 3))
    >>> outputs.shape, state.shape
    (torch.Size([7, 1, 4]), torch.Size([2, 1, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        more = bias, batch_first, dropout, bidirectional
        super().__init__("GRU", input_size, hidden_size, num_layers, *more, 0, device, dtype)
