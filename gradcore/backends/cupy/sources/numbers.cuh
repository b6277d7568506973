// Numbers in memory and in computations. float16 and bfloat16 are stored as 16 bits, computed as float, and rounded
// once, to the nearest even number, when they are stored.
//
// Compiles as CUDA (with NVRTC or nvcc, without further headers) and, for the tests, as C++17.

#pragma once

#ifdef __CUDACC__
#define GRADCORE_FUNCTION __device__ __forceinline__
#define GRADCORE_UNROLL _Pragma("unroll")
#define GRADCORE_ROLLED _Pragma("unroll 1")
#else
#define GRADCORE_FUNCTION inline
#define GRADCORE_UNROLL
#define GRADCORE_ROLLED
#endif

namespace gradcore {

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

struct float16 {
    u16 bits;
};

struct bfloat16 {
    u16 bits;
};

// ------------------------------------------------------------------------------------------------------- bits

GRADCORE_FUNCTION u32 bits_of(float x) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(x);
#else
    u32 bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}

GRADCORE_FUNCTION float float_of(u32 bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

template <class T>
GRADCORE_FUNCTION T infinity() {
    return static_cast<T>(float_of(0x7F800000));
}

template <class T>
GRADCORE_FUNCTION T not_a_number() {
    return static_cast<T>(float_of(0x7FC00000));
}

// ----------------------------------------------------------------------------------------------------- loading

template <class T>
GRADCORE_FUNCTION T load(T x) {
    return x;
}

GRADCORE_FUNCTION float load(bfloat16 x) { return float_of(static_cast<u32>(x.bits) << 16); }

GRADCORE_FUNCTION float load(float16 x) {
#ifdef __CUDA_ARCH__
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
    return result;
#else
    const u32 sign = static_cast<u32>(x.bits & 0x8000) << 16, rest = x.bits & 0x7FFF;
    if (rest >= 0x7C00) return float_of(sign | 0x7F800000 | (rest & 0x3FF) << 13);  // infinite or not a number
    const float size = rest < 0x400 ? static_cast<float>(rest) * 5.9604644775390625e-08f  // rest * 2**-24
                                    : float_of((rest + 0x1C000) << 13);
    return sign ? -size : size;
#endif
}

// ----------------------------------------------------------------------------------------------------- storing

template <class To>
struct Stored {
    template <class From>
    static GRADCORE_FUNCTION To of(From x) {
        return static_cast<To>(x);
    }
};

template <>
struct Stored<bfloat16> {
    static GRADCORE_FUNCTION bfloat16 of(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        bfloat16 result;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
        return result;
#else
        const u32 bits = bits_of(x);
        if ((bits & 0x7FFFFFFF) > 0x7F800000) return {static_cast<u16>(bits >> 16 | 0x40)};  // not a number
        return {static_cast<u16>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
#endif
    }
};

template <>
struct Stored<float16> {
    static GRADCORE_FUNCTION float16 of(float x) {
#ifdef __CUDA_ARCH__
        float16 result;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
        return result;
#else
        const u32 all = bits_of(x), sign = all >> 31 << 15, bits = all & 0x7FFFFFFF;
        if (bits > 0x7F800000) return {static_cast<u16>(sign | 0x7E00)};   // not a number
        if (bits >= 0x477FF000) return {static_cast<u16>(sign | 0x7C00)};  // 65520 and more: infinite
        if (bits < 0x38800000) {  // subnormal: adding 1/2 rounds to a multiple of 2**-24
            return {static_cast<u16>(sign | (bits_of(float_of(bits) + 0.5f) - 0x3F000000))};
        }
        return {static_cast<u16>(sign | ((bits - 0x38000000 + 0xFFF + (bits >> 13 & 1)) >> 13))};
#endif
    }
};

template <class To, class From>
GRADCORE_FUNCTION To store(From x) {
    return Stored<To>::of(x);
}

// The type in which numbers of a type are computed.
template <class T>
struct Computed {
    using type = T;
};

template <>
struct Computed<float16> {
    using type = float;
};

template <>
struct Computed<bfloat16> {
    using type = float;
};

// Return sum + x * y. For floating-point numbers, the result is rounded once.
template <class N>
GRADCORE_FUNCTION N plus_product(N sum, N x, N y) {
    return sum + x * y;
}

GRADCORE_FUNCTION float plus_product(float sum, float x, float y) { return fma(x, y, sum); }

GRADCORE_FUNCTION double plus_product(double sum, double x, double y) { return fma(x, y, sum); }

// ----------------------------------------------------------------------------------------------------- threads

// The index of this thread in the grid, and the number of threads: a loop over any number of elements.
GRADCORE_FUNCTION i64 first_index() { return static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; }

GRADCORE_FUNCTION i64 index_step() { return static_cast<i64>(gridDim.x) * blockDim.x; }

// Like `first_index`, if 32 bits suffice.
GRADCORE_FUNCTION i32 first_index_32() { return static_cast<i32>(blockIdx.x * blockDim.x + threadIdx.x); }

// ---------------------------------------------------------------------------------------------------- neighbours

// Elements that one instruction loads or stores. Their address is a multiple of their total size.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
    T items[N];
};

template <int N, class T>
GRADCORE_FUNCTION Pack<T, N> pack(const T* source) {
    return *reinterpret_cast<const Pack<T, N>*>(source);
}

template <class T, int N>
GRADCORE_FUNCTION void unpack(T* target, const Pack<T, N>& values) {
    *reinterpret_cast<Pack<T, N>*>(target) = values;
}

}  // namespace gradcore
