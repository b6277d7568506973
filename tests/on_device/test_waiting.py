"""What makes the host wait for the device, counted where the library of the device is the rig's, tells that it does."""

from __future__ import annotations

import ctypes
from collections import Counter
from typing import Any

import numpy as np
import pytest

from gradcore.ops.table import OPS
from tests.cuda.test_waiting import KNOWN, Waits, cases_of
from tests.on_device.test_operations import NAMES


@pytest.fixture
def host() -> Any:
    process = ctypes.CDLL(None)
    if not hasattr(process, "cupyhost_waits"):
        pytest.skip("a GPU's waits are not counted; the rig's are")
    process.cupyhost_waits.restype = ctypes.c_longlong
    return process


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_what_waits(host: Any, name: str) -> None:
    """No operation waits, in any of its derivatives, but those that are listed; and these tell."""
    waits = Waits("cuda", lambda: Counter(waits=host.cupyhost_waits()))
    with np.errstate(all="ignore"):
        for case in cases_of(name):
            waits.of(case)
    if name not in KNOWN:
        assert waits.counts.keys() <= ({"forward", "forward mode"} if OPS[name].data_dependent else set())
