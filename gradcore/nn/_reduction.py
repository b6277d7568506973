"""Reductions of losses as numbers, and from PyTorch's older arguments, as in ``torch.nn._reduction``."""

from __future__ import annotations

from gradcore import functional

__all__: list[str] = []

_NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """Return the number of a reduction: 0 for "none", 1 for "mean", 2 for "sum"."""
    return _NUMBERS[functional.check_reduction(reduction)]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """Return the name of the reduction given by the older arguments `size_average` and `reduce`."""
    average, reduced = size_average is None or size_average, reduce is None or reduce
    if emit_warning:
        return functional.check_reduction("mean", average, reduced)  # type: ignore[no-any-return]
    return ("mean" if average else "sum") if reduced else "none"


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """Return the number of the reduction given by the older arguments `size_average` and `reduce`."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
