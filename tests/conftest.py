"""What every test shares."""

import contextlib
import os
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import devices

# For type checkers, for a rig with CuPy, or a program that says `import torch`: not modules of tests.
collect_ignore = [
    "distributed/nccl_stand_in.py",
    "programs/character_model.py",
    "typing/results.py",
    "typing/usage.py",
]

# Property-based tests draw the same examples in every run, so that a red test is red for the next person too.
# HYPOTHESIS_PROFILE=explore draws new ones, and more of them.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


#: Of a function with more cases than this, one in `SHARE` is run where no path is given, and of those marked slow none.
MANY, SHARE = 8, 8


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", choices=("cpu", "cuda"), help="where tensors are made; see devices.py")
    parser.addoption("--sample", default=1, type=int, help="with --device cuda, one of so many tests")
    parser.addoption(
        "--whole", action="store_true", help="slow tests and all generated cases, also where no path is given"
    )
    parser.addoption("--rest", action="store_true", help="what is no part of the sample")
    parser.addoption("--seed", default=0, type=int, help="draws another sample of generated cases")


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    return devices.in_rig(config) if config.getoption("device") == "cuda" else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    on_device = config.getoption("device") == "cuda"
    return True if on_device and devices.is_left_out(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    with devices.collecting(collector) if collector.config.getoption("device") == "cuda" else contextlib.nullcontext():
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("device") == "cuda":
        devices.choose(config, items)
    elif config.getoption("rest") or (config.args == config.getini("testpaths") and not config.getoption("whole")):
        _sample(config, items)


def _sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect slow tests, and most cases of each function with many; with ``--rest`` everything else."""
    of = [item.nodeid.partition("[")[0] for item in items]
    counts = Counter(of)
    seed = config.getoption("seed")
    left_out = [
        item.get_closest_marker("slow") is not None
        or (counts[function] > MANY and zlib.crc32(f"{seed}{item.nodeid}".encode()) % SHARE != 0)
        for item, function in zip(items, of, strict=True)
    ]
    chosen = config.getoption("rest")
    config.hook.pytest_deselected(items=[item for item, out in zip(items, left_out, strict=True) if out != chosen])
    items[:] = [item for item, out in zip(items, left_out, strict=True) if out == chosen]


@pytest.fixture(autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where tensors are made unless a test says otherwise."""
    name = request.config.getoption("device")
    if name == "cpu" or request.node.get_closest_marker("cuda"):
        yield name
        return
    with devices.tensors_on(name):
        yield name


def pytest_report_header(config: pytest.Config) -> str:
    """Name the versions on which a result can depend."""
    found = []
    for name in ("numpy", "scipy", "cupy-cuda12x", "cupy-cuda13x", "torch"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return "libraries: " + ", ".join(found)


@pytest.fixture(scope="session")
def _strict_backend() -> None:
    from gradcore.backends import register
    from tests.strict.device import StrictBackend

    register("strict", StrictBackend)


@pytest.fixture
def strict(_strict_backend: None) -> str:
    """A device that behaves as CUDA does, and stricter; `tests.strict.device.COUNTS` counts its transfers."""
    from tests.strict.device import COUNTS

    COUNTS.clear()
    return "strict:0"
