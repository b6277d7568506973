"""Files that were damaged or made to do harm: drawn from valid ones by mutation, and from pickle's instructions."""

import io
import pickle
import pickletools
import random
import struct
import zipfile
from collections import Counter, OrderedDict

import numpy as np

import gradcore as gc
from gradcore import nn, serialization

#: What `load` may raise for a file that it does not read.
ERRORS = (pickle.UnpicklingError, RuntimeError, EOFError)

NUMBERS = (
    0, 1, 2, 3, 7, 255, 256, 2**16, 2**31 - 1, 2**31, 2**32, 2**61, 2**62, 2**63 - 1, 2**63, 2**64, 2**200, -1, -2,
    -(2**31), -(2**63), -(2**70),
)  # fmt: skip
NAMES = (
    *serialization.names.KNOWN, "os.system", "builtins.eval", "builtins.getattr", "builtins.dict", "torch.load",
    "gradcore.tensor.Tensor", "numpy.ndarray", "collections.defaultdict", "functools.partial", "torch.storage",
)  # fmt: skip


def saved(obj, protocol=2):
    file = io.BytesIO()
    gc.save(obj, file, pickle_protocol=protocol)
    return file.getvalue()


def valid_files():
    """Files with one of everything."""
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.LazyLinear(2))
    w = nn.Parameter(gc.ones(3))
    opt = gc.optim.Adam([w])
    w.sum().backward()
    opt.step()
    x = gc.arange(24.0).reshape(4, 6)
    noted = gc.ones(2)
    noted.note = {"a": [1]}
    objects = [
        {"net": net.state_dict(), "opt": opt.state_dict(), "epoch": 3},
        [gc.tensor([0, 1, 1]).to(dtype) for dtype in gc.dtypes.DTYPES.values()],
        [x, x[1], x.t()[2:4], x[::2, 1::3], x[:0], x[::-1], x.storage(), x.untyped_storage()],
        {"a": [1, 2.5, None, "text", True], ("b", 2): (b"bytes", 1j, {1, 2}, frozenset([3])), 2**70: slice(1, None)},
        OrderedDict(
            c=Counter("aab"), size=gc.Size([2, 3]), dtype=gc.bfloat16, device=gc.device("cuda:1"), b=bytearray(9)
        ),
        [noted, w, nn.Buffer(gc.zeros(1)), gc.ones(2, 3, device="meta"), gc.ones(2, 2).max(0), gc.strided],
    ]
    files = [saved(obj, protocol) for obj in objects for protocol in (2, 4)]
    return [*files, conjugated()]


def conjugated():
    """Return a file with conjugate and negative flags, as PyTorch writes them."""
    structure, memories = opened(saved(gc.tensor([1 + 2j, 3.0])))
    flags = pickle.dumps({"conj": True, "neg": True}, 2)[2:-1]
    end = structure.rindex(b"tq")
    return archived(structure[:end] + flags + structure[end:], memories)


def opened(data):
    """Return the structure of a file and its other entries."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    return entries.pop("archive/data.pkl"), entries


def archived(structure, entries=None):
    """Return a file with that structure and a correct checksum."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", structure)
        for name, content in (entries or {}).items():
            archive.writestr(name, content)
    return out.getvalue()


# -- mutations ---------------------------------------------------------------------------------------------------------


def pieces(structure):
    """Split a structure into its instructions."""
    starts = [place for _, _, place in pickletools.genops(structure)]
    return [structure[a:b] for a, b in zip(starts, [*starts[1:], len(structure)], strict=True)]


def number(n):
    """Return the instruction that pushes an int."""
    return pickle.dumps(n, 2)[2:-1]


def bits(draw, data):
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8))):
        out[draw.randrange(len(out))] ^= 1 << draw.randrange(8)
    return bytes(out)


def cut(draw, data):
    start, end = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    return draw.choice((data[:start], data[:start] + data[end:], data[:end] + data[start:]))


def structure_bits(draw, data):
    structure, entries = opened(data)
    return archived(bits(draw, structure), entries)


def instructions(draw, data):
    structure, entries = opened(data)
    found = pieces(structure)
    for _ in range(draw.choice((1, 1, 2, 5))):
        a, b = draw.randrange(len(found)), draw.randrange(len(found))
        kind = draw.randrange(5)
        if kind == 0:
            del found[a]
        elif kind == 1:
            found.insert(a, found[b])
        elif kind == 2:
            found[a], found[b] = found[b], found[a]
        elif kind == 3:
            found[a] = bytes([draw.choice(OPCODES)]) + found[a][1:]
        else:
            found[a:a] = found[b : b + draw.randrange(12)]
        found = found or [b"."]
    return archived(b"".join(found), entries)


def names(draw, data):
    structure, entries = opened(data)
    found = pieces(structure)
    places = [i for i, piece in enumerate(found) if piece[:1] in (b"c", b"\x93", b"X", b"\x8c")]
    for i in draw.sample(places, min(len(places), draw.choice((1, 2)))):
        module, _, name = draw.choice(NAMES).rpartition(".")
        if found[i][:1] in (b"X", b"\x8c"):
            text = draw.choice((module, name, "__class__", "__dict__", "_array", "", "0", "1", "a" * 300)).encode()
            found[i] = b"X" + struct.pack("<I", len(text)) + text
        else:
            found[i] = f"c{module}\n{name}\n".encode()
    return archived(b"".join(found), entries)


def sizes(draw, data):
    structure, entries = opened(data)
    found = pieces(structure)
    places = [i for i, piece in enumerate(found) if piece[:1] in (b"K", b"M", b"J", b"\x8a", b"\x88", b"\x89")]
    for i in draw.sample(places, min(len(places), draw.choice((1, 2, 3)))):
        found[i] = draw.choice(
            (number(draw.choice(NUMBERS)), pickle.dumps(draw.random(), 2)[2:-1], b"\x88", b"N", b")")
        )
    if entries and draw.random() < 0.3:
        name = draw.choice(list(entries))
        entries[name] = draw.choice((entries[name][:-1], entries[name] * 2, b"", draw.randbytes(len(entries[name]))))
    return archived(b"".join(found), entries)


def headers(draw, data):
    """Bytes of the archive's own headers: offsets, lengths, flags."""
    out = bytearray(data)
    places = [i for i in range(len(out) - 4) if out[i : i + 2] == b"PK"]
    for _ in range(draw.choice((1, 2, 4))):
        place = draw.choice(places) + draw.randrange(4, 56)
        if place < len(out):
            out[place] = draw.choice((0, 1, 8, 128, 255, draw.randrange(256)))
    return bytes(out)


MUTATIONS = (bits, cut, structure_bits, instructions, names, sizes, headers)


# -- pickles of all instructions ---------------------------------------------------------------------------------------

OPCODES = [ord(op.code) for op in pickletools.opcodes]


def random_pickle(draw):
    """Instructions of all kinds, half of them with what they need on the stack."""
    out = [b"\x80" + bytes([draw.choice((2, 4, 5))])]
    for _ in range(draw.randrange(1, 60)):
        kind = draw.random()
        module, _, name = draw.choice(NAMES).rpartition(".")
        if kind < 0.3:
            out.append(f"c{module}\n{name}\n".encode())
            out.append(draw.choice((b")R", b")\x81", b"(", b"K\x05\x85R", b"]\x85R", b"N}b", b"(tR", b"")))
        elif kind < 0.5:
            out.append(number(draw.choice(NUMBERS)))
        elif kind < 0.6:
            out.append(
                pickle.dumps(draw.choice(("a", b"b", 1.5, (1, 2), [3], {"__dict__": 1}, None, "storage")), 2)[2:-1]
            )
        elif kind < 0.7:
            storage = pickle.dumps("storage", 2)[2:-1], b"ctorch\nFloatStorage\n", number(0), b"X\3\0\0\0cpu", number(2)
            out += [b"(", *draw.sample(storage, 5), b"tQ"] if draw.random() < 0.5 else [b"(", *storage, b"tQ"]
        else:
            opcode = draw.choice(pickletools.opcodes)
            length = 0 if opcode.arg is None else max(opcode.arg.n, 0) if opcode.arg.n >= 0 else draw.randrange(6)
            out.append(opcode.code.encode("latin1") + draw.randbytes(length) + (b"\n" if draw.random() < 0.3 else b""))
    return archived(b"".join(out) + b".", {"archive/data/0": bytes(8)})


# -- what must hold ----------------------------------------------------------------------------------------------------


def tensors_in(value, seen):
    """All tensors in a structure."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, gc.Tensor):
        yield value
        value = value.__dict__
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        for part in value:
            yield from tensors_in(part, seen)


def check_inside(t):
    """Whether a tensor's elements lie in memory that NumPy has allocated for it."""
    if t.is_meta or isinstance(t, (nn.UninitializedParameter, nn.UninitializedBuffer)):
        return
    low, high = np.lib.array_utils.byte_bounds(t._array)
    owner = t._array
    while owner.base is not None:
        owner = owner.base
        while not isinstance(owner, np.ndarray):
            owner = owner.base
    assert owner.flags.owndata
    start, end = np.lib.array_utils.byte_bounds(owner)
    assert t.numel() == 0 or start <= low <= high <= end


def process_state():
    """Return a description of the state that no file may change."""
    kinds = [str(vars(k)) for k in serialization.names.KNOWN.values() if isinstance(k, serialization.names.Kind)]
    devices = [(gc.device(d).type, gc.device(d).index, id(gc.device(d).kernels)) for d in ("cpu", "meta")]
    classes = [sorted(vars(c)) for c in (gc.Tensor, nn.Parameter, gc.Size, gc.dtype, gc.device)]
    functions = [f.__defaults__ for f in serialization.names.CALLS.values() if hasattr(f, "__defaults__")]
    dtypes = [(d.name, d.itemsize) for d in gc.dtypes.DTYPES.values()]
    return repr((kinds, devices, classes, functions, dtypes))


def attempt(data, path=None):
    """Whether a file is read, from a path or from memory; it fails with anything but an error that says why."""
    try:
        found = gc.load(io.BytesIO(data) if path is None else path)
    except ERRORS as error:
        assert str(error)  # noqa: PT017 - of what was raised
        return False
    for t in tensors_in(found, {}):
        check_inside(t)
    return True


def mutated(draw, files):
    """Return a modified file, and the name of the modification."""
    change = draw.choice(MUTATIONS)
    try:
        return change(draw, draw.choice(files)), change.__name__
    except (zipfile.BadZipFile, ValueError):
        return mutated(draw, files)


def drawn(count, seed):
    """Files to try: mutations, then pickles of all instructions."""
    draw, files = random.Random(seed), valid_files()
    for i in range(count):
        yield (random_pickle(draw), "instructions drawn") if i % 4 == 3 else mutated(draw, files)
