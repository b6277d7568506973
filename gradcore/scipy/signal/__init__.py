"""`scipy.signal` on tensors: convolutions, filters, spectra and resampling, with derivatives in both modes.

Filters are differentiable with respect to the signal and to their coefficients. Functions that design filters and
windows are SciPy's own: they return NumPy arrays, which all functions here accept.

Examples
--------
>>> from gradcore.scipy import signal
>>> b, a = signal.butter(2, 0.3)
>>> x = gc.tensor([0.0, 1.0, 0.0, 0.0, 0.0], dtype=gc.float64, requires_grad=True)
>>> signal.lfilter(b, a, x)[1].backward()
>>> x.grad
tensor([0.3603, 0.1311, 0.0000, 0.0000, 0.0000], dtype=torch.float64)
"""

# ruff: noqa: F403

from __future__ import annotations

import importlib
from typing import Any

from gradcore.scipy.conversion import module_getattr
from gradcore.scipy.signal.convolution import *
from gradcore.scipy.signal.convolution import __all__ as _convolution
from gradcore.scipy.signal.rates import *
from gradcore.scipy.signal.rates import __all__ as _rates
from gradcore.scipy.signal.recursive import *
from gradcore.scipy.signal.recursive import __all__ as _recursive
from gradcore.scipy.signal.smoothing import *
from gradcore.scipy.signal.smoothing import __all__ as _smoothing
from gradcore.scipy.signal.spectra import *
from gradcore.scipy.signal.spectra import __all__ as _spectra

__all__ = sorted([*_convolution, *_rates, *_recursive, *_smoothing, *_spectra])

#: SciPy's own functions, which compute filters, windows and waveforms from numbers.
OWN = frozenset({
    "abcd_normalize", "bessel", "besselap", "bilinear", "bilinear_zpk", "buttap", "butter", "buttord",
    "cheb1ap", "cheb1ord", "cheb2ap", "cheb2ord", "cheby1", "cheby2", "check_COLA", "check_NOLA",
    "choose_conv_method", "cont2discrete", "correlation_lags", "czt_points", "ellip", "ellipap", "ellipord",
    "findfreqs", "firls", "firwin", "firwin2", "firwin_2d", "gammatone", "get_window", "iircomb", "iirdesign",
    "iirfilter", "iirnotch", "iirpeak", "kaiser_atten", "kaiser_beta", "kaiserord", "lp2bp", "lp2bp_zpk",
    "lp2bs", "lp2bs_zpk", "lp2hp", "lp2hp_zpk", "lp2lp", "lp2lp_zpk", "max_len_seq", "normalize", "remez",
    "savgol_coeffs", "sos2tf", "sos2zpk", "ss2tf", "ss2zpk", "tf2sos", "tf2ss", "tf2zpk", "unit_impulse",
    "windows", "zpk2sos", "zpk2ss", "zpk2tf",
})  # fmt: skip

_SYSTEMS = "systems are simulated by SciPy on arrays; see gradcore.scipy.integrate and lfilter"
_PEAKS = "positions of peaks have no derivative; give SciPy tensor.numpy()"
_WAVES = "it is a formula of the time in a line of NumPy's functions"
_SPLINES = "see gradcore.scipy.ndimage.spline_filter1d and map_coordinates"
_RATIONAL = "roots and residues of polynomials; see gradcore.linalg.eigvals of the companion matrix"

#: Functions of SciPy that are missing, with the reason.
LEFT_OUT = {
    **dict.fromkeys(
        ("BadCoefficients", "StateSpace", "TransferFunction", "ZerosPolesGain", "band_stop_obj", "bode", "dbode",
         "dfreqresp", "dimpulse", "dlsim", "dlti", "dstep", "freqresp", "impulse", "lsim", "lti", "place_poles",
         "step"), _SYSTEMS,
    ),
    **dict.fromkeys(
        ("argrelextrema", "argrelmax", "argrelmin", "find_peaks", "find_peaks_cwt", "peak_prominences",
         "peak_widths", "vectorstrength"), _PEAKS,
    ),
    **dict.fromkeys(("chirp", "gauss_spline", "gausspulse", "sawtooth", "square", "sweep_poly"), _WAVES),
    **dict.fromkeys(
        ("cspline1d", "cspline1d_eval", "cspline2d", "qspline1d", "qspline1d_eval", "qspline2d", "sepfir2d",
         "spline_filter", "symiirorder1", "symiirorder2"), _SPLINES,
    ),
    **dict.fromkeys(("deconvolve", "invres", "invresz", "residue", "residuez", "unique_roots"), _RATIONAL),
    **dict.fromkeys(
        ("freqs", "freqs_zpk", "freqz_sos", "freqz_zpk", "group_delay", "sosfreqz", "minimum_phase"),
        "see freqz, which is differentiated by the coefficients",
    ),
    **dict.fromkeys(("CZT", "ZoomFFT", "czt", "zoom_fft"), "a product with a matrix of the wanted frequencies"),
    **dict.fromkeys(("ShortTimeFFT", "closest_STFT_dual_window"), "see stft and istft"),
    "envelope": "see hilbert, whose absolute value is the envelope",
    "lfiltic": "the state follows from lfilter with zi, which returns it",
    "lombscargle": "a least-squares fit of sines, see gradcore.linalg.lstsq",
    "whittaker_henderson": "a system of linear equations, see gradcore.linalg.solve",  # SciPy 1.18
}  # fmt: skip

_missing = module_getattr(__name__, LEFT_OUT)


def __getattr__(name: str) -> Any:
    return getattr(importlib.import_module("scipy.signal"), name) if name in OWN else _missing(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *OWN])
