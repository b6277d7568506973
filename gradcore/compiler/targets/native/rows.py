"""Lowering of operations on rows: softmax, normalization, cross entropy, embeddings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradcore.backends.codegen.cpp import C_TYPES
from gradcore.backends.compiled.rows import ROW_KERNELS
from gradcore.backends.kernel_rules import RowCall, RowKernel, width_of_rows
from gradcore.compiler.program.program import Call
from gradcore.compiler.targets.native.steps import Kernel, Rules, Step, Unsupported, View

__all__ = ["ROW_OPERATIONS", "Rows", "rows_kernel"]

#: The smallest number of elements for which several threads are used.
_SMALL_ROWS = 1 << 15


#: The declared row kernel of each operation, and the positions of its settings.
ROW_OPERATIONS = {name: (kernel, call) for kernel in ROW_KERNELS.values() for name, call in kernel.operations.items()}


class Rows(Rules):
    """Lowering rules for operations on rows."""

    def _lower_row_kernel(self, kernel: RowKernel, arguments: RowCall, call: Call, results: list[View]) -> list[Step]:
        """Return the step of an operation with a declared row kernel; `arguments` gives the positions of settings."""
        count = len(kernel.reads)
        views, settings = [None if each is None else self._view(each) for each in call.args[:count]], call.args[count:]
        x = views[0]
        width = (
            0 if call.named or x is None or not x.size else width_of_rows(kernel, arguments)(x, [*views[1:], *settings])
        )
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
        text = rows_call(kernel.symbol, kind, x.size // width, width, places, repr(number))
        return [Kernel(text, results, reads, lasting=x.size >= _SMALL_ROWS)]

    def _lower_layer_norm_backward(self, call: Call, results: list[View]) -> list[Step]:
        args = tuple(call.args[0]) if len(call.args) == 1 else call.args
        grad, grad_mean, grad_var, x, weight, mean, var, eps, needs, ndims = args
        if grad is None or grad_mean is not None or grad_var is not None or len(results) != sum(map(bool, needs)):
            raise Unsupported("rows")
        a = self._view(x)
        arrays = [self._view(each) for each in (grad, x, weight, mean, var) if each is not None]
        rows, n = _norm_rows(a, ndims, [*arrays, *results])
        places = iter(range(len(results) + len(arrays)))
        names = [f"{{{next(places)}}}" if need else "nullptr" for need in needs]
        names += [f"{{{next(places)}}}" if each is not None else "nullptr" for each in (grad, x, weight, mean, var)]
        kind = C_TYPES[a.dtype.name]
        text = f"normed_rows_back<{kind}>({', '.join(names)}, {rows}, {n}, {float(eps)!r}, threads)"
        return [Kernel(text, results, arrays, lasting=a.size >= _SMALL_ROWS)]

    def _lower_softmax_nll(self, call: Call, results: list[View]) -> list[Step]:
        x, target, weight, reduction, ignore_index = call.args
        a, t = self._view(x), self._view(target)
        _check_classes(a, t, weight, reduction, ignore_index)
        if not all(each.is_contiguous for each in results):
            raise Unsupported("rows")
        rows, n = a.shape
        places = ", ".join(f"{{{i}}}" for i in range(6))
        text = f"cross_entropy({places}, {rows}, {n}, {_word(reduction == 'mean')}, threads)"
        return [Kernel(text, results, [a, t], fallible=True, lasting=a.size >= _SMALL_ROWS)]

    def _lower_softmax_nll_backward(self, call: Call, results: list[View]) -> list[Step]:
        grad, grad_powers, grad_total, target, weight, number, powers, total, reduction, ignore_index = call.args
        p, t = self._view(powers), self._view(target)
        _check_classes(p, t, weight, reduction, ignore_index)
        arrays = [self._view(grad), t, self._view(number), p, self._view(total)]
        if grad_powers is not None or grad_total is not None or not results[0].is_contiguous or arrays[0].size != 1:
            raise Unsupported("rows")
        if arrays[0].dtype != p.dtype or not arrays[4].is_contiguous:
            raise Unsupported("rows")
        rows, n = p.shape
        places = ", ".join(f"{{{i}}}" for i in range(6))
        text = f"cross_entropy_back({places}, {rows}, {n}, {_word(reduction == 'mean')}, threads)"
        return [Kernel(text, results, arrays, fallible=True, lasting=p.size >= _SMALL_ROWS)]

    def _lower_embedding_sum(self, call: Call, results: list[View]) -> list[Step]:
        rows, index, height, *padding = call.args
        out, x, i = results[0], self._view(rows), self._view(index)
        has_supported_dtypes = i.dtype == np.int64 and x.dtype == out.dtype and x.dtype.kind == "f" and x.size
        if not has_supported_dtypes or not (x.is_contiguous and i.is_contiguous and out.is_contiguous) or call.named:
            raise Unsupported("rows")
        numbers = f"{i.size}, {height}, {x.size // i.size}, {padding[0] if padding else -1}"
        text = f"add_rows<{C_TYPES[x.dtype.name]}>({{0}}, {{1}}, {{2}}, {numbers})"
        return [Kernel(text, [out], [x, i], fallible=True)]


def rows_kernel(symbol: str, writes: list[View], reads: list[View]) -> Kernel:
    """Return the step that calls a kernel of ``rows.h`` on contiguous arrays of one shape and dtype."""
    size, n, kind = reads[0].size, reads[0].shape[-1], C_TYPES[reads[0].dtype.name]
    places = [f"(const {kind}*){{{len(writes) + i}}}" for i in range(len(reads))]
    text = rows_call(symbol, kind, size // n, n, [*places, "{0}"], "0")
    return Kernel(text, writes, reads, lasting=size >= _SMALL_ROWS)


def rows_call(symbol: str, kind: str, height: int, width: int, places: list[str], number: str) -> str:
    """Return the C++ call of a kernel of ``rows.h`` on all rows; `number` is its setting."""
    work = f"Work{{{{{height}, {height}, {width}, 0, 0, {number}}}}}"
    return f"run_rows<{symbol}<{kind}>>({work}, threads, {', '.join(places)})"


def _norm_rows(x: View, ndims: int, views: list[View]) -> tuple[int, int]:
    """Return the number of normalized rows, and the number of elements of each."""
    n = math.prod(x.shape[len(x.shape) - ndims :])
    if not x.size or x.dtype.kind != "f":
        raise Unsupported("rows")
    if any(v.dtype != x.dtype or not v.is_contiguous for v in views):
        raise Unsupported("rows")
    return x.size // n, n


def _check_classes(x: View, target: View, weight: Any, reduction: str, ignore_index: int) -> None:
    """Raise `Unsupported` unless a cross entropy of class indices has a row kernel."""
    plain = len(x.shape) == 2 and x.size and x.is_contiguous and x.dtype.kind == "f"
    if not plain or weight is not None or reduction not in ("mean", "sum") or 0 <= ignore_index < x.shape[1]:
        raise Unsupported("rows")
    if target.dtype != np.int64 or target.shape != x.shape[:1] or not target.is_contiguous:
        raise Unsupported("the classes")


def _word(value: bool) -> str:
    return "true" if value else "false"
