"""Multi-head attention with learned projections."""

from __future__ import annotations

from typing import Any

from gradcore.nn import functional as F
from gradcore.nn.init import constant_, xavier_normal_, xavier_uniform_
from gradcore.nn.linear import Linear
from gradcore.nn.module import Module
from gradcore.nn.parameter import Parameter
from gradcore.nn.sdpa import SDPBackend, sdpa_kernel
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty

__all__ = ["MultiheadAttention", "SDPBackend", "sdpa_kernel"]


class NonDynamicallyQuantizableLinear(Linear):
    """`Linear`, under the class name that PyTorch prints."""


class MultiheadAttention(Module):
    """`gradcore.nn.functional.multi_head_attention_forward` with learned projections.

    Parameters
    ----------
    embed_dim : int
        Size of the queries and of the output.
    num_heads : int
        The number of heads into which `embed_dim` is divided.
    dropout : float
        The dropout probability of the attention weights.
    bias : bool
        Whether the projections have offsets.
    add_bias_kv : bool
        Whether a learned key and value is added to each sequence.
    add_zero_attn : bool
        Whether a key and value of zeros is added to each sequence.
    kdim, vdim : int, optional
        Size of the keys and of the values, by default `embed_dim`.
    batch_first : bool
        Whether the first dim counts samples, else positions.
    device, dtype
        The device and dtype of the parameters.

    Examples
    --------
    >>> import gradcore
    >>> attention = gradcore.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = gradcore.ones(5, 7, 8)
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    (torch.Size([5, 7, 8]), torch.Size([5, 7, 7]))
    """

    in_proj_weight: Tensor | None
    in_proj_bias: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        self.head_dim, self.batch_first, self.add_zero_attn = embed_dim // num_heads, batch_first, add_zero_attn

        def create_parameter(*shape: int, wanted: bool = True) -> Parameter | None:
            return Parameter(empty(*shape, device=device, dtype=dtype)) if wanted else None

        joint = self._qkv_same_embed_dim
        sizes = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        for name, size in sizes.items():
            self.register_parameter(name, create_parameter(embed_dim, size, wanted=not joint))
        self.register_parameter("in_proj_weight", create_parameter(3 * embed_dim, embed_dim, wanted=joint))
        self.register_parameter("in_proj_bias", create_parameter(3 * embed_dim, wanted=bias))
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, create_parameter(1, 1, embed_dim, wanted=add_bias_kv))
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name, parameter in self._parameters.items():
            if parameter is not None:
                if name.endswith("weight"):
                    xavier_uniform_(parameter)
                elif name == "in_proj_bias":
                    constant_(parameter, 0.0)
                else:
                    xavier_normal_(parameter)
        if self.out_proj.bias is not None:
            constant_(self.out_proj.bias, 0.0)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attention output and the attention weights.

        Parameters
        ----------
        query, key, value : Tensor
            Positions, samples and features; without samples, or with samples first if `batch_first`.
        key_padding_mask : Tensor, optional
            A mask of the keys to leave out, for each sample.
        need_weights : bool
            Whether the weights are returned.
        attn_mask : Tensor, optional
            The keys that each query ignores (bool), or numbers that are added to the scores.
        average_attn_weights : bool
            Whether the weights of the heads are averaged.
        is_causal : bool
            A hint that `attn_mask` leaves out all later positions.

        Returns
        -------
        output : Tensor
        weights : Tensor or None
        """
        transposed = self.batch_first and query.ndim == 3
        if transposed:
            is_self_attention = query is key and key is value
            query = query.transpose(0, 1)
            key, value = (query, query) if is_self_attention else (key.transpose(0, 1), value.transpose(0, 1))
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (out.transpose(0, 1) if transposed else out), weights
