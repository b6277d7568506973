"""Lowering of random numbers: Python reserves a range of the generator, and native segments compute the numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.backends.codegen.cpp import C_TYPES
from gradcore.backends.random import philox
from gradcore.compiler.program.program import ArrayType, Call, Program, Value
from gradcore.compiler.targets.native.steps import Kernel, Rules, Step, Unsupported, View

__all__ = ["RESERVING", "Draws", "use_positions"]

#: The name of calls that reserve random words, and return the key and the counter as an array.
RESERVING = "random.position"
#: The smallest number of random numbers for which several threads are used.
_LARGE = 1 << 14
_U64 = np.dtype(np.uint64)


class Draws(Rules):
    """Lowering rules for random numbers."""

    def _lower_numbers(self, call: Call, results: list[View]) -> list[Step]:
        (out,), (distribution, n, dtype, position, *parameters) = results, call.args
        make_formula = _FORMULAS.get(distribution)
        plain = all(type(each) in (int, float) for each in parameters)
        if make_formula is None or not plain or not out.size or not out.is_contiguous or dtype.char not in "fd":
            raise Unsupported("the distribution")
        per_word, word = (1, "u64") if dtype.char == "d" else (2, "u32")
        formula = make_formula(dtype.type, *parameters).replace("{", "{{").replace("}", "}}")
        function = f"[]([[maybe_unused]] auto h) {{{{ return {formula}; }}}}"
        text = f"draw<{per_word}>({{0}}, {{1}}, {n}, threads, {function})".replace("auto h", f"{word} h")
        return [Kernel(text, [out], [self._view(position)], lasting=n >= _LARGE)]


# -- formulas of C++, of the word h ------------------------------------------------------------------------------------


def _number(value: Any) -> str:
    """Return a C++ literal."""
    return f"{C_TYPES[np.dtype(type(value)).name]}({float(value).hex()})"


def _uniform(real: Any, low: float = 0.0, high: float = 1.0) -> str:
    unit = f"philox::uniform<{C_TYPES[np.dtype(real).name]}, {24 if real is np.float32 else 53}>"
    if (low, high) == (0, 1):
        return f"{unit}(h)"
    first, end = real(low), real(high)
    with np.errstate(all="ignore"):
        numbers = first, end - first, np.nextafter(end, first)
    if not np.isfinite(numbers).all():
        raise Unsupported("the bounds")
    return f"{unit}(h, {', '.join(map(_number, numbers))})"


def _normal(real: Any, mean: float = 0.0, std: float = 1.0) -> str:
    scale = "" if std == 1 else f" * {_number(real(std))}"
    shift = "" if mean == 0 else f" + {_number(real(mean))}"
    if not np.isfinite([real(mean), real(std)]).all():
        raise Unsupported("the parameters")
    return f"philox::normal<{C_TYPES[np.dtype(real).name]}>(h){scale}{shift}"


def _exponential(real: Any, rate: float = 1.0) -> str:
    if not np.isfinite(real(rate)):
        raise Unsupported("the rate")
    quotient = "" if rate == 1 else f" / {_number(real(rate))}"
    return f"philox::exponential<{C_TYPES[np.dtype(real).name]}>(h){quotient}"


def _bernoulli(real: Any, p: float) -> str:
    bits, digits = (32, 31) if real is np.float32 else (64, 53)
    return f"(h >> {bits - digits}) < {int(np.ceil(real(p) * real(2.0**digits)))}ull"


_FORMULAS: dict[Any, Callable[..., str]] = {
    philox.uniform: _uniform,
    philox.normal: _normal,
    philox.exponential: _exponential,
    philox.bernoulli: _bernoulli,
}

# -- positions ---------------------------------------------------------------------------------------------------------


def use_positions(program: Program) -> Program:
    """Replace draws by reserved generator positions, if native segments can compute all numbers drawn there."""
    draws = {call.outputs: call for call in program.calls if call.name == "random.draw" and len(call.outputs) == 2}
    users: dict[int, list[Call]] = {}
    for call in program.calls if draws else ():
        for n in call.read:
            users.setdefault(n, []).append(call)
    out = program.copy()
    positions: dict[int, Value] = {}
    for call in program.calls:
        readers = [user for n in call.outputs for user in users.get(n, [])] if call.outputs in draws else []
        is_returned = bool({*call.outputs} & {*program.outputs})
        if readers and not is_returned and all(_is_native(user, *call.outputs) for user in readers):
            position = positions[call.outputs[0]] = out.new_value(ArrayType((6,), _U64, (8,), -1))
            out.calls.append(Call(RESERVING, _position, (call.function, *call.args), {}, position))
            continue
        if call.name == "backend.random_numbers" and type(call.args[3]) is Value and call.args[3].number in positions:
            distribution, n, dtype, key, _, *parameters = call.args
            args = distribution, n, dtype, positions[key.number], *parameters
            call = Call("random.numbers", functools.partial(_numbers, call.function), args, {}, call.results)
        out.calls.append(call)
    return out if positions else program


def _is_native(call: Call, key: int, counter: int) -> bool:
    """Return whether a call computes numbers at a generator position by a formula that has a C++ form."""
    if call.name != "backend.random_numbers" or call.named or call.args[3:5] != (Value(key), Value(counter)):
        return False
    return call.args[0] in _FORMULAS and all(type(each) in (int, float) for each in call.args[5:])


def _position(draw: Callable[[int], tuple[int, int]], words: int) -> Any:
    """Reserve words of the generator; return its key and counter, the lowest bits first."""
    key, counter = draw(words)
    return np.frombuffer(key.to_bytes(16, "little") + counter.to_bytes(32, "little"), "<u8").astype(_U64, copy=False)


def _numbers(make: Callable[..., Any], distribution: Any, n: int, dtype: Any, position: Any, *parameters: Any) -> Any:
    """Return the random numbers at a generator position."""
    data = position.astype("<u8").tobytes()
    key, counter = int.from_bytes(data[:16], "little"), int.from_bytes(data[16:], "little")
    return make(distribution, n, dtype, key, counter, *parameters)
