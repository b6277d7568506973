"""The first calls of a program: in a process of its own, and in one that finds what an earlier one has compiled.

``python -m benchmarks.starting LIBRARY DEVICE NUMBER`` prints the seconds of the first calls of a case of `CASES`.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from benchmarks.cases.base import Case
from benchmarks.cases.higher_order import RosenbrockHessian
from benchmarks.cases.small import Recurrent, TanhSum
from benchmarks.cases.training import CNNStep, MLPStep, TransformerStep

CASES = (TanhSum(100), MLPStep(64), CNNStep(16), TransformerStep(32), Recurrent(100), RosenbrockHessian(50))
#: By group, whether an earlier process has compiled the program.
GROUPS = {"first calls": False, "second process": True}
#: Calls after which every library has done all that it does once.
CALLS = 3


def first_calls(library: Any, case: Case) -> float:
    """Seconds of the first calls of a case."""
    run = library.prepare(case, case.arrays()).run
    start = time.perf_counter()
    for _ in range(CALLS):
        library.wait(run())
    return time.perf_counter() - start


def main() -> None:
    """Measure one case, in this process."""
    from benchmarks.libraries import LIBRARIES

    name, device, number = sys.argv[1:]
    print(first_calls(LIBRARIES[name](device), CASES[int(number)]))


if __name__ == "__main__":
    main()
