"""Padding: a border around the last dims, of one value or of the input's own elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore.backends.kernel_rules import leading
from gradcore.ops.declare.annotations import Ints, Number
from gradcore.ops.declare.checks import check_fits
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.shapes import check_elements
from gradcore.ops.declare.table import composite, general, linear


@general(
    lambda F, grad, pad: F.constant_pad_nd(grad, [-n for n in pad]),
    method=False,
    samples=lambda: [
        case(floats(2, 3), (1, 2)),
        case(floats(2, 3), (0, -1, 2, 1), 1.5),
        case(floats(3, 4), (-1, -2)),
        case(floats(2), (0, 0)),
        case(floats(0, 2), (1, 1)),
    ],
    saved={"value": None},
    batch=leading(0),
)
def constant_pad_nd(self, pad: Sequence[int], value: Number = 0):
    """Surround the last dims with `value`, as `nn.functional.pad` does.

    Returns
    -------
    Tensor
        Result as large as the input and its padding.

    Examples
    --------
    >>> gc.constant_pad_nd(gc.tensor([1, 2]), (1, 2), 9)
    tensor([9, 1, 2, 9, 9])
    """


@constant_pad_nd.jvp("self")
def _(F, t, pad):
    return F.constant_pad_nd(t, pad)


def _autocast(self, pad, mode):
    """Return the dtype in which autocasting runs the padding, as PyTorch's kernels of the modes do."""
    casted = mode == "replicate" or (mode == "reflect" and len(pad) < 6)
    return "float32:cpu" if casted else ""


_NAMES = {"reflect": "Reflection", "replicate": "Replication", "circular": "Circular"}


def _pad_with_own(self, pad: Ints, mode: str):
    """Surround the last dims with elements of `self` that `mode` chooses."""


for _name, _connected in (("pad_with_own", ("self",)), ("pad_circularly", ())):
    linear(
        lambda F, grad, self_shape, pad, mode: F.pad_with_own_backward(grad, self_shape, pad, mode),
        name=_name,
        kernel="pad_with_own",
        connected=_connected,
        autocast=_autocast if _name == "pad_with_own" else "",
        node=lambda pad, mode: f"{_NAMES[mode]}Pad{len(pad) // 2}DBackward0",
        function=False,
        method=False,
        saved={"padding": "pad", "mode": None},
        batch=leading(0),
    )(_pad_with_own)


@linear(
    lambda F, grad, pad, mode: F.pad_with_own(grad, pad, mode),
    node=lambda pad, mode: f"{_NAMES[mode]}Pad{len(pad) // 2}DBackwardBackward0",
    function=False,
    method=False,
    saved={"padding": "pad", "mode": None},
)
def pad_with_own_backward(self, shape: Ints, pad: Ints, mode: str):
    """Return the adjoint of `pad_with_own`; `shape` is that of the result."""


def _check_lengths(input: Any, pad: Sequence[int]) -> None:
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * input.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {input.ndim}"
        )


def _check_own(input: Any, pad: Sequence[int], mode: str) -> None:
    """Raise PyTorch's errors for pads that are too wide for `mode`."""
    n = len(pad) // 2
    if input.ndim not in (n + 1, n + 2) or n > 3:
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {input.ndim}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    sizes = list(input.shape)
    if mode != "circular" and 0 in sizes[-n - 1 :]:
        raise RuntimeError(
            f"Expected {n + 1}D or {n + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {sizes}"
        )
    for i in range(n):
        dim = input.ndim - 1 - i
        size, before, after = sizes[dim], pad[2 * i], pad[2 * i + 1]
        if mode == "reflect" and (before >= size or after >= size):
            raise RuntimeError(
                "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
                f"({before}, {after}) at dimension {dim} of input {sizes}"
            )
        if mode == "circular" and (before > size or after > size):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        check_elements((*sizes[:dim], size + before + after, *sizes[dim + 1 :]))
        if size + before + after <= 0:
            name = "WHD"[i]
            raise RuntimeError(
                "Negative padding value is resulting in an empty dimension"
                if mode == "circular"
                else f"input ({name}: {size}) is too small. Calculated output {name}: {size + before + after}"
            )


@composite(
    path="nn.functional.pad",
    samples=lambda: [
        case(floats(2, 3, 4), (1, 2)),
        case(floats(2, 3, 4), (1, -1, 0, 2), value=0.5),
        case(floats(2, 3, 4), (2, 1), mode="reflect"),
        case(floats(1, 2, 3, 4), (1, 0, 2, 2), mode="replicate"),
        case(floats(2, 3, 4), (-1, 4), mode="circular"),
        case(floats(1, 2, 2, 3, 3), (1, 1, -1, 2, 0, 1), mode="reflect"),
        case(floats(2, 4), (-1, -1), mode="replicate"),
    ],
)
def pad(F, input, pad: Sequence[int], mode: str = "constant", value: float | None = None):
    """Add elements around the last dims, or cut some off where the pad is negative.

    Parameters
    ----------
    input : Tensor
    pad : sequence of int
        The numbers of elements before and after those of the last dim, then of the second to last, and so on.
    mode : str
        ``'constant'``; or, for the last one to three dims of an input that has one or two dims more, ``'reflect'``
        (without repeating the edge), ``'replicate'`` (the edge) or ``'circular'``.
    value : number, optional
        The constant; 0 by default.

    Returns
    -------
    Tensor
        Result as large as the input and its padding.

    Examples
    --------
    >>> gc.nn.functional.pad(gc.tensor([[1.0, 2.0]]), (1, 1))
    tensor([[0., 1., 2., 0.]])
    >>> gc.nn.functional.pad(gc.tensor([[1.0, 2.0, 3.0]]), (2, 0), mode="reflect")
    tensor([[3., 2., 1., 2., 3.]])
    """
    pad = tuple(int(n) for n in pad)
    _check_lengths(input, pad)
    if mode == "constant":
        return F.constant_pad_nd(input, pad, 0 if value is None else check_fits(value, input.dtype))
    if mode not in _NAMES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    _check_own(input, pad, mode)
    return F.pad_circularly(input, pad, mode) if mode == "circular" else F.pad_with_own(input, pad, mode)
