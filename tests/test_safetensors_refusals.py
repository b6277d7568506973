"""Files of safetensors that the format forbids are refused, as they could be two things at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc


def file(header: Any, content: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


def entry(begin: int, end: int, dtype: str = "U8") -> dict[str, Any]:
    return {"dtype": dtype, "shape": [end - begin], "data_offsets": [begin, end]}


WRONG: dict[str, bytes] = {
    "an overlap": file({"a": entry(0, 4), "b": entry(2, 6)}, bytes(6)),
    "the same place twice": file({"a": entry(0, 4), "b": entry(0, 4)}, bytes(4)),
    "a hole": file({"a": entry(0, 4), "b": entry(5, 6)}, bytes(6)),
    "a hole in front": file({"a": entry(1, 4)}, bytes(4)),
    "bytes behind": file({"a": entry(0, 4)}, bytes(5)),
    "bytes of no tensor": file({}, bytes(1)),
    "metadata of numbers": file({"__metadata__": {"a": 1}, "a": entry(0, 4)}, bytes(4)),
    "metadata of a list": file({"__metadata__": ["a"], "a": entry(0, 4)}, bytes(4)),
    "metadata of null": file({"__metadata__": {"a": None}, "a": entry(0, 4)}, bytes(4)),
    "nested metadata": file({"__metadata__": {"a": {}}, "a": entry(0, 4)}, bytes(4)),
    "a name with a lone surrogate": file({"\ud800": entry(0, 4)}, bytes(4)),
    "a lone surrogate in the metadata": file({"__metadata__": {"a": "\udfff"}, "a": entry(0, 4)}, bytes(4)),
    "metadata twice": file(
        b'{"__metadata__": {"a": "b"}, "__metadata__": {}, "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}',
        bytes(1),
    ),
    "bytes that are no text": file(b'{"\xff": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}', bytes(1)),
}


@pytest.mark.parametrize("kind", WRONG)
def test_files_that_the_format_forbids(kind: str) -> None:
    with pytest.raises(ValueError, match="no file of safetensors"):
        gc.safetensors.load(WRONG[kind])


@pytest.mark.parametrize("kind", WRONG)
def test_the_reference_refuses_them(kind: str) -> None:
    reference = pytest.importorskip("safetensors")
    with pytest.raises(Exception, match=r"."):
        reference.deserialize(WRONG[kind])


def test_files_of_many_tensors_in_any_order() -> None:
    """Empty tensors and every permutation of names are no overlaps and no holes."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        sizes = rng.integers(0, 4, 5)
        ends = np.cumsum(sizes)
        names = rng.permutation(5)
        header = {str(i): entry(int(ends[i] - sizes[i]), int(ends[i])) for i in names}
        loaded = gc.safetensors.load(file(header, bytes(range(int(ends[-1])))))
        for i in range(5):
            assert loaded[str(i)].tolist() == list(range(int(ends[i] - sizes[i]), int(ends[i])))


@pytest.mark.parametrize("change", [lambda h: h, lambda h: {"__metadata__": {"é": "ü"}, **h}])
def test_valid_files(change: Callable[[Any], Any]) -> None:
    assert gc.safetensors.load(file(change({"a": entry(0, 4)}), b"1234"))["a"].tolist() == [49, 50, 51, 52]
