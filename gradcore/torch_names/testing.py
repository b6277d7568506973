"""Helpers for tests: comparisons that name the difference, and tensors of random numbers.

Examples
--------
>>> import gradcore
>>> from gradcore.testing import assert_close
>>> assert_close(gradcore.tensor([1.0, 2.0]), gradcore.tensor([1.0, 2.0 + 1e-6]))
>>> assert_close(gradcore.tensor([1.0, 2.0]), gradcore.tensor([1.0, 2.5]))
Traceback (most recent call last):
    ...
AssertionError: Tensor-likes are not close!
<BLANKLINE>
Mismatched elements: 1 / 2 (50.0%)
Greatest absolute difference: 0.5 at index (1,) (up to 1e-05 allowed)
Greatest relative difference: 0.20000000298023224 at index (1,) (up to 1.3e-06 allowed)
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcore.core import dtypes
from gradcore.core.errors import warn
from gradcore.tensor import Tensor, creation, random
from gradcore.tensor.creation.filled import sizes
from gradcore.torch_names import paths

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

#: Relative and absolute tolerances by dtype; others are compared exactly.
_TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex128: (1e-7, 1e-7),
}
_NUMBERS = {bool: dtypes.bool_, int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}
#: Index tensors of sparse layouts.
_INDICES = {
    "COO": ("indices",),
    **dict.fromkeys(("CSR", "BSR"), ("crow_indices", "col_indices")),
    **dict.fromkeys(("CSC", "BSC"), ("ccol_indices", "row_indices")),
}


class _Comparison:
    """The settings of a comparison."""

    def __init__(
        self, rtol: float | None, atol: float | None, equal_nan: bool, attributes: tuple[str, ...], exact_types: bool
    ) -> None:
        if (rtol is None) != (atol is None):
            missing = "rtol" if rtol is None else "atol"
            raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
        self.given = None if rtol is None or atol is None else (rtol, atol)
        self.equal_nan = equal_nan
        self.attributes = attributes
        self.exact_types = exact_types

    def differences(self, actual: Any, expected: Any, where: str = "") -> str | None:
        """Return the first difference with its path in nested containers; None if there is none."""
        if isinstance(actual, Tensor) and isinstance(expected, Tensor):
            difference = self.compare_tensors(actual, expected)
        elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
            return self.compare_mappings(actual, expected, where)
        elif _is_sequence(actual) and _is_sequence(expected):
            return self.compare_sequences(actual, expected, where)
        elif actual is None or expected is None:
            difference = None if actual is expected else f"None mismatch: {actual} is not {expected}"
        else:
            actual, expected = _plain(actual), _plain(expected)
            if type(actual) in _NUMBERS and type(expected) in _NUMBERS:
                difference = self.compare_numbers(actual, expected)
            elif isinstance(actual, np.ndarray) and isinstance(expected, np.ndarray):
                difference = self.compare_tensors(
                    creation.from_numpy(actual.copy()), creation.from_numpy(expected.copy())
                )
            else:
                raise TypeError(
                    f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
                )
        return f"{difference}\n\nThe failure occurred for item {where}" if difference and where else difference

    def compare_mappings(self, actual: Mapping[Any, Any], expected: Mapping[Any, Any], where: str) -> str | None:
        """Return the first difference of two mappings, or None."""
        missing, additional = expected.keys() - actual.keys(), actual.keys() - expected.keys()
        if missing or additional:
            return (
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(missing, key=repr)}\n"
                f"Additional keys in the actual mapping: {sorted(additional, key=repr)}"
            )
        differences = (self.differences(actual[key], expected[key], f"{where}[{key!r}]") for key in expected)
        return next(filter(None, differences), None)

    def compare_sequences(self, actual: Sequence[Any], expected: Sequence[Any], where: str) -> str | None:
        """Return the first difference of two sequences, or None."""
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
        pairs = enumerate(zip(actual, expected, strict=True))
        return next(filter(None, (self.differences(a, e, f"{where}[{i}]") for i, (a, e) in pairs)), None)

    def compare_numbers(self, actual: Any, expected: Any) -> str | None:
        """Return the difference of two numbers, or None if they are close."""
        if self.exact_types and type(actual) is not type(expected):
            return f"The (d)types do not match: {type(actual)} != {type(expected)}."
        rtol, atol = self.given or _tolerances(_NUMBERS[type(actual)], _NUMBERS[type(expected)])
        if actual == expected or (self.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
            return None
        absolute = abs(actual - expected)
        if math.isfinite(absolute) and absolute <= atol + rtol * abs(expected):
            return None
        relative = absolute / abs(expected) if expected else math.inf
        return (
            f"Scalars are not {_manner(rtol, atol)}!\n\nExpected {expected} but got {actual}.\n"
            f"Absolute difference: {absolute}{_describe_bound(atol, rtol)}\n"
            f"Relative difference: {relative}{_describe_bound(rtol, atol)}"
        )

    def compare_tensors(self, actual: Tensor, expected: Tensor) -> str | None:
        """Return the difference of two tensors in attributes or elements, or None."""
        for name in self.attributes:
            if name == "stride" and not (actual._strided and expected._strided):
                continue
            actual_value, expected_value = (getattr(t, name) for t in (actual, expected))
            actual_value, expected_value = (
                (actual_value(), expected_value()) if callable(actual_value) else (actual_value, expected_value)
            )
            if actual_value != expected_value:
                label = f"{name}()" if name == "stride" else name
                return f"The values for attribute '{label}' do not match: {actual_value} != {expected_value}."
        if actual.is_meta or expected.is_meta:
            raise NotImplementedError("Comparing meta tensors is currently not supported")
        tolerances = self.given or _tolerances(actual.dtype, expected.dtype)
        if actual.layout is not expected.layout:
            actual, expected = (t if t._strided else t.to_dense() for t in (actual, expected))
        if actual._strided:
            return self.compare_elements(actual, expected, tolerances)
        return self.compare_parts(actual, expected, tolerances)

    def compare_parts(self, actual: Any, expected: Any, tolerances: tuple[float, float]) -> str | None:
        """Return the first difference of two sparse tensors of one layout, or None; indices must be equal."""
        kind = actual.layout._name.removeprefix("sparse_").upper()
        for label, count in (("sparse dimensions", "sparse_dim"), ("specified values", "_nnz")):
            actual_count, expected_count = getattr(actual, count)(), getattr(expected, count)()
            if actual_count != expected_count:
                return (
                    f"The number of {label} in sparse {kind} tensors does not match: {actual_count} != {expected_count}"
                )
        for actual_index, expected_index, name in zip(actual.index, expected.index, _INDICES[kind], strict=True):
            if result := self.compare_elements(actual_index, expected_index, (0.0, 0.0), f"Sparse {kind} {name}"):
                return result
        return self.compare_elements(actual._values(), expected._values(), tolerances, f"Sparse {kind} values")

    def compare_elements(
        self, actual: Tensor, expected: Tensor, tolerances: tuple[float, float], what: str = ""
    ) -> str | None:
        """Return a description of the elements that are not close, or None."""
        rtol, atol = tolerances
        actual_array, expected_array = (_wide(t) for t in (actual, expected))
        with np.errstate(all="ignore"):
            close = np.isclose(actual_array, expected_array, rtol, atol, self.equal_nan)
            if close.all():
                return None
            absolute = abs(actual_array - expected_array)
            relative = absolute / abs(expected_array)
        absolute, relative = (np.where(close, 0, values) for values in (absolute, relative))
        if not actual_array.ndim:
            return (
                f"{what or 'Scalars'} are not {_manner(rtol, atol)}!\n\n"
                f"Expected {expected_array} but got {actual_array}.\n"
                f"Absolute difference: {absolute}{_describe_bound(atol, rtol)}\n"
                f"Relative difference: {relative}{_describe_bound(rtol, atol)}"
            )
        wrong_count = int((~close).sum())
        return (
            f"{what or 'Tensor-likes'} are not {_manner(rtol, atol)}!\n\n"
            f"Mismatched elements: {wrong_count} / {close.size} ({wrong_count / close.size:.1%})\n"
            f"Greatest absolute difference: {_greatest(absolute)}{_describe_bound(atol, rtol)}\n"
            f"Greatest relative difference: {_greatest(relative)}{_describe_bound(rtol, atol)}"
        )


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as a Python number, and anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def _tolerances(*kinds: dtypes.dtype) -> tuple[float, float]:
    bounds = [_TOLERANCES.get(kind, (0.0, 0.0)) for kind in kinds]
    return max(pair[0] for pair in bounds), max(pair[1] for pair in bounds)


def _wide(value: Tensor) -> Any:
    """Return a tensor's numbers in a dtype in which their differences are not rounded to zero."""
    value = value.detach().cpu()
    if value.dtype.is_complex or value.dtype in (dtypes.float32, dtypes.float64, dtypes.int64):
        return value.resolve_conj().numpy()
    return value.to(dtypes.float32 if value.dtype.is_floating_point else dtypes.int64).numpy()


def _manner(rtol: float, atol: float) -> str:
    return "close" if rtol or atol else "equal"


def _describe_bound(bound: float, other: float) -> str:
    return f" (up to {bound} allowed)" if bound or other else ""


def _greatest(values: Any) -> str:
    index = np.unravel_index(int(np.argmax(values)), values.shape)
    return f"{values[index].item()} at index {tuple(int(i) for i in index)}"


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise unless tensors, numbers, or containers of them are close: ``|a - e| <= atol + rtol * |e|`` everywhere.

    Parameters
    ----------
    actual, expected : Tensor, number, None, ndarray, or sequences and mappings of them
        The value to check, and the expected value.
    allow_subclasses : bool
        Whether objects of different types are compared where one is a subclass of the other.
    rtol, atol : float, optional
        Tolerances, relative and absolute; both or none. By default those of PyTorch for the dtype, for example 1.3e-6
        and 1e-5 for float32; of two dtypes the greater ones.
    equal_nan : bool
        Whether two NaNs are equal.
    check_device, check_dtype, check_layout, check_stride : bool
        Properties that must be equal, in addition to the shape and the values.
    msg : str or callable, optional
        The message of the error, or a function that returns it for the default message.

    Raises
    ------
    AssertionError
        If something differs. The message says what differs, where and how much.
    TypeError
        If the objects cannot be compared.
    ValueError
        If only one tolerance is given.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.testing.assert_close(gc.tensor([1.0]), gc.tensor([1.0 + 1e-7]))
    """
    checks = {"layout": check_layout, "stride": check_stride, "device": check_device, "dtype": check_dtype}
    attributes = ("shape", *(name for name, is_compared in checks.items() if is_compared))
    comparison = _Comparison(rtol, atol, equal_nan, attributes, check_dtype)
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    tensors = isinstance(actual, Tensor) and isinstance(expected, Tensor)
    if tensors and not (related if allow_subclasses else type(actual) is type(expected)):
        raise TypeError(f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.")
    difference = comparison.differences(actual, expected)
    if difference:
        raise AssertionError(msg(difference) if callable(msg) else msg or difference)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Call `assert_close` under an older name: other objects become tensors, dtypes and devices may differ."""
    warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please "
        "use `torch.testing.assert_close()` instead.",
        FutureWarning,
    )
    pair = [t if isinstance(t, Tensor) else creation.tensor(t) for t in (actual, expected)]
    settings = {"check_device": False, "check_dtype": False, "check_stride": False, "msg": msg or None}
    assert_close(*pair, rtol=rtol, atol=atol, equal_nan=equal_nan, **settings)  # type: ignore[arg-type]


def make_tensor(
    *shape: Any,
    dtype: dtypes.dtype,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return a tensor of uniformly distributed random numbers from ``[low, high)``.

    Parameters
    ----------
    shape : int, or a sequence of int
    dtype, device
    low, high : float, optional
        By default 0 and 2 for bool, 0 and 10 for uint8, -9 and 10 for other integers, -9 and 9 for floating-point and
        complex numbers (both parts).
    requires_grad : bool
    noncontiguous : bool
        Whether there are gaps between the elements in memory.
    exclude_zero : bool
        Whether zeros are replaced: by 1 for integers and bools, otherwise by the smallest positive normal number.
    memory_format
        Accepted for compatibility.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        If `low` is not below `high`, or `requires_grad` is True for a dtype without gradients.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.testing.make_tensor(2, 3, dtype=gradcore.int64, device="cpu", low=1, high=2)
    tensor([[1, 1, 1],
            [1, 1, 1]])
    """
    size = sizes(shape, "make_tensor")
    is_integral = not dtype.is_differentiable
    bounds = {dtypes.bool_: (0, 2), dtypes.uint8: (0, 10)}.get(dtype, (-9, 10 if is_integral else 9))
    lower, upper = bounds[0] if low is None else low, bounds[1] if high is None else high
    if not lower < upper:
        raise ValueError(f"`low` must be less than `high`, but got {lower} >= {upper}")
    if requires_grad and is_integral:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    has_gaps = noncontiguous and math.prod(size) > 1
    drawn_size = (*size[:-1], 2 * size[-1]) if has_gaps else size
    if is_integral:
        result = random.randint(math.ceil(lower), math.ceil(upper), drawn_size, device=device).to(dtype)
    else:
        real = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}.get(dtype, dtype)
        parts = (2, *drawn_size) if dtype.is_complex else drawn_size
        result = random.rand(parts, dtype=real, device=device) * (upper - lower) + lower
        result = (result[0] + 1j * result[1]).to(dtype) if dtype.is_complex else result
    if exclude_zero:
        result[result == 0] = 1 if is_integral else dtypes.finfo(dtype).tiny
    return (result[..., ::2] if has_gaps else result).requires_grad_(requires_grad)


paths.show_public(__name__)
