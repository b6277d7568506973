"""What ``backward`` and ``autograd.grad`` compute, and when they refuse."""

import pytest

import gradcore as gc

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have "
    "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
    "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or "
    "if you need to access saved tensors after calling backward."
)


def test_gradient_of_a_mean_of_squares():
    x = gc.ones(2, 2, requires_grad=True)
    y = x + 2
    out = (y * y * 3).mean()
    assert out.item() == 27.0
    out.backward()
    assert x.grad.tolist() == [[4.5, 4.5], [4.5, 4.5]]


def test_gradient_of_a_sum_is_one_everywhere():
    a = gc.randn(3, 4, requires_grad=True)
    b = gc.zeros(3, 4, requires_grad=True)
    (a + b).sum().backward()
    assert a.grad.tolist() == b.grad.tolist() == [[1.0] * 4] * 3


def test_gradients_of_powers():
    x = gc.rand(5, 5, requires_grad=True)
    y = gc.rand(5, 5, requires_grad=True)
    (x**2 + y**3).backward(gc.ones_like(x))
    assert gc.allclose(x.grad, 2 * x)
    assert gc.allclose(y.grad, 3 * y**2)


def test_gradient_agrees_with_the_formula_by_hand():
    x = gc.randn(3, 4, requires_grad=True)
    y = x**2 * gc.exp(x)
    y.backward(gc.ones(y.size()))
    by_hand = 2 * x * gc.exp(x) + gc.pow(x, 2) * gc.exp(x)
    assert gc.allclose(x.grad, by_hand)
    assert repr(by_hand).endswith("grad_fn=<AddBackward0>)")


@pytest.mark.parametrize("seed", [(), (None,), (1.0,), (1,)], ids=["nothing", "None", "float", "int"])
def test_a_scalar_needs_no_gradient_argument(seed):
    x = gc.ones(2, 2, requires_grad=True)
    arguments = [value if value is None else gc.tensor(value) for value in seed]
    (x * x).sum().backward(*arguments)
    assert x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert x.grad.dtype is gc.float32


def test_one_element_counts_as_a_scalar():
    x = gc.ones(1, requires_grad=True)
    (x * 3).backward()
    assert x.grad.tolist() == [3.0]


def test_more_elements_need_a_gradient_argument():
    x = gc.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    assert x.grad is None


def test_the_gradient_argument_has_the_shape_of_the_result():
    x = gc.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError) as error:
        (x * 2).backward(gc.ones(2))
    assert str(error.value).startswith(
        "Mismatch in shape: grad_output[0] has a shape of torch.Size([2]) and output[0] has a shape of torch.Size([3])."
    )


def test_what_needs_no_gradient_has_no_backward():
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        gc.ones(1).backward()


def test_the_argument_is_multiplied_by_the_transposed_jacobian():
    jacobian = gc.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    x = gc.zeros(3, requires_grad=True)
    gc.matmul(jacobian, x).backward(gc.tensor([10.0, 1.0]))
    assert x.grad.tolist() == [14.0, 25.0, 36.0]


def test_backward_may_start_in_the_middle():
    x = gc.arange(0, 3, dtype=gc.float32, requires_grad=True)
    y = x**2 + x * 2
    z = y.sum()
    y.backward(gc.Tensor([1, 1, 1]))  # what z would send to y
    assert z.item() == 11.0
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


def test_doubling_until_the_norm_is_large(capsys):
    start = gc.tensor([837.1257, -597.1997, 105.1291]) / 512
    x = start.requires_grad_()
    y = x * 2
    while y.data.norm() < 1000:
        print(y.data.norm)
        y = y * 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "<bound method Tensor.norm of tensor([ 3.2700, -2.3328,  0.4107])>"
    assert lines[-1] == "<bound method Tensor.norm of tensor([ 418.5628, -298.5999,   52.5645])>"
    assert len(lines) == 8
    y.backward(gc.tensor([0.1, 1.0, 0.0001], dtype=gc.float))
    assert repr(x.grad) == "tensor([5.1200e+01, 5.1200e+02, 5.1200e-02])"


def test_calls_accumulate_until_the_gradient_is_zeroed():
    x = gc.eye(4, 5, requires_grad=True)
    y = (x + 1).pow(2).t()
    ones = gc.ones_like(y)
    once = [[4.0 if row == column else 2.0 for column in range(5)] for row in range(4)]
    twice = [[2 * value for value in row] for row in once]

    y.backward(ones, retain_graph=True)
    assert x.grad.tolist() == once
    y.backward(ones, retain_graph=True)
    assert x.grad.tolist() == twice
    assert x.grad.zero_() is x.grad
    y.backward(ones, retain_graph=True)
    assert x.grad.tolist() == once


def test_two_paths_to_a_tensor_add_up():
    x = gc.tensor([2.0, 3.0], requires_grad=True)
    (x * 5 + x**2 + x).sum().backward()
    assert x.grad.tolist() == [10.0, 12.0]


def test_a_retained_graph_can_be_run_again_and_a_freed_one_cannot():
    w = gc.rand(1, requires_grad=True)
    b = gc.rand(1, requires_grad=True)
    z = w * gc.ones(1) + b
    for _ in range(5):
        z.backward(retain_graph=True)
    assert w.grad.tolist() == b.grad.tolist() == [5.0]
    z.backward()
    with pytest.raises(RuntimeError) as error:
        z.backward()
    assert str(error.value).startswith(FREED)
    assert w.grad.tolist() == [6.0]


def signed(x):
    """Take the absolute value by branching, so that the graph depends on the data."""
    return x if x.data[0] > 0 else -x


def test_a_branch_that_computes_nothing_returns_the_leaf():
    x = gc.ones(1, requires_grad=True)
    y = signed(x)
    assert y.grad_fn is None
    y.backward()
    assert x.grad.tolist() == [1.0]


def test_a_branch_that_negates_is_recorded(text_of):
    x = gc.tensor([-1.0], requires_grad=True)
    y = signed(x)
    assert text_of(y.grad_fn) == "<NegBackward0 object at 0x>"
    y.backward()
    assert x.grad.tolist() == [-1.0]


def test_a_loop_over_the_elements_is_recorded():
    x = gc.arange(-2, 4, dtype=gc.float32, requires_grad=True)
    product = 1
    for element in x:
        if element.item() > 0:
            product = product * element
    product.backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0, 6.0, 3.0, 2.0]


def test_items_are_python_numbers():
    assert [type(element.item()) for element in gc.tensor([1.5, 2.0])] == [float, float]
    assert type(gc.tensor(3).item()) is int


def test_every_iteration_may_have_another_graph():
    w = gc.ones(1, requires_grad=True)
    for size in (1, 4, 2):
        w.grad = None
        y = w * gc.ones(size)
        if size > 2:
            y = y * 10
        y.sum().backward()
        assert w.grad.tolist() == [size * (10.0 if size > 2 else 1.0)]


def test_grad_returns_a_tuple_and_stores_nothing():
    x = gc.ones(3, requires_grad=True)
    w = gc.rand(3, requires_grad=True)
    y = x * w
    found = gc.autograd.grad(y.sum(), y)
    assert repr(found) == "(tensor([1., 1., 1.]),)"
    assert x.grad is None
    assert w.grad is None
    by_x, by_w = gc.autograd.grad((x * w).sum(), (x, w))
    assert by_x.tolist() == w.tolist()
    assert by_w.tolist() == [1.0, 1.0, 1.0]


def test_grad_names_an_input_that_was_not_used():
    x = gc.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"appears to not have been used in the graph\. Set allow_unused=True"):
        gc.autograd.grad((x * 2).sum(), gc.ones(2, requires_grad=True))


def test_backward_is_also_a_function():
    x = gc.tensor([1.0, 2.0], requires_grad=True)
    gc.autograd.backward((x * x).sum())
    assert x.grad.tolist() == [2.0, 4.0]
    gc.autograd.backward([x * 3], [gc.tensor([1.0, 10.0])])
    assert x.grad.tolist() == [5.0, 34.0]


def test_gradients_arrive_at_both_factors():
    x = gc.ones(3, requires_grad=True)
    w = gc.rand(3, requires_grad=True)
    (x * w).sum().backward()
    assert x.grad.tolist() == w.tolist()
    assert w.grad.tolist() == [1.0, 1.0, 1.0]


def test_complex_leaves_get_complex_gradients():
    z = gc.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    (z * z.conj()).real.sum().backward()
    assert z.grad.tolist() == [2 + 4j, 6 - 2j]
