"""What makes the host wait for the device, or copies to it, counted where the library of the device is the rig's."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcore.ops.declare.table import OPS
from tests.cuda.test_waiting import KNOWN, Waits, cases_of
from tests.on_device.test_operations import NAMES

#: Operations that copy numbers to the device, and why.
COPIES = {
    **dict.fromkeys(
        ("airy_ai", "linalg_ldl_factor", "linalg_ldl_factor_ex", "linalg_ldl_solve", "special_of_one"),
        "the CPU computes it",
    ),
    **dict.fromkeys(("linalg_matrix_exp", "matrix_exp"), "the degrees are chosen by the host, by the matrices' norms"),
    "gradient": "a list is an argument",
    "spline_coefficients": "CuPy's function copies the poles of its filter",
}


@pytest.fixture
def host() -> Any:
    process = ctypes.CDLL(None)
    if not hasattr(process, "cupyhost_uploads"):
        pytest.skip("a GPU's waits and copies are not counted; the rig's are")
    process.cupyhost_waits.restype = process.cupyhost_uploads.restype = ctypes.c_longlong
    return process


class WaitsAndCopies(Waits):
    """How often each part of an operation waited, and how often memory of the host was copied to the device."""

    def __init__(self, host: Any) -> None:
        super().__init__("cuda", lambda: Counter(waits=host.cupyhost_waits()))
        self.host, self.copies = host, Counter[str]()

    def measure(self, part: str, work: Callable[[], Any]) -> Any:
        copies = 0

        def counted() -> Any:
            nonlocal copies
            before = self.host.cupyhost_uploads()
            result = work()
            copies = self.host.cupyhost_uploads() - before  # of the second time, once what is kept is there
            return result

        result = super().measure(part, counted)
        self.copies[part] += copies
        return result


@pytest.mark.parametrize("name", [*NAMES, "linalg_svd", "svd"])
@pytest.mark.filterwarnings("ignore")
def test_what_waits(host: Any, name: str) -> None:
    """No operation waits or copies, in any of its derivatives, but those that are listed; and those that wait tell."""
    waits = WaitsAndCopies(host)
    with np.errstate(all="ignore"):
        for case in cases_of(name):
            waits.of(case)
    if name not in KNOWN:
        assert waits.counts.keys() <= ({"forward", "forward mode"} if OPS[name].data_dependent else set())
    if name not in COPIES:
        assert not +waits.copies, f"{name} copies to the device: {+waits.copies}"
