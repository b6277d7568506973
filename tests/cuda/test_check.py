"""The check of a device where there is none, and the setting that leaves kernels out."""

from __future__ import annotations

import pytest

from gradcore.backends import registry
from gradcore.core import config
from gradcore.cuda import check


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


@pytest.mark.parametrize("text", ["softmax", "-softmx", "off,-softmax"])
def test_unknown_names_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="GRADCORE_CUDA_KERNELS must be 'on', 'off' or a list of -attention"):
        config._excluded_kernels(text)
