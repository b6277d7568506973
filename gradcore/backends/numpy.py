"""The CPU: NumPy."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gradcore.backends import philox
from gradcore.backends.base import Backend

__all__ = ["NumpyBackend"]


class NumpyBackend(Backend):
    """NumPy arrays on the CPU."""

    type: ClassVar[str] = "cpu"

    def __init__(self) -> None:
        super().__init__(np, np.ndarray)
        self.asarray = np.asarray

    @property
    def special(self) -> Any:
        """scipy.special, imported when first used."""
        import scipy.special

        return scipy.special

    def from_host(self, array: Any) -> Any:
        return array

    def scalar(self, value: complex, dtype: Any) -> Any:
        return np.asarray(value, dtype)

    def random_words(self, n: int, key: int, counter: int) -> philox.WordStream:
        return philox.WordStream(n, key, counter)  # computed in tiles that stay in cache
