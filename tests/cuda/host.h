// CUDA's words for C++: what kernels need to be compiled and run by g++.
//
// A kernel is launched block by block. The threads of a block take turns: each runs until it waits at a barrier, for its
// block or its warp, and goes on when all that still run have come to it. If no thread can go on, the barrier is one
// that not all threads reach, which would hang or be undefined on a GPU: the program ends with a message.
//
// In the environment, GRADCORE_TEST_ORDER says in which order warps, and threads of a warp, take their turns: -1 is
// backwards, other numbers but 0 are seeds of random orders. Results that depend on it need a barrier. GRADCORE_TEST_BLOCKS is how many blocks of
// a launch run, the last ones.

#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <typeinfo>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
// Shared memory is one section. The compiler sees a name of its own for each variable, as variables of templates and others
// may not be in one section; for the assembler, all after # is a comment. (Before GCC 14, templates ignore the attribute.)
#define NUMBER_AS_TEXT(number) #number
#ifdef __x86_64__
#define SECTION_OF(number) "shared_memory,\"aw\",@progbits#" NUMBER_AS_TEXT(number)
#else
#define SECTION_OF(number) "shared_memory"
#endif
#define __shared__ static __attribute__((section(SECTION_OF(__COUNTER__))))
#define __restrict__ __restrict
#define __CUDA_ON_HOST__ 1

struct dim3 {
    unsigned x, y, z;
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;

// ---------------------------------------------------------------------------------------------------- mathematics

using std::abs; using std::acos; using std::acosh; using std::asin; using std::asinh; using std::atan; using std::atan2;
using std::atanh; using std::ceil; using std::copysign; using std::cos; using std::cosh; using std::erf; using std::erfc;
using std::exp; using std::exp2; using std::expm1; using std::fabs; using std::floor; using std::fmod; using std::hypot;
using std::ldexp; using std::lgamma; using std::log; using std::log10; using std::log1p; using std::log2;
using std::nextafter; using std::pow; using std::rint; using std::sin; using std::sinh; using std::sqrt; using std::tan;
using std::tanh; using std::trunc; using std::signbit; using std::isnan; using std::isinf; using std::isfinite; using std::fma;

// Functions that CUDA has and C++ has not, by the textbook.
inline double erfcx(double x) {
    if (x < 20) return std::exp(x * x) * std::erfc(x);
    const double z = 1 / (2 * x * x);
    return (1 - z * (1 - 3 * z * (1 - 5 * z * (1 - 7 * z)))) / (x * 1.7724538509055160273);
}
inline double normcdfinv(double p) {
    if (!(p > 0 && p < 1)) return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    double low = -40, high = 40;
    for (int i = 0; i < 200; ++i) {
        const double middle = (low + high) / 2;
        const double below = std::erfc(-middle * 0.70710678118654752440) / 2;
        (below < p ? low : high) = middle;
    }
    return (low + high) / 2;
}
inline double erfinv(double y) {
    if (!(y > -1 && y < 1)) return y == 1 ? INFINITY : y == -1 ? -INFINITY : NAN;
    double low = -10, high = 10;
    for (int i = 0; i < 200; ++i) {
        const double middle = (low + high) / 2;
        (std::erf(middle) < y ? low : high) = middle;
    }
    return (low + high) / 2;
}
inline double cyl_bessel_i0(double x) { return std::cyl_bessel_i(0.0, std::fabs(x)); }
inline double cyl_bessel_i1(double x) { return std::copysign(std::cyl_bessel_i(1.0, std::fabs(x)), x); }
#define ON_FLOAT(name) inline float name(float x) { return static_cast<float>(name(static_cast<double>(x))); }
ON_FLOAT(erfcx) ON_FLOAT(normcdfinv) ON_FLOAT(erfinv) ON_FLOAT(cyl_bessel_i0) ON_FLOAT(cyl_bessel_i1)
inline float j0(float x) { return static_cast<float>(::j0(static_cast<double>(x))); }
inline float j1(float x) { return static_cast<float>(::j1(static_cast<double>(x))); }
inline float y0(float x) { return static_cast<float>(::y0(static_cast<double>(x))); }
inline float y1(float x) { return static_cast<float>(::y1(static_cast<double>(x))); }
inline float rsqrt(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }

// ---------------------------------------------------------------------------------------- the threads of a block

extern "C" char __start_shared_memory[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_shared_memory[] __attribute__((weak, visibility("hidden")));

namespace host {

// Taking turns is most of the time of a launch: it is compiled with optimization, whether kernels are or not.
#pragma GCC push_options
#pragma GCC optimize("O2")

enum Waiting { running, at_block, at_warp, finished };

constexpr size_t stack_size = 64 << 10;

#if defined(__x86_64__) && defined(__linux__)
// A stack that waits for its turn: what the calling convention keeps lies on it. `swapcontext` would make a system call
// for each change, which took most of the time of a launch.
struct Context {
    void* top;
};
extern "C" __attribute__((visibility("hidden"))) void gradcore_change_stacks(void** from, void* to);
asm(".text\n"
    "gradcore_change_stacks:\n"
    "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
    "movq %rsp, (%rdi)\n"
    "movq %rsi, %rsp\n"
    "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
    "ret\n");
inline void change(Context& from, Context& to) { gradcore_change_stacks(&from.top, to.top); }
inline void prepare(Context& context, char* stack, void (*function)()) {
    void** top = reinterpret_cast<void**>(stack + stack_size) - 2;  // as a call leaves it: 8 bytes from a multiple of 16
    *top = reinterpret_cast<void*>(function);
    context.top = top - 6;
}
#else
using Context = ucontext_t;
inline void change(Context& from, Context& to) { swapcontext(&from, &to); }
inline void prepare(Context& context, char* stack, void (*function)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = stack_size;
    context.uc_link = nullptr;
    makecontext(&context, function, 0);
}
#endif

struct Fiber {
    Context context;
    Waiting state;
    dim3 place;
    char* stack;  // from its first turn until it has finished
};

constexpr unsigned most_threads = 1024;  // of a block, on every device

static Context scheduler;
static Fiber fibers[most_threads];
static char* free_stacks[most_threads];
static unsigned current, count, free_count;

// The stacks of a block's threads: pages that no thread touches cost nothing, and those touched go when the launch ends.
struct Stacks {
    const size_t size;
    char* const memory;

    explicit Stacks(size_t threads)
        : size(threads * stack_size),
          memory(static_cast<char*>(
              mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
        if (memory != MAP_FAILED) return;
        std::perror("there is no memory for the stacks of a block's threads");
        std::abort();
    }
    Stacks(const Stacks&) = delete;
    ~Stacks() { munmap(memory, size); }
};
static unsigned char exchange[most_threads][16];
static void (*body)(void*);
static void* body_arguments;

inline void start() {
    body(body_arguments);
    fibers[current].state = finished;
    change(fibers[current].context, scheduler);
}

inline void wait(Waiting barrier) {
    fibers[current].state = barrier;
    change(fibers[current].context, scheduler);
}

inline bool all_at(unsigned first, unsigned last, Waiting barrier) {
    for (unsigned i = first; i < last; ++i)
        if (fibers[i].state != barrier && fibers[i].state != finished) return false;
    return true;
}

inline bool release(unsigned first, unsigned last, Waiting barrier) {
    bool any = false;
    for (unsigned i = first; i < last; ++i) {
        if (fibers[i].state != barrier) continue;
        fibers[i].state = running;
        any = true;
    }
    return any;
}

// The number in a variable of the environment; 0 if there is none.
inline long long setting(const char* name) {
    const char* text = std::getenv(name);
    return text ? std::atoll(text) : 0;
}

// The order in which turns are taken, of numbers from first to last, the latter exclusive.
struct Turns {
    const unsigned first, size;
    const long long order;
    unsigned drawn[32];  // threads of a warp, or warps of a block

    Turns(unsigned first, unsigned last, long long order, unsigned long long& state)
        : first(first), size(last - first), order(order) {
        if (order <= 0) return;
        for (unsigned i = 0; i < size; ++i) drawn[i] = first + i;
        for (unsigned i = size; i > 1; --i) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            const unsigned other = (state >> 33) % i, number = drawn[i - 1];
            drawn[i - 1] = drawn[other];
            drawn[other] = number;
        }
    }
    unsigned operator[](unsigned i) const { return order > 0 ? drawn[i] : order < 0 ? first + size - 1 - i : first + i; }
};

// Run the threads of a warp until each waits for its block or is done; whether any of them has moved. Other warps do not
// move meanwhile: the first warp is as far ahead of them as barriers allow.
inline bool run_warp(unsigned first, unsigned last, long long order, unsigned long long& state) {
    for (bool moved = false;; moved = true) {
        bool ran = false;
        const Turns turns(first, last, order, state);
        for (unsigned turn = 0; turn < turns.size; ++turn) {
            const unsigned i = turns[turn];
            Fiber& fiber = fibers[i];
            if (fiber.state != running) continue;
            current = i;
            threadIdx = fiber.place;
            if (!fiber.stack) {  // where threads do not wait, one stack serves them all
                fiber.stack = free_stacks[--free_count];
                prepare(fiber.context, fiber.stack, start);
            }
            change(scheduler, fiber.context);
            if (fiber.state == finished) free_stacks[free_count++] = fiber.stack;
            ran = true;
        }
        if (all_at(first, last, at_warp)) ran |= release(first, last, at_warp);
        if (!ran) return moved;
    }
}

inline void run_block(void (*function)(void*), void* arguments, char* stacks, long long order) {
    body = function;
    body_arguments = arguments;
    if (__start_shared_memory)  // what a block finds there is anything
        std::memset(__start_shared_memory, 0xFF, __stop_shared_memory - __start_shared_memory);
    count = blockDim.x * blockDim.y * blockDim.z;
    if (count > most_threads) {
        std::fprintf(stderr, "a block of %u threads\n", count);
        std::abort();
    }
    free_count = count;
    for (unsigned i = 0; i < count; ++i) {
        Fiber& fiber = fibers[i];
        fiber.stack = nullptr;
        fiber.state = running;
        fiber.place = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
        free_stacks[i] = stacks + (count - 1 - i) * stack_size;
    }
    unsigned long long state = static_cast<unsigned long long>(order) + blockIdx.x;
    for (;;) {
        bool moved = false, alive = false;
        const Turns warps(0, (count + 31) / 32, order, state);
        for (unsigned turn = 0; turn < warps.size; ++turn)
            moved |= run_warp(32 * warps[turn], std::min(32 * warps[turn] + 32, count), order, state);
        if (all_at(0, count, at_block)) moved |= release(0, count, at_block);
        for (unsigned i = 0; i < count; ++i) alive |= fibers[i].state != finished;
        if (!alive) return;
        if (!moved) {
            std::fprintf(stderr, "threads of a block wait at a barrier that not all of them reach\n");
            std::abort();
        }
    }
}

#pragma GCC pop_options

template <class T>
T shuffled(T value, unsigned from) {
    static_assert(sizeof(T) <= 16, "a register");
    std::memcpy(exchange[current], &value, sizeof(T));
    wait(at_warp);
    T result;
    const unsigned lane = current / 32 * 32 + from % 32;
    std::memcpy(&result, exchange[lane < count ? lane : current], sizeof(T));
    wait(at_warp);
    return result;
}

}  // namespace host

inline void __syncthreads() { host::wait(host::at_block); }
inline void __syncwarp(unsigned = 0xFFFFFFFF) { host::wait(host::at_warp); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int lanes) {
    return host::shuffled(value, (host::current % 32) ^ lanes);
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned lanes) {
    const unsigned lane = host::current % 32;
    return host::shuffled(value, lane + lanes < 32 ? lane + lanes : lane);
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned lanes) {
    const unsigned lane = host::current % 32;
    return host::shuffled(value, lane >= lanes ? lane - lanes : lane);
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
    return host::shuffled(value, lane);
}
inline unsigned __ballot_sync(unsigned, int value) {
    using namespace host;
    exchange[current][0] = value != 0;
    wait(at_warp);
    const unsigned first = current / 32 * 32;
    unsigned found = 0;
    for (unsigned lane = 0; lane < 32 && first + lane < count; ++lane) found |= static_cast<unsigned>(exchange[first + lane][0]) << lane;
    wait(at_warp);
    return found;
}
inline int __ffs(int bits) { return __builtin_ffs(bits); }
template <class T>
T atomicAdd(T* place, T value) {
    const T old = *place;
    *place += value;
    return old;
}
template <class T>
T atomicCAS(T* place, T expected, T value) {
    const T old = *place;
    if (old == expected) *place = value;
    return old;
}
template <class T>
T atomicOr(T* place, T value) {
    const T old = *place;
    *place |= value;
    return old;
}
template <class T>
T atomicMax(T* place, T value) {
    const T old = *place;
    *place = value > old ? value : old;
    return old;
}
template <class T>
T atomicMin(T* place, T value) {
    const T old = *place;
    *place = value < old ? value : old;
    return old;
}
template <class T>
T __ldg(const T* place) {
    return *place;
}

// --------------------------------------------------------------------------------------------------- launching

namespace host {

template <class... A>
struct Call {
    void (*kernel)(A...);
    void** arguments;

    template <size_t... I>
    void with(std::index_sequence<I...>) {
        kernel(*static_cast<std::remove_const_t<A>*>(arguments[I])...);
    }
    static void run(void* self) { static_cast<Call*>(self)->with(std::index_sequence_for<A...>()); }
};

template <class... A>
void launch(void (*kernel)(A...), const unsigned* dims, void** arguments) {
    gridDim = {dims[0], dims[1], dims[2]};
    blockDim = {dims[3], dims[4], dims[5]};
    Call<A...> call{kernel, arguments};
    const unsigned long long x = gridDim.x, y = gridDim.y, blocks = x * y * gridDim.z;
    const unsigned long long wanted = static_cast<unsigned long long>(setting("GRADCORE_TEST_BLOCKS"));
    const long long order = setting("GRADCORE_TEST_ORDER");
    const Stacks stacks(size_t(blockDim.x) * blockDim.y * blockDim.z);
    for (unsigned long long i = wanted && wanted < blocks ? blocks - wanted : 0; i < blocks; ++i) {
        blockIdx = {static_cast<unsigned>(i % x), static_cast<unsigned>(i / x % y), static_cast<unsigned>(i / x / y)};
        run_block(Call<A...>::run, &call, stacks.memory, order);
    }
}

template <class... A>
const char* types(void (*)(A...)) {
    static const std::string names = ((std::string(typeid(A).name()) + " ") + ... + std::string());
    return names.c_str();
}

template <class... A>
const size_t* sizes(void (*)(A...)) {
    static const size_t found[] = {sizeof(A)..., 0};
    return found;
}

}  // namespace host

#define LAUNCHER(name)                                                                                          \
    extern "C" void launch_##name(const unsigned* dims, void** arguments) { host::launch(&name, dims, arguments); } \
    extern "C" const char* types_##name() { return host::types(&name); }                                            \
    extern "C" const size_t* sizes_##name() { return host::sizes(&name); }
