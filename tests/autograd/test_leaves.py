"""What happens to gradients at leaves: their dtype, their layout, assigning them, adding to them, copies of tensors."""

import copy
import pickle
import warnings

import pytest

import gradcore as gc


def leaf(*shape, **named):
    return gc.ones(shape or (2,), **named).requires_grad_()


# -- grad_dtype -------------------------------------------------------------------------------------------------------


def test_gradients_are_cast_before_hooks_see_them():
    seen = []
    x = leaf()
    assert x.grad_dtype is gc.float32
    x.grad_dtype = gc.float64
    x.register_hook(lambda grad: seen.append(grad.dtype))
    (x * 2 + x * 3).sum().backward()
    (x * 2).sum().backward()
    assert (x.grad.dtype, x.grad.tolist(), seen) == (gc.float64, [7.0, 7.0], [gc.float64] * 2)
    assert gc.autograd.grad((x * 2).sum(), x)[0].dtype is gc.float64
    assert gc.autograd.grad((x * x).sum(), x, create_graph=True)[0].dtype is gc.float64


@pytest.mark.parametrize(("wanted", "expected"), [(None, gc.float64), (gc.float16, gc.float16)])
def test_a_gradient_dtype_of_none_allows_any(wanted, expected):
    x = leaf()
    x.grad_dtype = wanted
    x.grad = gc.ones(2, dtype=expected)
    x.grad = None
    x.double().sum().backward()
    assert x.grad.dtype is (gc.float32 if wanted is None else expected)  # the conversion's backward has converted it


def test_a_function_may_return_any_dtype_for_a_leaf_that_allows_any():
    class Exact(gc.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad.double() * 2

    for wanted, expected in ((None, gc.float64), (gc.float32, gc.float32), (gc.float16, gc.float16)):
        x = leaf()
        x.grad_dtype = wanted
        Exact.apply(x).sum().backward()
        assert x.grad.dtype is expected


def test_a_graph_that_exists_follows_a_later_choice():
    x = leaf()
    y = (x * 2).sum()
    x.grad_dtype = gc.float64
    y.backward()
    assert x.grad.dtype is gc.float64


GRAD_DTYPES = {
    "of a result": (lambda: (leaf() * 2).grad_dtype, "can only be accessed on leaf tensors"),
    "to a result": (lambda: setattr(leaf() * 2, "grad_dtype", None), "can only be set on leaf tensors"),
    "no dtype": (lambda: setattr(leaf(), "grad_dtype", 5), "must be a torch.dtype or None, but got int"),
    "against a gradient": (lambda: with_gradient("grad_dtype", gc.float64), "already a gradient with dtype 'float32'"),
    "another gradient": (lambda: setattr(leaf(), "grad", gc.ones(2, dtype=gc.float64)), "with grad_dtype 'float32'"),
}


def with_gradient(name, value):
    x = leaf()
    x.grad = gc.ones(2)
    setattr(x, name, value)


@pytest.mark.parametrize(("call", "message"), GRAD_DTYPES.values(), ids=GRAD_DTYPES)
def test_misuse_of_grad_dtype(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


# -- assignment and accumulation --------------------------------------------------------------------------------------

ASSIGNMENTS = {
    "number": (lambda x: 5, TypeError, "expected to be a Tensor or None but got grad of type int"),
    "itself": (lambda x: x, RuntimeError, "can't assign Variable as its own grad"),
    "size": (lambda x: gc.ones(3), RuntimeError, "gradient of size '\\[3\\]' to a tensor of size '\\[2\\]'"),
    "device": (lambda x: gc.ones(2, device="meta"), RuntimeError, "with device type 'meta' to a tensor with"),
}


@pytest.mark.parametrize(("value", "error", "message"), ASSIGNMENTS.values(), ids=ASSIGNMENTS)
def test_gradients_that_cannot_be_assigned(value, error, message):
    x = leaf()
    with pytest.raises(error, match=message):
        x.grad = value(x)
    assert x.grad is None


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_gradients_lie_in_memory_as_their_leaves_do(order):
    x = gc.ones(2, 3, 4).permute(order).requires_grad_()
    assert x.is_leaf
    (x * 2).sum().backward()
    assert x.grad.stride() == x.stride()
    every_other = gc.ones(4, 6)[::2, ::2].requires_grad_()  # has gaps: in the order of the indices then
    (every_other * 1).t().sum().backward()
    assert every_other.grad.is_contiguous()


def test_a_leaf_of_another_size_refuses_its_old_gradient():
    x = gc.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    x.data = gc.ones(2)
    with pytest.raises(RuntimeError, match=r"size \[2\] cannot be added to .grad, which has size \[3\]"):
        (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_requires_grad_is_a_bool():
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        leaf().requires_grad = 1


def test_data_cannot_be_deleted():
    with pytest.raises(RuntimeError, match="Deleting tensor data is not allowed"):
        del leaf().data


# -- copies -----------------------------------------------------------------------------------------------------------


def chain(length):
    x = leaf()
    for _ in range(length):
        x = x * 1
    return x


@pytest.mark.parametrize("length", [1, 20_000])
def test_results_are_pickled_without_their_history(length):
    y = pickle.loads(pickle.dumps(chain(length)))
    assert (y.tolist(), y.requires_grad, y.is_leaf) == ([1.0, 1.0], True, True)
    assert copy.copy(chain(length)).is_leaf


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_pickles_have_the_shape(shape):
    assert pickle.loads(pickle.dumps(gc.zeros(shape).mT if len(shape) > 1 else gc.zeros(shape))).shape == shape[::-1]


@pytest.mark.parametrize("grad", [False, True])
def test_a_copy_shares_the_memory_of_what_it_copies(grad):
    x = gc.ones(3, 4, requires_grad=grad)
    x.note = "kept"
    same = copy.copy(x)
    assert (same.is_leaf, same.requires_grad, same.grad, same.note) == (True, grad, None, "kept")
    for t in (x[:, 1:].t(), gc.tensor(1.5), x * 2):
        same = copy.copy(t)
        assert (same.shape, same.stride(), same.data_ptr()) == (t.shape, t.stride(), t.data_ptr())
        assert same.grad_fn is None
    parameter = gc.nn.Parameter(gc.ones(2))
    assert type(copy.copy(parameter)) is gc.nn.Parameter


@pytest.mark.parametrize("grad", [False, True])
def test_copies_of_inference_tensors_are_inference_tensors(grad):
    with gc.inference_mode():
        x = gc.ones(2, requires_grad=grad)
    same = copy.copy(x)
    assert (same.is_inference(), same.requires_grad) == (True, grad)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        same.add_(1)


def test_samples_can_be_copied():
    assert gc.vmap(lambda v: copy.copy(v) * 2)(gc.ones(3, 2)).tolist() == [[2.0, 2.0]] * 3


@pytest.mark.parametrize("length", [1, 20_000])
def test_results_cannot_be_deepcopied(length):
    with pytest.raises(RuntimeError, match=r"Only Tensors created explicitly by the user \(graph leaves\)"):
        copy.deepcopy({"results": [chain(length)]})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("data", "Deleting tensor data is not allowed. Delete tensor instead!"),
        ("requires_grad", "requires_grad must be a bool"),
        ("_grad_fn", "Deletion of _grad_fn not allowed. Detach tensor instead!"),
        ("_backward_hooks", "Deletion of _backwards_hooks not allowed!"),
    ],
)
def test_attributes_that_cannot_be_deleted(name, message):
    x = gc.ones(2, requires_grad=True)
    x.grad = gc.ones(2)
    del x.grad
    assert x.grad is None
    with pytest.raises(RuntimeError, match=message):
        delattr(x, name)


def test_nodes_can_be_neither_copied_nor_pickled():
    for function in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot pickle 'MulBackward0' object"):
            function(chain(1).grad_fn)


# -- create_graph -----------------------------------------------------------------------------------------------------


def test_backward_with_create_graph_warns_once_of_cycles():
    x = leaf()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        gc.autograd.grad((x * x).sum(), x, create_graph=True)
        assert not warned
        (x * x).sum().backward(create_graph=True)
        (x * x).sum().backward(create_graph=True)
    assert [w.category for w in warned] == [UserWarning]
    assert str(warned[0].message).startswith("Using backward() with create_graph=True will create a reference cycle")
    x.grad = None


# -- leaves that are none any more ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [lambda x: x.requires_grad_(False), lambda x: x.detach_()])
def test_nothing_is_added_to_what_no_longer_requires_grad(stop):
    x, other, called = leaf(), leaf(), []
    x.register_post_accumulate_grad_hook(lambda t: called.append(t.grad))
    loss = (x * other).sum()
    stop(x)
    loss.backward()
    assert (x.grad, other.grad.tolist(), called) == (None, [1.0, 1.0], [None])


def test_a_leaf_that_has_become_a_result_is_refused():
    x = leaf()
    loss = (x * 2).sum()
    x.requires_grad_(False)
    x.mul_(leaf())
    with pytest.raises(RuntimeError, match="leaf variable has been moved into the graph interior"):
        loss.backward()


def test_the_same_size_is_no_write():
    x = gc.ones(3)
    x.resize_(3)
    assert x._version == 0
    x.resize_(3, 1)
    assert x._version == 1


@pytest.mark.parametrize("convert", [int, float, complex])
@pytest.mark.parametrize("size", [0, 2])
def test_only_single_elements_become_numbers(convert, size):
    assert convert(gc.full((1, 1), 3.0)) == 3
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        convert(gc.ones(size))


def test_other_memory_makes_another_leaf():
    x = leaf()
    edge = gc.autograd.graph.get_gradient_edge(x)
    y = (x * 2).sum()
    with gc.no_grad():
        x.set_(gc.zeros(2))
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        gc.autograd.grad(y, x, retain_graph=True)
    assert gc.autograd.grad(y, edge)[0].tolist() == [2.0, 2.0]
    assert gc.autograd.grad((x * 3).sum(), x)[0].tolist() == [3.0, 3.0]


def test_post_accumulate_hooks_return_none_or_the_leaf():
    x = leaf()
    x.register_post_accumulate_grad_hook(lambda p: p)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    x.register_post_accumulate_grad_hook(lambda p: p.detach())
    with pytest.raises(RuntimeError, match="should return None"):
        (x * 3).sum().backward()


def test_a_leaf_keeps_the_gradient_that_its_nodes_hooks_see():
    x, seen = leaf(), []
    y = x * 2

    def add_half(t):
        t.grad += 0.5

    x.register_post_accumulate_grad_hook(add_half)
    y.grad_fn.next_functions[0][0].register_hook(lambda inputs, outputs: seen.append(outputs[0].tolist()))
    y.sum().backward(retain_graph=True)
    assert seen == [[2.5, 2.5]]
    y.sum().backward()
    assert (seen[1], x.grad.tolist()) == ([2.0, 2.0], [5.0, 5.0])
