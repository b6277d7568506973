"""``scipy.interpolate`` of tensors: piecewise polynomials, splines, grids and scattered data."""

from gradcore.scipy.interpolate.bsplines import BSpline, make_interp_spline, make_lsq_spline, splev, splrep
from gradcore.scipy.interpolate.cubic import Akima1DInterpolator, CubicHermiteSpline, CubicSpline, PchipInterpolator
from gradcore.scipy.interpolate.grids import RegularGridInterpolator, interp1d, interpn
from gradcore.scipy.interpolate.piecewise import PPoly
from gradcore.scipy.interpolate.scattered import (
    LinearNDInterpolator,
    NearestNDInterpolator,
    RBFInterpolator,
    griddata,
)
from gradcore.scipy.interpolate.univariate import InterpolatedUnivariateSpline, LSQUnivariateSpline, UnivariateSpline

pchip = PchipInterpolator

__all__ = [
    "Akima1DInterpolator",
    "BSpline",
    "CubicHermiteSpline",
    "CubicSpline",
    "InterpolatedUnivariateSpline",
    "LSQUnivariateSpline",
    "LinearNDInterpolator",
    "NearestNDInterpolator",
    "PPoly",
    "PchipInterpolator",
    "RBFInterpolator",
    "RegularGridInterpolator",
    "UnivariateSpline",
    "griddata",
    "interp1d",
    "interpn",
    "make_interp_spline",
    "make_lsq_spline",
    "pchip",
    "splev",
    "splrep",
]
