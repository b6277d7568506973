"""What tests of `compile` share where ``GRADCORE_COMPILE_VERIFY=1`` has every call of a program verified."""

from __future__ import annotations

import pytest

from gradcore.core import config as settings


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what cannot be seen where programs are verified; what is not verified need not be told."""
    if not settings.COMPILE_VERIFY:
        return
    for item in items:
        if "tests/compiler/" in item.nodeid:
            item.add_marker(pytest.mark.filterwarnings("ignore:compile.*are not verified:UserWarning"))
            mark = item.get_closest_marker("unverified")
            if mark is not None:
                item.add_marker(pytest.mark.skip(reason=mark.args[0]))
