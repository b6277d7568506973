"""CuPy on a machine without a GPU: import this before CuPy.

CuPy is that of the published wheel. What it calls of CUDA is in one library for the host (`host/`), and what cuBLAS,
cuSOLVER and cuFFT compute there is done by SciPy's BLAS, LAPACK and FFT.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from pathlib import Path

HOME = Path(
    os.environ.get("CUPY_HOST_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cupy-host"
)
LIBRARIES = (
    "libcuda.so.1", "libcudart.so.12", "libnvrtc.so.12", "libcublas.so.12", "libcublasLt.so.12", "libcusolver.so.11",
    "libnvJitLink.so.12", "libcusparse.so.12", "libcufft.so.11", "libcurand.so.10",
)  # fmt: skip

os.environ.setdefault("CUPY_HOST_HOME", str(HOME))
os.environ.setdefault("CUPY_HOST_INCLUDE", str(HOME / "include"))
# CuPy 14.0 takes the folder of NVRTC's library, which is `HOME` here, for CUDA's, and passes its headers to NVRTC.
# Those in `HOME` are for g++. This variable comes first.
_packages = HOME / "venv" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
os.environ.setdefault("CUDA_PATH", str(_packages / "nvidia" / "cuda_runtime"))
#: Whether NVIDIA's compiler takes the place of g++, and its PTX is run: see `ptx`.
BY_NVRTC = os.environ.get("CUPY_HOST_COMPILER") == "nvrtc"
_tools = [HOME / "ptx" / name for name in ("build.py", "instructions.h", "nvrtc.py", "translate.py")]
_sources = _tools if BY_NVRTC else sorted(Path(os.environ["CUPY_HOST_INCLUDE"]).iterdir())
_headers = b"".join(path.read_bytes() for path in _sources)
os.environ.setdefault("CUPY_CACHE_DIR", str(HOME / f"cupy-cache-{hashlib.sha1(_headers).hexdigest()[:12]}"))
if not BY_NVRTC:
    os.environ["CUPY_ACCELERATORS"] = ""  # g++ does not take CUB's headers; NVRTC does, and keeps CuPy's default
host = ctypes.CDLL(str(HOME / "lib" / "libcupyhost.so"), mode=ctypes.RTLD_GLOBAL)
_held = [ctypes.CDLL(str(HOME / "lib" / name), mode=ctypes.RTLD_GLOBAL) for name in LIBRARIES]


def _hand_over_functions() -> None:
    """BLAS's and LAPACK's functions, by the addresses that SciPy has of them."""
    import scipy.linalg.cython_blas
    import scipy.linalg.cython_lapack

    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    tell = host.cupyhost_function
    tell.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    for module in (scipy.linalg.cython_blas, scipy.linalg.cython_lapack):
        for name, capsule in module.__pyx_capi__.items():
            tell(name.encode(), api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule)))


_FFT = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, *[ctypes.POINTER(ctypes.c_int64)] * 3,
    *[ctypes.c_int64] * 5, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int,
)  # fmt: skip

#: cuFFT's types: input, output.
_TYPES = {0x2A: "fF", 0x2C: "Ff", 0x29: "FF", 0x6A: "dD", 0x6C: "Dd", 0x69: "DD"}


@_FFT
def _transform(
    rank, n, inembed, onembed, istride, idist, ostride, odist, batch, kind, source, target, direction
) -> int:  # type: ignore[no-untyped-def]
    """One execution of a plan."""
    try:
        import numpy as np
        import scipy.fft

        sizes = [n[i] for i in range(rank)]
        into, out_of = (np.dtype(c) for c in _TYPES[kind])
        real_in, real_out = into.kind == "f", out_of.kind == "f"
        halved = [*sizes[:-1], sizes[-1] // 2 + 1]

        def view(address, dtype, shape, embed, stride, dist):  # type: ignore[no-untyped-def]
            steps = [stride]
            for size in reversed(embed[1:]):
                steps.insert(0, steps[0] * size)
            span = (batch - 1) * dist + sum((s - 1) * t for s, t in zip(shape, steps, strict=True)) + 1
            flat = np.frombuffer((ctypes.c_char * (span * dtype.itemsize)).from_address(address), dtype)
            strides = [dist * dtype.itemsize, *(t * dtype.itemsize for t in steps)]
            return np.lib.stride_tricks.as_strided(flat, [batch, *shape], strides)

        in_shape, out_shape = (halved if real_out else sizes), (halved if real_in else sizes)
        basic = not inembed
        if basic:
            istride = ostride = 1
            e_in, e_out = list(in_shape), list(out_shape)
            if source == target:  # in place: real rows are padded
                if real_in:
                    e_in = [*sizes[:-1], 2 * (sizes[-1] // 2 + 1)]
                if real_out:
                    e_out = [*sizes[:-1], 2 * (sizes[-1] // 2 + 1)]
            idist, odist = int(np.prod(e_in)), int(np.prod(e_out))
        else:
            e_in, e_out = [inembed[i] for i in range(rank)], [onembed[i] for i in range(rank)]
        x = view(source, into, in_shape, e_in, istride, idist).copy()
        axes = tuple(range(1, rank + 1))
        if real_in:
            y = scipy.fft.rfftn(x, axes=axes)
        elif real_out:
            y = scipy.fft.irfftn(x, s=sizes, axes=axes, norm="forward")
        elif direction == -1:
            y = scipy.fft.fftn(x, axes=axes)
        else:
            y = scipy.fft.ifftn(x, axes=axes, norm="forward")
        view(target, out_of, out_shape, e_out, ostride, odist)[...] = y
        return 0
    except BaseException:
        import traceback

        traceback.print_exc()
        return 6


_hand_over_functions()
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_transform))  # the library calls it after this module is gone, too
host.cupyhost_set_fft(_transform)

import cupy  # noqa: E402
import cupy._core  # noqa: E402

if not BY_NVRTC:
    cupy._core.set_routine_accelerators(["cub"])  # of CUB what is compiled before, which `host/reducing.cpp` stands for


class NotingPool(cupy.cuda.MemoryPool):  # type: ignore[misc,name-defined]
    """A pool that tells the host library of its arrays, to whose ends accesses are then held."""

    def malloc(self, size: int) -> object:
        """Memory of so many bytes."""
        pointer = super().malloc(size)
        if size:
            _note(pointer.ptr, size, cupy.cuda.get_current_stream().ptr)
        return pointer


if BY_NVRTC:
    _note = host.cupyhost_note
    _note.argtypes, _note.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p], None
    cupy.cuda.MemoryPool = NotingPool
    cupy._default_memory_pool = NotingPool()
    cupy.cuda.set_allocator(cupy._default_memory_pool.malloc)


def launches() -> int:
    """How many kernels ran so far."""
    host.cupyhost_launches.restype = ctypes.c_longlong
    return int(host.cupyhost_launches())


def skip_work(skips: bool) -> None:
    """Leave out the work of kernels and libraries that are called from now on, to measure the time of the host alone.

    Results then have any values.
    """
    host.cupyhost_skip_work(int(skips))


def waits() -> int:
    """How often the host asked to wait for the device so far, by synchronisations and copies to its memory."""
    host.cupyhost_waits.restype = ctypes.c_longlong
    return int(host.cupyhost_waits())
