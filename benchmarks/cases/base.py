"""What is timed: one class a case, which writes the same work once for every kind of library.

`torch_style` and `numpy_style` compute a loss, which the library differentiates with respect to `parameters`.
`by_hand` is forward and backward on raw arrays as a person would write them; in float64 it is the reference
too. A library with a better idiom for the same work has a style of its own (``jax_style``). Every subclass is
measured: to define it is enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

Arrays = tuple[np.ndarray, ...]


class Case(ABC):
    """A piece of work in one size.

    Parameters
    ----------
    size : int
        Grows with the work; what it counts is the case's own affair.
    """

    group: ClassVar[str]
    sizes: ClassVar[tuple[int, ...]]
    large_sizes: ClassVar[tuple[int, ...]] = ()
    """Left out of quick runs."""
    tolerance: float = 3e-4
    """Largest accepted ``norm(error) / norm(reference)`` of a float32 result."""
    learning_rate: ClassVar[float] = 0.0
    """Not zero: a step of gradient descent belongs to the work; too small to change a float32 parameter."""
    counts_nodes: ClassVar[bool] = False
    """Whether `size` is the number of nodes in the graph, so that a time per node means something."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __init_subclass__(cls) -> None:
        CASES.append(cls)

    @property
    def name(self) -> str:
        """The case and its size, as in ``TanhSum-100``."""
        return f"{type(self).__name__}-{self.size}"

    def reason_to_skip(self, library: str, device: str) -> str | None:
        """Say why `library` does not run this case on `device`, or None."""
        return None

    def arrays(self) -> tuple[Arrays, Arrays]:
        """Make the parameters, which are differentiated, and the constants; every call makes the same.

        The styles receive both, in this order.
        """
        return self.inputs(np.random.default_rng(self.size))

    @abstractmethod
    def inputs(self, random: np.random.Generator) -> tuple[Arrays, Arrays]:
        """Draw the parameters and the constants."""

    @abstractmethod
    def torch_style(self, T: Any, *tensors: Any) -> Any:
        """Return the loss, with `T` as PyTorch's namespace."""

    @abstractmethod
    def numpy_style(self, np: Any, *arrays: Any) -> Any:
        """Return the loss, with `np` as a NumPy that can be differentiated."""

    @abstractmethod
    def by_hand(self, xp: Any, *arrays: Any) -> tuple[Any, Sequence[Any]]:
        """Return the loss and the gradients of the parameters, with `xp` as NumPy or CuPy."""


CASES: list[type[Case]] = []
GROUPS = ("tiny", "deep", "elementwise", "reductions", "broadcasting", "indexing", "matmul", "models")


def every_case(quick: bool = False) -> list[Case]:
    """Return every case in every size, or only in the smaller sizes, ordered by group."""
    cases = [case(size) for case in CASES for size in case.sizes + (() if quick else case.large_sizes)]
    return sorted(cases, key=lambda case: GROUPS.index(case.group))


def normal(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Return float32 numbers of both signs."""
    return random.standard_normal(shape, dtype=np.float32)


def positive(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Return float32 numbers between 0.1 and 1: sums of them do not cancel."""
    return random.uniform(0.1, 1, shape).astype(np.float32)
