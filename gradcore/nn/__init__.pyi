"""Written by gradcore.stubs from the table of operations."""

import builtins
from typing import Any

from gradcore.nn import functional as functional
from gradcore.nn import init as init
from gradcore.nn import modules as modules
from gradcore.nn import parallel as parallel
from gradcore.nn import utils as utils
from gradcore.nn.activations import PReLU as PReLU
from gradcore.nn.activations import Softmax2d as Softmax2d
from gradcore.nn.adaptive import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
from gradcore.nn.attention import MultiheadAttention as MultiheadAttention
from gradcore.nn.containers import ModuleDict as ModuleDict
from gradcore.nn.containers import ModuleList as ModuleList
from gradcore.nn.containers import Sequential as Sequential
from gradcore.nn.embedding import Embedding as Embedding
from gradcore.nn.embedding import EmbeddingBag as EmbeddingBag
from gradcore.nn.layers import Flatten as Flatten
from gradcore.nn.layers import Identity as Identity
from gradcore.nn.layers import Unflatten as Unflatten
from gradcore.nn.lazy import LazyLinear as LazyLinear
from gradcore.nn.lazy_parameter import UninitializedBuffer as UninitializedBuffer
from gradcore.nn.lazy_parameter import UninitializedParameter as UninitializedParameter
from gradcore.nn.linear import Bilinear as Bilinear
from gradcore.nn.linear import Linear as Linear
from gradcore.nn.linear_loss import LinearCrossEntropyLoss as LinearCrossEntropyLoss
from gradcore.nn.losses import TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss
from gradcore.nn.module import Module as Module
from gradcore.nn.normalization import GroupNorm as GroupNorm
from gradcore.nn.normalization import LayerNorm as LayerNorm
from gradcore.nn.normalization import RMSNorm as RMSNorm
from gradcore.nn.normalization import SyncBatchNorm as SyncBatchNorm
from gradcore.nn.parallel import DataParallel as DataParallel
from gradcore.nn.parameter import Buffer as Buffer
from gradcore.nn.parameter import Parameter as Parameter
from gradcore.nn.parameter_containers import ParameterDict as ParameterDict
from gradcore.nn.parameter_containers import ParameterList as ParameterList
from gradcore.nn.recurrent import GRU as GRU
from gradcore.nn.recurrent import LSTM as LSTM
from gradcore.nn.recurrent import RNN as RNN
from gradcore.nn.recurrent import GRUCell as GRUCell
from gradcore.nn.recurrent import LSTMCell as LSTMCell
from gradcore.nn.recurrent import RNNBase as RNNBase
from gradcore.nn.recurrent import RNNCell as RNNCell
from gradcore.nn.recurrent import RNNCellBase as RNNCellBase
from gradcore.nn.transformer import Transformer as Transformer
from gradcore.nn.transformer import TransformerDecoder as TransformerDecoder
from gradcore.nn.transformer import TransformerEncoder as TransformerEncoder
from gradcore.nn.transformer_layers import TransformerDecoderLayer as TransformerDecoderLayer
from gradcore.nn.transformer_layers import TransformerEncoderLayer as TransformerEncoderLayer
from gradcore.tensor import Tensor

class CELU(Module):
    def __init__(self, alpha: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ELU(Module):
    def __init__(self, alpha: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class GELU(Module):
    def __init__(self, approximate: builtins.str = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class GLU(Module):
    def __init__(self, dim: Any = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Hardshrink(Module):
    def __init__(self, lambd: builtins.float = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Hardsigmoid(Module):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Hardswish(Module):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Hardtanh(Module):
    def __init__(
        self,
        min_val: builtins.float = ...,
        max_val: builtins.float = ...,
        inplace: builtins.bool = ...,
        min_value: Any = ...,
        max_value: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LeakyReLU(Module):
    def __init__(self, negative_slope: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LogSigmoid(Module):
    def __init__(self) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LogSoftmax(Module):
    def __init__(self, dim: Any = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Mish(Module):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class RReLU(Module):
    def __init__(
        self, lower: builtins.float = ..., upper: builtins.float = ..., inplace: builtins.bool = ...
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ReLU(Module):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ReLU6(Module):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class SELU(Module):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class SiLU(Module):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Sigmoid(Module):
    def __init__(self) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Softmax(Module):
    def __init__(self, dim: Any = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Softmin(Module):
    def __init__(self, dim: Any = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Softplus(Module):
    def __init__(self, beta: builtins.float = ..., threshold: builtins.float = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Softshrink(Module):
    def __init__(self, lambd: builtins.float = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Softsign(Module):
    def __init__(self) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Tanh(Module):
    def __init__(self) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Tanhshrink(Module):
    def __init__(self) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Threshold(Module):
    def __init__(self, threshold: Any, value: Any, inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Conv1d(Module):
    weight: Tensor
    bias: Tensor | None
    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        dilation: Any = ...,
        groups: Any = ...,
        bias: builtins.bool = ...,
        padding_mode: builtins.str = ...,
        device: Any = ...,
        dtype: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Conv2d(Module):
    weight: Tensor
    bias: Tensor | None
    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        dilation: Any = ...,
        groups: Any = ...,
        bias: builtins.bool = ...,
        padding_mode: builtins.str = ...,
        device: Any = ...,
        dtype: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Conv3d(Module):
    weight: Tensor
    bias: Tensor | None
    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        dilation: Any = ...,
        groups: Any = ...,
        bias: builtins.bool = ...,
        padding_mode: builtins.str = ...,
        device: Any = ...,
        dtype: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ConvTranspose1d(Module):
    weight: Tensor
    bias: Tensor | None
    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        output_padding: Any = ...,
        groups: Any = ...,
        bias: builtins.bool = ...,
        dilation: Any = ...,
        padding_mode: builtins.str = ...,
        device: Any = ...,
        dtype: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ConvTranspose2d(Module):
    weight: Tensor
    bias: Tensor | None
    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        output_padding: Any = ...,
        groups: Any = ...,
        bias: builtins.bool = ...,
        dilation: Any = ...,
        padding_mode: builtins.str = ...,
        device: Any = ...,
        dtype: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ConvTranspose3d(Module):
    weight: Tensor
    bias: Tensor | None
    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        output_padding: Any = ...,
        groups: Any = ...,
        bias: builtins.bool = ...,
        dilation: Any = ...,
        padding_mode: builtins.str = ...,
        device: Any = ...,
        dtype: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class AdaptiveAvgPool1d(Module):
    def __init__(self, output_size: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class AdaptiveAvgPool2d(Module):
    def __init__(self, output_size: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class AdaptiveAvgPool3d(Module):
    def __init__(self, output_size: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class AdaptiveMaxPool1d(Module):
    def __init__(self, output_size: Any, return_indices: builtins.bool = ...) -> None: ...

class AdaptiveMaxPool2d(Module):
    def __init__(self, output_size: Any, return_indices: builtins.bool = ...) -> None: ...

class AdaptiveMaxPool3d(Module):
    def __init__(self, output_size: Any, return_indices: builtins.bool = ...) -> None: ...

class AlphaDropout(Module):
    def __init__(self, p: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class AvgPool1d(Module):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        ceil_mode: builtins.bool = ...,
        count_include_pad: builtins.bool = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class AvgPool2d(Module):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        ceil_mode: builtins.bool = ...,
        count_include_pad: builtins.bool = ...,
        divisor_override: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class AvgPool3d(Module):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        ceil_mode: builtins.bool = ...,
        count_include_pad: builtins.bool = ...,
        divisor_override: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ChannelShuffle(Module):
    def __init__(self, groups: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class CosineSimilarity(Module):
    def __init__(self, dim: Any = ..., eps: builtins.float = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class CrossMapLRN2d(Module):
    def __init__(self, size: Any, alpha: builtins.float = ..., beta: builtins.float = ..., k: Any = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Dropout(Module):
    def __init__(self, p: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Dropout1d(Module):
    def __init__(self, p: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Dropout2d(Module):
    def __init__(self, p: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Dropout3d(Module):
    def __init__(self, p: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class FeatureAlphaDropout(Module):
    def __init__(self, p: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Fold(Module):
    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = ..., padding: Any = ..., stride: Any = ...
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class FractionalMaxPool2d(Module):
    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = ...,
        output_ratio: Any = ...,
        return_indices: builtins.bool = ...,
        _random_samples: Any = ...,
    ) -> None: ...

class FractionalMaxPool3d(Module):
    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = ...,
        output_ratio: Any = ...,
        return_indices: builtins.bool = ...,
        _random_samples: Any = ...,
    ) -> None: ...

class LPPool1d(Module):
    def __init__(self, norm_type: Any, kernel_size: Any, stride: Any = ..., ceil_mode: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LPPool2d(Module):
    def __init__(self, norm_type: Any, kernel_size: Any, stride: Any = ..., ceil_mode: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LPPool3d(Module):
    def __init__(self, norm_type: Any, kernel_size: Any, stride: Any = ..., ceil_mode: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LocalResponseNorm(Module):
    def __init__(
        self, size: Any, alpha: builtins.float = ..., beta: builtins.float = ..., k: builtins.float = ...
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class MaxPool1d(Module):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        dilation: Any = ...,
        return_indices: builtins.bool = ...,
        ceil_mode: builtins.bool = ...,
    ) -> None: ...

class MaxPool2d(Module):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        dilation: Any = ...,
        return_indices: builtins.bool = ...,
        ceil_mode: builtins.bool = ...,
    ) -> None: ...

class MaxPool3d(Module):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        dilation: Any = ...,
        return_indices: builtins.bool = ...,
        ceil_mode: builtins.bool = ...,
    ) -> None: ...

class MaxUnpool1d(Module):
    def __init__(self, kernel_size: Any, stride: Any = ..., padding: Any = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class MaxUnpool2d(Module):
    def __init__(self, kernel_size: Any, stride: Any = ..., padding: Any = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class MaxUnpool3d(Module):
    def __init__(self, kernel_size: Any, stride: Any = ..., padding: Any = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class PairwiseDistance(Module):
    def __init__(self, p: builtins.float = ..., eps: builtins.float = ..., keepdim: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class PixelShuffle(Module):
    def __init__(self, upscale_factor: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class PixelUnshuffle(Module):
    def __init__(self, downscale_factor: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Unfold(Module):
    def __init__(self, kernel_size: Any, dilation: Any = ..., padding: Any = ..., stride: Any = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class Upsample(Module):
    def __init__(
        self,
        size: Any = ...,
        scale_factor: Any = ...,
        mode: builtins.str = ...,
        align_corners: Any = ...,
        recompute_scale_factor: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class UpsamplingBilinear2d(Module):
    def __init__(self, size: Any = ..., scale_factor: Any = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class UpsamplingNearest2d(Module):
    def __init__(self, size: Any = ..., scale_factor: Any = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LazyBatchNorm1d(Module):
    weight: Tensor | None
    bias: Tensor | None
    def __init__(
        self,
        eps: builtins.float = ...,
        momentum: builtins.float = ...,
        affine: builtins.bool = ...,
        track_running_stats: builtins.bool = ...,
        device: Any = ...,
        dtype: Any = ...,
        *,
        bias: builtins.bool = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LazyBatchNorm2d(Module):
    weight: Tensor | None
    bias: Tensor | None
    def __init__(
        self,
        eps: builtins.float = ...,
        momentum: builtins.float = ...,
        affine: builtins.bool = ...,
        track_running_stats: builtins.bool = ...,
        device: Any = ...,
        dtype: Any = ...,
        *,
        bias: builtins.bool = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LazyBatchNorm3d(Module):
    weight: Tensor | None
    bias: Tensor | None
    def __init__(
        self,
        eps: builtins.float = ...,
        momentum: builtins.float = ...,
        affine: builtins.bool = ...,
        track_running_stats: builtins.bool = ...,
        device: Any = ...,
        dtype: Any = ...,
        *,
        bias: builtins.bool = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LazyConv1d(Module):
    weight: Tensor
    bias: Tensor | None
    def __init__(
        self,
        out_channels: Any,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        dilation: Any = ...,
        groups: Any = ...,
        bias: builtins.bool = ...,
        padding_mode: builtins.str = ...,
        device: Any = ...,
        dtype: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LazyConv2d(Module):
    weight: Tensor
    bias: Tensor | None
    def __init__(
        self,
        out_channels: Any,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        dilation: Any = ...,
        groups: Any = ...,
        bias: builtins.bool = ...,
        padding_mode: builtins.str = ...,
        device: Any = ...,
        dtype: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LazyConv3d(Module):
    weight: Tensor
    bias: Tensor | None
    def __init__(
        self,
        out_channels: Any,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        dilation: Any = ...,
        groups: Any = ...,
        bias: builtins.bool = ...,
        padding_mode: builtins.str = ...,
        device: Any = ...,
        dtype: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LazyConvTranspose1d(Module):
    weight: Tensor
    bias: Tensor | None
    def __init__(
        self,
        out_channels: Any,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        output_padding: Any = ...,
        groups: Any = ...,
        bias: builtins.bool = ...,
        dilation: Any = ...,
        padding_mode: builtins.str = ...,
        device: Any = ...,
        dtype: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LazyConvTranspose2d(Module):
    weight: Tensor
    bias: Tensor | None
    def __init__(
        self,
        out_channels: Any,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        output_padding: Any = ...,
        groups: Any = ...,
        bias: builtins.bool = ...,
        dilation: Any = ...,
        padding_mode: builtins.str = ...,
        device: Any = ...,
        dtype: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LazyConvTranspose3d(Module):
    weight: Tensor
    bias: Tensor | None
    def __init__(
        self,
        out_channels: Any,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        output_padding: Any = ...,
        groups: Any = ...,
        bias: builtins.bool = ...,
        dilation: Any = ...,
        padding_mode: builtins.str = ...,
        device: Any = ...,
        dtype: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LazyInstanceNorm1d(Module):
    weight: Tensor | None
    bias: Tensor | None
    def __init__(
        self,
        eps: builtins.float = ...,
        momentum: builtins.float = ...,
        affine: builtins.bool = ...,
        track_running_stats: builtins.bool = ...,
        device: Any = ...,
        dtype: Any = ...,
        *,
        bias: builtins.bool = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LazyInstanceNorm2d(Module):
    weight: Tensor | None
    bias: Tensor | None
    def __init__(
        self,
        eps: builtins.float = ...,
        momentum: builtins.float = ...,
        affine: builtins.bool = ...,
        track_running_stats: builtins.bool = ...,
        device: Any = ...,
        dtype: Any = ...,
        *,
        bias: builtins.bool = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class LazyInstanceNorm3d(Module):
    weight: Tensor | None
    bias: Tensor | None
    def __init__(
        self,
        eps: builtins.float = ...,
        momentum: builtins.float = ...,
        affine: builtins.bool = ...,
        track_running_stats: builtins.bool = ...,
        device: Any = ...,
        dtype: Any = ...,
        *,
        bias: builtins.bool = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class BCELoss(Module):
    weight: Tensor | None
    def __init__(
        self, weight: Any = ..., size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class BCEWithLogitsLoss(Module):
    weight: Tensor | None
    def __init__(
        self,
        weight: Any = ...,
        size_average: Any = ...,
        reduce: Any = ...,
        reduction: builtins.str = ...,
        pos_weight: Any = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class CTCLoss(Module):
    def __init__(self, blank: Any = ..., reduction: builtins.str = ..., zero_infinity: builtins.bool = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class CosineEmbeddingLoss(Module):
    def __init__(
        self, margin: builtins.float = ..., size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class CrossEntropyLoss(Module):
    weight: Tensor | None
    def __init__(
        self,
        weight: Any = ...,
        size_average: Any = ...,
        ignore_index: Any = ...,
        reduce: Any = ...,
        reduction: builtins.str = ...,
        label_smoothing: builtins.float = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class GaussianNLLLoss(Module):
    def __init__(
        self, *, full: builtins.bool = ..., eps: builtins.float = ..., reduction: builtins.str = ...
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class HingeEmbeddingLoss(Module):
    def __init__(
        self, margin: builtins.float = ..., size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class HuberLoss(Module):
    def __init__(self, reduction: builtins.str = ..., delta: builtins.float = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class KLDivLoss(Module):
    def __init__(
        self, size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ..., log_target: builtins.bool = ...
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class L1Loss(Module):
    def __init__(self, size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class MSELoss(Module):
    def __init__(self, size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class MarginRankingLoss(Module):
    def __init__(
        self, margin: builtins.float = ..., size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class MultiLabelMarginLoss(Module):
    def __init__(self, size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class MultiLabelSoftMarginLoss(Module):
    weight: Tensor | None
    def __init__(
        self, weight: Any = ..., size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class MultiMarginLoss(Module):
    weight: Tensor | None
    def __init__(
        self,
        p: Any = ...,
        margin: builtins.float = ...,
        weight: Any = ...,
        size_average: Any = ...,
        reduce: Any = ...,
        reduction: builtins.str = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class NLLLoss(Module):
    weight: Tensor | None
    def __init__(
        self,
        weight: Any = ...,
        size_average: Any = ...,
        ignore_index: Any = ...,
        reduce: Any = ...,
        reduction: builtins.str = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class PoissonNLLLoss(Module):
    def __init__(
        self,
        log_input: builtins.bool = ...,
        full: builtins.bool = ...,
        size_average: Any = ...,
        eps: builtins.float = ...,
        reduce: Any = ...,
        reduction: builtins.str = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class SmoothL1Loss(Module):
    def __init__(
        self, size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ..., beta: builtins.float = ...
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class SoftMarginLoss(Module):
    def __init__(self, size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class TripletMarginLoss(Module):
    def __init__(
        self,
        margin: builtins.float = ...,
        p: builtins.float = ...,
        eps: builtins.float = ...,
        swap: builtins.bool = ...,
        size_average: Any = ...,
        reduce: Any = ...,
        reduction: builtins.str = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class BatchNorm1d(Module):
    weight: Tensor | None
    bias: Tensor | None
    def __init__(
        self,
        num_features: Any,
        eps: builtins.float = ...,
        momentum: builtins.float = ...,
        affine: builtins.bool = ...,
        track_running_stats: builtins.bool = ...,
        device: Any = ...,
        dtype: Any = ...,
        *,
        bias: builtins.bool = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class BatchNorm2d(Module):
    weight: Tensor | None
    bias: Tensor | None
    def __init__(
        self,
        num_features: Any,
        eps: builtins.float = ...,
        momentum: builtins.float = ...,
        affine: builtins.bool = ...,
        track_running_stats: builtins.bool = ...,
        device: Any = ...,
        dtype: Any = ...,
        *,
        bias: builtins.bool = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class BatchNorm3d(Module):
    weight: Tensor | None
    bias: Tensor | None
    def __init__(
        self,
        num_features: Any,
        eps: builtins.float = ...,
        momentum: builtins.float = ...,
        affine: builtins.bool = ...,
        track_running_stats: builtins.bool = ...,
        device: Any = ...,
        dtype: Any = ...,
        *,
        bias: builtins.bool = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class InstanceNorm1d(Module):
    weight: Tensor | None
    bias: Tensor | None
    def __init__(
        self,
        num_features: Any,
        eps: builtins.float = ...,
        momentum: builtins.float = ...,
        affine: builtins.bool = ...,
        track_running_stats: builtins.bool = ...,
        device: Any = ...,
        dtype: Any = ...,
        *,
        bias: builtins.bool = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class InstanceNorm2d(Module):
    weight: Tensor | None
    bias: Tensor | None
    def __init__(
        self,
        num_features: Any,
        eps: builtins.float = ...,
        momentum: builtins.float = ...,
        affine: builtins.bool = ...,
        track_running_stats: builtins.bool = ...,
        device: Any = ...,
        dtype: Any = ...,
        *,
        bias: builtins.bool = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class InstanceNorm3d(Module):
    weight: Tensor | None
    bias: Tensor | None
    def __init__(
        self,
        num_features: Any,
        eps: builtins.float = ...,
        momentum: builtins.float = ...,
        affine: builtins.bool = ...,
        track_running_stats: builtins.bool = ...,
        device: Any = ...,
        dtype: Any = ...,
        *,
        bias: builtins.bool = ...,
    ) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class CircularPad1d(Module):
    def __init__(self, padding: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class CircularPad2d(Module):
    def __init__(self, padding: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class CircularPad3d(Module):
    def __init__(self, padding: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ConstantPad1d(Module):
    def __init__(self, padding: Any, value: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ConstantPad2d(Module):
    def __init__(self, padding: Any, value: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ConstantPad3d(Module):
    def __init__(self, padding: Any, value: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ReflectionPad1d(Module):
    def __init__(self, padding: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ReflectionPad2d(Module):
    def __init__(self, padding: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ReflectionPad3d(Module):
    def __init__(self, padding: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ReplicationPad1d(Module):
    def __init__(self, padding: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ReplicationPad2d(Module):
    def __init__(self, padding: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ReplicationPad3d(Module):
    def __init__(self, padding: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ZeroPad1d(Module):
    def __init__(self, padding: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ZeroPad2d(Module):
    def __init__(self, padding: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...

class ZeroPad3d(Module):
    def __init__(self, padding: Any) -> None: ...
    def forward(self, *inputs: Any, **named: Any) -> Tensor: ...
