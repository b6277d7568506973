"""Lowering of rows: softmax, normalization, cross entropy, and rows of tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradcore.backends.codegen.cpp import C_TYPES
from gradcore.compiler.native.steps import Kernel, Step, Unsupported, View
from gradcore.compiler.program import Call

__all__ = ["Rows", "rows_kernel"]

#: Elements of rows that are worth a thread.
_SMALL_ROWS = 1 << 15


class Rows:
    """Steps of calls on rows."""

    _view: Any

    def _lower_softmax(self, call: Call, results: list[View]) -> list[Step]:
        return self._of_rows("softmax", call, results)

    def _lower_log_softmax(self, call: Call, results: list[View]) -> list[Step]:
        return self._of_rows("log_softmax", call, results)

    def _of_rows(self, function: str, call: Call, results: list[View]) -> list[Step]:
        x, (out,) = self._view(call.args[0]), results
        dim = call.args[1] if len(call.args) > 1 and not call.named and call.args[2:] in ((), (None,)) else None
        if not _is_last(x, dim) or not (x.is_contiguous and out.is_contiguous and x.dtype == out.dtype):
            raise Unsupported("rows")
        return [rows_kernel(f"{function}<{C_TYPES[x.dtype.name]}>", [out], [x])]

    def _back_rows(self, function: str, call: Call, out: View) -> list[Step]:
        grad, y, dim = call.args
        given = [self._view(grad), self._view(y)]
        if not _is_last(given[1], dim) or any(v.dtype != out.dtype or v.shape != out.shape for v in given):
            raise Unsupported("rows")
        if not all(v.is_contiguous for v in (*given, out)):
            raise Unsupported("rows")
        return [rows_kernel(f"{function}<{C_TYPES[out.dtype.name]}>", [out], given)]

    def _lower_softmax_backward(self, call: Call, results: list[View]) -> list[Step]:
        return self._back_rows("softmax_backward", call, results[0])

    def _lower_log_softmax_backward(self, call: Call, results: list[View]) -> list[Step]:
        return self._back_rows("log_softmax_backward", call, results[0])

    def _lower_native_layer_norm(self, call: Call, results: list[View]) -> list[Step]:
        x, weight, bias, ndims, eps = call.args
        a = self._view(x)
        given = [a, *(self._view(each) for each in (weight, bias) if each is not None)]
        rows, n = _norm_rows(a, ndims, [*given, *results])
        places = iter(range(4, 6))
        names = [f"{{{next(places)}}}" if each is not None else "nullptr" for each in (weight, bias)]
        kind = C_TYPES[a.dtype.name]
        numbers = f"{{0}}, {{1}}, {{2}}, {{3}}, {names[0]}, {names[1]}, {rows}, {n}, {float(eps)!r}, threads"
        return [Kernel(f"normed_rows<{kind}>({numbers})", results, given, lasting=a.size >= _SMALL_ROWS)]

    def _lower_layer_norm_backward(self, call: Call, results: list[View]) -> list[Step]:
        args = tuple(call.args[0]) if len(call.args) == 1 else call.args
        grad, grad_mean, grad_var, x, weight, mean, var, eps, needs, ndims = args
        if grad is None or grad_mean is not None or grad_var is not None or len(results) != sum(map(bool, needs)):
            raise Unsupported("rows")
        a = self._view(x)
        given = [self._view(each) for each in (grad, x, weight, mean, var) if each is not None]
        rows, n = _norm_rows(a, ndims, [*given, *results])
        places = iter(range(len(results) + len(given)))
        names = [f"{{{next(places)}}}" if need else "nullptr" for need in needs]
        names += [f"{{{next(places)}}}" if each is not None else "nullptr" for each in (grad, x, weight, mean, var)]
        kind = C_TYPES[a.dtype.name]
        text = f"normed_rows_back<{kind}>({', '.join(names)}, {rows}, {n}, {float(eps)!r}, threads)"
        return [Kernel(text, results, given, lasting=a.size >= _SMALL_ROWS)]

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
        given = [self._view(grad), t, self._view(number), p, self._view(total)]
        if grad_powers is not None or grad_total is not None or not results[0].is_contiguous or given[0].size != 1:
            raise Unsupported("rows")
        if given[0].dtype != p.dtype or not given[4].is_contiguous:
            raise Unsupported("rows")
        rows, n = p.shape
        places = ", ".join(f"{{{i}}}" for i in range(6))
        text = f"cross_entropy_back({places}, {rows}, {n}, {_word(reduction == 'mean')}, threads)"
        return [Kernel(text, results, given, fallible=True, lasting=p.size >= _SMALL_ROWS)]

    def _lower_embedding_sum(self, call: Call, results: list[View]) -> list[Step]:
        rows, index, height, *padding = call.args
        out, x, i = results[0], self._view(rows), self._view(index)
        good = i.dtype == np.int64 and x.dtype == out.dtype and x.dtype.kind == "f" and x.size
        if not good or not (x.is_contiguous and i.is_contiguous and out.is_contiguous) or call.named:
            raise Unsupported("rows")
        numbers = f"{i.size}, {height}, {x.size // i.size}, {padding[0] if padding else -1}"
        text = f"add_rows<{C_TYPES[x.dtype.name]}>({{0}}, {{1}}, {{2}}, {numbers})"
        return [Kernel(text, [out], [x, i], fallible=True)]


def _is_last(x: View, dim: Any) -> bool:
    """Return whether elements along a dim of floats follow each other."""
    return isinstance(dim, int) and bool(x.size) and x.dtype.kind == "f" and dim % len(x.shape) == len(x.shape) - 1


def rows_kernel(function: str, writes: list[View], reads: list[View]) -> Kernel:
    """Return a kernel of the library that takes contiguous rows of one shape."""
    size, n = reads[0].size, reads[0].shape[-1]
    arrays = ", ".join(f"(const {C_TYPES[v.dtype.name]}*){{{len(writes) + i}}}" for i, v in enumerate(reads))
    text = f"run_rows<{function}>(Work{{{{{size // n}, {size // n}, {n}, 0, 0, 0}}}}, threads, {arrays}, {{0}})"
    return Kernel(text, writes, reads, lasting=size >= _SMALL_ROWS)


def _norm_rows(x: View, ndims: int, views: list[View]) -> tuple[int, int]:
    """Return the number of rows that are normalized, and of their elements."""
    n = math.prod(x.shape[len(x.shape) - ndims :])
    if not x.size or x.dtype.kind != "f":
        raise Unsupported("rows")
    if any(v.dtype != x.dtype or not v.is_contiguous for v in views):
        raise Unsupported("rows")
    return x.size // n, n


def _check_classes(x: View, target: View, weight: Any, reduction: str, ignore_index: int) -> None:
    plain = len(x.shape) == 2 and x.size and x.is_contiguous and x.dtype.kind == "f"
    if not plain or weight is not None or reduction not in ("mean", "sum") or 0 <= ignore_index < x.shape[1]:
        raise Unsupported("rows")
    if target.dtype != np.int64 or target.shape != x.shape[:1] or not target.is_contiguous:
        raise Unsupported("the classes")


def _word(value: bool) -> str:
    return "true" if value else "false"
