// Arrays of NumPy as they are called with: reading them here costs a tenth of what Python takes for it.

#pragma once

#include "elements.h"

namespace gradcore {

// What follows the header of the object: the head of PyArrayObject_fields, which NumPy keeps as it is. Python compares
// it with what arrays say of themselves before the library is used.
struct Array {
    char* data;
    int dims;
    const intptr_t *extents, *strides;
    void *base, *dtype;
    int flags;

    bool is_contiguous() const { return flags & 1; }
    bool is_aligned() const { return flags & 0x100; }
    i64 size() const {
        i64 product = 1;
        for (int d = 0; d < dims; ++d) product *= extents[d];
        return product;
    }
    // Whether all elements are one in memory.
    bool is_repeated() const {
        bool still = true;
        for (int d = 0; d < dims; ++d) still &= strides[d] == 0 || extents[d] == 1;
        return still;
    }
    bool has_shape_of(const Array& other) const {
        bool same = dims == other.dims;
        for (int d = 0; same && d < dims; ++d) same = extents[d] == other.extents[d];
        return same;
    }
};

// The bytes of the header of an object.
inline i64 header = 0;

inline const Array& array_of(const void* object) {
    return *reinterpret_cast<const Array*>(static_cast<const char*>(object) + header);
}

}  // namespace gradcore
