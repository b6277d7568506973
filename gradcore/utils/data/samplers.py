"""Samplers, which determine the order of the samples of a dataset."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from gradcore.core.dtypes import float64
from gradcore.dispatch.settings import constructor
from gradcore.tensor.creation import as_tensor
from gradcore.tensor.random import Generator, multinomial, randint, randperm

__all__ = [
    "BatchSampler",
    "DistributedSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

Key = TypeVar("Key", covariant=True)
#: The number of independent random indices that a sampler draws at a time.
_AT_A_TIME = 1024


class Sampler(Generic[Key]):
    """Base class of samplers. Subclasses define ``__iter__`` and may define ``__len__``.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils import data
    >>> class Reversed(data.Sampler):
    ...     def __init__(self, source):
    ...         self.source = source
    ...
    ...     def __iter__(self):
    ...         return iter(range(len(self.source) - 1, -1, -1))
    >>> list(Reversed("abc"))
    [2, 1, 0]
    """

    def __iter__(self) -> Iterator[Key]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """Sampler of the indices in order.

    Parameters
    ----------
    data_source : Dataset

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils import data
    >>> list(data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


def _check_count(count: Any) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count <= 0:
        raise ValueError(f"num_samples should be a positive integer value, but got num_samples={count}")


def _check_replacement(replacement: Any) -> None:
    if not isinstance(replacement, bool):
        raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")


def check_generator(generator: Any) -> None:
    """Raise an error unless the argument is a generator or None."""
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(f"generator must be a gradcore.Generator or None, not {type(generator).__name__}")


class RandomSampler(Sampler[int]):
    """Sampler of the indices in random order, which changes with each pass.

    Parameters
    ----------
    data_source : Dataset
    replacement : bool
        Whether a sample may come again before all have come.
    num_samples : int, optional
        The number of samples to draw; by default the length of the dataset.
    generator : Generator, optional
        The generator of random numbers, by default the default generator.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils import data
    >>> sorted(data.RandomSampler(range(4)))
    [0, 1, 2, 3]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        check_generator(generator)
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        _check_replacement(replacement)
        _check_count(self.num_samples)

    @property
    def num_samples(self) -> int:
        """Number of samples drawn."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, count = len(self.data_source), self.num_samples
        if self.replacement:
            yield from self._with_replacement(n, count)
            return
        while count > 0:
            yield from randperm(n, generator=self.generator).tolist()[:count]
            count -= n

    def _with_replacement(self, n: int, count: int) -> Iterator[int]:
        """Yield random indices, drawn a few at a time. Other draws in between do not change them."""
        generator = self.generator
        if generator is None:
            generator = Generator().manual_seed(int(randint(2**63 - 1, ())))
        for start in range(0, count, _AT_A_TIME):
            yield from randint(n, (min(_AT_A_TIME, count - start),), generator=generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Sampler of given indices in random order.

    Parameters
    ----------
    indices : sequence of int
    generator : Generator, optional
        The generator of random numbers, by default the default generator.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils import data
    >>> sorted(data.SubsetRandomSampler([3, 5]))
    [3, 5]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        check_generator(generator)
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for i in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Sampler of indices with probabilities proportional to weights.

    Parameters
    ----------
    weights : sequence of float
        One for each sample; they need not sum to 1.
    num_samples : int
        The number of samples to draw.
    replacement : bool
        Whether a sample may come again.
    generator : Generator, optional
        The generator of random numbers, by default the default generator.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils import data
    >>> list(data.WeightedRandomSampler([0.0, 1.0], 3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        check_generator(generator)
        _check_count(num_samples)
        _check_replacement(replacement)
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.ndim != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class DistributedSampler(Sampler[int]):
    """Sampler of the indices for one of several processes, which get every n-th index.

    Parameters
    ----------
    dataset : Dataset
    num_replicas : int, optional
        The number of processes, by default that of the default group of `gradcore.distributed`.
    rank : int, optional
        The rank of this process, by default its rank in `gradcore.distributed`.
    shuffle : bool
        Whether the order is random. It depends on `seed` and on the epoch, and is the same in all processes.
    seed : int
    drop_last : bool
        Whether samples at the end are left out, so that each process has equally many; else some come twice.

    Examples
    --------
    >>> from gradcore.utils.data import DistributedSampler
    >>> [list(DistributedSampler(range(5), num_replicas=2, rank=rank, shuffle=False)) for rank in (0, 1)]
    [[0, 2, 4], [1, 3, 0]]

    The rest of an epoch of which two processes have used two samples each, for one process:

    >>> rest = DistributedSampler(range(5), num_replicas=1, rank=0, shuffle=False)
    >>> rest.set_epoch(0, start=4)
    >>> list(rest)
    [4]
    """

    @constructor
    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        from gradcore.distributed import groups

        self.num_replicas = groups.get_world_size() if num_replicas is None else num_replicas
        self.rank = groups.get_rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {self.num_replicas - 1}]")
        self.dataset, self.shuffle, self.seed, self.drop_last, self.epoch = dataset, shuffle, seed, drop_last, 0
        self.start = 0

    @property
    def num_samples(self) -> int:
        """Number of samples of each process."""
        return count_batches(max(0, len(self.dataset) - self.start), self.num_replicas, self.drop_last)

    @property
    def total_size(self) -> int:
        """Number of samples of all processes together."""
        return self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        order = list(range(len(self.dataset)))
        if self.shuffle:
            order = randperm(len(order), generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
        padded = itertools.islice(itertools.cycle(order[self.start :]), self.total_size)
        return itertools.islice(padded, self.rank, None, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Set the epoch, which determines the random order of the next pass.

        Parameters
        ----------
        epoch : int
        start : int
            How many samples of the epoch all processes together have used already. The pass shares out the rest, so a
            job can continue within an epoch with another number of processes.
        """
        if start < 0:
            raise ValueError(f"start must be a number of samples, not {start}")
        self.epoch, self.start = epoch, start


class BatchSampler(Sampler[list[int]]):
    """Sampler of batches of the keys of another sampler.

    Parameters
    ----------
    sampler : Sampler or iterable
    batch_size : int
    drop_last : bool
        Whether a last batch that is not full is left out.

    Examples
    --------
    >>> from gradcore.utils.data import BatchSampler, SequentialSampler
    >>> list(BatchSampler(SequentialSampler(range(5)), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if batch_size != int(batch_size) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if drop_last not in (True, False):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler: Any = sampler
        self.batch_size, self.drop_last = batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        keys = iter(self.sampler)
        while batch := list(itertools.islice(keys, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        return count_batches(len(self.sampler), self.batch_size, self.drop_last)


def count_batches(samples: int, batch_size: int, drop_last: bool) -> int:
    """Return the number of batches for a number of samples."""
    return samples // batch_size if drop_last else -(-samples // batch_size)
