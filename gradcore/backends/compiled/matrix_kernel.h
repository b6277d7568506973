// Products of two matrices, in tiles of the result that stay in registers.
//
// BLAS copies both operands into the order of its tiles before it multiplies, which takes a quarter of the time of a
// product with 64 rows. Here, the first operand is read in place. The second operand is also read in place if its rows
// are short, or if the result has few rows. Otherwise some of its rows at a time are copied into panels as wide as a
// tile, so that they stay in the cache. Each element of the result is a sum of the same numbers in the same order, no
// matter how threads divide the result.

#pragma once

#include <algorithm>
#include <memory>

#include "lanes.h"

namespace gradcore {

// A matrix: element (i, j) is data[i * row + j * column].
template <class T>
struct Operand {
    const T* data;
    i64 row, column;
};

#if defined(TRANSPOSES_REGISTERS) && (defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__)))

template <class T>
class MatrixKernel {
public:
    // Whether the kernel is faster than BLAS. BLAS does not copy operands for products of up to a million
    // multiplications, unless the second operand is transposed. The kernel also reads a transposed first operand in
    // place, so this operand has to fit into the cache. Most lanes of the panels have to be in use.
    static bool fits(i64 rows, i64 columns, i64 inner, Operand<T> a, Operand<T> b) {
        const i64 products = rows * columns * inner, padded = (columns + panel - 1) / panel * panel;
        if (inner < least_inner || 10 * padded > 11 * columns || products > most) return false;
        if (rows < least_rows) {
            return rows >= 4 && b.column == 1 && a.column == 1 && products >= least && bytes_of_row(b) <= 2 * near_row;
        }
        if (a.column == 1) return products >= (b.column == 1 ? least : least_transposed);
        return a.row == 1 && products >= least && rows * inner < most_transposed;
    }

    // out = a @ b; rows of `out` are `lead` apart.
    static void multiply(i64 rows, i64 columns, i64 inner, Operand<T> a, Operand<T> b, T* out, i64 lead) {
        thread_local const std::unique_ptr<Panels> panels(new Panels);
        const i64 depths = (inner + depth - 1) / depth, blocks = (rows + tile_rows - 1) / tile_rows;
        for (i64 first = 0; first < columns; first += width) {
            const i64 wide = std::min(columns - first, width);
            for (i64 d = 0; d < depths; ++d) {
                const i64 start = inner * d / depths, deep = inner * (d + 1) / depths - start;
                const Operand<T> part = {b.data + start * b.row + first * b.column, b.row, b.column};
                const bool direct = b.column == 1 && is_near(rows, deep, bytes_of_row(b));
                const i64 whole = direct ? wide / panel * panel : 0;
                pack(deep, wide - whole, {part.data + whole * b.column, b.row, b.column}, panels->right);
                const Right right = {part.data, b.row, whole, panels->right};
                for (i64 i = 0; i < blocks; ++i) {
                    const i64 top = rows * i / blocks, tall = rows * (i + 1) / blocks - top;
                    const Operand<T> left = {a.data + top * a.row + start * a.column, a.row, a.column};
                    T* target = out + top * lead + first;
                    if (a.column == 1) {
                        multiply_block<false>(tall, wide, deep, left.data, a.row, right, *panels, target, lead, d > 0);
                    } else {
                        multiply_block<true>(tall, wide, deep, left.data, a.column, right, *panels, target, lead, d > 0);
                    }
                }
            }
        }
    }

private:
    using Vector = typename Lanes<T>::Type;
    // Rows and registers of a tile, which fills three quarters of the registers.
    static constexpr int lanes = Lanes<T>::count, tile_vectors = 2, tile_rows = registers * 3 / 8;
    static constexpr i64 panel = lanes * tile_vectors;
    // Numbers of rows and columns of the second operand that are copied at a time: 256 KiB, which fit into the second
    // level of cache.
    static constexpr i64 depth = 256, width = 1024 / sizeof(T);
    static constexpr i64 least_rows = 16, least_inner = 16, least_transposed = 1 << 17, least = 1 << 20, most = 1 << 27;
    static constexpr i64 most_transposed = registers == 32 ? 1 << 18 : 1 << 17;
    // Return whether rows of the second operand are read in place: too few rows of the result would use a copy, or the
    // part fits into the cache.
    static bool is_near(i64 rows, i64 inner, i64 bytes) {
        return rows <= few_rows || (bytes <= near_row && (rows <= 2 * few_rows || inner * bytes <= near_part));
    }
    static constexpr i64 few_rows = 32, near_row = 1 << 10, near_part = 1 << 16;

    static i64 bytes_of_row(Operand<T> b) { return b.row * static_cast<i64>(sizeof(T)); }

    struct Panels {
        alignas(64) T right[depth * width];
        alignas(64) T edge[tile_rows * panel];
    };

    // Rows of the second operand, of which the first columns are read in place, and the others are packed.
    struct Right {
        const T* data;
        i64 row, direct;
        const T* packed;
    };

    // Panels of the second operand, padded with zeros. The rows of a panel are adjacent in memory.
    static void pack(i64 inner, i64 columns, Operand<T> b, T* to) {
        for (i64 first = 0; first < columns; first += panel, to += inner * panel) {
            const T* from = b.data + first * b.column;
            i64 done = 0;
            if (columns - first >= panel && b.column == 1) {
                for (; done < inner; ++done)
                    for (int v = 0; v < tile_vectors; ++v)
                        store(to + done * panel + v * lanes, load(from + done * b.row + v * lanes));
            } else if (columns - first >= panel && b.row == 1) {
                for (; done + lanes <= inner; done += lanes) {
                    for (int v = 0; v < tile_vectors; ++v) {
                        Vector block[lanes];
                        for (int j = 0; j < lanes; ++j) block[j] = load(from + (v * lanes + j) * b.column + done);
                        transpose_registers<T, 1>(block);
                        for (int k = 0; k < lanes; ++k) store(to + (done + k) * panel + v * lanes, block[k]);
                    }
                }
            }
            const i64 used = std::min(columns - first, panel);
            for (; done < inner; ++done) {
                for (i64 j = 0; j < used; ++j) to[done * panel + j] = from[done * b.row + j * b.column];
                for (i64 j = used; j < panel; ++j) to[done * panel + j] = 0;
            }
        }
    }

    // Compute some rows of the result, at most as many as a tile has, for all packed columns.
    template <bool transposed>
    static void multiply_block(i64 rows, i64 columns, i64 inner, const T* a, i64 row, const Right& b, Panels& panels,
                               T* out, i64 lead, bool adds) {
        for (i64 j = 0; j < columns; j += panel) {
            const bool direct = j < b.direct;
            const T* right = direct ? b.data + j : b.packed + (j - b.direct) * inner;
            const i64 used = columns - j, step = direct ? b.row : panel;
            if (used >= panel) {
                multiply_rows<transposed>(rows, inner, a, row, right, step, out + j, lead, adds);
                continue;
            }
            multiply_rows<transposed>(rows, inner, a, row, right, step, panels.edge, panel, false);
            for (i64 i = 0; i < rows; ++i) {
                T* to = out + i * lead + j;
                const T* from = panels.edge + i * panel;
                for (i64 k = 0; k < used; ++k) to[k] = adds ? to[k] + from[k] : from[k];
            }
        }
    }

    template <bool transposed, int R = tile_rows>
    static void multiply_rows(i64 rows, i64 inner, const T* a, i64 row, const T* right, i64 step, T* out, i64 lead, bool adds) {
        if (rows == R) return multiply_tile<transposed, R>(inner, a, row, right, step, out, lead, adds);
        if constexpr (R > 1) multiply_rows<transposed, R - 1>(rows, inner, a, row, right, step, out, lead, adds);
    }

    template <bool transposed, int R>
    static void multiply_tile(i64 inner, const T* a, i64 row, const T* right, i64 step, T* out, i64 lead, bool adds) {
        Vector sums[R][tile_vectors] = {};
        // A pointer for each row would leave too few registers for addresses.
        const T* rows[(R + 2) / 3];
        for (int g = 0; g < (R + 2) / 3; ++g) rows[g] = a + 3 * g * row;
        for (i64 k = 0; k < inner; ++k, right += step) {
            Vector read[tile_vectors];
            for (int v = 0; v < tile_vectors; ++v) read[v] = load(right + v * lanes);
            // The CPU does not fetch lines that are a row of a wide matrix apart ahead of time.
            if (transposed && registers == 32) __builtin_prefetch(a + (k + 16) * row + R / 2);
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) {
                const T factor = transposed ? a[k * row + r] : rows[r / 3][r % 3 * row + k];
                for (int v = 0; v < tile_vectors; ++v) sums[r][v] += read[v] * factor;
            }
        }
        if (adds) {
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r)
                for (int v = 0; v < tile_vectors; ++v) sums[r][v] += load(out + r * lead + v * lanes);
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < tile_vectors; ++v) store(out + r * lead + v * lanes, sums[r][v]);
    }
};

#else

// On CPUs without fused multiplication and addition, BLAS is always used.
template <class T>
class MatrixKernel {
public:
    static bool fits(i64, i64, i64, Operand<T>, Operand<T>) { return false; }
    static void multiply(i64, i64, i64, Operand<T>, Operand<T>, T*, i64) {}
};

#endif

}  // namespace gradcore
