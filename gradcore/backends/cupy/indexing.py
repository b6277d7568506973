"""Indexing on CUDA: atomic operations that CuPy lacks, and bounds checks that do not wait for the device."""

from __future__ import annotations

import itertools
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends import sync_debug
from gradcore.backends.cupy.kernels import NULL, CudaKernels, dense, elements, type_name
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.indexing import OUT_OF_BOUNDS, Indexing, Indices, distinct, linear
from gradcore.core import config, determinism
from gradcore.core.errors import OutOfBoundsError
from gradcore.core.locks import new_lock

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["CudaIndexing"]


#: Largest number of rows for each thread, unless there are very many rows.
_CHUNK = 64
#: Number of rows up to which they are summed by index without sorting, by comparing all pairs of indices.
_FEW = 2048


class _Check:
    """A bounds check that a kernel makes: a context manager within which the kernel is launched.

    The host must not take a check for made that another thread has not launched yet, although it waited for the stream.

    Parameters
    ----------
    watch : _Watch
    words : tuple
        The message, the dim and its size.
    stream : int
        The address of the stream.
    """

    __slots__ = ("first", "is_launched", "number", "stream", "words")

    def __init__(self, watch: _Watch, words: tuple[str, object, object], stream: int) -> None:
        self.number, self.first = next(watch.numbers), watch.first
        self.words, self.stream, self.is_launched = words, stream, False

    def __enter__(self) -> tuple[int, Any]:
        """Return the number of the check, and the device array to which a kernel writes it with a bad index."""
        return self.number, self.first

    def __exit__(self, *exception: object) -> None:
        self.is_launched = True


class _Watch:
    """Bounds checks on one device that the host has not yet read."""

    def __init__(self, first: Any) -> None:
        #: Device array with the number of the first check that failed, or 0, and the index that is out of bounds.
        self.first = first
        #: Checks since the host last waited for their stream.
        self._pending: deque[_Check] = deque(maxlen=1000)
        #: Checks in captured graphs, which every replay computes again.
        self._recorded: deque[_Check] = deque(maxlen=1000)
        self.numbers = itertools.count(1)
        self._lock = new_lock()

    def begin_check(self, words: tuple[str, object, object], stream: int, is_capturing: bool) -> _Check:
        """Register a check whose kernel is to be launched on a stream."""
        check = _Check(self, words, stream)
        with self._lock:
            (self._recorded if is_capturing else self._pending).append(check)
        return check

    def is_empty(self) -> bool:
        """Return whether no check can have failed since the host last read the checks."""
        return not (self._pending or self._recorded)

    def list_launched(self, stream: int | None) -> list[_Check]:
        """Return the checks on a stream (all streams for None) whose kernels have been launched."""
        with self._lock:
            return [c for c in self._pending if c.is_launched and (stream is None or c.stream == stream)]

    def finish(self, checks: list[_Check]) -> None:
        """Remove checks that the device has made."""
        with self._lock:
            left = [c for c in self._pending if c not in checks] if len(checks) < len(self._pending) else []
            self._pending.clear()
            self._pending.extend(left)

    def words_of(self, number: int) -> tuple[str, object, object]:
        """Return the message of a check, its dim and the size of this dim."""
        with self._lock:
            known = {check.number: check.words for check in (*self._pending, *self._recorded)}
        return known.get(number, (OUT_OF_BOUNDS, "?", "?"))


class _NoCheck:
    """A context manager in the place of a check: its number is 0, and its address a null pointer."""

    def __enter__(self) -> tuple[int, Any]:
        return 0, NULL

    def __exit__(self, *exception: object) -> None:
        pass


_NO_CHECK = _NoCheck()


#: The address of the default stream of each thread (``cudaStreamPerThread``): equal ones are different streams.
_DEFAULT_OF_THREAD = 2

#: Kernel that writes the first index that is out of bounds to the device array of `_Watch`.
_NOTE = """
const long long place = static_cast<long long>(index);
if (place < low || place >= high) {
    unsigned long long* found = reinterpret_cast<unsigned long long*>(&first[0]);
    if (atomicCAS(found, 0ull, static_cast<unsigned long long>(number)) == 0ull) first[1] = place;
}
"""


def _is_mask(backend: Any, grad: Array, shape: Sequence[int], indices: Indices) -> bool:
    """Return whether `indices` is a single bool mask of the first dims."""
    first, *rest = indices
    return first is not None and first.dtype.kind == "b" and all(index is None for index in rest)


class CudaIndexing(CudaKernels, Indexing):
    """Indexing kernels for CuPy arrays.

    CuPy silently wraps indices that are out of bounds. Checking them at once would make the host wait for the device.
    So the device checks them, and an `IndexError` is raised when the host next waits: when a result is read, or at
    `gradcore.cuda.synchronize`. See `gradcore.cuda.set_index_checks`.
    """

    xp: Any
    array_type: Any
    current_index: Any
    copy_if_overlapping: Any
    is_capturing: Any

    # -- bounds ----------------------------------------------------------------------------------------------

    def check_bounds(self, index: Any, size: int, dim: int, low: int = 0, message: str = OUT_OF_BOUNDS) -> None:
        """Raise an `IndexError`, now or when the host next waits, unless ``low <= index < size`` for all elements."""
        policy = config.index_checks()
        if policy == "now" or (not size and index.size):  # CuPy's kernels divide by the size
            sync_debug.note("wait")
            super().check_bounds(index, size, dim, low, message)
        elif policy == "later" and index.size:
            with self._begin_check(message, dim, size) as (number, first):
                self.note_bad_index(index, low, size, number, first)

    def check_watched(self, index: Any, size: int, ignored: int, message: str, dim: int = 0) -> _Check | _NoCheck:
        """Return a check that a kernel makes: a context manager around its launch, with a number and an address.

        The address, to which the kernel writes a bad index, is a null pointer if checks are off, or if `index` was
        checked here.
        """
        policy = config.index_checks()
        if policy == "now":
            sync_debug.note("wait")
            super().check_bounds(self.xp.where(index == ignored, 0, index), size, dim, 0, message)
        return self._begin_check(message, dim, size) if policy == "later" else _NO_CHECK

    def _begin_check(self, message: str, dim: int, size: int) -> _Check:
        """Register a check on the current stream."""
        return self._watch().begin_check((message, dim, size), self._stream(), self.is_capturing())

    def _stream(self) -> int:
        """Return a number of the current stream: its address, or for a thread's default stream one of the thread."""
        address = int(self.xp.cuda.get_current_stream().ptr)
        return address if address != _DEFAULT_OF_THREAD else -threading.get_ident()

    def _watch(self) -> _Watch:
        """Return the checks of the current device."""
        device = self.current_index()
        watch = self._watches.get(device)
        if watch is None:
            state = self.xp.zeros(2, "int64")
            # Every stream uses this memory, so all must see the zeros. This happens once per device.
            self.xp.cuda.get_current_stream().synchronize()
            # Another thread may have done the same in the meantime; checks must not be divided between both.
            watch = self._watches.setdefault(device, _Watch(state))
        return watch

    @cached_property
    def _watches(self) -> dict[int, _Watch]:
        return self.__dict__.setdefault("_watches", {})

    @cached_property
    def _watch_kernel(self) -> Any:
        inputs = "T index, int64 low, int64 high, int64 number"
        return self.xp.ElementwiseKernel(inputs, "raw int64 first", _NOTE, "gradcore_note_bad_index")

    def note_bad_index(self, index: Any, low: int, high: int, number: int, first: Any) -> None:
        """Write `number` and the first index outside ``low <= index < high`` to `first`, unless an error is there."""
        self._watch_kernel(index, low, high, number, first)

    def raise_bad_index(self, wait: Callable[[], object] | None = None) -> None:
        """Raise the `IndexError` that checks on the current device have recorded since the last call.

        Parameters
        ----------
        wait : callable, optional
            Waits for all streams of the device. Without it, the method waits for the current stream. Checks of other
            streams may not have been made then, and stay pending.
        """
        watch = self._watches.get(self.current_index())
        # Another thread may launch further checks while this one waits.
        checks = [] if watch is None else watch.list_launched(None if wait is not None else self._stream())
        if wait is not None:
            wait()
        if watch is None or watch.is_empty():
            return
        number, index = map(int, self.xp.asnumpy(watch.first))
        message, dim, size = watch.words_of(number)
        watch.finish(checks)
        if not number:
            return
        watch.first.fill(0)
        raise OutOfBoundsError(
            f"{message.format(index=index, dim=dim, size=size)} (found on the device by an operation that ran before; "
            "after gradcore.cuda.set_index_checks('now') that operation itself raises)"
        )

    # -- sums, extrema and writes at given places ------------------------------------------------------------

    @kernel_for(lambda self, height, index, rows: self.takes("segments", rows))
    def sum_into_rows(self, height: int, index: Any, rows: Any) -> Any:
        """Return the sums of `rows` by `index`, in a fixed order without atomic additions.

        Equal calls give equal bits.
        """
        (count, width), out = rows.shape, self.xp.zeros((height, rows.shape[1]), rows.dtype)
        warps = min(-(-width // 32), 8)
        grid = count, -(-width // (32 * warps))
        if count > _FEW or grid[1] > 65535 or index.dtype != np.int64:
            return self._reduce_rows("sum", out, index, rows)
        kernel = self.cuda_kernel("segments", "sum_few", type=type_name(rows.dtype))
        arrays = dense(self.xp, rows), dense(self.xp, index), out
        kernel(grid, (32, warps), (*arrays, *self.int64s(height, count, width)))
        return out

    def _reduce_rows(self, reduce: str, out: Any, index: Any, rows: Any) -> Any:
        """Reduce each of `rows` into row `index` of the dense matrix `out`, in order, and return `out`."""
        xp, (count, width) = self.xp, rows.shape
        index = index.astype("int64", copy=False) % len(out)
        order = xp.argsort(index, kind="stable").astype("int64", copy=False)
        sorted_index, row_type = index[order], type_name(rows.dtype)
        chunk = max(_CHUNK, math.isqrt(count))
        parts = -(-count // chunk)
        heads, tails = self.allocate((2, parts, width), np.float64 if rows.dtype.itemsize == 8 else np.float32)
        sizes = self.int64s(count, width, chunk)
        kernel = self.cuda_kernel("segments", f"{reduce}_segments", type=row_type)
        arrays = (dense(xp, rows), order, sorted_index, out, heads, tails)
        kernel(*elements(rows.size), (*arrays, np.int64(rows.size), *sizes))
        if parts > 1:
            kernel = self.cuda_kernel("segments", f"{reduce}_joined", type=row_type)
            kernel(*elements(parts * width), (sorted_index, out, heads, tails, np.int64(parts * width), *sizes))
        return out

    def add_rows(self, out: Any, index: Any, rows: Any) -> Any:
        """Add `rows` to the rows `index` of `out`, atomically, or in a fixed order if determinism is required.

        Dtypes without an atomic addition are added in one that has it.
        """
        dtype = out.dtype
        if dtype.kind == "c":
            parts = self.xp.ascontiguousarray(rows.astype(dtype, copy=False))
            return self.add_rows(out.view(out.real.dtype), index, parts.view(out.real.dtype)).view(dtype)
        if determinism.are_deterministic_algorithms_enabled() and dtype.kind not in "biu" and rows.size:
            rows = rows.astype(dtype, copy=False)
            if self.takes("segments", rows):
                return self._reduce_rows("sum", out, index, rows)
            determinism.alert("index_add_cuda_")
        if dtype == np.int64:  # the bits of a sum do not depend on the sign
            widened = rows.astype(dtype, copy=False)
            return super().add_rows(out.view(np.uint64), index, widened.view(np.uint64)).view(dtype)
        if dtype.kind in "biu" and dtype.itemsize < 4:
            return super().add_rows(out.astype("int32"), index, rows.astype("int32")).astype(dtype)
        return super().add_rows(out, index, rows)

    def reduce_at(self, out: Any, places: Any, values: Any, reduce: str) -> Any:
        """Reduce `values` into `out` at `places`.

        Extrema are found by sorting, as CuPy's atomic ones round float64 and ignore NaN.
        """
        if self.takes("segments", values, out):
            return self._reduce_rows(reduce, out.reshape(-1, 1), places, values.reshape(-1, 1)).reshape(-1)
        if reduce == "prod":
            return super().reduce_at(out, places, values, reduce)
        xp = self.xp
        order = xp.argsort(values, kind="stable")  # NaN last
        order = order[xp.argsort(places[order], kind="stable")]
        places, values = places[order], values[order]
        slots = xp.arange(out.size)
        start, end = (xp.searchsorted(places, slots, side=side) for side in ("left", "right"))
        last_values = values[xp.maximum(end - 1, 0)]
        if reduce == "amax":
            extrema = xp.maximum(out, last_values)
        else:
            least = values[xp.minimum(start, values.size - 1)]
            extrema = xp.minimum(out, xp.where(last_values != last_values, last_values, least))
        return xp.where(end > start, extrema, out)

    def write_at(self, out: Any, places: Any, values: Any) -> None:
        """Write `values` to `out` at `places`.

        If determinism is required, the last of several values for one place is written.
        """
        if determinism.are_deterministic_algorithms_enabled() and getattr(values, "ndim", 0) > 0:
            values = values.reshape(-1)[self._last_occurrences(places.reshape(-1), out.size)].reshape(places.shape)
        super().write_at(out, places, self._move_values(values, out.dtype))

    def index_into(self, out: Any, values: Any, indices: Indices, accumulate: bool = False) -> None:
        """Write or add `values` to `out` at `indices`.

        If determinism is required, the last of several values for one place is written.
        """
        if (
            determinism.are_deterministic_algorithms_enabled()
            and not accumulate
            and not distinct(indices)
            and values.ndim
        ):
            values = self._last_values(out.shape, values, indices)
        super().index_into(
            out, self.copy_if_overlapping(self._move_values(values, out.dtype), out), indices, accumulate
        )

    def _move_values(self, values: Any, dtype: Any) -> Any:
        """Return `values` as an array of the device. A kernel fills in numbers, which CuPy would copy from the host."""
        return values if isinstance(values, self.array_type) else self.xp.full((), np.asarray(values)[()], dtype)

    def _key_of(self, shape: Sequence[int], indices: Indices) -> tuple[Any, ...]:
        if any(index is not None and index.dtype.kind == "b" for index in indices):
            sync_debug.note("wait")
        return super()._key_of(shape, indices)

    # -- masks, without waiting for how many places they have ------------------------------------------------------

    @kernel_for(_is_mask)
    def index_backward(self, grad: Array, shape: Sequence[int], indices: Indices) -> Array:
        mask = indices[0]
        out = self.xp.zeros(shape, grad.dtype)
        if grad.size:
            chosen = grad.take(self._mask_positions(mask, len(grad)), 0)
            self.xp.copyto(out, chosen, where=mask.reshape(*mask.shape, *[1] * (out.ndim - mask.ndim)))
        return out

    def masked_write(self, out: Any, mask: Any, source: Any) -> None:
        if not mask.size:
            return
        last_index = mask.reshape(-1).cumsum()[-1:] - 1
        self.check_bounds(last_index, source.size, 0, -1, "Number of elements of source < number of ones in mask")
        if source.size:
            self.xp.copyto(out, source.take(self._mask_positions(mask, source.size)), where=mask)

    def _mask_positions(self, mask: Any, most: int) -> Any:
        """Return, for each element of `mask`, the number of True elements before it, below `most`.

        The host need not know how many there are.
        """
        before = self.xp.clip(mask.reshape(-1).cumsum() - 1, 0, most - 1)
        return before.reshape(mask.shape)

    def _last_values(self, shape: Sequence[int], values: Any, indices: Indices) -> Any:
        """Return `values` with each one replaced by the last one that `indices` sends to the same place."""
        indices = self._replace_masks(indices)
        arrays, full, order = self._layout(shape, indices)
        index_shape = arrays[0].shape
        sizes = [n for n, index in zip(shape, indices, strict=False) if index is not None]
        values = self.xp.broadcast_to(values, full).transpose(order)
        last_positions = self._last_occurrences(linear(arrays, sizes).reshape(-1), math.prod(sizes))
        rows = values.reshape(-1, *values.shape[len(index_shape) :])[last_positions].reshape(values.shape)
        return rows.transpose(sorted(range(len(order)), key=order.__getitem__))

    def _last_occurrences(self, places: Any, size: int) -> Any:
        """Return, for each element of `places`, the position at which the same place occurs last."""
        xp = self.xp
        places = places % max(size, 1)
        order = xp.argsort(places, kind="stable")
        return order[xp.searchsorted(places[order], places, side="right") - 1]
