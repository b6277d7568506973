"""`gradcore.scipy.signal` against SciPy, and its derivatives."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.scipy import signal
from tests.scipy_functions.comparing import called, check_derivatives, check_values, expressions

pytest.importorskip("scipy", minversion="1.17")
import scipy.signal

pytestmark = pytest.mark.filterwarnings("ignore:nperseg")


def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    u = rng.uniform
    return {
        "A": u(-1, 1, (6, 7)),
        "W": u(-1, 1, (3, 2)),
        "B": u(-1, 1, (2, 8)),
        "V": u(-1, 1, 40),
        "K": u(-1, 1, 5),
        "C": u(-1, 1, 9) + 1j * u(-1, 1, 9),
        "D": u(-1, 1, 4) + 1j * u(-1, 1, 4),
        "G": u(-1, 1, 24) + 1j * u(-1, 1, 24),
        "F": u(-1, 1, 30).astype(np.float32),
        "I": rng.integers(0, 9, 12),
        "Y": u(-1, 1, (2, 40)),
        "N": u(-1, 1, 3),
        "P": np.array([1.3, -0.4, 0.2]),
        "S": np.concatenate([u(-1, 1, (2, 3)), [[1, -0.4, 0.1], [1, 0.3, 0.2]]], 1),
        "Z": u(-1, 1, 2),
        "Q": u(-1, 1, (2, 2)),
        "E": u(0.5, 1, 8),
        "X": u(-1, 1, (5, 6)) + 1j * u(-1, 1, (5, 6)),
        "M": (rng.permutation(42).reshape(6, 7) + 0.5) / 9,
    }


CALLS = """
convolve: V, K; V, K, "same"; V, K, "valid"; K, V, "same"; A, W; A, W, "valid"; C, D; V, K, method="fft"; I, I; F, F
convolve: A, W, "same", "fft"; C, D, "same", "fft"; I, I, method="fft"; W, A, "valid"
correlate: V, K; V, K, "same"; K, V, "valid"; C, D; A, W, "same"; C, D, "full", "fft"; A, W, method="direct"
fftconvolve: V, K; A, W, "same"; A, W, "valid"; B, B, axes=1; A, V[:7][None], axes=-1; C, D; F, F
oaconvolve: V, K; A, W, "valid"; V, K, "same"; B, K[:2][None], axes=1; C, D
convolve2d: A, W; A, W, "same"; A, W, "same", "symm"; A, W, "full", "wrap"; A, W, "same", "fill", 2.0; A, W, "valid"
correlate2d: A, W; A, W, "same"; A, W, "same", "wrap"; A, W, "valid"; W, A
lfilter: N, P, V; N, P, Y; N, P, A, 0; N, P, V, zi=Z; N, 1.0, V; [1.0], P, Y, zi=Q; N, [1.0, 0.5], G; N, P, F; K, P, N
lfilter_zi: N, P; K, P
filtfilt: N, P, V; N, P, Y, padtype="even"; N, P, V, padtype="constant", padlen=5; N, P, A, 0, padtype=None; N, P, G
sosfilt: S, V; S, Y; S, A, 0; S, V, zi=Q; S, G
sosfilt_zi: S
sosfiltfilt: S, V; S, Y, padtype="even"; S, A, axis=0, padlen=4
upfirdn: K, V; K, V, 3, 2; K, A, 2, 3, axis=0; K, G, 1, 4; D, V, 2; K, F, 2
resample_poly: V, 2, 3; V, 3, 1; A, 2, 1, axis=1; F, 3, 2; V, 2, 1, padtype="mean"; G, 1, 2; V, 3, 2, window=K
resample_poly: V, 2, 1, padtype="minimum"; V, 4, 6, padtype="median"
resample: V, 20; V, 60; V, 33; V, 81, window="hann"; A, 4, axis=1; G, 12; G, 40; F, 15; V, 30, np.arange(40) / 4
decimate: V, 2; V, 3, ftype="fir"; Y, 2, zero_phase=False; V, 4, 8, "fir", zero_phase=False
hilbert: V; A, 9; A, axis=0; F
hilbert2: A; A, (5, 8)
savgol_filter: V, 7, 2; V, 5, 3, 1, 0.5; A, 3, 1, axis=0; V, 6, 2, mode="mirror"; V, 5, 2, mode="constant", cval=1.0
savgol_filter: V, 6, 3; I, 5, 2; V, 5, 2, 2, mode="wrap"; F, 5, 2
detrend: V; A, 0; V, type="constant"; V, bp=[10, 25]; Y, -1, "linear", 13; I; F; G
medfilt: M; M, 5; M, (1, 3)
medfilt2d: M; M, (3, 5)
order_filter: M, np.ones((3, 3)), 3; M, np.eye(3), 1
wiener: A; A, (3, 5); A, 3, 0.2; V
periodogram: V; V, 2.0, "hann"; Y, nfft=64; V, nfft=30; A, axis=0; G; V, scaling="spectrum"; F
periodogram: V, return_onesided=False
welch: V, nperseg=16; V, 4.0, nperseg=10, noverlap=3, nfft=13; Y, nperseg=8, average="median"; A, nperseg=4, axis=0
welch: G, nperseg=8; V, window=E; V, nperseg=9, detrend="linear", scaling="spectrum"; V; F, nperseg=8; V, 1.0, E, 8
csd: V, Y, nperseg=16; V, V[::-1], nperseg=8, average="median"; V, K, nperseg=8; G, G[::-1], nperseg=8
csd: A, A[::-1], nperseg=4, axis=0; V, Y, nperseg=8, return_onesided=False, detrend=False
coherence: V, Y[0], nperseg=8; Y, Y[::-1], nperseg=10, noverlap=2
stft: V, nperseg=8; V, 2.0, nperseg=10, noverlap=7, nfft=12; Y, nperseg=8, boundary=None, padded=False
stft: A, nperseg=4, axis=0
stft: V, nperseg=8, boundary="even", detrend="constant"; V, nperseg=8, scaling="psd"; F, nperseg=8
stft: V, window=E, nperseg=8
stft: V, nperseg=8, boundary="odd"; V, nperseg=8, boundary="constant", return_onesided=False
istft: X; X, 2.0; X, nperseg=8, noverlap=6; X, scaling="psd"; X, boundary=False, window="boxcar"
istft: X.T, time_axis=0, freq_axis=1
istft: X[:4], input_onesided=False; X, nperseg=9
spectrogram: V, nperseg=8; V, nperseg=8, mode="complex"; V, nperseg=8, mode="magnitude"
spectrogram: A, nperseg=4, axis=0, noverlap=2
spectrogram: V, nperseg=8, mode="phase"; G, nperseg=8, return_onesided=False; V, nperseg=8, mode="angle"; F, nperseg=8
freqz: N, P; N, P, 16, True; K, worN=[0.1, 0.7]; N, P, 8, fs=10.0; N, worN=5, include_nyquist=True
"""


@pytest.mark.parametrize("expression", expressions(CALLS))
def test_values(expression: str) -> None:
    check_values(expression, "signal", arrays(), 1e-8)


def _smooth(expression: str) -> bool:
    """Return whether finite differences are reliable: steps of angles at pi are, phases of small numbers are not."""
    first = expression[expression.index("(") + 1]
    return first not in "FI" and "F," not in expression and "mode=" not in expression.partition("spectrogram")[2]


@pytest.mark.parametrize("expression", [e for e in expressions(CALLS) if _smooth(e)])
def test_derivatives(expression: str) -> None:
    given = arrays()
    if called(expression).startswith("sos"):  # of which one column is all ones
        given["S"] = np.array(given["S"], dtype=np.float32)
        if expression == "sosfilt_zi(S)":
            return
    check_derivatives(expression, "signal", given, called(expression) not in ("decimate", "resample_poly"))


def test_derivatives_by_sections() -> None:
    given = arrays()
    x = gc.tensor(given["V"])
    b = gc.tensor(given["S"][:, :3], requires_grad=True)
    a = gc.tensor(given["S"][:, 4:], requires_grad=True)

    def filtered(b: gc.Tensor, a: gc.Tensor) -> gc.Tensor:
        return signal.sosfiltfilt(gc.cat([b, gc.ones(2, 1, dtype=gc.float64), a], 1), x)

    assert gc.autograd.gradcheck(filtered, (b, a), fast_mode=True, check_forward_ad=True)
    assert gc.autograd.gradgradcheck(filtered, (b, a), fast_mode=True, atol=1e-3)


def test_what_is_made_of_numbers_is_scipys() -> None:
    assert signal.butter is scipy.signal.butter
    assert signal.windows is scipy.signal.windows
    listed = {*signal.__all__, *signal.OWN, *signal.LEFT_OUT}
    assert listed - {"whittaker_henderson"} <= set(scipy.signal.__all__) <= listed  # the name is new in SciPy 1.18
    assert len(listed) == len(signal.__all__) + len(signal.OWN) + len(signal.LEFT_OUT)
    with pytest.raises(AttributeError, match="no attribute 'find_peaks': positions"):
        signal.find_peaks  # noqa: B018


def test_functions_have_scipys_parameters() -> None:
    for name in signal.__all__:
        theirs = signature(getattr(scipy.signal, name)).parameters
        ours = signature(getattr(signal, name)).parameters
        assert [(p.name, p.kind) for p in ours.values()] == [(p.name, p.kind) for p in theirs.values()], name
        assert all(repr(ours[n].default) == repr(theirs[n].default) for n in ours), name


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("convolve(V, A)", ValueError),
        ("convolve(V, K, 'no')", ValueError),
        ("convolve(V, K, method='no')", ValueError),
        ("convolve(A, np.ones((7, 1)), 'valid')", ValueError),
        ("fftconvolve(A, W, axes=[])", ValueError),
        ("fftconvolve(A, W, axes=3)", ValueError),
        ("fftconvolve(A, W, axes=0)", ValueError),
        ("convolve2d(V, K)", ValueError),
        ("convolve2d(A, W, boundary='no')", ValueError),
        ("lfilter(N, P, V, zi=K)", ValueError),
        ("filtfilt(N, P, K)", ValueError),
        ("filtfilt(N, P, V, padtype='no')", ValueError),
        ("filtfilt(N, P, V, method='no')", ValueError),
        ("sosfilt(N, V)", ValueError),
        ("sosfilt(W, V)", ValueError),
        ("sosfilt(2 * S, V)", ValueError),
        ("resample(V, 4, domain='no')", ValueError),
        ("resample_poly(V, 0, 1)", ValueError),
        ("resample_poly(V, 1.5, 1)", ValueError),
        ("decimate(V, 2, ftype='no')", ValueError),
        ("hilbert(C)", ValueError),
        ("hilbert(V, -1)", ValueError),
        ("savgol_filter(K, 7, 2)", ValueError),
        ("savgol_filter(V, 7, 2, mode='no')", ValueError),
        ("detrend(V, type='no')", ValueError),
        ("detrend(V, bp=99)", ValueError),
        ("medfilt(V, 4)", ValueError),
        ("stft(V, scaling='no')", ValueError),
        ("stft(V, boundary='no', nperseg=8)", ValueError),
        ("istft(C)", ValueError),
        ("spectrogram(V, mode='no')", ValueError),
        ("welch(V, nperseg=8, average='no')", ValueError),
    ],
)
def test_errors_are_scipys(expression: str, error: type[Exception]) -> None:
    given = {**arrays(), "np": np}
    with pytest.raises(error) as theirs:
        eval(f"f.{expression}", {"f": scipy.signal, **given})
    tensors = {k: gc.tensor(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
    with pytest.raises(error) as ours:
        eval(f"f.{expression}", {"f": signal, **tensors})
    assert str(theirs.value)[:12] == str(ours.value)[:12]


def test_short_time_transforms_are_inverted() -> None:
    x = gc.tensor(arrays()["V"], requires_grad=True)
    _, again = signal.istft(signal.stft(x, nperseg=16)[2])
    assert gc.allclose(again[:40], x)
    again.sum().backward()
    assert gc.allclose(x.grad, gc.ones(40, dtype=gc.float64))


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, y: signal.correlate2d(x, y, "valid"), ((9, 10), (3, 3))),
        (lambda x, y: signal.upfirdn(y, x, 2, 3), ((3, 8), (4,))),
    ],
    ids=["correlate2d", "upfirdn"],
)
def test_inputs_may_have_any_strides(function: Any, shapes: Any) -> None:
    """Elements that are repeated, or whose distance is no multiple of their size."""
    x, y = (np.random.default_rng(0).standard_normal(shape) for shape in shapes)
    fields = np.zeros(x.shape, [("number", "u1"), ("x", "f8")])
    fields["x"] = x
    for strided in gc.tensor(x[0, :1]).expand(x.shape), gc.from_numpy(fields["x"]):
        expected = function(gc.tensor(strided.numpy()), gc.tensor(y))
        assert gc.allclose(function(strided, gc.tensor(y)), expected)
