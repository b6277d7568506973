"""Check that processes can work together: ``python -m gradcore.distributed.check``.

It starts one process for each GPU if there are several, else two processes of MPI. It compares collectives,
derivatives, training and checkpoints with results of one process, and measures an ``all_reduce``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import gradcore as gc
from gradcore import distributed as dist
from gradcore.distributed import checkpoint, environment, run
from gradcore.distributed.fsdp import fully_shard
from gradcore.distributed.nn import functional as DF
from gradcore.distributed.state_dicts import StateDictOptions, get_model_state_dict

__all__ = ["main"]

DTYPES = (gc.float32, gc.float64, gc.float16, gc.bfloat16, gc.complex64, gc.int64, gc.int32, gc.uint8, gc.bool)
VIEWS: tuple[Callable[[Any], Any], ...] = (lambda t: t, lambda t: t.T)


class _Wrong(AssertionError):
    """Raised when a result differs from that of one process."""


def _check_equal(result: Any, expected: Any, name: str) -> None:
    """Raise `_Wrong` if a tensor differs from the expected one. Floating-point numbers may differ by rounding."""
    expected = expected.to(result.device)
    exact = not result.is_floating_point() and not result.is_complex()
    if not (gc.equal(result, expected) if exact else gc.allclose(result, expected, rtol=1e-4, atol=1e-5)):
        raise _Wrong(f"{name}: {result}, expected {expected}")


class _Checks:
    """Checks of one process, on its device."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.device = gc.device("cuda", gc.cuda.current_device()) if dist.get_backend() == "nccl" else gc.device("cpu")

    def make_values(self, rank: int, shape: tuple[int, ...], dtype: Any = gc.float32) -> Any:
        """Return small integers that differ between ranks."""
        numbers = gc.arange(int(gc.ones(shape).numel())).reshape(shape) % 3 + rank
        return (numbers % 2 == 0 if dtype is gc.bool else numbers.to(dtype)).to(self.device)

    def all_ranks(self, shape: tuple[int, ...], dtype: Any = gc.float32) -> list[Any]:
        return [self.make_values(rank, shape, dtype) for rank in range(self.size)]

    def collectives(self) -> None:
        """Check every collective in every dtype, contiguous and transposed."""
        for dtype in DTYPES:
            inputs = self.all_ranks((4, 3), dtype)
            own_input = inputs[self.rank]
            total = gc.stack(inputs).any(0) if dtype is gc.bool else gc.stack(inputs).sum(0).to(dtype)
            for view in VIEWS:
                t = own_input.clone()
                dist.all_reduce(view(t))
                _check_equal(t, total, f"all_reduce of {dtype}")
                t = own_input.clone()
                dist.broadcast(view(t), src=self.size - 1)
                _check_equal(t, inputs[-1], f"broadcast of {dtype}")
                out = [gc.empty_like(own_input) for _ in inputs]
                dist.all_gather([view(o) for o in out], view(own_input))
                _check_equal(gc.stack(out), gc.stack(inputs), f"all_gather of {dtype}")
            t = own_input.clone()
            dist.reduce(t, dst=0)
            _check_equal(t, total if self.rank == 0 else own_input, f"reduce of {dtype}")
            exchanged = gc.empty(self.size * 4, 3, dtype=dtype, device=self.device)
            dist.all_to_all_single(exchanged, gc.cat([own_input] * self.size))
            _check_equal(exchanged, gc.cat(inputs), f"all_to_all_single of {dtype}")
            part = gc.empty_like(own_input)
            dist.reduce_scatter_tensor(part, gc.cat([own_input] * self.size))
            _check_equal(part, total, f"reduce_scatter_tensor of {dtype}")
            dist.scatter(part, inputs if self.rank == 0 else None, src=0)
            _check_equal(part, own_input, f"scatter of {dtype}")

    def sizes(self) -> None:
        """Check uneven sizes, and empty tensors."""
        out = [gc.empty(rank, 2, device=self.device) for rank in range(self.size)]
        inputs = [self.make_values(rank, (rank, 2)) for rank in range(self.size)]
        dist.all_gather(out, inputs[self.rank])
        _check_equal(gc.cat(out), gc.cat(inputs), "all_gather of uneven sizes")
        part = gc.empty(self.rank, device=self.device)
        dist.reduce_scatter(part, [self.make_values(self.rank, (rank,)) for rank in range(self.size)])
        expected = gc.stack([self.make_values(rank, (self.rank,)) for rank in range(self.size)]).sum(0)
        _check_equal(part, expected, "reduce_scatter of uneven sizes")

    def calls_under_way(self) -> None:
        """Check asynchronous calls that are waited for in another order, or read at once."""
        tensors = [self.make_values(self.rank, (100_000,)) * k for k in range(8)]
        works = [dist.all_reduce(t, async_op=True) for t in tensors]
        for k, (work, t) in reversed(list(enumerate(zip(works, tensors, strict=True)))):
            work.wait()
            _check_equal(t, gc.stack(self.all_ranks((100_000,))).sum(0) * k, "asynchronous all_reduce")

    def messages(self) -> None:
        """Check messages around the ring of all ranks."""
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        out = gc.empty(1000, device=self.device)
        message = self.make_values(self.rank, (1000,))
        for work in dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, message, after), dist.P2POp(dist.irecv, out, before)]
        ):
            work.wait()
        _check_equal(out, self.make_values(before, (1000,)), "messages")

    def groups(self) -> None:
        """Check a group of the first and the last rank, and collectives of objects."""
        ends = dist.new_group([0, self.size - 1])
        if self.rank in (0, self.size - 1):
            t = gc.ones(3, device=self.device)
            dist.all_reduce(t, group=ends)
            _check_equal(t, gc.full((3,), 2.0), "all_reduce in a group")
        objects: list[Any] = [None] * self.size
        dist.all_gather_object(objects, {"rank": self.rank})
        if [received["rank"] for received in objects] != list(range(self.size)):
            raise _Wrong(f"all_gather_object: {objects}")

    def derivatives(self) -> None:
        """Check the derivatives of a sum over processes."""
        x = self.make_values(self.rank, (5,)).requires_grad_()
        (DF.all_reduce(x) ** 2).sum().backward()
        _check_equal(x.grad, gc.stack(self.all_ranks((5,))).sum(0) * 2 * self.size, "gradient of all_reduce")

    def train_model(self, wrap: Callable[[Any], Any], part: Callable[[Any], Any]) -> Any:
        gc.manual_seed(0)
        net = gc.nn.Sequential(gc.nn.Linear(6, 32), gc.nn.Tanh(), gc.nn.Linear(32, 3)).to(self.device)
        model = wrap(net)
        optimizer = gc.optim.Adam(model.parameters(), lr=0.01)
        for step in range(10):
            x = gc.sin(gc.arange(4 * self.size * 6.0) * (step + 1)).view(-1, 6).to(self.device)
            loss = (model(part(x)) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return model

    def _own(self, x: Any) -> Any:
        return x[self.rank :: self.size]

    def training(self) -> None:
        """Check ten steps of DistributedDataParallel and of fully_shard against one process, and a checkpoint."""
        expected = self.train_model(lambda net: net, lambda x: x).state_dict()
        model = self.train_model(
            lambda net: gc.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.0005), self._own
        )
        for name, value in model.module.state_dict().items():
            _check_equal(value, expected[name], f"DistributedDataParallel: {name}")
        model = self.train_model(lambda net: fully_shard([net[0], net[2], net])[-1], self._own)
        full_state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
        for name, value in full_state.items():
            _check_equal(value, expected[name], f"fully_shard: {name}")
        with tempfile.TemporaryDirectory() as folder:
            shared_folder = [folder]
            dist.broadcast_object_list(shared_folder, src=0)
            checkpoint.save(get_model_state_dict(model), checkpoint_id=shared_folder[0])
            loaded = {name: gc.zeros_like(t) for name, t in full_state.items()}
            checkpoint.load(loaded, checkpoint_id=shared_folder[0])
            dist.barrier()
        for name, value in loaded.items():
            _check_equal(value, expected[name], f"checkpoint: {name}")

    def measure(self) -> list[str]:
        """Return lines with the speed of ``all_reduce`` in float32 for several sizes."""
        lines = []
        for count in (1, 1 << 12, 1 << 18, 1 << 24):
            t = gc.ones(count, device=self.device)
            best = float("inf")
            for _ in range(5):
                dist.barrier()
                start = time.perf_counter()
                dist.all_reduce(t)
                if self.device.type == "cuda":
                    gc.cuda.synchronize()
                best = min(best, time.perf_counter() - start)
            bytes_sent = 8 * count * (self.size - 1) / self.size
            lines.append(f"{4 * count:>11,} bytes  {best * 1e6:>10,.0f} us  {bytes_sent / best / 1e9:>7.2f} GB/s")
        return lines


def _run() -> None:
    """Run the checks of this process, one of several."""
    cuda = gc.cuda.is_available() and (environment.local_rank() or 0) < gc.cuda.device_count()
    dist.init_process_group("nccl" if cuda else "mpi", timeout=timedelta(seconds=60))
    checks = _Checks()

    def say(text: str) -> None:
        if checks.rank == 0:
            print(text, flush=True)

    say(f"{checks.size} processes, {dist.get_backend()}, {checks.device.type}")
    for check in (checks.collectives, checks.sizes, checks.calls_under_way, checks.messages, checks.groups,
                  checks.derivatives, checks.training):  # fmt: skip
        title = (check.__doc__ or "").rstrip(".").lower()
        try:
            check()
            dist.barrier()
        except Exception as error:
            print(f"WRONG, in rank {checks.rank}: {title}: {error}", flush=True)
            raise
        say(f"ok: {title}")
    say("all_reduce, best of 5; bytes per second that each process sends:")
    for line in checks.measure():
        say(line)
    dist.destroy_process_group()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks, in new processes unless this is one of them."""
    parser = argparse.ArgumentParser(prog="python -m gradcore.distributed.check", description="Check collectives here.")
    parser.add_argument("--nproc", type=int, default=0, help="processes: by default one for each GPU, or two")
    options = parser.parse_args(argv)
    if environment.size() is not None:
        _run()
        return 0
    gpus = gc.cuda.device_count() if gc.cuda.is_available() else 0
    size = options.nproc or (gpus if gpus > 1 else 2)
    mpi_options = ["--no-mpi"] if size <= gpus else []
    return run.main(["--nproc-per-node", str(size), *mpi_options, "-m", "gradcore.distributed.check"])


if __name__ == "__main__":
    sys.exit(main())
