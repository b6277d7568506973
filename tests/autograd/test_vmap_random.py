"""Random numbers inside `vmap`: an error, the same for all samples, or others for each."""

from collections.abc import Callable

import pytest

import gradcore as gc
import gradcore.nn.functional as F
from gradcore import Tensor, vmap

Draw = Callable[[Tensor], Tensor]

#: Functions of a sample of 8 probabilities, all of them equal.
DRAWS: dict[str, Draw] = {
    "rand": lambda p: gc.rand(3),
    "complex randn": lambda p: gc.view_as_real(gc.randn(2, dtype=gc.complex64)),
    "randint": lambda p: gc.randint(1000, (5,)),
    "randperm": lambda p: gc.randperm(9),
    "rand_like": gc.rand_like,
    "randn_like": gc.randn_like,
    "randint_like": lambda p: gc.randint_like(p, 1000),
    "normal": lambda p: gc.normal(0.0, 1.0, (4,)),
    "normal of means": lambda p: gc.normal(p, 1.0),
    "normal of means and deviations": lambda p: gc.normal(p, p),
    "bernoulli": gc.bernoulli,
    "bernoulli_ of probabilities": lambda p: p.clone().bernoulli_(p),
    "poisson of small rates": lambda p: gc.poisson(p * 9),
    "poisson of large rates": lambda p: gc.poisson(p * 1000),
    "multinomial": lambda p: gc.multinomial(p, 3),
    "multinomial with replacement": lambda p: gc.multinomial(p.reshape(2, 4), 9, True),
    "dropout": lambda p: F.dropout(p, 0.5),
    "dropout in place": lambda p: F.dropout(p.clone(), 0.5, inplace=True),
    "dropout2d": lambda p: F.dropout2d(p.reshape(1, 8, 1, 1)),
    "alpha_dropout": lambda p: F.alpha_dropout(p, 0.5, True),
    "rrelu": lambda p: F.rrelu(-p, training=True),
    "gumbel_softmax": F.gumbel_softmax,
    "fractional_max_pool2d": lambda p: F.fractional_max_pool2d(gc.arange(256.0).view(1, 16, 16) * p[0], 2, 5),
    **{
        name: lambda p, name=name, values=values: getattr(p.clone(), name)(*values)
        for name, values in {
            "uniform_": (1.0, 2.0), "normal_": (), "log_normal_": (), "cauchy_": (), "exponential_": (),
            "geometric_": (0.1,), "random_": (1000,), "bernoulli_": (0.5,),
        }.items()
    },
}  # fmt: skip
everywhere = pytest.mark.parametrize("name", DRAWS)


def probabilities(samples: int = 12) -> Tensor:
    return gc.full((samples, 8), 0.5)


@everywhere
def test_random_numbers_are_an_error_unless_asked_for(name: str) -> None:
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        vmap(DRAWS[name])(probabilities())


@everywhere
def test_the_same_numbers_are_those_of_one_sample(name: str) -> None:
    batch = gc.linspace(0.1, 1.0, 6)[:, None].expand(6, 8).contiguous()
    gc.manual_seed(3)
    found = vmap(DRAWS[name], randomness="same")(batch)
    for sample, values in zip(found, batch, strict=True):
        gc.manual_seed(3)
        assert bool(sample.isclose(DRAWS[name](values)).all())


@everywhere
def test_different_numbers(name: str) -> None:
    found = vmap(DRAWS[name], randomness="different")(probabilities())
    assert not bool((found == found[0]).all())


@everywhere
@pytest.mark.parametrize("inner", ["same", "different"])
def test_each_of_two_batches_has_its_own_rule(name: str, inner: str) -> None:
    def one(zero: Tensor) -> Tensor:
        return vmap(DRAWS[name], randomness=inner)(probabilities() + zero)

    found = vmap(one, randomness="different")(gc.zeros(5))
    assert not bool((found == found[:1]).all())
    assert bool((found == found[:, :1]).all()) == (inner == "same")


@pytest.mark.parametrize("rate", [4.0, 400.0])
def test_numbers_that_only_the_inner_batch_shares(rate: float) -> None:
    """The rates are those of the outer batch, whose samples agree; the inner ones draw their own."""

    def one(rates: Tensor) -> Tensor:
        return vmap(lambda _: gc.poisson(rates), randomness="different")(gc.zeros(5))

    found = vmap(one, randomness="same")(gc.full((3, 8), rate))
    assert bool((found == found[:1]).all())
    assert not bool((found == found[:, :1]).all())


def test_the_stream_goes_on_after_the_same_numbers() -> None:
    gc.manual_seed(0)
    first, second = (vmap(gc.poisson, randomness="same")(gc.full((4, 50), 100.0)) for _ in range(2))
    assert not bool((first == second).all())


@pytest.mark.parametrize("name", ["uniform_", "normal_", "random_", "bernoulli_"])
def test_different_numbers_need_memory_for_each_sample(name: str) -> None:
    def fill(_: Tensor) -> Tensor:
        return getattr(gc.zeros(3), name)()

    with pytest.raises(RuntimeError, match="Cannot ask for different inplace randomness on an unbatched tensor"):
        vmap(fill, randomness="different")(gc.zeros(2))
    same = vmap(fill, randomness="same")(gc.zeros(2))
    assert bool((same[0] == same[1]).all())


def test_gumbel_softmax_is_relaxed_or_one_hot() -> None:
    logits = gc.randn(6, 4, requires_grad=True)
    gc.manual_seed(1)
    soft = F.gumbel_softmax(logits, tau=0.5)
    gc.manual_seed(1)
    hard = F.gumbel_softmax(logits, tau=0.5, hard=True)
    assert bool((hard.argmax(1) == soft.argmax(1)).all())
    assert sorted(set(hard.detach().round(decimals=5).flatten().tolist())) == [0.0, 1.0]
    weights = gc.arange(4.0)
    found = [gc.autograd.grad((out * weights).sum(), logits)[0] for out in (soft, hard)]
    assert bool(found[0].any())
    assert bool((found[0] == found[1]).all())


def test_gumbel_softmax_draws_categories_by_their_probabilities() -> None:
    gc.manual_seed(0)
    weights = gc.tensor([0.2, 0.5, 0.3])
    drawn = F.gumbel_softmax(weights.log().expand(20000, 3), hard=True)
    assert bool((drawn.mean(0) - weights).abs().max() < 0.015)
