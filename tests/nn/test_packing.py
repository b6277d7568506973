"""Sequences of different lengths: packed, padded again, and run over by recurrent layers."""

import pytest

import gradcore as gc
from gradcore import nn
from gradcore.nn.utils import rnn

LENGTHS = [2, 4, 1]


def _sequences(*size, requires_grad=False):
    gc.manual_seed(0)
    return [gc.randn(n, *size, dtype=gc.float64, requires_grad=requires_grad) for n in LENGTHS]


def test_steps_lie_one_behind_the_other():
    packed = rnn.pack_sequence([gc.tensor([1, 2]), gc.tensor([3, 4, 5, 6]), gc.tensor([7])], enforce_sorted=False)
    assert packed.data.tolist() == [3, 1, 7, 4, 2, 5, 6]
    assert packed.batch_sizes.tolist() == [3, 2, 1, 1]
    assert packed.sorted_indices.tolist() == [1, 0, 2]
    assert packed.unsorted_indices.tolist() == rnn.invert_permutation(packed.sorted_indices).tolist() == [1, 0, 2]
    assert [each.tolist() for each in rnn.unpack_sequence(packed)] == [[1, 2], [3, 4, 5, 6], [7]]


@pytest.mark.parametrize("batch_first", [False, True])
def test_padding_and_packing_undo_each_other(batch_first):
    padded = rnn.pad_sequence(_sequences(3), batch_first, padding_value=7)
    packed = rnn.pack_padded_sequence(padded, LENGTHS, batch_first, enforce_sorted=False)
    again, lengths = rnn.pad_packed_sequence(packed, batch_first, padding_value=7, total_length=4)
    assert gc.equal(again, padded)
    assert lengths.tolist() == LENGTHS
    longer, _ = rnn.pad_packed_sequence(packed, True, total_length=6)
    assert longer.shape == (3, 6, 3)
    assert not longer[:, 4:].any()


def test_gradients_pass_and_padding_gets_none():
    padded = gc.randn(4, 3, 2, dtype=gc.float64, requires_grad=True)
    packed = rnn.pack_padded_sequence(padded, LENGTHS, enforce_sorted=False)
    packed.data.sum().backward()
    assert padded.grad.sum((0, 2)).tolist() == [4.0, 8.0, 2.0]

    def there_and_back(x):
        packed = rnn.pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
        return rnn.pad_packed_sequence(packed._replace(data=packed.data.sin()))[0]

    assert gc.autograd.gradcheck(there_and_back, padded, check_forward_ad=True)


@pytest.mark.parametrize("settings", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}], ids=str)
@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_layers_run_over_each_sequence_as_if_it_were_alone(kind, settings):
    sequences = _sequences(3, requires_grad=True)
    layer = kind(3, 4, dtype=gc.float64, **settings)
    output, last = layer(rnn.pack_sequence(sequences, enforce_sorted=False))
    last = last if isinstance(last, tuple) else (last,)
    for i, (sequence, found) in enumerate(zip(sequences, rnn.unpack_sequence(output), strict=True)):
        expected, ends = layer(sequence)
        ends = ends if isinstance(ends, tuple) else (ends,)
        own = [h[:, i] for h in last]
        assert gc.allclose(found, expected)
        assert all(gc.allclose(h, end) for h, end in zip(own, ends, strict=True))
        losses = [x.square().sum() + sum(h.sin().sum() for h in hs) for x, hs in ((found, own), (expected, ends))]
        got, wanted = (gc.autograd.grad(loss, sequence, retain_graph=True)[0] for loss in losses)
        assert gc.allclose(got, wanted)


def test_first_states_are_those_of_the_original_order():
    sequences, layer = _sequences(3), nn.LSTM(3, 4, proj_size=2, bidirectional=True, dtype=gc.float64)
    first = gc.randn(2, 3, 2, dtype=gc.float64), gc.randn(2, 3, 4, dtype=gc.float64)
    output, _ = layer(rnn.pack_sequence(sequences, enforce_sorted=False), first)
    for i, found in enumerate(rnn.unpack_sequence(output)):
        assert gc.allclose(found, layer(sequences[i], tuple(h[:, i] for h in first))[0])


def test_packed_sequences_are_converted():
    packed = rnn.pack_sequence([gc.ones(2), gc.ones(1)])
    assert packed.to("cpu") is packed
    assert not packed.is_cuda
    assert packed.double().data.dtype is gc.float64
    assert packed.half().batch_sizes.dtype is gc.int64
    assert packed.to(gc.int32).data.dtype is packed.int().data.dtype is gc.int32


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
def test_lengths_are_of_any_integer_dtype(dtype):
    x, lengths = gc.arange(360.0).reshape(120, 3), [50, 120, 90]
    narrow = gc.tensor(lengths, dtype=getattr(gc, dtype), device="cpu")
    packed = rnn.pack_padded_sequence(x, narrow, enforce_sorted=False)
    assert packed.data.tolist() == rnn.pack_padded_sequence(x, lengths, enforce_sorted=False).data.tolist()
    assert rnn.pad_packed_sequence(packed)[1].tolist() == lengths


def test_sorted_sequences_keep_no_permutation():
    packed = rnn.pack_sequence([gc.ones(3), gc.ones(3), gc.ones(1)])
    assert packed.sorted_indices is packed.unsorted_indices is None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: rnn.pack_padded_sequence(x, [2, 4, 1]), RuntimeError, "must be sorted in decreasing order"),
        (lambda x: rnn.pack_padded_sequence(x, [4, 2]), RuntimeError, r"but got 2 \(batch_size=3\)"),
        (lambda x: rnn.pack_padded_sequence(x, [4, 2, 0]), RuntimeError, "has to be greater than 0"),
        (lambda x: rnn.pack_padded_sequence(x, [5, 2, 1]), RuntimeError, "lengths of at most 4"),
        (
            lambda x: rnn.pack_padded_sequence(x, gc.tensor([[4, 2, 1]], device="cpu")),
            RuntimeError,
            "but got 2D cpu Long tensor",
        ),
        (
            lambda x: rnn.pack_padded_sequence(x[:0], gc.tensor([4], device="cpu")),
            RuntimeError,
            "Cannot pack empty tensors",
        ),
        (lambda x: rnn.pack_sequence([]), RuntimeError, "received an empty list of sequences"),
        (lambda x: rnn.pad_sequence([x], padding_side="top"), RuntimeError, "one of 'left' or 'right', but got top"),
        (
            lambda x: rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, [4, 2, 1]), total_length=3),
            ValueError,
            "total_length=3 and max sequence length being 4",
        ),
        (lambda x: rnn.PackedSequence(x, gc.tensor([1], device="meta")), ValueError, "should always be on CPU"),
        (lambda x: rnn.PackedSequence(x), ValueError, "batch_sizes must not be None"),
        (lambda x: nn.GRU(5, 2)(rnn.pack_padded_sequence(x, [4, 2, 1])), RuntimeError, "must be equal to input_size"),
    ],
)
def test_misuse(call, error, message):
    with pytest.raises(error, match=message):
        call(gc.ones(4, 3, 2))
