// Entry points for Python: kernels that compute a part of their work, called by several threads.

#pragma once

#include "arrays.h"
#include "pool.h"

namespace gradcore {

// Arguments of a kernel apart from its arrays: the shape of the matrices, the number of parts (usually rows) into which
// the work is divided, and numbers whose meaning depends on the kernel.
struct Work {
    i64 parts, height, width, inner, cycle;
    double number;
};

// The function that Python calls for a kernel. It takes numbers, then the kernel's arrays as NumPy objects.
template <auto kernel>
struct Entry;

template <class W, class... A, void (*kernel)(const W&, i64, i64, A...)>
struct Entry<kernel> {
    template <class>
    using Object = const void*;

    static void run(const W* work, i64 grain, i64 threads, Object<A>... objects) {
        spread(work->parts, grain, 1, threads, [&](i64 start, i64 stop) {
            kernel(*work, start, stop, reinterpret_cast<A>(array_of(objects).data)...);
        });
    }
};

}  // namespace gradcore

// The addresses of these functions, by kernel and the character of NumPy's dtype.
#define KERNEL(name, char, ...) \
    extern "C" const void* name##_##char; \
    const void* name##_##char = reinterpret_cast<const void*>(&gradcore::Entry<&gradcore::name<__VA_ARGS__>>::run);
#define FLOAT_KERNEL(name) KERNEL(name, f, float) KERNEL(name, d, double)
