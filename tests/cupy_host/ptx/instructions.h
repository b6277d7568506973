// PTX's instructions for g++: what translate.py writes calls these. A function has the name of its instruction, with the
// modifiers that matter: add.rz.f32 is add_rz. Registers are bits, which `get` reads as a type and `put` writes.
//
// Threads, barriers and memory are those of the rig: see host/compiler.cpp and host/runtime.cpp. An access to memory that
// no array has, or to an address that is not aligned, ends the launch with the kernel's name.
#pragma once

#include <cfenv>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <vector>

#define INLINE inline __attribute__((always_inline))
#define EXPORT extern "C" __attribute__((visibility("default")))

struct Three { unsigned x, y, z; };
extern "C" {
extern Three cupyhost_thread, cupyhost_block, cupyhost_block_size, cupyhost_grid_size;
extern unsigned cupyhost_current, cupyhost_dynamic_bytes, cupyhost_epoch;
extern char cupyhost_dynamic_memory[];
void cupyhost_wait_block();
void cupyhost_wait_warp(unsigned mask);
void cupyhost_meet_warp(unsigned mask);
extern bool cupyhost_watches;
void cupyhost_access(char* address, unsigned size, int writes, int is_atomic, const char* what);
int cupyhost_count_block(int value);
unsigned cupyhost_ballot(unsigned mask, int value);
int cupyhost_range(const void* address, char** begin, char** end);
void cupyhost_stack(char** begin, char** end);
[[noreturn]] void cupyhost_fault(const char* format, ...);
extern char __start_module_data[] __attribute__((weak, visibility("hidden")));
extern char __stop_module_data[] __attribute__((weak, visibility("hidden")));
}

namespace ptx {

using u8 = uint8_t; using u16 = uint16_t; using u32 = uint32_t; using u64 = uint64_t; using u128 = unsigned __int128;
using s8 = int8_t; using s16 = int16_t; using s32 = int32_t; using s64 = int64_t;
using b8 = u8; using b16 = u16; using b32 = u32; using b64 = u64; using b128 = u128;
using f32 = float; using f64 = double; using pred = bool;

template <class To, class From>
INLINE To bits(From x) {
    return __builtin_bit_cast(To, x);
}

// ------------------------------------------------------------------------------------------------------ half precision

INLINE f32 ftz(f32 x) { return (bits<u32>(x) & 0x7F800000) ? x : bits<f32>(bits<u32>(x) & 0x80000000); }

// float32, of which the last bit is set where the number lies between two: then rounding again is right.
inline f32 to_odd(f64 x) {
    const f32 near = static_cast<f32>(x);
    if (!std::isfinite(near) || static_cast<f64>(near) == x || bits<u32>(near) & 1) return near;
    return bits<f32>(bits<u32>(near) + (std::fabs(x) < std::fabs(static_cast<f64>(near)) ? -1 : 1));
}

struct f16 {
    u16 held;
    f16() = default;
    f16(f32 x) {
        const _Float16 half = static_cast<_Float16>(x);
        held = x != x ? 0x7FFF : bits<u16>(half);
    }
    f16(f64 x) : f16(to_odd(x)) {}
    operator f32() const { return static_cast<f32>(bits<_Float16>(held)); }
};
struct bf16 {
    u16 held;
    bf16() = default;
    bf16(f32 x) {
        const u32 all = bits<u32>(x);
        held = x != x ? 0x7FFF : static_cast<u16>((all + 0x7FFF + (all >> 16 & 1)) >> 16);
    }
    bf16(f64 x) : bf16(to_odd(x)) {}
    operator f32() const { return bits<f32>(static_cast<u32>(held) << 16); }
};
template <class H>
struct Pair { H low, high; };
using f16x2 = Pair<f16>;
using bf16x2 = Pair<bf16>;
struct tf32 {
    u32 held;
    operator f32() const { return bits<f32>(held & 0xFFFFE000); }  // tensor cores leave the rest out
};

template <class T> constexpr bool is_half = std::is_same<T, f16>::value || std::is_same<T, bf16>::value;
template <class T> constexpr bool is_real = std::is_floating_point<T>::value || is_half<T>;
template <class T> constexpr bool is_whole = std::is_integral<T>::value;
template <class T> using for_reals = std::enable_if_t<is_real<T>, int>;
template <class T> using for_whole = std::enable_if_t<is_whole<T>, int>;
// What numbers of a type are computed in.
template <class T> using wide = std::conditional_t<is_half<T>, f64, T>;
template <class T> INLINE wide<T> widened(T x) {
    if constexpr (is_half<T>) return static_cast<f64>(static_cast<f32>(x));
    else return x;
}

// ----------------------------------------------------------------------------------------------------------- registers

// The low bytes of a register, or all of it with zeros above.
template <class T, class R>
INLINE T get(R held) {
    if constexpr (std::is_same<T, bool>::value) return held != 0;
    else if constexpr (sizeof(T) == sizeof(R)) return bits<T>(held);
    else if constexpr (std::is_integral<T>::value) return static_cast<T>(held);
    else {
        T result;
        std::memcpy(&result, &held, sizeof result);
        return result;
    }
}
// Whole numbers are extended by their sign.
template <class R, class T>
INLINE void put(R& held, T value) {
    if constexpr (std::is_same<R, bool>::value) held = static_cast<bool>(value);
    else if constexpr (std::is_integral<T>::value) held = static_cast<R>(value);
    else {
        R result = 0;
        std::memcpy(&result, &value, sizeof value);
        held = result;
    }
}
struct Sink {};
template <class T> INLINE void put(Sink, T) {}

// -------------------------------------------------------------------------------------------------------------- memory

enum Space { global, shared, local };
struct Range { char *begin, *end; };
// Of shared memory what the module's variables have, by their offsets; the translation defines it.
extern const Range shared_variables[];
extern const unsigned shared_count, shared_bytes;

inline Range range_of(char* address, Space space) {
    char *base = cupyhost_dynamic_memory, *found = nullptr, *end = nullptr;
    const size_t offset = address - base;
    for (unsigned i = 0; i < shared_count; ++i)
        if (offset - reinterpret_cast<size_t>(shared_variables[i].begin) < static_cast<size_t>(shared_variables[i].end - shared_variables[i].begin))
            return {base + reinterpret_cast<size_t>(shared_variables[i].begin), base + reinterpret_cast<size_t>(shared_variables[i].end)};
    if (offset - shared_bytes < cupyhost_dynamic_bytes) return {base + shared_bytes, base + shared_bytes + cupyhost_dynamic_bytes};
    if (space == shared) return {};
    if (address >= __start_module_data && address < __stop_module_data) return {__start_module_data, __stop_module_data};
    if (cupyhost_range(address, &found, &end)) return {found, end};
    cupyhost_stack(&found, &end);  // of this thread: local memory, and what a function is given
    return address >= found && address < end ? Range{found, end} : Range{};
}

// A site remembers the array that it accessed last, until a launch begins or memory is freed.
struct Site {
    Range range = {};
    unsigned epoch = 0;
};
inline __attribute__((noinline)) void look(Site& site, char* address, size_t size, Space space, const char* what) {
    site.range = range_of(address, space);
    site.epoch = cupyhost_epoch;
    if (address < site.range.begin || address + size > site.range.end) {
        Range near = site.range;
        for (const int before : {1, 16, 256, -16})
            if (!near.begin && !cupyhost_range(address - before, &near.begin, &near.end)) near = {};
        if (space == shared) cupyhost_fault("%s: offset %zd is in no shared memory", what, static_cast<ptrdiff_t>(address - cupyhost_dynamic_memory));
        if (near.begin) cupyhost_fault("%s: %zd bytes from the begin of an array of %zd", what, static_cast<ptrdiff_t>(address - near.begin), static_cast<ptrdiff_t>(near.end - near.begin));
        cupyhost_fault("%s: address %p is in no array", what, static_cast<void*>(address));
    }
}
// What an instruction does is in its name: st writes, cp.async does so in shared memory; volatile accesses, and those with an
// order, are for threads that do not wait for each other.
inline __attribute__((noinline)) void tell(char* address, size_t size, Space space, const char* what) {
    const bool is_ordered = std::strstr(what, ".volatile") || std::strstr(what, ".relaxed") || std::strstr(what, ".acquire") || std::strstr(what, ".release");
    const bool writes = !std::strncmp(what, "st", 2) || (!std::strncmp(what, "cp", 2) && space == shared);
    cupyhost_access(address, size, writes, is_ordered || !std::strncmp(what, "atom", 4) || !std::strncmp(what, "red", 3), what);
}
INLINE char* checked(Site& site, char* address, size_t size, Space space, const char* what) {
    if (site.epoch != cupyhost_epoch || address < site.range.begin || address + size > site.range.end) look(site, address, size, space, what);
    if (reinterpret_cast<u64>(address) % size) cupyhost_fault("%s: address %p is not aligned", what, static_cast<void*>(address));
    if (__builtin_expect(cupyhost_watches, false)) tell(address, size, space, what);
    return address;
}
template <class A> INLINE char* pointer(A address, Space space) {
    return space == shared ? cupyhost_dynamic_memory + static_cast<u32>(address) : reinterpret_cast<char*>(static_cast<u64>(address));
}
#define AT(space, address, size, what) ({ static Site site_; checked(site_, pointer(address, space), size, space, what); })
template <class T> INLINE T read(const char* address) {
    T result;
    std::memcpy(&result, address, sizeof result);
    return result;
}
template <class T> INLINE void write(char* address, T value) { std::memcpy(address, &value, sizeof value); }

INLINE u64 generic_of_shared(u64 offset) { return reinterpret_cast<u64>(cupyhost_dynamic_memory) + offset; }
INLINE u64 shared_of_generic(u64 address) { return address - reinterpret_cast<u64>(cupyhost_dynamic_memory); }
INLINE bool is_shared(u64 address) { return shared_of_generic(address) < shared_bytes + cupyhost_dynamic_bytes; }

// ---------------------------------------------------------------------------------------------------------- arithmetic

#define OF_TWO(name, expression) template <class T> INLINE T name(T x, T y) { const wide<T> a = widened(x), b = widened(y); return static_cast<T>(expression); } \
    template <class H> INLINE Pair<H> name(Pair<H> x, Pair<H> y) { return {name(x.low, y.low), name(x.high, y.high)}; }
#define OF_ONE(name, expression) template <class T> INLINE T name(T x) { const wide<T> a = widened(x); return static_cast<T>(expression); } \
    template <class H> INLINE Pair<H> name(Pair<H> x) { return {name(x.low), name(x.high)}; }
OF_TWO(add, a + b) OF_TWO(sub, a - b) OF_TWO(mul, a * b)
OF_ONE(neg, -a) OF_ONE(sqrt, std::sqrt(a)) OF_ONE(rcp, 1 / a) OF_ONE(sin, std::sin(a)) OF_ONE(cos, std::cos(a))
OF_ONE(ex2, std::exp2(a)) OF_ONE(lg2, std::log2(a)) OF_ONE(tanh, std::tanh(a)) OF_ONE(rsqrt, 1 / std::sqrt(static_cast<f64>(a)))
OF_ONE(abs, a < 0 || (is_real<T> && std::signbit(static_cast<f64>(a))) ? -a : a)
OF_TWO(copysign, std::copysign(b, a))

template <class T> INLINE bool isnan_(T x) { return x != x; }
template <class T> INLINE T smaller(T a, T b, bool spreads) {
    if (a != a) return spreads ? a : b;
    if (b != b) return spreads ? b : a;
    if constexpr (is_real<T>) if (a == b) return std::signbit(static_cast<f64>(a)) ? a : b;
    return a < b ? a : b;
}
template <class T> INLINE T larger(T a, T b, bool spreads) {
    if (a != a) return spreads ? a : b;
    if (b != b) return spreads ? b : a;
    if constexpr (is_real<T>) if (a == b) return std::signbit(static_cast<f64>(a)) ? b : a;
    return a < b ? b : a;
}
OF_TWO(min, smaller(a, b, false)) OF_TWO(max, larger(a, b, false)) OF_TWO(min_NaN, smaller(a, b, true)) OF_TWO(max_NaN, larger(a, b, true))

// A whole number divided by zero gives all bits, and what was divided remains.
template <class T> INLINE T div(T a, T b) {
    if constexpr (is_whole<T>) {
        if (b == 0) return static_cast<T>(-1);
        if (std::is_signed<T>::value && b == static_cast<T>(-1)) return static_cast<T>(-a);
    }
    return static_cast<T>(a / b);
}
template <class T> INLINE T rem(T a, T b) { return b == 0 ? a : std::is_signed<T>::value && b == static_cast<T>(-1) ? T(0) : static_cast<T>(a % b); }

template <class T> INLINE T fma(T a, T b, T c) {
    if constexpr (std::is_same<T, f32>::value) return std::fma(a, b, c);
    else return static_cast<T>(std::fma(static_cast<f64>(a), static_cast<f64>(b), static_cast<f64>(c)));
}
template <class H> INLINE Pair<H> fma(Pair<H> a, Pair<H> b, Pair<H> c) { return {fma(a.low, b.low, c.low), fma(a.high, b.high, c.high)}; }
INLINE f32 mad(f32 a, f32 b, f32 c) { return std::fma(a, b, c); }
INLINE f64 mad(f64 a, f64 b, f64 c) { return std::fma(a, b, c); }
template <class T> INLINE T saturated(T x) { return x > 0 ? (x < 1 ? x : T(1)) : T(0); }

// Rounded to zero, down and up.
#define DIRECTED(suffix, mode)                                                                                                  \
    template <class F> inline __attribute__((noinline)) auto rounding_##suffix(F f) { const int was = std::fegetround(); std::fesetround(mode); volatile auto r = f(); std::fesetround(was); return r; } \
    template <class T> T add_##suffix(T x, T y) { volatile T a = x, b = y; return rounding_##suffix([&]() -> T { return a + b; }); }  \
    template <class T> T sub_##suffix(T x, T y) { volatile T a = x, b = y; return rounding_##suffix([&]() -> T { return a - b; }); }  \
    template <class T> T mul_##suffix(T x, T y) { volatile T a = x, b = y; return rounding_##suffix([&]() -> T { return a * b; }); }  \
    template <class T> T div_##suffix(T x, T y) { volatile T a = x, b = y; return rounding_##suffix([&]() -> T { return a / b; }); }  \
    template <class T> T fma_##suffix(T x, T y, T z) { volatile T a = x, b = y, c = z; return rounding_##suffix([&]() -> T { return std::fma(T(a), T(b), T(c)); }); } \
    template <class T> T sqrt_##suffix(T x) { volatile T a = x; return rounding_##suffix([&]() -> T { return std::sqrt(T(a)); }); }   \
    template <class T> T rcp_##suffix(T x) { volatile T a = x; return rounding_##suffix([&]() -> T { return 1 / a; }); }              \
    template <class To, class From> To cast_##suffix(From x) { volatile From a = x; return rounding_##suffix([&]() -> To { return static_cast<To>(a); }); }
DIRECTED(rz, FE_TOWARDZERO) DIRECTED(rm, FE_DOWNWARD) DIRECTED(rp, FE_UPWARD)

// ------------------------------------------------------------------------------------------------------- whole numbers

template <class T> struct Twice;
template <> struct Twice<u16> { using type = u32; };
template <> struct Twice<s16> { using type = s32; };
template <> struct Twice<u32> { using type = u64; };
template <> struct Twice<s32> { using type = s64; };
template <> struct Twice<u64> { using type = u128; };
template <> struct Twice<s64> { using type = __int128; };
template <class T> using twice = typename Twice<T>::type;
template <class T> INLINE twice<T> mul_wide(T a, T b) { return static_cast<twice<T>>(a) * b; }
template <class T> INLINE T mul_hi(T a, T b) { return static_cast<T>(mul_wide(a, b) >> 8 * sizeof(T)); }
template <class T, for_whole<T> = 0> INLINE T mad(T a, T b, T c) { return static_cast<T>(a * b + c); }
template <class T> INLINE T mad_hi(T a, T b, T c) { return static_cast<T>(mul_hi(a, b) + c); }
template <class T> INLINE twice<T> mad_wide(T a, T b, twice<T> c) { return mul_wide(a, b) + c; }
template <class T> INLINE T mul24(T a, T b) { return a * b; }
template <class T> INLINE T sad(T a, T b, T c) { return static_cast<T>(c + (a > b ? a - b : b - a)); }
INLINE s32 add_sat(s32 a, s32 b) { const s64 r = static_cast<s64>(a) + b; return r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : static_cast<s32>(r); }
INLINE s32 sub_sat(s32 a, s32 b) { const s64 r = static_cast<s64>(a) - b; return r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : static_cast<s32>(r); }

// Those that read and write the carry flag.
template <class T> using unsigned_of = std::make_unsigned_t<T>;
template <class T> INLINE T carried(u128 sum, u32& carry) { carry = static_cast<u32>(sum >> 8 * sizeof(T)) & 1; return static_cast<T>(sum); }
template <class T> INLINE u128 up(T x) { return static_cast<unsigned_of<T>>(x); }
template <class T> INLINE T add_cc(u32& carry, T a, T b) { return carried<T>(up(a) + up(b), carry); }
template <class T> INLINE T addc_cc(u32& carry, T a, T b) { return carried<T>(up(a) + up(b) + carry, carry); }
template <class T> INLINE T addc(u32& carry, T a, T b) { return static_cast<T>(up(a) + up(b) + carry); }
template <class T> INLINE T sub_cc(u32& carry, T a, T b) { return carried<T>(up(a) - up(b), carry); }
template <class T> INLINE T subc_cc(u32& carry, T a, T b) { return carried<T>(up(a) - up(b) - carry, carry); }
template <class T> INLINE T subc(u32& carry, T a, T b) { return static_cast<T>(up(a) - up(b) - carry); }
template <class T> INLINE T mad_cc(u32& carry, T a, T b, T c) { return add_cc(carry, static_cast<T>(a * b), c); }
template <class T> INLINE T mad_hi_cc(u32& carry, T a, T b, T c) { return add_cc(carry, mul_hi(a, b), c); }
template <class T> INLINE T madc(u32& carry, T a, T b, T c) { return addc(carry, static_cast<T>(a * b), c); }
template <class T> INLINE T madc_hi(u32& carry, T a, T b, T c) { return addc(carry, mul_hi(a, b), c); }
template <class T> INLINE T madc_cc(u32& carry, T a, T b, T c) { return addc_cc(carry, static_cast<T>(a * b), c); }
template <class T> INLINE T madc_hi_cc(u32& carry, T a, T b, T c) { return addc_cc(carry, mul_hi(a, b), c); }

// ---------------------------------------------------------------------------------------------------------------- bits

template <class T> INLINE T and_(T a, T b) { return a & b; }
template <class T> INLINE T or_(T a, T b) { return a | b; }
template <class T> INLINE T xor_(T a, T b) { return a ^ b; }
template <class T> INLINE T not_(T a) { return static_cast<T>(~a); }
INLINE bool not_(bool a) { return !a; }
template <class T> INLINE T cnot(T a) { return a == 0; }
template <class T> INLINE T shl(T a, u32 by) { return by >= 8 * sizeof(T) ? T(0) : static_cast<T>(a << by); }
template <class T> INLINE T shr(T a, u32 by) { return by >= 8 * sizeof(T) ? static_cast<T>(a < 0 ? -1 : 0) : static_cast<T>(a >> by); }
INLINE u32 funnel(u32 low, u32 high, u32 by, bool left) {
    const u64 both = static_cast<u64>(high) << 32 | low;
    return left ? static_cast<u32>(both << by >> 32) : static_cast<u32>(both >> by);
}
INLINE u32 shf_l_wrap(u32 a, u32 b, u32 c) { return funnel(a, b, c & 31, true); }
INLINE u32 shf_r_wrap(u32 a, u32 b, u32 c) { return funnel(a, b, c & 31, false); }
INLINE u32 shf_l_clamp(u32 a, u32 b, u32 c) { return funnel(a, b, c > 32 ? 32 : c, true); }
INLINE u32 shf_r_clamp(u32 a, u32 b, u32 c) { return funnel(a, b, c > 32 ? 32 : c, false); }
template <class T> INLINE T bfe(T a, u32 from, u32 length) {
    constexpr unsigned all = 8 * sizeof(T);
    const unsigned p = from & 255, n = length & 255;
    if (!n) return 0;
    if (p >= all) return a < 0 ? -1 : 0;
    const T shifted = a >> p;
    if (n >= all) return shifted;
    const unsigned left = all - n;
    const T field = static_cast<T>(static_cast<unsigned_of<T>>(shifted) << left);
    if (std::is_signed<T>::value && p + n > all) return shifted;
    return field >> left;
}
template <class T> INLINE T bfi(T a, T b, u32 from, u32 length) {
    constexpr unsigned all = 8 * sizeof(T);
    const unsigned p = from & 255, n = length & 255;
    if (p >= all || !n) return b;
    const T mask = (n >= all ? static_cast<T>(-1) : static_cast<T>((T(1) << n) - 1)) << p;
    return (b & ~mask) | (a << p & mask);
}
template <class T> INLINE u32 popc(T a) { return __builtin_popcountll(a); }
template <class T> INLINE u32 clz(T a) { return a ? __builtin_clzll(a) - (64 - 8 * static_cast<int>(sizeof(T))) : 8 * sizeof(T); }
template <class T> INLINE T brev(T a) {
    T result = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i) result |= (a >> i & 1) << (8 * sizeof(T) - 1 - i);
    return result;
}
template <class T> INLINE u32 bfind(T a) {
    const u64 x = static_cast<unsigned_of<T>>(a < 0 ? ~a : a);
    return x ? 63 - __builtin_clzll(x) : 0xFFFFFFFFu;
}
template <class T> INLINE u32 bfind_shiftamt(T a) { const u32 at = bfind(a); return at == 0xFFFFFFFFu ? at : 8 * sizeof(T) - 1 - at; }
INLINE u32 prmt(u32 a, u32 b, u32 selector) {
    const u64 both = static_cast<u64>(b) << 32 | a;
    u32 result = 0;
    for (int i = 0; i < 4; ++i) {
        const u32 chosen = selector >> 4 * i & 15, byte = both >> 8 * (chosen & 7) & 255;
        result |= (chosen & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * i;
    }
    return result;
}
INLINE u32 lop3(u32 a, u32 b, u32 c, u32 table) {
    u32 result = 0;
    for (int i = 0; i < 8; ++i)
        if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return result;
}

// --------------------------------------------------------------------------------------------------------- comparisons

template <class T> INLINE bool eq(T a, T b) { return a == b; }
template <class T> INLINE bool ne(T a, T b) { return a != b && a == a && b == b; }
template <class T> INLINE bool lt(T a, T b) { return a < b; }
template <class T> INLINE bool le(T a, T b) { return a <= b; }
template <class T> INLINE bool gt(T a, T b) { return a > b; }
template <class T> INLINE bool ge(T a, T b) { return a >= b; }
template <class T> INLINE bool lo(T a, T b) { return a < b; }
template <class T> INLINE bool ls(T a, T b) { return a <= b; }
template <class T> INLINE bool hi(T a, T b) { return a > b; }
template <class T> INLINE bool hs(T a, T b) { return a >= b; }
template <class T> INLINE bool num(T a, T b) { return a == a && b == b; }
template <class T> INLINE bool nan(T a, T b) { return !num(a, b); }
template <class T> INLINE bool equ(T a, T b) { return nan(a, b) || a == b; }
template <class T> INLINE bool neu(T a, T b) { return nan(a, b) || a != b; }
template <class T> INLINE bool ltu(T a, T b) { return nan(a, b) || a < b; }
template <class T> INLINE bool leu(T a, T b) { return nan(a, b) || a <= b; }
template <class T> INLINE bool gtu(T a, T b) { return nan(a, b) || a > b; }
template <class T> INLINE bool geu(T a, T b) { return nan(a, b) || a >= b; }
template <class T> INLINE bool testp_infinite(T a) { return std::isinf(a); }
template <class T> INLINE bool testp_finite(T a) { return std::isfinite(a); }
template <class T> INLINE bool testp_number(T a) { return a == a; }
template <class T> INLINE bool testp_notanumber(T a) { return a != a; }
template <class T> INLINE bool testp_normal(T a) { return std::isnormal(a); }
template <class T> INLINE bool testp_subnormal(T a) { return a != 0 && std::isfinite(a) && !std::isnormal(a); }

// --------------------------------------------------------------------------------------------------------- conversions

// To whole numbers: the nearest that there is; of what is no number 0, or with 64 bits the lowest.
template <class To> INLINE To whole(f64 x) {
    if (x != x) return sizeof(To) == 8 ? static_cast<To>(0x8000000000000000ull) : To(0);
    const To least = std::is_signed<To>::value ? static_cast<To>(1ull << (8 * sizeof(To) - 1)) : To(0), most = static_cast<To>(~least);
    if (x <= static_cast<f64>(least)) return least;
    return x >= static_cast<f64>(most) ? most : static_cast<To>(x);
}
template <class T> INLINE T integral(T x, int mode) { return mode == 0 ? std::nearbyint(x) : mode == 1 ? std::trunc(x) : mode == 2 ? std::floor(x) : std::ceil(x); }
template <class To, class From> INLINE To cvt(From x) {
    if constexpr (is_whole<To> && is_real<From>) return whole<To>(widened(x));
    else if constexpr (is_half<To> && is_whole<From>) return To(static_cast<f64>(x));
    else if constexpr (is_half<To> && std::is_same<From, f64>::value) return To(x);
    else if constexpr (is_half<To>) return To(static_cast<f32>(x));
    else if constexpr (is_half<From>) return static_cast<To>(static_cast<f32>(x));
    else return static_cast<To>(x);
}
template <class To, class From> INLINE To cvt_rounded(From x, int mode) {
    if constexpr (is_whole<To>) return whole<To>(integral(static_cast<f64>(widened(x)), mode));
    else return cvt<To>(integral(widened(x), mode));
}
template <class To, class From> INLINE To cvt_rni(From x) { return cvt_rounded<To>(x, 0); }
template <class To, class From> INLINE To cvt_rzi(From x) { return cvt_rounded<To>(x, 1); }
template <class To, class From> INLINE To cvt_rmi(From x) { return cvt_rounded<To>(x, 2); }
template <class To, class From> INLINE To cvt_rpi(From x) { return cvt_rounded<To>(x, 3); }
template <class To, class From> INLINE To cvt_rz(From x) { return cast_rz<To>(x); }
template <class To, class From> INLINE To cvt_rm(From x) { return cast_rm<To>(x); }
template <class To, class From> INLINE To cvt_rp(From x) { return cast_rp<To>(x); }
template <class To> INLINE u32 cvt_rna(f32 x) { return (bits<u32>(x) + 0x1000) & 0xFFFFE000; }
template <class To> INLINE To cvt_pair(f32 high, f32 low) { return {decltype(To::low)(low), decltype(To::low)(high)}; }
template <class To, class From> INLINE To cvt_sat(From x) {
    if constexpr (is_real<To>) return cvt<To>(saturated(x));
    else if constexpr (is_real<From>) return cvt<To>(x);
    else {
        const __int128 v = x, least = std::is_signed<To>::value ? -(static_cast<__int128>(1) << (8 * sizeof(To) - 1)) : 0;
        const __int128 most = (static_cast<__int128>(1) << (8 * sizeof(To) - (std::is_signed<To>::value ? 1 : 0))) - 1;
        return static_cast<To>(v < least ? least : v > most ? most : v);
    }
}

// ------------------------------------------------------------------------------------------------------------- atomics

template <class T> INLINE T atom_add(T old, T b) { return add(old, b); }
template <class T> INLINE T atom_exch(T, T b) { return b; }
template <class T> INLINE T atom_cas(T old, T b, T c) { return old == b ? c : old; }
template <class T> INLINE T atom_min(T old, T b) { return min(old, b); }
template <class T> INLINE T atom_max(T old, T b) { return max(old, b); }
template <class T> INLINE T atom_and(T old, T b) { return old & b; }
template <class T> INLINE T atom_or(T old, T b) { return old | b; }
template <class T> INLINE T atom_xor(T old, T b) { return old ^ b; }
template <class T> INLINE T atom_inc(T old, T b) { return old >= b ? 0 : old + 1; }
template <class T> INLINE T atom_dec(T old, T b) { return old == 0 || old > b ? b : old - 1; }

// --------------------------------------------------------------------------------------------------- threads of a warp

static unsigned char exchange[1024][64];  // what the threads of a block show each other
INLINE u32 lane() { return cupyhost_current % 32; }
INLINE unsigned char* of_lane(u32 other) { return exchange[cupyhost_current / 32 * 32 + other]; }
INLINE u32 lanes() {  // that the block has in this warp
    const u32 all = cupyhost_block_size.x * cupyhost_block_size.y * cupyhost_block_size.z, first = cupyhost_current / 32 * 32;
    return all - first >= 32 ? 0xFFFFFFFFu : (1u << (all - first)) - 1;
}

// What the lanes of a mask show each other, with the mask: `read` sees it before any of them goes on.
struct Shown { u64 value; u32 mask; };
template <class F> inline auto together(u64 value, u32 mask, const char* what, F read) {
    if (!(mask >> lane() & 1)) cupyhost_fault("%s by lane %u, which its mask %08x does not name", what, lane(), mask);
    const Shown mine{value, mask};
    std::memcpy(of_lane(lane()), &mine, sizeof mine);
    cupyhost_meet_warp(mask);
    auto result = read([&](u32 other) {
        Shown shown;
        std::memcpy(&shown, of_lane(other), sizeof shown);
        if (!(mask >> other & 1)) cupyhost_fault("%s reads lane %u, which its mask %08x does not name", what, other, mask);
        if (shown.mask != mask) cupyhost_fault("%s with the mask %08x by lane %u and %08x by lane %u", what, mask, lane(), shown.mask, other);
        return shown.value;
    });
    cupyhost_meet_warp(mask);
    return result;
}
enum Shuffle { up_, down_, bfly_, idx_ };
inline u32 shuffle(Shuffle kind, u32 value, u32 by, u32 clamps, u32 mask, bool& within) {
    const u32 segment = clamps >> 8 & 31, clamp = clamps & 31, here = lane(), low = here & segment, last = low | (clamp & ~segment);
    const u32 there = kind == up_ ? here - (by & 31) : kind == down_ ? here + (by & 31) : kind == bfly_ ? here ^ (by & 31) : low | (by & 31 & ~segment);
    within = kind == up_ ? static_cast<s32>(there) >= static_cast<s32>(last) : there <= last;
    const u32 from = within ? there : here;
    return together(value, mask, "a shuffle", [&](auto of) { return static_cast<u32>(of(from)); });
}
inline u32 ballot(bool value, u32 mask) {
    return together(value, mask, "a vote", [&](auto of) {
        u32 result = 0;
        for (u32 i = 0; i < 32; ++i)
            if (mask & lanes() & 1u << i && of(i)) result |= 1u << i;
        return result;
    });
}
INLINE u32 vote_ballot(bool value, u32 mask) { return ballot(value, mask); }
INLINE bool vote_any(bool value, u32 mask) { return ballot(value, mask) != 0; }
INLINE bool vote_all(bool value, u32 mask) { return ballot(!value, mask) == 0; }
INLINE bool vote_uni(bool value, u32 mask) { const u32 found = ballot(value, mask); return !found || found == (mask & lanes()); }
template <class T> inline u32 match_any(T value, u32 mask) {
    return together(bits<unsigned_of<T>>(value), mask, "a match", [&](auto of) {
        u32 result = 0;
        for (u32 i = 0; i < 32; ++i)
            if (mask & lanes() & 1u << i && of(i) == static_cast<u64>(bits<unsigned_of<T>>(value))) result |= 1u << i;
        return result;
    });
}
template <class T, class F> inline T reduced(T value, u32 mask, F combine) {
    return together(static_cast<u64>(static_cast<unsigned_of<T>>(value)), mask, "a reduction", [&](auto of) {
        bool first = true;
        T result = 0;
        for (u32 i = 0; i < 32; ++i)
            if (mask & lanes() & 1u << i) result = first ? static_cast<T>(of(i)) : combine(result, static_cast<T>(of(i))), first = false;
        return result;
    });
}
#define REDUX(name) template <class T> INLINE T redux_##name(T value, u32 mask) { return reduced(value, mask, [](T a, T b) { return atom_##name(a, b); }); }
REDUX(add) REDUX(min) REDUX(max) REDUX(and) REDUX(or) REDUX(xor)

// --------------------------------------------------------------------------------------------------------- tensor cores

// Each register of an operand holds neighbours along k. Of a, register r of a lane has row lane / 4, or 8 more where r is
// odd; of b it has column lane / 4. The neighbours begin at lane % 4 of as many, and from two registers to the next (of b:
// from one) four times as many follow.
template <class T, int K> inline f32 element(const u32* registers, u32 place) {
    constexpr u32 packed = 4 / sizeof(T);
    u32 held = registers[place / packed];
    return static_cast<f32>(read<T>(reinterpret_cast<char*>(&held) + sizeof(T) * (place % packed)));
}
template <class T, int K, class Acc> inline void mma_16x8(Acc* d, const u32* a, const u32* b, const Acc* c) {
    constexpr u32 packed = 4 / sizeof(T), count_a = K / (4 * packed) * 2, count_b = K / (4 * packed);
    static_assert(count_a <= 4 && count_b <= 2, "of a and b");
    std::memcpy(of_lane(lane()), a, 4 * count_a);
    std::memcpy(of_lane(lane()) + 16, b, 4 * count_b);
    if (lanes() != 0xFFFFFFFFu) cupyhost_fault("a product of matrices by a warp of less than 32 threads");
    cupyhost_meet_warp(0xFFFFFFFFu);
    for (u32 i = 0; i < 4; ++i) {
        const u32 row = lane() / 4 + 8 * (i / 2), column = lane() % 4 * 2 + i % 2;
        f64 sum = c[i];
        for (u32 k = 0; k < K; ++k) {
            const u32 half = k / (4 * packed), owner = k % (4 * packed) / packed, place = k % packed;
            u32 of_a, of_b;
            std::memcpy(&of_a, of_lane(row % 8 * 4 + owner) + 4 * (2 * half + row / 8), 4);
            std::memcpy(&of_b, of_lane(column * 4 + owner) + 16 + 4 * half, 4);
            sum += static_cast<f64>(element<T, K>(&of_a, place)) * static_cast<f64>(element<T, K>(&of_b, place));
        }
        d[i] = static_cast<Acc>(sum);
    }
    cupyhost_meet_warp(0xFFFFFFFFu);
}
// Each lane gives the address of a row of eight numbers; lanes 8m to 8m + 7 those of matrix m.
template <int N, bool transposed> inline void ldmatrix(u32* out, char* row) {
    std::memcpy(of_lane(lane()), &row, sizeof row);
    cupyhost_meet_warp(0xFFFFFFFFu);
    for (u32 m = 0; m < N; ++m)
        for (u32 e = 0; e < 2; ++e) {
            const u32 first = lane() / 4, second = lane() % 4 * 2 + e;
            const char* from = read<char*>(reinterpret_cast<char*>(of_lane(8 * m + (transposed ? second : first))));
            const u32 value = read<u16>(from + 2 * (transposed ? first : second));
            out[m] = e ? out[m] | value << 16 : value;
        }
    cupyhost_meet_warp(0xFFFFFFFFu);
}

// Copies to shared memory that arrive when they are waited for, and not before.
class Copies {
    struct Copy { char *to, *from; u32 size, given; };
    std::vector<std::vector<Copy>> groups{1};

public:
    void add(char* to, char* from, u32 size, u32 given) { groups.back().push_back({to, from, size, given}); }
    void commit() { groups.emplace_back(); }
    void wait(size_t pending) {
        for (size_t i = 0; i + 1 < groups.size() && groups.size() - 1 - i > pending; ++i) arrive(groups[i]);
    }
    void wait_all() { for (auto& group : groups) arrive(group); }

private:
    static void arrive(std::vector<Copy>& group) {
        for (auto& copy : group) {
            // Nothing says when a copy is written between its begin and the wait: both count.
            if (__builtin_expect(cupyhost_watches, false)) cupyhost_access(copy.to, copy.size, true, false, "cp.async");
            std::memset(copy.to, 0, copy.size);
            std::memcpy(copy.to, copy.from, copy.given);
        }
        group.clear();
    }
};

}  // namespace ptx
