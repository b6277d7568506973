"""Every elementwise operation as a generated kernel: forward and derivatives, executed on the host.

The CUDA source that a GPU would get is compiled by g++ (see `tests/cuda/host.py`) and compared with the plain formula
on NumPy arrays. Kernels of all operations and dtypes are compiled together.
"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.base import Backend
from gradcore.backends.cupy.backend import CupyBackend
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.core import dtypes
from gradcore.ops.declare.promotion import RULES
from gradcore.ops.declare.samples import Floats, Ints
from gradcore.ops.declare.table import OPS, Op
from tests.cuda.host import Batch, cupy_include, needs_compiler

PLAIN = NumpyBackend()
ELEMENTWISE = [op for op in OPS.values() if op.kind == "elementwise"]
FLOATS = ["float32", "float64", "float16", "bfloat16", "complex64", "complex128"]
INTEGERS = ["bool", "uint8", "int8", "int16", "int32", "int64"]

#: Functions without a counterpart in CUDA or in `elementwise.cuh`: CuPy has kernels for them, and formulas with them
#: run one kernel after another.
NOT_IN_CUDA = {"airy_ai", "i0e", "i1e", "igamma", "igammac", "modified_bessel_k0", "modified_bessel_k1", "polygamma",
               "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "zeta"}  # fmt: skip

#: Operations whose number of steps depends on the data.
DATA_DEPENDENT = {op.name for op in ELEMENTWISE if op.module.endswith("polynomials")}

SHAPE = (2, 3, 4)
#: By the size of a number in bytes; complex numbers as their parts.
TOLERANCES = {2: 1e-2, 4: 1e-5, 8: 1e-12}


class Case:
    """A call of an operation in a dtype: operands, settings, and what the plain formulas make of them."""

    def __init__(self, op: Op, name: str, settings: dict[str, Any], layout: str = "dense") -> None:
        self.op, self.dtype, self.settings, self.layout = op, getattr(gc, name), settings, layout
        rng = np.random.default_rng(sum(map(ord, op.name + name)))
        self.args = []
        for i, p in enumerate(op.parameters):
            if i in op.tensors:
                kind = dtypes.bool_ if i in op.keeps_dtype else self.dtype
                self.args.append(_laid_out(_drawn(rng, kind, *op.domain), layout, i))
            else:
                self.args.append(settings.get(p.name, p.default))
        tensors = [SimpleNamespace(_dtype=dtypes.from_numpy(a.dtype), _array=a, _device=gc.device("cpu"))
                   for i, a in enumerate(self.args) if i in op.tensors]  # fmt: skip
        full = [None] * len(self.args)
        for i, a in enumerate(self.args):
            full[i] = tensors[op.tensors.index(i)] if i in op.tensors else a
        compute, self.result = RULES[op.promotion](op, tensors, [], tuple(full))
        self.compute = dtypes.float32 if compute.is_reduced else compute
        self.differentiable = bool(op.differentials or op.vjps) and (self.result or self.compute).category > 1
        self.label = f"{op.name} {name} {layout} {settings}"

    @property
    def conversions(self) -> list[Any]:
        op = self.op
        return [
            self.compute.numpy if i in op.tensors and i not in op.keeps_dtype else None for i in range(len(self.args))
        ]

    def computed(self) -> list[Any]:
        """Return the arguments in the dtype of the computation."""
        return [a if to is None else PLAIN.astype(a, to) for a, to in zip(self.args, self.conversions, strict=True)]

    def expected(self) -> Any:
        result = PLAIN.kernels[self.op.kernel](*self.computed())
        return np.asarray(result) if self.result is None else PLAIN.astype(np.asarray(result), self.result.numpy)

    def fused(self, backend: Any, args: list[Any] | None = None) -> Any:
        """Return the result of the kernel for the case's arguments, or for `args`."""
        stored = None if self.result is None else self.result.numpy
        return backend.fused_forward(self.op.kernel, self.args if args is None else args, self.conversions, stored)

    # -- derivatives

    def values(self) -> tuple[Any, dict[str, Any]]:
        """Return the upstream gradient and the values that the formulas read, in the dtypes of a recorded call."""
        op = self.op
        result = PLAIN.astype(self.expected(), (self.result or self.compute).numpy)
        known = dict(zip(op.names, self._as_recorded(), strict=True)) | {"result": result}
        formulas = op.vjps or op.differentials
        rng = np.random.default_rng(1)
        grad = _drawn(rng, dtypes.from_numpy(result.dtype), -1, 1, result.shape)
        return grad, {n: known[n] for f in formulas.values() for n in f.names}

    def _as_recorded(self) -> list[Any]:
        compute = self.dtype if self.dtype.is_reduced else self.compute
        return [a if to is None else PLAIN.astype(a, compute.numpy)
                for a, to in zip(self.args, self.conversions, strict=True)]  # fmt: skip

    def expected_gradients(self) -> list[Any]:
        op = self.op
        grad, values = self.values()
        grad, values = _upcast(grad), {n: _upcast(v) for n, v in values.items()}
        found = []
        for formula in (op.vjps or op.differentials).values():
            read = [values[n] for n in formula.names]
            if op.vjps:
                piece = formula.function(PLAIN, grad, *read)
            else:
                piece = PLAIN.conj(formula.function(PLAIN, PLAIN.conj(grad), *read))
            found.append(PLAIN.astype(np.asarray(piece), self._stored()))
        return found

    def _stored(self) -> Any:
        return (self.dtype if self.dtype.is_reduced else self.compute).numpy

    def fused_gradients(self, backend: Any, read: tuple[Any, dict[str, Any]] | None = None) -> Any:
        """Return the gradients by the kernel for the values that `values` returns."""
        grad, values = self.values() if read is None else read
        formulas = list((self.op.vjps or self.op.differentials).values())
        stored = [self._stored()] * len(formulas)
        return backend.fused_gradients(self.op.name, formulas, grad, values, not self.op.vjps, stored)


def _upcast(value: Any) -> Any:
    if isinstance(value, np.ndarray) and dtypes.from_numpy(value.dtype).is_reduced:
        return value.astype(np.float32)
    return value


def _drawn(rng: Any, dtype: Any, low: float, high: float, shape: tuple[int, ...] = SHAPE) -> Any:
    if dtype is dtypes.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.category == dtypes.INTEGER:
        values = rng.integers(1, 5, shape)  # no zeros, by which integers cannot be divided
        signs = 1 if low > 0 or dtype is dtypes.uint8 else rng.choice([-1, 1], shape)
        return (values * signs).astype(dtype.numpy)
    values = rng.uniform(low, high, shape)
    if dtype.is_complex:
        values = values + 1j * rng.uniform(low, high, shape)
    return values.astype(dtype.numpy)


def _laid_out(array: Any, layout: str, place: int) -> Any:
    """Operands that differ in their layouts: transposed, of fewer dims, in steps, backwards, of one element."""
    if layout == "dense":
        return array
    turned = np.ascontiguousarray(array.transpose(2, 0, 1)).transpose(1, 2, 0)
    return [turned[:, ::-1], array[0, :, :1], np.repeat(array, 2, 0)[::2]][place % 3]


def _settings(op: Op) -> list[dict[str, Any]]:
    """Return the distinct settings of the samples, with ones where no sample has a required setting."""
    plain = [i for i in range(len(op.parameters)) if i not in op.tensors]
    if not plain:
        return [{}]
    found: list[dict[str, Any]] = []
    for case in op.samples() if op.samples else ():
        given = {op.names[i]: a for i, a in enumerate(case.args) if not isinstance(a, (Floats, Ints))} | case.settings
        given = {n: v for n, v in given.items() if op.position[n] in plain}
        if given not in found:
            found.append(given)
    required = [op.names[i] for i in plain if op.parameters[i].default is op.parameters[i].empty]
    return [given for given in found if all(n in given for n in required)] or [dict.fromkeys(required, 1)]


def _cases(names: list[str], layout: str = "dense") -> list[Case]:
    found = []
    for op in ELEMENTWISE:
        for settings in _settings(op):
            for name in names:
                try:
                    found.append(Case(op, name, settings, layout))
                except (NotImplementedError, RuntimeError):
                    continue  # the operation refuses the dtype
    return found


CASES = [*_cases(FLOATS + INTEGERS), *_cases(["float32", "complex64"], "strided")]
UNKNOWN = {"igamma", "igammac", "zeta"}  # some of their derivatives are known to nobody


class HostBackend(CupyBackend):
    """The CUDA backend on NumPy arrays, with generated kernels that are compiled together for the host."""

    def __init__(self) -> None:
        Backend.__init__(self, SimpleNamespace(empty=np.empty), np.ndarray)
        self.batch = Batch()

    def compile_kernel(self, source: str, name: str) -> Any:
        return self.batch.compile(source, name)

    def address(self, x: Any) -> int:
        return int(x.ctypes.data)


def _wanted(request: pytest.FixtureRequest) -> set[str]:
    """Return the operations whose kernels the selected tests launch, so that only these are compiled."""
    chosen = [item for item in request.session.items if getattr(item, "module", None) is request.module]
    if any(item.name == "test_how_many" for item in chosen):
        return {op.name for op in ELEMENTWISE}
    return {item.callspec.params["op"].name for item in chosen if isinstance(item, pytest.Function)}


@pytest.fixture(scope="module")
def backend(request: pytest.FixtureRequest) -> HostBackend:
    """Every case once, to collect the kernels; then they are compiled."""
    needs_compiler()
    pytest.importorskip("ml_dtypes")
    if cupy_include() is None:
        pytest.skip("CuPy, which has the complex numbers of CUDA sources, is not installed")
    backend, wanted = HostBackend(), _wanted(request)
    with np.errstate(all="ignore"):
        for case in CASES:
            if case.op.name not in wanted:
                continue
            case.fused(backend)
            if case.differentiable and case.op.name not in UNKNOWN:
                case.fused_gradients(backend)
    backend.batch.build()
    return backend


def compare(found: Any, expected: Any, label: str) -> None:
    assert found.dtype == expected.dtype, label
    assert found.shape == expected.shape, label
    tolerance = TOLERANCES.get(found.real.dtype.itemsize, 0) if dtypes.from_numpy(found.dtype).category > 1 else 0
    if dtypes.from_numpy(found.dtype).is_reduced:
        found, expected = found.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=label)


def _of(op: Op) -> list[Case]:
    return [case for case in CASES if case.op is op]


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_forward(backend: HostBackend, op: Op) -> None:
    compared = 0
    with np.errstate(all="ignore"):
        for case in _of(op):
            found = case.fused(backend)
            if found is not None:
                compare(found, case.expected(), case.label)
                compared += 1
    several = sum(
        any(to is not None and to != a.dtype for a, to in zip(c.args, c.conversions, strict=True) if to)
        for c in _of(op)
    )
    if op.name not in NOT_IN_CUDA | DATA_DEPENDENT:
        assert compared >= several  # where something is converted, there is something to fuse


@pytest.mark.parametrize("op", [op for op in ELEMENTWISE if op.differentials or op.vjps], ids=lambda op: op.name)
def test_derivatives(backend: HostBackend, op: Op) -> None:
    if op.name in UNKNOWN:
        pytest.skip("not all of its derivatives are known")
    compared = 0
    with np.errstate(all="ignore"):
        for case in _of(op):
            found = case.fused_gradients(backend) if case.differentiable else None
            if found is not None:
                for piece, expected in zip(found, case.expected_gradients(), strict=True):
                    compare(piece, expected, case.label)
                compared += 1
    assert compared or op.name in ONE_STEP | {"i0e", "i1e", "digamma", "polygamma"}


#: Operations whose derivative is one step at most: the upstream gradient, or zeros, or one function of CuPy's.
ONE_STEP = {"add", "frac", "floor", "ceil", "trunc", "round", "sign"}


def test_how_many(backend: HostBackend) -> None:
    """Most operations in most dtypes are fused; each kernel is compiled once."""
    assert len(backend.batch.sources) > 1300
    assert len(set(backend.batch.sources.values())) == len(backend.batch.sources)
    launched = Counter(backend.fusion.counts)["launched"]
    assert launched >= len(backend.batch.sources)
