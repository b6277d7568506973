"""Lowering of indexing by tensors, and of argmax and argmin."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.codegen.cpp import C_TYPES
from gradcore.backends.kernel_rules import Extremum, IndexKernel, extremum_kernels, index_kernels
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.compiler.program.program import Call, Literal, Value
from gradcore.compiler.targets.native.steps import Kernel, Rules, Step, Unsupported, View

__all__ = ["EXTREMUM_CALLS", "INDEX_CALLS", "Indexing"]

#: The smallest number of elements for which several threads are used.
_LARGE = 1 << 15
#: The declared kernel of each kernel and operation that moves elements by index.
INDEX_CALLS = {name: kernel for kernel in index_kernels(NumpyBackend).values() for name in kernel.calls}
#: The declared kernel of each operation that finds an extremum.
EXTREMUM_CALLS = {kernel.operation: kernel for kernel in extremum_kernels(NumpyBackend).values()}


class _Indexed(NamedTuple):
    """Elements of an array, selected by tensors of indices.

    Attributes
    ----------
    x : View
    shape : tuple of int
        The shape of the selected elements.
    strides : tuple of int
        The strides of `x` along the dims of `shape`, zero along dims of the indices.
    indices : list of View
        The indices, broadcast to `shape`.
    dims : list of int
        The dim of `x` that each tensor of indices applies to.
    negative : bool
        Whether indices may be negative, counted from the end.
    """

    x: View
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    indices: list[View]
    dims: list[int]
    negative: bool


class Indexing(Rules):
    """Lowering rules for tensors of indices."""

    def _lower_index_kernel(self, kernel: IndexKernel, name: str, call: Call, results: list[View]) -> list[Step]:
        """Return the steps of a call of a declared kernel by index, or of one of its operations."""
        contents = kernel.calls[name]
        given = dict(zip(contents, call.args, strict=False))
        if call.named or len(call.args) > len(contents):
            raise Unsupported("the arguments")
        steps: list[Step] = []
        if kernel.action == "take" or "out" in given:
            x = self._view(given["x" if kernel.action == "take" else "out"])
        else:
            x = results[0]
            steps += [self._convert(x, self._view(given["x"]))] if "x" in given else self._fill(x, 0)
        if kernel.by == "tuple":
            at = self._read_at(x, {d: self._view(each) for d, each in enumerate(given["index"]) if each is not None})
        elif kernel.by == "each":
            at = self._read_each(x, given["dim"], given["index"])
        else:
            index: View = self._view(given["index"])
            if not x.shape:
                raise Unsupported("the shape of what is indexed")
            if not index.shape and len(results[0].shape) == len(x.shape):
                index = index._replace(shape=(1,), strides=(0,))
            at = self._read_at(x, {given.get("dim", 0) % len(x.shape): index}, negative=False)
        action = "add" if given.get("accumulate") else kernel.action
        values = results[0] if action == "take" else self._view(given["values"])
        if kernel.by == "each" and action == "put":
            values = values.select(tuple(slice(n) for n in at.shape))
        return [*steps, _kernel(action, values, at, "out" in given)]

    def _put(self, out: View, index: tuple[Any, ...], value: Any) -> list[Step]:
        """Return the steps that write a number or an array at tensors of indices along the first dims."""
        if any(type(each) not in (Value, Literal) for each in index):
            raise Unsupported("the index")
        selected = self._read_at(out, dict(enumerate(map(self._view, index))))
        values: View = self.temporary_view(selected.shape, out.dtype)
        return [*self._write(values, value), _kernel("put", values, selected, True)]

    def _read_at(self, x: View, indices: dict[int, View], negative: bool = True) -> _Indexed:
        """Return the elements of `x` at tensors of indices, given by dim; see `_Indexed`."""
        dims, shape = [*indices], np.broadcast_shapes(*[i.shape for i in indices.values()])
        lead = dims[0] if dims == [*range(dims[0], dims[-1] + 1)] else 0
        rest = [d for d in range(len(x.shape)) if d not in dims]
        head, tail = rest[:lead], rest[lead:]
        full_shape = (*(x.shape[d] for d in head), *shape, *(x.shape[d] for d in tail))
        strides = (*(x.strides[d] for d in head), *(0 for _ in shape), *(x.strides[d] for d in tail))
        views = []
        for i in indices.values():
            own_strides = i.broadcast(shape).strides
            views.append(i._replace(shape=full_shape, strides=(*(0 for _ in head), *own_strides, *(0 for _ in tail))))
        return _Indexed(x, full_shape, strides, views, dims, negative)

    def _read_each(self, x: View, dim: int, index: Any) -> _Indexed:
        """Return the elements of `x` at an index for each element along `dim`, as in `gather`."""
        i = self._view(index)
        if not x.shape or len(i.shape) != len(x.shape):
            raise Unsupported("the shape of an index")
        dim %= len(x.shape)
        if any(n > size for d, (n, size) in enumerate(zip(i.shape, x.shape, strict=True)) if d != dim):
            raise Unsupported("the shape of an index")
        strides = tuple(0 if d == dim else s for d, s in enumerate(x.strides))
        return _Indexed(x, i.shape, strides, [i], [dim], False)

    # -- extrema ------------------------------------------------------------------------------------------------------

    def _lower_extremum(self, kernel: Extremum, call: Call, results: list[View]) -> list[Step]:
        """Return the steps of an operation whose kernel finds an extremum."""
        x, dim, *_ = (*call.args, None)
        contents = dict(zip(kernel.results, results, strict=True))
        index, values = contents["index"], contents.get("value")
        a: View = self._view(x)
        steps: list[Step] = []
        if not a.size or not a.shape or call.named or a.dtype.kind == "b":
            raise Unsupported("the extrema")
        if any(v is not None and not v.is_contiguous for v in (index, values)):
            raise Unsupported("the strides")
        if not a.is_contiguous:
            copy = self.temporary_view(a.shape, a.dtype)
            steps, a = [self._convert(copy, a)], copy
        shape = a.shape if dim is not None else (a.size,)
        dim = 0 if dim is None else dim % len(shape)
        sizes = f"{prod(shape[:dim])}, {shape[dim]}, {prod(shape[dim + 1 :])}"
        is_min = "true" if kernel.order == "<" else "false"
        kind, writes = C_TYPES[a.dtype.name], [index] if values is None else [index, values]
        values_pointer = f"({kind}*)nullptr" if values is None else "{1}"
        text = f"extrema<{kind}, {is_min}>({{0}}, {values_pointer}, {{{len(writes)}}}, {sizes}, threads)"
        return [*steps, Kernel(text, writes, [a], lasting=a.size >= _LARGE)]


def _kernel(kind: str, values: View, at: _Indexed, at_once: bool) -> Step:
    """Return the kernel that gathers elements into `values`, or scatters or adds `values` to them.

    If `at_once` is True, it writes nothing if an index is out of bounds, so that the calls can be made again.
    """
    x = at.x
    values = values if kind == "take" else values.broadcast(at.shape)
    if kind == "add" and x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
        raise Unsupported("the dtype")
    if values.shape != at.shape or values.dtype != x.dtype or not values.size or not x.size:
        raise Unsupported("the arrays")
    if any(i.dtype != at.indices[0].dtype or i.dtype.name not in ("int32", "int64") for i in at.indices):
        raise Unsupported("the indices")
    size, integer = x.dtype.itemsize, at.indices[0].dtype.itemsize
    rows = [(values.strides, size), (at.strides, size), *((i.strides, integer) for i in at.indices)]
    if any(s % unit for strides, unit in [*rows, (x.strides, size)] for s in strides):
        raise Unsupported("the strides")
    shape, steps = _merge_dims(at.shape, [tuple(s // unit for s in strides) for strides, unit in rows])
    tables = [shape, *steps[:2], *[tuple(row) for row in steps[2:]]]
    tables += [tuple(x.shape[d] for d in at.dims), tuple(x.strides[d] // size for d in at.dims)]
    numbers = [f"{{{{{', '.join(map(str, each))}}}}}" for each in tables]
    numbers[3:-2] = [f"{{{{{', '.join(numbers[3:-2])}}}}}"]
    count, flags = len(at.indices), (str(flag).lower() for flag in (at.negative, at_once))
    where = f"Indexed<{len(shape)}, {count}>{{{{{', '.join([*numbers, *flags])}}}}}"
    kernel, integers = f"{kind}_places<{C_TYPES[x.dtype.name]}, {C_TYPES[at.indices[0].dtype.name]}", at.indices
    names = ", ".join(f"{{{2 + i}}}" for i in range(count))
    text = f"{kernel}, {len(shape)}, {count}>({{0}}, {{1}}, {where}, {{{{{names}}}}}, threads)"
    target, source = (values, x) if kind == "take" else (x, values)
    return Kernel(text, [target], [source, *integers], fallible=True, lasting=values.size >= _LARGE)


def _merge_dims(shape: tuple[int, ...], rows: list[tuple[int, ...]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Return a shape and strides by array, with adjacent dims merged where all arrays are contiguous in them."""
    dims: list[tuple[int, ...]] = []
    for size, *steps in zip(shape, *rows, strict=True):
        if size == 1:
            continue
        if dims and all(previous_step == step * size for previous_step, step in zip(dims[-1][1:], steps, strict=True)):
            dims[-1] = (dims[-1][0] * size, *steps)
        else:
            dims.append((size, *steps))
    merged = dims or [(1, *(0 for _ in rows))]
    first, *rest = zip(*merged, strict=True)
    return first, rest
