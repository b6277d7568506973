"""Subclasses of tensors, other classes that take calls over, and modes that see every call."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from typing import Any

import pytest

import gradcore as gc
from gradcore.autograd import variables
from gradcore.autograd.modes import local
from gradcore.ops.declare.table import OPS
from tests.overrides import programs
from tests.overrides.programs import classes, kind


class Kept(gc.Tensor):
    """Inherits what subclasses do with calls."""


class Stepping(gc.Tensor):
    """Notes the names of what is called."""

    calls: list[str]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.fixture
def kept() -> Kept:
    return gc.tensor([[1.0, 2.0], [3.0, 4.0]]).as_subclass(Kept)


@pytest.fixture
def stepping() -> Any:
    Stepping.calls = []
    return gc.tensor([1.0, 2.0]).as_subclass(Stepping)


# -- subclasses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda x, p: x + 1,
        lambda x, p: 1 - x,
        lambda x, p: p - x,
        lambda x, p: p.add(x),
        lambda x, p: x @ p,
        lambda x, p: p @ x,
        lambda x, p: x[0],
        lambda x, p: x.T,
        lambda x, p: x.sum(),
        lambda x, p: gc.sin(x),
        lambda x, p: gc.cat([p, x]),
        lambda x, p: gc.where(p > 0, p, x),
        lambda x, p: gc.ones_like(x),
        lambda x, p: gc.rand_like(x),
        lambda x, p: x.new_zeros(2),
        lambda x, p: gc.nn.functional.mse_loss(p, x),
        lambda x, p: gc.einsum("ij,jk->ik", p, x),
        lambda x, p: x.add_(1),
        lambda x, p: p.add_(x),
        lambda x, p: x.detach(),
        lambda x, p: gc.add(p, p, out=x),
        lambda x, p: x.max(0).values,
        lambda x, p: x.split(1)[0],
        lambda x, p: x.double(),
        lambda x, p: gc.clamp(x, min=2),
        lambda x, p: gc.meshgrid(x[0], x[0], indexing="ij")[1],
        lambda x, p: next(iter(x)),
    ],
)
def test_results_are_of_the_subclass(call: Any, kept: Any) -> None:
    assert type(call(kept, gc.ones(2, 2))) is Kept


def test_results_of_plain_tensors_stay_plain(kept: Any) -> None:
    assert type(gc.ones(2) + gc.ones(2)) is gc.Tensor
    assert type(gc.tensor(kept)) is gc.Tensor


def test_what_is_no_tensor_stays_what_it_is(kept: Any) -> None:
    assert (kept.shape, len(kept), kept.tolist()) == ((2, 2), 2, [[1.0, 2.0], [3.0, 4.0]])
    assert (kept.dtype, float(kept[0, 1]), 2.0 in kept) == (gc.float32, 2.0, True)


def test_values_are_those_of_plain_tensors() -> None:
    found = programs.subclasses_are_kept(gc)
    assert found[:2] == [("Keeping", [[2.0, 3.0], [4.0, 5.0]], None)] * 2
    assert found[6] == ("Keeping", [[1.0, 0.0], [-1.0, -2.0]], None)
    assert all(value[0] == "Keeping" for value in found if isinstance(value, tuple) and value[1] != [2.0, 4.0])


def test_python_finds_methods_of_subclasses_first(stepping: Any) -> None:
    class Own(gc.Tensor):
        def sum(self, *args: Any, **kwargs: Any) -> Any:
            return "own"

        def twice(self) -> Any:
            return super().add(self)

    x = gc.ones(2).as_subclass(Own)
    assert x.sum() == "own"
    assert type(x.twice()) is Own


def test_calls_are_named_as_by_pytorch() -> None:
    assert programs.what_is_logged(gc) == [
        "add",
        "sum",
        "add",
        "mul",
        "__rdiv__",
        "__rsub__",
        "matmul",
        "matmul",
        "add_",
        "__getitem__",
        "__setitem__",
        "__get__",
        "__len__",
        "__getitem__",
        "__float__",
        "__set__",
        "exp",
        "relu",
        "cat",
        "lt",
        "gt",
        "detach",
        "numpy",
        "size",
        "to",
        "mul",
        "sum",
        "backward",
        "__get__",
    ]


def test_arguments_are_handed_on() -> None:
    seen: list[Any] = []

    class Seeing(gc.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append((func, types, args[1:], kwargs))
            return super().__torch_function__(func, types, args, kwargs)

    x = gc.ones(2, 3).as_subclass(Seeing)
    x.sum(dim=1, keepdim=True)
    gc.sum(x, 1)
    gc.sum(x, keepdim=True)
    gc.sum(x)
    assert seen == [
        (gc.Tensor.sum, (Seeing,), (), {"dim": 1, "keepdim": True}),
        (gc.sum, (Seeing,), (1,), {}),
        (gc.sum, (Seeing,), (), {"keepdim": True}),
        (gc.sum, (Seeing,), (), {}),
    ]


def test_writing_in_place_keeps_the_tensor(kept: Any) -> None:
    before = kept
    kept += 1
    kept[0] = 0.0
    assert kept is before
    assert kept.tolist() == [[0.0, 0.0], [4.0, 5.0]]


def test_accumulated_gradients_are_plain_tensors() -> None:
    assert programs.gradients(gc) == [
        "Keeping", True, ("Tensor", [2.0, 4.0], None), ("Tensor", [1.0, 2.0], None), "Keeping", True,
        [("Keeping", [2.0, 4.0], None)],
    ]  # fmt: skip


def test_backward_does_not_go_through_the_protocol(stepping: Any) -> None:
    x = stepping.requires_grad_()
    y = gc.sum(x * x * x)
    Stepping.calls.clear()
    (slope,) = gc.autograd.grad(y, x, create_graph=True)
    assert Stepping.calls == ["grad"]
    assert slope.tolist() == [3.0, 12.0]
    slope.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_history_written_through_views_of_subclasses() -> None:
    x = gc.ones(2, requires_grad=True)
    y = (x * 1).as_subclass(Kept)
    y[0].mul_(5)
    y.sum().backward()
    assert x.grad.tolist() == [5.0, 1.0]


def test_a_view_says_so(kept: Any) -> None:
    p = gc.ones(2, requires_grad=True)
    s = p.as_subclass(Kept)
    assert (s.grad_fn.name(), s._base is p, s.is_leaf) == ("AliasBackward0", True, False)
    leaf = gc.Tensor._make_subclass(Kept, gc.ones(2), True)
    assert (type(leaf), leaf.is_leaf, leaf.requires_grad, leaf._is_view()) == (Kept, True, True, False)
    with pytest.raises(RuntimeError, match="as_subclass expects a subclass of Tensor"):
        p.as_subclass(int)


def test_subclasses_of_subclasses(kept: Any) -> None:
    class Further(Kept):
        pass

    further = gc.ones(2, 2).as_subclass(Further)
    assert type(kept + further) is Further
    assert type(further + kept) is Further


def test_a_subclass_of_a_subclass_that_does_nothing_with_operations(kept: Any) -> None:
    class Plain(Kept):
        __torch_function__ = gc._C._disabled_torch_function_impl

    plain = gc.ones(2, 2).as_subclass(Plain)
    assert type(plain + 1) is gc.Tensor
    assert plain.size() == plain.shape == (2, 2)
    assert type(plain + kept) is Kept


def test_two_unrelated_subclasses_do_not_mix(kept: Any) -> None:
    class Other(gc.Tensor):
        pass

    with pytest.raises(TypeError, match=r"no implementation found for 'gradcore.Tensor.add' on types that implement"):
        kept + gc.ones(2, 2).as_subclass(Other)


def test_attributes_of_instances_are_kept_apart() -> None:
    assert programs.units(gc) == ["m*s", "m", "m", "m and s"]


def test_forward_mode_and_subclasses(kept: Any) -> None:
    from gradcore.autograd import forward_ad

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(kept, gc.ones(2, 2))
        out = dual * dual
        assert type(dual) in (Kept, gc.Tensor)
        assert forward_ad.unpack_dual(out).tangent.tolist() == [[2.0, 4.0], [6.0, 8.0]]


def test_copies_and_pickles(kept: Any) -> None:
    kept.note = "here"
    for other in (copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        assert (type(other), other.note, other.tolist()) == (Kept, "here", kept.tolist())


def test_printing(kept: Any) -> None:
    assert repr(kept[0]) == "Kept([1., 2.])"
    assert repr(kept.to("meta")) == "Kept(..., device='meta', size=(2, 2))"
    assert repr(gc.nn.Parameter(gc.ones(1))) == "Parameter containing:\ntensor([1.], requires_grad=True)"


def test_every_method_goes_through_the_protocol() -> None:
    """What is added to tensors later would slip through: methods of subclasses stand in a class of their own."""
    for op in OPS.values():
        if op.method is True and not op.attribute and "doctest" not in op.name:
            assert getattr(Kept, op.name) is not getattr(gc.Tensor, op.name), op.name


# -- parameters -------------------------------------------------------------------------------------------------------


def test_parameters_turn_into_plain_tensors() -> None:
    assert programs.parameters(gc) == [
        "Tensor", "Keeping", True, True, False, "Tensor", "Keeping", ["weight", "bias"],
    ]  # fmt: skip


def test_a_parameter_needs_detach_to_keep_its_class() -> None:
    class Losing(gc.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with gc.overrides.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

    with pytest.raises(RuntimeError, match=r"correct the detach\(\) semantics"):
        gc.nn.Parameter(gc.ones(2).as_subclass(Losing))


# -- other classes ----------------------------------------------------------------------------------------------------


def test_functions_of_other_classes() -> None:
    found = programs.functions_of_other_classes(gc)
    assert found[:4] == [
        1.5,
        ("Tensor", [[4.0, 1.0], [1.0, 4.0]], None),
        ("Tensor", [[4.0, 1.0], [1.0, 4.0]], None),
        9.0,
    ]
    assert found[5:] == ["TypeError", "here", ("Tensor", [2.0, 4.0], None), "Metadata"]


def test_who_is_asked_first() -> None:
    assert programs.who_is_asked_first(gc) == [
        "First", "Second", "-", "Second", "First", "-", "Derived", "First", "-", "Derived", "First", "Second", "-",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "call",
    [
        lambda d: gc.add(d, 1),
        lambda d: gc.nn.functional.relu(d),
        lambda d: gc.add(gc.ones(2), d),
        lambda d: gc.ones(2).add(d),
        lambda d: gc.cat([gc.ones(2), d]),
        lambda d: gc.split(d, 1),
        lambda d: gc.where(gc.ones(1) > 0, d, d),
        lambda d: gc.mm(d, d),
        lambda d: gc.zeros_like(d),
        lambda d: gc.bernoulli(d),
    ],
)
def test_nobody_wants_the_call(call: Any) -> None:
    class Unwilling:
        @classmethod
        def __torch_function__(cls, *args: Any) -> Any:
            return NotImplemented

    with pytest.raises(TypeError, match=r"no implementation found for 'gradcore\.[\w.]+' on types that implement"):
        call(Unwilling())


def test_operators_are_left_to_other_classes() -> None:
    class Left:
        def __radd__(self, other: Any) -> str:
            return "left"

    assert gc.ones(2) + Left() == "left"
    assert gc.ones(2).as_subclass(Kept) + Left() == "left"


class Taking:
    """No tensor, and says what it was asked for."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func.__name__, len(args)


@pytest.mark.parametrize(
    ("call", "name"),
    {
        lambda t, d: t + d: "add",
        lambda t, d: d * t: "mul",
        lambda t, d: d - t: "__rsub__",
        lambda t, d: t @ d: "matmul",
        lambda t, d: t == d: "eq",
        lambda t, d: t.add_(d): "add_",
        lambda t, d: t.copy_(d): "copy_",
        lambda t, d: t[d]: "__getitem__",
        lambda t, d: gc.result_type(t, d): "result_type",
    }.items(),
)
def test_whatever_stands_beside_a_tensor_is_asked(call: Any, name: str) -> None:
    assert call(gc.ones(2), Taking()) == (name, 2)


@pytest.mark.parametrize(
    "function",
    [
        gc.cat, gc.hstack, gc.linalg.multi_dot, gc.numel, gc.is_signed, gc.is_nonzero, gc.is_inference,
        gc.nn.init.uniform_, gc.nn.init.normal_, gc.nn.init.kaiming_uniform_,
    ],
)  # fmt: skip
def test_the_only_argument_is_asked(function: Any) -> None:
    assert function(Taking()) == (function.__name__, 1)


def test_a_keyword_argument_is_asked() -> None:
    assert gc.numel(input=Taking()) == ("numel", 0)


def test_what_is_assigned_is_asked(stepping: Any) -> None:
    x = gc.ones(2)
    x.copy_(stepping)
    x[:1] = stepping[:1]
    assert x.tolist() == [1.0, 2.0]
    assert [name for name in Stepping.calls if name != "__getitem__"] == ["copy_", "__setitem__"]
    x = gc.ones(2)
    x[0] = Taking()
    assert x.tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="can't assign a object to a"):
        x[0] = object()


def test_backward_and_grad_are_asked_for(stepping: Any) -> None:
    x = stepping.requires_grad_()
    for call in (gc.autograd.backward, lambda y: gc.autograd.grad(y, x)):
        y = gc.sum(x * x)
        Stepping.calls.clear()
        call(y)
        assert Stepping.calls == [getattr(call, "__name__", "").replace("<lambda>", "grad")]
    assert x.grad.tolist() == [2.0, 4.0]


def test_methods_in_the_place_of_class_methods_are_deprecated() -> None:
    class Old:
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return "old"

    with pytest.warns(DeprecationWarning, match="as a plain method is deprecated"):
        assert gc.add(Old(), 1) == "old"


def test_plain_objects_are_still_refused() -> None:
    with pytest.raises(TypeError, match=r"argument 'other' \(position 2\) must be Tensor, not str"):
        gc.add(gc.ones(2), "a")


# -- modes ------------------------------------------------------------------------------------------------------------


def test_modes_see_calls_from_the_inside_out() -> None:
    seen, written = programs.modes(gc)
    assert seen == [
        ("outer", "add"),
        ("inner", "relu"),
        ("outer", "relu"),
        ("inner", "zeros"),
        ("outer", "zeros"),
        ("inner", "arange"),
        ("outer", "arange"),
        ("outer", "sum"),
        ("outer", "add_"),
    ]
    assert written == ("Tensor", [2.0, 2.0], None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: gc.zeros(2),
        lambda: gc.tensor(1.0),
        lambda: gc.full((2,), 3.0),
        lambda: gc.eye(2),
        lambda: gc.arange(1, 3),
        lambda: gc.linspace(0, 1, 3),
        lambda: gc.rand(2),
        lambda: gc.randn(2),
        lambda: gc.randint(3, (2,)),
        lambda: gc.randperm(3),
        lambda: gc.zeros_like(gc.as_tensor(1)),
        lambda: gc.nn.Linear(1, 1, bias=False).weight,
    ],
)
def test_modes_see_what_makes_tensors(make: Any) -> None:
    seen: list[str] = []

    class Elsewhere(gc.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            takes_device = "like" not in func.__name__ and not func.__name__.endswith("_")
            return func(*args, **(kwargs or {}), **({"device": "meta"} if takes_device else {}))

    with Elsewhere():
        out = make()
    assert seen
    assert out.is_meta or "like" in seen[-1]


def test_modes_see_backward_and_grad() -> None:
    seen: list[str] = []

    class Noting(gc.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = gc.ones(2, requires_grad=True)
    y, z = x.sum(), x.sum()
    with Noting():
        y.backward()
        assert gc.autograd.grad(z, x)[0].tolist() == [1.0, 1.0]
    assert seen == ["backward", "grad"]
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_mode_that_declines_leaves_the_call_to_the_arguments() -> None:
    class Willing:
        @classmethod
        def __torch_function__(cls, *args: Any) -> Any:
            return "willing"

    class Declining(gc.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    with Declining():
        assert gc.add(Willing(), 1) == "willing"
        with pytest.raises(TypeError, match="nor in mode"):
            gc.ones(2)
    assert local.state.functions == ()


def test_modes_belong_to_a_thread() -> None:
    seen: list[str] = []

    class Noting(gc.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = gc.ones(2)
    with Noting():
        thread = threading.Thread(target=lambda: x + 1)
        thread.start()
        thread.join()
        x * 2
    assert seen == ["mul"]


# -- switching it off, and questions ----------------------------------------------------------------------------------


def test_switching_it_off(kept: Any) -> None:
    assert programs.switched_off(gc) == ("Tensor", "Keeping", "Tensor")
    with gc.overrides.DisableTorchFunction(), gc.overrides.DisableTorchFunctionSubclass():
        pass
    assert type(kept + 1) is Kept


def test_questions() -> None:
    assert programs.questions(gc) == [
        [False, False, True, True, False], [False, True, True, True], True, True, True, True, False, "Tensor.add",
        "nn.functional.relu", True, True,
    ]  # fmt: skip
    assert gc.Tensor.grad.__get__ in gc.overrides.get_default_nowrap_functions()


def test_functions_of_ones_own() -> None:
    assert programs.functions_of_ones_own(gc) == [2.0, 3.0, ("Tensor", [2.0], None), ("Tensor", [3.0], None)]


def test_nothing_is_prepared_before_a_subclass_takes_operations_over() -> None:
    code = (
        "import gradcore as gc\nfrom gradcore import subclasses\nfrom gradcore.autograd import variables\n"
        "gc.nn.Parameter(gc.ones(1)) * 2\nclass Own(gc.nn.Parameter): pass\n"
        "print(variables.subclasses_used, subclasses._overriding.cache_info().currsize)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "0"]
    assert variables.subclasses_used


def test_kind_is_no_tautology() -> None:
    assert kind(classes(gc).Unit.of([1.0], "m")) == ("Unit", [1.0], None)
