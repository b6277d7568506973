"""Derivatives of derivatives, and gradients of every sample."""

import itertools
from typing import ClassVar

from benchmarks.cases.base import Case, normal, weights

NOT_COMPILED: dict[str, str] = {"torch.compile": "does not compile double backward"}


class HigherOrder(Case, abstract=True):
    """The styles return all results."""

    group = "higher order"
    differentiated = False
    skips: ClassVar = NOT_COMPILED


def net(parameters, x):
    """Three layers with tanh."""
    w1, b1, w2, b2, w3, b3 = parameters
    return ((x @ w1 + b1).tanh() @ w2 + b2).tanh() @ w3 + b3


def jax_net(parameters, x):
    """Compute the same network with JAX, whose arrays have no method for the activation."""
    import jax.numpy as jnp

    w1, b1, w2, b2, w3, b3 = parameters
    return jnp.tanh(jnp.tanh(x @ w1 + b1) @ w2 + b2) @ w3 + b3


def net_parameters(random, *widths):
    """Draw weights and biases."""
    made = []
    for fan_in, fan_out in itertools.pairwise(widths):
        made += [weights(random, fan_out, fan_in).T.copy(), normal(random, fan_out)]
    return tuple(made)


class HessianVectorProduct(HigherOrder):
    """Of the loss of a net of three layers, by backward through backward."""

    sizes = (32,)

    def inputs(self, random):
        parameters = net_parameters(random, 20, 64, 64, 1)
        vectors = tuple(normal(random, *p.shape) for p in parameters)
        return parameters, (normal(random, self.size, 20), *vectors)

    def torch_style(self, T, *tensors):
        parameters, (x, *vectors) = tensors[:6], tensors[6:]
        loss = (net(parameters, x) ** 2).mean()
        gradients = T.autograd.grad(loss, parameters, create_graph=True)
        return T.autograd.grad(sum((g * v).sum() for g, v in zip(gradients, vectors, strict=True)), parameters)

    def jax_style(self, np, *arrays):
        import jax

        parameters, (x, *vectors) = arrays[:6], arrays[6:]
        gradient = jax.grad(lambda ps: (jax_net(ps, x) ** 2).mean())
        return jax.jvp(gradient, (parameters,), (tuple(vectors),))[1]


class RosenbrockHessian(HigherOrder):
    """The whole Hessian of Rosenbrock's function, by `autograd.functional.hessian`."""

    sizes = (50,)

    def inputs(self, random):
        return (), (normal(random, self.size),)

    @staticmethod
    def function(x):
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    def torch_style(self, T, x):
        return (T.autograd.functional.hessian(self.function, x),)

    def jax_style(self, np, x):
        import jax

        return (jax.hessian(self.function)(x),)

    @property
    def traffic(self):
        return 4 * self.size**2


class FunctionalHessian(RosenbrockHessian):
    """The same by `func.hessian`."""

    def torch_style(self, T, x):
        return (T.func.hessian(self.function)(x),)

    jax_style = None


class MLPHessian(HigherOrder):
    """Of the loss of a net of three layers with respect to its second weight, by `func.hessian`."""

    sizes = (32,)

    def inputs(self, random):
        return (), (normal(random, self.size, 8), *net_parameters(random, 8, 12, 12, 1))

    def torch_style(self, T, x, *parameters):
        w1, b1, w2, *rest = parameters
        return (T.func.hessian(lambda w: (net((w1, b1, w, *rest), x) ** 2).mean())(w2),)

    def jax_style(self, np, x, *parameters):
        import jax

        w1, b1, w2, *rest = parameters
        return (jax.hessian(lambda w: (jax_net((w1, b1, w, *rest), x) ** 2).mean())(w2),)


class Vmap(HigherOrder):
    """A function of one pair of points for all pairs of `size` points, by two `func.vmap`."""

    sizes = (100,)
    skips: ClassVar = {}

    def inputs(self, random):
        return (), (normal(random, self.size, 3),)

    def torch_style(self, T, points):
        def kernel(a, b):
            return (-((a - b) ** 2).sum()).exp()

        return (T.func.vmap(lambda a: T.func.vmap(lambda b: kernel(a, b))(points))(points),)

    def jax_style(self, np, points):
        import jax

        def kernel(a, b):
            return np.exp(-((a - b) ** 2).sum())

        return (jax.vmap(lambda a: jax.vmap(lambda b: kernel(a, b))(points))(points),)


class GradientPenalty(Case):
    """The mean of a net, and how far the norm of its gradient with respect to the inputs is from 1, differentiated."""

    group, sizes = "higher order", (64,)
    skips: ClassVar = NOT_COMPILED

    def inputs(self, random):
        return net_parameters(random, 32, 64, 64, 1), (normal(random, self.size, 32),)

    def torch_style(self, T, *tensors):
        parameters, x = tensors[:6], tensors[6].detach().requires_grad_()
        scores = net(parameters, x)
        (gradient,) = T.autograd.grad(scores.sum(), x, create_graph=True)
        return scores.mean() + ((gradient.norm(dim=1) - 1) ** 2).mean()

    def jax_style(self, np, *arrays):
        import jax

        parameters, x = arrays[:6], arrays[6]
        gradient = jax.grad(lambda x: jax_net(parameters, x).sum())(x)
        return jax_net(parameters, x).mean() + ((np.linalg.norm(gradient, axis=1) - 1) ** 2).mean()


class PerSampleGradients(HigherOrder):
    """The gradient of every sample's loss, by `func.vmap` of `func.grad`."""

    sizes = (64,)

    def inputs(self, random):
        return (), (*net_parameters(random, 32, 64, 64, 1), normal(random, self.size, 32))

    @staticmethod
    def loss(parameters, x):
        return (net(parameters, x) ** 2).sum()

    def torch_style(self, T, *tensors):
        return T.func.vmap(T.func.grad(self.loss), in_dims=(None, 0))(tensors[:6], tensors[6])

    def jax_style(self, np, *arrays):
        import jax

        gradient = jax.grad(lambda ps, x: (jax_net(ps, x) ** 2).sum())
        return jax.vmap(gradient, in_axes=(None, 0))(arrays[:6], arrays[6])
