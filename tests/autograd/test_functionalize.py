"""Functions without effects until they end."""

import pytest

import gradcore as gc
from gradcore.func import functionalize, grad, jvp, vmap


def _shifted(a):
    b = a + 1
    b.view(-1).add_(1)
    return b


def _doubled(a):
    a.view(-1).mul_(2)
    return a


def test_results_are_those_of_the_function():
    x = gc.randn(2, 3)
    assert gc.equal(functionalize(_shifted)(x), _shifted(x))
    assert functionalize(_shifted).__name__ == "_shifted"


def test_arguments_are_written_once_at_the_end():
    x, seen = gc.ones(2, 2), []

    def watching(a):
        a.mul_(2)
        seen.append(x.tolist())
        a.add_(1)
        return a

    y = functionalize(watching)(x)
    assert seen == [[[1.0, 1.0], [1.0, 1.0]]]
    assert x.tolist() == y.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert x._version == 1
    y.zero_()
    assert x[0, 0] == 3


def test_what_is_not_written_keeps_its_version():
    x = gc.ones(2)
    functionalize(lambda a: a.sin())(x)
    assert x._version == 0


def test_containers_keywords_and_one_tensor_twice():
    x, y = gc.ones(2), gc.ones(2)
    found = functionalize(lambda pair, scale, other: {"k": pair[0].add_(scale) + other["y"]})(
        (x, 3), 2.0, other={"y": y}
    )
    assert found["k"].tolist() == [4.0, 4.0]
    assert x.tolist() == [3.0, 3.0]
    twice = functionalize(lambda a, b: (a.add_(1), b))(y, y)
    assert twice[1].tolist() == [2.0, 2.0]


def test_derivatives_and_batches():
    x = gc.tensor([1.0, 2.0], requires_grad=True)
    functionalize(lambda a: (a * a).mul_(3))(x).sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]
    assert grad(lambda a: functionalize(_doubled)(a * a).sum())(gc.ones(2)).tolist() == [4.0, 4.0]
    assert jvp(functionalize(_shifted), (gc.ones(2),), (gc.full((2,), 5.0),))[1].tolist() == [5.0, 5.0]
    assert vmap(functionalize(_doubled))(gc.ones(3, 2)).tolist() == [[2.0, 2.0]] * 3


def test_leaves_are_not_written_to():
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        functionalize(_doubled)(gc.ones(2, requires_grad=True))


def test_in_inference_mode():
    read, written = gc.ones(2), gc.ones(2)
    with gc.inference_mode():
        out = functionalize(lambda a, b: b.add_(a))(read, written)
        assert functionalize(_doubled)(gc.ones(2)).tolist() == [2.0, 2.0]
    assert (read.tolist(), written.tolist(), out.tolist()) == ([1.0, 1.0], [2.0, 2.0], [2.0, 2.0])
    assert read._version == 0


def test_misuse():
    with pytest.raises(RuntimeError, match="received invalid argument for remove=x"):
        functionalize(_doubled, remove="x")
