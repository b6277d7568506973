"""DistributedDataParallel and SyncBatchNorm in real processes, against one process with the whole batch."""

from __future__ import annotations

import copy
import os

import pytest

import gradcore as gc
import gradcore.distributed as dist
from gradcore import nn
from gradcore.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from gradcore.nn import functional as F
from gradcore.nn.parallel import DistributedDataParallel as DDP

#: Capacity of buckets, in megabytes, of which small modules have several.
SMALL = 0.0005
#: Steps of trajectories, from the environment; by default 100 with two processes of MPI, and fewer elsewhere.
STEPS = int(os.environ.get("STEPS", "0"))


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def drawn(*shape, seed=0):
    return gc.randn(*shape, generator=gc.Generator().manual_seed(seed), dtype=gc.float64)


def mlp():
    return nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 3)).double()


def cnn():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4, momentum=None),
        nn.Tanh(), nn.Flatten(), nn.Linear(64, 3),
    ).double()  # fmt: skip


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 3)
        self.double()

    def forward(self, x):
        return self.head(self.layer(x).mean(1))


def made(make, seed):
    gc.manual_seed(seed)
    return make()


def train(model, shape, part, optimizer):
    """Train, and return the losses. `part` returns this process's share of a batch."""
    losses = []
    for step in range(STEPS or (100 if size() == 2 and dist.get_backend() == "mpi" else 15)):
        x, y = drawn(4 * size(), *shape, seed=step), drawn(4 * size(), 3, seed=1000 + step)
        loss = F.mse_loss(model(part(x)), part(y))
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return gc.stack(losses)


def own(x):
    return x[rank() :: size()]


def same_everywhere(model):
    flat = gc.cat([p.detach().reshape(-1) for p in model.parameters()])
    found = [gc.empty_like(flat) for _ in range(size())]
    dist.all_gather(found, flat)
    assert all(gc.equal(each, flat) for each in found)
    return flat


def compare(make, shape, sync=False, optimizer=lambda p: gc.optim.SGD(p, 0.05, momentum=0.9), **settings):
    whole = made(make, 0)
    wanted = train(whole, shape, lambda x: x, optimizer(whole.parameters()))
    finals = []
    for _ in range(2):
        model = made(make, rank())  # rank 0 has the same, and the others get it
        if sync:
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        model = DDP(model, **settings)
        losses = train(model, shape, own, optimizer(model.parameters()))
        finals.append(same_everywhere(model))
    assert gc.equal(*finals)  # bit for bit
    dist.all_reduce(losses, dist.ReduceOp.AVG)
    assert gc.allclose(losses, wanted, rtol=1e-7), (losses - wanted).abs().max()
    assert gc.allclose(finals[0], gc.cat([p.reshape(-1) for p in whole.parameters()]), rtol=1e-6, atol=1e-9)
    for a, b in zip(model.buffers(), whole.buffers(), strict=True):
        assert gc.allclose(a.double(), b.double(), rtol=1e-6, atol=1e-9)
    return model


def check_trajectory_of_mlp():
    compare(mlp, (6,))
    model = compare(mlp, (6,), bucket_cap_mb=SMALL, optimizer=lambda p: gc.optim.Adam(p, 0.01))
    assert model._reducer.rebuilt
    assert len(model._reducer.buckets) > 2


def check_trajectory_of_cnn_with_synchronized_statistics():
    compare(cnn, (2, 8, 8), sync=True, bucket_cap_mb=SMALL)


def check_trajectory_of_transformer():
    compare(Transformer, (5, 8), bucket_cap_mb=SMALL, optimizer=lambda p: gc.optim.AdamW(p, 0.003))


def check_gradients_as_views_of_buckets():
    model = compare(mlp, (6,), gradient_as_bucket_view=True, bucket_cap_mb=SMALL)
    buffers = {b._buffer.untyped_storage().data_ptr() for b in model._reducer.buckets}
    assert {p.grad.untyped_storage().data_ptr() for p in model.parameters()} == buffers


def check_static_graph():
    compare(mlp, (6,), static_graph=True, bucket_cap_mb=SMALL)


def check_unused_parameters_that_are_searched_for():
    compare(mlp, (6,), find_unused_parameters=True, bucket_cap_mb=SMALL)


def check_no_sync():
    model = DDP(made(mlp, 0), bucket_cap_mb=SMALL)
    xs = [drawn(4, 6, seed=10 * i + rank()) for i in range(3)]
    with model.no_sync():
        for x in xs[:2]:
            model(x).square().mean().backward()
    local = [p.grad.clone() for p in model.parameters()]
    model(xs[2]).square().mean().backward()
    whole = made(mlp, 0)
    for i in range(3):
        for r in range(size()):
            (whole(drawn(4, 6, seed=10 * i + r)).square().mean() / size()).backward()
    for p, q, own_grad in zip(model.parameters(), whole.parameters(), local, strict=True):
        assert gc.allclose(p.grad, q.grad)
        assert not gc.allclose(own_grad, q.grad)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(3, 3).double() for _ in range(3))

    def forward(self, x, use):
        return {"out": [self.a(x) if "a" in use else x, self.b(x) if "b" in use else None]}


def check_parameters_that_some_processes_do_not_use():
    model = DDP(made(Branches, 0), find_unused_parameters=True, bucket_cap_mb=SMALL)
    x = drawn(2, 3)
    for _ in range(3):
        model.zero_grad()
        out = model(x, "ab" if rank() == 0 else "a")["out"]
        sum(t.sum() for t in out if t is not None).backward()
        assert model.module.c.weight.grad is None  # nobody has used it
        whole = made(Branches, 0)
        whole.b(x).sum().backward()
        assert gc.allclose(model.module.b.weight.grad, whole.b.weight.grad / size())
    model = DDP(made(Branches, 0), static_graph=True, bucket_cap_mb=SMALL)
    for _ in range(3):
        model.zero_grad()
        sum(t.sum() for t in model(x, "ab")["out"]).backward()
        assert model.module.c.weight.grad is None
        assert gc.allclose(model.module.b.weight.grad, whole.b.weight.grad)


def check_unfinished_reductions_are_errors():
    model = DDP(made(Branches, 0), bucket_cap_mb=SMALL)
    model(drawn(2, 3), "ab")["out"][0].sum().backward()
    with pytest.raises(RuntimeError, match=r"prior iteration.*b\.weight.*c\.weight"):
        model(drawn(2, 3), "a")
    dist.barrier()
    model = DDP(made(mlp, 0))
    loss = model(drawn(2, 6)).sum()
    with pytest.raises(RuntimeError, match="create_graph"):
        loss.backward(create_graph=True)
    dist.barrier()
    model = DDP(made(mlp, 0))
    loss = model(drawn(2, 6)).sum()
    loss.backward(retain_graph=True)
    with pytest.warns(UserWarning, match="not reduced"):
        loss.backward()


def check_modules_that_differ_are_errors():
    with pytest.raises(RuntimeError, match="rank 1"):
        DDP(nn.Linear(3, 2 + (rank() == 1)))
    with pytest.raises(RuntimeError, match="any parameters that require a gradient"):
        DDP(nn.ReLU())


def check_buffers_and_state():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    module[1].running_mean.fill_(float(rank()))
    model = DDP(module)
    assert module[1].running_mean.tolist() == [0.0] * 4
    assert next(iter(model.state_dict())) == "module.0.weight"
    for seed in (1, 2):
        model(gc.randn(5, 3, generator=gc.Generator().manual_seed(seed + 10 * rank()))).sum().backward()
    model(gc.ones(5, 3))  # begins with what rank 0 has
    assert model.module[1].num_batches_tracked.item() == 3
    means = [gc.empty(4) for _ in range(size())]
    model.eval()
    model(gc.ones(5, 3))
    dist.all_gather(means, model.module[1].running_mean)
    assert all(gc.equal(mean, means[0]) for mean in means)


def check_hooks_of_communication():
    grads = {}
    state = powerSGD_hook.PowerSGDState(None, 4, start_powerSGD_iter=2, min_compression_rate=0.1)
    for name, (hook_state, hook) in {
        "allreduce": (None, default_hooks.allreduce_hook),
        "fp16": (None, default_hooks.fp16_compress_hook),
        "bf16": (None, default_hooks.bf16_compress_hook),
        "wrapped": (None, default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)),
        "power": (state, powerSGD_hook.powerSGD_hook),
    }.items():
        model = DDP(made(mlp, 0), bucket_cap_mb=SMALL)
        model.register_comm_hook(hook_state, hook)
        for _ in range(6):  # one gradient, which the power iteration finds
            model.zero_grad()
            model(drawn(3, 6, seed=rank())).square().mean().backward()
        grads[name] = gc.cat([p.grad.reshape(-1) for p in model.parameters()])
    whole = made(mlp, 0)
    sum(whole(drawn(3, 6, seed=r)).square().mean() / size() for r in range(size())).backward()
    wanted = gc.cat([p.grad.reshape(-1) for p in whole.parameters()])
    scale = wanted.abs().max()
    for name, bound in {"allreduce": 1e-12, "fp16": 1e-3, "bf16": 1e-2, "wrapped": 1e-3, "power": 0.2}.items():
        assert (grads[name] - wanted).abs().max() / scale < bound, name
    with pytest.raises(RuntimeError, match="only be called once"):
        model.register_comm_hook(None, default_hooks.allreduce_hook)
    with pytest.raises(ValueError, match="start_powerSGD_iter"):
        powerSGD_hook.PowerSGDState(start_powerSGD_iter=1)


def check_rounded_gradients_are_half_of_the_bytes():
    if dist.get_backend() == "nccl":
        return  # which sums halves itself
    sent = {}
    for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook, default_hooks.bf16_compress_hook):
        model = DDP(made(lambda: nn.Linear(301, 7), 0))
        model.register_comm_hook(None, hook)
        engine, total = dist.group.WORLD.engines["cpu"], []
        plain = engine._call

        def counting(start, *arrays, plain=plain, total=total, **settings):
            flat = [a[0] if isinstance(a, list) else a for a in arrays]
            total += [a.nbytes for a in flat if hasattr(a, "nbytes")]
            return plain(start, *arrays, **settings)

        engine._call = counting
        try:
            model(drawn(4, 301, seed=rank()).float()).square().mean().backward()
        finally:
            del engine._call
        sent[hook] = sum(total)  # both sides of exchanges, and all_reduce works in place: the same in both directions
        grads = [p.grad.clone() for p in model.parameters()]
        whole = made(lambda: nn.Linear(301, 7), 0)
        for r in range(size()):
            (whole(drawn(4, 301, seed=r).float()).square().mean() / size()).backward()
        for found, p in zip(grads, whole.parameters(), strict=True):
            assert gc.allclose(found, p.grad, rtol=0.02, atol=1e-3)
    exact, *rounded = sent.values()
    for each in rounded:  # sent and received once, then a share sent and the whole received; for each number two bytes
        assert each < exact / 2 * (3 + 1 / size()) * 1.01
    flat = gc.tensor([1.0 if rank() == 0 else 2.0**-13] * 5)
    bucket = type("Bucket", (), {"buffer": lambda self: flat})()
    (found,) = {*default_hooks.fp16_compress_hook(None, bucket).wait().tolist()}
    assert found == gc.tensor((1.0 + (size() - 1) * 2.0**-13) / size()).half().item()  # summed in float32


def check_power_iteration_of_thin_matrices_is_exact():
    model = DDP(nn.Linear(30, 20, bias=False).double())
    state = powerSGD_hook.PowerSGDState(None, 2 * size(), start_powerSGD_iter=2, min_compression_rate=0.1)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    for step in range(4):  # two samples in each process: a gradient of that rank
        model.zero_grad()
        x, w = drawn(2, 30, seed=step + 10 * rank()), drawn(2, 20, seed=100 + rank())
        (model(x) * w).sum().backward()
    wanted = sum(drawn(2, 20, seed=100 + r).mT @ drawn(2, 30, seed=3 + 10 * r) for r in range(size())) / size()
    assert gc.allclose(model.module.weight.grad, wanted)
    assert state.error_dict[0].abs().max() >= 0


def check_uneven_inputs():
    for find in (False, True):
        for by_all in (True, False):
            model = DDP(made(mlp, 0), find_unused_parameters=find, bucket_cap_mb=SMALL)
            optimizer = gc.optim.SGD(model.parameters(), 0.1)
            whole = made(mlp, 0)
            other = gc.optim.SGD(whole.parameters(), 0.1)
            with model.join(divide_by_initial_world_size=by_all):
                for step in range(2 + 2 * rank()):  # the last rank has most
                    optimizer.zero_grad()
                    model(drawn(3, 6, seed=step + 10 * rank())).square().mean().backward()
                    optimizer.step()
            for step in range(2 * size()):
                active = [r for r in range(size()) if step < 2 + 2 * r]
                other.zero_grad()
                for r in active:
                    (
                        whole(drawn(3, 6, seed=step + 10 * r)).square().mean() / (size() if by_all else len(active))
                    ).backward()
                other.step()
            flat = same_everywhere(model)
            assert gc.allclose(flat, gc.cat([p.reshape(-1) for p in whole.parameters()]))

    def train_unevenly():
        with model.join(throw_on_early_termination=True):
            for _ in range(1 + rank()):
                model(drawn(3, 6)).sum().backward()

    with pytest.raises(RuntimeError, match="no more inputs"):
        train_unevenly()


def check_synchronized_statistics():
    for shape in ((5,), (5, 4), (5, 2, 3)):
        whole, layer = nn.BatchNorm1d(5).double(), nn.SyncBatchNorm(5).double()
        if len(shape) == 3:
            whole = nn.BatchNorm2d(5).double()
        rows = [1 + i for i in range(size())]  # uneven
        X = drawn(sum(rows), *shape).requires_grad_()
        start = sum(rows[: rank()])
        x = X.detach()[start : start + rows[rank()]].clone().requires_grad_()
        weights = drawn(*X.shape, seed=5)
        own_weights = weights[start : start + rows[rank()]]
        (g,) = gc.autograd.grad((layer(x).sin() * own_weights).sum(), x, create_graph=True)
        (G,) = gc.autograd.grad((whole(X).sin() * weights).sum(), X, create_graph=True)
        part = slice(start, start + rows[rank()])
        assert gc.allclose(g, G[part])
        (h,) = gc.autograd.grad((g.sin() * own_weights).sum(), x)
        (H,) = gc.autograd.grad((G.sin() * weights).sum(), X)
        assert gc.allclose(h, H[part])
        for a, b in zip(layer.buffers(), whole.buffers(), strict=True):
            assert gc.allclose(a.double(), b.double())
        layer.eval()
        whole.eval()
        assert gc.allclose(layer(x), whole(X)[part])


def check_samplers_share_a_dataset():
    sampler = gc.utils.data.DistributedSampler(range(10), shuffle=True, drop_last=False)
    mine = list(sampler)
    found = [None] * size()
    dist.all_gather_object(found, mine)
    assert {i for each in found for i in each} == set(range(10))
    assert len({len(each) for each in found}) == 1


def check_communication_is_timed():
    model = DDP(made(mlp, 0))
    model(drawn(4, 6)).sum().backward()
    times = model._get_ddp_logging_data()
    assert times["communication"] > 0
    assert times["backward"] > 0


def check_sparse_gradients_of_tables():
    """Tables with sparse gradients get the sparse mean; some processes use rows that others do not, or none."""
    for bag in (False, True):
        gc.manual_seed(0)
        kind = gc.nn.EmbeddingBag if bag else gc.nn.Embedding
        options = {"mode": "sum"} if bag else {}
        table = kind(20, 3, sparse=True, **options)
        layer = gc.nn.Linear(3, 2)
        reference = kind(20, 3, **options)
        reference.load_state_dict(table.state_dict())

        class Model(gc.nn.Module):
            def __init__(self, table=table, layer=layer):
                super().__init__()
                self.table, self.layer = table, layer

            def forward(self, x):
                return self.layer(self.table(x))

        model = DDP(Model(), find_unused_parameters=True)
        batches = [gc.tensor([[k, k + 1, 7], [k, k, 0]]) for k in range(size())]
        plain = copy.deepcopy(layer)
        for _ in range(2):
            model.zero_grad()
            model(batches[rank()]).square().sum().backward()
            assert table.weight.grad.is_sparse
            reference.zero_grad()
            sum(plain(reference(x)).square().sum() for x in batches).backward()
            expected = reference.weight.grad / size()
            assert gc.allclose(table.weight.grad.to_dense(), expected, atol=1e-6)
