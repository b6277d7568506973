"""Arguments in all forms, and the names of parameters, beside PyTorch's."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gradcore as gc  # noqa: E402
from gradcore.dispatch.signatures import _collect_other_names  # noqa: E402
from gradcore.ops.declare.table import OPS  # noqa: E402


class Index:
    def __index__(self) -> int:
        return 2


#: Forms of numbers and of what is none; functions of the library, as tensors are its own.
FORMS: dict[str, Callable[[Any], Any]] = {
    "int": lambda xp: 2, "float": lambda xp: 1.5, "bool": lambda xp: True, "complex": lambda xp: 1j,
    "nan": lambda xp: float("nan"), "negative": lambda xp: -1, "huge": lambda xp: 2**70, "None": lambda xp: None,
    "str": lambda xp: "2", "object": lambda xp: object(), "index": lambda xp: Index(), "list": lambda xp: [2],
    "tuple": lambda xp: (2,), "Size": lambda xp: xp.Size([2]), "array": lambda xp: np.array([2]),
    "int8": lambda xp: np.int8(2), "uint64": lambda xp: np.uint64(2), "float16": lambda xp: np.float16(0.5),
    "float32": lambda xp: np.float32(0.5), "bool_": lambda xp: np.bool_(True), "0-d array": lambda xp: np.array(2),
    "0-d float array": lambda xp: np.array(0.5), "tensor": lambda xp: xp.tensor(2), "real": lambda xp: xp.tensor(0.5),
    "truth": lambda xp: xp.tensor(True), "grad": lambda xp: xp.tensor(2.0, requires_grad=True),
    "one element": lambda xp: xp.tensor([2]), "one real": lambda xp: xp.tensor([0.5]),
}  # fmt: skip

#: What may be taken where PyTorch takes no more than Python's own: its meaning is clear.
CLEAR = {
    "int8", "uint64", "tensor", "real", "truth", "bool_", "float16", "float32", "index", "0-d array", "one element",
    "None",
}  # fmt: skip

#: Where PyTorch takes what has no meaning, or gives it one by accident; and floats that are large integers.
ACCIDENTS = {
    ("randint_like", "real"), ("randint_like", "truth"), ("randint_like", "grad"), ("split", "real"),
    ("split", "truth"), ("split", "grad"), ("split", "one real"), ("roll", "truth"), ("tensordot", "real"),
    ("tensordot", "grad"), ("tensordot", "one element"), ("tensordot", "one real"), ("new", "index"),
    ("random_ to", "None"), ("Tensor", "index"), ("sum", "truth"), ("conv1d", "truth"), ("tensordot", "bool"),
    ("Linear", "bool"), ("sum", "one element"), ("leaky_relu", "huge"),
}  # fmt: skip

CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "zeros": lambda xp, x, v: xp.zeros(v), "zeros 2": lambda xp, x, v: xp.zeros(v, 2),
    "zeros size=": lambda xp, x, v: xp.zeros(size=v), "empty list": lambda xp, x, v: xp.empty([v, 2]),
    "new_zeros": lambda xp, x, v: x.new_zeros(v), "full": lambda xp, x, v: xp.full(v, 1.0),
    "full value": lambda xp, x, v: xp.full((2,), v), "full_like": lambda xp, x, v: xp.full_like(x, v),
    "new_full": lambda xp, x, v: x.new_full((2,), v), "scalar_tensor": lambda xp, x, v: xp.scalar_tensor(v),
    "eye": lambda xp, x, v: xp.eye(v), "arange": lambda xp, x, v: xp.arange(v),
    "arange end=": lambda xp, x, v: xp.arange(end=v), "arange step": lambda xp, x, v: xp.arange(0, 3, v),
    "linspace": lambda xp, x, v: xp.linspace(0, v, 3), "linspace steps": lambda xp, x, v: xp.linspace(0, 1, v),
    "logspace base": lambda xp, x, v: xp.logspace(0, 1, 2, base=v),
    "tril_indices": lambda xp, x, v: xp.tril_indices(v, 2), "triu_indices": lambda xp, x, v: xp.triu_indices(3, 3, v),
    "empty_strided": lambda xp, x, v: xp.empty_strided((v,), (1,)), "resize_": lambda xp, x, v: xp.empty(0).resize_(v),
    "Tensor": lambda xp, x, v: xp.Tensor(v) if not isinstance(v, (xp.Tensor, np.ndarray)) else None,
    "new": lambda xp, x, v: x.new(v) if not isinstance(v, (xp.Tensor, np.ndarray)) else None,
    "Size": lambda xp, x, v: xp.empty(xp.Size([v])), "rand": lambda xp, x, v: xp.rand(v),
    "randn": lambda xp, x, v: xp.randn((v, 2)), "randint": lambda xp, x, v: xp.randint(v, (2,)),
    "randint size=": lambda xp, x, v: xp.randint(5, size=v),
    "randint high=": lambda xp, x, v: xp.randint(high=v, size=(2,)),
    "randint_like": lambda xp, x, v: xp.randint_like(x, high=v), "randperm": lambda xp, x, v: xp.randperm(v),
    "normal std": lambda xp, x, v: xp.normal(0.0, v, (2,)), "normal size": lambda xp, x, v: xp.normal(0.0, 1.0, size=v),
    "bernoulli": lambda xp, x, v: xp.bernoulli(x, v), "multinomial": lambda xp, x, v: xp.multinomial(x, v),
    "uniform_": lambda xp, x, v: x.uniform_(v, 3), "uniform_ to": lambda xp, x, v: x.uniform_(-4, v),
    "normal_": lambda xp, x, v: x.normal_(v), "exponential_": lambda xp, x, v: x.exponential_(v),
    "log_normal_": lambda xp, x, v: x.log_normal_(v), "geometric_": lambda xp, x, v: x.geometric_(v),
    "random_": lambda xp, x, v: x.random_(v), "random_ to": lambda xp, x, v: x.random_(-3, v),
    "bernoulli_": lambda xp, x, v: x.bernoulli_(v), "fill_diagonal_": lambda xp, x, v: x.fill_diagonal_(v),
    "requires_grad": lambda xp, x, v: xp.zeros(2, requires_grad=v),
    "requires_grad_": lambda xp, x, v: x.requires_grad_(v),
    "hann_window": lambda xp, x, v: xp.hann_window(v), "hann_window periodic": lambda xp, x, v: xp.hann_window(4, v),
    "gaussian": lambda xp, x, v: xp.signal.windows.gaussian(v), "fftfreq": lambda xp, x, v: xp.fft.fftfreq(v),
    "fftfreq d": lambda xp, x, v: xp.fft.fftfreq(4, v), "size": lambda xp, x, v: xp.empty(x.size(v)),
    "sum": lambda xp, x, v: x[None].sum(v), "sum keepdim": lambda xp, x, v: x.sum(0, v),
    "topk": lambda xp, x, v: x.topk(v)[0], "unfold": lambda xp, x, v: x.unfold(1, v, 1),
    "as_strided": lambda xp, x, v: x.as_strided((v,), (1,)), "narrow": lambda xp, x, v: x.narrow(1, 0, v),
    "split": lambda xp, x, v: x.split(v)[0], "roll": lambda xp, x, v: x.roll(v),
    "repeat": lambda xp, x, v: x.repeat(v, 1), "tile": lambda xp, x, v: xp.tile(x, v),
    "tensordot": lambda xp, x, v: xp.tensordot(xp.ones(2, 2, 2), xp.ones(2, 2, 2), v),
    "broadcast_to": lambda xp, x, v: xp.broadcast_to(xp.ones(1), v), "unflatten": lambda xp, x, v: x.unflatten(0, v),
    "leaky_relu": lambda xp, x, v: xp.nn.functional.leaky_relu(x, v), "add alpha": lambda xp, x, v: x.add(x, alpha=v),
    "dropout": lambda xp, x, v: xp.nn.functional.dropout(x, v),
    "interpolate": lambda xp, x, v: xp.nn.functional.interpolate(xp.ones(1, 1, 4), v),
    "conv1d": lambda xp, x, v: xp.nn.functional.conv1d(xp.ones(1, 1, 5), xp.ones(1, 1, 2), stride=v),
    "pad": lambda xp, x, v: xp.nn.functional.pad(x, (v, 1)),
    "one_hot": lambda xp, x, v: xp.nn.functional.one_hot(xp.tensor([0]), v),
    "layer_norm": lambda xp, x, v: xp.nn.functional.layer_norm(x, (3,), eps=v),
    "gelu": lambda xp, x, v: xp.nn.functional.gelu(x, approximate=v),
    "LayerNorm": lambda xp, x, v: xp.nn.LayerNorm(v).weight, "Linear": lambda xp, x, v: xp.nn.Linear(v, 2).weight,
    "to": lambda xp, x, v: x.to(v) if isinstance(v, (list, tuple, Index)) or type(v) is object else None,
    "to flags": lambda xp, x, v: x.to("cpu", v) if v is not None else None,
}  # fmt: skip

ERRORS = (TypeError, ValueError, RuntimeError, IndexError, OverflowError, NotImplementedError)


def outcome(xp: Any, call: str, form: str) -> Any:
    """Return the shape of the result, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            out = CALLS[call](xp, xp.ones(2, 3), FORMS[form](xp))
        except ERRORS as error:
            return error
    return None if out is None else tuple(out.shape)


@pytest.mark.parametrize("call", CALLS)
def test_what_pytorch_takes_is_taken_and_what_it_refuses_is_refused(call: str) -> None:
    for form in FORMS:
        ours, theirs = outcome(gc, call, form), outcome(torch, call, form)
        if isinstance(ours, Exception):
            assert "enter context" not in str(ours)
            assert isinstance(theirs, Exception) or (call, form) in ACCIDENTS, (form, ours)
        elif isinstance(theirs, Exception):
            assert form in CLEAR or (call, form) in ACCIDENTS, (form, theirs)
        else:
            assert ours == theirs, form


#: Names that PyTorch's schemas have and its Python functions do not take, or that mean other functions.
NOT_PYTHONS = {
    "a",
    "b",
    "l",
    "n",
    "i",
    "x",
    "t",
    "idx",
    "list",
    "reverse",
    "sep",
    "max",
    "separator",
    "val",
    "implicit",
}
#: What is not for tensors with strides, or goes by layouts and devices that there are not.
ELSEWHERE = {
    "cudnn_enable", "cudnn_enabled", "masked_grad", "blocksize", "dense_dim", "sparse_dim", "out_dtype", "input2",
    "input3", "align_to_window", "type1", "type2", "tensors", "qtensors", "qtensor", "path", "self", "the_template",
    "layout", "device", "dtype", "pin_memory", "memory_format", "generator", "names", "mat1", "mat2", "mask", "s",
    "dims_self", "dims_other", "other", "tensor", "scalar", "scalar1", "scalar2", "filename", "item", "equation",
    "seed", "copy", "non_blocking", "alpha", "beta", "split_sizes", "grad_tensors",
}  # fmt: skip


def names_of(op: Any) -> set[str]:
    names = {*op.names, *_collect_other_names(op), "out"}
    return names | {"input"} if "self" in names else names | {"self"} if "input" in names else names


def overloads() -> Iterator[Any]:
    """Pairs of an operation and an overload of PyTorch's function of its name, with the names of its arguments."""
    public = {op.path.replace(".", "_"): op for op in OPS.values() if op.function or op.method}
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        if name in public and not any(a.is_out for a in schema.arguments) and "Dimname" not in str(schema):
            yield public[name], [a.name for a in schema.arguments]


def test_parameters_have_pytorchs_names_in_every_overload() -> None:
    missing = [
        (op.path, name)
        for op, names in overloads()
        for name in names
        if name not in names_of(op) | NOT_PYTHONS | ELSEWHERE
    ]
    assert not missing


MODULES = ["", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "linalg", "fft", "special", "optim",
           "optim.lr_scheduler", "distributions", "autograd", "autograd.functional", "func", "utils.data"]  # fmt: skip
#: Private ones, and what goes by compilers, graphs of CUDA or files of other formats.
OTHERS = re.compile(
    r"_.*|orig_func|node|return_indices|external|hooks_dict|extra_dict|abbreviated|align_to_window|a|fullgraph|dynamic|"
    r"backend|mode|options|name|disable|recompile_limit|isolate_recompiles|shapes_spec|foreach|device"
)


@pytest.mark.parametrize("path", MODULES)
def test_functions_and_classes_have_pytorchs_parameters(path: str) -> None:
    ours, theirs = (importlib.import_module(f"{root}.{path}".rstrip(".")) for root in ("gradcore", "torch"))
    ops = {id(op.call): op for op in OPS.values() if op.function or op.method}
    missing = []
    for name, function in inspect.getmembers(theirs, callable):
        own = getattr(ours, name, None)
        if own is None or name.startswith("_") or not str(getattr(function, "__module__", "")).startswith("torch"):
            continue
        try:
            wanted = inspect.signature(function).parameters.values()
            has = names_of(ops[id(own)]) if id(own) in ops else set(inspect.signature(own).parameters)
        except (TypeError, ValueError):  # made in C, without a signature
            continue
        named = [p.name for p in wanted if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        missing += [(name, each) for each in named if each not in has and not OTHERS.fullmatch(each)]
    assert not missing
