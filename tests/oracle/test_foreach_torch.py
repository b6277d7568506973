"""PyTorch's operations on lists of tensors, in every form that it has, as programs find them under `as_torch`."""

import numpy as np
import pytest

import gradcore as gc
from gradcore.torch_names import foreach, placeholders

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

NAMES = sorted(name for name in placeholders.names()["torch"] if name.startswith("_foreach_"))


def arguments(T, schema):
    """Arguments of the types of a schema: two matrices for each list."""
    numbers = np.random.default_rng(3)
    results = []
    for argument in schema.arguments:
        if argument.has_default_value():
            continue
        kind = str(argument.type)
        matrices = numbers.uniform(0.2, 0.8, (2, 2, 2))
        if kind == "List[Tensor]":
            results.append([T.tensor(matrix) for matrix in matrices])
        elif kind in ("List[number]", "List[Scalar]"):
            results.append([1.5, 0.5])
        elif kind == "Tensor":
            results.append(T.tensor([1.5, 0.5] if argument.name == "scalars" else 1.5, dtype=T.float64))
        else:
            assert kind in ("number", "Scalar"), kind
            results.append(1.5)
    return results


@pytest.mark.parametrize("name", NAMES)
def test_all_forms(name):
    schemas = [
        s for s in torch._C._jit_get_schemas_for_operator(f"aten::{name}") if not s.overload_name.endswith("out")
    ]
    assert schemas
    for schema in schemas:
        ours, theirs = arguments(gc, schema), arguments(torch, schema)
        found, expected = foreach.make_loop(name)(*ours), getattr(torch, name)(*theirs)
        assert type(found) is type(expected)
        assert (found is ours[0]) == (expected is theirs[0])
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-12, err_msg=str(schema))


def test_settings_and_errors():
    for T, call in ((gc, foreach.make_loop), (torch, lambda name: getattr(torch, name))):
        lists = [T.ones(2), T.ones(3)], [T.ones(2), T.ones(3)]
        assert [t.tolist() for t in call("_foreach_add")(*lists, alpha=3)] == [[4.0, 4.0], [4.0, 4.0, 4.0]]
        assert [t.dtype for t in call("_foreach_norm")(lists[0], 1, dtype=T.float64)] == [T.float64] * 2
        assert [t.item() for t in call("_foreach_norm")(lists[0], ord=1)] == [2.0, 3.0]
        assert [t.tolist() for t in call("_foreach_addcmul")(*lists, lists[1], value=2)] == [[3.0] * 2, [3.0] * 3]
        for arguments, message in (
            (([],), "at least one tensor"),
            ((lists[0], lists[1][:1]), "same number of tensors"),
        ):
            with pytest.raises(RuntimeError, match=message):
                call("_foreach_mul")(*arguments, *[2.0] * (len(arguments) == 1))


def test_gradients_flow():
    x = gc.ones(2, requires_grad=True)
    (y,) = foreach.make_loop("_foreach_mul")([x], 3.0)
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
