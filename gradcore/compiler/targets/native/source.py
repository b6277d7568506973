"""C++ source of the loops of a native segment."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from gradcore.backends.codegen.cpp import C_TYPES, statements
from gradcore.compiler.targets.native.groups import DIALECT, TracedGroup
from gradcore.compiler.targets.native.rolling import Invocation

__all__ = ["loop_call", "loop_source"]

#: Elements times expressions that are worth a thread; elements that one thread sums.
_WORTH_A_THREAD, _CHUNK = 1 << 17, 1 << 15
#: The number of accumulators of a loop that sums rows, and the length of rows that a function sums as fast as a loop.
_MOST_SUMS, _LONG_ROW = 4096, 64
#: The sizes in bytes of types that do not have 8 bytes, and the types that are computed with as float.
_SIZES = {
    "bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "float16": 2, "bfloat16": 2, "i32": 4, "u32": 4, "float": 4,
}  # fmt: skip
_HALVES = ("float16", "bfloat16")


class _Dim(NamedTuple):
    """A dim of a loop: its size, whether it is reduced, and its stride in bytes for each array."""

    size: int
    reduced: bool
    steps: tuple[int, ...]


def _dims(traced: TracedGroup) -> list[_Dim]:
    """Return the dims of a group's loop, outermost first; adjacent dims that are contiguous are merged."""
    reduced = set(traced.reductions[0].dims) if traced.reductions else set()
    views = [*traced.loads, *traced.stores]
    rows = [v.strides for v in views]
    for r in traced.reductions:
        steps = iter(r.writes[0].strides)
        rows.append(tuple(0 if d in reduced else next(steps) for d in range(len(traced.shape))))
    dims = [_Dim(n, d in reduced, tuple(row[d] for row in rows)) for d, n in enumerate(traced.shape) if n != 1]
    lead = traced.stores[0] if traced.stores else traced.loads[0] if traced.loads else None
    if lead is not None:
        column = views.index(lead)
        dims.sort(key=lambda dim: (dim.reduced, -abs(dim.steps[column]) if dim.steps[column] else 0))
    merged: list[_Dim] = []
    for dim in dims:
        if merged and merged[-1].reduced == dim.reduced:
            previous = merged[-1]
            if all(b == s * dim.size for b, s in zip(previous.steps, dim.steps, strict=True)):
                merged[-1] = _Dim(previous.size * dim.size, dim.reduced, dim.steps)
                continue
        merged.append(dim)
    return merged


def _types(traced: TracedGroup) -> list[str]:
    dtypes = [v.dtype for v in (*traced.loads, *traced.stores)] + [r.writes[0].dtype for r in traced.reductions]
    return [C_TYPES[d.name] for d in dtypes]


def _sources(traced: TracedGroup) -> list[int]:
    """Return, for each array of a loop, the array whose pointer it uses: arrays written in place share one."""
    loads = {view: i for i, view in enumerate(traced.loads)}
    first = len(loads) + len(traced.stores)
    stores = [loads.get(view, len(loads) + k) for k, view in enumerate(traced.stores)]
    return [*loads.values(), *stores, *range(first, first + len(traced.reductions))]


class _Writer:
    """Emitter of one loop."""

    def __init__(self, traced: TracedGroup) -> None:
        self.traced, self.dims, self.types = traced, _dims(traced), _types(traced)
        self.body, self.results = statements(traced.kernel, DIALECT)
        self.size = math.prod(traced.shape)
        #: The number of the first array that a reduction writes.
        self.first_sum = len(traced.loads) + len(traced.stores)
        self.lines: list[str] = []
        self.sources = _sources(traced)
        self.names = [f"a{i}" for i in sorted({*self.sources})]

    def parameters(self) -> list[str]:
        """Return the parameters of the C++ function: pointers to first elements."""
        written_sources = {*self.sources[len(self.traced.loads) :]}
        return [f"{'' if i in written_sources else 'const '}{self.types[i]}* a{i}" for i in sorted({*self.sources})]

    def emit(self, depth: int, text: str) -> None:
        self.lines.append(f"{'    ' * depth}{text}")

    @contextmanager
    def loops(self, depth: int, bounds: dict[int, tuple[str, str]]) -> Iterator[tuple[int, list[tuple[int, str]]]]:
        """Emit the heads and, at the end, the tails of nested loops over dims; yield the depth and indices inside."""
        for i, (d, (low, high)) in enumerate(bounds.items()):
            self.emit(depth + i, f"for (i64 i{d} = {low}; i{d} < {high}; ++i{d}) {{")
        yield depth + len(bounds), [(d, f"i{d}") for d in bounds]
        for i in reversed(range(len(bounds))):
            self.emit(depth + i, "}")

    def bounds_of(self, dims: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Return the bounds of loops over whole dims."""
        return {d: ("0", str(self.dims[d].size)) for d in dims}

    def place(self, array: int, dims: list[tuple[int, str]]) -> str:
        """Return the C++ expression of an array's element at indices."""
        kind, terms = self.types[array], []
        size = _SIZES.get(kind, 8)
        for d, name in dims:
            step = self.dims[d].steps[array]
            if step:
                terms.append(f"{name} * {step // size}" if step != size else name)
        return f"a{self.sources[array]}[{' + '.join(terms) or '0'}]"

    def load(self, depth: int, indices: list[tuple[int, str]], still: bool | None = None) -> None:
        """Emit the loads of all elements (`still` is None), of constant ones (True), or of those that vary (False)."""
        for i, (operand, kind) in enumerate(zip(self.traced.kernel.inputs, self.types, strict=False)):
            if still is not None and still == any(dim.steps[i] for dim in self.dims):
                continue
            element = self.place(i, indices)
            kind, value = ("float", f"load({element})") if kind in _HALVES else (kind, element)
            self.emit(depth, f"const {kind} {operand.name} = {value};")

    def element(self, depth: int, indices: list[tuple[int, str]], still: bool | None = None) -> None:
        """Emit the loads (see `load`), the computation and the stores of one element, without its reductions."""
        loads = len(self.traced.loads)
        self.load(depth, indices, still)
        for line in self.body:
            self.emit(depth, line)
        for k in range(len(self.traced.stores)):
            kind, value = self.types[loads + k], self.results[k]
            value = f"store<{kind}>({value})" if kind in _HALVES else value
            self.emit(depth, f"{self.place(loads + k, indices)} = {value};")

    # -- shapes of loops

    def simple(self, start: str, stop: str) -> None:
        """Emit a loop without reductions over the first dim, from `start` to `stop`."""
        self.load(1, [], still=True)
        *outer, last = (self.bounds_of(range(len(self.dims))) | {0: (start, stop)}).items()
        with self.loops(1, dict(outer)) as (depth, indices):
            self.emit(depth, "#pragma omp simd")
            with self.loops(depth, dict([last])) as (innermost, index):
                self.element(innermost, indices + index, still=False)

    def reducing(self, start: str, stop: str) -> None:
        """Emit a loop with kept dims outside and reductions inside, from `start` to `stop` of the first dim."""
        bounds = self.bounds_of(d for d, dim in enumerate(self.dims) if not dim.reduced)
        bounds |= {0: (start, stop)} if 0 in bounds else {}
        with self.loops(1, bounds) as (depth, indices):
            self.sums(depth, indices, self.bounds_of(d for d, dim in enumerate(self.dims) if dim.reduced))
            for k, r in enumerate(self.traced.reductions):
                self.emit(depth, f"{self.place(self.first_sum + k, indices)} = {self.final(r, f's{k}')};")

    def final(self, r: Any, name: str) -> str:
        kind = C_TYPES[r.writes[0].dtype.name]
        value = f"static_cast<{kind}>({name})"
        return value if r.divisor == 1 else f"{value} / {kind}({r.divisor})"

    def accumulator(self, r: Any) -> str:
        kind = C_TYPES[r.reads[0].dtype.name]
        return kind if r.kind in ("max", "min", "prod") else f"wide<{kind}>"

    def start_of(self, r: Any) -> str:
        """Return the C++ expression of the value with which a reduction begins."""
        kind, dtype = C_TYPES[r.reads[0].dtype.name], r.reads[0].dtype
        if r.kind in ("sum", "prod"):
            return "0" if r.kind == "sum" else "1"
        if dtype.kind == "f":
            return f"{'-' if r.kind == 'max' else ''}infinity<{kind}>()"
        return f"std::numeric_limits<{kind}>::{'lowest' if r.kind == 'max' else 'max'}()"

    def accumulate(self, depth: int, name: str) -> None:
        """Emit the statements that combine the accumulators of reductions, named by their numbers, with values."""
        results = self.results[len(self.traced.stores) :]
        for k, (r, value) in enumerate(zip(self.traced.reductions, results, strict=True)):
            total = name.format(k)
            if r.kind in ("sum", "prod"):
                self.emit(depth, f"{total} {'+' if r.kind == 'sum' else '*'}= {value};")
            else:
                self.emit(depth, f"{total} = {'maximum' if r.kind == 'max' else 'minimum'}({total}, {value});")

    def sums(self, depth: int, indices: list[tuple[int, str]], bounds: dict[int, tuple[str, str]]) -> None:
        """Emit the declaration and computation of the reductions ``s0``, ``s1`` ... over dims with these bounds."""
        reductions = [*enumerate(self.traced.reductions)]
        for k, r in reductions:
            self.emit(depth, f"{self.accumulator(r)} s{k} = {self.start_of(r)};")
        if not bounds or any(r.kind != "sum" for _, r in reductions):
            with self.loops(depth, bounds) as (innermost, index):
                self.element(innermost, indices + index)
                self.accumulate(innermost, "s{}")
            return
        *outer, last = bounds.items()
        low, high = last[1]
        with self.loops(depth, dict(outer)) as (inside, outer_indices):
            names = [*indices, *outer_indices]
            # Partial sums keep rounding errors small.
            row = self.contiguous_row(last[0])
            step = 1024 if row is None else 8192
            self.emit(inside, f"for (i64 j = {low}; j < {high}; j += {step}) {{")
            self.emit(inside + 1, f"const i64 end = j + {step} < {high} ? j + {step} : {high};")
            if row is not None:
                self.emit(inside + 1, f"s0 += sum_of(end - j, &{self.place(row, [*names, (last[0], 'j')])});")
            else:
                for k, r in reductions:
                    self.emit(inside + 1, f"{self.accumulator(r)} t{k} = 0;")
                self.emit(inside + 1, f"#pragma omp simd reduction(+ : {', '.join(f't{k}' for k, _ in reductions)})")
                with self.loops(inside + 1, {last[0]: ("j", "end")}) as (innermost, index):
                    self.element(innermost, names + index)
                    self.accumulate(innermost, "t{}")
                for k, _ in reductions:
                    self.emit(inside + 1, f"s{k} += t{k};")
            self.emit(inside, "}")

    def contiguous_row(self, number: int) -> int | None:
        """Return the array of floats whose elements, contiguous in a long dim, are all that the loop adds, or None."""
        names, dim = [operand.name for operand in self.traced.kernel.inputs], self.dims[number]
        if self.traced.stores or len(self.results) != 1 or self.results[0] not in names or dim.size < _LONG_ROW:
            return None
        array = names.index(self.results[0])
        return array if (self.types[array], dim.steps[array]) in (("float", 4), ("double", 8)) else None

    def emit_by_rows(self) -> None:
        """Emit reductions that add rows to rows: the kept dim is innermost, with one accumulator for each index."""
        row_dim = next(d for d, dim in enumerate(self.dims) if not dim.reduced)
        n = self.dims[row_dim].size
        for k, r in enumerate(self.traced.reductions):
            self.emit(1, f"{self.accumulator(r)} s{k}[{n}];")
            self.emit(1, f"for (i64 i = 0; i < {n}; ++i) s{k}[i] = {self.start_of(r)};")
        with self.loops(1, self.bounds_of(d for d, dim in enumerate(self.dims) if dim.reduced)) as (depth, indices):
            self.emit(depth, "#pragma omp simd")
            with self.loops(depth, self.bounds_of([row_dim])) as (innermost, index):
                self.element(innermost, indices + index)
                self.accumulate(innermost, f"s{{}}[i{row_dim}]")
        for k, r in enumerate(self.traced.reductions):
            place = self.place(self.first_sum + k, [(row_dim, "i")])
            self.emit(1, f"for (i64 i = 0; i < {n}; ++i) {place} = {self.final(r, f's{k}[i]')};")

    # -- the whole

    def write(self) -> tuple[list[str], bool]:
        """Return the lines of the body, and whether they compute a range of the first dim, for several threads."""
        kept_dims = [dim for dim in self.dims if not dim.reduced]
        large = self.size * max(len(self.traced.kernel.computed), 2) >= 2 * _WORTH_A_THREAD
        if not self.size:
            return [], False
        if not self.traced.reductions:
            if not self.dims:
                self.element(1, [])
                return self.lines, False
            in_threads = large and self.dims[0].size > 1
            self.simple("start" if in_threads else "0", "stop" if in_threads else str(self.dims[0].size))
            return self.lines, in_threads
        innermost = self.dims[-1].steps[0] if self.dims and self.traced.loads else 0
        rows = len(kept_dims) == 1 and any(dim.reduced for dim in self.dims) and kept_dims[0].size <= _MOST_SUMS
        if rows and kept_dims[0].steps and 0 < abs(kept_dims[0].steps[0]) < abs(innermost or 1 << 62):
            self.emit_by_rows()
            return self.lines, False
        if kept_dims:
            in_threads = large and kept_dims[0].size > 1
            self.reducing("start" if in_threads else "0", "stop" if in_threads else str(kept_dims[0].size))
            return self.lines, in_threads
        first = self.dims[0].size if self.dims else 1
        sums = all(r.kind == "sum" for r in self.traced.reductions)
        if large and sums and len(self.dims) == 1 and first >= 2 * _CHUNK:
            self.emit_in_chunks(first)
            return self.lines, False
        self.reducing("0", "0")
        return self.lines, False

    def emit_in_chunks(self, n: int) -> None:
        """Emit reductions within chunks, whose size does not depend on the number of threads, then over the chunks."""
        chunk = max(_CHUNK, -(-n // 2048) // 64 * 64 + 64)
        parts = -(-n // chunk)
        sums = [f"{self.accumulator(r)}* p{k}" for k, r in enumerate(self.traced.reductions)]
        self.emit(1, f"const auto chunk = []({', '.join(['i64 c', *self.parameters(), *sums])}) {{")
        self.emit(1, f"const i64 start = c * {chunk}, stop = start + {chunk} < {n} ? start + {chunk} : {n};")
        self.sums(1, [], {0: ("start", "stop")})
        for k in range(len(self.traced.reductions)):
            self.emit(1, f"p{k}[c] = s{k};")
        self.emit(1, "};")
        for k, r in enumerate(self.traced.reductions):
            self.emit(1, f"{self.accumulator(r)} p{k}[{parts}];")
        names = ", ".join(["c", *(f"a{i}" for i in range(len(self.types))), *(f"p{k}" for k in range(len(sums)))])
        self.emit(1, f"spread({parts}, 1, 1, threads, [&](i64 first, i64 last) {{")
        self.emit(2, f"for (i64 c = first; c < last; ++c) chunk({names});")
        self.emit(1, "});")
        for k, r in enumerate(self.traced.reductions):
            self.emit(1, f"{self.accumulator(r)} s{k} = 0;")
            self.emit(1, f"for (i64 c = 0; c < {parts}; ++c) s{k} += p{k}[c];")
            self.emit(1, f"a{self.first_sum + k}[0] = {self.final(r, f's{k}')};")


def loop_source(traced: TracedGroup) -> tuple[str, str]:
    """Return the name and the source of a group's C++ function; equal functions have equal names."""
    writer = _Writer(traced)
    lines, in_threads = writer.write()
    if in_threads:
        work = writer.size * max(len(traced.kernel.computed), 2)
        rows = writer.dims[0].size
        grain = max(1, _WORTH_A_THREAD * rows // work)
        step = 64 if len(writer.dims) == 1 else 1
        # The pointers are parameters of the function, because captured ones would be read again for each element.
        head = f"    const auto part = []({', '.join(['i64 start', 'i64 stop', *writer.parameters()])}) {{"
        call = f"part({', '.join(['start', 'stop', *writer.names])});"
        shared_part = f"    spread({rows}, {grain}, {step}, threads, [&](i64 start, i64 stop) {{ {call} }});"
        lines = [head, *lines, "    };", shared_part]
    text = "\n".join([f"({', '.join([*writer.parameters(), 'i64 threads'])}) {{", "    (void)threads;", *lines, "}"])
    name = f"loop_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return name, f"__attribute__((noinline)) static void {name}{text}"


def loop_call(name: str, traced: TracedGroup) -> Invocation:
    """Return the call of a group's function."""
    views = (*traced.loads, *traced.stores, *(r.writes[0] for r in traced.reductions))
    text = f"{name}({', '.join([*(f'{{{i}}}' for i in sorted({*_sources(traced)})), 'threads'])})"
    return Invocation(text, views, shared=_find_shared(traced))


def _find_shared(traced: TracedGroup) -> tuple[tuple[int, int], ...]:
    """Return the memories that a loop reads and writes at the same positions, where each has a single view."""
    uses = Counter(v.memory for v in (*traced.loads, *traced.stores, *(r.writes[0] for r in traced.reductions)))
    return tuple(
        (x.memory, out.memory)
        for x in traced.loads
        for out in traced.stores
        if uses[x.memory] == uses[out.memory] == 1 and x[1:] == out[1:] and x.is_injective
    )
