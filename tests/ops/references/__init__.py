"""What every operation computes, written once more in NumPy and SciPy: a function of arrays and settings by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.ops.references.elementwise import ELEMENTWISE
from tests.ops.references.indexing import INDEXING
from tests.ops.references.linalg import MATRICES, PRODUCTS, SPECTRA
from tests.ops.references.losses import LAYERS, LOSSES
from tests.ops.references.movement import MOVEMENT
from tests.ops.references.reductions import REDUCTIONS
from tests.ops.references.windows import WINDOWS

REFERENCES: dict[str, Callable[..., Any]] = {
    **ELEMENTWISE,
    **MOVEMENT,
    **REDUCTIONS,
    **INDEXING,
    **PRODUCTS,
    **MATRICES,
    **SPECTRA,
    **LOSSES,
    **LAYERS,
    **WINDOWS,
}

#: Operations whose values cannot be computed twice.
RANDOM = "rrelu dropout alpha_dropout feature_alpha_dropout dropout1d dropout2d dropout3d svd_lowrank pca_lowrank"
WITHOUT: dict[str, list[str]] = {"random": RANDOM.split()}
