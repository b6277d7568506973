"""Bindings of cuBLAS and cuBLASLt by ctypes: products in CUDA graphs, and products with epilogues.

CuPy refuses to call cuBLAS while a stream is captured, although cuBLAS supports it, and it has no interface to
cuBLASLt. The libraries are those that CuPy has loaded.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable
from ctypes import byref, c_int, c_int64, c_longlong, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

__all__ = ["CublasLibrary", "LtPlan", "Operand", "load_cublas"]

#: Arguments of `cublasGemmEx` and `cublasGemmStridedBatchedEx` after the handle: operations, sizes, alpha, A, B, beta,
#: C.
_HEAD = (c_int,) * 5 + (c_void_p,)
_GEMM = (*_HEAD, *(c_void_p, c_int, c_int) * 2, c_void_p, c_void_p, c_int, c_int, c_int, c_int)
_STRIDED = (
    *_HEAD, *(c_void_p, c_int, c_int, c_longlong) * 2, c_void_p, c_void_p, c_int, c_int, c_longlong, c_int, c_int,
    c_int,
)  # fmt: skip
_POINTER = ctypes.POINTER(c_void_p)
#: Argument types of each function; all functions return a `cublasStatus_t`.
_SIGNATURES: dict[str, tuple[type, ...]] = {
    "cublasCreate_v2": (_POINTER,),
    "cublasSetMathMode": (c_void_p, c_int),
    "cublasSetStream_v2": (c_void_p, c_void_p),
    "cublasSetWorkspace_v2": (c_void_p, c_void_p, c_size_t),
    "cublasGemmEx": (c_void_p, *_GEMM),
    "cublasGemmStridedBatchedEx": (c_void_p, *_STRIDED),
    "cublasLtCreate": (_POINTER,),
    "cublasLtMatmulDescCreate": (_POINTER, c_int, c_int),
    "cublasLtMatmulDescDestroy": (c_void_p,),
    "cublasLtMatmulDescSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatrixLayoutCreate": (_POINTER, c_int, c_uint64, c_uint64, c_int64),
    "cublasLtMatrixLayoutDestroy": (c_void_p,),
    "cublasLtMatmulPreferenceCreate": (_POINTER,),
    "cublasLtMatmulPreferenceDestroy": (c_void_p,),
    "cublasLtMatmulPreferenceSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulAlgoGetHeuristic": (*(c_void_p,) * 7, c_int, c_void_p, ctypes.POINTER(c_int)),
    "cublasLtMatmul": (*(c_void_p,) * 14, c_size_t, c_void_p),
}

#: Statuses by which cuBLASLt says that it has no algorithm: `CUBLAS_STATUS_INVALID_VALUE`, `_ARCH_MISMATCH` and
#: `_NOT_SUPPORTED`. Others are errors.
_UNSUPPORTED = frozenset((7, 8, 15))

#: `cublasLtMatmulDescAttributes_t`.
_TRANSPOSE_A, _TRANSPOSE_B, _EPILOGUE, _BIAS_POINTER, _AUX_POINTER, _AUX_LEADING = 3, 4, 7, 8, 11, 12
#: `cublasLtMatmulPreferenceAttributes_t`.
_MOST_WORKSPACE, _REDUCTION_SCHEMES, _ALIGNMENT_A = 1, 3, 5
#: Partial sums are added in the compute type (`CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE`).
_SUMS_ARE_WIDE = 2
#: Alignment of biases, in bytes.
_LEAST_ALIGNMENT = 16


class _HeuristicResult(ctypes.Structure):
    """The C structure `cublasLtMatmulHeuristicResult_t`."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", ctypes.c_float),
        ("reserved", c_int * 4),
    )


class Operand(NamedTuple):
    """Layout of a matrix for cuBLASLt: the stored rows and columns, whose columns are `leading` elements apart.

    Attributes
    ----------
    rows, columns, leading : int
    transposed : bool
        Whether its transpose is multiplied.
    alignment : int
        Bytes that divide its address.
    """

    rows: int
    columns: int
    leading: int
    transposed: bool
    alignment: int


class CublasLibrary:
    """cuBLAS and cuBLASLt functions, which raise CuPy's `CUBLASError` when they fail.

    Parameters
    ----------
    error : type
        The class of errors, which is called with a status code.
    libraries : CDLL
        Libraries among which the functions are.
    """

    def __init__(self, error: Callable[[int], Exception], *libraries: ctypes.CDLL) -> None:
        self._error = error
        self._functions: dict[str, Callable[..., int]] = {}
        for name, arguments in _SIGNATURES.items():
            library = next((each for each in libraries if hasattr(each, name)), None)
            if library is None:
                raise AttributeError(f"no loaded library has {name}")
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_int
            self._functions[name] = function
        self._gemm, self._strided = self._functions["cublasGemmEx"], self._functions["cublasGemmStridedBatchedEx"]

    def call(self, name: str, *args: object) -> None:
        """Call a function of the library, and raise an error if it fails."""
        self._check(self._functions[name](*args))

    def status(self, name: str, *args: object) -> int:
        """Call a function of the library, and return its status code."""
        return self._functions[name](*args)

    def new(self, name: str, *args: object) -> c_void_p:
        """Call a function that creates an object, and return the handle of the object."""
        handle = c_void_p()
        self.call(name, byref(handle), *args)
        return handle

    def _check(self, status: int) -> None:
        if status:
            raise self._error(status)

    # -- cuBLAS ----------------------------------------------------------------------------------------------------

    def create(self) -> int:
        """Create a cuBLAS handle for the current device, and return it."""
        handle = self.new("cublasCreate_v2").value
        assert handle is not None
        return handle

    def set_math_mode(self, handle: int, mode: int) -> None:
        self.call("cublasSetMathMode", handle, mode)

    def set_stream(self, handle: int, stream: int) -> None:
        """Set the stream of a handle. This drops the workspace of the handle."""
        self.call("cublasSetStream_v2", handle, stream)

    def set_workspace(self, handle: int, address: int, size: int) -> None:
        self.call("cublasSetWorkspace_v2", handle, address, size)

    def gemm_ex(self, *args: int) -> None:
        """Multiply two matrices. The arguments are those of CuPy's `gemmEx`."""
        self._check(self._gemm(*args))

    def gemm_strided_batched_ex(self, *args: int) -> None:
        """Multiply batches of matrices. The arguments are those of CuPy's `gemmStridedBatchedEx`."""
        self._check(self._strided(*args))

    # -- cuBLASLt --------------------------------------------------------------------------------------------------

    def create_lt(self) -> int:
        """Create a cuBLASLt handle for the current device, and return it. Any stream and thread may use it."""
        handle = self.new("cublasLtCreate").value
        assert handle is not None
        return handle

    def plan_lt(
        self,
        handle: int,
        epilogue: int,
        a: Operand,
        b: Operand,
        types: tuple[int, int, int],
        most_workspace: int,
        leading_of_aux: int = 0,
    ) -> LtPlan | None:
        """Return a plan of a product with an epilogue, or None if cuBLASLt has no algorithm for it.

        Parameters
        ----------
        handle : int
        epilogue : int
            `cublasLtEpilogue_t`.
        a, b : Operand
        types : tuple of int
            `cudaDataType` of matrices, `cublasComputeType_t`, and `cudaDataType` of factors.
        most_workspace : int
            Largest size in bytes of the workspace.
        leading_of_aux : int
            Leading dimension of the auxiliary output of the epilogue.
        """
        plan = LtPlan(self, handle, epilogue, a, b, types, leading_of_aux)
        if plan.choose_algorithm(most_workspace, (a.alignment, b.alignment)):
            return plan
        plan.free()
        return None


class LtPlan:
    """A planned product with an epilogue, with the algorithm cuBLASLt chose.

    The result is dense, in column-major order.

    Attributes
    ----------
    workspace : int
        Size in bytes of the workspace of a call.
    """

    def __init__(
        self,
        library: CublasLibrary,
        handle: int,
        epilogue: int,
        a: Operand,
        b: Operand,
        types: tuple[int, int, int],
        leading_of_aux: int,
    ) -> None:
        self._library, self._handle = library, handle
        self.workspace = 0
        self._found = _HeuristicResult()
        kind, compute, factor = types
        number = ctypes.c_double if factor else ctypes.c_float
        self._alpha, self._beta = number(), number()
        self._found_at, self._alpha_at, self._beta_at = byref(self._found), byref(self._alpha), byref(self._beta)
        self._bias = 0  # the address that the product has
        self._made: list[tuple[str, c_void_p]] = []
        self._product = self._make("cublasLtMatmulDesc", compute, factor)
        self._set(_TRANSPOSE_A, c_int(a.transposed))
        self._set(_TRANSPOSE_B, c_int(b.transposed))
        self._set(_EPILOGUE, c_uint32(epilogue))
        # Any aligned pointer tells cuBLASLt which alignment to expect.
        self._set(_BIAS_POINTER, c_uint64(_LEAST_ALIGNMENT))
        if leading_of_aux:
            self._set(_AUX_LEADING, c_int64(leading_of_aux))
            self._set(_AUX_POINTER, c_uint64(_LEAST_ALIGNMENT))
        rows, columns = a.columns if a.transposed else a.rows, b.rows if b.transposed else b.columns
        operands = ((a.rows, a.columns, a.leading), (b.rows, b.columns, b.leading), (rows, columns, rows))
        self._layouts = [self._make("cublasLtMatrixLayout", kind, *each) for each in operands]

    def _make(self, kind: str, *args: int) -> c_void_p:
        handle = self._library.new(f"{kind}Create", *args)
        self._made.append((kind, handle))
        return handle

    def _set(self, attribute: int, value: c_int | c_uint32 | c_int64 | c_uint64) -> None:
        size = ctypes.sizeof(value)
        self._library.call("cublasLtMatmulDescSetAttribute", self._product, attribute, byref(value), size)

    def choose_algorithm(self, most_workspace: int, alignments: tuple[int, int]) -> bool:
        """Choose the algorithm that cuBLASLt expects to be the fastest. Return whether there is one."""
        preference = self._library.new("cublasLtMatmulPreferenceCreate")
        try:
            values = [
                (_MOST_WORKSPACE, c_uint64(most_workspace)),
                (_REDUCTION_SCHEMES, c_uint32(_SUMS_ARE_WIDE)),
                *((_ALIGNMENT_A + i, c_uint32(bytes_)) for i, bytes_ in enumerate(alignments)),
            ]
            for attribute, value in values:
                size = ctypes.sizeof(value)
                self._library.call("cublasLtMatmulPreferenceSetAttribute", preference, attribute, byref(value), size)
            count, (a, b, out) = c_int(), self._layouts
            status = self._library.status(
                "cublasLtMatmulAlgoGetHeuristic",
                self._handle, self._product, a, b, out, out, preference, 1, byref(self._found), byref(count),
            )  # fmt: skip
        finally:
            self._library.call("cublasLtMatmulPreferenceDestroy", preference)
        if status and status not in _UNSUPPORTED:
            self.free()
            self._library._check(status)
        if status or not count.value or self._found.state:
            return False
        self.workspace = int(self._found.workspace)
        return True

    def run(
        self, addresses: tuple[int, int, int], alpha: float, bias: int, aux: int, workspace: int, stream: int
    ) -> None:
        """Queue the computation of ``epilogue(alpha * A @ B)`` in a stream.

        Parameters
        ----------
        addresses : tuple of int
            Of A, B and the result.
        alpha : float
        bias : int
            Address of the bias, or of its gradient, which the epilogue writes.
        aux : int
            Address of the auxiliary output of the epilogue, or 0.
        workspace : int
            Address of `workspace` bytes.
        stream : int
        """
        if bias != self._bias:  # a layer's stays the same
            self._set(_BIAS_POINTER, c_uint64(bias))
            self._bias = bias
        if aux:
            self._set(_AUX_POINTER, c_uint64(aux))
        at_a, at_b, at_out = addresses
        a, b, out = self._layouts
        self._alpha.value = alpha
        self._library.call(
            "cublasLtMatmul",
            self._handle, self._product, self._alpha_at, at_a, a, at_b, b, self._beta_at, at_out, out,
            at_out, out, self._found_at, workspace, self.workspace, stream,
        )  # fmt: skip

    def free(self) -> None:
        """Free the descriptors of the product. Queued work is not affected."""
        while self._made:
            kind, handle = self._made.pop()
            self._library.call(f"{kind}Destroy", handle)

    def __del__(self) -> None:
        if not sys.is_finalizing():  # the library may be gone
            with contextlib.suppress(Exception):
                self.free()


def load_cublas(cublas: Any) -> CublasLibrary | None:
    """Return the cuBLAS functions of the libraries that CuPy's module `cublas` has loaded, or None if not found."""
    from cupy.cuda import runtime

    # Except on Windows, functions of the libraries that this module is linked with are found through the module.
    names = [cublas.__file__]
    if sys.platform == "win32":
        major = runtime.runtimeGetVersion() // 1000
        names = [f"cublas64_{major}.dll", f"cublasLt64_{major}.dll"]
    try:
        return CublasLibrary(cublas.CUBLASError, *map(ctypes.CDLL, names))
    except (OSError, AttributeError):
        return None
