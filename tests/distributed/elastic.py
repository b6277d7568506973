"""A job that goes on with another number of processes. It notes which samples it has used, and in which world.

Arguments: what happens after the third step of the first start (``killed``: the last rank is killed; ``grows``: the
file of machines names one more).
"""

import json
import os
import signal
import sys
from pathlib import Path

import gradcore as gc
import gradcore.distributed as dist
from gradcore.distributed import checkpoint
from gradcore.nn.parallel import DistributedDataParallel
from gradcore.utils.data import DataLoader, DistributedSampler, TensorDataset

SAMPLES, BATCH, EPOCHS = 48, 2, 2


def main(how):
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    data = TensorDataset(gc.arange(float(SAMPLES))[:, None])
    sampler = DistributedSampler(data, seed=4)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
    gc.manual_seed(0)
    model = DistributedDataParallel(gc.nn.Linear(1, 1))
    optimizer = gc.optim.SGD(model.parameters(), lr=1e-4)
    state = {"model": model.module.state_dict(), "epoch": 0, "used": 0, "steps": 0}
    if Path("checkpoint/index.json").exists():
        checkpoint.load(state, checkpoint_id="checkpoint")
    while state["epoch"] < EPOCHS:
        sampler.set_epoch(state["epoch"], start=state["used"])
        for (x,) in loader:
            optimizer.zero_grad()
            (model(x) - x).square().mean().backward()
            optimizer.step()
            state["used"] += BATCH * size
            state["steps"] += 1
            checkpoint.save(state, checkpoint_id="checkpoint")
            note = {"rank": rank, "size": size, "epoch": state["epoch"], "samples": x.flatten().tolist()}
            with Path(f"used-{state['steps']:03}-{rank}.json").open("w") as file:
                json.dump(note, file)
            dist.barrier()
            if state["steps"] == 3:
                if how == "killed" and rank == size - 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                if how == "grows":
                    if rank == 0:
                        Path("machines").write_text("one\ntwo\nthree # has come\n")
                    signal.pause()  # until the launcher ends this start
        state |= {"epoch": state["epoch"] + 1, "used": 0}
    if rank == 0:
        Path("result.json").write_text(json.dumps(model.module.weight.item()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
