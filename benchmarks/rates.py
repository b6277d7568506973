"""Rates of the machine, and of the compiled kernels for each instruction set beside them.

``python -m benchmarks.rates`` prints a table as in `docs/performance-notes.md`: the bandwidth of each kernel, which is
the number of bytes that it must read and write once, divided by its time. The limit is the bandwidth of a copy that
stays in the same level of cache. The libraries must have been built: ``python -m gradcore.compiled variants``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["main", "measure_rates", "table"]

#: The shape of the matrices, which stay in the second level of cache; matrices with short rows for the narrow kernels.
_SHAPE, _NARROW = (256, 512), (16384, 8)
#: Calls in a row, and the number of times of which the shortest counts.
_CALLS, _TIMES = 20, 27


def measure_rates(device: str) -> dict[str, float]:
    """Measure the device.

    Parameters
    ----------
    device : str
        ``"cpu"`` (by NumPy) or ``"cuda"`` (by CuPy).

    Returns
    -------
    dict
        ``"copy"``, in bytes read and written a second, and ``"matmul"``, in floating-point operations a second.
    """
    xp: Any = importlib.import_module("cupy" if device == "cuda" else "numpy")
    n, m = (1 << 28, 4096) if device == "cuda" else (1 << 25, 1024)
    source, target = xp.ones(n, "float32"), xp.empty(n, "float32")
    a, b, c = (xp.ones((m, m), "float32") for _ in range(3))

    def fastest(work: Any) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            work()
            if device == "cuda":
                xp.cuda.Device().synchronize()
            times.append(time.perf_counter() - start)
        return min(times)

    def copy() -> None:
        target[...] = source

    return {"copy": 2 * source.nbytes / fastest(copy), "matmul": 2 * m**3 / fastest(lambda: xp.matmul(a, b, out=c))}


# -- kernels of the compiled library -------------------------------------------------------------------------------

Measured = tuple[str, Callable[[], Any], int]


def _bytes(*arrays: Any) -> int:
    return sum(a.nbytes for a in arrays)


def _reductions(backend: Any, matrices: dict[str, Any]) -> Iterator[Measured]:
    """Yield the name, a call and the bytes of kernels that reduce rows or columns."""
    import numpy as np

    from gradcore.backends.compiled.calls import Work

    for name, kernel, characters, count in (
        ("sums of rows", "row_sums", "fdeE", 1), ("sums of squares", "row_squares", "f", 1),
        ("dot products of rows", "row_dots", "f", 2), ("products of rows", "row_products", "f", 1),
        ("maxima of rows", "row_maxima", "fd", 1),
    ):  # fmt: skip
        for char in characters:
            x = matrices[char]
            height, width = x.shape
            out = np.empty(height, x.dtype if kernel in ("row_products", "row_maxima") else "f8")
            work = Work(height, height, width, x.size if count == 1 else 0, width)
            arrays = [*[x] * count, out]
            yield f"{name}, {_DTYPES[char]}", _bind(backend, kernel, char, work, arrays), count * x.nbytes + out.nbytes
    for name, kernel, char in (("sums", "column_sums", "e"), ("sums of squares", "column_squares", "f")):
        x = matrices[char]
        height, width = x.shape
        out = np.empty((1, 1, width))
        call = _bind(backend, kernel, char, Work(1, height, width, height, 1), [x, out])
        yield f"{name} of columns, {_DTYPES[char]}", call, _bytes(x, out)


def _rows(backend: Any, matrices: dict[str, Any]) -> Iterator[Measured]:
    """Yield the name, a call and the bytes of kernels of softmax and normalizations."""
    import numpy as np

    from gradcore.backends.compiled.calls import Work

    x, shape = matrices["f"], _SHAPE
    height, width = shape
    y, out, ones, zeros, sums, more = (
        np.full(shape, 1 / width, "f4"), np.empty(shape, "f4"), np.ones(width, "f4"), np.zeros(height, "f4"),
        *np.ones((2, height), "f4"),
    )  # fmt: skip
    weight, parts = np.ones(16, "f4"), 16
    for name, kernel, arrays, settings in (
        ("softmax", "softmax", [x, out], {}),
        ("derivative of softmax", "softmax_backward", [x, y, out], {}),
        ("log-softmax", "log_softmax", [x, out], {}),
        ("derivative of log-softmax", "log_softmax_backward", [x, np.log(y), out], {}),
        ("layer norm", "layer_norm", [x, ones, ones, out, sums, more], {"number": 1e-5}),
        ("derivative of layer norm", "layer_norm_backward",
         [x, y, ones, zeros, sums, out, np.empty(width, "f4"), np.empty(width, "f4")], {"number": 1e-5, "parts": 1}),
        ("group norm", "group_norm", [x, weight, weight, out, sums, more], {"inner": 128, "cycle": 4, "number": 1e-5}),
        ("derivative of group norm", "group_norm_backward",
         [x, y, weight, zeros, sums, out, *np.empty((2, height // 4, parts), "f4")],
         {"inner": 128, "cycle": 4, "number": 1e-5}),
        ("moments of planes", "plane_moments", [x, zeros, sums, more], {}),
    ):  # fmt: skip
        work = Work(settings.pop("parts", height), height, width, **settings)
        yield name, _bind(backend, kernel, "f", work, arrays), _bytes(*arrays)


def _narrow(backend: Any, matrices: dict[str, Any]) -> Iterator[Measured]:
    """Yield the name, a call and the bytes of reductions of short rows and of few columns."""
    x = matrices["f"].reshape(_NARROW)
    moved = x.nbytes + 4 * len(x)
    yield f"maxima of rows of {_NARROW[1]}", lambda: backend.max_over(x, (1,)), moved
    yield f"logsumexp of rows of {_NARROW[1]}", lambda: backend.logsumexp_over(x, (1,), False), moved
    stack = matrices["f"].reshape(-1, _NARROW[1], 4)
    yield f"sums of {_NARROW[1]} rows of 4", lambda: backend.sum_over(stack, (1,)), x.nbytes + x.nbytes // _NARROW[1]


_DTYPES = {"f": "float32", "d": "float64", "e": "float16", "E": "bfloat16"}


def _bind(backend: Any, kernel: str, char: str, work: Any, arrays: Sequence[Any]) -> Callable[[], None]:
    return lambda: backend.run_kernel(kernel, char, work, work.height * work.width, *arrays)


def _measure_kernels() -> dict[str, float]:
    """Return the bandwidths of a copy and of the kernels that this process uses, in bytes a second."""
    import numpy as np

    from gradcore.backends.registry import CPU

    backend: Any = CPU.backend
    if not hasattr(backend, "library"):
        return {}
    random = np.random.default_rng(0)
    x = random.standard_normal(_SHAPE, np.float32)
    brains = (x.view(np.uint32) >> 16).astype(np.uint16)
    matrices = {"f": x, "d": x[:, : _SHAPE[1] // 2].astype("f8"), "e": x.astype("f2"), "E": brains}
    target = np.empty_like(x)
    measured: list[Measured] = [("copy", lambda: np.copyto(target, x), _bytes(x, target))]
    for kernels in (_reductions, _rows, _narrow):
        measured += kernels(backend, matrices)
    return {name: moved / _shortest(call) for name, call, moved in measured}


def _shortest(call: Callable[[], Any]) -> float:
    """Return the shortest CPU time of a call, in seconds."""
    times = []
    call()
    for _ in range(_TIMES):
        start = time.process_time()
        for _ in range(_CALLS):
            call()
        times.append(time.process_time() - start)
    return min(times) / _CALLS


# -- variants ------------------------------------------------------------------------------------------------------


def _measure_variant(name: str) -> dict[str, float]:
    """Return the bandwidths of the kernels of an instruction set, or an empty dict if its library is not there."""
    from numpy._core._multiarray_umath import __cpu_features__ as known  # type: ignore[attr-defined]

    from gradcore.backends.compiled.variants import variants_of_machine

    variants = variants_of_machine()
    number = [variant.name for variant in variants].index(name)
    chosen, better = variants[number], variants[:number]
    names = "groups" if any(group in known for variant in variants for group in variant.groups) else "features"
    disabled = {feature for variant in better for feature in getattr(variant, names)} - {*getattr(chosen, names)}
    with tempfile.TemporaryDirectory() as folder:  # in which there is no library that was built for this CPU
        environment = {
            **os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(sorted(disabled)), "GRADCORE_CACHE": folder,
            "GRADCORE_COMPILED": "auto",
        }  # fmt: skip
        command = [sys.executable, "-m", "benchmarks.rates", "--measure"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    rates: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return rates


def table(columns: dict[str, dict[str, float]]) -> str:
    """Return the bandwidths of each variant in GB/s as a table in Markdown, with the share of the copy's bandwidth.

    Examples
    --------
    >>> print(table({"avx2": {"copy": 8e10, "softmax": 1e10}}))
    | kernel, GB/s (share of a copy) | `avx2` |
    | --- | --- |
    | copy | 80 (1.00) |
    | softmax | 10 (.12) |
    """
    names = list(dict.fromkeys(name for rates in columns.values() for name in rates))
    lines = [
        "| kernel, GB/s (share of a copy) | " + " | ".join(f"`{name}`" for name in columns) + " |",
        "| --- |" + " --- |" * len(columns),
    ]
    for name in names:
        cells = [_cell(rates[name], rates["copy"]) if name in rates else "not built" for rates in columns.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(rate: float, copy: float) -> str:
    return f"{rate / 1e9:.0f} ({f'{rate / copy:.2f}'.removeprefix('0')})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table; 1 if no library is there."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rates", description=__doc__)
    parser.add_argument("--variants", default="", metavar="A,B", help="instead of all of this architecture")
    parser.add_argument("--measure", action="store_true", help="print the rates of this process's kernels as JSON")
    options = parser.parse_args(arguments)
    if options.measure:
        from benchmarks.threads import limit_threads

        limit_threads(1)
        print(json.dumps(_measure_kernels()))
        return 0
    from gradcore.backends.compiled.variants import variants_of_machine

    known = [variant.name for variant in variants_of_machine()]
    names = options.variants.split(",") if options.variants else known
    unknown = sorted({*names} - {*known})
    if unknown:
        raise SystemExit(f"no such variant: {', '.join(unknown)}; there are {', '.join(known)}")
    columns = {name: _measure_variant(name) for name in names}
    print(table(columns))
    return 0 if any(columns.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
