"""The memory of tensors on a device: storages, copies, files, DLPack; and that views end where arrays end."""

import copy
import io

import pytest

import gradcore as gc


def test_storages_and_places():
    x = gc.arange(6.0, device="cuda")
    parts = [x, x[1:3], x[1:3].detach(), x.view(2, 3).t(), x[::2]]
    assert {p.untyped_storage().data_ptr() for p in parts} == {x.data_ptr()}
    assert {p.untyped_storage().nbytes() for p in parts} == {24}
    assert gc.empty(0, device="cuda").set_(x.untyped_storage(), 1, (2, 2), (2, 1)).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 24"):
        x.as_strided((7,), (1,))


def test_an_imported_array_ends_where_it_ends():
    import cupy

    array = cupy.arange(6.0)
    t, u = gc.as_tensor(array[2:]), gc.as_tensor(array.reshape(2, 3)[:, ::-2])
    assert (t.storage_offset(), len(t.storage())) == (0, 4)
    assert (u.storage_offset(), u.stride(), len(u.storage())) == (2, (3, -2), 6)
    t[0] = 7.0
    assert array[2] == 7


def test_copies_and_files_keep_views():
    x = gc.arange(6.0, device="cuda")
    file = io.BytesIO()
    gc.save([x, x[2:], x.view(2, 3).t(), x[::2]], file)
    for y, *views in (copy.deepcopy([x, x[2:], x.view(2, 3).t(), x[::2]]), gc.load(file)):
        assert [v.device for v in views] == [x.device] * 3
        y.zero_()
        assert [v.abs().sum().item() for v in views] == [0, 0, 0]


@pytest.mark.parametrize("dtype", [gc.float32, gc.bfloat16, gc.int64], ids=str)
def test_dlpack(dtype):
    x = gc.arange(3, device="cuda").to(dtype)
    y = gc.from_dlpack(x)
    y[0] = 7
    assert (x[0], y.dtype, y.device) == (7, dtype, x.device)
    with pytest.raises(BufferError, match="negative strides"):
        x[::-1].__dlpack__()
