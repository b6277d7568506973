"""Programs for PyTorch with the structure of its tutorials for several processes; run by both libraries.

Arguments: the name of a program and a file for the losses of rank 0. Weights, data and their order are given by
formulas, as both libraries draw other random numbers.
"""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


def wave(*shape, rate=1.0):
    """Numbers between -1 and 1."""
    count = 1
    for n in shape:
        count *= n
    return torch.sin(torch.arange(count, dtype=torch.float64) * rate + 0.5).reshape(shape).float()


def fill(model):
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(wave(*p.shape, rate=1.3 + 0.1 * k) * 0.3)
    return model


def mean_of(loss):
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def write(path, losses):
    if dist.get_rank() == 0:
        Path(path).write_text(json.dumps([torch.__file__, losses]))


# -- "Getting started with DistributedDataParallel": a toy model, started by torchrun ----------------------------------


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def ddp_example(path):
    init_process_group("gloo")
    rank = dist.get_rank()
    ddp_model = DDP(fill(ToyModel()))
    loss_fn, losses = nn.MSELoss(), []
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.01)
    for step in range(10):
        optimizer.zero_grad()
        outputs = ddp_model(wave(20, 10, rate=1.1 + step + rank))
        loss = loss_fn(outputs, wave(20, 5, rate=0.7))
        loss.backward()
        optimizer.step()
        losses.append(mean_of(loss))
    # save by one process, load by all
    checkpoint = Path(path).with_suffix(".checkpoint")
    if rank == 0:
        torch.save(ddp_model.state_dict(), checkpoint)
    dist.barrier()
    ddp_model.load_state_dict(torch.load(checkpoint, weights_only=True))
    losses.append(mean_of(loss_fn(ddp_model(wave(20, 10)), wave(20, 5, rate=0.7))))
    write(path, losses)
    destroy_process_group()


# -- "Distributed data parallel in PyTorch": the series, with a trainer ------------------------------------------------


class MyTrainDataset(Dataset):
    def __init__(self, size):
        self.data = [(wave(20, rate=1.0 + i), (wave(5, rate=0.3 * i) > 0).float()) for i in range(size)]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


class Trainer:
    def __init__(self, model, train_data, optimizer, save_every, snapshot_path):
        self.train_data, self.optimizer, self.save_every = train_data, optimizer, save_every
        self.epochs_run, self.snapshot_path, self.losses = 0, snapshot_path, []
        self.model = model
        if os.path.exists(snapshot_path):
            snapshot = torch.load(snapshot_path, weights_only=True)
            self.model.load_state_dict(snapshot["MODEL_STATE"])
            self.epochs_run = snapshot["EPOCHS_RUN"]
        self.model = DDP(self.model)

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(source), targets)
        loss.backward()
        self.optimizer.step()
        self.losses.append(mean_of(loss))

    def _run_epoch(self, epoch):
        self.train_data.sampler.set_epoch(epoch)
        for source, targets in self.train_data:
            self._run_batch(source, targets)

    def _save_snapshot(self, epoch):
        torch.save({"MODEL_STATE": self.model.module.state_dict(), "EPOCHS_RUN": epoch + 1}, self.snapshot_path)

    def train(self, max_epochs):
        for epoch in range(self.epochs_run, max_epochs):
            self._run_epoch(epoch)
            if dist.get_rank() == 0 and epoch % self.save_every == 0:
                self._save_snapshot(epoch)
        dist.barrier()


def make_trainer(path):
    dataset, model = MyTrainDataset(70), fill(nn.Linear(20, 5))
    loader = DataLoader(dataset, batch_size=8, shuffle=False, sampler=DistributedSampler(dataset, shuffle=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    return Trainer(model, loader, optimizer, 2, str(Path(path).with_suffix(".snapshot")))


def multigpu_main(rank, world_size, path):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    init_process_group(backend="gloo", rank=rank, world_size=world_size)
    trainer = make_trainer(path)
    trainer.train(3)
    write(path, trainer.losses)
    destroy_process_group()


def multigpu(path):
    mp.spawn(multigpu_main, args=(2, path), nprocs=2)


def multigpu_torchrun(path):
    """Twice in one start: the second trainer goes on from the snapshot of the first."""
    init_process_group(backend="gloo")
    first = make_trainer(path)
    first.train(3)
    again = make_trainer(path)
    again.train(5)
    write(path, first.losses + again.losses)
    destroy_process_group()


# -- "FSDP2": a transformer, sharded layer by layer --------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = (w(x).view(batch, length, self.heads, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        out = F.scaled_dot_product_attention(q, k, v)
        return self.wo(out.transpose(1, 2).reshape(batch, length, dim))


class TransformerBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = Attention(dim, heads)
        self.feed_forward = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        h = x + self.attention(self.attention_norm(x))
        return h + self.feed_forward(self.ffn_norm(h))


class Transformer(nn.Module):
    def __init__(self, vocab=11, dim=16, length=8, layers=3, heads=4):
        super().__init__()
        self.tok_embeddings, self.pos_embeddings = nn.Embedding(vocab, dim), nn.Embedding(length, dim)
        self.layers = nn.ModuleList(TransformerBlock(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.output = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens) + self.pos_embeddings(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            h = layer(h)
        return self.output(self.norm(h))


def shard(model, **settings):
    for layer in model.layers:
        fully_shard(layer, **settings)
    fully_shard(model, **settings)
    assert isinstance(model, FSDPModule)
    return model


def prefetch(model, count=2):
    for i, layer in enumerate(model.layers):
        layer.set_modules_to_forward_prefetch(list(model.layers[i + 1 : i + 1 + count]))
        layer.set_modules_to_backward_prefetch(list(model.layers[max(0, i - count) : i][::-1]))


def fsdp_steps(model, optimizer, steps, explicit):
    losses = []
    for step in steps:
        if explicit:
            model.unshard()
        tokens = (torch.arange(4 * 8) * (3 + step + dist.get_rank()) % 11).reshape(4, 8)
        out = model(tokens)
        loss = F.cross_entropy(out.float().flatten(0, 1), tokens.roll(1, 1).flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        optimizer.step()
        optimizer.zero_grad()
        losses += [mean_of(loss), norm.item()]
    return losses


def fsdp2(path, explicit=False, **settings):
    init_process_group("gloo")
    whole = fill(Transformer())
    with torch.device("meta"):
        model = Transformer()
    shard(model, **settings)
    if not explicit:
        model.to_empty(device="cpu")
    set_model_state_dict(
        model,
        whole.state_dict() if dist.get_rank() == 0 else {},
        options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True),
    )
    if explicit:
        prefetch(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = fsdp_steps(model, optimizer, range(5), explicit)
    # whole state dicts in rank 0, from which another model goes on
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    states = [get_model_state_dict(model, options=options), get_optimizer_state_dict(model, optimizer, options=options)]
    assert all(bool(state) == (dist.get_rank() == 0) for state in states)
    again = shard(fill(Transformer()), **settings)
    other = torch.optim.Adam(again.parameters(), lr=1e-2)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(again, states[0], options=options)
    set_optimizer_state_dict(again, other, states[1], options=options)
    losses += fsdp_steps(again, other, range(5, 8), False)
    write(path, losses)
    destroy_process_group()


def fsdp2_prefetch(path):
    fsdp2(path, explicit=True)


def fsdp2_mixed_precision(path):
    fsdp2(path, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))


def fsdp2_offload(path):
    fsdp2(path, offload_policy=CPUOffloadPolicy())


def whole(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


def load_whole(model, state):
    """Load whole tensors into a model on meta: each process takes its part of each of them."""
    spread = model.state_dict()
    parts = {name: distribute_tensor(t, spread[name].device_mesh, spread[name].placements) for name, t in state.items()}
    model.load_state_dict({name: nn.Parameter(part) for name, part in parts.items()}, strict=False, assign=True)
    for p in model.parameters():
        assert isinstance(p, DTensor)
        assert p.placements == (Shard(0),)
        assert p.dtype == torch.float32
    return model


def fsdp2_distributed_tensors(path):
    """Whole states are collected from, and spread over, the processes by the program itself."""
    init_process_group("gloo")
    models = []
    for _ in range(2):
        with torch.device("meta"):
            models.append(shard(Transformer()))
    model = load_whole(models[0], fill(Transformer()).state_dict())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = fsdp_steps(model, optimizer, range(3), False)
    again = load_whole(models[1], {name: whole(value) for name, value in model.state_dict().items()})
    other = torch.optim.Adam(again.parameters(), lr=1e-2)
    saved, state = optimizer.state_dict(), {}
    for (number, values), p in zip(saved["state"].items(), again.parameters(), strict=True):
        assert isinstance(values["exp_avg"], DTensor)
        state[number] = {
            key: distribute_tensor(whole(value), p.device_mesh, p.placements)
            if isinstance(value, DTensor)
            else value.clone()
            for key, value in values.items()
        }
    other.load_state_dict({"state": state, "param_groups": saved["param_groups"]})
    losses += fsdp_steps(again, other, range(3, 6), False)
    write(path, losses)
    destroy_process_group()


PROGRAMS = {
    each.__name__: each
    for each in (
        ddp_example, multigpu, multigpu_torchrun, fsdp2, fsdp2_prefetch, fsdp2_mixed_precision,
        fsdp2_offload, fsdp2_distributed_tensors,
    )
}  # fmt: skip

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](sys.argv[2])
