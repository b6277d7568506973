// Memory of C++ that ends: `operator new` throws from a chosen allocation on.

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> left{-1};  // allocations before those that fail; -1 if none fails

void* allocate(std::size_t size, std::size_t alignment) {
    for (long number = left; number >= 0;) {
        if (number == 0) throw std::bad_alloc();
        if (left.compare_exchange_weak(number, number - 1)) break;
    }
    return std::aligned_alloc(alignment, (size + alignment) / alignment * alignment);
}

}  // namespace

extern "C" void fail_after(long count) { left = count; }

void* operator new(std::size_t size) { return allocate(size, 16); }
void* operator new[](std::size_t size) { return allocate(size, 16); }
void* operator new(std::size_t size, std::align_val_t to) { return allocate(size, static_cast<std::size_t>(to)); }
void* operator new[](std::size_t size, std::align_val_t to) { return allocate(size, static_cast<std::size_t>(to)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
