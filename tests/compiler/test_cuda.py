"""Programs on CUDA: generated kernels of groups, one graph with the program in it, streams, memory."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import gradcore as gc
from gradcore import nn
from gradcore.backends import registry
from gradcore.backends.portable import separable
from gradcore.compiler.function import CompiledFunction
from gradcore.compiler.program.passes import optimize
from gradcore.compiler.targets.cuda.groups import fuse_on_cuda
from tests.compiler.test_programs import equal
from tests.compiler.test_steps import Net
from tests.on_device.test_launches import launches

pytestmark = pytest.mark.cuda
if registry.unavailable("cuda"):
    pytest.skip(f"no CUDA device: {registry.unavailable('cuda')}", allow_module_level=True)
F = nn.functional


def randn(*shape: int, **settings: Any) -> gc.Tensor:
    return gc.randn(*shape, device="cuda", **settings)


def states(compiled: CompiledFunction) -> list[str]:
    """Return the states of the graphs of all segments."""
    return [run.state for entry in compiled._specializations for run in entry.functions]


def graphed(function: Any, calls: int = 4, *args: Any, graphs: str = "equal") -> CompiledFunction:
    """Compile a function, and call it until it is captured."""
    compiled = CompiledFunction(function, fullgraph=True, graphs=graphs)
    for _ in range(calls + 2):
        compiled(*args)
    assert states(compiled)
    assert all("captured, " in state for state in states(compiled)), states(compiled)
    return compiled


def chain(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
    for _ in range(3):
        x = (x * y + x).tanh() * 0.5 - y
    return (x.sum(0) * y - x) * y


def test_groups_are_generated_kernels_with_the_same_bits() -> None:
    compiled = CompiledFunction(chain, fullgraph=True)
    for seed in range(6):
        gc.manual_seed(seed)
        x, y = randn(5, 4, requires_grad=True), randn(4, requires_grad=True)
        found, wanted = compiled(x, y), chain(x, y)
        upstream = randn(5, 4)
        assert equal(found, wanted)
        assert equal(gc.autograd.grad(found, (x, y), upstream), gc.autograd.grad(wanted, (x, y), upstream))
    text = compiled.explain(x, y)
    assert "CUDA of the program:" in text
    assert "group 0 of the program (one kernel of" in text
    assert "CUDA of the backward:" in text
    forward = compiled._specializations[0].functions[0]
    assert forward.groups == 2  # before the sum, and after it


def rounded_often(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
    for _ in range(2):
        x = (x * y + x).tanh() * 0.3 - y
    z = (x.sigmoid() * 1.7 + 2.3 * y) / (y * y + 1)
    w = F.gelu(z) + F.silu(x) * (y > 0) + gc.where(x > y, x, y * 0.7) ** 2 - z.exp().clamp(0.1, 3)
    return (w - x.sum(0)).abs() * gc.maximum(x, z) + x.float().to(x.dtype)


@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16])
def test_groups_of_16_bit_floats_round_as_single_calls_do(dtype: gc.dtype) -> None:
    compiled = CompiledFunction(rounded_often, fullgraph=True)
    for seed in range(5):
        gc.manual_seed(seed)
        x, y = ((randn(40, 7) * 2).to(dtype).requires_grad_() for _ in range(2))
        upstream = randn(40, 7).to(dtype)
        found, wanted = compiled(x, y), rounded_often(x, y)
        assert equal(found, wanted)
        assert equal(gc.autograd.grad(found, (x, y), upstream), gc.autograd.grad(wanted, (x, y), upstream))
    forward, backward = compiled._specializations[0].functions
    assert forward.calls == 3  # before the sum, the sum, after it
    assert backward.groups
    assert forward.groups == 2


@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16])
def test_arguments_of_32_bits_are_rounded_where_they_are_converted(dtype: gc.dtype) -> None:
    def function(x: gc.Tensor, y: gc.Tensor) -> Any:
        low = x.to(dtype)
        return (low * y).tanh().float() * 2, low.float() - x, low.to(gc.bfloat16).to(gc.float16) + y.to(gc.float16)

    compiled = CompiledFunction(function, fullgraph=True)
    for _ in range(5):
        x, y = randn(50, requires_grad=True), randn(50).to(dtype).requires_grad_()
        found, wanted = compiled(x, y), function(x, y)
        assert equal(found, wanted)
        upstream = [randn(50).to(each.dtype) for each in wanted]
        assert equal(gc.autograd.grad(found, (x, y), upstream), gc.autograd.grad(wanted, (x, y), upstream))
    assert compiled._specializations[0].functions[0].groups


def test_copies_of_gradients_come_together() -> None:
    """Each has memory of its own, as without a program."""
    layers = nn.Sequential(*(nn.LayerNorm(6, device="cuda") for _ in range(3)))
    compiled = CompiledFunction(lambda x: layers(x).sin().sum().backward(), fullgraph=True)
    for _ in range(5):
        found = []
        x = randn(5, 6)
        for run in (compiled, compiled._function):
            layers.zero_grad()
            run(x)
            found.append([p.grad for p in layers.parameters()])
        assert equal(*found)
        assert len({grad.untyped_storage().data_ptr() for grad in found[0]}) == 6
    calls = fuse_on_cuda(optimize(compiled._specializations[-1].programs[0])).calls
    assert [[each.name for each in call.function.calls] for call in calls if call.name == "fused"][-1] == [
        "method.copy"
    ] * 6


def test_16_bit_floats_that_overflow_between_calls() -> None:
    def function(x: gc.Tensor) -> gc.Tensor:
        return (x * 300) * 300 / 65504 + (x * 1e-7) * 1e7

    compiled = CompiledFunction(function, fullgraph=True)
    for _ in range(4):
        x = gc.tensor([0.0, 1.0, 3.0, -2.5, 250.0], dtype=gc.float16, device="cuda")
        assert equal(compiled(x), function(x))
    assert compiled._specializations[0].functions[0].groups == 1


def test_a_captured_program_makes_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = graphed(chain, 4, randn(5, 4), randn(4))
    (run,) = compiled._specializations[0].functions
    replays: list[int] = []
    plain = gc.cuda.CUDAGraph.replay
    monkeypatch.setattr(gc.cuda.CUDAGraph, "replay", lambda self: (replays.append(1), plain(self))[0])
    monkeypatch.setattr(run, "_run", None)  # would be called for anything else
    x, y = randn(5, 4), randn(4)
    assert equal(compiled(x, y), chain(x, y))
    assert len(replays) == 1


def test_results_keep_their_values() -> None:
    """A graph is not launched while somebody holds what it computed; what is kept for long is copied."""
    compiled = graphed(lambda x: (x.exp() * 2, x.sum(), (x * 3).sin()), 4, randn(5, 4))
    kept: list[Any] = []
    for i in range(12):
        x = randn(5, 4)
        y, total, z = compiled(x)
        kept.append((total, z if i % 3 else y, (x.sum(), (x * 3).sin() if i % 3 else x.exp() * 2)))
    for total, other, (wanted, wanted_other) in kept:
        assert equal((total, other), (wanted, wanted_other))
    (run,) = compiled._specializations[0].functions
    assert run._captures < 12


def test_results_are_memory_of_their_own() -> None:
    compiled = graphed(lambda x: (x * 2 + 1, x + 1), 4, randn(6))
    for _ in range(4):
        x = randn(6)
        y, z = compiled(x)
        y.mul_(2)
        assert equal((y, z), ((x * 2 + 1) * 2, x + 1))


def test_memory_does_not_grow() -> None:
    compiled = graphed(lambda x: (x * 2 + 1).tanh().sum(0), 4, randn(100, 100))
    sizes = []
    for _ in range(3):
        for _ in range(30):
            compiled(randn(100, 100))
        sizes.append(gc.cuda.memory_allocated())
    assert sizes[0] == sizes[-1]


def test_in_place_writes_are_where_they_are() -> None:
    total = gc.zeros(3, device="cuda")

    def add(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
        total.add_(x * y)
        return x.mul_(2) + y

    compiled = CompiledFunction(add, fullgraph=True)
    for n in range(8):
        x, y = randn(3), randn(3)
        mine, before = x.clone(), total.clone()
        found = compiled(x, y)
        assert equal((found, x, total), (mine * 2 + y, mine * 2, before + mine * y)), n
    both = randn(4)
    wanted = both.clone()[:3] * 2 + (both.clone() * gc.tensor([2.0, 2, 2, 1], device="cuda"))[1:]
    assert equal(compiled(both[:3], both[1:]), wanted)


def test_parameters_that_move_are_found() -> None:
    w = nn.Parameter(randn(4))
    compiled = CompiledFunction(lambda x: (x * w + 1).tanh(), fullgraph=True)
    for n in range(30):
        if n % 5 == 4:
            w.data = randn(4)
        x = randn(4)
        assert equal(compiled(x), (x * w + 1).tanh())


def test_memory_that_is_elsewhere_in_each_call_is_copied() -> None:
    """What a part reads of another one, and what a backward reads of several forwards, has no place of its own."""
    w = nn.Parameter(randn(4))
    forward = CompiledFunction(lambda x: ((x * w).tanh() * 2).exp(), fullgraph=True)
    plain = forward._function
    for _ in range(10):
        xs = [randn(4, requires_grad=True) for _ in range(5)]
        outs = [forward(x) for x in xs], [plain(x) for x in xs]
        upstream = [randn(4) for _ in xs]
        found, wanted = (gc.autograd.grad(each, (*xs, w), upstream) for each in outs)
        assert equal(found, wanted)
    assert all("captured, " in state for state in states(forward)), states(forward)


def test_arguments_with_gaps_and_repetitions() -> None:
    compiled = CompiledFunction(lambda x, y, z: (x * y + z).tanh() - y, fullgraph=True)
    for _ in range(8):
        x, y, z = randn(1, 3).expand(4, 3), randn(4, 6)[:, 1::2], randn(4, 3, 2)[..., 1]
        assert equal(compiled(x, y, z), compiled._function(x, y, z))
    assert all("captured, " in state for state in states(compiled)), states(compiled)
    far = CompiledFunction(lambda x: (x * 2).tanh(), fullgraph=True)
    for _ in range(8):
        x = randn(4, 100)[:, 0]
        assert equal(far(x), far._function(x))
    assert "gaps in memory" in states(far)[0]


def test_programs_are_for_one_size_each() -> None:
    compiled = CompiledFunction(lambda x: ((x * 2).tanh() + 1).sum(0), fullgraph=True, dynamic=True)
    for n in range(24):
        x = randn(2 + n % 6, 3)
        assert equal(compiled(x), compiled._function(x))
    assert compiled.explain(x).count("sizes are no symbols: programs of CUDA tensors are for one size each") == 1
    assert len(compiled._specializations) == 6


def test_random_numbers_go_on_as_without_a_graph() -> None:
    def noisy(x: gc.Tensor) -> gc.Tensor:
        return F.dropout(x, 0.3) + gc.randn(4, device="cuda") * gc.rand(5, 1, device="cuda")

    compiled = graphed(noisy, 4, randn(5, 4))
    x = randn(5, 4)
    found = []
    for function in (compiled, noisy):
        gc.manual_seed(3)
        found.append(([function(x) for _ in range(5)], gc.get_rng_state()))
    assert equal(*(values for values, _ in found))
    assert gc.equal(found[0][1], found[1][1])


@pytest.mark.parametrize("kind", ["mlp", "cnn", "transformer", "lstm"])
def test_training_steps_within_graphs(kind: str) -> None:
    """Losses agree within rounding, whichever kernels multiply inside of a graph."""
    losses = []
    for compiles in (False, True):
        gc.manual_seed(0)
        model = Net(kind).to("cuda")
        optimizer = gc.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

        def step(x: gc.Tensor, y: gc.Tensor, model: nn.Module = model, optimizer: Any = optimizer) -> gc.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run: Any = CompiledFunction(step, fullgraph=True, graphs="always") if compiles else step
        gc.manual_seed(1)
        losses.append([run(randn(5, 4), gc.randint(0, 2, (5,), device="cuda")) for _ in range(8)])
        if compiles:
            assert all("captured, " in state for state in states(run)), states(run)
    assert gc.allclose(gc.stack(losses[0]), gc.stack(losses[1]), rtol=1e-4, atol=1e-5)


def training_step(model: nn.Module, optimizer: Any) -> Any:
    def step(x: gc.Tensor, y: gc.Tensor) -> gc.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@pytest.mark.parametrize(("kind", "most"), [("mlp", 20), ("cnn", 18), ("transformer", 53), ("lstm", 64)])
def test_launches_without_a_graph_are_fewer_than_eager_ones(kind: str, most: int) -> None:
    found = []
    x, y = randn(5, 4), gc.randint(0, 2, (5,), device="cuda")
    for compiles in (False, True):
        model = Net(kind).to("cuda")
        step = training_step(model, gc.optim.AdamW(model.parameters()))
        run = CompiledFunction(step, fullgraph=True, graphs="never") if compiles else step
        for _ in range(3):
            run(x, y)
        found.append(launches(lambda run=run: (run(x, y), gc.cuda.synchronize())))
    assert found[1] < found[0]
    assert found[1] <= most


def test_running_statistics_are_moved_by_one_call() -> None:
    model = nn.BatchNorm1d(4, device="cuda")
    compiled = CompiledFunction(lambda x: model(x) * 2, fullgraph=True)
    for _ in range(4):
        compiled(randn(5, 4))
    calls = [call.name for program in compiled._specializations[0].programs for call in program.calls]
    assert "backend.move_statistics" in calls
    assert "random.draw" not in calls


def test_constants_are_made_once() -> None:
    def steps(x: gc.Tensor) -> Any:
        total, hidden = gc.zeros(5, 4, device="cuda"), gc.zeros(5, 4, device="cuda")
        for n in range(3):
            hidden = (hidden + x).tanh()
            total[n] = gc.arange(4, device="cuda") * gc.ones(4, device="cuda")
        hidden = hidden + total
        hidden += 1
        return hidden, gc.zeros(3, device="cuda")

    compiled = CompiledFunction(steps, fullgraph=True)
    for _ in range(4):
        x = randn(5, 4)
        found, wanted = compiled(x), steps(x)
        assert equal(found, wanted)
        found[1].add_(1)  # what is returned is made anew
    assert "v0 + " not in compiled.explain(x)
    calls = "".join(line for line in compiled.explain(x).partition("source of the program:")[2].splitlines())
    assert calls.count("(3, )") == 1
    streams = [gc.cuda.Stream() for _ in range(2)]
    for stream in streams:
        stream.wait_stream(gc.cuda.current_stream())
        with gc.cuda.stream(stream):
            assert equal(compiled(x), steps(x))


def test_why_there_is_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    x = randn(4, 4)
    backend = x.device.backend
    monkeypatch.setitem(vars(backend), "cublas_library", None)
    monkeypatch.setattr(backend.capture, "known", {})
    for graphs, word in (("equal", "products are those of another kernel"), ("never", "switched off")):
        compiled = CompiledFunction(lambda x: (x @ x).tanh() * 2, fullgraph=True, graphs=graphs)
        for _ in range(6):
            found = compiled(x)
        assert equal(found, (x @ x).tanh() * 2)
        assert word in states(compiled)[0]
    spectral = CompiledFunction(lambda x: gc.linalg.eigh(x @ x.T)[0].sum(), fullgraph=True, graphs="always")
    for _ in range(6):
        found = spectral(x)
    assert equal(found, gc.linalg.eigh(x @ x.T)[0].sum())
    assert "cannot be captured" in states(spectral)[0]


def test_no_graph_of_ffts() -> None:
    compiled = CompiledFunction(lambda x: gc.fft.rfft(x).abs(), fullgraph=True, graphs="always")
    for _ in range(5):
        x = randn(8)
        assert equal(compiled(x), gc.fft.rfft(x).abs())
    assert "FFT" in states(compiled)[0]


def test_tables_live_as_long_as_the_graph() -> None:
    def resized(x: gc.Tensor) -> gc.Tensor:
        return F.interpolate(x, size=11, mode="linear")

    compiled = graphed(resized, 4, randn(1, 2, 7))
    separable._upload.cache_clear()
    spoilt = [gc.full((n,), 99, dtype=gc.int64, device="cuda") for n in (1, 7, 11, 22) for _ in range(20)]
    x = randn(1, 2, 7)
    assert equal(compiled(x), resized(x))
    del spoilt


def test_modes_and_options_say_whether_there_are_graphs() -> None:
    chosen = {
        "reduce-overhead": "always", "max-autotune": "always", "max-autotune-no-cudagraphs": "never",
        "default": "equal", None: "equal",
    }  # fmt: skip
    for mode, graphs in chosen.items():
        assert gc.compile(chain, mode=mode).settings.graphs == graphs
    for wanted, graphs in ((True, "always"), (False, "never")):
        assert gc.compile(chain, options={"triton.cudagraphs": wanted}).settings.graphs == graphs


def test_streams_one_after_the_other() -> None:
    compiled = graphed(chain, 4, randn(5, 4), randn(4))
    streams = [gc.cuda.Stream(), gc.cuda.Stream()]
    for n in range(6):
        stream = streams[n % 2]
        stream.wait_stream(gc.cuda.current_stream())
        with gc.cuda.stream(stream):
            x, y = randn(5, 4), randn(4)
            found, wanted = compiled(x, y), chain(x, y)
            assert equal(found, wanted)


def test_a_stream_chosen_inside_is_not_recorded() -> None:
    side = gc.cuda.Stream()

    def apart(x: gc.Tensor) -> gc.Tensor:
        with gc.cuda.stream(side):
            return x * 2

    compiled = CompiledFunction(apart)
    x = randn(3)
    side.wait_stream(gc.cuda.current_stream())
    found = compiled(x)
    for _ in range(6):
        gc.cuda.current_stream().wait_stream(side)
        assert equal(found, x * 2)
        found = compiled(x)
    assert not compiled._specializations  # what is inside is a part by itself
    assert "StreamContext.__enter__ is called" in str(compiled._left)


def test_inside_of_a_graph_of_the_users() -> None:
    compiled = graphed(chain, 4, randn(5, 4), randn(4))
    x, y = randn(5, 4), randn(4)
    graph = gc.cuda.CUDAGraph()
    with gc.cuda.graph(graph):
        found = compiled(x, y)
    for _ in range(3):
        x.copy_(randn(5, 4))
        graph.replay()
        assert equal(found, chain(x, y))


def test_threads_have_results_of_their_own() -> None:
    compiled = graphed(chain, 4, randn(50, 40), randn(40))
    wrong: list[Any] = []

    def work(seed: int) -> None:
        given = [(randn(50, 40), randn(40)) for _ in range(5)]
        stream = gc.cuda.Stream()
        stream.wait_stream(gc.cuda.current_stream())  # a whole device cannot be waited for while others capture
        with gc.cuda.stream(stream):
            for x, y in given:
                if not equal(compiled(x, y), chain(x, y)):
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(gc.cuda.device_count() < 2, reason="one device")
def test_two_devices() -> None:
    def across(x: gc.Tensor) -> gc.Tensor:
        y = (x * 2).tanh().to("cuda:1")
        return (y + 1).exp().to("cuda:0") + x

    compiled = CompiledFunction(across, fullgraph=True)
    alone = CompiledFunction(lambda x: (x * 2 + 1).tanh(), fullgraph=True)
    for _ in range(5):
        x = randn(4)
        assert equal(compiled(x), across(x))
        other = gc.randn(4, device="cuda:1")
        assert equal(alone(other), (other * 2 + 1).tanh())
        with gc.cuda.device(1):
            assert equal(alone(other), (other * 2 + 1).tanh())


def test_what_a_device_is_told_is_not_recorded() -> None:
    def waits(x: gc.Tensor) -> gc.Tensor:
        y = x * 2
        gc.cuda.synchronize()
        return y

    compiled = CompiledFunction(waits)
    x = randn(3)
    for _ in range(6):
        assert equal(compiled(x), x * 2)
    assert "synchronize of the device is called" in str(compiled._left)


@pytest.mark.skipif(gc.cuda.device_count() < 2, reason="one device")
def test_results_with_histories_on_two_devices() -> None:
    compiled = CompiledFunction(lambda x: (x * 2, (x * 3).to("cuda:1")))
    x = randn(3, requires_grad=True)
    with pytest.warns(UserWarning, match="results with a history are on several devices"):
        [compiled(x) for _ in range(4)]
    y, z = compiled(x)
    assert equal(gc.autograd.grad(y.sum() + z.sum().to("cuda:0"), x)[0], gc.full((3,), 5.0, device="cuda"))


def test_numbers_and_tensors_of_the_host_inside() -> None:
    def mixed(x: gc.Tensor) -> gc.Tensor:
        return x * gc.tensor([1.0, 2.0, 3.0], device="cuda") + gc.full((3,), 2.0, device="cuda")

    compiled = graphed(mixed, 4, randn(3))
    x = randn(3)
    assert equal(compiled(x), mixed(x))
    copied = CompiledFunction(lambda x: x + gc.randn(3).to("cuda"))
    copied(x)
    with pytest.warns(UserWarning, match="elements of a tensor are read"):
        copied(x)
    for seed in range(3):
        gc.manual_seed(seed)
        found = copied(x)
        gc.manual_seed(seed)
        assert equal(found, x + gc.randn(3).to("cuda"))


def test_autocasting_inside() -> None:
    layer = nn.Linear(4, 3, device="cuda")

    def half(x: gc.Tensor) -> gc.Tensor:
        with gc.autocast("cuda", dtype=gc.float16):
            return layer(x).relu().float().sum()

    compiled = CompiledFunction(half, fullgraph=True)
    for _ in range(5):
        x = randn(5, 4)
        found, wanted = compiled(x), half(x)
        assert equal(found, wanted)
        parameters = tuple(layer.parameters())
        assert equal(gc.autograd.grad(found, parameters), gc.autograd.grad(wanted, parameters))


def test_errors_of_kernels_are_those_of_eager_execution() -> None:
    table = randn(4, 2)
    compiled = CompiledFunction(lambda i: F.dropout(table[i], 0.5), fullgraph=True)
    for _ in range(5):
        compiled(gc.tensor([0, 3], device="cuda"))
    compiled(gc.tensor([0, 4], device="cuda"))
    with pytest.raises(IndexError, match="out of bounds"):
        gc.cuda.synchronize()
    assert equal(F.dropout(table[:2], 0.0), table[:2])
