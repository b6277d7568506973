"""What `save` writes: everything it was given, nothing else, and as a whole or not at all."""

import collections
import io
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gradcore as gc
from gradcore import nn, serialization
from gradcore.serialization import files


def written(obj):
    file = io.BytesIO()
    gc.save(obj, file)
    return file


def round_trip(obj):
    file = written(obj)
    file.seek(0)
    return gc.load(file)


def drawn_view(draw, array):
    """Draw a view of an array, with slices of all kinds, an order of dims and new dims."""
    key = tuple(draw(st.slices(n)) for n in array.shape)
    view = array[key].transpose(draw(st.permutations(range(array.ndim))))
    return view[..., None] if draw(st.booleans()) else view


@given(st.data())
def test_views_of_arrays_come_back_and_nothing_else_is_written(data):
    shape = data.draw(hnp.array_shapes(max_dims=4, max_side=7))
    secret = 987654321.25
    array = np.full([2 * n + 1 for n in shape], secret)
    part = array[tuple(slice(1, 2 * n, 2) for n in shape)]
    part[...] = np.arange(part.size).reshape(shape)
    tensors = [gc.from_numpy(drawn_view(data.draw, part))]
    for _ in range(data.draw(st.integers(0, 3))):
        source = tensors[data.draw(st.integers(0, len(tensors) - 1))]
        tensors.append(
            gc.from_numpy(drawn_view(data.draw, source._array)) if data.draw(st.booleans()) else source.clone()
        )
        steps = [
            (slice(None), slice(1, None), slice(None, None, 2))[data.draw(st.integers(0, 2))] for _ in source.shape
        ]
        tensors.append(source[tuple(steps)])
    file = written(tensors)
    assert np.float64(secret).tobytes() not in file.getvalue()
    file.seek(0)
    for t, back in zip(tensors, gc.load(file), strict=True):
        assert gc.equal(t, back)


def test_views_of_one_array_with_gaps_share_memory_when_they_are_loaded():
    x = gc.from_numpy(np.arange(6000.0).reshape(60, 100)[::3, 5:90:7])
    back = round_trip([x, x[3], x[:, 2], x.t()[1:5, ::2]])
    back[0].zero_()
    assert [t.abs().sum().item() for t in back] == [0, 0, 0, 0]
    assert len(written([x, x[3]]).getvalue()) < x.nbytes + 2000


def test_a_part_of_a_large_array_is_a_small_file():
    large = np.zeros(10**6)
    assert len(written(gc.from_numpy(large[5:8])).getvalue()) < 2000
    assert len(written(gc.from_numpy(large[::1000])).getvalue()) < 10_000


@pytest.mark.parametrize(
    "make", [lambda x: x[::-1], lambda x: x[::-2, ::-1], lambda x: x[0, ::-1], lambda x: x[:, 1:1]]
)
def test_negative_strides_are_saved_in_a_form_that_loads(make):
    x = gc.arange(12.0).reshape(3, 4)
    t = make(x)
    back = round_trip([x, t])
    assert gc.equal(back[1], t)
    assert min(back[1].stride(), default=0) >= 0


class Own(gc.Tensor):
    pass


def test_attributes_and_classes_of_tensors_are_kept():
    plain, own = gc.ones(2), gc.ones(2).as_subclass(Own)
    plain.note, own.note = {"a": [1]}, "b"
    file = written([plain, own])
    with pytest.raises(Exception, match="Own"):
        gc.load(file)
    with serialization.safe_globals([Own]):
        back = gc.load(file)
    assert [type(t) for t in back] == [gc.Tensor, Own]
    assert [t.note for t in back] == [{"a": [1]}, "b"]


def test_further_kinds_of_objects():
    x = gc.arange(6.0)
    lazy = nn.UninitializedParameter()
    back = round_trip([
        collections.Counter("aab"), gc.strided, gc.channels_last, x.max(0), x.storage(), x.untyped_storage(), x, lazy,
        gc.ones(3, 2, device="meta").t(), nn.Parameter(gc.ones(2, device="meta")),
    ])  # fmt: skip
    assert back[0] == collections.Counter("aab")
    assert type(back[0]) is collections.Counter
    assert back[1:3] == [gc.strided, gc.channels_last]
    assert type(back[3]) is gc.return_types.max
    assert [gc.is_storage(s) for s in back[4:6]] == [True, True]
    back[4][0] = 7.0
    assert back[6][0] == 7.0
    assert back[5].nbytes() == 24
    assert type(back[7]) is nn.UninitializedParameter
    assert (back[8].shape, back[8].stride(), back[8].is_meta) == ((2, 3), (1, 2), True)
    assert (type(back[9]), back[9].requires_grad) == (nn.Parameter, True)


def test_structures_that_are_deep_or_contain_themselves():
    deep, cyclic, x = [], [1], gc.ones(1)
    for _ in range(250):
        deep = [deep]
    cyclic.append(cyclic)
    assert round_trip(deep) == deep
    back = round_trip(cyclic)
    assert back[1] is back
    x.me = x
    for obj in (x, [[deep] for _ in range(2)] + [deep]):
        for _ in range(800):
            obj = [obj]
        with pytest.raises(RecursionError, match="nested too deeply"):
            written(obj)


def test_a_storage_that_is_a_part_is_not_saved():
    with pytest.raises(RuntimeError, match="a part of a storage"):
        written(gc.arange(6.0).storage()[1:3])


# -- the file as a whole -----------------------------------------------------------------------------------------------


class Unpicklable:
    def __reduce__(self):
        raise ValueError("not this one")


class Full:
    """A file on a disk that is full after some bytes."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        self.room -= len(data)
        if self.room < 0:
            raise OSError(28, "No space left on device")
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        self.file.__enter__()
        return self

    def __exit__(self, *exc):
        return self.file.__exit__(*exc)


@pytest.mark.parametrize("room", [0, 100, 1000, 50_000])
def test_the_old_file_survives_whatever_goes_wrong(tmp_path, monkeypatch, room):
    path = tmp_path / "net.pt"
    gc.save(gc.zeros(3), path)
    with pytest.raises(ValueError, match="not this one"):
        gc.save([gc.ones(10), Unpicklable()], path)
    with monkeypatch.context() as patch:
        patch.setattr(files, "open", lambda *args: Full(open(*args), room), raising=False)  # noqa: SIM115
        with pytest.raises(OSError, match="No space left"):
            gc.save(gc.ones(100_000), path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            gc.save(gc.ones(10), path)
    assert gc.equal(gc.load(path), gc.zeros(3))
    assert [p.name for p in tmp_path.iterdir()] == ["net.pt"]


def test_readers_and_writers_at_once(tmp_path):
    path = tmp_path / "net.pt"
    gc.save(gc.zeros(1000), path)
    done, found = threading.Event(), []

    def write(value):
        while not done.is_set():
            gc.save(gc.full((1000,), value), path)

    writers = [threading.Thread(target=write, args=(value,)) for value in (1.0, 2.0)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(50):
            x = gc.load(path)
            found.append(bool((x == x[0]).all()))
    finally:
        done.set()
        for writer in writers:
            writer.join()
    assert all(found)
    assert [p.name for p in tmp_path.iterdir()] == ["net.pt"]


KILLED = """
import sys, gradcore as gc
x = gc.zeros(1_000_000)
print("ready", flush=True)
while True:
    x += 1
    gc.save(x, sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL")
def test_a_process_that_is_killed_leaves_a_file_that_is_whole(tmp_path):
    path = tmp_path / "net.pt"
    gc.save(gc.zeros(1_000_000), path)
    rng = np.random.default_rng(0)
    for _ in range(6):
        environment = {**os.environ, "PYTHONPATH": str(Path(gc.__file__).parents[1])}
        program = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, env=environment)
        program.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.1))
        program.kill()
        program.communicate()
        found = gc.load(path)
        assert bool((found == found[0]).all())
    for left in tmp_path.glob(".net.pt.*.saving"):
        os.utime(left, (0, 0))
    gc.save(gc.ones(1), path)
    assert [p.name for p in tmp_path.iterdir()] == ["net.pt"]


@pytest.mark.skipif(os.name != "posix", reason="modes and links are POSIX's")
def test_modes_links_and_odd_targets(tmp_path):
    path, link = tmp_path / "net.pt", tmp_path / "latest.pt"
    umask = os.umask(0o027)
    try:
        gc.save(gc.ones(1), path)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    link.symlink_to("net.pt")
    gc.save(gc.zeros(2), link)
    assert link.is_symlink()
    assert gc.equal(gc.load(path), gc.zeros(2))
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    gc.save(gc.ones(1), os.devnull)
    assert not os.path.isfile(os.devnull)
    gc.save(gc.ones(1), bytes(tmp_path / "bytes.pt"))
    gc.save(gc.ones(1), tmp_path / ("n" * 250))
    with pytest.raises(RuntimeError, match=r"Parent directory .* does not exist"):
        gc.save(gc.ones(1), tmp_path / "none" / "net.pt")
    with pytest.raises(OSError):
        gc.save(gc.ones(1), tmp_path)
