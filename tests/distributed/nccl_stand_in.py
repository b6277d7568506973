"""A stand-in for CuPy's binding of NCCL, between processes that have the devices of the rig in `tests/cupy_host`.

A call returns at once, and is made by a thread. What it will write is overwritten at the call, so that whoever reads
it without a wait finds that. Refused are the default stream, streams and memory of other devices, a call that does not
wait for the current stream, calls from two threads at a time, two ranks on one device, and calls whose names, counts,
dtypes, reductions or roots differ between ranks.
"""

from __future__ import annotations

import ctypes
import os
import queue
import secrets
import sys
import threading
from collections import defaultdict
from multiprocessing.connection import Client, Listener
from types import ModuleType

import numpy as np

try:
    import cupy
    from ml_dtypes import bfloat16
except ImportError:  # outside of the rig, where pytest looks for docstrings
    cupy = bfloat16 = None

TYPES = {
    "NCCL_INT8": np.int8, "NCCL_UINT8": np.uint8, "NCCL_INT32": np.int32, "NCCL_UINT32": np.uint32,
    "NCCL_INT64": np.int64, "NCCL_UINT64": np.uint64, "NCCL_FLOAT16": np.float16, "NCCL_FLOAT32": np.float32,
    "NCCL_FLOAT64": np.float64, "NCCL_BFLOAT16": bfloat16,
}  # fmt: skip
OPS = {"NCCL_SUM": np.add, "NCCL_PROD": np.multiply, "NCCL_MAX": np.maximum, "NCCL_MIN": np.minimum, "NCCL_AVG": np.add}
_AVG = 4
_dtypes, _ops = [np.dtype(t) for t in TYPES.values()], list(OPS.values())
KEY = b"stand-in"


class NcclError(RuntimeError):
    """An error of NCCL."""


# -- the meeting of all ranks, in the process that has made the unique id ----------------------------------------------


class Hub:
    """Compares the calls of all ranks of a communicator, and computes their results."""

    def __init__(self):
        self.listener = Listener(("127.0.0.1", 0), backlog=16, authkey=KEY)
        self.changed = threading.Condition()
        self.devices, self.calls, self.messages = {}, defaultdict(dict), defaultdict(dict)
        self.results, self.gone = {}, None
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        rank = None
        try:
            rank, size, device = connection.recv()
            with self.changed:
                self.devices[rank] = device
                self.changed.notify_all()
                self.changed.wait_for(lambda: len(self.devices) == size)
                duplicate = len(set(self.devices.values())) < size
            connection.send("Duplicate GPU detected" if duplicate else "")
            number, counts = 0, defaultdict(int)
            while True:
                items = connection.recv()
                try:
                    posted = [self.post(rank, item, counts) for item in items if item[0] == "send"]
                    found = []
                    for item in items:
                        if item[0] == "recv":
                            found.append(self.take(rank, item, counts))
                        elif item[0] != "send":
                            found.append(self.meet(rank, size, number, item))
                            number += 1
                    for slot in posted:
                        self.wait(lambda slot=slot: "taken" in slot)
                    connection.send(("", found))
                except NcclError as error:
                    connection.send((str(error), None))
        except (EOFError, OSError):
            with self.changed:
                if rank is not None:
                    self.gone = f"rank {rank} is gone"
                    self.changed.notify_all()

    def wait(self, condition):
        with self.changed:
            self.changed.wait_for(lambda: condition() or self.gone)
            if not condition():
                raise NcclError(f"NCCL_ERROR_REMOTE_ERROR: {self.gone}")

    def post(self, rank, item, counts):
        _, data, peer = item
        slot = self.messages[rank, peer, counts["sent", peer]]
        counts["sent", peer] += 1
        with self.changed:
            slot["data"] = data
            self.changed.notify_all()
        return slot

    def take(self, rank, item, counts):
        _, like, peer = item
        slot = self.messages[peer, rank, counts["received", peer]]
        counts["received", peer] += 1
        self.wait(lambda: "data" in slot)
        with self.changed:
            slot["taken"] = True
            self.changed.notify_all()
        data = slot.pop("data")
        if data.size != like[0] or data.dtype != like[1]:
            raise NcclError(f"rank {peer} sends {data.size} {data.dtype}, rank {rank} receives {like[0]} {like[1]}")
        return data

    def meet(self, rank, size, number, item):
        name, data, details = item
        call = self.calls[number]
        with self.changed:
            call[rank] = name, (data.size, str(data.dtype), details), data
            self.changed.notify_all()
        self.wait(lambda: len(call) == size)
        with self.changed:
            if number not in self.results:
                self.results[number] = self.compute([call[i] for i in range(size)], size)
            found = self.results[number]
        if isinstance(found, str):
            raise NcclError(found)
        return found[rank]

    def compute(self, calls, size):
        if any(call[:2] != calls[0][:2] for call in calls):
            return f"calls of the ranks differ: {[call[:2] for call in calls]}"
        (name, (_, _, details), _), arrays = calls[0], [call[2] for call in calls]
        if name == "broadcast":
            return [arrays[details]] * size
        if name == "allGather":
            return [np.concatenate(arrays)] * size
        total = arrays[0].astype(np.float32) if arrays[0].dtype.itemsize == 2 else arrays[0]
        for array in arrays[1:]:
            total = _ops[details[0]](total, array.astype(total.dtype))
        if details[0] == _AVG:
            total = total / size
        total = total.astype(arrays[0].dtype)
        if name == "reduceScatter":
            return np.split(total, size)
        return [total if name == "allReduce" or rank == details[1] else None for rank in range(size)]


_hubs = []


def get_unique_id():
    """128 bytes, by which the ranks find the hub that is made here."""
    _hubs.append(Hub())
    return f"{_hubs[-1].listener.address[1]} {secrets.token_hex(8)}".encode().ljust(128)


# -- streams: how much of what NCCL was given there it has done --------------------------------------------------------

_given, _done, _waited = defaultdict(int), defaultdict(int), defaultdict(set)
_progress = threading.Condition()


def _finished(event):
    stream, count = getattr(event, "mark", (0, 0))
    return _done[stream] >= count


def _patch():
    base, event = cupy.cuda.stream._BaseStream, cupy.cuda.Event
    record, wait_event, synchronize = event.record, base.wait_event, base.synchronize

    def recording(self, stream=None):
        stream = cupy.cuda.get_current_stream() if stream is None else stream
        self.mark = stream.ptr, _given[stream.ptr]
        return record(self, stream)

    def waiting(self, awaited):
        _waited[self.ptr].add(awaited.mark[0])
        with _progress:
            _progress.wait_for(lambda: _finished(awaited))
        return wait_event(self, awaited)

    def synchronizing(self):
        with _progress:
            _progress.wait_for(lambda: _done[self.ptr] >= _given[self.ptr])
        return synchronize(self)

    event.record, event.done = recording, property(_finished)
    event.synchronize = None  # nobody should need it
    base.wait_event, base.synchronize = waiting, synchronizing


# -- the binding -------------------------------------------------------------------------------------------------------

_group = None


def groupStart():
    """Begin a group of calls."""
    global _group
    _group = (_group[0] + 1, _group[1]) if _group else (1, [])


def groupEnd():
    """Make the calls of a group."""
    global _group
    depth, items = _group
    _group = (depth - 1, items) if depth > 1 else None
    if _group is None and items:
        comm, stream = items[0][0], items[0][1]
        if any(item[:2] != (comm, stream) for item in items):
            raise NcclError("a group of several communicators or streams")
        comm._give([item[2:] for item in items], stream)


def _view(pointer, count, dtype):
    """Memory of the device, which is the host's in the rig."""
    return np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(pointer), dtype)


class NcclCommunicator:
    """A rank of a communicator, on the current device."""

    def __init__(self, size, unique_id, rank):
        assert len(unique_id) == 128
        self._rank, self._size, self._device = rank, size, cupy.cuda.runtime.getDevice()
        self._connection = Client(("127.0.0.1", int(unique_id.split()[0])), authkey=KEY)
        self._connection.send((rank, size, self._device))
        refused = self._connection.recv()
        if refused:
            raise NcclError(f"NCCL_ERROR_INVALID_USAGE: {refused}")
        self._calls, self._lock, self._error, self._open = queue.Queue(), threading.Lock(), None, True
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            stream, sent, targets = self._calls.get()
            try:
                self._connection.send(sent)
                error, found = self._connection.recv()
                if error:
                    raise NcclError(error)
                for target, data in zip(targets, found, strict=True):
                    if target is not None and data is not None:
                        target[:] = data
            except (NcclError, OSError, EOFError) as error:
                self._error = (
                    error if isinstance(error, NcclError) else NcclError(f"NCCL_ERROR_REMOTE_ERROR: {error!r}")
                )
                if self._open:
                    continue  # a kernel that waits for other ranks does not end
            with _progress:
                _done[stream] += 1
                _progress.notify_all()

    def _check(self, pointer, stream):
        if not self._open:
            raise NcclError("the communicator was destroyed")
        if stream == 0:
            raise NcclError("the default stream waits for everything: NCCL is given one of its own")
        device = cupy.cuda.runtime.pointerGetAttributes(pointer).device
        if device != self._device or cupy.cuda.runtime.getDevice() != self._device:
            raise NcclError(f"memory of device {device}, on device {cupy.cuda.runtime.getDevice()}, not {self._device}")
        event = cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.eventRecord(event.ptr, stream)  # refuses those of other devices
        if cupy.cuda.get_current_stream().ptr not in _waited[stream]:
            raise NcclError("the stream has not waited for the current one")

    def _issue(self, name, source, target, count, datatype, details, stream):
        self._check(source or target, stream)
        item = (self, stream, name, source, target, count, _dtypes[datatype], details)
        if _group is not None:
            _group[1].append(item)
        else:
            self._give([item[2:]], stream)

    def _give(self, items, stream):
        if not self._lock.acquire(blocking=False):
            raise NcclError("calls from two threads at a time")
        sent, targets = [], []
        for name, source, _, count, dtype, details in items:
            data = (count, dtype) if name == "recv" else _view(source, count, dtype).copy()
            sent.append((name, data, details))
        for name, _, target, count, dtype, details in items:
            if name == "send":
                continue
            counts = {"allGather": count * self._size, "reduceScatter": count // self._size}
            written = not (name == "reduce" and details[1] != self._rank)
            targets.append(_view(target, counts.get(name, count), dtype) if written else None)
            if written:
                targets[-1].view(np.uint8)[:] = 0xFF
        _waited[stream].clear()
        _given[stream] += 1
        self._calls.put((stream, sent, targets))
        self._lock.release()

    def allReduce(self, source, target, count, datatype, op, stream):
        self._issue("allReduce", source, target, count, datatype, (op, None), stream)

    def reduce(self, source, target, count, datatype, op, root, stream):
        self._issue("reduce", source, target, count, datatype, (op, root), stream)

    def broadcast(self, source, target, count, datatype, root, stream):
        self._issue("broadcast", source, target, count, datatype, root, stream)

    def allGather(self, source, target, count, datatype, stream):
        self._issue("allGather", source, target, count, datatype, None, stream)

    def reduceScatter(self, source, target, count, datatype, op, stream):
        self._issue("reduceScatter", source, target, count * self._size, datatype, (op, None), stream)

    def send(self, source, count, datatype, peer, stream):
        self._issue("send", source, None, count, datatype, peer, stream)

    def recv(self, target, count, datatype, peer, stream):
        self._issue("recv", None, target, count, datatype, peer, stream)

    def check_async_error(self):
        if self._error is not None:
            raise self._error

    def abort(self):
        self._open = False
        self._connection.close()
        with _progress:
            for stream in list(_given):
                _done[stream] = _given[stream]
            _progress.notify_all()

    def destroy(self):
        assert self._calls.empty()
        self._open = False


def install():
    """Take the place of CuPy's binding in this process."""
    module = sys.modules[__name__]
    found = ModuleType("cupy.cuda.nccl")
    for name in ("NcclCommunicator", "NcclError", "get_unique_id", "groupEnd", "groupStart"):
        setattr(found, name, getattr(module, name))
    for names in (TYPES, OPS):
        for number, name in enumerate(names):
            setattr(found, name, number)
    found.available, found.get_version = True, lambda: 22000
    sys.modules["cupy.cuda.nccl"] = cupy.cuda.nccl = found
    _patch()


if os.environ.get("NCCL_STAND_IN") == "1":
    install()
