// Functions that run generated loops. Loops take contiguous arrays. Rows of other operands are copied, a few elements
// at a time, to memory that stays in the first level of cache.

#include "calls.h"

using gradcore::Array;
using gradcore::array_of;
using gradcore::Arrays;
using gradcore::i64;

namespace {

constexpr i64 block = 512, most_operands = 12;
// Parts of arrays for different threads begin at multiples of this number, so that they have no cache line in common.
constexpr i64 step_of_parts = 64;

using Loop = void (*)(i64, void* const*, const double*);

template <class T>
void gather(const char* from, i64 step, i64 n, char* to) {
    T* out = reinterpret_cast<T*>(to);
    if (step == 0) {
        const T value = *reinterpret_cast<const T*>(from);
        for (i64 i = 0; i < n; ++i) out[i] = value;
    } else {
        for (i64 i = 0; i < n; ++i) out[i] = *reinterpret_cast<const T*>(from + i * step);
    }
}

void gather(const char* from, i64 step, i64 n, char* to, i64 size) {
    if (size == 1) gather<unsigned char>(from, step, n, to);
    else if (size == 4) gather<gradcore::u32>(from, step, n, to);
    else gather<gradcore::u64>(from, step, n, to);
}

// ------------------------------------------------------------------------------------------------ one index for all

// The arguments that do not change between calls of a loop, filled in by Python.
struct Call {
    Loop loop;
    const double* parameters;
    i64 grain;  // number of elements that are worth a thread
    const i64* sizes;  // element size of each array in bytes
};

// Run a loop on operands that have the shape of the result, the last array, or a single element, which is repeated for a
// block. Return whether the arrays are supported.
bool run_loop(const Call* function, i64 threads, Arrays arrays) {
    const i64 count = arrays.count;
    if (count > most_operands + 1) return false;
    const Call& call = *function;
    const Array& result = arrays[count - 1];
    bool repeated[most_operands + 1], any = false;
    for (i64 k = 0; k < count; ++k) {
        const Array& a = arrays[k];
        repeated[k] = a.is_repeated() && &a != &result;
        any |= repeated[k];
        const bool fits = a.dims == 0 || a.has_shape_of(result);
        if (!fits || !a.is_aligned() || !(repeated[k] || a.is_contiguous())) return false;
    }
    if (result.size() == 0) return true;  // there may be no element to repeat
    gradcore::spread(result.size(), call.grain, step_of_parts, threads, [&](i64 start, i64 stop) {
        void* places[most_operands + 1];
        if (!any) {
            for (i64 k = 0; k < count; ++k) places[k] = arrays[k].data + start * call.sizes[k];
            call.loop(stop - start, places, call.parameters);
            return;
        }
        alignas(64) char memory[most_operands][block * 8];
        for (i64 k = 0; k < count; ++k) {
            if (repeated[k]) gather(arrays[k].data, 0, block, memory[k], call.sizes[k]);
        }
        for (i64 i = start; i < stop; i += block) {
            for (i64 k = 0; k < count; ++k) {
                places[k] = repeated[k] ? memory[k] : arrays[k].data + i * call.sizes[k];
            }
            call.loop(stop - i < block ? stop - i : block, places, call.parameters);
        }
    });
    return true;
}

// An inner loop of NumPy. It takes the addresses of arrays, the number of elements, strides in bytes, and the loop's
// data.
using NumpyLoop = void (*)(char**, const intptr_t*, const intptr_t*, const void*);

// Return whether threads can write a contiguous result of `bytes` bytes while they read `a`, whose elements lie in its
// first `end` bytes: if memory is not shared, or if each element is read before its own place is written.
bool can_read_while_writing(const Array& a, i64 end, bool is_alike, const Array& result, i64 bytes) {
    const bool is_apart = a.data + end <= result.data || result.data + bytes <= a.data;
    return is_apart || (a.data == result.data && is_alike && a.is_contiguous() && end == bytes);
}

constexpr int is_writable = 0x400;

// Like `run_loop`, with an inner loop of NumPy, whose data replaces the parameters in `call`. The result may be one of
// the operands.
bool run_numpy(const Call* function, i64 threads, Arrays arrays) {
    constexpr i64 most = 3;
    const i64 count = arrays.count;
    if (count > most) return false;
    const Call& call = *function;
    const Array& result = arrays[count - 1];
    if (!(result.flags & is_writable)) return false;
    const i64 size = result.size(), size_of_result = call.sizes[count - 1];
    intptr_t steps[most];
    for (i64 k = 0; k < count; ++k) {
        const Array& a = arrays[k];
        if ((a.dims != 0 && !a.has_shape_of(result)) || !a.is_aligned()) return false;
        steps[k] = a.is_repeated() && &a != &result ? 0 : call.sizes[k];
        if (steps[k] != 0 && !a.is_contiguous()) return false;
        const i64 end = steps[k] != 0 ? size * steps[k] : call.sizes[k];
        const bool is_alike = call.sizes[k] == size_of_result;
        if (k < count - 1 && !can_read_while_writing(a, end, is_alike, result, size * size_of_result)) return false;
    }
    const auto loop = reinterpret_cast<NumpyLoop>(call.loop);
    gradcore::spread(size, call.grain, step_of_parts, threads, [&](i64 start, i64 stop) {
        char* places[most];
        for (i64 k = 0; k < count; ++k) places[k] = arrays[k].data + start * steps[k];
        const intptr_t n = stop - start;
        loop(places, &n, steps, call.parameters);
    });
    return true;
}

// ------------------------------------------------------------------------------------- broadcast operands, short rows

// Elements of the result that are computed at a time, and dims that are supported after dims were merged.
constexpr i64 tile = 1024;
constexpr int most_merged = 8;

// Numbers of 16 bytes, which copies write beyond their end: the next copy overwrites them, and buffers are longer.
template <class T>
struct Sixteen {
    typedef T Type __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));
    static constexpr i64 count = 16 / sizeof(T);
};

// An operand with the dims of the result, and a part of it that is repeated as broadcasting demands.
struct Expansion {
    i64 steps[most_merged];  // in bytes
    const char* source = nullptr;  // the part that `memory` contains
    i64 rows = 0;  // of that part
    alignas(64) char memory[tile * 8 + 16];

    template <class T>
    T* expand(const i64* extents, int last, int d, i64 count, const char* from, T* to) const {
        using Block = typename Sixteen<T>::Type;
        constexpr i64 lanes = Sixteen<T>::count;
        const auto store = [](T* place, Block block) { *reinterpret_cast<Block*>(place) = block; };
        if (d == last) {
            const T* numbers = reinterpret_cast<const T*>(from);
            const i64 step = steps[d] != 0;
            if (step != 0 && count > 2 * lanes) __builtin_memcpy(to, numbers, count * sizeof(T));
            else for (i64 i = 0; i < count; ++i) to[i] = numbers[i * step];
            return to + count;
        }
        const i64 n = extents[d + 1];
        if (d + 1 == last && steps[last] == 0) {  // each number fills a short row
            const i64 step = steps[d];
            if (n <= lanes) {
                for (i64 i = 0; i < count; ++i, from += step, to += n) {
                    store(to, Block{} + *reinterpret_cast<const T*>(from));
                }
                return to;
            }
            for (i64 i = 0; i < count; ++i, from += step, to += n) {
                const Block block = Block{} + *reinterpret_cast<const T*>(from);
                for (i64 k = 0; k < n; k += lanes) store(to + k, block);
            }
            return to;
        }
        if (steps[d] != 0) {
            for (i64 i = 0; i < count; ++i) to = expand(extents, last, d + 1, n, from + i * steps[d], to);
            return to;
        }
        if (d + 1 == last && n <= lanes) {  // a short row, which must not be read beyond its end
            const T* numbers = reinterpret_cast<const T*>(from);
            Block block{};
            if constexpr (lanes == 4) block = Block{numbers[0], n > 1 ? numbers[1] : 0, n > 2 ? numbers[2] : 0, n > 3 ? numbers[3] : 0};
            else block = Block{numbers[0], n > 1 ? numbers[1] : 0};
            for (i64 i = 0; i < count; ++i, to += n) store(to, block);
            return to;
        }
        const T* first = to;
        to = expand(extents, last, d + 1, n, from, to);
        const i64 size = to - first;
        for (i64 i = 1; i < count; ++i, to += size) {
            for (i64 k = 0; k < size; k += lanes) store(to + k, *reinterpret_cast<const Block*>(first + k));
        }
        return to;
    }
};

// Call an inner loop of NumPy for operands that are broadcast along short rows. NumPy calls it for each row, which takes
// as long as 20 to 100 elements. Here it is called for a thousand elements, for which operands are copied. Arrays may
// have any strides in the order of the dims. Return false, without a result, for all others.
bool run_numpy_on_rows(const Call* function, i64 threads, const Array& x, const Array& y, const Array& result) {
    const Call& call = *function;
    const Array* const arrays[] = {&x, &y};
    if (!result.is_contiguous() || !result.is_aligned() || !(result.flags & is_writable)) return false;
    const i64 size = call.sizes[0], size_of_result = call.sizes[2], total = result.size();
    if ((size != 4 && size != 8) || call.sizes[1] != size || total == 0) return false;
    i64 extents[most_merged], steps[2][most_merged];
    int dims = 0;
    for (int d = 0; d < result.dims; ++d) {
        const i64 n = result.extents[d];
        i64 step[2];
        bool is_spanned = n == 1;
        for (int k = 0; k < 2; ++k) {
            const int own = d - (result.dims - arrays[k]->dims);
            const i64 extent = own < 0 ? 1 : arrays[k]->extents[own];
            if (extent != n && extent != 1) return false;
            is_spanned |= extent == n;
            step[k] = extent == 1 ? 0 : arrays[k]->strides[own];
        }
        if (!is_spanned) return false;
        if (n == 1) continue;
        const auto continues = [&](int k) { return steps[k][dims - 1] == n * step[k]; };
        if (dims > 0 && continues(0) && continues(1)) {
            extents[dims - 1] *= n;
        } else {
            if (dims == most_merged) return false;
            extents[dims++] = n;
        }
        for (int k = 0; k < 2; ++k) steps[k][dims - 1] = step[k];
    }
    if (dims == 0) return false;
    for (int k = 0; k < 2; ++k) {
        const Array& a = *arrays[k];
        if (a.dims > result.dims || !a.is_aligned()) return false;
        i64 smallest = steps[k][dims - 1], end = size;
        if (smallest != 0 && smallest != size) return false;
        for (int d = dims - 1; d >= 0; --d) {  // steps grow from the last dim to the first, as those of the result do
            const i64 step = steps[k][d];
            if (step != 0 && step < smallest) return false;
            if (step != 0) smallest = step;
            end += (extents[d] - 1) * step;
        }
        if (!can_read_while_writing(a, end, size == size_of_result, result, total * size_of_result)) return false;
    }
    // A tile has `rows` of dim `outer`, and all of the `inner` elements of the dims after it.
    int outer = dims - 1;
    i64 inner = 1;
    while (outer > 0 && inner * extents[outer] * 2 <= tile) inner *= extents[outer--];
    const i64 height = extents[outer], rows = inner < tile ? tile / inner : 1, pieces = (height + rows - 1) / rows;
    const i64 tiles = total / (height * inner) * pieces;
    const auto loop = reinterpret_cast<NumpyLoop>(call.loop);
    gradcore::spread(tiles, call.grain / tile, 1, threads, [&](i64 start, i64 stop) {
        Expansion expansions[2];
        bool is_dense[2], is_single[2];
        for (int k = 0; k < 2; ++k) {
            i64 dense = size;
            is_dense[k] = is_single[k] = true;
            for (int d = dims - 1; d >= 0; --d) {
                expansions[k].steps[d] = steps[k][d];
                if (d < outer) continue;
                is_dense[k] &= steps[k][d] == dense;
                is_single[k] &= steps[k][d] == 0;
                dense *= extents[d];
            }
        }
        for (i64 number = start; number < stop; ++number) {
            i64 rest = number / pieces;
            const i64 first = number % pieces * rows, count = height - first < rows ? height - first : rows;
            const i64 position = (rest * height + first) * inner;
            char* places[3] = {nullptr, nullptr, result.data + position * size_of_result};
            intptr_t strides[3] = {size, size, size_of_result};
            i64 offsets[2] = {first * steps[0][outer], first * steps[1][outer]};
            for (int d = outer - 1; d >= 0; --d) {
                const i64 index = rest % extents[d];
                rest /= extents[d];
                for (int k = 0; k < 2; ++k) offsets[k] += index * steps[k][d];
            }
            for (int k = 0; k < 2; ++k) {
                Expansion& expansion = expansions[k];
                char* from = arrays[k]->data + offsets[k];
                places[k] = from;
                if (is_single[k]) strides[k] = 0;
                if (is_single[k] || is_dense[k]) continue;
                places[k] = expansion.memory;
                if (expansion.source == from && expansion.rows >= count) continue;
                expansion.source = from, expansion.rows = count;
                if (size == 4) {
                    expansion.expand(extents, dims - 1, outer, count, from, reinterpret_cast<gradcore::u32*>(expansion.memory));
                } else {
                    expansion.expand(extents, dims - 1, outer, count, from, reinterpret_cast<gradcore::u64*>(expansion.memory));
                }
            }
            const intptr_t n = count * inner;
            loop(places, &n, strides, call.parameters);
        }
    });
    return true;
}

// ------------------------------------------------------------------------------------------------- rows with strides

// The largest number of dims of NumPy arrays.
constexpr i64 most_dims = 64;

template <i64 size>
void copy_row(i64 n, void* const* places, const double*) {
    __builtin_memcpy(places[1], places[0], n * size);
}

struct Operand {
    const char* row;
    const char* repeated = nullptr;  // the element that is repeated in `memory`, if one is
    i64 step, size;
    alignas(64) char memory[block * 8];
};

// Compute the elements from `start` to before `stop` of the result, which are adjacent in the order of the dims.
void run_rows(const i64* call, i64 start, i64 stop, void* const* arrays) {
    const Loop loop = reinterpret_cast<Loop>(call[0]);
    const double* parameters = reinterpret_cast<const double*>(call[1]);
    const i64 dims = call[3], operands = call[4];
    const i64 *extents = call + 5, *sizes = extents + dims, *steps = sizes + operands + 1;
    const i64 width = extents[dims - 1];
    thread_local static Operand kept[most_operands];
    void* places[most_operands + 1];
    for (i64 k = 0; k < operands; ++k) {
        kept[k].repeated = nullptr;
        kept[k].step = steps[k * dims + dims - 1];
        kept[k].size = sizes[k];
    }
    for (i64 index = start; index < stop;) {
        const i64 row = index / width, first = index - row * width;
        const i64 end = first + (stop - index) < width ? first + (stop - index) : width;
        for (i64 k = 0; k < operands; ++k) {
            const char* place = static_cast<const char*>(arrays[k]);
            i64 rest = row;
            for (i64 d = dims - 2; d >= 0; --d) {
                place += rest % extents[d] * steps[k * dims + d];
                rest /= extents[d];
            }
            kept[k].row = place;
        }
        bool dense = true;
        for (i64 k = 0; k < operands; ++k) dense &= kept[k].step == kept[k].size;
        const i64 most = dense ? width : block;
        for (i64 i = first; i < end; i += most) {
            const i64 n = end - i < most ? end - i : most;
            for (i64 k = 0; k < operands; ++k) {
                Operand& o = kept[k];
                const char* place = o.row + i * o.step;
                places[k] = const_cast<char*>(place);
                if (o.step == o.size) continue;
                places[k] = o.memory;
                if (o.step != 0) {
                    gather(place, o.step, n, o.memory, o.size);
                } else if (o.repeated != place) {
                    gather(place, 0, width < block ? width : block, o.memory, o.size);
                    o.repeated = place;
                }
            }
            places[operands] = static_cast<char*>(arrays[operands]) + (row * width + i) * sizes[operands];
            loop(n, places, parameters);
        }
        index += end - first;
    }
}

// An inner loop of NumPy, and arguments shared by many calls: its data, the number of elements, and the stride of each
// operand in bytes.
struct Kind {
    NumpyLoop loop;
    const void* data;
    intptr_t count, steps[3];
};

// A call: its kind, and the offsets of operands and result in bytes.
struct Step {
    gradcore::i32 kind;
    gradcore::u32 offsets[3];
};

// Run a list of calls, one after the other, on parts of `memory`.
void run_list(const Kind* kinds, const Step* step, i64 count, const Array& memory) {
    for (const Step* last = step + count; step < last; ++step) {
        const Kind& kind = kinds[step->kind];
        char* places[3];
        for (int k = 0; k < 3; ++k) places[k] = memory.data + step->offsets[k];
        kind.loop(places, &kind.count, kind.steps, kind.data);
    }
}

// `call` has, in this order: the addresses of the loop and of its parameters; the grain; the numbers of dims and
// operands; the sizes of the dims; the element sizes of each operand and of the result in bytes; and for each operand
// its strides in bytes. `places` has the addresses of the first elements.
void run_rows_at(const i64* call, i64 threads, i64 size, void* const* places) {
    gradcore::spread(size, call[2], step_of_parts, threads, [=](i64 start, i64 stop) {
        run_rows(call, start, stop, places);
    });
}

// Run a loop on arrays of the layouts that `call` describes, the last of which is the result. Return false if there are
// too many arrays, or if elements are not aligned, which the compiler takes them to be.
bool run_rows_of(const i64* call, i64 threads, Arrays arrays) {
    if (arrays.count > most_operands + 1) return false;
    void* places[most_operands + 1];
    for (i64 k = 0; k < arrays.count; ++k) {
        if (!arrays[k].is_aligned()) return false;
        places[k] = arrays[k].data;
    }
    run_rows_at(call, threads, arrays[arrays.count - 1].size(), places);
    return true;
}

// Copy `from` to a contiguous array of its shape, whose elements have `size` bytes. Return whether the layout of `from`
// is supported.
bool copy(i64 grain, i64 threads, i64 size, const Array& x, const Array& out) {
    if (x.is_contiguous() && out.size() > 0) {
        gradcore::spread(out.size(), grain, step_of_parts, threads, [&](i64 start, i64 stop) {
            __builtin_memcpy(out.data + start * size, x.data + start * size, (stop - start) * size);
        });
        return true;
    }
    const Loop loop = size == 1 ? copy_row<1> : size == 4 ? copy_row<4> : size == 8 ? copy_row<8> : nullptr;
    if (loop == nullptr || !x.is_aligned() || out.size() == 0) return false;
    i64 extents[most_dims], steps[most_dims], dims = 0;  // dims that step evenly through memory are merged
    for (int d = 0; d < x.dims; ++d) {
        const i64 n = x.extents[d], step = x.strides[d];
        if (n == 1) continue;
        if (dims > 0 && steps[dims - 1] == n * step) {
            extents[dims - 1] *= n, steps[dims - 1] = step;
        } else {
            extents[dims] = n, steps[dims++] = step;
        }
    }
    if (dims == 0) extents[0] = 1, steps[dims++] = 0;
    i64 call[7 + 2 * most_dims] = {reinterpret_cast<i64>(loop), 0, grain, dims, 1};
    for (i64 d = 0; d < dims; ++d) call[5 + d] = extents[d], call[7 + dims + d] = steps[d];
    call[5 + dims] = call[6 + dims] = size;
    void* const places[] = {x.data, out.data};
    run_rows_at(call, threads, out.size(), places);
    return true;
}

// Write zeros to the bytes of a contiguous array, of which `grain` are worth a thread.
void write_zeros(i64 grain, i64 threads, i64 bytes, const Array& out) {
    gradcore::spread(bytes, grain, step_of_parts, threads,
                     [&](i64 start, i64 stop) { __builtin_memset(out.data + start, 0, stop - start); });
}

}  // namespace

BUILTIN(gradcore_run, &run_loop)
BUILTIN(gradcore_run_numpy, &run_numpy)
BUILTIN(gradcore_run_broadcast, &run_numpy_on_rows)
BUILTIN(gradcore_run_list, &run_list)
BUILTIN(gradcore_run_rows, &run_rows_of)
BUILTIN(gradcore_copy, &copy)
BUILTIN(write_zeros_b, &write_zeros)

// Store what is needed of the interpreter. Write to `out` the address of an array's first element, the number of its dims,
// its flags, and the size and stride of its first dim.
extern "C" void gradcore_describe(i64 header, const gradcore::Interpreter* python, const void* object, i64* out) {
    gradcore::header = header, gradcore::python = *python;
    const Array& a = array_of(object);
    const i64 found[] = {reinterpret_cast<i64>(a.data), a.dims, a.is_contiguous(), a.is_aligned(), a.extents[0], a.strides[0]};
    for (int i = 0; i < 6; ++i) out[i] = found[i];
}
