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

from tests import changed, devices, joined
from tests.joined import pytest_pyfunc_call, pytest_terminal_summary  # noqa: F401  (hooks of pytest)

# For type checkers, for a rig with CuPy, or a program that says `import torch`: not modules of tests.
collect_ignore = [
    "distributed/nccl_stand_in.py",
    "distributed/tutorials.py",
    "programs/character_model.py",
    "typing/results.py",
    "typing/usage.py",
]

# Property-based tests draw the same examples in every run, so that a red test is red for the next person too.
# HYPOTHESIS_PROFILE=explore draws new ones, and more of them.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


#: Of a function with more cases than this, the sample takes one in `SHARE`; of one marked `sampled(n)`, one in `n`; and
#: none of those marked slow.
MANY, SHARE = 8, 8

#: Tests that compare a device with the CPU: without a device there is nothing that they could run.
ON_DEVICE = Path(__file__).parent / "on_device"

#: Node ids of cases that were made only because pytest needs one.
UNWANTED = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", choices=("cpu", "cuda"), help="where tensors are made; see devices.py")
    parser.addoption("--sample", default=1, type=int, help="one of so many tests, slow ones on the CPU left out")
    parser.addoption(
        "--whole", action="store_true", help="slow tests and all generated cases, also where no path is given"
    )
    parser.addoption("--rest", action="store_true", help="what is no part of the sample")
    parser.addoption(
        "--changed", nargs="?", const="HEAD", metavar="COMMIT", help="what concerns the changes since a commit"
    )
    parser.addoption("--seed", default=0, type=int, help="draws another sample of generated cases")


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    return devices.in_rig(config) if config.getoption("device") == "cuda" else None


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # The workers sort modules, see `_put_long_modules_first`.
    base = config.getoption("changed")
    if base is not None:
        config.stash[changed.SELECTION] = changed.Selection(base)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path == ON_DEVICE and _lacks_device(config) else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    with devices.collecting(collector) if collector.config.getoption("device") == "cuda" else contextlib.nullcontext():
        return (yield)


def _lacks_device(config: pytest.Config) -> bool:
    """Return whether a run that names no path is on the CPU. It leaves `ON_DEVICE` out, and says so in its header."""
    return config.getoption("device") == "cpu" and config.args == config.getini("testpaths")


def _is_sampled(config: pytest.Config) -> bool:
    """Return whether this run takes the sample, or with ``--rest`` what the sample leaves out."""
    return config.getoption("rest") or (config.args == config.getini("testpaths") and not config.getoption("whole"))


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, Any, Any]:
    """Drop the cases that this run leaves out before pytest makes items of them.

    An item costs some 300 us and 8 kB in each worker, and most of the 100,000 are never run.
    """
    result = yield
    calls = metafunc._calls
    if metafunc.config.getoption("device") == "cuda" or metafunc.config.getoption("sample") > 1:
        chosen = [call for call in calls if devices.is_drawn(metafunc.definition, _nodeid(metafunc, call))]
    elif _is_sampled(metafunc.config):
        chosen = _choose(metafunc, calls)
    else:
        return result
    if calls and not chosen:
        # Without any case pytest would make one item without arguments, so one case stays until collection ends.
        metafunc.config.stash.setdefault(UNWANTED, set()).add(_nodeid(metafunc, calls[0]))
        chosen = calls[:1]
    elif _is_sampled(metafunc.config):
        chosen = joined.join(metafunc, chosen, _nodeid(metafunc))
    metafunc._calls = chosen
    return result


def _nodeid(metafunc: pytest.Metafunc, call: Any = None) -> str:
    """Return the node id of a function, or of the item that pytest will make of one of its cases."""
    function = f"{metafunc.definition.parent.nodeid}::{metafunc.definition.name}"
    return function if call is None else f"{function}[{call.id}]"


def _choose(metafunc: pytest.Metafunc, calls: list[Any]) -> list[Any]:
    """Return the cases of a function that are in the sample, or with ``--rest`` the others."""
    seed, rest = metafunc.config.getoption("seed"), metafunc.config.getoption("rest")
    selection = metafunc.config.stash.get(changed.SELECTION, None)
    slow = metafunc.definition.get_closest_marker("slow") is not None
    sampled = metafunc.definition.get_closest_marker("sampled")
    share = sampled.args[0] if sampled else SHARE if len(calls) > MANY else 1
    # The cases with the smallest checksums: at least one, and the same ones in every run with this seed.
    drawn = sorted(calls, key=lambda call: zlib.crc32(f"{seed}{_nodeid(metafunc, call)}".encode()))
    in_sample = {id(call) for call in drawn[: -(-len(calls) // share)]}

    def is_left_out(call: Any) -> bool:
        if slow or any(mark.name == "slow" for mark in call.marks):
            return True
        wanted = selection.is_wanted(metafunc.definition.path, call.id) if selection else None
        return not wanted if wanted is not None else id(call) not in in_sample

    return [call for call in calls if is_left_out(call) == rest]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    unwanted, sampled, rest = config.stash.get(UNWANTED, set()), _is_sampled(config), config.getoption("rest")

    def is_wanted(item: pytest.Item) -> bool:
        if config.getoption("sample") > 1 and not devices.is_drawn(item, item.nodeid):
            return False
        if config.getoption("sample") > 1 and item.get_closest_marker("slow") is not None:
            return config.getoption("device") == "cuda"
        if hasattr(item, "callspec"):  # decided by `pytest_generate_tests`
            return item.nodeid not in unwanted
        return not sampled or (item.get_closest_marker("slow") is not None) == rest

    if config.getoption("device") == "cuda":
        devices.choose(config, items)
    else:
        config.hook.pytest_deselected(items=[item for item in items if not is_wanted(item)])
    items[:] = [item for item in items if is_wanted(item)]
    if selection := config.stash.get(changed.SELECTION, None):
        left_out = set(selection.list_left_out(items))
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]
    if hasattr(config, "workerinput"):
        _put_long_modules_first(config, items)


def _put_long_modules_first(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort items by module, those that take longest first, so that no worker waits for another one's last module.

    A test marked slow counts as much as 200 cases. The order does not depend on that of collection.
    """
    cases, weights = config.stash.get(joined.CASES, {}), Counter[Path]()
    for item in items:
        slow = item.get_closest_marker("slow") is not None
        weights[item.path] += len(cases.get(item.nodeid, (item,))) * (200 if slow else 1)
    items.sort(key=lambda item: (-weights[item.path], item.path, isinstance(item, pytest.DoctestItem)))


@pytest.fixture(autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where tensors are made unless a test says otherwise."""
    name = request.config.getoption("device")
    if name == "cpu" or request.node.get_closest_marker("cuda"):
        yield name
        return
    with devices.tensors_on(name):
        yield name


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the versions on which a result can depend."""
    found = []
    for name in ("numpy", "scipy", "cupy-cuda12x", "cupy-cuda13x", "torch"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    lines = ["libraries: " + ", ".join(found)]
    if _lacks_device(config):
        lines.append("left out: tests/on_device, which compares CUDA with the CPU (pytest --device cuda)")
    return lines


@pytest.fixture(scope="session")
def _strict_backend() -> None:
    from gradcore.backends import register
    from tests.strict.device import StrictBackend

    register("strict", StrictBackend)


@pytest.fixture
def strict(_strict_backend: None) -> str:
    """Return a device that is as strict as CUDA or stricter. `tests.strict.device.COUNTS` counts its transfers."""
    from tests.strict.device import COUNTS

    COUNTS.clear()
    return "strict:0"
