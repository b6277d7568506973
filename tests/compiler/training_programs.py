"""Eight small programs of the kind that people train, for gradcore and PyTorch alike: each builds a list of `Part`.

``python -m tests.compiler.training_programs`` times a training step of each: eagerly, compiled, with PyTorch, and with
`torch.compile`.
"""

from __future__ import annotations

import importlib
import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np


class Part(NamedTuple):
    """A loss that a training step minimizes: a step takes the parts in turn.

    Attributes
    ----------
    function : callable
        ``function(*batch)`` returns the loss, or a tuple whose last element is the loss.
    parameters : list of Tensor
    batch : callable
        Return the arguments of the step with a number.
    """

    function: Callable[..., Any]
    parameters: list[Any]
    batch: Callable[[int], tuple[Any, ...]]


def _random(lib: Any, *shape: int) -> Callable[[int], tuple[Any, ...]]:
    """Return a function of the number of a step that returns an array of normal numbers."""
    return lambda i: (lib.tensor(np.random.default_rng(i).standard_normal(shape).astype("f4")),)


def _mlp(lib: Any, *sizes: int) -> Any:
    layers = [lib.nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    return lib.nn.Sequential(*[each for layer in layers for each in (layer, lib.nn.Tanh())][:-1])


def nano_gpt(lib: Any) -> list[Part]:
    """Return a transformer that returns logits and loss."""
    nn, F, width, length, heads, letters = lib.nn, lib.nn.functional, 32, 16, 4, 27

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            n, t, c = x.shape
            q, k, v = self.attend(self.norm1(x)).split(c, dim=2)
            q, k, v = (each.view(n, t, heads, c // heads).transpose(1, 2) for each in (q, k, v))
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
            scores = scores.masked_fill(lib.ones(t, t).tril() == 0, float("-inf"))
            x = x + self.project((F.softmax(scores, -1) @ v).transpose(1, 2).contiguous().view(n, t, c))
            return x + self.narrow(F.gelu(self.widen(self.norm2(x))))

    class GPT(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(length, width)
            self.blocks, self.norm = nn.ModuleList([Block(), Block()]), nn.LayerNorm(width)
            self.head = nn.Linear(width, letters, bias=False)

        def forward(self, x: Any, y: Any) -> Any:
            h = self.letters(x) + self.places(lib.arange(x.shape[1]))
            for block in self.blocks:
                h = block(h)
            logits = self.head(self.norm(h))
            return logits, F.cross_entropy(logits.view(-1, letters), y.view(-1))

    def batch(i: int) -> tuple[Any, Any]:
        text = np.random.default_rng(i).integers(0, letters, (4, length + 1))
        return lib.tensor(text[:, :-1].copy()), lib.tensor(text[:, 1:].copy())

    model = GPT()
    return [Part(model, [*model.parameters()], batch)]


def vae(lib: Any) -> list[Part]:
    """Return a variational autoencoder that draws its noise inside and returns the reconstruction and the loss."""
    F, encode, decode = lib.nn.functional, _mlp(lib, 20, 32, 8), _mlp(lib, 4, 32, 20)

    def loss(x: Any) -> Any:
        mean, log_variance = encode(x).chunk(2, dim=1)
        z = mean + (0.5 * log_variance).exp() * lib.randn_like(mean)
        image = lib.sigmoid(decode(z))
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1).mean()
        return image, F.binary_cross_entropy(image, lib.sigmoid(x), reduction="sum") / len(x) + divergence

    return [Part(loss, [*encode.parameters(), *decode.parameters()], _random(lib, 16, 20))]


def gan(lib: Any) -> list[Part]:
    """Return a generator and a discriminator with separate losses."""
    F, generator, judge = lib.nn.functional, _mlp(lib, 4, 16, 2), _mlp(lib, 2, 16, 1)
    ones, zeros = lib.ones(16, 1), lib.zeros(16, 1)

    def loss_of_judge(real: Any) -> Any:
        made = generator(lib.randn(16, 4)).detach()
        cross_entropy = F.binary_cross_entropy_with_logits
        return cross_entropy(judge(real), ones) + cross_entropy(judge(made), zeros)

    def loss_of_generator() -> Any:
        made = generator(lib.randn(16, 4))
        return made, F.binary_cross_entropy_with_logits(judge(made), ones)

    return [
        Part(loss_of_judge, [*judge.parameters()], _random(lib, 16, 2)),
        Part(loss_of_generator, [*generator.parameters()], lambda i: ()),
    ]


def policy_gradient(lib: Any) -> list[Part]:
    """REINFORCE: actions are drawn from a distribution inside."""
    policy = _mlp(lib, 4, 32, 3)

    def loss(states: Any) -> Any:
        actions = lib.distributions.Categorical(logits=policy(states))
        taken = actions.sample()
        reward = (taken == states[:, :3].argmax(1)).float()
        return reward.mean(), -(actions.log_prob(taken) * (reward - reward.mean())).mean()

    return [Part(loss, [*policy.parameters()], _random(lib, 32, 4))]


def maml(lib: Any) -> list[Part]:
    """Return a loss after a step of gradient descent, differentiated through that step."""
    F, net = lib.nn.functional, _mlp(lib, 1, 16, 16, 1)
    parameters = [*net.parameters()]

    def run(weights: Any, x: Any) -> Any:
        for i in range(0, len(weights), 2):
            x = F.linear(x, weights[i], weights[i + 1])
            x = lib.tanh(x) if i + 2 < len(weights) else x
        return x

    def loss(x: Any, y: Any) -> Any:
        total = 0.0
        for task in range(2):
            inner = F.mse_loss(run(parameters, x[task]), y[task])
            grads = lib.autograd.grad(inner, parameters, create_graph=True)
            adapted = [p - 0.1 * g for p, g in zip(parameters, grads, strict=True)]
            total = total + F.mse_loss(run(adapted, x[task] + 0.5), lib.sin(x[task] + 0.5) * (task + 1))
        return total

    def batch(i: int) -> tuple[Any, Any]:
        (x,) = _random(lib, 2, 10, 1)(i)
        return x, lib.stack([lib.sin(x[0]), 2 * lib.sin(x[1])])

    return [Part(loss, parameters, batch)]


def flow(lib: Any) -> list[Part]:
    """Return a normalizing flow of affine coupling layers that returns the latent values and the loss."""
    nets = [_mlp(lib, 2, 16, 4) for _ in range(4)]

    def loss(x: Any) -> Any:
        log_volume = 0.0
        for i, net in enumerate(nets):
            kept, moved = (x[:, :2], x[:, 2:]) if i % 2 else (x[:, 2:], x[:, :2])
            scale, shift = net(kept).chunk(2, dim=1)
            scale = lib.tanh(scale)
            moved = moved * lib.exp(scale) + shift
            x = lib.cat([kept, moved] if i % 2 else [moved, kept], dim=1)
            log_volume = log_volume + scale.sum(1)
        return x, (0.5 * x.pow(2).sum(1) - log_volume).mean()

    return [Part(loss, [p for net in nets for p in net.parameters()], _random(lib, 32, 4))]


def neural_ode(lib: Any) -> list[Part]:
    """Runge-Kutta steps through a net."""
    F, net = lib.nn.functional, _mlp(lib, 2, 16, 2)

    def loss(x: Any) -> Any:
        y, h = x, 0.1
        for _ in range(6):
            k1 = net(y)
            k2 = net(y + 0.5 * h * k1)
            k3 = net(y + 0.5 * h * k2)
            k4 = net(y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, F.mse_loss(y, lib.stack([x[:, 1], -x[:, 0]], dim=1))

    return [Part(loss, [*net.parameters()], _random(lib, 16, 2))]


def gaussian_process(lib: Any) -> list[Part]:
    """Return the marginal likelihood of a Gaussian process by its Cholesky factor."""
    logs = [lib.nn.Parameter(lib.tensor(value)) for value in (0.0, 0.0, -1.0)]

    def loss(x: Any) -> Any:
        width, height, noise = (each.exp() for each in logs)
        distances = (x - x.T) / width
        covariance = height * (-0.5 * distances.pow(2)).exp() + noise * lib.eye(24)
        factor = lib.linalg.cholesky(covariance)
        solved = lib.linalg.solve_triangular(factor, lib.sin(2 * x), upper=False)
        return factor, 0.5 * solved.pow(2).sum() + lib.log(lib.diagonal(factor)).sum()

    return [Part(loss, logs, _random(lib, 24, 1))]


PROGRAMS = (nano_gpt, vae, gan, policy_gradient, maml, flow, neural_ode, gaussian_process)


def train(lib: Any, program: Callable[[Any], list[Part]], compiles: Callable[[Any], Any]) -> Iterator[list[Any]]:
    """Yield the losses of each training step and, after them, the values of all parameters."""
    lib.manual_seed(0)
    parts = [(compiles(part.function), part, lib.optim.Adam(part.parameters, lr=1e-3)) for part in program(lib)]
    for i in range(sys.maxsize):
        found = []
        for function, part, optimizer in parts:
            optimizer.zero_grad()
            result = function(*part.batch(i % 20))
            loss = result[-1] if isinstance(result, tuple) else result
            loss.backward()
            optimizer.step()
            found.append(loss.detach())
        yield found + [p.detach() for _, part, _ in parts for p in part.parameters]


def _measure(rounds: int = 9) -> None:
    """Print the CPU time of a step of each program, and its ratio to that of eager execution, in turns."""
    gc, torch = importlib.import_module("gradcore"), importlib.import_module("torch")
    for lib in (gc, torch):
        lib.set_num_threads(1)
    for program in PROGRAMS:
        runs = {
            "eager": train(gc, program, lambda f: f),
            "NumPy": train(gc, program, lambda f: gc.compile(f, options={"cpp": False})),
            "C++": train(gc, program, lambda f: gc.compile(f, options={"cpp": "wait"})),
            "torch": train(torch, program, lambda f: f),
            "torch.compile": train(torch, program, torch.compile),
        }
        refused = [name for name, run in runs.items() if not _can_run(name, run)]
        for name in refused:
            del runs[name]
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(rounds):
            for name, run in runs.items():
                start = time.thread_time()
                for _ in range(20):
                    next(run)
                times[name].append((time.thread_time() - start) / 20)
        eager = times["eager"]
        ratios = {name: statistics.median(map(_ratio, each, eager)) for name, each in times.items()}
        texts = [f"{name} {ratio:.2f}" for name, ratio in ratios.items()] + [f"{name} refuses" for name in refused]
        print(f"{program.__name__:18} {statistics.median(eager) * 1e6:8.0f} us", *texts, flush=True)


def _can_run(name: str, run: Iterator[Any]) -> bool:
    """Take the first steps, in which programs are compiled; return False if PyTorch cannot compile the function."""
    try:
        for _ in range(20):
            next(run)
    except Exception as error:
        if name != "torch.compile":
            raise
        print(f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}", flush=True)
        return False
    return True


def _ratio(time: float, base: float) -> float:
    return time / base


if __name__ == "__main__":
    _measure()
