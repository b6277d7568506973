"""The CPU's backend with compiled kernels."""

from __future__ import annotations

from gradcore.backends.compiled.attention import CompiledAttention
from gradcore.backends.compiled.conversions import CompiledConversions
from gradcore.backends.compiled.convolution import CompiledConvolution
from gradcore.backends.compiled.ctc import CompiledCtc
from gradcore.backends.compiled.factors import CompiledFactors
from gradcore.backends.compiled.fourier import CompiledFourier
from gradcore.backends.compiled.half_reductions import CompiledHalfReductions
from gradcore.backends.compiled.halves import CompiledHalves
from gradcore.backends.compiled.indexing import CompiledIndexing
from gradcore.backends.compiled.matrices import CompiledMatrices
from gradcore.backends.compiled.narrow import CompiledNarrow
from gradcore.backends.compiled.pooling import CompiledPooling
from gradcore.backends.compiled.products import CompiledProducts
from gradcore.backends.compiled.random import CompiledRandom
from gradcore.backends.compiled.recurrent import CompiledRecurrent
from gradcore.backends.compiled.rows import CompiledRows
from gradcore.backends.compiled.sorting import CompiledSorting
from gradcore.backends.compiled.steps import CompiledSteps

__all__ = ["CompiledBackend"]


class CompiledBackend(
    CompiledNarrow,
    CompiledAttention,
    CompiledConversions,
    CompiledConvolution,
    CompiledCtc,
    CompiledFactors,
    CompiledFourier,
    CompiledHalves,
    CompiledIndexing,
    CompiledMatrices,
    CompiledPooling,
    CompiledProducts,
    CompiledRandom,
    CompiledRecurrent,
    CompiledHalfReductions,
    CompiledRows,
    CompiledSorting,
    CompiledSteps,
):
    """NumPy's backend in which some kernels are those of the compiled library."""

    in_tiles = True
