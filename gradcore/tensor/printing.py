"""Text of tensors: the layout, the number formats and the options of PyTorch's ``repr``.

Works on arrays and knows no Tensor. A number's text depends on all the numbers printed with it (a tensor has
one width and one notation), so printing has three steps: take the elements that will be seen, write each of
them, and arrange the texts in nested brackets.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, islice
from typing import Any

import numpy as np

from gradcore.core.typing import NamedTuple

__all__ = [
    "get_printoptions",
    "meta_str",
    "printoptions",
    "set_printoptions",
    "shows_dtype",
    "tensor_str",
    "with_suffixes",
]


class PrintOptions(NamedTuple):
    """Options of printing; `set_printoptions` describes the fields."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}

# Replaced as a whole, never changed: a thread that is printing keeps the options it started with.
_options = PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed.

    Options that are not passed keep their values, except `sci_mode`, which every call sets.

    Parameters
    ----------
    precision : int, optional
        Digits after the decimal point of floating-point numbers (at first 4).
    threshold : float, optional
        A tensor with more elements than this is summarised (at first 1000); ``math.inf`` prints everything.
    edgeitems : int, optional
        Elements that a summary shows at the beginning and at the end of each dimension (at first 3). With 0
        it shows none, and the size of every tensor is printed instead.
    linewidth : int, optional
        Characters after which lines are broken (at first 80).
    profile : {"default", "short", "full"}, optional
        Start from these values, then apply the other arguments. ``"short"`` has precision 2 and edgeitems 2,
        ``"full"`` never summarises.
    sci_mode : bool, optional
        Whether floating-point numbers are printed in scientific notation. None, the default, decides for
        each tensor: if the largest magnitude is above 1e8 or more than 1000 times the smallest one, or the
        smallest one is below 1e-4 (zeros, infinities and NaNs left aside).

    Raises
    ------
    ValueError
        If the profile is unknown, or a number of digits or elements is negative.

    See Also
    --------
    get_printoptions, printoptions

    Examples
    --------
    >>> import numpy as np
    >>> from gradcore.tensor.printing import set_printoptions, tensor_str
    >>> set_printoptions(precision=2)
    >>> print(tensor_str(np.array([1.12345])))
    tensor([1.12])
    >>> set_printoptions(threshold=5)
    >>> print(tensor_str(np.arange(10)))
    tensor([0, 1, 2,  ..., 7, 8, 9])
    >>> set_printoptions(profile="default")
    >>> print(tensor_str(np.array([1.12345])))
    tensor([1.1235])
    """
    global _options
    if profile is not None and profile not in _PROFILES:
        raise ValueError(f"profile must be one of {', '.join(map(repr, _PROFILES))}, got {profile!r}")
    arguments = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes: dict[str, Any] = {name: value for name, value in arguments.items() if value is not None}
    for name in ("precision", "edgeitems"):
        if changes.get(name, 0) < 0:
            raise ValueError(f"{name} must not be negative, got {changes[name]}")
    start = _options if profile is None else _PROFILES[profile]
    _options = start._replace(**changes, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """Return the options that tensors are printed with.

    Returns
    -------
    dict
        The options by name, fit to be passed to `set_printoptions`.

    See Also
    --------
    set_printoptions, printoptions

    Examples
    --------
    >>> from gradcore.tensor.printing import get_printoptions
    >>> get_printoptions()
    {'precision': 4, 'threshold': 1000, 'edgeitems': 3, 'linewidth': 80, 'sci_mode': None}
    """
    return _options._asdict()


@contextlib.contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Print with other options inside a ``with`` block.

    Parameters
    ----------
    **options
        The arguments of `set_printoptions`.

    See Also
    --------
    set_printoptions, get_printoptions

    Examples
    --------
    >>> import numpy as np
    >>> from gradcore.tensor.printing import printoptions, tensor_str
    >>> with printoptions(precision=2, sci_mode=True):
    ...     print(tensor_str(np.array([1.5, -20.0])))
    tensor([ 1.50e+00, -2.00e+01])
    >>> print(tensor_str(np.array([1.5, -20.0])))
    tensor([  1.5000, -20.0000])
    """
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


def shows_dtype(dtype_name: str, default_name: str, numel: int) -> bool:
    """Return whether the text of a tensor names its dtype.

    It does unless the dtype is the one a reader would take the numbers for: ``int64``, ``bool``, the default
    floating-point dtype, or the complex dtype that goes with it. Where no numbers are printed, only the
    default floating-point dtype goes unnamed.

    Parameters
    ----------
    dtype_name, default_name : str
        The tensor's dtype and the default floating-point dtype, with or without a module's name before them.
    numel : int
        Number of elements; 0 also for a meta tensor, which prints none whatever its shape.

    Returns
    -------
    bool

    Examples
    --------
    >>> from gradcore.tensor.printing import shows_dtype
    >>> shows_dtype("int64", "float32", numel=3)
    False
    >>> shows_dtype("int64", "float32", numel=0)
    True
    >>> shows_dtype("complex64", "float64", numel=3)
    True
    """
    name, default = (full.rpartition(".")[2] for full in (dtype_name, default_name))
    if numel == 0:
        return name != default
    default_complex = "complex128" if default == "float64" else "complex64"
    return name not in (default, default_complex, "int64", "bool")


def tensor_str(
    array: Any,
    *,
    indent_prefix: str = "tensor(",
    dtype_name: str | None = None,
    device: str | None = None,
    suffixes: Iterable[str] = (),
    to_numpy: Callable[[Any], np.ndarray] = np.asarray,
) -> str:
    """Return the text of a tensor in PyTorch's format.

    Parameters
    ----------
    array : array
        The tensor's values: a NumPy array or scalar, or anything else with a shape and NumPy's slicing that
        `to_numpy` takes.
    indent_prefix : str, optional
        The beginning of the text, up to the opening bracket. Further lines are indented by its length.
    dtype_name, device : str, optional
        Printed after ``dtype=`` and, in quotes, after ``device=``. None leaves them out; `shows_dtype` says
        when PyTorch does.
    suffixes : iterable of str, optional
        Texts that are appended at the end, such as ``"requires_grad=True"``.
    to_numpy : callable, optional
        Gives the NumPy array of a part of `array`. It is only called for parts that are printed, so that
        little of a large array on a device is copied.

    Returns
    -------
    str

    See Also
    --------
    meta_str : for tensors without values.

    Examples
    --------
    >>> import numpy as np
    >>> from gradcore.tensor.printing import tensor_str
    >>> print(tensor_str(np.array([[1, 2.5], [-3, np.inf]]), suffixes=["requires_grad=True"]))
    tensor([[ 1.0000,  2.5000],
            [-3.0000,     inf]], requires_grad=True)
    >>> print(tensor_str(np.zeros((0, 3), np.int32), dtype_name="torch.int32"))
    tensor([], size=(0, 3), dtype=torch.int32)
    """
    options = _options
    shape = tuple(array.shape)
    # A size of (0,) is what a reader takes "[]" for. Without edgeitems, sizes stand in for the elements.
    shows_size = len(shape) != 1 if 0 in shape else options.edgeitems == 0
    suffixes = _all_suffixes(device, shape if shows_size else None, dtype_name, suffixes)
    content = _content(array, len(indent_prefix), to_numpy, options)
    return with_suffixes(indent_prefix + content, suffixes, len(indent_prefix), options.linewidth)


def meta_str(
    shape: Sequence[int],
    dtype_name: str | None = None,
    suffixes: Iterable[str] = (),
    *,
    indent_prefix: str = "tensor(",
    device: str = "meta",
) -> str:
    """Return the text of a tensor that has no data.

    Parameters
    ----------
    shape : sequence of int
        The size of the tensor.
    dtype_name, suffixes, indent_prefix, device
        As in `tensor_str`. PyTorch leaves only the default floating-point dtype out:
        ``shows_dtype(dtype_name, default_name, numel=0)``.

    Returns
    -------
    str

    Examples
    --------
    >>> from gradcore.tensor.printing import meta_str
    >>> meta_str((2, 3))
    "tensor(..., device='meta', size=(2, 3))"
    """
    suffixes = _all_suffixes(device, tuple(shape), dtype_name, suffixes)
    return with_suffixes(f"{indent_prefix}...", suffixes, len(indent_prefix), _options.linewidth)


def _all_suffixes(
    device: str | None, size: tuple[int, ...] | None, dtype_name: str | None, further: Iterable[str]
) -> list[str]:
    quoted = None if device is None else f"'{device}'"
    suffixes = {"device": quoted, "size": size, "dtype": dtype_name}
    return [f"{name}={value}" for name, value in suffixes.items() if value is not None] + list(further)


def with_suffixes(text: str, suffixes: Iterable[str], indent: int, linewidth: int, new_line: bool = False) -> str:
    """Append the suffixes and the closing bracket, and break long lines."""
    line_length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if new_line or line_length + len(suffix) + 2 > linewidth:
            text += ",\n" + " " * indent + suffix
            line_length, new_line = indent + len(suffix), False
        else:
            text += ", " + suffix
            line_length += len(suffix) + 2
    return text + ")"


def _content(array: Any, indent: int, to_numpy: Callable[[Any], np.ndarray], options: PrintOptions) -> str:
    """Return the text between prefix and suffixes: the elements in brackets."""
    shape = tuple(array.shape)
    numel = math.prod(shape)
    if numel == 0:
        return "[]"
    edge = options.edgeitems if numel > options.threshold else numel  # no axis is longer than twice numel
    if edge == 0 and shape:
        return "[...]"
    texts, width = _element_texts(_printed_part(array, edge, to_numpy).reshape(-1), options)
    if not shape:
        return texts[0]
    per_line = max(1, int((options.linewidth - indent - len(shape) + 1) // (width + len(", "))))
    return _nest_texts(iter(texts), shape, edge, indent, per_line)


def _printed_part(array: Any, edge: int, to_numpy: Callable[[Any], np.ndarray], axis: int = 0) -> np.ndarray:
    """Return the first and last `edge` elements along every axis from `axis` on that is longer than both."""
    if axis == len(array.shape):
        return to_numpy(array)
    if array.shape[axis] <= 2 * edge:
        return _printed_part(array, edge, to_numpy, axis + 1)
    # Slices rather than an index array: every array library has them, and NumPy need not copy.
    before = (slice(None),) * axis
    ends = [array[(*before, part)] for part in (slice(edge), slice(-edge, None))]
    return np.concatenate([_printed_part(end, edge, to_numpy, axis + 1) for end in ends], axis)


def _nest_texts(texts: Iterator[str], shape: tuple[int, ...], edge: int, indent: int, per_line: int) -> str:
    """Arrange the texts of elements, in row-major order, in the brackets of a tensor of `shape`."""
    size, *rest = shape
    is_shortened = size > 2 * edge
    count = 2 * edge if is_shortened else size
    if not rest:
        items = list(islice(texts, count))
        if is_shortened:
            items.insert(edge, " ...")
        rows = [", ".join(items[start : start + per_line]) for start in range(0, len(items), per_line)]
    else:
        rows = [_nest_texts(texts, tuple(rest), edge, indent + 1, per_line) for _ in range(count)]
        if is_shortened:
            rows.insert(edge, "...")
    # Matrices inside a tensor are separated by an empty line, the containers of matrices by two, and so on.
    line_break = "\n" * max(1, len(rest)) + " " * (indent + 1)
    return "[" + f",{line_break}".join(rows) + "]"


def _element_texts(values: np.ndarray, options: PrintOptions) -> tuple[list[str], int]:
    """Return the texts of the elements of a vector, and the width by which lines are broken."""
    if values.dtype.kind != "c":
        texts, width = _number_texts(values, options)
        return [text.rjust(width) for text in texts], width
    real, real_width = _number_texts(np.real(values), options)
    imag, imag_width = _number_texts(np.imag(values), options)
    signed = (text if text.startswith("-") else f"+{text}" for text in imag)
    texts = [f"{re.rjust(real_width)}{im}j" for re, im in zip(real, signed, strict=True)]
    # As in PyTorch, the sign between the parts does not count.
    return texts, real_width + imag_width + len("j")


def _number_texts(values: np.ndarray, options: PrintOptions) -> tuple[list[str], int]:
    """Return the texts of a real vector's elements, in one notation, and their common width."""
    if values.dtype.kind in "biu":
        texts = [str(value) for value in values.tolist()]
        return texts, max(map(len, texts))
    with np.errstate(invalid="ignore"):  # widening a signalling NaN
        values = values.astype(np.float64)
    # Zeros, infinities and NaNs do not influence the notation and the width, and may exceed the width.
    counts = np.isfinite(values) & (values != 0)
    spec = _number_format(values[counts], options)
    if spec is None:
        texts = [f"{value:.0f}." if math.isfinite(value) else str(value) for value in values.tolist()]
    else:
        texts = [format(value, spec) for value in values.tolist()]
    return texts, max(map(len, compress(texts, counts)), default=1)


def _number_format(values: np.ndarray, options: PrintOptions) -> str | None:
    """Return the format for finite, nonzero values, or None if all are whole and print as ``1.``."""
    if values.size == 0:
        return None
    scientific = options.sci_mode
    if scientific is None:
        magnitudes = np.abs(values)
        low, high = float(magnitudes.min()), float(magnitudes.max())
        scientific = high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4
    if scientific:
        return f".{options.precision}e"
    return None if np.array_equal(values, np.ceil(values)) else f".{options.precision}f"
