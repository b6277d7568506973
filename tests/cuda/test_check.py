"""The check of a device where there is none, and the setting that leaves kernels out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradcore.backends import registry
from gradcore.core import config
from gradcore.cuda import check, speeds


def test_without_cuda_the_reason_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    if registry.unavailable("cuda") is None:
        pytest.skip("there is a CUDA device")
    assert check.main(["--quick"]) == 2
    assert "CUDA cannot be used: " in capsys.readouterr().out


@pytest.mark.slow
def test_everything_that_is_compared_runs_on_the_cpu() -> None:
    """So what fails on a device fails there."""
    for name, items in check.SECTIONS.items():
        for item in list(items(True))[:: 7 if name == "operations" else 1]:
            results = item.run("cpu")
            assert check._difference(results, item.run("cpu"), 0) is None, item.label


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("on", set()),
        ("", set()),
        ("off", set(config.cuda_kernels())),
        ("-softmax", {"softmax"}),
        (" -softmax, -windows ", {"softmax", "windows"}),
    ],
)
def test_kernels_are_left_out_by_name(text: str, left_out: set[str]) -> None:
    assert config._excluded_kernels(text) == left_out


def test_the_page_names_all_kinds() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cuda-first-run.md").read_text()
    kinds = page[page.index("The kinds are") :].split(".\n")[0]
    assert sorted(re.findall(r"`(\w+)`", kinds)) == list(config.cuda_kernels())


@pytest.mark.parametrize("text", ["softmax", "-softmx", "off,-softmax"])
def test_unknown_names_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="GRADCORE_CUDA_KERNELS must be 'on', 'off' or a list of -attention"):
        config._excluded_kernels(text)


#: Name, capability, multiprocessors, clock and memory's clock in MHz, bus; GB/s and TFLOP/s of the data sheet: float32,
#: float64, float16 and bfloat16, dense.
CARDS: dict[str, tuple[tuple[int, int], int, int, int, int, float, tuple[float, ...]]] = {
    "Tesla V100-SXM2-16GB": ((7, 0), 80, 1530, 877, 4096, 900, (15.7, 7.8, 125)),
    "Tesla T4": ((7, 5), 40, 1590, 5001, 256, 320, (8.1, 0.25, 65)),
    "NVIDIA A100-SXM4-40GB": ((8, 0), 108, 1410, 1215, 5120, 1555, (19.5, 19.5, 312, 312)),
    "NVIDIA GeForce RTX 3090": ((8, 6), 82, 1695, 9751, 384, 936, (35.6, 0.556, 71, 71)),
    "NVIDIA A10": ((8, 6), 72, 1695, 6251, 384, 600, (31.2, 0.49, 125, 125)),
    "NVIDIA GeForce RTX 4090": ((8, 9), 128, 2520, 10501, 384, 1008, (82.6, 1.29, 165, 165)),
    "NVIDIA L40S": ((8, 9), 142, 2520, 9001, 384, 864, (91.6, 1.43, 362, 362)),
    "NVIDIA H100 80GB HBM3": ((9, 0), 132, 1980, 2619, 5120, 3352, (66.9, 66.9, 989, 989)),
    "NVIDIA B200": ((10, 0), 148, 1965, 3996, 8192, 8000, (75, 37, 2250, 2250)),
    "NVIDIA GeForce RTX 5090": ((12, 0), 170, 2407, 14001, 512, 1792, (104.8, 1.64, 209.5, 209.5)),
}


@pytest.mark.parametrize("name", CARDS)
def test_peaks_are_those_of_data_sheets(name: str) -> None:
    """Within 3 % for memory; sheets of tensor cores assume a lower clock on some cards."""
    capability, multiprocessors, clock, memory_clock, bus, bandwidth, products = CARDS[name]
    found = speeds.compute_peaks(name, capability, multiprocessors, 1000 * clock, 1000 * memory_clock, bus)
    assert found.bandwidth == pytest.approx(bandwidth, rel=0.03)
    assert [*found.products.values()] == pytest.approx(products, rel=0.1)


def test_unknown_cards_have_no_peaks() -> None:
    assert speeds.compute_peaks("NVIDIA X", (99, 0), 10, 1_000_000, 0, 0) == (0, {})
    assert speeds._describe(3.0, 0, "GB/s") == "3 GB/s"
    assert speeds._describe(3.0, 4.0, "GB/s") == "3 GB/s (75 % of 4)"
