"""What was made in inference mode is not saved for backward, and not written to outside."""

import pytest

import gradcore as gc

with gc.inference_mode():
    MADE = gc.full((2,), 3.0)


def leaf(*shape):
    return gc.ones(shape or (2,)).requires_grad_()


class Product(gc.autograd.Function):
    """Saves a tensor that is no input of its own making."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None


SAVING = {
    "x * made": lambda x: x * MADE,
    "made * x": lambda x: MADE * x,
    "in place": lambda x: (x + 1).mul_(MADE),
    "matrix product": lambda x: x @ MADE,
    "linear": lambda x: gc.nn.functional.linear(x, MADE[None]),
    "addcmul": lambda x: gc.addcmul(x, x, MADE),
    "power": lambda x: x**MADE,
    "function": lambda x: Product.apply(x, MADE),
    "index": lambda x: x.index_select(0, _index()),
    "under hooks": lambda x: hooked(lambda: x * MADE),
    "under anomaly detection": lambda x: watched(lambda: x * MADE),
}
NOT_SAVING = {
    "sum": lambda x: x + MADE,
    "difference": lambda x: MADE - x,
    "joined": lambda x: gc.cat([x, MADE]),
    "chosen": lambda x: gc.where(gc.tensor([True, False]), x, MADE),
    "copied": lambda x: (x * 1).copy_(MADE) + x,
    "added in place": lambda x: (x * 1).add_(MADE),
}


def _index():
    with gc.inference_mode():
        return gc.tensor([0])


def hooked(call):
    with gc.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return call()


def watched(call):
    with gc.autograd.set_detect_anomaly(True):
        return call()


@pytest.mark.parametrize("call", SAVING.values(), ids=SAVING)
def test_it_cannot_be_saved(call):
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        call(leaf()).sum().backward()


@pytest.mark.parametrize("name", [name for name in SAVING if name != "index"])
def test_it_is_refused_already_in_forward(name):
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        SAVING[name](leaf())


@pytest.mark.parametrize("call", NOT_SAVING.values(), ids=NOT_SAVING)
def test_it_may_take_part_where_nothing_is_saved(call):
    x = leaf()
    call(x).sum().backward()
    assert x.grad is not None


def test_without_recording_everything_is_allowed():
    with gc.no_grad():
        assert (leaf() * MADE).tolist() == [3.0, 3.0]
    assert (gc.ones(2) * MADE).tolist() == [3.0, 3.0]
    assert (leaf() * MADE.clone()).requires_grad


WRITES = {
    "mul_": lambda t: t.mul_(2),
    "view": lambda t: t[0].zero_(),
    "set_": lambda t: t.set_(gc.ones(2)),
    "resize_": lambda t: t.resize_(1),
    "unsqueeze_": lambda t: t.unsqueeze_(0),
    "out": lambda t: gc.add(gc.ones(2), 1, out=t),
    "accumulation": lambda t: accumulated(t),
}


def accumulated(t):
    x = leaf()
    x.grad = t
    x.sum().backward()


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_it_cannot_be_written_to_outside(write):
    with gc.inference_mode():
        t = gc.ones(2)
        t.mul_(1)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        write(t)


def test_writes_to_it_are_not_counted():
    with gc.inference_mode():
        t = gc.ones(2)
    gc.autograd.graph.increment_version([t, t])


def test_it_may_be_given_another_shape_inside_whatever_it_requires():
    with gc.inference_mode():
        t = gc.ones(1, 2, 3, requires_grad=True)
        assert t.resize_(1, 2).shape == t.resize_as_(gc.ones(1, 2)).shape == (1, 2)
        assert t.detach_().requires_grad


def test_views_made_in_inference_mode_must_not_be_written_to():
    base = leaf() * 1
    with gc.inference_mode():
        view = base[:1]
        base.mul_(2)  # a write without record to an ordinary tensor is counted
    assert base._version == 1
    with pytest.raises(RuntimeError, match="A view was created in inference mode and is being modified inplace"):
        view.mul_(2)


def test_a_parameter_of_it_is_made_in_inference_mode_too():
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
        gc.nn.Parameter(MADE)
    parameter = gc.nn.Parameter(MADE, requires_grad=False)
    assert gc.is_inference(parameter)
    assert not gc.is_inference(leaf())
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        leaf() * parameter
