"""Influence functions: what leaving out a training point would change (Koh and Liang, 2017).

The change of a test loss is g_test^T H^-1 g_train / n. The product with the inverse of the Hessian comes from
conjugate gradients, which need products of the Hessian with vectors only. Retraining shows how good that is.
"""

import numpy as np

import gradcore as torch

REGULARISATION = 0.05


def loss_of(w, x, y):
    """Compute the logistic loss of each point, with a penalty on large weights."""
    return torch.nn.functional.softplus(-y * (x @ w)) + REGULARISATION / 2 * (w @ w)


def hessian_times(loss, w, v):
    """Compute the product of the Hessian of a loss and a vector."""
    (gradient,) = torch.autograd.grad(loss, w, create_graph=True)
    (product,) = torch.autograd.grad(gradient @ v, w)
    return product


def conjugate_gradients(multiply, b, steps=30, tolerance=1e-10):
    """Solve A x = b, where ``multiply(v)`` is A v for a positive definite A."""
    x, r = torch.zeros_like(b), b.clone()
    p, size = r.clone(), r @ r
    for _ in range(steps):
        if size < tolerance:
            break
        q = multiply(p)
        step = size / (p @ q)
        x += step * p
        r -= step * q
        size, before = r @ r, size
        p = r + size / before * p
    return x


def trained(x, y, w=None, steps=8):
    """Minimize the mean loss by Newton's method, and return the weights."""
    w = torch.zeros(x.shape[1], dtype=x.dtype) if w is None else w.clone()
    for _ in range(steps):
        w = w.detach().requires_grad_()
        loss = loss_of(w, x, y).mean()
        (gradient,) = torch.autograd.grad(loss, w, create_graph=True)
        step = conjugate_gradients(lambda v, g=gradient, w=w: torch.autograd.grad(g @ v, w, retain_graph=True)[0],
                                   gradient.detach())  # fmt: skip
        w = w - step
    return w.detach()


def main(points=200, size=6, left_out=20):
    """Compare predicted changes with those of retraining; return both."""
    random = np.random.default_rng(0)
    x = torch.tensor(random.normal(size=(points + 1, size)))
    noise = torch.tensor(random.normal(size=points + 1))
    y = torch.sign(x @ torch.linspace(-1, 1, size, dtype=x.dtype) + noise)
    test_x, test_y, x, y = x[-1], y[-1], x[:-1], y[:-1]
    w = trained(x, y).requires_grad_()

    (g_test,) = torch.autograd.grad(loss_of(w, test_x, test_y), w)
    loss = loss_of(w, x, y).mean()
    direction = conjugate_gradients(lambda v: hessian_times(loss_of(w, x, y).mean(), w, v), g_test)
    predicted, real = [], []
    for i in range(left_out):
        (g_train,) = torch.autograd.grad(loss_of(w, x[i], y[i]), w)
        predicted.append((direction @ g_train / points).item())
        rest = [j for j in range(points) if j != i]
        other = trained(x[rest], y[rest], w.detach(), steps=4)
        real.append((loss_of(other, test_x, test_y) - loss_of(w, test_x, test_y)).item())
    correlation = float(np.corrcoef(predicted, real)[0, 1])
    assert correlation > 0.99, "predictions agree with retraining"
    return {"loss": loss.item(), "predicted": predicted, "real": real, "correlation": correlation}


if __name__ == "__main__":
    print(f"correlation of predicted and real changes: {main()['correlation']:.4f}")
