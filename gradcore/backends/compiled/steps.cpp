// Optimizer steps: one pass over all parameters of a batch, their gradients and states.

#include <algorithm>

#include "calls.h"

using gradcore::Array;
using gradcore::array_of;
using gradcore::i64;

namespace {

constexpr i64 most_arrays = 16;

using Loop = void (*)(i64, void* const*, const double*);

// The arguments that do not change between steps of a batch, filled in by Python.
struct Batch {
    i64 params, states;
    const i64* offsets;          // offset of each parameter in the states, and the end of the last
    const void* const* objects;  // arrays: the parameters, then the states
};

// The arrays that a loop takes, by number: the parameter, the gradient, then the states.
struct Step {
    Loop loop;
    i64 grain, item, arrays;
    const i64* positions;
};

bool fits(const Array& a, i64 size) { return a.is_contiguous() && a.is_aligned() && a.size() == size; }

// Return whether a gradient is like its parameter, which may have got other data since.
bool is_like(const Array& grad, const Array& param) {
    return grad.is_contiguous() && grad.is_aligned() && grad.dtype == param.dtype && grad.has_shape_of(param);
}

// Make the step if all arrays are contiguous and gradients are like parameters. Return whether it was made.
bool run_step(gradcore::Elements elements, const Step* step_, const Batch* batch_, i64 threads,
              const void* const* grads, const double* numbers) {
    const Step& step = *step_;
    const Batch& batch = *batch_;
    const i64 *offsets = batch.offsets, total = elements.count;
    for (i64 i = 0; i < batch.params; ++i) {
        const Array& param = array_of(batch.objects[i]);
        if (!fits(param, offsets[i + 1] - offsets[i]) || !is_like(array_of(grads[i]), param)) return false;
    }
    for (i64 k = 0; k < batch.states; ++k) {
        if (!fits(array_of(batch.objects[batch.params + k]), total)) return false;
    }
    gradcore::spread(total, step.grain, 16, threads, [&](i64 start, i64 stop) {
        for (i64 i = std::upper_bound(offsets, offsets + batch.params, start) - offsets - 1; start < stop; ++i) {
            const i64 end = std::min(stop, offsets[i + 1]), inside = start - offsets[i];
            void* places[most_arrays];
            for (i64 k = 0; k < step.arrays; ++k) {
                const i64 position = step.positions[k];
                const void* object = position == 0   ? batch.objects[i]
                                     : position == 1 ? grads[i]
                                                     : batch.objects[batch.params + position - 2];
                places[k] = array_of(object).data + (position < 2 ? inside : start) * step.item;
            }
            step.loop(end - start, places, numbers);
            start = end;
        }
    });
    return true;
}

}  // namespace

BUILTIN(gradcore_step, &run_step)
