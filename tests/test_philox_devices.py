"""Random numbers have equal bits on every device.

Without a GPU, the CUDA source is compiled as C++ and its kernels are called thread by thread, which compares every
formula and the indexing; NVRTC or nvcc shows that it compiles for a GPU and that no multiply and add is fused.
"""

import ctypes
import hashlib
import math
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from gradcore.backends import philox, sampling
from gradcore.backends.generator import PhiloxState

CUDA = Path(philox.__file__).parent / "cuda"
KEY, COUNTER = 0x0123456789ABCDEF_FEDCBA9876543210, 2**192 + 2**64 - 3  # the counter carries within the stream
N = 1_000_003

# CUDA's words for C++; the kernels find their place in a grid in these variables.
SHIM = """
#define __global__
#define __device__
static struct { unsigned x; } threadIdx, blockIdx, blockDim, gridDim;
extern "C" void set_thread(unsigned blocks, unsigned threads, unsigned block, unsigned thread) {
    gridDim.x = blocks; blockDim.x = threads; blockIdx.x = block; threadIdx.x = thread;
}
#include "philox.cu"
"""


@pytest.fixture(scope="module", params=["-O0", "-O3", "-O3 -march=native"])
def kernels(request, tmp_path_factory):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed: the CUDA source is not compared with NumPy")
    folder = tmp_path_factory.mktemp("philox")
    (folder / "shim.cpp").write_text(SHIM)
    command = [compiler, *request.param.split(), "-std=c++17", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"]
    command += ["-Wno-unknown-pragmas", "-shared", "-fPIC", f"-I{CUDA}", "shim.cpp", "-o", "kernels.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "kernels.so"))


def launch(kernels, name, out, parameters=(), offset=0, counter=COUNTER):
    """Call a kernel for a grid of two blocks of three threads."""
    mask = 2**64 - 1
    place = [KEY & mask, KEY >> 64, *(counter >> 64 * i & mask for i in range(4))]
    real = ctypes.c_double if name.endswith("64") else ctypes.c_float
    arguments = [ctypes.c_void_p(out.ctypes.data), *map(ctypes.c_uint64, [out.size, *place, offset])]
    arguments += [real(parameter) for parameter in parameters]
    for block in range(2):
        for thread in range(3):
            kernels.set_thread(2, 3, block, thread)
            getattr(kernels, name)(*arguments)
    return out


def same_bits(a, b):
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


def real_dtype(name):
    return np.dtype(getattr(pytest.importorskip("ml_dtypes"), name) if name == "bfloat16" else name)


class TestCudaSource:
    def test_words(self, kernels):
        out = launch(kernels, "philox_words", np.empty(2 * N, np.uint64))
        assert same_bits(out, philox.words(2 * N, KEY, COUNTER))

    @pytest.mark.parametrize("offset", [0, 1, 3, 4, 4097])
    @pytest.mark.parametrize("n", [0, 1, 2, 7, 100])
    def test_offset(self, kernels, offset, n):
        expected = philox.words(offset + n, KEY, 2**256 - 3)[offset:]
        padded = np.full(n + 5, 7, np.uint64)
        assert same_bits(launch(kernels, "philox_words", padded[:n], (), offset, 2**256 - 3), expected)
        assert (padded[n:] == 7).all()
        halves = philox.uniform(np, philox.words(offset + n, KEY, 2**256 - 3)[offset:], np.float32)
        padded = np.full(2 * n + 5, 7, np.float32)
        for size in (2 * n, max(2 * n - 1, 0)):  # whole words, and half of the last one
            out = launch(kernels, "philox_uniform_float32", padded[:size], (0, 1, 2), offset, 2**256 - 3)
            assert same_bits(out, halves[:size])
        assert (padded[2 * n :] == 7).all()

    @pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
    @pytest.mark.parametrize(
        ("distribution", "parameters"),
        [
            ("uniform", (0.0, 1.0)),
            ("uniform", (-0.3, 12.7)),
            ("normal", (0.0, 1.0)),
            ("normal", (0.3, 1.7)),
            ("normal", (0.0, 1e-6)),  # subnormal in float16
            ("normal", (0.0, 30000.0)),  # beyond the range of float16
            ("exponential", (1.0,)),
            ("exponential", (0.7,)),
        ],
    )
    def test_distributions(self, kernels, distribution, parameters, name):
        dtype = real_dtype(name)
        stream = philox.WordStream(philox.word_count(N, dtype), KEY, COUNTER)
        expected = getattr(philox, distribution)(np, stream, dtype, *parameters)[:N]
        if distribution == "uniform":
            low, high = (dtype.type(bound) for bound in parameters)
            real = np.float64 if name == "float64" else np.float32
            parameters = (low, real(high) - real(low), np.nextafter(high, low))
        out = np.empty(N, np.uint16 if dtype.itemsize == 2 else dtype)
        launch(kernels, f"philox_{distribution}_{name}", out, map(float, parameters))
        assert same_bits(out, expected.view(out.dtype))

    def test_extreme_words(self, kernels):
        """The formulas at the ends of the range of a word, through words that the generator would hardly make."""
        # There is no kernel that takes words: the NumPy side is compared at the words of a long stream in
        # `test_distributions`, and its ends are reached in the largest of 2 million numbers.
        out = launch(kernels, "philox_normal_float32", np.empty(2 * N, np.float32), (0, 1))
        assert same_bits(out, philox.normal(np, philox.WordStream(N, KEY, COUNTER), np.float32))
        assert np.abs(out).max() > 4.8
