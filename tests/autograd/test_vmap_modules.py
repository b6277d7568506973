"""Programs and modules in batches: values, gradients and Hessians of samples are those of a loop over the samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore import nn
from gradcore.func import (
    functional_call,
    grad,
    hessian,
    jacfwd,
    jacrev,
    replace_all_batch_norm_modules_,
    stack_module_state,
    vmap,
)
from gradcore.nn import functional as F

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {}


def program(*shape: int) -> Callable[[Any], Any]:
    def note(f: Any) -> Any:
        PROGRAMS[f.__name__] = f, shape
        return f

    return note


def positive(a: Any) -> Any:
    return a @ a.mT + 3 * gc.eye(3, dtype=a.dtype)


@program(5)
def choices(x):
    return gc.where(x > 0, x.exp(), gc.where(x < -1, x * x, -x)).sum()


@program(6)
def sorted_and_gathered(x):
    values, order = x.sort()
    return (values * gc.arange(6.0, dtype=x.dtype)).sum() + (x[order] * values * values).sum() + x.topk(2).values.prod()


@program(6)
def the_largest_element(x):
    return x[x.argmax()] * x.amax()


@program(4, 3)
def running_sums(x):
    return (x.cumsum(0).cumprod(1) * x.logcumsumexp(0)).sum()


@program(3, 3)
def solutions(a):
    return gc.linalg.solve(positive(a), a[0]).square().sum() + gc.linalg.cholesky(positive(a)).sum()


@program(3, 3)
def eigenvalues(a):
    return (gc.linalg.eigh(positive(a)).eigenvalues * gc.arange(3.0, dtype=a.dtype)).sum()


@program(3, 3)
def determinants(a):
    return gc.linalg.slogdet(positive(a))[1] + gc.linalg.det(a)


@program(8)
def a_filter(x):
    spectrum = gc.fft.rfft(x) * gc.arange(5.0, dtype=x.dtype)
    return gc.fft.irfft(spectrum, n=8).pow(3).sum()


@program(4, 4)
def causal_attention(x):
    scores = (x @ x.mT).masked_fill(~gc.ones(4, 4, dtype=gc.bool).tril(), float("-inf"))
    return (scores.softmax(-1) @ x).square().sum()


@program(4, 6)
def heads(x):
    y = x.reshape(4, 2, 3).permute(1, 0, 2).contiguous().transpose(0, 1).flatten(1)
    return (y.view(2, 12) @ y.view(12, 2)).sum()


@program(5, 3)
def a_recurrent_loop(x):
    state, states = x.new_zeros(3), []
    for step in x:
        state = gc.tanh(state * 0.5 + step)
        states.append(state)
    return gc.stack(states).square().mean()


@program(4, 3)
def parts_and_the_whole(x):  # gradients of parts meet one that all samples share
    return (x[[1, 2, 1]] * x[gc.tensor([0, 3, 3])]).sum() + x[1:4:2].prod() + x[..., -1].sum() + x[None, 2].sum()


@program(4, 3)
def writes_to_parts(x):
    y = x * 2
    y.add_(1).mul_(x)
    y[0] = 0
    y[1:, 1] *= 3
    y[:, 0].sin_()
    return (y * y).sum()


@program(4, 3)
def rows_written_one_by_one(x):
    out = gc.zeros_like(x)
    for i in range(4):
        out[i] = x[i] * x[0]
    return (out * x).sum()


@program(4, 3)
def writes_by_index(x):
    y = x.clone()
    y[[0, 2]] = x[[1, 3]] * 2
    y.index_add_(0, gc.tensor([0, 0]), x[:2])
    return y.pow(3).sum()


@program(3)
def a_matrix_that_is_filled(x):
    out = x.new_zeros(3, 3)
    out[0] = x
    out[1, 1] = x[0] * x[1]
    out.diagonal().add_(x)
    return gc.linalg.det(out + gc.eye(3, dtype=x.dtype))


@program(1, 4, 3)
def normalizations(x):
    return (F.layer_norm(x, (3,)).pow(3) + F.instance_norm(x).pow(3) + F.group_norm(x, 2).pow(3)).sum()


@program(2, 5, 5)
def images(x):
    kernel = gc.linspace(-1, 1, 36, dtype=x.dtype).reshape(2, 2, 3, 3)
    return (F.max_pool2d(F.conv2d(x[None], kernel, padding=1).tanh(), 2) ** 2).sum()


TRANSFORMATIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "values": (lambda f: f, lambda f: f),
    "gradients": (grad, grad),
    "forward over reverse": (lambda f: jacfwd(grad(f)), lambda f: jacrev(grad(f))),
    "hessians": (hessian, lambda f: jacrev(grad(f))),
}


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, transformation: str) -> None:
    f, shape = PROGRAMS[name]
    batched, single = TRANSFORMATIONS[transformation]
    samples = gc.tensor(np.random.default_rng(0).standard_normal((3, *shape)))
    found = vmap(batched(f))(samples)
    expected = gc.stack([single(f)(sample) for sample in samples])
    np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-8, 1e-9)


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_mode_through_the_batch(name: str) -> None:
    f, shape = PROGRAMS[name]
    samples = gc.tensor(np.random.default_rng(0).standard_normal((2, *shape)))
    found = jacfwd(vmap(f))(samples)
    for i, sample in enumerate(samples):
        np.testing.assert_allclose(found[i, i].numpy(), grad(f)(sample).numpy(), 1e-8, 1e-9)
        assert not found[i, 1 - i].any()


def test_masks_that_differ_between_samples() -> None:
    def f(x):
        y = x.clone()
        y[y < 0] = 0
        return (y * y).sum()

    samples = gc.tensor([[1.0, -2.0, 3.0], [-1.0, 2.0, -3.0]])
    assert vmap(grad(f))(samples).equal(2 * samples.clamp_min(0))
    assert jacrev(vmap(f))(samples).sum(0).equal(2 * samples.clamp_min(0))


# -- modules ----------------------------------------------------------------------------------------------------------

MODULES = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 2)), (3, 4)),
    "layer norm": (lambda: nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), (3, 4)),
    "batch norm": (lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False)), (3, 4)),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.ReLU(), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(6, 2)),
        (3, 2, 4),
    ),
    "images": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1, groups=2),
            nn.GroupNorm(2, 4),
            nn.PReLU(4),
            nn.ConvTranspose2d(4, 3, 2, stride=2),
            nn.InstanceNorm2d(3, affine=True),
            nn.MaxPool2d(2),
        ),
        (3, 2, 4, 4),
    ),
    "recurrent": (lambda: nn.GRUCell(4, 3), (3, 4)),
    "recurrent in both directions": (lambda: nn.Sequential(nn.LSTM(4, 3, bidirectional=True), First()), (3, 2, 4)),
}


class First(nn.Module):
    """The first of several results."""

    def forward(self, results: Any) -> Any:
        return results[0]


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        return x + self.attention(x, x, x, need_weights=False)[0]


MODULES["attention"] = (SelfAttention, (3, 5, 4))


@pytest.mark.parametrize("name", MODULES)
def test_ensembles(name: str) -> None:
    make, shape = MODULES[name]
    gc.manual_seed(0)
    models = [make().double() for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    x = gc.tensor(np.random.default_rng(0).standard_normal(shape))
    base = make().double().to("meta")

    def loss(parameters: Any, buffers: Any, x: Any) -> Any:
        return functional_call(base, (parameters, buffers), (x,)).square().mean()

    found = vmap(grad(loss), in_dims=(0, 0, None))(parameters, buffers, x)
    for i, model in enumerate(models):
        model(x).square().mean().backward()
        for key, parameter in model.named_parameters():
            np.testing.assert_allclose(found[key][i].detach().numpy(), parameter.grad.numpy(), 1e-9, 1e-10)


@pytest.mark.parametrize("name", [name for name in MODULES if name != "batch norm"])
def test_gradients_of_samples(name: str) -> None:
    make, shape = MODULES[name]
    gc.manual_seed(0)
    model = make().double()
    x = gc.tensor(np.random.default_rng(0).standard_normal(shape))
    parameters = {key: p.detach() for key, p in model.named_parameters()}

    def loss(parameters: Any, sample: Any) -> Any:
        return functional_call(model, parameters, (sample[None],)).square().sum()

    found = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
    for i, sample in enumerate(x):
        model.zero_grad()
        model(sample[None]).square().sum().backward()
        for key, parameter in model.named_parameters():
            np.testing.assert_allclose(found[key][i].numpy(), parameter.grad.numpy(), 1e-9, 1e-10)


def test_running_statistics_that_samples_share_are_refused_and_kept() -> None:
    model = nn.BatchNorm1d(2)
    with pytest.raises(RuntimeError, match="Batch norm got a batched tensor as input while the running_mean"):
        vmap(model)(gc.ones(3, 4, 2))
    assert (model.running_mean.tolist(), model.running_var.tolist()) == ([0.0, 0.0], [1.0, 1.0])
    assert vmap(model.eval())(gc.ones(3, 4, 2)).shape == (3, 4, 2)


def test_batch_norms_without_running_statistics() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), nn.InstanceNorm1d(3))
    assert replace_all_batch_norm_modules_(model) is model
    norms = [model[0], model[1][1]]
    assert all((n.running_mean, n.running_var, n.track_running_stats) == (None, None, False) for n in norms)
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.0.weight", "1.0.bias", "1.1.weight", "1.1.bias"]
    x = gc.tensor(np.random.default_rng(0).standard_normal((3, 5, 2)))
    part = model[:2].double().eval()
    found = vmap(part)(x)
    for out, sample in zip(found, x, strict=True):
        np.testing.assert_allclose(out.detach().numpy(), part(sample).detach().numpy(), 1e-12)
    np.testing.assert_allclose(found.mean(1).detach().numpy(), 0, atol=1e-12)


@pytest.mark.parametrize(("randomness", "equal"), [("same", True), ("different", False)])
def test_dropout(randomness: str, equal: bool) -> None:
    gc.manual_seed(0)
    drop = nn.Dropout(0.5)
    found = vmap(grad(lambda x: drop(x).sum()), randomness=randomness)(gc.ones(2, 64))
    assert set(found.flatten().tolist()) == {0.0, 2.0}
    assert bool((found[0] == found[1]).all()) is equal


def test_embeddings_of_samples() -> None:
    table = gc.tensor(np.random.default_rng(0).standard_normal((5, 3)))
    words = gc.tensor([[0, 1, 1], [4, 0, 2]])
    found = vmap(grad(lambda t, w: F.embedding(w, t).prod(0).sum()), in_dims=(None, 0))(table, words)
    for i, row in enumerate(words):
        leaf = table.clone().requires_grad_()
        F.embedding(row, leaf).prod(0).sum().backward()
        np.testing.assert_allclose(found[i].numpy(), leaf.grad.numpy(), 1e-12)
