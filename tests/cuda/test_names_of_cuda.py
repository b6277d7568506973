"""PyTorch's names for random numbers, properties and memory of CUDA devices, with two devices and with none."""

from __future__ import annotations

from typing import Any

import pytest

import gradcore as gc
from gradcore.cuda.properties import FIELDS
from tests.cuda.fake_runtime import PROPERTIES, Runtime

# -- random numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [gc.cuda.manual_seed, gc.cuda.manual_seed_all, gc.manual_seed])
def test_one_seed_for_all_devices(cuda: Runtime, seed: Any) -> None:
    seed(3)
    assert gc.cuda.initial_seed() == gc.initial_seed() == 3
    there = gc.rand(5, device="cuda")
    seed(3)
    assert gc.equal(there.cpu(), gc.rand(5))


def test_the_generators_of_devices_are_one(cuda: Runtime) -> None:
    assert gc.cuda.default_generators == (gc.default_generator,) * 2
    drawn = gc.rand(3, device="cuda:1", generator=gc.cuda.default_generators[0].manual_seed(4))
    gc.manual_seed(4)
    assert gc.equal(drawn.cpu(), gc.rand(3))


def test_there_are_no_generators_without_devices() -> None:
    assert len(gc.cuda.default_generators) == gc.cuda.device_count()
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        gc.cuda.nothing  # noqa: B018


@pytest.mark.parametrize("seed", [gc.cuda.seed, gc.cuda.seed_all])
def test_seeds_of_the_operating_system(seed: Any) -> None:
    gc.manual_seed(0)
    assert seed() is None
    assert gc.initial_seed() != 0


def test_states(cuda: Runtime) -> None:
    state = gc.cuda.get_rng_state("cuda:1")
    drawn = gc.rand(3, device="cuda")
    gc.cuda.set_rng_state(state, 0)
    assert gc.equal(gc.rand(3, device="cuda"), drawn)
    states = gc.cuda.get_rng_state_all()
    assert len(states) == 2
    drawn = gc.rand(3, device="cuda:1")
    gc.cuda.set_rng_state_all(states)
    assert gc.equal(gc.rand(3, device="cuda:1"), drawn)
    with pytest.raises(TypeError, match=r"RNG state must be a torch\.ByteTensor"):
        gc.cuda.set_rng_state(gc.zeros(48))
    with pytest.raises(RuntimeError, match="Invalid device 'cuda:2'"):
        gc.cuda.get_rng_state(2)


DRAWS = {
    "rand": lambda where: gc.rand(2, 3, device=where),
    "complex": lambda where: gc.randn(2, 3, dtype=gc.complex64, device=where),
    "randint": lambda where: gc.randint(5, (2, 3), device=where),
    "randperm": lambda where: gc.randperm(5, device=where),
    "bernoulli": lambda where: gc.bernoulli(gc.full((2, 3), 0.5, device=where)),
    "in place": lambda where: gc.empty(2, 3, device=where).uniform_().normal_().exponential_(),
    "normal": lambda where: gc.normal(gc.zeros(2, 3, device=where), 2.0),
    "poisson": lambda where: gc.poisson(gc.full((2, 3), 4.0, device=where)),
    "multinomial": lambda where: gc.multinomial(gc.ones(2, 5, device=where), 2),
    "dropout": lambda where: gc.nn.functional.dropout(gc.ones(2, 3, device=where)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_numbers_for_a_device_that_is_not_current(cuda: Runtime, name: str) -> None:
    gc.manual_seed(0)
    there = DRAWS[name]("cuda:1")
    gc.manual_seed(0)
    here = DRAWS[name]("cpu")
    assert gc.allclose(there.cpu(), here)
    assert there.cpu().numpy().dtype == here.numpy().dtype == here.dtype.numpy
    assert gc.cuda.current_device() == 0


# -- devices ----------------------------------------------------------------------------------------------------------


def test_properties(cuda: Runtime) -> None:
    found = gc.cuda.get_device_properties("cuda:1")
    assert found.name == "Fake"
    assert {field: getattr(found, field) for field in FIELDS if field != "name"} == {
        field: PROPERTIES[theirs] for field, theirs in FIELDS.items() if field != "name"
    }
    assert repr(found) == (
        "_CudaDeviceProperties(name='Fake', major=9, minor=0, total_memory=81920MB, multi_processor_count=132, "
        "L2_cache_size=50MB)"
    )


@pytest.mark.parametrize(("capability", "has"), [("75", False), ("80", True), ("90", True), ("120", True)])
def test_dtypes_of_devices(cuda: Runtime, capability: str, has: bool) -> None:
    cuda.capability = capability
    assert gc.cuda.is_bf16_supported()
    assert gc.cuda.is_bf16_supported(including_emulation=False) is has
    assert gc.cuda.is_tf32_supported() is has


def test_the_device_of_a_tensor(cuda: Runtime) -> None:
    x = gc.ones(2, device="cuda:1")
    with gc.cuda.device_of(x):
        assert gc.cuda.current_device() == 1
        with gc.cuda.device_of(gc.ones(2)):
            assert gc.cuda.current_device() == 1
    assert gc.cuda.current_device() == 0


def test_init(cuda: Runtime) -> None:
    gc.cuda.init()
    assert gc.cuda.is_initialized()


# -- streams ----------------------------------------------------------------------------------------------------------


def test_stream_contexts(cuda: Runtime) -> None:
    side = gc.cuda.Stream("cuda:1")
    context = gc.cuda.stream(side)
    assert isinstance(context, gc.cuda.StreamContext)
    assert context.stream is side
    for _ in range(2):
        with context:
            assert gc.cuda.current_device() == 1
            assert gc.cuda.current_stream() == side
        assert gc.cuda.current_device() == 0
        assert gc.cuda.current_stream() == gc.cuda.default_stream()
    with pytest.raises(ZeroDivisionError), gc.cuda.StreamContext(side):
        1 / 0  # noqa: B018
    assert gc.cuda.current_device() == 0
    with gc.cuda.StreamContext(None):
        assert gc.cuda.current_stream() == gc.cuda.default_stream()


def test_capturing_is_noticed(cuda: Runtime) -> None:
    seen: list[bool] = []
    assert not gc.cuda.is_current_stream_capturing()
    gc.cuda.CUDAGraph().capture(lambda: seen.append(gc.cuda.is_current_stream_capturing()))
    assert seen == [True]
    assert not gc.cuda.is_current_stream_capturing()


def test_streams_of_other_libraries(cuda: Runtime) -> None:
    side = gc.cuda.Stream()
    assert gc.cuda.get_stream_from_external(side.cuda_stream) == side


# -- memory -----------------------------------------------------------------------------------------------------------


def test_peaks_of_the_pool(cuda: Runtime) -> None:
    gc.cuda.reset_peak_memory_stats()
    assert gc.cuda.max_memory_reserved() == 4096
    cuda.reserved = 8192
    gc.cuda.empty_cache()
    cuda.reserved = 2048
    assert gc.cuda.memory_reserved() == 2048
    assert gc.cuda.max_memory_reserved() == gc.cuda.memory_stats()["reserved_bytes.all.peak"] == 8192
    gc.cuda.reset_peak_memory_stats()
    assert gc.cuda.max_memory_reserved() == 2048


def test_the_share_of_the_memory(cuda: Runtime) -> None:
    assert gc.cuda.get_per_process_memory_fraction() == 1.0
    gc.cuda.set_per_process_memory_fraction(0.25)
    assert gc.cuda.get_per_process_memory_fraction() == 0.25
    assert gc.cuda.device_memory_used() == 77 << 30


@pytest.mark.parametrize(
    ("old", "new"),
    [("memory_cached", "memory_reserved"), ("max_memory_cached", "max_memory_reserved"),
     ("reset_max_memory_allocated", "reset_peak_memory_stats"), ("reset_max_memory_cached", "reset_peak_memory_stats")],
)  # fmt: skip
def test_names_of_before(cuda: Runtime, old: str, new: str) -> None:
    gc.cuda.reset_peak_memory_stats()
    with pytest.warns(FutureWarning, match=f"`torch.cuda.{old}` has been renamed to `torch.cuda.{new}`"):
        assert getattr(gc.cuda, old)() == getattr(gc.cuda, new)()


# -- without CUDA -----------------------------------------------------------------------------------------------------


@pytest.fixture
def no_cuda() -> None:
    if gc.cuda.is_available():
        pytest.skip("there is CUDA")


@pytest.mark.parametrize(
    "call",
    [gc.cuda.initial_seed, gc.cuda.get_rng_state, gc.cuda.init, gc.cuda.get_device_properties,
     gc.cuda.device_memory_used, gc.cuda.max_memory_reserved, gc.cuda.get_per_process_memory_fraction],
)  # fmt: skip
def test_what_needs_cuda(no_cuda: None, call: Any) -> None:
    with pytest.raises(RuntimeError, match="Device type 'cuda' cannot be used"):
        call()


def test_what_needs_none(no_cuda: None) -> None:
    asked = (gc.cuda.is_bf16_supported, gc.cuda.is_tf32_supported, gc.cuda.is_current_stream_capturing,
             gc.cuda.is_initialized)  # fmt: skip
    assert [f() for f in asked] == [False] * 4
    assert gc.cuda.get_rng_state_all() == []
    gc.cuda.set_rng_state_all([])
    gc.cuda.manual_seed_all(5)
    assert gc.initial_seed() == 5
