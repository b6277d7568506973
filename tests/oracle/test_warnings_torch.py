"""What PyTorch warns of, gradcore warns of, in the same words; and of nothing else."""

import warnings

import numpy as np
import pytest

import gradcore as gc

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

READ_ONLY = np.ones(3)
READ_ONLY.flags.writeable = False
DTYPES = ["bool", "uint8", "int64", "float16", "float32", "complex64", "complex128"]
#: Deprecated overloads: numbers by position, before the tensors that they multiply.
LEGACY_METHODS = {
    "2": [f"{name}(2, xp.ones(2))" for name in ("add", "add_", "sub", "sub_", "mul")]
    + [f"{name}(2, xp.ones(2), xp.ones(2))" for name in ("addcmul", "addcmul_", "addcdiv", "addcdiv_")]
    + [f"{name}(2{alpha}, xp.eye(2), xp.ones(2))" for name in ("addmv", "addmv_") for alpha in ("", ", 3")],
    "2, 2": [f"{name}(2{alpha}, xp.eye(2), xp.eye(2))" for name in ("addmm", "addmm_") for alpha in ("", ", 3")]
    + [f"addr_(2{alpha}, xp.ones(2), xp.ones(2))" for alpha in ("", ", 3")]
    + [f"addbmm_(2{alpha}, xp.ones(3, 2, 2), xp.ones(3, 2, 2))" for alpha in ("", ", 3")],
    "3, 2, 2": [f"baddbmm_(2{alpha}, xp.ones(3, 2, 2), xp.ones(3, 2, 2))" for alpha in ("", ", 3")],
}
LEGACY_FUNCTIONS = [
    *(f"xp.{name}(xp.ones(2), 2, {other})" for name in ("add", "sub") for other in ("xp.ones(2)", "3")),
    *(f"xp.{name}(xp.ones(2), 2, xp.ones(2), xp.ones(2))" for name in ("addcmul", "addcdiv")),
    *(f"xp.addmm(2, xp.eye(2){alpha}, xp.eye(2), xp.eye(2))" for alpha in ("", ", 3")),
    *(f"xp.addmv(2, xp.ones(2){alpha}, xp.eye(2), xp.ones(2))" for alpha in ("", ", 3")),
    *(f"xp.addr(2, xp.eye(2){alpha}, xp.ones(2), xp.ones(2))" for alpha in ("", ", 3")),
    *(f"xp.addbmm(2, xp.eye(2){alpha}, xp.ones(3, 2, 2), xp.ones(3, 2, 2))" for alpha in ("", ", 3")),
    *(f"xp.baddbmm(2, xp.ones(3, 2, 2){alpha}, xp.ones(3, 2, 2), xp.ones(3, 2, 2))" for alpha in ("", ", 3")),
    "xp.add(xp.ones(2), xp.ones(2), xp.ones(2))",
    "xp.add(xp.ones(2), 2, xp.ones(2), alpha=3)",
    "xp.addmm(xp.eye(2), 2, xp.eye(2), xp.eye(2))",
]
CALLS = [
    *(f"xp.{f}(xp.ones{s}, correction={c})" for f in ("std", "var_mean") for s in ("(1)", "(3)") for c in (0, 3)),
    *(f"xp.ones(2, dtype=xp.{a}).to(xp.{b})" for a in DTYPES for b in DTYPES),
    *(f"xp.ones(2, dtype=xp.{a}).copy_(xp.ones(2, dtype=xp.{b}))" for a in DTYPES for b in DTYPES),
    *(f"xp.ones({s}).{name}" for s in ("()", "(3,)", "(2, 3)", "(2, 3, 4)") for name in ("T", "mT", "H", "mH")),
    *(f"xp.meshgrid(xp.ones(2), xp.ones(3){named})" for named in ("", ", indexing='ij'", ", indexing='xy'")),
    *(f"xp.ones(3)[xp.ones(3, dtype=xp.{d})]" for d in ("uint8", "bool", "int64")),
    *(f"xp.where(xp.tensor([2, 0]).to(xp.{d}), xp.ones(2), 3.0)" for d in ("uint8", "bool", "int64", "float32")),
    *(f"xp.ones(2, 3).{name}(xp.ones(2, 3){dim})" for name in ("cross",) for dim in ("", ", dim=1", ", 1")),
    *(f"xp.{name}(READ_ONLY)" for name in ("from_numpy", "as_tensor", "asarray", "tensor")),
    *(f"xp.cov(xp.ones{s}, correction={c})" for s in ("(1)", "(3)", "(2, 3)", "(2, 1)") for c in (0, 1, 3)),
    *(f"xp.{name}(xp.eye(3))" for name in ("qr", "lu", "cholesky", "svd", "logdet", "pinverse", "linalg.qr")),
    *(f"xp.eye(3).{name}()" for name in ("qr", "lu", "cholesky", "storage", "untyped_storage", "svd")),
    *(f"xp.{name}(xp.ones(3, 1), xp.eye(3))" for name in ("triangular_solve", "cholesky_solve")),
    *(f"xp.ones(4).{name}" for name in ("resize(2, 2)", "resize_as(xp.ones(2, 2))", "resize_(2, 2)")),
    *(f"xp.stft(xp.ones(20), 8, return_complex=True{window})" for window in ("", ", window=xp.ones(8)")),
    *(f"xp.ones({s}).{call}" for s, calls in LEGACY_METHODS.items() for call in calls),
    *LEGACY_FUNCTIONS,
    *(f"xp.zeros(2).scatter(0, xp.tensor([0]), {src}, reduce='add')" for src in ("xp.ones(1)", "1.0")),
    *(f"xp.{name}(xp.ones(2))" for name in ("tensor", "as_tensor", "asarray", "ones(1).new_tensor")),
    *(f"xp.get_autocast_{name}_dtype()" for name in ("cpu", "gpu")),
    "xp.set_autocast_cpu_dtype(xp.bfloat16)",
    "xp.set_autocast_gpu_dtype(xp.float16)",
    "xp.set_autocast_cpu_enabled(False)",
    "xp.is_autocast_cpu_enabled()",
    "xp.range(0, 4)",
    "xp.arange(0, 4)",
    "xp.chain_matmul(xp.eye(3), xp.eye(3))",
    "xp.lu_solve(xp.ones(3, 1), *xp.linalg.lu_factor(xp.eye(3)))",
    "xp.istft(xp.ones(5, 9, dtype=xp.complex64), 8)",
    "xp.istft(xp.ones(5, 9, dtype=xp.complex64), 8, window=xp.ones(8))",
    "xp.nn.Hardtanh(min_value=0)",
    "xp.nn.Hardtanh(max_value=0.5)",
    "xp.nn.Hardtanh(min_val=0)",
    "xp.autograd.Variable(xp.ones(2), volatile=True)",
    "xp.autograd.Variable(xp.ones(2))",
    "list(xp.utils.data.DataLoader([1], pin_memory=True))",
    "xp.testing.assert_allclose(xp.ones(1), xp.ones(1))",
    "xp.set_default_tensor_type(xp.FloatTensor)",
    "xp.linalg.cross(xp.ones(3), xp.ones(3))",
    "xp.nn.functional.upsample(xp.ones(1, 1, 4), scale_factor=2)",
    "xp.nn.functional.upsample_nearest(xp.ones(1, 1, 4, 4), scale_factor=2)",
    "xp.nn.functional.upsample_bilinear(xp.ones(1, 1, 4, 4), scale_factor=2)",
    "xp.nn.functional.interpolate(xp.ones(1, 1, 4), scale_factor=2)",
    "xp.no_grad()(type('Net', (), {}))",
    "xp.no_grad()(lambda: 0)",
    "xp.ones(3, dtype=xp.complex64).mean(dtype=xp.float32)",
    "xp.ones(3, dtype=xp.complex64).sum(dtype=xp.float64)",
]  # fmt: skip


def _start(message: str) -> str:
    """Return the part of a message that must agree: the signatures of a deprecated overload, or the first words."""
    if message.startswith("This overload"):
        return "\n".join(line for line in message.partition(" (Trig")[0].splitlines() if "out_dtype" not in line)
    return message[:38]


def _said(call: str, xp) -> set[tuple[str, str]]:
    xp.set_warn_always(True)
    torch.storage._reset_warn_typed_storage_removal()  # said once in a process, whatever set_warn_always says
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                eval(call, {"xp": xp, "READ_ONLY": READ_ONLY})
            except (RuntimeError, IndexError, TypeError):
                return {("error", "")}
    finally:
        xp.set_warn_always(False)
    return {(w.category.__name__, _start(str(w.message))) for w in heard}


@pytest.mark.parametrize("call", CALLS)
def test_warnings(call):
    assert _said(call, gc) == _said(call, torch)
