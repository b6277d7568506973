"""Transformer layers: attention and a feedforward network, each in a residual block."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from gradcore.nn import functional as F
from gradcore.nn import layers
from gradcore.nn.attention import MultiheadAttention
from gradcore.nn.linear import Linear
from gradcore.nn.module import Module
from gradcore.nn.normalization import LayerNorm
from gradcore.tensor import Tensor
from gradcore.tensor.creation import full

__all__ = ["Activation", "TransformerDecoderLayer", "TransformerEncoderLayer", "additive"]

Activation = str | Callable[[Tensor], Tensor]
Dropout = layers.MADE["Dropout"]


def additive(
    name: str, mask: Tensor | None, like: Tensor, other_name: str = "", other: Tensor | None = None
) -> Tensor | None:
    """Return a mask as numbers to add to scores, in the dtype of `like`. Warn if `other` has another dtype."""
    if mask is None:
        return None
    boolean = mask.dtype.name == "bool"
    if not boolean and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and other.dtype is not mask.dtype:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=3,
        )
    if not boolean:
        return mask
    zeros = full(mask.shape, 0.0, device=mask.device, dtype=like.dtype)
    return zeros.masked_fill_(mask, float("-inf"))


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)  # type: ignore[no-any-return]


class _Layer(Module):
    """Base class of layers: attention and a feedforward network, each in a residual block with norm and dropout."""

    #: The names of the attentions, in their order.
    _attentions: tuple[str, ...]
    self_attn: MultiheadAttention
    activation: Callable[[Tensor], Tensor]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        for name in self._attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **factory))
        self.linear1 = Linear(d_model, dim_feedforward, bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **factory)
        self.norm_first = norm_first
        blocks = range(1, len(self._attentions) + 2)
        for i in blocks:
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **factory))
        for i in blocks:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    def _residual(self, i: int, x: Tensor, branch: Callable[[Tensor], Tensor]) -> Tensor:
        """Return ``x`` plus the output of a branch.

        The norm applies to the branch's input if `norm_first`, else to the sum.
        """
        norm = getattr(self, f"norm{i}")
        return x + branch(norm(x)) if self.norm_first else norm(x + branch(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        """Return the self-attention of the positions of `x`."""
        result, _ = self.self_attn(x, x, x, key_padding_mask, False, attn_mask, is_causal=is_causal)
        return self.dropout1(result)  # type: ignore[no-any-return]

    def _ff_block(self, x: Tensor) -> Tensor:
        """Return the output of the feedforward network for `x`."""
        last = getattr(self, f"dropout{len(self._attentions) + 1}")
        return last(self.linear2(self.dropout(self.activation(self.linear1(x)))))  # type: ignore[no-any-return]


class TransformerEncoderLayer(_Layer):
    """Self-attention, then a feedforward network, each in a residual block.

    Parameters
    ----------
    d_model : int
        The number of features of inputs and outputs.
    nhead : int
        The number of heads of the attention.
    dim_feedforward : int
        The number of features inside the feedforward network.
    dropout : float
    activation : {"relu", "gelu"} or callable
        The activation of the feedforward network.
    layer_norm_eps : float
    batch_first : bool
        Whether the first dim counts samples, else positions.
    norm_first : bool
        Whether the inputs of the branches are normalized, else the sums.
    bias : bool
        Whether linear maps and norms have offsets.
    device, dtype
        The device and dtype of the parameters.

    Examples
    --------
    >>> import gradcore
    >>> layer = gradcore.nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> layer(gradcore.rand(5, 7, 8)).shape
    torch.Size([5, 7, 8])
    """

    _attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the output of the layer.

        Parameters
        ----------
        src : Tensor
        src_mask : Tensor, optional
            A bool mask of the pairs of positions to ignore, or numbers that are added to the scores.
        src_key_padding_mask : Tensor, optional
            A mask of the positions of each sample to ignore.
        is_causal : bool
            A hint that `src_mask` is the causal mask.

        Returns
        -------
        Tensor
        """
        padding = additive("src_key_padding_mask", src_key_padding_mask, src, "src_mask", src_mask)
        mask = additive("src_mask", src_mask, src)
        x = self._residual(1, src, lambda x: self._sa_block(x, mask, padding, is_causal=is_causal))
        return self._residual(2, x, self._ff_block)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to an encoder's output, then a feedforward network, each in a residual block.

    Parameters
    ----------
    d_model : int
        The number of features of inputs and outputs.
    nhead : int
        The number of heads of both attentions.
    dim_feedforward : int
        The number of features inside the feedforward network.
    dropout : float
    activation : {"relu", "gelu"} or callable
        The activation of the feedforward network.
    layer_norm_eps : float
    batch_first : bool
        Whether the first dim counts samples, else positions.
    norm_first : bool
        Whether the inputs of the branches are normalized, else the sums.
    bias : bool
        Whether linear maps and norms have offsets.
    device, dtype
        The device and dtype of the parameters.

    Examples
    --------
    >>> import gradcore
    >>> layer = gradcore.nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16)
    >>> layer(gradcore.rand(3, 5, 8), gradcore.rand(7, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    _attentions = ("self_attn", "multihead_attn")
    multihead_attn: MultiheadAttention

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the output of the layer.

        Parameters
        ----------
        tgt : Tensor
        memory : Tensor
            The encoder's output.
        tgt_mask, memory_mask : Tensor, optional
            Bool masks of the positions of `tgt` and `memory` that positions of `tgt` ignore, or numbers for the scores.
        tgt_key_padding_mask, memory_key_padding_mask : Tensor, optional
            Masks of the positions of each sample to ignore.
        tgt_is_causal, memory_is_causal : bool
            A hint that the mask is the causal one.

        Returns
        -------
        Tensor
        """

        def to_itself(x: Tensor) -> Tensor:
            return self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def to_memory(x: Tensor) -> Tensor:
            return self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal)

        x = self._residual(1, tgt, to_itself)
        return self._residual(3, self._residual(2, x, to_memory), self._ff_block)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the attention of the positions of `x` to those of `mem`."""
        result, _ = self.multihead_attn(x, mem, mem, key_padding_mask, False, attn_mask, is_causal=is_causal)
        return self.dropout2(result)  # type: ignore[no-any-return]
