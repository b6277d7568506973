// Products of small matrices by the threads of a warp: with tensor cores (GRADCORE_TENSOR = 1), or by single
// multiplications.
//
// Operands are tiles in shared memory, with rows of `stride` numbers. A result of 16 rows is kept in registers, in the
// layout of the accumulators of tensor cores: of each 8 columns, lane 4 * g + t has the columns 2 * t and 2 * t + 1 of
// row g and then of row g + 8. float16 and bfloat16 are multiplied directly. Tensor cores round float to TensorFloat32.
// Sums have type A.
//
// On the host, the operations of tensor cores are computed from their definition, so tests check the layouts of a
// device.

#pragma once

#include "block.cuh"

namespace gradcore {

using T = GRADCORE_TYPE;
using A = Computed<T>::type;

// Rows of a tile are padded, so that the lanes of a warp read from different banks.
constexpr int padding = 16 / sizeof(T);

struct Lane {
    int row, column;  // its rows are `row` and `row` + 8, its columns `column` and the next

    GRADCORE_FUNCTION Lane() : row(threadIdx.x % 32 / 4), column(threadIdx.x % 4 * 2) {}
};

// Begin to copy 16 bytes to shared memory, or zeros if not `exists`. From compute capability 8.0 on, the thread does not
// wait for them, and they take no registers.
template <class N>
GRADCORE_FUNCTION void begin_copy(N* to, const N* from, bool exists) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<u32>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(exists ? 16 : 0)
                 : "memory");
#else
    unpack(to, exists ? pack<16 / sizeof(N)>(from) : Pack<N, 16 / sizeof(N)>{});
#endif
}

// Wait until all threads of the block are here and the copies that they began have arrived.
GRADCORE_FUNCTION void finish_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncthreads();
}

// Begin to copy `rows` rows of `width` numbers, with a stride of `step`, into a tile, and to fill the rest of the tile with
// zeros. The tile can be read after `finish_copies`. Packs of 16 bytes are copied if `in_packs`, which requires aligned
// rows.
template <int ROWS, int COLUMNS, int THREADS>
GRADCORE_FUNCTION void begin_tile(T* tile, const T* source, i64 step, i64 rows, int width, bool in_packs) {
    constexpr int count = 16 / sizeof(T), packs = COLUMNS / count, stride = COLUMNS + padding;
    constexpr int at_once = THREADS / packs;  // rows
    static_assert(THREADS % packs == 0, "a thread copies to one column");
    const int first = threadIdx.x / packs, column = threadIdx.x % packs * count;
    const int last = rows < ROWS ? static_cast<int>(rows) : ROWS, here = column < width ? last : 0;
    const T* from = source + first * step + column;
    T* to = tile + first * stride + column;
    if (in_packs) {
        GRADCORE_ROLLED
        for (int row = first; row < ROWS; row += at_once) {
            begin_copy(to, from, row < here);
            from += at_once * step;
            to += at_once * stride;
        }
    } else {
        GRADCORE_ROLLED
        for (int row = first; row < ROWS; row += at_once) {
            Pack<T, count> values{};
            GRADCORE_UNROLL
            for (int n = 0; n < count; ++n)
                if (row < last && column + n < width) values.items[n] = from[n];
            unpack(to, values);
            from += at_once * step;
            to += at_once * stride;
        }
    }
}

#if GRADCORE_TENSOR

// ------------------------------------------------------------------------------------------------- tensor cores

#ifndef __CUDA_ARCH__
// The numbers in a register, and which lane and register of a fragment has the element (row, k) of 16 rows or 8
// columns.
template <class N>
struct Fragments {  // two numbers in a register
    static constexpr int depth = 16;
    static int lane(int row, int k) { return row % 8 * 4 + k % 8 / 2; }
    static int part(int row, int k) { return row / 8 + k / 8 * 2; }
    static float number(u32 bits, int k) { return load(N{static_cast<u16>(bits >> k % 2 * 16)}); }
};
template <>
struct Fragments<float> {
    static constexpr int depth = 8;
    static int lane(int row, int k) { return row * 4 % 32 + k % 4; }
    static int part(int row, int k) { return row / 8 + k / 4 * 2; }
    static float number(u32 bits, int) { return float_of(bits); }
};

template <class F>
void multiply_as(float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    __shared__ u32 registers[32][32][6];
    u32(&warp)[32][6] = registers[threadIdx.x / 32];
    for (int i = 0; i < 6; ++i) warp[threadIdx.x % 32][i] = i < 4 ? a[i] : b[i - 4];
    __syncwarp();
    const Lane lane;
    for (int i = 0; i < 4; ++i) {
        const int row = lane.row + i / 2 * 8, column = lane.column + i % 2;
        float sum = 0;
        for (int k = 0; k < F::depth; ++k)
            sum += F::number(warp[F::lane(row, k)][F::part(row, k)], k) *
                   F::number(warp[F::lane(column, k)][4 + F::part(0, k) / 2], k);
        sums[i] += sum;
    }
    __syncwarp();
}
inline void multiply_fragments(float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    multiply_as<Fragments<T>>(sums, a, b);
}
#else
#define GRADCORE_MULTIPLY(shape, type)                                                                                   \
    asm("mma.sync.aligned." shape ".row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                                                     \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

template <class N>
struct TensorCore;
template <>
struct TensorCore<float16> {
    static GRADCORE_FUNCTION void multiply(float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) {
        GRADCORE_MULTIPLY("m16n8k16", "f16");
    }
};
template <>
struct TensorCore<bfloat16> {
    static GRADCORE_FUNCTION void multiply(float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) {
        GRADCORE_MULTIPLY("m16n8k16", "bf16");
    }
};
template <>
struct TensorCore<float> {
    static GRADCORE_FUNCTION void multiply(float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) {
        GRADCORE_MULTIPLY("m16n8k8", "tf32");
    }
};
GRADCORE_FUNCTION void multiply_fragments(float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    TensorCore<T>::multiply(sums, a, b);
}
#endif

#ifdef __CUDA_ARCH__
// Load four matrices of 8 x 8 numbers of 16 bits. Each lane has the address of a row: the first 8 lanes those of the
// first matrix.
#define GRADCORE_LOAD_MATRICES(words, row, transposed)                                                              \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" transposed ".shared.b16 {%0,%1,%2,%3}, [%4];"                      \
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])                                   \
                 : "r"(static_cast<u32>(__cvta_generic_to_shared(row)))                                             \
                 : "memory")
#endif

// Loads fragments of `depth` numbers of the inner index: `rows` the left operand of 16 rows, the others two right operands
// of 8 columns each, whose columns are rows (`from_rows`) or columns of a tile. Of the latter, `from_columns` belongs to the
// left operand of `quads`, and `from_ordered_columns` to that of `rows`.
template <class N>
struct Operand {  // float16, bfloat16
    static constexpr int depth = 16;

    static GRADCORE_FUNCTION u32 word(const N* source) { return *reinterpret_cast<const u32*>(source); }
    static GRADCORE_FUNCTION u32 both(float low, float high) {
        return store<N>(low).bits | static_cast<u32>(store<N>(high).bits) << 16;
    }
    static GRADCORE_FUNCTION void rows(u32 (&a)[4], const N* source, int stride, const Lane& lane) {
#ifdef __CUDA_ARCH__
        GRADCORE_LOAD_MATRICES(a, source + threadIdx.x % 16 * stride + threadIdx.x % 32 / 16 * 8, "");
#else
        for (int i = 0; i < 4; ++i) a[i] = word(source + (lane.row + i % 2 * 8) * stride + lane.column + i / 2 * 8);
#endif
    }
    static GRADCORE_FUNCTION void from_rows(u32 (&b)[4], const N* source, int stride, const Lane& lane) {
#ifdef __CUDA_ARCH__
        const int row = threadIdx.x % 8 + threadIdx.x % 32 / 16 * 8;
        GRADCORE_LOAD_MATRICES(b, source + row * stride + threadIdx.x / 8 % 2 * 8, "");
#else
        for (int i = 0; i < 4; ++i) b[i] = word(source + (lane.row + i / 2 * 8) * stride + lane.column + i % 2 * 8);
#endif
    }
    static GRADCORE_FUNCTION void quads(u32 (&a)[4], const float (*p)[4]) {
        a[0] = both(p[0][0], p[0][1]);
        a[1] = both(p[0][2], p[0][3]);
        a[2] = both(p[1][0], p[1][1]);
        a[3] = both(p[1][2], p[1][3]);
    }
    static GRADCORE_FUNCTION void from_columns(u32 (&b)[4], const N* source, int stride, const Lane& lane) {
#ifdef __CUDA_ARCH__
        GRADCORE_LOAD_MATRICES(b, source + threadIdx.x % 16 * stride + threadIdx.x % 32 / 16 * 8, ".trans");
#else
        for (int i = 0; i < 4; ++i) {
            const N* first = source + (lane.column + i % 2 * 8) * stride + lane.row + i / 2 * 8;
            b[i] = first[0].bits | static_cast<u32>(first[stride].bits) << 16;
        }
#endif
    }
    static GRADCORE_FUNCTION void from_ordered_columns(u32 (&b)[4], const N* source, int stride, const Lane& lane) {
        from_columns(b, source, stride, lane);
    }
};

template <>
struct Operand<float> {
    static constexpr int depth = 8;

    static GRADCORE_FUNCTION u32 rounded(float x) {
#ifdef __CUDA_ARCH__
        u32 bits;
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
        return bits;
#else
        const u32 bits = bits_of(x);
        return (bits & 0x7F800000) == 0x7F800000 ? bits : (bits + 0x1000) & 0xFFFFE000;
#endif
    }
    static GRADCORE_FUNCTION void rows(u32 (&a)[4], const float* source, int stride, const Lane& lane) {
        GRADCORE_UNROLL
        for (int i = 0; i < 4; ++i)
            a[i] = rounded(source[(lane.row + i % 2 * 8) * stride + lane.column / 2 + i / 2 * 4]);
    }
    static GRADCORE_FUNCTION void from_rows(u32 (&b)[4], const float* source, int stride, const Lane& lane) {
        GRADCORE_UNROLL
        for (int i = 0; i < 4; ++i)
            b[i] = rounded(source[(lane.row + i / 2 * 8) * stride + lane.column / 2 + i % 2 * 4]);
    }
    // The inner index is permuted, in both operands: columns 2 * t and 2 * t + 1 are t and t + 4 for tensor cores.
    static GRADCORE_FUNCTION void quads(u32 (&a)[4], const float (*p)[4]) {
        a[0] = rounded(p[0][0]);
        a[1] = rounded(p[0][2]);
        a[2] = rounded(p[0][1]);
        a[3] = rounded(p[0][3]);
    }
    static GRADCORE_FUNCTION void from_columns(u32 (&b)[4], const float* source, int stride, const Lane& lane) {
        GRADCORE_UNROLL
        for (int i = 0; i < 4; ++i) b[i] = rounded(source[(lane.column + i % 2) * stride + lane.row + i / 2 * 8]);
    }
    static GRADCORE_FUNCTION void from_ordered_columns(u32 (&b)[4], const float* source, int stride, const Lane& lane) {
        GRADCORE_UNROLL
        for (int i = 0; i < 4; ++i)
            b[i] = rounded(source[(lane.column / 2 + i % 2 * 4) * stride + lane.row + i / 2 * 8]);
    }
};

// Multiply by two right operands.
GRADCORE_FUNCTION void multiply_two(A (&first)[4], A (&second)[4], const u32 (&a)[4], const u32 (&b)[4]) {
    const u32 left[2] = {b[0], b[1]}, right[2] = {b[2], b[3]};
    multiply_fragments(first, a, left);
    multiply_fragments(second, a, right);
}

// sums += a @ b.T: 16 rows and 8 * N rows of WIDTH numbers.
template <int WIDTH, int N>
GRADCORE_FUNCTION void add_rows_by_rows(A (&sums)[N][4], const T* a, const T* b) {
    constexpr int stride = WIDTH + padding;
    const Lane lane;
    GRADCORE_UNROLL
    for (int k = 0; k < WIDTH; k += Operand<T>::depth) {
        u32 x[4], y[4];
        Operand<T>::rows(x, a + k, stride, lane);
        GRADCORE_UNROLL
        for (int n = 0; n < N; n += 2) {
            Operand<T>::from_rows(y, b + 8 * n * stride + k, stride, lane);
            multiply_two(sums[n], sums[n + 1], x, y);
        }
    }
}

// sums += a @ b: 16 rows of WIDTH numbers and WIDTH rows of 8 * N numbers, with these strides.
template <int WIDTH, int N>
GRADCORE_FUNCTION void add_rows_by_columns(A (&sums)[N][4], const T* a, int stride_a, const T* b, int stride_b) {
    const Lane lane;
    GRADCORE_UNROLL
    for (int k = 0; k < WIDTH; k += Operand<T>::depth) {
        u32 x[4], y[4];
        Operand<T>::rows(x, a + k, stride_a, lane);
        GRADCORE_UNROLL
        for (int n = 0; n < N; n += 2) {
            Operand<T>::from_ordered_columns(y, b + k * stride_b + 8 * n, stride_b, lane);
            multiply_two(sums[n], sums[n + 1], x, y);
        }
    }
}

// sums += p @ b: p has 16 rows of 8 * K numbers in registers, b 8 * K rows of 8 * N numbers.
template <int K, int N>
GRADCORE_FUNCTION void add_quads_by_rows(A (&sums)[N][4], const A (&p)[K][4], const T* b, A*) {
    constexpr int stride = 8 * N + padding, quads = Operand<T>::depth / 8;
    const Lane lane;
    GRADCORE_UNROLL
    for (int k = 0; k < K; k += quads) {
        u32 x[4], y[4];
        Operand<T>::quads(x, p + k);
        GRADCORE_UNROLL
        for (int n = 0; n < N; n += 2) {
            Operand<T>::from_columns(y, b + 8 * k * stride + 8 * n, stride, lane);
            multiply_two(sums[n], sums[n + 1], x, y);
        }
    }
}

template <int ROWS, int COLUMNS>
struct Stage {
    GRADCORE_FUNCTION A* rows_of_warp() { return nullptr; }
};

#else

// ------------------------------------------------------------------------------------- a multiplication at a time

// Number of numbers that one instruction reads.
constexpr int together = sizeof(A) == 8 ? 2 : 4;

// sums += a @ b.T: 16 rows and 8 * N rows of WIDTH numbers.
template <int WIDTH, int N>
GRADCORE_FUNCTION void add_rows_by_rows(A (&sums)[N][4], const T* a, const T* b) {
    constexpr int stride = WIDTH + padding;
    const Lane lane;
    GRADCORE_ROLLED
    for (int k = 0; k < WIDTH; k += together) {
        const auto x0 = pack<together>(a + lane.row * stride + k), x1 = pack<together>(a + (lane.row + 8) * stride + k);
        GRADCORE_UNROLL
        for (int n = 0; n < N; ++n) {
            const T* row = b + (8 * n + lane.column) * stride + k;
            const auto y0 = pack<together>(row), y1 = pack<together>(row + stride);
            GRADCORE_UNROLL
            for (int i = 0; i < together; ++i) {
                const A p0 = load(x0.items[i]), p1 = load(x1.items[i]), q0 = load(y0.items[i]), q1 = load(y1.items[i]);
                sums[n][0] = fma(p0, q0, sums[n][0]);
                sums[n][1] = fma(p0, q1, sums[n][1]);
                sums[n][2] = fma(p1, q0, sums[n][2]);
                sums[n][3] = fma(p1, q1, sums[n][3]);
            }
        }
    }
}

// sums += p @ b: p has 16 rows of 8 * K numbers in registers, b 8 * K rows of 8 * N numbers; the lanes of the warp
// exchange their numbers of p by `stage`.
template <int K, int N>
GRADCORE_FUNCTION void add_quads_by_rows(A (&sums)[N][4], const A (&p)[K][4], const T* b, A* stage) {
    constexpr int stride = 8 * N + padding, staged = 8 * K + together;
    const Lane lane;
    __syncwarp();  // all threads have read the former content
    GRADCORE_UNROLL
    for (int k = 0; k < K; ++k)
        GRADCORE_UNROLL
        for (int i = 0; i < 4; ++i) stage[(lane.row + i / 2 * 8) * staged + 8 * k + lane.column + i % 2] = p[k][i];
    __syncwarp();
    GRADCORE_ROLLED
    for (int k = 0; k < 8 * K; k += together) {
        const auto x0 = pack<together>(stage + lane.row * staged + k);
        const auto x1 = pack<together>(stage + (lane.row + 8) * staged + k);
        GRADCORE_UNROLL
        for (int i = 0; i < together; ++i) {
            GRADCORE_UNROLL
            for (int n = 0; n < N; ++n) {
                const auto y = pack<2>(b + (k + i) * stride + 8 * n + lane.column);
                const A q0 = load(y.items[0]), q1 = load(y.items[1]);
                sums[n][0] = fma(x0.items[i], q0, sums[n][0]);
                sums[n][1] = fma(x0.items[i], q1, sums[n][1]);
                sums[n][2] = fma(x1.items[i], q0, sums[n][2]);
                sums[n][3] = fma(x1.items[i], q1, sums[n][3]);
            }
        }
    }
}

// Shared memory in which each warp has 16 of the rows.
template <int ROWS, int COLUMNS>
struct Stage {
    alignas(16) A rows[ROWS * (COLUMNS + together)];

    GRADCORE_FUNCTION A* rows_of_warp() { return rows + threadIdx.x / 32 * 16 * (COLUMNS + together); }
};

#endif

// Combine the numbers of a row, which 4 lanes contain.
template <class Combine>
GRADCORE_FUNCTION A quad_reduce(A value, Combine combine) {
    value = combine(value, __shfl_xor_sync(whole_warp, value, 1));
    return combine(value, __shfl_xor_sync(whole_warp, value, 2));
}

}  // namespace gradcore
