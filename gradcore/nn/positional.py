"""Functions of `gradcore.nn.functional` that PyTorch also has at the top level, with another order of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore.nn import functional as F
from gradcore.nn.recurrent import run_cell
from gradcore.tensor import Tensor
from gradcore.torch_names.overrides import overridable

__all__: list[str] = []

#: Reductions by their numbers.
_REDUCTIONS = ("none", "mean", "sum")


def _dropping(name: str, function: str) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """Return a kind of dropout, and its in-place form."""

    def drop(input: Tensor, p: float, train: bool) -> Tensor:
        return getattr(F, function)(input, p, train)  # type: ignore[no-any-return]

    def drop_(input: Tensor, p: float, train: bool) -> Tensor:
        return getattr(F, function)(input, p, train, True)  # type: ignore[no-any-return]

    for wrapper, full_name in ((drop, name), (drop_, f"{name}_")):
        wrapper.__name__ = wrapper.__qualname__ = full_name
        wrapper.__doc__ = f"Call `gradcore.nn.functional.{function}` with all of its arguments by position."
    return drop, drop_


dropout, dropout_ = _dropping("dropout", "dropout")
alpha_dropout, alpha_dropout_ = _dropping("alpha_dropout", "alpha_dropout")
feature_dropout, feature_dropout_ = _dropping("feature_dropout", "dropout2d")
feature_alpha_dropout, feature_alpha_dropout_ = _dropping("feature_alpha_dropout", "feature_alpha_dropout")


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """Call `gradcore.nn.functional.embedding` with the weight first. A negative `padding_idx` means none."""
    padding = None if padding_idx < 0 else padding_idx
    return F.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Call `gradcore.nn.functional.batch_norm` with all arguments by position."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)  # type: ignore[arg-type]


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Call `gradcore.nn.functional.instance_norm` with all arguments by position."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def kl_div(self: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """Call `gradcore.nn.functional.kl_div` with the reduction as a number: 0 for none, 1 for mean, 2 for sum."""
    return F.kl_div(self, target, reduction=_REDUCTIONS[reduction], log_target=log_target)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """Call `gradcore.nn.functional.ctc_loss` with the reduction as a number: 0 for none, 1 for mean, 2 for sum."""
    reduction_name = _REDUCTIONS[reduction]
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction_name, zero_infinity)


def binary_cross_entropy_with_logits(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """Call the function of `gradcore.nn.functional` with the reduction as a number: 0 none, 1 mean, 2 sum."""
    reduction_name = _REDUCTIONS[reduction]
    return F.binary_cross_entropy_with_logits(self, target, weight, reduction=reduction_name, pos_weight=pos_weight)


@overridable
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Return the norms over all dims except `dim`, or over all dims if it is -1. Reduced dims have size 1."""
    if dim == -1:
        return v.norm(pow)
    reduced_dims = tuple(d for d in range(v.ndim) if d != dim)
    return v.norm(pow, reduced_dims, keepdim=True)


@overridable
def conv_tbc(self: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Return the convolution over time of an input with the shape (time, batch, channels).

    Parameters
    ----------
    self : Tensor
    weight : Tensor
        A tensor of shape (length, channels, output channels).
    bias : Tensor
    pad : int
    """
    return F.conv1d(self.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def _cell(name: str, kind: str) -> Callable[..., Any]:
    def cell(
        input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
    ) -> Any:
        state = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        next_state = run_cell(kind, input, state, (w_ih, w_hh, b_ih, b_hh, None))
        return next_state if kind == "LSTM" else next_state[0]

    cell.__name__ = cell.__qualname__ = name
    cell.__doc__ = "Return the state of a recurrent network after one more input."
    return cell


lstm_cell, gru_cell = _cell("lstm_cell", "LSTM"), _cell("gru_cell", "GRU")
rnn_tanh_cell, rnn_relu_cell = _cell("rnn_tanh_cell", "RNN_TANH"), _cell("rnn_relu_cell", "RNN_RELU")
