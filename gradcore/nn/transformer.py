"""Transformers: stacks of encoder and decoder layers."""

from __future__ import annotations

import copy
from typing import Any

from gradcore.core.device import DeviceLike
from gradcore.core.dtypes import DTypeLike
from gradcore.nn import functional as F
from gradcore.nn.containers import ModuleList
from gradcore.nn.init import xavier_uniform_
from gradcore.nn.module import Module, count_dims
from gradcore.nn.normalization import LayerNorm
from gradcore.nn.transformer_layers import Activation, TransformerDecoderLayer, TransformerEncoderLayer, additive
from gradcore.tensor import Tensor
from gradcore.tensor.creation import full

__all__ = ["Transformer", "TransformerDecoder", "TransformerEncoder"]


def _causal_mask(size: int, device: DeviceLike | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Return a mask that is added to scores, so that no position attends to a later one."""
    return full((size, size), float("-inf"), device=device, dtype=dtype).triu(1)


def _is_causal(mask: Tensor | None, hint: bool | None) -> bool:
    """Return whether a mask is causal: according to `hint`, or by its values if `hint` is None."""
    if hint is not None or mask is None:
        return hint is True
    if mask.ndim != 2 or mask.shape[0] != mask.shape[1]:
        return False
    return bool((mask == _causal_mask(mask.shape[0], mask.device, mask.dtype)).all())


# -- stacks -----------------------------------------------------------------------------------------------------------


class _Stack(Module):
    """Base class of stacks: copies of a layer one after the other, and an optional final norm."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def _through(self, x: Tensor, *args: Any, **settings: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, *args, **settings)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """A stack of encoder layers, which start as copies of one layer.

    Parameters
    ----------
    encoder_layer : TransformerEncoderLayer
        The layer to copy.
    num_layers : int
    norm : Module, optional
        Applied to the output of the last layer.
    enable_nested_tensor, mask_check : bool
        Accepted as in PyTorch; there are no nested tensors.

    Examples
    --------
    >>> import gradcore
    >>> layer = gradcore.nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16)
    >>> encoder = gradcore.nn.TransformerEncoder(layer, num_layers=3)
    >>> encoder(gradcore.rand(7, 5, 8)).shape
    torch.Size([7, 5, 8])
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Return the output of the last layer.

        Parameters
        ----------
        src : Tensor
        mask : Tensor, optional
            A bool mask of the pairs of positions to ignore, or numbers that are added to the scores.
        src_key_padding_mask : Tensor, optional
            A mask of the positions of each sample to ignore.
        is_causal : bool, optional
            A hint that `mask` is the causal mask. Without a hint the values of the mask are looked at, for which the
            host waits if they are on a CUDA device.

        Returns
        -------
        Tensor
        """
        padding = additive("src_key_padding_mask", src_key_padding_mask, src, "mask", mask)
        mask = additive("mask", mask, src)
        return self._through(src, src_mask=mask, is_causal=_is_causal(mask, is_causal), src_key_padding_mask=padding)


class TransformerDecoder(_Stack):
    """A stack of decoder layers, which start as copies of one layer.

    Parameters
    ----------
    decoder_layer : TransformerDecoderLayer
        The layer to copy.
    num_layers : int
    norm : Module, optional
        Applied to the output of the last layer.

    Examples
    --------
    >>> import gradcore
    >>> layer = gradcore.nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16)
    >>> decoder = gradcore.nn.TransformerDecoder(layer, num_layers=3)
    >>> decoder(gradcore.rand(3, 5, 8), gradcore.rand(7, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the output of the last layer.

        Parameters
        ----------
        tgt : Tensor
        memory : Tensor
            The encoder's output.
        tgt_mask, memory_mask : Tensor, optional
            Bool masks of the positions of `tgt` and `memory` that positions of `tgt` ignore, or numbers for the scores.
        tgt_key_padding_mask, memory_key_padding_mask : Tensor, optional
            Masks of the positions of each sample to ignore.
        tgt_is_causal : bool, optional
            A hint that `tgt_mask` is the causal mask. Without a hint the values of the mask are looked at, for which
            the host waits if they are on a CUDA device.
        memory_is_causal : bool
            A hint that `memory_mask` is the causal mask.

        Returns
        -------
        Tensor
        """
        return self._through(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=_is_causal(tgt_mask, tgt_is_causal),
            memory_is_causal=memory_is_causal,
        )


# -- encoder and decoder ----------------------------------------------------------------------------------------------


class Transformer(Module):
    """An encoder of a source sequence, and a decoder of a target sequence that attends to the encoder's output.

    Parameters
    ----------
    d_model : int
        The number of features of both sequences.
    nhead : int
        The number of heads of each attention.
    num_encoder_layers, num_decoder_layers : int
    dim_feedforward : int
        The number of features inside the feedforward networks.
    dropout : float
    activation : {"relu", "gelu"} or callable
        The activation of the feedforward networks.
    custom_encoder, custom_decoder : Module, optional
        Used instead of a `TransformerEncoder` and a `TransformerDecoder`.
    layer_norm_eps : float
    batch_first : bool
        Whether the first dim counts samples, else positions.
    norm_first : bool
        Whether the inputs of attentions and feedforward networks are normalized, else the sums with their outputs.
    bias : bool
        Whether linear maps and norms have offsets.
    device, dtype
        The device and dtype of the parameters.

    Examples
    --------
    >>> import gradcore
    >>> model = gradcore.nn.Transformer(8, 2, 1, 1, dim_feedforward=16)
    >>> mask = model.generate_square_subsequent_mask(3)
    >>> model(gradcore.rand(7, 5, 8), gradcore.rand(3, 5, 8), tgt_mask=mask).shape
    torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        factory = (device, dtype)
        sizes = (d_model, nhead, dim_feedforward, dropout)
        settings = (*sizes, activation, layer_norm_eps, batch_first, norm_first, bias, *factory)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, True, bias, *factory)

        self.encoder: Any = custom_encoder
        if custom_encoder is None:
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*settings), num_encoder_layers, norm())
        self.decoder: Any = custom_decoder
        if custom_decoder is None:
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*settings), num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                xavier_uniform_(parameter)

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: DeviceLike | None = None, dtype: DTypeLike | None = None
    ) -> Tensor:
        """Return the causal mask: minus infinity above the diagonal, zero elsewhere.

        Parameters
        ----------
        sz : int
            The number of positions.
        device, dtype
            The device and dtype of the mask.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import gradcore
        >>> gradcore.nn.Transformer.generate_square_subsequent_mask(3)
        tensor([[0., -inf, -inf],
                [0., 0., -inf],
                [0., 0., 0.]])
        """
        return _causal_mask(sz, device, dtype)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the output of the decoder.

        Parameters
        ----------
        src, tgt : Tensor
            The source and the target sequence: positions, samples and features; without samples, or with samples first
            if `batch_first`.
        src_mask, tgt_mask, memory_mask : Tensor, optional
            Which positions are hidden from which (bool), or numbers added to the scores, in the encoder, in the
            decoder, and where the decoder attends to the encoder's output.
        src_key_padding_mask, tgt_key_padding_mask, memory_key_padding_mask : Tensor, optional
            Masks of the positions of each sample to ignore.
        src_is_causal, tgt_is_causal, memory_is_causal : bool, optional
            A hint that the mask is the causal one.

        Returns
        -------
        Tensor

        Raises
        ------
        RuntimeError
            If the numbers of samples differ, or the number of features is not `d_model`.
        """
        samples = 0 if self.batch_first else 1
        if not count_dims(self, "src", src) or not count_dims(self, "tgt", tgt):
            raise IndexError("src and tgt must have a dim of features, but one of them has no dims")
        if count_dims(self, "src", src) == 3 and src.shape[samples : samples + 1] != tgt.shape[samples : samples + 1]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1:] != (self.d_model,) or tgt.shape[-1:] != (self.d_model,):
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        result: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return result
