"""Philox words, the state of a generator, and the numbers made from words: formulas, accuracy, statistics."""

import copy
import math
import pickle
import threading

import numpy as np
import pytest
from scipy import special, stats

from gradcore.backends.random import exact, philox, sampling
from gradcore.backends.random.generator import PhiloxState

KEY = 0x0123456789ABCDEF_FEDCBA9876543210
COUNTER = 2**192 + 2**64 - 3  # carries within the stream

# Random123's known answers for philox4x64 with 10 rounds: counter, key, words.
PI = "243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89 452821e638d01377 be5466cf34e90c6c"
KNOWN_ANSWERS = [
    ("0 0 0 0", "0 0", "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b"),
    (
        " ".join(["f" * 16] * 4),
        " ".join(["f" * 16] * 2),
        "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0",
    ),
    (PI[:67], PI[68:], "a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6"),
]


def integer(pieces):
    return sum(int(piece, 16) << 64 * i for i, piece in enumerate(pieces.split()))


def philox_block(counter, key):
    """Philox 4x64-10 in plain Python integers."""
    mask = 2**64 - 1
    c = [counter >> 64 * i & mask for i in range(4)]
    k = [key & mask, key >> 64]
    for _ in range(10):
        first, second = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [(second >> 64) ^ c[1] ^ k[0], second & mask, (first >> 64) ^ c[3] ^ k[1], first & mask]
        k = [(k[0] + 0x9E3779B97F4A7C15) & mask, (k[1] + 0xBB67AE8584CAA73B) & mask]
    return c


def stream(n, counter=COUNTER):
    return philox.WordStream(n, KEY, counter)


@pytest.fixture(scope="module")
def many():
    return philox.words(100_000, KEY, COUNTER)


class TestWords:
    @pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
    def test_known_answers(self, counter, key, answer):
        expected = [int(word, 16) for word in answer.split()]
        assert philox_block(integer(counter), integer(key)) == expected
        assert philox.words(4, integer(key), integer(counter)).tolist() == expected

    @pytest.mark.parametrize("counter", [0, 1, COUNTER, 2**128 - 2, 2**256 - 2])
    def test_blocks_follow_the_counter(self, counter):
        expected = [word for i in range(5) for word in philox_block((counter + i) % 2**256, KEY)]
        for n in (0, 1, 3, 4, 5, 18):
            assert philox.words(n, KEY, counter).tolist() == expected[:n]

    def test_stream_is_the_same_words(self, many):
        lazy = stream(len(many))
        for part in (slice(0, 10), slice(3, 4), slice(5, 5001), slice(99_998, 200_000), slice(None)):
            assert np.array_equal(lazy[part], many[part])

    def test_interleaved_streams_and_threads(self):
        expected = {key: philox.words(4000, key, 5) for key in range(4)}
        wrong = []

        def read(key):
            for block in range(0, 1000, 10):
                if not np.array_equal(philox.words(40, key, 5 + block), expected[key][4 * block : 4 * block + 40]):
                    wrong.append((key, block))
                philox.words(4, key + 100, 0)

        threads = [threading.Thread(target=read, args=(key,)) for key in expected]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


class TestState:
    def test_draw_reserves_whole_blocks(self):
        state = PhiloxState(seed=3)
        assert [state.draw(n) for n in (1, 4, 0, 9, 1)] == [(3, 0), (3, 1), (3, 2), (3, 2), (3, 5)]
        assert state.counter == 6

    def test_draws_are_one_stream(self):
        state = PhiloxState(seed=3)
        drawn = np.concatenate([philox.words(n, *state.draw(n)) for n in (4, 8, 400)])
        assert np.array_equal(drawn, philox.words(412, 3, 0))

    def test_counter_wraps(self):
        state = PhiloxState(counter=2**256 - 1)
        assert state.draw(8) == (0, 2**256 - 1)
        assert state.counter == 1

    def test_seeds(self):
        assert PhiloxState(-1).seed == 2**64 - 1
        assert PhiloxState(2**128 - 1).key == 2**128 - 1
        assert PhiloxState(np.int64(5)).seed == 5
        for seed in (-(2**63) - 1, 2**128):
            with pytest.raises(ValueError, match="expected a seed"):
                PhiloxState(seed)
        with pytest.raises(TypeError):
            PhiloxState(1.5)

    def test_bytes(self):
        state = PhiloxState(KEY, COUNTER)
        data = state.to_bytes()
        assert (data.dtype, data.shape) == (np.uint8, (48,))
        assert bytes(data) == KEY.to_bytes(16, "little") + COUNTER.to_bytes(32, "little")
        assert PhiloxState.from_bytes(data) == state == PhiloxState.from_bytes(bytes(data))
        with pytest.raises(ValueError, match="RNG state is wrong size"):
            PhiloxState.from_bytes(data[:-1])
        with pytest.raises(TypeError, match="uint8"):
            PhiloxState.from_bytes(data.astype(np.int64))

    @pytest.mark.parametrize("duplicate", [PhiloxState.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
    def test_copies_are_independent(self, duplicate):
        state = PhiloxState(7, 5)
        other = duplicate(state)
        assert other == state
        other.draw(1)
        assert other != state
        assert state.counter == 5

    def test_threads_get_words_of_their_own(self):
        state, drawn = PhiloxState(), []
        threads = [
            threading.Thread(target=lambda: drawn.extend([state.draw(1)[1] for _ in range(2000)])) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(drawn) == list(range(8000))

    def test_negative_draw(self):
        with pytest.raises(ValueError, match="not negative"):
            PhiloxState().draw(-8)


def real_dtype(name):
    return np.dtype(getattr(pytest.importorskip("ml_dtypes"), name) if name == "bfloat16" else name)


def units(values, reference):
    """Return the distance from the reference in units in the last place."""
    return np.abs(values.astype(np.float64) - reference) / np.spacing(np.abs(reference).astype(values.dtype))


# The ends of the range of a half word and of a word, and everything between.
def edge_words(many):
    ends = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, 2**63 + 2**31, 2**62, 2**62 - 1]
    return np.concatenate([np.array(ends, np.uint64), many])


class TestFormulas:
    @pytest.mark.parametrize(("name", "digits"), [("float16", 11), ("bfloat16", 8), ("float32", 24), ("float64", 53)])
    def test_uniform(self, many, name, digits):
        dtype, w = real_dtype(name), edge_words(many)
        values = philox.uniform(np, w, dtype)
        h = w if name == "float64" else w.astype("<u8").view("<u4")
        bits = 8 * h.dtype.itemsize
        assert values.dtype == dtype
        assert np.array_equal(values.astype(np.float64), (h >> (bits - digits)).astype(np.float64) / 2**digits)
        assert len(np.unique(values[:2000])) > (200 if digits == 8 else 1000)

    @pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
    @pytest.mark.parametrize(("low", "high"), [(-1, 0), (1, 1.01), (0.1, 3e4), (-5, -5)])
    def test_uniform_bounds(self, many, name, low, high):
        dtype = real_dtype(name)
        values = philox.uniform(np, edge_words(many), dtype, low, high)
        first, end = dtype.type(low), dtype.type(high)
        assert values.dtype == dtype
        assert values.min() == first  # the word 0 is among them
        assert (values == end).all() if first == end else (values < end).all()

    def test_normal_float32(self, many):
        w = edge_words(many)
        q = (w.view("<i4").astype(np.float64) + 0.5) / 2**32
        reference = np.where(np.abs(q) < 0.25, special.erfinv(2 * q) * math.sqrt(2), special.ndtri(0.5 + q))
        values = philox.normal(np, w, np.float32)
        assert units(values, reference).max() < 3
        assert units(np.array([values.max(), -values.min()]), -special.ndtri(2.0**-33)).max() < 3

    def test_normal_float64(self, many):
        w = edge_words(many)
        q = (w.view(np.int64).astype(np.float64) + 0.5) / 2**64
        in_tail = np.where(q < 0, w - np.uint64(2**63), np.uint64(2**63 - 1) - w)  # wraps where it is not used
        t = np.minimum((in_tail.astype(np.float64) + 0.5) / 2**64, 0.5)
        reference = np.where(np.abs(q) < 0.25, special.erfinv(2 * q) * math.sqrt(2), -np.sign(q) * special.ndtri(t))
        values = philox.normal(np, w, np.float64)
        assert np.abs(values / reference - 1).max() < 2e-15
        assert values.max() == -values.min()

    def test_normal_is_odd(self, many):
        for dtype in (np.float32, np.float64):
            assert np.array_equal(philox.normal(np, ~many, dtype), -philox.normal(np, many, dtype))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_exponential(self, many, dtype):
        w = edge_words(many)
        h = w if dtype == np.float64 else w.view("<u4")
        bits = 8 * h.dtype.itemsize
        v = ((h >> 1).astype(np.longdouble) + 0.5) / 2 ** (bits - 1)
        values = philox.exponential(np, w, dtype)
        assert units(values, -np.log1p(-v).astype(np.float64)).max() < (3 if dtype == np.float32 else 4)
        assert values.min() > 0
        assert np.array_equal(philox.exponential(np, w, dtype, 3.0), values / dtype(3))

    @pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 4), (np.float64, 8)])
    def test_cauchy(self, many, dtype, limit):
        w = many
        h = w if dtype == np.float64 else w.view("<u4")
        bits = 8 * h.dtype.itemsize
        signed = h.view(h.dtype.str.replace("u", "i"))
        q = (signed.astype(np.longdouble) + 0.5) / 2**bits
        angle = np.where(np.abs(q) > 0.25, np.sign(q) * 0.5 - q, q) * np.arctan2(np.longdouble(0), np.longdouble(-1))
        reference = np.where(np.abs(q) > 0.25, 1 / np.tan(angle), np.tan(angle)).astype(np.float64)
        assert units(philox.cauchy(np, w, dtype), reference).max() < limit

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_log_normal(self, many, dtype):
        values = philox.log_normal(np, many, dtype, 0.5, 3.0)
        reference = np.exp(philox.normal(np, many, dtype, 0.5, 3.0).astype(np.float64))
        assert units(values, reference).max() < 2.5

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_exp_and_log_over_their_range(self, dtype):
        info = np.finfo(dtype)
        x = np.geomspace(float(info.tiny), float(info.max) / 2, 100_001).astype(dtype)
        assert units(exact.log(x), np.log(x.astype(np.float64))).max() < 3
        x = np.linspace(np.log(float(info.smallest_subnormal)) * 1.1, np.log(float(info.max)) * 1.1, 100_001).astype(
            dtype
        )
        with np.errstate(over="ignore", under="ignore"):
            values, reference = exact.exp(np, x), np.exp(x.astype(np.float64)).astype(dtype)
        finite = np.isfinite(reference)
        assert np.array_equal(np.isfinite(values), finite)
        assert units(values[finite], reference[finite].astype(np.float64)).max() <= 2

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_bernoulli(self, many, dtype):
        h = many if dtype == np.float64 else many.view("<u4")
        bits, digits = 8 * h.dtype.itemsize, 53 if dtype == np.float64 else 31
        u = (h >> (bits - digits)).astype(np.float64) / 2**digits
        for p in (0.0, 1.0, 0.3, 1e-3):
            assert np.array_equal(philox.bernoulli(np, many, dtype, p), u < dtype(p))
        p = np.linspace(0, 1, len(u) - 1).astype(dtype)
        assert np.array_equal(philox.bernoulli(np, many, dtype, p), u[:-1] < p)

    def test_geometric(self, many):
        p = np.linspace(0.001, 0.999, len(many))
        e = philox.exponential(np, many, np.float64)
        assert np.array_equal(philox.geometric(np, many, np.float64, p), np.ceil(e / -np.log1p(-p)))
        assert np.array_equal(
            philox.geometric(np, many, np.float32, np.float32(0.25)),
            philox.geometric(np, many, np.float32, 0.25),
        )

    @pytest.mark.parametrize(
        ("low", "high"),
        [
            (0, 1),
            (0, 10),
            (-5, 2**32 - 5),
            (-7, 2**40),
            (0, 3 * 2**62),
            (-(2**63), 2**63),
            (0, 2**64),
            (0, 2**64 - 1),
        ],
    )
    def test_integers(self, many, low, high):
        w = many[:2000].tolist()
        dtype = np.int64 if high <= 2**63 else np.uint64
        if philox.integer_words(low, high) == 1:
            expected = [low + (word * (high - low) >> 64) for word in w]
        else:
            expected = [low + (((w[i] << 64) + w[i + 1]) * (high - low) >> 128) for i in range(0, len(w), 2)]
        assert philox.integers(np, many[:2000], dtype, low, high).tolist() == expected

    def test_integers_of_small_dtypes(self, many):
        assert np.array_equal(np.unique(philox.integers(np, many, np.int8, -128, 128)), np.arange(-128, 128))
        assert np.array_equal(np.unique(philox.integers(np, many, np.uint8, 0, 256)), np.arange(256))
        assert np.array_equal(np.unique(philox.integers(np, many, np.bool_, 0, 2)), [False, True])
        for low, high in ((3, 3), (4, 3), (0, 2**64 + 1)):
            with pytest.raises(ValueError, match="expected from 1 to"):
                philox.integers(np, many, np.int64, low, high)

    def test_word_count(self):
        assert [philox.word_count(n, np.float32) for n in (0, 1, 2, 3)] == [0, 1, 1, 2]
        assert [philox.word_count(n, np.float64) for n in (0, 1, 2, 3)] == [0, 1, 2, 3]
        assert philox.word_count(3, np.float16) == 2


N = 200_000
P_LIMIT = 1e-4  # the words are fixed, so the tests below do not fail by chance


def significant(sample, distribution):
    return stats.kstest(sample, distribution).pvalue < P_LIMIT


def chi_square(observed, expected):
    """p-value; cells are pooled from both ends until at least 5 are expected in each."""
    edges = np.flatnonzero(expected > 5)
    first, last = edges[0], edges[-1] + 1
    observed, expected = (
        np.concatenate([[c[: first + 1].sum()], c[first + 1 : last - 1], [c[last - 1 :].sum()]])
        for c in (observed, expected)
    )
    return stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


class TestStatistics:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize(
        ("distribution", "law"),
        [
            (philox.uniform, stats.uniform()),
            (philox.normal, stats.norm()),
            (philox.exponential, stats.expon()),
            (philox.cauchy, stats.cauchy()),
            (lambda xp, w, dtype: philox.log_normal(xp, w, dtype, 0.0, 0.5), stats.lognorm(0.5)),
        ],
        ids=["uniform", "normal", "exponential", "cauchy", "log_normal"],
    )
    def test_continuous(self, distribution, law, dtype):
        sample = distribution(np, stream(philox.word_count(N, dtype)), dtype).astype(np.float64)
        assert len(sample) == N
        assert not significant(sample, law.cdf)
        if math.isfinite(law.std()):
            assert abs(sample.mean() - law.mean()) < 4 * law.std() / math.sqrt(N)
            kurtosis = law.stats("k") + 2
            assert abs(sample.var() - law.var()) < 4 * law.var() * math.sqrt(kurtosis / N)
        # Numbers that lie near each other in the stream must not be related.
        for lag in (1, 2, 4, 8):
            assert abs(stats.spearmanr(sample[:-lag], sample[lag:]).statistic) < 4 / math.sqrt(N)

    def test_parameters_scale_and_shift(self, many):
        standard = philox.normal(np, many, np.float64)
        assert np.array_equal(philox.normal(np, many, np.float64, 3.0, 2.0), standard * 2.0 + 3.0)
        standard = philox.cauchy(np, many, np.float32)
        values = philox.cauchy(np, many, np.float32, 0.1, 0.3)
        assert np.array_equal(values, standard * np.float32(0.3) + np.float32(0.1))

    @pytest.mark.parametrize("name", ["float16", "bfloat16"])
    def test_half_types_are_float32_rounded_once(self, many, name):
        dtype = real_dtype(name)
        for distribution, parameters in (
            (philox.normal, (0.1, 3.0)),
            (philox.exponential, (0.7,)),
            (philox.cauchy, ()),
        ):
            values = distribution(np, many, dtype, *parameters)
            assert values.dtype == dtype
            with np.errstate(over="ignore"):
                expected = distribution(np, many, np.float32, *parameters).astype(dtype)
            assert np.array_equal(values, expected)

    @pytest.mark.parametrize("span", [3, 1000, 3 * 2**40])
    def test_integers(self, span):
        values = philox.integers(np, stream(N * philox.integer_words(5, 5 + span)), np.int64, 5, 5 + span)
        cells = np.bincount((values - 5) * min(span, 1000) // span)
        assert len(values) == N
        assert stats.chisquare(cells).pvalue > P_LIMIT

    @pytest.mark.parametrize("p", [0.001, 0.5, 0.9])
    def test_bernoulli(self, p):
        for dtype in (np.float32, np.float64):
            hits = philox.bernoulli(np, stream(philox.word_count(N, dtype)), dtype, p).sum()
            assert stats.binomtest(int(hits), N, p).pvalue > P_LIMIT

    @pytest.mark.parametrize("p", [0.01, 0.3, 0.9])
    def test_geometric(self, p):
        values = philox.geometric(np, stream(N // 2), np.float32, p).astype(int)
        observed = np.bincount(values)[1:]
        assert chi_square(observed, stats.geom(p).pmf(np.arange(1, len(observed) + 1)) * N) > P_LIMIT


class TestSampling:
    def test_permutation(self):
        order = sampling.permutation(np, philox.words(1000, KEY, COUNTER))
        assert order.dtype == np.int64
        assert np.array_equal(np.sort(order), np.arange(1000))
        assert sampling.permutation(np, np.array([5, 3, 5, 0], np.uint64)).tolist() == [3, 1, 0, 2]

    def test_permutations_are_equally_likely(self):
        orders = [sampling.permutation(np, w) for w in philox.words(4 * 24_000, KEY, COUNTER).reshape(-1, 4)]
        _, counts = np.unique(np.array(orders) @ [64, 16, 4, 1], return_counts=True)
        assert len(counts) == 24
        assert stats.chisquare(counts).pvalue > P_LIMIT

    @pytest.mark.parametrize("categories", [1, 2, 3, 4, 1000])
    def test_multinomial_with_replacement(self, categories):
        rows = np.random.default_rng(0).random((2, categories)) * [[1], [1e-30]]
        rows[:, 1::3] = 0
        samples = sampling.multinomial(np, philox.words(2 * N, KEY, COUNTER), rows, N, True)
        assert samples.shape == (2, N)
        for sample, row in zip(samples, rows, strict=True):
            counts = np.bincount(sample, minlength=categories)
            assert (counts[row == 0] == 0).all()
            counts, row = counts[row > 0], row[row > 0]
            assert len(row) == 1 or stats.chisquare(counts, row / row.sum() * N).pvalue > P_LIMIT

    def test_multinomial_never_loses_a_small_weight(self):
        weights = np.array([[1e-300, 1.0, 0.0]])
        words = np.array([0, 2**4, 2**64 - 1], np.uint64)
        assert sampling.multinomial(np, words, weights, 3, True).tolist() == [[0, 1, 1]]

    def test_multinomial_without_replacement(self):
        weights = np.array([1.0, 2.0, 0.0, 3.0])
        w = philox.words(4 * N, KEY, COUNTER)
        samples = sampling.multinomial(np, w, np.tile(weights, (N, 1)), 2, False)
        share = weights / 6
        expected = np.outer(share, share) / (1 - share)[:, None] * N  # the second among what the first left
        pairs = np.bincount(samples @ [4, 1], minlength=16).reshape(4, 4)
        possible = ~np.eye(4, dtype=bool) & (expected > 0)
        assert pairs[~possible].sum() == 0
        assert stats.chisquare(pairs[possible], expected[possible]).pvalue > P_LIMIT

    def test_rows_are_independent_of_the_batch(self, many):
        rows = np.random.default_rng(1).random((3, 50))
        for replacement, used in ((True, 20), (False, 50)):
            together = sampling.multinomial(np, many[: 3 * used], rows, 20, replacement)
            for i in range(3):
                alone = sampling.multinomial(np, many[i * used : (i + 1) * used], rows[i : i + 1], 20, replacement)
                assert np.array_equal(together[i : i + 1], alone)

    @pytest.mark.parametrize("rate", [0.01, 1.0, 9.99, 10.0, 40.0, 1000.0])
    def test_poisson(self, rate):
        state = PhiloxState(11)
        values = sampling.poisson(np, lambda n: philox.words(n, *state.draw(n)), np.full(N, rate))
        law = stats.poisson(rate)
        observed = np.bincount(values.astype(int))
        assert chi_square(observed, law.pmf(np.arange(len(observed))) * N) > P_LIMIT
        assert abs(values.mean() - rate) < 4 * math.sqrt(rate / N)

    def test_poisson_of_mixed_rates(self):
        state = PhiloxState(12)
        rate = np.tile([0.0, 3.0, 1e6, 30.0], N // 4)
        values = sampling.poisson(np, lambda n: philox.words(n, *state.draw(n)), rate).reshape(-1, 4)
        assert (values == np.floor(values)).all()
        assert (values[:, 0] == 0).all()
        assert np.abs(values.mean(0)[1:] / [3, 1e6, 30] - 1).max() < 0.01
        assert np.abs(values.var(0)[1:] / [3, 1e6, 30] - 1).max() < 0.03
