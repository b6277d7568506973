"""No kernel and no product of matrices touches memory beyond its arrays: beside them are pages that are protected."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest

from gradcore.backends.compiled.library import variant_name
from gradcore.backends.compiled.variants import FOLDER, Variant, choose_variant, variants_of_machine
from tests.compiled.apart import COMPARED, WATCHED, WHOLE, run, store_library

#: Those after the best one for a CPU need less of it.
VARIANTS = variants_of_machine()
#: Reads four bytes at some distance from the beginning of an array.
READ = """
import ctypes
import tests.compiled.guard_pages
import numpy as np
x = np.arange(100, dtype="f4")
assert x.sum() == 4950
ctypes.string_at(x.ctypes.data + {offset}, 4)
"""
#: Writes a byte there, and frees the array.
WRITE = """
import ctypes
import tests.compiled.guard_pages
import numpy as np
x = np.empty(100, dtype="f4")
ctypes.memset(x.ctypes.data + {offset}, 0, 1)
del x
"""


@pytest.fixture(autouse=True)
def _needs_compiler() -> None:
    if sys.platform != "linux" or shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("there is no C compiler, or not Linux")


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    ("guard", "offset", "ends"),
    [("end", 396, 0), ("end", 400, -signal.SIGSEGV), ("start", 0, 0), ("start", -4, -signal.SIGSEGV)],
)
def test_an_access_beyond_an_array_is_noticed(guard: str, offset: int, ends: int) -> None:
    done = run("-c", READ.format(offset=offset), GUARD=guard)
    assert done.returncode == ends, done.stderr


@pytest.mark.parametrize(("guard", "offset"), [("end", -1), ("start", 400)])
def test_a_write_to_the_rest_of_a_page_is_noticed(guard: str, offset: int) -> None:
    done = run("-c", WRITE.format(offset=offset), GUARD=guard)
    assert done.returncode == -signal.SIGABRT
    assert "memory beside an array of 400 bytes was written to" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("guard", ["end", "start"])
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_kernels_stay_within_their_arrays(tmp_path: Path, variant: Variant, guard: str) -> None:
    """Run the tests of kernels beside protected pages, with each of the package's libraries that this CPU runs."""
    packaged, best = Path(FOLDER, variant_name(variant)), choose_variant()
    if not packaged.exists() or best is None or VARIANTS.index(variant) < VARIANTS.index(best):
        pytest.skip(f"the package has no library for {variant.name}, or the CPU does not run it")
    path = store_library(packaged.read_bytes(), tmp_path / "cache")
    done = run(*COMPARED, GUARD=guard, EVERY="37", GRADCORE_TEST_LIBRARY=str(path.parent))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
    assert f"kernels of {path}\n" in done.stdout


@pytest.fixture
def _needs_breakpoints() -> None:
    if platform.machine() != "x86_64" or shutil.which("nm") is None:
        pytest.skip("breakpoints are those of x86-64, and nm reads what the library exports")


@pytest.mark.slow
@pytest.mark.usefixtures("_needs_breakpoints")
def test_functions_that_never_ran_are_named() -> None:
    done = run(*WATCHED, "tests/compiled/test_ctc.py")
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-3000:]
    assert "never ran: gradcore_lstm_f" in done.stdout
    assert "never ran: gradcore_ctc_f" not in done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("_needs_breakpoints")
def test_every_function_stays_within_its_arrays() -> None:
    """Each function of the library is seen to run: kernels of all dtypes, loops, and what they are made of."""
    done = run(*WATCHED, *WHOLE, GUARD="end")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    said = re.search(r"(\d+) functions were watched, (\d+) ran", done.stdout)
    assert said is not None
    assert said[1] == said[2]
    assert int(said[1]) > 400
