"""Memory shared with other libraries through DLPack, and states that come from them."""

import numpy as np
import pytest

import gradcore as gc
from gradcore import nn


class Foreign:
    """Another library's tensor: what has DLPack and nothing else; without versions of it where `old`."""

    def __init__(self, t, old=False):
        self.t, self.old = t, old

    def __dlpack__(self, **named):
        if self.old and named:
            raise TypeError("unexpected keyword argument")
        return self.t.__dlpack__(**named)

    def __dlpack_device__(self):
        return self.t.__dlpack_device__()


WAYS = {
    "the tensor": lambda t: t,
    "another library": Foreign,
    "one without versions": lambda t: Foreign(t, old=True),
    "a capsule": lambda t: t.__dlpack__(),
    "a capsule with a version": lambda t: t.__dlpack__(max_version=(1, 0)),
    "to_dlpack": gc.utils.dlpack.to_dlpack,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [d for d in gc.dtypes.DTYPES.values() if d is not gc.bool], ids=str)
def test_memory_is_shared_in_every_dtype(way, dtype):
    t = gc.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype)
    for part in (t, t.t(), t[:, 1], t[:0], t[0, 0]):
        back = gc.from_dlpack(WAYS[way](part))
        assert (back.dtype, back.shape) == (dtype, part.shape)
        assert gc.equal(back, part)
    back = gc.from_dlpack(WAYS[way](t))
    back[0, 0] = 7
    assert t[0, 0] == 7
    assert back.storage_offset() == 0


def test_a_capsule_is_used_once():
    capsule = gc.ones(2).__dlpack__()
    gc.from_dlpack(capsule)
    with pytest.raises(BufferError, match="can be used once only"):
        gc.from_dlpack(capsule)


def test_what_cannot_be_exported_says_why():
    for t in (gc.arange(5)[::-1], gc.ones(2, 3)[:, ::-2], gc.from_numpy(np.arange(4)[::-1])):
        with pytest.raises(BufferError, match="negative strides"):
            np.from_dlpack(t)
        assert np.from_dlpack(t.clone()).tolist() == t.tolist()
    with pytest.raises(BufferError, match="require gradient"):
        np.from_dlpack(gc.ones(2, requires_grad=True))
    with pytest.raises(BufferError, match="device meta"):
        np.from_dlpack(gc.ones(2, device="meta"))


def test_devices_and_copies():
    array = np.zeros(2)
    assert np.shares_memory(gc.from_dlpack(array, copy=False).numpy(), array)
    assert not np.shares_memory(gc.from_dlpack(array, copy=True).numpy(), array)
    assert np.shares_memory(gc.from_dlpack(array, device="cpu").numpy(), array)
    assert gc.from_dlpack(array, device="meta").is_meta
    with pytest.raises(ValueError, match="a copy is needed"):
        gc.from_dlpack(array, device="meta", copy=False)
    with pytest.raises(TypeError, match="must have __dlpack__"):
        gc.from_dlpack([1.0])


def test_arrays_that_are_read_only_stay_so():
    array = np.zeros(2)
    array.flags.writeable = False
    with pytest.raises((ValueError, BufferError), match=r"read-?only"):  # NumPy 2.0 does not share it at all
        gc.from_dlpack(array).add_(1)


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("made", [lambda t: t.numpy(), Foreign, lambda t: gc.from_numpy(t.numpy())])
def test_states_are_taken_from_arrays_and_other_libraries(made, assign):
    net, other = (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(2))
    state = {name: made(t) for name, t in net.state_dict().items()}
    assert repr(other.load_state_dict(state, assign=assign)) == "<All keys matched successfully>"
    x = gc.rand(4, 2)
    assert gc.equal(net(x), other(x))
    assert all(type(p) is nn.Parameter and p.requires_grad for p in other.parameters())


@pytest.mark.parametrize("value", [[1.0, 2.0], "weights", np.array(["a"]), None, 3])
def test_states_of_anything_else_are_refused_and_change_nothing(value):
    net = nn.Linear(2, 1)
    before = net.weight.clone()
    with pytest.raises(RuntimeError, match='While copying the parameter named "weight"'):
        net.load_state_dict({"weight": value, "bias": net.bias})
    assert gc.equal(net.weight, before)


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("stride", [2**61 - 1, 2**61, -(2**61) - 1, 2**62, -(2**63), 2**63 - 1])
def test_strides_that_are_no_number_of_bytes_are_refused(version, stride):
    import ctypes

    from gradcore.tensor import interop

    source = gc.ones(3, 2).T  # NumPy 2.0 leaves out the strides of contiguous arrays
    capsule = source.__dlpack__() if version is None else source.__dlpack__(max_version=version)
    strides = ctypes.c_void_p.from_address(interop._header(capsule) + interop.STRIDES).value
    (ctypes.c_int64 * 2).from_address(strides)[0] = stride
    with pytest.raises(BufferError, match="stride"):
        gc.from_dlpack(capsule)
