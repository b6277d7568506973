"""Random numbers have equal bits on every device.

Without a GPU, the CUDA source is compiled as C++ and its kernels are called thread by thread, which compares
every formula and the indexing; NVRTC or nvcc shows that it compiles for a GPU and that no multiply and add is
fused.
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

from gradcore.backends.random import philox, sampling
from gradcore.backends.random.generator import PhiloxState

CUDA = Path(philox.__file__).parents[1] / "cupy/sources"
KEY = 0x0123456789ABCDEF_FEDCBA9876543210
COUNTER = 2**192 + 2**64 - 3  # carries within the stream
N = 1_000_003

# CUDA's words for C++; the kernels find their place in a grid in these variables. Then loops over given bits.
SHIM = """
#define __global__
#define __device__
static struct { unsigned x; } threadIdx, blockIdx, blockDim, gridDim;
extern "C" void set_thread(unsigned blocks, unsigned threads, unsigned block, unsigned thread) {
    gridDim.x = blocks; blockDim.x = threads; blockIdx.x = block; threadIdx.x = thread;
}
#include "philox.cu"
#define LOOP(name, Bits, Out, function) \\
    extern "C" void name(const Bits* h, Out* out, u64 n) { \\
        for (u64 i = 0; i < n; ++i) out[i] = function(h[i]);  \\
    }
LOOP(normal_float32, u32, float, normal<float>)
LOOP(normal_float64, u64, double, normal<double>)
LOOP(exponential_float32, u32, float, exponential<float>)
LOOP(exponential_float64, u64, double, exponential<double>)
LOOP(round_float16, float, u16, float16_bits)
LOOP(round_bfloat16, float, u16, bfloat16_bits)
"""


@pytest.fixture(scope="module", params=["-O0", "-O3", "-O3 -march=native"])
def kernels(request, tmp_path_factory):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed: the CUDA source is not compared with NumPy")
    folder = tmp_path_factory.mktemp("philox")
    (folder / "shim.cpp").write_text(SHIM)
    command = [
        compiler,
        *request.param.split(),
        "-std=c++17",
        "-ffp-contract=off",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]
    command += ["-Wno-unknown-pragmas", "-shared", "-fPIC", f"-I{CUDA}", "shim.cpp", "-o", "kernels.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "kernels.so"))


def place_at(counter):
    """Return a key and a counter as words of 64 bits."""
    pieces = [KEY >> 64 * i for i in range(2)] + [counter >> 64 * i for i in range(4)]
    return np.array([piece % 2**64 for piece in pieces], np.uint64)


def launch(kernels, name, out, parameters=(), offset=0, counter=COUNTER, recorded=False):
    """Call a kernel for a grid of two blocks of three threads; as in a recorded graph, the place being in memory."""
    real = ctypes.c_double if name.endswith("64") else ctypes.c_float
    base = place_at((counter - 5) % 2**256)
    place = [0, 0, 5, 0, 0, 0] if recorded else place_at(counter).tolist()
    arguments = [ctypes.c_void_p(out.ctypes.data), ctypes.c_uint64(out.size)]
    arguments += [ctypes.c_void_p(base.ctypes.data if recorded else None), *map(ctypes.c_uint64, [*place, offset])]
    arguments += [real(parameter) for parameter in parameters]
    for block in range(2):
        for thread in range(3):
            kernels.set_thread(2, 3, block, thread)
            getattr(kernels, name)(*arguments)
    return out


def convert(kernels, name, values, dtype):
    """Call a loop of the shim."""
    out = np.empty(values.size, dtype)
    getattr(kernels, name)(*map(ctypes.c_void_p, [values.ctypes.data, out.ctypes.data]), ctypes.c_uint64(out.size))
    return out


def same_bits(a, b):
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


def real_dtype(name):
    return np.dtype(getattr(pytest.importorskip("ml_dtypes"), name) if name == "bfloat16" else name)


class TestCudaSource:
    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("recorded", [False, True])
    def test_words(self, kernels, recorded):
        out = launch(kernels, "philox_words", np.empty(2 * N, np.uint64), recorded=recorded)
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

    def test_place(self, kernels):
        base = np.zeros(6, np.uint64)
        arguments = map(ctypes.c_uint64, place_at(COUNTER).tolist())
        kernels.philox_place(ctypes.c_void_p(base.ctypes.data), *arguments)
        assert same_bits(base, place_at(COUNTER))

    @pytest.mark.parametrize("recorded", [False, True])
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
    def test_distributions(self, kernels, distribution, parameters, name, recorded):
        dtype = real_dtype(name)
        stream = philox.WordStream(philox.word_count(N, dtype), KEY, COUNTER)
        expected = getattr(philox, distribution)(np, stream, dtype, *parameters)[:N]
        if distribution == "uniform":
            low, high = (dtype.type(bound) for bound in parameters)
            real = np.float64 if name == "float64" else np.float32
            parameters = (low, real(high) - real(low), np.nextafter(high, low))
        out = np.empty(N, np.uint16 if dtype.itemsize == 2 else dtype)
        launch(kernels, f"philox_{distribution}_{name}", out, map(float, parameters), recorded=recorded)
        assert same_bits(out, expected.view(out.dtype))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("distribution", [philox.normal, philox.exponential])
    def test_extreme_words(self, kernels, distribution, dtype):
        bits = 8 * np.dtype(dtype).itemsize
        # Where a formula changes: the ends, the sign, the tail, each power of two and sqrt(1/2) times it.
        places = [0, 2 ** (bits - 1), 2**bits, round(2**bits * 109 / 256), round(2**bits * 147 / 256)]
        places += [round(2**i * factor) for i in range(bits) for factor in (1, math.sqrt(0.5))]
        places += [2**bits - place for place in places]
        h = sorted({(place + i) % 2**bits for place in places for i in range(-20, 20)})
        h = np.array(h + h[: len(h) % 2], f"u{bits // 8}")
        name = f"{distribution.__name__}_{np.dtype(dtype).name}"
        assert same_bits(convert(kernels, name, h, dtype), distribution(np, h.view(np.uint64), dtype))

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["float16", "bfloat16"])
    def test_rounding_to_16_bits(self, kernels, name):
        dtype = real_dtype(name)
        patterns = np.arange(2**32, step=251, dtype=np.uint32)
        ties = np.arange(2**16, dtype=np.uint32) << 16  # and the 16-bit numbers themselves
        patterns = np.concatenate([patterns, ties, ties + 0x8000, ties + 0x1000, ties + 0x3000])
        values = patterns.view(np.float32)
        values = values[np.isfinite(values)]
        with np.errstate(all="ignore"):
            expected = values.astype(dtype).view(np.uint16)
        assert same_bits(convert(kernels, f"round_{name}", values, np.uint16), expected)


def compile_with_nvrtc(architecture):
    nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc")
    header, source = (CUDA / "philox.cuh").read_bytes(), (CUDA / "philox.cu").read_text()
    try:
        program = nvrtc.createProgram(source, "philox.cu", [header], [b"philox.cuh"])
    except (ImportError, OSError, RuntimeError) as error:
        pytest.skip(f"NVRTC cannot be loaded: {error}")
    nvrtc.compileProgram(program, [f"--gpu-architecture=compute_{architecture}", "-fmad=false", "-std=c++17"])
    ptx = nvrtc.getPTX(program)
    return ptx.decode() if isinstance(ptx, bytes) else ptx


def compile_with_nvcc(architecture, folder):
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("nvcc is not installed")
    output = folder / "philox.ptx"
    options = [
        f"-arch=compute_{architecture}",
        "-fmad=false",
        "-std=c++17",
        "-Werror",
        "all-warnings",
        "-ptx",
    ]
    subprocess.run([compiler, *options, str(CUDA / "philox.cu"), "-o", str(output)], check=True)
    return output.read_text()


class TestCompilation:
    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("architecture", [75, 80, 90])
    @pytest.mark.parametrize("compiler", ["nvrtc", "nvcc"])
    def test_exact_instructions_only(self, compiler, architecture, tmp_path):
        nvrtc = compiler == "nvrtc"
        ptx = compile_with_nvrtc(architecture) if nvrtc else compile_with_nvcc(architecture, tmp_path)
        names = [
            f"{d}_{t}"
            for d in ("uniform", "normal", "exponential")
            for t in ("float16", "bfloat16", "float32", "float64")
        ]
        assert sorted(re.findall(r"\.entry (\w+)", ptx)) == sorted(
            f"philox_{name}" for name in [*names, "place", "words"]
        )
        assert "div.rn.f32" in ptx
        assert "sqrt.rn.f64" in ptx
        assert not re.search(r"\bfma\.|\bmad\.\w*\.?f|approx|ftz", ptx)


def draws(xp, words_of):
    """Every distribution on the library `xp`; ``words_of(n, counter)`` makes its words."""
    w = words_of(6000, 0)
    p = xp.linspace(0.01, 0.99, 5999)
    weights = xp.linspace(0.0, 1.0, 60).reshape(3, 20)
    yield "words", w
    for name in ("float16", "float32", "float64"):
        dtype = np.dtype(name)
        yield f"uniform {name}", philox.uniform(xp, w, dtype, -1.0, 3.3)
        yield f"normal {name}", philox.normal(xp, w, dtype, 0.1, 1.3)
        yield f"exponential {name}", philox.exponential(xp, w, dtype, 0.3)
        yield f"cauchy {name}", philox.cauchy(xp, w, dtype, 0.1, 1.3)
        yield f"log_normal {name}", philox.log_normal(xp, w, dtype, 0.1, 1.3)
        yield f"bernoulli {name}", philox.bernoulli(xp, w, dtype, 0.3)
        yield f"bernoulli array {name}", philox.bernoulli(xp, w, dtype, p.astype(dtype))
        yield f"geometric {name}", philox.geometric(xp, w, dtype, 0.3)
        yield f"geometric array {name}", philox.geometric(xp, w, dtype, p.astype(dtype))
    for low, high in ((0, 10), (-(2**63), 2**63), (-7, 2**40)):
        yield f"integers {low} {high}", philox.integers(xp, w, np.int64, low, high)
    yield "permutation", sampling.permutation(xp, w)
    yield "multinomial", sampling.multinomial(xp, w, weights, 2000, True)
    yield "multinomial without replacement", sampling.multinomial(xp, w[:60], weights, 19, False)
    state = PhiloxState(5)
    rate = xp.linspace(0.0, 100.0, 3000)
    yield "poisson", sampling.poisson(xp, lambda n: words_of(n, state.draw(n)[1]), rate)


def numpy_words(n, counter):
    return philox.words(n, KEY, counter)


def digest():
    """Return a digest of all draws."""
    bits = hashlib.sha256()
    for name, values in draws(np, numpy_words):
        bits.update(name.encode() + np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).tobytes())
    return bits.hexdigest()


DIGEST = "27ca0d9b2e182ed3169f91e1642e99dd093436a903893b601c54e9366f7fb853"


class TestEqualBits:
    def test_results_never_change(self):
        """A seed gives the same numbers on every machine and in every version."""
        assert digest() == DIGEST

    def test_without_vector_instructions(self):
        """NumPy's loops for other processors give the same numbers."""
        names = np._core._multiarray_umath.__cpu_dispatch__
        code = f"""if True:
            import test_philox_devices, numpy
            found = numpy._core._multiarray_umath.__cpu_features__
            print([name for name in {names} if found[name]], test_philox_devices.digest())
        """
        paths = [str(Path(__file__).parent), str(Path(philox.__file__).parents[3])]
        environment = os.environ | {
            "NPY_DISABLE_CPU_FEATURES": " ".join(names),
            "PYTHONPATH": os.pathsep.join(paths),
        }
        command = [sys.executable, "-c", code]
        output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        assert output.split() == ["[]", DIGEST]

    def test_another_array_library(self):
        """Whole arrays instead of tiles and sparse tails: the path that CuPy takes."""
        other = types.SimpleNamespace(**vars(np))
        for (name, expected), (_, values) in zip(draws(np, numpy_words), draws(other, numpy_words), strict=True):
            assert same_bits(values, expected), name

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("tile", [4, 100, 1 << 20])
    def test_tiles(self, tile, monkeypatch):
        before = list(draws(np, numpy_words))
        monkeypatch.setattr(philox, "TILE", tile)
        for (name, expected), (_, values) in zip(before, draws(np, numpy_words), strict=True):
            assert same_bits(values, expected), name

    def test_on_a_gpu(self):
        cupy = pytest.importorskip("cupy")
        try:
            cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            pytest.skip(f"no CUDA device: {error}")
        module = cupy.RawModule(
            code=(CUDA / "philox.cu").read_text(), options=("-fmad=false", "-std=c++17", f"-I{CUDA}")
        )

        def fill(name, out, counter, *parameters):
            place = map(np.uint64, [out.size, 0, *place_at(counter).tolist(), 0])
            arguments = (out, *place, *map(out.dtype.type, parameters))
            module.get_function(name)((64,), (128,), arguments)
            return out

        for name in ("float32", "float64"):
            expected = philox.normal(np, philox.WordStream(N, KEY, COUNTER), np.dtype(name))
            out = fill(f"philox_normal_{name}", cupy.empty(expected.shape, name), COUNTER, 0, 1)
            assert same_bits(out.get(), expected)

        def cuda_words(n, counter):
            return fill("philox_words", cupy.empty(n, np.uint64), counter)

        for (name, expected), (_, values) in zip(draws(np, numpy_words), draws(cupy, cuda_words), strict=True):
            assert same_bits(values.get(), expected), name
