// Thread pool of the kernels of this library. Its threads wake within microseconds; those of Python take about fifty.

#pragma once

#include <cstdint>

namespace gradcore {

// Call `function(work, i)` for every i below `count`, each once, in the calling thread and in up to `threads` - 1
// others, and wait for all. A free thread takes the next number, so a thread that comes late does less. If the other
// threads work for another caller, the calling thread does all of the work. If `function` throws `std::bad_alloc` in any
// thread, the calling thread does.
void share(int64_t count, int64_t threads, void (*function)(const void* work, int64_t i), const void* work);

// Call `work(start, stop)`. `spread` calls it for one part and for many: without this function the compiler would copy
// the kernel into both places.
template <class F>
__attribute__((noinline)) void run_part(const F& work, int64_t start, int64_t stop) {
    work(start, stop);
}

// Call `work(start, stop)` for parts of range(count), each of which begins at a multiple of `step`, in up to `threads`
// threads: one for every `grain` elements.
template <class F>
void spread(int64_t count, int64_t grain, int64_t step, int64_t threads, const F& work) {
    constexpr int64_t parts_of_a_thread = 4;
    const int64_t steps = count / step, most = count / grain;
    threads = most < threads ? most : threads;
    if (threads < 2 || steps < 2) return run_part(work, 0, count);
    const int64_t wanted = threads * parts_of_a_thread, parts = steps < wanted ? steps : wanted;
    const auto part = [=, &work](int64_t i) {
        run_part(work, steps * i / parts * step, i + 1 == parts ? count : steps * (i + 1) / parts * step);
    };
    using Part = decltype(part);
    share(parts, threads, [](const void* w, int64_t i) { (*static_cast<Part*>(w))(i); }, &part);
}

}  // namespace gradcore
