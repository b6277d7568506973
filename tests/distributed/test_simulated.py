"""What a rank among many sends and keeps does not grow with their number."""

from __future__ import annotations

import pytest

from tests.distributed.simulated import LAYERS, WIDTH, simulate

#: Bytes of the parameters.
MODEL = 4 * LAYERS * (WIDTH * WIDTH + WIDTH)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 64, 1000])
def test_a_rank_among_many(size: int) -> None:
    found = simulate(size)
    share = (size - 1) / size
    assert found["DDP step"]["calls"] == found["DDP step"]["comparisons"] <= 3
    assert found["DDP step"]["KB sent"] * 1e3 == pytest.approx(2 * share * MODEL, rel=1e-3)  # and what is compared
    assert found["FSDP step"]["calls"] == found["FSDP step"]["comparisons"] == 3 * LAYERS
    assert found["FSDP step"]["KB sent"] * 1e3 == pytest.approx(3 * share * MODEL, rel=0.05)  # parts are padded
    assert found["FSDP step"]["KB kept"] * 1e3 == pytest.approx(3 * MODEL / size, rel=0.05)
    assert found["checkpoint save"]["calls"] <= 2
    assert found["checkpoint save"]["KB sent"] < 0.1 * size
    assert found["checkpoint save"]["KB index"] < 6
    assert found["checkpoint load"]["calls"] == 0
    assert max(values["KB peak"] for values in found.values()) < 10e3
