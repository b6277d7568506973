"""Which operations run in which precision under autocasting: one table for each type of device.

The names are those of operations in the table of operations; the choice is PyTorch's. What is not named runs in the
dtypes that it is given.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["CONDITIONS", "FLOAT32", "LOWER", "POLICIES", "REFUSED", "WIDEST"]

#: Arguments are converted to the lower precision; to float32; to the widest dtype among them; the call is an error.
LOWER, FLOAT32, WIDEST, REFUSED = "lower", "float32", "widest", "refused"

_BOTH = {
    LOWER: """
        addbmm addmm addmm_gelu addmm_relu baddbmm bmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d
        conv_transpose3d linalg_vecdot linear matmul mm prelu scaled_dot_product_attention
    """,
    FLOAT32: """
        binary_cross_entropy_with_logits cdist cosine_embedding_loss cross_entropy hinge_embedding_loss huber_loss
        kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss
        prod smooth_l1_loss soft_margin_loss triplet_margin_loss
    """,
}
_CPU = {
    LOWER: "contract",
    FLOAT32: """
        adaptive_avg_pool3d adaptive_max_pool3d adaptive_max_pool3d_with_indices avg_pool3d binary_cross_entropy
        cholesky cholesky_inverse cholesky_solve ctc_loss fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2
        fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn fractional_max_pool2d
        fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices geqrf grid_sample
        inverse linalg_cholesky linalg_cholesky_ex linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh
        linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_qr linalg_solve
        linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve lp_pool3d lu lu_solve max_pool3d max_unpool1d
        max_unpool2d max_unpool3d nanquantile orgqr ormqr pad_with_own pinverse polar qr quantile
        stft svd trace triangular_solve view_as_complex
    """,
    WIDEST: "cat index_copy stack",
}
_CUDA = {
    LOWER: "addmv addr einsum chain_matmul convolution linalg_multi_dot mv",
    FLOAT32: """
        acos asin cosh cosine_similarity cumprod cumsum dist erfinv exp expm1 group_norm interpolate layer_norm
        linalg_matrix_norm linalg_vector_norm log log10 log1p log2 log_softmax logsumexp native_layer_norm norm
        nuclear_norm pdist pow rdiv reciprocal renorm rms_norm rpow rsqrt sinh softmax softplus sum tan
    """,
    WIDEST: "addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot vdot",
    REFUSED: "binary_cross_entropy",
}

#: By the type of the device: the policy of each operation.
POLICIES: dict[str, dict[str, str]] = {
    device_type: {name: policy for table in (_BOTH, own) for policy, names in table.items() for name in names.split()}
    for device_type, own in (("cpu", _CPU), ("cuda", _CUDA))
}

#: Of the arguments of a call, whether the policy holds for it, where that depends on them.
CONDITIONS: dict[str, Callable[..., bool]] = {
    "max_pool3d": lambda *args: not args[-1],
    "pad_with_own": lambda self, pad, mode: mode == "replicate" or (mode == "reflect" and len(pad) < 6),
}
