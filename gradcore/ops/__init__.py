"""Operations: one declaration each, from which everything else about an operation follows."""

from gradcore.torch_names import paths

#: The modules that declare operations, imported together.
FAMILIES = (
    "nn.activations", "products.addmm_activation", "elementwise.arithmetic", "nn.attention", "linalg.banded",
    "losses.bce_losses", "special.bessel", "shape.cat_split", "nn.channel_normalization", "linalg.cholesky",
    "products.collectives", "elementwise.comparison", "elementwise.complex", "nn.convolution",
    "signal.cosine_transforms", "losses.cross_entropy", "losses.ctc", "reductions.cumulative",
    "linalg.decompositions", "linalg.determinants", "signal.differences", "reductions.distances", "nn.dropout",
    "products.einsum", "indexing.embedding", "elementwise.exponential", "signal.fft", "elementwise.fill",
    "images.folding", "images.fractional", "special.gammas", "indexing.gather_scatter", "images.grid_sample",
    "reductions.histograms", "linalg.householder", "indexing.by_tensors", "linalg.ldl", "linalg.inverses",
    "products.linear", "elementwise.logical", "losses.regression", "linalg.lowrank", "linalg.lu",
    "losses.margin_losses", "reductions.masked", "products.matmul", "linalg.matrix_equations",
    "linalg.matrix_functions", "reductions.minmax", "shape.movement", "nn.multihead", "nn.normalization",
    "reductions.norms", "images.padding", "special.polynomials", "images.pooling", "nn.recurrent",
    "signal.recursive_filters", "reductions.sums", "images.resampling", "elementwise.rounding",
    "special.scipy_special", "elementwise.selection", "shape.slicing", "nn.softmax", "reductions.sorting",
    "products.sparse", "special.functions", "signal.spectrogram", "signal.splines", "reductions.statistics",
    "shape.strided", "shape.triangular", "elementwise.trigonometric", "signal.windowed",
)  # fmt: skip

__getattr__ = paths.further(__name__)
