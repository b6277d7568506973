"""A neural ordinary differential equation, with gradients by the adjoint method (Chen et al., 2018).

The field of a spiral is learned from points of one trajectory. The solver is an operation of its own, whose backward
solves the adjoint equation backwards in time and keeps nothing of the forward solution but its points.
"""

import numpy as np

import gradcore as torch


class Field(torch.nn.Module):
    """dy/dt = net(y)."""

    def __init__(self, random):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 20), torch.nn.Tanh(), torch.nn.Linear(20, 2)).double()
        with torch.no_grad():
            for p in self.net.parameters():
                p.copy_(torch.tensor(random.normal(size=tuple(p.shape)) * 0.2))

    def forward(self, y):
        return self.net(y)


def runge_kutta(f, y, h):
    """One step of the classical method, for a tuple of tensors."""
    k1 = f(y)
    k2 = f(tuple(a + h / 2 * k for a, k in zip(y, k1, strict=True)))
    k3 = f(tuple(a + h / 2 * k for a, k in zip(y, k2, strict=True)))
    k4 = f(tuple(a + h * k for a, k in zip(y, k3, strict=True)))
    return tuple(a + h / 6 * (p + 2 * q + 2 * r + s) for a, p, q, r, s in zip(y, k1, k2, k3, k4, strict=True))


def trajectory(field, y, h, steps):
    """Integrate from `y`, and return the points of the trajectory as one tensor."""
    points = [y]
    for _ in range(steps):
        points.append(runge_kutta(lambda y: (field(y[0]),), (points[-1],), h)[0])
    return torch.stack(points)


class Solve(torch.autograd.Function):
    """The trajectory, with the adjoint method as its backward."""

    @staticmethod
    def forward(ctx, y, field, h, steps, *parameters):
        points = trajectory(field, y, h, steps)
        ctx.save_for_backward(points, *parameters)
        ctx.field, ctx.h = field, h
        return points

    @staticmethod
    def backward(ctx, grad):
        points, *parameters = ctx.saved_tensors

        def adjoint(state):
            y, a, *_ = state
            with torch.enable_grad():
                y = y.detach().requires_grad_()
                slope = ctx.field(y)
                products = torch.autograd.grad(slope, (y, *parameters), a)
            return (slope.detach(), *(-p for p in products))

        a = grad[-1]
        sums = tuple(torch.zeros_like(p) for p in parameters)
        for i in range(len(points) - 1, 0, -1):
            _, a, *sums = runge_kutta(adjoint, (points[i], a, *sums), -ctx.h)
            a = a + grad[i - 1]
        return (a, None, None, None, *sums)


def main(rounds=60, h=0.1, steps=15):
    """Fit the field; return losses, and how far the adjoint method is from gradients through the solver."""
    random = np.random.default_rng(0)
    field = Field(random)
    true = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]], dtype=torch.float64)
    start = torch.tensor([2.0, 0.0], dtype=torch.float64)
    with torch.no_grad():
        target = trajectory(lambda y: y @ true, start, h, steps)
    parameters = list(field.parameters())

    def loss_of(points):
        return (points - target).square().mean()

    exact = torch.autograd.grad(loss_of(trajectory(field, start, h, steps)), parameters)
    found = torch.autograd.grad(loss_of(Solve.apply(start, field, h, steps, *parameters)), parameters)
    error = max(((a - b).norm() / b.norm()).item() for a, b in zip(found, exact, strict=True))

    optimizer = torch.optim.Adam(parameters, lr=0.05)
    losses = []
    for _ in range(rounds):
        optimizer.zero_grad()
        loss = loss_of(Solve.apply(start, field, h, steps, *parameters))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert error < 1e-6, "the adjoint method finds the gradients of the solver, up to the solver's error"
    assert losses[-1] < 0.01 * losses[0], "the field has been learned"
    return {"losses": [losses[0], losses[-1]], "error": error}


if __name__ == "__main__":
    result = main()
    print("mean square distance from the spiral: {:.3f} at first, {:.4f} at last".format(*result["losses"]))
    print(f"relative error of the adjoint gradients: {result['error']:.1e}")
