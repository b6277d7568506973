"""Files that are damaged, drawn at random, or made to do harm: an error, or what the file says, and nothing else.

More are drawn with the environment variable ``GRADCORE_HOSTILE_FILES``.
"""

import io
import os
import pickle
import struct
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

import gradcore as gc
from gradcore import nn, serialization
from tests import hostile_files as hostile

COUNT = int(os.environ.get("GRADCORE_HOSTILE_FILES", "2000"))


def frag(obj):
    """Return the instructions that build an object."""
    return pickle.dumps(obj, 2)[2:-1]


def storage(kind, key, numel):
    return b"(" + frag("storage") + f"ctorch\n{kind}\n".encode() + frag(key) + frag("cpu") + frag(numel) + b"tQ"


def archive(structure, **memories):
    return hostile.archived(
        b"\x80\x02" + structure + b".", {f"archive/data/{key}": content for key, content in memories.items()}
    )


ORDERED = b"ccollections\nOrderedDict\n)R"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
FLOATS = storage("FloatStorage", "m", 4)
EVIL = frag({"__array_interface__": {"data": (4096, False), "shape": (4,), "typestr": "<f4", "version": 3}})


def tensor(offset=0, shape=(4,), stride=(1,), grad=False, hooks=ORDERED, more=b"", memory=FLOATS):
    parts = b"".join(part if isinstance(part, bytes) else frag(part) for part in (offset, shape, stride, grad))
    return REBUILD + b"(" + memory + parts + hooks + more + b"tR"


@pytest.mark.slow
def test_valid_files_are_read_and_what_is_drawn_from_them_does_no_harm(tmp_path):
    assert all(map(hostile.attempt, hostile.valid_files()))
    before, read, slowest = hostile.process_state(), 0, 0.0
    for number, (data, _) in enumerate(hostile.drawn(COUNT, seed=11)):
        path = tmp_path / "file" if number % 2 else None
        if path is not None:
            path.write_bytes(data)
        start = time.thread_time()
        read += hostile.attempt(data, path)
        slowest = max(slowest, time.thread_time() - start)
    assert hostile.process_state() == before
    assert 0 < read < COUNT / 3  # some mutations leave a file readable, and most do not
    assert slowest < 2


#: Structures that read foreign memory, change the process or call what they must not.
GADGETS = {
    "an interface in an OrderedDict": ORDERED + EVIL + b"b",
    "a tensor of an OrderedDict": b"ctorch\nTensor\n" + ORDERED + b"\x85R",
    "a tensor of a size": b"ctorch\nTensor\nK\x09\x85R",
    "a parameter of an OrderedDict": b"ctorch.nn.parameter\nParameter\n" + ORDERED + b"\x85R",
    "a parameter without a tensor": b"ctorch._utils\n_rebuild_parameter\n(" + ORDERED + b"\x89" + ORDERED + b"tR",
    "an offset that is a tensor": tensor(offset=tensor(shape=(), stride=())),
    "an offset that is a bool": tensor(offset=b"\x88"),
    "a float for a size": tensor(shape=(4.0,)),
    "a negative size": tensor(shape=(-4,)),
    "a negative stride": tensor(shape=(4,), stride=(-1,), offset=3),
    "a stride for each size": tensor(shape=(2, 2)),
    "a size beyond 64 bits": tensor(shape=(2**70,), stride=(0,)),
    "sizes whose product wraps": tensor(shape=(2**32, 2**32), stride=(0, 0)),
    "an extent that wraps": tensor(shape=(3,), stride=(2**63,)),
    "an offset beyond the memory": tensor(offset=1),
    "a list for sizes": tensor(shape=b"]K\x04a"),
    "a flag that is no bool": tensor(grad=b"K\x01"),
    "metadata that are unknown": tensor(more=frag({"grad": 1})),
    "metadata that are no dict": tensor(more=frag([("conj", True)])),
    "the state of a storage's class": b"ctorch\nFloatStorage\n" + frag({"dtype": 3}) + b"b",
    "the slots of a storage's class": b"ctorch\nFloatStorage\nN" + frag({"dtype": 3}) + b"\x86b",
    "the slots of a device": b"ctorch\ndevice\n" + frag(("cpu",)) + b"RN" + frag({"type": "meta"}) + b"\x86b",
    "the state of a dtype": b"ctorch\nfloat32\nN" + frag({"itemsize": 1}) + b"\x86b",
    "the state of a layout": b"ctorch\nstrided\n" + frag({"_name": "x"}) + b"b",
    "the state of a class": b"ctorch\nSize\nN" + frag({"__len__": None}) + b"\x86b",
    "the state of a function": b"ctorch._utils\n_rebuild_parameter\nN" + frag({"__defaults__": (1,)}) + b"\x86b",
    "the state of a tensor": tensor() + frag({"_array": 3}) + b"b",
    "the state of a storage": FLOATS + frag({"_flat": 3}) + b"b",
    "an interface in a tensor's attributes": (
        b"ctorch._tensor\n_rebuild_from_type_v2\n(" + REBUILD + b"ctorch\nTensor\n("
        + FLOATS + frag(0) + frag((4,)) + frag((1,)) + b"\x89" + ORDERED + b"t" + EVIL + b"tR"
    ),
    "an attribute that hides a method": (
        b"ctorch._utils\n_rebuild_parameter_with_state\n(" + tensor() + b"\x88" + ORDERED + frag({"numel": 3}) + b"tR"
    ),
    "a tensor made by another function": (
        b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch\ndevice\nctorch\nTensor\n" + frag(("cpu",)) + b"}tR"
    ),
    "a tensor of a class that is none": (
        b"ctorch._tensor\n_rebuild_from_type_v2\n(" + REBUILD + b"cbuiltins\nset\n("
        + FLOATS + frag(0) + frag((4,)) + frag((1,)) + b"\x89" + ORDERED + b"t}tR"
    ),
    "memory of a size": b"cbuiltins\nbytearray\n" + frag((2**40,)) + b"R",
    "an object of a class": b"ctorch\nTensor\n)\x81",
    "a reference that is a list": b"]Q",
    "a key that is no text": b"(" + frag("storage") + b"ctorch\nFloatStorage\nK\x00" + frag("cpu") + b"K\x04tQ",
    "a number of elements that is a bool": storage("FloatStorage", "m", True),
    "a memory that is not there": storage("FloatStorage", "n", 1),
    "a memory with two dtypes": b"(" + FLOATS + storage("IntStorage", "m", 4) + b"t",
    "another file's memory": storage("FloatStorage", "../data.pkl", 4),
    "a call that the user has not allowed": b"cos\nsystem\nX\x04\0\0\0true\x85R",
    "an attribute of a module": b"cgradcore.serialization.names\npickle\n",
    "a nested name": b"\x8c\x05torch\x8c\x0dSize.__init__\x93",
    "an appended tuple": b")K\x01a",
    "items of a device": b"ctorch\ndevice\n" + frag(("cpu",)) + b"RK\x01K\x02s",
    "a device without end": b"ctorch\ndevice\n" + frag(("cuda", 2**40)) + b"R",
    "state that is no dict": ORDERED + b"]b",
}  # fmt: skip


@pytest.mark.parametrize("structure", GADGETS.values(), ids=GADGETS)
def test_gadgets(structure):
    before = hostile.process_state()
    with pytest.raises(pickle.UnpicklingError):
        gc.load(io.BytesIO(archive(structure, m=bytes(16))))
    assert hostile.process_state() == before
    assert gc.equal(gc.load(io.BytesIO(archive(tensor(), m=bytes(16)))), gc.zeros(4))


def repeated(setup, call, count=100_000):
    return setup + call * count


def nested(depth):
    return b"K\x01\x85" + b"q\0h\0\x86" * depth


BOMBS = {
    "a place in the memo": b"]r" + struct.pack("<I", 2**31 - 1),
    "keys of nested tuples": b"}" + nested(60) + b"K\x01s",
    "a set of nested tuples": b"cbuiltins\nset\n]" + nested(60) + b"a\x85R",
    "a long text encoded again and again": repeated(
        b"c_codecs\nencode\nq\0X\x10\x27\0\0" + b"a" * 10000 + b"X\6\0\0\0latin1\x86q\1", b"h\0h\1R"
    ),
    "a long list made a set again and again": repeated(
        b"cbuiltins\nset\nq\0](" + b"".join(frag(n) for n in range(3000)) + b"e\x85q\1", b"h\0h\1R"
    ),
    "a memory conjugated again and again": repeated(
        REBUILD + b"q\xc8(" + storage("ComplexFloatStorage", "m", 2000) + frag(0) + frag((2000,)) + frag((1,)) + b"\x89"
        + ORDERED + frag({"conj": True}) + b"tq\xc9R", b"h\xc8h\xc9R", 1000,
    ),
    "an expanded conjugate": REBUILD + b"(" + storage("ComplexFloatStorage", "m", 2000) + frag(0) + frag((2**40,))
    + frag((0,)) + b"\x89" + ORDERED + frag({"conj": True}) + b"tR",
    "keys of one hash": b"}" + b"".join(frag(n * (2**61 - 1) + 2**70) + b"Ns" for n in range(20000)),
    "a number of many digits": b"L" + b"9" * 1_000_000 + b"L\n",
}  # fmt: skip


@pytest.mark.parametrize("structure", BOMBS.values(), ids=BOMBS)
def test_bombs(structure):
    """An error or a result, soon, and without much more memory than the file is long."""
    data = archive(structure, m=bytes(16000))
    tracemalloc.start()
    start = time.thread_time()
    try:
        gc.load(io.BytesIO(data))
    except pickle.UnpicklingError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert time.thread_time() - start < 10  # with every allocation traced
    assert peak < 100 * len(data) + 2**20


@pytest.mark.slow
def test_compressed_and_overlapping_entries_are_refused():
    numel = 10**8
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        structure = tensor(shape=(numel,), memory=storage("FloatStorage", "m", numel))
        file.writestr("a/data.pkl", b"\x80\x02" + structure + b".", zipfile.ZIP_STORED)
        file.writestr("a/data/m", bytes(4 * numel))
    tracemalloc.start()
    with pytest.raises(pickle.UnpicklingError, match="compressed or encrypted"):
        gc.load(out)
    assert tracemalloc.get_traced_memory()[1] < 2 * out.tell() + 2**20
    tracemalloc.stop()

    data = bytearray(archive(b"(" + b"".join(storage("FloatStorage", k, 1000) for k in "abcde") + b"t", **{
        k: bytes(4000 if k == "a" else 0) for k in "abcde"
    }))  # fmt: skip
    place = data.index(b"PK\1\2")
    entries = data.count(b"PK\1\2")
    first = None
    for _ in range(entries):  # every entry of the table is made the one long memory
        length, extra, comment = struct.unpack_from("<HHH", data, place + 28)
        name = bytes(data[place + 46 : place + 46 + length])
        if name.endswith(b"/a"):
            first = bytes(data[place + 16 : place + 28]), bytes(data[place + 42 : place + 46])
        elif name[-2:-1] == b"/" and first:
            data[place + 16 : place + 28], data[place + 42 : place + 46] = first
        place += 46 + length + extra + comment
    with pytest.raises((pickle.UnpicklingError, RuntimeError)):
        gc.load(io.BytesIO(bytes(data)))


def test_bools_in_files_are_bools():
    flags = gc.load(io.BytesIO(archive(tensor(memory=storage("BoolStorage", "m", 4)), m=bytes([0, 1, 2, 255]))))
    assert flags._array.view(np.uint8).tolist() == [0, 1, 1, 1]
    assert flags.sum() == 3


class Slotted:
    __slots__ = ("a",)


class Guarded:
    def __setstate__(self, state):
        self.got = state


def test_allowed_classes_take_state_as_pickles_do():
    slotted, guarded = Slotted(), Guarded()
    slotted.a, guarded.b = 3, 4
    file = hostile.saved([slotted, guarded])
    with serialization.safe_globals([Slotted, Guarded]):
        back = gc.load(io.BytesIO(file))
    assert (back[0].a, back[1].got) == (3, {"b": 4})


@pytest.mark.parametrize("where", [3.5, "nowhere:x", b"cpu", ["cpu"]])
def test_map_location_is_checked_first(where):
    with pytest.raises((TypeError, RuntimeError)):
        gc.load(io.BytesIO(hostile.saved(gc.ones(1))), map_location=where)


def test_a_file_of_another_kind_says_what_it_is():
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    with pytest.raises(RuntimeError, match=r"safetensors\.numpy\.load_file"):
        gc.load(io.BytesIO(struct.pack("<Q", len(header)) + header + bytes(4)))
    with pytest.raises(RuntimeError, match="damaged zip archive"):
        gc.load(io.BytesIO(hostile.saved(nn.Linear(2, 2).state_dict())[:-30]))
    with pytest.raises(EOFError, match="the file is empty"):
        gc.load(io.BytesIO())
