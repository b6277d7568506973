"""Numbers that no size, length, count, offset or index can be are refused before memory or time goes into them."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import gradcore as gc
from tests.ops import hostile_numbers

F = gc.nn.functional


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_every_operation_answers_at_once() -> None:
    """In a process of its own with little memory and a limit of time for each call."""
    command = [sys.executable, "-m", "tests.ops.hostile_numbers"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(command, capture_output=True, text=True, env=env)
    lines = run.stdout.strip().splitlines()
    assert lines, run.stderr
    assert lines[-1].startswith("done "), f"the last call neither returned nor raised: {lines[-1]}"
    assert not [line for line in lines if line.startswith("WRONG")]


#: Calls whose results wrapped around, or took memory and time in proportion to the number.
REFUSED: dict[str, Callable[[int], Any]] = {
    "bincount": lambda n: gc.bincount(gc.tensor([n])),
    "adaptive_avg_pool1d": lambda n: F.adaptive_avg_pool1d(gc.ones(1, 1, 9), n),
    "adaptive_max_pool2d": lambda n: F.adaptive_max_pool2d(gc.ones(1, 9, 9), (n, 2)),
    "area": lambda n: F.interpolate(gc.ones(1, 2, 3, 3), (n, 3), mode="area"),
    "avg_pool1d": lambda n: F.avg_pool1d(gc.ones(1, 1, 9), n, padding=n // 2, stride=1),
    "lp_pool2d": lambda n: F.lp_pool2d(gc.ones(1, 1, 9, 9), 2.0, n),
    "max_unpool2d": lambda n: F.max_unpool2d(gc.ones(1, 1, 1), gc.zeros(1, 1, 1, dtype=gc.int64), n),
    "one_hot": lambda n: F.one_hot(gc.tensor([n])),
    "permute": lambda n: gc.ones(2, 3, 4).permute(1, n, 2),
    "replicate": lambda n: F.pad(gc.ones(1, 2, 3), (n, 0), "replicate"),
    "affine_grid": lambda n: F.affine_grid(gc.ones(1, 2, 3), (1, 1, n, n), False),
    "combinations": lambda n: gc.combinations(gc.arange(100), n % 60 + 30),
    "combinations with replacement": lambda n: gc.combinations(gc.arange(100), n, with_replacement=True),
    "diag": lambda n: gc.ones(3).diag(n),
    "tensor_split": lambda n: gc.tensor_split(gc.ones(4), n),
    "chunk": lambda n: gc.ones(0).chunk(n),
    "mvlgamma": lambda n: gc.mvlgamma(gc.ones(1), n),
    "tril_indices": lambda n: gc.tril_indices(n, n),
    "stft": lambda n: gc.stft(gc.ones(9), n_fft=n, return_complex=True),
    "ctc_loss": lambda n: F.ctc_loss(
        gc.zeros(5, 2, 4), gc.ones(2, 3, dtype=gc.int64), gc.tensor([5, 5]), gc.tensor([3, n])
    ),
}


@pytest.mark.parametrize("number", [2**40, 2**62, 2**63 - 1])
def test_large_numbers_are_refused(number: int) -> None:
    for name, call in REFUSED.items():
        try:
            result = call(number)
        except (RuntimeError, IndexError):
            continue
        pytest.fail(f"{name}: {type(result)} of {getattr(result, 'shape', len(result))}")


@pytest.mark.parametrize(
    "call",
    [
        lambda i: gc.sparse_coo_tensor(gc.tensor([[i]]), gc.ones(1)),
        lambda i: gc.sparse_csr_tensor(gc.tensor([0, 1]), gc.tensor([i]), gc.ones(1)),
    ],
)
def test_sizes_of_sparse_tensors_are_integers_of_64_bits(call: Callable[[int], Any]) -> None:
    assert call(2**62).shape[-1] == 2**62 + 1
    with pytest.raises(RuntimeError, match="less than 2\\*\\*63"):
        call(2**63 - 1)


@pytest.mark.parametrize("offset", [2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**31) + 1, -(2**31), -(2**62), -(2**63)])
def test_diagonals_far_away_are_empty(offset: int) -> None:
    """NumPy reads foreign memory for one of them, and refuses others."""
    x = gc.ones(2, 3, requires_grad=True)
    for of in (gc.diagonal, gc.diag):
        found = of(x, offset)
        assert found.shape == (0,)
        found.sum().backward()
    assert not x.grad.any()
    assert gc.tril(x, offset).sum() == (6 if offset > 0 else 0)
    assert gc.triu(x, offset).sum() == (0 if offset > 0 else 6)
    assert gc.tril_indices(2, 3, offset).shape[1] == (6 if offset > 0 else 0)


@pytest.mark.parametrize("decimals", [309, 2**31, -(2**40)])
def test_digits_that_no_float_has(decimals: int) -> None:
    assert gc.round(gc.tensor([3.25, -1.0]), decimals=decimals).isnan().all()


@pytest.mark.parametrize("offsets", [[0, -1], [0, -(2**40)], [0, 5, 3], [0, 20, 3], [0, 2**40, 2]])
def test_offsets_of_bags_ascend(offsets: list[int]) -> None:
    for mode in ("sum", "mean", "max"):
        with pytest.raises(IndexError, match="ascending order"):
            F.embedding_bag(gc.zeros(10, dtype=gc.int64), gc.ones(10, 4), gc.tensor(offsets), mode=mode)


@pytest.mark.parametrize("index", [2**63 - 1, 2**63, 2**64, 10**30, -(2**63), -(2**63) - 1, -(10**30)])
@pytest.mark.parametrize("shape", [(2,), (2, 3)])
def test_indices_that_no_dim_has(index: int, shape: tuple[int, ...]) -> None:
    for key in (index, (..., index), (gc.tensor([0]), index)[-len(shape) :]):
        for call in (gc.ones(shape).__getitem__, lambda key: gc.ones(shape).__setitem__(key, 1.0)):
            with pytest.raises(IndexError, match="out of bounds for dimension"):
                call(key)


def test_empty_slices_are_not_distinguished() -> None:
    for function in (gc.unique, gc.unique_consecutive):
        assert function(gc.ones(0, 3), dim=0).shape == (0, 3)
        with pytest.raises(RuntimeError, match="they aren't selected"):
            function(gc.ones(3, 0), dim=0)
        with pytest.raises(RuntimeError, match="more than one"):
            function(gc.ones(0, 0), dim=0)


@pytest.mark.parametrize("seed", [2**64, 2**70, 2**127, -(2**63) - 1])
def test_seeds_have_64_bits(seed: int) -> None:
    for seeded in (gc.manual_seed, gc.random.manual_seed, gc.Generator().manual_seed):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            seeded(seed)


def test_combinations_are_counted_right() -> None:
    for size in range(7):
        for r in range(1, 5):
            for again in (False, True):
                choices = math.comb(size + r - 1 if again and size else size, r)
                assert gc.combinations(gc.arange(size), r, again).shape == (choices, r)


def test_every_kind_of_call_is_drawn() -> None:
    labels = [call.label for call in hostile_numbers.calls()]
    assert len(labels) == len(set(labels))
    assert len(labels) > 10_000


def test_long_chains_of_products_cost_little() -> None:
    """The number of Python's steps is counted, as time depends on the machine."""
    matrices = [gc.full((2, 2), 0.5, dtype=gc.float64)] * 120
    steps = 0

    def count(*_: Any) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        product = gc.linalg.multi_dot(matrices)
    finally:
        sys.setprofile(None)
    assert gc.allclose(product, matrices[0])
    assert steps < 20_000


@pytest.mark.parametrize("sizes", [[5, 1, 7, 2, 9, 3], [2, 30, 1, 40, 1], [10, 20, 30, 40, 30]])
def test_chains_are_multiplied_in_the_cheapest_order(sizes: list[int]) -> None:
    from gradcore.backends.portable.host_tables import find_cheapest_order

    def cost(i: int, j: int, choose: Callable[[int, int], Any]) -> int:
        options = [
            cost(i, k, choose) + cost(k + 1, j, choose) + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in choose(i, j)
        ]
        return min(options, default=0)

    split = find_cheapest_order(sizes)
    last = len(sizes) - 2
    chosen = cost(0, last, lambda i, j: [split[i][j]] if i < j else [])
    assert chosen == cost(0, last, lambda i, j: range(i, j))
