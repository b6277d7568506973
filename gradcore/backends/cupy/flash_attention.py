"""Fused attention on CUDA, which stores no matrix of scores: one kernel forward, two kernels backward.

It applies if the tiles of a head fit into a block's shared memory; wider heads use `attention`. Operands are read
without a copy, also keys and values that several heads share.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.cupy.attention import CudaAttention
from gradcore.backends.cupy.kernels import (
    C_NAMES,
    NULL,
    accumulation_dtype,
    dense,
    dtype_name,
    pass_by_value,
    random_stream,
)
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.random.generator import DropoutDraw
from gradcore.core.typing import AnyArray

__all__ = ["CudaFlashAttention", "defines"]

Ints = tuple[int, ...]

#: Widths that kernels are compiled for, and bytes of the widest rows.
_WIDTHS, _WIDEST = (16, 32, 64, 128, 256), 512
#: Width up to which one kernel computes the gradients by keys and values: the sums of both fit into registers.
_JOINED = 128
#: Bytes that a thread loads at once.
_PACK = 16

#: How many elements an operand's matrices lie apart in each batch dim, and the rows of a matrix.
_STEPS = np.dtype([("batch", "i8", 4), ("row", "i8")])
_OPERANDS = ("query", "key", "value", "mask", "grad")
_NUMBERS = ("queries", "keys", "width", "value_width", "mask_key", "in_packs", "causal")
#: The structure `Heads` of `heads.cuh`.
_HEADS = np.dtype(
    [("sizes", "i8", 4), *((n, "i8") for n in _NUMBERS), *((n, _STEPS) for n in _OPERANDS), ("scale", "f8")]
)


class _Plan(NamedTuple):
    """Launch parameters derived from the layouts of the operands.

    Attributes
    ----------
    lead, lead_of_keys : tuple of int
        Batch dims of the result, and of the gradients by keys and values, which are 1 where heads share these.
    heads : ndarray
        One element, the bytes of the structure that the kernels take by value.
    """

    lead: Ints
    lead_of_keys: Ints
    heads: np.ndarray[Any, Any]


@functools.cache
def defines(
    name: str, width: int, tensor: bool, backward: bool, drops: bool = False, gradient: str = ""
) -> dict[str, str]:
    """Return the macros for compiling the kernels, given a dtype and the width of queries or values.

    Kernels that drop weights (`drops`) have a macro more, and those that compute one `gradient`, by key or value.
    Tiles take 48 KiB of shared memory at most.
    """
    itemsize = np.dtype("float16" if name == "bfloat16" else name).itemsize
    width = next(n for n in _WIDTHS if n >= width)
    size = width * itemsize
    if size > 256:
        rows, columns = (16 if backward else 32), 16
    elif size > 128:
        rows, columns = (32 if backward or itemsize == 8 else 64), 32
    else:
        rows, columns = 64, 64 if tensor and not backward else 32
    macros = {"type": C_NAMES[name], "width": width, "rows": rows, "columns": columns, "tensor": int(tensor)}
    if drops:
        macros["dropout"] = 1
    if gradient:
        macros["gradients"] = f"by_{gradient}s"
    return {key: str(value) for key, value in macros.items()}


def _fits(
    backend: CudaFlashAttention, query: AnyArray, key: AnyArray, value: AnyArray, mask: AnyArray, *settings: Any
) -> bool:
    widest = min(_WIDTHS[-1], _WIDEST // query.dtype.itemsize)
    sizes = query.size, key.size, value.size
    return (
        backend.takes("attention", query, key, value, mask)
        and min(sizes) > 0
        and max(query.shape[-1], value.shape[-1]) <= widest
    )


def _fits_backward(backend: CudaFlashAttention, grad: AnyArray, *rest: Any) -> bool:
    return not rest[-1][3] and grad.dtype == rest[0].dtype and _fits(backend, *rest[:4])


class CudaFlashAttention(CudaAttention):
    """Fused attention of real floating-point arrays with heads up to 256 (float32: 128, float64: 64) wide."""

    address: Any

    @kernel_for(_fits)
    def flash_attention(
        self,
        query: AnyArray,
        key: AnyArray,
        value: AnyArray,
        mask: AnyArray,
        scale: float,
        causal: bool = False,
        dropout: DropoutDraw | None = None,
    ) -> tuple[Any, Any]:
        queries = query.shape[-2]
        plan, (query, key, value, mask, _) = self._attention_plan((query, key, value, mask, None), scale, causal)
        out = self.allocate((*plan.lead, queries, value.shape[-1]), query.dtype)
        logs = self.allocate((*plan.lead, queries, 1), accumulation_dtype(query))
        arrays = query, key, value, NULL if mask is None else mask, out, logs
        self._launch_attention("flash_attention", plan.lead, queries, query, value, (*arrays, plan.heads), dropout)
        return out, logs

    @kernel_for(_fits_backward)
    def flash_attention_backward(
        self,
        grad: AnyArray,
        query: AnyArray,
        key: AnyArray,
        value: AnyArray,
        mask: AnyArray,
        result: AnyArray,
        logsumexp: AnyArray,
        scale: float,
        causal: bool,
        dropout: DropoutDraw | None,
        needs: Sequence[bool],
    ) -> tuple[Any, Any, Any, Any]:
        xp, dtype = self.xp, query.dtype
        plan, (query, key, value, mask, grad) = self._attention_plan((query, key, value, mask, grad), scale, causal)
        result, logs = (dense(xp, xp.broadcast_to(x, (*plan.lead, *x.shape[-2:]))) for x in (result, logsumexp))
        products = self.allocate(logs.shape, logs.dtype)
        of_query = self.allocate((*plan.lead, *query.shape[-2:]), dtype)
        inputs = query, key, value, NULL if mask is None else mask, grad
        arguments = (*inputs, result, logs, products, of_query, plan.heads)
        queries, keys = query.shape[-2], key.shape[-2]
        is_joined = max(query.shape[-1], value.shape[-1]) <= _JOINED
        one = "" if is_joined else "key"  # the same module as for the gradient by the keys
        self._launch_attention("flash_attention_queries", plan.lead, queries, query, value, arguments, dropout, one)
        if not needs[1] and not needs[2]:
            return of_query, None, None, None
        of_key, of_value = (
            self.allocate((*plan.lead_of_keys, *x.shape[-2:]), dtype) if is_needed else None
            for x, is_needed in zip((key, value), needs[1:3], strict=True)
        )
        outputs = tuple(NULL if x is None else x for x in (of_key, of_value))
        arguments = (*inputs, logs, products, *outputs, plan.heads)
        for gradient in ("",) if is_joined else [n for n, x in (("key", of_key), ("value", of_value)) if x is not None]:
            self._launch_attention(
                "flash_attention_keys", plan.lead_of_keys, keys, query, value, arguments, dropout, gradient
            )
        return of_query if needs[0] else None, of_key, of_value, None

    def _attention_plan(self, operands: Sequence[Any], scale: float, causal: bool) -> tuple[_Plan, Sequence[Any]]:
        """Return the plan of a call, and the operands in the layout that the kernels read."""
        mask = operands[3]
        operands = [
            x if x is None or x is mask or _has_dense_rows(x) else self.xp.ascontiguousarray(x) for x in operands
        ]
        aligned = all(x is None or x is mask or self.address(x) % _PACK == 0 for x in operands)
        layouts = tuple(None if x is None else (x.shape, x.strides) for x in operands)
        plan = _plan(layouts, operands[0].dtype.itemsize, aligned, scale, causal)
        if plan is not None:
            return plan, operands
        lead = _lead(layouts)
        expanded = [x if x is None else self.xp.broadcast_to(x, (*lead, *x.shape[-2:])) for x in operands]
        return self._attention_plan([x if x is None else self.xp.ascontiguousarray(x) for x in expanded], scale, causal)

    def _launch_attention(
        self,
        name: str,
        lead: Ints,
        rows: int,
        query: Any,
        value: Any,
        arguments: Sequence[Any],
        dropout: DropoutDraw | None,
        gradient: str = "",
    ) -> None:
        file = "flash_attention" if name == "flash_attention" else "flash_attention_backward"
        width = max(query.shape[-1], value.shape[-1])
        has_tensor_cores, drops = self.has_tensor_cores(query), dropout is not None
        macros = defines(dtype_name(query.dtype), width, has_tensor_cores, file != name, drops, gradient)
        step = int(macros["rows"])
        if dropout is not None:
            stream = random_stream(prod(dropout.shape), dropout.p, dropout.key, dropout.counter)
            arguments = *arguments, *stream, np.float64(dropout.scale)
        self.cuda_kernel(file, name, **macros)((prod(lead) * -(-rows // step),), (2 * step,), arguments)


def _has_dense_rows(x: Any) -> bool:
    """Return whether the last dim of `x` is contiguous."""
    return x.shape[-1] == 1 or x.strides[-1] == x.itemsize


def _lead(layouts: Sequence[Any]) -> Ints:
    """Return the broadcast batch dims of all operands, given their layouts."""
    return np.broadcast_shapes(*(layout[0][:-2] for layout in layouts if layout is not None))


@functools.lru_cache(256)
def _plan(layouts: Any, itemsize: int, aligned: bool, scale: float, causal: bool) -> _Plan | None:
    """Return the plan for operands of these layouts, or None if they have too many batch dims.

    Parameters
    ----------
    layouts : tuple
        Shapes and strides in bytes of query, key, value, mask and upstream gradient; None for what there is not.
    itemsize : int
        Bytes of a number.
    aligned : bool
        Whether all operands begin at multiples of 16 bytes.
    scale : float
    causal : bool
    """
    lead = _lead(layouts)
    steps = [_steps(layout, lead, itemsize) for layout in layouts]
    # Count the last batch dims that neither keys nor values have. Dims that were expanded (with a stride of 0) do not
    # count, because gradients have the full size in these dims.
    shapes = [(1,) * (len(lead) + 2 - len(shape)) + shape for shape, _ in layouts[1:3]]
    shared = 0
    while shared < len(lead) and all(shape[-3 - shared] == 1 for shape in shapes):
        shared += 1
    own_dims = len(lead) - shared
    joined = [
        _merge_dims(lead[part], [s[:-2][part] for s in steps]) for part in (slice(own_dims), slice(own_dims, None))
    ]
    if len(joined[0]) > 3 or len(joined[1]) > 1:
        return None
    missing_dim = (1, (0,) * len(steps))
    dims = [*[missing_dim] * (3 - len(joined[0])), *joined[0], *(joined[1] or [missing_dim])]
    (query, _), (key, _), (value, _) = layouts[:3]
    heads = np.zeros(1, _HEADS)
    heads["sizes"] = [size for size, _ in dims]
    widths = query[-1], value[-1]
    packs = (
        aligned
        and all(n * itemsize % _PACK == 0 for n in widths)
        and all(n * itemsize % _PACK == 0 for i in (0, 1, 2, 4) for n in steps[i][:-1])
    )
    numbers = (query[-2], key[-2], *widths, steps[3][-1], packs, causal)
    for name, number in zip(_NUMBERS, numbers, strict=True):
        heads[name] = number
    for i, name in enumerate(_OPERANDS):
        heads[name]["batch"], heads[name]["row"] = [step[i] for _, step in dims], steps[i][-2]
    heads["scale"] = scale
    return _Plan(lead, (*lead[:own_dims], *(1,) * shared), pass_by_value(heads))


def _steps(layout: Any, lead: Ints, itemsize: int) -> Ints:
    """Return the strides in elements after the batch dims are expanded to `lead`; zeros if `layout` is None."""
    if layout is None:
        return (0,) * (len(lead) + 2)
    shape, strides = layout
    steps = [s // itemsize if n > 1 else 0 for n, s in zip(shape, strides, strict=True)]
    return (*(0,) * (len(lead) + 2 - len(shape)), *steps)


def _merge_dims(sizes: Ints, steps: Sequence[Ints]) -> list[tuple[int, Ints]]:
    """Return dims of size above 1 as pairs of a size and its strides.

    Adjacent dims that every operand steps through evenly are merged.
    """
    results: list[tuple[int, Ints]] = []
    for size, *each in zip(sizes, *steps, strict=True):
        if size == 1:
            continue
        if results and all(before == size * step for before, step in zip(results[-1][1], each, strict=True)):
            results[-1] = results[-1][0] * size, tuple(each)
        else:
            results.append((size, tuple(each)))
    return results
