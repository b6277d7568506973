"""Model-agnostic meta-learning: sine waves from few points, by gradients through gradients (Finn et al., 2017).

A network is trained so that two steps of gradient descent on ten points of an unknown sine wave fit the whole wave. The
outer gradient goes through these steps, and so through their gradients.
"""

from itertools import pairwise

import numpy as np

import gradcore as torch

INNER_STEPS, INNER_RATE, POINTS, TASKS = 2, 0.05, 10, 8


def initial_parameters(random):
    """Weights and biases of a network with two hidden layers."""
    sizes = [1, 24, 24, 1]
    parameters = []
    for fan_in, fan_out in pairwise(sizes):
        parameters.append(torch.tensor(random.normal(size=(fan_in, fan_out)) * fan_in**-0.5, requires_grad=True))
        parameters.append(torch.zeros(fan_out, dtype=torch.float64, requires_grad=True))
    return parameters


def network(parameters, x):
    w1, b1, w2, b2, w3, b3 = parameters
    return torch.tanh(torch.tanh(x @ w1 + b1) @ w2 + b2) @ w3 + b3


def loss_of(parameters, task, random):
    """Compute the mean squared error at random points of a wave."""
    amplitude, phase = task
    x = torch.tensor(random.uniform(-3, 3, size=(POINTS, 1)))
    return ((network(parameters, x) - amplitude * torch.sin(x + phase)) ** 2).mean()


def adapted(parameters, task, random):
    """Return the parameters after some steps on one task, as differentiable functions of the initial parameters."""
    for _ in range(INNER_STEPS):
        loss = loss_of(parameters, task, random)
        gradients = torch.autograd.grad(loss, parameters, create_graph=True)
        parameters = [p - INNER_RATE * g for p, g in zip(parameters, gradients, strict=True)]
    return parameters


def main(rounds=120):
    """Train; return the mean losses before and after adapting, at the start and at the end."""
    random = np.random.default_rng(0)
    parameters = initial_parameters(random)
    optimizer = torch.optim.Adam(parameters, lr=5e-3)
    history = []
    for _ in range(rounds):
        optimizer.zero_grad()
        before = after = 0.0
        for task in zip(random.uniform(0.5, 2, TASKS), random.uniform(0, 3, TASKS), strict=True):
            before += loss_of(parameters, task, random).item() / TASKS
            loss = loss_of(adapted(parameters, task, random), task, random) / TASKS
            loss.backward()
            after += loss.item()
        optimizer.step()
        history.append((before, after))
    start, end = np.mean(history[:10], axis=0), np.mean(history[-10:], axis=0)
    assert end[1] < 0.35 * start[1], "adapting has become better"
    assert end[1] < 0.5 * end[0], "two steps are enough to adapt"
    return {"start": start.tolist(), "end": end.tolist()}


if __name__ == "__main__":
    for when, (before, after) in main().items():
        print(f"{when:>5}: loss {before:.3f} before adapting, {after:.3f} after")
