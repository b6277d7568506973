"""PyTorch's operations on lists of tensors, ``torch._foreach_add_`` and similar functions, as loops.

They exist for programs that run with `gradcore.as_torch`. gradcore's own optimizers have kernels for lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradcore import functional
from gradcore.core.device import device as Device
from gradcore.core.dtypes import dtype
from gradcore.functions import linalg
from gradcore.tensor import Tensor

__all__ = ["group_by_device_and_dtype", "has_kernels", "make_loop"]

#: Keyword arguments that apply to each call; all other keyword arguments are lists, tensors or numbers.
_SETTINGS = ("alpha", "dtype", "memory_format", "non_blocking", "ord", "value")


def make_loop(name: str) -> Callable[..., Any]:
    """Return a function of lists that applies an operation to the tensors one by one.

    The function of an in-place operation returns its first list, every other function a tuple.

    Parameters
    ----------
    name : str
        PyTorch's name of the function, for example ``"_foreach_add_"``.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.torch_names.foreach import make_loop
    >>> make_loop("_foreach_add")([gc.ones(1), gc.zeros(2)], [gc.ones(1), gc.ones(2)])
    (tensor([2.]), tensor([1., 1.]))
    """
    operation = name.removeprefix("_foreach_")

    def loop(*args: Any, **kwargs: Any) -> Any:
        settings = {key: kwargs.pop(key) for key in _SETTINGS if key in kwargs}
        columns = [*args, *kwargs.values()]
        if operation.startswith(("addcdiv", "addcmul")) and len(columns) > 3 and isinstance(columns[3], Tensor):
            columns[3] = columns[3].tolist()
        lists = [column for column in columns if isinstance(column, (list, tuple))]
        _check(lists)
        columns = [c if isinstance(c, (list, tuple)) else [c] * len(lists[0]) for c in columns]
        rows = zip(*columns, strict=True)
        results = tuple(_call_operation(operation, row, settings) for row in rows)
        return columns[0] if operation.endswith("_") else results

    loop.__name__ = loop.__qualname__ = name
    loop.__module__ = "torch"
    return loop


def _check(lists: Sequence[Sequence[Any]]) -> None:
    if not lists or not lists[0]:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for operands in lists[1:]:
        if len(operands) != len(lists[0]):
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {len(lists[0])} and {len(operands)}"
            )


def _call_operation(operation: str, row: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Apply an operation to one tensor of each list."""
    first, *others = row
    base = operation.rstrip("_")
    if base in ("addcdiv", "addcmul") and len(others) == 3:
        return getattr(first, operation)(*others[:2], value=others[2])
    if base == "norm":
        order = settings.get("ord", others[0] if others else 2)
        return linalg.vector_norm(first, order, dtype=settings.get("dtype"))
    if base == "powsum":
        order = settings.get("ord", others[0] if others else 2)
        return first.abs().pow(order).sum(dtype=settings.get("dtype"))
    if not isinstance(first, Tensor):  # the base of a power, with a list of exponents
        return getattr(functional, operation)(first, *others, **settings)
    # The clamps compute extrema too, and take tensors and numbers.
    method = operation.replace("maximum", "clamp_min").replace("minimum", "clamp_max")
    return getattr(first, method)(*others, **settings)


def has_kernels(device: object) -> bool:
    """Return whether a device has kernels for lists of tensors: False, since the functions of lists are loops."""
    return False


def group_by_device_and_dtype(
    lists: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Device, dtype], tuple[list[list[Tensor | None]], list[int]]]:
    """Group the columns of lists of tensors by the device and dtype of the tensors in the first list.

    Parameters
    ----------
    lists : sequence of sequences of Tensor or None
        Lists of equal length. Those after the first may contain None.
    with_indices : bool
        Whether each group comes with the indices of its columns; otherwise with an empty list.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.torch_names.foreach import group_by_device_and_dtype
    >>> tensors = [gc.ones(1), gc.ones(1, dtype=gc.int64), gc.zeros(1)]
    >>> [indices for _, indices in group_by_device_and_dtype([tensors], with_indices=True).values()]
    [[0, 2], [1]]
    """
    groups: dict[tuple[Device, dtype], tuple[list[list[Tensor | None]], list[int]]] = {}
    for i, column in enumerate(zip(*lists, strict=True)):
        first = column[0]
        if first is None:
            raise RuntimeError("The tensors of the first list determine the groups and cannot be None.")
        rows, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in lists], []))
        for row, tensor in zip(rows, column, strict=True):
            row.append(tensor)
        if with_indices:
            indices.append(i)
    return groups
