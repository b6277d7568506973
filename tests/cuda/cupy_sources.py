"""Sources that CuPy generates for kernels of the package, by CUB and without, as JSON.

``python -m tests.cuda.cupy_sources`` runs in the rig's Python with ``CUPY_HOST=1``.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import sys
from itertools import product
from typing import Any

import cupy
import numpy as np
import pytest
from cupy.cuda import compiler

import gradcore as gc
from gradcore.backends.cupy.elementwise import _MOST_JOINED
from gradcore.backends.cupy.reductions import _DECLARED, _FUNCTIONS_OF_SUMS


def sources() -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the name of a kernel, its source and CuPy's options for each source that CuPy generates, each once.

    CuPy passes a source to its compiler when a kernel is called for the first time with some dtypes. The compiler is
    replaced by a function that keeps the source, so that nothing is compiled or run here.
    """
    found: dict[tuple[str, str, tuple[str, ...]], None] = {}

    def keep(source: str, options: tuple[str, ...], *args: Any, **named: Any) -> Any:
        name = re.search(r"void (\w+)\(", source)
        chosen = tuple(option for option in options if option.startswith(("-D", "-I")))
        found[name[1] if name else "?", source, chosen] = None
        raise NotImplementedError  # nothing runs

    backend: Any = gc.ones(1, device="cuda").device.backend
    short, long = ({c: cupy.empty((3, n), np.dtype(c)) for c in "efdbBhHiIlLqQ?FD"} for n in (5, 1000))
    for arrays in (short, long):
        arrays["E"] = cupy.empty(arrays["e"].shape, gc.bfloat16.numpy)
    calls: list[tuple[Any, ...]] = [(backend._as_unsigned, short[x], short[y]) for x in "fd" for y in "BHIQ"]
    calls += [(bound, short[c], short[c]) for bound in (backend._at_least, backend._at_most) for c in "efd"]
    calls += [(backend._watch_kernel, short[c], 0, 5, 1, cupy.empty(2, "q")) for c in "bBhHiIqQ"]
    calls += [
        (functools.partial(backend.reduction_kernel(name), axis=axis), arrays[c])
        for name, c, arrays, axis in product(_DECLARED, "eE", (short, long), (0, 1))
    ]
    calls += [(backend._triangle_kernel, short[c], 3, 5, 0, True, cupy.empty((3, 5), c)) for c in "efdbhilBHILFD?"]
    calls += [(backend._order_kernel, short["i"], 5, 5, cupy.empty((3, 5), "q"))]
    calls += [
        (backend._join_kernel(count), *[short[c]] * count, *[5] * count, cupy.empty((3, 5 * count), c))
        for count, c in product((2, _MOST_JOINED), "BHIQ")
    ]
    calls += [
        (functools.partial(backend.sum_kernel(name, arrays[c]), axis=axis), arrays[c])
        for name, c, arrays, axis in product(_FUNCTIONS_OF_SUMS, "eEfd", (short, long), (0, 1))
    ]
    for order, c, arrays, axis in product("<>", "eEfd", (short, long), (0, 1)):
        outputs = cupy.empty(arrays[c].shape[1 - axis], arrays[c].dtype), cupy.empty(arrays[c].shape[1 - axis], "q")
        calls.append((functools.partial(backend.extremum_kernel(order, False, arrays[c]), axis=axis), arrays[c]))
        both = functools.partial(backend.extremum_kernel(order, True, arrays[c]), axis=axis)
        calls.append((both, arrays[c], *outputs))
    before = cupy._core.get_reduction_accelerators()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "_compile_module_with_cache", keep)
        patch.setattr(compiler, "_compile_with_cache_cuda", keep)
        for accelerators, (call, *arguments) in product(([], ["cub"]), calls):
            cupy._core.set_reduction_accelerators(accelerators)
            with contextlib.suppress(NotImplementedError):
                call(*arguments)
    cupy._core.set_reduction_accelerators(before)
    return list(found)


if __name__ == "__main__":
    json.dump(sources(), sys.stdout)
