"""What the CUDA backend does on its own: as far as that can be seen without a GPU."""

from __future__ import annotations

import ctypes
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy import indexing as cupy_indexing
from gradcore.backends.cupy.backend import CupyBackend
from gradcore.backends.random import philox
from gradcore.random.functions import log_standard_gamma
from tests.strict import api
from tests.strict.device import COUNTS

F = gc.nn.functional


def both(call: Callable[..., Any], *arrays: Any) -> tuple[Any, Any]:
    """Return the results on the CPU and on the strict device, as NumPy arrays."""
    here = call(*(gc.tensor(a) for a in arrays))
    there = call(*(gc.tensor(a, device="strict:0") for a in arrays))
    assert there.device == "strict:0"
    assert there.dtype is here.dtype
    return here.numpy(), there.cpu().numpy()


# -- what CuPy offers ------------------------------------------------------------------------------------------


def test_the_record_of_cupy_is_that_of_its_version() -> None:
    """What the strict device allows where CuPy is not installed."""
    pytest.importorskip("cupy")
    installed, recorded = api.introspect(), json.loads(api.RECORD.read_text())
    if installed["version"] != recorded["version"]:
        pytest.skip(f"the record is of CuPy {recorded['version']}, and {installed['version']} is installed")
    assert installed == recorded


# -- waiting ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_training_step_neither_waits_nor_copies(strict: str) -> None:
    """Forward, backward and update of a network, after a first step that fills caches."""
    generator = gc.Generator().manual_seed(0)

    def made(*shape: int) -> gc.Tensor:
        return (gc.randn(*shape, generator=generator) * 0.1).to(strict).requires_grad_()

    filters, shift, gain, offset = made(4, 2, 3, 3), made(4), made(144), made(144)
    hidden, hidden_bias, last, last_bias = made(16, 144), made(16), made(5, 16), made(5)
    parameters = [filters, shift, gain, offset, hidden, hidden_bias, last, last_bias]
    images = gc.randn(8, 2, 12, 12, generator=generator).to(strict)
    labels = gc.tensor([0, 1, 2, 3, 4, 0, -100, 2]).to(strict)

    def step() -> gc.Tensor:
        maps = F.max_pool2d(F.relu(F.conv2d(images, filters, shift, padding=1)), 2)
        maps = F.avg_pool2d(maps, 3, stride=1, padding=1, count_include_pad=False)
        features = F.layer_norm(maps.flatten(1), (144,), gain, offset)
        features = F.gelu(F.linear(features, hidden, hidden_bias))
        loss = F.cross_entropy(F.linear(features, last, last_bias), labels)
        loss.backward()
        with gc.no_grad():
            for p in parameters:
                p.sub_(p.grad, alpha=0.5)
                p.grad = None
        return loss

    first = step()
    COUNTS.clear()
    second = step()
    assert not COUNTS, f"transfers and waits: {dict(COUNTS)}"
    assert second.item() < first.item()


# -- indices ---------------------------------------------------------------------------------------------------

CALLS = {
    "take": lambda x, i: x[i],
    "gather": lambda x, i: x.gather(0, i.expand(3, i.shape[0]).T),
    "select": lambda x, i: gc.index_select(x, 0, i),
    "embedding": lambda x, i: F.embedding(i, x),
    "cross_entropy": lambda x, i: F.cross_entropy(x[: i.shape[0]].T.contiguous().T, i),
}


@pytest.fixture
def policy() -> Iterator[Callable[[Any], None]]:
    yield gc.cuda.set_index_checks
    gc.cuda.set_index_checks("later")


@pytest.mark.parametrize("name", CALLS)
def test_a_bad_index_is_found_when_the_host_waits(strict: str, name: str) -> None:
    x = gc.ones(4, 3, device=strict)
    index = gc.tensor([0, 1, 7]).to(strict)
    CALLS[name](x, gc.tensor([0, 1, 2]).to(strict))
    COUNTS.clear()
    CALLS[name](x, index)
    assert not COUNTS["to host"] + COUNTS["sync"]
    with pytest.raises(IndexError, match=r"found on the device .*set_index_checks\('now'\)") as later:
        x.sum().item()
    assert x.sum().item() == 12.0  # told once
    with pytest.raises(IndexError) as here:
        CALLS[name](gc.ones(4, 3), gc.tensor([0, 1, 7]))
    numbers = re.findall(r"\d+", str(here.value))
    assert re.findall(r"\d+", str(later.value))[: len(numbers)] == numbers


def test_the_first_of_several_bad_indices_is_told(strict: str) -> None:
    x = gc.ones(4, 3, device=strict)
    for n in (2, 9, 3, 11):
        gc.index_select(x, 0, gc.tensor([n]).to(strict))
    with pytest.raises(IndexError, match="index 9 is out of bounds for dimension 0 with size 4"):
        x.cpu()
    for _ in range(1_500):  # more checks than are remembered
        gc.index_select(x, 0, gc.tensor([5]).to(strict))
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        x.cpu()


def test_each_device_has_its_own_checks(strict: str) -> None:
    x, y = gc.ones(4, device="strict:0"), gc.ones(4, device="strict:1")
    y[gc.tensor([8]).to("strict:1")]
    assert x.sum().item() == 4
    with pytest.raises(IndexError, match="index 8 is out of bounds"):
        y.sum().item()


def test_an_index_of_an_empty_dim_is_refused_at_once(strict: str) -> None:
    x, index = gc.ones(0, 3, device=strict), gc.tensor([0]).to(strict)
    with pytest.raises(IndexError, match=r"^index is out of bounds for dimension with size 0$"):
        x.index_fill_(0, index, 1)
    with pytest.raises(IndexError, match=r"^index 0 is out of bounds for dimension 0 with size 0$"):
        x.scatter_(0, index[:, None], 1)


def test_indices_can_be_checked_at_once_or_not_at_all(strict: str, policy: Callable[[Any], None]) -> None:
    x, index = gc.ones(4, 3, device=strict), gc.tensor([5]).to(strict)
    policy("now")
    assert gc.cuda.index_checks() == "now"
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 4"):
        gc.index_select(x, 0, index)
    policy("off")
    gc.index_select(x, 0, index)
    assert x.sum().item() == 12
    with pytest.raises(ValueError, match="must be one of 'later', 'now', 'off', but got 'sometimes'"):
        policy("sometimes")


def test_negative_indices(strict: str) -> None:
    x = gc.arange(4.0, device=strict)
    assert x[gc.tensor([-1, -4]).to(strict)].tolist() == [3.0, 0.0]
    x[gc.tensor([-5]).to(strict)]
    with pytest.raises(IndexError, match="index -5 is out of bounds"):
        x.tolist()


#: The check of one index, as CuPy calls it for each, in C++.
CHECK = """
using u64 = unsigned long long;
static u64 atomicCAS(u64* place, u64 expected, u64 value) {
    const u64 old = *place;
    if (old == expected) *place = value;
    return old;
}
template <class T> void check(const T* all, long n, long long low, long long high, long long number, long long* first) {
    for (long i = 0; i < n; ++i) { const T index = all[i]; %s }
}
#define CHECK(T, name) extern "C" void name(const T* all, long n, long long low, long long high, long long number, \
    long long* first) { check(all, n, low, high, number, first); }
CHECK(long long, int64) CHECK(int, int32) CHECK(unsigned char, uint8)
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_the_check_on_the_device(tmp_path: Path, strict: str) -> None:
    """The CUDA source says what the strict device's stand-in says."""
    (tmp_path / "check.cpp").write_text(CHECK % cupy_indexing._NOTE)
    command = [
        "g++",
        "-O1",
        "-Wall",
        "-Werror",
        "-fno-strict-aliasing",
        "-shared",
        "-fPIC",
        "check.cpp",
        "-o",
        "check.so",
    ]
    subprocess.run(command, cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "check.so"))
    for dtype, indices in (
        ("int64", [0, 3, -4, 2**40, -5]), ("int64", [0, 3, -4]), ("int32", [1, -5, 4]), ("uint8", [3, 250, 4]),
        ("int64", []),
    ):  # fmt: skip
        index, first, expected = np.array(indices, dtype), np.zeros(2, "i8"), gc.zeros(2, dtype=gc.int64, device=strict)
        places = [ctypes.c_void_p(a.ctypes.data) for a in (index, first)]
        numbers = [ctypes.c_longlong(n) for n in (-4, 4, 7)]
        getattr(library, dtype)(places[0], ctypes.c_long(index.size), *numbers, places[1])
        device = gc.tensor(index).to(strict)
        device._device.backend.note_bad_index(device._array, -4, 4, 7, expected._array)
        np.testing.assert_array_equal(first, expected.cpu().numpy())


# -- sums and extrema at given places --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_sums_at_indices_in_every_dtype(strict: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    index = rng.integers(0, 5, 40)
    values = rng.integers(-3, 4, (40, 3)).astype(dtype)
    if dtype.startswith("c"):
        values = values + 1j * rng.integers(-3, 4, (40, 3)).astype(dtype)
    here, there = both(lambda x, i, v: x.index_add(0, i, v), np.ones((5, 3), dtype), index, values.astype(dtype))
    np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("reduce", ["amax", "amin", "prod"])
@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
def test_extrema_at_indices(strict: str, reduce: str, include: bool, dtype: str) -> None:
    rng = np.random.default_rng(1)
    index, values = rng.integers(0, 6, 50), rng.integers(-4, 5, 50).astype(dtype)
    start = rng.integers(-2, 3, 8).astype(dtype)
    if dtype.startswith("f"):
        values[7], values[8] = np.nan, 1 + 2.0**-40  # an atomic maximum of float64 would round it
        start[7] = np.nan
    here, there = both(lambda x, i, v: x.scatter_reduce(0, i, v, reduce, include_self=include), start, index, values)
    np.testing.assert_array_equal(there, here)


# -- linear algebra --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [gc.linalg.cholesky, gc.linalg.inv, lambda a: gc.linalg.solve(a, a), gc.linalg.eigh, gc.linalg.svdvals],
)
def test_failures_are_told_as_on_the_cpu(strict: str, call: Callable[[Any], Any]) -> None:
    """A batch in which one matrix is singular, or holds NaN where that is what fails."""
    a = np.stack([np.eye(3), np.diag([1.0, 0, -1]), 2 * np.eye(3)])
    if call in (gc.linalg.eigh, gc.linalg.svdvals):
        a[1] = np.nan
    messages = []
    for device in ("cpu", strict):
        try:
            call(gc.tensor(a, device=device))
        except RuntimeError as error:
            messages.append(str(error))
    assert len(messages) != 1
    assert len({re.sub(r"The diagonal element \d+", "The diagonal element", m) for m in messages}) <= 1


def test_solving_with_broadcast_batches(strict: str) -> None:
    rng = np.random.default_rng(2)
    a = rng.standard_normal((2, 1, 3, 3)) + 3 * np.eye(3)
    b = rng.standard_normal((4, 3, 2))
    for call in (gc.linalg.solve, lambda a, b: gc.linalg.solve_triangular(a, b, upper=True)):
        here, there = both(call, a, b)
        np.testing.assert_allclose(there, here, rtol=1e-12)


# -- random numbers --------------------------------------------------------------------------------------------

#: CUDA's words for C++; the kernels find their place in a grid in these variables.
SHIM = """
#define __global__
#define __device__
static struct { unsigned x; } threadIdx, blockIdx, blockDim, gridDim;
extern "C" void set_thread(unsigned blocks, unsigned threads, unsigned block, unsigned thread) {
    gridDim.x = blocks; blockDim.x = threads; blockIdx.x = block; threadIdx.x = thread;
}
#include "philox.cu"
"""
C_TYPES = {np.uint64: ctypes.c_uint64, np.float32: ctypes.c_float, np.float64: ctypes.c_double}


class CompiledForTheHost:
    """In the place of `cupy.RawModule`: the kernel as a C++ function."""

    folder: Path
    launches: list[tuple[int, int]]

    def __init__(self, *, code: str, options: tuple[str, ...]) -> None:
        assert code == (Path(philox.__file__).parents[1] / "cupy/sources/philox.cu").read_text()
        assert {"-fmad=false", "-std=c++17"} < set(options)
        include = [option for option in options if option.startswith("-I")]
        (self.folder / "shim.cpp").write_text(SHIM)
        command = [
            "g++",
            "-O1",
            "-std=c++17",
            "-ffp-contract=off",
            "-w",
            "-shared",
            "-fPIC",
            *include,
            "shim.cpp",
            "-o",
            "k.so",
        ]
        subprocess.run(command, cwd=self.folder, check=True)
        self.library = ctypes.CDLL(str(self.folder / "k.so"))

    def get_function(self, name: str) -> Callable[..., None]:
        def kernel(grid: tuple[int], block: tuple[int], arguments: tuple[Any, ...]) -> None:
            out, *numbers = arguments
            given = [ctypes.c_void_p(out.ctypes.data), *(C_TYPES[type(n)](n.item()) for n in numbers)]
            self.launches.append((*grid, *block))
            for place in itertools.product(range(*grid), range(*block)):
                self.library.set_thread(*grid, *block, *place)
                getattr(self.library, name)(*given)

        return kernel


PLACE = 0x0123456789ABCDEF_FEDCBA9876543210, 2**192 + 2**64 - 3


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> CupyBackend:
    """Return the CUDA backend on NumPy arrays, with kernels compiled for the host."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    module = type("Module", (CompiledForTheHost,), {"folder": tmp_path_factory.mktemp("kernels"), "launches": []})
    return CupyBackend(SimpleNamespace(ndarray=np.ndarray, empty=np.empty, RawModule=module), 1)


def test_random_words_are_those_of_the_cpu(cuda: CupyBackend) -> None:
    for n in (0, 1, 4, 1023, 1024, 1025, 50_000):
        np.testing.assert_array_equal(cuda.random_words(n, *PLACE), philox.words(n, *PLACE))
    assert cuda.xp.RawModule.launches == [*[(1, 256)] * 4, (2, 256), (49, 256)]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    ("distribution", "parameters"),
    [
        (philox.uniform, ()), (philox.uniform, (-0.3, 12.7)), (philox.normal, ()), (philox.normal, (0.3, 1.7)),
        (philox.exponential, ()), (philox.exponential, (0.7,)),
    ],
)  # fmt: skip
def test_random_numbers_are_those_of_the_cpu(
    cuda: CupyBackend, distribution: Any, parameters: tuple[float, ...], name: str
) -> None:
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    dtype = getattr(gc, name).numpy
    for n in (0, 1, 5, 3001):
        found = cuda.random_numbers(distribution, n, dtype, *PLACE, *parameters)
        stream = philox.WordStream(philox.word_count(n, dtype), *PLACE)
        expected = distribution(np, stream, dtype, *parameters)[:n]
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()


def test_random_tensors_are_those_of_the_cpu(strict: str) -> None:
    for draw in (
        lambda d, g: gc.randn(1001, generator=g, device=d),
        lambda d, g: gc.rand(7, 9, generator=g, device=d, dtype=gc.float64),
        lambda d, g: gc.randint(-5, 2**40, (33,), generator=g, device=d),
        lambda d, g: gc.randperm(100, generator=g, device=d),
        lambda d, g: gc.rand(5, generator=g, device=d, dtype=gc.complex64),
        lambda d, g: gc.poisson(gc.full((50,), 20.0, device=d), generator=g),
        lambda d, g: log_standard_gamma(gc.tensor([0.3, 1.0, 5.0] * 9, device=d, dtype=gc.float64), g),
        lambda d, g: gc.binomial(gc.full((20,), 30.0, device=d), gc.full((), 0.4, device=d), generator=g),
        lambda d, g: gc.multinomial(gc.ones(3, 8, device=d), 4, generator=g),
        lambda d, g: gc.bernoulli(gc.full((50,), 0.3, device=d), generator=g),
        lambda d, g: gc.empty(40, device=d).exponential_(generator=g),
        lambda d, g: gc.normal(gc.zeros(9, device=d), 2.0, generator=g),
    ):
        here, there = (draw(d, gc.Generator().manual_seed(5)) for d in ("cpu", strict))
        assert there.device == strict
        np.testing.assert_array_equal(there.cpu().numpy(), here.numpy())
