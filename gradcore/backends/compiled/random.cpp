// Random numbers, for Python to call. Arguments are the key and the counter as six words, the parameters of a
// distribution, the number of threads, and the result.

#include <cmath>

#include "calls.h"
#include "draws.h"

namespace gradcore {

template <class Real, class T, class F>
void fill(const Array& position, i64 threads, const Array& out, F make) {
    constexpr int per_word = sizeof(double) / sizeof(Real);
    draw<per_word>(reinterpret_cast<T*>(out.data), reinterpret_cast<const u64*>(position.data), out.size(), threads, make);
}

// `below` is the last number before the end of the interval.
template <class Real>
void draw_uniform(const Array& position, double low, double span, double below, i64 threads, const Array& out) {
    constexpr int digits = sizeof(Real) == 4 ? 24 : 53;
    const Real a = static_cast<Real>(low), b = static_cast<Real>(span), c = static_cast<Real>(below);
    fill<Real, Real>(position, threads, out, [=](auto h) { return philox::uniform<Real, digits>(h, a, b, c); });
}

template <class Real>
void draw_normal(const Array& position, double mean, double std, i64 threads, const Array& out) {
    const Real a = static_cast<Real>(mean), b = static_cast<Real>(std);
    if (a == 0) {  // adding zero would lose the sign of a product that is rounded to zero
        return fill<Real, Real>(position, threads, out, [=](auto h) { return philox::normal<Real>(h) * b; });
    }
    fill<Real, Real>(position, threads, out, [=](auto h) { return philox::normal<Real>(h) * b + a; });
}

template <class Real>
void draw_exponential(const Array& position, double rate, i64 threads, const Array& out) {
    const Real a = static_cast<Real>(rate);
    fill<Real, Real>(position, threads, out, [=](auto h) { return philox::exponential<Real>(h) / a; });
}

// Decide whether the leading bits of a number, 31 or 53, are below a threshold.
template <class Real>
void draw_bernoulli(const Array& position, i64 threshold, i64 threads, const Array& out) {
    constexpr int bits = sizeof(Real) * 8 - (sizeof(Real) == 4 ? 31 : 53);
    const u64 most = static_cast<u64>(threshold);
    fill<Real, bool>(position, threads, out, [=](auto h) { return (h >> bits) < static_cast<decltype(h)>(most); });
}

// The same with one probability for each decision.
template <class Real>
void draw_decisions(const Array& position, const Array& probabilities, i64 threads, const Array& out) {
    constexpr int digits = sizeof(Real) == 4 ? 31 : 53, bits = sizeof(Real) * 8 - digits;
    constexpr Real scale = static_cast<Real>(1ull << digits);
    const Real* const p = reinterpret_cast<const Real*>(probabilities.data);
    fill<Real, bool>(position, threads, out, [=](auto h, i64 i) {
        return (h >> bits) < static_cast<decltype(h)>(std::ceil(p[i] * scale));
    });
}

// Factors of dropout: `factor` where the decision of `draw_bernoulli` in float32 is true, else zero.
template <class T>
void draw_factors(const Array& position, i64 threshold, double factor, i64 threads, const Array& out) {
    const u32 most = static_cast<u32>(threshold);
    const T kept = static_cast<T>(factor);
    draw<2>(reinterpret_cast<T*>(out.data), reinterpret_cast<const u64*>(position.data), out.size(), threads,
            [=](u32 h) { return (h >> 1) < most ? kept : T(0); });
}

// Integers from `low` on, fewer than 2**32 of them: the upper 64 bits of a word's product with their number are added.
void draw_integers(const Array& position, i64 low, i64 number, i64 threads, const Array& out) {
    const u64 first = static_cast<u64>(low), n = static_cast<u64>(number);
    fill<double, u64>(position, threads, out, [=](u64 h) {
        return first + (((h >> 32) * n + ((h & 0xffffffff) * n >> 32)) >> 32);
    });
}

}  // namespace gradcore

#define DISTRIBUTION(name) \
    BUILTIN(name##_f, &gradcore::name<float>) \
    BUILTIN(name##_d, &gradcore::name<double>)
DISTRIBUTION(draw_uniform)
DISTRIBUTION(draw_normal)
DISTRIBUTION(draw_exponential)
DISTRIBUTION(draw_bernoulli)
DISTRIBUTION(draw_decisions)
DISTRIBUTION(draw_factors)
BUILTIN(draw_integers_l, &gradcore::draw_integers)
