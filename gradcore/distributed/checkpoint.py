"""Checkpoints that all processes write and read together. The number of processes may change between both.

A checkpoint is a folder with one file of each process, and an index of their contents. Files get new names in each
checkpoint. The index is replaced at the end, by one operation of the file system. Until then the previous checkpoint
stays valid, even if a process fails.
"""

from __future__ import annotations

import concurrent.futures
import copy
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from uuid import uuid4

from gradcore.autograd.grad_mode import no_grad
from gradcore.distributed import collectives, groups
from gradcore.distributed.checkpoint_plan import Index, Value, agree
from gradcore.distributed.sharded_parameter import DTensor
from gradcore.serialization import load as read
from gradcore.serialization import save as write
from gradcore.tensor import Tensor
from gradcore.torch_names import paths

__all__ = ["Shard", "Stateful", "async_save", "load", "save"]

_INDEX = "index.json"


@dataclass
class Shard:
    """A part of a tensor whose other parts are in other processes.

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
        """Return the elements without the padding."""
        return self.tensor[: max(0, math.prod(self.shape) - self.start)]


@runtime_checkable
class Stateful(Protocol):
    """An object that has a state dict, such as a module or an optimizer.

    As a value of the dict that is passed to `save` or `load`, it stands for its state dict. `load` reads values into a
    state dict of the object, and passes this to ``load_state_dict``.

    Examples
    --------
    >>> import tempfile
    >>> from gradcore.distributed.checkpoint import load, save
    >>> class Progress:
    ...     step = 3
    ...
    ...     def state_dict(self):
    ...         return {"step": self.step}
    ...
    ...     def load_state_dict(self, state):
    ...         self.step = state["step"]
    >>> progress = Progress()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save({"progress": progress}, checkpoint_id=folder)
    ...     progress.step = 0
    ...     load({"progress": progress}, checkpoint_id=folder)
    >>> progress.step
    3
    """

    def state_dict(self) -> dict[str, object]:
        """Return the state: nested dicts and lists of tensors and of other objects."""
        ...

    def load_state_dict(self, state_dict: dict[str, object]) -> object:
        """Take over a state.

        Parameters
        ----------
        state_dict : dict
        """
        ...


def _expand(state_dict: Mapping[str, object]) -> dict[str, object]:
    """Replace objects with state dicts by these. PyTorch does so in the outermost dict alone."""
    return {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield ``(name, value, container, key)`` for the leaves of nested dicts and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        name = (*path, str(key))
        if isinstance(inner, (dict, list)) and inner:
            yield from _leaves(inner, name)
        else:
            if isinstance(inner, DTensor):
                inner = Shard(inner.to_local(), inner.full_shape, inner.start)
            yield "/".join(name), inner, value, key


def _describe(value: object) -> Value:
    """Return the description of a value that the checkpoint plan needs."""
    if isinstance(value, Shard):
        t, shape = value.tensor, tuple(value.shape)
        return Value(f"{shape} {t.dtype.name}", t.nbytes, shape, value.start, t.numel())
    if isinstance(value, Tensor):
        return Value(f"{tuple(value.shape)} {value.dtype.name}", value.nbytes)
    return Value("object", 0)


def save(state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str], process_group: Any = None) -> None:
    """Write a checkpoint. All processes make this call.

    A value that several processes have is written by one of them, with the bytes shared evenly. A value that only one
    process has, such as a `Shard` or its part of an optimiser's state, is written by that process.

    Parameters
    ----------
    state_dict : dict
        Nested dicts and lists of tensors and of other objects that `gradcore.save` can write. A value of the outermost
        dict may be a module, an optimizer, or another `Stateful` object.
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
    _write_all({name: value for name, value, _, _ in _leaves(_expand(state_dict))}, Path(checkpoint_id), group)


def async_save(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str], process_group: Any = None
) -> concurrent.futures.Future[None]:
    """Write a checkpoint in a thread, as `save` does. All processes make this call.

    The values are copied before the call returns, so training can continue. Wait for the last call to finish before you
    call it again, or end the process group.

    Parameters
    ----------
    state_dict, checkpoint_id, process_group
        As for `save`.

    Returns
    -------
    concurrent.futures.Future
        Its ``result()`` waits, and raises the error of the thread.

    Examples
    --------
    >>> import gradcore as gc
    >>> import tempfile
    >>> from gradcore.distributed import checkpoint
    >>> folder = tempfile.TemporaryDirectory()
    >>> written = checkpoint.async_save({"weight": gc.ones(2)}, checkpoint_id=folder.name)
    >>> written.result()
    >>> state = {"weight": gc.zeros(2)}
    >>> checkpoint.load(state, checkpoint_id=folder.name)
    >>> state["weight"]
    tensor([1., 1.])
    >>> folder.cleanup()
    """
    values = {name: _copy(value) for name, value, _, _ in _leaves(_expand(state_dict))}
    outer = groups.find(process_group) if groups.is_initialized() else None
    # The calls of the thread do not mix with those of the program.
    group = outer if outer is None else groups.duplicate_group(outer, "async_save")
    future: concurrent.futures.Future[None] = concurrent.futures.Future()

    def write_all() -> None:
        try:
            _write_all(values, Path(checkpoint_id), group)
            if group is not outer:
                groups.destroy_process_group(group)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=write_all, name="gradcore-checkpoint").start()
    return future


def _copy(value: Any) -> Any:
    """Return a copy of a value, which later optimizer steps do not change."""
    if isinstance(value, Shard):
        return Shard(value.tensor.detach().clone(), value.shape, value.start)
    return value.detach().clone() if isinstance(value, Tensor) else copy.deepcopy(value)


def _write_all(mine: dict[str, Any], folder: Path, group: groups.ProcessGroup | None) -> None:
    """Write the file of this process. Rank 0 also writes the index when all files are complete."""
    rank = 0 if group is None else group.rank()
    folder.mkdir(parents=True, exist_ok=True)
    names, index = agree({name: _describe(value) for name, value in mine.items()}, uuid4().hex, group)
    values = {name: mine[name].values.clone() if isinstance(mine[name], Shard) else mine[name] for name in names}
    _write(folder / index.file_of(rank), values)
    if group is not None:
        collectives.barrier(group)  # all files are whole
    if rank == 0:
        part = folder / f"{index.token}.part"
        with part.open("w") as stream:
            stream.write(index.dump())
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(folder / _INDEX)
        for file in folder.iterdir():
            if file.suffix in (".pt", ".part") and not file.name.startswith(index.token):
                file.unlink(missing_ok=True)
    if group is not None:
        collectives.barrier(group)


def _write(path: Path, values: dict[str, Any]) -> None:
    with path.open("wb") as stream:
        write({name: v.detach() if isinstance(v, Tensor) else v for name, v in values.items()}, stream)
        stream.flush()
        os.fsync(stream.fileno())


def load(state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str], process_group: Any = None) -> None:
    """Read a checkpoint into the tensors of a state dict, in place. Values that are not tensors are replaced.

    Each process reads the values that its state dict names. Any number of processes may have written the checkpoint.

    Parameters
    ----------
    state_dict : dict
        Nested like the saved state dict, or a part of it. `Stateful` objects get their states by ``load_state_dict``.
    checkpoint_id : path
        The folder.
    process_group : ProcessGroup, optional
        Accepted for compatibility: processes read on their own.

    Raises
    ------
    FileNotFoundError
        If there is no checkpoint.
    KeyError
        If the checkpoint lacks a name of the state dict.
    ValueError
        If a tensor has another shape in the checkpoint.
    """
    folder = Path(checkpoint_id)
    index = folder / _INDEX
    if not index.exists():
        raise FileNotFoundError(f"there is no whole checkpoint in {folder}")
    contents = Index.parse(index.read_text())
    states = _expand(state_dict)
    leaves = list(_leaves(states))
    missing = [name for name, *_ in leaves if name not in contents]
    if missing:
        raise KeyError(f"the checkpoint in {folder} lacks {', '.join(missing)}")
    reads: dict[str, list[tuple[str, Any, Any, Any, int]]] = {}
    for name, value, container, key in leaves:
        _check_shape(name, value, contents.shapes)
        span = (value.start, value.start + value.values.numel()) if isinstance(value, Shard) else (0, None)
        for file, start in contents.parts(name, *span):
            reads.setdefault(file, []).append((name, value, container, key, start))
    for file in sorted(reads):
        # If only a part of a file is needed, the file is mapped and only this part is read. Otherwise checksums are
        # compared.
        partial = any(isinstance(value, Shard) for _, value, *_ in reads[file])
        stored = read(folder / file, mmap=partial or len(contents.names_in(file)) > len(reads[file]))
        for name, value, container, key, start in reads[file]:
            if isinstance(value, (Tensor, Shard)) and isinstance(stored[name], Tensor):
                _check_shape(name, value, {name: contents.shapes.get(name, stored[name].shape)})
                with no_grad():
                    _put(value, stored[name].reshape(-1), start)
            else:
                container[key] = _copy(stored[name])
    for key, value in state_dict.items():
        state = states[key]
        if not isinstance(value, Stateful):
            state_dict[key] = state
        else:
            assert isinstance(state, dict), f"the state dict of {key!r} is of type {type(state).__name__}"
            value.load_state_dict(state)


def _check_shape(name: str, value: object, shapes: Mapping[str, Sequence[int]]) -> None:
    """Raise an error if a tensor, or the tensor to which a shard belongs, has another shape in the checkpoint."""
    if isinstance(value, (Tensor, Shard)) and name in shapes and tuple(value.shape) != tuple(shapes[name]):
        raise ValueError(
            f"{name!r} has the shape {tuple(shapes[name])} in the checkpoint, and here {tuple(value.shape)}"
        )


def _put(into: Tensor | Shard, elements: Tensor, start: int) -> None:
    """Copy consecutive elements, the first of which has the index `start` in the whole tensor, to a tensor or shard."""
    if isinstance(into, Tensor):
        flat = into.detach().reshape(-1)
        flat[start : start + elements.numel()].copy_(elements)
        if not into.is_contiguous():
            into.copy_(flat.view(into.shape))
        return
    values = into.values.detach()
    first, end = max(start, into.start), min(start + elements.numel(), into.start + values.numel())
    if first < end:
        values[first - into.start : end - into.start].copy_(elements[first - start : end - start])


__getattr__ = paths.further(__name__)
