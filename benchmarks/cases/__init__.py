"""What is timed: importing the modules below fills the table of cases."""

from benchmarks.cases import (
    arrays,
    decompositions,
    everyday,
    higher_order,
    layers,
    lookup,
    matrices,
    optimisers,
    sequences,
    small,
    training,
    untuned,
    watching,
)
from benchmarks.cases.base import GROUPS, Case, every_case

__all__ = [
    "GROUPS",
    "Case",
    "arrays",
    "decompositions",
    "every_case",
    "everyday",
    "higher_order",
    "layers",
    "lookup",
    "matrices",
    "optimisers",
    "sequences",
    "small",
    "training",
    "untuned",
    "watching",
]
