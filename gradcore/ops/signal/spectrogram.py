"""The short-time Fourier transform and its inverse."""

from __future__ import annotations

from gradcore.core.errors import warn_once
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite


def _window(F, x, window, n_fft: int, win_length: int, consequence: str):
    """Return the window centred in a frame of `n_fft` samples.

    Without a window, return ones, and warn of the `consequence`.
    """
    if window is None:
        warn_once(
            f"A window was not provided. A rectangular window will be applied{consequence} Explicitly set "
            "`window=torch.ones(win_length)` to suppress this warning."
        )
        window = F.ones_like(x.reshape(-1)[:1].expand(win_length))
    if tuple(window.shape) != (win_length,):
        raise RuntimeError(
            f"expected a 1D window tensor of size equal to win_length={win_length}, but got window with size "
            f"{list(window.shape)}"
        )
    left = (n_fft - win_length) // 2
    return F.pad(window, (left, n_fft - win_length - left)) if win_length < n_fft else window


def _lengths(n_fft: int, hop_length: int | None, win_length: int | None) -> tuple[int, int]:
    hop = n_fft // 4 if hop_length is None else hop_length
    win = n_fft if win_length is None else win_length
    if hop <= 0:
        raise RuntimeError(f"stft expected hop_length > 0, but got hop_length={hop}")
    if not 0 < win <= n_fft:
        raise RuntimeError(f"stft expected 0 < win_length <= n_fft, but got win_length={win} and n_fft={n_fft}")
    return hop, win


@composite(
    samples=lambda: [
        case(floats(20), 8, return_complex=True),
        case(floats(2, 24), 8, 3, 6, floats(6, low=0.5, high=1), return_complex=True),
        case(floats(16), 8, center=False, normalized=True, return_complex=False),
    ],
    autocast="float32:cpu",
)
def stft(
    F,
    self,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window=None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
):
    """Return the Fourier transforms of overlapping windowed frames.

    The last dim of the result counts the frames, the one before the frequencies.

    Returns
    -------
    Tensor
        Result of shape ``(*, n_fft // 2 + 1, frames)``, or ``(*, n_fft, frames)`` if not `onesided`; real results have
        a last dim of 2.

    Examples
    --------
    >>> gc.stft(gc.ones(16), n_fft=4, window=gc.ones(4), return_complex=True).shape
    torch.Size([3, 17])
    """
    hop, win = _lengths(n_fft, hop_length, win_length)
    if self.ndim not in (1, 2):
        raise RuntimeError(f"stft expected a 1D or 2D tensor, but got a {self.ndim}D tensor")
    is_complex = self.is_complex() or (window is not None and window.is_complex())
    if return_complex is None and not is_complex:
        raise RuntimeError("stft requires the return_complex parameter be given for real inputs.")
    onesided = not is_complex if onesided is None else onesided
    if onesided and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    x = self
    if center:
        x = F.pad(F.reshape(x, (1,) * (3 - x.ndim) + tuple(x.shape)), (n_fft // 2, n_fft // 2), pad_mode)
        x = F.reshape(x, (*self.shape[:-1], x.shape[-1]))
    if x.shape[-1] < n_fft:
        raise RuntimeError(f"stft expected 0 < n_fft <= {x.shape[-1]}, but got n_fft={n_fft}")
    # The window is built last, because its length n_fft has to be checked before.
    window = _window(F, self, window, n_fft, win, ", which is known to cause spectral leakage.")
    frames = F.unfold_dim(x, -1, n_fft, hop) * window
    transform = F.fft_rfft if onesided else F.fft_fft
    out = F.transpose(transform(frames, norm="ortho" if normalized else "backward"), -1, -2)
    as_complex = is_complex if return_complex is None else return_complex
    return F.unsafe_view(out if as_complex else F.view_as_real(out))


@composite(
    samples=lambda: [
        case(floats(5, 9, form="complex"), 8),
        case(floats(2, 5, 7, form="complex"), 8, 3, 8, floats(8, low=0.5, high=1), length=18),
        case(floats(8, 6, form="complex"), 8, onesided=False, center=False, return_complex=True),
    ]
)
def istft(
    F,
    self,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window=None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
):
    """Return the signal of a short-time Fourier transform, by least squares.

    Frames are transformed back, windowed and added, and the sum of the squared windows is divided out.

    Returns
    -------
    Tensor
        Result of shape ``(*, length)``.

    Examples
    --------
    >>> spectrum = gc.stft(gc.arange(8.0), n_fft=4, window=gc.ones(4), return_complex=True)
    >>> gc.istft(spectrum, n_fft=4, window=gc.ones(4))
    tensor([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    hop, win = _lengths(n_fft, hop_length, win_length)
    if not self.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if self.ndim not in (2, 3):
        raise RuntimeError(f"istft expected a tensor with 2 or 3 dimensions, but got {self.ndim}")
    onesided = self.shape[-2] != n_fft if onesided is None else onesided
    if self.shape[-2] != (n_fft // 2 + 1 if onesided else n_fft):
        raise RuntimeError(
            f"istft expected the frequency dimension (3rd to the last) of the input tensor to match n_fft / 2 + 1 when "
            f"onesided=True or n_fft when onesided=False, but got {self.shape[-2]}"
        )
    norm = "ortho" if normalized else "backward"
    spectra = F.transpose(self, -1, -2)
    if return_complex:
        frames = F.fft_ifft(spectra, norm=norm)
    else:  # of a real signal, half of the spectrum is enough
        frames = F.fft_irfft(F.narrow(spectra, -1, 0, n_fft // 2 + 1), n_fft, norm=norm)
    consequence = ".Please provide the same window used by stft to make the inversion lossless."
    window = _window(F, F.real(self), window, n_fft, win, consequence)
    count = n_fft + hop * (self.shape[-1] - 1)
    whole = (*self.shape[:-2], count)
    signal = F.unfold_dim_backward(frames * window, whole, len(whole) - 1, n_fft, hop)
    squares = F.expand(window * window, (self.shape[-1], n_fft))
    weight = F.unfold_dim_backward(squares, (count,), 0, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else count - start
    stop = min(end, count)
    signal, weight = F.narrow(signal, -1, start, stop - start), F.narrow(weight, 0, start, stop - start)
    if F.holds_anywhere(weight.abs() < 1e-11):
        raise RuntimeError("window overlap add min: the sum of the squared windows is 0 somewhere (NOLA is violated)")
    out = signal / weight
    return F.pad(out, (0, end - stop)) if end > stop else out
