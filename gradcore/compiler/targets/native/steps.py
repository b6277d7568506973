"""Steps of native segments: loops, reductions and kernels on views of memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.codegen.trace import compute_dtype
from gradcore.compiler.program.effects import Effects
from gradcore.compiler.program.program import Program
from gradcore.compiler.program.storage import span_of
from gradcore.core.size import contiguous_strides

__all__ = ["Kernel", "Loop", "Reduction", "Rules", "Step", "Unsupported", "View", "clashes", "overlap"]


class Unsupported(Exception):
    """Raised for a call that cannot be lowered."""


class View(NamedTuple):
    """A strided view of a memory.

    Attributes
    ----------
    memory : int
        The number of the value that owns the memory.
    offset : int
        The distance in bytes from the first element of that value.
    shape : tuple of int
    strides : tuple of int
        The strides in bytes.
    dtype : dtype
    """

    memory: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def extent(self) -> tuple[int, int]:
        """The range of byte offsets of the elements, from the first byte to the one after the last."""
        low, high = span_of(self.shape, self.strides, self.dtype.itemsize)
        return self.offset + low, self.offset + high

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements follow each other in the order of the dims."""
        strides = contiguous_strides(self.shape, self.dtype.itemsize)
        return not self.size or all(n == 1 or s == w for n, s, w in zip(self.shape, self.strides, strides, strict=True))

    @property
    def is_injective(self) -> bool:
        """Whether no two elements share memory, as far as the strides show."""
        if not self.size:
            return True
        steps = sorted((abs(s), n) for n, s in zip(self.shape, self.strides, strict=True) if n > 1)
        span = self.dtype.itemsize
        for step, n in steps:
            if step < span:
                return False
            span = step * (n - 1) + span
        return True

    def broadcast(self, shape: tuple[int, ...]) -> View:
        """Return the view broadcast to a larger shape.

        Raises
        ------
        ValueError
            If the shapes do not fit.
        """
        if shape == self.shape:
            return self
        lead = len(shape) - len(self.shape)
        if lead < 0 or any(n not in (1, m) for n, m in zip(self.shape, shape[lead:], strict=True)):
            raise ValueError(f"{self.shape} is not {shape}")
        strides = [0 if n == 1 else s for n, s in zip(self.shape, self.strides, strict=True)]
        return self._replace(shape=shape, strides=(0,) * lead + tuple(strides))

    def reshape(self, shape: tuple[int, ...]) -> View:
        """Return a contiguous view with another shape."""
        return self._replace(shape=shape, strides=contiguous_strides(shape, self.dtype.itemsize))

    def split_dims(self, sizes: tuple[int, ...]) -> View:
        """Return the view with its dims split into dims of these sizes."""
        strides: list[int] = []
        remaining = iter(sizes[::-1])
        for n, stride in zip(self.shape[::-1], self.strides[::-1], strict=True):
            size = 1
            while size < n:
                strides.append(stride * size)
                size *= next(remaining)
        return self._replace(shape=sizes, strides=tuple(strides[::-1]))

    def select(self, index: Any) -> View:
        """Return the view of a basic index: numbers, slices, None and ``...``."""
        base = np.lib.stride_tricks.as_strided(np.empty((), self.dtype), self.shape, self.strides, writeable=False)
        selected = base[index]
        if selected.size and selected.base is None:
            raise ValueError("the index copies")
        distance = selected.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        return self._replace(offset=self.offset + distance, shape=selected.shape, strides=selected.strides)


class Step:
    """A computation on views.

    Attributes
    ----------
    reads, writes : list of View
    fallible : bool
        Whether the values of elements may cause an error, in which case the step writes nothing.
    """

    reads: list[View]
    writes: list[View]
    fallible = False


class Loop(Step):
    """An elementwise computation.

    Parameters
    ----------
    writes : list of View
        The outputs, all of the same shape.
    reads : list of View
        The inputs, of that shape or broadcast to it.
    formula : callable
        ``(F, *expressions) -> expressions``.
    """

    def __init__(self, writes: list[View], reads: list[View], formula: Callable[..., Any]) -> None:
        self.shape = writes[0].shape
        self.reads, self.writes = [r.broadcast(self.shape) for r in reads], writes
        self.formula = formula

    def compute(self, source: Loop) -> None:
        """Compute the only result of another loop over the same shape, in the place of reading it."""
        i, count, formula = self.reads.index(source.writes[0]), len(source.reads), self.formula
        self.reads = [*self.reads[:i], *source.reads, *self.reads[i + 1 :]]

        def compute_and_use(F: Any, *exprs: Any) -> Any:
            return formula(F, *exprs[:i], *source_formula(F, *exprs[i : i + count]), *exprs[i + count :])

        source_formula, self.formula = source.formula, compute_and_use

    def split_dims(self, sizes: tuple[int, ...]) -> None:
        """Split dims into dims of these sizes, without an effect on the order of elements."""
        self.shape = sizes
        self.reads, self.writes = ([v.split_dims(sizes) for v in views] for views in (self.reads, self.writes))


class Reduction(Step):
    """A sum, product, maximum or minimum over some dims.

    Parameters
    ----------
    kind : str
        ``"sum"``, ``"max"``, ``"min"`` or ``"prod"``.
    out : View
        The output, without the reduced dims.
    x : View
    dims : tuple of int
    divisor : int
        The number that the result is divided by.
    """

    def __init__(self, kind: str, out: View, x: View, dims: tuple[int, ...], divisor: int = 1) -> None:
        self.kind, self.dims, self.divisor = kind, dims, divisor
        self.shape, self.reads, self.writes = x.shape, [x], [out]

    def split_dims(self, sizes: tuple[int, ...]) -> None:
        """Split dims into dims of these sizes, without an effect on the order of elements."""
        # A view that counts dims of `x` by its strides shows which of the new dims belong to a reduced one.
        reduced = View(0, 0, self.shape, tuple(int(d in self.dims) for d in range(len(self.shape))), np.dtype(bool))
        self.dims = tuple(d for d, stride in enumerate(reduced.split_dims(sizes).strides) if stride)
        kept = tuple(n for d, n in enumerate(sizes) if d not in self.dims)
        self.shape, self.reads = sizes, [self.reads[0].split_dims(sizes)]
        self.writes = [self.writes[0].split_dims(kept)]


class Kernel(Step):
    """A call of a C++ function of ``program.h``.

    Parameters
    ----------
    text : str
        The C++ call, with ``{0}``, ``{1}`` ... for the first elements of `writes` and then of `reads`.
    writes, reads : list of View
    fallible : bool
    lasting : bool
        Whether the call takes so long that it uses several threads and releases the GIL.
    narrow : bool
        Whether the call also accepts 32-bit indices.
    """

    def __init__(
        self, text: str, writes: list[View], reads: list[View], fallible: bool = False, lasting: bool = False,
        narrow: bool = False,
    ) -> None:  # fmt: skip
        self.text, self.writes, self.reads, self.fallible, self.lasting = text, writes, reads, fallible, lasting
        self.narrow = narrow


class Rules:
    """Base class of lowering rules: the attributes and methods of `Lowering` that rules use."""

    program: Program
    blas: bool
    views: dict[int, View]
    temporary: set[int]
    temporary_view: Any
    constants: dict[int, Any]
    _effects: Effects
    _lowered_bodies: dict[str, Any]
    _steps: Any
    _view: Any
    _literal: Any
    _check_loop: Any
    _write: Any

    def _fill(self, out: View, value: Any) -> list[Step]:
        return [Loop([out], [], lambda F: [F.graph.constant(value, compute_dtype(out.dtype))])]

    def _convert(self, out: View, x: View) -> Loop:
        """Return the loop that copies `x` to `out`, converted to the dtype of `out`."""
        dtype = compute_dtype(out.dtype)  # The stored value is rounded once.
        if dtype != out.dtype and x.dtype != np.bool_ and compute_dtype(x.dtype) != dtype:
            raise Unsupported("it would be rounded twice")
        return self._check_loop(Loop([out], [x], lambda F, e: [F.graph.cast(e, dtype)]))  # type: ignore[no-any-return]


def overlap(a: View, b: View, given: frozenset[int] = frozenset()) -> bool:
    """Return whether two views may have elements in common; the memories in `given`, inputs, may overlap each other."""
    if a.memory != b.memory:
        return a.memory in given and b.memory in given
    (low, high), (start, stop) = a.extent, b.extent
    return low < stop and start < high


def clashes(first: Step, second: Step, given: frozenset[int]) -> bool:
    """Return whether two steps must keep their order; the memories in `given`, inputs, may overlap each other."""
    return any(overlap(w, v, given) for w in first.writes for v in (*second.reads, *second.writes)) or any(
        overlap(r, w, given) for r in first.reads for w in second.writes
    )
