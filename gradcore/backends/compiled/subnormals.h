// The setting of a thread by which its CPU replaces subnormal numbers, as operands and as results, by zeros.

#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace gradcore {

#if defined(__SSE2__)
constexpr bool can_flush_subnormals = true;
constexpr unsigned flush_bits = 0x8040;  // of MXCSR: flush to zero, denormals are zeros
inline bool flushes_subnormals() { return (_mm_getcsr() & flush_bits) == flush_bits; }
inline void flush_subnormals(bool on) {
    const unsigned others = _mm_getcsr() & ~flush_bits;
    _mm_setcsr(on ? others | flush_bits : others);
}
#elif defined(__aarch64__)
constexpr bool can_flush_subnormals = true;
constexpr uint64_t flush_bits = uint64_t(1) << 24;  // of FPCR: flush to zero
inline uint64_t read_fpcr() {
    uint64_t value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
}
inline bool flushes_subnormals() { return (read_fpcr() & flush_bits) != 0; }
inline void flush_subnormals(bool on) {
    const uint64_t others = read_fpcr() & ~flush_bits;
    asm volatile("msr fpcr, %0" : : "r"(on ? others | flush_bits : others));
}
#else
constexpr bool can_flush_subnormals = false;
inline bool flushes_subnormals() { return false; }
inline void flush_subnormals(bool) {}
#endif

}  // namespace gradcore
