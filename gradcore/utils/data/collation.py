"""Collation of samples into batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcore import functional
from gradcore.core.dtypes import float64
from gradcore.tensor import Tensor
from gradcore.tensor.creation import as_tensor, tensor

__all__ = ["default_collate", "default_convert"]


def default_convert(data: Any) -> Any:
    """Return `data` with NumPy arrays in nested containers converted to tensors.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils import data
    >>> import numpy as np
    >>> data.default_convert({"x": np.array([1.0])})
    {'x': tensor([1.], dtype=torch.float64)}
    """
    if isinstance(data, np.ndarray) and data.dtype.kind in "US":
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return as_tensor(data)
    return _map_leaves(data, default_convert)


def _map_leaves(data: Any, function: Any) -> Any:
    """Return a container with `function` applied to each element; return a leaf unchanged."""
    if isinstance(data, Mapping):
        return _like(data, {key: function(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(function, data))
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return [function(value) for value in data]
    return data


def _like(data: Mapping[Any, Any], made: dict[Any, Any]) -> Any:
    """Return `made` as a mapping of the class of `data`, if that can be constructed from a dict."""
    try:
        return type(data)(made)  # type: ignore[call-arg]
    except TypeError:
        return made


def default_collate(batch: Any) -> Any:
    """Return a list of samples as a batch: tensors, arrays and numbers are stacked, also in nested containers.

    Parameters
    ----------
    batch : list
        Samples of one structure.

    Returns
    -------
    object
        Of that structure; strings stay lists.

    Raises
    ------
    TypeError
        If a sample is nothing that can be stacked.
    RuntimeError
        If sequences have different lengths.

    Examples
    --------
    >>> from gradcore.utils.data import default_collate
    >>> default_collate([{"x": 1, "name": "a"}, {"x": 2, "name": "b"}])
    {'x': tensor([1, 2]), 'name': ['a', 'b']}
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return functional.stack(list(batch))
    if isinstance(first, (np.ndarray, np.generic)):
        if first.dtype.kind in "USO":
            raise TypeError(_refusal(first.dtype))
        return functional.stack([as_tensor(value) for value in batch])
    if isinstance(first, float):
        return tensor(batch, dtype=float64)
    if isinstance(first, (int, complex)):
        return tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _like(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [default_collate(values) for values in zip(*batch, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else parts
    raise TypeError(_refusal(type(first)))


def _refusal(kind: Any) -> str:
    return f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {kind}"
