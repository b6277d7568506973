"""Tensors whose own shape changes in place while views of them exist, and views made without recording."""

import pytest

import gradcore as gc

TURNS = {
    "t_": lambda t: t.t_(),
    "transpose_": lambda t: t.transpose_(0, 1),
    "swapaxes_": lambda t: t.swapaxes_(0, 1),
    "unsqueeze_": lambda t: t.unsqueeze_(0),
    "squeeze_": lambda t: t.squeeze_(),
    "twice": lambda t: t.t_().unsqueeze_(1),
}
VIEWS = {
    "row": lambda t: t[0],
    "column": lambda t: t[:, 1],
    "all": lambda t: t.view(-1),
    "diagonal": lambda t: t.diagonal(),
    "view of a view": lambda t: t.t()[1],
}
SHAPES = [(2, 2), (1, 3), (3, 2)]


def numbers(shape, **named):
    count = gc.tensor(list(shape)).prod().item()
    return gc.arange(1.0, count + 1, **named).reshape(shape).clone()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
def test_views_keep_their_place_when_their_base_is_turned(turn, view, shape):
    x, factor = numbers(shape).requires_grad_(), leaf_like_one()
    base = x * 1
    part = view(base)
    turn(base)
    part.mul_(factor)
    weights = numbers(base.shape)
    ((base * base * weights).sum() + (part * part).sum()).backward()
    # The same without anything in place: the mask says which elements the view has.
    y, other = numbers(shape).requires_grad_(), leaf_like_one()
    mask = gc.zeros(shape)
    view(mask)[...] = 1
    scaled = y * (1 + mask * (other - 1))
    ((turned(scaled, turn) ** 2 * weights).sum() + (view(scaled) ** 2).sum()).backward()
    assert gc.allclose(x.grad, y.grad)
    assert gc.allclose(factor.grad, other.grad)


def leaf_like_one():
    return gc.tensor(3.0, requires_grad=True)


def turned(t, turn):
    copy = t.clone()
    turn(copy)
    return copy


@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
def test_tangents_of_views_keep_their_place_too(turn):
    forward_ad = gc.autograd.forward_ad
    with forward_ad.dual_level():
        base = forward_ad.make_dual(numbers((2, 2)), numbers((2, 2)) * 10) * 1
        part = base[0]
        turn(base)
        part.mul_(2)
        assert forward_ad.unpack_dual(part).tangent.tolist() == [20.0, 40.0]
        assert sorted(forward_ad.unpack_dual(base).tangent.reshape(-1).tolist()) == [20.0, 30.0, 40.0, 40.0]


def test_a_view_that_is_turned_itself_writes_through():
    x = numbers((2, 3)).requires_grad_()
    base = x * 1
    part = base[:, :2]
    part.t_()
    part.mul_(gc.tensor([[1.0], [5.0]]).expand(2, 2))
    base.sum().backward()
    assert x.grad.tolist() == [[1.0, 5.0, 1.0], [1.0, 5.0, 1.0]]


def test_memory_that_a_view_repeats_can_be_filled():
    for create_graph in (False, True):
        x = gc.ones(3, requires_grad=True)
        base = x * 1
        base.expand(2, 3).zero_()
        found = gc.autograd.grad((base * base).sum() + x.sum(), x, create_graph=create_graph)
        assert found[0].tolist() == [1.0, 1.0, 1.0]


def view_without_recording(base, make=lambda t: t.view(-1)):
    with gc.no_grad():
        return make(base)


def test_a_base_that_repeats_memory_has_no_gradient_of_a_part():
    base = gc.zeros(4).expand(2, 4).detach()  # each element twice
    value = gc.ones((), requires_grad=True)
    base[0] = value * 1  # both rows: the gradient of the part would miss one of them
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        base.sum().backward()


def first_of_several(t):
    return t.unbind()[0]


REFUSED = {
    "of a result": lambda: view_without_recording(gc.ones(2, requires_grad=True) * 1).mul_(2),
    "of a leaf": lambda: view_without_recording(gc.ones(2, requires_grad=True)).mul_(2),
    "something recorded into it": lambda: view_without_recording(gc.ones(2)).mul_(gc.ones(2, requires_grad=True)),
    "one of several": lambda: view_without_recording(gc.ones(2, requires_grad=True) * 1, first_of_several).mul_(2),
}


@pytest.mark.parametrize("write", REFUSED.values(), ids=REFUSED)
def test_views_made_without_recording_are_not_written_to_with(write):
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and is being modified inplace with"):
        write()


def test_views_made_without_recording_lose_a_history_that_their_base_gets():
    base = gc.ones(2)
    view = view_without_recording(base)
    base.mul_(gc.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="and its base or another view of its base has been modified inplace"):
        view.grad_fn  # noqa: B018
    with gc.no_grad():
        view.mul_(2)  # as long as nothing is recorded, it is a tensor like others
    assert base.tolist() == [2.0, 2.0]


def test_views_made_without_recording_of_plain_tensors_are_plain():
    base = gc.ones(2)
    view_without_recording(base).mul_(2)
    assert (base.tolist(), base.requires_grad) == ([2.0, 2.0], False)


def test_shapes_and_memory_of_duals_do_not_change_in_place():
    forward_ad = gc.autograd.forward_ad
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(gc.ones(2), gc.ones(2))
        with pytest.raises(RuntimeError, match="cannot resize variables that has a forward grad"):
            dual.resize_(3)
        with pytest.raises(RuntimeError, match="set_ that does not support it"):
            dual.set_(gc.zeros(2))
        with pytest.raises(RuntimeError, match="Invalid level given: 2; 1 are open"):
            forward_ad.unpack_dual(dual, level=2)


PARTS = {
    "real": lambda c: c.real,
    "imag": lambda c: c.imag,
    "as real": gc.view_as_real,
    "row of real": lambda c: c.real[1],
}


@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
@pytest.mark.parametrize("view", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("through_view", [False, True], ids=["base written", "view written"])
def test_real_views_of_a_turned_complex_base(view, turn, through_view):
    x = gc.complex(numbers((2, 3)), numbers((2, 3)) * 2).requires_grad_()
    base = x * (1 + 1j)
    part = view(base)
    turn(base)
    (part if through_view else base).mul_(2)
    (found,) = gc.autograd.grad((part * numbers(part.shape)).sum(), x)
    other = view(x * (1 + 1j)) * 2
    (expected,) = gc.autograd.grad((other * numbers(part.shape)).sum(), x)
    assert gc.allclose(found, expected)
    assert gc.allclose(part, other)


@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
def test_complex_views_of_a_turned_real_base(turn):
    x = numbers((2, 2)).requires_grad_()
    base = x * 3
    part = gc.view_as_complex(base)
    turn(base)
    base.mul_(2)
    (found,) = gc.autograd.grad(gc.view_as_real(part * gc.tensor([1, 2 + 1j])).sum(), x)
    (expected,) = gc.autograd.grad(gc.view_as_real(gc.view_as_complex(x * 6) * gc.tensor([1, 2 + 1j])).sum(), x)
    assert gc.allclose(found, expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
def test_a_shape_that_was_changed_without_a_record_still_fits_the_history(turn, shape):
    x = numbers(shape).requires_grad_()
    y = x * 2
    with gc.no_grad():
        turn(y)
    loss = (y * numbers(y.shape)).sum()
    given = tuple(y.shape)[-len(shape) :]
    if len(given) == len(shape) and all(n in (1, m) for n, m in zip(shape, given, strict=True)):
        loss.backward()
        assert x.grad.shape == x.shape
    else:
        with pytest.raises(RuntimeError, match="invalid gradient at index 0 - got"):
            loss.backward()
        assert x.grad is None


@pytest.mark.parametrize("change", [lambda x: setattr(x, "data", gc.ones(4)), lambda x: x.unsqueeze_(0)])
def test_a_leaf_of_another_shape_does_not_take_a_gradient_that_does_not_fit(change):
    x = gc.ones(3, requires_grad=True)
    loss = (x * 2).sum()
    with gc.no_grad():
        change(x)
    with pytest.raises(RuntimeError, match="invalid gradient at index 0 - got"):
        loss.backward()
    assert x.grad is None
