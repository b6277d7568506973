// Functions of this library that Python calls: built-in functions of CPython, and the kernels among them, which compute
// a part of their work and are called by several threads. A call by ctypes would take a microsecond more.

#pragma once

#include <new>
#include <utility>

#include "arrays.h"
#include "pool.h"

namespace gradcore {

// What the library needs of the interpreter, filled in by Python. The functions are in CPython's stable ABI.
struct Interpreter {
    long long (*as_integer)(const void* object);
    double (*as_number)(const void* object);
    void* (*from_integer)(long long);
    void* (*from_bool)(long);
    void (*add_reference)(void* object);
    const void* (*error)();         // the exception that is set, or null
    int (*set_argument_error)();    // set a TypeError
    void* (*set_memory_error)();    // set a MemoryError, and return null
    void* (*release)();             // release the GIL, and return the state of the thread
    void (*acquire)(void* state);
    void* none;
};
inline Interpreter python;

// Conversions of an argument: integers, numbers, addresses (which Python passes as integers), and arrays.
template <class T>
struct Argument;

template <>
struct Argument<i64> {
    static i64 from(const void* object) { return python.as_integer(object); }
    static i64 size(i64) { return 0; }
};
template <>
struct Argument<double> {
    static double from(const void* object) { return python.as_number(object); }
    static i64 size(double) { return 0; }
};
template <class T>
struct Argument<T*> {
    static T* from(const void* object) { return reinterpret_cast<T*>(python.as_integer(object)); }
    static i64 size(T*) { return 0; }
};
// The number of elements that a function works on which takes addresses instead of arrays.
struct Elements {
    i64 count;
};
template <>
struct Argument<Elements> {
    static Elements from(const void* object) { return {python.as_integer(object)}; }
    static i64 size(Elements elements) { return elements.count; }
};
template <>
struct Argument<const Array&> {
    static const Array& from(const void* object) { return array_of(object); }
    static i64 size(const Array& array) { return array.size(); }
};

// All remaining arguments, which are arrays. The last parameter of a function may have this type.
struct Arrays {
    const void* const* objects;
    i64 count;

    const Array& operator[](i64 k) const { return array_of(objects[k]); }
};
template <>
struct Argument<Arrays> {
    static i64 size(const Arrays& arrays) { return arrays[arrays.count - 1].size(); }
};

// Releases the GIL for the lifetime of the object, if there is enough work.
class WithoutGil {
public:
    explicit WithoutGil(bool releases) : state_(releases ? python.release() : nullptr) {}
    // While the interpreter ends, `acquire` ends a daemon thread by unwinding its stack, which may not stop here.
    ~WithoutGil() noexcept(false) {
        if (state_) python.acquire(state_);
    }

private:
    void* state_;
};

// A function as a built-in function with positional arguments (METH_FASTCALL). It keeps the GIL for small arrays, or for
// a small number of elements. Memory that it cannot get is a MemoryError.
template <auto function>
struct Builtin;

template <class R, class... A, R (*function)(A...)>
struct Builtin<function> {
    static void* run(void*, const void* const* objects, intptr_t count) {
        constexpr intptr_t parameters = sizeof...(A);
        if (takes_rest ? count >= parameters : count == parameters) {
            try {
                return convert(objects, count, std::index_sequence_for<A...>());
            } catch (const std::bad_alloc&) {
                return python.set_memory_error();
            }
        }
        python.set_argument_error();
        return nullptr;
    }

private:
    static constexpr i64 small = 1 << 12;  // elements of all arrays
    static constexpr bool takes_rest = (std::is_same<A, Arrays>::value || ...);
    static constexpr bool has_size =
        takes_rest || ((std::is_same<A, const Array&>::value || std::is_same<A, Elements>::value) || ...);

    template <class T>
    static decltype(auto) read(const void* const* objects, i64 count, i64 i) {
        if constexpr (std::is_same<T, Arrays>::value) return Arrays{objects + i, count - i};
        else return Argument<T>::from(objects[i]);
    }

    template <std::size_t... i>
    static void* convert(const void* const* objects, i64 count, std::index_sequence<i...>) {
        return call(read<A>(objects, count, i)...);
    }

    static void* call(A... arguments) {
        if (python.error()) return nullptr;
        if constexpr (std::is_void<R>::value) {
            compute(arguments...);
            python.add_reference(python.none);
            return python.none;
        } else if constexpr (std::is_same<R, bool>::value) {
            return python.from_bool(compute(arguments...));
        } else {
            return python.from_integer(compute(arguments...));
        }
    }

    static R compute(A... arguments) {
        const WithoutGil guard(!has_size || (Argument<A>::size(arguments) + ... + 0) >= small);
        return function(arguments...);
    }
};

// Arguments of a kernel apart from its arrays: the shape of the matrices, the number of parts (usually rows) into which
// the work is divided, and numbers whose meaning depends on the kernel.
struct Work {
    i64 parts, height, width, inner, cycle;
    double number;
};

// The function that Python calls for a kernel: its work, the number of elements, how many of them are worth a thread, the
// number of threads, and the kernel's arrays. It does nothing and returns false if an array is not contiguous.
template <auto kernel>
struct Entry;

template <class... A, void (*kernel)(const Work&, i64, i64, A...)>
struct Entry<kernel> {
    template <class>
    using Object = const Array&;

    static bool run(i64 parts, i64 height, i64 width, i64 inner, i64 cycle, double number, i64 size, i64 worth_a_thread,
                    i64 threads, Object<A>... arrays) {
        if (!((arrays.is_contiguous() && arrays.is_aligned()) && ...)) return false;
        const Work work{parts, height, width, inner, cycle, number};
        const i64 grain = size > 0 ? worth_a_thread * parts / size : 1;
        spread(parts, grain > 1 ? grain : 1, 1, threads, [&](i64 start, i64 stop) {
            kernel(work, start, stop, reinterpret_cast<A>(arrays.data)...);
        });
        return true;
    }
};

}  // namespace gradcore

// The address of a function, as a built-in function.
#define BUILTIN(name, ...) \
    extern "C" const void* name; \
    const void* name = reinterpret_cast<const void*>(&gradcore::Builtin<__VA_ARGS__>::run);
// The same for kernels, by the character of NumPy's dtype.
#define KERNEL(name, char, ...) BUILTIN(name##_##char, &gradcore::Entry<&gradcore::name<__VA_ARGS__>>::run)
#define FLOAT_KERNEL(name) KERNEL(name, f, float) KERNEL(name, d, double)
