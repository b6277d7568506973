"""Every CUDA source compiles for the architectures that are promised, without a warning.

By NVRTC, as CuPy does it, where a wheel has it (``pip install nvidia-cuda-nvrtc-cu12``, or
``tests/cupy_host/build.sh``), else by nvcc, which takes three times as long; without either the tests are skipped,
visibly.
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcore.backends.codegen import launch
from gradcore.backends.codegen.emit_cuda import CudaTracer, emit_optimizer
from gradcore.backends.codegen.optimizer import trace_optimizer
from gradcore.backends.codegen.schedule import Input
from gradcore.backends.cupy import implicit_convolution
from gradcore.backends.cupy.backend import CupyBackend
from gradcore.backends.cupy.flash_attention import defines
from gradcore.backends.cupy.kernels import C_NAMES, INCLUDE, compile_options
from gradcore.backends.cupy.products import REAL_NAMES
from gradcore.backends.cupy.scans import SCANNED_TYPES
from gradcore.optim.adam import adam
from tests.cuda.host import KERNEL, cupy_include, includes, kept_in
from tests.cuda.test_fused_kernels import CASES, UNKNOWN, HostBackend
from tests.cupy_host.ptx import nvrtc

ARCHITECTURES = (75, 80, 90)
OF_ONE_TYPE = ("attention", "biases", "dropout", "softmax", "normalization", "segments", "lists")
#: Products of sparse matrices: the types of results by those of numbers; parts of halves are float32.
RESULTS = {
    "float16": ("float16", "float"), "bfloat16": ("bfloat16", "float"), "float": ("float", "float16", "bfloat16"),
    "double": ("double",),
}  # fmt: skip
#: Elements that are sorted: as integers of how many bits, what they are, and the bits of infinity.
ELEMENTS = [
    *((f"u{bits}", kind, "0") for bits in (8, 16, 32, 64) for kind in (0, 1)), ("u16", 2, "0x7C00"),
    ("u16", 2, "0x7F80"), ("u32", 2, "0x7F800000"), ("u64", 2, "0x7FF0000000000000ull"),
]  # fmt: skip
OPTIONS = [option for option in compile_options() if not option.startswith("-I")]


def nvcc() -> str | None:
    """Where nvcc is."""
    found = shutil.which("nvcc")
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    places = [f"{home}/bin/nvcc" for home in homes if home] + sorted(glob.glob("/usr/local/cuda*/bin/nvcc"))
    return found or next((place for place in places if Path(place).exists()), None)


def quick_options() -> list[str]:
    """Return the options by which NVRTC optimizes little, in a fifth of the time; none for versions before 12.8."""
    return [] if nvrtc.version()[1:] < (12, 8) else ["--Ofast-compile=max"]


def ptx_of(
    source: str, architecture: int, folder: Path, defines: tuple[str, ...] = (), *, optimized: bool = False
) -> str:
    """Return the PTX of a source; an error or a warning of the compiler fails.

    Without `optimized`, NVRTC optimizes little: enough to see errors, warnings and the names of kernels.
    """
    if nvrtc.library() is not None:
        quickly = [] if optimized else quick_options()
        return _ptx_by_nvrtc(source, [f"--gpu-architecture=compute_{architecture}", *OPTIONS, *quickly, *defines])
    compiler = nvcc()
    if compiler is None:
        pytest.skip("there is neither NVRTC nor nvcc")
    path, output = folder / "source.cu", folder / "source.ptx"
    path.write_text(source)
    options = [*OPTIONS, *defines, *includes(), f"-arch=compute_{architecture}", "-Werror", "all-warnings", "-ptx"]
    run = subprocess.run(
        [compiler, *options, str(path), "-o", str(output)], capture_output=True, text=True, check=False
    )
    assert not run.returncode, run.stderr[:4000]
    return output.read_text()


def _ptx_by_nvrtc(source: str, options: list[str]) -> str:
    """Return the PTX of a source: of an earlier run, if the source, what it includes and the compiler are the same.

    `OPTIONS` has a digest of the package's headers; those of CuPy are known by its version.
    """
    cupy = cupy_include()
    made_of = source, options, nvrtc.version(), cupy and (cupy.parents[1] / "_version.py").read_text()
    path = kept_in() / f"{hashlib.sha256(repr(made_of).encode()).hexdigest()[:24]}.ptx"
    if not path.exists():
        ptx, _ = nvrtc.compile_source(source, [*options, *includes()], strict=True)
        partial = path.with_suffix(f".{os.getpid()}")
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(ptx)
        partial.rename(path)
    return path.read_text()


def entries(ptx: str) -> set[str]:
    return set(re.findall(r"\.entry (\w+)", ptx))


def short_products_of_block_numbers(ptx: str) -> dict[str, set[str]]:
    """Return kernels that multiply or shift the number of a block in 32 bits, with these instructions.

    Elements beyond 2**31 have wrong indices there. Registers of 32 bits that are computed from such numbers count, too.
    """
    found: dict[str, set[str]] = {}
    for name, body in re.findall(r"\.entry (\w+)\((.*?)^\}", ptx, re.DOTALL | re.MULTILINE):
        lines = re.findall(
            r"^\s*(?:@!?%\w+ )?((?:mov|add|sub|mul\.lo|mad\.lo|shl)\.[bsu]32)\s+(%\w+), (.*);", body, re.M
        )
        of_blocks = {"%ctaid.x", "%ctaid.y", "%ctaid.z"}
        for _ in range(2):  # a second time for values that loops carry
            for operation, result, operands in lines:
                factors = re.findall(r"%[\w.]+", operands)
                if of_blocks.intersection(factors):
                    of_blocks.add(result)
                if operation[:3] in ("mul", "mad", "shl") and of_blocks.intersection(factors[:2]):
                    found.setdefault(name, set()).add(f"{operation} {result}, {operands}")
    return found


def _attention(tensor: bool) -> list[Any]:
    """Return the sources of attention with their macros, for the widest heads with one gradient kernel and with two."""
    names = [name for name in C_NAMES if not tensor or name != "float64"]
    files = ("flash_attention", "flash_attention_backward")
    macros = [
        (file, defines(name, width, tensor, file != "flash_attention", drops, gradient))
        for file, name, drops in itertools.product(files, names, (False, True))
        for width in {"float64": (64,), "float32": (128,)}.get(name, (128, 256))
        for gradient in (("key", "value") if width > 128 and file != "flash_attention" else ("",))
    ]
    return [(file, tuple(f"-DGRADCORE_{k.upper()}={v}" for k, v in found.items())) for file, found in macros]


#: Types of elements that are scanned, and those in which they are compared.
SCANNED = sorted(set(SCANNED_TYPES.values()))


def own_sources() -> list[tuple[str, tuple[str, ...]]]:
    """Files with the types that they are compiled for."""
    found: list[tuple[str, tuple[str, ...]]]
    found = [(name, (f"-DGRADCORE_TYPE={kind}",)) for name in OF_ONE_TYPE for kind in C_NAMES.values()]
    found += [("cross_entropy", (f"-DGRADCORE_TYPE={kind}", f"-DGRADCORE_INDEX={index}"))
              for kind, index in itertools.product(C_NAMES.values(), ("i64", "u8"))]  # fmt: skip
    found += [("ctc", (f"-DGRADCORE_TYPE={kind}",)) for kind in ("float", "double")]
    found += [
        ("counts", (f"-DGRADCORE_TYPE={kind}", f"-DGRADCORE_COUNT={'i64' if kind[0] in 'iu' else kind}"))
        for kind in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "float", "double")
    ]
    found += [("scans", (f"-DGRADCORE_TYPE={kind}", f"-DGRADCORE_WIDE={wide}")) for kind, wide in SCANNED]
    found += [
        ("selection", (f"-DGRADCORE_TYPE={element}", f"-DGRADCORE_KIND={kind}", f"-DGRADCORE_INFINITY={infinity}",
                       "-DGRADCORE_MOST=2048"))
        for element, kind, infinity in ELEMENTS
    ]  # fmt: skip
    found += [
        ("grids", (f"-DGRADCORE_TYPE={kind}", f"-DGRADCORE_DIMS={dims}"))
        for kind, dims in itertools.product(C_NAMES.values(), (2, 3))
    ]
    found += [
        (file, (f"-DGRADCORE_TYPE={kind}", f"-DGRADCORE_INDEX={index}"))
        for file, kind, index in itertools.product(("convolution", "windows"), C_NAMES.values(), ("i32", "i64"))
    ]
    found += [("products", (f"-DGRADCORE_TYPE={kind}",)) for kind in REAL_NAMES.values()]
    found += [
        ("sparse", (f"-DGRADCORE_TYPE={kind}", f"-DGRADCORE_RESULT={result}", f"-DGRADCORE_INDEX={index}"))
        for kind, results in RESULTS.items()
        for result, index in itertools.product(results, ("i32", "i64"))
    ]
    if cupy_include() is not None:
        found += [
            ("products", (f"-DGRADCORE_TYPE=complex<{kind}>", "-DGRADCORE_COMPLEX=1")) for kind in ("float", "double")
        ]
        found += [
            ("sparse", (*(f"-DGRADCORE_{name}=complex<{kind}>" for name in ("TYPE", "RESULT")),
                        "-DGRADCORE_INDEX=i32", "-DGRADCORE_COMPLEX=1"))
            for kind in ("float", "double")
        ]  # fmt: skip
    found += [("bernoulli", ())]
    found += _attention(tensor=False)
    return found


def own_on_tensor_cores() -> list[tuple[str, tuple[str, ...]]]:
    """Return the sources with macros of kernels that need tensor cores of compute capability 8.0 or more."""
    found = [
        ("implicit_convolution", tuple(f"-DGRADCORE_{k.upper()}={v}" for k, v in macros.items()))
        for macros in itertools.starmap(
            implicit_convolution.defines, itertools.product(("float16", "bfloat16", "float32"), (32, 64, 128))
        )
    ]
    return [*_attention(tensor=True), *found]


def _own() -> list[Any]:
    return [pytest.param(name, defines, id=" ".join([name, *defines])) for name, defines in own_sources()]


@pytest.mark.sampled(64)
@pytest.mark.parametrize(("name", "defines"), _own())
def test_own_kernels(name: str, defines: tuple[str, ...], tmp_path: Path) -> None:
    source = (INCLUDE / f"{name}.cu").read_text()
    assert entries(ptx_of(source, 80, tmp_path, defines)) == set(KERNEL.findall(source))


#: A type of each source, with indices of 64 bits where there are others.
OF_EACH_SOURCE = {
    name: defines for name, defines in [*own_on_tensor_cores(), *own_sources()] if "-DGRADCORE_INDEX=i32" not in defines
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_EACH_SOURCE)
def test_block_numbers_are_multiplied_in_64_bits(name: str, tmp_path: Path) -> None:
    ptx = ptx_of((INCLUDE / f"{name}.cu").read_text(), 80, tmp_path, OF_EACH_SOURCE[name], optimized=True)
    assert not short_products_of_block_numbers(ptx)


@pytest.mark.slow
def test_generated_kernels_of_large_arrays_multiply_block_numbers_in_64_bits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(launch, "MOST_OF_32_BITS", 0)
    real = {name: source for name, source in generated("float32").items() if "complex.cuh" not in source}
    sources = dict(list(real.items())[::20])
    assert not any("first_index_32" in source for source in sources.values())
    assert not short_products_of_block_numbers(ptx_of("\n".join(sources.values()), 80, tmp_path, optimized=True))


def test_short_products_of_block_numbers_are_found(tmp_path: Path) -> None:
    """Find the products in a kernel for small arrays, which computes with indices of 32 bits."""
    source, defines = (INCLUDE / "convolution.cu").read_text(), ("-DGRADCORE_TYPE=float", "-DGRADCORE_INDEX=i32")
    ptx = ptx_of(source, 80, tmp_path, defines, optimized=True)
    assert set(short_products_of_block_numbers(ptx)) == set(KERNEL.findall(source))


@pytest.mark.parametrize(
    ("name", "defines", "architecture"),
    [(*each, 80) for each in own_on_tensor_cores()]
    + [pytest.param(*each, 90, marks=pytest.mark.slow) for each in own_on_tensor_cores()[::5]],
)
def test_kernels_for_tensor_cores(name: str, defines: tuple[str, ...], architecture: int, tmp_path: Path) -> None:
    """All of them for the oldest device with such cores, a fifth for a newer one: their sources are the same there."""
    ptx = ptx_of((INCLUDE / f"{name}.cu").read_text(), architecture, tmp_path, defines, optimized=True)
    assert "mma.sync.aligned" in ptx
    assert ("cp.async.cg.shared.global" in ptx) == name.startswith("flash_attention")
    if "float16" in defines[0]:  # one load for four matrices; only the rows' inner products are read by numbers
        assert "ldmatrix.sync.aligned.m8n8.x4" in ptx
        assert "ld.shared.u16" not in ptx or ptx.count("ld.shared") < ptx.count("ldmatrix")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "defines", "architecture"),
    [
        pytest.param(*each.values, (75, 90)[i // 3 % 2], id=f"{each.id}-{(75, 90)[i // 3 % 2]}")
        for i, each in enumerate(_own())
        if i % 3 == 0
    ],
)
def test_own_kernels_for_other_devices(name: str, defines: tuple[str, ...], architecture: int, tmp_path: Path) -> None:
    """A third of them, each for one device, in turn: `tests.cuda.resources` compiles all for all."""
    source = (INCLUDE / f"{name}.cu").read_text()
    assert entries(ptx_of(source, architecture, tmp_path, defines))


def generated(dtype: str) -> dict[str, str]:
    """Return the generated kernels of all operations in a dtype, by name."""
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    backend = HostBackend()
    with np.errstate(all="ignore"):
        for case in CASES:
            if case.dtype.name == dtype:
                case.fused(backend)
                if case.differentiable and case.op.name not in UNKNOWN:
                    case.fused_gradients(backend)
    return backend.batch.sources


@pytest.mark.sampled(20)
@pytest.mark.parametrize("complex_numbers", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize(
    ("dtype", "architecture"),
    [
        *(pytest.param("float32", n, marks=[] if n == 80 else pytest.mark.slow) for n in ARCHITECTURES),
        *((dtype, 80) for dtype in ("float16", "complex64", "uint8")),
    ],
)
def test_generated_kernels(dtype: str, architecture: int, complex_numbers: bool, tmp_path: Path) -> None:
    if complex_numbers and cupy_include() is None:
        pytest.skip("CuPy, which has the complex numbers of CUDA sources, is not installed")
    sources = {
        name: source for name, source in generated(dtype).items() if ("complex.cuh" in source) == complex_numbers
    }
    if not sources:
        pytest.skip("no operation makes such numbers of these")
    assert entries(ptx_of("\n".join(sources.values()), architecture, tmp_path)) == set(sources)


@pytest.mark.parametrize(("dtype", "least"), [("float32", 100), ("float16", 100), ("complex64", 100), ("uint8", 50)])
def test_most_operations_have_a_generated_kernel(dtype: str, least: int) -> None:
    assert len(generated(dtype)) > least


def test_where_architectures_differ() -> None:
    """Check why `compile_matrix` needs two architectures for bfloat16 and for sources with heads.cuh, else one."""
    from tests.cuda.compile_matrix import included, thresholds

    assert list(thresholds()) == [80]
    names = {line.partition(": ")[0] for line in thresholds()[80]}
    assert names == {"numbers.cuh", "tiles.cuh"}
    before, *rest = (INCLUDE / "numbers.cuh").read_text().split("__CUDA_ARCH__ >= 800")
    assert len(rest) == 1
    assert before.rpartition("struct ")[2].startswith("Stored<bfloat16>")
    sources = {path.stem: path.read_text() for path in INCLUDE.glob("*.cu")}
    users = {name for name, text in sources.items() if "tiles.cuh" in included(text) and "begin_rows" in text}
    assert users == {name for name, text in sources.items() if "heads.cuh" in included(text)}
    others = [text for name, text in sources.items() if name not in users]
    assert not [text for text in others if re.search("begin_tile|begin_copy|finish_copies", text)]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_steps_of_optimizers(architecture: int, tmp_path: Path) -> None:
    """With all numbers as settings, and with one of them as an array that the device has computed."""
    settings = {"beta1": 0.9, "beta2": 0.99, "step_size": 0.1, "eps": 1e-8, "weight_decay": 0.1, "decay_factor": None}
    for dtype in map(np.dtype, ("float16", "float32", "float64")):
        for step_size in (0.1, Input(np.dtype("float32"), is_array=False)):
            chosen = {**settings, "step_size": step_size, "maximize": False}
            source = emit_optimizer(trace_optimizer(adam, dtype, 2, chosen, CudaTracer(CupyBackend.bodies)), dtype)
            assert entries(ptx_of(source, architecture, tmp_path)) == {"fused_adam_steps"}


def test_products_and_sums_are_not_contracted(tmp_path: Path) -> None:
    """A fused kernel rounds as the functions it is made of do."""
    sources = [source for name, source in generated("float32").items() if name.startswith("fused_atan2_backward")]
    ptx = ptx_of(sources[0], 80, tmp_path, optimized=True)
    assert "mul.rn.f32" in ptx or "mul.f32" in ptx
    assert "fma.rn.f32" not in ptx.split("div")[0]


def test_half_precision_is_converted_by_instructions(tmp_path: Path) -> None:
    sources = [source for name, source in generated("float16").items() if name.startswith("fused_silu_")]
    ptx = ptx_of(sources[0], 80, tmp_path, optimized=True)
    assert "cvt.f32.f16" in ptx
    assert "cvt.rn.f16.f32" in ptx


def test_options_name_the_state_of_the_sources() -> None:
    """CuPy's cache on disk looks at source and options, not at included files."""
    options = compile_options()
    assert f"-I{INCLUDE}" in options
    (digest,) = [o for o in options if o.startswith("-DGRADCORE_SOURCES=")]
    assert re.fullmatch(r"-DGRADCORE_SOURCES=0x[0-9a-f]{16}", digest)
