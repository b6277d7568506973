"""The cases under pytest-benchmark: ``pytest benchmarks --benchmark-only``.

To compare libraries with one another use ``python -m benchmarks.compare``, which measures them in turns.
"""

import functools

import pytest

from benchmarks import compare, rates
from benchmarks.cases import every_case
from benchmarks.libraries import LIBRARIES, QUICK, Library, UnavailableError
from benchmarks.measure import check
from benchmarks.workers import results

# Warnings of the other libraries are not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")


@functools.cache
def opened(name: str, device: str) -> Library | str:
    """Return the library, or the reason why it cannot be had."""
    try:
        return LIBRARIES[name](device)
    except UnavailableError as error:
        return str(error)


def programs() -> list:
    """Every case with every library that has a program for it, on every device."""
    return [
        pytest.param(case, name, device, id=f"{case.name}-{name}-{device}")
        for case in every_case(quick=True)
        for name in QUICK
        if name not in ("gradcore-numpy", "gradcore-compile-numpy")  # in one process, what the others are
        for device in LIBRARIES[name].devices
        if case.reason_to_skip(name, device) is None and LIBRARIES[name].has_program(case)
    ]


@pytest.mark.parametrize(("case", "library", "device"), programs())
def test_case(benchmark, case, library, device):
    """Check the loss and the gradients, then time forward and backward."""
    ready = opened(library, device)
    if isinstance(ready, str):
        if (library, device) == ("gradcore", "cpu"):
            pytest.fail(ready)
        pytest.skip(f"{library} on {device}: {ready}")
    benchmark.group = f"{case.group}: {case.name}"
    program = ready.prepare(case, case.arrays())
    check(case, results(ready, program.outputs()))

    def work() -> None:
        ready.wait(program.run())

    benchmark(work)


def test_an_unknown_library_is_named_with_those_that_there_are():
    with pytest.raises(SystemExit, match=r"no such library: jax.jit; there are .*\bjax\b"):
        compare.compare(compare.parse(["--libraries", "torch,jax.jit"]))


def test_rates_are_shown_as_shares_of_a_copy():
    table = rates.table({"avx2": {"copy": 8e10, "softmax": 1e10}, "baseline": {}})
    assert table.splitlines()[2:] == ["| copy | 80 (1.00) | not built |", "| softmax | 10 (.12) | not built |"]


def test_an_unknown_variant_is_named_with_those_that_there_are():
    with pytest.raises(SystemExit, match=r"no such variant: sse; there are "):
        rates.main(["--variants", "sse"])
