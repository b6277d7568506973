"""`nvmath.linalg.advanced` on the host: the part that the CUDA backend calls, and what it demands of operands.

Like the original it reads matrices by a leading dimension, writes results in columns where an epilogue wants them so,
plans for the alignment that it was shown, and keeps what it was given until it is told to let go.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from typing import Any, ClassVar

import numpy as np

from tests.strict.blas import _tensor_float
from tests.strict.device import StrictArray, current

__all__ = ["CALLS", "OPTIONS", "FakeNvmath", "Matmul", "MatmulEpilog"]

#: How often each epilogue was planned and executed, and how often plans were let go.
CALLS: Counter[Any] = Counter()
#: The options that are used here, of those in `MatmulOptions`.
OPTIONS = {"compute_type", "memory_limit"}
#: By `cublasComputeType_t`: the dtypes that are multiplied, and what sums have.
COMPUTED = {
    68: ({"float16", "bfloat16", "float32"}, "float32"),
    70: ({"float64"}, "float64"),
    77: ({"float32"}, "float32"),
}


class MatmulEpilog(enum.IntEnum):
    """`cublasLtEpilogue_t`."""

    BIAS = 4
    RELU_BIAS = 6
    RELU_AUX_BIAS = 134
    GELU_BIAS = 36
    GELU_AUX_BIAS = 164
    BGRADA = 256
    BGRADB = 512


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {"RELU": lambda x: np.maximum(x, 0), "GELU": gelu}


class Matmul:
    """A product that is planned once and executed often."""

    def __init__(
        self, a: Any, b: Any, /, c: Any = None, *, alpha: Any = None, beta: Any = None, qualifiers: Any = None,
        quantization_scales: Any = None, options: Any = None, stream: Any = None,
    ) -> None:  # fmt: skip
        assert c is beta is qualifiers is quantization_scales is stream is None
        assert options.keys() <= OPTIONS
        assert 0 < options["memory_limit"] <= 32 << 20
        self.operands: list[Any] = [a, b]
        self.like = [_described(x) for x in (a, b)]
        self.aligned = [_alignment(x) for x in (a, b)]
        self.alpha, self.compute, self.epilog = 1 if alpha is None else alpha, options["compute_type"], None
        self.valid, self.inputs = True, dict[str, Any]()
        if a.dtype != b.dtype or a.dtype.name not in COMPUTED[self.compute][0]:
            raise ValueError("Unsupported combination of dtypes for operands")
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise ValueError("The 'K' extent must match for the operands")
        self.in_columns = _in_columns(a)
        _in_columns(b)
        CALLS["made"] += 1

    def plan(
        self, *, preferences: Any = None, algorithms: Any = None, epilog: Any = None, epilog_inputs: Any = None,
        stream: Any = None,
    ) -> Any:  # fmt: skip
        assert preferences == {"reduction_scheme_mask": 2}  # in float32
        assert algorithms is stream is None
        assert isinstance(epilog, MatmulEpilog)
        self.epilog, self.inputs = epilog, dict(epilog_inputs or {})
        if self.inputs.keys() != ({"bias"} if "BIAS" in epilog.name else set()):
            raise ValueError(f"The epilog {epilog.name} requires other input tensors")
        for bias in self.inputs.values():
            self._check_bias(bias)
        if epilog.name in FakeNvmath.refused:
            raise RuntimeError("Planning failed to find any suitable algorithm.")
        CALLS["planned", epilog.name] += 1
        CALLS["compute", self.compute] += 1
        return ()

    def _check_bias(self, bias: Any) -> None:
        a = self.operands[0]
        if bias.shape not in ((a.shape[0],), (a.shape[0], 1)):
            raise ValueError("The M dimension of the bias vector must match the M dimension of A.")
        if bias.strides[0] != bias.itemsize or bias.dtype != a.dtype:
            raise ValueError("The stride of the bias must be 1 along the M dimension, its dtype that of the result.")

    def reset_operands_unchecked(
        self, *, a: Any = None, b: Any = None, c: Any = None, alpha: Any = None, beta: Any = None,
        quantization_scales: Any = None, epilog_inputs: Any = None, stream: Any = None,
    ) -> None:  # fmt: skip
        assert self.valid
        assert c is beta is quantization_scales is stream is None
        for x, like, aligned in zip((a, b), self.like, self.aligned, strict=True):
            assert _described(x) == like, "another matrix than the one that was planned for"
            assert _alignment(x) >= aligned, "an operand is less aligned than the one that was planned for"
        self.operands, self.alpha = [a, b], alpha
        self.inputs = dict(epilog_inputs)
        for bias in self.inputs.values():
            self._check_bias(bias)

    def execute(self, *, algorithm: Any = None, release_workspace: bool = False, stream: Any = None) -> Any:
        assert self.valid
        assert self.epilog is not None
        assert algorithm is stream is None
        assert release_workspace, "a workspace for each plan would be kept"
        wide = COMPUTED[self.compute][1]
        a, b = (x._a.astype(wide) for x in self.operands)
        if self.compute == 77:
            a, b = _tensor_float(a), _tensor_float(b)
        inner, name = self.alpha * (a @ b), self.epilog.name
        if "bias" in self.inputs:
            inner = inner + self.inputs["bias"]._a.astype(wide).reshape(-1, 1)
        result = ACTIVATIONS.get(name[:4], lambda x: x)(inner)
        order = "C" if name == "BGRADA" and not self.in_columns else "F"
        out = self._new(result, order)
        left = self._left(name, inner)
        CALLS["executed", name] += 1
        return (out, left) if left else out

    def _left(self, name: str, inner: Any) -> dict[str, Any]:
        """The results beside the product."""
        m, n = inner.shape
        if name.startswith("GELU_AUX"):
            padded = np.full((-(-m // 8) * 8, n), np.nan, inner.dtype)
            padded[:m] = inner
            return {"gelu_aux": self._new(padded, "F")}
        if name == "BGRADA":
            wide = COMPUTED[self.compute][1]
            return {"bgrada": self._new(self.operands[0]._a.astype(wide).sum(1), "C")}
        assert "AUX" not in name
        return {}

    def _new(self, values: Any, order: Any) -> Any:
        out = np.empty(values.shape, self.operands[0].dtype, order=order)
        out[...] = values
        return StrictArray(out, current())

    def release_operands(self) -> None:
        assert self.valid
        self.operands = [None, None]
        self.inputs = {}
        CALLS["released"] += 1

    def free(self) -> None:
        self.valid = False
        CALLS["freed"] += 1


class FakeNvmath:
    """The module; `refused` are the epilogues for which cuBLAS has no algorithm."""

    refused: ClassVar[set[str]] = set()
    Matmul = Matmul
    MatmulEpilog = MatmulEpilog


def _described(x: Any) -> Any:
    assert isinstance(x, StrictArray)
    assert x.index == current()
    return x.shape, x.strides, x.dtype


def _alignment(x: Any) -> int:
    address = x._a.__array_interface__["data"][0]
    return min(address & -address, 256)


def _in_columns(x: Any) -> bool:
    """Whether a matrix lies in columns; else it lies in rows, or cannot be read."""
    (m, n), (down, along) = x.shape, (s // x.itemsize for s in x.strides)
    if down == 1:
        assert along >= m, "the original would read another matrix"
        return True
    if along == 1:
        assert down >= n, "the original would read another matrix"
        return False
    raise ValueError("Unsupported layout.")
