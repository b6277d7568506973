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

#: Operations whose values are tested elsewhere, or cannot be computed twice.
WITHOUT: dict[str, list[str]] = {
    "random": [
        "rrelu",
        "dropout",
        "alpha_dropout",
        "feature_alpha_dropout",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "svd_lowrank",
        "pca_lowrank",
    ],
    # tests/ops/test_linalg.py
    "takes what another operation returns": ["lu_unpack", "linalg_lu_solve", "lu_solve"],
}
