"""What type checkers must infer of results: of operations with several, of containers, modules and Functions."""

from typing import Any, assert_type

import gradcore
from gradcore import Tensor, nn, return_types
from gradcore.nn import functional as F

x = gradcore.ones(2, 2, requires_grad=True)

# -- named results ----------------------------------------------------------------------------------------------------

assert_type(x.max(), Tensor)
assert_type(x.max(0), return_types.max)
assert_type(x.max(dim=1, keepdim=True).values, Tensor)
assert_type(gradcore.min(x, 1).indices, Tensor)
assert_type(gradcore.max(x, x), Tensor)
assert_type(x.median(0).values, Tensor)
assert_type(x.sort().indices, Tensor)
assert_type(gradcore.topk(x, 1), return_types.topk)
values, indices = x.topk(1)
assert_type(values, Tensor)
assert_type(gradcore.linalg.svd(x).S, Tensor)
assert_type(gradcore.linalg.eigh(x).eigenvalues, Tensor)
assert_type(gradcore.linalg.qr(x).Q, Tensor)
U, S, Vh = gradcore.linalg.svd(x)
assert_type(Vh, Tensor)

# -- composite operations ---------------------------------------------------------------------------------------------

assert_type(gradcore.where(x > 0, x, 0.0), Tensor)
assert_type(gradcore.where(x > 0), tuple[Tensor, ...])
assert_type(x.where(x > 0, x), Tensor)
assert_type(gradcore.einsum("ij,jk->ik", x, x), Tensor)
assert_type(F.softmax(x, dim=1), Tensor)
assert_type(F.cross_entropy(x, x), Tensor)
assert_type(F.max_pool2d(x[None, None], 2), Tensor)
assert_type(F.max_pool2d(x[None, None], 2, return_indices=True), tuple[Tensor, Tensor])
assert_type(gradcore.var_mean(x), tuple[Tensor, Tensor])
assert_type(x.chunk(2), tuple[Tensor, ...])
assert_type(x.nonzero(), Tensor)
assert_type(x.nonzero(as_tuple=True), tuple[Tensor, ...])
assert_type(gradcore.equal(x, x), bool)
assert_type(gradcore.unique(x), Tensor)
assert_type(x.std(dim=0), Tensor)
assert_type(x.flatten().view(4), Tensor)
assert_type(x.mT.contiguous(), Tensor)
assert_type(gradcore.fft.rfft(x), Tensor)
assert_type(gradcore.linalg.solve(x, x), Tensor)

# -- numbers and gradients --------------------------------------------------------------------------------------------

total = 0.0
total += x.sum().item()
assert_type(x.sum().item(), bool | int | float)
(gradient,) = gradcore.autograd.grad(x.sum(), x)
assert_type(gradient, Tensor)
assert_type(gradcore.autograd.grad(x.sum(), {"x": x}), dict[str, Tensor])
assert_type(gradcore.autograd.grad(x.sum(), [x], allow_unused=True), tuple[Tensor | None, ...])


class Square(gradcore.autograd.Function):
    """The square."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, n: int) -> tuple[Tensor, int]:
        """Return the square, and a number."""
        return t * t, n

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradient."""
        return grads[0], None


assert_type(Square.apply(x, 2), tuple[Tensor, int])

# -- modules ----------------------------------------------------------------------------------------------------------


class Network(nn.Module):
    """Layers, called by a forward that says what it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.norm = nn.LayerNorm(2)
        self.layers = nn.Sequential(nn.ReLU(), nn.Linear(2, 1))
        self.parts = nn.ModuleList([nn.Linear(2, 2)])

    def forward(self, t: Tensor) -> Tensor:
        """No cast is needed for what modules return."""
        return self.layers(self.norm(self.linear(t)))


network = Network()
assert_type(network(x), Tensor)
assert_type(nn.ReLU()(x), Tensor)
assert_type(network.layers[0], nn.Module)
assert_type(network.layers[1:], nn.Sequential)
for part in network.parts:
    assert_type(part, nn.Module)
assert_type(network.state_dict(), dict[str, Any])
assert_type(nn.ModuleDict({"a": network})["a"], nn.Module)
assert_type(nn.ParameterList([nn.Parameter(x)])[0], nn.Parameter)
