"""Products of matrices with a bias and an activation in one launch: cuBLAS's epilogues, which nvmath-python calls.

An epilogue works on columns, and its bias has a number for each row of what it is added to. Results here lie in rows:
so it is their transpose that is computed, ``out.T = b.T @ a.T``, to whose rows the bias of a layer belongs.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import threading
from collections import OrderedDict
from typing import Any

from gradcore.backends import sync_debug
from gradcore.backends.cupy.capture import workspace_size
from gradcore.backends.cupy.einsum import merges
from gradcore.backends.cupy.gemm import LARGEST, layout_of
from gradcore.backends.cupy.products import CudaProducts
from gradcore.core import config
from gradcore.core.determinism import are_deterministic_algorithms_enabled

__all__ = ["CudaEpilogues"]

#: What is computed in (`cublasComputeType_t`), by dtype; with TensorFloat32 float32 numbers are rounded.
_COMPUTED = {"float16": 68, "bfloat16": 68, "float32": 68, "float64": 70}
_TENSOR_FLOAT = 77
#: Parts of a sum are added up in what is computed in (`CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE`).
_PREFERENCES = {"reduction_scheme_mask": 2}
#: Elements of a result from which it pays that nothing else reads or writes it. A call takes nvmath-python tens of
#: microseconds longer than CuPy, in which a device moves this many float32 numbers there and back.
LEAST = 1 << 20
#: Bytes by which operands are aligned.
_ALIGNED = 16
#: Plans that a thread keeps.
_KEPT = 256


class _Kept(OrderedDict[Any, Any]):
    """Plans, None where there can be none, that are freed with this at the latest."""

    def __del__(self) -> None:
        if sys.is_finalizing():  # the libraries may be gone
            return
        for plan in self.values():
            if plan is not None:
                with contextlib.suppress(Exception):  # the device may be gone
                    plan.free()


class Plans(threading.local):
    """The plans of this thread, to which the library's handle belongs that they use; the youngest use is last."""

    def __init__(self) -> None:
        self.by_key: OrderedDict[Any, Any] = _Kept()


class CudaEpilogues(CudaProducts):
    """Products of CuPy arrays with what follows them."""

    rounded_once: Any

    @functools.cached_property
    def nvmath(self) -> Any:
        """nvmath-python's interface to cuBLASLt; None where it is not installed, or lacks what is used."""
        with contextlib.suppress(ImportError):
            import ml_dtypes  # noqa: F401  (else nvmath-python would not know bfloat16)
        try:
            module = importlib.import_module("nvmath.linalg.advanced")
        except (ImportError, OSError, RuntimeError):
            return None
        return module if hasattr(module.Matmul, "release_operands") else None

    @functools.cached_property
    def _plans(self) -> Plans:
        return Plans()

    # -- forward -----------------------------------------------------------------------------------------------

    def linear(self, x: Any, weight: Any, bias: Any = None) -> Any:
        if self.nvmath is not None and bias is not None and weight.ndim == 2 and x.ndim > 1:
            rows = _rows(x)
            found = None if rows is None else self._with_bias("BIAS", rows, weight.T, bias)
            if found is not None:
                return found[0].reshape(*x.shape[:-1], weight.shape[0])
        return super().linear(x, weight, bias)

    def addmm(self, summand: Any, a: Any, b: Any, beta: complex = 1, alpha: complex = 1) -> Any:
        found = self._with_bias("BIAS", a, b, summand, beta, alpha)
        return super().addmm(summand, a, b, beta, alpha) if found is None else found[0]

    def addmm_relu(self, summand: Any, a: Any, b: Any, beta: complex = 1, alpha: complex = 1) -> Any:
        found = self._with_bias("RELU_BIAS", a, b, summand, beta, alpha)
        if found is not None:
            return found[0]
        inner = super().addmm(summand, a, b, beta, alpha)
        wide = inner.astype("float32") if inner.dtype.name == "bfloat16" else inner  # which CuPy has no functions for
        return self.xp.maximum(wide, 0).astype(inner.dtype, copy=False)

    def addmm_gelu(self, summand: Any, a: Any, b: Any, beta: complex = 1, alpha: complex = 1) -> tuple[Any, Any]:
        found = self._with_bias("GELU_AUX_BIAS", a, b, summand, beta, alpha)
        if found is not None:
            return found[0], found[1]["gelu_aux"][: b.shape[1]].T
        inner = super().addmm(summand, a, b, beta, alpha)
        return self.rounded_once("gelu", inner, "tanh"), inner

    # -- backward ----------------------------------------------------------------------------------------------

    def activation_backward(self, grad: Any, read: Any, gelu: bool) -> Any:
        return self.rounded_once("activation_backward", grad, read, gelu)

    def product_and_sum(self, a: Any, grad: Any) -> tuple[Any, Any]:
        # Sums are not to be of rounded numbers.
        tensor_float = a.dtype.char == "f" and config.get_float32_matmul_precision() != "highest"
        if not tensor_float and grad.flags.c_contiguous and self._is_for_epilogue(a.T, grad):
            found = self._epilogue("BGRADA", grad.T, a, {}, 1)
            if found is not None:
                return found[0].T, found[1]["bgrada"]
        return self.adjoint_times(a, grad), self.sum_rows(grad)

    # -- by nvmath-python --------------------------------------------------------------------------------------

    def _with_bias(
        self, epilogue: str, a: Any, b: Any, bias: Any, beta: complex = 1, alpha: complex = 1
    ) -> tuple[Any, Any] | None:
        """Return the epilogue of ``alpha * a @ b + bias``, and what it has left beside; None where it does not fit."""
        if self.nvmath is None or beta != 1 or bias.ndim != 1 or not self._is_for_epilogue(a, b):
            return None
        if bias.dtype != a.dtype or bias.shape[0] != b.shape[1] or bias.strides[0] != bias.itemsize:
            return None
        if self.address(bias) % _ALIGNED:
            return None
        found = self._epilogue(epilogue, b.T, a.T, {"bias": bias}, alpha)
        return None if found is None else (found[0].T, found[1])

    def _is_for_epilogue(self, a: Any, b: Any) -> bool:
        """Return whether cuBLAS multiplies these two matrices where they lie, and the product is worth it."""
        if self.nvmath is None or self.capture.on or are_deterministic_algorithms_enabled():
            return False
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
            return False
        if a.dtype.name not in _COMPUTED or a.shape[0] * b.shape[1] < LEAST or min(*a.shape, *b.shape) < 2:
            return False
        layouts = [layout_of(x, False) for x in (a, b)]
        return all(
            layout is not None and max(layout[1], *x.shape) <= LARGEST and not self.address(x) % _ALIGNED
            for layout, x in zip(layouts, (a, b), strict=True)
        )

    def _epilogue(
        self, epilogue: str, a: Any, b: Any, inputs: dict[str, Any], alpha: complex
    ) -> tuple[Any, Any] | None:
        """Return the product, in columns, and the epilogue's other results; None if cuBLAS has nothing for it."""
        plan = self._plan_of(epilogue, a, b, inputs)
        if plan is None:
            return None
        plan.reset_operands_unchecked(a=a, b=b, alpha=alpha, epilog_inputs=inputs)
        try:  # what it works in goes back to the pool, in the order of the stream
            found = plan.execute(release_workspace=True)
        finally:
            plan.release_operands()
        return found if isinstance(found, tuple) else (found, {})

    def _plan_of(self, epilogue: str, a: Any, b: Any, inputs: dict[str, Any]) -> Any:
        """The plan of such products; None if there is none, or if making it would wait where that is an error."""
        compute = _COMPUTED[a.dtype.name]
        if a.dtype.char == "f" and config.get_float32_matmul_precision() != "highest":
            compute = _TENSOR_FLOAT
        operands = [(x.shape, x.strides, _alignment(self.address(x))) for x in (a, b)]
        key = self.current_index(), epilogue, a.dtype.name, compute, *operands
        plans = self._plans.by_key
        if key in plans:
            plans.move_to_end(key)
            return plans[key]
        if sync_debug.mode() == "error":
            return None
        sync_debug.note("wait")
        plan = plans[key] = self._planned(epilogue, a, b, inputs, compute)
        if len(plans) > _KEPT:
            _, oldest = plans.popitem(last=False)
            if oldest is not None:
                oldest.free()
        return plan

    def _planned(self, epilogue: str, a: Any, b: Any, inputs: dict[str, Any], compute: int) -> Any:
        options = {"compute_type": compute, "memory_limit": workspace_size(self.xp)}
        try:
            plan = self.nvmath.Matmul(a, b, options=options)
        except self._planning_errors:
            return None
        try:
            epilog = self.nvmath.MatmulEpilog[epilogue]
            plan.plan(preferences=_PREFERENCES, epilog=epilog, epilog_inputs=inputs or None)
        except self._planning_errors:
            plan.free()
            return None
        return plan

    @functools.cached_property
    def _planning_errors(self) -> tuple[type[Exception], ...]:
        """Errors of planning a product that cuBLAS, or its version, does not support."""
        errors = ValueError, RuntimeError, NotImplementedError
        try:
            return *errors, importlib.import_module("nvmath.bindings.cublasLt").cuBLASLtError
        except ImportError:
            return errors


def _rows(x: Any) -> Any:
    """Return the rows of all batches as one matrix, where that is no copy; else None."""
    if x.ndim == 2:
        return x
    return x.reshape(-1, x.shape[-1]) if x.size and merges(x, range(x.ndim - 1)) else None


def _alignment(address: int) -> int:
    """Bytes by which an address is aligned, as far as plans differ by it."""
    return min(address & -address, 256)
