"""Lowering of kernels whose C++ functions are declared: those of rows, and those of contiguous arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.codegen.cpp import C_TYPES
from gradcore.backends.compiled.rows import ROW_KERNELS
from gradcore.backends.kernel_rules import ArrayKernel, RowCall, RowKernel, array_kernels, width_of_rows
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.compiler.program.program import Call, Literal, Value
from gradcore.compiler.targets.native.steps import Kernel, Rules, Step, Unsupported, View

__all__ = ["ARRAY_KERNELS", "ROW_OPERATIONS", "Rows"]

#: The smallest number of elements for which several threads are used.
_SMALL_ROWS = 1 << 15


#: The declared row kernel of each operation, and the positions of its settings.
ROW_OPERATIONS = {name: (kernel, call) for kernel in ROW_KERNELS.values() for name, call in kernel.operations.items()}
#: The declared kernels of contiguous arrays.
ARRAY_KERNELS = array_kernels(NumpyBackend)


class Rows(Rules):
    """Lowering rules for kernels with declared C++ functions."""

    def _lower_row_kernel(self, kernel: RowKernel, arguments: RowCall, call: Call, results: list[View]) -> list[Step]:
        """Return the step of an operation with a declared row kernel; `arguments` gives the positions of settings."""
        count = len(kernel.reads)
        views, settings = [None if each is None else self._view(each) for each in call.args[:count]], call.args[count:]
        x = views[0]
        is_empty = call.named or x is None or not x.size
        width = 0 if is_empty else width_of_rows(kernel, arguments)(x, [*views[1:], *settings])
        if x is None or not width:
            raise Unsupported("rows")
        reads, places, kind = [], [], C_TYPES[x.dtype.name]
        for parameter, view in zip(kernel.reads, views, strict=False):
            pointer, default = "nullptr", parameter.partition("=")[2]
            if view is not None:
                reads.append(view)
                pointer = f"(const {kind}*){{{len(results) + len(reads) - 1}}}"
            places.append(f"Filled<{kind}>({pointer}, {width}, {default})" if default else pointer)
        sizes = {"rows": x.size, "index": x.size, "row": x.size // width, "kept": x.size // width}
        for word, result in zip(kernel.writes, results, strict=True):
            if result.size != sizes[word] or result.dtype != (np.int64 if word == "index" else x.dtype):
                raise Unsupported("rows")
        if not all(view.is_contiguous for view in (*reads, *results)):
            raise Unsupported("rows")
        number = float(arguments.number_of(settings))
        places += [f"{{{i}}}" for i in range(len(results))]
        height = x.size // width
        work = f"Work{{{{{height}, {height}, {width}, 0, 0, {number!r}}}}}"
        text = f"run_rows<{kernel.symbol}<{kind}>>({work}, threads, {', '.join(places)})"
        return [Kernel(text, results, reads, lasting=x.size >= _SMALL_ROWS)]

    def _lower_array_kernel(self, kernel: ArrayKernel, call: Call, results: list[View]) -> list[Step]:
        """Return the step of a kernel with a declared C++ function of contiguous arrays."""
        last = call.args[-1]
        is_packed = type(last) not in (Value, Literal) and hasattr(last, "_fields")
        args = (*call.args[:-1], *last) if is_packed else call.args
        args = tuple(self._view(each) if type(each) in (Value, Literal) else each for each in args)
        by_name, settings = dict(zip(kernel.parameters, args, strict=False)), kernel.settings(*args)
        needs, remaining = by_name.get("needs", (True,) * len(results)), iter(results)
        if settings is None or call.named or sum(map(bool, needs)) != len(results):
            raise Unsupported(kernel.symbol)
        arrays = [(word, next(remaining) if need else None) for word, need in zip(kernel.writes, needs, strict=True)]
        arrays += [(word, by_name[name]) for name, word in kernel.reads]
        words, views = zip(*(each for each in arrays if each[1] is not None), strict=True)
        dtype = views[words.index("value")].dtype
        are_plain = dtype.char in "fd" and all(view.size and view.is_contiguous for view in views)
        if not are_plain or [dtype if word == "value" else np.int64 for word in words] != [v.dtype for v in views]:
            raise Unsupported(kernel.symbol)
        places, reads = iter(range(len(views))), views[len(results) :]
        pointers = ["nullptr" if view is None else f"{{{next(places)}}}" for _, view in arrays]
        text = f"{kernel.symbol}<{C_TYPES[dtype.name]}>({', '.join([*pointers, *map(_literal, settings)])}, threads)"
        is_fallible, is_narrow = {*words[len(results) :]} != {"value"}, {*words} == {"value", "position"}
        is_lasting = max(view.size for view in reads) >= _SMALL_ROWS
        return [Kernel(text, results, [*reads], is_fallible, is_lasting, is_narrow)]


def _literal(setting: Any) -> str:
    """Return a setting as a C++ expression in a template of `str.format`."""
    if isinstance(setting, tuple):
        return f"{{{{{', '.join(map(_literal, setting))}}}}}"
    return str(setting).lower()
