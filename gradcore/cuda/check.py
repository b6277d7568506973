"""Check that CUDA computes the same results as the CPU: ``python -m gradcore.cuda.check``.

The report begins with the driver, the libraries and the devices. Then, on every device, it compares every operation,
every kernel of the package in every dtype, streams, graphs and random numbers with the CPU, and measures speeds. You
can paste the report into an issue. Comparisons that passed are remembered, so that the next run continues with the
others.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import platform
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import gradcore as gc
from gradcore import functional
from gradcore.backends import registry
from gradcore.backends.base import Backend
from gradcore.backends.kernel_rules import extremum_kernels, row_kernels
from gradcore.core import config
from gradcore.core.typing import AnyTensor
from gradcore.cuda.cases import Drawn, cases
from gradcore.cuda.speeds import measure_speeds
from gradcore.ops.declare.table import OPS, Op
from gradcore.tensor.arrays import arrays_of

__all__ = ["main"]

#: Relative tolerances of results, by dtype. Results differ because sums are added in a different order.
TOLERANCES = {
    gc.float64: 1e-8, gc.complex128: 1e-8, gc.float32: 5e-4, gc.complex64: 5e-4, gc.float16: 2e-2, gc.bfloat16: 1e-1,
}  # fmt: skip
REAL = (gc.float32, gc.float64, gc.float16, gc.bfloat16)

#: Operations whose results are not unique, for example in the signs of vectors or the order of eigenvalues.
UNLIKE = ("eig", "lowrank", "svd")

#: Time limits of a run and of a quick run, in seconds, and the share of each section.
SECONDS, QUICK_SECONDS = 175.0, 9.0
SHARES = {
    "edges": 0.05, "kernels": 0.25, "products": 0.1, "streams": 0.05, "graphs": 0.1, "devices": 0.05, "operations": 0.4,
}  # fmt: skip

#: Names of families of kernels, which can be disabled, by the file that contains the kernels.
FAMILIES = {name: name for name in config.cuda_kernels()} | {"generated": "elementwise"}


class Item(NamedTuple):
    """Comparison of results between devices. `run` takes a device and returns the results on it."""

    label: str
    run: Callable[[str], Sequence[Any]]
    tolerance: float | None = None


class Failure(NamedTuple):
    """Failed comparison, with the error and the kernels that were launched before it."""

    section: str
    label: str
    device: str
    words: str
    kernels: tuple[str, ...]


# -- comparisons ------------------------------------------------------------------------------------------------------


def _with_gradients(outs: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Return the results, and the gradients of the inputs that require grad."""
    differentiable = [t for t in inputs if t.requires_grad]
    roots = [o for o in outs if o.requires_grad]
    if not (differentiable and roots):
        return list(outs)
    ones = [gc.ones_like(o) for o in roots]
    return [*outs, *gc.autograd.grad(roots, differentiable, ones, allow_unused=True)]


def _operation(case: Drawn, dtype: Any) -> Callable[[str], Sequence[Any]]:
    def run(device: str) -> Sequence[Any]:
        inputs = [gc.tensor(np.asarray(a), device=device) for a in case.arrays()]
        inputs = [t.to(dtype) if t.is_floating_point() else t for t in inputs]
        differentiable = case.differentiable()
        inputs = [t.requires_grad_(i in differentiable and dtype in TOLERANCES) for i, t in enumerate(inputs)]
        gc.manual_seed(0)
        return _with_gradients(case.outputs(inputs), inputs)

    return run


def operations(quick: bool) -> Iterator[Item]:
    """Yield comparisons of every operation with gradients.

    The first example call of every operation comes first, then the other calls, then other dtypes.
    """
    tested = [op for op in OPS.values() if op.function or op.method or op.samples]
    groups = [cases(op) for op in tested if not any(word in op.name for word in UNLIKE)]
    rounds: list[Any] = [[group[0] for group in groups if group]]
    if not quick:
        rounds.append([case for group in groups for case in group[1:]])
    for dtype in (gc.float32,) if quick else (gc.float32, gc.float64, gc.bfloat16, gc.float16):
        for calls in rounds:
            for case in random.Random(0).sample(calls, len(calls)):
                yield Item(f"{case.label}, {dtype}", _operation(case, dtype))


F: Any = gc.nn.functional


#: A function with kernels of its own, and the shapes of its first argument.
Kernel: TypeAlias = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]


def _call_along(op: Op, count: int, dim: int) -> Callable[[AnyTensor], AnyTensor]:
    """Return a function that calls an operation of `count` tensors with one tensor for all, along `dim`."""
    return lambda x: op.call(*[x] * count, dim)


def _row_operations() -> Iterator[tuple[str, Kernel]]:
    """Yield the public operations with a declared CUDA kernel of rows, along the last dim and along columns."""
    for kernel in row_kernels(Backend).values():
        for name in kernel.operations if kernel.cuda else ():
            op, count = OPS[name], len(kernel.reads)
            if op.function:
                yield name, (_call_along(op, count, -1), ((5, 7), (3, 3000), (2, 40_000)))
                yield f"{name} of columns", (_call_along(op, count, 0), ((7, 5), (900, 33)))


#: Functions with kernels of their own, and shapes that cover all variants: short rows, long rows and columns.
KERNELS: dict[str, Kernel] = {
    **dict(_row_operations()),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b), ((6, 33), (4, 2049))),
    "rms_norm": (lambda x, w, b: F.rms_norm(x, (x.shape[-1],), w), ((6, 33), (4, 2049))),
    "group_norm": (lambda x, w, b: F.group_norm(x.unflatten(1, (4, -1)), 2), ((3, 64), (2, 4096))),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), ((9, 33), (200, 65))),
    "cross_entropy": (lambda x: F.cross_entropy(x, x.detach().float().argmax(-1)), ((6, 11), (5, 5000))),
    "max_pool2d": (lambda x: F.max_pool2d(x.unflatten(0, (1, 1, -1)), 3, 2, 1), ((17, 19), (64, 64))),
    "avg_pool2d": (lambda x: F.avg_pool2d(x.unflatten(0, (1, 1, -1)), 3, 2, 1), ((17, 19), (64, 64))),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x.unflatten(0, (1, 1, -1)), (5, 4)), ((17, 19),)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x.unflatten(0, (1, 1, -1)), (5, 4)), ((17, 19),)),
    "grid_sample": (
        lambda x: F.grid_sample(x[None, None], x.unflatten(1, (-1, 2))[None], align_corners=False),
        ((17, 20), (64, 64)),
    ),
    "unfold": (lambda x: F.unfold(x.unflatten(0, (1, 1, -1)), 3, padding=1), ((9, 11),)),
    "conv2d": (lambda x: F.conv2d(x.unflatten(0, (1, 1, -1)), x[None, None, :3, :3], padding=1), ((9, 11), (33, 31))),
    "conv2d of channels": (
        lambda x: F.conv2d(x.reshape(1, 16, -1, 24), x.unflatten(1, (16, 3, 3)), padding=1), ((64, 144), (512, 144)),
    ),
    "embedding": (lambda x: F.embedding(gc.arange(40, device=x.device) % 3, x), ((7, 5), (50, 300))),
    "index_add": (lambda x: x.index_add(0, gc.arange(len(x), device=x.device) // 2, x), ((8, 5), (400, 33))),
    "scatter_reduce": (
        lambda x: x.scatter_reduce(0, (x > 0).long(), x, "amax", include_self=False), ((8, 5), (400, 33)),
    ),
    "attention": (
        lambda x: F.scaled_dot_product_attention(*[x.unflatten(0, (2, -1))] * 3, is_causal=True), ((12, 8), (256, 64)),
    ),
    "gelu": (lambda x: F.gelu(x) * x + x, ((6, 33), (400, 333))),
    "broadcast": (lambda x: gc.addcmul(x.T, x.T, x[0].unsqueeze(1)), ((6, 33), (400, 33))),
    "remainder": (lambda x: x.remainder(0.3) + gc.div(x, 0.7, rounding_mode="floor"), ((6, 33),)),
    "sums": (lambda x: (x.sum(0), x.mean(), x.var(-1), x.logsumexp(0)), ((6, 33), (700, 301))),
    "extrema and products": (lambda x: (x.amax(0), x.amin(), x[:4].prod(0), x.nansum(-1)), ((6, 33), (700, 301))),
    "sort": (lambda x: (x.sort(-1).values, x.sort(0, True).values, x.cumsum(0)), ((6, 33), (20, 3000))),
    "topk": (lambda x: (x.topk(3).values, x.topk(3, 0, False).values), ((6, 33), (20, 3000), (3, 40_000))),
    "ranks": (
        lambda x: (x.kthvalue(2).values, x.median(-1).values, x.nanmedian(0).values, x.median()),
        ((6, 33), (20, 3000), (2, 300_000)),
    ),
    "ctc_loss": (
        lambda x: F.ctc_loss(
            (x if x.element_size() > 2 else x.float()).unflatten(0, (-1, 3)).log_softmax(-1),
            *(gc.tensor([[1, 2], [2, 2], [1, 1]]), (len(x) // 3,) * 3, (2, 2, 1)),
        ),
        ((15, 5), (300, 33)),
    ),
    "dropout": (lambda x: F.dropout(x, 0.3), ((6, 33), (100, 301))),
    "fft": (lambda x: gc.fft.rfft(x if x.element_size() > 2 else x.float()).abs(), ((6, 32), (5, 600))),
    "sparse": (lambda x: (x * (x > -1)).to_sparse() @ x.mT, ((6, 33), (40, 700))),
    "norms and clipping": (lambda x: gc.linalg.vector_norm(x) * x.clamp(-1, 1), ((6, 33), (400, 33))),
}  # fmt: skip


def _kernel(function: Callable[..., Any], shape: tuple[int, ...], dtype: Any) -> Callable[[str], Sequence[Any]]:
    def run(device: str) -> Sequence[Any]:
        rng = np.random.default_rng(0)
        count = 3 if function.__code__.co_argcount == 3 else 1
        sizes = [shape, (shape[-1],), (shape[-1],)][:count]
        inputs = [gc.tensor(rng.standard_normal(size), device=device).to(dtype).requires_grad_() for size in sizes]
        gc.manual_seed(0)
        result = function(*inputs)
        return _with_gradients(result if isinstance(result, tuple) else (result,), inputs)

    return run


def _optimizer(name: str, dtype: Any) -> Callable[[str], Sequence[Any]]:
    def run(device: str) -> Sequence[Any]:
        gc.manual_seed(0)
        p = gc.randn(37, 5, dtype=gc.float64, device=device).to(dtype).requires_grad_()
        optimizer = getattr(gc.optim, name)([p], lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            (p.float() ** 2).sum().backward()
            gc.nn.utils.clip_grad_norm_([p], 1.0)
            optimizer.step()
        return [p.detach()]

    return run


def kernels(quick: bool) -> Iterator[Item]:
    """Yield comparisons of the package's kernels, each in every dtype and variant."""
    for i in range(1 if quick else 3):
        for dtype in REAL:
            for name, (function, shapes) in KERNELS.items():
                if i < len(shapes):
                    yield Item(f"{name}, {dtype}, {list(shapes[i])}", _kernel(function, shapes[i], dtype))
    for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad"):
        for dtype in (gc.float32, gc.float64):
            yield Item(f"{name}, {dtype}, [37, 5]", _optimizer(name, dtype))


def products(quick: bool) -> Iterator[Item]:
    """Yield comparisons of matrix products, in all memory layouts and dtypes."""
    sizes = [(5, 7, 3), (64, 128, 96)] if quick else [(5, 7, 3), (1, 9, 1), (64, 128, 96), (257, 513, 129)]
    dtypes = (*REAL, gc.complex64, gc.complex128, gc.int64)
    for (m, k, n), dtype, ways in itertools.product(sizes, dtypes, itertools.product((False, True), repeat=2)):

        def run(device: str, m: int = m, k: int = k, n: int = n, dtype: Any = dtype, ways: Any = ways) -> Any:
            rng = np.random.default_rng(0)
            a, b = (
                gc.tensor(rng.standard_normal((3, *(shape[::-1] if turned else shape))) * 3).to(dtype).to(device)
                for shape, turned in zip(((m, k), (k, n)), ways, strict=True)
            )
            a, b = (x.mT if turned else x for x, turned in zip((a, b), ways, strict=True))
            return [a @ b, a[0] @ b[0], (a.reshape(-1, k) if not ways[0] else a[0]) @ b[1]]

        yield Item(f"{m}x{k} @ {k}x{n}, {dtype}, transposed: {ways}", run)


def edges(quick: bool) -> Iterator[Item]:
    """Yield comparisons with special operands: expanded ones, singular matrices, rows with a large mean."""

    def heads(device: str, dtype: Any) -> Any:
        query, key = (
            gc.tensor(np.random.default_rng(0).standard_normal(shape), device=device).to(dtype).requires_grad_()
            for shape in ((2, 4, 9, 8), (2, 1, 7, 8))
        )
        keys = key.expand(2, 4, 7, 8)
        return _with_gradients([F.scaled_dot_product_attention(query, keys, keys)], [query, key])

    def expand_rows(device: str, dtype: Any) -> Any:
        x = gc.linspace(-1, 1, 300, dtype=gc.float64, device=device).to(dtype).requires_grad_()
        rows = x.expand(5, 300)
        return _with_gradients([rows.softmax(-1), rows.sum(0), rows.exp().mT @ rows[:, :7]], [x])

    def singular(device: str, call: Callable[[Any], Any]) -> Any:
        a = gc.eye(4, dtype=gc.float64, device=device).repeat(5, 1, 1)
        a[2, 1] = 0
        try:
            return [call(a)]
        except gc.linalg.LinAlgError as error:  # the message names the singular matrix
            return [gc.tensor(list(str(error).encode()), device=device)]

    def with_a_mean(device: str, mean: float) -> Any:
        rng, dtype = np.random.default_rng(0), gc.float64 if device == "cpu" else gc.bfloat16
        x = gc.tensor(rng.standard_normal((40, 256)) + mean, device="cpu").to(gc.bfloat16).to(device, dtype)
        inputs = [x.requires_grad_(), gc.ones(256, dtype=dtype, device=device, requires_grad=True)]
        upstream = gc.tensor(rng.standard_normal((40, 256)), device="cpu").to(gc.bfloat16).to(device, dtype)
        _describe_system = [F.layer_norm(inputs[0], (256,), inputs[1]), F.rms_norm(inputs[0], (256,), inputs[1])]
        slopes = [s / s.abs().max() for out in _describe_system for s in gc.autograd.grad(out, inputs, upstream)]
        return [s.to(gc.float64) for s in slopes]

    def extrema(device: str, n: int) -> Any:
        x = gc.linspace(-9, 9, 3 * n, device=device).sin().reshape(3, n)
        found = [getattr(functional, each.operation)(x, -1) for each in extremum_kernels(Backend).values()]
        arrays = [each for result in found for each in (result if isinstance(result, tuple) else [result])]
        return [*arrays, x.argmin(), x.amax(-1), x.half().argmax(-1)]

    for dtype in REAL:
        yield Item(f"attention with heads that were expanded, {dtype}", partial(heads, dtype=dtype))
        yield Item(f"rows that were expanded, {dtype}", partial(expand_rows, dtype=dtype))
    for name in ("inv", "solve_ex", "lu_factor", "det", "inv_ex"):
        function: Any = {
            "solve_ex": lambda a: gc.linalg.solve_ex(a, a).info, "inv_ex": lambda a: gc.linalg.inv_ex(a).info,
        }.get(name, getattr(gc.linalg, name))  # fmt: skip
        yield Item(f"{name} of a batch with a singular matrix", partial(singular, call=function))
    for mean in (0.0, 50.0, 200.0):
        label = f"normalized rows with a mean of {mean:.0f}, torch.bfloat16"
        yield Item(label, partial(with_a_mean, mean=mean), 0.03)
    for n in (5_000, 100_000):
        yield Item(f"extrema of rows of {n}", partial(extrema, n=n))


# -- streams, graphs, devices -----------------------------------------------------------------------------------------


def streams(quick: bool) -> Iterator[Item]:
    """Yield comparisons of work in several streams, and of copies from page-locked memory."""

    def side(device: str) -> Any:
        x = gc.linspace(0, 1, 1 << 20, device=device, requires_grad=True)
        if device == "cpu":
            y = (x * 2).exp().square() + x
        else:
            first, second = gc.cuda.Stream(device), gc.cuda.Stream(device)
            first.wait_stream(gc.cuda.current_stream(device))
            with gc.cuda.stream(first):
                inner = (x * 2).exp()
            second.wait_stream(first)
            with gc.cuda.stream(second):
                y = inner.square() + x
                inner.record_stream(second)
            gc.cuda.current_stream(device).wait_stream(second)
        y.sum().backward()
        return [y.detach(), x.grad]

    def copy_from_pinned(device: str) -> Any:
        source = gc.arange(1 << 20, dtype=gc.float32)
        if device != "cpu":
            source = source.pin_memory()
        x = source.to(device) if device != "cpu" else source.clone()
        source.zero_()
        return [x]

    def random_numbers(device: str) -> Any:
        gc.manual_seed(3)
        return [gc.rand(1001, device=device), gc.randint(0, 99, (1001,), device=device), gc.randperm(99, device=device)]

    yield Item("backward of work in two streams", side)
    yield Item("memory that is overwritten after a copy", copy_from_pinned)
    yield Item("random numbers are those of the CPU", random_numbers, 1e-6)


def _model(name: str) -> tuple[Any, Any]:
    nn = gc.nn
    gc.manual_seed(0)
    if name == "perceptron":
        return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8)), gc.randn(12, 16)
    if name == "convolutional":
        first = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        return nn.Sequential(first, nn.Conv2d(8, 4, 3), nn.Flatten()), gc.randn(3, 2, 16, 16)
    return nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True), gc.randn(2, 5, 16)


def graphs(quick: bool) -> Iterator[Item]:
    """Yield comparisons of training steps.

    Captured steps are compared with uncaptured ones on the device, and these with the CPU.
    """

    def training(name: str, recorded: bool) -> Callable[[str], Sequence[Any]]:
        def run(device: str) -> Sequence[Any]:
            model, x = _model(name)
            model, x = model.to(device), x.to(device)
            optimizer = gc.optim.AdamW(model.parameters(), lr=0.01, capturable=True)
            gc.manual_seed(1)

            def step(x: Any) -> Any:
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
                return loss.detach()

            if recorded and device != "cpu":
                step = gc.cuda.graph(step, warmup=2)
                return [step(x).clone() for _ in range(3)]
            return [step(x) for _ in range(5)][2:]

        return run

    for name in ("perceptron", "convolutional", "transformer"):
        yield Item(f"{name}, without a graph", training(name, False), 5e-3)
        yield Item(f"{name}, as a graph", training(name, True), 5e-3)


def devices(quick: bool) -> Iterator[Item]:
    """Yield comparisons of copies from each device to each other device."""
    count = gc.cuda.device_count()
    for a, b in itertools.permutations(range(count), 2):

        def run(device: str, a: int = a, b: int = b) -> Any:
            x = gc.arange(40.0, device=device if device == "cpu" else f"cuda:{a}", requires_grad=True)
            strided = x.view(5, 8)[::2, 1:4]
            y = strided if device == "cpu" else strided.to(f"cuda:{b}")
            z = (y * y).sum()
            z.backward()
            return [y.detach(), x.grad]

        yield Item(f"cuda:{a} to cuda:{b}", run)


SECTIONS: dict[str, Callable[[bool], Iterator[Item]]] = {
    "edges": edges, "kernels": kernels, "products": products, "streams": streams, "graphs": graphs, "devices": devices,
    "operations": operations,
}  # fmt: skip


# -- comparison of results --------------------------------------------------------------------------------------------


def _difference(there: Sequence[Any], here: Sequence[Any], tolerance: float | None) -> str | None:
    """Return a description of how a device's results differ from the CPU's, or None if they agree."""
    if len(there) != len(here):
        return f"{len(there)} results for {len(here)}"
    for i, (a, b) in enumerate(zip(there, here, strict=True)):
        if a is None or b is None:
            if a is not b:
                return f"result {i} is {'missing' if a is None else 'one too many'}"
            continue
        if a.dtype is not b.dtype or a.shape != b.shape or arrays_of((a,))[0].dtype != a.dtype.numpy:
            return f"result {i} is of {arrays_of((a,))[0].dtype} and {list(a.shape)} for {b.dtype} and {list(b.shape)}"
        bound = TOLERANCES.get(a.dtype, 0.0) if tolerance is None else tolerance
        common_dtype = gc.complex128 if a.is_complex() else gc.float64
        x, y = (t.detach().resolve_conj().cpu().to(common_dtype).numpy() for t in (a, b))
        with np.errstate(all="ignore"):
            bad = ~((x == y) | ((x != x) & (y != y)) | (np.abs(x - y) <= bound * (1 + np.abs(y))))
        if bad.any():
            position = int(np.flatnonzero(bad)[0])
            at, of = x.reshape(-1)[position], y.reshape(-1)[position]
            return (
                f"result {i}, {bad.sum()} of {bad.size} numbers of shape {list(a.shape)}: {at} for {of} at {position}"
            )
    return None


class _Watched:
    """Recorder of the requests for the package's kernels, by file and name."""

    def __init__(self, backend: Any) -> None:
        self.names: list[str] = []
        make_cuda_kernel, make_generated, make_reduction = (
            backend.cuda_kernel,
            backend.fusion.compile,
            backend.reduction_kernel,
        )

        def cuda_kernel(file: str, name: str, **defines: str) -> Any:
            self.names.append(f"{file}/{name}" + "".join(f" <{value}>" for value in defines.values()))
            return make_cuda_kernel(file, name, **defines)

        def compile(source: str, name: str) -> Any:
            self.names.append(f"generated/{name}")
            return make_generated(source, name)

        def reduction_kernel(name: str) -> Any:
            self.names.append(f"reductions/{name}")
            return make_reduction(name)

        backend.cuda_kernel, backend.fusion.compile = cuda_kernel, compile
        backend.reduction_kernel = reduction_kernel


def _compare_devices(item: Item, device: str, watched: _Watched) -> tuple[str, tuple[str, ...]] | None:
    """Run `item` on the CPU and on `device`. Return the failure and the kernels launched, or None if it passes."""
    watched.names.clear()
    with np.errstate(all="ignore"):
        try:
            expected: Any = item.run("cpu")
        except Exception as error:
            expected = error
        try:
            with gc.cuda.device(device):
                actual: Any = item.run(device)
                gc.cuda.synchronize()
        except Exception as error:
            actual = error
        if isinstance(expected, Exception):
            both_refuse = isinstance(actual, Exception)
            return None if both_refuse else (f"only the CPU refuses it: {expected!r}", tuple(watched.names))
        if isinstance(actual, Exception):
            return f"{type(actual).__name__}: {str(actual)[:300]}", tuple(dict.fromkeys(watched.names))
        words = _difference(actual, expected, item.tolerance)
    return None if words is None else (words, tuple(dict.fromkeys(watched.names)))


class Progress:
    """A progress bar on a terminal; nothing elsewhere."""

    def __init__(self, seconds: float) -> None:
        self._begin, self._seconds, self._shown = time.monotonic(), seconds, sys.stderr.isatty()

    def show(self, words: str) -> None:
        """Report the elapsed share of the time limit and the current item."""
        if self._shown:
            share = min((time.monotonic() - self._begin) / self._seconds, 1.0)
            print(f"\r\033[K[{'#' * int(30 * share):30}] {words[:80]}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


# -- the report -------------------------------------------------------------------------------------------------------


def _describe_system() -> list[str]:
    """Return lines with the versions of the package, the driver, the libraries and the devices."""
    lines = [
        f"gradcore {gc.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, {platform.platform()}"
    ]
    for names in (("cupy-cuda12x", "cupy-cuda13x", "cupy"), ("cutensor-cu12", "cutensor-cu13")):
        for name in names:
            try:
                lines.append(f"{name} {version(name)}")
                break
            except PackageNotFoundError:
                continue
        else:
            lines.append(f"no {names[0]}")
    reason = registry.unavailable("cuda")
    if reason:
        return [*lines, f"CUDA cannot be used: {reason}"]
    xp: Any = registry.find("cuda").xp
    runtime = xp.cuda.runtime
    lines.append(f"CUDA driver {runtime.driverGetVersion()}, runtime {runtime.runtimeGetVersion()}")
    for name, function in (
        ("nvrtc", "getVersion"),
        ("cublas", "getVersion"),
        ("cufft", "getVersion"),
        ("cusolver", "_getVersion"),
    ):
        lines.append(f"{name} {_library_version(xp, name, function)}")
    for index in range(gc.cuda.device_count()):
        free, total = gc.cuda.mem_get_info(index)
        capability = ".".join(map(str, gc.cuda.get_device_capability(index)))
        lines.append(
            f"cuda:{index} {gc.cuda.get_device_name(index)}, compute capability {capability}, "
            f"{free >> 20} of {total >> 20} MiB free"
        )
    return lines


def _library_version(xp: Any, name: str, function: str) -> str:
    try:
        module = import_module(f"cupy_backends.cuda.libs.{name}" if name != "cufft" else "cupy.cuda.cufft")
        get_version = getattr(module, function)
        return str(get_version(xp.cuda.device.get_cublas_handle()) if name == "cublas" else get_version())
    except Exception as error:
        return f"of unknown version ({type(error).__name__})"


class _Compilation:
    """Context that counts the kernels that CuPy compiles, and measures the seconds that this takes."""

    def __init__(self) -> None:
        self.count, self.seconds = 0, 0.0
        self._compiler: Any = import_module("cupy.cuda.compiler")
        self._own = self._compiler.compile_using_nvrtc

    def __enter__(self) -> _Compilation:
        self._compiler.compile_using_nvrtc = self._compile
        return self

    def __exit__(self, *exc: Any) -> None:
        self._compiler.compile_using_nvrtc = self._own

    def _compile(self, *args: Any, **kwargs: Any) -> Any:
        begin = time.monotonic()
        try:
            return self._own(*args, **kwargs)
        finally:
            self.count += 1
            self.seconds += time.monotonic() - begin


class _Passed:
    """Comparisons that passed in earlier runs with the same versions, stored in a file of the user's cache."""

    def __init__(self, lines: Sequence[str], afresh: bool) -> None:
        sources = Path(gc.__file__).parent
        lines = [line.rpartition(", ")[0] if line.startswith("cuda:") else line for line in lines]  # less free memory
        state = hashlib.sha256("\n".join(lines).encode())
        for path in sorted(sources.rglob("*.cu*")) + sorted(sources.rglob("*.py")):
            state.update(path.read_bytes())
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._path = cache / "gradcore" / f"cuda-check-{state.hexdigest()[:16]}"
        self.before: set[str] = set()
        if not afresh and self._path.exists():
            self.before = set(self._path.read_text().splitlines())
        self.now: list[str] = []

    def save(self) -> None:
        """Write the passed comparisons to the file. If that fails, the next run starts from the beginning."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text("".join(f"{line}\n" for line in sorted({*self.before, *self.now})))
        except OSError as error:
            warnings.warn(
                f"cannot save which comparisons passed ({error}); the next run starts from the beginning", stacklevel=2
            )


def run(
    quick: bool = False,
    sections: Sequence[str] = tuple(SECTIONS),
    seconds: float | None = None,
    afresh: bool = True,
) -> tuple[list[str], bool]:
    """Return the lines of the report, and whether everything passed.

    With `afresh`, comparisons that passed before run again.
    """
    lines = _describe_system()
    if registry.unavailable("cuda"):
        return lines, False
    total = (QUICK_SECONDS if quick else SECONDS) if seconds is None else seconds
    watched, progress, passed = _Watched(registry.find("cuda")), Progress(total), _Passed(lines, afresh)
    failures: list[Failure] = []
    share = sum(SHARES[name] for name in sections)
    begin, planned = time.monotonic(), 0.0
    with _Compilation() as compiled, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated functions are compared, too
        for section in sections:
            planned += total * SHARES[section] / share
            compared = skipped = skipped_before = 0
            for item in SECTIONS[section](quick):
                for index in range(1 if section == "devices" else gc.cuda.device_count()):
                    key = f"{section}: {item.label}, cuda:{index}"
                    if key in passed.before:
                        skipped_before += 1
                        continue
                    if time.monotonic() - begin > planned:
                        skipped += 1
                        continue
                    progress.show(f"{section}: {item.label}")
                    failure = _compare_devices(item, f"cuda:{index}", watched)
                    compared += 1
                    if failure:
                        failures.append(Failure(section, item.label, f"cuda:{index}", *failure))
                    else:
                        passed.now.append(key)
            bad = sum(f.section == section for f in failures)
            suffix = (f", {skipped_before} by earlier runs" if skipped_before else "") + (
                f", {skipped} not reached in time" if skipped else ""
            )
            lines.append(f"{section}: {compared} compared, {bad} wrong{suffix}")
    progress.clear()
    if not afresh or passed.now:
        passed.save()
    duration = time.monotonic() - begin
    lines.append(
        f"{duration:.0f} seconds, {compiled.seconds:.0f} of them to compile {compiled.count} kernels, which CuPy keeps"
    )
    return [*lines, *_explain_failures(failures)], not failures


def _explain_failures(failures: list[Failure]) -> list[str]:
    """Return lines that describe the failures, and settings that disable the kernels concerned."""
    lines = []
    for f in failures[:40]:
        card = gc.cuda.get_device_name(f.device)
        lines += [f"WRONG {f.section}: {f.label}, on {f.device} ({card})", f"    {f.words}"]
        if f.kernels:
            lines.append(f"    kernels: {', '.join(f.kernels[:8])}")
        families = sorted({FAMILIES[k.partition("/")[0]] for k in f.kernels if k.partition("/")[0] in FAMILIES})
        if families:
            lines.append(f"    to go on without: GRADCORE_CUDA_KERNELS={','.join(f'-{name}' for name in families)}")
    if len(failures) > 40:
        lines.append(f"... and {len(failures) - 40} more")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report. Return 0 if everything passed, 1 if something failed, 2 if there is no CUDA."""
    parser = argparse.ArgumentParser(prog="python -m gradcore.cuda.check", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="in ten seconds: the first call of each operation")
    parser.add_argument("--only", choices=sorted(SECTIONS), action="append", help="a section, or several")
    parser.add_argument("--afresh", action="store_true", help="compare what earlier runs have compared, too")
    parser.add_argument("--seconds", type=float, help=f"at most so many ({SECONDS:.0f})")
    options = parser.parse_args(arguments)
    sections = [name for name in SECTIONS if not options.only or name in options.only]
    lines, passed = run(options.quick, sections, options.seconds, options.afresh)
    print("\n".join(lines))
    if registry.unavailable("cuda"):
        return 2
    for index in range(gc.cuda.device_count()):
        print("\n".join(measure_speeds(f"cuda:{index}")))
    is_partial = any("not reached" in line for line in lines)
    reached = "everything that was reached" if is_partial else "everything"
    print(f"{reached} is as on the CPU" if passed else "please report this with all lines above")
    if is_partial:
        print("next: the same command again, which goes on with what was not reached")
    elif passed:
        print("next: python -m benchmarks.compare --device cuda")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
