"""The memory of tensors: what they share, and that nothing reaches beyond it, whatever numbers are given."""

import contextlib
import copy
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gradcore as gc
from gradcore import nn

REFUSED = (TypeError, RuntimeError, IndexError, ValueError, OverflowError)

#: Every kind of number that is given where an integer is expected.
PLAIN = st.one_of(
    st.integers(-12, 12),
    st.sampled_from([2**k + d for k in (7, 8, 15, 16, 31, 32, 60, 61, 62, 63, 64, 70) for d in (-1, 0, 1)]),
    st.sampled_from([-(2**k) + d for k in (7, 8, 15, 31, 63, 64) for d in (-1, 0)]),
)
KINDS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64, np.uint64)


@st.composite
def numbers(draw):
    n = draw(PLAIN)
    kind = draw(st.integers(0, 9))
    if kind < 5:
        return n
    if kind == 5:
        return draw(st.sampled_from([True, 2.0, 1.5, float("nan"), float("inf"), None, "2", 1j]))
    with np.errstate(all="ignore"):
        number = np.array(n % 2**64, np.uint64).astype(draw(st.sampled_from(KINDS)))[()]
    return number if kind < 8 else gc.tensor(number)


#: Operations that make views or read by numbers: a tensor, a source of numbers.
CALLS = {
    "as_strided": lambda x, n: x.as_strided((n(), n()), (n(), n()), n()),
    "as_strided without offset": lambda x, n: x.as_strided([n()], [n()]),
    "as_strided_scatter": lambda x, n: gc.as_strided_scatter(x, gc.ones(2), (n(),), (n(),), n()),
    "unfold": lambda x, n: x.unfold(n(), n(), n()),
    "narrow": lambda x, n: x.narrow(n(), n(), n()),
    "narrow_copy": lambda x, n: x.narrow_copy(n(), n(), n()),
    "select": lambda x, n: x.select(n(), n()),
    "diagonal": lambda x, n: x.diagonal(n(), n(), n()),
    "getitem": lambda x, n: x[n()],
    "slices": lambda x, n: x[n() : n(), n() :: n()],
    "split": lambda x, n: x.split(n(), n())[0],
    "chunk": lambda x, n: x.chunk(n(), n())[0],
    "expand": lambda x, n: x[:1].expand(n(), n()),
    "view": lambda x, n: x.view(n(), n()),
    "reshape": lambda x, n: x.reshape(n(), n()),
    "unflatten": lambda x, n: x.unflatten(n(), (n(), n())),
    "unsqueeze": lambda x, n: x.unsqueeze(n()),
    "movedim": lambda x, n: x.movedim(n(), n()),
    "transpose": lambda x, n: x.transpose(n(), n()),
    "resize_": lambda x, n: x.clone().resize_(n(), n()),
    "set_ to a place": lambda x, n: gc.empty(0, dtype=x.dtype).set_(x, n(), (n(),), (n(),)),
    "set_ to a storage": lambda x, n: gc.empty(0, dtype=x.dtype).set_(x.storage(), n(), (n(), n())),
    "set_ to bytes": lambda x, n: gc.empty(0, dtype=x.dtype).set_(x.untyped_storage(), n(), (n(),), (n(),)),
    "set_ to the end": lambda x, n: gc.empty(0, dtype=x.dtype).set_(x.storage(), n()),
    "an element of a storage": lambda x, n: gc.tensor(x.storage()[n()]),
    "a part of a storage": lambda x, n: gc.as_tensor(x.untyped_storage()[n() : n()]),
    "index_select": lambda x, n: x.index_select(n(), gc.tensor([int(n()) % 2**62])),
    "take": lambda x, n: x.take(gc.tensor([int(n()) % 2**62])),
    "take_along_dim": lambda x, n: x.take_along_dim(gc.full(x.shape, int(n()) % 2**62, dtype=gc.int64), n()),
    "frombuffer": lambda x, n: gc.frombuffer(bytearray(24), dtype=gc.float32, count=n(), offset=n()),
    "roll": lambda x, n: x.roll(n(), n()),
    "column of windows": lambda x, n: x.unfold(0, 2, 1).as_strided((n(),), (n(),), n()),
}  # fmt: skip
LARGE = 2**22


def guarded(draw):
    """Draw a tensor of the middle of an array, and return it with that part and the array."""
    array = np.arange(60.0).reshape(10, 6)
    part = (array[4:8], array[2:8:2], array[3:7, 1:4], array[7:2:-1, ::-2], array[:, 2:3])[draw(st.integers(0, 4))]
    return gc.from_numpy(part), part, array


def bounds(array):
    return np.lib.array_utils.byte_bounds(array)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", CALLS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_nothing_reaches_beyond_the_tensor(name, data):
    x, part, array = guarded(data.draw)
    before = array.copy()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = CALLS[name](x, lambda: data.draw(numbers()))
    except (*REFUSED, MemoryError):
        assert np.array_equal(array, before)
        return
    if not out.numel():
        return
    low, high = bounds(out._array)
    if not np.may_share_memory(out._array, array, max_work=0):  # memory of its own
        owner = out._device.backend.owner_of(out._array)
        assert bounds(owner)[0] <= low <= high <= bounds(owner)[1]
        return
    assert bounds(part)[0] <= low <= high <= bounds(part)[1]
    if out.numel() < LARGE and out._array.flags.writeable:
        out._array[...] = 77
        start, end = ((b - bounds(array)[0]) // 8 for b in bounds(part))
        assert np.array_equal(np.delete(array.reshape(-1), np.s_[start:end]), np.delete(before, np.s_[start:end]))


def test_numbers_do_not_wrap():
    x = gc.arange(20000.0)
    assert x.unfold(0, 2, np.int16(9000)).stride() == (9000, 1)
    assert gc.arange(300.0).narrow(0, np.int8(100), np.int8(120)).shape == (120,)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size"):
        gc.arange(10.0).as_strided((30,), (1,), np.int8(120))
    with pytest.raises(RuntimeError, match="out of bounds for storage of size"):
        gc.arange(10.0).as_strided((6,), (1,), gc.tensor(250, dtype=gc.uint8))


# -- storages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda a: gc.from_numpy(a), lambda a: gc.as_tensor(a), lambda a: gc.asarray(a), lambda a: gc.from_dlpack(a),
], ids=["from_numpy", "as_tensor", "asarray", "from_dlpack"])  # fmt: skip
@pytest.mark.parametrize("key", [np.s_[2:], np.s_[3:9:2], np.s_[-4:], np.s_[2:2], np.s_[:]])
def test_the_storage_of_an_array_is_the_array(make, key):
    array = np.arange(10.0)
    t = make(array[key])
    assert t.storage_offset() == 0
    assert len(t.storage()) == max(0, (t.numel() - 1) * t.stride(0) + 1)
    assert t.data_ptr() == t.untyped_storage().data_ptr()
    if t.numel():
        assert gc.equal(t.as_strided((2,), t.stride(), 0), t[:2])
        assert np.shares_memory(t.numpy(), array)


def test_columns_reversed_and_misaligned_arrays():
    array = np.arange(20.0).reshape(4, 5)
    column = gc.from_numpy(array[:, 2])
    assert (column.storage_offset(), len(column.storage())) == (0, 16)
    back = gc.from_numpy(array[:, ::-2])
    assert (back.storage_offset(), back.stride(), len(back.storage())) == (4, (5, -2), 20)
    assert back.as_strided((2,), (1,), 0).tolist() == [0.0, 1.0]
    packed = np.zeros(4, [("a", "u1"), ("b", "f4")])
    packed["b"] = range(4)
    odd = gc.from_numpy(packed["b"])
    assert odd.sum() == 6
    for ask in (odd.storage_offset, odd.storage, lambda: odd.as_strided((1,), (1,))):
        with pytest.raises(RuntimeError, match="no multiples of its element size"):
            ask()


def test_buffers_have_storages():
    buffer = bytearray(16)
    t = gc.frombuffer(buffer, dtype=gc.float32, offset=4)
    assert (t.storage_offset(), t.as_strided((3,), (1,), 0).shape) == (0, (3,))
    t[0] = 1.0
    assert bytes(buffer[4:8]) == np.float32(1).tobytes()


def test_views_detached_or_not_have_one_storage():
    x = gc.arange(6.0)
    views = [x, x[1:3], x[1:3].detach(), x.data, x.view(2, 3).t(), nn.Parameter(x)[2:], x.view(gc.int32), x[::-1]]
    assert {v.untyped_storage().data_ptr() for v in views} == {x.data_ptr()}
    assert {v.untyped_storage().nbytes() for v in views} == {24}
    assert x.clone().untyped_storage().data_ptr() != x.data_ptr()


def test_what_storages_do():
    x = gc.arange(6.0)
    s, u = x[2:].storage(), x[2:].untyped_storage()
    assert (len(s), s.size(), s.nbytes(), s.element_size(), s.dtype) == (6, 6, 24, 4, gc.float32)
    assert (len(u), u.size(), u.nbytes(), u.element_size(), u.device) == (24, 24, 24, 1, x.device)
    assert list(s) == s.tolist() == x.tolist()
    s[0] = 7.0
    s[4:].fill_(-1.0)
    assert x.tolist() == [7, 1, 2, 3, -1, -1]
    assert (s[-1], s.untyped()[:4].tolist()) == (-1, [0, 0, 224, 64])
    twin = s.clone()
    s.fill_(0)
    assert twin[0] == 7
    s.copy_(twin)
    assert x[0] == 7
    assert s.resize_(6) is s
    with pytest.raises(RuntimeError, match="cannot be resized"):
        s.resize_(7)
    with pytest.raises(IndexError, match="index 6 out of range"):
        s[6]
    with pytest.raises(RuntimeError, match="size does not match"):
        s.copy_(gc.ones(2).storage())
    assert gc.TypedStorage([1.0, 2.0], dtype=gc.float64).tolist() == [1, 2]
    assert gc.TypedStorage(wrap_storage=u, dtype=gc.int32).dtype is gc.int32
    assert len(gc.UntypedStorage(5)) == 5
    assert gc.is_storage(s)
    assert gc.is_storage(u)
    assert not gc.is_storage(x)
    assert gc.as_tensor(u).tolist() == u.tolist()


def test_writes_through_storages_are_noticed():
    x = gc.ones(3, requires_grad=True)
    y = x * 2
    z = y * y
    y.storage()[0] = 5.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_storages_of_files(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(8)))
    own = gc.UntypedStorage.from_file(str(path), shared=False, nbytes=8)
    own[0] = 9
    assert path.read_bytes()[0] == 0
    shared = gc.UntypedStorage.from_file(str(path), shared=True, nbytes=16)
    shared[0] = 9
    gc.empty(0, dtype=gc.int16).set_(shared, 1, (1,))[0] = 258
    assert path.stat().st_size == 16
    assert gc.UntypedStorage.from_file(path).tolist()[:4] == [9, 1, 2, 1]
    with pytest.raises(RuntimeError, match="has 16 bytes, not 17"):
        gc.UntypedStorage.from_file(path, nbytes=17)


def test_set_takes_places():
    x = gc.arange(6.0)
    y = gc.empty(0).set_(x, 1, (2, 2), (2, 1))
    assert y.tolist() == [[1, 2], [3, 4]]
    y.zero_()
    assert x.tolist() == [0, 0, 0, 0, 0, 5]
    assert gc.empty(0).set_(x[2:].storage(), 3).tolist() == [0, 0, 5]
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        gc.empty(0).set_(x, 3, (4,))
    with pytest.raises(RuntimeError, match="Expected a tensor or storage of"):
        gc.empty(0, dtype=gc.int64).set_(x)
    with pytest.raises(TypeError, match="must be Tensor or Storage"):
        gc.empty(0).set_([1.0])


# -- copies ------------------------------------------------------------------------------------------------------------


def test_copies_of_a_base_and_its_views_share_memory():
    x = gc.arange(12.0).reshape(3, 4)
    z = gc.tensor([1 + 2j, 3.0])
    net = nn.Module()
    net.register_buffer("part", x[1])
    net.register_buffer("whole", x)
    twin, twins = copy.deepcopy([net, [x.t(), x[:, ::-1], x.view(gc.int32), x[3:], z, z.imag]])
    assert [t.stride() for t in twins[:2]] == [(1, 4), (4, -1)]
    assert gc.equal(twins[1], x[:, ::-1])
    twin.whole.zero_()
    assert [t.abs().sum().item() for t in (twin.part, *twins[:3])] == [0, 0, 0, 0]
    twins[4].zero_()
    assert twins[5].tolist() == [0, 0]
    assert x.sum() == 66
    assert z.imag.sum() == 2
    a, b = copy.deepcopy(x), copy.deepcopy(x)
    a.zero_()
    assert b.sum() == 66


# -- headers -----------------------------------------------------------------------------------------------------------

HEADERS = {
    "shape": lambda a: setattr(a, "shape", (a.size,)),
    "dtype": lambda a: setattr(a, "dtype", np.int32),
    "strides": lambda a: setattr(a, "strides", (0,) * a.ndim),
    "flags": lambda a: a.setflags(write=False),
    "resize": lambda a: a.resize(10**6, refcheck=False),
    "byteorder": lambda a: setattr(a, "dtype", a.dtype.newbyteorder()),
}
SOURCES = {
    "numpy": lambda t: t.numpy(),
    "detached": lambda t: t.detach().numpy(),
    "data": lambda t: t.data.numpy(),
    "force": lambda t: t.numpy(force=True),
    "asarray": lambda t: np.asarray(t.detach()),
    "host": lambda t: t.host(),
    "dlpack": lambda t: np.from_dlpack(t.detach()),
    "base": lambda t: t.detach().numpy().base,
    "a view's base": lambda t: t.detach()[1:].numpy().base,
    "from_numpy": lambda t: gc.from_numpy(t.detach().numpy()).numpy(),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("source", SOURCES)
def test_what_is_done_to_a_header_does_not_reach_the_tensor(source, header):
    for t in (gc.arange(6.0).reshape(2, 3), nn.Parameter(gc.ones(2, 3)), gc.from_numpy(np.ones((2, 3), np.float32))):
        with gc.no_grad():
            array = SOURCES[source](t)
        expected = t.detach().clone()
        if isinstance(array, np.ndarray):
            with contextlib.suppress(ValueError, AttributeError, TypeError):
                HEADERS[header](array)
        t.detach().add_(0)  # it can be written to
        assert (t.shape, t.stride(), t.dtype) == ((2, 3), (3, 1), gc.float32)
        assert gc.equal(t.detach(), expected)


def test_arrays_share_memory():
    for t in (gc.arange(6.0), gc.ones(2, dtype=gc.bfloat16), gc.tensor(3), gc.tensor([1 + 2j]).imag, gc.ones(0, 2)):
        array = t.numpy()
        assert (array.shape, array.dtype) == (t.shape, t.dtype.numpy)
        assert tuple(s // array.itemsize for s in array.strides) == t.stride() or t.numel() < 2
        array[...] = 5
        assert bool((t == 5).all())
