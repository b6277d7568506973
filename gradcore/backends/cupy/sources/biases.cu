// Kernels for the bias of a layer: repeat it as the rows of a result, and sum columns for its gradient.
//
// GRADCORE_TYPE is the type of the arrays, which are dense.

#include "block.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;

extern "C" __global__ void repeat_row(const T* row, T* out, const i64 size, const i64 width) {
    const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
    for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) out[i] = row[i % width];
}

// A block sums 32 columns with 32 threads for each, always in the same order.
extern "C" __global__ void sum_columns(const T* x, T* out, const i64 rows, const i64 width) {
    __shared__ A partial[32][33];
    const i64 first = static_cast<i64>(blockIdx.x) * 32, column = first + threadIdx.x;
    A sum = 0;
    if (column < width)
        for (i64 row = threadIdx.y; row < rows; row += 32) sum += load(x[row * width + column]);
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = warp_reduce(partial[threadIdx.x][threadIdx.y], Sum());
    if (threadIdx.x == 0 && first + threadIdx.y < width) out[first + threadIdx.y] = store<T>(sum);
}
