"""Attention of heads with equal batch dims, by a kernel of the compiled library that calls NumPy's OpenBLAS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls, as_dense
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy import threads
from gradcore.backends.numpy.matmul import MANY, blas_alone
from gradcore.backends.numpy.openblas import NUMPY

if TYPE_CHECKING:
    from gradcore.backends.random.generator import DropoutDraw
    from gradcore.core.typing import AnyArray

__all__ = ["CompiledAttention"]

#: Number of multiplications from which a thread pays off.
_WORTH_A_THREAD = 1 << 18
#: The functions of CBLAS by dtype.
_FUNCTIONS = {"f": "sgemm", "d": "dgemm"}


def _takes(
    backend: CompiledAttention,
    query: AnyArray,
    key: AnyArray,
    value: AnyArray,
    mask: AnyArray | None,
    scale: float,
    causal: bool = False,
    dropout: DropoutDraw | None = None,
) -> bool:
    return dropout is None and _are_heads(backend, scale, query, key, value, mask)


def _takes_gradients(
    backend: CompiledAttention,
    grad: AnyArray | None,
    grad_weights: AnyArray | None,
    query: AnyArray,
    key: AnyArray,
    value: AnyArray,
    weights: AnyArray,
    scale: float,
    causal: bool,
    needs: Sequence[bool],
) -> bool:
    if grad is None or grad_weights is not None or needs[3]:
        return False
    others = (grad, value.shape[-1]), (weights, key.shape[-2])
    return _are_heads(backend, scale, query, key, value, None, *others)


def _takes_gradients_of_flash(
    backend: CompiledAttention,
    grad: AnyArray,
    query: AnyArray,
    key: AnyArray,
    value: AnyArray,
    mask: AnyArray | None,
    result: AnyArray,
    logsumexp: AnyArray,
    scale: float,
    causal: bool,
    dropout: DropoutDraw | None,
    needs: Sequence[bool],
) -> bool:
    if dropout is not None or needs[3]:
        return False
    return _are_heads(backend, scale, query, key, value, mask, (grad, value.shape[-1]), (logsumexp, 1))


def _are_heads(
    backend: CompiledAttention,
    scale: float,
    query: AnyArray,
    key: AnyArray,
    value: AnyArray,
    mask: AnyArray | None,
    *others: tuple[AnyArray, int],
) -> bool:
    """Return whether the kernels support these operands, whose shapes must fit: the kernels do not check them.

    The mask may have any shape that broadcasts to the scores. Other arrays have a row of a given length for each query.
    """
    lead, dtype = query.shape[:-2], query.dtype
    if dtype.char not in backend.blas_functions or not scale or not math.isfinite(scale):
        return False
    if not all(a.size and a.dtype is dtype and a.shape[:-2] == lead for a in (query, key, value)):
        return False
    if key.shape[-1] != query.shape[-1] or value.shape[-2] != key.shape[-2]:
        return False
    if not all(a.dtype is dtype and a.shape == (*query.shape[:-1], n) for a, n in others):
        return False
    if mask is None:
        return True
    ends = zip(reversed(mask.shape), reversed((*query.shape[:-1], key.shape[-2])), strict=False)
    return (
        mask.dtype is dtype
        and mask.flags.aligned
        and mask.ndim <= query.ndim
        and all(n in (1, expected) for n, expected in ends)
    )


class CompiledAttention(CompiledCalls):
    """Attention of float32 and float64 arrays that saves the weights, or the sums of exponentials."""

    @cached_property
    def blas_functions(self) -> dict[str, tuple[int, bool]]:
        """The address of BLAS's product by dtype, and whether its integers have 64 bits; empty for another BLAS."""
        addresses = {char: NUMPY.function(name) for char, name in _FUNCTIONS.items()}
        return {char: address for char, address in addresses.items() if address is not None}

    @kernel_for(_takes)
    def attention(
        self,
        query: AnyArray,
        key: AnyArray,
        value: AnyArray,
        mask: AnyArray | None,
        scale: float,
        causal: bool = False,
    ) -> tuple[AnyArray, AnyArray]:
        weights = np.empty((*query.shape[:-1], key.shape[-2]), query.dtype)
        return self._attend(query, key, value, mask, scale, causal, True, weights)

    @kernel_for(_takes)
    def flash_attention(
        self,
        query: AnyArray,
        key: AnyArray,
        value: AnyArray,
        mask: AnyArray | None,
        scale: float,
        causal: bool = False,
        dropout: DropoutDraw | None = None,
    ) -> tuple[AnyArray, AnyArray]:
        logs = np.empty((*query.shape[:-1], 1), query.dtype)
        return self._attend(query, key, value, mask, scale, causal, False, logs)

    def _attend(
        self,
        query: AnyArray,
        key: AnyArray,
        value: AnyArray,
        mask: AnyArray | None,
        scale: float,
        causal: bool,
        keeps: bool,
        saved: AnyArray,
    ) -> tuple[AnyArray, AnyArray]:
        """Return the result and `saved`, to which the kernel writes the weights, or the logarithms of sums."""
        query, key, value = map(_with_dense_rows, (query, key, value))
        out = _empty_like(query, (*query.shape[:-1], value.shape[-1]))
        masks = out if mask is None else np.broadcast_to(mask, (*query.shape[:-1], key.shape[-2]))
        settings = causal, scale, mask is not None, keeps
        self._run_on_heads("attention", query.size * key.shape[-2], *settings, query, key, value, masks, out, saved)
        return out, saved

    @kernel_for(_takes_gradients)
    def attention_backward(
        self,
        grad: AnyArray,
        grad_weights: None,
        query: AnyArray,
        key: AnyArray,
        value: AnyArray,
        weights: AnyArray,
        scale: float,
        causal: bool,
        needs: Sequence[bool],
    ) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
        return self._attend_backward(grad, query, key, value, None, weights, scale, causal, needs, True)

    @kernel_for(_takes_gradients_of_flash)
    def flash_attention_backward(
        self,
        grad: AnyArray,
        query: AnyArray,
        key: AnyArray,
        value: AnyArray,
        mask: AnyArray | None,
        result: AnyArray,
        logsumexp: AnyArray,
        scale: float,
        causal: bool,
        dropout: DropoutDraw | None,
        needs: Sequence[bool],
    ) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
        return self._attend_backward(grad, query, key, value, mask, logsumexp, scale, causal, needs, False)

    def _attend_backward(
        self,
        grad: AnyArray,
        query: AnyArray,
        key: AnyArray,
        value: AnyArray,
        mask: AnyArray | None,
        saved: AnyArray,
        scale: float,
        causal: bool,
        needs: Sequence[bool],
        keeps: bool,
    ) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
        """Return the gradients that are needed, from what `_attend` has saved."""
        grad, query, key, value = map(_with_dense_rows, (grad, query, key, value))
        inputs = zip((query, key, value), needs[:3], strict=True)
        results = [_empty_like(x, x.shape) if is_needed else None for x, is_needed in inputs]
        masks = grad if mask is None else np.broadcast_to(mask, (*query.shape[:-1], key.shape[-2]))
        bits = sum(1 << i for i in range(3) if needs[i])
        settings = causal, scale, mask is not None, keeps, bits
        arrays = grad, query, key, value, masks, as_dense(saved), *(grad if a is None else a for a in results)
        self._run_on_heads("attention_backward", query.size * key.shape[-2], *settings, *arrays)
        return *results, None  # type: ignore[return-value]

    def _run_on_heads(self, name: str, products: int, *arguments: AnyArray) -> None:
        """Run a kernel in the library's threads, with BLAS on one thread."""
        char = arguments[-1].dtype.char
        number = max(1, min(threads.available(), products // _WORTH_A_THREAD))
        with blas_alone(products, MANY):
            self._function(name, char)(*self.blas_functions[char], number, *arguments)


def _with_dense_rows(x: AnyArray) -> AnyArray:
    """Return `x`, or a copy if the elements of a row are not adjacent, or rows overlap."""
    return x if _has_dense_rows(x) else np.array(x, order="C")


def _has_dense_rows(x: AnyArray) -> bool:
    size, columns = x.itemsize, x.shape[-1]
    row, column = x.strides[-2:]
    is_dense = columns == 1 or column == size
    return bool(is_dense and row % size == 0 and row >= columns * size and x.flags.aligned)


def _empty_like(x: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    """Return a new array with the order of dims that `x` has in memory, so that heads are joined without a copy."""
    out: AnyArray = np.empty_like(x, shape=shape)
    return out if _has_dense_rows(out) else np.empty(shape, x.dtype)
