"""NumPy functions of one array that are slow enough to share their elements among threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcore.backends.numpy import threads

__all__ = ["in_threads"]

#: Elements from which a thread pays off, and elements that are computed at a time.
_WORTH_A_THREAD, _PART = 1 << 18, 1 << 19


def in_threads(function: Any) -> Callable[..., Any]:
    """Wrap a function of one array so that threads share large arrays. Universal functions also write into arrays."""
    is_universal = hasattr(function, "nout")

    def kernel(x: Any, out: Any = None) -> Any:
        number = min(threads.available(), x.size // _WORTH_A_THREAD)
        if number < 2 or not _fits(x, out):
            return function(x) if out is None else function(x, out)
        result = np.empty_like(x) if out is None else out
        source, target = (x.ravel("K") for x in (x, result))
        count = threads.even_parts(x.size, _PART, number)

        def run_numbers(numbers: Iterator[int]) -> None:
            for i in numbers:
                part = slice(x.size * i // count, x.size * (i + 1) // count)
                if is_universal:
                    function(source[part], target[part])
                else:
                    target[part] = function(source[part])

        threads.share(run_numbers, count, number)
        return result

    if is_universal:
        kernel.nout = function.nout  # type: ignore[attr-defined]
    return kernel


def _fits(x: Any, out: Any) -> bool:
    """Return whether `x` holds floats without gaps, and `out`, unless None, has the same dtype, shape and order."""
    if x.dtype.char not in "fd":
        return False
    if out is None:
        return bool(x.flags.forc)
    same_type = x.shape == out.shape and x.dtype == out.dtype
    return same_type and bool(
        (x.flags.c_contiguous and out.flags.c_contiguous) or (x.flags.f_contiguous and out.flags.f_contiguous)
    )
