"""Optimisers beyond the values of steps: closures, hooks, states, memory, versions, devices."""

from __future__ import annotations

import copy
import gc
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest

import gradcore
from gradcore import optim
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

#: What has no formula for each element, or is no optimiser to be used.
OTHERS = ("Adafactor", "LBFGS", "Muon", "Optimizer", "SparseAdam", "lr_scheduler", "swa_utils")
EVERY = [getattr(optim, name) for name in optim.__all__ if name not in OTHERS]
every_optimizer = pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)


def with_grads(*shapes: tuple[int, ...], seed: int = 0, **options: Any) -> list[Any]:
    """Parameters that have gradients."""
    random = np.random.default_rng(seed)
    params = [gradcore.tensor(random.standard_normal(s), requires_grad=True, **options) for s in shapes]
    for p in params:
        p.grad = gradcore.tensor(random.standard_normal(p.shape), **options)
    return params


def alone(make: Any, params: list[Any], steps: int) -> list[np.ndarray]:
    """Where each parameter ends if it is optimised on its own."""
    ends = []
    for p in params:
        own = p.detach().clone().requires_grad_()
        own.grad = p.grad.clone()
        optimizer = make([own], lr=0.1)
        for _ in range(steps):
            optimizer.step()
        ends.append(own.detach().cpu().numpy())
    return ends


# -- many parameters at once ---------------------------------------------------------------------------------------


@every_optimizer
def test_parameters_do_not_see_one_another(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joined, cut into tiles or not contiguous, each goes where it would go alone."""
    params = with_grads((3,), (40, 7), (), (0,), (5, 2), (301,), dtype=gradcore.float64)
    params[4].data = params[4].data.t().contiguous().t()
    assert not params[4].is_contiguous()
    params[1].grad = params[1].grad.t().contiguous().t()
    expected = alone(make, params, 3)
    monkeypatch.setattr(NumpyBackend, "tile_size", 64, raising=False)
    monkeypatch.setattr(NumpyBackend, "joined_size", 30, raising=False)
    memory = [p.data_ptr() for p in params]
    optimizer = make(params, lr=0.1)
    for _ in range(3):
        optimizer.step()
    for p, right in zip(params, expected, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), right, rtol=1e-12)
    assert [p.data_ptr() for p in params] == memory


@every_optimizer
def test_dtypes_in_one_group(make: Any) -> None:
    dtypes = ("float64", "float32", "float16", "bfloat16", "complex64")
    params = [with_grads((4,), dtype=getattr(gradcore, name))[0] for name in dtypes]
    expected = alone(make, params, 2)
    optimizer = make(params, lr=0.1)
    for _ in range(2):
        optimizer.step()
    for p, right in zip(params, expected, strict=True):
        assert np.array_equal(p.detach().numpy(), right)


@every_optimizer
def test_on_an_accelerator(make: Any, strict: str) -> None:
    host = with_grads((3,), (20, 5), dtype=gradcore.float32)
    expected = alone(make, host, 3)
    params = [p.detach().to(strict).requires_grad_() for p in host]
    for p, h in zip(params, host, strict=True):
        p.grad = h.grad.to(strict)
    optimizer = make(params, lr=0.1)
    for _ in range(3):
        optimizer.step()
    for p, right in zip(params, expected, strict=True):
        np.testing.assert_allclose(p.detach().cpu().numpy(), right, rtol=1e-6)


def test_a_kernel_takes_the_place_of_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def kernel(backend: Any, batch: Any, *, lr: float, **others: Any) -> None:
        seen.append((backend.type, [p.shape for p in batch.params], [s.size for s in batch.states], batch.offsets))
        for p, g in zip(batch.params, batch.grads, strict=True):
            p -= g * lr

    monkeypatch.setattr(NumpyBackend, "fused_steps", {"sgd": kernel}, raising=False)
    x, y = with_grads((3,), (2, 2))
    before = x.detach().clone()
    optim.SGD([x, y], lr=0.5, momentum=0.9).step()
    assert seen == [("cpu", [(3,), (2, 2)], [7], [0, 3, 7])]
    assert np.allclose(x.detach(), before - 0.5 * x.grad)


def test_parameters_without_gradient_wait() -> None:
    x, y = with_grads((2,), (2,))
    optimizer = optim.Adam([x, y], lr=0.1)
    y.grad, later = None, y.grad
    start = y.detach().clone()
    optimizer.step()
    assert np.array_equal(y.detach(), start)
    assert y not in optimizer.state
    y.grad = later
    optimizer.step()
    assert [optimizer.state[p]["step"].item() for p in (x, y)] == [2.0, 1.0]
    assert np.allclose(y.detach(), start - 0.1 * later.sign(), atol=1e-6)  # the first step of Adam


def test_memory_that_was_exchanged_is_used() -> None:
    (x,) = with_grads((3,))
    optimizer = optim.SGD([x], lr=1.0)
    optimizer.step()
    x.data = gradcore.zeros(3, dtype=x.dtype)
    optimizer.step()
    assert np.allclose(x.detach(), -x.grad)


# -- states --------------------------------------------------------------------------------------------------------


def test_states_can_be_written_and_replaced() -> None:
    x, y = with_grads((2,), (3,))
    optimizer = optim.SGD([x, y], lr=0.0, momentum=0.5)
    optimizer.step()
    optimizer.state[x]["momentum_buffer"].zero_()
    optimizer.state[y]["momentum_buffer"] = gradcore.full((3,), 8.0, dtype=y.dtype)
    optimizer.step()
    assert np.allclose(optimizer.state[x]["momentum_buffer"], x.grad)
    assert np.allclose(optimizer.state[y]["momentum_buffer"], 4 + y.grad)
    optimizer.state.clear()
    optimizer.step()
    assert np.allclose(optimizer.state[y]["momentum_buffer"], y.grad)


def test_counts_of_steps_can_be_set() -> None:
    x, y = with_grads((2,), (2,))
    optimizer = optim.Adam([x, y], lr=0.1)
    optimizer.step()
    optimizer.state[y]["step"].fill_(9.0)
    optimizer.step()
    assert [optimizer.state[p]["step"].item() for p in (x, y)] == [2.0, 10.0]


@pytest.mark.parametrize("way", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))], ids=["deepcopy", "pickle"])
@every_optimizer
def test_copies_go_on_alike(make: Any, way: Any) -> None:
    params = with_grads((3,), (4,))
    optimizer = make(params, lr=0.1)
    optimizer.step()
    other = way(optimizer)
    copies = other.param_groups[0]["params"]
    for p, c in zip(params, copies, strict=True):  # a pickle has no gradients
        c.grad = p.grad.clone()
    optimizer.step()
    other.step()
    assert all(a is not b and np.array_equal(a.detach(), b.detach()) for a, b in zip(params, copies, strict=True))


def test_loading_copies_and_later_steps_leave_the_checkpoint_alone() -> None:
    (x,), (y,) = with_grads((3,)), with_grads((3,))
    source, target = optim.Adam([x], lr=0.1, amsgrad=True), optim.Adam([y], lr=5.0)
    source.step()
    saved = copy.deepcopy(source.state_dict())
    target.load_state_dict(saved)
    y.data.copy_(x.detach())
    for _ in range(3):
        source.step()
        target.step()
    assert np.array_equal(x.detach(), y.detach())
    assert target.param_groups[0]["lr"] == 0.1
    assert saved["state"][0]["step"].item() == 1.0
    assert not np.array_equal(saved["state"][0]["exp_avg"], target.state[y]["exp_avg"])


def test_options_can_change_between_steps() -> None:
    (x,) = with_grads((3,))
    optimizer = optim.Adam([x], lr=0.1)
    optimizer.step()
    optimizer.param_groups[0].update(amsgrad=True, lr=0.2)
    optimizer.step()
    state = optimizer.state[x]
    assert list(state) == ["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"]
    assert state["step"].item() == 2
    assert np.array_equal(state["max_exp_avg_sq"], state["exp_avg_sq"])


def test_a_learning_rate_in_a_tensor() -> None:
    (x,), (y,) = with_grads((3,)), with_grads((3,))
    lr = gradcore.tensor(0.5)
    tensor_lr, number_lr = optim.Adam([x], lr=lr), optim.Adam([y], lr=0.5)
    for value in (0.5, 0.25):
        lr.fill_(value)
        number_lr.param_groups[0]["lr"] = value
        tensor_lr.step()
        number_lr.step()
    assert np.array_equal(x.detach(), y.detach())


@every_optimizer
def test_steps_keep_no_memory(make: Any) -> None:
    params = with_grads(*[(50,)] * 20, (20_000,))
    optimizer = make(params, lr=1e-3)

    def step() -> None:
        for p in params:
            p.grad = p.grad * 1
        optimizer.step()

    for _ in range(3):
        step()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            step()
        growth = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert growth < 300_000, growth  # the gradients of now, and no others


# -- the graph -----------------------------------------------------------------------------------------------------


def test_backward_through_a_graph_from_before_the_step() -> None:
    x = gradcore.ones(3, requires_grad=True)
    optimizer = optim.SGD([x], lr=0.1)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    version = x._version
    optimizer.step()
    assert x._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_backward_through_a_state_from_before_the_step() -> None:
    (x,) = with_grads((3,))
    optimizer = optim.SGD([x], lr=0.1, momentum=0.9)
    optimizer.step()
    w = gradcore.ones(3, dtype=x.dtype, requires_grad=True)
    loss = (w * optimizer.state[x]["momentum_buffer"]).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_the_learning_rate_can_be_learned() -> None:
    lr = gradcore.tensor(0.1, dtype=gradcore.float64, requires_grad=True)

    def end(lr: Any) -> Any:
        p = gradcore.tensor([1.0, -2.0], dtype=gradcore.float64, requires_grad=True).clone()
        optimizer = optim.Adam([p], lr=lr, differentiable=True)
        for k in range(3):
            p.grad = gradcore.tensor([k + 1.0, -2.0], dtype=gradcore.float64)
            optimizer.step()
        return (p * p).sum()

    assert gradcore.autograd.gradcheck(end, (lr,))


# -- closures, hooks, gradients ------------------------------------------------------------------------------------


def test_a_closure_runs_with_gradients_on() -> None:
    x = gradcore.tensor([2.0], requires_grad=True)
    optimizer = optim.SGD([x], lr=0.1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    with gradcore.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == 4.0
    assert np.allclose(x.detach(), [1.6])


def test_hooks_run_in_order_and_can_be_removed() -> None:
    (x,) = with_grads((1,))
    optimizer, other = optim.SGD([x], lr=0.1), optim.SGD([x], lr=0.1)
    seen: list[str] = []
    handles = [
        register_optimizer_step_pre_hook(lambda o, args, named: seen.append("any, before")),
        register_optimizer_step_post_hook(lambda o, args, named: seen.append("any, after")),
        optimizer.register_step_pre_hook(lambda o, args, named: seen.append("before")),
        optimizer.register_step_post_hook(lambda o, args, named: seen.append("after")),
    ]
    optimizer.step()
    assert seen == ["any, before", "before", "after", "any, after"]
    seen.clear()
    other.step()
    assert seen == ["any, before", "any, after"]
    for handle in handles:
        handle.remove()
    seen.clear()
    optimizer.step()
    assert not seen


def test_a_hook_can_give_other_arguments() -> None:
    (x,) = with_grads((1,))
    optimizer = optim.SGD([x], lr=0.1)
    optimizer.register_step_pre_hook(lambda o, args, named: ((o, lambda: "loss"), {}))
    assert optimizer.step() == "loss"
    optimizer.register_step_pre_hook(lambda o, args, named: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        optimizer.step()


def test_hooks_of_state_dicts() -> None:
    (x,) = with_grads((1,))
    optimizer = optim.SGD([x], lr=0.1)
    seen: list[str] = []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("second"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, d: {**d, "more": 1})
    saved = optimizer.state_dict()
    assert seen == ["first", "second"]
    assert saved["more"] == 1

    def double(o: Any, d: dict[str, Any]) -> dict[str, Any]:
        groups = [{**g, "lr": 2 * g["lr"]} for g in d["param_groups"]]
        return {**d, "param_groups": groups}

    optimizer.register_load_state_dict_pre_hook(double)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    optimizer.load_state_dict(saved)
    assert seen[-1] == "loaded"
    assert optimizer.param_groups[0]["lr"] == 0.2


def test_zero_grad() -> None:
    x, y = with_grads((2,), (3,))
    optimizer = optim.SGD([x, y], lr=0.1)
    memory = x.grad.data_ptr()
    optimizer.zero_grad(set_to_none=False)
    assert x.grad.data_ptr() == memory
    assert not x.grad.any()
    optimizer.zero_grad()
    assert x.grad is None
    assert y.grad is None


def test_named_parameters_and_groups() -> None:
    model = gradcore.nn.Linear(2, 3)
    optimizer = optim.SGD(model.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    groups = optim.SGD([{"params": [model.weight]}, {"params": model.bias, "lr": 0.5}], lr=0.1).param_groups
    assert [g["lr"] for g in groups] == [0.1, 0.5]
    assert groups[1]["params"] == [model.bias]


def test_the_same_parameter_twice_in_a_group_steps_twice() -> None:
    (x,) = with_grads((2,))
    start = x.detach().clone()
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = optim.SGD([x, x], lr=0.1)
    optimizer.step()
    assert np.allclose(x.detach(), start - 0.2 * x.grad)


def test_required_options() -> None:
    from gradcore.optim.optimizer import required

    class Own(optim.Optimizer):
        def step(self, closure: Any = None) -> str:
            return "own"

    with pytest.raises(ValueError, match="required optimization parameter lr"):
        Own([gradcore.zeros(1, requires_grad=True)], {"lr": required})
    assert Own([{"params": [gradcore.zeros(1, requires_grad=True)], "lr": 1}], {"lr": required}).step() == "own"


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adamax", "NAdam", "RAdam", "Adadelta"])
def test_a_learning_rate_is_differentiated(name: str) -> None:
    """By a step that is recorded, as by finite differences."""

    def moved(lr: Any) -> Any:
        p = gradcore.ones(2, dtype=gradcore.float64, requires_grad=True) * 1.0
        optimizer = getattr(gradcore.optim, name)([p], lr=lr, differentiable=True)
        p.grad = gradcore.tensor([1.0, 2.0], dtype=gradcore.float64)
        optimizer.step()
        return p.sum()

    for shape in ((), (1, 1)):
        lr = gradcore.full(shape, 0.1, dtype=gradcore.float64, requires_grad=True)
        assert gradcore.autograd.gradcheck(moved, (lr,), atol=1e-4)


def test_tensors_of_one_element_are_decay_rates_of_a_recorded_step() -> None:
    results = []
    for betas in ((0.9, 0.99), (gradcore.tensor([[0.9]]), gradcore.tensor([[0.99]]))):
        p = gradcore.ones(2, requires_grad=True) * 1.0
        optimizer = optim.Adam([p], lr=0.1, betas=betas, differentiable=True)
        for _ in range(2):
            p.grad = gradcore.tensor([1.0, 2.0])
            optimizer.step()
        results.append(p.detach().numpy())
    np.testing.assert_allclose(*results, rtol=1e-6)


@pytest.mark.parametrize("name", ["Rprop", "ASGD"])
def test_a_learning_rate_that_is_kept_in_the_state_cannot_require_grad(name: str) -> None:
    p = gradcore.ones(2, requires_grad=True) * 1.0
    optimizer = getattr(gradcore.optim, name)([p], lr=gradcore.tensor(0.1, requires_grad=True), differentiable=True)
    p.grad = gradcore.ones(2)
    with pytest.raises(RuntimeError, match="cannot require grad"):
        optimizer.step()


RECORDED = [
    ("SGD", {"momentum": 0.9, "nesterov": True}), ("SGD", {"momentum": 0.9, "maximize": True}),
    ("RMSprop", {"centered": True}), ("RMSprop", {"momentum": 0.5}), ("Adagrad", {"lr_decay": 0.1}),
    *((name, {"amsgrad": amsgrad, "weight_decay": 0.1}) for name in ("Adam", "AdamW") for amsgrad in (False, True)),
    *((name, {"weight_decay": 0.1}) for name in ("Adamax", "NAdam", "RAdam", "Adadelta")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), RECORDED)
def test_steps_with_options_are_differentiated(name: str, options: dict[str, Any]) -> None:
    """Two recorded steps, by the start and by the gradients, as by finite differences."""

    def moved(start: Any, slope: Any) -> Any:
        p = start.clone()
        optimizer = getattr(gradcore.optim, name)([p], lr=0.1, differentiable=True, **options)
        for factor in (1.0, -0.4):
            p.grad = slope * factor
            optimizer.step()
        return p

    start = gradcore.tensor([1.0, -2.0], dtype=gradcore.float64, requires_grad=True)
    slope = gradcore.tensor([0.3, 0.8], dtype=gradcore.float64, requires_grad=True)
    assert gradcore.autograd.gradcheck(moved, (start, slope), atol=1e-5)


def test_lbfgs_goes_on_at_a_gradient_of_zeros() -> None:
    x = gradcore.zeros(2, requires_grad=True)
    optimizer = gradcore.optim.LBFGS([x], tolerance_grad=-1.0)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 0
    assert x.tolist() == [0, 0]


LOSSES = {"squares": lambda x: (x * x).sum(), "a line": lambda x: -x.sum(), "a constant": lambda x: (x * 0).sum()}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("lr", [0.0, 0.5])
def test_line_searches_end_where_a_cubic_has_no_minimum(loss: Any, lr: float) -> None:
    x = gradcore.tensor([1.0, 2.0], requires_grad=True)
    optimizer = gradcore.optim.LBFGS([x], lr=lr, line_search_fn="strong_wolfe", max_iter=5)

    def closure() -> Any:
        optimizer.zero_grad()
        value = loss(x)
        value.backward()
        return value

    losses = [optimizer.step(closure).item() for _ in range(3)]
    assert losses == sorted(losses, reverse=True)
    assert np.isfinite(losses).all()
    assert lr or x.tolist() == [1, 2]
