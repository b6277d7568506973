"""Layers without parameters: pooling, dropout, reshaping, upsampling and distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradcore.nn.module import Module
from gradcore.nn.module_factory import ModuleEntry, Settings, make, ntuple, settings
from gradcore.tensor import Tensor

__all__ = ["Flatten", "Identity", "Unflatten"]

S = settings


# -- pooling ------------------------------------------------------------------------------------------------------


def _own_stride(chosen: Settings) -> Settings:
    """Return the settings with the stride set to the kernel size, if no stride is given."""
    if chosen["stride"] is None:
        chosen["stride"] = chosen["kernel_size"]
    return chosen


def _tuples(n: int, *names: str) -> Callable[[Settings], Settings]:
    def prepare(chosen: Settings) -> Settings:
        chosen = _own_stride(chosen)
        return {key: ntuple(value, n) if key in names else value for key, value in chosen.items()}

    return prepare


def _base(kind: str) -> type[Module]:
    """Return the base class of layers of a kind, for any number of dims."""
    return type(f"_{kind}Nd", (Module,), {"__module__": __name__, "__doc__": f"Base of ``{kind}1d`` and its like."})


_AdaptiveAvgPoolNd, _AdaptiveMaxPoolNd = _base("AdaptiveAvgPool"), _base("AdaptiveMaxPool")
_AvgPoolNd, _LPPoolNd = _base("AvgPool"), _base("LPPool")
_MaxPoolNd, _MaxUnpoolNd = _base("MaxPool"), _base("MaxUnpool")
_DropoutNd = _base("Dropout")

WINDOW = S("kernel_size", stride=None, padding=0)
SHOWN = ("kernel_size", "stride", "padding")
ADAPTIVE = ("output_size",)
TABLE: dict[str, ModuleEntry] = {}
for _n in (1, 2, 3):
    _end = {"ceil_mode": False, "count_include_pad": True}
    TABLE |= {
        f"AdaptiveAvgPool{_n}d": ModuleEntry(
            f"adaptive_avg_pool{_n}d", S("output_size"), ADAPTIVE, base=_AdaptiveAvgPoolNd
        ),
        f"AdaptiveMaxPool{_n}d": ModuleEntry(
            f"adaptive_max_pool{_n}d", S("output_size", return_indices=False), ADAPTIVE, base=_AdaptiveMaxPoolNd
        ),
        f"AvgPool{_n}d": ModuleEntry(
            f"avg_pool{_n}d",
            {**WINDOW, **_end, **({} if _n == 1 else {"divisor_override": None})},
            SHOWN,
            _tuples(1, *SHOWN) if _n == 1 else _own_stride,
            base=_AvgPoolNd,
        ),
        f"LPPool{_n}d": ModuleEntry(
            f"lp_pool{_n}d", S("norm_type", "kernel_size", stride=None, ceil_mode=False), base=_LPPoolNd
        ),
        f"MaxPool{_n}d": ModuleEntry(
            f"max_pool{_n}d",
            {**WINDOW, "dilation": 1, "return_indices": False, "ceil_mode": False},
            (*SHOWN, "dilation", "ceil_mode"),
            _own_stride,
            base=_MaxPoolNd,
        ),
        f"MaxUnpool{_n}d": ModuleEntry(f"max_unpool{_n}d", WINDOW, SHOWN, _tuples(_n, *SHOWN), base=_MaxUnpoolNd),
    }


def _fractional(n: int) -> Callable[[Settings], Settings]:
    def prepare(chosen: Settings) -> Settings:
        kernel, size, ratio = chosen["kernel_size"], chosen["output_size"], chosen["output_ratio"]
        if any(isinstance(width, int) and width <= 0 for width in ntuple(kernel, n)):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel}")
        if size is None and ratio is None:
            raise ValueError(f"FractionalMaxPool{n}d requires specifying either an output size, or a pooling ratio")
        if size is not None and ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if ratio is not None and not all(0 < share < 1 for share in ntuple(ratio, n)):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {ratio})")
        return chosen

    return prepare


for _n in (2, 3):
    TABLE[f"FractionalMaxPool{_n}d"] = ModuleEntry(
        f"fractional_max_pool{_n}d",
        S("kernel_size", output_size=None, output_ratio=None, return_indices=False, _random_samples=None),
        (),
        _fractional(_n),
    )


# -- dropout, shapes, distances -----------------------------------------------------------------------------------


def _probability(chosen: Settings) -> Settings:
    if not hasattr(chosen["p"], "__float__"):
        raise TypeError(f"dropout probability has to be a number, but got {type(chosen['p']).__name__}")
    if not 0 <= chosen["p"] <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {chosen['p']}")
    return chosen


def _dropout(module: Any) -> str:
    return f"p={module.p}, inplace={module.inplace}"


for _name, _function in (
    ("Dropout", "dropout"), ("Dropout1d", "dropout1d"), ("Dropout2d", "dropout2d"), ("Dropout3d", "dropout3d"),
    ("AlphaDropout", "alpha_dropout"), ("FeatureAlphaDropout", "feature_alpha_dropout"),
):  # fmt: skip
    TABLE[_name] = ModuleEntry(
        _function, S(p=0.5, inplace=False), _dropout, _probability, training=True, base=_DropoutNd
    )


def _response(module: Any) -> str:
    return f"{module.size}, alpha={module.alpha}, beta={module.beta}, k={module.k}"


_WINDOWS = {"dilation": 1, "padding": 0, "stride": 1}
TABLE |= {
    "ChannelShuffle": ModuleEntry("channel_shuffle", S("groups")),
    "CosineSimilarity": ModuleEntry("cosine_similarity", S(dim=1, eps=1e-8), ()),
    "CrossMapLRN2d": ModuleEntry("local_response_norm", S("size", alpha=1e-4, beta=0.75, k=1), _response),
    "Fold": ModuleEntry("fold", S("output_size", "kernel_size", **_WINDOWS)),
    "LocalResponseNorm": ModuleEntry(
        "local_response_norm",
        S("size", alpha=1e-4, beta=0.75, k=1.0),
        _response,
    ),
    "PairwiseDistance": ModuleEntry("pairwise_distance", S(p=2.0, eps=1e-6, keepdim=False), ()),
    "PixelShuffle": ModuleEntry("pixel_shuffle", S("upscale_factor")),
    "PixelUnshuffle": ModuleEntry("pixel_unshuffle", S("downscale_factor")),
    "Unfold": ModuleEntry("unfold", S("kernel_size", **_WINDOWS)),
}


def _factors(chosen: Settings) -> Settings:
    factor = chosen["scale_factor"]
    if factor is not None:
        chosen["scale_factor"] = tuple(map(float, factor)) if isinstance(factor, (tuple, list)) else float(factor)
    return chosen


def _upsampling(mode: str, align_corners: bool | None) -> Callable[[Settings], Settings]:
    return lambda chosen: {**_factors(chosen), "mode": mode, "align_corners": align_corners}


def _scale(module: Any) -> str:
    how = f"scale_factor={module.scale_factor!r}" if module.scale_factor is not None else f"size={module.size!r}"
    return f"{how}, mode={module.mode!r}"


_SIZES = S(size=None, scale_factor=None)
TABLE |= {
    "Upsample": ModuleEntry(
        "interpolate",
        {**_SIZES, "mode": "nearest", "align_corners": None, "recompute_scale_factor": None},
        _scale,
        _factors,
    ),
    "UpsamplingBilinear2d": ModuleEntry("interpolate", _SIZES, _scale, _upsampling("bilinear", True)),
    "UpsamplingNearest2d": ModuleEntry("interpolate", _SIZES, _scale, _upsampling("nearest", None)),
}


# -- classes that are not generated -------------------------------------------------------------------------------


class Identity(Module):
    """A module that returns its input and accepts any arguments.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.Identity()(gc.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return the input."""
        return input


class Flatten(Module):
    """Layer that flattens the dims from `start_dim` to `end_dim` into one.

    Parameters
    ----------
    start_dim, end_dim : int
        The first and the last dim that are joined.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.Flatten()(gc.ones(8, 3, 4, 4)).shape
    torch.Size([8, 48])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the flattened input."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the first and the last dim."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Layer that splits a dim into several.

    Parameters
    ----------
    dim : int
        The dim that is split.
    unflattened_size : tuple of int
        The sizes of the new dims; one of them may be -1.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.Unflatten(1, (3, 4))(gc.ones(8, 12)).shape
    torch.Size([8, 3, 4])
    """

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for i, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {i}"
                )
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with the dim split."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Return the dim and the sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


MADE = {name: make(name, made, "gradcore.nn") for name, made in TABLE.items()}
globals().update(MADE)
__all__ += sorted(MADE)

if TYPE_CHECKING:  # the classes of the table

    def __getattr__(name: str) -> Any: ...
