"""Which dtypes every operation takes, and what it makes of them, against PyTorch."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradcore as gc
from gradcore.core import dtypes
from gradcore.ops.declare.table import OPS, Op
from tests.ops.cases import Drawn, cases

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

#: Precision of the results; double precision is that of PyTorch's special functions.
PRECISION = {"float16": 8e-3, "bfloat16": 6e-2, "float32": 1e-5, "complex64": 1e-5}
DOUBLE = 2e-8
INTEGERS = {"uint8", "int8", "int16", "int32", "int64"}
UNSIGNED = {"uint16", "uint32", "uint64"}

DTYPES = list(dtypes.DTYPES.values())

#: What PyTorch takes and gradcore refuses: names of cases by reason, and the dtypes.
REFUSED: dict[str, tuple[set[str], set[str]]] = {
    "integers times a fraction, which PyTorch cuts off to 0": (
        {"addmm-1", "baddbmm-1", "addbmm-1", "addmv-1", "addmm_activation-2"},
        INTEGERS,
    ),
    "there is no complex32": ({"view_as_complex"}, {"float16"}),
    "complex numbers have no order; PyTorch does not look at a single one": (
        {"cummax-2", "cummin-2"},
        {"complex64", "complex128"},
    ),
    "matrices of bools; PyTorch does not look at empty ones": ({"mm", "bmm", "mv"}, {"bool"}),
    "matrices of integers; PyTorch does not look at empty ones": (
        {"cholesky-2", "linalg_eigh-2", "linalg_eigvalsh-2"},
        {"bool"} | INTEGERS | UNSIGNED,
    ),
    "complex numbers have no order; PyTorch does not look at empty or single ones": (
        {"bincount-1", "masked_median", "kthvalue-2", "mode-2", "adaptive_avg_pool1d-2"},
        {"complex64", "complex128"},
    ),
    "bools have no bounds; PyTorch does not ask for those of all": (
        {"masked_amax-0", "masked_amin-0", "masked_logsumexp-0", "kthvalue-2"},
        {"bool"},
    ),
    "powers are of int64, to which these integers are not promoted": ({"linalg_vander"}, UNSIGNED),
}
#: What gradcore alone computes for complex numbers: operations that are linear, that only move elements, and products.
COMPLEX = {
    "grid_sample", "max_unpool1d", "max_unpool2d", "max_unpool3d", "interpolate", "upsample", "upsample_bilinear",
    "upsample_nearest", "nll_loss", "convolution", "istft", "index_reduce",
}  # fmt: skip
#: Other dtypes than PyTorch's, ours and theirs.
OTHER = {
    ("complex", "float16"): (["complex64"], ["complex32"]),
    ("local_response_norm", "int64"): (["float64"], ["float32"]),
    **{("bilinear", name): (["int64"], [name]) for name in ("uint8", "int8", "int16", "int32")},  # PyTorch's overflow
    **{("hinge_embedding_loss-1", name): (["float32"], ["int64"]) for name in INTEGERS},  # PyTorch cuts margins off
    **{("hinge_embedding_loss-2", name): (["float32"], [name]) for name in INTEGERS},
    **{("masked_logsumexp", name): (["float32"], [name]) for name in INTEGERS | UNSIGNED},  # and the logarithms
}
#: Operations whose values are not compared for some dtypes, by reason.
OTHER_VALUES: dict[str, tuple[set[str], set[str]]] = {
    "the indices of equal elements are not specified": (
        {"topk", "median", "kthvalue"},
        INTEGERS | {"bfloat16", "float16"},
    ),
    "vectors are only determined up to their signs": ({"linalg_eigh", "linalg_svd"}, {d.name for d in DTYPES}),
    "the triangle of a matrix of bools is singular but for rounding": ({"cholesky", "linalg_cholesky"}, {"bool"}),
    "PyTorch's powers overflow": ({"matrix_exp", "linalg_matrix_exp"}, {"float16", "bfloat16"}),
    "an element lies on the border of two bins": ({"histc"}, {"bfloat16"}),
    "PyTorch cuts off means of integers": ({"lp_pool1d", "lp_pool2d", "lp_pool3d"}, {"int64"}),
    "PyTorch rounds bytes before the norm": ({"triplet_margin_loss"}, {"uint8"}),
}


def their_addmm_activation(*args: Any, use_gelu: bool = False, **factors: Any) -> Any:
    """PyTorch's function, whose GELU is the one by tanh on CUDA alone: on the CPU, composed."""
    if not use_gelu:
        return torch._addmm_activation(*args, **factors)
    return torch.nn.functional.gelu(torch.addmm(*args, **factors), approximate="tanh")


def their_function(op: Op) -> Callable[..., Any] | None:
    """PyTorch's function of that path, or its method."""
    if op.name == "addmm_activation":
        return their_addmm_activation
    if op.function:
        home: Any = torch
        for part in op.path.split("."):
            home = getattr(home, part, None)
        if home is not None:
            return home  # type: ignore[no-any-return]
    name = op.method if isinstance(op.method, str) else op.path.rpartition(".")[2]
    return getattr(torch.Tensor, name, None)


OPERATIONS = [op for op in OPS.values() if (op.function or op.method) and not op.random and their_function(op)]


class Outcome(NamedTuple):
    """What a call gives: dtypes and values, or an error."""

    dtypes: list[str] | None
    values: list[Any]
    error: str = ""


def numbers(array: Any, dtype: dtypes.dtype) -> Any:
    """Convert the drawn numbers to a dtype."""
    if array.dtype.kind not in "fc":
        return np.array(array)
    if not dtype.is_complex:
        array = array.real
    if dtype.category < 2:
        array = np.trunc(3 * array)
    return np.array(array if dtype.is_signed else abs(array))


def walk(value: Any, tensor: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in walk(v, tensor)]
    return [value] if isinstance(value, tensor) else []


def outcome(function: Callable[[], Any], tensor: Any) -> Outcome:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = walk(function(), tensor)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            return Outcome(None, [], f"{type(error).__name__}: {error}")
    return Outcome([str(t.dtype).rpartition(".")[2] for t in found], [widened(t) for t in found])


def widened(t: Any) -> Any:
    """On the host, as the widest dtype of its kind."""
    wide = "complex128" if t.is_complex() else "float64" if t.is_floating_point() else "int64"
    t = t.detach().to(dtype=getattr(torch if isinstance(t, torch.Tensor) else gc, wide))
    return t.resolve_conj().resolve_neg().numpy()


def outcomes(case: Drawn, dtype: dtypes.dtype) -> tuple[Outcome, Outcome]:
    """Ours and theirs, where the floating-point arguments of a case have this dtype."""
    kinds = [dtype if a.dtype.kind in "fc" else None for a in case.arrays()]
    arrays = [numbers(a, dtype) for a in case.arrays()]
    ours = [gc.tensor(a, dtype=kind) for a, kind in zip(arrays, kinds, strict=True)]
    theirs = [
        torch.tensor(a) if kind is None else torch.tensor(a).to(getattr(torch, kind.name))
        for a, kind in zip(arrays, kinds, strict=True)
    ]
    other = case._replace(op=Theirs(case.op))  # type: ignore[arg-type]
    return outcome(lambda: case.call(ours), gc.Tensor), outcome(lambda: other.call(theirs), torch.Tensor)


class Theirs:
    """PyTorch's function in the place of an operation."""

    def __init__(self, op: Op) -> None:
        self.op = op

    def call(self, *args: Any, **settings: Any) -> Any:
        if self.op.varargs and isinstance(args[0], tuple):
            args = (*args[0], *args[1:])
        function = their_function(self.op)
        assert function is not None
        return function(*args, **settings)


def representatives(op: Op) -> list[Drawn]:
    """Three cases, real ones first: how dtypes are treated does not depend on what further ones vary."""
    return sorted(cases(op), key=lambda case: any(np.iscomplexobj(a) for a in case.arrays()))[:3]


def refused(case: Drawn, dtype: str) -> bool:
    return any({case.label, case.op.name} & names and dtype in kinds for names, kinds in REFUSED.values())


def agree(case: Drawn, dtype: str, ours: Outcome, theirs: Outcome) -> None:
    """Either both refuse, or both give the same.

    What only gradcore computes is more than PyTorch has a kernel for. For complex numbers, these operations are listed:
    an order, or a square that is no square of an absolute value, would give numbers without a meaning.
    """
    if theirs.dtypes is None:
        is_more = ours.dtypes is not None and dtype.startswith("complex") and not theirs.error.startswith("TypeError")
        assert not is_more or case.op.name in COMPLEX, f"{dtype}: only PyTorch refuses: {theirs.error}"
        return
    if ours.dtypes is None:
        assert refused(case, dtype), f"{dtype}: only gradcore refuses: {ours.error}"
        return
    if ours.dtypes != theirs.dtypes:
        known = OTHER.get((case.label, dtype), OTHER.get((case.op.name, dtype)))
        assert known == (ours.dtypes, theirs.dtypes), dtype
        return
    if any(case.op.name.removesuffix("_ex") in names and dtype in kinds for names, kinds in OTHER_VALUES.values()):
        return
    for name, a, b in zip(ours.dtypes, ours.values, theirs.values, strict=True):
        tolerance = PRECISION.get(name, DOUBLE)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=dtype)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for op in OPERATIONS for c in representatives(op)])
def test_dtypes(case: Drawn) -> None:
    for dtype in DTYPES:
        agree(case, dtype.name, *outcomes(case, dtype))


def test_pytorch_takes_most_of_what_gradcore_takes() -> None:
    """The comparison does not pass because nothing can be called."""
    counts = [0, 0]
    for op in OPERATIONS:
        for dtype in DTYPES:
            ours, theirs = outcomes(representatives(op)[0], dtype)
            if ours.dtypes is not None:
                counts[theirs.dtypes is None] += 1
    assert counts[0] > 4 * counts[1]


# -- tensors of different dtypes --------------------------------------------------------------------------------------

PAIRS = [
    (a, b)
    for a, b in itertools.permutations(["bool", "int64", "float16", "bfloat16", "float32", "float64", "complex64"], 2)
]
#: What only gradcore refuses, by reason; PyTorch reads one operand's memory as the other's dtype, or drops a part.
STRICTER = {
    "linalg_solve_triangular", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "masked_fill", "lerp",
    "masked_logaddexp", "instance_norm", "addr", "margin_ranking_loss", "convolution", "multi_margin_loss",
}  # fmt: skip
#: What PyTorch has no kernel for, or does not compute for these dtypes.
NO_KERNEL = r"not implemented for|[Cc]omplex|[Bb]ool|[Ii]nteg|MKL|iinfo|expected Tensor as element|same dtype"


def mixed_cases() -> list[Drawn]:
    """Return calls with several floating-point tensors, one per operation and kinds of arguments."""
    chosen: dict[Any, Drawn] = {}
    for op in OPERATIONS:
        for case in cases(op):
            kinds = tuple(a.dtype.kind for a in case.arrays())
            if sum(kind in "fc" for kind in kinds) > 1 and op.name not in ("block_diag", "broadcast_tensors"):
                chosen.setdefault((op.name, kinds, len(case.settings)), case)
    return list(chosen.values())


@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in mixed_cases()])
def test_mixed_dtypes(case: Drawn) -> None:
    """Results have PyTorch's dtype; what it refuses for the dtypes being different is refused."""
    arrays = case.arrays()
    floating = [i for i, a in enumerate(arrays) if a.dtype.kind in "fc"]
    other = case._replace(op=Theirs(case.op))  # type: ignore[arg-type]
    for (most, odd), place in itertools.product(PAIRS, floating[:3]):
        names = [odd if i == place else most if i in floating else None for i in range(len(arrays))]
        values = [a if n is None else numbers(a, dtypes.DTYPES[n]) for a, n in zip(arrays, names, strict=True)]
        given = [gc.tensor(v, dtype=n and getattr(gc, n)) for v, n in zip(values, names, strict=True)]
        theirs = [torch.tensor(v).to(n and getattr(torch, n)) for v, n in zip(values, names, strict=True)]
        ours = outcome(lambda given=given: case.call(given), gc.Tensor)  # type: ignore[misc]
        expected = outcome(lambda theirs=theirs: other.call(theirs), torch.Tensor)  # type: ignore[misc]
        if expected.dtypes is None:
            assert ours.dtypes is None or re.search(NO_KERNEL, expected.error), (names, expected.error)
        elif ours.dtypes is None:
            assert case.op.name in STRICTER or "complex64" in (most, odd), (names, ours.error)
        elif "complex32" not in expected.dtypes:
            assert ours.dtypes == expected.dtypes, names
