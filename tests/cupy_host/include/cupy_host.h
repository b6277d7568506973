// CUDA's language for g++: what is put before every kernel that CuPy compiles in this rig.
//
// A block's threads run one after another; at a barrier a thread gives way to the others. See host/compiler.cpp.
#pragma once

#include <cassert>
#include <climits>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>

#undef M_PI_2  // which one of CuPy's kernels declares, as NVRTC has no such macro

#ifdef CUPYHOST_SCAN  // to find kernels in what the preprocessor makes of a source
#define __launch_bounds__(...) __launch_bounds__(__VA_ARGS__)
#else
#define __global__
#define __launch_bounds__(...)
#endif
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 9
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
// Shared memory is one section. The compiler sees a name of its own for each variable, as variables of templates and others
// may not be in one section; for the assembler, all after # is a comment. (Before GCC 14, templates ignore the attribute.)
#define NUMBER_AS_TEXT(number) #number
#ifdef __x86_64__
#define SECTION_OF(number) "shared_memory,\"aw\",@progbits#" NUMBER_AS_TEXT(number)
#else
#define SECTION_OF(number) "shared_memory"
#endif
#define __shared__ static __attribute__((section(SECTION_OF(__COUNTER__))))
#define __constant__
#define __managed__
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __builtin_assume(x)
#define __builtin_align__(n) __attribute__((aligned(n)))

// ----------------------------------------------------------------------------------------------------------- vectors

#define CUPYHOST_VECTORS(T, name)                                                         \
    struct name##1 { T x; };                                                              \
    struct alignas(2 * sizeof(T)) name##2 { T x, y; };                                    \
    struct name##3 { T x, y, z; };                                                        \
    struct alignas(sizeof(T) > 4 ? 16 : 4 * sizeof(T)) name##4 { T x, y, z, w; };         \
    inline name##1 make_##name##1(T x) { return {x}; }                                    \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }                            \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                    \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CUPYHOST_VECTORS(signed char, char)
CUPYHOST_VECTORS(unsigned char, uchar)
CUPYHOST_VECTORS(short, short)
CUPYHOST_VECTORS(unsigned short, ushort)
CUPYHOST_VECTORS(int, int)
CUPYHOST_VECTORS(unsigned, uint)
CUPYHOST_VECTORS(long, long)
CUPYHOST_VECTORS(unsigned long, ulong)
CUPYHOST_VECTORS(long long, longlong)
CUPYHOST_VECTORS(unsigned long long, ulonglong)
CUPYHOST_VECTORS(float, float)
CUPYHOST_VECTORS(double, double)
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
typedef unsigned long long cudaTextureObject_t, cudaSurfaceObject_t;

// --------------------------------------------------------------------------------------------- the threads of a block

extern "C" {
extern uint3 cupyhost_thread, cupyhost_block;
extern uint3 cupyhost_block_size, cupyhost_grid_size;
extern unsigned cupyhost_current;  // the number of the running thread in its block
extern char cupyhost_dynamic_memory[];
extern unsigned char cupyhost_exchange[1024][16];
void cupyhost_wait_block();
void cupyhost_wait_warp(unsigned mask);
int cupyhost_count_block(int value);  // how many threads of the block say so
unsigned cupyhost_ballot(unsigned mask, int value);
}
#define threadIdx cupyhost_thread
#define blockIdx cupyhost_block
#define blockDim cupyhost_block_size
#define gridDim cupyhost_grid_size
static constexpr int warpSize = 32;

inline void __syncthreads() { cupyhost_wait_block(); }
inline int __syncthreads_count(int value) { return cupyhost_count_block(value); }
inline int __syncthreads_or(int value) { return cupyhost_count_block(value) != 0; }
inline int __syncthreads_and(int value) { return cupyhost_count_block(!value) == 0; }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) { cupyhost_wait_warp(mask); }
inline unsigned __activemask() {
    const unsigned first = cupyhost_current / 32 * 32, all = blockDim.x * blockDim.y * blockDim.z;
    return all - first >= 32 ? 0xFFFFFFFFu : (1u << (all - first)) - 1;
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline unsigned __ballot_sync(unsigned mask, int value) { return cupyhost_ballot(mask, value); }
inline int __any_sync(unsigned mask, int value) { return cupyhost_ballot(mask, value) != 0; }
inline int __all_sync(unsigned mask, int value) { return cupyhost_ballot(mask, !value) == 0; }
inline unsigned __lanemask_lt() { return (1u << cupyhost_current % 32) - 1; }

namespace cupyhost {
template <class T>
T shuffled(unsigned mask, T value, unsigned lane) {
    static_assert(sizeof(T) <= 16, "a register");
    std::memcpy(cupyhost_exchange[cupyhost_current], &value, sizeof(T));
    cupyhost_wait_warp(mask);
    T result;
    std::memcpy(&result, cupyhost_exchange[cupyhost_current / 32 * 32 + lane % 32], sizeof(T));
    cupyhost_wait_warp(mask);
    return result;
}
}  // namespace cupyhost
template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    const unsigned lane = cupyhost_current % 32, first = lane / width * width;
    return cupyhost::shuffled(mask, value, first + from % width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    const unsigned lane = cupyhost_current % 32, other = lane ^ bits;
    return cupyhost::shuffled(mask, value, other >= lane / width * width + width ? lane : other);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned step, int width = 32) {
    const unsigned lane = cupyhost_current % 32;
    return cupyhost::shuffled(mask, value, lane % width + step < static_cast<unsigned>(width) ? lane + step : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned step, int width = 32) {
    const unsigned lane = cupyhost_current % 32;
    return cupyhost::shuffled(mask, value, lane % width >= step ? lane - step : lane);
}

// ----------------------------------------------------------------------------------------------------------- atomics

#define CUPYHOST_ATOMIC(name, expression)                                       \
    template <class T, class U, std::enable_if_t<std::is_arithmetic<T>::value && !std::is_same<T, long long>::value, int> = 0> \
    T name(T* place, U given) {                                                 \
        const T old = *place, value = static_cast<T>(given);                    \
        *place = expression;                                                    \
        return old;                                                             \
    }                                                                           \
    template <class T, class U, std::enable_if_t<std::is_arithmetic<T>::value, int> = 0> \
    T name##_block(T* place, U value) { return name(place, value); }            \
    template <class T, class U, std::enable_if_t<std::is_arithmetic<T>::value, int> = 0> \
    T name##_system(T* place, U value) { return name(place, value); }
CUPYHOST_ATOMIC(atomicAdd, old + value)
CUPYHOST_ATOMIC(atomicSub, old - value)
CUPYHOST_ATOMIC(atomicExch, value)
CUPYHOST_ATOMIC(atomicInc, old >= value ? T(0) : T(old + 1))
CUPYHOST_ATOMIC(atomicDec, old == 0 || old > value ? value : T(old - 1))
#undef CUPYHOST_ATOMIC
#define CUPYHOST_INTEGER_ATOMIC(name, expression)                                                                  \
    template <class T, class U, std::enable_if_t<std::is_integral<T>::value && (sizeof(T) >= 4), int> = 0>          \
    T name(T* place, U given) {                                                                                    \
        const T old = *place, value = static_cast<T>(given);                                                       \
        *place = expression;                                                                                       \
        return old;                                                                                                \
    }
CUPYHOST_INTEGER_ATOMIC(atomicMin, value < old ? value : old)
CUPYHOST_INTEGER_ATOMIC(atomicMax, value > old ? value : old)
CUPYHOST_INTEGER_ATOMIC(atomicAnd, old & value)
CUPYHOST_INTEGER_ATOMIC(atomicOr, old | value)
CUPYHOST_INTEGER_ATOMIC(atomicXor, old ^ value)
#undef CUPYHOST_INTEGER_ATOMIC
template <class T, class U, class V, std::enable_if_t<std::is_integral<T>::value && (sizeof(T) >= 2) && std::is_unsigned<T>::value || std::is_same<T, int>::value, int> = 0>
T atomicCAS(T* place, U expected, V value) {
    const T old = *place;
    if (old == static_cast<T>(expected)) *place = static_cast<T>(value);
    return old;
}

// -------------------------------------------------------------------------------------------------------- mathematics

using std::abs; using std::acos; using std::acosh; using std::asin; using std::asinh; using std::atan; using std::atan2;
using std::atanh; using std::cbrt; using std::ceil; using std::copysign; using std::cos; using std::cosh; using std::erf;
using std::erfc; using std::exp; using std::exp2; using std::expm1; using std::fabs; using std::fdim; using std::floor;
using std::fma; using std::fmax; using std::fmin; using std::fmod; using std::frexp; using std::hypot; using std::ilogb;
using std::isfinite; using std::isinf; using std::isnan; using std::ldexp; using std::lgamma; using std::llrint;
using std::llround; using std::log; using std::log10; using std::log1p; using std::log2; using std::logb; using std::lrint;
using std::lround; using std::modf; using std::nearbyint; using std::nextafter; using std::pow; using std::remainder;
using std::remquo; using std::rint; using std::round; using std::scalbln; using std::scalbn; using std::signbit;
using std::sin; using std::sinh; using std::sqrt; using std::tan; using std::tanh; using std::tgamma; using std::trunc;

namespace cupyhost {
template <class A, class B>
using both = std::enable_if_t<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value, std::common_type_t<A, B>>;
}
template <class A, class B>
constexpr cupyhost::both<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    if (T(a) != T(a)) return b;
    return T(a) < T(b) ? T(b) : T(a);
}
template <class A, class B>
constexpr cupyhost::both<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    if (T(a) != T(a)) return b;
    return T(b) < T(a) ? T(b) : T(a);
}
inline int umin(unsigned a, unsigned b) { return a < b ? a : b; }

inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float rsqrt(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
inline float rsqrtf(float x) { return rsqrt(x); }
inline double rcbrt(double x) { return 1 / std::cbrt(x); }
inline double sinpi(double x) { x = std::fmod(x, 2); return x == std::trunc(x) ? 0.0 * x : std::sin(x * 3.14159265358979323846); }
inline double cospi(double x) { x = std::fmod(std::fabs(x), 2); return x == 0.5 || x == 1.5 ? 0.0 : std::cos(x * 3.14159265358979323846); }
inline void sincospi(double x, double* s, double* c) { *s = sinpi(x), *c = cospi(x); }
inline double normcdf(double x) { return std::erfc(-x * 0.70710678118654752440) / 2; }
inline double erfcx(double x) {
    if (x < 20) return std::exp(x * x) * std::erfc(x);
    const double z = 1 / (2 * x * x);
    return (1 - z * (1 - 3 * z * (1 - 5 * z * (1 - 7 * z)))) / (x * 1.7724538509055160273);
}
namespace cupyhost {
// Where a rising function has a value, by halves.
template <class F>
double inverse(F rising, double value, double low, double high) {
    for (int i = 0; i < 200; ++i) {
        const double middle = (low + high) / 2;
        (rising(middle) < value ? low : high) = middle;
    }
    return (low + high) / 2;
}
}  // namespace cupyhost
inline double normcdfinv(double p) {
    if (!(p > 0 && p < 1)) return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    return cupyhost::inverse([](double x) { return normcdf(x); }, p, -40, 40);
}
inline double erfinv(double y) {
    if (!(y > -1 && y < 1)) return y == 1 ? INFINITY : y == -1 ? -INFINITY : NAN;
    if (y == 0) return y;
    return std::copysign(cupyhost::inverse([](double x) { return std::erf(x); }, std::fabs(y), 0, 10), y);
}
inline double erfcinv(double y) {
    if (!(y > 0 && y < 2)) return y == 0 ? INFINITY : y == 2 ? -INFINITY : NAN;
    return -cupyhost::inverse([](double x) { return std::erfc(-x); }, y, -30, 30);
}
inline double exp10(double x) { return std::pow(10.0, x); }
namespace cupyhost {
// Beyond 500 by the first terms of the series for large arguments; libstdc++ stops the program there.
inline double bessel_i(int order, double x) {
    if (x < 500) return std::cyl_bessel_i(static_cast<double>(order), x);
    if (std::isnan(x)) return x;
    const double mu = 4 * order * order, z = 1 / (8 * x);
    const double series = 1 - (mu - 1) * z * (1 - (mu - 9) * z / 2 * (1 - (mu - 25) * z / 3 * (1 - (mu - 49) * z / 4)));
    return std::exp(x - std::log(6.283185307179586 * x) / 2) * series;
}
}  // namespace cupyhost
inline double cyl_bessel_i0(double x) { return cupyhost::bessel_i(0, std::fabs(x)); }
inline double cyl_bessel_i1(double x) { return std::copysign(cupyhost::bessel_i(1, std::fabs(x)), x); }
#define CUPYHOST_FLOAT(name)                                                                   \
    inline float name(float x) { return static_cast<float>(name(static_cast<double>(x))); }    \
    inline float name##f(float x) { return name(x); }
CUPYHOST_FLOAT(rcbrt) CUPYHOST_FLOAT(sinpi) CUPYHOST_FLOAT(cospi) CUPYHOST_FLOAT(normcdf) CUPYHOST_FLOAT(erfcx)
CUPYHOST_FLOAT(normcdfinv) CUPYHOST_FLOAT(erfinv) CUPYHOST_FLOAT(erfcinv) CUPYHOST_FLOAT(cyl_bessel_i0) CUPYHOST_FLOAT(cyl_bessel_i1)
#undef CUPYHOST_FLOAT
inline float exp10(float x) { return std::pow(10.0f, x); }
inline float j0(float x) { return static_cast<float>(::j0(static_cast<double>(x))); }
inline float j1(float x) { return static_cast<float>(::j1(static_cast<double>(x))); }
inline float jn(int n, float x) { return static_cast<float>(::jn(n, static_cast<double>(x))); }
inline float y0(float x) { return static_cast<float>(::y0(static_cast<double>(x))); }
inline float y1(float x) { return static_cast<float>(::y1(static_cast<double>(x))); }
inline float yn(int n, float x) { return static_cast<float>(::yn(n, static_cast<double>(x))); }
inline void sincos(float x, float* s, float* c) { *s = std::sin(x), *c = std::cos(x); }

// ------------------------------------------------------------------------------------------------------------- bits

namespace cupyhost {
template <class To, class From>
To bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To result;
    std::memcpy(&result, &x, sizeof x);
    return result;
}
}  // namespace cupyhost
inline int __float_as_int(float x) { return cupyhost::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return cupyhost::bits<unsigned>(x); }
inline float __int_as_float(int x) { return cupyhost::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return cupyhost::bits<float>(x); }
inline long long __double_as_longlong(double x) { return cupyhost::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return cupyhost::bits<double>(x); }
inline int __double2hiint(double x) { return static_cast<int>(cupyhost::bits<unsigned long long>(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(cupyhost::bits<unsigned long long>(x)); }
inline double __hiloint2double(int high, int low) {
    return cupyhost::bits<double>(static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 | static_cast<unsigned>(low));
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
    unsigned result = 0;
    for (int i = 0; i < 32; ++i) result |= (x >> i & 1) << (31 - i);
    return result;
}
inline unsigned long long __brevll(unsigned long long x) {
    return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 | __brev(static_cast<unsigned>(x >> 32));
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline long long __mul64hi(long long a, long long b) { return static_cast<long long>(static_cast<__int128>(a) * b >> 64); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32); }
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
inline int __mul24(int a, int b) { return a * b; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline double __dsqrt_rn(double x) { return std::sqrt(x); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fdividef(float a, float b) { return a / b; }
inline float fdividef(float a, float b) { return a / b; }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __saturatef(float x) { return x > 1 ? 1 : x > 0 ? x : 0; }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline int __double2int_rn(double x) { return static_cast<int>(std::nearbyint(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
template <class T>
T __ldg(const T* place) { return *place; }
template <class T>
T __ldcs(const T* place) { return *place; }
template <class T>
void __stcs(T* place, T value) { *place = value; }
inline long long clock64() { return 0; }
inline void __nanosleep(unsigned) {}
inline void __trap() { __builtin_trap(); }

// Half precision: bits, rounded to nearest.
namespace cupyhost {
inline unsigned short half_bits(float x) {
    const unsigned all = cupyhost::bits<unsigned>(x), sign = all >> 31 << 15, size = all & 0x7FFFFFFF;
    if (size > 0x7F800000) return 0x7FFF;
    if (size >= 0x477FF000) return static_cast<unsigned short>(sign | 0x7C00);
    if (size < 0x38800000) {  // below the smallest normal number; adding 1/2 rounds
        const float sum = cupyhost::bits<float>(size) + 0.5f;
        return static_cast<unsigned short>(sign | (cupyhost::bits<unsigned>(sum) - 0x3F000000));
    }
    return static_cast<unsigned short>(sign | ((size - 0x38000000 + 0xFFF + (size >> 13 & 1)) >> 13));
}
inline float half_value(unsigned short x) {
    const unsigned sign = static_cast<unsigned>(x & 0x8000) << 16, rest = x & 0x7FFF;
    if (rest >= 0x7C00) return cupyhost::bits<float>(sign | 0x7F800000 | (rest & 0x3FF) << 13);
    const float size = rest < 0x400 ? static_cast<float>(rest) * 5.9604644775390625e-08f : cupyhost::bits<float>((rest + 0x1C000) << 13);
    return sign ? -size : size;
}
}  // namespace cupyhost

// ---------------------------------------------------------------------------------------------------------- launching

namespace cupyhost {
template <auto kernel>
struct Caller;
template <class... A, void (*kernel)(A...)>
struct Caller<kernel> {
    template <size_t... I>
    static void with(void** arguments, std::index_sequence<I...>) {
        kernel(*static_cast<std::remove_cv_t<std::remove_reference_t<A>>*>(arguments[I])...);
    }
    static void thread(void** arguments) { with(arguments, std::index_sequence_for<A...>()); }
    static const size_t* sizes() {
        static const size_t found[] = {sizeof(A)..., 0};
        return found;
    }
};
}  // namespace cupyhost

#define CUPYHOST_KERNEL(symbol, bound, ...)                                                                                       \
    extern "C" __attribute__((visibility("default"))) void cupyhost_thread_##symbol(void** a) { cupyhost::Caller<&__VA_ARGS__>::thread(a); }            \
    extern "C" __attribute__((visibility("default"))) const size_t* cupyhost_sizes_##symbol() { return cupyhost::Caller<&__VA_ARGS__>::sizes(); }       \
    extern "C" __attribute__((visibility("default"))) const int cupyhost_bound_##symbol;                                                                \
    const int cupyhost_bound_##symbol = bound;
