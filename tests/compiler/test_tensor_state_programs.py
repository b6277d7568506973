"""A sample of the random programs of `tests.compiler.tensor_state_programs`: no change of tensors is missed."""

from __future__ import annotations

import pytest

from tests.compiler import tensor_state_programs


@pytest.mark.unverified("programs that are verified themselves are among them")
@pytest.mark.sampled(8)
@pytest.mark.parametrize("part", range(8))
def test_no_change_of_tensors_is_missed(part: int) -> None:
    for seed in range(20 * part, 20 * part + 20):
        assert not tensor_state_programs.check(tensor_state_programs.draw(seed)), seed
