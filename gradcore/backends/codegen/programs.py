"""Programs: traced formulas, and the CUDA source of their kernels."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.codegen.expressions import Setting, Trace, Value
from gradcore.backends.codegen.functions import C_TYPES, DIFFERENT, FUNCTION_NAMES, computed, needs_complex, written
from gradcore.backends.codegen.tracer import Tracer

__all__ = ["Operand", "Program", "Traced", "traced"]


class Operand(NamedTuple):
    """What a kernel reads: an array of that dtype, or one number of it; and the dtype it is converted to, if any."""

    name: str
    dtype: np.dtype[Any]
    is_array: bool = True
    compute: np.dtype[Any] | None = None


class Program(NamedTuple):
    """An elementwise kernel in the making.

    Attributes
    ----------
    name : str
        The kernel's name.
    operands : tuple of Operand
    parameters : tuple of dtype
        Dtypes of the settings that are parameters.
    outputs : tuple of (str, dtype)
        The names that the results have in `body`, and the dtypes they are stored in.
    body : tuple of str
        Statements that compute the results of one element.
    functions : int
        How many functions are computed: array operations of the plain formula.
    differs : bool
        Whether one of them is computed otherwise by the array library.
    """

    name: str
    operands: tuple[Operand, ...]
    parameters: tuple[np.dtype[Any], ...]
    outputs: tuple[tuple[str, np.dtype[Any]], ...]
    body: tuple[str, ...]
    functions: int
    differs: bool = False

    def source(self, dims: int, width: int = 0) -> str:
        """CUDA source of the kernel ``name``.

        Parameters
        ----------
        dims : int
            0 if all arrays are dense and in the same order, so that one index serves for all; otherwise the number of
            dims over which the kernel runs, with strides for each operand. Results are dense in any case.
        width : int
            0 for indices of 64 bits, in a loop; otherwise indices have 32 bits, and each thread computes so many
            neighbours, which are loaded and stored together: 1 unless `dims` is 0.
        """
        arrays = [o for o in self.operands if o.is_array]
        types = [o.dtype for o in self.operands] + [dtype for _, dtype in self.outputs] + list(self.parameters)
        complex_inside = needs_complex(types) or any("complex<" in line for line in self.body)
        header = "complex.cuh" if complex_inside else "elementwise.cuh"
        index, extent = ("i32", "u32") if width else ("i64", "i64")
        arguments = [f"const {index} size"]
        arguments += [f"const {C_TYPES[o.dtype.name]}* __restrict__ {o.name}_array" for o in arrays]
        arguments += [f"{C_TYPES[dtype.name]}* __restrict__ {name}_out" for name, dtype in self._named_outputs()]
        for o in self.operands:
            if not o.is_array:
                arguments += _number_arguments(o.name, o.dtype)
        arguments += [f"const {C_TYPES[dtype.name]} p{i}" for i, dtype in enumerate(self.parameters)]
        arguments += [f"const {extent} n{d}" for d in range(1, dims)]
        arguments += [f"const {index} {o.name}_step{d}" for o in arrays for d in range(dims)]
        lines = [f'#include "{header}"', "using namespace gradcore;", ""]
        lines += [f'extern "C" __global__ void {self.name}({", ".join(arguments)}) {{']
        lines += self._vectors(width) if width > 1 else self._elements(dims, width)
        return "\n".join([*lines, "}", ""])

    def _elements(self, dims: int, width: int) -> list[str]:
        """One element after the other, or one for each thread."""
        each = "i64 i = first_index(); i < size; i += index_step()"
        head = "const i32 i = first_index_32();\n    if (i < size) {" if width else f"GRADCORE_ROLLED for ({each}) {{"
        place = _place_32 if width else _place
        lines = [*_places(dims, "u32" if width else "i64"), *self._loads(lambda o: place(o.name, dims)), *self.body]
        return [f"    {head}", *(f"        {line}" for line in (*lines, *self._stores("{}_out[i]"))), "    }"]

    def _vectors(self, width: int) -> list[str]:
        """Neighbours that are loaded and stored together, and one by one at the end."""
        arrays = [o for o in self.operands if o.is_array]
        outputs = [(name, C_TYPES[dtype.name]) for name, dtype in self._named_outputs()]
        packed = [*self._loads(lambda o: f"{o.name}_pack.items[k]"), *self.body, *self._stores("{}_pack.items[k]")]
        single = [*self._loads(lambda o: f"{o.name}_array[i]"), *self.body, *self._stores("{}_out[i]")]
        packs = [(f"const Pack<{C_TYPES[o.dtype.name]}, {width}>", o.name) for o in arrays]
        lines = [f"const i32 start = {width} * first_index_32();", f"if (start + {width} <= size) {{"]
        lines += [f"    {kind} {name}_pack = pack<{width}>({name}_array + start);" for kind, name in packs]
        lines += [f"    Pack<{kind}, {width}> {name}_pack;" for name, kind in outputs]
        lines += [f"    GRADCORE_UNROLL for (i32 k = 0; k < {width}; ++k) {{", *(f"        {line}" for line in packed)]
        lines += ["    }", *(f"    unpack({name}_out + start, {name}_pack);" for name, _ in outputs), "} else {"]
        lines += [
            "    GRADCORE_ROLLED for (i32 i = start; i < size; ++i) {",
            *(f"        {line}" for line in single),
            "    }",
            "}",
        ]
        return [f"    {line}" for line in lines]

    @property
    def width(self) -> int:
        """Neighbouring elements that make 16 bytes of the widest array."""
        sizes = [o.dtype.itemsize for o in self.operands if o.is_array]
        return min(8, max(1, 16 // max(sizes + [dtype.itemsize for _, dtype in self.outputs])))

    def _named_outputs(self) -> list[tuple[str, np.dtype[Any]]]:
        return [(f"r{i}", dtype) for i, (_, dtype) in enumerate(self.outputs)]

    def _loads(self, place: Callable[[Operand], str]) -> list[str]:
        """The operands of one element, arrays from a place of theirs."""
        lines = []
        for o in self.operands:
            kind = C_TYPES[computed(o.dtype).name]
            if o.is_array:
                lines.append(f"const {kind} {o.name} = load({place(o)});")
            elif o.dtype.kind == "c":
                lines.append(f"const {kind} {o.name}({o.name}_real, {o.name}_imag);")
        return lines

    def _stores(self, place: str) -> list[str]:
        named = zip(self._named_outputs(), self.outputs, strict=True)
        return [f"{place.format(name)} = store<{C_TYPES[dtype.name]}>({value});" for (name, dtype), (value, _) in named]


def _place(name: str, dims: int) -> str:
    """An element of an array."""
    return f"{name}_array[{' + '.join(f'i{d} * {name}_step{d}' for d in range(dims)) or 'i'}]"


def _place_32(name: str, dims: int) -> str:
    """The same by indices of 32 bits, whose sums may wrap around."""
    index = " + ".join(f"i{d} * {name}_step{d}" for d in range(dims))
    return f"{name}_array[static_cast<i32>({index})]" if index else f"{name}_array[i]"


def _number_arguments(name: str, dtype: np.dtype[Any]) -> list[str]:
    """A number as arguments: two for a complex one."""
    if dtype.kind == "c":
        part = "float" if dtype.itemsize == 8 else "double"
        return [f"const {part} {name}_real", f"const {part} {name}_imag"]
    return [f"const {C_TYPES[computed(dtype).name]} {name}"]


def _places(dims: int, kind: str) -> list[str]:
    """The index of each dim, the last one running fastest."""
    if dims == 0:
        return []
    if dims == 1:
        return [f"const {kind} i0 = i;"]
    lines = [f"const {kind} i{dims - 1} = {kind}(i) % n{dims - 1};"]
    rest = f"{kind}(i) / n{dims - 1}"
    for d in range(dims - 2, 0, -1):
        lines += [f"const {kind} rest{d} = {rest};", f"const {kind} i{d} = rest{d} % n{d};"]
        rest = f"rest{d} / n{d}"
    return [*lines, f"const {kind} i0 = {rest};"]


# -- from a formula to a program ---------------------------------------------------------------------------------


class Traced(NamedTuple):
    """A program, the operands and parameters it takes, and where the results of the formula are.

    Attributes
    ----------
    program : Program
    used : tuple of int
        Positions, among the arrays and numbers of the call, of the program's operands.
    parameters : tuple of float
        The values of the program's parameters.
    results : tuple of (bool, int)
        Each result as an output of the program (True) or as one of the arrays and numbers of the call (False).
    """

    program: Program
    used: tuple[int, ...]
    parameters: tuple[float, ...]
    results: tuple[tuple[bool, int], ...]


def traced(
    name: str,
    formula: Callable[..., Sequence[Any]],
    operands: Sequence[tuple[str, Any]],
    bodies: dict[str, Callable[..., Any]],
    stored: Sequence[np.dtype[Any] | None] | None = None,
    tracer: Callable[..., Tracer] = Tracer,
) -> Traced:
    """Trace a formula.

    Parameters
    ----------
    name : str
        A name for the kernel.
    formula : callable
        ``(F, *operands) -> results``.
    operands : sequence of (str, operand)
        The operands with their names: an `Operand` for an array or a number, anything else as it is.
    bodies : dict
        Bodies of the operations.
    stored : sequence of dtype or None, optional
        What the results are converted to at the end; by default they keep their dtypes.
    tracer : callable, optional
        Makes the namespace for the formula from `bodies`.

    Raises
    ------
    Unfusable
        If the formula is not an expression of one element's values.
    """
    F = tracer(bodies)
    trace = F.trace
    leaves: list[Operand] = []
    arguments: list[Any] = []
    for label, operand in operands:
        if isinstance(operand, Operand):
            value = trace.input(len(leaves), computed(operand.dtype))
            trace.widened |= value.dtype != operand.dtype
            leaves.append(operand._replace(name=label + "_" if _TAKEN.fullmatch(label) else label))
            arguments.append(value if operand.compute is None else trace.cast(value, computed(operand.compute)))
        else:
            arguments.append(Setting(operand) if operand.__class__ is float else operand)
    found = formula(F, *arguments)
    return _assembled(name, trace, leaves, found, stored or [None] * len(found))


def _assembled(
    name: str, trace: Trace, leaves: list[Operand], found: Sequence[Any], stored: Sequence[np.dtype[Any] | None]
) -> Traced:
    results: list[tuple[bool, int]] = []
    outputs: list[tuple[Value, np.dtype[Any]]] = []
    for value, wanted in zip(found, stored, strict=True):
        if value.function == "input" and wanted in (None, leaves[value.operands[0]].dtype):
            results.append((False, value.operands[0]))
            continue
        dtype = value.dtype if wanted is None else wanted
        results.append((True, len(outputs)))
        outputs.append((trace.cast(value, computed(dtype)), dtype))
    order = _in_order([value for value, _ in outputs])
    used = sorted({v.operands[0] for v in order if v.function == "input"})
    names = {id(v): leaves[v.operands[0]].name for v in order if v.function == "input"}
    used_parameters = sorted({v.operands[0] for v in order if v.function == "parameter"})
    names |= {id(v): f"p{used_parameters.index(v.operands[0])}" for v in order if v.function == "parameter"}
    body = []
    functions = 0
    for value in order:
        if id(value) in names:
            continue
        text = written(value, [names[id(o)] for o in value.operands if isinstance(o, Value)])
        if value.function == "number":
            names[id(value)] = text if text[0] != "-" else f"({text})"
            continue
        functions += 1
        names[id(value)] = f"v{functions}"
        body.append(f"const {C_TYPES[value.dtype.name]} v{functions} = {text};")
    program = Program(
        f"fused_{name}",
        tuple(leaves[i] for i in used),
        tuple(trace.parameters[i][1] for i in used_parameters),
        tuple((names[id(value)], dtype) for value, dtype in outputs),
        tuple(body),
        functions,
        any(value.function in DIFFERENT for value in order),
    )
    return Traced(program, tuple(used), tuple(trace.parameters[i][0] for i in used_parameters), tuple(results))


#: Names that kernels use themselves, and words of C++.
_TAKEN = re.compile(
    r"[nvpr]\d+|i\d*|k|rest\d+|size|start|"
    + "|".join(sorted(FUNCTION_NAMES))
    + "|bool|char|class|const|double|float|for|if|else|int|"
    "long|new|delete|return|short|signed|unsigned|static|struct|template|this|typename|using|void|while|switch|case|default"
)


def _in_order(roots: Sequence[Value]) -> list[Value]:
    """The values that the results are made of, each after its operands."""
    order: list[Value] = []
    seen: set[int] = set()
    stack: list[tuple[Value, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        value, ready = stack.pop()
        if ready:
            order.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            stack.append((value, True))
            stack += [(o, False) for o in reversed(value.operands) if isinstance(o, Value)]
    return order
