"""What watching costs (anomaly mode), and what moving costs (between the CPU and a GPU)."""

import numpy as np

from benchmarks.cases.base import Case, normal, positive


class AnomalyMode(Case):
    """A hundred elementwise ops with every gradient checked, and every op's place in the program kept."""

    group, sizes = "anomaly mode", (1000,)

    def inputs(self, random):
        return (positive(random, self.size),), ()

    def work(self, x):
        for _ in range(50):
            x = (x * 0.9).sin()
        return x.sum()

    def torch_setup(self, T, tensors):
        (x,) = tensors

        def step():
            with T.autograd.set_detect_anomaly(True):
                loss = self.work(x)
                loss.backward()
            gradient, x.grad = x.grad, None
            return loss, gradient

        return step


class WithoutAnomalyMode(AnomalyMode):
    """The same without, to see what it adds."""

    def torch_setup(self, T, tensors):
        return None

    def torch_style(self, T, x):
        return self.work(x)


class Transfer(Case):
    """`size` million float32 numbers to the device, through one op, and back."""

    group, sizes, large_sizes = "transfers", (1,), (16,)
    differentiated = False
    skips = {"cpu": "there is nowhere to move to", "jax": "moves when it likes", "torch.compile": "only moves"}  # noqa: RUF012

    def inputs(self, random):
        return (), (normal(random, self.size * 1_000_000),)

    def torch_setup(self, T, tensors):
        (x,) = tensors
        device, host = x.device, x.cpu()

        def step():
            return ((host.to(device) * 2).cpu(),)

        return step

    def by_hand(self, xp, x):
        return ((x * np.float32(2)),)
