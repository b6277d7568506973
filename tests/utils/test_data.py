"""Datasets, samplers, batches, and the loader with and without workers."""

import threading
import time
from collections import Counter, OrderedDict, namedtuple

import numpy as np
import pytest

import gradcore as gc
from gradcore.utils import data


class Squares(data.Dataset):
    """The squares of the numbers below n."""

    def __init__(self, n):
        self.n = n

    def __getitem__(self, i):
        return i * i

    def __len__(self):
        return self.n


class Counting(data.IterableDataset):
    """The numbers below n, of which each worker gives its own."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = data.get_worker_info()
        return iter(range(self.n)) if info is None else iter(range(info.id, self.n, info.num_workers))

    def __len__(self):
        return self.n


# -- datasets ---------------------------------------------------------------------------------------------------------


def test_rows_of_tensors():
    x, y = gc.arange(6).reshape(3, 2), gc.arange(3)
    rows = data.TensorDataset(x, y)
    assert len(rows) == 3
    assert gc.equal(rows[1][0], x[1])
    assert gc.equal(rows[[0, 2]][1], y[[0, 2]])


def test_datasets_one_behind_the_other():
    both = Squares(3) + Squares(2)
    assert [both[i] for i in range(len(both))] == [0, 1, 4, 0, 1]
    assert both[-1] == 1
    assert list(Counting(2) + Counting(3)) == [0, 1, 0, 1, 2]
    assert len(Counting(2) + Counting(3)) == 5
    with pytest.raises(ValueError, match="should not exceed dataset length"):
        both[-6]


def test_datasets_side_by_side():
    assert data.StackDataset(Squares(3), [5, 6, 7])[2] == (4, 7)
    assert data.StackDataset(a=Squares(2), b="xy")[1] == {"a": 1, "b": "y"}
    assert len(data.StackDataset(a=Squares(2))) == 2


def test_parts_of_a_dataset():
    part = data.Subset(Squares(10), [7, 2])
    assert [part[0], part[1], len(part)] == [49, 4, 2]
    assert part.__getitems__([1, 0]) == [4, 49]


@pytest.mark.parametrize(("lengths", "expected"), [([3, 7], [3, 7]), ([0.3, 0.7], [3, 7]), ([1 / 3] * 3, [4, 3, 3])])
def test_random_parts(lengths, expected):
    parts = data.random_split(Squares(10), lengths, generator=gc.Generator().manual_seed(1))
    assert [len(p) for p in parts] == expected
    assert sorted(i for p in parts for i in p.indices) == list(range(10))
    again = data.random_split(Squares(10), lengths, generator=gc.Generator().manual_seed(1))
    assert [p.indices for p in parts] == [p.indices for p in again]


def test_an_empty_part_is_warned_of():
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(Squares(2), [0.9, 0.1])[1]


# -- samplers ---------------------------------------------------------------------------------------------------------


def test_orders():
    assert list(data.SequentialSampler(Squares(3))) == [0, 1, 2]
    shuffled = data.RandomSampler(Squares(50))
    first, second = list(shuffled), list(shuffled)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(50))
    assert sorted(data.SubsetRandomSampler([4, 7, 9])) == [4, 7, 9]
    assert len(shuffled) == 50


def test_samples_with_replacement_and_more_than_there_are():
    assert len(set(data.RandomSampler(Squares(50), replacement=True))) < 50
    more = list(data.RandomSampler(Squares(4), num_samples=10))
    assert len(more) == 10
    assert max(Counter(more).values()) == 3


def test_weights():
    drawn = Counter(data.WeightedRandomSampler([0.0, 1.0, 3.0], 4000))
    assert set(drawn) == {1, 2}
    assert 2.5 < drawn[2] / drawn[1] < 3.5
    assert sorted(data.WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False)) == [0, 1, 2]


@pytest.mark.parametrize(("drop", "expected"), [(False, [[0, 1], [2, 3], [4]]), (True, [[0, 1], [2, 3]])])
def test_several_at_a_time(drop, expected):
    batches = data.BatchSampler(range(5), 2, drop)
    assert list(batches) == expected
    assert len(batches) == len(expected)


# -- batches ----------------------------------------------------------------------------------------------------------


def test_batches_have_the_structure_of_samples():
    Point = namedtuple("Point", "x y")
    batch = data.default_collate([(gc.zeros(2), 1, "a", Point(1.5, True))] * 3)
    assert isinstance(batch, list)
    assert batch[0].shape == (3, 2)
    assert batch[1].tolist() == [1, 1, 1]
    assert batch[2] == ("a", "a", "a")
    assert isinstance(batch[3], Point)
    assert (batch[3].x.dtype, batch[3].y.dtype) == (gc.float64, gc.bool)
    mapping = data.default_collate([OrderedDict(a=np.float32(1.0), b=np.ones(2))] * 2)
    assert type(mapping) is OrderedDict
    assert (mapping["a"].dtype, mapping["b"].shape) == (gc.float32, (2, 2))


def test_conversion_leaves_what_is_no_array():
    found = data.default_convert({"a": np.ones(2), "b": ["x", 3]})
    assert gc.equal(found["a"], gc.ones(2, dtype=gc.float64))
    assert found["b"] == ["x", 3]


def test_classes_have_their_own_collation(monkeypatch):
    """Packages enter their classes in PyTorch's table; subclasses use the entry of the base."""
    from gradcore.utils.data._utils.collate import collate, default_collate_fn_map

    class Mesh:
        pass

    class Finer(Mesh):
        pass

    monkeypatch.setitem(default_collate_fn_map, Mesh, lambda batch, collate_fn_map: f"{len(batch)} meshes")
    assert data.default_collate([(Mesh(), "a"), (Finer(), "b")]) == ["2 meshes", ("a", "b")]
    assert data.default_collate([{"m": Finer()}] * 3) == {"m": "3 meshes"}
    assert collate([(1, 2), (3, 4)], collate_fn_map={int: lambda batch, collate_fn_map: sum(batch)}) == [4, 6]
    with pytest.raises(TypeError, match="must contain tensors"):
        collate([1, 2])


def test_gradients_flow_through_batches():
    x = gc.ones(3, 2, requires_grad=True)
    batch = data.default_collate([x[0], x[2]])
    batch.sum().backward()
    assert x.grad.sum(1).tolist() == [2.0, 0.0, 2.0]


# -- the loader -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_come_in_their_order(workers):
    loader = data.DataLoader(Squares(10), batch_size=4, num_workers=workers)
    assert [b.tolist() for b in loader] == [[0, 1, 4, 9], [16, 25, 36, 49], [64, 81]]
    assert len(loader) == 3
    dropped = data.DataLoader(Squares(10), batch_size=4, drop_last=True, num_workers=workers)
    assert len(list(dropped)) == len(dropped) == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_one_by_one(workers):
    loader = data.DataLoader(Squares(3), batch_size=None, num_workers=workers)
    assert list(loader) == [0, 1, 4]
    assert len(loader) == 3


@pytest.mark.parametrize("workers", [0, 2])
def test_shuffled(workers):
    loader = data.DataLoader(Squares(20), 5, shuffle=True, num_workers=workers)
    first, second = ([v for b in loader for v in b.tolist()] for _ in range(2))
    assert first != second
    assert sorted(first) == [i * i for i in range(20)]
    orders = [
        [b.tolist() for b in data.DataLoader(Squares(20), 5, True, generator=gc.Generator().manual_seed(3))]
        for _ in range(2)
    ]
    assert orders[0] == orders[1]


def test_orders_of_ones_own():
    assert [b.tolist() for b in data.DataLoader(Squares(5), 2, sampler=[4, 0, 1])] == [[16, 0], [1]]
    loader = data.DataLoader(Squares(5), batch_sampler=[[0, 4], [1]], collate_fn=tuple)
    assert list(loader) == [(0, 16), (1,)]


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_iterable_datasets(workers):
    loader = data.DataLoader(Counting(10), batch_size=2, num_workers=workers)
    batches = [b.tolist() for b in loader]
    assert sorted(v for b in batches for v in b) == list(range(10))
    assert len(loader) == 5
    if workers == 2:
        assert batches == [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]
    assert sorted(data.DataLoader(Counting(5), None, num_workers=workers)) == list(range(5))


def test_workers_are_threads_that_know_their_number():
    class Who(Squares):
        def __getitem__(self, i):
            info = data.get_worker_info()
            return info.id, info.num_workers, info.seed, info.dataset is self, threading.get_ident()

    started = []
    loader = data.DataLoader(Who(6), None, num_workers=2, worker_init_fn=started.append, collate_fn=lambda x: x)
    found = list(loader)
    assert [f[0] for f in found] == [0, 1, 0, 1, 0, 1]
    assert all(f[1] == 2 and f[3] for f in found)
    assert found[1][2] == found[0][2] + 1
    assert len({f[4] for f in found} | {threading.get_ident()}) == 3
    assert sorted(started) == [0, 1]
    assert data.get_worker_info() is None


def test_workers_that_stay():
    started = []
    loader = data.DataLoader(Squares(4), num_workers=1, worker_init_fn=started.append, persistent_workers=True)
    assert list(map(int, loader)) == list(map(int, loader)) == [0, 1, 4, 9]
    assert started == [0]
    loader._workers.stop()


class Augmented(Squares):
    """Its samples are random."""

    def __getitem__(self, i):
        return i * i + gc.rand(())


class AugmentedOnes(Counting):
    def __iter__(self):
        return (i + gc.rand(()) for i in super().__iter__())


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("dataset", [Augmented(24), AugmentedOnes(24)])
@pytest.mark.parametrize("options", [{}, {"prefetch_factor": 5}, {"persistent_workers": True}], ids=str)
def test_random_samples_depend_on_the_seed_alone(workers, dataset, options):
    """Workers draw from streams of their own, whatever is drawn meanwhile and however long they take."""

    def run(seed, pause):
        gc.manual_seed(seed)
        loader = data.DataLoader(dataset, 3, num_workers=workers, **options)
        found = []
        for _ in range(2):
            for batch in loader:
                time.sleep(pause)
                found.append((batch.tolist(), gc.rand(2).tolist()))
        return found

    first = run(0, 0)
    assert run(0, 0.001) == first
    assert run(1, 0) != first
    values = [value for batch, _ in first for value in batch]
    assert len({value % 1 for value in values}) > 40  # no two workers draw the same


def test_workers_are_seeded_and_may_seed_themselves():
    def draw(init, generator=None):
        loader = data.DataLoader(Augmented(4), None, num_workers=2, worker_init_fn=init, generator=generator)
        return [float(value) for value in loader]

    first = draw(lambda number: gc.manual_seed(7))
    assert first[1] - 1 == pytest.approx(first[0])  # the first sample of each worker
    assert draw(lambda number: gc.manual_seed(7)) == first
    seeds = []
    draw(lambda number: seeds.append((data.get_worker_info().seed, gc.initial_seed())))
    assert all(a == b for a, b in seeds)
    assert seeds[0] != seeds[1]
    by_generator = [draw(None, gc.Generator().manual_seed(3)) for _ in range(2)]
    assert by_generator[0] == by_generator[1]


def test_batches_are_made_ahead_and_no_further():
    class Noting(Squares):
        seen = ()

        def __getitem__(self, i):
            self.seen = (*self.seen, i)
            return i

    dataset = Noting(100)
    batches = iter(data.DataLoader(dataset, num_workers=1, prefetch_factor=3))
    next(batches)
    time.sleep(0.1)
    assert 1 <= len(dataset.seen) <= 4
    batches.close()
    assert len(dataset.seen) <= 5


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_a_dataset_arrive(workers):
    class Broken(Squares):
        def __getitem__(self, i):
            if i == 3:
                raise KeyError("on purpose")
            return i

    with pytest.raises(KeyError, match="on purpose"):
        list(data.DataLoader(Broken(6), num_workers=workers))


def test_slow_workers_time_out():
    end = threading.Event()

    class Slow(Squares):
        def __getitem__(self, i):
            end.wait(60)
            return i

    try:
        with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0.05 seconds"):
            list(data.DataLoader(Slow(2), num_workers=1, timeout=0.05))
    finally:
        end.set()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: data.TensorDataset(gc.ones(2), gc.ones(3)), AssertionError, "Size mismatch between tensors"),
        (lambda s: data.StackDataset(), ValueError, "At least one dataset"),
        (lambda s: data.StackDataset(s, [1]), ValueError, "Size mismatch between datasets"),
        (lambda s: data.ConcatDataset([]), AssertionError, "should not be an empty iterable"),
        (lambda s: data.ConcatDataset([Counting(1)]), AssertionError, "does not support IterableDataset"),
        (lambda s: list(data.ChainDataset([s])), AssertionError, "only supports IterableDataset"),
        (lambda s: data.Dataset()[0], NotImplementedError, "should implement __getitem__"),
        (lambda s: data.random_split(s, [1, 2]), ValueError, "Sum of input lengths does not equal"),
        (lambda s: data.RandomSampler(s, num_samples=0), ValueError, "num_samples should be a positive integer"),
        (lambda s: data.RandomSampler(s, replacement=3), TypeError, "replacement should be a boolean value"),
        (lambda s: data.WeightedRandomSampler([[1.0]], 1), ValueError, "weights should be a 1d sequence"),
        (lambda s: data.BatchSampler([1], 0, False), ValueError, "batch_size should be a positive integer value"),
        (lambda s: data.BatchSampler([1], 1, 3), ValueError, "drop_last should be a boolean value"),
        (lambda s: data.StackDataset(s, x=s), ValueError, "but both types are given"),
        (lambda s: data.random_split(s, [1.5, -0.5]), ValueError, "Fraction at index 0 is not between 0 and 1"),
        (lambda s: iter(data.IterableDataset()), NotImplementedError, "should implement __iter__"),
        (lambda s: data.default_collate([np.array("a")]), TypeError, "must contain tensors, numpy arrays, numbers"),
        (lambda s: data.default_collate([object()]), TypeError, "must contain tensors, numpy arrays, numbers"),
        (lambda s: data.default_collate([[1, 2], [1]]), RuntimeError, "should be of equal size"),
        (lambda s: data.DataLoader(s, 0), ValueError, "batch_size should be a positive integer value"),
        (lambda s: data.DataLoader(s, 2, True, [0]), ValueError, "mutually exclusive with shuffle"),
        (lambda s: data.DataLoader(s, 2, batch_sampler=[[0]]), ValueError, "mutually exclusive with batch_size"),
        (lambda s: data.DataLoader(s, None, drop_last=True), ValueError, "mutually exclusive with drop_last"),
        (lambda s: data.DataLoader(s, num_workers=-1), ValueError, "num_workers option should be non-negative"),
        (lambda s: data.DataLoader(s, timeout=-1), ValueError, "timeout option should be non-negative"),
        (lambda s: data.DataLoader(s, prefetch_factor=2), ValueError, "prefetch_factor option could only"),
        (lambda s: data.DataLoader(s, num_workers=1, prefetch_factor=-1), ValueError, "should be non-negative"),
        (lambda s: data.DataLoader(s, persistent_workers=True), ValueError, "needs num_workers > 0"),
        (lambda s: data.DataLoader(Counting(3), shuffle=True), ValueError, "expected unspecified shuffle option"),
        (lambda s: setattr(data.DataLoader(s), "batch_size", 3), ValueError, "should not be set after DataLoader"),
    ],
)  # fmt: skip
def test_misuse(call, error, message):
    with pytest.raises(error, match=message):
        call(Squares(4))


@pytest.mark.parametrize(
    "named",
    [
        {"generator": "a"},
        {"generator": 3},
        {"num_workers": "a"},
        {"timeout": "a"},
        {"pin_memory": "a"},
        {"shuffle": []},
    ],
)
def test_arguments_that_mean_nothing(named):
    (name,) = named
    with pytest.raises(TypeError, match=name):
        data.DataLoader([1, 2], **named)


def test_generators_of_samplers():
    for make in (
        lambda: data.RandomSampler([1], generator="a"),
        lambda: data.SubsetRandomSampler([0], generator=3),
        lambda: data.WeightedRandomSampler([1.0], 1, generator=[]),
    ):
        with pytest.raises(TypeError, match="generator"):
            make()
