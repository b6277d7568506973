"""Autocasting: which operations run in which precision, what is recorded, contexts and settings."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import pytest

import gradcore as gc
from gradcore.amp.casting import LOWER_PRECISION, Casting, casting, policy_of
from gradcore.autograd.modes import local
from gradcore.ops.declare.table import OPS

F = gc.nn.functional


@pytest.fixture
def a() -> Any:
    return gc.arange(12.0).reshape(3, 4) / 7


@pytest.fixture
def weight() -> Any:
    return (gc.arange(8.0).reshape(4, 2) / 5).requires_grad_()


# -- which dtype ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [gc.bfloat16, gc.float16])
@pytest.mark.parametrize("call", [
    lambda a, w: a @ w,
    lambda a, w: gc.mm(a, w),
    lambda a, w: F.linear(a, w.T),
    lambda a, w: gc.einsum("ij,jk->ik", a, w),
    lambda a, w: gc.addmm(gc.zeros(2), a, w),
    lambda a, w: F.conv1d(a[None], w.T[:, :, None].repeat(3, 1, 1)[:, :3]),
])  # fmt: skip
def test_products_run_in_the_lower_precision(call: Any, dtype: Any, a: Any, weight: Any) -> None:
    with gc.autocast("cpu", dtype=dtype):
        assert call(a, weight).dtype is dtype
    assert call(a, weight).dtype is gc.float32


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.mse_loss(x, x),
        lambda x: F.cross_entropy(x, x.softmax(1)),
        lambda x: gc.prod(x),
        lambda x: gc.linalg.inv(x),
    ],
)
def test_losses_run_in_float32(call: Any) -> None:
    x = gc.eye(3, dtype=gc.bfloat16)
    with gc.autocast("cpu"):
        assert call(x).dtype is gc.float32


def test_other_operations_run_in_the_dtypes_that_they_are_given(a: Any) -> None:
    low = a.bfloat16()
    with gc.autocast("cpu"):
        assert (a.exp().dtype, low.exp().dtype, (a + low).dtype) == (gc.float32, gc.bfloat16, gc.float32)


def test_some_operations_run_in_the_widest_dtype(a: Any) -> None:
    low = a.bfloat16()
    with gc.autocast("cpu"):
        assert gc.cat([low, a]).dtype is gc.float32
        assert gc.stack([low, low]).dtype is gc.bfloat16
        with pytest.raises(RuntimeError, match="Unexpected floating ScalarType"):
            gc.cat([a.half(), a])


def test_what_is_left_alone(a: Any, weight: Any) -> None:
    with gc.autocast("cpu"):
        assert (a.double() @ weight.double()).dtype is gc.float64
        assert gc.prod(a.bfloat16(), dtype=gc.float64).dtype is gc.float64
        written = gc.mm(a, weight.detach(), out=gc.empty(3, 2))
        total = gc.zeros(3, 2)
        total.addmm_(a, weight.detach())
        assert total.equal(a @ weight.detach()) is False
        assert (a.long() @ weight.detach().long()).dtype is gc.int64
    assert total.equal(a @ weight.detach())
    assert written.equal(a @ weight.detach())


def test_every_declared_policy_is_one() -> None:
    words = [word for op in OPS.values() if isinstance(op.autocast, str) for word in op.autocast.split()]
    assert {word.partition(":")[0] for word in words} == {"lower", "float32", "widest", "refused"}
    assert {word.partition(":")[2] for word in words} == {"", *LOWER_PRECISION}
    assert sum(bool(op.autocast) for op in OPS.values()) > 100


# -- what is recorded -------------------------------------------------------------------------------------------------


def test_conversions_are_recorded(a: Any, weight: Any) -> None:
    with gc.autocast("cpu"):
        out = a @ weight
    assert out.grad_fn.name() == "MmBackward0"
    assert out.grad_fn.next_functions[1][0].name() == "ToCopyBackward0"
    out.float().sum().backward()
    assert weight.grad.dtype is gc.float32
    assert gc.allclose(weight.grad, a.sum(0)[:, None].expand(4, 2), rtol=2e-2)


def test_parameters_are_converted_once(a: Any, weight: Any) -> None:
    def conversion(out: Any) -> Any:
        return out.grad_fn.next_functions[1][0]

    with gc.autocast("cpu"):
        assert conversion(a @ weight) is conversion(a @ weight)
        first = conversion(a @ weight)
    with gc.autocast("cpu"):
        assert conversion(a @ weight) is not first
    with gc.autocast("cpu", cache_enabled=False):
        assert conversion(a @ weight) is not conversion(a @ weight)
    assert not casting().cache


def test_a_parameter_that_has_changed_is_converted_again(a: Any, weight: Any) -> None:
    with gc.autocast("cpu"):
        before = a @ weight
        with gc.no_grad():
            weight.zero_()
        assert (a @ weight).count_nonzero() == 0
        assert before.count_nonzero() > 0


def test_conversions_without_recording_do_not_lose_gradients(a: Any, weight: Any) -> None:
    with gc.autocast("cpu"):
        with gc.no_grad():
            a @ weight
        assert (a @ weight).requires_grad


def test_forward_mode(a: Any) -> None:
    with gc.autocast("cpu"):
        value, slope = gc.func.jvp(lambda w: a @ w, (gc.ones(4, 2),), (gc.ones(4, 2),))
    assert (value.dtype, slope.dtype) == (gc.bfloat16, gc.bfloat16)
    assert gc.allclose(slope, value)


def test_backward_runs_in_the_dtypes_of_forward(a: Any, weight: Any) -> None:
    seen = []
    with gc.autocast("cpu"):
        out = a @ weight
        out.register_hook(lambda grad: seen.append(grad.dtype))
        loss = F.mse_loss(out, gc.zeros(3, 2))
    loss.backward()
    assert seen == [gc.bfloat16]


# -- contexts ---------------------------------------------------------------------------------------------------------


def test_contexts_nest(a: Any, weight: Any) -> None:
    with gc.autocast("cpu", dtype=gc.float16):
        with gc.autocast("cpu", enabled=False):
            assert (a @ weight).dtype is gc.float32
            with gc.autocast("cpu"):
                assert (a @ weight).dtype is gc.bfloat16 or gc.get_autocast_dtype("cpu") is gc.float16
        assert (a @ weight).dtype is gc.float16
    assert not gc.is_autocast_enabled("cpu")
    assert gc.get_autocast_dtype("cpu") is gc.bfloat16
    assert not local.state.mode & 128


def test_errors_end_the_context(a: Any, weight: Any) -> None:
    with pytest.raises(ZeroDivisionError), gc.autocast("cpu"):
        _ = 1 / 0
    assert (a @ weight).dtype is gc.float32


def test_one_context_can_be_entered_twice(a: Any, weight: Any) -> None:
    context = gc.autocast("cpu")
    with context:
        with context:
            pass
        assert (a @ weight).dtype is gc.bfloat16
    assert (a @ weight).dtype is gc.float32


def test_decorator(a: Any, weight: Any) -> None:
    @gc.autocast("cpu")
    def product(depth: int) -> Any:
        """Multiply."""
        return product(depth - 1) if depth else a @ weight

    assert product(2).dtype is gc.bfloat16
    assert product.__doc__ == "Multiply."
    with pytest.raises(TypeError, match=r"autocast\(\)\(func\) requires a callable, but got int"):
        gc.autocast("cpu")(3)  # type: ignore[arg-type]


def test_settings_belong_to_a_thread() -> None:
    found = []
    with gc.autocast("cpu"):
        thread = threading.Thread(target=lambda: found.append(gc.is_autocast_enabled("cpu")))
        thread.start()
        thread.join()
        assert gc.is_autocast_enabled("cpu")
    assert found == [False]


def test_settings_by_hand(a: Any, weight: Any) -> None:
    gc.set_autocast_enabled("cpu", True)
    gc.set_autocast_dtype("cpu", gc.float16)
    gc.set_autocast_cache_enabled(False)
    try:
        assert (a @ weight).dtype is gc.float16
        assert not gc.is_autocast_cache_enabled()
    finally:
        gc.set_autocast_enabled("cpu", False)
        gc.set_autocast_dtype("cpu", gc.bfloat16)
        gc.set_autocast_cache_enabled(True)
    assert (a @ weight).dtype is gc.float32


def test_wrong_arguments() -> None:
    with pytest.raises(RuntimeError, match="User specified an unsupported autocast device_type 'tpu'"):
        gc.autocast("tpu")
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        gc.autocast(gc.device("cpu"))  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="In CPU autocast, but the target dtype is not supported"):
        context = gc.autocast("cpu", dtype=gc.float64)
    with context:
        assert not gc.is_autocast_enabled("cpu")
    assert gc.amp.is_autocast_available("cuda")
    assert not gc.amp.is_autocast_available("tpu")


@pytest.mark.skipif(gc.cuda.is_available(), reason="says what happens without CUDA")
def test_without_cuda(a: Any, weight: Any) -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"), gc.autocast("cuda"):
        assert (a @ weight).dtype is gc.float32
    with (
        pytest.warns(FutureWarning, match=r"Please use `torch.amp.autocast\('cuda', args...\)` instead"),
        pytest.warns(UserWarning, match="CUDA is not available"),
    ):
        gc.cuda.amp.autocast()


# -- functions of one's own -------------------------------------------------------------------------------------------


def own_product(cast_inputs: Any) -> Any:
    class Product(gc.autograd.Function):
        seen: ClassVar[list[Any]] = []

        @staticmethod
        @gc.amp.custom_fwd(device_type="cpu", cast_inputs=cast_inputs)
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x @ y

        @staticmethod
        @gc.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, grad: Any) -> Any:
            x, y = ctx.saved_tensors
            Product.seen.append(gc.is_autocast_enabled("cpu"))
            return grad @ y.T, x.T @ grad

    return Product


@pytest.mark.parametrize(("cast_inputs", "dtype", "on"), [(None, gc.bfloat16, True), (gc.float32, gc.float32, False)])
def test_functions_of_ones_own(cast_inputs: Any, dtype: Any, on: bool, a: Any, weight: Any) -> None:
    product = own_product(cast_inputs)
    with gc.autocast("cpu"):
        out = product.apply(a, weight)
    assert out.dtype is dtype
    out.float().sum().backward()
    assert product.seen == [on]
    assert weight.grad.dtype is gc.float32
    assert product.apply(a, weight).dtype is gc.float32


# -- on another device ------------------------------------------------------------------------------------------------


@pytest.fixture
def on_cuda(strict: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the strict device with autocasting on and the policies of CUDA."""
    monkeypatch.setitem(LOWER_PRECISION, "strict", gc.float16)
    monkeypatch.setattr("gradcore.amp.casting.policy_of", lambda op, args, _: policy_of(op, args, "cuda"))
    settings = Casting()
    monkeypatch.setattr(local.state, "autocast", settings)
    return strict


@pytest.mark.parametrize(
    ("call", "policy"),
    [
        (lambda x: x @ x, "lower"),
        (lambda x: gc.mv(x, x[0]), "lower"),
        (lambda x: gc.einsum("ij,jk->ik", x, x), "lower"),
        (lambda x: x.half().exp(), "float32"),
        (lambda x: x.half().sum(), "float32"),
        (lambda x: x.half() ** 2, "float32"),
        (lambda x: 1 / x.half(), "float32"),
        (lambda x: F.softmax(x.half(), 1), "float32"),
        (lambda x: x.half().norm(), "float32"),
        (lambda x: F.layer_norm(x.half(), (2,)), "float32"),
        (lambda x: F.mse_loss(x.half(), x.half()), "float32"),
        (lambda x: gc.addcmul(x.half(), x, x), "widest"),
        (lambda x: gc.dot(x[0].half(), x[1].half()), "lower"),
    ],
)
def test_policies_of_cuda(call: Any, policy: str, on_cuda: str) -> None:
    x = gc.tensor([[1.0, 2.0], [3.0, 4.0]], device=on_cuda)
    cpu = gc.ones(2, 2)
    with gc.autocast("strict"):
        assert call(x).dtype is (gc.float16 if policy == "lower" else gc.float32)
        assert (cpu @ cpu).dtype is gc.float32
        with pytest.raises(RuntimeError, match="BCELoss are unsafe to autocast"):
            F.binary_cross_entropy(x / 5, x / 5)


def test_devices_that_are_not_there_never_autocast() -> None:
    for name in ("mps", "xpu", "hpu"):
        assert gc.is_autocast_enabled(name) is False
    with pytest.raises(RuntimeError):
        gc.is_autocast_enabled("unknown")
