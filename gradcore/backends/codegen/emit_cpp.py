"""C++ source of kernels for the CPU: loops over contiguous arrays.

`elementwise.cpp` copies other arrays into that form, a few elements at a time. A formula becomes a loop only if
`elements.h` has all of its functions, written so that the compiler can vectorise them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcore.backends.codegen.approximate import APPROXIMATE
from gradcore.backends.codegen.cpp import C_TYPES, Dialect, statements
from gradcore.backends.codegen.expr import Expr, NotFusible
from gradcore.backends.codegen.schedule import Input, Kernel
from gradcore.backends.codegen.trace import CpuTracer, trace

__all__ = ["CppTracer", "emit", "is_exact", "is_single_function", "loop_name", "trace_loop"]

#: Dtypes of inputs and outputs.
DTYPES = frozenset(map(np.dtype, ("f4", "f8", "?")))

#: Functions that may return either of two zeros of different signs, like NumPy's. A formula of one of them uses NumPy.
_EXTREMA = {"fmax": "larger", "fmin": "smaller", "maximum": "maximum", "minimum": "minimum"}

_EXACT = {
    "absolute": "magnitude", "ceil": "ceil", "copysign": "copysign", "floor": "floor", "isfinite": "is_finite",
    "isinf": "is_infinite", "isnan": "is_nan", "rint": "rint", "sqrt": "sqrt", "trunc": "trunc",
}  # fmt: skip

#: Bools are read as bytes, because GCC does not vectorise loops that read bools.
_READ_AS = {"bool": "u8"}

CPU = Dialect(APPROXIMATE | _EXTREMA | _EXACT, None, "chosen({0}, {1}, {2})")


class CppTracer(CpuTracer):
    """Namespace ``F`` that traces formulas for the CPU's C++."""

    def supports(self, expr: Expr) -> bool:
        return CPU.supports(expr)

    def approximate(self, name: str, x: Expr) -> Any:
        if name == "erf" and x.dtype == np.float32:  # `elements.h` has a shorter formula
            return self.graph.call_in("erf", x.dtype, x.dtype, x)
        return super().approximate(name, x)

    def relu(self, x: Any) -> Any:
        return self.where(x < 0, 0, x)


def trace_loop(
    formula: Callable[..., Any], operands: Sequence[Any], bodies: dict[str, Callable[..., Any]]
) -> Kernel | None:
    """Trace a formula ``(F, *operands) -> result`` to a kernel, or return None if NumPy has to compute it.

    Parameters
    ----------
    formula : callable
    operands : sequence
        The dtype of an array, or a setting.
    bodies : dict
        The bodies of operations by name.
    """
    operands_by_name = [(f"x{i}", Input(o) if isinstance(o, np.dtype) else o) for i, o in enumerate(operands)]
    if any(isinstance(o, np.dtype) and o not in DTYPES for o in operands):
        return None
    try:
        kernel = trace("loop", lambda F, *args: (formula(F, *args),), operands_by_name, CppTracer(bodies))
    except NotFusible:
        return None
    if not kernel.inputs or kernel.outputs[0][1].kind != "f":
        return None
    computed = kernel.computed
    return None if len(computed) == 1 and computed[0].function in _EXTREMA else kernel


def is_single_function(kernel: Kernel) -> bool:
    """Return whether a kernel is one function of NumPy. Selections do not count, as NumPy's are slow."""
    computed = kernel.computed
    return len(computed) < 2 and computed[0].function != "where" and hasattr(np, computed[0].function)


def is_exact(kernel: Kernel) -> bool:
    """Return whether the kernel's result equals NumPy's bit for bit."""
    return not any(expr.function in APPROXIMATE for expr in kernel.computed)


# -- source ----------------------------------------------------------------------------------------------------------


def loop_name(kernel: Kernel) -> str:
    """Return a name derived from the kernel's content: equal loops, and only these, have the same name."""
    text = "\n".join(_lines(kernel, "loop"))
    return f"loop_{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def emit(kernel: Kernel) -> str:
    """Emit the C++ function ``(n, arrays, parameters)``. The arrays are the inputs, then the outputs."""
    return "\n".join([*_lines(kernel, loop_name(kernel)), ""])


def _lines(kernel: Kernel, name: str) -> list[str]:
    body, outputs = statements(kernel, CPU)
    types = [_READ_AS.get(i.dtype.name, C_TYPES[i.dtype.name]) for i in kernel.inputs]
    lines = [f'extern "C" void {name}(i64 n, void* const* arrays, const double* parameters) {{']
    lines += [
        f"    const {kind}* {i.name}_array = static_cast<const {kind}*>(arrays[{n}]);"
        for n, (i, kind) in enumerate(zip(kernel.inputs, types, strict=True))
    ]
    for n, (_, dtype) in enumerate(kernel.outputs):
        kind = C_TYPES[dtype.name]
        lines.append(f"    {kind}* r{n}_array = static_cast<{kind}*>(arrays[{len(types) + n}]);")
    for n, parameter in enumerate(kernel.parameters):
        kind = C_TYPES[parameter.dtype.name]
        lines.append(f"    const {kind} p{n} = static_cast<{kind}>(parameters[{n}]);")
    inputs = {i.name: kind for i, kind in zip(kernel.inputs, types, strict=True)}
    results = {f"r{n}": C_TYPES[dtype.name] for n, (_, dtype) in enumerate(kernel.outputs)}
    in_blocks = not is_exact(kernel)
    suffix = "block" if in_blocks else "array"
    body = [
        *(
            f"const {C_TYPES[i.dtype.name]} {i.name} = {i.name}_{suffix}[i]{' != 0' if i.dtype == bool else ''};"
            for i in kernel.inputs
        ),
        *body,
        *(f"{name}_{suffix}[i] = {value};" for name, value in zip(results, outputs, strict=True)),
    ]
    return [*lines, *(_loop_over_blocks(inputs, results, body) if in_blocks else _loop("n", body)), "}"]


def _loop(size: str, body: list[str], indent: str = "    ") -> list[str]:
    """Return a loop over elements that the compiler vectorizes."""
    return [
        "#pragma omp simd",
        f"{indent}for (i64 i = 0; i < {size}; ++i) {{",
        *(f"{indent}    {line}" for line in body),
        f"{indent}}}",
    ]


def _loop_over_blocks(inputs: dict[str, str], results: dict[str, str], body: list[str]) -> list[str]:
    """Return a loop over blocks of `BLOCK` elements. What is left of the arrays is computed in a copy of that size.

    The compiler translates the body once, for whole vectors. That of a loop over all elements it would translate up
    to three times: for vectors, for shorter vectors, and for single elements. The bodies of approximate functions are
    long, so this would take a third of the library's size.
    """
    lines = ["    for (i64 start = 0; start < n; start += BLOCK) {", "        const i64 left = n - start;"]
    for name, kind in (inputs | results).items():
        qualifier = "const " if name in inputs else ""
        lines.append(f"        alignas(64) {kind} {name}_copy[BLOCK];")
        lines.append(f"        {qualifier}{kind}* {name}_block = {name}_array + start;")
    lines.append("        if (__builtin_expect(left < BLOCK, false)) {")
    lines += [f"            {name}_block = load_part({name}_copy, {name}_block, left);" for name in inputs]
    lines += [f"            {name}_block = {name}_copy;" for name in results]
    lines += ["        }", *_loop("BLOCK", body, "        ")]
    lines.append("        if (__builtin_expect(left < BLOCK, false)) {")
    lines += [f"            store_part({name}_array + start, {name}_copy, left);" for name in results]
    return [*lines, "        }", "    }"]
