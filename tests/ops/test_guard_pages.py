"""Nothing reads or writes beyond an operand: it would meet a protected page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARES = 4

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages are protected by Linux's mprotect")


def ran(code: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *code], capture_output=True, text=True, cwd=ROOT, timeout=500)


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_no_access_beyond_operands(share: int) -> None:
    done = ran(["-m", "tests.ops.guarded", str(share), str(SHARES)])
    *_, last = done.stdout.splitlines() or [""]
    assert done.returncode == 0, f"{last}\n{done.stderr[-3000:]}"
    assert last.startswith("calls:")
    assert int(last.split()[1]) > 500


def test_the_page_is_protected() -> None:
    read = "from tests.ops.guarded import guarded; import numpy as np; a = guarded(np.ones(3)); "
    done = ran(["-c", read + "print(a.sum(), flush=True); print(np.lib.stride_tricks.as_strided(a, (4,))[3])"])
    assert done.stdout.split() == ["3.0"]
    assert done.returncode < 0
