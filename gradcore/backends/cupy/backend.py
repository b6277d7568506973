"""The CUDA backend class, which combines the modules of this package. CuPy is imported here."""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from gradcore.backends import sync_debug
from gradcore.backends.base import Backend
from gradcore.backends.cupy.convolution import CudaConvolution
from gradcore.backends.cupy.counts import CudaCounts
from gradcore.backends.cupy.ctc import CudaCtc
from gradcore.backends.cupy.einsum import CudaContractions
from gradcore.backends.cupy.elementwise import CudaElementwise
from gradcore.backends.cupy.epilogues import CudaEpilogues
from gradcore.backends.cupy.flash_attention import CudaFlashAttention
from gradcore.backends.cupy.foreach import CudaLists
from gradcore.backends.cupy.indexing import CudaIndexing
from gradcore.backends.cupy.kernels import (
    INCLUDE,
    bernoulli_threshold,
    compile_options,
    dense,
    elements,
    random_position,
    random_stream,
    type_name,
    words_of,
)
from gradcore.backends.cupy.linalg import CudaLinearAlgebra
from gradcore.backends.cupy.losses import CudaLosses
from gradcore.backends.cupy.memory import allocator
from gradcore.backends.cupy.memory_pools import Pools, PrivatePool
from gradcore.backends.cupy.optimizers import CudaOptimizers
from gradcore.backends.cupy.record_stream import Lifetimes
from gradcore.backends.cupy.reductions import CudaReductions
from gradcore.backends.cupy.resampling import CudaResizing
from gradcore.backends.cupy.rows import CudaRows
from gradcore.backends.cupy.scans import CudaScans
from gradcore.backends.cupy.selection import CudaSelection
from gradcore.backends.cupy.sparse import CudaSparse
from gradcore.backends.cupy.windows import CudaWindows
from gradcore.backends.pinned import is_pinned
from gradcore.backends.portable.elementwise import is_positive_zero
from gradcore.backends.portable.filters import Filters
from gradcore.backends.random import philox
from gradcore.backends.random.generator import PhiloxState
from gradcore.backends.random.recording import RecordedState, present
from gradcore.backends.streams import in_order
from gradcore.core import determinism
from gradcore.core.errors import Unavailable
from gradcore.core.tracebacks import ALLOCATORS

__all__ = ["CupyBackend", "connect"]

INSTALL = "install CuPy for your CUDA version: pip install '.[cuda13]' (or '.[cuda12]') in gradcore's folder"


def connect() -> Backend:
    """Return the CUDA backend, or raise `Unavailable`.

    Raises
    ------
    Unavailable
        With the reason in words: no CuPy, a broken installation, no driver, no device.
    """
    try:
        import cupy
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != "cupy":
            raise Unavailable(f"CuPy is installed but cannot be imported ({error}); re-{INSTALL}") from error
        raise Unavailable(f"CuPy is not installed; {INSTALL}") from error
    except Exception as error:
        raise Unavailable(f"CuPy is installed but cannot be imported ({error}); re-{INSTALL}") from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise Unavailable(f"CuPy finds no usable NVIDIA driver ({error}); install or update the driver") from error
    if not count:
        raise Unavailable("there is a driver but no CUDA device (is CUDA_VISIBLE_DEVICES empty?)")
    backend = CupyBackend(cupy, count)
    # Its class creates an array in fewer steps than `cupy.empty`.
    backend.allocate = cupy.ndarray  # type: ignore[method-assign]
    # The form into which CuPy brings each number again whenever a kernel is launched.
    with contextlib.suppress(ImportError):
        from cupy._core._scalar import CScalar

        backend.as_argument = CScalar  # type: ignore[method-assign]
    cupy.cuda.set_allocator(allocator(backend, cupy.cuda.get_allocator()))
    ALLOCATORS.append(cupy.cuda.get_allocator)
    return backend


#: Names of kernels that read numbers from the device to make a decision, also inside of the libraries that CuPy calls.
_SYNCHRONIZING = (
    "check_info", "has_full_rank", "assert_small", "_is_accurate", "factor_eig", "eigenvalues", "matrix_exponential",
    "number",
)  # fmt: skip

#: Operations whose kernels report that they wait, as they do so only if a number of classes or a range was not given.
_REPORTING = frozenset(["one_hot", "histc", "bincount"])


def _note_waiting(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return `kernel` wrapped so that each call is reported as a synchronization (see `set_sync_debug_mode`)."""

    @functools.wraps(kernel)
    def run(*args: Any, **kwargs: Any) -> Any:
        sync_debug.note("wait")
        return kernel(*args, **kwargs)

    return run


class CupyBackend(
    CudaElementwise,
    CudaOptimizers,
    CudaLists,
    CudaContractions,
    CudaEpilogues,
    CudaFlashAttention,
    CudaRows,
    CudaLosses,
    CudaReductions,
    CudaWindows,
    CudaResizing,
    CudaConvolution,
    CudaIndexing,
    CudaSelection,
    CudaCounts,
    CudaScans,
    CudaCtc,
    CudaSparse,
    CudaLinearAlgebra,
    Filters,
    Backend,
):
    """Backend for CuPy arrays on CUDA devices. It overrides the methods in which CuPy differs from NumPy."""

    type: ClassVar[str] = "cuda"
    host_scalars = False
    has_streams = True
    scipy_name = "cupyx.scipy"
    scipy_trigonometric_types = (2, 3)
    tile_size, joined_size = 1 << 24, 1 << 16  # of optimisers: no cache to stay in, and every kernel is a launch

    def __init__(self, cupy: Any, count: int) -> None:
        super().__init__(cupy, cupy.ndarray)
        self._count = count

    @functools.cached_property
    def lifetimes(self) -> Lifetimes:
        """Tracker of arrays that other streams use (`record_stream`)."""
        return Lifetimes(self)

    @functools.cached_property
    def pools(self) -> Pools:
        """Memory pools of this backend: CuPy's default pool and the private pools of graphs."""
        return Pools(self)

    @functools.cached_property
    def _pending_copies(self) -> deque[tuple[Any, Any]]:
        """Pending copies from page-locked memory: pairs of the event that ends the copy and the memory."""
        return deque()

    def kernel_of(self, name: str) -> Callable[..., Any]:
        """Return the kernel called `name`. It reports a synchronization if the host has to wait for its result."""
        kernel = super().kernel_of(name)
        return _note_waiting(kernel) if name in self.synchronizing and name not in _REPORTING else kernel

    @property
    def special(self) -> Any:
        """cupyx.scipy.special, imported when first used."""
        import cupyx.scipy.special

        return cupyx.scipy.special

    # -- devices ---------------------------------------------------------------------------------------------

    def device_count(self) -> int:
        return self._count

    def current_index(self) -> int:
        return int(self.xp.cuda.runtime.getDevice())

    def use_index(self, index: int | None) -> contextlib.AbstractContextManager[Any]:
        if self._count == 1 or index is None:
            return contextlib.nullcontext()
        return self.xp.cuda.Device(index)

    def synchronize(self, index: int | None = None) -> None:
        with self.use_index(index):
            self.raise_bad_index(self.wait)

    def wait(self) -> None:
        """Wait until all work on the current device is done."""
        sync_debug.note("wait")
        self.xp.cuda.Device().synchronize()

    # -- arrays ----------------------------------------------------------------------------------------------

    def from_host(self, array: Any) -> Any:
        if not array.ndim and array.dtype.isbuiltin == 1:  # NumPy's own: by value, with a kernel
            return self.xp.full((), array[()], array.dtype)
        sync_debug.note("to device")
        # By default, CuPy does not wait for copies from page-locked memory. A later write to it would change the copy.
        return self.xp.asarray(array, blocking=True) if is_pinned(array) else self.xp.asarray(array)

    def from_pinned(self, array: Any) -> Any:
        out = self.allocate(array.shape, array.dtype)
        stream = self.xp.cuda.get_current_stream()
        out.set(array, stream)
        event = self.xp.cuda.Event(disable_timing=True)
        event.record(stream)
        pending = self._pending_copies
        pending.append((event, array))
        # Several threads may empty the queue at the same time, so it may be empty before the loop ends.
        for _ in range(len(pending)):
            with contextlib.suppress(IndexError):
                pair = pending.popleft()
                if not pair[0].done:
                    pending.append(pair)
        return out

    def to_host(self, array: Any) -> Any:
        sync_debug.note("to host")
        with self.use_index(array.device.id):
            host = self.xp.asnumpy(array)
            self.raise_bad_index()
        return host

    def copy_into(self, target: Any, source: Any) -> None:
        if isinstance(source, (int, float, complex, np.generic)):
            if source != 0 or is_positive_zero(source):
                target.fill(source)
            else:  # CuPy would fill the memory with positive zeros
                self.xp.copyto(target, target.dtype.type(source))
            return
        if target.dtype.kind == "u" and self.is_tensor(source) and source.dtype != target.dtype:
            source = self.astype(source, target.dtype)
        target[...] = self.copy_if_overlapping(source, target)

    def copy_if_overlapping(self, source: Any, target: Any) -> Any:
        """Return `source`, or a copy of it if it overlaps `target` in another order. CuPy reads while it writes."""
        if not self.is_tensor(source) or source.data.mem is not target.data.mem:
            return source
        same_layout = (
            source.data.ptr == target.data.ptr and source.shape == target.shape and source.strides == target.strides
        )
        return source if same_layout else source.copy()

    def address(self, x: Any) -> int:
        return int(x.data.ptr)

    def index_of(self, array: Any) -> int:
        """Return the index of the device that holds the memory of `array`, an array of any library."""
        if array.__class__ is self.array_type:
            return int(array.device.id)  # type: ignore[attr-defined,unused-ignore]
        address = array.__cuda_array_interface__["data"][0]
        if not address:  # of no elements
            return self.current_index()
        index = int(self.xp.cuda.runtime.pointerGetAttributes(address).device)
        if index < 0:
            raise ValueError(f"the memory of {type(array).__name__} at {address:#x} is not known to CUDA")
        return index

    def scalar(self, value: complex, dtype: Any) -> Any:
        """Return `value` as a NumPy scalar, which kernels take by value: no transfer is needed."""
        try:
            return np.dtype(dtype).type(value)
        except OverflowError:  # integers wrap, as in PyTorch
            return np.asarray(value).astype(dtype)[()]

    def move_between(self, array: Any, index: int | None) -> Any:
        """Return a copy of `array` on the current device, copied peer to peer.

        CUDA puts copies in order with the default streams of both devices, but with no others.
        """
        source_index, target_index = array.device.id, self.current_index()
        target_place = target_index, self.xp.cuda.get_current_stream()
        with self.use_index(source_index):
            source_place = source_index, self.xp.cuda.get_current_stream()
            array = self._dense(array)
        if not (target_place[1].ptr or source_place[1].ptr):
            return self.xp.array(array)
        in_order(self, source_place, target_place)
        copy = self.xp.array(array)
        # The other stream owns the memory of `array`: its later work must wait for this copy.
        in_order(self, target_place, source_place)
        return copy

    def _dense(self, array: Any) -> Any:
        """Return `array`, or a copy of it without gaps in memory. CuPy copies only dense arrays between devices."""
        flags = array.flags
        return array if flags.c_contiguous or flags.f_contiguous else self.xp.ascontiguousarray(array)

    # -- memory ----------------------------------------------------------------------------------------------

    def shares_memory(self, view: Any, x: Any) -> bool:
        """Return whether two arrays overlap in memory. Addresses decide, as CuPy's views may lack a ``base``."""
        a, b = view.data.mem, x.data.mem
        return (
            a is b
            or not view.size
            or (a.device_id == b.device_id and a.ptr < b.ptr + b.size and b.ptr < a.ptr + a.size)
        )

    def own_header(self, x: Any) -> Any:
        """Return an array of the same memory that is not a view of another array."""
        return self.xp.ndarray(x.shape, x.dtype, x.data, x.strides)

    def restride(self, x: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
        """Return a view of `x` with this shape and these strides. Unlike CuPy's `as_strided`, it has a ``base``."""
        view = x.view()
        view._set_shape_and_strides(tuple(shape), tuple(strides), True, True)
        return view

    # -- what CuPy adds up in no fixed order -----------------------------------------------------------------

    def cumsum_along(self, x: Any, dim: int, reverse: bool = False, dtype: Any = None) -> Any:
        if x.dtype.kind in "biu" or not determinism.are_deterministic_algorithms_enabled():
            return super().cumsum_along(x, dim, reverse, dtype)
        if reverse:
            return self.xp.flip(self.cumsum_along(self.xp.flip(x, dim), dim, dtype=dtype), dim)
        return self._scan_by_doubling(self.xp.add, x, dim, dtype)

    def cumprod_along(self, x: Any, dim: int, dtype: Any = None) -> Any:
        if x.dtype.kind in "biu" or not determinism.are_deterministic_algorithms_enabled():
            return super().cumprod_along(x, dim, dtype)
        return self._scan_by_doubling(self.xp.multiply, x, dim, dtype)

    def _scan_by_doubling(self, combine: Any, x: Any, dim: int, dtype: Any) -> Any:
        """Return a scan of `x` along `dim` by `combine`, in a fixed order.

        Each round doubles the elements that a partial result covers, so equal calls give equal bits.
        """
        out = x.astype(x.dtype if dtype is None else dtype.numpy)
        step, before = 1, (slice(None),) * dim
        while step < out.shape[dim]:
            later, earlier = (*before, slice(step, None)), (*before, slice(None, -step))
            covered = combine(out[later], out[earlier])
            out[later] = covered
            step *= 2
        return out

    # -- random numbers --------------------------------------------------------------------------------------

    @functools.cached_property
    def _philox(self) -> Any:
        """CuPy module with the kernels of random words and numbers, compiled on first use."""
        return self.xp.RawModule(code=(INCLUDE / "philox.cu").read_text(), options=compile_options())

    def reserve_words(self, state: PhiloxState, words: int) -> tuple[Any, int]:
        """Return the key and the counter for `words` random words.

        While a graph is captured, the key is device memory, which replays read, and the counter counts from the start
        of the graph.
        """
        recording = present()
        if recording is not None and self.xp.cuda.get_current_stream().is_capturing():
            if self.current_index() != recording.device:
                raise RuntimeError(f"random numbers on another device than that of the graph, cuda:{recording.device}")
            state = recording.of(state)
        if isinstance(state, RecordedState) and state.device == self.current_index():
            return state.draw_recorded(words)
        return state.draw(words)

    def place_memory(self) -> Any:
        """Return memory for a key and a counter, from a private pool so that no graph reuses it."""
        with self.xp.cuda.using_allocator(allocator(self, PrivatePool(self.pools).malloc)):
            return self.allocate(6, "uint64")

    def write_place(self, memory: Any, key: int, counter: int) -> None:
        """Write a key and a counter to memory from `place_memory`, without waiting on the host."""
        self._philox.get_function("philox_place")((1,), (1,), (memory, *words_of(key, 2), *words_of(counter, 4)))

    def random_words(self, n: int, key: Any, counter: int) -> Any:
        words = self.allocate(n, "uint64")
        self._fill("philox_words", words, n, key, counter)
        return words

    def random_numbers(
        self, distribution: Callable[..., Any], n: int, dtype: Any, key: Any, counter: int, *parameters: Any
    ) -> Any:
        """Return `n` numbers of a distribution, drawn by one kernel where one exists.

        They have the same bits as those of the portable implementation.
        """
        if distribution is philox.bernoulli and not getattr(parameters[0], "ndim", 0):
            return self._decisions(n, dtype, key, counter, float(parameters[0]))
        arguments = _ARGUMENTS.get(distribution.__name__)
        if arguments is None:
            return super().random_numbers(distribution, n, dtype, key, counter, *parameters)
        real = np.float64 if dtype.itemsize == 8 else np.float32
        numbers = self.allocate(n, "uint16" if dtype.itemsize == 2 else dtype)
        words = philox.word_count(n, dtype)
        name = f"philox_{distribution.__name__}_{dtype.name}"
        self._fill(name, numbers, words, key, counter, *map(real, arguments(dtype.type, real, *parameters)))
        return numbers.view(dtype)

    def _decisions(self, n: int, dtype: Any, key: Any, counter: int, p: float) -> Any:
        """Return `n` bools that are True with probability `p`."""
        real = np.float64 if dtype.itemsize == 8 else np.float32
        out = self.allocate(n, bool)
        if n:
            kernel = self.cuda_kernel("bernoulli", f"bernoulli_{real.__name__}")
            kernel(
                *elements(-(-n // 4)), (out, np.uint64(n), *random_position(key, counter), bernoulli_threshold(p, real))
            )
        return out

    @property
    def moves_statistics(self) -> bool:  # type: ignore[override]
        return self.uses("normalization")

    @property
    def has_dropout(self) -> bool:  # type: ignore[override]
        return self.own_kernels

    def dropout(self, x: Any, p: float, scale: float, key: Any, counter: int) -> tuple[Any, Any]:
        """Return ``x * mask * scale``, and the random bool mask, whose elements are True with probability `p`."""
        out, mask = self.allocate(x.shape, x.dtype), self.allocate(x.shape, bool)
        kernel = self.cuda_kernel("dropout", "dropout", type=type_name(x.dtype))
        stream = random_stream(x.size, p, key, counter)
        kernel(*elements(-(-x.size // 8)), (dense(self.xp, x), out, mask, *stream, np.float64(scale)))
        return out, mask

    def _fill(self, name: str, out: Any, words: int, key: Any, counter: int, *parameters: Any) -> None:
        """Launch the random number kernel `name`, which fills `out` and consumes `words` random words."""
        if words:
            blocks = min(-(-words // (4 * _THREADS)), _MOST_BLOCKS)
            stream = np.uint64(out.size), *random_position(key, counter), np.uint64(0)
            self._philox.get_function(name)((blocks,), (_THREADS,), (out, *stream, *parameters))


for _name in _SYNCHRONIZING:
    setattr(CupyBackend, _name, _note_waiting(getattr(CupyBackend, _name)))

#: Threads of a block, and largest number of blocks, of the kernels of random numbers. Threads loop over the rest.
_THREADS, _MOST_BLOCKS = 256, 4096


def _uniform(kind: Any, real: Any, low: float = 0.0, high: float = 1.0) -> tuple[Any, ...]:
    start, end = kind(low), kind(high)
    return start, real(end) - real(start), np.nextafter(end, start)


#: The arguments of the kernels of random numbers, given a type, the type it is computed in, and the parameters.
_ARGUMENTS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "uniform": _uniform,
    "normal": lambda kind, real, mean=0.0, std=1.0: (mean, std),
    "exponential": lambda kind, real, rate=1.0: (rate,),
}
