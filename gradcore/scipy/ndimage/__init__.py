"""`scipy.ndimage` on tensors: filters and interpolation by splines, with derivatives in both modes and every order.

Filters are differentiable with respect to the array and to their weights (Gaussian filters to `sigma`). Interpolation
is differentiable with respect to the array and to coordinates, matrices, shifts and angles.

Examples
--------
>>> from gradcore.scipy import ndimage
>>> image = gc.arange(12.0, dtype=gc.float64).reshape(3, 4).requires_grad_()
>>> ndimage.gaussian_filter(image, 1.0)[1, 1].backward()
>>> image.grad.sum()
tensor(1., dtype=torch.float64)
"""

# ruff: noqa: F403

from __future__ import annotations

from gradcore.scipy.conversion import module_getattr
from gradcore.scipy.ndimage.filters import *
from gradcore.scipy.ndimage.filters import __all__ as _filters
from gradcore.scipy.ndimage.interpolation import *
from gradcore.scipy.ndimage.interpolation import __all__ as _interpolation
from gradcore.scipy.ndimage.ranks import *
from gradcore.scipy.ndimage.ranks import __all__ as _ranks

__all__ = sorted([*_filters, *_interpolation, *_ranks])

_WHOLE = "its results are whole numbers or bools, without a derivative; give SciPy tensor.numpy()"
_FUNCTION = "it calls a function for every element; map_coordinates, or windows of tensors, do this at once"
_MEASURED = "measurements of labelled regions are sums by label; see gradcore.bincount and index_add"
_GREY = "erosion and dilation by a window are minimum_filter and maximum_filter"

#: Functions of SciPy that are missing, with the reason.
LEFT_OUT = {
    **dict.fromkeys(
        ("binary_closing", "binary_dilation", "binary_erosion", "binary_fill_holes", "binary_hit_or_miss",
         "binary_opening", "binary_propagation", "distance_transform_bf", "distance_transform_cdt",
         "distance_transform_edt", "find_objects", "generate_binary_structure", "histogram", "iterate_structure",
         "label", "maximum_position", "minimum_position", "value_indices", "watershed_ift"), _WHOLE,
    ),
    **dict.fromkeys(
        ("generic_filter", "generic_filter1d", "geometric_transform", "labeled_comprehension", "vectorized_filter"),
        _FUNCTION,
    ),
    **dict.fromkeys(
        ("center_of_mass", "extrema", "maximum", "mean", "median", "minimum", "standard_deviation", "sum",
         "sum_labels", "variance"), _MEASURED,
    ),
    **dict.fromkeys(
        ("black_tophat", "grey_closing", "grey_dilation", "grey_erosion", "grey_opening", "morphological_gradient",
         "morphological_laplace", "white_tophat"), _GREY,
    ),
    **dict.fromkeys(
        ("fourier_ellipsoid", "fourier_gaussian", "fourier_shift", "fourier_uniform"),
        "it is a product with a function of the frequencies, see gradcore.fft.fftfreq",
    ),
}  # fmt: skip


def __dir__() -> list[str]:
    return [*__all__]


__getattr__ = module_getattr(__name__, LEFT_OUT)
