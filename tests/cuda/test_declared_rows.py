"""Declared kernels of rows have the functions of their CUDA source, with the arguments that the launch gives."""

from __future__ import annotations

import re

import pytest

from gradcore.backends.base import Backend
from gradcore.backends.cupy.kernels import INCLUDE
from gradcore.backends.cupy.rows import CudaRows
from gradcore.backends.kernel_rules import row_kernels

DECLARED = {name: kernel for name, kernel in row_kernels(Backend).items() if kernel.cuda}


@pytest.mark.parametrize("name", DECLARED)
def test_the_source_has_the_functions(name: str) -> None:
    kernel = DECLARED[name]
    assert kernel.cuda is not None
    assert name in vars(CudaRows)
    file, symbol, *_ = kernel.cuda
    text = (INCLUDE / f"{file}.cu").read_text("utf-8")
    for form, sizes in (("rows", 2), ("columns", 3)):
        found = re.search(rf'extern "C" __global__ void {symbol}_{form}\(([^)]*)\)', text)
        assert found, f"{file}.cu has no {symbol}_{form}"
        kinds = [re.sub(r"\bconst\b|(?<=[ *])(?!bool$|i64$)\w+$|\s", "", each.strip()) for each in found[1].split(",")]
        arrays = ["T*"] * (len(kernel.reads) + len(kernel.writes))
        assert kinds == [*arrays, *["i64"] * sizes, "bool"]
