// Vector registers of numbers, and the transposition of square blocks of them.

#pragma once

#include <utility>

#include "elements.h"

namespace gradcore {

#if defined(__AVX512F__)
constexpr int register_bytes = 64, registers = 32;
#elif defined(__AVX__)
constexpr int register_bytes = 32, registers = 16;
#elif defined(__aarch64__)
constexpr int register_bytes = 16, registers = 32;
#else
constexpr int register_bytes = 16, registers = 16;
#endif

// A vector register of numbers, and the same type without alignment, to load from any address.
template <class T>
struct Lanes;

template <>
struct Lanes<float> {
    static constexpr int count = register_bytes / 4;
    typedef float Type __attribute__((vector_size(register_bytes)));
    typedef float Anywhere __attribute__((vector_size(register_bytes), aligned(4), may_alias));
};

template <>
struct Lanes<double> {
    static constexpr int count = register_bytes / 8;
    typedef double Type __attribute__((vector_size(register_bytes)));
    typedef double Anywhere __attribute__((vector_size(register_bytes), aligned(8), may_alias));
};

template <class T>
INLINE typename Lanes<T>::Type load(const T* from) {
    return *reinterpret_cast<const typename Lanes<T>::Anywhere*>(from);
}

template <class T>
INLINE void store(T* to, typename Lanes<T>::Type lanes) {
    *reinterpret_cast<typename Lanes<T>::Anywhere*>(to) = lanes;
}

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define TRANSPOSES_REGISTERS
#endif
#endif

#if defined(TRANSPOSES_REGISTERS)
// Exchange the odd blocks of D lanes of the first register with the even ones of the second.
template <class V, int D, int... lane>
INLINE void exchange(V& a, V& b, std::integer_sequence<int, lane...>) {
    constexpr int lanes = sizeof...(lane);
    const V first = __builtin_shufflevector(a, b, (lane & D ? lane - D + lanes : lane)...);
    b = __builtin_shufflevector(a, b, (lane & D ? lane + lanes : lane + D)...);
    a = first;
}

template <class T, int D>
INLINE void transpose_registers(typename Lanes<T>::Type* row) {
    constexpr int lanes = Lanes<T>::count;
    if constexpr (D < lanes) {
        for (int i = 0; i < lanes; ++i)
            if (!(i & D)) exchange<typename Lanes<T>::Type, D>(row[i], row[i + D], std::make_integer_sequence<int, lanes>());
        transpose_registers<T, D * 2>(row);
    }
}
#endif

// Transpose the rows of a matrix, which are `lead` elements apart, into `width` columns. Missing columns are zero. With
// registers, `width` is a multiple of their lanes.
template <class T>
void transpose(const T* from, i64 rows, i64 columns, i64 lead, T* to, i64 width) {
    i64 done = 0;
#if defined(TRANSPOSES_REGISTERS)
    constexpr int lanes = Lanes<T>::count;
    for (; done + lanes <= columns; done += lanes) {
        for (i64 first = 0; first < width; first += lanes) {
            typename Lanes<T>::Type block[lanes] = {};
            for (int k = 0; k < lanes; ++k)
                if (first + k < rows) block[k] = load(from + (first + k) * lead + done);
            transpose_registers<T, 1>(block);
            for (int k = 0; k < lanes; ++k) store(to + (done + k) * width + first, block[k]);
        }
    }
#endif
    for (i64 q = done; q < columns; ++q)
        for (i64 k = 0; k < width; ++k) to[q * width + k] = k < rows ? from[k * lead + q] : 0;
}

}  // namespace gradcore
