"""``scipy.optimize`` of tensors: minima, roots and fits, computed by SciPy and differentiated implicitly."""

from gradcore.scipy.optimize.minimizing import curve_fit, least_squares, minimize, minimize_scalar, nnls
from gradcore.scipy.optimize.roots import (
    bisect,
    brenth,
    brentq,
    fixed_point,
    fsolve,
    linear_sum_assignment,
    newton,
    ridder,
    root,
    root_scalar,
    toms748,
)

__all__ = [
    "bisect",
    "brenth",
    "brentq",
    "curve_fit",
    "fixed_point",
    "fsolve",
    "least_squares",
    "linear_sum_assignment",
    "minimize",
    "minimize_scalar",
    "newton",
    "nnls",
    "ridder",
    "root",
    "root_scalar",
    "toms748",
]
