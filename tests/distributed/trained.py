"""A script for PyTorch: processes train on parts of a batch. Rank 0 writes the losses; run by both libraries."""

import json
import sys


def main(path, init_method):
    import os

    import torch
    import torch.distributed as dist
    from torch import nn

    settings = {"init_method": init_method} if init_method else {}
    if init_method:
        settings |= {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    dist.init_process_group("gloo", **settings)
    rank, size = dist.get_rank(), dist.get_world_size()
    losses = []
    for make in (
        lambda: nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)),
        lambda: nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)),
    ):
        model = make().double()
        for k, p in enumerate(model.parameters()):
            p.data = torch.sin(torch.arange(p.numel(), dtype=torch.float64) * (k + 1)).reshape(p.shape) * 0.3
        model = nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for step in range(40):
            x = torch.cos(torch.arange(8 * 6, dtype=torch.float64) * (step + 1)).reshape(8, 6)[rank::size]
            loss = (model(x) - 1).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total = loss.detach()
            dist.all_reduce(total)
            losses.append(total.item() / size)
    if rank == 0:
        with open(path, "w") as file:
            json.dump([torch.__name__, losses], file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
