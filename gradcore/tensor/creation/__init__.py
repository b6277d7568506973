"""Creation of tensors: from data, filled with a value, or as sequences."""

from __future__ import annotations

from gradcore.tensor.creation.data import as_tensor, asarray, from_dlpack, from_numpy, frombuffer, tensor
from gradcore.tensor.creation.filled import (
    empty,
    empty_like,
    empty_strided,
    full,
    full_like,
    ones,
    ones_like,
    scalar_tensor,
    zeros,
    zeros_like,
)
from gradcore.tensor.creation.sequences import arange, eye, linspace, logspace, range, tril_indices, triu_indices

__all__ = [
    "arange",
    "as_tensor",
    "asarray",
    "empty",
    "empty_like",
    "empty_strided",
    "eye",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "range",
    "scalar_tensor",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]
