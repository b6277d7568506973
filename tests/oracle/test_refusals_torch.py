"""Calls of dtypes, devices and sequences that PyTorch refuses, and the dtypes of those that it takes."""

import itertools

import pytest

import gradcore as gc

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore::UserWarning")]

DTYPES = ["uint8", "int8", "int32", "int64", "float32", "float64", "complex64"]
CALLS = [
    *(f"F.avg_pool{n}d(-7 * xp.ones({'1, ' * n} 4).to(xp.{d}).cumsum(-1), {k})"
      for n, k in ((1, 2), (2, (1, 2))) for d in DTYPES[1:]),
    *(f"F.avg_pool3d(xp.ones(1, 1, 2, 2, dtype=xp.{d}), (1, 2, 2))" for d in DTYPES),
    *(f"F.adaptive_avg_pool{n}d(xp.ones({'2, ' * n} 4, dtype=xp.{d}), 2)" for n in (1, 2, 3) for d in DTYPES),
    *(f"xp.masked.{f}(xp.tensor([1, 0, 1]).to(xp.{d}))" for f in ("var", "std", "mean", "sum") for d in DTYPES[3:]),
    *(f"xp.masked.{f}(xp.tensor([90, 100]).to(xp.{d}), 0)" for f in ("cumsum", "cumprod") for d in DTYPES),
    *(f"xp.{f}(xp.ones(2, dtype=xp.{a}), xp.ones(2, dtype=xp.{b}))"
      for f in ("bucketize", "searchsorted") for a, b in itertools.product(["bool", *DTYPES[2:]], repeat=2)),
    *(f"xp.{f}({args})" for f in ("meshgrid", "broadcast_tensors", "cartesian_prod", "atleast_1d", "atleast_2d",
      "atleast_3d") for args in ("3", "xp.ones(2), 3", "[xp.ones(2), 'a']", "xp.ones(2), xp.ones(2)")),
    *(f"xp.{f}([{args}])" for f in ("hstack", "vstack", "dstack", "column_stack") for args in ("3", "xp.ones(2), 3")),
    *(f"xp.einsum({args})" for args in ("3, xp.ones(2)", "None, xp.ones(2)", "'i', 3", "'i', [xp.ones(2), 3]",
      "xp.ones(2), [0.5]", "xp.ones(2), ['i']", "xp.ones(2), [0], [0.5]", "xp.ones(2), [0], [0]", "'i', xp.ones(2)")),
    *(f"F.conv{t}{n}d(*2 * (xp.ones(2, 2, {'2, ' * n}dtype=xp.{d}),))"
      for t in ("", "_transpose") for n in (1, 2, 3) for d in ("bool", "int64", "float32")),
    *(f"xp.{f}(*2 * (xp.ones({s}, dtype=xp.{d}),))"
      for f, s in (("mm", "2, 2"), ("bmm", "2, 2, 2"), ("dot", "2"), ("kron", "2")) for d in ("bool", "int64")),
    "setattr(xp.ones(2), 'data', xp.ones(2, device='meta'))",
    "setattr(xp.ones(2, device='meta'), 'data', xp.ones(2))",
    "setattr(xp.nn.Parameter(xp.ones(2)), 'data', xp.ones(2, device='meta'))",
    "setattr(xp.ones(2), 'data', xp.ones(3, dtype=xp.int64))",
    "xp.nn.Linear(2, 2).to('meta').weight.device.type",
    "xp.set_default_device('nope')",
    *(f"xp.linalg.cholesky_ex(xp.tensor({m}).float()).info"
      for m in ("[[xp.inf, 0], [0, 1]]", "[[1, 0], [0, xp.inf]]", "[[xp.inf, 1], [1, 1]]", "[[xp.nan, 0], [0, 1]]")),
]  # fmt: skip


def _outcome(call: str, xp):
    try:
        out = eval(call, {"xp": xp, "F": xp.nn.functional})
    except (RuntimeError, TypeError, ValueError) as error:
        return type(error)
    if not xp.is_tensor(out):
        return str(out).replace("gradcore", "torch")
    return str(out.dtype).rpartition(".")[2], out.tolist()


@pytest.mark.parametrize("call", CALLS)
def test_outcomes(call):
    assert _outcome(call, gc) == _outcome(call, torch)
