"""PyTorch's and gradcore's tensors in one expression: an error that names both and says how to convert."""

import operator

import numpy as np
import pytest

import gradcore as gc

torch = pytest.importorskip("torch")

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.matmul, operator.lt]
OPERATORS += [operator.iadd, operator.eq, operator.mod, operator.floordiv]
NAMES = ["sin", "add", "mul", "cat", "stack", "matmul", "where", "softmax", "sum", "reshape", "einsum", "maximum"]
NAMES += ["nn.functional.relu", "nn.functional.linear", "nn.functional.mse_loss", "linalg.norm", "fft.fft"]


def arguments(name, mine, other):
    """Arguments of a function in which `other` stands at one place."""
    if name in ("cat", "stack"):
        return ([mine, other],)
    if name == "einsum":
        return "i,i->i", mine, other
    if name == "where":
        return mine > 0, mine, other
    two = ("add", "mul", "matmul", "maximum", "nn.functional.linear", "nn.functional.mse_loss")
    extra = {"softmax": (0,), "reshape": ((-1,),)}.get(name, ())
    return (mine, other) if name in two else (other, *extra)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.__name__)
def test_operators(op, requires_grad):
    a = gc.ones(2, requires_grad=requires_grad) * 1
    b = torch.ones(2, requires_grad=requires_grad) * 1
    for pair in ((a, b), (b, a)):
        with pytest.raises(TypeError, match="from_dlpack"):
            op(*pair)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("library", [gc, torch], ids=["gradcore", "torch"])
def test_functions(library, name):
    mine, other = (gc.ones(2), torch.ones(2)) if library is gc else (torch.ones(2), gc.ones(2))
    function = operator.attrgetter(name)(library)
    with pytest.raises(TypeError) as caught:
        function(*arguments(name, mine, other))
    assert "Tensor" in str(caught.value)
    assert "RecursionError" not in repr(caught.value.__context__)


def test_modules():
    with pytest.raises(TypeError, match="from_dlpack"):
        gc.nn.Linear(2, 2)(torch.ones(2))
    with pytest.raises(TypeError, match="from_dlpack"):
        torch.nn.Linear(2, 2)(gc.ones(2))


def test_conversion_as_the_message_says():
    t = torch.arange(3.0)
    mine = gc.from_dlpack(t)
    mine[0] = 5
    assert t[0] == 5
    assert torch.from_dlpack(mine).tolist() == [5, 1, 2]


def test_a_class_of_ones_own_may_take_both():
    class Both:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    assert gc.add(Both(), gc.ones(2)) == "add"
    assert torch.add(torch.ones(2), Both()) == "add"


def test_arrays_are_still_operands():
    assert (np.ones(2) * gc.ones(2)).tolist() == [1, 1]
