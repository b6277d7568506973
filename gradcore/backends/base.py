"""The base class of backends: an array library, its devices, and a kernel for every operation.

It is the ``K`` of bodies in `gradcore.ops`, and the ``F`` of derivative formulas that run on arrays: ``K.exp(x)``
is the kernel `exp` on raw arrays. A kernel is a method of the backend's class if there is one: of the families below,
which are written against ``xp``, or an override of a library that works differently. Otherwise, it is the body that the
operation declares in terms of other operations.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gradcore.backends.kernel_rules import BatchRule, Declared
from gradcore.backends.portable.convolution import Convolution
from gradcore.backends.portable.cross_entropy import Targets
from gradcore.backends.portable.cumulative import Cumulative
from gradcore.backends.portable.elementwise import RENAMED, SPECIAL, Elementwise
from gradcore.backends.portable.embedding import Embedding
from gradcore.backends.portable.folding import Folding
from gradcore.backends.portable.foreach import Lists
from gradcore.backends.portable.fourier import Fourier
from gradcore.backends.portable.indexing import Indexing
from gradcore.backends.portable.linear_algebra import LinearAlgebra
from gradcore.backends.portable.movement import Movement
from gradcore.backends.portable.normalization import Normalization
from gradcore.backends.portable.optimizers import Optimizers
from gradcore.backends.portable.padding import Padding
from gradcore.backends.portable.pooling import Pooling
from gradcore.backends.portable.products import Products
from gradcore.backends.portable.recurrent import Recurrent
from gradcore.backends.portable.reductions import Reductions
from gradcore.backends.portable.resampling import Resizing
from gradcore.backends.portable.separable import on_device
from gradcore.backends.portable.sorting import Sorting
from gradcore.backends.portable.sparse import SparseMatrices
from gradcore.backends.portable.special_functions import SpecialFunctions
from gradcore.backends.random import philox
from gradcore.backends.random.generator import DropoutDraw, PhiloxState
from gradcore.core.typing import AnyArray

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["SMALL", "Backend", "Kernels"]


#: Elements below which a first operand is small: its elementwise kernels are those of `Kernels.small`.
SMALL = 1 << 13

Resolver = Callable[[str], Callable[..., Any]]


class SmallKernels(dict[str, Callable[..., Any]]):
    """Table from the name of an operation to its kernel, a function on raw arrays, filled on first use."""

    def __init__(self, resolve: Resolver) -> None:
        super().__init__()
        self.resolve = resolve

    def __missing__(self, name: str) -> Callable[..., Any]:
        kernel = self[name] = self.resolve(name)
        return kernel


class Kernels(SmallKernels):
    """Dispatch table of one device: kernels for arrays of every size and, in `small`, for small arrays.

    A check of the operand's size inside a kernel takes a third of the time that NumPy needs for a few elements.
    Therefore the fast path checks it once. Other callers can ignore `small`, whose kernels compute the same.
    """

    def __init__(self, resolve: Resolver, small: Resolver | None = None) -> None:
        super().__init__(resolve)
        self.small = SmallKernels(small or resolve)


class Backend(
    Elementwise,
    Reductions,
    Cumulative,
    Movement,
    Indexing,
    Sorting,
    Products,
    LinearAlgebra,
    Fourier,
    Convolution,
    Pooling,
    Resizing,
    Padding,
    Folding,
    Normalization,
    Recurrent,
    Targets,
    Embedding,
    SparseMatrices,
    Optimizers,
    Lists,
    SpecialFunctions,
):
    """An array library (`xp`, with NumPy's interface) and the devices that it drives.

    Subclass it to add a library: give `type`, pass the array module, and override what the library does differently.

    Parameters
    ----------
    xp : module
        The array library's namespace, with NumPy's names.
    array_type : type
        The class of its arrays.
    """

    #: The device type, as in ``device='cuda'``.
    type: ClassVar[str]
    #: Bodies of operations, ``body(K, *arguments)``, which run if the backend has no kernel of that name.
    bodies: ClassVar[dict[str, Callable[..., Any]]] = Declared()
    #: Parameters of the elementwise operations, by the name of their kernel.
    elementwise: ClassVar[dict[str, tuple[str, ...]]] = Declared()
    #: Rules that operations without bodies declare for their kernels, see `gradcore.backends.kernel_rules`.
    declared_batch_rules: ClassVar[dict[str, BatchRule]] = Declared()
    declared_shape_rules: ClassVar[dict[str, Callable[..., Any]]] = Declared()
    #: Names of kernels that take half a nanosecond or more per element.
    slow: ClassVar[dict[str, bool]] = Declared()
    #: Number of elements from which derivative formulas of elementwise operations are evaluated by `evaluate_tiled`.
    LARGE: ClassVar[int] = 1 << 15
    #: Whether work is queued in streams, so that the backward of a node must run in the right one.
    has_streams: bool = False
    #: Whether the backend has `move_statistics`, one kernel for the running means and variances of batch norm.
    moves_statistics: bool = False
    #: Whether the backend has `dropout`, one kernel for the random mask and the product with a real array.
    has_dropout: bool = False
    #: Whether `dropout_factors` of float32 and float64 is one kernel.
    has_dropout_factors: bool = False
    #: Whether the backend compiles elementwise formulas to kernels, by `fused_forward` and `fused_gradients`.
    supports_fusion: Any = False
    #: Whether gradients of elementwise nodes call `fused_gradients` first.
    has_fused_gradients: Any = False
    #: Whether `fused_forward` converts operands of other dtypes in its kernels.
    converts_operands: Any = False
    #: Names of kernels that wait for the device, because the shapes of their results depend on elements of arguments.
    synchronizing: ClassVar[dict[str, bool]] = Declared()
    #: Packages or modules that belong to the backend, whose code `gradcore.compile` treats as constant.
    packages: ClassVar[tuple[str, ...]] = ()

    def __init__(self, xp: Any, array_type: builtins.type) -> None:
        self.xp: Any = xp
        self.array_type = array_type
        self.kernels = Kernels(self.kernel_of, self.small_kernel_of)

    def computes_half_in_float(self, name: str, arrays: list[Any], backward: bool = False) -> bool:
        """Return whether an operation, or its vjp, computes these float16 or bfloat16 arrays in float32."""
        return False

    def half_kernel(self, name: str) -> str | None:
        """Return the name of a kernel that accepts and returns halves instead of float32, or None."""
        return None

    def kernel_of(self, name: str) -> Callable[..., Any]:
        """Return the kernel of an operation, for the dispatch table."""
        kernel: Callable[..., Any] = getattr(self, name)
        return kernel

    def small_kernel_of(self, name: str) -> Callable[..., Any]:
        """Return the kernel of an elementwise operation for a first operand of fewer than `SMALL` elements."""
        return self.kernel_of(name)

    def broadcasts_rows(self, name: str, char: str) -> bool:
        """Return whether an elementwise kernel broadcasts two operands of a dtype fast along short rows.

        `char` is the character of the dtype in NumPy. If the kernel is not fast, `vmap` writes out operands that it
        repeats along short rows.
        """
        return False

    def evaluate_tiled(self, formula: Callable[..., Any], *operands: Any) -> Any:
        """Compute the elementwise ``formula(self, *operands)``. A backend can override this for large operands."""
        return formula(self, *operands)

    def evaluate_step(self, formula: Callable[..., Any], *operands: Any) -> Any:
        """Compute ``formula(self, *operands)``, elementwise with several results. A backend can fuse it."""
        return formula(self, *operands)

    def __getattr__(self, name: str) -> Any:
        if name in RENAMED:
            kernel = getattr(self.xp, RENAMED[name])
        elif name in SPECIAL:
            kernel = self.special_function(SPECIAL[name])
        elif name in self.bodies:
            kernel = functools.partial(self.bodies[name], self)
        else:
            raise AttributeError(f"the {type(self).type!r} backend has no kernel named {name!r}")
        setattr(self, name, kernel)
        return kernel

    # -- devices ------------------------------------------------------------------------------------------------

    def device_count(self) -> int:
        """Return the number of devices, or 0 for a type with a single device that has no index."""
        return 0

    def current_index(self) -> int | None:
        """Return the index of the current device, or None where devices have no index."""
        return None

    def use_index(self, index: int | None) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which the device of that index is the current one."""
        return contextlib.nullcontext()

    def synchronize(self, index: int | None = None) -> None:
        """Wait until everything that was queued on the device is done."""

    def is_capturing(self) -> bool:
        """Return whether this thread's work is recorded for a graph instead of run."""
        return False

    # -- arrays -------------------------------------------------------------------------------------------------

    def asarray(self, value: Any) -> Any:
        """Return `value` (a NumPy scalar, say) as an array of this backend, without a copy where possible."""
        return self.xp.asarray(value)

    def from_host(self, array: Any) -> Any:
        """Return a copy of a NumPy array on the current device."""
        return self.xp.array(array)

    def from_pinned(self, array: Any) -> Any:
        """Copy an array in page-locked memory without waiting, and keep that memory alive until the copy is done."""
        return self.from_host(array)

    def is_pinned(self, array: Any) -> bool:
        """Return whether an array lies in page-locked memory of the host."""
        return False

    def constant(self, table: Any) -> Any:
        """Return a small NumPy array as an array on the current device.

        The device caches its copies, as a transfer costs more than a kernel.
        """
        return on_device(self.xp, table)

    def to_host(self, array: Any) -> Any:
        """Return the data of `array` as a NumPy array, which may share its memory."""
        return array

    def item(self, array: Any) -> Any:
        """Return the only element of an array as a Python number."""
        return self.to_host(array).item()

    def scalar(self, value: complex, dtype: Any) -> Any:
        """Return a Python number as an operand of that NumPy dtype."""
        return self.xp.asarray(value, dtype=dtype)

    def move_between(self, array: Any, index: int | None) -> Any:
        """Copy `array` from another device of this type to the current device `index`."""
        return self.xp.array(array)

    def reserve_words(self, state: PhiloxState, words: int) -> tuple[Any, int]:
        """Reserve `words` words of a generator, and return key and counter for `random_words` and `random_numbers`."""
        return state.draw(words)

    def random_words(self, n: int, key: Any, counter: int) -> Any:
        """Return `n` words of the random number generator on the current device."""
        return self.from_host(philox.words(n, key, counter))

    def random_numbers(
        self, distribution: Callable[..., Any], n: int, dtype: Any, key: Any, counter: int, *parameters: Any
    ) -> Any:
        """Return `n` numbers of a distribution of `gradcore.backends.random.philox` on the current device."""
        words = self.random_words(philox.word_count(n, dtype), key, counter)
        return distribution(self.xp, words, dtype, *parameters)[:n]

    def random_integers(self, n: int, dtype: DTypeLike, key: int, counter: int, low: int, high: int) -> AnyArray:
        """Return `n` integers from `low` to `high`, exclusive, by `philox.integers` on the current device."""
        words = self.random_words(n * philox.integer_words(low, high), key, counter)
        return philox.integers(self.xp, words, dtype, low, high)

    def dropout_factors(self, draw: DropoutDraw, dtype: Any) -> Any:
        """Return the factors of a dropout as an array: `draw.scale` for elements that are kept, and zeros."""
        single, count = np.dtype("float32"), prod(draw.shape)
        kept = self.random_numbers(philox.bernoulli, count, single, draw.key, draw.counter, draw.p)
        return self.astype(kept.reshape(draw.shape), dtype) * self.xp.asarray(draw.scale, dtype)
