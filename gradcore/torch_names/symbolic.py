"""Symbolic sizes and control flow of PyTorch's compiler: in gradcore, numbers and Python's own statements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

__all__ = [
    "FakeTensor",
    "SymBool",
    "SymFloat",
    "SymInt",
    "TransformGetItemToIndex",
    "cond",
    "is_fake",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
    "while_loop",
]


class SymInt:
    """Class of PyTorch's symbolic sizes, for ``isinstance``. It has no instances in gradcore."""


class SymFloat:
    """Class of PyTorch's symbolic floats, for ``isinstance``. It has no instances in gradcore."""


class SymBool:
    """Class of PyTorch's symbolic bools, for ``isinstance``. It has no instances in gradcore."""


class TransformGetItemToIndex(AbstractContextManager[None]):
    """Context in which PyTorch's `vmap` may index with tensors of the batch. In gradcore it always may."""

    def __exit__(self, *exception: object) -> None:
        """Do nothing."""


class FakeTensor:
    """Class of the tensors without data of PyTorch's compiler, for ``isinstance``. It has no instances in gradcore."""


def is_fake(x: Any) -> bool:
    """Return False: tensors without data are those of the device ``meta``."""
    return False


sym_int, sym_float, sym_max, sym_min, sym_sqrt = int, float, max, min, math.sqrt


def sym_not(a: Any) -> bool:
    """Return whether `a` is false."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """Return `t` if `b` is true, else `f`."""
    return t if b else f


def sym_sum(args: Sequence[Any]) -> Any:
    """Return the sum of numbers."""
    return sum(args)


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """Return the result of one of two functions.

    Parameters
    ----------
    pred : bool or Tensor
        Whether to call `true_fn`. A tensor must have one element.
    true_fn, false_fn : callable
    operands : sequence
        Their arguments.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([1.0, 2.0])
    >>> gradcore.cond(x.sum() > 2, lambda x: -x, lambda x: x, (x,))
    tensor([-1., -2.])
    """
    return (true_fn if pred else false_fn)(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]) -> Any:
    """Apply `body_fn` to its own results for as long as `cond_fn` of them is true.

    Parameters
    ----------
    cond_fn, body_fn : callable
        Functions with one argument for each input; `body_fn` returns one result for each input.
    carried_inputs : sequence

    Returns
    -------
    tuple
    """
    values = tuple(carried_inputs)
    while cond_fn(*values):
        values = tuple(body_fn(*values))
    return values
