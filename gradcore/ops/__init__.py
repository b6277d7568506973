"""Operations: one declaration each, from which everything else about an operation follows."""

from gradcore.torch_names import paths

#: The modules that declare operations, imported together.
FAMILIES = (
    "activations", "addmm_activation", "arithmetic", "attention", "banded", "bce_losses", "bessel", "cat_split",
    "channel_normalization", "cholesky", "collectives", "comparison", "complex", "convolution", "cosine_transforms",
    "cross_entropy",
    "ctc", "cumulative", "decompositions", "determinants", "differences", "distances", "dropout", "einsum",
    "embedding", "exponential", "fft", "fill", "folding", "fractional", "gammas", "gather_scatter", "grid_sample",
    "histograms", "householder", "indexing", "ldl", "linalg", "linear", "logical", "losses", "lowrank", "lu",
    "margin_losses", "masked", "matmul", "matrix_equations",
    "matrix_functions", "minmax", "movement", "multihead", "normalization",
    "norms", "padding", "polynomials", "pooling", "recurrent", "recursive_filters", "reductions",
    "resampling", "rounding", "scipy_special", "selection",
    "slicing", "softmax", "sorting", "sparse", "special", "spectrogram", "splines", "statistics", "strided",
    "triangular", "trigonometric", "windowed",
)  # fmt: skip

__getattr__ = paths.further(__name__)
