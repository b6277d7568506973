"""Packed sequences of different lengths, on which recurrent layers compute without padding."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from gradcore.core import dtypes
from gradcore.tensor import Tensor
from gradcore.tensor.creation import arange, empty_like, full, tensor

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pad_packed_sequence"]


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """Sequences of different lengths, stored step by step: all first steps, then all second steps, and so on.

    `pack_padded_sequence` and `pack_sequence` create it; recurrent layers take and return it.

    Parameters
    ----------
    data : Tensor
        All steps. The longest sequence comes first in each step.
    batch_sizes : Tensor
        The number of sequences that have a first step, a second step, and so on; int64, on the CPU.
    sorted_indices : Tensor, optional
        The original indices of the sequences by decreasing length, or None if they were sorted already.
    unsorted_indices : Tensor, optional
        The inverse of that permutation.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.nn.utils.rnn import pack_sequence
    >>> packed = pack_sequence([gradcore.tensor([1, 2, 3]), gradcore.tensor([4])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if batch_sizes is None:
            raise ValueError("batch_sizes must not be None: make packed sequences with pack_padded_sequence")
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn."
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return the packed sequence with its data and permutations converted as by `Tensor.to`."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        moved = [None if each is None else each.to(data.device) for each in self[2:]]
        return type(self)(data, self.batch_sizes, *moved)

    def cpu(self) -> PackedSequence:
        """Return the packed sequence on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = "cuda") -> PackedSequence:
        """Return the packed sequence on a CUDA device."""
        return self.to(device)

    def double(self) -> PackedSequence:
        """Return the packed sequence in float64."""
        return self.to(dtypes.float64)

    def float(self) -> PackedSequence:
        """Return the packed sequence in float32."""
        return self.to(dtypes.float32)

    def half(self) -> PackedSequence:
        """Return the packed sequence in float16."""
        return self.to(dtypes.float16)

    def long(self) -> PackedSequence:
        """Return the packed sequence in int64."""
        return self.to(dtypes.int64)

    def int(self) -> PackedSequence:
        """Return the packed sequence in int32."""
        return self.to(dtypes.int32)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the inverse of a permutation, or None for None.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.utils.rnn.invert_permutation(gc.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    out = empty_like(permutation)
    out[permutation] = arange(len(permutation), dtype=permutation.dtype, device=permutation.device)
    return out


def _positions(batch_sizes: np.ndarray[Any, Any], batch: int) -> np.ndarray[Any, Any]:
    """Return, for each packed step in order, its position among the steps of the padded sequences."""
    return np.concatenate([step * batch + np.arange(n) for step, n in enumerate(batch_sizes)])


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Return padded sequences as a `PackedSequence`, without the padding.

    Parameters
    ----------
    input : Tensor
        The padded sequences: dims of steps, sequences and others; sequences come first if `batch_first`.
    lengths : Tensor or sequence of int
        The lengths of the sequences, on the CPU.
    batch_first : bool
        Whether the first dim of `input` counts sequences, else steps.
    enforce_sorted : bool
        Whether sequences must come from the longest to the shortest; else they are sorted.

    Returns
    -------
    PackedSequence

    Raises
    ------
    RuntimeError
        If the lengths do not fit.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.nn.utils.rnn import pack_padded_sequence
    >>> padded = gradcore.tensor([[1, 0, 0], [4, 5, 6]])
    >>> pack_padded_sequence(padded, [1, 3], batch_first=True, enforce_sorted=False).data
    tensor([4, 1, 5, 6])
    """
    if not isinstance(lengths, Tensor):
        lengths = tensor(lengths, dtype=dtypes.int64, device="cpu")
    elif lengths.dtype.category == dtypes.INTEGER:
        lengths = lengths.to(dtypes.int64)
    if lengths.ndim != 1 or lengths.device.type != "cpu" or lengths.dtype != dtypes.int64:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.ndim}D {lengths.device.type} "
            f"{lengths.dtype.scalar_name} tensor"
        )
    order = None
    if not enforce_sorted:
        lengths, order = lengths.sort(descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    steps = input.transpose(0, 1) if batch_first else input
    if not steps.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    counts = lengths.numpy()
    _check_lengths(counts, steps.shape[1])
    sizes = (counts > np.arange(counts[0])[:, None]).sum(axis=1)
    if len(sizes) > len(steps):
        raise RuntimeError(f"Expected lengths of at most {len(steps)}, the number of steps, but got {len(sizes)}")
    flat = steps.flatten(0, 1)
    data = flat.index_select(0, tensor(_positions(sizes, steps.shape[1]), device=input.device))
    return PackedSequence(data, tensor(sizes, device="cpu"), order)


def _check_lengths(lengths: np.ndarray[Any, Any], batch: int) -> None:
    if len(lengths) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} (batch_size={batch})"
        )
    if (lengths <= 0).any():
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if (lengths[1:] > lengths[:-1]).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement."
        )


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return a `PackedSequence` as padded sequences, and their lengths.

    Parameters
    ----------
    sequence : PackedSequence
    batch_first : bool
        Whether the first dim of the result counts sequences, else steps.
    padding_value : float
        The value of the padding after a sequence.
    total_length : int, optional
        The number of steps of the result, by default the length of the longest sequence.

    Returns
    -------
    padded : Tensor
    lengths : Tensor
        The lengths of the sequences.

    Raises
    ------
    ValueError
        If a sequence is longer than `total_length`.

    Examples
    --------
    >>> import gradcore as gc
    >>> rnn = gc.nn.utils.rnn
    >>> rnn.pad_packed_sequence(rnn.pack_sequence([gc.tensor([1, 2, 3]), gc.tensor([4, 5])]), batch_first=True)
    (tensor([[1, 2, 3],
            [4, 5, 0]]), tensor([3, 2]))
    """
    data, batch_sizes, _, unsorted = sequence
    sizes = batch_sizes.numpy()
    steps, batch = len(sizes), int(sizes[0])
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    empty = full((steps * batch, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    padded = empty.index_copy(0, tensor(_positions(sizes, batch), device=data.device), data)
    padded = padded.unflatten(0, (steps, batch))
    lengths = tensor((sizes > np.arange(batch)[:, None]).sum(axis=1), device="cpu")
    if unsorted is not None:
        padded, lengths = padded.index_select(1, unsorted), lengths[unsorted.cpu()]
    return padded.transpose(0, 1) if batch_first else padded, lengths
