"""Kernels by NVIDIA's compiler: instructions compute what they should, and what a GPU refuses ends a launch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcore.backends import registry
from gradcore.backends.cupy.kernels import INCLUDE, compile_options

pytestmark = pytest.mark.cuda
if registry.unavailable("cuda"):
    pytest.skip(f"no CUDA device: {registry.unavailable('cuda')}", allow_module_level=True)
rig: Any = sys.modules.get("cupy_host")
if not getattr(rig, "BY_NVRTC", False):
    pytest.skip("kernels are not run as PTX: CUPY_HOST_COMPILER=nvrtc does so in the rig", allow_module_level=True)
if not (rig.HOME / "nvrtc").exists():
    pytest.skip("NVRTC's wheel is not in the rig", allow_module_level=True)
cp: Any = pytest.importorskip("cupy")


def kernel(body: str, arguments: str = "float* x, float* out, int n", before: str = "") -> Any:
    return cp.RawKernel(f'{before}\nextern "C" __global__ void f({arguments}) {{ {body} }}', "f", ("-std=c++17",))


def launched(body: str, *arrays: Any, threads: int = 32, shared: int = 0, before: str = "") -> Any:
    """Launch one block, and return the content of the last array."""
    kinds = {"float32": "float", "int32": "int", "uint32": "unsigned", "float64": "double", "uint16": "unsigned short",
             "uint8": "unsigned char", "int64": "long long"}  # fmt: skip
    given = [cp.asarray(a) for a in arrays]
    arguments = ", ".join(f"{kinds[a.dtype.name]}* a{i}" for i, a in enumerate(given))
    kernel(body, arguments, before)((1,), (threads,), tuple(given), shared_mem=shared)
    return cp.asnumpy(given[-1])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("out[threadIdx.x] = x[threadIdx.x + 1];", "ld.global.f32: 400 bytes from the begin of an array of 400"),
        ("out[int(threadIdx.x) - 1] = x[0];", "st.global.f32"),
        ("atomicAdd(out + n, 1.f);", "global.add.f32: 400 bytes from the begin of an array of 400"),
        ("__shared__ float s[100]; s[threadIdx.x] = 1; __syncthreads(); out[0] = s[threadIdx.x * 2];", "no shared"),
        ("extern __shared__ float s[]; s[threadIdx.x] = 1; __syncthreads(); out[0] = s[threadIdx.x ^ 1];", "no shared"),
        ("*(float2*) (out + 1) = make_float2(1, 2);", "is not aligned"),
        ("out[0] = *(float*) 16;", "address 0x10 is in no array"),
        ("out[threadIdx.x] = __shfl_sync(0xFFFF, x[0], 20);", "a shuffle"),
        ("if (threadIdx.x < 50) __syncthreads(); else if (threadIdx.x < 60) __syncwarp(); else __trap();", "trap"),
        ("out[0] = __shfl_sync(threadIdx.x % 32 < 16 ? 0x3FFFF : 0xFFFF0000, x[0], 17);", "a shuffle with the mask"),
    ],
    ids=["beyond", "before", "atomic", "shared", "dynamic", "aligned", "address", "lane", "trap", "masks"],
)  # fmt: skip
def test_what_ends_a_launch(body: str, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    x, out = cp.ones(100, "f"), cp.ones(100, "f")
    run = kernel(body)
    with pytest.raises(cp.cuda.driver.CUDADriverError, match=r"CUDA_ERROR_(ILLEGAL_ADDRESS|LAUNCH_FAILED)"):
        run((1,), (100,), (x, out, np.int32(100)))
    assert words in capfd.readouterr().err
    kernel("out[threadIdx.x] = 2 * x[threadIdx.x];")((1,), (100,), (x, out, np.int32(100)))  # the next is not harmed
    assert (out == 2).all()


def test_cupy_has_the_settings_that_it_has_on_a_gpu() -> None:
    """Nothing is switched off that NVRTC compiles: reductions are CUB's."""
    from cupy._core import _accelerator

    for kind in ("elementwise", "reduction", "routine"):
        assert getattr(_accelerator, f"get_{kind}_accelerators")() == [_accelerator.ACCELERATOR_CUB]


#: Kernels of rows, by their file: accesses of 16 bytes and, beside those of single elements, no others.
ROWS = {
    "softmax": ("softmax_rows", "softmax_backward_rows"),
    "normalization": ("normalize_rows", "normalize_rows_backward", "scale_rows", "scale_rows_backward"),
    "cross_entropy": ("cross_entropy_rows", "cross_entropy_backward_rows"),
}


#: NVRTC in a process of its own, as this one has the rig in its place.
COMPILE = "import sys, nvrtc; sys.stdout.write(nvrtc.compile_source(sys.stdin.read(), sys.argv[1:])[0])"


def ptx_of(source: str, options: list[str]) -> str:
    """Return the PTX that NVRTC generates from a CUDA source."""
    kept = {name: value for name, value in os.environ.items() if name not in ("CUPY_HOST", "LD_PRELOAD")}
    done = subprocess.run(
        [sys.executable, "-S", "-c", COMPILE, *options], input=source, capture_output=True, text=True, check=False,
        env={**kept, "PYTHONPATH": str(Path(__file__).with_name("ptx"))},
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float"])
@pytest.mark.parametrize("file", ROWS)
def test_rows_are_read_and_written_16_bytes_at_a_time(file: str, dtype: str) -> None:
    defines = [f"-DGRADCORE_TYPE={dtype}", *(["-DGRADCORE_INDEX=i64"] if file == "cross_entropy" else [])]
    options = ["-arch=compute_90", *compile_options(), *defines]
    ptx = ptx_of((INCLUDE / f"{file}.cu").read_text(), options)
    bodies = dict(re.findall(r"\.entry (\w+)\((.*?)\n\}", ptx, re.DOTALL))
    for name in ROWS[file]:
        body = bodies[name]
        assert "ld.global.v4.u32" in body or "ld.global.v4.f32" in body
        assert "st.global.v4.u32" in body
        stores = re.findall(r"st\.global\.(\S+)", body)
        assert len([s for s in stores if not s.startswith("v4")]) <= 5, stores  # of an element, of statistics
        assert not re.search(r"\bcall\b", body)
        if not name.startswith("normalize"):  # groups have channels, found by a division for a row
            assert not re.search(r"(div|rem)\.[us]64", body)


def test_blocks_with_much_shared_memory_must_be_allowed() -> None:
    run = kernel(
        "extern __shared__ float s[]; __shared__ float t[1024]; t[threadIdx.x] = n; s[0] = t[n - 1]; out[0] = s[0] + 1;"
    )
    x = cp.ones(1, "f")
    with pytest.raises(cp.cuda.driver.CUDADriverError):
        run((1,), (1,), (x, x, np.int32(1)), shared_mem=47 << 10)
    run((1,), (1,), (x, x, np.int32(1)), shared_mem=44 << 10)
    assert x[0] == 2


def test_conversions_round_as_they_should() -> None:
    values = np.array([0.5, 1.5, -2.5, 2.4999998, -0.0, 3e9, -3e9, 1e30, np.nan, np.inf, -np.inf, 65520], "f")
    body = """int i = threadIdx.x; float x = a0[i];
    a1[8 * i] = __float2int_rn(x); a1[8 * i + 1] = __float2int_rz(x); a1[8 * i + 2] = __float2int_ru(x);
    a1[8 * i + 3] = __float2uint_rz(x); a1[8 * i + 4] = __float2ll_rn(x); a1[8 * i + 5] = __float2int_rd(x);
    a1[8 * i + 6] = __float_as_int(__int2float_rz(16777217 + i));
    a1[8 * i + 7] = __float_as_int(__fadd_ru(x, 1e-9f));"""
    found = launched(body, values, np.zeros(8 * 12, "i8"), threads=12).reshape(12, 8)
    with np.errstate(all="ignore"):
        wide, limits = values.astype(float), (-(2.0**31), 2.0**31 - 1)
        for column, rounding in ((0, np.rint), (1, np.trunc), (2, np.ceil), (5, np.floor)):
            expected = np.nan_to_num(np.clip(rounding(wide), *limits)).astype(np.int64)
            np.testing.assert_array_equal(found[:, column], expected)
        np.testing.assert_array_equal(found[:, 3], np.nan_to_num(np.clip(np.trunc(wide), 0, 2.0**32 - 1)))
        assert found[8, 4] == -(2**63)
        assert found[9, 4] == 2**63 - 1
        assert found[0, 6].astype("i4").view("f") == 16777216.0
        up = found[:, 7].astype("i4").view("f")
        np.testing.assert_array_equal(up[:3], np.nextafter(values[:3], np.float32(np.inf)))


def test_denormal_numbers_are_zero() -> None:
    """CuPy compiles with -ftz=true; float64 keeps them."""
    tiny = np.array([1e-39], "f")
    assert launched("a1[0] = a0[0] + a0[0];", tiny, np.ones(1, "f"), threads=1)[0] == 0
    assert launched("a1[0] = a0[0] * 0.5;", np.array([1e-310]), np.ones(1), threads=1)[0] == 5e-311


def test_whole_numbers() -> None:
    a = np.array([7, -7, 7, -7, -(2**31), 5, 2**31 - 1, -1], "i4")
    b = np.array([2, 2, -2, -2, -1, 0, 2**31 - 1, 31], "i4")
    body = """int i = threadIdx.x, x = a0[i], y = a1[i]; int* o = a2 + 8 * i;
    o[0] = x / y; o[1] = x % y; o[2] = __mulhi(x, y); o[3] = __popc(x); o[4] = __clz(x); o[5] = __brev(x);
    o[6] = x >> (y & 31); o[7] = __byte_perm(x, y, 0x5410);"""
    found = launched(body, a, b, np.zeros(64, "i4"), threads=8).reshape(8, 8).T
    np.testing.assert_array_equal(found[0], [3, -3, -3, 3, -(2**31), -1, 1, 0])
    np.testing.assert_array_equal(found[1], [1, -1, 1, -1, 0, 5, 0, -1])
    np.testing.assert_array_equal(found[2], (a.astype("i8") * b) >> 32)
    bits = [f"{v:032b}" for v in a.view("u4")]
    assert found[3].tolist() == [v.count("1") for v in bits]
    assert found[4].tolist() == [len(v) - len(v.lstrip("0")) for v in bits]
    assert found[5].view("u4").tolist() == [int(v[::-1], 2) for v in bits]
    np.testing.assert_array_equal(found[6], a >> (b & 31))
    np.testing.assert_array_equal(found[7], ((a.astype("i8") & 0xFFFF) | (b.astype("i8") & 0xFFFF) << 16).astype("i4"))


def test_functions_of_one_number() -> None:
    """NVRTC's own formulas, with their tables and slow paths, in float64."""
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(0.1, 3, 25), [1e-8, 20.5, 1e5, 1e10, 1e-300, 170.0, 700.0]])
    functions = {"sin": np.sin, "cos": np.cos, "tan": np.tan, "exp": np.exp, "log": np.log, "cbrt": np.cbrt,
                 "log1p": np.log1p, "erf": special.erf, "erfc": special.erfc, "tanh": np.tanh, "j0": special.j0,
                 "lgamma": special.gammaln, "atan": np.arctan, "sqrt": np.sqrt}  # fmt: skip
    body = " ".join(f"a1[{i} * 32 + threadIdx.x] = {name}(a0[threadIdx.x]);" for i, name in enumerate(functions))
    found = launched(body, x, np.zeros(32 * len(functions))).reshape(-1, 32)
    with np.errstate(all="ignore"):
        for name, values in zip(functions, found, strict=True):
            bound = 1e-5 if name == "j0" else 2e-14
            np.testing.assert_allclose(values, functions[name](x), bound, 1e-300, err_msg=name)


def test_threads_of_a_warp() -> None:
    x = np.random.default_rng(0).integers(0, 5, 48).astype("i4")
    body = """int i = threadIdx.x, v = a0[i]; unsigned mask = __activemask(); int* o = a1 + 8 * i;
    o[0] = __shfl_xor_sync(mask, v, 5); o[1] = __shfl_up_sync(mask, v, 3, 8); o[2] = __shfl_down_sync(mask, v, 2, 16);
    o[3] = __ballot_sync(mask, v > 2); o[4] = __match_any_sync(mask, v); o[5] = __reduce_add_sync(mask, v);
    o[6] = __any_sync(mask, v == 9) + 2 * __all_sync(mask, v < 9); o[7] = __syncthreads_count(v == 1);"""
    found = launched(body, x, np.zeros(48 * 8, "i4"), threads=48).reshape(48, 8).astype("i8")
    for i in range(48):
        first, lane = i // 32 * 32, i % 32
        warp = x[first : first + 32]
        assert found[i, 0] == (warp[lane ^ 5] if lane ^ 5 < len(warp) else found[i, 0])
        assert found[i, 1] == warp[lane - 3 if lane % 8 >= 3 else lane]
        assert found[i, 2] == warp[lane + 2 if lane % 16 < 14 else lane]
        assert found[i, 3] & 0xFFFFFFFF == sum(1 << j for j, v in enumerate(warp) if v > 2)
        assert found[i, 4] & 0xFFFFFFFF == sum(1 << j for j, v in enumerate(warp) if v == x[i])
        assert found[i, 5] == warp.sum()
        assert (found[i, 6], found[i, 7]) == (2, (x == 1).sum())


def test_atomics_and_barriers() -> None:
    body = """__shared__ int count; __shared__ double sums[4]; int i = threadIdx.x;
    if (i == 0) count = 0; if (i < 4) sums[i] = 0; __syncthreads();
    atomicAdd(&count, a0[i]); atomicMax(a1, a0[i]); atomicAdd(sums + i % 4, double(a0[i])); __syncthreads();
    if (i < 4) a1[2 + i] = int(sums[i]); a1[1] = count; atomicCAS(a1 + 6, 0, 9); atomicExch(a1 + 7, 3);"""
    x = np.arange(100, dtype="i4")
    found = launched(body, x, np.zeros(8, "i4"), threads=100)
    assert found.tolist() == [99, 4950, *(int(x[k::4].sum()) for k in range(4)), 9, 3]


def test_copies_to_shared_memory_arrive_when_waited_for() -> None:
    body = """__shared__ __align__(16) float s[256]; unsigned at = __cvta_generic_to_shared(s + 4 * threadIdx.x);
    for (int i = 0; i < 4; ++i) s[4 * threadIdx.x + i] = -1;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" :: "r"(at), "l"(a0 + 4 * threadIdx.x), "r"(8));
    asm volatile("cp.async.commit_group;"); a1[threadIdx.x] = s[4 * threadIdx.x];
    asm volatile("cp.async.wait_group 0;"); a1[64 + threadIdx.x] = s[4 * threadIdx.x + 1] + s[4 * threadIdx.x + 2];"""
    x = np.arange(256, dtype="f")
    found = launched(body, x, np.zeros(128, "f"), threads=64)
    assert (found[:64] == -1).all()
    np.testing.assert_array_equal(found[64:], x[1::4])


MMA = """
int lane = threadIdx.x, g = lane / 4, t = lane % 4; float d[4] = {};
unsigned a[4], b[2]; const unsigned* A = (const unsigned*) a0; const unsigned* B = (const unsigned*) a1;
#define AT(m, row, k) m[(row) * WORDS + (k)]
a[0] = AT(A, g, t); a[1] = AT(A, g + 8, t); a[2] = AT(A, g, t + 4); a[3] = AT(A, g + 8, t + 4);
b[0] = AT(B, g, t); b[1] = AT(B, g, t + 4);
asm volatile("mma.sync.aligned.SHAPE.row.col.f32.KIND.KIND.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
for (int i = 0; i < 4; ++i) a2[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
"""


@pytest.mark.parametrize(("kind", "shape"), [("f16", "m16n8k16"), ("bf16", "m16n8k16"), ("tf32", "m16n8k8")])
def test_tensor_cores(kind: str, shape: str) -> None:
    rng = np.random.default_rng(0)
    inner = int(shape[6:])
    a, b = (rng.integers(-8, 9, (n, inner)).astype("f") / 4 for n in (16, 8))
    bits = {"f16": lambda x: x.astype("f2").view("u4"), "tf32": lambda x: x.view("u4"),
            "bf16": lambda x: (x.view("u4") >> 16).astype("u2").view("u4")}[kind]  # fmt: skip
    body = MMA.replace("SHAPE", shape).replace("KIND", kind).replace("WORDS", "8")
    found = launched(body, bits(a), bits(b), np.zeros((16, 8), "f"))
    np.testing.assert_array_equal(found, a @ b.T)


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_are_loaded(transposed: bool) -> None:
    body = """__shared__ __align__(16) unsigned short s[4 * 64]; unsigned r[4];
    for (int i = threadIdx.x; i < 256; i += 32) s[i] = a0[i];
    __syncwarp(); unsigned at = __cvta_generic_to_shared(s + 8 * threadIdx.x);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4TRANS.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
    for (int m = 0; m < 4; ++m) ((unsigned*) a1)[m * 32 + threadIdx.x] = r[m];"""
    x = np.arange(256, dtype="u2").reshape(4, 8, 8)
    found = launched(body.replace("TRANS", ".trans" if transposed else ""), x, np.zeros((4, 8, 8), "u2"))
    np.testing.assert_array_equal(found, x.transpose(0, 2, 1) if transposed else x)


#: A copy of 16 bytes by each thread, and a wait for it.
COPY = """__shared__ __align__(16) float s[256]; unsigned at = __cvta_generic_to_shared(s + 4 * t);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(out + 160 + 4 * (t % 32)) : "memory"); """
WAIT = 'asm volatile("cp.async.wait_all;" ::: "memory"); '

#: Kernels of two blocks of 64 threads, and whether threads race for memory in them.
RACES: dict[str, tuple[str, bool]] = {
    "no barrier": ("__shared__ float s[64]; s[t] = 1; out[i] = s[63 - t];", True),
    "a barrier": ("__shared__ float s[64]; s[t] = 1; __syncthreads(); out[i] = s[63 - t];", False),
    "used again": (
        "__shared__ float s[64]; for (int k = 0; k < 2; ++k) { s[t] = k; __syncthreads(); out[i] = s[63 - t]; }", True,
    ),
    "a warp's barrier": ("__shared__ float s[64]; s[t] = 1; __syncwarp(); out[i] = s[t ^ 1];", False),
    "a warp's barrier for two": ("__shared__ float s[64]; s[t] = 1; __syncwarp(); out[i] = s[t ^ 32];", True),
    "a barrier of half a warp": (
        "__shared__ float s[64]; s[t] = 1; if (t % 32 < 16) __syncwarp(0xFFFF); else __syncwarp(0xFFFF0000); "
        "out[i] = s[t ^ 1];", False,
    ),
    "of the other half": (
        "__shared__ float s[64]; s[t] = 1; if (t % 32 < 16) __syncwarp(0xFFFF); else __syncwarp(0xFFFF0000); "
        "out[i] = s[t ^ 16];", True,
    ),
    "a shuffle": (
        "__shared__ float s[64]; s[t] = 1; float y = __shfl_xor_sync(~0u, 1.f, 1); out[i] = y + s[t ^ 1];", True,
    ),
    "writes to one place": ("out[200] = t;", True),
    "blocks": ("out[t] = 1;", True),
    "blocks read": ("out[i] = out[200];", False),
    "blocks read what one writes": ("if (i == 3) out[200] = 1; else out[i] = out[200];", True),
    "bytes beside each other": ("reinterpret_cast<char*>(out)[i] = 1;", False),
    "a part of a vector": ("reinterpret_cast<float2*>(out)[i] = make_float2(1, 2); if (i == 5) out[20] = 1;", True),
    "atomics": ("atomicAdd(out + t % 8, 1.f);", False),
    "atomics and a read": ("atomicAdd(out, 1.f); if (i == 70) out[1] = out[0];", True),
    "a copy": (COPY + WAIT + "__syncthreads(); out[i] = s[4 * (63 - t)];", False),
    "a copy without a barrier": (COPY + WAIT + "out[i] = s[4 * (63 - t)];", True),
    "a copy that is waited for too late": (COPY + "__syncthreads(); " + WAIT + "out[i] = s[4 * (63 - t)];", True),
    "a written value read": ("out[i] = 1; out[128 + i] = out[i];", False),
}  # fmt: skip

_RACING = """
import json, sys
import cupy as cp
found = {}
for name, (body, _) in json.load(sys.stdin).items():
    begin = 'extern "C" __global__ void f(float* out) { const int t = threadIdx.x, i = blockIdx.x * 64 + t; '
    text = begin + body + " }"
    out = cp.zeros(300, "f")
    try:
        cp.RawKernel(text, "f")((2,), (64,), (out,))
        cp.asnumpy(out)
        found[name] = False
    except cp.cuda.driver.CUDADriverError:
        found[name] = True
print(json.dumps(found))
"""


@pytest.mark.parametrize("order", ["0", "1", "2"])
def test_races_are_found(order: str) -> None:
    """Whatever the order of the threads: what counts is the barrier between two accesses, not which came first."""
    environment = {**os.environ, "CUPY_HOST_RACES": "1", "CUPY_HOST_ORDER": order}
    done = subprocess.run(
        [sys.executable, "-c", _RACING], env=environment, input=json.dumps(RACES), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {name: races for name, (_, races) in RACES.items()}, done.stderr
    assert done.stderr.count("a race at 0x") == sum(races for _, races in RACES.values())


def test_threads_begin_in_a_drawn_order() -> None:
    """Check that a seed also interrupts threads at accesses: a sum without atomic additions then loses terms."""
    text = (
        """import cupy as cp; text = 'extern "C" __global__ void f(float* x) { atomicAdd(x, 1.f); x[1] += 1; }'; """
        "out = cp.zeros(2, 'f'); cp.RawKernel(text, 'f')((1,), (256,), (out,)); print(*cp.asnumpy(out))"
    )
    found = {}
    for order in ("0", "1"):
        environment = {**os.environ, "CUPY_HOST_ORDER": order}
        environment.pop("CUPY_HOST_RACES", None)
        done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
        found[order] = [float(x) for x in done.stdout.split()]
    assert found["0"] == [256, 256]
    assert found["1"][0] == 256
    assert found["1"][1] < 256


def test_replays_of_a_graph_read_what_was_written_before_them() -> None:
    """Check that random numbers are those of g++'s kernels: a replay reads where it begins from memory of its own."""
    text = (
        "import gradcore as gc; gc.manual_seed(0); draw = lambda x: x + gc.rand(3, device='cuda');"
        "step = gc.cuda.graph(draw, warmup=1);"
        "print([step(gc.zeros(3, device='cuda')).tolist() for _ in range(3)])"
    )
    found = []
    for compiler in ("nvrtc", "g++"):
        environment = {**os.environ, "CUPY_HOST_COMPILER": compiler}
        done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]
    assert len({tuple(numbers) for numbers in found[0]}) == 3
