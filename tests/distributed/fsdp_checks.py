"""fully_shard in real processes, against one process with the whole batch."""

from __future__ import annotations

import copy
import tempfile
import tracemalloc

import pytest

import gradcore as gc
import gradcore.distributed as dist
from gradcore import nn
from gradcore.distributed import checkpoint
from gradcore.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from gradcore.distributed.fsdp import MixedPrecisionPolicy, ShardedParameter, fully_shard
from gradcore.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from tests.distributed.ddp_checks import Transformer, cnn, drawn, made, mlp, own, rank, size, train


def sharded(model, **settings):
    """Shard a model with one unit per layer that has parameters."""
    for layer in model.children():
        if any(True for _ in layer.parameters()):
            fully_shard(layer, **settings)
    return fully_shard(model, **settings)


def whole(p):
    """All elements of a parameter."""
    out = gc.empty(p.numel() * size(), dtype=p.dtype)
    dist.all_gather_into_tensor(out, p.detach())
    return out[: p.full_numel].view(p.full_shape)


def compare(make, shape, sync=False, optimizer=lambda p: gc.optim.SGD(p, 0.05, momentum=0.9), **settings):
    alone = made(make, 0)
    wanted = train(alone, shape, lambda x: x, optimizer(alone.parameters()))
    model = made(make, rank())  # the values are those of rank 0
    if sync:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    model = sharded(model, **settings)
    assert all(type(p) is ShardedParameter for p in model.parameters())
    losses = train(model, shape, own, optimizer(model.parameters()))
    dist.all_reduce(losses, dist.ReduceOp.AVG)
    assert gc.allclose(losses, wanted, rtol=1e-7), (losses - wanted).abs().max()
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        assert gc.allclose(whole(p), q, rtol=1e-6, atol=1e-9)
    for a, b in zip(model.buffers(), alone.buffers(), strict=True):
        assert gc.allclose(a.double(), b.double(), rtol=1e-6, atol=1e-9)
    return model


def check_trajectory_of_mlp():
    compare(mlp, (6,))
    compare(mlp, (6,), optimizer=lambda p: gc.optim.Adam(p, 0.01), reshard_after_forward=False)


def check_trajectory_of_cnn_with_synchronized_statistics():
    compare(cnn, (2, 8, 8), sync=True)


def check_trajectory_of_transformer():
    model = compare(Transformer, (5, 8), optimizer=lambda p: gc.optim.AdamW(p, 0.003))
    assert model.head.weight.numel() == -(-24 // size())


def check_gradients_are_those_of_one_process():
    alone, model = made(mlp, 0), sharded(made(mlp, 0))
    xs = [drawn(4, 6, seed=10 * i + rank()) for i in range(2)]
    for x in xs:  # summed, as no step is made between
        model(x).square().mean().backward()
    for i in range(2):
        for r in range(size()):
            (alone(drawn(4, 6, seed=10 * i + r)).square().mean() / size()).backward()
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        out = gc.empty(p.numel() * size(), dtype=p.dtype)
        dist.all_gather_into_tensor(out, p.grad)
        assert gc.allclose(out[: p.full_numel].view(p.full_shape), q.grad)
    wanted = nn.utils.clip_grad_norm_(alone.parameters(), 0.1)
    found = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    assert gc.allclose(found, wanted)
    part = alone[0].weight.grad.reshape(-1)[model[0].weight.start :][: model[0].weight.numel()]
    assert gc.allclose(model[0].weight.grad[: part.numel()], part)
    infinite = float("inf")
    assert gc.allclose(
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, infinite),
        nn.utils.clip_grad_norm_(alone.parameters(), 1.0, infinite),
    )
    loss = model(xs[0]).sum()
    with pytest.raises(RuntimeError, match="create_graph"):
        loss.backward(create_graph=True)


class Twice(nn.Module):
    """A layer that runs twice, weights that two modules share, one that is frozen, and one that is saved as a view."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(4, 4).double() for _ in range(3))
        self.b.weight = self.a.weight
        self.c.requires_grad_(False)
        self.scale = nn.Parameter(gc.ones(4, 2, dtype=gc.float64))

    def forward(self, x):
        return self.c(self.b(self.a(self.a(x)).tanh())).exp() @ (self.scale.T.T * 2)


def check_shared_frozen_and_repeated_parameters():
    from gradcore.utils.checkpoint import checkpoint

    for reshard in (True, False, None):
        for recompute in (False, True):
            alone, model = made(Twice, 0), made(Twice, rank())
            fully_shard(model.c, reshard_after_forward=reshard)
            fully_shard(model, reshard_after_forward=reshard)
            assert model.a.weight is model.b.weight
            x = drawn(3, 4, seed=rank())
            for _ in range(2):
                out = checkpoint(model, x, use_reentrant=False) if recompute else model(x)
                out.sum().backward()
                for r in range(size()):
                    (alone(drawn(3, 4, seed=r)).sum() / size()).backward()
            for (name, p), q in zip(model.named_parameters(), alone.parameters(), strict=True):
                if not q.requires_grad:
                    assert p.grad is None
                    continue
                out = gc.empty(p.numel() * size(), dtype=p.dtype)
                dist.all_gather_into_tensor(out, p.grad)
                assert gc.allclose(out[: p.full_numel].view(p.full_shape), q.grad), name
            with gc.no_grad():
                assert gc.allclose(model(x), alone(x))


def check_mixed_precision():
    seen = []
    policy = MixedPrecisionPolicy(gc.bfloat16, gc.float32, gc.float32)
    model = made(lambda: nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 3)), 0)
    model[0].register_forward_pre_hook(lambda m, args: seen.append((args[0].dtype, m.weight.dtype)))
    alone = made(lambda: nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 3)), 0)
    sharded(model, mp_policy=policy)
    x = drawn(5, 6).float()
    out = model(x)
    assert out.dtype is gc.float32
    assert seen == [(gc.bfloat16, gc.bfloat16)]
    out.square().mean().backward()
    alone(x).square().mean().backward()
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        assert p.dtype is p.grad.dtype is gc.float32
        found = gc.empty(p.numel() * size())
        dist.all_gather_into_tensor(found, p.grad)
        assert gc.allclose(found[: p.full_numel].view(p.full_shape), q.grad, rtol=0.1, atol=0.01)


def check_checkpoints_of_any_number_of_processes():
    from gradcore.distributed import checkpoint
    from tests.distributed.sharded_checks import folder

    def adam(p):
        return gc.optim.Adam(p, 0.01)

    alone, model = made(mlp, 0), sharded(made(mlp, 0))
    wanted, optimizer = adam(alone.parameters()), adam(model.parameters())
    train(alone, (6,), lambda x: x, wanted)
    train(model, (6,), own, optimizer)
    parts, path = folder(), folder()
    states = get_state_dict(model, optimizer)
    checkpoint.save({"model": states[0], "optimizer": states[1]}, checkpoint_id=parts)
    # one process reads what several have written
    single, other = made(mlp, 1), None
    other = adam(single.parameters())
    found = get_state_dict(single, other)
    state = {"model": found[0], "optimizer": found[1]}
    checkpoint.load(state, checkpoint_id=parts)
    set_state_dict(single, other, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    for p, q in zip(single.parameters(), alone.parameters(), strict=True):
        assert gc.allclose(p, q, rtol=1e-6, atol=1e-9)
        assert gc.allclose(other.state[p]["exp_avg"], wanted.state[q]["exp_avg"], rtol=1e-6, atol=1e-9)
    # processes read what one has written, in another cut
    checkpoint.save(
        {"model": alone.state_dict(), "optimizer": get_optimizer_state_dict(alone, wanted)}, checkpoint_id=path
    )
    again = sharded(made(mlp, 1))
    later = adam(again.parameters())
    found = get_state_dict(again, later)
    state = {"model": found[0], "optimizer": found[1]}
    checkpoint.load(state, checkpoint_id=path)
    set_state_dict(again, later, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    train(alone, (6,), lambda x: x, wanted)
    train(again, (6,), own, later)
    for p, q in zip(again.parameters(), alone.parameters(), strict=True):
        assert gc.allclose(whole(p), q, rtol=1e-6, atol=1e-9)
    # half of the processes read what all have written
    few = dist.new_group([0])
    if rank() == 0:
        alone_again = fully_shard(made(mlp, 2), mesh=few)
        state = get_model_state_dict(alone_again)
        checkpoint.load({"model": state}, checkpoint_id=parts)
        assert gc.allclose(alone_again[0].weight.detach().view(20, 6), single[0].weight)
    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    assert full["0.weight"].shape == (20, 6)
    assert gc.allclose(full["0.weight"], single[0].weight)
    set_model_state_dict(again, full)
    assert gc.equal(whole(again[2].bias), full["2.bias"])


def check_infinite_gradients_stop_the_step_of_all_processes():
    model = sharded(made(mlp, 0).float())
    optimizer = gc.optim.SGD(model.parameters(), 0.1)
    scaler = gc.amp.GradScaler("cpu", init_scale=4.0)
    before = [p.detach().clone() for p in model.parameters()]
    scaler.scale(model(drawn(4, 6).float()).sum()).backward()
    if rank() == 0:
        model[0].weight.grad[0] = float("inf")
    scaler.step(optimizer)
    scaler.update()
    assert all(gc.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
    assert scaler.get_scale() == 2.0


def check_memory():
    """Model, gradients and optimiser state in parts, and twice the largest module."""
    if dist.get_backend() == "nccl":
        return  # memory of the device is not traced
    width, layers, units = 256, 8, 4
    blocks = [nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)]) for _ in range(units)]
    model = sharded(nn.Sequential(*blocks))
    model.set_prefetch(False)
    optimizer = gc.optim.Adam(model.parameters())
    x = gc.ones(1, width)
    for _ in range(2):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    peaks = []  # of what forward and backward have allocated, gradients among it; more where another process is late
    for _ in range(4):
        optimizer.zero_grad()
        dist.barrier()
        tracemalloc.start()
        model(x).sum().backward()
        gradients = sum(p.grad.nbytes for p in model.parameters())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    peak = min(peaks)
    parts = sum(t.nbytes for p in model.parameters() for t in (p.detach(), *optimizer.state[p].values()))
    module = 4 * layers * (width * width + width)
    assert parts + gradients < 1.01 * 4 * units * module / size()
    # A module's parameters arrive in one buffer, out of which they are copied, and leave as gradients by another.
    assert parts + peak < 1.1 * (parts + gradients + 2 * module), (parts, peak, gradients, module)


def counted(model, xs):
    """Return the numbers of collectives of a forward and a backward."""
    from gradcore.autograd import profiler

    with profiler.profile() as prof:
        for x in xs:
            model(x).square().sum().backward()
    names = [event.name for event in prof.function_events if event.name.startswith("gradcore::")]
    return [names.count(f"gradcore::{name}") for name in ("all_gather_into_tensor", "reduce_scatter_tensor")]


def check_each_unit_makes_three_collectives():
    units = 4
    model = sharded(
        made(lambda: nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)) for _ in range(units))), 0)
    )
    model.double()
    model(drawn(3, 8)).sum().backward()
    assert counted(model, [drawn(3, 8)]) == [2 * units, units]
    model.set_requires_gradient_sync(False)
    assert counted(model, [drawn(3, 8)] * 2) == [4 * units, 0]
    model.set_requires_gradient_sync(True)
    assert counted(model, [drawn(3, 8)]) == [2 * units, units]


def check_gradients_are_summed_before_they_are_reduced():
    for unused in (False, True):
        alone, model = made(mlp, 0), sharded(made(mlp, 0))
        xs = [drawn(4, 6, seed=10 * i + rank()) for i in range(3)]
        for i, x in enumerate(xs):
            model.set_requires_gradient_sync(i == 2)
            (model[0](x) if unused and i == 2 else model(x)).square().mean().backward()
            assert all((p.grad is not None) == (i == 2) for p in model.parameters()) or unused
        for i in range(3):
            for r in range(size()):
                x = drawn(4, 6, seed=10 * i + r)
                ((alone[0](x) if unused and i == 2 else alone(x)).square().mean() / size()).backward()
        model[2](model[0](xs[0])).sum().backward() if unused else None
        if unused:
            for r in range(size()):
                (alone[2](alone[0](drawn(4, 6, seed=r))).sum() / size()).backward()
        for p, q in zip(model.parameters(), alone.parameters(), strict=True):
            out = gc.empty(p.numel() * size(), dtype=p.dtype)
            dist.all_gather_into_tensor(out, p.grad)
            assert gc.allclose(out[: p.full_numel].view(p.full_shape), q.grad)


def check_models_that_begin_on_meta():
    def make():
        return nn.Sequential(
            nn.Linear(6, 20), nn.BatchNorm1d(20), nn.Conv1d(20, 3, 1), nn.Embedding(5, 4, padding_idx=2),
            nn.MultiheadAttention(4, 2), nn.LSTM(3, 2),
        )  # fmt: skip

    with gc.device("meta"):
        model = make()
    sharded(model)
    assert all(p.is_meta and p.full_shape for p in model.parameters())
    with pytest.raises(RuntimeError, match="on the device 'meta'"):
        model[0](gc.ones(2, 6))
    model.to_empty(device=f"cuda:{rank()}" if dist.get_backend() == "nccl" else "cpu")
    gc.manual_seed(5 + 100 * rank())  # rank 0 decides
    for layer in model:
        for inner in layer.modules():
            for name in ("reset_parameters", "_reset_parameters"):
                getattr(inner, name, lambda: None)()
    alone = make()
    gc.manual_seed(5)
    for layer in alone:
        for inner in layer.modules():
            for name in ("reset_parameters", "_reset_parameters"):
                getattr(inner, name, lambda: None)()
    for (name, p), q in zip(model.named_parameters(), alone.parameters(), strict=True):
        assert type(p) is ShardedParameter
        assert gc.equal(p.full_tensor(), q), name
    for a, b in zip(model.buffers(), alone.buffers(), strict=True):
        assert gc.equal(a, b)
    model[0](gc.ones(2, 6)).sum().backward()
    # functions of nn.init, and random methods, see whole parameters
    weights = model[0].weight, alone[0].weight
    for function in (
        nn.init.xavier_uniform_,
        nn.init.orthogonal_,
        nn.init.eye_,
        nn.init.normal_,
        lambda w: w.uniform_(),
    ):
        for seed, weight in zip((7 + rank(), 7), weights, strict=True):
            gc.manual_seed(seed)
            with gc.no_grad():
                assert function(weight) is weight
        assert gc.equal(weights[0].full_tensor(), weights[1])


def check_state_dicts_are_loaded_into_models_on_meta():
    def make():
        return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3, bias=False))

    where = f"cuda:{rank()}" if dist.get_backend() == "nccl" else "cpu"
    gc.manual_seed(3)
    whole = make().to(where)
    whole(gc.ones(2, 5))  # changes the buffers
    for from_rank_0 in (False, True):
        for shards in (True, False):
            with gc.device("meta"):
                model = make()
            model[2].requires_grad_(False)
            if shards:
                sharded(model)
            state = whole.state_dict() if rank() == 0 or not from_rank_0 else {}
            options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=from_rank_0)
            set_model_state_dict(model, state, options=options)
            for (name, t), expected in zip(model.state_dict().items(), whole.state_dict().values(), strict=True):
                assert t.device == expected.device, name
                assert gc.equal(t.full_tensor() if isinstance(t, DTensor) else t, expected), name
            assert [p.requires_grad for p in model.parameters()] == [True] * 4 + [False]
            for a, b in zip(model.state_dict().values(), state.values(), strict=False):
                assert a.data_ptr() != b.data_ptr()
            assert gc.allclose(model.eval()(gc.ones(2, 5)), whole.eval()(gc.ones(2, 5)))
            model.train()(gc.ones(2, 5)).sum().backward()
            assert all((p.grad is not None) == p.requires_grad for p in model.parameters())
            whole.train()


def check_parameters_are_gathered_by_hand_and_ahead():
    model = sharded(made(mlp, 0))
    first, last = model[0], model[2]
    x = drawn(4, 6)
    wanted = model(x).detach()
    first.set_modules_to_forward_prefetch([last])
    last.set_modules_to_backward_prefetch([first])
    assert gc.equal(model(x), wanted)
    handle = last.unshard(async_op=True)
    handle.wait()
    first.unshard()
    assert counted(model, [x]) == [1 + 3, 3]  # one in forward, three in backward
    model.set_reshard_after_backward(False)
    model.set_reshard_after_forward(False)
    model(x).sum().backward()
    assert counted(model, [x]) == [0, 3]
    assert gc.allclose(model(x), wanted)
    assert gc.equal(first.weight.to_local(), first.weight)
    model.reshard()


def trained_once(seed):
    """Return a sharded model and its optimizer, after one step."""
    model = sharded(made(mlp, seed))
    optimizer = gc.optim.Adam(model.parameters(), 0.01)
    model(gc.ones(2, 6, dtype=gc.float64) * (1 + rank())).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


def whole_values(state):
    """Return the unsharded tensors of a nested dict, by path."""
    found = {}
    for key, value in state.items():
        if isinstance(value, dict):
            found |= {(key, *rest): each for rest, each in whole_values(value).items()}
        elif isinstance(value, gc.Tensor):
            found[key,] = value.full_tensor() if isinstance(value, DTensor) else value.clone()
    return found


def check_state_dicts_say_how_tensors_are_spread():
    """Checkpoints of plain state dicts, copies, files, and parameters that are assigned."""
    model, optimizer = trained_once(0)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    values = whole_values(state)
    assert sum(isinstance(v, DTensor) for v in state["model"].values()) == len(list(model.parameters()))
    assert all(p.placements == (Shard(0),) and p.device_mesh.size() == size() for p in model.parameters())
    assert not any(isinstance(v, DTensor) for each in optimizer.state.values() for v in each.values())
    copied = copy.deepcopy(state)
    folder = [tempfile.mkdtemp() if rank() == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    checkpoint.save(state, checkpoint_id=folder[0])
    gc.save(state, f"{folder[0]}/{rank()}.state")
    other, other_optimizer = trained_once(1)
    read = {"model": other.state_dict(), "optimizer": other_optimizer.state_dict()}
    checkpoint.load(read, checkpoint_id=folder[0])
    for found in (read, copied):
        assert all(gc.equal(a, b) for a, b in zip(whole_values(found).values(), values.values(), strict=True))
    own_parts = gc.load(f"{folder[0]}/{rank()}.state")["model"]
    assert all(gc.equal(part, state["model"][name].to_local()) for name, part in own_parts.items())
    with gc.device("meta"):
        assigned = mlp().double()
    assigned = sharded(assigned)
    spread = {name: distribute_tensor(values["model", name]) for name in state["model"]}
    assigned.load_state_dict({name: nn.Parameter(part) for name, part in spread.items()}, assign=True)
    assert all(type(p) is ShardedParameter for p in assigned.parameters())
    assigned_optimizer = gc.optim.Adam(assigned.parameters(), 0.01)
    for each in (other_optimizer, assigned_optimizer):
        each.load_state_dict(copy.deepcopy(read["optimizer"]))
    other.load_state_dict(read["model"])
    for net, steps in ((model, optimizer), (other, other_optimizer), (assigned, assigned_optimizer)):
        net(gc.ones(2, 6, dtype=gc.float64) * (2 + rank())).square().sum().backward()
        steps.step()
    for p, *others in zip(*(net.parameters() for net in (model, other, assigned)), strict=True):
        assert all(gc.equal(p.full_tensor(), q.full_tensor()) for q in others)
    with pytest.raises(NotImplementedError, match="distribute_tensor: placements"):
        distribute_tensor(gc.ones(2, 3), model[0].weight.device_mesh, [Replicate()])
    with pytest.raises(RuntimeError, match=r"cannot be replaced|size mismatch"):
        assigned.load_state_dict({"0.weight": gc.ones(7, 7)}, strict=False, assign=True)
