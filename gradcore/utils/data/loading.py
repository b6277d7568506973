"""The data loader, which yields batches of a dataset, loaded by this thread or by workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from gradcore import cuda
from gradcore.core.errors import warn
from gradcore.dispatch.settings import constructor
from gradcore.tensor import Tensor
from gradcore.tensor.random import Generator, randint
from gradcore.utils._pytree import tree_map
from gradcore.utils.data.collation import default_collate, default_convert
from gradcore.utils.data.datasets import IterableDataset, samples_of
from gradcore.utils.data.samplers import BatchSampler, RandomSampler, SequentialSampler, check_generator, count_batches
from gradcore.utils.data.workers import END, PATIENCE, Workers

__all__ = ["DataLoader"]

#: Attributes that cannot be changed once a loader has been made.
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader:
    """Iterable over the batches of a dataset.

    Parameters
    ----------
    dataset : Dataset
        Samples by number, or an `IterableDataset`.
    batch_size : int or None
        Samples of a batch; None for samples one by one, as the dataset gives them.
    shuffle : bool, optional
        Whether samples come in a random order, another one each time.
    sampler : Sampler or iterable, optional
        The order of samples.
    batch_sampler : Sampler or iterable, optional
        Lists of the numbers of a batch's samples.
    num_workers : int
        How many threads make batches ahead; 0 for none. In each, random numbers of gradcore come from a stream of its
        own, whose seed is drawn by `generator`: equal seeds give equal batches, whatever the program draws meanwhile.
        (Those of NumPy and `random` belong to the process: make a generator of them from ``get_worker_info().seed``.)
    collate_fn : callable, optional
        Makes a batch of a list of samples; by default `default_collate`.
    pin_memory : bool
        Whether the tensors of batches are copied to page-locked memory, where there is CUDA.
    drop_last : bool
        Whether a last batch that is not full is left out.
    timeout : float
        Seconds to wait for a worker; 0 stands for no limit (except Ctrl-C). A worker that does not return ends
        with the process.
    worker_init_fn : callable, optional
        Called with the number of each worker in its thread.
    multiprocessing_context
        Ignored: workers are threads.
    generator : Generator, optional
        For `shuffle`, and for the workers' seeds; by default the default generator.
    prefetch_factor : int, optional
        Batches that each worker makes ahead, 2 by default.
    persistent_workers : bool
        Whether workers continue to exist from one pass through the dataset to the next.
    pin_memory_device : str
        Ignored.
    in_order : bool
        Ignored: batches always come in their order.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.utils.data import DataLoader, TensorDataset
    >>> dataset = TensorDataset(gradcore.arange(5), gradcore.arange(5) ** 2)
    >>> for x, y in DataLoader(dataset, batch_size=2):
    ...     print(x, y)
    tensor([0, 1]) tensor([0, 1])
    tensor([2, 3]) tensor([4, 9])
    tensor([4]) tensor([16])
    """

    _made = False

    @constructor
    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool | None = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool | None = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        check_generator(generator)
        self._check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self._iterable = isinstance(dataset, IterableDataset)
        self._check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size = None
        if sampler is None and not self._iterable:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None:
            source = itertools.count() if self._iterable else sampler
            batch_sampler = BatchSampler(source, batch_size, drop_last)
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.sampler, self.batch_sampler, self.generator = sampler, batch_sampler, generator
        self.num_workers, self.timeout, self.worker_init_fn = num_workers, timeout, worker_init_fn
        self.prefetch_factor, self.persistent_workers = prefetch_factor, persistent_workers
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.multiprocessing_context, self.in_order = multiprocessing_context, in_order
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self._workers: Workers | None = None
        self._made = True

    @staticmethod
    def _check_workers(count: int, timeout: float, ahead: int | None, persistent: bool | None) -> None:
        if count < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if not count and ahead is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
                "multiprocessing, otherwise set prefetch_factor to None."
            )
        if ahead is not None and ahead < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent and not count:
            raise ValueError("persistent_workers option needs num_workers > 0")

    def _check_order(
        self, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        if self._iterable:
            arguments = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
            for name, value in arguments.items():
                if value is not None:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                    )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")

    def __setattr__(self, name: str, value: Any) -> None:
        if self._made and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._keys)
        samples = len(self.dataset)
        if self.batch_size is None:
            return samples
        return count_batches(samples, self.batch_size, self.drop_last)

    @property
    def _keys(self) -> Any:
        """Return the keys of samples, or the lists of keys of batches, in order."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        batches = self._with_workers() if self.num_workers else self._here()
        if self.pin_memory and not cuda.is_available():
            warn("'pin_memory' argument is set as true but no accelerator is found: memory will not be pinned.")
        return map(_pin, batches) if self.pin_memory and cuda.is_available() else batches

    # -- without workers -------------------------------------------------------------------------------------

    def _here(self) -> Iterator[Any]:
        if not self._iterable:
            for keys in self._keys:
                yield self._fetch(keys)
            return
        samples = iter(self.dataset)
        while (batch := self._next_of(samples)) is not END:
            yield batch

    def _fetch(self, keys: Any) -> Any:
        """Return the batch with these keys, or the sample with this key."""
        if self.batch_sampler is None:
            return self.collate_fn(self.dataset[keys])
        return self.collate_fn(samples_of(self.dataset, keys))

    def _next_of(self, samples: Iterator[Any]) -> Any:
        """Return the next batch, or sample, of an iterable dataset, or `END`."""
        if self.batch_size is None:
            sample = next(samples, END)
            return sample if sample is END else self.collate_fn(sample)
        batch = list(itertools.islice(samples, self.batch_size))
        if not batch or (self.drop_last and len(batch) < self.batch_size):
            return END
        return self.collate_fn(batch)

    # -- with workers ----------------------------------------------------------------------------------------

    def _with_workers(self) -> Iterator[Any]:
        workers = self._workers
        if workers is None:
            seed = int(randint(2**62, (), generator=self.generator))
            workers = Workers(self.dataset, self.num_workers, self.worker_init_fn, seed)
            if self.persistent_workers:
                self._workers = workers
        ahead = self.num_workers * (2 if self.prefetch_factor is None else max(1, self.prefetch_factor))
        try:
            yield from workers.run(self._tasks(), ahead, self.timeout)
        except GeneratorExit:
            pass
        except BaseException:  # do not wait again for a worker that has timed out
            self._workers = None
            workers.stop()
            raise
        if workers is not self._workers:
            workers.stop(PATIENCE)

    def _tasks(self) -> Iterator[Callable[[int], Any]]:
        """Yield the workers' tasks, each called with the worker's number."""
        if not self._iterable:
            for keys in self._keys:
                yield lambda number, keys=keys: self._fetch(keys)  # type: ignore[misc]
            return
        samples: dict[int, Iterator[Any]] = {}

        def following(number: int) -> Any:
            if number not in samples:
                samples[number] = iter(self.dataset)
            return self._next_of(samples[number])

        while True:
            yield following


def _pin(batch: Any) -> Any:
    return tree_map(lambda value: value.pin_memory() if isinstance(value, Tensor) else value, batch)
