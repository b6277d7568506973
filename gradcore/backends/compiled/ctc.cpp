// Connectionist temporal classification. Each thread computes whole sequences, one after the other.

#include <cstring>
#include <memory>

#include "calls.h"

namespace gradcore {
namespace {

// The logarithm of a probability of zero, as in Python.
template <class T>
constexpr T never = T(-1e30);

// Arguments shared by all sequences of a call.
struct Problem {
    i64 steps, batch, classes, positions, blank, threads;
};

template <class T>
T* data(const Array& array) {
    return reinterpret_cast<T*>(array.data);
}

// Rows of a sequence's positions, with room for predecessors or successors beyond the ends.
template <class T>
class Row {
public:
    Row(i64 count, i64 before, T fill) : data_(new T[count + 2]), start(data_.get() + before) {
        for (i64 s = 0; s < count + 2; ++s) data_[s] = fill;
    }

private:
    std::unique_ptr<T[]> data_;

public:
    T* start;
};

// Zero where the label two positions before is a predecessor, because the blank between them may be skipped.
template <class T>
void find_hops(const Problem& p, const i64* labels, T* hops) {
    for (i64 s = 2; s < p.positions; ++s) {
        hops[s] = labels[s] != p.blank && labels[s] != labels[s - 2] ? T(0) : never<T>;
    }
}

// Read the log-probabilities of the labels at all positions.
template <class T>
INLINE void read_scores(const T* log_probs, const i64* labels, i64 n, T* scores) {
    for (i64 s = 0; s < n; ++s) scores[s] = log_probs[labels[s]];
}

template <class T>
void losses_of(const Problem& p, i64 begin, i64 end, const T* log_probs, const i64* all_labels, const bool* all_ends,
               const i64* counts, T* losses, T* alphas) {
    const i64 n = p.positions;
    Row<T> before(n, 2, never<T>), hops(n, 0, never<T>), scores(n, 0, T(0));
    for (i64 b = begin; b < end; ++b) {
        const i64* labels = all_labels + b * n;
        find_hops(p, labels, hops.start);
        T *previous = before.start, *hop = hops.start, *score = scores.start;
        for (i64 t = 0; t < p.steps; ++t) {
            T* alpha = alphas + (t * p.batch + b) * n;
            read_scores(log_probs + (t * p.batch + b) * p.classes, labels, n, score);
            if (t == 0) {
                for (i64 s = 0; s < n; ++s) alpha[s] = s < 2 ? score[s] : never<T>;
            } else if (t < counts[b]) {
#pragma omp simd
                for (i64 s = 0; s < n; ++s) {
                    const T stay = previous[s], step = previous[s - 1], skip = previous[s - 2] + hop[s];
                    const T top = maximum(maximum(maximum(stay, step), skip), never<T>);
                    const T total = exponential_below_one(stay - top) + exponential_below_one(step - top) +
                                    exponential_below_one(skip - top);
                    alpha[s] = log(total) + top + score[s];
                }
            } else {
                std::memcpy(alpha, previous, n * sizeof(T));
            }
            std::memcpy(previous, alpha, n * sizeof(T));
        }
        T top = never<T>, total = 0;
        for (i64 s = 0; s < n; ++s)
            if (all_ends[b * n + s]) top = maximum(previous[s], top);
        for (i64 s = 0; s < n; ++s)
            if (all_ends[b * n + s]) total += exponential_below_one(previous[s] - top);
        losses[b] = -(log(total) + top);
    }
}

template <class T>
void gradient_of(const Problem& p, i64 begin, i64 end, const T* grad, const T* log_probs, const i64* all_labels,
                 const bool* all_ends, const i64* counts, const T* losses, const T* alphas, T* out) {
    const i64 n = p.positions;
    Row<T> flows(n, 0, T(0)), totals(n, 0, -never<T>), scores(n, 0, T(0)), hops(n, 0, never<T>), next(n, 0, T(0));
    for (i64 b = begin; b < end; ++b) {
        const i64* labels = all_labels + b * n;
        find_hops(p, labels, hops.start);
        T *flow = flows.start, *total = totals.start, *score = scores.start, *found = next.start;
        const T *hop = hops.start + 2, *last = alphas + ((p.steps - 1) * p.batch + b) * n;
        for (i64 s = 0; s < n; ++s) {
            const T share = exponential_below_one(last[s] + losses[b]);
            flow[s] = all_ends[b * n + s] ? -grad[b] * share : T(0);
        }
        for (i64 t = p.steps - 1; t > 0; --t) {
            if (t >= counts[b]) continue;
            const i64 row = t * p.batch + b;
            const T *alpha = alphas + row * n, *before = alphas + (row - p.batch) * n;
            T* to = out + row * p.classes;
            read_scores(log_probs + row * p.classes, labels, n, score);
#pragma omp simd
            for (i64 s = 0; s < n; ++s) {
                flow[s] = chosen(alpha[s] <= never<T> / 2, T(0), flow[s]);
                total[s] = alpha[s] - score[s];
            }
            for (i64 s = 0; s < n; ++s) to[labels[s]] += flow[s];
#pragma omp simd
            for (i64 s = 0; s < n; ++s) {  // differences are at most 0 unless neither position is reached
                const T stay = before[s] - total[s], step = before[s] - total[s + 1], skip = before[s] - total[s + 2];
                found[s] = flow[s] * exponential_below_one(chosen(stay < 0, stay, T(0))) +
                           flow[s + 1] * exponential_below_one(chosen(step < 0, step, T(0))) +
                           flow[s + 2] * exponential_below_one(chosen(skip < 0, skip, T(0)) + hop[s]);
            }
            std::memcpy(flow, found, n * sizeof(T));
        }
        for (i64 s = 0; s < n && s < 2; ++s) out[b * p.classes + labels[s]] += flow[s];
    }
}

template <class F>
void each_sequence(const Problem& p, const F& work) {
    constexpr i64 grain = 1 << 12;  // positions, over all steps, that are worth a thread
    spread(p.batch, grain / (p.steps * p.positions) + 1, 1, p.threads, work);
}

// Labels and counts are of int64, ends are bools; all arrays are contiguous.
template <class T>
void ctc(i64 steps, i64 batch, i64 classes, i64 positions, i64 blank, i64 threads, const Array& log_probs,
         const Array& labels, const Array& ends, const Array& counts, const Array& losses, const Array& alphas) {
    const Problem p{steps, batch, classes, positions, blank, threads};
    each_sequence(p, [&](i64 begin, i64 end) {
        losses_of(p, begin, end, data<const T>(log_probs), data<const i64>(labels), data<const bool>(ends),
                  data<const i64>(counts), data<T>(losses), data<T>(alphas));
    });
}

template <class T>
void ctc_back(i64 steps, i64 batch, i64 classes, i64 positions, i64 blank, i64 threads, const Array& grad,
              const Array& log_probs, const Array& labels, const Array& ends, const Array& counts, const Array& losses,
              const Array& alphas, const Array& out) {
    const Problem p{steps, batch, classes, positions, blank, threads};
    each_sequence(p, [&](i64 begin, i64 end) {
        gradient_of(p, begin, end, data<const T>(grad), data<const T>(log_probs), data<const i64>(labels),
                    data<const bool>(ends), data<const i64>(counts), data<const T>(losses), data<const T>(alphas),
                    data<T>(out));
    });
}

}  // namespace
}  // namespace gradcore

BUILTIN(gradcore_ctc_f, &gradcore::ctc<float>)
BUILTIN(gradcore_ctc_d, &gradcore::ctc<double>)
BUILTIN(gradcore_ctc_back_f, &gradcore::ctc_back<float>)
BUILTIN(gradcore_ctc_back_d, &gradcore::ctc_back<double>)
