"""The cases under pytest-benchmark: ``pytest benchmarks --benchmark-only``.

To compare libraries with one another use ``python -m benchmarks.compare``, which measures them in turns.
"""

import functools

import pytest

from benchmarks.cases import every_case
from benchmarks.libraries import DEFAULT, LIBRARIES, Library, UnavailableError
from benchmarks.measure import check

# Warnings of the other libraries are not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")


@functools.cache
def opened(name: str, device: str) -> Library | str:
    """Return the library, or the reason why it cannot be had."""
    try:
        return LIBRARIES[name](device)
    except UnavailableError as error:
        return str(error)


@pytest.mark.parametrize(
    ("library", "device"), [(name, device) for name in DEFAULT for device in LIBRARIES[name].devices]
)
@pytest.mark.parametrize("case", every_case(quick=True), ids=lambda case: case.name)
def test_case(benchmark, case, library, device):
    """Check the loss and the gradients, then time forward and backward."""
    if reason := case.reason_to_skip(library, device):
        pytest.skip(reason)
    ready = opened(library, device)
    if isinstance(ready, str):
        if (library, device) == ("gradcore", "cpu"):
            pytest.fail(ready)
        pytest.skip(f"{library} on {device}: {ready}")
    benchmark.group = f"{case.group}: {case.name}"
    program = ready.prepare(case)
    check(ready, case, program)

    def work() -> None:
        ready.wait(program.run())

    benchmark(work)
