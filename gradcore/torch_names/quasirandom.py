"""Quasirandom points, which fill a cube more evenly than random points, as in ``torch.quasirandom``."""

from __future__ import annotations

from gradcore.core import dtypes
from gradcore.tensor import Tensor
from gradcore.tensor.creation import from_numpy
from gradcore.tensor.random import randint
from gradcore.torch_names import paths

__all__ = ["SobolEngine"]


class SobolEngine:
    """Sobol's sequence in the unit cube, made by `scipy.stats.qmc.Sobol`.

    Parameters
    ----------
    dimension : int
        The number of dims of the cube, at most 21201.
    scramble : bool
        Whether the sequence is scrambled (a random linear map and a random shift, after Matousek).
    seed : int, optional
        Seed of the scrambling; by default drawn from gradcore's generator.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.quasirandom.SobolEngine(2).draw(4)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500],
            [0.2500, 0.7500]])
    """

    #: The most bits of a coordinate, and the most dims.
    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        from scipy.stats import qmc

        scramble_seed = int(randint(2**31 - 1, ())) if scramble and seed is None else seed
        self._sequence = qmc.Sobol(dimension, scramble=scramble, bits=self.MAXBIT, rng=scramble_seed if scramble else 0)

    @property
    def num_generated(self) -> int:
        """Number of points drawn or skipped."""
        return int(self._sequence.num_generated)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: dtypes.dtype | None = None) -> Tensor:
        """Return the next points, one in each row.

        Parameters
        ----------
        n : int
        out : Tensor, optional
            Tensor to write the points to.
        dtype : dtype, optional
            By default that of new tensors.
        """
        import warnings

        with warnings.catch_warnings():
            # SciPy warns if the number of points is no power of two.
            warnings.simplefilter("ignore", UserWarning)
            points = from_numpy(self._sequence.random(n)).to(dtype or dtypes.get_default_dtype())
        return points if out is None else out.resize_(points.shape).copy_(points)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: dtypes.dtype | None = None) -> Tensor:
        """Return the next ``2**m`` points, after which the number of points has to be a power of two again."""
        n, total = 2**m, self.num_generated + 2**m
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points "
                f"have been previously generated, then: n={self.num_generated}+2**{m}={total}. If you still want to do "
                "this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Reset the sequence to its first point."""
        self._sequence.reset()
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip the next `n` points."""
        if n:
            self._sequence.fast_forward(n)
        return self

    def __repr__(self) -> str:
        settings = [f"dimension={self.dimension}"]
        settings += ["scramble=True"] if self.scramble else []
        settings += [f"seed={self.seed}"] if self.seed is not None else []
        return f"SobolEngine({', '.join(settings)})"


paths.show_public(__name__)
