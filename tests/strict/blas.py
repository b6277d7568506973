"""cuBLAS on the host: the functions that the CUDA backend calls, with BLAS's own meaning of their arguments.

Matrices are columns, `ld` elements apart, of memory at an address; what cuBLAS refuses is refused. Signatures are those
of the installed CuPy.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from tests.strict.capture import queued
from tests.strict.watching import tell

#: The calls of each function, and what they computed in.
CALLS: Counter[Any] = Counter()

OPERATIONS = {0: lambda x: x, 1: lambda x: x.swapaxes(-1, -2), 2: lambda x: x.swapaxes(-1, -2).conj()}
#: `cudaDataType`, and for each `cublasComputeType_t` the dtype of factors and sums.
DTYPES = {0: "float32", 1: "float64", 2: "float16", 4: "complex64", 5: "complex128", 14: "bfloat16"}
COMPUTED = {68: ("float32", "complex64"), 70: ("float64", "complex128"), 77: ("float32", "complex64")}

#: The sizes and steps that are integers of 32 bits, and the first number that is too large for them.
SIZES = {"m", "n", "k", "lda", "ldb", "ldc", "batchCount"}
TOO_LARGE = 2**31

SIGNATURES = {
    "gemmEx": "intptr_t handle, int transa, int transb, int m, int n, int k, size_t alpha, size_t A, int Atype, "
    "int lda, size_t B, int Btype, int ldb, size_t beta, size_t C, int Ctype, int ldc, int computeType, int algo",
    "gemmStridedBatchedEx": "intptr_t handle, int transa, int transb, int m, int n, int k, size_t alpha, size_t A, "
    "int Atype, int lda, long long strideA, size_t B, int Btype, int ldb, long long strideB, size_t beta, size_t C, "
    "int Ctype, int ldc, long long strideC, int batchCount, int computeType, int algo",
}


@functools.cache
def installed_signatures() -> dict[str, str] | None:
    """Those of the installed CuPy, whose module cannot be imported without CUDA's libraries; None if there is none."""
    spec = importlib.util.find_spec("cupy_backends")
    if spec is None or not spec.submodule_search_locations:
        return None
    (library,) = Path(spec.submodule_search_locations[0], "cuda", "libs").glob("cublas.*.so")
    text = library.read_bytes().decode("latin-1")
    return {name: match[1] for name in SIGNATURES if (match := re.search(rf"\b{name}\((intptr_t handle[^)]*)\)", text))}


class CUBLASError(RuntimeError):
    """As CuPy's."""


def _dtype(number: int) -> np.dtype[Any]:
    if DTYPES[number] == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(DTYPES[number])


def _columns(address: int, dtype: Any, rows: int, columns: int, ld: int, count: int, step: int) -> Any:
    """Return the matrices at an address as a writable view."""
    if ld < max(1, rows):
        raise CUBLASError("CUBLAS_STATUS_INVALID_VALUE")
    extent = abs(step) * (count - 1) + ld * (columns - 1) + rows
    memory = (ctypes.c_char * (extent * dtype.itemsize)).from_address(address)
    flat = np.frombuffer(memory, dtype)
    strides = tuple(s * dtype.itemsize for s in (step, 1, ld))
    return np.lib.stride_tricks.as_strided(flat, (count, rows, columns), strides)


def _tensor_float(x: Any) -> Any:
    """Float32 numbers, or the parts of complex ones, rounded to ten bits after the point."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000).astype(np.uint32).view(x.dtype)


class FakeCublas:
    """`cupy_backends.cuda.libs.cublas`."""

    CUBLASError = CUBLASError

    def gemmEx(self, *args: Any) -> None:
        names = bound("gemmEx", args)
        self._run({**names, "strideA": 0, "strideB": 0, "strideC": 0, "batchCount": 1})
        CALLS["gemmEx"] += 1

    def gemmStridedBatchedEx(self, *args: Any) -> None:
        self._run(bound("gemmStridedBatchedEx", args))
        CALLS["gemmStridedBatchedEx"] += 1

    @staticmethod
    def _run(call: dict[str, int]) -> None:
        m, n, k, count = (call[name] for name in ("m", "n", "k", "batchCount"))
        dtype = _dtype(call["Atype"])
        factor = np.dtype(COMPUTED[call["computeType"]][dtype.kind == "c"])
        if call["handle"] != 1 or min(m, n, k, count) < 1 or call["Atype"] != call["Btype"]:
            raise CUBLASError("CUBLAS_STATUS_INVALID_VALUE")
        wide = call["Atype"] in (2, 14) and call["Ctype"] == 0 and call["computeType"] == 68
        if factor.itemsize < dtype.itemsize or not (wide or call["Ctype"] == call["Atype"]):
            raise CUBLASError("CUBLAS_STATUS_NOT_SUPPORTED")
        stored = [(m, k) if call["transa"] == 0 else (k, m), (k, n) if call["transb"] == 0 else (n, k)]
        operands = [
            _columns(call[name], dtype, *shape, call[f"ld{name.lower()}"], count, call[f"stride{name}"])
            for name, shape in zip("AB", stored, strict=True)
        ]
        out = _columns(call["C"], _dtype(call["Ctype"]), m, n, call["ldc"], count, call["strideC"])
        alpha, beta = (np.ctypeslib.as_array(_at(call[name], factor)).view(factor)[0] for name in ("alpha", "beta"))

        for name in "ABC":
            tell().used_at(call[name], writes=name == "C")

        def multiply() -> None:
            a, b = (
                OPERATIONS[call[op]](x).astype(factor) for op, x in zip(("transa", "transb"), operands, strict=True)
            )
            if call["computeType"] == 77:
                a, b = _tensor_float(a), _tensor_float(b)
            result = alpha * np.matmul(a, b)
            if beta != 0:
                result = result + beta * out.astype(factor)
            out[...] = result.astype(out.dtype)

        queued(multiply)
        CALLS["matrices"] += count
        CALLS["compute", call["computeType"]] += 1


class FakeBindings:
    """`CublasLibrary` for graphs: the same functions, with handles of one's own."""

    HANDLE = 7

    def __init__(self) -> None:
        self.streams: list[int] = []
        self.workspace: tuple[int, int] | None = None
        self.math = 0

    def create(self) -> int:
        return self.HANDLE

    def set_math_mode(self, handle: int, mode: int) -> None:
        assert handle == self.HANDLE
        self.math = mode

    def set_stream(self, handle: int, stream_id: int) -> None:
        assert handle == self.HANDLE
        self.streams.append(stream_id)
        self.workspace = None

    def set_workspace(self, handle: int, workspace: int, workspace_size_in_bytes: int) -> None:
        assert handle == self.HANDLE
        assert workspace_size_in_bytes >= 4 << 20
        ctypes.memset(workspace, 0, workspace_size_in_bytes)
        self.workspace = workspace, workspace_size_in_bytes

    def gemm_ex(self, handle: int, *args: Any) -> None:
        assert handle == self.HANDLE
        assert self.math == 16  # sums in float32
        assert self.workspace is not None
        FakeCublas().gemmEx(1, *args)
        CALLS["gemmEx"] -= 1
        CALLS["gemm_ex"] += 1

    def gemm_strided_batched_ex(self, handle: int, *args: Any) -> None:
        assert handle == self.HANDLE
        assert self.workspace is not None
        FakeCublas().gemmStridedBatchedEx(1, *args)
        CALLS["gemmStridedBatchedEx"] -= 1
        CALLS["gemm_strided_batched_ex"] += 1


def _at(address: int, dtype: Any) -> Any:
    return (ctypes.c_uint8 * dtype.itemsize).from_address(address)


def bound(name: str, args: tuple[Any, ...]) -> dict[str, int]:
    """Return the arguments of a call by name, after checking each against its type in C."""
    signature = SIGNATURES[name].split(", ")
    if len(args) != len(signature):
        raise TypeError(f"{name}() takes exactly {len(signature)} positional arguments ({len(args)} given)")
    bound = {}
    for parameter, value in zip(signature, args, strict=True):
        kind, _, argument = parameter.rpartition(" ")
        low, high = {"int": (-(2**31), 2**31), "size_t": (0, 2**64)}.get(kind, (-(2**63), 2**63))
        high = min(high, TOO_LARGE) if argument in SIZES else high
        if not isinstance(value, int) or not low <= value < high:
            raise TypeError(f"{name}(): {argument} is {value!r}, which is no {kind}")
        bound[argument] = value
    return bound
