"""Convolution without columns in memory against the CPU: its values, its launches, its memory, and when it applies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy import convolution, implicit_convolution
from gradcore.core import config
from tests.on_device.test_convolution import convolved
from tests.on_device.test_launches import drawn, launches, with_gradients

F = gc.nn.functional

#: How far apart results may be, of the largest number: float32 is rounded to TensorFloat32.
TOLERANCES = {gc.float16: 1e-3, gc.bfloat16: 8e-3, gc.float32: 2e-3}

#: Shapes of input and weight, groups, and settings of the windows: stride, padding, dilation. Tiles have 32, 64 or 128
#: rows, 64 columns, and 32 elements of the inner index.
CASES = {
    "one dim": ((3, 16, 21), (20, 16, 3), 1, {"padding": 1}),
    "one dim, wide steps": ((2, 32, 40), (32, 16, 2), 2, {"stride": 3}),
    "one dim, as many taps as can be": ((2, 16, 35), (20, 16, 29), 1, {"padding": 14}),
    "images": ((2, 16, 9, 10), (24, 16, 3, 2), 1, {"padding": (1, 2)}),
    "several tiles": ((2, 17, 9, 11), (70, 17, 3, 3), 1, {"padding": 1}),
    "tall tiles": ((1, 16, 5, 14), (260, 16, 1, 3), 1, {}),
    "stride": ((2, 32, 9, 8), (40, 16, 3, 3), 2, {"stride": (2, 3), "padding": 1}),
    "dilation": ((2, 16, 11, 10), (16, 16, 3, 2), 1, {"dilation": (2, 3), "stride": (1, 2), "padding": (3, 0)}),
    "elements without windows": ((2, 16, 11, 10), (16, 16, 2, 1), 1, {"stride": (4, 2)}),
    "points, stride": ((3, 16, 5, 7), (20, 16, 1, 1), 1, {"stride": 2}),
    "the whole image": ((35, 16, 3, 3), (16, 16, 3, 3), 1, {}),
    "few channels of the input": ((2, 3, 12, 11), (16, 3, 3, 3), 1, {"padding": 1}),
    "volumes": ((1, 16, 5, 4, 6), (36, 16, 2, 3, 2), 1, {"padding": (1, 0, 1), "stride": (1, 2, 1)}),
}


@pytest.fixture(autouse=True)
def _tensor_cores(device: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use the kernels for small images too, divide their sums, and multiply float32 as TensorFloat32."""
    if gc.cuda.get_device_capability(device) < (8, 0):
        pytest.skip("the device's tensor cores do not multiply bfloat16")
    monkeypatch.setattr(implicit_convolution, "_FEWEST_BLOCKS", 1)
    monkeypatch.setattr(implicit_convolution, "_FEWEST_STEPS", 1)
    monkeypatch.setattr(implicit_convolution, "_PARTS", 1)
    gc.set_float32_matmul_precision("high")
    yield
    gc.set_float32_matmul_precision("highest")


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the kernels of convolution that are launched."""
    found: list[str] = []
    cuda_kernel = convolution.CudaConvolution.cuda_kernel

    def note(backend: Any, file: str, name: str, **macros: str) -> Any:
        if "convolution" in file:
            found.append(name)
        return cuda_kernel(backend, file, name, **macros)

    monkeypatch.setattr(convolution.CudaConvolution, "cuda_kernel", note)
    return found


def close(there: Any, here: Any, tolerance: float) -> None:
    for i, (a, b) in enumerate(zip(there, here, strict=True)):
        assert a.dtype is b.dtype
        assert a.shape == b.shape
        a, b = (t.detach().cpu().to(gc.float64).numpy() for t in (a, b))
        bound = tolerance * max(1.0, float(np.abs(b).max(initial=0)))
        np.testing.assert_allclose(a, b, rtol=0, atol=bound, err_msg=f"result {i}")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "transposed"])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(device: str, case: str, transposed: bool, dtype: Any, kernels: list[str]) -> None:
    shape, kernel, groups, settings = CASES[case]
    rng = np.random.default_rng(0)
    weight = drawn(rng, dtype, *kernel) / 4
    x = drawn(rng, dtype, shape[0], kernel[0] if transposed else shape[1], *shape[2:])
    bias = drawn(rng, dtype, kernel[1] * groups if transposed else kernel[0])
    there, here = (
        with_gradients(convolved(transposed, groups, settings), *[t.to(where) for t in (x, weight, bias)])
        for where in (device, "cpu")
    )
    close(there, here, TOLERANCES[dtype])
    assert "convolve_gradients" in kernels
    if "few" not in case:
        assert set(kernels) <= {"convolve_images", "convolve_gradients", "add_parts"}


#: Operands in other layouts, and whether they are read without a copy.
LAYOUTS = {
    "flipped": (lambda x: x.flip(-1).flip(-2), True),
    "every other image": (lambda x: gc.stack([x, x], 1).flatten(0, 1)[::2], True),
    "channels first": (lambda x: x.transpose(0, 1).contiguous().transpose(0, 1), True),
    "expanded": (lambda x: x[..., :1].expand(x.shape), True),
    "transposed": (lambda x: x.mT.contiguous().mT, False),
    "not aligned": (lambda x: gc.cat([x[..., :1], x], -1)[..., 1:], True),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_operands_are_read_where_they_lie(device: str, layout: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    rearranged, is_read = LAYOUTS[layout]
    arrays = [drawn(rng, dtype, *s) for s in ((3, 16, 8, 9), (16, 16, 3, 3), (3, 16, 8, 9))]

    def run(where: str) -> list[Any]:
        x, weight, grad = (rearranged(a.to(where)).detach().requires_grad_() for a in arrays)
        out = F.conv2d(x, weight, padding=1)
        return [out, *gc.autograd.grad(out, (x, weight), grad)]

    close(run(device), run("cpu"), TOLERANCES[dtype])
    x, weight = rearranged(arrays[0].to(device)), arrays[1].to(device)
    assert launches(lambda: F.conv2d(x, weight, padding=1)) == (1 if is_read else 2)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "transposed"])
def test_second_derivatives(device: str, transposed: bool) -> None:
    rng = np.random.default_rng(0)
    x, weight = (drawn(rng, gc.float32, *s) for s in ((2, 16, 7, 8), (16, 16, 3, 2)))
    run = convolved(transposed, 1, {"stride": (1, 2), "padding": 1})
    there, here = (with_gradients(run, x.to(w), weight.to(w), second=True) for w in (device, "cpu"))
    close(there, here, TOLERANCES[gc.float32])


@pytest.mark.sampled(1)
def test_infinities_and_not_numbers_reach_the_windows_that_have_them(device: str) -> None:
    x = gc.ones(1, 16, 6, 6, dtype=gc.float16, device=device)
    # That of the first channel is the first element of a window. Taps beyond the last one must not read it.
    x[0, 0, 1, 1], x[0, 5, 5, 5] = np.inf, np.nan
    out = F.conv2d(x, gc.ones(16, 16, 3, 3, dtype=gc.float16, device=device), padding=1)[0, 0].cpu()
    expected = F.conv2d(x.cpu().float(), gc.ones(16, 16, 3, 3, device="cpu"), padding=1)[0, 0].to(gc.float16)
    assert gc.allclose(out, expected, equal_nan=True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16], ids=str)
def test_a_bias_is_added_before_rounding(device: str, dtype: Any) -> None:
    x, weight = (
        gc.full((1, 16, 9, 9), 1.0, dtype=dtype, device=device),
        gc.zeros(16, 16, 1, 1, dtype=dtype, device=device),
    )
    weight[:, 0], weight[:, 1] = 1, 2.0**-12
    bias = gc.full((16,), 2.0**-7, dtype=dtype, device=device)
    expected = gc.tensor(1 + 2.0**-7 + 2.0**-12, dtype=gc.float64).to(dtype).item()
    assert F.conv2d(x, weight, bias, stride=2).unique().tolist() == [expected]


@pytest.mark.sampled(1)
def test_equal_calls_give_equal_bits(device: str, kernels: list[str]) -> None:
    rng = np.random.default_rng(0)
    x, grad = (drawn(rng, gc.bfloat16, 8, 16, 12, 12, device=device) for _ in range(2))
    weight = drawn(rng, gc.bfloat16, 16, 16, 3, 3, device=device).requires_grad_()
    runs = [gc.autograd.grad(F.conv2d(x, weight, padding=1), weight, grad)[0] for _ in range(3)]
    assert "add_parts" in kernels
    assert all((each == runs[0]).all().item() for each in runs[1:])


@pytest.mark.parametrize("dtype", [gc.float32, gc.bfloat16], ids=str)
def test_memory_has_no_columns(device: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images of which the columns would have nine times the size: at most 1.2 times what operands and results have."""
    monkeypatch.undo()
    x, grad = (gc.ones(8, 32, 32, 32, dtype=dtype, device=device) for _ in range(2))
    weight = gc.ones(32, 32, 3, 3, dtype=dtype, device=device)
    out = F.conv2d(x.requires_grad_(), weight.requires_grad_(), padding=1)
    size, of_weight = (t.numel() * t.element_size() for t in (x, weight))
    for run, operands, results in (
        (lambda: F.conv2d(x.detach(), weight.detach(), padding=1), size + of_weight, size),
        (lambda: gc.autograd.grad(out, x, grad, retain_graph=True), size + of_weight, size),
        (lambda: gc.autograd.grad(out, weight, grad, retain_graph=True), 2 * size, of_weight),
    ):
        run()
        gc.cuda.empty_cache()
        before = gc.cuda.memory_allocated()
        gc.cuda.reset_peak_memory_stats()
        run()
        assert operands + gc.cuda.max_memory_allocated() - before <= 1.2 * (operands + results)


@pytest.mark.parametrize(("settings", "forward", "backward"), [({"padding": 1}, 1, 4), ({"stride": 2}, 1, 7)])
@pytest.mark.parametrize("dtype", [gc.float32, gc.bfloat16], ids=str)
def test_launches_of_a_large_convolution(
    device: str, dtype: Any, settings: Any, forward: int, backward: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In backward those of the bias, of each remainder by the stride, and of the weight, whose parts are added."""
    monkeypatch.undo()
    gc.set_float32_matmul_precision("high")
    x = gc.ones(32, 16, 33, 33, dtype=dtype, device=device, requires_grad=True)
    weight = gc.ones(16, 16, 3, 3, dtype=dtype, device=device, requires_grad=True)
    bias = gc.ones(16, dtype=dtype, device=device, requires_grad=True)
    run = lambda: F.conv2d(x, weight, bias, **settings)  # noqa: E731
    assert launches(run) == forward
    out = run()
    ones = gc.ones_like(out)
    assert launches(lambda: gc.autograd.grad(out, (x, weight, bias), ones, retain_graph=True)) == backward


#: Convolutions for which columns are computed: shapes of input and weight, groups, dtype, and what is changed.
WITH_COLUMNS: dict[str, Any] = {
    "few channels": ((2, 8, 9, 9), (8, 8, 3, 3), 1, gc.float16, {}),
    "few channels in a group": ((2, 32, 9, 9), (32, 8, 3, 3), 4, gc.float16, {}),
    "few blocks": ((2, 16, 9, 9), (16, 16, 3, 3), 1, gc.float16, {"_FEWEST_BLOCKS": 8}),
    "large images": ((2, 16, 9, 9), (16, 16, 3, 3), 1, gc.float16, {"_REACH": 16 * 80}),
    "more taps": ((2, 16, 35, 3), (16, 16, 29, 2), 1, gc.float16, {}),
    "float64": ((2, 16, 9, 9), (16, 16, 3, 3), 1, gc.float64, {}),
    "exact float32": ((2, 16, 9, 9), (16, 16, 3, 3), 1, gc.float32, {"precision": "highest"}),
    "an old device": ((2, 16, 9, 9), (16, 16, 3, 3), 1, gc.float16, {"capability": 75}),
    "kernels left out": ((2, 16, 9, 9), (16, 16, 3, 3), 1, gc.float16, {"left out": "implicit_convolution"}),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", WITH_COLUMNS)
def test_other_convolutions_have_columns(
    device: str, case: str, kernels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shape, kernel, groups, dtype, changes = WITH_COLUMNS[case]
    for name, value in changes.items():
        if name == "precision":
            gc.set_float32_matmul_precision(value)
        elif name == "capability":
            monkeypatch.setattr(convolution.CudaConvolution, "compute_capability", lambda backend, value=value: value)
        elif name == "left out":
            monkeypatch.setattr(config, "CUDA_KERNELS_LEFT_OUT", frozenset({value}))
        else:
            monkeypatch.setattr(implicit_convolution, name, value)
    rng = np.random.default_rng(0)
    x, weight = (drawn(rng, dtype, *s, device=device).requires_grad_() for s in (shape, kernel))
    out = F.conv2d(x, weight, padding=1, groups=groups)
    assert kernels == ["columns"]
    gc.autograd.grad(out, x, out.detach(), retain_graph=True)
    assert kernels == ["columns", "images"]
    gc.autograd.grad(out, weight, out.detach())
    assert ("convolve_gradients" in kernels) == (case == "few blocks")  # the gradient by the weight has others
