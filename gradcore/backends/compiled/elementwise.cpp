// Brings the operands of a generated loop, which takes contiguous arrays, into that form: rows that do not lie so are
// copied a few elements at a time, into memory that stays in the first level of cache.

#include <cstring>

#include "elements.h"

using gradcore::i64;

namespace {

constexpr i64 block = 512, most_operands = 12, most_dims = 32;

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

struct Operand {
    const char* row;
    const char* repeated = nullptr;  // the element of which `memory` is full
    i64 step, size;
    alignas(64) char memory[block * 8];
};

}  // namespace

// Compute the elements from `start` to before `stop` of results, which are dense in the order of the dims. `call` has the
// addresses of the loop and of its parameters; the numbers of dims, operands and outputs; the dims' extents; the bytes of
// an element of each operand and output; and for each operand the bytes that each of the dims advances.
extern "C" void gradcore_run_loop(const i64* call, i64 start, i64 stop, void* const* arrays) {
    const Loop loop = reinterpret_cast<Loop>(call[0]);
    const double* parameters = reinterpret_cast<const double*>(call[1]);
    const i64 dims = call[2], operands = call[3], outputs = call[4];
    const i64 *extents = call + 5, *sizes = extents + dims, *steps = sizes + operands + outputs;
    const i64 width = extents[dims - 1];
    thread_local static Operand kept[most_operands];
    void* places[most_operands + 8];
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
            for (i64 k = 0; k < outputs; ++k) {
                places[operands + k] = static_cast<char*>(arrays[operands + k]) + (row * width + i) * sizes[operands + k];
            }
            loop(n, places, parameters);
        }
        index += end - first;
    }
}
