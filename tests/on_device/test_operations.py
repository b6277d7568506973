"""Every operation as it is declared, on the device and on the CPU: in all dtypes, there and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from tests.on_device.comparing import TOLERANCES, agree, outcome
from tests.ops.cases import ALL, Drawn
from tests.ops.test_signs_of_zeros import NUMBERS, PAIRS, bounded, calls, shown

#: Results that are not one only: signs of vectors, or numbers that depend on how many were drawn.
UNLIKE = {name for name in {case.op.name for case in ALL} if "lowrank" in name} | {"linalg_eig", "linalg_svd", "svd"}
NAMES = sorted({case.op.name for case in ALL} - UNLIKE)
#: Functions of matrices that must not be singular, which those of whole numbers are.
OF_INVERTIBLE = {"matrix_log", "matrix_sqrt", "sylvester_solved"}
#: Operations that are not defined in dtypes: what was sorted is not where negative numbers wrap around, equal
#: eigenvalues have no eigenvectors of their own, and layers of whole numbers cannot be made.
UNDEFINED = {
    ("bucketize", "searchsorted"): {gc.uint8, gc.bool},
    ("linalg_eigh",): {gc.bool},
    ("gru_sequence", "lstm_sequence", "rnn_sequence"): {gc.int64, gc.int32, gc.int16, gc.uint8, gc.bool},
}
#: Operations that give an operand without dims some, which then has to be on the device, as in PyTorch.
RESHAPED = {"kron", "multi_margin_loss"}

#: In this order, and then in the opposite one: a kernel that was made for one kind of operands is not for the next.
DTYPES = (
    gc.float64, gc.float32, gc.float16, gc.bfloat16, gc.complex64, gc.int64, gc.int32, gc.int16, gc.uint8, gc.bool,
)  # fmt: skip
#: Of these the gradients as well.
DIFFERENTIABLE = set(TOLERANCES)


def inputs_of(case: Drawn, dtype: Any, strided: bool, device: str) -> list[Any]:
    """Return the operands, with floating-point ones in `dtype`. `strided` leaves gaps between their elements."""
    found = []
    for i, array in enumerate(case.arrays()):
        t = gc.tensor(np.asarray(array), device=device)
        if t.dtype.is_floating_point or (t.dtype.is_complex and dtype.is_complex):
            t = t.to(dtype)
        if strided and t.ndim:
            t = gc.stack([t, t], -1).select(-1, 1)
        variable = i in case.differentiable() and dtype in DIFFERENTIABLE and t.dtype in DIFFERENTIABLE
        found.append(t.detach().requires_grad_(variable))
    return found


def computed(case: Drawn, dtype: Any, strided: bool, device: str) -> list[Any]:
    """Results, and gradients by all operands."""
    inputs = inputs_of(case, dtype, strided, device)
    gc.manual_seed(0)
    outs = case.outputs(inputs)
    found, outs = list(outs), [o for o in outs if o.requires_grad]
    wanted = [t for t in inputs if t.requires_grad]
    if outs and wanted:
        found += gc.autograd.grad(outs, wanted, [gc.ones_like(o) for o in outs], allow_unused=True)
    return found


@pytest.mark.parametrize("name", sorted(set(NAMES) - OF_INVERTIBLE))
@pytest.mark.filterwarnings("ignore")
def test_dtypes_one_after_the_other(name: str) -> None:
    left_out = next((dtypes for names, dtypes in UNDEFINED.items() if name in names), set())
    for case in (case for case in ALL if case.op.name == name):
        for strided, dtypes in ((False, DTYPES), (True, DTYPES[::-1])):
            for dtype in (d for d in dtypes if d not in left_out):
                here, there = (outcome(computed, case, dtype, strided, d) for d in ("cpu", "cuda"))
                agree(there, here, f"{case.label}, {dtype}{', strided' if strided else ''}")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_second_derivatives_and_tangents(name: str) -> None:
    from tests.cuda.test_second_device import results

    for case in (case for case in ALL if case.op.name == name):
        here, there = (outcome(results, case, d) for d in ("cpu", "cuda"))
        agree(there, here, case.label)


@pytest.mark.parametrize("name", sorted(set(NAMES) - RESHAPED))
@pytest.mark.filterwarnings("ignore")
def test_numbers_of_the_cpu_among_tensors_of_the_device(name: str) -> None:
    """An operand without dims, an index too, may stay on the CPU; its gradient is there."""

    def run(case: Drawn, place: int, device: str) -> list[Any]:
        inputs = inputs_of(case, gc.float64, False, device)
        if inputs[place].ndim == 0:
            inputs[place] = inputs[place].detach().cpu().requires_grad_(inputs[place].requires_grad)
        gc.manual_seed(0)
        outs = [o for o in case.outputs(inputs) if o.requires_grad]
        wanted = [t for t in inputs if t.requires_grad]
        slopes = gc.autograd.grad(outs, wanted, [gc.ones_like(o) for o in outs], allow_unused=True) if wanted else []
        assert all(g is None or g.device == t.device for g, t in zip(slopes, wanted, strict=True))
        return [*outs, *slopes]

    for case in (case for case in ALL if case.op.name == name):
        arrays = case.arrays()
        for place in [i for i, a in enumerate(arrays) if not a.ndim and any(b.ndim for b in arrays)]:
            here, there = (outcome(run, case, place, d) for d in ("cpu", "cuda"))
            agree(there, here, f"{case.label}, operand {place} on the CPU")


@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_second_derivatives_of_halves(name: str, dtype: gc.dtype) -> None:
    """They exist where the CPU has them, in the same dtypes and shapes: rounding has spoilt the numbers."""

    def kinds(case: Drawn, device: str) -> list[Any]:
        inputs = inputs_of(case, dtype, False, device)
        wanted = [t for t in inputs if t.requires_grad]
        gc.manual_seed(0)
        outs = [o for o in case.outputs(inputs) if o.requires_grad]
        found: list[Any] = []
        for _ in range(2):
            weights = [gc.ones_like(o, requires_grad=True) for o in outs]
            found += gc.autograd.grad(outs, wanted, weights, create_graph=True, allow_unused=True) if outs else []
            outs = [g for g in found if g is not None and g.requires_grad]
        return [None if t is None else t.detach().zero_() for t in found]

    for case in (case for case in ALL if case.op.name == name and case.differentiable()):
        here, there = (outcome(kinds, case, d) for d in ("cpu", "cuda"))
        agree(there, here, case.label)


def test_products_of_mixed_dtypes() -> None:
    """As in derivatives of halves by statistics in float32: they are promoted, whatever lies where."""
    from gradcore.backends import registry

    backend: Any = registry.find("cuda")
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    for first, second in (("f4", "f2"), ("f2", "f4"), ("f8", "f4"), ("c8", "f8")):
        x, y = a.astype(first), b.astype(second)
        for right in (y, y[:, 1], np.asfortranarray(y)):
            found = backend.to_host(backend.matmul(backend.from_host(x), backend.from_host(right)))
            assert found.dtype == np.result_type(first, second)
            np.testing.assert_allclose(found, x @ right)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (3, 4), (0, 3)], ids=str)
def test_singular_vectors_up_to_signs(shape: tuple[int, ...]) -> None:
    def run(a: Any, device: str) -> list[Any]:
        x = gc.tensor(a, device=device, requires_grad=True)
        u, s, vh = gc.linalg.svd(x, full_matrices=False)
        weights = gc.arange(u.numel(), device=device).reshape(u.shape), gc.arange(vh.numel(), device=device)
        loss = (u.abs() * weights[0]).sum() + (vh.abs() * weights[1].reshape(vh.shape)).sum() + s.square().sum()
        return [s, u.abs(), vh.abs(), (u * s.unsqueeze(-2)) @ vh, *gc.autograd.grad(loss, x)]

    rng = np.random.default_rng(0)
    for dtype in ("f4", "f8", "c16"):
        a = rng.standard_normal(shape).astype(dtype) * (1 + 1j if dtype == "c16" else 1)
        agree(outcome(run, a, "cuda"), outcome(run, a, "cpu"))


def test_norms_of_complex_zeros_have_a_gradient() -> None:
    for norm in (gc.linalg.vector_norm, gc.linalg.norm, lambda x: gc.linalg.matrix_norm(x[None])):
        x = gc.zeros(3, dtype=gc.complex64, device="cuda", requires_grad=True)
        norm(x).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("repeats", [1, 250])
@pytest.mark.parametrize("dtype", [gc.float64, gc.float32, gc.float16, gc.bfloat16], ids=str)
def test_a_zero_keeps_its_sign_between_bounds(device: str, dtype: Any, repeats: int, fused: bool) -> None:
    x = gc.tensor(NUMBERS, device=device).to(dtype).repeat(repeats)
    for name, (function, bounds) in calls().items():
        found, expected = function(x).double().reshape(repeats, -1), shown(bounded(each, *bounds) for each in NUMBERS)
        assert shown(found[0].tolist()) == shown(found[-1].tolist()) == expected, name
    x, y = (gc.tensor(each, device=device).to(dtype).repeat(repeats) for each in zip(*PAIRS, strict=True))
    for low, high in [(y, None), (None, y), (y, y)]:
        expected = shown(bounded(a, *(None if each is None else b for each in (low, high))) for a, b in PAIRS)
        assert shown(x.clamp(low, high).tolist()) == expected * repeats


@pytest.mark.parametrize(
    "to", [gc.uint8, gc.int8, gc.int16, gc.int32, gc.int64, gc.uint16, gc.uint32, gc.uint64], ids=str
)
def test_conversions_to_integers_wrap(device: str, to: gc.dtype) -> None:
    """As on the CPU: a GPU's own conversion of negative numbers to unsigned integers gives zero."""
    numbers = gc.tensor([-0.0, -0.5, -1.7, 1.7, 255.9, 256.0, -256.0, -300.0, 3e4, -3e4, 7e4, -7e4], device="cpu")
    for dtype in (gc.float64, gc.float32, gc.float16, gc.bfloat16):
        x = numbers.to(dtype)
        x = x[x.isfinite()]
        expected = x.to(to)
        assert gc.equal(x.to(device).to(to).cpu(), expected), dtype
        written = gc.zeros(2, x.numel(), dtype=to, device=device)
        written[0] = x.to(device)
        written[1].copy_(x.to(device))
        assert gc.equal(written.cpu(), gc.stack([expected, expected])), dtype
        formula = gc.compile(lambda t: (t + 0).to(to) + 0)
        assert all(gc.equal(formula(x.to(device)).cpu(), expected) for _ in range(3)), dtype
