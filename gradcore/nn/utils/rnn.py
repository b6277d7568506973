"""Batches of sequences of different lengths, padded or packed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore import functional
from gradcore.nn import functional as F
from gradcore.nn.packing import PackedSequence, invert_permutation, pack_padded_sequence, pad_packed_sequence
from gradcore.tensor import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Return sequences stacked into one tensor, padded to the same length.

    Parameters
    ----------
    sequences : sequence of Tensor
        The sequences, whose first dims may have different sizes.
    batch_first : bool
        Whether the first dim of the result counts sequences, else steps.
    padding_value : float
        The value of the padding after (or before) a sequence.
    padding_side : {"right", "left"}

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gradcore
    >>> gradcore.nn.utils.rnn.pad_sequence([gradcore.ones(3), gradcore.ones(1)], batch_first=True)
    tensor([[1., 1., 1.],
            [1., 0., 0.]])
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of 'left' or 'right', but got {padding_side}")
    longest = max(len(s) for s in sequences)

    def pad(s: Tensor) -> Tensor:
        gap = [0, longest - len(s)] if padding_side == "right" else [longest - len(s), 0]
        return F.pad(s, [0, 0] * (s.ndim - 1) + gap, value=padding_value)

    return functional.stack([pad(s) for s in sequences], 0 if batch_first else 1)  # type: ignore[no-any-return]


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """Return the sequences that `pad_sequence` stacked.

    Parameters
    ----------
    padded_sequences : Tensor
    lengths : Tensor
        The lengths of the sequences.
    batch_first : bool
        Whether the first dim counts sequences, else steps.

    Returns
    -------
    list of Tensor

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.utils.rnn.unpad_sequence(gc.tensor([[1, 2], [3, 0]]), gc.tensor([2, 1]), batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(rows, lengths, strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Return sequences of different lengths as a `PackedSequence`.

    Parameters
    ----------
    sequences : sequence of Tensor
        The sequences, whose first dims may have different sizes.
    enforce_sorted : bool
        Whether they must come from the longest to the shortest; else they are sorted.

    Returns
    -------
    PackedSequence

    Raises
    ------
    RuntimeError
        If there are no sequences, or they are not sorted although they must be.

    Examples
    --------
    >>> import gradcore as gc
    >>> packed = gc.nn.utils.rnn.pack_sequence([gc.tensor([1, 2, 3]), gc.tensor([4, 5])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
    """
    if not len(sequences):
        raise RuntimeError("received an empty list of sequences")
    lengths = [len(each) for each in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences that `pack_sequence` packed.

    Parameters
    ----------
    packed_sequences : PackedSequence

    Returns
    -------
    list of Tensor

    Examples
    --------
    >>> import gradcore as gc
    >>> rnn = gc.nn.utils.rnn
    >>> rnn.unpack_sequence(rnn.pack_sequence([gc.tensor([1, 2, 3]), gc.tensor([4, 5])]))
    [tensor([1, 2, 3]), tensor([4, 5])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
