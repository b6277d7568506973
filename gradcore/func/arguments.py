"""Arguments and results of transformations: selection by `argnums`, auxiliary outputs, and checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gradcore.tensor import Tensor
from gradcore.tensor.transforms import as_input
from gradcore.utils._pytree import PyTree, tree_map

__all__ = [
    "Argnums",
    "check_randomness",
    "check_real",
    "check_results",
    "pick_args",
    "positions_of",
    "replace_args",
    "select_args",
    "split_aux",
]

Argnums = int | tuple[int, ...]


def positions_of(argnums: Argnums, count: int) -> tuple[int, ...]:
    """Return the positions that `argnums` names among `count` positional arguments.

    Raises
    ------
    RuntimeError
        If an argument does not exist, if one is named twice, or if none is named.
    """
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    positions = []
    for n in (argnums,) if isinstance(argnums, int) else argnums:
        if not isinstance(n, int):
            raise RuntimeError(f"argnum must be int, got: {type(n)}")
        if not -count <= n < count:
            raise RuntimeError(f"Got argnum={n}, but only {count} positional inputs")
        positions.append(n % count)
    if not positions:
        raise RuntimeError("argnums must be non-empty")
    if len(set(positions)) != len(positions):
        raise RuntimeError(f"argnums elements must be unique, got {tuple(positions)}")
    return tuple(positions)


def pick_args(args: Sequence[PyTree], argnums: Argnums) -> PyTree:
    """Return the arguments at the positions `argnums` unchanged: one argument, or a tuple of them."""
    if type(argnums) is int and 0 <= argnums < len(args):
        return args[argnums]
    positions = positions_of(argnums, len(args))
    return args[positions[0]] if isinstance(argnums, int) else tuple(args[i] for i in positions)


def select_args(args: Sequence[Any], argnums: Argnums) -> Any:
    """Return the arguments at the positions `argnums`, with numbers and arrays in them converted to tensors."""
    return tree_map(as_input, pick_args(args, argnums))


def replace_args(args: Sequence[Any], argnums: Argnums, values: Any) -> list[Any]:
    """Return `args` with the arguments at the positions `argnums` replaced by `values` (one, or a tuple of them)."""
    out = list(args)
    if type(argnums) is int and 0 <= argnums < len(args):
        out[argnums] = values
        return out
    for i, value in zip(
        positions_of(argnums, len(args)), (values,) if isinstance(argnums, int) else values, strict=True
    ):
        out[i] = value
    return out


def split_aux(result: Any, has_aux: bool, api: str) -> tuple[Any, Any]:
    """Split a result into ``(output, aux)``; `aux` is None without `has_aux`."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{api}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def check_results(outputs: Sequence[Any], api: str) -> None:
    """Raise unless a function has returned tensors only, and at least one."""
    if not outputs or (len(outputs) == 1 and outputs[0] is None):
        raise RuntimeError(f"{api}: Expected f to be a function that has non-empty output (got output = {outputs})")
    for out in outputs:
        if not isinstance(out, Tensor):
            raise RuntimeError(f"{api}: expected f(*primals) to return only tensors, got unsupported type {type(out)}")


def check_randomness(randomness: str) -> None:
    """Raise unless `randomness` is "error", "different" or "same"."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


def check_real(tensors: Iterable[Any], api: str, what: str) -> None:
    """Raise if one of the tensors is complex, because the Jacobian would be complex."""
    for i, t in enumerate(tensors):
        if isinstance(t, Tensor) and t.is_complex():
            raise RuntimeError(
                f"{api}: Expected all {what} to be real but received complex tensor at flattened input idx: {i}"
            )
