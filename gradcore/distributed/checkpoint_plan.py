"""Plans of checkpoints: which process writes which values, and how the index describes them.

Usually all processes have values of the same names, shapes and dtypes, and equal parts of sharded values. Each process
then computes the plan on its own, after digests of 32 bytes have confirmed this. Otherwise rank 0 collects the
descriptions, and tells each process what to write. No process receives the descriptions of the others except rank 0.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from gradcore.distributed import checks, objects

if TYPE_CHECKING:
    from gradcore.distributed.groups import ProcessGroup

__all__ = ["Index", "Value", "agree", "assign"]


@dataclass(frozen=True)
class Value:
    """Description of a value in the state dict of one process.

    Parameters
    ----------
    kind : str
        Shape and dtype of the whole.
    nbytes : int
        The memory of the value in this process.
    shape : tuple of int, optional
        The shape of the whole, of which this process has a part.
    start, length : int
        The number of the first element of the part, and of its elements, padding included.
    """

    kind: str
    nbytes: int
    shape: tuple[int, ...] | None = None
    start: int = 0
    length: int = 0

    def is_regular(self, rank: int) -> bool:
        """Return whether the part is the one that this process has if all parts have the same length."""
        return self.start == rank * self.length


@dataclass
class Index:
    """The contents of a checkpoint's index.

    Parameters
    ----------
    token : str
        Beginning of the names of the files.
    files : dict
        For each value a list of ``[rank, start]``: a file that has a part, and the number of the first element there.
    lengths : dict
        The length of the parts of each value of which all processes have equally long ones, in order.
    shapes : dict
        The shapes of values that consist of parts.
    ranks : int
        The number of files.
    """

    token: str
    files: dict[str, list[list[int]]] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, Sequence[int]] = field(default_factory=dict)
    ranks: int = 0

    def __contains__(self, name: str) -> bool:
        return name in self.files or name in self.lengths

    def file_of(self, rank: int) -> str:
        """Return the name of the file that the process `rank` has written."""
        return f"{self.token}-{rank:05d}.pt"

    def parts(self, name: str, start: int = 0, end: int | None = None) -> list[tuple[str, int]]:
        """Return files and first elements of the parts of a value that may overlap elements `start` to `end`."""
        length = self.lengths.get(name)
        if length is None:
            return [(self.file_of(rank), first) for rank, first in self.files[name] if end is None or first < end]
        if length == 0:
            return [(self.file_of(rank), 0) for rank in range(self.ranks)]
        last = self.ranks if end is None else min(self.ranks, -(-end // length))
        return [(self.file_of(rank), rank * length) for rank in range(start // length, last)]

    def names_in(self, file: str) -> set[str]:
        """Return the names of the values that have a part in a file."""
        written_names = {
            name for name, parts in self.files.items() if any(self.file_of(rank) == file for rank, _ in parts)
        }
        return written_names | set(self.lengths)

    def dump(self) -> str:
        """Return the index as text."""
        return json.dumps({"version": 3, **asdict(self)})

    @classmethod
    def parse(cls, text: str) -> Index:
        """Return the index from text. Earlier versions, in which each part has the name of its file, are supported."""
        fields = json.loads(text)
        if fields.pop("version") > 2:
            return cls(**fields)
        index = cls("", shapes=fields.get("shapes", {}))
        for name, parts in fields["files"].items():
            file_parts = [(parts, 0)] if isinstance(parts, str) else parts
            split = [(*file.removesuffix(".pt").rpartition("-"), start) for file, start in file_parts]
            index.token = split[0][0]
            index.files[name] = [[int(rank), start] for _, _, rank, start in split]
        return index


def assign(values: Mapping[str, Value], size: int) -> dict[str, int]:
    """Return the process that writes each value that all of `size` processes have: the one with the fewest bytes."""
    loads = [(0, rank) for rank in range(size)]
    owners = {}
    for name in sorted((n for n in values if values[n].shape is None), key=lambda n: (-values[n].nbytes, n)):
        load, rank = loads[0]
        owners[name] = rank
        heapq.heapreplace(loads, (load + values[name].nbytes, rank))
    return owners


def _assign_to_holders(described: Sequence[Mapping[str, Value]]) -> dict[tuple[str, int], int]:
    """Return, for each value or part, which of the processes that have it writes it.

    Values are identified by name, parts also by the index of their first element. Replicas of sharded parameters have
    equal parts.

    Raises
    ------
    ValueError
        If processes have tensors of one name and of different shapes or dtypes.
    """
    holders: dict[tuple[str, int], list[int]] = {}
    values: dict[str, Value] = {}
    for rank, each in enumerate(described):
        for name, value in each.items():
            kind = values.setdefault(name, value).kind
            if kind != value.kind:
                raise ValueError(f"{name!r} is {kind} in one process and {value.kind} in rank {rank}")
            holders.setdefault((name, value.start), []).append(rank)
    loads = [0] * len(described)
    owners = {}
    for name, start in sorted(holders, key=lambda key: (-values[key[0]].nbytes, key)):
        owner = min(holders[name, start], key=lambda rank: (loads[rank], rank))
        loads[owner] += values[name].nbytes
        owners[name, start] = owner
    return owners


def agree(values: Mapping[str, Value], token: str, group: ProcessGroup | None) -> tuple[set[str], Index]:
    """Agree on a plan with all processes of a group.

    Parameters
    ----------
    values : mapping
        The values in the state dict of this process.
    token : str
        The beginning of the names of new files. The token of rank 0 is used.
    group : ProcessGroup, optional
        None for this process alone.

    Returns
    -------
    tuple
        The names that this process writes, and the index, which may be complete in rank 0 alone.
    """
    if group is None:
        return set(values), _index_of([values], {(name, value.start): 0 for name, value in values.items()}, token)
    rank, size = group.rank(), group.size()
    regular = all(value.is_regular(rank) for value in values.values() if value.shape is not None)
    # The start of a regular part follows from the rank, and the last parts may have less than their length.
    summary = {name: (v.kind, v.nbytes, v.shape and v.length) for name, v in sorted(values.items())}
    digest = hashlib.sha256(json.dumps([summary, regular]).encode()).digest() if regular else bytes(32)
    replies = checks.gather_bytes(group, group.any_engine, digest + token.encode(), "checkpoint.save")
    token = replies[0][32:].decode()
    if regular and all(each[:32] == digest for each in replies):
        owners = assign(values, size)
        parts = {name: v for name, v in values.items() if v.shape is not None}
        index = Index(
            token,
            {name: [[owner, 0]] for name, owner in owners.items()},
            {name: v.length for name, v in parts.items()},
            {name: list(v.shape or ()) for name, v in parts.items()},
            size,
        )
        return {name for name, owner in owners.items() if owner == rank} | set(parts), index
    return _agree_by_rank_0(values, token, group)


def _agree_by_rank_0(values: Mapping[str, Value], token: str, group: ProcessGroup) -> tuple[set[str], Index]:
    """Send the descriptions of all processes to rank 0, which answers each with the names that it writes."""
    first = group.ranks[0]
    values_by_rank: list[dict[str, Value]] | None = None
    plain = {name: [v.kind, v.nbytes, v.shape, v.start, v.length] for name, v in values.items()}
    fields_by_rank: list[dict[str, list[object]]] | None = [{}] * group.size() if group.rank() == 0 else None
    objects.gather_object(plain, fields_by_rank, first, group)
    answers: list[object] | None = None
    index = None
    if fields_by_rank is not None:
        values_by_rank = [{name: Value(*fields) for name, fields in each.items()} for each in fields_by_rank]  # type: ignore[arg-type]
        try:
            owners = _assign_to_holders(values_by_rank)
        except ValueError as error:
            answers = [str(error)] * group.size()
        else:
            index = _index_of(values_by_rank, owners, token)
            shares: list[list[str]] = [[] for _ in values_by_rank]
            for (name, _), owner in owners.items():
                shares[owner].append(name)
            answers = list(shares)
    answer: list[object] = [None]
    objects.scatter_object_list(answer, answers, first, group)
    if isinstance(answer[0], str):
        raise ValueError(answer[0])
    names: list[str] = answer[0]  # type: ignore[assignment]
    return set(names), index or Index(token)


def _index_of(described: Sequence[Mapping[str, Value]], owners: Mapping[tuple[str, int], int], token: str) -> Index:
    """Return the index of the values and parts that `owners` write."""
    index = Index(token, ranks=len(described))
    for (name, start), owner in sorted(owners.items()):
        index.files.setdefault(name, []).append([owner, start])
        shape = described[owner][name].shape
        if shape is not None:
            index.shapes[name] = shape
    return index
