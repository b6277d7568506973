"""Optimisers whose state is distributed over processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gradcore import functional
from gradcore.autograd.grad_mode import no_grad
from gradcore.core.typing import AnyTensor
from gradcore.distributed import collectives, objects
from gradcore.distributed.groups import resolve
from gradcore.optim.optimizer import Optimizer
from gradcore.tensor import Tensor

__all__ = ["ZeroRedundancyOptimizer"]


def list_parameters(each: Any) -> Any:
    """Return a parameter group with its parameters as a list, so that they can be iterated over twice."""
    if isinstance(each, dict) and isinstance(each["params"], Iterator):
        return {**each, "params": list(each["params"])}
    return dict(each) if isinstance(each, dict) else each


class ZeroRedundancyOptimizer(Optimizer):
    """An optimiser of which each process stores the state for a share of the parameters.

    All processes have all parameters and their reduced gradients, as with `DistributedDataParallel`. Each process
    updates the parameters of its share, and sends the new values to the others. Shares have about the same number of
    elements.

    Parameters
    ----------
    params : iterable of Tensor or of dict
        The same in all processes, of one device.
    optimizer_class : type
        The class of the optimiser of each share. It treats parameters one by one.
    process_group : ProcessGroup, optional
        By default the world.
    parameters_as_bucket_view : bool
        Accepted for compatibility.
    overlap_with_ddp : bool
        Accepted for compatibility: steps are not taken within backward.
    **defaults
        The options of the optimiser.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.distributed.optim import ZeroRedundancyOptimizer
    >>> gc.distributed.init_process_group("mpi")
    >>> x = gc.ones(2, requires_grad=True)
    >>> optimizer = ZeroRedundancyOptimizer([x], gc.optim.SGD, lr=0.1)
    >>> x.sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.9000, 0.9000], requires_grad=True)
    >>> gc.distributed.destroy_process_group()
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        self.process_group = resolve(process_group)
        self._class, self._options = optimizer_class, defaults
        #: The optimiser of this process's share, if the share is not empty, and the groups of its parameters.
        self.optim: Optimizer | None = None
        self._groups: list[int] = []
        #: The rank that makes the step of each parameter.
        self._owner: dict[int, int] = {}
        self._full: dict[str, Any] | None = None
        groups = params if isinstance(params, Tensor) else [list_parameters(group) for group in params]
        super().__init__(groups, optimizer_class(groups, **defaults).defaults)
        self._share()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group, in all processes.

        Parameters
        ----------
        param_group : dict
        """
        super().add_param_group(param_group)
        if self._owner:
            before = self.state
            self._share()
            for p, state in before.items():
                if self._owner[id(p)] == self.process_group.rank():
                    self.state[p] = state

    def _share(self) -> None:
        """Assign parameters to processes, the largest first, each to the process with the fewest elements."""
        loads = [0] * self.process_group.size()
        parameters = [p for group in self.param_groups for p in group["params"]]
        for p in sorted(parameters, key=lambda p: -p.numel()):
            if id(p) not in self._owner:
                self._owner[id(p)] = loads.index(min(loads))
            loads[self._owner[id(p)]] += max(p.numel(), 1)
        rank = self.process_group.rank()
        own_parameters = [[p for p in group["params"] if self._owner[id(p)] == rank] for group in self.param_groups]
        self._groups = [k for k, params in enumerate(own_parameters) if params]
        if self._groups:
            self.optim = self._class([{"params": own_parameters[k]} for k in self._groups], **self._options)
            self._pass_options()
            self.state = self.optim.state

    def _pass_options(self) -> None:
        """Copy the options of all groups, which schedulers change, to the optimiser of this process's share."""
        if self.optim is not None:
            for k, group in zip(self._groups, self.optim.param_groups, strict=True):
                group.update({key: value for key, value in self.param_groups[k].items() if key != "params"})

    def step(self, closure: Callable[[], Any] | None = None, **options: Any) -> Any:
        """Update the parameters of this process's share, and receive the values of the others.

        Parameters
        ----------
        closure : callable, optional
            Reevaluates the loss and its gradients, and returns the loss.
        """
        self._pass_options()
        loss = None
        if self.optim is not None:
            loss = self.optim.step(closure, **options) if closure is not None else self.optim.step(**options)
            for k, group in zip(self._groups, self.optim.param_groups, strict=True):
                self.param_groups[k].update({key: value for key, value in group.items() if key != "params"})
        elif closure is not None:
            loss = closure()
        self._exchange()
        return loss

    def _exchange(self) -> None:
        """Broadcast the parameters of every share from its process to the others."""
        size = self.process_group.size()
        if size == 1:
            return
        shares: dict[Any, list[AnyTensor]] = {}
        for group in self.param_groups:
            for p in group["params"]:
                shares.setdefault((self._owner[id(p)], p.dtype), []).append(p)
        works = []
        with no_grad():
            for owner, dtype in sorted(shares, key=lambda key: (key[0], key[1].name)):
                params = shares[owner, dtype]
                flat = functional.cat([p.detach().reshape(-1) for p in params])
                work = collectives.broadcast(flat, group=self.process_group, group_src=owner, async_op=True)
                works.append((owner, params, flat, work))
            for owner, params, flat, work in works:
                work.wait()
                if owner != self.process_group.rank():
                    for p, part in zip(params, flat.split([p.numel() for p in params]), strict=True):
                        p.detach().copy_(part.view(p.shape))

    # -- states -----------------------------------------------------------------------------------------------------

    def local_state_dict(self) -> dict[str, Any]:
        """Return the state of this process's share, by parameter number, for `distributed.checkpoint`.

        Returns
        -------
        dict
        """
        parameters = [p for group in self.param_groups for p in group["params"]]
        return {"state": {str(i): self.state[p] for i, p in enumerate(parameters) if p in self.state}}

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the state of all processes in one, which can then call `state_dict`. All processes make this call.

        Parameters
        ----------
        to : int
            The rank of that process in the world.
        """
        root = self.process_group.ranks.index(to)
        is_root = self.process_group.rank() == root
        states: list[Any] | None = [None] * self.process_group.size() if is_root else None
        objects.gather_object(self.local_state_dict()["state"], states, group=self.process_group, group_dst=root)
        self._full = None
        if states is not None:
            self._full = {key: value for state in states for key, value in state.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all parameters, as one optimiser would have it, after `consolidate_state_dict`.

        Returns
        -------
        dict
        """
        if self._full is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{self.process_group.ranks[self.process_group.rank()]})` on all ranks beforehand if you meant to save "
                "the global state."
            )
        out = super().state_dict()
        out["state"] = {int(key): value for key, value in sorted(self._full.items(), key=lambda item: int(item[0]))}
        return out

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of all parameters. Each process keeps that of its share.

        Parameters
        ----------
        state_dict : dict
            A result of `state_dict`, of this class or of the optimiser itself.
        """
        parameters = [p for group in self.param_groups for p in group["params"]]
        own_numbers = {i for i, p in enumerate(parameters) if self._owner[id(p)] == self.process_group.rank()}
        own_state = {**state_dict, "state": {i: s for i, s in state_dict["state"].items() if int(i) in own_numbers}}
        super().load_state_dict(own_state)
        if self.optim is not None:
            self.optim.state = self.state
            self._pass_options()
