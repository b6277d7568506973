"""Parser for the signature of a CUDA kernel: inputs, outputs and settings."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Parameter", "Signature", "read_signature"]

_KERNEL = re.compile(
    r"(?P<template>template\s*<\s*(?:typename|class)\s+(?P<type>\w+)\s*>\s*)?(?P<extern>extern\s*\"C\"\s*)?"
    r"__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(?P<name>\w+)\s*\((?P<parameters>[^)]*)\)"
)
_PARAMETER = re.compile(r"^(?P<type>.*?)\s*(?P<pointer>\*?)\s*(?:__restrict__\s+|__restrict\s+)?(?P<name>\w+)$")

#: Names of NumPy's dtypes, by name of the C++ type.
_DTYPES = {
    "float": "float32", "double": "float64", "bool": "bool", "char": "int8", "signed char": "int8",
    "unsigned char": "uint8", "short": "int16", "unsigned short": "uint16", "int": "int32", "unsigned": "uint32",
    "unsigned int": "uint32", "long long": "int64", "unsigned long long": "uint64", "size_t": "uint64",
    "ptrdiff_t": "int64", "int32_t": "int32", "int64_t": "int64", "uint8_t": "uint8", "complex<float>": "complex64",
    "complex<double>": "complex128",
}  # fmt: skip


class Parameter(NamedTuple):
    """A parameter of a kernel.

    Attributes
    ----------
    name : str
    dtype : str
        NumPy's name of its type; ``"T"`` for the type of the kernel's template.
    role : str
        ``"input"`` (a pointer to constants), ``"output"`` (a pointer) or ``"setting"``.
    """

    name: str
    dtype: str
    role: str


class Signature(NamedTuple):
    """A kernel's name and parameters, and its source, in which the template's type is left open."""

    name: str
    parameters: tuple[Parameter, ...]
    source: str

    def of(self, role: str) -> tuple[Parameter, ...]:
        """Return the parameters with that role."""
        return tuple(p for p in self.parameters if p.role == role)


def read_signature(source: str, name: str | None = None) -> Signature:
    """Return the signature of a kernel.

    Parameters
    ----------
    source : str
        CUDA source.
    name : str, optional
        Name of the kernel, if the source has several.

    Raises
    ------
    ValueError
        If the source has no such kernel, or its parameters cannot be parsed.

    Examples
    --------
    >>> found = read_signature('extern "C" __global__ void scale(const float* x, float* y, float a, int n) {}')
    >>> [(p.name, p.role) for p in found.parameters]
    [('x', 'input'), ('y', 'output'), ('a', 'setting'), ('n', 'setting')]
    """
    kernels = [match for match in _KERNEL.finditer(source) if name in (None, match["name"])]
    if len(kernels) != 1:
        names = ", ".join(match["name"] for match in _KERNEL.finditer(source)) or "none"
        raise ValueError(f"expected one kernel{f' named {name!r}' if name else ''} in the source, but found: {names}")
    match = kernels[0]
    parameters = tuple(_parameter(text, match["type"]) for text in match["parameters"].split(",") if text.strip())
    if not any(p.role == "output" for p in parameters):
        raise ValueError(f"the kernel {match['name']!r} has no output: a pointer to something that is not const")
    header = 'extern "C" ' + match[0][len(match["template"] or "") + len(match["extern"] or "") :]
    if match["type"]:
        header = f"using {match['type']} = GRADCORE_T;\n{header}"
    return Signature(match["name"], parameters, source[: match.start()] + header + source[match.end() :])


def _parameter(text: str, template: str | None) -> Parameter:
    match = _PARAMETER.match(" ".join(text.split()))
    if match is None:
        raise ValueError(f"cannot understand the kernel's parameter {text.strip()!r}")
    words = match["type"].split()
    kind = " ".join(word for word in words if word != "const")
    if kind == template:
        dtype = "T"
    elif kind in _DTYPES:
        dtype = _DTYPES[kind]
    else:
        raise ValueError(f"cannot understand the type of the kernel's parameter {text.strip()!r}")
    role = "setting" if not match["pointer"] else "input" if "const" in words else "output"
    return Parameter(match["name"], dtype, role)
