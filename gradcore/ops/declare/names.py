"""Names of operations by the modules that declare them, so that these are imported when they are needed.

Written by ``python -m gradcore.tools.operation_names``.
"""

__all__ = ["ATTRIBUTES", "DECLARED", "FUNCTIONS", "INPLACE_METHODS", "METHODS", "RESULTS"]

#: Operations, and kernels of other names, by the module that declares them.
DECLARED = {
    "elementwise.arithmetic": """
add add_scaled addcdiv addcmul div div_rounded floor_divide fmod gcd lcm lerp mul neg positive rdiv reciprocal remainder
rsub scale sub sub_scaled true_divide trunc_divide
""",
    "elementwise.comparison": "eq ge gt isclose isfinite isinf isnan isneginf isposinf isreal le lt ne",
    "elementwise.complex": """
angle complex conj conj_physical conjugate_elements conjugated_physically imag imaginary_part is_complex
is_floating_point polar real real_part resolve_conj resolve_neg view_as_complex view_as_real
""",
    "elementwise.exponential": """
cbrt exp exp2 expm1 float_power frexp ldexp log log10 log1p log2 logaddexp logaddexp2 logit pow pow_number pow_tensor
rpow rsqrt sigmoid sqrt square
""",
    "elementwise.fill": """
copy copy_from drawn fill fill_number fill_number_ fill_tensor fill_tensor_ zero
""",
    "elementwise.logical": """
bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor logical_and logical_not logical_or
logical_xor
""",
    "elementwise.rounding": "abs ceil copysign floor frac heaviside nextafter round sgn sign signbit trunc",
    "elementwise.selection": """
clamp clamp_max clamp_max_number clamp_max_tensor clamp_min clamp_min_number clamp_min_tensor clamp_numbers
clamp_tensors fmax fmin maximum minimum nan_to_num select_where where where_of
""",
    "elementwise.trigonometric": """
acos acosh asin asinh atan atan2 atanh cos cosh deg2rad hypot rad2deg sin sinc sinh tan tanh tanh_backward
""",
    "images.folding": "channel_shuffle col2im fold im2col pixel_shuffle pixel_unshuffle unfold_images",
    "images.fractional": """
fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices
""",
    "images.grid_sample": "affine_grid grid_sample grid_sampler grid_sampler_backward",
    "images.padding": "constant_pad_nd pad pad_circularly pad_with_own pad_with_own_backward",
    "images.pooling": """
adaptive_avg_pool adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_avg_pool_spread adaptive_max_pool
adaptive_max_pool1d adaptive_max_pool1d_with_indices adaptive_max_pool2d adaptive_max_pool2d_with_indices
adaptive_max_pool3d adaptive_max_pool3d_with_indices avg_pool avg_pool1d avg_pool2d avg_pool3d avg_pool_spread lp_pool1d
lp_pool2d lp_pool3d max_pool max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d
max_pool3d_with_indices max_pool_chosen max_pool_gather max_pool_spread max_unpool max_unpool1d max_unpool2d
max_unpool3d
""",
    "images.resampling": """
interpolate resample resample_backward upsample upsample_bilinear upsample_nearest
""",
    "indexing.by_tensors": """
argwhere index index_add index_backward index_copy index_fill index_fill_number index_fill_tensor index_put index_reduce
index_select index_write nonzero nonzero_rows nonzero_static places_repeated_to repeat_interleave repeated_places
unravel_index
""",
    "indexing.embedding": """
embedding embedding_bag embedding_rows embedding_sum index_counts one_hot one_hot_of
""",
    "indexing.gather_scatter": """
gather gather_backward masked_back masked_fill masked_fill_number masked_fill_tensor masked_first masked_scatter
masked_select put scatter scatter_add scatter_reduce scatter_src scatter_value take take_along_dim
""",
    "linalg.banded": "banded_solved",
    "linalg.cholesky": """
cholesky cholesky_factor cholesky_inverse cholesky_solve linalg_cholesky linalg_cholesky_ex
""",
    "linalg.decompositions": """
assert_small complex_eigenvalues_without_vectors divide_by_gaps eigenvalues_without_vectors linalg_eig linalg_eigh
linalg_eigvals linalg_eigvalsh linalg_qr linalg_svd linalg_svdvals qr singular_values_without_vectors svd
""",
    "linalg.determinants": """
adjugate adjugate_change det is_regular linalg_det linalg_slogdet logdet new_eye slogdet trace
""",
    "linalg.householder": "geqrf linalg_householder_product orgqr ormqr",
    "linalg.inverses": """
inverse invert_with_info linalg_inv linalg_inv_ex linalg_solve linalg_solve_ex linalg_solve_triangular linalg_tensorinv
linalg_tensorsolve solve_keeping_factors solved_again triangular_solve
""",
    "linalg.ldl": "ldl_factors linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve",
    "linalg.lowrank": "pca_lowrank svd_lowrank",
    "linalg.lu": """
linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve lu lu_factors lu_solve lu_unpack permutation
""",
    "linalg.matrix_equations": "matrix_log matrix_sqrt polar_factors sylvester_solved",
    "linalg.matrix_functions": """
is_large least_squares linalg_cond linalg_diagonal linalg_lstsq linalg_matrix_exp linalg_matrix_power linalg_matrix_rank
linalg_pinv linalg_vander matrix_exp matrix_power pinverse pseudo_inverse vander
""",
    "losses.bce_losses": """
bce bce_backward bce_with_logits bce_with_logits_backward binary_cross_entropy binary_cross_entropy_with_logits kl_div
""",
    "losses.cross_entropy": """
class_ones class_pick class_spread class_totals class_weights cross_entropy linear_cross_entropy nll nll_backward
nll_loss softmax_nll softmax_nll_backward
""",
    "losses.ctc": "ctc_loss ctc_losses ctc_losses_backward",
    "losses.margin_losses": """
cosine_embedding_loss hinge hinge_embedding_loss margin_ranking_loss multi_margin_loss multilabel_margin_loss
multilabel_soft_margin_loss soft_margin soft_margin_backward soft_margin_loss triplet_margin_loss
triplet_margin_with_distance_loss
""",
    "losses.regression": """
gaussian_nll_loss huber_loss huber_loss_backward huber_loss_of l1_loss mse_loss mse_loss_backward mse_loss_of
poisson_nll_loss smooth_l1_loss smooth_l1_loss_backward smooth_l1_loss_of
""",
    "nn.activations": """
celu elu functional_celu functional_elu functional_hardsigmoid functional_hardswish functional_hardtanh
functional_leaky_relu functional_mish functional_relu functional_relu6 functional_selu functional_silu
functional_threshold gelu gelu_slope glu glu_backward hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid
mish prelu prelu_kernel relu rrelu rrelu_with_noise selu silu softplus softshrink softsign tanh_gelu_slope tanhshrink
threshold
""",
    "nn.attention": """
attention attention_backward flash_attention flash_attention_backward scaled_dot_product_attention softmax_or_zero
weight_factors
""",
    "nn.channel_normalization": """
batch_norm batch_norm_backward batch_norm_given group_norm group_norm_backward instance_norm native_batch_norm
native_group_norm
""",
    "nn.convolution": """
conv1d conv2d conv3d conv_input conv_output conv_transpose1d conv_transpose2d conv_transpose3d conv_weight convolution
""",
    "nn.dropout": """
alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout masked_scale record_dropout
""",
    "nn.multihead": "multi_head_attention_forward",
    "nn.normalization": """
fused_rms_norm layer_norm layer_norm_backward local_response_norm native_layer_norm rms_norm rms_norm_backward
""",
    "nn.recurrent": "gru_backward gru_sequence lstm_backward lstm_sequence rnn_backward rnn_sequence",
    "nn.softmax": """
log_softmax log_softmax_backward logsumexp logsumexp_backward nn_log_softmax nn_softmax softmax softmax_backward softmin
""",
    "products.addmm_activation": "activation_backward addmm_activation addmm_gelu addmm_relu product_and_sum",
    "products.collectives": """
all_gather_stacked all_reduce_sum broadcast_from exchange_rows reduce_scatter_sum reduce_sum
""",
    "products.einsum": "einsum",
    "products.linear": "addbmm addmm addmv addr baddbmm linear",
    "products.matmul": """
adjoint_times batched_matmul bmm chain_matmul contract cross dot hermitian inner kron linalg_cross linalg_matmul
linalg_multi_dot linalg_vecdot matmul mm mv outer sum_of_products sum_rows tensordot times_adjoint vdot
""",
    "products.sparse": """
known_as rows_summed sampled_product sparse_eigenpairs sparse_product sparse_solve
""",
    "reductions.cumulative": """
cumprod cumsum cumsum_backward cumulative_trapezoid diff logcumsumexp scan shift trapezoid
""",
    "reductions.distances": "bilinear cosine_similarity normalize pairwise_distance",
    "reductions.histograms": "bincount histc histogram histogramdd places_until",
    "reductions.masked": """
masked_amax masked_amin masked_argmax masked_argmin masked_cumprod masked_cumsum masked_log_softmax masked_logaddexp
masked_logsumexp masked_mean masked_median masked_norm masked_normalize masked_prod masked_softmax masked_softmin
masked_std masked_sum masked_var
""",
    "reductions.minmax": """
amax amin aminmax argmax argmin cummax cummin max max_all max_dim min min_all min_dim place same
""",
    "reductions.norms": """
cdist dist linalg_matrix_norm linalg_norm linalg_vector_norm norm nuclear_norm pdist renorm vector_norm_backward
""",
    "reductions.sorting": """
_unique2 argsort bucketize is_in isin msort search searchsorted sort topk unique unique_consecutive unique_consecutive_
""",
    "reductions.statistics": """
corrcoef cov kthvalue median median_all median_dim mode nanmedian nanmedian_all nanmedian_dim nanquantile quantile std
std_correction std_mean std_mean_correction var var_backward var_correction var_mean var_mean_correction
""",
    "reductions.sums": "all allclose any count_nonzero equal mean nanmean nansum prod prod_others sum",
    "shape.cat_split": """
atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cat chunk column_stack combinations dsplit
dstack hsplit hstack meshgrid split split_with_sizes stack tensor_split unbind unsafe_chunk unsafe_split
unsafe_split_with_sizes vsplit vstack
""",
    "shape.movement": """
adjoint alias broadcast_to clone contiguous expand expand_as flatten flip fliplr flipud movedim permute ravel repeat
reshape reshape_as roll rot90 squeeze sum_to_size swapaxes swapdims t tile transpose type_as unflatten unsafe_view
unsqueeze view view_as view_dtype view_shape
""",
    "shape.slicing": """
getitem getitem_backward narrow narrow_copy select select_scatter slice_of slice_scatter unfold_dim unfold_dim_backward
""",
    "shape.strided": """
as_strided as_strided_scatter strided_back strided_copy strided_view strided_write
""",
    "shape.triangular": """
diag diag_embed diagflat diagonal diagonal_backward diagonal_copy diagonal_scatter tril triu
""",
    "signal.cosine_transforms": "trigonometric_transform",
    "signal.differences": "gradient",
    "signal.fft": """
cut_or_pad fft_c2c fft_c2r fft_doubled fft_fft fft_fft2 fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft
fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_mirrored fft_r2c
fft_rfft fft_rfft2 fft_rfftn
""",
    "signal.recursive_filters": "rate_filter recursive_filter",
    "signal.spectrogram": "istft stft",
    "signal.splines": "spline_coefficients spline_sample spline_spread",
    "signal.windowed": "correlate_valid extend_borders fold_borders rank_index select_rank",
    "special.bessel": """
airy_ai airy_slope bessel_j0 bessel_j1 bessel_y0 bessel_y1 i0 i0e i1 i1e modified_bessel_i0 modified_bessel_i1
modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0
""",
    "special.functions": """
digamma entr erf erfc erfcx erfinv igamma igammac lgamma log_ndtr mvlgamma ndtr ndtri polygamma polygamma_of xlog1py
xlogy zeta
""",
    "special.gammas": "log_gamma_drawn",
    "special.polynomials": """
chebyshev_polynomial_t chebyshev_polynomial_t_derivative chebyshev_polynomial_u chebyshev_polynomial_u_derivative
chebyshev_polynomial_v chebyshev_polynomial_v_derivative chebyshev_polynomial_w chebyshev_polynomial_w_derivative
hermite_polynomial_h hermite_polynomial_h_derivative hermite_polynomial_he hermite_polynomial_he_derivative
laguerre_polynomial_l laguerre_polynomial_l_derivative legendre_polynomial_p legendre_polynomial_p_derivative
shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_t_derivative shifted_chebyshev_polynomial_u
shifted_chebyshev_polynomial_u_derivative shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_v_derivative
shifted_chebyshev_polynomial_w shifted_chebyshev_polynomial_w_derivative
""",
    "special.scipy_special": "special_of_four special_of_one special_of_three special_of_two",
}
#: Methods of tensors, with the name of the operation if it differs.
METHODS = """
_addmm_activation=addmm_activation abs absolute=abs acos acosh add addbmm addcdiv addcmul addmm addmv addr adjoint all
allclose amax amin aminmax angle any arccos=acos arccosh=acosh arcsin=asin arcsinh=asinh arctan=atan arctan2=atan2
arctanh=atanh argmax argmin argsort argwhere as_strided as_strided_scatter asin asinh atan atan2 atanh baddbmm bincount
bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm broadcast_to ceil cholesky
cholesky_inverse cholesky_solve chunk clamp clamp_max clamp_min clip=clamp clone combinations conj conj_physical
contiguous copysign corrcoef cos cosh count_nonzero cov cross cummax cummin cumprod cumsum deg2rad det diag diag_embed
diagflat diagonal diagonal_scatter diff digamma dist div divide=div dot dsplit eq equal erf erfc erfinv exp exp2 expand
expand_as expm1 fix=trunc flatten flip fliplr flipud float_power floor floor_divide fmax fmin fmod frac frexp gather gcd
ge geqrf ger=outer greater=gt greater_equal=ge gt hardshrink heaviside histc histogram hsplit hypot i0 igamma igammac
index_add index_copy index_fill index_put index_reduce index_select inner inverse isclose isfinite isinf isnan isneginf
isposinf isreal istft kron kthvalue lcm ldexp le lerp less=lt less_equal=le lgamma log log10 log1p log2 log_softmax
logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not logical_or logical_xor logit logsumexp lt lu lu_solve
masked_fill masked_scatter masked_select matmul matrix_exp matrix_power max maximum mean median min minimum mm mode
moveaxis=movedim movedim msort mul multiply=mul mv mvlgamma nan_to_num nanmean nanmedian nanquantile nansum narrow
narrow_copy ne neg negative=neg nextafter nonzero nonzero_static norm not_equal=ne orgqr ormqr outer permute pinverse
polygamma=polygamma_of positive pow prelu prod put qr quantile rad2deg ravel reciprocal relu remainder renorm repeat
repeat_interleave reshape reshape_as resolve_conj resolve_neg roll rot90 round rsqrt rsub scatter scatter_add
scatter_reduce select select_scatter sgn sigmoid sign signbit sin sinc sinh slice_scatter slogdet softmax sort split
split_with_sizes sqrt square squeeze std stft sub subtract=sub sum sum_to_size svd swapaxes swapdims t take
take_along_dim tan tanh tensor_split tile topk trace transpose triangular_solve tril triu true_divide trunc type_as
unbind unflatten unfold=unfold_dim unique unique_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze
var vdot view view_as view_as_complex view_as_real vsplit where=where_of xlogy
"""
#: In-place methods of tensors, with the name of the function in `gradcore.functional` if it differs.
INPLACE_METHODS = """
abs_ absolute_=abs_ acos_ acosh_ add_ addbmm_ addcdiv_ addcmul_ addmm_ addmv_ addr_ arccos_=acos_ arccosh_=acosh_
arcsin_=asin_ arcsinh_=asinh_ arctan2_=atan2_ arctan_=atan_ arctanh_=atanh_ asin_ asinh_ atan2_ atan_ atanh_ baddbmm_
bitwise_and_ bitwise_left_shift_ bitwise_not_ bitwise_or_ bitwise_right_shift_ bitwise_xor_ ceil_ celu_ clamp_
clamp_max_ clamp_min_ clip_=clamp_ conj_physical_ copysign_ cos_ cosh_ cumprod_ cumsum_ deg2rad_ digamma_ div_
divide_=div_ eq_ erf_ erfc_ erfinv_ exp2_ exp_ expm1_ fill_ fix_=trunc_ float_power_ floor_ floor_divide_ fmod_ frac_
gcd_ ge_ greater_=gt_ greater_equal_=ge_ gt_ heaviside_ hypot_ i0_ igamma_ igammac_ index_add_ index_copy_ index_fill_
index_put_ index_reduce_ lcm_ ldexp_ le_ lerp_ less_=lt_ less_equal_=le_ lgamma_ log10_ log1p_ log2_ log_ logaddexp2_
logaddexp_ logical_and_ logical_not_ logical_or_ logical_xor_ logit_ lt_ masked_fill_ masked_scatter_ mul_
multiply_=mul_ mvlgamma_ nan_to_num_ ne_ neg_ negative_=neg_ nextafter_ not_equal_=ne_ polygamma_=polygamma_of_ pow_
put_ rad2deg_ reciprocal_ relu_ remainder_ renorm_ round_ rsqrt_ rsub_ scatter_ scatter_add_ scatter_reduce_ selu_ sgn_
sigmoid_ sign_ signbit_ sin_ sinc_ sinh_ sqrt_ square_ sub_ subtract_=sub_ tan_ tanh_ threshold_ tril_ triu_
true_divide_ trunc_ xlogy_
"""
#: Attributes of tensors that are operations.
ATTRIBUTES = "imag real"
#: Functions by namespace, with the name in `gradcore.functional` if it differs.
FUNCTIONS = {
    "": """
_addmm_activation=addmm_activation abs abs_ absolute=abs absolute_=abs_ acos acos_ acosh acosh_ adaptive_avg_pool1d
adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d add addbmm addcdiv
addcmul addmm addmv addmv_ addr adjoint all allclose amax amin aminmax angle any arccos=acos arccos_=acos_ arccosh=acosh
arccosh_=acosh_ arcsin=asin arcsin_=asin_ arcsinh=asinh arcsinh_=asinh_ arctan=atan arctan2=atan2 arctan_=atan_
arctanh=atanh arctanh_=atanh_ argmax argmin argsort argwhere as_strided as_strided_scatter asin asin_ asinh asinh_ atan
atan2 atan_ atanh atanh_ atleast_1d atleast_2d atleast_3d avg_pool1d avg_pool2d avg_pool3d baddbmm bilinear bincount
bitwise_and bitwise_left_shift bitwise_not bitwise_not_ bitwise_or bitwise_right_shift bitwise_xor block_diag bmm
broadcast_tensors broadcast_to bucketize cartesian_prod cat cdist ceil ceil_ celu celu_ chain_matmul channel_shuffle
cholesky cholesky_inverse cholesky_solve chunk clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip=clamp
clip_=clamp_ clone column_stack combinations complex concat=cat concatenate=cat conj conj_physical conj_physical_
constant_pad_nd conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution copysign corrcoef
cos cos_ cosh cosh_ cosine_embedding_loss cosine_similarity count_nonzero cov cross cummax cummin cumprod cumsum
cumulative_trapezoid deg2rad deg2rad_ det diag diag_embed diagflat diagonal diagonal_scatter diff digamma digamma_ dist
div divide=div dot dsplit dstack einsum eq equal erf erf_ erfc erfc_ erfinv erfinv_ exp exp2 exp2_ exp_ expand expm1
expm1_ fill fill_ fix=trunc fix_=trunc_ flatten flip fliplr flipud float_power floor floor_ floor_divide fmax fmin fmod
frac frac_ frexp gather gcd gcd_ ge geqrf ger=outer gradient greater=gt greater_equal=ge group_norm gt hardshrink
heaviside hinge_embedding_loss histc histogram histogramdd hsplit hstack hypot i0 i0_ igamma igammac imag index_add
index_copy index_fill index_put index_reduce index_select inner inverse is_complex is_floating_point isclose isfinite
isin isinf isnan isneginf isposinf isreal istft kron kthvalue layer_norm lcm lcm_ ldexp ldexp_ le lerp less=lt
less_equal=le lgamma lgamma_ log log10 log10_ log1p log1p_ log2 log2_ log_ log_softmax logaddexp logaddexp2 logcumsumexp
logdet logical_and logical_not logical_not_ logical_or logical_xor logit logit_ logsumexp lt lu lu_solve lu_unpack
margin_ranking_loss masked_fill masked_scatter masked_select matmul matrix_exp matrix_power max max_pool1d max_pool2d
max_pool3d maximum mean median meshgrid min minimum mm mode moveaxis=movedim movedim msort mul multiply=mul mv mvlgamma
nan_to_num nan_to_num_ nanmean nanmedian nanquantile nansum narrow narrow_copy ne neg neg_ negative=neg negative_=neg_
nextafter nonzero nonzero_static norm not_equal=ne nuclear_norm orgqr ormqr outer pairwise_distance pca_lowrank pdist
permute pinverse pixel_shuffle pixel_unshuffle poisson_nll_loss polar polygamma positive pow prelu prod put qr quantile
rad2deg rad2deg_ ravel real reciprocal reciprocal_ relu relu_ remainder renorm repeat repeat_interleave reshape
resolve_conj resolve_neg rms_norm roll rot90 round round_ row_stack=vstack rrelu rrelu_ rsqrt rsqrt_ rsub scatter
scatter_add scatter_reduce searchsorted select select_scatter selu selu_ sgn sgn_ sigmoid sigmoid_ sign sign_ signbit
signbit_ sin sin_ sinc sinc_ sinh sinh_ slice_scatter slogdet softmax sort split split_with_sizes sqrt sqrt_ square
square_ squeeze stack std std_mean stft sub subtract=sub sum svd svd_lowrank swapaxes swapdims t take take_along_dim tan
tan_ tanh tanh_ tensor_split tensordot threshold threshold_ tile topk trace transpose trapezoid trapz=trapezoid
triangular_solve tril triplet_margin_loss triu true_divide trunc trunc_ unbind unflatten unique unique_consecutive
unravel_index unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze vander var var_mean vdot view_as_complex
view_as_real vsplit vstack where xlogy xlogy_
""",
    "fft": """
fft=fft_fft fft2=fft_fft2 fftn=fft_fftn fftshift=fft_fftshift hfft=fft_hfft hfft2=fft_hfft2 hfftn=fft_hfftn
ifft=fft_ifft ifft2=fft_ifft2 ifftn=fft_ifftn ifftshift=fft_ifftshift ihfft=fft_ihfft ihfft2=fft_ihfft2
ihfftn=fft_ihfftn irfft=fft_irfft irfft2=fft_irfft2 irfftn=fft_irfftn rfft=fft_rfft rfft2=fft_rfft2 rfftn=fft_rfftn
""",
    "linalg": """
cholesky=linalg_cholesky cholesky_ex=linalg_cholesky_ex cond=linalg_cond cross=linalg_cross det=linalg_det
diagonal=linalg_diagonal eig=linalg_eig eigh=linalg_eigh eigvals=linalg_eigvals eigvalsh=linalg_eigvalsh
householder_product=linalg_householder_product inv=linalg_inv inv_ex=linalg_inv_ex ldl_factor=linalg_ldl_factor
ldl_factor_ex=linalg_ldl_factor_ex ldl_solve=linalg_ldl_solve lstsq=linalg_lstsq lu=linalg_lu lu_factor=linalg_lu_factor
lu_factor_ex=linalg_lu_factor_ex lu_solve=linalg_lu_solve matmul=linalg_matmul matrix_exp=linalg_matrix_exp
matrix_norm=linalg_matrix_norm matrix_power=linalg_matrix_power matrix_rank=linalg_matrix_rank
multi_dot=linalg_multi_dot norm=linalg_norm pinv=linalg_pinv qr=linalg_qr slogdet=linalg_slogdet solve=linalg_solve
solve_ex=linalg_solve_ex solve_triangular=linalg_solve_triangular svd=linalg_svd svdvals=linalg_svdvals
tensorinv=linalg_tensorinv tensorsolve=linalg_tensorsolve vander=linalg_vander vecdot=linalg_vecdot
vector_norm=linalg_vector_norm
""",
    "masked": """
amax=masked_amax amin=masked_amin argmax=masked_argmax argmin=masked_argmin cumprod=masked_cumprod cumsum=masked_cumsum
log_softmax=masked_log_softmax logaddexp=masked_logaddexp logsumexp=masked_logsumexp mean=masked_mean
median=masked_median norm=masked_norm normalize=masked_normalize prod=masked_prod softmax=masked_softmax
softmin=masked_softmin std=masked_std sum=masked_sum var=masked_var
""",
    "nn.functional": """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool1d_with_indices
adaptive_max_pool2d adaptive_max_pool2d_with_indices adaptive_max_pool3d adaptive_max_pool3d_with_indices affine_grid
alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear binary_cross_entropy binary_cross_entropy_with_logits
celu=functional_celu celu_=functional_celu_ channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d
conv_transpose3d cosine_embedding_loss cosine_similarity cross_entropy ctc_loss dropout dropout1d dropout2d dropout3d
elu=functional_elu elu_=functional_elu_ embedding embedding_bag feature_alpha_dropout fold fractional_max_pool2d
fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices gaussian_nll_loss gelu glu
grid_sample group_norm hardshrink hardsigmoid=functional_hardsigmoid hardswish=functional_hardswish
hardtanh=functional_hardtanh hardtanh_=functional_hardtanh_ hinge_embedding_loss huber_loss instance_norm interpolate
kl_div l1_loss layer_norm leaky_relu=functional_leaky_relu leaky_relu_=functional_leaky_relu_ linear
linear_cross_entropy local_response_norm log_softmax=nn_log_softmax logsigmoid logsigmoid_ lp_pool1d lp_pool2d lp_pool3d
margin_ranking_loss max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d
max_pool3d_with_indices max_unpool1d max_unpool2d max_unpool3d mish=functional_mish mse_loss
multi_head_attention_forward multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss normalize
one_hot pad pairwise_distance pdist pixel_shuffle pixel_unshuffle poisson_nll_loss prelu relu=functional_relu
relu6=functional_relu6 relu_=functional_relu_ rms_norm rrelu rrelu_ scaled_dot_product_attention selu=functional_selu
selu_=functional_selu_ sigmoid sigmoid_ silu=functional_silu smooth_l1_loss soft_margin_loss softmax=nn_softmax softmin
softplus softshrink softsign tanh tanh_ tanhshrink threshold=functional_threshold threshold_=functional_threshold_
triplet_margin_loss triplet_margin_with_distance_loss unfold=unfold_images upsample upsample_bilinear upsample_nearest
""",
    "special": """
airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v
chebyshev_polynomial_w digamma entr erf erfc erfcx erfinv exp2 expit=sigmoid expm1 gammainc=igamma gammaincc=igammac
gammaln=lgamma hermite_polynomial_h hermite_polynomial_he i0 i0e i1 i1e laguerre_polynomial_l legendre_polynomial_p
log1p log_ndtr log_softmax logit logsumexp modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1
multigammaln=mvlgamma ndtr ndtri polygamma psi=digamma round scaled_modified_bessel_k0 scaled_modified_bessel_k1
shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
shifted_chebyshev_polynomial_w sinc softmax spherical_bessel_j0 xlog1py xlogy zeta
""",
}
#: Named tuples of results, with the name of the operation if it differs.
RESULTS = """
aminmax cummax cummin frexp geqrf histogram histogramdd kthvalue linalg_cholesky_ex linalg_eig linalg_eigh linalg_inv_ex
linalg_ldl_factor linalg_ldl_factor_ex linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_qr
linalg_slogdet linalg_solve_ex linalg_svd lu_unpack max=max_dim median=median_dim min=min_dim mode
nanmedian=nanmedian_dim qr slogdet sort svd topk triangular_solve
"""
