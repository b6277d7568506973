"""Every operation with operands of any dtype, with mixed ones, without elements and without dims."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.core import dtypes
from gradcore.nn import functional as F
from gradcore.ops.declare.table import OPS, Op
from tests.ops.cases import Drawn, cases

OPERATIONS = [op for op in OPS.values() if (op.function or op.method) and not op.random and cases(op)]
FLOATS = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
OTHERS = ["bool", "uint8", "int8", "int64", "uint16", "uint64", "float16", "bfloat16", "float32", "complex64"]
#: What an operation may say of operands that it does not take; `multi_head_attention_forward` asserts, as PyTorch's.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, AssertionError)
#: What Python and NumPy say, and nobody should hear.
INNER = ("ufunc", "numpy boolean", "zero-size array", "unsupported operand type", "object has no attribute")

#: Operations of several tensors that take any dtypes of them, by reason.
ANY_DTYPES = {
    "the kernel compares the dtypes, which are not converted before": """
        conv_input conv_output conv_weight diagonal_scatter fill_tensor fill_tensor_ index_add index_copy
        index_fill_tensor index_write masked_fill_tensor masked_scatter put scatter_src select_scatter slice_scatter
        strided_write copy copy_ same""",
    "their function has compared or converted them": """
        attention flash_attention batch_norm_given bce bce_with_logits class_ones class_pick class_spread class_totals
        class_weights drawn fused_rms_norm huber_loss_of is_in is_large log_gamma_drawn log_softmax_backward mse_loss_of
        native_batch_norm native_group_norm native_layer_norm nll pseudo_inverse scan search smooth_l1_loss_of
        soft_margin softmax_backward softmax_nll solved_again max_pool_chosen spline_sample spline_spread""",
    "the others are indices, masks or counts": """
        bincount embedding_rows embedding_sum gather gather_backward index_fill_number index_select lu_unpack
        masked_back masked_fill_number masked_first masked_select max_pool_gather max_pool_spread max_unpool
        permutation place scatter_value take""",
}


def numbers(array: Any, name: str) -> Any:
    """Convert the drawn numbers to a dtype, and return indices, masks and counts unchanged."""
    if array.dtype.kind not in "fc":
        return gc.tensor(np.asarray(array))
    dtype = dtypes.DTYPES[name]
    array = np.asarray(array) if dtype.is_complex else np.asarray(array).real
    array = np.trunc(3 * array) if dtype.category < 2 else array
    return gc.tensor(array if dtype.is_signed else abs(array), dtype=dtype)


def outcome(case: Drawn, tensors: list[Any]) -> list[Any] | None:
    """Return the results, or None if the call is refused with a proper error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return case.outputs(tensors)
        except REFUSALS as error:
            text = f"{type(error).__name__}: {error}"
            assert not any(inner in text for inner in INNER), text
            return None


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_every_dtype_is_taken_or_refused_in_words(op: Op) -> None:
    for case in cases(op)[:4]:
        for name in OTHERS:
            outcome(case, [numbers(a, name) for a in case.arrays()])


#: Operations whose results for integers are not those for numbers of float64, by reason.
OTHER_INTEGERS = {
    "a factor or a bound that the integers cannot have": {"scatter", "clamp"},
    "differences of unsigned integers wrap": {"l1_loss"},
    "means of integers are cut off": {"avg_pool2d", "avg_pool3d"},
    "images of bytes are rounded": {"upsample_bilinear"},
}


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_integers_give_the_integers_of_floats(op: Op) -> None:
    """A kernel that computes positions, counts or sums in a small dtype of its operands would give others."""
    if any(op.name in names for names in OTHER_INTEGERS.values()):
        return
    for case in cases(op):
        if case.settings.get("mode") in ("bilinear", "bicubic"):  # `interpolate` rounds bytes.
            continue
        arrays = [abs(np.trunc(3 * a.real)) % 4 if a.dtype.kind in "fc" else a for a in case.arrays()]
        kinds = [a.dtype.kind in "fc" for a in case.arrays()]
        results = {}
        for name in ("float64", "uint8", "int8", "int16", "int32", "int64"):
            dtype = dtypes.DTYPES[name]
            results[name] = outcome(
                case, [gc.tensor(a, dtype=dtype if k else None) for a, k in zip(arrays, kinds, strict=True)]
            )
        exact = results.pop("float64")
        for name, found in results.items():
            for ours, wanted in zip(found or (), exact or (), strict=False):
                if isinstance(ours, gc.Tensor) and ours.dtype.category == dtypes.INTEGER and not wanted.is_complex():
                    assert ours.shape == wanted.shape, (case.label, name)
                    whole = np.nan_to_num(wanted.double().numpy(), posinf=0, neginf=0).astype(np.int64)
                    finite = np.isfinite(wanted.double().numpy())
                    bits = min(8 * ours.element_size(), 62)  # They wrap, as in PyTorch.
                    difference = (ours.to(gc.int64).numpy() - whole)[finite] % 2**bits
                    assert not difference.any(), (case.label, name)


def gradients(case: Drawn, name: str) -> tuple[list[Any] | None, list[Any]]:
    """Return the dtypes of the results and of the gradients, with None for the results of a refused call."""
    tensors = [numbers(a, name) for a in case.arrays()]
    inputs = [t.requires_grad_() for t in tensors if t.is_floating_point()]
    results = outcome(case, tensors)
    if results is None:
        return None, []
    dtypes_of_results = [t.dtype for t in results if isinstance(t, gc.Tensor)]
    outputs = [t for t in results if isinstance(t, gc.Tensor) and t.requires_grad]
    if not outputs or not inputs:
        return dtypes_of_results, []
    try:
        grads = gc.autograd.grad(outputs, inputs, [gc.ones_like(t) for t in outputs], allow_unused=True)
    except (NotImplementedError, RuntimeError) as error:  # a derivative that does not exist, or is not unique
        return dtypes_of_results, [type(error)]
    return dtypes_of_results, [g is not None and g.dtype for g in grads]


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_halves_stay_halves(op: Op) -> None:
    """Compare dtypes of results and gradients of halves with those of float32: each float32 must be a half."""
    for case in cases(op):
        results, grads = gradients(case, "float32")
        for name in ("float16", "bfloat16"):
            found, found_grads = gradients(case, name)
            if results is None or found is None:
                continue
            half = dtypes.DTYPES[name]
            for wide, narrow in zip(results + grads, found + found_grads, strict=True):
                if isinstance(wide, type) or isinstance(narrow, type):  # halves can be singular where others are not
                    continue
                whole = op.name.startswith("fft_") or op.name in ("bincount", "stft")  # transforms are complex64
                assert wide is not dtypes.float32 or narrow is half or whole, (case.label, name)


def shapes(array: Any) -> list[tuple[int, ...]]:
    """Return shapes without elements or dims: that of the array with one dim of size 0, ``()`` and ``(0,)``."""
    dims = range(array.ndim)
    return [(), (0,), *(tuple(0 if i == d else n for i, n in enumerate(array.shape)) for d in dims)]


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_operands_without_elements_or_dims(op: Op) -> None:
    rng = np.random.default_rng(zlib.crc32(op.name.encode()))
    for case in cases(op)[:4]:
        arrays = case.arrays()
        for i, array in enumerate(arrays):
            for shape in shapes(array):
                changed = np.resize(np.asarray(array), shape) if 0 not in shape else np.zeros(shape, array.dtype)
                name = str(rng.choice(["float32", "float64", "int64", "bool", "complex64", "float16"]))
                outcome(case, [numbers(changed if k == i else a, name) for k, a in enumerate(arrays)])


# -- mixed dtypes -----------------------------------------------------------------------------------------------------


def several(op: Op) -> bool:
    """Whether an operation computes with several tensors together and does not promote them by a rule."""
    return op.kind not in ("elementwise", "composite") and len(set(op.tensors) - op.keeps_dtype) > 1


def test_what_becomes_of_mixed_dtypes_is_declared() -> None:
    known = {name for names in ANY_DTYPES.values() for name in names.split()}
    undeclared = [op.name for op in OPS.values() if several(op) and op.mixed is None and op.name not in known]
    assert not [name for name in undeclared if OPS[name].module.startswith("gradcore.ops")]
    assert len([op for op in OPS.values() if op.mixed is not None]) > 30


MIXED = [
    case
    for op in OPERATIONS
    for case in cases(op)[:6]
    if op.kind != "constant" and sum(a.dtype.kind in "fc" for a in case.arrays()) > 1
]
#: Whose results have the dtype of one operand (weights, masks and targets are converted), or each that of its own.
OF_ONE_OPERAND = """
    as_strided_scatter atleast_1d atleast_2d atleast_3d batch_norm binary_cross_entropy binary_cross_entropy_with_logits
    broadcast_tensors diagonal_scatter expand_as group_norm huber_loss layer_norm masked_logaddexp meshgrid reshape_as
    rms_norm scaled_dot_product_attention select_scatter slice_scatter soft_margin_loss type_as view_as
"""


@pytest.mark.parametrize("case", MIXED, ids=lambda case: case.label)
def test_no_digits_are_lost_with_mixed_dtypes(case: Drawn) -> None:
    """A result has at least the precision of the most precise operand, or the call is refused."""
    rng = np.random.default_rng(zlib.crc32(case.label.encode()))
    floating = [i for i, a in enumerate(case.arrays()) if a.dtype.kind in "fc"]
    for _ in range(12):
        first, second = rng.choice(FLOATS[:4], 2, replace=False)
        odd = rng.choice(floating)
        names = [str(second if i == odd else first) for i in range(len(case.arrays()))]
        tensors = [numbers(a, name) for a, name in zip(case.arrays(), names, strict=True)]
        outs = outcome(case, tensors)
        if outs is None or case.op.name in OF_ONE_OPERAND.split():
            continue
        together = [t.dtype for i, t in enumerate(tensors) if i in floating and t.ndim]
        if not together:
            continue
        common = together[0]
        for dtype in together[1:]:
            common = gc.promote_types(common, dtype)
        found = [t.dtype for t in outs if t.dtype.category > 1]
        assert all(gc.promote_types(d, common.to_real()).to_real() is d.to_real() for d in found), (names, found)


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op.contiguous], ids=lambda op: op.name)
def test_results_lie_in_order(op: Op) -> None:
    """Whatever the layout of the operands, so that `view` works and a flattened result is no copy."""
    if op.kind == "composite":
        return
    for case in cases(op)[:4]:
        for step in (1, 2):
            tensors = [gc.tensor(np.asarray(a)) for a in case.arrays()]
            tensors = [
                gc.stack([t] * step, -1)[..., 0] if step > 1 and t.ndim else t.transpose(0, -1).clone().transpose(0, -1)
                if t.ndim > 1 else t for t in tensors
            ]  # fmt: skip
            for out in outcome(case, tensors) or ():
                assert out.is_contiguous(), (case.label, step, out.stride())


# -- kernels that do not exist for a dtype ----------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_refuse_bools(n: int, transposed: bool, device: str) -> None:
    kernel = {(3, False): "compute_columns3d"}.get((n, transposed), f"slow_conv{'_transpose' * transposed}{max(n, 2)}d")
    function = getattr(gc.nn.functional, f"conv{'_transpose' * transposed}{n}d")
    settings = ((1,) * n, (0,) * n, (1,) * n, transposed, (0,) * n)
    calls = {
        "function": lambda x, w: function(x, w),
        "without a batch": lambda x, w: function(x[0], w),
        "operation": lambda x, w: gc.convolution(x, w, None, *settings),
        "batches": lambda x, w: gc.func.vmap(lambda each: function(each, w))(x[None]),
    }
    x, w = gc.ones(2, 2, *(3,) * n, device=device), gc.ones(2, 2, *(2,) * n, device=device)
    for name, call in calls.items():
        assert call(x.long(), w.long()).dtype is gc.int64, name
        with pytest.raises(NotImplementedError, match=rf"\"{kernel}.* not implemented for 'Bool'"):
            call(x.bool(), w.bool())


#: Operations that order numbers, or square them as if they were real.
OF_REAL_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "max_pool1d": lambda x: F.max_pool1d(x[0], 2),
    "max_pool2d": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "max_pool3d": lambda x: F.max_pool3d(x, 2),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x[0], 2),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 2),
    "adaptive_max_pool3d": lambda x: F.adaptive_max_pool3d(x, 2),
    "embedding_bag": lambda x: F.embedding_bag(gc.tensor([[0, 1]]), x[0, 0], mode="max"),
    "index_reduce": lambda x: x.index_reduce(0, gc.tensor([0]), x, "amax"),
    "scatter_reduce": lambda x: x.scatter_reduce(0, gc.zeros(1, 2, 4, 4, dtype=gc.int64), x, "amin"),
    "mse_loss": lambda x: F.mse_loss(x, x),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x),
    "huber_loss": lambda x: F.huber_loss(x, x),
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, x),
    "targets of binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x.real, x),
    "cross_entropy": lambda x: F.cross_entropy(x[0, 0], gc.tensor([0, 1, 2, 3])),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "local_response_norm": lambda x: F.local_response_norm(x, 2),
    "glu": lambda x: F.glu(x),
    "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "multi_head_attention_forward": lambda x: F.multi_head_attention_forward(
        *[x[0]] * 3, 4, 2, x.new_ones(12, 4), out_proj_weight=x[0, 0]
    ),
    "pdist": lambda x: F.pdist(x[0, 0]),
    "alpha_dropout": lambda x: F.alpha_dropout(x, training=True),
}


@pytest.mark.parametrize("name", OF_REAL_NUMBERS)
def test_operations_of_real_numbers_refuse_complex_ones(name: str) -> None:
    x = gc.rand(1, 2, 4, 4)
    OF_REAL_NUMBERS[name](x)
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
        OF_REAL_NUMBERS[name](x.to(gc.complex64))


def test_operations_refuse_integers_and_bools_that_would_cut_off_their_results() -> None:
    matrix, vector = gc.tensor([[4, 1], [2, 3]]), gc.tensor([1, 1])
    for call in (
        lambda: gc.geqrf(matrix),
        lambda: gc.linalg.householder_product(matrix, vector),
        lambda: gc.ormqr(matrix, vector, matrix),
    ):
        with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
            call()
    bools = matrix > 1
    for call in (
        lambda: gc.gradient(bools),
        lambda: bools.index_reduce(0, gc.tensor([0, 1]), bools, "mean"),
        lambda: bools.scatter_reduce(0, matrix % 2, bools, "mean"),
        lambda: gc.nn.functional.embedding_bag(gc.tensor([[0, 1]]), bools),
    ):
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            call()


def test_one_place_says_what_is_not_implemented() -> None:
    """Operations say it through `check_implemented`; kernels of products know of bools alone."""
    root = Path(gc.__file__).parent
    found = {str(p.relative_to(root)) for p in root.rglob("*.py") if "\" not implemented for '" in p.read_text()}
    assert {name for name in found if not name.startswith("backends/")} == {"ops/declare/checks.py"}
