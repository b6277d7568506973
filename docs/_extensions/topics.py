"""Where users find an operation or a module class in the reference: pages by topic, sections by what they do.

Operations are listed by the family that declares them, module classes by name or prefix. A family or class that no
section has is a warning when the pages are made.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

__all__ = ["LAYERS", "OPERATIONS", "section_of_layer"]

#: File, title, and sections of pages of operations: a heading, and the families below it.
OPERATIONS = (
    ("elementwise", "Arithmetic and elementary functions", (
        ("Arithmetic: add, sub, mul, div, remainder, lerp", "elementwise.arithmetic"),
        ("Powers, exponentials, logarithms: pow, sqrt, exp, log, sigmoid", "elementwise.exponential"),
        ("Trigonometric and hyperbolic functions: sin, atan2, tanh", "elementwise.trigonometric"),
        ("Rounding, signs, absolute values: abs, round, floor, sign", "elementwise.rounding"),
        ("Selection and bounds: where, maximum, minimum, clamp", "elementwise.selection"),
        ("Comparisons: eq, lt, isnan, isclose", "elementwise.comparison"),
        ("Logic and bits: logical_and, bitwise_or", "elementwise.logical"),
        ("Complex numbers: real, imag, conj, angle, polar", "elementwise.complex"),
    )),
    ("special", "Special functions", (
        ("Error and gamma functions: erf, lgamma, digamma, igamma, zeta", "special.functions"),
        ("Bessel and Airy functions: bessel_j0, i0, airy_ai", "special.bessel"),
        ("Orthogonal polynomials: chebyshev, hermite, laguerre, legendre", "special.polynomials"),
    )),
    ("reductions", "Reductions, statistics, sorting", (
        ("Sums, means, products, tests: sum, mean, prod, all, any", "reductions.sums"),
        ("Maxima and minima: max, min, amax, argmax, cummax", "reductions.minmax"),
        ("Statistics: var, std, median, quantile, cov", "reductions.statistics"),
        ("Norms and distances: norm, dist, cdist, renorm", "reductions.norms"),
        ("Cumulative sums, differences, integrals: cumsum, diff, trapezoid", "reductions.cumulative"),
        ("Finite differences: gradient", "signal.differences"),
        ("Sorting and searching: sort, topk, unique, searchsorted", "reductions.sorting"),
        ("Histograms: bincount, histc, histogram", "reductions.histograms"),
        ("Reductions under a mask: masked.sum, masked.mean, masked.softmax", "reductions.masked"),
    )),
    ("shapes", "Shapes, views, joining", (
        ("Reshaping and reordering: reshape, permute, expand, flip, roll, squeeze", "shape.movement"),
        ("Joining and splitting: cat, stack, split, chunk, meshgrid", "shape.cat_split"),
        ("Slices: narrow, select, unfold", "shape.slicing"),
        ("Diagonals and triangles: diagonal, tril, triu", "shape.triangular"),
        ("Strided views: as_strided", "shape.strided"),
        ("Filling: fill", "elementwise.fill"),
    )),
    ("indexing", "Indexing, gather, scatter", (
        ("One index per element: gather, scatter, take, masked_fill, masked_select", "indexing.gather_scatter"),
        ("Indices along a dim: index_select, index_add, index_put, nonzero", "indexing.by_tensors"),
    )),
    ("linalg", "Linear algebra", (
        ("Products: matmul, mm, bmm, dot, outer, kron, tensordot", "products.matmul"),
        ("Products with a summand: linear, addmm, baddbmm", "products.linear products.addmm_activation"),
        ("Einstein summation: einsum", "products.einsum"),
        ("Systems of equations: solve, inv, solve_triangular, tensorsolve", "linalg.inverses"),
        ("Eigenvalues, QR, SVD: eigh, eig, qr, svd", "linalg.decompositions"),
        ("Cholesky: cholesky, cholesky_solve", "linalg.cholesky"),
        ("LU: lu_factor, lu_solve, lu_unpack", "linalg.lu"),
        ("LDL: ldl_factor, ldl_solve", "linalg.ldl"),
        ("Householder reflections: householder_product, geqrf, ormqr", "linalg.householder"),
        ("Low rank: svd_lowrank, pca_lowrank", "linalg.lowrank"),
        ("Determinants and traces: det, slogdet, trace", "linalg.determinants"),
        ("Functions of matrices: matrix_exp, matrix_power, pinv, lstsq, matrix_rank", "linalg.matrix_functions"),
    )),
    ("fourier", "Fourier transforms", (
        ("Fourier transforms: fft, rfft, ifftn, fftshift", "signal.fft"),
        ("Spectrograms: stft, istft", "signal.spectrogram"),
    )),
    ("layers", "Layers as functions", (
        ("Convolution: conv1d, conv2d, conv_transpose2d", "nn.convolution"),
        ("Pooling: max_pool2d, avg_pool2d, adaptive_avg_pool2d, lp_pool2d", "images.pooling"),
        ("Fractional max pooling: fractional_max_pool2d", "images.fractional"),
        ("Activations: relu, gelu, silu, leaky_relu, softplus", "nn.activations"),
        ("Softmax: softmax, log_softmax, logsumexp", "nn.softmax"),
        ("Normalization over the last dims: layer_norm, rms_norm", "nn.normalization"),
        ("Normalization of channels: batch_norm, group_norm, instance_norm", "nn.channel_normalization"),
        ("Attention: scaled_dot_product_attention", "nn.attention"),
        ("Multi-head attention: multi_head_attention_forward", "nn.multihead"),
        ("Embeddings: embedding, embedding_bag, one_hot", "indexing.embedding"),
        ("Dropout: dropout, alpha_dropout, feature_alpha_dropout", "nn.dropout"),
        ("Padding: pad", "images.padding"),
        ("Patches and pixels: unfold, fold, pixel_shuffle", "images.folding"),
        ("Resizing: interpolate", "images.resampling"),
        ("Sampling of images: grid_sample, affine_grid", "images.grid_sample"),
        ("Distances and similarities: cosine_similarity, normalize, bilinear", "reductions.distances"),
    )),
    ("losses", "Losses", (
        ("Classes: cross_entropy, nll_loss", "losses.cross_entropy"),
        ("Probabilities: binary_cross_entropy, kl_div", "losses.bce_losses"),
        ("Regression: mse_loss, l1_loss, huber_loss, gaussian_nll_loss", "losses.regression"),
        ("Margins: triplet_margin_loss, hinge_embedding_loss, multi_margin_loss", "losses.margin_losses"),
        ("Sequences: ctc_loss", "losses.ctc"),
    )),
)  # fmt: skip

#: Sections of the page of modules: a heading, and the classes below it, `X*` being all that begin with `X`.
LAYERS = (
    ("Modules and parameters", "Module Parameter Buffer Uninitialized*"),
    ("Containers", "Sequential ModuleList ModuleDict ParameterList ParameterDict"),
    ("Linear layers", "Linear Bilinear Identity LazyLinear Flatten Unflatten"),
    ("Convolution", "Conv* LazyConv*"),
    ("Pooling", "MaxPool* MaxUnpool* AvgPool* LPPool* Adaptive*Pool* FractionalMaxPool*"),
    ("Losses", "*Loss"),
    ("Activations", (
        "ReLU* LeakyReLU PReLU RReLU ELU SELU CELU GELU GLU SiLU Mish Hard* Soft* Sigmoid LogSigmoid Tanh Tanhshrink "
        "Threshold LogSoftmax"
    )),
    ("Normalization", (
        "BatchNorm* LayerNorm RMSNorm GroupNorm InstanceNorm* Lazy*Norm* SyncBatchNorm LocalResponseNorm CrossMapLRN2d"
    )),
    ("Recurrent nets", "RNN* LSTM* GRU*"),
    ("Transformers and attention", "Transformer* MultiheadAttention"),
    ("Embeddings", "Embedding*"),
    ("Dropout", "*Dropout*"),
    ("Padding", "*Pad1d *Pad2d *Pad3d"),
    ("Images", "Pixel* Channel* Upsampl* Fold Unfold"),
    ("Distances", "CosineSimilarity PairwiseDistance"),
    ("Several devices", "DataParallel"),
)  # fmt: skip


def section_of_layer(name: str) -> str | None:
    """Heading under which a module class stands, None if there is none."""
    for heading, patterns in LAYERS:
        if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
            return heading
    return None
