// Memory for arrays of NumPy that begins at a line of the cache. The C library's begins at any multiple of 16 bytes, so that
// most registers are read from two lines and written to two, which takes twice as long.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

// NumPy's `PyDataMem_Handler`.
struct Handler {
    char name[127];
    uint8_t version;
    void* context;
    void* (*allocate)(void*, size_t);
    void* (*allocate_zeros)(void*, size_t, size_t);
    void* (*reallocate)(void*, void*, size_t);
    void (*release)(void*, void*, size_t);
};

// What lies before an array: the memory that was allocated for both, and the size of the array.
struct alignas(16) Head {
    void* allocated;
    size_t size;
};

Head* head_of(void* array) { return static_cast<Head*>(array) - 1; }

#if defined(__SANITIZE_ADDRESS__)
constexpr size_t largest_small = SIZE_MAX;  // arrays then end where the memory does, and accesses beyond them are found
#else
constexpr size_t largest_small = 512;  // such arrays fit a few lines, wherever they begin
#endif

// The begin of an array of `size` bytes, in memory that `get` returns.
template <class F>
void* place(size_t size, const F& get) {
    const size_t line = size <= largest_small ? alignof(Head) : 64;
    const size_t before = sizeof(Head) + line - alignof(std::max_align_t);
    if (size > SIZE_MAX - before) return nullptr;
    void* allocated = get(before + size);
    if (!allocated) return nullptr;
    const auto first = reinterpret_cast<uintptr_t>(allocated) + sizeof(Head);
    void* array = reinterpret_cast<void*>((first + line - 1) / line * line);
    *head_of(array) = {allocated, size};
    return array;
}

void* allocate(void*, size_t size) { return place(size, std::malloc); }

void* allocate_zeros(void*, size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) return nullptr;
    return place(count * size, [](size_t bytes) { return std::calloc(bytes, 1); });
}

void release(void*, void* array, size_t) {
    if (array) std::free(head_of(array)->allocated);
}

void* reallocate(void*, void* array, size_t size) {
    void* moved = allocate(nullptr, size);
    if (moved && array) {
        const size_t before = head_of(array)->size;
        std::memcpy(moved, array, before < size ? before : size);
        release(nullptr, array, before);
    }
    return moved;
}

}  // namespace

// The name by which NumPy knows capsules with a handler. It is read whenever an array is freed, also while the interpreter
// ends, when objects of Python may be gone.
extern "C" const char* gradcore_name_of_memory() { return "mem_handler"; }

extern "C" const void* gradcore_memory() {
    static const Handler handler = {"gradcore", 1, nullptr, allocate, allocate_zeros, reallocate, release};
    return &handler;
}
