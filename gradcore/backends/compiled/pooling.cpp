// Functions of maximum pooling that Python calls, for contiguous arrays.

#include "pooling.h"

#include "calls.h"

namespace gradcore {

template <class T>
void pool_maxima(const Windows* windows, i64 threads, const Array& x, const Array& out, const Array& index) {
    max_pool(reinterpret_cast<T*>(out.data), reinterpret_cast<i64*>(index.data), reinterpret_cast<const T*>(x.data),
             *windows, threads);
}

// Return false if a place is not within a plane.
template <class T>
bool spread_maxima(i64 planes, i64 outputs, i64 size, i64 threads, const Array& x, const Array& index, const Array& out) {
    return spread_places(reinterpret_cast<T*>(out.data), reinterpret_cast<const T*>(x.data),
                         reinterpret_cast<const i64*>(index.data), planes, outputs, size, threads);
}

}  // namespace gradcore

BUILTIN(max_pool_f, &gradcore::pool_maxima<float>)
BUILTIN(max_pool_d, &gradcore::pool_maxima<double>)
BUILTIN(spread_places_f, &gradcore::spread_maxima<float>)
BUILTIN(spread_places_d, &gradcore::spread_maxima<double>)
