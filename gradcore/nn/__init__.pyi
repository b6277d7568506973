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
from gradcore.nn.uninitialized import UninitializedBuffer as UninitializedBuffer
from gradcore.nn.uninitialized import UninitializedParameter as UninitializedParameter
from gradcore.tensor import Tensor

class CELU(Module):
    def __init__(self, alpha: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...

class ELU(Module):
    def __init__(self, alpha: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...

class GELU(Module):
    def __init__(self, approximate: builtins.str = ...) -> None: ...

class GLU(Module):
    def __init__(self, dim: Any = ...) -> None: ...

class Hardshrink(Module):
    def __init__(self, lambd: builtins.float = ...) -> None: ...

class Hardsigmoid(Module):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...

class Hardswish(Module):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...

class Hardtanh(Module):
    def __init__(
        self,
        min_val: builtins.float = ...,
        max_val: builtins.float = ...,
        inplace: builtins.bool = ...,
        min_value: Any = ...,
        max_value: Any = ...,
    ) -> None: ...

class LeakyReLU(Module):
    def __init__(self, negative_slope: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...

class LogSigmoid(Module):
    def __init__(self) -> None: ...

class LogSoftmax(Module):
    def __init__(self, dim: Any = ...) -> None: ...

class Mish(Module):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...

class RReLU(Module):
    def __init__(
        self, lower: builtins.float = ..., upper: builtins.float = ..., inplace: builtins.bool = ...
    ) -> None: ...

class ReLU(Module):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...

class ReLU6(Module):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...

class SELU(Module):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...

class SiLU(Module):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...

class Sigmoid(Module):
    def __init__(self) -> None: ...

class Softmax(Module):
    def __init__(self, dim: Any = ...) -> None: ...

class Softmin(Module):
    def __init__(self, dim: Any = ...) -> None: ...

class Softplus(Module):
    def __init__(self, beta: builtins.float = ..., threshold: builtins.float = ...) -> None: ...

class Softshrink(Module):
    def __init__(self, lambd: builtins.float = ...) -> None: ...

class Softsign(Module):
    def __init__(self) -> None: ...

class Tanh(Module):
    def __init__(self) -> None: ...

class Tanhshrink(Module):
    def __init__(self) -> None: ...

class Threshold(Module):
    def __init__(self, threshold: Any, value: Any, inplace: builtins.bool = ...) -> None: ...

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

class AdaptiveAvgPool1d(Module):
    def __init__(self, output_size: Any) -> None: ...

class AdaptiveAvgPool2d(Module):
    def __init__(self, output_size: Any) -> None: ...

class AdaptiveAvgPool3d(Module):
    def __init__(self, output_size: Any) -> None: ...

class AdaptiveMaxPool1d(Module):
    def __init__(self, output_size: Any, return_indices: builtins.bool = ...) -> None: ...

class AdaptiveMaxPool2d(Module):
    def __init__(self, output_size: Any, return_indices: builtins.bool = ...) -> None: ...

class AdaptiveMaxPool3d(Module):
    def __init__(self, output_size: Any, return_indices: builtins.bool = ...) -> None: ...

class AlphaDropout(Module):
    def __init__(self, p: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...

class AvgPool1d(Module):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = ...,
        padding: Any = ...,
        ceil_mode: builtins.bool = ...,
        count_include_pad: builtins.bool = ...,
    ) -> None: ...

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

class ChannelShuffle(Module):
    def __init__(self, groups: Any) -> None: ...

class CosineSimilarity(Module):
    def __init__(self, dim: Any = ..., eps: builtins.float = ...) -> None: ...

class CrossMapLRN2d(Module):
    def __init__(self, size: Any, alpha: builtins.float = ..., beta: builtins.float = ..., k: Any = ...) -> None: ...

class Dropout(Module):
    def __init__(self, p: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...

class Dropout1d(Module):
    def __init__(self, p: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...

class Dropout2d(Module):
    def __init__(self, p: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...

class Dropout3d(Module):
    def __init__(self, p: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...

class FeatureAlphaDropout(Module):
    def __init__(self, p: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...

class Fold(Module):
    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = ..., padding: Any = ..., stride: Any = ...
    ) -> None: ...

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

class LPPool2d(Module):
    def __init__(self, norm_type: Any, kernel_size: Any, stride: Any = ..., ceil_mode: builtins.bool = ...) -> None: ...

class LPPool3d(Module):
    def __init__(self, norm_type: Any, kernel_size: Any, stride: Any = ..., ceil_mode: builtins.bool = ...) -> None: ...

class LocalResponseNorm(Module):
    def __init__(
        self, size: Any, alpha: builtins.float = ..., beta: builtins.float = ..., k: builtins.float = ...
    ) -> None: ...

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

class MaxUnpool2d(Module):
    def __init__(self, kernel_size: Any, stride: Any = ..., padding: Any = ...) -> None: ...

class MaxUnpool3d(Module):
    def __init__(self, kernel_size: Any, stride: Any = ..., padding: Any = ...) -> None: ...

class PairwiseDistance(Module):
    def __init__(self, p: builtins.float = ..., eps: builtins.float = ..., keepdim: builtins.bool = ...) -> None: ...

class PixelShuffle(Module):
    def __init__(self, upscale_factor: Any) -> None: ...

class PixelUnshuffle(Module):
    def __init__(self, downscale_factor: Any) -> None: ...

class Unfold(Module):
    def __init__(self, kernel_size: Any, dilation: Any = ..., padding: Any = ..., stride: Any = ...) -> None: ...

class Upsample(Module):
    def __init__(
        self,
        size: Any = ...,
        scale_factor: Any = ...,
        mode: builtins.str = ...,
        align_corners: Any = ...,
        recompute_scale_factor: Any = ...,
    ) -> None: ...

class UpsamplingBilinear2d(Module):
    def __init__(self, size: Any = ..., scale_factor: Any = ...) -> None: ...

class UpsamplingNearest2d(Module):
    def __init__(self, size: Any = ..., scale_factor: Any = ...) -> None: ...

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

class BCELoss(Module):
    weight: Tensor | None
    def __init__(
        self, weight: Any = ..., size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...
    ) -> None: ...

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

class CTCLoss(Module):
    def __init__(self, blank: Any = ..., reduction: builtins.str = ..., zero_infinity: builtins.bool = ...) -> None: ...

class CosineEmbeddingLoss(Module):
    def __init__(
        self, margin: builtins.float = ..., size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...
    ) -> None: ...

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

class GaussianNLLLoss(Module):
    def __init__(
        self, *, full: builtins.bool = ..., eps: builtins.float = ..., reduction: builtins.str = ...
    ) -> None: ...

class HingeEmbeddingLoss(Module):
    def __init__(
        self, margin: builtins.float = ..., size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...
    ) -> None: ...

class HuberLoss(Module):
    def __init__(self, reduction: builtins.str = ..., delta: builtins.float = ...) -> None: ...

class KLDivLoss(Module):
    def __init__(
        self, size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ..., log_target: builtins.bool = ...
    ) -> None: ...

class L1Loss(Module):
    def __init__(self, size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...) -> None: ...

class MSELoss(Module):
    def __init__(self, size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...) -> None: ...

class MarginRankingLoss(Module):
    def __init__(
        self, margin: builtins.float = ..., size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...
    ) -> None: ...

class MultiLabelMarginLoss(Module):
    def __init__(self, size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...) -> None: ...

class MultiLabelSoftMarginLoss(Module):
    weight: Tensor | None
    def __init__(
        self, weight: Any = ..., size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...
    ) -> None: ...

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

class SmoothL1Loss(Module):
    def __init__(
        self, size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ..., beta: builtins.float = ...
    ) -> None: ...

class SoftMarginLoss(Module):
    def __init__(self, size_average: Any = ..., reduce: Any = ..., reduction: builtins.str = ...) -> None: ...

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

class CircularPad1d(Module):
    def __init__(self, padding: Any) -> None: ...

class CircularPad2d(Module):
    def __init__(self, padding: Any) -> None: ...

class CircularPad3d(Module):
    def __init__(self, padding: Any) -> None: ...

class ConstantPad1d(Module):
    def __init__(self, padding: Any, value: Any) -> None: ...

class ConstantPad2d(Module):
    def __init__(self, padding: Any, value: Any) -> None: ...

class ConstantPad3d(Module):
    def __init__(self, padding: Any, value: Any) -> None: ...

class ReflectionPad1d(Module):
    def __init__(self, padding: Any) -> None: ...

class ReflectionPad2d(Module):
    def __init__(self, padding: Any) -> None: ...

class ReflectionPad3d(Module):
    def __init__(self, padding: Any) -> None: ...

class ReplicationPad1d(Module):
    def __init__(self, padding: Any) -> None: ...

class ReplicationPad2d(Module):
    def __init__(self, padding: Any) -> None: ...

class ReplicationPad3d(Module):
    def __init__(self, padding: Any) -> None: ...

class ZeroPad1d(Module):
    def __init__(self, padding: Any) -> None: ...

class ZeroPad2d(Module):
    def __init__(self, padding: Any) -> None: ...

class ZeroPad3d(Module):
    def __init__(self, padding: Any) -> None: ...
