"""cuBLASLt on the host, as the CUDA backend calls it: products with epilogues, of matrices at addresses.

Like the original it reads columns by a leading dimension, and expects of addresses what it was told when it planned.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from gradcore.backends.cupy.cublas_library import Operand
from gradcore.backends.cupy.epilogues import EPILOGUES
from tests.strict.blas import COMPUTED, FakeBindings, _columns, _dtype, _tensor_float
from tests.strict.watching import tell

__all__ = ["CALLS", "FakeLibrary", "FakePlan", "gelu"]

#: How often products were planned, and how often each epilogue was run; in what sums were computed.
CALLS: Counter[Any] = Counter()
#: Dtypes that are multiplied, by `cublasComputeType_t`.
MULTIPLIED = {68: {"float16", "bfloat16", "float32"}, 70: {"float64"}, 77: {"float32"}}
WORKSPACE = 4096


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class FakePlan:
    """A product that is planned once and run often."""

    workspace = WORKSPACE

    def __init__(self, epilogue: str, a: Operand, b: Operand, types: tuple[int, int, int], leading_of_aux: int) -> None:
        self.epilogue, self.operands, self.leading_of_aux = epilogue, (a, b), leading_of_aux
        self.dtype, self.compute = _dtype(types[0]), types[1]
        self.wide = np.dtype(COMPUTED[self.compute][0])
        assert self.dtype.name in MULTIPLIED[self.compute]
        assert types[2] == (1 if self.compute == 70 else 0)

    def run(
        self, addresses: tuple[int, int, int], alpha: float, bias: int, aux: int, workspace: int, stream: int
    ) -> None:
        assert workspace
        wide = []
        for operand, address in zip(self.operands, addresses[:2], strict=True):
            assert address % operand.alignment == 0, "an operand is less aligned than the one that was planned for"
            tell().used_at(address, writes=False)
            x = _columns(address, self.dtype, operand.rows, operand.columns, operand.leading, 1, 0)[0]
            wide.append((x.T if operand.transposed else x).astype(self.wide))
        rounded = [_tensor_float(x) if self.compute == 77 else x for x in wide]
        inner = np.asarray(alpha, self.wide) * (rounded[0] @ rounded[1])
        m, n = inner.shape
        of_bias = _columns(bias, self.dtype, m, 1, m, 1, 0)[0]
        assert bias % 16 == 0
        if "BIAS" in self.epilogue:
            inner = inner + of_bias.astype(self.wide)
        if self.leading_of_aux:
            assert aux
            assert self.leading_of_aux % 8 == 0
            _columns(aux, self.dtype, m, n, self.leading_of_aux, 1, 0)[0][...] = inner
        if self.epilogue == "BGRADA":
            of_bias[...] = wide[0].sum(1, keepdims=True)
        activation = {"RELU": lambda x: np.maximum(x, 0), "GELU": gelu}.get(self.epilogue[:4], lambda x: x)
        tell().used_at(addresses[2], writes=True)
        _columns(addresses[2], self.dtype, m, n, m, 1, 0)[0][...] = activation(inner)
        CALLS["run", self.epilogue] += 1


class FakeLibrary(FakeBindings):
    """The functions; `refused` are the epilogues for which there is no algorithm."""

    LT = 9

    def __init__(self, refused: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.refused = refused

    def create_lt(self) -> int:
        CALLS["handles"] += 1
        return self.LT

    def plan_lt(
        self,
        handle: int,
        epilogue: int,
        a: Operand,
        b: Operand,
        types: tuple[int, int, int],
        most_workspace: int,
        leading_of_aux: int = 0,
    ) -> FakePlan | None:
        assert handle == self.LT
        assert most_workspace >= WORKSPACE
        (name,) = (name for name, number in EPILOGUES.items() if number == epilogue)
        CALLS["planned"] += 1
        if name in self.refused:
            return None
        CALLS["compute", types[1]] += 1
        return FakePlan(name, a, b, types, leading_of_aux)
