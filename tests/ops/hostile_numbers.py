"""Calls of every operation with one integer that is hostile: a size, a length, a count, an offset or an index.

As a program (``python -m tests.ops.hostile_numbers``) it makes all of them with little memory, and prints those that
end in another way than by a result or by an error that PyTorch might raise. The last line names the call that runs,
should it kill the process; a call that takes longer than `SECONDS` does.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradcore as gc
import gradcore.numpy as gnp
from tests import numpy_calls
from tests.ops.cases import ALL
from tests.scipy_functions.comparing import expressions

F = gc.nn.functional

#: The ends of int32 and int64, what no memory holds, and what counts from no end.
NUMBERS = (2**31, 2**40, 2**62, 2**63 - 1, -1, -(2**31), -(2**40), -(2**63))

#: Limit of time of each call, ten times what a busy machine needs.
SECONDS = 30

#: Parameters of declarations that are integers, beside those that samples give.
_INTEGERS = ("int", "int | None", "Ints", "Ints | None")


class Hostile(NamedTuple):
    """A call with a hostile number: its label, function and arguments. NumPy arrays in `args` become tensors."""

    label: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    settings: dict[str, Any]

    def run(self) -> Any:
        return self.function(*_tensors(self.args), **{k: _tensors(v) for k, v in self.settings.items()})


def _tensors(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(map(_tensors, value))
    return gc.tensor(np.asarray(value)) if isinstance(value, np.ndarray) else value


def _replaced(value: Any, number: int) -> Iterator[Any]:
    """`value` with one of its integers replaced."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "i" and value.size:
            info = np.iinfo(value.dtype)
            if info.min <= number <= info.max:
                changed = np.array(value)
                changed.reshape(-1)[-1] = number
                yield changed
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            for new in _replaced(item, number):
                yield type(value)([*value[:i], new, *value[i + 1 :]])
    elif isinstance(value, int) and not isinstance(value, bool):
        yield number


def _of_operations() -> Iterator[Hostile]:
    for case in ALL:
        if not (case.op.function or case.op.method):
            continue
        for number in NUMBERS:
            names = [p.name for p in case.op.parameters]
            for i, value in enumerate(case.args):
                for j, new in enumerate(_replaced(value, number)):
                    label = f"{case.label} {names[i] if i < len(names) else i}[{j}]={number}"
                    yield Hostile(label, case.op.call, (*case.args[:i], new, *case.args[i + 1 :]), case.settings)
            for name, value in case.settings.items():
                for j, new in enumerate(_replaced(value, number)):
                    yield Hostile(
                        f"{case.label} {name}[{j}]={number}", case.op.call, case.args, {**case.settings, name: new}
                    )
            for p in case.op.parameters[len(case.args) :]:
                if (
                    p.name not in ("niter", *case.settings)
                    and p.annotation in _INTEGERS
                    and p.kind is not p.VAR_POSITIONAL
                ):
                    yield Hostile(
                        f"{case.label} +{p.name}={number}", case.op.call, case.args, {**case.settings, p.name: number}
                    )


def _a(*shape: int) -> Any:
    return np.ones(shape)


def _draw(name: str, method: str, number: int) -> Any:
    """Draw so many samples of a distribution, or expand it to so many."""
    matrix = gc.eye(2)
    arguments = {
        "Poisson": (gc.ones(()),), "Bernoulli": (gc.tensor(0.5),), "Categorical": (gc.ones(3),),
        "Dirichlet": (gc.ones(3),), "StudentT": (gc.tensor(3.0),), "MultivariateNormal": (gc.zeros(2), matrix),
        "Wishart": (gc.tensor(3.0), matrix),
    }.get(name, (gc.ones(()), gc.ones(())))  # fmt: skip
    return getattr(getattr(gc.distributions, name)(*arguments), method)((number,))


#: Modules with the sizes of their constructors, each of which becomes hostile in turn.
_MODULES: dict[str, tuple[int, ...]] = {
    "Bilinear": (2, 3, 4), "Conv2d": (2, 3, 3), "ConvTranspose1d": (2, 3, 3), "EmbeddingBag": (5, 3), "GRU": (2, 3, 2),
    "GRUCell": (2, 3), "RNN": (2, 3, 2), "LSTM": (2, 3, 2), "LSTMCell": (2, 3), "BatchNorm1d": (3,),
    "GroupNorm": (1, 3), "LayerNorm": (3,),
    "PReLU": (3,), "TransformerDecoderLayer": (4, 2, 5), "Upsample": (4,),
    "MultiheadAttention": (4, 2), "Linear": (2, 3), "LocalResponseNorm": (2,), "InstanceNorm2d": (3,),
    "AdaptiveAvgPool2d": (3,), "MaxPool3d": (2, 2, 1), "Fold": (4, 2), "Unfold": (2, 1, 1), "PixelShuffle": (2,),
}  # fmt: skip


def _module(name: str, sizes: tuple[int, ...], position: int, number: int) -> Any:
    sizes = (*sizes[:position], number, *sizes[position + 1 :])
    return getattr(gc.nn, name)(*sizes)


#: Calls beside the operations of the table: factories, random numbers, methods, modules. ``None`` is the number.
_OTHERS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn", "randperm", "eye", "arange"), (None,)),
    **{f"{name} of two": (getattr(gc, name), 2, None) for name in ("zeros", "ones", "empty", "rand", "randn", "eye")},
    **{name: (None,) for name in dir(gc) if name.endswith("_window")},
    **dict.fromkeys(("linspace", "logspace"), (0.0, 1.0, None)),
    "full": ((None,), 1.0), "range": (0, None), "randint": (5, (None,)), "randint high": (gc.randint, None, (2,)),
    "tril_indices": (None, 3), "triu_indices": (3, None), "tril_indices offset": (gc.tril_indices, 3, 3, None),
    "empty_strided": ((2, None), (1, 1)), "empty_strided stride": (gc.empty_strided, (2, 2), (1, None)),
    "new_zeros": (lambda n: gc.ones(2).new_zeros(n), None), "new_full": (lambda n: gc.ones(2).new_full((n,), 1), None),
    "resize_": (lambda n: gc.ones(2).resize_(n), None), "sparse_coo size": (
        lambda n: gc.sparse_coo_tensor(gc.tensor([[0]]), gc.ones(1), (n,)), None),
    "sparse_coo index": (lambda n: gc.sparse_coo_tensor(gc.tensor([[n]]), gc.ones(1)), None),
    "sparse_coo dense": (lambda n: gc.sparse_coo_tensor(gc.tensor([[0]]), gc.ones(1), (n,)).to_dense(), None),
    "sparse_csr row": (lambda n: gc.sparse_csr_tensor(gc.tensor([0, n]), gc.tensor([0]), gc.ones(1)), None),
    "sparse_csr column": (lambda n: gc.sparse_csr_tensor(gc.tensor([0, 1]), gc.tensor([n]), gc.ones(1)), None),
    "sparse_csr size": (lambda n: gc.sparse_csr_tensor(gc.tensor([0, 1]), gc.tensor([0]), gc.ones(1), (1, n)), None),
    "as_strided": (lambda n: gc.ones(4).as_strided((2,), (n,)), None), "getitem": (lambda n: gc.ones(4)[n], None),
    "slice": (lambda n: gc.ones(4)[n:], None), "step": (lambda n: gc.ones(4)[::n], None),
    "index": (lambda n: gc.ones(4)[gc.tensor([n])], None), "manual_seed": (None,),
    "ctc targets": (lambda n: F.ctc_loss(
        gc.zeros(5, 2, 4), gc.ones(2, 3, dtype=gc.int64), gc.tensor([5, 5]), gc.tensor([3, n])), None),
    "ctc flat targets": (lambda n: F.ctc_loss(
        gc.zeros(5, 2, 4), gc.ones(6, dtype=gc.int64), gc.tensor([5, 5]), gc.tensor([3, n])), None),
    "ctc inputs": (lambda n: F.ctc_loss(
        gc.zeros(5, 2, 4), gc.ones(2, 3, dtype=gc.int64), gc.tensor([5, n]), gc.tensor([3, 3])), None),
    "bag offsets": (lambda n: F.embedding_bag(gc.zeros(9, dtype=gc.int64), gc.ones(9, 4), gc.tensor([0, n, 2])), None),
    "last bag offset": (lambda n: F.embedding_bag(gc.zeros(9, dtype=gc.int64), gc.ones(9, 4), gc.tensor([0, n])), None),
    "bag index": (lambda n: F.embedding_bag(gc.tensor([0, n]), gc.ones(9, 4), gc.tensor([0, 1])), None),
    "coo to_dense of two": (lambda n: gc.sparse_coo_tensor(gc.tensor([[0], [1]]), gc.ones(1), (n, n)).to_dense(), None),
    "Generator seed": (lambda n: gc.Generator().manual_seed(n), None),
    "frombuffer": (lambda n: gc.frombuffer(bytearray(8), dtype=gc.uint8, count=n), None),
    "frombuffer offset": (lambda n: gc.frombuffer(bytearray(8), dtype=gc.uint8, offset=n), None),
    "storage": (lambda n: gc.UntypedStorage(n), None), "tensor of sizes": (lambda n: gc.FloatTensor(n), None),
    "pack": (lambda n: gc.nn.utils.rnn.pack_padded_sequence(gc.ones(3, 2, 1), gc.tensor([3, n]), enforce_sorted=False),
             None),
    "pad_packed": (lambda n: gc.nn.utils.rnn.pad_packed_sequence(
        gc.nn.utils.rnn.pack_sequence([gc.ones(3)]), total_length=n), None),
    "sobol": (lambda n: gc.quasirandom.SobolEngine(2).draw(n), None),
    "sobol dims": (lambda n: gc.quasirandom.SobolEngine(n), None),
    "multinomial": (lambda n: gc.multinomial(gc.ones(3), n, replacement=True), None),
    "unfold": (lambda n: gc.ones(9).unfold(0, n, 1), None), "unfold step": (lambda n: gc.ones(9).unfold(0, 2, n), None),
    "unique": (lambda n: gc.ones(n, 0).unique(dim=0), None), "unbind": (lambda n: gc.ones(n, 0).unbind(0), None),
    "split": (lambda n: gc.ones(n, 0).split(1), None), "chunk": (lambda n: gc.ones(n, 0).chunk(n), None),
    "tensor_split": (lambda n: gc.tensor_split(gc.ones(9), n), None),
    "list": (lambda n: gc.zeros(0, n).sum(1), None),
    "batch": (lambda n: gc.nn.functional.one_hot(gc.tensor([n])), None),
    "dirac": (lambda n: gc.nn.init.dirac_(gc.ones(2, 2, 3), n), None), "Linear": (lambda n: gc.nn.Linear(n, n), None),
    "Embedding": (lambda n: gc.nn.Embedding(n, 4), None), "LSTM": (lambda n: gc.nn.LSTM(2, n), None),
    "Conv": (lambda n: gc.nn.Conv1d(1, 1, n), None),
    "Conv groups": (lambda n: gc.nn.Conv1d(2, 2, 1, groups=n), None),
    "Transformer": (lambda n: gc.nn.TransformerEncoderLayer(4, 2, n), None),
    "heads": (lambda n: gc.nn.MultiheadAttention(4, n), None),
    "affine_grid": (lambda n: F.affine_grid(gc.ones(1, 2, 3), (1, 1, n, n), False), None),
    "avg_pool1d window": (lambda n: F.avg_pool1d(gc.ones(1, 1, 9), n, padding=max(n, 0) // 2, stride=1), None),
    "lp_pool1d window": (lambda n: F.lp_pool1d(gc.ones(1, 1, 9), 2.0, n), None),
    "combinations of 100": (lambda n: gc.combinations(gc.arange(100), n), None),
    "combinations again": (lambda n: gc.combinations(gc.arange(100), n, with_replacement=True), None),
    "adaptive": (lambda n: F.adaptive_avg_pool1d(gc.ones(1, 1, 9), n), None),
    **{f"{name}.{method}": (lambda n, name=name, method=method: _draw(name, method, n), None)
       for name in ("Normal", "Gamma", "Beta", "Poisson", "Bernoulli", "Categorical", "Dirichlet", "StudentT",
                    "VonMises", "MultivariateNormal", "Wishart") for method in ("sample", "expand")},
    "Binomial": (lambda n: gc.distributions.Binomial(n, gc.tensor(0.5)).sample(), None),
    "Binomial.support": (lambda n: gc.distributions.Binomial(n, gc.tensor(0.5)).enumerate_support(), None),
    "Multinomial": (lambda n: gc.distributions.Multinomial(n, gc.ones(3) / 3).sample(), None),
    "Multinomial.entropy": (lambda n: gc.distributions.Multinomial(n, gc.ones(3) / 3).entropy(), None),
    "Categorical.log_prob": (lambda n: gc.distributions.Categorical(gc.ones(3)).log_prob(gc.tensor(n)), None),
    "LKJCholesky": (lambda n: gc.distributions.LKJCholesky(n).sample(), None),
    "Independent": (lambda n: gc.distributions.Independent(gc.distributions.Normal(gc.zeros(2), 1.0), n), None),
    "StickBreaking": (lambda n: gc.distributions.StickBreakingTransform()(gc.ones(2).expand(max(n, 0), 2)), None),
    **{f"{name} {i}": (lambda n, name=name, sizes=sizes, i=i: _module(name, sizes, i, n), None)
       for name, sizes in _MODULES.items() for i in range(len(sizes))},
    "adaptive max": (lambda n: F.adaptive_max_pool2d(gc.ones(1, 9, 9), (n, 2)), None),
}  # fmt: skip


def _of_others() -> Iterator[Hostile]:
    for label, (first, *rest) in _OTHERS.items():
        function, args = (first, rest) if callable(first) else (getattr(gc, label), [first, *rest])
        for number in NUMBERS:
            filled = tuple(
                number if a is None else tuple(number if b is None else b for b in a) if isinstance(a, tuple) else a
                for a in args
            )
            yield Hostile(f"{label} {number}", function, filled, {})


def _of_texts() -> Iterator[Hostile]:
    """Yield calls of NumPy's and SciPy's functions with one integer of their text replaced."""
    sources = [(gnp, numpy_calls.CALLS, numpy_calls.drawn())]
    if importlib.util.find_spec("scipy"):
        for name in ("fft", "signal", "linalg", "special", "stats", "spatial", "ndimage"):
            try:
                tests = importlib.import_module(f"tests.scipy_functions.test_{name}")
            except pytest.skip.Exception:  # an older SciPy
                continue
            module = importlib.import_module(f"gradcore.scipy.{name}")
            sources.append((module, tests.CALLS, tests.arrays()))
    seen = set()
    for module, text, values in sources:
        given = {letter: gc.tensor(value) for letter, value in values.items()}
        scope = {**vars(np), "np": np, **given}
        for expression in dict.fromkeys(expressions(text)):
            name, _, arguments = expression.partition("(")
            function = functools.reduce(lambda at, part: getattr(at, part, None), name.split("."), module)
            tree = _parsed(f"f({arguments}")
            if function is None or tree is None:
                continue
            # Arrays that NumPy makes of numbers are not gradcore's.
            left_out = {
                id(inner)
                for outer in ast.walk(tree)
                if isinstance(outer, ast.Call) and outer is not tree.body
                for inner in ast.walk(outer)
            }
            integers = [
                n
                for n in ast.walk(tree)
                if isinstance(n, ast.Constant) and type(n.value) is int and id(n) not in left_out
            ]
            for i, node in enumerate(integers):
                before = node.value
                for number in NUMBERS:
                    node.value = number
                    text_of_call = ast.unparse(tree)
                    if (module, name, text_of_call) in seen:
                        continue
                    seen.add((module, name, text_of_call))
                    yield Hostile(f"{module.__name__}.{name} {i}: {text_of_call}", _evaluated, (text_of_call,), {
                        "scope": {**scope, "f": function}})  # fmt: skip
                node.value = before


def _parsed(text: str) -> ast.Expression | None:
    """Return the tree of an expression; None for a text that is cut in the middle of a string."""
    try:
        return ast.parse(text, mode="eval")
    except SyntaxError:
        return None


def _evaluated(text: str, scope: dict[str, Any]) -> Any:
    return eval(text, scope)


def calls() -> Iterator[Hostile]:
    """All of them, in an order that does not change."""
    yield from _of_operations()
    yield from _of_others()
    yield from _of_texts()


#: Errors of Python or NumPy that say nothing to users: the number went too deep.
_FOREIGN = (OverflowError, ZeroDivisionError, AttributeError, KeyError, SystemError, UnboundLocalError)


def check() -> int:
    """Make every call, with 2 GB more than there is now; return how many were made."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    if pages:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**31,) * 2)
    count = 0
    for call in calls():
        count += 1
        os.write(1, f"\ncall {call.label}".encode())
        signal.alarm(SECONDS)  # without a handler, it ends the process inside of foreign code, too
        try:
            call.run()
        except _FOREIGN as error:
            os.write(1, f"\nWRONG {call.label}: {error!r}".encode())
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AssertionError, MemoryError):
            pass
    return count


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.write(1, f"\ndone {check()}\n".encode())
