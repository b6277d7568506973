"""Saving and loading: what comes back, what is refused, and where tensors go."""

import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import gradcore as gc
from gradcore import nn, serialization
from gradcore.tensor import namespaces


def round_trip(obj, **settings):
    file = io.BytesIO()
    gc.save(obj, file)
    file.seek(0)
    return gc.load(file, **settings)


@pytest.mark.parametrize("dtype", list(gc.dtypes.DTYPES.values()), ids=str)
def test_dtypes(dtype):
    t = gc.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype)
    back = round_trip(t)
    assert back.dtype is dtype
    assert gc.equal(back, t)


def test_structures():
    obj = {
        "a": [1, 2.5, None, "text", True], "b": (b"bytes", 1j, {1, 2}), "c": OrderedDict(x=gc.ones(1)),
        "size": gc.Size([2, 3]), "dtype": gc.bfloat16, "device": gc.device("cuda:1"), "deep": [[[{"y": gc.tensor(3)}]]],
    }  # fmt: skip
    back = round_trip(obj)
    assert repr(back) == repr(obj)
    assert type(back["c"]) is OrderedDict
    assert type(back["size"]) is gc.Size


def test_tensors_keep_what_they_are():
    w = nn.Parameter(gc.ones(2), requires_grad=False)
    w.note = "mine"
    buffer = nn.Buffer(gc.zeros(1), persistent=False)
    x = gc.ones(2, requires_grad=True)
    x.grad = gc.ones(2)
    back = round_trip([w, buffer, x, x * 2, gc.zeros(0, 3), gc.tensor(7)])
    assert type(back[0]) is nn.Parameter
    assert (back[0].requires_grad, back[0].note) == (False, "mine")
    assert type(back[1]) is nn.Buffer
    assert back[1].persistent is False
    assert (back[2].requires_grad, back[2].grad) == (True, None)
    assert back[3].is_leaf
    assert back[3].requires_grad
    assert back[4].shape == (0, 3)
    assert back[5].item() == 7


def test_shared_memory_stays_shared_and_is_written_once():
    a = gc.arange(1000.0).reshape(10, 100)
    file = io.BytesIO()
    gc.save({"a": a, "row": a[3], "column": a.t()[5], "again": a}, file)
    assert file.tell() < 6000
    file.seek(0)
    back = gc.load(file)
    assert back["a"] is back["again"]
    back["a"][3, 5] = -1.0
    assert back["row"][5] == back["column"][3] == -1
    assert back["column"].stride() == (100,)


def test_views_that_cannot_share_are_copied():
    z = gc.tensor([1 + 2j, 3 + 4j])
    assert gc.equal(round_trip(gc.view_as_real(z)), gc.view_as_real(z))


def test_a_module_comes_back_through_its_state(tmp_path):
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    gc.save(net.state_dict(), tmp_path / "net.pt")
    other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    state = gc.load(tmp_path / "net.pt")
    assert state._metadata == net.state_dict()._metadata
    other.load_state_dict(state)
    x = gc.rand(4, 2)
    assert gc.equal(net(x), other(x))


def test_files_hold_no_time() -> None:
    file = io.BytesIO()
    gc.save({"x": gc.ones(2)}, file)
    with zipfile.ZipFile(file) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_devices(strict):
    t = gc.ones(3).to(strict)
    assert str(round_trip(t).device) == strict
    assert str(round_trip(t, map_location="cpu").device) == "cpu"
    assert str(round_trip(t, map_location={strict: "cpu"}).device) == "cpu"
    assert str(round_trip(gc.ones(2), map_location=gc.device(strict)).device) == strict
    assert str(round_trip(t, map_location=lambda storage, location: storage).device) == "cpu"
    assert str(round_trip(gc.ones(2), map_location=lambda storage, location: strict).device) == strict


class Mine:
    def __init__(self):
        self.t = gc.ones(2)


def evil():
    raise AssertionError("a file has run code")


class Evil:
    def __reduce__(self):
        return evil, ()


def test_code_in_files_is_not_run():
    file = io.BytesIO()
    gc.save([Evil()], file)
    with pytest.raises(pickle.UnpicklingError, match="evil"):
        gc.load(file)
    with pytest.raises(AssertionError, match="has run code"):
        gc.load(file, weights_only=False)


def test_classes_can_be_allowed():
    file = io.BytesIO()
    gc.save(Mine(), file)
    with pytest.raises(pickle.UnpicklingError, match=r"Weights only load failed.*Mine.*add_safe_globals"):
        gc.load(file)
    with serialization.safe_globals([Mine]):
        assert gc.equal(gc.load(file).t, gc.ones(2))
        assert serialization.get_safe_globals() == [Mine]
    assert serialization.get_safe_globals() == []
    serialization.add_safe_globals([(Mine, f"{Mine.__module__}.Mine")])
    assert isinstance(gc.load(file), Mine)
    serialization.clear_safe_globals()
    assert isinstance(gc.load(file, weights_only=False), Mine)


def crafted(structure, memory=b"\0" * 8):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x/data.pkl", structure)
        archive.writestr("x/data/0", memory)
    return file


TENSOR = (
    b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
    b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x02tQK%cK%c\x85K\x01\x85\x89}tR."
)


def test_files_that_are_not_what_they_say():
    assert gc.equal(gc.load(crafted(TENSOR % (0, 2))), gc.zeros(2))
    for offset, size in ((0, 3), (1, 2), (200, 1)):
        with pytest.raises(pickle.UnpicklingError, match="reaches beyond its memory"):
            gc.load(crafted(TENSOR % (offset, size)))
    with pytest.raises(pickle.UnpicklingError, match="has 4 bytes"):
        gc.load(crafted(TENSOR % (0, 2), b"\0" * 4))
    with pytest.raises(RuntimeError, match="not a zip archive"):
        gc.load(io.BytesIO(pickle.dumps([1])))
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("x/other", "")
    with pytest.raises(RuntimeError, match=r"no data\.pkl"):
        gc.load(other)


def test_the_other_order_of_bytes():
    file = crafted(TENSOR % (0, 2), np.array([1.0, 2.0], ">f4").tobytes())
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("x/byteorder", "big")
    assert gc.equal(gc.load(file), gc.tensor([1.0, 2.0]))


@pytest.mark.parametrize("path", ["", "nn.functional", "linalg", "fft", "special", "masked"])
def test_functions_are_pickled_by_name(path):
    found = {n: make() for n, make in namespaces.functions(path).items() if not n.endswith("_")}
    assert [n for n, f in found.items() if pickle.loads(pickle.dumps(f)) is not f] == []


def test_mapped_files(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    x = gc.arange(1000, dtype=gc.float64)
    state = {
        "x": x,
        "view": x[10:20],
        "bools": gc.tensor([True, False]),
        "empty": gc.empty(0),
        "half": gc.ones(3).half(),
    }
    gc.save(state, path)
    before = path.read_bytes()
    found = gc.load(path, mmap=True)
    for name, t in state.items():
        assert gc.equal(found[name], t), name
    found["x"].add_(1)  # copy on write
    assert gc.equal(found["view"], x[10:20] + 1)  # the memory is shared as it was
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        gc.load(io.BytesIO(before), mmap=True)
    for damage in (len(before) // 2, 60):  # a file that was cut, and an entry's header
        path.write_bytes(before[:damage] if damage > 60 else before[:1] + b"\0" * damage + before[1 + damage :])
        with pytest.raises((RuntimeError, pickle.UnpicklingError)):
            gc.load(path, mmap=True)
