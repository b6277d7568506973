"""What type checkers must accept, and infer, of a program that uses gradcore; it is checked, not run."""

from typing import Any, assert_type

import gradcore
from gradcore import Tensor, nn
from gradcore.nn import functional as F

# -- creation -------------------------------------------------------------------------------------------------

x = gradcore.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=gradcore.float64, requires_grad=True)
assert_type(x, Tensor)
assert_type(gradcore.full((2, 2), 0.5), Tensor)
assert_type(gradcore.zeros(2, 2), Tensor)
assert_type(gradcore.eye(3, dtype=gradcore.float64, requires_grad=True), Tensor)
gradcore.eye(3, shape=3)  # type: ignore[call-arg]
gradcore.optim.Adam([gradcore.zeros(2)], lr="fast")  # type: ignore[arg-type]
assert_type(gradcore.ones_like(x), Tensor)
assert_type(gradcore.arange(4), Tensor)
assert_type(gradcore.randn(2, 3, generator=gradcore.Generator().manual_seed(0)), Tensor)

# -- attributes -----------------------------------------------------------------------------------------------

assert_type(x.shape, gradcore.Size)
assert_type(x.dtype, gradcore.dtype)
assert_type(x.device, gradcore.device)
assert_type(x.ndim, int)
assert_type(x.requires_grad, bool)
assert_type(x.grad, Tensor | None)
assert_type(x.mT, Tensor)

# -- operators ------------------------------------------------------------------------------------------------

assert_type(2 * x + x / 3 - x**2, Tensor)
assert_type(x @ x, Tensor)
assert_type(-x, Tensor)
assert_type(x >= 0, Tensor)
assert_type(x == 0, Tensor)
assert_type(x != x, Tensor)
assert_type((x > 0) & ~(x < 3), Tensor)
assert_type(x[0, 1:], Tensor)
assert_type(bool((x <= 4).all()), bool)
x.detach()[0] = 1.0
for row in x:
    assert_type(row, Tensor)

# -- methods and functions ------------------------------------------------------------------------------------

assert_type(x.exp().sum(dim=0, keepdim=True), Tensor)
assert_type(x.detach().clone().add_(1), Tensor)
assert_type(x.to(gradcore.float32), Tensor)
assert_type(x.reshape(4), Tensor)
assert_type(gradcore.tanh(x), Tensor)
assert_type(gradcore.maximum(x, x), Tensor)
assert_type(gradcore.linalg.det(x), Tensor)
assert_type(F.softmax(x, dim=1), Tensor)
assert_type(gradcore.where(x > 0, x, 0.0), Tensor)

# -- gradients ------------------------------------------------------------------------------------------------

(x * x).sum().backward(retain_graph=True)
gradients: tuple[Tensor, ...] = gradcore.autograd.grad((x * x).sum(), x, create_graph=True)
handle = x.register_hook(lambda grad: grad * 2)
handle.remove()
with gradcore.no_grad():
    x.zero_()


@gradcore.no_grad()
def frozen(t: Tensor) -> Tensor:
    """Return the value of `t` without its history."""
    return t * 1


assert_type(frozen(x), Tensor)


class Square(gradcore.autograd.Function):
    """The square, with its own derivative."""

    @staticmethod
    def forward(ctx: Any, t: Tensor) -> Tensor:
        """Save `t`; return its square."""
        ctx.save_for_backward(t)
        return t * t

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Twice `t`, times the upstream gradient."""
        (t,) = ctx.saved_tensors
        return 2 * t * grads[0]


squares: Tensor = Square.apply(x)

# -- modules --------------------------------------------------------------------------------------------------


class Network(nn.Module):
    """A parameter and a method."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(gradcore.zeros(width, width))

    def forward(self, t: Tensor) -> Tensor:
        """Apply a linear map and a nonlinearity."""
        return (t @ self.weight).tanh()


network = Network(2)
output: Tensor = network(x)
assert_type(network.weight, nn.Parameter)
for parameter in network.parameters():
    parameter.detach().sub_(0.1)

layers = nn.Sequential(nn.Conv2d(1, 4, 3, padding="same"), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten())
assert_type(nn.ReLU(), nn.ReLU)
assert_type(nn.Linear(2, 3).weight, Tensor)
assert_type(layers.eval(), nn.Sequential)
nn.ReLU(3.5)  # type: ignore[arg-type]
