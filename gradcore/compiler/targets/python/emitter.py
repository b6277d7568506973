"""The Python emitter: a program as a function without loops, one line for each call."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from gradcore.compiler.program.arena import Pool
from gradcore.compiler.program.effects import Effects
from gradcore.compiler.program.memory import memory_plan, ufunc_of
from gradcore.compiler.program.passes import takes_scalars
from gradcore.compiler.program.program import Call, Expression, Literal, Program, Value, last_uses, values_in
from gradcore.compiler.program.source import Source
from gradcore.compiler.targets.python.call_lists import list_calls
from gradcore.compiler.targets.python.numpy_calls import use_numpy
from gradcore.compiler.targets.python.tiles import fuse_calls
from gradcore.core.operators import BASIC, symbols_of

__all__ = ["function_of", "source_of"]

#: The source symbol of each operator.
_INFIX = symbols_of("arithmetic", "product", "bits", "comparison")
#: Functions of NumPy that are emitted as operators, which are faster.
_UFUNCS = {each.ufunc: _INFIX[name] for name, each in BASIC.items()}
#: Smallest size in bytes of values that are deleted after their last use.
_LARGE = 1 << 12


def function_of(program: Program) -> Any:
    """Return a function of the program's inputs that returns a tuple of its outputs."""
    lines, source = source_of(list_calls(use_numpy(fuse_calls(program))) if program.backend is None else program)
    return source.define("program", lines)


def source_of(program: Program) -> tuple[list[str], Source]:
    """Return the lines of the function, and the builder with the objects that they refer to by name."""
    plan = memory_plan(program)
    source = Source("c", {"asarray": np.asarray})
    constant = source.bind
    last_use = last_uses(program.calls)
    large = {n for n in last_use if n in program.types and program.types[n].nbytes >= _LARGE} - {*program.outputs}
    lines = [f"v{n} = v{n}[()]" for n in _scalar_inputs(program)]
    numbers: dict[int, Any] = {}

    def emit(value: Any) -> str:
        kind = type(value)
        if kind is Value:
            return f"v{value.number}"
        if kind is Literal:
            return constant(program.literals[value.number])
        if kind is Expression:
            return str(value.text)
        if value is None or value is ... or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return repr(value)
        if kind is tuple:
            return f"({''.join(f'{emit(each)}, ' for each in value)})"
        if kind is list:
            return f"[{', '.join(map(emit, value))}]"
        if kind is dict:
            return f"{{{', '.join(f'{emit(key)}: {emit(each)}' for key, each in value.items())}}}"
        if kind is slice:
            return f"slice({emit(value.start)}, {emit(value.stop)}, {emit(value.step)})"
        if isinstance(value, tuple) and hasattr(value, "_fields") and values_in(value):
            return f"{constant(kind)}({', '.join(map(emit, value))})"
        return constant(value)

    def number(value: Any) -> str:
        """Return the source of an argument, literals as NumPy scalars: these are several times as fast as arrays."""
        array = program.literals[value.number] if type(value) is Literal else None
        if array is None or array.dtype.char not in "fd":
            return emit(value)
        return constant(numbers.setdefault(id(array), array[()]))

    for i, call in enumerate(program.calls):
        results = call.outputs
        if _computes_scalars(call, program):
            text = _emit_call(call, number, constant)
        else:
            text = _emit_call_into(call, plan, emit, constant) or _emit_call(call, emit, constant)
        lines.append(text if not results else f"{_target(call.results)} = {text}")
        lines += [f"v{n} = asarray(v{n})" for n in results if n in program.scalars]
        dead_values = {n for n in (*call.read, *results) if n in large and last_use[n] == i}
        if dead_values:
            lines.append(f"del {', '.join(f'v{n}' for n in sorted(dead_values))}")
    head = f"def program({', '.join(map(program.name_of, program.inputs))}):"
    result = f"return ({''.join(f'v{n}, ' for n in program.outputs)})"
    if not plan.offsets:
        return [head, *lines, result], source
    arenas = Pool(plan.allocate)
    take, give = constant(arenas.take), constant(arenas.give)  # Names of their own, as the code may be replaced.
    body = [f"{''.join(f'b{n}, ' for n in plan.offsets)}= arena", *lines, result]
    body = [*(f" {line}" for line in body), "finally:", f" {give}(arena)"]
    return [head, f"arena = {take}()", "try:", *body], source


def _computes_scalars(call: Call, program: Program) -> bool:
    """Return whether a call computes one number, with equal results for scalar and array arguments."""
    result_type = program.types.get(call.results.number) if type(call.results) is Value else None
    if result_type is None or result_type.shape or not takes_scalars(call):
        return False
    operands = [program.type_of(each) for each in call.args]
    return all(each is None or not each.shape for each in operands)


def _scalar_inputs(program: Program) -> list[int]:
    """Return the 0-dim inputs that are only operands of arithmetic, and never written to."""
    types = program.types
    if program.backend is not None or not any(n in types and types[n].shape == () for n in program.inputs):
        return []
    results = {n for n in program.inputs if n in types and types[n].shape == () and types[n].dtype.char in "fd"}
    results -= {*program.outputs}
    uses = Counter(n for call in program.calls for n in call.read if n in results)
    results = {n for n in results if uses[n] > 1}
    for call in program.calls if results else ():
        if not _computes_scalars(call, program):
            results.difference_update(call.read)
    return [] if not results or Effects(program).writes_to_given else sorted(results)


def _emit_call_into(call: Any, plan: Any, written: Any, constant: Any) -> str | None:
    """Return the source of a call that writes into the arena, or None if its result is not there."""
    results = call.outputs
    # A call that writes in place returns its argument, which may be in the arena.
    if plan.offsets.keys().isdisjoint(results) or (call.name != "fused" and ufunc_of(call) is None):
        return None
    args = [written(each) for each in call.args]
    outs = [f"b{n}" if n in plan.offsets else "None" for n in results]
    if call.name == "fused":
        out_names = ", ".join(outs)
        return f"{constant(call.function)}({', '.join([*args, f'out=({out_names},)'])})"
    return f"{constant(ufunc_of(call))}({', '.join([*args, *outs])})"


def _emit_call(call: Any, written: Any, constant: Any) -> str:
    kind, _, name = call.name.partition(".")
    args = [written(each) for each in call.args]
    if call.name == "native.run":  # If the native function fails, the calls are made by Python.
        return f"{constant(call.function)}({args[0]}) and {constant(call.function.again)}({args[0]})"
    symbol = _INFIX.get(name) if kind == "operator" else _UFUNCS.get(call.function)
    if symbol is not None and not call.named and len(args) == 2:
        return f"{args[0]} {symbol} {args[1]}"
    keywords = [f"{key}={written(value)}" for key, value in call.named.items()]
    return f"{constant(call.function)}({', '.join([*args, *keywords])})"


def _target(results: Any) -> str:
    """Return the source of the assignment target of a call's results."""
    if type(results) is Value:
        return f"v{results.number}"
    if results is None:
        return "_"
    return f"[{', '.join(map(_target, results))}]"
