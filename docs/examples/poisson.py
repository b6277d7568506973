"""A physics-informed network: Poisson's equation from its residual, with second derivatives in the loss.

The network learns u on the unit square from u_xx + u_yy = f inside and u = 0 on the border, without any data.
"""

import math

import numpy as np

import gradcore as torch


class Solution(torch.nn.Module):
    """A network that is zero on the border by construction."""

    def __init__(self, random, width=24):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, width), torch.nn.Tanh(), torch.nn.Linear(width, width), torch.nn.Tanh(),
            torch.nn.Linear(width, 1),
        ).double()  # fmt: skip
        with torch.no_grad():
            for p in self.net.parameters():
                p.copy_(torch.tensor(random.normal(size=tuple(p.shape)) * (p.shape[-1] ** -0.5)))

    def forward(self, x, y):
        border = x * (1 - x) * y * (1 - y)
        return border * self.net(torch.stack([x, y], dim=-1)).squeeze(-1)


def exact(x, y):
    return torch.sin(math.pi * x) * torch.sin(math.pi * y)


def residual(u, x, y):
    """u_xx + u_yy - f, where f belongs to the exact solution."""
    value = u(x, y)
    u_x, u_y = torch.autograd.grad(value.sum(), (x, y), create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    (u_yy,) = torch.autograd.grad(u_y.sum(), y, create_graph=True)
    return u_xx + u_yy + 2 * math.pi**2 * exact(x, y)


def main(rounds=300):
    """Train; return the mean square of the residual before and after, and the largest error."""
    random = np.random.default_rng(0)
    u = Solution(random)
    x, y = (torch.tensor(random.uniform(size=200), requires_grad=True) for _ in range(2))
    parameters = list(u.parameters())
    optimizer = torch.optim.Adam(parameters, lr=0.02)
    losses = []
    for _ in range(rounds):
        optimizer.zero_grad()
        loss = (residual(u, x, y) ** 2).mean()
        loss.backward(inputs=parameters)
        optimizer.step()
        losses.append(loss.item())
    side = torch.linspace(0, 1, 21, dtype=torch.float64)
    px, py = torch.meshgrid(side, side, indexing="ij")
    with torch.no_grad():
        error = (u(px, py) - exact(px, py)).abs().max().item()
    assert losses[-1] < 1e-3 * losses[0], "the equation is solved inside"
    assert error < 0.01, "and so the solution is the exact one"
    return {"residual": [losses[0], losses[-1]], "error": error}


if __name__ == "__main__":
    result = main()
    print("mean square of the residual: {:.2e} at first, {:.2e} at last".format(*result["residual"]))
    print(f"largest error of the solution: {result['error']:.1e}")
