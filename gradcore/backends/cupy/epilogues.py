"""Products of matrices with a bias and an activation in one launch, by cuBLASLt's epilogues.

cuBLASLt is column-major, and its bias has one number for each row of the result. A layer's bias has one for each column
of a row-major result. So the transpose is computed, ``out.T = b.T @ a.T``.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from gradcore.backends.cupy.capture import workspace_size
from gradcore.backends.cupy.cublas_library import LtPlan, Operand
from gradcore.backends.cupy.einsum import merges
from gradcore.backends.cupy.gemm import LARGEST, layout_of
from gradcore.backends.cupy.kernels import dtype_name
from gradcore.backends.cupy.products import CudaProducts
from gradcore.core import config
from gradcore.core.determinism import are_deterministic_algorithms_enabled

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["EPILOGUES", "CudaEpilogues"]

#: `cublasLtEpilogue_t`.
EPILOGUES = {"BIAS": 4, "RELU_BIAS": 6, "GELU_AUX_BIAS": 164, "BGRADA": 256}
#: By dtype: `cudaDataType`, `cublasComputeType_t` (of float32 without TensorFloat32), and `cudaDataType` of factors.
_TYPES = {"float16": (2, 68, 0), "bfloat16": (14, 68, 0), "float32": (0, 68, 0), "float64": (1, 70, 1)}
_TENSOR_FLOAT = 77
#: Divisor of the leading dimension of the auxiliary output of `gelu`.
_AUX_MULTIPLE = 8
#: Bytes by which operands are aligned.
_ALIGNED = 16
#: Largest number of plans in the cache of a thread.
_KEPT = 256


class Plans(threading.local):
    """The plans of this thread, the most recently used last; None where cuBLASLt has no algorithm."""

    def __init__(self) -> None:
        self.by_key: OrderedDict[Any, LtPlan | None] = OrderedDict()


class CudaEpilogues(CudaProducts):
    """Products of CuPy arrays with a bias and an activation."""

    rounded_once: Any

    @functools.cached_property
    def _plans(self) -> Plans:
        return Plans()

    @functools.cached_property
    def _lt_handles(self) -> dict[int, int]:
        """CuBLASLt handles by device."""
        return {}

    # -- forward -----------------------------------------------------------------------------------------------

    def linear(self, x: Any, weight: Any, bias: Any = None) -> Any:
        if bias is not None and weight.ndim == 2 and x.ndim > 1:
            rows = _rows(x)
            result = None if rows is None else self._with_bias("BIAS", rows, weight.T, bias)
            if result is not None:
                return result[0] if x.ndim == 2 else result[0].reshape(*x.shape[:-1], weight.shape[0])
        return super().linear(x, weight, bias)

    def addmm(self, summand: Any, a: Any, b: Any, beta: complex = 1, alpha: complex = 1) -> Any:
        result = self._with_bias("BIAS", a, b, summand, beta, alpha)
        return super().addmm(summand, a, b, beta, alpha) if result is None else result[0]

    def addmm_relu(self, summand: Any, a: Any, b: Any, beta: complex = 1, alpha: complex = 1) -> Any:
        result = self._with_bias("RELU_BIAS", a, b, summand, beta, alpha)
        if result is not None:
            return result[0]
        inner = super().addmm(summand, a, b, beta, alpha)
        # CuPy has no functions of bfloat16.
        converted = inner.astype("float32") if inner.dtype.name == "bfloat16" else inner
        return self.xp.maximum(converted, 0).astype(inner.dtype, copy=False)

    def addmm_gelu(self, summand: Any, a: Any, b: Any, beta: complex = 1, alpha: complex = 1) -> tuple[Any, Any]:
        result = self._with_bias("GELU_AUX_BIAS", a, b, summand, beta, alpha)
        if result is not None:
            return result
        inner = super().addmm(summand, a, b, beta, alpha)
        return self.rounded_once("gelu", inner, "tanh"), inner

    # -- backward ----------------------------------------------------------------------------------------------

    def activation_backward(self, grad: Any, read: Any, gelu: bool) -> Any:
        return self.rounded_once("activation_backward", grad, read, gelu)

    def product_and_sum(self, a: Any, grad: Any) -> tuple[Any, Any]:
        # Sums are not to be of rounded numbers.
        tensor_float = a.dtype.char == "f" and config.get_float32_matmul_precision() != "highest"
        if not tensor_float and grad.flags.c_contiguous and self._is_for_epilogue(a.T, grad):
            total = self.allocate(grad.shape[1], grad.dtype)
            result = self._epilogue("BGRADA", a.T, grad, total, 1)
            if result is not None:
                return result[0], total
        return self.adjoint_times(a, grad), self.sum_rows(grad)

    # -- by cuBLASLt -------------------------------------------------------------------------------------------

    def _with_bias(
        self, epilogue: str, a: Any, b: Any, bias: Any, beta: complex = 1, alpha: complex = 1
    ) -> tuple[Any, Any] | None:
        """Return the epilogue of ``alpha * a @ b + bias`` and its auxiliary output, or None if it does not apply."""
        if beta != 1 or bias.ndim != 1 or not self._is_for_epilogue(a, b):
            return None
        if bias.dtype != a.dtype or bias.shape[0] != b.shape[1] or bias.strides[0] != bias.itemsize:
            return None
        if self.address(bias) % _ALIGNED:
            return None
        return self._epilogue(epilogue, a, b, bias, alpha)

    def _is_for_epilogue(self, a: Any, b: Any) -> bool:
        """Return whether cuBLASLt can multiply these two matrices without a copy."""
        if self.cublas_library is None or are_deterministic_algorithms_enabled():
            return False
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
            return False
        if dtype_name(a.dtype) not in _TYPES or min(*a.shape, *b.shape) < 2:
            return False
        return self._is_operand(a) and self._is_operand(b)

    def _is_operand(self, x: Any) -> bool:
        """Return whether cuBLASLt can read a matrix where it lies."""
        layout = layout_of(x, False)
        return layout is not None and max(layout[1], *x.shape) <= LARGEST and not self.address(x) % _ALIGNED

    def _epilogue(self, epilogue: str, a: Any, b: Any, bias: Any, alpha: complex) -> tuple[Any, Any] | None:
        """Return the product and the auxiliary output of its epilogue, or None if cuBLASLt has no algorithm.

        `bias` is read, or written where the epilogue is the gradient of a bias.
        """
        (m, _), n, xp = a.shape, b.shape[1], self.xp
        leading = -(-n // _AUX_MULTIPLE) * _AUX_MULTIPLE if "AUX" in epilogue else 0
        first, second = (_transposed_operand(x, self.address(x)) for x in (b, a))
        plan = self._plan_of(epilogue, first, second, a.dtype, leading)
        if plan is None:
            return None
        out = self.allocate((m, n), a.dtype)
        aux = self.allocate((m, leading), a.dtype) if leading else None
        # The memory of the workspace may be handed out again at once: the stream runs this product first.
        workspace = self.allocate(plan.workspace, "uint8") if plan.workspace else None
        addresses = self.address(b), self.address(a), self.address(out)
        at_aux, workspace_address = (0 if x is None else self.address(x) for x in (aux, workspace))
        plan.run(addresses, alpha.real, self.address(bias), at_aux, workspace_address, xp.cuda.get_current_stream().ptr)
        return out, None if aux is None else aux[:, :n]

    def _plan_of(self, epilogue: str, a: Operand, b: Operand, dtype: Any, leading_of_aux: int) -> LtPlan | None:
        """Return the cached plan of a product with these operands, or None if there is none."""
        kind, compute, factor = _TYPES[dtype_name(dtype)]
        if kind == 0 and config.get_float32_matmul_precision() != "highest":
            compute = _TENSOR_FLOAT
        index = self.current_index()
        key = index, epilogue, kind, compute, a, b
        plans = self._plans.by_key
        if key in plans:
            plans.move_to_end(key)
            return plans[key]
        library = self.cublas_library
        assert library is not None
        handle = self._lt_handles.get(index)
        if handle is None:
            handle = self._lt_handles.setdefault(index, library.create_lt())
        most_workspace = workspace_size(self.xp)
        plan = library.plan_lt(
            handle, EPILOGUES[epilogue], a, b, (kind, compute, factor), most_workspace, leading_of_aux
        )
        plans[key] = plan
        if len(plans) > _KEPT:
            plans.popitem(last=False)  # The plan is freed with its last reference.
        return plan


def _rows(x: Array) -> Array | None:
    """Return `x` as one matrix with the rows of all batches, or None if that needs a copy."""
    if x.ndim == 2:
        return x
    return x.reshape(-1, x.shape[-1]) if x.size and merges(x, range(x.ndim - 1)) else None


def _transposed_operand(x: Array, address: int) -> Operand:
    """Return the cuBLASLt operand of the transpose of `x`, a row-major or column-major matrix at `address`."""
    layout = layout_of(x, False)
    assert layout is not None
    lies_in_columns, leading = layout
    rows, columns = x.shape if lies_in_columns else x.shape[::-1]
    return Operand(rows, columns, leading, bool(lies_in_columns), min(address & -address, 256))
