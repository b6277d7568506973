// The pool is never destroyed: threads that wait in it end with the process. The child of a fork, which has none of its
// parent's threads, makes a new one.

#include "pool.h"

#include "subnormals.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace gradcore {

bool place_threads = true;

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

// `patience` is the time for which a thread polls for work before it sleeps. Waking takes 20 to 50 microseconds, and
// costs the caller about 7 in a virtual machine. If work has come often, a thread polls for `patience_with_more`. The
// caller polls for the end of the other threads' work for `patience_of_caller`, plus a quarter of the time of its own
// work.
constexpr microseconds patience{250}, patience_with_more{2000}, patience_of_caller{50};
// The other threads are late if they take more than `lateness` longer than one and a half times the caller's time. They
// then have no cores to themselves, because threads of BLAS keep cores busy for some time after a product. Callers then
// work alone for a while. This rest is twice as long as the last one, and gets shorter each time the threads are not
// late.
constexpr microseconds lateness{200}, least_rest{2000}, longest_rest{64000};

// The largest number of sections into which the numbers are divided.
constexpr int64_t most_sections = 64;

thread_local bool at_work = false;  // set within `share`, whose nested calls stay in their thread

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Poll `done()` until it returns true, or until the time is up.
template <class F>
bool look(Clock::duration time, F done) {
    const auto end = Clock::now() + time;
    do {
        for (int i = 0; i < 32; ++i) {
            if (done()) return true;
            relax();
        }
    } while (Clock::now() < end);
    return done();
}

class Pool {
public:
    void run(int64_t count, int64_t threads, void (*function)(const void*, int64_t), const void* work);
    void hush() { hushed_ = true; }

private:
    void work_from(int64_t own);
    void take_numbers(int64_t own);
    bool nothing_left() const;
    void start(int64_t others);
    void place();
    void live(int64_t number);
    void wait_for_others(Clock::duration worked);
    void judge(Clock::duration worked, Clock::duration waited);

    std::mutex caller_;  // held by the caller for which the other threads work
    std::vector<pthread_t> threads_;
    int away_from_ = -1;  // the core that the threads may not use
    // The number of threads that have a core on which to poll for work.
    std::atomic<int64_t> looking_{std::max<int64_t>(std::thread::hardware_concurrency(), 2) - 1};

    // The current job. It is written while `open_` is false and no thread is inside.
    void (*function_)(const void*, int64_t) = nullptr;
    const void* work_ = nullptr;
    int64_t count_ = 0, wanted_ = 0, sections_ = 0;
    bool flushes_ = false;  // whether the caller's CPU replaces subnormal numbers by zeros
    struct alignas(64) Next {
        std::atomic<int64_t> number{0};
    };
    Next next_[most_sections];

    std::atomic<bool> open_{false};     // whether threads may join the job
    std::atomic<bool> failed_{false};   // whether a thread lacked memory for it
    std::atomic<int64_t> inside_{0};    // number of threads that work on it
    std::atomic<int64_t> job_{0};       // number of jobs so far
    std::atomic<int64_t> sleeping_{0};  // number of threads that wait for `wake_`
    std::atomic<bool> waited_for_{false};
    std::atomic<bool> hushed_{false};  // whether threads must not poll for work
    std::mutex sleep_;
    std::condition_variable wake_, done_;

    Clock::time_point rests_until_{};
    microseconds rest_{least_rest};
};

void alone(int64_t count, void (*function)(const void*, int64_t), const void* work) {
    for (int64_t i = 0; i < count; ++i) function(work, i);
}

void Pool::run(int64_t count, int64_t threads, void (*function)(const void*, int64_t), const void* work) {
    const std::unique_lock<std::mutex> held(caller_, std::try_to_lock);
    const auto begin = Clock::now();
    if (!held || begin < rests_until_) return alone(count, function, work);
    start(threads - 1);
    place();
    function_ = function, work_ = work, count_ = count, wanted_ = threads - 1;
    flushes_ = flushes_subnormals();
    sections_ = std::min(threads, most_sections);
    for (int64_t s = 0; s < sections_; ++s) next_[s].number = count * s / sections_;
    failed_ = false;
    open_ = true;
    hushed_ = false;
    ++job_;
    if (sleeping_ > 0) {
        { const std::lock_guard<std::mutex> lock(sleep_); }
        wake_.notify_all();
    }
    at_work = true;
    work_from(0);
    at_work = false;
    open_ = false;
    const auto end = Clock::now();
    wait_for_others(end - begin);
    judge(end - begin, Clock::now() - end);
    if (failed_) throw std::bad_alloc();
}

// Do a thread's part of the job. A thread of the pool may not end by an exception, and the caller may not return before the
// others: so memory that one of them lacks is an exception in the caller, when all are done.
void Pool::work_from(int64_t own) {
    try {
        take_numbers(own);
    } catch (const std::bad_alloc&) {
        failed_ = true;
    }
}

// Each thread begins with its own section, which is the same in each call, so that the memory it wrote last time is in
// its cache. A thread takes numbers from the section of another thread only if that one is missing or far behind,
// because writing to cache lines of another core costs ten times as much.
void Pool::take_numbers(int64_t own) {
    const auto begin = Clock::now();
    bool waited = false;
    for (int64_t k = 0; k < sections_; ++k) {
        const int64_t section = (own + k) % sections_, end = count_ * (section + 1) / sections_;
        const int64_t next = next_[section].number;
        if (k > 0 && !waited && next > count_ * section / sections_ && next < end) {
            waited = true;
            if (look((Clock::now() - begin) / 4, [this] { return nothing_left(); })) return;
        }
        for (int64_t i; (i = next_[section].number++) < end;) function_(work_, i);
    }
}

bool Pool::nothing_left() const {
    for (int64_t s = 0; s < sections_; ++s) {
        if (next_[s].number < count_ * (s + 1) / sections_) return false;
    }
    return true;
}

void Pool::start(int64_t others) {
    while (static_cast<int64_t>(threads_.size()) < others) {
        try {
            threads_.reserve(others);  // so that no thread that has begun is lost
            std::thread made([this, number = static_cast<int64_t>(threads_.size())] { live(number); });
            threads_.push_back(made.native_handle());
            made.detach();
            away_from_ = -1;
        } catch (const std::exception&) {  // the system allows no further threads, or there is no memory
            return;
        }
    }
}

// Keep the threads away from the core of the caller, and from the cores of each other. Otherwise Linux wakes a thread
// on the core of the thread that wakes it, where the two take turns.
void Pool::place() {
#if defined(__linux__)
    const int core = place_threads ? sched_getcpu() : -1;
    cpu_set_t allowed;
    if (core == away_from_ || core < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    away_from_ = core;
    CPU_CLR(core, &allowed);
    const int cores = CPU_COUNT(&allowed), others = static_cast<int>(threads_.size());
    looking_ = cores;
    for (int number = 0; cores > 0 && number < others; ++number) {
        cpu_set_t own;
        CPU_ZERO(&own);
        for (int c = 0, seen = 0; c < CPU_SETSIZE; ++c) {
            if (CPU_ISSET(c, &allowed) && seen++ % others == number % cores) CPU_SET(c, &own);
        }
        pthread_setaffinity_np(threads_[number], sizeof own, &own);
    }
#endif
}

void Pool::wait_for_others(Clock::duration worked) {
    const auto nobody = [this] { return inside_ == 0; };
    if (look(patience_of_caller + worked / 4, nobody)) return;
    std::unique_lock<std::mutex> lock(sleep_);
    waited_for_ = true;
    done_.wait(lock, nobody);
    waited_for_ = false;
}

void Pool::judge(Clock::duration worked, Clock::duration waited) {
    if (waited < lateness + worked / 2) {
        rest_ = std::max(least_rest, rest_ - rest_ / 16);
    } else {
        rests_until_ = Clock::now() + rest_;
        rest_ = std::min(longest_rest, rest_ * 2);
    }
}

void Pool::live(int64_t number) {
    at_work = true;
    bool often = false;
    for (int64_t seen = 0;;) {
        const auto more = [&] { return job_ != seen; };
        const auto begin = Clock::now();
        const auto time = number >= looking_ ? microseconds{0} : often ? patience_with_more : patience;
        if (!look(time, [&] { return more() || hushed_; }) || !more()) {
            std::unique_lock<std::mutex> lock(sleep_);
            ++sleeping_;
            wake_.wait(lock, more);
            --sleeping_;
        }
        often = Clock::now() - begin < patience_with_more;
        seen = job_;
        ++inside_;
        if (open_ && number < wanted_) {
            if (flushes_subnormals() != flushes_) flush_subnormals(flushes_);
            work_from(number + 1);
        }
        if (--inside_ == 0 && waited_for_) {
            { const std::lock_guard<std::mutex> lock(sleep_); }
            done_.notify_all();
        }
    }
}

std::atomic<Pool*> pool{nullptr};

Pool& the_pool() {
    static const int registered = pthread_atfork(nullptr, nullptr, [] { pool = nullptr; });
    (void)registered;
    Pool* found = pool;
    if (found == nullptr) {
        Pool* made = new Pool;
        if (pool.compare_exchange_strong(found, made)) return *made;
        delete made;  // another thread was faster
    }
    return *found;
}

}  // namespace

void share(int64_t count, int64_t threads, void (*function)(const void*, int64_t), const void* work) {
    if (count < 2 || threads < 2 || at_work) return alone(count, function, work);
    the_pool().run(count, threads, function, work);
}

}  // namespace gradcore

// Whether threads are kept on different cores.
extern "C" void gradcore_place_threads(bool place) { gradcore::place_threads = place; }

// Stop all threads from polling until there is work, so that other programs can use their cores.
extern "C" void gradcore_hush_threads() {
    if (gradcore::Pool* found = gradcore::pool) found->hush();
}

// Whether the CPU replaces subnormal numbers by zeros in this thread.
extern "C" bool gradcore_flushes_subnormals() { return gradcore::flushes_subnormals(); }

// Set whether it does, in this thread and in the others while they work for it. Return whether that is possible.
extern "C" bool gradcore_flush_subnormals(bool on) {
    gradcore::flush_subnormals(on);
    return gradcore::can_flush_subnormals;
}

// `share`, for libraries that are loaded later.
extern "C" void gradcore_share(int64_t count, int64_t threads, void (*function)(const void*, int64_t), const void* work) {
    gradcore::share(count, threads, function, work);
}
