"""Elementwise formulas as loops of the compiled library. NumPy computes formulas that have no loop."""

from __future__ import annotations

import ctypes
import functools
from collections import Counter
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradcore.backends.codegen.approximate import APPROXIMATE
from gradcore.backends.compiled.calls import WORTH_A_THREAD
from gradcore.backends.compiled.library import builtin
from gradcore.backends.compiled.ufuncs import Call, wrap_for_pool
from gradcore.backends.compiled.variants import choose_variant
from gradcore.backends.numpy import malloc, thread_state, threads
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.core.typing import AnyArray

if TYPE_CHECKING:
    from gradcore.backends.codegen.schedule import Kernel

__all__ = ["CompiledElementwise", "Forward"]

#: The least length of rows that are copied to be contiguous: a row costs as much as some 20 elements.
_NARROW = 16
#: Elements times steps that are worth a thread; least number of elements of a thread; elements from which a single step
#: is computed by a loop.
_WORTH_A_THREAD, _LEAST, _SINGLE = 1 << 16, 1 << 13, 1 << 16
#: Settings of a formula for which loops are looked up, as tracing costs as much as NumPy on a million elements; dtypes
#: and settings for which a kernel of small arrays stores loops; layouts that a loop caches.
_MOST_SETTINGS, _MOST_LOOPS, _MOST_LAYOUTS = 16, 64, 1_000
#: Steps up to which NumPy's functions are as fast as the lookup of a loop by the settings of an operation.
_SHORT = 3
#: Classes of settings by whose values loops for small arrays are looked up.
_SETTINGS = frozenset((bool, int, float, str, type(None)))


class Launch(NamedTuple):
    """Strides and arguments of a loop for operands of one memory layout, reused in later calls.

    `dims` has the dims of the result as numbered in `shape`, if these are in another order; `call` is what
    `gradcore_run_rows` reads.
    """

    shape: tuple[int, ...]
    dims: tuple[int, ...] | None
    call: Any


class Loop:
    """A compiled loop of the library.

    Parameters
    ----------
    library : CDLL
        The library.
    function : int
        The loop's address.
    kernel : Kernel
        The kernel that it computes.
    is_array : list of bool
        Which of the formula's operands are arrays.

    Attributes
    ----------
    steps : int
        The number of functions that the loop computes for each element.
    is_exact : bool
        Whether the result is NumPy's bit for bit.
    """

    is_exact = False

    def __init__(self, library: ctypes.CDLL, function: int, kernel: Kernel, is_array: list[bool]) -> None:
        arrays = [i for i, each in enumerate(is_array) if each]
        self.function, self.used = function, tuple(arrays[i.position] for i in kernel.inputs)
        self.dtype, self.steps = kernel.outputs[0][1], len(kernel.computed)
        self.grain = max(_LEAST, _WORTH_A_THREAD // max(self.steps, 2))
        sizes = [dtype.itemsize for dtype in kernel.dtypes]
        self.sizes = (ctypes.c_int64 * len(sizes))(*sizes)
        self.parameters = (ctypes.c_double * len(kernel.parameters))(*[p.scalar for p in kernel.parameters])
        addresses = ctypes.addressof(self.parameters), self.grain, ctypes.addressof(self.sizes)
        self._call = Call(function, *addresses)
        self.call = ctypes.addressof(self._call)
        self.launches: dict[Any, Launch | None] = {}
        self.run_rows = builtin(library, "gradcore_run_rows")
        self.takes_all = self.used == tuple(range(len(is_array)))
        # If the loop does not read all arrays, the result may be larger than the arrays that it reads.
        have_one_shape = len(arrays) == len(self.used)
        self.run_alike = builtin(library, "gradcore_run") if have_one_shape else None

    def __call__(self, operands: tuple[Any, ...], out: AnyArray | None = None) -> Any:
        """Return the result, which is `out` if that is an array, or None for unsupported memory layouts."""
        result = self.compute_alike(operands) if out is None else self._compute_into(out, operands)
        if result is not None:
            return result
        result = self._launch_rows(operands)
        if out is None or result is None:
            return result
        out[...] = result
        return out

    def compute_alike(self, operands: tuple[Any, ...]) -> Any:
        """Return the result for contiguous arrays of one shape, or None for others."""
        if self.run_alike is None:
            return None
        result = np.empty(operands[0].shape, self.dtype)
        used_operands = operands if self.takes_all else [operands[i] for i in self.used]
        return result if self.run_alike(self.call, threads.available(), *used_operands, result) else None

    def _compute_into(self, out: AnyArray, operands: tuple[Any, ...]) -> Any:
        """Return `out` with the result for contiguous arrays of its shape, or None for others.

        An operand may have the same elements as `out`, as each is read before it is written, but may not overlap with
        them otherwise.
        """
        if self.run_alike is None or out.dtype != self.dtype or not out.flags.writeable:
            return None
        used_operands = operands if self.takes_all else [operands[i] for i in self.used]
        for operand in used_operands:
            is_alike = operand.shape == out.shape and operand.dtype == out.dtype
            is_same = is_alike and operand.ctypes.data == out.ctypes.data
            if not is_same and np.may_share_memory(operand, out):
                return None
        return out if self.run_alike(self.call, threads.available(), *used_operands, out) else None

    def _launch_rows(self, operands: tuple[Any, ...]) -> Any:
        arrays = [o for o in operands if o.__class__ is np.ndarray]
        key = tuple([(a.shape, a.strides) for a in arrays])
        try:
            launch = self.launches[key]
        except KeyError:
            if len(self.launches) >= _MOST_LAYOUTS:
                self.launches.clear()
            launch = self.launches[key] = self._prepare(operands)
        if launch is None:
            return None
        shape, dims, call = launch
        result = np.empty(shape, self.dtype)
        if dims is not None:
            result = result.transpose(dims)
        used_operands = operands if self.takes_all else [operands[i] for i in self.used]
        is_run = self.run_rows(ctypes.addressof(call), threads.available(), *used_operands, result)
        return result if is_run else None

    def _prepare(self, operands: tuple[Any, ...]) -> Launch | None:
        from gradcore.backends.codegen.layout import layout_of  # This import is delayed until it is needed.

        arrays = {i: o for i, o in enumerate(operands) if isinstance(o, np.ndarray)}
        layout = layout_of(list(arrays.values()))
        if not prod(layout.shape) or any(step % o.itemsize for o in arrays.values() for step in o.strides):
            return None
        extents = layout.extents or (prod(layout.shape),)
        rows = dict(zip(arrays, layout.strides or [(1,)] * len(arrays), strict=True))
        if extents[-1] < _NARROW and (len(extents) > 1 or any(row[-1] != 1 for row in rows.values())):
            return None
        steps = [step * operands[i].itemsize for i in self.used for step in rows[i]]
        arguments = self.function, ctypes.addressof(self.parameters), self.grain, len(extents), len(self.used)
        call = [*arguments, *extents, *self.sizes, *steps]
        numbers = (ctypes.c_int64 * len(call))(*call)
        if layout.order is None:
            return Launch(layout.shape, None, numbers)
        dims = tuple(layout.order.index(d) for d in range(len(layout.order)))
        return Launch(tuple(layout.shape[d] for d in layout.order), dims, numbers)


class Forward:
    """The forward computation of an operation, as a formula ``(F, *operands)``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, F: Any, *operands: Any) -> Any:
        return getattr(F, self.name)(*operands)


class Choice(NamedTuple):
    """The kernels of an operation.

    Attributes
    ----------
    small : callable
        For small arrays that are not broadcast to a large one.
    medium : callable
        For other arrays that are not large, and where there is no loop.
    is_single : bool
        Whether NumPy has a function for the operation.
    """

    small: Callable[..., Any]
    medium: Callable[..., Any]
    is_single: bool


class CompiledElementwise(NumpyBackend):
    """Elementwise operations and their derivatives as compiled loops."""

    #: Elements from which a loop is faster than the functions of NumPy that it replaces.
    LARGE = 1 << 13

    def __init__(self, library: ctypes.CDLL) -> None:
        super().__init__()
        self.library = library
        self.pooled = functools.cache(functools.partial(wrap_for_pool, library))
        self._loops: dict[Any, Loop | None] = {}
        self._settings: Counter[Any] = Counter()
        self._choices: dict[str, Choice] = {}
        #: Formulas of a single step, and whether NumPy's function has the same result: then loops are for threads.
        self._single: dict[Any, bool] = {}
        threads.hush_before(library.gradcore_hush_threads)
        thread_state.connect(library)
        malloc.connect(library)

    def __getattr__(self, name: str) -> Any:
        """Return NumPy's function `name`, shared among the library's threads."""
        kernel = super().__getattr__(name)
        if isinstance(kernel, np.ufunc):
            formula = Forward(name)
            kernel = wrap_for_pool(
                self.library, kernel, lambda *operands: self.compute_by_loop(formula, operands, True)
            )
            setattr(self, name, kernel)
        return kernel

    def broadcasts_rows(self, name: str, char: str) -> bool:
        """Return False for bools and integers of up to 32 bits: copies of them take less time than NumPy's calls."""
        is_small = char != "" and char in "?bBhHiI"
        plain_name = name.removesuffix("_scaled").removesuffix("_rounded")  # called where the setting is the default
        return not is_small and hasattr(getattr(self, plain_name), "function")

    def small_kernel_of(self, name: str) -> Callable[..., Any]:
        return self._choose_kernels(name).small

    def kernel_of(self, name: str) -> Callable[..., Any]:
        if name not in self.elementwise:
            return super().kernel_of(name)
        choice, formula = self._choose_kernels(name), Forward(name)
        plain = choice.medium
        least = _least_of_single_step(name not in APPROXIMATE) if choice.is_single else self.LARGE

        def compute(*operands: Any, **destination: Any) -> Any:
            if self._is_for_numpy(formula, operands[0]):
                return plain(*operands, **destination)
            result = self.compute_by_loop(formula, operands, **destination)
            return plain(*operands, **destination) if result is None else result

        # If the last operand is optional (the digits of `round`), the number of operands is not fixed.
        optional = getattr(getattr(type(self), name, None), "__defaults__", None)
        return _choose_by_size(plain, compute, 0 if optional else len(self.elementwise[name]), least)

    def _choose_kernels(self, name: str) -> Choice:
        """Return the kernels of an operation for arrays of different sizes.

        Calls by the fast path and by the general path get the same kernels, so that they compute the same.
        """
        choice = self._choices.get(name)
        if choice is None:
            choice = self._choices[name] = self._make_choice(name)
        return choice

    def _make_choice(self, name: str) -> Choice:
        kernel = super().small_kernel_of(name)
        plain = getattr(kernel, "function", kernel)
        parameters = len(self.elementwise.get(name, ()))
        is_single = isinstance(plain, np.ufunc)
        if not parameters:
            return Choice(plain, plain, is_single)
        # NumPy's kernel calls several functions. Methods of several operands are short: most call NumPy once or twice.
        if (parameters == 1 and not is_single) or (parameters > 1 and isinstance(plain, functools.partial)):
            small = self._prefer_loop(plain, Forward(name), parameters == 1)
            return Choice(small, small, is_single)
        return Choice(plain, super().kernel_of(name), is_single)

    def _prefer_loop(self, plain: Callable[..., Any], formula: Forward, is_unary: bool) -> Callable[..., Any]:
        """Return a kernel for small arrays: one call of a loop instead of the calls of NumPy by `plain`."""
        array, loops = np.ndarray, dict[object, Loop | None]()

        def unary(x: AnyArray) -> AnyArray:
            if x.__class__ is not array:
                return plain(x)
            try:
                loop = loops[x.dtype]
            except KeyError:
                loop = loops[x.dtype] = self._loop_of(formula, (x,))
            result = None if loop is None else loop.compute_alike((x,))
            return plain(x) if result is None else result

        def kernel(x: AnyArray, *rest: object) -> AnyArray:
            if x.__class__ is not array:
                return plain(x, *rest)
            key: list[object] = [x.dtype]
            for operand in rest:
                if isinstance(operand, array):
                    key.append(operand.dtype)
                elif operand.__class__ in _SETTINGS:
                    key += operand.__class__, operand or repr(operand)  # 0.0 equals -0.0
                else:
                    return plain(x, *rest)
            found = tuple(key)
            try:
                loop = loops[found]
            except KeyError:
                if len(loops) >= _MOST_LOOPS:  # A setting changes in each call.
                    return plain(x, *rest)
                loop = self._loop_of(formula, (x, *rest))
                if loop is not None and loop.steps <= _SHORT:
                    loop = None
                loops[found] = loop
            result = None if loop is None else loop.compute_alike((x, *rest))
            return plain(x, *rest) if result is None else result

        return unary if is_unary else kernel

    def evaluate_tiled(self, formula: Callable[..., Any], *operands: Any) -> Any:
        if self._is_for_numpy(formula, operands[0]):
            return formula(self, *operands)
        result = self.compute_by_loop(formula, operands)
        return super().evaluate_tiled(formula, *operands) if result is None else result

    def _is_for_numpy(self, formula: Any, x: Any) -> bool:
        """Return whether a formula is known to be a single step that is not worth a loop at this size."""
        return formula in self._single and not _is_worth_it(x, self._single[formula])

    def copy_elements(self, x: Any, order: Any = "K") -> Any:
        """Copy an array in the library's threads, which share its memory with neighbouring passes."""
        number = threads.available()
        if x.size < 2 * WORTH_A_THREAD or number < 2 or x.dtype.hasobject or not x.dtype.isnative:
            return super().copy_elements(x, order)
        if order == "K" and not x.flags.c_contiguous:
            if x.flags.f_contiguous:
                return self.copy_elements(x.T).T
            if any(x.strides):  # The array may be transposed.
                return super().copy_elements(x, order)
        out = np.empty(x.shape, x.dtype)
        succeeded = builtin(self.library, "gradcore_copy")(WORTH_A_THREAD, number, x.itemsize, x, out)
        return out if succeeded else super().copy_elements(x, order)

    def compute_by_loop(
        self, formula: Callable[..., Any], operands: tuple[Any, ...], exact: bool = False, out: AnyArray | None = None
    ) -> Any:
        """Compute ``formula(F, *operands)`` by a loop, or return None if there is none.

        With `exact`, only a loop that gives NumPy's result bit for bit is used. The result is in `out`, if given.
        """
        if malloc.waiting:
            malloc.begin()
        if any(isinstance(o, np.generic) for o in operands):  # to formulas, an array without dims
            operands = tuple([np.asarray(o) if isinstance(o, np.generic) else o for o in operands])
        loop = self._loop_of(formula, operands)
        return None if loop is None or (exact and not loop.is_exact) else loop(operands, out)

    def _loop_of(self, formula: Callable[..., Any], operands: tuple[Any, ...]) -> Loop | None:
        """Return the loop for the dtypes of arrays and the values of settings, or None if NumPy is faster."""
        key = formula, *[o.dtype if o.__class__ is np.ndarray else repr(o) for o in operands]
        try:
            return self._loops[key]
        except KeyError:
            loop = self._looked_up(key, formula, operands)
        # It is known only now whether the formula is a single step.
        return None if self._is_for_numpy(formula, operands[0]) else loop

    def _looked_up(self, key: Any, formula: Callable[..., Any], operands: tuple[Any, ...]) -> Loop | None:
        kinds = [o.dtype if isinstance(o, np.ndarray) else o for o in operands]
        but_for_settings = formula, *[k if isinstance(k, np.dtype) else type(k) for k in kinds]
        if self._settings[but_for_settings] == _MOST_SETTINGS:
            return None
        self._settings[but_for_settings] += 1
        loop = self._loops[key] = self._find_loop(formula, kinds)
        return loop

    def _find_loop(self, formula: Callable[..., Any], kinds: list[Any]) -> Loop | None:
        from gradcore.backends.codegen import emit_cpp  # This import is delayed until it is needed.

        kernel = emit_cpp.trace_loop(formula, kinds, self.bodies)
        function = None if kernel is None else getattr(self.library, emit_cpp.loop_name(kernel), None)
        if kernel is None or function is None:
            return None
        if emit_cpp.is_single_function(kernel):
            self._single[formula] = emit_cpp.is_exact(kernel)
        is_array = [isinstance(k, np.dtype) for k in kinds]
        loop = Loop(self.library, ctypes.cast(function, ctypes.c_void_p).value or 0, kernel, is_array)
        loop.is_exact = emit_cpp.is_exact(kernel)
        return loop


def _choose_by_size(
    plain: Callable[..., Any], compute: Callable[..., Any], operands: int, least: int
) -> Callable[..., Any]:
    """Return a kernel that calls `compute` if its first operand has `least` elements, else `plain`.

    For a fixed number of operands, the call takes half the time. If `plain` is a function of NumPy, the kernel takes an
    array for the result, too, and computes the same elements as without it.
    """
    array = np.ndarray

    def unary(x: Any, out: Any = None) -> Any:
        function = compute if x.__class__ is array and x.size >= least else plain
        return function(x) if out is None else function(x, out=out)

    def binary(x: Any, y: Any, out: Any = None) -> Any:
        function = compute if x.__class__ is array and x.size >= least else plain
        return function(x, y) if out is None else function(x, y, out=out)

    def kernel(x: Any, *rest: Any) -> Any:
        return compute(x, *rest) if x.__class__ is array and x.size >= least else plain(x, *rest)

    by_number: dict[int, Any] = {1: unary, 2: binary}
    chosen = by_number.get(operands, kernel)
    if chosen is not kernel and hasattr(plain, "nout"):
        chosen.nin, chosen.nout = operands, 1
    return chosen


def _is_worth_it(x: Any, exact: bool) -> bool:
    """Return whether a loop should compute a single step on so many elements, rather than NumPy.

    With one thread, NumPy is as fast at exact steps.
    """
    return bool(x.size >= _least_of_single_step(exact) and (not exact or threads.available() > 1))


@functools.cache
def _least_of_single_step(exact: bool) -> int:
    """Return the number of elements from which a loop is faster than NumPy's function of a single step.

    NumPy's exponentials and logarithms for AVX-512 are as fast as loops on few elements. Those for other instruction
    sets take up to nine times as long.
    """
    variant = choose_variant()
    is_fast_in_numpy = exact or (variant is not None and variant.name == "avx512")
    return _SINGLE if is_fast_in_numpy else CompiledElementwise.LARGE
