"""Written by gradcore.stubs from the table of operations."""

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

from gradcore.dtypes import dtype
from gradcore.nn.gumbel import gumbel_softmax as gumbel_softmax
from gradcore.tensor import Tensor

Number: TypeAlias = builtins.bool | builtins.int | builtins.float | builtins.complex
Ints: TypeAlias = builtins.int | Sequence[builtins.int]
Dims: TypeAlias = Ints | None

def adaptive_avg_pool1d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None) -> Any: ...
def adaptive_avg_pool2d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None) -> Any: ...
def adaptive_avg_pool3d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None) -> Any: ...
def adaptive_max_pool1d(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, return_indices: builtins.bool = ...
) -> Any: ...
def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None
) -> Any: ...
def adaptive_max_pool2d(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, return_indices: builtins.bool = ...
) -> Any: ...
def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None
) -> Any: ...
def adaptive_max_pool3d(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None, return_indices: builtins.bool = ...
) -> Any: ...
def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None
) -> Any: ...
def affine_grid(theta: Tensor, size: Any, align_corners: builtins.bool | None = ...) -> Any: ...
def alpha_dropout(
    input: Tensor, p: builtins.float = ..., training: builtins.bool = ..., inplace: builtins.bool = ...
) -> Any: ...
def avg_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    ceil_mode: builtins.bool = ...,
    count_include_pad: builtins.bool = ...,
    divisor_override: builtins.int | None = ...,
) -> Any: ...
def avg_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    ceil_mode: builtins.bool = ...,
    count_include_pad: builtins.bool = ...,
    divisor_override: builtins.int | None = ...,
) -> Any: ...
def avg_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    ceil_mode: builtins.bool = ...,
    count_include_pad: builtins.bool = ...,
    divisor_override: builtins.int | None = ...,
) -> Any: ...
def batch_norm(
    input: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    training: builtins.bool = ...,
    momentum: builtins.float = ...,
    eps: builtins.float = ...,
) -> Any: ...
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = ...) -> Any: ...
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = ...,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Any: ...
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = ...,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
    pos_weight: Tensor | None = ...,
) -> Any: ...
def celu(input: Tensor, alpha: builtins.float = ..., inplace: builtins.bool = ...) -> Any: ...
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
) -> Any: ...
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Ints = ...,
    padding: Any = ...,
    dilation: Ints = ...,
    groups: builtins.int = ...,
) -> Any: ...
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Ints = ...,
    padding: Any = ...,
    dilation: Ints = ...,
    groups: builtins.int = ...,
) -> Any: ...
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Ints = ...,
    padding: Ints = ...,
    output_padding: Ints = ...,
    groups: builtins.int = ...,
    dilation: Ints = ...,
) -> Any: ...
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Ints = ...,
    padding: Ints = ...,
    output_padding: Ints = ...,
    groups: builtins.int = ...,
    dilation: Ints = ...,
) -> Any: ...
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Ints = ...,
    padding: Ints = ...,
    output_padding: Ints = ...,
    groups: builtins.int = ...,
    dilation: Ints = ...,
) -> Any: ...
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: builtins.float = ...,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Any: ...
def cosine_similarity(x1: Tensor, x2: Tensor, dim: builtins.int = ..., eps: builtins.float = ...) -> Any: ...
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = ...,
    size_average: builtins.bool | None = ...,
    ignore_index: builtins.int = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
    label_smoothing: builtins.float = ...,
) -> Any: ...
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: builtins.int = ...,
    reduction: builtins.str = ...,
    zero_infinity: builtins.bool = ...,
) -> Any: ...
def dropout(
    input: Tensor, p: builtins.float = ..., training: builtins.bool = ..., inplace: builtins.bool = ...
) -> Any: ...
def dropout1d(
    input: Tensor, p: builtins.float = ..., training: builtins.bool = ..., inplace: builtins.bool = ...
) -> Any: ...
def dropout2d(
    input: Tensor, p: builtins.float = ..., training: builtins.bool = ..., inplace: builtins.bool = ...
) -> Any: ...
def dropout3d(
    input: Tensor, p: builtins.float = ..., training: builtins.bool = ..., inplace: builtins.bool = ...
) -> Any: ...
def elu(input: Tensor, alpha: builtins.float = ..., inplace: builtins.bool = ...) -> Any: ...
def elu_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: builtins.int | None = ...,
    max_norm: builtins.float | None = ...,
    norm_type: builtins.float = ...,
    scale_grad_by_freq: builtins.bool = ...,
    sparse: builtins.bool = ...,
) -> Any: ...
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
) -> Any: ...
def feature_alpha_dropout(
    input: Tensor, p: builtins.float = ..., training: builtins.bool = ..., inplace: builtins.bool = ...
) -> Any: ...
def fold(
    input: Tensor, output_size: Ints, kernel_size: Ints, dilation: Ints = ..., padding: Ints = ..., stride: Ints = ...
) -> Any: ...
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = ...,
    output_ratio: Any = ...,
    return_indices: builtins.bool = ...,
    _random_samples: Tensor | None = ...,
) -> Any: ...
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = ...,
    output_ratio: Any = ...,
    return_indices: builtins.bool = ...,
    _random_samples: Tensor | None = ...,
) -> Any: ...
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = ...,
    output_ratio: Any = ...,
    return_indices: builtins.bool = ...,
    _random_samples: Tensor | None = ...,
) -> Any: ...
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
) -> Any: ...
def gelu(input: Tensor, *, approximate: builtins.str = ...) -> Tensor: ...
def glu(input: Tensor, dim: builtins.int = ...) -> Tensor: ...
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: builtins.str = ...,
    padding_mode: builtins.str = ...,
    align_corners: builtins.bool | None = ...,
) -> Any: ...
def group_norm(
    input: Tensor,
    num_groups: builtins.int,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    eps: builtins.float = ...,
) -> Any: ...
def hardshrink(input: Tensor, lambd: builtins.float = ..., *, out: Any = ...) -> Tensor: ...
def hardsigmoid(input: Tensor, inplace: builtins.bool = ...) -> Any: ...
def hardswish(input: Tensor, inplace: builtins.bool = ...) -> Any: ...
def hardtanh(
    input: Tensor, min_val: builtins.float = ..., max_val: builtins.float = ..., inplace: builtins.bool = ...
) -> Any: ...
def hardtanh_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: builtins.float = ...,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Any: ...
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: builtins.str = ...,
    delta: builtins.float = ...,
    weight: Tensor | None = ...,
) -> Any: ...
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = ...,
    running_var: Tensor | None = ...,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    use_input_stats: builtins.bool = ...,
    momentum: builtins.float = ...,
    eps: builtins.float = ...,
) -> Any: ...
def interpolate(
    input: Tensor,
    size: Ints | None = ...,
    scale_factor: Any = ...,
    mode: builtins.str = ...,
    align_corners: builtins.bool | None = ...,
    recompute_scale_factor: builtins.bool | None = ...,
    antialias: builtins.bool = ...,
) -> Any: ...
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
    log_target: builtins.bool = ...,
) -> Any: ...
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
    weight: Tensor | None = ...,
) -> Any: ...
def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    eps: builtins.float = ...,
) -> Any: ...
def leaky_relu(input: Tensor, negative_slope: builtins.float = ..., inplace: builtins.bool = ...) -> Any: ...
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
) -> Any: ...
def local_response_norm(
    input: Tensor, size: builtins.int, alpha: builtins.float = ..., beta: builtins.float = ..., k: builtins.float = ...
) -> Any: ...
def log_softmax(
    input: Tensor, dim: builtins.int | None = ..., _stacklevel: builtins.int = ..., dtype: dtype | None = ...
) -> Any: ...
def logsigmoid(input: Tensor) -> Tensor: ...
def logsigmoid_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def lp_pool1d(
    input: Tensor,
    norm_type: builtins.float,
    kernel_size: Ints,
    stride: Ints | None = ...,
    ceil_mode: builtins.bool = ...,
) -> Any: ...
def lp_pool2d(
    input: Tensor,
    norm_type: builtins.float,
    kernel_size: Ints,
    stride: Ints | None = ...,
    ceil_mode: builtins.bool = ...,
) -> Any: ...
def lp_pool3d(
    input: Tensor,
    norm_type: builtins.float,
    kernel_size: Ints,
    stride: Ints | None = ...,
    ceil_mode: builtins.bool = ...,
) -> Any: ...
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: builtins.float = ...,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Any: ...
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
) -> Any: ...
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
) -> Any: ...
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
) -> Any: ...
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    output_size: Ints | None = ...,
) -> Any: ...
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    output_size: Ints | None = ...,
) -> Any: ...
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = ...,
    padding: Ints = ...,
    output_size: Ints | None = ...,
) -> Any: ...
def mish(input: Tensor, inplace: builtins.bool = ...) -> Any: ...
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
    weight: Tensor | None = ...,
) -> Any: ...
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
) -> Any: ...
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: builtins.int = ...,
    margin: builtins.float = ...,
    weight: Tensor | None = ...,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Any: ...
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Any: ...
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = ...,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Any: ...
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = ...,
    size_average: builtins.bool | None = ...,
    ignore_index: builtins.int = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Any: ...
def normalize(
    input: Tensor, p: builtins.float = ..., dim: builtins.int = ..., eps: builtins.float = ..., out: Tensor | None = ...
) -> Any: ...
def one_hot(tensor: Tensor, num_classes: builtins.int = ...) -> Any: ...
def pad(input: Tensor, pad: Any, mode: builtins.str = ..., value: Number | None = ...) -> Any: ...
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: builtins.float = ..., eps: builtins.float = ..., keepdim: builtins.bool = ...
) -> Any: ...
def pdist(input: Tensor, p: builtins.float = ...) -> Any: ...
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
) -> Any: ...
def prelu(input: Tensor, weight: Tensor | Number, *, out: Any = ...) -> Any: ...
def relu(input: Tensor, inplace: builtins.bool = ...) -> Any: ...
def relu6(input: Tensor, inplace: builtins.bool = ...) -> Any: ...
def relu_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = ..., eps: builtins.float | None = ...
) -> Any: ...
def rrelu(
    input: Tensor,
    lower: builtins.float = ...,
    upper: builtins.float = ...,
    training: builtins.bool = ...,
    inplace: builtins.bool = ...,
) -> Any: ...
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
) -> Any: ...
def selu(input: Tensor, inplace: builtins.bool = ...) -> Any: ...
def selu_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def sigmoid(input: Tensor, *, out: Any = ...) -> Tensor: ...
def sigmoid_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def silu(input: Tensor, inplace: builtins.bool = ...) -> Any: ...
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
    beta: builtins.float = ...,
) -> Any: ...
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: builtins.bool | None = ...,
    reduce: builtins.bool | None = ...,
    reduction: builtins.str = ...,
) -> Any: ...
def softmax(
    input: Tensor, dim: builtins.int | None = ..., _stacklevel: builtins.int = ..., dtype: dtype | None = ...
) -> Any: ...
def softmin(
    input: Tensor, dim: builtins.int | None = ..., _stacklevel: builtins.int = ..., dtype: dtype | None = ...
) -> Any: ...
def softplus(input: Tensor, beta: builtins.float = ..., threshold: builtins.float = ...) -> Tensor: ...
def softshrink(input: Tensor, lambd: builtins.float = ...) -> Tensor: ...
def softsign(input: Tensor) -> Any: ...
def tanh(input: Tensor, *, out: Any = ...) -> Tensor: ...
def tanh_(input: Tensor, *args: Any, **named: Any) -> Tensor: ...
def tanhshrink(input: Tensor) -> Any: ...
def threshold(input: Tensor, threshold: Number, value: Number, inplace: builtins.bool = ...) -> Any: ...
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
) -> Any: ...
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Any = ...,
    margin: builtins.float = ...,
    swap: builtins.bool = ...,
    reduction: builtins.str = ...,
) -> Any: ...
def unfold(input: Tensor, kernel_size: Ints, dilation: Ints = ..., padding: Ints = ..., stride: Ints = ...) -> Any: ...
def upsample(
    input: Tensor,
    size: Ints | None = ...,
    scale_factor: Any = ...,
    mode: builtins.str = ...,
    align_corners: builtins.bool | None = ...,
) -> Any: ...
def upsample_bilinear(input: Tensor, size: Ints | None = ..., scale_factor: Any = ...) -> Any: ...
def upsample_nearest(input: Tensor, size: Ints | None = ..., scale_factor: Any = ...) -> Any: ...
