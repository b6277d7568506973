"""Score matching: the gradient of a log-density from samples, with traces of Jacobians (Hyvarinen, 2005).

The loss E[tr(ds/dx) + |s|^2 / 2] needs no density. The Jacobians of all samples come from `vmap` over `jacrev` of the
network as a function of its parameters; the loss is then differentiated once more.
"""

import numpy as np

import gradcore as torch
from gradcore.func import functional_call, jacrev, vmap

CENTRES, WIDTH = [[-1.5, 0.0], [1.5, 0.0]], 0.7


def true_score(x):
    """Compute the gradient of the log density of a mixture of normal distributions."""
    offsets = torch.tensor(CENTRES, dtype=x.dtype)[:, None, :] - x
    weights = torch.softmax(-(offsets**2).sum(-1) / (2 * WIDTH**2), dim=0)
    return (weights[..., None] * offsets).sum(0) / WIDTH**2


def main(rounds=150, samples=128):
    """Train; return the loss at the start and at the end, and how much of the score is explained."""
    random = np.random.default_rng(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2)).double()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.tensor(random.normal(size=tuple(p.shape)) * 0.3))
    parameters = dict(net.named_parameters())

    def score(parameters, x):
        return functional_call(net, parameters, (x,))

    def loss_of(parameters, x):
        jacobians = vmap(jacrev(score, argnums=1), in_dims=(None, 0))(parameters, x)
        trace = jacobians.diagonal(dim1=-2, dim2=-1).sum(-1)
        return (trace + (score(parameters, x) ** 2).sum(-1) / 2).mean()

    def drawn(n):
        centres = np.array(CENTRES)[random.integers(0, 2, n)]
        return torch.tensor(centres + WIDTH * random.normal(size=(n, 2)))

    optimizer = torch.optim.Adam(parameters.values(), lr=0.02)
    losses = []
    for _ in range(rounds):
        optimizer.zero_grad()
        loss = loss_of(parameters, drawn(samples))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    x = drawn(500)
    with torch.no_grad():
        explained = 1 - ((net(x) - true_score(x)) ** 2).sum() / (true_score(x) ** 2).sum()
    first, last = np.mean(losses[:10]), np.mean(losses[-10:])
    assert last < first - 0.5, "the loss falls"
    assert explained > 0.8, "the network has learned the score"
    return {"first": float(first), "last": float(last), "explained": explained.item()}


if __name__ == "__main__":
    result = main()
    print(f"loss {result['first']:.3f} at first, {result['last']:.3f} at last")
    print(f"{result['explained']:.1%} of the score are explained")
