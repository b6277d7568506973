"""Tests of the static types of arrays: they name nothing that NumPy's arrays and namespace do not have."""

from __future__ import annotations

import numpy as np
import pytest

from gradcore.core import arrays, typing

#: Names that every class or protocol has.
OWN = set(dir(type("Empty", (arrays.Protocol,), {}))) - {"__eq__", "__ne__"}


@pytest.mark.parametrize(("protocol", "library"), [(arrays.Array, np.ndarray), (arrays.Namespace, np)])
def test_types_name_only_what_numpy_has(protocol: type, library: object) -> None:
    names = {name for name in dir(protocol) if name not in OWN and name != "__non_callable_proto_members__"}
    assert len(names) > 70
    assert not [name for name in names if not hasattr(library, name)]


def test_no_alias_has_the_name_of_a_protocol() -> None:
    assert not set(typing.__all__) & set(arrays.__all__)
