"""Written by gradcore.stubs from the table of operations."""

import builtins
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, overload

from gradcore.core.dtypes import dtype
from gradcore.nn.gumbel import gumbel_softmax as gumbel_softmax
from gradcore.tensor import Tensor

Number: TypeAlias = builtins.bool | builtins.int | builtins.float | builtins.complex
Ints: TypeAlias = builtins.int | Sequence[builtins.int]
Dims: TypeAlias = Ints | None

def adaptive_avg_pool1d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None) -> Tensor: ...
def adaptive_avg_pool2d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None) -> Tensor: ...
def adaptive_avg_pool3d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None) -> Tensor: ...
@overload
def adaptive_max_pool1d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None) -> Tensor: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, *, return_indices: Literal[True]
) -> builtins.tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, return_indices: builtins.bool = ...
) -> Any: ...
def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None
) -> builtins.tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool2d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None) -> Tensor: ...
@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, *, return_indices: Literal[True]
) -> builtins.tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, return_indices: builtins.bool = ...
) -> Any: ...
def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None
) -> builtins.tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool3d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None) -> Tensor: ...
@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, *, return_indices: Literal[True]
) -> builtins.tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, return_indices: builtins.bool = ...
) -> Any: ...
def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None
) -> builtins.tuple[Tensor, Tensor]: ...
def affine_grid(theta: Tensor, size: Any, align_corners: builtins.bool | None = ...) -> Tensor: ...
def alpha_dropout(
    input: Tensor, p: builtins.float = ..., training: builtins.bool = ..., inplace: builtins.bool = ...
) -> Tensor: ...
def avg_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    ceil_mode: builtins.bool = ...,
    count_include_pad: builtins.bool = ...,
    divisor_override: builtins.int | None = ...,
) -> Tensor: ...
def avg_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    ceil_mode: builtins.bool = ...,
    count_include_pad: builtins.bool = ...,
    divisor_override: builtins.int | None = ...,
) -> Tensor: ...
def avg_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    ceil_mode: builtins.bool = ...,
    count_include_pad: builtins.bool = ...,
    divisor_override: builtins.int | None = ...,
) -> Tensor: ...
def batch_norm(
    input: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    training: builtins.bool = ...,
    momentum: builtins.float = ...,
    eps: builtins.float = ...,
) -> Tensor: ...
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = ...) -> Tensor: ...
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = ...,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Tensor: ...
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = ...,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
    pos_weight: Tensor | None = ...,
) -> Tensor: ...
def celu(input: Tensor, alpha: builtins.float = ..., inplace: builtins.bool = ...) -> Tensor: ...
def celu_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def channel_shuffle(input: Tensor, groups: builtins.int) -> Tensor: ...
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Ints = ...,
    padding: Any = ...,
    dilation: Ints = ...,
    groups: builtins.int = ...,
) -> Tensor: ...
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Ints = ...,
    padding: Any = ...,
    dilation: Ints = ...,
    groups: builtins.int = ...,
) -> Tensor: ...
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Ints = ...,
    padding: Any = ...,
    dilation: Ints = ...,
    groups: builtins.int = ...,
) -> Tensor: ...
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Ints = ...,
    padding: Ints = ...,
    output_padding: Ints = ...,
    groups: builtins.int = ...,
    dilation: Ints = ...,
) -> Tensor: ...
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Ints = ...,
    padding: Ints = ...,
    output_padding: Ints = ...,
    groups: builtins.int = ...,
    dilation: Ints = ...,
) -> Tensor: ...
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Ints = ...,
    padding: Ints = ...,
    output_padding: Ints = ...,
    groups: builtins.int = ...,
    dilation: Ints = ...,
) -> Tensor: ...
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: builtins.float = ...,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Tensor: ...
def cosine_similarity(x1: Tensor, x2: Tensor, dim: builtins.int = ..., eps: builtins.float = ...) -> Tensor: ...
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = ...,
    size_average: builtins.bool | None = ...,
    ignore_index: builtins.int = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
    label_smoothing: builtins.float = ...,
) -> Tensor: ...
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: builtins.int = ...,
    reduction: builtins.str = ...,
    zero_infinity: builtins.bool = ...,
) -> Tensor: ...
def dropout(
    input: Tensor, p: builtins.float = ..., training: builtins.bool = ..., inplace: builtins.bool = ...
) -> Tensor: ...
def dropout1d(
    input: Tensor, p: builtins.float = ..., training: builtins.bool = ..., inplace: builtins.bool = ...
) -> Tensor: ...
def dropout2d(
    input: Tensor, p: builtins.float = ..., training: builtins.bool = ..., inplace: builtins.bool = ...
) -> Tensor: ...
def dropout3d(
    input: Tensor, p: builtins.float = ..., training: builtins.bool = ..., inplace: builtins.bool = ...
) -> Tensor: ...
def elu(input: Tensor, alpha: builtins.float = ..., inplace: builtins.bool = ...) -> Tensor: ...
def elu_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: builtins.int | None = ...,
    max_norm: builtins.float | None = ...,
    norm_type: builtins.float = ...,
    scale_grad_by_freq: builtins.bool = ...,
    sparse: builtins.bool = ...,
) -> Tensor: ...
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = ...,
    max_norm: builtins.float | None = ...,
    norm_type: builtins.float = ...,
    scale_grad_by_freq: builtins.bool = ...,
    mode: builtins.str = ...,
    sparse: builtins.bool = ...,
    per_sample_weights: Tensor | None = ...,
    include_last_offset: builtins.bool = ...,
    padding_idx: builtins.int | None = ...,
) -> Tensor: ...
def feature_alpha_dropout(
    input: Tensor, p: builtins.float = ..., training: builtins.bool = ..., inplace: builtins.bool = ...
) -> Tensor: ...
def fold(
    input: Tensor, output_size: Ints, kernel_size: Ints, dilation: Ints = ..., padding: Ints = ..., stride: Ints = ...
) -> Tensor: ...
@overload
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = ...,
    output_ratio: Any = ...,
    _random_samples: Tensor | None = ...,
) -> Tensor: ...
@overload
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = ...,
    output_ratio: Any = ...,
    _random_samples: Tensor | None = ...,
    *,
    return_indices: Literal[True],
) -> builtins.tuple[Tensor, Tensor]: ...
@overload
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = ...,
    output_ratio: Any = ...,
    return_indices: builtins.bool = ...,
    _random_samples: Tensor | None = ...,
) -> Any: ...
@overload
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = ...,
    output_ratio: Any = ...,
    _random_samples: Tensor | None = ...,
) -> Tensor: ...
@overload
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = ...,
    output_ratio: Any = ...,
    _random_samples: Tensor | None = ...,
    *,
    return_indices: Literal[True],
) -> builtins.tuple[Tensor, Tensor]: ...
@overload
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = ...,
    output_ratio: Any = ...,
    return_indices: builtins.bool = ...,
    _random_samples: Tensor | None = ...,
) -> Any: ...
@overload
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = ...,
    output_ratio: Any = ...,
    _random_samples: Tensor | None = ...,
) -> Tensor: ...
@overload
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = ...,
    output_ratio: Any = ...,
    _random_samples: Tensor | None = ...,
    *,
    return_indices: Literal[True],
) -> builtins.tuple[Tensor, Tensor]: ...
@overload
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = ...,
    output_ratio: Any = ...,
    return_indices: builtins.bool = ...,
    _random_samples: Tensor | None = ...,
) -> Any: ...
@overload
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = ...,
    output_ratio: Any = ...,
    _random_samples: Tensor | None = ...,
) -> Tensor: ...
@overload
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = ...,
    output_ratio: Any = ...,
    _random_samples: Tensor | None = ...,
    *,
    return_indices: Literal[True],
) -> builtins.tuple[Tensor, Tensor]: ...
@overload
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = ...,
    output_ratio: Any = ...,
    return_indices: builtins.bool = ...,
    _random_samples: Tensor | None = ...,
) -> Any: ...
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor,
    full: builtins.bool = ...,
    eps: builtins.float = ...,
    reduction: builtins.str = ...,
) -> Tensor: ...
def gelu(input: Tensor, *, approximate: builtins.str = ...) -> Tensor: ...
def glu(input: Tensor, dim: builtins.int = ...) -> Tensor: ...
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: builtins.str = ...,
    padding_mode: builtins.str = ...,
    align_corners: builtins.bool | None = ...,
) -> Tensor: ...
def group_norm(
    input: Tensor,
    num_groups: builtins.int,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    eps: builtins.float = ...,
) -> Tensor: ...
def hardshrink(input: Tensor, lambd: builtins.float = ..., *, out: Any = ...) -> Tensor: ...
def hardsigmoid(input: Tensor, inplace: builtins.bool = ...) -> Tensor: ...
def hardswish(input: Tensor, inplace: builtins.bool = ...) -> Tensor: ...
def hardtanh(
    input: Tensor, min_val: builtins.float = ..., max_val: builtins.float = ..., inplace: builtins.bool = ...
) -> Tensor: ...
def hardtanh_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: builtins.float = ...,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Tensor: ...
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: builtins.str = ...,
    delta: builtins.float = ...,
    weight: Tensor | None = ...,
) -> Tensor: ...
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = ...,
    running_var: Tensor | None = ...,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    use_input_stats: builtins.bool = ...,
    momentum: builtins.float = ...,
    eps: builtins.float = ...,
) -> Tensor: ...
def interpolate(
    input: Tensor,
    size: Ints | None = ...,
    scale_factor: Any = ...,
    mode: builtins.str = ...,
    align_corners: builtins.bool | None = ...,
    recompute_scale_factor: builtins.bool | None = ...,
    antialias: builtins.bool = ...,
) -> Tensor: ...
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
    log_target: builtins.bool = ...,
) -> Tensor: ...
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
    weight: Tensor | None = ...,
) -> Tensor: ...
def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    eps: builtins.float = ...,
) -> Tensor: ...
def leaky_relu(input: Tensor, negative_slope: builtins.float = ..., inplace: builtins.bool = ...) -> Tensor: ...
def leaky_relu_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = ...) -> Tensor: ...
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = ...,
    weight: Tensor | None = ...,
    reduction: builtins.str = ...,
    ignore_index: builtins.int | None = ...,
    label_smoothing: builtins.float = ...,
    options: Any = ...,
) -> Tensor: ...
def local_response_norm(
    input: Tensor, size: builtins.int, alpha: builtins.float = ..., beta: builtins.float = ..., k: builtins.float = ...
) -> Tensor: ...
def log_softmax(
    input: Tensor, dim: builtins.int | None = ..., _stacklevel: builtins.int = ..., dtype: dtype | None = ...
) -> Tensor: ...
def logsigmoid(input: Tensor) -> Tensor: ...
def logsigmoid_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def lp_pool1d(
    input: Tensor,
    norm_type: builtins.float,
    kernel_size: Ints,
    stride: Ints | None = ...,
    ceil_mode: builtins.bool = ...,
) -> Tensor: ...
def lp_pool2d(
    input: Tensor,
    norm_type: builtins.float,
    kernel_size: Ints,
    stride: Ints | None = ...,
    ceil_mode: builtins.bool = ...,
) -> Tensor: ...
def lp_pool3d(
    input: Tensor,
    norm_type: builtins.float,
    kernel_size: Ints,
    stride: Ints | None = ...,
    ceil_mode: builtins.bool = ...,
) -> Tensor: ...
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: builtins.float = ...,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Tensor: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    dilation: Ints = ...,
    ceil_mode: builtins.bool = ...,
) -> Tensor: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    dilation: Ints = ...,
    ceil_mode: builtins.bool = ...,
    *,
    return_indices: Literal[True],
) -> builtins.tuple[Tensor, Tensor]: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    dilation: Ints = ...,
    ceil_mode: builtins.bool = ...,
    return_indices: builtins.bool = ...,
) -> Any: ...
def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    dilation: Ints = ...,
    ceil_mode: builtins.bool = ...,
) -> builtins.tuple[Tensor, Tensor]: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    dilation: Ints = ...,
    ceil_mode: builtins.bool = ...,
) -> Tensor: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    dilation: Ints = ...,
    ceil_mode: builtins.bool = ...,
    *,
    return_indices: Literal[True],
) -> builtins.tuple[Tensor, Tensor]: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    dilation: Ints = ...,
    ceil_mode: builtins.bool = ...,
    return_indices: builtins.bool = ...,
) -> Any: ...
def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    dilation: Ints = ...,
    ceil_mode: builtins.bool = ...,
) -> builtins.tuple[Tensor, Tensor]: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    dilation: Ints = ...,
    ceil_mode: builtins.bool = ...,
) -> Tensor: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    dilation: Ints = ...,
    ceil_mode: builtins.bool = ...,
    *,
    return_indices: Literal[True],
) -> builtins.tuple[Tensor, Tensor]: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    dilation: Ints = ...,
    ceil_mode: builtins.bool = ...,
    return_indices: builtins.bool = ...,
) -> Any: ...
def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    dilation: Ints = ...,
    ceil_mode: builtins.bool = ...,
) -> builtins.tuple[Tensor, Tensor]: ...
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    output_size: Ints | None = ...,
) -> Tensor: ...
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    output_size: Ints | None = ...,
) -> Tensor: ...
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    output_size: Ints | None = ...,
) -> Tensor: ...
def mish(input: Tensor, inplace: builtins.bool = ...) -> Tensor: ...
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
    weight: Tensor | None = ...,
) -> Tensor: ...
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: builtins.int,
    num_heads: builtins.int,
    in_proj_weight: Tensor | None = ...,
    in_proj_bias: Tensor | None = ...,
    bias_k: Tensor | None = ...,
    bias_v: Tensor | None = ...,
    add_zero_attn: builtins.bool = ...,
    dropout_p: builtins.float = ...,
    out_proj_weight: Tensor | None = ...,
    out_proj_bias: Tensor | None = ...,
    training: builtins.bool = ...,
    key_padding_mask: Tensor | None = ...,
    need_weights: builtins.bool = ...,
    attn_mask: Tensor | None = ...,
    use_separate_proj_weight: builtins.bool = ...,
    q_proj_weight: Tensor | None = ...,
    k_proj_weight: Tensor | None = ...,
    v_proj_weight: Tensor | None = ...,
    static_k: Tensor | None = ...,
    static_v: Tensor | None = ...,
    average_attn_weights: builtins.bool = ...,
    is_causal: builtins.bool = ...,
) -> builtins.tuple[Tensor, Tensor | None]: ...
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: builtins.int = ...,
    margin: builtins.float = ...,
    weight: Tensor | None = ...,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Tensor: ...
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Tensor: ...
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = ...,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Tensor: ...
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = ...,
    size_average: builtins.bool | None = ...,
    ignore_index: builtins.int = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Tensor: ...
def normalize(
    input: Tensor, p: builtins.float = ..., dim: builtins.int = ..., eps: builtins.float = ..., out: Tensor | None = ...
) -> Tensor: ...
def one_hot(tensor: Tensor, num_classes: builtins.int = ...) -> Tensor: ...
def pad(input: Tensor, pad: Any, mode: builtins.str = ..., value: builtins.float | None = ...) -> Tensor: ...
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: builtins.float = ..., eps: builtins.float = ..., keepdim: builtins.bool = ...
) -> Tensor: ...
def pdist(input: Tensor, p: builtins.float = ...) -> Tensor: ...
def pixel_shuffle(input: Tensor, upscale_factor: builtins.int) -> Tensor: ...
def pixel_unshuffle(input: Tensor, downscale_factor: builtins.int) -> Tensor: ...
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: builtins.bool = ...,
    full: builtins.bool = ...,
    size_average: builtins.bool | None = ...,
    eps: builtins.float = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Tensor: ...
def prelu(input: Tensor, weight: Tensor | Number, *, out: Any = ...) -> Tensor: ...
def relu(input: Tensor, inplace: builtins.bool = ...) -> Tensor: ...
def relu6(input: Tensor, inplace: builtins.bool = ...) -> Tensor: ...
def relu_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = ..., eps: builtins.float | None = ...
) -> Tensor: ...
def rrelu(
    input: Tensor,
    lower: builtins.float = ...,
    upper: builtins.float = ...,
    training: builtins.bool = ...,
    inplace: builtins.bool = ...,
) -> Tensor: ...
def rrelu_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = ...,
    dropout_p: builtins.float = ...,
    is_causal: builtins.bool = ...,
    scale: builtins.float | None = ...,
    enable_gqa: builtins.bool = ...,
) -> Tensor: ...
def selu(input: Tensor, inplace: builtins.bool = ...) -> Tensor: ...
def selu_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def sigmoid(input: Tensor, *, out: Any = ...) -> Tensor: ...
def sigmoid_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def silu(input: Tensor, inplace: builtins.bool = ...) -> Tensor: ...
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
    beta: builtins.float = ...,
) -> Tensor: ...
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Tensor: ...
def softmax(
    input: Tensor, dim: builtins.int | None = ..., _stacklevel: builtins.int = ..., dtype: dtype | None = ...
) -> Tensor: ...
def softmin(
    input: Tensor, dim: builtins.int | None = ..., _stacklevel: builtins.int = ..., dtype: dtype | None = ...
) -> Tensor: ...
def softplus(input: Tensor, beta: builtins.float = ..., threshold: builtins.float = ...) -> Tensor: ...
def softshrink(input: Tensor, lambd: builtins.float = ...) -> Tensor: ...
def softsign(input: Tensor) -> Tensor: ...
def tanh(input: Tensor, *, out: Any = ...) -> Tensor: ...
def tanh_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def tanhshrink(input: Tensor) -> Tensor: ...
def threshold(
    input: Tensor, threshold: builtins.float, value: builtins.float, inplace: builtins.bool = ...
) -> Tensor: ...
def threshold_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: builtins.float = ...,
    p: builtins.float = ...,
    eps: builtins.float = ...,
    swap: builtins.bool = ...,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Tensor: ...
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Any = ...,
    margin: builtins.float = ...,
    swap: builtins.bool = ...,
    reduction: builtins.str = ...,
) -> Tensor: ...
def unfold(
    input: Tensor, kernel_size: Ints, dilation: Ints = ..., padding: Ints = ..., stride: Ints = ...
) -> Tensor: ...
def upsample(
    input: Tensor,
    size: Ints | None = ...,
    scale_factor: Any = ...,
    mode: builtins.str = ...,
    align_corners: builtins.bool | None = ...,
) -> Tensor: ...
def upsample_bilinear(input: Tensor, size: Ints | None = ..., scale_factor: Any = ...) -> Tensor: ...
def upsample_nearest(input: Tensor, size: Ints | None = ..., scale_factor: Any = ...) -> Tensor: ...
