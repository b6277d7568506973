"""Peak memory: by how much one run of a case raises the peak of a process of its own.

``python -m benchmarks.memory LIBRARY DEVICE NUMBER`` prints that for a case of `CASES`, in bytes.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path
from typing import Any

from benchmarks.cases.base import Case, positive
from benchmarks.cases.optimisers import Adam
from benchmarks.cases.training import CNNStep, MLPStep, TransformerStep


class SavedOutputs(Case, abstract=True):
    """`size` ops in a row, of which each keeps its result of 16 MB for backward."""

    group = "memory"

    def inputs(self, random: Any) -> Any:
        return (positive(random, 4 << 20 if self.size > 2 else 100),), ()

    def torch_style(self, T: Any, x: Any) -> Any:
        for _ in range(self.size):
            x = x.tanh()
        return x.sum()

    def numpy_style(self, np: Any, x: Any) -> Any:
        for _ in range(self.size):
            x = np.tanh(x)
        return x.sum()

    def by_hand(self, xp: Any, x: Any) -> Any:
        saved = []
        for _ in range(self.size):
            x = xp.tanh(x)
            saved.append(x)
        loss, g = x.sum(), xp.ones_like(x)
        while saved:
            y = saved.pop()
            g *= 1 - y * y
        return loss, (g,)


class Elementwise(SavedOutputs, abstract=True):
    """`size` ops in a row of which none needs a result: what is kept is what backward needs."""

    def torch_style(self, T: Any, x: Any) -> Any:
        for _ in range(self.size):
            x = (x + 1) * 0.5
        return x.sum()

    def numpy_style(self, np: Any, x: Any) -> Any:
        for _ in range(self.size):
            x = (x + 1) * 0.5
        return x.sum()

    by_hand = None


#: The cases, and the same in small, for what a library loads and keeps at its first use.
CASES = (
    (SavedOutputs(20), SavedOutputs(2)),
    (Elementwise(20), Elementwise(2)),
    (MLPStep(1024), MLPStep(2)),
    (CNNStep(64), CNNStep(2)),
    (TransformerStep(64), TransformerStep(2)),
    (Adam(29), Adam(6)),
)


def measurable(library: str, device: str) -> bool:
    """Whether the memory of a library can be measured: a process's on Linux, that of PyTorch's and CuPy's pools."""
    if device == "cuda":
        return library in ("gradcore", "torch", "cupy")
    return Path("/proc/self/clear_refs").exists()


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def peak(library: Any, case: Case) -> int:
    """Bytes by which one run raises the peak above what the process holds before.

    What is compiled has been compiled by then: what that has left behind, and buffers that stay, are counted.
    """
    work = library.prepare(case, case.arrays()).run
    if library.device == "cuda":
        return _peak_on_device(library, work)
    _release()
    before = _status("VmRSS")
    for _ in range(library.compiling_calls):
        library.wait(work())
    _release()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is held
    library.wait(work())
    return _status("VmHWM") - before


def _release() -> None:
    """Give back what is freed and kept: it is not held."""
    gc.collect()
    if hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)


def _peak_on_device(library: Any, work: Any) -> int:
    if library.name.startswith("torch"):
        cuda = library.namespace.cuda
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        library.wait(work())
        return int(cuda.max_memory_allocated() - before)
    import cupy

    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.used_bytes()
    library.wait(work())
    return int(pool.total_bytes() - before)  # blocks are kept, so this is the peak


def main() -> None:
    """Measure one case, in this process."""
    from benchmarks.libraries import LIBRARIES

    name, device, number = sys.argv[1:]
    library = LIBRARIES[name](device)
    case, small = CASES[int(number)]
    library.wait(library.prepare(small, small.arrays()).run())
    print(peak(library, case))


if __name__ == "__main__":
    main()
