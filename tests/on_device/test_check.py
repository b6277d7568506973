"""The check of a device finds what is wrong, names it, and the program goes on without it."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends import registry
from gradcore.core import config
from gradcore.cuda import check
from gradcore.cuda.speeds import measure_speeds


@pytest.fixture(autouse=True)
def _backend_as_it_was(monkeypatch: pytest.MonkeyPatch, _needs_a_device: None) -> None:
    backend: Any = registry.find("cuda")
    monkeypatch.setitem(backend.__dict__, "cuda_kernel", backend.cuda_kernel)
    monkeypatch.setattr(backend.fusion, "compile", backend.fusion.compile)


def on_cpu(run: Any) -> Any:
    """`run` with tensors that are made on the CPU, as the check's are."""
    with gc.device("cpu"):
        return run()


def test_nothing_is_wrong() -> None:
    lines, fine = on_cpu(lambda: check.run(quick=True, seconds=60))
    assert fine, "\n".join(lines)
    for section in check.SECTIONS:
        assert any(line.startswith(f"{section}: ") for line in lines)


def test_a_further_run_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Skip the cases that an earlier run found right, unless `afresh` is set or the kernels are others."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    begun = iter(range(1, 6))
    plain = check.edges
    monkeypatch.setitem(check.SECTIONS, "edges", lambda quick: itertools.islice(plain(quick), next(begun)))
    for afresh, compared, before in ((False, 1, 0), (False, 1, 1), (False, 1, 2), (True, 4, 0)):
        lines, fine = on_cpu(lambda afresh=afresh: check.run(True, ["edges"], 600, afresh))
        assert fine
        devices = gc.cuda.device_count()
        expected = f"edges: {compared * devices} compared, 0 wrong"
        expected += f", {before * devices} by earlier runs" if before else ""
        assert expected in lines
        assert any("to compile" in line for line in lines)


def test_speeds_are_measured() -> None:
    lines = measure_speeds("cuda:0")
    assert [line.partition(": ")[0] for line in lines[:4]] == [
        f"cuda:0 {name}" for name in ("float32", "float64", "float16", "bfloat16")
    ]
    assert "microseconds" in lines[4]
    assert all(re.search(r"GB/s adding \(\d+ % of [\d.e+]+\), .*TFLOP/s multiplying \(", line) for line in lines[:4])


def test_a_kernel_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    backend: Any = registry.find("cuda")
    own = backend.cuda_kernel

    def cuda_kernel(file: str, name: str, **defines: str) -> Any:
        return (lambda *args, **named: None) if file == "softmax" else own(file, name, **defines)

    monkeypatch.setitem(backend.__dict__, "cuda_kernel", cuda_kernel)
    lines, fine = on_cpu(lambda: check.run(quick=True, sections=["kernels"], seconds=60))
    text = "\n".join(lines)
    assert not fine
    assert "WRONG kernels: softmax, torch.float32, [5, 7], on cuda:0" in text
    assert "softmax/softmax_rows <float>" in text
    assert "GRADCORE_CUDA_KERNELS=-softmax" in text


@pytest.mark.parametrize("family", config.cuda_kernels())
def test_kernels_can_be_left_out(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then no kernel of that file is asked for, and results are the same."""
    backend: Any = registry.find("cuda")
    own, asked = backend.cuda_kernel, []
    monkeypatch.setitem(
        backend.__dict__, "cuda_kernel", lambda file, name, **defines: asked.append(file) or own(file, name, **defines)
    )
    monkeypatch.setattr(config, "CUDA_KERNELS_LEFT_OUT", frozenset({family}))
    backend.kernels.clear()
    try:
        for item in list(check.kernels(quick=True)):
            there = item.run("cuda")
            assert check._difference(there, on_cpu(lambda item=item: item.run("cpu")), item.tolerance) is None, item
    finally:
        backend.kernels.clear()
    assert family not in asked
    assert backend.uses("softmax") == (family != "softmax")


@pytest.mark.sampled(1)
def test_a_convolution_of_channels_has_no_columns(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither forward nor in a gradient: it is large enough for the kernels that gather windows."""
    if gc.cuda.get_device_capability(device) < (8, 0):
        pytest.skip("the device's tensor cores do not multiply bfloat16")
    backend: Any = registry.find("cuda")
    own, asked = backend.cuda_kernel, []
    monkeypatch.setitem(
        backend.__dict__, "cuda_kernel", lambda file, name, **defines: asked.append(name) or own(file, name, **defines)
    )
    function, shapes = check.KERNELS["conv2d of channels"]
    item = check.Item("", check._kernel(function, shapes[1], gc.bfloat16))
    assert check._difference(item.run(device), on_cpu(lambda: item.run("cpu")), item.tolerance) is None
    assert asked.count("convolve_images") == 2
    assert not {"columns", "images"} & set(asked)


def test_numbers_that_differ_are_seen() -> None:
    x = gc.tensor([1.0, 2.0, float("nan")])
    here = x.to("cpu")
    assert check._difference([x], [here], None) is None
    assert "1 of 3 numbers" in str(check._difference([x + gc.tensor([0.0, 1e-2, 0.0])], [here], None))
    assert "result 0 is of float64" in str(check._difference([x.double()], [here], None))
    assert check._difference([None], [here], None) == "result 0 is missing"
    np.testing.assert_array_equal(here.numpy()[:2], [1, 2])
