"""Datasets: samples accessed by index, or iterated over."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from gradcore.tensor import Tensor
from gradcore.tensor.random import Generator, randperm

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

Sample = TypeVar("Sample", covariant=True)


class Dataset(Generic[Sample]):
    """Base class of datasets whose samples are accessed by index.

    Subclasses define ``__getitem__``, and ``__len__`` if samplers need it. If there is a method ``__getitems__``, it is
    called with a list of indices and returns a list of samples.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils import data
    >>> class Squares(data.Dataset):
    ...     def __getitem__(self, i):
    ...         return i**2
    ...
    ...     def __len__(self):
    ...         return 4
    >>> Squares()[3]
    9
    """

    def __getitem__(self, index: Any) -> Sample:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Sample]):
    """Base class of datasets that are iterated over. Subclasses define ``__iter__``.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils import data
    >>> class Count(data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(3))
    >>> list(Count())
    [0, 1, 2]
    """

    def __iter__(self) -> Iterator[Sample]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


def samples_of(dataset: Any, keys: Any) -> list[Any]:
    """Return the samples with several keys, by one call of ``__getitems__`` if the dataset has it."""
    several = getattr(dataset, "__getitems__", None)
    return several(keys) if callable(several) else [dataset[key] for key in keys]


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Dataset of the rows of tensors with the same first size.

    Parameters
    ----------
    *tensors : Tensor
        Tensors with the same first size.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.utils.data import TensorDataset
    >>> TensorDataset(gradcore.tensor([[1, 2], [3, 4]]), gradcore.tensor([0, 1]))[1]
    (tensor([3, 4]), tensor(1))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(len(tensors[0]) != len(t) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class StackDataset(Dataset[Any]):
    """Dataset of samples that are tuples or dicts of the samples of several datasets.

    Parameters
    ----------
    *args : Dataset
        Datasets whose samples are combined to tuples.
    **kwargs : Dataset
        Datasets whose samples are combined to dictionaries.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils import data
    >>> data.StackDataset([1, 2], ["a", "b"])[1]
    (2, 'b')
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like input/output, but both "
                "types are given."
            )
        self.datasets: Any = args or kwargs
        if not self.datasets:
            raise ValueError("At least one dataset should be passed")
        tensors = list(args or kwargs.values())
        if any(len(d) != len(tensors[0]) for d in tensors):
            raise ValueError("Size mismatch between datasets")
        self._length = len(tensors[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Any]):
    """Concatenation of several datasets.

    Parameters
    ----------
    datasets : iterable of Dataset

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils import data
    >>> list(data.ConcatDataset([[1, 2], [3]]))
    [1, 2, 3]
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets: list[Any] = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        #: The index after the last sample of each dataset.
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        number = bisect.bisect_right(self.cumulative_sizes, index)
        start = self.cumulative_sizes[number - 1] if number else 0
        return self.datasets[number][index - start]


class ChainDataset(IterableDataset[Any]):
    """Concatenation of several iterable datasets.

    Parameters
    ----------
    datasets : iterable of IterableDataset

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils import data
    >>> class Count(data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(2))
    >>> list(data.ChainDataset([Count(), Count()]))
    [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets: Any = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        return sum(map(len, self.datasets))


class Subset(Dataset[Sample]):
    """Dataset of some samples of another dataset.

    Parameters
    ----------
    dataset : Dataset
    indices : sequence of int
        The indices of the samples in the other dataset.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils import data
    >>> list(data.Subset([10, 11, 12], [0, 2]))
    [10, 12]
    """

    def __init__(self, dataset: Dataset[Sample], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return samples_of(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[Sample], lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset[Sample]]:
    """Split a dataset at random into parts, without replacement.

    Parameters
    ----------
    dataset : Dataset
    lengths : sequence of int or float
        The lengths of the parts, or their shares of the samples. Remaining samples are distributed one by one.
    generator : Generator, optional
        The generator of random numbers, by default the default generator.

    Returns
    -------
    list of Subset

    Raises
    ------
    ValueError
        If the lengths do not add up.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils import data
    >>> [len(part) for part in data.random_split(range(10), [0.8, 0.2])]
    [8, 2]
    """
    size = len(dataset)  # type: ignore[arg-type]
    counts = list(lengths)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, share in enumerate(lengths):
            if not 0 <= share <= 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        counts = [math.floor(size * share) for share in lengths]
        for i in range(size - int(sum(counts))):
            counts[i % len(counts)] += 1
        for i, count in enumerate(counts):
            if not count:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2
                )
    if sum(counts) != size:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = randperm(size, generator=generator).tolist()
    ends = itertools.accumulate(map(int, counts))
    return [Subset(dataset, order[end - int(count) : end]) for end, count in zip(ends, counts, strict=True)]
