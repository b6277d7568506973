"""Passes: rewrites of a captured program, each a function of a program and its effects that returns a program.

Results stay bitwise equal. A value may replace another only where no difference can be observed: neither is written
to, and the replaced one is not an output.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from gradcore.backends.base import SMALL, Backend
from gradcore.backends.numpy.thread_state import has_subnormals, keep_subnormals
from gradcore.backends.portable.elementwise import RENAMED
from gradcore.backends.registry import CPU
from gradcore.compiler.program.effects import COPIES, Effects, is_pure, is_total, written_values
from gradcore.compiler.program.program import Call, Literal, Program, Value, leaves_in, map_leaves, substitute
from gradcore.compiler.program.storage import span_of
from gradcore.core.operators import BASIC, names_of

__all__ = ["PASSES", "optimize", "run_passes", "takes_scalars"]

_Pass: TypeAlias = Callable[[Program, Effects], Program]
#: The largest size in bytes of results that `fold_constants` stores as literals.
_FOLDED = 1 << 14


def optimize(program: Program) -> Program:
    """Return the program after all passes."""
    return [program, *(optimized for _, optimized in run_passes(program))][-1]


def run_passes(program: Program) -> Iterator[tuple[str, Program]]:
    """Run the passes in order, and yield the name of each and the program after it."""
    done: dict[_Pass, Program] = {}  # A pass is not repeated if nothing has changed since.
    effects: Effects | None = None
    for name, run in PASSES.items():
        if (program.backend is None or run not in _OF_NUMPY) and not (program.symbols and run in _OF_ONE_SIZE):
            if effects is None or effects.program is not program:
                effects = Effects(program)
            program = done[run] = program if done.get(run) is program else run(program, effects)
            yield name, program


# -- functions of small arrays ----------------------------------------------------------------------------------------


def use_small_kernels(program: Program, effects: Effects) -> Program:
    """Replace kernels by NumPy's functions in calls where all arrays are small."""
    return program.with_calls([_use_small_kernel(call, program) for call in program.calls])


def _use_small_kernel(call: Call, program: Program) -> Call:
    kind, _, name = call.name.partition(".")
    if kind not in ("kernels", "backend") or call.named or not (name in Backend.elementwise or name in RENAMED):
        return call
    sizes = [program.types[n].size for n in call.read if n in program.types]
    kernels: Any = CPU.kernels
    small = kernels.small[name] if max(sizes, default=SMALL) < SMALL else None
    return call._replace(function=small) if isinstance(small, np.ufunc) else call


# -- in-place arithmetic on private memory ----------------------------------------------------------------------------


def remove_writes(program: Program, effects: Effects) -> Program:
    """Replace in-place arithmetic such as ``v += w`` by a new value, where the memory of `v` is private."""
    result = program.copy()
    sharing = Counter(map(effects.memory, program.types))
    names: dict[int, Any] = {}
    for call in program.calls:
        function, number = _IN_PLACE.get(call.name), call.results.number if type(call.results) is Value else -1
        memory = effects.memory(number)
        replaced = substitute(call, names)
        if function is not None and memory != -1 and sharing[memory] == 1 and _has_same_type(call, program, number):
            names[number] = result.new_value(program.types[number])
            result.calls.append(Call(call.name.replace(".i", "."), function, replaced.args, {}, names[number]))
        else:  # A call that still writes in place returns the value that it writes.
            result.calls.append(replaced._replace(results=names[number]) if number in names else replaced)
    result.outputs = [names[n].number if n in names else n for n in program.outputs]
    return result if names else program


_IN_PLACE: dict[str, Callable[..., Any]] = {f"operator.i{name}": each.ufunc for name, each in BASIC.items()}


def _has_same_type(call: Call, program: Program, number: int) -> bool:
    """Return whether arithmetic keeps the dtype, shape and strides of an argument."""
    target, right = program.types[number], program.type_of(call.args[1])
    if program.backend is not None and not target.shape:
        return False  # For a 0-dim array on the CPU, the result would be a NumPy scalar.
    if right is None or right.dtype != target.dtype or target.dtype.kind not in "fc" or not target.is_dense:
        return False
    return right.shape == target.shape or np.broadcast_shapes(right.shape, target.shape) == target.shape


# -- calls that return their argument ----------------------------------------------------------------------------------


def remove_copies(program: Program, effects: Effects) -> Program:
    """Remove calls whose result can be replaced by their argument.

    A copy can go if neither it nor its source is written to later.
    """
    calls, names = list[Call](), dict[int, Any]()
    for call in program.calls:
        call = substitute(call, names)
        if not is_pure(call) or type(call.results) is not Value:
            calls.append(call)
            continue
        number = call.results.number
        if number in call.read:
            continue
        source = _same_elements(call, program)
        if source is not None and _can_replace(source, number, effects):
            names[number] = source
        else:
            calls.append(call)
    return program.with_calls(calls)


def _same_elements(call: Call, program: Program) -> Any:
    """Return the argument of a pure call that equals its result in elements and type, or None."""
    _, _, name = call.name.rpartition(".")
    result_type = program.types[call.results.number]
    for each in call.read:
        if each in program.types and program.types[each] == result_type:  # a view of all elements
            return Value(each)
    source = None
    if (name in COPIES and call.args) or (
        name == "pow" and len(call.args) == 2 and call.args[1] == 1 and result_type.dtype.kind in "fc"
    ):
        source = call.args[0]
    elif name in ("mul", "div", "truediv") and len(call.args) == 2:
        x, y = call.args
        source = x if _is_one(y, program) else y if name == "mul" and _is_one(x, program) else None
    arg_type = program.type_of(source)
    is_same = arg_type is not None and arg_type[:3] == result_type[:3] and result_type.dtype.kind in "biuf"
    return source if is_same else None


def _is_one(leaf: Any, program: Program) -> bool:
    """Return whether an argument is 1 or an array of ones."""
    if type(leaf) is Literal:
        array = program.literals[leaf.number]
        return _span(array) <= _FOLDED and bool((_distinct(array) == 1).all())
    return type(leaf) in (int, float) and leaf == 1


def _span(array: Any) -> int:
    """Return the bytes from the first to the last element of an array or array type."""
    low, high = span_of(array.shape, array.strides, array.dtype.itemsize)
    return high - low


def _distinct(array: Any) -> Any:
    """Return the distinct elements of a broadcast array, without the repeats of stride 0."""
    return array[tuple(slice(None) if step else slice(0, 1) for step in array.strides)]


def _can_replace(leaf: Any, number: int, effects: Effects) -> bool:
    """Return whether an argument can replace the value `number`, which has the same elements."""
    if type(leaf) is not Value:
        return effects.is_private(number)
    types, outputs = effects.program.types, effects.program.outputs
    if leaf.number in types and types[leaf.number] == types.get(number):  # Both are the same memory.
        return number not in outputs
    return effects.is_private(number) and effects.is_constant(leaf.number)


# -- constants -----------------------------------------------------------------------------------------------------


def fold_constants(program: Program, effects: Effects) -> Program:
    """Replace small values that depend on literals alone by literals, including values filled by several writes."""
    constant = _constant_calls(program, effects)
    if not constant or (program.backend is not None and program.index is None):
        return program
    folded, constants = program.copy(), dict[int, Any]()

    def plain(leaf: Any) -> Any:
        if type(leaf) is Literal:
            return program.literals[leaf.number]
        return constants[leaf.number] if type(leaf) is Value else leaf

    def keep(target: Any, result: Any) -> None:
        if type(target) is Value:
            constants[target.number] = np.asarray(result) if isinstance(result, np.generic) else result
        elif target is not None:
            for each, part in zip(target, result, strict=True):
                keep(each, part)

    for call in (program.calls[position] for position in sorted(constant)):
        try:
            with np.errstate(all="ignore"), keep_subnormals():
                keep(call.results, call.function(*map_leaves(plain, call.args), **map_leaves(plain, call.named)))
                if any(map(has_subnormals, map(plain, leaves_in((call.args, call.named, call.results))))):
                    return program  # `set_flush_denormal` decides in each run whether these are zeros.
        except Exception:
            return program  # Each run of the program raises the error.
    if program.backend is not None and program.backend.has_streams:
        program.backend.xp.cuda.get_current_stream().synchronize()  # Runs on other streams use the literals.
    for number, array in constants.items():
        if (array.shape, array.dtype, array.strides) != program.types[number][:3]:
            return program
    names: dict[int, Any] = {}
    for position, call in enumerate(program.calls):
        if position not in constant:
            for n in call.read:
                if n in constants and n not in names:
                    names[n] = folded.new_literal(constants[n])
            folded.calls.append(substitute(call, names))
    return folded


def _constant_calls(program: Program, effects: Effects) -> set[int]:
    """Return the positions of calls that compute constants in memory that no other call uses before it is complete."""
    excluded_memories = {-1, *effects.escaping}
    while True:
        constant, last_write = set(), dict[int, int]()
        new_values: set[int] = set()
        for position, call in enumerate(program.calls):
            if not new_values.issuperset(call.read) or not _is_repeatable(call):
                continue
            results, writes = call.outputs, effects.writes[position]
            memory = writes.union(map(effects.memory, results))
            is_small = all(n in program.types and _span(program.types[n]) <= _FOLDED for n in results)
            if is_small and memory.isdisjoint(excluded_memories):
                constant.add(position)
                new_values.update(results)
                last_write.update(dict.fromkeys(writes, position))
        if not constant:
            return constant
        read_memories, constant_memories = set[int](), {effects.memory(n) for n in new_values}
        for position, call in enumerate(program.calls):
            if position not in constant:
                read_memories |= {m for m in effects.reads(call) if position < last_write.get(m, -1)}
                read_memories |= effects.writes[position] & constant_memories
        if not read_memories:
            return constant
        excluded_memories |= read_memories


def _is_repeatable(call: Call) -> bool:
    """Return whether the results and writes of a call depend on its arguments alone."""
    return written_values(call) is not None and not call.name.startswith("random") and not call.name.endswith(".empty")


# -- algebra -----------------------------------------------------------------------------------------------------------


def simplify_calls(program: Program, effects: Effects) -> Program:
    """Replace calls by simpler functions with bitwise equal results."""
    result = program.with_calls([_simplify_call(call, program) for call in program.calls])
    for before, after in zip(program.calls, result.calls, strict=True):
        if before is not after and not program.types[after.results.number].shape:
            result.scalars.add(after.results.number)
    return result


def _simplify_call(call: Call, program: Program) -> Call:
    """Return the simpler call that a rule gives if dtypes are unchanged, else the call itself."""
    rule = _SIMPLER.get(call.name.rpartition(".")[2]) if call.name.startswith(("kernels.", "backend.")) else None
    if rule is None or call.named or type(call.results) is not Value:
        return call
    result, x = program.types[call.results.number], program.type_of(call.args[0])
    simpler = rule(x, *call.args) if x is not None else None
    if simpler is None or x is None or result.dtype != x.dtype or result.dtype.kind != "f":
        return call
    name, function, args = simpler
    kinds = [program.type_of(each) for each in args]
    if any(each is not None and each.dtype != result.dtype for each in kinds):
        return call
    return Call(name, function, args, {}, call.results)


def _power(x: Any, base: Any, exponent: Any) -> Any:
    if type(exponent) not in (int, float) or exponent not in (0, 2):
        return None
    return ("kernels.square", np.square, (base,)) if exponent else ("xp.ones", np.ones, (x.shape, x.dtype))


def _make_scaled_rule(name: str, function: Any, reflected: bool = False) -> Any:
    """Return a rule that replaces a kernel by a binary function if its scale factor is 1."""

    def rule(x: Any, a: Any, b: Any, factor: Any = 1) -> Any:
        is_one = type(factor) in (int, float) and factor == 1
        return (name, function, (b, a) if reflected else (a, b)) if is_one else None

    return rule


#: Simplification rules by kernel name: a function of the first argument's type and of the arguments that returns the
#: name, function and arguments of a simpler call, or None.
_SIMPLER: dict[str, Callable[..., Any]] = {
    "pow": _power,
    "add_scaled": _make_scaled_rule("kernels.add", np.add),
    "sub_scaled": _make_scaled_rule("kernels.sub", np.subtract),
    "rsub": _make_scaled_rule("kernels.sub", np.subtract, reflected=True),
    "slice_of": lambda x, a, dim, start, stop, step=1: (
        ("operator.getitem", operator.getitem, (a, (*[slice(None)] * dim, slice(start, stop, step))))
        if dim >= 0 and all(each is None or type(each) is int for each in (start, stop, step))
        else None
    ),
}


# -- common subexpressions, dead code ---------------------------------------------------------------------------------


def merge_equal_calls(program: Program, effects: Effects) -> Program:
    """Merge equal calls without a write to their arguments between them (common subexpressions)."""
    calls, names = list[Call](), dict[int, Any]()
    #: The last calls of each function of the same values, by the whole key if there are several.
    last_calls: dict[tuple[object, ...], dict[Any, tuple[int, Call]]] = {}
    for position, call in enumerate(program.calls):
        call = substitute(call, names)
        if is_pure(call):
            alike = last_calls.setdefault((call.name, id(call.function), call.read), {})
            if None in alike:
                first = alike.pop(None)
                alike[_key(first[1][2:4], program)] = first
            key = _key(call[2:4], program) if alike else None
            start, first_call = alike.get(key, (position, call))
            if first_call is not call and _is_repeat(first_call, call, start, position, effects):
                pairs = zip(call.outputs, first_call.outputs, strict=True)
                names.update((n, Value(first_number)) for n, first_number in pairs)
                continue
            alike[key] = position, call
        calls.append(call)
    return program.with_calls(calls)


def _is_repeat(known: Call, call: Call, start: int, stop: int, effects: Effects) -> bool:
    if effects.changes(effects.reads(call), start, stop):
        return False
    pairs = zip(call.outputs, known.outputs, strict=True)
    return all(_can_replace(Value(first_number), n, effects) for n, first_number in pairs)


def _key(value: Any, program: Program) -> Any:
    """Return a hashable key that is equal for equal arguments only."""
    kind = type(value)
    if kind is Literal:
        array = program.literals[value.number]
        return (array.shape, array.dtype, array.strides, array.tobytes()) if array.nbytes <= 64 else id(array)
    if kind is Value:
        return value
    if kind in (tuple, list) or hasattr(value, "_fields"):
        return kind, *(_key(each, program) for each in value)
    if kind is dict:
        return kind, *((name, _key(each, program)) for name, each in value.items())
    if kind is slice:
        return kind, *(_key(each, program) for each in (value.start, value.stop, value.step))
    return (kind, repr(value)) if kind in (bool, int, float, complex, str, type(None)) else (kind, id(value))


def remove_dead_calls(program: Program, effects: Effects) -> Program:
    """Remove calls that never raise and whose results and writes nobody reads."""
    kept_calls = list[Call]()
    read_values, memory = {*program.outputs}, {-1, *effects.escaping}
    for position, call in reversed([*enumerate(program.calls)]):
        is_used = any(n in read_values for n in call.outputs)
        writes = effects.writes[position]
        if is_used or not is_total(call, program) or not writes.isdisjoint(memory):
            read_values.update(call.read)
            memory |= effects.reads(call)
            kept_calls.append(call)
    return program.with_calls(kept_calls[::-1])


# -- scalars -----------------------------------------------------------------------------------------------------------


def use_scalars(program: Program, effects: Effects) -> Program:
    """Compute 0-dim results as NumPy scalars if only arithmetic uses them."""
    result = program.copy(program.calls)
    array_only = {*program.outputs}
    for call in program.calls:
        if not takes_scalars(call):
            array_only.update(call.read)
    floats = {n for n in program.scalars - array_only if program.types[n].dtype.kind == "f"}
    result.scalars -= {n for n in floats if effects.is_private(n)}
    return result


#: Operators that compute the same for NumPy scalars and 0-dim arrays.
_OF_SCALARS = {*BASIC, "neg", *names_of("comparison")}


def takes_scalars(call: Call) -> bool:
    """Return whether a call returns bitwise equal results for NumPy scalars and 0-dim arrays."""
    kind, _, name = call.name.partition(".")
    if kind == "operator":
        return name in _OF_SCALARS
    return isinstance(call.function, np.ufunc) and not call.named


PASSES: dict[str, _Pass] = {
    "with small kernels": use_small_kernels, "without writes": remove_writes, "without copies": remove_copies,
    "simplified": simplify_calls, "folded": fold_constants, "without copies of what is folded": remove_copies,
    "folded again": fold_constants, "without repeats": merge_equal_calls, "without dead calls": remove_dead_calls,
    "with scalars": use_scalars,
}  # fmt: skip

#: Passes that depend on sizes, and are skipped for programs with symbolic sizes.
_OF_ONE_SIZE = frozenset([use_small_kernels, remove_writes, remove_copies, simplify_calls])
#: Passes that insert calls of NumPy functions, for programs on the CPU.
_OF_NUMPY = frozenset([use_small_kernels, simplify_calls, use_scalars])
