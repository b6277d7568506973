"""The step-dependent hyperparameters of an optimizer as a kernel, for when the device counts the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradcore.backends.codegen.expr import Expr, as_output
from gradcore.backends.codegen.trace import Tracer

__all__ = ["HyperparameterKernel"]

#: Path of an option: its name, and the index if it is an element of a tuple.
_Path = tuple[Any, ...]


class HyperparameterKernel:
    """The formula of ``hyperparameters(F, options, counters)``, which also increments the counters.

    Parameters
    ----------
    hyperparameters : callable
    options : dict
        Floats and arrays among the options are operands of the formula, so that other values use the same kernel.
    counters : dict
        Arrays with an element for each parameter.
    dtype : dtype
        The dtype of hyperparameters that are arrays.

    Attributes
    ----------
    key : hashable
        The same for calls with the same formula.
    """

    def __init__(
        self,
        hyperparameters: Callable[..., dict[str, Any]],
        options: dict[str, Any],
        counters: dict[str, Any],
        dtype: np.dtype[Any],
    ) -> None:
        self._hyperparameters, self._dtype = hyperparameters, dtype
        self._counter_dtypes = {name: counter.dtype for name, counter in counters.items()}
        self._options = {name: value for name, value in options.items() if name not in _NOT_OPTIONS}
        leaves = list(_leaves(self._options))
        self._operands = [path for path, value in leaves if _is_operand(value)]
        kinds = tuple((path, value if isinstance(value, float) else repr(value)) for path, value in leaves
                      if isinstance(value, float) or not _is_operand(value))  # fmt: skip
        function = getattr(hyperparameters, "__func__", hyperparameters)
        self.key = function, tuple(self._counter_dtypes.items()), kinds, dtype
        #: Filled when the formula is traced: the hyperparameters that are arrays, and the other ones.
        self._arrays: list[str] = []
        self._constants: dict[str, Any] = {}

    def operands(self, options: dict[str, Any], counters: dict[str, Any]) -> list[tuple[str, Any]]:
        """Return the operands of the formula."""
        values = dict(_leaves(options))
        return [*counters.items(), *(("_".join(map(str, path)), values[path]) for path in self._operands)]

    def formula(self, F: Tracer, *values: Any) -> list[Expr]:
        """Compute the new counters, copies of the old ones, and those hyperparameters that are arrays."""
        counters = dict(zip(self._counter_dtypes, values, strict=False))
        by_operand = dict(zip(self._operands, values[len(counters) :], strict=True))
        options = {name: _substitute_operands(name, value, by_operand) for name, value in self._options.items()}
        results = self._hyperparameters(F, options, counters)
        self._arrays = [name for name, value in results.items() if isinstance(value, Expr)]
        self._constants = {
            name: float(value) if isinstance(value, float) else value
            for name, value in results.items()
            if name not in self._arrays
        }
        dtypes = self._counter_dtypes.items()
        incremented = [counters[name].astype(dtype) for name, dtype in dtypes]
        old = [value.astype(dtype) for value, (_, dtype) in zip(values, dtypes, strict=False)]
        arrays = [results[name].astype(self._dtype) for name in self._arrays]
        return [as_output(expr) for expr in (*incremented, *old, *arrays)]

    def hyperparameters(self, results: Sequence[Any]) -> dict[str, Any]:
        """Return all hyperparameters, given the formula's results after the counters."""
        return {**self._constants, **dict(zip(self._arrays, results, strict=True))}


_NOT_OPTIONS = ("params", "param_names")


def _leaves(options: dict[str, Any]) -> Iterator[tuple[_Path, Any]]:
    """Yield the options, and the elements of options that are tuples, with their paths."""
    for name, option in options.items():
        if name in _NOT_OPTIONS:
            continue
        if isinstance(option, tuple):
            yield from (((name, i), element) for i, element in enumerate(option))
        else:
            yield (name,), option


def _is_operand(value: Any) -> bool:
    return isinstance(value, float) or hasattr(value, "dtype")


def _substitute_operands(name: str, option: Any, operands: dict[_Path, Any]) -> Any:
    """Return an option in which floats and arrays are replaced by the formula's operands."""
    if isinstance(option, tuple):
        return tuple(operands.get((name, i), element) for i, element in enumerate(option))
    return operands.get((name,), option)
