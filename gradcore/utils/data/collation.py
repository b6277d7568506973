"""Collation of samples into batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


def _like(data: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """Return `values` as a mapping of the class of `data`, if that can be constructed from a dict."""
    try:
        return type(data)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def default_collate(batch: Any) -> Any:
    """Return a list of samples as a batch: tensors, arrays and numbers are stacked, also in nested containers.

    Parameters
    ----------
    batch : list
        Samples of one structure.

    Returns
    -------
    object
        A batch with the structure of a sample; strings stay lists.

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
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Any, *, collate_fn_map: Mapping[Any, Callable[..., Any]] | None = None) -> Any:
    """Return a list of samples as a batch, with a function for each class of samples.

    Parameters
    ----------
    batch : list
        Samples of one structure.
    collate_fn_map : mapping, optional
        By class, or by tuple of classes, the function that is called with a list of values of that class and with
        ``collate_fn_map=``. Subclasses use the first entry that applies to them.

    Returns
    -------
    object
        A batch with the structure of a sample.

    Raises
    ------
    TypeError
        If a sample is no container and its class is not in the mapping.
    RuntimeError
        If sequences have different lengths.

    Examples
    --------
    >>> from gradcore.utils.data._utils.collate import collate
    >>> collate([("a", "b"), ("c", "d")], collate_fn_map={str: lambda batch, **_: "".join(batch)})
    ['ac', 'bd']
    """
    first, functions = batch[0], collate_fn_map or {}
    function = functions.get(type(first))
    if function is None:
        function = next((function for kind, function in functions.items() if isinstance(first, kind)), None)
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        parts: Any = {key: [sample[key] for sample in batch] for key in first}
        return _like(first, {key: collate(values, collate_fn_map=collate_fn_map) for key, values in parts.items()})
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [collate(values, collate_fn_map=collate_fn_map) for values in zip(*batch, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else parts
    raise TypeError(_refusal(type(first)))


def _collate_tensors(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return functional.stack(list(batch))


def _collate_arrays(batch: Any, *, collate_fn_map: Any = None) -> Any:
    if batch[0].dtype.kind in "USO":
        raise TypeError(_refusal(batch[0].dtype))
    return functional.stack([as_tensor(value) for value in batch])


def _collate_floats(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return tensor(batch, dtype=float64)


def _collate_numbers(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return tensor(batch)


def _collate_strings(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return batch


#: The functions of `default_collate`. Programs and packages add their own classes.
default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: _collate_tensors,
    np.ndarray: _collate_arrays,
    (np.bool_, np.number, np.object_): _collate_arrays,
    float: _collate_floats,
    int: _collate_numbers,
    complex: _collate_numbers,
    str: _collate_strings,
    bytes: _collate_strings,
}


def _refusal(kind: Any) -> str:
    return f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {kind}"
