"""Softmax, normalization and cross entropy on CUDA: one kernel for each pass over the data."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradcore.backends.base import Backend
from gradcore.backends.cupy.kernels import (
    NULL,
    CudaKernels,
    accumulation_dtype,
    block_of,
    dense,
    dtype_name,
    elements,
    rows_of,
    type_name,
)
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.kernel_rules import RowKernel, row_kernels, writes
from gradcore.backends.portable.cross_entropy import LossGradients, Targets
from gradcore.backends.portable.normalization import Normalization, NormGradients, Triple
from gradcore.backends.portable.reductions import Dims, Reductions
from gradcore.core.typing import AnyArray

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["CudaRows"]

#: Number of blocks that occupy a whole GPU; elements of a channel from which an additional block pays off.
_BLOCKS, _CHUNK = 1024, 2048

#: Number of rows up to which one block reduces the losses of all rows.
_ROWS_OF_A_BLOCK = 1 << 14

#: Number of points of an image from which each thread handles one point.
_POINTS = 32

_TARGETS = {"int64": "i64", "uint8": "u8", "int32": "i32"}


class _Parts(NamedTuple):
    """Partial sums of channels.

    Attributes
    ----------
    sums : array
        ``(2, channels, parts)``.
    chunk : int
        Elements of a part; the last one may have fewer.
    sizes : tuple of int
        How many channels there are, parts of a channel, and elements of a channel.
    launch : tuple
        Grid and block of a kernel with a warp for each channel.
    """

    sums: Any
    chunk: int
    sizes: tuple[int, int, int]
    launch: tuple[Any, Any]


def _takes_norm(backend: CudaRows, x: Array, weight: Array, bias: Array, *settings: Any) -> bool:
    return backend.takes("normalization", x, weight, bias)


def _takes_gradients(backend: CudaRows, arguments: NormGradients) -> bool:
    return backend.takes("normalization", *arguments.arrays[:5])


def _takes_loss(backend: CudaRows, x: Array, target: Array, weight: Array, *settings: Any) -> bool:
    return backend.takes("cross_entropy", x, weight) and dtype_name(target.dtype) in _TARGETS


def _takes_nll_gradient(
    backend: CudaRows, grad: Array, sizes: Sequence[int], target: Array, weight: Array, *settings: object
) -> bool:
    return bool(prod(sizes)) and _takes_loss(backend, grad, target, weight)


def _takes_loss_gradient(backend: CudaRows, arguments: LossGradients) -> bool:
    arrays = arguments.powers, arguments.grad, arguments.weight
    return (
        arguments.of_loss_alone
        and backend.takes("cross_entropy", *arrays)
        and dtype_name(arguments.target.dtype) in _TARGETS
    )


class CudaRows(CudaKernels, Reductions, Normalization, Targets):
    """Kernels that reduce rows or channels; unsupported arrays use the portable code."""

    xp: Any
    check_watched: Any
    evaluate_formula: Any

    def _rows_kernel(self, file: str, name: str, like: Any) -> Any:
        """Return the kernel `name` of a source file for the dtype of the array `like`."""
        return self.cuda_kernel(file, name, type=type_name(like.dtype))

    def _allocate_channels(self, count: int, channels: int, dtype: object) -> list[Array]:
        """Return `count` vectors with an element for each channel. Rows of one matrix would each need a view."""
        return [self.allocate(channels, dtype) for _ in range(count)]

    # -- layers and groups ---------------------------------------------------------------------------------------

    @kernel_for(_takes_norm)
    def native_layer_norm(self, x: Array, weight: Array | None, bias: Array | None, ndims: int, eps: float) -> Triple:
        lead = x.shape[: x.ndim - ndims]
        return self._normalize_rows(x, weight, bias, lead + (1,) * ndims, 1, 1, eps)

    @kernel_for(_takes_norm)
    def native_group_norm(self, x: Array, weight: Array | None, bias: Array | None, groups: int, eps: float) -> Triple:
        return self._normalize_rows(x, weight, bias, (x.shape[0], groups), groups, prod(x.shape[2:]), eps)

    def _normalize_rows(
        self, x: Any, weight: Any, bias: Any, shape: tuple[int, ...], groups: int, points: int, eps: float
    ) -> Triple:
        """Return rows normalized to mean 0 and variance 1, times the weights, plus the biases, and their statistics.

        The statistics are the means and the variances of the rows, arrays of the shape `shape`.
        """
        xp, rows, kind = self.xp, prod(shape), accumulation_dtype(x)
        width = x.size // rows
        out, mean, var = self.allocate(x.shape, x.dtype), self.allocate(shape, kind), self.allocate(shape, kind)
        arrays = (dense(xp, x), dense(xp, weight), dense(xp, bias), out, mean, var)
        sizes = self.int64s(rows, width, groups, points)
        kernel = self._rows_kernel("normalization", "normalize_rows", x)
        kernel(*rows_of(x, rows, width), (*arrays, *sizes, np.float64(eps)))
        return out, mean, var

    @kernel_for(_takes_gradients, NormGradients)
    def layer_norm_backward(self, arguments: NormGradients) -> Triple:
        grad, _, _, x, _, mean, var, eps, needs, ndims = arguments
        lead, normalized = x.shape[: x.ndim - ndims], x.shape[x.ndim - ndims :]
        to_x = self._normalize_rows_backward(arguments.arrays, prod(lead), 1, 1, eps) if needs[0] else None
        if not needs[1] and not needs[2]:
            return to_x, None, None
        arrays = grad, x, *self._statistics(x, mean, var)
        of_weight, of_bias = self._sum_columns(
            "layer_parameters", arrays, 2, prod(lead), prod(normalized), np.float64(eps)
        )
        return (
            to_x,
            of_weight.reshape(normalized) if needs[1] else None,
            of_bias.reshape(normalized) if needs[2] else None,
        )

    @kernel_for(_takes_gradients, NormGradients)
    def group_norm_backward(self, arguments: NormGradients) -> Triple:
        grad, _, _, x, _, mean, var, eps, needs, groups = arguments
        points = prod(x.shape[2:])
        to_x = (
            self._normalize_rows_backward(arguments.arrays, x.shape[0] * groups, groups, points, eps)
            if needs[0]
            else None
        )
        if not needs[1] and not needs[2]:
            return to_x, None, None
        total, product = self._channel_sums(grad, x, mean, var, groups, eps)
        return to_x, product if needs[1] else None, total if needs[2] else None

    def _normalize_rows_backward(self, arrays: Sequence[Any], rows: int, groups: int, points: int, eps: float) -> Any:
        """Return the gradient with respect to the rows, given the kernel's arguments `arrays`."""
        x = arrays[3]
        out = self.allocate(x.shape, x.dtype)
        sizes = self.int64s(rows, x.size // rows, groups, points)
        kernel = self._rows_kernel("normalization", "normalize_rows_backward", x)
        inputs = [*(dense(self.xp, a) for a in arrays[:5]), *self._statistics(x, *arrays[5:])]
        kernel(*rows_of(x, rows, x.size // rows), (*inputs, out, *sizes, np.float64(eps)))
        return out

    def _statistics(self, x: Any, *arrays: Any) -> list[Any]:
        """Return means, variances or their roots as the kernels read them: in float32 if `x` is float16 or bfloat16.

        Rounded to 16 bits, the gradients of rows whose mean is large compared with their deviation would be wrong by
        per cents.
        """
        return [dense(self.xp, a.astype(accumulation_dtype(x), copy=False)) for a in arrays]

    def _sum_columns(
        self, name: str, arrays: Sequence[Any], count: int, rows: int, width: int, *rest: Any
    ) -> list[Any]:
        """Return `count` sums down the columns of matrices.

        A kernel sums blocks of rows, then the blocks are summed.
        """
        xp, dtype = self.xp, arrays[0].dtype
        step = max(32, -(-rows // 64))
        blocks = -(-rows // step)
        kind = np.float64 if dtype.itemsize == 8 else np.float32
        joined = self.allocate((count, blocks, width), kind) if blocks > 1 else None
        partial = [self.allocate(width, kind) for _ in range(count)] if joined is None else joined
        kernel = self._rows_kernel("normalization", name, arrays[0])
        inputs = [dense(xp, a) for a in arrays]
        sizes = self.int64s(rows, width, step)
        kernel((-(-width // 64), blocks), (64,), (*inputs, *partial, *sizes, *rest))
        totals = partial if joined is None else joined.sum(axis=1)
        return [total.astype(dtype, copy=False) for total in totals]

    # -- root mean squares ---------------------------------------------------------------------------------------

    @kernel_for(lambda self, x, weight, *settings: self.takes("normalization", x, weight))
    def fused_rms_norm(self, x: Array, weight: Array | None, ndims: int, eps: float) -> tuple[Array, Array]:
        xp, lead = self.xp, x.shape[: x.ndim - ndims]
        rows = prod(lead)
        out, scale = self.allocate(x.shape, x.dtype), self.allocate(lead + (1,) * ndims, accumulation_dtype(x))
        sizes = self.int64s(rows, x.size // rows)
        kernel = self._rows_kernel("normalization", "scale_rows", x)
        kernel(
            *rows_of(x, rows, x.size // rows), (dense(xp, x), dense(xp, weight), out, scale, *sizes, np.float64(eps))
        )
        return out, scale

    @kernel_for(lambda self, *arguments: self.takes("normalization", *arguments[:4]))
    def rms_norm_backward(
        self,
        grad: Array,
        grad_scale: Array,
        x: Array,
        weight: Array | None,
        scale: Array,
        ndims: int,
        needs: Sequence[bool],
    ) -> tuple[Array | None, Array | None]:
        (scale,) = self._statistics(x, scale)
        arrays = (grad, grad_scale, x, weight, scale)
        rows, to_x, to_weight = prod(x.shape[: x.ndim - ndims]), None, None
        width = x.size // rows
        if needs[0]:
            to_x = self.allocate(x.shape, x.dtype)
            kernel = self._rows_kernel("normalization", "scale_rows_backward", x)
            inputs = [dense(self.xp, a) for a in arrays]
            kernel(*rows_of(x, rows, width), (*inputs, to_x, np.int64(rows), np.int64(width)))
        if needs[1]:
            (to_weight,) = self._sum_columns("scale_parameters", (grad, x, scale), 1, rows, width)
            to_weight = to_weight.reshape(x.shape[x.ndim - ndims :])
        return to_x, to_weight

    # -- channels ------------------------------------------------------------------------------------------------

    @kernel_for(_takes_norm)
    def native_batch_norm(self, x: Array, weight: Array | None, bias: Array | None, eps: float) -> Triple:
        mean, var, scale, shift = self._allocate_channels(4, x.shape[1], accumulation_dtype(x))
        moments = self._sum_channel_parts("channel_moments", (x,))
        sizes = self.int64s(*moments.sizes, moments.chunk)
        arrays = (dense(self.xp, weight), dense(self.xp, bias), mean, var, scale, shift)
        kernel = self._rows_kernel("normalization", "channel_statistics", x)
        kernel(*moments.launch, (*moments.sums, *arrays, *sizes, np.float64(eps)))
        return self._scale_channels(x, scale, shift), mean, var

    @writes("target")
    def move_statistics(self, target: Sequence[Any], new: Sequence[Any], keep: float, shares: Sequence[float]) -> None:
        """Update running means and variances, dense arrays, in place to ``keep * target + share * new``."""
        channels, inputs = target[0].size, [dense(self.xp, a) for a in new]
        kernel = self._rows_kernel("normalization", "move_statistics", target[0])
        kernel(*elements(channels), (*target, *inputs, np.int64(channels), *map(np.float64, (keep, *shares))))

    @kernel_for(_takes_gradients, NormGradients)
    def batch_norm_backward(self, arguments: NormGradients) -> Triple:
        grad, grad_mean, grad_var, x, weight, mean, var, eps, needs, _ = arguments
        mean, var = self._statistics(x, mean, var)
        sums = self._sum_channel_parts("channel_products", (grad, x, mean, var), np.int64(0), np.float64(eps))
        of_weight, of_bias = self._allocate_channels(2, x.shape[1], x.dtype)
        scale, slope, shift = self._allocate_channels(3, x.shape[1], accumulation_dtype(x))
        results = of_weight, of_bias, scale, slope, shift
        inputs = [*(dense(self.xp, a) for a in (grad_mean, grad_var, weight)), var]
        kernel = self._rows_kernel("normalization", "channel_gradients", x)
        kernel(*sums.launch, (*sums.sums, *inputs, *results, *self.int64s(*sums.sizes), np.float64(eps)))
        result = None
        if needs[0]:
            scale, slope, shift, mean = (_column(a, x) for a in (scale, slope, shift, mean))
            arrays = {"grad": grad, "scale": scale, "x": x, "mean": mean, "slope": slope, "shift": shift}
            result = self.evaluate_formula("normalize_backward", _to_input, x.dtype, **arrays)
        return result, of_weight if needs[1] else None, of_bias if needs[2] else None

    @kernel_for(lambda self, x, mean, var, weight, bias, eps: self.takes("normalization", x, weight, bias))
    def batch_norm_given(
        self, x: Array, mean: Array, var: Array, weight: Array | None, bias: Array | None, eps: float
    ) -> Array:
        scale, shift = self._allocate_channels(2, x.shape[1], accumulation_dtype(x))
        inputs = [*self._statistics(x, mean, var), dense(self.xp, weight), dense(self.xp, bias)]
        kernel = self._rows_kernel("normalization", "channel_scales", x)
        kernel(*elements(x.shape[1]), (*inputs, scale, shift, np.int64(x.shape[1]), np.float64(eps)))
        return self._scale_channels(x, scale, shift)

    def _scale_channels(self, x: Any, scale: Any, shift: Any) -> Any:
        """Return ``x * scale + shift``, where `scale` and `shift` have one number for each channel."""
        scale, shift = _column(scale, x), _column(shift, x)
        return self.evaluate_formula("normalize", _scaled_and_shifted, x.dtype, x=x, scale=scale, shift=shift)

    def _channel_sums(self, grad: Any, x: Any, mean: Any, var: Any, groups: int, eps: float) -> tuple[Any, Any]:
        """Return, for each channel, the sum of `grad`, and of the products of `grad` with the normalized channel."""
        arrays = grad, x, *self._statistics(x, mean, var)
        parts = self._sum_channel_parts("channel_products", arrays, np.int64(groups), np.float64(eps))
        total, product = parts.sums.sum(axis=2).astype(x.dtype, copy=False)
        return total, product

    def _sum_channel_parts(self, name: str, arrays: Sequence[Any], *settings: Any) -> _Parts:
        """Return two sums for each part of each channel. There are as many parts as keep the whole device busy."""
        xp, x = self.xp, arrays[0]
        (batch, channels), points = x.shape[:2], prod(x.shape[2:])
        count = batch * points
        parts = max(1, min(-(-_BLOCKS // channels), count // _CHUNK))
        chunk = -(-count // parts)
        parts = -(-count // chunk)
        sums = self.allocate((2, channels, parts), np.float64 if x.dtype.itemsize == 8 else np.float32)
        kernel = self._rows_kernel("normalization", name, x)
        sizes = self.int64s(batch, channels, points, chunk)
        inputs = [dense(xp, a) for a in arrays]
        kernel((channels, parts), block_of(chunk), (*inputs, *sums, *sizes, *settings))
        return _Parts(sums, chunk, (channels, parts, count), ((-(-channels // 8),), (32, 8)))

    # -- variances -----------------------------------------------------------------------------------------------

    def var_mean_over(self, x: Array, dims: Dims, correction: float, root: bool = False) -> tuple[Array, Array]:
        layout = _channel_layout(x.shape, dims)
        if layout is None or not self.takes("normalization", x):
            converted = x.astype(np.float32) if x.dtype.char in "eE" else x
            var, mean = super().var_mean_over(converted, dims, correction, root)
            return var.astype(x.dtype, copy=False) if converted is not x else var, mean.astype(x.dtype, copy=False)
        shape = [1 if dims is None or i in dims else n for i, n in enumerate(x.shape)]
        mean, var = self.allocate((2, *shape), x.dtype)
        parts = self._sum_channel_parts("channel_moments", (dense(self.xp, x).reshape(layout),))
        sizes = self.int64s(*parts.sizes, parts.chunk)
        degrees = np.float64(max(parts.sizes[2] - correction, 0.0))
        kernel = self._rows_kernel("normalization", "channel_variances", x)
        kernel(*parts.launch, (*parts.sums, mean, var, *sizes, degrees, np.bool_(root)))
        return var, mean

    # -- cross entropy -------------------------------------------------------------------------------------------

    @kernel_for(_takes_loss)
    def softmax_nll(self, x: Array, target: Array, weight: Array | None, reduction: str, ignore_index: int) -> Any:
        xp, dim = self.xp, min(x.ndim, 2) - 1
        classes, points = x.shape[dim], prod(x.shape[2:])
        rows, kind = x.size // classes, accumulation_dtype(x)
        losses, weights = self.allocate(target.shape, kind), self.allocate(target.shape, kind)
        powers = self.allocate(x.shape, x.dtype)
        total = self.allocate((*x.shape[:dim], 1, *x.shape[dim + 1 :]), kind)
        inputs = [dense(xp, a) for a in (x, target, weight)]
        name, launch = "cross_entropy" if points > 1 else "cross_entropy_rows", rows_of(x, rows, classes)
        if points >= _POINTS:
            name, launch = "cross_entropy_points", elements(rows)
        kernel = self._loss_kernel(name, x, target)
        with self.check_watched(target, classes, ignore_index, "Target {index} is out of bounds.") as (number, flag):
            sizes = self.int64s(rows, classes, points, ignore_index, number)
            kernel(*launch, (*inputs, losses, weights, powers, total, *sizes, flag))
        return *self._reduce_losses(losses, weights, reduction, x, target), powers, total

    def _reduce_losses(
        self, losses: AnyArray, weights: AnyArray, reduction: str, x: AnyArray, target: AnyArray
    ) -> tuple[AnyArray, AnyArray]:
        """Return the losses of rows, their sum or their weighted mean, in the dtype of `x`, and the sum of weights."""
        if reduction == "none":
            return losses.astype(x.dtype, copy=False), weights.sum()
        if losses.size > _ROWS_OF_A_BLOCK:
            loss, weight_sum = losses.sum(), weights.sum()
            return (loss / weight_sum if reduction == "mean" else loss).astype(x.dtype, copy=False), weight_sum
        loss, weight_sum = self.allocate((), x.dtype), self.allocate((), weights.dtype)
        arguments = losses, weights, loss, weight_sum, *self.int64s(losses.size), np.bool_(reduction == "mean")
        self._loss_kernel("reduce_losses", x, target)((1,), block_of(losses.size), arguments)
        return loss, weight_sum

    @kernel_for(_takes_loss_gradient, LossGradients)
    def softmax_nll_backward(self, arguments: LossGradients) -> Array:
        grad, _, _, target, weight, total_weight, powers, total, reduction, ignore_index = arguments
        xp, dim = self.xp, min(powers.ndim, 2) - 1
        kind = accumulation_dtype(powers)
        divisor = total_weight.astype(kind, copy=False) if reduction == "mean" else None
        total = total.astype(kind, copy=False)
        out = self.allocate(powers.shape, powers.dtype)
        inputs = [dense(xp, a) for a in (grad, target, weight, divisor, powers, total)]
        classes, points, grad_step = powers.shape[dim], prod(powers.shape[2:]), int(grad.size > 1)
        count = powers.size // classes if points == 1 else powers.size
        kernel = self._loss_kernel(f"cross_entropy_backward{'_rows' if points == 1 else ''}", powers, target)
        grid, block = rows_of(powers, count, classes) if points == 1 else elements(count)
        kernel(grid, block, (*inputs, out, *self.int64s(count, classes, points, ignore_index, grad_step)))
        return out

    @kernel_for(_takes_loss)
    def nll(
        self, x: Array, target: Array, weight: Array | None, reduction: str, ignore_index: int
    ) -> tuple[Array, Array]:
        classes, points, kind = x.shape[min(x.ndim, 2) - 1], prod(x.shape[2:]), accumulation_dtype(x)
        rows, is_reduced = x.size // classes, reduction != "none"
        has_one_block = rows <= _ROWS_OF_A_BLOCK
        loss = self.allocate(() if is_reduced else target.shape, x.dtype)
        losses = self.allocate(target.shape, kind) if is_reduced and not has_one_block else None
        weights = None if has_one_block else self.allocate(target.shape, kind)
        weight_sum = self.allocate((), kind) if has_one_block else None
        results = (None, losses, weights, loss, weight_sum) if is_reduced else (loss, None, weights, None, weight_sum)
        inputs = [dense(self.xp, a) for a in (x, target, weight)]
        outputs = [NULL if a is None else a for a in results]
        kernel = self._loss_kernel("nll", x, target)
        launch = ((1,), block_of(rows)) if has_one_block else elements(rows)
        with self.check_watched(target, classes, ignore_index, "Target {index} is out of bounds.") as (number, flag):
            sizes = self.int64s(rows, classes, points, ignore_index, number)
            kernel(*launch, (*inputs, *outputs, *sizes, flag, np.bool_(reduction == "mean")))
        if weight_sum is not None:
            return loss, weight_sum
        return self._reduce_losses(losses if is_reduced else loss, weights, reduction, x, target)

    @kernel_for(_takes_nll_gradient)
    def nll_backward(
        self,
        grad: Array,
        sizes: Sequence[int],
        target: Array,
        weight: Array | None,
        total_weight: Array,
        reduction: str,
        ignore_index: int,
    ) -> Array:
        divisor = total_weight.astype(accumulation_dtype(grad), copy=False) if reduction == "mean" else None
        out = self.allocate(sizes, grad.dtype)
        inputs = [dense(self.xp, a) for a in (grad, target, weight, divisor)]
        numbers = out.size, sizes[min(len(sizes), 2) - 1], prod(sizes[2:]), ignore_index, int(reduction == "none")
        self._loss_kernel("nll_backward", grad, target)(*elements(out.size), (*inputs, out, *self.int64s(*numbers)))
        return out

    def _loss_kernel(self, name: str, x: Any, target: Any) -> Any:
        types = {"type": type_name(x.dtype), "index": _TARGETS[dtype_name(target.dtype)]}
        return self.cuda_kernel("cross_entropy", name, **types)


def _channel_layout(shape: Sequence[int], dims: Dims) -> tuple[int, int, int] | None:
    """Return a shape as ``(images, channels, points)``, so that each channel is reduced.

    It is None if the kept dims are not adjacent, or come last.
    """
    reduced = [dims is None or i in dims for i in range(len(shape))]
    kept_dims = [i for i, is_reduced in enumerate(reduced) if not is_reduced and shape[i] > 1]
    first, last = (kept_dims[0], kept_dims[-1] + 1) if kept_dims else (0, 0)
    points = prod(shape[last:])
    if any(n > 1 and is_reduced for n, is_reduced in zip(shape[first:last], reduced[first:last], strict=True)):
        return None
    return (prod(shape[:first]), prod(shape[first:last]), points) if points >= _POINTS or first == 0 else None


def _column(values: Any, x: Any) -> Any:
    """Return `values`, one for each channel, in a shape that broadcasts with `x`."""
    return values.reshape(-1, *(1,) * (x.ndim - 2))


def _scaled_and_shifted(F: Any, x: Any, scale: Any, shift: Any) -> Any:
    return x * scale + shift


def _to_input(F: Any, grad: Any, scale: Any, x: Any, mean: Any, slope: Any, shift: Any) -> Any:
    """Return the gradient with respect to the input of a normalization."""
    return grad * scale + ((x - mean) * slope + shift)


def _launcher(kernel: RowKernel) -> Any:
    """Return the method that launches a declared kernel along a dim, for arrays that have one shape."""
    family, symbol, *flags = kernel.cuda or ()
    further_count, call = len(kernel.reads) - 1, kernel.call

    def supports(backend: CudaRows, x: Array, *rest: Any) -> bool:
        if not backend.takes(family, x, *rest[:further_count]) or call.dtype_of(rest[further_count:]) is not None:
            return False
        return all(a.shape == x.shape for a in rest[:further_count])

    def run(backend: CudaRows, x: Array, *rest: Any) -> Array:
        settings, xp = rest[further_count:], backend.xp
        dim, flag = settings[call.dim], np.bool_(bool(flags) or call.number_of(settings) != 0)
        n, inner = x.shape[dim], prod(x.shape[dim % x.ndim + 1 :])
        out, count = backend.allocate(x.shape, x.dtype), x.size // n
        arrays = [dense(xp, a) for a in (x, *rest[:further_count])]
        if inner == 1:
            launch, sizes = rows_of(x, count, n), backend.int64s(count, n)
            backend._rows_kernel(family, f"{symbol}_rows", x)(*launch, (*arrays, out, *sizes, flag))
        else:
            launch, sizes = elements(count), backend.int64s(count, n, inner)
            backend._rows_kernel(family, f"{symbol}_columns", x)(*launch, (*arrays, out, *sizes, flag))
        return out

    return kernel_for(supports)(run)


for _name, _kernel in row_kernels(Backend).items():
    if _kernel.cuda:
        setattr(CudaRows, _name, _launcher(_kernel))
        vars(CudaRows)[_name].__set_name__(CudaRows, _name)
