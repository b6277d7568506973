"""`nn.DataParallel` on two devices, where gradients are those of one device, on one, and on none."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest

import gradcore as gc
from gradcore import nn
from tests.cuda.fake_runtime import Runtime

Pair = namedtuple("Pair", "a b")


def net(device: str) -> Any:
    gc.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3)).to(device)


def trained(model: Any, x: Any, target: Any) -> tuple[Any, dict[str, Any]]:
    out = model(x)
    nn.functional.cross_entropy(out, target.to(out.device)).backward()
    return out, {name.removeprefix("module."): p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize("samples", [1, 5, 6])
@pytest.mark.parametrize("ids", [None, [0, 1], ["cuda:0", gc.device("cuda:1")]], ids=str)
def test_gradients_are_those_of_one_device(cuda: Runtime, ids: Any, samples: int) -> None:
    x, target = gc.rand(samples, 4), gc.arange(samples) % 3
    expected, grads = trained(net("cpu"), x, target)
    model = nn.DataParallel(net("cuda:0"), ids)
    found, there = trained(model, x.to("cuda:0").requires_grad_(), target)
    assert found.device == "cuda:0"
    assert gc.allclose(found.cpu(), expected, atol=1e-6)
    assert {str(p.device) for p in model.parameters()} == {"cuda:0"}
    for name, grad in grads.items():
        assert there[name].device == "cuda:0"
        assert gc.allclose(there[name].cpu(), grad, atol=1e-6), name


def test_each_device_has_its_part(cuda: Runtime) -> None:
    seen = []

    class Noting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(gc.ones(2, device="cuda:0"))
            self.register_buffer("count", gc.zeros(1, device="cuda:0"))

        def forward(self, x: Any, scale: Any = None) -> Any:
            self.count += 1
            seen.append((str(x.device), str(self.w.device), str(self.count.device), gc.cuda.current_device(), len(x)))
            return x * self.w * scale

    module = Noting()
    model = nn.DataParallel(module, output_device=1)
    out = model(gc.ones(5, 2), scale=3.0)
    assert seen == [("cuda:0", "cuda:0", "cuda:0", 0, 3), ("cuda:1", "cuda:1", "cuda:1", 1, 2)]
    assert out.device == "cuda:1"
    assert gc.cuda.current_device() == 0
    assert float(module.count) == 1.0  # what the second device counted is dropped
    assert type(module.w) is nn.Parameter
    seen.clear()
    nn.parallel.data_parallel(module, gc.ones(4, 2, device="cuda:0"), [1, 0][::-1], module_kwargs={"scale": 1.0})
    assert [each[0] for each in seen] == ["cuda:0", "cuda:1"]


def test_one_device(cuda: Runtime) -> None:
    module = net("cpu")
    model = nn.DataParallel(module, [1])
    assert {str(p.device) for p in module.parameters()} == {"cuda:1"}
    assert model(gc.rand(5, 4)).device == "cuda:1"


def test_parameters_elsewhere(cuda: Runtime) -> None:
    with pytest.raises(RuntimeError, match=r"on device cuda:0 \(device_ids\[0\]\) but found one"):
        nn.DataParallel(net("cuda:1"))(gc.rand(5, 4))
    with pytest.raises(RuntimeError, match="Modules with uninitialized parameters can't be used with `DataParallel`"):
        nn.DataParallel(nn.LazyLinear(3, device="cuda:0"))(gc.rand(5, 4))


def test_scatter_and_gather(cuda: Runtime) -> None:
    x = gc.arange(4.0)
    first, second = nn.parallel.scatter({"x": [x, 3], "y": Pair(x * 2, None), "z": ()}, [0, 1])
    assert [str(v.device) for v in (first["x"][0], second["y"].a)] == ["cuda:0", "cuda:1"]
    assert (first["x"][1], second["y"].b, second["z"]) == (3, None, ())
    assert second["x"][0].tolist() == [2.0, 3.0]
    joined = nn.parallel.gather([Pair(first["x"][0], None), Pair(second["x"][0], None)], "cpu")
    assert type(joined) is Pair
    assert gc.equal(joined.a, x)
    with pytest.warns(UserWarning, match="will instead unsqueeze and return a vector"):
        assert nn.parallel.gather([gc.tensor(1.0), gc.tensor(2.0, device="cuda:1")], 0).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="All dicts must have the same number of keys"):
        nn.parallel.gather([{"a": x}, {}], "cpu")


def test_without_cuda_the_module_is_called() -> None:
    if gc.cuda.is_available():
        pytest.skip("there is CUDA")
    for ids in (None, [0, 1]):
        module = net("cpu")
        model = nn.DataParallel(module, ids)
        x = gc.rand(5, 4)
        assert gc.equal(model(x), module(x))
        assert list(model.state_dict()) == [f"module.{name}" for name in module.state_dict()]
