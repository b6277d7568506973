// The pool is never destroyed: threads that wait in it end with the process. The child of a fork, which has none of its
// parent's threads, makes a new one.

#include "pool.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace gradcore {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

// How long a thread looks for work before it sleeps, and how long the caller looks for the end of the others' work.
constexpr microseconds patience{100}, patience_of_caller{50};
// How much longer than the caller, and half of its time, the others may take. If they take longer, they have no core to
// themselves (threads of BLAS keep theirs busy for some time after a product), and callers work alone for a while: the
// first of these times, or twice as long as the last time.
constexpr microseconds lateness{200}, first_rest{2000}, longest_rest{64000};

thread_local bool at_work = false;  // for `share`: what it is called for in turn stays in its thread

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Wait until `done()`, for so long at most.
template <class F>
bool look(microseconds time, F done) {
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

private:
    void take_numbers() {
        for (int64_t i; (i = next_++) < count_;) function_(work_, i);
    }
    void live(int64_t number);
    void wait_for_others();
    void judge(Clock::duration worked, Clock::duration waited);

    std::mutex caller_;  // held by the one caller that the others work for

    // What is to be done; written while `open_` is false and nobody is `inside_`.
    void (*function_)(const void*, int64_t) = nullptr;
    const void* work_ = nullptr;
    int64_t count_ = 0, wanted_ = 0, started_ = 0;
    std::atomic<int64_t> next_{0};

    std::atomic<bool> open_{false};     // whether others may come in
    std::atomic<int64_t> inside_{0};    // how many are there
    std::atomic<int64_t> job_{0};       // counts what there was to do
    std::atomic<int64_t> sleeping_{0};  // how many wait for `wake_`
    std::atomic<bool> waited_for_{false};
    std::mutex sleep_;
    std::condition_variable wake_, done_;

    Clock::time_point rests_until_{};
    microseconds rest_{first_rest};
};

void alone(int64_t count, void (*function)(const void*, int64_t), const void* work) {
    for (int64_t i = 0; i < count; ++i) function(work, i);
}

void Pool::run(int64_t count, int64_t threads, void (*function)(const void*, int64_t), const void* work) {
    const std::unique_lock<std::mutex> held(caller_, std::try_to_lock);
    const auto start = Clock::now();
    if (!held || start < rests_until_) return alone(count, function, work);
    for (; started_ < threads - 1; ++started_) {
        try {
            std::thread([this, number = started_] { live(number); }).detach();
        } catch (const std::system_error&) {  // there are as many as the system allows
            break;
        }
    }
    function_ = function, work_ = work, count_ = count, wanted_ = threads - 1;
    next_ = 0;
    open_ = true;
    ++job_;
    if (sleeping_ > 0) {
        { const std::lock_guard<std::mutex> lock(sleep_); }
        wake_.notify_all();
    }
    at_work = true;
    take_numbers();
    at_work = false;
    open_ = false;
    const auto end = Clock::now();
    wait_for_others();
    judge(end - start, Clock::now() - end);
}

void Pool::wait_for_others() {
    const auto nobody = [this] { return inside_ == 0; };
    if (look(patience_of_caller, nobody)) return;
    std::unique_lock<std::mutex> lock(sleep_);
    waited_for_ = true;
    done_.wait(lock, nobody);
    waited_for_ = false;
}

void Pool::judge(Clock::duration worked, Clock::duration waited) {
    if (waited < lateness + worked / 2) {
        rest_ = first_rest;
        return;
    }
    rests_until_ = Clock::now() + rest_;
    rest_ = rest_ * 2 < longest_rest ? rest_ * 2 : longest_rest;
}

void Pool::live(int64_t number) {
    at_work = true;
    for (int64_t seen = 0;;) {
        const auto more = [&] { return job_ != seen; };
        if (!look(patience, more)) {
            std::unique_lock<std::mutex> lock(sleep_);
            ++sleeping_;
            wake_.wait(lock, more);
            --sleeping_;
        }
        seen = job_;
        ++inside_;
        if (open_ && number < wanted_) take_numbers();
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
