"""Steps of optimizers on raw arrays, which run a formula over many parameters in tiles that stay in cache.

A formula ``formula(F, p, g, *states, **settings)`` is written once for tensors, and for arrays of any shape and any
library. It changes the parameter `p` and the states in place, and only reads the gradient `g`. Since it is elementwise,
it can run on flattened arrays: large parameters are cut into tiles, and small ones are joined in scratch memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gradcore.backends.kernel_rules import writes
from gradcore.core.typing import AnyArray

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["Batch", "Optimizers"]

Formula = Callable[..., None]
#: Types of settings that are the same for all parameters.
SCALARS = frozenset((bool, float, int, type(None)))

#: Number of elements from which threads share the work.
MANY = 3 << 18


class Batch:
    """Parameters of one device and dtype whose steps are computed together.

    Parameters
    ----------
    params : list of arrays
        Arrays of the parameters, of any shape. They are updated in place.
    states : sequence of arrays
        One flat array for each state. The elements from ``offsets[i]`` to ``offsets[i + 1]`` belong to parameter `i`.

    Attributes
    ----------
    grads : list of arrays
        The gradients of the coming step, usually in the shapes and the dtype of the parameters; see `match_grads`.
    """

    def __init__(self, params: list[Any], states: Sequence[Any]) -> None:
        self.params, self.states, self.grads = params, states, list[Any]()
        self.offsets = [0, *itertools.accumulate(p.size for p in params)]
        self._shapes, self._dtypes = [p.shape for p in params], [p.dtype for p in params]
        #: Filled in by the backend that runs the batch, at the first step.
        self.cut: Cut | None = None
        self.prepared: Any = None

    def match_grads(self) -> None:
        """Convert gradients to the dtype of their parameters; raise RuntimeError if one has another shape.

        They differ if a parameter, or its gradient, has got other data since backward.
        """
        grads = self.grads
        if [g.shape for g in grads] == self._shapes and [g.dtype for g in grads] == self._dtypes:
            return
        for i, (p, g) in enumerate(zip(self.params, grads, strict=True)):
            if g.shape != p.shape:
                raise RuntimeError(
                    f"a parameter of shape {list(p.shape)} has a gradient of shape {list(g.shape)}: call zero_grad() "
                    "and backward() after you set its data"
                )
            if g.dtype != p.dtype:
                grads[i] = g.astype(p.dtype)


class Optimizers:
    """Kernel of an optimizer's step, for all parameters of a batch."""

    xp: Namespace
    is_tensor: Any
    #: Largest number of elements on which a formula runs at once, so that a tile and its temporaries stay in cache.
    tile_size = 1 << 18
    #: Largest number of elements of parameters that are joined, as a copy costs less than a formula for each of them.
    joined_size = 1 << 13
    #: Kernels that replace formulas, by the formula's name: ``kernel(backend, batch, **settings)`` computes the step of
    #: the whole batch in place. The settings are those of the formula.
    fused_steps: ClassVar[dict[str, Callable[..., None]]] = {}

    def in_threads(self, work: Callable[[int, int], None], count: int) -> None:
        """Call ``work(start, stop)`` for consecutive parts of ``range(count)``, which a backend may run in threads."""
        work(0, count)

    @writes()
    def optimizer_step(self, formula: Formula, batch: Batch, settings: dict[str, Any], found_inf: Any = None) -> None:
        """Run `formula` on the parameters, gradients and states of a batch.

        Parameters
        ----------
        formula : callable
            ``formula(F, p, g, *states, **settings)``, elementwise; its name is looked up in `fused_steps`.
        batch : Batch
            Changed in place.
        settings : dict
            Python numbers, and flags: the same for all parameters of the batch. Arrays have an element for each.
        found_inf : array, optional
            A float32 without dims: if it is larger than 0, everything stays as it is.
        """
        backups = [] if found_inf is None else [(a, a.copy()) for a in (*batch.params, *batch.states)]
        self._step_all(formula, batch, settings)
        for array, before in backups:
            self.xp.copyto(array, before, where=found_inf > 0)

    def _step_all(self, formula: Formula, batch: Batch, settings: dict[str, Any]) -> None:
        batch.match_grads()
        fused = self.fused_steps.get(formula.__name__)
        if fused is not None:
            fused(self, batch, **settings)
            return
        if self.has_arrays(settings):
            self._step_each(formula, batch, settings)
            return
        if batch.cut is None:
            batch.cut = Cut(self, batch)
        batch.cut.run(formula, batch.grads, settings)

    def has_arrays(self, settings: dict[str, Any]) -> bool:
        """Return whether any setting is an array, which has an element for each parameter."""
        return not SCALARS.issuperset(map(type, settings.values())) and any(map(self.is_tensor, settings.values()))

    def _step_each(self, formula: Formula, batch: Batch, settings: dict[str, Any]) -> None:
        """Compute the steps of the parameters one by one, each with its own elements of array settings."""
        for i, (p, g) in enumerate(zip(batch.params, batch.grads, strict=True)):
            single = Batch([p], [s[batch.offsets[i] : batch.offsets[i + 1]] for s in batch.states])
            own_settings = {name: v[i : i + 1] if self.is_tensor(v) else v for name, v in settings.items()}
            Cut(self, single).run(formula, [g], own_settings)

    @writes()
    def step_settings(
        self,
        settings: Callable[..., dict[str, Any]],
        options: dict[str, Any],
        numbers: dict[str, Any],
        dtype: Any,
        found_inf: Any = None,
    ) -> tuple[dict[str, Any], list[AnyArray]]:
        """Return the settings of a step whose number is counted on the device, and the former numbers.

        Parameters
        ----------
        settings : callable
            ``(F, options, numbers) -> settings``, an expression of the numbers, which it moves on by a step.
        options : dict
            Python numbers, and arrays without dims.
        numbers : dict
            Arrays with an element for each parameter; changed in place.
        dtype : dtype
            The dtype of the parameters.
        found_inf : array, optional
            See `optimizer_step`: if it is larger than 0, the numbers are not moved.

        Returns
        -------
        settings : dict
            Settings that are computed from `numbers` or other arrays are arrays with an element for each parameter.
        former : list of array
            Copies of `numbers`, to which `restore_numbers` sets them if the step fails.
        """
        xp, kind = self.xp, _step_dtype(dtype)
        float64_numbers = {name: values.astype("float64") for name, values in numbers.items()}
        results = settings(self, options, float64_numbers)
        former, count = [values.copy() for values in numbers.values()], len(next(iter(numbers.values())))
        arrays = {
            name: xp.array(xp.broadcast_to(value.astype(kind), (count,))) if self.is_tensor(value) else value
            for name, value in results.items()
        }
        self._move(numbers, float64_numbers.values(), former, found_inf)
        return arrays, former

    def _move(self, numbers: dict[str, Any], new: Iterable[AnyArray], former: list[AnyArray], found_inf: Any) -> None:
        is_taken = True if found_inf is None else found_inf <= 0
        try:
            for values, moved in zip(numbers.values(), new, strict=False):
                self.xp.copyto(values, moved, where=is_taken)
        except BaseException:
            self.restore_numbers(numbers, former)
            raise

    def restore_numbers(self, numbers: dict[str, Any], former: list[AnyArray]) -> None:
        """Set the numbers of a step that failed to what they were, so that it can be taken again."""
        for values, before in zip(numbers.values(), former, strict=True):
            values[...] = before


class Tile:
    """A cache-sized slice of a batch: several consecutive small parameters, or a part of a large one.

    Parameters
    ----------
    params : list of arrays
        Flat views of the parameters' memory.
    first : int
        The number of the first of these parameters in the batch.
    start : int or None
        For a part of one parameter, where it begins; None for whole parameters.
    states : list of arrays
        The states of these elements.
    """

    __slots__ = ("first", "params", "parts", "start", "states", "stop")

    def __init__(self, params: list[Any], first: int, start: int | None, states: list[Any]) -> None:
        self.params, self.first, self.start, self.states = params, first, start, states
        self.stop = first + len(params) if start is None else start + params[0].size
        #: Views of the scratch memory for the parameters and for their gradients, if the tile is computed there.
        self.parts: tuple[Any, Any, list[Any]] | None = None

    def grads(self, flat: list[Any]) -> list[Array]:
        """Return the parts of the flat gradients `flat` that belong to the elements of this tile."""
        return flat[self.first : self.stop] if self.start is None else [flat[self.first][self.start : self.stop]]


class Cut:
    """A batch cut into tiles.

    float16 and bfloat16 are computed in float32 and rounded once.
    """

    def __init__(self, backend: Any, batch: Batch) -> None:
        self.backend, xp = backend, backend.xp
        # Parameters that are not contiguous are updated in a contiguous copy.
        self.copies = [(p, xp.empty(p.shape, p.dtype)) for p in batch.params if not p.flags.c_contiguous]
        copies = iter(self.copies)
        self.is_complex = batch.params[0].dtype.kind == "c"
        flat = [_flat(p if p.flags.c_contiguous else next(copies)[1]) for p in batch.params]
        states = [_flat(s) for s in batch.states]
        self.wide = _step_dtype(flat[0].dtype) if flat[0].dtype.itemsize == 2 else None
        tiles = list(_tiles(flat, states, backend.tile_size, backend.joined_size))
        #: The tiles that are computed in place, and those that are computed in scratch memory.
        self.direct = [tile for tile in tiles if self.wide is None and tile.start is not None]
        self.joined = [tile for tile in tiles if self.wide is not None or tile.start is None]
        self.is_large = sum(tile.params[0].size for tile in self.direct) >= MANY
        self._lay_out_scratch(flat[0].dtype if self.wide is None else self.wide)

    def _lay_out_scratch(self, dtype: Any) -> None:
        sizes = [sum(p.size for p in tile.params) for tile in self.joined]
        scratch = [self.backend.xp.empty(max(sizes, default=0), dtype) for _ in range(2)]
        for tile, size in zip(self.joined, sizes, strict=True):
            ends = list(itertools.accumulate(p.size for p in tile.params))
            views = [scratch[0][a:b] for a, b in itertools.pairwise([0, *ends])]
            tile.parts = scratch[0][:size], scratch[1][:size], views

    def run(self, formula: Formula, grads: list[Array], settings: dict[str, Any]) -> None:
        """Run the formula on all tiles."""
        grads = [_flat(g) for g in grads] if self.is_complex else [g.ravel() for g in grads]
        for original, copy in self.copies:
            copy[...] = original

        def update_range(start: int, stop: int) -> None:
            for tile in self.direct[start:stop]:
                formula(self.backend, tile.params[0], tile.grads(grads)[0], *tile.states, **settings)

        if not self.is_large:
            update_range(0, len(self.direct))
        else:
            self.backend.in_threads(update_range, len(self.direct))
        for tile in self.joined:
            self._run_in_scratch(formula, tile, tile.grads(grads), settings)
        for original, copy in self.copies:
            original[...] = copy

    def _run_in_scratch(self, formula: Formula, tile: Tile, grads: list[Array], settings: dict[str, Any]) -> None:
        assert tile.parts is not None
        p, g, views = tile.parts
        self.backend.xp.concatenate(tile.params, out=p)
        self.backend.xp.concatenate(grads, out=g)
        if self.wide is None:
            formula(self.backend, p, g, *tile.states, **settings)
        else:
            states = [s.astype(self.wide) for s in tile.states]
            formula(self.backend, p, g, *states, **settings)
            for narrow, wide in zip(tile.states, states, strict=True):
                narrow[...] = wide
        for param, view in zip(tile.params, views, strict=True):
            param[...] = view


def _step_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype in which a step of parameters of `dtype` is computed: float32 for 16-bit floats."""
    return np.dtype({2: "float32"}.get(dtype.itemsize, np.empty(0, dtype).real.dtype))


def _flat(array: Any) -> Array:
    """Return the elements as a vector, complex ones as pairs of numbers: a view, or a copy if not contiguous."""
    flat = array.ravel()
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _tiles(flat: list[Any], states: list[Any], tile_size: int, joined_size: int) -> Iterator[Tile]:
    """Yield the tiles of the flattened parameters, in order."""
    waiting: list[Any] = []
    done = 0  # elements in tiles, which is where the next tile's states begin

    def tile(params: list[Any], first: int, start: int | None) -> Tile:
        nonlocal done
        begin, done = done, done + sum(p.size for p in params)
        return Tile(params, first, start, [s[begin:done] for s in states])

    def join_waiting(stop: int) -> Tile:
        """Return the tile of the waiting parameters, which come before number `stop`. A single one is not copied."""
        return tile(waiting, stop - len(waiting), 0 if len(waiting) == 1 else None)

    for i, p in enumerate(flat):
        small = p.size <= joined_size
        if waiting and not (small and sum(w.size for w in waiting) + p.size <= tile_size):
            yield join_waiting(i)
            waiting = []
        if small:
            waiting.append(p)
            continue
        step = -(-p.size // -(-p.size // tile_size))  # equal parts
        for start in range(0, p.size, step):
            yield tile([p[start : start + step]], i, start)
    if waiting:
        yield join_waiting(len(flat))
