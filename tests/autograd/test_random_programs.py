"""Random programs of operations, views and writes in place, against a reference interpreter without any graph."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.autograd.programs import DTYPES, KINDS, MODES, SHAPES, draw

NUMBER = st.integers(0, 99)
STEP = st.tuples(st.sampled_from(KINDS), NUMBER, NUMBER, NUMBER, st.booleans() | st.just(False))
LEAF = st.tuples(st.integers(0, len(SHAPES) - 1), st.integers(0, len(DTYPES) - 1), st.booleans())
PROGRAM = st.tuples(st.lists(LEAF, min_size=1, max_size=3), st.lists(STEP))


@pytest.mark.sampled(24)
@pytest.mark.parametrize("mode", MODES)
@given(program=PROGRAM)
def test_programs(mode, program):
    MODES[mode](program)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("block", range(4))
def test_drawn_programs(mode, block):
    """The same programs in every run; `tests.autograd.programs` draws as many as one likes."""
    compared = sum(MODES[mode](draw(seed)) for seed in range(25 * block, 25 * block + 25))
    assert compared > 2
