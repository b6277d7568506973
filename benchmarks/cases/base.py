"""What is timed: one class a case, which writes the same work once for every kind of library.

A case needs `inputs` and `torch_style`; PyTorch and gradcore run that same source. The others take part where the case
has something for them: `numpy_style` (HIPS autograd, and JAX unless there is a `jax_style`), and `by_hand` (NumPy and
CuPy), which is forward and backward on raw arrays as a person would write them. To define a subclass is enough; one
with ``abstract=True`` is the base of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

Arrays = tuple[np.ndarray, ...]


class Case:
    """A piece of work in one size.

    Parameters
    ----------
    size : int
        Grows with the work; what it counts is the case's own affair.
    """

    group: ClassVar[str]
    sizes: ClassVar[tuple[int, ...]] = ()
    large_sizes: ClassVar[tuple[int, ...]] = ()
    """Left out of quick runs."""
    tolerance: float = 3e-4
    """Largest accepted ``norm(error) / norm(reference)`` of a float32 result."""
    differentiated: ClassVar[bool] = True
    """Whether the styles return a loss, of which the library takes the gradients; else they return all results."""
    learning_rate: ClassVar[float] = 0.0
    """Not zero: a step of gradient descent belongs to the work; too small to change a float32 parameter."""
    counts_nodes: ClassVar[bool] = False
    """Whether `size` is the number of nodes in the graph, so that a time per node means something."""
    skips: ClassVar[dict[str, str]] = {}
    """Why libraries or devices cannot run it, by their names."""
    flops: float = 0.0
    """Floating-point operations of its matrix products, forward and backward."""

    #: For NumPy and its like, for JAX, and on raw arrays: methods of cases that have them.
    numpy_style: Any = None
    jax_style: Any = None
    by_hand: Any = None
    #: ``jax_setup(jax, arrays)`` returns what does the work, where that is more than a function.
    jax_setup: Any = None

    def __init__(self, size: int) -> None:
        self.size = size

    def __init_subclass__(cls, abstract: bool = False) -> None:
        if not abstract:
            CASES.append(cls)

    @property
    def name(self) -> str:
        """The case and its size, as in ``TanhSum-100``."""
        return f"{type(self).__name__}-{self.size}"

    def reason_to_skip(self, library: str, device: str) -> str | None:
        """Say why `library` does not run this case on `device`, or None."""
        return self.skips.get(library) or self.skips.get(device)

    def arrays(self) -> tuple[Arrays, Arrays]:
        """Make the parameters, which are differentiated, and the constants; every call makes the same.

        The styles receive both, in this order.
        """
        return self.inputs(np.random.default_rng(self.size))

    def inputs(self, random: np.random.Generator) -> tuple[Arrays, Arrays]:
        """Draw the parameters and the constants."""
        raise NotImplementedError

    def torch_style(self, T: Any, *tensors: Any) -> Any:
        """Return the loss, or all results, with `T` as PyTorch's namespace."""
        raise NotImplementedError

    def torch_setup(self, T: Any, tensors: Sequence[Any]) -> Any:
        """Return what does the work, or None: then it is `torch_style`, differentiated."""
        return None

    @property
    def traffic(self) -> int:
        """The least number of bytes that have to be moved: inputs are read, and gradients written, once."""
        parameters, constants = self.arrays()
        return sum((1 + self.differentiated) * p.nbytes for p in parameters) + sum(c.nbytes for c in constants)


CASES: list[type[Case]] = []
GROUPS = (
    "tiny", "deep", "fan-out", "recurrent", "elementwise", "reductions", "broadcasting", "matmul", "layers",
    "attention", "convolution", "indexing", "sorting", "fourier", "linear algebra", "higher order", "mlp step",
    "cnn step", "transformer step", "recurrent layers", "optimisers", "untuned", "anomaly mode", "transfers",
)  # fmt: skip


def every_case(quick: bool = False) -> list[Case]:
    """Return every case in every size, or only in the smaller sizes, ordered by group."""
    cases = [case(size) for case in CASES for size in case.sizes + (() if quick else case.large_sizes)]
    return sorted(cases, key=lambda case: GROUPS.index(case.group))


def normal(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Return float32 numbers of both signs."""
    return random.standard_normal(shape, dtype=np.float32)


def positive(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Return float32 numbers between 0.1 and 1: sums of them do not cancel."""
    return np.asarray(random.uniform(0.1, 1, shape), np.float32)


def weights(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Return float32 numbers that keep the size of what is multiplied with them, over all dims but the first."""
    return normal(random, *shape) * np.float32(np.prod(shape[1:]) ** -0.5)
