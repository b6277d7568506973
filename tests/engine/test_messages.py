"""What users are told when something cannot be done: PyTorch's words, which people search for."""

import pytest

import gradcore as gc

x = gc.ones(2, 3, requires_grad=True)


def twice():
    y = (x * x).sum()
    y.backward()
    y.backward()


def changed():
    y = x * 1
    z = (y * y).sum()
    y.add_(1)
    z.backward()


class Wrong(gc.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a * b

    @staticmethod
    def backward(ctx, grad):
        return grad


class Misshapen(Wrong):
    @staticmethod
    def backward(ctx, grad):
        return grad[:1, :1].expand(7, 7), grad


MESSAGES = {
    "shapes": (lambda: gc.ones(2) + gc.ones(3), r"The size of tensor a \(2\) must match the size of tensor b \(3\)"),
    "matmul": (lambda: gc.ones(2, 3) @ gc.ones(4, 5), r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)"),
    "integers": (
        lambda: gc.ones(2, dtype=gc.int64).requires_grad_(),
        "only Tensors of floating point dtype can require gradients",
    ),
    "new integers": (lambda: gc.tensor([1], requires_grad=True), "Only Tensors of floating point and complex dtype"),
    "not a scalar": (lambda: (x * 2).backward(), "grad can be implicitly created only for scalar outputs"),
    "no graph": (
        lambda: gc.ones(1).backward(),
        "element 0 of tensors does not require grad and does not have a grad_fn",
    ),
    "twice": (twice, "Trying to backward through the graph a second time"),
    "changed": (
        changed,
        r"modified by an inplace operation: \[torch.FloatTensor \[2, 3\]\], which is .*; expected version",
    ),
    "leaf": (lambda: x.add_(1), "a leaf Variable that requires grad is being used in an in-place operation"),
    "view of a leaf": (
        lambda: x[0].add_(1),
        "a view of a leaf Variable that requires grad is being used in an in-place",
    ),
    "gradient's shape": (lambda: (x * 2).backward(gc.ones(3)), r"Mismatch in shape: grad_output\[0\] has a shape of"),
    "unused": (
        lambda: gc.autograd.grad(x.sum(), gc.ones(1, requires_grad=True)),
        "appears to not have been used in the graph. Set allow_unused=True",
    ),
    "number of gradients": (
        lambda: Wrong.apply(x, x).sum().backward(),
        r"function WrongBackward returned an incorrect number of gradients \(expected 2, got 1\)",
    ),
    "shape of a gradient": (
        lambda: Misshapen.apply(x, x).sum().backward(),
        r"Function MisshapenBackward returned an invalid gradient at index 0 - got \[7, 7\] but expected shape "
        r"compatible with \[2, 3\]",
    ),
    "numpy": (lambda: x.numpy(), r"Can't call numpy\(\) on Tensor that requires grad. Use tensor.detach\(\).numpy\(\)"),
    "dtype": (
        lambda: gc.ones(2, dtype=gc.int64).add_(1.5),
        "result type Float can't be cast to the desired output type Long",
    ),
    "output's shape": (
        lambda: gc.ones(3).add_(gc.ones(2, 3)),
        r"output with shape \[3\] doesn't match the broadcast shape",
    ),
    "truth": (lambda: bool(gc.ones(2)), "Boolean value of Tensor with more than one value is ambiguous"),
    "device": (lambda: gc.ones(2, device="nowhere"), "Device 'nowhere' cannot be used: no backend of that type"),
    "view": (lambda: gc.ones(2, 3).t().view(6), "view size is not compatible with input tensor's size and stride"),
    "reshape": (lambda: gc.ones(2, 3).reshape(4), r"shape '\[4\]' is invalid for input of size 6"),
}


@pytest.mark.parametrize(("action", "message"), MESSAGES.values(), ids=MESSAGES)
def test_message(action, message):
    with pytest.raises((RuntimeError, TypeError, ValueError), match=message):
        action()


def test_mixed_devices(strict):
    with pytest.raises(
        RuntimeError, match=r"Expected all tensors to be on the same device.*strict:0 and cpu|cpu and strict:0"
    ):
        gc.ones(2, device=strict) + gc.ones(2)


def test_an_index_that_does_not_exist(strict):
    with pytest.raises(RuntimeError, match="Invalid device 'strict:7': 2 devices of type 'strict' are available"):
        gc.ones(2, device="strict:7")
