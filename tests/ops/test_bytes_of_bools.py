"""Any byte but 0 is True: bools come from views, buffers and files, whose bytes need not be 0 or 1."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.ops.declare.table import OPS, Op

#: Operations whose results are larger than their inputs by orders.
_LARGE = {"diagflat", "kron", "outer", "ger", "cartesian_prod", "combinations", "diag_embed", "tensordot", "pdist"}
NAMES = [
    op.name
    for op in OPS.values()
    if (op.function or op.method) and not op.random and 1 <= len(op.tensors) <= 3 and op.name not in _LARGE
]
SHAPES = [(6,), (160, 120)]


def draw(kinds: tuple[str, ...], shape: tuple[int, ...], any_byte: bool) -> list[gc.Tensor]:
    """Return tensors of bools (b), floats (f) and integers (i); of bools, True may be any byte but 0."""
    rng = np.random.default_rng(0)
    drawn = []
    for kind in kinds:
        if kind == "b":
            bits, other = rng.integers(0, 2, shape), rng.integers(1, 256, shape)
            drawn.append(gc.from_numpy((bits * (other if any_byte else 1)).astype("u1")).view(gc.bool))
        elif kind == "f":
            drawn.append(gc.from_numpy(rng.standard_normal(shape).astype("f4")))
        else:
            drawn.append(gc.from_numpy(rng.integers(0, 3, shape)))
    return drawn


def values(result: Any) -> Iterator[Any]:
    """Yield the numbers in a result, bools by whether they are 0."""
    if isinstance(result, (tuple, list)):
        for each in result:
            yield from values(each)
    elif isinstance(result, gc.Tensor):
        array = result.detach().cpu().numpy()
        yield array.reshape(-1).view("u1") != 0 if array.dtype == bool else array
    else:
        yield result


def outcome(op: Op, tensors: list[Any], settings: dict[str, Any]) -> Any:
    try:
        return list(values(op.call([tensors[0]] * 2 if op.sequences else tensors[0], *tensors[1:], **settings)))
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AssertionError) as error:
        return type(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_every_operation_reads_them_as_numpy_bools(name: str) -> None:
    op = OPS[name]
    settings: list[dict[str, Any]] = [{}]
    if any(p.name == "dim" for p in op.parameters):
        settings.append({"dim": -1})
    for shape, kinds in itertools.product(SHAPES, itertools.product("bf", repeat=len(op.tensors))):
        if "b" not in kinds or ("linalg" in op.path and shape != SHAPES[0]):
            continue
        for setting in settings:
            expected, found = (outcome(op, draw(kinds, shape, any_byte), setting) for any_byte in (False, True))
            if isinstance(expected, type):
                assert found is expected, (shape, kinds, setting)
                continue
            assert len(found) == len(expected)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a, b, f"{shape} {kinds} {setting}")


def test_reductions_of_many() -> None:
    """Sizes at which the compiled kernels take over, where there are any."""
    for shape in ((40_000,), (200, 200), (3, 70_000), (70_000, 3), (2, 300, 100)):
        for reduce in ("sum", "nansum", "count_nonzero", "any", "all", "cumsum", "argsort", "sort", "nonzero"):
            for dim in (None, 0, -1):
                if dim is None and reduce in ("cumsum", "argsort", "sort"):
                    continue
                known, x = (draw(("b",), shape, any_byte)[0] for any_byte in (False, True))
                named = {} if dim is None or reduce == "nonzero" else {"dim": dim}
                for a, b in zip(
                    values(getattr(x, reduce)(**named)), values(getattr(known, reduce)(**named)), strict=True
                ):
                    np.testing.assert_array_equal(a, b, f"{reduce} {shape} {dim}")


def test_conversions_and_reads() -> None:
    known, x = (draw(("b",), (50,), any_byte)[0] for any_byte in (False, True))
    assert x.tolist() == known.tolist()
    for dtype in (gc.uint8, gc.int64, gc.float32, gc.bfloat16, gc.complex64):
        assert gc.equal(x.to(dtype), known.to(dtype)), dtype
    assert [bool(v) for v in x] == known.tolist()
    assert str(x) == str(known)
    y = gc.zeros(50, dtype=gc.int64)
    y.copy_(x)
    assert gc.equal(y, known.to(gc.int64))
    y[x] = 5
    assert gc.equal(y, known.to(gc.int64) * 5)
    assert gc.equal(gc.where(x, 1, 0), known.to(gc.int64))


def test_files_hold_them() -> None:
    header = json.dumps({"a": {"dtype": "BOOL", "shape": [4], "data_offsets": [0, 4]}}).encode()
    file = len(header).to_bytes(8, "little") + header + bytes([0, 7, 1, 255])
    loaded = gc.safetensors.load(file)["a"]
    assert loaded.tolist() == [False, True, True, True]
    assert loaded.view(gc.uint8).tolist() == [0, 1, 1, 1]
