"""What nodes of every operation save, against PyTorch: writes in place, second backwards, hooks, attributes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradcore as gc
from gradcore.ops.declare.table import OPS, Op
from tests.ops.cases import Drawn, cases

torch = pytest.importorskip("torch")
from tests.oracle.test_dtypes_of_ops_torch import Theirs, their_function, walk  # noqa: E402

pytestmark = pytest.mark.oracle

OPERATIONS = [op for op in OPS.values() if (op.function or op.method) and not op.random and their_function(op)]

#: Operations whose backward needs something that PyTorch's does not need, or needs later.
NEEDS_MORE = {
    "Inputs where PyTorch keeps copies that it has reshaped, scaled or added to.": {
        "einsum", "kron", "matmul", "ndtr", "scaled_dot_product_attention", "tensordot",
    },
    "Inputs: signs of sizes are lost in the result that PyTorch keeps.": {"polar"},
    "Factors, where PyTorch multiplies by numbers or has a node of its own.": {
        "affine_grid", "cumulative_trapezoid", "gradient", "trapezoid",
    },
}  # fmt: skip


class Recorded(NamedTuple):
    """A call that was recorded: leaves, copies of them, which were the arguments, and the results."""

    leaves: list[Any]
    inputs: list[Any]
    outputs: list[Any]


def record(library: Any, case: Any, arrays: list[Any], differentiable: list[int]) -> Recorded:
    leaves, inputs, arguments = [], [], []
    for i, array in enumerate(arrays):
        t = library.tensor(np.array(array))
        if i in differentiable:
            leaves.append(t.requires_grad_())
            t = t.clone()
            inputs.append(t)
        arguments.append(t)
    outputs = [t for t in walk(case.call(arguments), library.Tensor) if t.requires_grad]
    return Recorded(leaves, inputs, outputs)


#: What is said where something is refused.
REFUSALS = (
    "modified by an inplace operation",
    "backward through the graph a second time",
    "This view is the output of a function that returns multiple views",
    "more than one element of the written-to tensor refers to a single memory location",
)


def outcome(function: Callable[[], None]) -> str:
    try:
        function()
    except RuntimeError as error:
        return next((refusal for refusal in REFUSALS if refusal in str(error)), f"failed: {error}")
    return "done"


def backward(library: Any, call: Recorded) -> str:
    return outcome(lambda: library.autograd.backward(call.outputs, [library.ones_like(t) for t in call.outputs]))


def gradients(call: Recorded) -> list[Any]:
    return [None if t.grad is None else np.array(t.grad.resolve_conj().tolist()) for t in call.leaves]


def backward_after_write(library: Any, call: Recorded, which: tuple[str, int]) -> str:
    targets = getattr(call, which[0])
    if which[1] >= len(targets):
        return "done"
    with library.no_grad():
        said = outcome(lambda: targets[which[1]].mul_(2))
    return said if said != "done" else backward(library, call)


def libraries(op: Op, case: Drawn) -> list[tuple[Any, Callable[[], Recorded]]]:
    theirs = case._replace(op=Theirs(op))  # type: ignore[arg-type]
    drawn = case.arrays(), case.differentiable()
    return [(gc, lambda: record(gc, case, *drawn)), (torch, lambda: record(torch, theirs, *drawn))]


def comparable(op: Op) -> list[tuple[Drawn, Any, Any]]:
    """Return the cases that both libraries record and differentiate."""
    found = []
    for case in cases(op):
        (_, ours), (_, theirs) = libraries(op, case)
        try:
            call = theirs()
            if call.outputs and backward(torch, call) == "done":
                found.append((case, ours, theirs))
        except (RuntimeError, TypeError, IndexError, AttributeError, ValueError):
            continue
    return found


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


WRITES = [("outputs", i) for i in range(3)] + [("inputs", i) for i in range(3)]


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_writes_and_second_backwards(op: Op) -> None:
    """What PyTorch allows is allowed and has the same gradient; what it refuses is refused, or does no harm."""
    stricter = any(op.name in names for names in NEEDS_MORE.values())
    for case, ours, theirs in comparable(op):
        plain = ours()
        assert backward(gc, plain) == "done"
        expected = gradients(plain)
        for write in WRITES:
            call = ours()
            said, other = backward_after_write(gc, call, write), backward_after_write(torch, theirs(), write)
            if said == "done":
                if write[1] >= len(getattr(call, write[0])):
                    continue
                for a, b in zip(gradients(call), expected, strict=True):
                    np.testing.assert_array_equal(a, b, err_msg=f"{case.label} {write}")
            elif said != other:
                assert stricter, f"{case.label}: after a write to {write} only gradcore says {said!r}"
        call, other_call = ours(), theirs()
        backward(gc, call), backward(torch, other_call)
        said, other = backward(gc, call), backward(torch, other_call)
        assert said == "done" or said == other or stricter, f"{case.label}: backward twice: {said}"


#: Operations that are made of others, and not of those that PyTorch makes them of.
MADE_OTHERWISE = """
    adaptive_avg_pool1d adaptive_max_pool1d adaptive_max_pool1d_with_indices addmm_activation affine_grid avg_pool1d
    cdist chain_matmul
    combinations cross_entropy ctc_loss cumulative_trapezoid dist einsum embedding_bag fft_fft2 fft_fftn
    fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices
    grid_sample imag inner istft kron linalg_cond linalg_matrix_norm linalg_matrix_power linalg_multi_dot linalg_norm
    linalg_tensorinv linear lp_pool1d lp_pool2d lp_pool3d masked_var matmul matrix_power max_pool1d
    max_pool1d_with_indices max_unpool1d meshgrid multi_head_attention_forward multi_margin_loss
    multilabel_margin_loss multilabel_soft_margin_loss nanquantile narrow_copy ndtr nuclear_norm ormqr outer pad
    pairwise_distance pdist quantile real rms_norm scaled_dot_product_attention stft sum_to_size svd tensordot
    trapezoid triangular_solve vander
"""

#: What nodes show here and not in PyTorch: inputs and results that backward computes with instead of theirs.
SHOWN_HERE_ALONE = """
    CopyBackwards.src_sym_sizes IndexAddBackward0.source_sym_sizes IndexCopyBackward0.source_sym_sizes
    NativeBatchNormBackward0.mean
    NativeBatchNormBackward0.var NativeGroupNormBackward0.mean NativeGroupNormBackward0.var
    NativeLayerNormBackward0.eps NativeLayerNormBackward0.ndims NativeLayerNormBackward0.var PolarBackward0.abs
    PolarBackward0.angle PutBackward0.source_sym_sizes
"""


#: The node of an output that is constant in PyTorch: singular values.
DIFFERENTIABLE_HERE_ALONE = {"linalg_lstsq": "CloneBackward0"}


def attributes(node: Any) -> set[str]:
    return {name.removeprefix("_saved_") for name in dir(node) if name.startswith("_saved_")}


@pytest.mark.parametrize(
    "op", [op for op in OPERATIONS if op.name not in MADE_OTHERWISE.split()], ids=lambda op: op.name
)
def test_nodes(op: Op) -> None:
    """Names, edges, and what nodes show of what they saved."""
    for case, ours, theirs in comparable(op):
        nodes, others = ([t.grad_fn for t in call.outputs] for call in (ours(), theirs()))
        nodes = [node for node in nodes if node.name() != DIFFERENTIABLE_HERE_ALONE.get(op.name)]
        assert [node.name() for node in nodes] == [node.name() for node in others], case.label
        for node, other in zip(nodes, others, strict=True):
            ends = [[following is not None for following, _ in n.next_functions] for n in (node, other)]
            assert ends[0] == ends[1], case.label
            more = attributes(node) - attributes(other)
            sizes = {f"{name}_sym_sizes" for name in attributes(other)}  # of what PyTorch keeps whole
            assert {f"{node.name()}.{name}" for name in more - sizes} <= {*SHOWN_HERE_ALONE.split()}, case.label


def shown(node: Any, name: str) -> Any:
    """Return a saved value, or the shape of a tensor, with negative numbers as PyTorch represents them."""
    value = getattr(node, f"_saved_{name}", "missing")
    if isinstance(value, (gc.Tensor, torch.Tensor)):
        return tuple(value.shape)
    if isinstance(value, (tuple, list)):
        return tuple(v % 2**64 if type(v) is int else v for v in value if not hasattr(v, "shape"))
    return value % 2**64 if type(value) is int else value


def test_most_of_what_pytorch_shows_is_shown() -> None:
    counts = [0, 0]
    for op in OPERATIONS:
        if op.name not in MADE_OTHERWISE.split():
            for _, ours, theirs in comparable(op)[:1]:
                node, other = (call().outputs[0].grad_fn for call in (ours, theirs))
                for name in attributes(other):
                    counts[shown(node, name) == shown(other, name)] += 1
    assert counts[True] > 6 * counts[False] > 0
