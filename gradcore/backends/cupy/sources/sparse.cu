// Products of sparse matrices with dense ones, and the elements of dense products at the positions of a sparse matrix.
//
// GRADCORE_TYPE is the type of the operands, GRADCORE_RESULT that of results, GRADCORE_INDEX that of indices.
// GRADCORE_COMPLEX is defined if numbers are complex. Dense matrices may have any strides. Sums are computed in
// registers, always in the same order, without atomic additions.

#ifdef GRADCORE_COMPLEX
#include "complex.cuh"
#endif

#include "block.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using R = GRADCORE_RESULT;
using Index = GRADCORE_INDEX;
using A = Computed<T>::type;

template <class N>
GRADCORE_FUNCTION N of_lane(N x, int distance) {
    return __shfl_xor_sync(whole_warp, x, distance);
}
#ifdef GRADCORE_COMPLEX
template <class N>
GRADCORE_FUNCTION complex<N> of_lane(complex<N> x, int distance) {
    return complex<N>(of_lane(x.real(), distance), of_lane(x.imag(), distance));
}
#endif

// Compute the rows of the product, each by a warp that computes `across` columns at once, a power of 2 up to 32. The 32
// / across lanes of a column share the elements of the row. The elements of row r are those from ends[r] to ends[r +
// 1], in the order `order` (null: as stored). Each is one of `values` (null: 1), multiplied by the row `inner` (null:
// the element's own number) of the dense matrix.
extern "C" __global__ void sparse_rows(const T* values, const Index* order, const Index* ends, const Index* inner, const T* dense, R* out,
                                       const i64 height, const i64 width, const i64 row_step, const i64 column_step,
                                       const i32 across) {
    const i32 lane = threadIdx.x;
    for (i64 row = row_index(); row < height; row += static_cast<i64>(gridDim.x) * blockDim.y) {
        const Index first = ends[row] + lane / across, end = ends[row + 1];
        for (i64 start = 0; start < width; start += across) {
            const i64 column = start + lane % across;
            A total = A(0);
            if (column < width)
                for (Index i = first; i < end; i += 32 / across) {
                    const A x = load(dense[(inner ? inner[i] : i) * row_step + column * column_step]);
                    total = values ? plus_product(total, A(load(values[order ? order[i] : i])), x) : total + x;
                }
            for (i32 distance = across; distance < 32; distance *= 2) total = total + of_lane(total, distance);
            if (lane < across && column < width) out[row * width + column] = store<R>(total);
        }
    }
}

// Products of rows of two matrices: for each element of a pattern of row `rows` of the first and row `cols` of the
// second, by `across` lanes of a warp.
extern "C" __global__ void sparse_samples(const T* left, const T* right, const Index* rows, const Index* cols, R* out,
                                          const i64 count, const i64 width, const i64 left_row, const i64 left_column,
                                          const i64 right_row, const i64 right_column, const i32 across) {
    const i32 lane = threadIdx.x, each = 32 / across;
    for (i64 first = row_index() * each; first < count; first += static_cast<i64>(gridDim.x) * blockDim.y * each) {
        const i64 i = first + lane / across;
        A total = A(0);
        if (i < count)
            for (i64 column = lane % across; column < width; column += across)
                total = plus_product(total, A(load(left[rows[i] * left_row + column * left_column])),
                                     A(load(right[cols[i] * right_row + column * right_column])));
        for (i32 distance = across / 2; distance > 0; distance /= 2) total = total + of_lane(total, distance);
        if (i < count && lane % across == 0) out[i] = store<R>(total);
    }
}
