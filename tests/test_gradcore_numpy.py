"""NumPy's functions on tensors against NumPy: values, dtypes, derivatives; and that every function is classified."""

from __future__ import annotations

import ast
import doctest
import inspect
import operator
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
import gradcore.numpy as gnp
from gradcore.autograd import gradcheck, gradgradcheck
from gradcore.numpy.documentation import read_entries
from gradcore.numpy.examples import EXAMPLES
from gradcore.numpy.table import CONSTANT, FUNCTIONS, ON_ARRAYS, REFUSED, functions_of
from gradcore.numpy.ufuncs import Ufunc
from tests.numpy_calls import CALLS, EDGE_CALLS, IN_PLACE, METHODS, REFUSED_CALLS, drawn, lines
from tests.references import IS_NEWEST, reference_call

pytestmark = pytest.mark.filterwarnings("ignore")

EXPRESSIONS = [
    f"np.{name}({call})" for text in (CALLS, METHODS) for name, calls in lines(text).items() for call in calls
]
#: Letters of arrays that have derivatives.
SMOOTH = "ABCDNPSVWX"
#: Functions whose results are not unique, or have no order.
LOOSE = re.compile(
    r"np\.(argpartition|unique_values|empty_like|linalg\.(eig|eigh|qr|svd))\(|np\.(absolute|add)\(.*where"
)
#: Functions that NumPy itself computes of tensors: `asarray` and its kin, and `full`, cannot be overridden.
ARRAYS = re.compile(r"np\.(array|as\w*array\w*|full|require)\(")


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _letters(expression: str) -> list[str]:
    """Return the names of the arrays that an expression reads."""
    return [name for name in drawn() if re.search(rf"(?<![\w.]){name}(?!\w)", expression)]


def _strided(array: Any) -> Any:
    """Return a tensor that consists of every second element in memory."""
    return gc.tensor(np.repeat(array, 2, -1))[..., ::2] if isinstance(array, np.ndarray) else array


def _evaluated(expression: str, module: Any, values: dict[str, Any]) -> Any:
    return eval(expression, {"np": module, **values})


def _compare(found: Any, wanted: Any, expression: str) -> None:
    found, wanted = list(_leaves(found)), list(_leaves(wanted))
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        if not isinstance(theirs, (np.ndarray, np.number, np.bool_)):
            assert not isinstance(ours, gc.Tensor) or theirs == ours.item()
            continue
        if isinstance(ours, np.ndarray):
            assert ARRAYS.match(expression)
        elif isinstance(ours, int):  # the rank of a matrix
            assert ours == theirs
            continue
        else:
            assert isinstance(ours, gc.Tensor), type(ours)
            ours = ours.detach().resolve_conj().numpy()
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if not LOOSE.match(expression):
            digits = {2: 1e-3, 4: 1e-5}.get(theirs.dtype.itemsize, 1e-10) if theirs.dtype.kind == "f" else 1e-10
            np.testing.assert_allclose(ours, theirs, rtol=digits, atol=digits)


@pytest.mark.parametrize(
    "expression", EXPRESSIONS + [f"np.{name}({call})" for name, calls in lines(EDGE_CALLS).items() for call in calls]
)
def test_values_and_dtypes(expression: str) -> None:
    arrays = drawn()
    with reference_call():
        wanted = _evaluated(expression, np, arrays)
    kept = ("A0", "F64")
    tensors = {name: value if name in kept else gc.tensor(value) for name, value in arrays.items()}
    strided = {name: value if name in kept else _strided(value) for name, value in arrays.items()}
    _compare(_evaluated(expression, gnp, strided), wanted, expression)
    if set(_letters(expression)) - set(kept):
        _compare(_evaluated(expression, np, tensors), wanted, expression)


@pytest.mark.parametrize(
    "call", [f"np.{name}({call})" for name, calls in lines(REFUSED_CALLS).items() for call in calls]
)
def test_what_numpy_refuses_is_refused(call: str) -> None:
    arrays = drawn()
    errors = (TypeError, ValueError, IndexError, KeyError, OverflowError, RuntimeError)
    with pytest.raises(errors):
        _evaluated(call, np, arrays)
    with pytest.raises(errors):
        _evaluated(call, gnp, {name: gc.tensor(value) for name, value in arrays.items()})


@pytest.mark.parametrize("name", ["all", "argmax", "average", "count_nonzero", "cumsum", "median", "nanargmax", "std"])
def test_axes_can_be_scalars_of_numpy(name: str) -> None:
    axis, A = np.int8(1), drawn()["A"]
    _compare(getattr(gnp, name)(gc.tensor(A), axis=axis), getattr(np, name)(A, axis=axis), name)


LAYOUTS = {
    "transposed": lambda x: x.T,
    "permuted": lambda x: x.transpose(1, 2, 0),
    "parts of rows": lambda x: x[:, :, ::2],
    "parts of columns": lambda x: x.T[::2],
    "repeated": lambda x: np.broadcast_to(x[:, :1], (2, 4, 4)).transpose(2, 1, 0),
    "repeated in front": lambda x: np.broadcast_to(x[0], (2, 3, 4)).transpose(1, 2, 0),
    "a matrix": lambda x: x[0].T,
}


@pytest.mark.parametrize("order", "CFAK")
@pytest.mark.parametrize("name", LAYOUTS)
def test_orders_of_elements_follow_the_memory(name: str, order: str) -> None:
    x = LAYOUTS[name](np.arange(24.0).reshape(2, 3, 4))
    t = gc.as_tensor(x)
    assert gnp.ravel(t, order).tolist() == np.ravel(x, order).tolist()
    if order != "K":
        assert gnp.reshape(t, -1, order).tolist() == np.reshape(x, -1, order).tolist()


def test_numbers_of_numpy_keep_their_dtype() -> None:
    _compare(gnp.logspace(np.float32(0.5), 1.0, num=4), np.logspace(np.float32(0.5), 1.0, num=4), "logspace")


def _name(expression: str) -> str:
    return expression[3 : expression.index("(")]


DIFFERENTIABLE = [
    e for e in EXPRESSIONS
    if _name(e).partition(".")[0] not in CONSTANT and _name(e) not in CONSTANT and set(_letters(e)) & set(SMOOTH)
]  # fmt: skip
#: Calls that have no derivative, of functions that do.
WITHOUT = re.compile(
    r"np\.(where\(M\)|where\(A > 1, I|unique_counts|linalg\.eig\(|heaviside\(|linalg\.matrix_power\(S, 0|full_like"
    r"|linalg\.svd\(A, full|linalg\.qr\(A, .comp|histogram\(A, (4|np)|unique\(N|imag\(A\)|.*np\.float32)"
)


def _inexact(value: Any) -> tuple[Any, ...]:
    return tuple(
        t for t in _leaves(value) if isinstance(t, gc.Tensor) and t.dtype.is_differentiable and t.requires_grad
    )


@pytest.mark.parametrize("expression", [e for e in DIFFERENTIABLE if not WITHOUT.match(e)])
def test_derivatives(expression: str) -> None:
    arrays = {k: v if k in ("A0", "F64") else gc.tensor(v) for k, v in drawn().items()}
    names = [name for name in _letters(expression) if name in SMOOTH]
    module = gnp if ARRAYS.match(expression) else np
    with reference_call():
        _evaluated(expression, np, drawn())

    def call(*values: gc.Tensor) -> Any:
        return _inexact(_evaluated(expression, module, {**arrays, **dict(zip(names, values, strict=True))}))

    leaves = [arrays[name].clone().requires_grad_() for name in names]
    assert call(*leaves), "no result has a history"
    assert gradcheck(call, leaves, fast_mode=True, atol=1e-4, check_undefined_grad=False)
    assert gradgradcheck(call, leaves, fast_mode=True, atol=1e-4, rtol=1e-2, check_undefined_grad=False)


@pytest.mark.parametrize("line", [f"{name}({call})" for name, calls in lines(IN_PLACE).items() for call in calls])
def test_writing_in_place(line: str) -> None:
    arrays, tensors = drawn(), {k: v if k in ("A0", "F64") else gc.tensor(v) for k, v in drawn().items()}
    name = _letters(line)[0]
    _evaluated(f"np.{line}", np, arrays)
    _evaluated(f"np.{line}", np, tensors)
    np.testing.assert_allclose(tensors[name].numpy(), arrays[name])
    leaf = gc.tensor(drawn()[name], requires_grad=True)
    target = leaf * 1.5
    _evaluated(f"np.{line}", np, {**tensors, name: target})
    (grad,) = gc.autograd.grad(target.sum(), leaf)
    moved = gc.tensor(drawn()[name] + 1e-3) * 1.5
    _evaluated(f"np.{line}", np, {**tensors, name: moved})
    assert float(grad.sum()) * 1e-3 == pytest.approx(float((moved - target.detach()).sum()), rel=1e-4)


@pytest.mark.parametrize("prefix", ["", "linalg.", "fft."])
def test_every_function_is_classified(prefix: str) -> None:
    module = getattr(np, prefix[:-1]) if prefix else np
    names = {prefix + name for name in functions_of(module)}
    aliases = {
        name
        for name in names
        if getattr(getattr(module, name.removeprefix(prefix)), "__name__", None)
        not in (None, name.removeprefix(prefix))
    }
    # NumPy 2.0 still has some functions that were to go, and functions for its own tests.
    found = names - aliases if IS_NEWEST else {n for n in names - aliases if n[0] != "_"} - {"in1d", "trapz"}
    groups = [set(FUNCTIONS), set(ON_ARRAYS), set(REFUSED)]
    unknown = {name for name in found if not any(name in group for group in groups)}
    assert not unknown, "in none of the tables of gradcore/numpy/table.py"
    assert not groups[0] & groups[1] | groups[1] & groups[2] | groups[0] & groups[2]
    gone = {name for group in groups for name in group if not prefix and "." not in name and not hasattr(np, name)}
    assert gone <= {"bitwise_count", "matvec", "vecmat", "cumulative_sum", "cumulative_prod", "unstack", "isnat"}


#: Functions that are NumPy's own universal functions, and came with NumPy 2.2.
_LATER = {"matvec", "vecmat"} - set(FUNCTIONS)


def test_every_function_that_is_classified_has_calls() -> None:
    called = {*lines(CALLS), *lines(IN_PLACE)} - _LATER
    assert set(FUNCTIONS) - called == {"empty", "fromfile", "vectorize"}
    assert not {name for name in called if "." not in name} - set(FUNCTIONS)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refusals_say_why(name: str) -> None:
    assert REFUSED[name].count(";") or "NumPy itself" in REFUSED[name]
    function = getattr(np, name)
    if hasattr(function, "_implementation"):  # one that asks its arguments
        with pytest.raises(TypeError, match=r"does not take tensors|argument"):
            function(gc.ones(2, requires_grad=True))


def test_coverage_of_the_namespace_of_jax() -> None:
    jnp = pytest.importorskip("jax.numpy")
    for path, ours in (("", gnp), ("linalg", gnp.linalg), ("fft", gnp.fft)):
        theirs = getattr(jnp, path) if path else jnp
        names = {n for n in dir(theirs) if not n.startswith("_")}
        missing = {n for n in names if not hasattr(ours, n)} - LEFT_OUT.keys()
        assert not missing


def _left_out(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


#: Names of ``jax.numpy`` that gradcore.numpy has not.
LEFT_OUT = {
    **_left_out(
        "dtypes that no tensor of gradcore has",
        "float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn "
        "float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu int1 int2 int4 uint1 uint2 uint4",
    ),
    **_left_out("names of dtypes that NumPy 2 has given up", "complex_ float_"),
    **_left_out("of NumPy's arrays; `vectorize` takes its place", "frompyfunc"),
    **_left_out("a class of jax", "ufunc ComplexWarning"),
}


def test_promotion_is_numpys() -> None:
    ints, singles = gc.tensor([1, 2]), gc.tensor([1.0, 2.0])
    assert np.multiply(ints, 0.5).dtype is gc.float64
    assert np.multiply(singles, 0.5).dtype is gc.float32
    assert gnp.multiply(singles, np.float64(0.5)).dtype is gc.float64
    assert np.multiply(singles, np.float64(0.5)).dtype is gc.float32  # which is `singles * np.float64(0.5)`, too
    assert np.hypot(singles, np.float64(0.5)).dtype is gc.float64
    assert np.add(singles, ints).dtype is gc.float64
    assert np.sin(ints).dtype is gc.float64
    assert np.mean(ints).dtype is gc.float64
    assert np.sum(gc.tensor([1, 2], dtype=gc.int8)).dtype is gc.int64
    assert (singles + ints).dtype is gc.float32  # operators are the tensor's own
    with pytest.raises(OverflowError):
        np.add(gc.tensor([1], dtype=gc.int8), 300)


@pytest.mark.parametrize("scalar", [np.float64(0.5), np.longdouble(0.5), np.array(0.5)], ids=repr)
def test_operators_have_one_dtype_on_both_sides(scalar: Any) -> None:
    for x in (gc.tensor([1.0, 2.0]), gc.tensor([1, 2]), gc.tensor([1.0], dtype=gc.float64)):
        expected = (x * (0.5 if np.isscalar(scalar) else gc.as_tensor(scalar))).dtype
        for function in (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod):
            left, right = function(scalar, x), function(x, scalar)
            assert left.dtype is right.dtype is expected
            assert left.tolist() == function(0.5, x).tolist()
    w = gc.tensor([1.0, 2.0], requires_grad=True)
    (scalar / w).sum().backward()
    assert w.grad.tolist() == [-0.5, -0.125]


def test_methods_of_arrays_keep_the_history() -> None:
    array = np.array([[1.0, 2.0], [4.0, 8.0]])
    x = gc.tensor(array, requires_grad=True)
    for method, named in (("std", {}), ("var", {"axis": 0}), ("std", {"axis": 1, "keepdims": True})):
        for ddof in (0, 1):
            np.testing.assert_allclose(
                getattr(x, method)(ddof=ddof, **named).detach(), getattr(array, method)(ddof=ddof, **named)
            )
    assert gradcheck(lambda t: t.std(ddof=0), x)
    copied, double = x.copy(), x.astype("complex128")
    assert copied.data_ptr() != x.data_ptr()
    assert x.astype(gc.float64).data_ptr() != x.data_ptr() == x.astype(np.float64, copy=False).data_ptr()
    (copied.sum() + double.real.sum()).backward()
    assert x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_results_into_given_memory() -> None:
    x = gc.tensor([0.5, 1.0], dtype=gc.float64, requires_grad=True)
    out = gc.zeros(2, dtype=gc.float64)
    assert np.sin(x, out=out) is out
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos([0.5, 1.0]))
    array = np.zeros(2)
    assert np.sin(x.detach(), out=array) is array
    assert array[1] == np.sin(1.0)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.sin(x, out=array)
    with pytest.raises(TypeError, match="casting rule"):
        np.sin(x, out=gc.zeros(2, dtype=gc.int64))


def test_clip_leaves_elements_that_a_mask_excludes() -> None:
    x, mask = np.array([-1.0, 0.5, 3.0, 4.0]), np.array([True, False, True, False])
    for low, high in ((0.0, 1.0), (None, 1.0), (0.0, None)):
        expected = np.clip(x, low, high, out=np.full(4, 7.0), where=mask)
        out = gc.full((4,), 7.0, dtype=gc.float64)
        assert gnp.clip(gc.tensor(x), low, high, out=out, where=mask) is out
        np.testing.assert_array_equal(out.numpy(), expected)


def test_gradient_at_distances_in_batches() -> None:
    y, x = gc.tensor([[0.2, 0.3, 0.7], [0.1, 0.5, 0.6]]), gc.tensor([[0.0, 1.0, 3.0], [1.0, 2.0, 2.5]])
    found = gc.vmap(gnp.gradient)(y, x)
    np.testing.assert_allclose(found, [np.gradient(*each) for each in zip(y.numpy(), x.numpy(), strict=True)], 1e-5)


def test_powers_of_integers_in_batches() -> None:
    x, y = gc.tensor([2, 3]), gc.tensor([3, 2])
    assert gc.vmap(gnp.power)(x, y).tolist() == [8, 9]
    with pytest.raises(ValueError, match="negative integer powers"):
        gc.vmap(gnp.power)(x, -y)


def test_masked_elements_have_no_derivative() -> None:
    x = gc.tensor([0.0, 2.0, -1.0], dtype=gc.float64, requires_grad=True)
    np.log(x, where=x.detach() > 0).sum().backward()
    assert x.grad.tolist() == [0.0, 0.5, 0.0]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (np.array([1, "a"], dtype=object), "objects"),
        (np.array(["a", "b"]), "strings"),
        (np.array(["2020-01-01"], "M8[D]"), "dates"),
        (np.array([3], "m8[s]"), "time spans"),
    ],
)
def test_what_tensors_cannot_hold(other: Any, what: str) -> None:
    with pytest.raises(TypeError, match=f"tensors hold numbers, not {what}"):
        np.add(gc.ones(1), other)
    with pytest.raises(TypeError, match=f"tensors hold numbers, not {what}"):
        gnp.asarray(other)


def test_lists_of_tensors_keep_their_history() -> None:
    x = gc.tensor([1.0, 2.0], dtype=gc.float64, requires_grad=True)
    found = gnp.array([[x[0] * x[1], 0.0], [1.0, x[1]]])
    assert (found.shape, found.dtype) == ((2, 2), gc.float64)
    found.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert gnp.sum([x[0].detach(), 3]).item() == 4.0
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        np.asarray(x)


def test_a_function_that_is_not_known_is_refused_where_history_would_be_lost() -> None:
    from numpy.testing import assert_array_equal

    special = pytest.importorskip("scipy.special")
    x = gc.ones(2, dtype=gc.float64)
    assert_array_equal(special.kolmogorov(x).numpy(), special.kolmogorov(np.ones(2)))
    with pytest.raises(RuntimeError, match="requires grad"):
        special.kolmogorov(x.requires_grad_())


def test_vectorize_stacks() -> None:
    x = gc.tensor([-1.0, 2.0], dtype=gc.float64, requires_grad=True)
    gnp.vectorize(lambda a, b: a * b if a > 0 else a)(x, 3.0).sum().backward()
    assert x.grad.tolist() == [1.0, 3.0]


def test_transformations_go_through() -> None:
    x = gc.tensor(drawn()["A"])
    assert gc.allclose(gc.vmap(lambda row: np.cumsum(np.sin(row)))(x), np.cumsum(np.sin(x), 1))
    _, tangent = gc.func.jvp(lambda x: np.linalg.norm(np.diff(x)), (x,), (gc.ones_like(x),))
    assert tangent.abs() < 1e-12


def test_the_namespace_is_imported_when_it_is_used() -> None:
    import subprocess
    import sys

    program = "import sys, gradcore; print([m for m in sys.modules if m.startswith('gradcore.numpy')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gnp.asarray([1, 2]).dtype is gc.int64


@pytest.mark.parametrize(
    "draw",
    [
        lambda npr: npr.rand(2, 3), lambda npr: npr.randn(4), lambda npr: npr.randint(5, size=3),
        lambda npr: npr.permutation(5), lambda npr: npr.RandomState(3).normal(size=2),
        lambda npr: npr.default_rng(3).uniform(size=2), lambda npr: npr.uniform(), lambda npr: npr.choice(9, 3),
    ],
)  # fmt: skip
def test_random_numbers_are_those_of_numpy(draw: Any) -> None:
    gnp.random.seed(5)
    found = draw(gnp.random)
    np.random.seed(5)
    expected = draw(np.random)
    assert isinstance(found, gc.Tensor) is isinstance(expected, np.ndarray)
    np.testing.assert_array_equal(found, expected)


def test_random_numbers_of_tensors() -> None:
    x, array = gc.arange(5.0), np.arange(5.0)
    gnp.random.seed(1)
    gnp.random.shuffle(x)
    np.random.seed(1)
    np.random.shuffle(array)
    assert x.tolist() == array.tolist()
    assert gnp.random.normal(x, 0.0).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="requires grad"):
        gnp.random.normal(x.requires_grad_(), 1.0)


def test_numpy_takes_dtypes() -> None:
    assert gnp.ones(1).dtype.type is np.float64
    assert gnp.row_stack([gnp.ones(2)] * 2).shape == (2, 2)
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        assert np.ones(2).astype(gnp.float32).dtype == np.dtype(gc.float32) == np.float32


# -- docstrings -------------------------------------------------------------------------------------------------------

ENTRIES = read_entries(EXAMPLES)


def test_every_function_has_an_example() -> None:
    described = {id(FUNCTIONS[name]) for name in ENTRIES if name not in _LATER}
    assert {name for name, function in FUNCTIONS.items() if id(function) not in described} == {"fromfile", "vectorize"}
    assert FUNCTIONS["vectorize"].__doc__


@pytest.mark.parametrize("name", sorted(ENTRIES.keys() - _LATER))
def test_docstrings_have_examples_that_run(name: str) -> None:
    test = doctest.DocTestParser().get_doctest(FUNCTIONS[name].__doc__ or "", {}, name, None, None)
    assert test.examples
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed == 0


def _bind_leaves(name: str, call: str) -> tuple[Any, dict[str, list[gc.Tensor]]]:
    """Return the result of a call, and the tensors that require grad in each of its arguments."""
    function = FUNCTIONS[name]
    if isinstance(function, Ufunc):
        names = ["x"] if function.nin == 1 else [f"x{i + 1}" for i in range(function.nin)]
    else:
        with reference_call():  # some of NumPy's own functions had no signature
            parameters = inspect.signature(function).parameters.values()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        names += [p.name for p in parameters if p.kind is p.VAR_POSITIONAL] * 20
    tree = ast.parse(f"f({call})", mode="eval").body
    assert isinstance(tree, ast.Call)
    leaves: dict[str, list[gc.Tensor]] = {}

    def evaluate(node: ast.expr, parameter: str) -> Any:
        arrays = {
            k: v if k in ("A0", "F64") else gc.tensor(v, requires_grad=v.dtype.kind in "fc") for k, v in drawn().items()
        }
        value = eval(ast.unparse(node), {"np": gnp, **arrays})
        if any(isinstance(t, gc.Tensor) and t.requires_grad for t in _leaves(value)):
            leaves.setdefault(parameter, []).extend(t for k, t in arrays.items() if k in SMOOTH)
        return value

    args = [evaluate(node, each) for node, each in zip(tree.args, names, strict=False)]
    return function(*args, **{k.arg: evaluate(k.value, k.arg) for k in tree.keywords if k.arg}), leaves


@pytest.mark.parametrize("name", [name for name in ENTRIES if name in lines(CALLS) and name not in _LATER])
def test_docstrings_name_the_differentiable_arguments(name: str) -> None:
    documented = set() if ENTRIES[name][0] == "no derivative" else set(ENTRIES[name][0].split(", "))
    found = set()
    for call in lines(CALLS)[name]:
        result, leaves = _bind_leaves(name, call)
        for parameter, tensors in leaves.items():
            outputs = _inexact(result)
            if outputs and any(g is not None for g in gc.autograd.grad(
                sum(t.abs().sum() for t in outputs), tensors, allow_unused=True, retain_graph=True
            )):  # fmt: skip
                found.add(parameter)
    assert found == documented or documented == {"a step function"}
