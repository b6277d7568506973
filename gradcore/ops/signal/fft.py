"""Fourier transforms.

Every function consists of three maps, which are adjoints of each other: complex to complex, real to complex, and
complex to real. Half of the spectrum of real numbers may be left out, because it mirrors the other half.
"""

from __future__ import annotations

from gradcore.backends.kernel_rules import along
from gradcore.core import dtypes
from gradcore.ops.declare.annotations import Dims, Ints
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.shapes import wrap_dim
from gradcore.ops.declare.table import composite, linear

_PRIVATE = {"function": False, "method": False}

#: For each normalisation, the one with which the transform in the other direction has the same factor.
_SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


# -- the three maps ---------------------------------------------------------------------------------------------------


@linear(
    lambda F, grad, dims, norm, forward: F.fft_c2c(grad, dims, _SWAPPED[norm], not forward),
    node="FftC2CBackward0",
    **_PRIVATE,
    saved={"dim": "dims", "norm": None},
    batch=along(1),
)
def fft_c2c(self, dims: tuple[int, ...], norm: str, forward: bool):
    """Return the transform of complex numbers along dims, or the inverse transform if not `forward`."""


@linear(
    lambda F, grad, self_shape, dims, norm, onesided: (
        F.fft_mirrored(grad, dims, _SWAPPED[norm], self_shape[dims[-1]])
        if onesided
        else F.real(F.fft_c2c(grad, dims, _SWAPPED[norm], False))
    ),
    node="FftR2CBackward0",
    **_PRIVATE,
    saved={"dim": "dims", "norm": None},
    batch=along(1),
)
def fft_r2c(self, dims: tuple[int, ...], norm: str, onesided: bool):
    """Return the transform of real numbers; if `onesided`, only the first half of the last dim."""


@linear(
    lambda F, grad, dims, norm, last: F.fft_doubled(grad, dims, _SWAPPED[norm]),
    node="FftC2RBackward0",
    **_PRIVATE,
    saved={"dim": "dims", "norm": None, "last": None},
    batch=along(1),
)
def fft_c2r(self, dims: tuple[int, ...], norm: str, last: int):
    """Return the inverse of the onesided transform: real numbers, `last` of them along the last of the dims."""


@linear(
    lambda F, grad, self_shape, dims, norm: F.fft_c2r(grad, dims, _SWAPPED[norm], self_shape[dims[-1]]),
    node="FftR2CBackward0",
    **_PRIVATE,
    saved={"dim": "dims", "norm": None},
    batch=along(1),
)
def fft_doubled(self, dims: tuple[int, ...], norm: str):
    """Return the onesided transform of real numbers, doubling the elements that also stand for their mirror image.

    These are all but the constant and, if the size of the last of the dims is even, the middle.
    """


@linear(
    lambda F, grad, dims, norm, last: F.fft_r2c(grad, dims, _SWAPPED[norm], True),
    node="FftC2RBackward0",
    **_PRIVATE,
    saved={"dim": "dims", "norm": None, "last": None},
    batch=along(1),
)
def fft_mirrored(self, dims: tuple[int, ...], norm: str, last: int):
    """Return the real part of the inverse transform of a half spectrum, the other half being zero."""


@linear(
    lambda F, grad, self_shape, dims: F.cut_or_pad(grad, tuple(self_shape[d] for d in dims), dims),
    node="ConstantPadNdBackward0",
    **_PRIVATE,
)
def cut_or_pad(K, self, sizes: tuple[int, ...], dims: tuple[int, ...]):
    """Return the tensor with the given sizes along dims: cut, or padded with zeros at the end."""
    shape = list(self.shape)
    for d, n in zip(dims, sizes, strict=True):
        shape[d] = n
    common_part = tuple(slice(min(n, m)) for n, m in zip(self.shape, shape, strict=True))
    if all(n <= m for n, m in zip(shape, self.shape, strict=True)):
        return self[common_part].copy()
    out = K.xp.zeros(tuple(shape), self.dtype)
    out[common_part] = self[common_part]
    return out


# -- arguments --------------------------------------------------------------------------------------------------------


def _norm(norm):
    if norm is None:
        return "backward"
    if norm not in _SWAPPED:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return norm


def _as_list(value):
    return [value] if isinstance(value, int) else list(value)


def _dims_and_sizes(x, s, dim):
    """Return the dims counted from the front, and the sizes to transform; None where a dim keeps its size."""
    if dim is None:
        if s is not None and len(_as_list(s)) > x.ndim:
            raise RuntimeError(
                f"Got shape with {len(_as_list(s))} values but input tensor only has {x.ndim} dimensions."
            )
        dims = list(range(x.ndim if s is None else len(_as_list(s))))
        dims = [d + x.ndim - len(dims) for d in dims]
    else:
        dims = _wrap_dims(x, _as_list(dim))
    sizes = [None] * len(dims) if s is None else [None if n == -1 else n for n in _as_list(s)]
    if len(sizes) != len(dims):
        raise RuntimeError("When given, dim and shape arguments must have the same length")
    return tuple(dims), sizes


def _wrap_dims(x, dims):
    if dims and not x.ndim:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    wrapped = [wrap_dim(d, x.ndim) for d in dims]
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError("FFT dims must be unique")
    return wrapped


def _check_sizes(sizes):
    for n in sizes:
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")


def _resize_dims(F, x, dims, sizes):
    """Return the tensor cut or padded to `sizes`; None keeps the size of a dim."""
    new_sizes = [x.shape[d] if n is None else n for d, n in zip(dims, sizes, strict=True)]
    _check_sizes(new_sizes)
    if all(n == x.shape[d] for d, n in zip(dims, new_sizes, strict=True)):
        return x
    return F.cut_or_pad(x, tuple(new_sizes), dims)


def _floating(F, x):
    """Return integers converted to the default dtype."""
    return x if x.dtype.is_differentiable else F.to(x, dtypes.get_default_dtype())


def _complex(F, x):
    x = _floating(F, x)
    return x if x.is_complex() else F.to(x, x.dtype.to_complex())


def _check_real(x, name):
    if x.is_complex():
        raise RuntimeError(f"{name} expects a real input tensor, but got {x.dtype.scalar_name}")


# -- the families -----------------------------------------------------------------------------------------------------


def _transform(F, x, s, dim, norm, forward):
    """Return the transform of complex or real numbers as complex numbers."""
    dims, sizes = _dims_and_sizes(x, s, dim)
    norm = _norm(norm)
    x = _resize_dims(F, _floating(F, x), dims, sizes)
    if not dims:
        return _complex(F, x)
    if x.is_complex():
        return F.fft_c2c(x, dims, norm, forward)
    if forward:
        return F.fft_r2c(x, dims, norm, False)
    if len(dims) == 1:
        return F.conj(F.fft_r2c(x, dims, _SWAPPED[norm], False))
    return F.fft_c2c(_complex(F, x), dims, norm, False)


def _check_dims(x, s, dim, name):
    """Return the dims and sizes of a transform, or raise if there are no dims."""
    dims, sizes = _dims_and_sizes(x, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    return dims, sizes


def _half(F, x, dims, sizes):
    """Return the half spectrum that a real result needs, and the size of the result's last dim."""
    last = 2 * (x.shape[dims[-1]] - 1) if sizes[-1] is None else sizes[-1]
    _check_sizes([last])
    return _resize_dims(F, _complex(F, x), dims, [*sizes[:-1], last // 2 + 1]), last


def _from_real(F, x, s, dim, norm, name):
    """Return the half spectrum of real numbers."""
    _check_real(x, name)
    dims, sizes = _check_dims(x, s, dim, name)
    return F.fft_r2c(_resize_dims(F, _floating(F, x), dims, sizes), dims, _norm(norm), True)


def _to_real(F, x, s, dim, norm, name):
    """Return the real numbers with a given half spectrum."""
    dims, sizes = _check_dims(x, s, dim, name)
    x, last = _half(F, x, dims, sizes)
    return F.fft_c2r(x, dims, _norm(norm), last)


def _hermitian_inverse(F, x, s, dim, norm, name):
    """Return the half spectrum of the inverse transform of real numbers."""
    _check_real(x, name)
    dims, sizes = _check_dims(x, s, dim, name)
    norm = _norm(norm)
    half = F.conj(F.fft_r2c(_resize_dims(F, _floating(F, x), dims, sizes), dims[-1:], _SWAPPED[norm], True))
    return half if len(dims) == 1 else F.fft_c2c(half, dims[:-1], norm, False)


def _hermitian(F, x, s, dim, norm, name):
    """Return the transform, which is real, of a Hermitian signal given by its first half."""
    dims, sizes = _check_dims(x, s, dim, name)
    norm = _norm(norm)
    x, last = _half(F, x, dims, sizes)
    if len(dims) > 1:
        x = F.fft_c2c(x, dims[:-1], norm, True)
    return F.fft_c2r(F.conj(x), dims[-1:], _SWAPPED[norm], last)


def _as_several_dims(x, n, dim):
    """Convert the arguments of a transform along one dim to those of a transform along several."""
    if not x.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if n is None:
        return None, [dim]
    _check_sizes([n])
    return [n], [dim]


# -- one dim ----------------------------------------------------------------------------------------------------------


def _cases():
    return [
        case(floats(5)),
        case(floats(2, 4), dim=0),
        case(floats(3, 4), n=6, norm="ortho"),
        case(floats(3, 4), n=3, norm="forward"),
    ]


def _declare_one(name, run, doc, *settings):
    """Declare a transform along one dim."""

    def body(F, self, n: int | None = None, dim: int = -1, norm: str | None = None):
        _check_sizes([] if n is None else [n])
        s, dims = _as_several_dims(self, n, dim)
        return run(F, self, s, dims, norm, *settings)

    body.__name__, body.__doc__ = f"fft_{name}", doc
    composite(path=f"fft.{name}", method=False, samples=_cases, autocast="float32:cpu")(body)


def _declare_several(name, run, doc, default, *settings):
    """Declare a transform along several dims, by default along the dims `default`."""

    def body(F, self, s: Ints | None = None, dim: Dims = default, norm: str | None = None):
        return run(F, self, s, dim, norm, *settings)

    body.__name__, body.__doc__ = f"fft_{name}", doc
    autocast = "" if "hfft" in name else "float32:cpu"
    composite(path=f"fft.{name}", method=False, samples=_cases_of_several, autocast=autocast)(body)


def _cases_of_several():
    x = floats(3, 4, 3)
    return [
        case(floats(3, 4)),
        case(x, dim=(0, 2)),
        case(x, s=(5, 2), dim=(1, 2), norm="ortho"),
        case(x, s=(2, 6), dim=(0, 1)),
    ]


#: The name of each transform, the function that computes it, its description, and further arguments.
_FAMILIES = (
    ("fft", _transform, "Compute the discrete Fourier transform", (True,)),
    ("ifft", _transform, "Compute the inverse discrete Fourier transform", (False,)),
    ("rfft", _from_real, "Compute half of the Hermitian Fourier transform of real numbers", ("rfft",)),
    ("irfft", _to_real, "Compute the inverse of `rfft`", ("irfft",)),
    ("hfft", _hermitian, "Compute the real Fourier transform of a Hermitian signal, given its first half", ("hfft",)),
    ("ihfft", _hermitian_inverse, "Compute the inverse of `hfft`", ("ihfft",)),
)  # fmt: skip

for _name, _run, _what, _settings in _FAMILIES:
    _declare_one(_name, _run, f"{_what} along `dim`, cut or padded with zeros to `n` elements.", *_settings)
    _several = _settings if _run is _transform else (f"{_name}n",)
    _declare_several(f"{_name}2", _run, f"{_what} along two dims, cut or padded to the sizes `s`.", (-2, -1), *_several)
    _declare_several(
        f"{_name}n", _run, f"{_what} along `dim` (all dims if None), cut or padded to the sizes `s`.", None, *_several
    )


# -- orders of frequencies --------------------------------------------------------------------------------------------


def _shift(F, x, dim, half):
    dims = tuple(range(x.ndim)) if dim is None else tuple(_as_list(dim))
    return F.roll(x, tuple(half(x.shape[d]) for d in dims), dims) if dims else F.clone(x)


@composite(
    path="fft.fftshift", method=False, samples=lambda: [case(floats(5)), case(floats(2, 3), dim=1), case(floats(2, 4))]
)
def fft_fftshift(F, self, dim: Dims = None):
    """Shift the zero frequency from the front to the middle of the dims.

    Examples
    --------
    >>> gc.fft.fftshift(gc.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _shift(F, self, dim, lambda n: n // 2)


@composite(
    path="fft.ifftshift", method=False, samples=lambda: [case(floats(5)), case(floats(2, 3), dim=1), case(floats(2, 4))]
)
def fft_ifftshift(F, self, dim: Dims = None):
    """Shift the zero frequency from the middle to the front of the dims.

    Examples
    --------
    >>> gc.fft.ifftshift(gc.tensor([-2, -1, 0, 1]))
    tensor([ 0,  1, -2, -1])
    """
    return _shift(F, self, dim, lambda n: (n + 1) // 2)
