"""Resizing of signals, images and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore.backends.kernel_rules import images
from gradcore.backends.portable.resampling import BYTES
from gradcore.core import dtypes
from gradcore.core.errors import warn
from gradcore.ops.declare.annotations import Ints
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.shapes import check_elements
from gradcore.ops.declare.table import composite, linear

Scales = tuple[float | None, ...]

_TITLES = {"nearest": "Nearest", "nearest-exact": "NearestExact", "linear": "Linear", "bilinear": "Bilinear"}
_TITLES |= {"bicubic": "Bicubic", "trilinear": "Trilinear", "lanczos": "Lanczos"}


def _name(size: Sequence[int], mode: str, antialias: bool) -> str:
    return f"Upsample{_TITLES[mode]}{len(size)}D{'Aa' if antialias else ''}Backward"


def _scale(i):
    return lambda scales: scales[i]


def _saved_names(node):
    """Return PyTorch's names for the saved settings of a node: one for the scale of each dim."""
    number = int(node[node.index("D") - 1])
    names = ("scales",) if number == 1 else [f"scales_{dim}" for dim in "dhw"[3 - number :]]
    scales = {name: _scale(i) for i, name in enumerate(names)}
    hidden = ["antialias", "mode"] + ["scales"] * (number > 1) + ["align_corners"] * ("Nearest" in node)
    return {"output_size": "size", **scales, **dict.fromkeys(hidden)}


@linear(
    lambda F, grad, self_shape, size, scales, mode, align_corners, antialias: F.resample_backward(
        grad, self_shape[2:], scales, mode, align_corners, antialias
    ),
    node=lambda size, mode, antialias: _name(size, mode, antialias) + "0",
    function=False,
    method=False,
    saved=_saved_names,
    batch=images(1),
)
def resample(self, size: Ints, scales: Scales, mode: str, align_corners: bool, antialias: bool):
    """Resize the dims after the first two to `size`.

    `scales` are the factors for the computation of positions; None means that they follow from the sizes.
    """


@linear(
    lambda F, grad, self_shape, scales, mode, align_corners, antialias: F.resample(
        grad, self_shape[2:], scales, mode, align_corners, antialias
    ),
    node=lambda size, mode, antialias: _name(size, mode, antialias) + "Backward0",
    function=False,
    method=False,
    saved=_saved_names,
    batch=images(1),
)
def resample_backward(self, size: Ints, scales: Scales, mode: str, align_corners: bool, antialias: bool):
    """Return the adjoint of `resample`; `size` is that of the result."""


#: The number of spatial dims that each mode requires.
_DIMS = {"linear": 1, "bilinear": 2, "bicubic": 2, "lanczos": 2, "trilinear": 3}
_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"


def _repeat_for_dims(value: Any, n: int, what: str, input: Any) -> list[Any]:
    """Return `value` as a list with one entry for each of `n` spatial dims."""
    if not isinstance(value, (list, tuple)):
        return [value] * n
    if len(value) != n:
        spatial_shape = list(input.shape[2:])
        raise ValueError(
            f"Input and output must have the same number of spatial dimensions, but got input with spatial dimensions "
            f"of {spatial_shape} and output size of {value}. "
            if what == "size"
            else f"Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
            f"dimensions of {spatial_shape} and scale_factor of shape {value}. "
        )
    return list(value)


def _sizes(input: Any, n: int, size: Any, scale_factor: Any, recompute: bool) -> tuple[tuple[int, ...], Scales]:
    """Return the spatial sizes of the result, and the scale factors that positions are computed with."""
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        return tuple(_repeat_for_dims(size, n, "size", input)), (None,) * n
    factors = _repeat_for_dims(scale_factor, n, "scale_factor", input)
    sizes = tuple(int(s * f) for s, f in zip(input.shape[2:], factors, strict=True))
    return sizes, (None,) * n if recompute else tuple(float(f) for f in factors)


def _check(input: Any, n: int, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if align_corners is not None and mode in ("nearest", "area", "nearest-exact"):
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and n == 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if mode == "lanczos" and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    if mode == "lanczos" and align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")
    if n not in (1, 2, 3) or mode not in (*_TITLES, "area"):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {n + 2}D) for the modes: {_MODES} (got "
            f"{mode})"
        )
    if _DIMS.get(mode, n) != n:
        raise NotImplementedError(f"Got {n + 2}D input, but {mode} mode needs {_DIMS[mode] + 2}D input")


def _samples():
    return [
        case(floats(2, 2, 4), scale_factor=2.0),
        case(floats(2, 1, 3, 4), size=(5, 2), mode="nearest-exact"),
        case(floats(1, 2, 5), size=3, mode="linear"),
        case(floats(1, 2, 3, 4), scale_factor=1.5, mode="bilinear", align_corners=True),
        case(floats(1, 1, 4, 5), scale_factor=(0.6, 2.0), mode="bilinear", antialias=True),
        case(floats(1, 1, 4, 3), size=(6, 5), mode="bicubic"),
        case(floats(1, 1, 2, 3, 2), scale_factor=2, mode="trilinear"),
        case(floats(1, 2, 4, 6), size=(2, 3), mode="area"),
        case(floats(1, 2, 5), scale_factor=1.7, recompute_scale_factor=True, mode="linear"),
    ]


@composite(path="nn.functional.interpolate", samples=_samples, autocast="float32:cuda")
def interpolate(
    F,
    input,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
):
    """Resize the spatial dims.

    Parameters
    ----------
    input : Tensor
        Input of shape ``(batch, channels, *sizes)`` with one to three spatial dims. Images of uint8 are resized by
        weights of 15 bits, and rounded after the rows and after the columns.
    size : int or sequence of int, optional
        The sizes of the result.
    scale_factor : float or sequence of float, optional
        The factor of the sizes, if `size` is not given.
    mode : str
        ``'nearest'``, ``'nearest-exact'``, ``'linear'`` (one dim), ``'bilinear'`` and ``'bicubic'`` (two),
        ``'trilinear'`` (three), ``'area'`` (adaptive average pooling) or ``'lanczos'`` (two, with `antialias`).
    align_corners : bool, optional
        Whether the centres of corner elements are mapped to each other, rather than their outer borders.
    recompute_scale_factor : bool, optional
        Whether positions are computed with the ratio of the sizes, not with `scale_factor`.
    antialias : bool
        Whether to widen the filter when the result is smaller.

    Returns
    -------
    Tensor
        Result of shape ``(batch, channels, *size)``, or with sizes ``floor(size * scale_factor)``.

    Examples
    --------
    >>> gc.nn.functional.interpolate(gc.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    >>> gc.nn.functional.interpolate(gc.tensor([[[1.0, 2.0]]]), size=3, mode="linear", align_corners=True)
    tensor([[[1.0000, 1.5000, 2.0000]]])
    """
    n = input.ndim - 2
    _check(input, n, mode, align_corners, antialias)
    recompute = bool(recompute_scale_factor) or (mode == "area" and size is None)
    sizes, scales = _sizes(input, n, size, scale_factor, recompute)
    if mode == "area":
        return getattr(F, f"adaptive_avg_pool{n}d")(input, sizes)
    input_sizes = tuple(input.shape[2:])
    check_elements((*input.shape[:2], *sizes))
    if min(*sizes, *input_sizes) <= 0:
        before, after = (
            ", ".join(f"{d}: {s}" for d, s in zip("DHW"[-n:], each, strict=True)) for each in (input_sizes, sizes)
        )
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({before}) output ({after})"
        )
    if not input.shape[1]:
        raise RuntimeError(f"Non-empty {n + 2}D data tensor expected but got a tensor with sizes {list(input.shape)}")
    if input.dtype is dtypes.uint8 and mode in ("bilinear", "bicubic", "lanczos"):
        return _resize_bytes(F, input, sizes, scales, mode, bool(align_corners), antialias)
    if not mode.startswith("nearest"):
        check_implemented(f"upsample_{mode}{n}d", input, "bi")
    return F.resample(input, sizes, scales, mode, bool(align_corners), antialias)


def _resize_bytes(F, image, sizes, scales, mode, *settings):
    """Resize images of uint8 by sums of integers, as PyTorch does, which are exact as floating-point numbers.

    Values are rounded after the rows and after the columns.
    """
    is_narrow = all(2 * size >= number for size, number in zip(sizes, image.shape[2:], strict=True))
    dtype = dtypes.float32 if is_narrow else dtypes.float64  # Weights of many inputs have more bits.
    for size, factors in (((image.shape[2], sizes[1]), (None, scales[1])), (sizes, (scales[0], None))):
        resized = F.resample(F.to(image, dtype), tuple(size), factors, mode + BYTES, *settings)
        image = F.to(F.clamp(F.floor(resized + 0.5), 0, 255), dtypes.uint8)
    return image


_OLD = "`nn.functional.{}` is deprecated. Use `nn.functional.interpolate` instead."


def _declare_old(name: str, mode: str, align_corners: bool | None) -> None:
    def upsample_as(F, input, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None):
        warn(_OLD.format(name))
        return F.interpolate(input, size, scale_factor, mode, align_corners)

    upsample_as.__doc__ = (
        f"Call `interpolate` with ``mode={mode!r}`` and ``align_corners={align_corners}``; an older name."
    )
    composite(name=name, path=f"nn.functional.{name}", samples=lambda: [case(floats(1, 2, 3, 4), scale_factor=2)])(
        upsample_as
    )


_declare_old("upsample_nearest", "nearest", None)
_declare_old("upsample_bilinear", "bilinear", True)


@composite(path="nn.functional.upsample", samples=lambda: [case(floats(1, 2, 3), 5, mode="linear")])
def upsample(
    F,
    input,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
):
    """Resize the spatial dims: an older name of `interpolate`.

    Returns
    -------
    Tensor
        Result of shape ``(batch, channels, *size)``.

    Examples
    --------
    >>> gc.nn.functional.upsample(gc.tensor([[[1.0, 2.0]]]), size=4)
    tensor([[[1., 1., 2., 2.]]])
    """
    warn(_OLD.format("upsample"))
    return F.interpolate(input, size, scale_factor, mode, align_corners)
