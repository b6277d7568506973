"""Races in the package's CUDA kernels, which the rig looks for in what NVIDIA's compiler makes of them.

Each program runs in a process of its own, in which every access to memory is noted (``CUPY_HOST_RACES``) and threads
run in a drawn order (``CUPY_HOST_ORDER``). Two accesses that nothing orders end it; its results are those of the CPU.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy.kernels import INCLUDE
from tests.cuda.host import kernel_names
from tests.on_device.comparing import agree
from tests.on_device.test_launches import with_gradients

F = gc.nn.functional

Run = Callable[[str], list[Any]]


class Program(NamedTuple):
    """A function of a device, and the kernels that it launches. Those without a source file are "generated"."""

    run: Run
    kernels: frozenset[str]


PROGRAMS: dict[str, Program] = {}


def program(name: str, kernels: str) -> Callable[[Run], Run]:
    """Return a decorator that adds a program to `PROGRAMS`."""

    def add(run: Run) -> Run:
        PROGRAMS[name] = Program(run, frozenset(kernels.split()))
        return run

    return add


def drawn(device: str, *shape: int, dtype: Any = gc.float32, seed: int = 0) -> Any:
    """Return numbers between -2 and 2, the same on each device."""
    return gc.tensor(np.random.default_rng(seed).uniform(-2, 2, shape)).to(dtype).to(device)


# -- rows -------------------------------------------------------------------------------------------------------------


@program("softmax", "softmax_rows softmax_backward_rows softmax_columns softmax_backward_columns")
def softmax(device: str) -> list[Any]:
    """Rows of warps, of blocks, of bfloat16 in groups of 16 bytes, beyond what threads keep; columns."""
    found = []
    for width, dtype in ((40, gc.float32), (600, gc.float32), (600, gc.bfloat16), (5000, gc.float32)):
        x = drawn(device, 11, width, dtype=dtype)
        found += with_gradients(lambda x: x.softmax(1), x) + with_gradients(lambda x: x.log_softmax(1), x)
    return found + with_gradients(lambda x: x.softmax(1), drawn(device, 5, 12, 70))


@program("layer norm", "normalize_rows normalize_rows_backward layer_parameters")
def layer_norm(device: str) -> list[Any]:
    found = []
    for width, dtype in ((40, gc.float32), (600, gc.bfloat16), (5000, gc.float32)):
        x, weight, bias = (drawn(device, *s, dtype=dtype) for s in ((70, width), (width,), (width,)))
        rows = x if width < 1000 else x[:9]
        found += with_gradients(lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b), rows, weight, bias)
    return found + with_gradients(lambda x: F.group_norm(x, 2), drawn(device, 3, 4, 90))


@program("RMS norm", "scale_rows scale_rows_backward scale_parameters")
def rms_norm(device: str) -> list[Any]:
    found = []
    for width, dtype in ((40, gc.float32), (600, gc.bfloat16), (5000, gc.float32)):
        x, weight = (drawn(device, *s, dtype=dtype) for s in ((70 if width < 1000 else 9, width), (width,)))
        found += with_gradients(lambda x, w: F.rms_norm(x, x.shape[1:], w), x, weight)
    return found


@program(
    "batch norm",
    "channel_moments channel_statistics channel_variances channel_scales move_statistics channel_products "
    "channel_gradients",
)
def batch_norm(device: str) -> list[Any]:
    x, weight, bias = drawn(device, 6, 5, 30, 30), drawn(device, 5), drawn(device, 5)
    mean, var = drawn(device, 5), drawn(device, 5).abs()
    found = with_gradients(lambda x, w, b: F.batch_norm(x, mean, var, w, b, training=True), x, weight, bias)
    found += with_gradients(lambda x, w, b: F.batch_norm(x, mean, var, w, b), x, weight, bias)
    return [*found, mean, var, *gc.var_mean(x, (0, 2, 3))]


@program(
    "cross entropy",
    "cross_entropy cross_entropy_rows cross_entropy_points cross_entropy_backward cross_entropy_backward_rows "
    "reduce_losses nll nll_backward",
)
def cross_entropy(device: str) -> list[Any]:
    found = []
    for shape in ((20, 40), (9, 600), (9, 5000), (5, 40, 3), (3, 12, 200)):
        x = drawn(device, *shape)
        target = gc.arange(x.numel() // shape[1], device=device).reshape(shape[0], *shape[2:]).fmod(shape[1])
        weight = drawn(device, shape[1]).abs() + 1
        for loss in (F.cross_entropy, F.nll_loss):
            found += with_gradients(lambda x, loss=loss, t=target, w=weight: loss(x, t, w), x)
    return found


@program("counts", "find_range count_numbers count_in_bins add_weights")
def counts(device: str) -> list[Any]:
    """In shared memory by one block and by several, and in global memory."""
    found: list[Any] = []
    for size, bins in ((500, 9), (500, 2500), (20000, 9)):
        whole = gc.tensor(np.random.default_rng(1).integers(0, bins, size), device=device)
        x = drawn(device, size)
        found += [whole.bincount(), whole.bincount(x.abs().double()), x.histc(bins), x.histc(bins, -1, 1)]
    return found


@program("scans", "scan_rows scan_columns mode_rows search_rows")
def scans(device: str) -> list[Any]:
    """Rows of warps, and rows of blocks in one round and in several."""
    found: list[Any] = []
    for shape in ((11, 40), (3, 200), (2, 700)):
        x = drawn(device, *shape).mul(3).round()
        found += [*x.cummax(1), *x.cummin(0), *x.mode(1), gc.searchsorted(x.sort(1).values, x)]
    return found


@program("CTC", "ctc_forward ctc_backward")
def ctc(device: str) -> list[Any]:
    targets = gc.tensor(np.random.default_rng(1).integers(1, 12, (4, 40)), device=device)
    x = drawn(device, 90, 4, 12).log_softmax(-1)
    return with_gradients(lambda x: F.ctc_loss(x, targets, (90, 85, 90, 3), (40, 33, 2, 1), zero_infinity=True), x)


@program(
    "selection",
    "sort_rows topk_rows kth_of_rows count_digits find_chosen take_chosen order_keys order_keys_by_row take_order",
)
def selection(device: str) -> list[Any]:
    """Short rows, rows of a block, rows that are divided among blocks; equal elements."""
    few, some, many = (drawn(device, *s).mul(40).round() for s in ((9, 33), (3, 1500), (2, 40_000)))
    found = [*few.sort(1), *some.sort(1, True), some.topk(7).values]
    # Which of equal elements are taken is left open: values alone.
    found += [many.topk(100).values, many.bfloat16().topk(300).values]
    found += [*many[:, :5000].sort(1), *many[0, :5000].sort(), *many.double()[:, :3000].sort(1)]
    found += [*some.median(1), *some.kthvalue(700, 1)]
    longest = drawn(device, 1, 270_000).mul(40).round()
    longest[0, 7] = float("nan")
    return [*found, *longest.median(1), *longest.nanmedian(1), *longest.kthvalue(30_000, 1), *longest.half().median(1)]


# -- rows that are added by index -------------------------------------------------------------------------------------


@program(
    "segments",
    "sum_few sum_segments sum_joined prod_segments prod_joined amax_segments amax_joined amin_segments amin_joined",
)
def segments(device: str) -> list[Any]:
    """Embeddings, whose rows are few or many, and reductions by index in which many rows go to one."""
    found = []
    weight = drawn(device, 9, 40)
    for count in (100, 2500):
        index = gc.arange(count, device=device).pow(2).fmod(7)
        found += with_gradients(lambda w, i=index: F.embedding(i, w), weight)
    index = gc.tensor([0] * 150 + [3, 1] * 25, device=device)
    rows = drawn(device, 200, 40) / 8 + 1
    for reduce in ("prod", "amax", "amin"):
        found.append(weight.index_reduce(0, index, rows, reduce))
    return found


@program("sparse matrices", "sparse_rows sparse_samples")
def sparse(device: str) -> list[Any]:
    rng = np.random.default_rng(0)
    index = np.stack([rng.integers(0, 30, 900), rng.integers(0, 500, 900)])
    index[0, :700] = 2
    values, right = drawn(device, 900), drawn(device, 500, 40)

    def product(values: Any, right: Any) -> Any:
        return gc.sparse_coo_tensor(gc.tensor(index, device=device), values, (30, 500)).to_sparse_csr() @ right

    return with_gradients(product, values, right)


# -- attention --------------------------------------------------------------------------------------------------------


@program("attention", "flash_attention flash_attention_queries flash_attention_keys")
def attention(device: str) -> list[Any]:
    """By float32, and by the tensor cores for bfloat16 and TensorFloat32; several tiles of queries and of keys."""
    found = []
    for dtype, width, precision in (
        (gc.float32, 16, "highest"), (gc.float32, 32, "high"), (gc.bfloat16, 128, "highest"),
        (gc.float16, 256, "highest"),
    ):  # fmt: skip
        inputs = [drawn(device, 1, 2, n, width, dtype=dtype, seed=n) / 2 for n in (70, 90, 91)]
        gc.set_float32_matmul_precision(precision)
        attend = lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :, :90], v[:, :, :90], is_causal=True)  # noqa: E731
        results = with_gradients(attend, *inputs)
        gc.set_float32_matmul_precision("highest")
        # Rounded operands: compared as numbers of 16 bits are.
        found += [t.bfloat16() for t in results] if precision == "high" else results
    return found


@program("attention of narrow heads", "flash_attention flash_attention_queries flash_attention_keys")
def attention_of_narrow_heads(device: str) -> list[Any]:
    """Attend by heads of which a block has more threads than a tile has packs of 16 bytes, and by 64 numbers."""
    found = []
    for width in (16, 64):
        inputs = [drawn(device, 1, 2, n, width, dtype=gc.bfloat16, seed=n) / 2 for n in (40, 70, 71)]
        attend = lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :, :70], v[:, :, :70])  # noqa: E731
        found += with_gradients(attend, *inputs)
    return found


@program("attention in blocks", "attention_weights attention_gradients")
def attention_in_blocks(device: str) -> list[Any]:
    """Attend by heads that are wider than the other kernels take."""
    inputs = [drawn(device, 1, 2, n, 136, seed=n) for n in (70, 300, 301)]
    attend = lambda q, k, v: F.scaled_dot_product_attention(q, k, v[:, :, :300], is_causal=True)  # noqa: E731
    return with_gradients(attend, *inputs)


# -- images -----------------------------------------------------------------------------------------------------------


@program("convolution", "columns images depthwise depthwise_input depthwise_weight")
def convolution(device: str) -> list[Any]:
    x, weight, bias = drawn(device, 3, 4, 11, 12), drawn(device, 6, 4, 3, 3), drawn(device, 6)
    found = with_gradients(lambda x, w, b: F.conv2d(x, w, b, padding=1), x, weight, bias)
    each = drawn(device, 4, 1, 3, 3)
    return found + with_gradients(lambda x, w: F.conv2d(x, w, padding=1, groups=4), x, each)


@program("convolution without columns", "convolve_images convolve_gradients add_parts")
def convolution_without_columns(device: str) -> list[Any]:
    from gradcore.backends.cupy import implicit_convolution

    implicit_convolution._FEWEST_BLOCKS = implicit_convolution._FEWEST_STEPS = implicit_convolution._PARTS = 1
    gc.set_float32_matmul_precision("high")
    found = []
    for dtype, rows, size in ((gc.bfloat16, 20, 16), (gc.float32, 40, 9), (gc.float16, 130, 9)):
        x, weight = drawn(device, 2, 17, size, size, dtype=dtype), drawn(device, rows, 17, 3, 3, dtype=dtype) / 4
        found += with_gradients(lambda x, w: F.conv2d(x, w, padding=1), x, weight)
    return [t.div(t.abs().max()).bfloat16() for t in found]


@program(
    "windows",
    "max_pool max_pool_backward avg_pool avg_pool_backward adaptive_max_pool adaptive_max_pool_backward "
    "adaptive_avg_pool adaptive_avg_pool_backward im2col col2im resample",
)
def windows(device: str) -> list[Any]:
    x = drawn(device, 2, 3, 12, 13)
    calls: list[Callable[[Any], Any]] = [
        lambda x: F.max_pool2d(x, 3, 2, 1), lambda x: F.avg_pool2d(x, 3, 2, 1), lambda x: F.adaptive_max_pool2d(x, 5),
        lambda x: F.adaptive_avg_pool2d(x, 5), lambda x: F.unfold(x, 3), lambda x: F.fold(F.unfold(x, 3), (12, 13), 3),
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    ]  # fmt: skip
    return [t for call in calls for t in with_gradients(call, x)]


@program("images at points", "grid_sampler grid_sampler_backward")
def images_at_points(device: str) -> list[Any]:
    """Several points add to the gradient of one element, atomically."""
    sample = lambda x, g: F.grid_sample(x, g, align_corners=False)  # noqa: E731
    return with_gradients(sample, drawn(device, 2, 3, 5, 4), drawn(device, 2, 20, 20, 2) / 2)


# -- products, lists, random numbers ----------------------------------------------------------------------------------


@program("products", "product repeat_row sum_columns")
def products(device: str) -> list[Any]:
    whole = [drawn(device, *s).mul(9).round().long() for s in ((2, 40, 70), (2, 70, 50))]
    x, weight, bias = drawn(device, 70, 40), drawn(device, 50, 40), drawn(device, 51)
    # A kernel copies the bias into each row where its address is no multiple of 16 bytes, which cuBLASLt asks for.
    return [whole[0] @ whole[1], *with_gradients(lambda x, w, b: F.linear(x, w, b[1:]), x, weight, bias)]


@program("lists", "unscale adapt_scale partial_norms total_norm clip_norm clip_values")
def lists(device: str) -> list[Any]:
    parameters = [drawn(device, n).requires_grad_() for n in (7, 3000, 40_000)]
    scaler = gc.amp.GradScaler(device, init_scale=8.0, growth_interval=1)
    optimizer = gc.optim.SGD(parameters, lr=0.1)
    scaler.scale(sum((p * p).sum() for p in parameters)).backward()
    scaler.unscale_(optimizer)
    norm = gc.nn.utils.clip_grad_norm_(parameters, 1.0)
    gc.nn.utils.clip_grad_value_(parameters, 0.01)
    scaler.step(optimizer)
    scaler.update()
    return [norm, *parameters, gc.tensor(scaler.get_scale())]


_PHILOX = " ".join(
    f"philox_{distribution}_{dtype}"
    for distribution in ("uniform", "normal", "exponential")
    for dtype in ("float16", "bfloat16", "float32", "float64")
)


@program("random numbers", f"bernoulli_float32 bernoulli_float64 dropout philox_words {_PHILOX}")
def random_numbers(device: str) -> list[Any]:
    gc.manual_seed(0)
    found = [F.dropout(drawn(device, 3000), 0.3), gc.randint(0, 9, (3000,), device=device)]
    for dtype in (gc.float16, gc.bfloat16, gc.float32, gc.float64):
        empty = gc.empty(3000, dtype=dtype, device=device)
        found += [empty.uniform_().clone(), empty.normal_().clone(), empty.exponential_().clone()]
        if dtype in (gc.float32, gc.float64):
            found.append(gc.bernoulli(empty, 0.3))
    return found


@program("random numbers in a graph", "philox_place")
def random_numbers_in_a_graph(device: str) -> list[Any]:
    """Two replays of a graph draw different numbers; on the CPU the calls are made without one."""
    gc.manual_seed(0)
    if device == "cpu":
        return [gc.tensor(True), gc.tensor(True)]
    step = gc.cuda.graph(lambda x: F.dropout(x, 0.3), warmup=1)
    first, second = (step(gc.ones(3000, device=device)).clone() for _ in range(2))
    return [(first != second).any(), ((first == 0) | (first > 1)).all()]


# -- generated kernels, and those of CuPy that have this package's expressions ----------------------------------------


@program("generated kernels", "generated")
def generated(device: str) -> list[Any]:
    """Elementwise formulas, an LSTM's cells, the step of an optimizer."""
    gc.manual_seed(0)
    lstm = gc.nn.LSTM(5, 40, device="cpu").to(device)
    optimizer = gc.optim.Adam(lstm.parameters(), lr=0.1)
    out, _ = lstm(drawn(device, 7, 3, 5))
    (F.gelu(out) * out.sigmoid()).sum().backward()
    optimizer.step()
    x = drawn(device, 40, 70)
    return [out, *lstm.parameters(), x.t() * x.t().exp(), x[:, :1] + x[:1], x.half() * 2]


@program("reductions", "")
def reductions(device: str) -> list[Any]:
    """Reductions and scans: of rows by CUB within CuPy's kernels, of columns, and of whole arrays in two passes."""
    x = drawn(device, 3, 1500)
    found = [x.argmax(1), x.argmin(), x.sum(1), x.prod(), x.amax(0), x.t().argmax(0), x.bfloat16().sum(1)]
    return [*found, x.cumsum(1), *x.cummax(1), x.logcumsumexp(1), x.nansum(), x.half().mean()]


@program("checks of indices", "")
def checks(device: str) -> list[Any]:
    """Find several indices that are out of bounds, of which one is reported."""
    try:
        gc.arange(9.0, device=device)[gc.arange(2000, device=device)].cpu()
    except IndexError:
        return [gc.tensor(True)]
    return [gc.tensor(False)]


# -- tests ------------------------------------------------------------------------------------------------------------


@functools.cache
def own_kernels() -> frozenset[str]:
    """Return the names of the kernels in the package's sources."""
    return frozenset(name for path in INCLUDE.glob("*.cu") for name in kernel_names(path.read_text()))


def main(name: str) -> None:
    """Run a program on the device and on the CPU, compare the results, and print the kernels that were launched."""
    import cupy

    compile_module, launched = cupy.RawModule, set()

    class Module:
        """A `cupy.RawModule` that notes which of its kernels are launched."""

        def __init__(self, **settings: Any) -> None:
            self.module = compile_module(**settings)

        def get_function(self, name: str) -> Callable[..., None]:
            function = self.module.get_function(name)

            def launch(*arguments: Any) -> None:
                launched.add(name if name in own_kernels() else "generated")
                function(*arguments)

            return launch

    cupy.RawModule = Module
    run, _ = PROGRAMS[name]
    there = run("cuda")
    gc.cuda.synchronize()
    agree(there, run("cpu"), name)
    sys.stdout.write(json.dumps(sorted(launched)))


def outcome(code: str, seed: int) -> subprocess.CompletedProcess[str]:
    """Run a line of Python by the rig, with NVIDIA's compiler, in which races are noted and threads have an order."""
    watching = {"CUPY_HOST_COMPILER": "nvrtc", "CUPY_HOST_RACES": "1", "CUPY_HOST_ORDER": str(seed)}
    environment = {**os.environ, **watching}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_there_are_no_races(name: str, seed: int) -> None:
    if "cupy_host" not in sys.modules:
        pytest.skip("only the rig notes accesses")
    done = outcome(f"from tests.on_device.test_races import main; main({name!r})", seed)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    assert "a race at" not in done.stderr
    assert PROGRAMS[name].kernels <= set(json.loads(done.stdout))


#: What `finish_copies` does: it waits for the copies of a thread, and then for the other threads.
PLANTED = {"wait": 'asm volatile("cp.async.wait_all;" ::: "memory");', "barrier": "__syncthreads();"}


@pytest.mark.parametrize("missing", PLANTED)
def test_copies_without_a_wait_are_found(missing: str, tmp_path: Path) -> None:
    """Remove the wait, and results are wrong; remove the barrier, and threads race."""
    if "cupy_host" not in sys.modules:
        pytest.skip("only the rig notes accesses")
    folder = shutil.copytree(INCLUDE, tmp_path / "sources")
    before, name, rest = (folder / "tiles.cuh").read_text().partition("void finish_copies() {")
    assert PLANTED[missing] in rest.partition("\n}\n")[0]
    (folder / "tiles.cuh").write_text(before + name + rest.replace(PLANTED[missing], "", 1))
    done = outcome(
        "from pathlib import Path; from gradcore.backends.cupy import kernels;"
        f"kernels.INCLUDE = Path({str(folder)!r});"
        "from tests.on_device.test_races import main; main('attention of narrow heads')",
        1,
    )
    assert done.returncode
    assert ("a race at" in done.stderr) == (missing == "barrier")
    assert ("AssertionError" in done.stderr) == (missing == "wait")


def test_every_kernel_is_in_a_program() -> None:
    """A kernel that is new needs a program here."""
    named = frozenset().union(*(program.kernels for program in PROGRAMS.values()))
    assert named == own_kernels() | {"generated"}
