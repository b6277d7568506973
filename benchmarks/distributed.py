"""Data parallel training in several processes, against the cost model of docs/distributed.md.

    python -m gradcore.distributed.run --nproc-per-node 2 -m benchmarks.distributed

Each process has one thread. With one process the step of DistributedDataParallel is compared with that of the module.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gradcore as gc
import gradcore.distributed as dist
from benchmarks.threads import limit_threads
from gradcore.distributed.fsdp import fully_shard
from gradcore.nn.parallel import DistributedDataParallel


def best(call: Callable[[], Any], repeats: int) -> float:
    """Return the shortest of several times, in seconds. Each time is that of the slowest process."""
    found = float("inf")
    for _ in range(repeats):
        dist.barrier()
        start = time.perf_counter()
        call()
        taken = gc.tensor(time.perf_counter() - start, dtype=gc.float64)
        dist.all_reduce(taken, dist.ReduceOp.MAX)
        found = min(found, taken.item())
    return found


def perceptron(width: int, layers: int) -> Any:
    """Return a module of `layers` equal linear layers with activations."""
    gc.manual_seed(0)
    return gc.nn.Sequential(*[m for _ in range(layers) for m in (gc.nn.Linear(width, width), gc.nn.ReLU())])


def step(module: Any, x: Any) -> Callable[[], Any]:
    """Forward and backward."""

    def run() -> None:
        module.zero_grad()
        module(x).square().mean().backward()

    return run


def of_one(width: int, layers: int, x: Any, repeats: int) -> None:
    """Measure the overhead of DistributedDataParallel in a single process, where nothing is reduced."""
    plain, wrapped = perceptron(width, layers), DistributedDataParallel(perceptron(width, layers))
    times = [float("inf"), float("inf")]
    for _ in range(10 * repeats):
        for k, module in enumerate((plain, wrapped)):
            start = time.process_time()
            step(module, x)()
            times[k] = min(times[k], time.process_time() - start)
    print(f"one process: {times[0] * 1e3:.3f} ms, with DDP {times[1] * 1e3:.3f} ms: {times[1] / times[0]:.4f}")


def of_several(width: int, layers: int, x: Any, repeats: int) -> None:
    """Step, communication, and what the model says of them."""
    few, many = gc.ones(1), gc.ones(1 << 20)
    small, large = best(lambda: dist.all_reduce(few), 3 * repeats), best(lambda: dist.all_reduce(many), 3 * repeats)
    latency, rate = small, (large - small) / (1 << 22)  # seconds, and seconds for each byte
    module = perceptron(width, layers)
    nbytes = sum(p.nbytes for p in module.parameters())
    flat = np.ones(nbytes // 4, np.float32)
    compute = best(step(perceptron(width, layers), x), repeats)
    bare = best(lambda: _bare(flat), repeats)
    wrapped = DistributedDataParallel(module, bucket_cap_mb=max(nbytes / 4e6, 0.1))
    run = step(wrapped, x)
    run(), run()
    taken = best(run, repeats)
    times = wrapped._get_ddp_logging_data()
    reduction = latency * len(wrapped._reducer.buckets) + rate * nbytes
    hidden = max(0.0, 1 - times["waited"] / times["communication"])
    sharded = perceptron(width, layers)
    for layer in sharded:
        if isinstance(layer, gc.nn.Linear):
            fully_shard(layer)
    sharded_taken = best(step(fully_shard(sharded), x), repeats)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if dist.get_rank() == 0:
        print(
            f"{dist.get_world_size()} processes, {nbytes / 1e6:.1f} MB of gradients, batch {len(x)} in each\n"
            f"  all_reduce: latency {latency * 1e6:.0f} us, {1e-9 / rate:.2f} GB/s of the tensor\n"
            f"  forward and backward {compute * 1e3:.1f} ms, bare Allreduce {bare * 1e3:.1f} ms\n"
            f"  DDP step {taken * 1e3:.1f} ms: efficiency {(compute + bare) / taken:.2f} of one after the other, "
            f"{max(compute, bare) / taken:.2f} of side by side; hidden {hidden:.0%}\n"
            f"  the model: {max(compute, compute / 3 + reduction) * 1e3:.1f} ms with cores for the reduction, "
            f"{(compute + reduction) * 1e3:.1f} ms without\n"
            f"  fully_shard step {sharded_taken * 1e3:.1f} ms; largest resident size {memory:.0f} MB"
        )


def _bare(flat: Any) -> None:
    from mpi4py import MPI

    MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, flat)


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description="Data parallel training against its cost model.")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--batch", type=int, default=256, help="of each process")
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    limit_threads(1)
    dist.init_process_group("mpi")
    x = gc.randn(options.batch, options.width)
    run = of_one if dist.get_world_size() == 1 else of_several
    run(options.width, options.layers, x, options.repeats)


if __name__ == "__main__":
    main()
