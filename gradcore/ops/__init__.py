"""Operations: one declaration each, from which everything else about an operation follows."""

from gradcore import paths

#: The modules that declare operations, imported together.
FAMILIES = (
    "activated", "activations", "affine", "arithmetic", "attention", "bessel", "channel_normalization", "cholesky",
    "classification", "comparison", "complex", "convolution", "ctc", "cumulative", "decompositions", "determinants",
    "differences", "distances", "dropout", "einsum", "embedding", "exponential", "extrema", "fft", "filling",
    "folding", "fractional", "gammas", "gathering", "grids", "histograms", "indefinite", "indexing", "joining",
    "linalg", "logical", "losses", "lowrank", "lu", "margins", "masked", "matrix_functions", "movement",
    "multihead", "normalization", "norms", "padding", "polynomials", "pooling", "probabilities", "products",
    "reductions", "reflections", "resampling", "rounding", "selection", "slicing", "softmax", "sorting", "special",
    "spectrogram", "statistics", "strided", "triangular", "trigonometric",
)  # fmt: skip

__getattr__ = paths.further(__name__)
