"""Device meshes: processes in a grid of named dimensions, with a group for each row along each dimension."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gradcore.distributed import groups
from gradcore.distributed.groups import ProcessGroup
from gradcore.tensor import Tensor
from gradcore.tensor.creation import tensor

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Processes in a grid, with a group for each row along each dimension. All processes make this call.

    Parameters
    ----------
    device_type : str
        Of the tensors that the processes exchange: ``"cpu"`` or ``"cuda"``.
    mesh : nested sequence of int
        Ranks of the world, which must grow along each dimension.
    mesh_dim_names : sequence of str, optional

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> gc.distributed.DeviceMesh("cpu", [[0]], mesh_dim_names=("dp", "tp"))["tp"]
    DeviceMesh('cpu', [0], mesh_dim_names=('tp',))
    >>> gc.distributed.destroy_process_group()
    """

    def __init__(self, device_type: str, mesh: object, *, mesh_dim_names: Sequence[str] | None = None) -> None:
        world = groups.resolve(None)
        ranks = np.asarray(mesh.tolist() if hasattr(mesh, "tolist") else mesh)
        names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        _check(device_type, ranks, names, world.size())
        world.engine_for(device_type)
        rows = []
        for dim in range(ranks.ndim):
            own_group = None
            for row in np.moveaxis(ranks, dim, -1).reshape(-1, ranks.shape[dim]).tolist():
                # Every process makes every group, in the same order.
                row_group = world if row == list(range(world.size())) else groups.new_group(row)
                own_group = row_group if world.rank() in row else own_group
            rows.append(own_group)
        self._set(device_type, ranks, names, rows)

    @classmethod
    def from_group(cls, group: ProcessGroup, device_type: str) -> DeviceMesh:
        """Return a mesh of one dimension of the processes of a group that exists.

        Parameters
        ----------
        group : ProcessGroup
        device_type : str
            ``"cpu"`` or ``"cuda"``.
        """
        mesh = object.__new__(cls)
        mesh._set(device_type, np.asarray(group.ranks), None, [group])
        return mesh

    def _set(
        self,
        device_type: str,
        ranks: NDArray[np.int64],
        names: tuple[str, ...] | None,
        rows: Sequence[ProcessGroup | None],
    ) -> None:
        self.device_type, self.mesh_dim_names = device_type, names
        self._ranks, self._groups = ranks, list(rows)
        positions = np.argwhere(ranks == groups.get_rank()).tolist()
        self._coordinate: list[int] | None = positions[0] if positions else None

    @property
    def mesh(self) -> Tensor:
        """Return the ranks as a tensor on the CPU."""
        return tensor(self._ranks.tolist(), device="cpu")

    @property
    def ndim(self) -> int:
        """Return the number of dimensions."""
        return int(self._ranks.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of processes along each dimension."""
        return tuple(self._ranks.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """Return the total number of processes, or the number along a dimension."""
        return int(self._ranks.size if mesh_dim is None else self._ranks.shape[self._dim(mesh_dim)])

    def get_rank(self) -> int:
        """Return the rank of this process in the world."""
        return groups.get_rank()

    def get_coordinate(self) -> list[int] | None:
        """Return the position of this process along each dimension, or None if it is not in the mesh."""
        return None if self._coordinate is None else list(self._coordinate)

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return the position of this process along a dimension, its rank in the group of the dimension."""
        dim = self._dim(mesh_dim)
        if self._coordinate is None:
            raise RuntimeError(f"rank {groups.get_rank()} is not in {self!r}")
        return self._coordinate[dim]

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return the group of the processes that differ from this one only along a dimension."""
        result = self._groups[self._dim(mesh_dim)]
        if result is None:
            raise RuntimeError(f"rank {groups.get_rank()} is not in {self!r}")
        return result

    def get_all_groups(self) -> list[ProcessGroup]:
        """Return the groups of this process, one for each dimension."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """Return the sub-mesh of some dimensions that contains this process, with the same groups."""
        requested = (names,) if isinstance(names, str) else tuple(names)
        if self.mesh_dim_names is None:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        known_names = list(self.mesh_dim_names)
        dims = [known_names.index(name) for name in requested if name in known_names]
        if not requested or len(dims) < len(requested) or dims != sorted(set(dims)):
            raise KeyError(
                f"Invalid mesh_dim_names {requested} specified. Valid mesh_dim_names are {known_names}, "
                "each once and in this order."
            )
        at = self._coordinate or [0] * self.ndim
        part = self._ranks[tuple(slice(None) if dim in dims else at[dim] for dim in range(self.ndim))]
        result = object.__new__(DeviceMesh)
        result._set(self.device_type, part, requested, [self._groups[dim] for dim in dims])
        return result

    def __repr__(self) -> str:
        names = "" if self.mesh_dim_names is None else f", mesh_dim_names={self.mesh_dim_names}"
        return f"DeviceMesh({self.device_type!r}, {self._ranks.tolist()}{names})"

    def _dim(self, mesh_dim: int | str | None) -> int:
        """Return the index of a dimension."""
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions. "
                    "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1."
                )
            return 0
        if isinstance(mesh_dim, str):
            if mesh_dim not in (self.mesh_dim_names or ()):
                raise KeyError(f"Mesh dimension '{mesh_dim}' does not exist. Available: {self.mesh_dim_names}")
            return (self.mesh_dim_names or ()).index(mesh_dim)
        if not -self.ndim <= mesh_dim < self.ndim:
            raise IndexError(f"mesh_dim {mesh_dim} is out of range for a mesh of {self.ndim} dimensions")
        return mesh_dim % self.ndim


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None
) -> DeviceMesh:
    """Create a mesh of the processes by rank, with the last dimension varying fastest. All processes make this call.

    Parameters
    ----------
    device_type : str
        ``"cpu"`` or ``"cuda"``.
    mesh_shape : sequence of int
        Numbers of processes along each dimension.
    mesh_dim_names : sequence of str, optional
        Names of the dimensions.

    Returns
    -------
    DeviceMesh

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> mesh = gc.distributed.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    >>> mesh["dp"].size(), mesh.get_local_rank("tp"), mesh.get_coordinate()
    (1, 0, [0, 0])
    >>> t = gc.ones(2)
    >>> gc.distributed.all_reduce(t, group=mesh.get_group("dp"))
    >>> gc.distributed.destroy_process_group()
    """
    shape = tuple(mesh_shape)
    if not shape or min(shape) < 1:
        raise ValueError(f"mesh_shape must be positive integers, but it is {shape}")
    return DeviceMesh(device_type, np.arange(int(np.prod(shape))).reshape(shape), mesh_dim_names=mesh_dim_names)


def _check(device_type: str, ranks: NDArray[np.int64], names: tuple[str, ...] | None, world: int) -> None:
    """Raise an error unless a mesh can be created with these arguments."""
    if device_type not in ("cpu", "cuda"):
        raise RuntimeError(f"the device type of a mesh must be 'cpu' or 'cuda', not {device_type!r}")
    if ranks.ndim == 0 or ranks.size == 0 or ranks.dtype.kind not in "iu":
        raise ValueError("a mesh must consist of ranks, in nested lists of equal lengths")
    if names is not None and len(names) != ranks.ndim:
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! "
            f"Found {len(names)} names for {ranks.ndim} dimensions."
        )
    if names is not None and len(set(names)) < len(names):
        raise RuntimeError(f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {names}")
    if ranks.size > world:
        raise RuntimeError(f"Mesh should not be bigger than default world size {world}, but found {ranks.size} ranks!")
    if len(np.unique(ranks)) < ranks.size or ranks.min() < 0 or ranks.max() >= world:
        raise ValueError(f"the ranks of a mesh must be different, and below {world}, but they are {ranks.tolist()}")
    if any((np.diff(ranks, axis=dim) < 0).any() for dim in range(ranks.ndim)):
        raise ValueError(f"the ranks of a mesh must grow along each dimension, but they are {ranks.tolist()}")
