"""CUDA source of kernels."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.backends.codegen.cpp import C_TYPES, Dialect, statements
from gradcore.backends.codegen.expr import Expr
from gradcore.backends.codegen.optimizer import OptimizerKernel
from gradcore.backends.codegen.schedule import Input, Kernel
from gradcore.backends.codegen.trace import Tracer, compute_dtype

__all__ = ["OF_COMPLEX", "CudaTracer", "emit", "emit_optimizer", "vector_width"]

#: Functions of C++, of `elementwise.cuh` or, for complex numbers too, of `complex.cuh`.
_FUNCTIONS = {
    "absolute": "magnitude", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctanh": "atanh", "conjugate": "conj", "cos": "cos", "cosh": "cosh", "exp": "exp",
    "isfinite": "is_finite", "isinf": "is_infinite", "isnan": "is_nan", "log": "log", "log10": "log10",
    "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
}  # fmt: skip

_OF_REALS = {
    "arctan2": "atan2", "ceil": "ceil", "copysign": "copysign", "exp2": "exp2", "expm1": "expm1", "floor": "floor",
    "floor_divide": "floor_quotient", "fmax": "larger", "fmin": "smaller", "fmod": "rest", "gcd": "common_divisor",
    "hypot": "hypot", "lcm": "common_multiple", "ldexp": "ldexp", "left_shift": "shifted_left", "log1p": "log1p",
    "log2": "log2", "maximum": "maximum", "minimum": "minimum", "nextafter": "nextafter", "power": "power",
    "remainder": "floor_rest",
    "right_shift": "shifted_right", "rint": "rint", "signbit": "sign_bit", "trunc": "trunc",
}  # fmt: skip

#: Functions of complex numbers in `complex.cuh`, for those of CuPy that differ from NumPy's in a part of the range.
OF_COMPLEX = {
    "arccosh": "inverse_hyperbolic_cosine", "divide": "quotient", "exp2": "exp_base_two", "expm1": "exp_minus_one",
    "log": "logarithm", "log10": "logarithm_base_ten", "log2": "logarithm_base_two",
    "power": "power", "reciprocal": "inverse", "tan": "tangent", "tanh": "hyperbolic_tangent",
}  # fmt: skip

#: Functions of scipy.special.
_SPECIAL = {
    "erf": "erf", "erfc": "erfc", "erfcx": "erfcx", "erfinv": "erfinv", "gammaln": "lgamma", "i0": "cyl_bessel_i0",
    "i1": "cyl_bessel_i1", "j0": "j0", "j1": "j1", "log_ndtr": "log_normal_cdf", "ndtri": "normcdfinv",
    "digamma": "digamma", "xlog1py": "times_log1p", "xlogy": "times_log", "y0": "y0", "y1": "y1",
}  # fmt: skip

CUDA = Dialect(_FUNCTIONS | _OF_REALS | _SPECIAL, _FUNCTIONS | OF_COMPLEX | _SPECIAL, "{0} ? {1} : {2}")

#: Identifiers that kernels use themselves, and keywords of C++.
_KEYWORDS = (
    "bool|char|class|const|double|float|for|if|else|int|long|new|delete|return|short|signed|unsigned|static|struct|"
    "template|this|typename|using|void|while|switch|case|default"
)
_CALLED = {"cast", "load", "store", "truth"}.union(
    *(table.values() for table in (_FUNCTIONS, _OF_REALS, OF_COMPLEX, _SPECIAL))
)
_RESERVED = re.compile(rf"[nvpr]\d+|i\d*|k|rest\d+|size|start|{_KEYWORDS}|{'|'.join(sorted(_CALLED))}")


class CudaTracer(Tracer):
    """Namespace ``F`` that traces formulas for CUDA."""

    target = "CUDA"

    def supports(self, expr: Expr) -> bool:
        return CUDA.supports(expr)


def vector_width(kernel: Kernel) -> int:
    """Return how many elements of the widest array fill a 16-byte load."""
    sizes = [i.dtype.itemsize for i in kernel.arrays] + [dtype.itemsize for _, dtype in kernel.outputs]
    return min(8, max(1, 16 // max(sizes)))


def with_identifiers(kernel: Kernel) -> Kernel:
    """Return the kernel with its inputs renamed so that they do not clash with names in its source."""
    is_reserved = [bool(_RESERVED.fullmatch(i.name)) for i in kernel.inputs]
    renamed = [i._replace(name=i.name + "_" * clash) for i, clash in zip(kernel.inputs, is_reserved, strict=True)]
    return kernel._replace(inputs=tuple(renamed))


def emit(kernel: Kernel, dims: int, width: int = 0) -> str:
    """Emit the CUDA source of an elementwise kernel.

    Parameters
    ----------
    kernel : Kernel
    dims : int
        0 if all arrays are dense and in the same order, so that one index serves for all; otherwise the number of
        dims that the kernel iterates over, with strides for each input. Outputs are dense in any case.
    width : int
        0 for 64-bit indices in a grid-stride loop; otherwise indices have 32 bits, and each thread computes so many
        neighbours, which are loaded and stored together: 1 unless `dims` is 0.
    """
    kernel = with_identifiers(kernel)
    body, names = statements(kernel, CUDA)
    dtypes = kernel.dtypes + [p.dtype for p in kernel.parameters] + [expr.dtype for expr in kernel.nodes]
    header = "complex.cuh" if any(dtype.kind == "c" for dtype in dtypes) else "elementwise.cuh"
    lines = [f'#include "{header}"', "using namespace gradcore;", ""]
    lines += [f'extern "C" __global__ void {kernel.name}({", ".join(_signature(kernel, dims, width))}) {{']
    lines += (
        _emit_vector_loop(kernel, body, names, width)
        if width > 1
        else _emit_scalar_loop(kernel, body, names, dims, width)
    )
    return "\n".join([*lines, "}", ""])


def _signature(kernel: Kernel, dims: int, width: int) -> list[str]:
    index, extent = ("i32", "u32") if width else ("i64", "i64")
    arguments = [f"const {index} size"]
    arguments += [f"const {C_TYPES[i.dtype.name]}* __restrict__ {i.name}_array" for i in kernel.arrays]
    arguments += [f"{C_TYPES[dtype.name]}* __restrict__ r{n}_out" for n, (_, dtype) in enumerate(kernel.outputs)]
    for i in kernel.inputs:
        if not i.is_array:
            arguments += _scalar_arguments(i)
    arguments += [f"const {C_TYPES[p.dtype.name]} p{n}" for n, p in enumerate(kernel.parameters)]
    arguments += [f"const {extent} n{d}" for d in range(1, dims)]
    arguments += [f"const {index} {i.name}_step{d}" for i in kernel.arrays for d in range(dims)]
    return arguments


def _scalar_arguments(i: Input) -> list[str]:
    """Return the kernel arguments of a scalar input: two for a complex number."""
    if i.dtype.kind == "c":
        part = "float" if i.dtype.itemsize == 8 else "double"
        return [f"const {part} {i.name}_real", f"const {part} {i.name}_imag"]
    return [f"const {C_TYPES[compute_dtype(i.dtype).name]} {i.name}"]


def _emit_scalar_loop(kernel: Kernel, body: list[str], names: list[str], dims: int, width: int) -> list[str]:
    """Emit code for one element per thread or, for a `width` of 0, a grid-stride loop."""
    each = "i64 i = first_index(); i < size; i += index_step()"
    head = "const i32 i = first_index_32();\n    if (i < size) {" if width else f"GRADCORE_ROLLED for ({each}) {{"
    element = _element_32 if width else _element
    loads = _loads(kernel, lambda name: element(name, dims))
    lines = [*_indices(dims, "u32" if width else "i64"), *loads, *body, *_stores(kernel, names, "{}_out[i]")]
    return [f"    {head}", *(f"        {line}" for line in lines), "    }"]


def _emit_vector_loop(kernel: Kernel, body: list[str], names: list[str], width: int) -> list[str]:
    """Emit code that loads and stores `width` elements at a time, and those at the end one by one."""
    outputs = [(f"r{n}", C_TYPES[dtype.name]) for n, (_, dtype) in enumerate(kernel.outputs)]
    packed = [*_loads(kernel, "{}_pack.items[k]".format), *body, *_stores(kernel, names, "{}_pack.items[k]")]
    single = [*_loads(kernel, "{}_array[i]".format), *body, *_stores(kernel, names, "{}_out[i]")]
    packs = [(f"const Pack<{C_TYPES[i.dtype.name]}, {width}>", i.name) for i in kernel.arrays]
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


def _loads(kernel: Kernel, element: Callable[[str], str]) -> list[str]:
    """Emit the loads of one element's inputs. `element` returns the C++ text of an array's element for its name."""
    lines = []
    for i in kernel.inputs:
        kind = C_TYPES[compute_dtype(i.dtype).name]
        if i.is_array:
            lines.append(f"const {kind} {i.name} = load({element(i.name)});")
        elif i.dtype.kind == "c":
            lines.append(f"const {kind} {i.name}({i.name}_real, {i.name}_imag);")
    return lines


def _stores(kernel: Kernel, names: list[str], element: str) -> list[str]:
    dtypes = [C_TYPES[dtype.name] for _, dtype in kernel.outputs]
    return [
        f"{element.format(f'r{n}')} = store<{kind}>({name});"
        for n, (name, kind) in enumerate(zip(names, dtypes, strict=True))
    ]


def _element(name: str, dims: int) -> str:
    """Return the C++ text that reads an array's element by its strides."""
    return f"{name}_array[{' + '.join(f'i{d} * {name}_step{d}' for d in range(dims)) or 'i'}]"


def _element_32(name: str, dims: int) -> str:
    """Return the C++ text that reads an element by 32-bit indices, whose sums may wrap around."""
    index = " + ".join(f"i{d} * {name}_step{d}" for d in range(dims))
    return f"{name}_array[static_cast<i32>({index})]" if index else f"{name}_array[i]"


def _indices(dims: int, kind: str) -> list[str]:
    """Emit the computation of the index along each dim. The last dim runs fastest."""
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


# -- optimisers ------------------------------------------------------------------------------------------------------


def emit_optimizer(optimizer: OptimizerKernel, dtype: np.dtype[Any], in_memory: bool = False) -> str:
    """Emit the CUDA source of an optimizer's kernel.

    A block updates a part of a parameter, whose address and that of its gradient are in `parts`. Where `found_inf` is
    given and larger than 0, the step is skipped. Numbers are arguments, or (`in_memory`) read from an array with eight
    bytes for each.
    """
    kernel = with_identifiers(optimizer.kernel)
    kind, inner = C_TYPES[dtype.name], C_TYPES[compute_dtype(dtype).name]
    body, names = statements(kernel, CUDA)
    states = [f"s{i}" for i in range(optimizer.states)]
    vectors = [i for i in kernel.inputs if not i.is_array]
    arguments = ["const Parts parts", "const float* found_inf", *(f"{kind}* {name}_states" for name in states)]
    arguments += [f"const {C_TYPES[i.dtype.name]}* {i.name}_values" for i in vectors]
    numbers = [f"const {C_TYPES[p.dtype.name]} p{n}" for n, p in enumerate(kernel.parameters)]
    arguments += ["const double* numbers"] if in_memory else numbers
    lines = ['#include "elementwise.cuh"', '#include "parts.cuh"', "using namespace gradcore;", ""]
    lines += [f'extern "C" __global__ void {kernel.name}({", ".join(arguments)}) {{']
    lines += ["    if (found_inf && *found_inf > 0) return;"]
    lines += ["    const i32 array = parts.array();", "    const Elements elements(parts, array);"]
    kinds = [C_TYPES[p.dtype.name] for p in kernel.parameters] if in_memory else []
    lines += [f"    {numbers[n]} = *reinterpret_cast<const {kind}*>(numbers + {n});" for n, kind in enumerate(kinds)]
    for number, name in enumerate(("p", "g")):
        const = "const " if name == "g" else ""
        address = f"reinterpret_cast<{const}{kind}*>(parts.addresses[{number}][array])"
        lines += [f"    {const}{kind}* {name}_array = {address} + elements.begin;"]
    lines += [f"    {kind}* {s}_array = {s}_states + parts.start[array] + elements.begin;" for s in states]
    lines += [f"    const {inner} {i.name} = {i.name}_values[parts.first + array];" for i in vectors]
    lines += ["    for (i64 i = threadIdx.x; i < elements.count; i += blockDim.x) {"]
    lines += [f"        const {inner} {i.name} = load({i.name}_array[i]);" for i in kernel.arrays]
    lines += [f"        {line}" for line in body]
    lines += [
        f"        {name}_array[i] = store<{kind}>({value});"
        for name, value in zip(optimizer.written, names, strict=True)
    ]
    return "\n".join([*lines, "    }", "}", ""])
