"""How tensors, shapes and gradient functions appear when a tutorial prints them."""

import pytest

import gradcore as gc

UPDATED = [[-0.4541, -0.2696, 15.5897], [13.3898, -0.0868, -0.4555]]


def leaf(data):
    return gc.tensor(data, dtype=gc.float32, requires_grad=True)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(lambda: gc.ones(2, 2), "tensor([[1., 1.],\n        [1., 1.]])", id="whole numbers"),
        pytest.param(
            lambda: gc.ones(2, 2, requires_grad=True),
            "tensor([[1., 1.],\n        [1., 1.]], requires_grad=True)",
            id="leaf",
        ),
        pytest.param(
            lambda: gc.zeros(2, 4, requires_grad=True),
            "tensor([[0., 0., 0., 0.],\n        [0., 0., 0., 0.]], requires_grad=True)",
            id="zeros",
        ),
        pytest.param(
            lambda: gc.arange(-2, 4, dtype=gc.float32, requires_grad=True),
            "tensor([-2., -1.,  0.,  1.,  2.,  3.], requires_grad=True)",
            id="sign column",
        ),
        pytest.param(
            lambda: gc.ones(2, 2, requires_grad=True) + 2,
            "tensor([[3., 3.],\n        [3., 3.]], grad_fn=<AddBackward0>)",
            id="computed",
        ),
        pytest.param(lambda: -1 * leaf([1.0]), "tensor([-1.], grad_fn=<MulBackward0>)", id="one element"),
        pytest.param(lambda: leaf([0, 3, 8]).sum(), "tensor(11., grad_fn=<SumBackward0>)", id="scalar"),
        pytest.param(lambda: leaf([27, 27]).mean(), "tensor(27., grad_fn=<MeanBackward0>)", id="mean"),
        pytest.param(lambda: leaf([0.8, 1.0]).sum().detach(), "tensor(1.8000)", id="fractional scalar"),
        pytest.param(
            lambda: gc.tensor(UPDATED),
            "tensor([[-0.4541, -0.2696, 15.5897],\n        [13.3898, -0.0868, -0.4555]])",
            id="common width",
        ),
        pytest.param(
            lambda: gc.tensor([51.2, 512.0, 0.0512]),
            "tensor([5.1200e+01, 5.1200e+02, 5.1200e-02])",
            id="wide range",
        ),
        pytest.param(
            lambda: gc.tensor([102.4, 1024.0, 0.1024]),
            "tensor([1.0240e+02, 1.0240e+03, 1.0240e-01])",
            id="wider range",
        ),
        pytest.param(
            lambda: leaf([837.1257, -597.1997, 105.1291]) * 1,
            "tensor([ 837.1257, -597.1997,  105.1291], grad_fn=<MulBackward0>)",
            id="hundreds",
        ),
        pytest.param(lambda: gc.ones(3).eq(gc.ones(3)).all(), "tensor(True)", id="truth value"),
    ],
)
def test_text_of_a_tensor(make, expected):
    assert repr(make()) == expected
    assert str(make()) == expected


def test_print_separates_tensors_with_a_space(capsys):
    y = gc.ones(2, 2, requires_grad=True) + 2
    z = y * y * 3
    print(z, z.mean())
    rows = "tensor([[27., 27.],\n        [27., 27.]], grad_fn=<MulBackward0>)"
    assert capsys.readouterr().out == f"{rows} tensor(27., grad_fn=<MeanBackward0>)\n"


def test_str_and_format_give_the_same_text():
    x = gc.ones(2, requires_grad=True)
    (x * 4).sum().backward()
    assert "gradient: " + str(x.grad) == f"gradient: {x.grad}" == "gradient: tensor([4., 4.])"


def test_tuples_show_the_texts_of_their_tensors():
    assert repr((gc.tensor(0.76), gc.tensor(1.0), None)) == "(tensor(0.7600), tensor(1.), None)"


@pytest.mark.parametrize("shape", [(3, 4), (5,), ()])
def test_text_of_a_shape(shape):
    x = gc.zeros(shape)
    assert repr(x.shape) == repr(x.size()) == f"torch.Size({list(shape)})"
    assert isinstance(x.shape, gc.Size)
    assert isinstance(x.shape, tuple)
    assert x.shape == shape


def test_a_shape_is_accepted_as_a_size():
    x = gc.zeros(3, 4)
    assert gc.ones(x.size()).shape == (3, 4)
    assert gc.ones_like(x).sum().item() == 12


@pytest.mark.parametrize(
    ("result", "name"),
    [
        (lambda x: x + 2, "AddBackward0"),
        (lambda x: x - 2, "SubBackward0"),
        (lambda x: x * 2, "MulBackward0"),
        (lambda x: x / 2, "DivBackward0"),
        (lambda x: -x, "NegBackward0"),
        (lambda x: x**2, "PowBackward0"),
        (lambda x: x**x, "PowBackward1"),
        (lambda x: x.exp(), "ExpBackward0"),
        (lambda x: x.sigmoid(), "SigmoidBackward0"),
        (lambda x: x.sum(), "SumBackward0"),
        (lambda x: x.mean(), "MeanBackward0"),
        (lambda x: x.var(), "VarBackward0"),
        (lambda x: x.t(), "TBackward0"),
        (lambda x: x.view(4), "ViewBackward0"),
        (lambda x: x[0], "SelectBackward0"),
        (lambda x: gc.matmul(x, x), "MmBackward0"),
    ],
)
def test_every_operation_names_its_gradient_function(result, name, text_of):
    y = result(gc.ones(2, 2, requires_grad=True))
    assert text_of(y.grad_fn) == f"<{name} object at 0x>"
    assert repr(y).endswith(f"grad_fn=<{name}>)")


def test_a_bound_method_shows_its_tensor():
    assert repr(gc.tensor([3.27, -2.3328, 0.4107]).norm) == (
        "<bound method Tensor.norm of tensor([ 3.2700, -2.3328,  0.4107])>"
    )
    x = leaf([1.0])
    assert repr(x.data.norm) == "<bound method Tensor.norm of tensor([1.])>"
    assert repr(x.norm) == "<bound method Tensor.norm of tensor([1.], requires_grad=True)>"
