"""Checkpoints that all processes write and read together, with any number of processes.

A checkpoint is a folder: one file of each process, and an index, which says where everything is. Files have new names
in each checkpoint, and the index is replaced at the end, in one operation of the file system: until then the one before
holds, whatever happens to a process.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from gradcore.autograd.grad_mode import no_grad
from gradcore.distributed import collectives, groups, objects
from gradcore.serialization import load as read
from gradcore.serialization import save as write
from gradcore.tensor import Tensor
from gradcore.torch_names import paths

__all__ = ["Shard", "load", "save"]

_INDEX = "index.json"


@dataclass
class Shard:
    """A part of a tensor, of which other processes have the rest.

    Parameters
    ----------
    tensor : Tensor
        Elements of the whole in a row, with one dim; those beyond its end are padding.
    shape : tuple of int
        The shape of the whole.
    start : int
        The number of the first element in the whole.
    """

    tensor: Tensor
    shape: tuple[int, ...]
    start: int

    @property
    def values(self) -> Tensor:
        """The elements without the padding."""
        return self.tensor[: max(0, math.prod(self.shape) - self.start)]


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any, Any, Any]]:
    """The leaves of nested dicts and lists: name, value, the container, and the key there."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        name = (*path, str(key))
        if isinstance(inner, (dict, list)) and inner:
            yield from _leaves(inner, name)
        else:
            yield "/".join(name), inner, value, key


def _text(value: Any) -> str:
    if isinstance(value, Shard):
        return f"{tuple(value.shape)} {value.tensor.dtype.name}"
    return f"{tuple(value.shape)} {value.dtype.name}" if isinstance(value, Tensor) else "object"


def save(state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str], process_group: Any = None) -> None:
    """Write a checkpoint. All processes make this call.

    What several processes have is written by one of them, the bytes shared among all; what only one has, such as its
    share of an optimiser's state, and each `Shard`, by that one.

    Parameters
    ----------
    state_dict : dict
        Nested dicts and lists of tensors, and of what `gradcore.save` writes.
    checkpoint_id : path
        A folder, which all processes see. A checkpoint that is there is replaced at the end.
    process_group : ProcessGroup, optional
        By default the world; without `gradcore.distributed.init_process_group`, this process.

    Raises
    ------
    ValueError
        If processes have tensors of one name and of different shapes or dtypes.

    Examples
    --------
    >>> import gradcore as gc
    >>> import tempfile
    >>> from gradcore.distributed import checkpoint
    >>> folder = tempfile.TemporaryDirectory()
    >>> net = gc.nn.Linear(2, 1)
    >>> checkpoint.save({"model": net.state_dict(), "epoch": 3}, checkpoint_id=folder.name)
    >>> state = {"model": gc.nn.Linear(2, 1).state_dict(), "epoch": 0}
    >>> checkpoint.load(state, checkpoint_id=folder.name)
    >>> state["epoch"], gc.equal(state["model"]["weight"], net.weight)
    (3, True)
    >>> folder.cleanup()
    """
    group = groups.find(process_group) if groups.is_initialized() else None
    rank, size = (0, 1) if group is None else (group.rank(), group.size())
    folder = Path(checkpoint_id)
    folder.mkdir(parents=True, exist_ok=True)
    mine = {name: value for name, value, _, _ in _leaves(state_dict)}
    described = [(name, _text(v), v.nbytes if isinstance(v, Tensor) else 0) for name, v in mine.items()]
    spans = {name: (v.start, v.values.numel()) for name, v in mine.items() if isinstance(v, Shard)}
    plan = _plan(_gathered(described, group, size))
    parts = _gathered(spans, group, size)
    token = _gathered(uuid4().hex if rank == 0 else "", group, size)[0]
    file = f"{token}-{rank:05d}.pt"
    whole = {name: mine[name] for name, owner in plan.items() if owner == rank and name not in spans}
    _write(folder / file, {**whole, **{name: mine[name].values.clone() for name in spans}})
    if group is not None:
        collectives.barrier(group)  # all files are whole
    if rank == 0:
        entries: dict[str, list[Any]] = {name: [[f"{token}-{owner:05d}.pt", 0]] for name, owner in plan.items()}
        shapes = {name: v.shape for name, v in mine.items() if isinstance(v, Shard)}
        for name in shapes:
            having = [(owner, found[name][0]) for owner, found in enumerate(parts) if name in found]
            entries[name] = [[f"{token}-{owner:05d}.pt", start] for owner, start in having]
        part = folder / f"{token}.part"
        with part.open("w") as stream:
            json.dump({"version": 2, "files": entries, "shapes": shapes}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(folder / _INDEX)
        for old in folder.iterdir():
            if old.suffix in (".pt", ".part") and not old.name.startswith(token):
                old.unlink(missing_ok=True)
    if group is not None:
        collectives.barrier(group)


def _gathered(value: Any, group: Any, size: int) -> list[Any]:
    found = [value] * size
    if group is not None:
        objects.all_gather_object(found, value, group)
    return found


def _plan(described: list[list[tuple[str, str, int]]]) -> dict[str, int]:
    """Which process writes what: of those that have it, the one with the fewest bytes so far."""
    holders: dict[str, list[int]] = {}
    kinds: dict[str, tuple[str, int]] = {}
    for rank, each in enumerate(described):
        for name, kind, nbytes in each:
            if kinds.setdefault(name, (kind, nbytes))[0] != kind:
                raise ValueError(f"{name!r} is {kinds[name][0]} in one process and {kind} in rank {rank}")
            holders.setdefault(name, []).append(rank)
    loads = [0] * len(described)
    plan = {}
    for name in sorted(holders, key=lambda name: (-kinds[name][1], name)):
        owner = min(holders[name], key=lambda rank: (loads[rank], rank))
        loads[owner] += kinds[name][1]
        plan[name] = owner
    return plan


def _write(path: Path, values: dict[str, Any]) -> None:
    with path.open("wb") as stream:
        write({name: v.detach() if isinstance(v, Tensor) else v for name, v in values.items()}, stream)
        stream.flush()
        os.fsync(stream.fileno())


def load(state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str], process_group: Any = None) -> None:
    """Read a checkpoint into the tensors of a state dict, in place; other values are replaced.

    Each process reads what its own state dict names. It may have been written by any number of processes.

    Parameters
    ----------
    state_dict : dict
        Nested as what was saved, or a part of that.
    checkpoint_id : path
        The folder.
    process_group : ProcessGroup, optional
        Accepted for compatibility: processes read on their own.

    Raises
    ------
    FileNotFoundError
        If there is no checkpoint.
    KeyError
        If it lacks something.
    ValueError
        If a tensor has another shape.
    """
    folder = Path(checkpoint_id)
    index = folder / _INDEX
    if not index.exists():
        raise FileNotFoundError(f"there is no whole checkpoint in {folder}")
    found = json.loads(index.read_text())
    files, shapes = found["files"], {name: tuple(shape) for name, shape in found.get("shapes", {}).items()}
    leaves = list(_leaves(state_dict))
    missing = [name for name, *_ in leaves if name not in files]
    if missing:
        raise KeyError(f"the checkpoint in {folder} lacks {', '.join(missing)}")
    entries = {name: [[files[name], 0]] if isinstance(files[name], str) else files[name] for name, *_ in leaves}
    for file in sorted({file for parts in entries.values() for file, _ in parts}):
        held = read(folder / file)
        for name, value, container, key in leaves:
            for start in (start for part, start in entries[name] if part == file):
                if isinstance(value, (Tensor, Shard)) and isinstance(held[name], Tensor):
                    shape = shapes.get(name, tuple(held[name].shape))
                    if tuple(value.shape) != shape:
                        raise ValueError(
                            f"{name!r} has the shape {shape} in the checkpoint, and here {tuple(value.shape)}"
                        )
                    with no_grad():
                        _put(value, held[name].reshape(-1), start)
                else:
                    container[key] = held[name]


def _put(into: Tensor | Shard, elements: Tensor, start: int) -> None:
    """Copy elements in a row, of which the first has a number, into a tensor or a part of one."""
    if isinstance(into, Tensor):
        flat = into.detach().reshape(-1)
        flat[start : start + elements.numel()].copy_(elements)
        if not into.is_contiguous():
            into.copy_(flat.view(into.shape))
        return
    own = into.values.detach()
    first, end = max(start, into.start), min(start + elements.numel(), into.start + own.numel())
    if first < end:
        own[first - into.start : end - into.start].copy_(elements[first - start : end - start])


__getattr__ = paths.further(__name__)
