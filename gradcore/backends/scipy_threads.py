"""SciPy's BLAS on one thread for matrices of moderate size.

NumPy's and SciPy's packages each bring a BLAS with threads of its own, which keep their cores busy for some 30 ms after
their last work. Where a program goes back and forth between the two, as the derivative of a factorisation does, they
are in each other's way: with two threads on two cores, one of 128 by 128 numbers took twenty-five times as long.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["on_one_thread"]

#: Matrices with a dim of this size are worth SciPy's threads.
LARGE = 1024


@functools.cache
def _threads() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """What gets and sets the number of threads of the OpenBLAS that SciPy's package brings; None if it brings none."""
    import scipy

    folder = Path(scipy.__file__).parent
    for libraries in (folder.parent / "scipy.libs", folder / ".dylibs"):
        for path in sorted(libraries.glob("*openblas*")):
            try:
                library = ctypes.CDLL(str(path))
            except OSError:
                continue
            for prefix in ("scipy_openblas_", "openblas_"):
                for suffix in ("", "64_"):
                    names = (f"{prefix}{verb}_num_threads{suffix}" for verb in ("get", "set"))
                    found = [getattr(library, name, None) for name in names]
                    if None not in found:
                        return found[0], found[1]  # type: ignore[return-value]
    return None


def on_one_thread(routine: Callable[..., Any]) -> Callable[..., Any]:
    """A routine of SciPy's LAPACK or BLAS that leaves its threads alone unless a matrix is large."""
    threads = _threads()
    if threads is None:
        return routine
    get, put = threads

    def call(*args: Any, **settings: Any) -> Any:
        before = get()
        if before == 1 or any(max(getattr(a, "shape", ()), default=0) >= LARGE for a in args):
            return routine(*args, **settings)
        put(1)
        try:
            return routine(*args, **settings)
        finally:
            put(before)

    return call
