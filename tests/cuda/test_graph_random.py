"""Random numbers in CUDA graphs: each replay draws what the same calls, not recorded, would draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gradcore as gc
from gradcore import nn
from gradcore.backends import registry
from gradcore.backends.cupy.backend import CupyBackend
from gradcore.backends.random.recording import present
from gradcore.random.generator import current_state, repeat_draws
from gradcore.utils.checkpoint import checkpoint
from tests.cuda.fake_runtime import FakeCudaBackend, Runtime
from tests.cuda.host import needs_compiler
from tests.cuda.ordering import Order

F = nn.functional

WEIGHTS = gc.tensor([[0.1, 0.6, 0.3], [1.0, 0.25, 2.0]])

#: Draws, given a device and weights there.
DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "rand": lambda d, w: gc.rand(7, device=d),
    "rand of float64": lambda d, w: gc.rand(7, device=d, dtype=gc.float64),
    "rand of float16": lambda d, w: gc.rand(7, device=d, dtype=gc.float16),
    "randn": lambda d, w: gc.randn(1001, device=d),
    "randn of float64": lambda d, w: gc.randn(3, 5, device=d, dtype=gc.float64),
    "randn of complex numbers": lambda d, w: gc.randn(5, device=d, dtype=gc.complex64),
    "randint": lambda d, w: gc.randint(-3, 1000, (9,), device=d),
    "randint of two words": lambda d, w: gc.randint(0, 2**40, (9,), device=d),
    "randperm": lambda d, w: gc.randperm(20, device=d),
    "random_": lambda d, w: gc.zeros(9, device=d).random_(),
    "normal": lambda d, w: gc.normal(gc.zeros(5, device=d), gc.ones(5, device=d)),
    "normal_": lambda d, w: gc.zeros(9, device=d).normal_(2.0, 3.0),
    "uniform_": lambda d, w: gc.zeros(9, device=d).uniform_(-1.0, 3.0),
    "exponential_": lambda d, w: gc.zeros(9, device=d).exponential_(2.0),
    "cauchy_": lambda d, w: gc.zeros(9, device=d).cauchy_(),
    "log_normal_": lambda d, w: gc.zeros(9, device=d).log_normal_(),
    "geometric_": lambda d, w: gc.zeros(9, device=d).geometric_(0.3),
    "bernoulli": lambda d, w: gc.bernoulli(w / 2),
    "bernoulli_": lambda d, w: gc.zeros(40, device=d).bernoulli_(0.5),
    "multinomial": lambda d, w: gc.multinomial(w, 2),
    "multinomial with replacement": lambda d, w: gc.multinomial(w, 9, replacement=True),
    "dropout": lambda d, w: F.dropout(gc.ones(50, device=d)),
    "dropout2d": lambda d, w: F.dropout2d(gc.ones(2, 20, 2, 2, device=d)),
    "alpha_dropout": lambda d, w: F.alpha_dropout(gc.ones(50, device=d), 0.4, True),
    "rrelu": lambda d, w: F.rrelu(gc.full((9,), -1.0, device=d), training=True),
    "fractional_max_pool2d": lambda d, w: F.fractional_max_pool2d(
        gc.arange(256.0, device=d).reshape(1, 1, 16, 16), 2, output_size=5
    ),
    "in samples of a batch": lambda d, w: gc.func.vmap(
        lambda x: x + gc.randn(3, device=d), randomness="different"
    )(gc.zeros(4, 3, device=d)),
    "several": lambda d, w: gc.rand(3, device=d) + gc.randn(3, device=d) * F.dropout(gc.ones(3, device=d)),
}  # fmt: skip


@pytest.fixture(params=["formulas", "kernels"])
def drawn_by(request: pytest.FixtureRequest, cuda: Runtime, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether words become numbers by formulas or by the package's kernels, compiled for the host."""
    if request.param == "kernels":
        needs_compiler()
        for name in ("random_words", "random_numbers", "write_place"):
            monkeypatch.setattr(FakeCudaBackend, name, getattr(CupyBackend, name))
    return str(request.param)


def captured(function: Callable[[], Any]) -> tuple[Any, Any]:
    """Capture a graph of a function, and return the graph and the result."""
    g = gc.cuda.CUDAGraph()
    with gc.cuda.graph(g):
        result = function()
    return g, result


@pytest.mark.parametrize("name", DRAWS)
def test_replays_draw_what_calls_would(drawn_by: str, name: str) -> None:
    weights = WEIGHTS.to("cuda")
    DRAWS[name]("cuda", weights)  # some keep tables, which are copied first
    g, result = captured(lambda: DRAWS[name]("cuda", weights))
    gc.manual_seed(5)
    gc.rand(2)  # so that replays do not begin with a stream
    state, seen = gc.get_rng_state(), []
    for _ in range(3):
        g.replay()
        seen.append(result.cpu())
    after = gc.get_rng_state()
    gc.set_rng_state(state)
    for found in seen:
        assert found.numpy().tobytes() == DRAWS[name]("cpu", WEIGHTS).numpy().tobytes()
    assert gc.equal(after, gc.get_rng_state())
    assert not all(gc.equal(seen[0], other) for other in seen[1:])


# -- seeds, states, generators ----------------------------------------------------------------------------------------


def drawn(*, generator: Any = None) -> Any:
    return gc.rand(4, device="cuda", generator=generator)


def test_recording_draws_nothing(cuda: Runtime) -> None:
    state = gc.get_rng_state()
    captured(drawn)
    assert gc.equal(gc.get_rng_state(), state)


def test_what_is_seeded_between_replays_holds(cuda: Runtime) -> None:
    g, x = captured(lambda: drawn() + drawn())
    state, seen = gc.Generator().manual_seed(3).get_state(), []
    for seeded in (lambda: gc.manual_seed(3), lambda: gc.cuda.manual_seed(3), lambda: gc.set_rng_state(state)):
        seeded()
        for _ in range(2):
            g.replay()
            seen.append(x.tolist())
    assert seen[:2] == seen[2:4] == seen[4:]
    assert seen[0] != seen[1]
    with gc.random.fork_rng():
        gc.manual_seed(3)
        g.replay()
    assert x.tolist() == seen[0]
    g.replay()
    g.replay()
    gc.manual_seed(3)
    with gc.random.fork_rng():
        g.replay()
    g.replay()
    assert x.tolist() == seen[0]


def test_graphs_and_calls_share_a_stream(cuda: Runtime) -> None:
    """Two graphs, which share memory, and calls that are not recorded take turns."""
    first, a = captured(drawn)
    second = gc.cuda.CUDAGraph()
    with gc.cuda.graph(second, first.pool()):
        b = drawn() * 2 + drawn()
    gc.manual_seed(11)
    found = []
    for _ in range(3):
        first.replay()
        found += [a.tolist(), drawn().tolist()]
        second.replay()
        found += [b.tolist(), gc.rand(2).tolist()]
    gc.manual_seed(11)
    expected = []
    for _ in range(3):
        expected += [drawn().tolist(), drawn().tolist(), (drawn() * 2 + drawn()).tolist(), gc.rand(2).tolist()]
    assert found == expected


def test_several_generators(cuda: Runtime) -> None:
    one, other, g = gc.Generator("cuda").manual_seed(1), gc.Generator().manual_seed(2), gc.cuda.CUDAGraph()
    g.register_generator_state(one)  # which is not needed
    with gc.cuda.graph(g):
        x = drawn(generator=one), drawn(generator=other), drawn(), drawn(generator=one)
    one.manual_seed(5)
    other.set_state(one.get_state())
    again = [gc.Generator().manual_seed(5) for _ in range(2)]
    for seed in (7, 8):
        gc.manual_seed(seed)
        g.replay()
        found = [t.tolist() for t in x]
        gc.manual_seed(seed)
        expected = drawn(generator=again[0]), drawn(generator=again[1]), drawn(), drawn(generator=again[0])
        assert found == [t.tolist() for t in expected]
    assert gc.equal(one.get_state(), again[0].get_state())


def test_states_that_are_exchanged_while_work_is_recorded(cuda: Runtime) -> None:
    g, generator = gc.cuda.CUDAGraph(), gc.Generator("cuda").manual_seed(1)
    first, second = generator.graphsafe_get_state(), gc.Generator("cuda").manual_seed(2)
    g.register_generator_state(second)
    with gc.cuda.graph(g):
        x = [drawn(generator=generator)]
        generator.graphsafe_set_state(second)
        x.append(drawn(generator=generator))
        generator.graphsafe_set_state(first)
        x.append(drawn(generator=generator.graphsafe_get_state()))
    here, there = first.clone_state(), second.clone_state()
    for _ in range(2):
        g.replay()
        found = [t.tolist() for t in x]
        assert found == [drawn(generator=each).tolist() for each in (here, there, here)]


def test_states_inside_a_graph(cuda: Runtime) -> None:
    """What is got while work is recorded is a place inside the graph, to which one can go back."""
    g = gc.cuda.CUDAGraph()
    with gc.cuda.graph(g):
        before = gc.get_rng_state()
        x = drawn()
        with gc.random.fork_rng():
            gc.set_rng_state(before)
            again = drawn()
        gc.manual_seed(gc.initial_seed())  # changes nothing
        y = drawn()
    gc.manual_seed(4)
    g.replay()
    gc.manual_seed(4)
    assert x.tolist() == again.tolist() == drawn().tolist()
    assert y.tolist() == drawn().tolist()


def test_graphs_that_go_back_to_where_they_began(cuda: Runtime) -> None:
    """They step over nothing, and draw from where the generator stands."""

    def forked() -> Any:
        with gc.random.fork_rng():
            return drawn()

    g, x = captured(forked)
    for seed in (4, 5):
        gc.manual_seed(seed)
        state = gc.get_rng_state()
        g.replay()
        assert gc.equal(gc.get_rng_state(), state)
        assert x.tolist() == drawn().tolist()


def test_numbers_of_another_device_are_not_those_of_the_graph(cuda: Runtime) -> None:
    """Where numbers are drawn again: the graph's place is in memory that the other device does not read."""
    places = []

    def function() -> None:
        with repeat_draws(current_state()):
            gc.rand(3, device="cuda")
            state, backend = gc.default_generator._state, registry.find("cuda")
            places.append(backend.reserve_words(state, 4))
            with backend.use_index(1), gc.cuda.stream(gc.cuda.default_stream(1)):
                places.append(backend.reserve_words(state, 4))

    gc.manual_seed(7)
    captured(function)
    (memory, second), (key, counter) = places
    assert (memory.shape, second) == ((6,), 1)
    assert (key, counter) == (7, 0)


def test_work_that_is_given_up_while_it_is_recorded_leaves_nothing(cuda: Runtime) -> None:
    g, generator = gc.cuda.CUDAGraph(), gc.Generator("cuda").manual_seed(3)
    for end in (g.capture_end, g.reset):
        with gc.cuda.stream(gc.cuda.Stream()):
            g.capture_begin()
            drawn(generator=generator)  # and then an error, after which the user ends what was begun
            end()
        g.reset()
        assert present() is None
    assert generator.get_state().tolist() == gc.Generator().manual_seed(3).get_state().tolist()
    with gc.cuda.graph(g):
        x = drawn(generator=generator)
    g.replay()
    assert x.tolist() == drawn(generator=gc.Generator().manual_seed(3)).tolist()


def test_generators_outlive_graphs(cuda: Runtime) -> None:
    generator = gc.Generator("cuda").manual_seed(3)
    for step in range(2):
        g, x = captured(lambda: drawn(generator=generator))
        g.replay()
        del g
        expected = gc.Generator().manual_seed(3)
        for _ in range(2 * step + 1):
            wanted = drawn(generator=expected)
        assert x.tolist() == wanted.tolist()
        assert drawn(generator=generator).tolist() == drawn(generator=expected).tolist()


def test_random_numbers_of_the_cpu_are_drawn_at_once(cuda: Runtime) -> None:
    gc.manual_seed(0)
    _, (here, _) = captured(lambda: (gc.rand(3), drawn()))
    gc.manual_seed(0)
    assert gc.equal(here, gc.rand(3))


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda g: gc.manual_seed(gc.initial_seed() + 1), "only if new seed is the same as the original seed"),
        (lambda g: gc.set_rng_state(g.get_state()), "only if new seed is the same as the original seed"),
        (lambda g: gc.seed(), "Cannot call CUDAGeneratorImpl::seed during CUDA graph capture"),
        (lambda g: gc.Generator("cuda"), "Cannot construct a new CUDAGeneratorImpl during CUDA graph capture"),
        (lambda g: g.clone_state(), "Cannot call CUDAGeneratorImpl::clone_impl during CUDA graph capture"),
        (lambda g: gc.cuda.CUDAGraph().register_generator_state(g), "Cannot register the state during capturing"),
        (lambda g: gc.poisson(gc.ones(3, device="cuda")), "poisson numbers cannot be captured"),
        (lambda g: gc.binomial(*gc.ones(2, 3, device="cuda")), "binomial numbers cannot be captured"),
        (lambda g: gc.distributions.Chi2(gc.ones(3, device="cuda"), False).sample(), "gamma numbers cannot be"),
    ],
)  # fmt: skip
def test_what_a_graph_cannot_do(cuda: Runtime, attempt: Callable[[Any], Any], message: str) -> None:
    generator, state = gc.Generator("cuda").manual_seed(gc.initial_seed() + 1), gc.get_rng_state()
    with pytest.raises(RuntimeError, match=message):
        captured(lambda: attempt(generator))
    assert gc.equal(gc.get_rng_state(), state)
    assert drawn().shape == (4,)


def test_generators_share_states_only_with_generators() -> None:
    with pytest.raises(TypeError, match="expected a Generator, but got int"):
        gc.Generator().graphsafe_set_state(3)


def test_weights_are_checked_when_the_host_next_waits(cuda: Runtime) -> None:
    weights = WEIGHTS.to("cuda")
    for wrong, message, draw in (
        (2.0, "Expected p_in >= 0 && p_in <= 1 to be true", gc.bernoulli),
        (-1.0, "contains either `inf`, `nan` or element < 0", lambda w: gc.multinomial(w, 1)),
        (-1.0, "normal expects all elements of std >= 0.0", lambda w: gc.normal(0.0, w)),
    ):
        weights.fill_(0.5)
        g, x = captured(lambda draw=draw: draw(weights))
        g.replay()
        x.cpu()
        weights.fill_(wrong)
        g.replay()
        with pytest.raises(RuntimeError, match=message):
            x.cpu()


# -- derivatives ------------------------------------------------------------------------------------------------------


def noisy(x: Any) -> Any:
    return F.dropout(x * gc.randn_like(x), 0.5).sin()


def repeating(use_reentrant: bool) -> Callable[[Any], Any]:
    return lambda x: checkpoint(noisy, x, use_reentrant=use_reentrant)


FUNCTIONS = {"saved": noisy, "computed again": repeating(False), "computed again by a node": repeating(True)}


def gradient(function: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """Return the value and the gradient of a function."""
    x = x.detach().requires_grad_()
    out = function(x)
    out.sum().backward()
    return out.detach(), x.grad


@pytest.mark.parametrize("name", FUNCTIONS)
def test_backward_in_a_graph_uses_the_numbers_of_forward(drawn_by: str, name: str) -> None:
    x = gc.linspace(0.1, 2.0, 60)
    there = x.to("cuda")
    g, found = captured(lambda: gradient(FUNCTIONS[name], there))
    gc.manual_seed(1)
    here, outs = gc.default_generator.clone_state(), []
    for _ in range(3):
        g.replay()
        outs.append(found[0].cpu())
        with gc.random.fork_rng():
            gc.set_rng_state(here.get_state())
            expected = gradient(noisy, x)
            here.set_state(gc.get_rng_state())
        assert gc.equal(gc.get_rng_state(), here.get_state())
        for one, other in zip(found, expected, strict=True):
            assert gc.allclose(one.cpu(), other)
    assert not gc.equal(outs[0], outs[1])


@pytest.mark.parametrize("name", ["saved", "computed again"])
def test_graphed_parts_draw_new_numbers(order: Order, name: str) -> None:
    """In a program of which the rest is not recorded; nothing is left without an order."""
    function = gc.cuda.make_graphed_callables(FUNCTIONS[name], (gc.zeros(60, device="cuda", requires_grad=True),))
    x = gc.linspace(0.1, 2.0, 60)
    gc.manual_seed(1)
    there = [gradient(lambda x: function(x * 2) * gc.rand(60, device="cuda"), x.to("cuda")) for _ in range(3)]
    gc.manual_seed(1)
    here = [gradient(lambda x: noisy(x * 2) * gc.rand(60), x) for _ in range(3)]
    for found, expected in zip(there, here, strict=True):
        for one, other in zip(found, expected, strict=True):
            assert gc.allclose(one.cpu(), other)


def test_a_module_with_dropout_drops_others_each_time(order: Order) -> None:
    """In training; its mask in backward is that of the last forward."""
    gc.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5)).to("cuda")
    module = gc.cuda.make_graphed_callables(module, (gc.zeros(5, 4, device="cuda", requires_grad=True),))
    masks = []
    for _ in range(3):
        x = gc.ones(5, 4, device="cuda", requires_grad=True)
        out = module(x)
        masks.append((out != 0).cpu())
        module[0].bias.grad = None
        out.sum().backward()
        assert gc.equal(module[0].bias.grad.cpu(), 2.0 * masks[-1].sum(0))
    assert not gc.equal(masks[0], masks[1])
    assert not gc.equal(masks[1], masks[2])


def test_backward_is_recorded_after_forward_has_run(cuda: Runtime) -> None:
    """What was drawn for good is drawn again the same by every replay."""
    x = gc.linspace(0.1, 2.0, 60).to("cuda").requires_grad_()
    gc.manual_seed(2)
    out = checkpoint(noisy, x, use_reentrant=False).sum()
    g, (slope,) = captured(lambda: gc.autograd.grad(out, x, retain_graph=True))
    gc.manual_seed(2)
    expected = gradient(noisy, x)[1].cpu()
    for _ in range(2):
        g.replay()
        assert gc.allclose(slope.cpu(), expected)


def test_forward_is_recorded_and_backward_is_not(cuda: Runtime) -> None:
    """What is computed again then draws what the last replay did."""
    x = gc.linspace(0.1, 2.0, 60).to("cuda").requires_grad_()
    g, out = captured(lambda: checkpoint(noisy, x, use_reentrant=False))
    gc.manual_seed(2)
    g.replay()
    state = gc.get_rng_state()
    (slope,) = gc.autograd.grad(out.sum(), x)
    assert gc.equal(gc.get_rng_state(), state)
    gc.manual_seed(2)
    assert gc.allclose(slope, gradient(noisy, x)[1])


def test_what_is_computed_again_draws_the_same_numbers_of_the_cpu(cuda: Runtime) -> None:
    factors = []

    def function(x: Any) -> Any:
        factors.append(gc.rand(1).item())
        return noisy(x) * factors[-1]

    x = gc.linspace(0.1, 2.0, 60).to("cuda")
    g, (out, slope) = captured(lambda: gradient(lambda x: checkpoint(function, x, use_reentrant=False), x))
    assert factors[0] == factors[1]
    gc.manual_seed(2)
    g.replay()
    gc.manual_seed(2)
    for one, other in zip((out, slope), gradient(lambda x: noisy(x) * factors[0], x), strict=True):
        assert gc.allclose(one, other)


def test_graphs_of_two_streams_are_in_order(order: Order) -> None:
    side = gc.cuda.Stream()
    first, x = captured(drawn)
    second, y = captured(drawn)
    gc.manual_seed(0)
    for _ in range(2):
        first.replay()
        with gc.cuda.stream(side):  # at the same time, as each graph reads where it begins from memory of its own
            second.replay()
            found = y.cpu()
    gc.cuda.current_stream().synchronize()
    gc.manual_seed(0)
    for _ in range(4):
        expected = drawn()
    assert gc.equal(found, expected.cpu())
    side.synchronize()
    assert x.shape == y.shape


def test_random_numbers_of_another_device_are_refused(order: Order) -> None:
    side = gc.cuda.Stream(1)

    def on_another() -> None:
        side.wait_stream(gc.cuda.current_stream(0))
        with gc.cuda.stream(side):
            gc.rand(3, device="cuda:1")

    with pytest.raises(RuntimeError, match="random numbers on another device than that of the graph, cuda:0"):
        captured(on_another)
