// Layout of NumPy array objects, which kernels get as arguments. Reading their fields in C++ takes a tenth of the time
// that it takes in Python.

#pragma once

#include "elements.h"

namespace gradcore {

// The first fields of PyArrayObject_fields after the object header, whose layout NumPy keeps stable. Before the library
// is used, Python compares these fields with the attributes of arrays.
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
    // Return whether all strides are zero, so that all elements are the same number in memory.
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

// Size in bytes of the header of a Python object.
inline i64 header = 0;

inline const Array& array_of(const void* object) {
    return *reinterpret_cast<const Array*>(static_cast<const char*>(object) + header);
}

}  // namespace gradcore
